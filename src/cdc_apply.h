/*-------------------------------------------------------------------------
 *
 * cdc_apply.h
 *		What the rooms of cdc_apply() share.
 *
 * Calls go one way: apply -> rule, target, column, read, fold, write, report;
 * read -> op, fold; write -> image, law, target, report.  The header comment
 * of cdc_module.c is the map.
 *
 * Locks: the apply lock of the target (cdc_target_lock) is taken before
 * anything is read and kept to the end of the transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_APPLY_H
#define CDC_APPLY_H

#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "utils/jsonb.h"
#include "utils/relcache.h"
#include "utils/sortsupport.h"

#include "cdc_compat.h"
#include "cdc_position.h"
#include "cdc_value.h"

#include "cdc_law.h"

/* ---------- the rule of a call (cdc_rule.c) ---------- */

typedef enum CdcNullOp
{
	CDC_NULL_OP_AUTO, CDC_NULL_OP_READ, CDC_NULL_OP_IGNORE, CDC_NULL_OP_ERROR
} CdcNullOp;

typedef enum CdcOnUnavailable
{
	CDC_UNAVAILABLE_ERROR, CDC_UNAVAILABLE_NULL
} CdcOnUnavailable;

typedef enum CdcSnapshotPosition
{
	CDC_SNAPSHOT_NONE, CDC_SNAPSHOT_EVENT, CDC_SNAPSHOT_BY_KIND
} CdcSnapshotPosition;

typedef enum CdcOnTie
{
	CDC_TIE_ERROR, CDC_TIE_UPSERT
} CdcOnTie;

typedef enum CdcOnSame
{
	CDC_SAME_WARN, CDC_SAME_KEEP, CDC_SAME_REWRITE, CDC_SAME_ERROR
} CdcOnSame;

typedef enum CdcOnSchema
{
	CDC_SCHEMA_WARN, CDC_SCHEMA_IGNORE, CDC_SCHEMA_FAIL, CDC_SCHEMA_APPEND
} CdcOnSchema;

typedef enum CdcConsume
{
	CDC_CONSUME_KEEP, CDC_CONSUME_DELETE, CDC_CONSUME_TRUNCATE, CDC_CONSUME_BOOKMARK
} CdcConsume;

/* the arguments of cdc_apply(), in the order of its signature */
enum
{
	CDC_ARG_TARGET, CDC_ARG_STAGING, CDC_ARG_KEY_COLUMNS, CDC_ARG_POSITION_COLUMNS,
	CDC_ARG_STAGING_POSITION, CDC_ARG_STAGING_FILTER, CDC_ARG_OP_COLUMN, CDC_ARG_DEFAULT_OP,
	CDC_ARG_DELETE_FLAG_COLUMN, CDC_ARG_TOMBSTONE_COLUMN, CDC_ARG_OLD_KEY_COLUMNS,
	CDC_ARG_UNCHANGED_COLUMN, CDC_ARG_EXCEPT_COLUMNS, CDC_ARG_OP_MAP, CDC_ARG_NULL_OP,
	CDC_ARG_UNAVAILABLE_VALUE, CDC_ARG_ON_UNAVAILABLE, CDC_ARG_IGNORE_NULLS,
	CDC_ARG_SNAPSHOT_POSITION, CDC_ARG_ON_TIE, CDC_ARG_ON_SAME_POSITION, CDC_ARG_ON_SCHEMA_CHANGE,
	CDC_ARG_COLUMN_POSITIONS, CDC_ARG_CONSUME, CDC_ARG_BOOKMARK_COLUMN, CDC_ARG_EXPECT_EVENTS,
	CDC_ARG_LINEAGE, CDC_ARG_DRY_RUN, CDC_ARG_NOWAIT,
	CDC_ARGS
};

typedef struct CdcArgs
{
	Datum		values[CDC_ARGS];
	bool		isnull[CDC_ARGS];
	bool		recorded_position;	/* the expression comes from the attachment */
	bool		recorded_filter;
	bool		recorded_except;
	CdcPos		as_of;			/* of a snapshot (cdc_snapshot.c); len 0: staging holds events */
} CdcArgs;

