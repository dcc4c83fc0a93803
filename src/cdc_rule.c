/*-------------------------------------------------------------------------
 *
 * cdc_rule.c
 *		The arguments of cdc_apply(), completed by what the target's attachment
 *		says and read into a CdcRule.
 *
 * Here: what can be checked without looking at a relation.  Names are looked
 * up in cdc_target.c and cdc_column.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "cdc_consume.h"
#include "cdc_registry.h"

/* The value that Debezium writes where it does not know one. */
#define CDC_UNAVAILABLE_VALUE	"__debezium_unavailable_value"

static char *
text_arg(const CdcArgs *args, int arg)
{
	return args->isnull[arg] ? NULL : TextDatumGetCString(args->values[arg]);
}

static char *
name_arg(const CdcArgs *args, int arg)
{
	return args->isnull[arg] ? NULL : pstrdup(NameStr(*DatumGetName(args->values[arg])));
}

static bool
bool_arg(const CdcArgs *args, int arg)
{
	return !args->isnull[arg] && DatumGetBool(args->values[arg]);
}

/* A name[] argument as a list of strings; NIL when NULL or empty. */
static List *
names_arg(const CdcArgs *args, int arg, const char *param)
{
	List	   *names = NIL;
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	if (args->isnull[arg])
		return NIL;
	deconstruct_array(DatumGetArrayTypeP(args->values[arg]), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR,
					  &elems, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s contains a NULL", param)));
		names = lappend(names, pstrdup(NameStr(*DatumGetName(elems[i]))));
	}
	return names;
}

/* A name[] argument that must not be empty when given. */
static List *
some_names_arg(const CdcArgs *args, int arg, const char *param)
{
	List	   *names = names_arg(args, arg, param);

	if (names == NIL && !args->isnull[arg])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s is empty", param),
				 errhint("Leave it out, or give NULL, for the default.")));
	return names;
}

/*
 * An option argument: the index of its value among the given ones, fallback
 * when NULL.
 */
static int
option_arg(const CdcArgs *args, int arg, const char *param,
		   const char *const *values, int nvalues, int fallback)
{
	char	   *given = text_arg(args, arg);
	StringInfoData all;

	if (given == NULL)
		return fallback;
	for (int i = 0; i < nvalues; i++)
		if (strcmp(given, values[i]) == 0)
			return i;

	initStringInfo(&all);
	for (int i = 0; i < nvalues; i++)
		appendStringInfo(&all, "%s'%s'", i == 0 ? "" : i == nvalues - 1 ? " or " : ", ",
						 values[i]);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown value for %s: \"%s\"", param, cdc_clip(given)),
			 errhint("Use %s.", all.data)));
}

#define OPTION(arg, param, fallback, ...) \
	option_arg(args, arg, param, \
			   (const char *const[]) {__VA_ARGS__}, \
			   lengthof(((const char *const[]) {__VA_ARGS__})), fallback)

static void
read_options(const CdcArgs *args, CdcRule *rule)
{
	rule->null_op = OPTION(CDC_ARG_NULL_OP, "null_op", CDC_NULL_OP_AUTO,
						   "auto", "read", "ignore", "error");
	rule->on_unavailable = OPTION(CDC_ARG_ON_UNAVAILABLE, "on_unavailable", CDC_UNAVAILABLE_ERROR,
								  "error", "null");
	rule->snapshot_position = OPTION(CDC_ARG_SNAPSHOT_POSITION, "snapshot_position",
									 CDC_SNAPSHOT_BY_KIND, "none", "event");
	rule->on_tie = OPTION(CDC_ARG_ON_TIE, "on_tie", CDC_TIE_ERROR, "error", "upsert");
	rule->on_same_position = OPTION(CDC_ARG_ON_SAME_POSITION, "on_same_position", CDC_SAME_WARN,
									"warn", "keep", "rewrite", "error");
	rule->on_schema_change = OPTION(CDC_ARG_ON_SCHEMA_CHANGE, "on_schema_change", CDC_SCHEMA_WARN,
									"warn", "ignore", "fail", "append_new_columns");
	rule->consume = OPTION(CDC_ARG_CONSUME, "consume", CDC_CONSUME_KEEP,
						   "keep", "delete", "truncate", "bookmark");
}

