#!/usr/bin/env python3
"""The law test: random histories against cdc_apply.

Each seed makes a history (history.py), delivers it in several ways into targets
that remember deletes in the row and into targets with a side table, and after
every call compares counts, rows, tombstones, fence and floor with an oracle in
plain SQL (oracle.sql, machine.sql), which is the same for all of them. Between
the calls an owner purges, sets fence and floor, attaches again or begins a new
epoch. A failure is made small and written to failures/ as an SQL file
that needs nothing but the extension; such a file, moved to kept/, is replayed
by every run. With --mutate, appliers that are wrong on purpose (applier.sql)
take the place of cdc_apply, and each must be caught.
"""
import argparse
import glob
import json
import multiprocessing
import os
import queue
import re
import subprocess
import sys
import time

from history import COLUMNS, DEFAULTS, History, lit

HERE = os.path.dirname(os.path.abspath(__file__))
COUNTS = ['events', 'inserted', 'updated', 'deleted', 'stale', 'duplicate', 'superseded', 'fenced', 'ignored',
          'truncated']


MUTATIONS = re.findall(r"^ \* ([a-z_]+):", open(os.path.join(HERE, 'applier.sql'), encoding='utf-8').read(), re.M)


class SqlError(Exception):
    pass


class Psql:
    """One long-lived session."""

    def __init__(self, db):
        self.db = db
        self.start()

    def start(self):
        env = dict(os.environ, PGOPTIONS='-c client_min_messages=error -c synchronous_commit=off -c jit=off '
                   '-c plan_cache_mode=force_generic_plan')
        self.p = subprocess.Popen(['psql', '-qAtX', '-d', self.db], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True,
                                  encoding='utf-8')

    def send(self, sql):
        try:
            self.p.stdin.write(sql + "\n;\nSELECT '--end--';\n")
            self.p.stdin.flush()
        except BrokenPipeError:
            pass

    def receive(self):
        lines = []
        while True:
            line = self.p.stdout.readline()
            if not line:
                self.p.wait()
                self.start()
                raise SqlError('connection lost: ' + ''.join(lines)[-2000:])
            if line == '--end--\n':
                break
            lines.append(line)
        out = ''.join(lines).strip()
        if 'ERROR:  ' in out or 'FATAL:  ' in out:
            raise SqlError(out[-2000:])
        return out

    def run(self, sql):
        self.send(sql)
        return self.receive()

    def close(self):
        self.p.stdin.close()
        self.p.wait()


def psql_once(db, sql):
    r = subprocess.run(['psql', '-qAtX', '-v', 'ON_ERROR_STOP=1', '-d', db, '-c', sql], capture_output=True, text=True)
    if r.returncode:
        sys.exit('law: ' + r.stderr.strip())


def drop_database(name):
    """A session that has just ended may still be there for a moment, on a slow machine for longer than the server waits."""
    for patience in (True, True, False):
        r = subprocess.run(['psql', '-qAtX', '-d', 'postgres', '-c', 'DROP DATABASE IF EXISTS %s WITH (FORCE)' % name],
                           capture_output=True, text=True)
        if r.returncode == 0:
            return
        if not patience:
            sys.exit('law: ' + r.stderr.strip())


def quoted(value):
    text = json.dumps(value, ensure_ascii=False)
    tag = 'law'
    while '$' + tag + '$' in text:
        tag += 'x'
    return '$%s$%s$%s$' % (tag, text, tag)


