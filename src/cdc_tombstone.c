/*-------------------------------------------------------------------------
 *
 * cdc_tombstone.c
 *		The side table: deletes remembered outside the target.
 *
 * Its rows hold a key, source_position and deleted_at.  It is reached through
 * the target, with no rights of its own; who owns the target must own it.
 * Columns are matched to the target's key by name.
 *
 * Rows are written under the target's apply lock, so that only a change by
 * hand can come between; then the tombstone is looked up again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "cdc_apply.h"
#include "cdc_probe.h"

typedef struct CdcTombstones
{
	Relation	rel;
	ResultRelInfo *rri;			/* NULL for a dry run */
	Relation	index;
	IndexScanDesc scan;			/* under the call's snapshot */
	CdcProbe   *probe;
	int		   *key_of;			/* index column -> key */
	AttrNumber *attno;			/* key -> column */
	AttrNumber	pos_attno;
	AttrNumber	time_attno;
	TupleTableSlot *stored;		/* the tombstone found last */
	TupleTableSlot *fresh;
	bool		found;
} CdcTombstones;

/* ---------- what it must be ---------- */

static const char *
qualified_name(Relation rel)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
									  RelationGetRelationName(rel));
}

static void
refuse_side_table(const CdcTarget *target, Relation side, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("side table \"%s\" cannot hold the tombstones of target \"%s\"",
					cdc_relation_name(side), target->name),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}

static void
check_column(const CdcTarget *target, Relation side, const char *name, Oid type, int32 typmod)
{
	AttrNumber	attno = get_attnum(RelationGetRelid(side), name);
	Form_pg_attribute att;

	if (attno <= 0)
		refuse_side_table(target, side, psprintf("It has no column \"%s\".", name),
						  psprintf("Rename or add the column: it is of type %s.",
								   format_type_be(type)));
	att = TupleDescAttr(RelationGetDescr(side), attno - 1);
	if (att->atttypid != type || att->atttypmod != typmod)
		refuse_side_table(target, side,
						  psprintf("Its column \"%s\" is of type %s, that of the target is %s.", name,
								   format_type_with_typemod(att->atttypid, att->atttypmod),
								   format_type_with_typemod(type, typmod)),
						  psprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s USING %s::%s;",
								   qualified_name(side), quote_identifier(name),
								   format_type_with_typemod(type, typmod), quote_identifier(name),
								   format_type_with_typemod(type, typmod)));
}

/* The collation of a key column must be the target's. */
static void
check_collation(const CdcTarget *target, Relation side, const CdcKey *key)
{
	AttrNumber	attno = get_attnum(RelationGetRelid(side), key->name);
	Oid			wanted = TupleDescAttr(RelationGetDescr(target->rel), key->attno - 1)->attcollation;

	if (TupleDescAttr(RelationGetDescr(side), attno - 1)->attcollation != wanted &&
		OidIsValid(wanted))
		refuse_side_table(target, side,
						  psprintf("Its column \"%s\" has another collation than that of the target.",
								   key->name),
						  psprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s COLLATE %s;",
								   qualified_name(side), quote_identifier(key->name),
								   format_type_be(key->type),
								   generate_collation_name(wanted)));
}

/* The key columns as an index definition has them. */
static char *
key_list(const CdcTarget *target)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < target->nkeys; i++)
	{
		const CdcKey *key = &target->keys[i];

		appendStringInfo(&s, "%s%s", i > 0 ? ", " : "", quote_identifier(key->name));
		if (OidIsValid(key->collation) &&
			key->collation != TupleDescAttr(RelationGetDescr(target->rel),
											key->attno - 1)->attcollation)
			appendStringInfo(&s, " COLLATE %s", generate_collation_name(key->collation));
	}
	return s.data;
}

/*
 * Refuse a side table that does not fit the target, or that somebody else
 * owns: what it says decides what becomes of events.
 */
void
cdc_tombstones_check(const CdcTarget *target)
{
	Relation	side = try_table_open(target->tombstones, AccessShareLock);

	if (side == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the side table of target \"%s\" is gone", target->name),
				 errdetail("Its deletes are no longer remembered."),
				 errhint("Note the rule (cdc_targets), use cdc_detach() and cdc_attach() with it, then replay the log or set a fence.")));
	if (side->rd_rel->relkind != RELKIND_RELATION)
		refuse_side_table(target, side, "It is not an ordinary table.",
						  "Use cdc_detach() and cdc_attach().");
	if (side->rd_rel->relowner != target->rel->rd_rel->relowner)
		refuse_side_table(target, side, "The target belongs to another role.",
						  psprintf("ALTER TABLE %s OWNER TO %s;", qualified_name(side),
								   quote_identifier(GetUserNameFromId(target->rel->rd_rel->relowner,
																	  false))));
	if (side->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT &&
		target->rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT)
		refuse_side_table(target, side, "It is unlogged: a crash would forget the deletes of a target that stays.",
						  psprintf("ALTER TABLE %s SET LOGGED;", qualified_name(side)));
	for (int i = 0; i < target->nkeys; i++)
	{
		check_column(target, side, target->keys[i].name, target->keys[i].type,
					 target->keys[i].typmod);
		check_collation(target, side, &target->keys[i]);
	}
	check_column(target, side, "source_position", cdc_position_type(), -1);
	check_column(target, side, "deleted_at", TIMESTAMPTZOID, -1);
	if (!OidIsValid(cdc_target_key_index(target, side)))
		refuse_side_table(target, side, "It has no unique index over the key like the target's own.",
						  psprintf("CREATE UNIQUE INDEX ON %s (%s);", qualified_name(side),
								   key_list(target)));
	table_close(side, NoLock);
}

