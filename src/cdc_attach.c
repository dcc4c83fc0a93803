/*-------------------------------------------------------------------------
 *
 * cdc_attach.c
 *		cdc_attach(): a target's rule is checked and recorded, and what the
 *		target lacks is added.
 *
 * What is added is made in cdc_attach_ddl.c, cdc_attach_guard.c and
 * cdc_live_view.c.  NULL arguments leave a thing as it is, so that a repeated
 * call changes only what it names.
 *
 * Locks on the target, to the end of the transaction: ROW EXCLUSIVE, SHARE ROW
 * EXCLUSIVE to create the guard's triggers, ACCESS EXCLUSIVE to add columns or
 * drop triggers; then the apply lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "cdc_attach.h"
#include "cdc_consume.h"

/* the arguments after target, staging and the rule's parameters */
enum
{
	ATTACH_ARG_TOMBSTONES = CDC_ARG_BOOKMARK_COLUMN + 1,
	ATTACH_ARG_GUARD, ATTACH_ARG_LIVE_VIEW, ATTACH_ARG_AS_OF, ATTACH_ARG_LINEAGE, ATTACH_ARG_EPOCH
};

PG_FUNCTION_INFO_V1(cdc_attach);
PG_FUNCTION_INFO_V1(cdc_is_side_table);

/* ---------- arguments ---------- */

static char *
text_arg(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* Which of three values an option has. */
static int
choice(const char *param, const char *given, const char *const values[3])
{
	for (int i = 0; i < 3; i++)
		if (strcmp(given, values[i]) == 0)
			return i;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown value for %s: \"%s\"", param, cdc_clip(given)),
			 errhint("Use '%s', '%s' or '%s'.", values[0], values[1], values[2])));
}

static void
read_args(FunctionCallInfo fcinfo, CdcAttach *a)
{
	static const char *const homes[] = {"auto", "row", "table"};
	static const char *const guards[] = {"off", "skip", "error"};
	char	   *home = text_arg(fcinfo, ATTACH_ARG_TOMBSTONES);

	memset(a->given.isnull, true, sizeof(a->given.isnull));
	for (int i = CDC_ARG_TARGET; i <= CDC_ARG_BOOKMARK_COLUMN; i++)
	{
		a->given.values[i] = PG_GETARG_DATUM(i);
		a->given.isnull[i] = PG_ARGISNULL(i);
	}
	if (PG_ARGISNULL(CDC_ARG_TARGET))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("target must not be NULL")));
	a->relid = PG_GETARG_OID(CDC_ARG_TARGET);
	if (home != NULL)
		a->home = choice("tombstones", home, homes);
	a->guard = text_arg(fcinfo, ATTACH_ARG_GUARD);
	if (a->guard != NULL)
		(void) choice("guard", a->guard, guards);
	a->live_view = text_arg(fcinfo, ATTACH_ARG_LIVE_VIEW);
	a->lineage = text_arg(fcinfo, ATTACH_ARG_LINEAGE);
	if (!PG_ARGISNULL(ATTACH_ARG_AS_OF))
	{
		cdc_pos_from_datum(&a->as_of, PG_GETARG_DATUM(ATTACH_ARG_AS_OF), false);
		if (a->as_of.len == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("as_of is no position")));
	}
	a->has_epoch = !PG_ARGISNULL(ATTACH_ARG_EPOCH);
	if (a->has_epoch)
		a->epoch = PG_GETARG_INT64(ATTACH_ARG_EPOCH);
	if (a->epoch < 0 || a->epoch > PG_UINT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("epoch %lld is out of range", (long long) a->epoch),
				 errdetail("It must be from 0 to %lld.", (long long) PG_UINT32_MAX)));
}

/* ---------- the target, and what is recorded of it ---------- */

/* Open a target for its owner, and nobody else. */
Relation
cdc_attach_open(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = try_relation_open(relid, lockmode);

	if (rel == NULL)
		cdc_refuse_no_relation(relid);
	cdc_check_owner(rel);
	return rel;
}

/* One log of its own: no table is attached twice, nor together with its parts. */
static void
check_family(CdcAttach *a)
{
	Oid			other = cdc_registry_attached_ancestor(a->relid);

	if (OidIsValid(other))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("target \"%s\" is a partition of an attached table",
						cdc_relation_name(a->rel)),
				 errdetail("\"%s\" is attached.", get_rel_name(other)),
				 errhint("Attach the partitions, or the table that they make up.")));
	other = cdc_registry_attached_partition(a->relid);
	if (OidIsValid(other))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("target \"%s\" has an attached partition", cdc_relation_name(a->rel)),
				 errdetail("\"%s\" is attached.", get_rel_name(other)),
				 errhint("Attach the partitions, or the table that they make up.")));
	cdc_registry_check_relatives(a->rel);
	other = cdc_registry_side_table_of(a->relid);
	if (OidIsValid(other))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("target \"%s\" holds the tombstones of another target",
						cdc_relation_name(a->rel)),
				 errdetail("It is the side table of \"%s\".", get_rel_name(other)),
				 errhint("Attach that table.")));
}

