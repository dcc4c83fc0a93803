/*-------------------------------------------------------------------------
 *
 * cdc_fold.c
 *		One winner per key out of a batch of events.
 *
 * A hash table by key holds the greatest event met so far.  Losers are not
 * copied, with one exception: an event whose values may still be needed
 * stays below the winner in a chain of falling rank (see prune).
 *
 * Rank (I1): position; at the same position an upsert over a delete over a
 * retraction (and the delete that a key move leaves) over a snapshot row; for
 * rows whose position does not count, their own position.  Events of one rank
 * with other images tie: the greater image leads, the others hang on it.
 *
 * I2: a chain is sorted by rank, falling.
 * I3: a lower event is kept only if it carries a column that no kept event
 * above it carries, or stops or turns the search for such a column.
 * I4: where a key move may need values of the old key, any lower event may be
 * needed by a move still to be read.  Then all are kept, unsorted below the
 * top, until reading ends; settle() brings I2 and I3 about.
 *
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

#include "cdc_apply.h"

typedef struct FoldEntry
{
	CdcEvent   *top;
	uint32		hash;
	char		status;
} FoldEntry;

struct CdcFold
{
	CdcTarget  *target;
	CdcColumns *cols;
	const CdcRule *rule;
	MemoryContext context;		/* of everything kept */
	struct fold_hash *table;
	const Datum *probe;			/* key being looked up */
	int64		counted;		/* events offered, without moved-away deletes */
	int			gap_bytes;
	uint8	   *missing;		/* work space of prune */
	bool		casts;			/* some column is converted */
	bool		keep_all;		/* I4 */
	bool		settled;
	Datum	   *move_values;	/* of the delete that a key move leaves */
	bool	   *move_isnull;
};

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

/* Entries to start with; the table grows by doubling. */
#define CDC_FOLD_START	1024

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

static bool
probe_matches(CdcFold *fold, const CdcEvent *ev)
{
	for (int i = 0; i < fold->target->nkeys; i++)
	{
		CdcKey	   *key = &fold->target->keys[i];
		bool		isnull;
		Datum		value = cdc_event_value(fold->cols, ev, i + 1, &isnull);

		if (!DatumGetBool(FunctionCall2Coll(&key->equal, key->collation, value, fold->probe[i])))
			return false;
	}
	return true;
}

static uint32
probe_hash(CdcFold *fold)
{
	uint32		hash = 0;

	for (int i = 0; i < fold->target->nkeys; i++)
	{
		CdcKey	   *key = &fold->target->keys[i];
		uint32		h = 0;

		if (OidIsValid(key->hash.fn_oid))
			h = DatumGetUInt32(FunctionCall1Coll(&key->hash, key->collation, fold->probe[i]));
		else if (key->hash_image)
			h = datum_image_hash(fold->probe[i], key->typbyval, key->typlen);
		hash = hash_combine(hash, h);
	}
	return murmurhash32(hash);
}

/* ---------- rank ---------- */

static int
class_rank(CdcClass class)
{
	switch (class)
	{
		case CDC_UPSERT:
			return 3;
		case CDC_DELETE:
			return 2;
		case CDC_RETRACTION:
			return 1;
		default:
			return 0;
	}
}

static bool
kills(const CdcEvent *ev)
{
	return ev->class == CDC_DELETE || ev->class == CDC_RETRACTION;
}

/* Rank (I1) of an event of this class, flags and position against ev. */
static int
compare_ranks(CdcClass class, uint8 flags, const uint8 *pos, int len, const CdcEvent *ev)
{
	int			placed = (flags & CDC_EVENT_UNPLACED) ? 0 : len;
	int			cmp = cdc_pos_compare(pos, placed, ev->pos, cdc_event_place_len(ev));

	if (cmp == 0)
		cmp = class_rank(class) - class_rank(ev->class);
	if (cmp == 0 && placed == 0)
		cmp = cdc_pos_compare(pos, len, ev->pos, ev->poslen);
	return cmp;
}

static int
compare_rank(const CdcIncoming *in, const CdcEvent *ev)
{
	return compare_ranks(in->class, in->flags, in->pos->bytes, in->pos->len, ev);
}

