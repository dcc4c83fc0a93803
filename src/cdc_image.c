/*-------------------------------------------------------------------------
 *
 * cdc_image.c
 *		The row that an event leaves: its own values, those it does not carry,
 *		defaults, and the last values of a deleted row.
 *
 * Values are built in the current memory context, which the writer resets per
 * row.  Values of the stored row are taken as they are, so that a TOAST
 * pointer is reused.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"

#include "cdc_marks.h"

/* where a value was found */
typedef enum Found
{
	FOUND_NOWHERE,
	FOUND_VALUE,
	FOUND_STORED				/* the stored row of the event's own key has it */
} Found;

/* The event's value of column col, converted to the target's type. */
Datum
cdc_image_column(CdcImage *image, const CdcEvent *ev, int col, bool *isnull)
{
	CdcColumns *cols = image->cols;
	CdcColumn  *c = &cols->cols[col];
	Datum		value = cdc_event_value(cols, ev, cols->nkeys + col + 1, isnull);

	if (c->cast == NULL)
		return value;
	image->context->column = c->name;
	value = cdc_column_convert(cols, c->cast, value, isnull);
	image->context->column = NULL;
	return value;
}

static bool
newer_than(const CdcEvent *ev, const uint8 *pos, int len)
{
	return cdc_pos_compare(ev->pos, cdc_event_place_len(ev), pos, len) > 0;
}

/*
 * The events and the stored row of the key that ev's row had before: events
 * below ev only.  The row is read at the call's snapshot, which shows none of
 * the call's own writes.
 */
const CdcEvent *
cdc_image_before_move(CdcImage *image, const CdcEvent *ev, CdcLeaf **leaf, CdcStored *stored)
{
	CdcColumns *cols = image->cols;
	Datum	   *keys = palloc(sizeof(Datum) * cols->nkeys);
	const CdcEvent *older;
	bool		isnull;

	for (int i = 0; i < cols->nkeys; i++)
	{
		keys[i] = cdc_event_value(cols, ev, cols->nkeys + cols->ncols + i + 1, &isnull);
		/* a part of the key that did not change need not be said */
		if (isnull)
			keys[i] = cdc_event_value(cols, ev, i + 1, &isnull);
	}
	older = cdc_fold_lookup(image->fold, keys);
	while (older != NULL && !newer_than(ev, older->pos, cdc_event_place_len(older)))
		older = older->older;
	*leaf = cdc_target_leaf(image->target, keys, NULL);
	cdc_target_find(image->target, *leaf, keys, CDC_FIND_ANY, (*leaf)->other, stored);
	return older;
}

/*
 * Would ev, alone, have changed what is stored?  What floor or fence keeps out
 * lends no value either, or the outcome would depend on the batches.
 */
static bool
would_write(CdcImage *image, const CdcEvent *ev, const CdcStored *stored)
{
	return cdc_law_judge(ev->class, ev->pos, cdc_event_place_len(ev), stored->state, &stored->pos,
						 &image->target->horizon).write;
}

/*
 * Find column col for an event that does not carry it: in the next older
 * event of the key that is newer than the stored row, never across a delete,
 * else in the stored row; after a key move, at the old key.  *lacking: the
 * event, or one of those passed by, says that its source has no such column.
 */
