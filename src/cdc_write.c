/*-------------------------------------------------------------------------
 *
 * cdc_write.c
 *		Winners judged and written, in key order.
 *
 * For each winner: find what is stored without a lock, judge, and leave
 * losers alone.  A row that somebody else changed since it was read is read
 * again and judged again (cdc_row.c tells).  Deletes go before upserts, so
 * that secondary unique values are free when they are taken again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "cdc_probe.h"
#include "cdc_progress.h"
#include "cdc_write.h"

/*
 * Rows whose image is compared at the stored position in one call, so that a
 * replay stays cheap.
 */
#define CDC_COMPARE_LIMIT	1000

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
	if (tied && ev->class == CDC_IMAGE)
		cdc_refuse_twins(w->cols->staging_name, cdc_event_key_text(w->target, w->cols, ev));
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
			 bool late, CdcVerdict *v)
{
	CdcOnSame	option = w->rule->on_same_position;
	const char *column;

	if (option == CDC_SAME_KEEP ||
		(option == CDC_SAME_WARN && w->compared++ >= CDC_COMPARE_LIMIT))
		return;
	cdc_event_open(w->cols, ev);
	column = cdc_image_difference(&w->image, leaf, ev, stored, late);
	if (column == NULL)
		return;
	if (w->told != NULL)
		w->told->column = column;
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
		cdc_notice_add(w, &w->differs, ev, column);
}

static CdcVerdict
judge(CdcWriter *w, CdcLeaf *leaf, const CdcEvent *ev, const CdcStored *stored)
{
	int			placed = cdc_event_place_len(ev);
	const char *late = NULL;
	CdcVerdict	v;

	if (ev->poslen > 0 && stored->pos.len > 0 &&
		cdc_position_kind_of(ev->pos) != cdc_position_kind_of(stored->pos.bytes))
		cdc_refuse_mixed_kinds(psprintf("staging \"%s\" and target \"%s\" at key %s",
										w->cols->staging_name, w->target->name,
										cdc_event_key_text(w->target, w->cols, ev)));
	v = cdc_law_judge(ev->class, ev->pos, placed, stored->state, &stored->pos,
					  &w->target->horizon);
	/* what a snapshot lacks must not stay to be seen */
	if (ev->class == CDC_MISSING && v.outcome == CDC_DUPLICATE && cdc_is_ghost(stored))
	{
		v.outcome = CDC_DELETED;
		v.write = true;
	}
	/* a snapshot's row that is the same as the stored one leaves its marks alone, too */
	if (v.compare && ev->class == CDC_IMAGE)
		check_ties(w, ev);
	else if (!v.write && cdc_marks_any(w->target, leaf, stored))
		late = cdc_marks_judge(&w->image, leaf, ev, stored);
	if (v.compare)
		compare_same(w, leaf, ev, stored, late != NULL, &v);
	if (!v.write && late != NULL)
	{
		v.outcome = CDC_UPDATED;
		v.write = v.late = true;
		if (w->told != NULL)
			w->told->late = late;
	}
	if (v.write)
		check_ties(w, ev);
	return v;
}

/* What the call's warnings will say of a judged winner. */
static void
note_verdict(CdcWriter *w, const CdcEvent *ev, const CdcStored *stored, const CdcVerdict *v)
{
	if (v->crossed && (ev->flags & (CDC_EVENT_SECOND | CDC_EVENT_MOVED_AWAY)) == 0)
		cdc_notice_add(w, &w->crossed, ev, NULL);
	if (v->outcome == CDC_FENCED && !cdc_event_kills(ev))
		cdc_notice_add(w, &w->fenced, ev, NULL);
	if (!v->write && (ev->flags & CDC_EVENT_UNPLACED) &&
		stored->state != CDC_KEY_ABSENT &&
		cdc_pos_compare(ev->pos, ev->poslen, stored->pos.bytes, stored->pos.len) > 0)
		cdc_notice_add(w, &w->passed, ev, NULL);
}

