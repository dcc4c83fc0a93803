/*-------------------------------------------------------------------------
 *
 * cdc_history_query.c
 *		The texts of the queries that find and write what a batch changes in a
 *		history.
 *
 * The query over changes, step by step (names as in it):
 *
 *	inc		the batch: of each key and position one event, by rank
 *	areas	from the first to the last position that is new, of each key; also
 *			of the keys with a version that a new truncate ends
 *	bounds	the part of the key's history that may change: from the version
 *			that begins below it to the first boundary that stays, whatever
 *			happens below.  An event above the area that carries all columns,
 *			or is a delete, stops values from going on; whether it makes a
 *			version of its own may change, and so its version ends at the next
 *			boundary (plain: it is one itself)
 *	rows, sides		versions and remembered events in there
 *	stored	the same as events (H1)
 *	same	events of the batch whose position is stored: do they differ?
 *	met		both together, of each position the one that counts
 *	filled	the values that an event does not carry, from the last event of the
 *			key's life that does (images only)
 *	begun	which events begin a version
 *	told	each with its version and what comes next
 *	newv, news		what history and events table are to hold (H2, H3)
 *
 * It runs with a search_path of pg_catalog alone; operators of keys and of
 * positions are named with their schemas.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_operator.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "cdc_history.h"

/* what stands at one position, the one that counts first */
#define PRIO_TRUNCATE	0
#define PRIO_REWRITE	1
#define PRIO_STORED		2
#define PRIO_UPSERT		3
#define PRIO_DEAD		4
#define PRIO_OTHER		5

/* ---------- pieces ---------- */

static const char *
column(CdcHistory *h, int i)
{
	return quote_identifier(h->cols.cols[i].name);
}

/* "a", "b" .. : prefix.k1, prefix.k2 ..; each followed by after, between them a comma */
static char *
numbered(const char *prefix, char letter, int n, const char *after)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 1; i <= n; i++)
		appendStringInfo(&s, "%s%s%c%d%s", i > 1 ? ", " : "", prefix, letter, i, after);
	return s.data;
}

char *
cdc_history_key_list(CdcHistory *h, const char *prefix)
{
	return numbered(prefix, 'k', h->target.nkeys, "");
}

/* ", c1, c2 ..", nothing without columns */
char *
cdc_history_column_list(CdcHistory *h, const char *prefix)
{
	return psprintf("%s%s", h->cols.ncols > 0 ? ", " : "", numbered(prefix, 'c', h->cols.ncols, ""));
}

/* The columns' names, each with what it is called in the queries. */
static char *
named_columns(CdcHistory *h, const char *alias, Oid relid, const bool *there)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < h->cols.ncols; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(h->rel), h->cols.cols[i].attno - 1);
		int32		typmod = att->atttypmod;
		Oid			base = getBaseTypeAndTypmod(att->atttypid, &typmod);
		char	   *type = format_type_extended(base, typmod, FORMAT_TYPE_TYPEMOD_GIVEN |
												FORMAT_TYPE_FORCE_QUALIFY);

		/* rows are compared by their types, too: those of all branches are the base types */
		if (there != NULL && !there[i])
			appendStringInfo(&s, ", NULL::%s AS c%d", type, i + 1);
		else if (get_atttype(relid, get_attnum(relid, h->cols.cols[i].name)) != base)
			appendStringInfo(&s, ", %s.%s::%s AS c%d", alias, column(h, i), type, i + 1);
		else
			appendStringInfo(&s, ", %s.%s AS c%d", alias, column(h, i), i + 1);
	}
	return s.data;
}

/* ", NULL AS c1 .." in the columns' types */
static char *
no_columns(CdcHistory *h)
{
	bool	   *none = palloc0(sizeof(bool) * (h->cols.ncols + 1));

	return named_columns(h, "", InvalidOid, none);
}

/* ", NULL" n times */
static char *
nulls(int n)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < n; i++)
		appendStringInfoString(&s, ", NULL");
	return s.data;
}

static char *
named_keys(CdcHistory *h, const char *alias)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < h->target.nkeys; i++)
		appendStringInfo(&s, "%s%s.%s AS k%d", i > 0 ? ", " : "", alias,
						 quote_identifier(h->target.keys[i].name), i + 1);
	return s.data;
}

