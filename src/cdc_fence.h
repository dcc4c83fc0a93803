/*-------------------------------------------------------------------------
 *
 * cdc_fence.h
 *		Changes of whole targets: truncate events.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_FENCE_H
#define CDC_FENCE_H

#include "cdc_apply.h"

extern void cdc_truncate_rows(const CdcTarget *target, const CdcPos *pos);

#endif							/* CDC_FENCE_H */
