/*-------------------------------------------------------------------------
 *
 * cdc_scout.c
 *		The rows of the next winners looked for together.
 *
 * To find one row takes some twenty steps, each of which must wait for memory
 * that the one before it has named: the pages of the index, the entries of a
 * leaf page one after the other, the table's page, the row.  In a table larger
 * than the processor's caches that is where the time goes.  Here the next
 * winners are looked for step by step, all of them one step before any of them
 * the next, so that they wait together.
 *
 * What comes of it is where a key's row may be, as the last index entry with the
 * key has it.  The probe takes the row there if its snapshot sees it and it has
 * the key, and else looks the key up as ever (cdc_probe.c).  So nothing here
 * needs to be complete, or still true when it is used: a page that is split or
 * deleted meanwhile costs its keys the advantage.
 *
 * Where the winners stand close to each other, in the table and in the index,
 * they are at hand, and where keys are new there is nothing to find: there the
 * next winners are left to the probe for a while, which walks.
 *
 * S1: no page is locked while another is waited for.
 * S2: between groups one page above the leaves stays pinned, no other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "cdc_probe.h"
#include "cdc_write.h"

/* Winners looked for together, and at most. */
#define CDC_SCOUT_GROUP	32
#define CDC_SCOUT_GROUP_MAX	64

/* Fewer are not worth it; so few there are where buffers are scarce. */
#define CDC_SCOUT_GROUP_MIN	8

/* Winners left to the probe where that is as good, at first and at most. */
#define CDC_SCOUT_WAIT	64
#define CDC_SCOUT_WAIT_MAX	1024

/* It is where so many find their rows on one page, and a walk passes so few entries for each. */
#define CDC_SCOUT_ROWS_PER_PAGE	8
#define CDC_SCOUT_ENTRIES	8

/* One winner's key on its way. */
typedef struct ScoutKey
{
	Datum	   *keys;
	Buffer		leaf;			/* pinned; invalid: it has come to its end */
	bool		same;			/* as that of the key before */
	OffsetNumber low;			/* the entry is not before this one */
	OffsetNumber high;			/* and before this one */
	Buffer		page;			/* of the table, pinned, or invalid */
} ScoutKey;

struct CdcScout
{
	Relation	heap;
	Relation	index;
	int			nkeys;
	BTScanInsert at;			/* what is compared with */
	Buffer		parent;			/* the page above the leaves that keys stand on, pinned */
	MemoryContext context;		/* of a group */
	int			size;			/* winners to look for together */
	int			n;				/* that were looked for */
	int			next;			/* of them, the one whose turn it is */
	bool		dense;			/* they stand close to each other */
	int			wait;			/* winners until the next group */
	int			interval;
	ScoutKey	group[CDC_SCOUT_GROUP_MAX];
	ItemPointerData found[CDC_SCOUT_GROUP_MAX];
};

int			cdc_debug_scout = -1;

/* ---------- begin and end ---------- */

/* As many winners as buffers may be pinned for; 0: too few. */
static int
group_size(Relation rel)
{
	int			pins = RelationUsesLocalBuffers(rel) ? num_temp_buffers / 4 :
		NBuffers / (MaxBackends + 1);

	return pins >= CDC_SCOUT_GROUP_MIN ? Min(pins, CDC_SCOUT_GROUP) : 0;
}

/* NULL: the target's rows are looked for one by one. */
CdcScout *
cdc_scout_create(CdcWriter *w)
{
	CdcTarget  *target = w->target;
	int			size = cdc_debug_scout >= 0 ? cdc_debug_scout : group_size(target->rel);
	CdcLeaf    *leaf;
	CdcScout   *scout;
	BTScanInsert at;

	/* a partition's keys are not the next ones; what a truncate kills is not looked up */
	if (target->rel->rd_rel->relkind != RELKIND_RELATION || target->truncate.len > 0 || size == 0)
		return NULL;
	leaf = cdc_target_leaf(target, w->keys, NULL);
	if (!cdc_probe_can_expect(leaf->probe))
		return NULL;
	scout = palloc0(sizeof(CdcScout));
	scout->heap = leaf->rri->ri_RelationDesc;
	scout->index = leaf->index;
	scout->nkeys = target->nkeys;
	scout->size = size;
	scout->interval = CDC_SCOUT_WAIT;
	scout->context = AllocSetContextCreate(CurrentMemoryContext, "cdc_apply scout",
										   ALLOCSET_DEFAULT_SIZES);
	scout->parent = InvalidBuffer;
	scout->at = at = palloc0(sizeof(BTScanInsertData));
	_bt_metaversion(scout->index, &at->heapkeyspace, &at->allequalimage);
	at->keysz = target->nkeys;
	for (int c = 0; c < target->nkeys; c++)
		ScanKeyEntryInitializeWithInfo(&at->scankeys[c],
									   scout->index->rd_indoption[c] << SK_BT_INDOPTION_SHIFT,
									   c + 1, InvalidStrategy, InvalidOid,
									   scout->index->rd_indcollation[c],
									   index_getprocinfo(scout->index, c + 1, BTORDER_PROC),
									   (Datum) 0);
	return scout;
}

