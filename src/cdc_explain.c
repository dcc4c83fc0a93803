/*-------------------------------------------------------------------------
 *
 * cdc_explain.c
 *		cdc_explain(): what cdc_apply() would make of each event, and why.
 *
 * It is cdc_apply()'s dry run, by the same reader, fold, writer and law; what
 * comes besides is that each row of staging is noted while it is read
 * (cdc_watch.c), in a sort by key; the words of a reason are in cdc_reason.c.  Winners come in the same order, so that one
 * walk over both tells of every event which it is: the winner of its key, with
 * the verdict, or one that the winner supersedes.
 *
 * E1: the outcomes are counted as cdc_apply() counts them.
 * E2: what cdc_apply() would refuse for the sake of one row is that row's
 * outcome 'error'.  Winners are judged in a subtransaction, with everything
 * that is open for it; after an error it is taken back, and the walk goes on in
 * another behind the winner that failed.
 *
 * Memory: the fold's, half a work_mem for the sort, work_mem for the result.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/tablespace.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

#include "cdc_call.h"
#include "cdc_explain.h"

/* arguments: those of cdc_apply() up to consume, then lineage */
#define EXPLAIN_LINEAGE	(CDC_ARG_CONSUME + 1)

/* columns of the result */
enum
{
	EXPLAIN_KEY, EXPLAIN_OP, EXPLAIN_POSITION, EXPLAIN_STORED, EXPLAIN_OUTCOME, EXPLAIN_REASON,
	EXPLAIN_COLUMNS
};

/* columns of the sort after the key's */
enum
{
	NOTED_NUMBER, NOTED_KEY, NOTED_OP, NOTED_POSITION, NOTED_UNPLACED, NOTED_COLUMNS
};

typedef struct CdcExplain
{
	CdcWatch	watch;
	CdcApply	call;
	CdcTarget	described;		/* the target before anything of it is open */
	CdcFold    *fold;
	ReturnSetInfo *result;
	Tuplesortstate *sort;
	TupleDesc	noted;			/* keys, NOTED_COLUMNS */
	TupleTableSlot *put;
	TupleTableSlot *got;
	char	   *batch_error;	/* about all events together, or NULL */
	CdcToldKey		group;
	/* a subtransaction in which winners are judged */
	bool		open;
	CdcTry		try;
	MemoryContext open_context;
	CdcWriter	writer;
	CdcWriteResult counts;		/* of no interest: E1 is about the rows */
} CdcExplain;

PG_FUNCTION_INFO_V1(cdc_explain);

/* ---------- rows of the result ---------- */

static void
tell(CdcExplain *x, const char *key, const char *op, const CdcPos *pos, const CdcPos *stored,
	 const char *outcome, const char *reason)
{
	Datum		values[EXPLAIN_COLUMNS];
	bool		isnull[EXPLAIN_COLUMNS] = {false};

	isnull[EXPLAIN_KEY] = key == NULL;
	if (key != NULL)
		values[EXPLAIN_KEY] = DirectFunctionCall1(jsonb_in, CStringGetDatum(key));
	isnull[EXPLAIN_OP] = op == NULL;
	if (op != NULL)
		values[EXPLAIN_OP] = CStringGetTextDatum(op);
	isnull[EXPLAIN_POSITION] = pos == NULL || pos->len == 0;
	if (!isnull[EXPLAIN_POSITION])
		values[EXPLAIN_POSITION] = cdc_value_from_bytes(pos->bytes, pos->len);
	isnull[EXPLAIN_STORED] = stored == NULL || stored->len == 0;
	if (!isnull[EXPLAIN_STORED])
		values[EXPLAIN_STORED] = cdc_value_from_bytes(stored->bytes, stored->len);
	values[EXPLAIN_OUTCOME] = CStringGetTextDatum(outcome);
	isnull[EXPLAIN_REASON] = reason == NULL;
	if (reason != NULL)
		values[EXPLAIN_REASON] = CStringGetTextDatum(reason);
	tuplestore_putvalues(x->result->setResult, x->result->setDesc, values, isnull);
}

/* ---------- 1. rows as they are read ---------- */

