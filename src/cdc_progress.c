/*-------------------------------------------------------------------------
 *
 * cdc_progress.c
 *		A NOTICE now and then on how far a long cdc_apply() has come, for who
 *		asks for it by cdc_precedence.progress_interval.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "cdc_progress.h"

/* cdc_precedence.progress_interval, in milliseconds; 0: never */
int			cdc_progress_interval = 0;

/* When the next line is due.  A call within a call, from a trigger, shares it. */
static TimestampTz next_at = 0;

static TimestampTz
after_interval(void)
{
	return TimestampTzPlusMilliseconds(GetCurrentTimestamp(), cdc_progress_interval);
}

/* A call begins. */
void
cdc_progress_begin(void)
{
	if (cdc_progress_interval > 0)
		next_at = after_interval();
}

static bool
is_due(void)
{
	if (GetCurrentTimestamp() < next_at)
		return false;
	next_at = after_interval();
	return true;
}

void
cdc_progress_report_read(const char *target, const char *staging, int64 events)
{
	if (is_due())
		ereport(NOTICE,
				(errmsg("target \"%s\": %lld events of staging \"%s\" read", target,
						(long long) events, staging)));
}

void
cdc_progress_report_judged(const char *target, int64 keys)
{
	if (is_due())
		ereport(NOTICE,
				(errmsg("target \"%s\": %lld keys compared and written", target,
						(long long) keys)));
}
