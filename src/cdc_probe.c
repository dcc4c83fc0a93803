/*-------------------------------------------------------------------------
 *
 * cdc_probe.c
 *		A key looked up in a table's key index.
 *
 * Keys that come in the order of the index need not be looked up one by one
 * from the root: where the next key stands near the last one, a scan that lies
 * open there walks on to it, and says without a look at the table that a key
 * is absent.  Where keys stand far apart each is looked up by itself.  Which
 * of the two pays is found out on the way.
 *
 * P1: the walk has given out every index entry before the one it stands on.
 * P2: it is under the call's snapshot, so what is written meanwhile, by
 * whomever, does not matter to it.
 * P3: it keeps a pin on the leaf page it stands on, as an index-only scan
 * does: VACUUM of the index waits there until the walk has moved on.
 *
 * P4: a page of the table is not pruned because it is looked at, but when a row
 * of it is about to be replaced (cdc_probe_make_room).  Pruning writes WAL, a
 * whole page of it after a checkpoint, and a replay replaces nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/relscan.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "cdc_apply.h"
#include "cdc_probe.h"

/* Index entries that a walk passes by before it starts anew from the root. */
#define CDC_WALK_STEPS	32

/* New starts, one after the other, that show that walking does not pay. */
#define CDC_WALK_STARTS	3

/* Keys looked up by themselves before walking is tried, at first and at most. */
#define CDC_WALK_WAIT	16
#define CDC_WALK_WAIT_MAX	1024

struct CdcProbe
{
	CdcTarget  *target;
	Relation	heap;
	Relation	index;
	bool		is_heap;		/* the table's pages are those of the heap */
	Buffer		buffer;			/* then: the one looked at last, pinned, or none */
	ItemPointerData expected;	/* the next key's row may be there; or invalid */
	int			met;			/* rows that were where they were expected */
	IndexScanDesc scan;			/* by equality */
	ScanKey		keys;
	const int  *key_of;			/* index column -> key of the target; NULL: the same */
	bool		can_walk;
	IndexScanDesc walk;			/* NULL: not begun */
	ScanKey		from;			/* where it starts */
	ScanKey		members;		/* of a start by several columns */
	bool		on;				/* it stands on an entry */
	bool		over;			/* it came to the end */
	int			starts;			/* without a key reached by walking in between */
	int			wait;			/* keys until the next try */
	int			interval;
};

/* ---------- begin and end ---------- */

/*
 * Does the index stand in the order in which keys come, with one scan key to
 * say where to start?
 */
static bool
can_walk(CdcProbe *probe)
{
	CdcTarget  *target = probe->target;
	Relation	index = probe->index;
	TupleDesc	desc = RelationGetDescr(index);

	for (int i = 0; i < target->nkeys; i++)
	{
		CdcKey	   *key = &target->keys[i];
		bool		desc_order = (index->rd_indoption[i] & INDOPTION_DESC) != 0;

		if ((probe->key_of != NULL && probe->key_of[i] != i) ||
			TupleDescAttr(desc, i)->atttypid != key->type ||
			index->rd_opfamily[i] != key->family || index->rd_indcollation[i] != key->collation ||
			desc_order != key->sort.ssup_reverse ||
			desc_order != target->keys[0].sort.ssup_reverse)
			return false;
		/* rows with a NULL in their key would have to be walked round */
		if (target->nkeys > 1 && !key->notnull)
			return false;
	}
	return true;
}