static Found
find_value(CdcImage *image, const CdcEvent *ev, int col, const CdcStored *stored,
		   Datum *value, bool *isnull, bool *lacking)
{
	const CdcColumn *c = &image->cols->cols[col];
	const CdcEvent *moved = NULL;
	const CdcEvent *above = ev;
	const CdcEvent *older = ev->older;
	CdcLeaf    *leaf = NULL;
	CdcStored	there = *stored;

	*lacking = cdc_event_lacks(image->cols, ev, col);
	if (ev->flags & CDC_EVENT_MOVES)
		older = cdc_image_before_move(image, moved = ev, &leaf, &there);
	while (older != NULL && would_write(image, older, &there))
	{
		if (cdc_event_is_before_image(older, above))
		{
			older = older->older;
			continue;
		}
		if (cdc_event_kills(older))
			return FOUND_NOWHERE;
		if (cdc_event_carries(older, col))
		{
			*value = cdc_image_column(image, older, col, isnull);
			return FOUND_VALUE;
		}
		*lacking |= cdc_event_lacks(image->cols, older, col);
		above = older;
		if (older->flags & CDC_EVENT_MOVES)
			older = cdc_image_before_move(image, moved = older, &leaf, &there);
		else
			older = older->older;
	}
	if (there.state != CDC_KEY_LIVE)
		return FOUND_NOWHERE;
	if (moved == NULL)
		return FOUND_STORED;
	if (!newer_than(moved, there.pos.bytes, there.pos.len))
		return FOUND_NOWHERE;
	/* the slot is used again by the next search: take the value along */
	*value = slot_getattr(there.slot, leaf->attno[c->attno - 1], isnull);
	if (!*isnull)
		*value = datumCopy(*value, c->byval, c->len);
	return FOUND_VALUE;
}

/* Nobody has the value of a column that the row of the key in hand should have. */
static void
refuse_unavailable(CdcImage *image, const CdcEvent *ev, const CdcColumn *c)
{
	const char *key = cdc_key_text(image->target, image->context->keys, image->context->isnull);

	if (ev == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("value of column \"%s\" is unavailable for key %s", c->name, key),
				 errdetail("The stored row has it from before the delete or truncate at position %s, and no event since then carries it.",
						   cdc_pos_text(image->context->pos, image->context->poslen)),
				 errhint("Deliver the events that carry it, or set on_unavailable => 'null': then the column is NULL until one of them comes.")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("value of column \"%s\" is unavailable for key %s", c->name, key),
			 errdetail("The event at position %s does not carry it, and neither an older event nor the stored row has it.",
					   cdc_pos_text(ev->pos, ev->poslen)),
			 image->marks != NULL ?
			 errhint("Deliver the events that carry it, or set on_unavailable => 'null': then the column is NULL until one of them comes.") :
			 errhint("Deliver the events that carry it, take a new snapshot of the row, set on_unavailable => 'null', or, if the source has no such column, name it in except_columns.")));
}

/*
 * Set a column whose value is not known: its default where its source has no
 * such column or a NULL means "no change", else what on_unavailable says.  ev
 * does not carry it; NULL: an event took it away.
 */
static void
set_unknown(CdcImage *image, const CdcEvent *ev, int col, int at, bool lacking, Datum *values,
			bool *isnull)
{
	CdcColumns *cols = image->cols;
	CdcColumn  *c = &cols->cols[col];
	bool		null = true;

	if (ev != NULL)
		(void) cdc_event_value(cols, ev, cols->nkeys + col + 1, &null);
	else
		lacking |= cols->absent_attno != 0;
	if (lacking || (image->rule->ignore_nulls && null))
		values[at] = cdc_target_default(image->target, c->attno, &isnull[at]);
	else if (image->rule->on_unavailable == CDC_UNAVAILABLE_ERROR)
		refuse_unavailable(image, ev, c);
	else
	{
		Oid			type = TupleDescAttr(RelationGetDescr(image->target->rel), c->attno - 1)->atttypid;

		/* a domain may have no NULL */
		image->context->column = c->name;
		if (get_typtype(type) == TYPTYPE_DOMAIN)
			domain_check((Datum) 0, true, type, NULL, NULL);
		image->context->column = NULL;
		isnull[at] = true;
	}
}

/* Set column col of an upsert that does not carry it. */
static void
fill_gap(CdcImage *image, CdcLeaf *leaf, const CdcEvent *ev, int col, const CdcStored *stored,
		 Datum *values, bool *isnull)
{
	int			at = leaf->attno[image->cols->cols[col].attno - 1] - 1;
	bool		lacking;

	switch (find_value(image, ev, col, stored, &values[at], &isnull[at], &lacking))
	{
		case FOUND_VALUE:
			return;
		case FOUND_STORED:
			values[at] = slot_getattr(stored->slot, at + 1, &isnull[at]);
			return;
		case FOUND_NOWHERE:
			set_unknown(image, ev, col, at, lacking, values, isnull);
			break;
	}
}

