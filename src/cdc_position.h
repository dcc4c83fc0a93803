/*-------------------------------------------------------------------------
 *
 * cdc_position.h
 *		The position type as plain C values: parse, print, pack, compare.
 *
 * A position is stored as a varlena whose payload is order-preserving: the
 * byte strings of two positions compare (memcmp, then length) exactly as the
 * positions do.  That makes one total order for every use, equality the same
 * as equal bytes, and comparison free of decoding.
 *
 * Payload (invariants):
 *	I1	byte 0: bit 7 is reserved for a later format and is 0; bit 6 is the
 *		kind (0 LSN-headed, 1 number-headed); bits 5..3 are 0; bits 2..0 are
 *		the number of epoch bytes, 0..4.
 *	I2	the epoch, big-endian, without leading zero bytes (none for epoch 0).
 *	I3	the head: for an LSN 8 bytes big-endian; for a number one length byte
 *		(0..8) and that many bytes, big-endian, without leading zeros.
 *	I4	each further part like a number head; the last one is never zero.
 *	I5	at most CDC_POSITION_MAX_PARTS parts, the head included.
 *
 * Nothing here knows fmgr or catalogs; cdc_type.c wraps it for SQL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_POSITION_H
#define CDC_POSITION_H

#include "postgres.h"

#include "port/pg_bswap.h"

#define CDC_POSITION_MAX_PARTS	8

/* flag byte + 4 epoch bytes + 8 parts of a length byte and 8 bytes */
#define CDC_POSITION_MAX_BYTES	(1 + 4 + CDC_POSITION_MAX_PARTS * 9)

/* epoch '@' + 8 parts of at most 20 digits with ':' between + terminator */
#define CDC_POSITION_MAX_TEXT	(11 + CDC_POSITION_MAX_PARTS * 21 + 1)

#define CDC_POSITION_FORMAT_BIT	0x80
#define CDC_POSITION_NUMBER_BIT	0x40
#define CDC_POSITION_EPOCH_MASK	0x07

typedef enum CdcPositionKind
{
	CDC_POSITION_LSN = 0,
	CDC_POSITION_NUMBER = 1
} CdcPositionKind;

/* A position taken apart.  parts[0] is the head; parts beyond nparts are 0. */
typedef struct CdcPosition
{
	CdcPositionKind kind;
	uint32		epoch;
	int			nparts;			/* 1 .. CDC_POSITION_MAX_PARTS */
	uint64		parts[CDC_POSITION_MAX_PARTS];
} CdcPosition;

/* why a text is no position */
typedef enum CdcPositionError
{
	CDC_POSITION_OK = 0,
	CDC_POSITION_BAD_SYNTAX,
	CDC_POSITION_OUT_OF_RANGE,
	CDC_POSITION_TOO_MANY_PARTS
} CdcPositionError;

/*
 * Write p's payload into out, which has room for CDC_POSITION_MAX_BYTES, and
 * return its length.  Trailing zero parts of p are dropped.
 */
extern int	cdc_position_pack(const CdcPosition *p, uint8 *out);

/*
 * Take a payload apart into *p.  False if it breaks any of I1..I5 (p is then
 * undefined): the only check that binary input needs.
 */
extern bool cdc_position_unpack(const uint8 *bytes, int len, CdcPosition *p);

/* Parse text of length len (need not be terminated) into *p. */
extern CdcPositionError cdc_position_parse(const char *text, int len, CdcPosition *p);

/* Print p into out, which has room for CDC_POSITION_MAX_TEXT; the length. */
extern int	cdc_position_print(const CdcPosition *p, char *out);

/* A uint64 that never orders two payloads against their order (0 ties them). */
extern uint64 cdc_position_abbreviate(const uint8 *bytes, int len);

static inline CdcPositionKind
cdc_position_kind_of(const uint8 *bytes)
{
	return (bytes[0] & CDC_POSITION_NUMBER_BIT) ? CDC_POSITION_NUMBER : CDC_POSITION_LSN;
}

/* Eight bytes of a payload as a number that orders as they do. */
static inline uint64
cdc_position_word(const uint8 *bytes)
{
	uint64		word;

	memcpy(&word, bytes, sizeof(word));
	return pg_ntoh64(word);
}

/* Copy the bytes of a position; most are 8 to 16. */
static inline void
cdc_position_put(uint8 *to, const uint8 *from, int len)
{
	if (len >= 8 && len <= 16)
	{
		uint64		first,
					last;

		memcpy(&first, from, 8);
		memcpy(&last, from + len - 8, 8);
		memcpy(to, &first, 8);
		memcpy(to + len - 8, &last, 8);
	}
	else
		memcpy(to, from, len);
}

static inline int
cdc_position_compare(const uint8 *a, int alen, const uint8 *b, int blen)
{
	int			cmp;

	/* most are of one length and differ in their first or last eight bytes */
	if (alen >= 8 && blen >= 8)
	{
		uint64		x = cdc_position_word(a);
		uint64		y = cdc_position_word(b);

		if (x != y)
			return x > y ? 1 : -1;
		if (alen == blen && alen <= 16)
		{
			x = cdc_position_word(a + alen - 8);
			y = cdc_position_word(b + blen - 8);
			return (x > y) - (x < y);
		}
	}
	cmp = memcmp(a, b, Min(alen, blen));
	if (cmp != 0)
		return cmp;
	return (alen > blen) - (alen < blen);
}

/*
 * Is it a real position?  An LSN of 0/0 is "no position" whatever its epoch
 * and ordinal; number-headed positions are always real.
 */
static inline bool
cdc_position_is_real(const uint8 *bytes)
{
	static const uint8 zero[8] = {0};

	return (bytes[0] & CDC_POSITION_NUMBER_BIT) != 0 ||
		memcmp(bytes + 1 + (bytes[0] & CDC_POSITION_EPOCH_MASK), zero, 8) != 0;
}

#endif							/* CDC_POSITION_H */
