/*-------------------------------------------------------------------------
 *
 * cdc_peek.c
 *		What the fold will touch soon, asked for early.
 *
 * With more keys than a processor's cache holds, most of the time per event
 * would be spent waiting for the fold's table and for the event that leads so
 * far.  While a staging row is in hand its page is pinned, and the rows behind
 * it there can be read: their keys say which memory comes next.
 *
 * All here is a hint.  Nothing depends on it, and a row that is not worked
 * out as expected is just not asked for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

#include "cdc_fold.h"

/* Rows ahead for which the table is asked, and the event that leads. */
#define CDC_PEEK_TABLE	8
#define CDC_PEEK_EVENT	4

struct CdcPeek
{
	CdcFold    *fold;
	int			at;				/* of the key in a row's data */
	int			end;
	int16		len;
	bool		byval;
	BlockNumber block;			/* of the last row */
	OffsetNumber done;			/* rows up to this one have been looked at */
	uint32		hashes[16];		/* of the rows ahead, by offset; 0: none */
};

/*
 * A hint giver for this staging, or NULL where it could not give any: the key
 * must be one value of a fixed length at a fixed place in the row.
 */
CdcPeek *
cdc_peek_create(CdcFold *fold)
{
	CdcColumns *cols = fold->cols;
	CdcKey	   *key = &fold->target->keys[0];
	int			attno = cols->event_at[0];
	CdcPeek    *peek;
	int			at = 0;

	if (!cols->as_read || cols->nkeys > 1 ||
		(key->image != CDC_KEY_BY_VALUE && key->image != CDC_KEY_BY_BYTES))
		return NULL;
	for (int i = 0; i < attno; i++)
	{
		Form_pg_attribute att = TupleDescAttr(cols->event_desc, i);

		if (att->attlen <= 0)
			return NULL;
		at = att_align_nominal(at, att->attalign);
		if (i < attno - 1)
			at += att->attlen;
	}
	peek = palloc0(sizeof(CdcPeek));
	peek->fold = fold;
	peek->at = at;
	peek->len = key->typlen;
	peek->byval = key->typbyval;
	peek->end = at + key->typlen;
	peek->block = InvalidBlockNumber;
	return peek;
}

/* The hash of the key of a row on the page, 0 when it has none. */
static inline uint32
hash_of(CdcPeek *peek, Page page, OffsetNumber offset)
{
	ItemId		item = PageGetItemId(page, offset);
	HeapTupleHeader row;
	Datum		key;

	if (!ItemIdIsNormal(item))
		return 0;
	row = (HeapTupleHeader) PageGetItem(page, item);
	/* a NULL in front of the key moves it */
	if ((row->t_infomask & HEAP_HASNULL) || row->t_hoff + peek->end > ItemIdGetLength(item))
		return 0;
	key = fetch_att((char *) row + row->t_hoff + peek->at, peek->byval, peek->len);
	return cdc_fold_hash(peek->fold, &key);
}

/* A staging row is in hand: ask for what those behind it need. */
void
cdc_peek_ahead(CdcPeek *peek, TupleTableSlot *slot)
{
	BufferHeapTupleTableSlot *row = (BufferHeapTupleTableSlot *) slot;
	BlockNumber block;
	OffsetNumber offset,
				last;
	Page		page;
	uint32		hash;

	if (!TTS_IS_BUFFERTUPLE(slot) || !BufferIsValid(row->buffer))
		return;
	block = ItemPointerGetBlockNumberNoCheck(&slot->tts_tid);
	offset = ItemPointerGetOffsetNumberNoCheck(&slot->tts_tid);
	if (block != peek->block)
	{
		/* rows that come from everywhere have no neighbours to look at */
		peek->block = block;
		peek->done = offset;
		memset(peek->hashes, 0, sizeof(peek->hashes));
		return;
	}
	page = BufferGetPage(row->buffer);
	last = Min(PageGetMaxOffsetNumber(page), offset + CDC_PEEK_TABLE);
	for (OffsetNumber o = Max(peek->done, offset) + 1; o <= last; o++)
	{
		hash = hash_of(peek, page, o);
		peek->hashes[o % lengthof(peek->hashes)] = hash;
		if (hash != 0)
			cdc_fold_prefetch_entry(peek->fold, hash);
		peek->done = o;
	}
	hash = peek->hashes[(offset + CDC_PEEK_EVENT) % lengthof(peek->hashes)];
	if (offset + CDC_PEEK_EVENT <= last && hash != 0)
		cdc_fold_prefetch_event(peek->fold, hash);
}
