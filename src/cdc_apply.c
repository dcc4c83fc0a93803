/*-------------------------------------------------------------------------
 *
 * cdc_apply.c
 *		cdc_apply(): the phases of one call, in order.
 *
 * The work is done elsewhere: arguments in cdc_rule.c, the target in
 * cdc_target.c and cdc_home.c, columns in cdc_column.c, reading in
 * cdc_read.c, one winner per key in cdc_fold.c, judging and writing in
 * cdc_write.c, the truth table in cdc_law.c.
 *
 * Locks: ROW EXCLUSIVE on the target (ACCESS SHARE for a dry run), ACCESS
 * SHARE, ROW EXCLUSIVE or ACCESS EXCLUSIVE on staging, and the target's apply
 * lock, all kept to the end of the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/xact.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "cdc_attach.h"
#include "cdc_call.h"
#include "cdc_consume.h"
#include "cdc_progress.h"
#include "cdc_runs.h"

PG_FUNCTION_INFO_V1(cdc_apply);

/* ---------- 1. relations ---------- */

/* Open a relation that a regclass names; it may be gone, or never have been. */
static Relation
open_relation(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = try_relation_open(relid, lockmode);

	if (rel == NULL)
		cdc_refuse_no_relation(relid);
	return rel;
}

/*
 * Open the target and take its apply lock, in this order, which is also that
 * of a hand writer under the guard.  NULL: another apply holds it, and the
 * call does not wait.
 */
static Relation
lock_target(Oid relid, AclMode rights, bool dry_run, bool nowait)
{
	LOCKMODE	lockmode = dry_run ? AccessShareLock : RowExclusiveLock;
	Relation	rel = open_relation(relid, lockmode);

	cdc_target_check(rel);
	if (pg_class_aclmask(relid, GetUserId(), rights, ACLMASK_ANY) == 0 &&
		pg_attribute_aclcheck_all(relid, GetUserId(), rights, ACLMASK_ANY) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(rel->rd_rel->relkind),
					   RelationGetRelationName(rel));
	if (dry_run || cdc_target_lock(relid, ExclusiveLock, nowait))
		return rel;
	relation_close(rel, lockmode);
	return NULL;
}

/* What is recorded of the target completes the call's rule. */
static void
read_rule(CdcApply *apply)
{
	const char *name = cdc_relation_name(apply->target_rel);
	CdcRegistration *reg = &apply->reg;
	Oid			other;

	cdc_registry_read(RelationGetRelid(apply->target_rel), reg);
	other = cdc_registry_attached_ancestor(RelationGetRelid(apply->target_rel));
	if (OidIsValid(other))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("target \"%s\" is a partition of an attached table", name),
				 errhint("Apply to %s.",
						 quote_qualified_identifier(get_namespace_name(get_rel_namespace(other)),
													get_rel_name(other)))));
	other = cdc_registry_attached_partition(RelationGetRelid(apply->target_rel));
	if (OidIsValid(other))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("partition \"%s\" of target \"%s\" is attached by itself",
						get_rel_name(other), name),
				 errdetail("Its tombstones and its fence would be passed by."),
				 errhint("Apply to its partitions, or cdc_detach() them.")));
	cdc_registry_check_relatives(apply->target_rel);
	cdc_rule_complete(&apply->args, reg, apply->target_rel, &apply->rule);
	apply->rule.explain = apply->explain;
	if (apply->explain)
		apply->rule.consume = CDC_CONSUME_KEEP;
}

/* What was recorded is not to be read with the caller's search_path. */
static void
localize_expressions(CdcApply *apply)
{
	CdcRule    *rule = &apply->rule;

	if (rule->recorded_position)
		rule->staging_position = cdc_expr_localize(apply->staging_rel, rule->staging_position,
												   "staging_position");
	if (rule->recorded_filter)
		rule->staging_filter = cdc_expr_localize(apply->staging_rel, rule->staging_filter,
												 "staging_filter");
}

