/*-------------------------------------------------------------------------
 *
 * cdc_progress.h
 *		How far a call has come: asked after every so many rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_PROGRESS_H
#define CDC_PROGRESS_H

#include "postgres.h"

/* The clock is looked at after so many rows: a power of two. */
#define CDC_PROGRESS_ROWS	64

extern int	cdc_progress_interval;

extern void cdc_progress_begin(void);
extern void cdc_progress_report_read(const char *target, const char *staging, int64 events);
extern void cdc_progress_report_judged(const char *target, int64 keys);

/* Is it time to look at the clock, after n rows? */
#define cdc_progress_wanted(n) \
	(unlikely(cdc_progress_interval > 0) && ((n) & (CDC_PROGRESS_ROWS - 1)) == 0)

#endif							/* CDC_PROGRESS_H */
