/*-------------------------------------------------------------------------
 *
 * cdc_column.c
 *		Which staging column feeds which target column, and how.
 *
 * Columns meet by name, never by number.  Types that differ are converted by
 * assignment cast, else through text; keys when an event is read, all other
 * values only when they are written.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "cdc_apply.h"
#include "cdc_consume.h"

/* Prefix of the staging columns that hold the key before the change. */
#define CDC_OLD_PREFIX	"__old_"

/* .. and which column lists what an event does not carry, unless the rule names one. */
#define CDC_UNCHANGED	"__unchanged"

/* .. and which one those that its source does not have. */
#define CDC_ABSENT	"__absent"

/* A staging column by name, 0 if there is none (system columns do not count). */
static AttrNumber
find_column(Relation rel, const char *name)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped &&
			strcmp(NameStr(TupleDescAttr(desc, i)->attname), name) == 0)
			return i + 1;
	return 0;
}

/* A staging column that must be there; param names it, NULL: it has its name from the target. */
static AttrNumber
need_column(CdcColumns *cols, const char *name, const char *what, const char *param)
{
	AttrNumber	attno = find_column(cols->staging, name);

	if (attno == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("%s column \"%s\" does not exist in staging \"%s\"", what, name,
						cols->staging_name),
				 param != NULL ? errhint("Name a column of staging in %s, as it is written: without quotes, and upper case counts.", param) :
				 errhint("Rename the column of staging, or make a view over staging that does.")));
	return attno;
}

bool
cdc_has_name(List *names, const char *name)
{
	ListCell   *lc;

	foreach(lc, names)
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	return false;
}

/* Refuse what cannot be staging. */
void
cdc_staging_check(Relation staging)
{
	switch (staging->rd_rel->relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_PARTITIONED_TABLE:
		case RELKIND_VIEW:
		case RELKIND_MATVIEW:
		case RELKIND_FOREIGN_TABLE:
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("staging \"%s\" cannot be read", cdc_relation_name(staging)),
					 errdetail("Staging is a table, view, materialized view or foreign table.")));
	}
}

/* ---------- conversion ---------- */

/*
 * The conversion of a staging column to a target column's type, NULL when the
 * value can be taken as it is.
 */
