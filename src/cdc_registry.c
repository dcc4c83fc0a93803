/*-------------------------------------------------------------------------
 *
 * cdc_registry.c
 *		The two tables that remember targets: cdc_target_rule and
 *		cdc_target_state, in the extension's schema.
 *
 * Rows are read and written directly, past the rights of the caller: what a
 * caller may do to a target is checked by who calls, and what a row says is
 * checked when it is used.
 *
 * Locks: whoever writes holds the target's apply lock and a lock on the target
 * that keeps ALTER TABLE out, so that no row is written from two sides.  The
 * tables are locked as by any statement.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "cdc_consume.h"
#include "cdc_registry.h"

static const char *const rule_table = "cdc_target_rule";
static const char *const state_table = "cdc_target_state";

/* The schema that holds the extension; 0 when it was dropped meanwhile. */
static Oid
find_schema(void)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(cdc_position_type()));
	Oid			schema;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	schema = ((Form_pg_type) GETSTRUCT(tuple))->typnamespace;
	ReleaseSysCache(tuple);
	return schema;
}

static void
refuse_missing(const char *what, int code)
{
	ereport(ERROR,
			(errcode(code),
			 errmsg("%s of extension cdc_precedence is missing", what),
			 errdetail("The extension was dropped meanwhile, or its objects stand in different schemas.")));
}

/* The schema that holds the extension. */
Oid
cdc_extension_schema(void)
{
	Oid			schema = find_schema();

	if (!OidIsValid(schema))
		refuse_missing("type \"cdc_position\"", ERRCODE_UNDEFINED_OBJECT);
	return schema;
}

/* Open a table; NULL when it is gone: until here another session may drop the extension. */
Relation
cdc_registry_try_open(const char *name, LOCKMODE lockmode)
{
	Oid			relid = get_relname_relid(name, find_schema());

	return OidIsValid(relid) ? try_table_open(relid, lockmode) : NULL;
}

/* Open a table of the registry, which has so many columns. */
Relation
cdc_registry_open(const char *name, int columns, LOCKMODE lockmode)
{
	Relation	table = cdc_registry_try_open(name, lockmode);

	if (table == NULL)
		refuse_missing(psprintf("table \"%s\"", name), ERRCODE_UNDEFINED_TABLE);
	if (RelationGetNumberOfAttributes(table) != columns)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" of extension cdc_precedence is not the one of its library", name),
				 errhint("ALTER EXTENSION cdc_precedence UPDATE;")));
	return table;
}

static Relation
open_table(const char *name, LOCKMODE lockmode)
{
	return cdc_registry_open(name, name == rule_table ? RULE_COLUMNS : STATE_COLUMNS, lockmode);
}

/* ---------- reading ---------- */

/* The row of a target at a snapshot, copied, or NULL. */
static HeapTuple
fetch(Relation table, Oid target, Snapshot snapshot)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(target));
	scan = systable_beginscan(table, cdc_primary_key_index(table), true, snapshot, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	return tuple;
}

/* The row as of now. */
HeapTuple
cdc_registry_fetch_now(Relation table, Oid target)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	HeapTuple	tuple = fetch(table, target, snapshot);

	UnregisterSnapshot(snapshot);
	return tuple;
}

/*
 * The row as of now.  Under REPEATABLE READ and SERIALIZABLE a row that the
 * transaction's snapshot shows otherwise must not decide anything.
 */
HeapTuple
cdc_registry_fetch_latest(Relation table, Oid target)
{
	HeapTuple	tuple = cdc_registry_fetch_now(table, target);

	if (IsolationUsesXactSnapshot())
	{
		HeapTuple	shown = fetch(table, target, GetTransactionSnapshot());

		if (HeapTupleIsValid(tuple) != HeapTupleIsValid(shown) ||
			(HeapTupleIsValid(tuple) && !ItemPointerEquals(&tuple->t_self, &shown->t_self)))
			cdc_refuse_concurrent();
	}
	return tuple;
}

static void
read_record(const char *name, Oid target, bool checked, CdcRecord *record)
{
	Relation	table = open_table(name, AccessShareLock);

	record->tuple = checked ? cdc_registry_fetch_latest(table, target) : cdc_registry_fetch_now(table, target);
	record->exists = HeapTupleIsValid(record->tuple);
	if (record->exists)
		heap_deform_tuple(record->tuple, RelationGetDescr(table), record->values, record->isnull);
	else
		memset(record->isnull, true, sizeof(record->isnull));
	table_close(table, AccessShareLock);
}

