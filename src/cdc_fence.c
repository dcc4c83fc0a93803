/*-------------------------------------------------------------------------
 *
 * cdc_fence.c
 *		Fences, floors and epochs of attached targets: purging tombstones, taking
 *		back what was applied, and the functions that set them by hand.
 *
 * Rows are removed or marked by one ordinary statement, run as the caller and
 * let through by the guard.  Every name in it is qualified, operators too, so
 * that the caller's search_path has no say.
 *
 * Locks: the apply lock of the target and ROW EXCLUSIVE on it, kept to the end
 * of the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "cdc_attach.h"
#include "cdc_consume.h"
#include "cdc_guard.h"
#include "cdc_probe.h"
#include "cdc_registry.h"
#include "cdc_runs.h"
#include "cdc_sql.h"

/* An attached target, for its owner. */
typedef struct CdcOwned
{
	CdcRegistration reg;
	CdcRule		rule;
	CdcTarget	target;
	Relation	rel;
	CdcRun		run;			/* as it will be logged */
} CdcOwned;

PG_FUNCTION_INFO_V1(cdc_purge_tombstones);
PG_FUNCTION_INFO_V1(cdc_set_fence);
PG_FUNCTION_INFO_V1(cdc_set_floor);
PG_FUNCTION_INFO_V1(cdc_new_epoch);
PG_FUNCTION_INFO_V1(cdc_forget);

/* ---------- SQL over target and side table ---------- */

/* Condition: the position of a row is at or below parameter 1, or there is none. */
static char *
not_above(const char *position)
{
	return psprintf("NOT %s.cdc_supersedes(%s, $1)", cdc_sql_schema(), position);
}

/* Run one statement past the guard; the number of rows. */
static int64
run_statement(Oid target, const char *sql, int nargs, Oid *types, Datum *values)
{
	Oid			exempt = cdc_guard_exempt(target);
	int64		rows = 0;
	volatile int rc = 0;

	SPI_connect();
	PG_TRY();
	{
		rc = SPI_execute_with_args(sql, nargs, types, values, NULL, false, 0);
	}
	PG_FINALLY();
	{
		cdc_guard_exempt(exempt);
	}
	PG_END_TRY();
	if (rc < 0)
		elog(ERROR, "could not run \"%s\": %s", sql, SPI_result_code_string(rc));
	rows = SPI_processed;
	SPI_finish();
	return rows;
}

/* Run a query for one position, with at most one parameter. */
static void
query_position(const char *sql, int nargs, Oid type, Datum value, CdcPos *pos)
{
	bool		isnull;
	Datum		result;

	SPI_connect();
	if (SPI_execute_with_args(sql, nargs, &type, &value, NULL, true, 1) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "could not run \"%s\"", sql);
	result = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	cdc_pos_from_datum(pos, result, isnull);
	SPI_finish();
}

/* Does a query find a row at the latest snapshot? */
static bool
any_row(const char *sql, int nargs, Oid *types, Datum *values)
{
	bool		found;

	PushActiveSnapshot(GetLatestSnapshot());
	SPI_connect();
	if (SPI_execute_with_args(sql, nargs, types, values, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not run \"%s\"", sql);
	found = SPI_processed > 0;
	SPI_finish();
	PopActiveSnapshot();
	return found;
}

/* Is any position stored, in the target or its side table? */
bool
cdc_target_has_positions(const CdcTarget *target)
{
	const char *schema = cdc_sql_schema();

	return any_row(psprintf("SELECT FROM %s WHERE %s.cdc_supersedes(%s, NULL) LIMIT 1",
							cdc_quoted_relation(target->relid), schema, cdc_sql_position(target)),
				   0, NULL, NULL) ||
		(OidIsValid(target->tombstones) && cdc_tombstones_any(target->tombstones));
}

/* ---------- an attached target of the caller ---------- */

static void
open_owned(FunctionCallInfo fcinfo, const char *what, const char *operation, CdcOwned *owned)
{
	CdcArgs		args;
	Oid			relid;

	memset(&args, 0, sizeof(args));
	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	PreventCommandIfReadOnly(what);
	PreventCommandIfParallelMode(what);
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("target must not be NULL")));
	relid = PG_GETARG_OID(0);
	cdc_run_begin(&owned->run, relid, operation);
	owned->rel = try_table_open(relid, RowExclusiveLock);
	if (owned->rel == NULL)
		cdc_refuse_no_relation(relid);
	cdc_target_check(owned->rel);
	cdc_check_owner(owned->rel);
	(void) cdc_target_lock(relid, ExclusiveLock, false);

	cdc_registry_read(relid, &owned->reg);
	if (!owned->reg.rule.exists)
	{
		Oid			ancestor = cdc_registry_attached_ancestor(relid);

		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("target \"%s\" is not attached", cdc_relation_name(owned->rel)),
				 OidIsValid(ancestor) ?
				 errhint("It is a partition of \"%s\", which is attached.", cdc_quoted_relation(ancestor)) :
				 errhint("Use cdc_attach().")));
	}
	memset(args.isnull, true, sizeof(args.isnull));
	args.values[CDC_ARG_TARGET] = ObjectIdGetDatum(relid);
	args.isnull[CDC_ARG_TARGET] = false;
	/* a staging relation that is gone is none of our business */
	args.values[CDC_ARG_STAGING] = ObjectIdGetDatum(InvalidOid);
	args.isnull[CDC_ARG_STAGING] = false;
	cdc_rule_complete(&args, &owned->reg, owned->rel, &owned->rule);
	cdc_target_describe(&owned->target, owned->rel, &owned->rule);
}

