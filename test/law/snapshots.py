#!/usr/bin/env python3
"""Snapshots of a live source, among its events, in any order.

Each seed runs a source: transactions that are open side by side, write rows,
commit or roll back. Its log has record positions (where a change was written) or
commit positions. Now and then a snapshot is read, with transactions open: of some
rows, of all, of one part of the table, or of every region, between which rows move;
as_of is as the documentation says. Then events, in batches, some twice, and snapshots are
delivered in any order to a target in either home of the tombstones, with purges
at safe positions between. Where a complete snapshot is among them, events at or
below it may be lost. After each call counts, rows, tombstones, fence and floor
must be those of a model in Python, and the end must be the source. --model runs
the model alone, without a server.

The control: with the log's present position as as_of, whatever is open, changes
must get lost.
"""
import argparse
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pg import Lost, PgError, Session  # noqa: E402

OPTIONS = '-c statement_timeout=60s -c jit=off -c client_min_messages=error -c synchronous_commit=off'
OUTCOMES = ['inserted', 'updated', 'deleted', 'stale', 'duplicate', 'superseded', 'fenced']
KEYS, REGIONS, PARTS = 14, ['n', 's', 'w'], 2


class Transaction:
    def __init__(self):
        self.changes, self.first = {}, None     # key -> row or None; LSN of the first


class Source:
    """Rows, transactions and the log."""

    def __init__(self, rng, record):
        self.rng, self.record = rng, record
        self.rows, self.open, self.lsn = {}, [], 100
        self.events, self.snapshots = [], []    # in commit order
        self.log = []                           # (key, lsn, row) of open transactions

    def step(self):
        r, self.lsn = self.rng, self.lsn + self.rng.choice([1, 1, 8])
        what = r.random()
        if what < 0.15 and len(self.open) < 4:
            self.open.append(Transaction())
        elif what < 0.3 and self.open:
            self.end(self.open.pop(r.randrange(len(self.open))), r.random() < 0.85)
        elif self.open:
            self.write(r.choice(self.open))

    def write(self, t):
        r, key = self.rng, self.rng.randrange(1, KEYS + 1)
        if any(key in x.changes for x in self.open if x is not t):
            return                              # it would wait
        there = t.changes[key][-1][1] if key in t.changes else self.rows.get(key)
        row = None if there and r.random() < 0.3 else (key % PARTS, r.choice(REGIONS), r.choice(['a', 'b', 'c', None]))
        if there is None and row is None:
            return
        t.first = t.first or self.lsn
        t.changes.setdefault(key, []).append((self.lsn, row, there is None))

    def end(self, t, commit):
        if not commit:
            return
        n = 0
        for key, changes in sorted(t.changes.items(), key=lambda x: x[1][0][0]):
            for lsn, row, new in changes:
                pos = (lsn, 0) if self.record else (self.lsn, n)
                self.events.append(('d' if row is None else 'c' if new else 'u', key, row, pos))
                n += 1
                self.rows.pop(key, None)
                if row is not None:
                    self.rows[key] = row

    def take(self, naive):
        """A snapshot as of a position that is safe, or, to see that it matters, of the present one."""
        r = self.rng
        firsts = [t.first for t in self.open if t.first]
        limit = min(firsts) - 1 if firsts and self.record and not naive else self.lsn
        as_of = limit if naive or r.random() < 0.7 else max(1, limit - r.randrange(40))
        kind = r.choice(['some', 'all', 'all', 'part', 'regions'])
        base = {'as_of': (as_of, 0), 'rows': dict(self.rows), 'complete': kind != 'some', 'scope': None, 'kind': kind}
        if kind == 'some':
            base['rows'] = {k: v for k, v in self.rows.items() if r.random() < 0.6}
        if kind == 'part':
            part = r.randrange(PARTS)
            base['scope'] = ('part = %d' % part, lambda row: row[0] == part)
            base['rows'] = {k: v for k, v in self.rows.items() if v[0] == part}
        if kind != 'regions':
            self.snapshots.append([base])
            return
        # rows move from one to the other: all of them, one after the other
        self.snapshots.append([dict(base, scope=("region = '%s'" % g, lambda row, g=g: row[1] == g),
                                    rows={k: v for k, v in self.rows.items() if v[1] == g}) for g in REGIONS])


