/*-------------------------------------------------------------------------
 *
 * cdc_home.c
 *		The target while rows go to it: executor state, partitions, and the
 *		row that is stored for a key.
 *
 * A row is read without a lock, at the call's snapshot, which is taken after
 * the apply lock; who writes it (cdc_write.c) finds out there whether it is
 * still the row that was judged.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/tupconvert.h"
#include "catalog/pg_type.h"
#include "executor/execPartition.h"
#include "executor/nodeModifyTable.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "rewrite/rewriteHandler.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "cdc_apply.h"
#include "cdc_guard.h"
#include "cdc_probe.h"
#include "cdc_registry.h"

typedef struct LeafEntry
{
	Oid			relid;
	CdcLeaf    *leaf;
} LeafEntry;

/* ---------- begin and end ---------- */

static void
begin_routing(CdcTarget *target)
{
	ModifyTableState *mtstate = makeNode(ModifyTableState);
	HASHCTL		ctl;

	/* as COPY does: a bare node, since routing only looks at these fields */
	mtstate->ps.plan = NULL;
	mtstate->ps.state = target->estate;
	mtstate->operation = CMD_INSERT;
	mtstate->mt_nrels = 1;
	mtstate->resultRelInfo = target->rri;
	mtstate->rootResultRelInfo = target->rri;
	target->mtstate = mtstate;

	if (target->rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
	{
		target->routing = ExecSetupPartitionTupleRouting(target->estate, target->rel);
		target->route_slot = MakeSingleTupleTableSlot(RelationGetDescr(target->rel),
													  &TTSOpsVirtual);
	}
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(LeafEntry);
	ctl.hcxt = target->estate->es_query_cxt;
	target->leaves = hash_create("cdc_apply leaves", 16, &ctl,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static void
begin_captures(CdcTarget *target)
{
	TriggerDesc *triggers = target->rel->trigdesc;

	target->insert_capture = MakeTransitionCaptureState(triggers, target->relid, CMD_INSERT);
	target->update_capture = MakeTransitionCaptureState(triggers, target->relid, CMD_UPDATE);
	target->delete_capture = MakeTransitionCaptureState(triggers, target->relid, CMD_DELETE);
}

/*
 * Keep open what is looked into after staging is read: code of the user that
 * runs meanwhile cannot drop or alter it, as it cannot the target.
 */
static void
hold(CdcTarget *target, Relation side)
{
	target->held[0] = index_open(target->index, AccessShareLock);
	if (side == NULL)
		return;
	target->held[1] = side;
	target->held[2] = index_open(cdc_target_key_index(target, side), AccessShareLock);
}

/*
 * Check the caller's rights and set up the executor.  columns are those of
 * key, position, tombstone and events, offset as in range table entries.
 */
void
cdc_target_begin(CdcTarget *target, const Bitmapset *columns, bool dry_run)
{
	EState	   *estate = CreateExecutorState();
	LOCKMODE	lockmode = dry_run ? AccessShareLock : RowExclusiveLock;
	Relation	side = NULL;
	CdcRights	rights;
	Bitmapset  *fired;
	MemoryContext old;

	target->estate = estate;
	target->dry_run = dry_run;
	old = MemoryContextSwitchTo(estate->es_query_cxt);
	rights.required = target->explain ? ACL_SELECT : ACL_SELECT | ACL_INSERT | ACL_UPDATE;
	rights.selected = bms_copy(columns);
	rights.inserted = bms_copy(columns);
	rights.updated = bms_copy(columns);
	fired = bms_copy(columns);
	for (int i = 0; i < target->nkeys; i++)
		fired = bms_del_member(fired, target->keys[i].attno - FirstLowInvalidHeapAttributeNumber);
	if (OidIsValid(target->tombstones))
	{
		if (!target->explain)
			rights.required |= ACL_DELETE;
		side = table_open(target->tombstones, lockmode);
	}
	cdc_init_range_table(estate, target->rel, side, lockmode, &rights, fired);
	hold(target, side);

	target->rri = makeNode(ResultRelInfo);
	ExecInitResultRelation(estate, target->rri, 1);
	cdc_guard_strip(target->rri);
	if (!dry_run)
	{
		cdc_check_valid_result_rel(target->rri, CMD_INSERT);
		cdc_check_valid_result_rel(target->rri, CMD_UPDATE);
		if (OidIsValid(target->tombstones))
			cdc_check_valid_result_rel(target->rri, CMD_DELETE);
	}
	target->defaults = palloc0(sizeof(ExprState *) * target->natts);
	target->default_known = palloc0(sizeof(bool) * target->natts);
	cdc_target_make_fits(target);
	MemoryContextSwitchTo(old);
}

/*
 * Start reading and writing rows, at the latest snapshot.  Unless dry_run, an
 * after-trigger query level is begun, which the writer ends; a group of
 * targets has one around all of them.
 */
void
cdc_target_open(CdcTarget *target, bool dry_run)
{
	EState	   *estate = target->estate;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

	/* dropping the extension drops columns, be they in use or not */
	(void) cdc_extension_schema();
	target->snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(target->snapshot);
	estate->es_snapshot = target->snapshot;
	estate->es_output_cid = GetCurrentCommandId(!dry_run);
	if (!dry_run)
	{
		ExecOpenIndices(target->rri, true);
		if (!target->in_group)
			AfterTriggerBeginQuery();
		begin_captures(target);
	}
	begin_routing(target);
	if (OidIsValid(target->tombstones))
		cdc_tombstones_open(target);
	cdc_epq_init(&target->epq, estate);
	MemoryContextSwitchTo(old);
}

/*
 * Go on in a command of its own, at a new snapshot, so that what the call has
 * written so far is seen.  The after-trigger query level stays the same.
 */
void
cdc_target_renew(CdcTarget *target)
{
	EState	   *estate = target->estate;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
	HASH_SEQ_STATUS seq;
	LeafEntry  *entry;
	Snapshot	before = target->snapshot;

	CommandCounterIncrement();
	PopActiveSnapshot();
	target->snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(target->snapshot);
	estate->es_snapshot = target->snapshot;
	estate->es_output_cid = GetCurrentCommandId(true);
	hash_seq_init(&seq, target->leaves);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		ExecClearTuple(entry->leaf->stored);
		cdc_probe_renew(entry->leaf->probe);
	}
	if (target->tombs != NULL)
		cdc_tombstones_renew(target);
	UnregisterSnapshot(before);
	MemoryContextSwitchTo(old);
}

static void
close_leaf(CdcLeaf *leaf)
{
	cdc_bulk_end(leaf);
	cdc_probe_end(leaf->probe);
	index_close(leaf->index, NoLock);
	ExecClearTuple(leaf->stored);
	ExecClearTuple(leaf->other);
}

/* Close what cdc_target_open opened.  After-triggers have been run already. */
void
cdc_target_end(CdcTarget *target)
{
	EState	   *estate = target->estate;
	HASH_SEQ_STATUS seq;
	LeafEntry  *entry;

	if (target->snapshot != NULL)
	{
		hash_seq_init(&seq, target->leaves);
		while ((entry = hash_seq_search(&seq)) != NULL)
			close_leaf(entry->leaf);
		if (target->tombs != NULL)
			cdc_tombstones_close(target);
		EvalPlanQualEnd(&target->epq);
	}
	ExecResetTupleTable(estate->es_tupleTable, false);
	if (target->routing != NULL)
	{
		ExecDropSingleTupleTableSlot(target->route_slot);
		ExecCleanupTupleRouting(target->mtstate, target->routing);
	}
	ExecCloseResultRelations(estate);
	ExecCloseRangeTableRelations(estate);
	if (target->snapshot != NULL)
	{
		PopActiveSnapshot();
		UnregisterSnapshot(target->snapshot);
	}
	FreeExecutorState(estate);
	for (int i = 0; i < lengthof(target->held); i++)
		if (target->held[i] != NULL)
			relation_close(target->held[i], NoLock);
}

/* ---------- leaves ---------- */

/* Where each column of the target stands in the leaf. */
static AttrNumber *
leaf_attnos(CdcTarget *target, ResultRelInfo *rri)
{
	AttrNumber *attno = palloc0(sizeof(AttrNumber) * target->natts);
	TupleConversionMap *map = NULL;

	if (rri != target->rri)
		map = cdc_root_to_leaf_map(rri, target->estate);
	if (map == NULL)
		for (int i = 0; i < target->natts; i++)
			attno[i] = i + 1;
	else
		for (int i = 0; i < map->attrMap->maplen; i++)
			if (map->attrMap->attnums[i] > 0)
				attno[map->attrMap->attnums[i] - 1] = i + 1;
	return attno;
}

/* Which key is which column of the leaf's index, whose order may be another. */
static int *
key_order(CdcTarget *target, CdcLeaf *leaf)
{
	int		   *key_of = palloc0(sizeof(int) * target->nkeys);

	for (int i = 0; i < target->nkeys; i++)
		for (int c = 0; c < target->nkeys; c++)
			if (leaf->index->rd_index->indkey.values[c] ==
				leaf->attno[target->keys[i].attno - 1])
				key_of[c] = i;
	return key_of;
}

static CdcLeaf *
make_leaf(CdcTarget *target, ResultRelInfo *rri)
{
	EState	   *estate = target->estate;
	Relation	rel = rri->ri_RelationDesc;
	CdcLeaf    *leaf = palloc0(sizeof(CdcLeaf));
	Oid			index = target->index;

	if (rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("partition \"%s\" is not a table", cdc_relation_name(rel)),
				 errdetail("Events can be applied to partitions that are ordinary tables only.")));
	if (rri != target->rri)
	{
		/* routing looks at inserts only */
		if (!target->dry_run)
			cdc_check_valid_result_rel(rri, CMD_UPDATE);
		if (!target->dry_run && OidIsValid(target->tombstones))
			cdc_check_valid_result_rel(rri, CMD_DELETE);
		cdc_guard_strip(rri);
		index = cdc_target_key_index(target, rel);
		if (!OidIsValid(index))
			elog(ERROR, "partition %u has no index for %u", RelationGetRelid(rel), target->index);
	}

	leaf->relid = RelationGetRelid(rel);
	leaf->rri = rri;
	leaf->attno = leaf_attnos(target, rri);
	leaf->index = index_open(index, AccessShareLock);
	leaf->arbiters = cdc_row_arbiters(rri, leaf->index, &leaf->others_unique);
	leaf->stored = table_slot_create(rel, &estate->es_tupleTable);
	leaf->fresh = table_slot_create(rel, &estate->es_tupleTable);
	leaf->other = table_slot_create(rel, &estate->es_tupleTable);
	leaf->probe = cdc_probe_begin(target, rel, leaf->index, key_order(target, leaf));
	return leaf;
}

/*
 * The leaf that a key belongs to; an error as in INSERT where there is none.
 * isnull may be NULL: events have no NULL in their key, but rows may.
 */
CdcLeaf *
cdc_target_leaf(CdcTarget *target, const Datum *keys, const bool *isnull)
{
	EState	   *estate = target->estate;
	ResultRelInfo *rri = target->rri;
	LeafEntry  *entry;
	bool		found;
	Oid			relid;
	MemoryContext old;

	if (target->routing != NULL)
	{
		TupleTableSlot *slot = target->route_slot;

		ExecClearTuple(slot);
		memset(slot->tts_isnull, true, sizeof(bool) * target->natts);
		for (int i = 0; i < target->nkeys; i++)
		{
			slot->tts_values[target->keys[i].attno - 1] = keys[i];
			slot->tts_isnull[target->keys[i].attno - 1] = isnull != NULL && isnull[i];
		}
		ExecStoreVirtualTuple(slot);
		old = MemoryContextSwitchTo(estate->es_query_cxt);
		rri = ExecFindPartition(target->mtstate, target->rri, target->routing, slot, estate);
		MemoryContextSwitchTo(old);
	}
	relid = RelationGetRelid(rri->ri_RelationDesc);
	if (target->leaf != NULL && target->leaf->relid == relid)
		return target->leaf;

	entry = hash_search(target->leaves, &relid, HASH_FIND, &found);
	if (!found)
	{
		CdcLeaf    *leaf;

		old = MemoryContextSwitchTo(estate->es_query_cxt);
		leaf = make_leaf(target, rri);
		MemoryContextSwitchTo(old);
		entry = hash_search(target->leaves, &relid, HASH_ENTER, &found);
		entry->leaf = leaf;
	}
	return target->leaf = entry->leaf;
}

/* ---------- the stored row ---------- */

void
cdc_refuse_concurrent(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errhint("The transaction might succeed if retried.")));
}