/*
 * Lock staging to truncate it.  The attachment knows it by name: while we
 * waited, a loader may have replaced it.
 */
static bool
lock_for_truncate(CdcApply *apply, bool named)
{
	for (;;)
	{
		Oid			relid = apply->rule.staging;

		if (!cdc_consume_lock(relid, apply->rule.nowait))
			return false;
		if (named)
			return true;
		apply->rule.staging = cdc_rule_recorded_staging(&apply->reg, NoLock, false);
		if (apply->rule.staging == relid)
			return true;
	}
}

/* False: somebody else has staging, and the call does not wait. */
static bool
open_staging(CdcApply *apply, bool named)
{
	LOCKMODE	lockmode = apply->rule.consume == CDC_CONSUME_DELETE && !apply->rule.dry_run ?
		RowExclusiveLock : AccessShareLock;

	if (!OidIsValid(apply->rule.staging))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("staging must be given"),
				 errdetail("No staging relation is recorded for the target."),
				 errhint("Name the relation that holds the events: cdc_apply('target', 'staging').")));
	if (apply->rule.consume == CDC_CONSUME_TRUNCATE)
	{
		if (!lock_for_truncate(apply, named))
			return false;
		lockmode = NoLock;
	}
	apply->staging_rel = open_relation(apply->rule.staging, lockmode);
	cdc_staging_check(apply->staging_rel);
	cdc_consume_check(apply->staging_rel, &apply->rule);
	localize_expressions(apply);
	if (!apply->any_log)
		cdc_rule_check_lineage(&apply->rule, &apply->reg, apply->target_rel, apply->staging_rel);
	return true;
}

/*
 * Open both relations under the target's apply lock, and complete the rule.
 * False: somebody else holds a lock, and the call does not wait.
 */
static bool
open_relations(CdcApply *apply)
{
	CdcArgs    *args = &apply->args;
	bool		dry_run = !args->isnull[CDC_ARG_DRY_RUN] &&
		DatumGetBool(args->values[CDC_ARG_DRY_RUN]);
	bool		nowait = !args->isnull[CDC_ARG_NOWAIT] &&
		DatumGetBool(args->values[CDC_ARG_NOWAIT]);
	bool		named = !args->isnull[CDC_ARG_STAGING];
	Oid			relid;

	if (args->isnull[CDC_ARG_TARGET])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("target must not be NULL")));
	relid = DatumGetObjectId(args->values[CDC_ARG_TARGET]);
	apply->target_rel = lock_target(relid, apply->explain ? ACL_SELECT : ACL_INSERT | ACL_UPDATE,
									dry_run, nowait);
	if (apply->target_rel == NULL)
		return false;
	read_rule(apply);
	if (apply->no_log || open_staging(apply, named))
		return true;
	cdc_target_unlock(relid, ExclusiveLock);
	relation_close(apply->target_rel, RowExclusiveLock);
	return false;
}

static void
describe(CdcApply *apply)
{
	cdc_target_describe(&apply->target, apply->target_rel, &apply->rule);
	apply->target.in_group = apply->in_group;
	if (apply->no_log)
		return;
	cdc_columns_map(&apply->cols, &apply->target, apply->staging_rel, &apply->rule);
}

/* ---------- 2. columns that only staging has ---------- */

static void
append_columns(CdcApply *apply, List *missing)
{
	char	   *name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(apply->target_rel)),
												  RelationGetRelationName(apply->target_rel));

	/*
	 * ALTER TABLE wants the table for itself; its lock stays with us.  The
	 * apply lock comes after it, as always; nothing has been read under it.
	 */
	table_close(apply->target_rel, NoLock);
	cdc_target_unlock(apply->rule.target, ExclusiveLock);
	cdc_columns_append(name, apply->staging_rel, missing);
	apply->target_rel = table_open(apply->rule.target, RowExclusiveLock);
	(void) cdc_target_lock(apply->rule.target, ExclusiveLock, false);
	read_rule(apply);
	localize_expressions(apply);
	describe(apply);
}

