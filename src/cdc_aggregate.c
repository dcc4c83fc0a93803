/*-------------------------------------------------------------------------
 *
 * cdc_aggregate.c
 *		latest_by_position(value, pos): the value at the greatest position.
 *
 * The state holds one candidate.  A row without a real position never becomes
 * one.  At equal positions the greater detoasted image wins, NULL lowest, so
 * that the result depends neither on input order nor on the plan.
 *
 * I1: everything the state points to lives in the aggregate's context.
 * I2: a losing row costs a comparison of positions and no copy.
 * I3: the value is NULL or detoasted and flat.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "libpq/pqformat.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "cdc_value.h"

typedef struct LatestState
{
	Oid			type;
	int16		typlen;
	bool		typbyval;
	bool		found;			/* pos and value are set */
	bool		isnull;			/* of the value */
	uint8		poslen;
	uint8		pos[CDC_POSITION_MAX_BYTES];
	Datum		value;
} LatestState;

/* Serialized form: type, flags, position, value.  Bits of flags: */
#define LATEST_FOUND	0x01
#define LATEST_NULL		0x02
#define LATEST_FLAGS	(LATEST_FOUND | LATEST_NULL)

PG_FUNCTION_INFO_V1(latest_by_position_trans);
PG_FUNCTION_INFO_V1(latest_by_position_combine);
PG_FUNCTION_INFO_V1(latest_by_position_serial);
PG_FUNCTION_INFO_V1(latest_by_position_deserial);
PG_FUNCTION_INFO_V1(latest_by_position_final);

static MemoryContext
aggregate_context(FunctionCallInfo fcinfo)
{
	MemoryContext context;

	if (!AggCheckCallContext(fcinfo, &context))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("function called outside of an aggregate")));
	return context;
}

static LatestState *
make_state(MemoryContext context, Oid type)
{
	LatestState *state = MemoryContextAllocZero(context, sizeof(LatestState));

	state->type = type;
	get_typlenbyval(type, &state->typlen, &state->typbyval);
	return state;
}

/* Order two flat values by image: NULL lowest. */
static int
compare_images(const LatestState *state, Datum a, bool anull, Datum b, bool bnull)
{
	struct varlena *va,
			   *vb;
	int			cmp;

	if (anull || bnull)
		return (int) bnull - (int) anull;
	if (state->typbyval)
		return (a > b) - (a < b);
	if (state->typlen > 0)
		return memcmp(DatumGetPointer(a), DatumGetPointer(b), state->typlen);
	if (state->typlen == -2)
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

/* Take a candidate's value along: flat, detoasted, in context (I1, I3). */
static void
keep_value(LatestState *state, MemoryContext context, Datum value, bool isnull)
{
	MemoryContext old = MemoryContextSwitchTo(context);

	if (!state->isnull && state->found && !state->typbyval)
		pfree(DatumGetPointer(state->value));
	state->isnull = isnull;
	if (isnull)
		state->value = (Datum) 0;
	else if (state->typlen == -1)
		state->value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	else
		state->value = datumCopy(value, state->typbyval, state->typlen);
	MemoryContextSwitchTo(old);
}

/* Let (value, pos) compete with the state's candidate. */
static void
compete(LatestState *state, MemoryContext context, const uint8 *pos, int poslen,
		Datum value, bool isnull)
{
	if (state->found)
	{
		int			cmp;

		if (cdc_position_kind_of(pos) != cdc_position_kind_of(state->pos))
			cdc_refuse_mixed_kinds("latest_by_position");
		cmp = cdc_position_compare(pos, poslen, state->pos, state->poslen);
		if (cmp == 0)
			cmp = compare_images(state, value, isnull, state->value, state->isnull);
		if (cmp <= 0)
			return;
	}
	keep_value(state, context, value, isnull);
	memcpy(state->pos, pos, poslen);
	state->poslen = (uint8) poslen;
	state->found = true;
}

Datum
latest_by_position_trans(PG_FUNCTION_ARGS)
{
	MemoryContext context = aggregate_context(fcinfo);
	LatestState *state = PG_ARGISNULL(0) ? NULL : (LatestState *) PG_GETARG_POINTER(0);
	struct varlena *pos;

	if (state == NULL)
	{
		Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 1);

		if (!OidIsValid(type))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("could not determine the data type of the value")));
		state = make_state(context, type);
	}
	if (!PG_ARGISNULL(2))
	{
		pos = PG_GETARG_CDC_POSITION(2);
		if (cdc_position_is_real(cdc_value_bytes(pos)))
			compete(state, context, cdc_value_bytes(pos), cdc_value_len(pos),
					PG_ARGISNULL(1) ? (Datum) 0 : PG_GETARG_DATUM(1), PG_ARGISNULL(1));
		PG_FREE_IF_COPY(pos, 2);
	}
	PG_RETURN_POINTER(state);
}

