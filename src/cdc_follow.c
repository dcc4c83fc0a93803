/*-------------------------------------------------------------------------
 *
 * cdc_follow.c
 *		Event triggers that keep the registry right: renamed columns, new
 *		owners and drops of targets, side tables and live views.
 *
 * They act on what the server says was altered or dropped, and on nothing
 * else.  The registry is written directly; statements on side tables and views
 * run as whoever ran the command that is followed, and only where he may, so
 * that no registry row can lend anybody a right.  Commands of no interest are
 * told by their parse tree, before anything is read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "commands/event_trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "cdc_consume.h"
#include "cdc_history.h"

PG_FUNCTION_INFO_V1(cdc_follow_alter);
PG_FUNCTION_INFO_V1(cdc_follow_drop);

/* ---------- what the server says ---------- */

static EventTriggerData *
event_data(FunctionCallInfo fcinfo, const char *function)
{
	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s was not called by an event trigger", function)));
	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	return (EventTriggerData *) fcinfo->context;
}

/* The relations that a function of the event trigger interface reports. */
static List *
reported_relations(const char *function)
{
	MemoryContext caller = CurrentMemoryContext;
	List	   *relations = NIL;

	SPI_connect();
	if (SPI_execute(psprintf("SELECT classid, objid, objsubid FROM pg_catalog.%s()", function),
					false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call %s", function);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull[3];
		Datum		values[3];

		for (int c = 0; c < 3; c++)
			values[c] = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, c + 1,
									  &isnull[c]);
		if (!isnull[0] && !isnull[1] && DatumGetObjectId(values[0]) == RelationRelationId)
		{
			MemoryContext old = MemoryContextSwitchTo(caller);

			/* a dropped or altered column is not the table */
			if (strcmp(function, "pg_event_trigger_dropped_objects") != 0 ||
				DatumGetInt32(values[2]) == 0)
				relations = lappend_oid(relations, DatumGetObjectId(values[1]));
			MemoryContextSwitchTo(old);
		}
	}
	SPI_finish();
	return relations;
}

/* ---------- renamed columns ---------- */

/*
 * What a recorded column is called now, NULL if that is what the record says.
 * A name that is there is right; *attno becomes its number.  Else the number
 * tells the name, unless its column was dropped.
 */
static char *
follow_name(Oid target, const char *name, AttrNumber *attno)
{
	AttrNumber	now = get_attnum(target, name);

	if (now > 0)
	{
		*attno = now;
		return NULL;
	}
	if (*attno <= 0 || !OidIsValid(get_atttype(target, *attno)))
		return NULL;
	return get_attname(target, *attno, true);
}

/* Bring a name[] of a registry row and its int2[] of numbers up to date. */
static bool
follow_list(CdcRecord *record, int names, int attnums, Oid target)
{
	List	   *list;
	Datum	   *elems;
	bool	   *nulls;
	int			n;
	bool		changed = false;
	ListCell   *lc;

	if (record->isnull[names] || record->isnull[attnums])
		return false;
	list = cdc_registry_name_list(record->values[names]);
	deconstruct_array(DatumGetArrayTypeP(record->values[attnums]), INT2OID, 2, true,
					  TYPALIGN_SHORT, &elems, &nulls, &n);
	foreach(lc, list)
	{
		int			i = foreach_current_index(lc);
		AttrNumber	recorded = i < n && !nulls[i] ? DatumGetInt16(elems[i]) : 0;
		AttrNumber	attno = recorded;
		char	   *name = follow_name(target, lfirst(lc), &attno);

		changed |= name != NULL || attno != recorded;
		if (name != NULL)
			lfirst(lc) = name;
	}
	if (changed)
	{
		record->values[names] = cdc_registry_names(list);
		record->values[attnums] = cdc_registry_attnums(target, list);
	}
	return changed;
}

static bool
follow_tombstone(CdcRecord *rule, Oid target)
{
	AttrNumber	recorded;
	AttrNumber	attno;
	char	   *name;
	Name		copy;

	if (rule->isnull[RULE_TOMBSTONE_COLUMN])
		return false;
	recorded = rule->isnull[RULE_TOMBSTONE_ATTNUM] ? 0 :
		DatumGetInt16(rule->values[RULE_TOMBSTONE_ATTNUM]);
	attno = recorded;
	name = follow_name(target, NameStr(*DatumGetName(rule->values[RULE_TOMBSTONE_COLUMN])),
					   &attno);
	if (name == NULL && attno == recorded)
		return false;
	rule->values[RULE_TOMBSTONE_ATTNUM] = Int16GetDatum(attno);
	rule->isnull[RULE_TOMBSTONE_ATTNUM] = false;
	if (name != NULL)
	{
		copy = palloc0(sizeof(NameData));
		namestrcpy(copy, name);
		rule->values[RULE_TOMBSTONE_COLUMN] = NameGetDatum(copy);
	}
	return true;
}

