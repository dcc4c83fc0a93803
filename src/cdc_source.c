/*-------------------------------------------------------------------------
 *
 * cdc_source.c
 *		Positions out of the coordinates that each source gives.
 *
 * Every function parses numerically and refuses what it cannot order.  The
 * texts are read by cdc_source_text.c; coordinates that come as jsonb are in
 * cdc_source_json.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "cdc_compat.h"
#include "cdc_source.h"
#include "cdc_value.h"

bool
cdc_part_try_numeric(Datum value, uint64 *part)
{
	char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, value));
	size_t		whole = strspn(text, "0123456789");
	size_t		end = whole;
	bool		ok;

	/* 5.00 is the whole number 5 */
	if (whole > 0 && text[end] == '.')
	{
		end++;
		end += strspn(text + end, "0");
	}

	/* what is left after that is a sign, a fraction, NaN or Infinity */
	ok = text[end] == '\0' &&
		cdc_source_number(text, (int) whole, part) == CDC_POSITION_OK;
	pfree(text);
	return ok;
}

/* A numeric as one part of a position: a whole number, 0 .. 2^64-1. */
uint64
cdc_part_from_numeric(Datum value)
{
	uint64		part;

	if (!cdc_part_try_numeric(value, &part))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("value %.100s is out of range for a part of a position",
						DatumGetCString(DirectFunctionCall1(numeric_out, value))),
				 errdetail("A part is a whole number from 0 to 18446744073709551615.")));
	return part;
}

Datum
cdc_numeric_from_part(uint64 part)
{
	char		digits[21];

	if (part <= (uint64) PG_INT64_MAX)
		return NumericGetDatum(int64_to_numeric((int64) part));
	snprintf(digits, sizeof(digits), UINT64_FORMAT, part);
	return DirectFunctionCall3(numeric_in, CStringGetDatum(digits),
							   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}

Datum
cdc_value_from_parts(CdcPosition *p, int nparts)
{
	p->nparts = nparts;
	return cdc_value_from_position(p);
}

/* ---------- texts of a source, or an error ---------- */

void
cdc_refuse_gtid(const char *text)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("cannot order a GTID: \"%s\"", cdc_clip(text)),
			 errdetail("GTIDs of different servers have no order, and all changes of a transaction share one."),
			 errhint("Use the binlog file and position of the same event.")));
}

uint64
cdc_part_from_binlog_file(const char *text, const char *name)
{
	uint64		number = 0;
	CdcPositionError result = cdc_source_binlog_file(text, (int) strlen(text), &number);

	if (result == CDC_POSITION_OK)
		return number;
	if (result == CDC_POSITION_OUT_OF_RANGE)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("number of the binlog file in \"%s\" is out of range: \"%s\"", name, cdc_clip(text)),
				 errdetail("A part is a whole number from 0 to 18446744073709551615.")));
	if (cdc_source_is_gtid(text, (int) strlen(text)))
		cdc_refuse_gtid(text);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			 errmsg("invalid binlog file name in \"%s\": \"%s\"", name, cdc_clip(text)),
			 errdetail("The name of a binlog file ends in its number, as in \"mysql-bin.000047\".")));
}

void
cdc_parts_from_sqlserver_lsn(const char *text, const char *name, uint64 *parts)
{
	if (!cdc_source_sqlserver_lsn(text, (int) strlen(text), parts))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid SQL Server LSN in \"%s\": \"%s\"", name, cdc_clip(text)),
				 errdetail("An LSN has 10 bytes: 8, 8 and 4 hexadecimal digits with colons between, or 20 digits, with 0x or without.")));
}

void
cdc_parts_from_rs_id(const char *text, const char *name, uint64 *parts)
{
	/* nothing but padding is none */
	if (text[strspn(text, " ")] == '\0')
		return;
	if (!cdc_source_rs_id(text, (int) strlen(text), parts))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid Oracle record set in \"%s\": \"%s\"", name, cdc_clip(text)),
				 errdetail("It has three hexadecimal numbers with dots between, as in \"0x00009a.0000d8b7.0010\".")));
}

/* ---------- functions ---------- */

