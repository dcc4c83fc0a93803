/*-------------------------------------------------------------------------
 *
 * cdc_guarded.c
 *		What the guard trigger knows of the table that it guards: its rule,
 *		and what is stored for a key.
 *
 * Read in two steps, since most changes that are let through need only the
 * first: cdc_guarded_read finds the rule and its columns, cdc_guarded_prepare
 * the key's operators and indexes.  All of it is forgotten with the statement.
 * Who judges, and what is refused, is in cdc_guard.c.
 *
 * Locks: the apply lock of the target in share mode, where said, to the end of
 * the transaction; ACCESS SHARE on the target and on the side table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "cdc_guarded.h"
#include "cdc_probe.h"

/* ---------- the rule ---------- */

static void
refuse_unattached(const TriggerData *trigger)
{
	Relation	rel = trigger->tg_relation;

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" has a guard but is not attached", cdc_relation_name(rel)),
			 errdetail("Without the rule of an attachment nothing can be judged."),
			 errhint("Use cdc_attach(), or drop the trigger \"%s\".",
					 trigger->tg_trigger->tgname)));
}

static AttrNumber
find_column(Relation rel, const char *name)
{
	AttrNumber	attno = get_attnum(RelationGetRelid(rel), name);

	if (attno <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of guarded table \"%s\" does not exist", name,
						cdc_relation_name(rel)),
				 errhint("Use cdc_detach() and cdc_attach().")));
	return attno;
}

static Oid
column_type(Relation rel, AttrNumber attno)
{
	return getBaseType(TupleDescAttr(RelationGetDescr(rel), attno - 1)->atttypid);
}

