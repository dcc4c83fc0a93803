/*-------------------------------------------------------------------------
 *
 * cdc_aggregate.c
 *		latest_by_position(value, pos): the value at the greatest position.
 *
 * The state is the best (position, value) pair so far.  Rows without a real
 * position never make one, so there is no state until a real one comes.
 *
 *	I1	everything that a state points to is in the aggregate's context.
 *	I2	pos is a valid payload of a real position.
 *	I3	a varlena value is flat or a pointer into a TOAST table: never
 *		expanded, never in somebody else's memory.  It is detoasted only to
 *		break a tie, to travel, or to be the result.
 *	I4	a losing row costs one comparison: no memory, no detoasting.
 *
 * At equal positions the greater image wins, NULL lowest: the order of images
 * is total, so the result depends neither on input order nor on the plan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "libpq/pqformat.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "cdc_compat.h"
#include "cdc_position.h"
#include "cdc_value.h"

typedef struct LatestState
{
	Oid			type;			/* of the value, with what follows from it: */
	int16		typlen;
	bool		typbyval;
	bool		is_row;

	bool		isnull;			/* the value is NULL, value is not valid */
	uint8		poslen;
	uint8		pos[CDC_POSITION_MAX_BYTES];
	Datum		value;			/* of a by-reference type: is buffer */
	char	   *buffer;			/* NULL until needed, reused by later winners */
	Size		buffer_size;
} LatestState;

/* What a call site remembers between rows, in fn_extra. */
typedef struct LatestCache
{
	LatestState empty;			/* type facts of the value, no pair yet */
	FmgrInfo	compare_rows;	/* fn_oid is invalid until the first tie */
} LatestCache;

static MemoryContext
aggregate_context(FunctionCallInfo fcinfo)
{
	MemoryContext context;

	if (!AggCheckCallContext(fcinfo, &context))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("aggregate support function called outside an aggregate")));
	return context;
}

static void
set_type(LatestState *state, Oid type)
{
	memset(state, 0, sizeof(LatestState));
	state->type = type;
	get_typlenbyval(type, &state->typlen, &state->typbyval);
	state->is_row = type_is_rowtype(type);
}

static LatestCache *
get_cache(FunctionCallInfo fcinfo)
{
	FmgrInfo   *flinfo = fcinfo->flinfo;

	if (flinfo->fn_extra == NULL)
		flinfo->fn_extra = MemoryContextAllocZero(flinfo->fn_mcxt, sizeof(LatestCache));
	return (LatestCache *) flinfo->fn_extra;
}

static LatestState *
new_state(MemoryContext context, const LatestState *like)
{
	LatestState *state = MemoryContextAllocZero(context, sizeof(LatestState));

	state->type = like->type;
	state->typlen = like->typlen;
	state->typbyval = like->typbyval;
	state->is_row = like->is_row;
	return state;
}

/* ---------- ties ---------- */

static int
compare_bytes(const void *a, Size alen, const void *b, Size blen)
{
	int			cmp = memcmp(a, b, Min(alen, blen));

	return cmp != 0 ? cmp : (alen > blen) - (alen < blen);
}

/*
 * Two whole rows: as record_image_ops compares them, column by column and
 * detoasted, so that compression inside a row decides nothing.  Anonymous
 * records of different shapes order by their bytes.
 */
static int
compare_rows(FunctionCallInfo fcinfo, struct varlena *a, struct varlena *b)
{
	HeapTupleHeader ta = (HeapTupleHeader) a;
	HeapTupleHeader tb = (HeapTupleHeader) b;
	LatestCache *cache = get_cache(fcinfo);

	if (HeapTupleHeaderGetTypeId(ta) != HeapTupleHeaderGetTypeId(tb) ||
		HeapTupleHeaderGetTypMod(ta) != HeapTupleHeaderGetTypMod(tb))
		return compare_bytes(VARDATA(a), VARSIZE(a) - VARHDRSZ,
							 VARDATA(b), VARSIZE(b) - VARHDRSZ);
	if (!OidIsValid(cache->compare_rows.fn_oid))
		fmgr_info_cxt(F_BTRECORDIMAGECMP, &cache->compare_rows, fcinfo->flinfo->fn_mcxt);
	return DatumGetInt32(FunctionCall2Coll(&cache->compare_rows, InvalidOid,
										   PointerGetDatum(a), PointerGetDatum(b)));
}

