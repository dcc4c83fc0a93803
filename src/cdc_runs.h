/*-------------------------------------------------------------------------
 *
 * cdc_runs.h
 *		What one call did to an attached target, and the log of such calls.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_RUNS_H
#define CDC_RUNS_H

#include "postgres.h"

#include "executor/instrument.h"
#include "utils/timestamp.h"

#include "cdc_apply.h"

/* What became of the events of one cdc_apply() call. */
typedef struct CdcApplied
{
	int64		events;
	int64		counts[CDC_OUTCOMES];
	bool		skipped;
	CdcPos		low;
	CdcPos		high;
} CdcApplied;

/* columns of cdc_apply_result: the outcomes, and those around them */
enum
{
	RESULT_EVENTS,
	RESULT_OUTCOMES,
	RESULT_SKIPPED = RESULT_OUTCOMES + CDC_OUTCOMES,
	RESULT_LOW,
	RESULT_HIGH,
	RESULT_COLUMNS
};

/* in cdc_apply.c */
extern void cdc_apply_run(const CdcArgs *args, bool in_group, CdcApplied *applied);
extern void cdc_applied_values(const CdcApplied *applied, Datum *values, bool *isnull);

/* One row of the log; what is not set is NULL there. */
typedef struct CdcRun
{
	Oid			target;
	const char *operation;		/* of a fixed set of words */
	const char *staging;		/* qualified and quoted */
	TimestampTz started_at;
	WalUsage	wal;			/* of the backend when it began */
	const CdcApplied *applied;
	int64		events;			/* without applied: how many; -1: not said */
	CdcPos		position;		/* without applied: that was set */
	const char *error;
	int			sqlerrcode;		/* of error */
} CdcRun;

extern bool cdc_track_runs;
extern int	cdc_runs_retention;

extern void cdc_run_begin(CdcRun *run, Oid target, const char *operation);
extern void cdc_run_end(const CdcRun *run);
extern void cdc_run_seen_empty(Oid target);

#endif							/* CDC_RUNS_H */
