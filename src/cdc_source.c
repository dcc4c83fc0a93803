/*-------------------------------------------------------------------------
 *
 * cdc_source.c
 *		Positions out of the coordinates that each source gives.
 *
 * Every function here parses numerically and refuses what it cannot order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "cdc_compat.h"
#include "cdc_position.h"
#include "cdc_value.h"

/* A numeric as one part of a position: a whole number, 0 .. 2^64-1. */
uint64
cdc_part_from_numeric(Datum value)
{
	char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, value));
	size_t		whole = strspn(text, "0123456789");
	size_t		end = whole;
	CdcPosition p;

	/* 5.00 is the whole number 5 */
	if (whole > 0 && text[end] == '.')
	{
		end++;
		end += strspn(text + end, "0");
	}

	/*
	 * What is left after that is a sign, a fraction, NaN or Infinity.  The
	 * digits alone are a number-headed position: its parser knows the range.
	 */
	if (text[end] != '\0' ||
		cdc_position_parse(text, (int) whole, &p) != CDC_POSITION_OK)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("value %.100s is out of range for a part of a position", text),
				 errdetail("A part is a whole number from 0 to 18446744073709551615.")));
	pfree(text);
	return p.parts[0];
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
