/*-------------------------------------------------------------------------
 *
 * cdc_compat.h
 *		Every difference between server majors (15 and later), each in the
 *		shape of the newest one, so that no other file asks for the version.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_COMPAT_H
#define CDC_COMPAT_H

#include "postgres.h"

/* ---------- types and aggregates ---------- */

/* 16 moved the varlena macros out of postgres.h and brought soft errors. */
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#include "varatt.h"
#endif

/* Before 16 there is nobody to hand a soft error to: it is raised. */
#ifndef ereturn
#define ereturn(context, dummy_value, ...) \
	do { \
		(void) (context); \
		ereport(ERROR, __VA_ARGS__); \
		return dummy_value; \
	} while (0)
#endif

/* 18 renamed it, and wants it in front. */
#ifndef pg_noreturn
#define pg_noreturn pg_attribute_noreturn()
#endif

/* 18 lets a module say its name and version. */
#ifdef PG_MODULE_MAGIC_EXT
#define CDC_MODULE_MAGIC(module_name, module_version) \
	PG_MODULE_MAGIC_EXT(.name = module_name, .version = module_version)
#else
#define CDC_MODULE_MAGIC(module_name, module_version) PG_MODULE_MAGIC
#endif


/*
 * Are a varlena's bytes here, as they are?  VARATT_IS_SHORT() alone says yes to
 * a pointer into a TOAST table too.
 */
#define cdc_varlena_is_plain(v) \
	(VARATT_IS_4B_U(v) || (VARATT_IS_1B(v) && !VARATT_IS_1B_E(v)))

/* A hint that memory is about to be read; nothing where there is no such thing. */
#ifdef __GNUC__
#define cdc_prefetch(addr)	__builtin_prefetch(addr)
#else
#define cdc_prefetch(addr)	((void) (addr))
#endif

/* ---------- rights ---------- */

#include "catalog/pg_class.h"
#include "utils/acl.h"
#include "utils/guc.h"

/* 16 has one function for all kinds of objects. */
#if PG_VERSION_NUM >= 160000
#define cdc_owns_relation(relid, role)	object_ownercheck(RelationRelationId, relid, role)
#define cdc_schema_aclcheck(schema, role, mode) \
	object_aclcheck(NamespaceRelationId, schema, role, mode)
#else
#define cdc_owns_relation(relid, role)	pg_class_ownercheck(relid, role)
#define cdc_schema_aclcheck(schema, role, mode) pg_namespace_aclcheck(schema, role, mode)
#endif

/* May a role become another by SET ROLE?  16 lets memberships exclude it. */
#if PG_VERSION_NUM >= 160000
#define cdc_can_become(role, other)		member_can_set_role(role, other)
#else
#define cdc_can_become(role, other)		is_member_of_role(role, other)
#endif

/*
 * The search_path of code that runs as somebody else than the caller; the
 * caller has begun a GUC nest level.
 */
#if PG_VERSION_NUM >= 170000
#define cdc_restrict_search_path()	RestrictSearchPath()
#else
#define cdc_restrict_search_path() \
	((void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, \
							  GUC_ACTION_SAVE, true, 0, false))
#endif

/* ---------- executor ---------- */

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "parser/parse_relation.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* 18 distinguishes deferrable primary keys by an argument. */
#if PG_VERSION_NUM >= 180000
#define cdc_primary_key_index(rel)	RelationGetPrimaryKeyIndex(rel, true)
#else
#define cdc_primary_key_index(rel)	RelationGetPrimaryKeyIndex(rel)
#endif

static inline IndexScanDesc
cdc_index_beginscan(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
#if PG_VERSION_NUM >= 190000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0, 0);
#elif PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

/* The root of a btree index, locked; 16 wants the table too. */
#if PG_VERSION_NUM >= 160000
#define cdc_bt_getroot(index, heap)	_bt_getroot(index, heap, BT_READ)
#else
#define cdc_bt_getroot(index, heap)	_bt_getroot(index, BT_READ)
#endif

/* Can nobody see a row any more that xid made dead? */
static inline bool
cdc_xid_is_removable(Relation rel, TransactionId xid)
{
#if PG_VERSION_NUM >= 190000
	return GlobalVisTestIsRemovableXid(GlobalVisTestFor(rel), xid, true);
#else
	return GlobalVisTestIsRemovableXid(GlobalVisTestFor(rel), xid);
#endif
}

static inline void
cdc_heap_page_prune(Relation rel, Buffer buffer)
{
#if PG_VERSION_NUM >= 190000
	Buffer		vmbuffer = InvalidBuffer;

	heap_page_prune_opt(rel, buffer, &vmbuffer, false);
	if (BufferIsValid(vmbuffer))
		ReleaseBuffer(vmbuffer);
#else
	heap_page_prune_opt(rel, buffer);
#endif
}

/* A sequential scan without keys. */
static inline TableScanDesc
cdc_table_beginscan(Relation rel, Snapshot snapshot)
{
#if PG_VERSION_NUM >= 190000
	return table_beginscan(rel, snapshot, 0, NULL, SO_NONE);
#else
	return table_beginscan(rel, snapshot, 0, NULL);
#endif
}

static inline void
cdc_check_valid_result_rel(ResultRelInfo *rri, CmdType operation)
{
#if PG_VERSION_NUM >= 180000
	CheckValidResultRel(rri, operation, ONCONFLICT_NONE, NIL);
#elif PG_VERSION_NUM >= 170000
	CheckValidResultRel(rri, operation, NIL);
#else
	CheckValidResultRel(rri, operation);
#endif
}

static inline RangeTblEntry *
cdc_make_rte(Relation rel, LOCKMODE lockmode)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);

	rte->rtekind = RTE_RELATION;
	rte->relid = RelationGetRelid(rel);
	rte->relkind = rel->rd_rel->relkind;
	rte->rellockmode = lockmode;
	return rte;
}

