#!/usr/bin/env python3
"""The memory test: how much memory of its own a backend takes for a call.

Watches RssAnon of the backend while it applies a large batch with little
work_mem and compares rows and counts with what a large work_mem gives. Bound:
work_mem * hash_mem_multiplier + 16 MB over what the backend had before (32 MB
with --long).  Without a limit the batches of the quick run take some 100 and 31
MB, several times and twice their bounds: a smaller batch would prove nothing.
Calls are cancelled at many moments, which must end them at once. Snapshots of
rows that are new, that all differ and that are the same. Values of
100 MB come, are replayed, kept and replaced. Then 1,000 calls in one session,
a third of them failing, which must not make it grow. Both homes. Needs /proc
and a running server (PGHOST, PGPORT, PGUSER) with the extension installed.
"""
import argparse
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pg import PgError, Session  # noqa: E402

slack = 16 << 10                      # kB over work_mem * hash_mem_multiplier
LARGE_COPIES = 3                      # of a large value at one time
DB = 'memory_%d' % os.getpid()
OPTIONS = '-c jit=off -c client_min_messages=error -c synchronous_commit=off -c max_parallel_workers_per_gather=0'
passed = failed = 0


def verdict(ok, text):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(('ok    ' if ok else 'FAIL  ') + text, flush=True)


def anon(pid):
    """kB of memory that is the process's own."""
    with open('/proc/%d/status' % pid) as f:
        for line in f:
            if line.startswith('RssAnon:'):
                return int(line.split()[1])
    return 0


