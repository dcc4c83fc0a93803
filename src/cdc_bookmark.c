/*-------------------------------------------------------------------------
 *
 * cdc_bookmark.c
 *		How far a target has read a staging relation: consume => 'bookmark'.
 *
 * Each row of staging says in an xid8 column which transaction loaded it.  The
 * bookmark is a transaction id: rows of all transactions below it have been
 * read.  A call reads on up to the oldest transaction that is still running at
 * the very snapshot that shows it the rows, so that no row of a transaction
 * below can come into sight later; what stands above waits for a later call.
 * Subtransactions load under the id of their transaction, prepared ones run on.
 *
 * Rows without an id, and rows with one that no transaction of this cluster
 * had so far (they were restored from elsewhere), count as unread.
 *
 * A bookmark holds for one pair of target and staging, one table and column
 * below it, one filter and one cluster; anything else makes it void, which only means that rows are
 * read again.  It is written under the target's apply lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/xid8.h"

#include "cdc_consume.h"
#include "cdc_registry.h"

static const char *const bookmark_table = "cdc_bookmark";

/* columns of cdc_bookmark, from 0 */
enum
{
	BOOKMARK_TARGET, BOOKMARK_STAGING, BOOKMARK_TABLE, BOOKMARK_ATTNUM, BOOKMARK_FILTER,
	BOOKMARK_READ_BELOW, BOOKMARK_CLUSTER,
	BOOKMARK_COLUMNS
};

/* ---------- the column ---------- */

/* The statement that makes the column what it must be. */
static const char *
remedy(Oid relid, const char *column, bool exists)
{
	const char *table = quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
												   get_rel_name(relid));
	const char *name = quote_identifier(column);

	if (!exists)
		return psprintf("ALTER TABLE %s ADD COLUMN %s xid8 DEFAULT pg_current_xact_id();", table, name);
	if (get_atttype(relid, get_attnum(relid, column)) == XID8OID)
		return psprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT pg_current_xact_id();", table, name);
	return psprintf("ALTER TABLE %s ALTER COLUMN %s DROP DEFAULT, ALTER COLUMN %s TYPE xid8 USING pg_current_xact_id(), ALTER COLUMN %s SET DEFAULT pg_current_xact_id();",
					table, name, name, name);
}

static void
refuse_kind(Relation staging, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("staging \"%s\" cannot be read by a bookmark", cdc_relation_name(staging)),
			 errdetail("%s", why),
			 errhint("A bookmark needs a table, or a view over one table that passes its bookmark column on.")));
}

/*
 * A table's column: is its type xid8, its default the loader's transaction?  A
 * partition's may also have no default at all: rows without an id are unread.
 */
static void
check_table_column(Relation staging, Relation table, AttrNumber attno, bool part)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(table), attno - 1);
	const char *column = NameStr(att->attname);
	Node	   *expr = att->attgenerated == '\0' ? build_column_default(table, attno) : NULL;
	bool		known = expr != NULL ?
		IsA(expr, FuncExpr) && ((FuncExpr *) expr)->funcid == F_PG_CURRENT_XACT_ID :
		part && att->attgenerated == '\0';

	if (att->atttypid == XID8OID && known)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("bookmark column \"%s\" of staging \"%s\" does not say which transaction loaded a row",
					column, cdc_relation_name(staging)),
			 att->atttypid != XID8OID ? errdetail("It is of type %s.", format_type_be(att->atttypid)) :
			 part ? errdetail("Its default in \"%s\" is not pg_current_xact_id().",
							  RelationGetRelationName(table)) :
			 errdetail("Its default is not pg_current_xact_id()."),
			 errhint("%s", remedy(RelationGetRelid(table), column, true))));
}

/* Who loads into a partition by its name gets the partition's own default. */
static void
check_parts(Relation staging, Relation table, AttrNumber attno)
{
	const char *column = NameStr(TupleDescAttr(RelationGetDescr(table), attno - 1)->attname);
	ListCell   *lc;

	if (!table->rd_rel->relhassubclass)
		return;
	foreach(lc, find_all_inheritors(RelationGetRelid(table), NoLock, NULL))
	{
		Relation	part = lfirst_oid(lc) != RelationGetRelid(table) ?
			try_relation_open(lfirst_oid(lc), AccessShareLock) : NULL;
		AttrNumber	at = part != NULL ? get_attnum(lfirst_oid(lc), column) : 0;

		if (at > 0)
			check_table_column(staging, part, at, true);
		if (part != NULL)
			relation_close(part, NoLock);
	}
}

