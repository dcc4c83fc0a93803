#!/usr/bin/env python3
"""Random statements against the extension: tables, types, options and events
of all kinds (world.py) thrown at cdc_attach, cdc_apply, cdc_purge_tombstones,
cdc_set_fence and their kin.

Every call must succeed or fail with a user's SQLSTATE: never an internal error
(class XX), a crash or a failed assertion. After an error everything in the
schema and the registry is as it was, and the guard guards; after a success
the outcomes add up. Where nothing random is in the way: a second call changes
no row, dry_run tells what the call then does, and a call that spills to disk
(cdc_precedence.debug_fold_events) does what one in memory does.

Needs a running server (PGHOST, PGPORT, PGUSER) with the extension installed.
A failure prints its seed and leaves failures/seed_N.sql, made small.
"""
import argparse
import os
import re
import subprocess
import sys
import time

from material import HELPERS
from world import World
from pg import Lost, PgError, Session, lit

HERE = os.path.dirname(os.path.abspath(__file__))
COUNTS = ['inserted', 'updated', 'deleted', 'stale', 'duplicate', 'superseded', 'fenced', 'ignored', 'truncated']
RESULT = ['events'] + COUNTS + ['skipped', 'low_position', 'high_position']
# Other ways to call: once per column, from a common table expression, a cursor, a block that catches, two rows.
FORMS = ['SELECT %s', 'SELECT (%s).*', 'WITH x AS MATERIALIZED (SELECT %s AS r) SELECT (r).* FROM x',
         'SELECT r.* FROM generate_series(1, 2) AS g, LATERAL %s AS r', 'SELECT %s FROM (VALUES (1), (2)) AS v',
         'DECLARE c CURSOR FOR SELECT * FROM %s; FETCH ALL FROM c; MOVE BACKWARD ALL FROM c; CLOSE c',
         'PREPARE p AS SELECT * FROM %s; EXECUTE p; EXECUTE p; DEALLOCATE p',
         'DO $do$BEGIN PERFORM %s; EXCEPTION WHEN OTHERS THEN IF SQLSTATE ~ \'^XX\' THEN RAISE; END IF; END$do$',
         'CREATE TABLE made AS SELECT * FROM %s', 'INSERT INTO audit SELECT %s::text RETURNING *',
         'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT * FROM %s', 'COPY (SELECT * FROM %s) TO STDOUT']
SHAKY = re.compile(r'random\(|fuzz_|nextval|txid|lo_creat|set_config|pg_backend|now\(\)|CURRENT_DATE|ctid|xmin')
OPTIONS = '-c statement_timeout=20s -c jit=off -c client_min_messages=warning -c synchronous_commit=off'

STATE = '''
CREATE FUNCTION public.fuzz_state(schema_name text, exact boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  rel   record;
  found text;
  out   text := '';
BEGIN
  FOR rel IN SELECT c.oid, c.relname, c.oid::regclass AS name FROM pg_class c
             WHERE c.relkind IN ('r', 'm') AND (c.relname IN ('cdc_target_rule', 'cdc_target_state')
                   OR c.relnamespace IN (pg_my_temp_schema(), to_regnamespace(schema_name)::oid))
             ORDER BY c.relname LOOP
    -- the values of dead rows are no part of the law
    EXECUTE format('SELECT md5(string_agg(x, E''\\n'' ORDER BY x COLLATE "C")) FROM (SELECT %s AS x FROM ONLY %s _r) q',
                   CASE WHEN exact THEN '_r::text || _r.ctid::text || _r.xmin::text'
                        WHEN EXISTS (SELECT FROM pg_attribute WHERE attrelid = rel.oid AND attname IN ('deleted', 'deleted_at'))
                             AND rel.relname ~ '^(target|part_)'
                        THEN 'CASE WHEN to_jsonb(_r) @> ''{"deleted": true}'' OR to_jsonb(_r) ->> ''deleted_at'' IS NOT NULL '
                             'THEN concat(''dead '', to_jsonb(_r) ->> ''source_position'', to_jsonb(_r) ->> ''source_lsn'') '
                             'ELSE _r::text END'
                        ELSE '_r::text' END, rel.name) INTO found;
    out := out || rel.relname || '=' || coalesce(found, 'empty') || ' ';
  END LOOP;
  RETURN out;
END $$;
'''


