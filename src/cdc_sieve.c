/*-------------------------------------------------------------------------
 *
 * cdc_sieve.c
 *		A snapshot's rows on their way to the fold: those that change nothing
 *		are counted and let go, and keys that a complete snapshot lacks are
 *		found.
 *
 * The server sorts the snapshot by key, in the order of the target's key index.
 * For a complete snapshot the target's rows, or those of its scope, come in the
 * same order out of a cursor, and the two are merged; what is passed by on the
 * target's side is missing.  Otherwise each key is looked up, in order.
 *
 * S1: rows of one key come one after the other.
 * S2: what may have to be written is offered to the fold and judged again when
 * it is written; what is let go was judged at the call's snapshot.
 *
 * Memory: a batch of the target's rows; the sorts are the server's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "tcop/pquery.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/rel.h"

#include "cdc_attach.h"
#include "cdc_marks.h"
#include "cdc_sieve.h"
#include "cdc_sql.h"

/* Rows of the target that are fetched at a time: the start of a fetch costs as much as some rows. */
#define CDC_SIEVE_ROWS	64

/* What became of the last key's first row. */
typedef enum Seen
{
	SEEN_NONE,					/* there was none */
	SEEN_OFFERED,				/* to the fold */
	SEEN_SAME,					/* it is what is stored */
	SEEN_STALE
} Seen;

struct CdcSieve
{
	DestReceiver pub;			/* of the target's rows */
	CdcTarget  *target;
	CdcColumns *cols;
	const CdcRule *rule;
	CdcFold    *fold;
	CdcSieved	sieved;
	bool		below;			/* the snapshot is at or below the floor */

	/* the last key of the snapshot */
	Seen		seen;
	Datum	   *keys;			/* copied */
	CdcStored	stored;			/* what there is for it */
	CdcLeaf    *leaf;			/* the shape of stored.slot */

	/* the target's rows in key order; no portal: keys are looked up */
	Portal		portal;
	TupleTableSlot *slots[CDC_SIEVE_ROWS];
	int			nslots;			/* fetched */
	int			next;			/* the one to be taken next */
	bool		over;			/* there is nothing more to fetch */
	bool		on;				/* a row is in hand: */
	bool		matched;		/* the snapshot has its key */
	Datum	   *row_keys;
	CdcStored	row;
	CdcLeaf		shape;			/* of these rows: attno alone */

	/* which rows a snapshot is limited to; NULL: all */
	ExprState  *scope;
	ExprContext *econtext;
	TupleTableSlot *scope_slot; /* of the target's shape */
	Bitmapset  *scope_used;		/* attributes, offset */

	CdcImage	image;			/* for marks alone */
	Datum	   *values;			/* of a missing key's event */
	bool	   *isnull;
	MemoryContext scratch;		/* while a row of the target is passed by */
};

/* ---------- queries ---------- */

/* Select a column of the target, once. */
static void
select_column(CdcSieve *s, StringInfo sql, AttrNumber attno, int *n)
{
	if (s->shape.attno[attno - 1] != 0)
		return;
	appendStringInfo(sql, "%s%s", *n > 0 ? ", " : "", cdc_sql_column(s->target, attno));
	s->shape.attno[attno - 1] = ++*n;
}

/* The target's rows in key order, with all that they are judged and compared by. */
static char *
target_query(CdcSieve *s, const char *scope)
{
	CdcTarget  *target = s->target;
	StringInfoData sql;
	int			n = 0;

	s->shape.attno = palloc0(sizeof(AttrNumber) * target->natts);
	initStringInfo(&sql);
	for (int i = 0; i < target->nkeys; i++)
		select_column(s, &sql, target->keys[i].attno, &n);
	for (int i = 0; i < target->npos; i++)
		select_column(s, &sql, target->pos_attno[i], &n);
	if (target->tomb_attno != 0)
		select_column(s, &sql, target->tomb_attno, &n);
	if (target->marks_attno != 0)
		select_column(s, &sql, target->marks_attno, &n);
	for (int i = 0; i < s->cols->ncols; i++)
		select_column(s, &sql, s->cols->cols[i].attno, &n);
	return psprintf("SELECT %s FROM %s%s ORDER BY %s", sql.data, cdc_quoted_relation(target->relid),
					scope != NULL ? psprintf(" WHERE (%s\n)", scope) : "",
					cdc_query_order(target, NULL));
}

