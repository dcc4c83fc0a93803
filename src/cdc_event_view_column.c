/*-------------------------------------------------------------------------
 *
 * cdc_event_view_column.c
 *		The columns of an event view: those of the target and those of the
 *		event, as expressions over the landing table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "cdc_attach.h"
#include "cdc_consume.h"
#include "cdc_event_view.h"
#include "cdc_registry.h"

/* columns that a view adds to those of the target */
#define UNCHANGED		"__unchanged"
#define ABSENT			"__absent"
#define OLD_PREFIX		"__old_"

/* A function of the extension, and the payload as its first argument. */
static char *
call_of(const CdcEventView *v, const char *function)
{
	return psprintf("%s(%s, ",
					quote_qualified_identifier(get_namespace_name(cdc_extension_schema()), function),
					quote_identifier(v->payload));
}

static char *
modes_literal(const CdcEventView *v, bool all)
{
	return quote_literal_cstr(all ? cdc_modes_text(&v->modes) : cdc_format_name(v->modes.format));
}

static char *
type_name(Oid type, int32 typmod)
{
	return format_type_extended(type, typmod, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

static void
add_column(CdcEventView *v, const char *name, char *expr, Oid type, int32 typmod)
{
	CdcEventColumn *col = palloc(sizeof(CdcEventColumn));
	ListCell   *lc;

	if (strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the name of an event view's column would be too long: \"%s\"", name),
				 errdetail("The column has the key before a change; its name is that of the key's column behind \"%s\".",
						   OLD_PREFIX),
				 errhint("Give the key's column a name of at most %d bytes.",
						 NAMEDATALEN - 1 - (int) strlen(OLD_PREFIX))));
	foreach(lc, v->columns)
		if (strcmp(((CdcEventColumn *) lfirst(lc))->name, name) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_COLUMN),
					 errmsg("an event view would have two columns \"%s\"", name),
					 errdetail("One is of target \"%s\", the other says something of the event.",
							   cdc_relation_name(v->rel)),
					 strcmp(name, v->op_name) == 0 || strcmp(name, v->position_name) == 0 ?
					 errhint("Name the event's columns otherwise in op_name and position_name.") :
					 errhint("Give the target's column another name: this one cdc_apply knows an event's column by.")));
	col->name = pstrdup(name);
	col->expr = expr;
	col->type = type;
	col->typmod = typmod;
	v->columns = lappend(v->columns, col);
}

/* ---------- the landing table's columns ---------- */

static Form_pg_attribute
landing_column(const CdcEventView *v, const char *what, const char *name)
{
	AttrNumber	attno = get_attnum(v->raw, name);

	if (attno <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("%s column \"%s\" does not exist in landing \"%s\"", what, name,
						cdc_relation_name(v->rawrel))));
	return TupleDescAttr(RelationGetDescr(v->rawrel), attno - 1);
}

static Oid
payload_collation(const CdcEventView *v)
{
	Form_pg_attribute att = landing_column(v, "payload", v->payload);
	Oid			type = getBaseType(att->atttypid);

	if (type != JSONBOID && type != JSONOID && type != TEXTOID && type != VARCHAROID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("payload column \"%s\" of landing \"%s\" is of type %s", v->payload,
						cdc_relation_name(v->rawrel), format_type_be(att->atttypid)),
				 errdetail("A payload is jsonb, json or text."),
				 errhint("For bytes that are JSON make a view over the landing table with convert_from(%s, 'UTF8').",
						 quote_identifier(v->payload))));
	return att->attcollation;
}

/* The commit's LSN, of whatever type, as pg_lsn. */
static char *
commit_lsn(const CdcEventView *v)
{
	Form_pg_attribute att = landing_column(v, "commit LSN", v->commit_lsn);
	Oid			type = getBaseType(att->atttypid);
	const char *name = quote_identifier(v->commit_lsn);

	if (type == LSNOID || type == TEXTOID || type == VARCHAROID)
		return psprintf("%s::pg_catalog.pg_lsn", name);
	if (type == INT8OID || type == NUMERICOID)
		return psprintf("('0/0'::pg_catalog.pg_lsn OPERATOR(pg_catalog.+) %s::pg_catalog.numeric)",
						name);
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("commit LSN column \"%s\" of landing \"%s\" is of type %s", v->commit_lsn,
					cdc_relation_name(v->rawrel), format_type_be(att->atttypid)),
			 errdetail("A commit LSN is a pg_lsn, the text or the number of one.")));
	return NULL;
}

