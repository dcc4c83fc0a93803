/*-------------------------------------------------------------------------
 *
 * cdc_check.c
 *		cdc_check(): what to know before events are applied, asked one by one.
 *
 * How far cdc_apply() would come with target and staging is tried out, and
 * named by where it ends; what data there is, is then looked at by queries.
 * Each question is asked in a subtransaction of its own: one that cannot be
 * answered is told as such.  Nothing is written.
 *
 * The function is declared with a search_path of its own, so that names of
 * pg_catalog need no schema.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

#include "cdc_attach.h"
#include "cdc_call.h"
#include "cdc_explain.h"
#include "cdc_sql.h"

/* columns of the result */
enum
{
	CHECK_NAME, CHECK_OK, CHECK_DETAIL, CHECK_HINT, CHECK_COLUMNS
};

typedef struct CdcCheck
{
	ReturnSetInfo *result;
	const char *about;			/* the target, where several are looked at, or "" */
	Oid			target;
	Oid			staging;		/* 0: the recorded one */
	CdcApply   *call;			/* as far as it came */
	bool		described;		/* the target is */
	bool		mapped;			/* staging's columns are */
} CdcCheck;

PG_FUNCTION_INFO_V1(cdc_check);

static void
tell(CdcCheck *c, const char *name, bool ok, const char *detail, const char *hint)
{
	Datum		values[CHECK_COLUMNS];
	bool		isnull[CHECK_COLUMNS] = {false};

	values[CHECK_NAME] = CStringGetTextDatum(name);
	values[CHECK_OK] = BoolGetDatum(ok);
	isnull[CHECK_DETAIL] = detail == NULL && c->about[0] == '\0';
	if (!isnull[CHECK_DETAIL])
		values[CHECK_DETAIL] = CStringGetTextDatum(psprintf("%s%s%s", c->about,
															c->about[0] != '\0' && detail != NULL ? ": " : "",
															detail != NULL ? detail : ""));
	isnull[CHECK_HINT] = hint == NULL || ok;
	if (!isnull[CHECK_HINT])
		values[CHECK_HINT] = CStringGetTextDatum(hint);
	tuplestore_putvalues(c->result->setResult, c->result->setDesc, values, isnull);
}

/* Of several targets, those that may not be looked into do not hide the others. */
static void
begin_try(const CdcCheck *c, CdcTry *try)
{
	cdc_try_begin(try);
	try->rights = c->about[0] != '\0';
}

static void ask(CdcCheck *c, const char *name, const char *sql, const char *hint);

/* ---------- what can be told without data ---------- */

static char *
add_name(char *names, const char *name)
{
	return names == NULL ? psprintf("\"%s\"", name) : psprintf("%s, \"%s\"", names, name);
}

/* Columns that only one side has. */
static void
check_sides(CdcCheck *c)
{
	CdcApply   *call = c->call;
	TupleDesc	desc = RelationGetDescr(call->target_rel);
	char	   *extra = NULL;
	char	   *lost = NULL;
	char	   *derived = NULL;
	List	   *recorded = NIL;
	ListCell   *lc;

	foreach(lc, cdc_columns_missing(&call->target, &call->cols, &call->rule))
		extra = add_name(extra, lfirst(lc));
	tell(c, "staging_only_columns", extra == NULL, extra == NULL ? NULL :
		 psprintf("not applied, since the target has no such columns: %s", extra),
		 "on_schema_change => 'append_new_columns' adds them; except_columns says that they are not wanted");

	if (!call->reg.state.isnull[STATE_FED_COLUMNS] && call->reg.state.exists && !OidIsValid(c->staging))
		recorded = cdc_registry_name_list(call->reg.state.values[STATE_FED_COLUMNS]);
	for (int i = 0; i < desc->natts; i++)
	{
		const char *name = NameStr(TupleDescAttr(desc, i)->attname);
		bool		fed = cdc_target_is_law_column(&call->target, i + 1);

		if (TupleDescAttr(desc, i)->attisdropped || TupleDescAttr(desc, i)->attgenerated != '\0')
			continue;
		for (int k = 0; k < call->cols.ncols; k++)
			fed |= call->cols.cols[k].attno == i + 1;
		if (fed)
			continue;
		if (cdc_has_name(recorded, name) && !cdc_has_name(call->rule.except_columns, name))
			lost = add_name(lost, name);
		else
			derived = add_name(derived, name);
	}
	tell(c, "target_only_columns", lost == NULL,
		 lost != NULL ? psprintf("once fed, and lacking in staging now: %s", lost) :
		 derived != NULL ? psprintf("never touched by an event: %s", derived) : NULL,
		 "mend staging; or take them out of the feed by naming staging in cdc_attach() again");
}

