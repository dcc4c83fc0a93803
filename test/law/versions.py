#!/usr/bin/env python3
"""The law of histories: the same events, in any order, batches and number of
times, leave the same versions.

Each seed makes a log of one table: inserts, updates, deletes, inserts again,
before images, key changes, truncates, snapshot rows, values that events do not
carry. It is delivered twice in different orders, cut into batches, with
duplicates. After every call of cdc_apply_history the history is compared with
a model in Python that walks through all events seen so far, key by key; at the
end a replay must change no row, and both deliveries must have left the same in
the events table. A failure is made small, and printed with its seed as SQL.
With --mutate models that are wrong on purpose take the place of the right one,
and each must be caught.
"""
import argparse
import json
import os
import random
import sys
import time

from law import Psql, SqlError, drop_database, psql_once

COLUMNS = ['a', 'b', 'c']
MUTATIONS = ['no_delete', 'no_gap', 'across_delete', 'no_track', 'every_change', 'first_values', 'no_truncate',
             'no_move', 'snapshot_last', 'arrival']


def lit(value):
    if value is None:
        return 'NULL'
    if isinstance(value, list):
        return lit('{' + ','.join(value) + '}')
    return "'" + str(value).replace("'", "''") + "'"


class Log:
    """The events of a seed, and how they are delivered."""

    def __init__(self, seed):
        r = self.rng = random.Random(seed)
        self.seed = seed
        self.composite = r.random() < 0.3
        self.numbers = r.random() < 0.3
        self.track = r.choice([None, None, ['a'], ['b', 'a'], ['c']])
        self.gaps = r.random() < 0.5
        self.nulls = self.gaps and r.random() < 0.3
        self.moves = r.random() < 0.3
        self.truncates = r.random() < 0.25
        self.pairs = r.random() < 0.3
        self.times = r.random() < 0.6
        self.snapshot = r.choice([None, None, 'none', 'event'])
        self.few = r.random() < 0.5          # values repeat, so that changes are none
        self.parts = r.random() < 0.3 and not self.numbers
        self.keys = ['1', '2', '3', '4'][:r.randint(1, 4)]
        self.events = self.make()

    def value(self, column):
        r = self.rng
        if r.random() < 0.1:
            return None
        n = r.randint(1, 2 if self.few else 50)
        if column == 'b':
            return str(n)
        return ('x' * 2500 if r.random() < 0.03 else '') + column + str(n)

    def make(self):
        r = self.rng
        n = r.randint(3, 40)
        at = sorted(r.sample(range(10, 4000), n))
        events = []
        if self.snapshot:
            for k in self.keys:
                if r.random() < 0.6:
                    events.append(self.event('r', k, at[0] - 5 - len(events) / 10.0, whole=True))
        for pos in at:
            k = r.choice(self.keys)
            x = r.random()
            if self.truncates and x < 0.06:
                events.append({'op': 't', 'key': None, 'old': None, 'pos': pos, 'gaps': None, 'at': pos, 'a': None,
                               'b': None, 'c': None})
            elif x < 0.3:
                events.append(self.event(r.choice(['d', 'delete', '-D']), k, pos))
            elif self.moves and x < 0.4 and len(self.keys) > 1:
                e = self.event('u', k, pos, whole=True)
                e['old'] = r.choice([o for o in self.keys if o != k])
                events.append(e)
            elif self.pairs and x < 0.6:
                events.append(self.event('-U', k, pos))
                events.append(self.event('+U', k, pos))
            else:
                events.append(self.event(r.choice(['c', 'u', 'i']), k, pos))
        return events

    def event(self, op, key, pos, whole=False):
        e = {'op': op, 'key': key, 'old': None, 'pos': pos, 'gaps': None, 'at': int(pos) + self.rng.randint(-3, 3)}
        for c in COLUMNS:
            e[c] = self.value(c)
        if op in ('d', 'delete', '-D'):
            for c in COLUMNS:
                e[c] = None
        elif self.gaps and not whole and op != '-U':
            missing = [c for c in COLUMNS if self.rng.random() < 0.35]
            if self.nulls:
                for c in missing:
                    e[c] = None
            elif missing:
                e['gaps'] = missing
                for c in missing:
                    e[c] = None if self.rng.random() < 0.5 else self.value(c)
        return e

    def batches(self, events):
        r = self.rng
        events = list(events) + r.choices(events, k=len(events) // 3) if events else []
        r.shuffle(events)
        out = []
        while events:
            n = min(len(events), r.choice([1, 1, 2, 3, 5, 8, 40]))
            out.append(events[:n])
            events = events[n:]
        return out

    # SQL

    def position(self, pos):
        whole, ordinal = int(pos), int(round((pos - int(pos)) * 100))
        if self.numbers:
            return '%d:%d' % (whole, ordinal)
        return '0/%X:%d' % (whole, ordinal)

    def ddl(self):
        key = 'k1 int, k2 text' if self.composite else 'k1 int'
        old = '__old_k1 int, __old_k2 text' if self.composite else '__old_k1 int'
        names = 'k1, k2' if self.composite else 'k1'
        sql = ['DROP TABLE IF EXISTS target, target_history, target_history_events, staging CASCADE',
               'CREATE TABLE target (a text, %s, b int, c text, PRIMARY KEY (%s))' % (key, names)]
        position = 'source_lsn pg_lsn, source_ordinal int' if self.parts else 'source_position cdc_position'
        sql.append('CREATE TABLE staging (op text, %s, %s, b text, c text, a text, %s, made_at timestamptz, missing text[])'
                   % (key, old, position))
        args = ''
        if self.track and self.seed % 2:
            args += ', track_columns => %s' % lit(self.track)
        if self.times:
            args += ', time_column => \'made_at\''
        sql.append("SELECT cdc_create_history('target'%s)" % args)
        return ';\n'.join(sql)

    def insert(self, batch):
        rows = []
        for e in batch:
            def key(k):
                if not self.composite:
                    return [lit(k)]
                return [lit(k), lit(None if k is None else 'k' + k)]
            pos = [lit(self.position(e['pos']))]
            if self.parts:
                pos = [lit('0/%X' % int(e['pos'])), lit(int(round((e['pos'] - int(e['pos'])) * 100)))]
            rows.append('(' + ', '.join([lit(e['op'])] + key(e['key']) + key(e['old']) +
                                        [lit(e['b']), lit(e['c']), lit(e['a'])] + pos +
                                        ["timestamptz 'epoch' + interval '%d s'" % e['at'], lit(e['gaps'])]) + ')')
        return 'TRUNCATE staging; INSERT INTO staging VALUES\n' + ',\n'.join(rows)

    def apply(self):
        args = ["'target_history'", "'staging'", "on_unavailable => 'null'", "on_same_position => 'error'",
                "unchanged_column => 'missing'"]
        if self.nulls:
            args.append('ignore_nulls => true')
        if self.track:
            args.append('track_columns => ' + lit(self.track))
        if self.snapshot:
            args.append('snapshot_position => ' + lit(self.snapshot))
        if not self.times:
            args.append("except_columns => '{made_at}'")
        return 'SELECT to_jsonb(r) FROM cdc_apply_history(%s) r' % ', '.join(args)

    def read(self):
        at = ", extract(epoch FROM valid_from_at)::int, extract(epoch FROM valid_to_at)::int" if self.times else ', NULL, NULL'
        return ("SELECT coalesce(jsonb_agg(jsonb_build_array(k1, a, b, c, valid_from, valid_to%s) ORDER BY k1, valid_from),"
                " '[]') FROM target_history" % at)


# ---------- the model ----------

def model(log, events, wrong=None):
    """The versions that all these events leave, as rows in the order of key and position."""
    placed = {}
    truncates = {}
    for e in events:
        pos = e['pos']
        if e['op'] == 't':
            truncates[pos] = e
            continue
        if e['op'] == 'r' and log.snapshot == 'none':
            pos = 0
            if wrong == 'snapshot_last':
                pos = 5000
        rank = {'d': 2, 'delete': 2, '-D': 2, '-U': 1, 'r': 0}.get(e['op'], 3)
        entries = [(e['key'], rank, e)]
        if e['old'] is not None and wrong != 'no_move':
            entries.append((e['old'], 1, dict(e, op='d')))
        for key, r, ev in entries:
            if (key, pos) not in placed or placed[key, pos][0] < r:
                placed[key, pos] = (r, ev)
    out = []
    for key in sorted(set(k for k, _ in placed)):
        steps = [(pos, e) for (k, pos), (_, e) in placed.items() if k == key]
        if wrong != 'no_truncate':
            steps += [(pos, e) for pos, e in truncates.items()]
        if wrong != 'arrival':
            steps.sort(key=lambda s: s[0])
        live, known = None, {}
        for pos, e in steps:
            dead = e['op'] in ('d', 'delete', '-D', '-U', 't')
            if dead:
                if wrong == 'no_delete':
                    continue
                if live:
                    out.append(live + [log.position(pos), e['at']])
                live = None
                if wrong != 'across_delete':
                    known = {}
                continue
            values = {}
            for c in COLUMNS:
                # a key change carries everything, NULLs among it
                missing = c in (e['gaps'] or ()) or (log.nulls and e[c] is None and e['old'] is None)
                values[c] = known.get(c) if missing and wrong != 'no_gap' else None if missing else e[c]
            tracked = COLUMNS if wrong == 'every_change' and log.track else log.track
            if live and tracked and wrong != 'no_track' and all(values[c] == known.get(c) for c in tracked):
                if wrong != 'first_values':
                    live[1:4] = [values[c] for c in COLUMNS]
            else:
                if live:
                    out.append(live + [log.position(pos), e['at']])
                live = [key] + [values[c] for c in COLUMNS] + [log.position(pos) if pos else '0/0', e['at']]
            known = values
        if live:
            out.append(live + [None, None])
    rows = []
    for key, a, b, c, valid_from, from_at, valid_to, to_at in out:
        def shown(p):
            return p[:-2] if p and p.endswith(':0') else p
        rows.append([int(key), a, int(b) if b is not None else None, c, shown(valid_from), shown(valid_to)] +
                    ([from_at, to_at] if log.times else [None, None]))
    return rows


# ---------- playing ----------

def in_order(rows):
    def number(p):
        if p is None:
            return ()
        return tuple(int(x, 16 if '/' in p and i == 0 else 10) for i, x in enumerate(p.replace('0/', '').split(':')))
    return sorted(rows, key=lambda r: (r[0], number(r[4])))


def play(s, log, batches, wrong=None):
    """None, or what went wrong; the events table's content."""
    s.run(log.ddl())
    seen = []
    for n, batch in enumerate(batches):
        s.run(log.insert(batch))
        counts = json.loads(s.run(log.apply()))
        seen += batch
        got = in_order(json.loads(s.run(log.read())))
        want = in_order(model(log, seen, wrong))
        outcomes = sum(counts[c] for c in ('inserted', 'updated', 'deleted', 'stale', 'duplicate', 'superseded', 'fenced',
                                           'ignored', 'truncated'))
        if got != want:
            extra = [r for r in got if r not in want]
            missing = [r for r in want if r not in got]
            return 'batch %d: extra %s, missing %s' % (n + 1, clip(extra), clip(missing)), None
        if counts['events'] != len(batch) or outcomes != len(batch):
            return 'batch %d: counts %s' % (n + 1, json.dumps(counts)), None
    if seen:
        rows = "SELECT md5(string_agg(t, ' ' ORDER BY t)) FROM (SELECT ctid || ' ' || xmin AS t FROM target_history UNION ALL SELECT ctid || ' ' || xmin FROM target_history_events) x"
        before = s.run(rows)
        s.run(log.insert(seen))
        counts = json.loads(s.run(log.apply()))
        if s.run(rows) != before:
            return 'a replay changed rows: %s' % json.dumps(counts), None
        if counts['inserted'] + counts['updated'] + counts['deleted'] + counts['truncated']:
            return 'a replay counts %s' % json.dumps(counts), None
    return None, s.run("SELECT string_agg(to_jsonb(e)::text, E'\\n' ORDER BY to_jsonb(e)::text) FROM target_history_events e")


def clip(rows):
    return json.dumps(rows)[:600]


def failing(s, log, batches, wrong):
    try:
        return play(s, log, batches, wrong)[0]
    except SqlError as e:
        try:
            s.run('ROLLBACK')
        except SqlError:
            pass
        return 'error: %s' % str(e)[-1500:]


def shrink(s, log, batches, patience=60):
    """The same with fewer batches and events, as long as it fails."""
    until = time.time() + patience
    again = True
    while again and time.time() < until:
        again = False
        for i in range(len(batches)):
            fewer = batches[:i] + batches[i + 1:]
            if fewer and failing(s, log, fewer, None):
                batches, again = fewer, True
                break
            for j in range(len(batches[i])):
                fewer = batches[:i] + [batches[i][:j] + batches[i][j + 1:]] + batches[i + 1:]
                if batches[i][1:] and failing(s, log, fewer, None):
                    batches, again = fewer, True
                    break
            if again or time.time() > until:
                break
    return batches


def seed(s, number, wrong=None, small=True):
    log = Log(number)
    plans = [log.batches(log.events) for _ in range(2)]
    left = []
    for batches in plans:
        bad = failing(s, log, batches, wrong)
        if bad and wrong:
            return bad
        if bad:
            if small:
                batches = shrink(s, log, batches)
                bad = failing(s, log, batches, None) or bad
            sql = [log.ddl()]
            for b in batches:
                sql += [log.insert(b), log.apply()]
            return 'seed %d: %s\n%s;' % (number, bad, ';\n'.join(sql + ['TABLE target_history', 'TABLE target_history_events']))
        left.append(play(s, log, batches, wrong)[1])
    # deletes at a truncate's position are not taken back from the events table, so they may differ
    if not log.truncates and left[0] != left[1]:
        return 'seed %d: the events tables differ: %s, %s' % (number, left[0], left[1])
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seeds', type=int, default=None, help='how many seeds (60; 6000 with --long)')
    p.add_argument('--start', type=int, default=1, help='the first seed')
    p.add_argument('--seed', type=int, help='this seed alone')
    p.add_argument('--long', action='store_true', help='many seeds')
    p.add_argument('--mutate', action='store_true', help='check that wrong models are caught')
    options, _ = p.parse_known_args()
    count = options.seeds or (6000 if options.long else 60)
    seeds = [options.seed] if options.seed is not None else range(options.start, options.start + count)
    name = 'law_versions_%d' % os.getpid()
    passed, failed = 0, 0
    drop_database(name)
    psql_once('postgres', "CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'" % name)
    s = Psql(name)
    s.run('CREATE EXTENSION cdc_precedence')
    try:
        if options.mutate:
            for wrong in MUTATIONS:
                caught = next((n for n in seeds if seed(s, n, wrong)), None)
                print('versions: %s: %s' % (wrong, 'caught by seed %d' % caught if caught else 'NOT caught'), flush=True)
                passed, failed = passed + (caught is not None), failed + (caught is None)
        else:
            for n in seeds:
                bad = seed(s, n)
                passed, failed = passed + (bad is None), failed + (bad is not None)
                if bad:
                    print('versions: ' + bad, flush=True)
                if failed >= 5:
                    break
    finally:
        s.close()
        drop_database(name)
    print('versions: %d passed, %d failed' % (passed, failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