static bool
same_place(const CdcIncoming *in, const CdcEvent *ev)
{
	int			placed = (in->flags & CDC_EVENT_UNPLACED) ? 0 : in->pos->len;

	return placed > 0 &&
		cdc_pos_compare(in->pos->bytes, placed, ev->pos, cdc_event_place_len(ev)) == 0;
}

/* Order two values of one column by image: NULL lowest, then the bytes. */
static int
compare_value(Datum a, bool anull, Datum b, bool bnull, bool byval, int16 len)
{
	struct varlena *va,
			   *vb;
	int			cmp;

	if (anull || bnull)
		return (int) bnull - (int) anull;
	if (byval)
		return (a > b) - (a < b);
	if (len > 0)
		return memcmp(DatumGetPointer(a), DatumGetPointer(b), len);
	if (len == -2)
		return strcmp(DatumGetCString(a), DatumGetCString(b));
	va = PG_DETOAST_DATUM_PACKED(a);
	vb = PG_DETOAST_DATUM_PACKED(b);
	cmp = memcmp(VARDATA_ANY(va), VARDATA_ANY(vb),
				 Min(VARSIZE_ANY_EXHDR(va), VARSIZE_ANY_EXHDR(vb)));
	if (cmp == 0)
		cmp = (VARSIZE_ANY_EXHDR(va) > VARSIZE_ANY_EXHDR(vb)) -
			(VARSIZE_ANY_EXHDR(va) < VARSIZE_ANY_EXHDR(vb));
	if ((Pointer) va != DatumGetPointer(a))
		pfree(va);
	if ((Pointer) vb != DatumGetPointer(b))
		pfree(vb);
	return cmp;
}

/* Order two events of one key by their applied columns; 0: the same image. */
static int
compare_image(CdcFold *fold, const CdcEvent *a, const CdcEvent *b)
{
	CdcColumns *cols = fold->cols;

	for (int i = 0; i < cols->ncols; i++)
	{
		CdcColumn  *col = &cols->cols[i];
		bool		acarries = cdc_event_carries(a, i);
		bool		bcarries = cdc_event_carries(b, i);
		bool		anull,
					bnull;
		Datum		avalue,
					bvalue;
		int			cmp = (int) acarries - (int) bcarries;

		if (cmp == 0 && acarries)
		{
			avalue = cdc_event_value(cols, a, cols->nkeys + i + 1, &anull);
			bvalue = cdc_event_value(cols, b, cols->nkeys + i + 1, &bnull);
			cmp = compare_value(avalue, anull, bvalue, bnull, col->source_byval, col->source_len);
		}
		if (cmp != 0)
			return cmp;
	}
	return 0;
}

bool
cdc_fold_same_image(CdcFold *fold, const CdcEvent *a, const CdcEvent *b)
{
	return compare_image(fold, a, b) == 0;
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
	ev->tuple = cdc_form_minimal_tuple(fold->cols->event_desc, in->values, in->isnull);
	MemoryContextSwitchTo(old);
	return ev;
}

static void
free_event(CdcEvent *ev)
{
	while (ev->tied != NULL)
	{
		CdcEvent   *next = ev->tied->tied;

		pfree(ev->tied->tuple);
		pfree(ev->tied);
		ev->tied = next;
	}
	pfree(ev->tuple);
	pfree(ev);
}

/* How the columns still looked for change at ev; is ev worth keeping? */
static bool
still_needed(CdcFold *fold, bool only_kills, const CdcEvent *ev, bool *any)
{
	uint8	   *missing = fold->missing;
	bool		keep = false;

	if (kills(ev))
	{
		if (ev->flags & CDC_EVENT_PROTECT)
		{
			/* the event that moved away looks on from here */
			memset(missing, 0xFF, fold->gap_bytes);
			*any = true;
			return true;
		}
		if (!*any || only_kills)
			return false;		/* a delete over a delete: only values count */

		/*
		 * No search crosses a delete; but a before image is none once its
		 * after image has come, which may be later.
		 */
		*any = ev->class == CDC_RETRACTION && (ev->flags & CDC_EVENT_MOVED_AWAY) == 0;
		return true;
	}
	if (!*any)
		return false;
	for (int i = 0; i < fold->cols->ncols && !keep; i++)
		keep = (missing[i >> 3] & (1 << (i & 7))) != 0 && cdc_event_carries(ev, i);
	if (ev->flags & CDC_EVENT_MOVES)
	{
		*any = false;			/* from here the search goes on at the old key */
		return true;
	}
	if (keep)
	{
		*any = false;
		if (ev->flags & CDC_EVENT_GAPS)
			for (int i = 0; i < fold->gap_bytes; i++)
			{
				missing[i] &= cdc_event_gaps(ev)[i];
				*any |= missing[i] != 0;
			}
	}
	/* an after image says what the before image at its place is */
	return keep || (ev->flags & CDC_EVENT_SECOND) != 0;
}

