/*-------------------------------------------------------------------------
 *
 * cdc_write.c
 *		Winners judged and written, in key order.
 *
 * For each winner: find the stored row without a lock, judge, and leave
 * losers alone.  A row that is written is checked by the write itself: when
 * somebody else changed it since it was read, it is read again and judged
 * again.  Deletes go before upserts, so that secondary unique values are free
 * when they are taken again.
 *
 * The one TM_Result switch is check_result().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "cdc_apply.h"

/*
 * Rows whose image is compared at the stored position in one call, so that a
 * replay stays cheap.
 */
#define CDC_COMPARE_LIMIT	1000

/* something that one WARNING tells of, with one example */
typedef struct CdcNotice
{
	int64		count;
	char	   *key;
	char	   *pos;
	const char *column;
} CdcNotice;

typedef enum Written
{
	WRITTEN,
	WRITE_SKIPPED,				/* a trigger said no */
	WRITE_AGAIN					/* somebody else was there first */
} Written;

typedef struct CdcWriter
{
	CdcTarget  *target;
	CdcColumns *cols;
	const CdcRule *rule;
	CdcFold    *fold;
	CdcWriteResult *result;
	CdcImage	image;
	CdcContext	context;
	MemoryContext call_context;
	MemoryContext row_context;
	Datum	   *keys;
	bool	   *keys_null;
	Datum	   *before;			/* law columns before a BEFORE trigger */
	bool	   *before_null;
	int64		compared;
	int64		judged;			/* winners that are counted */
	CdcNotice	crossed,
				differs,
				passed;			/* rows whose snapshot position did not count */
} CdcWriter;

static void
note(CdcWriter *w, CdcNotice *notice, const CdcEvent *ev, const char *column)
{
	if (notice->count++ == 0)
	{
		MemoryContext old = MemoryContextSwitchTo(w->call_context);

		notice->key = cdc_event_key_text(w->target, w->cols, ev);
		notice->pos = cdc_pos_text(ev->pos, ev->poslen);
		notice->column = column;
		MemoryContextSwitchTo(old);
	}
}

/* ---------- triggers around a write ---------- */

static void
fire_insert(CdcTarget *target)
{
	if (!target->insert_fired)
	{
		target->insert_fired = true;
		ExecBSInsertTriggers(target->estate, target->rri);
	}
}

static void
fire_update(CdcTarget *target)
{
	if (!target->update_fired)
	{
		target->update_fired = true;
		ExecBSUpdateTriggers(target->estate, target->rri);
	}
}

static bool
is_law_column(CdcWriter *w, CdcLeaf *leaf, int at)
{
	CdcTarget  *target = w->target;

	for (int i = 0; i < target->nkeys; i++)
		if (leaf->attno[target->keys[i].attno - 1] == at + 1)
			return true;
	for (int i = 0; i < target->npos; i++)
		if (leaf->attno[target->pos_attno[i] - 1] == at + 1)
			return true;
	return leaf->attno[target->tomb_attno - 1] == at + 1;
}

static void
remember_row(CdcWriter *w, TupleTableSlot *slot)
{
	int			natts = slot->tts_tupleDescriptor->natts;

	memcpy(w->before, slot->tts_values, sizeof(Datum) * natts);
	memcpy(w->before_null, slot->tts_isnull, sizeof(bool) * natts);
}

/* A trigger may change a row, but not what the law stands on. */
static void
check_triggered_row(CdcWriter *w, CdcLeaf *leaf, TupleTableSlot *slot)
{
	TupleDesc	desc = slot->tts_tupleDescriptor;

	slot_getallattrs(slot);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!is_law_column(w, leaf, i) ||
			(w->before_null[i] && slot->tts_isnull[i]) ||
			(!w->before_null[i] && !slot->tts_isnull[i] &&
			 datum_image_eq(w->before[i], slot->tts_values[i], att->attbyval, att->attlen)))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("a BEFORE trigger of \"%s\" changed column \"%s\"", w->target->name,
						NameStr(att->attname)),
				 errdetail("Key, position and tombstone of a row are set by cdc_apply alone."),
				 errhint("Let the trigger leave these columns as they are.")));
	}
}

