/*-------------------------------------------------------------------------
 *
 * cdc_bulk.c
 *		New rows written many at a time.
 *
 * Rows of keys that were found absent gather per leaf, complete and checked,
 * and go to the table in one piece; then each gets its index entries and its
 * triggers.  The key index tells if somebody else inserted the key meanwhile:
 * then our row is taken back and the event judged again.
 *
 * Where that cannot be, rows are written one by one (cdc_row.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/catalog.h"
#include "utils/memutils.h"

#include "cdc_write.h"

/* What gathers at most: as many rows as COPY keeps, and a few times its bytes. */
#define CDC_BULK_ROWS	1000
#define CDC_BULK_BYTES	(256 * 1024)

/* Values of all rows that a leaf's slots are made for: bounds wide tables. */
#define CDC_BULK_VALUES	(64 * 1024)

typedef struct BulkRow
{
	TupleTableSlot *slot;
	const CdcEvent *ev;
	CdcOutcome	outcome;		/* as it was counted */
	bool		conflict;
} BulkRow;

struct CdcBulk
{
	int			n;
	int			nslots;			/* rows whose slot has been made */
	int			room;
	int			max;
	TupleDesc	desc;			/* of the slots */
	BulkRow    *rows;
};

/*
 * May rows of this leaf gather?  Not where a trigger looks at each of them,
 * nor where another index could refuse one before the key's says that its key
 * is taken, nor where a row taken back would show in the log that logical
 * decoding reads.  Found out once.
 */
bool
cdc_bulk_takes(CdcWriter *w, CdcLeaf *leaf)
{
	Relation	rel = leaf->rri->ri_RelationDesc;
	TriggerDesc *triggers = leaf->rri->ri_TrigDesc;
	MemoryContext old;

	if (leaf->bulk != NULL)
		return leaf->bulk->max > 0;
	old = MemoryContextSwitchTo(w->target->estate->es_query_cxt);
	leaf->bulk = palloc0(sizeof(CdcBulk));
	if ((triggers == NULL || !triggers->trig_insert_before_row) &&
		!RelationIsLogicallyLogged(rel) && !leaf->others_unique)
		leaf->bulk->max = Max(1, Min(CDC_BULK_ROWS, CDC_BULK_VALUES /
									 Max(1, RelationGetDescr(rel)->natts)));
	MemoryContextSwitchTo(old);
	return leaf->bulk->max > 0;
}

/* The slot for the next row of a leaf. */
TupleTableSlot *
cdc_bulk_slot(CdcWriter *w, CdcLeaf *leaf)
{
	CdcBulk    *bulk = leaf->bulk;
	MemoryContext old = MemoryContextSwitchTo(w->target->estate->es_query_cxt);

	if (bulk->n == bulk->room)
	{
		bulk->room = bulk->room == 0 ? 16 : bulk->room * 2;
		bulk->rows = bulk->rows == NULL ? palloc(sizeof(BulkRow) * bulk->room) :
			repalloc(bulk->rows, sizeof(BulkRow) * bulk->room);
	}
	if (bulk->n == bulk->nslots)
	{
		Relation	rel = leaf->rri->ri_RelationDesc;

		/* not the relation's own: so many slots would fill the list of who uses that */
		if (bulk->desc == NULL)
			bulk->desc = CreateTupleDescCopyConstr(RelationGetDescr(rel));
		bulk->rows[bulk->nslots++].slot = MakeSingleTupleTableSlot(bulk->desc,
																   table_slot_callbacks(rel));
	}
	MemoryContextSwitchTo(old);
	return bulk->rows[bulk->n].slot;
}

/*
 * Take the row that stands in the leaf's next slot.  Its checks are made now.
 * ev is kept by the fold until the flush.
 */
void
cdc_bulk_add(CdcWriter *w, CdcLeaf *leaf, const CdcEvent *ev, CdcOutcome outcome)
{
	CdcBulk    *bulk = leaf->bulk;
	BulkRow    *row = &bulk->rows[bulk->n];
	MemoryContext old = MemoryContextSwitchTo(w->target->estate->es_query_cxt);

	row->slot->tts_tableOid = RelationGetRelid(leaf->rri->ri_RelationDesc);
	w->context.tombstone = outcome == CDC_DELETED;
	cdc_row_prepare_insert(w, leaf, row->slot);
	w->context.tombstone = false;
	ExecMaterializeSlot(row->slot);
	row->ev = ev;
	row->outcome = outcome;
	row->conflict = false;
	if (bulk->n++ == 0)
		w->bulk_leaves = lappend(w->bulk_leaves, leaf);
	w->bulk_rows++;
	w->bulk_bytes += ev->room;
	w->bulk_full |= bulk->n >= bulk->max || w->bulk_rows >= CDC_BULK_ROWS ||
		w->bulk_bytes >= CDC_BULK_BYTES;
	MemoryContextSwitchTo(old);
}

