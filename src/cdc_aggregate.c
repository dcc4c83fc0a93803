/*-------------------------------------------------------------------------
 *
 * cdc_aggregate.c
 *		latest_by_position(value, pos): the value at the greatest position.
 *
 * The state is the best (position, value) pair so far.  Rows without a real
 * position never make one, so there is no state until a real one comes.
 *
 *	I1	a state is one piece of memory in the aggregate's context, as many keys
 *		mean many states: position and value stand in it.  A winner that needs
 *		more room moves it.
 *	I2	its position is a valid payload of a real position.
 *	I3	a varlena value is flat or a pointer into a TOAST table, never
 *		expanded.  It is detoasted only to break a tie, to travel, or to be the
 *		result.
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
#include "port/pg_bitutils.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "cdc_compat.h"
#include "cdc_position.h"
#include "cdc_value.h"

/* The type of the value, with what follows from it. */
typedef struct LatestType
{
	Oid			oid;
	int16		len;
	bool		byval;
	bool		is_row;
} LatestType;

typedef struct LatestState
{
	LatestType	type;
	uint32		room;			/* bytes of all of it */
	uint8		poslen;
	bool		isnull;			/* the value is */
	uint8		pos[FLEXIBLE_ARRAY_MEMBER]; /* then, aligned, the value */
} LatestState;

/* States beyond this size grow by halves, smaller ones as memory is given out. */
#define LATEST_SMALL	8192

