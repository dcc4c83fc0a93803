/*-------------------------------------------------------------------------
 *
 * cdc_decode.c
 *		Values of raw events as values of a target's types.
 *
 * A JSON value goes to the column's type on one of three ways: as the number,
 * date or bytes that the schema or the view's modes say it is
 * (cdc_decode_number, cdc_decode_time), as an array element by element, or as
 * text through the type's input function, which knows best what it reads.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/syscache.h"

#include "cdc_decode.h"

/* What Debezium writes in place of an unchanged value that the log lacks. */
#define PLACEHOLDER			"__debezium_unavailable_value"
#define PLACEHOLDER_LEN		((int) sizeof(PLACEHOLDER) - 1)
/* the same as bytes, and the name-based UUID of it, which stands in uuid[] */
#define PLACEHOLDER_BASE64	"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
#define PLACEHOLDER_HEX		"5f5f646562657a69756d5f756e617661696c61626c655f76616c7565"
#define PLACEHOLDER_UUID	"b68a35a7-17ad-35b3-af2a-ae46edb4545a"

/* ---------- the column's type ---------- */

/* Types of other extensions, by their names. */
static CdcTaker
taker_by_name(Oid base)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(base));
	CdcTaker	taker = CDC_TAKES_TEXT;
	const char *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", base);
	name = NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname);
	if (strcmp(name, "hstore") == 0)
		taker = CDC_TAKES_HSTORE;
	else if (strcmp(name, "geometry") == 0 || strcmp(name, "geography") == 0)
		taker = CDC_TAKES_GEOMETRY;
	ReleaseSysCache(tuple);
	return taker;
}

static CdcTaker
taker_of(Oid base)
{
	switch (base)
	{
		case TEXTOID:
		case VARCHAROID:
			return CDC_TAKES_STRING;
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
			return CDC_TAKES_INTEGER;
		case NUMERICOID:
			return CDC_TAKES_NUMERIC;
		case CASHOID:
			return CDC_TAKES_MONEY;
		case FLOAT4OID:
		case FLOAT8OID:
			return CDC_TAKES_FLOAT;
		case BOOLOID:
			return CDC_TAKES_BOOL;
		case BYTEAOID:
			return CDC_TAKES_BYTES;
		case BITOID:
		case VARBITOID:
			return CDC_TAKES_BITS;
		case DATEOID:
			return CDC_TAKES_DATE;
		case TIMEOID:
			return CDC_TAKES_TIME;
		case TIMETZOID:
			return CDC_TAKES_TIMETZ;
		case TIMESTAMPOID:
			return CDC_TAKES_STAMP;
		case TIMESTAMPTZOID:
			return CDC_TAKES_STAMPTZ;
		case INTERVALOID:
			return CDC_TAKES_INTERVAL;
		case JSONOID:
		case JSONBOID:
			return CDC_TAKES_JSON;
		case UUIDOID:
			return CDC_TAKES_UUID;
		case POINTOID:
			return CDC_TAKES_POINT;
		default:
			if (OidIsValid(get_element_type(base)))
				return CDC_TAKES_ARRAY;
			return base >= FirstNormalObjectId ? taker_by_name(base) : CDC_TAKES_TEXT;
	}
}

/*
 * Make *d ready for values of a type; what it keeps is allocated in context
 * and lives as long as *d does.  A domain brings its own typmod.
 */
void
cdc_decoder_init(CdcDecoder *d, const CdcModes *modes, Oid type, int32 typmod,
				 MemoryContext context)
{
	Oid			input;

	memset(d, 0, sizeof(CdcDecoder));
	d->modes = *modes;
	d->type = type;
	d->typmod = typmod;
	d->base = getBaseTypeAndTypmod(type, &d->typmod);
	d->taker = taker_of(d->base);
	d->context = context;
	getTypeInputInfo(d->base, &input, &d->ioparam);
	fmgr_info_cxt(input, &d->input, context);
	if (d->taker == CDC_TAKES_ARRAY)
	{
		d->element = MemoryContextAlloc(context, sizeof(CdcDecoder));
		cdc_decoder_init(d->element, modes, get_element_type(d->base), d->typmod, context);
	}
}

