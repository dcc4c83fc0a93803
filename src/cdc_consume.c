/*-------------------------------------------------------------------------
 *
 * cdc_consume.c
 *		What becomes of staging's rows once they are read: who may be consumed
 *		how, and TRUNCATE.
 *
 * consume => 'delete' is done by the query itself (cdc_query.c), 'bookmark' in
 * cdc_bookmark.c.  What would lose a row that was not read is refused.
 *
 * Locks: 'truncate' takes ACCESS EXCLUSIVE on staging and its descendants
 * before anything is read, after the target's apply lock, and to the end of
 * the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/tablecmds.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/syscache.h"

#include "cdc_apply.h"
#include "cdc_consume.h"

/* ---------- what can be consumed by DELETE ---------- */

void
cdc_refuse_consume(const char *staging)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("rows of staging \"%s\" cannot be consumed", staging),
			 errdetail("A rule replaces DELETE on it."),
			 errhint("Drop the rule, or use consume => 'keep'.")));
}

/* The relation that a simple view stands over, or 0. */
Oid
cdc_base_of_view(Relation view)
{
	List	   *from = get_view_query(view)->jointree->fromlist;
	RangeTblEntry *rte;

	if (list_length(from) != 1 || !IsA(linitial(from), RangeTblRef))
		return InvalidOid;
	rte = rt_fetch(((RangeTblRef *) linitial(from))->rtindex, get_view_query(view)->rtable);
	return rte->rtekind == RTE_RELATION ? rte->relid : InvalidOid;
}

/*
 * A rule in the place of DELETE, on staging or below a view, could return rows
 * that nobody removes, or rows of something else.
 */
static void
check_delete(Relation staging)
{
	Relation	rel = staging;
	Oid			base;

	for (;;)
	{
		for (int i = 0; rel->rd_rules != NULL && i < rel->rd_rules->numLocks; i++)
			if (rel->rd_rules->rules[i]->event == CMD_DELETE &&
				rel->rd_rules->rules[i]->isInstead)
				cdc_refuse_consume(cdc_relation_name(staging));
		base = rel->rd_rel->relkind == RELKIND_VIEW ? cdc_base_of_view(rel) : InvalidOid;
		if (rel != staging)
			relation_close(rel, NoLock);
		rel = OidIsValid(base) ? try_relation_open(base, AccessShareLock) : NULL;
		if (rel == NULL)
			return;
	}
}

/* ---------- what can be consumed by TRUNCATE ---------- */

/*
 * A relation with rows on another server has writers that no lock and no
 * snapshot of this one knows.
 */
void
cdc_refuse_foreign_rows(Relation staging, const char *consume)
{
	ListCell   *lc;

	if (!staging->rd_rel->relhassubclass)
		return;
	foreach(lc, find_all_inheritors(RelationGetRelid(staging), NoLock, NULL))
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_FOREIGN_TABLE)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("staging \"%s\" has rows on another server",
							cdc_relation_name(staging)),
					 errdetail("\"%s\" is a foreign table; its writers are not known here.",
							   get_rel_name(lfirst_oid(lc))),
					 errhint("Use another consume than '%s'.", consume)));
}

/* Rows that role does not see would be passed by, or lost. */
void
cdc_refuse_hidden_rows(Relation rel, Oid role, const char *consume)
{
	if (check_enable_rls(RelationGetRelid(rel), role, true) != RLS_ENABLED)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("staging \"%s\" has row-level security in force", cdc_relation_name(rel)),
			 errdetail("With consume => '%s' rows that the policies hide would be lost.", consume),
			 errhint("Apply as a role that bypasses row-level security, or use consume => 'delete'.")));
}

static void
refuse_kind(Oid relid)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("staging \"%s\" is not a table", get_rel_name(relid)),
			 errdetail("Only ordinary and partitioned tables can be truncated."),
			 errhint("Use another consume than 'truncate'.")));
}

/*
 * Take staging for a later TRUNCATE, which also keeps all loaders out: every
 * row that is there is seen by whoever reads after it.  False: somebody else
 * has it, and the call does not wait.
 *
 * The right to do so comes first, so that nobody can lock what he may not
 * truncate.
 */
