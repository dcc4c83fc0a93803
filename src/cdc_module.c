/*-------------------------------------------------------------------------
 *
 * cdc_module.c
 *		Where a reader starts: the module's magic block and the map of src/.
 *
 * For one key, the change with the greatest source-log position wins,
 * whatever the order, number of times or batches in which changes arrive.
 *
 *	cdc_compat.h	differences between server majors, and nothing else
 *	cdc_position	parse, print, pack, compare on plain C values: a pure core
 *	cdc_type		SQL face of the type: in and out, operators, casts, pieces
 *	cdc_source		positions out of what each source calls its coordinates
 *	cdc_aggregate	latest_by_position
 *	cdc_law			the truth table: what an event does to a stored row
 *	cdc_op			what a source calls insert, update, delete ..
 *	cdc_rule		the rule of a call: its parameters, read and checked
 *	cdc_target		open, lock and check the target; its key, its tombstones
 *	cdc_column		which staging column goes into which target column, and how
 *	cdc_read		read the events of staging
 *	cdc_fold		one winner per key of a batch
 *	cdc_image		stored images of rows, compared column by column
 *	cdc_write		find the stored row, judge, write; concurrent changes
 *	cdc_report		names of outcomes, error context, clipped values
 *	cdc_apply		the SQL entry point: phases in order, the result row
 *
 * Calls go one way: apply -> rule target read fold write report;
 * write -> target law image report; read, fold -> op column report;
 * everything -> type, position; position -> postgres.h only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "cdc_compat.h"

CDC_MODULE_MAGIC("cdc_precedence", CDC_PRECEDENCE_VERSION);
