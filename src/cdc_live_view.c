/*-------------------------------------------------------------------------
 *
 * cdc_live_view.c
 *		The live view of a target that marks dead rows: all its columns but
 *		the mark, over the rows that are live.
 *
 * The view is changed, never dropped and made again: grants on it and what
 * depends on it stay.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/reloptions.h"
#include "catalog/namespace.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "cdc_attach.h"

/* One column of the view that is there. */
typedef struct ViewColumn
{
	char	   *name;			/* in the view */
	char	   *target_name;	/* of the column that it shows, today */
	AttrNumber	attno;
} ViewColumn;

/* ---------- its name ---------- */

/* Where a view of that name stands, or would; unqualified: beside the target. */
static Oid
find_schema(CdcAttach *a, char **name)
{
	char	   *raw = pstrdup(a->live_view);
	RangeVar   *rv;
	List	   *parts;

	if (!SplitIdentifierString(raw, '.', &parts) || parts == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("live_view is no name as SQL has it: \"%s\"", cdc_clip(a->live_view)),
				 a->live_view[0] == '\0' ? errhint("Use schema.view, or the name alone for the target's schema.") :
				 errhint("Quote it as in SQL: live_view => %s.",
						 quote_literal_cstr(quote_identifier(a->live_view)))));
	rv = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(a->live_view)));

	if (rv->catalogname != NULL && strcmp(rv->catalogname, get_database_name(MyDatabaseId)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("live_view names another database: \"%s\"", cdc_clip(a->live_view)),
				 errhint("Use schema.view, or the name alone for the target's schema.")));
	*name = rv->relname;
	if (rv->schemaname == NULL)
		return RelationGetNamespace(a->rel);
	return LookupExplicitNamespace(rv->schemaname, false);
}

/* ---------- its text ---------- */

static void
add_column(StringInfo list, const char *name)
{
	appendStringInfo(list, "%s%s", list->len > 0 ? ", " : "", quote_identifier(name));
}

static char *
view_query(CdcAttach *a, const char *columns)
{
	return psprintf("SELECT %s FROM %s WHERE %s IS %s", columns, cdc_quoted_relation(a->relid),
					quote_identifier(get_attname(a->relid, a->target.tomb_attno, false)),
					a->target.tomb_time ? "NULL" : "NOT TRUE");
}

/* Append the target's columns that the view lacks; are there any? */
static bool
add_new_columns(CdcAttach *a, ViewColumn *shown, int nshown, StringInfo list)
{
	TupleDesc	desc = RelationGetDescr(a->rel);
	bool		any = false;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		bool		has = att->attisdropped || att->attnum == a->target.tomb_attno;

		for (int k = 0; k < nshown; k++)
			has |= shown[k].attno == att->attnum;
		if (has)
			continue;
		add_column(list, NameStr(att->attname));
		any = true;
	}
	return any;
}

/* WITH (..) as the view has it: replacing a view would reset its options. */
static char *
view_options(Oid view, const char *name)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(view));
	StringInfoData s;
	bool		isnull;
	Datum		options;
	ListCell   *lc;

	if (!HeapTupleIsValid(tuple))
		cdc_refuse_meddling("live view", name);
	initStringInfo(&s);
	options = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
	if (!isnull)
		foreach(lc, untransformRelOptions(options))
		{
			DefElem    *def = lfirst(lc);

			appendStringInfo(&s, "%s%s = %s", s.len > 0 ? ", " : " WITH (",
							 quote_identifier(def->defname), quote_literal_cstr(defGetString(def)));
		}
	if (s.len > 0)
		appendStringInfoChar(&s, ')');
	ReleaseSysCache(tuple);
	return s.data;
}

/* ---------- the view that is there ---------- */

