/*-------------------------------------------------------------------------
 *
 * cdc_fold.c
 *		One winner per key out of a batch of events.
 *
 * A hash table by key holds the greatest event met so far.  Losers are not
 * copied, with one exception: an event whose values may still be needed
 * stays below the winner in a chain of falling rank (see cdc_chain.c).
 *
 * What does not fit into memory goes to cdc_spill.c: the table is emptied into
 * a sort by key, as often as need be, and at the end the winners come out of
 * the sort.  Events that come in key order need neither (cdc_ordered.c).
 * How events of one key stand to each other is in cdc_chain.c.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "cdc_fold.h"

/* A key of the table; what is looked up is fold->probe. */
typedef struct FoldKey
{
	CdcEvent   *top;
	Datum		first;			/* its first column */
} FoldKey;

typedef struct FoldEntry
{
	FoldKey		key;
	uint32		hash;
	char		status;
	bool		kills;			/* key.top does */
} FoldEntry;

static inline bool probe_matches(CdcFold *fold, FoldKey key);
static uint32 probe_hash(CdcFold *fold);

struct fold_hash;
static void *fold_allocate(struct fold_hash *table, Size size);
static void fold_free(struct fold_hash *table, void *pointer);

#define SH_PREFIX fold
#define SH_ELEMENT_TYPE FoldEntry
#define SH_KEY_TYPE FoldKey
#define SH_KEY key
#define SH_HASH_KEY(tb, key) probe_hash((CdcFold *) (tb)->private_data)
#define SH_EQUAL(tb, a, b) probe_matches((CdcFold *) (tb)->private_data, a)
#define SH_SCOPE static inline
#define SH_STORE_HASH
#define SH_USE_NONDEFAULT_ALLOCATOR
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* The memory of the table's entries, zeroed. */
static void *
fold_allocate(struct fold_hash *table, Size size)
{
	return memset(cdc_fold_alloc((CdcFold *) table->private_data, size), 0, size);
}

static void
fold_free(struct fold_hash *table, void *pointer)
{
	pfree(pointer);
}

int			cdc_debug_fold_events = 0;

/* Entries to start with; the table grows by doubling. */
#define CDC_FOLD_START	1024

/* Winners are asked for so many ahead of their turn. */
#define CDC_WINNERS_AHEAD	8

/* Winners from disk that are kept together at most. */
#define CDC_KEEP_BYTES	(1024 * 1024)

/* What a sort needs at least, as for work_mem. */
#define CDC_SORT_MIN_KB	64

/* A winner while winners are brought into key order. */
typedef struct SortItem
{
	Datum		first;			/* the first key column, to compare without the tuple */
	uintptr_t	winner;			/* the event; its last bit says whether it kills */
} SortItem;

#define ITEM_EVENT(item)	((CdcEvent *) ((item)->winner & ~(uintptr_t) 1))
#define ITEM_KILLS(item)	(((item)->winner & 1) != 0)

/* ---------- keys ---------- */

/* Is it an event of this key? */
bool
cdc_fold_matches(CdcFold *fold, const CdcEvent *ev, const Datum *keys)
{
	for (int i = 0; i < fold->target->nkeys; i++)
	{
		bool		isnull;

		if (!cdc_key_equal(&fold->target->keys[i],
								cdc_event_value(fold->cols, ev, i + 1, &isnull), keys[i]))
			return false;
	}
	return true;
}

/* A key of one value is compared where it is, without its event. */
static inline bool
probe_matches(CdcFold *fold, FoldKey key)
{
	if (fold->by_value)
		return key.first == fold->probe[0];
	return cdc_fold_matches(fold, key.top, fold->probe);
}

/* The hash of a key; equal keys have equal hashes. */
uint32
cdc_fold_hash(CdcFold *fold, const Datum *keys)
{
	uint32		hash;

	if (fold->by_value)
		return cdc_key_hash_value(keys[0]);
	hash = cdc_key_hash(&fold->target->keys[0], keys[0]);
	for (int i = 1; i < fold->target->nkeys; i++)
		hash = hash_combine(hash, cdc_key_hash(&fold->target->keys[i], keys[i]));
	return murmurhash32(hash);
}

static uint32
probe_hash(CdcFold *fold)
{
	return cdc_fold_hash(fold, fold->probe);
}

/* ---------- keeping events ---------- */