/* How values come from staging's types to the target's. */
static void
check_conversions(CdcCheck *c)
{
	CdcApply   *call = c->call;
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < call->cols.ncols; i++)
	{
		CdcColumn  *col = &call->cols.cols[i];
		const char *how = "an assignment cast";

		if (col->cast == NULL)
			continue;
		if (IsA(col->cast->expr, CoerceViaIO))
			how = "its text";
		appendStringInfo(&s, "%s\"%s\" from %s by %s", s.len > 0 ? ", " : "", col->name,
						 format_type_be(col->source_type), how);
	}
	tell(c, "conversions", true, s.len > 0 ? psprintf("converted: %s", s.data) : NULL, NULL);
}

/* Does another target read what a call takes out of staging, or the other way round? */
static void
ask_shared(CdcCheck *c)
{
	const char *schema = cdc_sql_schema();

	ask(c, "staging_shared",
		psprintf("SELECT format('events that one takes out the other never reads: %%s reads this staging, too', "
				 "string_agg(o.target::text, ', ' ORDER BY o.target::text)) "
				 "FROM %s.cdc_targets t JOIN %s.cdc_targets o ON o.staging = t.staging AND o.target <> t.target "
				 "WHERE t.target = $1 AND ('truncate' IN (t.consume, o.consume) OR "
				 "('delete' IN (t.consume, o.consume) AND (t.staging_filter IS NULL OR o.staging_filter IS NULL))) "
				 "HAVING count(*) > 0", schema, schema),
		"consume => 'bookmark' for both, or a staging table for each");
}

/* Guard, fence and floor. */
static void
check_attachment(CdcCheck *c)
{
	CdcRegistration *reg = &c->call->reg;
	bool		attached = reg->rule.exists;

	tell(c, "attached", attached, attached ? NULL : "the rule is not recorded, and no guard, fence or floor is there",
		 "cdc_attach()");
	if (!attached)
		return;
	if (reg->rule.isnull[RULE_GUARD] ||
		strcmp(TextDatumGetCString(reg->rule.values[RULE_GUARD]), "off") == 0)
		tell(c, "guard", false, "other writers can put an older version over a newer one",
			 "cdc_attach(.., guard => 'error'), if anybody else writes to the target");
	else
		tell(c, "guard", true, NULL, NULL);
	ask_shared(c);
}

/* Is the recorded staging gone, or has it another name? */
static bool
is_staging_lost(const CdcApply *call)
{
	return call->reg.rule.exists && !call->reg.rule.isnull[RULE_STAGING_NAME] &&
		!OidIsValid(cdc_rule_recorded_staging(&call->reg, NoLock, true));
}

/* Where a call that ended in an error had come to. */
static const char *
where_it_ended(const CdcApply *call)
{
	if (call->target_rel == NULL)
		return "target";
	if (call->rule.target == InvalidOid && call->args.isnull[CDC_ARG_STAGING] && is_staging_lost(call))
		return "staging";
	if (call->rule.target == InvalidOid)
		return "rule";
	if (call->target.rel == NULL)
		return "staging";
	if (call->target.nkeys == 0 || !OidIsValid(call->target.index))
		return "key_index";
	if (!call->target.explain)
		return "target_position";
	if (call->cols.staging == NULL)
		return "tombstone_home";
	return call->cols.npos == 0 ? "staging_position" : "staging_columns";
}

