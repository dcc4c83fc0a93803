/*-------------------------------------------------------------------------
 *
 * cdc_report.c
 *		Names, values and context for messages.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "cdc_read.h"
#include "cdc_registry.h"

/* indexed by CdcOutcome; also the names of the result columns */
const char *const cdc_outcome_names[CDC_OUTCOMES] = {
	[CDC_INSERTED] = "inserted",
	[CDC_UPDATED] = "updated",
	[CDC_DELETED] = "deleted",
	[CDC_STALE] = "stale",
	[CDC_DUPLICATE] = "duplicate",
	[CDC_SUPERSEDED] = "superseded",
	[CDC_FENCED] = "fenced",
	[CDC_IGNORED] = "ignored",
	[CDC_TRUNCATED] = "truncated",
};

StaticAssertDecl(lengthof(cdc_outcome_names) == CDC_OUTCOMES,
				 "every outcome has a name");

/* schema.table, as messages name a relation */
char *
cdc_relation_name(Relation rel)
{
	return psprintf("%s.%s", get_namespace_name(RelationGetNamespace(rel)),
					RelationGetRelationName(rel));
}

/* The text, cut to CDC_VALUE_CLIP bytes at a character's end. */
char *
cdc_clip(const char *text)
{
	int			len = strlen(text);
	int			keep;

	if (len <= CDC_VALUE_CLIP)
		return pstrdup(text);
	keep = pg_mbcliplen(text, len, CDC_VALUE_CLIP);
	return psprintf("%.*s...", keep, text);
}

char *
cdc_pos_text(const uint8 *bytes, int len)
{
	CdcPosition p;
	char		text[CDC_POSITION_MAX_TEXT];

	if (len == 0 || !cdc_position_unpack(bytes, len, &p))
		return pstrdup("none");
	cdc_position_print(&p, text);
	return pstrdup(text);
}

/* A function of the extension as a statement of the caller can name it. */
const char *
cdc_function_name(const char *name)
{
	if (TypeIsVisible(cdc_position_type()))
		return name;
	return quote_qualified_identifier(get_namespace_name(cdc_extension_schema()), name);
}

char *
cdc_value_text(Oid type, Datum value, bool isnull)
{
	Oid			output;
	bool		varlena;

	if (isnull)
		return pstrdup("null");
	getTypeOutputInfo(type, &output, &varlena);
	return cdc_clip(OidOutputFunctionCall(output, value));
}

/* (a, b)=(1, 2), as the server's own messages write a key */
char *
cdc_key_text(const CdcTarget *target, const Datum *keys, const bool *isnull)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoChar(&s, '(');
	for (int i = 0; i < target->nkeys; i++)
		appendStringInfo(&s, "%s%s", i > 0 ? ", " : "", target->keys[i].name);
	appendStringInfoString(&s, ")=(");
	for (int i = 0; i < target->nkeys; i++)
		appendStringInfo(&s, "%s%s", i > 0 ? ", " : "",
						 cdc_value_text(target->keys[i].type, keys[i], isnull && isnull[i]));
	appendStringInfoChar(&s, ')');
	return s.data;
}

char *
cdc_event_key_text(const CdcTarget *target, const CdcColumns *cols, const CdcEvent *ev)
{
	Datum	   *keys = palloc(sizeof(Datum) * target->nkeys);
	bool	   *isnull = palloc(sizeof(bool) * target->nkeys);

	for (int i = 0; i < target->nkeys; i++)
		keys[i] = cdc_event_value(cols, ev, i + 1, &isnull[i]);
	return cdc_key_text(target, keys, isnull);
}

/* A regclass whose relation is gone, or never was. */
void
cdc_refuse_no_relation(Oid relid)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("relation with OID %u does not exist", relid),
			 errhint("If it was dropped and made anew meanwhile, call again.")));
}

void
cdc_refuse_mixed_kinds(const char *where)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("cannot compare an LSN-headed position with a number-headed one"),
			 errdetail("Both kinds were met in %s.", where),
			 errhint("Positions of one target must come from one log; make them of one kind in staging_position.")));
}

/* A snapshot has one row for a key, or the same one more than once. */
void
cdc_refuse_twins(const char *snapshot, const char *key)
{
	ereport(ERROR,
			(errcode(ERRCODE_CARDINALITY_VIOLATION),
			 errmsg("snapshot \"%s\" has different rows of one key", snapshot),
			 errdetail("Key %s: which one is right cannot be known.", key),
			 errhint("Read the source in one transaction, and load what was read once.")));
}

