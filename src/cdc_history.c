/*-------------------------------------------------------------------------
 *
 * cdc_history.c
 *		cdc_apply_history(): the phases of one call, in order.
 *
 * The rule of the call is that of cdc_apply() (cdc_rule.c), staging is read by
 * the same reader (cdc_read.c).  Then the server does the work on sets: one
 * query (cdc_history_query.c) finds, around the events of each key, what the
 * history holds and what it is to hold, and ordinary statements write the
 * difference (cdc_history_write.c).
 *
 * Locks: as cdc_apply(): ROW EXCLUSIVE on the history (ACCESS SHARE for a dry
 * run) and its apply lock, before anything is read and to the end of the
 * transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#include "cdc_call.h"
#include "cdc_history.h"
#include "cdc_progress.h"
#include "cdc_sql.h"

PG_FUNCTION_INFO_V1(cdc_apply_history);
PG_FUNCTION_INFO_V1(cdc_is_history);

/* Which argument of cdc_apply() each one is; those after it are our own. */
static const int argument_of[] = {
	CDC_ARG_TARGET, CDC_ARG_STAGING, CDC_ARG_KEY_COLUMNS, CDC_ARG_POSITION_COLUMNS,
	CDC_ARG_STAGING_POSITION, CDC_ARG_STAGING_FILTER, CDC_ARG_OP_COLUMN, CDC_ARG_DEFAULT_OP,
	CDC_ARG_DELETE_FLAG_COLUMN, CDC_ARG_OLD_KEY_COLUMNS, CDC_ARG_UNCHANGED_COLUMN,
	CDC_ARG_EXCEPT_COLUMNS, CDC_ARG_OP_MAP, CDC_ARG_NULL_OP, CDC_ARG_UNAVAILABLE_VALUE,
	CDC_ARG_ON_UNAVAILABLE, CDC_ARG_IGNORE_NULLS, CDC_ARG_SNAPSHOT_POSITION, CDC_ARG_ON_TIE,
	CDC_ARG_ON_SAME_POSITION, CDC_ARG_ON_SCHEMA_CHANGE, CDC_ARG_CONSUME, CDC_ARG_BOOKMARK_COLUMN
};

enum
{
	ARG_TRACK_COLUMNS = lengthof(argument_of), ARG_TIME_COLUMN, ARG_EXPECT_EVENTS, ARG_DRY_RUN,
	ARG_NOWAIT
};

/* ---------- 1. the history ---------- */

static void
refuse_no_history(Relation rel)
{
	const char *table = cdc_quoted_relation(RelationGetRelid(rel));

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"%s\" is not a history", cdc_relation_name(rel)),
			 errhint("SELECT %s(%s) makes one for a table.",
					 cdc_function_name("cdc_create_history"), quote_literal_cstr(table))));
}

/* What the registry says of the events table is checked here. */
static void
check_events(CdcHistory *h)
{
	Oid			events = h->record.events;

	if (!OidIsValid(events) || get_rel_name(events) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the events table of history \"%s\" is gone", h->target.name),
				 errdetail("Its deletes are no longer remembered."),
				 errhint("Make another history with %s() and apply the whole log to it.",
						 cdc_function_name("cdc_create_history"))));
	h->owner = h->rel->rd_rel->relowner;
	if (cdc_owner_of(events) != h->owner)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("events table \"%s\" does not belong to the owner of history \"%s\"",
						get_rel_name(events), h->target.name),
				 errhint("ALTER TABLE %s OWNER TO %s;", cdc_quoted_relation(events),
						 quote_identifier(GetUserNameFromId(h->owner, false)))));
	/* the history is read as its owner */
	if (check_enable_rls(h->target.relid, h->owner, true) == RLS_ENABLED ||
		check_enable_rls(events, h->owner, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("row-level security of history \"%s\" binds its owner", h->target.name),
				 errdetail("Versions that the policies hide could not be split."),
				 errhint("ALTER TABLE .. NO FORCE ROW LEVEL SECURITY.")));
}

