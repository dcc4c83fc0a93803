#!/usr/bin/env python3
"""A steady stream of applies, and what else goes on in a database meanwhile.

  vacuum  two appliers and a hand writer (under the guard) per target, in both
          homes and partitioned, at all isolation levels, with an eager and slow
          autovacuum: it gets around to every table, and no task
          of it is cancelled.
  ddl     the same beside VACUUM FULL, CLUSTER, indexes built, rebuilt and
          dropped CONCURRENTLY, columns that come and go, partitions detached and
          attached again.

After each the targets are what the law makes of the events that were loaded
(storm.sql), a replay of all changes nothing, and pg_amcheck finds every row in
every index.

Needs a running server (PGHOST, PGPORT, PGUSER) with autovacuum_naptime = 1s and
deadlock_timeout = 200ms: an autovacuum that stands in somebody's way is
cancelled after that.
"""
import argparse
import collections
import os
import random
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, '..'))
import crash  # noqa: E402
from crash import verdict  # noqa: E402
from pg import Lost, PgError, Session  # noqa: E402

TARGETS = ['row', 'side', 'part']
VACUUMED = ['t_row', 't_side', 't_side_tombstones', 't_part_0', 't_part_1', 't_part_tombstones']
KEYS = 2000
# a vacuum of fifty pages takes longer than deadlock_timeout
EAGER = "autovacuum_vacuum_threshold = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 10, " \
    "autovacuum_vacuum_cost_limit = 10"
SETUP = """
SET search_path = storm, public;
SELECT setval('loaded', 1000);
-- a row by hand stands beside an older tombstone: the greater of the two counts
CREATE OR REPLACE VIEW state_side AS SELECT DISTINCT ON (id) * FROM (
  SELECT id, true AS live, cdc_position_lsn(source_position) AS lsn, val FROM t_side
  UNION ALL SELECT id, false, cdc_position_lsn(source_position), NULL FROM t_side_tombstones) x ORDER BY id, lsn DESC;
CREATE OR REPLACE VIEW state_part AS SELECT DISTINCT ON (id) * FROM (
  SELECT id, true AS live, cdc_position_lsn(source_position) AS lsn, val FROM t_part
  UNION ALL SELECT id, false, cdc_position_lsn(source_position), NULL FROM t_part_tombstones) x ORDER BY id, lsn DESC;
"""
# n events of a target, which are in the log from then on
LOAD = """
WITH n AS (INSERT INTO log SELECT e, 1 + (random() * {keys})::integer, CASE WHEN random() < 0.1 THEN 1 + (random() * {keys})::integer END,
             CASE WHEN random() < {dead} THEN 'd' ELSE 'u' END, md5(e::text) FROM (SELECT nextval('loaded') AS e FROM generate_series(1, {n})) x
           RETURNING *),
     d AS (INSERT INTO done SELECT '{t}', eid FROM n)
"""
LEVELS = ['READ COMMITTED', 'READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE']


class Actor(threading.Thread):
    """One session that does something again and again."""

    servers_own = ()

    def __init__(self, seed, stop, allowed):
        super().__init__(daemon=True)
        self.r, self.ending, self.allowed = random.Random(seed), stop, allowed
        self.codes = collections.Counter()
        self.wrong = []

    def run(self):
        s = Session('stream', crash.PATH, timeout=120)
        try:
            while not (self.ending.is_set() and self.idle()):
                try:
                    self.step(s)
                    self.codes['ok'] += 1
                except PgError as e:
                    self.codes[e.code] += 1
                    if s.status != 'I':
                        s.run('ROLLBACK')
                    if e.code not in self.allowed and e.message not in self.servers_own:
                        self.wrong.append('%s %s: %s (%s)' % (type(self).__name__, e, e.detail, e.where[:200]))
                        return
        except Lost as e:
            self.wrong.append('connection lost: %s' % e)
        s.close()

    def idle(self):
        return True


class Applier(Actor):
    """Loads a batch, then applies it: at once or after the next, some of it twice."""

    def __init__(self, t, i, *rest):
        super().__init__(*rest)
        self.t, self.staging, self.waiting = t, 's_%s_%d' % (t, i), 0

    def idle(self):
        return self.waiting == 0

    def step(self, s):
        r = self.r
        if self.waiting == 0 or (self.waiting < 3 and r.random() < 0.4 and not self.ending.is_set()):
            s.run('BEGIN;' + LOAD.format(t=self.t, n=r.choice([20, 100, 300]), keys=KEYS, dead=0.2) +
                  'INSERT INTO %s SELECT eid, id, old_id, op, val, lsn_of(eid), 0 FROM n; COMMIT' % self.staging)
            self.waiting += 1
            return
        s.run("BEGIN ISOLATION LEVEL %s; SELECT events FROM cdc_apply('t_%s', '%s', on_schema_change => 'ignore'); COMMIT"
              % (r.choice(LEVELS), self.t, self.staging))
        s.run('DELETE FROM %s WHERE random() < 0.97' % self.staging)
        self.waiting = 0


