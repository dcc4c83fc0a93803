/*-------------------------------------------------------------------------
 *
 * cdc_read_below.c
 *		cdc_read_below(): up to where every target has read a landing table.
 *
 * A target reads the table when its staging is the table, one that it is a
 * partition of or that is a partition of it, or a view over any of these,
 * whatever stands between.  Registry and catalogs are asked by oid: neither
 * names nor what the caller may see come into it, since one target that is
 * missed means rows that it never gets.  Of targets whose recorded staging is
 * not there, and of histories, which have none recorded, their bookmarks speak.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/xid8.h"

#include "cdc_attach.h"
#include "cdc_consume.h"

PG_FUNCTION_INFO_V1(cdc_read_below);

static void
check_landing(Oid landing)
{
	char		relkind = get_rel_relkind(landing);

	if (relkind == '\0')
		cdc_refuse_no_relation(landing);
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s.%s\" is not a table", get_namespace_name(get_rel_namespace(landing)),
						get_rel_name(landing)),
				 errhint("Name the table that the rows are in; who reads it through views is found.")));
}

/*
 * What shows rows of the table: it, tables above and below it, and views over
 * these, as a list of oids.  The search_path is the function's own.
 */
static List *
find_readers(Oid landing)
{
	static const char *const sql =
		"WITH RECURSIVE up (relid) AS (SELECT $1 UNION SELECT i.inhparent FROM up JOIN pg_inherits i ON i.inhrelid = up.relid), "
		"down (relid) AS (SELECT $1 UNION SELECT i.inhrelid FROM down JOIN pg_inherits i ON i.inhparent = down.relid), "
		"readers (relid) AS (SELECT relid FROM (TABLE up UNION TABLE down) t UNION "
		"SELECT w.ev_class FROM readers r JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = r.relid "
		"AND d.classid = 'pg_rewrite'::regclass JOIN pg_rewrite w ON w.oid = d.objid AND w.ev_type = '1') TABLE readers";
	MemoryContext context = CurrentMemoryContext;
	List	   *readers = NIL;
	Oid			type = OIDOID;
	Datum		value = ObjectIdGetDatum(landing);
	int			rc;

	SPI_connect();
	rc = SPI_execute_with_args(sql, 1, &type, &value, NULL, true, 0);
	if (rc != SPI_OK_SELECT)
		elog(ERROR, "looking for readers failed: %s", SPI_result_code_string(rc));
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		Oid			relid = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[i],
														   SPI_tuptable->tupdesc, 1, &isnull));
		MemoryContext old = MemoryContextSwitchTo(context);

		readers = lappend_oid(readers, relid);
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return readers;
}

/* Up to where an attached target has read its recorded staging; 0: nothing, or without a bookmark. */
static uint64
recorded_below(const CdcRegistration *reg, Oid staging)
{
	Relation	rel = try_relation_open(staging, AccessShareLock);
	uint64		below = 0;

	if (rel != NULL)
	{
		below = cdc_bookmark_recorded(reg, rel);
		relation_close(rel, AccessShareLock);
	}
	return below;
}

Datum
cdc_read_below(PG_FUNCTION_ARGS)
{
	Oid			landing = PG_GETARG_OID(0);
	uint64		least = PG_UINT64_MAX;
	uint64		below;
	List	   *readers;
	List	   *known = NIL;
	ListCell   *lc;

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	check_landing(landing);
	readers = find_readers(landing);
	foreach(lc, cdc_registry_all())
	{
		CdcRegistered *row = lfirst(lc);
		CdcRegistration reg;
		Oid			staging;

		if (!row->attached || get_rel_name(row->target) == NULL)
			continue;
		cdc_registry_read_now(row->target, &reg);
		staging = reg.rule.exists ? cdc_rule_recorded_staging(&reg, NoLock, true) : InvalidOid;
		if (!OidIsValid(staging))
			continue;
		known = lappend_oid(known, row->target);
		if (list_member_oid(readers, staging))
			least = Min(least, recorded_below(&reg, staging));
	}
	/* a staging that was renamed, or that each call names, and histories */
	if (cdc_bookmark_of_others(readers, known, &below))
		least = Min(least, below);
	if (least == 0 || least == PG_UINT64_MAX)
		PG_RETURN_NULL();
	PG_RETURN_FULLTRANSACTIONID(FullTransactionIdFromU64(least));
}