/* The key's own equality operator. */
static char *
equal_operator(const CdcKey *key)
{
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(key->equal_op));
	Form_pg_operator form;
	char	   *text;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", key->equal_op);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	text = psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(form->oprnamespace)),
					NameStr(form->oprname));
	ReleaseSysCache(tuple);
	return text;
}

/*
 * The keys of two relations are equal, each by its columns' names or as the
 * queries number them.
 */
char *
cdc_history_keys(CdcHistory *h, const char *left, bool left_named, const char *right,
				 bool right_named)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < h->target.nkeys; i++)
	{
		const char *name = quote_identifier(h->target.keys[i].name);
		char	   *number = psprintf("k%d", i + 1);

		appendStringInfo(&s, "%s%s.%s %s %s.%s", i > 0 ? " AND " : "", left,
						 left_named ? name : number, equal_operator(&h->target.keys[i]), right,
						 right_named ? name : number);
	}
	return s.data;
}

/* The first column of the events table's key: NULL in a truncate. */
static const char *
first_key(CdcHistory *h)
{
	return quote_identifier(h->target.keys[0].name);
}

static char *
history(CdcHistory *h)
{
	return cdc_quoted_relation(h->target.relid);
}

static char *
events(CdcHistory *h)
{
	return cdc_quoted_relation(h->record.events);
}

static const char *
times(CdcHistory *h, const char *with)
{
	return h->has_times ? with : "NULL::timestamptz AS from_at, NULL::timestamptz AS to_at";
}

/* Does the event at hand carry column i? */
static char *
carries(CdcHistory *h, int i)
{
	return psprintf("(gaps IS NULL OR anchor OR NOT %s = ANY (gaps))",
					quote_literal_cstr(h->cols.cols[i].name));
}

/* ---------- changes ---------- */

static void
add_batch(CdcHistory *h, StringInfo sql)
{
	const char *schema = cdc_sql_schema();

	appendStringInfo(sql,
					 "WITH inc AS MATERIALIZED (SELECT %s, n, pos, own, rank, counted, second, gaps, needs, at%s FROM ("
					 "SELECT e.*, row_number() OVER (PARTITION BY %s, pos ORDER BY rank DESC, own DESC NULLS LAST, "
					 "img USING OPERATOR(pg_catalog.*>), n) AS place "
					 "FROM (SELECT *, ROW(gaps%s) AS img FROM " CDC_INCOMING_NAME ") e) x WHERE place = 1),\n",
					 cdc_history_key_list(h, ""), cdc_history_column_list(h, ""), cdc_history_key_list(h, ""), cdc_history_column_list(h, ""));
	appendStringInfo(sql,
					 "newtrunc AS MATERIALIZED (SELECT DISTINCT ON (pos) pos, at FROM " CDC_TRUNCATES_NAME " t "
					 "WHERE NOT EXISTS (SELECT FROM %s s WHERE s.%s IS NULL AND s." CDC_EVENTS_OP " = 'truncate' "
					 "AND s." CDC_EVENTS_POSITION " %s t.pos) ORDER BY pos, at),\n",
					 events(h), first_key(h), POS("="));
	appendStringInfo(sql,
					 "trunc AS MATERIALIZED (SELECT s." CDC_EVENTS_POSITION " AS pos, s." CDC_EVENTS_AT " AS at FROM %s s "
					 "WHERE s.%s IS NULL AND s." CDC_EVENTS_OP " = 'truncate' UNION ALL TABLE newtrunc),\n",
					 events(h), first_key(h));
	appendStringInfo(sql,
					 "areas AS MATERIALIZED (SELECT %s, %s.min(lo) AS lo, %s.max(hi) AS hi FROM ("
					 "SELECT %s, pos AS lo, pos AS hi FROM inc UNION ALL "
					 "SELECT %s, t.pos, t.pos FROM newtrunc t JOIN %s h ON h." CDC_HISTORY_FROM " %s t.pos "
					 "AND (h." CDC_HISTORY_TO " IS NULL OR h." CDC_HISTORY_TO " %s t.pos)) u GROUP BY %s),\n",
					 cdc_history_key_list(h, ""), schema, schema, cdc_history_key_list(h, ""), named_keys(h, "h"), history(h),
					 POS("<="), POS(">"), cdc_history_key_list(h, ""));
}

