#!/usr/bin/env python3
"""One batch, applied in every way: the way must not matter.

Each seed draws a target, its staging and options: one to three key columns of
26 types, values of all sorts, either home of the tombstones, partitions,
inheritance, dropped and generated columns, key changes, unchanged columns and
placeholders, snapshot rows with and without a position, and rows so wide that
their values go out of line. A first batch is applied, then a second one in each
way of WAYS, which roll back: rows, tombstones, counts and warnings must be the
same in all. Then it is applied for good; live and dead keys, their positions
and, where each event carries all values, the live values must be those of a
query in plain SQL over the log of events; the indexes must agree with their
tables (amcheck) and a replay must write nothing. Last, a complete snapshot of the
target's own rows must change nothing, and with some changed and some gone just these.

Needs a running server (PGHOST, PGPORT, PGUSER) with the extension installed.
"""
import argparse
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from batch import KEYS, POSITIONS, VALUES, Batch  # noqa: E402
from pg import Lost, PgError, Session  # noqa: E402

OPTIONS = '-c statement_timeout=60s -c jit=off -c client_min_messages=warning -c synchronous_commit=off'
COUNTS = 'events, inserted, updated, deleted, stale, duplicate, superseded, fenced, ignored, low_position, high_position'

SPILL = 'SET LOCAL cdc_precedence.debug_fold_events = %d'
TRIGGER = 'CREATE TRIGGER idle BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION idle()'
WAYS = {'as it is': ('s', []), 'view': ('sv', []), 'spill': ('s', [SPILL]), 'view + spill': ('sv', [SPILL]),
        'trigger': ('s', [TRIGGER]), 'trigger + spill': ('s', [TRIGGER, SPILL]),
        'pages asked ahead': ('s', ['SET LOCAL cdc_precedence.debug_prefetch = on']),
        'rows found one by one': ('s', ['SET LOCAL cdc_precedence.debug_scout = 0']),
        'rows found by threes': ('s', ['SET LOCAL cdc_precedence.debug_scout = 3']),
        'little memory': ('s', ['SET LOCAL enable_seqscan = off', "SET LOCAL work_mem = '64kB'"])}


class Fault(Exception):
    """Something that must not happen."""


class Refused(Exception):
    """The batch has a tie that is an error; there is nothing to compare any further."""


