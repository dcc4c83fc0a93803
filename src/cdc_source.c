/*-------------------------------------------------------------------------
 *
 * cdc_source.c
 *		Positions from the coordinates that sources give.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"

#include "cdc_value.h"

PG_FUNCTION_INFO_V1(cdc_position_from_numbers);

/*
 * A number-headed position: whole numbers, most significant first.  A NULL
 * part gives NULL; none at all, or more than eight, is an error.
 */
Datum
cdc_position_from_numbers(PG_FUNCTION_ARGS)
{
	CdcPosition p = {.kind = CDC_POSITION_NUMBER};
	Datum	   *parts;
	bool	   *nulls;
	int			n;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), NUMERICOID, -1, false, TYPALIGN_INT,
					  &parts, &nulls, &n);
	if (n < 1 || n > CDC_POSITION_MAX_PARTS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a position has 1 to %d parts, not %d", CDC_POSITION_MAX_PARTS, n)));
	for (int i = 0; i < n; i++)
		if (nulls[i])
			PG_RETURN_NULL();
	for (int i = 0; i < n; i++)
		p.parts[i] = cdc_part_from_numeric(parts[i]);
	p.nparts = n;
	PG_RETURN_DATUM(cdc_value_from_position(&p));
}