/* The rule's columns in the table that the trigger fires for. */
static void
find_columns(CdcGuarded *g, Relation rel)
{
	const CdcRule *rule = &g->rule;
	ListCell   *lc;

	g->key_attno = palloc(sizeof(AttrNumber) * list_length(rule->key_columns));
	foreach(lc, rule->key_columns)
		g->key_attno[g->nkeys++] = find_column(rel, lfirst(lc));
	if (list_length(rule->position_columns) > CDC_POSITION_MAX_PARTS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a position has at most %d parts", CDC_POSITION_MAX_PARTS)));
	g->pos_attno = palloc(sizeof(AttrNumber) * list_length(rule->position_columns));
	g->pos_type = palloc(sizeof(Oid) * list_length(rule->position_columns));
	foreach(lc, rule->position_columns)
	{
		g->pos_attno[g->npos] = find_column(rel, lfirst(lc));
		g->pos_type[g->npos] = column_type(rel, g->pos_attno[g->npos]);
		if (!cdc_position_type_ok(g->pos_type[g->npos], g->npos == 0,
								  list_length(rule->position_columns) == 1))
			cdc_refuse_position_type("the guarded table", lfirst(lc), g->pos_type[g->npos]);
		g->npos++;
	}
	if (rule->tombstone_column != NULL)
	{
		g->tomb_attno = find_column(rel, rule->tombstone_column);
		g->tomb_time = column_type(rel, g->tomb_attno) == TIMESTAMPTZOID;
	}
}

/*
 * Find the rule that guards the trigger's table: its own or, for a partition,
 * that of an attached ancestor.
 */
void
cdc_guarded_read(CdcGuarded *g, const TriggerData *trigger)
{
	Relation	rel = trigger->tg_relation;
	Relation	target = rel;
	CdcRegistration reg;
	Oid			relid = RelationGetRelid(rel);
	MemoryContext old;

	/* what needs no judgment passes whatever the snapshot shows */
	cdc_registry_read_now(relid, &reg);
	if (!reg.rule.exists)
	{
		relid = cdc_registry_attached_ancestor(relid);
		if (!OidIsValid(relid))
			refuse_unattached(trigger);
		cdc_registry_read_now(relid, &reg);
		target = table_open(relid, AccessShareLock);
	}
	old = MemoryContextSwitchTo(g->context);
	cdc_rule_read_law(&reg, target, &g->rule);
	find_columns(g, rel);
	MemoryContextSwitchTo(old);
	if (target != rel)
		table_close(target, NoLock);
	g->target = relid;
}

/* ---------- the key ---------- */

/* The table's index that is the target's key index, or does its work. */
static Oid
find_key_index(CdcGuarded *g, Relation rel)
{
	Oid			index = g->described.index;

	if (g->target != g->table)
		index = cdc_target_key_index(&g->described, rel);
	if (!OidIsValid(index))
		elog(ERROR, "partition %u has no index for %u", g->table, g->described.index);
	return index;
}

/* Columns of a table and its index are matched to the key by name. */
static void
prepare_lookup(CdcGuarded *g, CdcKeyLookup *lookup, Relation rel, Oid indexid)
{
	CdcTarget  *target = &g->described;
	Relation	index = index_open(indexid, AccessShareLock);

	lookup->table = RelationGetRelid(rel);
	lookup->index = indexid;
	lookup->keys = palloc0(sizeof(ScanKeyData) * target->nkeys);
	lookup->key_of = palloc0(sizeof(int) * target->nkeys);
	for (int i = 0; i < target->nkeys; i++)
	{
		CdcKey	   *key = &target->keys[i];
		AttrNumber	attno = find_column(rel, key->name);

		for (int c = 0; c < target->nkeys; c++)
			if (index->rd_index->indkey.values[c] == attno)
			{
				lookup->key_of[c] = i;
				ScanKeyEntryInitialize(&lookup->keys[c], 0, c + 1, BTEqualStrategyNumber,
									   InvalidOid, key->collation, key->equal_proc, (Datum) 0);
			}
	}
	/* a descriptor of our own: nobody tells us when to unpin the table's */
	lookup->slot = MakeSingleTupleTableSlot(CreateTupleDescCopyConstr(RelationGetDescr(rel)),
											table_slot_callbacks(rel));
	index_close(index, NoLock);
}

static void
prepare_tombstones(CdcGuarded *g)
{
	Relation	side = try_table_open(g->described.tombstones, AccessShareLock);

	if (side == NULL)
		cdc_refuse_lost_side_table(g->described.name);
	prepare_lookup(g, &g->tombs, side, cdc_target_key_index(&g->described, side));
	g->tombs_pos = find_column(side, "source_position");
	table_close(side, NoLock);
}

/* Side table, fence and floor; 40001 where the snapshot shows others. */
static void
read_state(CdcGuarded *g)
{
	CdcRegistration reg;

	cdc_registry_read(g->target, &reg);
	if (g->tomb_attno == 0)
		g->rule.tombstones = reg.tombstones;
	g->horizon = reg.horizon;
	g->horizon_cid = GetCurrentCommandId(false);
	g->horizon_known = true;
}

/* Make ready to compare keys and to look them up; rel is the trigger's. */
void
cdc_guarded_prepare(CdcGuarded *g, Relation rel)
{
	MemoryContext old;
	Relation	target = rel;

	if (g->prepared)
		return;
	read_state(g);
	old = MemoryContextSwitchTo(g->context);
	if (g->target != g->table)
		target = table_open(g->target, AccessShareLock);
	if (g->tomb_attno == 0 && !OidIsValid(g->rule.tombstones))
		cdc_refuse_lost_side_table(cdc_relation_name(target));
	cdc_target_describe(&g->described, target, &g->rule);
	g->described.rel = NULL;
	g->index_attno = palloc(sizeof(AttrNumber) * g->described.nkeys);
	for (int i = 0; i < g->described.nkeys; i++)
		g->index_attno[i] = find_column(rel, g->described.keys[i].name);
	if (OidIsValid(g->described.tombstones))
		prepare_tombstones(g);
	if (target != rel)
		table_close(target, NoLock);
	MemoryContextSwitchTo(old);
	g->prepared = true;
}

/* ---------- what is stored ---------- */

/*
 * Keep applies, purges and fences of the target out to the end of the
 * transaction, and look anew at what they may have changed.
 */
void
cdc_guarded_lock(CdcGuarded *g)
{
	if (g->locked)
		return;
	(void) cdc_target_lock(g->target, ShareLock, false);
	g->locked = true;
	g->horizon_known = false;
}

const CdcHorizon *
cdc_guarded_horizon(CdcGuarded *g)
{
	if (!g->horizon_known || g->horizon_cid != GetCurrentCommandId(false))
		read_state(g);
	return &g->horizon;
}

/* A row's key in the order of the target's key index; false if a part is NULL. */
bool
cdc_guarded_keys(CdcGuarded *g, TupleTableSlot *slot, Datum *keys, bool *isnull)
{
	bool		whole = true;

	for (int i = 0; i < g->described.nkeys; i++)
	{
		keys[i] = slot_getattr(slot, g->index_attno[i], &isnull[i]);
		whole &= !isnull[i];
	}
	return whole;
}

/* Position and state that a row has by itself. */
void
cdc_guarded_state(CdcGuarded *g, TupleTableSlot *slot, CdcStored *stored)
{
	Datum		values[CDC_POSITION_MAX_PARTS];
	bool		isnull[CDC_POSITION_MAX_PARTS];

	for (int i = 0; i < g->npos; i++)
		values[i] = slot_getattr(slot, g->pos_attno[i], &isnull[i]);
	cdc_position_from_columns(g->npos, g->pos_type, values, isnull, &stored->pos);
	stored->state = CDC_KEY_LIVE;
	if (g->tomb_attno != 0)
	{
		bool		dead_null;
		Datum		dead = slot_getattr(slot, g->tomb_attno, &dead_null);

		if (!dead_null && (g->tomb_time || DatumGetBool(dead)))
			stored->state = CDC_KEY_TOMBSTONE;
	}
}

/* Look a key up at the latest snapshot; 40001 as in cdc_probe_latest(). */
static bool
find_key(CdcGuarded *g, CdcKeyLookup *lookup, Relation rel, const Datum *keys)
{
	Relation	index = try_relation_open(lookup->index, AccessShareLock);
	bool		found;

	/* our locks keep other sessions from it, but not other triggers */
	if (index == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("the key index of \"%s\" was dropped or made anew while rows are written",
						cdc_relation_name(rel)),
				 errhint("Look for a trigger of the statement that does it.")));
	for (int c = 0; c < g->described.nkeys; c++)
		lookup->keys[c].sk_argument = keys[lookup->key_of[c]];
	found = cdc_probe_latest(rel, index, g->described.nkeys, lookup->keys, lookup->slot);
	index_close(index, NoLock);
	return found;
}

