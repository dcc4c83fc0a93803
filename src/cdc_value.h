/*-------------------------------------------------------------------------
 *
 * cdc_value.h
 *		A position as a Datum: its payload, and back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_VALUE_H
#define CDC_VALUE_H

#include "postgres.h"

#include "fmgr.h"

#include "cdc_compat.h"
#include "cdc_position.h"

#define cdc_value_bytes(v)	((const uint8 *) VARDATA_ANY(v))
#define cdc_value_len(v)	((int) VARSIZE_ANY_EXHDR(v))

/* detoasted, possibly with a 1-byte header: never cast to a struct */
#define PG_GETARG_CDC_POSITION(n)	PG_GETARG_VARLENA_PP(n)

extern Datum cdc_value_from_position(const CdcPosition *p);
extern void cdc_value_to_position(struct varlena *v, CdcPosition *p);
extern uint64 cdc_part_from_numeric(Datum value);
extern Datum cdc_numeric_from_part(uint64 part);
extern void cdc_refuse_mixed_kinds(const char *where) pg_attribute_noreturn();

#endif							/* CDC_VALUE_H */