static AttrNumber
need_own_column(CdcHistory *h, const char *name, Oid type)
{
	AttrNumber	attno = get_attnum(RelationGetRelid(h->rel), name);

	if (attno <= 0 || get_atttype(RelationGetRelid(h->rel), attno) != type)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("history \"%s\" has no column \"%s\" of type %s",
						cdc_relation_name(h->rel), name, format_type_be(type))));
	return attno;
}

/* The key's columns: those of the events table before its own. */
static List *
key_columns(CdcHistory *h)
{
	AttrNumber	own = get_attnum(h->record.events, CDC_EVENTS_POSITION);
	List	   *names = NIL;

	for (AttrNumber i = 1; i < own; i++)
		names = lappend(names, get_attname(h->record.events, i, false));
	return names;
}

/* Keys, and the columns that a history keeps itself, in the place of a position. */
static void
describe(CdcHistory *h)
{
	CdcTarget  *target = &h->target;
	List	   *keys = key_columns(h);
	Oid			position = cdc_position_type();
	int			at = 0;

	cdc_target_describe_key(target, h->rel, lappend(keys, pstrdup(CDC_HISTORY_FROM)));
	while (strcmp(target->keys[at].name, CDC_HISTORY_FROM) != 0)
		at++;
	target->nkeys--;
	memmove(&target->keys[at], &target->keys[at + 1], sizeof(CdcKey) * (target->nkeys - at));

	h->has_times = get_attnum(target->relid, CDC_HISTORY_FROM_AT) > 0;
	target->npos = h->has_times ? 4 : 2;
	target->pos_attno = palloc(sizeof(AttrNumber) * 4);
	target->pos_type = palloc(sizeof(Oid) * 4);
	target->pos_attno[0] = need_own_column(h, CDC_HISTORY_FROM, position);
	target->pos_attno[1] = need_own_column(h, CDC_HISTORY_TO, position);
	target->pos_type[0] = target->pos_type[1] = position;
	if (h->has_times)
	{
		target->pos_attno[2] = need_own_column(h, CDC_HISTORY_FROM_AT, TIMESTAMPTZOID);
		target->pos_attno[3] = need_own_column(h, CDC_HISTORY_TO_AT, TIMESTAMPTZOID);
		target->pos_type[2] = target->pos_type[3] = TIMESTAMPTZOID;
	}
	target->pos_single = true;
}

/* False: another apply holds the history, and the call does not wait. */
static bool
open_history(CdcHistory *h, const CdcArgs *args)
{
	bool		dry_run = !args->isnull[CDC_ARG_DRY_RUN] &&
		DatumGetBool(args->values[CDC_ARG_DRY_RUN]);
	bool		nowait = !args->isnull[CDC_ARG_NOWAIT] &&
		DatumGetBool(args->values[CDC_ARG_NOWAIT]);
	LOCKMODE	lockmode = dry_run ? AccessShareLock : RowExclusiveLock;
	Oid			relid;

	if (args->isnull[CDC_ARG_TARGET])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("history must not be NULL")));
	relid = DatumGetObjectId(args->values[CDC_ARG_TARGET]);
	h->rel = try_relation_open(relid, lockmode);
	if (h->rel == NULL)
		cdc_refuse_no_relation(relid);
	cdc_target_check(h->rel);
	if (pg_class_aclcheck(relid, GetUserId(), ACL_DELETE) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(h->rel->rd_rel->relkind),
					   RelationGetRelationName(h->rel));
	if (!dry_run && !cdc_target_lock(relid, ExclusiveLock, nowait))
	{
		relation_close(h->rel, lockmode);
		return false;
	}
	cdc_history_read_record(relid, true, &h->record);
	if (!h->record.exists)
		refuse_no_history(h->rel);
	h->target.name = cdc_relation_name(h->rel);
	h->target.relid = relid;
	check_events(h);
	describe(h);
	return true;
}

/* ---------- 2. staging ---------- */

/* Key columns that are named must be the history's. */
static void
check_keys(CdcHistory *h)
{
	bool		same = list_length(h->rule.key_columns) == h->target.nkeys;

	for (int i = 0; i < h->target.nkeys; i++)
		same &= cdc_has_name(h->rule.key_columns, h->target.keys[i].name);
	if (h->rule.key_columns != NIL && !same)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key_columns are not those of history \"%s\"", h->target.name),
				 errhint("Leave key_columns out; another key wants another history.")));
}