static void
begin_walk(CdcProbe *probe)
{
	CdcTarget  *target = probe->target;
	Relation	index = probe->index;
	int			n = target->nkeys;
	StrategyNumber strategy = target->keys[0].sort.ssup_reverse ?
		BTLessEqualStrategyNumber : BTGreaterEqualStrategyNumber;

	probe->from = palloc0(sizeof(ScanKeyData));
	if (n == 1)
	{
		Oid			type = index->rd_opcintype[0];

		ScanKeyEntryInitialize(probe->from, 0, 1, strategy, InvalidOid,
							   target->keys[0].collation,
							   get_opcode(get_opfamily_member(index->rd_opfamily[0], type, type,
															  strategy)),
							   (Datum) 0);
	}
	else
	{
		probe->members = palloc0(sizeof(ScanKeyData) * n);
		for (int i = 0; i < n; i++)
			ScanKeyEntryInitialize(&probe->members[i],
								   SK_ROW_MEMBER | (i == n - 1 ? SK_ROW_END : 0), i + 1, strategy,
								   InvalidOid, target->keys[i].collation,
								   index_getprocid(index, i + 1, BTORDER_PROC), (Datum) 0);
		probe->from->sk_flags = SK_ROW_HEADER;
		probe->from->sk_attno = 1;
		probe->from->sk_strategy = strategy;
		probe->from->sk_argument = PointerGetDatum(probe->members);
	}
	probe->walk = cdc_index_beginscan(probe->heap, index, probe->target->snapshot, 1);
	probe->walk->xs_want_itup = true;
}

/*
 * Begin to look keys up at the target's snapshot; what is needed for it lies
 * in the current context.  key_of tells which of the target's keys is which
 * column of the index; NULL: they stand in its order.
 */
CdcProbe *
cdc_probe_begin(CdcTarget *target, Relation heap, Relation index, const int *key_of)
{
	CdcProbe   *probe = palloc0(sizeof(CdcProbe));

	probe->target = target;
	probe->heap = heap;
	probe->index = index;
	probe->keys = palloc0(sizeof(ScanKeyData) * target->nkeys);
	probe->key_of = key_of;
	probe->is_heap = heap->rd_tableam == GetHeapamTableAmRoutine();
	probe->buffer = InvalidBuffer;
	for (int c = 0; c < target->nkeys; c++)
	{
		CdcKey	   *key = &target->keys[key_of != NULL ? key_of[c] : c];

		ScanKeyEntryInitialize(&probe->keys[c], 0, c + 1, BTEqualStrategyNumber, InvalidOid,
							   key->collation, key->equal_proc, (Datum) 0);
	}
	probe->scan = cdc_index_beginscan(heap, index, target->snapshot, target->nkeys);
	probe->can_walk = can_walk(probe);
	probe->wait = probe->interval = CDC_WALK_WAIT;
	return probe;
}

static void
leave_walk(CdcProbe *probe)
{
	probe->on = probe->over = false;
	probe->starts = 0;
}

static void
end_walk(CdcProbe *probe)
{
	if (probe->walk != NULL)
		index_endscan(probe->walk);
	probe->walk = NULL;
	leave_walk(probe);
}

/* Keys begin again with the first. */
void
cdc_probe_rewind(CdcProbe *probe)
{
	leave_walk(probe);
	probe->met = 0;
	ItemPointerSetInvalid(&probe->expected);
}

static void
drop_buffer(CdcProbe *probe)
{
	if (BufferIsValid(probe->buffer))
		ReleaseBuffer(probe->buffer);
	probe->buffer = InvalidBuffer;
}

/* Go on at the target's snapshot, which is another now. */
void
cdc_probe_renew(CdcProbe *probe)
{
	drop_buffer(probe);
	index_endscan(probe->scan);
	end_walk(probe);
	probe->scan = cdc_index_beginscan(probe->heap, probe->index, probe->target->snapshot,
									  probe->target->nkeys);
}

void
cdc_probe_end(CdcProbe *probe)
{
	drop_buffer(probe);
	index_endscan(probe->scan);
	end_walk(probe);
}

/* ---------- the row behind an entry ---------- */

/*
 * Put the row that the scan's entry leads to into slot, as index_fetch_heap()
 * does, but leave its page as it is.
 */
