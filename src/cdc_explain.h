/*-------------------------------------------------------------------------
 *
 * cdc_explain.h
 *		What cdc_explain.c and its kin share: errors that become a reason, and
 *		the reasons.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_EXPLAIN_H
#define CDC_EXPLAIN_H

#include "utils/palloc.h"
#include "utils/resowner.h"

#include "cdc_write.h"

/* Something tried in a subtransaction of its own. */
typedef struct CdcTry
{
	MemoryContext context;
	ResourceOwner owner;
	bool		rights;			/* a lack of them is an answer too */
	int			code;			/* SQLSTATE of what was caught, */
	char	   *hint;			/* and its hint, or NULL */
} CdcTry;

extern void cdc_try_begin(CdcTry *try);
extern void cdc_try_end(CdcTry *try);
extern char *cdc_key_json(const CdcTarget *target, const Datum *values, const bool *isnull,
						  const Oid *types);
extern char *cdc_try_caught(CdcTry *try, const char *column);
pg_noreturn extern void cdc_try_rethrow(CdcTry *try);

/* ---------- reasons (cdc_reason.c) ---------- */

/* What is known of the key whose events are told. */
typedef struct CdcToldKey
{
	Datum	   *keys;
	bool		known;			/* keys are */
	int64		number;			/* of the winner; 0: no event is it */
	CdcPos		pos;			/* of the winner */
	int			placed;			/* how much of it counts */
	CdcClass	class;
	bool		moved_away;		/* it is the delete that a key move leaves */
	CdcJudged	judged;
	char	   *error;			/* or why it could not be judged */
	bool		tied;			/* which is an event at its position as well */
	MemoryContext context;		/* of keys and error */
} CdcToldKey;

extern const char *cdc_reason(const CdcTarget *target, const CdcToldKey *group);
extern const char *cdc_reason_superseded(const CdcTarget *target, const CdcToldKey *group,
										 const CdcPos *pos, int placed);

/* ---------- deletes that a filter leaves out (cdc_filtered.c) ---------- */

extern int64 cdc_filtered_deletes(Oid relid, Oid staging, const char *filter, char **example);

#endif							/* CDC_EXPLAIN_H */
