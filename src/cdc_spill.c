/*-------------------------------------------------------------------------
 *
 * cdc_spill.c
 *		The fold beyond memory: events sorted by key on disk.
 *
 * When the table of cdc_fold.c has grown to its limit it is emptied into a
 * tuplesort, by key in the order of the key index and, within a key, by
 * falling rank.  After the last event the sort is read key by key: the events
 * of one key are offered to each other once more, which leaves its winner and
 * what may be needed below it.  Winners so come in the same order as without
 * a spill.
 *
 * Where a moved row may need values of its old key, the events kept there are
 * written to a file, with an index in memory: 16 bytes for each old key whose
 * values may be needed.
 *
 * Memory: a quarter of what the fold may take for the sort, which the table
 * leaves free, and the events of one key.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/tablespace.h"
#include "miscadmin.h"
#include "storage/buffile.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"

#include "cdc_fold.h"

/*
 * Events of one key that are kept before they are looked through for those
 * no longer needed, where reading alone cannot tell.
 */
#define CDC_SETTLE_EVERY	1024

/* what stands in front of a stored event; position, gaps and tuple follow */
typedef struct StoredEvent
{
	uint8		class;
	uint8		flags;
	uint8		poslen;
	uint32		tuple_len;
} StoredEvent;

/* where the kept events of an old key stand in the file */
typedef struct LoanEntry
{
	uint32		hash;
	int			fileno;
	off_t		offset;
} LoanEntry;

struct CdcSpill
{
	Tuplesortstate *sort;
	TupleDesc	desc;			/* keys, place, rank, event */
	TupleTableSlot *slot;		/* to put and to get */
	bool		pending;		/* slot holds the first event of the next key */
	Datum	   *keys;			/* of the key being read */
	CdcEvent  **buried;			/* work space of settle */
	int64		room;
	BufFile    *file;
	LoanEntry  *loans;
	int64		nloans;
	int64		maxloans;
	/* without a sort: keys that the file has, and of them read */
	int64		nkeys;
	int64		nread;
};

/* ---------- out ---------- */

static TupleDesc
sort_shape(CdcFold *fold)
{
	int			n = fold->target->nkeys;
	TupleDesc	desc = CreateTemplateTupleDesc(n + 3);

	for (int i = 0; i < n; i++)
		TupleDescInitEntry(desc, i + 1, NULL, fold->target->keys[i].type,
						   fold->target->keys[i].typmod, 0);
	TupleDescInitEntry(desc, n + 1, NULL, BYTEAOID, -1, 0);
	TupleDescInitEntry(desc, n + 2, NULL, INT4OID, -1, 0);
	TupleDescInitEntry(desc, n + 3, NULL, BYTEAOID, -1, 0);
	cdc_finalize_tuple_desc(desc);
	return desc;
}

CdcSpill *
cdc_spill_create(CdcFold *fold)
{
	MemoryContext old = MemoryContextSwitchTo(fold->call_context);
	CdcSpill   *spill = palloc0(sizeof(CdcSpill));
	int			n = fold->target->nkeys;
	AttrNumber *attnos = palloc(sizeof(AttrNumber) * (n + 2));
	Oid		   *ops = palloc(sizeof(Oid) * (n + 2));
	Oid		   *collations = palloc0(sizeof(Oid) * (n + 2));
	bool	   *nulls_first = palloc0(sizeof(bool) * (n + 2));

	for (int i = 0; i < n + 2; i++)
		attnos[i] = i + 1;
	for (int i = 0; i < n; i++)
	{
		ops[i] = fold->target->keys[i].sort_op;
		collations[i] = fold->target->keys[i].collation;
	}
	ops[n] = lookup_type_cache(BYTEAOID, TYPECACHE_GT_OPR)->gt_opr;
	ops[n + 1] = lookup_type_cache(INT4OID, TYPECACHE_GT_OPR)->gt_opr;

	spill->desc = sort_shape(fold);
	spill->slot = MakeSingleTupleTableSlot(spill->desc, &TTSOpsMinimalTuple);
	spill->keys = palloc(sizeof(Datum) * n);
	PrepareTempTablespaces();
	spill->sort = tuplesort_begin_heap(spill->desc, n + 2, attnos, ops, collations, nulls_first,
									   fold->sort_kb, NULL, TUPLESORT_RANDOMACCESS);
	MemoryContextSwitchTo(old);
	return spill;
}