static void
refuse_change(CdcAttach *a, const char *param)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s contradicts the attachment of target \"%s\"", param,
					cdc_relation_name(a->rel)),
			 errhint("Leave it out; to change it, cdc_detach() the target and attach it again.")));
}

/*
 * When the target was detached, a column of it marked dead rows.  In another
 * home they would count as live.
 */
static void
check_rows_left(CdcAttach *a)
{
	const CdcRecord *state = &a->reg.state;
	const char *given = a->rule.tombstone_column ? a->rule.tombstone_column : "deleted";
	char	   *column;

	if (state->isnull[STATE_TOMBSTONE_COLUMN])
		return;
	column = cdc_registry_current_name(a->rel, pstrdup(NameStr(*DatumGetName(state->values[STATE_TOMBSTONE_COLUMN]))),
									   state->isnull[STATE_TOMBSTONE_ATTNUM] ? 0 :
									   DatumGetInt16(state->values[STATE_TOMBSTONE_ATTNUM]));
	if (get_attnum(a->relid, column) <= 0 || (!a->side && strcmp(column, given) == 0))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the deletes of target \"%s\" are remembered in its rows",
					cdc_relation_name(a->rel)),
			 errdetail("Column \"%s\" marked them when the target was detached; without it they would count as live.",
					   column),
			 errhint("Use tombstone_column => %s; or remove the dead rows and drop the column.",
					 quote_literal_cstr(column))));
}

static void
decide_home(CdcAttach *a)
{
	const char *name = cdc_relation_name(a->rel);
	bool		recorded = a->reg.rule.exists;

	if (recorded)
	{
		a->side = a->reg.rule.isnull[RULE_TOMBSTONE_COLUMN];
		if (a->home != CDC_HOME_AUTO && (a->home == CDC_HOME_TABLE) != a->side)
			refuse_change(a, "tombstones");
	}
	else
	{
		a->side = a->home == CDC_HOME_TABLE ||
			(a->home == CDC_HOME_AUTO && a->rule.tombstone_column == NULL);
		if (a->side && a->rule.tombstone_column != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("tombstone_column and tombstones => 'table' contradict each other")));
	}
	if (a->side && a->live_view != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("target \"%s\" needs no live view", name),
				 errdetail("With tombstones in a side table it holds live rows only.")));
	if (a->side && recorded && !cdc_side_table_exists(&a->reg))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the side table of target \"%s\" is gone", name),
				 errdetail("Its deletes are no longer remembered."),
				 errhint("Note the rule (cdc_targets), use cdc_detach() and cdc_attach() with it, then replay the log or set a fence.")));
	if (!recorded)
		check_rows_left(a);
	if (!a->side && cdc_side_table_exists(&a->reg))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the deletes of target \"%s\" are remembered in a side table", name),
				 errdetail("\"%s\" was kept when the target was detached.",
						   get_rel_name(a->reg.tombstones)),
				 errhint("Use tombstones => 'table'; or forget them with %s(%s, drop_tombstones => true).",
						 cdc_function_name("cdc_detach"),
						 quote_literal_cstr(cdc_quoted_relation(a->relid)))));
}

/*
 * Read what is recorded of the target, complete the rule, and work out what
 * has to be added.
 */
static void
survey(CdcAttach *a)
{
	CdcArgs		args = a->given;

	check_family(a);
	cdc_registry_read(a->relid, &a->reg);
	if (args.isnull[CDC_ARG_STAGING])
	{
		/* recorded by name: it need not exist now */
		args.values[CDC_ARG_STAGING] =
			ObjectIdGetDatum(cdc_rule_recorded_staging(&a->reg, NoLock, true));
		args.isnull[CDC_ARG_STAGING] = false;
	}
	cdc_rule_merge(&args, &a->reg, a->rel);
	cdc_rule_read(&args, &a->rule);
	(void) cdc_op_default(cdc_ops_create(a->rule.op_map, TEXTOID), a->rule.default_op);
	decide_home(a);
	cdc_target_describe_key(&a->target, a->rel, a->rule.key_columns);
	cdc_attach_plan_columns(a);
	cdc_attach_plan_guard(a);
}

static LOCKMODE
lock_needed(const CdcAttach *a)
{
	if (a->add_position != NULL || a->add_tombstone != NULL || a->add_marks != NULL ||
		a->drop_guard)
		return AccessExclusiveLock;
	return a->create_guard ? ShareRowExclusiveLock : RowExclusiveLock;
}

