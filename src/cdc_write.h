/*-------------------------------------------------------------------------
 *
 * cdc_write.h
 *		What cdc_write.c, cdc_row.c, cdc_bulk.c, cdc_ahead.c,
 *		cdc_scout.c, cdc_notice.c and cdc_explain.c share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_WRITE_H
#define CDC_WRITE_H

#include "cdc_marks.h"

/* something that one WARNING tells of, with one example */
typedef struct CdcNotice
{
	int64		count;
	char	   *key;
	char	   *pos;
	const char *column;
} CdcNotice;

typedef enum CdcWritten
{
	WRITTEN,
	WRITE_SKIPPED,				/* a trigger said no */
	WRITE_AGAIN					/* somebody else was there first */
} CdcWritten;

typedef struct CdcAhead CdcAhead;
typedef struct CdcScout CdcScout;

/* How a winner was judged, for who wants to know (cdc_explain.c). */
typedef struct CdcJudged
{
	CdcOutcome	outcome;
	CdcKeyState state;			/* of its key */
	CdcPos		stored;
	bool		truncated;		/* by the truncate of its batch */
	bool		crossed;		/* an upsert and a delete met at one position */
	const char *column;			/* the first that differs from the stored row, or NULL */
	const char *late;			/* the first older than it that changes, or NULL */
} CdcJudged;

typedef struct CdcWriter
{
	CdcTarget  *target;
	CdcColumns *cols;
	const CdcRule *rule;
	CdcFold    *fold;
	CdcWriteResult *result;
	CdcAhead   *ahead;			/* NULL: no page is asked for ahead */
	CdcScout   *scout;			/* NULL: rows are looked for one by one */
	CdcImage	image;
	CdcContext	context;
	CdcJudged  *told;			/* filled in for the winner in hand, or NULL */
	MemoryContext call_context;
	MemoryContext row_context;
	Datum	   *keys;
	bool	   *keys_null;
	Datum	   *before;			/* law columns before a BEFORE trigger */
	bool	   *before_null;
	List	   *bulk_leaves;	/* that rows gather for */
	int			bulk_rows;
	Size		bulk_bytes;
	bool		bulk_full;
	int64		compared;
	int64		judged;			/* winners that are counted */
	CdcNotice	crossed,
				differs,
				passed,			/* rows whose snapshot position did not count */
				fenced;			/* upserts */
} CdcWriter;

extern void cdc_writer_init(CdcWriter *w, CdcTarget *target, CdcColumns *cols, const CdcRule *rule,
							CdcFold *fold, CdcWriteResult *result);
extern void cdc_write_judge(CdcWriter *w, const CdcEvent *ev, CdcJudged *told);

extern CdcWritten cdc_row_insert(CdcWriter *w, CdcLeaf *leaf, TupleTableSlot *slot, bool tombstone);
extern CdcWritten cdc_row_update(CdcWriter *w, CdcLeaf *leaf, CdcStored *stored,
								 TupleTableSlot *slot);
extern CdcWritten cdc_row_delete(CdcWriter *w, CdcLeaf *leaf, CdcStored *stored);
extern void cdc_row_prepare_insert(CdcWriter *w, CdcLeaf *leaf, TupleTableSlot *slot);
extern void cdc_row_take_back(CdcWriter *w, CdcLeaf *leaf, TupleTableSlot *slot);
extern void cdc_row_finish_triggers(CdcTarget *target);

typedef struct CdcBulk CdcBulk;

extern bool cdc_bulk_takes(CdcWriter *w, CdcLeaf *leaf);
extern TupleTableSlot *cdc_bulk_slot(CdcWriter *w, CdcLeaf *leaf);
extern void cdc_bulk_add(CdcWriter *w, CdcLeaf *leaf, const CdcEvent *ev, CdcOutcome outcome);
extern List *cdc_bulk_flush(CdcWriter *w);

/* cdc_precedence.debug_prefetch: ask for pages whether or not they are slow */
extern bool cdc_debug_prefetch;

extern CdcAhead *cdc_ahead_create(CdcWriter *w);
extern void cdc_ahead_rewind(CdcAhead *ahead);
extern void cdc_ahead_step(CdcWriter *w);

/* cdc_precedence.debug_scout: so many rows looked for together; -1: as pays */
extern int	cdc_debug_scout;

extern CdcScout *cdc_scout_create(CdcWriter *w);
extern void cdc_scout_rewind(CdcScout *scout);
extern void cdc_scout_step(CdcWriter *w);

extern void cdc_truncate_rows(CdcWriter *w);

extern void cdc_notice_add(CdcWriter *w, CdcNotice *notice, const CdcEvent *ev, const char *column);
extern void cdc_notice_report(CdcWriter *w);

#endif							/* CDC_WRITE_H */
