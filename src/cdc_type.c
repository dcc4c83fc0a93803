/*-------------------------------------------------------------------------
 *
 * cdc_type.c
 *		cdc_position for SQL: input and output, operators, index support,
 *		casts, constructors and accessors.
 *
 * The byte format and its order are in cdc_position.c; what is made from a
 * source's own coordinates is in cdc_source.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "lib/hyperloglog.h"
#include "libpq/pqformat.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/pg_lsn.h"
#include "utils/sortsupport.h"
#include "catalog/pg_type.h"

#include "cdc_value.h"

/* ---------- helpers ---------- */

Datum
cdc_value_from_position(const CdcPosition *p)
{
	uint8		bytes[CDC_POSITION_MAX_BYTES];
	int			len = cdc_position_pack(p, bytes);
	struct varlena *v = palloc(VARHDRSZ + len);

	SET_VARSIZE(v, VARHDRSZ + len);
	memcpy(VARDATA(v), bytes, len);
	return PointerGetDatum(v);
}

void
cdc_value_to_position(struct varlena *v, CdcPosition *p)
{
	if (!cdc_position_unpack(cdc_value_bytes(v), cdc_value_len(v), p))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid stored value of type cdc_position")));
}

/* A part from a numeric: a whole number from 0 to 2^64-1. */
uint64
cdc_part_from_numeric(Datum value)
{
	char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, value));
	uint64		n = 0;
	char	   *s;

	for (s = text; *s >= '0' && *s <= '9'; s++)
	{
		uint64		digit = *s - '0';

		if (n > (PG_UINT64_MAX - digit) / 10)
			break;
		n = n * 10 + digit;
	}
	if (s > text && *s == '.')
		for (s++; *s == '0'; s++)
			;
	if (s == text || *s != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("position part out of range: %s", text),
				 errdetail("A part is a whole number from 0 to 18446744073709551615.")));
	pfree(text);
	return n;
}

Datum
cdc_numeric_from_part(uint64 part)
{
	char		text[32];

	if (part <= PG_INT64_MAX)
		return NumericGetDatum(int64_to_numeric((int64) part));
	snprintf(text, sizeof(text), UINT64_FORMAT, part);
	return DirectFunctionCall3(numeric_in, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

/* ---------- input and output ---------- */

PG_FUNCTION_INFO_V1(cdc_position_in);
PG_FUNCTION_INFO_V1(cdc_position_out);
PG_FUNCTION_INFO_V1(cdc_position_recv);
PG_FUNCTION_INFO_V1(cdc_position_send);

Datum
cdc_position_in(PG_FUNCTION_ARGS)
{
	char	   *text = PG_GETARG_CSTRING(0);
	CdcPosition p;

	switch (cdc_position_parse(text, strlen(text), &p))
	{
		case CDC_POSITION_OK:
			break;
		case CDC_POSITION_OUT_OF_RANGE:
			ereturn(fcinfo->context, (Datum) 0,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("value \"%s\" is out of range for type %s", text, "cdc_position"),
					 errdetail("A part is at most 18446744073709551615, an epoch at most 4294967295.")));
		case CDC_POSITION_TOO_MANY_PARTS:
			ereturn(fcinfo->context, (Datum) 0,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("invalid input syntax for type %s: \"%s\"", "cdc_position", text),
					 errdetail("A position has at most %d parts.", CDC_POSITION_MAX_PARTS)));
		case CDC_POSITION_BAD_SYNTAX:
			ereturn(fcinfo->context, (Datum) 0,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("invalid input syntax for type %s: \"%s\"", "cdc_position", text),
					 errhint("A position looks like 16/B374D848, 16/B374D848:3 or 47:10840633, after an epoch 2@16/B374D848.")));
	}
	PG_RETURN_DATUM(cdc_value_from_position(&p));
}

Datum
cdc_position_out(PG_FUNCTION_ARGS)
{
	CdcPosition p;
	char		text[CDC_POSITION_MAX_TEXT];

	cdc_value_to_position(PG_GETARG_CDC_POSITION(0), &p);
	(void) cdc_position_print(&p, text);
	PG_RETURN_CSTRING(pstrdup(text));
}

