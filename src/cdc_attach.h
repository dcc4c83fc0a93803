/*-------------------------------------------------------------------------
 *
 * cdc_attach.h
 *		What the files of cdc_attach() share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_ATTACH_H
#define CDC_ATTACH_H

#include "postgres.h"

#include "storage/lock.h"

#include "cdc_registry.h"

typedef enum CdcHome
{
	CDC_HOME_AUTO, CDC_HOME_ROW, CDC_HOME_TABLE
} CdcHome;

typedef struct CdcAttach
{
	/* the call; NULL leaves a thing as it is */
	CdcArgs		given;			/* the rule's parameters */
	CdcHome		home;
	const char *guard;			/* off, skip or error */
	const char *live_view;
	const char *lineage;
	CdcPos		as_of;			/* len 0: not given */
	bool		has_epoch;
	int64		epoch;

	/* what is there */
	Oid			relid;
	Relation	rel;			/* the target; NULL while DDL runs */
	Relation	staging;		/* as given or recorded; NULL without one */
	CdcRegistration reg;
	CdcRule		rule;			/* given, completed by what is recorded */
	CdcTarget	target;
	bool		side;			/* tombstones stand in a side table */

	/* what is to be done */
	const char *add_position;	/* column to add, or NULL */
	const char *add_tombstone;
	const char *add_marks;
	bool		drop_guard;		/* its triggers */
	bool		create_guard;
} CdcAttach;

/* in cdc_attach.c */
extern Relation cdc_attach_open(Oid relid, LOCKMODE lockmode);

/* in cdc_attach_ddl.c */
extern void cdc_ddl(const char *format,...) pg_attribute_printf(1, 2);
extern char *cdc_quoted_relation(Oid relid);
extern bool cdc_lock_if_there(Oid relid, LOCKMODE lockmode);
pg_noreturn extern void cdc_refuse_meddling(const char *what, const char *name);
extern void cdc_give_to(Oid relid, Oid owner);
extern void cdc_attach_plan_columns(CdcAttach *a);
extern void cdc_attach_add_columns(CdcAttach *a);
extern char *cdc_collation_name(Oid collation);
extern char *cdc_opclass_name(Oid opclass);
extern oidvector *cdc_index_opclasses(Oid index);
extern bool cdc_side_table_exists(const CdcRegistration *reg);
extern bool cdc_is_side_column(const char *name);
extern bool cdc_is_side_shaped(Oid relid);
extern Oid	cdc_owner_of(Oid relid);
extern Oid	cdc_attach_create_side_table(CdcAttach *a);

/* in cdc_attach_guard.c */
extern void cdc_attach_plan_guard(CdcAttach *a);
extern void cdc_attach_set_guard(CdcAttach *a);
extern bool cdc_attach_guard_exists(Relation rel);
extern void cdc_attach_drop_guard(Oid relid);

/* in cdc_attach_record.c */
extern void cdc_attach_record(CdcAttach *a, Oid live_view);

/* in cdc_live_view.c */
extern Oid	cdc_live_view_make(CdcAttach *a, Oid recorded);

#endif							/* CDC_ATTACH_H */