typedef struct CdcRule
{
	Oid			target;
	Oid			staging;
	List	   *key_columns;	/* of char *; NIL: the primary key */
	List	   *position_columns;
	List	   *old_key_columns;
	List	   *except_columns;
	char	   *staging_position;	/* SQL expression or NULL */
	char	   *staging_filter;
	char	   *op_column;
	char	   *default_op;
	char	   *delete_flag_column;
	char	   *tombstone_column;
	char	   *unchanged_column;
	char	   *column_positions;
	Jsonb	   *op_map;
	char	   *unavailable_value;	/* NULL when turned off */
	CdcNullOp	null_op;
	CdcOnUnavailable on_unavailable;
	bool		ignore_nulls;
	CdcSnapshotPosition snapshot_position;
	CdcOnTie	on_tie;
	CdcOnSame	on_same_position;
	CdcOnSchema on_schema_change;
	CdcConsume	consume;
	char	   *bookmark_column;
	bool		recorded_position;	/* staging_position is the attachment's */
	bool		recorded_filter;
	char	   *lineage;		/* declared by the caller, or NULL */
	bool		attached;
	Oid			tombstones;		/* side table; 0: tombstones stand in the row */
	CdcHorizon	horizon;		/* of the target */
	int64		epoch;			/* that positions of epoch 0 get */
	bool		check_events;	/* expect_events was given */
	int64		expect_events;
	bool		dry_run;
	bool		nowait;
	bool		explain;		/* a dry run that keeps to every event (cdc_explain.c) */
	bool		recorded_except;	/* except_columns are the attachment's */
	CdcPos		as_of;			/* len > 0: staging holds a snapshot's rows, all as of here */
	char	   *order_by;		/* in which they are read */
	struct CdcSieve *sieve;		/* that they pass through first */
	bool		history;		/* of cdc_apply_history(): the target has a row for each version */
} CdcRule;

/* Are staging's rows those of a snapshot rather than events? */
#define cdc_rule_is_snapshot(rule) ((rule)->as_of.len > 0)

struct CdcRegistration;

extern void cdc_rule_read(const CdcArgs *args, CdcRule *rule);
extern void cdc_rule_merge(CdcArgs *args, const struct CdcRegistration *reg, Relation target);
extern void cdc_rule_complete(CdcArgs *args, const struct CdcRegistration *reg, Relation target,
							  CdcRule *rule);
extern void cdc_rule_read_law(const struct CdcRegistration *reg, Relation target, CdcRule *rule);
extern void cdc_refuse_lost_side_table(const char *target);
extern void cdc_rule_check_lineage(const CdcRule *rule, const struct CdcRegistration *reg,
								   Relation target_rel, Relation staging_rel);
extern Oid	cdc_rule_recorded_staging(const struct CdcRegistration *reg, LOCKMODE lockmode,
									  bool missing_ok);

/* ---------- the target (cdc_target.c) ---------- */

/* Where the bytes of a key value are that decide equality, if they do. */
typedef enum CdcKeyImage
{
	CDC_KEY_BY_OPERATOR,		/* they do not: the type's operator does */
	CDC_KEY_BY_VALUE,			/* the datum itself */
	CDC_KEY_BY_BYTES,			/* what it points to, of a fixed length */
	CDC_KEY_BY_VARLENA			/* the payload of a varlena */
} CdcKeyImage;

/* One key column, as the target's key index sees it. */
typedef struct CdcKey
{
	AttrNumber	attno;			/* in the target */
	const char *name;
	Oid			type;
	int32		typmod;
	int16		typlen;
	bool		typbyval;
	bool		notnull;
	Oid			collation;		/* of the index column */
	FmgrInfo	equal;
	Oid			family;			/* operator family of the index column */
	Oid			equal_proc;
	Oid			equal_op;
	Oid			sort_op;		/* that brings keys into the index's order */
	CdcKeyImage image;			/* when equal is equal bytes: where they are */
	FmgrInfo	hash;			/* fn_oid invalid: none */
	SortSupportData sort;
} CdcKey;

/* Mixes a datum well enough for a table that takes its low bits. */
static inline uint32
cdc_key_hash_value(Datum value)
{
	uint64		h = (uint64) value;

	h ^= h >> 33;
	h *= UINT64CONST(0xff51afd7ed558ccd);
	h ^= h >> 33;
	h *= UINT64CONST(0xc4ceb9fe1a85ec53);
	return (uint32) (h >> 32);
}