class Fault(Exception):
    """Something that must not happen."""


def template(name):
    s = Session('postgres')
    for sql in ('DROP DATABASE IF EXISTS %s' % name, 'CREATE DATABASE %s TEMPLATE template0' % name):
        s.run(sql)
    s.run("DO $$BEGIN CREATE ROLE fuzz_owner; EXCEPTION WHEN duplicate_object THEN NULL; END$$")
    d = Session(name)
    d.run('CREATE EXTENSION cdc_precedence')
    d.run("DO $$BEGIN CREATE EXTENSION citext; EXCEPTION WHEN OTHERS THEN CREATE DOMAIN citext AS text; END$$")
    d.run(STATE)
    d.run('GRANT ALL ON DATABASE %s TO fuzz_owner; GRANT ALL ON SCHEMA public TO fuzz_owner' % name)
    d.close()
    s.close()


class Run:
    def __init__(self, seed, base, db):
        self.w = World(seed)
        self.rng = self.w.rng
        self.db = db
        self.log = []
        self.calls = self.failed_calls = self.checks = 0
        self.shaky = False
        s = Session('postgres')
        for patience in range(10, -1, -1):
            try:
                s.run('DROP DATABASE IF EXISTS %s WITH (FORCE)' % db)
                s.run('CREATE DATABASE %s TEMPLATE %s' % (db, base))
                break
            except PgError as e:           # an autovacuum is still in there
                if e.code != '55006' or patience == 0:
                    raise
        s.close()
        self.s = Session(db, OPTIONS, timeout=60)

    def sql(self, text):
        self.log.append(text)
        self.s.notices.clear()
        return self.s.run(text)

    def tolerant(self, text):
        """A statement that may fail as it likes, but not inside."""
        try:
            self.sql(text)
        except PgError as e:
            self.judge(e, text)

    def judge(self, e, text):
        if e.code[:2] in ('XX', '58', 'F0') or e.code in ('57014', '53200', 'P0004'):
            # the server's own are not ours to answer for
            if not re.search(r'cdc_|latest_by', text) and 'cdc_' not in e.where and 'precedence' not in e.where:
                return
            raise Fault('%s %s (%s:%s) by: %s' % (e.code, e.message, e.file, e.line, text[:600]))

    def state(self, exact=True):
        return self.s.value('SELECT public.fuzz_state(%s, %s)' % (lit(self.w.schema), str(exact).lower()))

    def setup(self):
        w = self.w
        self.tolerant('CREATE SCHEMA %s%s' % (w.schema, ' AUTHORIZATION fuzz_owner' if w.owner else ''))
        if w.owner:
            self.sql('SET SESSION AUTHORIZATION fuzz_owner')
        self.sql('SET search_path = %s, public' % w.schema)
        for text in re.split(r'(?<=;)\n(?=CREATE)', HELPERS.strip()):
            self.tolerant(text)
        for text in w.setup():
            self.tolerant(text)

    # ------------------------------------------------------------ calls

    def attempt(self, text, before):
        """The call inside its savepoint; the rows, or None and the error."""
        self.calls += 1
        try:
            return self.sql(text), None
        except PgError as e:
            self.failed_calls += 1
            self.w.refused = self.w.refused or 'cdc_apply(' in text
            self.judge(e, text)
            self.tolerant('ROLLBACK TO a')
            if self.state() != before:
                raise Fault('after error %s something is not as it was: %s' % (e.code, text[:600]))
            return None, e

    def check_sum(self, rows, text):
        if len(rows) != 1:
            raise Fault('%d result rows: %s' % (len(rows), text[:300]))
        row = dict(zip(RESULT, rows[0]))
        if int(row['events']) != sum(int(row[c]) for c in COUNTS):
            raise Fault('outcomes do not add up: %s: %s' % (row, text[:600]))
        return row

    def call(self, text):
        self.sql('BEGIN')
        self.sql('SAVEPOINT a')
        rows, _ = self.attempt(text, self.state())
        if rows and 'cdc_attach(' in text:
            self.w.attached = True
        elif rows and 'cdc_detach(' in text:
            self.w.attached = False
        self.end()

    def end(self):
        try:
            if self.rng.random() < 0.1:
                name = lit(self.db)
                self.sql('PREPARE TRANSACTION ' + name)
                if self.s.status == 'I' and self.s.value('SELECT count(*) FROM pg_prepared_xacts WHERE gid = ' + name) == '1':
                    self.sql('COMMIT PREPARED ' + name)
            else:
                self.sql('COMMIT')
        except PgError as e:
            self.judge(e, 'cdc_ COMMIT')
            if self.s.status != 'I':
                self.sql('ROLLBACK')

    def apply(self, args):
        w, r = self.w, self.rng
        how = r.choice(['plain', 'form', 'spill', 'spill', 'dry', 'replay'])
        form = r.choice(FORMS)
        isolation = r.choice(['READ COMMITTED'] * 4 + ['REPEATABLE READ', 'SERIALIZABLE'])
        drawn = r.random()
        fold = r.choice([1, 2, 3, 7])
        if drawn < 0.05:
            args['dry_run'] = 'true'
        text = 'SELECT * FROM ' + w.call('cdc_apply', args)
        self.sql('BEGIN ISOLATION LEVEL ' + isolation)
        # a snapshot that is older than the savepoint's contents, in part
        before = self.state()
        self.sql('SAVEPOINT a')
        stable = not (w.tricky or self.shaky or SHAKY.search(text)) and w.wild <= 0.1
        try:
            if stable and how == 'spill':
                self.spilled(text, before, fold)
            elif stable and how == 'dry' and 'dry_run' not in args:
                self.dry(text, dict(args, dry_run='true'), before)
            else:
                if how == 'spill':
                    self.sql('SET LOCAL cdc_precedence.debug_fold_events = %d' % fold)
                    self.sql('SAVEPOINT a')
                if how == 'form':
                    text = form.replace('%s', w.call('cdc_apply', args))
                rows, error = self.attempt(text, before)
                if rows:
                    if how != 'form':
                        self.check_sum(rows, text)
                    if stable and how == 'replay' and 'dry_run' not in args:
                        self.replay(text, args)
                    if how != 'form' and args.get('dry_run') and self.state() != before:
                        raise Fault('dry_run changed something: %s' % text[:600])
                elif drawn > 0.7:
                    self.probe_guard()
        finally:
            if self.s.status != 'I':
                self.end()

    def spilled(self, text, before, fold):
        one, e1 = self.attempt(text, before)
        notes = [(n.code, n.message, n.detail) for n in self.s.notices]
        content = self.state(False)
        if one:
            self.check_sum(one, text)
        self.sql('ROLLBACK TO a')
        self.sql('SET LOCAL cdc_precedence.debug_fold_events = %d' % fold)
        self.sql('SAVEPOINT a')
        two, e2 = self.attempt(text, before)
        self.checks += 1
        told = [(n.code, n.message, n.detail) for n in self.s.notices]
        if (e1 and e1.code) != (e2 and e2.code):
            raise Fault('in memory: %s, spilled: %s: %s' % (e1, e2, text[:600]))
        if one != two:
            raise Fault('in memory: %s, spilled: %s: %s' % (one, two, text[:600]))
        if one and not self.w.volatile and self.state(False) != content:
            raise Fault('spilled, the rows differ: %s: %s | %s' % (text[:600], content, self.state(False)))
        if one and notes != told:
            raise Fault('in memory: %s, spilled: %s: %s' % (notes, told, text[:300]))

    def dry(self, text, args, before):
        dry_text = 'SELECT * FROM ' + self.w.call('cdc_apply', args)
        one, e1 = self.attempt(dry_text, before)
        if one:
            self.check_sum(one, dry_text)
            if self.state() != before:
                raise Fault('dry_run changed something: %s' % dry_text[:600])
        two, e2 = self.attempt(text, before)
        self.checks += 1
        if two and e1 and "'truncate'" not in self.says(text, args):
            raise Fault('dry_run fails: %s, the call does not: %s' % (e1, dry_text[:600]))
        if one and two and one != two:
            raise Fault('dry_run: %s, the call: %s: %s' % (one, two, text[:600]))

    def says(self, text, args):
        """The call, and what is recorded of it."""
        return text + str(self.s.run("SELECT consume, on_same_position FROM cdc_targets WHERE target = %s::regclass" % args['target']))

    def replay(self, text, args):
        says = self.says(text, args)
        if any("'%s'" % w in says for w in ('delete', 'truncate', 'bookmark', 'rewrite')):
            return
        once = self.state()
        self.sql('SAVEPOINT again')
        self.checks += 1
        try:
            again = self.check_sum(self.sql(text), text)
        except PgError as e:
            self.judge(e, text)
            raise Fault('the second of two equal calls failed: %s: %s' % (e, text[:600]))
        if self.state() != once or int(again['inserted']) + int(again['updated']) + int(again['deleted']):
            raise Fault('a replay wrote: %s: %s' % (again, text[:600]))

    def probe_guard(self):
        """After a failed call the guard must still refuse the loss of a row."""
        try:
            rows = self.s.run("SELECT guard, tombstone_column FROM cdc_targets WHERE target = 'target'::regclass")
        except PgError:
            self.sql('ROLLBACK TO a')
            return
        if not rows or rows[0][0] != 'error' or self.w.tricky or self.w.wild > 0.1:
            return
        if self.s.value('SHOW cdc_precedence.bypass_guard') == 'on':
            return
        tomb = rows[0][1]
        live = {'deleted': ' WHERE deleted IS NOT TRUE', 'deleted_at': ' WHERE deleted_at IS NULL', None: ''}.get(tomb)
        if live is None or int(self.s.value('SELECT count(*) FROM target' + live)) == 0:
            return
        self.checks += 1
        try:
            self.sql('DELETE FROM target' + live)
        except PgError as e:
            if e.code not in ('23000', '55000'):
                raise Fault('the guard answered %s' % e)
            self.sql('ROLLBACK TO a')
            return
        raise Fault('after a failed call the guard let a DELETE pass')

    # ------------------------------------------------------------ the whole

    def go(self, steps):
        self.setup()
        for _ in range(steps):
            kind, what = self.w.step()
            if kind == 'load':
                for text in what:
                    self.tolerant(text)
            elif kind == 'apply':
                self.apply(what)
            elif kind == 'call':
                self.shaky = self.shaky or bool(SHAKY.search(what))
                self.call(what)
            else:
                self.shaky = self.shaky or bool(SHAKY.search(what))
                self.tolerant(what)

        self.take_down()

    def take_down(self):
        """Drops find their way whatever has been done to the tables."""
        self.sql('RESET SESSION AUTHORIZATION')
        self.sql('RESET ALL')
        self.checks += 1
        try:
            self.sql('DROP SCHEMA %s CASCADE' % self.w.schema)
            left = self.s.value("SELECT count(*) FROM cdc_targets t LEFT JOIN pg_class c ON c.oid = t.target "
                                "WHERE c.relnamespace = 'pg_catalog'::regnamespace OR c.oid IS NULL") \
                if not self.w.untracked else '0'
            if left != '0':
                raise Fault('%s rows of dropped targets are still in the registry' % left)
            self.sql('DROP EXTENSION cdc_precedence CASCADE')
        except PgError as e:
            if e.code not in ('42P01', '42704', '3F000'):
                raise Fault('dropping all: %s %s' % (e, e.where))

    def close(self):
        self.s.close()