static void
make_table(CdcFold *fold)
{
	fold->table = fold_create(fold->context, CDC_FOLD_START, fold);
	fold->kept = 0;
}

/* Empty the table into the spill. */
static void
spill_table(CdcFold *fold)
{
	fold_iterator it;
	FoldEntry  *entry;

	if (fold->spill == NULL)
		fold->spill = cdc_spill_create(fold);
	fold_start_iterate(fold->table, &it);
	while ((entry = fold_iterate(fold->table, &it)) != NULL)
		cdc_spill_put_chain(fold, entry->key.top);
	cdc_event_free_all(fold);
	fold->table = NULL;
}

/*
 * Would one more event take the fold beyond its memory?  What is yet to come
 * counts: the table doubles beside itself, and at the end winners are sorted.
 */
static bool
is_full(const CdcFold *fold)
{
	const struct fold_hash *table = fold->table;
	Size		used = MemoryContextMemAllocated(fold->context, false) +
		table->members * sizeof(SortItem);

	if (table->members >= table->grow_threshold)
		used += 2 * table->size * sizeof(FoldEntry);
	return used > fold->limit ||
		(cdc_debug_fold_events > 0 && fold->kept >= cdc_debug_fold_events);
}

static void
offer_one(CdcFold *fold, CdcIncoming *in, const Datum *keys)
{
	FoldKey		probe = {NULL, keys[0]};
	FoldEntry  *entry;
	bool		found;

	if (is_full(fold))
	{
		spill_table(fold);
		make_table(fold);
	}
	fold->probe = keys;
	entry = fold_insert(fold->table, probe, &found);
	cdc_chain_offer(fold, &entry->key.top, in);
	entry->kills = cdc_event_kills(entry->key.top);
}

/*
 * Offer an event.  What is needed of it is copied.  A key move is offered
 * twice: under its key, and as the delete of its old key, which is not
 * counted and ranks below an upsert there.
 */
void
cdc_fold_offer(CdcFold *fold, CdcIncoming *in)
{
	CdcColumns *cols = fold->cols;
	CdcIncoming gone;

	fold->counted++;
	if (fold->in_order)
		cdc_ordered_offer(fold, in, in->values);
	else
		offer_one(fold, in, in->values);
	if ((in->flags & CDC_EVENT_MOVES) == 0)
		return;

	cdc_incoming_complete(in);
	gone = *in;
	gone.class = CDC_RETRACTION;
	gone.flags = CDC_EVENT_MOVED_AWAY | (in->gaps != NULL ? CDC_EVENT_PROTECT : 0);
	gone.gaps = NULL;
	gone.row = NULL;
	gone.as_read = NULL;
	gone.tuple = NULL;
	gone.complete = NULL;
	gone.values = fold->move_values;
	gone.isnull = fold->move_isnull;
	memset(gone.isnull, true, sizeof(bool) * cols->nevent);
	for (int i = 0; i < cols->nkeys; i++)
	{
		gone.values[i] = in->values[cols->nkeys + cols->ncols + i];
		gone.isnull[i] = false;
	}
	offer_one(fold, &gone, gone.values);
}

/* ---------- the result ---------- */

CdcFold *
cdc_fold_create(CdcTarget *target, CdcColumns *cols, const CdcRule *rule)
{
	CdcFold    *fold = palloc0(sizeof(CdcFold));
	bool		gaps = cols->unchanged_attno != 0 || cols->absent_attno != 0 || rule->ignore_nulls;

	fold->target = target;
	fold->cols = cols;
	fold->rule = rule;
	fold->context = AllocSetContextCreate(CurrentMemoryContext, "cdc_apply events",
										  ALLOCSET_DEFAULT_SIZES);
	fold->call_context = CurrentMemoryContext;
	/* while the table is emptied into a sort, both hold memory */
	fold->sort_kb = Min(work_mem, (int) Min(get_hash_memory_limit() / 1024 / 4, INT_MAX));
	fold->sort_kb = Max(fold->sort_kb, CDC_SORT_MIN_KB);
	fold->limit = get_hash_memory_limit() - Min(fold->sort_kb * (Size) 1024, get_hash_memory_limit() / 2);
	make_table(fold);
	fold->gap_bytes = cdc_gap_bytes(cols) * (cols->absent_attno != 0 ? 2 : 1);
	fold->missing = palloc0(fold->gap_bytes + 1);
	fold->move_values = palloc0(sizeof(Datum) * cols->nevent);
	fold->move_isnull = palloc0(sizeof(bool) * cols->nevent);
	for (int i = 0; i < cols->ncols; i++)
	{
		fold->casts |= cols->cols[i].cast != NULL;
		gaps |= cols->cols[i].nmarkers > 0;
	}
	fold->keep_all = cols->nold > 0 && gaps;
	fold->in_order = cdc_rule_is_snapshot(rule);
	fold->by_value = target->nkeys == 1 && target->keys[0].image == CDC_KEY_BY_VALUE;
	return fold;
}