/* Generated columns and constraints of a row about to be written. */
static void
check_row(CdcWriter *w, CdcLeaf *leaf, TupleTableSlot *slot, bool triggered)
{
	ResultRelInfo *rri = leaf->rri;
	Relation	rel = rri->ri_RelationDesc;
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	/* CMD_INSERT computes all of them, also after a revival has set defaults */
	if (constr != NULL && constr->has_generated_stored)
		ExecComputeStoredGenerated(rri, w->target->estate, slot, CMD_INSERT);
	if (constr != NULL)
		ExecConstraints(rri, slot, w->target->estate);
	if (rel->rd_rel->relispartition && (rri == w->target->rri || triggered))
		ExecPartitionCheck(rri, slot, w->target->estate, true);
}

/* ---------- writes ---------- */

/* The one place that says what a table AM's answer means. */
static Written
check_result(CdcWriter *w, TM_Result result)
{
	switch (result)
	{
		case TM_Ok:
			return WRITTEN;
		case TM_Updated:
		case TM_Deleted:
			if (IsolationUsesXactSnapshot())
				cdc_refuse_concurrent();
			return WRITE_AGAIN;
		case TM_SelfModified:
		case TM_Invisible:
			ereport(ERROR,
					(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
					 errmsg("row of \"%s\" to be written was already modified by an operation triggered by the current command",
							w->target->name),
					 errhint("Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.")));
			break;
		default:
			elog(ERROR, "unexpected result %d of writing a tuple", result);
	}
	pg_unreachable();
}

/* Insert the row in slot, unless somebody else inserted the key meanwhile. */
static Written
insert_row(CdcWriter *w, CdcLeaf *leaf, TupleTableSlot *slot, bool tombstone)
{
	EState	   *estate = w->target->estate;
	ResultRelInfo *rri = leaf->rri;
	Relation	rel = rri->ri_RelationDesc;
	bool		triggered = rri->ri_TrigDesc != NULL && rri->ri_TrigDesc->trig_insert_before_row;
	bool		conflict = false;
	List	   *recheck;
	uint32		token;

	slot->tts_tableOid = RelationGetRelid(rel);
	fire_insert(w->target);
	if (triggered)
	{
		remember_row(w, slot);
		if (!ExecBRInsertTriggers(estate, rri, slot))
			return WRITE_SKIPPED;
		check_triggered_row(w, leaf, slot);
	}
	w->context.tombstone = tombstone;
	check_row(w, leaf, slot, triggered);
	w->context.tombstone = false;

	token = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
	table_tuple_insert_speculative(rel, slot, estate->es_output_cid, 0, NULL, token);
	recheck = cdc_insert_index_tuples(rri, slot, estate, false, &conflict, leaf->arbiters, false);
	table_tuple_complete_speculative(rel, slot, token, !conflict);
	SpeculativeInsertionLockRelease(GetCurrentTransactionId());
	if (conflict)
	{
		ItemPointerData tid;

		list_free(recheck);
		/* waits until the other insert has ended, one way or the other */
		(void) cdc_check_index_constraints(rri, slot, estate, &tid, leaf->arbiters);
		return WRITE_AGAIN;
	}
	ExecARInsertTriggers(estate, rri, slot, recheck, w->target->insert_capture);
	list_free(recheck);
	return WRITTEN;
}