static bool
fetch(CdcProbe *probe, IndexScanDesc scan, TupleTableSlot *slot)
{
	HeapTuple	tuple;
	bool		dead;
	bool		found;

	if (!probe->is_heap || !TTS_IS_BUFFERTUPLE(slot))
		return index_fetch_heap(scan, slot);
	tuple = &((BufferHeapTupleTableSlot *) slot)->base.tupdata;
	probe->buffer = ReleaseAndReadBuffer(probe->buffer, probe->heap,
										 ItemPointerGetBlockNumber(&scan->xs_heaptid));
	LockBuffer(probe->buffer, BUFFER_LOCK_SHARE);
	found = heap_hot_search_buffer(&scan->xs_heaptid, probe->heap, probe->buffer,
								   scan->xs_snapshot, tuple, &dead, true);
	tuple->t_self = scan->xs_heaptid;
	LockBuffer(probe->buffer, BUFFER_LOCK_UNLOCK);
	/* the index may forget an entry that leads to nothing anybody sees */
	if (!scan->xactStartedInRecovery)
		scan->kill_prior_tuple = !found && dead;
	if (!found)
		return false;
	pgstat_count_heap_fetch(scan->indexRelation);
	slot->tts_tableOid = RelationGetRelid(probe->heap);
	ExecStoreBufferHeapTuple(tuple, slot, probe->buffer);
	return true;
}

/*
 * Would the server prune this page if it came by?  It looks without a lock too:
 * a wrong answer does no harm.
 */
static bool
is_prunable(Relation heap, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	TransactionId xid = ((PageHeader) page)->pd_prune_xid;
	Size		room = Max(RelationGetTargetPageFreeSpace(heap, HEAP_DEFAULT_FILLFACTOR),
						   BLCKSZ / 10);

	return TransactionIdIsValid(xid) &&
		(PageIsFull(page) || PageGetHeapFreeSpace(page) < room) && cdc_xid_is_removable(heap, xid);
}

/*
 * The row in slot, which was found last, is about to be replaced: let what is
 * dead on its page make room for its successor.  The slot has a copy of the
 * row then, for rows move when a page is pruned.
 */
void
cdc_probe_make_room(CdcProbe *probe, TupleTableSlot *slot)
{
	if (!probe->is_heap || !BufferIsValid(probe->buffer) || !TTS_IS_BUFFERTUPLE(slot) ||
		((BufferHeapTupleTableSlot *) slot)->buffer != probe->buffer ||
		!is_prunable(probe->heap, probe->buffer))
		return;
	/* the server prunes a page that nobody else holds, we neither */
	ExecMaterializeSlot(slot);
	cdc_heap_page_prune(probe->heap, probe->buffer);
}

/* ---------- walking ---------- */

static void
advance(CdcProbe *probe)
{
	probe->on = index_getnext_tid(probe->walk, ForwardScanDirection) != NULL;
	probe->over = !probe->on;
}

static void
start(CdcProbe *probe, const Datum *keys)
{
	CdcTarget  *target = probe->target;

	/* the walk looks at where it started again and again, the keys are gone by then */
	for (int i = 0; i < target->nkeys; i++)
	{
		const CdcKey *key = &target->keys[i];
		ScanKey		part = probe->members == NULL ? probe->from : &probe->members[i];

		if (!key->typbyval && DatumGetPointer(part->sk_argument) != NULL)
			pfree(DatumGetPointer(part->sk_argument));
		part->sk_argument = key->typlen == -1 ?
			PointerGetDatum(PG_DETOAST_DATUM_COPY(keys[i])) :
			datumCopy(keys[i], key->typbyval, key->typlen);
	}
	index_rescan(probe->walk, probe->from, 1, NULL, 0);
	probe->starts++;
	advance(probe);
}

/* Where the entry that the walk stands on is: before, at or behind the key. */
static int
compare_entry(CdcProbe *probe, const Datum *keys)
{
	CdcTarget  *target = probe->target;

	for (int i = 0; i < target->nkeys; i++)
	{
		bool		isnull;
		Datum		value = index_getattr(probe->walk->xs_itup, i + 1, probe->walk->xs_itupdesc,
										  &isnull);
		int			cmp;

		if (isnull)
			return 1;
		cmp = ApplySortComparator(value, false, keys[i], false, &target->keys[i].sort);
		if (cmp != 0)
			return cmp;
	}
	return 0;
}