/* TRUNCATE takes everything, so everything must be read, and for good. */
static void
check_truncate(const CdcRule *rule)
{
	if (rule->consume != CDC_CONSUME_TRUNCATE)
		return;
	if (rule->staging_filter != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("consume => 'truncate' and staging_filter contradict each other"),
				 errdetail("Rows that the filter leaves out would be lost."),
				 errhint("Use consume => 'delete'.")));
	if (rule->dry_run)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("consume => 'truncate' and dry_run contradict each other"),
				 errdetail("A dry run locks nobody out."),
				 errhint("Add consume => 'keep' to the dry run: it shows what the call would do.")));
}

/*
 * Read all arguments of cdc_apply() into *rule, in the current memory
 * context.  Arguments that are wrong by themselves are refused here; staging
 * may be missing.
 */
void
cdc_rule_read(const CdcArgs *args, CdcRule *rule)
{
	memset(rule, 0, sizeof(CdcRule));
	if (args->isnull[CDC_ARG_TARGET])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("target must not be NULL")));
	rule->target = DatumGetObjectId(args->values[CDC_ARG_TARGET]);
	if (!args->isnull[CDC_ARG_STAGING])
		rule->staging = DatumGetObjectId(args->values[CDC_ARG_STAGING]);
	if (rule->staging == rule->target)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("target and staging are the same relation")));

	rule->key_columns = some_names_arg(args, CDC_ARG_KEY_COLUMNS, "key_columns");
	rule->position_columns = some_names_arg(args, CDC_ARG_POSITION_COLUMNS, "position_columns");
	rule->old_key_columns = names_arg(args, CDC_ARG_OLD_KEY_COLUMNS, "old_key_columns");
	rule->except_columns = names_arg(args, CDC_ARG_EXCEPT_COLUMNS, "except_columns");
	rule->staging_position = text_arg(args, CDC_ARG_STAGING_POSITION);
	rule->staging_filter = text_arg(args, CDC_ARG_STAGING_FILTER);
	rule->op_column = name_arg(args, CDC_ARG_OP_COLUMN);
	rule->default_op = text_arg(args, CDC_ARG_DEFAULT_OP);
	rule->delete_flag_column = name_arg(args, CDC_ARG_DELETE_FLAG_COLUMN);
	rule->tombstone_column = name_arg(args, CDC_ARG_TOMBSTONE_COLUMN);
	rule->unchanged_column = name_arg(args, CDC_ARG_UNCHANGED_COLUMN);
	rule->column_positions = name_arg(args, CDC_ARG_COLUMN_POSITIONS);
	rule->bookmark_column = args->isnull[CDC_ARG_BOOKMARK_COLUMN] ?
		pstrdup(CDC_BOOKMARK_COLUMN) : name_arg(args, CDC_ARG_BOOKMARK_COLUMN);
	if (!args->isnull[CDC_ARG_OP_MAP])
		rule->op_map = DatumGetJsonbPCopy(args->values[CDC_ARG_OP_MAP]);
	rule->unavailable_value = args->isnull[CDC_ARG_UNAVAILABLE_VALUE] ?
		pstrdup(CDC_UNAVAILABLE_VALUE) : text_arg(args, CDC_ARG_UNAVAILABLE_VALUE);
	if (rule->unavailable_value[0] == '\0')
		rule->unavailable_value = NULL;
	rule->ignore_nulls = bool_arg(args, CDC_ARG_IGNORE_NULLS);
	read_options(args, rule);

	rule->recorded_position = args->recorded_position;
	rule->recorded_filter = args->recorded_filter;
	rule->check_events = !args->isnull[CDC_ARG_EXPECT_EVENTS];
	if (rule->check_events)
		rule->expect_events = DatumGetInt64(args->values[CDC_ARG_EXPECT_EVENTS]);
	rule->recorded_except = args->recorded_except;
	rule->as_of = args->as_of;
	if (cdc_rule_is_snapshot(rule))
	{
		rule->default_op = pstrdup("upsert");
		rule->on_same_position = CDC_SAME_REWRITE;
	}
	rule->lineage = text_arg(args, CDC_ARG_LINEAGE);
	rule->dry_run = bool_arg(args, CDC_ARG_DRY_RUN);
	rule->nowait = bool_arg(args, CDC_ARG_NOWAIT);
	check_truncate(rule);
}