def in_sql(h, d, mutation):
    """A delivery for the applier in SQL (applier.sql)."""
    L = h.layout

    def array(pos):
        return 'NULL' if pos is None else lit('{' + ','.join(map(str, pos)) + '}')

    def act(a):
        what = a['what']
        if what in ('young', 'epoch'):
            return None
        a = dict(a, refused=None)
        if what == 'purge':
            a['sql'] = 'SELECT law.purge(%s, %s, %s, %s)' % (
                lit(mutation), array(a['pos']), 'NULL' if a['max_rows'] is None else a['max_rows'], a['force'])
        elif what in ('fence', 'floor'):
            a['sql'] = 'SELECT law.set_mark(%s, %s)' % (lit(what), array(a['pos']))
        elif what == 'new epoch':
            a['sql'] = 'SELECT law.new_epoch()'
        elif what == 'again':
            a['sql'] = 'SELECT law.attach_again(%s, %s)' % (lit(mutation), array(a['pos']))
        else:
            a['sql'] = {'row': 'SELECT law.run(%s)' % lit(h.hand_delete()['statements']['row']),
                        'side': "SELECT law.run('DELETE FROM target_tombstones')"}
        return a

    calls, acts = [], []
    for c in d['calls']:
        acts += [a for a in map(act, c.get('acts', ())) if a]
        if 'refused' not in c:
            calls.append(dict(c, acts=acts))
            acts = []
    homes = []
    for home in d['homes']:
        name = home['name']
        home = dict(home, call='SELECT * FROM law.apply(%s, %s, @dry@)' % (lit(mutation), str(h.consume).lower()))
        home['reset'] = ('DROP VIEW IF EXISTS state; DROP TABLE IF EXISTS target;\n' + L.target_ddl(name, False))
        home['attach'] = L.state_ddl(name, 'target_tombstones')
        if name == 'side':
            home['attach'] = ('DROP TABLE IF EXISTS target_tombstones; CREATE TABLE target_tombstones (%s, source_position'
                              ' cdc_position, deleted_at timestamptz, PRIMARY KEY (%s));\n' % (
                                  ', '.join('%s %s' % k for k in L.keys), ', '.join(k for k, _ in L.keys))
                              + home['attach'])
        if name != 'free':
            home['attach'] += 'SELECT law.attach(%s, %d);' % (array(d['as_of']), h.first_epoch or 0)
            home['marks'] = ("SELECT jsonb_build_object('fence', law.print(s.kind, r.fence), "
                             "'floor', law.print(s.kind, r.floor)) "
                             "FROM law.registry r, law.setting s WHERE home = current_schema()")
        homes.append(home)
    return dict(d, calls=calls, homes=homes)


