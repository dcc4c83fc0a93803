/*-------------------------------------------------------------------------
 *
 * cdc_event_view.c
 *		cdc_event_view(): a typed view over a landing table of raw events.
 *
 * The view is a simple one (one relation, no join, no grouping), so that rows
 * can be deleted through it.  It is made as the caller.  It reads as whoever
 * reads it (security_invoker), and everybody may try: so the rights on the
 * landing table are what counts, and consume works for whoever may DELETE
 * there.
 *
 * The columns' expressions are in cdc_event_view_column.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "cdc_attach.h"
#include "cdc_event_view.h"

/* the arguments, in the order of the signature */
enum
{
	ARG_VIEW_NAME, ARG_TARGET, ARG_RAW, ARG_PAYLOAD_COLUMN, ARG_FORMAT, ARG_SOURCE_TABLE,
	ARG_OP_NAME, ARG_POSITION_NAME, ARG_DECIMALS, ARG_TIMES, ARG_BINARIES, ARG_COMMIT_LSN_COLUMN
};

/* ---------- modes ---------- */

static const char *const format_names[] = {"debezium", "debezium-flat", "wal2json", NULL};
static const char *const decimals_names[] = {"precise", "string", "double", NULL};
static const char *const times_names[] = {"adaptive", "connect", "iso", NULL};
static const char *const binaries_names[] = {"base64", "hex", NULL};

static int
pick(const char *what, const char *const *names, const char *name)
{
	StringInfoData list;

	for (int i = 0; names[i] != NULL; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	initStringInfo(&list);
	for (int i = 0; names[i] != NULL; i++)
		appendStringInfo(&list, "%s\"%s\"", i == 0 ? "" : names[i + 1] == NULL ? " and " : ", ",
						 names[i]);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown %s of raw events: \"%s\"", what, cdc_clip(name)),
			 errdetail("Known are %s.", list.data)));
	return 0;
}

void
cdc_modes_read(CdcModes *modes, const char *format, const char *decimals, const char *times,
			   const char *binaries)
{
	modes->format = pick("format", format_names, format);
	modes->decimals = pick("decimals", decimals_names, decimals);
	modes->times = pick("times", times_names, times);
	modes->binaries = pick("binaries", binaries_names, binaries);
}

const char *
cdc_format_name(CdcFormat format)
{
	return format_names[format];
}

/* One text of all, as the view's expressions carry it. */
char *
cdc_modes_text(const CdcModes *modes)
{
	if (modes->format == CDC_FORMAT_WAL2JSON)
		return pstrdup(format_names[modes->format]);
	return psprintf("%s %s %s %s", format_names[modes->format], decimals_names[modes->decimals],
					times_names[modes->times], binaries_names[modes->binaries]);
}

void
cdc_modes_parse(const char *text, CdcModes *modes)
{
	char	   *words[4] = {"", "precise", "adaptive", "base64"};
	char	   *copy = pstrdup(text);
	char	   *save = NULL;
	char	   *word = strtok_r(copy, " ", &save);

	for (int i = 0; i < lengthof(words) && word != NULL; i++)
	{
		words[i] = word;
		word = strtok_r(NULL, " ", &save);
	}
	cdc_modes_read(modes, words[0], words[1], words[2], words[3]);
}

/* ---------- arguments ---------- */

static char *
text_arg(FunctionCallInfo fcinfo, int n, const char *missing)
{
	if (!PG_ARGISNULL(n))
		return text_to_cstring(PG_GETARG_TEXT_PP(n));
	return missing != NULL ? pstrdup(missing) : NULL;
}

static char *
name_arg(FunctionCallInfo fcinfo, int n, const char *missing)
{
	if (!PG_ARGISNULL(n))
		return pstrdup(NameStr(*PG_GETARG_NAME(n)));
	return missing != NULL ? pstrdup(missing) : NULL;
}

/*
 * "table", "schema.table" or "db.schema.table", a part perhaps in double
 * quotes.  Nothing is folded: sources differ in what they would fold it to.
 */