static void
handle_schema_change(CdcApply *apply)
{
	CdcOnSchema option = apply->rule.on_schema_change;
	List	   *missing;

	if (option == CDC_SCHEMA_IGNORE)
		return;
	missing = cdc_columns_missing(&apply->target, &apply->cols, &apply->rule);
	if (missing == NIL)
		return;
	if (option == CDC_SCHEMA_APPEND && !apply->rule.dry_run)
		append_columns(apply, missing);
	else
		cdc_columns_report_missing(option, &apply->target, &apply->cols, missing);
}

/*
 * The target's columns that the attached staging feeds, when they are more
 * than recorded; NIL when there is nothing new.  A column that it once fed and
 * now lacks would keep old values for ever: refused.
 */
static List *
fed_columns(CdcApply *apply)
{
	CdcRegistration *reg = &apply->reg;
	CdcColumns *cols = &apply->cols;
	List	   *recorded = NIL;
	List	   *lost = NIL;
	List	   *fed = NIL;
	ListCell   *lc;
	bool		more = false;

	if (!apply->rule.attached || cdc_rule_recorded_staging(reg, NoLock, true) != apply->rule.staging)
		return NIL;
	if (!reg->state.isnull[STATE_FED_COLUMNS])
		recorded = cdc_registry_name_list(reg->state.values[STATE_FED_COLUMNS]);
	for (int i = 0; i < cols->ncols; i++)
	{
		fed = lappend(fed, pstrdup(cols->cols[i].name));
		more |= !cdc_has_name(recorded, cols->cols[i].name);
	}
	foreach(lc, recorded)
	{
		if (cdc_has_name(fed, lfirst(lc)) || get_attnum(apply->rule.target, lfirst(lc)) <= 0)
			continue;
		if (!cdc_has_name(apply->rule.except_columns, lfirst(lc)))
			lost = lappend(lost, lfirst(lc));
		fed = lappend(fed, lfirst(lc));
	}
	if (lost != NIL && apply->rule.on_schema_change != CDC_SCHEMA_IGNORE)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("staging \"%s\" no longer feeds columns of target \"%s\"",
						cols->staging_name, apply->target.name),
				 errdetail("Missing: %s. They would keep their old values.", cdc_join_names(lost)),
				 errhint("Mend staging; or take them out of the feed with on_schema_change => 'ignore', or by naming staging in cdc_attach() again.")));
	return more ? fed : NIL;
}

/* ---------- 3. rights ---------- */

/*
 * SELECT, INSERT and UPDATE on key, position, applied and tombstone columns,
 * whatever the batch holds.
 */
void
cdc_call_begin_target(CdcApply *apply)
{
	CdcTarget  *target = &apply->target;
	Bitmapset  *set = NULL;

#define ADD(attno) set = bms_add_member(set, (attno) - FirstLowInvalidHeapAttributeNumber)
	for (int i = 0; i < target->nkeys; i++)
		ADD(target->keys[i].attno);
	for (int i = 0; i < target->npos; i++)
		ADD(target->pos_attno[i]);
	for (int i = 0; i < apply->cols.ncols; i++)
		ADD(apply->cols.cols[i].attno);
	if (target->tomb_attno != 0)
		ADD(target->tomb_attno);
	if (target->marks_attno != 0)
		ADD(target->marks_attno);
#undef ADD
	cdc_target_begin(target, set, apply->rule.dry_run);
}

/*
 * How far the target has read staging.  Another filter may have passed rows by
 * that count now; a recorded one is known as it is recorded.
 */
