/*-------------------------------------------------------------------------
 *
 * cdc_history_sql.c
 *		The texts of the other queries over a history: the one that looks for
 *		ties, and the statements that write.
 *
 * Statements that write run under the caller's search_path, so every name and
 * operator of theirs is qualified.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/rel.h"

#include "cdc_history.h"

static const char *
column(CdcHistory *h, int i)
{
	return quote_identifier(h->cols.cols[i].name);
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

/* ---------- ties ---------- */

/*
 * Of the events of the batch that no stored event precedes: one with another
 * op or other values at its key and position.
 */
char *
cdc_history_ties_query(CdcHistory *h)
{
	return psprintf("SELECT %s, pos FROM ("
					"SELECT e.*, bool_or(rank = 3) OVER p AND bool_or(rank = 2) OVER p AS mixed, "
					"dense_rank() OVER (PARTITION BY %s, pos ORDER BY rank DESC, img USING OPERATOR(pg_catalog.*>)) AS image, "
					"dense_rank() OVER (PARTITION BY %s, pos ORDER BY rank DESC) AS level "
					"FROM (SELECT *, ROW(gaps%s) AS img FROM " CDC_INCOMING_NAME " WHERE own %s pos) e "
					"WINDOW p AS (PARTITION BY %s, pos)) x "
					"WHERE (mixed OR (level = 1 AND image > 1 AND rank IN (0, 3))) "
					"AND NOT EXISTS (SELECT FROM %s h WHERE %s AND h." CDC_HISTORY_FROM " %s x.pos) "
					"AND NOT EXISTS (SELECT FROM %s s WHERE %s AND s." CDC_EVENTS_POSITION " %s x.pos) LIMIT 1",
					cdc_history_key_list(h, "x."), cdc_history_key_list(h, ""), cdc_history_key_list(h, ""), cdc_history_column_list(h, ""), POS("="), cdc_history_key_list(h, ""),
					history(h), cdc_history_keys(h, "h", true, "x", false), POS("="),
					events(h), cdc_history_keys(h, "s", true, "x", false), POS("="));
}

/* ---------- statements that write ---------- */

/* "(keys, own, columns) SELECT them FROM the changes"; into the events table only the columns it has. */
static char *
insert_query(CdcHistory *h, int what, const char *table, const char *names, const char *values,
			 const bool *there)
{
	StringInfoData to;
	StringInfoData from;

	initStringInfo(&to);
	initStringInfo(&from);
	for (int i = 0; i < h->target.nkeys; i++)
	{
		appendStringInfo(&to, "%s, ", quote_identifier(h->target.keys[i].name));
		appendStringInfo(&from, "c.k%d, ", i + 1);
	}
	appendStringInfoString(&to, names);
	appendStringInfoString(&from, values);
	for (int i = 0; i < h->cols.ncols; i++)
		if (there == NULL || there[i])
		{
			appendStringInfo(&to, ", %s", column(h, i));
			appendStringInfo(&from, ", c.c%d", i + 1);
		}
	return psprintf("INSERT INTO %s AS h (%s) SELECT %s FROM " CDC_CHANGES_NAME " c WHERE c.what OPERATOR(pg_catalog.=) %d",
					table, to.data, from.data, what);
}

static char *
set_columns(CdcHistory *h, const bool *there)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < h->cols.ncols; i++)
		if (there == NULL || there[i])
			appendStringInfo(&s, ", %s = c.c%d", column(h, i), i + 1);
	return s.data;
}

