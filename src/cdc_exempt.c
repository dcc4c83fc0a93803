/*-------------------------------------------------------------------------
 *
 * cdc_exempt.c
 *		How the extension's own writes get past the guard.
 *
 * An apply writes rows through the executor, with the guard taken out of its
 * copy of the triggers.  Purges and the like run statements, which are exempt
 * at the trigger depth at which they are issued, and nowhere else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "cdc_guard.h"
#include "cdc_registry.h"

/* ---------- statements of the extension's own ---------- */

/*
 * The table that statements issued at each trigger depth may write; entries
 * beyond exempt_depths do not exist.  exempt_count of them are set.
 */
static Oid *exempt_table = NULL;
static int	exempt_depths = 0;
static int	exempt_count = 0;

static int
trigger_depth(void)
{
	return DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, (Datum) 0));
}

/* Callers take their exemption back themselves; this is for those who die. */
static void
forget_exempt(XactEvent event, void *arg)
{
	if (exempt_count > 0)
		memset(exempt_table, 0, sizeof(Oid) * exempt_depths);
	exempt_count = 0;
}

Oid
cdc_guard_exempt(Oid relid)
{
	int			depth = trigger_depth();
	Oid			before;

	if (depth >= exempt_depths)
	{
		int			room = depth + 8;	/* whole levels are rare: no need to double */

		if (exempt_table == NULL)
		{
			exempt_table = MemoryContextAllocZero(TopMemoryContext, sizeof(Oid) * room);
			RegisterXactCallback(forget_exempt, NULL);
		}
		else
		{
			exempt_table = repalloc(exempt_table, sizeof(Oid) * room);
			memset(exempt_table + exempt_depths, 0, sizeof(Oid) * (room - exempt_depths));
		}
		exempt_depths = room;
	}
	before = exempt_table[depth];
	exempt_table[depth] = relid;
	exempt_count += OidIsValid(relid) - OidIsValid(before);
	return before;
}

/*
 * In a trigger: is the table, or one that it is a partition of, exempt for the
 * statement that fired it?  *covered_by remembers the answer for the next row.
 */
bool
cdc_guard_is_exempt(Oid table, bool is_partition, Oid *covered_by)
{
	int			depth;
	Oid			exempt;

	if (exempt_count == 0)
		return false;
	depth = trigger_depth() - 1;	/* the statement's */
	exempt = depth < exempt_depths ? exempt_table[depth] : InvalidOid;
	if (!OidIsValid(exempt))
		return false;
	if (exempt == table || exempt == *covered_by)
		return true;
	if (!is_partition || !list_member_oid(cdc_target_ancestors(table), exempt))
		return false;
	*covered_by = exempt;
	return true;
}

/* ---------- cdc_apply's own copy of the triggers ---------- */

static Oid
guard_function(void)
{
	oidvector  *none = buildoidvector(NULL, 0);

	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum("cdc_guard"),
						   PointerGetDatum(none), ObjectIdGetDatum(cdc_extension_schema()));
}

/* Does a trigger of this kind fire before that event? */
#define FIRES(tgtype, level, event) \
	TRIGGER_TYPE_MATCHES(tgtype, TRIGGER_TYPE_##level, TRIGGER_TYPE_BEFORE, TRIGGER_TYPE_##event)

void
cdc_guard_strip(ResultRelInfo *rri)
{
	TriggerDesc *desc = rri->ri_TrigDesc;
	Oid			function;
	int			kept = 0;

	if (desc == NULL)
		return;
	function = guard_function();
	for (int i = 0; i < desc->numtriggers; i++)
		if (desc->triggers[i].tgfoid != function ||
			!TRIGGER_FOR_BEFORE(desc->triggers[i].tgtype))
			desc->triggers[kept++] = desc->triggers[i];
	if (kept == desc->numtriggers)
		return;
	desc->numtriggers = kept;
	if (kept == 0)
	{
		rri->ri_TrigDesc = NULL;
		return;
	}
	/* what SetTriggerFlags of trigger.c makes of those that fire before */
	desc->trig_insert_before_row = desc->trig_update_before_row = false;
	desc->trig_delete_before_row = desc->trig_truncate_before_statement = false;
	for (int i = 0; i < kept; i++)
	{
		int16		type = desc->triggers[i].tgtype;

		desc->trig_insert_before_row |= FIRES(type, ROW, INSERT);
		desc->trig_update_before_row |= FIRES(type, ROW, UPDATE);
		desc->trig_delete_before_row |= FIRES(type, ROW, DELETE);
		desc->trig_truncate_before_statement |= FIRES(type, STATEMENT, TRUNCATE);
	}
}
