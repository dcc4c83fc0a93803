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

/* 18 lets a module say its name and version. */
#ifdef PG_MODULE_MAGIC_EXT
#define CDC_MODULE_MAGIC(module_name, module_version) \
	PG_MODULE_MAGIC_EXT(.name = module_name, .version = module_version)
#else
#define CDC_MODULE_MAGIC(module_name, module_version) PG_MODULE_MAGIC
#endif

#endif							/* CDC_COMPAT_H */