/* May the row of a key be written together with others, later? */
static bool
may_gather(CdcWriter *w, CdcLeaf *leaf, const CdcStored *stored, CdcFind how)
{
	return stored->slot == NULL && !stored->tombstone && how == CDC_FIND_IN_ORDER &&
		!w->rule->dry_run && cdc_bulk_takes(w, leaf);
}

/* Write an upsert or snapshot row. */
static CdcWritten
write_upsert(CdcWriter *w, CdcLeaf *leaf, const CdcEvent *ev, CdcStored *stored, CdcFind how)
{
	CdcTarget  *target = w->target;
	bool		bulk = may_gather(w, leaf, stored, how);
	TupleTableSlot *slot = bulk ? cdc_bulk_slot(w, leaf) : leaf->fresh;
	CdcWritten	written = WRITTEN;
	MemoryContext old;

	cdc_image_upsert(&w->image, leaf, ev, stored, slot);
	if (w->rule->dry_run)
		return WRITTEN;
	if (bulk)
	{
		cdc_bulk_add(w, leaf, ev, CDC_INSERTED);
		return WRITTEN;
	}
	/* the executor caches things in the current context as it goes along */
	old = MemoryContextSwitchTo(target->estate->es_query_cxt);
	if (stored->slot == NULL)
		written = cdc_row_insert(w, leaf, slot, false);
	else
		written = cdc_row_update(w, leaf, stored, slot);
	if (written == WRITTEN && stored->tombstone)
		cdc_tombstones_remove(target, w->keys);
	MemoryContextSwitchTo(old);
	return written;
}

/* Write a delete, into the row or into the side table. */
static CdcWritten
write_delete(CdcWriter *w, CdcLeaf *leaf, const CdcEvent *ev, CdcStored *stored, CdcFind how)
{
	CdcTarget  *target = w->target;
	bool		bulk = target->tomb_attno != 0 && may_gather(w, leaf, stored, how);
	TupleTableSlot *slot = bulk ? cdc_bulk_slot(w, leaf) : leaf->fresh;
	CdcWritten	written = WRITTEN;
	MemoryContext old;

	if (target->tomb_attno != 0)
	{
		w->context.tombstone = stored->slot == NULL;
		cdc_image_delete(&w->image, leaf, ev, stored, slot);
		w->context.tombstone = false;
	}
	if (w->rule->dry_run)
		return WRITTEN;
	if (bulk)
	{
		cdc_bulk_add(w, leaf, ev, CDC_DELETED);
		return WRITTEN;
	}
	old = MemoryContextSwitchTo(target->estate->es_query_cxt);
	if (target->tomb_attno == 0)
	{
		if (stored->slot != NULL)
			written = cdc_row_delete(w, leaf, stored);
		if (written == WRITTEN)
			cdc_tombstones_put(target, w->keys, ev->pos, cdc_event_place_len(ev));
	}
	else if (stored->slot == NULL)
		written = cdc_row_insert(w, leaf, slot, true);
	else
		written = cdc_row_update(w, leaf, stored, slot);
	MemoryContextSwitchTo(old);
	return written;
}

/* Write the columns that a late event changes. */
static CdcWritten
write_late(CdcWriter *w, CdcLeaf *leaf, CdcStored *stored)
{
	CdcWritten	written;
	MemoryContext old;

	cdc_image_late(&w->image, leaf, stored, leaf->fresh);
	if (w->rule->dry_run)
		return WRITTEN;
	old = MemoryContextSwitchTo(w->target->estate->es_query_cxt);
	written = cdc_row_update(w, leaf, stored, leaf->fresh);
	MemoryContextSwitchTo(old);
	return written;
}

static CdcWritten
write_winner(CdcWriter *w, CdcLeaf *leaf, const CdcEvent *ev, CdcStored *stored,
			 const CdcVerdict *v, CdcFind how)
{
	CdcWritten	written;

	cdc_event_open(w->cols, ev);
	if (v->late)
		written = write_late(w, leaf, stored);
	else if (v->outcome == CDC_DELETED)
		written = write_delete(w, leaf, ev, stored, how);
	else
		written = write_upsert(w, leaf, ev, stored, how);

	ExecClearTuple(leaf->fresh);
	return written;
}