/* Set a column to what was found of it (cdc_search.c); ev as in set_unknown(). */
static void
set_found(CdcImage *image, CdcLeaf *leaf, const CdcEvent *ev, int col, const CdcStored *stored,
		  const CdcFound *found, Datum *values, bool *isnull)
{
	int			at = leaf->attno[image->cols->cols[col].attno - 1] - 1;

	image->marks->fresh[col] = found->mark;
	image->marks->fresh[col].marked = true;
	switch (found->kind)
	{
		case CDC_FOUND_STORED:
			values[at] = slot_getattr(stored->slot, at + 1, &isnull[at]);
			break;
		case CDC_FOUND_EVENT:
			values[at] = cdc_image_column(image, found->ev, col, &isnull[at]);
			break;
		case CDC_FOUND_VALUE:
			values[at] = found->value;
			isnull[at] = found->isnull;
			break;
		case CDC_FOUND_NOTHING:
			/* of a column that the source does not have no event will tell */
			image->marks->fresh[col].marked = ev == NULL || !found->lacking;
			set_unknown(image, ev, col, at, found->lacking, values, isnull);
			break;
	}
}

/* Start a row of leaf from the stored row, or from defaults. */
static void
start_row(CdcImage *image, CdcLeaf *leaf, const CdcStored *stored, bool inherit,
		  TupleTableSlot *slot)
{
	int			natts = slot->tts_tupleDescriptor->natts;

	ExecClearTuple(slot);
	if (inherit)
	{
		slot_getallattrs(stored->slot);
		memcpy(slot->tts_values, stored->slot->tts_values, sizeof(Datum) * natts);
		memcpy(slot->tts_isnull, stored->slot->tts_isnull, sizeof(bool) * natts);
		return;
	}
	memset(slot->tts_values, 0, sizeof(Datum) * natts);
	memset(slot->tts_isnull, true, sizeof(bool) * natts);
}

static bool
is_fed(CdcImage *image, AttrNumber attno)
{
	for (int i = 0; i < image->cols->ncols; i++)
		if (image->cols->cols[i].attno == attno)
			return true;
	return cdc_target_is_law_column(image->target, attno);
}

/* Columns that no event feeds get their defaults. */
static void
put_defaults(CdcImage *image, CdcLeaf *leaf, TupleTableSlot *slot)
{
	TupleDesc	desc = RelationGetDescr(image->target->rel);

	for (int i = 0; i < desc->natts; i++)
	{
		int			at = leaf->attno[i] - 1;

		if (TupleDescAttr(desc, i)->attisdropped || TupleDescAttr(desc, i)->attgenerated != '\0' ||
			is_fed(image, i + 1))
			continue;
		slot->tts_values[at] = cdc_target_default(image->target, i + 1, &slot->tts_isnull[at]);
	}
}

/* Write the key, in an update only where its image differs. */
static void
put_key(CdcImage *image, CdcLeaf *leaf, const CdcEvent *ev, bool inherit, TupleTableSlot *slot)
{
	for (int i = 0; i < image->target->nkeys; i++)
	{
		CdcKey	   *key = &image->target->keys[i];
		int			at = leaf->attno[key->attno - 1] - 1;
		bool		isnull;
		Datum		value = cdc_event_value(image->cols, ev, i + 1, &isnull);

		if (inherit && !slot->tts_isnull[at] &&
			datum_image_eq(slot->tts_values[at], value, key->typbyval, key->typlen))
			continue;
		slot->tts_values[at] = value;
		slot->tts_isnull[at] = false;
	}
}

/*
 * Build into slot the row that an upsert or snapshot row leaves.  A live
 * stored row is the base; a revived or new row inherits nothing.
 */
