/*-------------------------------------------------------------------------
 *
 * cdc_snapshot.c
 *		cdc_apply_snapshot(): a relation that holds rows as they were in the
 *		source, not what happened to them.
 *
 * The phases are cdc_apply()'s, and so are target, rule, columns, reading, fold
 * and writing: a row of the snapshot is an event at as_of that is written only
 * if it differs.  What is of its own: the sieve between reading and fold
 * (cdc_sieve.c), the guard against half a snapshot, and the floor.
 *
 * Locks: as cdc_apply().
 *
 * Memory: half of it for the fold, the other for the sorts by key, which are
 * the server's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "rewrite/rewriteHandler.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#include "cdc_call.h"
#include "cdc_progress.h"
#include "cdc_sieve.h"

PG_FUNCTION_INFO_V1(cdc_apply_snapshot);

/* the arguments; from the key columns on, those of cdc_apply() of the same names */
enum
{
	ARG_TARGET, ARG_SNAPSHOT, ARG_AS_OF, ARG_COMPLETE, ARG_MAX_FRACTION, ARG_MIN_ROWS, ARG_SCOPE,
	ARG_RULE,
	ARG_COUNT = ARG_RULE + 13
};

static const int rule_args[] = {
	CDC_ARG_KEY_COLUMNS, CDC_ARG_POSITION_COLUMNS, CDC_ARG_STAGING_FILTER, CDC_ARG_TOMBSTONE_COLUMN,
	CDC_ARG_UNCHANGED_COLUMN, CDC_ARG_EXCEPT_COLUMNS, CDC_ARG_UNAVAILABLE_VALUE,
	CDC_ARG_ON_UNAVAILABLE, CDC_ARG_IGNORE_NULLS, CDC_ARG_ON_SCHEMA_CHANGE, CDC_ARG_COLUMN_POSITIONS,
	CDC_ARG_LINEAGE, CDC_ARG_DRY_RUN
};

StaticAssertDecl(lengthof(rule_args) == ARG_COUNT - ARG_RULE, "an argument is missing");

/* What max_delete_fraction and min_delete_rows are unless they are given. */
#define CDC_MAX_DELETE_FRACTION	0.1
#define CDC_MIN_DELETE_ROWS		100

/* What a sort needs at least, as for work_mem. */
#define CDC_MIN_WORK_MEM_KB	64

typedef struct CdcSnapshot
{
	CdcApply	call;
	bool		complete;
	double		max_fraction;
	int64		min_rows;
	char	   *scope;			/* NULL: all rows */
	CdcSieved	sieved;
} CdcSnapshot;

/* ---------- arguments ---------- */

static void
read_args(FunctionCallInfo fcinfo, CdcSnapshot *s)
{
	CdcArgs    *args = &s->call.args;

	memset(args->isnull, true, sizeof(args->isnull));
	args->values[CDC_ARG_TARGET] = PG_GETARG_DATUM(ARG_TARGET);
	args->isnull[CDC_ARG_TARGET] = PG_ARGISNULL(ARG_TARGET);
	args->values[CDC_ARG_STAGING] = PG_GETARG_DATUM(ARG_SNAPSHOT);
	args->isnull[CDC_ARG_STAGING] = PG_ARGISNULL(ARG_SNAPSHOT);
	for (int i = 0; i < lengthof(rule_args); i++)
	{
		args->values[rule_args[i]] = PG_GETARG_DATUM(ARG_RULE + i);
		args->isnull[rule_args[i]] = PG_ARGISNULL(ARG_RULE + i);
	}
	s->complete = !PG_ARGISNULL(ARG_COMPLETE) && PG_GETARG_BOOL(ARG_COMPLETE);
	s->max_fraction = PG_ARGISNULL(ARG_MAX_FRACTION) ? CDC_MAX_DELETE_FRACTION :
		PG_GETARG_FLOAT8(ARG_MAX_FRACTION);
	s->min_rows = PG_ARGISNULL(ARG_MIN_ROWS) ? CDC_MIN_DELETE_ROWS : PG_GETARG_INT64(ARG_MIN_ROWS);
	s->scope = PG_ARGISNULL(ARG_SCOPE) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(ARG_SCOPE));

	if (args->isnull[CDC_ARG_STAGING])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("snapshot must not be NULL")));
	cdc_pos_from_datum(&args->as_of, PG_GETARG_DATUM(ARG_AS_OF), PG_ARGISNULL(ARG_AS_OF));
	if (args->as_of.len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("as_of is no position"),
				 errhint("Give a position such that every transaction with a change at or below it had ended when the snapshot was taken.")));
	/* a NaN is neither */
	if (!(s->max_fraction >= 0 && s->max_fraction <= 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_delete_fraction must be from 0 to 1")));
	if (s->min_rows < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("min_delete_rows must not be negative")));
}

