/*-------------------------------------------------------------------------
 *
 * cdc_reason.c
 *		Why an event became what it became, in words, for cdc_explain().
 *
 * What is said goes by how the winner of the event's key was judged; the
 * texts are palloc'd in the current memory context, or constants.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cdc_explain.h"

static char *
pos_of(const CdcPos *pos)
{
	return cdc_pos_text(pos->bytes, pos->len);
}

/* Why an event is not the one of its key that counts. */
const char *
cdc_reason_superseded(const CdcTarget *target, const CdcToldKey *group, const CdcPos *pos, int placed)
{
	const CdcPos *truncate = &target->truncate;

	if (truncate->len > 0 && cdc_pos_compare(pos->bytes, placed, truncate->bytes, truncate->len) <= 0)
		return psprintf("the truncate of this batch at %s comes after it", pos_of(truncate));
	if (group->moved_away)
		return psprintf("a later event of this batch, at %s, moves its row to another key", pos_of(&group->pos));
	if (cdc_pos_compare(pos->bytes, placed, group->pos.bytes, group->placed) == 0)
		return psprintf("this batch has another event of its key at %s, the same or one that goes before it",
						pos_of(&group->pos));
	if (placed == 0)
		return psprintf("this batch has an event of its key, at %s, whose position counts; that of this snapshot row does not",
						pos_of(&group->pos));
	return psprintf("this batch has a newer event of its key, at %s", pos_of(&group->pos));
}

static const char *
why_stale(const CdcTarget *target, const CdcToldKey *group)
{
	const CdcHorizon *horizon = &target->horizon;
	const char *what = group->judged.state == CDC_KEY_LIVE ? "the stored row" : "the delete";

	if (horizon->floor.len > 0 && cdc_pos_compare(group->pos.bytes, group->placed, horizon->floor.bytes,
												  horizon->floor.len) <= 0)
		return psprintf("at or below the floor of the target, %s: every key is decided up to there",
						pos_of(&horizon->floor));
	if (group->placed == 0)
		return psprintf("a snapshot row whose position does not count fills absent keys only; %s is at %s",
						what, pos_of(&group->judged.stored));
	return psprintf("older than %s, at %s", what, pos_of(&group->judged.stored));
}

static const char *
why_duplicate(const CdcToldKey *group)
{
	if (group->judged.crossed)
		return "a delete at the position of the stored upsert, which stands; an ordinal would tell which is later";
	if (group->judged.column != NULL)
		return psprintf("this position is stored already, but column \"%s\" differs; the stored row stays (on_same_position)",
						group->judged.column);
	return "this position is stored already";
}

/* An event that loses to the stored row, but not to all of its columns. */
static const char *
why_late(const CdcToldKey *group)
{
	const char *age = cdc_pos_compare(group->pos.bytes, group->placed, group->judged.stored.bytes,
									  group->judged.stored.len) < 0 ? "older than" : "as old as";

	if (group->class == CDC_DELETE || group->class == CDC_RETRACTION)
		return psprintf("%s the stored row, at %s, but newer than what its column \"%s\" holds, which goes with the row deleted here",
						age, pos_of(&group->judged.stored), group->judged.late);
	return psprintf("%s the stored row, at %s, but newer than its column \"%s\", which changes",
					age, pos_of(&group->judged.stored), group->judged.late);
}

/* Why the winner became what it became. */
const char *
cdc_reason(const CdcTarget *target, const CdcToldKey *group)
{
	const CdcJudged *judged = &group->judged;
	const char *at = pos_of(&judged->stored);

	switch (judged->outcome)
	{
		case CDC_INSERTED:
			if (judged->crossed)
				return "an upsert at the position of the stored delete: the upsert stands; an ordinal would tell which is later";
			if (judged->state == CDC_KEY_TOMBSTONE)
				return psprintf("newer than the delete at %s: the key lives again", at);
			return "the key is not there";
		case CDC_UPDATED:
			if (judged->late != NULL)
				return why_late(group);
			if (judged->column != NULL)
				return psprintf("this position is stored already, but column \"%s\" differs and is written anew (on_same_position)",
								judged->column);
			return judged->stored.len == 0 ? "the stored row has no position" :
				psprintf("newer than the stored row, at %s", at);
		case CDC_DELETED:
			if (judged->state == CDC_KEY_ABSENT)
				return "the key is not there; its delete is remembered";
			if (judged->stored.len == 0)
				return "the stored row has no position";
			return psprintf("newer than the %s, at %s",
							judged->state == CDC_KEY_LIVE ? "stored row" : "delete", at);
		case CDC_STALE:
			return why_stale(target, group);
		case CDC_DUPLICATE:
			return why_duplicate(group);
		case CDC_FENCED:
			return psprintf("the key is dead, and known to be up to the fence of the target, %s",
							pos_of(&target->horizon.fence));
		case CDC_SUPERSEDED:
			return cdc_reason_superseded(target, group, &group->pos, group->placed);
		default:
			return NULL;
	}
}
