/*-------------------------------------------------------------------------
 *
 * cdc_event.c
 *		Kept events: how they lie in memory, and their values.
 *
 * An event is one piece of memory: struct, position, gaps, tuple.  Its tuple
 * is the staging row as it was read where that can be (cols->as_read), so that
 * no value is touched before the event has won; else it is formed from the
 * event's keys, columns and old keys.  cols->event_at says which value stands
 * where.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "cdc_fold.h"

/* So many bytes of a row that nobody needs may be kept to save taking it apart. */
#define CDC_KEEP_IN_VAIN	64

/* Bytes of a block of small events: of the first, and of the others. */
#define CDC_EVENT_BLOCK_FIRST	(4 * 1024)
#define CDC_EVENT_BLOCK	(64 * 1024)
#define CDC_EVENT_BLOCK_MAX	(8 * 1024 * 1024)

/* What is smaller gains nothing from larger pages. */
#define CDC_LARGE_PAGES	(1024 * 1024)
#define CDC_PAGE_SIZE	4096

/* ---------- the shape ---------- */

/*
 * May staging's rows be kept as they are?  Then all of a row is read, and so
 * the caller must be allowed to read all of it, and little of it must be in
 * vain.
 */
static bool
keep_as_read(CdcColumns *cols, const CdcRule *rule)
{
	TupleDesc	desc = RelationGetDescr(cols->staging);
	char		relkind = cols->staging->rd_rel->relkind;
	Oid			relid = RelationGetRelid(cols->staging);
	Bitmapset  *used = bms_copy(cols->used);
	int			in_vain = 0;

	if (rule->explain || rule->history || cdc_rule_is_snapshot(rule) ||
		(relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE) ||
		(rule->consume == CDC_CONSUME_DELETE && !rule->dry_run) ||
		pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		return false;
	/* system columns, and the row as a whole, are not in the row */
	for (int i = FirstLowInvalidHeapAttributeNumber + 1; i <= 0; i++)
		if (bms_is_member(i - FirstLowInvalidHeapAttributeNumber, used))
			return false;
#define USE(attno) used = bms_add_member(used, (attno) - FirstLowInvalidHeapAttributeNumber)
	for (int i = 0; i < cols->nkeys; i++)
	{
		if (cols->key_cast[i] != NULL || (cols->nold > 0 && cols->old_cast[i] != NULL))
			return false;
		USE(cols->key_attno[i]);
	}
	for (int i = 0; i < cols->ncols; i++)
		USE(cols->cols[i].staging_attno);
	/* an old key that is also something else would have two values in one place */
	for (int i = 0; i < cols->nold; i++)
	{
		for (int k = 0; k < cols->nkeys; k++)
			if (cols->old_attno[i] == cols->key_attno[k])
				return false;
		for (int c = 0; c < cols->ncols; c++)
			if (cols->old_attno[i] == cols->cols[c].staging_attno)
				return false;
		USE(cols->old_attno[i]);
	}
	for (int i = 0; rule->staging_position == NULL && i < cols->npos; i++)
		USE(cols->pos_attno[i]);
	/* 0 is none, and stands for no column of the loop below */
	USE(cols->op_attno);
	USE(cols->flag_attno);
	USE(cols->unchanged_attno);
	USE(cols->bookmark_attno);
	USE(cols->absent_attno);
#undef USE
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		int			width;

		if (att->attisdropped)
			return false;
		if (bms_is_member(att->attnum - FirstLowInvalidHeapAttributeNumber, used))
			continue;
		width = get_attavgwidth(relid, att->attnum);
		in_vain += width > 0 ? width : get_typavgwidth(att->atttypid, att->atttypmod);
	}
	return in_vain <= CDC_KEEP_IN_VAIN;
}

/*
 * For who explains: may a staging_position be worked out here, row by row, so
 * that one that fails does not end the query?
 */
