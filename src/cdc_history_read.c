/*-------------------------------------------------------------------------
 *
 * cdc_history_read.c
 *		The batch of cdc_apply_history(): every event, converted to the
 *		history's types, in a tuplestore that queries can read.
 *
 * The reader (cdc_read.c) hands on each event instead of folding them.  A key
 * move becomes two rows: its own, and the end of its old key.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "cdc_fold.h"
#include "cdc_history.h"

struct CdcHistoryReader
{
	CdcContext	context;
	Datum	   *values;			/* of a row of the batch */
	bool	   *isnull;
	Datum		lowest;			/* where a row stands whose position does not count */
};

/* ---------- shapes ---------- */

/* A domain's values go by its base type until they are written, as in the queries. */
static void
add_attribute(TupleDesc desc, int *n, const char *name, Oid type, int32 typmod, Oid collation)
{
	type = getBaseTypeAndTypmod(type, &typmod);
	TupleDescInitEntry(desc, ++*n, name, type, typmod, type == TEXTARRAYOID ? 1 : 0);
	if (OidIsValid(collation))
		TupleDescInitEntryCollation(desc, *n, collation);
}

static void
add_keys(CdcHistory *h, TupleDesc desc, int *n)
{
	for (int i = 0; i < h->target.nkeys; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(h->rel), h->target.keys[i].attno - 1);

		add_attribute(desc, n, psprintf("k%d", i + 1), att->atttypid, att->atttypmod,
					  att->attcollation);
	}
}

static void
add_columns(CdcHistory *h, TupleDesc desc, int *n)
{
	for (int i = 0; i < h->cols.ncols; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(h->rel), h->cols.cols[i].attno - 1);

		add_attribute(desc, n, psprintf("c%d", i + 1), att->atttypid, att->atttypmod,
					  att->attcollation);
	}
}

static void
make_shapes(CdcHistory *h)
{
	int			nkeys = h->target.nkeys;
	int			ncols = h->cols.ncols;
	Oid			position = cdc_position_type();
	TupleDesc	desc;
	int			n = 0;

	desc = h->incoming_desc = CreateTemplateTupleDesc(nkeys + INCOMING_COLUMNS + ncols);
	add_keys(h, desc, &n);
	add_attribute(desc, &n, "n", INT8OID, -1, InvalidOid);
	add_attribute(desc, &n, "pos", position, -1, InvalidOid);
	add_attribute(desc, &n, "own", position, -1, InvalidOid);
	add_attribute(desc, &n, "rank", INT4OID, -1, InvalidOid);
	add_attribute(desc, &n, "counted", BOOLOID, -1, InvalidOid);
	add_attribute(desc, &n, "second", BOOLOID, -1, InvalidOid);
	add_attribute(desc, &n, "gaps", TEXTARRAYOID, -1, InvalidOid);
	add_attribute(desc, &n, "needs", TEXTARRAYOID, -1, InvalidOid);
	add_attribute(desc, &n, "at", TIMESTAMPTZOID, -1, InvalidOid);
	add_columns(h, desc, &n);
	cdc_finalize_tuple_desc(desc);

	n = 0;
	desc = h->truncates_desc = CreateTemplateTupleDesc(2);
	add_attribute(desc, &n, "pos", position, -1, InvalidOid);
	add_attribute(desc, &n, "at", TIMESTAMPTZOID, -1, InvalidOid);
	cdc_finalize_tuple_desc(desc);

	n = 0;
	desc = h->changes_desc = CreateTemplateTupleDesc(CHANGE_BEFORE + nkeys + CHANGE_AFTER + ncols);
	add_attribute(desc, &n, "what", INT4OID, -1, InvalidOid);
	add_attribute(desc, &n, "n", INT8OID, -1, InvalidOid);
	add_keys(h, desc, &n);
	add_attribute(desc, &n, "pos", position, -1, InvalidOid);
	add_attribute(desc, &n, "valid_to", position, -1, InvalidOid);
	add_attribute(desc, &n, "from_at", TIMESTAMPTZOID, -1, InvalidOid);
	add_attribute(desc, &n, "to_at", TIMESTAMPTZOID, -1, InvalidOid);
	add_attribute(desc, &n, "op", TEXTOID, -1, InvalidOid);
	add_attribute(desc, &n, "gaps", TEXTARRAYOID, -1, InvalidOid);
	add_columns(h, desc, &n);
	cdc_finalize_tuple_desc(desc);
}

/* ---------- one event ---------- */