/* An event as one bytea, in the current memory context. */
static bytea *
store_event(CdcFold *fold, const CdcEvent *ev)
{
	int			gaps = (ev->flags & CDC_EVENT_GAPS) ? fold->gap_bytes : 0;
	Size		size = VARHDRSZ + sizeof(StoredEvent) + ev->poslen + gaps + cdc_event_tuple(ev)->t_len;
	bytea	   *stored = palloc(size);
	StoredEvent head;
	char	   *at = VARDATA(stored);

	memset(&head, 0, sizeof(head));
	head.class = ev->class;
	head.flags = ev->flags;
	head.poslen = ev->poslen;
	head.tuple_len = cdc_event_tuple(ev)->t_len;

	SET_VARSIZE(stored, size);
	memcpy(at, &head, sizeof(head));
	at += sizeof(head);
	memcpy(at, ev->pos, ev->poslen + gaps);
	memcpy(at + ev->poslen + gaps, cdc_event_tuple(ev), head.tuple_len);
	return stored;
}

static void
put_event(CdcFold *fold, const CdcEvent *ev, TupleTableSlot *slot)
{
	int			n = fold->target->nkeys;
	int			len = cdc_event_place_len(ev);
	bytea	   *place = palloc(VARHDRSZ + len);
	bytea	   *stored = store_event(fold, ev);

	ExecClearTuple(slot);
	for (int i = 0; i < n; i++)
		slot->tts_values[i] = cdc_event_value(fold->cols, ev, i + 1, &slot->tts_isnull[i]);
	SET_VARSIZE(place, VARHDRSZ + len);
	memcpy(VARDATA(place), ev->pos, len);
	slot->tts_values[n] = PointerGetDatum(place);
	slot->tts_values[n + 1] = Int32GetDatum(cdc_chain_rank(ev->class));
	slot->tts_values[n + 2] = PointerGetDatum(stored);
	slot->tts_isnull[n] = slot->tts_isnull[n + 1] = slot->tts_isnull[n + 2] = false;
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(fold->spill->sort, slot);
	ExecClearTuple(slot);
	pfree(place);
	pfree(stored);
}

/* Write all events kept for a key. */
void
cdc_spill_put_chain(CdcFold *fold, const CdcEvent *top)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(fold->spill->desc, &TTSOpsVirtual);

	CHECK_FOR_INTERRUPTS();
	for (const CdcEvent *ev = top; ev != NULL; ev = ev->older)
		for (const CdcEvent *t = ev; t != NULL; t = t->tied)
			put_event(fold, t, slot);
	ExecDropSingleTupleTableSlot(slot);
}