/* A relation that rows go to: the target, or one of its partitions. */
typedef struct CdcLeaf
{
	Oid			relid;
	ResultRelInfo *rri;
	Relation	index;
	List	   *arbiters;		/* the key index and its equals */
	bool		others_unique;	/* other indexes keep something unique too */
	struct CdcProbe *probe;
	struct CdcBulk *bulk;		/* rows that gather, once asked for */
	AttrNumber *attno;			/* target attno - 1 -> attno here */
	TupleTableSlot *stored;		/* the row found */
	TupleTableSlot *fresh;		/* the row to write */
	TupleTableSlot *other;		/* an old key's row, or the row being locked */
} CdcLeaf;

typedef struct CdcTarget
{
	Relation	rel;
	Oid			relid;
	const char *name;			/* schema.table, for messages */
	int			natts;
	Oid			index;			/* of the target (root) */
	int			nkeys;
	CdcKey	   *keys;
	int			npos;
	AttrNumber *pos_attno;
	Oid		   *pos_type;
	bool		pos_single;		/* one cdc_position column */
	CdcPositionKind pos_kind;	/* of several columns */
	AttrNumber	tomb_attno;		/* 0: tombstones stand in a side table */
	bool		tomb_time;		/* timestamptz rather than boolean */
	AttrNumber	marks_attno;	/* of column_positions, or 0 */
	Oid			tombstones;		/* the side table, or 0 */
	CdcHorizon	horizon;
	CdcPos		truncate;		/* the batch's truncate that counts, or none */

	bool		explain;		/* only looked at, by who may read it */

	/* executor, from cdc_target_begin on */
	bool		dry_run;
	bool		in_group;		/* after-triggers fire when the caller says so */
	EState	   *estate;
	ResultRelInfo *rri;
	ModifyTableState *mtstate;
	struct PartitionTupleRouting *routing;	/* partitioned targets */
	TupleTableSlot *route_slot;
	struct HTAB *leaves;
	CdcLeaf    *leaf;			/* the last one used */
	Snapshot	snapshot;
	EPQState	epq;
	ExprState **defaults;		/* by attno - 1; made when first needed */
	bool	   *default_known;
	ExprState **fits;			/* of position and tombstone columns, by column */
	TransitionCaptureState *insert_capture;
	TransitionCaptureState *update_capture;
	bool		insert_fired;	/* BEFORE STATEMENT triggers ran */
	bool		update_fired;
	TransitionCaptureState *delete_capture;
	bool		delete_fired;
	struct CdcTombstones *tombs;	/* the side table while it is open */
	Relation	held[3];		/* key index, side table and its index: see hold() */
} CdcTarget;

/* What the target holds for a key. */
typedef struct CdcStored
{
	CdcKeyState state;
	CdcPos		pos;
	TupleTableSlot *slot;		/* the row; NULL when there is none */
	bool		tombstone;		/* the side table has one */
} CdcStored;

/* Is there a row, put there by hand, of a key whose tombstone says that it is dead? */
static inline bool
cdc_is_ghost(const CdcStored *stored)
{
	return stored->tombstone && stored->slot != NULL && stored->state == CDC_KEY_TOMBSTONE;
}

/* How a key is looked up. */
typedef enum CdcFind
{
	CDC_FIND_ANY,
	CDC_FIND_IN_ORDER,			/* in the order of the key index since the last rewind */
	CDC_FIND_AGAIN				/* at a snapshot of this moment */
} CdcFind;

/* in cdc_key.c */
extern bool cdc_key_equal(const CdcKey *key, Datum a, Datum b);
extern uint32 cdc_key_hash(CdcKey *key, Datum value);
extern Datum cdc_key_normal(const CdcKey *key, Datum value);
extern bool cdc_keys_same(const CdcTarget *target, const Datum *a, const Datum *b);

