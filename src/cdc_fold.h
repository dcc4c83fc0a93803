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

struct CdcFold
{
	CdcTarget  *target;
	CdcColumns *cols;
	const CdcRule *rule;
	MemoryContext context;		/* of everything kept */
	struct fold_hash *table;
	const Datum *probe;			/* key being looked up */
	int64		counted;		/* events offered, without moved-away deletes */
	int			gap_bytes;
	uint8	   *missing;		/* work space of prune */
	bool		casts;			/* some column is converted */
	bool		keep_all;		/* I4 */
	bool		settled;
	Datum	   *move_values;	/* of the delete that a key move leaves */
	bool	   *move_isnull;
};

extern int	cdc_chain_compare(const CdcIncoming *in, const CdcEvent *ev);
extern bool cdc_chain_same_place(const CdcIncoming *in, const CdcEvent *ev);
extern CdcEvent *cdc_chain_tie(CdcFold *fold, CdcEvent *led, CdcEvent *ev);
extern void cdc_chain_prune(CdcFold *fold, CdcEvent *top);
extern void cdc_chain_settle(CdcFold *fold, CdcEvent *top, CdcEvent ***buried, int64 *room);

#endif							/* CDC_FOLD_H */