class Model:
    """The law, walked event by event."""

    def __init__(self):
        self.state = {}                         # key -> (position, row or None)
        self.floor = self.fence = None

    def judge(self, key, pos):
        """What keeps an event out, or None; and what is stored."""
        stored = self.state.get(key)
        if self.floor and pos <= self.floor:
            return 'stale', stored
        if (stored is None or stored[1] is None) and self.fence and pos <= self.fence:
            return 'fenced', stored
        return ('stale' if stored and pos < stored[0] else None), stored

    def apply(self, events):
        counts, best = dict.fromkeys(OUTCOMES, 0), {}
        for e in events:
            if e[1] not in best or best[e[1]][3] < e[3]:
                best[e[1]] = e
        counts['superseded'] = len(events) - len(best)
        for op, key, row, pos in best.values():
            out, stored = self.judge(key, pos)
            if out is None and stored and stored[0] == pos:
                out = 'duplicate'
                if op != 'd' and stored[1] is None:
                    out = 'inserted'            # an upsert at the position of a tombstone stands
            if out is None:
                live = stored is not None and stored[1] is not None
                out = 'deleted' if op == 'd' else 'updated' if live else 'inserted'
            if out in ('inserted', 'updated', 'deleted'):
                self.state[key] = (pos, row)
            counts[out] += 1
        return counts

    def snapshot(self, s):
        counts, pos = dict.fromkeys(OUTCOMES, 0), s['as_of']
        gone = [k for k, (p, row) in self.state.items()
                if s['complete'] and row is not None and p <= pos and k not in s['rows'] and
                (s['scope'] is None or s['scope'][1](row)) and not (self.floor and pos <= self.floor)]
        if s['complete'] and not s['rows']:
            return None
        for key, row in s['rows'].items():
            out, stored = self.judge(key, pos)
            if out is None:
                live = stored is not None and stored[1] is not None
                out = 'inserted' if not live else 'duplicate' if stored[1] == row else 'updated'
            if out in ('inserted', 'updated'):
                self.state[key] = (pos, row)
            counts[out] += 1
        for key in gone:
            self.state[key] = (pos, None)
            counts['deleted'] += 1
        if s['complete'] and s['scope'] is None:
            self.floor = max(self.floor or pos, pos)
        return counts

    def purge(self, pos):
        self.fence = max(self.fence or pos, pos)
        gone = [k for k, (p, row) in self.state.items() if row is None and p <= pos]
        for k in gone:
            del self.state[k]
        return len(gone)

    def live(self):
        return {k: row for k, (_, row) in self.state.items() if row is not None}


