/*-------------------------------------------------------------------------
 *
 * cdc_call.h
 *		What cdc_apply.c, cdc_snapshot.c and cdc_explain.c share: one call and
 *		its phases.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_CALL_H
#define CDC_CALL_H

#include "cdc_registry.h"
#include "cdc_runs.h"

typedef struct CdcApply
{
	CdcArgs		args;
	bool		explain;		/* set by the caller: nothing is written, by who may read */
	bool		any_log;		/* nor need the positions be of the declared log */
	bool		no_log;			/* nor is staging needed */
	CdcRule		rule;
	CdcRegistration reg;
	Relation	target_rel;
	Relation	staging_rel;
	CdcTarget	target;
	CdcColumns	cols;
	CdcReadResult read;
	CdcWriteResult write;
	bool		in_group;		/* after-triggers are fired by the caller */
	bool		skipped;
} CdcApply;

extern bool cdc_call_open(CdcApply *apply, List **fed);
extern void cdc_call_begin_target(CdcApply *apply);
extern void cdc_call_judge_batch(CdcApply *apply);
extern void cdc_call_sum_up(CdcApply *apply, CdcApplied *applied);

/* in cdc_apply_record.c */
extern void cdc_call_record(CdcApply *apply, List *fed);
extern void cdc_call_record_run(CdcApply *apply, CdcRun *run, const CdcApplied *applied);

#endif							/* CDC_CALL_H */
