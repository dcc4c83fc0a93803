/*-------------------------------------------------------------------------
 *
 * cdc_marks.c
 *		column_positions: which columns of a row are older than the row, kept
 *		with it.
 *
 * The column that the rule names holds a JSON object, or NULL in a row whose
 * columns are all as new as it is.  An entry is a column's name and
 *
 *		"4/10"		the position of the event that its value comes from
 *		null		its value is of a row that had no position
 *		["4/20"]	no value is known: the key was dead at that position, and
 *					no later event has brought one
 *		[]			no value is known
 *
 * The entry without a name is the row's own position.  Where the row has
 * another one now, it was written by somebody who does not know of marks: they
 * are void, and all columns as new as the row.
 *
 * Marks of dead rows mean nothing.  Marks of columns that a call does not feed
 * stay as they are while the row lives.
 *
 * Where a column's value comes from is worked out in cdc_search.c; rows are
 * built in cdc_image.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"

#include "cdc_marks.h"

static const char *const not_a_mark = "it is neither a position nor null nor an array of at most one position";

CdcMarks *
cdc_marks_create(const CdcTarget *target, const CdcColumns *cols)
{
	CdcMarks   *marks;

	if (target->marks_attno == 0)
		return NULL;
	marks = palloc0(sizeof(CdcMarks));
	marks->n = cols->ncols;
	marks->stored.marks = palloc0(sizeof(CdcMark) * (cols->ncols + 1));
	marks->there.marks = palloc0(sizeof(CdcMark) * (cols->ncols + 1));
	marks->fresh = palloc0(sizeof(CdcMark) * (cols->ncols + 1));
	marks->late = palloc0(sizeof(CdcFound) * (cols->ncols + 1));
	return marks;
}

/* ---------- reading ---------- */

static void
refuse_marks(const CdcImage *image, CdcLeaf *leaf, const CdcStored *stored, const char *why)
{
	const CdcTarget *target = image->target;
	Datum	   *keys = palloc(sizeof(Datum) * target->nkeys);
	bool	   *isnull = palloc(sizeof(bool) * target->nkeys);

	for (int i = 0; i < target->nkeys; i++)
		keys[i] = slot_getattr(stored->slot, leaf->attno[target->keys[i].attno - 1], &isnull[i]);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("column \"%s\" of target \"%s\" does not hold column positions",
					NameStr(TupleDescAttr(RelationGetDescr(target->rel), target->marks_attno - 1)->attname),
					target->name),
			 errdetail("Key %s: %s.", cdc_key_text(target, keys, isnull), why),
			 errhint("Set it to NULL in that row: then all columns count as new as the row.")));
}

/* Read the position of a mark.  Why it is none, or NULL. */
static const char *
read_position(const JsonbValue *v, const CdcStored *stored, CdcPos *pos)
{
	CdcPosition p;

	pos->len = 0;
	if (v->type != jbvString)
		return not_a_mark;
	if (cdc_position_parse(v->val.string.val, v->val.string.len, &p) != CDC_POSITION_OK)
		return psprintf("\"%s\" is no position",
						cdc_clip(pnstrdup(v->val.string.val, v->val.string.len)));
	pos->len = cdc_position_pack(&p, pos->bytes);
	if (!cdc_position_is_real(pos->bytes))
		pos->len = 0;
	if (pos->len > 0 && stored->pos.len > 0 &&
		cdc_position_kind_of(pos->bytes) != cdc_position_kind_of(stored->pos.bytes))
		return psprintf("position %s is of another kind than that of the row",
						cdc_pos_text(pos->bytes, pos->len));
	return NULL;
}

/* Read the value of an entry, which begins with this token.  Why it is no mark, or NULL. */
static const char *
read_mark(JsonbIterator **it, JsonbIteratorToken token, JsonbValue *v, const CdcStored *stored,
		  CdcMark *mark)
{
	const char *why;

	mark->marked = true;
	mark->empty = token == WJB_BEGIN_ARRAY;
	mark->pos.len = 0;
	if (token == WJB_VALUE)
		return v->type == jbvNull ? NULL : read_position(v, stored, &mark->pos);
	if (token != WJB_BEGIN_ARRAY)
		return not_a_mark;
	if (JsonbIteratorNext(it, v, true) == WJB_END_ARRAY)
		return NULL;
	why = read_position(v, stored, &mark->pos);
	if (why == NULL && JsonbIteratorNext(it, v, true) != WJB_END_ARRAY)
		why = not_a_mark;
	return why;
}

