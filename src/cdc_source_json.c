/*-------------------------------------------------------------------------
 *
 * cdc_source_json.c
 *		Positions out of coordinates that come as jsonb: the source block of a
 *		Debezium event, the position of a rivet change.
 *
 * A field that is absent and one that is null are the same.  Numbers may come
 * as text, since converters write 64-bit numbers so.  The fields that place a
 * change in its log must be there, except in a snapshot row, which then has no
 * position; those that only separate changes of one place are 0 without.
 *
 * Clocks are never used: ts_ms and its kin say when, not in which order.  The
 * one that is, MongoDB's, is the oplog's logical clock, and refused where the
 * connector puts the wall clock into the same field.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "cdc_source.h"
#include "cdc_value.h"

/* A source block, or rivet's position, while it is read. */
typedef struct SourceBlock
{
	Jsonb	   *json;
	const char *what;			/* what messages call it */
	const char *connector;
	bool		snapshot;		/* a row of a snapshot, of whatever kind */
} SourceBlock;

/* A JSON null is as good as none. */
static bool
is_json_null(Jsonb *json)
{
	JsonbValue	v;

	return JB_ROOT_IS_SCALAR(json) &&
		JsonbExtractScalar(&json->root, &v) && v.type == jbvNull;
}

/* ---------- fields ---------- */

static bool
find_field(const SourceBlock *block, const char *field, JsonbValue *v)
{
	return getKeyJsonValueFromContainer(&block->json->root, field, (int) strlen(field), v) != NULL &&
		v->type != jbvNull;
}

static bool
has_field(const SourceBlock *block, const char *field)
{
	JsonbValue	v;

	return find_field(block, field, &v);
}

pg_noreturn static void
refuse_missing(const SourceBlock *block, const char *field)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("Debezium source block has no \"%s\"", field),
			 block->connector == NULL ?
			 errdetail("The connector says how a source block is read.") :
			 errdetail("Its connector is \"%s\".", cdc_clip(block->connector)),
			 has_field(block, "source") ?
			 errhint("Give the source block of the event, event->'source', not the event.") :
			 has_field(block, "gtid") ?
			 errhint("A GTID does not order changes; keep file, pos and row in the source block.") :
			 errhint("Keep the whole source block of the event.")));
}

pg_noreturn static void
refuse_value(const SourceBlock *block, const char *field, const char *text)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			 errmsg("invalid \"%s\" in a %s: %s", field, block->what, cdc_clip(text)),
			 errdetail("It is a whole number, or the text of one.")));
}

pg_noreturn static void
refuse_range(const SourceBlock *block, const char *field, const char *text)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("\"%s\" of a %s is out of range: %s", field, block->what, cdc_clip(text)),
			 errdetail("A part is a whole number from 0 to 18446744073709551615.")));
}

/* A value as text, for messages. */
static char *
value_text(JsonbValue *v)
{
	return JsonbToCString(NULL, &JsonbValueToJsonb(v)->root, 0);
}

/* The text of a field; false without one.  Other scalars are refused. */
static bool
get_text(const SourceBlock *block, const char *field, char **text)
{
	JsonbValue	v;

	if (!find_field(block, field, &v))
		return false;
	if (v.type != jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid \"%s\" in a %s: %s", field, block->what,
						cdc_clip(value_text(&v))),
				 errdetail("It is a text.")));
	*text = pnstrdup(v.val.string.val, v.val.string.len);
	return true;
}

/* A field as a part; false without one. */
static bool
get_part(const SourceBlock *block, const char *field, uint64 *part)
{
	JsonbValue	v;
	const char *text;
	int			len;
	bool		negative;
	CdcPositionError error;

	if (!find_field(block, field, &v))
		return false;
	if (v.type == jbvNumeric)
	{
		if (!cdc_part_try_numeric(NumericGetDatum(v.val.numeric), part))
			refuse_range(block, field, value_text(&v));
		return true;
	}
	if (v.type != jbvString)
		refuse_value(block, field, value_text(&v));
	text = v.val.string.val;
	len = v.val.string.len;
	negative = len > 0 && text[0] == '-';
	error = cdc_source_number(text + negative, len - negative, part);
	if (error == CDC_POSITION_OUT_OF_RANGE || (error == CDC_POSITION_OK && negative))
		refuse_range(block, field, value_text(&v));
	if (error != CDC_POSITION_OK)
		refuse_value(block, field, value_text(&v));
	return true;
}