/* The least position above edge of the events that a condition names. */
static char *
next_side(CdcHistory *h, const char *edge, const char *condition)
{
	return psprintf("SELECT * FROM (SELECT s." CDC_EVENTS_POSITION " AS p FROM %s s WHERE %s AND s."
					CDC_EVENTS_POSITION " %s a.%s%s ORDER BY s." CDC_EVENTS_POSITION " LIMIT 1) x",
					events(h), cdc_history_keys(h, "s", true, "a", false), POS(">"), edge, condition);
}

static char *
next_version(CdcHistory *h, const char *edge, const char *condition)
{
	return psprintf("SELECT * FROM (SELECT h." CDC_HISTORY_FROM " AS p FROM %s h WHERE %s AND h."
					CDC_HISTORY_FROM " %s a.%s%s ORDER BY h." CDC_HISTORY_FROM " LIMIT 1) x",
					history(h), cdc_history_keys(h, "h", true, "a", false), POS(">"), edge, condition);
}

static char *
next_truncate(const char *edge)
{
	return psprintf("SELECT %s.min(t.pos) AS p FROM trunc t WHERE t.pos %s a.%s", cdc_sql_schema(),
					POS(">"), edge);
}

/* Above every position, or equal to it: an end for index scans. */
static char *
greatest_position(void)
{
	CdcPosition p = {.kind = CDC_POSITION_NUMBER, .epoch = PG_UINT32_MAX, .nparts = CDC_POSITION_MAX_PARTS};
	char	   *text = palloc(CDC_POSITION_MAX_TEXT);

	for (int i = 0; i < CDC_POSITION_MAX_PARTS; i++)
		p.parts[i] = PG_UINT64_MAX;
	cdc_position_print(&p, text);
	return text;
}

static void
add_bounds(CdcHistory *h, StringInfo sql)
{
	const char *schema = cdc_sql_schema();
	char	   *whole = psprintf(" AND NOT EXISTS (SELECT FROM %s g WHERE %s AND g." CDC_EVENTS_POSITION
								 " %s h." CDC_HISTORY_FROM " AND g." CDC_EVENTS_GAPS " IS NOT NULL)",
								 events(h), cdc_history_keys(h, "g", true, "a", false), POS("="));
	char	   *hard = psprintf("(SELECT %s.min(u.p) FROM (%s UNION ALL %s UNION ALL %s) u)", schema,
								next_version(h, "hi", h->images ? whole : ""),
								next_side(h, "hi", " AND s." CDC_EVENTS_GAPS " IS NULL"),
								next_truncate("hi"));

	appendStringInfo(sql,
					 "edges AS (SELECT a.*, coalesce(a.below, a.lo) AS low, %s AS high FROM ("
					 "SELECT a.*, (SELECT h." CDC_HISTORY_FROM " FROM %s h WHERE %s AND h." CDC_HISTORY_FROM
					 " %s a.lo ORDER BY h." CDC_HISTORY_FROM " DESC LIMIT 1) AS below, %s AS hard FROM areas a) a),\n"
					 "bounds AS MATERIALIZED (SELECT *, coalesce(high, '%s'::%s.cdc_position) AS upper FROM edges),\n",
					 !h->images ? "a.hard" :
					 psprintf("(SELECT %s.min(u.p) FROM (%s UNION ALL %s UNION ALL %s) u)", schema,
							  next_version(h, "hard", ""),
							  next_side(h, "hard", " AND s." CDC_EVENTS_OP " = 'delete'"),
							  next_truncate("hard")),
					 history(h), cdc_history_keys(h, "h", true, "a", false), POS("<"), hard, greatest_position(),
					 schema);
}