/* What a call does to its target, for the check of rights. */
typedef struct CdcRights
{
	AclMode		required;
	Bitmapset  *selected;		/* columns, offset as in RTEs */
	Bitmapset  *inserted;
	Bitmapset  *updated;
} CdcRights;

/*
 * Enter rel as range table entry 1 of estate, and side, if any, as entry 2,
 * and check the caller's rights to rel; side is reached through it.  From 16
 * rights stand apart from the entry.  fired are the columns that an update is
 * said to set once the check is done: the keys are left out, so that a row
 * lock stays a NO KEY UPDATE one.
 */
static inline void
cdc_init_range_table(EState *estate, Relation rel, Relation side, LOCKMODE lockmode,
					 const CdcRights *rights, Bitmapset *fired)
{
	RangeTblEntry *rte = cdc_make_rte(rel, lockmode);
	List	   *entries = list_make1(rte);

#if PG_VERSION_NUM >= 160000
	List	   *perminfos = NIL;
	RTEPermissionInfo *perm = addRTEPermissionInfo(&perminfos, rte);

	perm->requiredPerms = rights->required;
	perm->selectedCols = rights->selected;
	perm->insertedCols = rights->inserted;
	perm->updatedCols = rights->updated;
	ExecCheckPermissions(entries, perminfos, true);
	perm->updatedCols = fired;
	if (side != NULL)
	{
		RangeTblEntry *other = cdc_make_rte(side, lockmode);

		addRTEPermissionInfo(&perminfos, other);
		entries = lappend(entries, other);
	}
#if PG_VERSION_NUM >= 180000
	ExecInitRangeTable(estate, entries, perminfos,
					   side ? bms_add_member(bms_make_singleton(1), 2) : bms_make_singleton(1));
#else
	ExecInitRangeTable(estate, entries, perminfos);
#endif
#else
	rte->requiredPerms = rights->required;
	rte->selectedCols = rights->selected;
	rte->insertedCols = rights->inserted;
	rte->updatedCols = rights->updated;
	ExecCheckRTPerms(entries, true);
	rte->updatedCols = fired;
	if (side != NULL)
		entries = lappend(entries, cdc_make_rte(side, lockmode));
	ExecInitRangeTable(estate, entries);
#endif
}

static inline TupleConversionMap *
cdc_root_to_leaf_map(ResultRelInfo *rri, EState *estate)
{
#if PG_VERSION_NUM >= 160000
	return ExecGetRootToChildMap(rri, estate);
#else
	return rri->ri_RootToPartitionMap;
#endif
}

/*
 * Update the row at tid.  *indexes: index entries are due; *summarizing: only
 * those of summarizing indexes (16 and later).
 */
static inline TM_Result
cdc_table_tuple_update(Relation rel, ItemPointer tid, TupleTableSlot *slot, CommandId cid,
					   Snapshot snapshot, TM_FailureData *failure, bool *indexes,
					   bool *summarizing)
{
	LockTupleMode lockmode;
	TM_Result	result;

#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes update;

#if PG_VERSION_NUM >= 190000
	result = table_tuple_update(rel, tid, slot, cid, 0, snapshot, InvalidSnapshot, true, failure,
								&lockmode, &update);
#else
	result = table_tuple_update(rel, tid, slot, cid, snapshot, InvalidSnapshot, true, failure,
								&lockmode, &update);
#endif
	*indexes = result == TM_Ok && update != TU_None;
	*summarizing = result == TM_Ok && update == TU_Summarizing;
#else
	result = table_tuple_update(rel, tid, slot, cid, snapshot, InvalidSnapshot, true, failure,
								&lockmode, indexes);
	*summarizing = false;
#endif
	return result;
}

/* Delete the row at tid; wait for who else writes it, or leave it to them. */
static inline TM_Result
cdc_table_tuple_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot, bool wait,
					   TM_FailureData *failure)
{
#if PG_VERSION_NUM >= 190000
	return table_tuple_delete(rel, tid, cid, 0, snapshot, InvalidSnapshot, wait, failure);
#else
	return table_tuple_delete(rel, tid, cid, snapshot, InvalidSnapshot, wait, failure, false);
#endif
}

