/*-------------------------------------------------------------------------
 *
 * cdc_position.c
 *		Parse, print, pack and take apart positions; see cdc_position.h for
 *		the byte format and its invariants.
 *
 * A pure core: no fmgr, no catalog, no memory allocation, no error raised.
 *
 *-------------------------------------------------------------------------
 */
#include "cdc_position.h"

#include <limits.h>

/* ---------- bytes ---------- */

/* Number of bytes that value takes without leading zero bytes: 0 .. 8. */
static inline int
significant_bytes(uint64 value)
{
	int			n = 0;

	while (value != 0)
	{
		value >>= 8;
		n++;
	}
	return n;
}

static inline void
put_big_endian(uint8 *out, uint64 value, int n)
{
	while (n > 0)
	{
		out[--n] = (uint8) value;
		value >>= 8;
	}
}

static inline uint64
get_big_endian(const uint8 *bytes, int n)
{
	uint64		value = 0;
	int			i;

	for (i = 0; i < n; i++)
		value = (value << 8) | bytes[i];
	return value;
}

/* The first n (0 .. 8) of len bytes, as if zero bytes followed the last. */
static inline uint64
get_prefix(const uint8 *bytes, int len, int n)
{
	int			have = Min(len, n);
	uint64		value = get_big_endian(bytes, have);

	/* a shift by 64 is undefined, and there is nothing to shift then */
	return have == 0 ? 0 : value << (8 * (n - have));
}

int
cdc_position_pack(const CdcPosition *p, uint8 *out)
{
	int			nparts = p->nparts;
	int			epoch_bytes = significant_bytes(p->epoch);
	int			pos = 0;
	int			i;

	while (nparts > 1 && p->parts[nparts - 1] == 0)
		nparts--;

	out[pos++] = (uint8) (epoch_bytes |
						  (p->kind == CDC_POSITION_NUMBER ? CDC_POSITION_NUMBER_BIT : 0));
	put_big_endian(out + pos, p->epoch, epoch_bytes);
	pos += epoch_bytes;

	for (i = 0; i < nparts; i++)
	{
		int			n = significant_bytes(p->parts[i]);

		if (i == 0 && p->kind == CDC_POSITION_LSN)
			n = 8;
		else
			out[pos++] = (uint8) n;
		put_big_endian(out + pos, p->parts[i], n);
		pos += n;
	}
	return pos;
}

bool
cdc_position_unpack(const uint8 *bytes, int len, CdcPosition *p)
{
	int			epoch_bytes;
	int			pos = 1;

	/* I1: nothing but the kind and 0 .. 4 epoch bytes is known */
	if (len < 1 || len > CDC_POSITION_MAX_BYTES)
		return false;
	if (bytes[0] & ~(CDC_POSITION_NUMBER_BIT | CDC_POSITION_EPOCH_MASK))
		return false;
	epoch_bytes = bytes[0] & CDC_POSITION_EPOCH_MASK;
	if (epoch_bytes > 4 || len < 1 + epoch_bytes)
		return false;

	/* I2 */
	if (epoch_bytes > 0 && bytes[1] == 0)
		return false;
	p->kind = cdc_position_kind_of(bytes);
	p->epoch = (uint32) get_big_endian(bytes + 1, epoch_bytes);
	pos += epoch_bytes;

	/* I3 .. I5; later parts are 0 for those who read past nparts */
	memset(p->parts, 0, sizeof(p->parts));
	p->nparts = 0;
	while (pos < len || p->nparts == 0)
	{
		bool		is_lsn = (p->nparts == 0 && p->kind == CDC_POSITION_LSN);
		int			n;

		if (p->nparts == CDC_POSITION_MAX_PARTS)
			return false;
		if (is_lsn)
			n = 8;
		else
		{
			if (pos >= len)
				return false;
			n = bytes[pos++];
		}
		if (n > 8 || n > len - pos)
			return false;
		if (!is_lsn && n > 0 && bytes[pos] == 0)
			return false;
		p->parts[p->nparts++] = get_big_endian(bytes + pos, n);
		pos += n;
	}
	return p->nparts == 1 || p->parts[p->nparts - 1] != 0;
}

/* ---------- text ---------- */

