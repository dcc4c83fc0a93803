/*-------------------------------------------------------------------------
 *
 * cdc_history_create.c
 *		cdc_create_history(): the tables of a history, made by ordinary
 *		statements as the caller, who owns them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "cdc_history.h"

PG_FUNCTION_INFO_V1(cdc_create_history);

typedef struct CdcCreate
{
	Relation	rel;			/* the target */
	CdcTarget	target;			/* its key */
	List	   *law;			/* names of its columns that a history does not have */
	List	   *track;
	char	   *time_column;
	Oid			schema;
	char	   *name;
	const char *persistence;	/* as CREATE TABLE says it */
} CdcCreate;

/* ---------- the target ---------- */

/*
 * Columns that belong to the law of the target's own rows: where it is
 * attached those recorded, else its positions and, beside one, a "deleted".
 */
static void
find_law_columns(CdcCreate *c, const CdcRegistration *reg)
{
	TupleDesc	desc = RelationGetDescr(c->rel);
	AttrNumber	deleted = get_attnum(RelationGetRelid(c->rel), "deleted");
	Oid			type = deleted <= 0 ? InvalidOid :
		getBaseType(get_atttype(RelationGetRelid(c->rel), deleted));
	CdcRule		rule;

	if (reg->rule.exists)
	{
		cdc_rule_read_law(reg, c->rel, &rule);
		c->law = rule.position_columns;
		if (rule.tombstone_column != NULL)
			c->law = lappend(c->law, rule.tombstone_column);
		return;
	}
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && getBaseType(att->atttypid) == cdc_position_type())
			c->law = lappend(c->law, pstrdup(NameStr(att->attname)));
	}
	if (c->law == NIL && get_attnum(RelationGetRelid(c->rel), "source_lsn") > 0)
		c->law = list_make2(pstrdup("source_lsn"), pstrdup("source_ordinal"));
	if (c->law != NIL && (type == BOOLOID || type == TIMESTAMPTZOID))
		c->law = lappend(c->law, pstrdup("deleted"));
}

static void
describe_key(CdcCreate *c, const CdcRegistration *reg, List *key_columns)
{
	CdcRule		rule;

	if (key_columns == NIL && reg->rule.exists)
	{
		cdc_rule_read_law(reg, c->rel, &rule);
		key_columns = rule.key_columns;
	}
	cdc_target_describe_key(&c->target, c->rel, key_columns);
}

static bool
is_key(CdcCreate *c, const char *name)
{
	for (int i = 0; i < c->target.nkeys; i++)
		if (strcmp(c->target.keys[i].name, name) == 0)
			return true;
	return false;
}

/* A column that the tables of a history need for themselves. */
void
cdc_history_refuse_name(const char *column, const char *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_COLUMN),
			 errmsg("column \"%s\" of \"%s\" has a name that a history needs", column, table),
			 errhint("Rename the column, or make a history of a table like it with another name for the column.")));
}

static void
check_names(CdcCreate *c)
{
	static const char *const taken[] = {
		CDC_HISTORY_FROM, CDC_HISTORY_TO, CDC_HISTORY_FROM_AT, CDC_HISTORY_TO_AT,
		CDC_EVENTS_POSITION, CDC_EVENTS_OP, CDC_EVENTS_GAPS, CDC_EVENTS_AT
	};
	ListCell   *lc;

	for (int i = 0; i < lengthof(taken); i++)
		if (get_attnum(RelationGetRelid(c->rel), taken[i]) > 0)
			cdc_history_refuse_name(taken[i], c->target.name);
	foreach(lc, c->track)
		if (get_attnum(RelationGetRelid(c->rel), lfirst(lc)) <= 0 || is_key(c, lfirst(lc)) ||
			cdc_has_name(c->law, lfirst(lc)))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("\"%s\" is not a column of \"%s\" that a history can track",
							(char *) lfirst(lc), c->target.name),
					 errdetail("Tracked are columns of the table beside its key, position and tombstone.")));
}