/*
 * Lock the target as its changes need it, then against applies.  What is
 * needed is found out under a lock that stops nobody and is given back, so
 * that no lock has to be raised; only a race could make that necessary.
 */
static void
lock_target(CdcAttach *a)
{
	LOCKMODE	lockmode;

	a->rel = cdc_attach_open(a->relid, AccessShareLock);
	cdc_target_check(a->rel);
	survey(a);
	lockmode = lock_needed(a);
	/* a partition and its ancestor must not be attached at the same time */
	if (!a->reg.rule.exists && (a->rel->rd_rel->relispartition ||
								a->rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE))
		cdc_registry_lock_rules();
	relation_close(a->rel, AccessShareLock);

	a->rel = cdc_attach_open(a->relid, lockmode);
	cdc_target_check(a->rel);
	(void) cdc_target_lock(a->relid, ExclusiveLock, false);
	survey(a);
	if (lock_needed(a) > lockmode)
		LockRelationOid(a->relid, lock_needed(a));
}

/* ---------- staging ---------- */

static void
open_staging(CdcAttach *a)
{
	if (!OidIsValid(a->rule.staging) && a->given.isnull[CDC_ARG_STAGING])
		return;
	a->staging = OidIsValid(a->rule.staging) ?
		try_relation_open(a->rule.staging, AccessShareLock) : NULL;
	if (a->staging == NULL)
	{
		if (a->given.isnull[CDC_ARG_STAGING])
			return;
		cdc_refuse_no_relation(a->rule.staging);
	}
	cdc_staging_check(a->staging);
	if (!a->side && !a->reg.rule.exists && a->given.isnull[CDC_ARG_TOMBSTONE_COLUMN])
		cdc_columns_check_tombstone(a->staging, a->rule.tombstone_column, &a->rule);
}

static void
check_staging_column(CdcAttach *a, const char *what, const char *name)
{
	if (name != NULL && get_attnum(RelationGetRelid(a->staging), name) <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("%s column \"%s\" does not exist in staging \"%s\"", what, name,
						cdc_relation_name(a->staging)),
				 errhint("Names are taken as written: without quotes, and upper case counts.")));
}

/* Names that this call gives must be there, if staging is. */
static void
check_staging_columns(CdcAttach *a)
{
	const bool *missing = a->given.isnull;
	ListCell   *lc;

	if (a->staging == NULL)
		return;
	if (!missing[CDC_ARG_OP_COLUMN])
		check_staging_column(a, "op", a->rule.op_column);
	if (!missing[CDC_ARG_DELETE_FLAG_COLUMN])
		check_staging_column(a, "delete flag", a->rule.delete_flag_column);
	if (!missing[CDC_ARG_UNCHANGED_COLUMN])
		check_staging_column(a, "unchanged", a->rule.unchanged_column);
	if (!missing[CDC_ARG_STAGING] || !missing[CDC_ARG_CONSUME] || !missing[CDC_ARG_BOOKMARK_COLUMN])
		cdc_consume_check_rule(a->staging, &a->rule);
	if (!missing[CDC_ARG_OLD_KEY_COLUMNS])
		foreach(lc, a->rule.old_key_columns)
			check_staging_column(a, "old key", lfirst(lc));
	if (!missing[CDC_ARG_EXCEPT_COLUMNS])
		foreach(lc, a->rule.except_columns)
			check_staging_column(a, "except", lfirst(lc));
}

/* ---------- the call ---------- */

/* Add columns, side table and triggers; the target is open again after it. */
static void
add_what_lacks(CdcAttach *a)
{
	Oid			side = InvalidOid;

	if (a->side && cdc_side_table_exists(&a->reg))
		side = a->reg.tombstones;
	else if (a->side)
		side = cdc_attach_create_side_table(a);
	/* ALTER TABLE wants the table for itself; its lock stays with us */
	relation_close(a->rel, NoLock);
	a->rel = NULL;
	cdc_attach_add_columns(a);
	cdc_attach_set_guard(a);
	a->rel = relation_open(a->relid, NoLock);
	a->rule.tombstones = side;
}

/* The view, locked, or 0 if it is gone by now. */
static Oid
existing_view(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	bool		is_view;

	if (rel == NULL)
		return InvalidOid;
	is_view = rel->rd_rel->relkind == RELKIND_VIEW;
	relation_close(rel, NoLock);
	return is_view ? relid : InvalidOid;
}

/* A column that may mark dead rows, though nobody says so; 0: there is none. */
static AttrNumber
doubtful_flag(const CdcAttach *a)
{
	AttrNumber	attno = get_attnum(a->relid, "deleted");
	Oid			type = attno > 0 ? getBaseType(get_atttype(a->relid, attno)) : InvalidOid;

	if (!a->side || a->home != CDC_HOME_AUTO || a->reg.rule.exists ||
		(type != BOOLOID && type != TIMESTAMPTZOID))
		return 0;
	return attno;
}