/* The table's column that a simple view passes on as attno; 0: it does not. */
static AttrNumber
column_below(Relation view, AttrNumber attno)
{
	Query	   *query = get_view_query(view);
	TargetEntry *entry = get_tle_by_resno(query->targetList, attno);
	Var		   *var;

	if (view_query_is_auto_updatable(query, false) != NULL || entry == NULL || !IsA(entry->expr, Var))
		return 0;
	var = (Var *) entry->expr;
	return var->varlevelsup == 0 && var->varattno > 0 ? var->varattno : 0;
}

/*
 * The bookmark column of staging, whose attribute number is returned; it is
 * followed through simple views to the table that it comes from, which is noted
 * in *mark, if given.  With visible the caller must see all rows on the way.
 */
AttrNumber
cdc_bookmark_column(Relation staging, const char *name, bool visible, CdcBookmark *mark)
{
	AttrNumber	found = get_attnum(RelationGetRelid(staging), name);
	AttrNumber	attno = found;
	Relation	rel = staging;
	Oid			role = GetUserId();

	if (found <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("bookmark column \"%s\" does not exist in staging \"%s\"", name,
						cdc_relation_name(staging)),
				 staging->rd_rel->relkind == RELKIND_RELATION ||
				 staging->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ?
				 errhint("%s", remedy(RelationGetRelid(staging), name, false)) :
				 errhint("Name a column of staging in bookmark_column.")));
	for (;;)
	{
		char		relkind = rel->rd_rel->relkind;
		Relation	below;

		if (visible)
			cdc_refuse_hidden_rows(rel, role, "bookmark");
		if (relkind == RELKIND_RELATION || relkind == RELKIND_PARTITIONED_TABLE)
		{
			cdc_refuse_foreign_rows(rel, "bookmark");
			check_table_column(staging, rel, attno, false);
			check_parts(staging, rel, attno);
			break;
		}
		if (relkind != RELKIND_VIEW)
			refuse_kind(staging, psprintf("\"%s\" does not get its rows from transactions of their own.",
										  RelationGetRelationName(rel)));
		attno = column_below(rel, attno);
		below = attno > 0 ? try_relation_open(cdc_base_of_view(rel), AccessShareLock) : NULL;
		if (below == NULL)
			refuse_kind(staging, psprintf("View \"%s\" does not pass a column of one table on as \"%s\".",
										  RelationGetRelationName(rel), name));
		if (!RelationHasSecurityInvoker(rel))
			role = rel->rd_rel->relowner;
		if (rel != staging)
			relation_close(rel, NoLock);
		rel = below;
	}
	if (mark != NULL)
	{
		mark->table = RelationGetRelid(rel);
		mark->attno = attno;
	}
	if (rel != staging)
		relation_close(rel, NoLock);
	return found;
}

/* ---------- the registry's row ---------- */

static HeapTuple
fetch(Relation table, Oid target, Oid staging, Snapshot snapshot)
{
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], BOOKMARK_TARGET + 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(target));
	ScanKeyInit(&key[1], BOOKMARK_STAGING + 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(staging));
	scan = systable_beginscan(table, cdc_primary_key_index(table), true, snapshot, 2, key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	return tuple;
}

/*
 * The row as of now.  Under REPEATABLE READ and SERIALIZABLE it must be the
 * one that the transaction's snapshot shows: another call has read further
 * than the rows in sight.
 */
static HeapTuple
fetch_latest(Relation table, const CdcBookmark *mark)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	HeapTuple	tuple = fetch(table, mark->target, mark->staging, snapshot);

	UnregisterSnapshot(snapshot);
	if (IsolationUsesXactSnapshot())
	{
		HeapTuple	shown = fetch(table, mark->target, mark->staging, GetTransactionSnapshot());

		if (HeapTupleIsValid(tuple) != HeapTupleIsValid(shown) ||
			(HeapTupleIsValid(tuple) && !ItemPointerEquals(&tuple->t_self, &shown->t_self)))
			cdc_refuse_concurrent();
	}
	return tuple;
}

