#!/usr/bin/env python3
"""Many sessions at once on a few attached targets: applies, purges, fences,
attaching and detaching, hand writes under the guard, renames, rewrites, drops
and re-creations. No answer may be an internal error (class XX), no session may
be lost, and when it is quiet again every target can be applied to, or says in
an ordinary error why not.

Needs a running server (PGHOST, PGPORT, PGUSER) with the extension installed.
"""
import argparse
import collections
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pg import Lost, PgError, Session  # noqa: E402

DB = 'commotion_%d' % os.getpid()
OPTIONS = '-c search_path=commotion,public -c jit=off -c client_min_messages=error -c deadlock_timeout=100ms ' \
    '-c statement_timeout=120s'
MAKE = {
    'row': "CREATE TABLE t_row (id integer PRIMARY KEY, val text, more integer)",
    'side': "CREATE TABLE t_side (id integer PRIMARY KEY, val text, more integer)",
    'part': "CREATE TABLE t_part (id integer PRIMARY KEY, val text, more integer) PARTITION BY HASH (id);"
            "CREATE TABLE t_part_0 PARTITION OF t_part FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
            "CREATE TABLE t_part_1 PARTITION OF t_part FOR VALUES WITH (MODULUS 2, REMAINDER 1)"}
STAGING = "CREATE TABLE s_%s (id integer, val text, more integer, op text, source_position cdc_position, " \
    "loaded_xid xid8 DEFAULT pg_current_xact_id())"


def attach(t, rest=''):
    return "SELECT cdc_attach('t_%s', 's_%s', tombstones => '%s'%s)" % (t, t, 'row' if t == 'row' else 'table', rest)


