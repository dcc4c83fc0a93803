/*-------------------------------------------------------------------------
 *
 * cdc_explain.h
 *		Errors that become a reason, for cdc_watch.c and cdc_explain.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_EXPLAIN_H
#define CDC_EXPLAIN_H

#include "utils/palloc.h"
#include "utils/resowner.h"

#include "cdc_apply.h"

/* Something tried in a subtransaction of its own. */
typedef struct CdcTry
{
	MemoryContext context;
	ResourceOwner owner;
	int			code;			/* SQLSTATE of what was caught, */
	char	   *hint;			/* and its hint, or NULL */
} CdcTry;

extern void cdc_try_begin(CdcTry *try);
extern void cdc_try_end(CdcTry *try);
extern char *cdc_key_json(const CdcTarget *target, const Datum *values, const bool *isnull,
						  const Oid *types);
extern char *cdc_try_caught(CdcTry *try, const char *column);
pg_noreturn extern void cdc_try_rethrow(CdcTry *try);

#endif							/* CDC_EXPLAIN_H */
