/*-------------------------------------------------------------------------
 *
 * cdc_history_write.c
 *		What a batch changes in a history: found by one query, written by
 *		ordinary statements.
 *
 * The query and the statements on the events table run as the owner of both
 * tables, in a security-restricted operation: who applies needs rights on the
 * history alone.  What is written to the history is written by the caller.
 * Statements run only where they have a row to write.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "executor/tstoreReceiver.h"
#include "miscadmin.h"
#include "tcop/dest.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/queryenvironment.h"
#include "utils/rel.h"

#include "cdc_history.h"

/* ---------- as the owner ---------- */

typedef struct Owner
{
	Oid			userid;
	int			context;
	int			level;
} Owner;

static void
become_owner(CdcHistory *h, Owner *owner)
{
	GetUserIdAndSecContext(&owner->userid, &owner->context);
	SetUserIdAndSecContext(h->owner, owner->context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_RESTRICTED_OPERATION);
	owner->level = NewGUCNestLevel();
	cdc_restrict_search_path();
	/* the planner's guesses of what CTEs yield are high: code would be made in vain */
	(void) set_config_option("jit", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
}

static void
become_caller(Owner *owner)
{
	AtEOXact_GUC(false, owner->level);
	SetUserIdAndSecContext(owner->userid, owner->context);
}

/* ---------- the events table's columns ---------- */

static void
refuse_lost(CdcHistory *h, const char *column)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("staging \"%s\" no longer feeds column \"%s\" of history \"%s\"",
					h->cols.staging_name, column, h->target.name),
			 errdetail("Versions that are split would lose their values in it."),
			 errhint("Mend staging, or make a view over it that has the column; a column that is to go is dropped from \"%s\", too.",
					 get_rel_name(h->record.events))));
}

/*
 * Values of events stand in the events table where versions do not tell them
 * all.  Are there any yet?  Then staging must feed all columns that they have.
 */
void
cdc_history_check_fed(CdcHistory *h)
{
	AttrNumber	own = get_attnum(h->record.events, CDC_EVENTS_AT);
	Relation	events = table_open(h->record.events, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(events);

	for (int c = 0; c < h->cols.ncols; c++)
	{
		AttrNumber	attno = get_attnum(h->record.events, h->cols.cols[c].name);

		if (attno > 0 && attno <= own)
			cdc_history_refuse_name(h->cols.cols[c].name, h->target.name);
	}
	for (int i = own; i < desc->natts; i++)
	{
		const char *name = NameStr(TupleDescAttr(desc, i)->attname);
		bool		fed = false;

		if (TupleDescAttr(desc, i)->attisdropped)
			continue;
		for (int c = 0; c < h->cols.ncols && !fed; c++)
			fed = strcmp(h->cols.cols[c].name, name) == 0;
		if (!fed)
			refuse_lost(h, name);
		h->images = true;
	}
	table_close(events, AccessShareLock);
}

/* "x type" of a column of the history, as ALTER TABLE says it after "ADD COLUMN" or "ALTER COLUMN .. TYPE". */
static char *
type_of_column(CdcHistory *h, AttrNumber attno)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(h->rel), attno - 1);
	char	   *type = format_type_extended(att->atttypid, att->atttypmod,
											FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);

	return OidIsValid(att->attcollation) ?
		psprintf("%s COLLATE %s", type, cdc_collation_name(att->attcollation)) : type;
}