static void
get_position(const CdcRecord *record, int column, CdcPos *pos)
{
	struct varlena *v;

	pos->len = 0;
	if (record->isnull[column])
		return;
	v = DatumGetCdcPosition(record->values[column]);
	pos->len = cdc_value_len(v);
	memcpy(pos->bytes, cdc_value_bytes(v), pos->len);
}

static void
read_records(Oid target, bool checked, CdcRegistration *reg)
{
	CdcRecord  *state = &reg->state;

	memset(reg, 0, sizeof(CdcRegistration));
	reg->target = target;
	read_record(rule_table, target, checked, &reg->rule);
	read_record(state_table, target, checked, state);
	if (!state->exists)
		return;
	if (!state->isnull[STATE_TOMBSTONES])
		reg->tombstones = DatumGetObjectId(state->values[STATE_TOMBSTONES]);
	get_position(state, STATE_FENCE, &reg->horizon.fence);
	get_position(state, STATE_FLOOR, &reg->horizon.floor);
	get_position(state, STATE_HIGH_POSITION, &reg->high);
	reg->epoch = DatumGetInt64(state->values[STATE_EPOCH]);
	if (!state->isnull[STATE_LINEAGE])
		reg->lineage = TextDatumGetCString(state->values[STATE_LINEAGE]);
}

/*
 * Read what is recorded of a target, in the current memory context.  The
 * caller holds the target's apply lock if it means to act on it.
 */
void
cdc_registry_read(Oid target, CdcRegistration *reg)
{
	read_records(target, true, reg);
}

/* The same as of now, whatever the transaction's snapshot shows. */
void
cdc_registry_read_now(Oid target, CdcRegistration *reg)
{
	read_records(target, false, reg);
}