/* Is the event at or below the truncate of its batch? */
static bool
is_truncated(const CdcTarget *target, const CdcEvent *ev)
{
	return target->truncate.len > 0 &&
		cdc_pos_compare(ev->pos, cdc_event_place_len(ev), target->truncate.bytes,
						target->truncate.len) <= 0;
}

static void
take_keys(CdcWriter *w, const CdcEvent *ev)
{
	for (int i = 0; i < w->target->nkeys; i++)
		w->keys[i] = cdc_event_value(w->cols, ev, i + 1, &w->keys_null[i]);
	w->context.keys = w->keys;
	w->context.pos = ev->pos;
	w->context.poslen = ev->poslen;
}

static void
tell_stored(CdcJudged *told, const CdcStored *stored)
{
	told->state = stored->state;
	told->stored = stored->pos;
}

static void
process_winner(CdcWriter *w, const CdcEvent *ev, CdcFind how)
{
	CdcTarget  *target = w->target;
	bool		counted = (ev->flags & CDC_EVENT_MOVED_AWAY) == 0;
	CdcOutcome	outcome;

	if (is_truncated(target, ev))
		return;
	take_keys(w, ev);
	for (;;)
	{
		CdcLeaf    *leaf = cdc_target_leaf(target, w->keys, NULL);
		CdcStored	stored;
		CdcVerdict	v;
		CdcWritten		written = WRITTEN;

		CHECK_FOR_INTERRUPTS();
		cdc_target_find(target, leaf, w->keys, how, leaf->stored, &stored);
		if (w->told != NULL)
			tell_stored(w->told, &stored);
		v = judge(w, leaf, ev, &stored);
		if (v.write && stored.slot != NULL && !w->rule->dry_run)
			cdc_probe_make_room(leaf->probe, stored.slot);
		if (v.write)
			written = write_winner(w, leaf, ev, &stored, &v, how);
		if (written == WRITE_AGAIN)
		{
			how = CDC_FIND_AGAIN;
			continue;
		}
		note_verdict(w, ev, &stored, &v);
		if (w->told != NULL)
			w->told->crossed = v.crossed;
		outcome = written == WRITE_SKIPPED ? CDC_IGNORED : v.outcome;
		break;
	}
	w->context.keys = NULL;
	cdc_event_close(w->cols);
	if (w->told != NULL)
		w->told->outcome = outcome;
	if (counted)
	{
		w->judged++;
		if (cdc_progress_wanted(w->judged))
			cdc_progress_report_judged(target->name, w->judged);
		w->result->counts[outcome]++;
	}
}

static void
end_row(CdcWriter *w)
{
	MemoryContextReset(w->row_context);
	ResetPerTupleExprContext(w->target->estate);
}

/* Write the rows that gathered, and judge again those that came too late. */
static void
flush(CdcWriter *w)
{
	List	   *again = cdc_bulk_flush(w);
	ListCell   *lc;

	end_row(w);
	foreach(lc, again)
	{
		process_winner(w, (CdcEvent *) lfirst(lc), CDC_FIND_AGAIN);
		end_row(w);
	}
	list_free(again);
}

static void
write_pass(CdcWriter *w, bool deletes)
{
	CdcEvent   *ev;

	cdc_fold_rewind(w->fold, deletes);
	cdc_target_rewind(w->target);
	if (w->ahead != NULL)
		cdc_ahead_rewind(w->ahead);
	if (w->scout != NULL)
		cdc_scout_rewind(w->scout);
	while ((ev = cdc_fold_next(w->fold, w->bulk_rows > 0)) != NULL)
	{
		if (cdc_event_kills(ev) == deletes)
		{
			if (w->ahead != NULL)
				cdc_ahead_step(w);
			if (w->scout != NULL)
				cdc_scout_step(w);
			process_winner(w, ev, CDC_FIND_IN_ORDER);
			end_row(w);
		}
		if (w->bulk_full || (w->bulk_rows > 0 && cdc_fold_keeps_much(w->fold)))
			flush(w);
	}
	if (w->scout != NULL)
		cdc_scout_rewind(w->scout);
	if (w->bulk_rows > 0)
		flush(w);
}

