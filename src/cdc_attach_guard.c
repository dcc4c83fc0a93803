/*-------------------------------------------------------------------------
 *
 * cdc_attach_guard.c
 *		The guard's triggers on a target: made, changed and dropped as the
 *		attachment says.  What they do is in cdc_guard.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "cdc_attach.h"

/* The names put them after other BEFORE triggers, which may change the row. */
#define CDC_GUARD_TRIGGER			"zzz_cdc_guard"
#define CDC_GUARD_TRUNCATE_TRIGGER	"zzz_cdc_guard_truncate"

/* The trigger function, or 0 while the extension is being dropped. */
static Oid
guard_function(void)
{
	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum("cdc_guard"),
						   PointerGetDatum(buildoidvector(NULL, 0)),
						   ObjectIdGetDatum(cdc_extension_schema()));
}

static Trigger *
find_trigger(Relation rel, const char *name)
{
	TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (strcmp(triggers->triggers[i].tgname, name) == 0)
			return &triggers->triggers[i];
	return NULL;
}

static bool
is_set(const Trigger *trigger, const char *mode)
{
	return trigger != NULL && trigger->tgenabled == TRIGGER_FIRES_ALWAYS &&
		trigger->tgnargs == 1 && strcmp(trigger->tgargs[0], mode) == 0;
}

/* The guard's trigger of that name, or NULL; one of somebody's own does not count. */
static Trigger *
find_guard(Relation rel, const char *name)
{
	Trigger    *trigger = find_trigger(rel, name);

	return trigger != NULL && trigger->tgfoid == guard_function() ? trigger : NULL;
}

/* A trigger that is somebody's own would be replaced. */
static void
check_name(Relation rel, const char *name)
{
	if (find_trigger(rel, name) == NULL || find_guard(rel, name) != NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("table \"%s\" has a trigger \"%s\" that is not the guard's",
					cdc_relation_name(rel), name),
			 errhint("Rename that trigger.")));
}

/* ---------- foreign keys that write ---------- */

static bool
writes(char action)
{
	return action == FKCONSTR_ACTION_CASCADE || action == FKCONSTR_ACTION_SETNULL ||
		action == FKCONSTR_ACTION_SETDEFAULT;
}

/* The name of a foreign key of relid whose actions write to it, or NULL. */
static char *
writing_foreign_key(Oid relid)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	char	   *found = NULL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, ConstraintRelidTypidNameIndexId, true, NULL, 1, &key);
	while (found == NULL && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint con = (Form_pg_constraint) GETSTRUCT(tuple);

		if (con->contype == CONSTRAINT_FOREIGN &&
			(writes(con->confupdtype) || writes(con->confdeltype)))
			found = pstrdup(NameStr(con->conname));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

static void
refuse_writing_foreign_keys(Relation rel)
{
	List	   *members = list_make1_oid(RelationGetRelid(rel));
	ListCell   *lc;

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		members = find_all_inheritors(RelationGetRelid(rel), NoLock, NULL);
	foreach(lc, members)
	{
		char	   *name = writing_foreign_key(lfirst_oid(lc));

		if (name != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("guard => 'skip' cannot be used on target \"%s\"",
							cdc_relation_name(rel)),
					 errdetail("Foreign key \"%s\" changes its rows; a change that is skipped would leave the key broken.",
							   name),
					 errhint("Use guard => 'error'.")));
	}
}

/* ---------- the triggers ---------- */

/*
 * The target and its partitions that are tables.  Row triggers of a
 * partitioned table are cloned to its partitions; those on TRUNCATE are not,
 * so each gets its own.
 */
static List *
truncatable(Oid relid)
{
	List	   *members = find_all_inheritors(relid, AccessShareLock, NULL);
	List	   *tables = NIL;
	ListCell   *lc;

	foreach(lc, members)
	{
		char		kind = get_rel_relkind(lfirst_oid(lc));

		if (kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE)
			tables = lappend_oid(tables, lfirst_oid(lc));
	}
	return tables;
}

