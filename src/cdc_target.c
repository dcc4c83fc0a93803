/*-------------------------------------------------------------------------
 *
 * cdc_target.c
 *		The target: what it must be, its lock, its key index, its position and
 *		tombstone columns, and the row that it holds for a key.
 *
 * Catalogs are read here only.  Writing is in cdc_write.c.
 *
 * Locks: cdc_target_lock takes an object lock of the extension's own on the
 * target (class pg_class, sub-object CDC_LOCK_SUBID), kept to the end of the
 * transaction: it serializes applies of one target and blocks nobody else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "access/tupconvert.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/pg_am.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/execPartition.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#include "cdc_apply.h"
#include "cdc_probe.h"

/* Tells the extension's lock on a relation from any other object lock. */
#define CDC_LOCK_SUBID	0x0CDC

/*
 * Refuse what cannot be a target.  Rights are checked by cdc_target_begin.
 */
void
cdc_target_check(Relation rel)
{
	char		kind = rel->rd_rel->relkind;
	Oid			extension;

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("target \"%s\" is not a table", cdc_relation_name(rel)),
				 errdetail("Events can be applied to ordinary and partitioned tables only.")));
	if (IsSystemRelation(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("target \"%s\" is a system catalog", cdc_relation_name(rel))));
	/* a registry that kept its own rule would change shape under itself */
	extension = getExtensionOfObject(RelationRelationId, RelationGetRelid(rel));
	if (OidIsValid(extension) && extension == get_extension_oid("cdc_precedence", true))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("target \"%s\" is a table of extension \"%s\"", cdc_relation_name(rel),
						"cdc_precedence")));
	if (kind == RELKIND_RELATION && rel->rd_rel->relhassubclass &&
		has_subclass(RelationGetRelid(rel)) &&
		find_inheritance_children(RelationGetRelid(rel), NoLock) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("target \"%s\" is an inheritance parent", cdc_relation_name(rel)),
				 errdetail("A unique index does not reach into child tables, so the key is not unique."),
				 errhint("Use a partitioned table.")));
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("target \"%s\" is a temporary table of another session",
						cdc_relation_name(rel)),
				 errdetail("What the other session keeps of it in memory cannot be seen.")));
	cdc_refuse_append_only(rel);
	/* refused in these words even where row_security = off would refuse it in others */
	if (check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("target \"%s\" has row-level security in force", cdc_relation_name(rel)),
				 errdetail("Whether an event is newer cannot be told from rows that the policies hide."),
				 errhint("Apply as a role that bypasses row-level security, such as the table's owner.")));
}

/*
 * The partitioned tables that relid is a partition of, the nearest first.
 * Unlike get_partition_ancestors() it knows those that relid, or one between,
 * is being detached from: until that is done rows still come in through them.
 */
List *
cdc_target_ancestors(Oid relid)
{
	Relation	inherits = table_open(InheritsRelationId, AccessShareLock);
	List	   *ancestors = NIL;

	while (OidIsValid(relid))
	{
		SysScanDesc scan;
		ScanKeyData key;
		HeapTuple	tuple;

		ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(relid));
		scan = systable_beginscan(inherits, InheritsRelidSeqnoIndexId, true, NULL, 1, &key);
		tuple = systable_getnext(scan);
		relid = HeapTupleIsValid(tuple) ?
			((Form_pg_inherits) GETSTRUCT(tuple))->inhparent : InvalidOid;
		systable_endscan(scan);
		if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
			break;
		ancestors = lappend_oid(ancestors, relid);
	}
	table_close(inherits, AccessShareLock);
	return ancestors;
}

/*
 * Take the apply lock of a target to the end of the transaction.  False when
 * nowait and somebody else holds it.
 */
bool
cdc_target_lock(Oid relid, LOCKMODE mode, bool nowait)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, relid, CDC_LOCK_SUBID);
	if (LockAcquire(&tag, mode, false, nowait) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	AcceptInvalidationMessages();
	return true;
}

/* Give back what the last cdc_target_lock() in this mode took. */
void
cdc_target_unlock(Oid relid, LOCKMODE mode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, relid, CDC_LOCK_SUBID);
	LockRelease(&tag, mode, false);
}