static void
close_owned(CdcOwned *owned)
{
	table_close(owned->rel, NoLock);
}

/* ---------- purge ---------- */

/* The table that holds tombstones, and their position and time there. */
typedef struct Graves
{
	Oid			relid;
	char	   *where;			/* which rows are tombstones */
	char	   *position;
	const char *time;			/* NULL: they have none */
} Graves;

static void
describe_graves(const CdcTarget *target, Graves *graves)
{
	if (OidIsValid(target->tombstones))
	{
		graves->relid = target->tombstones;
		graves->where = "true";
		graves->position = "source_position";
		graves->time = "deleted_at";
	}
	else
	{
		graves->relid = target->relid;
		graves->where = cdc_sql_dead(target);
		graves->position = cdc_sql_position(target);
		graves->time = target->tomb_time ? cdc_sql_column(target, target->tomb_attno) : NULL;
	}
}

/* The greatest position below every tombstone younger than that. */
static void
position_by_age(const CdcTarget *target, const Graves *graves, Datum older_than, CdcPos *pos)
{
	const char *schema = cdc_sql_schema();

	if (graves->time == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("tombstones of target \"%s\" have no time", target->name),
				 errdetail("Its tombstone column is a boolean."),
				 errhint("Give up_to, a position at or below which no change is still to come.")));
	query_position(psprintf("SELECT %s.max(p) FROM (SELECT %s AS p FROM %s WHERE %s) AS t "
							"WHERE coalesce(p OPERATOR(%s.<) (SELECT %s.min(%s) FROM %s WHERE %s AND "
							"%s OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.-) $1)), true)",
							schema, graves->position, cdc_quoted_relation(graves->relid), graves->where, schema,
							schema, graves->position, cdc_quoted_relation(graves->relid), graves->where,
							graves->time),
				   1, INTERVALOID, older_than, pos);
}

/* The greatest position that the target stores, of rows and tombstones. */
static void
greatest_stored(const CdcTarget *target, const Graves *graves, CdcPos *pos)
{
	const char *schema = cdc_sql_schema();
	CdcPos		dead;

	query_position(psprintf("SELECT %s.max(%s) FROM %s", schema, cdc_sql_position(target),
							cdc_quoted_relation(target->relid)), 0, InvalidOid, (Datum) 0, pos);
	query_position(psprintf("SELECT %s.max(%s) FROM %s", schema, graves->position,
							cdc_quoted_relation(graves->relid)), 0, InvalidOid, (Datum) 0, &dead);
	if (cdc_pos_compare(dead.bytes, dead.len, pos->bytes, pos->len) > 0)
		*pos = dead;
}

/* Is pos above everything that was ever applied to the target? */
static bool
above_all(CdcOwned *owned, const Graves *graves, const CdcPos *pos)
{
	CdcPos		high = owned->reg.high;
	CdcPos		found;

	if (cdc_pos_compare(pos->bytes, pos->len, high.bytes, high.len) <= 0)
		return false;
	/* positions may be older than the attachment */
	greatest_stored(&owned->target, graves, &found);
	return cdc_pos_compare(pos->bytes, pos->len, found.bytes, found.len) > 0;
}