/*
 * Error context while a row is in hand: staging, key, position, column.  A
 * tombstone that cannot stand in the target's row gets its hint here, since
 * the failing check is the server's own.
 */
void
cdc_context_callback(void *arg)
{
	CdcContext *ctx = (CdcContext *) arg;

	StringInfoData where;

	if (ctx->event == NULL && ctx->keys == NULL && ctx->column == NULL)
		return;
	if (ctx->event != NULL)
	{
		errcontext("cdc_apply from \"%s\", key %s, position %s", ctx->staging,
				   cdc_event_key_text(ctx->target, ctx->cols, ctx->event),
				   cdc_pos_text(ctx->event->pos, ctx->event->poslen));
		return;
	}
	if (ctx->tombstone)
		errhint("The delete of a key never seen cannot be remembered in the target's row: its other columns are not known. Give them defaults that pass the checks, or keep tombstones in a side table.");
	initStringInfo(&where);
	if (ctx->keys != NULL)
		appendStringInfo(&where, ", key %s", cdc_key_text(ctx->target, ctx->keys, ctx->isnull));
	for (int i = 0; ctx->keys == NULL && ctx->row != NULL && i < ctx->target->nkeys; i++)
		appendStringInfo(&where, "%s%s=%s", i == 0 ? ", key " : ", ", ctx->target->keys[i].name,
						 cdc_value_text(TupleDescAttr(ctx->row->tts_tupleDescriptor,
													  ctx->key_at[i])->atttypid,
										ctx->row->tts_values[ctx->key_at[i]],
										ctx->row->tts_isnull[ctx->key_at[i]]));
	if (ctx->pos != NULL)
		appendStringInfo(&where, ", position %s", cdc_pos_text(ctx->pos, ctx->poslen));
	if (ctx->column != NULL)
		appendStringInfo(&where, ", column \"%s\"", ctx->column);
	errcontext("cdc_apply from \"%s\"%s", ctx->staging, where.data);
}

/* Rows of staging that cannot be used, and what else is wrong with the batch as a whole. */
void
cdc_read_report_faults(const CdcReader *r)
{
	const char *staging = r->cols->staging_name;

	if (r->bad_op.count > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown op \"%s\" in staging \"%s\"", cdc_clip(r->bad_op.value), staging),
				 errdetail("Rows: %lld, one with %s.", (long long) r->bad_op.count,
						   r->bad_op.example),
				 errhint("Say in op_map what it means: 'upsert', 'snapshot', 'delete', 'retraction', 'truncate' or 'ignore'.")));
	if (r->null_key.count > 0)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("NULL in the key of events in staging \"%s\"", staging),
				 errdetail("Rows: %lld, one with %s.", (long long) r->null_key.count,
						   r->null_key.example),
				 errhint("Every event must carry the whole key of the target; see the source's replica identity or message key.")));
	if (r->null_position.count > 0)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("events without a position in staging \"%s\"", staging),
				 errdetail("Rows: %lld, one with %s.", (long long) r->null_position.count,
						   r->null_position.example),
				 errhint("Only snapshot rows may lack a position; NULL and 0/0 are none. If staging has it elsewhere, say so in staging_position.")));
	if (r->truncates.count > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("truncate events in staging \"%s\" need an attached target", staging),
				 errdetail("Rows: %lld, one with %s.",
						   (long long) r->truncates.count, r->truncates.example),
				 errhint("Attach it with cdc_attach(); or keep them out with staging_filter, or map them to 'ignore' in op_map.")));
	if (r->rule->check_events && r->result->events != r->rule->expect_events)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("staging \"%s\" has another number of events than expected", staging),
				 errdetail("It has %lld, expect_events is %lld.", (long long) r->result->events,
						   (long long) r->rule->expect_events),
				 errhint("Wait for the rest of the batch, or look for what loaded too much.")));
	if (r->null_records > 0)
		ereport(WARNING,
				(errmsg("records without op, position and values in staging \"%s\" were ignored",
						staging),
				 errdetail("Records: %lld. Kafka null-value records look so; they follow a delete event.",
						   (long long) r->null_records)));
}
