/*-------------------------------------------------------------------------
 *
 * cdc_history.c
 *		cdc_apply_history(): the phases of one call, in order.
 *
 * The rule of the call is that of cdc_apply() (cdc_rule.c), staging is read by
 * the same reader (cdc_read.c).  Then the server does the work on sets: one
 * query (cdc_history_query.c) finds, around the events of each key, what the
 * history holds and what it is to hold, and ordinary statements write the
 * difference (cdc_history_write.c).
 *
 * Locks: as cdc_apply(): ROW EXCLUSIVE on the history (ACCESS SHARE for a dry
 * run) and its apply lock, before anything is read and to the end of the
 * transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "cdc_consume.h"
#include "cdc_history.h"
#include "cdc_progress.h"

PG_FUNCTION_INFO_V1(cdc_apply_history);
PG_FUNCTION_INFO_V1(cdc_is_history);

/* Which argument of cdc_apply() each one is; those after it are our own. */
static const int argument_of[] = {
	CDC_ARG_TARGET, CDC_ARG_STAGING, CDC_ARG_KEY_COLUMNS, CDC_ARG_POSITION_COLUMNS,
	CDC_ARG_STAGING_POSITION, CDC_ARG_STAGING_FILTER, CDC_ARG_OP_COLUMN, CDC_ARG_DEFAULT_OP,
	CDC_ARG_DELETE_FLAG_COLUMN, CDC_ARG_OLD_KEY_COLUMNS, CDC_ARG_UNCHANGED_COLUMN,
	CDC_ARG_EXCEPT_COLUMNS, CDC_ARG_OP_MAP, CDC_ARG_NULL_OP, CDC_ARG_UNAVAILABLE_VALUE,
	CDC_ARG_ON_UNAVAILABLE, CDC_ARG_IGNORE_NULLS, CDC_ARG_SNAPSHOT_POSITION, CDC_ARG_ON_TIE,
	CDC_ARG_ON_SAME_POSITION, CDC_ARG_ON_SCHEMA_CHANGE, CDC_ARG_CONSUME, CDC_ARG_BOOKMARK_COLUMN
};

enum
{
	ARG_TRACK_COLUMNS = lengthof(argument_of), ARG_TIME_COLUMN, ARG_EXPECT_EVENTS, ARG_DRY_RUN,
	ARG_NOWAIT
};

/* ---------- 2. times and tracked columns ---------- */

static void
plan_times(CdcHistory *h)
{
	TupleDesc	desc = RelationGetDescr(h->staging_rel);
	AttrNumber	attno;

	if (h->time_column == NULL)
		h->time_column = h->record.time_column;
	if (h->time_column == NULL)
		return;
	if (!h->has_times)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("history \"%s\" keeps no times", h->target.name),
				 errdetail("It has no columns valid_from_at and valid_to_at."),
				 errhint("Make the history with time_column, or ALTER TABLE %s ADD COLUMN valid_from_at timestamptz, ADD COLUMN valid_to_at timestamptz.",
						 cdc_quoted_relation(h->target.relid))));
	attno = get_attnum(RelationGetRelid(h->staging_rel), h->time_column);
	if (attno <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("time column \"%s\" does not exist in staging \"%s\"", h->time_column,
						h->cols.staging_name),
				 errhint("Name the column of staging that says when a change was made in time_column.")));
	h->cols.time_attno = attno;
	h->time_cast = cdc_column_cast(TupleDescAttr(desc, attno - 1),
								   TupleDescAttr(RelationGetDescr(h->rel),
												 h->target.pos_attno[2] - 1));
	if (h->record.time_column == NULL)
		h->record.time_column = h->time_column;
}

/* Has a table no row, in any partition? */
static bool
is_empty(Oid relid)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool		empty = true;
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		Relation	leaf = table_open(lfirst_oid(lc), NoLock);

		if (leaf->rd_rel->relkind == RELKIND_RELATION)
		{
			TupleTableSlot *slot = table_slot_create(leaf, NULL);
			TableScanDesc scan = cdc_table_beginscan(leaf, snapshot);

			empty &= !table_scan_getnextslot(scan, ForwardScanDirection, slot);
			table_endscan(scan);
			ExecDropSingleTupleTableSlot(slot);
		}
		table_close(leaf, NoLock);
	}
	UnregisterSnapshot(snapshot);
	return empty;
}

static void
refuse_track(CdcHistory *h, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("track_columns are not those of history \"%s\"", h->target.name),
			 errdetail("%s", why),
			 errhint("Leave track_columns out, or make another history and apply the log to it.")));
}