/* Try how far a call comes; what it passed by is all right. */
static void
check_call(CdcCheck *c, bool with_staging)
{
	static const char *const steps[] = {"target", "rule", "staging", "key_index", "target_position",
	"tombstone_home", "staging_position", "staging_columns"};
	CdcApply   *call = palloc0(sizeof(CdcApply));
	CdcArgs    *args = &call->args;
	const char *ended = NULL;
	char	   *volatile error = NULL;
	CdcTry		try;

	c->call = call;
	call->explain = true;
	call->no_log = !with_staging;
	memset(args->isnull, true, sizeof(args->isnull));
	args->values[CDC_ARG_TARGET] = ObjectIdGetDatum(c->target);
	args->isnull[CDC_ARG_TARGET] = false;
	args->values[CDC_ARG_STAGING] = ObjectIdGetDatum(with_staging ? c->staging : InvalidOid);
	args->isnull[CDC_ARG_STAGING] = with_staging && !OidIsValid(c->staging);
	args->values[CDC_ARG_ON_SCHEMA_CHANGE] = CStringGetTextDatum("ignore");
	args->isnull[CDC_ARG_ON_SCHEMA_CHANGE] = false;
	args->values[CDC_ARG_DRY_RUN] = BoolGetDatum(true);
	args->isnull[CDC_ARG_DRY_RUN] = false;

	begin_try(c, &try);
	PG_TRY();
	{
		List	   *fed;

		(void) cdc_call_open(call, &fed);
		for (int i = 0; with_staging && i < lengthof(steps); i++)
			tell(c, steps[i], true, NULL, NULL);
		if (with_staging)
		{
			check_sides(c);
			check_conversions(c);
			relation_close(call->staging_rel, NoLock);
		}
		table_close(call->target_rel, NoLock);
		cdc_try_end(&try);
	}
	PG_CATCH();
	{
		error = cdc_try_caught(&try, NULL);
	}
	PG_END_TRY();

	if (error != NULL)
		ended = where_it_ended(call);
	c->described = error == NULL || strncmp(ended, "staging_", 8) == 0;
	c->mapped = with_staging && error == NULL;
	if (error == NULL)
		return;
	for (int i = 0; i < lengthof(steps); i++)
	{
		if (strcmp(steps[i], ended) == 0)
		{
			tell(c, steps[i], false, error, try.hint != NULL || strcmp(ended, "staging") != 0 ? try.hint :
				 "make it again, or name another one: cdc_attach(target, staging)");
			break;
		}
		if (with_staging)
			tell(c, steps[i], true, NULL, NULL);
	}
	/* the target can be looked at without staging */
	if (with_staging && strcmp(ended, "staging") == 0)
		check_call(c, false);
}

/* ---------- what is asked of the data ---------- */

/* Tell the answer; where there is none, what to do of it is no hint. */
static void
tell_answer(CdcCheck *c, const char *name, const CdcTry *try, const char *answer, const char *error,
			const char *hint)
{
	if (error != NULL)
		tell(c, name, false, psprintf("could not be answered: %s", error), try->hint);
	else
		tell(c, name, answer == NULL, answer, hint);
}

/*
 * Ask a query that gives one text, NULL when all is right.  It may name $1, the
 * target.
 */
