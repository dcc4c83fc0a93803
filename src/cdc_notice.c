/*-------------------------------------------------------------------------
 *
 * cdc_notice.c
 *		What a call tells besides its counts: one WARNING per kind, with the
 *		number of events and one example.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cdc_write.h"

/* Count one more event; the first becomes the example. */
void
cdc_notice_add(CdcWriter *w, CdcNotice *notice, const CdcEvent *ev, const char *column)
{
	if (notice->count++ == 0)
	{
		MemoryContext old = MemoryContextSwitchTo(w->call_context);
		/* only one of them is about positions that do not count */
		int			len = notice == &w->passed ? ev->poslen : cdc_event_place_len(ev);

		notice->key = cdc_event_key_text(w->target, w->cols, ev);
		notice->pos = cdc_pos_text(ev->pos, len);
		notice->column = column;
		MemoryContextSwitchTo(old);
	}
}

/* All that has been noted, at the end of the call. */
void
cdc_notice_report(CdcWriter *w)
{
	int64	   *counts = w->result->counts;

	if (w->crossed.count > 0)
		ereport(WARNING,
				(errmsg("an upsert and a delete of one key of target \"%s\" came at one position in different batches",
						w->target->name),
				 errdetail("Keys: %lld, one is key %s at position %s. The upsert stands.",
						   (long long) w->crossed.count, w->crossed.key, w->crossed.pos),
				 errhint("Add an ordinal to the position so that the order is known. If a dead row was made live by hand, cdc_find_resurrected() names it.")));
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
	if (w->fenced.count > 0)
		ereport(WARNING,
				(errmsg("upserts at or below the fence of target \"%s\" found no live row and were not applied",
						w->target->name),
				 errdetail("Events: %lld, one is key %s at position %s; the fence is %s.",
						   (long long) w->fenced.count, w->fenced.key, w->fenced.pos,
						   cdc_pos_text(w->target->horizon.fence.bytes,
										w->target->horizon.fence.len)),
				 errhint("A replay of deleted rows looks so; if the events are late, the fence was raised past a position that was not safe (cdc_set_fence).")));
	if (counts[CDC_STALE] > 0 && !cdc_rule_is_snapshot(w->rule) && w->target->truncate.len == 0 && counts[CDC_DUPLICATE] == 0 && counts[CDC_INSERTED] == 0 &&
		counts[CDC_UPDATED] == 0 && counts[CDC_DELETED] == 0 && counts[CDC_FENCED] == 0)
		ereport(WARNING,
				(errmsg("every event of staging \"%s\" is older than what target \"%s\" holds",
						w->cols->staging_name, w->target->name),
				 errdetail("Stale events: %lld.", (long long) counts[CDC_STALE]),
				 errhint("A late batch looks so, and so does a log that restarted at lower positions: then the new log needs an epoch (lineage).")));
}