char *
cdc_history_write_query(CdcHistory *h, int what)
{
	const char *at = h->has_times ? ", " CDC_HISTORY_FROM_AT ", " CDC_HISTORY_TO_AT : "";
	char	   *version = psprintf("c.what OPERATOR(pg_catalog.=) %d AND %s AND h." CDC_HISTORY_FROM " %s c.pos", what,
								   cdc_history_keys(h, "h", true, "c", false), POS("="));
	char	   *event = psprintf("c.what OPERATOR(pg_catalog.=) %d AND %s AND h." CDC_EVENTS_POSITION " %s c.pos", what,
								 cdc_history_keys(h, "h", true, "c", false), POS("="));

	switch (what)
	{
		case CHANGE_DELETE_VERSION:
			return psprintf("DELETE FROM %s h USING " CDC_CHANGES_NAME " c WHERE %s", history(h), version);
		case CHANGE_CLOSE_VERSION:
		case CHANGE_UPDATE_VERSION:
			return psprintf("UPDATE %s h SET " CDC_HISTORY_TO " = c.valid_to%s%s FROM " CDC_CHANGES_NAME " c WHERE %s",
							history(h), !h->has_times ? "" :
							", " CDC_HISTORY_FROM_AT " = c.from_at, " CDC_HISTORY_TO_AT " = c.to_at",
							what == CHANGE_CLOSE_VERSION ? "" : set_columns(h, NULL), version);
		case CHANGE_INSERT_VERSION:
			return insert_query(h, what, history(h), psprintf(CDC_HISTORY_FROM ", " CDC_HISTORY_TO "%s", at),
								psprintf("c.pos, c.valid_to%s", h->has_times ? ", c.from_at, c.to_at" : ""),
								NULL);
		case CHANGE_DELETE_EVENT:
			return psprintf("DELETE FROM %s h USING " CDC_CHANGES_NAME " c WHERE %s", events(h), event);
		case CHANGE_UPDATE_EVENT:
			return psprintf("UPDATE %s h SET " CDC_EVENTS_OP " = c.op, " CDC_EVENTS_GAPS " = c.gaps, " CDC_EVENTS_AT " = c.from_at%s FROM "
							CDC_CHANGES_NAME " c WHERE %s", events(h), set_columns(h, h->image_in_events),
							event);
		default:
			return insert_query(h, what, events(h),
								CDC_EVENTS_POSITION ", " CDC_EVENTS_OP ", " CDC_EVENTS_GAPS ", " CDC_EVENTS_AT,
								"c.pos, c.op, c.gaps, c.from_at", h->image_in_events);
	}
}

/*
 * A statement that writes versions, where a trigger may change what it writes:
 * two numbers, of the rows written and of those among them whose key and own
 * columns are what they were to be.
 */
char *
cdc_history_checked_query(CdcHistory *h, int what)
{
	const char *own = h->has_times ? "%s%s, %s%s, %s%s" : "%s%s";
	StringInfoData keys;

	initStringInfo(&keys);
	for (int i = 0; i < h->target.nkeys; i++)
		appendStringInfo(&keys, "h.%s, ", quote_identifier(h->target.keys[i].name));
#define OWN(prefix, to, from_at, to_at) psprintf(own, prefix, to, prefix, from_at, prefix, to_at)
	return psprintf("WITH w AS (%s RETURNING %sh." CDC_HISTORY_FROM ", %s) "
					"SELECT pg_catalog.count(*), pg_catalog.count(c.what) FROM w LEFT JOIN " CDC_CHANGES_NAME " c "
					"ON c.what OPERATOR(pg_catalog.=) %d AND %s AND w." CDC_HISTORY_FROM " %s c.pos "
					"AND ROW(%s)::pg_catalog.record OPERATOR(pg_catalog.*=) ROW(%s)::pg_catalog.record",
					cdc_history_write_query(h, what), keys.data,
					OWN("h.", CDC_HISTORY_TO, CDC_HISTORY_FROM_AT, CDC_HISTORY_TO_AT), what,
					cdc_history_keys(h, "w", true, "c", false), POS("="),
					OWN("w.", CDC_HISTORY_TO, CDC_HISTORY_FROM_AT, CDC_HISTORY_TO_AT),
					OWN("c.", "valid_to", "from_at", "to_at"));
#undef OWN
}