/* Order two values at one position by their detoasted images, NULL lowest. */
static int
compare_images(FunctionCallInfo fcinfo, const LatestState *type,
			   Datum a, bool anull, Datum b, bool bnull)
{
	struct varlena *va;
	struct varlena *vb;
	int			cmp;

	if (anull || bnull)
		return (int) bnull - (int) anull;
	if (type->typbyval)
	{
		/* what lies above typlen bytes of a Datum means nothing */
		uint64		mask = type->typlen == 8 ? PG_UINT64_MAX :
			(UINT64CONST(1) << (8 * type->typlen)) - 1;
		uint64		ia = (uint64) a & mask;
		uint64		ib = (uint64) b & mask;

		return (ia > ib) - (ia < ib);
	}
	if (type->typlen != -1)
		return compare_bytes(DatumGetPointer(a), datumGetSize(a, false, type->typlen),
							 DatumGetPointer(b), datumGetSize(b, false, type->typlen));

	/* full headers and alignment: what a row needs, and the rest can do with */
	va = PG_DETOAST_DATUM(a);
	vb = PG_DETOAST_DATUM(b);
	if (type->is_row)
		cmp = compare_rows(fcinfo, va, vb);
	else
		cmp = compare_bytes(VARDATA(va), VARSIZE(va) - VARHDRSZ,
							VARDATA(vb), VARSIZE(vb) - VARHDRSZ);
	if (PointerGetDatum(va) != a)
		pfree(va);
	if (PointerGetDatum(vb) != b)
		pfree(vb);
	return cmp;
}

/* ---------- the state ---------- */

/* Make a value the state's own (I1, I3). */
static void
keep_value(LatestState *state, MemoryContext context, Datum value, bool isnull)
{
	const char *bytes;
	char	   *flat = NULL;
	Size		size;

	state->isnull = isnull;
	if (isnull)
		return;
	if (state->typbyval)
	{
		state->value = value;
		return;
	}

	bytes = DatumGetPointer(value);
	if (state->typlen == -1)
	{
		if (VARATT_IS_EXTERNAL(bytes) && !VARATT_IS_EXTERNAL_ONDISK(bytes))
			bytes = flat = (char *) detoast_external_attr((struct varlena *) bytes);
		size = VARSIZE_ANY(bytes);
	}
	else
		size = datumGetSize(value, false, state->typlen);

	if (size > state->buffer_size)
	{
		/* grow by halves, or slowly growing values would allocate each time */
		Size		want = Max(size, state->buffer_size + state->buffer_size / 2);

		/* the old bytes are of no use: cheaper than repalloc */
		if (state->buffer != NULL)
			pfree(state->buffer);
		state->buffer = NULL;
		state->buffer_size = 0;
		state->buffer = MemoryContextAllocExtended(context, want, MCXT_ALLOC_HUGE);
		state->buffer_size = want;
	}
	memcpy(state->buffer, bytes, size);
	state->value = PointerGetDatum(state->buffer);
	if (flat != NULL)
		pfree(flat);
}

/* Let a pair compete with the state's; a new state (poslen 0) has none. */
static void
compete(FunctionCallInfo fcinfo, LatestState *state, MemoryContext context,
		const uint8 *pos, int poslen, Datum value, bool isnull)
{
	if (state->poslen > 0)
	{
		int			cmp;

		if (cdc_position_kind_of(pos) != cdc_position_kind_of(state->pos))
			cdc_value_check_kinds(pos, poslen, state->pos, state->poslen);
		cmp = cdc_position_compare(pos, poslen, state->pos, state->poslen);
		if (cmp == 0)
			cmp = compare_images(fcinfo, state, value, isnull, state->value, state->isnull);
		if (cmp <= 0)
			return;
	}
	keep_value(state, context, value, isnull);
	memcpy(state->pos, pos, poslen);
	state->poslen = (uint8) poslen;
}

PG_FUNCTION_INFO_V1(latest_by_position_trans);
Datum
latest_by_position_trans(PG_FUNCTION_ARGS)
{
	MemoryContext context = aggregate_context(fcinfo);
	LatestState *state = PG_ARGISNULL(0) ? NULL : (LatestState *) PG_GETARG_POINTER(0);
	struct varlena *pos = PG_ARGISNULL(2) ? NULL : PG_GETARG_CDC_POSITION(2);

	if (pos != NULL && cdc_position_is_real(cdc_value_bytes(pos)))
	{
		if (state == NULL)
		{
			LatestCache *cache = get_cache(fcinfo);

			if (!OidIsValid(cache->empty.type))
			{
				Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 1);

				if (!OidIsValid(type))
					ereport(ERROR,
							(errcode(ERRCODE_INDETERMINATE_DATATYPE),
							 errmsg("could not determine data type of the value")));
				set_type(&cache->empty, type);
			}
			state = new_state(context, &cache->empty);
		}
		compete(fcinfo, state, context, cdc_value_bytes(pos), cdc_value_len(pos),
				PG_ARGISNULL(1) ? (Datum) 0 : PG_GETARG_DATUM(1), PG_ARGISNULL(1));
	}
	if (pos != NULL)
		PG_FREE_IF_COPY(pos, 2);
	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(state);
}

static void
check_serialized(bool ok)
{
	if (!ok)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid serialized state of latest_by_position")));
}

PG_FUNCTION_INFO_V1(latest_by_position_combine);
Datum
latest_by_position_combine(PG_FUNCTION_ARGS)
{
	MemoryContext context = aggregate_context(fcinfo);
	LatestState *state = PG_ARGISNULL(0) ? NULL : (LatestState *) PG_GETARG_POINTER(0);
	LatestState *other = PG_ARGISNULL(1) ? NULL : (LatestState *) PG_GETARG_POINTER(1);

	if (other != NULL)
	{
		/* other lives shorter than the result: its value is copied */
		if (state == NULL)
			state = new_state(context, other);
		/* other may be what was read from bytes */
		check_serialized(other->type == state->type);
		compete(fcinfo, state, context, other->pos, other->poslen,
				other->value, other->isnull);
	}
	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(state);
}

