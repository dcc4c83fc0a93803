/*-------------------------------------------------------------------------
 *
 * cdc_read.c
 *		Staging read: one generated query whose rows become events.
 *
 * The query is a plain SELECT, or with consume => 'delete' one DELETE ..
 * RETURNING, run as the caller.  Each row is classified, its key and position
 * are worked out, and the event is offered to the fold.  Rows that are no
 * event are counted; rows that make the batch unusable are counted too, and
 * refused together at the end, so that the message can say how many they are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "cdc_consume.h"
#include "cdc_progress.h"
#include "cdc_read.h"
#include "cdc_sieve.h"

/* ---------- one row ---------- */

static bool
all_null(TupleTableSlot *slot, const int *at, int n)
{
	for (int i = 0; i < n; i++)
		if (!slot->tts_isnull[at[i]])
			return false;
	return true;
}

/* Has no applied column a value? */
static bool
is_empty(CdcReader *r, TupleTableSlot *slot)
{
	slot_getallattrs(slot);
	return all_null(slot, r->query.col_at, r->cols->ncols);
}

/* The row's key and position as staging has them, for an example in a message. */
static char *
row_text(CdcReader *r, TupleTableSlot *slot)
{
	TupleDesc	desc = slot->tts_tupleDescriptor;
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoString(&s, "key ");
	for (int i = 0; i < r->cols->nkeys; i++)
	{
		int			at = r->query.key_at[i];

		appendStringInfo(&s, "%s%s=%s", i > 0 ? ", " : "", r->target->keys[i].name,
						 cdc_value_text(TupleDescAttr(desc, at)->atttypid, slot->tts_values[at],
										slot->tts_isnull[at]));
	}
	for (int i = 0; i < r->cols->npos; i++)
		appendStringInfo(&s, "%s%s", i > 0 ? ":" : ", position ",
						 cdc_value_text(r->cols->pos_type[i], r->pos_values[i], r->pos_null[i]));
	return s.data;
}

static void
note_fault(CdcReader *r, CdcFaults *faults, TupleTableSlot *slot)
{
	r->reason = faults->reason;
	if (r->watch == NULL && faults->count++ == 0)
		faults->example = MemoryContextStrdup(r->call_context, row_text(r, slot));
}

static bool
flag_is_set(CdcReader *r, Datum value)
{
	char	   *word;
	int			len;
	bool		set;

	switch (r->flag_type)
	{
		case BOOLOID:
			return DatumGetBool(value);
		case INT2OID:
			return DatumGetInt16(value) != 0;
		case INT4OID:
			return DatumGetInt32(value) != 0;
		case INT8OID:
			return DatumGetInt64(value) != 0;
	}
	word = TextDatumGetCString(value);
	/* the blanks that fill up a char(n) say nothing */
	len = strlen(word);
	while (r->flag_type == BPCHAROID && len > 0 && word[len - 1] == ' ')
		len--;
	if (!parse_bool_with_len(word, len, &set))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid delete flag in column \"%s\": \"%s\"",
						r->rule->delete_flag_column, cdc_clip(word)),
				 errhint("Use true, false, t, f, 1 or 0.")));
	return set;
}

/*
 * May a row without an op be a Kafka record without a value?  Not where such a
 * row was said to be a snapshot row, which needs no position, or a delete,
 * which must not get lost.
 */
static bool
may_be_null_record(const CdcReader *r)
{
	if (r->rule->default_op != NULL)
		return r->default_op.class == CDC_UPSERT;
	return r->query.op_at < 0 || r->rule->null_op == CDC_NULL_OP_AUTO ||
		r->rule->null_op == CDC_NULL_OP_IGNORE;
}

/*
 * What is this row?  CDC_IGNORE for rows that are no event (counted by the
 * caller), CDC_UNKNOWN where the fault has been noted.
 */