/*
 * A table that kept its dead rows itself so far needs to be told apart from
 * one whose application has a flag of that name.
 */
static void
warn_of_flag(const CdcAttach *a)
{
	if (doubtful_flag(a) == 0)
		return;
	ereport(WARNING,
			(errmsg("column \"deleted\" of target \"%s\" is an ordinary column from now on",
					cdc_relation_name(a->rel)),
			 errdetail("Deletes are remembered in a side table; rows that are marked in that column count as live."),
			 errhint("If it marks the deletes applied so far, attach with tombstone_column => 'deleted'; if not, say tombstones => 'table'.")));
}

/*
 * Columns that staging does not feed go with the row that a delete removes.
 * Said when the rule is made and when staging is named, not at each repeat.
 */
static void
warn_of_derived(const CdcAttach *a)
{
	TupleDesc	desc = RelationGetDescr(a->rel);
	AttrNumber	flag = doubtful_flag(a);	/* that has a warning of its own */
	StringInfoData s;

	if (!a->side || a->staging == NULL ||
		(a->reg.rule.exists && a->given.isnull[CDC_ARG_STAGING]))
		return;
	initStringInfo(&s);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || att->attgenerated != '\0' || att->attnum == flag ||
			cdc_target_is_law_column(&a->target, att->attnum) ||
			(get_attnum(RelationGetRelid(a->staging), NameStr(att->attname)) > 0 &&
			 !cdc_has_name(a->rule.except_columns, NameStr(att->attname))))
			continue;
		appendStringInfo(&s, "%s\"%s\"", s.len > 0 ? ", " : "", NameStr(att->attname));
	}
	if (s.len > 0)
		ereport(WARNING,
				(errmsg("columns of target \"%s\" that staging does not feed go with deleted rows: %s",
						cdc_relation_name(a->rel), s.data),
				 errdetail("With a side table a delete removes the row; one that comes back gets their defaults."),
				 errhint("Keep what cannot be computed again in a table of its own (cdc_make_append_only).")));
}

/* Without a position in staging every apply will be refused; it may still come. */
static void
notice_of_position(const CdcAttach *a)
{
	TupleDesc	desc = RelationGetDescr(a->rel);

	if (a->staging == NULL || a->rule.staging_position != NULL ||
		(a->reg.rule.exists && a->given.isnull[CDC_ARG_STAGING]))
		return;
	for (int i = 0; i < a->target.npos; i++)
	{
		const char *name = NameStr(TupleDescAttr(desc, a->target.pos_attno[i] - 1)->attname);

		if (get_attnum(RelationGetRelid(a->staging), name) > 0)
			continue;
		ereport(NOTICE,
				(errmsg("staging \"%s\" has no column \"%s\", and no staging_position says where an event stands",
						cdc_relation_name(a->staging), name),
				 errhint("cdc_apply() will be refused until one of them is there.")));
		return;
	}
}

static void
run(CdcAttach *a)
{
	Oid			live_view = InvalidOid;

	/* STEP 1: the owner's target, locked, and what it lacks */
	lock_target(a);
	cdc_registry_sweep();
	open_staging(a);
	check_staging_columns(a);
	warn_of_flag(a);

	/* STEP 2: add it, then look at the whole as an apply would */
	add_what_lacks(a);
	cdc_target_describe(&a->target, a->rel, &a->rule);
	warn_of_derived(a);
	notice_of_position(a);

	/* STEP 3: the view; its statements may have told the registry of renames */
	cdc_registry_read(a->relid, &a->reg);
	if (!a->reg.rule.isnull[RULE_LIVE_VIEW])
		live_view = existing_view(DatumGetObjectId(a->reg.rule.values[RULE_LIVE_VIEW]));
	live_view = cdc_live_view_make(a, live_view);

	/* STEP 4: record it */
	cdc_attach_record(a, live_view);

	relation_close(a->rel, NoLock);
	if (a->staging != NULL)
		relation_close(a->staging, NoLock);
}

Datum
cdc_attach(PG_FUNCTION_ARGS)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "cdc_attach",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	CdcAttach  *a = palloc0(sizeof(CdcAttach));

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	PreventCommandIfReadOnly("cdc_attach()");
	PreventCommandIfParallelMode("cdc_attach()");
	read_args(fcinfo, a);
	run(a);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	PG_RETURN_VOID();
}

/* Does a relation hold the tombstones of some target? */
Datum
cdc_is_side_table(PG_FUNCTION_ARGS)
{
	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	PG_RETURN_BOOL(OidIsValid(cdc_registry_side_table_of(PG_GETARG_OID(0))));
}
