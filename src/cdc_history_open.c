/*-------------------------------------------------------------------------
 *
 * cdc_history_open.c
 *		The relations of cdc_apply_history(): the history and its events table
 *		under the apply lock, staging, and what of their columns is which.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"

#include "cdc_consume.h"
#include "cdc_history.h"

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

/*
 * A history that is to keep times from now on gets the columns, if its owner
 * says so.  ALTER TABLE wants the table for itself, before the apply lock.
 */
static void
add_times(CdcHistory *h, LOCKMODE lockmode)
{
	Oid			relid = RelationGetRelid(h->rel);
	char	   *name = cdc_quoted_relation(relid);
	CdcHistoryRecord record;

	cdc_history_read_record(relid, false, &record);
	if (h->time_column == NULL || lockmode == AccessShareLock || !record.exists ||
		get_attnum(relid, CDC_HISTORY_FROM_AT) > 0 || !cdc_owns_relation(relid, GetUserId()))
		return;
	relation_close(h->rel, lockmode);
	cdc_ddl("ALTER TABLE %s ADD COLUMN IF NOT EXISTS " CDC_HISTORY_FROM_AT " pg_catalog.timestamptz, "
			"ADD COLUMN IF NOT EXISTS " CDC_HISTORY_TO_AT " pg_catalog.timestamptz", name);
	h->rel = table_open(relid, lockmode);
}

/* False: another apply holds the history, and the call does not wait. */
bool
cdc_history_open(CdcHistory *h, const CdcArgs *args)
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
	add_times(h, lockmode);
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
void
cdc_history_check_keys(CdcHistory *h)
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

void
cdc_history_check_position(CdcHistory *h)
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
bool
cdc_history_open_staging(CdcHistory *h)
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
void
cdc_history_change_schema(CdcHistory *h)
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
		cdc_columns_report_missing(option, &h->target, &h->cols, missing);
}