static CdcOp
classify(CdcReader *r, TupleTableSlot *slot, bool placed)
{
	CdcOp		op = r->default_op;
	bool		flag_null = r->query.flag_at < 0 || slot->tts_isnull[r->query.flag_at];
	bool		op_null = r->query.op_at < 0 || slot->tts_isnull[r->query.op_at];

	if (!flag_null && flag_is_set(r, slot->tts_values[r->query.flag_at]))
	{
		op.class = CDC_DELETE;
		op.second = op.frame = false;
		return op;
	}
	if (op_null && !placed && may_be_null_record(r) && is_empty(r, slot))
	{
		/* a Kafka record without a value, which follows a delete */
		r->null_records++;
		r->reason = "a record without op, position and values, as Kafka writes after a delete";
		op.class = CDC_IGNORE;
		return op;
	}
	if (!op_null)
	{
		op = cdc_op_decode(r->ops, slot->tts_values[r->query.op_at]);
		if (op.frame && is_empty(r, slot) && all_null(slot, r->query.key_at, r->cols->nkeys))
			op.class = CDC_IGNORE;
	}
	else if (r->query.op_at >= 0 && r->rule->default_op == NULL)
	{
		op.class = CDC_SNAPSHOT;
		if (r->rule->null_op == CDC_NULL_OP_IGNORE ||
			(r->rule->null_op == CDC_NULL_OP_AUTO && !placed && is_empty(r, slot)))
			op.class = CDC_IGNORE;
		else if (r->rule->null_op == CDC_NULL_OP_ERROR)
			op.class = CDC_UNKNOWN;
	}
	if (op.class == CDC_UNKNOWN)
	{
		if (r->bad_op.value == NULL && r->watch == NULL)
			r->bad_op.value = MemoryContextStrdup(r->call_context, op_null ? "NULL" :
												  cdc_op_text(r->ops, slot->tts_values[r->query.op_at]));
		if (r->watch != NULL || r->bad_op.count == 0 ||
			strcmp(r->bad_op.value, op_null ? "NULL" :
				   cdc_op_text(r->ops, slot->tts_values[r->query.op_at])) == 0)
			note_fault(r, &r->bad_op, slot);
	}
	return op;
}

/* Convert n staging values into values[to..], naming the key column on error. */
static void
convert_keys(CdcReader *r, TupleTableSlot *slot, const int *from, ExprState **casts, int to)
{
	for (int i = 0; i < r->cols->nkeys; i++)
	{
		r->isnull[to + i] = slot->tts_isnull[from[i]];
		r->values[to + i] = slot->tts_values[from[i]];
		if (casts[i] == NULL)
			continue;
		r->context->row = slot;
		r->context->key_at = r->query.key_at;
		r->context->column = r->target->keys[i].name;
		r->values[to + i] = cdc_column_convert(r->cols, casts[i], r->values[to + i],
											   &r->isnull[to + i]);
		r->values[to + i] = cdc_key_normal(&r->target->keys[i], r->values[to + i]);
		r->context->column = NULL;
		r->context->row = NULL;
	}
}

/* Does the row carry an old key that differs?  Leaves it in the values. */
static bool
key_moves(CdcReader *r, TupleTableSlot *slot)
{
	int			n = r->cols->nkeys;
	int			to = n + r->cols->ncols;
	bool		moves = false;

	if (r->cols->nold == 0 || all_null(slot, r->query.old_at, n))
	{
		for (int i = 0; i < r->cols->nold; i++)
			r->isnull[to + i] = true;
		return false;
	}
	convert_keys(r, slot, r->query.old_at, r->cols->old_cast, to);
	for (int i = 0; i < n; i++)
	{
		CdcKey	   *key = &r->target->keys[i];

		if (r->isnull[to + i])
		{
			/* this part of the key did not change */
			r->values[to + i] = r->values[i];
			r->isnull[to + i] = false;
		}
		else if (!DatumGetBool(FunctionCall2Coll(&key->equal, key->collation, r->values[to + i],
												 r->values[i])))
			moves = true;
	}
	return moves;
}

static void
note_position(CdcReader *r, const CdcPos *pos)
{
	CdcReadResult *result = r->result;
	CdcPositionKind kind = cdc_position_kind_of(pos->bytes);

	if (!r->kind_known)
	{
		r->kind = kind;
		r->kind_known = true;
	}
	else if (r->kind != kind)
		cdc_refuse_mixed_kinds(psprintf("staging \"%s\"", r->cols->staging_name));
	if (result->low.len == 0 ||
		cdc_pos_compare(pos->bytes, pos->len, result->low.bytes, result->low.len) < 0)
		cdc_pos_copy(&result->low, pos);
	if (cdc_pos_compare(pos->bytes, pos->len, result->high.bytes, result->high.len) > 0)
		cdc_pos_copy(&result->high, pos);
}