ExprState *
cdc_column_cast(Form_pg_attribute from, Form_pg_attribute to)
{
	CaseTestExpr *input = makeNode(CaseTestExpr);
	ParseState *pstate;
	Node	   *expr;

	if (from->atttypid == to->atttypid && (to->atttypmod < 0 || to->atttypmod == from->atttypmod))
		return NULL;
	input->typeId = from->atttypid;
	input->typeMod = from->atttypmod;
	input->collation = from->attcollation;
	expr = coerce_to_target_type(NULL, (Node *) input, from->atttypid, to->atttypid, to->atttypmod,
								 COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
	if (expr == NULL)
	{
		CoerceViaIO *io = makeNode(CoerceViaIO);

		io->arg = (Expr *) input;
		io->resulttype = getBaseType(to->atttypid);
		io->resultcollid = get_typcollation(io->resulttype);
		io->coerceformat = COERCE_IMPLICIT_CAST;
		io->location = -1;
		expr = coerce_to_target_type(NULL, (Node *) io, io->resulttype, to->atttypid,
									 to->atttypmod, COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
	}
	if (expr == (Node *) input ||
		(IsA(expr, RelabelType) && ((RelabelType *) expr)->arg == (Expr *) input))
		return NULL;
	pstate = make_parsestate(NULL);
	assign_expr_collations(pstate, expr);
	free_parsestate(pstate);
	return ExecInitExpr(expression_planner((Expr *) expr), NULL);
}

/* Convert a value; the result may stand in the current memory context. */
Datum
cdc_column_convert(CdcColumns *cols, ExprState *cast, Datum value, bool *isnull)
{
	if (cast == NULL)
		return value;
	cols->econtext->caseValue_datum = value;
	cols->econtext->caseValue_isNull = *isnull;
	return ExecEvalExpr(cast, cols->econtext, isnull);
}

/*
 * Make the casts anew, after one has failed: what an expression was about when
 * it failed is still in its state.
 */
void
cdc_columns_renew(CdcColumns *cols)
{
	MemoryContext context = AllocSetContextCreate(cols->econtext->ecxt_per_query_memory,
												  "cdc_apply casts", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	for (int i = 0; i < cols->nkeys; i++)
	{
		if (cols->key_cast[i] != NULL)
			cols->key_cast[i] = ExecInitExpr(copyObject(cols->key_cast[i]->expr), NULL);
		if (cols->nold > 0 && cols->old_cast[i] != NULL)
			cols->old_cast[i] = ExecInitExpr(copyObject(cols->old_cast[i]->expr), NULL);
	}
	for (int i = 0; i < cols->ncols; i++)
		if (cols->cols[i].cast != NULL)
			cols->cols[i].cast = ExecInitExpr(copyObject(cols->cols[i].cast->expr), NULL);
	MemoryContextSwitchTo(old);
	if (cols->cast_context != NULL)
		MemoryContextDelete(cols->cast_context);
	cols->cast_context = context;
}

/* ---------- the map ---------- */

static void
map_positions(CdcColumns *cols, CdcTarget *target, const CdcRule *rule)
{
	int			n = rule->staging_position != NULL ? 1 : target->npos;

	if (cdc_rule_is_snapshot(rule))
		return;
	cols->pos_attno = palloc0(sizeof(AttrNumber) * n);
	cols->pos_type = palloc0(sizeof(Oid) * n);
	if (rule->staging_position != NULL)
	{
		cols->pos_type[0] = getBaseType(cdc_columns_expression(cols->staging,
															   rule->staging_position,
															   "staging_position", &cols->used,
															   &cols->position));
		if (!cdc_position_type_ok(cols->pos_type[0], true, true))
			cdc_refuse_position_type("staging", "staging_position", cols->pos_type[0]);
		cols->npos = n;
		return;
	}
	for (int i = 0; i < n; i++)
	{
		const char *name = NameStr(TupleDescAttr(RelationGetDescr(target->rel),
												 target->pos_attno[i] - 1)->attname);

		cols->pos_attno[i] = find_column(cols->staging, name);
		if (cols->pos_attno[i] == 0 && target->pos_single &&
			find_column(cols->staging, "source_lsn") != 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("position column \"%s\" does not exist in staging \"%s\"", name,
							cols->staging_name),
					 errhint("Use staging_position => '%s'.",
							 find_column(cols->staging, "source_ordinal") != 0 ?
							 "cdc_position(source_lsn, source_ordinal)" :
							 "cdc_position(source_lsn)")));
		if (cols->pos_attno[i] == 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("position column \"%s\" does not exist in staging \"%s\"", name,
							cols->staging_name),
					 errhint("Give the position of an event as an expression in staging_position.")));
		cols->pos_type[i] = getBaseType(TupleDescAttr(RelationGetDescr(cols->staging),
													  cols->pos_attno[i] - 1)->atttypid);
		if (!cdc_position_type_ok(cols->pos_type[i], i == 0, n == 1))
			cdc_refuse_position_type("staging", name, cols->pos_type[i]);
	}
	cols->npos = n;
}

/*
 * A column of staging that lists columns: as named, else the one that event
 * views have, if it is there and no column of the target's.  0: there is none.
 */
static AttrNumber
find_list(CdcColumns *cols, const CdcRule *rule, const char *named, const char *name)
{
	AttrNumber	attno;
	Oid			type;

	if (named != NULL)
		attno = need_column(cols, named, "unchanged", "unchanged_column");
	else if (cdc_has_name(rule->except_columns, name) || get_attnum(rule->target, name) > 0)
		return 0;
	else
		attno = find_column(cols->staging, name);
	if (attno == 0)
		return 0;
	type = getBaseType(TupleDescAttr(RelationGetDescr(cols->staging), attno - 1)->atttypid);
	if (type != TEXTARRAYOID && type != NAMEARRAYOID && type != JSONBOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("unchanged column \"%s\" is of type %s", named ? named : name,
						format_type_be(type)),
				 errdetail("A list of unchanged columns is text[], name[] or a jsonb array."),
				 named != NULL ? errhint("Cast the column in a view over staging.") :
				 errhint("Cast the column in a view over staging, or leave it out with except_columns.")));
	return attno;
}