/* The columns of staging that hold the position when nobody named them. */
static List *
position_columns(CdcHistory *h)
{
	TupleDesc	desc = RelationGetDescr(h->staging_rel);
	Oid			relid = RelationGetRelid(h->staging_rel);
	List	   *names = NIL;

	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped &&
			getBaseType(TupleDescAttr(desc, i)->atttypid) == cdc_position_type())
			names = lappend(names, pstrdup(NameStr(TupleDescAttr(desc, i)->attname)));
	if (list_length(names) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("staging \"%s\" has more than one cdc_position column",
						cdc_relation_name(h->staging_rel)),
				 errhint("Name the one that holds an event's position in position_columns.")));
	if (names == NIL && get_attnum(relid, "source_lsn") > 0)
	{
		names = list_make1(pstrdup("source_lsn"));
		if (get_attnum(relid, "source_ordinal") > 0)
			names = lappend(names, pstrdup("source_ordinal"));
	}
	if (names == NIL && get_attnum(relid, "source_position") > 0)
		names = list_make1(pstrdup("source_position"));
	if (names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("staging \"%s\" has no position column", cdc_relation_name(h->staging_rel)),
				 errhint("Name it in position_columns, or give the position of an event as an expression in staging_position.")));
	return names;
}

/* One expression out of the position's columns; a NULL after the first is 0. */
static char *
position_expression(CdcHistory *h, List *names)
{
	StringInfoData s;
	bool		lsn = false;
	ListCell   *lc;

	initStringInfo(&s);
	foreach(lc, names)
	{
		int			i = foreach_current_index(lc);
		const char *name = quote_identifier(lfirst(lc));
		AttrNumber	attno = get_attnum(RelationGetRelid(h->staging_rel), lfirst(lc));
		Oid			type;

		if (attno <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("position column \"%s\" does not exist in staging \"%s\"",
							(char *) lfirst(lc), cdc_relation_name(h->staging_rel)),
					 errhint("Give the position of an event as an expression in staging_position.")));
		type = getBaseType(get_atttype(RelationGetRelid(h->staging_rel), attno));
		if (!cdc_position_type_ok(type, i == 0, list_length(names) == 1))
			cdc_refuse_position_type("staging", lfirst(lc), type);
		if (i == 0 && list_length(names) == 1 && type != LSNOID)
			return pstrdup(name);
		if (i == 0)
		{
			lsn = type == LSNOID;
			appendStringInfo(&s, "%s.%s(%s::pg_catalog.%s", cdc_sql_schema(),
							 lsn ? "cdc_position" : "cdc_position_from_numbers", name,
							 lsn ? "pg_lsn" : "numeric");
		}
		else
			appendStringInfo(&s, ", coalesce(%s, 0)::pg_catalog.%s", name, lsn ? "int8" : "numeric");
	}
	appendStringInfoChar(&s, ')');
	return s.data;
}

static void
check_position_columns(CdcHistory *h)
{
	CdcRule    *rule = &h->rule;

	if (rule->staging_position != NULL)
		return;
	if (rule->position_columns == NIL)
		rule->position_columns = position_columns(h);
	/* an LSN has two ordinals as arguments */
	if (list_length(rule->position_columns) > 3)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("position_columns names more than three columns"),
				 errhint("Put them together in staging_position.")));
	rule->staging_position = position_expression(h, rule->position_columns);
}

/* False: somebody else has staging, and the call does not wait. */
static bool
open_staging(CdcHistory *h)
{
	CdcRule    *rule = &h->rule;
	LOCKMODE	lockmode = rule->consume == CDC_CONSUME_DELETE && !rule->dry_run ?
		RowExclusiveLock : AccessShareLock;

	if (!OidIsValid(rule->staging))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("staging must be given"),
				 errhint("Name the relation that holds the events: cdc_apply_history('history', 'staging').")));
	if (rule->consume == CDC_CONSUME_TRUNCATE)
	{
		if (!cdc_consume_lock(rule->staging, rule->nowait))
			return false;
		lockmode = NoLock;
	}
	h->staging_rel = try_relation_open(rule->staging, lockmode);
	if (h->staging_rel == NULL)
		cdc_refuse_no_relation(rule->staging);
	cdc_staging_check(h->staging_rel);
	cdc_consume_check(h->staging_rel, rule);
	return true;
}