/* Up to where a row says that this staging was read; 0: it says nothing of it. */
static uint64
read_below(const CdcBookmark *mark, Relation table, HeapTuple tuple)
{
	Datum		values[BOOKMARK_COLUMNS];
	bool		isnull[BOOKMARK_COLUMNS];
	uint64		below;
	const char *filter;

	if (!HeapTupleIsValid(tuple))
		return 0;
	heap_deform_tuple(tuple, RelationGetDescr(table), values, isnull);
	filter = isnull[BOOKMARK_FILTER] ? "" : TextDatumGetCString(values[BOOKMARK_FILTER]);
	below = U64FromFullTransactionId(DatumGetFullTransactionId(values[BOOKMARK_READ_BELOW]));
	if (DatumGetObjectId(values[BOOKMARK_TABLE]) != mark->table ||
		DatumGetInt16(values[BOOKMARK_ATTNUM]) != mark->attno ||
		strcmp(filter, mark->filter ? mark->filter : "") != 0 ||
		DatumGetInt64(values[BOOKMARK_CLUSTER]) != (int64) GetSystemIdentifier() ||
		below > U64FromFullTransactionId(ReadNextFullTransactionId()))
		return 0;
	return below;
}

/* Look up how far the call's staging has been read; filter is the rule's, as recorded. */
void
cdc_bookmark_read(CdcBookmark *mark, const CdcRule *rule, const char *filter)
{
	Relation	table = cdc_registry_open(bookmark_table, BOOKMARK_COLUMNS, AccessShareLock);

	mark->target = rule->target;
	mark->staging = rule->staging;
	mark->filter = filter;
	mark->from = read_below(mark, table, fetch_latest(table, mark));
	table_close(table, AccessShareLock);
}

/* ---------- what of the recorded staging is read ---------- */

/* The name of its bookmark column; NULL: the target does not read by a bookmark. */
static const char *
recorded_column(const CdcRegistration *reg)
{
	const CdcRecord *rule = &reg->rule;

	if (!rule->exists || rule->isnull[RULE_CONSUME] ||
		strcmp(TextDatumGetCString(rule->values[RULE_CONSUME]), "bookmark") != 0)
		return NULL;
	return rule->isnull[RULE_BOOKMARK_COLUMN] ? CDC_BOOKMARK_COLUMN :
		NameStr(*DatumGetName(rule->values[RULE_BOOKMARK_COLUMN]));
}

static void
begin_recorded(CdcBookmark *mark, const CdcRegistration *reg, Oid staging)
{
	memset(mark, 0, sizeof(CdcBookmark));
	mark->target = reg->target;
	mark->staging = staging;
	if (!reg->rule.isnull[RULE_STAGING_FILTER])
		mark->filter = TextDatumGetCString(reg->rule.values[RULE_STAGING_FILTER]);
}

/*
 * The column of a recorded staging table that says which rows are read, and
 * up to which transaction; NULL when all of its rows are still to be read.
 */
const char *
cdc_bookmark_look(const CdcRegistration *reg, Oid staging, uint64 *from)
{
	const char *column = recorded_column(reg);
	Relation	table;
	CdcBookmark mark;

	table = column != NULL ? cdc_registry_try_open(bookmark_table, AccessShareLock) : NULL;
	if (table == NULL)
		return NULL;
	begin_recorded(&mark, reg, staging);
	mark.table = staging;
	mark.attno = get_attnum(staging, column);
	*from = read_below(&mark, table, fetch(table, mark.target, staging, GetActiveSnapshot()));
	table_close(table, AccessShareLock);
	return *from > 0 ? column : NULL;
}

/*
 * A condition on the rows of the recorded staging that are still to be read.
 * The caller holds the target's apply lock.
 */
const char *
cdc_bookmark_unread(const CdcRegistration *reg, Relation staging)
{
	const char *column = recorded_column(reg);
	Relation	table;
	CdcBookmark mark;
	StringInfoData s;

	if (column == NULL)
		return "true";
	table = cdc_registry_open(bookmark_table, BOOKMARK_COLUMNS, AccessShareLock);
	begin_recorded(&mark, reg, RelationGetRelid(staging));
	(void) cdc_bookmark_column(staging, column, false, &mark);
	mark.from = read_below(&mark, table, fetch_latest(table, &mark));
	table_close(table, AccessShareLock);
	initStringInfo(&s);
	column = quote_identifier(column);
	appendStringInfo(&s, "(%s OPERATOR(pg_catalog.>=) '" UINT64_FORMAT "'::pg_catalog.xid8 OR %s IS NULL)",
					 column, mark.from, column);
	/* other rows never move the bookmark, and get no epoch */
	if (mark.filter != NULL)
		appendStringInfo(&s, " AND (%s\n)", cdc_expr_localize(staging, mark.filter, "staging_filter"));
	return s.data;
}