/* Does every table that can be truncated have its trigger?  *any: does one? */
static bool
truncate_is_set(Oid relid, const char *mode, bool *any)
{
	bool		all = true;
	List	   *tables = truncatable(relid);
	ListCell   *lc;

	*any = false;
	foreach(lc, tables)
	{
		Relation	rel = table_open(lfirst_oid(lc), NoLock);
		Trigger    *trigger = find_guard(rel, CDC_GUARD_TRUNCATE_TRIGGER);

		*any |= trigger != NULL;
		if (mode != NULL)
			check_name(rel, CDC_GUARD_TRUNCATE_TRIGGER);
		all &= mode != NULL && is_set(trigger, mode);
		table_close(rel, NoLock);
	}
	return all;
}

bool
cdc_attach_guard_exists(Relation rel)
{
	bool		any;

	(void) truncate_is_set(RelationGetRelid(rel), NULL, &any);
	return any || find_guard(rel, CDC_GUARD_TRIGGER) != NULL;
}

/* What must be done to the triggers. */
void
cdc_attach_plan_guard(CdcAttach *a)
{
	bool		given = a->guard != NULL;
	Trigger    *row;
	bool		any;

	a->create_guard = a->drop_guard = false;
	/* a partition that came later may lack its trigger */
	if (a->guard == NULL && a->reg.rule.exists)
		a->guard = TextDatumGetCString(a->reg.rule.values[RULE_GUARD]);
	/* nor is one that is there, from a restore without the rule, left alone */
	if (a->guard == NULL && (row = find_guard(a->rel, CDC_GUARD_TRIGGER)) != NULL &&
		!row->tgisclone && row->tgnargs == 1)
		a->guard = pstrdup(row->tgargs[0]);
	if (a->guard == NULL)
		return;
	if (strcmp(a->guard, "off") == 0)
	{
		a->drop_guard = cdc_attach_guard_exists(a->rel);
		return;
	}
	check_name(a->rel, CDC_GUARD_TRIGGER);
	if (given && strcmp(a->guard, "skip") == 0)
		refuse_writing_foreign_keys(a->rel);
	a->create_guard = !truncate_is_set(a->relid, a->guard, &any) ||
		!is_set(find_guard(a->rel, CDC_GUARD_TRIGGER), a->guard);
}

static void
create_trigger(CdcAttach *a, Oid relid, const char *name, const char *events)
{
	char	   *table = cdc_quoted_relation(relid);

	cdc_ddl("CREATE OR REPLACE TRIGGER %s %s ON %s FOR EACH %s EXECUTE FUNCTION %s(%s)",
			name, events, table, strcmp(name, CDC_GUARD_TRIGGER) == 0 ? "ROW" : "STATEMENT",
			quote_qualified_identifier(get_namespace_name(cdc_extension_schema()), "cdc_guard"),
			quote_literal_cstr(a->guard));
	/* a logical replication worker's writes are guarded too */
	cdc_ddl("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", table, name);
}

void
cdc_attach_set_guard(CdcAttach *a)
{
	List	   *tables;
	ListCell   *lc;

	if (a->drop_guard)
		cdc_attach_drop_guard(a->relid);
	if (!a->create_guard)
		return;
	create_trigger(a, a->relid, CDC_GUARD_TRIGGER, "BEFORE INSERT OR UPDATE OR DELETE");
	tables = truncatable(a->relid);
	foreach(lc, tables)
		create_trigger(a, lfirst_oid(lc), CDC_GUARD_TRUNCATE_TRIGGER, "BEFORE TRUNCATE");
}

static void
drop_trigger(Oid relid, const char *name)
{
	Relation	rel = table_open(relid, NoLock);
	Trigger    *trigger = find_guard(rel, name);
	/* a clone belongs to the partitioned table's trigger */
	bool		exists = trigger != NULL && !trigger->tgisclone;

	table_close(rel, NoLock);
	if (exists)
		cdc_ddl("DROP TRIGGER %s ON %s", name, cdc_quoted_relation(relid));
}

/* Drop those that exist. */
void
cdc_attach_drop_guard(Oid relid)
{
	List	   *tables = truncatable(relid);
	ListCell   *lc;

	drop_trigger(relid, CDC_GUARD_TRIGGER);
	foreach(lc, tables)
		drop_trigger(lfirst_oid(lc), CDC_GUARD_TRUNCATE_TRIGGER);
}