static List *
parse_source_table(const char *text)
{
	List	   *parts = NIL;
	StringInfoData part;
	bool		quoted = false;

	initStringInfo(&part);
	for (const char *s = text;; s++)
	{
		if (*s == '"' && quoted && s[1] == '"')
			appendStringInfoChar(&part, *s++);
		else if (*s == '"')
			quoted = !quoted;
		else if (*s == '\0' || (*s == '.' && !quoted))
		{
			if (part.len == 0 || quoted || list_length(parts) == 3)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("source_table is no name of a table: \"%s\"", cdc_clip(text)),
						 errhint("It is table, schema.table or database.schema.table, as the source spells them; a part with a dot stands in double quotes.")));
			parts = lappend(parts, pstrdup(part.data));
			resetStringInfo(&part);
			if (*s == '\0')
				return parts;
		}
		else
			appendStringInfoChar(&part, *s);
	}
}

static void
read_args(FunctionCallInfo fcinfo, CdcEventView *v)
{
	static const char *const names[] = {"view_name", "target", "raw", "payload_column", "format"};
	char	   *table;

	for (int i = 0; i < lengthof(names); i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s of an event view must not be NULL", names[i])));
	v->view_name = text_arg(fcinfo, ARG_VIEW_NAME, NULL);
	v->target = PG_GETARG_OID(ARG_TARGET);
	v->raw = PG_GETARG_OID(ARG_RAW);
	v->payload = name_arg(fcinfo, ARG_PAYLOAD_COLUMN, NULL);
	v->op_name = name_arg(fcinfo, ARG_OP_NAME, "op");
	v->position_name = name_arg(fcinfo, ARG_POSITION_NAME, "source_position");
	if (v->op_name[0] == '\0' || v->position_name[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s of an event view must not be empty",
						v->op_name[0] == '\0' ? "op_name" : "position_name")));
	v->commit_lsn = name_arg(fcinfo, ARG_COMMIT_LSN_COLUMN, NULL);
	cdc_modes_read(&v->modes, text_arg(fcinfo, ARG_FORMAT, NULL),
				   text_arg(fcinfo, ARG_DECIMALS, "precise"),
				   text_arg(fcinfo, ARG_TIMES, "adaptive"),
				   text_arg(fcinfo, ARG_BINARIES, "base64"));
	table = text_arg(fcinfo, ARG_SOURCE_TABLE, NULL);
	if (table != NULL)
		v->source_table = parse_source_table(table);
	if (v->commit_lsn != NULL && v->modes.format != CDC_FORMAT_WAL2JSON)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("commit_lsn_column is for format \"%s\" only",
						cdc_format_name(CDC_FORMAT_WAL2JSON)),
				 errdetail("An event of Debezium has its position in its source fields.")));
}

/* ---------- the view that is there ---------- */

static void
refuse_existing(const CdcEventView *v, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_TABLE),
			 errmsg("relation \"%s\" already exists", v->name),
			 errdetail("%s", detail),
			 errhint("Drop it, or use another name.")));
}

static CdcEventColumn *
find_column(const CdcEventView *v, const char *name)
{
	ListCell   *lc;

	foreach(lc, v->columns)
		if (strcmp(((CdcEventColumn *) lfirst(lc))->name, name) == 0)
			return lfirst(lc);
	return NULL;
}

/* Is the view over the landing table, and nothing else? */
static bool
is_over(Relation view, Oid raw)
{
	Query	   *query = get_view_query(view);

	return list_length(query->rtable) > 0 && list_length(query->jointree->fromlist) == 1 &&
		IsA(linitial(query->jointree->fromlist), RangeTblRef) &&
		rt_fetch(linitial_node(RangeTblRef, query->jointree->fromlist)->rtindex,
				 query->rtable)->relid == raw;
}

/*
 * A view that is there is changed, so that grants on it and what depends on it
 * stay: its columns keep their places, and new ones come after them.
 */
static void
keep_order(CdcEventView *v, Oid relid)
{
	Relation	view = relation_open(relid, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(view);
	List	   *columns = NIL;

	if (view->rd_rel->relkind != RELKIND_VIEW || !is_over(view, v->raw))
		refuse_existing(v, psprintf("It is no view over \"%s\".", cdc_relation_name(v->rawrel)));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		CdcEventColumn *col = find_column(v, NameStr(att->attname));

		if (col == NULL)
			refuse_existing(v, psprintf("It has a column \"%s\", which the new one would lack.",
										NameStr(att->attname)));
		if (col->type != att->atttypid || col->typmod != att->atttypmod)
			refuse_existing(v, psprintf("Its column \"%s\" is of type %s, not %s.",
										NameStr(att->attname),
										format_type_with_typemod(att->atttypid, att->atttypmod),
										format_type_with_typemod(col->type, col->typmod)));
		columns = lappend(columns, col);
	}
	v->columns = list_concat_unique_ptr(columns, v->columns);
	relation_close(view, NoLock);
}