/* Up to where a target has read its recorded staging, as the active snapshot shows it; 0: nothing. */
uint64
cdc_bookmark_recorded(const CdcRegistration *reg, Relation staging)
{
	const char *column = recorded_column(reg);
	Relation	table;
	CdcBookmark mark;
	uint64		below;

	if (column == NULL)
		return 0;
	begin_recorded(&mark, reg, RelationGetRelid(staging));
	(void) cdc_bookmark_column(staging, column, false, &mark);
	table = cdc_registry_open(bookmark_table, BOOKMARK_COLUMNS, AccessShareLock);
	below = read_below(&mark, table, fetch(table, mark.target, mark.staging, GetActiveSnapshot()));
	table_close(table, AccessShareLock);
	return below;
}

/*
 * Are there bookmarks over any of these tables, whatever staging they are of,
 * by others than the targets that are known?  Then *below is the least of
 * them; 0: one is void.
 */
bool
cdc_bookmark_of_others(List *tables, List *known, uint64 *below)
{
	Relation	table = cdc_registry_open(bookmark_table, BOOKMARK_COLUMNS, AccessShareLock);
	SysScanDesc scan = systable_beginscan(table, InvalidOid, false, GetActiveSnapshot(), 0, NULL);
	HeapTuple	tuple;
	bool		found = false;

	*below = 0;
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Datum		values[BOOKMARK_COLUMNS];
		bool		isnull[BOOKMARK_COLUMNS];
		CdcBookmark mark = {0};
		uint64		read;

		heap_deform_tuple(tuple, RelationGetDescr(table), values, isnull);
		mark.target = DatumGetObjectId(values[BOOKMARK_TARGET]);
		mark.table = DatumGetObjectId(values[BOOKMARK_TABLE]);
		mark.attno = DatumGetInt16(values[BOOKMARK_ATTNUM]);
		if (!list_member_oid(tables, mark.table) || list_member_oid(known, mark.target) ||
			!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(mark.target)))
			continue;
		mark.filter = isnull[BOOKMARK_FILTER] ? NULL : TextDatumGetCString(values[BOOKMARK_FILTER]);
		read = read_below(&mark, table, tuple);
		*below = found ? Min(*below, read) : read;
		found = true;
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	return found;
}

/* ---------- a call ---------- */

/*
 * Make a snapshot the active one, and note how far it lets us read: every
 * transaction below mark->to has ended, none at or above mark->beyond has begun.
 */
void
cdc_bookmark_push_snapshot(CdcBookmark *mark)
{
	FullTransactionId own = GetTopFullTransactionIdIfAny();
	Datum		snapshot;

	PushActiveSnapshot(GetTransactionSnapshot());
	snapshot = OidFunctionCall0(F_PG_CURRENT_SNAPSHOT);

	mark->to = U64FromFullTransactionId(DatumGetFullTransactionId(OidFunctionCall1(F_PG_SNAPSHOT_XMIN,
																				   snapshot)));
	mark->beyond = U64FromFullTransactionId(DatumGetFullTransactionId(OidFunctionCall1(F_PG_SNAPSHOT_XMAX,
																					   snapshot)));
	if (FullTransactionIdIsValid(own))
		mark->beyond = Max(mark->beyond, U64FromFullTransactionId(own) + 1);
}

/* The condition on unread rows, of which each branch can use an index on the column. */
char *
cdc_bookmark_condition(const CdcBookmark *mark, const char *column)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfo(&s, "(%s OPERATOR(pg_catalog.<) '" UINT64_FORMAT "'::pg_catalog.xid8",
					 column, mark->to);
	if (mark->from > 0)
		appendStringInfo(&s, " AND %s OPERATOR(pg_catalog.>=) '" UINT64_FORMAT "'::pg_catalog.xid8",
						 column, mark->from);
	appendStringInfo(&s, " OR %s OPERATOR(pg_catalog.>=) '" UINT64_FORMAT "'::pg_catalog.xid8 OR %s IS NULL)",
					 column, mark->beyond, column);
	return s.data;
}