/* ---------- what the call is refused for ---------- */

/* as_of is a position of the target's log, of its kind, which its rows can hold. */
static void
check_as_of(CdcSnapshot *s)
{
	CdcApply   *call = &s->call;
	CdcTarget  *target = &call->target;
	const CdcPos *as_of = &call->rule.as_of;
	CdcPosition p;
	Datum		parts[CDC_POSITION_MAX_PARTS];

	call->read.high = *as_of;
	cdc_call_judge_batch(call);
	if (!target->pos_single)
		cdc_position_to_columns(target, as_of->bytes, as_of->len, parts);
	if (cdc_position_unpack(as_of->bytes, as_of->len, &p) && p.epoch < call->rule.epoch)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("as_of %s is of an epoch before that of target \"%s\"",
						cdc_pos_text(as_of->bytes, as_of->len), target->name),
				 errdetail("The target is in epoch %lld.", (long long) call->rule.epoch),
				 errhint("A position that you give is taken as written: %s(.., %lld) puts it into the epoch.",
						 cdc_function_name("cdc_position_with_epoch"), (long long) call->rule.epoch)));
}

/*
 * What the attached staging feeds must be in a snapshot, too: a row that is
 * written at as_of is stale for the events that would have filled the rest.
 */
static void
check_fed(CdcApply *call)
{
	CdcRegistration *reg = &call->reg;
	CdcColumns *cols = &call->cols;
	List	   *fed;
	ListCell   *lc;

	if (!call->rule.attached || reg->state.isnull[STATE_FED_COLUMNS] ||
		call->rule.on_schema_change == CDC_SCHEMA_IGNORE)
		return;
	fed = cdc_registry_name_list(reg->state.values[STATE_FED_COLUMNS]);
	foreach(lc, fed)
	{
		char	   *name = lfirst(lc);
		bool		found = cdc_has_name(call->rule.except_columns, name) ||
			get_attnum(call->rule.target, name) <= 0;

		for (int i = 0; i < cols->ncols && !found; i++)
			found = strcmp(cols->cols[i].name, name) == 0;
		if (!found)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("snapshot \"%s\" lacks column \"%s\", which staging feeds into target \"%s\"",
							cols->staging_name, name, call->target.name),
					 errdetail("Rows written as of the snapshot would keep old values there, since older events are stale for them."),
					 errhint("Take the column into the snapshot, name it in except_columns if it is there, or use on_schema_change => 'ignore'.")));
	}
}

/* A row that says that it is dead must not come to life because nobody asks. */
static void
check_flag(CdcApply *call)
{
	CdcTarget  *target = &call->target;
	const char *name;

	if (target->tomb_attno == 0)
		return;
	name = get_attname(call->rule.target, target->tomb_attno, false);
	if (get_attnum(RelationGetRelid(call->staging_rel), name) <= 0 ||
		cdc_has_name(call->rule.except_columns, name))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("snapshot \"%s\" has a column \"%s\" like the target's tombstone column",
					call->cols.staging_name, name),
			 errdetail("Each row of a snapshot is live, also one that is marked as deleted there."),
			 errhint("Leave rows that are dead out with staging_filter, and name the column in except_columns.")));
}

static bool hides_rows(Oid relid);

/* Does the query of a view read a relation, as the caller, that hides rows? */
static bool
hides_rows_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		/* the view itself stands there as OLD and NEW */
		return rte->rtekind == RTE_RELATION && rte->relid != *(Oid *) context &&
			hides_rows(rte->relid);
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, hides_rows_walker, context,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, hides_rows_walker, context);
}

