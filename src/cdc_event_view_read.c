/*-------------------------------------------------------------------------
 *
 * cdc_event_view_read.c
 *		A raw event taken apart: which kind it is, its op, its row images.
 *
 * A view asks for an event column by column, so what was parsed last is kept
 * for each query, together with the payload's stored bytes: the same bytes
 * (for a value out of line: the pointer to it) are the same event.  What a
 * schema block says is kept as long as the block does not change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "cdc_apply.h"
#include "cdc_decode.h"

/* What a schema says of the fields of one image, and the bytes that say it. */
typedef struct SchemaCache
{
	MemoryContext context;		/* of all of it */
	char	   *image;
	int			len;
	int			n;
	CdcField   *fields;
} SchemaCache;

/* The last event of one query. */
typedef struct RawCache
{
	struct RawCache *next;
	MemoryContext owner;		/* the query's: dies with it */
	MemoryContext context;		/* the event's */
	MemoryContextCallback callback;
	CdcFormat	format;
	Oid			type;
	bool		valid;
	char	   *image;
	Size		len;
	Size		room;
	SchemaCache schemas[2];		/* of the row, and of the row before */
	CdcRaw		raw;
} RawCache;

static RawCache *caches = NULL;

/* ---------- values of JSON ---------- */

bool
cdc_json_get(JsonbContainer *object, const char *name, JsonbValue *value)
{
	return getKeyJsonValueFromContainer(object, name, strlen(name), value) != NULL;
}

bool
cdc_json_is(const JsonbValue *value, const char *text)
{
	return value->type == jbvString && value->val.string.len == (int) strlen(text) &&
		memcmp(value->val.string.val, text, value->val.string.len) == 0;
}

bool
cdc_json_is_object(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsObject(value->val.binary.data);
}

bool
cdc_json_is_array(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsArray(value->val.binary.data);
}

/* A text as it is, anything else as JSON; NULL for null. */
char *
cdc_json_text(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvNull:
			return NULL;
		case jbvString:
			return pnstrdup(value->val.string.val, value->val.string.len);
		case jbvNumeric:
			return DatumGetCString(DirectFunctionCall1(numeric_out,
													   NumericGetDatum(value->val.numeric)));
		case jbvBool:
			return pstrdup(value->val.boolean ? "true" : "false");
		default:
			return JsonbToCString(NULL, value->val.binary.data, value->val.binary.len);
	}
}

/* A whole number of 64 bits; false for anything else. */
bool
cdc_json_int64(const JsonbValue *value, int64 *result)
{
	char	   *text;
	char	   *end;

	if (value->type != jbvNumeric)
		return false;
	text = cdc_json_text(value);
	errno = 0;
	*result = strtoi64(text, &end, 10);
	if (errno != 0 || end == text)
		return false;
	/* 5.00 is a whole number */
	return *end == '\0' || (*end == '.' && strspn(end + 1, "0") == strlen(end + 1));
}

static bool
get_object(JsonbContainer *object, const char *name, JsonbContainer **result)
{
	JsonbValue	value;

	if (!cdc_json_get(object, name, &value) || !cdc_json_is_object(&value))
		return false;
	*result = value.val.binary.data;
	return true;
}

static bool
has(JsonbContainer *object, const char *name)
{
	JsonbValue	value;

	return cdc_json_get(object, name, &value);
}

static char *
get_text(JsonbContainer *object, const char *name)
{
	JsonbValue	value;

	return cdc_json_get(object, name, &value) ? cdc_json_text(&value) : NULL;
}

static void
refuse_shape(const CdcRaw *raw, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("a raw event is not one of format \"%s\"", cdc_format_name(raw->modes.format)),
			 errdetail("%s The event: %s", detail,
					   cdc_clip(JsonbToCString(NULL, &raw->json->root, VARSIZE(raw->json))))));
}

/* ---------- schema blocks ---------- */

/*
 * {"schema":..,"payload":..} and nothing else?  *payload is left as it is if
 * not, *schema NULL if there is none to believe.
 */
static bool
unwrap(JsonbContainer *root, JsonbContainer **schema, JsonbValue *payload)
{
	JsonbValue	s;

	*schema = NULL;
	if (JsonContainerSize(root) != 2 || !cdc_json_get(root, "schema", &s) || !has(root, "payload") ||
		(s.type != jbvNull && !(cdc_json_is_object(&s) && has(s.val.binary.data, "type"))))
		return false;
	cdc_json_get(root, "payload", payload);
	if (s.type != jbvNull)
		*schema = s.val.binary.data;
	return true;
}

