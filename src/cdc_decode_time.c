/*-------------------------------------------------------------------------
 *
 * cdc_decode_time.c
 *		Dates, times and intervals of raw events.
 *
 * They come as numbers since 1970, whose unit the schema names, or as ISO 8601
 * texts.  Without a schema a number's unit follows from the view's mode and,
 * as in the connectors' adaptive mode, from the precision of the column: up to
 * 3 digits are milliseconds, more are microseconds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"

#include "cdc_decode.h"

#define EPOCH_DAYS		(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE)
#define EPOCH_MICROS	((int64) EPOCH_DAYS * USECS_PER_DAY)

/*
 * What Debezium makes of infinity: the numbers that the server's JDBC driver
 * has for it, as milliseconds, or taken for microseconds; for dates the two
 * days that they overflow to (the positive one is the lower), and two others
 * in the rows of a snapshot.
 */
#define INFINITY_NUMBER			INT64CONST(9223372036825200000)
#define MINUS_INFINITY_NUMBER	INT64CONST(-9223372036832400000)
#define INFINITY_DAYS			INT64CONST(-2147472692)
#define MINUS_INFINITY_DAYS		INT64CONST(-2147472691)
#define SNAPSHOT_INFINITY_DAYS			INT64CONST(-622191234)
#define SNAPSHOT_MINUS_INFINITY_DAYS	INT64CONST(-625821272)

typedef enum MomentKind
{
	MOMENT_DAY, MOMENT_TIME, MOMENT_STAMP, MOMENT_DURATION
} MomentKind;

/* A point or span of time, apart from any type of the server. */
typedef struct Moment
{
	MomentKind	kind;
	int			infinite;		/* -1, 0, 1 */
	int64		value;			/* days since 1970; else microseconds, since 1970 for a stamp */
} Moment;

static void
refuse_range(const CdcDecoder *d)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("date or time out of range for type %s", format_type_be(d->base))));
}

/* ---------- numbers ---------- */

/* What a number means, ITSELF if nobody says. */
static CdcMeaning
meaning_of_number(const CdcDecoder *d, const CdcField *field)
{
	bool		millis = d->modes.times == CDC_TIMES_CONNECT ||
		(d->typmod >= 0 && d->typmod <= 3);

	if (field != NULL)
		return field->meaning;
	if (d->taker == CDC_TAKES_INTERVAL)
		return CDC_MEANS_DURATION_MICROS;
	if (d->modes.times == CDC_TIMES_ISO)
		return CDC_MEANS_ITSELF;
	switch (d->taker)
	{
		case CDC_TAKES_DATE:
			return CDC_MEANS_DATE;
		case CDC_TAKES_TIME:
		case CDC_TAKES_TIMETZ:
			return millis ? CDC_MEANS_TIME_MILLIS : CDC_MEANS_TIME_MICROS;
		case CDC_TAKES_STAMP:
		case CDC_TAKES_STAMPTZ:
			return millis ? CDC_MEANS_STAMP_MILLIS : CDC_MEANS_STAMP_MICROS;
		default:
			return CDC_MEANS_ITSELF;
	}
}

/* Nanoseconds as microseconds, to the nearest as the server rounds. */
static int64
micros_of_nanos(int64 nanos)
{
	int64		rest = nanos % 1000;

	return nanos / 1000 + (rest >= 500) - (rest < -500);
}

static int64
micros_of_millis(const CdcDecoder *d, int64 millis)
{
	int64		micros;

	if (pg_mul_s64_overflow(millis, 1000, &micros))
		refuse_range(d);
	return micros;
}

static int
infinity_of(CdcMeaning meaning, int64 number)
{
	switch (meaning)
	{
		case CDC_MEANS_DATE:
			return (number == INFINITY_DAYS || number == SNAPSHOT_INFINITY_DAYS) -
				(number == MINUS_INFINITY_DAYS || number == SNAPSHOT_MINUS_INFINITY_DAYS);
		case CDC_MEANS_STAMP_MICROS:
			return (number == INFINITY_NUMBER) - (number == MINUS_INFINITY_NUMBER);
		case CDC_MEANS_STAMP_MILLIS:
			return (number == INFINITY_NUMBER || number == INFINITY_NUMBER / 1000) -
				(number == MINUS_INFINITY_NUMBER || number == MINUS_INFINITY_NUMBER / 1000);
		default:
			return 0;
	}
}

