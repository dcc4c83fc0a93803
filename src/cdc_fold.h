/*-------------------------------------------------------------------------
 *
 * cdc_fold.h
 *		What cdc_fold.c and cdc_chain.c share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_FOLD_H
#define CDC_FOLD_H

#include "cdc_apply.h"

typedef struct CdcSpill CdcSpill;

/* Small events lie in blocks, in steps of so many bytes, up to a size. */
#define CDC_EVENT_STEP	32
#define CDC_EVENT_CLASSES	64

/* Where events are put: room left in the last block, and rooms given back. */
typedef struct CdcEventRoom
{
	char	   *block;
	Size		left;
	CdcEvent   *free[CDC_EVENT_CLASSES];	/* by size; linked by older */
} CdcEventRoom;

struct CdcFold
{
	CdcTarget  *target;
	CdcColumns *cols;
	const CdcRule *rule;
	MemoryContext call_context; /* of the fold itself, and of what spills */
	MemoryContext context;		/* of everything kept */
	CdcEventRoom room;			/* in it */
	Size		limit;			/* bytes that the context may take */
	int			sort_kb;		/* and the sort, in kB */
	int64		kept;			/* events kept since the last spill */
	CdcSpill   *spill;			/* NULL: all fits into memory */
	/* without a spill: the winners in key order, those that kill apart */
	CdcEvent  **winners[2];
	int64		nwinners[2];
	bool		kills;			/* which are given out */
	int64		next;
	int64		passed[2];		/* those that cdc_fold_winner() has given out */
	struct fold_hash *table;
	const Datum *probe;			/* key being looked up */
	int64		counted;		/* events offered, without moved-away deletes */
	int			gap_bytes;
	uint8	   *missing;		/* work space of prune */
	bool		casts;			/* some column is converted */
	bool		keep_all;		/* I4 */
	bool		by_value;		/* the key is one value that decides by itself */
	bool		in_order;		/* events come in key order: no table (cdc_ordered.c) */
	CdcEvent   *last;			/* then: leads the key that came last */
	CdcEvent  **ordered;		/* those of keys before it, since the last spill */
	int64		nordered;
	int64		ordered_room;
	Datum	   *move_values;	/* of the delete that a key move leaves */
	bool	   *move_isnull;
};

/* cdc_precedence.debug_fold_events: spill after so many kept events; 0: never for that */
extern int	cdc_debug_fold_events;

/* cdc_event.c */
extern void *cdc_fold_alloc(CdcFold *fold, Size size);
extern CdcEvent *cdc_event_make(CdcFold *fold, const CdcIncoming *in, CdcEvent *place);
extern void cdc_event_free(CdcFold *fold, CdcEvent *ev);
extern void cdc_event_free_all(CdcFold *fold);

/* cdc_fold.c */
extern bool cdc_fold_matches(CdcFold *fold, const CdcEvent *ev, const Datum *keys);
extern uint32 cdc_fold_hash(CdcFold *fold, const Datum *keys);

extern void cdc_fold_prefetch_entry(CdcFold *fold, uint32 hash);
extern void cdc_fold_prefetch_event(CdcFold *fold, uint32 hash);

/* cdc_ordered.c */
extern void cdc_ordered_offer(CdcFold *fold, CdcIncoming *in, const Datum *keys);
extern void cdc_ordered_finish(CdcFold *fold);

/* cdc_spill.c */
extern CdcSpill *cdc_spill_create(CdcFold *fold);
extern CdcSpill *cdc_spill_create_ordered(CdcFold *fold);
extern void cdc_spill_put_chain(CdcFold *fold, const CdcEvent *top);
extern void cdc_spill_put_ordered(CdcFold *fold, const CdcEvent *top);
extern void cdc_spill_finish(CdcFold *fold);
extern void cdc_spill_rewind(CdcFold *fold);
extern CdcEvent *cdc_spill_next(CdcFold *fold, bool keep);
extern CdcEvent *cdc_spill_lookup(CdcFold *fold, const Datum *keys);
extern void cdc_spill_end(CdcFold *fold);

/* cdc_chain.c */
extern void cdc_chain_offer(CdcFold *fold, CdcEvent **top, CdcIncoming *in);
extern int	cdc_chain_compare(const CdcIncoming *in, const CdcEvent *ev);
extern bool cdc_chain_same_place(const CdcIncoming *in, const CdcEvent *ev);
extern CdcEvent *cdc_chain_tie(CdcFold *fold, CdcEvent *led, CdcEvent *ev);
extern void cdc_chain_prune(CdcFold *fold, CdcEvent *top);
extern void cdc_chain_free_below(CdcFold *fold, CdcEvent *top);
extern int	cdc_chain_rank(CdcClass class);
extern void cdc_chain_settle(CdcFold *fold, CdcEvent *top, CdcEvent ***buried, int64 *room);

#endif							/* CDC_FOLD_H */