/* The "fields" of a schema, or of its field of that name. */
static bool
schema_fields(JsonbContainer *schema, const char *name, JsonbValue *fields)
{
	JsonbValue	value;

	if (schema == NULL || !cdc_json_get(schema, "fields", fields) || !cdc_json_is_array(fields))
		return false;
	if (name == NULL)
		return true;
	for (int i = 0; i < JsonContainerSize(fields->val.binary.data); i++)
	{
		JsonbValue *f = getIthJsonbValueFromContainer(fields->val.binary.data, i);

		if (cdc_json_is_object(f) && cdc_json_get(f->val.binary.data, "field", &value) &&
			cdc_json_is(&value, name))
			return schema_fields(f->val.binary.data, NULL, fields);
	}
	return false;
}

static void
read_schema(RawCache *cache, int which, JsonbContainer *schema, const char *name, CdcRawRow *row)
{
	SchemaCache *known = &cache->schemas[which];
	JsonbValue	fields;
	MemoryContext old;

	if (!schema_fields(schema, name, &fields))
		return;
	if (known->len != fields.val.binary.len || known->image == NULL ||
		memcmp(known->image, fields.val.binary.data, known->len) != 0)
	{
		known->image = NULL;
		MemoryContextReset(known->context);
		old = MemoryContextSwitchTo(known->context);
		known->len = fields.val.binary.len;
		known->fields = cdc_schema_fields(fields.val.binary.data, &known->n);
		known->image = memcpy(palloc(known->len), fields.val.binary.data, known->len);
		MemoryContextSwitchTo(old);
	}
	row->fields = known->fields;
	row->nfields = known->n;
}

/* ---------- formats ---------- */

/* Heartbeats, and metadata of transactions and of schemas, are no changes. */
static bool
is_note(JsonbContainer *root)
{
	return (has(root, "ts_ms") && JsonContainerSize(root) <= 3 && !has(root, "before") &&
			!has(root, "after") && !has(root, "source") &&
			(JsonContainerSize(root) == 1 || has(root, "ts_us"))) ||
		(has(root, "status") && has(root, "id") && has(root, "data_collections")) ||
		(has(root, "source") && (has(root, "tableChanges") || has(root, "ddl") ||
								 has(root, "message")));
}

static void
read_image(CdcRaw *raw, const char *name, CdcRawRow *row)
{
	JsonbValue	value;

	if (!cdc_json_get(raw->root, name, &value) || value.type == jbvNull)
		return;
	if (!cdc_json_is_object(&value))
		refuse_shape(raw, psprintf("Its \"%s\" is not an object.", name));
	row->object = value.val.binary.data;
}

static void
read_envelope(RawCache *cache, JsonbContainer *schema)
{
	CdcRaw	   *raw = &cache->raw;

	raw->op = get_text(raw->root, "op");
	if (raw->op == NULL)
	{
		if (!is_note(raw->root))
			refuse_shape(raw, "It has no \"op\".");
		raw->kind = CDC_RAW_NOTE;
		return;
	}
	(void) get_object(raw->root, "source", &raw->source);
	if (strcmp(raw->op, "m") == 0 || strcmp(raw->op, "t") == 0)
		return;
	read_image(raw, cdc_raw_is_delete(raw) ? "before" : "after", &raw->row);
	if (strcmp(raw->op, "u") == 0)
		read_image(raw, "before", &raw->old);
	if (!cdc_raw_has(&raw->row))
		refuse_shape(raw, psprintf("Its op is \"%s\", but it has no \"%s\".", cdc_clip(raw->op),
								   cdc_raw_is_delete(raw) ? "before" : "after"));
	read_schema(cache, 0, schema, cdc_raw_is_delete(raw) ? "before" : "after", &raw->row);
	if (cdc_raw_has(&raw->old))
		read_schema(cache, 1, schema, "before", &raw->old);
}

