/*-------------------------------------------------------------------------
 *
 * cdc_module.c
 *		Where a reader starts: the module's magic block and the map of src/.
 *
 * For one key, the change with the greatest source-log position wins,
 * whatever the order, number of times or batches in which changes arrive.
 *
 *	cdc_compat.h	differences between server majors, and nothing else
 *	cdc_position	parse, print, pack, compare on plain C values: a pure core
 *	cdc_value.h		a position as a Datum
 *	cdc_type		SQL face of the type: in and out, operators, casts, pieces
 *	cdc_source		positions out of what each source calls its coordinates: as
 *					arguments, as texts (cdc_source_text: pure), as jsonb
 *					(cdc_source_json)
 *	cdc_aggregate	latest_by_position
 *	cdc_law			the truth table: what an event does to a stored row
 *	cdc_op			what a source calls insert, update, delete ..
 *	cdc_rule		the rule of a call: its parameters, read and checked
 *	cdc_target		what a target must be; its lock and law columns
 *	cdc_key			its key: the index, and values as that index sees them
 *	cdc_poscol		positions spread over columns
 *	cdc_home		the target while rows go to it; the row stored for a key
 *	cdc_probe		a key looked up in an index, by itself or in order
 *	cdc_expr		expressions that a user gives over a staging row
 *	cdc_column		which staging column goes into which target column, and how
 *	cdc_consume		what becomes of staging's rows once they are read
 *	cdc_bookmark	how far a staging relation has been read
 *					(cdc_read_below: by all targets of a table)
 *	cdc_gap			values that an event does not carry
 *	cdc_query		the query over staging
 *	cdc_read		staging read: rows become events
 *	cdc_watch		the same row by row, where no row may end the call
 *	cdc_fold		one winner per key of a batch
 *	cdc_ordered		the same for events that come in key order
 *	cdc_event		kept events: how they lie in memory, and their values
 *	cdc_peek		what the fold will touch soon, asked for early
 *	cdc_spill		the fold beyond memory: events sorted by key on disk
 *	cdc_chain		the events of one key: rank, ties, what stays below a winner
 *	cdc_image		the row that an event leaves
 *	cdc_marks		which columns of a row are older than the row
 *	cdc_search		where the value of such a column comes from
 *	cdc_tombstone	the side table: deletes remembered outside of the target
 *	cdc_write		winners judged and written; concurrent changes
 *	cdc_row			one row written, as by an ordinary statement
 *	cdc_ahead		pages of the target asked from disk early
 *	cdc_scout		the rows of the next winners looked for together
 *	cdc_bulk		new rows written many at a time
 *	cdc_truncate	a truncate event: rows at or below it are dead
 *	cdc_notice		what a call warns of
 *	cdc_guard		the trigger that refuses what the law would not write
 *	cdc_guarded		the table it fires for: rule, what is stored for a key
 *	cdc_exempt		how the extension's own writes get past it
 *	cdc_append		tables that are only added to
 *	cdc_registry	what is recorded of a target: its rule, fence, floor, epoch
 *	cdc_sql			texts for statements over a target's rows
 *	cdc_fence		purging, fences, floors, epochs, taking back
 *	cdc_attach		a target's rule checked and recorded; what it lacks is added
 *					(cdc_attach_ddl, cdc_attach_guard, cdc_attach_record)
 *	cdc_live_view	the view of a target's live rows
 *	cdc_detach		the rule forgotten
 *	cdc_event_view	typed views over landed raw events
 *					(cdc_event_view_column: their columns as expressions)
 *	cdc_event_view_value	the functions that these expressions call
 *	cdc_event_view_read		a raw event taken apart, once for all its columns
 *					(cdc_event_view_schema, cdc_event_view_source)
 *	cdc_decode		values of raw events as those of the target's types
 *					(cdc_decode_number, cdc_decode_time)
 *	cdc_follow		event triggers: renames, new owners, drops
 *	cdc_report		names of outcomes, values and context of messages
 *	cdc_apply		the SQL entry point: phases in order, the result row
 *					(cdc_apply_record: what a call records)
 *	cdc_snapshot	rows as they are in the source, compared with the target
 *	cdc_sieve		the comparison, in key order; keys that are missing
 *	cdc_explain		what an apply would make of each event, and why
 *					(cdc_reason: in words)
 *	cdc_resurrected	rows that live although they should not
 *	cdc_check		the questions to ask before events are applied
 *					(cdc_filtered: deletes that the filter leaves out)
 *	cdc_history		a row for each version: the phases of cdc_apply_history()
 *					(cdc_history_open, cdc_history_read: its relations, its batch;
 *					cdc_history_query, cdc_history_sql, cdc_history_write: what
 *					changes, found and written by the server's own queries;
 *					cdc_history_create, cdc_history_record: its tables, its record)
 *	cdc_progress	how far a long call has come
 *	cdc_runs		the log of what was done to attached targets
 *	cdc_group		targets that foreign keys tie
 *	cdc_all			all attached targets by one call, each as its owner
 *	cdc_status		how many rows a target's tombstones and its staging have
 *
 * Calls go one way: apply -> rule registry target home column consume bookmark
 * read fold write fence report; column consume read -> bookmark;
 * snapshot -> apply sieve registry; sieve -> home fold law expr;
 * explain resurrected check -> apply watch sql; check -> filtered -> apply;
 * read_below -> registry bookmark; watch -> read fold;
 * fence -> sql; attach detach follow fence -> rule registry target exempt;
 * event_view -> registry target key attach_ddl; event_view_value ->
 * event_view_read decode source;
 * all -> group apply runs; group status -> registry; runs -> registry;
 * history -> rule target column consume bookmark read registry attach_ddl; follow -> history;
 * guard -> guarded exempt law; append -> registry guard attach_ddl; guarded -> rule registry target home tombstone;
 * read -> query op gap fold column peek; fold -> event chain spill ordered; write ->
 * home law image row bulk notice; row -> tombstone; home tombstone -> probe;
 * image -> marks search home fold event column; search -> marks; everything ->
 * key position; position -> postgres.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/guc.h"

#include "cdc_compat.h"
#include "cdc_fold.h"
#include "cdc_guard.h"
#include "cdc_progress.h"
#include "cdc_runs.h"
#include "cdc_write.h"

CDC_MODULE_MAGIC("cdc_precedence", CDC_PRECEDENCE_VERSION);

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	DefineCustomBoolVariable("cdc_precedence.bypass_guard",
							 "Lets a table's owner write past its guard triggers.",
							 "It has no effect for roles that do not have the rights of the table's owner.",
							 &cdc_bypass_guard,
							 false,
							 PGC_USERSET,
							 0,
							 NULL,
							 NULL,
							 NULL);
	DefineCustomIntVariable("cdc_precedence.debug_fold_events",
							"Spills the events kept of a batch to disk after so many of them.",
							"0 spills when they take more memory than work_mem * hash_mem_multiplier. For tests.",
							&cdc_debug_fold_events,
							0,
							0,
							INT_MAX,
							PGC_USERSET,
							GUC_NOT_IN_SAMPLE,
							NULL,
							NULL,
							NULL);
	DefineCustomBoolVariable("cdc_precedence.debug_prefetch",
							 "Asks for pages of the target ahead also where they are quick to come.",
							 "Otherwise it begins when pages are seen to come from disk. For tests.",
							 &cdc_debug_prefetch,
							 false,
							 PGC_USERSET,
							 GUC_NOT_IN_SAMPLE,
							 NULL,
							 NULL,
							 NULL);
	DefineCustomIntVariable("cdc_precedence.debug_scout",
							"Looks for so many rows of the target together; 0 is one by one.",
							"-1 is what pays. For tests.",
							&cdc_debug_scout,
							-1,
							-1,
							64,
							PGC_USERSET,
							GUC_NOT_IN_SAMPLE,
							NULL,
							NULL,
							NULL);
	DefineCustomBoolVariable("cdc_precedence.track_runs",
							 "Records in cdc_runs what is done to attached targets.",
							 NULL,
							 &cdc_track_runs,
							 true,
							 PGC_USERSET,
							 0,
							 NULL,
							 NULL,
							 NULL);
	DefineCustomIntVariable("cdc_precedence.runs_retention",
							"How long the rows of cdc_runs are kept.",
							"-1 keeps them for ever. Old rows go when new ones are written.",
							&cdc_runs_retention,
							cdc_runs_retention,
							-1,
							INT_MAX,
							PGC_SUSET,
							GUC_UNIT_S,
							NULL,
							NULL,
							NULL);
	DefineCustomIntVariable("cdc_precedence.progress_interval",
							"How often a long cdc_apply() says in a NOTICE how far it has come.",
							"0 says nothing.",
							&cdc_progress_interval,
							0,
							0,
							INT_MAX,
							PGC_USERSET,
							GUC_UNIT_MS,
							NULL,
							NULL,
							NULL);
	MarkGUCPrefixReserved("cdc_precedence");
}