static void
add_stored(CdcHistory *h, StringInfo sql)
{
	/* OFFSET 0: key by key through the index, however many keys the planner expects */
	char	   *within = psprintf("%%s %s b.low AND %%s %s b.upper", POS(">="), POS("<="));

#define WITHIN(what) psprintf(within, what, what)
	appendStringInfo(sql,
					 "rows AS MATERIALIZED (SELECT %s, h." CDC_HISTORY_FROM " AS pos, h." CDC_HISTORY_TO " AS valid_to, %s%s, "
					 "b.below IS NOT NULL AND h." CDC_HISTORY_FROM " %s b.low AS anchor, "
					 "b.high IS NOT NULL AND h." CDC_HISTORY_FROM " %s b.high AS sentinel "
					 "FROM bounds b CROSS JOIN LATERAL (SELECT * FROM %s h WHERE %s AND %s OFFSET 0) h),\n",
					 named_keys(h, "h"),
					 times(h, "h." CDC_HISTORY_FROM_AT " AS from_at, h." CDC_HISTORY_TO_AT " AS to_at"),
					 named_columns(h, "h", h->target.relid, NULL), POS("="), POS("="), history(h),
					 cdc_history_keys(h, "h", true, "b", false), WITHIN("h." CDC_HISTORY_FROM));
	appendStringInfo(sql,
					 "sides AS MATERIALIZED (SELECT %s, s." CDC_EVENTS_POSITION " AS pos, s." CDC_EVENTS_OP " = 'delete' AS dead, "
					 "s." CDC_EVENTS_GAPS " AS gaps, s." CDC_EVENTS_AT " AS at%s, "
					 "b.below IS NOT NULL AND s." CDC_EVENTS_POSITION " %s b.low AS anchor, "
					 "b.high IS NOT NULL AND s." CDC_EVENTS_POSITION " %s b.high AS sentinel "
					 "FROM bounds b CROSS JOIN LATERAL (SELECT * FROM %s s WHERE %s AND %s OFFSET 0) s),\n",
					 named_keys(h, "s"), named_columns(h, "s", h->record.events, h->image_in_events), POS("="), POS("="),
					 events(h), cdc_history_keys(h, "s", true, "b", false),
					 WITHIN("s." CDC_EVENTS_POSITION));
	appendStringInfo(sql,
					 "stored AS MATERIALIZED (SELECT %s, pos, %d AS prio, false AS dead, NULL::text[] AS gaps, from_at AS at, anchor, sentinel%s FROM rows r",
					 cdc_history_key_list(h, ""), PRIO_STORED, cdc_history_column_list(h, ""));
	if (h->images)
		appendStringInfo(sql, " WHERE NOT EXISTS (SELECT FROM sides s WHERE %s AND s.pos %s r.pos AND NOT s.dead)",
						 cdc_history_keys(h, "s", false, "r", false), POS("="));
	appendStringInfo(sql,
					 " UNION ALL SELECT %s, pos, CASE WHEN dead THEN %d ELSE %d END, dead, gaps, at, anchor, sentinel%s FROM sides"
					 " UNION ALL SELECT %s, t.pos, %d, true, NULL, t.at, false, b.high IS NOT NULL AND t.pos %s b.high%s "
					 "FROM bounds b JOIN trunc t ON %s),\n",
					 cdc_history_key_list(h, ""), PRIO_DEAD, PRIO_STORED, cdc_history_column_list(h, ""), cdc_history_key_list(h, "b."), PRIO_TRUNCATE,
					 POS("="), no_columns(h), WITHIN("t.pos"));
#undef WITHIN
}

/* Do events of the batch differ from what is stored at their positions, and where first? */
static void
add_same(CdcHistory *h, StringInfo sql)
{
	StringInfoData first;

	initStringInfo(&first);
	for (int i = 0; i < h->cols.ncols; i++)
		appendStringInfo(&first, " WHEN NOT coalesce(%s = ANY (i.gaps), false) AND ROW(i.c%d)::record OPERATOR(pg_catalog.*<>) ROW(s.c%d)::record THEN %s",
						 quote_literal_cstr(h->cols.cols[i].name), i + 1, i + 1,
						 quote_literal_cstr(h->cols.cols[i].name));
	if (h->rule.on_same_position == CDC_SAME_KEEP || first.len == 0)
	{
		appendStringInfoString(sql, "same AS (SELECT NULL::int8 AS n, NULL::text AS differs WHERE false),\n");
		return;
	}
	appendStringInfo(sql,
					 "same AS MATERIALIZED (SELECT * FROM (SELECT i.n, CASE%s END AS differs FROM inc i JOIN stored s ON %s AND s.pos %s i.pos "
					 "WHERE NOT s.dead AND (i.rank = 3 OR (i.rank = 0 AND (i.own IS NULL OR i.own %s i.pos)))) x WHERE differs IS NOT NULL),\n",
					 first.data, cdc_history_keys(h, "s", false, "i", false), POS("="), POS("<>"));
}