/*
 * Judge one winner without writing it, winners being in key order since the
 * target was rewound.  What was found out before an error is told too.
 */
void
cdc_write_judge(CdcWriter *w, const CdcEvent *ev, CdcJudged *told)
{
	memset(told, 0, sizeof(CdcJudged));
	w->told = told;
	if (is_truncated(w->target, ev))
	{
		CdcLeaf    *leaf;
		CdcStored	stored;

		take_keys(w, ev);
		told->truncated = true;
		told->outcome = CDC_SUPERSEDED;
		/* no partition is no fault for what is not looked up otherwise */
		if (w->target->routing == NULL)
		{
			leaf = cdc_target_leaf(w->target, w->keys, NULL);
			cdc_target_find(w->target, leaf, w->keys, CDC_FIND_IN_ORDER, leaf->stored, &stored);
			tell_stored(told, &stored);
		}
	}
	else
		process_winner(w, ev, CDC_FIND_IN_ORDER);
	w->told = NULL;
	end_row(w);
}

/* Set up a writer, in the current memory context. */
void
cdc_writer_init(CdcWriter *w, CdcTarget *target, CdcColumns *cols, const CdcRule *rule,
				CdcFold *fold, CdcWriteResult *result)
{
	memset(w, 0, sizeof(CdcWriter));
	w->target = target;
	w->cols = cols;
	w->rule = rule;
	w->fold = fold;
	w->result = result;
	memset(result, 0, sizeof(CdcWriteResult));
	w->context.target = target;
	w->context.staging = cols->staging_name;
	w->context.cols = cols;
	w->image.target = target;
	w->image.cols = cols;
	w->image.fold = fold;
	w->image.rule = rule;
	w->image.context = &w->context;
	w->image.marks = cdc_marks_create(target, cols);
	/* a partition may have more columns, dropped ones, than the target */
	w->before = palloc(sizeof(Datum) * MaxTupleAttributeNumber);
	w->before_null = palloc(sizeof(bool) * MaxTupleAttributeNumber);
	w->keys = palloc0(sizeof(Datum) * target->nkeys);
	w->keys_null = palloc0(sizeof(bool) * target->nkeys);
	w->context.isnull = w->keys_null;
	w->call_context = CurrentMemoryContext;
	w->row_context = AllocSetContextCreate(CurrentMemoryContext, "cdc_apply row",
										  ALLOCSET_DEFAULT_SIZES);
}

/* Judge and write all winners of the fold, and count what became of them. */
void
cdc_write_winners(CdcTarget *target, CdcColumns *cols, const CdcRule *rule, CdcFold *fold,
				  CdcWriteResult *result)
{
	CdcWriter	w;
	ErrorContextCallback callback = {error_context_stack, cdc_context_callback, &w.context};
	MemoryContext old;

	cdc_writer_init(&w, target, cols, rule, fold, result);
	w.ahead = cdc_ahead_create(&w);
	w.scout = cdc_scout_create(&w);
	cdc_fold_finish(fold);

	error_context_stack = &callback;
	old = MemoryContextSwitchTo(w.row_context);
	if (target->truncate.len > 0 && !rule->dry_run)
		cdc_truncate_rows(&w);
	write_pass(&w, true);
	write_pass(&w, false);
	MemoryContextSwitchTo(old);
	if (!rule->dry_run)
		cdc_row_finish_triggers(target);
	error_context_stack = callback.previous;
	MemoryContextDelete(w.row_context);
	cdc_fold_end(fold);

	result->counts[CDC_SUPERSEDED] = cdc_fold_counted(fold) - w.judged;
	cdc_notice_report(&w);
}
