/*-------------------------------------------------------------------------
 *
 * cdc_event_view_source.c
 *		Where a raw event comes from: its table, its position, its name in
 *		messages; and its columns found by name.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/pg_lsn.h"

#include "cdc_apply.h"
#include "cdc_decode.h"

/* in cdc_source_json.c */
extern Datum cdc_position_from_debezium(PG_FUNCTION_ARGS);

/* What ExtractNewRecordState puts before the fields that it adds. */
#define ADDED			"__"
#define ADDED_SOURCE	"__source_"

/* ---------- columns by name ---------- */

/*
 * Find a column of a row image.  *hint is where the same column stood in the
 * event before, and where it stands in this one.
 */
bool
cdc_raw_find(const CdcRawRow *row, const char *name, int len, int *hint, CdcRawValue *value)
{
	value->field = NULL;
	value->type.type = jbvNull;
	if (row->object == NULL)
	{
		for (int i = 0; i < row->nitems; i++)
		{
			int			at = (i + *hint) % row->nitems;
			const CdcRawItem *item = &row->items[at];

			if (item->name.val.string.len == len && memcmp(item->name.val.string.val, name, len) == 0)
			{
				*hint = at;
				value->json = item->value;
				value->type = item->type;
				return true;
			}
		}
		return false;
	}
	if (getKeyJsonValueFromContainer(row->object, name, len, &value->json) == NULL)
		return false;
	for (int i = 0; i < row->nfields; i++)
	{
		int			at = (i + *hint) % row->nfields;
		CdcField   *field = &row->fields[at];

		if (field->namelen == len && field->name != NULL && memcmp(field->name, name, len) == 0)
		{
			*hint = at;
			value->field = field;
			break;
		}
	}
	return true;
}

/* ---------- its table ---------- */

/* A field of the source: of its block, of those added to a flat event, or of a change. */
static char *
source_text(const CdcRaw *raw, const char *name)
{
	JsonbValue	value;
	bool		found;

	if (raw->modes.format == CDC_FORMAT_DEBEZIUM)
		found = raw->source != NULL && cdc_json_get(raw->source, name, &value);
	else if (raw->modes.format == CDC_FORMAT_FLAT)
		found = cdc_json_get(raw->root, psprintf(ADDED_SOURCE "%s", name), &value) ||
			cdc_json_get(raw->root, psprintf(ADDED "%s", name), &value);
	else
		found = raw->root != NULL && cdc_json_get(raw->root, name, &value);
	return found ? cdc_json_text(&value) : NULL;
}

/* The table that a change is of; false if it is of none. */
bool
cdc_raw_table(const CdcRaw *raw, char **db, char **schema, char **table)
{
	*db = source_text(raw, "db");
	*schema = source_text(raw, "schema");
	*table = source_text(raw, "table");
	if (*table == NULL)
		*table = source_text(raw, "collection");
	if (*table == NULL && raw->modes.format == CDC_FORMAT_FLAT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a flattened event does not say which table it is of"),
				 errdetail("It has neither \"%s\" nor \"%s\". The event: %s.", ADDED_SOURCE "table",
						   ADDED "table", cdc_raw_describe(raw)),
				 errhint("Add source.schema (MySQL, MariaDB, MongoDB: source.db) and source.table to add.fields of ExtractNewRecordState.")));
	return *table != NULL;
}

/* ---------- its name ---------- */

static void
add_word(StringInfo s, const char *name, const char *value)
{
	if (value != NULL)
		appendStringInfo(s, ", %s %s", name, cdc_clip(value));
}

/*
 * The event as messages name it: op, table, coordinates, and how its row
 * begins.
 */
char *
cdc_raw_describe(const CdcRaw *raw)
{
	static const char *const coordinates[] = {"lsn", "file", "pos", "row", "commit_lsn",
	"change_lsn", "event_serial_no", "scn"};
	StringInfoData s;
	char	   *schema = source_text(raw, "schema");
	char	   *table = source_text(raw, "table");

	initStringInfo(&s);
	appendStringInfo(&s, "op %s", raw->op != NULL ? cdc_clip(raw->op) : "none");
	if (schema == NULL)
		schema = source_text(raw, "db");
	if (table != NULL)
		appendStringInfo(&s, ", table %s%s%s", schema != NULL ? cdc_clip(schema) : "",
						 schema != NULL ? "." : "", cdc_clip(table));
	for (int i = 0; i < lengthof(coordinates); i++)
		add_word(&s, coordinates[i], source_text(raw, coordinates[i]));
	if (raw->row.object != NULL)
		add_word(&s, "row", cdc_clip(JsonbToCString(NULL, raw->row.object, 0)));
	for (int i = 0; i < raw->row.nitems && i < 3; i++)
		add_word(&s, pnstrdup(raw->row.items[i].name.val.string.val,
							  raw->row.items[i].name.val.string.len),
				 raw->row.items[i].value.type == jbvNull ? "null" :
				 cdc_clip(cdc_json_text(&raw->row.items[i].value)));
	return s.data;
}

