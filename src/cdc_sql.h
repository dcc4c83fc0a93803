/*-------------------------------------------------------------------------
 *
 * cdc_sql.h
 *		Texts for statements over a target's rows (cdc_sql.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_SQL_H
#define CDC_SQL_H

#include "cdc_registry.h"

extern const char *cdc_sql_schema(void);
extern const char *cdc_sql_column(const CdcTarget *target, AttrNumber attno);
extern char *cdc_sql_position(const CdcTarget *target);
extern char *cdc_sql_dead(const CdcTarget *target);

#endif							/* CDC_SQL_H */