static void
seek(BufFile *file, int fileno, off_t offset)
{
	if (BufFileSeek(file, fileno, offset, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in a temporary file")));
}

/* ---------- in key order ---------- */

/* For events that come in key order: they are written one after the other, unsorted. */
CdcSpill *
cdc_spill_create_ordered(CdcFold *fold)
{
	MemoryContext old = MemoryContextSwitchTo(fold->call_context);
	CdcSpill   *spill = palloc0(sizeof(CdcSpill));

	PrepareTempTablespaces();
	spill->file = BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
	return spill;
}

static void
write_event(CdcFold *fold, const CdcEvent *ev)
{
	bytea	   *stored = store_event(fold, ev);
	uint32		size = VARSIZE(stored) - VARHDRSZ;

	cdc_file_write(fold->spill->file, &size, sizeof(size));
	cdc_file_write(fold->spill->file, VARDATA(stored), size);
	pfree(stored);
}

/* Write all events kept for a key; a size of 0 ends them. */
void
cdc_spill_put_ordered(CdcFold *fold, const CdcEvent *top)
{
	const uint32 end = 0;

	CHECK_FOR_INTERRUPTS();
	for (const CdcEvent *ev = top; ev != NULL; ev = ev->tied)
		write_event(fold, ev);
	cdc_file_write(fold->spill->file, &end, sizeof(end));
	fold->spill->nkeys++;
}

/* ---------- in ---------- */

/*
 * Offer a stored event to those of its key.  stored need not be aligned; the
 * tuple is copied to where it is.
 */
static void
offer_stored(CdcFold *fold, const char *stored, CdcEvent **top)
{
	StoredEvent head;
	CdcIncoming in;
	CdcPos		pos;
	MinimalTuple tuple;
	uint8	   *gaps;
	int			gap_bytes;

	memcpy(&head, stored, sizeof(head));
	stored += sizeof(head);
	gap_bytes = (head.flags & CDC_EVENT_GAPS) ? fold->gap_bytes : 0;
	pos.len = head.poslen;
	memcpy(pos.bytes, stored, head.poslen);
	gaps = palloc(gap_bytes + 1);
	memcpy(gaps, stored + head.poslen, gap_bytes);
	tuple = palloc(head.tuple_len);
	memcpy(tuple, stored + head.poslen + gap_bytes, head.tuple_len);

	in.class = head.class;
	in.flags = head.flags;
	in.pos = &pos;
	in.gaps = gap_bytes > 0 ? gaps : NULL;
	in.values = NULL;
	in.isnull = NULL;
	in.row = NULL;
	in.as_read = NULL;
	in.tuple = tuple;
	in.complete = NULL;
	cdc_chain_offer(fold, top, &in);
	pfree(tuple);
	pfree(gaps);
}

/* The events of the next key of the file, in the fold's context; NULL after the last. */
static CdcEvent *
read_ordered(CdcFold *fold)
{
	MemoryContext old = MemoryContextSwitchTo(fold->context);
	CdcEvent   *top = NULL;
	uint32		size;

	CHECK_FOR_INTERRUPTS();
	while (fold->spill->nread < fold->spill->nkeys)
	{
		char	   *stored;

		cdc_file_read(fold->spill->file, &size, sizeof(size));
		if (size == 0)
			break;
		stored = MemoryContextAllocHuge(fold->context, size);
		cdc_file_read(fold->spill->file, stored, size);
		offer_stored(fold, stored, &top);
		pfree(stored);
	}
	MemoryContextSwitchTo(old);
	fold->spill->nread++;
	return top;
}

/* Get the next event into the slot, which keeps a copy; false after the last. */
static bool
get_event(CdcFold *fold)
{
	CdcSpill   *spill = fold->spill;
	MemoryContext old = MemoryContextSwitchTo(fold->call_context);

	spill->pending = tuplesort_gettupleslot(spill->sort, true, true, spill->slot, NULL);
	MemoryContextSwitchTo(old);
	return spill->pending;
}

/* Is the event in the slot one of the key being read? */
static bool
same_key(CdcFold *fold)
{
	CdcSpill   *spill = fold->spill;

	for (int i = 0; i < fold->target->nkeys; i++)
	{
		CdcKey	   *key = &fold->target->keys[i];
		bool		isnull;
		Datum		value = slot_getattr(spill->slot, i + 1, &isnull);

		if (!cdc_key_equal(key, value, spill->keys[i]))
			return false;
	}
	return true;
}

/*
 * Take the keys of a kept event as those of the key being read.  They are
 * copied: another event may come to stand where this one does.
 */
static void
read_keys(CdcFold *fold, const CdcEvent *ev)
{
	for (int i = 0; i < fold->target->nkeys; i++)
	{
		const CdcKey *key = &fold->target->keys[i];
		bool		isnull;
		Datum		value = cdc_event_value(fold->cols, ev, i + 1, &isnull);

		fold->spill->keys[i] = key->typlen == -1 ?
			PointerGetDatum(PG_DETOAST_DATUM_COPY(value)) :
			datumCopy(value, key->typbyval, key->typlen);
	}
}

/*
 * The winner of the next key, with what is kept below it, in the fold's
 * context, which is emptied first unless what is in it is to be kept.
 */
CdcEvent *
cdc_spill_next(CdcFold *fold, bool keep)
{
	CdcSpill   *spill = fold->spill;
	MemoryContext old;
	CdcEvent   *top = NULL;
	bool		first = true;
	int64		since = 0;

	if (!keep)
	{
		cdc_event_free_all(fold);
		spill->buried = NULL;
		spill->room = 0;
	}
	if (spill->sort == NULL)
		return read_ordered(fold);
	if (!spill->pending)
		return NULL;
	CHECK_FOR_INTERRUPTS();
	old = MemoryContextSwitchTo(fold->context);
	do
	{
		bool		isnull;
		bytea	   *stored = DatumGetByteaPP(slot_getattr(spill->slot, fold->target->nkeys + 3,
														  &isnull));

		offer_stored(fold, VARDATA_ANY(stored), &top);
		if (first)
			read_keys(fold, top);
		first = false;
		if (fold->keep_all && ++since >= CDC_SETTLE_EVERY)
		{
			cdc_chain_settle(fold, top, &spill->buried, &spill->room);
			since = 0;
			CHECK_FOR_INTERRUPTS();
		}
	} while (get_event(fold) && same_key(fold));
	if (fold->keep_all)
		cdc_chain_settle(fold, top, &spill->buried, &spill->room);
	MemoryContextSwitchTo(old);
	return top;
}

/* Begin again with the first key. */
void
cdc_spill_rewind(CdcFold *fold)
{
	if (fold->spill->sort == NULL)
	{
		seek(fold->spill->file, 0, 0);
		fold->spill->nread = 0;
		return;
	}
	tuplesort_rescan(fold->spill->sort);
	(void) get_event(fold);
}

/* ---------- values for moved rows ---------- */

static bool
is_lender(const CdcEvent *top)
{
	for (const CdcEvent *ev = top; ev != NULL; ev = ev->older)
		if (ev->flags & CDC_EVENT_PROTECT)
			return true;
	return false;
}

/* Write the events of an old key to the file, and remember where. */
static void
lend(CdcFold *fold, const CdcEvent *top)
{
	CdcSpill   *spill = fold->spill;
	LoanEntry  *loan;
	uint32		size;

	if (spill->nloans == spill->maxloans)
	{
		spill->maxloans = Max(spill->maxloans * 2, 64);
		spill->loans = spill->loans == NULL ?
			MemoryContextAllocHuge(fold->call_context, sizeof(LoanEntry) * spill->maxloans) :
			repalloc_huge(spill->loans, sizeof(LoanEntry) * spill->maxloans);
	}
	loan = &spill->loans[spill->nloans++];
	loan->hash = cdc_fold_hash(fold, spill->keys);
	BufFileTell(spill->file, &loan->fileno, &loan->offset);
	for (const CdcEvent *ev = top; ev != NULL; ev = ev->older)
	{
		bytea	   *stored = store_event(fold, ev);

		size = VARSIZE(stored) - VARHDRSZ;
		cdc_file_write(spill->file, &size, sizeof(size));
		cdc_file_write(spill->file, VARDATA(stored), size);
		pfree(stored);
	}
	size = 0;
	cdc_file_write(spill->file, &size, sizeof(size));
}

static int
compare_loans(const void *a, const void *b)
{
	uint32		x = ((const LoanEntry *) a)->hash;
	uint32		y = ((const LoanEntry *) b)->hash;

	return (x > y) - (x < y);
}

/* The events of an old key, in the current memory context. */
static CdcEvent *
read_loan(CdcFold *fold, const LoanEntry *loan)
{
	CdcSpill   *spill = fold->spill;
	CdcEvent   *top = NULL;
	MemoryContext keep = fold->context;
	CdcEventRoom room = fold->room;
	uint32		size;

	fold->context = CurrentMemoryContext;
	memset(&fold->room, 0, sizeof(fold->room));
	seek(spill->file, loan->fileno, loan->offset);
	for (;;)
	{
		char	   *stored;

		cdc_file_read(spill->file, &size, sizeof(size));
		if (size == 0)
			break;
		stored = MemoryContextAllocHuge(CurrentMemoryContext, size);
		cdc_file_read(spill->file, stored, size);
		offer_stored(fold, stored, &top);
		pfree(stored);
	}
	if (fold->keep_all && top != NULL)
	{
		CdcEvent  **buried = NULL;
		int64		room = 0;

		cdc_chain_settle(fold, top, &buried, &room);
	}
	fold->context = keep;
	fold->room = room;
	return top;
}

/* The events kept for an old key, or NULL; in the current memory context. */
CdcEvent *
cdc_spill_lookup(CdcFold *fold, const Datum *keys)
{
	CdcSpill   *spill = fold->spill;
	LoanEntry	wanted = {cdc_fold_hash(fold, keys), 0, 0};
	LoanEntry  *found = spill->nloans == 0 ? NULL :
		bsearch(&wanted, spill->loans, spill->nloans, sizeof(LoanEntry), compare_loans);

	if (found == NULL)
		return NULL;
	while (found > spill->loans && found[-1].hash == wanted.hash)
		found--;
	for (; found < spill->loans + spill->nloans && found->hash == wanted.hash; found++)
	{
		CdcEvent   *top = read_loan(fold, found);

		if (top != NULL && cdc_fold_matches(fold, top, keys))
			return top;
	}
	return NULL;
}

/* ---------- begin and end of reading ---------- */

/* All is in the sort. */
void
cdc_spill_finish(CdcFold *fold)
{
	CdcSpill   *spill = fold->spill;
	CdcEvent   *top;
	MemoryContext old;

	tuplesort_performsort(spill->sort);
	if (!fold->keep_all)
		return;
	old = MemoryContextSwitchTo(fold->call_context);
	PrepareTempTablespaces();
	spill->file = BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
	(void) get_event(fold);
	while ((top = cdc_spill_next(fold, false)) != NULL)
		if (is_lender(top))
			lend(fold, top);
	if (spill->nloans > 1)
		qsort(spill->loans, spill->nloans, sizeof(LoanEntry), compare_loans);
}

void
cdc_spill_end(CdcFold *fold)
{
	CdcSpill   *spill = fold->spill;

	if (spill->sort != NULL)
	{
		ExecDropSingleTupleTableSlot(spill->slot);
		tuplesort_end(spill->sort);
	}
	if (spill->file != NULL)
		BufFileClose(spill->file);
}