/*
 * A delete under this one stops nobody: it only hides older last values.  Not
 * so under a before image, which may turn out to be none, nor where a moved
 * row looks on.
 */
static bool
only_kills_so_far(const CdcEvent *ev)
{
	if (ev->class == CDC_DELETE)
		return true;
	return (ev->flags & CDC_EVENT_MOVED_AWAY) != 0 && (ev->flags & CDC_EVENT_PROTECT) == 0;
}

/* Drop from the chain under top what can no longer be needed (I3). */
static void
prune(CdcFold *fold, CdcEvent *top)
{
	CdcEvent   *prev = top;
	CdcEvent   *next;
	bool		any = false;
	bool		only_kills = only_kills_so_far(top);

	if (kills(top))
	{
		/* a delete keeps the last values, those of the upsert below it */
		memset(fold->missing, 0xFF, fold->gap_bytes);
		any = true;
	}
	else if ((top->flags & CDC_EVENT_GAPS) && (top->flags & CDC_EVENT_MOVES) == 0)
	{
		memcpy(fold->missing, cdc_event_gaps(top), fold->gap_bytes);
		any = true;
	}
	for (CdcEvent *ev = top->older; ev != NULL; ev = next)
	{
		next = ev->older;
		if (still_needed(fold, only_kills, ev, &any))
		{
			prev = ev;
			only_kills &= only_kills_so_far(ev);
		}
		else
		{
			prev->older = next;
			free_event(ev);
		}
	}
}

/*
 * Two events of one rank with other images.  The greater image leads; the
 * other is remembered as tied when the caller wants to know of ties.  Returns
 * the leader, whose older events are those of led.
 */
static CdcEvent *
tie(CdcFold *fold, CdcEvent *led, CdcEvent *ev)
{
	int			cmp = compare_image(fold, ev, led);
	CdcEvent   *leader = cmp > 0 ? ev : led;
	CdcEvent   *other = cmp > 0 ? led : ev;
	bool		keep = cmp != 0 && !kills(ev) && fold->rule->on_tie == CDC_TIE_ERROR;

	/* without conversions other images are other rows: one witness will do */
	if (keep && !fold->casts && led->tied != NULL && cmp < 0)
		keep = false;
	for (CdcEvent *t = led->tied; keep && t != NULL; t = t->tied)
		keep = compare_image(fold, t, ev) != 0;
	if (cmp > 0)
	{
		leader->older = led->older;
		leader->flags |= led->flags & CDC_EVENT_TIED_DELETE;
		other->older = NULL;
		if (fold->rule->on_tie == CDC_TIE_ERROR && !kills(ev))
		{
			leader->tied = other;	/* with what hung on it */
			return leader;
		}
		free_event(other);
		return leader;
	}
	if (keep)
	{
		other->tied = leader->tied;
		leader->tied = other;
	}
	else
		free_event(other);
	return leader;
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
	while (*link != NULL && (cmp = compare_rank(in, *link)) < 0)
		link = &(*link)->older;
	ev = make_event(fold, in);
	if (*link != NULL && cmp == 0)
		*link = tie(fold, *link, ev);
	else
	{
		ev->older = *link;
		*link = ev;
	}
	prune(fold, top);
}