static void
ask(CdcCheck *c, const char *name, const char *sql, const char *hint)
{
	char	   *volatile detail = NULL;
	char	   *volatile error = NULL;
	CdcTry		try;

	begin_try(c, &try);
	PG_TRY();
	{
		Oid			type = REGCLASSOID;
		Datum		value = ObjectIdGetDatum(c->target);

		SPI_connect();
		if (SPI_execute_with_args(sql, 1, &type, &value, NULL, true, 1) == SPI_OK_SELECT && SPI_processed == 1)
		{
			char	   *text = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

			if (text != NULL)
				detail = MemoryContextStrdup(try.context, text);
		}
		SPI_finish();
		cdc_try_end(&try);
	}
	PG_CATCH();
	{
		error = cdc_try_caught(&try, NULL);
	}
	PG_END_TRY();
	tell_answer(c, name, &try, detail, error, hint);
}

/* Rows of the target that the law cannot weigh, or that a tombstone denies. */
static void
ask_target(CdcCheck *c)
{
	const CdcTarget *target = &c->call->target;
	const char *schema = cdc_sql_schema();

	/* what the floor covers is decided, position or not */
	if (c->call->reg.horizon.floor.len > 0)
		tell(c, "rows_without_position", true, NULL, NULL);
	else
		ask(c, "rows_without_position",
		psprintf("SELECT CASE WHEN count(*) > 0 THEN format('%%s live rows have no position: any event is newer than they are', count(*)) END "
				 "FROM %s WHERE NOT %s.cdc_supersedes(%s, NULL)%s%s", cdc_quoted_relation(target->relid), schema,
				 cdc_sql_position(target), target->tomb_attno != 0 ? " AND NOT " : "",
				 target->tomb_attno != 0 ? psprintf("(%s)", cdc_sql_dead(target)) : ""),
		"cdc_attach(.., as_of => P) if the content is complete up to a safe position P; else replay the log");
	if (target->marks_attno != 0)
	{
		const char *marks = quote_identifier(get_attname(target->relid, target->marks_attno, false));

		ask(c, "values_unknown",
			psprintf("SELECT CASE WHEN count(*) > 0 THEN format('%%s values of live rows are still to come, one is of column \"%%s\"', count(*), min(key)) END "
					 "FROM %s t, jsonb_each(t.%s) WHERE jsonb_typeof(value) = 'array'%s%s", cdc_quoted_relation(target->relid), marks,
					 target->tomb_attno != 0 ? " AND NOT " : "", target->tomb_attno != 0 ? psprintf("(%s)", cdc_sql_dead(target)) : ""),
			"deliver the events that carry them; jsonb_each() of the column that column_positions names tells which");
	}
	ask(c, "rows_resurrected",
		psprintf("SELECT CASE WHEN count(*) > 0 THEN format('%%s rows live although %%s says that they are gone, one is %%s', count(DISTINCT key), "
				 "string_agg(DISTINCT CASE evidence WHEN 'tombstone' THEN 'their tombstone' ELSE 'the last word of staging' END, ' or '), min(key::text)) END "
				 "FROM %s.cdc_find_resurrected($1%s)", schema,
				 !c->mapped ? ", source => $1" :
				 OidIsValid(c->staging) ? psprintf(", %u::oid::regclass", c->staging) : ""),
		"cdc_find_resurrected() names them; find the writer, and turn the guard on");
}

/* Deletes that are no events, since they carry nothing that the filter asks for. */
static void
ask_filter(CdcCheck *c)
{
	const char *filter = c->call->rule.staging_filter;
	char	   *volatile detail = NULL;
	char	   *volatile error = NULL;
	CdcTry		try;

	if (filter != NULL)
	{
		begin_try(c, &try);
		PG_TRY();
		{
			char	   *example;
			int64		deletes = cdc_filtered_deletes(c->target, c->staging, filter, &example);

			if (deletes > 0)
				detail = psprintf("%lld deletes are left out since staging_filter is NULL for them, one is %s",
								  (long long) deletes, example);
			cdc_try_end(&try);
		}
		PG_CATCH();
		{
			error = cdc_try_caught(&try, NULL);
		}
		PG_END_TRY();
	}
	tell_answer(c, "deletes_filtered", &try, detail, error,
				"a delete may carry only its key: let NULL through, as by IS NOT TRUE instead of NOT");
}

