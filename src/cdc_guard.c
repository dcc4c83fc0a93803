/*-------------------------------------------------------------------------
 *
 * cdc_guard.c
 *		The guard trigger: refuses changes by anyone that the law would not
 *		write.
 *
 * A change is judged by cdc_law.c, as an event at the new row's position
 * against what is stored: an upsert if the row is live, a delete if it is dead,
 * a snapshot row if it has no position.  What the verdict would not write is
 * refused.  An update that leaves position and tombstone as they are is none of
 * the law's business.
 *
 * The guard binds whoever can write the table, its owner too, but keeps nothing
 * from an owner who wants to: cdc_precedence.bypass_guard lets owners through.
 *
 * Locks: an insert, and an update that brings a dead key back, take the apply
 * lock in share mode, so that no tombstone, fence or floor is written between
 * the judgment and the row.  Other changes find the row of the key locked by
 * the server already.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "cdc_guard.h"
#include "cdc_guarded.h"

/* A row that is to be written, and what it meets. */
typedef struct GuardCase
{
	Relation	rel;
	const char *what;			/* "update of", as messages say it */
	Datum		keys[INDEX_MAX_KEYS];	/* in the order of the key index */
	bool		isnull[INDEX_MAX_KEYS];
	bool		whole;			/* no part of the key is NULL */
	CdcStored	incoming;		/* only state and position are used */
	CdcStored	stored;
	CdcVerdict	verdict;
} GuardCase;

bool		cdc_bypass_guard = false;

PG_FUNCTION_INFO_V1(cdc_guard);

/* ---------- refusals ---------- */

static const char *const apply_way = "cdc_apply(), which tells old from new and remembers deletes";

static void
raise_refusal(Relation rel, const char *what, const char *detail, const char *way)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION),
			 errmsg("%s \"%s\" refused by its guard", what, cdc_relation_name(rel)),
			 errdetail_internal("%s", detail),
			 errhint("Use %s; the table's owner can set cdc_precedence.bypass_guard.", way),
			 errtable(rel)));
}

/* Refuse a judged row; false, when refused rows are left out. */
static bool
refuse_judged(CdcGuarded *g, const GuardCase *c)
{
	const CdcPos *e = &c->incoming.pos;
	const CdcPos *floor = &g->horizon.floor;
	const CdcPos *fence = &g->horizon.fence;
	StringInfoData s;

	if (g->skip)
		return false;
	initStringInfo(&s);
	appendStringInfo(&s, "Key %s: incoming position %s, stored position %s%s.",
					 cdc_key_text(&g->described, c->keys, c->isnull),
					 cdc_pos_text(e->bytes, e->len),
					 cdc_pos_text(c->stored.pos.bytes, c->stored.pos.len),
					 c->stored.state == CDC_KEY_TOMBSTONE ? " (deleted)" : "");
	if (c->verdict.outcome == CDC_FENCED)
		appendStringInfo(&s, " Dead keys are known to be dead up to %s, the fence.",
						 cdc_pos_text(fence->bytes, fence->len));
	else if (floor->len > 0 && cdc_pos_compare(e->bytes, e->len, floor->bytes, floor->len) <= 0)
		appendStringInfo(&s, " Every key is decided up to %s, the floor.",
						 cdc_pos_text(floor->bytes, floor->len));
	raise_refusal(c->rel, c->what, s.data, apply_way);
	return false;
}