void
cdc_image_upsert(CdcImage *image, CdcLeaf *leaf, const CdcEvent *ev, const CdcStored *stored,
				 TupleTableSlot *slot)
{
	CdcTarget  *target = image->target;
	CdcColumns *cols = image->cols;
	bool		inherit = stored->state == CDC_KEY_LIVE;
	Datum	   *values = slot->tts_values;
	bool	   *isnull = slot->tts_isnull;

	start_row(image, leaf, stored, inherit, slot);
	if (!inherit)
		put_defaults(image, leaf, slot);
	put_key(image, leaf, ev, stored->state != CDC_KEY_ABSENT && inherit, slot);
	if (image->marks != NULL)
		cdc_marks_begin(image, leaf, stored);
	for (int i = 0; i < cols->ncols; i++)
	{
		int			at = leaf->attno[cols->cols[i].attno - 1] - 1;

		if (cdc_event_carries(ev, i))
			values[at] = cdc_image_column(image, ev, i, &isnull[at]);
		else if (image->marks == NULL)
			fill_gap(image, leaf, ev, i, stored, values, isnull);
		else
		{
			CdcFound	found;

			cdc_search_column(image, ev, i, stored, &image->marks->stored, &found);
			set_found(image, leaf, ev, i, stored, &found, values, isnull);
		}
	}
	cdc_target_put_position(target, leaf, ev->pos, cdc_event_place_len(ev), values, isnull);
	cdc_target_put_tombstone(target, leaf, false, values, isnull);
	if (image->marks != NULL)
		cdc_marks_put(image, leaf, ev->pos, cdc_event_place_len(ev), values, isnull);
	ExecStoreVirtualTuple(slot);
}

/*
 * Build into slot the stored row with the columns that a late event changes,
 * as was found when it was judged.
 */
void
cdc_image_late(CdcImage *image, CdcLeaf *leaf, const CdcStored *stored, TupleTableSlot *slot)
{
	CdcMarks   *marks = image->marks;

	start_row(image, leaf, stored, true, slot);
	for (int i = 0; i < marks->n; i++)
		if (marks->late[i].kind != CDC_FOUND_STORED)
			set_found(image, leaf, NULL, i, stored, &marks->late[i], slot->tts_values,
					  slot->tts_isnull);
		else
			marks->fresh[i] = marks->stored.marks[i];
	cdc_marks_put(image, leaf, stored->pos.bytes, stored->pos.len, slot->tts_values,
				  slot->tts_isnull);
	ExecStoreVirtualTuple(slot);
}

/* A NULL where the column allows none becomes the column's default. */
static void
avoid_null(CdcImage *image, CdcLeaf *leaf, AttrNumber attno, TupleTableSlot *slot)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(image->target->rel), attno - 1);
	int			at = leaf->attno[attno - 1] - 1;
	bool		domain = get_typtype(att->atttypid) == TYPTYPE_DOMAIN;

	if (!slot->tts_isnull[at] || (!att->attnotnull && !domain))
		return;
	slot->tts_values[at] = cdc_target_default(image->target, attno, &slot->tts_isnull[at]);
}

/* The next older upsert that is newer than the stored row, or NULL. */
static const CdcEvent *
last_upsert(const CdcEvent *ev, const CdcStored *stored)
{
	for (ev = ev->older; ev != NULL; ev = ev->older)
	{
		if (stored->state != CDC_KEY_ABSENT &&
			!newer_than(ev, stored->pos.bytes, stored->pos.len))
			return NULL;
		if (!cdc_event_kills(ev))
			return ev;
	}
	return NULL;
}

/*
 * Build into slot the tombstone that a delete leaves in the row, with the
 * last values known: those of the next older upsert of the batch, else the
 * stored row's, else the event's own.
 */
