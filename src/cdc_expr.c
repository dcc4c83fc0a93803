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
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"

#include "cdc_apply.h"

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
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s is not one expression over a staging row: %s", param, cdc_clip(text)),
			 errdetail("%s", why)));
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
 * Check an expression and return its type; the staging attributes it uses are
 * added to *used, offset by FirstLowInvalidHeapAttributeNumber.
 */
Oid
cdc_columns_expression(Relation staging, const char *text, const char *param, Bitmapset **used)
{
	ExprContextArg arg = {text, param};
	ErrorContextCallback callback = {error_context_stack, expression_context, &arg};
	ParseState *pstate = make_parsestate(NULL);
	ParseNamespaceItem *item;
	Node	   *expr;
	Oid			type;

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
	type = exprType(expr);
	free_parsestate(pstate);
	return type;
}