/* The payload as it is; every byte is checked on the way in. */
Datum
cdc_position_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	int			len = buf->len - buf->cursor;
	const uint8 *bytes;
	CdcPosition p;

	if (len < 1 || len > CDC_POSITION_MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid length in external \"cdc_position\" value: %d", len)));
	bytes = (const uint8 *) pq_getmsgbytes(buf, len);
	if (!cdc_position_unpack(bytes, len, &p))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid bytes in external \"cdc_position\" value")));
	PG_RETURN_DATUM(cdc_value_from_position(&p));
}

Datum
cdc_position_send(PG_FUNCTION_ARGS)
{
	struct varlena *v = PG_GETARG_CDC_POSITION(0);
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendbytes(&buf, (const char *) cdc_value_bytes(v), cdc_value_len(v));
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

/* ---------- order ---------- */

static int
compare_args(FunctionCallInfo fcinfo)
{
	struct varlena *a = PG_GETARG_CDC_POSITION(0);
	struct varlena *b = PG_GETARG_CDC_POSITION(1);
	int			cmp = cdc_position_compare(cdc_value_bytes(a), cdc_value_len(a),
										   cdc_value_bytes(b), cdc_value_len(b));

	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	return cmp;
}

#define CDC_POSITION_OPERATOR(name, op) \
PG_FUNCTION_INFO_V1(cdc_position_##name); \
Datum \
cdc_position_##name(PG_FUNCTION_ARGS) \
{ \
	PG_RETURN_BOOL(compare_args(fcinfo) op 0); \
}

CDC_POSITION_OPERATOR(lt, <)
CDC_POSITION_OPERATOR(le, <=)
CDC_POSITION_OPERATOR(eq, ==)
CDC_POSITION_OPERATOR(ne, !=)
CDC_POSITION_OPERATOR(ge, >=)
CDC_POSITION_OPERATOR(gt, >)

PG_FUNCTION_INFO_V1(cdc_position_cmp);
PG_FUNCTION_INFO_V1(cdc_position_larger);
PG_FUNCTION_INFO_V1(cdc_position_smaller);
PG_FUNCTION_INFO_V1(cdc_position_hash);
PG_FUNCTION_INFO_V1(cdc_position_hash_extended);
PG_FUNCTION_INFO_V1(cdc_position_sortsupport);

Datum
cdc_position_cmp(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(compare_args(fcinfo));
}

Datum
cdc_position_larger(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(compare_args(fcinfo) >= 0 ? PG_GETARG_DATUM(0) : PG_GETARG_DATUM(1));
}

Datum
cdc_position_smaller(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(compare_args(fcinfo) <= 0 ? PG_GETARG_DATUM(0) : PG_GETARG_DATUM(1));
}

Datum
cdc_position_hash(PG_FUNCTION_ARGS)
{
	struct varlena *v = PG_GETARG_CDC_POSITION(0);
	uint32		hash = hash_bytes(cdc_value_bytes(v), cdc_value_len(v));

	PG_FREE_IF_COPY(v, 0);
	PG_RETURN_UINT32(hash);
}

Datum
cdc_position_hash_extended(PG_FUNCTION_ARGS)
{
	struct varlena *v = PG_GETARG_CDC_POSITION(0);
	uint64		hash = hash_bytes_extended(cdc_value_bytes(v), cdc_value_len(v),
										   PG_GETARG_INT64(1));

	PG_FREE_IF_COPY(v, 0);
	PG_RETURN_UINT64(hash);
}

/* ---------- sort support ---------- */

typedef struct AbbrevState
{
	int64		inputs;
	bool		estimating;
	hyperLogLogState abbreviated;
} AbbrevState;

static int
compare_datums(Datum x, Datum y, SortSupport ssup)
{
	struct varlena *a = PG_DETOAST_DATUM_PACKED(x);
	struct varlena *b = PG_DETOAST_DATUM_PACKED(y);
	int			cmp = cdc_position_compare(cdc_value_bytes(a), cdc_value_len(a),
										   cdc_value_bytes(b), cdc_value_len(b));

	if ((Pointer) a != DatumGetPointer(x))
		pfree(a);
	if ((Pointer) b != DatumGetPointer(y))
		pfree(b);
	return cmp;
}

static int
compare_abbreviated(Datum x, Datum y, SortSupport ssup)
{
	return (x > y) - (x < y);
}

static Datum
abbreviate(Datum original, SortSupport ssup)
{
	AbbrevState  *state = ssup->ssup_extra;
	struct varlena *v = PG_DETOAST_DATUM_PACKED(original);
	uint64		key = cdc_position_abbreviate(cdc_value_bytes(v), cdc_value_len(v));

	if ((Pointer) v != DatumGetPointer(original))
		pfree(v);
	state->inputs++;
	if (state->estimating)
		addHyperLogLog(&state->abbreviated,
					   DatumGetUInt32(hash_uint32((uint32) key ^ (uint32) (key >> 32))));
#if SIZEOF_DATUM == 8
	return (Datum) key;
#else
	return (Datum) (key >> 32);
#endif
}

/*
 * Give abbreviation up where positions hardly differ in what it keeps, as the
 * server does for uuid: not before 10,000 inputs, when fewer than 1 in 2,000
 * is distinct.  Once 100,000 distinct keys were seen it is worth its cost.
 */
static bool
abort_abbreviation(int memtupcount, SortSupport ssup)
{
	AbbrevState  *state = ssup->ssup_extra;
	double		distinct;

	if (memtupcount < 10000 || state->inputs < 10000 || !state->estimating)
		return false;
	distinct = estimateHyperLogLog(&state->abbreviated);
	if (distinct > 100000.0)
	{
		state->estimating = false;
		return false;
	}
	return distinct < state->inputs / 2000.0 + 0.5;
}

Datum
cdc_position_sortsupport(PG_FUNCTION_ARGS)
{
	SortSupport ssup = (SortSupport) PG_GETARG_POINTER(0);

	ssup->comparator = compare_datums;
	if (ssup->abbreviate)
	{
		MemoryContext old = MemoryContextSwitchTo(ssup->ssup_cxt);
		AbbrevState  *state = palloc0(sizeof(AbbrevState));

		state->estimating = true;
		initHyperLogLog(&state->abbreviated, 10);
		ssup->ssup_extra = state;
		ssup->comparator = compare_abbreviated;
		ssup->abbrev_converter = abbreviate;
		ssup->abbrev_abort = abort_abbreviation;
		ssup->abbrev_full_comparator = compare_datums;
		MemoryContextSwitchTo(old);
	}
	PG_RETURN_VOID();
}

/* ---------- casts ---------- */

PG_FUNCTION_INFO_V1(cdc_position_from_lsn);
PG_FUNCTION_INFO_V1(cdc_position_to_lsn);

static Datum
from_lsn(XLogRecPtr lsn)
{
	CdcPosition p = {.kind = CDC_POSITION_LSN, .nparts = 1};

	p.parts[0] = lsn;
	return cdc_value_from_position(&p);
}

Datum
cdc_position_from_lsn(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(from_lsn(PG_GETARG_LSN(0)));
}

static void
check_lsn_headed(const CdcPosition *p)
{
	if (p->kind != CDC_POSITION_LSN)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("a number-headed position has no LSN"),
				 errhint("Use cdc_position_part or cdc_position_parts.")));
}

