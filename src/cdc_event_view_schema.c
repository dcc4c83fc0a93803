/*-------------------------------------------------------------------------
 *
 * cdc_event_view_schema.c
 *		The schema block of an event: what each field says it is.
 *
 * A field has a type of Kafka Connect (int64, bytes, struct ..) and often a
 * name that tells what it means (a count of microseconds since 1970, a decimal
 * of scale 2).  Names that are not known here mean nothing: the value then is
 * what its type says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "cdc_decode.h"

typedef struct Meaning
{
	const char *name;
	CdcMeaning	meaning;
} Meaning;

static const Meaning meanings[] = {
	{"io.debezium.time.MicroTimestamp", CDC_MEANS_STAMP_MICROS},
	{"io.debezium.time.Timestamp", CDC_MEANS_STAMP_MILLIS},
	{"io.debezium.time.NanoTimestamp", CDC_MEANS_STAMP_NANOS},
	{"io.debezium.time.Date", CDC_MEANS_DATE},
	{"io.debezium.time.Time", CDC_MEANS_TIME_MILLIS},
	{"io.debezium.time.MicroTime", CDC_MEANS_TIME_MICROS},
	{"io.debezium.time.NanoTime", CDC_MEANS_TIME_NANOS},
	{"io.debezium.time.MicroDuration", CDC_MEANS_DURATION_MICROS},
	{"io.debezium.time.NanoDuration", CDC_MEANS_DURATION_NANOS},
	{"io.debezium.data.VariableScaleDecimal", CDC_MEANS_DECIMAL},
	{"io.debezium.data.Bits", CDC_MEANS_BITS},
	{"org.apache.kafka.connect.data.Decimal", CDC_MEANS_DECIMAL},
	{"org.apache.kafka.connect.data.Date", CDC_MEANS_DATE},
	{"org.apache.kafka.connect.data.Time", CDC_MEANS_TIME_MILLIS},
	{"org.apache.kafka.connect.data.Timestamp", CDC_MEANS_STAMP_MILLIS},
};

static CdcMeaning
meaning_of(JsonbContainer *schema, bool bytes)
{
	JsonbValue	name;

	if (cdc_json_get(schema, "name", &name))
		for (int i = 0; i < lengthof(meanings); i++)
			if (cdc_json_is(&name, meanings[i].name))
				return meanings[i].meaning;
	return bytes ? CDC_MEANS_BYTES : CDC_MEANS_ITSELF;
}

/* A parameter is a text of digits; 0 without one. */
static int
parameter(JsonbContainer *schema, const char *name)
{
	JsonbValue	parameters;
	JsonbValue	value;

	if (!cdc_json_get(schema, "parameters", &parameters) || !cdc_json_is_object(&parameters) ||
		!cdc_json_get(parameters.val.binary.data, name, &value) || value.type == jbvNull)
		return 0;
	return (int) strtol(cdc_json_text(&value), NULL, 10);
}

static void
read_field(JsonbContainer *schema, CdcField *field)
{
	JsonbValue	value;
	bool		typed;
	bool		bytes;

	check_stack_depth();
	memset(field, 0, sizeof(CdcField));
	if (cdc_json_get(schema, "field", &value) && value.type == jbvString)
	{
		field->name = cdc_json_text(&value);
		field->namelen = value.val.string.len;
	}
	typed = cdc_json_get(schema, "type", &value);
	bytes = typed && cdc_json_is(&value, "bytes");
	field->is_text = typed && cdc_json_is(&value, "string");
	field->meaning = meaning_of(schema, bytes);
	if (field->meaning == CDC_MEANS_DECIMAL)
		field->scale = parameter(schema, "scale");
	if (cdc_json_get(schema, "items", &value) && cdc_json_is_object(&value))
	{
		field->items = palloc(sizeof(CdcField));
		read_field(value.val.binary.data, field->items);
	}
}

/* What the "fields" of a schema say, in their order and the current context. */
CdcField *
cdc_schema_fields(JsonbContainer *fields, int *n)
{
	int			count = JsonContainerSize(fields);
	CdcField   *result = palloc(sizeof(CdcField) * (count + 1));

	*n = 0;
	for (int i = 0; i < count; i++)
	{
		JsonbValue *v = getIthJsonbValueFromContainer(fields, i);

		if (cdc_json_is_object(v))
			read_field(v->val.binary.data, &result[(*n)++]);
	}
	return result;
}
