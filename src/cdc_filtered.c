/*-------------------------------------------------------------------------
 *
 * cdc_filtered.c
 *		Deletes that staging_filter has nothing to say of.
 *
 * A delete often carries its key alone.  A filter on other columns is then
 * NULL and not true: the delete is no event, and its row lives for ever.
 * Staging is read once more by the target's rule, with that as the filter, so
 * that op_map, default_op and the flag decide what a delete is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "utils/builtins.h"

#include "cdc_call.h"
#include "cdc_explain.h"

typedef struct CdcFiltered
{
	CdcWatch	watch;			/* first, since the reader hands it on */
	MemoryContext context;		/* of the example */
	int64		deletes;
	char	   *example;
} CdcFiltered;

static void
see_row(CdcWatch *watch, const CdcSeen *seen)
{
	CdcFiltered *filtered = (CdcFiltered *) watch;

	if (seen->class != CDC_DELETE || filtered->deletes++ > 0)
		return;
	filtered->example = MemoryContextStrdup(filtered->context,
											psprintf("%s%s%s", seen->key != NULL ? seen->key : "no key",
													 seen->pos.len > 0 ? " at " : "",
													 seen->pos.len > 0 ? cdc_pos_text(seen->pos.bytes, seen->pos.len) : ""));
}

/*
 * How many deletes of a staging relation (0: the recorded one) the filter, as
 * the rule has it, leaves out as NULL.  One of them goes to *example.
 */
int64
cdc_filtered_deletes(Oid relid, Oid staging, const char *filter, char **example)
{
	CdcFiltered filtered = {.watch.row = see_row, .context = CurrentMemoryContext};
	CdcApply   *call = palloc0(sizeof(CdcApply));
	CdcArgs    *args = &call->args;
	CdcTarget	described;
	CdcFold    *fold;
	List	   *fed;

	call->explain = true;
	memset(args->isnull, true, sizeof(args->isnull));
#define SET_ARG(n, value) (args->values[n] = (value), args->isnull[n] = false)
	SET_ARG(CDC_ARG_TARGET, ObjectIdGetDatum(relid));
	if (OidIsValid(staging))
		SET_ARG(CDC_ARG_STAGING, ObjectIdGetDatum(staging));
	SET_ARG(CDC_ARG_STAGING_FILTER, CStringGetTextDatum(psprintf("(%s\n) IS NULL", filter)));
	SET_ARG(CDC_ARG_ON_SCHEMA_CHANGE, CStringGetTextDatum("ignore"));
	SET_ARG(CDC_ARG_CONSUME, CStringGetTextDatum("keep"));
	SET_ARG(CDC_ARG_DRY_RUN, BoolGetDatum(true));
#undef SET_ARG

	(void) cdc_call_open(call, &fed);
	described = call->target;
	/* rights, before anything is read */
	cdc_call_begin_target(call);
	cdc_target_end(&call->target);
	call->target = described;
	fold = cdc_fold_create(&call->target, &call->cols, &call->rule);
	cdc_read_staging(&call->target, &call->cols, &call->rule, fold, &filtered.watch, &call->read);
	if (filtered.watch.failed != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("staging \"%s\" could not be read: %s", call->cols.staging_name,
						filtered.watch.failed)));
	cdc_fold_finish(fold);
	cdc_fold_end(fold);
	relation_close(call->staging_rel, NoLock);
	table_close(call->target_rel, NoLock);
	*example = filtered.example;
	return filtered.deletes;
}