/* The cast: nothing may be lost. */
Datum
cdc_position_to_lsn(PG_FUNCTION_ARGS)
{
	CdcPosition p;

	cdc_value_to_position(PG_GETARG_CDC_POSITION(0), &p);
	check_lsn_headed(&p);
	if (p.epoch != 0 || p.nparts > 1)
	{
		char		text[CDC_POSITION_MAX_TEXT];

		(void) cdc_position_print(&p, text);
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("position %s does not fit type pg_lsn", text),
				 errdetail("Its epoch or ordinal would be lost."),
				 errhint("Use cdc_position_lsn to take the LSN alone.")));
	}
	PG_RETURN_LSN(p.parts[0]);
}

/* ---------- constructors ---------- */

PG_FUNCTION_INFO_V1(cdc_position);
PG_FUNCTION_INFO_V1(cdc_position_with_epoch);

static uint64
part_arg(FunctionCallInfo fcinfo, int arg, const char *name, int64 max)
{
	int64		n = PG_ARGISNULL(arg) ? 0 : PG_GETARG_INT64(arg);

	if (n < 0 || n > max)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s out of range: %lld", name, (long long) n),
				 errdetail("It must be from 0 to %lld.", (long long) max)));
	return (uint64) n;
}

Datum
cdc_position(PG_FUNCTION_ARGS)
{
	CdcPosition p = {.kind = CDC_POSITION_LSN, .nparts = 3};

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	p.parts[0] = PG_GETARG_LSN(0);
	p.parts[1] = part_arg(fcinfo, 1, "ordinal", PG_INT64_MAX);
	p.parts[2] = part_arg(fcinfo, 2, "sub_ordinal", PG_INT64_MAX);
	p.epoch = (uint32) part_arg(fcinfo, 3, "epoch", PG_UINT32_MAX);
	PG_RETURN_DATUM(cdc_value_from_position(&p));
}