/* ---------- names ---------- */

/* Where the history is to stand: as given, else beside the target. */
static void
choose_name(CdcCreate *c, const char *given)
{
	RangeVar   *rv;

	c->schema = RelationGetNamespace(c->rel);
	if (given == NULL)
	{
		c->name = ChooseRelationName(RelationGetRelationName(c->rel), NULL, "history", c->schema,
									 false);
		return;
	}
	rv = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(given)));
	if (rv->catalogname != NULL && strcmp(rv->catalogname, get_database_name(MyDatabaseId)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("history names another database: \"%s\"", cdc_clip(given)),
				 errhint("Use schema.table, or the name alone for the target's schema.")));
	if (rv->schemaname != NULL)
		c->schema = LookupExplicitNamespace(rv->schemaname, false);
	c->name = rv->relname;
}

/* ---------- statements ---------- */

static char *
type_text(Form_pg_attribute att)
{
	char	   *type = format_type_extended(att->atttypid, att->atttypmod,
											FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);

	if (!OidIsValid(att->attcollation))
		return type;
	return psprintf("%s COLLATE %s", type, cdc_collation_name(att->attcollation));
}

static char *
position_type(void)
{
	return quote_qualified_identifier(get_namespace_name(cdc_extension_schema()), "cdc_position");
}

/* The key in the order of the target's key index, with its collations and operator classes. */
static char *
index_columns(CdcCreate *c, const char *position)
{
	oidvector  *classes = cdc_index_opclasses(c->target.index);
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < c->target.nkeys; i++)
	{
		CdcKey	   *key = &c->target.keys[i];

		appendStringInfoString(&s, quote_identifier(key->name));
		if (OidIsValid(key->collation))
			appendStringInfo(&s, " COLLATE %s", cdc_collation_name(key->collation));
		appendStringInfo(&s, " %s, ", cdc_opclass_name(classes->values[i]));
	}
	appendStringInfoString(&s, position);
	return s.data;
}

/* Make a table with its unique index; columns is what stands in its parentheses. */
static Oid
make_table(CdcCreate *c, const char *name, const char *columns, const char *position, const char *using)
{
	char	   *table = quote_qualified_identifier(get_namespace_name(c->schema), name);
	char	   *index;
	Oid			relid;

	cdc_ddl("CREATE %sTABLE %s (%s)%s", c->persistence, table, columns, using);
	relid = get_relname_relid(name, c->schema);
	if (!OidIsValid(relid))
		cdc_refuse_meddling("table", name);
	index = ChooseRelationName(name, NULL, "key", c->schema, false);
	cdc_ddl("CREATE UNIQUE INDEX %s ON %s (%s)", quote_identifier(index), table,
			index_columns(c, position));
	return relid;
}

static Oid
make_history(CdcCreate *c)
{
	TupleDesc	desc = RelationGetDescr(c->rel);
	StringInfoData columns;
	char	   *table;
	Oid			relid;

	initStringInfo(&columns);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		const char *name = NameStr(att->attname);

		if (!att->attisdropped && !cdc_has_name(c->law, name))
			appendStringInfo(&columns, "%s %s%s, ", quote_identifier(name), type_text(att),
							 is_key(c, name) ? " NOT NULL" : "");
	}
	appendStringInfo(&columns, CDC_HISTORY_FROM " %s NOT NULL, " CDC_HISTORY_TO " %s", position_type(),
					 position_type());
	if (c->time_column != NULL)
		appendStringInfoString(&columns, ", " CDC_HISTORY_FROM_AT " pg_catalog.timestamptz, "
							   CDC_HISTORY_TO_AT " pg_catalog.timestamptz");
	relid = make_table(c, c->name, columns.data, CDC_HISTORY_FROM, "");
	table = cdc_quoted_relation(relid);
	cdc_ddl("COMMENT ON TABLE %s IS %s", table,
			quote_literal_cstr(psprintf("versions of the rows of \"%s\", kept by cdc_apply_history()",
										c->target.name)));
	cdc_ddl("COMMENT ON COLUMN %s." CDC_HISTORY_FROM " IS 'position of the event that began the version'", table);
	cdc_ddl("COMMENT ON COLUMN %s." CDC_HISTORY_TO " IS 'position of the event that ended it; NULL: it is current'", table);
	if (c->time_column != NULL)
	{
		cdc_ddl("COMMENT ON COLUMN %s." CDC_HISTORY_FROM_AT " IS 'when the event was made that began the version'", table);
		cdc_ddl("COMMENT ON COLUMN %s." CDC_HISTORY_TO_AT " IS 'when the event was made that ended it'", table);
	}
	return relid;
}