class Hand(Actor):
    """A good citizen: writes rows with the position of the change."""

    # ON CONFLICT beside a REINDEX CONCURRENTLY of a partition, up to PostgreSQL 18; so too its 23505
    servers_own = ('invalid arbiter index list',)

    def __init__(self, t, *rest):
        super().__init__(*rest)
        self.t = t

    def step(self, s):
        live = ', deleted = false' if self.t == 'row' else ''
        s.run('BEGIN ISOLATION LEVEL %s;' % self.r.choice(LEVELS) + LOAD.format(t=self.t, n=self.r.choice([1, 3]), keys=KEYS, dead=0)
              .replace('CASE WHEN random() < 0.1 THEN 1 + (random() * %d)::integer END' % KEYS, 'NULL') +
              "INSERT INTO t_%s AS t (id, val, source_position) SELECT DISTINCT ON (id) id, val, lsn_of(eid) FROM n ORDER BY id, eid DESC "
              "ON CONFLICT (id) DO UPDATE SET val = EXCLUDED.val, source_position = EXCLUDED.source_position%s "
              "WHERE cdc_supersedes(EXCLUDED.source_position, t.source_position)" % (self.t, live))
        time.sleep(self.r.random() * 0.01)
        s.run(self.r.choice(['COMMIT', 'COMMIT', 'ROLLBACK']))
        time.sleep(self.r.random() * 0.05)


class Ddl(Actor):
    def step(self, s):
        t = self.r.choice(TARGETS)
        part = self.r.choice(['t_part_0', 't_part_1'])
        table = t if t != 'part' else self.r.choice(['part_0', 'part_1'])
        what = self.r.choice([
            ['ALTER TABLE t_%s ADD COLUMN IF NOT EXISTS x%d integer DEFAULT 5' % (t, self.r.randint(1, 3))],
            ['ALTER TABLE t_%s DROP COLUMN IF EXISTS x%d' % (t, self.r.randint(1, 3))],
            ['DROP INDEX CONCURRENTLY IF EXISTS i_%s' % table,
             'CREATE INDEX CONCURRENTLY i_%s ON t_%s (val)' % (table, table)],
            ['DROP INDEX CONCURRENTLY IF EXISTS u_%s' % table,
             'CREATE UNIQUE INDEX CONCURRENTLY u_%s ON t_%s (id) INCLUDE (val)' % (table, table)],
            ['REINDEX TABLE CONCURRENTLY t_' + table], ['REINDEX TABLE CONCURRENTLY t_%s_tombstones' % self.r.choice(['side', 'part'])],
            ['VACUUM FULL t_' + table], ['VACUUM t_' + table], ['CLUSTER t_%s USING t_%s_pkey' % (table, table)],
            ['VACUUM FULL t_%s_tombstones' % self.r.choice(['side', 'part'])],
            ['ALTER TABLE t_part DETACH PARTITION ' + part, 'ATTACH'],
            ['ALTER TABLE t_part DETACH PARTITION %s CONCURRENTLY' % part, 'ATTACH']])
        for sql in what:
            while True:
                try:
                    s.run(sql if sql != 'ATTACH' else 'ALTER TABLE t_part ATTACH PARTITION %s FOR VALUES WITH (MODULUS 2, REMAINDER %s)'
                          % (part, part[-1]))
                    break
                except PgError as e:
                    # a detached partition must come back; what was broken off in the middle is finished
                    self.codes[e.code] += 1
                    if e.code != '40P01' or sql != 'ATTACH':
                        raise
        time.sleep(self.r.random() * 0.1)


def watch(stop, seen):
    """How often an autovacuum was seen at work while applies were."""
    s = Session('stream', timeout=60)
    while not stop.is_set():
        seen.append(int(s.value("SELECT count(*) FROM pg_stat_progress_vacuum")))
        time.sleep(0.1)
    s.close()


def vacuums(s, after=1.5):
    time.sleep(after)                   # statistics come a moment later
    return {t: int(n) for t, n in s.run(
        "SELECT relname, autovacuum_count FROM pg_stat_all_tables WHERE schemaname = 'storm' AND relname = ANY ('{%s}')"
        % ','.join(VACUUMED))}