/* False: the number means itself. */
static bool
moment_of_number(const CdcDecoder *d, const CdcField *field, int64 number, Moment *m)
{
	CdcMeaning	meaning = meaning_of_number(d, field);

	m->infinite = infinity_of(meaning, number);
	m->value = number;
	switch (meaning)
	{
		case CDC_MEANS_DATE:
			m->kind = MOMENT_DAY;
			break;
		case CDC_MEANS_TIME_MILLIS:
		case CDC_MEANS_TIME_MICROS:
		case CDC_MEANS_TIME_NANOS:
			m->kind = MOMENT_TIME;
			break;
		case CDC_MEANS_STAMP_MILLIS:
		case CDC_MEANS_STAMP_MICROS:
		case CDC_MEANS_STAMP_NANOS:
			m->kind = MOMENT_STAMP;
			break;
		case CDC_MEANS_DURATION_MICROS:
		case CDC_MEANS_DURATION_NANOS:
			m->kind = MOMENT_DURATION;
			break;
		default:
			return false;
	}
	if (m->infinite != 0)
		return true;
	if (meaning == CDC_MEANS_TIME_MILLIS || meaning == CDC_MEANS_STAMP_MILLIS)
		m->value = micros_of_millis(d, number);
	else if (meaning == CDC_MEANS_TIME_NANOS || meaning == CDC_MEANS_STAMP_NANOS ||
			 meaning == CDC_MEANS_DURATION_NANOS)
		m->value = micros_of_nanos(number);
	return true;
}

/* ---------- texts ---------- */

/* Exactly n digits at *s. */
static bool
take_digits(const char **s, int n, int *value)
{
	*value = 0;
	for (int i = 0; i < n; i++)
	{
		if ((*s)[i] < '0' || (*s)[i] > '9')
			return false;
		*value = *value * 10 + (*s)[i] - '0';
	}
	*s += n;
	return true;
}

static bool
take_char(const char **s, char c)
{
	if (**s != c)
		return false;
	(*s)++;
	return true;
}

/* "[+-]YYYY-MM-DD" as days since 1970; the year 0 is 1 BC. */
static bool
take_day(const char **s, int64 *days)
{
	bool		negative = **s == '-';
	int			digits;
	int			year;
	int			month;
	int			day;

	if (negative || **s == '+')
		(*s)++;
	digits = strspn(*s, "0123456789");
	if (digits < 4 || digits > 7 || !take_digits(s, digits, &year) || !take_char(s, '-') ||
		!take_digits(s, 2, &month) || !take_char(s, '-') || !take_digits(s, 2, &day))
		return false;
	if (negative)
		year = -year;
	if (month < 1 || month > 12 || day < 1 || day > day_tab[isleap(year)][month - 1] ||
		!IS_VALID_JULIAN(year, month, day))
		return false;
	*days = date2j(year, month, day) - UNIX_EPOCH_JDATE;
	return true;
}

/* "HH:MM[:SS[.fraction]]" as microseconds */
static bool
take_time(const char **s, int64 *micros)
{
	int			hour;
	int			minute;
	int			second = 0;
	int64		nanos = 0;
	int64		unit = INT64CONST(100000000);

	if (!take_digits(s, 2, &hour) || !take_char(s, ':') || !take_digits(s, 2, &minute))
		return false;
	if (take_char(s, ':') && !take_digits(s, 2, &second))
		return false;
	if (take_char(s, '.'))
		for (; **s >= '0' && **s <= '9'; (*s)++, unit /= 10)
			nanos += (**s - '0') * unit;
	if (hour > 24 || minute > 59 || second > 60 ||
		(hour == 24 && (minute != 0 || second != 0 || nanos != 0)))
		return false;
	*micros = ((int64) hour * 3600 + minute * 60 + second) * USECS_PER_SEC + micros_of_nanos(nanos);
	return true;
}