static void
drop_parent(CdcScout *scout)
{
	if (BufferIsValid(scout->parent))
		ReleaseBuffer(scout->parent);
	scout->parent = InvalidBuffer;
}

/* A pass over the winners begins, or the last one has ended. */
void
cdc_scout_rewind(CdcScout *scout)
{
	drop_parent(scout);
	scout->n = scout->next = scout->wait = 0;
}

/* ---------- down to the leaves ---------- */

static void
set_key(CdcScout *scout, const ScoutKey *key)
{
	for (int i = 0; i < scout->nkeys; i++)
		scout->at->scankeys[i].sk_argument = key->keys[i];
}

/* The child of an inner page, which is locked, where the key would be. */
static BlockNumber
child_of(CdcScout *scout, Page page)
{
	OffsetNumber low = P_FIRSTDATAKEY(BTPageGetOpaque(page));
	OffsetNumber high = PageGetMaxOffsetNumber(page) + 1;
	OffsetNumber first = low;

	while (high > low)
	{
		OffsetNumber mid = low + (high - low) / 2;

		if (_bt_compare(scout->index, scout->at, page, mid) > 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == first)
		return InvalidBlockNumber;
	return BTreeTupleGetDownLink((IndexTuple)
								 PageGetItem(page, PageGetItemId(page, OffsetNumberPrev(low))));
}

/* Does the key stand on a child of this page, which is locked?  Keys only go up. */
static bool
is_parent(CdcScout *scout, Page page)
{
	BTPageOpaque opaque = BTPageGetOpaque(page);

	return !P_IGNORE(opaque) && opaque->btpo_level == 1 &&
		(P_RIGHTMOST(opaque) || _bt_compare(scout->index, scout->at, page, P_HIKEY) <= 0);
}

/* The leaf where the key would be, or none where the way there is not clear. */
static BlockNumber
find_leaf(CdcScout *scout)
{
	Buffer		buf = scout->parent;
	BlockNumber leaf;

	if (BufferIsValid(buf))
	{
		_bt_lockbuf(scout->index, buf, BT_READ);
		if (is_parent(scout, BufferGetPage(buf)))
		{
			leaf = child_of(scout, BufferGetPage(buf));
			LockBuffer(buf, BUFFER_LOCK_UNLOCK);
			return leaf;
		}
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
		drop_parent(scout);
	}
	buf = cdc_bt_getroot(scout->index, scout->heap);
	for (uint32 level = PG_UINT32_MAX; BufferIsValid(buf);)
	{
		Page		page = BufferGetPage(buf);
		BTPageOpaque opaque = BTPageGetOpaque(page);

		if (P_IGNORE(opaque) || opaque->btpo_level >= level)
			break;
		level = opaque->btpo_level;
		if (level == 0)
		{
			/* there is nothing above it */
			leaf = BufferGetBlockNumber(buf);
			_bt_relbuf(scout->index, buf);
			return leaf;
		}
		leaf = child_of(scout, page);
		if (level == 1)
		{
			LockBuffer(buf, BUFFER_LOCK_UNLOCK);
			scout->parent = buf;
			return leaf;
		}
		if (!BlockNumberIsValid(leaf))
			break;
		buf = _bt_relandgetbuf(scout->index, buf, leaf, BT_READ);
	}
	if (BufferIsValid(buf))
		_bt_relbuf(scout->index, buf);
	return InvalidBlockNumber;
}

/* Pin the leaf page of each key, and ask for its ends, which say what it has. */
static void
take_leaves(CdcScout *scout)
{
	BlockNumber last = InvalidBlockNumber;

	for (int i = 0; i < scout->n; i++)
	{
		ScoutKey   *key = &scout->group[i];
		BlockNumber leaf;
		Page		page;

		set_key(scout, key);
		leaf = find_leaf(scout);
		if (!BlockNumberIsValid(leaf))
			continue;
		if (leaf == last && BufferIsValid(key[-1].leaf))
		{
			key->same = true;
			key->leaf = key[-1].leaf;
			IncrBufferRefCount(key->leaf);
			continue;
		}
		last = leaf;
		key->leaf = ReadBuffer(scout->index, leaf);
		page = BufferGetPage(key->leaf);
		cdc_prefetch(page);
		cdc_prefetch((char *) page + BLCKSZ - sizeof(BTPageOpaqueData));
	}
}

/* ---------- in the leaves ---------- */

static void
leave(ScoutKey *key)
{
	ReleaseBuffer(key->leaf);
	key->leaf = InvalidBuffer;
}

static inline OffsetNumber
middle(const ScoutKey *key)
{
	return key->low + (key->high - key->low) / 2;
}

/* Ask for the line pointer of the entry that comes next. */
static inline void
ask_item(const ScoutKey *key)
{
	cdc_prefetch(PageGetItemId(BufferGetPage(key->leaf), middle(key)));
}

static void
enter_leaf(CdcScout *scout, ScoutKey *key)
{
	Page		page = BufferGetPage(key->leaf);
	BTPageOpaque opaque;

	_bt_lockbuf(scout->index, key->leaf, BT_READ);
	_bt_checkpage(scout->index, key->leaf);
	opaque = BTPageGetOpaque(page);
	key->low = key->high = InvalidOffsetNumber;
	if (P_ISLEAF(opaque) && !P_IGNORE(opaque))
	{
		key->low = P_FIRSTDATAKEY(opaque);
		key->high = PageGetMaxOffsetNumber(page) + 1;
	}
	LockBuffer(key->leaf, BUFFER_LOCK_UNLOCK);
	if (key->low >= key->high)
		leave(key);
	else
		ask_item(key);
}

/*
 * An entry with the key: where it leads, if there may be a row.  Of several
 * TIDs the last is the newest version's, unless that took the room of a dead row.
 */
static void
take_entry(ItemPointer found, IndexTuple entry)
{
	ItemPointer tid = BTreeTupleGetMaxHeapTID(entry);

	if (ItemPointerIsValid(tid) && ItemPointerGetOffsetNumber(tid) <= MaxHeapTuplesPerPage)
		*found = *tid;
}

/* Compare a key with the entry that has been asked for. */
static void
compare_entry(CdcScout *scout, ScoutKey *key, ItemPointer found)
{
	Page		page = BufferGetPage(key->leaf);
	OffsetNumber mid = middle(key);
	bool		over;

	set_key(scout, key);
	_bt_lockbuf(scout->index, key->leaf, BT_READ);
	/* it may be another page than it was */
	over = mid > PageGetMaxOffsetNumber(page) || !P_ISLEAF(BTPageGetOpaque(page)) ||
		P_IGNORE(BTPageGetOpaque(page)) || mid < P_FIRSTDATAKEY(BTPageGetOpaque(page));
	if (!over)
	{
		ItemId		item = PageGetItemId(page, mid);
		int			cmp = _bt_compare(scout->index, scout->at, page, mid);

		if (cmp == 0 && !ItemIdIsDead(item))
			take_entry(found, (IndexTuple) PageGetItem(page, item));
		/* an update leaves more than one entry of a key: the last one is wanted */
		if (cmp >= 0)
			key->low = mid + 1;
		else
			key->high = mid;
	}
	LockBuffer(key->leaf, BUFFER_LOCK_UNLOCK);
	if (over || key->low >= key->high)
		leave(key);
	else
		ask_item(key);
}

static void
search_leaves(CdcScout *scout)
{
	int			left = 0;

	for (int i = 0; i < scout->n; i++)
		if (BufferIsValid(scout->group[i].leaf))
		{
			enter_leaf(scout, &scout->group[i]);
			left++;
		}
	while (left > 0)
	{
		left = 0;
		for (int i = 0; i < scout->n; i++)
		{
			ScoutKey   *key = &scout->group[i];
			Page		page;

			if (!BufferIsValid(key->leaf))
				continue;
			/* read without a lock: no more than a hint comes of it */
			page = BufferGetPage(key->leaf);
			cdc_prefetch((char *) page + ItemIdGetOffset(PageGetItemId(page, middle(key))));
		}
		for (int i = 0; i < scout->n; i++)
			if (BufferIsValid(scout->group[i].leaf))
			{
				compare_entry(scout, &scout->group[i], &scout->found[i]);
				left++;
			}
	}
}

/* Are the keys near to each other in the index? */
static bool
are_near(const CdcScout *scout)
{
	int			entries = 0;

	for (int i = 0; i < scout->n; i++)
	{
		const ScoutKey *key = &scout->group[i];

		if (key->same)
			entries += key->low - key[-1].low;
		else if (i > 0)
			entries += 2 * CDC_SCOUT_ENTRIES;
	}
	return entries < CDC_SCOUT_ENTRIES * scout->n;
}

/* ---------- in the table ---------- */

/* Ask for the rows that were found; on how many pages are they? */
static int
ask_rows(CdcScout *scout)
{
	BlockNumber last = InvalidBlockNumber;
	int			pages = 0;

	for (int i = 0; i < scout->n; i++)
	{
		ScoutKey   *key = &scout->group[i];
		ItemPointer tid = &scout->found[i];
		Page		page;

		key->page = InvalidBuffer;
		if (!ItemPointerIsValid(tid))
			continue;
		if (ItemPointerGetBlockNumber(tid) == last && BufferIsValid(key[-1].page))
		{
			key->page = key[-1].page;
			IncrBufferRefCount(key->page);
		}
		else
		{
			key->page = ReadBuffer(scout->heap, ItemPointerGetBlockNumber(tid));
			pages++;
		}
		last = ItemPointerGetBlockNumber(tid);
		page = BufferGetPage(key->page);
		cdc_prefetch(page);
		cdc_prefetch(PageGetItemId(page, ItemPointerGetOffsetNumber(tid)));
	}
	for (int i = 0; i < scout->n; i++)
	{
		ScoutKey   *key = &scout->group[i];
		Page		page;
		char	   *row;

		if (!BufferIsValid(key->page))
			continue;
		page = BufferGetPage(key->page);
		row = (char *) page +
			ItemIdGetOffset(PageGetItemId(page, ItemPointerGetOffsetNumber(&scout->found[i])));
		cdc_prefetch(row);
		cdc_prefetch(row + 64);
		ReleaseBuffer(key->page);
	}
	return pages;
}

/* ---------- a group ---------- */

/* Take the winner in hand and those behind it. */
static void
take_group(CdcScout *scout, CdcWriter *w)
{
	const CdcEvent *ev;

	/* the key stands at the begin of an event */
	for (int i = 0; i < scout->size && (ev = cdc_fold_ahead(w->fold, i - 1)) != NULL; i++)
	{
		cdc_prefetch(ev);
		cdc_prefetch((const char *) ev + 64);
	}
	scout->n = scout->next = 0;
	while (scout->n < scout->size && (ev = cdc_fold_ahead(w->fold, scout->n - 1)) != NULL)
	{
		ScoutKey   *key = &scout->group[scout->n];
		bool		isnull;

		key->leaf = InvalidBuffer;
		key->same = false;
		key->keys = palloc(sizeof(Datum) * scout->nkeys);
		for (int k = 0; k < scout->nkeys; k++)
		{
			key->keys[k] = cdc_event_value(w->cols, ev, k + 1, &isnull);
			/* it is compared many times, under a lock */
			if (w->target->keys[k].typlen == -1)
				key->keys[k] = PointerGetDatum(PG_DETOAST_DATUM_PACKED(key->keys[k]));
		}
		ItemPointerSetInvalid(&scout->found[scout->n]);
		scout->n++;
	}
}

static void
look(CdcScout *scout, CdcWriter *w)
{
	MemoryContext old = MemoryContextSwitchTo(scout->context);

	take_group(scout, w);
	take_leaves(scout);
	search_leaves(scout);
	scout->dense = ask_rows(scout) * CDC_SCOUT_ROWS_PER_PAGE <= scout->n && are_near(scout);
	MemoryContextSwitchTo(old);
	MemoryContextReset(scout->context);
}

/* The group has had its turn: look for the next one, or leave some to the probe? */
static void
go_on(CdcScout *scout, CdcWriter *w, int met)
{
	if (scout->n > 0 && cdc_debug_scout < 0 && (scout->dense || met * 2 < scout->n))
	{
		scout->n = scout->next = 0;
		scout->wait = scout->interval;
		scout->interval = Min(scout->interval * 2, CDC_SCOUT_WAIT_MAX);
		return;
	}
	if (scout->n > 0)
		scout->interval = CDC_SCOUT_WAIT;
	look(scout, w);
	/* which winners come next may not be known */
	if (scout->n == 0)
		scout->wait = CDC_SCOUT_WAIT_MAX;
}

/* A winner's turn has come: say where its row may be, if that is known. */
void
cdc_scout_step(CdcWriter *w)
{
	CdcScout   *scout = w->scout;
	CdcProbe   *probe = w->target->leaf->probe;

	if (scout->wait > 0)
		scout->wait--;
	else if (scout->next >= scout->n)
		go_on(scout, w, cdc_probe_met(probe));
	cdc_probe_expect(probe, scout->next < scout->n ? &scout->found[scout->next++] : NULL);
}