extern Oid	cdc_position_type(void);
extern void cdc_target_check(Relation rel);
extern void cdc_check_owner(Relation rel);
extern void cdc_refuse_position_type(const char *where, const char *column, Oid type);
extern bool cdc_target_lock(Oid relid, LOCKMODE mode, bool nowait);
extern void cdc_target_unlock(Oid relid, LOCKMODE mode);
extern List *cdc_target_ancestors(Oid relid);
extern Oid	cdc_target_key_index(const CdcTarget *target, Relation rel);
extern bool cdc_target_is_law_column(const CdcTarget *target, AttrNumber attno);
extern void cdc_target_describe_key(CdcTarget *target, Relation rel, List *key_columns);
extern void cdc_target_describe(CdcTarget *target, Relation rel, const CdcRule *rule);
extern void cdc_target_begin(CdcTarget *target, const Bitmapset *columns, bool dry_run);
extern void cdc_target_open(CdcTarget *target, bool dry_run);
extern void cdc_target_renew(CdcTarget *target);
extern void cdc_target_end(CdcTarget *target);
extern CdcLeaf *cdc_target_leaf(CdcTarget *target, const Datum *keys, const bool *isnull);
extern void cdc_target_rewind(CdcTarget *target);
extern void cdc_target_find(CdcTarget *target, CdcLeaf *leaf, const Datum *keys,
							CdcFind how, TupleTableSlot *slot, CdcStored *stored);
extern void cdc_home_check_visible(Relation heap, TupleTableSlot *slot);
extern void cdc_home_read_tombstone(CdcTarget *target, const Datum *keys, CdcFind how,
									CdcStored *stored);
extern void cdc_home_read_state(CdcTarget *target, CdcLeaf *leaf, TupleTableSlot *slot,
								CdcStored *stored);
extern void cdc_refuse_concurrent(void);
extern void cdc_target_make_fits(CdcTarget *target);
extern void cdc_target_fit(CdcTarget *target, AttrNumber attno, Datum *value, bool *isnull);
extern void cdc_target_put_position(CdcTarget *target, CdcLeaf *leaf, const uint8 *pos, int len,
									Datum *values, bool *isnull);
extern void cdc_target_put_tombstone(CdcTarget *target, CdcLeaf *leaf, bool dead,
									 Datum *values, bool *isnull);
extern Datum cdc_target_default(CdcTarget *target, AttrNumber attno, bool *isnull);

/* in cdc_fence.c */
extern bool cdc_target_has_positions(const CdcTarget *target);

/* in cdc_append.c */
extern void cdc_refuse_append_only(Relation rel);

/* Assemble a position from column values of the types a position may have. */
extern void cdc_position_from_columns(int n, const Oid *types, const Datum *values,
									  const bool *isnull, CdcPos *pos);
extern void cdc_position_to_columns(const CdcTarget *target, const uint8 *pos, int len,
									Datum *values);
extern void cdc_pos_enter_epoch(CdcPos *pos, int64 epoch);
extern void cdc_pos_from_datum(CdcPos *pos, Datum value, bool isnull);
extern void cdc_position_type_of_function(Oid function);
extern bool cdc_position_type_ok(Oid type, bool first, bool single);

/* ---------- columns (cdc_column.c) ---------- */

/* how a value says that it is not there */
typedef struct CdcMarker
{
	const char *bytes;
	int			len;
} CdcMarker;

/* One applied column other than a key. */
typedef struct CdcColumn
{
	const char *name;
	AttrNumber	attno;			/* in the target */
	AttrNumber	staging_attno;
	Oid			source_type;
	int16		source_len;
	bool		source_byval;
	ExprState  *cast;			/* NULL: the staging value as it is */
	int16		len;			/* of the target's type */
	bool		byval;
	int			nmarkers;		/* varlena images that mean "not carried" */
	CdcMarker  *markers;
	Oid			marker_elem;	/* one-element array of the marker: its type */
	bool		marker_jsonb;
} CdcColumn;

