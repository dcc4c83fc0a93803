/*-------------------------------------------------------------------------
 *
 * cdc_truncate.c
 *		A truncate event: every row at or below its position is dead.
 *
 * Rows are written one by one, as those of winners are (cdc_row.c), in a
 * command before theirs but under the same after-triggers, so that foreign keys
 * look at what the whole call leaves.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "cdc_write.h"

/* Is the row, found alive, at or below the truncate? */
static bool
is_hit(const CdcTarget *target, const CdcStored *stored)
{
	return stored->slot != NULL && stored->state == CDC_KEY_LIVE &&
		cdc_pos_compare(stored->pos.bytes, stored->pos.len, target->truncate.bytes,
						target->truncate.len) <= 0;
}

/*
 * Kill the row that was found, or the values of it that are older than the
 * truncate.  True: somebody else changed it meanwhile, and it may be elsewhere
 * by now.
 */
static bool
kill_row(CdcWriter *w, CdcStored *stored)
{
	CdcTarget  *target = w->target;
	CdcLeaf    *leaf = cdc_target_leaf(target, w->keys, w->keys_null);
	CdcPos		truncate = target->truncate;
	CdcWritten	written = WRITTEN;
	MemoryContext old;

	w->context.keys = w->keys;
	w->context.pos = truncate.bytes;
	w->context.poslen = truncate.len;
	cdc_home_read_state(target, leaf, stored->slot, stored);
	cdc_home_check_visible(leaf->rri->ri_RelationDesc, stored->slot);
	old = CurrentMemoryContext;
	if (is_hit(target, stored))
	{
		if (target->tomb_attno != 0)
			cdc_image_kill(&w->image, leaf, &truncate, stored, leaf->fresh);
		MemoryContextSwitchTo(target->estate->es_query_cxt);
		written = target->tomb_attno != 0 ? cdc_row_update(w, leaf, stored, leaf->fresh) :
			cdc_row_delete(w, leaf, stored);
	}
	else if (cdc_marks_any(target, leaf, stored) &&
			 cdc_marks_kill(&w->image, leaf, &truncate, stored))
	{
		/* it came after the truncate, but some of its values before */
		cdc_image_late(&w->image, leaf, stored, leaf->fresh);
		MemoryContextSwitchTo(target->estate->es_query_cxt);
		written = cdc_row_update(w, leaf, stored, leaf->fresh);
	}
	MemoryContextSwitchTo(old);
	ExecClearTuple(leaf->fresh);
	w->context.keys = NULL;
	return written == WRITE_AGAIN;
}

/*
 * Kill the rows of the target, or of one of its partitions.  True: some were
 * changed meanwhile.
 */
static bool
kill_rows_of(CdcWriter *w, Oid relid)
{
	CdcTarget  *target = w->target;
	/* the scan outlives the row, whose context is reset below */
	MemoryContext old = MemoryContextSwitchTo(w->call_context);
	Relation	rel = table_open(relid, NoLock);
	AttrNumber *key_attno = palloc(sizeof(AttrNumber) * target->nkeys);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc scan = cdc_table_beginscan(rel, target->snapshot);
	bool		again = false;

	MemoryContextSwitchTo(w->row_context);
	for (int i = 0; i < target->nkeys; i++)
		key_attno[i] = get_attnum(relid, target->keys[i].name);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CdcStored	stored = {.slot = slot};

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < target->nkeys; i++)
			w->keys[i] = slot_getattr(slot, key_attno[i], &w->keys_null[i]);
		again |= kill_row(w, &stored);
		MemoryContextReset(w->row_context);
		ResetPerTupleExprContext(target->estate);
	}
	MemoryContextSwitchTo(w->call_context);
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	pfree(key_attno);
	MemoryContextSwitchTo(old);
	return again;
}

/*
 * Kill every row at or below the batch's truncate: marked as deleted there in
 * the row home, removed in the other.  After it the target is read anew, and
 * looked through once more if a row was changed under way.
 */
void
cdc_truncate_rows(CdcWriter *w)
{
	CdcTarget  *target = w->target;
	MemoryContext old = MemoryContextSwitchTo(w->call_context);
	List	   *members = list_make1_oid(target->relid);
	ListCell   *lc;
	bool		again = true;

	if (target->routing != NULL)
		members = find_all_inheritors(target->relid, RowExclusiveLock, NULL);
	MemoryContextSwitchTo(old);
	while (again)
	{
		again = false;
		foreach(lc, members)
			if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_RELATION)
				again |= kill_rows_of(w, lfirst_oid(lc));
		cdc_target_renew(target);
	}
}
