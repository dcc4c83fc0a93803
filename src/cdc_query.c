/*-------------------------------------------------------------------------
 *
 * cdc_query.c
 *		The query that reads staging.
 *
 * It is a plain SELECT, or with consume => 'delete' one DELETE .. RETURNING.
 * A bookmark adds a condition on the transaction that loaded a row; a snapshot
 * comes in key order.
 * Where rows are taken as they stand (cols->all_columns) it selects all columns
 * in their order, so that the executor hands on the row itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_operator.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "cdc_attach.h"
#include "cdc_consume.h"

/* A column of the query; where it stands. */
static int
add_column(CdcQuery *q, StringInfo sql, AttrNumber attno)
{
	TupleDesc	desc = RelationGetDescr(q->cols->staging);

	if (attno == 0)
		return -1;
	if (q->cols->all_columns)
		return attno - 1;
	appendStringInfo(sql, "%s%s", sql->len > 0 ? ", " : "",
					 quote_identifier(NameStr(TupleDescAttr(desc, attno - 1)->attname)));
	return q->selected++;
}

static int *
add_columns(CdcQuery *q, StringInfo sql, int n, const AttrNumber *attnos)
{
	int		   *at = palloc(sizeof(int) * (n + 1));

	for (int i = 0; i < n; i++)
		at[i] = add_column(q, sql, attnos[i]);
	return at;
}

/* All columns as they stand in the row: the executor hands it on as it is. */
static void
add_row(CdcQuery *q, StringInfo sql)
{
	TupleDesc	desc = RelationGetDescr(q->cols->staging);

	for (int i = 0; i < desc->natts; i++)
		appendStringInfo(sql, "%s%s", i > 0 ? ", " : "",
						 TupleDescAttr(desc, i)->attisdropped ? "NULL" :
						 quote_identifier(NameStr(TupleDescAttr(desc, i)->attname)));
}

static void
needs(CdcQuery *q, int n, const int *at)
{
	for (int i = 0; i < n; i++)
		q->need = Max(q->need, at[i] + 1);
}

/*
 * Build the query and note where its columns stand.  Both are in the current
 * memory context.
 */
char *
cdc_query_build(CdcQuery *q, CdcColumns *cols, const CdcRule *rule)
{
	Relation	rel = cols->staging;
	char	   *from = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												  RelationGetRelationName(rel));
	bool		consume = rule->consume == CDC_CONSUME_DELETE && !rule->dry_run;
	AttrNumber *attnos = palloc(sizeof(AttrNumber) * (cols->ncols + 1));
	StringInfoData list;
	StringInfoData sql;

	memset(q, 0, sizeof(CdcQuery));
	q->cols = cols;
	initStringInfo(&list);
	if (cols->all_columns)
		add_row(q, &list);
	if (rule->staging_position == NULL)
		q->pos_at = add_columns(q, &list, cols->npos, cols->pos_attno);
	else if (!cols->all_columns)
	{
		appendStringInfo(&list, "(%s\n)", rule->staging_position);
		q->pos_at = palloc0(sizeof(int));
		q->selected++;
	}
	q->op_at = add_column(q, &list, cols->op_attno);
	q->flag_at = add_column(q, &list, cols->flag_attno);
	q->unchanged_at = add_column(q, &list, cols->unchanged_attno);
	q->bookmark_at = add_column(q, &list, cols->bookmark_attno);
	q->absent_at = add_column(q, &list, cols->absent_attno);
	q->time_at = add_column(q, &list, cols->time_attno);
	q->key_at = add_columns(q, &list, cols->nkeys, cols->key_attno);
	for (int i = 0; i < cols->ncols; i++)
		attnos[i] = cols->cols[i].staging_attno;
	q->col_at = add_columns(q, &list, cols->ncols, attnos);
	q->old_at = add_columns(q, &list, cols->nold, cols->old_attno);

	if (q->pos_at != NULL)
		needs(q, cols->npos, q->pos_at);
	needs(q, 1, &q->op_at);
	needs(q, 1, &q->flag_at);
	needs(q, cols->nkeys, q->key_at);
	needs(q, cols->nold, q->old_at);

	initStringInfo(&sql);
	if (consume)
		appendStringInfo(&sql, "DELETE FROM %s", from);
	else
		appendStringInfo(&sql, "SELECT %s FROM %s", list.data, from);
	if (rule->staging_filter != NULL)
		appendStringInfo(&sql, " WHERE (%s\n)", rule->staging_filter);
	if (cols->bookmark != NULL)
		appendStringInfo(&sql, " %s %s", rule->staging_filter != NULL ? "AND" : "WHERE",
						 cdc_bookmark_condition(cols->bookmark,
												quote_identifier(get_attname(RelationGetRelid(rel),
																			 cols->bookmark_attno,
																			 false))));
	if (rule->order_by != NULL)
		appendStringInfo(&sql, " ORDER BY %s", rule->order_by);
	if (consume)
		appendStringInfo(&sql, " RETURNING %s", list.data);
	return sql.data;
}

/* ---------- the order of a snapshot's rows ---------- */

static char *
operator_name(Oid operator)
{
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(operator));
	Form_pg_operator form;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", operator);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	name = psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(form->oprnamespace)),
					NameStr(form->oprname));
	ReleaseSysCache(tuple);
	return name;
}

/* A key column of the snapshot as a value of the target's column. */
static char *
key_expression(const CdcColumns *cols, const CdcKey *key, int i)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(cols->staging), cols->key_attno[i] - 1);
	const char *name = quote_identifier(NameStr(att->attname));
	char	   *type;
	Oid			func;

	/* without a cast it may still be of another type, with other operators */
	if (cols->key_cast[i] == NULL && att->atttypid == key->type)
		return pstrdup(name);
	type = format_type_extended(key->type, key->typmod,
								FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
	/* as the conversion of a value goes, through text where there is no cast */
	if (getBaseType(att->atttypid) != getBaseType(key->type) &&
		find_coercion_pathway(key->type, att->atttypid, COERCION_ASSIGNMENT, &func) == COERCION_PATH_NONE)
		return psprintf("(%s::pg_catalog.text)::%s", name, type);
	return psprintf("(%s)::%s", name, type);
}

/*
 * An ORDER BY list that brings rows into the order of the target's key index:
 * the snapshot's, or with cols NULL the target's own.
 */
char *
cdc_query_order(const CdcTarget *target, const CdcColumns *cols)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < target->nkeys; i++)
	{
		const CdcKey *key = &target->keys[i];
		Oid			collation = TupleDescAttr(RelationGetDescr(target->rel),
											  key->attno - 1)->attcollation;

		appendStringInfo(&s, "%s%s", i > 0 ? ", " : "", cols != NULL ?
						 key_expression(cols, key, i) : quote_identifier(key->name));
		if (OidIsValid(key->collation) && (cols != NULL || key->collation != collation))
			appendStringInfo(&s, " COLLATE %s", cdc_collation_name(key->collation));
		appendStringInfo(&s, " USING %s", operator_name(key->sort_op));
	}
	return s.data;
}
