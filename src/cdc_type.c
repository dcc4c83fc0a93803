/*-------------------------------------------------------------------------
 *
 * cdc_type.c
 *		The SQL face of cdc_position: input and output, operators, operator
 *		class support, casts, constructors and pieces.
 *
 * What a position is and how it is stored is in cdc_position.c; what sources
 * call their coordinates is in cdc_source.c.
 *
 * The operators are one total order that never raises, so that sorts, index
 * builds and ANALYZE never fail.  cdc_supersedes is the law's comparison: it
 * refuses to weigh one kind of position against the other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "lib/hyperloglog.h"
#include "libpq/pqformat.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/pg_lsn.h"
#include "utils/sortsupport.h"

#include "cdc_compat.h"
#include "cdc_position.h"
#include "cdc_source.h"
#include "cdc_value.h"

/* ---------- helpers for this and other files ---------- */

static void
unpack(const uint8 *bytes, int len, CdcPosition *p)
{
	if (!cdc_position_unpack(bytes, len, p))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("stored value is not a cdc_position")));
}

void
cdc_value_to_position(const struct varlena *v, CdcPosition *p)
{
	unpack(cdc_value_bytes(v), cdc_value_len(v), p);
}

char *
cdc_payload_text(const uint8 *bytes, int len)
{
	char	   *text = palloc(CDC_POSITION_MAX_TEXT);
	CdcPosition p;

	unpack(bytes, len, &p);
	(void) cdc_position_print(&p, text);
	return text;
}

Datum
cdc_value_from_bytes(const uint8 *bytes, int len)
{
	struct varlena *result = palloc(VARHDRSZ + len);

	SET_VARSIZE(result, VARHDRSZ + len);
	memcpy(VARDATA(result), bytes, len);
	return PointerGetDatum(result);
}

Datum
cdc_value_from_position(const CdcPosition *p)
{
	uint8		bytes[CDC_POSITION_MAX_BYTES];

	return cdc_value_from_bytes(bytes, cdc_position_pack(p, bytes));
}

void
cdc_value_check_kinds(const uint8 *a, int alen, const uint8 *b, int blen)
{
	bool		a_is_lsn = cdc_position_kind_of(a) == CDC_POSITION_LSN;

	if (cdc_position_kind_of(a) == cdc_position_kind_of(b) ||
		!cdc_position_is_real(a) || !cdc_position_is_real(b))
		return;

	/* always in the same order, so that the message depends on no plan */
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("cannot compare an LSN-headed position with a number-headed one"),
			 errdetail("The positions are %s and %s.",
					   a_is_lsn ? cdc_payload_text(a, alen) : cdc_payload_text(b, blen),
					   a_is_lsn ? cdc_payload_text(b, blen) : cdc_payload_text(a, alen)),
			 errhint("Positions of one key must come from one log; make all of them of one kind.")));
}

/* ---------- input and output ---------- */

PG_FUNCTION_INFO_V1(cdc_position_in);
Datum
cdc_position_in(PG_FUNCTION_ARGS)
{
	const char *text = PG_GETARG_CSTRING(0);
	CdcPosition p;

	switch (cdc_position_parse(text, (int) strlen(text), &p))
	{
		case CDC_POSITION_OK:
			break;
		case CDC_POSITION_OUT_OF_RANGE:
			ereturn(fcinfo->context, (Datum) 0,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("value \"%s\" is out of range for type %s",
							text, "cdc_position")));
		case CDC_POSITION_TOO_MANY_PARTS:
			ereturn(fcinfo->context, (Datum) 0,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("invalid input syntax for type %s: \"%s\"",
							"cdc_position", text),
					 errdetail("A position has at most %d parts.",
							   CDC_POSITION_MAX_PARTS)));
		case CDC_POSITION_BAD_SYNTAX:
			ereturn(fcinfo->context, (Datum) 0,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("invalid input syntax for type %s: \"%s\"",
							"cdc_position", text),
					 cdc_source_is_gtid(text, (int) strlen(text)) ?
					 errdetail("GTIDs of different servers have no order, and all changes of a transaction share one.") : 0));
	}
	PG_RETURN_DATUM(cdc_value_from_position(&p));
}

