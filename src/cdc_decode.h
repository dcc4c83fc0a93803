/*-------------------------------------------------------------------------
 *
 * cdc_decode.h
 *		Raw events taken apart, and their values as those of a target's types.
 *
 * A raw event is a JSON document as a connector wrote it.  cdc_event_view_read
 * takes one apart, once for all columns of a row; cdc_decode makes typed values
 * of its fields.  What a JSON value means is said by the schema that stands in
 * the event, else by the modes that the view was made with and the target's
 * type: never by how the value looks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_DECODE_H
#define CDC_DECODE_H

#include "postgres.h"

#include "fmgr.h"
#include "utils/jsonb.h"

#include "cdc_compat.h"

/* ---------- modes: what a view was made with ---------- */

typedef enum CdcFormat
{
	CDC_FORMAT_DEBEZIUM, CDC_FORMAT_FLAT, CDC_FORMAT_WAL2JSON
} CdcFormat;

typedef enum CdcDecimals
{
	CDC_DECIMALS_PRECISE, CDC_DECIMALS_STRING, CDC_DECIMALS_DOUBLE
} CdcDecimals;

typedef enum CdcTimes
{
	CDC_TIMES_ADAPTIVE, CDC_TIMES_CONNECT, CDC_TIMES_ISO
} CdcTimes;

typedef enum CdcBinaries
{
	CDC_BINARIES_BASE64, CDC_BINARIES_HEX
} CdcBinaries;

typedef struct CdcModes
{
	CdcFormat	format;
	CdcDecimals decimals;
	CdcTimes	times;
	CdcBinaries binaries;
} CdcModes;

/* "debezium precise adaptive base64"; the first word alone is enough. */
extern void cdc_modes_parse(const char *text, CdcModes *modes);
extern char *cdc_modes_text(const CdcModes *modes);
extern const char *cdc_format_name(CdcFormat format);
extern void cdc_modes_read(CdcModes *modes, const char *format, const char *decimals,
						   const char *times, const char *binaries);

/* ---------- what a schema block says of a field ---------- */

typedef enum CdcMeaning
{
	CDC_MEANS_ITSELF,			/* the JSON value as it is */
	CDC_MEANS_BYTES,
	CDC_MEANS_DECIMAL,
	CDC_MEANS_BITS,
	CDC_MEANS_DATE,				/* days */
	CDC_MEANS_TIME_MILLIS, CDC_MEANS_TIME_MICROS, CDC_MEANS_TIME_NANOS,
	CDC_MEANS_STAMP_MILLIS, CDC_MEANS_STAMP_MICROS, CDC_MEANS_STAMP_NANOS,
	CDC_MEANS_DURATION_MICROS, CDC_MEANS_DURATION_NANOS
} CdcMeaning;

typedef struct CdcField
{
	char	   *name;
	int			namelen;
	bool		is_text;		/* the field's own type is string */
	CdcMeaning	meaning;
	int			scale;			/* of a decimal */
	int			length;			/* of bits, 0: not said */
	struct CdcField *items;		/* of an array's elements */
} CdcField;

/* ---------- an event taken apart (cdc_event_view_read.c) ---------- */

typedef enum CdcRawKind
{
	CDC_RAW_EMPTY,				/* NULL or null: the null record after a delete */
	CDC_RAW_NOTE,				/* heartbeat, transaction or schema metadata */
	CDC_RAW_CHANGE
} CdcRawKind;

/* One column of a wal2json change. */
typedef struct CdcRawItem
{
	JsonbValue	name;
	JsonbValue	type;			/* its type's name; jbvNull if not said */
	JsonbValue	value;
} CdcRawItem;

/* The image of a row: an object's fields, or wal2json's list. */
typedef struct CdcRawRow
{
	JsonbContainer *object;
	int			nitems;			/* -1: there is no such image */
	CdcRawItem *items;
	int			nfields;
	CdcField   *fields;			/* NULL: no schema */
} CdcRawRow;

typedef struct CdcRaw
{
	CdcModes	modes;
	CdcRawKind	kind;
	char	   *op;				/* NULL: empty */
	Jsonb	   *json;
	JsonbContainer *root;		/* without a schema block around it */
	JsonbContainer *source;		/* Debezium's source block, or NULL */
	CdcRawRow	row;			/* the new row, or that which a delete removes */
	CdcRawRow	old;			/* the row before an update */
} CdcRaw;

