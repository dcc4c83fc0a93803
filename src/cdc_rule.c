/*-------------------------------------------------------------------------
 *
 * cdc_rule.c
 *		The arguments of cdc_apply() read into a CdcRule.
 *
 * Here: what can be checked without looking at a relation.  Names are looked
 * up in cdc_target.c and cdc_column.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "cdc_apply.h"

/* The value that Debezium writes where it does not know one. */
#define CDC_UNAVAILABLE_VALUE	"__debezium_unavailable_value"

/* the arguments, in the order of the SQL signature */
enum
{
	ARG_TARGET, ARG_STAGING, ARG_KEY_COLUMNS, ARG_POSITION_COLUMNS, ARG_STAGING_POSITION,
	ARG_STAGING_FILTER, ARG_OP_COLUMN, ARG_DEFAULT_OP, ARG_DELETE_FLAG_COLUMN,
	ARG_TOMBSTONE_COLUMN, ARG_OLD_KEY_COLUMNS, ARG_UNCHANGED_COLUMN, ARG_EXCEPT_COLUMNS,
	ARG_OP_MAP, ARG_NULL_OP, ARG_UNAVAILABLE_VALUE, ARG_ON_UNAVAILABLE, ARG_IGNORE_NULLS,
	ARG_SNAPSHOT_POSITION, ARG_ON_TIE, ARG_ON_SAME_POSITION, ARG_ON_SCHEMA_CHANGE,
	ARG_COLUMN_POSITIONS, ARG_CONSUME, ARG_EXPECT_EVENTS, ARG_LINEAGE, ARG_DRY_RUN, ARG_NOWAIT
};

static char *
text_arg(FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(arg));
}

static char *
name_arg(FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? NULL : pstrdup(NameStr(*PG_GETARG_NAME(arg)));
}