/* ---------- its position ---------- */

/* The position of a source block; NULL where it has none. */
static Datum
position_of_block(Jsonb *block, bool *isnull)
{
	LOCAL_FCINFO(fcinfo, 1);
	Datum		result;

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = JsonbPGetDatum(block);
	fcinfo->args[0].isnull = false;
	result = cdc_position_from_debezium(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
}

/* Which connector adds such a field, if the event does not say. */
static const char *
connector_of(const CdcRaw *raw)
{
	char	   *connector = source_text(raw, "connector");

	if (connector != NULL)
		return connector;
	if (source_text(raw, "lsn") != NULL)
		return "postgresql";
	if (source_text(raw, "file") != NULL && source_text(raw, "pos") != NULL)
		return "mysql";
	if (source_text(raw, "commit_lsn") != NULL)
		return "sqlserver";
	if (source_text(raw, "scn") != NULL)
		return "oracle";
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("a flattened event has no source position"),
			 errdetail("It has none of \"__source_lsn\", \"__source_file\" and \"__source_pos\", \"__source_commit_lsn\", \"__source_scn\". The event: %s.",
					   cdc_raw_describe(raw)),
			 errhint("Set add.fields of ExtractNewRecordState to op and, for PostgreSQL, source.lsn; for MySQL and MariaDB, source.file,source.pos,source.row; for SQL Server, source.commit_lsn,source.change_lsn,source.event_serial_no; for Oracle, source.scn,source.rs_id,source.ssn; for others the whole of what their position is made of, and source.connector.")));
	return NULL;
}

/* The source block that the added fields of a flat event are out of. */
static Jsonb *
gather_block(const CdcRaw *raw)
{
	static const char *const others[] = {"lsn", "file", "pos", "row", "commit_lsn", "change_lsn",
	"event_serial_no", "scn", "rs_id", "ssn", "snapshot"};
	JsonbIterator *it = JsonbIteratorInit(raw->root);
	JsonbIteratorToken token;
	JsonbValue	v;
	StringInfoData s;
	int			skip = strlen(ADDED_SOURCE);

	initStringInfo(&s);
	appendStringInfoString(&s, "{\"connector\":");
	escape_json(&s, connector_of(raw));
	for (int i = 0; i < lengthof(others); i++)
		if (cdc_json_get(raw->root, psprintf(ADDED "%s", others[i]), &v) && v.type != jbvNull)
		{
			appendStringInfo(&s, ",\"%s\":", others[i]);
			escape_json(&s, cdc_json_text(&v));
		}
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char	   *name;

		if (token != WJB_KEY || v.val.string.len <= skip ||
			memcmp(v.val.string.val, ADDED_SOURCE, skip) != 0)
			continue;
		name = pnstrdup(v.val.string.val + skip, v.val.string.len - skip);
		(void) JsonbIteratorNext(&it, &v, true);
		if (v.type == jbvNull || strcmp(name, "connector") == 0)
			continue;
		appendStringInfoChar(&s, ',');
		escape_json(&s, name);
		appendStringInfoChar(&s, ':');
		escape_json(&s, cdc_json_text(&v));
	}
	appendStringInfoChar(&s, '}');
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(s.data)));
}

static Datum
position_of_change(const CdcRaw *raw, const uint64 *commit)
{
	CdcPosition p = {.kind = CDC_POSITION_LSN};
	char	   *lsn = source_text(raw, "lsn");
	uint64		change;

	if (lsn == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a change of wal2json has no \"lsn\""),
				 errdetail("The event: %s.", cdc_raw_describe(raw)),
				 errhint("Set the option include-lsn to true.")));
	change = DatumGetLSN(DirectFunctionCall1(pg_lsn_in, CStringGetDatum(lsn)));
	p.parts[0] = commit != NULL ? *commit : change;
	p.parts[1] = commit != NULL ? change : 0;
	p.nparts = commit != NULL ? 2 : 1;
	return cdc_value_from_position(&p);
}

/* The position of a change; commit, if any, is of wal2json's transaction. */
Datum
cdc_raw_position(const CdcRaw *raw, const uint64 *commit, bool *isnull)
{
	JsonbValue	source;

	*isnull = false;
	/* begin, commit and message change nothing: they need none */
	if (!cdc_raw_has(&raw->row) && strcmp(raw->op, "t") != 0 && strcmp(raw->op, "T") != 0)
	{
		*isnull = true;
		return (Datum) 0;
	}
	if (raw->modes.format == CDC_FORMAT_WAL2JSON)
		return position_of_change(raw, commit);
	if (raw->modes.format == CDC_FORMAT_FLAT)
		return position_of_block(gather_block(raw), isnull);
	if (!cdc_json_get(raw->root, "source", &source) || !cdc_json_is_object(&source))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a raw event has no source block"),
				 errdetail("The event: %s.", cdc_raw_describe(raw)),
				 errhint("Keep \"source\" in the envelope: it has the position.")));
	return position_of_block(JsonbValueToJsonb(&source), isnull);
}