/* The side table's tombstone of a key. */
bool
cdc_guarded_tombstone(CdcGuarded *g, const Datum *keys, CdcPos *pos)
{
	Relation	side = try_table_open(g->tombs.table, AccessShareLock);
	bool		found;

	/* another trigger of the statement may have dropped it */
	if (side == NULL)
		cdc_refuse_lost_side_table(g->described.name);
	found = find_key(g, &g->tombs, side, keys);
	pos->len = 0;
	if (found)
	{
		Oid			type = cdc_position_type();
		bool		isnull;
		Datum		value = slot_getattr(g->tombs.slot, g->tombs_pos, &isnull);

		cdc_position_from_columns(1, &type, &value, &isnull, pos);
		ExecClearTuple(g->tombs.slot);
	}
	table_close(side, NoLock);
	return found;
}

/*
 * Does the table hold a row of the key, dead or live?  Such a row is kept from
 * being removed to the end of the transaction, since its being there is why
 * an insert is let through.
 */
bool
cdc_guarded_row_stands(CdcGuarded *g, Relation rel, const Datum *keys)
{
	CdcKeyLookup *rows = &g->rows;

	if (!OidIsValid(rows->table))
	{
		MemoryContext old = MemoryContextSwitchTo(g->context);

		prepare_lookup(g, rows, rel, find_key_index(g, rel));
		MemoryContextSwitchTo(old);
	}
	while (find_key(g, rows, rel, keys))
	{
		ItemPointerData tid = rows->slot->tts_tid;
		TM_FailureData failure;
		TM_Result	result;

		CHECK_FOR_INTERRUPTS();
		ExecClearTuple(rows->slot);
		result = table_tuple_lock(rel, &tid, GetActiveSnapshot(), rows->slot,
								  GetCurrentCommandId(false), LockTupleKeyShare, LockWaitBlock, 0,
								  &failure);
		ExecClearTuple(rows->slot);
		if (result != TM_Updated && result != TM_Deleted)
			return true;
		if (IsolationUsesXactSnapshot())
			cdc_refuse_concurrent();
	}
	return false;
}
