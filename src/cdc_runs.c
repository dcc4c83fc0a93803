/*-------------------------------------------------------------------------
 *
 * cdc_runs.c
 *		The log of what was done to attached targets: table cdc_run_log, shown
 *		as cdc_runs; and when a target's staging was last seen empty.
 *
 * Rows are written directly, past the rights of the caller, in the caller's
 * transaction: a call that fails takes its row back with it, so that failures
 * are recorded by those who catch them (cdc_all.c).
 *
 * They are read as SnapshotSelf sees them, so that SERIALIZABLE transactions
 * which have nothing else in common do not conflict over the log.
 *
 * Locks: the tables as by any statement.  Old rows are removed by whoever
 * writes a new one, a few at a time, and left alone where somebody else is at
 * it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "cdc_attach.h"
#include "cdc_runs.h"

/* columns of cdc_run_log, from 0 */
enum
{
	RUN_ID, RUN_TARGET, RUN_STAGING, RUN_OPERATION, RUN_STARTED_AT, RUN_DURATION, RUN_ROLE,
	RUN_APPLICATION_NAME, RUN_EVENTS, RUN_COUNTS,
	RUN_LOW_POSITION = RUN_COUNTS + CDC_OUTCOMES, RUN_HIGH_POSITION, RUN_WAL_BYTES, RUN_ERROR,
	RUN_SQLSTATE,
	RUN_COLUMNS
};

/* columns of cdc_target_seen */
enum
{
	SEEN_TARGET, SEEN_EMPTY_AT, SEEN_COLUMNS
};

/* Rows removed by one that comes: more than one, so that a backlog shrinks. */
#define CDC_RUNS_SWEPT	20

/* How old "last seen empty" may be before it is written again. */
#define CDC_SEEN_SECONDS	60

/* cdc_precedence.track_runs */
bool		cdc_track_runs = true;

/* cdc_precedence.runs_retention, in seconds; -1: for ever */
int			cdc_runs_retention = 90 * 24 * 60 * 60;

/*
 * Open one of the two tables; NULL when the extension is of another version,
 * or is going: a log must not be in anybody's way.
 */
static Relation
open_table(const char *name, int columns, LOCKMODE lockmode)
{
	Oid			relid = get_relname_relid(name, cdc_extension_schema());
	Relation	table = OidIsValid(relid) ? try_table_open(relid, lockmode) : NULL;

	if (table == NULL || RelationGetNumberOfAttributes(table) == columns)
		return table;
	table_close(table, lockmode);
	return NULL;
}

/* The index of a table that begins with this column, or 0. */
static Oid
index_on(Relation table, AttrNumber attno)
{
	Oid			found = InvalidOid;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(table))
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (index->rd_index->indkey.values[0] == attno && index->rd_index->indisvalid)
			found = lfirst_oid(lc);
		index_close(index, NoLock);
	}
	return found;
}

/* Remove a row, unless somebody else does. */
static void
delete_row(Relation table, HeapTuple tuple)
{
	TM_FailureData failure;

	(void) cdc_table_tuple_delete(table, &tuple->t_self, GetCurrentCommandId(true),
								  SnapshotSelf, false, &failure);
}

/* ---------- the log ---------- */

/* Remove rows that are older than they are kept, the oldest first. */
static void
sweep(Relation table)
{
	TimestampTz before;
	Relation	index;
	SysScanDesc scan;
	HeapTuple	tuple;
	int			left = CDC_RUNS_SWEPT;

	if (cdc_runs_retention < 0)
		return;
	before = GetCurrentTimestamp() - (int64) cdc_runs_retention * USECS_PER_SEC;
	index = index_open(index_on(table, RUN_ID + 1), AccessShareLock);
	scan = systable_beginscan_ordered(table, index, SnapshotSelf, 0, NULL);
	while (left-- > 0 &&
		   HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		bool		isnull;
		Datum		at = heap_getattr(tuple, RUN_STARTED_AT + 1, RelationGetDescr(table), &isnull);

		if (DatumGetTimestampTz(at) >= before)
			break;
		delete_row(table, tuple);
	}
	systable_endscan_ordered(scan);
	index_close(index, NoLock);
}