static void
map_lists(CdcColumns *cols, const CdcRule *rule)
{
	cols->unchanged_attno = find_list(cols, rule, rule->unchanged_column, CDC_UNCHANGED);
	cols->absent_attno = find_list(cols, rule, NULL, CDC_ABSENT);
}

/* What an event is; a snapshot's rows need not say. */
static void
map_op(CdcColumns *cols, const CdcRule *rule)
{
	TupleDesc	desc = RelationGetDescr(cols->staging);
	Oid			type;

	if (cdc_rule_is_snapshot(rule))
		return;
	cols->op_attno = rule->op_column ? need_column(cols, rule->op_column, "op", "op_column") :
		find_column(cols->staging, "op");
	if (rule->delete_flag_column != NULL)
		cols->flag_attno = need_column(cols, rule->delete_flag_column, "delete flag",
										 "delete_flag_column");
	if (cols->op_attno == 0 && cols->flag_attno == 0 && rule->default_op == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("staging \"%s\" does not say what its events are", cols->staging_name),
				 errdetail("It has no column \"op\"."),
				 errhint("Name the column in op_column or delete_flag_column, or give default_op.")));
	if (cols->op_attno != 0)
	{
		type = getBaseType(TupleDescAttr(desc, cols->op_attno - 1)->atttypid);
		if (!cdc_type_is_text_like(type) && type != CHAROID && type != NAMEOID && type != INT2OID &&
			type != INT4OID && type != INT8OID && !type_is_enum(type))
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("op column \"%s\" is of type %s",
							NameStr(TupleDescAttr(desc, cols->op_attno - 1)->attname),
							format_type_be(type)),
					 errdetail("An op is a text, \"char\", enum or integer."),
				 errhint("Cast the column in a view over staging.")));
	}
	if (cols->flag_attno != 0)
	{
		type = getBaseType(TupleDescAttr(desc, cols->flag_attno - 1)->atttypid);
		if (!cdc_type_is_text_like(type) && type != BOOLOID && type != INT2OID && type != INT4OID &&
			type != INT8OID)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("delete flag column \"%s\" is of type %s", rule->delete_flag_column,
							format_type_be(type)),
					 errdetail("A delete flag is a boolean, or text or integer that means one."),
				 errhint("Cast the column in a view over staging.")));
	}
}

/* The n-th key's column before the change, 0 when staging has none. */
static void
map_keys(CdcColumns *cols, CdcTarget *target, const CdcRule *rule)
{
	TupleDesc	from = RelationGetDescr(cols->staging);
	TupleDesc	to = RelationGetDescr(target->rel);
	int			n = target->nkeys;

	cols->nkeys = n;
	cols->key_attno = palloc0(sizeof(AttrNumber) * n);
	cols->key_cast = palloc0(sizeof(ExprState *) * n);
	cols->old_attno = palloc0(sizeof(AttrNumber) * n);
	cols->old_cast = palloc0(sizeof(ExprState *) * n);
	if (rule->old_key_columns != NIL && list_length(rule->old_key_columns) != n)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("old_key_columns names %d columns, but the key of target \"%s\" has %d",
						list_length(rule->old_key_columns), target->name, n),
				 errhint("Name one column for each column of the key, in its order.")));
	for (int i = 0; i < n; i++)
	{
		const char *name = target->keys[i].name;
		int			order = i;
		ListCell   *lc;

		cols->key_attno[i] = need_column(cols, name, "key", NULL);
		cols->key_cast[i] = cdc_column_cast(TupleDescAttr(from, cols->key_attno[i] - 1),
									  TupleDescAttr(to, target->keys[i].attno - 1));
		foreach(lc, rule->key_columns)
			if (strcmp(lfirst(lc), name) == 0)
				order = foreach_current_index(lc);
		if (rule->old_key_columns != NIL)
			cols->old_attno[i] = need_column(cols, list_nth(rule->old_key_columns, order),
											 "old key", "old_key_columns");
		else
			cols->old_attno[i] = find_column(cols->staging, psprintf(CDC_OLD_PREFIX "%s", name));
		if (cols->old_attno[i] != 0)
		{
			cols->nold++;
			cols->old_cast[i] = cdc_column_cast(TupleDescAttr(from, cols->old_attno[i] - 1),
										  TupleDescAttr(to, target->keys[i].attno - 1));
		}
	}
	if (cols->nold != n || cdc_rule_is_snapshot(rule))
		cols->nold = 0;
}

