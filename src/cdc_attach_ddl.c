/*-------------------------------------------------------------------------
 *
 * cdc_attach_ddl.c
 *		What cdc_attach() adds to a database: columns of the target and the
 *		side table of its tombstones.
 *
 * Everything is done by ordinary statements, run as the caller and with every
 * name qualified, so that rights, event triggers and dependencies are what
 * they would be by hand.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "cdc_attach.h"

/* names that cdc_attach() gives when nobody chose one */
#define CDC_POSITION_COLUMN		"source_position"
#define CDC_TOMBSTONE_COLUMN	"deleted"

/* what a side table holds beside the key */
#define CDC_SIDE_POSITION		"source_position"
#define CDC_SIDE_TIME			"deleted_at"

/* ---------- statements ---------- */

/* Run one utility statement as the caller. */
void
cdc_ddl(const char *format,...)
{
	StringInfoData sql;
	int			rc;

	initStringInfo(&sql);
	for (;;)
	{
		va_list		args;
		int			needed;

		va_start(args, format);
		needed = appendStringInfoVA(&sql, format, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&sql, needed);
	}
	SPI_connect();
	rc = SPI_execute(sql.data, false, 0);
	if (rc < 0)
		elog(ERROR, "could not run \"%s\": %s", sql.data, SPI_result_code_string(rc));
	SPI_finish();
	pfree(sql.data);
}

/* schema.relation, quoted for a statement */
char *
cdc_quoted_relation(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		cdc_refuse_no_relation(relid);
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), name);
}

/* Lock a relation that may be gone by the time; false when it is. */
bool
cdc_lock_if_there(Oid relid, LOCKMODE lockmode)
{
	LockRelationOid(relid, lockmode);
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return true;
	UnlockRelationOid(relid, lockmode);
	return false;
}

/* Whose relation it is; 0 when there is none. */
Oid
cdc_owner_of(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/* What was made just now is not there: only an event trigger can do that. */
void
cdc_refuse_meddling(const char *what, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("%s \"%s\" was dropped or renamed while it was made", what, name),
			 errhint("Look for an event trigger that does it.")));
}

/* Give a table or view to a role, if it belongs to another one. */
void
cdc_give_to(Oid relid, Oid owner)
{
	if (cdc_owner_of(relid) != owner)
		cdc_ddl("ALTER %s %s OWNER TO %s",
				get_rel_relkind(relid) == RELKIND_VIEW ? "VIEW" : "TABLE",
				cdc_quoted_relation(relid), quote_identifier(GetUserNameFromId(owner, false)));
}

/* ---------- columns of the target ---------- */

static bool
has_position_column(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped &&
			getBaseType(TupleDescAttr(desc, i)->atttypid) == cdc_position_type())
			return true;
	return false;
}

/* A partition has the columns of its parent, and none of its own. */
static void
refuse_partition(CdcAttach *a, const char *column, const char *definition)
{
	Oid			parent = get_partition_parent(a->relid, false);

	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot add column \"%s\" to target \"%s\", which is a partition", column,
					cdc_relation_name(a->rel)),
			 errhint("ALTER TABLE %s ADD COLUMN %s %s;", cdc_quoted_relation(parent),
					 quote_identifier(column), definition)));
}

/*
 * Which columns of the rule's own the target lacks.  The rule is told
 * the names, so that what is added is what is used.
 */
void
cdc_attach_plan_columns(CdcAttach *a)
{
	CdcRule    *rule = &a->rule;

	a->add_position = a->add_tombstone = a->add_marks = NULL;
	if (rule->position_columns == NIL && !has_position_column(a->rel) &&
		get_attnum(a->relid, "source_lsn") <= 0)
		rule->position_columns = list_make1(pstrdup(CDC_POSITION_COLUMN));
	if (list_length(rule->position_columns) == 1 &&
		get_attnum(a->relid, linitial(rule->position_columns)) == InvalidAttrNumber)
		a->add_position = linitial(rule->position_columns);

	if (!a->side)
	{
		if (rule->tombstone_column == NULL)
			rule->tombstone_column = pstrdup(CDC_TOMBSTONE_COLUMN);
		if (get_attnum(a->relid, rule->tombstone_column) == InvalidAttrNumber)
			a->add_tombstone = rule->tombstone_column;
	}
	/* what the rule was recorded with is not made anew: all it held is gone */
	if (a->reg.rule.exists && (a->add_position != NULL || a->add_tombstone != NULL))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("%s column \"%s\" of target \"%s\" is gone",
						a->add_position ? "position" : "tombstone",
						a->add_position ? a->add_position : a->add_tombstone,
						cdc_relation_name(a->rel)),
				 errdetail("What it held of each row is no longer known."),
				 errhint("Note the rule (cdc_targets), use cdc_detach() and cdc_attach() with it, then replay the log.")));
	/* without it a row's columns count as new as the row: it can be made anew */
	if (rule->column_positions != NULL &&
		get_attnum(a->relid, rule->column_positions) == InvalidAttrNumber)
		a->add_marks = rule->column_positions;
	if (a->add_marks != NULL &&
		(a->add_marks[0] == '\0' ||
		 (a->add_position != NULL && strcmp(a->add_marks, a->add_position) == 0) ||
		 (a->add_tombstone != NULL && strcmp(a->add_marks, a->add_tombstone) == 0)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("column_positions cannot be column \"%s\" of target \"%s\"", a->add_marks,
						cdc_relation_name(a->rel)),
				 errhint("Name a column of its own, such as cdc_columns.")));
	if (a->add_marks != NULL && a->rel->rd_rel->relispartition)
		refuse_partition(a, a->add_marks, "jsonb");
	if (a->add_position != NULL && a->rel->rd_rel->relispartition)
		refuse_partition(a, a->add_position, format_type_be(cdc_position_type()));
	if (a->add_tombstone != NULL && a->rel->rd_rel->relispartition)
		refuse_partition(a, a->add_tombstone, "boolean NOT NULL DEFAULT false");
}