/* A decimal of at most max; leading zeros are fine, an empty one is not. */
static CdcPositionError
parse_decimal(const char *text, int len, uint64 max, uint64 *value)
{
	CdcPositionError result = CDC_POSITION_OK;
	int			i;

	if (len == 0)
		return CDC_POSITION_BAD_SYNTAX;
	*value = 0;
	for (i = 0; i < len; i++)
	{
		uint64		digit;

		if (text[i] < '0' || text[i] > '9')
			return CDC_POSITION_BAD_SYNTAX;
		digit = (uint64) (text[i] - '0');

		/* read on: what is no number at all is bad syntax, however long */
		if (*value > (max - digit) / 10)
			result = CDC_POSITION_OUT_OF_RANGE;
		else
			*value = *value * 10 + digit;
	}
	return result;
}

/* One side of an LSN: 1 to 8 hex digits, any case. */
static bool
parse_hex32(const char *text, int len, uint64 *value)
{
	int			i;

	if (len < 1 || len > 8)
		return false;
	*value = 0;
	for (i = 0; i < len; i++)
	{
		char		c = text[i];
		int			digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if (c >= 'a' && c <= 'f')
			digit = c - 'a' + 10;
		else if (c >= 'A' && c <= 'F')
			digit = c - 'A' + 10;
		else
			return false;
		*value = (*value << 4) | (uint64) digit;
	}
	return true;
}

/* The head: a slash makes it an LSN, else it is a number. */
static CdcPositionError
parse_head(const char *text, int len, CdcPosition *p)
{
	const char *slash = memchr(text, '/', len);
	uint64		high;
	uint64		low;

	if (slash == NULL)
	{
		p->kind = CDC_POSITION_NUMBER;
		return parse_decimal(text, len, PG_UINT64_MAX, &p->parts[0]);
	}
	p->kind = CDC_POSITION_LSN;
	if (!parse_hex32(text, (int) (slash - text), &high) ||
		!parse_hex32(slash + 1, len - (int) (slash - text) - 1, &low))
		return CDC_POSITION_BAD_SYNTAX;
	p->parts[0] = (high << 32) | low;
	return CDC_POSITION_OK;
}

CdcPositionError
cdc_position_parse(const char *text, int len, CdcPosition *p)
{
	const char *end = text + len;
	const char *at = memchr(text, '@', len);
	CdcPositionError worst = CDC_POSITION_OK;
	int			nparts = 0;

	p->epoch = 0;
	memset(p->parts, 0, sizeof(p->parts));
	if (at != NULL)
	{
		uint64		epoch = 0;

		worst = parse_decimal(text, (int) (at - text), PG_UINT32_MAX, &epoch);
		if (worst == CDC_POSITION_BAD_SYNTAX)
			return worst;
		p->epoch = (uint32) epoch;
		text = at + 1;
	}

	/* bad syntax anywhere weighs more than a value out of range before it */
	for (;;)
	{
		const char *colon = memchr(text, ':', end - text);
		int			n = (int) ((colon ? colon : end) - text);
		uint64		ignored;
		CdcPositionError result;

		if (nparts == 0)
			result = parse_head(text, n, p);
		else
			result = parse_decimal(text, n, PG_UINT64_MAX,
								   nparts < CDC_POSITION_MAX_PARTS ? &p->parts[nparts] : &ignored);
		if (result == CDC_POSITION_BAD_SYNTAX)
			return result;
		if (worst == CDC_POSITION_OK)
			worst = result;
		if (nparts < INT_MAX)
			nparts++;
		if (colon == NULL)
			break;
		text = colon + 1;
	}
	if (nparts > CDC_POSITION_MAX_PARTS)
		return CDC_POSITION_TOO_MANY_PARTS;

	while (nparts > 1 && p->parts[nparts - 1] == 0)
		nparts--;
	p->nparts = nparts;
	return worst;
}

static char *
print_decimal(char *out, uint64 value)
{
	char		digits[20];
	int			n = 0;

	do
	{
		digits[n++] = (char) ('0' + value % 10);
		value /= 10;
	} while (value != 0);
	while (n > 0)
		*out++ = digits[--n];
	return out;
}