/* Replace the stored row by the row in slot, if it is still the stored row. */
static Written
update_row(CdcWriter *w, CdcLeaf *leaf, CdcStored *stored, TupleTableSlot *slot)
{
	EState	   *estate = w->target->estate;
	ResultRelInfo *rri = leaf->rri;
	Relation	rel = rri->ri_RelationDesc;
	ItemPointerData tid = stored->slot->tts_tid;
	bool		triggered = rri->ri_TrigDesc != NULL && rri->ri_TrigDesc->trig_update_before_row;
	TM_FailureData failure;
	Written		written;
	List	   *recheck = NIL;
	bool		indexes,
				summarizing;

	slot->tts_tableOid = RelationGetRelid(rel);
	fire_update(w->target);
	if (triggered)
	{
		/* lock first, so that the triggers see the row that was judged */
		written = check_result(w, table_tuple_lock(rel, &tid, estate->es_snapshot, leaf->other,
												   estate->es_output_cid, LockTupleNoKeyExclusive,
												   LockWaitBlock, 0, &failure));
		if (written != WRITTEN)
			return written;
		remember_row(w, slot);
		if (!cdc_before_update_triggers(estate, &w->target->epq, rri, &tid, slot, &failure))
			return WRITE_SKIPPED;
		check_triggered_row(w, leaf, slot);
	}
	check_row(w, leaf, slot, triggered);

	written = check_result(w, cdc_table_tuple_update(rel, &tid, slot, estate->es_output_cid,
													 estate->es_snapshot, &failure, &indexes,
													 &summarizing));
	if (written != WRITTEN)
		return written;
	if (rri->ri_NumIndices > 0 && indexes)
		recheck = cdc_insert_index_tuples(rri, slot, estate, true, NULL, NIL, summarizing);
	cdc_after_update_triggers(estate, rri, &tid, slot, recheck, w->target->update_capture);
	list_free(recheck);
	return WRITTEN;
}

/* ---------- judging ---------- */

/* Refuse a winner that would be written while its order is not knowable. */
static void
check_ties(CdcWriter *w, const CdcEvent *ev)
{
	bool		tied = (ev->flags & CDC_EVENT_TIED_DELETE) != 0;

	if (w->rule->on_tie != CDC_TIE_ERROR)
		return;
	for (const CdcEvent *t = ev->tied; t != NULL && !tied; t = t->tied)
		tied = cdc_image_tied(&w->image, ev, t);
	if (tied)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("different events of one key share a position in staging \"%s\"",
						w->cols->staging_name),
				 errdetail("Key %s at position %s: which one is later cannot be known.",
						   cdc_event_key_text(w->target, w->cols, ev),
						   cdc_pos_text(ev->pos, ev->poslen)),
				 errhint("Add an ordinal to the position, such as the change's number in its transaction, or set on_tie => 'upsert'.")));
}

/*
 * A duplicate at the stored position: is its image the stored one?  May turn
 * the verdict into an update.
 */
static void
compare_same(CdcWriter *w, CdcLeaf *leaf, const CdcEvent *ev, const CdcStored *stored,
			 CdcVerdict *v)
{
	CdcOnSame	option = w->rule->on_same_position;
	const char *column;

	if (option == CDC_SAME_KEEP ||
		(option == CDC_SAME_WARN && w->compared++ >= CDC_COMPARE_LIMIT))
		return;
	column = cdc_image_difference(&w->image, leaf, ev, stored);
	if (column == NULL)
		return;
	if (option == CDC_SAME_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("an event differs from the row stored at its position in target \"%s\"",
						w->target->name),
				 errdetail("Key %s, position %s, first differing column \"%s\".",
						   cdc_event_key_text(w->target, w->cols, ev),
						   cdc_pos_text(ev->pos, ev->poslen), column),
				 errhint("Add an ordinal if two changes share a position; use on_same_position => 'rewrite' to backfill from the log.")));
	if (option == CDC_SAME_REWRITE)
	{
		v->outcome = CDC_UPDATED;
		v->write = true;
	}
	else
		note(w, &w->differs, ev, column);
}

static CdcVerdict
judge(CdcWriter *w, CdcLeaf *leaf, const CdcEvent *ev, const CdcStored *stored)
{
	int			placed = cdc_event_place_len(ev);
	CdcVerdict	v;

	if (ev->poslen > 0 && stored->pos.len > 0 &&
		cdc_position_kind_of(ev->pos) != cdc_position_kind_of(stored->pos.bytes))
		cdc_refuse_mixed_kinds(psprintf("staging \"%s\" and target \"%s\" at key %s",
										w->cols->staging_name, w->target->name,
										cdc_event_key_text(w->target, w->cols, ev)));
	v = cdc_law_judge(ev->class, ev->pos, placed, stored->state, &stored->pos,
					  &w->target->horizon);
	if (v.compare)
		compare_same(w, leaf, ev, stored, &v);
	if (v.write)
		check_ties(w, ev);
	return v;
}