/* "Z" or "+HH[:MM[:SS]]" as microseconds east of UTC; nothing is UTC. */
static bool
take_zone(const char **s, int64 *east)
{
	int			sign = **s == '-' ? -1 : 1;
	int			hour;
	int			minute = 0;
	int			second = 0;

	*east = 0;
	if (**s == '\0' || take_char(s, 'Z'))
		return true;
	if ((**s != '+' && **s != '-'))
		return false;
	(*s)++;
	if (!take_digits(s, 2, &hour))
		return false;
	if (take_char(s, ':') && !take_digits(s, 2, &minute))
		return false;
	if (take_char(s, ':') && !take_digits(s, 2, &second))
		return false;
	if (hour > MAX_TZDISP_HOUR || minute > 59 || second > 59)
		return false;
	*east = sign * ((int64) hour * 3600 + minute * 60 + second) * USECS_PER_SEC;
	return true;
}

static bool
starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Infinity in a text: the years that the numbers above are. */
static int
infinity_of_text(const char *s)
{
	if (starts_with(s, "+292278994-08-16T23:00:00") || starts_with(s, "+292278994-08-16Z") ||
		starts_with(s, "+294247-01-10T04:00:25.2") ||
		starts_with(s, "-5877611-06-21"))
		return 1;
	if (starts_with(s, "-292275055-05-16T23:00:00") || starts_with(s, "+292269055-12-02Z") ||
		starts_with(s, "-290308-12-21T19:59:27.6") ||
		starts_with(s, "-5877611-06-22"))
		return -1;
	return 0;
}

/* A date, or a date and time, in ISO 8601; false for any other text. */
static bool
moment_of_text(const char *s, Moment *m)
{
	int64		micros;
	int64		east;

	m->infinite = infinity_of_text(s);
	m->kind = strchr(s, 'T') != NULL ? MOMENT_STAMP : MOMENT_DAY;
	m->value = 0;
	if (m->infinite != 0)
		return true;
	if (!take_day(&s, &m->value))
		return false;
	if (m->kind == MOMENT_DAY)
	{
		(void) take_char(&s, 'Z');
		return *s == '\0';
	}
	if (!take_char(&s, 'T') || !take_time(&s, &micros) || !take_zone(&s, &east) || *s != '\0')
		return false;
	/* within take_day's range this is far from an overflow of days, not of microseconds */
	return !pg_mul_s64_overflow(m->value, USECS_PER_DAY, &m->value) &&
		!pg_add_s64_overflow(m->value, micros - east, &m->value);
}

/* ---------- the column's type ---------- */

static Timestamp
stamp_of(const CdcDecoder *d, const Moment *m)
{
	Timestamp	stamp = m->value;

	if (m->infinite > 0)
		return DT_NOEND;
	if (m->infinite < 0)
		return DT_NOBEGIN;
	if ((m->kind == MOMENT_DAY && pg_mul_s64_overflow(m->value, USECS_PER_DAY, &stamp)) ||
		pg_sub_s64_overflow(stamp, EPOCH_MICROS, &stamp) || !IS_VALID_TIMESTAMP(stamp))
		refuse_range(d);
	return stamp;
}

static DateADT
date_of(const CdcDecoder *d, const Moment *m)
{
	int64		days = m->value;

	if (m->infinite > 0)
		return DATEVAL_NOEND;
	if (m->infinite < 0)
		return DATEVAL_NOBEGIN;
	if (m->kind == MOMENT_STAMP)
		days = m->value / USECS_PER_DAY - (m->value % USECS_PER_DAY < 0);
	days -= EPOCH_DAYS;
	if (days < PG_INT32_MIN || days > PG_INT32_MAX || !IS_VALID_DATE(days))
		refuse_range(d);
	return (DateADT) days;
}

static TimeADT
time_of(const CdcDecoder *d, const Moment *m)
{
	int64		micros = m->value;

	if (m->kind == MOMENT_STAMP)
		micros = (micros % USECS_PER_DAY + USECS_PER_DAY) % USECS_PER_DAY;
	if (micros < 0 || micros > USECS_PER_DAY || m->infinite != 0)
		refuse_range(d);
	return micros;
}

static Datum
interval_of(const CdcDecoder *d, const Moment *m)
{
	Interval   *span = palloc0(sizeof(Interval));

	if (m->kind == MOMENT_DAY || m->kind == MOMENT_STAMP)
		refuse_range(d);
	span->time = m->value;
	return IntervalPGetDatum(span);
}