/* What only an owner may do. */
void
cdc_check_owner(Relation rel)
{
	if (!cdc_owns_relation(RelationGetRelid(rel), GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(rel->rd_rel->relkind),
					   RelationGetRelationName(rel));
}

/* ---------- the key ---------- */

/* ---------- position and tombstone ---------- */

void
cdc_refuse_position_type(const char *where, const char *column, Oid type)
{
	const char *why = "Positions are of type cdc_position, or several columns that start with a pg_lsn, a numeric or an integer.";

	if (type == TEXTOID || type == VARCHAROID || type == BPCHAROID)
		why = "Text sorts 9 after 10, so it cannot order a log.";
	else if (type == TIMESTAMPOID || type == TIMESTAMPTZOID || type == DATEOID)
		why = "Clocks tie and run back, so they cannot order a log.";
	else if (type == FLOAT4OID || type == FLOAT8OID)
		why = "Floating point drops digits, so it cannot order a log.";
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("position column \"%s\" of %s is of type %s", column, where,
					format_type_be(type)),
			 errdetail("%s", why),
			 strcmp(where, "staging") == 0 ?
			 errhint("In staging_position, cast a text that holds a position (::pg_lsn or ::cdc_position), or make one from the source's log coordinates with cdc_position() or cdc_position_from_numbers().") :
			 errhint("Use a cdc_position column; staging_position can make one from the source's log coordinates.")));
}

/* The target's position columns when nobody named them. */
static List *
default_positions(CdcTarget *target)
{
	TupleDesc	desc = RelationGetDescr(target->rel);
	List	   *found = NIL;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && getBaseType(att->atttypid) == cdc_position_type())
			found = lappend(found, pstrdup(NameStr(att->attname)));
	}
	if (list_length(found) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("target \"%s\" has more than one cdc_position column", target->name),
				 errhint("Name the one that holds a row's position in position_columns.")));
	if (found == NIL && get_attnum(target->relid, "source_lsn") > 0)
	{
		found = list_make1(pstrdup("source_lsn"));
		if (get_attnum(target->relid, "source_ordinal") > 0)
			found = lappend(found, pstrdup("source_ordinal"));
	}
	if (found == NIL && get_attnum(target->relid, "source_position") > 0)
		cdc_refuse_position_type("the target", "source_position",
								 get_atttype(target->relid,
											 get_attnum(target->relid, "source_position")));
	if (found == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("target \"%s\" has no position column", target->name),
				 errdetail("It has neither a cdc_position column nor source_lsn."),
				 errhint("ALTER TABLE %s ADD COLUMN source_position %s; cdc_attach() adds it too.",
						 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(target->rel)),
													RelationGetRelationName(target->rel)),
						 format_type_be(cdc_position_type()))));
	return found;
}

static void
describe_position(CdcTarget *target, const CdcRule *rule)
{
	List	   *names = rule->position_columns;
	ListCell   *lc;

	if (names == NIL)
		names = default_positions(target);
	if (list_length(names) > CDC_POSITION_MAX_PARTS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a position has at most %d parts", CDC_POSITION_MAX_PARTS)));
	target->pos_attno = palloc(sizeof(AttrNumber) * list_length(names));
	target->pos_type = palloc(sizeof(Oid) * list_length(names));
	foreach(lc, names)
	{
		AttrNumber	attno = get_attnum(target->relid, lfirst(lc));
		Oid			type;

		if (attno <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("position column \"%s\" does not exist in target \"%s\"",
							(char *) lfirst(lc), target->name)));
		type = getBaseType(get_atttype(target->relid, attno));
		if (!cdc_position_type_ok(type, target->npos == 0, list_length(names) == 1))
			cdc_refuse_position_type("the target", lfirst(lc), type);
		target->pos_attno[target->npos] = attno;
		target->pos_type[target->npos++] = type;
	}
	target->pos_single = target->pos_type[0] == cdc_position_type();
	target->pos_kind = target->pos_type[0] == LSNOID ? CDC_POSITION_LSN : CDC_POSITION_NUMBER;
}