/* ---------- the target's rows ---------- */

static bool
receive_row(TupleTableSlot *slot, DestReceiver *self)
{
	CdcSieve   *s = (CdcSieve *) self;

	ExecCopySlot(s->slots[s->nslots++], slot);
	return true;
}

static void
receiver_startup(DestReceiver *self, int operation, TupleDesc typeinfo)
{
}

static void
receiver_nothing(DestReceiver *self)
{
}

/* Open the cursor at the call's snapshot, which is the active one. */
static void
open_rows(CdcSieve *s, const char *scope)
{
	char	   *sql = target_query(s, scope);
	SPIParseOpenOptions options;

	s->pub.receiveSlot = receive_row;
	s->pub.rStartup = receiver_startup;
	s->pub.rShutdown = receiver_nothing;
	s->pub.rDestroy = receiver_nothing;
	s->pub.mydest = DestTuplestore;
	memset(&options, 0, sizeof(options));
	options.cursorOptions = CURSOR_OPT_NO_SCROLL;
	options.read_only = true;
	SPI_connect();
	s->portal = SPI_cursor_parse_open(NULL, sql, &options);
	SPI_finish();
	/* code of the snapshot's must not close it */
	PinPortal(s->portal);
}

/* Under a fixed snapshot a row that it does not show must not decide anything. */
static void
check_visible(CdcSieve *s)
{
	CdcStored	stored;
	CdcLeaf    *leaf;

	if (!IsolationUsesXactSnapshot())
		return;
	leaf = cdc_target_leaf(s->target, s->row_keys, NULL);
	cdc_target_find(s->target, leaf, s->row_keys, CDC_FIND_ANY, leaf->other, &stored);
	ExecClearTuple(leaf->other);
}

/* Take the next row of the target in hand; s->on tells whether there is one. */
static void
next_row(CdcSieve *s)
{
	CdcTarget  *target = s->target;
	TupleTableSlot *slot;
	bool		whole;

	do
	{
		CHECK_FOR_INTERRUPTS();
		if (s->next == s->nslots && !s->over)
		{
			s->next = s->nslots = 0;
			(void) PortalRunFetch(s->portal, FETCH_FORWARD, CDC_SIEVE_ROWS, &s->pub);
			s->over = s->nslots < CDC_SIEVE_ROWS;
		}
		s->on = s->next < s->nslots;
		if (!s->on)
			return;
		slot = s->slots[s->next++];
		whole = true;
		for (int i = 0; i < target->nkeys; i++)
		{
			bool		isnull;

			s->row_keys[i] = slot_getattr(slot, s->shape.attno[target->keys[i].attno - 1], &isnull);
			whole &= !isnull;
		}
		/* a row with a NULL in its key is nobody's */
	} while (!whole);

	check_visible(s);
	cdc_home_read_state(target, &s->shape, slot, &s->row);
	cdc_home_read_tombstone(target, s->row_keys, CDC_FIND_IN_ORDER, &s->row);
	s->matched = false;
	if (s->row.state == CDC_KEY_LIVE || cdc_is_ghost(&s->row))
		s->sieved.live++;
}

static void
check_kind(CdcSieve *s, const CdcStored *stored, const Datum *keys)
{
	if (stored->pos.len > 0 && cdc_position_kind_of(stored->pos.bytes) !=
		cdc_position_kind_of(s->rule->as_of.bytes))
		cdc_refuse_mixed_kinds(psprintf("snapshot \"%s\" and target \"%s\" at key %s",
										s->cols->staging_name, s->target->name,
										cdc_key_text(s->target, keys, NULL)));
}

/*
 * The snapshot has passed the row in hand by: offer it to the fold as missing.
 * A row that came after the snapshot, but with values from before it, loses them.
 */
