#!/usr/bin/env python3
"""column_positions: values that events leave out, delivered in any order.

Each seed makes a source that really holds rows, and a log of what happened to
them in which an update tells only what it changed: by a placeholder, by a list
of the others, or by NULLs that mean no change. Keys are deleted and made again,
truncated, moved to other keys with all their values, and some stand in a
snapshot without a position. The log is delivered in random order, cut into
calls, with some events twice. After every call rows, values and marks must be
those that a query in plain SQL finds in what was delivered so far: of each
column the last event that carries it, unless its row was deleted since. At the
end the target must hold what the source holds; the whole log once more must
write nothing, also after a purge of all that is dead.

Histories with moves that leave values out are delivered in the order of the
log, shuffled within each call: that is what holds across keys.

Needs a running server (PGHOST, PGPORT, PGUSER) with the extension installed.
"""
import argparse
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pg import Lost, PgError, Session  # noqa: E402

OPTIONS = '-c statement_timeout=60s -c jit=off -c client_min_messages=error -c synchronous_commit=off'
PLACEHOLDER = '__debezium_unavailable_value'
COLUMNS = ['a', 'b', 'c', 'd']
COUNTS = ['inserted', 'updated', 'deleted', 'stale', 'duplicate', 'superseded', 'fenced', 'ignored', 'truncated']

# Of each key that lives by what was delivered: per column who gives its value, and since when nothing older counts. At one
# position an upsert goes over a delete, but not over a truncate.
ORACLE = """
CREATE TABLE expected AS
WITH said AS (SELECT DISTINCT * FROM seen),
keys AS (SELECT DISTINCT id FROM said WHERE id IS NOT NULL),
kills AS (
  SELECT DISTINCT ON (k.id) k.id, s.pos, s.op = 't' AS firm
  FROM keys k JOIN said s ON s.op = 't' OR (s.op IN ('d', '-U') AND s.id = k.id) OR (s.old_id <> s.id AND s.old_id = k.id)
  ORDER BY k.id, s.pos DESC, firm DESC),
upserts AS (
  SELECT s.*, k.pos AS killed FROM said s LEFT JOIN kills k USING (id)
  WHERE s.op NOT IN ('t', 'd', '-U') AND (k.pos IS NULL OR s.pos > k.pos OR (s.pos = k.pos AND NOT k.firm))),
winners AS (SELECT DISTINCT ON (id) id, pos, killed FROM upserts ORDER BY id, pos DESC NULLS LAST)
SELECT w.id, w.pos, c.name,
       coalesce(v.carried, false) AS known, v.value, v.pos AS as_of, w.killed
FROM winners w CROSS JOIN unnest(ARRAY[%(columns)s]) AS c (name)
LEFT JOIN LATERAL (
  SELECT true AS carried, u.vals ->> c.name AS value, u.pos FROM upserts u
  WHERE u.id = w.id AND u.vals ? c.name ORDER BY u.pos DESC NULLS LAST LIMIT 1) v ON true
"""

# Live rows of the target in the same shape.
FOUND = """
SELECT t.id, t.source_position AS pos, e.key AS name, e.value, t.marks -> e.key AS mark, t.marks ->> '' AS at, t.marks
FROM t CROSS JOIN LATERAL jsonb_each_text(jsonb_build_object(%(pairs)s)) AS e %(live)s
"""

COMPARE = """
SELECT coalesce(f.id, x.id) AS id, coalesce(f.name, x.name) AS name, f.pos, x.pos, f.value, x.value, f.marks, x.as_of, x.killed
FROM (%(found)s) AS f
FULL JOIN (SELECT id, pos, name, as_of, killed, known, CASE WHEN known THEN value ELSE %(unknown)s END AS value,
    CASE WHEN known AND as_of IS NOT DISTINCT FROM pos THEN NULL
         WHEN known THEN coalesce(to_jsonb(as_of::text), 'null')
         WHEN killed IS NOT NULL THEN jsonb_build_array(killed::text) ELSE '[]' END AS mark FROM expected) AS x USING (id, name)
WHERE (f.pos, f.value, f.mark) IS DISTINCT FROM (x.pos, x.value, x.mark)
   OR f.id IS NULL OR x.id IS NULL
   OR (f.marks IS NOT NULL AND f.at IS DISTINCT FROM f.pos::text)
   OR f.marks = jsonb_build_object('', f.at)
ORDER BY 1, 2 LIMIT 4
"""


