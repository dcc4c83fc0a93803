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
 * the sort.
 *
 * How events of one key stand to each other is in cdc_chain.c.
 * Reading is in cdc_read.c, judging and writing in cdc_write.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "cdc_fold.h"

typedef struct FoldEntry
{
	CdcEvent   *top;
	uint32		hash;
	char		status;
} FoldEntry;


static bool probe_matches(CdcFold *fold, const CdcEvent *ev);
static uint32 probe_hash(CdcFold *fold);

#define SH_PREFIX fold
#define SH_ELEMENT_TYPE FoldEntry
#define SH_KEY_TYPE CdcEvent *
#define SH_KEY top
#define SH_HASH_KEY(tb, key) probe_hash((CdcFold *) (tb)->private_data)
#define SH_EQUAL(tb, a, b) probe_matches((CdcFold *) (tb)->private_data, a)
#define SH_SCOPE static inline
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

int			cdc_debug_fold_events = 0;

/* Entries to start with; the table grows by doubling. */
#define CDC_FOLD_START	1024

/* What a sort needs at least, as for work_mem. */
#define CDC_SORT_MIN_KB	64

/* A winner while winners are brought into key order. */
typedef struct SortItem
{
	Datum		first;			/* the first key column, to compare without the tuple */
	CdcEvent   *ev;
} SortItem;

/* ---------- keys ---------- */

/* Attribute attno of a kept event, as it stands in its tuple. */
Datum
cdc_event_value(const CdcColumns *cols, const CdcEvent *ev, int attno, bool *isnull)
{
	HeapTupleData tuple;

	tuple.t_len = ev->tuple->t_len + MINIMAL_TUPLE_OFFSET;
	tuple.t_data = (HeapTupleHeader) ((char *) ev->tuple - MINIMAL_TUPLE_OFFSET);
	return heap_getattr(&tuple, attno, cols->event_desc, isnull);
}

/* Is it an event of this key? */
bool
cdc_fold_matches(CdcFold *fold, const CdcEvent *ev, const Datum *keys)
{
	for (int i = 0; i < fold->target->nkeys; i++)
	{
		CdcKey	   *key = &fold->target->keys[i];
		bool		isnull;
		Datum		value = cdc_event_value(fold->cols, ev, i + 1, &isnull);

		if (!DatumGetBool(FunctionCall2Coll(&key->equal, key->collation, value, keys[i])))
			return false;
	}
	return true;
}

static bool
probe_matches(CdcFold *fold, const CdcEvent *ev)
{
	return cdc_fold_matches(fold, ev, fold->probe);
}

/* The hash of a key; equal keys have equal hashes. */
uint32
cdc_fold_hash(CdcFold *fold, const Datum *keys)
{
	uint32		hash = 0;

	for (int i = 0; i < fold->target->nkeys; i++)
	{
		CdcKey	   *key = &fold->target->keys[i];
		uint32		h = 0;

		if (OidIsValid(key->hash.fn_oid))
			h = DatumGetUInt32(FunctionCall1Coll(&key->hash, key->collation, keys[i]));
		else if (key->hash_image)
			h = datum_image_hash(keys[i], key->typbyval, key->typlen);
		hash = hash_combine(hash, h);
	}
	return murmurhash32(hash);
}

static uint32
probe_hash(CdcFold *fold)
{
	return cdc_fold_hash(fold, fold->probe);
}

/* ---------- keeping events ---------- */

static CdcEvent *
make_event(CdcFold *fold, const CdcIncoming *in)
{
	MemoryContext old = MemoryContextSwitchTo(fold->context);
	int			gaps = in->gaps != NULL ? fold->gap_bytes : 0;
	CdcEvent   *ev = palloc(offsetof(CdcEvent, pos) + in->pos->len + gaps);

	ev->older = NULL;
	ev->tied = NULL;
	ev->class = in->class;
	ev->flags = in->flags | (gaps > 0 ? CDC_EVENT_GAPS : 0);
	ev->poslen = in->pos->len;
	memcpy(ev->pos, in->pos->bytes, in->pos->len);
	if (gaps > 0)
		memcpy(cdc_event_gaps(ev), in->gaps, gaps);
	if (in->tuple != NULL)
	{
		ev->tuple = palloc(in->tuple->t_len);
		memcpy(ev->tuple, in->tuple, in->tuple->t_len);
	}
	else
		ev->tuple = cdc_form_minimal_tuple(fold->cols->event_desc, in->values, in->isnull);
	fold->kept++;
	MemoryContextSwitchTo(old);
	return ev;
}