/* ---------- open and close ---------- */

/*
 * Open it for the rest of the call, as range table entry 2.  Runs in the
 * executor's query context.
 */
void
cdc_tombstones_open(CdcTarget *target)
{
	EState	   *estate = target->estate;
	CdcTombstones *tombs = palloc0(sizeof(CdcTombstones));

	if (target->dry_run)
		tombs->rel = table_open(target->tombstones, AccessShareLock);
	else
	{
		tombs->rri = makeNode(ResultRelInfo);
		ExecInitResultRelation(estate, tombs->rri, 2);
		ExecOpenIndices(tombs->rri, false);
		tombs->rel = tombs->rri->ri_RelationDesc;
	}
	tombs->index = index_open(cdc_target_key_index(target, tombs->rel), AccessShareLock);
	tombs->pos_attno = get_attnum(target->tombstones, "source_position");
	tombs->time_attno = get_attnum(target->tombstones, "deleted_at");
	tombs->attno = palloc(sizeof(AttrNumber) * target->nkeys);
	tombs->key_of = palloc(sizeof(int) * target->nkeys);
	for (int i = 0; i < target->nkeys; i++)
	{
		tombs->attno[i] = get_attnum(target->tombstones, target->keys[i].name);
		for (int c = 0; c < target->nkeys; c++)
			if (tombs->index->rd_index->indkey.values[c] == tombs->attno[i])
				tombs->key_of[c] = i;
	}
	tombs->stored = table_slot_create(tombs->rel, &estate->es_tupleTable);
	tombs->fresh = table_slot_create(tombs->rel, &estate->es_tupleTable);
	tombs->probe = cdc_probe_begin(target, tombs->rel, tombs->index, tombs->key_of);
	target->tombs = tombs;
}

/* The call goes on at another snapshot. */
void
cdc_tombstones_renew(CdcTarget *target)
{
	CdcTombstones *tombs = target->tombs;

	ExecClearTuple(tombs->stored);
	tombs->found = false;
	cdc_probe_renew(tombs->probe);
}

void
cdc_tombstones_rewind(CdcTarget *target)
{
	cdc_probe_rewind(target->tombs->probe);
}

/* Before the executor's own relations are closed. */
void
cdc_tombstones_close(CdcTarget *target)
{
	CdcTombstones *tombs = target->tombs;

	cdc_probe_end(tombs->probe);
	index_close(tombs->index, NoLock);
	ExecClearTuple(tombs->stored);
	if (tombs->rri == NULL)
		table_close(tombs->rel, NoLock);
	target->tombs = NULL;
}

/* ---------- one tombstone ---------- */

/*
 * Find the tombstone of a key, and its position.
 */
bool
cdc_tombstones_find(CdcTarget *target, const Datum *keys, CdcFind how, CdcPos *pos)
{
	CdcTombstones *tombs = target->tombs;
	struct varlena *v;
	bool		isnull;
	Datum		value;

	tombs->found = cdc_probe_find(tombs->probe, keys, how, tombs->stored);
	pos->len = 0;
	if (!tombs->found)
		return false;
	value = slot_getattr(tombs->stored, tombs->pos_attno, &isnull);
	if (isnull)
		return true;
	v = DatumGetCdcPosition(value);
	pos->len = cdc_value_len(v);
	memcpy(pos->bytes, cdc_value_bytes(v), pos->len);
	return true;
}

/* A change by hand came between: look again, unless the snapshot is fixed. */
static void
look_again(CdcTarget *target, const Datum *keys)
{
	CdcTombstones *tombs = target->tombs;

	CHECK_FOR_INTERRUPTS();
	if (IsolationUsesXactSnapshot())
		cdc_refuse_concurrent();
	tombs->found = cdc_probe_find(tombs->probe, keys, CDC_FIND_AGAIN, tombs->stored);
}

