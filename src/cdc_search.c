/*-------------------------------------------------------------------------
 *
 * cdc_search.c
 *		Where the value of one column comes from, with column_positions.
 *
 * A column stands for itself: of all events of its key the greatest that
 * carries it gives its value, and a delete, whatever it carries, takes it.
 * What is stored of earlier batches takes part by its age (cdc_marks.c), what
 * this batch has by its chain of events (cdc_chain.c).  So the outcome is the
 * same in any order, and however the events are cut into batches.
 *
 * At one position an upsert goes over a delete, and who was stored first over
 * who comes later.
 *
 * A key move brings the value that the row had under its old key; under the
 * new one it is as old as the move.  Events of the old key that come after the
 * move was applied do not find the row any more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datum.h"

#include "cdc_marks.h"

static inline bool
at_or_below(const CdcEvent *ev, const CdcPos *pos)
{
	return pos->len > 0 &&
		cdc_pos_compare(ev->pos, cdc_event_place_len(ev), pos->bytes, pos->len) <= 0;
}

/*
 * Does what an event says of a column go over what is known of it?  value: it
 * gives one; else it ends the row.
 */
static bool
beats(const CdcImage *image, const CdcMark *mark, const CdcEvent *ev, bool value)
{
	int			cmp = cdc_pos_compare(ev->pos, cdc_event_place_len(ev), mark->pos.bytes,
									  mark->pos.len);

	if (cmp != 0)
		return cmp > 0;
	/* nothing is known because of a delete at this position, or from the beginning */
	return value && mark->empty && !at_or_below(ev, &image->target->horizon.fence) &&
		(ev->class != CDC_SNAPSHOT || cdc_event_place_len(ev) == 0);
}

/* Is an upsert at the position of a before image known to be stored? */
static bool
is_stored_pair(const CdcImage *image, const CdcEvent *ev, const CdcStored *stored,
			   const CdcMarkSet *set)
{
	int			n = image->marks->n;

	if (ev->class != CDC_RETRACTION || (ev->flags & CDC_EVENT_MOVED_AWAY) != 0 ||
		stored->state != CDC_KEY_LIVE)
		return false;
	if (cdc_pos_compare(ev->pos, ev->poslen, stored->pos.bytes, stored->pos.len) == 0)
		return true;
	for (int i = 0; i < n && set->any; i++)
		if (set->marks[i].marked && !set->marks[i].empty &&
			cdc_pos_compare(ev->pos, ev->poslen, set->marks[i].pos.bytes,
							set->marks[i].pos.len) == 0)
			return true;
	return false;
}

/*
 * The greatest event from ev on down that says something about a column: who
 * carries it, moves its row here or deletes it.  What the floor or, with fenced,
 * the fence keeps out says nothing.
 */
static const CdcEvent *
find_event(const CdcImage *image, const CdcEvent *ev, int col, const CdcStored *stored,
		   const CdcMarkSet *set, bool fenced, bool *lacking)
{
	const CdcHorizon *horizon = &image->target->horizon;
	const CdcEvent *above = NULL;

	for (; ev != NULL; ev = ev->older)
	{
		if (at_or_below(ev, &horizon->floor) ||
			(fenced && at_or_below(ev, &horizon->fence)))
			return NULL;
		if ((above != NULL && cdc_event_is_before_image(ev, above)) ||
			is_stored_pair(image, ev, stored, set))
			continue;
		if (cdc_event_kills(ev) || cdc_event_carries(ev, col) || (ev->flags & CDC_EVENT_MOVES) != 0)
			return ev;
		*lacking |= cdc_event_lacks(image->cols, ev, col);
		above = ev;
	}
	return NULL;
}

/*
 * The value that a moved row had of a column under its old key, copied to the
 * current memory context; false: not known.
 */
static bool
find_moved(CdcImage *image, const CdcEvent *moved, int col, CdcFound *found)
{
	const CdcColumn *c = &image->cols->cols[col];
	CdcMarkSet *set = &image->marks->there;

	for (;;)
	{
		CdcStored	there;
		CdcLeaf    *leaf;
		CdcMark		mark;
		const CdcEvent *ev;
		bool		counts;

		found->lacking |= cdc_event_lacks(image->cols, moved, col);
		ev = cdc_image_before_move(image, moved, &leaf, &there);
		cdc_marks_read(image, leaf, &there, set);
		cdc_marks_base(image, &there, set, col, &mark);
		/* what came there after the move is of another row */
		counts = cdc_pos_compare(mark.pos.bytes, mark.pos.len, moved->pos,
								 cdc_event_place_len(moved)) < 0;
		ev = find_event(image, ev, col, &there, set, there.state != CDC_KEY_LIVE || !counts,
						&found->lacking);
		if (ev == NULL || (counts && !beats(image, &mark, ev, !cdc_event_kills(ev))))
		{
			if (!counts || there.state != CDC_KEY_LIVE || mark.empty)
				return false;
			/* the slot is used again by the next search */
			found->value = slot_getattr(there.slot, leaf->attno[c->attno - 1], &found->isnull);
			if (!found->isnull)
				found->value = datumCopy(found->value, c->byval, c->len);
			return true;
		}
		if (cdc_event_kills(ev))
			return false;
		if (cdc_event_carries(ev, col))
		{
			found->value = cdc_image_column(image, ev, col, &found->isnull);
			return true;
		}
		moved = ev;
	}
}

/*
 * Find the value that column col has after ev and what is below it, over what
 * is stored, whose marks have been read into set.
 */
void
cdc_search_column(CdcImage *image, const CdcEvent *ev, int col, const CdcStored *stored,
				  const CdcMarkSet *set, CdcFound *found)
{
	bool		value;

	memset(found, 0, sizeof(CdcFound));
	cdc_marks_base(image, stored, set, col, &found->mark);
	found->kind = stored->state == CDC_KEY_LIVE ? CDC_FOUND_STORED : CDC_FOUND_NOTHING;
	ev = find_event(image, ev, col, stored, set, stored->state != CDC_KEY_LIVE, &found->lacking);
	if (ev == NULL)
		return;
	value = !cdc_event_kills(ev);
	if (!beats(image, &found->mark, ev, value))
		return;
	if (value && !cdc_event_carries(ev, col))
	{
		/* a moved row whose value is not known leaves as much as a delete */
		value = find_moved(image, ev, col, found);
		if (!value && !beats(image, &found->mark, ev, false))
			return;
		found->kind = CDC_FOUND_VALUE;
	}
	else if (value)
	{
		found->kind = CDC_FOUND_EVENT;
		found->ev = ev;
	}
	if (!value)
		found->kind = CDC_FOUND_NOTHING;
	found->mark.empty = !value;
	found->mark.pos.len = cdc_event_place_len(ev);
	cdc_position_put(found->mark.pos.bytes, ev->pos, found->mark.pos.len);
}