PG_FUNCTION_INFO_V1(cdc_position_out);
Datum
cdc_position_out(PG_FUNCTION_ARGS)
{
	struct varlena *v = PG_GETARG_CDC_POSITION(0);

	PG_RETURN_CSTRING(cdc_payload_text(cdc_value_bytes(v), cdc_value_len(v)));
}

PG_FUNCTION_INFO_V1(cdc_position_recv);
Datum
cdc_position_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	int			len = buf->len - buf->cursor;
	const uint8 *bytes = (const uint8 *) pq_getmsgbytes(buf, len);
	CdcPosition p;

	if (!cdc_position_unpack(bytes, len, &p))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid binary representation of type %s", "cdc_position")));
	PG_RETURN_DATUM(cdc_value_from_bytes(bytes, len));
}

PG_FUNCTION_INFO_V1(cdc_position_send);
Datum
cdc_position_send(PG_FUNCTION_ARGS)
{
	struct varlena *v = PG_GETARG_CDC_POSITION(0);

	PG_RETURN_DATUM(cdc_value_from_bytes(cdc_value_bytes(v), cdc_value_len(v)));
}

/* ---------- comparison ---------- */

static int
compare_args(FunctionCallInfo fcinfo)
{
	struct varlena *a = PG_GETARG_CDC_POSITION(0);
	struct varlena *b = PG_GETARG_CDC_POSITION(1);
	int			cmp = cdc_value_compare(a, b);

	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	return cmp;
}

#define COMPARISON(name, op) \
PG_FUNCTION_INFO_V1(cdc_position_##name); \
Datum \
cdc_position_##name(PG_FUNCTION_ARGS) \
{ \
	PG_RETURN_BOOL(compare_args(fcinfo) op 0); \
} \
extern Datum cdc_position_##name(PG_FUNCTION_ARGS)

COMPARISON(eq, ==);
COMPARISON(ne, !=);
COMPARISON(lt, <);
COMPARISON(le, <=);
COMPARISON(gt, >);
COMPARISON(ge, >=);

PG_FUNCTION_INFO_V1(cdc_position_cmp);
Datum
cdc_position_cmp(PG_FUNCTION_ARGS)
{
	int			cmp = compare_args(fcinfo);

	PG_RETURN_INT32((cmp > 0) - (cmp < 0));
}

PG_FUNCTION_INFO_V1(cdc_position_larger);
Datum
cdc_position_larger(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(PG_GETARG_DATUM(compare_args(fcinfo) >= 0 ? 0 : 1));
}

PG_FUNCTION_INFO_V1(cdc_position_smaller);
Datum
cdc_position_smaller(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(PG_GETARG_DATUM(compare_args(fcinfo) <= 0 ? 0 : 1));
}

PG_FUNCTION_INFO_V1(cdc_position_hash);
Datum
cdc_position_hash(PG_FUNCTION_ARGS)
{
	struct varlena *v = PG_GETARG_CDC_POSITION(0);
	Datum		result = hash_any(cdc_value_bytes(v), cdc_value_len(v));

	PG_FREE_IF_COPY(v, 0);
	PG_RETURN_DATUM(result);
}

PG_FUNCTION_INFO_V1(cdc_position_hash_extended);
Datum
cdc_position_hash_extended(PG_FUNCTION_ARGS)
{
	struct varlena *v = PG_GETARG_CDC_POSITION(0);
	Datum		result = hash_any_extended(cdc_value_bytes(v), cdc_value_len(v),
										   PG_GETARG_INT64(1));

	PG_FREE_IF_COPY(v, 0);
	PG_RETURN_DATUM(result);
}

/* ---------- sort support ---------- */

typedef struct AbbrevState
{
	int64		input_count;	/* non-NULL values seen */
	bool		estimating;		/* still counting distinct keys? */
	hyperLogLogState cardinality;	/* of the abbreviated keys */
} AbbrevState;

static int
compare_full(Datum x, Datum y, SortSupport ssup)
{
	struct varlena *a = DatumGetCdcPosition(x);
	struct varlena *b = DatumGetCdcPosition(y);
	int			cmp = cdc_value_compare(a, b);

	if (PointerGetDatum(a) != x)
		pfree(a);
	if (PointerGetDatum(b) != y)
		pfree(b);
	return cmp;
}

static Datum
abbreviate(Datum original, SortSupport ssup)
{
	AbbrevState  *state = ssup->ssup_extra;
	struct varlena *v = DatumGetCdcPosition(original);
	uint64		key = cdc_position_abbreviate(cdc_value_bytes(v), cdc_value_len(v));

	if (PointerGetDatum(v) != original)
		pfree(v);
	state->input_count++;
	if (state->estimating)
		addHyperLogLog(&state->cardinality,
					   DatumGetUInt32(hash_uint32((uint32) key ^ (uint32) (key >> 32))));
#if SIZEOF_DATUM == 8
	return (Datum) key;
#else
	return (Datum) (key >> 32);
#endif
}

/* The thresholds are those of uuid_abbrev_abort (core 15, uuid.c). */
static bool
abbreviate_abort(int memtupcount, SortSupport ssup)
{
	AbbrevState  *state = ssup->ssup_extra;
	double		distinct;

	if (memtupcount < 10000 || state->input_count < 10000 || !state->estimating)
		return false;
	distinct = estimateHyperLogLog(&state->cardinality);

	/* plenty of distinct keys: stop counting, abbreviation pays */
	if (distinct > 100000.0)
	{
		state->estimating = false;
		return false;
	}
	return distinct < state->input_count / 2000.0 + 0.5;
}

PG_FUNCTION_INFO_V1(cdc_position_sortsupport);
Datum
cdc_position_sortsupport(PG_FUNCTION_ARGS)
{
	SortSupport ssup = (SortSupport) PG_GETARG_POINTER(0);

	ssup->comparator = compare_full;
	ssup->ssup_extra = NULL;
	if (ssup->abbreviate)
	{
		MemoryContext old = MemoryContextSwitchTo(ssup->ssup_cxt);
		AbbrevState  *state = palloc(sizeof(AbbrevState));

		state->input_count = 0;
		state->estimating = true;
		initHyperLogLog(&state->cardinality, 10);
		ssup->ssup_extra = state;
		ssup->comparator = ssup_datum_unsigned_cmp;
		ssup->abbrev_converter = abbreviate;
		ssup->abbrev_abort = abbreviate_abort;
		ssup->abbrev_full_comparator = compare_full;
		MemoryContextSwitchTo(old);
	}
	PG_RETURN_VOID();
}

/* ---------- constructors and casts ---------- */

/* Argument n as a part or an epoch, 0 .. max: NULL is 0. */
static uint64
get_number_arg(FunctionCallInfo fcinfo, int n, const char *what, int64 max)
{
	int64		value = PG_ARGISNULL(n) ? 0 : PG_GETARG_INT64(n);

	if (value < 0 || value > max)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s %lld is out of range", what, (long long) value),
				 errdetail("It must be from 0 to %lld.", (long long) max)));
	return (uint64) value;
}

