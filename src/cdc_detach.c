/*-------------------------------------------------------------------------
 *
 * cdc_detach.c
 *		cdc_detach(): a target's rule is forgotten; its fence, floor and epoch
 *		stay.
 *
 * Locks on the target, to the end of the transaction: ROW EXCLUSIVE, or ACCESS
 * EXCLUSIVE to drop the guard's triggers; then the apply lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "cdc_attach.h"
#include "cdc_consume.h"

PG_FUNCTION_INFO_V1(cdc_detach);

/*
 * The column that marks dead rows; names follow renames.  NULL: it is gone,
 * and with it what it marked.
 */
static const char *
tombstone_column(const CdcRegistration *reg)
{
	const CdcRecord *record = reg->rule.exists ? &reg->rule : &reg->state;
	int			column = reg->rule.exists ? RULE_TOMBSTONE_COLUMN : STATE_TOMBSTONE_COLUMN;
	const char *name;

	if (!record->exists || record->isnull[column])
		return NULL;
	name = NameStr(*DatumGetName(record->values[column]));
	return get_attnum(reg->target, name) > 0 ? name : NULL;
}

/* Remove dead rows; the guard is gone by then. */
static void
delete_dead_rows(const CdcRegistration *reg)
{
	const char *name = tombstone_column(reg);
	Oid			type;

	if (name == NULL)
		return;
	type = getBaseType(get_atttype(reg->target, get_attnum(reg->target, name)));
	cdc_ddl("DELETE FROM %s WHERE %s IS %s", cdc_quoted_relation(reg->target),
			quote_identifier(name), type == TIMESTAMPTZOID ? "NOT NULL" : "TRUE");
}

static void
forget_tombstones(const CdcRegistration *reg)
{
	if (tombstone_column(reg) != NULL)
		delete_dead_rows(reg);
	else if (cdc_side_table_exists(reg))
	{
		if (!cdc_is_side_shaped(reg->tombstones) ||
			cdc_owner_of(reg->tombstones) != cdc_owner_of(reg->target))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" is not a side table of the owner of target \"%s\"",
							get_rel_name(reg->tombstones), get_rel_name(reg->target)),
					 errhint("Drop it by hand if it is to go.")));
		cdc_ddl("DROP TABLE %s", cdc_quoted_relation(reg->tombstones));
	}
}

static void
detach(Oid relid, bool drop_tombstones)
{
	Relation	rel = cdc_attach_open(relid, AccessShareLock);
	bool		guarded = cdc_attach_guard_exists(rel);
	CdcRegistration reg;

	relation_close(rel, AccessShareLock);
	rel = cdc_attach_open(relid, guarded ? AccessExclusiveLock : RowExclusiveLock);
	(void) cdc_target_lock(relid, ExclusiveLock, false);
	cdc_registry_read(relid, &reg);
	if (!reg.rule.exists && !(drop_tombstones && (cdc_side_table_exists(&reg) ||
												  tombstone_column(&reg) != NULL)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("target \"%s\" is not attached", cdc_relation_name(rel))));

	if (drop_tombstones && tombstone_column(&reg) != NULL)
		cdc_target_check(rel);

	/* dropping a trigger wants the table for itself; its lock stays with us */
	guarded = cdc_attach_guard_exists(rel);
	relation_close(rel, NoLock);
	if (guarded)
		cdc_attach_drop_guard(relid);
	if (drop_tombstones)
		forget_tombstones(&reg);

	/* the drop of a side table may have been followed already */
	cdc_registry_read(relid, &reg);
	if (reg.state.exists)
	{
		const char *column = drop_tombstones ? NULL : tombstone_column(&reg);

		if (!cdc_side_table_exists(&reg))
			reg.tombstones = InvalidOid;
		reg.state.isnull[STATE_TOMBSTONE_COLUMN] = column == NULL;
		if (column != NULL)
			reg.state.values[STATE_TOMBSTONE_COLUMN] = CStringGetDatum(pstrdup(column));
		reg.state.isnull[STATE_TOMBSTONE_ATTNUM] = column == NULL;
		if (column != NULL)
			reg.state.values[STATE_TOMBSTONE_ATTNUM] = Int16GetDatum(get_attnum(relid, column));
		cdc_registry_put_state(&reg);
	}
	if (reg.rule.exists)
		cdc_registry_remove_rule(&reg);
	cdc_bookmark_forget(relid);
}

Datum
cdc_detach(PG_FUNCTION_ARGS)
{
	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	PreventCommandIfReadOnly("cdc_detach()");
	PreventCommandIfParallelMode("cdc_detach()");
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("target must not be NULL")));
	detach(PG_GETARG_OID(0), !PG_ARGISNULL(1) && PG_GETARG_BOOL(1));
	PG_RETURN_VOID();
}