/*
 * Does row-level security hide rows from the caller?  Below a view that has
 * the rights of its owner, it is the owner's, and part of what the view says.
 */
static bool
hides_rows(Oid relid)
{
	Relation	rel;
	bool		hides = false;

	check_stack_depth();
	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		return true;
	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		return false;
	if (rel->rd_rel->relkind == RELKIND_VIEW && RelationHasSecurityInvoker(rel))
		hides = hides_rows_walker((Node *) get_view_query(rel), &relid);
	relation_close(rel, NoLock);
	return hides;
}

/* What only a complete snapshot asks for. */
static void
check_complete(CdcSnapshot *s)
{
	CdcApply   *call = &s->call;

	if (!s->complete)
		return;
	if (s->scope == NULL && !call->rule.attached)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a complete snapshot needs an attached target"),
				 errdetail("Its floor rises to as_of, and target \"%s\" has none.", call->target.name),
				 errhint("Use cdc_attach(); or give a scope.")));
	if (hides_rows(RelationGetRelid(call->staging_rel)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("snapshot \"%s\" has row-level security in force", call->cols.staging_name),
				 errdetail("Keys of rows that the policies hide would be deleted as missing."),
				 errhint("Call as a role that bypasses row-level security.")));
}

/* Half a snapshot must not delete the other half. */
static void
check_missing(const CdcSnapshot *s)
{
	const CdcSieved *n = &s->sieved;
	const char *snapshot = s->call.cols.staging_name;
	const char *target = s->call.target.name;

	if (!s->complete)
		return;
	if (s->call.read.events == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("complete snapshot \"%s\" is empty", snapshot),
				 errdetail("It would delete every row of target \"%s\"%s.", target,
						   s->scope != NULL ? " in scope" : ""),
				 errhint("A load that failed looks so. If the source is empty indeed, apply a truncate event, or deletes.")));
	if (n->missing >= s->min_rows && n->missing > 0 &&
		(double) n->missing / n->live > s->max_fraction)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snapshot \"%s\" would delete %lld of %lld live rows of target \"%s\"",
						snapshot, (long long) n->missing, (long long) n->live, target),
				 errdetail("It lacks their keys. max_delete_fraction allows %s of the live rows%s, min_delete_rows fewer than %lld rows.",
						   psprintf("%g", s->max_fraction), s->scope != NULL ? " in scope" : "",
						   (long long) s->min_rows),
				 errhint("A load that was cut off looks so. If they are gone indeed, raise max_delete_fraction.")));
}

/* ---------- phases ---------- */

