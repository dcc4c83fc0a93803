/*-------------------------------------------------------------------------
 *
 * cdc_row.c
 *		One row of the target written, with all that belongs to an ordinary
 *		INSERT, UPDATE or DELETE: triggers, generated columns, constraints,
 *		index entries, transition tables.
 *
 * A row that is written is checked by the write itself: when somebody else
 * changed it since it was read, nothing is done and WRITE_AGAIN is returned.
 * The one TM_Result switch is check_result().
 *
 * Everything here runs in the executor's query context.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "executor/nodeModifyTable.h"
#include "storage/lmgr.h"
#include "utils/datum.h"

#include "cdc_write.h"

/* ---------- triggers around a write ---------- */

static void
fire_insert(CdcTarget *target)
{
	if (!target->insert_fired)
	{
		target->insert_fired = true;
		ExecBSInsertTriggers(target->estate, target->rri);
	}
}

static void
fire_update(CdcTarget *target)
{
	if (!target->update_fired)
	{
		target->update_fired = true;
		ExecBSUpdateTriggers(target->estate, target->rri);
	}
}

static void
fire_delete(CdcTarget *target)
{
	if (!target->delete_fired)
	{
		target->delete_fired = true;
		ExecBSDeleteTriggers(target->estate, target->rri);
	}
}

static void
remember_row(CdcWriter *w, TupleTableSlot *slot)
{
	int			natts = slot->tts_tupleDescriptor->natts;

	memcpy(w->before, slot->tts_values, sizeof(Datum) * natts);
	memcpy(w->before_null, slot->tts_isnull, sizeof(bool) * natts);
}

/* A trigger may change a row, but not what the law stands on. */
static void
check_triggered_row(CdcWriter *w, CdcLeaf *leaf, TupleTableSlot *slot)
{
	TupleDesc	desc = slot->tts_tupleDescriptor;

	slot_getallattrs(slot);
	for (int c = 0; c < w->target->natts; c++)
	{
		int			i = leaf->attno[c] - 1;
		Form_pg_attribute att;

		if (!cdc_target_is_law_column(w->target, c + 1))
			continue;
		att = TupleDescAttr(desc, i);
		if ((w->before_null[i] && slot->tts_isnull[i]) ||
			(!w->before_null[i] && !slot->tts_isnull[i] &&
			 datum_image_eq(w->before[i], slot->tts_values[i], att->attbyval, att->attlen)))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("a BEFORE trigger of \"%s\" changed column \"%s\"", w->target->name,
						NameStr(att->attname)),
				 errdetail("Key, position and tombstone of a row are set by cdc_apply alone."),
				 errhint("Let the trigger leave these columns as they are.")));
	}
}

/* Generated columns and constraints of a row about to be written. */
static void
check_row(CdcWriter *w, CdcLeaf *leaf, TupleTableSlot *slot, bool triggered)
{
	ResultRelInfo *rri = leaf->rri;
	Relation	rel = rri->ri_RelationDesc;
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	/* CMD_INSERT computes all of them, also after a revival has set defaults */
	if (constr != NULL && constr->has_generated_stored)
		ExecComputeStoredGenerated(rri, w->target->estate, slot, CMD_INSERT);
	if (constr != NULL)
		ExecConstraints(rri, slot, w->target->estate);
	if (rel->rd_rel->relispartition && (rri == w->target->rri || triggered))
		ExecPartitionCheck(rri, slot, w->target->estate, true);
}

/* ---------- writes ---------- */

/* The one place that says what a table AM's answer means. */
static CdcWritten
check_result(CdcWriter *w, TM_Result result)
{
	switch (result)
	{
		case TM_Ok:
			return WRITTEN;
		case TM_Updated:
		case TM_Deleted:
			if (IsolationUsesXactSnapshot())
				cdc_refuse_concurrent();
			return WRITE_AGAIN;
		case TM_SelfModified:
		case TM_Invisible:
			ereport(ERROR,
					(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
					 errmsg("row of \"%s\" to be written was already modified by an operation triggered by the current command",
							w->target->name),
					 errhint("Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.")));
			break;
		default:
			elog(ERROR, "unexpected result %d of writing a tuple", result);
	}
	pg_unreachable();
}