/* What a call site remembers between rows, in fn_extra. */
typedef struct LatestCache
{
	LatestType	type;			/* of the value; no oid: not known yet */
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
set_type(LatestType *type, Oid oid)
{
	type->oid = oid;
	get_typlenbyval(oid, &type->len, &type->byval);
	type->is_row = type_is_rowtype(oid);
}

static LatestCache *
get_cache(FunctionCallInfo fcinfo)
{
	FmgrInfo   *flinfo = fcinfo->flinfo;

	if (flinfo->fn_extra == NULL)
		flinfo->fn_extra = MemoryContextAllocZero(flinfo->fn_mcxt, sizeof(LatestCache));
	return (LatestCache *) flinfo->fn_extra;
}

static inline Size
value_at(int poslen)
{
	return MAXALIGN(offsetof(LatestState, pos) + poslen);
}

/* The value of a state, which must not be NULL. */
static inline Datum
get_value(const LatestState *state)
{
	char	   *at = (char *) state + value_at(state->poslen);

	return state->type.byval ? *(Datum *) at : PointerGetDatum(at);
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
compare_images(FunctionCallInfo fcinfo, const LatestType *type,
			   Datum a, bool anull, Datum b, bool bnull)
{
	struct varlena *va;
	struct varlena *vb;
	int			cmp;

	if (anull || bnull)
		return (int) bnull - (int) anull;
	if (type->byval)
	{
		/* what lies above typlen bytes of a Datum means nothing */
		uint64		mask = type->len == 8 ? PG_UINT64_MAX :
			(UINT64CONST(1) << (8 * type->len)) - 1;
		uint64		ia = (uint64) a & mask;
		uint64		ib = (uint64) b & mask;

		return (ia > ib) - (ia < ib);
	}
	if (type->len != -1)
		return compare_bytes(DatumGetPointer(a), datumGetSize(a, false, type->len),
							 DatumGetPointer(b), datumGetSize(b, false, type->len));

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

/* A state of at least this size, in the place of one that is too small. */
static LatestState *
get_room(LatestState *old, const LatestType *type, MemoryContext context, Size size)
{
	LatestState *state;

	if (size <= LATEST_SMALL)
		size = pg_nextpower2_size_t(size);
	else if (old != NULL)
		size = Max(size, old->room + (Size) old->room / 2);
	/* the old bytes are of no use: cheaper than repalloc */
	state = MemoryContextAllocExtended(context, size, MCXT_ALLOC_HUGE);
	state->type = *type;
	state->room = (uint32) size;
	if (old != NULL)
		pfree(old);
	return state;
}

/* Put a pair into a state, in the place of what stands there (I1, I3). */
static LatestState *
put_pair(LatestState *state, const LatestType *type, MemoryContext context,
		 const uint8 *pos, int poslen, Datum value, bool isnull)
{
	Size		at = value_at(poslen);
	const char *bytes = NULL;
	char	   *flat = NULL;
	Size		size = 0;

	if (isnull)
		 /* nothing to copy */ ;
	else if (type->byval)
		size = sizeof(Datum);
	else if (type->len == -1)
	{
		bytes = DatumGetPointer(value);
		if (VARATT_IS_EXTERNAL(bytes) && !VARATT_IS_EXTERNAL_ONDISK(bytes))
			bytes = flat = (char *) detoast_external_attr((struct varlena *) bytes);
		size = VARSIZE_ANY(bytes);
	}
	else
	{
		bytes = DatumGetPointer(value);
		size = datumGetSize(value, false, type->len);
	}

	if (state == NULL || at + size > state->room)
		state = get_room(state, type, context, at + size);
	state->poslen = (uint8) poslen;
	state->isnull = isnull;
	cdc_position_put(state->pos, pos, poslen);
	if (bytes != NULL)
		memcpy((char *) state + at, bytes, size);
	else if (!isnull)
		*(Datum *) ((char *) state + at) = value;
	if (flat != NULL)
		pfree(flat);
	return state;
}

/* Let a pair compete with the state's; NULL is a state without any. */
static LatestState *
compete(FunctionCallInfo fcinfo, LatestState *state, const LatestType *type,
		MemoryContext context, const uint8 *pos, int poslen, Datum value, bool isnull)
{
	if (state != NULL)
	{
		int			cmp;

		if (cdc_position_kind_of(pos) != cdc_position_kind_of(state->pos))
			cdc_value_check_kinds(pos, poslen, state->pos, state->poslen);
		cmp = cdc_position_compare(pos, poslen, state->pos, state->poslen);
		if (cmp == 0)
			cmp = compare_images(fcinfo, type, value, isnull,
								 state->isnull ? (Datum) 0 : get_value(state), state->isnull);
		if (cmp <= 0)
			return state;
	}
	return put_pair(state, type, context, pos, poslen, value, isnull);
}

/* The type of the aggregate's argument. */
static const LatestType *
argument_type(FunctionCallInfo fcinfo)
{
	LatestCache *cache = get_cache(fcinfo);

	if (!OidIsValid(cache->type.oid))
	{
		Oid			oid = get_fn_expr_argtype(fcinfo->flinfo, 1);

		if (!OidIsValid(oid))
			ereport(ERROR,
					(errcode(ERRCODE_INDETERMINATE_DATATYPE),
					 errmsg("could not determine data type of the value")));
		set_type(&cache->type, oid);
	}
	return &cache->type;
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
		state = compete(fcinfo, state, state != NULL ? &state->type : argument_type(fcinfo),
						context, cdc_value_bytes(pos), cdc_value_len(pos),
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
		/* other may be what was read from bytes */
		check_serialized(state == NULL || other->type.oid == state->type.oid);
		/* other lives shorter than the result: its value is copied */
		state = compete(fcinfo, state, &other->type, context, other->pos, other->poslen,
						other->isnull ? (Datum) 0 : get_value(other), other->isnull);
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

	/* a copy, since a window's next winner overwrites the value */
	if (state->type.len == -1)
		PG_RETURN_POINTER(PG_DETOAST_DATUM_COPY(get_value(state)));
	PG_RETURN_DATUM(datumCopy(get_value(state), state->type.byval, state->type.len));
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
	pq_sendint32(&buf, state->type.oid);
	pq_sendbyte(&buf, state->isnull ? 1 : 0);
	pq_sendbyte(&buf, state->poslen);
	pq_sendbytes(&buf, (const char *) state->pos, state->poslen);
	if (state->isnull)
		 /* nothing follows */ ;
	else if (state->type.byval)
		pq_sendint64(&buf, (int64) get_value(state));
	else if (state->type.len == -1)
	{
		Datum		value = get_value(state);
		struct varlena *flat = PG_DETOAST_DATUM(value);

		pq_sendbytes(&buf, (const char *) flat, VARSIZE(flat));
		if (PointerGetDatum(flat) != value)
			pfree(flat);
	}
	else
		pq_sendbytes(&buf, DatumGetPointer(get_value(state)),
					 (int) datumGetSize(get_value(state), false, state->type.len));
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

/*
 * The value that these bytes are: does their length fit its type?  What is
 * given back may lie in a copy, since bytes may not be aligned.
 */
static Datum
read_value(const LatestType *type, const char *bytes, int len)
{
	char	   *copy;

	if (type->byval)
	{
		uint64		value;

		check_serialized(len == sizeof(value));
		memcpy(&value, bytes, sizeof(value));
		return (Datum) pg_ntoh64(value);
	}

	/* copied before it is looked at */
	check_serialized(len > 0);
	copy = MemoryContextAllocExtended(CurrentMemoryContext, len, MCXT_ALLOC_HUGE);
	memcpy(copy, bytes, len);
	if (type->len > 0)
		check_serialized(len == type->len);
	else if (type->len == -2)
		check_serialized(strnlen(copy, len) == (Size) len - 1);
	else
		check_serialized(len >= VARHDRSZ && VARATT_IS_4B_U(copy) && VARSIZE(copy) == len);
	if (type->is_row)
		check_serialized(len >= SizeofHeapTupleHeader);
	return PointerGetDatum(copy);
}

PG_FUNCTION_INFO_V1(latest_by_position_deserial);
Datum
latest_by_position_deserial(PG_FUNCTION_ARGS)
{
	bytea	   *serialized = PG_GETARG_BYTEA_PP(0);
	const uint8 *bytes = (const uint8 *) VARDATA_ANY(serialized);
	int			len = VARSIZE_ANY_EXHDR(serialized);
	LatestCache *cache = get_cache(fcinfo);
	Datum		value = (Datum) 0;
	bool		isnull;
	CdcPosition p;
	uint32		type;
	int			poslen;

	(void) aggregate_context(fcinfo);
	check_serialized(len >= 6);
	memcpy(&type, bytes, sizeof(type));
	type = pg_ntoh32(type);
	isnull = bytes[4] == 1;
	poslen = bytes[5];
	check_serialized(bytes[4] <= 1 && poslen <= len - 6 &&
					 cdc_position_unpack(bytes + 6, poslen, &p) &&
					 cdc_position_is_real(bytes + 6));
	if (type != cache->type.oid || !OidIsValid(type))
	{
		check_serialized(SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(type)));
		set_type(&cache->type, type);
	}
	if (isnull)
		check_serialized(len == 6 + poslen);
	else
		value = read_value(&cache->type, (const char *) bytes + 6 + poslen, len - 6 - poslen);

	/* read by the combine function at once: the current context will do */
	PG_RETURN_POINTER(put_pair(NULL, &cache->type, CurrentMemoryContext, bytes + 6, poslen, value,
							   isnull));
}
