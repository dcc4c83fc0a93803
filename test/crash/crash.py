#!/usr/bin/env python3
"""The crash test: applies that are killed, cancelled, timed out and recovered.

  storm    random batches of one log go to four targets (both homes, attached
           and not, partitioned). At random moments: kill -9 of the backend or
           of the postmaster, pg_terminate_backend, pg_cancel_backend,
           statement_timeout, lock_timeout. After each the target equals the
           law's own account of what was committed (storm.sql), and what was
           aborted left target, tombstones and staging as they were. Half way
           all is applied and tombstones are purged, under kills too.
  consume  each way to consume while loaders write and appliers are killed:
           each event is applied once or still in staging.
  copies   a physical standby and a logical subscriber end equal; on the
           standby and in a read-only transaction every call is refused with
           25006. Promoted, the standby goes on applying.
At the end pg_amcheck looks through tables and indexes.
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pg import Lost, PgError, Session  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
TARGETS = ['plain', 'row', 'side', 'part']
TABLES = ['t_' + t for t in TARGETS + ['own', 'shared', 'emptied', 'marked']] + \
    ['t_%s_tombstones' % t for t in ('side', 'part', 'shared')]
PATH = '-c search_path=storm,public -c jit=off -c client_min_messages=error'
passed = failed = 0


def verdict(ok, text):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(('ok    ' if ok else 'FAIL  ') + text, flush=True)
    return ok


def connect(options, patience=60, **kw):
    """A session, as soon as the server takes one."""
    end = time.time() + patience
    while True:
        try:
            return Session(options.db, PATH, timeout=120, **kw)
        except (Lost, PgError) as e:
            if time.time() > end or isinstance(e, PgError) and e.code not in ('57P03', '57P01', '57P02', '53300'):
                raise
            time.sleep(0.05)


def alive(pid):
    """A process that nobody has waited for, as in a container without an init, is dead all the same."""
    try:
        with open('/proc/%d/stat' % pid) as f:
            return f.read().rpartition(')')[2].split()[0] not in ('Z', 'X')
    except OSError:
        return False


def kill_backend(pid, watch):
    """
    SIGKILL, and wait until the server has noticed, which ends watch, too. Before that it takes connections that do
    not last.
    """
    os.kill(pid, signal.SIGKILL)
    end = time.time() + 60
    try:
        while time.time() < end:
            watch.run('SELECT 1')
            time.sleep(0.01)
    except (Lost, PgError):
        pass


def children(pid):
    out = []
    for p in os.listdir('/proc'):
        if p.isdigit():
            try:
                with open('/proc/%s/stat' % p) as f:
                    if int(f.read().rpartition(')')[2].split()[1]) == pid:
                        out.append(int(p))
            except (OSError, ValueError):
                pass
    return out


class Server:
    """Knows how to bring the postmaster down the hard way, and up again."""

    def __init__(self, options):
        self.options = options

    def postmaster(self):
        with open(os.path.join(self.options.data, 'postmaster.pid')) as f:
            return int(f.readline())

    def kill_postmaster(self):
        pid = self.postmaster()
        family = children(pid)
        os.kill(pid, signal.SIGKILL)
        end = time.time() + 60
        # they notice by themselves; a new server may not start before they did
        while any(alive(p) for p in family + [pid]) and time.time() < end:
            time.sleep(0.02)
        # a new server takes a dead one that nobody has waited for for alive
        lock = os.path.join(self.options.data, 'postmaster.pid')
        if os.path.exists('/proc/%d' % pid) and not alive(pid) and os.path.exists(lock):
            os.unlink(lock)
        # a child that was just being made is in no list and holds the shared memory a little longer
        for _ in range(30):
            if subprocess.run(self.options.start, shell=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, close_fds=True).returncode == 0:
                return
            time.sleep(1)
        raise Lost('the server does not start again')


class Storm:
    def __init__(self, options, rng):
        self.o, self.rng = options, rng
        self.server = Server(options)
        self.count = {}
        self.usual = 0.1          # seconds that an apply takes
        self.s = self.watch = None

    def sessions(self):
        """The victim and the one that looks on."""
        for name in ('s', 'watch'):
            s = getattr(self, name)
            try:
                if s is None or s.status != 'I':
                    raise Lost('new')
                s.run('SELECT 1')
            except (Lost, PgError):
                if s:
                    s.close()
                setattr(self, name, connect(self.o))

    def ask(self, sql):
        """Of the one that looks on; a crash takes a moment to reach it."""
        for _ in range(20):
            try:
                return self.watch.value(sql)
            except Lost:
                time.sleep(0.1)
                self.sessions()
        raise Lost('no answer to ' + sql)

    def call(self, t):
        options = "on_schema_change => 'ignore'"
        if t == 'plain':
            options += ", staging_position => 'cdc_position(source_lsn, source_ordinal)'"
        return ("BEGIN; INSERT INTO done SELECT DISTINCT '%s', eid FROM s_%s ON CONFLICT DO NOTHING;"
                "SELECT events FROM cdc_apply('t_%s', 's_%s', %s); COMMIT" % (t, t, t, t, options))

    def strike(self, how, delay):
        """What happens to the victim after a while; in a thread."""
        time.sleep(delay)
        try:
            if how == 'kill backend':
                kill_backend(self.s.pid, self.watch)
            elif how == 'kill postmaster':
                self.server.kill_postmaster()
            elif how == 'terminate':
                self.watch.run('SELECT pg_terminate_backend(%d)' % self.s.pid)
            elif how == 'cancel':
                self.watch.run('SELECT pg_cancel_backend(%d)' % self.s.pid)
        except (ProcessLookupError, Lost, PgError):
            pass                         # the call had ended; a server that is away for good is seen by connect()

    def one(self, how, t, sql):
        """One call under one kind of disturbance; false when something is wrong."""
        rng = self.rng
        self.sessions()
        before = self.ask("SELECT footprint('%s')" % t)
        delay = rng.uniform(0, 1.1) * self.usual
        blocker = None
        self.s.run("RESET statement_timeout; RESET lock_timeout; SET cdc_precedence.debug_fold_events = %d;"
                   "SET work_mem = '%s'" % (rng.choice([0, 0, 500]), rng.choice(['64kB', '4MB'])))
        if how == 'statement_timeout':
            self.s.run('SET statement_timeout = %d' % max(1, int(delay * 1000)))
        elif how == 'lock_timeout':
            blocker = connect(self.o)
            blocker.run('BEGIN; ' + rng.choice([
                'SELECT FROM t_%s WHERE id %% 7 = 1 FOR UPDATE' % t, 'LOCK TABLE t_%s' % t, 'LOCK TABLE s_%s' % t,
                "SELECT FROM cdc_apply('t_side', 's_side', on_schema_change => 'ignore', dry_run => true)"]))
            self.s.run('SET lock_timeout = %d' % rng.randint(1, 30))
        strike = threading.Thread(target=self.strike, args=(how, delay))
        strike.start()
        begin, outcome, code = time.time(), 'done', ''
        try:
            self.s.run(sql)
            self.usual = 0.8 * self.usual + 0.2 * min(1.0, time.time() - begin)
        except PgError as e:
            outcome, code = 'aborted', e.code
        except Lost:
            outcome = 'lost'
        strike.join()
        if blocker:
            try:
                blocker.close()
            except Lost:
                pass
        self.count[how] = self.count.get(how, 0) + 1
        self.count[outcome] = self.count.get(outcome, 0) + 1
        if code not in ('', '57014', '57P01', '55P03'):
            return verdict(False, 'storm: %s gave %s' % (how, code))
        if outcome == 'aborted':
            self.s.run('ROLLBACK')
        self.sessions()
        wrong = int(self.ask("SELECT wrong('%s')" % t))
        if wrong:
            return verdict(False, 'storm: after %s (%s) %d keys of t_%s are not what the law says' % (how, outcome, wrong, t))
        if outcome == 'aborted' and self.ask("SELECT footprint('%s')" % t) != before:
            return verdict(False, 'storm: an aborted call (%s) on t_%s left something' % (how, t))
        return True

    def run(self, seconds):
        rng = self.rng
        self.sessions()
        half, end = self.o.events // 2, time.time() + seconds
        begin = time.time()
        purged = False
        soft = ['terminate', 'cancel', 'statement_timeout', 'lock_timeout', 'nothing']
        hard = ['kill backend', 'kill postmaster']
        ok = True
        while time.time() < end and ok:
            t = rng.choice(TARGETS)
            if not purged and time.time() > begin + seconds / 2:
                purged = True
                for x in TARGETS:
                    self.whole(x, half)
                ok = self.purge(half)
            self.sessions()
            self.s.run('RESET statement_timeout; RESET lock_timeout')
            self.s.run("CALL fill('%s', %f, %d)" % (t, rng.choice([0.05, 0.2, 0.5]), self.o.events if purged else half))
            how = rng.choice(hard) if rng.random() < 0.1 else rng.choice(soft)
            ok = ok and self.one(how, t, self.call(t))
        for t in TARGETS:
            self.whole(t, self.o.events)
            n = self.ask("SELECT count(*) FROM law('%s')" % t)
            wrong = int(self.ask("SELECT wrong('%s')" % t))
            verdict(wrong == 0, 'storm: t_%s at the end: %s keys, %d not as the law says' % (t, n, wrong))
        c = dict(self.count)
        text = ', '.join('%d %s' % (c[k], k) for k in hard + soft if k in c)
        verdict(ok, 'storm: %s; %d calls went through, %d aborted, %d connections lost' % (
            text, c.get('done', 0), c.get('aborted', 0), c.get('lost', 0)))

    def whole(self, t, up_to):
        self.sessions()
        self.s.run('RESET ALL; SET search_path = storm, public')
        self.s.run("CALL fill('%s', 1.1, %d)" % (t, up_to))
        self.s.run(self.call(t))

    def purge(self, up_to):
        """All up to there has been applied: it is safe to forget tombstones."""
        for t in ('row', 'side', 'part'):
            for how in ('kill backend', 'cancel', 'terminate', 'nothing'):
                sql = "SELECT cdc_purge_tombstones('t_%s', lsn_of(%d), max_rows => %s)" % (
                    t, up_to, 'NULL' if how == 'nothing' else self.rng.choice(['NULL', '100']))
                if not self.one(how, t, sql):
                    return False
            left = self.ask("SELECT count(*) FROM state_%s WHERE NOT live AND lsn <= lsn_of(%d)" % (t, up_to))
            verdict(left == '0', 'storm: tombstones of t_%s purged under kills, %s left' % (t, left))
        return True


class Consume:
    """Loaders and appliers of one queue, each a thread with its session."""

    def __init__(self, options, rng, target, form):
        self.o, self.rng, self.t, self.form = options, rng, target, form
        self.own = target != 'shared'
        # TRUNCATE is refused under a snapshot of the transaction's
        self.levels = ['READ COMMITTED'] if form == 'truncate' else ['READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ']
        self.stop = threading.Event()
        self.pids = {}
        self.wrong = []
        self.kills = self.applies = 0

    def loader(self, seed):
        rng = random.Random(seed)
        key = 'e' if self.own else '1 + e % 300'
        s = None
        while not self.stop.is_set():
            n = rng.choice([1, 3, 20, 100])
            op = "'c'" if self.own else "CASE WHEN e % 4 = 0 THEN 'd' ELSE 'c' END"
            try:
                s = s or connect(self.o)
                s.run("BEGIN; WITH n AS (INSERT INTO loads SELECT '%s', e, %s, %s, md5(e::text) "
                      "FROM (SELECT nextval('loaded') AS e FROM generate_series(1, %d)) x RETURNING *) "
                      "INSERT INTO s_%s SELECT eid, id, NULL, op, val, lsn_of(eid), 0 FROM n"
                      % (self.t, key, op, n, self.t))
                if rng.random() < 0.3:
                    time.sleep(rng.random() * 0.02)
                s.run('ROLLBACK' if rng.random() < 0.1 else 'COMMIT')
                time.sleep(rng.random() * 0.01)
            except (Lost, PgError) as e:
                if isinstance(e, PgError) and e.code[:2] not in ('57',):
                    self.wrong.append('loader: %s' % e)
                    return
                s = None
        if s:
            s.close()

    def applier(self, seed):
        rng = random.Random(seed)
        s = None
        while not self.stop.is_set():
            try:
                if s is None:
                    s = connect(self.o)
                    self.pids[seed] = s.pid
                s.run("BEGIN ISOLATION LEVEL %s; SET LOCAL statement_timeout = %d; SET LOCAL cdc_precedence.debug_fold_events = %d;"
                      "INSERT INTO tally SELECT '%s', r FROM cdc_apply('t_%s', 's_%s', consume => '%s', nowait => %s) AS r;"
                      "COMMIT" % (rng.choice(self.levels), rng.choice([0, 0, 5, 20]), rng.choice([0, 0, 50]),
                                  self.t, self.t, self.t, self.form, rng.choice(['true', 'false', 'false'])))
                self.applies += 1
            except PgError as e:
                if e.code not in ('57014', '57P01', '40001'):
                    self.wrong.append('applier: %s %s' % (e, e.where[:200]))
                    return
                try:
                    s.run('ROLLBACK')
                except (Lost, PgError):
                    s = None
            except Lost:
                s = None
        if s:
            s.close()

    def run(self, seconds):
        threads = [threading.Thread(target=self.loader, args=(self.rng.random(),)) for _ in range(2)]
        threads += [threading.Thread(target=self.applier, args=(i,)) for i in range(2)]
        for t in threads:
            t.start()
        end = time.time() + seconds
        watch = None
        while time.time() < end and not self.wrong:
            time.sleep(self.rng.uniform(0.01, 0.12))
            try:
                watch = watch or connect(self.o)
                pid = self.pids.get(self.rng.randrange(2))
                if pid:
                    if self.rng.random() < 0.03:
                        kill_backend(pid, watch)
                        watch = None
                    else:
                        watch.run('SELECT %s(%d)' % (self.rng.choice(['pg_cancel_backend', 'pg_terminate_backend']), pid))
                    self.kills += 1
            except (Lost, PgError, ProcessLookupError):
                watch = None
        self.stop.set()
        for t in threads:
            t.join(90)
        watch = connect(self.o)
        counted = watch.value("SELECT astray_counted('%s')" % self.t)
        astray = watch.value("SELECT astray_own('%s')" % self.t) if self.own else '0'
        n, left = watch.run("SELECT (SELECT count(*) FROM loads WHERE target = '%s'), (SELECT count(*) FROM waiting('%s'))"
                            % (self.t, self.t))[0]
        for w in self.wrong[:3]:
            print('      ' + w)
        verdict((counted, astray, self.wrong) == ('0', '0', []),
                'consume: t_%s: %s events loaded, %s still in staging, %d applies, %d kills: %s not counted once, %s astray' % (
                    self.t, n, left, self.applies, self.kills, counted, astray))
        # nobody who is gone holds the horizon back any more
        last = watch.value('SELECT pg_snapshot_xmax(pg_current_snapshot())')
        while watch.value("SELECT pg_snapshot_xmin(pg_current_snapshot()) < '%s'" % last) == 't':
            time.sleep(0.05)
        watch.run("INSERT INTO tally SELECT '%s', r FROM cdc_apply('t_%s', 's_%s', consume => '%s') AS r"
                  % (self.t, self.t, self.t, self.form))
        watch.run("INSERT INTO log SELECT eid, id, NULL, op, CASE WHEN op = 'c' THEN val END FROM loads WHERE target = '%s' "
                  "ON CONFLICT DO NOTHING" % self.t)
        watch.run("DELETE FROM done WHERE target = '%s'" % self.t)
        watch.run("INSERT INTO done SELECT '%s', eid FROM loads WHERE target = '%s'" % (self.t, self.t))
        left = watch.value("SELECT count(*) FROM waiting('%s')" % self.t)
        counted = watch.value("SELECT astray_counted('%s')" % self.t)
        wrong = watch.value("SELECT wrong('%s')" % self.t)
        verdict((left, counted, wrong) == ('0', '0', '0'),
                'consume: t_%s at the end: %s rows left, %s not counted once, %s keys not as the law says' % (
                    self.t, left, counted, wrong))


# -------------------------------------------------------------------- copies

CALLS = ["cdc_apply('t_plain', 's_plain', staging_position => 'cdc_position(source_lsn, source_ordinal)')",
         "cdc_apply('t_side')", "cdc_attach('t_plain', 's_plain')", "cdc_detach('t_row')", "cdc_set_fence('t_row', '0/1')",
         "cdc_set_floor('t_row', '0/1')", "cdc_purge_tombstones('t_row', '0/1')", "cdc_new_epoch('t_row')"]
CONTENT = "SELECT count(*) || ':' || coalesce(sum(hashtextextended(r::text, 0)), 0) FROM storm.%s r"


def refused(s, where):
    bad = []
    for call in CALLS:
        try:
            s.run('SELECT * FROM ' + call)
            bad.append(call + ' went through')
        except PgError as e:
            if e.code != '25006':
                bad.append('%s gave %s' % (call, e))
            if s.status != 'I':
                s.run('ROLLBACK TO p')
    for b in bad:
        print('      ' + b)
    verdict(not bad, 'copies: %d calls %s refused with 25006' % (len(CALLS) - len(bad), where))


def subscriber(options):
    """A copy of the targets in another database, fed by logical replication."""
    s = connect(options)
    # parallel in spirit only: the same cluster, so the slot is made by hand
    s.run("CREATE PUBLICATION storm FOR TABLE %s WITH (publish_via_partition_root = true)" % ', '.join(
        'storm.' + t for t in TABLES))
    s.run("SELECT pg_create_logical_replication_slot('storm', 'pgoutput')")
    s.run('CREATE DATABASE %s_copy' % options.db)
    ddl = []
    for t in TABLES:
        cols = s.run("SELECT string_agg(format('%%I %%s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) "
                     "FROM pg_attribute WHERE attrelid = 'storm.%s'::regclass AND attnum > 0 AND NOT attisdropped" % t)[0][0]
        ddl.append('CREATE TABLE storm.%s (%s, PRIMARY KEY (id))' % (t, cols))
    copy = Session(options.db + '_copy', timeout=120)
    copy.run('CREATE EXTENSION cdc_precedence; CREATE SCHEMA storm; ' + '; '.join(ddl))
    copy.run("CREATE SUBSCRIPTION storm CONNECTION 'host=%s port=%s user=%s dbname=%s' PUBLICATION storm "
             "WITH (create_slot = false, slot_name = 'storm')" % (os.environ['PGHOST'], os.environ.get('PGPORT', '5432'),
                                                                  os.environ['PGUSER'], options.db))
    copy.close()
    s.close()


def equal(one, two, what, caught_up):
    end = time.time() + 300
    while not caught_up() and time.time() < end:
        time.sleep(0.1)
    differ = []
    for t in TABLES:
        a, b = one.value(CONTENT % t), two.value(CONTENT % t)
        if a != b:
            differ.append('%s: %s and %s' % (t, a, b))
    for d in differ:
        print('      ' + d)
    verdict(not differ, 'copies: %s equals the targets in %d tables' % (what, len(TABLES) - len(differ)))


def promoted(s, events):
    """After a failover: a replay changes no row, and what is new is applied."""
    bad = [] if s.value('SELECT pg_promote(true, 300)') == 't' else ['pg_promote() gives up']
    for t in TARGETS[1:]:
        if s.value("SELECT count(*) FROM done WHERE target = '%s'" % t) == '0':
            continue                     # the storm was left out
        s.run("CALL fill('%s', 1.1, %d)" % (t, events))
        before = s.value("SELECT footprint('%s')" % t)
        row = s.run("SELECT inserted + updated + deleted FROM cdc_apply('t_%s')" % t)[0]
        if row != ['0'] or s.value("SELECT footprint('%s')" % t) != before or s.value("SELECT wrong('%s')" % t) != '0':
            bad.append('t_%s: a replay wrote %s' % (t, row))
        s.run("INSERT INTO s_%s VALUES (NULL, 1, NULL, 'c', 'new', lsn_of(100000000), 0)" % t)
        if s.value("SELECT inserted + updated FROM cdc_apply('t_%s')" % t) != '1':
            bad.append('t_%s: a new event' % t)
    for b in bad:
        print('      ' + b)
    verdict(not bad, 'copies: the promoted standby replays without a write and goes on')


def copies(options):
    s = connect(options)
    lsn = s.value('SELECT pg_current_wal_lsn()')
    if options.standby:
        standby = connect(options, host=options.standby)
        equal(s, standby, 'the physical standby',
              lambda: standby.value("SELECT pg_last_wal_replay_lsn() >= '%s'" % lsn) == 't')
        refused(standby, 'on a standby')
        promoted(standby, options.events)
        standby.close()
    if not options.physical:
        copy = Session(options.db + '_copy', timeout=120)
        equal(s, copy, 'the logical subscriber',
              lambda: s.value("SELECT confirmed_flush_lsn >= '%s' FROM pg_replication_slots WHERE slot_name = 'storm'" % lsn) == 't')
        copy.run('ALTER SUBSCRIPTION storm DISABLE')
        copy.close()
    s.run('BEGIN READ ONLY; SAVEPOINT p')
    refused(s, 'in a read-only transaction')
    s.close()


def amcheck(options):
    tool = os.path.join(options.bin, 'pg_amcheck')
    if not os.path.exists(tool):
        print('crash: pg_amcheck is not there: skipped')
        return
    r = subprocess.run([tool, '--install-missing', '--heapallindexed', '--parent-check', '-d', options.db],
                       capture_output=True, text=True)
    if 'amcheck' in r.stderr and 'not available' in r.stderr:
        print('crash: the extension amcheck is not there: skipped')
        return
    if not verdict(r.returncode == 0, 'pg_amcheck: exit %d' % r.returncode):
        print((r.stdout + r.stderr)[:3000])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seconds', type=float, default=20, help='for storm and consume together')
    p.add_argument('--seed', type=int, default=None, help='what is random follows from it, moments do not')
    p.add_argument('--events', type=int, default=8000)
    p.add_argument('--keys', type=int, default=1500)
    p.add_argument('--data', required=True, help="the server's data directory")
    p.add_argument('--start', required=True, help='shell command that starts it')
    p.add_argument('--bin', required=True, help="the server's programs")
    p.add_argument('--standby', help='socket directory of a standby')
    p.add_argument('--db', default='storm')
    p.add_argument('--only', choices=['storm', 'consume'])
    p.add_argument('--physical', action='store_true', help='the log is not for logical decoding: no subscriber')
    options = p.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(10 ** 6)
    rng = random.Random(seed)
    print('crash: seed %d, %d events' % (seed, options.events), flush=True)
    s = Session('postgres')
    s.run('CREATE DATABASE ' + options.db)
    s.close()
    s = Session(options.db)
    s.run(open(os.path.join(HERE, 'storm.sql'), encoding='utf-8').read())
    s.run("CALL storm.make_log(%d, %d); SELECT setval('storm.loaded', %d)" % (options.events, options.keys, options.events))
    s.close()
    if not options.physical:
        subscriber(options)
    if options.only != 'consume':
        Storm(options, rng).run(options.seconds * 0.6)
    if options.only != 'storm':
        for target, form in (('own', 'delete'), ('shared', 'delete'), ('emptied', 'truncate'), ('marked', 'bookmark')):
            Consume(options, rng, target, form).run(options.seconds * 0.1)
    copies(options)
    amcheck(options)
    print('crash: %d passed, %d failed' % (passed, failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
