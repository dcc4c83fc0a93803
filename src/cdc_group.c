/*-------------------------------------------------------------------------
 *
 * cdc_group.c
 *		Which targets one call applies: those that foreign keys tie stand in
 *		one group.
 *
 * Foreign keys of a group are checked when all of its targets are written, so
 * that it does not matter which of them has which events.  Targets of
 * different owners are not tied, since nobody's triggers may run with the
 * rights of another; their order is still parents before children.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_constraint.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "cdc_all.h"
#include "cdc_attach.h"

/* A target on its way into a group. */
typedef struct CdcNode
{
	CdcMember  *member;
	List	   *parents;		/* of struct CdcNode: what its foreign keys refer to */
	struct CdcNode *group;		/* the node that stands for its group, by steps */
	bool		visited;
	List	   *members;		/* of the group that it stands for */
} CdcNode;

/* The staging relation that is recorded of a target that is attached, or 0. */
Oid
cdc_group_staging(Oid target)
{
	CdcRegistration reg;

	cdc_registry_read_now(target, &reg);
	return reg.rule.exists ? cdc_rule_recorded_staging(&reg, NoLock, true) : InvalidOid;
}

static CdcNode *
make_node(Oid target, Oid staging)
{
	CdcNode	   *node = palloc0(sizeof(CdcNode));
	CdcMember  *member = palloc0(sizeof(CdcMember));

	member->target = target;
	member->owner = cdc_owner_of(target);
	member->name = psprintf("%s.%s", get_namespace_name(get_rel_namespace(target)),
							get_rel_name(target));
	member->staging = cdc_quoted_relation(staging);
	node->member = member;
	node->group = node;
	return node;
}

static int
compare_names(const ListCell *a, const ListCell *b)
{
	return strcmp(((CdcNode *) lfirst(a))->member->name, ((CdcNode *) lfirst(b))->member->name);
}

/* The attached targets of a schema, or of all, whose staging is there. */
static List *
find_targets(Oid schema)
{
	List	   *nodes = NIL;
	ListCell   *lc;

	foreach(lc, cdc_registry_all())
	{
		CdcRegistered *row = lfirst(lc);
		Oid			namespace;
		Oid			staging;

		if (!row->attached || !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(row->target)))
			continue;
		namespace = get_rel_namespace(row->target);
		if ((OidIsValid(schema) && namespace != schema) || isOtherTempNamespace(namespace))
			continue;
		staging = cdc_group_staging(row->target);
		if (OidIsValid(staging))
			nodes = lappend(nodes, make_node(row->target, staging));
	}
	list_sort(nodes, compare_names);
	return nodes;
}

static CdcNode *
find_node(List *nodes, Oid target)
{
	ListCell   *lc;

	foreach(lc, nodes)
		if (((CdcNode *) lfirst(lc))->member->target == target)
			return lfirst(lc);
	return NULL;
}

static CdcNode *
group_of(CdcNode *node)
{
	while (node->group != node)
		node = node->group;
	return node;
}

/* Note what the foreign keys of a target refer to, and tie them. */
static void
follow_keys(Relation constraints, List *nodes, CdcNode *node)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(node->member->target));
	scan = systable_beginscan(constraints, ConstraintRelidTypidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint con = (Form_pg_constraint) GETSTRUCT(tuple);
		CdcNode	   *parent;

		if (con->contype != CONSTRAINT_FOREIGN || con->confrelid == con->conrelid)
			continue;
		parent = find_node(nodes, con->confrelid);
		if (parent == NULL)
			continue;
		node->parents = lappend(node->parents, parent);
		if (parent->member->owner == node->member->owner)
			group_of(node)->group = group_of(parent);
	}
	systable_endscan(scan);
}

/* Put a target behind its parents; a cycle is broken where it was entered. */
static void
put_in_order(CdcNode *node, List **ordered)
{
	ListCell   *lc;

	check_stack_depth();
	if (node->visited)
		return;
	node->visited = true;
	foreach(lc, node->parents)
		put_in_order(lfirst(lc), ordered);
	*ordered = lappend(*ordered, node);
}

/*
 * What there is to apply, in order: a list of groups, each a list of
 * CdcMember, in the current memory context.  schema NULL: of all schemas.
 */
List *
cdc_groups(const char *schema)
{
	List	   *nodes = find_targets(schema == NULL ? InvalidOid : get_namespace_oid(schema, false));
	Relation	constraints = table_open(ConstraintRelationId, AccessShareLock);
	List	   *ordered = NIL;
	List	   *heads = NIL;
	List	   *groups = NIL;
	ListCell   *lc;

	foreach(lc, nodes)
		follow_keys(constraints, nodes, lfirst(lc));
	table_close(constraints, AccessShareLock);
	foreach(lc, nodes)
		put_in_order(lfirst(lc), &ordered);
	foreach(lc, ordered)
	{
		CdcNode	   *node = lfirst(lc);
		CdcNode	   *head = group_of(node);

		if (head->members == NIL)
			heads = lappend(heads, head);
		head->members = lappend(head->members, node->member);
	}
	foreach(lc, heads)
		groups = lappend(groups, ((CdcNode *) lfirst(lc))->members);
	return groups;
}