/* Remove dead rows; tombstones of the side table are not rows of a statement. */
static int64
remove_tombstones(const CdcTarget *target, const Graves *graves, const CdcPos *pos, int64 max_rows)
{
	char	   *from = cdc_quoted_relation(graves->relid);
	char	   *where = psprintf("%s AND %s", graves->where, not_above(graves->position));
	Oid			types[2] = {cdc_position_type(), INT8OID};
	Datum		values[2];
	char	   *sql;

	if (OidIsValid(target->tombstones))
		return cdc_tombstones_purge(target->tombstones, pos, false, max_rows);
	values[0] = cdc_value_from_bytes(pos->bytes, pos->len);
	values[1] = Int64GetDatum(max_rows);
	if (max_rows < 0)
		sql = psprintf("DELETE FROM %s WHERE %s", from, where);
	else if (get_rel_relkind(graves->relid) == RELKIND_PARTITIONED_TABLE)
		sql = psprintf("DELETE FROM %s WHERE %s AND ROW(tableoid, ctid) OPERATOR(pg_catalog.=) "
					   "ANY (SELECT tableoid, ctid FROM %s WHERE %s LIMIT $2)",
					   from, where, from, where);
	else
		sql = psprintf("DELETE FROM %s WHERE %s AND ctid OPERATOR(pg_catalog.=) "
					   "ANY (ARRAY(SELECT ctid FROM %s WHERE %s LIMIT $2))",
					   from, where, from, where);
	return run_statement(target->relid, sql, max_rows < 0 ? 1 : 2, types, values);
}

/* The position up to which a call purges; none when there is nothing old enough. */
static void
purge_position(FunctionCallInfo fcinfo, CdcOwned *owned, const Graves *graves, CdcPos *pos)
{
	bool		force = !PG_ARGISNULL(4) && PG_GETARG_BOOL(4);
	CdcPos		by_age;

	cdc_pos_from_datum(pos, PG_GETARG_DATUM(1), PG_ARGISNULL(1));
	if (PG_ARGISNULL(1) && PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("neither up_to nor older_than is given"),
				 errhint("Say up to which position, or from which age on, tombstones can go.")));
	if (!PG_ARGISNULL(1) && pos->len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("up_to is no position"),
				 errdetail("An LSN of 0/0 means that there is none.")));
	cdc_registry_check_kind(&owned->reg, pos, owned->target.name);
	if (pos->len > 0 && !force && above_all(owned, graves, pos))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("position %s is above everything applied to target \"%s\"",
						cdc_pos_text(pos->bytes, pos->len), owned->target.name),
				 errdetail("Deletes and inserts up to it would be fenced when they come."),
				 errhint("Use a position at or below which no change is still to come; force => true if you are sure.")));
	if (PG_ARGISNULL(2))
		return;
	position_by_age(&owned->target, graves, PG_GETARG_DATUM(2), &by_age);
	if (pos->len == 0 ||
		cdc_pos_compare(by_age.bytes, by_age.len, pos->bytes, pos->len) < 0)
		*pos = by_age;
}

Datum
cdc_purge_tombstones(PG_FUNCTION_ARGS)
{
	CdcOwned	owned;
	Graves		graves;
	CdcPos		pos;
	CdcPos	   *fence = &owned.reg.horizon.fence;
	int64		max_rows = PG_ARGISNULL(3) ? -1 : PG_GETARG_INT64(3);
	int64		removed = 0;

	if (!PG_ARGISNULL(3) && max_rows < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rows must not be negative")));
	open_owned(fcinfo, "cdc_purge_tombstones()", "purge", &owned);
	describe_graves(&owned.target, &graves);
	PushActiveSnapshot(GetLatestSnapshot());
	purge_position(fcinfo, &owned, &graves, &pos);
	if (pos.len > 0)
	{
		if (cdc_pos_compare(pos.bytes, pos.len, fence->bytes, fence->len) > 0)
		{
			cdc_registry_set_position(&owned.reg, STATE_FENCE, &pos);
			cdc_registry_put_state(&owned.reg);
		}
		removed = remove_tombstones(&owned.target, &graves, &pos, max_rows);
		owned.run.position = pos;
		owned.run.events = removed;
	}
	PopActiveSnapshot();
	close_owned(&owned);
	if (pos.len > 0)
		cdc_run_end(&owned.run);
	PG_RETURN_INT64(removed);
}

/* ---------- taking back ---------- */

/*
 * What stands for no position in the target's rows: a NULL in the first of its
 * position columns, or where that allows none its type's own.
 */
static const char *
no_position(const CdcTarget *target)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(target->rel), target->pos_attno[0] - 1);

	if (!att->attnotnull)
		return "NULL";
	if (!target->pos_single && target->pos_kind == CDC_POSITION_NUMBER)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rows of target \"%s\" cannot be without a position", target->name),
				 errdetail("Column \"%s\" is NOT NULL, and 0 is a position.",
						   NameStr(att->attname)),
				 errhint("Use ALTER TABLE .. ALTER COLUMN .. DROP NOT NULL.")));
	return target->pos_single ? psprintf("'0/0'::%s.cdc_position", cdc_sql_schema()) :
		"'0/0'::pg_catalog.pg_lsn";
}