/* Names of the columns whose bits are set, as text[]; NULL when none is. */
static Datum
names_of(CdcHistory *h, const uint8 *bits, bool *isnull)
{
	Datum	   *elems = palloc(sizeof(Datum) * (h->cols.ncols + 1));
	int			n = 0;

	for (int i = 0; bits != NULL && i < h->cols.ncols; i++)
		if (bits[i >> 3] & (1 << (i & 7)))
			elems[n++] = CStringGetTextDatum(h->cols.cols[i].name);
	*isnull = n == 0;
	return n == 0 ? (Datum) 0 :
		PointerGetDatum(construct_array(elems, n, TEXTOID, -1, false, TYPALIGN_INT));
}

/* Which of the columns that an event does not carry must be found somewhere? */
static uint8 *
needed(CdcHistory *h, const CdcIncoming *in)
{
	int			bytes = cdc_gap_bytes(&h->cols);
	uint8	   *bits = palloc0(bytes + 1);

	if (in->gaps == NULL || h->rule.on_unavailable == CDC_UNAVAILABLE_NULL)
		return bits;
	for (int i = 0; i < h->cols.ncols; i++)
	{
		uint8		bit = 1 << (i & 7);
		bool		lacking = h->cols.absent_attno != 0 && (in->gaps[bytes + (i >> 3)] & bit) != 0;

		if ((in->gaps[i >> 3] & bit) != 0 && !lacking &&
			!(h->rule.ignore_nulls && in->isnull[h->cols.nkeys + i]))
			bits[i >> 3] |= bit;
	}
	return bits;
}

static void
refuse_move(CdcHistory *h, const CdcIncoming *in, Datum needs)
{
	Datum	   *elems;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(needs), TEXTOID, -1, false, TYPALIGN_INT, &elems, NULL, &n);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("an event that changes the key does not carry column \"%s\"",
					TextDatumGetCString(elems[0])),
			 errdetail("Key %s at position %s. A history does not look for values at the old key.",
					   cdc_key_text(&h->target, in->values, in->isnull),
					   cdc_pos_text(in->pos->bytes, in->pos->len)),
			 errhint("Let the source carry all values of such an event, or set on_unavailable => 'null'.")));
}

/* Values that stand out of line may go with staging's rows. */
static Datum
keep(Datum value, bool isnull, bool byval, int16 len)
{
	if (isnull || byval || len != -1 || !VARATT_IS_EXTERNAL(DatumGetPointer(value)))
		return value;
	return PointerGetDatum(detoast_attr((struct varlena *) DatumGetPointer(value)));
}

static void
put_time(CdcHistory *h, const CdcQuery *query, TupleTableSlot *row, Datum *value, bool *isnull)
{
	*isnull = query->time_at < 0;
	if (*isnull)
		return;
	*value = slot_getattr(row, query->time_at + 1, isnull);
	h->reader->context.column = h->time_column;
	*value = cdc_column_convert(&h->cols, h->time_cast, *value, isnull);
	h->reader->context.column = NULL;
}

static void
put_row(CdcHistory *h)
{
	tuplestore_putvalues(h->incoming, h->incoming_desc, h->reader->values, h->reader->isnull);
}

/* The end of the key that the event's row had before. */
static void
put_moved_away(CdcHistory *h, const CdcIncoming *in)
{
	int			nkeys = h->cols.nkeys;
	Datum	   *own = h->reader->values + nkeys;
	bool	   *null = h->reader->isnull + nkeys;

	for (int i = 0; i < nkeys; i++)
		h->reader->values[i] = in->values[nkeys + h->cols.ncols + i];
	own[INCOMING_RANK] = Int32GetDatum(cdc_chain_rank(CDC_RETRACTION));
	own[INCOMING_COUNTED] = BoolGetDatum(false);
	null[INCOMING_GAPS] = null[INCOMING_NEEDS] = true;
	memset(null + INCOMING_COLUMNS, true, sizeof(bool) * h->cols.ncols);
	put_row(h);
}

static void
put_columns(CdcHistory *h, const CdcIncoming *in, bool kills)
{
	CdcColumns *cols = &h->cols;
	Datum	   *values = h->reader->values + cols->nkeys + INCOMING_COLUMNS;
	bool	   *isnull = h->reader->isnull + cols->nkeys + INCOMING_COLUMNS;

	for (int i = 0; i < cols->ncols; i++)
	{
		CdcColumn  *col = &cols->cols[i];

		isnull[i] = kills || (in->gaps != NULL && (in->gaps[i >> 3] & (1 << (i & 7))) != 0);
		if (isnull[i])
			continue;
		isnull[i] = in->isnull[cols->nkeys + i];
		h->reader->context.column = col->name;
		values[i] = cdc_column_convert(cols, col->cast, in->values[cols->nkeys + i], &isnull[i]);
		h->reader->context.column = NULL;
		values[i] = keep(values[i], isnull[i], col->byval, col->len);
	}
}