PG_FUNCTION_INFO_V1(cdc_position);
Datum
cdc_position(PG_FUNCTION_ARGS)
{
	CdcPosition p = {.kind = CDC_POSITION_LSN, .nparts = 3};

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	p.parts[0] = PG_GETARG_LSN(0);
	p.parts[1] = get_number_arg(fcinfo, 1, "ordinal", PG_INT64_MAX);
	p.parts[2] = get_number_arg(fcinfo, 2, "sub_ordinal", PG_INT64_MAX);
	p.epoch = (uint32) get_number_arg(fcinfo, 3, "epoch", PG_UINT32_MAX);
	PG_RETURN_DATUM(cdc_value_from_position(&p));
}

PG_FUNCTION_INFO_V1(cdc_position_from_lsn);
Datum
cdc_position_from_lsn(PG_FUNCTION_ARGS)
{
	CdcPosition p = {.kind = CDC_POSITION_LSN, .nparts = 1};

	p.parts[0] = PG_GETARG_LSN(0);
	PG_RETURN_DATUM(cdc_value_from_position(&p));
}

/* The argument, refused if it has no LSN to give. */
static void
get_lsn_headed_arg(FunctionCallInfo fcinfo, CdcPosition *p)
{
	struct varlena *v = PG_GETARG_CDC_POSITION(0);

	cdc_value_to_position(v, p);
	if (p->kind != CDC_POSITION_LSN)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("position %s has no LSN",
						cdc_payload_text(cdc_value_bytes(v), cdc_value_len(v))),
				 errdetail("The position begins with a number."),
				 errhint("Use cdc_position_part() or cdc_position_parts().")));
}

