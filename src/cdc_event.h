/*-------------------------------------------------------------------------
 *
 * cdc_event.h
 *		Events of a batch, kept and on the way; one winner per key.
 *
 * A part of cdc_apply.h, which includes it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_EVENT_H
#define CDC_EVENT_H

/* ---------- events (cdc_fold.c) ---------- */

/* flags of an event */
#define CDC_EVENT_SECOND		0x01	/* second half of a pair */
#define CDC_EVENT_MOVES			0x02	/* carries an old key that differs */
#define CDC_EVENT_MOVED_AWAY	0x04	/* the delete of an old key; not counted */
#define CDC_EVENT_PROTECT		0x08	/* MOVED_AWAY whose event needs old values */
#define CDC_EVENT_TIED_DELETE	0x10	/* an upsert that met a delete */
#define CDC_EVENT_UNPLACED		0x20	/* its position does not count */
#define CDC_EVENT_GAPS			0x40	/* has an unchanged bitmap */

/*
 * One kept event.  After the struct stand its position, the bitmap of columns
 * it does not carry (with CDC_EVENT_GAPS; where staging tells columns that its
 * source does not have, then a bitmap of these) and, aligned, its tuple.
 */
typedef struct CdcEvent
{
	struct CdcEvent *older;		/* next lower event of the key that may be needed */
	struct CdcEvent *tied;		/* another image at the same place */
	uint32		room;			/* bytes that the event may take where it is */
	uint32		tuple_at;		/* where in them its tuple begins */
	uint8		class;
	uint8		flags;
	uint8		poslen;			/* 0: no position */
	uint8		pos[FLEXIBLE_ARRAY_MEMBER];
} CdcEvent;

/* where an event stands: nowhere when its position does not count */
#define cdc_event_place_len(ev) (((ev)->flags & CDC_EVENT_UNPLACED) ? 0 : (ev)->poslen)
#define cdc_event_gaps(ev) ((ev)->pos + (ev)->poslen)
#define cdc_event_tuple(ev) ((MinimalTuple) ((char *) (ev) + (ev)->tuple_at))

static inline bool
cdc_event_carries(const CdcEvent *ev, int col)
{
	return (ev->flags & CDC_EVENT_GAPS) == 0 ||
		(cdc_event_gaps(ev)[col >> 3] & (1 << (col & 7))) == 0;
}

/*
 * Does ev say that its source has no such column?  Then it does not carry it,
 * and where nothing else does a new row has the column's default.
 */
static inline bool
cdc_event_lacks(const CdcColumns *cols, const CdcEvent *ev, int col)
{
	return cols->absent_attno != 0 && (ev->flags & CDC_EVENT_GAPS) != 0 &&
		(cdc_event_gaps(ev)[cdc_gap_bytes(cols) + (col >> 3)] & (1 << (col & 7))) != 0;
}

static inline bool
cdc_event_kills(const CdcEvent *ev)
{
	return ev->class == CDC_DELETE || ev->class == CDC_RETRACTION || ev->class == CDC_MISSING;
}

/* Is ev the first half of the update whose second half is above it? */
static inline bool
cdc_event_is_before_image(const CdcEvent *ev, const CdcEvent *above)
{
	return ev->class == CDC_RETRACTION && (ev->flags & CDC_EVENT_MOVED_AWAY) == 0 &&
		cdc_pos_compare(ev->pos, ev->poslen, above->pos, cdc_event_place_len(above)) == 0;
}

/* An event as it comes from the reader; nothing in it outlives the row. */
typedef struct CdcIncoming
{
	CdcClass	class;
	uint8		flags;
	const CdcPos *pos;
	const uint8 *gaps;			/* bitmap, or NULL when all is carried */
	Datum	   *values;			/* keys, columns, old keys */
	bool	   *isnull;
	TupleTableSlot *row;		/* they come from this staging row, or NULL */
	HeapTuple	as_read;		/* which is kept as it is, or NULL */
	MinimalTuple tuple;			/* they are in this already, or NULL */

	/*
	 * Not NULL: columns and gaps are not filled in yet.  The fold calls it
	 * when it keeps the event.
	 */
	void		(*complete) (struct CdcIncoming *in, void *arg);
	void	   *arg;
} CdcIncoming;

/* Fill in what the reader has put off. */
static inline void
cdc_incoming_complete(CdcIncoming *in)
{
	if (in->complete != NULL)
		in->complete(in, in->arg);
	in->complete = NULL;
}

typedef struct CdcFold CdcFold;

extern CdcFold *cdc_fold_create(CdcTarget *target, CdcColumns *cols, const CdcRule *rule);
extern void cdc_fold_offer(CdcFold *fold, CdcIncoming *in);
extern CdcEvent *cdc_fold_lookup(CdcFold *fold, const Datum *keys);
extern void cdc_fold_finish(CdcFold *fold);
extern void cdc_fold_rewind(CdcFold *fold, bool kills);
extern const CdcEvent *cdc_fold_ahead(CdcFold *fold, int64 n);
extern CdcEvent *cdc_fold_next(CdcFold *fold, bool keep);
extern bool cdc_fold_keeps_much(const CdcFold *fold);
extern void cdc_fold_end(CdcFold *fold);
extern int64 cdc_fold_counted(CdcFold *fold);
extern CdcEvent *cdc_fold_winner(CdcFold *fold, const Datum *keys, bool *same);

/* hints (cdc_peek.c) */
typedef struct CdcPeek CdcPeek;

extern CdcPeek *cdc_peek_create(CdcFold *fold);
extern void cdc_peek_ahead(CdcPeek *peek, TupleTableSlot *slot);

/* ---------- kept events (cdc_event.c) ---------- */

extern void cdc_events_map(CdcColumns *cols, CdcTarget *target, const CdcRule *rule);
extern Datum cdc_event_value(const CdcColumns *cols, const CdcEvent *ev, int n, bool *isnull);
extern void cdc_event_open(CdcColumns *cols, const CdcEvent *ev);
extern void cdc_event_close(CdcColumns *cols);
extern HeapTuple cdc_event_row(const CdcColumns *cols, TupleTableSlot *row);

#endif							/* CDC_EVENT_H */