class Trial(Batch):
    """One seed: make, load, compare."""

    def __init__(self, session, seed, key_types, check_indexes):
        super().__init__(session, seed, key_types)
        self.check_indexes = check_indexes
        self.compared = 0

    def first_batch(self):
        """Makes everything and applies one batch for good."""
        r, s = self.rng, self.s
        s.run('DROP VIEW IF EXISTS sv; DROP TABLE IF EXISTS t, t_tombstones, s, sc, log, expected CASCADE')
        self.make_target()
        late = self.make_staging()
        self.attach()
        later = late.split()[0] if late else None
        self.load(r.choice([3, 30, 120]), [c for c in self.columns if c != later])
        if late:
            kind, values = VALUES[later]
            s.run('ALTER TABLE s ADD COLUMN %s%s' % (late, r.choice(['', ' DEFAULT %s::%s' % (values(r)[0], kind)])))
        s.run('CREATE VIEW sv AS SELECT * FROM s')
        self.load(r.choice([3, 30, 120]), self.columns)
        try:
            s.run("SELECT cdc_apply('t'%s)" % (", staging => 'sv'" if self.chance(0.5) else ''))
        except PgError as e:
            if e.code != '21000':
                raise
            raise Refused()

    def second_batch(self):
        r, s = self.rng, self.s
        s.run('CREATE TABLE log AS SELECT * FROM sv')
        self.kept = self.chance(0.7)
        if not self.kept:
            s.run('DELETE FROM s')
        self.load(r.choice([10, 60, 200]), self.columns)
        if self.chance(0.3):
            s.run('ANALYZE t; ANALYZE s')
        if self.chance(0.3):
            for _ in range(3):
                s.run('UPDATE t SET extra = extra + 1')

    # ------------------------------------------------------------ ways

    def content(self):
        """A digest of the rows and of the tombstones; the values of dead rows are no part of the law."""
        row = 't::text'
        dead = 'row(%s, source_position)::text' % ', '.join(self.keys)
        if self.home == 'row':
            row = "CASE WHEN deleted THEN 'dead ' || %s ELSE t::text END" % dead
        digest = "SELECT count(*), md5(string_agg(x, '|' ORDER BY x COLLATE \"C\")) FROM (SELECT %s AS x FROM %s) AS q"
        found = self.s.run(digest % (row, 't'))
        return found + self.s.run(digest % (dead, 't_tombstones')) if self.home == 'table' else found

    def one_way(self, staging, before, fold):
        """What the call did, to be compared; nothing of it stays."""
        s = self.s
        s.run('BEGIN')
        try:
            for sql in before:
                s.run(sql % fold if sql == SPILL else sql)
            s.notices.clear()
            counts = s.run("SELECT %s FROM cdc_apply('t', staging => '%s')" % (COUNTS, staging))[0]
            told = sorted((n.code, re.sub(r'\bsv\b', 's', n.message)) for n in s.notices)
            if sum(map(int, counts[1:9])) != int(counts[0]):
                raise Fault('outcomes do not add up: %s' % counts)
            return counts, told, self.content()
        except PgError as e:
            if e.code != '21000':
                raise
            return 'refused', e.code
        finally:
            if s.status != 'I':
                s.run('ROLLBACK')

    def compare(self):
        fold = self.rng.choice([1, 3, 17])
        first = None
        for name, (staging, before) in WAYS.items():
            found = self.one_way(staging, before, fold)
            first = first or found
            self.compared += 1
            if found != first:
                raise Fault('%s (spilling after %d): %s, but as it is: %s' % (name, fold, found, first))
        if first[0] == 'refused':
            raise Refused()

    # ------------------------------------------------------------ the oracle

    def expected(self):
        """SQL for the winner of each key in the whole log; a rank above 0 is streamed, of 2 and more an upsert."""
        kinds = [KEYS[t][0] for t in self.types]
        position = POSITIONS[self.position][2] or 'source_position'
        unplaced = "CASE WHEN op = 'r' AND '%s' = 'none' THEN NULL ELSE %s END" % (self.snapshots, position)
        new = ', '.join('%s::%s AS %s' % (k, kind, k) for k, kind in zip(self.keys, kinds))
        values = ', '.join(self.columns)
        events = "SELECT %s, %s AS p, op NOT IN ('d', '-U') AS live, CASE op WHEN 'r' THEN 0 WHEN '-U' THEN 1 " \
                 "WHEN 'd' THEN 2 ELSE 3 END AS rank, %s FROM log WHERE op <> 'zz'" % (new, unplaced, values)
        moved = [(k, o, kind) for k, o, kind in zip(self.keys, self.old, kinds) if o != k]
        if moved:
            old = ', '.join('coalesce(%s, %s)::%s' % (o, k, kind) for k, o, kind in
                            zip(self.keys, self.old, kinds))
            events += ' UNION ALL SELECT %s, %s, false, 1, %s FROM log WHERE op <> \'zz\' AND (%s)' % (
                old, position, values, ' OR '.join('%s::%s <> %s::%s' % (o, kind, k, kind) for k, o, kind in moved))
        keys = ', '.join(self.keys)
        return 'SELECT DISTINCT ON (%s) * FROM (%s) AS e ORDER BY %s, p DESC NULLS LAST, rank DESC' % (keys, events, keys)

    def oracle(self):
        s = self.s
        if self.kept:
            s.run('DELETE FROM log')
        s.run('INSERT INTO log SELECT * FROM sv')
        s.run('CREATE TABLE expected AS ' + self.expected())
        match = ' AND '.join('x.%s = o.%s' % (k, k) for k in self.keys) + ' AND x.source_position IS NOT DISTINCT FROM o.p'
        in_row = self.home == 'row'
        live_rows = '(SELECT * FROM t WHERE NOT deleted)' if in_row else 't'
        dead_rows = '(SELECT * FROM t WHERE deleted)' if in_row else 't_tombstones'
        for what, relation, live in (('live', live_rows, 'o.live'), ('dead', dead_rows, 'NOT o.live')):
            found = s.run('SELECT (SELECT count(*) FROM %s AS x), (SELECT count(*) FROM expected AS o WHERE %s), '
                          '(SELECT count(*) FROM %s AS x WHERE EXISTS (SELECT FROM expected AS o WHERE %s AND %s))'
                          % (relation, live, relation, live, match))[0]
            if len(set(found)) != 1:
                raise Fault('%s rows: %s, by plain SQL %s, both %s' % (what, *found))
        if self.unique and not self.gaps and not self.ignore_nulls:
            wrong = s.value('SELECT count(*) FROM t AS x JOIN expected AS o ON %s WHERE o.live AND o.p IS NOT NULL AND '
                            '(%s) IS DISTINCT FROM (%s)' % (match, ', '.join('x.' + c for c in self.columns),
                                                           ', '.join('o.' + c for c in self.columns)))
            if wrong != '0':
                raise Fault('%s live rows have other values than their winner' % wrong)

    def indexes(self):
        self.s.run("SELECT bt_index_check(c.oid, true) FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid "
                   "JOIN pg_am AS a ON a.oid = c.relam AND a.amname = 'btree' JOIN pg_class AS t ON t.oid = i.indrelid "
                   "WHERE c.relkind = 'i' AND t.relname ~ '^t' AND t.relnamespace = 'public'::regnamespace")

    def snapshot(self):
        """A complete copy of the live rows, its keys as they are or as text: nothing differs; then some do, and some are gone."""
        s, r = self.s, self.rng
        live = '(SELECT * FROM t WHERE NOT deleted)' if self.home == 'row' else 't'
        text = self.chance(0.5)
        s.run('BEGIN; SET LOCAL cdc_precedence.debug_fold_events = %d' % r.choice([0, 0, 1, 3]))
        if self.chance(0.3):
            s.run('SET LOCAL enable_indexscan = off')
        s.run('CREATE TABLE copy AS SELECT %s, %s, row_number() OVER (ORDER BY md5(x::text)) %% 3 AS part FROM %s x ORDER BY 1 + hashtext(x::text)' % (
            ', '.join('%s%s AS %s' % (k, '::text' if text else '', k) for k in self.keys), ', '.join(self.columns), live))
        n = int(s.value('SELECT count(*) FROM copy'))
        high = ['FFFFFFFE/0', 'FFFFFFFF/0'] if self.position in ('lsn', 'ordinal') else ['18446744073709551614', '18446744073709551615:1']
        column = r.choice(self.columns)
        for step in (0, 1) if n > 2 else ():
            gone, changed = 0, 0
            if step:
                gone, changed = map(int, s.run('SELECT count(*) FILTER (WHERE part = 0), count(%s) FILTER (WHERE part = 1) FROM copy' % column)[0])
                s.run('DELETE FROM copy WHERE part = 0; UPDATE copy SET %s = NULL WHERE part = 1' % column)
            got = s.run("SELECT updated, deleted, duplicate, events FROM cdc_apply_snapshot('t', 'copy', '%s', true, "
                        "max_delete_fraction => 1, on_schema_change => 'ignore')" % high[step])[0]
            want = [str(x) for x in (changed, gone, n - gone - changed, n)]
            left = s.value('SELECT count(*) FROM %s x' % live)
            if got != want or int(left) != n - gone:
                raise Fault('a snapshot of %d rows, keys %s: updated, deleted, duplicate, events are %s, and should be %s; %s rows left' % (
                    n, 'as text' if text else 'as they are', got, want, left))
        s.run('ROLLBACK')

    def go(self):
        self.first_batch()
        self.second_batch()
        self.compare()
        self.s.run("SELECT cdc_apply('t')")
        if self.same != 'rewrite':
            self.oracle()
        if self.check_indexes:
            self.indexes()
        again = self.s.run("SELECT inserted, updated, deleted FROM cdc_apply('t')")[0]
        if self.same != 'rewrite' and set(again) != {'0'}:
            raise Fault('a replay wrote: %s' % again)
        self.snapshot()


