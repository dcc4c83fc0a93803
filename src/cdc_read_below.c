/*-------------------------------------------------------------------------
 *
 * cdc_read_below.c
 *		cdc_read_below(): up to where every target has read a landing table.
 *
 * A target reads the table when its staging is the table, one that it is a
 * partition of or that is a partition of it, or a view over any of these,
 * whatever stands between.  Registry and catalogs are asked by oid: neither
 * names nor what the caller may see come into it, since one target that is
 * missed means rows that it never gets.
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

/*
 * Does an attached target read the table, and up to where?  One whose recorded
 * staging has another name now, or that has none, is known by its bookmarks.
 */
static bool
reads(const CdcRegistration *reg, List *readers, uint64 *below)
{
	Oid			staging = cdc_rule_recorded_staging(reg, NoLock, true);
	Relation	rel;

	if (!OidIsValid(staging))
		return cdc_bookmark_of_tables(reg->target, readers, below);
	if (!list_member_oid(readers, staging))
		return false;
	rel = try_relation_open(staging, AccessShareLock);
	*below = 0;
	if (rel != NULL)
	{
		*below = cdc_bookmark_recorded(reg, rel);
		relation_close(rel, AccessShareLock);
	}
	return true;
}

Datum
cdc_read_below(PG_FUNCTION_ARGS)
{
	Oid			landing = PG_GETARG_OID(0);
	uint64		least = 0;
	List	   *readers;
	ListCell   *lc;

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	check_landing(landing);
	readers = find_readers(landing);
	foreach(lc, cdc_registry_all())
	{
		CdcRegistered *row = lfirst(lc);
		CdcRegistration reg;
		uint64		below;

		if (!row->attached || get_rel_name(row->target) == NULL)
			continue;
		cdc_registry_read_now(row->target, &reg);
		if (!reg.rule.exists || !reads(&reg, readers, &below))
			continue;
		if (below == 0)
			PG_RETURN_NULL();
		least = least == 0 ? below : Min(least, below);
	}
	if (least == 0)
		PG_RETURN_NULL();
	PG_RETURN_FULLTRANSACTIONID(FullTransactionIdFromU64(least));
}