/* A column of the events table follows the type of the history's. */
static void
plan_column(CdcHistory *h, StringInfo sql, AttrNumber attno, bool *there)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(h->rel), attno - 1);
	const char *comma = sql->len > 0 ? ", " : "";
	const char *name = quote_identifier(NameStr(att->attname));
	AttrNumber	in_events = get_attnum(h->record.events, NameStr(att->attname));
	Oid			type;
	int32		typmod;
	Oid			collation;

	*there = in_events > 0;
	if (!*there)
	{
		appendStringInfo(sql, "%sADD COLUMN %s %s", comma, name, type_of_column(h, attno));
		return;
	}
	get_atttypetypmodcoll(h->record.events, in_events, &type, &typmod, &collation);
	if (type != att->atttypid || typmod != att->atttypmod || collation != att->attcollation)
		appendStringInfo(sql, "%sALTER COLUMN %s TYPE %s USING %s::%s", comma, name,
						 type_of_column(h, attno), name,
						 format_type_extended(att->atttypid, att->atttypmod,
											  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
}

/*
 * With tracked columns, and where events do not carry all columns, values are
 * needed: the events table gets the columns that it lacks.  A dry run does
 * without.
 */
static void
plan_images(CdcHistory *h)
{
	StringInfoData sql;
	Owner		owner;
	bool		there;

	h->images |= h->track != NIL || h->gaps;
	initStringInfo(&sql);
	h->image_in_events = palloc0(sizeof(bool) * (h->cols.ncols + 1));
	for (int i = 0; i < h->target.nkeys; i++)
		plan_column(h, &sql, h->target.keys[i].attno, &there);
	for (int c = 0; c < h->cols.ncols && h->images; c++)
	{
		plan_column(h, &sql, h->cols.cols[c].attno, &there);
		h->image_in_events[c] = there || !h->rule.dry_run;
	}
	if (sql.len == 0 || h->rule.dry_run)
		return;
	become_owner(h, &owner);
	cdc_ddl("ALTER TABLE %s %s", cdc_quoted_relation(h->record.events), sql.data);
	become_caller(&owner);
}

/* ---------- the queries' relations ---------- */

static void
register_store(const char *name, TupleDesc desc, Tuplestorestate *store)
{
	EphemeralNamedRelation enr = palloc0(sizeof(EphemeralNamedRelationData));
	int			rc;

	enr->md.name = pstrdup(name);
	enr->md.reliddesc = InvalidOid;
	enr->md.tupdesc = desc;
	enr->md.enrtype = ENR_NAMED_TUPLESTORE;
	enr->md.enrtuples = tuplestore_tuple_count(store);
	enr->reldata = store;
	rc = SPI_register_relation(enr);
	if (rc != SPI_OK_REL_REGISTER)
		elog(ERROR, "could not register \"%s\": %s", name, SPI_result_code_string(rc));
}

/* ---------- what is refused, or warned of ---------- */

static char *
row_key(CdcHistory *h, TupleTableSlot *slot, int before)
{
	return cdc_key_text(&h->target, slot->tts_values + before, slot->tts_isnull + before);
}

static char *
row_position(CdcHistory *h, TupleTableSlot *slot)
{
	CdcPos		pos;
	int			at = CHANGE_BEFORE + h->target.nkeys + CHANGE_POSITION;

	cdc_pos_from_datum(&pos, slot->tts_values[at], slot->tts_isnull[at]);
	return cdc_pos_text(pos.bytes, pos.len);
}

static void
check_ties(CdcHistory *h)
{
	Owner		owner;
	int			rc;

	if (h->rule.on_tie != CDC_TIE_ERROR)
		return;
	become_owner(h, &owner);
	rc = SPI_execute(cdc_history_ties_query(h), false, 1);
	become_caller(&owner);
	if (rc != SPI_OK_SELECT)
		elog(ERROR, "could not look for ties: %s", SPI_result_code_string(rc));
	if (SPI_processed > 0)
	{
		Datum	   *values = palloc(sizeof(Datum) * (h->target.nkeys + 1));
		bool	   *isnull = palloc(sizeof(bool) * (h->target.nkeys + 1));
		CdcPos		pos;

		heap_deform_tuple(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, values, isnull);
		cdc_pos_from_datum(&pos, values[h->target.nkeys], isnull[h->target.nkeys]);
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("different events of one key share a position in staging \"%s\"",
						h->cols.staging_name),
				 errdetail("Key %s at position %s: which one is later cannot be known.",
						   cdc_key_text(&h->target, values, isnull), cdc_pos_text(pos.bytes, pos.len)),
				 errhint("Add an ordinal to the position, such as the change's number in its transaction, or set on_tie => 'upsert'.")));
	}
}