/*
 * A part that a position needs: false says that a snapshot row does without
 * one, and so has no position.
 */
static bool
need_part(const SourceBlock *block, const char *field, uint64 *part)
{
	if (get_part(block, field, part))
		return true;
	if (!block->snapshot)
		refuse_missing(block, field);
	return false;
}

static bool
need_text(const SourceBlock *block, const char *field, char **text)
{
	if (get_text(block, field, text))
		return true;
	if (!block->snapshot)
		refuse_missing(block, field);
	return false;
}

/* A part that separates changes of one place: 0 without. */
static uint64
ordinal(const SourceBlock *block, const char *field)
{
	uint64		part = 0;

	(void) get_part(block, field, &part);
	return part;
}

/*
 * Is it a row of a snapshot?  "true", "first", "last" and others of their kind
 * say so, as does a boolean; absent, "false" and false do not.
 */
static bool
is_snapshot(const SourceBlock *block)
{
	static const char *const marks[] = {
		"true", "first", "first_in_data_collection", "last_in_data_collection",
		"last", "incremental"
	};
	JsonbValue	v;

	if (!find_field(block, "snapshot", &v))
		return false;
	if (v.type == jbvBool)
		return v.val.boolean;
	if (v.type == jbvString)
		for (int i = 0; i < lengthof(marks); i++)
			if (v.val.string.len == (int) strlen(marks[i]) &&
				pg_strncasecmp(v.val.string.val, marks[i], v.val.string.len) == 0)
				return true;
	return false;
}

/* ---------- connectors: p->parts filled; their number, 0 for no position ---------- */

/*
 * PostgreSQL: "lsn", where the change itself was logged (a record position).
 * The first element of "sequence" is the commit before it that the connector
 * saw; after a restart it sees another, so that one change would get two
 * positions.
 */
static int
read_postgresql(const SourceBlock *block, CdcPosition *p)
{
	p->kind = CDC_POSITION_LSN;
	return need_part(block, "lsn", &p->parts[0]) ? 1 : 0;
}

/* MySQL, MariaDB: event in the binlog, row in the event; never "gtid". */
static int
read_binlog(const SourceBlock *block, CdcPosition *p)
{
	char	   *file;

	if (!need_text(block, "file", &file) || !need_part(block, "pos", &p->parts[1]))
		return 0;
	/* a snapshot of a server without binlogs; Flink CDC does not mark its own */
	if (file[0] == '\0' && (block->snapshot || p->parts[1] == 0))
		return 0;
	p->parts[0] = cdc_part_from_binlog_file(file, "file");
	p->parts[2] = ordinal(block, "row");
	return 3;
}

/*
 * SQL Server: commit, change, then the number of the event at one change.
 * A snapshot row has the commit LSN alone.
 */
static int
read_sqlserver(const SourceBlock *block, CdcPosition *p)
{
	char	   *commit;
	char	   *change;

	if (!need_text(block, "commit_lsn", &commit))
		return 0;
	cdc_parts_from_sqlserver_lsn(commit, "commit_lsn", p->parts);
	if (need_text(block, "change_lsn", &change))
		cdc_parts_from_sqlserver_lsn(change, "change_lsn", p->parts + 3);
	p->parts[6] = ordinal(block, "event_serial_no");
	return 7;
}

/* Db2: as SQL Server, with LSNs of 10 or, since 10.1, 16 bytes. */
static int
read_db2(const SourceBlock *block, CdcPosition *p)
{
	static const char *const fields[] = {"commit_lsn", "change_lsn"};

	for (int i = 0; i < 2; i++)
	{
		char	   *lsn;

		if (!need_text(block, fields[i], &lsn))
			return 2 * i;
		if (!cdc_source_db2_lsn(lsn, (int) strlen(lsn), p->parts + 2 * i))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("invalid Db2 LSN in \"%s\": \"%s\"", fields[i], cdc_clip(lsn)),
					 errdetail("An LSN has 10 or 16 bytes in hexadecimal digits.")));
	}
	return 4;
}

