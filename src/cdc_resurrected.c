/*-------------------------------------------------------------------------
 *
 * cdc_resurrected.c
 *		cdc_find_resurrected(): rows that live although they should not.
 *
 * Three witnesses are heard: a log, read and folded as cdc_apply() reads its
 * staging; the source itself, or a copy of it; and the target's own tombstones
 * in the side table.  Nothing is written.
 *
 * Nothing is said of a delete that may be still to come: one above everything
 * that was applied to an attached target.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_operator.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "lib/bloomfilter.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "cdc_attach.h"
#include "cdc_call.h"
#include "cdc_explain.h"
#include "cdc_fold.h"
#include "cdc_sql.h"

/* columns of the result */
enum
{
	RESURRECTED_KEY, RESURRECTED_STORED, RESURRECTED_EVIDENCE, RESURRECTED_GONE,
	RESURRECTED_COLUMNS
};

/* Rows fetched at a time from a query over the target. */
#define CDC_FETCH_ROWS	100

typedef struct CdcSearch
{
	CdcApply	call;
	ReturnSetInfo *result;
	double		sample;
	Datum	   *keys;
	bool	   *isnull;
	bloom_filter *later;		/* keys of which the log has a word behind its truncate */
} CdcSearch;

PG_FUNCTION_INFO_V1(cdc_find_resurrected);

static void
tell(CdcSearch *search, const Datum *keys, const bool *isnull, const CdcPos *stored,
	 const char *evidence, const CdcPos *gone)
{
	Datum		values[RESURRECTED_COLUMNS];
	bool		null[RESURRECTED_COLUMNS] = {false};
	char	   *key = cdc_key_json(&search->call.target, keys, isnull, NULL);

	null[RESURRECTED_KEY] = key == NULL;
	if (key != NULL)
		values[RESURRECTED_KEY] = DirectFunctionCall1(jsonb_in, CStringGetDatum(key));
	values[RESURRECTED_STORED] = cdc_registry_position(stored, &null[RESURRECTED_STORED]);
	values[RESURRECTED_EVIDENCE] = CStringGetTextDatum(evidence);
	null[RESURRECTED_GONE] = gone == NULL || gone->len == 0;
	if (!null[RESURRECTED_GONE])
		values[RESURRECTED_GONE] = cdc_value_from_bytes(gone->bytes, gone->len);
	tuplestore_putvalues(search->result->setResult, search->result->setDesc, values, null);
}

/* The row that readers see for a key, whatever a tombstone beside it says. */
static bool
find_live_row(CdcSearch *search, CdcPos *pos)
{
	CdcTarget  *target = &search->call.target;
	CdcLeaf    *leaf = cdc_target_leaf(target, search->keys, NULL);
	CdcStored	stored;

	cdc_target_find(target, leaf, search->keys, CDC_FIND_ANY, leaf->stored, &stored);
	if (stored.slot == NULL)
		return false;
	cdc_home_read_state(target, leaf, stored.slot, &stored);
	*pos = stored.pos;
	return stored.state == CDC_KEY_LIVE;
}

/* ---------- the log's word ---------- */

/* Is a position of the log one that was applied, as far as that is known? */
static bool
is_due(const CdcSearch *search, const CdcPos *pos)
{
	const CdcPos *high = &search->call.reg.high;

	return high->len == 0 || cdc_pos_compare(pos->bytes, pos->len, high->bytes, high->len) <= 0;
}

/* The log's truncate, if it is due, and the floor does not say more. */
static const CdcPos *
due_truncate(const CdcSearch *search)
{
	const CdcPos *truncate = &search->call.read.truncate;
	const CdcPos *floor = &search->call.reg.horizon.floor;

	return truncate->len > 0 && is_due(search, truncate) &&
		cdc_pos_compare(truncate->bytes, truncate->len, floor->bytes, floor->len) > 0 ?
		truncate : NULL;
}

/* A sample of keys, the same ones each time. */
static bool
is_sampled(const CdcSearch *search, CdcFold *fold)
{
	return search->sample >= 1 ||
		cdc_fold_hash(fold, search->keys) <= search->sample * PG_UINT32_MAX;
}

/*
 * Tell of a key whose last word in the log is this one, if its row lives.  What
 * comes before the truncate is told by hear_truncate().
 */