static void
begin_bookmark(CdcApply *apply)
{
	const char *filter = apply->rule.staging_filter;

	if (apply->rule.consume != CDC_CONSUME_BOOKMARK)
		return;
	if (apply->rule.recorded_filter)
		filter = TextDatumGetCString(apply->reg.rule.values[RULE_STAGING_FILTER]);
	cdc_bookmark_read(apply->cols.bookmark, &apply->rule, filter);
}

/* ---------- 4. the batch against what is recorded ---------- */

/*
 * Positions of one kind only.  What was applied last may have been a mistake
 * that is taken back: then no position of its kind is stored any more.
 */
static void
check_kind(CdcApply *apply)
{
	const CdcPos *pos = &apply->read.high;
	CdcPos	   *high = &apply->reg.high;

	if (pos->len > 0 && high->len > 0 &&
		cdc_position_kind_of(pos->bytes) != cdc_position_kind_of(high->bytes) &&
		!cdc_target_has_positions(&apply->target))
		high->len = 0;
	cdc_registry_check_kind(&apply->reg, pos, apply->target.name);
}

/*
 * What is read of the batch against what is recorded of the target: positions
 * of one kind only.  The greatest truncate of the batch counts if it is above fence and floor;
 * then every row at or below it is dead, and the fence rises to it.
 */
void
cdc_call_judge_batch(CdcApply *apply)
{
	CdcTarget  *target = &apply->target;
	CdcHorizon *horizon = &target->horizon;
	const CdcPos *pos = &apply->read.truncate;

	check_kind(apply);
	if (pos->len == 0 ||
		cdc_pos_compare(pos->bytes, pos->len, horizon->fence.bytes, horizon->fence.len) <= 0 ||
		cdc_pos_compare(pos->bytes, pos->len, horizon->floor.bytes, horizon->floor.len) <= 0)
		return;
	target->truncate = *pos;
	horizon->fence = *pos;
}

static void
count_truncates(CdcApply *apply)
{
	int64		n = apply->read.truncates;

	if (n == 0)
		return;
	if (apply->target.truncate.len == 0)
	{
		apply->write.counts[CDC_STALE] += n;
		return;
	}
	apply->write.counts[CDC_TRUNCATED]++;
	apply->write.counts[CDC_SUPERSEDED] += n - 1;
}

/* Close the relations; truncate staging, or move the bookmark. */
static void
consume(CdcApply *apply)
{
	Relation	target = apply->target_rel;
	bool		triggers = target->rd_rel->relhastriggers ||
		target->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;

	relation_close(apply->staging_rel, NoLock);
	table_close(target, NoLock);
	if (apply->rule.consume == CDC_CONSUME_TRUNCATE)
		cdc_consume_truncate(apply->rule.staging, apply->read.events, triggers);
	else if (apply->rule.consume == CDC_CONSUME_BOOKMARK && !apply->rule.dry_run)
		cdc_bookmark_move(apply->cols.bookmark);
}

/* ---------- the result ---------- */

/* The columns of cdc_apply_result. */
void
cdc_applied_values(const CdcApplied *applied, Datum *values, bool *isnull)
{
	memset(isnull, false, sizeof(bool) * RESULT_COLUMNS);
	values[RESULT_EVENTS] = Int64GetDatum(applied->events);
	for (int i = 0; i < CDC_OUTCOMES; i++)
		values[RESULT_OUTCOMES + i] = Int64GetDatum(applied->counts[i]);
	values[RESULT_SKIPPED] = BoolGetDatum(applied->skipped);
	values[RESULT_LOW] = cdc_registry_position(&applied->low, &isnull[RESULT_LOW]);
	values[RESULT_HIGH] = cdc_registry_position(&applied->high, &isnull[RESULT_HIGH]);
}

