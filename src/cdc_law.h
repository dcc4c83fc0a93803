/*-------------------------------------------------------------------------
 *
 * cdc_law.h
 *		Positions by value, and the law over them.
 *
 * A part of cdc_apply.h, which includes it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_LAW_H
#define CDC_LAW_H

#include "cdc_position.h"

/* ---------- positions ---------- */

/* A position by value; len 0 is "no position", lower than every real one. */
typedef struct CdcPos
{
	uint8		len;
	uint8		bytes[CDC_POSITION_MAX_BYTES];
} CdcPos;

static inline void
cdc_pos_copy(CdcPos *to, const CdcPos *from)
{
	to->len = from->len;
	cdc_position_put(to->bytes, from->bytes, from->len);
}

static inline int
cdc_pos_compare(const uint8 *a, int alen, const uint8 *b, int blen)
{
	if (alen == 0 || blen == 0)
		return (alen > 0) - (blen > 0);
	return cdc_position_compare(a, alen, b, blen);
}

/* ---------- the law (cdc_law.c) ---------- */

typedef enum CdcClass
{
	CDC_UPSERT,
	CDC_SNAPSHOT,
	CDC_DELETE,
	CDC_RETRACTION,
	CDC_IMAGE,					/* a row of a snapshot that is compared (cdc_snapshot.c) */
	CDC_MISSING,				/* a key that a complete snapshot lacks */
	/* these never reach the law */
	CDC_TRUNCATE,
	CDC_IGNORE,
	CDC_UNKNOWN
} CdcClass;

typedef enum CdcOutcome
{
	CDC_INSERTED,
	CDC_UPDATED,
	CDC_DELETED,
	CDC_STALE,
	CDC_DUPLICATE,
	CDC_SUPERSEDED,
	CDC_FENCED,
	CDC_IGNORED,
	CDC_TRUNCATED
} CdcOutcome;

#define CDC_OUTCOMES	(CDC_TRUNCATED + 1)

typedef enum CdcKeyState
{
	CDC_KEY_ABSENT,
	CDC_KEY_TOMBSTONE,
	CDC_KEY_LIVE
} CdcKeyState;

/* Up to where a target's keys are decided; without positions: no limit. */
typedef struct CdcHorizon
{
	CdcPos		floor;			/* every key */
	CdcPos		fence;			/* dead keys */
} CdcHorizon;

typedef struct CdcVerdict
{
	CdcOutcome	outcome;
	bool		write;			/* the event changes the stored row */
	bool		compare;		/* duplicate whose image may differ */
	bool		crossed;		/* an upsert and a delete met at one position */
	bool		late;			/* only columns older than the stored row change */
} CdcVerdict;

extern CdcVerdict cdc_law_judge(CdcClass class, const uint8 *e, int elen,
								CdcKeyState state, const CdcPos *stored,
								const CdcHorizon *horizon);

#endif							/* CDC_LAW_H */
