/*-------------------------------------------------------------------------
 *
 * cdc_key.c
 *		The target's key: its index, and its values as that index sees them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "cdc_apply.h"

/* ---------- the index ---------- */

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
							(char *) lfirst(lc), target->name),
					 errhint("Names are taken as written: without quotes, and upper case counts.")));
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
	key->equal_op = eq;
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

/* ---------- values ---------- */

/* Are two key values equal, as the key index sees them? */
bool
cdc_key_equal(const CdcKey *key, Datum a, Datum b)
{
	struct varlena *x,
			   *y;

	switch (key->image)
	{
		case CDC_KEY_BY_VALUE:
			return a == b;
		case CDC_KEY_BY_BYTES:
			return memcmp(DatumGetPointer(a), DatumGetPointer(b), key->typlen) == 0;
		case CDC_KEY_BY_VARLENA:
			x = (struct varlena *) DatumGetPointer(a);
			y = (struct varlena *) DatumGetPointer(b);
			if (!cdc_varlena_is_plain(x) || !cdc_varlena_is_plain(y))
				break;
			return VARSIZE_ANY_EXHDR(x) == VARSIZE_ANY_EXHDR(y) &&
				memcmp(VARDATA_ANY(x), VARDATA_ANY(y), VARSIZE_ANY_EXHDR(x)) == 0;
		case CDC_KEY_BY_OPERATOR:
			break;
	}
	return DatumGetBool(FunctionCall2Coll((FmgrInfo *) &key->equal, key->collation, a, b));
}

/*
 * A key value in the one form that a datum of its type has: as it comes out of
 * a row.  A conversion may have left other bits above a short value's.
 */
Datum
cdc_key_normal(const CdcKey *key, Datum value)
{
	if (key->image != CDC_KEY_BY_VALUE)
		return value;
	switch (key->typlen)
	{
		case 1:
			return CharGetDatum(DatumGetChar(value));
		case 2:
			return Int16GetDatum(DatumGetInt16(value));
		case 4:
			return Int32GetDatum(DatumGetInt32(value));
		default:
			return value;
	}
}

/* The hash of a key value; equal values have equal hashes. */
uint32
cdc_key_hash(CdcKey *key, Datum value)
{
	struct varlena *v;

	switch (key->image)
	{
		case CDC_KEY_BY_VALUE:
			return cdc_key_hash_value(value);
		case CDC_KEY_BY_BYTES:
			return hash_bytes((const unsigned char *) DatumGetPointer(value), key->typlen);
		case CDC_KEY_BY_VARLENA:
			v = PG_DETOAST_DATUM_PACKED(value);
			return hash_bytes((const unsigned char *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v));
		case CDC_KEY_BY_OPERATOR:
			break;
	}
	if (!OidIsValid(key->hash.fn_oid))
		return 0;
	return DatumGetUInt32(FunctionCall1Coll(&key->hash, key->collation, value));
}

/* Are equal keys also written the same way? */
bool
cdc_keys_same(const CdcTarget *target, const Datum *a, const Datum *b)
{
	bool		same = true;

	for (int i = 0; i < target->nkeys && same; i++)
		same = datum_image_eq(a[i], b[i], target->keys[i].typbyval, target->keys[i].typlen);
	return same;
}