/* Add them, in one statement and without touching a row. */
void
cdc_attach_add_columns(CdcAttach *a)
{
	StringInfoData sql;

	if (a->add_position == NULL && a->add_tombstone == NULL && a->add_marks == NULL)
		return;
	initStringInfo(&sql);
	if (a->add_position != NULL)
		appendStringInfo(&sql, "ADD COLUMN %s %s", quote_identifier(a->add_position),
						 quote_qualified_identifier(get_namespace_name(cdc_extension_schema()),
													"cdc_position"));
	if (a->add_tombstone != NULL)
		appendStringInfo(&sql, "%sADD COLUMN %s pg_catalog.bool NOT NULL DEFAULT false",
						 sql.len > 0 ? ", " : "", quote_identifier(a->add_tombstone));
	if (a->add_marks != NULL)
		appendStringInfo(&sql, "%sADD COLUMN %s pg_catalog.jsonb",
						 sql.len > 0 ? ", " : "", quote_identifier(a->add_marks));
	cdc_ddl("ALTER TABLE %s %s", cdc_quoted_relation(a->relid), sql.data);
}

/* ---------- the side table ---------- */

/* Is there one, from this attachment or an earlier one? */
bool
cdc_side_table_exists(const CdcRegistration *reg)
{
	return OidIsValid(reg->tombstones) && get_rel_name(reg->tombstones) != NULL;
}

/* Is a column of that name no key column of a side table? */
bool
cdc_is_side_column(const char *name)
{
	return strcmp(name, CDC_SIDE_POSITION) == 0 || strcmp(name, CDC_SIDE_TIME) == 0;
}

/* Does a relation look like a side table? */
bool
cdc_is_side_shaped(Oid relid)
{
	return get_rel_relkind(relid) == RELKIND_RELATION &&
		get_atttype(relid, get_attnum(relid, CDC_SIDE_POSITION)) == cdc_position_type() &&
		get_atttype(relid, get_attnum(relid, CDC_SIDE_TIME)) == TIMESTAMPTZOID;
}

/* The qualified name of a collation, quoted. */
char *
cdc_collation_name(Oid collation)
{
	HeapTuple	tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	Form_pg_collation form;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	form = (Form_pg_collation) GETSTRUCT(tuple);
	name = quote_qualified_identifier(get_namespace_name(form->collnamespace),
									  NameStr(form->collname));
	ReleaseSysCache(tuple);
	return name;
}

/* The qualified name of an operator class, quoted. */
char *
cdc_opclass_name(Oid opclass)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	Form_pg_opclass form;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator class %u", opclass);
	form = (Form_pg_opclass) GETSTRUCT(tuple);
	name = quote_qualified_identifier(get_namespace_name(form->opcnamespace),
									  NameStr(form->opcname));
	ReleaseSysCache(tuple);
	return name;
}

/* The operator classes of an index, in the current memory context. */
oidvector *
cdc_index_opclasses(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	Datum		value;
	bool		isnull;
	oidvector  *classes;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", index);
	value = SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indclass, &isnull);
	classes = (oidvector *) PG_DETOAST_DATUM_COPY(value);
	ReleaseSysCache(tuple);
	return classes;
}

/*
 * Columns of the side table and of its index: the key in the order of the
 * target's key index, with its types, collations and operator classes.
 */