static char *
print_hex(char *out, uint32 value)
{
	char		digits[8];
	int			n = 0;

	do
	{
		digits[n++] = "0123456789ABCDEF"[value & 0xF];
		value >>= 4;
	} while (value != 0);
	while (n > 0)
		*out++ = digits[--n];
	return out;
}

int
cdc_position_print(const CdcPosition *p, char *out)
{
	char	   *start = out;
	int			i;

	if (p->epoch != 0)
	{
		out = print_decimal(out, p->epoch);
		*out++ = '@';
	}
	if (p->kind == CDC_POSITION_LSN)
	{
		/* without padding on every server, so that text does not vary */
		out = print_hex(out, (uint32) (p->parts[0] >> 32));
		*out++ = '/';
		out = print_hex(out, (uint32) p->parts[0]);
	}
	else
		out = print_decimal(out, p->parts[0]);
	for (i = 1; i < p->nparts; i++)
	{
		*out++ = ':';
		out = print_decimal(out, p->parts[i]);
	}
	*out = '\0';
	return (int) (out - start);
}

/* ---------- abbreviated keys ---------- */

/*
 * The usual case gets half of the 64-bit space: an LSN below 2^54 (16 PB of
 * WAL) of epoch 0, with 9 bits of ordinal.  The other half is cut into four
 * ranges, in the order of the positions, of 2^61 each.
 */
#define ABBREV_LSN_BITS			54
#define ABBREV_ORDINAL_BITS		9
#define ABBREV_ORDINAL_MAX		((1 << ABBREV_ORDINAL_BITS) - 1)
#define ABBREV_EPOCH_MAX		0x7F	/* 7 bits: 61 - ABBREV_LSN_BITS */
#define ABBREV_RANGE(n)			((uint64) (n) << 61)
#define ABBREV_HIGH_LSN			ABBREV_RANGE(4)
#define ABBREV_EPOCH_LSN		ABBREV_RANGE(5)
#define ABBREV_NUMBER			ABBREV_RANGE(6)
#define ABBREV_EPOCH_NUMBER		ABBREV_RANGE(7)

/* The second part, where the rest of a payload begins at bytes; saturated. */
static inline uint64
abbreviate_ordinal(const uint8 *bytes, int len)
{
	uint64		ordinal;

	if (len == 0 || bytes[0] == 0)
		return 0;
	if (bytes[0] > 2)
		return ABBREV_ORDINAL_MAX;
	ordinal = get_big_endian(bytes + 1, bytes[0]);
	return Min(ordinal, ABBREV_ORDINAL_MAX);
}

uint64
cdc_position_abbreviate(const uint8 *bytes, int len)
{
	int			epoch_bytes = bytes[0] & CDC_POSITION_EPOCH_MASK;
	const uint8 *head = bytes + 1 + epoch_bytes;
	const uint64 lsn_limit = UINT64CONST(1) << ABBREV_LSN_BITS;

	if (cdc_position_kind_of(bytes) == CDC_POSITION_LSN)
	{
		uint64		lsn = get_big_endian(head, 8);
		uint64		epoch;

		if (epoch_bytes == 0)
		{
			if (lsn >= lsn_limit)
				return ABBREV_HIGH_LSN | (lsn >> 3);
			return (lsn << ABBREV_ORDINAL_BITS) |
				abbreviate_ordinal(head + 8, len - 9);
		}
		epoch = get_big_endian(bytes + 1, epoch_bytes);
		if (epoch >= ABBREV_EPOCH_MAX)
			return ABBREV_EPOCH_LSN |
				((uint64) ABBREV_EPOCH_MAX << ABBREV_LSN_BITS) | epoch;
		return ABBREV_EPOCH_LSN | (epoch << ABBREV_LSN_BITS) |
			Min(lsn, lsn_limit - 1);
	}

	/*
	 * The payload itself, cut: a number's length byte is at most 8, so the
	 * first eight bytes fit into 60 bits.  With an epoch, the number of its
	 * bytes (1 .. 4) takes two bits and what follows the other 59.
	 */
	if (epoch_bytes == 0)
		return ABBREV_NUMBER | get_prefix(head, len - 1, 8);
	return ABBREV_EPOCH_NUMBER | ((uint64) (epoch_bytes - 1) << 59) |
		(get_prefix(bytes + 1, len - 1, 8) >> 5);
}