static int
find_column(const CdcColumns *cols, const char *name, int len)
{
	for (int i = 0; i < cols->ncols; i++)
		if (strncmp(cols->cols[i].name, name, len) == 0 && cols->cols[i].name[len] == '\0')
			return i;
	return -1;
}

/* Put a mark that was read into the set. */
static void
keep_mark(const CdcImage *image, const char *name, int len, const CdcMark *mark, CdcMarkSet *set)
{
	int			col = find_column(image->cols, name, len);

	if (col >= 0)
		set->marks[col] = *mark;
	else
	{
		CdcOtherMark *other = palloc(sizeof(CdcOtherMark));

		other->name = pnstrdup(name, len);
		other->mark = *mark;
		set->others = lappend(set->others, other);
	}
}

/*
 * Read the marks of a stored row into *set.  What is allocated stands in the
 * current memory context.
 */
void
cdc_marks_read(CdcImage *image, CdcLeaf *leaf, const CdcStored *stored, CdcMarkSet *set)
{
	bool		isnull;
	Jsonb	   *jb;
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;

	set->any = false;
	set->others = NIL;
	if (!cdc_marks_any(image->target, leaf, stored))
		return;
	jb = DatumGetJsonbP(slot_getattr(stored->slot, cdc_marks_at(image->target, leaf) + 1, &isnull));
	if (!JB_ROOT_IS_OBJECT(jb))
		refuse_marks(image, leaf, stored, "it is no JSON object");
	for (int i = 0; i < image->marks->n; i++)
		set->marks[i].marked = false;
	set->any = true;

	it = JsonbIteratorInit(&jb->root);
	(void) JsonbIteratorNext(&it, &v, false);
	while ((token = JsonbIteratorNext(&it, &v, false)) == WJB_KEY)
	{
		const char *name = v.val.string.val;
		int			len = v.val.string.len;
		const char *why;
		CdcMark		mark;

		token = JsonbIteratorNext(&it, &v, false);
		why = read_mark(&it, token, &v, stored, &mark);
		if (why != NULL)
			refuse_marks(image, leaf, stored,
						 psprintf("entry \"%s\": %s", cdc_clip(pnstrdup(name, len)), why));
		if (len > 0)
			keep_mark(image, name, len, &mark, set);
		else if (cdc_pos_compare(mark.pos.bytes, mark.pos.len, stored->pos.bytes,
								 stored->pos.len) != 0)
		{
			/* of another version of the row */
			set->any = false;
			set->others = NIL;
			return;
		}
	}
}

/*
 * How old a column is that no event has looked at yet: as its mark says, else
 * as the stored row.  Of a dead key nothing is known since it was last dead.
 */
void
cdc_marks_base(const CdcImage *image, const CdcStored *stored, const CdcMarkSet *set, int col,
			   CdcMark *mark)
{
	const CdcHorizon *horizon = &image->target->horizon;
	const CdcPos *truncate = &image->target->truncate;
	const CdcPos *dead[] = {&stored->pos, &horizon->fence, &horizon->floor};

	mark->marked = false;
	mark->empty = false;
	if (stored->state == CDC_KEY_LIVE)
	{
		if (set->any && set->marks[col].marked)
			*mark = set->marks[col];
		else
			cdc_pos_copy(&mark->pos, &stored->pos);
		/* a dry run has not taken away what the batch's truncate does */
		if (truncate->len > 0 && cdc_pos_compare(mark->pos.bytes, mark->pos.len, truncate->bytes,
												 truncate->len) < 0)
		{
			mark->empty = true;
			cdc_pos_copy(&mark->pos, truncate);
		}
		return;
	}
	mark->empty = true;
	mark->pos.len = 0;
	for (int i = stored->state == CDC_KEY_TOMBSTONE ? 0 : 1; i < lengthof(dead); i++)
		if (cdc_pos_compare(dead[i]->bytes, dead[i]->len, mark->pos.bytes, mark->pos.len) > 0)
			cdc_pos_copy(&mark->pos, dead[i]);
}

/* ---------- late events ---------- */