static void
build_row(CdcTarget *target, const Datum *keys, const uint8 *pos, int len)
{
	CdcTombstones *tombs = target->tombs;
	TupleTableSlot *slot = tombs->fresh;
	int			natts = slot->tts_tupleDescriptor->natts;

	ExecClearTuple(slot);
	if (tombs->found)
	{
		slot_getallattrs(tombs->stored);
		memcpy(slot->tts_values, tombs->stored->tts_values, sizeof(Datum) * natts);
		memcpy(slot->tts_isnull, tombs->stored->tts_isnull, sizeof(bool) * natts);
	}
	else
	{
		memset(slot->tts_isnull, true, sizeof(bool) * natts);
		for (int i = 0; i < target->nkeys; i++)
		{
			slot->tts_values[tombs->attno[i] - 1] = keys[i];
			slot->tts_isnull[tombs->attno[i] - 1] = false;
		}
	}
	slot->tts_values[tombs->pos_attno - 1] = cdc_value_from_bytes(pos, len);
	slot->tts_isnull[tombs->pos_attno - 1] = false;
	slot->tts_values[tombs->time_attno - 1] =
		TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
	slot->tts_isnull[tombs->time_attno - 1] = false;
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(tombs->rel);
}

/*
 * Remember the delete of the key that was looked up last.  Runs in the
 * executor's query context.
 */
void
cdc_tombstones_put(CdcTarget *target, const Datum *keys, const uint8 *pos, int len)
{
	EState	   *estate = target->estate;
	CdcTombstones *tombs = target->tombs;
	TM_FailureData failure;
	ItemPointerData tid;
	bool		indexes,
				summarizing;

	for (;;)
	{
		build_row(target, keys, pos, len);
		if (tombs->rel->rd_att->constr != NULL)
			ExecConstraints(tombs->rri, tombs->fresh, estate);
		if (!tombs->found)
		{
			table_tuple_insert(tombs->rel, tombs->fresh, estate->es_output_cid, 0, NULL);
			list_free(cdc_insert_index_tuples(tombs->rri, tombs->fresh, estate, false, NULL, NIL,
											  false));
			break;
		}
		tid = tombs->stored->tts_tid;
		if (cdc_table_tuple_update(tombs->rel, &tid, tombs->fresh, estate->es_output_cid,
								   estate->es_snapshot, &failure, &indexes,
								   &summarizing) == TM_Ok)
		{
			if (indexes)
				list_free(cdc_insert_index_tuples(tombs->rri, tombs->fresh, estate, true, NULL, NIL,
												  summarizing));
			break;
		}
		look_again(target, keys);
	}
	ExecClearTuple(tombs->fresh);
}

/*
 * Forget the tombstone of a key: it is live again.  Building the row may have
 * looked up other keys, so this one is looked up anew.
 */
void
cdc_tombstones_remove(CdcTarget *target, const Datum *keys)
{
	CdcTombstones *tombs = target->tombs;
	TM_FailureData failure;
	CdcPos		pos;

	(void) cdc_tombstones_find(target, keys, CDC_FIND_AGAIN, &pos);
	while (tombs->found)
	{
		ItemPointerData tid = tombs->stored->tts_tid;

		if (cdc_table_tuple_delete(tombs->rel, &tid, target->estate->es_output_cid,
								   target->estate->es_snapshot, true, &failure) == TM_Ok)
			break;
		look_again(target, keys);
	}
}

/*
 * Remove the tombstones at or below a position, or those above it, at most
 * max_rows unless that is negative; the number removed.  One that somebody
 * changes meanwhile stays.
 */
int64
cdc_tombstones_purge(Oid relid, const CdcPos *pos, bool above, int64 max_rows)
{
	Relation	rel = table_open(relid, RowExclusiveLock);
	AttrNumber	attno = get_attnum(relid, "source_position");
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = cdc_table_beginscan(rel, snapshot);
	CommandId	cid = GetCurrentCommandId(true);
	int64		removed = 0;

	while ((max_rows < 0 || removed < max_rows) &&
		   table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		Oid			type = cdc_position_type();
		TM_FailureData failure;
		CdcPos		stored;
		bool		isnull;
		Datum		value = slot_getattr(slot, attno, &isnull);
		ItemPointerData tid = slot->tts_tid;

		CHECK_FOR_INTERRUPTS();
		cdc_position_from_columns(1, &type, &value, &isnull, &stored);
		if ((cdc_pos_compare(stored.bytes, stored.len, pos->bytes, pos->len) > 0) != above)
			continue;
		if (cdc_table_tuple_delete(rel, &tid, cid, snapshot, true, &failure) == TM_Ok)
			removed++;
		else if (IsolationUsesXactSnapshot())
			cdc_refuse_concurrent();
	}
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	CommandCounterIncrement();
	return removed;
}

/* Does the side table hold any tombstone?  No rights on it are needed. */
bool
cdc_tombstones_any(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = cdc_table_beginscan(rel, snapshot);
	bool		any = table_scan_getnextslot(scan, ForwardScanDirection, slot);

	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	return any;
}