/*
 * Events at or below fence or floor would not be applied again to the rows that
 * lost their position, nor a truncate there.
 */
static void
forget_horizon(CdcOwned *owned, int column, const char *what)
{
	const CdcPos none = {0};
	const CdcPos *pos = column == STATE_FENCE ? &owned->reg.horizon.fence : &owned->reg.horizon.floor;

	if (pos->len == 0)
		return;
	ereport(NOTICE,
			(errmsg("the %s of target \"%s\" is removed", what, owned->target.name),
			 errdetail("It was at %s; events up to there would not be applied again.",
					   cdc_pos_text(pos->bytes, pos->len)),
			 errhint("Set it again when the log has been replayed (cdc_set_%s).", what)));
	cdc_registry_set_position(&owned->reg, column, &none);
}

static int64
forget_above(CdcOwned *owned, const CdcPos *above, Datum value)
{
	CdcTarget  *target = &owned->target;
	const char *schema = cdc_sql_schema();
	char	   *rows = cdc_quoted_relation(target->relid);
	Oid			type = cdc_position_type();
	const char *none = no_position(target);
	int64		n = 0;

	if (target->tomb_attno != 0)
		n += run_statement(target->relid,
						   psprintf("DELETE FROM %s WHERE %s AND %s.cdc_supersedes(%s, $1)", rows,
									cdc_sql_dead(target), schema, cdc_sql_position(target)),
						   1, &type, &value);
	else
		n += cdc_tombstones_purge(target->tombstones, above, true, -1);
	return n + run_statement(target->relid,
							 psprintf("UPDATE %s SET %s = %s WHERE %s.cdc_supersedes(%s, $1)", rows,
									  cdc_sql_column(target, target->pos_attno[0]), none, schema,
									  cdc_sql_position(target)),
							 1, &type, &value);
}

Datum
cdc_forget(PG_FUNCTION_ARGS)
{
	CdcOwned	owned;
	Graves		graves;
	CdcPos		above,
				left;
	const CdcPos *fence = &owned.reg.horizon.fence;
	const CdcPos *floor = &owned.reg.horizon.floor;
	int64		n;

	open_owned(fcinfo, "cdc_forget()", "forget", &owned);
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("above must not be NULL"),
				 errhint("'0/0' takes back every position.")));
	cdc_pos_from_datum(&above, PG_GETARG_DATUM(1), false);
	cdc_registry_check_kind(&owned.reg, &above, owned.target.name);
	describe_graves(&owned.target, &graves);
	PushActiveSnapshot(GetLatestSnapshot());
	n = forget_above(&owned, &above, PG_GETARG_DATUM(1));
	PopActiveSnapshot();

	PushActiveSnapshot(GetLatestSnapshot());
	if (cdc_pos_compare(owned.reg.high.bytes, owned.reg.high.len, above.bytes, above.len) > 0)
	{
		greatest_stored(&owned.target, &graves, &left);
		cdc_registry_set_position(&owned.reg, STATE_HIGH_POSITION, &left);
	}
	if (n > 0 || cdc_pos_compare(fence->bytes, fence->len, above.bytes, above.len) > 0)
		forget_horizon(&owned, STATE_FENCE, "fence");
	if (n > 0 || cdc_pos_compare(floor->bytes, floor->len, above.bytes, above.len) > 0)
		forget_horizon(&owned, STATE_FLOOR, "floor");
	cdc_registry_put_state(&owned.reg);
	/* what was read of staging is to be read again */
	cdc_bookmark_forget(owned.target.relid);
	PopActiveSnapshot();
	owned.run.events = n;
	owned.run.position = above;
	close_owned(&owned);
	cdc_run_end(&owned.run);
	PG_RETURN_INT64(n);
}

