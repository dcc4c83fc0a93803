/*-------------------------------------------------------------------------
 *
 * cdc_status.c
 *		Numbers of rows for the view cdc_status: tombstones of a target, rows of
 *		its staging.
 *
 * Tables are scanned directly: no view, policy or function of anybody runs, so
 * that a superuser may look.  What is long to count is estimated, or left out,
 * and nobody is waited for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/xid8.h"

#include "cdc_all.h"
#include "cdc_consume.h"
#include "cdc_registry.h"

/* Rows are counted one by one in up to so many pages: some 10 ms. */
#define CDC_COUNTED_BLOCKS	8192

/* And up to so many through an index, which are more than anybody lets wait. */
#define CDC_COUNTED_ROWS	200000

PG_FUNCTION_INFO_V1(cdc_status_counts);

/* Rows of one table, so far; known is false where that cannot be told. */
typedef struct RowCount
{
	const char *flag;			/* only dead rows: their column; NULL: all rows */
	const char *bookmark;		/* only unread rows: who loaded them; NULL: all rows */
	uint64		from;			/* they are those of transactions from here on, or of none */
	BlockNumber blocks;			/* left to count in */
	int64		rows;
	bool		known;
} RowCount;

static void
scan_rows(Relation rel, RowCount *count)
{
	const char *column = count->flag != NULL ? count->flag : count->bookmark;
	AttrNumber	attno = column == NULL ? 0 : get_attnum(RelationGetRelid(rel), column);
	bool		is_time = attno > 0 && getBaseType(get_atttype(RelationGetRelid(rel), attno)) == TIMESTAMPTZOID;
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc scan = cdc_table_beginscan(rel, GetActiveSnapshot());

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		bool		isnull = false;
		Datum		value = attno > 0 ? slot_getattr(slot, attno, &isnull) : (Datum) 0;

		CHECK_FOR_INTERRUPTS();
		if (attno <= 0 ||
			(count->flag != NULL ? !isnull && (is_time || DatumGetBool(value)) :
			 isnull || U64FromFullTransactionId(DatumGetFullTransactionId(value)) >= count->from))
			count->rows++;
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/* An index that has the rows of a transaction together, or NULL. */
static Relation
open_bookmark_index(Relation rel, AttrNumber attno)
{
	Oid			opclass = GetDefaultOpClass(XID8OID, BTREE_AM_OID);
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (index->rd_index->indisvalid && index->rd_index->indkey.values[0] == attno &&
			index->rd_rel->relam == BTREE_AM_OID && RelationGetIndexPredicate(index) == NIL &&
			index->rd_opfamily[0] == get_opclass_family(opclass))
			return index;
		index_close(index, AccessShareLock);
	}
	return NULL;
}

/* Count unread rows by an index, as many as it makes sense to count. */
static void
count_by_index(Relation rel, RowCount *count)
{
	AttrNumber	attno = get_attnum(RelationGetRelid(rel), count->bookmark);
	Relation	index = attno > 0 ? open_bookmark_index(rel, attno) : NULL;

	count->known = index != NULL;
	if (index == NULL)
		return;
	for (int nulls = 0; nulls < 2; nulls++)
	{
		ScanKeyData key;
		SysScanDesc scan;

		if (nulls)
			ScanKeyEntryInitialize(&key, SK_ISNULL | SK_SEARCHNULL, attno, InvalidStrategy,
								   InvalidOid, InvalidOid, InvalidOid, (Datum) 0);
		else
			ScanKeyInit(&key, attno, BTGreaterEqualStrategyNumber, F_XID8GE,
						FullTransactionIdGetDatum(FullTransactionIdFromU64(count->from)));
		scan = systable_beginscan_ordered(rel, index, GetActiveSnapshot(), 1, &key);
		while (count->rows < CDC_COUNTED_ROWS && systable_getnext_ordered(scan, ForwardScanDirection) != NULL)
		{
			CHECK_FOR_INTERRUPTS();
			count->rows++;
		}
		systable_endscan_ordered(scan);
	}
	index_close(index, AccessShareLock);
}

static void
count_table(Relation rel, RowCount *count)
{
	BlockNumber blocks;

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		return;
	count->known &= rel->rd_rel->relkind == RELKIND_RELATION && !RELATION_IS_OTHER_TEMP(rel);
	if (!count->known)
		return;
	blocks = RelationGetNumberOfBlocks(rel);
	if (blocks <= count->blocks)
	{
		count->blocks -= blocks;
		scan_rows(rel, count);
	}
	else if (count->bookmark != NULL)
		count_by_index(rel, count);
	else if (count->flag == NULL && rel->rd_rel->reltuples >= 0)
		count->rows += (int64) rel->rd_rel->reltuples;
	else
		count->known = false;
}

/* Count the rows of a table and its partitions; NULL where it is not known. */
static Datum
count_rows(Oid relid, RowCount count, bool *isnull)
{
	List	   *relids = list_make1_oid(relid);
	ListCell   *lc;

	count.blocks = CDC_COUNTED_BLOCKS;
	count.known = true;
	if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
		relids = find_all_inheritors(relid, NoLock, NULL);
	foreach(lc, relids)
	{
		Relation	rel = NULL;

		/* somebody who holds it for himself is not waited for */
		if (ConditionalLockRelationOid(lfirst_oid(lc), AccessShareLock))
			rel = try_relation_open(lfirst_oid(lc), NoLock);
		if (rel == NULL)
			count.known = false;
		else
			count_table(rel, &count);
		if (rel != NULL)
			relation_close(rel, AccessShareLock);
		if (!count.known)
			break;
	}
	*isnull = !count.known;
	return Int64GetDatum(count.rows);
}

/* Tombstones of a target, and rows of its staging, for who may read it. */
Datum
cdc_status_counts(PG_FUNCTION_ARGS)
{
	Oid			target = PG_GETARG_OID(0);
	TupleDesc	desc;
	Datum		values[2] = {0};
	bool		isnull[2] = {true, true};
	CdcRegistration reg;

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "cdc_status_counts must return a row");
	cdc_registry_read_now(target, &reg);
	if (reg.rule.exists &&
		(pg_class_aclcheck(target, GetUserId(), ACL_SELECT) == ACLCHECK_OK ||
		 has_privs_of_role(GetUserId(), ROLE_PG_MONITOR)))
	{
		Oid			staging = cdc_group_staging(target);
		RowCount	dead = {0};
		RowCount	waiting = {0};

		if (!reg.rule.isnull[RULE_TOMBSTONE_COLUMN])
		{
			dead.flag = NameStr(*DatumGetName(reg.rule.values[RULE_TOMBSTONE_COLUMN]));
			values[0] = count_rows(target, dead, &isnull[0]);
		}
		else if (get_rel_relkind(reg.tombstones) == RELKIND_RELATION)
			values[0] = count_rows(reg.tombstones, dead, &isnull[0]);
		if (OidIsValid(staging))
		{
			waiting.bookmark = cdc_bookmark_look(&reg, staging, &waiting.from);
			values[1] = count_rows(staging, waiting, &isnull[1]);
		}
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, isnull)));
}