/*
 * Under REPEATABLE READ and SERIALIZABLE a row that the transaction's
 * snapshot does not show must not decide anything.
 */
void
cdc_home_check_visible(Relation heap, TupleTableSlot *slot)
{
	bool		isnull;
	Datum		xmin;

	if (!IsolationUsesXactSnapshot() ||
		table_tuple_satisfies_snapshot(heap, slot, GetTransactionSnapshot()))
		return;
	xmin = slot_getsysattr(slot, MinTransactionIdAttributeNumber, &isnull);
	if (!TransactionIdIsCurrentTransactionId(DatumGetTransactionId(xmin)))
		cdc_refuse_concurrent();
}

/* Position and state that the row in slot has by itself. */
void
cdc_home_read_state(CdcTarget *target, CdcLeaf *leaf, TupleTableSlot *slot, CdcStored *stored)
{
	Datum		values[CDC_POSITION_MAX_PARTS];
	bool		isnull[CDC_POSITION_MAX_PARTS];

	for (int i = 0; i < target->npos; i++)
		values[i] = slot_getattr(slot, leaf->attno[target->pos_attno[i] - 1], &isnull[i]);
	cdc_position_from_columns(target->npos, target->pos_type, values, isnull, &stored->pos);
	stored->state = CDC_KEY_LIVE;
	stored->slot = slot;
	if (target->tomb_attno != 0)
	{
		bool		dead_null;
		Datum		dead = slot_getattr(slot, leaf->attno[target->tomb_attno - 1], &dead_null);

		if (!dead_null && (target->tomb_time || DatumGetBool(dead)))
			stored->state = CDC_KEY_TOMBSTONE;
	}
}

