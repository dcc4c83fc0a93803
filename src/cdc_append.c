/*-------------------------------------------------------------------------
 *
 * cdc_append.c
 *		Append-only tables: cdc_make_append_only() and its trigger, which
 *		refuses UPDATE, DELETE and TRUNCATE to everybody.
 *
 * A statement trigger refuses a statement that could change rows, whether it
 * finds any or not, so that a writer is found out at its first run.  It stands
 * on the table and on every table below it, for each can be named by itself.  A
 * row trigger is for what fires no statement trigger: changes of a logical
 * replication worker, and partitions that come later, which get it from their
 * parent.
 *
 * The owner is bound, too, but for cdc_precedence.bypass_guard.
 *
 * Locks: SHARE ROW EXCLUSIVE on the tables to make the triggers, ACCESS
 * EXCLUSIVE to drop them, none where nothing is to be done; then the apply
 * lock of the table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "cdc_attach.h"
#include "cdc_guard.h"
#include "cdc_history.h"

/* what the two triggers are called */
#define CDC_APPEND_TRIGGER		"zzz_cdc_append_only"
#define CDC_APPEND_ROW_TRIGGER	"zzz_cdc_append_only_row"

PG_FUNCTION_INFO_V1(cdc_make_append_only);
PG_FUNCTION_INFO_V1(cdc_append_only);

/* ---------- the trigger ---------- */

Datum
cdc_append_only(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	const char *what;
	Relation	rel;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by trigger manager", "cdc_append_only")));
	if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired BEFORE UPDATE, DELETE or TRUNCATE",
						"cdc_append_only"),
				 errhint("cdc_make_append_only() makes the triggers.")));
	rel = trigger->tg_relation;
	if (!cdc_bypass_guard || !cdc_owns_relation(RelationGetRelid(rel), GetUserId()))
	{
		what = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? "update of" :
			TRIGGER_FIRED_BY_DELETE(trigger->tg_event) ? "delete from" : "truncate of";
		ereport(ERROR,
				(errcode(ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION),
				 errmsg("%s \"%s\" refused: it is append-only", what, cdc_relation_name(rel)),
				 errdetail("Rows are added to it, and none is changed or removed."),
				 errhint("Add a row with another version; the table's owner can set cdc_precedence.bypass_guard."),
				 errtable(rel)));
	}
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple :
						   trigger->tg_trigtuple);
}

/* ---------- the triggers of a table ---------- */

/* The trigger function, or 0 while the extension is being dropped. */
static Oid
append_function(void)
{
	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum("cdc_append_only"),
						   PointerGetDatum(buildoidvector(NULL, 0)),
						   ObjectIdGetDatum(cdc_extension_schema()));
}

/* Is there a trigger that refuses changes, by whatever name? */
static bool
is_append_only(Relation rel)
{
	TriggerDesc *triggers = rel->trigdesc;
	Oid			function = triggers != NULL ? append_function() : InvalidOid;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (triggers->triggers[i].tgfoid == function)
			return true;
	return false;
}

/* Events update and delete rows. */
void
cdc_refuse_append_only(Relation rel)
{
	if (!is_append_only(rel))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("target \"%s\" is append-only", cdc_relation_name(rel)),
			 errdetail("Events update and delete rows, which its triggers refuse."),
			 errhint("Apply to another table; or, as the owner, use %s(%s, undo => true).",
					 cdc_function_name("cdc_make_append_only"),
					 quote_literal_cstr(cdc_quoted_relation(RelationGetRelid(rel))))));
}

/* The trigger of that name, or NULL; with refuse, one of somebody's own is an error. */
static Trigger *
find_ours(Relation rel, const char *name, bool refuse)
{
	TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];

		if (strcmp(trigger->tgname, name) != 0)
			continue;
		if (trigger->tgfoid == append_function())
			return trigger;
		if (refuse)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("table \"%s\" has another trigger \"%s\"", cdc_relation_name(rel), name),
					 errhint("Rename that trigger.")));
	}
	return NULL;
}

/* A partition's row trigger is its parent's. */
static bool
has_own_row_trigger(Oid member, Oid root)
{
	return member == root || !get_rel_relispartition(member);
}

typedef struct Wanted
{
	const char *name;
	const char *events;
	const char *level;
	bool		any_partition;	/* also of partitions below the table */
} Wanted;

static const Wanted wanted[] = {
	{CDC_APPEND_TRIGGER, "BEFORE UPDATE OR DELETE OR TRUNCATE", "STATEMENT", true},
	{CDC_APPEND_ROW_TRIGGER, "BEFORE UPDATE OR DELETE", "ROW", false},
};

/*
 * Make or drop the triggers of one table of the family; with look only say
 * whether there is anything to do.
 */
