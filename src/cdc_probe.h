/*-------------------------------------------------------------------------
 *
 * cdc_probe.h
 *		Keys looked up in the target's index and in its side table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_PROBE_H
#define CDC_PROBE_H

#include "cdc_apply.h"

/* ---------- keys in an index (cdc_probe.c) ---------- */

typedef struct CdcProbe CdcProbe;

extern CdcProbe *cdc_probe_begin(CdcTarget *target, Relation heap, Relation index,
								 const int *key_of);
extern void cdc_probe_rewind(CdcProbe *probe);
extern void cdc_probe_renew(CdcProbe *probe);
extern void cdc_probe_end(CdcProbe *probe);
extern bool cdc_probe_find(CdcProbe *probe, const Datum *keys, CdcFind how, TupleTableSlot *slot);
extern void cdc_probe_make_room(CdcProbe *probe, TupleTableSlot *slot);
extern IndexScanDesc cdc_probe_ahead_begin(CdcProbe *probe);
extern BlockNumber cdc_probe_ahead(CdcProbe *probe, IndexScanDesc scan, const Datum *keys);
extern bool cdc_probe_can_expect(const CdcProbe *probe);
extern void cdc_probe_expect(CdcProbe *probe, const ItemPointerData *tid);
extern int	cdc_probe_met(CdcProbe *probe);
extern bool cdc_probe_latest(Relation heap, Relation index, int nkeys, ScanKey keys,
							 TupleTableSlot *slot);

/* ---------- the side table (cdc_tombstone.c) ---------- */

extern void cdc_tombstones_check(const CdcTarget *target);
extern void cdc_tombstones_open(CdcTarget *target);
extern bool cdc_tombstones_find(CdcTarget *target, const Datum *keys, CdcFind how, CdcPos *pos);
extern void cdc_tombstones_rewind(CdcTarget *target);
extern void cdc_tombstones_put(CdcTarget *target, const Datum *keys, const uint8 *pos, int len);
extern void cdc_tombstones_remove(CdcTarget *target, const Datum *keys);
extern bool cdc_tombstones_any(Oid relid);
extern int64 cdc_tombstones_purge(Oid relid, const CdcPos *pos, bool above, int64 max_rows);
extern void cdc_tombstones_renew(CdcTarget *target);
extern void cdc_tombstones_close(CdcTarget *target);

#endif							/* CDC_PROBE_H */