/* Add what the rows of one table say to a list of CdcRegistered. */
static List *
list_rows(List *list, const char *name, bool rules)
{
	Relation	table = cdc_registry_try_open(name, AccessShareLock);
	Snapshot	snapshot;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (table == NULL)
		return list;
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan = systable_beginscan(table, InvalidOid, false, snapshot, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		CdcRegistered *row = palloc0(sizeof(CdcRegistered));
		bool		isnull;
		Datum		other = heap_getattr(tuple, (rules ? RULE_LIVE_VIEW : STATE_TOMBSTONES) + 1,
										 RelationGetDescr(table), &isnull);

		row->target = DatumGetObjectId(heap_getattr(tuple, 1, RelationGetDescr(table),
													&row->attached));
		row->attached = rules;
		if (!isnull && rules)
			row->live_view = DatumGetObjectId(other);
		else if (!isnull)
			row->tombstones = DatumGetObjectId(other);
		list = lappend(list, row);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(table, AccessShareLock);
	return list;
}

/*
 * All rows of both tables as of now, as CdcRegistered: a target that is
 * attached has two.  Empty while the extension is being dropped.
 */
List *
cdc_registry_all(void)
{
	return list_rows(list_rows(NIL, state_table, false), rule_table, true);
}

/* The target whose tombstones stand in relid, or 0. */
Oid
cdc_registry_side_table_of(Oid relid)
{
	ListCell   *lc;

	foreach(lc, cdc_registry_all())
		if (OidIsValid(relid) && ((CdcRegistered *) lfirst(lc))->tombstones == relid)
			return ((CdcRegistered *) lfirst(lc))->target;
	return InvalidOid;
}

static bool
is_attached(Relation table, Oid relid)
{
	return HeapTupleIsValid(cdc_registry_fetch_latest(table, relid));
}

/* Let nobody else attach or detach a table until the transaction ends. */
void
cdc_registry_lock_rules(void)
{
	table_close(open_table(rule_table, ShareRowExclusiveLock), NoLock);
}

/* The attached table that relid is a partition of, at any depth, or 0. */
Oid
cdc_registry_attached_ancestor(Oid relid)
{
	Relation	table;
	Oid			found = InvalidOid;
	ListCell   *lc;

	if (!get_rel_relispartition(relid))
		return InvalidOid;
	table = open_table(rule_table, AccessShareLock);
	foreach(lc, cdc_target_ancestors(relid))
		if (!OidIsValid(found) && is_attached(table, lfirst_oid(lc)))
			found = lfirst_oid(lc);
	table_close(table, AccessShareLock);
	return found;
}

/*
 * An attached partition of relid, at any depth, or 0.  There are fewer
 * attached tables than partitions, as a rule.
 */
Oid
cdc_registry_attached_partition(Oid relid)
{
	Relation	table;
	Snapshot	snapshot;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			found = InvalidOid;

	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return InvalidOid;
	table = open_table(rule_table, AccessShareLock);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan = systable_beginscan(table, InvalidOid, false, snapshot, 0, NULL);
	while (!OidIsValid(found) && (tuple = systable_getnext(scan)) != NULL)
	{
		bool		isnull;
		Oid			target = DatumGetObjectId(heap_getattr(tuple, RULE_TARGET + 1,
														   RelationGetDescr(table), &isnull));

		if (get_rel_relispartition(target) &&
			list_member_oid(get_partition_ancestors(target), relid))
			found = target;
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(table, AccessShareLock);
	return found;
}

/* What a table that is not attached still remembers, or NULL. */
static const char *
what_is_remembered(Oid target)
{
	CdcRegistration reg;
	char	   *side;

	cdc_registry_read_now(target, &reg);
	if (reg.rule.exists)
		return NULL;			/* refused by itself */
	if ((side = get_rel_name(reg.tombstones)) != NULL)
		return psprintf("its deletes, in \"%s\"", side);
	if (!reg.state.isnull[STATE_TOMBSTONE_COLUMN] &&
		get_attnum(target, NameStr(*DatumGetName(reg.state.values[STATE_TOMBSTONE_COLUMN]))) > 0)
		return psprintf("its deletes, in column \"%s\"",
						NameStr(*DatumGetName(reg.state.values[STATE_TOMBSTONE_COLUMN])));
	if (reg.horizon.fence.len > 0)
		return "a fence";
	return reg.horizon.floor.len > 0 ? "a floor" : NULL;
}

/*
 * Refuse a target whose ancestor or partition was attached by itself once and
 * still remembers something: it would be passed by.
 */
void
cdc_registry_check_relatives(Relation target)
{
	Oid			relid = RelationGetRelid(target);
	ListCell   *lc;

	if (!target->rd_rel->relispartition && target->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return;
	foreach(lc, cdc_registry_all())
	{
		Oid			other = ((CdcRegistered *) lfirst(lc))->target;
		const char *what;

		if (other == relid ||
			!((get_rel_relispartition(other) &&
			   list_member_oid(get_partition_ancestors(other), relid)) ||
			  (target->rd_rel->relispartition &&
			   list_member_oid(get_partition_ancestors(relid), other))))
			continue;
		what = what_is_remembered(other);
		if (what != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" remembers what target \"%s\" would pass by", get_rel_name(other),
							cdc_relation_name(target)),
					 errdetail("It was attached by itself, has rows in common with the target, and keeps %s.",
							   what),
					 what[0] == 'a' ?
					 errhint("Attach that table apart from the target, and take it away with cdc_set_fence() or cdc_set_floor().") :
					 errhint("Forget them with SELECT %s(%s, drop_tombstones => true), or keep that table apart.",
							 cdc_function_name("cdc_detach"),
							 quote_literal_cstr(quote_qualified_identifier(get_namespace_name(get_rel_namespace(other)),
																		   get_rel_name(other))))));
	}
}

/* ---------- writing ---------- */

static void
put_record(const char *name, CdcRecord *record)
{
	Relation	table = open_table(name, RowExclusiveLock);
	HeapTuple	tuple = heap_form_tuple(RelationGetDescr(table), record->values, record->isnull);

	if (record->exists)
		CatalogTupleUpdate(table, &record->tuple->t_self, tuple);
	else
		CatalogTupleInsert(table, tuple);
	record->tuple = tuple;
	record->exists = true;
	table_close(table, NoLock);
	CommandCounterIncrement();
}

/* Write the rule's values, as a new row if there was none. */
void
cdc_registry_put_rule(CdcRegistration *reg)
{
	reg->rule.values[RULE_TARGET] = ObjectIdGetDatum(reg->target);
	reg->rule.isnull[RULE_TARGET] = false;
	put_record(rule_table, &reg->rule);
}

/*
 * Write the state's values.  Positions, epoch and lineage are those in
 * state.values; cdc_registry_set_position() keeps both in step.
 */
void
cdc_registry_put_state(CdcRegistration *reg)
{
	CdcRecord  *state = &reg->state;

	state->values[STATE_TARGET] = ObjectIdGetDatum(reg->target);
	state->isnull[STATE_TARGET] = false;
	state->values[STATE_TOMBSTONES] = ObjectIdGetDatum(reg->tombstones);
	state->isnull[STATE_TOMBSTONES] = !OidIsValid(reg->tombstones);
	state->values[STATE_EPOCH] = Int64GetDatum(reg->epoch);
	state->isnull[STATE_EPOCH] = false;
	state->isnull[STATE_LINEAGE] = reg->lineage == NULL;
	if (reg->lineage != NULL)
		state->values[STATE_LINEAGE] = CStringGetTextDatum(reg->lineage);
	put_record(state_table, state);
}

/* Forget the rule; the state stays. */
void
cdc_registry_remove_rule(CdcRegistration *reg)
{
	Relation	table = open_table(rule_table, RowExclusiveLock);

	CatalogTupleDelete(table, &reg->rule.tuple->t_self);
	reg->rule.exists = false;
	table_close(table, NoLock);
	CommandCounterIncrement();
}

static void
forget_row(const char *name, Oid target)
{
	Relation	table = open_table(name, RowExclusiveLock);
	HeapTuple	tuple = cdc_registry_fetch_now(table, target);

	if (HeapTupleIsValid(tuple))
		CatalogTupleDelete(table, &tuple->t_self);
	table_close(table, NoLock);
}

/* Forget a table that is gone. */
void
cdc_registry_forget(Oid target)
{
	forget_row(rule_table, target);
	forget_row(state_table, target);
	cdc_bookmark_forget(target);
	cdc_runs_forget(target);
	CommandCounterIncrement();
}

/*
 * Forget every table that is gone without a trace, as temporary ones are.  Who
 * holds the lock of one is at it already.
 */
void
cdc_registry_sweep(void)
{
	ListCell   *lc;

	foreach(lc, cdc_registry_all())
	{
		Oid			target = ((CdcRegistered *) lfirst(lc))->target;

		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(target)) &&
			cdc_target_lock(target, ExclusiveLock, true))
			cdc_registry_forget(target);
	}
}

