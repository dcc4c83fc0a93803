/*-------------------------------------------------------------------------
 *
 * cdc_watch.c
 *		Staging read row by row, for who wants every row to be told and none to
 *		end the call.
 *
 * The query runs as a cursor, so that what comes of its rows, in subtransactions
 * and in sorts, is no part of its execution.  A row that fails is told with what
 * its error says; a query that fails ends the reading.
 *
 * A subtransaction keeps nothing here: what is kept of a row is put aside
 * after it has ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "cdc_explain.h"
#include "cdc_read.h"

/* Rows fetched at a time: few enough to be held beside all else. */
#define CDC_WATCH_ROWS	100

/* ---------- errors that become a reason ---------- */

void
cdc_try_begin(CdcTry *try)
{
	try->context = CurrentMemoryContext;
	try->owner = CurrentResourceOwner;
	try->rights = false;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(try->context);
}

void
cdc_try_end(CdcTry *try)
{
	ReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(try->context);
	CurrentResourceOwner = try->owner;
}

/* Is it about the call, or the server, and not about what was tried? */
static bool
must_go_on(const CdcTry *try, int code)
{
	int			category = ERRCODE_TO_CATEGORY(code);

	return category == ERRCODE_TRANSACTION_ROLLBACK ||
		category == ERRCODE_INSUFFICIENT_RESOURCES ||
		category == ERRCODE_OPERATOR_INTERVENTION || code == ERRCODE_ASSERT_FAILURE ||
		category == ERRCODE_SYSTEM_ERROR ||
		(code == ERRCODE_INSUFFICIENT_PRIVILEGE && !try->rights) ||
		code == ERRCODE_DATA_CORRUPTED || code == ERRCODE_INDEX_CORRUPTED;
}

/*
 * What the error says, palloc'd in the context of cdc_try_begin(), to which
 * everything is taken back.  column: the target's column that it is about, or
 * NULL.
 */
char *
cdc_try_caught(CdcTry *try, const char *column)
{
	ErrorData  *error;
	StringInfoData s;

	MemoryContextSwitchTo(try->context);
	error = CopyErrorData();
	FlushErrorState();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(try->context);
	CurrentResourceOwner = try->owner;
	if (must_go_on(try, error->sqlerrcode))
		ReThrowError(error);
	try->code = error->sqlerrcode;
	try->hint = error->hint != NULL ? pstrdup(error->hint) : NULL;
	initStringInfo(&s);
	if (column != NULL)
		appendStringInfo(&s, "column \"%s\": ", column);
	appendStringInfoString(&s, error->message);
	if (error->detail != NULL && error->detail[0] != '\0')
		appendStringInfo(&s, ": %s", error->detail);
	FreeErrorData(error);
	return s.data;
}

/*
 * Let an error go on that nobody here has an answer to: who catches it must
 * find the subtransaction that he knows of.
 */
void
cdc_try_rethrow(CdcTry *try)
{
	ErrorData  *error;

	MemoryContextSwitchTo(try->context);
	error = CopyErrorData();
	FlushErrorState();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(try->context);
	CurrentResourceOwner = try->owner;
	ReThrowError(error);
}

/* ---------- a key as JSON ---------- */

static char *
type_text(Oid type, Datum value)
{
	Oid			output;
	bool		varlena;

	getTypeOutputInfo(type, &output, &varlena);
	return OidOutputFunctionCall(output, value);
}

static void
append_value(StringInfo s, Oid type, Datum value)
{
	char		buf[MAXDATELEN + 1];
	char	   *text;

	switch (type)
	{
		case BOOLOID:
			appendStringInfoString(s, DatumGetBool(value) ? "true" : "false");
			return;
		case DATEOID:
		case TIMEOID:
		case TIMETZOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			/* whatever DateStyle says */
			escape_json(s, JsonEncodeDateTime(buf, value, type, NULL));
			return;
	}
	text = type_text(type, value);
	if ((type == INT2OID || type == INT4OID || type == INT8OID || type == NUMERICOID ||
		 type == FLOAT4OID || type == FLOAT8OID) && strspn(text, "0123456789.eE+-") == strlen(text))
		appendStringInfoString(s, text);
	else
		escape_json(s, text);
}

/* {"id": 1}; NULL when no part has a value.  types NULL: the target's. */
char *
cdc_key_json(const CdcTarget *target, const Datum *values, const bool *isnull, const Oid *types)
{
	StringInfoData s;
	bool		any = false;

	initStringInfo(&s);
	for (int i = 0; i < target->nkeys; i++)
	{
		appendStringInfoString(&s, i == 0 ? "{" : ", ");
		escape_json(&s, target->keys[i].name);
		appendStringInfoString(&s, ": ");
		if (isnull[i])
			appendStringInfoString(&s, "null");
		else
			append_value(&s, getBaseType(types != NULL ? types[i] : target->keys[i].type), values[i]);
		any |= !isnull[i];
	}
	appendStringInfoChar(&s, '}');
	return any ? s.data : NULL;
}