static bool
refuse_key_change(CdcGuarded *g, Relation rel, TupleTableSlot *old, TupleTableSlot *new)
{
	Datum		keys[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	char	   *before;

	if (g->skip)
		return false;
	(void) cdc_guarded_keys(g, old, keys, isnull);
	before = cdc_key_text(&g->described, keys, isnull);
	(void) cdc_guarded_keys(g, new, keys, isnull);
	raise_refusal(rel, "update of",
				  psprintf("It would change key %s to %s.", before,
						   cdc_key_text(&g->described, keys, isnull)),
				  "cdc_apply() with an event that names the old key");
	return false;
}

static bool
refuse_delete(CdcGuarded *g, const GuardCase *c)
{
	bool		dead = c->incoming.state == CDC_KEY_TOMBSTONE;

	if (g->skip)
		return false;
	raise_refusal(c->rel, c->what,
				  psprintf("Key %s: stored position %s%s. The delete would not be remembered, so an older event could bring the row back.",
						   cdc_key_text(&g->described, c->keys, c->isnull),
						   cdc_pos_text(c->incoming.pos.bytes, c->incoming.pos.len),
						   dead ? " (deleted)" : ""),
				  dead ? "cdc_purge_tombstones(), which remembers up to where keys are dead" : apply_way);
	return false;
}

/* ---------- judging ---------- */

/* A change to (delete: of) the row in slot. */
static void
begin_case(CdcGuarded *g, GuardCase *c, Relation rel, TupleTableSlot *slot, const char *what)
{
	c->rel = rel;
	c->what = what;
	cdc_guarded_prepare(g, rel);
	c->whole = cdc_guarded_keys(g, slot, c->keys, c->isnull);
	cdc_guarded_state(g, slot, &c->incoming);
	c->stored.state = CDC_KEY_ABSENT;
	c->stored.pos.len = 0;
}

static void
check_kinds(CdcGuarded *g, const GuardCase *c, const CdcPos *a, const CdcPos *b)
{
	if (a->len > 0 && b->len > 0 &&
		cdc_position_kind_of(a->bytes) != cdc_position_kind_of(b->bytes))
		cdc_refuse_mixed_kinds(psprintf("table \"%s\" at key %s", cdc_relation_name(c->rel),
										cdc_key_text(&g->described, c->keys, c->isnull)));
}

/* What is stored is the greater of the row, if any, and the side table's tombstone. */
static void
weigh_tombstone(CdcGuarded *g, GuardCase *c)
{
	CdcPos		dead;

	if (g->tomb_attno != 0 || !c->whole || !cdc_guarded_tombstone(g, c->keys, &dead))
		return;
	check_kinds(g, c, &dead, &c->stored.pos);
	if (c->stored.state != CDC_KEY_ABSENT &&
		cdc_pos_compare(dead.bytes, dead.len, c->stored.pos.bytes, c->stored.pos.len) < 0)
		return;
	c->stored.state = CDC_KEY_TOMBSTONE;
	c->stored.pos = dead;
}

/* The law's verdict on an event of that class. */
static bool
would_write(CdcGuarded *g, GuardCase *c, CdcClass class)
{
	const CdcHorizon *horizon = cdc_guarded_horizon(g);
	const CdcPos *e = &c->incoming.pos;

	check_kinds(g, c, e, &c->stored.pos);
	check_kinds(g, c, e, &horizon->floor);
	check_kinds(g, c, e, &horizon->fence);
	c->verdict = cdc_law_judge(class, e->bytes, e->len, c->stored.state, &c->stored.pos, horizon);
	return c->verdict.write;
}

/* The event that the incoming row is. */
static CdcClass
event_class(const GuardCase *c)
{
	if (c->incoming.pos.len == 0)
		return CDC_SNAPSHOT;
	return c->incoming.state == CDC_KEY_LIVE ? CDC_UPSERT : CDC_DELETE;
}

static bool
insert_passes(CdcGuarded *g, const TriggerData *trigger)
{
	GuardCase	c;

	begin_case(g, &c, trigger->tg_relation, trigger->tg_trigslot, "insert into");
	cdc_guarded_lock(g);
	weigh_tombstone(g, &c);
	if (would_write(g, &c, event_class(&c)))
		return true;
	/* then the unique index decides, or the update that ON CONFLICT makes of it */
	if (c.whole && cdc_guarded_row_stands(g, c.rel, c.keys))
		return true;
	return refuse_judged(g, &c);
}

/* By the key's own equality, and only where the images differ. */
static bool
key_changes(CdcGuarded *g, Relation rel, TupleTableSlot *old, TupleTableSlot *new)
{
	bool		same = true;

	for (int i = 0; i < g->nkeys && same; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), g->key_attno[i] - 1);
		bool		a_null,
					b_null;
		Datum		a = slot_getattr(old, g->key_attno[i], &a_null);
		Datum		b = slot_getattr(new, g->key_attno[i], &b_null);

		same = a_null == b_null &&
			(a_null || datum_image_eq(a, b, att->attbyval, att->attlen));
	}
	if (same)
		return false;

	cdc_guarded_prepare(g, rel);
	for (int i = 0; i < g->described.nkeys; i++)
	{
		CdcKey	   *key = &g->described.keys[i];
		bool		a_null,
					b_null;
		Datum		a = slot_getattr(old, g->index_attno[i], &a_null);
		Datum		b = slot_getattr(new, g->index_attno[i], &b_null);

		if (a_null != b_null ||
			(!a_null && !DatumGetBool(FunctionCall2Coll(&key->equal, key->collation, a, b))))
			return true;
	}
	return false;
}

static void
read_stored(CdcGuarded *g, GuardCase *c, const CdcStored *row)
{
	c->stored = *row;
	weigh_tombstone(g, c);
}

