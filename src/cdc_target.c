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

/* ---------- the key ---------- */

static char *
quoted_list(List *names)
{
	StringInfoData s;
	ListCell   *lc;

	initStringInfo(&s);
	foreach(lc, names)
		appendStringInfo(&s, "%s%s", s.len > 0 ? ", " : "", quote_identifier(lfirst(lc)));
	return s.data;
}

static void
refuse_key(const CdcTarget *target, List *names, const char *why)
{
	Relation	rel = target->rel;

	if (names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("target \"%s\" has no usable key", target->name),
				 errdetail("%s", why),
				 errhint("Add a primary key, or name the columns of a unique index in key_columns.")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("target \"%s\" has no usable key on (%s)", target->name, quoted_list(names)),
			 errdetail("%s", why),
			 errhint("CREATE UNIQUE INDEX%s ON %s (%s);",
					 rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? "" : " CONCURRENTLY",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												RelationGetRelationName(rel)),
					 quoted_list(names))));
}

/* Why the index is no key, or NULL when it is one. */
static const char *
index_flaw(Relation index)
{
	Form_pg_index form = index->rd_index;

	if (!form->indisunique || index->rd_rel->relam != BTREE_AM_OID)
		return "The index is not unique.";
	if (!form->indimmediate)
		return "The unique constraint is deferrable.";
	if (!form->indisvalid)
		return "The unique index is not valid.";
	if (RelationGetIndexPredicate(index) != NIL)
		return "The unique index is partial.";
	return NULL;
}

/* Are the key columns of the index just these columns of rel, in any order? */
static bool
index_covers(Relation index, Relation rel, List *names)
{
	Form_pg_index form = index->rd_index;
	ListCell   *lc;

	if (form->indnkeyatts != list_length(names))
		return false;
	foreach(lc, names)
	{
		AttrNumber	attno = get_attnum(RelationGetRelid(rel), lfirst(lc));
		bool		found = false;

		for (int i = 0; i < form->indnkeyatts; i++)
			found |= form->indkey.values[i] == attno;
		if (!found)
			return false;
	}
	return true;
}

static Oid
find_named_key(CdcTarget *target, List *names)
{
	const char *why = "No unique index has exactly these key columns.";
	List	   *indexes = RelationGetIndexList(target->rel);
	Oid			found = InvalidOid;
	ListCell   *lc;

	foreach(lc, names)
	{
		if (get_attnum(target->relid, lfirst(lc)) <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("key column \"%s\" does not exist in target \"%s\"",
							(char *) lfirst(lc), target->name)));
		for (int i = 0; i < foreach_current_index(lc); i++)
			if (strcmp(list_nth(names, i), lfirst(lc)) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_COLUMN),
						 errmsg("key_columns names column \"%s\" twice", (char *) lfirst(lc))));
	}
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (!OidIsValid(found) && index_covers(index, target->rel, names))
		{
			const char *flaw = index_flaw(index);

			if (flaw == NULL)
				found = RelationGetRelid(index);
			else if (index->rd_index->indisunique)
				why = flaw;
		}
		index_close(index, NoLock);
	}
	if (!OidIsValid(found))
		refuse_key(target, names, why);
	return found;
}

static Oid
find_primary_key(CdcTarget *target)
{
	List	   *indexes = RelationGetIndexList(target->rel);
	const char *flaw = NULL;
	Oid			found = InvalidOid;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (index->rd_index->indisprimary)
		{
			found = RelationGetRelid(index);
			flaw = index_flaw(index);
		}
		index_close(index, NoLock);
	}
	if (!OidIsValid(found))
		refuse_key(target, NIL, "It has no primary key.");
	if (flaw != NULL)
		refuse_key(target, NIL, psprintf("Its primary key cannot be used. %s", flaw));
	return found;
}

/*
 * Are equal keys equal bytes, and where are these?  proc is the operator
 * class's own word on it.
 */
static CdcKeyImage
key_image(const CdcKey *key, Oid proc, Oid intype)
{
	Oid			type = getBaseType(key->type);

	/* without its blanks a char(n) is not the bytes that were stored */
	if (!OidIsValid(proc) || type == BPCHAROID ||
		!DatumGetBool(OidFunctionCall1Coll(proc, key->collation, ObjectIdGetDatum(intype))))
		return CDC_KEY_BY_OPERATOR;
	if (key->typbyval)
		return CDC_KEY_BY_VALUE;
	if (key->typlen == -1)
		return CDC_KEY_BY_VARLENA;
	/* a name may have bytes behind its end */
	return key->typlen > 0 && type != NAMEOID ? CDC_KEY_BY_BYTES : CDC_KEY_BY_OPERATOR;
}

