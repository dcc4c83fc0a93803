/*-------------------------------------------------------------------------
 *
 * cdc_guard.h
 *		The guard trigger, as the rest of the module sees it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_GUARD_H
#define CDC_GUARD_H

#include "postgres.h"

#include "nodes/execnodes.h"

/* cdc_precedence.bypass_guard */
extern bool cdc_bypass_guard;

/*
 * Let this backend's own statements write relid past the guard, and return
 * what was exempt before (0: nothing).  It holds for statements issued at the
 * present trigger depth: code of triggers that they fire is not exempt.  Give
 * the result back when done, also after an error:
 *
 *		Oid			before = cdc_guard_exempt(relid);
 *
 *		PG_TRY();
 *		{ SPI_execute(..); }
 *		PG_FINALLY();
 *		{ cdc_guard_exempt(before); }
 *		PG_END_TRY();
 *
 * A partitioned table's partitions are exempt with it.
 */
extern Oid	cdc_guard_exempt(Oid relid);
extern bool cdc_guard_is_exempt(Oid table, bool is_partition, Oid *covered_by);

/*
 * Take the guard out of a result relation's own copy of its triggers.  Call it
 * once after the relation was initialized, before any trigger was fired.
 */
extern void cdc_guard_strip(ResultRelInfo *rri);

#endif							/* CDC_GUARD_H */
