/*-------------------------------------------------------------------------
 *
 * cdc_all.c
 *		All attached targets by one call: cdc_apply_attached() in the caller's
 *		transaction, cdc_apply_all() with a COMMIT after each.
 *
 * Each target, or group that foreign keys tie, is applied in a subtransaction
 * as its owner, in a security-restricted operation with a search_path of its
 * own, as the server itself does for others: a job of a superuser runs
 * nobody's triggers, views or expressions as superuser, and what they leave
 * behind in the session goes with it.  Deferrable constraints are immediate
 * meanwhile, so that no trigger of theirs waits for the end of the
 * transaction, when the rights are the caller's again.
 *
 * A group has one after-trigger query level around its targets: their foreign
 * keys are checked at its end, like those of one statement.
 *
 * Locks: those of cdc_apply() on each target, in the order of the groups.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "tcop/pquery.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

#include "cdc_all.h"
#include "cdc_attach.h"

/* columns of cdc_apply_attached(): target, those of the result, error */
#define ALL_RESULT		1
#define ALL_ERROR		(ALL_RESULT + RESULT_COLUMNS)
#define ALL_COLUMNS		(ALL_ERROR + 1)

/* Failures that one message lists, and bytes of each that are kept. */
#define CDC_FAILURES_LISTED	20
#define CDC_FAILURE_CLIP	4096

PG_FUNCTION_INFO_V1(cdc_apply_attached);
PG_FUNCTION_INFO_V1(cdc_apply_all);

/* A group on its way. */
typedef struct CdcGroup
{
	List	   *members;
	bool		nowait;
	CdcMember  *at;				/* the one being applied; NULL: none in particular */
	bool		permitted;		/* the caller may become the owner */
	CdcRun		run;
} CdcGroup;

/* ---------- one group ---------- */

/* The caller must be able to become the owner, who must stay the owner. */
static void
check_owners(CdcGroup *group)
{
	ListCell   *lc;

	foreach(lc, group->members)
	{
		CdcMember  *m = lfirst(lc);

		group->at = m;
		m->owner = cdc_owner_of(m->target);
		if (!OidIsValid(m->owner))
			cdc_refuse_no_relation(m->target);
		if (!cdc_can_become(GetUserId(), m->owner))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied to apply to target \"%s\" as its owner", m->name),
					 errdetail("Its owner is \"%s\", which the current role cannot become.",
							   GetUserNameFromId(m->owner, false)),
					 errhint("Run it as a member of that role, or name a schema of your own.")));
		LockRelationOid(m->target, RowExclusiveLock);
		if (cdc_owner_of(m->target) != ((CdcMember *) linitial(group->members))->owner)
			cdc_refuse_concurrent();
	}
	group->permitted = true;
}

/* Are the targets free?  They are locked then, so that all are skipped or none. */
static bool
lock_members(const CdcGroup *group)
{
	ListCell   *lc;

	foreach(lc, group->members)
		if (!cdc_target_lock(((CdcMember *) lfirst(lc))->target, ExclusiveLock, group->nowait))
			return false;
	return true;
}

static void
apply_member(CdcGroup *group, CdcMember *m)
{
	CdcArgs		args;

	memset(&args, 0, sizeof(args));
	memset(args.isnull, true, sizeof(args.isnull));
	args.values[CDC_ARG_TARGET] = ObjectIdGetDatum(m->target);
	args.isnull[CDC_ARG_TARGET] = false;
	args.values[CDC_ARG_NOWAIT] = BoolGetDatum(group->nowait);
	args.isnull[CDC_ARG_NOWAIT] = false;
	group->at = m;
	cdc_run_begin(&group->run, m->target, "apply");
	cdc_apply_run(&args, list_length(group->members) > 1, &m->applied);
}

/* Fire what the targets of a group have left for its end. */
static void
finish_triggers(void)
{
	EState	   *estate = CreateExecutorState();

	PushActiveSnapshot(GetLatestSnapshot());
	estate->es_snapshot = GetActiveSnapshot();
	AfterTriggerEndQuery(estate);
	ExecResetTupleTable(estate->es_tupleTable, false);
	ExecCloseResultRelations(estate);
	PopActiveSnapshot();
	FreeExecutorState(estate);
	CommandCounterIncrement();
}

static void
apply_members(CdcGroup *group)
{
	bool		several = list_length(group->members) > 1;
	ListCell   *lc;

	if (several && !lock_members(group))
	{
		foreach(lc, group->members)
			((CdcMember *) lfirst(lc))->applied.skipped = true;
		return;
	}
	if (several)
		AfterTriggerBeginQuery();
	foreach(lc, group->members)
		apply_member(group, lfirst(lc));
	if (!several)
		return;
	group->at = NULL;
	finish_triggers();
}