/* Index entries and triggers of the rows of a leaf; true: some key was taken. */
static bool
finish_rows(CdcWriter *w, CdcLeaf *leaf)
{
	EState	   *estate = w->target->estate;
	CdcBulk    *bulk = leaf->bulk;
	bool		conflicts = false;

	for (int i = 0; i < bulk->n; i++)
	{
		BulkRow    *row = &bulk->rows[i];
		List	   *recheck;

		w->context.event = row->ev;
		recheck = cdc_insert_index_tuples(leaf->rri, row->slot, estate, false, &row->conflict,
										  leaf->arbiters, false);
		if (!row->conflict)
			ExecARInsertTriggers(estate, leaf->rri, row->slot, recheck,
								 w->target->insert_capture);
		conflicts |= row->conflict;
		list_free(recheck);
		ResetPerTupleExprContext(estate);
	}
	w->context.event = NULL;
	return conflicts;
}

static void
next_command(EState *estate)
{
	CommandCounterIncrement();
	estate->es_output_cid = GetCurrentCommandId(true);
}

/*
 * Take back the rows of a leaf whose keys somebody else inserted, and wait for
 * who did.  Appends their events to *again, uncounted.
 */
static void
take_back(CdcWriter *w, CdcLeaf *leaf, List **again)
{
	EState	   *estate = w->target->estate;
	CdcBulk    *bulk = leaf->bulk;

	/* a command does not see its own rows, nor what it deleted of them */
	next_command(estate);
	for (int i = 0; i < bulk->n; i++)
		if (bulk->rows[i].conflict)
			cdc_row_take_back(w, leaf, bulk->rows[i].slot);
	next_command(estate);
	for (int i = 0; i < bulk->n; i++)
	{
		BulkRow    *row = &bulk->rows[i];
		ItemPointerData tid;
		MemoryContext old;

		if (!row->conflict)
			continue;
		/* waits until the other insert has ended, one way or the other */
		(void) cdc_check_index_constraints(leaf->rri, row->slot, estate, &tid, leaf->arbiters);
		if ((row->ev->flags & CDC_EVENT_MOVED_AWAY) == 0)
		{
			w->result->counts[row->outcome]--;
			w->judged--;
		}
		old = MemoryContextSwitchTo(w->call_context);
		*again = lappend(*again, unconstify(CdcEvent *, row->ev));
		MemoryContextSwitchTo(old);
	}
}

static void
flush_leaf(CdcWriter *w, CdcLeaf *leaf, List **again)
{
	EState	   *estate = w->target->estate;
	CdcBulk    *bulk = leaf->bulk;
	TupleTableSlot **slots = palloc(sizeof(TupleTableSlot *) * bulk->n);
	MemoryContext old;

	for (int i = 0; i < bulk->n; i++)
		slots[i] = bulk->rows[i].slot;
	/* it leaves things behind in the current context */
	old = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));
	table_multi_insert(leaf->rri->ri_RelationDesc, slots, bulk->n, estate->es_output_cid, 0, NULL);
	MemoryContextSwitchTo(old);
	pfree(slots);
	if (finish_rows(w, leaf))
		take_back(w, leaf, again);

	for (int i = 0; i < bulk->n; i++)
		ExecClearTuple(bulk->rows[i].slot);
	/* partitions that are written one after the other need no slots any more */
	if (leaf != w->target->leaf)
		cdc_bulk_end(leaf);
	bulk->n = 0;
}

/*
 * Write all rows that gathered.  Returns the events that are to be judged once
 * more, at a snapshot of that moment.
 */
List *
cdc_bulk_flush(CdcWriter *w)
{
	MemoryContext old = MemoryContextSwitchTo(w->target->estate->es_query_cxt);
	List	   *again = NIL;
	ListCell   *lc;

	foreach(lc, w->bulk_leaves)
		flush_leaf(w, (CdcLeaf *) lfirst(lc), &again);
	list_free(w->bulk_leaves);
	w->bulk_leaves = NIL;
	w->bulk_rows = 0;
	w->bulk_bytes = 0;
	w->bulk_full = false;
	MemoryContextSwitchTo(old);
	return again;
}

/* Give back the slots of a leaf. */
void
cdc_bulk_end(CdcLeaf *leaf)
{
	for (int i = 0; leaf->bulk != NULL && i < leaf->bulk->nslots; i++)
		ExecDropSingleTupleTableSlot(leaf->bulk->rows[i].slot);
	if (leaf->bulk != NULL)
		leaf->bulk->nslots = 0;
}