/* A value of a row, and what is said of it. */
typedef struct CdcRawValue
{
	JsonbValue	json;
	JsonbValue	type;			/* wal2json: its type's name */
	CdcField   *field;			/* NULL: no schema */
} CdcRawValue;

static inline bool
cdc_raw_has(const CdcRawRow *row)
{
	return row->object != NULL || row->nitems >= 0;
}

/* Of a change that writes or removes a row? */
static inline bool
cdc_raw_is_delete(const CdcRaw *raw)
{
	return raw->op[0] == 'd' || raw->op[0] == 'D';
}

/* The event of the payload that is argument 0 of a call, parsed once for all calls of a row. */
extern CdcRaw *cdc_raw_get(FunctionCallInfo fcinfo, const CdcModes *modes);
extern ErrorData *cdc_take_data_error(MemoryContext context);
extern bool cdc_raw_find(const CdcRawRow *row, const char *name, int len, int *hint,
						 CdcRawValue *value);
extern bool cdc_json_get(JsonbContainer *object, const char *name, JsonbValue *value);
extern char *cdc_json_text(const JsonbValue *value);
extern bool cdc_json_is(const JsonbValue *value, const char *text);
extern bool cdc_json_is_object(const JsonbValue *value);
extern bool cdc_json_is_array(const JsonbValue *value);
extern bool cdc_json_int64(const JsonbValue *value, int64 *result);
extern char *cdc_raw_describe(const CdcRaw *raw);
extern bool cdc_raw_table(const CdcRaw *raw, char **db, char **schema, char **table);
extern Datum cdc_raw_position(const CdcRaw *raw, const uint64 *commit, bool *isnull);

/* ---------- its schema block (cdc_event_view_schema.c) ---------- */

extern CdcField *cdc_schema_fields(JsonbContainer *fields, int *n);

/* ---------- values (cdc_decode.c) ---------- */

/* How the target's column takes a value: by the type that it has at heart. */
typedef enum CdcTaker
{
	CDC_TAKES_TEXT,				/* whatever its input function reads */
	CDC_TAKES_STRING,			/* text and varchar: any text */
	CDC_TAKES_INTEGER,
	CDC_TAKES_NUMERIC,
	CDC_TAKES_MONEY,
	CDC_TAKES_FLOAT,
	CDC_TAKES_BOOL,
	CDC_TAKES_BYTES,
	CDC_TAKES_BITS,
	CDC_TAKES_DATE, CDC_TAKES_TIME, CDC_TAKES_TIMETZ, CDC_TAKES_STAMP, CDC_TAKES_STAMPTZ,
	CDC_TAKES_INTERVAL,
	CDC_TAKES_JSON,
	CDC_TAKES_UUID,
	CDC_TAKES_HSTORE,
	CDC_TAKES_POINT,
	CDC_TAKES_GEOMETRY,			/* of PostGIS */
	CDC_TAKES_ARRAY
} CdcTaker;

typedef struct CdcDecoder
{
	CdcModes	modes;
	Oid			type;			/* as declared, perhaps a domain */
	Oid			base;
	int32		typmod;
	CdcTaker	taker;
	FmgrInfo	input;
	Oid			ioparam;
	struct CdcDecoder *element;	/* of an array */
	void	   *domain;			/* domain_check's memory */
	MemoryContext context;
} CdcDecoder;

extern void cdc_decoder_init(CdcDecoder *d, const CdcModes *modes, Oid type, int32 typmod,
							 MemoryContext context);
extern Datum cdc_decode(CdcDecoder *d, const CdcRawValue *value, bool *isnull);
extern bool cdc_decode_is_gap(const CdcDecoder *d, const CdcRawValue *value);
extern Datum cdc_decode_input(CdcDecoder *d, char *text);

/* ---------- numbers, bytes and bits (cdc_decode_number.c) ---------- */

extern char *cdc_decode_base64(const CdcDecoder *d, const JsonbValue *value, int *len);
extern Datum cdc_decode_bytes(CdcDecoder *d, const JsonbValue *value, const CdcField *field);
extern char *cdc_decode_bits(CdcDecoder *d, const JsonbValue *value, const CdcField *field);
extern char *cdc_decode_number(CdcDecoder *d, const JsonbValue *value, const CdcField *field);
extern Datum cdc_decode_money(CdcDecoder *d, const JsonbValue *value, const CdcField *field);

/* ---------- dates and times (cdc_decode_time.c) ---------- */

extern bool cdc_decode_time(CdcDecoder *d, const JsonbValue *value, const CdcField *field,
							Datum *result);

#endif							/* CDC_DECODE_H */
