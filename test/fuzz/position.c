/*
 * Fuzzes the pure core of the position type, src/cdc_position.c, outside of
 * the server: text and bytes in any shape, against an independent reader of
 * the grammar and of the byte format's invariants.
 *
 *	- text: accepted and refused as the grammar says; parse, print, parse is
 *	  the identity, and prints no longer than the header promises;
 *	- bytes: unpack accepts exactly what pack writes;
 *	- compare orders as the parts do, whatever the three positions, is
 *	  antisymmetric and transitive, and 0 only for equal bytes;
 *	- abbreviate never orders two positions against compare.
 *
 * With libFuzzer (clang -fsanitize=fuzzer) it is a harness; with -DSTANDALONE
 * a program: position ROUNDS SEED [FILE...] feeds what it makes up itself, and
 * the files.  Inputs are copied into memory of their exact size, so that an
 * address sanitizer sees every byte read beyond.
 */
#include "cdc_position.h"

#include <stdio.h>
#include <stdlib.h>

/* port.h puts the server's own in their place */
#undef printf
#undef fprintf

/* all that the server's headers want of a server here */
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
			fprintf(stderr, "position.c:%d: not so: %s\n", __LINE__, #what); \
			abort(); \
		} \
	} while (0)

static void *
exact_copy(const void *bytes, size_t len)
{
	/* malloc(0) may give memory that a sanitizer does not watch */
	char	   *copy = malloc(len > 0 ? len : 1);

	memcpy(copy, bytes, len);
	return copy;
}

/* ---------- an independent reader of the grammar ---------- */

typedef unsigned __int128 Wide;

/* Digits of a base up to end; the value saturates far above 2^64. */
static bool
read_digits(const char **at, const char *end, int base, int *count, Wide *value)
{
	*count = 0;
	*value = 0;
	for (; *at < end; (*at)++)
	{
		int			c = (unsigned char) **at;
		int			digit = c >= '0' && c <= '9' ? c - '0' :
			c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;

		if (digit >= base)
			break;
		(*count)++;
		if (*value < ((Wide) 1 << 100))
			*value = *value * base + digit;
	}
	return *count > 0;
}

static CdcPositionError
expected_parse(const char *text, int len, CdcPosition *p)
{
	const char *end = text + len;
	const char *at = text;
	bool		range = false;
	int			n = 0;
	int			count;
	Wide		value;
	const char *mark;

	memset(p, 0, sizeof(*p));
	for (mark = text; mark < end && *mark != '@'; mark++)
		;
	if (mark < end)
	{
		if (!read_digits(&at, end, 10, &count, &value) || at != mark)
			return CDC_POSITION_BAD_SYNTAX;
		range = value > 0xFFFFFFFFu;
		p->epoch = (uint32) value;
		at++;
	}
	for (mark = at; mark < end && *mark != ':' && *mark != '/'; mark++)
		;
	if (mark < end && *mark == '/')
	{
		Wide		low;

		if (!read_digits(&at, end, 16, &count, &value) || at != mark || count > 8)
			return CDC_POSITION_BAD_SYNTAX;
		at++;
		if (!read_digits(&at, end, 16, &count, &low) || count > 8)
			return CDC_POSITION_BAD_SYNTAX;
		p->kind = CDC_POSITION_LSN;
		p->parts[n++] = (uint64) (value << 32 | low);
	}
	else
	{
		if (!read_digits(&at, end, 10, &count, &value))
			return CDC_POSITION_BAD_SYNTAX;
		range |= value > PG_UINT64_MAX;
		p->kind = CDC_POSITION_NUMBER;
		p->parts[n++] = (uint64) value;
	}
	while (at < end)
	{
		if (*at++ != ':' || !read_digits(&at, end, 10, &count, &value))
			return CDC_POSITION_BAD_SYNTAX;
		range |= value > PG_UINT64_MAX;
		if (n < CDC_POSITION_MAX_PARTS)
			p->parts[n] = (uint64) value;
		n++;
	}
	if (n > CDC_POSITION_MAX_PARTS)
		return CDC_POSITION_TOO_MANY_PARTS;
	while (n > 1 && p->parts[n - 1] == 0)
		n--;
	p->nparts = n;
	return range ? CDC_POSITION_OUT_OF_RANGE : CDC_POSITION_OK;
}