/* The key as staging has it. */
static char *
staging_key(CdcReader *r, TupleTableSlot *slot)
{
	int			n = r->cols->nkeys;
	Datum	   *values = palloc(sizeof(Datum) * n);
	bool	   *isnull = palloc(sizeof(bool) * n);
	Oid		   *types = palloc(sizeof(Oid) * n);

	for (int i = 0; i < n; i++)
	{
		int			at = r->query.key_at[i];

		values[i] = slot->tts_values[at];
		isnull[i] = slot->tts_isnull[at];
		types[i] = TupleDescAttr(slot->tts_tupleDescriptor, at)->atttypid;
	}
	return cdc_key_json(r->target, values, isnull, types);
}

/* ---------- rows ---------- */

static char *
op_text(CdcReader *r, TupleTableSlot *slot, CdcClass class)
{
	if (r->query.op_at >= 0 && !slot->tts_isnull[r->query.op_at])
		return cdc_op_text(r->ops, slot->tts_values[r->query.op_at]);
	switch (class)
	{
		case CDC_UPSERT:
			return "upsert";
		case CDC_SNAPSHOT:
			return "snapshot";
		case CDC_DELETE:
			return "delete";
		case CDC_RETRACTION:
			return "retraction";
		case CDC_TRUNCATE:
			return "truncate";
		default:
			return NULL;
	}
}

static void
watch_row(CdcReader *r, TupleTableSlot *slot)
{
	CdcSeen		seen;
	CdcIncoming in;
	CdcOp		op;
	CdcTry		try;
	volatile bool event = false;

	memset(&seen, 0, sizeof(seen));
	op.class = CDC_UNKNOWN;
	r->reason = NULL;
	cdc_try_begin(&try);
	PG_TRY();
	{
		slot_getallattrs(slot);
		event = cdc_read_row(r, slot, &in, &seen.pos, &op);
		cdc_try_end(&try);
	}
	PG_CATCH();
	{
		r->reason = cdc_try_caught(&try, r->context->column);
		r->context->column = NULL;
		r->context->row = NULL;
		op.class = CDC_UNKNOWN;
		event = false;
		cdc_columns_renew(r->cols);
		cdc_read_make_position(r);
	}
	PG_END_TRY();

	seen.number = r->result->events;
	seen.class = event || r->reason == NULL || op.class == CDC_IGNORE ? op.class : CDC_UNKNOWN;
	seen.op = op_text(r, slot, op.class);
	seen.reason = r->reason;
	if (event)
	{
		seen.key = cdc_key_json(r->target, r->values, r->isnull, NULL);
		seen.keys = r->values;
		seen.unplaced = (in.flags & CDC_EVENT_UNPLACED) != 0;
	}
	else if (op.class != CDC_TRUNCATE)
		seen.key = staging_key(r, slot);
	r->watch->row(r->watch, &seen);
	if (event)
		cdc_fold_offer(r->fold, &in);
}

/* Fetch some rows; false when the query failed. */
static bool
fetch(CdcReader *r, const char *sql, Portal *portal)
{
	SPIParseOpenOptions options = {.cursorOptions = CURSOR_OPT_NO_SCROLL};
	Portal		before = *portal;
	CdcTry		try;
	volatile bool ok = true;

	cdc_try_begin(&try);
	PG_TRY();
	{
		if (before == NULL)
			*portal = SPI_cursor_parse_open(NULL, sql, &options);
		SPI_cursor_fetch(*portal, true, CDC_WATCH_ROWS);
		cdc_try_end(&try);
	}
	PG_CATCH();
	{
		r->watch->failed = MemoryContextStrdup(r->call_context, cdc_try_caught(&try, NULL));
		/* one that was opened just now is gone */
		if (before != NULL)
			SPI_cursor_close(before);
		ok = false;
	}
	PG_END_TRY();
	return ok;
}

/*
 * Read staging by this query.  SPI is connected.  What is to be known of each
 * row is told to r->watch, and events are offered to the fold.
 */
void
cdc_watch_staging(CdcReader *r, const char *sql)
{
	Portal		portal = NULL;
	TupleTableSlot *slot = NULL;

	while (fetch(r, sql, &portal) && SPI_processed > 0)
	{
		SPITupleTable *rows = SPI_tuptable;
		uint64		n = SPI_processed;
		MemoryContext old;

		if (slot == NULL)
		{
			r->pub.rStartup(&r->pub, CMD_SELECT, rows->tupdesc);
			slot = MakeSingleTupleTableSlot(CreateTupleDescCopy(rows->tupdesc), &TTSOpsHeapTuple);
		}
		for (uint64 i = 0; i < n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			ExecStoreHeapTuple(rows->vals[i], slot, false);
			old = MemoryContextSwitchTo(r->row_context);
			watch_row(r, slot);
			MemoryContextSwitchTo(old);
			MemoryContextReset(r->row_context);
		}
		ExecClearTuple(slot);
		SPI_freetuptable(rows);
	}
	if (slot != NULL)
		ExecDropSingleTupleTableSlot(slot);
	if (r->watch->failed == NULL)
		SPI_cursor_close(portal);
}
