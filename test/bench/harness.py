"""Databases, sessions and timings, and what a measurement is.

Every timed piece starts from the same state: a database copied from a template
file by file, its tables read into shared buffers, a CHECKPOINT just before.
Seconds are taken at the client, around one round trip that ends with the
commit; CPU is what the backend ran of them, which other work on the machine
disturbs less; WAL is the distance of the insert position; memory is how much
more of its own (RssAnon) the backend held at the peak than before.
"""
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import namedtuple
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pg import PgError, Session  # noqa: E402

Sample = namedtuple('Sample', 'seconds cpu wal memory')
WORK = 'bench_work'


class Bench:
    """What one run has measured, and the options it runs with."""

    def __init__(self, options):
        self.scale, self.rounds, self.wanted = options.scale, options.rounds, options.competitors
        self.samples = {}             # (piece, competitor) -> [Sample per round]
        self.workload, self.part_of = None, {}  # piece -> the workload it is of
        self.passed = self.failed = 0
        self.began = time.time()
        self.templates = set()

    @classmethod
    def of(cls, scale):
        return cls(SimpleNamespace(scale=scale, rounds=0, competitors=[]))

    def n(self, x, least=1):
        return max(least, int(x * self.scale))

    def choose(self, *names):
        return [c for c in names if not self.wanted or c in self.wanted or c in ('cdc', 'latest')]

    def record(self, piece, competitor, sample):
        self.samples.setdefault((piece, competitor), []).append(sample)
        self.part_of.setdefault(piece, self.workload)

    def verdict(self, ok, text):
        self.passed, self.failed = self.passed + bool(ok), self.failed + (not ok)
        print(('ok    ' if ok else 'FAIL  ') + text, flush=True)

    def note(self, text):
        print('[%5.0f s] %s' % (time.time() - self.began, text), flush=True)

    def turns(self, competitors, rounds=None):
        """Who runs when: A B C, B C A, .. so that nobody always comes first."""
        for r in range(rounds or self.rounds):
            at = r % len(competitors)
            for c in competitors[at:] + competitors[:at]:
                yield r, c


# ------------------------------------------------------------ databases

def admin(sql):
    s = Session('postgres')
    try:
        return s.run(sql)
    finally:
        s.close()


def template(b, name, statements):
    """A database made once and only copied from then on."""
    if name in b.templates:
        return name
    admin('DROP DATABASE IF EXISTS ' + name)
    admin('CREATE DATABASE ' + name)
    s = Session(name, '-c client_min_messages=error -c maintenance_work_mem=1GB')
    s.run('CREATE EXTENSION cdc_precedence')
    s.run('CREATE EXTENSION IF NOT EXISTS pg_prewarm')
    for q in statements:
        s.run(q)
    s.close()
    b.templates.add(name)
    return name


def drop_templates(b, *names):
    for name in names or list(b.templates):
        if name in b.templates:
            admin('DROP DATABASE IF EXISTS ' + name)
            b.templates.discard(name)


def restore(name, warm=True, db=WORK):
    """The template's state again, bloat and hint bits included."""
    admin('DROP DATABASE IF EXISTS %s WITH (FORCE)' % db)
    admin('CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy' % (db, name))
    if warm:
        s = Session(db)
        s.run("SELECT pg_prewarm(c.oid::regclass) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
              "WHERE nspname = 'public' AND relkind IN ('r', 'i', 't')")
        s.run("SELECT pg_prewarm(t.oid::regclass) FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid "
              "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = 'public'")
        s.close()


def connect(db=WORK, options=''):
    s = Session(db, '-c client_min_messages=warning ' + options)
    # the library is loaded and the catalogs are read, as in a session that has worked before
    s.run("LOAD 'cdc_precedence'; SELECT * FROM target LIMIT 1; SELECT * FROM staging LIMIT 1")
    return s


# ------------------------------------------------------------ measuring

