/*-------------------------------------------------------------------------
 *
 * cdc_sql.c
 *		Texts for statements over a target's rows.
 *
 * Every name in them is qualified, operators too, so that the caller's
 * search_path has no say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "cdc_sql.h"

/* The extension's schema, as it is written in a statement. */
const char *
cdc_sql_schema(void)
{
	return quote_identifier(get_namespace_name(cdc_extension_schema()));
}

const char *
cdc_sql_column(const CdcTarget *target, AttrNumber attno)
{
	return quote_identifier(get_attname(target->relid, attno, false));
}

/* The position of a target's row as one cdc_position. */
char *
cdc_sql_position(const CdcTarget *target)
{
	StringInfoData s;

	if (target->pos_single)
		return pstrdup(cdc_sql_column(target, target->pos_attno[0]));
	initStringInfo(&s);
	appendStringInfoChar(&s, '(');
	for (int i = 0; i < target->npos; i++)
	{
		const char *name = cdc_sql_column(target, target->pos_attno[i]);

		if (i > 0)
			appendStringInfoString(&s, " OPERATOR(pg_catalog.||) ':' OPERATOR(pg_catalog.||) ");
		if (target->pos_type[i] == LSNOID)
			appendStringInfo(&s, "%s::pg_catalog.text", name);
		else if (i == 0)
			appendStringInfo(&s, "pg_catalog.trunc(%s::pg_catalog.numeric)::pg_catalog.text", name);
		else
			appendStringInfo(&s, "pg_catalog.trunc(coalesce(%s, 0)::pg_catalog.numeric)::pg_catalog.text", name);
	}
	appendStringInfo(&s, ")::%s.cdc_position", cdc_sql_schema());
	return s.data;
}

/* Is the target's row dead?  Row home only. */
char *
cdc_sql_dead(const CdcTarget *target)
{
	return psprintf("%s %s", cdc_sql_column(target, target->tomb_attno),
					target->tomb_time ? "IS NOT NULL" : "IS TRUE");
}
