/*-------------------------------------------------------------------------
 *
 * cdc_event_view_value.c
 *		The functions that the columns of an event view call.
 *
 * They are internal: cdc_event_view() writes the calls.  Each names the event
 * (the payload), what the view was made with, and what it wants of it.  What
 * cannot be decoded is an error that keeps what the server says of the value,
 * and says in its detail which column, value and event it was.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/syscache.h"

#include "cdc_apply.h"
#include "cdc_decode.h"

/* Bytes that are kept of a message with a value in it. */
#define MESSAGE_BYTES	300

/* How a detail names the event, if it does. */
#define EVENT	"The event: "

/* What a call of cdc_event_view_value() keeps between rows. */
typedef struct ValueCall
{
	CdcModes	modes;
	CdcDecoder	decoder;
	char	   *name;			/* of the column */
	int			namelen;
	bool		key;
	bool		old;
	int			hint;			/* where the column was found last */
	int			old_hint;
} ValueCall;

/* And of cdc_event_view_unchanged() and cdc_event_view_absent(). */
typedef struct UnchangedCall
{
	CdcModes	modes;
	int			n;
	CdcDecoder *decoders;
	char	  **names;
	int		   *hints;
} UnchangedCall;

static char *
text_arg(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* Modes of a call that keeps nothing else. */
static CdcModes *
modes_of(FunctionCallInfo fcinfo)
{
	CdcModes   *modes = fcinfo->flinfo->fn_extra;
	char	   *text;

	if (modes == NULL)
	{
		text = text_arg(fcinfo, 1);
		modes = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(CdcModes));
		cdc_modes_parse(text != NULL ? text : "", modes);
		fcinfo->flinfo->fn_extra = modes;
	}
	return modes;
}

/* ---------- an event's own words ---------- */

PG_FUNCTION_INFO_V1(cdc_event_view_op);
Datum
cdc_event_view_op(PG_FUNCTION_ARGS)
{
	CdcRaw	   *raw = cdc_raw_get(fcinfo, modes_of(fcinfo));

	if (raw->kind == CDC_RAW_EMPTY)
		PG_RETURN_NULL();
	if (raw->kind == CDC_RAW_NOTE)
		PG_RETURN_TEXT_P(cstring_to_text("m"));
	PG_RETURN_TEXT_P(cstring_to_text(raw->op));
}

/* (payload, modes, parts of a table's name): is the event one of that table? */
PG_FUNCTION_INFO_V1(cdc_event_view_is_of);
Datum
cdc_event_view_is_of(PG_FUNCTION_ARGS)
{
	CdcRaw	   *raw = cdc_raw_get(fcinfo, modes_of(fcinfo));
	Datum	   *parts;
	char	   *names[3] = {NULL, NULL, NULL};
	char	   *db;
	char	   *schema;
	char	   *table;
	int			n;

	if (raw->kind != CDC_RAW_CHANGE || PG_ARGISNULL(2) ||
		!cdc_raw_table(raw, &db, &schema, &table))
		PG_RETURN_BOOL(false);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), TEXTOID, -1, false, TYPALIGN_INT, &parts, NULL, &n);
	for (int i = 0; i < n && i < lengthof(names); i++)
		names[i] = TextDatumGetCString(parts[n - 1 - i]);
	/* a source without schemas has its databases in their place */
	if (schema == NULL)
	{
		schema = db;
		db = NULL;
	}
	PG_RETURN_BOOL(names[0] != NULL && strcmp(names[0], table) == 0 &&
				   (names[1] == NULL || (schema != NULL && strcmp(names[1], schema) == 0)) &&
				   (names[2] == NULL || (db != NULL && strcmp(names[2], db) == 0)));
}

/* With a third argument, which is the commit LSN, that one comes first. */
PG_FUNCTION_INFO_V1(cdc_event_view_position);
Datum
cdc_event_view_position(PG_FUNCTION_ARGS)
{
	CdcRaw	   *raw = cdc_raw_get(fcinfo, modes_of(fcinfo));
	bool		with_commit = PG_NARGS() > 2;
	MemoryContext context = CurrentMemoryContext;
	uint64		commit = 0;
	bool		isnull = true;
	volatile Datum result = (Datum) 0;

	if (raw->kind != CDC_RAW_CHANGE || (with_commit && PG_ARGISNULL(2)))
		PG_RETURN_NULL();
	if (with_commit)
		commit = PG_GETARG_LSN(2);
	PG_TRY();
	{
		result = cdc_raw_position(raw, with_commit ? &commit : NULL, &isnull);
	}
	PG_CATCH();
	{
		ErrorData  *error = cdc_take_data_error(context);

		if (error->detail == NULL || strstr(error->detail, EVENT) == NULL)
			error->detail = psprintf("%s%s" EVENT "%s.", error->detail ? error->detail : "",
									 error->detail ? "\n" : "", cdc_raw_describe(raw));
		ReThrowError(error);
	}
	PG_END_TRY();
	if (isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(result);
}

/* ---------- the value of a column ---------- */

/* Views never do so, but everybody may call what they call. */
static void
check_arguments(FunctionCallInfo fcinfo, int last)
{
	for (int i = 1; i <= last; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("an argument of an event view's column is NULL"),
					 errdetail("%s() writes these calls.", "cdc_event_view")));
}