static void
hear_winner(CdcSearch *search, CdcFold *fold, const CdcEvent *ev)
{
	CdcApply   *call = &search->call;
	const CdcPos *truncate = due_truncate(search);
	CdcPos		gone;
	CdcPos		stored;

	gone.len = cdc_event_place_len(ev);
	memcpy(gone.bytes, ev->pos, gone.len);
	if (truncate != NULL ?
		cdc_pos_compare(gone.bytes, gone.len, truncate->bytes, truncate->len) <= 0 :
		!cdc_event_kills(ev))
		return;
	for (int i = 0; i < call->target.nkeys; i++)
		search->keys[i] = cdc_event_value(&call->cols, ev, i + 1, &search->isnull[i]);
	if (truncate != NULL)
	{
		uint32		hash = cdc_fold_hash(fold, search->keys);

		bloom_add_element(search->later, (unsigned char *) &hash, sizeof(hash));
	}
	if (cdc_event_kills(ev) && is_due(search, &gone) && is_sampled(search, fold) &&
		find_live_row(search, &stored))
	{
		int			cmp = cdc_pos_compare(gone.bytes, gone.len, stored.bytes, stored.len);

		/* an upsert at this position would be the last word: who wrote the row is not in the log */
		if (cmp >= 0)
			tell(search, search->keys, search->isnull, &stored, cmp > 0 ? "log" : "log, same position", &gone);
	}
}

static void
hear_log(CdcSearch *search, CdcFold *fold)
{
	MemoryContext row = AllocSetContextCreate(CurrentMemoryContext, "cdc_find_resurrected row",
											  ALLOCSET_DEFAULT_SIZES);

	if (due_truncate(search) != NULL)
		search->later = bloom_create(cdc_fold_counted(fold), work_mem, 0);
	for (int kills = 0; kills < 2; kills++)
	{
		CdcEvent   *ev;

		cdc_fold_rewind(fold, kills);
		while ((ev = cdc_fold_next(fold, false)) != NULL)
		{
			MemoryContext old = MemoryContextSwitchTo(row);

			CHECK_FOR_INTERRUPTS();
			/* from disk come those of both kinds each time */
			if (cdc_event_kills(ev) == kills)
				hear_winner(search, fold, ev);
			MemoryContextSwitchTo(old);
			MemoryContextReset(row);
			ResetPerTupleExprContext(search->call.target.estate);
		}
	}
	MemoryContextDelete(row);
}

/* ---------- the target's rows ---------- */

/* From position and keys of the target's live rows, as t, on. */
static void
append_live_rows(StringInfo s, const CdcSearch *search, const char *sample)
{
	const CdcTarget *target = &search->call.target;

	appendStringInfo(s, "SELECT %s", cdc_sql_position(target));
	for (int i = 0; i < target->nkeys; i++)
		appendStringInfo(s, ", t.%s", quote_identifier(target->keys[i].name));
	appendStringInfo(s, " FROM %s AS t%s WHERE ", cdc_quoted_relation(target->relid), sample);
	if (target->tomb_attno != 0)
		appendStringInfo(s, "NOT (%s) AND ", cdc_sql_dead(target));
}

/* Is the truncate the log's last word on a key?  Rarely it is not said though it is. */
static bool
is_truncated(const CdcSearch *search, CdcFold *fold)
{
	uint32		hash;

	for (int i = 0; i < search->call.target.nkeys; i++)
		if (search->isnull[i])
			return false;
	hash = cdc_fold_hash(fold, search->keys);
	return is_sampled(search, fold) &&
		bloom_lacks_element(search->later, (unsigned char *) &hash, sizeof(hash));
}

/*
 * Tell of every row of a query by append_live_rows(); with the log's fold, of
 * those that its truncate should have removed.
 */