/* A name[] argument as a list of strings; NIL when NULL or empty. */
static List *
names_arg(FunctionCallInfo fcinfo, int arg, const char *param)
{
	List	   *names = NIL;
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	if (PG_ARGISNULL(arg))
		return NIL;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR,
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
some_names_arg(FunctionCallInfo fcinfo, int arg, const char *param)
{
	List	   *names = names_arg(fcinfo, arg, param);

	if (names == NIL && !PG_ARGISNULL(arg))
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
option_arg(FunctionCallInfo fcinfo, int arg, const char *param,
		   const char *const *values, int nvalues, int fallback)
{
	char	   *given = text_arg(fcinfo, arg);
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
	option_arg(fcinfo, arg, param, \
			   (const char *const[]) {__VA_ARGS__}, \
			   lengthof(((const char *const[]) {__VA_ARGS__})), fallback)

static void
refuse_unsupported(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s is not supported yet", what)));
}

/* Parameters whose machinery is not there yet are refused, never ignored. */
static void
check_unsupported(FunctionCallInfo fcinfo)
{
	if (!PG_ARGISNULL(ARG_LINEAGE))
		refuse_unsupported("lineage");
	if (!PG_ARGISNULL(ARG_COLUMN_POSITIONS))
		refuse_unsupported("column_positions");
}

static void
read_options(FunctionCallInfo fcinfo, CdcRule *rule)
{
	int			consume;

	rule->null_op = OPTION(ARG_NULL_OP, "null_op", CDC_NULL_OP_AUTO,
						   "auto", "read", "ignore", "error");
	rule->on_unavailable = OPTION(ARG_ON_UNAVAILABLE, "on_unavailable", CDC_UNAVAILABLE_ERROR,
								  "error", "null");
	rule->snapshot_position = OPTION(ARG_SNAPSHOT_POSITION, "snapshot_position",
									 CDC_SNAPSHOT_BY_KIND, "none", "event");
	rule->on_tie = OPTION(ARG_ON_TIE, "on_tie", CDC_TIE_ERROR, "error", "upsert");
	rule->on_same_position = OPTION(ARG_ON_SAME_POSITION, "on_same_position", CDC_SAME_WARN,
									"warn", "keep", "rewrite", "error");
	rule->on_schema_change = OPTION(ARG_ON_SCHEMA_CHANGE, "on_schema_change", CDC_SCHEMA_WARN,
									"warn", "ignore", "fail", "append_new_columns");
	consume = OPTION(ARG_CONSUME, "consume", CDC_CONSUME_KEEP,
					 "keep", "delete", "truncate", "bookmark");
	if (consume > CDC_CONSUME_DELETE)
		refuse_unsupported(consume == 2 ? "consume => 'truncate'" : "consume => 'bookmark'");
	rule->consume = consume;
}

/*
 * Read all arguments of cdc_apply() into *rule, in the current memory
 * context.  Arguments that are wrong by themselves are refused here.
 */
void
cdc_rule_from_args(FunctionCallInfo fcinfo, CdcRule *rule)
{
	memset(rule, 0, sizeof(CdcRule));
	if (PG_ARGISNULL(ARG_TARGET))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("target must not be NULL")));
	rule->target = PG_GETARG_OID(ARG_TARGET);
	check_unsupported(fcinfo);
	if (PG_ARGISNULL(ARG_STAGING))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("staging must be given"),
				 errdetail("No staging relation is recorded for the target."),
				 errhint("Name the relation that holds the events: cdc_apply('target', 'staging').")));
	rule->staging = PG_GETARG_OID(ARG_STAGING);
	if (rule->staging == rule->target)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("target and staging are the same relation")));

	rule->key_columns = some_names_arg(fcinfo, ARG_KEY_COLUMNS, "key_columns");
	rule->position_columns = some_names_arg(fcinfo, ARG_POSITION_COLUMNS, "position_columns");
	rule->old_key_columns = names_arg(fcinfo, ARG_OLD_KEY_COLUMNS, "old_key_columns");
	rule->except_columns = names_arg(fcinfo, ARG_EXCEPT_COLUMNS, "except_columns");
	rule->staging_position = text_arg(fcinfo, ARG_STAGING_POSITION);
	rule->staging_filter = text_arg(fcinfo, ARG_STAGING_FILTER);
	rule->op_column = name_arg(fcinfo, ARG_OP_COLUMN);
	rule->default_op = text_arg(fcinfo, ARG_DEFAULT_OP);
	rule->delete_flag_column = name_arg(fcinfo, ARG_DELETE_FLAG_COLUMN);
	rule->tombstone_column = name_arg(fcinfo, ARG_TOMBSTONE_COLUMN);
	rule->unchanged_column = name_arg(fcinfo, ARG_UNCHANGED_COLUMN);
	if (!PG_ARGISNULL(ARG_OP_MAP))
		rule->op_map = PG_GETARG_JSONB_P_COPY(ARG_OP_MAP);
	rule->unavailable_value = PG_ARGISNULL(ARG_UNAVAILABLE_VALUE) ?
		pstrdup(CDC_UNAVAILABLE_VALUE) : text_arg(fcinfo, ARG_UNAVAILABLE_VALUE);
	if (rule->unavailable_value[0] == '\0')
		rule->unavailable_value = NULL;
	rule->ignore_nulls = !PG_ARGISNULL(ARG_IGNORE_NULLS) && PG_GETARG_BOOL(ARG_IGNORE_NULLS);
	read_options(fcinfo, rule);

	rule->check_events = !PG_ARGISNULL(ARG_EXPECT_EVENTS);
	if (rule->check_events)
		rule->expect_events = PG_GETARG_INT64(ARG_EXPECT_EVENTS);
	rule->dry_run = !PG_ARGISNULL(ARG_DRY_RUN) && PG_GETARG_BOOL(ARG_DRY_RUN);
	rule->nowait = !PG_ARGISNULL(ARG_NOWAIT) && PG_GETARG_BOOL(ARG_NOWAIT);
}