static ValueCall *
value_call(FunctionCallInfo fcinfo)
{
	ValueCall  *call = fcinfo->flinfo->fn_extra;
	MemoryContext old;
	char	   *role;
	Oid			type;

	if (call != NULL)
		return call;
	old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	call = palloc0(sizeof(ValueCall));
	check_arguments(fcinfo, 4);
	cdc_modes_parse(text_arg(fcinfo, 1), &call->modes);
	role = text_arg(fcinfo, 2);
	call->key = strcmp(role, "key") == 0;
	call->old = strcmp(role, "old") == 0;
	call->name = text_arg(fcinfo, 3);
	call->namelen = strlen(call->name);
	/* of a domain the argument is an array: a NULL of the domain may break it */
	type = get_fn_expr_argtype(fcinfo->flinfo, 5);
	if (get_fn_expr_rettype(fcinfo->flinfo) != type)
		type = get_element_type(type);
	cdc_decoder_init(&call->decoder, &call->modes, type, PG_GETARG_INT32(4),
					 fcinfo->flinfo->fn_mcxt);
	MemoryContextSwitchTo(old);
	fcinfo->flinfo->fn_extra = call;
	return call;
}

/*
 * The value that a column has in the event's row; false when the event does
 * not carry it.  wal2json leaves out what an update left as it was; where the
 * old row is logged whole, it is there.
 */
static bool
find_in_row(const CdcRaw *raw, const char *name, int namelen, int *hint, int *old_hint,
			CdcRawValue *value)
{
	if (cdc_raw_find(&raw->row, name, namelen, hint, value))
		return true;
	return raw->modes.format == CDC_FORMAT_WAL2JSON && cdc_raw_has(&raw->old) &&
		cdc_raw_find(&raw->old, name, namelen, old_hint, value);
}

/*
 * The key as it was: of updates alone, and where the old row has all of it.
 * An old row that has not (other columns are null in it, or it is not there)
 * says nothing.
 */
static bool
find_old(const CdcRaw *raw, ValueCall *call, CdcRawValue *value)
{
	return cdc_raw_has(&raw->old) &&
		cdc_raw_find(&raw->old, call->name, call->namelen, &call->old_hint, value) &&
		value->json.type != jbvNull;
}

static void
refuse_no_key(const CdcRaw *raw, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_NOT_NULL_VIOLATION),
			 errmsg("a raw event carries no key column \"%s\"", name),
			 errdetail("The event: %s.", cdc_raw_describe(raw)),
			 errhint("If the landing table holds several tables, name the view's in source_table; if the source's key is another, give it the target's key as replica identity.")));
}

/* Add to an error in flight what it was about. */
static void
complete_error(ErrorData *error, const CdcRaw *raw, const char *column, const CdcRawValue *value)
{
	char	   *text = cdc_json_text(&value->json);
	int			len = strlen(error->message);

	/* a type's input function names all of a text, which may be anything */
	if (len > MESSAGE_BYTES)
		error->message = psprintf("%.*s...", pg_mbcliplen(error->message, len, MESSAGE_BYTES),
								  error->message);
	error->detail = psprintf("%s%sColumn \"%s\", value %s%s%s, event: %s.",
							 error->detail ? error->detail : "", error->detail ? "\n" : "", column,
							 value->json.type == jbvString ? "\"" : "",
							 text != NULL ? cdc_clip(text) : "null",
							 value->json.type == jbvString ? "\"" : "", cdc_raw_describe(raw));
}

static Datum
decode(CdcDecoder *d, const CdcRaw *raw, const char *column, const CdcRawValue *value, bool *isnull)
{
	MemoryContext context = CurrentMemoryContext;
	volatile Datum result = (Datum) 0;

	PG_TRY();
	{
		result = cdc_decode(d, value, isnull);
	}
	PG_CATCH();
	{
		ErrorData  *error = cdc_take_data_error(context);

		complete_error(error, raw, column, value);
		ReThrowError(error);
	}
	PG_END_TRY();
	return result;
}