static bool
walk(CdcProbe *probe, const Datum *keys, TupleTableSlot *slot)
{
	int			steps = 0;

	if (!probe->on && !probe->over)
		start(probe, keys);
	while (probe->on)
	{
		int			cmp = compare_entry(probe, keys);

		if (cmp > 0)
			return false;
		/* an update leaves more than one entry of a key */
		if (cmp == 0 && fetch(probe, probe->walk, slot))
			return true;
		if (cmp < 0 && ++steps > CDC_WALK_STEPS)
		{
			start(probe, keys);
			steps = 0;
		}
		else
			advance(probe);
	}
	return false;
}

/* Walk to the key, and see whether it was near. */
static bool
walk_to(CdcProbe *probe, const Datum *keys, TupleTableSlot *slot)
{
	int			starts = probe->starts;
	bool		found = walk(probe, keys, slot);

	if (probe->starts == starts)
		probe->starts = 0;
	return found;
}

/* Is this the time to walk? */
static bool
is_walking(CdcProbe *probe)
{
	if (!probe->can_walk || (probe->wait > 0 && probe->wait-- > 0))
		return false;
	if (probe->starts >= CDC_WALK_STARTS)
	{
		/* nothing of the index is held while others are looked up */
		end_walk(probe);
		probe->interval = Min(probe->interval * 2, CDC_WALK_WAIT_MAX);
		probe->wait = probe->interval;
		return false;
	}
	if (probe->walk == NULL)
		begin_walk(probe);
	return true;
}

/* ---------- one key ---------- */

/* Look a key up at a snapshot of its own. */
static bool
find_at(Relation heap, Relation index, int nkeys, ScanKey keys, Snapshot snapshot,
		TupleTableSlot *slot)
{
	IndexScanDesc scan = cdc_index_beginscan(heap, index, snapshot, nkeys);
	bool		found;

	index_rescan(scan, keys, nkeys, NULL, 0);
	found = index_getnext_slot(scan, ForwardScanDirection, slot);
	index_endscan(scan);
	return found;
}

/* What was found, or was not, must be so in the transaction's snapshot too. */
static bool
check_found(Relation heap, Relation index, int nkeys, ScanKey keys, bool found,
			TupleTableSlot *slot)
{
	if (found)
	{
		cdc_home_check_visible(heap, slot);
		return true;
	}
	/* gone, but the transaction's snapshot still shows it */
	if (IsolationUsesXactSnapshot() &&
		find_at(heap, index, nkeys, keys, GetTransactionSnapshot(), slot))
		cdc_refuse_concurrent();
	ExecClearTuple(slot);
	return false;
}

static void
set_keys(CdcProbe *probe, const Datum *keys)
{
	for (int c = 0; c < probe->target->nkeys; c++)
		probe->keys[c].sk_argument = keys[probe->key_of != NULL ? probe->key_of[c] : c];
}

/* A scan to look for keys before their turn, which is ended by index_endscan(). */
IndexScanDesc
cdc_probe_ahead_begin(CdcProbe *probe)
{
	return cdc_index_beginscan(probe->heap, probe->index, probe->target->snapshot,
							   probe->target->nkeys);
}

/* The page where the row with these keys may be, as the index alone knows it. */
BlockNumber
cdc_probe_ahead(CdcProbe *probe, IndexScanDesc scan, const Datum *keys)
{
	ItemPointer tid;

	set_keys(probe, keys);
	index_rescan(scan, probe->keys, probe->target->nkeys, NULL, 0);
	tid = index_getnext_tid(scan, ForwardScanDirection);
	return tid != NULL ? ItemPointerGetBlockNumber(tid) : InvalidBlockNumber;
}