static inline List *
cdc_insert_index_tuples(ResultRelInfo *rri, TupleTableSlot *slot, EState *estate, bool update,
						bool *conflict, List *arbiters, bool summarizing)
{
#if PG_VERSION_NUM >= 190000
	uint32		flags = 0;

	if (update)
		flags |= EIIT_IS_UPDATE;
	if (conflict != NULL)
		flags |= EIIT_NO_DUPE_ERROR;
	if (summarizing)
		flags |= EIIT_ONLY_SUMMARIZING;
	return ExecInsertIndexTuples(rri, estate, flags, slot, arbiters, conflict);
#elif PG_VERSION_NUM >= 160000
	return ExecInsertIndexTuples(rri, slot, estate, update, conflict != NULL, conflict, arbiters,
								 summarizing);
#else
	return ExecInsertIndexTuples(rri, slot, estate, update, conflict != NULL, conflict, arbiters);
#endif
}

/* Does no row in the way hold slot's key?  Waits for writers in progress. */
static inline bool
cdc_check_index_constraints(ResultRelInfo *rri, TupleTableSlot *slot, EState *estate,
							ItemPointer conflict, List *arbiters)
{
#if PG_VERSION_NUM >= 180000
	ItemPointerData none;

	ItemPointerSetInvalid(&none);
	return ExecCheckIndexConstraints(rri, slot, estate, conflict, &none, arbiters);
#else
	return ExecCheckIndexConstraints(rri, slot, estate, conflict, arbiters);
#endif
}

static inline bool
cdc_before_update_triggers(EState *estate, EPQState *epq, ResultRelInfo *rri, ItemPointer tid,
						   TupleTableSlot *slot, TM_FailureData *failure)
{
#if PG_VERSION_NUM >= 180000
	TM_Result	result;

	return ExecBRUpdateTriggers(estate, epq, rri, tid, NULL, slot, &result, failure, false);
#elif PG_VERSION_NUM >= 160000
	TM_Result	result;

	return ExecBRUpdateTriggers(estate, epq, rri, tid, NULL, slot, &result, failure);
#else
	return ExecBRUpdateTriggers(estate, epq, rri, tid, NULL, slot, failure);
#endif
}

static inline bool
cdc_before_delete_triggers(EState *estate, EPQState *epq, ResultRelInfo *rri, ItemPointer tid)
{
#if PG_VERSION_NUM >= 180000
	return ExecBRDeleteTriggers(estate, epq, rri, tid, NULL, NULL, NULL, NULL, false);
#elif PG_VERSION_NUM >= 160000
	return ExecBRDeleteTriggers(estate, epq, rri, tid, NULL, NULL, NULL, NULL);
#else
	return ExecBRDeleteTriggers(estate, epq, rri, tid, NULL, NULL);
#endif
}

static inline void
cdc_epq_init(EPQState *epq, EState *estate)
{
#if PG_VERSION_NUM >= 160000
	EvalPlanQualInit(epq, estate, NULL, NIL, -1, NIL);
#else
	EvalPlanQualInit(epq, estate, NULL, NIL, -1);
#endif
}

#define cdc_after_delete_triggers(estate, rri, tid, capture) \
	ExecARDeleteTriggers(estate, rri, tid, NULL, capture, false)

#define cdc_after_update_triggers(estate, rri, tid, slot, recheck, capture) \
	ExecARUpdateTriggers(estate, rri, NULL, NULL, tid, NULL, slot, recheck, capture, false)

/* 19 wants a hand-made descriptor to be finished. */
#if PG_VERSION_NUM >= 190000
#define cdc_finalize_tuple_desc(desc)	TupleDescFinalize(desc)
#else
#define cdc_finalize_tuple_desc(desc)	((void) (desc))
#endif

/* 18 lets a minimal tuple have bytes before it. */
#if PG_VERSION_NUM >= 180000
#define cdc_form_minimal_tuple(desc, values, isnull) heap_form_minimal_tuple(desc, values, isnull, 0)
#else
#define cdc_form_minimal_tuple(desc, values, isnull) heap_form_minimal_tuple(desc, values, isnull)
#endif

/* 18 made the bytes unsigned. */
#if PG_VERSION_NUM >= 180000
#define cdc_b64_encode(src, len, dst, dstlen) \
	pg_b64_encode((const uint8 *) (src), len, dst, dstlen)
#define cdc_b64_decode(src, len, dst, dstlen) \
	pg_b64_decode(src, len, (uint8 *) (dst), dstlen)
#else
#define cdc_b64_encode(src, len, dst, dstlen)	pg_b64_encode(src, len, dst, dstlen)
#define cdc_b64_decode(src, len, dst, dstlen)	pg_b64_decode(src, len, dst, dstlen)
#endif

/* ---------- temporary files ---------- */

#include "storage/buffile.h"

/* 16 has a read that raises by itself. */
static inline void
cdc_file_read(BufFile *file, void *ptr, size_t size)
{
#if PG_VERSION_NUM >= 160000
	BufFileReadExact(file, ptr, size);
#else
	if (BufFileRead(file, ptr, size) != size)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from a temporary file")));
#endif
}

static inline void
cdc_file_write(BufFile *file, const void *ptr, size_t size)
{
	BufFileWrite(file, (void *) ptr, size);
}

#endif							/* CDC_COMPAT_H */
