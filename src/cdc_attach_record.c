/*-------------------------------------------------------------------------
 *
 * cdc_attach_record.c
 *		What cdc_attach() writes into the registry.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "cdc_attach.h"

/* An expression as it is recorded, of the type that it must have. */
static void
record_expression(CdcAttach *a, int arg, const char *param, CdcRecord *rule)
{
	char	   *given;
	Oid			type;

	if (a->given.isnull[arg])
		return;
	given = TextDatumGetCString(a->given.values[arg]);
	if (a->staging == NULL)
		cdc_expr_check(given, param);
	else
	{
		given = cdc_expr_canonical(a->staging, given, param, &type);
		type = getBaseType(type);
		if (arg == CDC_ARG_STAGING_POSITION && !cdc_position_type_ok(type, true, true))
			cdc_refuse_position_type("staging", param, type);
		if (arg == CDC_ARG_STAGING_FILTER && type != BOOLOID)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("%s is not of type boolean", param)));
	}
	rule->values[RULE_PARAMS_FROM + arg - CDC_ARG_KEY_COLUMNS] = CStringGetTextDatum(given);
	rule->isnull[RULE_PARAMS_FROM + arg - CDC_ARG_KEY_COLUMNS] = false;
}

/* as_of is a position of the target's log, so of its kind. */
static void
check_kind(CdcAttach *a)
{
	CdcTarget  *target = &a->target;

	if (a->as_of.len == 0)
		return;
	if (!target->pos_single && cdc_position_kind_of(a->as_of.bytes) != target->pos_kind)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("as_of %s does not fit the position columns of target \"%s\"",
						cdc_pos_text(a->as_of.bytes, a->as_of.len), target->name),
				 errdetail("The columns hold %s positions.",
						   target->pos_kind == CDC_POSITION_LSN ? "LSN-headed" : "number-headed"),
				 errhint("Give a position of the target's log.")));
	cdc_registry_check_kind(&a->reg, &a->as_of, target->name);
}

/* Epoch and lineage say which log the positions come from. */
static void
set_log(CdcAttach *a)
{
	CdcRegistration *reg = &a->reg;
	const char *quoted = quote_literal_cstr(cdc_quoted_relation(a->relid));

	if (a->has_epoch && a->epoch != reg->epoch)
	{
		if (reg->epoch != 0 || reg->high.len > 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the epoch of target \"%s\" is %lld already", a->target.name,
							(long long) reg->epoch),
					 errhint("If its log was replaced, use %s(%s).",
							 cdc_function_name("cdc_new_epoch"), quoted)));
		reg->epoch = a->epoch;
	}
	if (reg->epoch != 0 && !a->target.pos_single)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("target \"%s\" has no room for an epoch", a->target.name),
				 errdetail("Its position stands in columns other than one cdc_position; its epoch is %lld.",
						   (long long) reg->epoch),
				 errhint("Attach it with one cdc_position column.")));
	if (a->lineage == NULL)
		return;
	if (reg->lineage != NULL && strcmp(reg->lineage, a->lineage) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the lineage of target \"%s\" is another one", a->target.name),
				 errdetail("It is \"%s\".", cdc_clip(reg->lineage)),
				 errhint("If its log was replaced, use %s(%s, %s).",
						 cdc_function_name("cdc_new_epoch"), quoted,
						 quote_literal_cstr(a->lineage))));
	reg->lineage = pstrdup(a->lineage);
}

static void
record_state(CdcAttach *a)
{
	CdcRegistration *reg = &a->reg;

	set_log(a);
	if (a->as_of.len > 0 &&
		cdc_pos_compare(a->as_of.bytes, a->as_of.len, reg->horizon.floor.bytes,
						reg->horizon.floor.len) > 0)
		cdc_registry_set_position(reg, STATE_FLOOR, &a->as_of);
	reg->tombstones = a->rule.tombstones;
	reg->state.isnull[STATE_TOMBSTONE_COLUMN] = true;
	reg->state.isnull[STATE_TOMBSTONE_ATTNUM] = true;
	/* who names staging says what it feeds from now on */
	if (!a->given.isnull[CDC_ARG_STAGING])
		cdc_registry_set_fed(reg, NIL);
	cdc_registry_put_state(reg);
}