/* The events kept for a key, or NULL. */
CdcEvent *
cdc_fold_lookup(CdcFold *fold, const Datum *keys)
{
	FoldKey		probe = {NULL, keys[0]};
	FoldEntry  *entry;

	if (fold->spill != NULL)
		return cdc_spill_lookup(fold, keys);
	fold->probe = keys;
	entry = fold_lookup(fold->table, probe);
	return entry != NULL ? entry->key.top : NULL;
}

/* Hints: the table's entry for a hash, and the event that leads there. */
void
cdc_fold_prefetch_entry(CdcFold *fold, uint32 hash)
{
	cdc_prefetch(&fold->table->data[hash & fold->table->sizemask]);
}

void
cdc_fold_prefetch_event(CdcFold *fold, uint32 hash)
{
	uint32		bucket = hash & fold->table->sizemask;
	const FoldEntry *entry = &fold->table->data[bucket];

	/* it may have been put off a little */
	for (int i = 0; entry->hash != hash; i++)
	{
		if (i == 4 || entry->status != fold_SH_IN_USE)
			return;
		bucket = (bucket + 1) & fold->table->sizemask;
		entry = &fold->table->data[bucket];
	}
	if (entry->status != fold_SH_IN_USE)
		return;
	/* its head and what a row of common size takes */
	cdc_prefetch(entry->key.top);
	cdc_prefetch((char *) entry->key.top + 64);
	cdc_prefetch((char *) entry->key.top + 128);
}

int64
cdc_fold_counted(CdcFold *fold)
{
	return fold->counted;
}

static int
compare_keys(const SortItem *x, const SortItem *y, CdcFold *fold)
{
	int			cmp = ApplySortComparator(x->first, false, y->first, false,
										  &fold->target->keys[0].sort);

	for (int i = 1; i < fold->target->nkeys && cmp == 0; i++)
	{
		bool		isnull;

		cmp = ApplySortComparator(cdc_event_value(fold->cols, ITEM_EVENT(x), i + 1, &isnull), false,
								  cdc_event_value(fold->cols, ITEM_EVENT(y), i + 1, &isnull), false,
								  &fold->target->keys[i].sort);
	}
	return cmp;
}

/* Sorts by a first column that is a signed number, or by any key. */
#define ST_SORT sort_numbers
#define ST_ELEMENT_TYPE SortItem
#define ST_COMPARE(a, b) \
	(((int64) (a)->first > (int64) (b)->first) - ((int64) (a)->first < (int64) (b)->first))
#define ST_SCOPE static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DEFINE
#include "lib/sort_template.h"

#define ST_SORT sort_keys
#define ST_ELEMENT_TYPE SortItem
#define ST_COMPARE_ARG_TYPE CdcFold
#define ST_COMPARE(a, b, fold) compare_keys(a, b, fold)
#define ST_SCOPE static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DEFINE
#include "lib/sort_template.h"

static void
settle(CdcFold *fold)
{
	CdcEvent  **buried = NULL;
	int64		room = 0;
	fold_iterator it;
	FoldEntry  *entry;

	fold_start_iterate(fold->table, &it);
	while ((entry = fold_iterate(fold->table, &it)) != NULL)
		cdc_chain_settle(fold, entry->key.top, &buried, &room);
}