static void
tell_rows(CdcSearch *search, const char *sql, CdcFold *fold, const char *evidence,
		  const CdcPos *gone)
{
	CdcTarget  *target = &search->call.target;
	SPIParseOpenOptions options = {.cursorOptions = CURSOR_OPT_NO_SCROLL, .read_only = true};
	Portal		portal;

	SPI_connect();
	portal = SPI_cursor_parse_open(NULL, sql, &options);
	for (;;)
	{
		SPI_cursor_fetch(portal, true, CDC_FETCH_ROWS);
		if (SPI_processed == 0)
			break;
		for (uint64 i = 0; i < SPI_processed; i++)
		{
			HeapTuple	tuple = SPI_tuptable->vals[i];
			TupleDesc	desc = SPI_tuptable->tupdesc;
			CdcPos		stored;
			bool		isnull;
			Datum		value = SPI_getbinval(tuple, desc, 1, &isnull);

			cdc_pos_from_datum(&stored, value, isnull);
			for (int k = 0; k < target->nkeys; k++)
				search->keys[k] = SPI_getbinval(tuple, desc, k + 2, &search->isnull[k]);
			if (fold == NULL || is_truncated(search, fold))
				tell(search, search->keys, search->isnull, &stored, evidence, gone);
		}
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(portal);
	SPI_finish();
}

/* Tell of what the log's truncate should have removed, also what the log has no event of. */
static void
hear_truncate(CdcSearch *search, CdcFold *fold)
{
	const CdcPos *truncate = due_truncate(search);
	const char *schema = cdc_sql_schema();
	StringInfoData s;

	if (truncate == NULL)
		return;
	initStringInfo(&s);
	append_live_rows(&s, search, "");
	appendStringInfo(&s, "NOT %s.cdc_supersedes(%s, %s::%s.cdc_position)", schema,
					 cdc_sql_position(&search->call.target),
					 quote_literal_cstr(cdc_pos_text(truncate->bytes, truncate->len)), schema);
	tell_rows(search, s.data, fold, "log", truncate);
}

/* ---------- the word of the target's own tombstones ---------- */

static void
hear_tombstones(CdcSearch *search)
{
	CdcTarget  *target = &search->call.target;
	Relation	rel;
	AttrNumber	pos_attno;
	AttrNumber *attno;
	TupleTableSlot *slot;
	TableScanDesc scan;
	Oid			type = cdc_position_type();

	if (!OidIsValid(target->tombstones))
		return;
	rel = table_open(target->tombstones, AccessShareLock);
	pos_attno = get_attnum(target->tombstones, "source_position");
	attno = palloc(sizeof(AttrNumber) * target->nkeys);
	for (int i = 0; i < target->nkeys; i++)
		attno[i] = get_attnum(target->tombstones, target->keys[i].name);
	slot = table_slot_create(rel, NULL);
	scan = cdc_table_beginscan(rel, target->snapshot);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CdcPos		gone,
					stored;
		bool		isnull;
		Datum		value = slot_getattr(slot, pos_attno, &isnull);

		CHECK_FOR_INTERRUPTS();
		cdc_position_from_columns(1, &type, &value, &isnull, &gone);
		for (int i = 0; i < target->nkeys; i++)
			search->keys[i] = slot_getattr(slot, attno[i], &search->isnull[i]);
		if (find_live_row(search, &stored) &&
			cdc_pos_compare(gone.bytes, gone.len, stored.bytes, stored.len) >= 0)
			tell(search, search->keys, search->isnull, &stored, "tombstone", &gone);
		ResetPerTupleExprContext(target->estate);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
}

/* ---------- the source's word ---------- */

/* The operator that a key is equal by, as it is written in a statement. */
static char *
equal_operator(const CdcKey *key)
{
	Oid		   *types;
	int			n;
	HeapTuple	tuple;
	Form_pg_operator op;
	char	   *text;

	(void) get_func_signature(key->equal_proc, &types, &n);
	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(get_opfamily_member(key->family, types[0], types[1],
																		  BTEqualStrategyNumber)));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "operator family %u has no equality operator", key->family);
	op = (Form_pg_operator) GETSTRUCT(tuple);
	text = psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(op->oprnamespace)),
					NameStr(op->oprname));
	ReleaseSysCache(tuple);
	return text;
}

/* t.key = s.key, by the key index's operators and collations. */
static char *
same_key(const CdcTarget *target, Oid source)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < target->nkeys; i++)
	{
		const CdcKey *key = &target->keys[i];
		const char *name = quote_identifier(key->name);
		AttrNumber	attno = get_attnum(source, key->name);

		if (attno <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("source \"%s\" lacks key column \"%s\"", get_rel_name(source), key->name),
					 errhint("Make a view that has the key under the target's names.")));
		appendStringInfo(&s, "%st.%s %s s.%s", i > 0 ? " AND " : "", name, equal_operator(key), name);
		if (get_atttype(source, attno) != key->type)
			appendStringInfo(&s, "::%s", format_type_be_qualified(key->type));
		if (OidIsValid(key->collation))
			appendStringInfo(&s, " COLLATE %s",
							 DatumGetCString(DirectFunctionCall1(regcollationout,
																 ObjectIdGetDatum(key->collation))));
	}
	return s.data;
}

