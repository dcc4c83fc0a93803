/*-------------------------------------------------------------------------
 *
 * cdc_chain.c
 *		Events of one key: their rank, ties, and which of the lower ones stay.
 *
 * Rank (I1): position; at the same position an upsert over a delete over a
 * retraction (and the delete that a key move leaves) over a snapshot row; for
 * rows whose position does not count, their own position.  Events of one rank
 * with other images tie: the greater image leads, the others hang on it.
 *
 * I2: a chain is sorted by rank, falling.
 * I3: a lower event is kept only if it carries a column that no kept event
 * above it carries, or says as the first that its source lacks it, or stops or
 * turns the search for such a column.
 * I4: where a key move may need values of the old key, any lower event may be
 * needed by a move still to be read.  Then all are kept, unsorted below the
 * top, until reading ends; settle() brings I2 and I3 about.
 *
 * The table of keys is in cdc_fold.c; who looks for values is cdc_image.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "cdc_fold.h"

/* ---------- rank ---------- */

int
cdc_chain_rank(CdcClass class)
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

/* Rank (I1) of an event of this class, flags and position against ev. */
static int
compare_ranks(CdcClass class, uint8 flags, const uint8 *pos, int len, const CdcEvent *ev)
{
	int			placed = (flags & CDC_EVENT_UNPLACED) ? 0 : len;
	int			cmp = cdc_pos_compare(pos, placed, ev->pos, cdc_event_place_len(ev));

	if (cmp == 0)
		cmp = cdc_chain_rank(class) - cdc_chain_rank(ev->class);
	if (cmp == 0 && placed == 0)
		cmp = cdc_pos_compare(pos, len, ev->pos, ev->poslen);
	return cmp;
}

int
cdc_chain_compare(const CdcIncoming *in, const CdcEvent *ev)
{
	return compare_ranks(in->class, in->flags, in->pos->bytes, in->pos->len, ev);
}

bool
cdc_chain_same_place(const CdcIncoming *in, const CdcEvent *ev)
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

/* ---------- chains ---------- */

static void
free_event(CdcFold *fold, CdcEvent *ev)
{
	while (ev->tied != NULL)
	{
		CdcEvent   *next = ev->tied->tied;

		cdc_event_free(fold, ev->tied);
		ev->tied = next;
	}
	cdc_event_free(fold, ev);
}

/* Free what hangs on an event: those tied with it and the older ones. */
void
cdc_chain_free_below(CdcFold *fold, CdcEvent *top)
{
	CdcEvent   *next;

	for (CdcEvent *ev = top->older; ev != NULL; ev = next)
	{
		next = ev->older;
		free_event(fold, ev);
	}
	for (CdcEvent *ev = top->tied; ev != NULL; ev = next)
	{
		next = ev->tied;
		cdc_event_free(fold, ev);
	}
	top->older = top->tied = NULL;
}

/* Of what ev's source lacks nobody else need say so. */
static void
note_lacking(CdcFold *fold, const CdcEvent *ev)
{
	for (int i = cdc_gap_bytes(fold->cols); i < fold->gap_bytes; i++)
		fold->missing[i] &= ~cdc_event_gaps(ev)[i];
}