/* ---------- what is recorded ---------- */

/*
 * The present name of a recorded column: names are followed when a column is
 * renamed; the attribute number helps where that could not be.
 */
char *
cdc_registry_current_name(Relation target, char *name, AttrNumber attno)
{
	TupleDesc	desc = RelationGetDescr(target);

	if (get_attnum(RelationGetRelid(target), name) <= 0 && attno > 0 && attno <= desc->natts &&
		!TupleDescAttr(desc, attno - 1)->attisdropped)
		return pstrdup(NameStr(TupleDescAttr(desc, attno - 1)->attname));
	return name;
}

/* The recorded columns of the target in a name[] and its int2[] of numbers. */
static List *
recorded_columns(const CdcRegistration *reg, int names, int attnums, Relation target)
{
	List	   *list = cdc_registry_name_list(reg->rule.values[names]);
	Datum	   *elems;
	bool	   *nulls;
	int			n;
	ListCell   *lc;

	deconstruct_array(DatumGetArrayTypeP(reg->rule.values[attnums]), INT2OID, 2, true,
					  TYPALIGN_SHORT, &elems, &nulls, &n);
	foreach(lc, list)
		if (foreach_current_index(lc) < n)
			lfirst(lc) = cdc_registry_current_name(target, lfirst(lc),
									  DatumGetInt16(elems[foreach_current_index(lc)]));
	return list;
}

static bool
same_names(List *a, List *b, bool ordered)
{
	ListCell   *lc;

	if (list_length(a) != list_length(b))
		return false;
	foreach(lc, a)
	{
		bool		found = false;

		for (int i = 0; i < list_length(b); i++)
			if ((!ordered || i == foreach_current_index(lc)) &&
				strcmp(lfirst(lc), list_nth(b, i)) == 0)
				found = true;
		if (!found)
			return false;
	}
	return true;
}

static void
refuse_contradiction(Relation target, const char *param)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s contradicts the attachment of target \"%s\"", param,
					cdc_relation_name(target)),
			 errhint("Leave it out; to change it, cdc_detach() the target and attach it again.")));
}

/* Complete one of the lists of the target's columns, or compare it. */
static void
merge_columns(CdcArgs *args, int arg, const char *param, List *recorded, Relation target)
{
	List	   *given = some_names_arg(args, arg, param);

	if (given == NIL)
	{
		args->values[arg] = cdc_registry_names(recorded);
		args->isnull[arg] = false;
	}
	else if (!same_names(given, recorded, arg == CDC_ARG_POSITION_COLUMNS))
		refuse_contradiction(target, param);
}

/* The recorded tombstone column; NULL: tombstones stand in a side table. */
static char *
recorded_tombstone(const CdcRegistration *reg, Relation target)
{
	const CdcRecord *rule = &reg->rule;
	char	   *name;

	if (rule->isnull[RULE_TOMBSTONE_COLUMN])
		return NULL;
	name = pstrdup(NameStr(*DatumGetName(rule->values[RULE_TOMBSTONE_COLUMN])));
	if (!rule->isnull[RULE_TOMBSTONE_ATTNUM])
		name = cdc_registry_current_name(target, name, DatumGetInt16(rule->values[RULE_TOMBSTONE_ATTNUM]));
	return name;
}

static void
merge_tombstone(CdcArgs *args, const CdcRegistration *reg, Relation target)
{
	char	   *given = name_arg(args, CDC_ARG_TOMBSTONE_COLUMN);
	char	   *recorded = recorded_tombstone(reg, target);
	Name		name;

	if (given != NULL && (recorded == NULL || strcmp(given, recorded) != 0))
		refuse_contradiction(target, "tombstone_column");
	if (recorded == NULL)
		return;
	name = palloc0(sizeof(NameData));
	namestrcpy(name, recorded);
	args->values[CDC_ARG_TOMBSTONE_COLUMN] = NameGetDatum(name);
	args->isnull[CDC_ARG_TOMBSTONE_COLUMN] = false;
}

/*
 * Only the columns that an attached target's law stands on: key, position and
 * tombstone.  Nothing else of *rule is set.
 */