/* Informix: both LSNs are decimal numbers. */
static int
read_informix(const SourceBlock *block, CdcPosition *p)
{
	if (!need_part(block, "commit_lsn", &p->parts[0]))
		return 0;
	return need_part(block, "change_lsn", &p->parts[1]) ? 2 : 1;
}

/*
 * Oracle: the change's own SCN, the redo record that holds it, and the row in
 * that.  "commit_scn" is not the change's place, and snapshot rows lack it.
 */
static int
read_oracle(const SourceBlock *block, CdcPosition *p)
{
	char	   *rs_id;

	if (!need_part(block, "scn", &p->parts[0]))
		return 0;
	if (get_text(block, "rs_id", &rs_id))
		cdc_parts_from_rs_id(rs_id, "rs_id", p->parts + 1);
	p->parts[4] = ordinal(block, "ssn");
	return 5;
}

/* Is the block of a Debezium that is older than this one? */
static bool
older_than(const SourceBlock *block, int major, int minor)
{
	JsonbValue	v;
	char	   *text;
	int			a;
	int			b;

	if (!find_field(block, "version", &v) || v.type != jbvString)
		return false;
	text = pnstrdup(v.val.string.val, v.val.string.len);
	return sscanf(text, "%d.%d", &a, &b) == 2 &&
		(a < major || (a == major && b < minor));
}

/*
 * MongoDB: second and increment of the oplog's logical clock.  The second is
 * in ts_ms, in milliseconds, up to Debezium 3.3; 3.4 puts the operation's wall
 * clock there, the same as in "wallTime", and the logical second nowhere.
 */
static int
read_mongodb(const SourceBlock *block, CdcPosition *p)
{
	uint64		ms;
	uint64		wall;

	if (!need_part(block, "ts_ms", &ms) || !need_part(block, "ord", &p->parts[1]))
		return 0;
	if (ms % 1000 != 0 ||
		(get_part(block, "wallTime", &wall) && wall == ms && !older_than(block, 3, 4)))
	{
		if (block->snapshot)
			return 0;
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"ts_ms\" of a MongoDB source block is a wall clock: %llu",
						(unsigned long long) ms),
				 errdetail("The oplog orders changes by second and \"ord\"; Debezium 3.4 and later do not tell its second."),
				 errhint("Use a Debezium before 3.4, or land the cluster time of the change stream.")));
	}
	p->parts[0] = ms / 1000;
	return 2;
}

/* TiDB: the timestamp oracle's commit number; one change of a key has it. */
static int
read_tidb(const SourceBlock *block, CdcPosition *p)
{
	return need_part(block, "commit_ts", &p->parts[0]) ? 1 : 0;
}

typedef struct SourceConnector
{
	const char *name;
	int			(*read) (const SourceBlock *block, CdcPosition *p);
	const char *reason;			/* why there is no order, without read */
	const char *hint;
} SourceConnector;

static const SourceConnector connectors[] = {
	{"postgresql", read_postgresql, NULL, NULL},
	{"mysql", read_binlog, NULL, NULL},
	{"mariadb", read_binlog, NULL, NULL},
	{"sqlserver", read_sqlserver, NULL, NULL},
	{"oracle", read_oracle, NULL, NULL},
	{"mongodb", read_mongodb, NULL, NULL},
	{"db2", read_db2, NULL, NULL},
	{"informix", read_informix, NULL, NULL},
	{"tidb", read_tidb, NULL, NULL},
	{"TiCDC", read_tidb, NULL, NULL},
	{"vitess", NULL,
		"Its \"vgtid\" is a set of GTIDs, and sets have no total order.",
	"With ordered transaction metadata: cdc_position_from_numbers(transaction_epoch, transaction_rank, total_order)."},
	{"cassandra", NULL,
		"Each replica logs a change in its own commit log, and those have no common order.",
	NULL},
	{"spanner", NULL,
		"Its block has a commit time, but not the order of changes in one transaction.",
	NULL},
	{"cockroachdb", NULL,
		"Its block has wall clock times only.",
	NULL}
};