class Watch(threading.Thread):
    """Samples a backend's memory until it is stopped."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.start_kb, self.peak = pid, anon(pid), 0
        self.ending = threading.Event()
        self.start()

    def run(self):
        while not self.ending.wait(0.01):
            self.peak = max(self.peak, anon(self.pid))

    def stop(self):
        self.ending.set()
        self.join()
        return max(0, self.peak - self.start_kb)


SETUP = '''
CREATE EXTENSION cdc_precedence;
CREATE UNLOGGED TABLE staging (id bigint, __old_id bigint, op text, val text, more text, pos cdc_position);
ALTER TABLE staging SET (autovacuum_enabled = false);
'''
# What the events are like. e is the event's number, k the number of keys.
SHAPES = {
    'plain': "(hashint8extended(e, 1) & 9223372036854775807) % k, NULL, "
             "CASE WHEN e % 7 = 0 THEN 'd' ELSE 'u' END, 'value of ' || e, 'x', cdc_position('0/0'::pg_lsn + e, 1)",
    # values that are not carried must be looked for in older events, and in those of an old key
    'moves': "(hashint8extended(e, 1) & 9223372036854775807) % k, CASE WHEN e % 5 = 0 THEN "
             "(hashint8extended(e, 2) & 9223372036854775807) % k END, CASE WHEN e % 7 = 0 THEN 'd' ELSE 'u' END, "
             "'value of ' || e, CASE WHEN e % 3 = 0 THEN '__debezium_unavailable_value' ELSE 'more ' || e END, "
             "cdc_position('0/0'::pg_lsn + e, 1)",
    'gaps': "(hashint8extended(e, 1) & 9223372036854775807) % k, NULL, 'u', 'value of ' || e, "
            "CASE WHEN e % 9 <> 0 THEN '__debezium_unavailable_value' ELSE 'more ' || e END, "
            "cdc_position('0/0'::pg_lsn + e, 1)",
}
CALL = ("SELECT * FROM cdc_apply('target', 'staging', staging_position => 'pos', on_unavailable => 'null', "
        "on_schema_change => 'ignore'%s)")
CONTENT = ("SELECT count(*) || ':' || coalesce(sum(hashtextextended(r::text, 0)), 0) FROM (SELECT id, val, more, "
           "source_position %s FROM target) r")


def targets(s, home):
    s.run('DROP TABLE IF EXISTS target, target_tombstones CASCADE')
    s.run('CREATE UNLOGGED TABLE target (id bigint PRIMARY KEY, val text, more text, source_position cdc_position%s)'
          % (', deleted boolean' if home == 'row' else ''))
    s.run("SELECT cdc_attach('target', 'staging', staging_position => 'pos', tombstones => '%s')"
          % ('row' if home == 'row' else 'table'))


def content(s, home):
    out = [s.value(CONTENT % ('' if home == 'side' else ', CASE WHEN deleted THEN 1 ELSE 0 END'))]
    if home == 'side':
        out.append(s.value("SELECT count(*) || ':' || coalesce(sum(hashtextextended(id || ' ' || source_position, 0)), 0) "
                           "FROM target_tombstones"))
    else:
        # values of dead rows are no part of the law, but must not depend on memory either
        out.append(s.value("SELECT count(*) FROM target WHERE deleted"))
    return out


def fill(shape, events, keys):
    s = Session(DB, OPTIONS)
    s.run('TRUNCATE staging')
    # the order of arrival has nothing to do with the order of the log
    s.run('INSERT INTO staging SELECT %s FROM (SELECT 1 + (i * 7919) %% %d AS e, %d AS k FROM generate_series(0::bigint, %d) i) x'
          % (SHAPES[shape], events, keys, events - 1))
    s.close()


def call(home, work_mem, multiplier, check=content, extra=''):
    """One call in a session of its own: result row, what check finds, growth in kB, seconds."""
    s = Session(DB, OPTIONS)
    targets(s, home)
    s.run("SET work_mem = '%dMB'; SET hash_mem_multiplier = %g" % (work_mem, multiplier))
    s.run('SELECT count(*) FROM cdc_targets')
    watch, begin = Watch(s.pid), time.time()
    row = s.run(CALL % extra)[0]
    seconds = time.time() - begin
    grown = watch.stop()
    found = check(s, home)
    s.close()
    return row, found, grown, seconds


def truth(s):
    """What the plain batch must leave, in SQL: per key the greatest event."""
    return s.run("SELECT count(*) FILTER (WHERE live), sum(hashtextextended(id || ' ' || e, 0)) FILTER (WHERE live), "
                 "count(*) FILTER (WHERE NOT live), sum(hashtextextended(id || ' ' || e, 0)) FILTER (WHERE NOT live) "
                 "FROM (SELECT id, e, e % 7 <> 0 AS live FROM (SELECT id, max(cdc_position_lsn(pos) - '0/0'::pg_lsn) AS e "
                 "FROM staging GROUP BY id) x) y")[0]


def found_there(s, home):
    e = "hashtextextended(id || ' ' || (cdc_position_lsn(source_position) - '0/0'::pg_lsn), 0)"
    if home == 'row':
        return s.run("SELECT count(*) FILTER (WHERE NOT deleted), sum(%s) FILTER (WHERE NOT deleted), "
                     "count(*) FILTER (WHERE deleted), sum(%s) FILTER (WHERE deleted) FROM target" % (e, e))[0]
    return s.run("SELECT count(*), sum(%s) FROM target" % e)[0] + \
        s.run("SELECT count(*), sum(%s) FROM target_tombstones" % e)[0]


def batch(name, shape, events, keys, work_mem, homes, multiplier=2.0, check=content):
    """Small work_mem in each home; then a large one, or with found_there SQL, says what is right."""
    fill(shape, events, keys)
    bound = int(work_mem * 1024 * multiplier) + slack
    seen = {}
    for home in homes:
        row, found, grown, seconds = call(home, work_mem, multiplier, check)
        verdict(grown <= bound, '%s, %s home: %d events, %d keys, work_mem %d MB: %.1f MB of %.1f, %.1f s' % (
            name, home, events, keys, work_mem, grown / 1024, bound / 1024, seconds))
        seen[home] = row, found
    if check is found_there:
        s = Session(DB, OPTIONS + ' -c work_mem=1GB')
        right = truth(s)
        s.close()
        same = [seen[h][1] == right for h in homes] + [seen[h][0] == seen[homes[0]][0] for h in homes]
        verdict(all(same), '%s: rows as SQL works them out, counts the same in %s' % (name, ' and '.join(homes)))
        if not all(same):
            print('      SQL: %s\n      seen: %s' % (right, seen))
        return
    row, found, grown, seconds = call(homes[0], 4096, 1)
    same = [(row, found) == seen[homes[0]]] + [row == seen[h][0] for h in homes[1:]]
    verdict(all(same), '%s: rows and counts as with a large work_mem (%.1f MB, %.1f s)' % (name, grown / 1024, seconds))
    if not all(same):
        print('      large: %s %s\n      small: %s' % (row, found, seen))


def explained(name, home, work_mem, multiplier=2.0):
    """cdc_explain on the batch that is there: counted as the dry run counts it, with faults besides."""
    args = "'target', 'staging', staging_position => 'pos', on_unavailable => 'null', on_schema_change => 'ignore'"
    s = Session(DB, OPTIONS)
    targets(s, home)
    right = s.run('SELECT inserted, updated, deleted, superseded FROM cdc_apply(%s, dry_run => true)' % args)[0]
    s.run("SET work_mem = '%dMB'; SET hash_mem_multiplier = %g" % (work_mem, multiplier))
    # the fold, a sort of half a work_mem, and a result of one
    bound = int(work_mem * 1024 * (multiplier + 1.5)) + slack
    watch, begin = Watch(s.pid), time.time()
    said = s.run("SELECT count(*) FILTER (WHERE outcome = 'inserted'), count(*) FILTER (WHERE outcome = 'updated'), "
                 "count(*) FILTER (WHERE outcome = 'deleted'), count(*) FILTER (WHERE outcome = 'superseded') "
                 "FROM cdc_explain(%s)" % args)[0]
    grown = watch.stop()
    verdict(grown <= bound, '%s, %s home, explained: work_mem %d MB: %.1f MB of %.1f, %.1f s' % (
        name, home, work_mem, grown / 1024, bound / 1024, time.time() - begin))
    verdict(said == right, '%s, %s home, explained: as the dry run counts' % (name, home))
    # every event a fault of its own
    watch = Watch(s.pid)
    errors = s.value("SELECT count(*) FROM cdc_explain(%s, op_map => '{\"u\": \"upsert\"}', old_key_columns => '{op}') "
                     "WHERE outcome = 'error'" % args)
    grown = watch.stop()
    verdict(grown <= bound and int(errors) > 0, '%s, %s home, explained with %s faults: %.1f MB of %.1f' % (
        name, home, errors, grown / 1024, bound / 1024))
    s.close()


def cancels(home, shape, times, limit=3):
    """A call on the staging that stands there, cancelled at moments all along it: how soon it ends."""
    s = Session(DB, OPTIONS + ' -c work_mem=1MB')
    targets(s, home)
    begin = time.time()
    s.run('BEGIN; ' + CALL % '')
    full = time.time() - begin
    s.run('ROLLBACK')
    worst, ended = 0, 0
    for n in range(times):
        asked = []

        def ask(delay=full * (n + 0.5) / times):
            time.sleep(delay)
            asked.append(time.time())
            s.cancel()
        asker = threading.Thread(target=ask)
        asker.start()
        try:
            s.run('BEGIN; ' + CALL % '')
        except PgError as e:
            if e.code != '57014':
                raise
            ended += 1
            worst = max(worst, time.time() - asked[0] if asked else 0)
        asker.join()
        time.sleep(0.05)              # one that came too late hits nothing else
        try:
            s.run('ROLLBACK')
        except PgError:
            s.run('ROLLBACK')
    verdict(worst <= limit and s.value('SELECT count(*) FROM target') == '0',
            'cancel: %d of %d calls of %.1f s (%s, %s home) ended early, %.2f s after the request at worst' % (
                ended, times, full, shape, home, worst))
    s.close()


def large_values(home, mb):
    """
    Values of so many MB: new, replayed, not carried, replaced, gone, back. Staging is the log, so every call sees
    all of it; what is stored is compared with what SQL makes of the log.
    """
    s = Session(DB, OPTIONS + " -c work_mem=4MB")
    s.run('DROP TABLE IF EXISTS big, big_tombstones, big_log CASCADE')
    s.run('CREATE UNLOGGED TABLE big (id int PRIMARY KEY, n int, body text%s)' % (', deleted boolean' if home == 'row' else ''))
    s.run('ALTER TABLE big ALTER body SET STORAGE EXTERNAL')
    s.run('CREATE UNLOGGED TABLE big_log (op text, id int, n int, body text, same text[], source_position cdc_position, sum text)')
    s.run('ALTER TABLE big_log ALTER body SET STORAGE EXTERNAL')
    s.run("SELECT cdc_attach('big', 'big_log', unchanged_column => 'same', except_columns => '{sum}', tombstones => '%s')"
          % ('row' if home == 'row' else 'table'))
    chunks = ("SELECT count(*) || ':' || coalesce(sum(hashtextextended(concat_ws(' ', chunk_id, chunk_seq, ctid, xmin), 0)), 0) FROM %s"
              % s.value("SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'big'::regclass"))
    # of each key the last event and, for what that does not carry, the last one before it that does
    wrong = """
        WITH last_word AS (SELECT DISTINCT ON (id) * FROM big_log ORDER BY id, source_position DESC),
        want AS (SELECT id, n, source_position, (SELECT sum FROM big_log b WHERE b.id = l.id AND sum IS NOT NULL
            ORDER BY source_position DESC LIMIT 1) FROM last_word l WHERE op <> 'd'),
        got AS (SELECT id, n, source_position, md5(body) FROM big %s)
        SELECT (SELECT count(*) FROM (TABLE want EXCEPT ALL TABLE got) m) + (SELECT count(*) FROM (TABLE got EXCEPT ALL TABLE want) x)
            + (SELECT count(*) FROM last_word WHERE op = 'd') - (SELECT count(*) FROM %s)""" % (
        ('WHERE NOT deleted', 'big WHERE deleted') if home == 'row' else ('', 'big_tombstones'))
    body = "repeat('%%s23456789abcdef', %d)" % (mb << 16)
    steps = [
        ('new', "('c', 1, 1, %s, NULL, '1'), ('c', 2, 1, %s, NULL, '1')" % (body % 'a', body % 'b'), ['inserted'], True),
        ('replayed', None, [], False),
        ('not carried', "('u', 1, 2, NULL, '{body}', '2'), ('u', 2, 2, '__debezium_unavailable_value', NULL, '2')",
         ['updated'], False),
        ('replayed', None, [], False),
        ('replaced', "('u', 1, 3, %s, NULL, '3')" % (body % 'c'), ['updated'], True),
        ('gone', "('d', 1, NULL, NULL, NULL, '4')", ['deleted'], home == 'side'),
        ('back', "('u', 1, 5, %s, NULL, '5')" % (body % 'd'), ['inserted'], True),
    ]
    problems, worst = [], 0
    for name, events, writes, moves in steps:
        if events:
            s.run('INSERT INTO big_log SELECT op, id, n::int, body::text, same::text[], p::cdc_position, '
                  'CASE WHEN length(body) > 1000 THEN md5(body) END FROM (VALUES %s) v(op, id, n, body, same, p)' % events)
        before = s.value(chunks)
        watch = Watch(s.pid)
        s.run('BEGIN')
        s.run('SET LOCAL cdc_precedence.track_runs = off')
        row = s.run("SELECT inserted, updated, deleted FROM cdc_apply('big')")[0]
        assigned = s.value('SELECT pg_current_xact_id_if_assigned()')
        s.run('COMMIT')
        worst = max(worst, watch.stop())
        got = [w for w, c in zip(('inserted', 'updated', 'deleted'), row) if c != '0']
        if got != writes:
            problems.append('%s: %s' % (name, row))
        if not events and assigned is not None:
            problems.append('%s: takes a transaction id' % name)
        if (s.value(chunks) != before) != moves:
            problems.append('%s: chunks are%s written' % (name, ' not' if moves else ''))
        if s.value(wrong) != '0':
            problems.append('%s: not as SQL works it out' % name)
    s.run('DROP TABLE big, big_log CASCADE')
    s.close()
    bound = LARGE_COPIES * mb << 10
    verdict(not problems, 'values of %d MB, %s home: new, replayed, not carried, replaced, gone, back%s' % (
        mb, home, ''.join('\n      ' + p for p in problems)))
    verdict(worst <= bound, 'values of %d MB, %s home: %.1f MB of %.1f' % (mb, home, worst / 1024, bound / 1024))


def snapshots(home, rows, work_mem):
    """A snapshot of new rows; a complete one of which all differ and a tenth are missing; the same again."""
    s = Session(DB, OPTIONS)
    targets(s, home)
    s.run('CREATE UNLOGGED TABLE copy (id bigint, val text, more text)')
    s.run("INSERT INTO copy SELECT i, 'value of ' || i, 'x' FROM generate_series(1::bigint, %d) i ORDER BY i * 7919 %% %d" % (rows, rows))
    s.run("SET work_mem = '%dMB'; SET hash_mem_multiplier = 2" % work_mem)
    bound = work_mem * 2048 + slack
    same = 'SELECT count(*) FROM (%s EXCEPT ALL %s) x'
    there = 'SELECT id, val, more FROM target' + ('' if home == 'side' else ' WHERE NOT deleted')
    steps = [('new', None, ', true', 'inserted'),
             ('all changed', "DELETE FROM copy WHERE id % 10 = 0; UPDATE copy SET more = 'y'", ', true', 'updated'),
             ('nothing changed', None, '', 'duplicate')]
    for n, (name, change, complete, count) in enumerate(steps):
        if change:
            s.run(change)
        left = int(s.value('SELECT count(*) FROM copy'))
        watch, begin = Watch(s.pid), time.time()
        got = int(s.value("SELECT %s FROM cdc_apply_snapshot('target', 'copy', '0/%d'%s)" % (count, n + 1, complete)))
        seconds, grown = time.time() - begin, watch.stop()
        wrong = [s.value(same % x) for x in ((there, 'SELECT * FROM copy'), ('SELECT * FROM copy', there))]
        verdict(grown <= bound and got == left and wrong == ['0', '0'], 'snapshot, %s, %s home: %d rows, work_mem %d MB: '
                '%.1f MB of %.1f, %.1f s%s' % (name, home, left, work_mem, grown / 1024, bound / 1024, seconds,
                                               '' if got == left else ', %s %d' % (count, got)))
    s.run('DROP TABLE copy')
    s.close()


def many_calls(home, calls):
    """Calls in one session: applied, replayed, and refused."""
    s = Session(DB, OPTIONS)
    targets(s, home)
    s.run('TRUNCATE staging')
    measure = ("SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name NOT IN ('MessageContext', 'PortalContext', "
               "'ExecutorState', 'ExprContext')")
    after = {}
    for n in range(calls + 1):
        if n in (calls // 5, calls):
            s.run('SELECT 1')
            after[n] = int(s.value(measure)), anon(s.pid)
        if n % 3 == 0:
            s.run("INSERT INTO staging SELECT 1 + random() * 50, 1 + random() * 50, 'u', 'v', 'm', "
                  "cdc_position('0/0'::pg_lsn + %d + e, e) FROM generate_series(1, 20) e" % (n * 100))
        s.run("SET cdc_precedence.debug_fold_events = %d" % (n % 4))
        try:
            s.run(CALL % (", op_map => '{\"u\": \"nope\"}'" if n % 3 == 2 else
                          ", expect_events => 1" if n % 6 == 1 else ", consume => 'delete'" if n % 60 == 0 else ''))
        except PgError as e:
            if e.code != '22023':
                raise
    (c1, r1), (c2, r2) = after[calls // 5], after[calls]
    # catalog caches settle a little later than after a fifth of the calls
    verdict(c2 - c1 <= 256 << 10 and r2 - r1 <= 2 << 10, 'calls: %d in one session, %s home: contexts %+d kB, RssAnon %+d kB'
            % (calls, home, (c2 - c1) >> 10, r2 - r1))
    s.close()


def main():
    global slack
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--long', action='store_true', help='20 million events, and one key with 10 million')
    p.add_argument('--scale', type=float, default=1, help='so many times the events')
    options = p.parse_args()
    if not os.path.exists('/proc/self/status'):
        print('memory: /proc is not there: skipped\nmemory: 0 passed, 0 failed')
        return 0
    s = Session('postgres')
    s.run('CREATE DATABASE ' + DB)
    s.close()
    s = Session(DB)
    s.run(SETUP)
    s.close()
    k = options.scale

    def n(x):
        return int(x * k)
    try:
        if options.long:
            slack = 32 << 10
            batch('large', 'plain', n(20000000), n(5000000), 16, ['row', 'side'])
            batch('one key', 'plain', n(10000000), 1, 4, ['side', 'row'])
            batch('one key, values not carried', 'gaps', n(3000000), 1, 4, ['row', 'side'])
            batch('one key, moves', 'moves', n(2000000), 1, 4, ['row', 'side'])
            batch('moves', 'moves', n(4000000), n(1000000), 4, ['row', 'side'])
            cancels('side', 'moves', 20)
            batch('few keys, values not carried', 'gaps', n(4000000), 1000, 4, ['row', 'side'])
            cancels('row', 'few keys', 20)
            batch('more work_mem', 'plain', n(8000000), n(4000000), 64, ['side'])
        else:
            batch('large', 'plain', n(600000), n(200000), 4, ['row', 'side'], check=found_there)
            batch('moves', 'moves', n(150000), n(50000), 1, ['row', 'side'])
            explained('moves', 'row', 1)
            explained('moves', 'side', 1)
            cancels('side', 'moves', 6)
        for home in ('row', 'side'):
            snapshots(home, n(4000000 if options.long else 300000), 4 if options.long else 1)
            large_values(home, 100)
            many_calls(home, 1000)
    finally:
        s = Session('postgres')
        s.run('DROP DATABASE %s WITH (FORCE)' % DB)
        s.close()
    print('memory: %d passed, %d failed' % (passed, failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