/* The column of column_positions is recorded by its name alone. */
static bool
follow_marks(CdcRecord *rule, Oid target, const RenameStmt *stmt)
{
	Name		copy;

	if (rule->isnull[RULE_COLUMN_POSITIONS] ||
		strcmp(NameStr(*DatumGetName(rule->values[RULE_COLUMN_POSITIONS])), stmt->subname) != 0 ||
		get_attnum(target, stmt->subname) > 0 || get_attnum(target, stmt->newname) <= 0)
		return false;
	copy = palloc0(sizeof(NameData));
	namestrcpy(copy, stmt->newname);
	rule->values[RULE_COLUMN_POSITIONS] = NameGetDatum(copy);
	return true;
}

static void
follow_names(Oid target, const RenameStmt *stmt)
{
	CdcRegistration reg;
	bool		changed;

	/* who drops the side table writes the row, too */
	(void) cdc_target_lock(target, ExclusiveLock, false);
	cdc_registry_read_now(target, &reg);
	if (reg.rule.exists)
	{
		changed = follow_list(&reg.rule, RULE_KEY_COLUMNS, RULE_KEY_ATTNUMS, target);
		changed |= follow_list(&reg.rule, RULE_POSITION_COLUMNS, RULE_POSITION_ATTNUMS, target);
		changed |= follow_tombstone(&reg.rule, target);
		changed |= follow_marks(&reg.rule, target, stmt);
		if (changed)
			cdc_registry_put_rule(&reg);
	}
	if (reg.state.exists &&
		follow_list(&reg.state, STATE_FED_COLUMNS, STATE_FED_ATTNUMS, target))
		cdc_registry_put_state(&reg);
}

/* A side table has the key's column names. */
static void
follow_key_name(Oid target, Oid side, const char *from, const char *to)
{
	if (!cdc_is_side_shaped(side) || get_attnum(side, from) <= 0 || cdc_is_side_column(from))
		return;
	if (cdc_owns_relation(side, GetUserId()) && cdc_owner_of(side) == cdc_owner_of(target) &&
		cdc_lock_if_there(side, AccessExclusiveLock))
		cdc_ddl("ALTER TABLE %s RENAME COLUMN %s TO %s", cdc_quoted_relation(side),
				quote_identifier(from), quote_identifier(to));
}

static void
follow_rename(Oid relid, const RenameStmt *stmt)
{
	List	   *family = find_all_inheritors(relid, NoLock, NULL);
	ListCell   *lc;

	cdc_history_follow_rename(relid, stmt->subname, stmt->newname);
	foreach(lc, cdc_registry_all())
	{
		CdcRegistered *row = lfirst(lc);

		if (!list_member_oid(family, row->target))
			continue;
		follow_names(row->target, stmt);
		if (OidIsValid(row->tombstones))
			follow_key_name(row->target, row->tombstones, stmt->subname, stmt->newname);
	}
}

/* ---------- a new owner ---------- */

/* Give what belongs to a target to its owner, if the caller can. */
static void
follow_owner_of(Oid target, Oid relid)
{
	Oid			owner = cdc_owner_of(target);

	if (!OidIsValid(owner) || !OidIsValid(cdc_owner_of(relid)) || cdc_owner_of(relid) == owner)
		return;
	if (cdc_owns_relation(relid, GetUserId()) &&
		(superuser() ||
		 cdc_schema_aclcheck(get_rel_namespace(relid), owner, ACL_CREATE) == ACLCHECK_OK))
	{
		if (cdc_lock_if_there(relid, AccessExclusiveLock))
			cdc_give_to(relid, owner);
	}
	else if (cdc_lock_if_there(relid, AccessShareLock))
		ereport(WARNING,
				(errmsg("\"%s\" keeps its owner, although it belongs to \"%s\"",
						get_rel_name(relid), get_rel_name(target)),
				 errhint("ALTER TABLE %s OWNER TO %s;", cdc_quoted_relation(relid),
						 quote_identifier(GetUserNameFromId(owner, false)))));
}

static void
follow_owner(Oid relid)
{
	CdcHistoryRecord history;
	ListCell   *lc;

	cdc_history_read_record(relid, false, &history);
	if (OidIsValid(history.events))
		follow_owner_of(relid, history.events);
	foreach(lc, cdc_registry_all())
	{
		CdcRegistered *row = lfirst(lc);

		if (row->target != relid)
			continue;
		if (OidIsValid(row->tombstones) && cdc_is_side_shaped(row->tombstones))
			follow_owner_of(relid, row->tombstones);
		if (OidIsValid(row->live_view) && get_rel_relkind(row->live_view) == RELKIND_VIEW)
			follow_owner_of(relid, row->live_view);
	}
}