/* ---------- the target's columns ---------- */

/* The value of a target's column, in the role of a key, an old key or a row's value. */
static char *
value_of(const CdcEventView *v, Form_pg_attribute att, const char *role)
{
	bool		domain = get_typtype(att->atttypid) == TYPTYPE_DOMAIN;
	Oid			shown = domain ? get_array_type(att->atttypid) : att->atttypid;
	Oid			payload = payload_collation(v);
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfo(&s, "%s%s, %s, %s, %d, NULL::%s)",
					 call_of(v, domain ? "cdc_event_view_domain_value" : "cdc_event_view_value"),
					 modes_literal(v, true), quote_literal_cstr(role),
					 quote_literal_cstr(NameStr(att->attname)), att->atttypmod,
					 type_name(shown, -1));
	/* the function kept to the type modifier; the cast only says so */
	if (att->atttypmod >= 0)
		appendStringInfo(&s, "::%s", type_name(att->atttypid, att->atttypmod));
	if (OidIsValid(att->attcollation) &&
		(att->attcollation != DEFAULT_COLLATION_OID ||
		 (OidIsValid(payload) && payload != DEFAULT_COLLATION_OID)))
		appendStringInfo(&s, " COLLATE %s", cdc_collation_name(att->attcollation));
	return s.data;
}

/* Columns of the target that are the extension's own affair, not the source's. */
typedef struct LawColumns
{
	List	   *positions;
	char	   *tombstone;
	char	   *column_positions;
} LawColumns;

static bool
is_position_type(Oid type)
{
	return getBaseType(type) == cdc_position_type();
}

/*
 * A target that is not attached: its position is its cdc_position column, else
 * source_lsn and source_ordinal, and beside one of these a flag "deleted" marks
 * tombstones, as cdc_apply() has it.
 */
static void
guess_law(const CdcEventView *v, LawColumns *law)
{
	TupleDesc	desc = RelationGetDescr(v->rel);
	AttrNumber	lsn = get_attnum(v->target, "source_lsn");
	AttrNumber	deleted = get_attnum(v->target, "deleted");
	Oid			type;

	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped &&
			is_position_type(TupleDescAttr(desc, i)->atttypid))
			law->positions = lappend(law->positions, NameStr(TupleDescAttr(desc, i)->attname));
	if (law->positions == NIL && lsn > 0 &&
		getBaseType(TupleDescAttr(desc, lsn - 1)->atttypid) == LSNOID)
		law->positions = list_make2("source_lsn", "source_ordinal");
	if (law->positions == NIL || deleted <= 0)
		return;
	type = getBaseType(TupleDescAttr(desc, deleted - 1)->atttypid);
	if (type != BOOLOID && type != TIMESTAMPTZOID)
		return;
	law->tombstone = "deleted";
	ereport(NOTICE,
			(errmsg("column \"deleted\" of target \"%s\" is left out: it marks tombstones",
					cdc_relation_name(v->rel)),
			 errhint("If it is the source's own column, attach the target with a side table first.")));
}

static void
read_law(const CdcEventView *v, LawColumns *law, CdcTarget *key)
{
	CdcRegistration reg;
	CdcRule		rule;

	memset(law, 0, sizeof(LawColumns));
	memset(&rule, 0, sizeof(CdcRule));
	cdc_registry_read(v->target, &reg);
	if (reg.rule.exists)
	{
		cdc_rule_read_law(&reg, v->rel, &rule);
		law->positions = rule.position_columns;
		law->tombstone = rule.tombstone_column;
		if (!reg.rule.isnull[RULE_COLUMN_POSITIONS])
			law->column_positions = pstrdup(NameStr(*DatumGetName(reg.rule.values[RULE_COLUMN_POSITIONS])));
	}
	else
		guess_law(v, law);
	list_free(RelationGetIndexList(v->rel));
	if (rule.key_columns == NIL && !OidIsValid(v->rel->rd_pkindex))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("target \"%s\" has no usable key", cdc_relation_name(v->rel)),
				 errdetail("It has no primary key, or one that is deferrable or not valid."),
				 errhint("Add a primary key; or attach the target first, with the columns of a unique index in key_columns.")));
	cdc_target_describe_key(key, v->rel, rule.key_columns);
}