class Bench:
    """The database of a run; what the server does not have is said once."""

    def __init__(self):
        self.db = 'ways_%d' % os.getpid()
        self.key_types, self.check_indexes = list(KEYS), True
        self.admin('DROP DATABASE IF EXISTS %s WITH (FORCE)' % self.db)
        self.admin("CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'" % self.db)
        s = self.s = Session(self.db, OPTIONS)
        s.run('CREATE EXTENSION cdc_precedence')
        s.run('CREATE TYPE color AS ENUM (%s)' % ', '.join("'c%d'" % i for i in range(25)))
        s.run('CREATE DOMAIN natural_int AS int CHECK (VALUE >= 0); CREATE TYPE pair AS (a int, b text)')
        s.run("CREATE FUNCTION idle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'")
        self.check_indexes = self.optional('amcheck', 'CREATE EXTENSION amcheck')
        for key, what, sql in (('citext', 'citext', 'CREATE EXTENSION citext'),
                               ('icu', 'ICU', "CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', "
                                "deterministic = false)")):
            if not self.optional(what, sql):
                self.key_types.remove(key)

    @staticmethod
    def admin(sql):
        s = Session('postgres')
        s.run(sql)
        s.close()

    def optional(self, what, sql):
        try:
            self.s.run(sql)
            return True
        except PgError:
            print('ways: the server has no %s, done without' % what, flush=True)
            return False

    def seed(self, seed):
        """What is wrong with this seed, if anything; whether a tie ended it; how many ways were compared."""
        trial = Trial(self.s, seed, self.key_types, self.check_indexes)
        wrong, refused = None, False
        try:
            trial.go()
        except Refused:
            refused = True
        except Fault as e:
            wrong = str(e)
        except PgError as e:
            wrong = 'unexpected %s %s' % (e, e.where)
        except Lost as e:
            wrong = 'connection lost: %s' % e
            self.again()
        if wrong:
            wrong += '\n  keys %s, columns %s' % (', '.join(trial.types), ', '.join(trial.columns))
        if self.s.status != 'I':
            self.s.run('ROLLBACK')
        return wrong, refused, trial.compared

    def again(self):
        """A session after a crash, when the server is back."""
        for _ in range(60):
            time.sleep(0.5)
            try:
                self.s = Session(self.db, OPTIONS)
                return
            except (Lost, PgError):
                pass
        raise Lost('the server does not come back')

    def close(self):
        self.s.close()
        self.admin('DROP DATABASE IF EXISTS %s WITH (FORCE)' % self.db)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seconds', type=float, default=15, help='begin no seed after so long')
    p.add_argument('--first', type=int, default=1, help='the first seed')
    p.add_argument('--seed', type=int, help='this seed alone')
    p.add_argument('--max-failures', type=int, default=10, help='stop after so many failures')
    options = p.parse_args()
    begin, passed, failed, refused, compared = time.time(), 0, 0, 0, 0
    seed = options.first if options.seed is None else options.seed
    bench = Bench()
    try:
        while True:
            wrong, tie, ways = bench.seed(seed)
            refused, compared = refused + tie, compared + ways
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print('ways: seed %d: %s\n  alone: python3 test/law/ways.py --seed %d' % (seed, wrong, seed), flush=True)
            if options.seed is not None or failed >= options.max_failures or time.time() - begin > options.seconds:
                break
            seed += 1
    finally:
        bench.close()
    print('ways: seeds to %d, %d of them ended by a tie, %d calls compared, %.0f s' % (
        seed, refused, compared, time.time() - begin))
    print('ways: %d passed, %d failed' % (passed, failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
