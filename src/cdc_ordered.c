/*-------------------------------------------------------------------------
 *
 * cdc_ordered.c
 *		The fold of events that come in key order, as those of a snapshot do.
 *
 * The events of a key come one after the other, so that nothing has to be
 * looked up: once the next key comes, its winner is known.  Winners are kept
 * in the order in which they came, in memory, and written to a file when there
 * is no more room; once there is a file it holds all of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "cdc_fold.h"

/* Winners that there is room for at first; it doubles. */
#define CDC_ORDERED_START	1024

/* Write what is kept to the file. */
static void
spill(CdcFold *fold)
{
	if (fold->spill == NULL)
		fold->spill = cdc_spill_create_ordered(fold);
	for (int64 i = 0; i < fold->nordered; i++)
		cdc_spill_put_ordered(fold, fold->ordered[i]);
	cdc_event_free_all(fold);
	fold->ordered = NULL;
	fold->nordered = fold->ordered_room = 0;
	fold->kept = 0;
}

/*
 * Would one more event take the fold beyond its memory?  In the end winners are
 * put apart by what they do, which takes a pointer for each.
 */
static bool
is_full(const CdcFold *fold)
{
	Size		used = MemoryContextMemAllocated(fold->context, false) +
		fold->nordered * sizeof(CdcEvent *);

	if (fold->nordered == fold->ordered_room)
		used += 2 * fold->ordered_room * sizeof(CdcEvent *);
	return used > fold->limit ||
		(cdc_debug_fold_events > 0 && fold->kept >= cdc_debug_fold_events);
}

/* The key that came last is over. */
static void
keep_last(CdcFold *fold)
{
	if (fold->last == NULL)
		return;
	if (fold->nordered == fold->ordered_room)
	{
		fold->ordered_room = Max(fold->ordered_room * 2, CDC_ORDERED_START);
		fold->ordered = fold->ordered == NULL ?
			MemoryContextAllocHuge(fold->context, sizeof(CdcEvent *) * fold->ordered_room) :
			repalloc_huge(fold->ordered, sizeof(CdcEvent *) * fold->ordered_room);
	}
	fold->ordered[fold->nordered++] = fold->last;
	fold->last = NULL;
}

/* Offer an event whose key is that of the one before it, or a greater one. */
void
cdc_ordered_offer(CdcFold *fold, CdcIncoming *in, const Datum *keys)
{
	if (fold->last != NULL && !cdc_fold_matches(fold, fold->last, keys))
		keep_last(fold);
	if (fold->last == NULL && is_full(fold))
		spill(fold);
	cdc_chain_offer(fold, &fold->last, in);
}

/* All events have been offered. */
void
cdc_ordered_finish(CdcFold *fold)
{
	int64		nkills = 0;

	keep_last(fold);
	if (fold->spill != NULL)
	{
		spill(fold);
		return;
	}
	for (int64 i = 0; i < fold->nordered; i++)
		nkills += cdc_event_kills(fold->ordered[i]) ? 1 : 0;
	fold->winners[true] = MemoryContextAllocHuge(fold->context, sizeof(CdcEvent *) * (nkills + 1));
	/* the others move down in place */
	fold->winners[false] = fold->ordered;
	for (int64 i = 0; i < fold->nordered; i++)
	{
		CdcEvent   *ev = fold->ordered[i];
		bool		kills = cdc_event_kills(ev);

		fold->winners[kills][fold->nwinners[kills]++] = ev;
	}
}
