/*-------------------------------------------------------------------------
 *
 * cdc_expr.c
 *		Expressions that a user gives over one staging row.
 *
 * An expression is parsed alone and must be just one: what passes here can
 * stand between parentheses in the query that reads staging, and no text can
 * break out of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "cdc_registry.h"

typedef struct ExprContextArg
{
	const char *text;
	const char *param;
} ExprContextArg;

/* Point a syntax error at the expression instead of at the calling query. */
static void
expression_context(void *arg)
{
	ExprContextArg *ctx = (ExprContextArg *) arg;
	int			pos = geterrposition();

	if (pos > 0)
	{
		errposition(0);
		internalerrposition(pos);
		internalerrquery(ctx->text);
	}
	errcontext("%s", ctx->param);
}

static void
refuse_expression(const char *param, const char *text, const char *why)
{
	if (strcmp(param, "scope") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("scope is not one expression over a row of the target: %s", cdc_clip(text)),
				 errdetail("%s", why)));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s is not one expression over a staging row: %s", param, cdc_clip(text)),
			 errdetail("%s", why),
			 errhint("Put it into a view over staging, and use the view.")));
}

static Node *
parse_one(const char *text, const char *param)
{
	List	   *parsed = raw_parser(text, RAW_PARSE_PLPGSQL_EXPR);
	SelectStmt *s = (SelectStmt *) linitial_node(RawStmt, parsed)->stmt;
	ResTarget  *target;

	if (!IsA(s, SelectStmt) || s->op != SETOP_NONE || list_length(s->targetList) != 1 ||
		s->distinctClause || s->intoClause || s->fromClause || s->whereClause ||
		s->groupClause || s->havingClause || s->windowClause || s->valuesLists ||
		s->sortClause || s->limitOffset || s->limitCount || s->lockingClause || s->withClause)
		refuse_expression(param, text, "It holds more than an expression.");
	target = linitial_node(ResTarget, s->targetList);
	if (target->name != NULL)
		refuse_expression(param, text, "It has a column alias.");
	/* a bare star is no expression for the server's own transformation */
	if (IsA(target->val, ColumnRef) && IsA(llast(((ColumnRef *) target->val)->fields), A_Star))
		refuse_expression(param, text, "It is a whole row.");
	return target->val;
}

/*
 * Transform an expression over staging's columns under the present
 * search_path; its columns are added to *used.
 */
static Node *
transform(Relation staging, const char *text, const char *param, Bitmapset **used)
{
	ExprContextArg arg = {text, param};
	ErrorContextCallback callback = {error_context_stack, expression_context, &arg};
	ParseState *pstate = make_parsestate(NULL);
	ParseNamespaceItem *item;
	Node	   *expr;

	error_context_stack = &callback;
	item = addRangeTableEntryForRelation(pstate, staging, AccessShareLock, NULL, true, true);
	addNSItemToQuery(pstate, item, true, true, true);
	expr = transformExpr(pstate, parse_one(text, param), EXPR_KIND_OTHER);
	assign_expr_collations(pstate, expr);
	error_context_stack = callback.previous;

	if (pstate->p_hasSubLinks)
		refuse_expression(param, text, "It has a subquery.");
	if (pstate->p_hasAggs || pstate->p_hasWindowFuncs)
		refuse_expression(param, text, "It has an aggregate or window function.");
	if (pstate->p_hasTargetSRFs || expression_returns_set(expr))
		refuse_expression(param, text, "It returns a set.");
	pull_varattnos(expr, 1, used);
	free_parsestate(pstate);
	return expr;
}

/*
 * Check an expression and return its type, and itself in *expr unless that is
 * NULL; the staging attributes it uses are added to *used, offset by
 * FirstLowInvalidHeapAttributeNumber.
 */
Oid
cdc_columns_expression(Relation staging, const char *text, const char *param, Bitmapset **used,
					   Node **expr)
{
	Node	   *transformed = transform(staging, text, param, used);

	if (expr != NULL)
		*expr = transformed;
	return exprType(transformed);
}

/* ---------- expressions that are kept ---------- */

/*
 * A kept expression is read under a search_path of the extension's own, so
 * that it means the same whoever uses it.
 */
static int
pin_search_path(const char *path)
{
	int			level = NewGUCNestLevel();

	(void) set_config_option("search_path", path, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	return level;
}

/* The text of an expression under the present search_path. */
static char *
deparse(Relation staging, Node *expr)
{
	return deparse_expression(expr, deparse_context_for(RelationGetRelationName(staging),
														RelationGetRelid(staging)),
							  false, false);
}

/* Refuse a text that cannot be an expression over whatever relation. */
void
cdc_expr_check(const char *text, const char *param)
{
	ExprContextArg arg = {text, param};
	ErrorContextCallback callback = {error_context_stack, expression_context, &arg};

	error_context_stack = &callback;
	(void) parse_one(text, param);
	error_context_stack = callback.previous;
}

/*
 * The form in which an expression that is meant under the caller's search_path
 * is kept: every name outside pg_catalog is qualified.
 */
char *
cdc_expr_canonical(Relation staging, const char *text, const char *param, Oid *type)
{
	Bitmapset  *used = NULL;
	Node	   *expr = transform(staging, text, param, &used);
	int			level = pin_search_path("pg_catalog, pg_temp");
	char	   *canonical = deparse(staging, expr);

	AtEOXact_GUC(true, level);
	*type = exprType(expr);
	return canonical;
}

/*
 * A kept expression as it must be written in a query that runs under the
 * present search_path.
 */
char *
cdc_expr_localize(Relation staging, const char *text, const char *param)
{
	const char *schema = quote_identifier(get_namespace_name(cdc_extension_schema()));
	int			level = pin_search_path(psprintf("pg_catalog, %s, pg_temp", schema));
	Bitmapset  *used = NULL;
	Node	   *expr = transform(staging, text, param, &used);

	AtEOXact_GUC(true, level);
	return deparse(staging, expr);
}