/* The events, judged one by one. */
static void
ask_events(CdcCheck *c)
{
	char	   *events = psprintf("%s.cdc_explain($1, %s, on_tie => 'error', on_schema_change => 'ignore')",
								  cdc_sql_schema(), OidIsValid(c->staging) ? psprintf("%u::oid::regclass", c->staging) : "NULL");
	CdcHorizon *horizon = &c->call->reg.horizon;
	static const struct
	{
		const char *name;
		const char *where;
		const char *what;
		const char *hint;
	}			questions[] = {
		{"events_without_position", "reason LIKE 'no position%'", "events have no position",
		"staging_position says where it stands; only snapshot rows may lack it"},
		{"events_tied", "reason LIKE 'different events of one key share a position%'",
			"events share the position of another event of their key, and differ from it",
		"add an ordinal to the position, such as the change's number in its transaction"},
		{"events_refused", "reason NOT LIKE 'no position%' AND reason NOT LIKE 'different events of one key share a position%'",
		"events cannot be applied", "cdc_explain() names each with its reason"},
	};

	for (int i = 0; i < lengthof(questions); i++)
		ask(c, questions[i].name,
			psprintf("SELECT CASE WHEN count(*) > 0 THEN format('%%s %s; one: %%s', count(*), "
					 "min(concat_ws(', ', event_key::text, event_position::text, reason))) END "
					 "FROM %s WHERE outcome = 'error' AND %s", questions[i].what, events, questions[i].where),
			questions[i].hint);
	for (int i = 0; i < 2; i++)
	{
		const CdcPos *pos = i == 0 ? &horizon->fence : &horizon->floor;

		if (pos->len == 0)
			tell(c, i == 0 ? "fence" : "floor", true, NULL, NULL);
		else
			ask(c, i == 0 ? "fence" : "floor",
				psprintf("SELECT CASE WHEN count(*) > 0 THEN format('the oldest staged event is at %%s; %%s events stand at or below the %s %s', "
						 "%s.min(event_position), count(*)) END FROM %s WHERE outcome <> 'error' AND "
						 "event_position OPERATOR(%s.<=) %s::%s.cdc_position", i == 0 ? "fence" : "floor",
						 cdc_pos_text(pos->bytes, pos->len), cdc_sql_schema(), events, cdc_sql_schema(),
						 quote_literal_cstr(cdc_pos_text(pos->bytes, pos->len)), cdc_sql_schema()),
				i == 0 ? "right for a replay of what was purged; for late events lower it (cdc_set_fence)" :
				"right for what the content holds already; else lower it (cdc_set_floor)");
	}
	/* a record position does not say that all below it is in a snapshot */
	if (c->call->rule.snapshot_position == CDC_SNAPSHOT_EVENT)
		ask(c, "record_positions",
			psprintf("SELECT CASE WHEN count(*) > 0 THEN format('%%s snapshot rows use their position; if LSNs are those of single changes, "
					 "a transaction open at the snapshot has lower ones', count(*)) END FROM %s "
					 "WHERE lower(trim(op)) IN ('r', 'read', 'snapshot') AND %s.cdc_position_lsn(event_position) IS NOT NULL",
					 events, cdc_sql_schema()),
			"snapshot_position => 'none', unless positions are those of commits");
	else
		tell(c, "record_positions", true, NULL, NULL);
}