static bool
update_passes(CdcGuarded *g, const TriggerData *trigger)
{
	Relation	rel = trigger->tg_relation;
	TupleTableSlot *old = trigger->tg_trigslot;
	TupleTableSlot *new = trigger->tg_newslot;
	CdcStored	before,
				after;
	GuardCase	c;

	if (key_changes(g, rel, old, new))
		return refuse_key_change(g, rel, old, new);
	cdc_guarded_state(g, old, &before);
	cdc_guarded_state(g, new, &after);
	if (before.state == after.state && before.pos.len == after.pos.len &&
		memcmp(before.pos.bytes, after.pos.bytes, after.pos.len) == 0)
		return true;

	begin_case(g, &c, rel, new, "update of");
	read_stored(g, &c, &before);
	if (c.stored.state != CDC_KEY_LIVE && c.incoming.state == CDC_KEY_LIVE && !g->locked)
	{
		cdc_guarded_lock(g);
		read_stored(g, &c, &before);
	}
	return would_write(g, &c, event_class(&c)) || refuse_judged(g, &c);
}

/*
 * A row may go when what it says of its key is remembered without it: by a
 * tombstone in the side table, or when no event at its position could write the
 * key again.
 */
static bool
delete_passes(CdcGuarded *g, const TriggerData *trigger)
{
	GuardCase	c;

	begin_case(g, &c, trigger->tg_relation, trigger->tg_trigslot, "delete from");
	if (g->tomb_attno == 0)
	{
		read_stored(g, &c, &c.incoming);
		if (c.stored.state == CDC_KEY_TOMBSTONE)
			return true;
	}
	else if (c.incoming.state == CDC_KEY_TOMBSTONE && !would_write(g, &c, CDC_UPSERT))
		return true;
	return refuse_delete(g, &c);
}

/* ---------- the trigger ---------- */

static TriggerData *
check_call(FunctionCallInfo fcinfo)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	TriggerEvent event;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by trigger manager", "cdc_guard")));
	event = trigger->tg_event;
	if (!TRIGGER_FIRED_BEFORE(event) ||
		TRIGGER_FIRED_FOR_ROW(event) == TRIGGER_FIRED_BY_TRUNCATE(event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired BEFORE INSERT, UPDATE or DELETE for each row, or BEFORE TRUNCATE",
						"cdc_guard"),
				 errhint("cdc_attach() makes the triggers.")));
	return trigger;
}

static bool
read_mode(const Trigger *trigger)
{
	if (trigger->tgnargs == 1 && strcmp(trigger->tgargs[0], "skip") == 0)
		return true;
	if (trigger->tgnargs != 1 || strcmp(trigger->tgargs[0], "error") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("function \"%s\" takes one argument, 'skip' or 'error'", "cdc_guard"),
				 errhint("cdc_attach() makes the triggers.")));
	return false;
}

static CdcGuarded *
find_guarded(FunctionCallInfo fcinfo, const TriggerData *trigger)
{
	CdcGuarded *g = fcinfo->flinfo->fn_extra;
	Oid			table = RelationGetRelid(trigger->tg_relation);

	if (g != NULL && g->table == table)
		return g;
	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	g = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(CdcGuarded));
	g->table = table;
	g->skip = read_mode(trigger->tg_trigger);
	g->context = fcinfo->flinfo->fn_mcxt;
	fcinfo->flinfo->fn_extra = g;
	return g;
}

/* Is this a statement of the extension's own, or one of an owner who insists? */
static bool
let_through(CdcGuarded *g, Relation rel)
{
	if (cdc_guard_is_exempt(g->table, rel->rd_rel->relispartition, &g->covered_by))
		return true;
	/* who owns a partition could disable its trigger just as well */
	return cdc_bypass_guard && cdc_owns_relation(g->table, GetUserId());
}

static bool
change_passes(CdcGuarded *g, const TriggerData *trigger)
{
	TriggerEvent event = trigger->tg_event;

	if (!OidIsValid(g->target))
		cdc_guarded_read(g, trigger);
	if (TRIGGER_FIRED_BY_UPDATE(event))
		return update_passes(g, trigger);
	if (TRIGGER_FIRED_BY_INSERT(event))
		return insert_passes(g, trigger);
	if (TRIGGER_FIRED_BY_DELETE(event))
		return delete_passes(g, trigger);
	/* a statement: there is no row to leave out, so both modes refuse it */
	raise_refusal(trigger->tg_relation, "truncate of",
				  "The rows would be forgotten, so older events could bring them back.",
				  "a truncate event in cdc_apply(), which is remembered");
	return false;
}

Datum
cdc_guard(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = check_call(fcinfo);
	CdcGuarded *g = find_guarded(fcinfo, trigger);

	if (!let_through(g, trigger->tg_relation) && !change_passes(g, trigger))
		return PointerGetDatum(NULL);
	if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		return PointerGetDatum(trigger->tg_newtuple);
	return PointerGetDatum(trigger->tg_trigtuple);
}
