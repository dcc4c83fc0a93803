/*-------------------------------------------------------------------------
 *
 * cdc_event_view.h
 *		What the files of cdc_event_view() share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_EVENT_VIEW_H
#define CDC_EVENT_VIEW_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/relcache.h"

#include "cdc_decode.h"

/* One column of a view. */
typedef struct CdcEventColumn
{
	char	   *name;
	char	   *expr;			/* SQL over the landing table */
	Oid			type;
	int32		typmod;
} CdcEventColumn;

/* A call of cdc_event_view(). */
typedef struct CdcEventView
{
	/* the arguments */
	char	   *view_name;
	Oid			target;
	Oid			raw;
	char	   *payload;
	List	   *source_table;	/* parts of its name; NIL: all events */
	char	   *op_name;
	char	   *position_name;
	char	   *commit_lsn;		/* or NULL */
	CdcModes	modes;

	Relation	rel;			/* the target */
	Relation	rawrel;			/* the landing table */
	char	   *name;			/* of the view */
	char	   *quoted;			/* with its schema */
	Oid			schema;
	bool		temp;
	List	   *columns;		/* of CdcEventColumn */
	Oid			view;			/* once it is there */
} CdcEventView;

/* in cdc_event_view_column.c */
extern void cdc_event_columns(CdcEventView *v);
extern char *cdc_event_filter(const CdcEventView *v);

#endif							/* CDC_EVENT_VIEW_H */