static void
refuse_unavailable(CdcHistory *h, TupleTableSlot *slot, const char *column)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("value of column \"%s\" is unavailable for key %s", column,
					row_key(h, slot, CHANGE_BEFORE)),
			 errdetail("The event at position %s does not carry it, and no older event of the key's life does.",
					   row_position(h, slot)),
			 errhint("Deliver the events that carry it, or set on_unavailable => 'null': a later one that carries it mends the history.")));
}

static void
tell_differs(CdcHistory *h, TupleTableSlot *slot, int64 count, const char *column)
{
	if (h->rule.on_same_position == CDC_SAME_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("an event differs from what history \"%s\" holds at its position",
						h->target.name),
				 errdetail("Key %s, position %s, first differing column \"%s\".",
						   row_key(h, slot, CHANGE_BEFORE), row_position(h, slot), column),
				 errhint("Add an ordinal if two changes share a position; use on_same_position => 'rewrite' to backfill from the log.")));
	if (h->rule.on_same_position == CDC_SAME_WARN)
		ereport(WARNING,
				(errmsg("events differ from what history \"%s\" holds at their position",
						h->target.name),
				 errdetail("Events: %lld, one is key %s at position %s, first differing column \"%s\". What was stored was kept.",
						   (long long) count, row_key(h, slot, CHANGE_BEFORE),
						   row_position(h, slot), column),
				 errhint("Add an ordinal if two changes share a position; use on_same_position => 'rewrite' to backfill from the log.")));
}

static void
tell_crossed(CdcHistory *h, TupleTableSlot *slot, int64 count)
{
	ereport(WARNING,
			(errmsg("an upsert and a delete of one key of history \"%s\" came at one position in different batches",
					h->target.name),
			 errdetail("Keys: %lld, one is key %s at position %s. The upsert stands.",
					   (long long) count, row_key(h, slot, CHANGE_BEFORE), row_position(h, slot)),
			 errhint("Add an ordinal to the position so that the order is known.")));
}

/* One row of the changes, which is written later, or says something now. */
static void
note_change(CdcHistory *h, TupleTableSlot *slot, int64 *todo)
{
	int			what;
	int64		count;
	int			op = CHANGE_BEFORE + h->target.nkeys + CHANGE_OP;

	slot_getallattrs(slot);
	what = DatumGetInt32(slot->tts_values[CHANGE_WHAT]);
	count = slot->tts_isnull[CHANGE_COUNT] ? 0 : DatumGetInt64(slot->tts_values[CHANGE_COUNT]);
	if (what < CHANGE_COUNTED + CDC_OUTCOMES)
		h->counts[what - CHANGE_COUNTED] += count;
	else if (what == CHANGE_UNAVAILABLE)
		refuse_unavailable(h, slot, TextDatumGetCString(slot->tts_values[op]));
	else if (what == CHANGE_DIFFERS)
		tell_differs(h, slot, count, TextDatumGetCString(slot->tts_values[op]));
	else if (what == CHANGE_CROSSED)
		tell_crossed(h, slot, count);
	else
		todo[what]++;
}

/* ---------- the work ---------- */

static void
find_changes(CdcHistory *h)
{
	SPIExecuteOptions options;
	Owner		owner;
	int			rc;

	memset(&options, 0, sizeof(options));
	options.dest = CreateDestReceiver(DestTuplestore);
	SetTuplestoreDestReceiverParams(options.dest, h->changes, CurrentMemoryContext, true, NULL, NULL);
	become_owner(h, &owner);
	rc = SPI_execute_extended(cdc_history_changes_query(h), &options);
	become_caller(&owner);
	options.dest->rDestroy(options.dest);
	if (rc != SPI_OK_SELECT)
		elog(ERROR, "could not find what changes: %s", SPI_result_code_string(rc));
}