static const SourceConnector *
find_connector(const char *name)
{
	for (int i = 0; i < lengthof(connectors); i++)
		if (strcmp(connectors[i].name, name) == 0)
			return &connectors[i];
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("Debezium connector \"%s\" is not known", cdc_clip(name)),
			 errdetail("Known are postgresql, mysql, mariadb, sqlserver, oracle, mongodb, db2, informix and tidb."),
			 errhint("Use cdc_position_from_numbers() with the log coordinates of its source block, most significant first.")));
}

PG_FUNCTION_INFO_V1(cdc_position_from_debezium);
Datum
cdc_position_from_debezium(PG_FUNCTION_ARGS)
{
	SourceBlock		block = {.json = PG_GETARG_JSONB_P(0), .what = "Debezium source block"};
	CdcPosition p = {.kind = CDC_POSITION_NUMBER};
	const SourceConnector *connector;
	char	   *name;
	int			nparts;

	if (is_json_null(block.json))
		PG_RETURN_NULL();
	if (!JB_ROOT_IS_OBJECT(block.json))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("Debezium source block must be a JSON object"),
				 errhint("Give the source block of the event, event->'source'.")));
	if (!get_text(&block, "connector", &name))
		refuse_missing(&block, "connector");
	block.connector = name;
	block.snapshot = is_snapshot(&block);

	connector = find_connector(name);
	if (connector->read == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot order the changes of Debezium connector \"%s\"", name),
				 errdetail("%s", connector->reason),
				 connector->hint != NULL ? errhint("%s", connector->hint) : 0));

	nparts = connector->read(&block, &p);
	if (nparts == 0)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(cdc_value_from_parts(&p, nparts));
}

/* ---------- rivet ---------- */

/*
 * The "lsn" of a rivet position: PostgreSQL's with a slash, else SQL Server's.
 * The number of parts.
 */
static int
read_rivet_lsn(const char *lsn, CdcPosition *p)
{
	if (strchr(lsn, '/') == NULL)
	{
		cdc_parts_from_sqlserver_lsn(lsn, "lsn", p->parts);
		return 3;
	}
	if (strpbrk(lsn, "@:") != NULL ||
		cdc_position_parse(lsn, (int) strlen(lsn), p) != CDC_POSITION_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid LSN in \"%s\": \"%s\"", "lsn", cdc_clip(lsn)),
				 errdetail("An LSN has 1 to 8 hexadecimal digits on each side of a slash.")));
	return 1;
}

/* The commit's position and the number of the change after it. */
PG_FUNCTION_INFO_V1(cdc_position_from_rivet);
Datum
cdc_position_from_rivet(PG_FUNCTION_ARGS)
{
	SourceBlock		block = {.json = PG_GETARG_JSONB_P(0), .what = "rivet position"};
	CdcPosition p = {.kind = CDC_POSITION_NUMBER};
	char	   *text;
	int			n = 0;

	if (is_json_null(block.json))
		PG_RETURN_NULL();
	if (JB_ROOT_IS_OBJECT(block.json))
	{
		if (get_text(&block, "file", &text) && get_part(&block, "pos", &p.parts[1]))
		{
			p.parts[0] = cdc_part_from_binlog_file(text, "file");
			n = 2;
		}
		else if (get_text(&block, "lsn", &text))
			n = read_rivet_lsn(text, &p);
	}
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("rivet position has neither \"file\" and \"pos\" nor \"lsn\""),
				 JB_ROOT_IS_OBJECT(block.json) && has_field(&block, "_data") ?
				 errdetail("A resume token has no parts that could be compared.") :
				 JB_ROOT_IS_OBJECT(block.json) && has_field(&block, "gtid") ?
				 errdetail("GTIDs of different servers have no order, and all changes of a transaction share one.") : 0,
				 errhint("Give __pos as rivet writes it, cast to jsonb: {\"file\": .., \"pos\": ..} or {\"lsn\": ..}.")));
	p.parts[n] = cdc_part_from_numeric(PG_GETARG_DATUM(1));
	PG_RETURN_DATUM(cdc_value_from_parts(&p, n + 1));
}