/* Equality, hashing and order of one key column, as its index has them. */
static void
describe_key(CdcKey *key, CdcTarget *target, Relation index, int i)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(target->rel),
										  index->rd_index->indkey.values[i] - 1);
	Oid			family = index->rd_opfamily[i];
	Oid			intype = index->rd_opcintype[i];
	Oid			eq = get_opfamily_member(family, intype, intype, BTEqualStrategyNumber);
	Oid			lt = get_opfamily_member(family, intype, intype, BTLessStrategyNumber);
	RegProcedure lhs,
				rhs;

	key->attno = att->attnum;
	key->name = pstrdup(NameStr(att->attname));
	key->type = att->atttypid;
	key->typmod = att->atttypmod;
	key->typlen = att->attlen;
	key->typbyval = att->attbyval;
	key->notnull = att->attnotnull;
	key->collation = index->rd_indcollation[i];
	key->family = family;
	key->equal_proc = get_opcode(eq);
	fmgr_info(key->equal_proc, &key->equal);
	key->image = key_image(key, get_opfamily_proc(family, intype, intype, BTEQUALIMAGE_PROC), intype);
	key->hash.fn_oid = InvalidOid;
	if (get_op_hash_functions(eq, &lhs, &rhs))
		fmgr_info(lhs, &key->hash);
	key->sort.ssup_cxt = CurrentMemoryContext;
	key->sort.ssup_collation = key->collation;
	key->sort.ssup_nulls_first = false;
	PrepareSortSupportFromOrderingOp(lt, &key->sort);
	key->sort.ssup_reverse = (index->rd_indoption[i] & INDOPTION_DESC) != 0;
	key->sort_op = key->sort.ssup_reverse ?
		get_opfamily_member(family, intype, intype, BTGreaterStrategyNumber) : lt;
}

/*
 * The unique index over the target's key, with the operators and collations of
 * the target's key index, that a partition or the side table has; 0 without
 * one.  It is told by what it is: which index of a partition belongs to which
 * of its parent changes hands during a REINDEX CONCURRENTLY.
 */
Oid
cdc_target_key_index(const CdcTarget *target, Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	Oid			found = InvalidOid;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		Form_pg_index form = index->rd_index;
		bool		fits = index_flaw(index) == NULL && form->indnkeyatts == target->nkeys;

		for (int i = 0; fits && i < target->nkeys; i++)
		{
			const CdcKey *key = &target->keys[i];
			AttrNumber	attno = get_attnum(RelationGetRelid(rel), key->name);
			bool		has = false;

			for (int c = 0; c < target->nkeys; c++)
				has |= form->indkey.values[c] == attno &&
					index->rd_indcollation[c] == key->collation &&
					get_opcode(get_opfamily_member(index->rd_opfamily[c], index->rd_opcintype[c],
												   index->rd_opcintype[c],
												   BTEqualStrategyNumber)) == key->equal_proc;
			fits = has;
		}
		if (fits && !OidIsValid(found))
			found = RelationGetRelid(index);
		index_close(index, NoLock);
	}
	return found;
}

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
	if (found == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("target \"%s\" has no position column", target->name),
				 errdetail("It has neither a cdc_position column nor source_lsn."),
				 errhint("ALTER TABLE %s ADD COLUMN source_position %s;",
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

/* Is it a column that the law stands on: key, position or tombstone? */
bool
cdc_target_is_law_column(const CdcTarget *target, AttrNumber attno)
{
	for (int i = 0; i < target->nkeys; i++)
		if (target->keys[i].attno == attno)
			return true;
	for (int i = 0; i < target->npos; i++)
		if (target->pos_attno[i] == attno)
			return true;
	return attno == target->tomb_attno; /* 0 in the side-table home */
}

/* Key, position and tombstone must be columns of their own that can be written. */
static void
check_law_columns(CdcTarget *target)
{
	if (target->tomb_attno != 0)
		refuse_generated(target, target->tomb_attno, "tombstone");
	for (int p = 0; p < target->npos; p++)
		refuse_generated(target, target->pos_attno[p], "position");
	for (int i = 0; i < target->nkeys; i++)
	{
		CdcKey	   *key = &target->keys[i];
		const char *what = key->attno == target->tomb_attno ? "tombstone" : NULL;

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

/*
 * Fill *target with the relation and its key, that of the primary key when
 * key_columns is NIL.  Allocates in the current memory context; rel stays open
 * as long as *target is used.
 */
void
cdc_target_describe_key(CdcTarget *target, Relation rel, List *key_columns)
{
	Relation	index;

	memset(target, 0, sizeof(CdcTarget));
	target->rel = rel;
	target->relid = RelationGetRelid(rel);
	target->name = cdc_relation_name(rel);
	target->natts = RelationGetDescr(rel)->natts;
	target->index = key_columns != NIL ?
		find_named_key(target, key_columns) : find_primary_key(target);

	index = index_open(target->index, AccessShareLock);
	target->nkeys = index->rd_index->indnkeyatts;
	target->keys = palloc0(sizeof(CdcKey) * target->nkeys);
	for (int i = 0; i < target->nkeys; i++)
		describe_key(&target->keys[i], target, index, i);
	index_close(index, NoLock);
}

/* Fill *target from the relation and the rule, as above. */
void
cdc_target_describe(CdcTarget *target, Relation rel, const CdcRule *rule)
{
	cdc_target_describe_key(target, rel, rule->key_columns);
	describe_position(target, rule);
	target->horizon = rule->horizon;
	target->tombstones = rule->tombstones;
	if (OidIsValid(target->tombstones))
		cdc_tombstones_check(target);
	else
		describe_tombstone(target, rule);
	check_law_columns(target);
}