void
cdc_rule_read_law(const CdcRegistration *reg, Relation target, CdcRule *rule)
{
	memset(rule, 0, sizeof(CdcRule));
	rule->target = reg->target;
	rule->attached = true;
	rule->key_columns = recorded_columns(reg, RULE_KEY_COLUMNS, RULE_KEY_ATTNUMS, target);
	rule->position_columns = recorded_columns(reg, RULE_POSITION_COLUMNS, RULE_POSITION_ATTNUMS,
											  target);
	rule->tombstone_column = recorded_tombstone(reg, target);
}

/*
 * The recorded staging relation, by its name; 0 without one.  It must exist,
 * and its schema be open to the caller, unless missing_ok: then it is only to
 * be compared.  A lock is taken on the way, as in a query, so that a loader
 * that is about to replace it is waited for, and its new one found.
 */
Oid
cdc_rule_recorded_staging(const CdcRegistration *reg, LOCKMODE lockmode, bool missing_ok)
{
	const CdcRecord *rule = &reg->rule;

	char	   *schema;
	char	   *name;

	if (!rule->exists || rule->isnull[RULE_STAGING_NAME] || rule->isnull[RULE_STAGING_SCHEMA])
		return InvalidOid;
	schema = pstrdup(NameStr(*DatumGetName(rule->values[RULE_STAGING_SCHEMA])));
	name = pstrdup(NameStr(*DatumGetName(rule->values[RULE_STAGING_NAME])));
	if (missing_ok && strcmp(schema, "pg_temp") != 0)
	{
		Oid			namespace = get_namespace_oid(schema, true);

		return OidIsValid(namespace) ? get_relname_relid(name, namespace) : InvalidOid;
	}
	return RangeVarGetRelid(makeRangeVar(schema, name, -1), lockmode, missing_ok);
}

/*
 * Is a parameter recorded for the attached staging said of a snapshot's rows,
 * too?  Only if it is about the target's columns, not about what an event is.
 */
static bool
is_for_snapshots(int arg)
{
	return arg == CDC_ARG_EXCEPT_COLUMNS || arg == CDC_ARG_UNAVAILABLE_VALUE ||
		arg == CDC_ARG_ON_UNAVAILABLE || arg == CDC_ARG_ON_SCHEMA_CHANGE ||
		arg == CDC_ARG_COLUMN_POSITIONS;
}

/*
 * Complete the arguments of cdc_apply() by what is recorded of the target.
 * Key, position and tombstone columns that contradict it are refused.
 */
void
cdc_rule_merge(CdcArgs *args, const CdcRegistration *reg, Relation target)
{
	const CdcRecord *rule = &reg->rule;

	if (!rule->exists)
		return;
	merge_columns(args, CDC_ARG_KEY_COLUMNS, "key_columns",
				  recorded_columns(reg, RULE_KEY_COLUMNS, RULE_KEY_ATTNUMS, target), target);
	merge_columns(args, CDC_ARG_POSITION_COLUMNS, "position_columns",
				  recorded_columns(reg, RULE_POSITION_COLUMNS, RULE_POSITION_ATTNUMS, target),
				  target);
	merge_tombstone(args, reg, target);
	for (int i = 0; i < RULE_PARAMS; i++)
	{
		int			arg = CDC_ARG_KEY_COLUMNS + i;

		if (arg == CDC_ARG_TOMBSTONE_COLUMN || !args->isnull[arg] ||
			rule->isnull[RULE_PARAMS_FROM + i] ||
			(cdc_rule_is_snapshot(args) && !is_for_snapshots(arg)))
			continue;
		args->values[arg] = rule->values[RULE_PARAMS_FROM + i];
		args->isnull[arg] = false;
		if (arg == CDC_ARG_STAGING_POSITION)
			args->recorded_position = true;
		if (arg == CDC_ARG_STAGING_FILTER)
			args->recorded_filter = true;
		if (arg == CDC_ARG_EXCEPT_COLUMNS)
			args->recorded_except = true;
	}
	if (args->isnull[CDC_ARG_STAGING] && !rule->isnull[RULE_STAGING_NAME])
	{
		/* whoever wants it for himself must not hold a lesser lock before */
		bool		truncate = !args->isnull[CDC_ARG_CONSUME] &&
			strcmp(text_arg(args, CDC_ARG_CONSUME), "truncate") == 0;

		args->values[CDC_ARG_STAGING] =
			ObjectIdGetDatum(cdc_rule_recorded_staging(reg, truncate ? NoLock : AccessShareLock,
													   false));
		args->isnull[CDC_ARG_STAGING] = false;
	}
}

