/*-------------------------------------------------------------------------
 *
 * cdc_poscol.c
 *		Positions spread over columns: read from them and written to them.
 *
 * A relation keeps a position either in one cdc_position column or in several
 * columns: a pg_lsn (LSN-headed) or a numeric or integer (number-headed)
 * first, whole numbers after it.  Inside, every position is a CdcPos.
 *
 * Such a column, and that of the tombstone, may be of a domain or of a limited
 * precision: what is written obeys it, as what a statement writes does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/syscache.h"

#include "cdc_apply.h"

static Oid	position_type = InvalidOid;

/* The type's OID: it lives in the schema of the function that was called. */
Oid
cdc_position_type(void)
{
	return position_type;
}

void
cdc_position_type_of_function(Oid function)
{
	position_type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("cdc_position"),
									ObjectIdGetDatum(get_func_namespace(function)));
}

/* May a column of this base type be the first, or a later, position column? */
bool
cdc_position_type_ok(Oid type, bool first, bool single)
{
	if (type == position_type)
		return first && single;
	return type == LSNOID || type == NUMERICOID || type == INT8OID || type == INT4OID ||
		type == INT2OID;
}

static void
refuse_part(Oid type, Datum value)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("position part out of range: %s", cdc_value_text(type, value, false)),
			 errdetail("A part is a whole number from 0 to 18446744073709551615.")));
}

static uint64
part_from_datum(Oid type, Datum value)
{
	int64		n;

	switch (type)
	{
		case LSNOID:
			return (uint64) DatumGetLSN(value);
		case NUMERICOID:
			return cdc_part_from_numeric(value);
		case INT8OID:
			n = DatumGetInt64(value);
			break;
		case INT4OID:
			n = DatumGetInt32(value);
			break;
		default:
			n = DatumGetInt16(value);
			break;
	}
	if (n < 0)
		refuse_part(type, value);
	return (uint64) n;
}

/*
 * Assemble a position from n column values.  NULL in the first column, or an
 * LSN of 0/0, is no position; NULL in a later one is 0.
 */
void
cdc_position_from_columns(int n, const Oid *types, const Datum *values, const bool *isnull,
						  CdcPos *pos)
{
	CdcPosition p;

	pos->len = 0;
	if (isnull[0])
		return;
	if (types[0] == position_type)
	{
		struct varlena *v = (struct varlena *) DatumGetPointer(values[0]);

		if (!cdc_varlena_is_plain(v))
			v = PG_DETOAST_DATUM_PACKED(values[0]);
		pos->len = VARSIZE_ANY_EXHDR(v);
		cdc_position_put(pos->bytes, (const uint8 *) VARDATA_ANY(v), pos->len);
	}
	else
	{
		memset(&p, 0, sizeof(p));
		p.kind = types[0] == LSNOID ? CDC_POSITION_LSN : CDC_POSITION_NUMBER;
		p.nparts = n;
		for (int i = 0; i < n; i++)
			p.parts[i] = isnull[i] ? 0 : part_from_datum(types[i], values[i]);
		pos->len = cdc_position_pack(&p, pos->bytes);
	}
	if (!cdc_position_is_real(pos->bytes))
		pos->len = 0;
}

static Datum
datum_from_part(Oid type, uint64 part)
{
	int64		max = PG_INT64_MAX;

	if (type == LSNOID)
		return LSNGetDatum(part);
	if (type == NUMERICOID)
		return cdc_numeric_from_part(part);
	if (type == INT4OID)
		max = PG_INT32_MAX;
	else if (type == INT2OID)
		max = PG_INT16_MAX;
	if (part > (uint64) max)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("position part " UINT64_FORMAT " does not fit a column of type %s", part,
						format_type_be(type)),
				 errhint("Use a column of a wider type, or one cdc_position column.")));
	if (type == INT8OID)
		return Int64GetDatum((int64) part);
	return type == INT4OID ? Int32GetDatum((int32) part) : Int16GetDatum((int16) part);
}

/*
 * Take a real position apart into values of the target's several position
 * columns; refused where they have no room for it.
 */
void
cdc_position_to_columns(const CdcTarget *target, const uint8 *pos, int len, Datum *values)
{
	CdcPosition p;

	if (!cdc_position_unpack(pos, len, &p))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("stored value is not a cdc_position")));
	if (p.kind != target->pos_kind)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("position %s does not fit the position columns of target \"%s\"",
						cdc_pos_text(pos, len), target->name),
				 errdetail("The columns hold %s positions.",
						   target->pos_kind == CDC_POSITION_LSN ? "LSN-headed" : "number-headed"),
				 errhint("Use one cdc_position column, or positions of the columns' kind.")));
	if (p.epoch != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("target \"%s\" has no room for the epoch of position %s", target->name,
						cdc_pos_text(pos, len)),
				 errhint("Use one cdc_position column.")));
	if (p.nparts > target->npos)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("position %s has more parts than target \"%s\" has position columns",
						cdc_pos_text(pos, len), target->name),
				 errhint("Use one cdc_position column, or name as many position_columns as there are parts.")));
	for (int i = 0; i < target->npos; i++)
		values[i] = datum_from_part(target->pos_type[i], p.parts[i]);
}