/* Columns that only staging has.  append: the history gets them, and is described anew. */
static void
handle_schema_change(CdcHistory *h)
{
	CdcOnSchema option = h->rule.on_schema_change;
	List	   *missing;

	if (option == CDC_SCHEMA_IGNORE)
		return;
	missing = cdc_columns_missing(&h->target, &h->cols, &h->rule);
	if (missing == NIL)
		return;
	if (option == CDC_SCHEMA_APPEND && !h->rule.dry_run)
	{
		char	   *name = cdc_quoted_relation(h->target.relid);

		/* as in cdc_apply(): the apply lock comes after that of ALTER TABLE */
		table_close(h->rel, NoLock);
		cdc_target_unlock(h->target.relid, ExclusiveLock);
		cdc_columns_append(name, h->staging_rel, missing);
		h->rel = table_open(h->rule.target, RowExclusiveLock);
		(void) cdc_target_lock(h->rule.target, ExclusiveLock, false);
		cdc_history_read_record(h->rule.target, true, &h->record);
		h->target.name = cdc_relation_name(h->rel);
		check_events(h);
		describe(h);
		cdc_columns_map(&h->cols, &h->target, h->staging_rel, &h->rule);
	}
	else
		cdc_call_report_missing(option, &h->target, &h->cols, missing);
}

/* ---------- 3. times and tracked columns ---------- */

static void
plan_times(CdcHistory *h)
{
	TupleDesc	desc = RelationGetDescr(h->staging_rel);
	AttrNumber	attno;

	if (h->time_column == NULL)
		h->time_column = h->record.time_column;
	if (h->time_column == NULL)
		return;
	if (!h->has_times)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("history \"%s\" keeps no times", h->target.name),
				 errdetail("It has no columns valid_from_at and valid_to_at."),
				 errhint("Make the history with time_column, or ALTER TABLE %s ADD COLUMN valid_from_at timestamptz, ADD COLUMN valid_to_at timestamptz.",
						 cdc_quoted_relation(h->target.relid))));
	attno = get_attnum(RelationGetRelid(h->staging_rel), h->time_column);
	if (attno <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("time column \"%s\" does not exist in staging \"%s\"", h->time_column,
						h->cols.staging_name),
				 errhint("Name the column of staging that says when a change was made in time_column.")));
	h->cols.time_attno = attno;
	h->time_cast = cdc_column_cast(TupleDescAttr(desc, attno - 1),
								   TupleDescAttr(RelationGetDescr(h->rel),
												 h->target.pos_attno[2] - 1));
	if (h->record.time_column == NULL)
		h->record.time_column = h->time_column;
}

/* Has a table no row, in any partition? */
static bool
is_empty(Oid relid)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	bool		empty = true;
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		Relation	leaf = table_open(lfirst_oid(lc), NoLock);

		if (leaf->rd_rel->relkind == RELKIND_RELATION)
		{
			TupleTableSlot *slot = table_slot_create(leaf, NULL);
			TableScanDesc scan = cdc_table_beginscan(leaf, snapshot);

			empty &= !table_scan_getnextslot(scan, ForwardScanDirection, slot);
			table_endscan(scan);
			ExecDropSingleTupleTableSlot(slot);
		}
		table_close(leaf, NoLock);
	}
	UnregisterSnapshot(snapshot);
	return empty;
}

static void
refuse_track(CdcHistory *h, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("track_columns are not those of history \"%s\"", h->target.name),
			 errdetail("%s", why),
			 errhint("Leave track_columns out, or make another history and apply the log to it.")));
}

