/*-------------------------------------------------------------------------
 *
 * cdc_sieve.h
 *		A snapshot's rows compared with the target's, both in key order
 *		(cdc_sieve.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_SIEVE_H
#define CDC_SIEVE_H

#include "cdc_apply.h"

typedef struct CdcSieve CdcSieve;

/* What passed the sieve by, and what was met on the way. */
typedef struct CdcSieved
{
	int64		counts[CDC_OUTCOMES];	/* of rows that are done with */
	int64		live;			/* rows of the target, of a complete snapshot's scope */
	int64		missing;		/* of them, that the snapshot lacks: offered as events */
	int64		aged;			/* that it lacks, newer than it but for some columns: offered, too */
} CdcSieved;

extern CdcSieve *cdc_sieve_begin(CdcTarget *target, CdcColumns *cols, const CdcRule *rule,
								 CdcFold *fold, const char *scope, bool complete);
extern void cdc_sieve_take(CdcSieve *sieve, CdcIncoming *in);
extern void cdc_sieve_end(CdcSieve *sieve, CdcSieved *sieved);

#endif							/* CDC_SIEVE_H */