/* ---------- checks ---------- */

static bool
same(const CdcPosition *a, const CdcPosition *b)
{
	return a->kind == b->kind && a->epoch == b->epoch && a->nparts == b->nparts &&
		memcmp(a->parts, b->parts, sizeof(a->parts)) == 0;
}

/* Whatever p is, it survives every way out and back in. */
static void
check_round_trips(const CdcPosition *p)
{
	uint8	   *bytes = malloc(CDC_POSITION_MAX_BYTES);
	char	   *text = malloc(CDC_POSITION_MAX_TEXT);
	int			len = cdc_position_pack(p, bytes);
	int			text_len;
	CdcPosition q;
	uint8	   *exact;
	char	   *exact_text;

	DEMAND(len >= 1 && len <= CDC_POSITION_MAX_BYTES);
	exact = exact_copy(bytes, len);
	DEMAND(cdc_position_unpack(exact, len, &q));
	DEMAND(same(p, &q));
	DEMAND(cdc_position_kind_of(exact) == p->kind);
	DEMAND(cdc_position_is_real(exact) == (p->kind == CDC_POSITION_NUMBER || p->parts[0] != 0));
	(void) cdc_position_abbreviate(exact, len);

	text_len = cdc_position_print(p, text);
	DEMAND(text_len > 0 && text_len < CDC_POSITION_MAX_TEXT && text[text_len] == '\0' &&
		   strlen(text) == (size_t) text_len);
	exact_text = exact_copy(text, text_len);
	DEMAND(cdc_position_parse(exact_text, text_len, &q) == CDC_POSITION_OK);
	DEMAND(same(p, &q));
	free(exact_text);
	free(exact);
	free(text);
	free(bytes);
}

static void
check_text(const uint8_t *data, size_t size)
{
	char	   *text = exact_copy(data, size);
	CdcPosition want;
	CdcPosition got;
	CdcPositionError error = expected_parse(text, (int) size, &want);

	DEMAND(cdc_position_parse(text, (int) size, &got) == error);
	if (error == CDC_POSITION_OK)
	{
		DEMAND(same(&want, &got));
		check_round_trips(&got);
	}
	free(text);
}

static void
check_bytes(const uint8_t *data, size_t size)
{
	uint8	   *bytes = exact_copy(data, size);
	CdcPosition p;

	if (cdc_position_unpack(bytes, (int) size, &p))
	{
		uint8		again[CDC_POSITION_MAX_BYTES];

		/* equal values are equal bytes: only what pack writes is accepted */
		DEMAND(p.nparts >= 1 && p.nparts <= CDC_POSITION_MAX_PARTS);
		DEMAND(cdc_position_pack(&p, again) == (int) size);
		DEMAND(memcmp(again, bytes, size) == 0);
		check_round_trips(&p);
	}
	free(bytes);
}

static int
expected_compare(const CdcPosition *a, const CdcPosition *b)
{
	if (a->kind != b->kind)
		return a->kind == CDC_POSITION_LSN ? -1 : 1;
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	for (int i = 0; i < CDC_POSITION_MAX_PARTS; i++)
		if (a->parts[i] != b->parts[i])
			return a->parts[i] < b->parts[i] ? -1 : 1;
	return 0;
}

static int
sign(int n)
{
	return (n > 0) - (n < 0);
}

/* Takes a position out of the input: shapes that come near each other. */
static const uint8_t *
take_position(const uint8_t *at, const uint8_t *end, CdcPosition *p)
{
	uint8		shape = at < end ? *at++ : 0;
	int			n = 1 + (shape >> 2) % CDC_POSITION_MAX_PARTS;

	memset(p, 0, sizeof(*p));
	p->kind = (shape & 1) ? CDC_POSITION_NUMBER : CDC_POSITION_LSN;
	if (shape & 2)
		for (int bytes = at < end ? *at++ % 5 : 0; bytes > 0; bytes--)
			p->epoch = p->epoch << 8 | (at < end ? *at++ : 0);
	for (int i = 0; i < n; i++)
		for (int bytes = at < end ? *at++ % 9 : 0; bytes > 0; bytes--)
			p->parts[i] = p->parts[i] << 8 | (at < end ? *at++ : 0);
	while (n > 1 && p->parts[n - 1] == 0)
		n--;
	p->nparts = n;
	return at;
}

