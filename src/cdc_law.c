/*-------------------------------------------------------------------------
 *
 * cdc_law.c
 *		The truth table: what becomes of one event, given what is stored.
 *
 * A pure function.  It knows nothing of tables, homes of tombstones or
 * batches; the caller has picked the batch's winner for the key and has made
 * sure that positions are of one kind.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cdc_apply.h"

static CdcVerdict
verdict(CdcOutcome outcome)
{
	CdcVerdict	v = {outcome, false, false, false, false};

	v.write = outcome == CDC_INSERTED || outcome == CDC_UPDATED || outcome == CDC_DELETED;
	return v;
}

/* The same position is stored already. */
static CdcVerdict
judge_same(CdcClass class, CdcKeyState state)
{
	CdcVerdict	v = verdict(CDC_DUPLICATE);

	if (class == CDC_UPSERT)
	{
		/*
		 * An upsert and a delete of one key at one position in different
		 * batches: the upsert stands whichever came first, since any other
		 * rule would depend on arrival.
		 */
		if (state == CDC_KEY_TOMBSTONE)
		{
			v = verdict(CDC_INSERTED);
			v.crossed = true;
		}
		else
			v.compare = true;
	}
	else if (class == CDC_DELETE && state == CDC_KEY_LIVE)
		v.crossed = true;
	return v;
}

/* A snapshot as of a position that is not below the stored one. */
static CdcVerdict
judge_snapshot(CdcClass class, CdcKeyState state)
{
	CdcVerdict	v;

	if (class == CDC_MISSING)
		return verdict(state == CDC_KEY_LIVE ? CDC_DELETED : CDC_DUPLICATE);
	if (state != CDC_KEY_LIVE)
		return verdict(CDC_INSERTED);
	/* written if it differs */
	v = verdict(CDC_DUPLICATE);
	v.compare = true;
	return v;
}

/*
 * Judge an event of this class at position e (elen 0: no position, which only
 * a snapshot row may have) against a key's stored state.  The first rule that
 * fits decides: floor, fence, absence, then the positions.
 */
CdcVerdict
cdc_law_judge(CdcClass class, const uint8 *e, int elen, CdcKeyState state,
			  const CdcPos *stored, const CdcHorizon *horizon)
{
	bool		kills = class == CDC_DELETE || class == CDC_RETRACTION;
	int			cmp;

	if (horizon->floor.len > 0 &&
		cdc_pos_compare(e, elen, horizon->floor.bytes, horizon->floor.len) <= 0)
		return verdict(CDC_STALE);
	if (state != CDC_KEY_LIVE && horizon->fence.len > 0 &&
		cdc_pos_compare(e, elen, horizon->fence.bytes, horizon->fence.len) <= 0)
		return verdict(CDC_FENCED);
	if (state == CDC_KEY_ABSENT && class != CDC_MISSING)
		return verdict(kills ? CDC_DELETED : CDC_INSERTED);

	if (elen == 0 && stored->len == 0)
	{
		/* a snapshot row without position meets a row without one */
		CdcVerdict	v = verdict(CDC_DUPLICATE);

		v.compare = state == CDC_KEY_LIVE;
		return v;
	}

	cmp = cdc_pos_compare(e, elen, stored->bytes, stored->len);
	if (cmp < 0)
		return verdict(CDC_STALE);
	if (class == CDC_IMAGE || class == CDC_MISSING)
		return judge_snapshot(class, state);
	if (cmp == 0)
		return judge_same(class, state);
	if (kills)
		return verdict(CDC_DELETED);
	return verdict(state == CDC_KEY_LIVE ? CDC_UPDATED : CDC_INSERTED);
}