/* Does an index keep unique what the key's index does, by the same equality? */
static bool
is_same_key(Relation index, Relation key_index)
{
	Form_pg_index form = index->rd_index;
	Form_pg_index key = key_index->rd_index;

	if (!form->indisunique || !form->indimmediate || index->rd_rel->relam != BTREE_AM_OID ||
		form->indnkeyatts != key->indnkeyatts || RelationGetIndexPredicate(index) != NIL ||
		RelationGetIndexExpressions(index) != NIL)
		return false;
	for (int i = 0; i < key->indnkeyatts; i++)
	{
		bool		found = false;

		for (int c = 0; c < form->indnkeyatts; c++)
			found |= form->indkey.values[c] == key->indkey.values[i] &&
				index->rd_indcollation[c] == key_index->rd_indcollation[i] &&
				index->rd_opfamily[c] == key_index->rd_opfamily[i] &&
				index->rd_opcintype[c] == key_index->rd_opcintype[i];
		if (!found)
			return false;
	}
	return true;
}

/*
 * The indexes, made ready for speculative inserts, in which a row of the same
 * key by somebody else may be met first.  A key can have more than one: a
 * second constraint, or the new index of a REINDEX CONCURRENTLY, which is not
 * valid yet but refuses duplicates already.  *others_unique: an index that is
 * none of them may refuse a row.
 */
List *
cdc_row_arbiters(ResultRelInfo *rri, Relation key_index, bool *others_unique)
{
	List	   *arbiters = NIL;

	*others_unique = false;

	for (int i = 0; i < rri->ri_NumIndices; i++)
	{
		Relation	index = rri->ri_IndexRelationDescs[i];
		IndexInfo  *info = rri->ri_IndexRelationInfo[i];

		if (!info->ii_ReadyForInserts || !is_same_key(index, key_index))
		{
			*others_unique |= info->ii_Unique || info->ii_ExclusionOps != NULL;
			continue;
		}
		if (info->ii_UniqueOps == NULL)
			BuildSpeculativeIndexInfo(index, info);
		arbiters = lappend_oid(arbiters, RelationGetRelid(index));
	}
	return arbiters;
}

/* Insert the row in slot, unless somebody else inserted the key meanwhile. */
CdcWritten
cdc_row_insert(CdcWriter *w, CdcLeaf *leaf, TupleTableSlot *slot, bool tombstone)
{
	EState	   *estate = w->target->estate;
	ResultRelInfo *rri = leaf->rri;
	Relation	rel = rri->ri_RelationDesc;
	bool		triggered = rri->ri_TrigDesc != NULL && rri->ri_TrigDesc->trig_insert_before_row;
	bool		conflict = false;
	List	   *recheck;
	uint32		token;

	slot->tts_tableOid = RelationGetRelid(rel);
	fire_insert(w->target);
	if (triggered)
	{
		remember_row(w, slot);
		if (!ExecBRInsertTriggers(estate, rri, slot))
			return WRITE_SKIPPED;
		check_triggered_row(w, leaf, slot);
	}
	w->context.tombstone = tombstone;
	check_row(w, leaf, slot, triggered);
	w->context.tombstone = false;

	/* before another index refuses what is somebody else's row of the key */
	if (leaf->others_unique)
	{
		ItemPointerData tid;

		if (!cdc_check_index_constraints(rri, slot, estate, &tid, leaf->arbiters))
			return WRITE_AGAIN;
	}
	token = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
	table_tuple_insert_speculative(rel, slot, estate->es_output_cid, 0, NULL, token);
	recheck = cdc_insert_index_tuples(rri, slot, estate, false, &conflict, leaf->arbiters, false);
	table_tuple_complete_speculative(rel, slot, token, !conflict);
	SpeculativeInsertionLockRelease(GetCurrentTransactionId());
	if (conflict)
	{
		ItemPointerData tid;

		list_free(recheck);
		/* waits until the other insert has ended, one way or the other */
		(void) cdc_check_index_constraints(rri, slot, estate, &tid, leaf->arbiters);
		return WRITE_AGAIN;
	}
	ExecARInsertTriggers(estate, rri, slot, recheck, w->target->insert_capture);
	list_free(recheck);
	return WRITTEN;
}

/*
 * What comes before the insert of a row that no BEFORE trigger looks at: the
 * statement's triggers, and the row's checks.
 */
void
cdc_row_prepare_insert(CdcWriter *w, CdcLeaf *leaf, TupleTableSlot *slot)
{
	fire_insert(w->target);
	check_row(w, leaf, slot, false);
}