static void
set_work_mem(int kb)
{
	(void) set_config_option("work_mem", psprintf("%dkB", Max(kb, CDC_MIN_WORK_MEM_KB)), PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Conversions and scope are worked out while the snapshot is read, in this
 * process: what they call may not be fit for a parallel query.
 */
static bool
calls_functions(const CdcSnapshot *s)
{
	const CdcColumns *cols = &s->call.cols;

	for (int i = 0; i < cols->ncols; i++)
		if (cols->cols[i].cast != NULL)
			return true;
	return s->scope != NULL;
}

/* Read the snapshot through the sieve into a fold. */
static CdcFold *
read_snapshot(CdcSnapshot *s)
{
	CdcApply   *call = &s->call;
	CdcTarget  *target = &call->target;
	int			level = NewGUCNestLevel();
	Size		kb = get_hash_memory_limit() / 1024;
	CdcFold    *fold;

	set_work_mem(work_mem / 2);
	fold = cdc_fold_create(target, &call->cols, &call->rule);
	set_work_mem(Min(kb, MAX_KILOBYTES) / (s->complete ? 4 : 2));
	if (calls_functions(s))
		(void) set_config_option("max_parallel_workers_per_gather", "0", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	call->rule.order_by = cdc_query_order(target, &call->cols);
	call->rule.sieve = cdc_sieve_begin(target, &call->cols, &call->rule, fold, s->scope, s->complete);
	cdc_read_staging(target, &call->cols, &call->rule, fold, NULL, &call->read);
	cdc_sieve_end(call->rule.sieve, &s->sieved);
	AtEOXact_GUC(true, level);
	return fold;
}

/* A complete snapshot of everything decides every key up to as_of. */
static void
raise_floor(CdcSnapshot *s)
{
	CdcApply   *call = &s->call;
	const CdcPos *as_of = &call->rule.as_of;
	CdcRegistration reg;
	const CdcPos *floor = &reg.horizon.floor;

	if (!s->complete || s->scope != NULL || call->rule.dry_run)
		return;
	cdc_registry_read(call->rule.target, &reg);
	if (!reg.state.exists ||
		cdc_pos_compare(as_of->bytes, as_of->len, floor->bytes, floor->len) <= 0)
		return;
	cdc_registry_set_position(&reg, STATE_FLOOR, as_of);
	cdc_registry_put_state(&reg);
}

static void
warn_of_stale(const CdcSnapshot *s)
{
	const CdcApply *call = &s->call;
	const CdcPos *floor = &call->reg.horizon.floor;
	const CdcPos *as_of = &call->rule.as_of;

	if (call->read.events > 0 &&
		cdc_pos_compare(as_of->bytes, as_of->len, floor->bytes, floor->len) <= 0)
		ereport(WARNING,
				(errmsg("as_of %s is not above the floor of target \"%s\"",
						cdc_pos_text(as_of->bytes, as_of->len), call->target.name),
				 errdetail("The floor is %s: snapshot \"%s\" changed nothing.",
						   cdc_pos_text(floor->bytes, floor->len), call->cols.staging_name)));
}

static void
run(CdcSnapshot *s)
{
	CdcApply   *call = &s->call;
	CdcFold    *fold;
	List	   *fed = NIL;

	/* STEPS 1 and 2: the relations and their columns */
	(void) cdc_call_open(call, &fed);
	check_complete(s);
	check_as_of(s);
	check_flag(call);
	check_fed(call);

	/* STEP 3: the caller's rights, before anything is read */
	cdc_call_begin_target(call);

	/* STEP 4: the snapshot, compared with the target while it is read */
	cdc_target_open(&call->target, call->rule.dry_run);
	fold = read_snapshot(s);
	check_missing(s);

	/* STEP 5: what differs is judged and written, in a command of its own */
	if (!call->rule.dry_run)
		cdc_target_renew(&call->target);
	cdc_write_winners(&call->target, &call->cols, &call->rule, fold, &call->write);
	call->read.events += s->sieved.missing + s->sieved.aged;
	for (int i = 0; i < CDC_OUTCOMES; i++)
		call->write.counts[i] += s->sieved.counts[i];
	warn_of_stale(s);
	cdc_target_end(&call->target);
	CommandCounterIncrement();

	/* STEP 6: what is recorded of the target */
	cdc_call_record(call, NIL);
	raise_floor(s);
	relation_close(call->staging_rel, NoLock);
	table_close(call->target_rel, NoLock);
}

Datum
cdc_apply_snapshot(PG_FUNCTION_ARGS)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "cdc_apply_snapshot",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	CdcSnapshot *s = palloc0(sizeof(CdcSnapshot));
	CdcApplied	applied;
	CdcRun		log;
	TupleDesc	desc;
	Datum		values[RESULT_COLUMNS];
	bool		isnull[RESULT_COLUMNS];

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	read_args(fcinfo, s);
	if (PG_ARGISNULL(ARG_COUNT - 1) || !PG_GETARG_BOOL(ARG_COUNT - 1))
		PreventCommandIfReadOnly("cdc_apply_snapshot()");
	PreventCommandIfParallelMode("cdc_apply_snapshot()");
	cdc_run_begin(&log, InvalidOid, "snapshot");
	cdc_progress_begin();

	/* the snapshot's values may be out of line: keep what they point to */
	PushActiveSnapshot(GetTransactionSnapshot());
	run(s);
	PopActiveSnapshot();

	cdc_call_sum_up(&s->call, &applied);
	cdc_call_record_run(&s->call, &log, &applied);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "cdc_apply_snapshot must return a composite type");
	cdc_applied_values(&applied, values, isnull);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, isnull));
}