static void
note_missing(CdcSieve *s)
{
	const CdcPos *as_of = &s->rule->as_of;
	CdcVerdict	v;
	CdcIncoming in;

	check_kind(s, &s->row, s->row_keys);
	v = cdc_law_judge(CDC_MISSING, as_of->bytes, as_of->len, s->row.state, &s->row.pos,
					  &s->target->horizon);
	if (v.write || (v.outcome == CDC_DUPLICATE && cdc_is_ghost(&s->row)))
		s->sieved.missing++;
	else if (cdc_marks_any(s->target, &s->shape, &s->row) &&
			 cdc_marks_kill(&s->image, &s->shape, as_of, &s->row))
		s->sieved.aged++;
	else
		return;
	memset(&in, 0, sizeof(in));
	memcpy(s->values, s->row_keys, sizeof(Datum) * s->target->nkeys);
	in.class = CDC_MISSING;
	in.pos = as_of;
	in.values = s->values;
	in.isnull = s->isnull;
	cdc_fold_offer(s->fold, &in);
}

/* Go on from the row in hand to the next. */
static void
pass_row(CdcSieve *s)
{
	MemoryContext old = MemoryContextSwitchTo(s->scratch);

	if (!s->matched)
		note_missing(s);
	next_row(s);
	MemoryContextSwitchTo(old);
	MemoryContextReset(s->scratch);
}

static int
compare_keys(const CdcTarget *target, const Datum *a, const Datum *b)
{
	int			cmp = 0;

	for (int i = 0; i < target->nkeys && cmp == 0; i++)
		cmp = ApplySortComparator(a[i], false, b[i], false, &target->keys[i].sort);
	return cmp;
}

/* Go on to a key that is greater than the last one: what is stored for it? */
static void
find_in_rows(CdcSieve *s, const Datum *keys)
{
	int			cmp = 1;

	while (s->on && (cmp = compare_keys(s->target, s->row_keys, keys)) < 0)
		pass_row(s);
	if (s->on && cmp == 0)
	{
		s->matched = true;
		s->stored = s->row;
		s->leaf = &s->shape;
		return;
	}
	/* nothing, or a row out of scope: whoever writes looks */
	memset(&s->stored, 0, sizeof(s->stored));
	s->stored.state = CDC_KEY_ABSENT;
}

/* ---------- the snapshot's rows ---------- */

static Datum
convert(CdcSieve *s, const CdcIncoming *in, CdcColumn *c, Datum value, bool *isnull)
{
	CdcContext	context = {.target = s->target, .staging = s->cols->staging_name,
	.keys = in->values, .isnull = in->isnull, .column = c->name};
	ErrorContextCallback callback = {error_context_stack, cdc_context_callback, &context};

	error_context_stack = &callback;
	value = cdc_column_convert(s->cols, c->cast, value, isnull);
	error_context_stack = callback.previous;
	return value;
}

/* The row's value of an applied column, as the target would store it. */
static inline Datum
column_value(CdcSieve *s, const CdcIncoming *in, int i, bool *isnull)
{
	CdcColumn  *c = &s->cols->cols[i];
	Datum		value = in->values[s->cols->nkeys + i];

	*isnull = in->isnull[s->cols->nkeys + i];
	return c->cast == NULL ? value : convert(s, in, c, value, isnull);
}

/* Does the row carry another image than what is stored?  So may equal keys. */
static bool
differs(CdcSieve *s, CdcIncoming *in)
{
	cdc_incoming_complete(in);
	for (int i = 0; i < s->target->nkeys; i++)
	{
		bool		isnull;

		s->row_keys[i] = slot_getattr(s->stored.slot, s->leaf->attno[s->target->keys[i].attno - 1],
									  &isnull);
	}
	if (!cdc_keys_same(s->target, s->row_keys, in->values))
		return true;
	for (int i = 0; i < s->cols->ncols; i++)
	{
		CdcColumn  *c = &s->cols->cols[i];
		bool		anull,
					bnull;
		Datum		a,
					b;

		if (in->gaps != NULL && (in->gaps[i >> 3] & (1 << (i & 7))) != 0)
			continue;
		a = column_value(s, in, i, &anull);
		b = slot_getattr(s->stored.slot, s->leaf->attno[c->attno - 1], &bnull);
		if (anull != bnull || (!anull && !datum_image_eq(a, b, c->byval, c->len)))
			return true;
	}
	return false;
}

