/*
 * A module for the fuzzer alone: lets SQL hand bytes to the deserializer of
 * latest_by_position, which otherwise only parallel plans reach.
 *
 *	fuzz_save_final(internal, anyelement, cdc_position) returns bytea
 *		the end of an aggregate that gives the serialized state
 *	fuzz_load_step(internal, bytea) returns internal
 *		deserializes, and combines with what came before
 *	fuzz_load_final(internal) returns bytea
 *		serializes what came out of it
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/pg_list.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(fuzz_save_final);
PG_FUNCTION_INFO_V1(fuzz_load_step);
PG_FUNCTION_INFO_V1(fuzz_load_final);

/* Call a support function of the aggregate in the aggregate's own context. */
static Datum
call(FunctionCallInfo outer, const char *name, int nargs, Oid *types, NullableDatum a, NullableDatum b,
	 bool *isnull)
{
	LOCAL_FCINFO(fcinfo, 2);
	FmgrInfo	flinfo;
	Datum		result;

	fmgr_info(LookupFuncName(list_make1(makeString(pstrdup(name))), nargs, types, false), &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, nargs, InvalidOid, outer->context, NULL);
	fcinfo->args[0] = a;
	fcinfo->args[1] = b;
	result = FunctionCallInvoke(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
}

Datum
fuzz_save_final(PG_FUNCTION_ARGS)
{
	Oid			types[1] = {INTERNALOID};
	NullableDatum none = {0, true};
	bool		isnull;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(call(fcinfo, "latest_by_position_serial", 1, types, fcinfo->args[0], none, &isnull));
}

Datum
fuzz_load_step(PG_FUNCTION_ARGS)
{
	Oid			two_types[2] = {BYTEAOID, INTERNALOID};
	Oid			both_types[2] = {INTERNALOID, INTERNALOID};
	NullableDatum loaded = {0, false};
	NullableDatum dummy = {0, false};
	bool		isnull;
	Datum		result;

	loaded.value = call(fcinfo, "latest_by_position_deserial", 2, two_types, fcinfo->args[1], dummy, &isnull);
	loaded.isnull = isnull;
	result = call(fcinfo, "latest_by_position_combine", 2, both_types, fcinfo->args[0], loaded, &isnull);
	if (isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(result);
}

Datum
fuzz_load_final(PG_FUNCTION_ARGS)
{
	return fuzz_save_final(fcinfo);
}