/* The type's own reading of a text. */
Datum
cdc_decode_input(CdcDecoder *d, char *text)
{
	return InputFunctionCall(&d->input, text, d->ioparam, d->typmod);
}

/* ---------- places that a value leaves empty ---------- */

static bool
is_byte_of_placeholder(const CdcDecoder *element, const JsonbValue *v, int i)
{
	JsonbValue	bytes;
	int64		number;
	char	   *raw;
	int			len;

	if (v->type == jbvBool)
		return v->val.boolean;
	if (v->type == jbvNumeric)
		return cdc_json_int64(v, &number) && number == PLACEHOLDER[i];
	if (element->taker != CDC_TAKES_NUMERIC)
		return false;
	bytes = *v;
	if (cdc_json_is_object(v) && !cdc_json_get(v->val.binary.data, "value", &bytes))
		return false;
	if (bytes.type != jbvString || bytes.val.string.len != 4)
		return false;
	raw = cdc_decode_base64(element, &bytes, &len);
	return raw != NULL && len == 1 && raw[0] == PLACEHOLDER[i];
}

static bool is_text_placeholder(const CdcDecoder *d, const JsonbValue *v);

/*
 * Arrays of texts, bytes and uuids have the placeholder as their only element,
 * other arrays its bytes as their elements.
 */
static bool
is_array_placeholder(const CdcDecoder *d, const JsonbValue *v)
{
	JsonbContainer *array = v->val.binary.data;
	int			n = JsonContainerSize(array);
	JsonbValue *first;

	if (n == 1)
	{
		first = getIthJsonbValueFromContainer(array, 0);
		return is_text_placeholder(d->element, first) ||
			(d->element->taker == CDC_TAKES_UUID && cdc_json_is(first, PLACEHOLDER_UUID));
	}
	if (n != PLACEHOLDER_LEN)
		return false;
	for (int i = 0; i < n; i++)
		if (!is_byte_of_placeholder(d->element, getIthJsonbValueFromContainer(array, i), i))
			return false;
	return true;
}

static bool
is_text_placeholder(const CdcDecoder *d, const JsonbValue *v)
{
	if (v->type != jbvString)
		return false;
	if (cdc_json_is(v, PLACEHOLDER))
		return true;
	if (d->taker == CDC_TAKES_BYTES)
		return cdc_json_is(v, PLACEHOLDER_BASE64) || cdc_json_is(v, PLACEHOLDER_HEX);
	if (d->taker == CDC_TAKES_HSTORE)
		return cdc_json_is(v, "{\"" PLACEHOLDER "\":\"" PLACEHOLDER "\"}");
	return false;
}

/* Does a value say that the event does not carry it? */
bool
cdc_decode_is_gap(const CdcDecoder *d, const CdcRawValue *value)
{
	const JsonbValue *v = &value->json;
	JsonbValue	inner;

	if (d->modes.format == CDC_FORMAT_WAL2JSON)
		return false;			/* it leaves the column out */
	if (v->type == jbvString)
		return is_text_placeholder(d, v);
	if (d->taker == CDC_TAKES_ARRAY && cdc_json_is_array(v))
		return is_array_placeholder(d, v);
	return d->taker == CDC_TAKES_HSTORE && cdc_json_is_object(v) &&
		JsonContainerSize(v->val.binary.data) == 1 &&
		cdc_json_get(v->val.binary.data, PLACEHOLDER, &inner) && cdc_json_is(&inner, PLACEHOLDER);
}

/* ---------- values that are made of others ---------- */

static Datum decode_value(CdcDecoder *d, const JsonbValue *v, const CdcField *field);

static void
check_domain(CdcDecoder *d, Datum value, bool isnull)
{
	if (d->type != d->base)
		domain_check(value, isnull, d->type, &d->domain, d->context);
}

