/*-------------------------------------------------------------------------
 *
 * cdc_consume.h
 *		What becomes of rows of staging that were read, and how far it has been
 *		read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_CONSUME_H
#define CDC_CONSUME_H

#include "cdc_registry.h"

/* ---------- what becomes of rows that were read (cdc_consume.c) ---------- */

pg_noreturn extern void cdc_refuse_consume(const char *staging);
extern Oid	cdc_base_of_view(Relation view);
extern void cdc_refuse_foreign_rows(Relation staging, const char *consume);
extern void cdc_refuse_hidden_rows(Relation rel, Oid role, const char *consume);
extern bool cdc_consume_lock(Oid relid, bool nowait);
extern void cdc_consume_check(Relation staging, const CdcRule *rule);
extern void cdc_consume_check_rule(Relation staging, const CdcRule *rule);
extern void cdc_consume_truncate(Oid staging, int64 events, bool recount);

/* ---------- how far staging has been read (cdc_bookmark.c) ---------- */

/* The staging column that says which transaction loaded a row, unless it is named. */
#define CDC_BOOKMARK_COLUMN	"loaded_xid"

typedef struct CdcBookmark
{
	Oid			target;
	Oid			staging;
	Oid			table;			/* that staging's rows come from: itself, or below views */
	AttrNumber	attno;			/* its column that says who loaded a row */
	const char *filter;			/* staging_filter as recorded, or NULL */
	uint64		from;			/* rows of transactions below it were read before */
	uint64		to;				/* transactions below it have ended .. */
	uint64		beyond;			/* .. and none at or above it has begun */
	bool		passed;			/* a row between from and to was read */
} CdcBookmark;

extern AttrNumber cdc_bookmark_column(Relation staging, const char *name, bool visible,
									  CdcBookmark *mark);
extern void cdc_bookmark_read(CdcBookmark *mark, const CdcRule *rule, const char *filter);
extern void cdc_bookmark_push_snapshot(CdcBookmark *mark);
extern char *cdc_bookmark_condition(const CdcBookmark *mark, const char *column);
extern void cdc_bookmark_note(CdcBookmark *mark, TupleTableSlot *slot, int at);
extern void cdc_bookmark_move(CdcBookmark *mark);
extern void cdc_bookmark_forget(Oid target);
extern void cdc_bookmark_sweep(void);
extern const char *cdc_bookmark_look(const CdcRegistration *reg, Oid staging, uint64 *from);
extern const char *cdc_bookmark_unread(const CdcRegistration *reg, Relation staging);
extern uint64 cdc_bookmark_recorded(const CdcRegistration *reg, Relation staging);
extern bool cdc_bookmark_of_others(List *tables, List *known, uint64 *below);

#endif							/* CDC_CONSUME_H */