static void
apply_as_owner(CdcGroup *group)
{
	Oid			userid;
	int			context;
	int			nest_level;

	check_owners(group);
	GetUserIdAndSecContext(&userid, &context);
	SetUserIdAndSecContext(((CdcMember *) linitial(group->members))->owner,
						   context | SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();
	cdc_restrict_search_path();
	apply_members(group);
	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(userid, context);
}

/* ---------- failures ---------- */

/*
 * An error with its detail and hint, in one line of text.  An owner's code can
 * make it as long as it likes.  owner: whose rights were lacking, if any.
 */
static char *
error_text(const ErrorData *edata, const char *owner)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoString(&s, edata->message != NULL ? edata->message : "error");
	if (owner != NULL)
		appendStringInfo(&s, " (as its owner \"%s\")", owner);
	if (edata->detail != NULL || edata->hint != NULL)
		appendStringInfoChar(&s, '.');
	if (edata->detail != NULL)
		appendStringInfo(&s, " %s", edata->detail);
	if (edata->hint != NULL)
		appendStringInfo(&s, " %s", edata->hint);
	if (s.len > CDC_FAILURE_CLIP)
		strcpy(s.data + pg_mbcliplen(s.data, s.len, CDC_FAILURE_CLIP), "...");
	return s.data;
}

/*
 * Was the call cancelled?  Code of an owner can raise the same SQLSTATE, and so
 * can another server that it asks: that is a failure like any other.
 */
static bool
is_cancel(const ErrorData *edata)
{
	return edata->sqlerrcode == ERRCODE_QUERY_CANCELED &&
		edata->funcname != NULL && strcmp(edata->funcname, "ProcessInterrupts") == 0;
}

/*
 * All of a group failed, at one member or at its end.  The log is written
 * after the rollback; what the caller was not permitted to begin is no run.
 */
static void
note_failure(CdcGroup *group, const ErrorData *edata)
{
	bool		denied = group->permitted && edata->sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE;
	char	   *text = error_text(edata, !denied ? NULL :
								  GetUserNameFromId(((CdcMember *) linitial(group->members))->owner, true));
	ListCell   *lc;

	foreach(lc, group->members)
	{
		CdcMember  *m = lfirst(lc);

		m->error = group->at == NULL || group->at == m ? text :
			psprintf("rolled back with target \"%s\": %s", group->at->name, text);
		m->sqlerrcode = edata->sqlerrcode;
		if (!group->permitted)
			continue;
		group->run.target = m->target;
		group->run.staging = m->staging;
		group->run.error = m->error;
		group->run.sqlerrcode = m->sqlerrcode;
		cdc_run_end(&group->run);
	}
}

/* Take out of a group what is no longer attached: it counts as skipped. */
static List *
still_attached(List *members)
{
	List	   *left = NIL;
	ListCell   *lc;

	foreach(lc, members)
	{
		CdcMember  *m = lfirst(lc);

		if (OidIsValid(cdc_group_staging(m->target)))
			left = lappend(left, m);
		else
		{
			memset(&m->applied, 0, sizeof(CdcApplied));
			m->applied.skipped = true;
		}
	}
	return left;
}

/*
 * Apply a group; its members say what became of it.  What was detached or
 * dropped while it was waited for is no failure: the others have another try.
 */
static void
apply_group(List *members, bool nowait)
{
	List	   *left = still_attached(members);
	volatile bool again = false;
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	CdcGroup	group;

	if (left == NIL)
		return;
	memset(&group, 0, sizeof(group));
	group.members = left;
	group.nowait = nowait;
	cdc_run_begin(&group.run, InvalidOid, "apply");
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		apply_as_owner(&group);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		/* user and settings are the caller's again */
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (is_cancel(edata))
			ReThrowError(edata);
		again = list_length(still_attached(left)) < list_length(left);
		if (!again)
			note_failure(&group, edata);
	}
	PG_END_TRY();
	if (again)
		apply_group(left, nowait);
}

/*
 * Let nothing be deferred: what a target's owner may make wait would run with
 * the caller's rights.  What the caller has waiting is checked now.
 */
static void
make_constraints_immediate(void)
{
	ConstraintsSetStmt *stmt = makeNode(ConstraintsSetStmt);

	stmt->constraints = NIL;
	stmt->deferred = false;
	AfterTriggerSetState(stmt);
}

static char *
schema_argument(FunctionCallInfo fcinfo)
{
	return PG_ARGISNULL(0) ? NULL : pstrdup(NameStr(*PG_GETARG_NAME(0)));
}

/* ---------- in the caller's transaction ---------- */