/* READ_ONLY: the state stays as it is, for windows and shared states. */
PG_FUNCTION_INFO_V1(latest_by_position_final);
Datum
latest_by_position_final(PG_FUNCTION_ARGS)
{
	LatestState *state = PG_ARGISNULL(0) ? NULL : (LatestState *) PG_GETARG_POINTER(0);

	(void) aggregate_context(fcinfo);
	if (state == NULL || state->isnull)
		PG_RETURN_NULL();

	/* a copy, since a window's next winner overwrites the buffer */
	if (state->typlen == -1)
		PG_RETURN_POINTER(PG_DETOAST_DATUM_COPY(state->value));
	PG_RETURN_DATUM(datumCopy(state->value, state->typbyval, state->typlen));
}

/* ---------- between processes ---------- */

/*
 * type (4 bytes), 1 if the value is NULL else 0 (1 byte), length of the
 * position (1 byte), position, then the value to the end: 8 bytes of a
 * by-value type, else its detoasted image.
 */
PG_FUNCTION_INFO_V1(latest_by_position_serial);
Datum
latest_by_position_serial(PG_FUNCTION_ARGS)
{
	LatestState *state = (LatestState *) PG_GETARG_POINTER(0);
	StringInfoData buf;

	(void) aggregate_context(fcinfo);
	pq_begintypsend(&buf);
	pq_sendint32(&buf, state->type);
	pq_sendbyte(&buf, state->isnull ? 1 : 0);
	pq_sendbyte(&buf, state->poslen);
	pq_sendbytes(&buf, (const char *) state->pos, state->poslen);
	if (state->isnull)
		 /* nothing follows */ ;
	else if (state->typbyval)
		pq_sendint64(&buf, (int64) state->value);
	else if (state->typlen == -1)
	{
		struct varlena *flat = PG_DETOAST_DATUM(state->value);

		pq_sendbytes(&buf, (const char *) flat, VARSIZE(flat));
		if (PointerGetDatum(flat) != state->value)
			pfree(flat);
	}
	else
		pq_sendbytes(&buf, DatumGetPointer(state->value),
					 (int) datumGetSize(state->value, false, state->typlen));
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

/* The value of len bytes: does its length fit its type? */
static void
read_value(LatestState *state, MemoryContext context, const char *bytes, int len)
{
	char	   *copy;

	if (state->typbyval)
	{
		uint64		value;

		check_serialized(len == sizeof(value));
		memcpy(&value, bytes, sizeof(value));
		state->value = (Datum) pg_ntoh64(value);
		return;
	}

	/* copied before it is looked at, since bytes may not be aligned */
	check_serialized(len > 0);
	copy = MemoryContextAllocExtended(context, len, MCXT_ALLOC_HUGE);
	memcpy(copy, bytes, len);
	if (state->typlen > 0)
		check_serialized(len == state->typlen);
	else if (state->typlen == -2)
		check_serialized(strnlen(copy, len) == (Size) len - 1);
	else
		check_serialized(len >= VARHDRSZ && VARATT_IS_4B_U(copy) && VARSIZE(copy) == len);
	if (state->is_row)
		check_serialized(len >= SizeofHeapTupleHeader);
	state->buffer = copy;
	state->buffer_size = len;
	state->value = PointerGetDatum(copy);
}

PG_FUNCTION_INFO_V1(latest_by_position_deserial);
Datum
latest_by_position_deserial(PG_FUNCTION_ARGS)
{
	bytea	   *serialized = PG_GETARG_BYTEA_PP(0);
	const uint8 *bytes = (const uint8 *) VARDATA_ANY(serialized);
	int			len = VARSIZE_ANY_EXHDR(serialized);
	LatestCache *cache = get_cache(fcinfo);
	LatestState *state;
	CdcPosition p;
	uint32		type;
	int			poslen;

	(void) aggregate_context(fcinfo);
	check_serialized(len >= 6);
	memcpy(&type, bytes, sizeof(type));
	type = pg_ntoh32(type);
	poslen = bytes[5];
	check_serialized(bytes[4] <= 1 && poslen <= len - 6 &&
					 cdc_position_unpack(bytes + 6, poslen, &p) &&
					 cdc_position_is_real(bytes + 6));
	if (type != cache->empty.type || !OidIsValid(type))
	{
		check_serialized(SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(type)));
		set_type(&cache->empty, type);
	}

	/* read by the combine function at once: the current context will do */
	state = new_state(CurrentMemoryContext, &cache->empty);
	memcpy(state->pos, bytes + 6, poslen);
	state->poslen = (uint8) poslen;
	state->isnull = (bytes[4] == 1);
	if (state->isnull)
		check_serialized(len == 6 + poslen);
	else
		read_value(state, CurrentMemoryContext, (const char *) bytes + 6 + poslen,
				   len - 6 - poslen);
	PG_RETURN_POINTER(state);
}