static void
add_met(CdcHistory *h, StringInfo sql)
{
	appendStringInfo(sql,
					 "met AS MATERIALIZED (SELECT u.*, row_number() OVER w AS place, first_value(prio) OVER w AS best, "
					 "max(prio) FILTER (WHERE prio = %d) OVER p IS NOT NULL AS beside_dead FROM ("
					 "SELECT %s, pos, prio, dead, gaps, at, anchor, sentinel%s, NULL::int8 AS n, NULL::int4 AS rank, "
					 "false AS counted, false AS second, NULL::text[] AS needs, NULL::text AS differs FROM stored "
					 "UNION ALL SELECT %s, i.pos, CASE WHEN i.rank <> 3 THEN %d WHEN %s AND m.differs IS NOT NULL THEN %d ELSE %d END, "
					 "i.rank IN (1, 2), i.gaps, i.at, false, false%s, i.n, i.rank, i.counted, i.second, i.needs, m.differs "
					 "FROM inc i LEFT JOIN same m ON m.n = i.n AND i.counted) u "
					 "WINDOW p AS (PARTITION BY %s, pos), w AS (PARTITION BY %s, pos ORDER BY prio)),\n",
					 PRIO_DEAD, cdc_history_key_list(h, ""), cdc_history_column_list(h, ""), cdc_history_key_list(h, "i."), PRIO_OTHER,
					 h->rule.on_same_position == CDC_SAME_REWRITE ? "true" : "false", PRIO_REWRITE,
					 PRIO_UPSERT, cdc_history_column_list(h, "i."), cdc_history_key_list(h, ""), cdc_history_key_list(h, ""));
}

/* Values that events do not carry. */
static void
add_filled(CdcHistory *h, StringInfo sql)
{
	const char *schema = cdc_sql_schema();

	if (!h->images)
	{
		appendStringInfoString(sql, "filled AS (SELECT *, NULL::text AS missing FROM met WHERE place = 1),\n");
		return;
	}
	/* a number for each place, since a row may stand at no real position */
	appendStringInfo(sql,
					 "placed AS (SELECT *, %s.cdc_position_from_numbers((row_number() OVER w)::numeric) AS nth, "
					 "count(*) FILTER (WHERE dead) OVER w AS life FROM met WHERE place = 1 "
					 "WINDOW w AS (PARTITION BY %s ORDER BY pos)),\n", schema, cdc_history_key_list(h, ""));
	appendStringInfo(sql,
					 "filled AS (SELECT %s, pos, prio, dead, gaps, at, anchor, sentinel, n, rank, counted, second, best, beside_dead, differs",
					 cdc_history_key_list(h, ""));
	for (int i = 0; i < h->cols.ncols; i++)
		appendStringInfo(sql, ", CASE WHEN dead THEN NULL ELSE %s.latest_by_position(c%d, nth) FILTER (WHERE NOT dead AND %s) OVER l END AS c%d",
						 schema, i + 1, carries(h, i), i + 1);
	appendStringInfoString(sql, ", CASE");
	for (int i = 0; i < h->cols.ncols; i++)
		appendStringInfo(sql, " WHEN %s = ANY (needs) AND count(*) FILTER (WHERE NOT dead AND %s) OVER l = 0 THEN %s",
						 quote_literal_cstr(h->cols.cols[i].name), carries(h, i),
						 quote_literal_cstr(h->cols.cols[i].name));
	appendStringInfo(sql, " WHEN false THEN '' END AS missing FROM placed WINDOW l AS (PARTITION BY %s, life ORDER BY pos)),\n",
					 cdc_history_key_list(h, ""));
}

/* Tracked columns as one row. */
static char *
tracked(CdcHistory *h)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoString(&s, "ROW(");
	for (int i = 0; i < h->cols.ncols; i++)
		if (cdc_has_name(h->track, h->cols.cols[i].name))
			appendStringInfo(&s, "%sc%d", s.len > 4 ? ", " : "", i + 1);
	appendStringInfoChar(&s, ')');
	return s.data;
}