/* Put an event that does not lead into the chain under top. */
static void
insert_below(CdcFold *fold, CdcEvent *top, const CdcIncoming *in)
{
	CdcEvent  **link = &top->older;
	CdcEvent   *ev;
	int			cmp = 1;

	if (fold->keep_all)
	{
		ev = make_event(fold, in);
		ev->older = top->older;
		top->older = ev;
		return;
	}
	while (*link != NULL && (cmp = cdc_chain_compare(in, *link)) < 0)
		link = &(*link)->older;
	ev = make_event(fold, in);
	if (*link != NULL && cmp == 0)
		*link = cdc_chain_tie(fold, *link, ev);
	else
	{
		ev->older = *link;
		*link = ev;
	}
	cdc_chain_prune(fold, top);
}

/* Offer an event to the events of its key, of which *top leads; NULL: none. */
void
cdc_fold_offer_to(CdcFold *fold, CdcEvent **topp, const CdcIncoming *in)
{
	CdcEvent   *top = *topp;
	CdcEvent   *ev;
	int			cmp;

	if (top == NULL)
	{
		*topp = make_event(fold, in);
		return;
	}
	cmp = cdc_chain_compare(in, top);
	if (cmp > 0)
	{
		ev = make_event(fold, in);
		if (in->class == CDC_UPSERT && top->class == CDC_DELETE && cdc_chain_same_place(in, top))
			ev->flags |= CDC_EVENT_TIED_DELETE;
		ev->older = top;
		*topp = ev;
		if (!fold->keep_all)
			cdc_chain_prune(fold, ev);
	}
	else if (cmp == 0)
	{
		*topp = cdc_chain_tie(fold, top, make_event(fold, in));
		if (*topp != top && !fold->keep_all)
			cdc_chain_prune(fold, *topp);
	}
	else
	{
		if (in->class == CDC_DELETE && top->class == CDC_UPSERT && cdc_chain_same_place(in, top))
			top->flags |= CDC_EVENT_TIED_DELETE;
		if (!fold->keep_all && top->older == NULL && !cdc_event_kills(top) &&
			(top->flags & CDC_EVENT_GAPS) == 0)
			return;
		insert_below(fold, top, in);
	}
}

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
		cdc_spill_put_chain(fold, entry->top);
	MemoryContextReset(fold->context);
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
offer_one(CdcFold *fold, const CdcIncoming *in, const Datum *keys)
{
	FoldEntry  *entry;
	bool		found;

	if (is_full(fold))
	{
		spill_table(fold);
		make_table(fold);
	}
	fold->probe = keys;
	entry = fold_insert(fold->table, NULL, &found);
	if (!found)
		entry->top = NULL;
	cdc_fold_offer_to(fold, &entry->top, in);
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
	offer_one(fold, in, in->values);
	if ((in->flags & CDC_EVENT_MOVES) == 0)
		return;

	gone = *in;
	gone.class = CDC_RETRACTION;
	gone.flags = CDC_EVENT_MOVED_AWAY | (in->gaps != NULL ? CDC_EVENT_PROTECT : 0);
	gone.gaps = NULL;
	gone.tuple = NULL;
	gone.values = fold->move_values;
	gone.isnull = fold->move_isnull;
	memset(gone.isnull, true, sizeof(bool) * cols->event_desc->natts);
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
	bool		gaps = cols->unchanged_attno != 0 || rule->ignore_nulls;

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
	fold->gap_bytes = (cols->ncols + 7) / 8;
	fold->missing = palloc0(fold->gap_bytes + 1);
	fold->move_values = palloc0(sizeof(Datum) * cols->event_desc->natts);
	fold->move_isnull = palloc0(sizeof(bool) * cols->event_desc->natts);
	for (int i = 0; i < cols->ncols; i++)
	{
		fold->casts |= cols->cols[i].cast != NULL;
		gaps |= cols->cols[i].nmarkers > 0;
	}
	fold->keep_all = cols->nold > 0 && gaps;
	return fold;
}