/* Delete a row that an earlier command of this call inserted. */
void
cdc_row_take_back(CdcWriter *w, CdcLeaf *leaf, TupleTableSlot *slot)
{
	EState	   *estate = w->target->estate;
	TM_FailureData failure;
	TM_Result	result = cdc_table_tuple_delete(leaf->rri->ri_RelationDesc, &slot->tts_tid,
												estate->es_output_cid, estate->es_snapshot,
												true, &failure);

	if (result != TM_Ok)
		elog(ERROR, "unexpected result %d of taking back a tuple", result);
}

/* Replace the stored row by the row in slot, if it is still the stored row. */
CdcWritten
cdc_row_update(CdcWriter *w, CdcLeaf *leaf, CdcStored *stored, TupleTableSlot *slot)
{
	EState	   *estate = w->target->estate;
	ResultRelInfo *rri = leaf->rri;
	Relation	rel = rri->ri_RelationDesc;
	ItemPointerData tid = stored->slot->tts_tid;
	bool		triggered = rri->ri_TrigDesc != NULL && rri->ri_TrigDesc->trig_update_before_row;
	TM_FailureData failure;
	CdcWritten		written;
	List	   *recheck = NIL;
	bool		indexes,
				summarizing;

	slot->tts_tableOid = RelationGetRelid(rel);
	fire_update(w->target);
	if (triggered)
	{
		/* lock first, so that the triggers see the row that was judged */
		written = check_result(w, table_tuple_lock(rel, &tid, estate->es_snapshot, leaf->other,
												   estate->es_output_cid, LockTupleNoKeyExclusive,
												   LockWaitBlock, 0, &failure));
		if (written != WRITTEN)
			return written;
		remember_row(w, slot);
		if (!cdc_before_update_triggers(estate, &w->target->epq, rri, &tid, slot, &failure))
			return WRITE_SKIPPED;
		check_triggered_row(w, leaf, slot);
	}
	check_row(w, leaf, slot, triggered);

	written = check_result(w, cdc_table_tuple_update(rel, &tid, slot, estate->es_output_cid,
													 estate->es_snapshot, &failure, &indexes,
													 &summarizing));
	if (written != WRITTEN)
		return written;
	if (rri->ri_NumIndices > 0 && indexes)
		recheck = cdc_insert_index_tuples(rri, slot, estate, true, NULL, NIL, summarizing);
	cdc_after_update_triggers(estate, rri, &tid, slot, recheck, w->target->update_capture);
	list_free(recheck);
	return WRITTEN;
}

/* Remove the stored row, if it is still the stored row. */
CdcWritten
cdc_row_delete(CdcWriter *w, CdcLeaf *leaf, CdcStored *stored)
{
	EState	   *estate = w->target->estate;
	ResultRelInfo *rri = leaf->rri;
	Relation	rel = rri->ri_RelationDesc;
	ItemPointerData tid = stored->slot->tts_tid;
	TM_FailureData failure;
	CdcWritten	written;

	fire_delete(w->target);
	if (rri->ri_TrigDesc != NULL && rri->ri_TrigDesc->trig_delete_before_row)
	{
		/* lock first, so that the triggers see the row that was judged */
		written = check_result(w, table_tuple_lock(rel, &tid, estate->es_snapshot, leaf->other,
												   estate->es_output_cid, LockTupleExclusive,
												   LockWaitBlock, 0, &failure));
		if (written != WRITTEN)
			return written;
		if (!cdc_before_delete_triggers(estate, &w->target->epq, rri, &tid))
			return WRITE_SKIPPED;
	}
	written = check_result(w, cdc_table_tuple_delete(rel, &tid, estate->es_output_cid,
													 estate->es_snapshot, true, &failure));
	if (written == WRITTEN)
		cdc_after_delete_triggers(estate, rri, &tid, w->target->delete_capture);
	return written;
}

/* Statement and deferred-to-end row triggers. */
void
cdc_row_finish_triggers(CdcTarget *target)
{
	if (target->delete_fired)
		ExecASDeleteTriggers(target->estate, target->rri, target->delete_capture);
	if (target->update_fired)
		ExecASUpdateTriggers(target->estate, target->rri, target->update_capture);
	if (target->insert_fired)
		ExecASInsertTriggers(target->estate, target->rri, target->insert_capture);
	if (!target->in_group)
		AfterTriggerEndQuery(target->estate);
}
