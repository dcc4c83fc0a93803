/*-------------------------------------------------------------------------
 *
 * cdc_registry.h
 *		What is recorded of a target: its rule, and what must not be forgotten.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_REGISTRY_H
#define CDC_REGISTRY_H

#include "postgres.h"

#include "access/htup.h"

#include "cdc_apply.h"

/* columns of cdc_target_rule, from 0; the parameters are those of cdc_apply() */
enum
{
	RULE_TARGET, RULE_STAGING_SCHEMA, RULE_STAGING_NAME,
	RULE_KEY_COLUMNS, RULE_POSITION_COLUMNS, RULE_STAGING_POSITION, RULE_STAGING_FILTER,
	RULE_OP_COLUMN, RULE_DEFAULT_OP, RULE_DELETE_FLAG_COLUMN, RULE_TOMBSTONE_COLUMN,
	RULE_OLD_KEY_COLUMNS, RULE_UNCHANGED_COLUMN, RULE_EXCEPT_COLUMNS, RULE_OP_MAP, RULE_NULL_OP,
	RULE_UNAVAILABLE_VALUE, RULE_ON_UNAVAILABLE, RULE_IGNORE_NULLS, RULE_SNAPSHOT_POSITION,
	RULE_ON_TIE, RULE_ON_SAME_POSITION, RULE_ON_SCHEMA_CHANGE, RULE_COLUMN_POSITIONS, RULE_CONSUME,
	RULE_BOOKMARK_COLUMN,
	RULE_KEY_ATTNUMS, RULE_POSITION_ATTNUMS, RULE_TOMBSTONE_ATTNUM, RULE_GUARD, RULE_LIVE_VIEW,
	RULE_ATTACHED_AT,
	RULE_COLUMNS
};

/* the parameters among them */
#define RULE_PARAMS_FROM	RULE_KEY_COLUMNS
#define RULE_PARAMS			(RULE_BOOKMARK_COLUMN - RULE_KEY_COLUMNS + 1)

/* columns of cdc_target_state */
enum
{
	STATE_TARGET, STATE_TOMBSTONES, STATE_FENCE, STATE_FLOOR, STATE_HIGH_POSITION, STATE_EPOCH,
	STATE_LINEAGE, STATE_FED_COLUMNS, STATE_FED_ATTNUMS,
	STATE_TOMBSTONE_COLUMN,		/* that held tombstones when the target was detached */
	STATE_TOMBSTONE_ATTNUM,
	STATE_COLUMNS
};

/* One row of a registry table; values and tuple stand in the reader's context. */
typedef struct CdcRecord
{
	bool		exists;
	HeapTuple	tuple;			/* with its place in the table */
	Datum		values[RULE_COLUMNS];
	bool		isnull[RULE_COLUMNS];
} CdcRecord;

/* What is recorded of one target. */
typedef struct CdcRegistration
{
	Oid			target;
	CdcRecord	rule;			/* exists: the target is attached */
	CdcRecord	state;			/* exists: it is or was attached */
	/* out of the state; zero without one */
	Oid			tombstones;		/* side table; may be gone */
	CdcHorizon	horizon;
	CdcPos		high;
	int64		epoch;
	char	   *lineage;
} CdcRegistration;

/* One row of either table, for walks over all targets. */
typedef struct CdcRegistered
{
	Oid			target;
	bool		attached;		/* a rule, with its live view, if any */
	Oid			live_view;
	Oid			tombstones;		/* of a state: the side table, if any */
} CdcRegistered;

extern Relation cdc_registry_try_open(const char *name, LOCKMODE lockmode);
extern Relation cdc_registry_open(const char *name, int columns, LOCKMODE lockmode);
extern HeapTuple cdc_registry_fetch_now(Relation table, Oid target);
extern HeapTuple cdc_registry_fetch_latest(Relation table, Oid target);
extern void cdc_registry_read(Oid target, CdcRegistration *reg);
extern void cdc_registry_read_now(Oid target, CdcRegistration *reg);
extern List *cdc_registry_all(void);
extern Oid	cdc_registry_side_table_of(Oid relid);
extern void cdc_registry_put_rule(CdcRegistration *reg);
extern void cdc_registry_put_state(CdcRegistration *reg);
extern void cdc_registry_remove_rule(CdcRegistration *reg);
extern void cdc_registry_forget(Oid target);
extern void cdc_registry_sweep(void);
extern void cdc_registry_lock_rules(void);
extern Oid	cdc_registry_attached_ancestor(Oid relid);
extern void cdc_registry_check_relatives(Relation target);
extern Oid	cdc_registry_attached_partition(Oid relid);
extern char *cdc_registry_current_name(Relation target, char *name, AttrNumber attno);
extern Datum cdc_registry_names(List *names);
extern Datum cdc_registry_attnums(Oid relid, List *names);
extern List *cdc_registry_name_list(Datum names);
extern Datum cdc_registry_position(const CdcPos *pos, bool *isnull);
extern void cdc_registry_set_position(CdcRegistration *reg, int column, const CdcPos *pos);
extern void cdc_registry_check_kind(const CdcRegistration *reg, const CdcPos *pos,
									const char *target);
extern void cdc_registry_set_fed(CdcRegistration *reg, List *names);
extern Oid	cdc_extension_schema(void);

/* in cdc_runs.c */
extern void cdc_runs_forget(Oid target);

#endif							/* CDC_REGISTRY_H */