/* Note the transaction of a row, at a column from 0: does the bookmark have to move? */
void
cdc_bookmark_note(CdcBookmark *mark, TupleTableSlot *slot, int at)
{
	Datum		xid;
	bool		isnull;

	if (mark->passed)
		return;
	xid = slot_getattr(slot, at + 1, &isnull);
	mark->passed = !isnull &&
		U64FromFullTransactionId(DatumGetFullTransactionId(xid)) < mark->to;
}

/*
 * Forget the bookmarks of a target, or with 0 all of targets and staging
 * relations that are gone.  Who holds a target's apply lock is at it, or will
 * come by again.
 */
static void
forget(Relation table, Oid target)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(table, InvalidOid, false, snapshot, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Snapshot	now;
		bool		isnull;
		Oid			of = DatumGetObjectId(heap_getattr(tuple, BOOKMARK_TARGET + 1,
													   RelationGetDescr(table), &isnull));
		Oid			staging = DatumGetObjectId(heap_getattr(tuple, BOOKMARK_STAGING + 1,
															RelationGetDescr(table), &isnull));

		if (OidIsValid(target) ? of != target :
			SearchSysCacheExists1(RELOID, ObjectIdGetDatum(of)) &&
			SearchSysCacheExists1(RELOID, ObjectIdGetDatum(staging)))
			continue;
		if (!cdc_target_lock(of, ExclusiveLock, true))
			continue;
		/* as it stands under the lock */
		now = RegisterSnapshot(GetLatestSnapshot());
		tuple = fetch(table, of, staging, now);
		UnregisterSnapshot(now);
		if (HeapTupleIsValid(tuple))
			CatalogTupleDelete(table, &tuple->t_self);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	CommandCounterIncrement();
}

/* Forget how far a target has read, under its apply lock. */
void
cdc_bookmark_forget(Oid target)
{
	Relation	table = cdc_registry_open(bookmark_table, BOOKMARK_COLUMNS, RowExclusiveLock);

	forget(table, target);
	table_close(table, NoLock);
}

/* Forget what stands of relations that are gone, unless the extension is, too. */
void
cdc_bookmark_sweep(void)
{
	Relation	table = cdc_registry_try_open(bookmark_table, RowExclusiveLock);

	if (table == NULL)
		return;
	forget(table, InvalidOid);
	table_close(table, NoLock);
}

/* Move the bookmark to where the call has read; a call that passed no row writes nothing. */
void
cdc_bookmark_move(CdcBookmark *mark)
{
	Relation	table;
	HeapTuple	old;
	HeapTuple	tuple;
	Datum		values[BOOKMARK_COLUMNS];
	bool		isnull[BOOKMARK_COLUMNS] = {false};

	if (!mark->passed || mark->to <= mark->from)
		return;
	table = cdc_registry_open(bookmark_table, BOOKMARK_COLUMNS, RowExclusiveLock);
	/* code of triggers may have moved it meanwhile */
	old = fetch_latest(table, mark);
	if (read_below(mark, table, old) < mark->to)
	{
		values[BOOKMARK_TARGET] = ObjectIdGetDatum(mark->target);
		values[BOOKMARK_STAGING] = ObjectIdGetDatum(mark->staging);
		values[BOOKMARK_TABLE] = ObjectIdGetDatum(mark->table);
		values[BOOKMARK_ATTNUM] = Int16GetDatum(mark->attno);
		isnull[BOOKMARK_FILTER] = mark->filter == NULL;
		values[BOOKMARK_FILTER] = mark->filter ? CStringGetTextDatum(mark->filter) : (Datum) 0;
		values[BOOKMARK_READ_BELOW] = FullTransactionIdGetDatum(FullTransactionIdFromU64(mark->to));
		values[BOOKMARK_CLUSTER] = Int64GetDatum((int64) GetSystemIdentifier());
		tuple = heap_form_tuple(RelationGetDescr(table), values, isnull);
		if (HeapTupleIsValid(old))
			CatalogTupleUpdate(table, &old->t_self, tuple);
		else
		{
			forget(table, InvalidOid);
			CatalogTupleInsert(table, tuple);
		}
		CommandCounterIncrement();
	}
	table_close(table, NoLock);
}