static void
offer_one(CdcFold *fold, const CdcIncoming *in, const Datum *keys)
{
	FoldEntry  *entry;
	CdcEvent   *top,
			   *ev;
	bool		found;
	int			cmp;

	fold->probe = keys;
	entry = fold_insert(fold->table, NULL, &found);
	if (!found)
	{
		entry->top = make_event(fold, in);
		return;
	}
	top = entry->top;
	cmp = compare_rank(in, top);
	if (cmp > 0)
	{
		ev = make_event(fold, in);
		if (in->class == CDC_UPSERT && top->class == CDC_DELETE && same_place(in, top))
			ev->flags |= CDC_EVENT_TIED_DELETE;
		ev->older = top;
		entry->top = ev;
		if (!fold->keep_all)
			prune(fold, ev);
	}
	else if (cmp == 0)
	{
		entry->top = tie(fold, top, make_event(fold, in));
		if (entry->top != top && !fold->keep_all)
			prune(fold, entry->top);
	}
	else
	{
		if (in->class == CDC_DELETE && top->class == CDC_UPSERT && same_place(in, top))
			top->flags |= CDC_EVENT_TIED_DELETE;
		if (!fold->keep_all && top->older == NULL && !kills(top) &&
			(top->flags & CDC_EVENT_GAPS) == 0)
			return;
		insert_below(fold, top, in);
	}
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
	fold->table = fold_create(fold->context, CDC_FOLD_START, fold);
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

	fold->probe = keys;
	entry = fold_lookup(fold->table, NULL);
	return entry != NULL ? entry->top : NULL;
}

int64
cdc_fold_counted(CdcFold *fold)
{
	return fold->counted;
}

typedef struct SortItem
{
	Datum		first;			/* the first key column, to compare without the tuple */
	CdcEvent   *ev;
} SortItem;

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

/* Falling rank; at one rank the greater image first. */
static int
compare_buried(const void *a, const void *b, void *arg)
{
	const CdcEvent *x = *(CdcEvent *const *) a;
	const CdcEvent *y = *(CdcEvent *const *) b;
	int			cmp = compare_ranks(x->class, x->flags, x->pos, x->poslen, y);

	if (cmp == 0)
		cmp = compare_image((CdcFold *) arg, x, y);
	CHECK_FOR_INTERRUPTS();
	return -cmp;
}

/* Sort the events kept under each top, and drop those not needed (I4). */
static void
settle(CdcFold *fold)
{
	CdcEvent  **buried = NULL;
	int64		room = 0;
	fold_iterator it;
	FoldEntry  *entry;

	fold_start_iterate(fold->table, &it);
	while ((entry = fold_iterate(fold->table, &it)) != NULL)
	{
		int64		n = 0;
		CdcEvent   *last = entry->top;

		for (CdcEvent *ev = entry->top->older; ev != NULL; ev = ev->older)
			n++;
		if (n == 0)
			continue;
		if (n > room)
		{
			if (buried != NULL)
				pfree(buried);
			room = n * 2;
			buried = MemoryContextAllocHuge(fold->context, sizeof(CdcEvent *) * room);
		}
		n = 0;
		for (CdcEvent *ev = entry->top->older; ev != NULL; ev = ev->older)
			buried[n++] = ev;
		qsort_arg(buried, n, sizeof(CdcEvent *), compare_buried, fold);
		for (int64 i = 0; i < n; i++)
			last = last->older = buried[i];
		last->older = NULL;
		prune(fold, entry->top);
	}
	fold->settled = true;
}

/* The winners of all keys, in the order of the key index. */
CdcEvent **
cdc_fold_winners(CdcFold *fold, int64 *count)
{
	int64		n = fold->table->members;
	SortItem   *items;
	CdcEvent  **winners;
	fold_iterator it;
	FoldEntry  *entry;
	int64		i = 0;
	bool		isnull;

	if (fold->keep_all && !fold->settled)
		settle(fold);
	items = MemoryContextAllocHuge(fold->context, sizeof(SortItem) * (n + 1));
	fold_start_iterate(fold->table, &it);
	while ((entry = fold_iterate(fold->table, &it)) != NULL)
	{
		items[i].ev = entry->top;
		items[i++].first = cdc_event_value(fold->cols, entry->top, 1, &isnull);
	}
	qsort_arg(items, n, sizeof(SortItem), compare_keys, fold);

	/* the pointers take half of each item, so they can move down in place */
	winners = (CdcEvent **) items;
	for (i = 0; i < n; i++)
		winners[i] = items[i].ev;
	*count = n;
	return winners;
}