/* A column whose changes make versions must be there and fed. */
static void
check_tracked(CdcHistory *h)
{
	ListCell   *lc;

	foreach(lc, h->track)
	{
		bool		fed = false;

		for (int i = 0; i < h->cols.ncols; i++)
			fed |= strcmp(h->cols.cols[i].name, lfirst(lc)) == 0;
		if (!fed)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("tracked column \"%s\" is not one that staging \"%s\" feeds",
							(char *) lfirst(lc), h->cols.staging_name),
					 errdetail("A tracked column is a column of history \"%s\" beside its key, and staging has it.",
							   h->target.name)));
	}
}

static void
plan_track(CdcHistory *h)
{
	List	   *recorded = h->record.track;
	bool		same = list_length(recorded) == list_length(h->track);
	ListCell   *lc;

	if (h->track == NIL)
		h->track = recorded;
	else if (recorded == NIL)
	{
		if (!is_empty(h->target.relid) || !is_empty(h->record.events))
			refuse_track(h, "It has versions already, one for every change.");
		h->record.track = h->track;
		h->written = true;		/* the record, at least */
	}
	else
	{
		foreach(lc, h->track)
			same &= cdc_has_name(recorded, lfirst(lc));
		if (!same)
			refuse_track(h, "It was made with others.");
	}
	check_tracked(h);
}

/* ---------- 3. rights, and what is recorded ---------- */

/* SELECT, INSERT and UPDATE on key, own and applied columns, whatever the batch holds. */
static void
check_rights(CdcHistory *h)
{
	CdcTarget	checked = h->target;
	Bitmapset  *set = NULL;

#define ADD(attno) set = bms_add_member(set, (attno) - FirstLowInvalidHeapAttributeNumber)
	for (int i = 0; i < h->target.nkeys; i++)
		ADD(h->target.keys[i].attno);
	for (int i = 0; i < h->target.npos; i++)
		ADD(h->target.pos_attno[i]);
	for (int i = 0; i < h->cols.ncols; i++)
		ADD(h->cols.cols[i].attno);
#undef ADD
	cdc_target_begin(&checked, set, h->rule.dry_run);
	cdc_target_end(&checked);
}

static void
check_kind(CdcHistory *h)
{
	const CdcPos *pos = &h->read.high;
	const CdcPos *high = &h->record.high;

	if (pos->len > 0 && high->len > 0 &&
		cdc_position_kind_of(pos->bytes) != cdc_position_kind_of(high->bytes))
		cdc_refuse_mixed_kinds(psprintf("position %s and history \"%s\"",
										cdc_pos_text(pos->bytes, pos->len), h->target.name));
}

/* A call that wrote leaves its trace, so that a concurrent transaction meets it. */
static void
record(CdcHistory *h)
{
	CdcHistoryRecord now;

	if (!h->written || h->rule.dry_run)
		return;
	cdc_history_read_record(h->target.relid, false, &now);
	if (!now.exists)
		return;
	now.track = h->record.track;
	now.time_column = h->record.time_column;
	if (cdc_pos_compare(h->read.high.bytes, h->read.high.len, now.high.bytes, now.high.len) > 0)
		cdc_pos_copy(&now.high, &h->read.high);
	now.changes++;
	cdc_history_put_record(&now);
}

static void
consume(CdcHistory *h)
{
	Relation	rel = h->rel;
	bool		triggers = rel->rd_rel->relhastriggers ||
		rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;

	relation_close(h->staging_rel, NoLock);
	table_close(rel, NoLock);
	if (h->rule.consume == CDC_CONSUME_TRUNCATE)
		cdc_consume_truncate(h->rule.staging, h->read.events, triggers);
	else if (h->rule.consume == CDC_CONSUME_BOOKMARK && !h->rule.dry_run)
		cdc_bookmark_move(h->cols.bookmark);
}

/* ---------- the call ---------- */