/* Versions out of events. */
static void
add_versions(CdcHistory *h, StringInfo sql)
{
	char	   *k = cdc_history_key_list(h, "");

	if (h->track == NIL)
		appendStringInfo(sql,
						 "told AS MATERIALIZED (SELECT *, NOT dead AS begins, true AS last, 1::int8 AS size, pos AS from_pos, at AS from_at, "
						 "lead(pos) OVER w AS next_pos, lead(at) OVER w AS next_at FROM filled "
						 "WINDOW w AS (PARTITION BY %s ORDER BY pos)),\n", k);
	else
		appendStringInfo(sql,
						 "begun AS (SELECT *, NOT dead AND (sentinel OR coalesce(lag(dead) OVER w, true) "
						 "OR %s OPERATOR(pg_catalog.*<>) lag(%s) OVER w) AS begins FROM filled WINDOW w AS (PARTITION BY %s ORDER BY pos)),\n"
						 "numbered AS (SELECT *, count(*) FILTER (WHERE begins) OVER w AS version, lead(pos) OVER w AS next_pos, lead(at) OVER w AS next_at, "
						 "coalesce(lead(begins OR dead) OVER w, true) AS last FROM begun WINDOW w AS (PARTITION BY %s ORDER BY pos)),\n"
						 "told AS MATERIALIZED (SELECT *, first_value(pos) OVER v AS from_pos, first_value(at) OVER v AS from_at, "
						 "count(*) FILTER (WHERE NOT dead) OVER (PARTITION BY %s, version) AS size FROM numbered "
						 "WINDOW v AS (PARTITION BY %s, version ORDER BY pos)),\n",
						 tracked(h), tracked(h), k, k, k, k);
	appendStringInfo(sql,
					 "newv AS (SELECT %s, from_pos AS pos, next_pos AS valid_to, %s%s FROM told WHERE NOT dead AND last AND NOT sentinel),\n"
					 "news AS (SELECT %s, pos, dead, gaps, at%s FROM told WHERE NOT sentinel AND prio <> %d AND (dead OR gaps IS NOT NULL OR size > 1))\n",
					 k, h->has_times ? "from_at, next_at AS to_at" : times(h, NULL), cdc_history_column_list(h, ""), k,
					 cdc_history_column_list(h, ""), PRIO_TRUNCATE);
}

/* One row of the changes that only counts, with an example where there is one. */
static void
add_count(CdcHistory *h, StringInfo sql, const char *what, const char *op, const char *from)
{
	appendStringInfo(sql,
					 "UNION ALL SELECT * FROM (SELECT %s, count(*) OVER (), %s, pos, NULL::%s.cdc_position, NULL::timestamptz, NULL::timestamptz, %s, NULL::text[]%s FROM %s LIMIT 1) x\n",
					 what, cdc_history_key_list(h, ""), cdc_sql_schema(), op, cdc_history_column_list(h, ""), from);
}

