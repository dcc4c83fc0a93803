/*-------------------------------------------------------------------------
 *
 * cdc_history.h
 *		What the files of histories share: cdc_create_history() and
 *		cdc_apply_history().
 *
 * A history has one row for each version of a key: its values, valid_from and
 * valid_to.  What its versions do not say stands in its events table: deletes,
 * truncates, and events whose values the versions hold only in part.
 *
 * H1: the events of a key that are remembered are the rows of the events table
 * and, for each version at whose valid_from there is none, that version.
 * H2: what the history holds is a function of these events; so is what the
 * events table holds of them: deletes, events that do not carry all columns,
 * and all of a version that more than one event makes up.
 * H3: the values of a version are those of its last event.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_HISTORY_H
#define CDC_HISTORY_H

#include "postgres.h"

#include "utils/tuplestore.h"

#include "cdc_attach.h"
#include "cdc_runs.h"
#include "cdc_sql.h"

/* columns of a history that are its own */
#define CDC_HISTORY_FROM	"valid_from"
#define CDC_HISTORY_TO		"valid_to"
#define CDC_HISTORY_FROM_AT	"valid_from_at"
#define CDC_HISTORY_TO_AT	"valid_to_at"

/* columns of the events table beside the key and the history's columns */
#define CDC_EVENTS_POSITION	"__position"
#define CDC_EVENTS_OP		"__op"
#define CDC_EVENTS_GAPS		"__unchanged"
#define CDC_EVENTS_AT		"__at"

/* Where a version begins whose snapshot row has a position that does not count. */
#define CDC_HISTORY_LOWEST	"0/0"

/* ---------- what is recorded (cdc_history_record.c) ---------- */

/* columns of cdc_history_rule */
enum
{
	HISTORY_HISTORY, HISTORY_EVENTS, HISTORY_TRACK_COLUMNS, HISTORY_TIME_COLUMN, HISTORY_HIGH,
	HISTORY_CHANGES,
	HISTORY_COLUMNS
};

typedef struct CdcHistoryRecord
{
	bool		exists;
	HeapTuple	tuple;
	Oid			history;
	Oid			events;			/* may be gone */
	List	   *track;			/* of char *; NIL: not said */
	char	   *time_column;	/* of staging, or NULL */
	CdcPos		high;			/* greatest position ever applied */
	int64		changes;		/* calls that wrote: what makes concurrent ones meet */
} CdcHistoryRecord;

extern void cdc_history_read_record(Oid history, bool checked, CdcHistoryRecord *record);
extern void cdc_history_put_record(CdcHistoryRecord *record);
extern List *cdc_history_all(void);
extern Oid	cdc_history_of_events(Oid relid);
extern void cdc_history_follow_drop(List *dropped, bool cascade);
extern void cdc_history_follow_rename(Oid relid, const char *from, const char *to);

/* ---------- a call ---------- */

typedef struct CdcHistory
{
	CdcSink	sink;			/* must be first */
	CdcRule		rule;
	CdcHistoryRecord record;
	Relation	rel;
	Relation	staging_rel;
	CdcTarget	target;			/* its keys without valid_from */
	CdcColumns	cols;
	CdcReadResult read;
	List	   *track;			/* of char * */
	char	   *time_column;
	bool		has_times;		/* the history has valid_from_at and valid_to_at */
	ExprState  *time_cast;		/* of staging's time */
	Oid			owner;			/* of history and events table */

	/* the batch, by name for the queries (cdc_history_read.c) */
	struct CdcHistoryReader *reader;	/* while it is read */
	TupleDesc	incoming_desc;
	Tuplestorestate *incoming;
	TupleDesc	truncates_desc;
	Tuplestorestate *truncates;
	int64		counted;		/* events, without moved-away deletes */
	bool		gaps;			/* some event does not carry all */

	/* the queries (cdc_history_query.c) */
	bool		images;			/* events with their values are, or will be, in the events table */
	bool	   *image_in_events;	/* by column: the events table has it */

	/* what is to be done (cdc_history_write.c) */
	TupleDesc	changes_desc;
	Tuplestorestate *changes;
	int64		counts[CDC_OUTCOMES];
	bool		written;
} CdcHistory;

/* columns of the batch: keys, these, columns */
enum
{
	INCOMING_NUMBER, INCOMING_POSITION, INCOMING_OWN, INCOMING_RANK, INCOMING_COUNTED,
	INCOMING_SECOND, INCOMING_GAPS, INCOMING_NEEDS, INCOMING_AT,
	INCOMING_COLUMNS
};

/* columns of the changes before the keys, and between keys and columns */
enum
{
	CHANGE_WHAT, CHANGE_COUNT,
	CHANGE_BEFORE
};
enum
{
	CHANGE_POSITION, CHANGE_TO, CHANGE_FROM_AT, CHANGE_TO_AT, CHANGE_OP, CHANGE_GAPS,
	CHANGE_AFTER
};

/* what a row of the changes says */
enum
{
	CHANGE_COUNTED = 0,			/* + an outcome: so many events */
	CHANGE_DIFFERS = 20,		/* events that differ from what is stored, with one of them */
	CHANGE_CROSSED,				/* an upsert and a delete met at one position */
	CHANGE_UNAVAILABLE,			/* a value that cannot be found */
	CHANGE_DELETE_VERSION = 30,
	CHANGE_CLOSE_VERSION,		/* only where it ends, and times */
	CHANGE_UPDATE_VERSION,
	CHANGE_INSERT_VERSION,
	CHANGE_DELETE_EVENT,
	CHANGE_UPDATE_EVENT,
	CHANGE_INSERT_EVENT,
	CHANGE_INSERT_TRUNCATE,
	CHANGE_KINDS
};

/* names of the relations that the queries read */
#define CDC_INCOMING_NAME	"cdc_history_incoming"
#define CDC_TRUNCATES_NAME	"cdc_history_truncates"
#define CDC_CHANGES_NAME	"cdc_history_changes"

/* cdc_history_create.c */
extern void cdc_history_refuse_name(const char *column, const char *table);

/* cdc_history_open.c */
extern bool cdc_history_open(CdcHistory *h, const CdcArgs *args);
extern void cdc_history_check_keys(CdcHistory *h);
extern bool cdc_history_open_staging(CdcHistory *h);
extern void cdc_history_check_position(CdcHistory *h);
extern void cdc_history_change_schema(CdcHistory *h);

/* cdc_history_read.c */
extern void cdc_history_read(CdcHistory *h);

/* an operator of cdc_position, with its schema */
#define POS(op)		psprintf("OPERATOR(%s.%s)", cdc_sql_schema(), op)

/* cdc_history_query.c */
extern char *cdc_history_changes_query(CdcHistory *h);
extern char *cdc_history_key_list(CdcHistory *h, const char *prefix);
extern char *cdc_history_column_list(CdcHistory *h, const char *prefix);
extern char *cdc_history_keys(CdcHistory *h, const char *left, bool left_named, const char *right,
							  bool right_named);

/* cdc_history_sql.c */
extern char *cdc_history_ties_query(CdcHistory *h);
extern char *cdc_history_write_query(CdcHistory *h, int what);
extern char *cdc_history_checked_query(CdcHistory *h, int what);

/* cdc_history_write.c */
extern void cdc_history_check_fed(CdcHistory *h);
extern void cdc_history_write(CdcHistory *h);

#endif							/* CDC_HISTORY_H */