/* Set fence, floor or high position in memory; put_state writes it. */
void
cdc_registry_set_position(CdcRegistration *reg, int column, const CdcPos *pos)
{
	reg->state.values[column] = cdc_registry_position(pos, &reg->state.isnull[column]);
	if (column == STATE_FENCE)
		reg->horizon.fence = *pos;
	else if (column == STATE_FLOOR)
		reg->horizon.floor = *pos;
	else
		reg->high = *pos;
}

/* Set the columns that staging feeds in memory; put_state writes it. */
void
cdc_registry_set_fed(CdcRegistration *reg, List *names)
{
	CdcRecord  *state = &reg->state;

	state->values[STATE_FED_COLUMNS] = cdc_registry_names(names);
	state->values[STATE_FED_ATTNUMS] = cdc_registry_attnums(reg->target, names);
	state->isnull[STATE_FED_COLUMNS] = state->isnull[STATE_FED_ATTNUMS] = names == NIL;
}

/* ---------- values ---------- */

/* The numbers of a table's columns as int2[]. */
Datum
cdc_registry_attnums(Oid relid, List *names)
{
	int			n = list_length(names);
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));
	ListCell   *lc;

	foreach(lc, names)
		elems[foreach_current_index(lc)] = Int16GetDatum(get_attnum(relid, lfirst(lc)));
	return PointerGetDatum(construct_array(elems, n, INT2OID, 2, true, TYPALIGN_SHORT));
}

/* A position as a Datum; NULL when it is none. */
Datum
cdc_registry_position(const CdcPos *pos, bool *isnull)
{
	*isnull = pos->len == 0;
	return *isnull ? (Datum) 0 : cdc_value_from_bytes(pos->bytes, pos->len);
}

/* A list of strings as name[]. */
Datum
cdc_registry_names(List *names)
{
	int			n = list_length(names);
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));
	ListCell   *lc;

	foreach(lc, names)
	{
		Name		name = palloc0(sizeof(NameData));

		namestrcpy(name, lfirst(lc));
		elems[foreach_current_index(lc)] = NameGetDatum(name);
	}
	return PointerGetDatum(construct_array(elems, n, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR));
}

/* And back. */
List *
cdc_registry_name_list(Datum names)
{
	List	   *list = NIL;
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(names), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR,
					  &elems, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			list = lappend(list, pstrdup(NameStr(*DatumGetName(elems[i]))));
	return list;
}

/* A position that is to stand beside those of the target must be of their kind. */
void
cdc_registry_check_kind(const CdcRegistration *reg, const CdcPos *pos, const char *target)
{
	const CdcPos *others[] = {&reg->high, &reg->horizon.fence, &reg->horizon.floor};

	for (int i = 0; i < lengthof(others); i++)
		if (pos->len > 0 && others[i]->len > 0 &&
			cdc_position_kind_of(pos->bytes) != cdc_position_kind_of(others[i]->bytes))
			cdc_refuse_mixed_kinds(psprintf("position %s and target \"%s\"",
											cdc_pos_text(pos->bytes, pos->len), target));
}
