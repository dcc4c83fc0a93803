/*-------------------------------------------------------------------------
 *
 * cdc_source_text.c
 *		The texts in which sources write their coordinates, read as numbers.
 *
 * A pure core, as cdc_position.c is: no fmgr, no catalog, no memory allocation,
 * no error raised.  What is not exactly of the source's own form is refused,
 * since a text that is read as a smaller or greater number puts a change into
 * the wrong place without a word.
 *
 *-------------------------------------------------------------------------
 */
#include "cdc_source.h"

/* 8-4-4-4-12 hex digits */
#define UUID_LEN	36

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static inline bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

CdcPositionError
cdc_source_number(const char *text, int len, uint64 *value)
{
	CdcPosition p;
	CdcPositionError result;
	int			i;

	for (i = 0; i < len; i++)
		if (!is_digit(text[i]))
			return CDC_POSITION_BAD_SYNTAX;

	/* digits alone are a number-headed position: its parser knows the range */
	result = cdc_position_parse(text, len, &p);
	*value = p.parts[0];
	return result;
}

bool
cdc_source_hex(const char *text, int len, int max_digits, uint64 *value)
{
	int			i;

	if (len < 1 || len > max_digits)
		return false;
	*value = 0;
	for (i = 0; i < len; i++)
	{
		int			digit = hex_digit(text[i]);

		if (digit < 0)
			return false;
		*value = (*value << 4) | (uint64) digit;
	}
	return true;
}

/* ---------- MySQL, MariaDB ---------- */

static bool
starts_with_uuid(const char *text, int len)
{
	int			i;

	if (len < UUID_LEN)
		return false;
	for (i = 0; i < UUID_LEN; i++)
	{
		bool		dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text[i] != '-' : hex_digit(text[i]) < 0)
			return false;
	}
	return len == UUID_LEN || text[UUID_LEN] == ':';
}

/* domain-server-sequence, all of them numbers */
static bool
starts_with_mariadb_gtid(const char *text, int len)
{
	int			at = 0;
	int			n;

	for (n = 0; n < 3; n++)
	{
		int			start = at;

		while (at < len && is_digit(text[at]))
			at++;
		if (at == start)
			return false;
		if (n < 2 && (at == len || text[at++] != '-'))
			return false;
	}
	return at == len || text[at] == ',';
}

bool
cdc_source_is_gtid(const char *text, int len)
{
	const char *slash;

	/* the first of a list tells; Vitess puts the server's flavor in front */
	while (len > 0 && text[0] == ' ')
		text++, len--;
	slash = memchr(text, '/', len);
	if (slash != NULL && slash > text)
	{
		int			rest = len - (int) (slash - text) - 1;

		if (starts_with_uuid(slash + 1, rest) || starts_with_mariadb_gtid(slash + 1, rest))
			return true;
	}
	return starts_with_uuid(text, len) || starts_with_mariadb_gtid(text, len);
}

CdcPositionError
cdc_source_binlog_file(const char *text, int len, uint64 *number)
{
	int			start = len;

	while (start > 0 && is_digit(text[start - 1]))
		start--;

	/*
	 * What has a colon is no file name of a binlog, whatever its end: a GTID,
	 * or file and offset in one.
	 */
	if (cdc_source_is_gtid(text, len) || memchr(text, ':', len) != NULL)
		return CDC_POSITION_BAD_SYNTAX;
	return cdc_source_number(text + start, len - start, number);
}

/* ---------- SQL Server, Db2 ---------- */

/*
 * Bytes in hex, at most 16, into out: colons after the fourth and the eighth
 * byte, or 0x and none, or none.  The number of bytes; 0 if it is not that.
 */