/* Start a run: from here on time and WAL are counted. */
void
cdc_run_begin(CdcRun *run, Oid target, const char *operation)
{
	memset(run, 0, sizeof(CdcRun));
	run->target = target;
	run->operation = operation;
	run->started_at = GetCurrentTimestamp();
	run->wal = pgWalUsage;
	run->events = -1;
}

static Name
make_name(const char *text)
{
	Name		name = palloc0(sizeof(NameData));

	namestrcpy(name, text);
	return name;
}

static Interval *
make_duration(TimestampTz from, TimestampTz to)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = Max(to - from, 0);
	return interval;
}

static void
fill_row(const CdcRun *run, Datum *values, bool *isnull)
{
	WalUsage	wal;
	const char *role;

	memset(isnull, true, sizeof(bool) * RUN_COLUMNS);
#define SET(column, value) (values[column] = (value), isnull[column] = false)
	SET(RUN_TARGET, ObjectIdGetDatum(run->target));
	if (run->staging != NULL)
		SET(RUN_STAGING, CStringGetTextDatum(run->staging));
	SET(RUN_OPERATION, CStringGetTextDatum(run->operation));
	SET(RUN_STARTED_AT, TimestampTzGetDatum(run->started_at));
	SET(RUN_DURATION, IntervalPGetDatum(make_duration(run->started_at, GetCurrentTimestamp())));
	/* who called, not whose rights the call has for the moment */
	role = GetUserNameFromId(GetOuterUserId(), true);
	if (role != NULL)
		SET(RUN_ROLE, NameGetDatum(make_name(role)));
	if (application_name != NULL && application_name[0] != '\0')
		SET(RUN_APPLICATION_NAME, CStringGetTextDatum(application_name));
	if (run->applied != NULL)
	{
		Datum		result[RESULT_COLUMNS];
		bool		result_null[RESULT_COLUMNS];

		cdc_applied_values(run->applied, result, result_null);
		for (int i = 0; i <= CDC_OUTCOMES; i++)
			SET(RUN_EVENTS + i, result[RESULT_EVENTS + i]);
		values[RUN_LOW_POSITION] = result[RESULT_LOW];
		isnull[RUN_LOW_POSITION] = result_null[RESULT_LOW];
		values[RUN_HIGH_POSITION] = result[RESULT_HIGH];
		isnull[RUN_HIGH_POSITION] = result_null[RESULT_HIGH];
	}
	else
	{
		if (run->events >= 0)
			SET(RUN_EVENTS, Int64GetDatum(run->events));
		values[RUN_HIGH_POSITION] = cdc_registry_position(&run->position,
														  &isnull[RUN_HIGH_POSITION]);
	}
	memset(&wal, 0, sizeof(wal));
	WalUsageAccumDiff(&wal, &pgWalUsage, &run->wal);
	SET(RUN_WAL_BYTES, Int64GetDatum((int64) wal.wal_bytes));
	if (run->error != NULL)
	{
		SET(RUN_ERROR, CStringGetTextDatum(run->error));
		SET(RUN_SQLSTATE, CStringGetTextDatum(unpack_sql_state(run->sqlerrcode)));
	}
#undef SET
}

/* Write the row of a run that is over. */
void
cdc_run_end(const CdcRun *run)
{
	Datum		values[RUN_COLUMNS];
	bool		isnull[RUN_COLUMNS];
	Relation	table;
	Oid			sequence;

	if (!cdc_track_runs)
		return;
	table = open_table("cdc_run_log", RUN_COLUMNS, RowExclusiveLock);
	sequence = get_relname_relid("cdc_run_id", cdc_extension_schema());
	if (table == NULL || !OidIsValid(sequence))
		return;
	fill_row(run, values, isnull);
	values[RUN_ID] = Int64GetDatum(nextval_internal(sequence, false));
	isnull[RUN_ID] = false;
	CatalogTupleInsert(table, heap_form_tuple(RelationGetDescr(table), values, isnull));
	sweep(table);
	table_close(table, NoLock);
	CommandCounterIncrement();
}