/* Note a row for the walk: an event, or a truncate, whose key is NULL. */
static void
note_row(CdcExplain *x, const CdcSeen *seen)
{
	int			n = x->call.target.nkeys;
	TupleTableSlot *slot = x->put;
	Datum	   *values = slot->tts_values + n;
	bool	   *isnull = slot->tts_isnull + n;

	ExecClearTuple(slot);
	for (int i = 0; i < n; i++)
	{
		slot->tts_isnull[i] = seen->keys == NULL;
		slot->tts_values[i] = seen->keys == NULL ? (Datum) 0 : seen->keys[i];
	}
	memset(isnull, false, sizeof(bool) * NOTED_COLUMNS);
	values[NOTED_NUMBER] = Int64GetDatum(seen->number);
	isnull[NOTED_KEY] = seen->key == NULL;
	if (seen->key != NULL)
		values[NOTED_KEY] = CStringGetTextDatum(seen->key);
	isnull[NOTED_OP] = seen->op == NULL;
	if (seen->op != NULL)
		values[NOTED_OP] = CStringGetTextDatum(seen->op);
	isnull[NOTED_POSITION] = seen->pos.len == 0;
	if (seen->pos.len > 0)
		values[NOTED_POSITION] = cdc_value_from_bytes(seen->pos.bytes, seen->pos.len);
	values[NOTED_UNPLACED] = BoolGetDatum(seen->unplaced);
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(x->sort, slot);
	ExecClearTuple(slot);
}

static void
see_row(CdcWatch *watch, const CdcSeen *seen)
{
	CdcExplain *x = (CdcExplain *) watch;

	if (seen->class == CDC_UNKNOWN)
		tell(x, seen->key, seen->op, &seen->pos, NULL, "error", seen->reason);
	else if (seen->class == CDC_IGNORE)
		tell(x, seen->key, seen->op, &seen->pos, NULL, cdc_outcome_names[CDC_IGNORED],
			 seen->reason != NULL ? seen->reason : "its op, or the lack of one, means no change");
	else
		note_row(x, seen);
}

static void
begin_sort(CdcExplain *x)
{
	CdcTarget  *target = &x->call.target;
	int			n = target->nkeys;
	AttrNumber *attnos = palloc(sizeof(AttrNumber) * (n + 1));
	Oid		   *ops = palloc(sizeof(Oid) * (n + 1));
	Oid		   *collations = palloc0(sizeof(Oid) * (n + 1));
	bool	   *nulls_first = palloc0(sizeof(bool) * (n + 1));
	static const Oid types[NOTED_COLUMNS] = {INT8OID, TEXTOID, TEXTOID, BYTEAOID, BOOLOID};

	x->noted = CreateTemplateTupleDesc(n + NOTED_COLUMNS);
	for (int i = 0; i < n; i++)
	{
		TupleDescInitEntry(x->noted, i + 1, NULL, target->keys[i].type, target->keys[i].typmod, 0);
		attnos[i] = i + 1;
		ops[i] = target->keys[i].sort_op;
		collations[i] = target->keys[i].collation;
	}
	for (int i = 0; i < NOTED_COLUMNS; i++)
		TupleDescInitEntry(x->noted, n + i + 1, NULL, types[i], -1, 0);
	cdc_finalize_tuple_desc(x->noted);
	attnos[n] = n + NOTED_NUMBER + 1;
	ops[n] = lookup_type_cache(INT8OID, TYPECACHE_LT_OPR)->lt_opr;
	x->put = MakeSingleTupleTableSlot(x->noted, &TTSOpsVirtual);
	x->got = MakeSingleTupleTableSlot(x->noted, &TTSOpsMinimalTuple);
	PrepareTempTablespaces();
	x->sort = tuplesort_begin_heap(x->noted, n + 1, attnos, ops, collations, nulls_first,
								   Max(work_mem / 2, 64), NULL, TUPLESORT_NONE);
}

/* ---------- 2. winners judged ---------- */

static void
open_target(CdcExplain *x)
{
	MemoryContext old;

	x->open_context = AllocSetContextCreate(CurrentMemoryContext, "cdc_explain judging",
											ALLOCSET_DEFAULT_SIZES);
	cdc_try_begin(&x->try);
	x->open = true;
	old = MemoryContextSwitchTo(x->open_context);
	cdc_call_begin_target(&x->call);
	cdc_target_open(&x->call.target, true);
	cdc_writer_init(&x->writer, &x->call.target, &x->call.cols, &x->call.rule, x->fold, &x->counts);
	cdc_target_rewind(&x->call.target);
	MemoryContextSwitchTo(old);
}

