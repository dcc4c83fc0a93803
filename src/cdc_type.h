/*-------------------------------------------------------------------------
 *
 * cdc_type.h
 *		cdc_position as a Datum: how other files read, make and weigh one.
 *
 * A stored position may have a 1-byte header and any alignment, so it is read
 * through the macros here and never cast to a struct.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_TYPE_H
#define CDC_TYPE_H

#include "postgres.h"

#include "fmgr.h"

#include "cdc_compat.h"
#include "cdc_position.h"

/* Detoasted, perhaps still short; may be a copy (PG_FREE_IF_COPY). */
#define DatumGetCdcPosition(d)		((struct varlena *) PG_DETOAST_DATUM_PACKED(d))
#define PG_GETARG_CDC_POSITION(n)	DatumGetCdcPosition(PG_GETARG_DATUM(n))

/* The payload of what they return: what cdc_position.h works on. */
#define CDC_POSITION_DATA(v)		((const uint8 *) VARDATA_ANY(v))
#define CDC_POSITION_LEN(v)			((int) VARSIZE_ANY_EXHDR(v))

static inline int
cdc_type_compare(const struct varlena *a, const struct varlena *b)
{
	return cdc_position_compare(CDC_POSITION_DATA(a), CDC_POSITION_LEN(a),
								CDC_POSITION_DATA(b), CDC_POSITION_LEN(b));
}

/* Take v apart; an ERROR (data corrupted) if it is no position. */
extern void cdc_type_unpack(const struct varlena *v, CdcPosition *p);

/* A new position, palloc'd in the current context. */
extern Datum cdc_type_make(const CdcPosition *p);
extern Datum cdc_type_make_from_bytes(const uint8 *bytes, int len);

/* The text of a payload, palloc'd in the current context. */
extern char *cdc_type_text(const uint8 *bytes, int len);

/*
 * The law weighs only positions of one kind: a 42804 error if a and b, both
 * real, are of two.
 */
extern void cdc_type_check_kinds(const uint8 *a, int alen, const uint8 *b, int blen);

/* An epoch or a further part given as a bigint: 22003 if it does not fit. */
extern uint32 cdc_type_check_epoch(int64 epoch);

#endif							/* CDC_TYPE_H */