/* What the call's warnings will say of a judged winner. */
static void
note_verdict(CdcWriter *w, const CdcEvent *ev, const CdcStored *stored, const CdcVerdict *v)
{
	if (v->crossed && (ev->flags & (CDC_EVENT_SECOND | CDC_EVENT_MOVED_AWAY)) == 0)
		note(w, &w->crossed, ev, NULL);
	if (!v->write && (ev->flags & CDC_EVENT_UNPLACED) &&
		stored->state != CDC_KEY_ABSENT &&
		cdc_pos_compare(ev->pos, ev->poslen, stored->pos.bytes, stored->pos.len) > 0)
		note(w, &w->passed, ev, NULL);
}

static Written
write_winner(CdcWriter *w, CdcLeaf *leaf, const CdcEvent *ev, CdcStored *stored, CdcOutcome outcome)
{
	TupleTableSlot *slot = leaf->fresh;
	bool		absent = stored->state == CDC_KEY_ABSENT;
	Written		written;
	MemoryContext old;

	if (outcome == CDC_DELETED)
	{
		w->context.tombstone = absent;
		cdc_image_delete(&w->image, leaf, ev, stored, slot);
		w->context.tombstone = false;
	}
	else
		cdc_image_upsert(&w->image, leaf, ev, stored, slot);

	/* the executor caches things in the current context as it goes along */
	old = MemoryContextSwitchTo(w->target->estate->es_query_cxt);
	if (w->rule->dry_run)
		written = WRITTEN;
	else if (absent)
		written = insert_row(w, leaf, slot, outcome == CDC_DELETED);
	else
		written = update_row(w, leaf, stored, slot);
	ExecClearTuple(slot);
	MemoryContextSwitchTo(old);
	return written;
}

static void
process_winner(CdcWriter *w, const CdcEvent *ev)
{
	CdcTarget  *target = w->target;
	bool		again = false;
	bool		counted = (ev->flags & CDC_EVENT_MOVED_AWAY) == 0;
	CdcOutcome	outcome;

	for (int i = 0; i < target->nkeys; i++)
		w->keys[i] = cdc_event_value(w->cols, ev, i + 1, &w->keys_null[i]);
	w->context.keys = w->keys;
	w->context.pos = ev->pos;
	w->context.poslen = ev->poslen;

	for (;;)
	{
		CdcLeaf    *leaf = cdc_target_leaf(target, w->keys);
		CdcStored	stored;
		CdcVerdict	v;
		Written		written = WRITTEN;

		CHECK_FOR_INTERRUPTS();
		cdc_target_find(target, leaf, w->keys, again, leaf->stored, &stored);
		v = judge(w, leaf, ev, &stored);
		if (v.write)
			written = write_winner(w, leaf, ev, &stored, v.outcome);
		if (written == WRITE_AGAIN)
		{
			again = true;
			continue;
		}
		note_verdict(w, ev, &stored, &v);
		outcome = written == WRITE_SKIPPED ? CDC_IGNORED : v.outcome;
		break;
	}
	w->context.keys = NULL;
	if (counted)
	{
		w->judged++;
		w->result->counts[outcome]++;
	}
}

/* ---------- the call's warnings ---------- */