/* ---------- what the columns' own types ask for ---------- */

/* From a value of the base type to one of the column, NULL where all are. */
static ExprState *
make_fit(const CdcTarget *target, AttrNumber attno, Oid base)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(target->rel), attno - 1);
	CaseTestExpr *input = makeNode(CaseTestExpr);
	Node	   *expr;

	input->typeId = base;
	input->typeMod = -1;
	expr = coerce_to_target_type(NULL, (Node *) input, base, att->atttypid, att->atttypmod,
								 COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
	if (expr == (Node *) input)
		return NULL;
	return ExecInitExpr(expression_planner((Expr *) expr), NULL);
}

/* Prepare what is written to position and tombstone columns, for good. */
void
cdc_target_make_fits(CdcTarget *target)
{
	target->fits = palloc0(sizeof(ExprState *) * target->natts);
	for (int i = 0; i < target->npos; i++)
		target->fits[target->pos_attno[i] - 1] = make_fit(target, target->pos_attno[i],
														  target->pos_type[i]);
	if (target->tomb_attno != 0)
		target->fits[target->tomb_attno - 1] =
			make_fit(target, target->tomb_attno, target->tomb_time ? TIMESTAMPTZOID : BOOLOID);
}

/* Make a value one of the column's type, or refuse it as that type does. */
void
cdc_target_fit(CdcTarget *target, AttrNumber attno, Datum *value, bool *isnull)
{
	ExprContext *econtext = GetPerTupleExprContext(target->estate);

	if (target->fits[attno - 1] == NULL)
		return;
	econtext->caseValue_datum = *value;
	econtext->caseValue_isNull = *isnull;
	*value = ExecEvalExpr(target->fits[attno - 1], econtext, isnull);
}

/* A part that its column rounds would be another position. */
static void
check_part(const CdcTarget *target, int i, Datum part, Datum stored)
{
	if (target->pos_type[i] == NUMERICOID &&
		!DatumGetBool(DirectFunctionCall2(numeric_eq, part, stored)))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("position part %s does not fit column \"%s\" of target \"%s\"",
						DatumGetCString(DirectFunctionCall1(numeric_out, part)),
						NameStr(TupleDescAttr(RelationGetDescr(target->rel),
											  target->pos_attno[i] - 1)->attname),
						target->name),
				 errdetail("The column rounds it.")));
}

/* Write a position (len 0: none) to the target's several position columns. */
static void
put_parts(CdcTarget *target, CdcLeaf *leaf, const uint8 *pos, int len, Datum *values, bool *isnull)
{
	Datum		parts[CDC_POSITION_MAX_PARTS] = {0};

	if (len > 0)
		cdc_position_to_columns(target, pos, len, parts);
	for (int i = 0; i < target->npos; i++)
	{
		int			col = leaf->attno[target->pos_attno[i] - 1] - 1;

		isnull[col] = len == 0;
		values[col] = parts[i];
		cdc_target_fit(target, target->pos_attno[i], &values[col], &isnull[col]);
		if (len > 0)
			check_part(target, i, parts[i], values[col]);
	}
}

/* A position of epoch 0 gets this epoch; others are taken as written. */
void
cdc_pos_enter_epoch(CdcPos *pos, int64 epoch)
{
	CdcPosition p;

	if (epoch == 0 || pos->len == 0 || !cdc_position_unpack(pos->bytes, pos->len, &p) ||
		p.epoch != 0)
		return;
	p.epoch = (uint32) epoch;
	pos->len = cdc_position_pack(&p, pos->bytes);
}

/* An argument of type cdc_position by value; NULL and 0/0 are none. */
void
cdc_pos_from_datum(CdcPos *pos, Datum value, bool isnull)
{
	Oid			type = position_type;

	cdc_position_from_columns(1, &type, &value, &isnull, pos);
}

/*
 * Set the position of a row of leaf that is being built in values and isnull.
 * Allocates in the current memory context.
 */
void
cdc_target_put_position(CdcTarget *target, CdcLeaf *leaf, const uint8 *pos, int len,
						Datum *values, bool *isnull)
{
	int			col = leaf->attno[target->pos_attno[0] - 1] - 1;
	struct varlena *v;

	if (!target->pos_single)
	{
		put_parts(target, leaf, pos, len, values, isnull);
		return;
	}
	isnull[col] = len == 0;
	values[col] = (Datum) 0;
	if (len > 0)
	{
		v = palloc(VARHDRSZ + len);
		SET_VARSIZE(v, VARHDRSZ + len);
		memcpy(VARDATA(v), pos, len);
		values[col] = PointerGetDatum(v);
	}
	cdc_target_fit(target, target->pos_attno[0], &values[col], &isnull[col]);
}