static void
close_target(CdcExplain *x)
{
	if (!x->open)
		return;
	cdc_target_end(&x->call.target);
	x->open = false;
	cdc_try_end(&x->try);
	MemoryContextDelete(x->open_context);
}

/* The subtransaction failed: all that was open in it is gone. */
static void
drop_target(CdcExplain *x, const char *column)
{
	CdcPos		truncate = x->call.target.truncate;
	CdcHorizon	horizon = x->call.target.horizon;
	char	   *error;

	x->open = false;			/* in any case: this may not return */
	error = cdc_try_caught(&x->try, column);
	MemoryContextDelete(x->open_context);
	x->call.target = x->described;
	x->call.target.truncate = truncate;
	x->call.target.horizon = horizon;
	cdc_event_close(&x->call.cols);
	cdc_columns_renew(&x->call.cols);
	x->group.error = MemoryContextStrdup(x->group.context, error);
	x->group.tied = x->try.code == ERRCODE_CARDINALITY_VIOLATION;
	pfree(error);
}

/* Judge a winner: what is found stands in the group. */
static void
judge(CdcExplain *x, const CdcEvent *winner)
{
	CdcToldKey *group = &x->group;
	bool		isnull;
	Datum		number = cdc_event_value(&x->call.cols, winner, x->call.cols.nevent, &isnull);

	group->number = isnull ? 0 : DatumGetInt64(number);
	group->class = winner->class;
	group->pos.len = winner->poslen;
	memcpy(group->pos.bytes, winner->pos, winner->poslen);
	group->placed = cdc_event_place_len(winner);
	group->moved_away = (winner->flags & CDC_EVENT_MOVED_AWAY) != 0;
	group->error = NULL;
	if (!x->open)
		open_target(x);
	PG_TRY();
	{
		MemoryContext old = MemoryContextSwitchTo(x->writer.row_context);

		cdc_write_judge(&x->writer, winner, &group->judged);
		MemoryContextSwitchTo(old);
	}
	PG_CATCH();
	{
		drop_target(x, x->writer.context.column);
	}
	PG_END_TRY();
}

/* ---------- 3. the walk ---------- */

static void
read_noted(CdcExplain *x, int column, Datum *value, bool *isnull)
{
	*value = slot_getattr(x->got, x->call.target.nkeys + column + 1, isnull);
}

static char *
noted_text(CdcExplain *x, int column)
{
	bool		isnull;
	Datum		value;

	read_noted(x, column, &value, &isnull);
	return isnull ? NULL : TextDatumGetCString(value);
}

/* Is the event what its key is refused for? */
static bool
is_faulty(const CdcToldKey *group, int64 number, const CdcPos *pos, int placed)
{
	return number == group->number ||
		(group->tied && cdc_pos_compare(pos->bytes, placed, group->pos.bytes, group->placed) == 0);
}

/* Tell what becomes of the event in hand. */
static void
tell_event(CdcExplain *x)
{
	CdcToldKey *group = &x->group;
	CdcPos		pos;
	Datum		value;
	bool		isnull;
	int			placed;
	int64		number;
	CdcOutcome	outcome = CDC_SUPERSEDED;
	const char *reason;

	read_noted(x, NOTED_POSITION, &value, &isnull);
	cdc_pos_from_datum(&pos, value, isnull);
	read_noted(x, NOTED_UNPLACED, &value, &isnull);
	placed = DatumGetBool(value) ? 0 : pos.len;
	read_noted(x, NOTED_NUMBER, &value, &isnull);
	number = DatumGetInt64(value);
	if (x->batch_error != NULL || (group->error != NULL && is_faulty(group, number, &pos, placed)))
	{
		tell(x, noted_text(x, NOTED_KEY), noted_text(x, NOTED_OP), &pos,
			 x->batch_error != NULL ? NULL : &group->judged.stored, "error",
			 x->batch_error != NULL ? x->batch_error : group->error);
		return;
	}
	if (number == group->number)
	{
		outcome = group->judged.outcome;
		reason = cdc_reason(&x->call.target, group);
	}
	else
		reason = cdc_reason_superseded(&x->call.target, group, &pos, placed);
	tell(x, noted_text(x, NOTED_KEY), noted_text(x, NOTED_OP), &pos, &group->judged.stored,
		 cdc_outcome_names[outcome], reason);
}