/* As the server would print it with DateStyle ISO. */
static char *
text_of(const CdcDecoder *d, const Moment *m)
{
	char	   *buf = palloc(MAXDATELEN + 1);
	struct pg_tm tm;
	fsec_t		fsec;
	DateADT		date;

	if (m->infinite != 0)
		return m->infinite > 0 ? "infinity" : "-infinity";
	memset(&tm, 0, sizeof(tm));
	switch (m->kind)
	{
		case MOMENT_DAY:
			date = date_of(d, m);
			j2date(date + POSTGRES_EPOCH_JDATE, &tm.tm_year, &tm.tm_mon, &tm.tm_mday);
			EncodeDateOnly(&tm, USE_ISO_DATES, buf);
			return buf;
		case MOMENT_TIME:
			time2tm(time_of(d, m), &tm, &fsec);
			EncodeTimeOnly(&tm, fsec, false, 0, USE_ISO_DATES, buf);
			return buf;
		case MOMENT_STAMP:
			if (timestamp2tm(stamp_of(d, m), NULL, &tm, &fsec, NULL, NULL) != 0)
				refuse_range(d);
			EncodeDateTime(&tm, fsec, false, 0, NULL, USE_ISO_DATES, buf);
			return buf;
		case MOMENT_DURATION:
			break;
	}
	return DatumGetCString(DirectFunctionCall1(interval_out, interval_of(d, m)));
}

static Datum
to_type(CdcDecoder *d, const Moment *m)
{
	TimeTzADT  *timetz;

	switch (d->taker)
	{
		case CDC_TAKES_DATE:
			if (m->kind == MOMENT_TIME || m->kind == MOMENT_DURATION)
				break;
			return DateADTGetDatum(date_of(d, m));
		case CDC_TAKES_STAMP:
		case CDC_TAKES_STAMPTZ:
			if (m->kind == MOMENT_TIME || m->kind == MOMENT_DURATION)
				break;
			return DirectFunctionCall2(timestamp_scale, TimestampGetDatum(stamp_of(d, m)),
									   Int32GetDatum(d->typmod));
		case CDC_TAKES_TIME:
			if (m->kind == MOMENT_DAY)
				break;
			return DirectFunctionCall2(time_scale, TimeADTGetDatum(time_of(d, m)),
									   Int32GetDatum(d->typmod));
		case CDC_TAKES_TIMETZ:
			if (m->kind == MOMENT_DAY)
				break;
			timetz = palloc0(sizeof(TimeTzADT));
			timetz->time = time_of(d, m);
			return DirectFunctionCall2(timetz_scale, TimeTzADTPGetDatum(timetz),
									   Int32GetDatum(d->typmod));
		case CDC_TAKES_INTERVAL:
			return DirectFunctionCall2(interval_scale, interval_of(d, m), Int32GetDatum(d->typmod));
		default:
			break;
	}
	return cdc_decode_input(d, text_of(d, m));
}

static bool
is_temporal(CdcTaker taker)
{
	return taker >= CDC_TAKES_DATE && taker <= CDC_TAKES_INTERVAL;
}

/* False if neither the value nor the column is one of time: nothing was done. */
bool
cdc_decode_time(CdcDecoder *d, const JsonbValue *value, const CdcField *field, Datum *result)
{
	Moment		m;
	int64		number;
	char	   *text;

	if (value->type == jbvNumeric)
	{
		if (cdc_json_int64(value, &number) && moment_of_number(d, field, number, &m))
		{
			*result = to_type(d, &m);
			return true;
		}
		if (is_temporal(d->taker))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_DATETIME_FORMAT),
					 errmsg("a number that is to be of type %s has no known unit",
							format_type_be(d->base))));
		return false;
	}
	if (value->type != jbvString || !is_temporal(d->taker) || d->taker == CDC_TAKES_INTERVAL)
		return false;
	text = cdc_json_text(value);
	if (d->taker == CDC_TAKES_TIME && text[0] != '\0' && text[strlen(text) - 1] == 'Z')
		text[strlen(text) - 1] = '\0';
	if (d->taker != CDC_TAKES_TIME && d->taker != CDC_TAKES_TIMETZ && moment_of_text(text, &m))
		*result = to_type(d, &m);
	else
		*result = cdc_decode_input(d, text);
	return true;
}