/* The tombstone that the side table may have for the key of what was found. */
void
cdc_home_read_tombstone(CdcTarget *target, const Datum *keys, CdcFind how, CdcStored *stored)
{
	CdcPos		dead;

	stored->tombstone = target->tombs != NULL && cdc_tombstones_find(target, keys, how, &dead);
	/* a row at or below its tombstone, put there by hand, is dead */
	if (stored->tombstone &&
		(stored->state == CDC_KEY_ABSENT ||
		 cdc_pos_compare(stored->pos.bytes, stored->pos.len, dead.bytes, dead.len) <= 0))
	{
		stored->state = CDC_KEY_TOMBSTONE;
		stored->pos = dead;
	}
}

/* Keys come in order from here on, beginning with the first. */
void
cdc_target_rewind(CdcTarget *target)
{
	HASH_SEQ_STATUS seq;
	LeafEntry  *entry;

	hash_seq_init(&seq, target->leaves);
	while ((entry = hash_seq_search(&seq)) != NULL)
		cdc_probe_rewind(entry->leaf->probe);
	if (target->tombs != NULL)
		cdc_tombstones_rewind(target);
}

/*
 * Find what is stored for a key: its row in its leaf, into slot (leaf->stored
 * or another slot of the leaf's shape), and its tombstone.
 */
