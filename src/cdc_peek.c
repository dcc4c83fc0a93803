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
#define CDC_PEEK_TABLE 12
#define CDC_PEEK_EVENT 4

/* Columns that may stand before the key; each costs a step per row. */
#define CDC_PEEK_BEFORE	8

struct CdcPeek
{
	CdcFold    *fold;
	Form_pg_attribute atts[CDC_PEEK_BEFORE + 1];	/* up to the key's own */
	int			natts;
	BlockNumber block;			/* of the last row */
	OffsetNumber done;			/* rows up to this one have been looked at */
	uint32		hashes[32];		/* of the rows ahead, by offset; 0: none */
};

/*
 * A hint giver for this staging, or NULL where it could not give any: the key
 * must be one value of a fixed length not far from the row's begin.
 */
CdcPeek *
cdc_peek_create(CdcFold *fold)
{
	CdcColumns *cols = fold->cols;
	CdcKey	   *key = &fold->target->keys[0];
	int			attno = cols->event_at[0];
	CdcPeek    *peek;

	if (!cols->as_read || cols->nkeys > 1 || attno > CDC_PEEK_BEFORE + 1 || key->typlen <= 0 ||
		(key->image != CDC_KEY_BY_VALUE && key->image != CDC_KEY_BY_BYTES))
		return NULL;
	peek = palloc0(sizeof(CdcPeek));
	peek->fold = fold;
	peek->natts = attno;
	for (int i = 0; i < attno; i++)
		peek->atts[i] = TupleDescAttr(cols->event_desc, i);
	peek->block = InvalidBlockNumber;
	return peek;
}

/*
 * The hash of the key of a row on the page, 0 when it has none.  The row may
 * just be being put there by somebody else: nothing it says is believed beyond
 * its own length.
 */
static inline uint32
hash_of(CdcPeek *peek, Page page, OffsetNumber offset)
{
	ItemId		item = PageGetItemId(page, offset);
	HeapTupleHeader row;
	int			left;
	char	   *data;
	int			at = 0;

	if (!ItemIdIsNormal(item))
		return 0;
	row = (HeapTupleHeader) PageGetItem(page, item);
	data = (char *) row + row->t_hoff;
	left = (int) ItemIdGetLength(item) - row->t_hoff;
	for (int i = 0; i < peek->natts; i++)
	{
		Form_pg_attribute att = peek->atts[i];

		if ((row->t_infomask & HEAP_HASNULL) && att_isnull(i, row->t_bits))
			continue;
		if (at >= left)
			return 0;
		at = att_align_pointer(at, att->attalign, att->attlen, data + at);
		if (at + Max(att->attlen, 1) > left)
			return 0;
		if (i == peek->natts - 1)
		{
			Datum		key = fetch_att(data + at, att->attbyval, att->attlen);

			return cdc_fold_hash(peek->fold, &key);
		}
		if (att->attlen > 0)
			at += att->attlen;
		else if (att->attlen == -1 && VARATT_IS_1B(data + at) && !VARATT_IS_1B_E(data + at))
			at += VARSIZE_1B(data + at);
		else if (att->attlen == -1 && VARATT_IS_4B(data + at) && at + VARHDRSZ <= left)
			at += Min(VARSIZE_ANY(data + at), left);
		else
			return 0;
	}
	return 0;
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