/*
 * An event that does not change the stored row, which is live, may still be
 * newer than columns of it: work out what it makes of them.  The first of them
 * by name, NULL when there is none.
 */
const char *
cdc_marks_judge(CdcImage *image, CdcLeaf *leaf, const CdcEvent *ev, const CdcStored *stored)
{
	CdcMarks   *marks = image->marks;
	const char *first = NULL;

	cdc_marks_read(image, leaf, stored, &marks->stored);
	for (int i = 0; i < marks->n; i++)
	{
		CdcFound   *found = &marks->late[i];

		found->kind = CDC_FOUND_STORED;
		if (!marks->stored.any || !marks->stored.marks[i].marked)
			continue;
		cdc_search_column(image, ev, i, stored, &marks->stored, found);
		if (found->kind != CDC_FOUND_STORED && first == NULL)
			first = image->cols->cols[i].name;
	}
	return first;
}

/* The same of a truncate, which takes what is older than it is. */
bool
cdc_marks_kill(CdcImage *image, CdcLeaf *leaf, const CdcPos *pos, const CdcStored *stored)
{
	CdcMarks   *marks = image->marks;
	bool		any = false;

	cdc_marks_read(image, leaf, stored, &marks->stored);
	for (int i = 0; i < marks->n; i++)
	{
		CdcFound   *found = &marks->late[i];
		const CdcMark *mark = &marks->stored.marks[i];

		found->kind = CDC_FOUND_STORED;
		if (!marks->stored.any || !mark->marked ||
			cdc_pos_compare(mark->pos.bytes, mark->pos.len, pos->bytes, pos->len) >= 0)
			continue;
		found->kind = CDC_FOUND_NOTHING;
		found->lacking = false;
		found->mark.empty = true;
		cdc_pos_copy(&found->mark.pos, pos);
		any = true;
	}
	return any;
}

/* ---------- writing ---------- */

static void
put_position(StringInfo s, const CdcPos *pos)
{
	escape_json(s, cdc_pos_text(pos->bytes, pos->len));
}

static void
put_mark(StringInfo s, const char *name, const CdcMark *mark)
{
	appendStringInfoString(s, ", ");
	escape_json(s, name);
	appendStringInfoString(s, mark->empty ? ": [" : ": ");
	if (mark->pos.len > 0)
		put_position(s, &mark->pos);
	else if (!mark->empty)
		appendStringInfoString(s, "null");
	if (mark->empty)
		appendStringInfoChar(s, ']');
}

/* A new row begins, on that stored or on nothing: all its columns are as new as it is. */
void
cdc_marks_begin(CdcImage *image, CdcLeaf *leaf, const CdcStored *stored)
{
	CdcMarks   *marks = image->marks;

	cdc_marks_read(image, leaf, stored, &marks->stored);
	for (int i = 0; i < marks->n; i++)
		marks->fresh[i].marked = false;
}

/* Put the marks of the row being built, which is to be at this position, into it. */
void
cdc_marks_put(CdcImage *image, CdcLeaf *leaf, const uint8 *pos, int len, Datum *values,
			  bool *isnull)
{
	CdcMarks   *marks = image->marks;
	int			at = cdc_marks_at(image->target, leaf);
	StringInfoData s;
	CdcPos		row;
	int			head;
	ListCell   *lc;

	row.len = len;
	cdc_position_put(row.bytes, pos, len);
	initStringInfo(&s);
	appendStringInfoString(&s, "{\"\": ");
	if (len > 0)
		put_position(&s, &row);
	else
		appendStringInfoString(&s, "null");
	head = s.len;
	for (int i = 0; i < marks->n; i++)
	{
		const CdcMark *mark = &marks->fresh[i];

		/* a value that is as new as its row needs no mark */
		if (mark->marked && (mark->empty || cdc_pos_compare(mark->pos.bytes, mark->pos.len, pos, len) < 0))
			put_mark(&s, image->cols->cols[i].name, mark);
	}
	if (marks->stored.any)
		foreach(lc, marks->stored.others)
			put_mark(&s, ((CdcOtherMark *) lfirst(lc))->name, &((CdcOtherMark *) lfirst(lc))->mark);
	isnull[at] = s.len == head;
	if (!isnull[at])
	{
		appendStringInfoChar(&s, '}');
		values[at] = DirectFunctionCall1(jsonb_in, CStringGetDatum(s.data));
	}
}