static void
map_columns(CdcColumns *cols, CdcTarget *target, const CdcRule *rule)
{
	TupleDesc	from = RelationGetDescr(cols->staging);
	TupleDesc	to = RelationGetDescr(target->rel);

	cols->cols = palloc0(sizeof(CdcColumn) * to->natts);
	for (int i = 0; i < to->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(to, i);
		CdcColumn  *col = &cols->cols[cols->ncols];
		AttrNumber	attno;
		Form_pg_attribute source;

		if (att->attisdropped || att->attgenerated != '\0' || cdc_target_is_law_column(target, i + 1) ||
			cdc_has_name(rule->except_columns, NameStr(att->attname)))
			continue;
		attno = find_column(cols->staging, NameStr(att->attname));
		if (attno == 0)
			continue;
		source = TupleDescAttr(from, attno - 1);
		col->name = pstrdup(NameStr(att->attname));
		col->attno = i + 1;
		col->staging_attno = attno;
		col->source_type = source->atttypid;
		col->source_len = source->attlen;
		col->source_byval = source->attbyval;
		col->cast = cdc_column_cast(source, att);
		col->len = att->attlen;
		col->byval = att->attbyval;
		cdc_gaps_describe(col, att->atttypid, rule->unavailable_value);
		cols->ncols++;
	}
}

/*
 * Is staging's column of the tombstone's name a flag of its own?  Nobody knows
 * unless somebody named the tombstone column.
 */
void
cdc_columns_check_tombstone(Relation staging, const char *tombstone, const CdcRule *rule)
{
	if (find_column(staging, tombstone) == 0 || cdc_has_name(rule->except_columns, tombstone) ||
		(rule->delete_flag_column != NULL && strcmp(rule->delete_flag_column, tombstone) == 0))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("staging \"%s\" has a column \"%s\" like the target's tombstone column",
					cdc_relation_name(staging), tombstone),
			 errdetail("It may be the application's own flag or the source's mark of deletes."),
			 errhint("Name tombstone_column to say that the target's column is the tombstone; name delete_flag_column too if staging's column marks deletes.")));
}

static void
check_names(CdcColumns *cols, CdcTarget *target, const CdcRule *rule)
{
	ListCell   *lc;

	foreach(lc, rule->except_columns)
	{
		/* what is recorded was said of the attached staging */
		if (!cdc_rule_is_snapshot(rule) || !rule->recorded_except)
			(void) need_column(cols, lfirst(lc), "except", "except_columns");
		for (int i = 0; i < target->nkeys; i++)
			if (strcmp(target->keys[i].name, lfirst(lc)) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("except_columns names key column \"%s\"", target->keys[i].name),
						 errdetail("An event cannot be applied without its key.")));
	}
	if (target->tomb_attno != 0 && rule->tombstone_column == NULL)
		cdc_columns_check_tombstone(cols->staging,
									NameStr(TupleDescAttr(RelationGetDescr(target->rel),
														  target->tomb_attno - 1)->attname),
									rule);
}

/*
 * Work out the whole map.  Allocates in the current memory context; staging
 * stays open as long as *cols is used.
 */