/* (payload, modes, role, column, typmod, NULL::type) */
PG_FUNCTION_INFO_V1(cdc_event_view_value);
Datum
cdc_event_view_value(PG_FUNCTION_ARGS)
{
	ValueCall  *call = value_call(fcinfo);
	CdcRaw	   *raw = cdc_raw_get(fcinfo, &call->modes);
	CdcRawValue value;
	bool		found;
	bool		isnull;
	Datum		result;

	if (raw->kind != CDC_RAW_CHANGE || !cdc_raw_has(&raw->row))
		PG_RETURN_NULL();
	if (call->old)
		found = find_old(raw, call, &value);
	else
		found = find_in_row(raw, call->name, call->namelen, &call->hint, &call->old_hint, &value);
	if (!found && call->key)
		refuse_no_key(raw, call->name);
	if (!found || (!call->key && !call->old && cdc_decode_is_gap(&call->decoder, &value)))
		PG_RETURN_NULL();
	result = decode(&call->decoder, raw, call->name, &value, &isnull);
	if (isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(result);
}

/* The same for a domain, whose array type the last argument has. */
PG_FUNCTION_INFO_V1(cdc_event_view_domain_value);
Datum
cdc_event_view_domain_value(PG_FUNCTION_ARGS)
{
	return cdc_event_view_value(fcinfo);
}

/* ---------- columns without a value ---------- */

static UnchangedCall *
unchanged_call(FunctionCallInfo fcinfo)
{
	UnchangedCall *call = fcinfo->flinfo->fn_extra;
	MemoryContext old;
	Datum	   *names;
	Datum	   *types;
	int			ntypes;

	if (call != NULL)
		return call;
	old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	call = palloc0(sizeof(UnchangedCall));
	check_arguments(fcinfo, 3);
	cdc_modes_parse(text_arg(fcinfo, 1), &call->modes);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P_COPY(2), TEXTOID, -1, false, TYPALIGN_INT, &names, NULL,
					  &call->n);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P_COPY(3), REGTYPEOID, sizeof(Oid), true, TYPALIGN_INT,
					  &types, NULL, &ntypes);
	call->n = Min(call->n, ntypes);
	call->decoders = palloc(sizeof(CdcDecoder) * (call->n + 1));
	call->names = palloc(sizeof(char *) * (call->n + 1));
	call->hints = palloc0(sizeof(int) * (call->n + 1) * 2);
	for (int i = 0; i < call->n; i++)
	{
		call->names[i] = TextDatumGetCString(names[i]);
		if (!SearchSysCacheExists1(TYPEOID, types[i]))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("type with OID %u does not exist", DatumGetObjectId(types[i]))));
		cdc_decoder_init(&call->decoders[i], &call->modes, DatumGetObjectId(types[i]), -1,
						 fcinfo->flinfo->fn_mcxt);
	}
	MemoryContextSwitchTo(old);
	fcinfo->flinfo->fn_extra = call;
	return call;
}

/*
 * An insert, or a row of a snapshot, carries every column that its source has.
 * One that is not in it is none of the source's; in an update it may be one
 * that was left as it was.
 */
static bool
carries_all(const CdcRaw *raw)
{
	return strchr("crI", raw->op[0]) != NULL && raw->op[1] == '\0';
}

/* The columns that are not in an event; of an event that carries all: those absent, or the others. */
static Datum
list_columns(FunctionCallInfo fcinfo, bool absent)
{
	UnchangedCall *call = unchanged_call(fcinfo);
	CdcRaw	   *raw = cdc_raw_get(fcinfo, &call->modes);
	CdcRawValue value;
	ArrayBuildState *list = NULL;
	bool		all;

	if (raw->kind != CDC_RAW_CHANGE || !cdc_raw_has(&raw->row) || cdc_raw_is_delete(raw))
		PG_RETURN_NULL();
	all = raw->op[0] != '\0' && carries_all(raw);
	if (absent && !all)
		PG_RETURN_NULL();
	for (int i = 0; i < call->n; i++)
	{
		bool		found = find_in_row(raw, call->names[i], strlen(call->names[i]),
										&call->hints[i * 2], &call->hints[i * 2 + 1], &value);

		if (found ? !absent && cdc_decode_is_gap(&call->decoders[i], &value) : absent == all)
			list = accumArrayResult(list, CStringGetTextDatum(call->names[i]), false, TEXTOID,
									CurrentMemoryContext);
	}
	if (list == NULL)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(makeArrayResult(list, CurrentMemoryContext));
}

/* (payload, modes, columns, their types): the columns that an upsert does not carry */
PG_FUNCTION_INFO_V1(cdc_event_view_unchanged);
Datum
cdc_event_view_unchanged(PG_FUNCTION_ARGS)
{
	return list_columns(fcinfo, false);
}

/* (payload, modes, columns, their types): the columns that the source does not have */
PG_FUNCTION_INFO_V1(cdc_event_view_absent);
Datum
cdc_event_view_absent(PG_FUNCTION_ARGS)
{
	return list_columns(fcinfo, true);
}
