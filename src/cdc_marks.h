/*-------------------------------------------------------------------------
 *
 * cdc_marks.h
 *		Columns that are older than their row: what cdc_marks.c, cdc_search.c,
 *		cdc_image.c and the writer share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_MARKS_H
#define CDC_MARKS_H

#include "cdc_image.h"

/* How old the value of a column is. */
typedef struct CdcMark
{
	bool		marked;			/* else as new as its row, whatever pos says */
	bool		empty;			/* no value is known: none came after pos */
	CdcPos		pos;			/* of the event that the value comes from; len 0: of none */
} CdcMark;

/* A mark of a column that no event of this call feeds. */
typedef struct CdcOtherMark
{
	char	   *name;
	CdcMark		mark;
} CdcOtherMark;

/* The marks of one row. */
typedef struct CdcMarkSet
{
	bool		any;			/* else nothing in it is valid */
	CdcMark    *marks;			/* by applied column */
	List	   *others;			/* of CdcOtherMark */
} CdcMarkSet;

/* Where the value of a column is. */
typedef enum CdcFoundKind
{
	CDC_FOUND_STORED,			/* the stored row has it */
	CDC_FOUND_EVENT,			/* ev carries it */
	CDC_FOUND_VALUE,			/* value: a key move brought it */
	CDC_FOUND_NOTHING			/* it is not known */
} CdcFoundKind;

typedef struct CdcFound
{
	CdcFoundKind kind;
	CdcMark		mark;			/* its age, or since when it is not known */
	bool		lacking;		/* an event on the way says that its source lacks the column */
	const CdcEvent *ev;
	Datum		value;
	bool		isnull;
} CdcFound;

typedef struct CdcMarks
{
	int			n;				/* applied columns */
	CdcMarkSet	stored;			/* of the stored row in hand */
	CdcMarkSet	there;			/* of the row of an old key */
	CdcMark    *fresh;			/* of the row being built */
	CdcFound   *late;			/* what the late event in hand makes of the columns */
} CdcMarks;

/* in cdc_marks.c */
extern CdcMarks *cdc_marks_create(const CdcTarget *target, const CdcColumns *cols);
extern void cdc_marks_read(CdcImage *image, CdcLeaf *leaf, const CdcStored *stored,
						   CdcMarkSet *set);
extern void cdc_marks_base(const CdcImage *image, const CdcStored *stored, const CdcMarkSet *set,
						   int col, CdcMark *mark);
extern const char *cdc_marks_judge(CdcImage *image, CdcLeaf *leaf, const CdcEvent *ev,
								   const CdcStored *stored);
extern bool cdc_marks_kill(CdcImage *image, CdcLeaf *leaf, const CdcPos *pos,
						   const CdcStored *stored);
extern void cdc_marks_begin(CdcImage *image, CdcLeaf *leaf, const CdcStored *stored);
extern void cdc_marks_put(CdcImage *image, CdcLeaf *leaf, const uint8 *pos, int len,
						  Datum *values, bool *isnull);

/* in cdc_search.c */
extern void cdc_search_column(CdcImage *image, const CdcEvent *ev, int col,
							  const CdcStored *stored, const CdcMarkSet *set, CdcFound *found);

/* in cdc_image.c */
extern Datum cdc_image_column(CdcImage *image, const CdcEvent *ev, int col, bool *isnull);
extern const CdcEvent *cdc_image_before_move(CdcImage *image, const CdcEvent *ev, CdcLeaf **leaf,
											 CdcStored *stored);
extern void cdc_image_late(CdcImage *image, CdcLeaf *leaf, const CdcStored *stored,
						   TupleTableSlot *slot);

/* The place of the marks in a row of leaf, from 0; the target has them. */
#define cdc_marks_at(target, leaf) ((leaf)->attno[(target)->marks_attno - 1] - 1)

/* May the stored row have columns that are older than it is? */
static inline bool
cdc_marks_any(const CdcTarget *target, const CdcLeaf *leaf, const CdcStored *stored)
{
	return target->marks_attno != 0 && stored->state == CDC_KEY_LIVE && stored->slot != NULL &&
		!slot_attisnull(stored->slot, cdc_marks_at(target, leaf) + 1);
}

/* A row that is being built has none: it is dead, or all of it is of one event. */
static inline void
cdc_marks_clear(const CdcTarget *target, const CdcLeaf *leaf, bool *isnull)
{
	if (target->marks_attno != 0)
		isnull[cdc_marks_at(target, leaf)] = true;
}

#endif							/* CDC_MARKS_H */