/* A column whose changes make versions must be there and fed. */
static void
check_tracked(CdcHistory *h)
{
	ListCell   *lc;

	foreach(lc, h->track)
	{
		bool		fed = false;

		for (int i = 0; i < h->cols.ncols; i++)
			fed |= strcmp(h->cols.cols[i].name, lfirst(lc)) == 0;
		if (!fed)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("tracked column \"%s\" is not one that staging \"%s\" feeds",
							(char *) lfirst(lc), h->cols.staging_name),
					 errdetail("A tracked column is a column of history \"%s\" beside its key, and staging has it.",
							   h->target.name)));
	}
}

static void
plan_track(CdcHistory *h)
{
	List	   *recorded = h->record.track;
	bool		same = list_length(recorded) == list_length(h->track);
	ListCell   *lc;

	if (h->track == NIL)
		h->track = recorded;
	else if (recorded == NIL)
	{
		if (!is_empty(h->target.relid) || !is_empty(h->record.events))
			refuse_track(h, "It has versions already, one for every change.");
		h->record.track = h->track;
		h->written = true;		/* the record, at least */
	}
	else
	{
		foreach(lc, h->track)
			same &= cdc_has_name(recorded, lfirst(lc));
		if (!same)
			refuse_track(h, "It was made with others.");
	}
	check_tracked(h);
}

/* ---------- 4. rights, and what is recorded ---------- */

/* SELECT, INSERT and UPDATE on key, own and applied columns, whatever the batch holds. */
static void
check_rights(CdcHistory *h)
{
	CdcTarget	checked = h->target;
	Bitmapset  *set = NULL;

#define ADD(attno) set = bms_add_member(set, (attno) - FirstLowInvalidHeapAttributeNumber)
	for (int i = 0; i < h->target.nkeys; i++)
		ADD(h->target.keys[i].attno);
	for (int i = 0; i < h->target.npos; i++)
		ADD(h->target.pos_attno[i]);
	for (int i = 0; i < h->cols.ncols; i++)
		ADD(h->cols.cols[i].attno);
#undef ADD
	cdc_target_begin(&checked, set, h->rule.dry_run);
	cdc_target_end(&checked);
}

static void
check_kind(CdcHistory *h)
{
	const CdcPos *pos = &h->read.high;
	const CdcPos *high = &h->record.high;

	if (pos->len > 0 && high->len > 0 &&
		cdc_position_kind_of(pos->bytes) != cdc_position_kind_of(high->bytes))
		cdc_refuse_mixed_kinds(psprintf("position %s and history \"%s\"",
										cdc_pos_text(pos->bytes, pos->len), h->target.name));
}

/* A call that wrote leaves its trace, so that a concurrent transaction meets it. */
static void
record(CdcHistory *h)
{
	CdcHistoryRecord now;

	if (!h->written || h->rule.dry_run)
		return;
	cdc_history_read_record(h->target.relid, false, &now);
	if (!now.exists)
		return;
	now.track = h->record.track;
	now.time_column = h->record.time_column;
	if (cdc_pos_compare(h->read.high.bytes, h->read.high.len, now.high.bytes, now.high.len) > 0)
		cdc_pos_copy(&now.high, &h->read.high);
	now.changes++;
	cdc_history_put_record(&now);
}

static void
consume(CdcHistory *h)
{
	Relation	rel = h->rel;
	bool		triggers = rel->rd_rel->relhastriggers ||
		rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;

	relation_close(h->staging_rel, NoLock);
	table_close(rel, NoLock);
	if (h->rule.consume == CDC_CONSUME_TRUNCATE)
		cdc_consume_truncate(h->rule.staging, h->read.events, triggers);
	else if (h->rule.consume == CDC_CONSUME_BOOKMARK && !h->rule.dry_run)
		cdc_bookmark_move(h->cols.bookmark);
}

/* ---------- the call ---------- */