typedef struct CdcColumns
{
	Relation	staging;
	const char *staging_name;
	int			nkeys;
	AttrNumber *key_attno;		/* in staging */
	ExprState **key_cast;
	int			nold;			/* 0 or nkeys */
	AttrNumber *old_attno;
	ExprState **old_cast;
	int			ncols;
	CdcColumn  *cols;
	int			npos;			/* position columns of staging; 0: an expression */
	AttrNumber *pos_attno;
	Oid		   *pos_type;
	AttrNumber	op_attno;		/* 0: none */
	AttrNumber	flag_attno;
	AttrNumber	unchanged_attno;
	AttrNumber	absent_attno;
	AttrNumber	time_attno;		/* when a change was made, for a history */
	struct CdcSink *sink;		/* who takes the events, or NULL: a fold does */
	AttrNumber	bookmark_attno;
	struct CdcBookmark *bookmark;	/* how far staging has been read, or NULL */
	bool		all_columns;	/* the query selects staging's rows as they stand */
	Node	   *position;		/* then: the parsed staging_position, or NULL */
	bool		as_read;		/* and a kept event is its staging row */
	bool		numbered;		/* an event's last value is its number in the batch */
	int			nevent;			/* values of an event: keys, columns, old keys */
	AttrNumber *event_at;		/* value - 1 -> its attribute in event_desc */
	TupleDesc	event_desc;
	const struct CdcEvent *opened;	/* taken apart in these two, by event_desc */
	Datum	   *opened_values;
	bool	   *opened_null;
	int			nmarkers;		/* all placeholders of all columns */
	CdcMarker  *markers;
	bool		markers_hide;	/* some may stand compressed in a row */
	ExprContext *econtext;		/* of the casts */
	MemoryContext cast_context; /* of casts made anew, or NULL */
	Bitmapset  *used;			/* staging attributes that expressions use */
} CdcColumns;

extern void cdc_staging_check(Relation staging);
extern bool cdc_has_name(List *names, const char *name);
extern List *cdc_columns_missing(CdcTarget *target, CdcColumns *cols, const CdcRule *rule);
extern char *cdc_join_names(List *names);
extern void cdc_columns_report_missing(CdcOnSchema option, const CdcTarget *target,
									   const CdcColumns *cols, List *missing);
extern void cdc_columns_append(const char *target, Relation staging, List *names);
extern void cdc_columns_map(CdcColumns *cols, CdcTarget *target, Relation staging,
							const CdcRule *rule);
extern Oid	cdc_columns_expression(Relation staging, const char *text, const char *param,
								   Bitmapset **used, Node **expr);
extern void cdc_columns_check_tombstone(Relation staging, const char *tombstone,
										const CdcRule *rule);
extern void cdc_expr_check(const char *text, const char *param);
extern char *cdc_expr_canonical(Relation staging, const char *text, const char *param, Oid *type);
extern char *cdc_expr_localize(Relation staging, const char *text, const char *param);
extern ExprState *cdc_column_cast(Form_pg_attribute from, Form_pg_attribute to);
extern Datum cdc_column_convert(CdcColumns *cols, ExprState *cast, Datum value, bool *isnull);
extern void cdc_columns_renew(CdcColumns *cols);

/* ---------- values that are not carried (cdc_gap.c) ---------- */

extern bool cdc_type_is_text_like(Oid type);
extern void cdc_gaps_describe(CdcColumn *col, Oid target_type, const char *value);
extern void cdc_gaps_gather(CdcColumns *cols);
extern bool cdc_gaps_none(const CdcColumns *cols, HeapTuple row);

/* A list of columns that an event gives. */
typedef struct CdcGapList
{
	Oid			type;
	bool		isnull;
	Datum		names;
} CdcGapList;

/* bytes of a bitmap of the applied columns */
#define cdc_gap_bytes(cols) (((cols)->ncols + 7) / 8)

extern bool cdc_gaps_find(CdcColumns *cols, const CdcGapList *unchanged, const CdcGapList *absent,
						  bool ignore_nulls, const Datum *values, const bool *isnull, uint8 *gaps);

/* ---------- ops (cdc_op.c) ---------- */

typedef struct CdcOp
{
	CdcClass	class;
	bool		second;			/* second half of a before/after pair */
	bool		frame;			/* wal2json's B and C: ignored when all is NULL */
} CdcOp;

typedef struct CdcOps CdcOps;

extern CdcOps *cdc_ops_create(Jsonb *op_map, Oid type);
extern CdcOp cdc_op_decode(CdcOps *ops, Datum value);
extern CdcOp cdc_op_from_text(CdcOps *ops, const char *text, int len);
extern CdcOp cdc_op_default(CdcOps *ops, const char *default_op);
extern char *cdc_op_text(CdcOps *ops, Datum value);

#include "cdc_event.h"

/* ---------- the query over staging (cdc_query.c) ---------- */

