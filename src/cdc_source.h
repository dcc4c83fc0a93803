/*-------------------------------------------------------------------------
 *
 * cdc_source.h
 *		What sources call their coordinates, as numbers.
 *
 * The first part is pure, as cdc_position.h is (cdc_source_text.c): text in,
 * numbers out, no fmgr, no catalog, no memory, no error raised.  Texts need
 * not be terminated.  The second part raises (cdc_source.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef CDC_SOURCE_H
#define CDC_SOURCE_H

#include "cdc_position.h"

/* ---------- pure ---------- */

/* Digits, and nothing else. */
extern CdcPositionError cdc_source_number(const char *text, int len, uint64 *value);

/* Digits of base 16, at most max_digits (<= 16), and nothing else. */
extern bool cdc_source_hex(const char *text, int len, int max_digits, uint64 *value);

/* Is it a GTID, or a list of them, of MySQL, MariaDB or Vitess? */
extern bool cdc_source_is_gtid(const char *text, int len);

/* The number at the end of a binlog file's name. */
extern CdcPositionError cdc_source_binlog_file(const char *text, int len, uint64 *number);

/* An LSN of 10 bytes: a:b:c, 0x.. or 20 hex digits; 4, 4 and 2 bytes of it. */
extern bool cdc_source_sqlserver_lsn(const char *text, int len, uint64 *parts);

/* An LSN of Db2, 10 or 16 bytes: the upper and the lower half of 16 bytes. */
extern bool cdc_source_db2_lsn(const char *text, int len, uint64 *parts);

/* Oracle's rs_id: three hex numbers with dots between, padded or not. */
extern bool cdc_source_rs_id(const char *text, int len, uint64 *parts);

/*
 * BigQuery's change sequence number: one to four hex numbers of up to 16
 * digits with slashes between.  lsn_headed: the first is an LSN.
 */
extern CdcPositionError cdc_source_csn_parse(const char *text, int len, bool lsn_headed,
											 CdcPosition *p);

/* Its sections, and the room that the text of that many takes, terminated. */
#define CDC_CSN_SECTIONS	4
#define CDC_CSN_MAX_TEXT	(CDC_CSN_SECTIONS * 17)

/* The way back: the length, or -1 where there is no room for p. */
extern int	cdc_source_csn_print(const CdcPosition *p, char *out);

/* ---------- raising ---------- */

/*
 * What is given, one of name's value: the error says what it is and where it
 * came from.  The text must be terminated here.
 */
extern uint64 cdc_part_from_binlog_file(const char *text, const char *name);
extern void cdc_parts_from_sqlserver_lsn(const char *text, const char *name, uint64 *parts);

/* A blank rs_id is none: the parts are left as they are. */
extern void cdc_parts_from_rs_id(const char *text, const char *name, uint64 *parts);

/* Whole number, 0 .. 2^64-1?  5.00 is one. */
extern bool cdc_part_try_numeric(Datum value, uint64 *part);

/* Parts without those that are zero at the end, as a position. */
extern Datum cdc_value_from_parts(CdcPosition *p, int nparts);

extern void cdc_refuse_gtid(const char *text);

#endif							/* CDC_SOURCE_H */
