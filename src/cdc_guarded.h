/*-------------------------------------------------------------------------
 *
 * cdc_guarded.h
 *		A guarded table as the guard trigger sees it during one statement.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_GUARDED_H
#define CDC_GUARDED_H

#include "postgres.h"

#include "commands/trigger.h"

#include "cdc_registry.h"

/* How rows of a table are found by key. */
typedef struct CdcKeyLookup
{
	Oid			table;			/* 0: not prepared */
	Oid			index;
	ScanKey		keys;
	int		   *key_of;			/* index column -> key */
	TupleTableSlot *slot;
} CdcKeyLookup;

/*
 * Lives in the trigger's function cache, so for one statement and one table or
 * partition.  Column numbers are of the table that the trigger fires for; a
 * partition may number them otherwise than the target.
 */
typedef struct CdcGuarded
{
	Oid			table;			/* that the trigger fires for */
	Oid			covered_by;		/* exempt table found to be it or its ancestor */
	bool		skip;			/* refused rows are left out without an error */
	MemoryContext context;		/* of the statement */

	/* the rule; from cdc_guarded_read on */
	Oid			target;			/* attached: the table or an ancestor; 0: not read yet */
	CdcRule		rule;			/* the law's columns; the side table once prepared */
	int			nkeys;
	AttrNumber *key_attno;		/* in the order of the rule's key columns */
	int			npos;
	AttrNumber *pos_attno;
	Oid		   *pos_type;
	AttrNumber	tomb_attno;		/* 0: tombstones stand in a side table */
	bool		tomb_time;

	/* what takes longer; from cdc_guarded_prepare on */
	bool		prepared;
	CdcTarget	described;		/* the target's key; its rel is closed */
	AttrNumber *index_attno;	/* of described.keys, in the table */
	CdcKeyLookup rows;
	CdcKeyLookup tombs;
	AttrNumber	tombs_pos;		/* position column of the side table */

	/* what changes; read again after each command of this backend */
	bool		locked;			/* the apply lock is held in share mode */
	bool		horizon_known;
	CommandId	horizon_cid;
	CdcHorizon	horizon;
} CdcGuarded;

extern void cdc_guarded_read(CdcGuarded *g, const TriggerData *trigger);
extern void cdc_guarded_prepare(CdcGuarded *g, Relation rel);
extern void cdc_guarded_lock(CdcGuarded *g);
extern const CdcHorizon *cdc_guarded_horizon(CdcGuarded *g);
extern bool cdc_guarded_keys(CdcGuarded *g, TupleTableSlot *slot, Datum *keys, bool *isnull);
extern void cdc_guarded_state(CdcGuarded *g, TupleTableSlot *slot, CdcStored *stored);
extern bool cdc_guarded_tombstone(CdcGuarded *g, const Datum *keys, CdcPos *pos);
extern bool cdc_guarded_row_stands(CdcGuarded *g, Relation rel, const Datum *keys);

#endif							/* CDC_GUARDED_H */