void
cdc_call_sum_up(CdcApply *apply, CdcApplied *applied)
{
	int64		sum = 0;

	memset(applied, 0, sizeof(CdcApplied));
	applied->skipped = apply->skipped;
	applied->events = apply->read.events;
	apply->write.counts[CDC_IGNORED] += apply->read.ignored;
	for (int i = 0; i < CDC_OUTCOMES; i++)
		sum += applied->counts[i] = apply->write.counts[i];
	if (sum != applied->events)
		elog(ERROR, "outcomes do not add up to the number of events");
	cdc_pos_copy(&applied->low, &apply->read.low);
	cdc_pos_copy(&applied->high, &apply->read.high);
}

/* ---------- the call ---------- */

/*
 * STEP 1: the relations, under the target's apply lock, and STEP 2: columns on
 * one side only.  False: another apply holds the lock, and the call does not
 * wait.  *fed: new columns that staging feeds, to be recorded.
 */
bool
cdc_call_open(CdcApply *apply, List **fed)
{
	if (!open_relations(apply))
		return false;
	describe(apply);
	if (apply->no_log)
		return true;
	handle_schema_change(apply);
	*fed = fed_columns(apply);
	return true;
}

static void
run(CdcApply *apply)
{
	CdcFold    *fold;
	List	   *fed;

	/* STEPS 1 and 2: the relations and their columns */
	if (!cdc_call_open(apply, &fed))
	{
		apply->skipped = true;
		return;
	}

	/* STEP 3: the caller's rights, before anything is read */
	cdc_call_begin_target(apply);
	begin_bookmark(apply);

	/* STEP 4: staging, one winner per key */
	fold = cdc_fold_create(&apply->target, &apply->cols, &apply->rule);
	cdc_read_staging(&apply->target, &apply->cols, &apply->rule, fold, NULL, &apply->read);

	/* STEP 5: a truncate event comes before what stands above it */
	cdc_call_judge_batch(apply);

	/* STEP 6: winners judged and written, in a command of their own */
	CommandCounterIncrement();
	cdc_target_open(&apply->target, apply->rule.dry_run);
	cdc_write_winners(&apply->target, &apply->cols, &apply->rule, fold, &apply->write);

	count_truncates(apply);

	cdc_target_end(&apply->target);
	CommandCounterIncrement();
	cdc_call_record(apply, fed);

	/* STEP 7: what was read is read */
	consume(apply);
}

/*
 * One call of cdc_apply().  in_group: the caller holds an after-trigger query
 * level around several calls, and ends it.
 */
void
cdc_apply_run(const CdcArgs *args, bool in_group, CdcApplied *applied)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "cdc_apply",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	CdcApply   *apply = palloc0(sizeof(CdcApply));
	CdcRun		log;

	apply->args = *args;
	apply->in_group = in_group;
	cdc_run_begin(&log, InvalidOid, "apply");
	cdc_progress_begin();

	/* staging's values may be out of line: keep what they point to */
	PushActiveSnapshot(GetTransactionSnapshot());
	run(apply);
	PopActiveSnapshot();

	cdc_call_sum_up(apply, applied);
	cdc_call_record_run(apply, &log, applied);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

Datum
cdc_apply(PG_FUNCTION_ARGS)
{
	CdcArgs		args;
	CdcApplied	applied;
	TupleDesc	desc;
	Datum		values[RESULT_COLUMNS];
	bool		isnull[RESULT_COLUMNS];

	memset(&args, 0, sizeof(args));
	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	for (int i = 0; i < CDC_ARGS; i++)
	{
		args.values[i] = PG_GETARG_DATUM(i);
		args.isnull[i] = PG_ARGISNULL(i);
	}
	if (PG_ARGISNULL(CDC_ARG_DRY_RUN) || !PG_GETARG_BOOL(CDC_ARG_DRY_RUN))
	{
		PreventCommandIfReadOnly("cdc_apply()");
		PreventCommandIfParallelMode("cdc_apply()");
	}
	cdc_apply_run(&args, false, &applied);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "cdc_apply must return a composite type");
	cdc_applied_values(&applied, values, isnull);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, isnull));
}