/* The events kept for a key, or NULL. */
CdcEvent *
cdc_fold_lookup(CdcFold *fold, const Datum *keys)
{
	FoldEntry  *entry;

	if (fold->spill != NULL)
		return cdc_spill_lookup(fold, keys);
	fold->probe = keys;
	entry = fold_lookup(fold->table, NULL);
	return entry != NULL ? entry->top : NULL;
}

int64
cdc_fold_counted(CdcFold *fold)
{
	return fold->counted;
}

static int
compare_keys(const void *a, const void *b, void *arg)
{
	CdcFold    *fold = (CdcFold *) arg;
	const SortItem *x = (const SortItem *) a;
	const SortItem *y = (const SortItem *) b;
	int			cmp = ApplySortComparator(x->first, false, y->first, false,
										  &fold->target->keys[0].sort);

	for (int i = 1; i < fold->target->nkeys && cmp == 0; i++)
	{
		bool		isnull;

		cmp = ApplySortComparator(cdc_event_value(fold->cols, x->ev, i + 1, &isnull), false,
								  cdc_event_value(fold->cols, y->ev, i + 1, &isnull), false,
								  &fold->target->keys[i].sort);
	}
	CHECK_FOR_INTERRUPTS();
	return cmp;
}

static void
settle(CdcFold *fold)
{
	CdcEvent  **buried = NULL;
	int64		room = 0;
	fold_iterator it;
	FoldEntry  *entry;

	fold_start_iterate(fold->table, &it);
	while ((entry = fold_iterate(fold->table, &it)) != NULL)
		cdc_chain_settle(fold, entry->top, &buried, &room);
}

/* Bring the winners of the table into the order of the key index. */
static void
sort_winners(CdcFold *fold)
{
	int64		n = fold->table->members;
	SortItem   *items;
	fold_iterator it;
	FoldEntry  *entry;
	int64		i = 0;
	bool		isnull;

	items = MemoryContextAllocHuge(fold->context, sizeof(SortItem) * (n + 1));
	fold_start_iterate(fold->table, &it);
	while ((entry = fold_iterate(fold->table, &it)) != NULL)
	{
		items[i].ev = entry->top;
		items[i++].first = cdc_event_value(fold->cols, entry->top, 1, &isnull);
	}
	qsort_arg(items, n, sizeof(SortItem), compare_keys, fold);

	/* the pointers take half of each item, so they can move down in place */
	fold->winners = (CdcEvent **) items;
	for (i = 0; i < n; i++)
		fold->winners[i] = items[i].ev;
	fold->nwinners = n;
}

/* All events have been offered. */
void
cdc_fold_finish(CdcFold *fold)
{
	if (fold->spill != NULL)
	{
		spill_table(fold);
		cdc_spill_finish(fold);
		return;
	}
	if (fold->keep_all)
		settle(fold);
	sort_winners(fold);
}

/* Begin again with the first winner. */
void
cdc_fold_rewind(CdcFold *fold)
{
	if (fold->spill != NULL)
		cdc_spill_rewind(fold);
	fold->next = 0;
}

/*
 * The next winner in the order of the key index, NULL after the last.  It is
 * good until the next call.
 */
CdcEvent *
cdc_fold_next(CdcFold *fold)
{
	if (fold->spill != NULL)
		return cdc_spill_next(fold);
	return fold->next < fold->nwinners ? fold->winners[fold->next++] : NULL;
}

/* Give back what is not memory. */
void
cdc_fold_end(CdcFold *fold)
{
	if (fold->spill != NULL)
		cdc_spill_end(fold);
}