static void
put_row(ReturnSetInfo *rsinfo, const CdcMember *m)
{
	Datum		values[ALL_COLUMNS];
	bool		isnull[ALL_COLUMNS];

	memset(isnull, true, sizeof(isnull));
	values[0] = ObjectIdGetDatum(m->target);
	isnull[0] = false;
	if (m->error == NULL)
		cdc_applied_values(&m->applied, values + ALL_RESULT, isnull + ALL_RESULT);
	else
	{
		values[ALL_ERROR] = CStringGetTextDatum(m->error);
		isnull[ALL_ERROR] = false;
	}
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, isnull);
}

Datum
cdc_apply_attached(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *group;
	ListCell   *lc;

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	PreventCommandIfReadOnly("cdc_apply_attached()");
	PreventCommandIfParallelMode("cdc_apply_attached()");
	InitMaterializedSRF(fcinfo, 0);
	make_constraints_immediate();
	foreach(group, cdc_groups(schema_argument(fcinfo)))
	{
		CHECK_FOR_INTERRUPTS();
		apply_group(lfirst(group), false);
		make_constraints_immediate();	/* whatever the owner's code has set */
		foreach(lc, (List *) lfirst(group))
			put_row(rsinfo, lfirst(lc));
	}
	return (Datum) 0;
}

/* ---------- a transaction each ---------- */

/* What was not applied, and the code of the first of it. */
typedef struct CdcFailures
{
	int			targets;		/* of all */
	int			failed;
	int			sqlerrcode;
	StringInfoData list;
} CdcFailures;

static void
count_members(CdcFailures *failures, List *members)
{
	ListCell   *lc;

	foreach(lc, members)
	{
		CdcMember  *m = lfirst(lc);

		failures->targets++;
		if (m->error == NULL)
			continue;
		if (failures->failed++ == 0)
			failures->sqlerrcode = m->sqlerrcode;
		if (failures->failed <= CDC_FAILURES_LISTED)
			appendStringInfo(&failures->list, "%s\"%s\": %s", failures->failed > 1 ? "\n" : "",
							 m->name, m->error);
	}
}

/*
 * Apply a group in a transaction of its own.  A commit can fail, and so can
 * what is written of a failure when the transaction can no longer commit: then
 * it is written in the next transaction.
 */
static void
apply_and_commit(List *members, bool nowait)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool committing = false;

	PG_TRY();
	{
		make_constraints_immediate();
		apply_group(members, nowait);
		committing = true;
		SPI_commit();
	}
	PG_CATCH();
	{
		CdcGroup	group;
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		if (is_cancel(edata))
			ReThrowError(edata);
		/* a commit that fails has done this */
		if (!committing)
			SPI_rollback();
		EnsurePortalSnapshotExists();
		memset(&group, 0, sizeof(group));
		group.members = members;
		group.permitted = true;
		cdc_run_begin(&group.run, InvalidOid, "apply");
		note_failure(&group, edata);
		SPI_commit();
	}
	PG_END_TRY();
	EnsurePortalSnapshotExists();
}

static void
refuse_atomic(FunctionCallInfo fcinfo)
{
	if (fcinfo->context != NULL && IsA(fcinfo->context, CallContext) &&
		!castNode(CallContext, fcinfo->context)->atomic)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
			 errmsg("invalid transaction termination"),
			 errdetail("cdc_apply_all() commits after each target."),
			 errhint("CALL it outside of a transaction block; in one, SELECT * FROM %s().",
					 cdc_function_name("cdc_apply_attached"))));
}

Datum
cdc_apply_all(PG_FUNCTION_ARGS)
{
	bool		nowait = PG_ARGISNULL(1) || PG_GETARG_BOOL(1);
	CdcFailures failures;
	List	   *groups;
	ListCell   *lc;

	cdc_position_type_of_function(fcinfo->flinfo->fn_oid);
	refuse_atomic(fcinfo);
	PreventCommandIfReadOnly("cdc_apply_all()");
	/* its memory outlives the transactions */
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	memset(&failures, 0, sizeof(failures));
	initStringInfo(&failures.list);
	groups = cdc_groups(schema_argument(fcinfo));
	foreach(lc, groups)
	{
		List	   *members = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		apply_and_commit(members, nowait);
		count_members(&failures, members);
	}
	if (failures.failed > CDC_FAILURES_LISTED)
		appendStringInfo(&failures.list, "\nand %d more",
						 failures.failed - CDC_FAILURES_LISTED);
	if (failures.failed > 0)
		ereport(ERROR,
				(errcode(failures.sqlerrcode),
				 errmsg("targets not applied: %d of %d", failures.failed, failures.targets),
				 errdetail_internal("%s", failures.list.data),
				 failures.failed < failures.targets ?
				 errhint("The others are applied and committed; see cdc_status and cdc_runs.") :
				 errhint("See cdc_status and cdc_runs.")));
	SPI_finish();
	return (Datum) 0;
}