static void
check_scope(CdcSieve *s, CdcIncoming *in)
{
	CdcTarget  *target = s->target;
	TupleTableSlot *slot = s->scope_slot;
	Datum		result;
	bool		isnull;

	cdc_incoming_complete(in);
	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, sizeof(bool) * target->natts);
	for (int i = 0; i < target->nkeys; i++)
	{
		slot->tts_values[target->keys[i].attno - 1] = in->values[i];
		slot->tts_isnull[target->keys[i].attno - 1] = false;
	}
	for (int i = 0; i < s->cols->ncols; i++)
	{
		AttrNumber	attno = s->cols->cols[i].attno;

		if (bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, s->scope_used))
			slot->tts_values[attno - 1] = column_value(s, in, i, &slot->tts_isnull[attno - 1]);
	}
	ExecStoreVirtualTuple(slot);
	s->econtext->ecxt_scantuple = slot;
	result = ExecEvalExpr(s->scope, s->econtext, &isnull);
	if (isnull || !DatumGetBool(result))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("snapshot \"%s\" has a row outside of scope", s->cols->staging_name),
				 errdetail("Its key is %s.", cdc_key_text(target, in->values, NULL)),
				 errhint("Leave such rows out with staging_filter, or widen scope.")));
}

static void
remember_keys(CdcSieve *s, const Datum *keys)
{
	for (int i = 0; i < s->target->nkeys; i++)
	{
		const CdcKey *key = &s->target->keys[i];
		MemoryContext old;

		if (key->typbyval)
		{
			s->keys[i] = keys[i];
			continue;
		}
		if (s->seen != SEEN_NONE)
			pfree(DatumGetPointer(s->keys[i]));
		old = MemoryContextSwitchTo(GetMemoryChunkContext(s));
		s->keys[i] = key->typlen == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(keys[i])) :
			datumCopy(keys[i], false, key->typlen);
		MemoryContextSwitchTo(old);
	}
}

/* The first row of a key. */
static Seen
take_first(CdcSieve *s, CdcIncoming *in)
{
	const CdcPos *as_of = &s->rule->as_of;
	CdcVerdict	v;

	if (s->portal != NULL)
		find_in_rows(s, in->values);
	else if (!s->below)
	{
		s->leaf = cdc_target_leaf(s->target, in->values, NULL);
		cdc_target_find(s->target, s->leaf, in->values, CDC_FIND_IN_ORDER, s->leaf->stored,
						&s->stored);
	}
	check_kind(s, &s->stored, in->values);
	v = cdc_law_judge(CDC_IMAGE, as_of->bytes, as_of->len, s->stored.state, &s->stored.pos,
					  &s->target->horizon);
	/* columns that are older than their row may still be older than the snapshot */
	if (v.outcome == CDC_STALE && (s->below || !cdc_marks_any(s->target, s->leaf, &s->stored)))
	{
		s->sieved.counts[CDC_STALE]++;
		return SEEN_STALE;
	}
	if (v.compare && !differs(s, in))
	{
		s->sieved.counts[CDC_DUPLICATE]++;
		return SEEN_SAME;
	}
	cdc_fold_offer(s->fold, in);
	return SEEN_OFFERED;
}

/* One more row of the last key. */
static void
take_again(CdcSieve *s, CdcIncoming *in)
{
	bool		twins = s->seen != SEEN_STALE && !cdc_keys_same(s->target, s->keys, in->values);

	if (s->seen == SEEN_OFFERED && !twins)
	{
		cdc_fold_offer(s->fold, in);
		return;
	}
	if (twins || (s->seen == SEEN_SAME && differs(s, in)))
		cdc_refuse_twins(s->cols->staging_name, cdc_key_text(s->target, in->values, NULL));
	s->sieved.counts[CDC_SUPERSEDED]++;
}

/* Take a row of the snapshot, in key order; nothing in it outlives the row. */
void
cdc_sieve_take(CdcSieve *s, CdcIncoming *in)
{
	int			cmp = s->seen == SEEN_NONE ? -1 : compare_keys(s->target, s->keys, in->values);

	in->class = CDC_IMAGE;
	if (s->scope != NULL)
		check_scope(s, in);
	if (cmp == 0)
	{
		take_again(s, in);
		return;
	}
	if (cmp > 0)
		elog(ERROR, "snapshot \"%s\" is not in the order of its key", s->cols->staging_name);
	remember_keys(s, in->values);
	s->seen = take_first(s, in);
}

