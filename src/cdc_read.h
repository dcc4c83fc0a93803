/*-------------------------------------------------------------------------
 *
 * cdc_read.h
 *		What cdc_read.c and cdc_watch.c share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_READ_H
#define CDC_READ_H

#include "tcop/dest.h"

#include "cdc_apply.h"

/* rows that cannot be used, with one of them as an example */
typedef struct CdcFaults
{
	int64		count;
	char	   *value;			/* the op */
	char	   *example;
	const char *reason;			/* what is wrong, of one row */
} CdcFaults;

typedef struct CdcReader
{
	DestReceiver pub;
	CdcTarget  *target;
	CdcColumns *cols;
	const CdcRule *rule;
	CdcFold    *fold;
	CdcPeek    *peek;			/* or NULL */
	CdcWatch   *watch;			/* or NULL: faults are refused at the end */
	const char *reason;			/* then: why the row in hand is no event, or NULL */
	CdcReadResult *result;
	CdcOps	   *ops;
	CdcOp		default_op;
	MemoryContext row_context;
	MemoryContext call_context;
	CdcContext *context;
	CdcQuery	query;			/* where its columns stand */
	ExprState  *position;		/* staging_position over the row, or NULL */
	Oid			flag_type;
	CdcGapList	unchanged;
	CdcGapList	absent;
	bool		look_for_gaps;
	bool		only_markers;	/* that is, for placeholders, or for nothing */
	uint8	   *gaps;
	Datum	   *values;			/* of the event in hand */
	bool	   *isnull;
	Datum	   *pos_values;		/* and the parts of its position */
	bool	   *pos_null;
	bool		kind_known;
	CdcPositionKind kind;
	int64		null_records;
	CdcFaults	bad_op,
				null_key,
				null_position,
				truncates;
} CdcReader;

extern bool cdc_read_row(CdcReader *r, TupleTableSlot *slot, CdcIncoming *in, CdcPos *pos,
						 CdcOp *op);
extern void cdc_read_make_position(CdcReader *r);
extern void cdc_watch_staging(CdcReader *r, const char *sql);

/* in cdc_report.c */
extern void cdc_read_report_faults(const CdcReader *r);

#endif							/* CDC_READ_H */