def crash_text(server_log, since):
    if not server_log or not os.path.exists(server_log):
        return ''
    with open(server_log, errors='replace') as f:
        f.seek(since)
        return '\n'.join(l.strip() for l in f if re.search(r'TRAP:|PANIC|terminated by signal|WARNING:  .*(leak|refcount)', l))


def one_seed(seed, options):
    since = os.path.getsize(options.log) if options.log and os.path.exists(options.log) else 0
    run = None
    try:
        run = Run(seed, options.base, options.base + '_w')
        run.go(options.steps)
        wrong = crash_text(options.log, since)
    except Fault as e:
        wrong = str(e)
    except Lost as e:
        time.sleep(2)
        wrong = 'connection lost (%s) by: %s\n%s' % (e, run.log[-1][:600] if run and run.log else '', crash_text(options.log, since))
    except PgError as e:
        wrong = 'unexpected %s by: %s' % (e, run.log[-1][:600] if run else '')
    if run:
        run.close()
    return wrong, run


def keep(seed, run, wrong, options):
    """Write the statements of a failing seed; those that are not needed go first if they can."""
    log = run.log
    code = re.match(r'(XX\w{3}|58\w{3}) (.{12})', wrong)
    if 'connection lost' in wrong or code:
        log = shrink(log, 'lost' if 'lost' in wrong else code.group(1), code.group(2) if code else '', options)
    path = os.path.join(HERE, 'failures', 'seed_%d.sql' % seed)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8', errors='surrogateescape') as f:
        f.write('-- seed %d: %s\n' % (seed, wrong.replace('\n', '\n-- ')))
        f.write(STATE + "CREATE ROLE fuzz_owner;\n" + ''.join(t.rstrip(';') + ';\n' for t in log))
    return path