void
cdc_target_find(CdcTarget *target, CdcLeaf *leaf, const Datum *keys, CdcFind how,
				TupleTableSlot *slot, CdcStored *stored)
{
	if (cdc_probe_find(leaf->probe, keys, how, slot))
		cdc_home_read_state(target, leaf, slot, stored);
	else
	{
		stored->state = CDC_KEY_ABSENT;
		stored->pos.len = 0;
		stored->slot = NULL;
	}
	cdc_home_read_tombstone(target, keys, how, stored);
	/* the batch's truncate comes before its other events */
	if (stored->state == CDC_KEY_LIVE && target->truncate.len > 0 &&
		cdc_pos_compare(stored->pos.bytes, stored->pos.len, target->truncate.bytes,
						target->truncate.len) <= 0)
	{
		stored->state = CDC_KEY_TOMBSTONE;
		stored->pos = target->truncate;
	}
}

/* Mark a row that is being built as dead or live. */
void
cdc_target_put_tombstone(CdcTarget *target, CdcLeaf *leaf, bool dead, Datum *values, bool *isnull)
{
	int			col;

	if (target->tomb_attno == 0)
		return;
	col = leaf->attno[target->tomb_attno - 1] - 1;
	if (target->tomb_time)
	{
		isnull[col] = !dead;
		values[col] = dead ? TimestampTzGetDatum(GetCurrentTransactionStartTimestamp()) : (Datum) 0;
	}
	else
	{
		isnull[col] = false;
		values[col] = BoolGetDatum(dead);
	}
	cdc_target_fit(target, target->tomb_attno, &values[col], &isnull[col]);
}

/* NULL as a value of this type: a domain may have none. */
static Expr *
null_of_domain(Form_pg_attribute att)
{
	int32		typmod = att->atttypmod;
	Oid			base = getBaseTypeAndTypmod(att->atttypid, &typmod);

	return (Expr *) coerce_to_domain((Node *) makeNullConst(base, typmod, att->attcollation),
									 base, typmod, att->atttypid, COERCION_IMPLICIT,
									 COERCE_IMPLICIT_CAST, -1, false);
}

/*
 * The default of a target's column, evaluated now, in the current memory
 * context; where it has none NULL, which a domain may refuse.
 */
Datum
cdc_target_default(CdcTarget *target, AttrNumber attno, bool *isnull)
{
	ExprContext *econtext = GetPerTupleExprContext(target->estate);

	if (!target->default_known[attno - 1])
	{
		MemoryContext old = MemoryContextSwitchTo(target->estate->es_query_cxt);
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(target->rel), attno - 1);
		Expr	   *expr = NULL;

		if (att->attgenerated == '\0')
			expr = (Expr *) build_column_default(target->rel, attno);
		if (expr == NULL && att->attgenerated == '\0' && get_typtype(att->atttypid) == TYPTYPE_DOMAIN)
			expr = null_of_domain(att);
		/* a dry run takes no sequence's number and calls nothing that writes */
		if (expr != NULL && target->dry_run && contain_volatile_functions((Node *) expr))
			expr = NULL;
		if (expr != NULL)
			target->defaults[attno - 1] = ExecInitExpr(expression_planner(expr), NULL);
		target->default_known[attno - 1] = true;
		MemoryContextSwitchTo(old);
	}
	if (target->defaults[attno - 1] == NULL)
	{
		*isnull = true;
		return (Datum) 0;
	}
	return ExecEvalExpr(target->defaults[attno - 1], econtext, isnull);
}