/* May a trigger change what a statement writes to the history? */
static bool
may_change(CdcHistory *h, int what)
{
	TriggerDesc *triggers = h->rel->trigdesc;

	if (what == CHANGE_DELETE_VERSION || what >= CHANGE_DELETE_EVENT)
		return false;
	return h->rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ||
		(triggers != NULL && (what == CHANGE_INSERT_VERSION ? triggers->trig_insert_before_row :
							  triggers->trig_update_before_row));
}

static int64
result_number(int column)
{
	bool		isnull;

	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column, &isnull));
}

static void
write_changes(CdcHistory *h, int what, int64 rows)
{
	bool		on_events = what >= CHANGE_DELETE_EVENT;
	bool		checked = may_change(h, what);
	Owner		owner;
	int64		written;
	int			rc;

	if (on_events)
		become_owner(h, &owner);
	rc = SPI_execute(checked ? cdc_history_checked_query(h, what) : cdc_history_write_query(h, what),
					 false, 0);
	if (on_events)
		become_caller(&owner);
	if (rc < 0)
		elog(ERROR, "could not write a history: %s", SPI_result_code_string(rc));
	written = checked ? result_number(1) : (int64) SPI_processed;
	if (checked && result_number(2) != written)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("a trigger changed the key or the validity of versions of history \"%s\"",
						h->target.name),
				 errdetail("Changed: %lld of %lld.", (long long) (written - result_number(2)),
						   (long long) written),
				 errhint("Let BEFORE triggers leave the key, valid_from, valid_to and their times alone.")));
	if (written != rows)
	{
		if (IsolationUsesXactSnapshot())
			cdc_refuse_concurrent();
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("rows of history \"%s\" were not written", h->target.name),
				 errdetail("Written: %lld of %lld.", (long long) written, (long long) rows),
				 errhint("A BEFORE trigger that returns NULL, or a rule, or somebody who writes to the history by hand holds them back.")));
	}
}

static void
count_rest(CdcHistory *h, const int64 *todo)
{
	int64		counted = 0;

	for (int i = 0; i < CDC_OUTCOMES; i++)
		counted += h->counts[i];
	h->counts[CDC_SUPERSEDED] += h->counted - counted;
	h->counts[CDC_TRUNCATED] += todo[CHANGE_INSERT_TRUNCATE];
	h->counts[CDC_DUPLICATE] += h->read.truncates - todo[CHANGE_INSERT_TRUNCATE];
}

/* Find what the batch changes, write it, and count what became of the events. */
void
cdc_history_write(CdcHistory *h)
{
	int64		todo[CHANGE_KINDS] = {0};
	MemoryContext context = CurrentMemoryContext;
	TupleTableSlot *slot;

	plan_images(h);
	h->changes = tuplestore_begin_heap(false, false, work_mem);
	slot = MakeSingleTupleTableSlot(h->changes_desc, &TTSOpsMinimalTuple);
	SPI_connect();
	MemoryContextSwitchTo(context);
	register_store(CDC_INCOMING_NAME, h->incoming_desc, h->incoming);
	register_store(CDC_TRUNCATES_NAME, h->truncates_desc, h->truncates);
	check_ties(h);
	find_changes(h);
	while (tuplestore_gettupleslot(h->changes, true, false, slot))
		note_change(h, slot, todo);
	count_rest(h, todo);
	if (!h->rule.dry_run)
	{
		register_store(CDC_CHANGES_NAME, h->changes_desc, h->changes);
		for (int what = CHANGE_DELETE_VERSION; what < CHANGE_KINDS; what++)
			if (todo[what] > 0)
			{
				write_changes(h, what, todo[what]);
				h->written = true;
			}
	}
	SPI_finish();
	MemoryContextSwitchTo(context);
	ExecDropSingleTupleTableSlot(slot);
	tuplestore_end(h->changes);
}