static void
read_flat(RawCache *cache, JsonbContainer *schema)
{
	CdcRaw	   *raw = &cache->raw;
	char	   *deleted = get_text(raw->root, "__deleted");

	raw->op = get_text(raw->root, "__op");
	if (deleted != NULL && strcmp(deleted, "true") == 0)
		raw->op = pstrdup("d");
	if (raw->op == NULL && deleted == NULL && is_note(raw->root))
	{
		raw->kind = CDC_RAW_NOTE;
		return;
	}
	if (raw->op == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a flattened event has no \"__op\""),
				 errdetail("The event: %s",
						   cdc_clip(JsonbToCString(NULL, raw->root, VARSIZE(raw->json)))),
				 errhint("Set add.fields of ExtractNewRecordState to op and the source's position, such as op,source.lsn, and leave add.fields.prefix as it is.")));
	if (strcmp(raw->op, "m") == 0 || strcmp(raw->op, "t") == 0)
		return;
	raw->row.object = raw->root;
	read_schema(cache, 0, schema, NULL, &raw->row);
}

/* wal2json's list of columns; false if the change has none. */
static bool
read_items(CdcRaw *raw, const char *name, CdcRawRow *row)
{
	JsonbValue	list;
	int			n;

	if (!cdc_json_get(raw->root, name, &list) || !cdc_json_is_array(&list))
		return false;
	n = JsonContainerSize(list.val.binary.data);
	row->items = palloc(sizeof(CdcRawItem) * (n + 1));
	row->nitems = 0;
	for (int i = 0; i < n; i++)
	{
		JsonbValue *v = getIthJsonbValueFromContainer(list.val.binary.data, i);
		CdcRawItem *item = &row->items[row->nitems];

		if (!cdc_json_is_object(v) || !cdc_json_get(v->val.binary.data, "name", &item->name) ||
			item->name.type != jbvString || !cdc_json_get(v->val.binary.data, "value", &item->value))
			refuse_shape(raw, psprintf("An entry of its \"%s\" has no \"name\" or no \"value\".", name));
		if (!cdc_json_get(v->val.binary.data, "type", &item->type))
			item->type.type = jbvNull;
		row->nitems++;
	}
	return true;
}

static void
read_wal2json(RawCache *cache)
{
	CdcRaw	   *raw = &cache->raw;
	bool		remove;

	raw->op = get_text(raw->root, "action");
	if (raw->op == NULL && has(raw->root, "change"))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("wal2json wrote this in its format version 1"),
				 errdetail("A row of that holds a whole transaction."),
				 errhint("Set the option format-version to 2.")));
	if (raw->op == NULL)
		refuse_shape(raw, "It has no \"action\".");
	if (raw->op[0] == '\0' || strchr("IUD", raw->op[0]) == NULL || raw->op[1] != '\0')
		return;
	remove = cdc_raw_is_delete(raw);
	if (!read_items(raw, remove ? "identity" : "columns", &raw->row))
		refuse_shape(raw, psprintf("Its action is \"%s\", but it has no \"%s\".", raw->op,
								   remove ? "identity" : "columns"));
	if (raw->op[0] == 'U')
		(void) read_items(raw, "identity", &raw->old);
}

/* ---------- the payload ---------- */

/*
 * In a PG_CATCH: the error in flight, to be completed and thrown again.  One
 * whose class says nothing of a value (a cancel, say) goes on as it is.
 */
ErrorData *
cdc_take_data_error(MemoryContext context)
{
	static const char *const classes[] = {"22", "23", "42", "54"};
	ErrorData  *error;
	bool		of_value = false;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	for (int i = 0; i < lengthof(classes); i++)
		of_value |= strncmp(unpack_sql_state(error->sqlerrcode), classes[i], 2) == 0;
	if (!of_value)
		PG_RE_THROW();
	FlushErrorState();
	return error;
}

static Jsonb *
parse_payload(Oid type, Datum payload)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *string;
	Jsonb	   *json;

	if (type == JSONBOID)
		return (Jsonb *) PG_DETOAST_DATUM_COPY(payload);
	string = TextDatumGetCString(payload);
	PG_TRY();
	{
		json = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(string)));
	}
	PG_CATCH();
	{
		ErrorData  *error = cdc_take_data_error(context);

		error->detail = psprintf("%s%sThe payload of a raw event: %s",
								 error->detail ? error->detail : "", error->detail ? "\n" : "",
								 cdc_clip(string));
		ReThrowError(error);
	}
	PG_END_TRY();
	return json;
}