/* Key columns may be NULL there: a truncate has none. */
static Oid
make_events(CdcCreate *c)
{
	TupleDesc	desc = RelationGetDescr(c->rel);
	char	   *name = ChooseRelationName(c->name, NULL, "events", c->schema, false);
	StringInfoData columns;
	Oid			relid;

	initStringInfo(&columns);
	for (int i = 0; i < c->target.nkeys; i++)
		appendStringInfo(&columns, "%s %s, ", quote_identifier(c->target.keys[i].name),
						 type_text(TupleDescAttr(desc, c->target.keys[i].attno - 1)));
	appendStringInfo(&columns, CDC_EVENTS_POSITION " %s NOT NULL, " CDC_EVENTS_OP " pg_catalog.text NOT NULL, "
					 CDC_EVENTS_GAPS " pg_catalog.text[], " CDC_EVENTS_AT " pg_catalog.timestamptz",
					 position_type());
	relid = make_table(c, name, columns.data, CDC_EVENTS_POSITION, " USING heap");
	cdc_ddl("COMMENT ON TABLE %s IS %s", cdc_quoted_relation(relid),
			quote_literal_cstr(psprintf("events that the versions in \"%s\" do not tell, which cdc_apply_history() needs",
										c->name)));
	return relid;
}

/* ---------- the call ---------- */

static void
create(CdcCreate *c, FunctionCallInfo fcinfo, CdcHistoryRecord *record)
{
	CdcRegistration reg;
	List	   *key_columns = NIL;
	char		persistence = c->rel->rd_rel->relpersistence;

	if (pg_class_aclcheck(RelationGetRelid(c->rel), GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(c->rel->rd_rel->relkind),
					   RelationGetRelationName(c->rel));
	cdc_target_check(c->rel);
	cdc_registry_read_now(RelationGetRelid(c->rel), &reg);
	if (!PG_ARGISNULL(2))
		key_columns = cdc_registry_name_list(PG_GETARG_DATUM(2));
	if (!PG_ARGISNULL(3))
		c->track = cdc_registry_name_list(PG_GETARG_DATUM(3));
	if (!PG_ARGISNULL(4))
		c->time_column = pstrdup(NameStr(*PG_GETARG_NAME(4)));
	c->persistence = persistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " :
		persistence == RELPERSISTENCE_TEMP ? "TEMPORARY " : "";
	describe_key(c, &reg, key_columns);
	find_law_columns(c, &reg);
	check_names(c);
	choose_name(c, PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1)));

	record->history = make_history(c);
	record->events = make_events(c);
	record->track = c->track;
	record->time_column = c->time_column;
}

Datum
cdc_create_history(PG_FUNCTION_ARGS)
{
	CdcHistoryRecord record;
	CdcCreate	c;
	Oid			relid;

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	PreventCommandIfReadOnly("cdc_create_history()");
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("target must not be NULL")));
	relid = PG_GETARG_OID(0);
	memset(&record, 0, sizeof(record));
	memset(&c, 0, sizeof(c));
	c.rel = try_relation_open(relid, AccessShareLock);
	if (c.rel == NULL)
		cdc_refuse_no_relation(relid);
	create(&c, fcinfo, &record);
	relation_close(c.rel, NoLock);
	cdc_history_put_record(&record);
	PG_RETURN_OID(record.history);
}