bool
cdc_consume_lock(Oid relid, bool nowait)
{
	char		relkind = get_rel_relkind(relid);
	AclResult	right;
	ListCell   *lc;
	List	   *taken = NIL;

	if (relkind == '\0')
		cdc_refuse_no_relation(relid);
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		refuse_kind(relid);
	right = pg_class_aclcheck(relid, GetUserId(), ACL_TRUNCATE);
	if (right != ACLCHECK_OK)
		aclcheck_error(right, get_relkind_objtype(relkind), get_rel_name(relid));
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("consume => 'truncate' needs a READ COMMITTED transaction"),
				 errdetail("Rows loaded since this transaction's snapshot would be lost."),
				 errhint("Use consume => 'delete', or BEGIN ISOLATION LEVEL READ COMMITTED.")));

	/* the table before its descendants, so that they stay the same */
	if (!nowait)
		LockRelationOid(relid, AccessExclusiveLock);
	else if (!ConditionalLockRelationOid(relid, AccessExclusiveLock))
		return false;
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
	{
		Oid			child = lfirst_oid(lc);

		if (child == relid)
			continue;
		if (!nowait)
			LockRelationOid(child, AccessExclusiveLock);
		else if (ConditionalLockRelationOid(child, AccessExclusiveLock))
			taken = lappend_oid(taken, child);
		else
		{
			ListCell   *other;

			foreach(other, taken)
				UnlockRelationOid(lfirst_oid(other), AccessExclusiveLock);
			UnlockRelationOid(relid, AccessExclusiveLock);
			return false;
		}
	}
	return true;
}

/* What TRUNCATE would refuse at the end is refused before anything is done. */
static void
check_truncate(Relation staging, Oid target)
{
	List	   *relids = find_all_inheritors(RelationGetRelid(staging), NoLock, NULL);
	List	   *family = NIL;
	ListCell   *lc;

	if (list_member_oid(relids, target))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the target is a part of staging \"%s\"", cdc_relation_name(staging)),
				 errdetail("It would be truncated, too.")));

	cdc_refuse_hidden_rows(staging, InvalidOid, "truncate");
	cdc_refuse_foreign_rows(staging, "truncate");
	CheckTableNotInUse(staging, "TRUNCATE");
	foreach(lc, relids)
	{
		Relation	rel = try_relation_open(lfirst_oid(lc), NoLock);

		if (rel != NULL)
			family = lappend(family, rel);
	}
	heap_truncate_check_FKs(family, false);
	foreach(lc, family)
		relation_close(lfirst(lc), NoLock);
}

/*
 * Refuse staging that cannot be consumed as the rule says.  It has been locked
 * for that, and opened once.
 */
void
cdc_consume_check(Relation staging, const CdcRule *rule)
{
	if (rule->consume == CDC_CONSUME_DELETE)
		check_delete(staging);
	else if (rule->consume == CDC_CONSUME_TRUNCATE)
		check_truncate(staging, rule->target);
}

/* The same as far as it can be said of a rule that is recorded only. */
void
cdc_consume_check_rule(Relation staging, const CdcRule *rule)
{
	char		relkind = staging->rd_rel->relkind;

	if (rule->consume == CDC_CONSUME_TRUNCATE)
	{
		if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
			refuse_kind(RelationGetRelid(staging));
		cdc_refuse_foreign_rows(staging, "truncate");
	}
	else if (rule->consume == CDC_CONSUME_BOOKMARK)
		(void) cdc_bookmark_column(staging, rule->bookmark_column, false, NULL);
}

/* ---------- TRUNCATE ---------- */

/*
 * Triggers of the target may have put rows into staging meanwhile, which
 * nobody has read.
 */
static void
check_all_read(const char *table, Oid staging, int64 events)
{
	int64		rows = 0;
	bool		isnull;

	if (SPI_execute(psprintf("SELECT pg_catalog.count(*) FROM %s", table), false, 0) == SPI_OK_SELECT &&
		SPI_processed == 1)
		rows = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	if (rows != events)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("staging \"%s\" was written to while it was applied", get_rel_name(staging)),
				 errdetail("It held %lld rows when it was read, and holds %lld now.",
						   (long long) events, (long long) rows),
				 errhint("A trigger of the target writes to it; use consume => 'delete'.")));
}

/*
 * Empty staging, of which all rows were read, and which is open no more.  Runs
 * as the caller, with staging's own triggers and foreign keys.
 */
void
cdc_consume_truncate(Oid staging, int64 events, bool recount)
{
	const char *table = quote_qualified_identifier(get_namespace_name(get_rel_namespace(staging)),
												   get_rel_name(staging));

	SPI_connect();
	if (recount)
		check_all_read(table, staging, events);
	if (events > 0)
		SPI_execute(psprintf("TRUNCATE %s", table), false, 0);
	SPI_finish();
}