/* What stands around the target. */
static void
ask_catalogs(CdcCheck *c)
{
	const CdcTarget *target = &c->call->target;

	ask(c, "foreign_keys_cascade",
		"SELECT string_agg(format('%I on %s', conname, conrelid::regclass), ', ' ORDER BY conname) FROM pg_constraint "
		"WHERE contype = 'f' AND conrelid = $1 AND (confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'))",
		"a cascade writes to the target past the law: let the feed bring the children's changes, with ON DELETE NO ACTION");
	ask(c, "foreign_keys_order",
		"SELECT string_agg(format('%I on %s', conname, conrelid::regclass), ', ' ORDER BY conname) FROM pg_constraint "
		"WHERE contype = 'f' AND (conrelid = $1 OR confrelid = $1) AND NOT condeferrable AND conparentid = 0",
		"cdc_apply_all() applies targets of one owner together and checks at the end; else make it DEFERRABLE (ALTER TABLE .. ALTER CONSTRAINT) and apply both in one transaction");
	if (target->tomb_attno != 0)
		ask(c, "dependents",
			psprintf("SELECT 'they show dead rows: ' || string_agg(DISTINCT r.ev_class::regclass::text, ', ') FROM pg_depend d "
					 "JOIN pg_rewrite r ON r.oid = d.objid WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass "
					 "AND d.refobjid = $1 AND r.ev_class <> $1 AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = d.classid "
					 "AND e.objid = d.objid AND e.refobjid = $1 AND e.refobjsubid = %d)", target->tomb_attno),
			"filter their rows by the tombstone column, or let them read the live view");
	else
		tell(c, "dependents", true, NULL, NULL);
}

static void
check_target(CdcCheck *c)
{
	check_call(c, true);
	if (c->call->target_rel == NULL || c->call->rule.target == InvalidOid)
		return;
	check_attachment(c);
	if (c->described)
		ask_target(c);
	if (c->mapped)
	{
		ask_filter(c);
		ask_events(c);
	}
	if (c->described)
		ask_catalogs(c);
}

/*
 * One of all targets: as its owner where the caller may become him, as
 * cdc_apply_all() applies it, so that who looks at everybody's targets lends
 * nobody's views and expressions his rights.
 */
static void
check_one_of_all(CdcCheck *c)
{
	Oid			owner = cdc_owner_of(c->target);
	Oid			userid;
	int			context;
	int			nest_level;

	GetUserIdAndSecContext(&userid, &context);
	if (owner == userid || !OidIsValid(owner) || !cdc_can_become(userid, owner))
	{
		check_target(c);
		return;
	}
	SetUserIdAndSecContext(owner, context | SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();
	cdc_restrict_search_path();
	check_target(c);
	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(userid, context);
}

Datum
cdc_check(PG_FUNCTION_ARGS)
{
	CdcCheck	c = {.about = ""};
	MemoryContext context;
	MemoryContext old;
	List	   *targets = NIL;
	ListCell   *lc;

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	InitMaterializedSRF(fcinfo, 0);
	PreventCommandIfParallelMode("cdc_check()");
	c.result = (ReturnSetInfo *) fcinfo->resultinfo;
	context = AllocSetContextCreate(CurrentMemoryContext, "cdc_check", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	c.staging = PG_ARGISNULL(1) ? InvalidOid : PG_GETARG_OID(1);
	if (!PG_ARGISNULL(0))
		targets = list_make1_oid(PG_GETARG_OID(0));
	else
	{
		if (OidIsValid(c.staging))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("staging is given without target")));
		foreach(lc, cdc_registry_all())
		{
			CdcRegistered *row = lfirst(lc);

			/* as in cdc_targets: those that the caller may read */
			if (row->attached && get_rel_name(row->target) != NULL &&
				pg_class_aclcheck(row->target, GetUserId(), ACL_SELECT) == ACLCHECK_OK)
				targets = lappend_oid(targets, row->target);
		}
	}
	PushActiveSnapshot(GetTransactionSnapshot());
	foreach(lc, targets)
	{
		CHECK_FOR_INTERRUPTS();
		c.target = lfirst_oid(lc);
		if (!PG_ARGISNULL(0))
		{
			check_target(&c);
			continue;
		}
		c.about = cdc_quoted_relation(c.target);
		check_one_of_all(&c);
	}
	PopActiveSnapshot();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return (Datum) 0;
}