void
cdc_image_delete(CdcImage *image, CdcLeaf *leaf, const CdcEvent *ev, const CdcStored *stored,
				 TupleTableSlot *slot)
{
	CdcTarget  *target = image->target;
	CdcColumns *cols = image->cols;
	bool		exists = stored->state != CDC_KEY_ABSENT;
	const CdcEvent *last = last_upsert(ev, stored);
	Datum	   *values = slot->tts_values;
	bool	   *isnull = slot->tts_isnull;

	start_row(image, leaf, stored, exists, slot);
	if (!exists)
	{
		put_defaults(image, leaf, slot);
		put_key(image, leaf, ev, false, slot);
	}
	for (int i = 0; i < cols->ncols; i++)
	{
		int			at = leaf->attno[cols->cols[i].attno - 1] - 1;
		Datum		value;
		bool		null;
		bool		lacking;

		if (last != NULL && cdc_event_carries(last, i))
			values[at] = cdc_image_column(image, last, i, &isnull[at]);
		else if (last != NULL &&
				 find_value(image, last, i, stored, &value, &null, &lacking) == FOUND_VALUE)
		{
			values[at] = value;
			isnull[at] = null;
		}
		else if (!exists && last == NULL && cdc_event_carries(ev, i))
		{
			(void) cdc_event_value(cols, ev, cols->nkeys + i + 1, &null);
			if (!null)
				values[at] = cdc_image_column(image, ev, i, &isnull[at]);
		}
		if (!exists)
			avoid_null(image, leaf, cols->cols[i].attno, slot);
	}
	cdc_target_put_position(target, leaf, ev->pos, cdc_event_place_len(ev), values, isnull);
	cdc_target_put_tombstone(target, leaf, true, values, isnull);
	cdc_marks_clear(target, leaf, isnull);
	ExecStoreVirtualTuple(slot);
}

/* Build into slot the tombstone that a truncate leaves of a row: all as it was. */
void
cdc_image_kill(CdcImage *image, CdcLeaf *leaf, const CdcPos *pos, const CdcStored *stored,
			   TupleTableSlot *slot)
{
	start_row(image, leaf, stored, true, slot);
	cdc_target_put_position(image->target, leaf, pos->bytes, pos->len, slot->tts_values,
							slot->tts_isnull);
	cdc_target_put_tombstone(image->target, leaf, true, slot->tts_values, slot->tts_isnull);
	cdc_marks_clear(image->target, leaf, slot->tts_isnull);
	ExecStoreVirtualTuple(slot);
}

/*
 * The first column in which an event's image differs from the stored row,
 * NULL when none does.  Columns that it does not carry are skipped, and those
 * that it fills.
 */
const char *
cdc_image_difference(CdcImage *image, CdcLeaf *leaf, const CdcEvent *ev, const CdcStored *stored,
					 bool late)
{
	/* a snapshot says how its keys are written, too */
	for (int i = 0; i < image->target->nkeys && ev->class == CDC_IMAGE; i++)
	{
		CdcKey	   *key = &image->target->keys[i];
		bool		anull,
					bnull;
		Datum		a = cdc_event_value(image->cols, ev, i + 1, &anull);
		Datum		b = slot_getattr(stored->slot, leaf->attno[key->attno - 1], &bnull);

		if (anull != bnull || (!anull && !datum_image_eq(a, b, key->typbyval, key->typlen)))
			return key->name;
	}
	for (int i = 0; i < image->cols->ncols; i++)
	{
		CdcColumn  *c = &image->cols->cols[i];
		bool		anull,
					bnull;
		Datum		a,
					b;

		if (!cdc_event_carries(ev, i) ||
			(late && image->marks->late[i].kind != CDC_FOUND_STORED))
			continue;
		a = cdc_image_column(image, ev, i, &anull);
		b = slot_getattr(stored->slot, leaf->attno[c->attno - 1], &bnull);
		if (anull != bnull || (!anull && !datum_image_eq(a, b, c->byval, c->len)))
			return c->name;
	}
	return NULL;
}

/* Would two events with other staging images also be stored differently? */
bool
cdc_image_tied(CdcImage *image, const CdcEvent *a, const CdcEvent *b)
{
	for (int i = 0; i < image->cols->ncols; i++)
	{
		CdcColumn  *c = &image->cols->cols[i];
		bool		anull,
					bnull;
		Datum		avalue,
					bvalue;

		if (cdc_event_carries(a, i) != cdc_event_carries(b, i))
			return true;
		if (!cdc_event_carries(a, i))
			continue;
		avalue = cdc_image_column(image, a, i, &anull);
		bvalue = cdc_image_column(image, b, i, &bnull);
		if (anull != bnull || (!anull && !datum_image_eq(avalue, bvalue, c->byval, c->len)))
			return true;
	}
	return false;
}