class History:
    """A source that has run, and the order in which it is told."""

    def __init__(self, seed, naive=False):
        r = self.rng = random.Random(seed)
        s = self.source = Source(r, naive or r.random() < 0.6)
        for _ in range(r.randrange(40, 160)):
            s.step()
            if r.random() < 0.04:
                s.take(naive)
        while s.open:
            s.lsn += 1
            s.end(s.open.pop(), True)
        self.plan(naive)

    def plan(self, naive):
        r, events, shots = self.rng, list(self.source.events), list(self.source.snapshots)
        self.lost, self.repair = [], None
        if not naive:
            # what a complete snapshot has decided may be lost, before it or after
            whole = [x['as_of'] for x, *_ in shots if x['complete'] and x['scope'] is None and x['rows']]
            if whole and r.random() < 0.5:
                events = [e for e in events if e[3] > max(whole) or r.random() < 0.5]
                self.repair = max(whole)
                self.lost = [e[3] for e in self.source.events if e not in events]
        self.told = list(events)
        events += r.choices(events, k=len(events) // 3) if events else []
        if r.random() < 0.5:
            r.shuffle(events)
        calls = []
        while events:
            n = r.choice([1, 2, 4, 9, 30])
            calls.append(('apply', events[:n]))
            events = events[n:]
        if naive:
            # the snapshot first, then the log in its order
            self.calls = [('snapshot', x) for x in sum(shots[:1], [])] + calls
            return
        calls = [[c] for c in calls]
        for group in shots + [x for x in shots if r.random() < 0.3]:
            group = [('snapshot', x) for x in r.sample(group, len(group))]
            calls.insert(r.randrange(len(calls) + 1), group)
        self.calls = sum(calls, [])

    def safe(self, at):
        """Positions up to which everything was delivered when call at is next; parts of one whole belong together."""
        seen = {(e[1], e[3]) for what, c in self.calls[:at] if what == 'apply' for e in c}
        missing = [e[3] for e in self.told if (e[1], e[3]) not in seen]
        if not any(what == 'snapshot' and c['kind'] == 'all' and c['as_of'] == self.repair for what, c in self.calls[:at]):
            missing += self.lost                # until the snapshot that knows of them
        pieces = [c['as_of'] for what, c in self.calls[at:] if what == 'snapshot' and c['kind'] == 'regions']
        low = min(missing + pieces + [(1 << 40, 0)])
        done = sorted({e[3] for e in self.told if e[3] < low})
        return done[-1] if done else None


def literal(pos):
    return "'0/%X%s'" % (pos[0], ':%d' % pos[1] if pos[1] else '')


def text(value):
    return 'NULL' if value is None else "'%s'" % value


class Bench:
    """A database with a target in either home."""

    def __init__(self):
        self.db = 'cdc_law_snapshots'
        self.admin('DROP DATABASE IF EXISTS %s WITH (FORCE)' % self.db)
        self.admin('CREATE DATABASE ' + self.db)
        self.s = Session(self.db, OPTIONS)
        self.s.run('CREATE EXTENSION cdc_precedence')

    @staticmethod
    def admin(sql):
        s = Session('postgres')
        s.run(sql)
        s.close()

    def make(self, r):
        spread = r.random() < 0.3
        self.spill = r.random() < 0.3
        self.s.run('DROP TABLE IF EXISTS in_row, in_side, in_side_tombstones, event, copy CASCADE')
        self.s.run('CREATE TABLE event (op text, id int, part int, region text, v text, source_position cdc_position)')
        self.s.run('CREATE TABLE copy (v text, region text, part int, id %s)' % r.choice(['int', 'int', 'bigint', 'text']))
        for t in ('in_row', 'in_side'):
            self.s.run('CREATE TABLE %s (id int, part int, region text, v text, own int DEFAULT 42, PRIMARY KEY (id%s))%s' % (
                t, '', ' PARTITION BY RANGE (id)' if spread else ''))
            if spread:
                self.s.run('CREATE TABLE %s_1 PARTITION OF %s FOR VALUES FROM (MINVALUE) TO (7); '
                           'CREATE TABLE %s_2 PARTITION OF %s FOR VALUES FROM (7) TO (MAXVALUE)' % (t, t, t, t))
            self.s.run("SELECT cdc_attach('%s', 'event', tombstones => '%s', guard => '%s')" % (
                t, 'row' if t == 'in_row' else 'table', r.choice(['off', 'error'])))

    def state(self, t):
        dead = "SELECT id, source_position::text, NULL, NULL, NULL FROM in_side_tombstones" if t == 'in_side' else \
            'SELECT id, source_position::text, NULL, NULL, NULL FROM in_row WHERE deleted'
        rows = self.s.run('SELECT id, source_position::text, part, region, coalesce(v, \'~\') FROM %s%s UNION ALL %s' % (
            t, '' if t == 'in_side' else ' WHERE NOT deleted', dead))
        out = {}
        for key, pos, part, region, v in rows:
            lsn, _, n = pos.partition(':')
            row = None if part is None else (int(part), region, None if v == '~' else v)
            out[int(key)] = ((int(lsn.split('/')[1], 16), int(n or 0)), row)
        marks = self.s.run("SELECT fence::text, floor::text FROM cdc_targets WHERE target = '%s'::regclass" % t)[0]
        return out, marks

    def counts(self, sql):
        row = self.s.run('SELECT %s, events FROM %s' % (', '.join(OUTCOMES), sql))[0]
        out = dict(zip(OUTCOMES, map(int, row)))
        if int(row[-1]) != sum(out.values()):
            raise AssertionError('counts do not add up: %s' % row)
        return out

    def call(self, t, what, c):
        if what == 'apply':
            return self.counts("cdc_apply('%s')" % t)
        return self.counts("cdc_apply_snapshot('%s', 'copy', %s, %s, max_delete_fraction => 1%s)" % (
            t, literal(c['as_of']), c['complete'], '' if c['scope'] is None else ', scope => $s$%s$s$' % c['scope'][0]))

    def load(self, what, c, r):
        if what == 'apply':
            self.s.run('TRUNCATE event')
            self.s.run('INSERT INTO event VALUES ' + ', '.join("('%s', %d, %s, %s)" % (
                op, key, 'NULL, NULL, NULL' if row is None else '%d, %s, %s' % (row[0], text(row[1]), text(row[2])),
                literal(pos)) for op, key, row, pos in c))
            return
        self.s.run('TRUNCATE copy')
        rows = list(c['rows'].items())
        r.shuffle(rows)
        if rows:
            self.s.run('INSERT INTO copy VALUES ' + ', '.join("(%s, %s, %d, '%d')" % (
                text(row[2]), text(row[1]), row[0], key) for key, row in rows))

    def compare(self, model):
        for t in ('in_row', 'in_side'):
            got, marks = self.state(t)
            if got != model.state:
                return '%s holds %s, and should hold %s' % (t, got, model.state)
            want = [None if p is None else literal(p).strip("'") for p in (model.fence, model.floor)]
            if list(marks) != want:
                return 'fence and floor of %s are %s, and should be %s' % (t, marks, want)
        return None

    def close(self):
        self.s.close()
        self.admin('DROP DATABASE IF EXISTS %s WITH (FORCE)' % self.db)


def play(h, bench):
    """None, or what went wrong. bench None: the model alone."""
    model, r = Model(), random.Random(h.rng.random())
    if bench:
        bench.make(r)
    for at, (what, c) in enumerate(h.calls):
        want = model.apply(c) if what == 'apply' else model.snapshot(c)
        if want is None:
            continue                            # empty and complete: refused, and tested elsewhere
        if bench:
            bench.load(what, c, r)
            if bench.spill:
                bench.s.run('SET cdc_precedence.debug_fold_events = %d' % r.choice([0, 1, 3]))
            for t in ('in_row', 'in_side'):
                got = bench.call(t, what, c)
                if got != want:
                    return 'call %d, %s of %s: counts are %s, and should be %s' % (at, what, t, got, want)
            wrong = bench.compare(model)
            if wrong:
                return 'call %d, %s %s: %s' % (at, what, c, wrong)
        pos = h.safe(at + 1) if r.random() < 0.15 else None
        if pos:
            n = model.purge(pos)
            for t in ('in_row', 'in_side') if bench else ():
                got = int(bench.s.run("SELECT cdc_purge_tombstones('%s', %s, force => true)" % (t, literal(pos)))[0][0])
                if got != n:
                    return 'call %d: a purge of %s removed %d, and should remove %d' % (at, t, got, n)
    if model.live() != h.source.rows:
        return 'the end is %s, and the source has %s' % (model.live(), h.source.rows)
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seconds', type=float, default=15, help='begin no seed after so long')
    p.add_argument('--seed', type=int, help='this seed alone')
    p.add_argument('--model', action='store_true', help='the model alone')
    options = p.parse_args()
    begin, passed, failed, calls = time.time(), 0, 0, 0
    seed = 1 if options.seed is None else options.seed
    bench = None if options.model else Bench()
    try:
        while failed < 10:
            h = History(seed)
            try:
                wrong = play(h, bench)
            except (PgError, AssertionError) as e:
                wrong = str(e)
                if bench.s.status != 'I':
                    bench.s.run('ROLLBACK')
            calls += len(h.calls)
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print('snapshots: seed %d: %s\n  alone: python3 test/law/snapshots.py --seed %d' % (seed, wrong, seed), flush=True)
            if options.seed is not None or time.time() - begin > options.seconds:
                break
            seed += 1
        lost = sum(play(History(s, naive=True), None) is not None for s in range(1, 101))
        if options.seed is None and not lost:
            failed += 1
            print('snapshots: as_of may be what it likes: the control lost nothing')
    finally:
        if bench:
            bench.close()
    print('snapshots: seeds to %d, %d calls, the control lost changes in %d of 100, %.0f s' % (
        seed, calls, lost, time.time() - begin))
    print('snapshots: %d passed, %d failed' % (passed, failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