static bool
position_by_row(const CdcColumns *cols, const CdcRule *rule)
{
	if (!rule->explain || rule->staging_position == NULL ||
		pg_class_aclcheck(RelationGetRelid(cols->staging), GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		return false;
	for (int i = FirstLowInvalidHeapAttributeNumber + 1; i <= 0; i++)
		if (bms_is_member(i - FirstLowInvalidHeapAttributeNumber, cols->used))
			return false;
	return true;
}

/*
 * Work out the shape of kept events: staging's, or keys, columns as staging has
 * them, old keys.
 */
void
cdc_events_map(CdcColumns *cols, CdcTarget *target, const CdcRule *rule)
{
	TupleDesc	desc;
	AttrNumber *at;
	int			n = 0;

	cols->numbered = rule->explain;
	cols->nevent = cols->nkeys + cols->ncols + cols->nold + (cols->numbered ? 1 : 0);
	cols->event_at = at = palloc(sizeof(AttrNumber) * (cols->nevent + 1));
	cols->as_read = keep_as_read(cols, rule);
	cols->all_columns = cols->as_read || position_by_row(cols, rule);
	if (cols->as_read)
	{
		desc = CreateTupleDescCopyConstr(RelationGetDescr(cols->staging));
		for (int i = 0; i < cols->nkeys; i++)
			at[n++] = cols->key_attno[i];
		for (int i = 0; i < cols->ncols; i++)
			at[n++] = cols->cols[i].staging_attno;
		for (int i = 0; i < cols->nold; i++)
			at[n++] = cols->old_attno[i];
	}
	else
	{
		desc = CreateTemplateTupleDesc(cols->nevent);
		for (int i = 0; i < cols->nkeys; i++)
			TupleDescInitEntry(desc, ++n, NULL, target->keys[i].type, target->keys[i].typmod, 0);
		for (int i = 0; i < cols->ncols; i++)
			TupleDescInitEntry(desc, ++n, NULL, cols->cols[i].source_type, -1, 0);
		for (int i = 0; i < cols->nold; i++)
			TupleDescInitEntry(desc, ++n, NULL, target->keys[i].type, target->keys[i].typmod, 0);
		if (cols->numbered)
			TupleDescInitEntry(desc, ++n, NULL, INT8OID, -1, 0);
		cdc_finalize_tuple_desc(desc);
		for (int i = 0; i < n; i++)
			at[i] = i + 1;
	}
	cols->event_desc = desc;
	cols->opened_values = palloc(sizeof(Datum) * desc->natts);
	cols->opened_null = palloc(sizeof(bool) * desc->natts);
}

/* ---------- values ---------- */

static inline void
event_heap_tuple(const CdcEvent *ev, HeapTupleData *tuple)
{
	MinimalTuple stored = cdc_event_tuple(ev);

	tuple->t_len = stored->t_len + MINIMAL_TUPLE_OFFSET;
	tuple->t_data = (HeapTupleHeader) ((char *) stored - MINIMAL_TUPLE_OFFSET);
}

/* The n-th value of a kept event (from 1): keys, columns, old keys. */
Datum
cdc_event_value(const CdcColumns *cols, const CdcEvent *ev, int n, bool *isnull)
{
	AttrNumber	attno = cols->event_at[n - 1];
	HeapTupleData tuple;

	if (ev == cols->opened)
	{
		*isnull = cols->opened_null[attno - 1];
		return cols->opened_values[attno - 1];
	}
	event_heap_tuple(ev, &tuple);
	return heap_getattr(&tuple, attno, cols->event_desc, isnull);
}

/*
 * Take an event apart, so that its values come fast.  It must be closed before
 * it is freed; one is open at a time.
 */
void
cdc_event_open(CdcColumns *cols, const CdcEvent *ev)
{
	HeapTupleData tuple;

	event_heap_tuple(ev, &tuple);
	heap_deform_tuple(&tuple, cols->event_desc, cols->opened_values, cols->opened_null);
	cols->opened = ev;
}

void
cdc_event_close(CdcColumns *cols)
{
	cols->opened = NULL;
}

/* A staging row as it stands on its page, where that can be kept, or NULL. */
HeapTuple
cdc_event_row(const CdcColumns *cols, TupleTableSlot *row)
{
	HeapTuple	tuple;

	if (!cols->as_read || !(TTS_IS_BUFFERTUPLE(row) || TTS_IS_HEAPTUPLE(row)))
		return NULL;
	tuple = ExecFetchSlotHeapTuple(row, false, NULL);
	/* columns added since are not in it */
	return HeapTupleHeaderGetNatts(tuple->t_data) == cols->event_desc->natts ? tuple : NULL;
}

static MinimalTuple
form_tuple(const CdcColumns *cols, const CdcIncoming *in)
{
	int			natts = cols->event_desc->natts;
	Datum	   *values;
	bool	   *isnull;

	if (!cols->as_read)
		return cdc_form_minimal_tuple(cols->event_desc, in->values, in->isnull);
	values = palloc(sizeof(Datum) * natts);
	isnull = palloc(sizeof(bool) * natts);
	memset(isnull, true, sizeof(bool) * natts);
	for (int i = 0; i < cols->nevent; i++)
	{
		values[cols->event_at[i] - 1] = in->values[i];
		isnull[cols->event_at[i] - 1] = in->isnull[i];
	}
	return cdc_form_minimal_tuple(cols->event_desc, values, isnull);
}

/* ---------- memory ---------- */

/*
 * Memory that is touched here and there, in the fold's context.  In pages of
 * the usual size nearly every touch of much memory misses the processor's table
 * of pages.
 */
void *
cdc_fold_alloc(CdcFold *fold, Size size)
{
	char	   *memory = MemoryContextAllocHuge(fold->context, size);

#ifdef MADV_HUGEPAGE
	if (size >= CDC_LARGE_PAGES)
	{
		char	   *from = (char *) TYPEALIGN(CDC_PAGE_SIZE, memory);
		char	   *to = (char *) TYPEALIGN_DOWN(CDC_PAGE_SIZE, memory + size);

		/* advice only: a kernel that does not take it does no harm */
		(void) madvise(from, to - from, MADV_HUGEPAGE);
	}
#endif
	return memory;
}

/* Bytes of the next block: more and more, but little of what the fold may take. */
static Size
block_bytes(const CdcFold *fold)
{
	if (fold->room.block == NULL)
		return CDC_EVENT_BLOCK_FIRST;
	return Max(CDC_EVENT_BLOCK,
			   Min(Min(MemoryContextMemAllocated(fold->context, false) / 2, fold->limit / 16),
				   CDC_EVENT_BLOCK_MAX));
}

/* Memory for an event of this size, which becomes its room, in the fold's context. */
static CdcEvent *
get_room(CdcFold *fold, Size size)
{
	CdcEventRoom *room = &fold->room;
	Size		class = (size + CDC_EVENT_STEP - 1) / CDC_EVENT_STEP;
	CdcEvent   *ev;

	if (class >= CDC_EVENT_CLASSES)
	{
		ev = MemoryContextAllocHuge(fold->context, size);
		ev->room = size;
		return ev;
	}
	size = class * CDC_EVENT_STEP;
	ev = room->free[class];
	if (ev != NULL)
	{
		room->free[class] = ev->older;
		return ev;
	}
	if (room->left < size)
	{
		Size		bytes = block_bytes(fold);
		char	   *block = cdc_fold_alloc(fold, bytes);

		room->block = (char *) TYPEALIGN(CDC_EVENT_STEP, block);
		room->left = bytes - (room->block - block);
	}
	ev = (CdcEvent *) room->block;
	room->block += size;
	room->left -= size;
	ev->room = size;
	return ev;
}

/* Give back an event's memory, for another event of its size. */
void
cdc_event_free(CdcFold *fold, CdcEvent *ev)
{
	Size		class = ev->room / CDC_EVENT_STEP;

	if (ev->room % CDC_EVENT_STEP != 0 || class >= CDC_EVENT_CLASSES)
	{
		pfree(ev);
		return;
	}
	ev->older = fold->room.free[class];
	fold->room.free[class] = ev;
}

/* Give back everything that is kept. */
void
cdc_event_free_all(CdcFold *fold)
{
	MemoryContextReset(fold->context);
	memset(&fold->room, 0, sizeof(fold->room));
}

/* ---------- making ---------- */

/*
 * Keep an event, which is complete: at place if that is given and has room,
 * else in memory of its own in the fold's context.  Returns where it is.
 */
CdcEvent *
cdc_event_make(CdcFold *fold, const CdcIncoming *in, CdcEvent *place)
{
	int			gaps = in->gaps != NULL ? fold->gap_bytes : 0;
	Size		at = MAXALIGN(offsetof(CdcEvent, pos) + in->pos->len + gaps);
	HeapTuple	row = in->as_read;
	MinimalTuple tuple = in->tuple;
	CdcEvent   *ev = place;
	Size		len,
				size;

	if (tuple == NULL && row == NULL)
		tuple = form_tuple(fold->cols, in);
	len = row != NULL ? row->t_len - MINIMAL_TUPLE_OFFSET : tuple->t_len;
	size = at + len;
	if (ev == NULL || ev->room < size)
		ev = get_room(fold, size);
	ev->older = NULL;
	ev->tied = NULL;
	ev->tuple_at = at;
	ev->class = in->class;
	ev->flags = in->flags | (gaps > 0 ? CDC_EVENT_GAPS : 0);
	ev->poslen = in->pos->len;
	cdc_position_put(ev->pos, in->pos->bytes, in->pos->len);
	if (gaps > 0)
		memcpy(cdc_event_gaps(ev), in->gaps, gaps);
	if (row != NULL)
		memcpy(cdc_event_tuple(ev), (char *) row->t_data + MINIMAL_TUPLE_OFFSET, len);
	else
		memcpy(cdc_event_tuple(ev), tuple, len);
	tuple = cdc_event_tuple(ev);
	tuple->t_len = len;
	/* what stood there is not ours: it may say that this is a composite value */
	memset(tuple->mt_padding, 0, sizeof(tuple->mt_padding));
	fold->kept++;
	return ev;
}