static int
read_lsn_bytes(const char *text, int len, uint8 *out)
{
	bool		colons = len > 8 && text[8] == ':';
	int			n = 0;
	int			at = 0;

	if (len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		at = 2;
	while (at < len)
	{
		int			high;
		int			low;

		if (colons && (n == 4 || n == 8))
		{
			if (text[at++] != ':')
				return 0;
		}
		if (n == 16 || len - at < 2)
			return 0;
		high = hex_digit(text[at++]);
		low = hex_digit(text[at++]);
		if (high < 0 || low < 0)
			return 0;
		out[n++] = (uint8) (high << 4 | low);
	}
	return n;
}

static uint64
big_endian(const uint8 *bytes, int n)
{
	uint64		value = 0;

	while (n-- > 0)
		value = value << 8 | *bytes++;
	return value;
}

bool
cdc_source_sqlserver_lsn(const char *text, int len, uint64 *parts)
{
	uint8		bytes[16];

	if (read_lsn_bytes(text, len, bytes) != 10)
		return false;
	parts[0] = big_endian(bytes, 4);
	parts[1] = big_endian(bytes + 4, 4);
	parts[2] = big_endian(bytes + 8, 2);
	return true;
}

bool
cdc_source_db2_lsn(const char *text, int len, uint64 *parts)
{
	uint8		bytes[16];

	switch (read_lsn_bytes(text, len, bytes))
	{
		case 10:
			/* as a number of 16 bytes, which is what 10.1 made of it */
			parts[0] = big_endian(bytes, 2);
			parts[1] = big_endian(bytes + 2, 8);
			return true;
		case 16:
			parts[0] = big_endian(bytes, 8);
			parts[1] = big_endian(bytes + 8, 8);
			return true;
		default:
			return false;
	}
}

/* ---------- Oracle ---------- */

bool
cdc_source_rs_id(const char *text, int len, uint64 *parts)
{
	int			n;

	while (len > 0 && text[0] == ' ')
		text++, len--;
	while (len > 0 && text[len - 1] == ' ')
		len--;
	if (len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		text += 2, len -= 2;
	for (n = 0; n < 3; n++)
	{
		const char *dot = n < 2 ? memchr(text, '.', len) : text + len;
		int			digits;

		if (dot == NULL)
			return false;
		digits = (int) (dot - text);
		if (!cdc_source_hex(text, digits, 16, &parts[n]))
			return false;
		if (n < 2)
			text += digits + 1, len -= digits + 1;
	}
	return true;
}

/* ---------- BigQuery ---------- */

CdcPositionError
cdc_source_csn_parse(const char *text, int len, bool lsn_headed, CdcPosition *p)
{
	const char *end = text + len;
	int			n = 0;

	memset(p, 0, sizeof(*p));
	p->kind = lsn_headed ? CDC_POSITION_LSN : CDC_POSITION_NUMBER;
	for (;;)
	{
		const char *slash = memchr(text, '/', end - text);
		int			digits = (int) ((slash ? slash : end) - text);
		uint64		section;

		if (!cdc_source_hex(text, digits, 16, &section))
			return CDC_POSITION_BAD_SYNTAX;
		if (n < CDC_CSN_SECTIONS)
			p->parts[n] = section;
		n++;
		if (slash == NULL)
			break;
		text = slash + 1;
	}
	if (n > CDC_CSN_SECTIONS)
		return CDC_POSITION_TOO_MANY_PARTS;
	while (n > 1 && p->parts[n - 1] == 0)
		n--;
	p->nparts = n;
	return CDC_POSITION_OK;
}

int
cdc_source_csn_print(const CdcPosition *p, char *out)
{
	char	   *start = out;
	int			i;

	if (p->epoch != 0 || p->nparts > CDC_CSN_SECTIONS)
		return -1;
	for (i = 0; i < p->nparts; i++)
	{
		int			shift = 60;

		if (i > 0)
			*out++ = '/';
		while (shift > 0 && (p->parts[i] >> shift) == 0)
			shift -= 4;
		for (; shift >= 0; shift -= 4)
			*out++ = "0123456789ABCDEF"[(p->parts[i] >> shift) & 0xF];
	}
	*out = '\0';
	return (int) (out - start);
}