PG_FUNCTION_INFO_V1(cdc_position_from_numbers);
Datum
cdc_position_from_numbers(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	CdcPosition p = {.kind = CDC_POSITION_NUMBER};
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int			i;

	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("parts of a position must be a one-dimensional array")));
	deconstruct_array(array, NUMERICOID, -1, false, TYPALIGN_INT,
					  &values, &nulls, &n);
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a position needs at least one part")));
	if (n > CDC_POSITION_MAX_PARTS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a position has at most %d parts, not %d",
						CDC_POSITION_MAX_PARTS, n)));
	for (i = 0; i < n; i++)
		if (nulls[i])
			PG_RETURN_NULL();
	for (i = 0; i < n; i++)
		p.parts[i] = cdc_part_from_numeric(values[i]);
	p.nparts = n;
	PG_RETURN_DATUM(cdc_value_from_position(&p));
}

PG_FUNCTION_INFO_V1(cdc_position_from_binlog);
Datum
cdc_position_from_binlog(PG_FUNCTION_ARGS)
{
	CdcPosition p = {.kind = CDC_POSITION_NUMBER};

	p.parts[0] = cdc_part_from_binlog_file(text_to_cstring(PG_GETARG_TEXT_PP(0)), "file");
	p.parts[1] = cdc_part_from_numeric(PG_GETARG_DATUM(1));
	p.parts[2] = cdc_part_from_numeric(PG_GETARG_DATUM(2));
	PG_RETURN_DATUM(cdc_value_from_parts(&p, 3));
}

/* NULL without a commit LSN; no other argument has to be there. */
PG_FUNCTION_INFO_V1(cdc_position_from_sqlserver);
Datum
cdc_position_from_sqlserver(PG_FUNCTION_ARGS)
{
	CdcPosition p = {.kind = CDC_POSITION_NUMBER};

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	cdc_parts_from_sqlserver_lsn(text_to_cstring(PG_GETARG_TEXT_PP(0)), "commit_lsn", p.parts);
	if (!PG_ARGISNULL(1))
		cdc_parts_from_sqlserver_lsn(text_to_cstring(PG_GETARG_TEXT_PP(1)), "change_lsn",
									 p.parts + 3);
	if (!PG_ARGISNULL(2))
		p.parts[6] = cdc_part_from_numeric(PG_GETARG_DATUM(2));
	PG_RETURN_DATUM(cdc_value_from_parts(&p, 7));
}

/* NULL without an SCN; no other argument has to be there. */
PG_FUNCTION_INFO_V1(cdc_position_from_oracle);
Datum
cdc_position_from_oracle(PG_FUNCTION_ARGS)
{
	CdcPosition p = {.kind = CDC_POSITION_NUMBER};

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	p.parts[0] = cdc_part_from_numeric(PG_GETARG_DATUM(0));
	if (!PG_ARGISNULL(1))
		cdc_parts_from_rs_id(text_to_cstring(PG_GETARG_TEXT_PP(1)), "rs_id", p.parts + 1);
	if (!PG_ARGISNULL(2))
		p.parts[4] = cdc_part_from_numeric(PG_GETARG_DATUM(2));
	PG_RETURN_DATUM(cdc_value_from_parts(&p, 5));
}

PG_FUNCTION_INFO_V1(cdc_position_from_change_sequence_number);
Datum
cdc_position_from_change_sequence_number(PG_FUNCTION_ARGS)
{
	text	   *csn = PG_GETARG_TEXT_PP(0);
	CdcPosition p;

	if (cdc_source_csn_parse(VARDATA_ANY(csn), VARSIZE_ANY_EXHDR(csn), PG_GETARG_BOOL(1), &p) != CDC_POSITION_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid change sequence number: \"%s\"", cdc_clip(text_to_cstring(csn))),
				 errdetail("It has one to four sections with slashes between, each of 1 to 16 hexadecimal digits.")));
	PG_RETURN_DATUM(cdc_value_from_position(&p));
}

PG_FUNCTION_INFO_V1(cdc_position_to_change_sequence_number);
Datum
cdc_position_to_change_sequence_number(PG_FUNCTION_ARGS)
{
	struct varlena *v = PG_GETARG_CDC_POSITION(0);
	CdcPosition p;
	char		csn[CDC_CSN_MAX_TEXT];
	int			len;

	cdc_value_to_position(v, &p);
	len = cdc_source_csn_print(&p, csn);
	if (len < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("position %s does not fit a change sequence number",
						cdc_payload_text(cdc_value_bytes(v), cdc_value_len(v))),
				 errdetail("It has room for %d parts, and none for an epoch.", CDC_CSN_SECTIONS),
				 p.epoch != 0 ?
				 errhint("cdc_position_with_epoch(pos, 0) takes the epoch away, but what is written then does not outrank the old log.") : 0));
	PG_RETURN_TEXT_P(cstring_to_text_with_len(csn, len));
}