/* Does the position of a snapshot row count? */
static bool
snapshot_placed(CdcReader *r, const CdcPos *pos)
{
	if (r->rule->snapshot_position != CDC_SNAPSHOT_BY_KIND)
		return r->rule->snapshot_position == CDC_SNAPSHOT_EVENT;
	return pos->len > 0 && cdc_position_kind_of(pos->bytes) == CDC_POSITION_NUMBER;
}

/* A truncate has no key; the greatest one of a batch is what matters. */
static void
read_truncate(CdcReader *r, TupleTableSlot *slot, const CdcPos *pos)
{
	CdcPos	   *greatest = &r->result->truncate;

	if (!r->rule->attached && r->cols->sink == NULL)
		note_fault(r, &r->truncates, slot);
	else if (pos->len == 0)
		note_fault(r, &r->null_position, slot);
	else
	{
		note_position(r, pos);
		r->result->truncates++;
		if (r->cols->sink != NULL)
			r->cols->sink->truncate(r->cols->sink, &r->query, slot, pos);
		if (cdc_pos_compare(pos->bytes, pos->len, greatest->bytes, greatest->len) > 0)
			*greatest = *pos;
	}
}

static void
take_list(CdcGapList *list, TupleTableSlot *slot, int at)
{
	list->isnull = at < 0 || slot->tts_isnull[at];
	if (!list->isnull)
		list->names = slot->tts_values[at];
}

/* Columns and gaps of an event that will be kept. */
static void
complete_event(CdcIncoming *in, void *arg)
{
	CdcReader  *r = (CdcReader *) arg;
	CdcColumns *cols = r->cols;
	TupleTableSlot *slot = in->row;
	Datum	   *values = r->values + cols->nkeys;
	bool	   *isnull = r->isnull + cols->nkeys;

	in->as_read = cdc_event_row(cols, slot);
	/* most rows carry everything, and their values are not needed one by one */
	if (in->as_read != NULL && r->only_markers && cdc_gaps_none(cols, in->as_read))
		return;
	slot_getallattrs(slot);
	for (int i = 0; i < cols->ncols; i++)
	{
		values[i] = slot->tts_values[r->query.col_at[i]];
		isnull[i] = slot->tts_isnull[r->query.col_at[i]];
	}
	if (!r->look_for_gaps)
		return;
	take_list(&r->unchanged, slot, r->query.unchanged_at);
	take_list(&r->absent, slot, r->query.absent_at);
	if (cdc_gaps_find(cols, &r->unchanged, &r->absent, r->rule->ignore_nulls, values, isnull,
					  r->gaps))
		in->gaps = r->gaps;
}

static void
read_position(CdcReader *r, TupleTableSlot *slot, CdcPos *pos)
{
	CdcColumns *cols = r->cols;

	if (cdc_rule_is_snapshot(r->rule))
	{
		cdc_pos_copy(pos, &r->rule->as_of);
		return;
	}
	if (r->position != NULL)
	{
		cols->econtext->ecxt_scantuple = slot;
		r->pos_values[0] = ExecEvalExpr(r->position, cols->econtext, &r->pos_null[0]);
	}
	else
		for (int i = 0; i < cols->npos; i++)
		{
			r->pos_values[i] = slot->tts_values[r->query.pos_at[i]];
			r->pos_null[i] = slot->tts_isnull[r->query.pos_at[i]];
		}
	cdc_position_from_columns(cols->npos, cols->pos_type, r->pos_values, r->pos_null, pos);
	if (r->rule->epoch != 0)
		cdc_pos_enter_epoch(pos, r->rule->epoch);
}

/*
 * Take a row.  True: it is an event, complete but for what in->complete puts
 * off.  Else it has been counted, or its fault noted; *op says which.
 */