static void
take_event(CdcSink *sink, const CdcQuery *query, CdcIncoming *in)
{
	CdcHistory *h = (CdcHistory *) sink;
	int			nkeys = h->cols.nkeys;
	Datum	   *own = h->reader->values + nkeys;
	bool	   *null = h->reader->isnull + nkeys;
	bool		kills = in->class == CDC_DELETE || in->class == CDC_RETRACTION;
	bool		placed = in->pos->len > 0 && (in->flags & CDC_EVENT_UNPLACED) == 0;
	bool		moves = (in->flags & CDC_EVENT_MOVES) != 0;
	Datum		position = in->pos->len > 0 ? cdc_value_from_bytes(in->pos->bytes, in->pos->len) : 0;
	ErrorContextCallback callback = {error_context_stack, cdc_context_callback, &h->reader->context};

	h->reader->context.keys = in->values;
	h->reader->context.isnull = in->isnull;
	h->reader->context.pos = in->pos->bytes;
	h->reader->context.poslen = in->pos->len;
	error_context_stack = &callback;

	for (int i = 0; i < nkeys; i++)
	{
		h->reader->values[i] = in->values[i];
		h->reader->isnull[i] = false;
	}
	memset(null, false, sizeof(bool) * INCOMING_COLUMNS);
	own[INCOMING_NUMBER] = Int64GetDatum(h->read.events);
	own[INCOMING_POSITION] = placed ? position : h->reader->lowest;
	null[INCOMING_OWN] = in->pos->len == 0;
	own[INCOMING_OWN] = position;
	own[INCOMING_RANK] = Int32GetDatum(cdc_chain_rank(in->class));
	own[INCOMING_COUNTED] = BoolGetDatum(true);
	own[INCOMING_SECOND] = BoolGetDatum((in->flags & CDC_EVENT_SECOND) != 0);
	own[INCOMING_GAPS] = names_of(h, kills ? NULL : in->gaps, &null[INCOMING_GAPS]);
	own[INCOMING_NEEDS] = names_of(h, kills ? NULL : needed(h, in), &null[INCOMING_NEEDS]);
	put_time(h, query, in->row, &own[INCOMING_AT], &null[INCOMING_AT]);
	put_columns(h, in, kills);
	if (moves && !null[INCOMING_NEEDS])
		refuse_move(h, in, own[INCOMING_NEEDS]);
	/* what a moved row does not carry is nowhere: NULL, for good */
	if (moves)
		null[INCOMING_GAPS] = true;
	h->gaps |= !null[INCOMING_GAPS];
	h->counted++;
	put_row(h);
	if (moves)
		put_moved_away(h, in);
	error_context_stack = callback.previous;
	h->reader->context.keys = NULL;
}

static void
take_truncate(CdcSink *sink, const CdcQuery *query, TupleTableSlot *row, const CdcPos *pos)
{
	CdcHistory *h = (CdcHistory *) sink;
	Datum		values[2];
	bool		isnull[2] = {false};

	values[0] = cdc_value_from_bytes(pos->bytes, pos->len);
	put_time(h, query, row, &values[1], &isnull[1]);
	tuplestore_putvalues(h->truncates, h->truncates_desc, values, isnull);
}

/*
 * Read staging as the caller.  The stores are the current resource owner's and
 * stand in the current memory context.
 */
void
cdc_history_read(CdcHistory *h)
{
	int			n = h->cols.nkeys + INCOMING_COLUMNS + h->cols.ncols;
	struct CdcHistoryReader here;
	CdcPosition zero = {.kind = CDC_POSITION_LSN, .nparts = 1};
	uint8		bytes[CDC_POSITION_MAX_BYTES];

	make_shapes(h);
	h->incoming = tuplestore_begin_heap(false, false, work_mem);
	h->truncates = tuplestore_begin_heap(false, false, work_mem);
	memset(&here, 0, sizeof(here));
	here.context.target = &h->target;
	here.context.staging = h->cols.staging_name;
	here.values = palloc0(sizeof(Datum) * n);
	here.isnull = palloc0(sizeof(bool) * n);
	here.lowest = cdc_value_from_bytes(bytes, cdc_position_pack(&zero, bytes));

	h->sink.event = take_event;
	h->sink.truncate = take_truncate;
	h->cols.sink = &h->sink;
	h->reader = &here;
	cdc_read_staging(&h->target, &h->cols, &h->rule, NULL, NULL, &h->read);
	h->reader = NULL;
}