Datum
cdc_position_with_epoch(PG_FUNCTION_ARGS)
{
	CdcPosition p;

	cdc_value_to_position(PG_GETARG_CDC_POSITION(0), &p);
	p.epoch = (uint32) part_arg(fcinfo, 1, "epoch", PG_UINT32_MAX);
	PG_RETURN_DATUM(cdc_value_from_position(&p));
}

/* ---------- accessors ---------- */

PG_FUNCTION_INFO_V1(cdc_position_lsn);
PG_FUNCTION_INFO_V1(cdc_position_epoch);
PG_FUNCTION_INFO_V1(cdc_position_part);
PG_FUNCTION_INFO_V1(cdc_position_parts);

Datum
cdc_position_lsn(PG_FUNCTION_ARGS)
{
	CdcPosition p;

	cdc_value_to_position(PG_GETARG_CDC_POSITION(0), &p);
	check_lsn_headed(&p);
	PG_RETURN_LSN(p.parts[0]);
}

Datum
cdc_position_epoch(PG_FUNCTION_ARGS)
{
	CdcPosition p;

	cdc_value_to_position(PG_GETARG_CDC_POSITION(0), &p);
	PG_RETURN_INT64((int64) p.epoch);
}

Datum
cdc_position_part(PG_FUNCTION_ARGS)
{
	int32		n = PG_GETARG_INT32(1);
	CdcPosition p;

	if (n < 1 || n > CDC_POSITION_MAX_PARTS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("position part number out of range: %d", n),
				 errdetail("Parts are numbered from 1 to %d.", CDC_POSITION_MAX_PARTS)));
	cdc_value_to_position(PG_GETARG_CDC_POSITION(0), &p);
	PG_RETURN_DATUM(cdc_numeric_from_part(p.parts[n - 1]));
}

Datum
cdc_position_parts(PG_FUNCTION_ARGS)
{
	CdcPosition p;
	Datum		parts[CDC_POSITION_MAX_PARTS];

	cdc_value_to_position(PG_GETARG_CDC_POSITION(0), &p);
	for (int i = 0; i < p.nparts; i++)
		parts[i] = cdc_numeric_from_part(p.parts[i]);
	PG_RETURN_ARRAYTYPE_P(construct_array(parts, p.nparts, NUMERICOID, -1, false, TYPALIGN_INT));
}

/* ---------- the guard for people's own MERGE ---------- */

PG_FUNCTION_INFO_V1(cdc_supersedes);

/* Is incoming real and newer than stored?  Never NULL. */
Datum
cdc_supersedes(PG_FUNCTION_ARGS)
{
	struct varlena *in;
	struct varlena *stored;

	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(false);
	in = PG_GETARG_CDC_POSITION(0);
	if (!cdc_position_is_real(cdc_value_bytes(in)))
		PG_RETURN_BOOL(false);
	if (PG_ARGISNULL(1))
		PG_RETURN_BOOL(true);
	stored = PG_GETARG_CDC_POSITION(1);
	if (!cdc_position_is_real(cdc_value_bytes(stored)))
		PG_RETURN_BOOL(true);
	if (cdc_position_kind_of(cdc_value_bytes(in)) != cdc_position_kind_of(cdc_value_bytes(stored)))
		cdc_refuse_mixed_kinds("cdc_supersedes");
	PG_RETURN_BOOL(cdc_position_compare(cdc_value_bytes(in), cdc_value_len(in),
										cdc_value_bytes(stored), cdc_value_len(stored)) > 0);
}