/*
 * May where a row is be known ahead (cdc_scout.c)?  A serializable transaction
 * must be seen to read the index.
 */
bool
cdc_probe_can_expect(const CdcProbe *probe)
{
	return probe->is_heap && !IsolationIsSerializable();
}

/* Where an index entry of the next key leads; NULL: that is not known. */
void
cdc_probe_expect(CdcProbe *probe, const ItemPointerData *tid)
{
	if (tid != NULL)
		probe->expected = *tid;
	else
		ItemPointerSetInvalid(&probe->expected);
}

/* How many rows were where they were expected, since this was asked last. */
int
cdc_probe_met(CdcProbe *probe)
{
	int			met = probe->met;

	probe->met = 0;
	return met;
}

/* Find the row with these keys at a snapshot of this moment. */
bool
cdc_probe_latest(Relation heap, Relation index, int nkeys, ScanKey keys, TupleTableSlot *slot)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool		found = find_at(heap, index, nkeys, keys, snapshot, slot);

	UnregisterSnapshot(snapshot);
	return check_found(heap, index, nkeys, keys, found, slot);
}

/* Is the row in slot that of these keys? */
static bool
has_keys(CdcProbe *probe, const Datum *keys, TupleTableSlot *slot)
{
	CdcTarget  *target = probe->target;

	for (int c = 0; c < target->nkeys; c++)
	{
		int			k = probe->key_of != NULL ? probe->key_of[c] : c;
		bool		isnull;
		Datum		value = slot_getattr(slot, probe->index->rd_index->indkey.values[c], &isnull);

		if (isnull || !cdc_key_equal(&target->keys[k], value, keys[k]))
			return false;
	}
	return true;
}

/* Is the row where it is expected? */
static bool
find_expected(CdcProbe *probe, const Datum *keys, TupleTableSlot *slot)
{
	bool		found;

	if (!ItemPointerIsValid(&probe->expected))
		return false;
	probe->scan->xs_heaptid = probe->expected;
	ItemPointerSetInvalid(&probe->expected);
	found = fetch(probe, probe->scan, slot) && has_keys(probe, keys, slot);
	/* the scan stands on no entry that it could forget */
	probe->scan->kill_prior_tuple = false;
	if (!found)
		return false;
	pgstat_count_index_scan(probe->index);
	pgstat_count_index_tuples(probe->index, 1);
	probe->met++;
	/* a walk that is not gone on with would hold its page */
	if (probe->walk != NULL)
		end_walk(probe);
	return true;
}

/*
 * Find the row with these keys, which stand in the order of the target's.
 * CDC_FIND_IN_ORDER: they come in the order of the index since the last
 * rewind; CDC_FIND_AGAIN: at a snapshot of this moment, after somebody else
 * was seen to write the key.
 */
bool
cdc_probe_find(CdcProbe *probe, const Datum *keys, CdcFind how, TupleTableSlot *slot)
{
	int			n = probe->target->nkeys;
	bool		found;
	MemoryContext old;

	set_keys(probe, keys);
	if (how == CDC_FIND_AGAIN)
		return cdc_probe_latest(probe->heap, probe->index, n, probe->keys, slot);

	if (how == CDC_FIND_IN_ORDER && find_expected(probe, keys, slot))
		return check_found(probe->heap, probe->index, n, probe->keys, true, slot);
	/* the scans outlive the row: what they allocate on the way must too */
	old = MemoryContextSwitchTo(GetMemoryChunkContext(probe));
	if (how == CDC_FIND_IN_ORDER && is_walking(probe))
		found = walk_to(probe, keys, slot);
	else
	{
		index_rescan(probe->scan, probe->keys, n, NULL, 0);
		found = false;
		while (!found && index_getnext_tid(probe->scan, ForwardScanDirection) != NULL)
			found = fetch(probe, probe->scan, slot);
	}
	MemoryContextSwitchTo(old);
	return check_found(probe->heap, probe->index, n, probe->keys, found, slot);
}