static void
add_changes(CdcHistory *h, StringInfo sql)
{
	char	   *equal = cdc_history_keys(h, "n", false, "o", false);
	StringInfoData k;

	initStringInfo(&k);
	for (int i = 1; i <= h->target.nkeys; i++)
		appendStringInfo(&k, "coalesce(n.k%d, o.k%d), ", i, i);
	appendStringInfo(sql,
					 "SELECT CASE WHEN o.pos IS NULL THEN %d WHEN n.pos IS NULL THEN %d WHEN ROW(%s)::record OPERATOR(pg_catalog.*<>) ROW(%s)::record THEN %d ELSE %d END AS what, "
					 "NULL::int8 AS n, %scoalesce(n.pos, o.pos) AS pos, n.valid_to, n.from_at, n.to_at, NULL::text AS op, NULL::text[] AS gaps%s "
					 "FROM newv n FULL JOIN (SELECT * FROM rows WHERE NOT sentinel) o ON %s AND n.pos %s o.pos "
					 "WHERE n.pos IS NULL OR o.pos IS NULL OR ROW(n.valid_to, n.from_at, n.to_at%s)::record OPERATOR(pg_catalog.*<>) ROW(o.valid_to, o.from_at, o.to_at%s)::record\n",
					 CHANGE_INSERT_VERSION, CHANGE_DELETE_VERSION, numbered("n.", 'c', h->cols.ncols, ""),
					 numbered("o.", 'c', h->cols.ncols, ""), CHANGE_UPDATE_VERSION,
					 CHANGE_CLOSE_VERSION, k.data, cdc_history_column_list(h, "n."), equal, POS("="), cdc_history_column_list(h, "n."),
					 cdc_history_column_list(h, "o."));
	appendStringInfo(sql,
					 "UNION ALL SELECT CASE WHEN o.pos IS NULL THEN %d WHEN n.pos IS NULL THEN %d ELSE %d END, NULL, %scoalesce(n.pos, o.pos), NULL, n.at, NULL, "
					 "CASE WHEN n.dead THEN 'delete' ELSE 'upsert' END, n.gaps%s "
					 "FROM news n FULL JOIN (SELECT * FROM sides WHERE NOT sentinel) o ON %s AND n.pos %s o.pos "
					 "WHERE n.pos IS NULL OR o.pos IS NULL OR ROW(n.dead, n.gaps, n.at%s)::record OPERATOR(pg_catalog.*<>) ROW(o.dead, o.gaps, o.at%s)::record\n",
					 CHANGE_INSERT_EVENT, CHANGE_DELETE_EVENT, CHANGE_UPDATE_EVENT, k.data,
					 cdc_history_column_list(h, "n."), equal, POS("="), h->images ? cdc_history_column_list(h, "n.") : "",
					 h->images ? cdc_history_column_list(h, "o.") : "");
	appendStringInfo(sql, "UNION ALL SELECT %d, NULL%s, pos, NULL, at, NULL, 'truncate', NULL%s FROM newtrunc\n",
					 CHANGE_INSERT_TRUNCATE, nulls(h->target.nkeys), no_columns(h));
	appendStringInfo(sql,
					 "UNION ALL SELECT what, count(*)%s, NULL, NULL, NULL, NULL, NULL, NULL%s FROM ("
					 "SELECT CASE WHEN prio = %d THEN %d WHEN dead THEN %d WHEN begins THEN %d ELSE %d END AS what FROM told WHERE n IS NOT NULL AND counted "
					 "UNION ALL SELECT CASE WHEN best = %d THEN %d ELSE %d END FROM met WHERE place > 1 AND n IS NOT NULL AND counted) x GROUP BY what\n",
					 nulls(h->target.nkeys), no_columns(h), PRIO_REWRITE, CHANGE_COUNTED + CDC_UPDATED,
					 CHANGE_COUNTED + CDC_DELETED, CHANGE_COUNTED + CDC_INSERTED,
					 CHANGE_COUNTED + CDC_UPDATED, PRIO_TRUNCATE, CHANGE_COUNTED + CDC_STALE,
					 CHANGE_COUNTED + CDC_DUPLICATE);
}

/*
 * The whole query.  Its columns: what, n, the keys, pos, valid_to, from_at,
 * to_at, op, gaps, the columns.
 */
char *
cdc_history_changes_query(CdcHistory *h)
{
	StringInfoData sql;

	initStringInfo(&sql);
	add_batch(h, &sql);
	add_bounds(h, &sql);
	add_stored(h, &sql);
	add_same(h, &sql);
	add_met(h, &sql);
	add_filled(h, &sql);
	add_versions(h, &sql);
	add_changes(h, &sql);
	add_count(h, &sql, psprintf("%d", CHANGE_DIFFERS), "differs", "met WHERE differs IS NOT NULL AND best <> 0");
	add_count(h, &sql, psprintf("%d", CHANGE_CROSSED), "NULL::text",
			  psprintf("met WHERE n IS NOT NULL AND NOT second AND ((place = 1 AND prio = %d AND beside_dead) OR (rank = 2 AND best IN (%d, %d)))",
					   PRIO_UPSERT, PRIO_REWRITE, PRIO_STORED));
	add_count(h, &sql, psprintf("%d", CHANGE_UNAVAILABLE), "missing", "filled WHERE missing IS NOT NULL");
	return sql.data;
}