def shrink(log, code, head, options):
    def fails(statements):
        try:
            r = Run(1, options.base, options.base + '_s')
        except (PgError, Lost):
            time.sleep(2)
            r = Run(1, options.base, options.base + '_s')
        seen = False
        try:
            for text in statements:
                try:
                    r.sql(text)
                except PgError as e:
                    seen = seen or (e.code == code and e.message.startswith(head))
        except Lost:
            seen = seen or code == 'lost'
            time.sleep(1)
        r.close()
        return seen

    deadline = time.time() + options.shrink
    if not fails(log):
        return log
    size = max(1, len(log) // 2)
    while size >= 1 and time.time() < deadline:
        i = 0
        while i < len(log) and time.time() < deadline:
            less = log[:i] + log[i + size:]
            if fails(less):
                log = less
            else:
                i += size
        size //= 2
    return log


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seeds', type=int, default=60, help='how many seeds')
    p.add_argument('--start', type=int, default=1, help='the first seed')
    p.add_argument('--seconds', type=float, default=1e9, help='begin no seed after so long')
    p.add_argument('--steps', type=int, default=40, help='statements or loads of a seed')
    p.add_argument('--log', default=os.environ.get('CDC_SERVER_LOG'), help="the server's log, looked through for crashes")
    p.add_argument('--base', default='fuzz_%d' % os.getpid(), help='name of the databases')
    p.add_argument('--shrink', type=float, default=30, help='seconds to make a failure small; 0: not at all')
    p.add_argument('--max-failures', type=int, default=10)
    options = p.parse_args()
    template(options.base)
    begin, failures, passed = time.time(), 0, 0
    calls = failed = checks = 0
    for seed in range(options.start, options.start + options.seeds):
        if time.time() - begin > options.seconds or failures >= options.max_failures:
            break
        wrong, run = one_seed(seed, options)
        if run:
            calls, failed, checks = calls + run.calls, failed + run.failed_calls, checks + run.checks
        if wrong:
            failures += 1
            print('fuzz: seed %d: %s' % (seed, wrong), flush=True)
            if run:
                print('fuzz: kept in %s' % keep(seed, run, wrong, options), flush=True)
        else:
            passed += 1
    s = Session('postgres')
    for suffix in ('_w', '_s', ''):
        s.run('DROP DATABASE IF EXISTS %s%s WITH (FORCE)' % (options.base, suffix))
    print('fuzz: statements: seeds %d to %d, %d calls (%d refused), %d compared with a second call, %.0f s' % (
        options.start, options.start + passed + failures - 1, calls, failed, checks, time.time() - begin))
    print('statements: %d passed, %d failed' % (passed, failures))
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