static bool
is_law_column(const LawColumns *law, const char *name)
{
	return cdc_has_name(law->positions, name) ||
		(law->tombstone != NULL && strcmp(law->tombstone, name) == 0) ||
		(law->column_positions != NULL && strcmp(law->column_positions, name) == 0);
}

static bool
is_key(const CdcTarget *target, AttrNumber attno)
{
	for (int i = 0; i < target->nkeys; i++)
		if (target->keys[i].attno == attno)
			return true;
	return false;
}

/* ---------- all of them ---------- */

/* A list of columns, out of those that are no key, that an event does not carry. */
static char *
list_of(const CdcEventView *v, const char *function, List *names, List *types)
{
	StringInfoData s;
	ListCell   *lc;

	initStringInfo(&s);
	appendStringInfo(&s, "%s%s, ARRAY[", call_of(v, function), modes_literal(v, true));
	foreach(lc, names)
		appendStringInfo(&s, "%s%s", foreach_current_index(lc) > 0 ? ", " : "",
						 quote_literal_cstr(lfirst(lc)));
	appendStringInfoString(&s, "]::pg_catalog.text[], ARRAY[");
	foreach(lc, types)
		appendStringInfo(&s, "%s%s::pg_catalog.regtype", foreach_current_index(lc) > 0 ? ", " : "",
						 quote_literal_cstr(type_name(lfirst_oid(lc), -1)));
	appendStringInfoString(&s, "]::pg_catalog.regtype[])");
	return s.data;
}

void
cdc_event_columns(CdcEventView *v)
{
	TupleDesc	desc = RelationGetDescr(v->rel);
	LawColumns	law;
	CdcTarget	key;
	List	   *names = NIL;
	List	   *types = NIL;

	read_law(v, &law, &key);
	(void) payload_collation(v);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		bool		is_of_key = is_key(&key, att->attnum);

		if (att->attisdropped || att->attgenerated != '\0' ||
			is_law_column(&law, NameStr(att->attname)))
			continue;
		add_column(v, NameStr(att->attname), value_of(v, att, is_of_key ? "key" : "row"),
				   att->atttypid, att->atttypmod);
		if (is_of_key)
			continue;
		names = lappend(names, NameStr(att->attname));
		types = lappend_oid(types, att->atttypid);
	}
	for (int i = 0; i < key.nkeys; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, key.keys[i].attno - 1);

		add_column(v, psprintf("%s%s", OLD_PREFIX, NameStr(att->attname)), value_of(v, att, "old"),
				   att->atttypid, att->atttypmod);
	}
	add_column(v, v->op_name,
			   psprintf("%s%s)", call_of(v, "cdc_event_view_op"), modes_literal(v, false)), TEXTOID, -1);
	add_column(v, v->position_name,
			   psprintf("%s%s%s%s)", call_of(v, "cdc_event_view_position"), modes_literal(v, false),
						v->commit_lsn != NULL ? ", " : "",
						v->commit_lsn != NULL ? commit_lsn(v) : ""), cdc_position_type(), -1);
	add_column(v, UNCHANGED, list_of(v, "cdc_event_view_unchanged", names, types), TEXTARRAYOID, -1);
	add_column(v, ABSENT, list_of(v, "cdc_event_view_absent", names, types), TEXTARRAYOID, -1);
	/* so that consume => 'bookmark' works through the view */
	if (get_attnum(v->raw, CDC_BOOKMARK_COLUMN) > 0 &&
		get_atttype(v->raw, get_attnum(v->raw, CDC_BOOKMARK_COLUMN)) == XID8OID &&
		get_attnum(v->target, CDC_BOOKMARK_COLUMN) <= 0)
		add_column(v, CDC_BOOKMARK_COLUMN, pstrdup(CDC_BOOKMARK_COLUMN), XID8OID, -1);
}

/* WHERE .., empty without source_table */
char *
cdc_event_filter(const CdcEventView *v)
{
	StringInfoData s;
	ListCell   *lc;

	initStringInfo(&s);
	if (v->source_table == NIL)
		return s.data;
	appendStringInfo(&s, "\nWHERE %s%s, ARRAY[", call_of(v, "cdc_event_view_is_of"),
					 modes_literal(v, false));
	foreach(lc, v->source_table)
		appendStringInfo(&s, "%s%s", foreach_current_index(lc) > 0 ? ", " : "",
						 quote_literal_cstr(lfirst(lc)));
	appendStringInfoString(&s, "]::pg_catalog.text[])");
	return s.data;
}