static void
describe_side_table(CdcAttach *a, StringInfo columns, StringInfo index)
{
	CdcTarget  *target = &a->target;
	oidvector  *classes = cdc_index_opclasses(target->index);

	for (int i = 0; i < target->nkeys; i++)
	{
		CdcKey	   *key = &target->keys[i];
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(a->rel), key->attno - 1);
		const char *name = quote_identifier(key->name);

		if (cdc_is_side_column(key->name))
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_COLUMN),
					 errmsg("key column \"%s\" of target \"%s\" has a name that the side table needs",
							key->name, target->name),
					 errhint("Rename the column, or keep tombstones in the row: tombstones => 'row'.")));
		appendStringInfo(columns, "%s %s", name,
						 format_type_extended(att->atttypid, att->atttypmod,
											  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
		if (OidIsValid(att->attcollation))
			appendStringInfo(columns, " COLLATE %s", cdc_collation_name(att->attcollation));
		appendStringInfoString(columns, " NOT NULL, ");

		appendStringInfo(index, "%s%s", i > 0 ? ", " : "", name);
		if (OidIsValid(key->collation))
			appendStringInfo(index, " COLLATE %s", cdc_collation_name(key->collation));
		appendStringInfo(index, " %s", cdc_opclass_name(classes->values[i]));
	}
	appendStringInfo(columns, CDC_SIDE_POSITION " %s NOT NULL, "
					 CDC_SIDE_TIME " pg_catalog.timestamptz NOT NULL",
					 quote_qualified_identifier(get_namespace_name(cdc_extension_schema()),
												"cdc_position"));
}

/*
 * The name of a side table is taken.  A table that looks like one, and is
 * nobody's, may hold the deletes of an earlier attachment (the registry has
 * been dropped since): without them older events bring rows back.
 */
static void
warn_of_stray_side_table(CdcAttach *a, const char *name)
{
	char	   *usual = makeObjectName(RelationGetRelationName(a->rel), NULL, "tombstones");
	Oid			stray = get_relname_relid(usual, RelationGetNamespace(a->rel));
	bool		has_position;
	bool		has_time;
	StringInfoData keys;

	if (strcmp(usual, name) == 0 || !OidIsValid(stray) ||
		(get_rel_relkind(stray) != RELKIND_RELATION &&
		 get_rel_relkind(stray) != RELKIND_PARTITIONED_TABLE) ||
		OidIsValid(cdc_registry_side_table_of(stray)))
		return;
	has_position = get_attnum(stray, CDC_SIDE_POSITION) > 0;
	has_time = get_attnum(stray, CDC_SIDE_TIME) > 0;
	if (!has_position && !has_time)
		return;
	initStringInfo(&keys);
	for (int i = 0; i < a->target.nkeys; i++)
	{
		if (get_attnum(stray, a->target.keys[i].name) <= 0)
			return;
		appendStringInfo(&keys, "%s, ", quote_identifier(a->target.keys[i].name));
	}
	ereport(WARNING,
			(errmsg("table \"%s\" is not the side table of target \"%s\"", usual,
					a->target.name),
			 errdetail("It looks like one of an earlier attachment. Deletes are remembered in \"%s\" from now on, which is empty.",
					   name),
			 has_position && has_time ?
			 errhint("If it holds deletes of this target, carry them over before the next apply, and drop it: INSERT INTO %s (%s" CDC_SIDE_POSITION ", " CDC_SIDE_TIME ") SELECT %s" CDC_SIDE_POSITION "::%s, " CDC_SIDE_TIME " FROM %s;",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(a->rel)), name),
					 keys.data, keys.data,
					 quote_qualified_identifier(get_namespace_name(cdc_extension_schema()),
												"cdc_position"),
					 cdc_quoted_relation(stray)) :
			 errhint("If it holds deletes of this target, carry their keys and positions over before the next apply, and drop it.")));
}

/*
 * Make the side table of the target, whose key has been described.  It stands
 * in the target's schema and belongs to its owner.
 */
Oid
cdc_attach_create_side_table(CdcAttach *a)
{
	Oid			schema = RelationGetNamespace(a->rel);
	char	   *schema_name = get_namespace_name(schema);
	char	   *name = ChooseRelationName(RelationGetRelationName(a->rel), NULL, "tombstones",
										  schema, false);
	char	   *table = quote_qualified_identifier(schema_name, name);
	char		persistence = a->rel->rd_rel->relpersistence;
	StringInfoData columns;
	StringInfoData index;
	char	   *index_name;
	Oid			relid;

	warn_of_stray_side_table(a, name);
	initStringInfo(&columns);
	initStringInfo(&index);
	describe_side_table(a, &columns, &index);
	cdc_ddl("CREATE %sTABLE %s (%s) USING heap",
			persistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " :
			persistence == RELPERSISTENCE_TEMP ? "TEMPORARY " : "", table, columns.data);
	relid = get_relname_relid(name, schema);
	if (!OidIsValid(relid))
		cdc_refuse_meddling("side table", name);

	index_name = ChooseRelationName(name, NULL, "key", schema, false);
	cdc_ddl("CREATE UNIQUE INDEX %s ON %s (%s)", quote_identifier(index_name), table, index.data);
	cdc_ddl("ALTER TABLE %s REPLICA IDENTITY USING INDEX %s", table, quote_identifier(index_name));
	cdc_ddl("COMMENT ON TABLE %s IS %s", table,
			quote_literal_cstr(psprintf("deletes of \"%s\" that cdc_precedence remembers: key and position of each",
										cdc_relation_name(a->rel))));
	cdc_give_to(relid, a->rel->rd_rel->relowner);
	return relid;
}
