/*-------------------------------------------------------------------------
 *
 * cdc_decode_number.c
 *		Numbers, bytes and bits of raw events.
 *
 * JSON has no bytes: they come as base64 or hex.  A decimal that is exact comes
 * as the bytes of its unscaled value, a big-endian two's complement number, and
 * its scale stands in the schema, beside it (a variable scale), or nowhere:
 * then it is that of the target's column.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/base64.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "cdc_decode.h"

/* the decimal digits that one step of a conversion yields, and ten to that power */
#define DIGITS_A_STEP	9
#define STEP			UINT64CONST(1000000000)

/* money is decimal with so many digits, unless the connector is told otherwise */
#define MONEY_SCALE		2

/* bits of a bit(n) at most, as bittypmodin has it */
#define MAX_BITS		(MaxAttrSize * BITS_PER_BYTE)

/*
 * Bytes of an unscaled value that still may be a number of the server's:
 * 131072 digits and 16383 behind the point, at 2.4 digits a byte.
 */
#define MAX_UNSCALED	62000

/* ---------- bytes ---------- */

/* NULL if the text is no base64. */
char *
cdc_decode_base64(const CdcDecoder *d, const JsonbValue *value, int *len)
{
	int			srclen = value->val.string.len;
	char	   *bytes = palloc(pg_b64_dec_len(srclen) + 1);

	*len = cdc_b64_decode(value->val.string.val, srclen, bytes, pg_b64_dec_len(srclen));
	return *len < 0 ? NULL : bytes;
}

static char *
need_base64(const CdcDecoder *d, const JsonbValue *value, int *len)
{
	char	   *bytes = value->type == jbvString ? cdc_decode_base64(d, value, len) : NULL;

	if (bytes == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("a value that is to be bytes is not base64"),
				 d->taker == CDC_TAKES_NUMERIC || d->taker == CDC_TAKES_INTEGER ||
				 d->taker == CDC_TAKES_MONEY ?
				 errhint("Exact decimals are bytes; if decimal.handling.mode is not precise, make the view with decimals => 'string' or 'double'.") :
				 d->taker == CDC_TAKES_BYTES ?
				 errhint("If binary.handling.mode is hex, make the view with binaries => 'hex'.") : 0));
	return bytes;
}

Datum
cdc_decode_bytes(CdcDecoder *d, const JsonbValue *value, const CdcField *field)
{
	bool		hex = d->modes.binaries == CDC_BINARIES_HEX;
	char	   *bytes;
	int			len;

	/* a schema says bytes, which are base64, or string, which the mode explains */
	if (field != NULL && field->meaning == CDC_MEANS_BYTES)
		hex = false;
	if (value->type != jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("a value that is to be bytes is not a string")));
	if (hex)
	{
		bytes = palloc(value->val.string.len / 2 + 1);
		len = hex_decode(value->val.string.val, value->val.string.len, bytes);
	}
	else
		bytes = need_base64(d, value, &len);
	return PointerGetDatum(cstring_to_text_with_len(bytes, len));
}

/*
 * Bits come as bytes, the last bit first: bit 0 of byte 0 is the rightmost.  A
 * single one is a boolean.
 */
char *
cdc_decode_bits(CdcDecoder *d, const JsonbValue *value, const CdcField *field)
{
	int			want = d->typmod > 0 && d->base == BITOID ? Min(d->typmod, MAX_BITS) : 0;
	int			n = 0;
	char	   *bytes;
	char	   *text;
	int			len;

	if (value->type == jbvBool)
		return value->val.boolean ? "1" : "0";
	bytes = need_base64(d, value, &len);
	for (int i = 0; i < len * 8; i++)
		if (bytes[i / 8] & (1 << (i % 8)))
			n = i + 1;
	n = Max(n, want);
	text = palloc(n + 1);
	for (int i = 0; i < n; i++)
	{
		int			bit = n - 1 - i;

		text[i] = bit < len * 8 && (bytes[bit / 8] & (1 << (bit % 8))) ? '1' : '0';
	}
	text[n] = '\0';
	return text;
}

/* ---------- decimals ---------- */

/* The digits of a number whose magnitude is n words, most significant first. */
static char *
digits_of_words(uint32 *words, int n)
{
	int			room = n * 10 + DIGITS_A_STEP + 1;
	char	   *buf = palloc(room);
	char	   *at = buf + room - 1;
	int			first = 0;

	*at = '\0';
	for (;;)
	{
		uint64		rest = 0;

		CHECK_FOR_INTERRUPTS();
		while (first < n && words[first] == 0)
			first++;
		if (first == n)
			break;
		for (int i = first; i < n; i++)
		{
			rest = rest << 32 | words[i];
			words[i] = (uint32) (rest / STEP);
			rest %= STEP;
		}
		for (int k = 0; k < DIGITS_A_STEP; k++, rest /= 10)
			*--at = '0' + rest % 10;
	}
	while (*at == '0')
		at++;
	return *at == '\0' ? "0" : at;
}