/* How the columns still looked for change at ev; is ev worth keeping? */
static bool
still_needed(CdcFold *fold, bool only_kills, const CdcEvent *ev, bool *any)
{
	CdcColumns *cols = fold->cols;
	uint8	   *missing = fold->missing;
	int			bytes = cdc_gap_bytes(cols);
	bool		keep = false;

	if (cdc_event_kills(ev))
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
	for (int i = 0; i < cols->ncols && !keep; i++)
		keep = (missing[i >> 3] & (1 << (i & 7))) != 0 &&
			(cdc_event_carries(ev, i) ||
			 (cdc_event_lacks(cols, ev, i) && (missing[bytes + (i >> 3)] & (1 << (i & 7))) != 0));
	if (ev->flags & CDC_EVENT_MOVES)
	{
		*any = false;			/* from here the search goes on at the old key */
		return true;
	}
	if (keep)
	{
		*any = false;
		if (ev->flags & CDC_EVENT_GAPS)
		{
			for (int i = 0; i < bytes; i++)
			{
				missing[i] &= cdc_event_gaps(ev)[i];
				*any |= missing[i] != 0;
			}
			note_lacking(fold, ev);
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
void
cdc_chain_prune(CdcFold *fold, CdcEvent *top)
{
	CdcEvent   *prev = top;
	CdcEvent   *next;
	bool		any = false;
	bool		only_kills = only_kills_so_far(top);

	if (cdc_event_kills(top))
	{
		/* a delete keeps the last values, those of the upsert below it */
		memset(fold->missing, 0xFF, fold->gap_bytes);
		any = true;
	}
	else if ((top->flags & CDC_EVENT_GAPS) && (top->flags & CDC_EVENT_MOVES) == 0)
	{
		memset(fold->missing, 0xFF, fold->gap_bytes);
		memcpy(fold->missing, cdc_event_gaps(top), cdc_gap_bytes(fold->cols));
		note_lacking(fold, top);
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
			free_event(fold, ev);
		}
	}
}

/* What other's source lacks, of the columns that ev does not carry, ev's lacks too. */
static void
take_lacking(CdcFold *fold, CdcEvent *ev, const CdcEvent *other)
{
	int			bytes = cdc_gap_bytes(fold->cols);

	for (int i = bytes; i < fold->gap_bytes; i++)
		cdc_event_gaps(ev)[i] |= cdc_event_gaps(other)[i] & cdc_event_gaps(ev)[i - bytes];
}

/*
 * Two events of one rank with other images.  The greater image leads; the
 * other is remembered as tied when the caller wants to know of ties.  Returns
 * the leader, whose older events are those of led.
 */
CdcEvent *
cdc_chain_tie(CdcFold *fold, CdcEvent *led, CdcEvent *ev)
{
	int			cmp = compare_image(fold, ev, led);
	CdcEvent   *leader = cmp > 0 ? ev : led;
	CdcEvent   *other = cmp > 0 ? led : ev;
	bool		keep = cmp != 0 && !cdc_event_kills(ev) && fold->rule->on_tie == CDC_TIE_ERROR;

	leader->flags |= other->flags & CDC_EVENT_TIED_DELETE;
	if (leader->flags & other->flags & CDC_EVENT_GAPS)
		take_lacking(fold, leader, other);
	/* without conversions other images are other rows: one witness will do */
	if (keep && !fold->casts && led->tied != NULL && cmp < 0)
		keep = false;
	for (CdcEvent *t = led->tied; keep && t != NULL; t = t->tied)
		keep = compare_image(fold, t, ev) != 0;
	if (cmp > 0)
	{
		leader->older = led->older;
		other->older = NULL;
		if (fold->rule->on_tie == CDC_TIE_ERROR && !cdc_event_kills(ev))
		{
			leader->tied = other;	/* with what hung on it */
			return leader;
		}
		free_event(fold, other);
		return leader;
	}
	if (keep)
	{
		other->tied = leader->tied;
		leader->tied = other;
	}
	else
		free_event(fold, other);
	return leader;
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

/*
 * Sort the events kept under a top, and drop those not needed (I4).  *buried
 * is room for *room of them, made larger when it must be.
 */
void
cdc_chain_settle(CdcFold *fold, CdcEvent *top, CdcEvent ***buried, int64 *room)
{
	int64		n = 0;
	CdcEvent   *last = top;

	for (CdcEvent *ev = top->older; ev != NULL; ev = ev->older)
		n++;
	if (n == 0)
		return;
	if (n > *room)
	{
		if (*buried != NULL)
			pfree(*buried);
		*room = n * 2;
		*buried = MemoryContextAllocHuge(fold->context, sizeof(CdcEvent *) * *room);
	}
	n = 0;
	for (CdcEvent *ev = top->older; ev != NULL; ev = ev->older)
		(*buried)[n++] = ev;
	qsort_arg(*buried, n, sizeof(CdcEvent *), compare_buried, fold);
	for (int64 i = 0; i < n; i++)
		last = last->older = (*buried)[i];
	last->older = NULL;
	cdc_chain_prune(fold, top);
}

/* ---------- another event ---------- */

/* Put an event that does not lead into the chain under top. */
static void
insert_below(CdcFold *fold, CdcEvent *top, CdcIncoming *in)
{
	CdcEvent  **link = &top->older;
	CdcEvent   *ev;
	int			cmp = 1;

	if (fold->keep_all)
	{
		ev = cdc_event_make(fold, in, NULL);
		ev->older = top->older;
		top->older = ev;
		return;
	}
	while (*link != NULL && (cmp = cdc_chain_compare(in, *link)) < 0)
		link = &(*link)->older;
	ev = cdc_event_make(fold, in, NULL);
	if (*link != NULL && cmp == 0)
		*link = cdc_chain_tie(fold, *link, ev);
	else
	{
		ev->older = *link;
		*link = ev;
	}
	cdc_chain_prune(fold, top);
}

/* An event takes the lead, and the place, that needs nothing of those below it. */
static void
replace_all(CdcFold *fold, CdcEvent **topp, const CdcIncoming *in)
{
	CdcEvent   *top = *topp;

	cdc_chain_free_below(fold, top);
	*topp = cdc_event_make(fold, in, top);
	if (*topp != top)
		cdc_event_free(fold, top);
}

/* Offer an event to the events of its key, of which *top leads; NULL: none. */
void
cdc_chain_offer(CdcFold *fold, CdcEvent **topp, CdcIncoming *in)
{
	CdcEvent   *top = *topp;
	bool		tied;
	int			cmp;

	if (top == NULL)
	{
		cdc_incoming_complete(in);
		*topp = cdc_event_make(fold, in, NULL);
		return;
	}
	cmp = cdc_chain_compare(in, top);
	if (cmp > 0)
	{
		cdc_incoming_complete(in);
		tied = in->class == CDC_UPSERT && top->class == CDC_DELETE && cdc_chain_same_place(in, top);
		if (!fold->keep_all && in->gaps == NULL && in->class != CDC_DELETE &&
			in->class != CDC_RETRACTION)
			replace_all(fold, topp, in);
		else
		{
			*topp = cdc_event_make(fold, in, NULL);
			(*topp)->older = top;
			if (!fold->keep_all)
				cdc_chain_prune(fold, *topp);
		}
		if (tied)
			(*topp)->flags |= CDC_EVENT_TIED_DELETE;
	}
	else if (cmp == 0)
	{
		cdc_incoming_complete(in);
		*topp = cdc_chain_tie(fold, top, cdc_event_make(fold, in, NULL));
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
		cdc_incoming_complete(in);
		insert_below(fold, top, in);
	}
}
