/*-------------------------------------------------------------------------
 *
 * cdc_history_record.c
 *		What is recorded of a history: its events table, its tracked columns,
 *		and how far it has come.
 *
 * As in cdc_registry.c rows are read and written directly, past the rights of
 * the caller, and what a row says is checked when it is used.  Whoever writes
 * holds the history's apply lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "cdc_consume.h"
#include "cdc_history.h"

static const char *const history_table = "cdc_history_rule";

/* A row of all, for walks. */
typedef struct CdcHistoryRow
{
	Oid			history;
	Oid			events;
} CdcHistoryRow;

/* ---------- rows ---------- */

static void
read_values(Relation table, HeapTuple tuple, CdcHistoryRecord *record)
{
	Datum		values[HISTORY_COLUMNS];
	bool		isnull[HISTORY_COLUMNS];

	heap_deform_tuple(tuple, RelationGetDescr(table), values, isnull);
	record->events = isnull[HISTORY_EVENTS] ? InvalidOid : DatumGetObjectId(values[HISTORY_EVENTS]);
	if (!isnull[HISTORY_TRACK_COLUMNS])
		record->track = cdc_registry_name_list(values[HISTORY_TRACK_COLUMNS]);
	if (!isnull[HISTORY_TIME_COLUMN])
		record->time_column = pstrdup(NameStr(*DatumGetName(values[HISTORY_TIME_COLUMN])));
	cdc_pos_from_datum(&record->high, values[HISTORY_HIGH], isnull[HISTORY_HIGH]);
	record->changes = DatumGetInt64(values[HISTORY_CHANGES]);
}

/*
 * Read what is recorded, in the current memory context.  checked: under
 * REPEATABLE READ and SERIALIZABLE it must be what the transaction's snapshot
 * shows, which every call that wrote since has changed.
 */
void
cdc_history_read_record(Oid history, bool checked, CdcHistoryRecord *record)
{
	Relation	table = cdc_registry_open(history_table, HISTORY_COLUMNS, AccessShareLock);

	memset(record, 0, sizeof(CdcHistoryRecord));
	record->history = history;
	record->tuple = checked ? cdc_registry_fetch_latest(table, history) :
		cdc_registry_fetch_now(table, history);
	record->exists = HeapTupleIsValid(record->tuple);
	if (record->exists)
		read_values(table, record->tuple, record);
	table_close(table, AccessShareLock);
}

/* Write it, as a new row if there was none. */
void
cdc_history_put_record(CdcHistoryRecord *record)
{
	Relation	table = cdc_registry_open(history_table, HISTORY_COLUMNS, RowExclusiveLock);
	Datum		values[HISTORY_COLUMNS] = {0};
	bool		isnull[HISTORY_COLUMNS] = {false};
	HeapTuple	tuple;

	values[HISTORY_HISTORY] = ObjectIdGetDatum(record->history);
	values[HISTORY_EVENTS] = ObjectIdGetDatum(record->events);
	isnull[HISTORY_EVENTS] = !OidIsValid(record->events);
	isnull[HISTORY_TRACK_COLUMNS] = record->track == NIL;
	if (record->track != NIL)
		values[HISTORY_TRACK_COLUMNS] = cdc_registry_names(record->track);
	isnull[HISTORY_TIME_COLUMN] = record->time_column == NULL;
	if (record->time_column != NULL)
	{
		Name		name = palloc0(sizeof(NameData));

		namestrcpy(name, record->time_column);
		values[HISTORY_TIME_COLUMN] = NameGetDatum(name);
	}
	values[HISTORY_HIGH] = cdc_registry_position(&record->high, &isnull[HISTORY_HIGH]);
	values[HISTORY_CHANGES] = Int64GetDatum(record->changes);
	tuple = heap_form_tuple(RelationGetDescr(table), values, isnull);
	if (record->exists)
		CatalogTupleUpdate(table, &record->tuple->t_self, tuple);
	else
		CatalogTupleInsert(table, tuple);
	record->tuple = tuple;
	record->exists = true;
	table_close(table, NoLock);
	CommandCounterIncrement();
}