/* A big-endian two's complement number: its digits, and whether it is negative. */
static char *
digits_of_bytes(const uint8 *bytes, int len, bool *negative)
{
	int			n = (len + 3) / 4;
	uint32	   *words = palloc0(sizeof(uint32) * (n + 1));
	uint64		carry = 1;

	*negative = len > 0 && (bytes[0] & 0x80) != 0;
	if (*negative)
		memset(words, 0xff, sizeof(uint32) * n);
	for (int i = 0; i < len; i++)
	{
		int			bit = (len - 1 - i) * 8;
		uint32	   *word = &words[n - 1 - bit / 32];

		*word &= ~((uint32) 0xff << (bit % 32));
		*word |= (uint32) bytes[i] << (bit % 32);
	}
	for (int i = n - 1; *negative && i >= 0; i--)
	{
		carry += (uint32) ~words[i];
		words[i] = (uint32) carry;
		carry >>= 32;
	}
	return digits_of_words(words, n);
}

/* unscaled * 10 ^ -scale, as text */
static char *
decimal_text(const char *bytes, int len, int scale)
{
	bool		negative;
	char	   *digits;
	int			n;
	StringInfoData s;

	/* the time that it takes grows with the square of its length */
	if (len > MAX_UNSCALED)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("a decimal of %d bytes is out of range", len)));
	if (scale < PG_INT16_MIN || scale > PG_INT16_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("scale %d of a decimal is out of range", scale)));
	digits = digits_of_bytes((const uint8 *) bytes, len, &negative);
	n = strlen(digits);
	initStringInfo(&s);
	if (negative)
		appendStringInfoChar(&s, '-');
	if (scale <= 0)
	{
		appendStringInfoString(&s, digits);
		/* an exponent, so that no scale makes a text without bounds */
		if (scale < 0)
			appendStringInfo(&s, "e%d", -scale);
		return s.data;
	}
	if (n > scale)
		appendBinaryStringInfo(&s, digits, n - scale);
	else
		appendStringInfoChar(&s, '0');
	appendStringInfoChar(&s, '.');
	for (int i = n; i < scale; i++)
		appendStringInfoChar(&s, '0');
	appendStringInfoString(&s, n > scale ? digits + n - scale : digits);
	return s.data;
}

/* The scale that a numeric column is declared with. */
static int
declared_scale(const CdcDecoder *d)
{
	if (d->taker == CDC_TAKES_MONEY)
		return MONEY_SCALE;
	if (d->taker != CDC_TAKES_NUMERIC)
		return 0;
	if (d->typmod < (int32) VARHDRSZ)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("the scale of a decimal is not known"),
				 errhint("Declare the column with the source's precision and scale, land events with their schema, or use decimal.handling.mode=string and decimals => 'string'.")));
	/* 11 bits with a sign, as numeric_in has it */
	return (((d->typmod - (int32) VARHDRSZ) & 0x7ff) ^ 1024) - 1024;
}

/* {"scale":3,"value":"MDk="} */
static char *
variable_scale(const CdcDecoder *d, const JsonbValue *value)
{
	JsonbValue	scale;
	JsonbValue	unscaled;
	int64		number;
	char	   *bytes;
	int			len;

	if (!cdc_json_get(value->val.binary.data, "scale", &scale) ||
		!cdc_json_get(value->val.binary.data, "value", &unscaled) ||
		!cdc_json_int64(&scale, &number) || number < PG_INT32_MIN || number > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("an object that is to be a number has no \"scale\" and \"value\"")));
	bytes = need_base64(d, &unscaled, &len);
	return decimal_text(bytes, len, (int) number);
}

/* Without a fraction of zeros, which no integer type reads. */
static char *
whole_text(char *text)
{
	char	   *point = strchr(text, '.');

	if (point != NULL && strspn(point + 1, "0") == strlen(point + 1))
		*point = '\0';
	return text;
}

/* Debezium's words for infinite numbers in the server's (NAN is both's). */
static char *
number_word(char *text)
{
	if (strcmp(text, "POSITIVE_INFINITY") == 0)
		return "Infinity";
	if (strcmp(text, "NEGATIVE_INFINITY") == 0)
		return "-Infinity";
	return text;
}

/* A number as the text that the target's type reads. */
char *
cdc_decode_number(CdcDecoder *d, const JsonbValue *value, const CdcField *field)
{
	bool		exact = d->modes.decimals == CDC_DECIMALS_PRECISE && d->taker != CDC_TAKES_FLOAT;
	char	   *text;
	char	   *bytes;
	int			len;

	if (field != NULL)
		exact = field->meaning == CDC_MEANS_DECIMAL && !field->is_text;
	if (value->type == jbvNumeric)
		text = cdc_json_text(value);
	else if (cdc_json_is_object(value))
		text = variable_scale(d, value);
	else if (value->type == jbvBool)
		return value->val.boolean ? "1" : "0";
	else if (value->type == jbvString && exact)
	{
		bytes = need_base64(d, value, &len);
		text = decimal_text(bytes, len, field != NULL ? field->scale : declared_scale(d));
	}
	else
		text = number_word(cdc_json_text(value));
	return d->taker == CDC_TAKES_INTEGER ? whole_text(text) : text;
}

/*
 * Money: what is a number to JSON is none to money's input function, which
 * reads points and commas as lc_monetary has them.
 */
Datum
cdc_decode_money(CdcDecoder *d, const JsonbValue *value, const CdcField *field)
{
	char	   *text = cdc_decode_number(d, value, field);
	Datum		number;

	if (text[0] == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0')
		return cdc_decode_input(d, text);
	number = DirectFunctionCall3(numeric_in, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid),
								 Int32GetDatum(-1));
	return DirectFunctionCall1(numeric_cash, number);
}