class Bench:
    """A database with the machine in it, and the seeds that run there."""

    def __init__(self, name, options):
        self.db = name
        self.options = options
        drop_database(name)
        psql_once('postgres', "CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'" % name)
        self.s = Psql(name)
        self.s.run('CREATE EXTENSION cdc_precedence')
        for f in ('oracle.sql', 'machine.sql', 'applier.sql'):
            self.s.run(open(os.path.join(HERE, f), encoding='utf-8').read())
        self.other = None
        self.schemas = set()

    def close(self):
        self.s.close()
        if self.other:
            self.other.close()
        drop_database(self.db)

    def prepare(self, h):
        for home in h.homes:
            name = h.home(home)['schema']
            if name not in self.schemas:
                self.s.run('CREATE SCHEMA %s; SET search_path = %s, public;\n%s' % (name, name, h.layout.staging_ddl()) +
                           ('CALL law.make_incoming();' if self.options.mutation else ''))
                self.schemas.add(name)
        # Little memory where values are large, so that a call need not hold them all.
        self.settings = "SET work_mem = '%s'; SET hash_mem_multiplier = 1;" % ('64kB' if h.big else '4MB')
        self.s.run('%s CALL law.load(%s)' % (self.settings, quoted(h.to_load())))

    def ready(self, h, d):
        """A delivery as law.play reads it, for cdc_apply or for the applier in SQL."""
        if self.options.mutation:
            return in_sql(h, d, self.options.mutation)
        for c in d['calls']:
            for a in c.get('acts', ()):
                a['raw'] = a['statements'] if 'statements' in a else a['sql']
                if not isinstance(a['raw'], dict):
                    a['raw'] = {home: a['raw'] for home in h.homes}
                if 'statements' in a:
                    a['sql'] = {home: 'SELECT law.run(%s)' % lit(text) for home, text in a['raw'].items()}
        return d

    def play(self, d):
        """None, or what went wrong."""
        try:
            out = self.s.run('%s CALL law.play(%s, NULL)' % (self.settings, quoted(d)))
        except SqlError as e:
            try:
                self.s.run('ROLLBACK')
            except SqlError:
                pass
            return {'sql': str(e)}
        return json.loads(out) if out else None

    def seed(self, seed):
        """None, or a text that says what went wrong."""
        h = History(seed)
        self.prepare(h)
        for plan in h.deliveries:
            d = self.ready(h, h.to_play(plan))
            wrong = self.play(d)
            if wrong:
                return self.failed(h, plan, d, wrong)
        if h.mode == 'full' and seed % 4 == 0 and not self.options.mutation:
            wrong = self.rush(h)
            if wrong:
                return 'seed %d, two appliers at once: %s' % (seed, json.dumps(wrong, ensure_ascii=False))
        return None

    def rush(self, h):
        if self.other is None:
            self.other = Psql(self.db)
        items = h.snap_events + h.log
        items = items + h.rng.choices(items, k=len(items) // 3)
        h.rng.shuffle(items)
        halves = [items[::2], items[1::2]]
        home = h.rng.choice(h.homes)
        now = {'epoch': h.first_epoch or 0, 'lineage': h.lineage}
        ds = [dict(h.to_play(h.deliveries[0], [home], staging=staging, rush=True), all=items, final=True,
                   source=h.source_rows(), calls=[h.call(c, now) for c in h.cut(half)])
              for half, staging in zip(halves, ('staging', 'other_staging'))]
        try:
            self.s.run('CALL law.begin_model(%s); CALL law.begin_home(%s, %s)' % (
                quoted(ds[0]), quoted(ds[0]), quoted(ds[0]['homes'][0])))
            self.s.send('CALL law.rush(%s, \'staging\', NULL)' % quoted(ds[0]))
            self.other.send('%s CALL law.rush(%s, \'other_staging\', NULL)' % (self.settings, quoted(ds[1])))
            wrong = []
            for s in (self.s, self.other):
                try:
                    out = s.receive()
                    if out:
                        wrong.append(out)
                except SqlError as e:
                    wrong.append(str(e))
            if wrong:
                return wrong
            out = self.s.run('SELECT law.after_rush(%s)' % quoted(ds[0]))
            return json.loads(out) if out else None
        except SqlError as e:
            return {'sql': str(e)}

    def control(self, seed):
        """A replay after the tombstones went: None, or (purge, by hand), what each left wrong."""
        h = History(seed)
        if not h.can_resurrect():
            return None
        self.prepare(h)
        return [self.play(self.ready(h, h.to_play(h.replay_plan(by_hand)))) for by_hand in (False, True)]

    # Failures

    def failed(self, h, plan, d, wrong):
        text = 'seed %d (%s, %s, %s): %s' % (h.seed, h.layout.name, h.mode, plan['kind'], tell(wrong))
        if self.options.mutation or self.options.no_shrink:
            return text
        small = dict(d)
        if 'sql' not in wrong and self.play(dict(small, commits=False, caught=True)):
            small.update(commits=False, caught=True)
        elif 'sql' in wrong and self.play(dict(small, commits=False, caught=True)):
            small.update(commits=False, caught=True)
        if 'against_the_source' in wrong and not wrong.get('against_the_law'):
            return text
        small = self.shrink(small)
        wrong = self.play(dict(small, trace=True))
        if not wrong:
            return text + '\n  (not seen again when replayed)'
        if 'trace' not in wrong:
            return text + '\n  (small: %s)' % json.dumps(small['calls'])
        path = os.path.join(HERE, 'failures', 'seed_%d.sql' % h.seed)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(self_contained(h, small, wrong))
        return '%s\n  small, in %s: %s' % (text, path, tell(wrong))

    def shrink(self, d):
        """The same failure with fewer calls and events."""
        def kind(wrong):
            return None if not wrong else sorted(set(wrong) - {'call', 'trace', 'message', 'written', 'rows', 'home',
                                                               'value', 'expected_value', 'statement'}) + \
                [wrong.get('error')]

        def epochs(calls):
            return sum(bool(a.get('epoch')) for c in calls for a in c.get('acts', ()))

        def fails(calls, first=d['first'], whole=True):
            if not any(c['e'] or c.get('acts') for c in calls):
                return False
            # events of a new epoch mean another thing without it
            if whole and epochs(calls) != all_epochs:
                return False
            return kind(self.play(dict(d, calls=calls, source=None, first=first))) == same

        same = kind(self.play(dict(d, source=None)))
        calls = [dict(c) for c in d['calls']]
        if same is None:
            return d
        wrong = self.play(dict(d, calls=calls, source=None))
        all_epochs = 0
        if 'call' in wrong:
            cut = calls[:wrong['call']]
            if fails(cut, whole=False):
                calls = cut
        all_epochs = epochs(calls)
        one = [home for home in d['homes'] if home['name'] == wrong.get('home')]
        if one and kind(self.play(dict(d, homes=one, calls=calls, source=None))) == same:
            d = dict(d, homes=one)
        for _ in range(4):
            before = sum(len(c['e']) + len(c.get('acts', ())) for c in calls) + len(calls)
            calls = reduce(calls, fails)
            for n in range(len(calls)):
                def with_acts(acts, n=n):
                    return calls[:n] + [dict(calls[n], acts=acts)] + calls[n + 1:]
                calls = with_acts(reduce(calls[n].get('acts', []), lambda a: fails(with_acts(a))))
            for n in range(len(calls)):
                def with_items(items, n=n):
                    c = dict(calls[n], e=[e for e, _ in items], f=[f for _, f in items])
                    return calls[:n] + [c] + calls[n + 1:]
                items = reduce(list(zip(calls[n]['e'], calls[n]['f'])), lambda i: fails(with_items(i)))
                calls = with_items(items)
            for n in range(len(calls)):
                for flag in ('dry', 'bump'):
                    if calls[n][flag]:
                        plain = calls[:n] + [dict(calls[n], **{flag: False})] + calls[n + 1:]
                        if fails(plain):
                            calls = plain
            if sum(len(c['e']) + len(c.get('acts', ())) for c in calls) + len(calls) == before:
                break
        first = reduce(d['first'], lambda f: fails(calls, f))
        return dict(d, calls=calls, source=None, first=first)


def reduce(items, fails):
    """Leaves out what the failure does not need."""
    size = max(1, len(items) // 2)
    while size >= 1 and items:
        i = 0
        while i < len(items):
            less = items[:i] + items[i + size:]
            if fails(less):
                items = less
            else:
                i += size
        size //= 2
    return items


def tell(wrong):
    wrong = {k: v for k, v in wrong.items() if k != 'trace'}
    want, got = wrong.get('expected'), wrong.get('actual')
    if want and got:
        wrong['counts'] = {k: 'expected %s, got %s' % (want[k], got.get(k)) for k in COUNTS if want[k] != got.get(k)}
        del wrong['expected'], wrong['actual']
    return re.sub(r'[0-9a-f]{100,}', lambda m: m.group()[:20] + '..', json.dumps(wrong, ensure_ascii=False))


def self_contained(h, d, wrong):
    """The history as an SQL script that raises an error where the law is broken."""
    L = h.layout
    home = d['homes'][0]
    names = [k for k, _ in L.keys] + ['__old_' + k for k, _ in L.keys] + COLUMNS + \
        (['source_position'] if L.pos in ('lsn', 'num') else ['source_lsn', 'source_ordinal']) + ['__unchanged', 'op']
    trace = wrong['trace']

    def cell(name, v):
        if name == '__unchanged' and L.gone != 'jsonb':
            return 'NULL' if v is None else lit('{' + ','.join(v) + '}')
        if v is None:
            return 'NULL'
        if isinstance(v, (dict, list)) or name == 'doc' and L.cells == 'typed':
            return lit(json.dumps(v, ensure_ascii=False))
        return lit(v)

    out = ['-- A history that the law test found (seed %d), made small.' % h.seed,
           '-- Rows and counts are those that an oracle in plain SQL worked out.',
           '\\set ON_ERROR_STOP on', 'SET client_min_messages = error;',
           'DROP SCHEMA IF EXISTS law_kept CASCADE;', 'CREATE SCHEMA law_kept;', 'SET search_path = law_kept, public;',
           L.target_ddl(home['name'], h.bare and home['name'] != 'free'), L.staging_ddl(['staging'])]
    for f in d['first']:
        row = f['row']
        if home['name'] == 'side' or h.bare and home['name'] == 'row':
            row = {k: v for k, v in row.items() if k != 'deleted'}
        out.append('INSERT INTO target (%s) VALUES (%s);' % (
            ', '.join(row), ', '.join(lit(json.dumps(v)) if k == 'doc' and v is not None else lit(v)
                                      for k, v in row.items())))
    out.append(home['attach'])
    for n, (c, t) in enumerate(zip(d['calls'], trace), 1):
        out.append('\n-- Call %d' % n)
        out.append('DELETE FROM staging;')
        for a, answer in zip(c.get('acts', ()), t['acts']):
            text = a['raw'][home['name']]
            out.append(ACT % {'n': n, 'text': text, 'into': '' if 'statements' in a else ' INTO got',
                              'refused': lit(answer.get('refused')), 'want': lit(answer.get('want'))})
        if c['bump']:
            out.append(home['bump'] + ';')
        if d['decoys']:
            out.append("INSERT INTO staging (op) SELECT '9' FROM generate_series(1, %d);" % d['decoys'])
        for e, f in zip(c['e'], c['f']):
            row = h.events[e]['forms'][f]['row']
            used = [k for k in names if row.get(k) is not None]
            out.append('INSERT INTO staging (%s) VALUES (%s);' % (
                ', '.join(used), ', '.join(cell(k, row[k]) for k in used)) if used
                else 'INSERT INTO staging DEFAULT VALUES;')
        state = []
        loose = [r['ka'] + '|' + r['kb'] for r in t['state'] if r['loose']]
        for r in t['state']:
            if r['loose'] or r['killed'] and home['name'] == 'side':
                continue
            state.append({k: r[k] for k in ('ka', 'kb', 'live', 'pos')})
            state[-1].update(vals=r['vals'] if r['live'] else None, own=r['own'] if r['live'] else None)
        for dry in ([True] if c['dry'] else []) + [False]:
            out.append(CHECK % {
                'n': n, 'call': home['call'].replace('@dry@', 'true' if dry else 'false').replace('@with@', c['with']),
                'counts': ', '.join("'%s', r.%s" % (k, k) for k in COUNTS),
                'want': json.dumps(t['counts']),
                'errors': lit('{' + ','.join(t['errors']) + '}'),
                'state': json.dumps(state, ensure_ascii=False),
                'loose': json.dumps(loose, ensure_ascii=False),
                'marks': home['marks'] or 'SELECT NULL', 'marks_want': json.dumps(t['marks']) if home['marks'] else 'null',
                'compare': 'false' if dry else 'true'})
    out.append('DROP SCHEMA law_kept CASCADE;')
    return '\n'.join(out) + '\n'


ACT = """DO $check$
DECLARE
  refused text := %(refused)s;
  want    text := %(want)s;
  got     text;
BEGIN
  BEGIN
    EXECUTE $act$%(text)s$act$%(into)s;
    IF refused IS NOT NULL THEN
      RAISE EXCEPTION 'before call %(n)s: not refused' USING ERRCODE = 'XX001';
    ELSIF want <> got THEN
      RAISE EXCEPTION 'before call %(n)s: expected %%, got %%', want, got USING ERRCODE = 'XX001';
    END IF;
  EXCEPTION WHEN OTHERS THEN
    IF SQLSTATE IS DISTINCT FROM refused THEN RAISE; END IF;
  END;
END
$check$;"""


CHECK = """DO $check$
DECLARE
  want   jsonb := $want$%(want)s$want$;
  rows   jsonb := $want$%(state)s$want$;
  errors text[] := %(errors)s;
  got    jsonb;
BEGIN
  BEGIN
    SELECT jsonb_build_object(%(counts)s) INTO got
    FROM (%(call)s) AS r;
    IF cardinality(errors) > 0 THEN
      RAISE EXCEPTION 'call %(n)s succeeded: %%', got USING ERRCODE = 'XX001';
    ELSIF got <> want THEN
      RAISE EXCEPTION 'call %(n)s: expected %%, got %%', want, got USING ERRCODE = 'XX001';
    END IF;
  EXCEPTION WHEN OTHERS THEN
    IF SQLSTATE <> ALL (errors) THEN RAISE; END IF;
  END;
  got := (SELECT coalesce(jsonb_agg(jsonb_build_object('ka', ka, 'kb', kb, 'live', live, 'pos', pos,
                   'vals', CASE WHEN live THEN vals END, 'own', CASE WHEN live THEN own END) ORDER BY ka, kb), '[]')
          FROM state WHERE NOT $want$%(loose)s$want$ ? (ka || '|' || kb));
  IF %(compare)s AND got <> rows THEN
    RAISE EXCEPTION E'after call %(n)s:\\n  expected %%\\n  got      %%', rows, got;
  END IF;
  got := (%(marks)s);
  IF %(compare)s AND got <> $want$%(marks_want)s$want$ THEN
    RAISE EXCEPTION 'after call %(n)s: fence and floor expected %%, got %%', $want$%(marks_want)s$want$, got;
  END IF;
END
$check$;"""


def kept(db):
    """Replays the kept histories; gives the number that passed and the failures."""
    passed, failures = 0, []
    for path in sorted(glob.glob(os.path.join(HERE, 'kept', '*.sql'))):
        r = subprocess.run(['psql', '-qAtX', '-d', db, '-f', path], capture_output=True, text=True)
        if r.returncode:
            failures.append('%s: %s' % (os.path.basename(path), r.stderr.strip()))
        else:
            passed += 1
    return passed, failures


def worker(name, options, todo, done, stop):
    bench = Bench(name, options)
    count = 0
    try:
        while not stop.is_set():
            count += 1
            if count % 200 == 0:  # layouts and plans pile up and slow the session down
                bench.close()
                bench = Bench(name, options)
            seed = todo.get()
            if seed is None:
                break
            try:
                done.put((seed, bench.seed(seed)))
            except Exception as e:  # the test's own fault counts as a failure
                done.put((seed, 'seed %d: %s: %s' % (seed, type(e).__name__, e)))
                bench.s.close()
                bench = Bench(name, options)
    finally:
        try:
            bench.close()
        finally:
            done.put(None)


def run_seeds(options, seeds, report=True):
    """Runs the seeds on several databases at once; gives (passed, failures)."""
    todo, done, stop = multiprocessing.Queue(), multiprocessing.Queue(), multiprocessing.Event()
    jobs = min(options.jobs, len(seeds))
    for s in seeds + [None] * jobs:      # one None for each worker: there is no more
        todo.put(s)
    todo.cancel_join_thread()            # what is left over when all stop at a failure is nobody's
    workers = [multiprocessing.Process(target=worker, args=('law_%d_%d' % (os.getpid(), i), options, todo, done, stop))
               for i in range(jobs)]
    for w in workers:
        w.start()
    passed, failures, running, last = 0, [], jobs, time.time()
    while running:
        try:
            r = done.get(timeout=5)
        except queue.Empty:
            if not any(w.is_alive() for w in workers):
                failures.append('a worker died')
                print('law: a worker died', flush=True)
                break
            continue
        if r is None:
            running -= 1
            continue
        if r[1] is None:
            passed += 1
        else:
            failures.append(r[1])
            if report:
                print(r[1], flush=True)
            if options.stop or len(failures) >= options.max_failures:
                stop.set()
        if report and time.time() - last > 20:
            last = time.time()
            print('law: %d of %d seeds, %d failed' % (passed + len(failures), len(seeds), len(failures)), flush=True)
    for i, w in enumerate(workers):
        w.join()
        if w.exitcode:
            drop_database('law_%d_%d' % (os.getpid(), i))
    if passed + len(failures) < len(seeds) and not stop.is_set():
        failures.append('%d seeds have not been played' % (len(seeds) - passed - len(failures)))
        print('law: ' + failures[-1], flush=True)
    return passed, failures


def suits(mutation, h):
    """Whether a history has what a wrong applier is wrong about; without it, playing is a waste of time."""
    has = {'truncate': h.truncates, 'killed': h.truncates, 'fence': h.acts, 'purge': h.acts, 'detach': h.reattach,
           'as_of': h.reattach, 'floor': h.acts or h.as_of, 'epoch': h.by_epoch or h.layout.pos in ('lsn', 'num'),
           'unplaced': h.snapshots or h.prefill, 'values_': h.mode != 'full', 'fills_': h.mode != 'full',
           'placeholder': h.mode in ('list', 'mark'), 'staging': h.consume}
    return all(there for word, there in has.items() if word in mutation)


def catch(name, options, todo, done, seeds):
    """Takes wrong appliers one after the other and looks for a seed that catches each."""
    bench, count = Bench(name, options), 0
    try:
        while True:
            options.mutation = todo.get()
            if options.mutation is None:
                return
            wrong = None
            for seed in seeds:
                if not suits(options.mutation, History(seed)):
                    continue
                count += 1
                if count % 300 == 0:
                    bench.close()
                    bench = Bench(name, options)
                wrong = bench.seed(seed)
                if wrong:
                    break
            done.put((options.mutation, wrong))
    finally:
        try:
            bench.close()
        finally:
            done.put(None)


def mutate(options):
    """Each wrong applier must be caught, and the right one among them must pass."""
    count = options.seeds if options.seeds is not None else 400
    seeds = list(range(options.start, options.start + count))
    options.mutation = 'right'
    passed, failures = run_seeds(options, seeds[:40])
    print('law: the right applier in SQL: %d passed, %d failed' % (passed, len(failures)), flush=True)
    ok, bad = (0, 1) if failures else (1, 0)
    todo, done = multiprocessing.Queue(), multiprocessing.Queue()
    for name in MUTATIONS + [None] * options.jobs:
        todo.put(name)
    workers = [multiprocessing.Process(target=catch, args=('law_%d_%d' % (os.getpid(), i), options, todo, done, seeds))
               for i in range(options.jobs)]
    for w in workers:
        w.start()
    running, missing = options.jobs, set(MUTATIONS)
    while running:
        r = done.get()
        if r is None:
            running -= 1
        elif r[1]:
            ok += 1
            missing.discard(r[0])
            print('law: %s: caught by %s' % (r[0], r[1].split(':')[0]), flush=True)
        else:
            print('law: %s: NOT caught by %d seeds' % (r[0], count), flush=True)
    bad += len(missing)
    for w in workers:
        w.join()
    print('law: %d passed, %d failed' % (ok, bad))
    return 1 if bad else 0


def control(options, wanted=8):
    """A replay after a purge brings no row back; after a DELETE of the tombstones it does, and is seen."""
    bench = Bench('law_%d_control' % os.getpid(), options)
    histories, resurrected, failures = 0, 0, []
    try:
        seed = options.start
        while histories < wanted:
            r = bench.control(seed)
            if r is not None:
                histories += 1
                if r[0]:
                    failures.append('seed %d, replayed after a purge: %s' % (seed, tell(r[0])))
                if r[1] and r[1].get('against_the_source'):
                    resurrected += 1
                else:
                    failures.append('seed %d, replayed after the tombstones were deleted by hand, is not seen to be wrong: %s'
                                    % (seed, json.dumps(r[1])))
            seed += 1
    finally:
        bench.close()
    print('law: %d logs replayed after a purge, nothing resurrected; after a DELETE of the tombstones, %d resurrected'
          % (histories, resurrected) if not failures else '\n'.join(failures), flush=True)
    return 2 * histories - len(failures), failures


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seeds', type=int, default=None, help='how many seeds (300; 20000 with --long)')
    p.add_argument('--start', type=int, default=1, help='the first seed')
    p.add_argument('--seed', type=int, help='this seed alone')
    p.add_argument('--long', action='store_true', help='many seeds')
    p.add_argument('--jobs', type=int, default=2, help='databases worked on at once')
    p.add_argument('--stop', action='store_true', help='stop at the first failure')
    p.add_argument('--max-failures', type=int, default=20, help='stop after so many failures')
    p.add_argument('--no-shrink', action='store_true', help='do not make failures small')
    p.add_argument('--mutate', action='store_true', help='check that wrong appliers are caught')
    p.add_argument('--mutation', help='run the seeds against this wrong applier')
    options = p.parse_args()
    if options.mutate:
        return mutate(options)
    count = options.seeds if options.seeds is not None else 20000 if options.long else 300
    seeds = [options.seed] if options.seed is not None else list(range(options.start, options.start + count))
    passed, failures = 0, []
    if glob.glob(os.path.join(HERE, 'kept', '*.sql')) and not options.mutation:
        name = 'law_%d_kept' % os.getpid()
        psql_once('postgres', 'CREATE DATABASE %s TEMPLATE template0 ENCODING \'UTF8\'' % name)
        psql_once(name, 'CREATE EXTENSION cdc_precedence')
        passed, failures = kept(name)
        drop_database(name)
        for f in failures:
            print(f, flush=True)
        print('law: %d kept histories replayed, %d failed' % (passed + len(failures), len(failures)), flush=True)
    if options.seed is None and not options.mutation:
        p1, f1 = control(options)
        passed, failures = passed + p1, failures + f1
    p2, f2 = run_seeds(options, seeds)
    passed, failures = passed + p2, failures + f2
    print('law: %d passed, %d failed' % (passed, len(failures)))
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