void
cdc_columns_map(CdcColumns *cols, CdcTarget *target, Relation staging, const CdcRule *rule)
{
	memset(cols, 0, sizeof(CdcColumns));
	cols->staging = staging;
	cols->staging_name = cdc_relation_name(staging);
	cols->econtext = CreateStandaloneExprContext();
	check_names(cols, target, rule);
	map_positions(cols, target, rule);
	if (rule->staging_filter != NULL &&
		cdc_columns_expression(staging, rule->staging_filter, "staging_filter",
							   &cols->used, NULL) != BOOLOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("staging_filter is not of type boolean")));
	if (rule->consume == CDC_CONSUME_BOOKMARK)
	{
		cols->bookmark = palloc0(sizeof(CdcBookmark));
		cols->bookmark_attno = cdc_bookmark_column(staging, rule->bookmark_column, true,
												   cols->bookmark);
	}
	map_op(cols, rule);
	map_lists(cols, rule);
	map_keys(cols, target, rule);
	map_columns(cols, target, rule);
	cdc_events_map(cols, target, rule);
	cdc_gaps_gather(cols);
}

/* ---------- columns on one side only ---------- */

/* Does the column say which transaction loaded a row, be it that nobody asks this time? */
static bool
is_bookmark(Form_pg_attribute att, const CdcRule *rule)
{
	return att->atttypid == XID8OID && strcmp(NameStr(att->attname), rule->bookmark_column) == 0;
}

/*
 * Names of the staging columns that the target lacks and no option uses, in
 * staging's order.
 */
List *
cdc_columns_missing(CdcTarget *target, CdcColumns *cols, const CdcRule *rule)
{
	TupleDesc	desc = RelationGetDescr(cols->staging);
	List	   *missing = NIL;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		bool		used;

		if (att->attisdropped)
			continue;
		used = find_column(target->rel, NameStr(att->attname)) != 0 ||
			cdc_has_name(rule->except_columns, NameStr(att->attname)) ||
			i + 1 == cols->op_attno || i + 1 == cols->flag_attno ||
			i + 1 == cols->unchanged_attno || i + 1 == cols->absent_attno ||
			i + 1 == cols->time_attno || is_bookmark(att, rule) ||
			bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, cols->used);
		for (int k = 0; k < cols->nkeys; k++)
			used |= cols->nold > 0 && i + 1 == cols->old_attno[k];
		if (!used)
			missing = lappend(missing, pstrdup(NameStr(att->attname)));
	}
	return missing;
}

/* "a", "b" */
char *
cdc_join_names(List *names)
{
	StringInfoData s;
	ListCell   *lc;

	initStringInfo(&s);
	foreach(lc, names)
		appendStringInfo(&s, "%s\"%s\"", s.len > 0 ? ", " : "", (char *) lfirst(lc));
	return s.data;
}

/* Columns of staging that are not applied, and are not added either. */
void
cdc_columns_report_missing(CdcOnSchema option, const CdcTarget *target, const CdcColumns *cols,
						List *missing)
{
	if (option == CDC_SCHEMA_FAIL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("target \"%s\" lacks columns of staging \"%s\"", target->name,
						cols->staging_name),
				 errdetail("Missing: %s.", cdc_join_names(missing)),
				 errhint("Add them, name them in except_columns, or use another on_schema_change.")));
	if (option == CDC_SCHEMA_WARN)
		ereport(WARNING,
				(errmsg("columns of staging \"%s\" are not applied: %s", cols->staging_name,
						cdc_join_names(missing)),
				 errdetail("Target \"%s\" has no such columns.", target->name),
				 errhint("Use on_schema_change => 'append_new_columns' to add them, or name them in except_columns.")));
}

/* Add those columns to the target, with staging's types, as the caller. */
void
cdc_columns_append(const char *target, Relation staging, List *names)
{
	ListCell   *lc;

	SPI_connect();
	foreach(lc, names)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(staging),
											  find_column(staging, lfirst(lc)) - 1);
		StringInfoData sql;

		initStringInfo(&sql);
		appendStringInfo(&sql, "ALTER TABLE %s ADD COLUMN %s %s", target,
						 quote_identifier(lfirst(lc)),
						 format_type_extended(att->atttypid, att->atttypmod,
											  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
		if (OidIsValid(att->attcollation) && att->attcollation != get_typcollation(att->atttypid))
			appendStringInfo(&sql, " COLLATE %s",
							 DatumGetCString(DirectFunctionCall1(regcollationout,
																 ObjectIdGetDatum(att->attcollation))));
		SPI_execute(sql.data, false, 0);
	}
	SPI_finish();
}