/* ---------- rows by target ---------- */

/* Scan the rows of a target, by run_id. */
static SysScanDesc
begin_rows(Relation table, Relation index, Oid target)
{
	ScanKeyData key;

	ScanKeyInit(&key, RUN_TARGET + 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(target));
	return systable_beginscan_ordered(table, index, SnapshotSelf, 1, &key);
}

/* The start of the target's last run that is logged; 0 without one. */
static TimestampTz
last_run(Oid target)
{
	Relation	table = open_table("cdc_run_log", RUN_COLUMNS, AccessShareLock);
	Relation	index;
	SysScanDesc scan;
	HeapTuple	tuple;
	TimestampTz at = 0;
	bool		isnull;

	if (table == NULL)
		return 0;
	index = index_open(index_on(table, RUN_TARGET + 1), AccessShareLock);
	scan = begin_rows(table, index, target);
	tuple = systable_getnext_ordered(scan, BackwardScanDirection);
	if (HeapTupleIsValid(tuple))
		at = DatumGetTimestampTz(heap_getattr(tuple, RUN_STARTED_AT + 1, RelationGetDescr(table),
											  &isnull));
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(table, AccessShareLock);
	return at;
}

static HeapTuple
fetch_seen(Relation table, Oid target)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(target));
	scan = systable_beginscan(table, cdc_primary_key_index(table), true, SnapshotSelf, 1,
							  &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	return tuple;
}

/*
 * An apply found the target's staging empty.  The caller holds the apply lock,
 * so that nobody else writes the row.  It is not written again within a minute,
 * unless a run came between.
 */
void
cdc_run_seen_empty(Oid target)
{
	Relation	table;
	HeapTuple	before;
	TimestampTz now = GetCurrentTimestamp();
	Datum		values[SEEN_COLUMNS] = {ObjectIdGetDatum(target), TimestampTzGetDatum(now)};
	bool		isnull[SEEN_COLUMNS] = {false};

	if (!cdc_track_runs)
		return;
	table = open_table("cdc_target_seen", SEEN_COLUMNS, RowExclusiveLock);
	if (table == NULL)
		return;
	before = fetch_seen(table, target);
	if (HeapTupleIsValid(before))
	{
		bool		null;
		TimestampTz at = DatumGetTimestampTz(heap_getattr(before, SEEN_EMPTY_AT + 1,
														  RelationGetDescr(table), &null));

		if (at < now - CDC_SEEN_SECONDS * USECS_PER_SEC || at > now || at <= last_run(target))
			CatalogTupleUpdate(table, &before->t_self,
							   heap_form_tuple(RelationGetDescr(table), values, isnull));
	}
	else
		CatalogTupleInsert(table, heap_form_tuple(RelationGetDescr(table), values, isnull));
	table_close(table, NoLock);
	CommandCounterIncrement();
}

/* Forget what was done to a table that is gone: its OID may be used again. */
void
cdc_runs_forget(Oid target)
{
	Relation	table = open_table("cdc_run_log", RUN_COLUMNS, RowExclusiveLock);
	HeapTuple	tuple;

	if (table != NULL)
	{
		Relation	index = index_open(index_on(table, RUN_TARGET + 1), AccessShareLock);
		SysScanDesc scan = begin_rows(table, index, target);

		while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
			delete_row(table, tuple);
		systable_endscan_ordered(scan);
		index_close(index, NoLock);
		table_close(table, NoLock);
	}
	table = open_table("cdc_target_seen", SEEN_COLUMNS, RowExclusiveLock);
	if (table != NULL)
	{
		tuple = fetch_seen(table, target);
		if (HeapTupleIsValid(tuple))
			delete_row(table, tuple);
		table_close(table, NoLock);
	}
}