static void
report_notices(CdcWriter *w)
{
	int64	   *counts = w->result->counts;

	if (w->crossed.count > 0)
		ereport(WARNING,
				(errmsg("an upsert and a delete of one key of target \"%s\" came at one position in different batches",
						w->target->name),
				 errdetail("Keys: %lld, one is key %s at position %s. The upsert stands.",
						   (long long) w->crossed.count, w->crossed.key, w->crossed.pos),
				 errhint("Add an ordinal to the position so that the order is known.")));
	if (w->differs.count > 0)
		ereport(WARNING,
				(errmsg("events differ from the row stored at their position in target \"%s\"",
						w->target->name),
				 errdetail("Events: %lld, one is key %s at position %s, first differing column \"%s\". The stored rows were kept.",
						   (long long) w->differs.count, w->differs.key, w->differs.pos, w->differs.column),
				 errhint("Add an ordinal if two changes share a position; use on_same_position => 'rewrite' to backfill from the log.")));
	if (w->passed.count > 0)
		ereport(WARNING,
				(errmsg("snapshot rows left stored rows of target \"%s\" alone although their position is greater",
						w->target->name),
				 errdetail("Rows: %lld, one is key %s at position %s. Under snapshot_position 'none' a snapshot row fills absent keys only.",
						   (long long) w->passed.count, w->passed.key, w->passed.pos),
				 errhint("Use snapshot_position => 'event' if every change at or below a snapshot row's position is in the row; cdc_apply_snapshot is the tool for reloads.")));
	if (counts[CDC_STALE] > 0 && counts[CDC_DUPLICATE] == 0 && counts[CDC_INSERTED] == 0 &&
		counts[CDC_UPDATED] == 0 && counts[CDC_DELETED] == 0 && counts[CDC_FENCED] == 0)
		ereport(WARNING,
				(errmsg("every event of staging \"%s\" is older than what target \"%s\" holds",
						w->cols->staging_name, w->target->name),
				 errdetail("Stale events: %lld.", (long long) counts[CDC_STALE]),
				 errhint("A late batch looks so, and so does a log that restarted at lower positions: then the new log needs an epoch (lineage).")));
}

/* Statement and deferred-to-end row triggers. */
static void
finish_triggers(CdcTarget *target)
{
	if (target->update_fired)
		ExecASUpdateTriggers(target->estate, target->rri, target->update_capture);
	if (target->insert_fired)
		ExecASInsertTriggers(target->estate, target->rri, target->insert_capture);
	AfterTriggerEndQuery(target->estate);
}

static void
write_pass(CdcWriter *w, CdcEvent **winners, int64 n, bool deletes)
{
	for (int64 i = 0; i < n; i++)
	{
		CdcEvent   *ev = winners[i];
		bool		kills = ev->class == CDC_DELETE || ev->class == CDC_RETRACTION;

		if (kills != deletes)
			continue;
		process_winner(w, ev);
		MemoryContextReset(w->row_context);
		ResetPerTupleExprContext(w->target->estate);
	}
}

/* Judge and write all winners of the fold, and count what became of them. */
void
cdc_write_winners(CdcTarget *target, CdcColumns *cols, const CdcRule *rule, CdcFold *fold,
				  CdcWriteResult *result)
{
	CdcWriter	w = {.target = target, .cols = cols, .rule = rule, .fold = fold, .result = result};
	ErrorContextCallback callback = {error_context_stack, cdc_context_callback, &w.context};
	CdcEvent  **winners;
	int64		n;
	MemoryContext old;

	memset(result, 0, sizeof(CdcWriteResult));
	w.context.target = target;
	w.context.staging = cols->staging_name;
	w.image.target = target;
	w.image.cols = cols;
	w.image.fold = fold;
	w.image.rule = rule;
	w.image.context = &w.context;
	/* a partition may have more columns, dropped ones, than the target */
	w.before = palloc(sizeof(Datum) * MaxTupleAttributeNumber);
	w.before_null = palloc(sizeof(bool) * MaxTupleAttributeNumber);
	w.keys = palloc0(sizeof(Datum) * target->nkeys);
	w.keys_null = palloc0(sizeof(bool) * target->nkeys);
	w.call_context = CurrentMemoryContext;
	w.row_context = AllocSetContextCreate(CurrentMemoryContext, "cdc_apply row",
										  ALLOCSET_DEFAULT_SIZES);
	winners = cdc_fold_winners(fold, &n);

	error_context_stack = &callback;
	old = MemoryContextSwitchTo(w.row_context);
	write_pass(&w, winners, n, true);
	write_pass(&w, winners, n, false);
	MemoryContextSwitchTo(old);
	if (!rule->dry_run)
		finish_triggers(target);
	error_context_stack = callback.previous;
	MemoryContextDelete(w.row_context);

	result->counts[CDC_SUPERSEDED] = cdc_fold_counted(fold) - w.judged;
	report_notices(&w);
}