class Fault(Exception):
    """Something that must not happen."""


def lit(value):
    return 'NULL' if value is None else "'%s'" % str(value).replace("'", "''")


class Trial:
    def __init__(self, session, seed):
        self.s, self.rng = session, random.Random(seed)
        r = self.rng
        self.home = r.choice(['row', 'table'])
        self.mode = r.choice(['mark', 'list', 'nulls'])
        self.kind = r.choice(['lsn', 'ordinal', 'number'])
        self.moves = r.choice(['none', 'none', 'full', 'partial'])
        self.in_order = self.moves == 'partial'
        self.partitioned = r.random() < 0.3
        self.truncates = r.random() < 0.4
        self.snapshot = r.random() < 0.5
        self.pairs = r.random() < 0.3
        self.spill = r.choice([0, 0, 0, 1, 4])
        self.keys = list(range(1, r.choice([1, 2, 3, 4]) + 1))
        self.default = {c: 'default ' + c if r.random() < 0.3 else None for c in COLUMNS}
        self.calls = 0
        self.log = []
        self.rows = {}
        self.n = 0

    # ------------------------------------------------------------ the source

    def pos(self):
        r = self.rng
        self.n += 1
        if self.kind == 'number':
            return str(self.n)
        if self.kind == 'ordinal':
            return '1/%X:%d' % (self.n // 3 + 1, self.n % 3)
        return '%X/%X' % (self.n // 7, self.n)

    def value(self, column):
        r = self.rng
        if self.mode != 'nulls' and r.random() < 0.15:
            return None
        return r.choice(['%s%d', 'long ' * 30 + '%s%d']) % (column, r.randrange(10 ** 6))

    def tell(self, op, key, vals=None, old=None, changed=COLUMNS, pos=None):
        """An event that carries the columns named, of a row that holds vals."""
        self.log.append({'op': op, 'id': key, 'old': old, 'pos': pos or self.pos(),
                         'vals': {c: vals[c] for c in changed} if vals else {}})

    def change(self):
        r, rows = self.rng, self.rows
        key = r.choice(self.keys)
        if key not in rows:
            rows[key] = {c: self.value(c) for c in COLUMNS}
            carried = COLUMNS
            if self.mode == 'nulls':
                # what an insert has no value for is NULL: its default, as nobody said otherwise
                carried = [c for c in COLUMNS if r.random() < 0.6]
                for c in COLUMNS:
                    if c not in carried:
                        rows[key][c] = self.default[c]
            self.tell('c', key, rows[key], changed=carried)
            return
        what = r.random()
        changed = [c for c in COLUMNS if r.random() < 0.35]
        after = dict(rows[key], **{c: self.value(c) for c in changed})
        free = [k for k in self.keys if k not in rows]
        if what < 0.18:
            del rows[key]
            self.tell('d', key)
        elif what < 0.22 and self.truncates:
            rows.clear()
            self.tell('t', None)
        elif what < 0.35 and free and self.moves != 'none' and (self.mode != 'nulls' or self.moves == 'partial'):
            to = r.choice(free)
            del rows[key]
            rows[to] = after
            self.tell('u', to, after, key, COLUMNS if self.moves == 'full' else changed)
        elif what < 0.45 and self.pairs and self.mode != 'nulls':
            rows[key] = after
            pos = self.pos()
            self.tell('-U', key, pos=pos)
            self.tell('+U', key, after, pos=pos)
        else:
            rows[key] = after
            self.tell('u', key, after, changed=changed)

    def make(self):
        r = self.rng
        first = []
        if self.snapshot:
            for k in self.keys:
                if r.random() < 0.6:
                    self.rows[k] = {c: self.value(c) for c in COLUMNS}
                    self.tell('r', k, self.rows[k])
                    self.log[-1]['pos'] = None if self.kind != 'number' or r.random() < 0.5 else self.log[-1]['pos']
        for _ in range(r.choice([4, 8, 15, 30])):
            self.change()

    # ------------------------------------------------------------ target and staging

    def build(self):
        r, s = self.rng, self.s
        s.run('DROP TABLE IF EXISTS t, s, t_tombstones, seen, expected CASCADE')
        cols = ['id int NOT NULL'] + ['%s text%s' % (c, ' DEFAULT ' + lit(self.default[c]) if self.default[c] else '')
                                      for c in COLUMNS] + ['own int DEFAULT 7']
        r.shuffle(cols)
        s.run('CREATE TABLE t (%s, PRIMARY KEY (id))%s' % (', '.join(cols), ' PARTITION BY LIST (id)' if self.partitioned else ''))
        if self.partitioned:
            r.shuffle(cols)
            s.run('CREATE TABLE t_1 (gone int, %s); ALTER TABLE t_1 DROP gone; ALTER TABLE t ATTACH PARTITION t_1 '
                  'FOR VALUES IN (1, 3); CREATE TABLE t_2 PARTITION OF t DEFAULT' % ', '.join(cols))
        self.unplaced = self.kind != 'number'
        old = ', __old_id int' if self.moves != 'none' else ''
        s.run('CREATE TABLE s (op text, id int%s, %s, source_position cdc_position, __unchanged text[])' % (
            old, ', '.join(c + ' text' for c in COLUMNS)))
        s.run('CREATE TABLE seen (op text, id int, old_id int, pos cdc_position, vals jsonb)')
        s.run("SELECT cdc_attach('t', 's', tombstones => '%s', column_positions => 'marks', on_unavailable => 'null'%s%s)" % (
            self.home, ', ignore_nulls => true' if self.mode == 'nulls' else '', r.choice(['', ", guard => 'error'"])))
        s.run('SET cdc_precedence.debug_fold_events = %d' % self.spill)

    def stage(self, events):
        s = self.s
        rows, seen = [], []
        for e in events:
            missing = [c for c in COLUMNS if c not in e['vals']] if e['op'] in ('c', 'u', 'r', '+U') else []
            listed = missing if self.mode == 'list' else []
            hole = PLACEHOLDER if self.mode == 'mark' else None
            values = [lit(hole if c in missing else e['vals'].get(c)) for c in COLUMNS]
            old = [lit(e['old'])] if self.moves != 'none' else []
            rows.append('(%s)' % ', '.join([lit(e['op']), lit(e['id'])] + old + values + [
                lit(e['pos']), lit('{%s}' % ','.join(listed)) if listed else 'NULL']))
            vals = ', '.join('%s, %s::text' % (lit(c), lit(v)) for c, v in e['vals'].items())
            seen.append('(%s, %s, %s, %s, jsonb_build_object(%s))' % (
                lit(e['op']), lit(e['id']), lit(e['old']), lit(e['pos']), vals))
        s.run('DELETE FROM s; INSERT INTO s VALUES %s; INSERT INTO seen VALUES %s' % (', '.join(rows), ', '.join(seen)))

    def call(self, options=''):
        self.calls += 1
        return self.s.run("SELECT %s FROM cdc_apply('t'%s)" % (', '.join(COUNTS), options))[0]

    # ------------------------------------------------------------ what must hold

    def compare(self, what):
        s = self.s
        names = ', '.join(lit(c) for c in COLUMNS)
        s.run('DROP TABLE IF EXISTS expected')
        s.run(ORACLE % {'columns': names})
        found = FOUND % {'pairs': ', '.join('%s, t.%s' % (lit(c), c) for c in COLUMNS),
                         'live': 'WHERE NOT deleted' if self.home == 'row' else ''}
        unknown = 'NULL'
        if self.mode == 'nulls':
            unknown = 'CASE name %s END' % ' '.join('WHEN %s THEN %s' % (lit(c), lit(d)) for c, d in self.default.items())
        wrong = s.run(COMPARE % {'found': found, 'unknown': unknown})
        if self.home == 'row' and s.value('SELECT count(*) FROM t WHERE deleted AND marks IS NOT NULL') != '0':
            raise Fault('%s: a dead row has marks' % what)
        if wrong:
            raise Fault('%s: id, column, position, wanted, value, wanted, marks, as of, killed: %s' % (what, wrong))

    def tuples(self):
        return self.s.value("SELECT md5(string_agg((tableoid, ctid, xmin, t)::text, ' ' ORDER BY tableoid, ctid)) FROM t")

    def deliver(self):
        r = self.rng
        events = list(self.log)
        if not self.in_order:
            r.shuffle(events)
        pieces, i = [], 0
        while i < len(events):
            n = r.choice([1, 1, 2, 3, 8])
            pieces.append(events[i:i + n])
            i += n
        if not self.in_order:
            for piece in pieces:
                if r.random() < 0.3:
                    piece += r.choices(self.log, k=r.choice([1, 2]))
        for n, piece in enumerate(pieces):
            piece = list(piece)
            r.shuffle(piece)
            self.stage(piece)
            told = tried = None
            if r.random() < 0.25:
                before = self.tuples()
                tried = self.call(', dry_run => true')
                told = dict(self.s.run("SELECT outcome, count(*) FROM cdc_explain('t') GROUP BY 1"))
                if self.tuples() != before:
                    raise Fault('a dry run wrote')
            counts = self.call()
            if tried is not None and tried != counts:
                raise Fault('dry run %s, call %s' % (tried, counts))
            if told is not None and [told.get(c, '0') for c in COUNTS] != counts:
                raise Fault('explained as %s, call %s' % (told, counts))
            if not self.in_order:
                self.compare('call %d of %d' % (n + 1, len(pieces)))

    def source(self):
        live = self.s.run('SELECT id, %s FROM t %s ORDER BY id' % (', '.join(COLUMNS), 'WHERE NOT deleted' if self.home == 'row' else ''))
        want = [[str(k)] + [self.rows[k][c] for c in COLUMNS] for k in sorted(self.rows)]
        if live != want:
            raise Fault('the target has %s, the source %s' % (live, want))

    def replay(self, what):
        before = self.tuples()
        events = list(self.log)
        self.rng.shuffle(events)
        for piece in [events] + ([[e] for e in events] if not self.in_order else []):
            self.stage(piece)
            counts = self.call()
            if self.tuples() != before or set(counts[:3]) != {'0'}:
                raise Fault('%s wrote: %s' % (what, counts))

    def go(self):
        self.make()
        self.build()
        self.deliver()
        self.source()
        self.replay('a replay')
        top = self.s.value('SELECT max(pos) FROM seen')
        if top:
            self.s.run("SELECT cdc_purge_tombstones('t', '%s', force => true)" % top)
            self.replay('a replay after a purge')
            self.source()


class Bench:
    def __init__(self):
        self.db = 'columns_%d' % os.getpid()
        self.admin('DROP DATABASE IF EXISTS %s WITH (FORCE)' % self.db)
        self.admin("CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'" % self.db)
        self.s = Session(self.db, OPTIONS)
        self.s.run('CREATE EXTENSION cdc_precedence')

    @staticmethod
    def admin(sql):
        s = Session('postgres')
        s.run(sql)
        s.close()

    def seed(self, seed):
        """What is wrong with this seed, if anything, and how many calls it made."""
        trial = Trial(self.s, seed)
        wrong = None
        try:
            trial.go()
        except Fault as e:
            wrong = str(e)
        except PgError as e:
            wrong = 'unexpected %s %s' % (e, e.where)
        except Lost as e:
            wrong = 'connection lost: %s' % e
            self.again()
        if wrong:
            wrong += '\n  %s' % {k: v for k, v in vars(trial).items() if k not in ('s', 'rng', 'log', 'rows')}
            wrong += ''.join('\n  %s' % e for e in trial.log)
        if self.s.status != 'I':
            self.s.run('ROLLBACK')
        return wrong, trial.calls

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
    p.add_argument('--max-failures', type=int, default=5, help='stop after so many failures')
    options = p.parse_args()
    begin, passed, failed, calls = time.time(), 0, 0, 0
    seed = options.first if options.seed is None else options.seed
    bench = Bench()
    try:
        while True:
            wrong, made = bench.seed(seed)
            calls += made
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print('columns: seed %d: %s\n  alone: python3 test/law/columns.py --seed %d' % (seed, wrong, seed), flush=True)
            if options.seed is not None or failed >= options.max_failures or time.time() - begin > options.seconds:
                break
            seed += 1
    finally:
        bench.close()
    print('columns: seeds to %d, %d calls, %.0f s' % (seed, calls, time.time() - begin))
    print('columns: %d passed, %d failed' % (passed, failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