static bool
changes_owner(const AlterTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
		if (lfirst_node(AlterTableCmd, lc)->subtype == AT_ChangeOwner)
			return true;
	return false;
}

/*
 * At the end of ALTER TABLE: names in the registry follow a renamed column,
 * and so does the side table's; side table and view follow a new owner.
 */
Datum
cdc_follow_alter(PG_FUNCTION_ARGS)
{
	EventTriggerData *data = event_data(fcinfo, "cdc_follow_alter");
	Node	   *stmt = data->parsetree;
	bool		rename = IsA(stmt, RenameStmt) && ((RenameStmt *) stmt)->renameType == OBJECT_COLUMN;
	MemoryContext context;
	MemoryContext old;
	ListCell   *lc;

	if (!rename && !(IsA(stmt, AlterTableStmt) && changes_owner((AlterTableStmt *) stmt)))
		PG_RETURN_NULL();
	if (cdc_registry_all() == NIL && cdc_history_all() == NIL)
		PG_RETURN_NULL();

	context = AllocSetContextCreate(CurrentMemoryContext, "cdc_follow_alter",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	foreach(lc, reported_relations("pg_event_trigger_ddl_commands"))
	{
		if (rename)
			follow_rename(lfirst_oid(lc), (RenameStmt *) stmt);
		else
			follow_owner(lfirst_oid(lc));
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	PG_RETURN_NULL();
}

/* ---------- drops ---------- */

/* Is it a side table, locked as its drop needs it?  Another session may be dropping it, too. */
static bool
lock_side_table(Oid side)
{
	if (!cdc_is_side_shaped(side))
		return false;
	return cdc_lock_if_there(side, cdc_owns_relation(side, GetUserId()) ? AccessExclusiveLock :
							 AccessShareLock);
}

/* A side table goes with its target, the way the target went. */
static void
drop_side_table(Oid side, bool cascade)
{
	if (cdc_owns_relation(side, GetUserId()))
		cdc_ddl("DROP TABLE %s%s", cdc_quoted_relation(side), cascade ? " CASCADE" : "");
	else
		ereport(WARNING,
				(errmsg("table \"%s\" is left over from a target that is dropped",
						get_rel_name(side)),
				 errhint("DROP TABLE %s;", cdc_quoted_relation(side))));
}

/*
 * The registry rows of a target are written under its apply lock; the commands
 * followed here hold only what they drop.
 */
static void
forget_side_table(Oid target)
{
	CdcRegistration reg;

	(void) cdc_target_lock(target, ExclusiveLock, false);
	cdc_registry_read_now(target, &reg);
	reg.tombstones = InvalidOid;
	cdc_registry_put_state(&reg);
}

/* Does the command drop what depends on its objects, too? */
static bool
is_cascade(const Node *stmt)
{
	if (IsA(stmt, DropStmt))
		return ((const DropStmt *) stmt)->behavior == DROP_CASCADE;
	if (IsA(stmt, DropOwnedStmt))
		return ((const DropOwnedStmt *) stmt)->behavior == DROP_CASCADE;
	return false;
}

static void
follow_dropped(List *rows, List *dropped, bool cascade)
{
	List	   *sides = NIL;
	ListCell   *lc;

	foreach(lc, rows)
	{
		CdcRegistered *row = lfirst(lc);

		if (list_member_oid(dropped, row->target))
		{
			/* the side table before the apply lock, as its own drop does it */
			if (OidIsValid(row->tombstones) && !list_member_oid(dropped, row->tombstones) &&
				lock_side_table(row->tombstones))
				sides = lappend_oid(sides, row->tombstones);
			(void) cdc_target_lock(row->target, ExclusiveLock, false);
			cdc_registry_forget(row->target);
		}
		else if (OidIsValid(row->tombstones) && list_member_oid(dropped, row->tombstones))
			forget_side_table(row->target);
	}
	foreach(lc, sides)
		drop_side_table(lfirst_oid(lc), cascade);
}

/*
 * At any drop: rows of dropped targets go, and their side tables with them; a
 * dropped side table is forgotten, and how far a dropped staging relation was
 * read.  A live view that is gone counts as none.
 */
Datum
cdc_follow_drop(PG_FUNCTION_ARGS)
{
	EventTriggerData *data = event_data(fcinfo, "cdc_follow_drop");
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "cdc_follow_drop",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	List	   *rows = cdc_registry_all();

	if (rows != NIL || cdc_history_all() != NIL)
	{
		List	   *dropped = reported_relations("pg_event_trigger_dropped_objects");

		follow_dropped(rows, dropped, is_cascade(data->parsetree));
		cdc_history_follow_drop(dropped, is_cascade(data->parsetree));
	}
	cdc_bookmark_sweep();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	PG_RETURN_NULL();
}