Datum
latest_by_position_combine(PG_FUNCTION_ARGS)
{
	MemoryContext context = aggregate_context(fcinfo);
	LatestState *a = PG_ARGISNULL(0) ? NULL : (LatestState *) PG_GETARG_POINTER(0);
	LatestState *b = PG_ARGISNULL(1) ? NULL : (LatestState *) PG_GETARG_POINTER(1);

	if (b == NULL)
	{
		if (a == NULL)
			PG_RETURN_NULL();
		PG_RETURN_POINTER(a);
	}
	if (a == NULL)
		a = make_state(context, b->type);
	if (b->found)
		compete(a, context, b->pos, b->poslen, b->value, b->isnull);
	PG_RETURN_POINTER(a);
}

Datum
latest_by_position_serial(PG_FUNCTION_ARGS)
{
	LatestState *state;
	StringInfoData buf;

	(void) aggregate_context(fcinfo);
	state = (LatestState *) PG_GETARG_POINTER(0);
	pq_begintypsend(&buf);
	pq_sendint32(&buf, state->type);
	pq_sendbyte(&buf, (state->found ? LATEST_FOUND : 0) | (state->isnull ? LATEST_NULL : 0));
	pq_sendbyte(&buf, state->poslen);
	pq_sendbytes(&buf, (const char *) state->pos, state->poslen);
	if (state->found && !state->isnull)
	{
		if (state->typbyval)
			pq_sendint64(&buf, (int64) state->value);
		else
			pq_sendbytes(&buf, DatumGetPointer(state->value),
						 (int) datumGetSize(state->value, false, state->typlen));
	}
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

static void
refuse_bytes(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
			 errmsg("invalid serialized state of latest_by_position")));
}

/* The rest of buf is the value: check its length against its type's. */
static Datum
read_value(const LatestState *state, StringInfo buf)
{
	int			len = buf->len - buf->cursor;
	char	   *bytes;

	if (state->typbyval)
	{
		if (len != 8)
			refuse_bytes();
		return (Datum) pq_getmsgint64(buf);
	}
	if (len < 1)
		refuse_bytes();
	bytes = palloc(len);
	memcpy(bytes, pq_getmsgbytes(buf, len), len);
	if (state->typlen > 0 ? len != state->typlen :
		state->typlen == -2 ? strnlen(bytes, len) != len - 1 :
		len < VARHDRSZ || VARATT_IS_EXTENDED(bytes) || VARSIZE(bytes) != len)
		refuse_bytes();
	return PointerGetDatum(bytes);
}

Datum
latest_by_position_deserial(PG_FUNCTION_ARGS)
{
	MemoryContext context = aggregate_context(fcinfo);
	bytea	   *serialized = PG_GETARG_BYTEA_PP(0);
	StringInfoData buf;
	LatestState *state;
	CdcPosition p;
	Oid			type;
	int			flags;
	int			poslen;

	initStringInfo(&buf);
	appendBinaryStringInfo(&buf, VARDATA_ANY(serialized), VARSIZE_ANY_EXHDR(serialized));
	if (buf.len < 6)
		refuse_bytes();
	type = pq_getmsgint(&buf, 4);
	flags = pq_getmsgbyte(&buf);
	poslen = pq_getmsgbyte(&buf);
	if ((flags & ~LATEST_FLAGS) != 0 || poslen > CDC_POSITION_MAX_BYTES ||
		poslen > buf.len - buf.cursor || !SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(type)))
		refuse_bytes();
	state = make_state(context, type);
	if (flags & LATEST_FOUND)
	{
		const uint8 *pos = (const uint8 *) pq_getmsgbytes(&buf, poslen);
		bool		isnull = (flags & LATEST_NULL) != 0;

		if (!cdc_position_unpack(pos, poslen, &p) || !cdc_position_is_real(pos))
			refuse_bytes();
		compete(state, context, pos, poslen, isnull ? (Datum) 0 : read_value(state, &buf), isnull);
	}
	if (buf.cursor != buf.len)
		refuse_bytes();
	PG_RETURN_POINTER(state);
}

Datum
latest_by_position_final(PG_FUNCTION_ARGS)
{
	LatestState *state = PG_ARGISNULL(0) ? NULL : (LatestState *) PG_GETARG_POINTER(0);

	if (state == NULL || !state->found || state->isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(datumCopy(state->value, state->typbyval, state->typlen));
}