/* ---------- by hand ---------- */

static void
set_horizon(FunctionCallInfo fcinfo, const char *what, const char *operation, int column)
{
	CdcOwned	owned;
	CdcPos		pos;

	open_owned(fcinfo, what, operation, &owned);
	cdc_pos_from_datum(&pos, PG_GETARG_DATUM(1), PG_ARGISNULL(1));
	cdc_registry_check_kind(&owned.reg, &pos, owned.target.name);
	cdc_registry_set_position(&owned.reg, column, &pos);
	cdc_registry_put_state(&owned.reg);
	close_owned(&owned);
	owned.run.position = pos;
	cdc_run_end(&owned.run);
}

Datum
cdc_set_fence(PG_FUNCTION_ARGS)
{
	set_horizon(fcinfo, "cdc_set_fence()", "set_fence", STATE_FENCE);
	PG_RETURN_VOID();
}

Datum
cdc_set_floor(PG_FUNCTION_ARGS)
{
	set_horizon(fcinfo, "cdc_set_floor()", "set_floor", STATE_FLOOR);
	PG_RETURN_VOID();
}

/*
 * Open the recorded staging; NULL: it does not exist.  While we waited, a
 * loader may have replaced it.
 */
static Relation
open_recorded_staging(const CdcRegistration *reg)
{
	Oid			relid = cdc_rule_recorded_staging(reg, NoLock, true);

	while (OidIsValid(relid))
	{
		Relation	staging = try_relation_open(relid, AccessShareLock);
		Oid			now = cdc_rule_recorded_staging(reg, NoLock, true);

		if (staging != NULL && now == relid)
			return staging;
		if (staging != NULL)
			relation_close(staging, AccessShareLock);
		relid = now;
	}
	return NULL;
}

/*
 * Events of the old log that were not applied yet would get the new epoch.
 * Those that a bookmark has passed are not read again.
 */
static void
check_staging_empty(CdcOwned *owned)
{
	Relation	staging = open_recorded_staging(&owned->reg);

	if (staging == NULL)
		return;
	if (any_row(psprintf("SELECT FROM %s WHERE %s LIMIT 1",
						 cdc_quoted_relation(RelationGetRelid(staging)),
						 cdc_bookmark_unread(&owned->reg, staging)), 0, NULL, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("staging \"%s\" of target \"%s\" still holds rows",
						RelationGetRelationName(staging), owned->target.name),
				 errdetail("Those of the log that is being left would get the new epoch."),
				 errhint("Apply and remove the old log's rows; move the new log's aside until the epoch is there.")));
	relation_close(staging, NoLock);
}

Datum
cdc_new_epoch(PG_FUNCTION_ARGS)
{
	CdcOwned	owned;

	open_owned(fcinfo, "cdc_new_epoch()", "new_epoch", &owned);
	if (!owned.target.pos_single)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("target \"%s\" has no room for an epoch", owned.target.name),
				 errdetail("Its position stands in columns other than one cdc_position."),
				 errhint("Attach it with one cdc_position column.")));
	if (!PG_ARGISNULL(1) && owned.reg.epoch > 0 && owned.reg.lineage != NULL &&
		strcmp(owned.reg.lineage, text_to_cstring(PG_GETARG_TEXT_PP(1))) == 0)
	{
		/* said before: a repeated call must not make another epoch */
		ereport(NOTICE,
				(errmsg("target \"%s\" is in epoch %lld of lineage \"%s\" already",
						owned.target.name, (long long) owned.reg.epoch,
						cdc_clip(owned.reg.lineage))));
		close_owned(&owned);
		PG_RETURN_INT64(owned.reg.epoch);
	}
	PushActiveSnapshot(GetLatestSnapshot());
	check_staging_empty(&owned);
	PopActiveSnapshot();
	if (owned.reg.epoch >= PG_UINT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("epoch out of range")));
	owned.reg.epoch++;
	if (!PG_ARGISNULL(1))
		owned.reg.lineage = text_to_cstring(PG_GETARG_TEXT_PP(1));
	cdc_registry_put_state(&owned.reg);
	close_owned(&owned);
	cdc_run_end(&owned.run);
	PG_RETURN_INT64(owned.reg.epoch);
}