PG_FUNCTION_INFO_V1(cdc_position_to_lsn);
Datum
cdc_position_to_lsn(PG_FUNCTION_ARGS)
{
	CdcPosition p;

	get_lsn_headed_arg(fcinfo, &p);
	if (p.epoch != 0 || p.nparts > 1)
	{
		char		text[CDC_POSITION_MAX_TEXT];

		(void) cdc_position_print(&p, text);
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("position %s does not fit type %s", text, "pg_lsn"),
				 errdetail("The epoch and the parts after the LSN would be lost."),
				 errhint("Use cdc_position_lsn() to take the LSN alone.")));
	}
	PG_RETURN_LSN(p.parts[0]);
}

PG_FUNCTION_INFO_V1(cdc_position_with_epoch);
Datum
cdc_position_with_epoch(PG_FUNCTION_ARGS)
{
	CdcPosition p;

	cdc_value_to_position(PG_GETARG_CDC_POSITION(0), &p);
	p.epoch = (uint32) get_number_arg(fcinfo, 1, "epoch", PG_UINT32_MAX);
	PG_RETURN_DATUM(cdc_value_from_position(&p));
}

/* ---------- pieces ---------- */

PG_FUNCTION_INFO_V1(cdc_position_lsn);
Datum
cdc_position_lsn(PG_FUNCTION_ARGS)
{
	CdcPosition p;

	get_lsn_headed_arg(fcinfo, &p);
	PG_RETURN_LSN(p.parts[0]);
}

PG_FUNCTION_INFO_V1(cdc_position_epoch);
Datum
cdc_position_epoch(PG_FUNCTION_ARGS)
{
	CdcPosition p;

	cdc_value_to_position(PG_GETARG_CDC_POSITION(0), &p);
	PG_RETURN_INT64((int64) p.epoch);
}

PG_FUNCTION_INFO_V1(cdc_position_part);
Datum
cdc_position_part(PG_FUNCTION_ARGS)
{
	int32		n = PG_GETARG_INT32(1);
	CdcPosition p;

	if (n < 1 || n > CDC_POSITION_MAX_PARTS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("part number %d is out of range", n),
				 errdetail("The parts of a position are numbered from 1 to %d.",
						   CDC_POSITION_MAX_PARTS)));
	cdc_value_to_position(PG_GETARG_CDC_POSITION(0), &p);
	PG_RETURN_DATUM(cdc_numeric_from_part(p.parts[n - 1]));
}

PG_FUNCTION_INFO_V1(cdc_position_parts);
Datum
cdc_position_parts(PG_FUNCTION_ARGS)
{
	CdcPosition p;
	Datum		parts[CDC_POSITION_MAX_PARTS];
	int			i;

	cdc_value_to_position(PG_GETARG_CDC_POSITION(0), &p);
	for (i = 0; i < p.nparts; i++)
		parts[i] = cdc_numeric_from_part(p.parts[i]);
	PG_RETURN_ARRAYTYPE_P(construct_array(parts, p.nparts, NUMERICOID,
										  -1, false, TYPALIGN_INT));
}

/* ---------- the law's comparison ---------- */

/*
 * Is incoming real and newer than stored?  Never NULL: no position, given as
 * NULL or as LSN 0/0, is below every real one and supersedes nothing.
 */
PG_FUNCTION_INFO_V1(cdc_supersedes);
Datum
cdc_supersedes(PG_FUNCTION_ARGS)
{
	struct varlena *incoming;
	struct varlena *stored;

	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(false);
	incoming = PG_GETARG_CDC_POSITION(0);
	if (!cdc_position_is_real(cdc_value_bytes(incoming)))
		PG_RETURN_BOOL(false);
	if (PG_ARGISNULL(1))
		PG_RETURN_BOOL(true);
	stored = PG_GETARG_CDC_POSITION(1);
	if (!cdc_position_is_real(cdc_value_bytes(stored)))
		PG_RETURN_BOOL(true);
	cdc_value_check_kinds(cdc_value_bytes(incoming), cdc_value_len(incoming),
						 cdc_value_bytes(stored), cdc_value_len(stored));
	PG_RETURN_BOOL(cdc_value_compare(incoming, stored) > 0);
}