/* Where the query's columns stand, from 0; -1: not selected. */
typedef struct CdcQuery
{
	CdcColumns *cols;
	int			op_at,
				flag_at,
				unchanged_at,
				bookmark_at,
				absent_at,
				time_at;
	int		   *pos_at,			/* NULL: the position is worked out from the row */
			   *key_at,
			   *col_at,
			   *old_at;
	int			need;			/* attributes that an event is judged by: up to this one */
	int			selected;		/* columns so far, while it is built */
} CdcQuery;

extern char *cdc_query_build(CdcQuery *query, CdcColumns *cols, const CdcRule *rule);
extern char *cdc_query_order(const CdcTarget *target, const CdcColumns *cols);

/* ---------- reading staging (cdc_read.c) ---------- */

typedef struct CdcReadResult
{
	int64		events;
	int64		ignored;
	int64		truncates;
	CdcPos		truncate;		/* the greatest of them */
	CdcPos		low;
	CdcPos		high;
} CdcReadResult;

/* A row of staging, as the reader takes it; nothing in it outlives the row. */
typedef struct CdcSeen
{
	int64		number;			/* of the row in the batch, from 1 */
	CdcClass	class;			/* CDC_UNKNOWN: cannot be used */
	char	   *key;			/* as JSON; NULL: none */
	char	   *op;				/* as staging says; where it does not, what it is taken for */
	CdcPos		pos;
	bool		unplaced;		/* which does not count */
	const Datum *keys;			/* of an event */
	const char *reason;			/* why it is ignored or cannot be used */
} CdcSeen;

/* Who takes every event, and every truncate, instead of one winner per key. */
typedef struct CdcSink
{
	void		(*event) (struct CdcSink *sink, const CdcQuery *query, CdcIncoming *in);
	void		(*truncate) (struct CdcSink *sink, const CdcQuery *query, TupleTableSlot *row,
							 const CdcPos *pos);
} CdcSink;

/* Who wants to see every row, and wants bad ones named instead of refused. */
typedef struct CdcWatch
{
	void		(*row) (struct CdcWatch *watch, const CdcSeen *seen);
	char	   *failed;			/* the query itself failed: why */
} CdcWatch;

extern void cdc_read_staging(CdcTarget *target, CdcColumns *cols, const CdcRule *rule,
							 CdcFold *fold, CdcWatch *watch, CdcReadResult *result);

/* ---------- writing (cdc_write.c, cdc_row.c) ---------- */

typedef struct CdcWriteResult
{
	int64		counts[CDC_OUTCOMES];
} CdcWriteResult;

extern void cdc_write_winners(CdcTarget *target, CdcColumns *cols, const CdcRule *rule,
							  CdcFold *fold, CdcWriteResult *result);
extern List *cdc_row_arbiters(ResultRelInfo *rri, Relation key_index, bool *others_unique);

/* in cdc_bulk.c */
extern void cdc_bulk_end(CdcLeaf *leaf);

/* ---------- reports (cdc_report.c) ---------- */

/* Longest value that a message shows, in bytes, as in COPY's error context. */
#define CDC_VALUE_CLIP	100

extern const char *const cdc_outcome_names[CDC_OUTCOMES];

extern char *cdc_relation_name(Relation rel);
extern const char *cdc_function_name(const char *name);
extern char *cdc_pos_text(const uint8 *bytes, int len);
extern char *cdc_value_text(Oid type, Datum value, bool isnull);
extern char *cdc_key_text(const CdcTarget *target, const Datum *keys, const bool *isnull);
pg_noreturn extern void cdc_refuse_twins(const char *snapshot, const char *key);
extern char *cdc_event_key_text(const CdcTarget *target, const CdcColumns *cols,
								const CdcEvent *ev);

/* What an error met on the way to a row is said to have met. */
typedef struct CdcContext
{
	const CdcTarget *target;
	const char *staging;
	const char *column;			/* being converted, or NULL */
	Datum	   *keys;			/* NULL: not known yet */
	bool	   *isnull;
	const uint8 *pos;
	int			poslen;
	TupleTableSlot *row;		/* while keys are not known: the staging row, */
	const int  *key_at;			/* and where its key is */
	bool		tombstone;		/* hint at the side table */
	const CdcEvent *event;		/* not NULL: key and position are its */
	const CdcColumns *cols;
} CdcContext;

extern void cdc_context_callback(void *arg);

#endif							/* CDC_APPLY_H */