/* All rows as of now; empty while the extension is being dropped. */
List *
cdc_history_all(void)
{
	Relation	table = cdc_registry_try_open(history_table, AccessShareLock);
	List	   *list = NIL;
	Snapshot	snapshot;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (table == NULL)
		return NIL;
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan = systable_beginscan(table, InvalidOid, false, snapshot, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		CdcHistoryRow *row = palloc0(sizeof(CdcHistoryRow));
		bool		isnull;
		Datum		events;

		row->history = DatumGetObjectId(heap_getattr(tuple, HISTORY_HISTORY + 1,
													 RelationGetDescr(table), &isnull));
		events = heap_getattr(tuple, HISTORY_EVENTS + 1, RelationGetDescr(table), &isnull);
		row->events = isnull ? InvalidOid : DatumGetObjectId(events);
		list = lappend(list, row);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(table, AccessShareLock);
	return list;
}

/* The history whose events table relid is, or 0. */
Oid
cdc_history_of_events(Oid relid)
{
	ListCell   *lc;

	foreach(lc, cdc_history_all())
		if (OidIsValid(relid) && ((CdcHistoryRow *) lfirst(lc))->events == relid)
			return ((CdcHistoryRow *) lfirst(lc))->history;
	return InvalidOid;
}

static void
forget(Oid history)
{
	Relation	table = cdc_registry_open(history_table, HISTORY_COLUMNS, RowExclusiveLock);
	HeapTuple	tuple = cdc_registry_fetch_now(table, history);

	if (HeapTupleIsValid(tuple))
		CatalogTupleDelete(table, &tuple->t_self);
	table_close(table, NoLock);
	cdc_bookmark_forget(history);
	cdc_runs_forget(history);
	CommandCounterIncrement();
}

/* ---------- what is done to the tables ---------- */

/* Is it an events table by its shape?  A row of the registry may lie. */
static bool
is_events_shaped(Oid relid)
{
	return OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_RELATION &&
		get_atttype(relid, get_attnum(relid, CDC_EVENTS_POSITION)) == cdc_position_type() &&
		get_attnum(relid, CDC_EVENTS_OP) > 0 && get_attnum(relid, CDC_EVENTS_GAPS) > 0;
}

/* An events table goes with its history, if whoever drops that may. */
static void
drop_events(Oid relid, bool cascade)
{
	if (!is_events_shaped(relid) ||
		!cdc_lock_if_there(relid, cdc_owns_relation(relid, GetUserId()) ? AccessExclusiveLock :
						   AccessShareLock))
		return;
	if (cdc_owns_relation(relid, GetUserId()))
		cdc_ddl("DROP TABLE %s%s", cdc_quoted_relation(relid), cascade ? " CASCADE" : "");
	else
		ereport(WARNING,
				(errmsg("table \"%s\" is left over from a history that is dropped",
						get_rel_name(relid)),
				 errhint("DROP TABLE %s;", cdc_quoted_relation(relid))));
}

void
cdc_history_follow_drop(List *dropped, bool cascade)
{
	ListCell   *lc;

	foreach(lc, cdc_history_all())
	{
		CdcHistoryRow *row = lfirst(lc);

		if (list_member_oid(dropped, row->history))
		{
			(void) cdc_target_lock(row->history, ExclusiveLock, false);
			forget(row->history);
			if (!list_member_oid(dropped, row->events))
				drop_events(row->events, cascade);
		}
		else if (OidIsValid(row->events) && list_member_oid(dropped, row->events))
		{
			CdcHistoryRecord record;

			(void) cdc_target_lock(row->history, ExclusiveLock, false);
			cdc_history_read_record(row->history, false, &record);
			record.events = InvalidOid;
			if (record.exists)
				cdc_history_put_record(&record);
		}
	}
}

/* A column was renamed: names of columns stand in the record and in the events table. */
void
cdc_history_follow_rename(Oid relid, const char *from, const char *to)
{
	CdcHistoryRecord record;
	ListCell   *lc;
	bool		changed = false;

	cdc_history_read_record(relid, false, &record);
	if (!record.exists)
		return;
	(void) cdc_target_lock(relid, ExclusiveLock, false);
	cdc_history_read_record(relid, false, &record);
	foreach(lc, record.track)
		if (strcmp(lfirst(lc), from) == 0)
		{
			lfirst(lc) = pstrdup(to);
			changed = true;
		}
	if (changed)
		cdc_history_put_record(&record);
	if (!is_events_shaped(record.events) || get_attnum(record.events, from) <= 0 ||
		!cdc_owns_relation(record.events, GetUserId()) ||
		cdc_owner_of(record.events) != cdc_owner_of(relid) ||
		!cdc_lock_if_there(record.events, AccessExclusiveLock))
		return;
	cdc_ddl("ALTER TABLE %s RENAME COLUMN %s TO %s", cdc_quoted_relation(record.events),
			quote_identifier(from), quote_identifier(to));
	cdc_ddl("UPDATE %s SET " CDC_EVENTS_GAPS " = pg_catalog.array_replace(" CDC_EVENTS_GAPS
			", %s::pg_catalog.text, %s::pg_catalog.text) WHERE %s OPERATOR(pg_catalog.=) ANY (" CDC_EVENTS_GAPS ")",
			cdc_quoted_relation(record.events), quote_literal_cstr(from), quote_literal_cstr(to),
			quote_literal_cstr(from));
}
