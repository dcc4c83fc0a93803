/*-------------------------------------------------------------------------
 *
 * cdc_image.h
 *		The row that an event leaves (cdc_image.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_IMAGE_H
#define CDC_IMAGE_H

#include "cdc_apply.h"

typedef struct CdcImage
{
	CdcTarget  *target;
	CdcColumns *cols;
	CdcFold    *fold;
	const CdcRule *rule;
	struct CdcContext *context;
	struct CdcMarks *marks;		/* NULL without column_positions */
} CdcImage;

extern void cdc_image_upsert(CdcImage *image, CdcLeaf *leaf, const CdcEvent *ev,
							 const CdcStored *stored, TupleTableSlot *slot);
extern void cdc_image_delete(CdcImage *image, CdcLeaf *leaf, const CdcEvent *ev,
							 const CdcStored *stored, TupleTableSlot *slot);
extern void cdc_image_kill(CdcImage *image, CdcLeaf *leaf, const CdcPos *pos,
						   const CdcStored *stored, TupleTableSlot *slot);
extern const char *cdc_image_difference(CdcImage *image, CdcLeaf *leaf, const CdcEvent *ev,
										const CdcStored *stored, bool late);
extern bool cdc_image_tied(CdcImage *image, const CdcEvent *a, const CdcEvent *b);

#endif							/* CDC_IMAGE_H */
