/*-------------------------------------------------------------------------
 *
 * cdc_value.h
 *		cdc_position as a Datum: how other files read, make and weigh one.
 *
 * A stored position may have a 1-byte header and any alignment, so it is read
 * through the macros here and never cast to a struct.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_VALUE_H
#define CDC_VALUE_H

#include "postgres.h"

#include "fmgr.h"

#include "cdc_compat.h"
#include "cdc_position.h"

/* Detoasted, perhaps still short; may be a copy (PG_FREE_IF_COPY). */
#define DatumGetCdcPosition(d)		((struct varlena *) PG_DETOAST_DATUM_PACKED(d))
#define PG_GETARG_CDC_POSITION(n)	DatumGetCdcPosition(PG_GETARG_DATUM(n))

/* The payload of what they return: what cdc_position.h works on. */
#define cdc_value_bytes(v)			((const uint8 *) VARDATA_ANY(v))
#define cdc_value_len(v)			((int) VARSIZE_ANY_EXHDR(v))

static inline int
cdc_value_compare(const struct varlena *a, const struct varlena *b)
{
	return cdc_position_compare(cdc_value_bytes(a), cdc_value_len(a),
								cdc_value_bytes(b), cdc_value_len(b));
}

/* Take v apart; an ERROR (data corrupted) if it is no position. */
extern void cdc_value_to_position(const struct varlena *v, CdcPosition *p);

/* A new position, palloc'd in the current context. */
extern Datum cdc_value_from_position(const CdcPosition *p);
extern Datum cdc_value_from_bytes(const uint8 *bytes, int len);

/* The text of a payload, palloc'd in the current context. */
extern char *cdc_payload_text(const uint8 *bytes, int len);

/*
 * The law weighs only positions of one kind: a 42804 error if a and b, both
 * real, are of two.
 */
extern void cdc_value_check_kinds(const uint8 *a, int alen, const uint8 *b, int blen);

/* A part from a numeric (22003 if it is none: cdc_source.c), and back. */
extern uint64 cdc_part_from_numeric(Datum value);
extern Datum cdc_numeric_from_part(uint64 part);

/* in cdc_report.c, which says it for everybody */
extern char *cdc_clip(const char *text);
pg_noreturn extern void cdc_refuse_no_relation(Oid relid);
pg_noreturn extern void cdc_refuse_mixed_kinds(const char *where);

#endif							/* CDC_VALUE_H */