/* Bring the winners of the table into the order of the key index. */
static void
sort_winners(CdcFold *fold)
{
	int64		n = fold->table->members;
	CdcKey	   *key = &fold->target->keys[0];
	SortItem   *items;
	fold_iterator it;
	FoldEntry  *entry;
	int64		nkills = 0;
	int64		i = 0;
	bool		isnull;

	items = MemoryContextAllocHuge(fold->context, sizeof(SortItem) * (n + 1));
	fold_start_iterate(fold->table, &it);
	while ((entry = fold_iterate(fold->table, &it)) != NULL)
	{
		items[i].winner = (uintptr_t) entry->key.top | (entry->kills ? 1 : 0);
		nkills += entry->kills ? 1 : 0;
		items[i++].first = fold->by_value ? entry->key.first :
			cdc_event_value(fold->cols, entry->key.top, 1, &isnull);
	}
	if (fold->by_value && !key->sort.ssup_reverse &&
		(key->sort.comparator == ssup_datum_signed_cmp ||
		 key->sort.comparator == ssup_datum_int32_cmp))
		sort_numbers(items, n);
	else
		sort_keys(items, n, fold);

	/* the pointers take half of each item, so they can move down in place */
	fold->winners[false] = (CdcEvent **) items;
	fold->winners[true] = MemoryContextAllocHuge(fold->context, sizeof(CdcEvent *) * (nkills + 1));
	for (i = 0; i < n; i++)
	{
		bool		kills = ITEM_KILLS(&items[i]);

		fold->winners[kills][fold->nwinners[kills]++] = ITEM_EVENT(&items[i]);
	}
}

/* All events have been offered. */
void
cdc_fold_finish(CdcFold *fold)
{
	if (fold->in_order)
		cdc_ordered_finish(fold);
	else if (fold->spill != NULL)
	{
		spill_table(fold);
		cdc_spill_finish(fold);
	}
	else
	{
		if (fold->keep_all)
			settle(fold);
		sort_winners(fold);
	}
}

/* Begin with the first winner that kills, or with the first of the others. */
void
cdc_fold_rewind(CdcFold *fold, bool kills)
{
	if (fold->spill != NULL)
		cdc_spill_rewind(fold);
	fold->kills = kills;
	fold->next = 0;
}

/*
 * The next winner in the order of the key index, NULL after the last.  From
 * disk come those of both kinds.  It is good until the next call; keep: those
 * given out before are still needed too.
 */
CdcEvent *
cdc_fold_next(CdcFold *fold, bool keep)
{
	CdcEvent  **winners = fold->winners[fold->kills];
	int64		n = fold->nwinners[fold->kills];

	if (fold->spill != NULL)
		return cdc_spill_next(fold, keep);
	if (fold->next + CDC_WINNERS_AHEAD < n)
	{
		cdc_prefetch(winners[fold->next + CDC_WINNERS_AHEAD]);
		cdc_prefetch((char *) winners[fold->next + CDC_WINNERS_AHEAD] + 64);
	}
	return fold->next < n ? winners[fold->next++] : NULL;
}

/*
 * The winner of a key, keys being asked for in the index's order; or, *same false, the
 * next one before it, of a key that only a key move knows.  keys NULL: what is left of those.
 */
CdcEvent *
cdc_fold_winner(CdcFold *fold, const Datum *keys, bool *same)
{
	CdcEvent   *ev;

	*same = false;
	if (fold->spill != NULL)
	{
		ev = cdc_spill_next(fold, false);
		*same = ev != NULL && keys != NULL && cdc_fold_matches(fold, ev, keys);
		return ev;
	}
	for (int kills = 0; kills < 2 && keys != NULL; kills++)
	{
		int64		n = fold->passed[kills];

		if (n == fold->nwinners[kills] || !cdc_fold_matches(fold, fold->winners[kills][n], keys))
			continue;
		*same = true;
		return fold->winners[kills][fold->passed[kills]++];
	}
	if (fold->passed[true] == fold->nwinners[true])
		return NULL;
	return fold->winners[true][fold->passed[true]++];
}

/* The winner so many places after the next, NULL where it is not known. */
const CdcEvent *
cdc_fold_ahead(CdcFold *fold, int64 n)
{
	if (fold->spill != NULL || fold->next + n >= fold->nwinners[fold->kills])
		return NULL;
	return fold->winners[fold->kills][fold->next + n];
}

/* Do winners that come from disk and are kept take much memory? */
bool
cdc_fold_keeps_much(const CdcFold *fold)
{
	return fold->spill != NULL &&
		MemoryContextMemAllocated(fold->context, false) > CDC_KEEP_BYTES;
}

void
cdc_fold_end(CdcFold *fold)
{
	if (fold->spill != NULL)
		cdc_spill_end(fold);
}