/* False: skipped. */
static bool
run(CdcHistory *h, CdcArgs *args)
{
	/* STEP 1: the relations, under the history's apply lock */
	if (!open_history(h, args))
		return false;
	cdc_rule_read(args, &h->rule);
	h->rule.history = true;
	check_keys(h);
	if (!open_staging(h))
	{
		cdc_target_unlock(h->target.relid, ExclusiveLock);
		relation_close(h->rel, RowExclusiveLock);
		return false;
	}
	check_position_columns(h);

	/* STEP 2: their columns */
	cdc_columns_map(&h->cols, &h->target, h->staging_rel, &h->rule);
	plan_times(h);
	handle_schema_change(h);
	plan_times(h);
	plan_track(h);

	/* STEP 3: the caller's rights, before anything is read */
	check_rights(h);
	if (h->rule.consume == CDC_CONSUME_BOOKMARK)
		cdc_bookmark_read(h->cols.bookmark, &h->rule, h->rule.staging_filter);

	/* STEP 4: staging; STEP 5: what it changes, found and written */
	cdc_history_read(h);
	check_kind(h);
	CommandCounterIncrement();
	if (h->counted > 0 || h->read.truncates > 0)
		cdc_history_write(h);
	tuplestore_end(h->incoming);
	tuplestore_end(h->truncates);
	CommandCounterIncrement();
	record(h);

	/* STEP 6: what was read is read */
	consume(h);
	return true;
}

static void
sum_up(CdcHistory *h, CdcApplied *applied)
{
	int64		sum = 0;

	applied->events = h->read.events;
	h->counts[CDC_IGNORED] += h->read.ignored;
	for (int i = 0; i < CDC_OUTCOMES; i++)
		sum += applied->counts[i] = h->counts[i];
	if (sum != applied->events)
		elog(ERROR, "outcomes do not add up to the number of events");
	cdc_pos_copy(&applied->low, &h->read.low);
	cdc_pos_copy(&applied->high, &h->read.high);
}

static void
read_args(FunctionCallInfo fcinfo, CdcArgs *args, CdcHistory *h)
{
	memset(args, 0, sizeof(CdcArgs));
	memset(args->isnull, true, sizeof(args->isnull));
#define TAKE(to, from) \
	(args->values[to] = PG_GETARG_DATUM(from), args->isnull[to] = PG_ARGISNULL(from))
	for (int i = 0; i < lengthof(argument_of); i++)
		TAKE(argument_of[i], i);
	TAKE(CDC_ARG_EXPECT_EVENTS, ARG_EXPECT_EVENTS);
	TAKE(CDC_ARG_DRY_RUN, ARG_DRY_RUN);
	TAKE(CDC_ARG_NOWAIT, ARG_NOWAIT);
#undef TAKE
	if (!PG_ARGISNULL(ARG_TRACK_COLUMNS))
		h->track = cdc_registry_name_list(PG_GETARG_DATUM(ARG_TRACK_COLUMNS));
	if (!PG_ARGISNULL(ARG_TIME_COLUMN))
		h->time_column = pstrdup(NameStr(*PG_GETARG_NAME(ARG_TIME_COLUMN)));
}

Datum
cdc_apply_history(PG_FUNCTION_ARGS)
{
	CdcArgs		args;
	CdcApplied	applied;
	TupleDesc	desc;
	Datum		values[RESULT_COLUMNS];
	bool		isnull[RESULT_COLUMNS];
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "cdc_apply_history",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	CdcHistory *h = palloc0(sizeof(CdcHistory));

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	memset(&applied, 0, sizeof(applied));
	read_args(fcinfo, &args, h);
	if (args.isnull[CDC_ARG_DRY_RUN] || !DatumGetBool(args.values[CDC_ARG_DRY_RUN]))
	{
		PreventCommandIfReadOnly("cdc_apply_history()");
		PreventCommandIfParallelMode("cdc_apply_history()");
	}
	cdc_progress_begin();

	/* staging's values may be out of line: keep what they point to */
	PushActiveSnapshot(GetTransactionSnapshot());
	applied.skipped = !run(h, &args);
	PopActiveSnapshot();
	if (!applied.skipped)
		sum_up(h, &applied);

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "cdc_apply_history must return a composite type");
	cdc_applied_values(&applied, values, isnull);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, isnull));
}

/* Is a table a history, or the events table of one? */
Datum
cdc_is_history(PG_FUNCTION_ARGS)
{
	CdcHistoryRecord record;
	Oid			relid = PG_GETARG_OID(0);

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	cdc_history_read_record(relid, false, &record);
	PG_RETURN_BOOL(record.exists || OidIsValid(cdc_history_of_events(relid)));
}