static char *
source_query(const CdcSearch *search, Oid source)
{
	StringInfoData s;

	initStringInfo(&s);
	append_live_rows(&s, search, search->sample < 1 ?
					 psprintf(" TABLESAMPLE pg_catalog.bernoulli (%.6f)", search->sample * 100) : "");
	appendStringInfo(&s, "NOT EXISTS (SELECT FROM %s AS s WHERE %s)", cdc_quoted_relation(source),
					 same_key(&search->call.target, source));
	return s.data;
}

/* Tell of every key that the source does not have. */
static void
hear_source(CdcSearch *search, Oid source)
{
	tell_rows(search, source_query(search, source), NULL, "source", NULL);
}

/* ---------- the call ---------- */

/* What of the log cannot be read says nothing of any key. */
static void
pass_by(CdcWatch *watch, const CdcSeen *seen)
{
}

static void
search_all(CdcSearch *search, bool log, Oid source)
{
	CdcApply   *call = &search->call;
	CdcFold    *fold = NULL;
	CdcWatch	watch = {.row = pass_by};
	List	   *fed;

	if (OidIsValid(source) && get_rel_name(source) == NULL)
		cdc_refuse_no_relation(source);
	(void) cdc_call_open(call, &fed);
	search->keys = palloc0(sizeof(Datum) * call->target.nkeys);
	search->isnull = palloc0(sizeof(bool) * call->target.nkeys);
	cdc_call_begin_target(call);
	if (log)
	{
		fold = cdc_fold_create(&call->target, &call->cols, &call->rule);
		cdc_read_staging(&call->target, &call->cols, &call->rule, fold, &watch, &call->read);
		if (watch.failed != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_EXCEPTION),
					 errmsg("log \"%s\" could not be read", call->cols.staging_name),
					 errdetail("%s", watch.failed)));
		cdc_fold_finish(fold);
	}
	cdc_target_open(&call->target, true);
	if (log)
	{
		hear_log(search, fold);
		hear_truncate(search, fold);
		cdc_fold_end(fold);
	}
	hear_tombstones(search);
	if (OidIsValid(source))
		hear_source(search, source);
	cdc_target_end(&call->target);
	if (call->staging_rel != NULL)
		relation_close(call->staging_rel, NoLock);
	table_close(call->target_rel, NoLock);
}

Datum
cdc_find_resurrected(PG_FUNCTION_ARGS)
{
	CdcSearch  *search;
	CdcArgs    *args;
	Oid			source = PG_ARGISNULL(2) ? InvalidOid : PG_GETARG_OID(2);
	MemoryContext context;
	MemoryContext old;

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	InitMaterializedSRF(fcinfo, 0);
	context = AllocSetContextCreate(CurrentMemoryContext, "cdc_find_resurrected",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	search = palloc0(sizeof(CdcSearch));
	search->result = (ReturnSetInfo *) fcinfo->resultinfo;
	search->sample = PG_ARGISNULL(3) ? 1 : PG_GETARG_FLOAT8(3);
	if (!(search->sample > 0 && search->sample <= 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sample must be above 0 and at most 1")));
	search->call.explain = true;
	search->call.any_log = true;
	args = &search->call.args;
	memset(args->isnull, true, sizeof(args->isnull));
	args->values[CDC_ARG_TARGET] = PG_GETARG_DATUM(0);
	args->isnull[CDC_ARG_TARGET] = PG_ARGISNULL(0);
	args->values[CDC_ARG_STAGING] = PG_GETARG_DATUM(1);
	args->isnull[CDC_ARG_STAGING] = PG_ARGISNULL(1);
	/* columns that only the log has do not matter, nor those that it lacks */
	args->values[CDC_ARG_ON_SCHEMA_CHANGE] = CStringGetTextDatum("ignore");
	args->isnull[CDC_ARG_ON_SCHEMA_CHANGE] = false;
	args->values[CDC_ARG_DRY_RUN] = BoolGetDatum(true);
	args->isnull[CDC_ARG_DRY_RUN] = false;
	search->call.no_log = PG_ARGISNULL(1) && OidIsValid(source);
	if (search->call.no_log)
	{
		/* one that is recorded may be gone */
		args->values[CDC_ARG_STAGING] = ObjectIdGetDatum(InvalidOid);
		args->isnull[CDC_ARG_STAGING] = false;
	}

	/* the log's values may be out of line: keep what they point to */
	PushActiveSnapshot(GetTransactionSnapshot());
	search_all(search, !search->call.no_log, source);
	PopActiveSnapshot();

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return (Datum) 0;
}