static void
describe_tombstone(CdcTarget *target, const CdcRule *rule)
{
	const char *name = rule->tombstone_column ? rule->tombstone_column : "deleted";
	AttrNumber	attno = get_attnum(target->relid, name);
	Oid			type;

	if (attno <= 0 && rule->tombstone_column != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("tombstone column \"%s\" does not exist in target \"%s\"", name,
						target->name)));
	if (attno <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("target \"%s\" has no place for tombstones", target->name),
				 errdetail("A delete that is not remembered lets an older event bring the row back."),
				 errhint("SELECT %s(%s) gives it a side table; or add a column deleted boolean NOT NULL DEFAULT false, or name the column in tombstone_column.",
						 cdc_function_name("cdc_attach"),
						 quote_literal_cstr(quote_qualified_identifier(get_namespace_name(RelationGetNamespace(target->rel)),
																	   RelationGetRelationName(target->rel))))));
	type = getBaseType(get_atttype(target->relid, attno));
	if (type != BOOLOID && type != TIMESTAMPTZOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("tombstone column \"%s\" is of type %s", name, format_type_be(type)),
				 errdetail("A tombstone column is a boolean, or a timestamptz that is set when the row is deleted.")));
	target->tomb_attno = attno;
	target->tomb_time = type == TIMESTAMPTZOID;
}

/* The column that says which columns are older than their row, if the rule has one. */
static void
describe_marks(CdcTarget *target, const CdcRule *rule)
{
	const char *name = rule->column_positions;
	const char *table = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(target->rel)),
												   RelationGetRelationName(target->rel));
	AttrNumber	attno;
	Form_pg_attribute att;

	if (name == NULL)
		return;
	attno = get_attnum(target->relid, name);
	if (attno <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column_positions column \"%s\" does not exist in target \"%s\"", name,
						target->name),
				 errhint("ALTER TABLE %s ADD COLUMN %s jsonb; cdc_attach() adds it too.", table,
						 quote_identifier(name))));
	att = TupleDescAttr(RelationGetDescr(target->rel), attno - 1);
	if (att->atttypid != JSONBOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column_positions column \"%s\" of target \"%s\" is of type %s", name,
						target->name, format_type_be(att->atttypid)),
				 errdetail("It holds a JSON object that only cdc_apply() writes."),
				 errhint("Name a column of type jsonb, or a new one that cdc_attach() adds.")));
	if (att->attnotnull)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("column_positions column \"%s\" of target \"%s\" takes no NULL", name,
						target->name),
				 errdetail("It is NULL in each row whose columns are all as new as the row."),
				 errhint("ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL;", table,
						 quote_identifier(name))));
	target->marks_attno = attno;
}

static void
refuse_generated(CdcTarget *target, AttrNumber attno, const char *what)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(target->rel), attno - 1);

	if (att->attgenerated != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("%s column \"%s\" of target \"%s\" is generated", what,
						NameStr(att->attname), target->name),
				 errdetail("What an event says could not be stored in it.")));
}

/* Is it a column that the law stands on: key, position, tombstone, column positions? */
bool
cdc_target_is_law_column(const CdcTarget *target, AttrNumber attno)
{
	for (int i = 0; i < target->nkeys; i++)
		if (target->keys[i].attno == attno)
			return true;
	for (int i = 0; i < target->npos; i++)
		if (target->pos_attno[i] == attno)
			return true;
	/* these are 0 where there are none */
	return attno == target->tomb_attno || attno == target->marks_attno;
}

/* Key, position and tombstone must be columns of their own that can be written. */
static void
check_law_columns(CdcTarget *target)
{
	if (target->tomb_attno != 0)
		refuse_generated(target, target->tomb_attno, "tombstone");
	if (target->marks_attno != 0)
		refuse_generated(target, target->marks_attno, "column_positions");
	for (int p = 0; p < target->npos; p++)
		refuse_generated(target, target->pos_attno[p], "position");
	for (int i = 0; i < target->nkeys; i++)
	{
		CdcKey	   *key = &target->keys[i];
		const char *what = key->attno == target->tomb_attno ? "tombstone" :
			key->attno == target->marks_attno ? "column_positions" : NULL;

		refuse_generated(target, key->attno, "key");
		for (int p = 0; p < target->npos; p++)
			if (key->attno == target->pos_attno[p])
				what = "position";
		if (what != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s column \"%s\" of target \"%s\" is part of the key", what,
							key->name, target->name),
					 errdetail("Each change would be a row of its own.")));
	}
}

/* Fill *target from the relation and the rule, as above. */
void
cdc_target_describe(CdcTarget *target, Relation rel, const CdcRule *rule)
{
	cdc_target_describe_key(target, rel, rule->key_columns);
	describe_position(target, rule);
	target->horizon = rule->horizon;
	target->explain = rule->explain;
	target->tombstones = rule->tombstones;
	if (OidIsValid(target->tombstones))
		cdc_tombstones_check(target);
	else
		describe_tombstone(target, rule);
	describe_marks(target, rule);
	check_law_columns(target);
}