/* ---------- its name ---------- */

static void
resolve_name(CdcEventView *v)
{
	RangeVar   *rv = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(v->view_name)));
	bool		temp = v->rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP ||
		v->rawrel->rd_rel->relpersistence == RELPERSISTENCE_TEMP;

	if (rv->catalogname != NULL && strcmp(rv->catalogname, get_database_name(MyDatabaseId)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("view_name names another database: \"%s\"", cdc_clip(v->view_name)),
				 errhint("Use schema.view, or the name alone for the target's schema.")));
	v->name = rv->relname;
	v->temp = temp;
	if (rv->schemaname != NULL)
		v->schema = LookupExplicitNamespace(rv->schemaname, false);
	else if (temp)
		v->schema = LookupExplicitNamespace("pg_temp", false);
	else
		v->schema = RelationGetNamespace(v->rel);
	v->quoted = quote_qualified_identifier(get_namespace_name(v->schema), v->name);
}

/* ---------- its text ---------- */

static char *
view_comment(const CdcEventView *v)
{
	const char *position = "the source position of each event";

	if (v->commit_lsn != NULL)
		position = "commit positions: the commit's LSN, then the change's";
	else if (v->modes.format == CDC_FORMAT_WAL2JSON)
		position = "record positions: the change's LSN alone, ordered for each key but not across keys";
	return psprintf("events of \"%s\" for \"%s\", made by cdc_precedence: %s; positions are %s",
					cdc_relation_name(v->rawrel), cdc_relation_name(v->rel),
					cdc_modes_text(&v->modes), position);
}

static void
create(CdcEventView *v)
{
	Oid			existing = get_relname_relid(v->name, v->schema);
	StringInfoData list;
	ListCell   *lc;

	if (OidIsValid(existing))
		keep_order(v, existing);
	initStringInfo(&list);
	foreach(lc, v->columns)
	{
		CdcEventColumn *col = lfirst(lc);

		appendStringInfo(&list, "%s\n\t%s AS %s", list.len > 0 ? "," : "", col->expr,
						 quote_identifier(col->name));
	}
	cdc_ddl("CREATE OR REPLACE %sVIEW %s WITH (security_invoker = true) AS SELECT%s\nFROM %s%s",
			v->temp ? "TEMPORARY " : "", v->temp ? quote_identifier(v->name) : v->quoted, list.data,
			cdc_quoted_relation(v->raw), cdc_event_filter(v));
	v->view = get_relname_relid(v->name, v->schema);
	if (!OidIsValid(v->view))
		cdc_refuse_meddling("event view", v->name);
	cdc_ddl("COMMENT ON VIEW %s IS %s", v->quoted, quote_literal_cstr(view_comment(v)));
	cdc_ddl("GRANT SELECT, DELETE ON %s TO PUBLIC", v->quoted);
}

/* ---------- the call ---------- */

static Relation
open_relation(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	if (rel == NULL)
		cdc_refuse_no_relation(relid);
	return rel;
}

static void
check_landing(CdcEventView *v)
{
	char		kind = v->rawrel->rd_rel->relkind;

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE && kind != RELKIND_VIEW &&
		kind != RELKIND_FOREIGN_TABLE && kind != RELKIND_MATVIEW)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("landing \"%s\" is not a table or view", cdc_relation_name(v->rawrel))));
}

PG_FUNCTION_INFO_V1(cdc_event_view);
Datum
cdc_event_view(PG_FUNCTION_ARGS)
{
	CdcEventView *v = palloc0(sizeof(CdcEventView));

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	PreventCommandIfReadOnly("cdc_event_view()");
	PreventCommandIfParallelMode("cdc_event_view()");
	read_args(fcinfo, v);
	v->rel = open_relation(v->target);
	cdc_target_check(v->rel);
	v->rawrel = open_relation(v->raw);
	check_landing(v);
	resolve_name(v);
	cdc_event_columns(v);
	create(v);
	relation_close(v->rawrel, NoLock);
	relation_close(v->rel, NoLock);
	PG_RETURN_OID(v->view);
}
