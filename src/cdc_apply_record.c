/*-------------------------------------------------------------------------
 *
 * cdc_apply_record.c
 *		What a call of cdc_apply() records: of its target, and of itself.
 *
 * Locks: the target's apply lock is held by the caller.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cdc_attach.h"
#include "cdc_call.h"
#include "cdc_runs.h"

/*
 * What this call adds to what is recorded of the target; a replay adds
 * nothing and writes nothing.
 */
void
cdc_call_record(CdcApply *apply, List *fed)
{
	CdcRegistration reg;
	const CdcPos *high = &apply->read.high;
	const CdcPos *truncate = &apply->target.truncate;

	if (!apply->reg.state.exists || apply->rule.dry_run ||
		(cdc_pos_compare(high->bytes, high->len, apply->reg.high.bytes, apply->reg.high.len) <= 0 &&
		 truncate->len == 0 && fed == NIL))
		return;

	/* code of triggers may have changed it meanwhile */
	cdc_registry_read(apply->rule.target, &reg);
	if (!reg.state.exists)
		return;
	if (cdc_pos_compare(high->bytes, high->len, reg.high.bytes, reg.high.len) > 0 ||
		(high->len > 0 && reg.high.len > 0 &&
		 cdc_position_kind_of(high->bytes) != cdc_position_kind_of(reg.high.bytes)))
		cdc_registry_set_position(&reg, STATE_HIGH_POSITION, high);
	if (cdc_pos_compare(truncate->bytes, truncate->len, reg.horizon.fence.bytes,
						reg.horizon.fence.len) > 0)
		cdc_registry_set_position(&reg, STATE_FENCE, truncate);
	if (fed != NIL)
		cdc_registry_set_fed(&reg, fed);
	cdc_registry_put_state(&reg);
}

/* What the log of runs keeps of a call; a replay writes nothing else. */
void
cdc_call_record_run(CdcApply *apply, CdcRun *run, const CdcApplied *applied)
{
	if (!apply->rule.attached || apply->rule.dry_run || applied->skipped)
		return;
	run->target = apply->rule.target;
	run->staging = cdc_quoted_relation(apply->rule.staging);
	run->applied = applied;
	if (applied->events > 0)
		cdc_run_end(run);
	else if (cdc_rule_recorded_staging(&apply->reg, NoLock, true) == apply->rule.staging)
		cdc_run_seen_empty(run->target);
}