def own_memory(pid):
    """kB of memory that is the process's own."""
    with open('/proc/%d/status' % pid) as f:
        for line in f:
            if line.startswith('RssAnon:'):
                return int(line.split()[1])
    return 0


class Watch(threading.Thread):
    """The peak of a backend's own memory. VmHWM would count shared buffers."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.start_kb, self.peak = pid, own_memory(pid), 0
        self.ending = threading.Event()
        self.start()

    def run(self):
        while not self.ending.wait(0.01):
            self.peak = max(self.peak, own_memory(self.pid))

    def stop(self):
        self.peak = max(self.peak, own_memory(self.pid))
        self.ending.set()
        self.join()
        return max(0, self.peak - self.start_kb) << 10


def cpu(pid):
    """Seconds that a process has run on a CPU."""
    try:
        with open('/proc/%d/schedstat' % pid) as f:
            return int(f.read().split()[0]) / 1e9
    except OSError:
        return 0


def wal(s):
    return int(s.value("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"))


def timed(s, sql, watch=True):
    """One script in one round trip."""
    s.run('CHECKPOINT')
    before = wal(s)
    eye = Watch(s.pid) if watch and os.path.exists('/proc/self/status') else None
    ran, begin = cpu(s.pid), time.perf_counter()
    s.run(sql)
    seconds = time.perf_counter() - begin
    ran = cpu(s.pid) - ran
    memory = eye.stop() if eye else 0
    return Sample(seconds, ran, wal(s) - before, memory)


def same_content(s, shape, layout, expected):
    s.run("SET work_mem = '256MB'; SET max_parallel_workers_per_gather = 2")
    return s.run(shape.content(layout))[0] == expected


# ------------------------------------------------------------ summing up

def median(values):
    return statistics.median(values) if values else None


def mid(b, workload, competitor, field='seconds'):
    got = [getattr(x, field) for x in b.samples.get((workload, competitor), [])]
    return median(got)


def ratio(b, workload, one, other, field='seconds'):
    """The median of the ratios within a round."""
    pairs = zip(b.samples.get((workload, one), []), b.samples.get((workload, other), []))
    got = [getattr(x, field) / getattr(y, field) for x, y in pairs if getattr(y, field)]
    return median(got)


def noise(b, workload, field='seconds'):
    """A against A: how far the next round's time of the same competitor is off, in the median."""
    off = []
    for (w, _), got in b.samples.items():
        if w == workload:
            off += [abs(getattr(x, field) / getattr(y, field) - 1) for x, y in zip(got, got[1:]) if getattr(y, field)]
    return median(off)


# ------------------------------------------------------------ the server

def server(*args):
    """pg_ctl, as the user the server runs as."""
    cmd = [os.path.join(os.environ['CDC_BIN'], 'pg_ctl'), '-D', os.environ['CDC_BENCH_DATA'], '-w', '-t', '300',
           '-l', os.environ['CDC_SERVER_LOG']] + list(args)
    if os.getuid() == 0:
        user = 'postgres' if subprocess.call(['id', 'postgres'], stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL) == 0 else 'nobody'
        cmd = ['runuser', '-u', user, '--'] + cmd
    subprocess.run(cmd, check=True, cwd='/', stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def restart(**settings):
    """With other settings, or, with none, with the first ones."""
    admin('ALTER SYSTEM RESET ALL')
    for name, value in settings.items():
        admin("ALTER SYSTEM SET %s = '%s'" % (name, value))
    admin('CHECKPOINT')
    server('-m', 'fast', 'restart')


def evict():
    """Takes the cluster's files out of the operating system's cache, no one else's."""
    for top, _, files in os.walk(os.path.join(os.environ['CDC_BENCH_DATA'], 'base')):
        for name in files:
            try:
                fd = os.open(os.path.join(top, name), os.O_RDONLY)
            except OSError:
                return False
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)
    return True


__all__ = ['PgError', 'Session']