/* The greatest truncate counts once, if it does. */
static void
tell_truncate(CdcExplain *x, bool *counted)
{
	const CdcPos *truncate = &x->call.target.truncate;
	CdcOutcome	outcome = CDC_SUPERSEDED;
	const char *reason;
	CdcPos		pos;
	Datum		value;
	bool		isnull;

	read_noted(x, NOTED_POSITION, &value, &isnull);
	cdc_pos_from_datum(&pos, value, isnull);
	if (x->batch_error != NULL)
	{
		tell(x, NULL, noted_text(x, NOTED_OP), &pos, NULL, "error", x->batch_error);
		return;
	}
	if (truncate->len == 0)
	{
		outcome = CDC_STALE;
		reason = "at or below the fence or the floor of the target";
	}
	else if (!*counted && cdc_pos_compare(pos.bytes, pos.len, truncate->bytes, truncate->len) == 0)
	{
		*counted = true;
		outcome = CDC_TRUNCATED;
		reason = "every row at or below it is dead";
	}
	else
		reason = psprintf("this batch has a truncate at %s",
						  cdc_pos_text(truncate->bytes, truncate->len));
	tell(x, NULL, noted_text(x, NOTED_OP), &pos, NULL, cdc_outcome_names[outcome], reason);
}

/* Does the event in hand belong to the key that is told? */
static bool
same_group(CdcExplain *x)
{
	bool		isnull;

	if (!x->group.known)
		return false;
	for (int i = 0; i < x->call.target.nkeys; i++)
		if (!cdc_key_equal(&x->call.target.keys[i], slot_getattr(x->got, i + 1, &isnull),
						   x->group.keys[i]))
			return false;
	return true;
}

/*
 * Judge a winner.  Of the delete that a key move leaves nothing is told, since
 * no event of staging is it, unless it is what would be refused.
 */
static void
judge_and_tell(CdcExplain *x, const CdcEvent *winner)
{
	CdcTarget  *target = &x->call.target;
	Datum	   *keys;
	bool	   *isnull;

	judge(x, winner);
	if (x->group.error == NULL || !x->group.moved_away)
		return;
	keys = palloc(sizeof(Datum) * target->nkeys);
	isnull = palloc(sizeof(bool) * target->nkeys);
	for (int i = 0; i < target->nkeys; i++)
		keys[i] = cdc_event_value(&x->call.cols, winner, i + 1, &isnull[i]);
	tell(x, cdc_key_json(target, keys, isnull, NULL), "delete", &x->group.pos,
		 &x->group.judged.stored, "error",
		 psprintf("the key that an event's row had before: %s", x->group.error));
}

/* Begin with the key of the event in hand. */
static void
begin_group(CdcExplain *x)
{
	CdcToldKey *group = &x->group;
	CdcTarget  *target = &x->call.target;
	MemoryContext old;
	const CdcEvent *winner;
	bool		same;

	MemoryContextReset(group->context);
	old = MemoryContextSwitchTo(group->context);
	group->keys = palloc(sizeof(Datum) * target->nkeys);
	for (int i = 0; i < target->nkeys; i++)
	{
		bool		isnull;
		Datum		value = slot_getattr(x->got, i + 1, &isnull);

		group->keys[i] = target->keys[i].typlen == -1 ?
			PointerGetDatum(PG_DETOAST_DATUM_COPY(value)) :
			datumCopy(value, target->keys[i].typbyval, target->keys[i].typlen);
	}
	group->known = true;
	MemoryContextSwitchTo(old);
	if (x->batch_error != NULL)
		return;
	while ((winner = cdc_fold_winner(x->fold, group->keys, &same)) != NULL && !same)
		judge_and_tell(x, winner);
	if (winner == NULL)
		elog(ERROR, "an event has no winner of its key");
	judge_and_tell(x, winner);
}