static inline bool
read_row(CdcReader *r, TupleTableSlot *slot, CdcIncoming *in, CdcPos *pos, CdcOp *op)
{
	CdcColumns *cols = r->cols;

	slot_getsomeattrs(slot, r->query.need);
	r->result->events++;
	if (cdc_progress_wanted(r->result->events))
		cdc_progress_report_read(r->target->name, cols->staging_name, r->result->events);
	if (cols->bookmark != NULL)
		cdc_bookmark_note(cols->bookmark, slot, r->query.bookmark_at);
	read_position(r, slot, pos);
	*op = classify(r, slot, pos->len > 0);
	if (op->class == CDC_UNKNOWN)
		return false;
	if (op->class == CDC_IGNORE)
	{
		r->result->ignored++;
		return false;
	}
	if (op->class == CDC_TRUNCATE)
	{
		read_truncate(r, slot, pos);
		return false;
	}

	r->context->pos = pos->bytes;
	r->context->poslen = pos->len;
	convert_keys(r, slot, r->query.key_at, cols->key_cast, 0);
	for (int i = 0; i < cols->nkeys; i++)
		if (r->isnull[i])
		{
			note_fault(r, &r->null_key, slot);
			return false;
		}
	if (pos->len == 0 && op->class != CDC_SNAPSHOT)
	{
		note_fault(r, &r->null_position, slot);
		return false;
	}
	in->class = op->class;
	in->flags = op->second ? CDC_EVENT_SECOND : 0;
	in->pos = pos;
	in->values = r->values;
	in->isnull = r->isnull;
	in->row = slot;
	in->as_read = NULL;
	in->tuple = NULL;
	in->gaps = NULL;
	in->complete = complete_event;
	in->arg = r;
	if (key_moves(r, slot))
		in->flags |= CDC_EVENT_MOVES;
	if (op->class == CDC_SNAPSHOT && !snapshot_placed(r, pos))
		in->flags |= CDC_EVENT_UNPLACED;
	if (pos->len > 0)
		note_position(r, pos);
	return true;
}

/* The same for rows that are watched; the fold is not offered them here. */
bool
cdc_read_row(CdcReader *r, TupleTableSlot *slot, CdcIncoming *in, CdcPos *pos, CdcOp *op)
{
	if (!read_row(r, slot, in, pos, op))
		return false;
	if (r->cols->numbered)
	{
		r->values[r->cols->nevent - 1] = Int64GetDatum(r->result->events);
		r->isnull[r->cols->nevent - 1] = false;
	}
	in->complete(in, in->arg);
	in->complete = NULL;
	return true;
}

static bool
receive_slot(TupleTableSlot *slot, DestReceiver *self)
{
	CdcReader  *r = (CdcReader *) self;
	MemoryContext old = MemoryContextSwitchTo(r->row_context);
	CdcIncoming in;
	CdcPos		pos;
	CdcOp		op;

	if (r->peek != NULL)
		cdc_peek_ahead(r->peek, slot);
	if (!read_row(r, slot, &in, &pos, &op))
		;						/* counted, or its fault noted */
	else if (r->rule->sieve != NULL)
		cdc_sieve_take(r->rule->sieve, &in);
	else if (r->cols->sink != NULL)
	{
		in.complete(&in, in.arg);
		r->cols->sink->event(r->cols->sink, &r->query, &in);
	}
	else
		cdc_fold_offer(r->fold, &in);
	MemoryContextSwitchTo(old);
	MemoryContextReset(r->row_context);
	return true;
}

static void
receiver_startup(DestReceiver *self, int operation, TupleDesc typeinfo)
{
	CdcReader  *r = (CdcReader *) self;

	if (r->query.flag_at >= 0)
		r->flag_type = getBaseType(TupleDescAttr(typeinfo, r->query.flag_at)->atttypid);
	if (r->query.unchanged_at >= 0)
		r->unchanged.type = getBaseType(TupleDescAttr(typeinfo, r->query.unchanged_at)->atttypid);
	if (r->query.absent_at >= 0)
		r->absent.type = getBaseType(TupleDescAttr(typeinfo, r->query.absent_at)->atttypid);
}

static void
receiver_nothing(DestReceiver *self)
{
}

/* staging_position over rows that come as they stand; with casts made anew it is too. */
void
cdc_read_make_position(CdcReader *r)
{
	CdcColumns *cols = r->cols;
	MemoryContext old;

	if (!cols->all_columns || cols->position == NULL)
		return;
	old = MemoryContextSwitchTo(cols->cast_context != NULL ? cols->cast_context : r->call_context);
	r->position = ExecInitExpr(expression_planner((Expr *) copyObject(cols->position)), NULL);
	MemoryContextSwitchTo(old);
}