static void
check_order(const uint8_t *data, size_t size)
{
	const uint8_t *end = data + size;
	CdcPosition p[3];
	uint8	   *bytes[3];
	int			len[3];
	int			cmp[3][3];

	for (int i = 0; i < 3; i++)
	{
		uint8		room[CDC_POSITION_MAX_BYTES];

		data = take_position(data, end, &p[i]);
		len[i] = cdc_position_pack(&p[i], room);
		bytes[i] = exact_copy(room, len[i]);
		check_round_trips(&p[i]);
	}
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++)
		{
			uint64		a = cdc_position_abbreviate(bytes[i], len[i]);
			uint64		b = cdc_position_abbreviate(bytes[j], len[j]);

			cmp[i][j] = sign(cdc_position_compare(bytes[i], len[i], bytes[j], len[j]));
			DEMAND(cmp[i][j] == expected_compare(&p[i], &p[j]));
			DEMAND((cmp[i][j] == 0) == (len[i] == len[j] && memcmp(bytes[i], bytes[j], len[i]) == 0));
			DEMAND(cmp[i][j] >= 0 || a <= b);
			DEMAND(cmp[i][j] <= 0 || a >= b);
			DEMAND(cmp[i][j] != 0 || a == b);
		}
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++)
		{
			DEMAND(cmp[i][j] == -cmp[j][i]);
			for (int k = 0; k < 3; k++)
				DEMAND(!(cmp[i][j] <= 0 && cmp[j][k] <= 0) || cmp[i][k] <= 0);
		}
	for (int i = 0; i < 3; i++)
		free(bytes[i]);
}

/* The first byte chooses what the rest is taken for. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0] % 3)
	{
		case 0:
			check_text(data + 1, size - 1);
			break;
		case 1:
			check_bytes(data + 1, size - 1);
			break;
		default:
			check_order(data + 1, size - 1);
	}
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

/* Input of one of the three kinds, near what is valid, then spoilt a little. */
static size_t
make_up(uint8_t *data, size_t room)
{
	static const char letters[] = "0123456789ABCDEFabcdef/@:-+ .x";
	uint8_t		kind = next_random(3);
	size_t		size = 1;
	CdcPosition p;
	uint8_t		raw[64];

	data[0] = kind;
	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] = next_random(4) == 0 ? next_random(3) : next_random(256);
	(void) take_position(raw, raw + sizeof(raw), &p);
	if (kind == 0 && next_random(4) > 0)
		size += cdc_position_print(&p, (char *) data + 1);
	else if (kind == 1 && next_random(8) > 0)
		size += cdc_position_pack(&p, data + 1);
	else
		for (uint32 n = next_random(64); n > 0 && size < room; n--)
			data[size++] = kind == 0 ? letters[next_random(sizeof(letters) - 1)] :
				next_random(3) == 0 ? next_random(9) : next_random(256);
	for (uint32 n = next_random(3); n > 0 && size > 1; n--)
	{
		size_t		at = 1 + next_random(size - 1);

		switch (next_random(3))
		{
			case 0:
				data[at] = kind == 0 ? letters[next_random(sizeof(letters) - 1)] : next_random(256);
				break;
			case 1:
				memmove(data + at, data + at + 1, --size - at);
				break;
			default:
				if (size < room)
				{
					memmove(data + at + 1, data + at, size++ - at);
					data[at] = kind == 0 ? letters[next_random(sizeof(letters) - 1)] : next_random(10);
				}
		}
	}
	return size;
}

int
main(int argc, char **argv)
{
	long		rounds = argc > 1 ? atol(argv[1]) : 1000000;
	uint8_t		data[512];

	random_state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	for (int i = 3; i < argc; i++)
	{
		FILE	   *f = fopen(argv[i], "rb");
		size_t		size = f ? fread(data, 1, sizeof(data), f) : 0;

		DEMAND(f != NULL);
		fclose(f);
		LLVMFuzzerTestOneInput(data, size);
	}
	for (long i = 0; i < rounds; i++)
		LLVMFuzzerTestOneInput(data, make_up(data, sizeof(data) - 1));
	printf("%ld inputs\n", rounds);
	return 0;
}

#endif