static void
set_name(CdcRecord *rule, int column, const char *value)
{
	Name		name = palloc0(sizeof(NameData));

	namestrcpy(name, value);
	rule->values[column] = NameGetDatum(name);
	rule->isnull[column] = false;
}

static void
set_names(CdcRecord *rule, int column, int attnums, List *names, Oid relid)
{
	rule->values[column] = cdc_registry_names(names);
	rule->isnull[column] = false;
	rule->values[attnums] = cdc_registry_attnums(relid, names);
	rule->isnull[attnums] = false;
}

/* Key, position and tombstone columns, by name and number. */
static void
record_law_columns(CdcAttach *a, CdcRecord *rule)
{
	CdcTarget  *target = &a->target;
	List	   *keys = a->rule.key_columns;
	List	   *positions = NIL;

	if (keys == NIL)
		for (int i = 0; i < target->nkeys; i++)
			keys = lappend(keys, pstrdup(target->keys[i].name));
	for (int i = 0; i < target->npos; i++)
		positions = lappend(positions, get_attname(a->relid, target->pos_attno[i], false));
	set_names(rule, RULE_KEY_COLUMNS, RULE_KEY_ATTNUMS, keys, a->relid);
	set_names(rule, RULE_POSITION_COLUMNS, RULE_POSITION_ATTNUMS, positions, a->relid);
	if (a->side)
		return;
	set_name(rule, RULE_TOMBSTONE_COLUMN, a->rule.tombstone_column);
	rule->values[RULE_TOMBSTONE_ATTNUM] = Int16GetDatum(target->tomb_attno);
	rule->isnull[RULE_TOMBSTONE_ATTNUM] = false;
}

static void
record_rule(CdcAttach *a, Oid live_view)
{
	CdcRecord  *rule = &a->reg.rule;

	for (int i = 0; i < RULE_PARAMS; i++)
		if (!a->given.isnull[CDC_ARG_KEY_COLUMNS + i])
		{
			rule->values[RULE_PARAMS_FROM + i] = a->given.values[CDC_ARG_KEY_COLUMNS + i];
			rule->isnull[RULE_PARAMS_FROM + i] = false;
		}
	record_law_columns(a, rule);
	record_expression(a, CDC_ARG_STAGING_POSITION, "staging_position", rule);
	record_expression(a, CDC_ARG_STAGING_FILTER, "staging_filter", rule);
	if (!a->given.isnull[CDC_ARG_STAGING])
	{
		Oid			schema = RelationGetNamespace(a->staging);

		/* each session has its own temporary schema, under this name */
		set_name(rule, RULE_STAGING_SCHEMA,
				 isTempNamespace(schema) ? "pg_temp" : get_namespace_name(schema));
		set_name(rule, RULE_STAGING_NAME, RelationGetRelationName(a->staging));
	}
	if (a->guard != NULL || !rule->exists)
		rule->values[RULE_GUARD] = CStringGetTextDatum(a->guard ? a->guard : "off");
	rule->isnull[RULE_GUARD] = false;
	rule->values[RULE_LIVE_VIEW] = ObjectIdGetDatum(live_view);
	rule->isnull[RULE_LIVE_VIEW] = !OidIsValid(live_view);
	if (!rule->exists)
		rule->values[RULE_ATTACHED_AT] = TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
	rule->isnull[RULE_ATTACHED_AT] = false;
	cdc_registry_put_rule(&a->reg);
}

/*
 * Record the attachment: its state and its rule.  The target has been
 * described as the rule has it.
 */
void
cdc_attach_record(CdcAttach *a, Oid live_view)
{
	check_kind(a);
	record_state(a);
	record_rule(a, live_view);
}