class Actor(threading.Thread):
    def __init__(self, seed, rough, stop):
        super().__init__(daemon=True)
        self.r, self.rough, self.ending = random.Random(seed), rough, stop
        self.codes = collections.Counter()
        self.wrong = []

    def statement(self):
        r = self.r
        t = r.choice(list(MAKE))
        at = "'0/%X'" % r.randint(1, 4000)
        k = r.randint(1, 40)
        usual = [
            "INSERT INTO s_%s SELECT 1 + random() * 40, random()::text, 1, (ARRAY['c','d','u'])[1 + random() * 2], "
            "('0/' || to_hex((random() * 4000)::integer + 1))::cdc_position FROM generate_series(1, 15)" % t,
            "SELECT cdc_apply('t_%s', on_tie => 'upsert', nowait => %s)" % (t, r.choice(['true', 'false'])),
            "SELECT cdc_apply('t_%s', 's_%s', on_tie => 'upsert', consume => '%s')" % (t, t, r.choice(['delete', 'truncate', 'bookmark'])),
            "SELECT cdc_purge_tombstones('t_%s', %s, max_rows => %s, force => true)" % (t, at, r.choice(['NULL', '3'])),
            "SELECT cdc_purge_tombstones('t_side', older_than => '0')",
            "SELECT cdc_set_fence('t_%s', %s)" % (t, r.choice([at, 'NULL'])),
            "SELECT cdc_set_floor('t_%s', NULL)" % t,
            "INSERT INTO t_%s (id, val) VALUES (%d, 'hand') ON CONFLICT DO NOTHING" % (t, k),
            "UPDATE t_%s SET more = more + 1 WHERE id < %d" % (t, k), "UPDATE t_%s SET id = %d WHERE id = %d" % (t, k, 41 - k),
            "DELETE FROM t_%s WHERE id = %d" % (t, k), "SELECT * FROM cdc_targets", "SELECT count(*) FROM t_%s" % t,
            "SELECT cdc_apply('t_%s', dry_run => true, on_tie => 'upsert')" % t]
        rough = [
            attach(t, ", guard => '%s'" % r.choice(['off', 'skip', 'error'])), attach(t, ", on_tie => 'upsert'"),
            "SELECT cdc_detach('t_%s')" % t, "SELECT cdc_detach('t_%s', true)" % t, attach(t),
            attach(t, ", live_view => 'live_%s'" % t), "DROP VIEW IF EXISTS live_%s" % t,
            "ALTER TABLE t_%s RENAME COLUMN val TO v2" % t, "ALTER TABLE t_%s RENAME COLUMN v2 TO val" % t,
            "ALTER TABLE t_%s RENAME COLUMN id TO k" % t, "ALTER TABLE t_%s RENAME COLUMN k TO id" % t,
            "ALTER TABLE t_%s ADD COLUMN x%d integer" % (t, k), "ALTER TABLE t_%s DROP COLUMN IF EXISTS x%d" % (t, k),
            "TRUNCATE t_%s" % t, "DROP TABLE t_%s CASCADE" % t, MAKE[t], MAKE[t] + ';' + attach(t),
            "DROP TABLE IF EXISTS s_%s" % t, STAGING % t, "VACUUM t_%s" % t, "VACUUM FULL t_%s" % t, "REINDEX TABLE t_%s" % t,
            "REINDEX TABLE CONCURRENTLY t_%s" % t, "CLUSTER t_%s USING t_%s_pkey" % (t, t), "ANALYZE t_%s" % t,
            "ALTER TABLE t_part DETACH PARTITION t_part_1", "DROP TABLE IF EXISTS t_part_1",
            "ALTER TABLE t_part DETACH PARTITION t_part_1 CONCURRENTLY",
            "ALTER TABLE t_part ATTACH PARTITION t_part_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
            "CREATE TABLE t_part_1 PARTITION OF t_part FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
            "DROP TABLE IF EXISTS t_%s_tombstones" % t, "ALTER TABLE t_%s RENAME TO away" % t, "ALTER TABLE away RENAME TO t_%s" % t,
            "ALTER TABLE t_%s OWNER TO postgres" % t, "SELECT cdc_new_epoch('t_%s')" % t]
        return r.choice(rough if r.random() < self.rough else usual)

    def run(self):
        r, s = self.r, None
        while not self.ending.is_set():
            try:
                s = s or Session(DB, OPTIONS, timeout=180)
                alone = None
                many = [self.statement() for _ in range(r.choice([1, 1, 1, 2, 3]))]
                if len(many) > 1 and not any(x.startswith(('VACUUM', 'REINDEX', 'CLUSTER')) or 'CONCURRENTLY' in x for x in many):
                    s.run('BEGIN ISOLATION LEVEL ' + r.choice(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE']))
                s.run('SET cdc_precedence.debug_fold_events = %d; SET cdc_precedence.debug_scout = %d' % (r.choice([0, 0, 3]), r.choice([-1, 0, 2, 64])))
                for sql in many:
                    alone = sql
                    s.run(sql)
                    self.codes['ok'] += 1
                if s.status != 'I':
                    s.run(r.choice(['COMMIT', 'COMMIT', 'ROLLBACK']))
            except PgError as e:
                self.codes[e.code] += 1
                if e.code[:2] in ('XX', '58', '57') and not self.servers_own(e, alone):
                    self.wrong.append('%s (%s:%s) %s by: %s' % (e, e.file, e.line, e.where[:200], alone))
                try:
                    if s.status != 'I':
                        s.run('ROLLBACK')
                except (Lost, PgError):
                    s = None
            except Lost as e:
                if not self.ending.is_set():
                    self.wrong.append('connection lost: %s, by: %s' % (e, alone))
                    time.sleep(1)
                s = None
        if s:
            s.close()

    @staticmethod
    def servers_own(e, sql):
        """Races of plain DDL that the server answers so by itself."""
        return 'cdc_' not in (sql or '') + e.where + e.file


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seconds', type=float, default=8)
    p.add_argument('--sessions', type=int, default=5)
    p.add_argument('--seed', type=int, default=None)
    options = p.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(10 ** 6)
    s = Session('postgres')
    s.run('CREATE DATABASE ' + DB)
    d = Session(DB, OPTIONS, timeout=180)
    d.run('CREATE EXTENSION cdc_precedence; CREATE SCHEMA commotion')
    for t in MAKE:
        d.run(MAKE[t] + ';' + STAGING % t)
        d.run(attach(t, ", guard => 'error'"))
    d.close()
    passed = failed = 0
    for phase, rough in (('writers', 0.0), ('writers and DDL', 0.3)):
        stop = threading.Event()
        actors = [Actor(seed * 100 + i, rough, stop) for i in range(options.sessions)]
        for a in actors:
            a.start()
        time.sleep(options.seconds / 2)
        stop.set()
        for a in actors:
            a.join(240)
        codes, wrong = sum((a.codes for a in actors), collections.Counter()), sum((a.wrong for a in actors), [])
        d = Session(DB, OPTIONS, timeout=180)
        for t in MAKE:
            try:
                d.run("SELECT cdc_apply('t_%s', 's_%s', on_tie => 'upsert')" % (t, t))
            except PgError as e:
                if e.code[:2] in ('XX', '57', '58'):
                    wrong.append('afterwards: %s' % e)
        d.close()
        for w in wrong[:8]:
            print('      ' + w)
        passed, failed = passed + (not wrong), failed + bool(wrong)
        print('%s commotion: %s: %d statements done; refused: %s' % (
            'FAIL ' if wrong else 'ok   ', phase, codes.pop('ok', 0),
            ', '.join('%d %s' % (n, c) for c, n in codes.most_common(8))), flush=True)
    s.run('DROP DATABASE %s WITH (FORCE)' % DB)
    print('commotion: seed %d\ncommotion: %d passed, %d failed' % (seed, passed, failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
