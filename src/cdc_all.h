/*-------------------------------------------------------------------------
 *
 * cdc_all.h
 *		Attached targets that are applied by one call.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_ALL_H
#define CDC_ALL_H

#include "postgres.h"

#include "nodes/pg_list.h"

#include "cdc_runs.h"

/* One target of a call, and what became of it. */
typedef struct CdcMember
{
	Oid			target;
	Oid			owner;			/* whose rights it is applied with */
	char	   *name;			/* schema.table */
	char	   *staging;		/* qualified and quoted, for the log */
	CdcApplied	applied;		/* valid without error */
	char	   *error;			/* with its detail and hint */
	int			sqlerrcode;
} CdcMember;

/* in cdc_group.c */
extern Oid	cdc_group_staging(Oid target);
extern List *cdc_groups(const char *schema);

#endif							/* CDC_ALL_H */