/* Which columns of the target the view shows, in its order. */
static ViewColumn *
read_columns(CdcAttach *a, Oid view, int *n)
{
	Relation	rel = relation_open(view, AccessShareLock);
	Query	   *query = get_view_query(rel);
	ViewColumn *shown = palloc0(sizeof(ViewColumn) * RelationGetNumberOfAttributes(rel));
	ListCell   *lc;

	if (rel->rd_rel->relowner != a->rel->rd_rel->relowner)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("live view \"%s\" of target \"%s\" belongs to another role",
						cdc_relation_name(rel), a->target.name),
				 errhint("ALTER VIEW %s OWNER TO %s;", cdc_quoted_relation(view),
						 quote_identifier(GetUserNameFromId(a->rel->rd_rel->relowner, false)))));
	*n = 0;
	foreach(lc, query->targetList)
	{
		TargetEntry *entry = lfirst(lc);
		Var		   *var = (Var *) entry->expr;
		ViewColumn *col = &shown[*n];

		if (entry->resjunk)
			continue;
		if (!IsA(var, Var) || var->varlevelsup != 0 || var->varattno <= 0 ||
			rt_fetch(var->varno, query->rtable)->relid != a->relid)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("live view \"%s\" was changed by hand", cdc_relation_name(rel)),
					 errdetail("It shows more than columns of target \"%s\".", a->target.name),
					 errhint("Drop it, and name live_view in cdc_attach() to have a new one.")));
		col->name = pstrdup(NameStr(TupleDescAttr(RelationGetDescr(rel), *n)->attname));
		col->attno = var->varattno;
		col->target_name = get_attname(a->relid, var->varattno, false);
		(*n)++;
	}
	relation_close(rel, NoLock);
	return shown;
}

static void
rename_column(const char *view, ViewColumn *col, const char *name)
{
	cdc_ddl("ALTER VIEW %s RENAME COLUMN %s TO %s", view, quote_identifier(col->name),
			quote_identifier(name));
	col->name = pstrdup(name);
}

/*
 * Follow renames in the target.  Names may have changed places, so columns go
 * out of the way first.
 */
static void
follow_renames(const char *view, ViewColumn *shown, int n)
{
	int			renamed = 0;

	for (int i = 0; i < n; i++)
		renamed += strcmp(shown[i].name, shown[i].target_name) != 0;
	for (int i = 0; i < n && renamed > 1; i++)
		if (strcmp(shown[i].name, shown[i].target_name) != 0)
			rename_column(view, &shown[i], psprintf("__cdc_renamed_%d", i));
	for (int i = 0; i < n; i++)
		if (strcmp(shown[i].name, shown[i].target_name) != 0)
			rename_column(view, &shown[i], shown[i].target_name);
}

static void
refresh(CdcAttach *a, Oid view)
{
	char	   *name = cdc_quoted_relation(view);
	StringInfoData list;
	ViewColumn *shown;
	int			n;

	shown = read_columns(a, view, &n);
	follow_renames(name, shown, n);
	initStringInfo(&list);
	for (int i = 0; i < n; i++)
		add_column(&list, shown[i].target_name);
	if (add_new_columns(a, shown, n, &list))
		cdc_ddl("CREATE OR REPLACE VIEW %s%s AS %s", name,
				view_options(view, name),
				view_query(a, list.data));
}

/*
 * Make the view that the call names, or bring the recorded one up to date; 0
 * when there is none.  The target has been described and is of the row home.
 */
Oid
cdc_live_view_make(CdcAttach *a, Oid recorded)
{
	Oid			view = recorded;
	StringInfoData list;
	Oid			schema;
	char	   *name;
	char	   *quoted;

	if (OidIsValid(view) && get_rel_relkind(view) != RELKIND_VIEW)
		view = recorded = InvalidOid;
	if (a->live_view != NULL)
	{
		schema = find_schema(a, &name);
		view = get_relname_relid(name, schema);
		if (OidIsValid(view) && view != recorded)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_TABLE),
					 errmsg("relation \"%s\" already exists", name),
					 errdetail("It is not the live view of target \"%s\".", a->target.name),
					 errhint("Drop it, or use another name.")));
	}
	else if (!OidIsValid(view))
		return InvalidOid;
	if (OidIsValid(view))
		refresh(a, view);
	else
	{
		quoted = quote_qualified_identifier(get_namespace_name(schema), name);
		initStringInfo(&list);
		(void) add_new_columns(a, NULL, 0, &list);
		cdc_ddl("CREATE %sVIEW %s AS %s",
				a->rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP ? "TEMPORARY " : "", quoted,
				view_query(a, list.data));
		view = get_relname_relid(name, schema);
		if (!OidIsValid(view))
			cdc_refuse_meddling("live view", name);
		cdc_ddl("COMMENT ON VIEW %s IS %s", quoted,
				quote_literal_cstr(psprintf("live rows of \"%s\", made by cdc_precedence",
											a->target.name)));
		cdc_give_to(view, a->rel->rd_rel->relowner);
	}
	return view;
}