/* The elements of a JSON array, and of those in it: one dimension each. */
static Datum
decode_array(CdcDecoder *d, const JsonbValue *v, const CdcField *field)
{
	JsonbContainer *array = v->val.binary.data;
	ArrayBuildStateAny *state;
	int			n = JsonContainerSize(array);
	const CdcField *items = field != NULL ? field->items : NULL;

	check_stack_depth();
	if (n == 0)
		return PointerGetDatum(construct_empty_array(d->element->type));
	state = NULL;
	for (int i = 0; i < n; i++)
	{
		JsonbValue *e = getIthJsonbValueFromContainer(array, i);
		bool		nested = cdc_json_is_array(e) && d->element->taker != CDC_TAKES_JSON;
		Datum		datum = (Datum) 0;

		CHECK_FOR_INTERRUPTS();
		if (state == NULL)
			state = initArrayResultAny(nested ? d->base : d->element->type, CurrentMemoryContext,
									   true);
		if (nested != (state->arraystate != NULL))
			ereport(ERROR,
					(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
					 errmsg("arrays and other values are mixed in one array")));
		if (nested)
			datum = decode_array(d, e, items != NULL && items->items != NULL ? items : field);
		else
		{
			if (e->type != jbvNull)
				datum = decode_value(d->element, e, items);
			check_domain(d->element, datum, e->type == jbvNull);
		}
		accumArrayResultAny(state, datum, e->type == jbvNull,
							nested ? d->base : d->element->type, CurrentMemoryContext);
	}
	return makeArrayResultAny(state, CurrentMemoryContext, true);
}

/* One side of an hstore pair. */
static void
add_hstore_text(StringInfo s, const char *text, int len)
{
	appendStringInfoChar(s, '"');
	for (int i = 0; i < len; i++)
	{
		if (text[i] == '"' || text[i] == '\\')
			appendStringInfoChar(s, '\\');
		appendStringInfoChar(s, text[i]);
	}
	appendStringInfoChar(s, '"');
}

/* A map, or with the connector's default mode a text of one, as hstore reads it. */
static char *
decode_hstore(const JsonbValue *v)
{
	JsonbContainer *object;
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	part;
	StringInfoData s;

	if (cdc_json_is_object(v))
		object = v->val.binary.data;
	else
	{
		Jsonb	   *json = DatumGetJsonbP(DirectFunctionCall1(jsonb_in,
															  CStringGetDatum(cdc_json_text(v))));

		if (!JB_ROOT_IS_OBJECT(json))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("an hstore is neither a map nor a text of one")));
		object = &json->root;
	}
	initStringInfo(&s);
	it = JsonbIteratorInit(object);
	while ((token = JsonbIteratorNext(&it, &part, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
		{
			if (s.len > 0)
				appendStringInfoString(&s, ", ");
			add_hstore_text(&s, part.val.string.val, part.val.string.len);
			appendStringInfoString(&s, "=>");
		}
		else if (token == WJB_VALUE && part.type == jbvNull)
			appendStringInfoString(&s, "NULL");
		else if (token == WJB_VALUE)
		{
			char	   *text = cdc_json_text(&part);

			add_hstore_text(&s, text, strlen(text));
		}
	}
	return s.data;
}

/* {"x":1,"y":2,..} as "(1,2)" */
static char *
decode_point(const JsonbValue *v)
{
	JsonbValue	x;
	JsonbValue	y;

	if (!cdc_json_is_object(v) || !cdc_json_get(v->val.binary.data, "x", &x) ||
		!cdc_json_get(v->val.binary.data, "y", &y) || x.type == jbvNull || y.type == jbvNull)
		return cdc_json_text(v);
	return psprintf("(%s,%s)", cdc_json_text(&x), cdc_json_text(&y));
}

/* {"wkb":"base64","srid":4326} as "SRID=4326;hex" */
static char *
decode_geometry(const CdcDecoder *d, const JsonbValue *v)
{
	JsonbValue	wkb;
	JsonbValue	srid;
	StringInfoData s;
	char	   *bytes;
	int			len;

	if (!cdc_json_is_object(v) || !cdc_json_get(v->val.binary.data, "wkb", &wkb) ||
		wkb.type != jbvString)
		return cdc_json_text(v);
	bytes = cdc_decode_base64(d, &wkb, &len);
	if (bytes == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("a geometry's wkb is not base64")));
	initStringInfo(&s);
	if (cdc_json_get(v->val.binary.data, "srid", &srid) && srid.type == jbvNumeric)
		appendStringInfo(&s, "SRID=%s;", cdc_json_text(&srid));
	enlargeStringInfo(&s, len * 2 + 1);
	hex_encode(bytes, len, s.data + s.len);
	s.len += len * 2;
	s.data[s.len] = '\0';
	return s.data;
}