/* False: skipped. */
static bool
run(CdcHistory *h, CdcArgs *args)
{
	/* STEP 1: the relations, under the history's apply lock */
	if (!cdc_history_open(h, args))
		return false;
	cdc_rule_read(args, &h->rule);
	h->rule.history = true;
	cdc_history_check_keys(h);
	if (!cdc_history_open_staging(h))
	{
		cdc_target_unlock(h->target.relid, ExclusiveLock);
		relation_close(h->rel, RowExclusiveLock);
		return false;
	}
	cdc_history_check_position(h);

	/* STEP 2: their columns */
	cdc_columns_map(&h->cols, &h->target, h->staging_rel, &h->rule);
	plan_times(h);
	cdc_history_change_schema(h);
	plan_times(h);
	plan_track(h);
	cdc_history_check_fed(h);

	/* STEP 3: the caller's rights, before anything is read */
	check_rights(h);
	if (h->rule.consume == CDC_CONSUME_BOOKMARK)
		cdc_bookmark_read(h->cols.bookmark, &h->rule, h->rule.staging_filter);

	/* STEP 4: staging; STEP 5: what it changes, found and written */
	cdc_history_read(h);
	check_kind(h);
	CommandCounterIncrement();
	if (h->counted > 0 || h->read.truncates > 0)
		cdc_history_write(h);
	tuplestore_end(h->incoming);
	tuplestore_end(h->truncates);
	CommandCounterIncrement();
	record(h);

	/* STEP 6: what was read is read */
	consume(h);
	return true;
}

static void
sum_up(CdcHistory *h, CdcApplied *applied)
{
	int64		sum = 0;

	applied->events = h->read.events;
	h->counts[CDC_IGNORED] += h->read.ignored;
	for (int i = 0; i < CDC_OUTCOMES; i++)
		sum += applied->counts[i] = h->counts[i];
	if (sum != applied->events)
		elog(ERROR, "outcomes do not add up to the number of events");
	cdc_pos_copy(&applied->low, &h->read.low);
	cdc_pos_copy(&applied->high, &h->read.high);
}

/* What the log of runs keeps of a call. */
static void
record_run(CdcHistory *h, CdcRun *run, const CdcApplied *applied)
{
	if (h->rule.dry_run || applied->events == 0)
		return;
	run->target = h->rule.target;
	run->staging = cdc_quoted_relation(h->rule.staging);
	run->applied = applied;
	cdc_run_end(run);
}

static void
read_args(FunctionCallInfo fcinfo, CdcArgs *args, CdcHistory *h)
{
	memset(args, 0, sizeof(CdcArgs));
	memset(args->isnull, true, sizeof(args->isnull));
#define TAKE(to, from) \
	(args->values[to] = PG_GETARG_DATUM(from), args->isnull[to] = PG_ARGISNULL(from))
	for (int i = 0; i < lengthof(argument_of); i++)
		TAKE(argument_of[i], i);
	TAKE(CDC_ARG_EXPECT_EVENTS, ARG_EXPECT_EVENTS);
	TAKE(CDC_ARG_DRY_RUN, ARG_DRY_RUN);
	TAKE(CDC_ARG_NOWAIT, ARG_NOWAIT);
#undef TAKE
	if (!PG_ARGISNULL(ARG_TRACK_COLUMNS))
		h->track = cdc_registry_name_list(PG_GETARG_DATUM(ARG_TRACK_COLUMNS));
	if (!PG_ARGISNULL(ARG_TIME_COLUMN))
		h->time_column = pstrdup(NameStr(*PG_GETARG_NAME(ARG_TIME_COLUMN)));
}

Datum
cdc_apply_history(PG_FUNCTION_ARGS)
{
	CdcArgs		args;
	CdcApplied	applied;
	CdcRun		log;
	TupleDesc	desc;
	Datum		values[RESULT_COLUMNS];
	bool		isnull[RESULT_COLUMNS];
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "cdc_apply_history",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	CdcHistory *h = palloc0(sizeof(CdcHistory));

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	memset(&applied, 0, sizeof(applied));
	read_args(fcinfo, &args, h);
	if (args.isnull[CDC_ARG_DRY_RUN] || !DatumGetBool(args.values[CDC_ARG_DRY_RUN]))
	{
		PreventCommandIfReadOnly("cdc_apply_history()");
		PreventCommandIfParallelMode("cdc_apply_history()");
	}
	cdc_run_begin(&log, InvalidOid, "apply_history");
	cdc_progress_begin();

	/* staging's values may be out of line: keep what they point to */
	PushActiveSnapshot(GetTransactionSnapshot());
	applied.skipped = !run(h, &args);
	PopActiveSnapshot();
	if (!applied.skipped)
	{
		sum_up(h, &applied);
		record_run(h, &log, &applied);
	}

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "cdc_apply_history must return a composite type");
	cdc_applied_values(&applied, values, isnull);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, isnull));
}

/* Is a table a history, or the events table of one? */
Datum
cdc_is_history(PG_FUNCTION_ARGS)
{
	CdcHistoryRecord record;
	Oid			relid = PG_GETARG_OID(0);

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	cdc_history_read_record(relid, false, &record);
	PG_RETURN_BOOL(record.exists || OidIsValid(cdc_history_of_events(relid)));
}