void
cdc_refuse_lost_side_table(const char *target)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the side table of target \"%s\" is gone", target),
			 errdetail("Its deletes are no longer remembered."),
			 errhint("Note the rule (cdc_targets), use cdc_detach() and cdc_attach() with it, then replay the log or set a fence.")));
}

/*
 * What is recorded of consuming was said of the recorded staging: another one
 * that a call names, such as an archive, keeps its rows.
 */
static void
spare_other_staging(CdcArgs *args, const CdcRegistration *reg)
{
	if (!reg->rule.exists || reg->rule.isnull[RULE_STAGING_NAME] || args->isnull[CDC_ARG_STAGING] ||
		DatumGetObjectId(args->values[CDC_ARG_STAGING]) == cdc_rule_recorded_staging(reg, NoLock, true))
		return;
	args->isnull[CDC_ARG_CONSUME] = true;
}

/*
 * Read the arguments together with what is recorded of the target: the rule
 * of the call, with fence, floor, epoch and the home of tombstones.
 */
void
cdc_rule_complete(CdcArgs *args, const CdcRegistration *reg, Relation target, CdcRule *rule)
{
	const char *name = cdc_relation_name(target);
	bool		consume_given = !args->isnull[CDC_ARG_CONSUME];

	cdc_rule_merge(args, reg, target);
	if (!consume_given)
		spare_other_staging(args, reg);
	cdc_rule_read(args, rule);
	rule->attached = reg->rule.exists;
	rule->horizon = reg->horizon;
	rule->epoch = reg->epoch;
	if (!reg->rule.exists)
	{
		if (OidIsValid(reg->tombstones) && get_rel_name(reg->tombstones) != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("target \"%s\" is not attached", name),
					 errdetail("Its deletes are remembered in \"%s\".",
							   get_rel_name(reg->tombstones)),
					 errhint("Use cdc_attach() again, or drop that table to forget them.")));
		return;
	}
	if (reg->rule.isnull[RULE_TOMBSTONE_COLUMN])
	{
		if (!OidIsValid(reg->tombstones))
			cdc_refuse_lost_side_table(name);
		rule->tombstones = reg->tombstones;
	}
}

/* A target with a lineage takes positions of that log only. */
void
cdc_rule_check_lineage(const CdcRule *rule, const CdcRegistration *reg, Relation target_rel,
					   Relation staging_rel)
{
	const char *target = cdc_relation_name(target_rel);
	const char *recorded = reg->lineage;
	const char *declared = rule->lineage;
	const char *qualified =
		quote_qualified_identifier(get_namespace_name(RelationGetNamespace(target_rel)),
								   RelationGetRelationName(target_rel));
	Oid			staging;

	if (declared != NULL && !rule->attached)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("target \"%s\" is not attached", target),
				 errdetail("A lineage is compared with the one of the attachment."),
				 errhint("Use cdc_attach().")));
	if (declared != NULL && (recorded == NULL || strcmp(declared, recorded) != 0))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lineage \"%s\" is not that of target \"%s\"", cdc_clip(declared), target),
				 recorded == NULL ? errdetail("The target has no lineage.") :
				 errdetail("Its lineage is \"%s\".", cdc_clip(recorded)),
				 recorded == NULL ? errhint("Give the target its lineage with cdc_attach().") :
				 errhint("Positions of another log cannot be weighed against the stored ones; if the log was replaced, use %s(%s, %s).",
						 cdc_function_name("cdc_new_epoch"), quote_literal_cstr(qualified),
						 quote_literal_cstr(declared))));
	if (declared != NULL || recorded == NULL || !rule->attached)
		return;
	staging = cdc_rule_recorded_staging(reg, NoLock, true);
	if (staging != rule->staging)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("positions of staging \"%s\" have no lineage",
						cdc_relation_name(staging_rel)),
				 errdetail("Target \"%s\" takes positions without a declared lineage from its attached staging only.",
						   target),
				 errhint("If they come from the same log, say so: lineage => %s.",
						 quote_literal_cstr(recorded))));
}