static bool
set_member(Oid relid, Oid root, bool undo, bool look)
{
	bool		change = false;

	for (int i = 0; i < lengthof(wanted); i++)
	{
		Relation	rel = table_open(relid, look ? AccessShareLock : NoLock);
		Trigger    *trigger = find_ours(rel, wanted[i].name, !undo);
		bool		mine = wanted[i].any_partition || has_own_row_trigger(relid, root);
		bool		todo = undo ? trigger != NULL && !trigger->tgisclone :
			mine && (trigger == NULL || trigger->tgenabled != TRIGGER_FIRES_ALWAYS);
		char	   *table = cdc_quoted_relation(relid);

		/* utility statements want the table closed; its lock stays with us */
		table_close(rel, look ? AccessShareLock : NoLock);
		change |= todo;
		if (!todo || look)
			continue;
		if (undo)
			cdc_ddl("DROP TRIGGER %s ON %s", wanted[i].name, table);
		else
		{
			cdc_ddl("CREATE OR REPLACE TRIGGER %s %s ON %s FOR EACH %s EXECUTE FUNCTION %s()",
					wanted[i].name, wanted[i].events, table, wanted[i].level,
					quote_qualified_identifier(get_namespace_name(cdc_extension_schema()),
											   "cdc_append_only"));
			/* session_replication_role and replication workers are no way past it */
			cdc_ddl("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", table, wanted[i].name);
		}
	}
	return change;
}

/* The same for the table and all tables below it, but for foreign ones. */
static bool
set_family(Oid relid, bool undo, bool look)
{
	List	   *members = find_all_inheritors(relid, look ? AccessShareLock : undo ?
											  AccessExclusiveLock : ShareRowExclusiveLock, NULL);
	bool		change = false;
	ListCell   *lc;

	foreach(lc, members)
	{
		char		kind = get_rel_relkind(lfirst_oid(lc));

		if (kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE)
			change |= set_member(lfirst_oid(lc), relid, undo, look);
	}
	return change;
}

/* ---------- the call ---------- */

static void
check_table(Relation rel)
{
	char		kind = rel->rd_rel->relkind;

	if ((kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE) || IsSystemRelation(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot be made append-only", cdc_relation_name(rel)),
				 errdetail("Ordinary and partitioned tables can.")));
}

/* Half of what binds a partition is its parent's. */
static void
check_no_clone(Relation rel)
{
	Trigger    *trigger = find_ours(rel, CDC_APPEND_ROW_TRIGGER, false);

	if (trigger != NULL && trigger->tgisclone)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is a partition of an append-only table", cdc_relation_name(rel)),
				 errhint("Undo it for that table.")));
}

/* What an apply or a purge must change cannot be kept from changes. */
static void
check_not_attached(Relation rel)
{
	Oid			relid = RelationGetRelid(rel);
	CdcRegistration reg;

	cdc_registry_read(relid, &reg);
	if (reg.rule.exists || OidIsValid(cdc_registry_attached_ancestor(relid)) ||
		OidIsValid(cdc_registry_attached_partition(relid)) ||
		OidIsValid(cdc_registry_side_table_of(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" belongs to an attached target", cdc_relation_name(rel)),
				 errdetail("Events update and delete its rows."),
				 errhint("Keep what is only added to in a table of its own; or cdc_detach() the target.")));
}

/* Nor can the versions of a history: a late event changes them. */
static void
check_no_history(Relation rel)
{
	CdcHistoryRecord record;

	cdc_history_read_record(RelationGetRelid(rel), false, &record);
	if (record.exists || OidIsValid(cdc_history_of_events(RelationGetRelid(rel))))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" belongs to a history", cdc_relation_name(rel)),
				 errdetail("Events update and delete its rows."),
				 errhint("Grant UPDATE and DELETE on the history to nobody but the role that calls cdc_apply_history().")));
}

Datum
cdc_make_append_only(PG_FUNCTION_ARGS)
{
	bool		undo = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	Oid			relid;
	Relation	rel;
	bool		todo;

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	PreventCommandIfReadOnly("cdc_make_append_only()");
	PreventCommandIfParallelMode("cdc_make_append_only()");
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("relation must not be NULL")));
	relid = PG_GETARG_OID(0);
	rel = cdc_attach_open(relid, AccessShareLock);
	check_table(rel);
	if (undo)
		check_no_clone(rel);
	todo = set_family(relid, undo, true);
	relation_close(rel, AccessShareLock);
	if (!todo)
		PG_RETURN_VOID();

	/* the lock that the statements will want, at once */
	rel = cdc_attach_open(relid, undo ? AccessExclusiveLock : ShareRowExclusiveLock);
	check_table(rel);
	if (!undo)
	{
		(void) cdc_target_lock(relid, ExclusiveLock, false);
		check_not_attached(rel);
		check_no_history(rel);
	}
	relation_close(rel, NoLock);
	(void) set_family(relid, undo, false);
	PG_RETURN_VOID();
}