/* ---------- begin and end ---------- */

/* A scope is judged by what a snapshot's row says. */
static void
begin_scope(CdcSieve *s, const char *scope)
{
	CdcTarget  *target = s->target;
	Bitmapset  *given = NULL;
	Node	   *expr;
	int			attno;

	if (cdc_columns_expression(target->rel, scope, "scope", &s->scope_used, &expr) != BOOLOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("scope is not of type boolean")));
	for (int i = 0; i < target->nkeys; i++)
		given = bms_add_member(given, target->keys[i].attno - FirstLowInvalidHeapAttributeNumber);
	for (int i = 0; i < s->cols->ncols; i++)
		given = bms_add_member(given, s->cols->cols[i].attno - FirstLowInvalidHeapAttributeNumber);
	attno = bms_next_member(bms_difference(s->scope_used, given), -1);
	if (attno >= 0)
	{
		attno += FirstLowInvalidHeapAttributeNumber;
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("scope uses %s, which rows of snapshot \"%s\" do not say",
						attno > 0 ? psprintf("column \"%s\"", get_attname(target->relid, attno, false)) :
						attno == 0 ? "the whole row" : "a system column",
						s->cols->staging_name),
				 errhint("Use columns of the key, and others that the snapshot gives.")));
	}
	s->scope = ExecInitExpr(expression_planner((Expr *) expr), NULL);
	s->econtext = CreateStandaloneExprContext();
	s->scope_slot = MakeSingleTupleTableSlot(RelationGetDescr(target->rel), &TTSOpsVirtual);
}

/*
 * Begin to take rows, in the current memory context; the target is open.
 * scope: the rows that the snapshot is limited to, or NULL; complete: it has
 * all of them.
 */
CdcSieve *
cdc_sieve_begin(CdcTarget *target, CdcColumns *cols, const CdcRule *rule, CdcFold *fold,
				const char *scope, bool complete)
{
	CdcSieve   *s = palloc0(sizeof(CdcSieve));
	const CdcPos *floor = &target->horizon.floor;

	s->target = target;
	s->cols = cols;
	s->rule = rule;
	s->fold = fold;
	s->image.target = target;
	s->image.cols = cols;
	s->image.marks = cdc_marks_create(target, cols);
	s->below = cdc_pos_compare(rule->as_of.bytes, rule->as_of.len, floor->bytes, floor->len) <= 0;
	s->keys = palloc0(sizeof(Datum) * target->nkeys);
	s->row_keys = palloc0(sizeof(Datum) * target->nkeys);
	s->values = palloc0(sizeof(Datum) * cols->nevent);
	s->isnull = palloc(sizeof(bool) * cols->nevent);
	for (int i = 0; i < cols->nevent; i++)
		s->isnull[i] = i >= target->nkeys;
	s->scratch = AllocSetContextCreate(CurrentMemoryContext, "cdc_apply target row",
									   ALLOCSET_DEFAULT_SIZES);
	s->stored.state = CDC_KEY_ABSENT;
	if (scope != NULL)
		begin_scope(s, scope);
	cdc_target_rewind(target);
	if (!complete || s->below)
		return s;
	open_rows(s, scope);
	for (int i = 0; i < CDC_SIEVE_ROWS; i++)
		s->slots[i] = MakeSingleTupleTableSlot(s->portal->tupDesc, &TTSOpsMinimalTuple);
	next_row(s);
	return s;
}

/* All rows have been taken: what is left of the target's is missing. */
void
cdc_sieve_end(CdcSieve *s, CdcSieved *sieved)
{
	while (s->on)
		pass_row(s);
	for (int i = 0; i < CDC_SIEVE_ROWS && s->slots[i] != NULL; i++)
		ExecDropSingleTupleTableSlot(s->slots[i]);
	if (s->scope_slot != NULL)
		ExecDropSingleTupleTableSlot(s->scope_slot);
	if (s->portal != NULL)
	{
		UnpinPortal(s->portal);
		SPI_cursor_close(s->portal);
	}
	*sieved = s->sieved;
}