/* Both in their order.  It ends with no subtransaction open, or in an error. */
static void
walk_through(CdcExplain *x)
{
	MemoryContext row = AllocSetContextCreate(CurrentMemoryContext, "cdc_explain row",
											  ALLOCSET_DEFAULT_SIZES);
	bool		truncated = false;
	const CdcEvent *winner;
	bool		same;

	while (tuplesort_gettupleslot(x->sort, true, false, x->got, NULL))
	{
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		if (slot_attisnull(x->got, 1))
		{
			old = MemoryContextSwitchTo(row);
			tell_truncate(x, &truncated);
		}
		else
		{
			if (!same_group(x))
				begin_group(x);
			old = MemoryContextSwitchTo(row);
			tell_event(x);
		}
		MemoryContextSwitchTo(old);
		MemoryContextReset(row);
	}
	while (x->batch_error == NULL && (winner = cdc_fold_winner(x->fold, NULL, &same)) != NULL)
		judge_and_tell(x, winner);
	close_target(x);
	MemoryContextDelete(row);
}

static void
walk(CdcExplain *x)
{
	tuplesort_performsort(x->sort);
	cdc_fold_finish(x->fold);
	cdc_fold_rewind(x->fold, false);
	PG_TRY();
	{
		walk_through(x);
	}
	PG_CATCH();
	{
		if (x->open)
			cdc_try_rethrow(&x->try);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* ---------- the call ---------- */

/* What the batch is refused for as a whole. */
static void
judge_batch(CdcExplain *x)
{
	CdcTry		try;

	cdc_try_begin(&try);
	PG_TRY();
	{
		cdc_call_judge_batch(&x->call);
		cdc_try_end(&try);
	}
	PG_CATCH();
	{
		x->batch_error = cdc_try_caught(&try, NULL);
	}
	PG_END_TRY();
}

static void
explain(CdcExplain *x)
{
	CdcApply   *call = &x->call;
	List	   *fed;

	(void) cdc_call_open(call, &fed);
	x->described = call->target;

	/* rights, before anything is read */
	cdc_call_begin_target(call);
	cdc_target_end(&call->target);
	call->target = x->described;

	x->fold = cdc_fold_create(&call->target, &call->cols, &call->rule);
	begin_sort(x);
	x->watch.row = see_row;
	cdc_read_staging(&call->target, &call->cols, &call->rule, x->fold, &x->watch, &call->read);
	if (x->watch.failed != NULL)
		tell(x, NULL, NULL, NULL, NULL, "error",
			 psprintf("staging \"%s\" could not be read: %s", call->cols.staging_name,
					  x->watch.failed));
	else
	{
		judge_batch(x);
		walk(x);
		cdc_fold_end(x->fold);
	}
	tuplesort_end(x->sort);
	ExecDropSingleTupleTableSlot(x->put);
	ExecDropSingleTupleTableSlot(x->got);
	relation_close(call->staging_rel, NoLock);
	table_close(call->target_rel, NoLock);
}

Datum
cdc_explain(PG_FUNCTION_ARGS)
{
	CdcExplain *x;
	MemoryContext context;
	MemoryContext old;

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	InitMaterializedSRF(fcinfo, 0);
	PreventCommandIfParallelMode("cdc_explain()");

	context = AllocSetContextCreate(CurrentMemoryContext, "cdc_explain", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	x = palloc0(sizeof(CdcExplain));
	x->result = (ReturnSetInfo *) fcinfo->resultinfo;
	x->group.context = AllocSetContextCreate(context, "cdc_explain key", ALLOCSET_SMALL_SIZES);
	x->call.explain = true;
	memset(x->call.args.isnull, true, sizeof(x->call.args.isnull));
	for (int i = 0; i <= CDC_ARG_CONSUME; i++)
	{
		x->call.args.values[i] = PG_GETARG_DATUM(i);
		x->call.args.isnull[i] = PG_ARGISNULL(i);
	}
	x->call.args.values[CDC_ARG_LINEAGE] = PG_GETARG_DATUM(EXPLAIN_LINEAGE);
	x->call.args.isnull[CDC_ARG_LINEAGE] = PG_ARGISNULL(EXPLAIN_LINEAGE);
	x->call.args.values[CDC_ARG_DRY_RUN] = BoolGetDatum(true);
	x->call.args.isnull[CDC_ARG_DRY_RUN] = false;

	/* staging's values may be out of line: keep what they point to */
	PushActiveSnapshot(GetTransactionSnapshot());
	explain(x);
	PopActiveSnapshot();

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return (Datum) 0;
}
