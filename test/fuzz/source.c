/*
 * Fuzzes src/cdc_source_text.c outside of the server: the texts of sources in
 * any shape, against readers of the same formats that are written otherwise.
 *
 *	- accepted and refused as the format says, with the same numbers;
 *	- an LSN of bytes orders as its bytes do, a change sequence number as its
 *	  sections;
 *	- what prints as a change sequence number reads back as it was.
 *
 * With libFuzzer (clang -fsanitize=fuzzer) it is a harness; with -DSTANDALONE
 * a program: source ROUNDS SEED [FILE...].  Inputs are copied into memory of
 * their exact size, so that an address sanitizer sees every byte read beyond.
 */
#include "cdc_source.h"

#include <stdio.h>
#include <stdlib.h>

/* port.h puts the server's own in their place */
#undef printf
#undef fprintf

#ifdef USE_ASSERT_CHECKING
void
ExceptionalCondition(const char *condition, const char *type, const char *file, int line)
{
	fprintf(stderr, "assertion failed: %s, %s:%d\n", condition, file, line);
	abort();
}
#endif

#define DEMAND(what) \
	do { \
		if (!(what)) \
		{ \
			fprintf(stderr, "source.c:%d: not so: %s\n", __LINE__, #what); \
			abort(); \
		} \
	} while (0)

#define MAX_TEXT 300

typedef unsigned __int128 Wide;

/* A copy as a string, for readers that want one: cut at a zero byte. */
static const char *
as_string(const char *text, int len)
{
	static char room[MAX_TEXT + 1];

	memcpy(room, text, len);
	room[len] = '\0';
	return room;
}

static bool
is_hex(char c)
{
	return c != '\0' && strchr("0123456789abcdefABCDEF", c) != NULL;
}

/* ---------- the formats, read otherwise ---------- */

static CdcPositionError
expect_number(const char *text, int len, uint64 *value)
{
	Wide		wide = 0;

	if (len == 0)
		return CDC_POSITION_BAD_SYNTAX;
	for (int i = 0; i < len; i++)
	{
		if (text[i] < '0' || text[i] > '9')
			return CDC_POSITION_BAD_SYNTAX;
		if (wide <= PG_UINT64_MAX)
			wide = wide * 10 + (text[i] - '0');
	}
	*value = (uint64) wide;
	return wide > PG_UINT64_MAX ? CDC_POSITION_OUT_OF_RANGE : CDC_POSITION_OK;
}

/* Bytes of a shape such as "xxxxxxxx:xxxxxxxx:xxxx"; false if it is not that. */
static bool
of_shape(const char *text, int len, const char *shape, uint8 *bytes)
{
	int			n = 0;

	if (len != (int) strlen(shape))
		return false;
	for (int i = 0; i < len; i++)
	{
		char		digit[2] = {text[i], '\0'};

		if (shape[i] == 'x')
		{
			if (!is_hex(text[i]))
				return false;
			if (n % 2 == 0)
				bytes[n / 2] = 0;
			bytes[n / 2] = bytes[n / 2] * 16 + (uint8) strtoul(digit, NULL, 16);
			n++;
		}
		else if (shape[i] == 'X' ? (text[i] != 'x' && text[i] != 'X') : text[i] != shape[i])
			return false;
	}
	return true;
}

static bool
lsn10(const char *text, int len, uint8 *bytes)
{
	return of_shape(text, len, "xxxxxxxx:xxxxxxxx:xxxx", bytes) ||
		of_shape(text, len, "xxxxxxxxxxxxxxxxxxxx", bytes) ||
		of_shape(text, len, "0Xxxxxxxxxxxxxxxxxxxxx", bytes);
}

static bool
lsn16(const char *text, int len, uint8 *bytes)
{
	return of_shape(text, len, "xxxxxxxx:xxxxxxxx:xxxxxxxxxxxxxxxx", bytes) ||
		of_shape(text, len, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", bytes) ||
		of_shape(text, len, "0Xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", bytes);
}

static uint64
number_of(const uint8 *bytes, int n)
{
	uint64		value = 0;

	for (int i = 0; i < n; i++)
		value = value * 256 + bytes[i];
	return value;
}

/* Hex sections between separators: their number, 0 for anything else. */
static int
sections(const char *text, int len, char between, uint64 *parts, int room)
{
	int			n = 0;
	int			digits = 0;

	for (int i = 0; i <= len; i++)
	{
		if (i == len || text[i] == between)
		{
			if (digits == 0 || digits > 16)
				return 0;
			if (n < room)
				parts[n] = strtoull(as_string(text + i - digits, digits), NULL, 16);
			n++;
			digits = 0;
		}
		else if (!is_hex(text[i]))
			return 0;
		else
			digits++;
	}
	return n;
}

/* ---------- checks ---------- */

static void
check_numbers(const char *text, int len)
{
	uint64		got = 0;
	uint64		want = 0;
	CdcPositionError error = expect_number(text, len, &want);
	int			start = len;

	DEMAND(cdc_source_number(text, len, &got) == error);
	DEMAND(error != CDC_POSITION_OK || got == want);

	while (start > 0 && text[start - 1] >= '0' && text[start - 1] <= '9')
		start--;
	error = expect_number(text + start, len - start, &want);
	if (cdc_source_is_gtid(text, len) || memchr(text, ':', len) != NULL)
		error = CDC_POSITION_BAD_SYNTAX;
	DEMAND(cdc_source_binlog_file(text, len, &got) == error);
	DEMAND(error != CDC_POSITION_OK || got == want);
}

static void
check_gtid(const char *text, int len)
{
	uint8		bytes[16];
	unsigned long a;
	unsigned long b;
	unsigned long c;
	int			end = -1;
	const char *s = as_string(text, len);

	/* a UUID and a colon, or three numbers and nothing else, are always one */
	if (len > 36 && text[36] == ':' && of_shape(text, 36, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", bytes))
		DEMAND(cdc_source_is_gtid(text, len));
	if (sscanf(s, "%lu-%lu-%lu%n", &a, &b, &c, &end) == 3 && end == len &&
		strspn(s, "0123456789-") == (size_t) len && strstr(s, "--") == NULL && s[0] != '-')
		DEMAND(cdc_source_is_gtid(text, len));
	/* without a dash nothing is, nor is a file name that begins like one */
	if (memchr(text, '-', len) == NULL ||
		(memchr(text, '.', len) != NULL && memchr(text, '/', len) == NULL &&
		 memchr(text, ':', len) == NULL && memchr(text, ',', len) == NULL))
		DEMAND(!cdc_source_is_gtid(text, len));
}

static void
check_lsns(const char *text, int len)
{
	uint8		bytes[16];
	uint64		parts[3];
	bool		ten = lsn10(text, len, bytes);

	DEMAND(cdc_source_sqlserver_lsn(text, len, parts) == ten);
	if (ten)
	{
		DEMAND(parts[0] == number_of(bytes, 4) && parts[1] == number_of(bytes + 4, 4) &&
			   parts[2] == number_of(bytes + 8, 2));
		DEMAND(cdc_source_db2_lsn(text, len, parts));
		DEMAND(parts[0] == number_of(bytes, 2) && parts[1] == number_of(bytes + 2, 8));
	}
	else if (lsn16(text, len, bytes))
	{
		DEMAND(cdc_source_db2_lsn(text, len, parts));
		DEMAND(parts[0] == number_of(bytes, 8) && parts[1] == number_of(bytes + 8, 8));
	}
	else
		DEMAND(!cdc_source_db2_lsn(text, len, parts));
}

static void
check_rs_id(const char *text, int len)
{
	uint64		got[3];
	uint64		want[3];
	int			n;
	bool		ok = cdc_source_rs_id(text, len, got);

	while (len > 0 && *text == ' ')
		text++, len--;
	while (len > 0 && text[len - 1] == ' ')
		len--;
	if (len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		text += 2, len -= 2;
	n = sections(text, len, '.', want, 3);
	DEMAND(ok == (n == 3));
	DEMAND(!ok || memcmp(got, want, sizeof(got)) == 0);
}

static void
check_csn(const char *text, int len)
{
	uint64		want[CDC_CSN_SECTIONS] = {0};
	int			n = sections(text, len, '/', want, CDC_CSN_SECTIONS);
	CdcPositionError error = n == 0 ? CDC_POSITION_BAD_SYNTAX :
		n > CDC_CSN_SECTIONS ? CDC_POSITION_TOO_MANY_PARTS : CDC_POSITION_OK;

	for (int headed = 0; headed < 2; headed++)
	{
		CdcPosition p;
		CdcPosition q;
		char		again[CDC_CSN_MAX_TEXT];
		char	   *exact;
		int			again_len;

		DEMAND(cdc_source_csn_parse(text, len, headed, &p) == error);
		if (error != CDC_POSITION_OK)
			continue;
		DEMAND(p.kind == (headed ? CDC_POSITION_LSN : CDC_POSITION_NUMBER) && p.epoch == 0);
		DEMAND(memcmp(p.parts, want, sizeof(want)) == 0);
		DEMAND(p.nparts == 1 || p.parts[p.nparts - 1] != 0);
		again_len = cdc_source_csn_print(&p, again);
		DEMAND(again_len > 0 && again_len < CDC_CSN_MAX_TEXT && (int) strlen(again) == again_len);
		DEMAND(again[0] != '0' || again[1] == '/' || again[1] == '\0');
		for (int i = 0; i < again_len; i++)
			DEMAND(again[i] != '/' || again[i + 1] != '0' || again[i + 2] == '/' || again[i + 2] == '\0');
		exact = malloc(again_len);
		memcpy(exact, again, again_len);
		DEMAND(cdc_source_csn_parse(exact, again_len, headed, &q) == CDC_POSITION_OK);
		DEMAND(memcmp(p.parts, q.parts, sizeof(p.parts)) == 0 && p.nparts == q.nparts);
		free(exact);
		p.epoch = 1;
		DEMAND(cdc_source_csn_print(&p, again) == -1);
		p.epoch = 0;
		p.nparts = CDC_CSN_SECTIONS + 1;
		DEMAND(cdc_source_csn_print(&p, again) == -1);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text;

	if (size > MAX_TEXT)
		size = MAX_TEXT;
	text = malloc(size > 0 ? size : 1);
	memcpy(text, data, size);
	check_numbers(text, (int) size);
	check_gtid(text, (int) size);
	check_lsns(text, (int) size);
	check_rs_id(text, (int) size);
	check_csn(text, (int) size);
	free(text);
	return 0;
}

#ifdef STANDALONE

static uint64 random_state;

static uint32
next_random(uint32 limit)
{
	random_state = random_state * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	return (uint32) (random_state >> 33) % limit;
}

/* A text of one of the formats, then spoilt a little. */
static size_t
make_up(char *text)
{
	static const char *const shapes[] = {
		"b.d", "mysql-bin.dddddd", "dddddddddddddddddddd", "d-d-d", "d-d-ddd,d-d-d", "d-d-d.dddddd",
		"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx:d-d", "MySQL56/xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx:dd",
		"xxxxxxxx:xxxxxxxx:xxxx", "0xxxxxxxxxxxxxxxxxxxxx", "xxxxxxxxxxxxxxxxxxxx",
		"xxxxxxxx:xxxxxxxx:xxxxxxxxxxxxxxxx", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
		" 0xxxxxxx.xxxxxxxx.xxxx ", "x.x.x", "x", "x/x", "x/xx/xxx/xxxx", "xxxxxxxxxxxxxxxx/xxxxxxxxxxxxxxxxx/0/0", "x/x/x/x/x"
	};
	static const char letters[] = "0123456789abcdefABCDEF:/.-x ,\0";
	const char *shape = shapes[next_random(lengthof(shapes))];
	size_t		size = strlen(shape);

	for (size_t i = 0; i < size; i++)
		text[i] = shape[i] == 'd' ? (char) ('0' + next_random(10)) :
			shape[i] == 'x' && !(i > 0 && shape[i - 1] == '0') ? "0123456789abcdefABCDEF"[next_random(3) ? next_random(22) : 0] : shape[i];
	for (uint32 n = next_random(4) == 0 ? next_random(4) : 0; n > 0 && size > 1; n--)
	{
		size_t		at = next_random(size);

		if (next_random(2) == 0)
			text[at] = letters[next_random(sizeof(letters) - 1)];
		else if (next_random(2) == 0)
			memmove(text + at, text + at + 1, --size - at);
		else
		{
			memmove(text + at + 1, text + at, size++ - at);
			text[at] = letters[next_random(sizeof(letters) - 1)];
		}
	}
	return size;
}

int
main(int argc, char **argv)
{
	long		rounds = argc > 1 ? atol(argv[1]) : 1000000;
	char		text[MAX_TEXT];

	random_state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	for (int i = 3; i < argc; i++)
	{
		FILE	   *f = fopen(argv[i], "rb");
		size_t		size = f ? fread(text, 1, sizeof(text), f) : 0;

		DEMAND(f != NULL);
		fclose(f);
		LLVMFuzzerTestOneInput((uint8_t *) text, size);
	}
	for (long i = 0; i < rounds; i++)
		LLVMFuzzerTestOneInput((uint8_t *) text, make_up(text));
	printf("%ld inputs\n", rounds);
	return 0;
}

#endif