static void
take_apart(RawCache *cache, Oid type, Datum payload)
{
	CdcRaw	   *raw = &cache->raw;
	JsonbContainer *schema = NULL;
	JsonbValue	root;

	raw->row.nitems = raw->old.nitems = -1;
	raw->json = parse_payload(type, payload);
	root.type = jbvBinary;
	root.val.binary.data = &raw->json->root;
	root.val.binary.len = VARSIZE(raw->json) - VARHDRSZ;
	if (JB_ROOT_IS_SCALAR(raw->json))
		(void) JsonbExtractScalar(&raw->json->root, &root);
	else if (raw->modes.format != CDC_FORMAT_WAL2JSON && cdc_json_is_object(&root))
		(void) unwrap(root.val.binary.data, &schema, &root);
	if (root.type == jbvNull)
	{
		raw->kind = CDC_RAW_EMPTY;
		return;
	}
	if (!cdc_json_is_object(&root))
		refuse_shape(raw, "It is not a JSON object.");
	raw->kind = CDC_RAW_CHANGE;
	raw->root = root.val.binary.data;
	if (raw->modes.format == CDC_FORMAT_WAL2JSON)
		read_wal2json(cache);
	else if (raw->modes.format == CDC_FORMAT_FLAT)
		read_flat(cache, schema);
	else
		read_envelope(cache, schema);
}

/* ---------- what was parsed last ---------- */

static void
forget_cache(void *arg)
{
	for (RawCache **at = &caches; *at != NULL; at = &(*at)->next)
		if (*at == arg)
		{
			*at = (*at)->next;
			return;
		}
}

static RawCache *
find_cache(MemoryContext owner)
{
	RawCache   *cache;

	for (cache = caches; cache != NULL; cache = cache->next)
		if (cache->owner == owner)
			return cache;
	cache = MemoryContextAllocZero(owner, sizeof(RawCache));
	cache->owner = owner;
	cache->context = AllocSetContextCreate(owner, "cdc raw event", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < lengthof(cache->schemas); i++)
		cache->schemas[i].context = AllocSetContextCreate(owner, "cdc event schema",
														  ALLOCSET_SMALL_SIZES);
	cache->callback.func = forget_cache;
	cache->callback.arg = cache;
	MemoryContextRegisterResetCallback(owner, &cache->callback);
	cache->next = caches;
	caches = cache;
	return cache;
}

static void
keep_image(RawCache *cache, const char *bytes, Size len)
{
	if (len > cache->room)
	{
		if (cache->image != NULL)
			pfree(cache->image);
		cache->room = 0;
		cache->image = MemoryContextAllocHuge(cache->owner, len);
		cache->room = len;
	}
	memcpy(cache->image, bytes, len);
	cache->len = len;
}

CdcRaw *
cdc_raw_get(FunctionCallInfo fcinfo, const CdcModes *modes)
{
	RawCache   *cache = find_cache(fcinfo->flinfo->fn_mcxt);
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 0);
	struct varlena *stored;
	MemoryContext old;
	Datum		payload;

	if (type != JSONBOID && type != JSONOID && type != TEXTOID)
		type = getBaseType(type);
	if (type != JSONBOID && type != JSONOID && type != TEXTOID && type != VARCHAROID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("a payload of type %s cannot be read", format_type_be(type)),
				 errdetail("A payload is jsonb, json or text.")));
	if (PG_ARGISNULL(0))
	{
		cache->valid = false;
		memset(&cache->raw, 0, sizeof(CdcRaw));
		cache->raw.modes = *modes;
		return &cache->raw;
	}
	payload = PG_GETARG_DATUM(0);
	stored = (struct varlena *) DatumGetPointer(payload);
	/* an expanded value, or one in memory elsewhere, has no bytes to know it by */
	if (VARATT_IS_EXTERNAL(stored) && !VARATT_IS_EXTERNAL_ONDISK(stored))
	{
		stored = PG_DETOAST_DATUM(payload);
		payload = PointerGetDatum(stored);
	}
	if (cache->valid && cache->format == modes->format && cache->type == type &&
		cache->len == VARSIZE_ANY(stored) && memcmp(cache->image, stored, cache->len) == 0)
		return &cache->raw;

	cache->valid = false;
	MemoryContextReset(cache->context);
	memset(&cache->raw, 0, sizeof(CdcRaw));
	cache->raw.modes = *modes;
	old = MemoryContextSwitchTo(cache->context);
	take_apart(cache, type, payload);
	MemoryContextSwitchTo(old);
	keep_image(cache, (char *) stored, VARSIZE_ANY(stored));
	cache->format = modes->format;
	cache->type = type;
	cache->valid = true;
	return &cache->raw;
}