def settled(s, name):
    """The targets against the law; then all events once more."""
    for t in TARGETS:
        n = s.value("SELECT count(*) FROM done WHERE target = '%s'" % t)
        wrong = s.value("SELECT wrong('%s')" % t)
        s.run("TRUNCATE s_%s; INSERT INTO s_%s SELECT l.eid, l.id, l.old_id, l.op, l.val, lsn_of(l.eid), 0 FROM log l JOIN done d USING (eid) "
              "WHERE d.target = '%s' ORDER BY random()" % (t, t, t))
        written = s.value("SELECT inserted + updated + deleted FROM cdc_apply('t_%s')" % t)
        again = s.value("SELECT wrong('%s')" % t)
        verdict((wrong, written, again) == ('0', '0', '0'), '%s: t_%s: %s events, %s keys not as the law says; a replay wrote %s, then %s' % (
            name, t, n, wrong, written, again))


def phase(name, options, seed, seconds, with_ddl):
    allowed = ('40001', '40P01', '23514') if with_ddl else ('40001',)
    stop, seen = threading.Event(), []
    actors = [Applier(t, i, seed + str(i), stop, allowed) for t in TARGETS for i in (1, 2)]
    actors += [Hand(t, seed + t, stop, allowed + (('23000', '23505') if with_ddl else ('23000',))) for t in TARGETS]
    if with_ddl:
        ddl = [Ddl(seed, stop, ('40P01', '40001'))]
    s = Session('stream', crash.PATH, timeout=120)
    before, at = vacuums(s), os.path.getsize(options.log)
    watcher = threading.Thread(target=watch, args=(stop, seen))
    watcher.start()
    for a in actors:
        a.start()
    if with_ddl:
        ddl[0].start()
    end = time.time() + seconds
    while time.time() < end and not any(a.wrong for a in actors):
        time.sleep(0.2)
    # where the machine is slow, autovacuum gets around later: what counts is that it does while the applies go on
    while not with_ddl and time.time() < end + 180 and not any(a.wrong for a in actors) and \
            any(n == before[t] for t, n in vacuums(s, 0.5).items()):
        pass
    if with_ddl:                        # leaves all partitions attached, without which appliers cannot finish
        ddl[0].ending = threading.Event()
        ddl[0].ending.set()
        ddl[0].join(120)
        actors += ddl
    stop.set()
    for a in actors:
        a.join(120)
    watcher.join(60)
    wrong = sum((a.wrong for a in actors), [])
    for w in wrong[:5]:
        print('      ' + w)
    codes = sum((a.codes for a in actors), collections.Counter())
    applies = sum(a.codes['ok'] for a in actors if isinstance(a, Applier))
    verdict(not wrong and not any(a.is_alive() for a in actors), '%s: %d s, %d steps of appliers, %d of others; told to try again: %s' % (
        name, seconds, applies, codes.pop('ok') - applies, ', '.join('%d %s' % (n, c) for c, n in codes.most_common()) or 'none'))
    if not with_ddl:
        after = vacuums(s)
        with open(options.log, errors='replace') as f:
            f.seek(at)
            cancelled = f.read().count('canceling autovacuum task')
        rose = {t: after[t] - before[t] for t in VACUUMED}
        verdict(min(rose.values()) >= 1 and cancelled == 0, '%s: autovacuums done: %s; seen at work in %d of %d looks; %d cancelled' % (
            name, ', '.join('%d of %s' % (n, t) for t, n in rose.items()), sum(x > 0 for x in seen), len(seen), cancelled))
    settled(s, name)
    s.close()
    crash.amcheck(options)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seconds', type=float, default=20, help='for both parts together')
    p.add_argument('--seed', type=int, default=None)
    p.add_argument('--log', required=True, help="the server's log file")
    p.add_argument('--bin', required=True, help="the server's programs")
    options = p.parse_args()
    options.db = 'stream'
    seed = str(options.seed if options.seed is not None else random.randrange(10 ** 6))
    print('stream: seed ' + seed, flush=True)
    s = Session('postgres')
    s.run('CREATE DATABASE stream')
    s.close()
    s = Session('stream', timeout=60)
    s.run(open(os.path.join(HERE, 'storm.sql'), encoding='utf-8').read())
    s.run(SETUP)
    for t in TARGETS:
        s.run(';'.join('CREATE TABLE s_%s_%d (LIKE s_%s)' % (t, i, t) for i in (1, 2)))
        # an apply from a staging that is not the attached one
        s.run("SELECT cdc_apply('t_%s', dry_run => true)" % t)
    for t in VACUUMED:
        s.run('ALTER TABLE %s SET (%s)' % (t, EAGER))
    s.close()
    phase('vacuum', options, seed, options.seconds * 0.6, False)
    phase('ddl', options, seed + 'd', options.seconds * 0.4, True)
    s = Session('postgres')
    s.run('DROP DATABASE stream WITH (FORCE)')
    s.close()
    print('stream: %d passed, %d failed' % (crash.passed, crash.failed))
    return 1 if crash.failed else 0


if __name__ == '__main__':
    sys.exit(main())