/* 0 and 1 are what MySQL's and Oracle's booleans are. */
static char *
decode_bool(const JsonbValue *v)
{
	int64		number;

	if (v->type == jbvNumeric && cdc_json_int64(v, &number) && (number == 0 || number == 1))
		return number == 1 ? "true" : "false";
	return cdc_json_text(v);
}

/* ---------- a value ---------- */

static Datum
decode_string(CdcDecoder *d, const JsonbValue *v, const CdcField *field)
{
	/* a copy of the text is all that its input function would make */
	if (d->taker == CDC_TAKES_STRING && v->type == jbvString && d->typmod < 0 &&
		(field == NULL || field->meaning != CDC_MEANS_DECIMAL))
		return PointerGetDatum(cstring_to_text_with_len(v->val.string.val, v->val.string.len));
	if (field != NULL && field->meaning == CDC_MEANS_DECIMAL)
		return cdc_decode_input(d, cdc_decode_number(d, v, field));
	return cdc_decode_input(d, cdc_json_text(v));
}

/* A value of Debezium, not null. */
static Datum
decode_value(CdcDecoder *d, const JsonbValue *v, const CdcField *field)
{
	Datum		result;

	switch (d->taker)
	{
		case CDC_TAKES_ARRAY:
			if (cdc_json_is_array(v))
				return decode_array(d, v, field);
			return cdc_decode_input(d, cdc_json_text(v));
		case CDC_TAKES_INTEGER:
		case CDC_TAKES_NUMERIC:
		case CDC_TAKES_FLOAT:
			return cdc_decode_input(d, cdc_decode_number(d, v, field));
		case CDC_TAKES_MONEY:
			return cdc_decode_money(d, v, field);
		case CDC_TAKES_BOOL:
			return cdc_decode_input(d, decode_bool(v));
		case CDC_TAKES_BYTES:
			return cdc_decode_bytes(d, v, field);
		case CDC_TAKES_BITS:
			return cdc_decode_input(d, cdc_decode_bits(d, v, field));
		case CDC_TAKES_HSTORE:
			return cdc_decode_input(d, decode_hstore(v));
		case CDC_TAKES_POINT:
			return cdc_decode_input(d, decode_point(v));
		case CDC_TAKES_GEOMETRY:
			return cdc_decode_input(d, decode_geometry(d, v));
		default:
			break;
	}
	if (cdc_decode_time(d, v, field, &result))
		return result;
	return decode_string(d, v, field);
}

/*
 * A value of wal2json is the text of its type's output function; numbers and
 * booleans stand without quotes, and a bytea without its "\x".
 */
static Datum
decode_output(CdcDecoder *d, const CdcRawValue *value)
{
	const JsonbValue *v = &value->json;
	char	   *text = cdc_json_text(v);

	if (d->taker == CDC_TAKES_BYTES && v->type == jbvString &&
		(value->type.type != jbvString || cdc_json_is(&value->type, "bytea")) &&
		strncmp(text, "\\x", 2) != 0)
		text = psprintf("\\x%s", text);
	return cdc_decode_input(d, text);
}

/*
 * The value as one of the decoder's type.  What does not convert is an error
 * that the caller completes: who called knows column and event.
 */
Datum
cdc_decode(CdcDecoder *d, const CdcRawValue *value, bool *isnull)
{
	Datum		result;

	*isnull = value->json.type == jbvNull;
	if (*isnull)
		return (Datum) 0;
	if (d->modes.format == CDC_FORMAT_WAL2JSON)
		result = decode_output(d, value);
	else
		result = decode_value(d, &value->json, value->field);
	check_domain(d, result, false);
	return result;
}