static CdcReader *
make_reader(CdcTarget *target, CdcColumns *cols, const CdcRule *rule, CdcFold *fold,
			CdcWatch *watch)
{
	CdcReader  *r = palloc0(sizeof(CdcReader));

	r->pub.receiveSlot = receive_slot;
	r->pub.rStartup = receiver_startup;
	r->pub.rShutdown = receiver_nothing;
	r->pub.rDestroy = receiver_nothing;
	r->pub.mydest = DestTuplestore;	/* SPI has its own ideas about the others */
	r->target = target;
	r->cols = cols;
	r->rule = rule;
	r->fold = fold;
	r->watch = watch;
	r->peek = watch == NULL && fold != NULL ? cdc_peek_create(fold) : NULL;
	r->call_context = CurrentMemoryContext;
	r->row_context = AllocSetContextCreate(CurrentMemoryContext, "cdc_apply staging row",
										   ALLOCSET_DEFAULT_SIZES);
	r->ops = cdc_ops_create(rule->op_map, cols->op_attno == 0 ? InvalidOid :
							TupleDescAttr(RelationGetDescr(cols->staging),
										  cols->op_attno - 1)->atttypid);
	r->default_op = cdc_op_default(r->ops, rule->default_op);
	r->gaps = palloc0(cdc_gap_bytes(cols) * 2 + 1);
	r->look_for_gaps = cols->unchanged_attno != 0 || cols->absent_attno != 0 || rule->ignore_nulls;
	r->only_markers = !r->look_for_gaps;
	for (int i = 0; i < cols->ncols; i++)
		r->look_for_gaps |= cols->cols[i].nmarkers > 0;
	r->values = palloc0(sizeof(Datum) * cols->nevent);
	r->isnull = palloc0(sizeof(bool) * cols->nevent);
	r->pos_values = palloc0(sizeof(Datum) * cols->npos);
	r->pos_null = palloc0(sizeof(bool) * cols->npos);
	r->bad_op.reason = "unknown op: op_map can say what it means";
	r->null_key.reason = "NULL in the key";
	r->null_position.reason = "no position, which only a snapshot row may lack";
	r->truncates.reason = "a truncate event needs an attached target";
	cdc_read_make_position(r);
	return r;
}

/*
 * Read staging into the fold, or to cols->sink.  Runs one query through SPI as the caller;
 * raises when any row cannot be used, unless each is watched.
 */
void
cdc_read_staging(CdcTarget *target, CdcColumns *cols, const CdcRule *rule, CdcFold *fold,
				 CdcWatch *watch, CdcReadResult *result)
{
	CdcReader  *r = make_reader(target, cols, rule, fold, watch);
	SPIExecuteOptions options;
	CdcContext	context = {.target = target, .staging = cols->staging_name};
	ErrorContextCallback callback = {error_context_stack, cdc_context_callback, &context};
	char	   *sql;
	int			rc;

	memset(result, 0, sizeof(CdcReadResult));
	r->result = result;
	SPI_connect();
	memset(&options, 0, sizeof(options));
	options.dest = &r->pub;
	r->context = &context;
	if (cols->bookmark != NULL)
	{
		/* the rows and the transactions that have ended: out of one snapshot */
		cdc_bookmark_push_snapshot(cols->bookmark);
		options.read_only = true;
	}
	sql = cdc_query_build(&r->query, cols, rule);
	error_context_stack = &callback;
	if (watch != NULL)
	{
		cdc_watch_staging(r, sql);
		rc = SPI_OK_SELECT;
	}
	else
		rc = SPI_execute_extended(sql, &options);
	error_context_stack = callback.previous;
	if (cols->bookmark != NULL)
		PopActiveSnapshot();
	if (rc < 0)
		elog(ERROR, "reading staging failed: %s", SPI_result_code_string(rc));
	/* a rule may have put something else in the place of the DELETE */
	if (rc != SPI_OK_SELECT &&
		(rc != SPI_OK_DELETE_RETURNING || SPI_processed != (uint64) result->events))
		cdc_refuse_consume(cols->staging_name);
	SPI_finish();
	MemoryContextDelete(r->row_context);
	if (watch == NULL)
		cdc_read_report_faults(r);
}
