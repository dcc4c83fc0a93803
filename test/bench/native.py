"""For context: PostgreSQL's own logical replication applies the same changes.

A publisher and a subscriber, clusters of their own beside the benchmark's. The
changes are made while the subscription is off, a thousand to a transaction;
what is timed is from switching it on to the last change being there.
"""
import os
import time

import shapes
from harness import Sample, Session, cpu, wal


def fill(host, b, staging):
    s = Session('postgres', '-c client_min_messages=error', host=host)
    s.run('DROP DATABASE IF EXISTS bench WITH (FORCE)')
    s.run('CREATE DATABASE bench')
    s.close()
    s = Session('bench', '-c client_min_messages=error -c maintenance_work_mem=512MB', host=host)
    shape = shapes.plain()
    for q in shape.create_target('p') + shape.fill_target('p', b.n(5e6)) + shape.finish_target('p'):
        s.run(q)
    s.run('CREATE TABLE finish (n int PRIMARY KEY)')
    if staging:
        for q in shape.create_staging('p') + shape.fill_staging('p', b.n(1e6), b.n(362e3), b.n(5.5e6)):
            s.run(q)
    s.run('VACUUM ANALYZE')
    s.run('CHECKPOINT')
    return s, shape


def native(b):
    publisher, subscriber = os.environ.get('CDC_BENCH_PUBLISHER'), os.environ.get('CDC_BENCH_SUBSCRIBER')
    if not publisher:
        b.note('native: no publisher: left out')
        return
    b.note('native: %d rows, %d events' % (b.n(5e6), b.n(1e6)))
    p, shape = fill(publisher, b, True)
    s, _ = fill(subscriber, b, False)
    p.run('CREATE PUBLICATION bench FOR TABLE target, finish')
    p.run("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")
    s.run("CREATE SUBSCRIPTION bench CONNECTION 'host=%s dbname=bench user=postgres' PUBLICATION bench "
          "WITH (slot_name = 'bench', create_slot = false, enabled = false, copy_data = false)" % publisher)
    names = shape.data_list + ', source_lsn, source_ordinal'
    p.run("""DO $$
DECLARE e record; n int := 0;
BEGIN
  FOR e IN SELECT * FROM staging ORDER BY source_lsn, source_ordinal LOOP
    IF e.op = 'd' THEN
      DELETE FROM target WHERE id = e.id;
    ELSE
      INSERT INTO target (%s) VALUES (%s) ON CONFLICT (id) DO UPDATE SET %s;
    END IF;
    n := n + 1;
    IF n %% 1000 = 0 THEN COMMIT; END IF;
  END LOOP;
END $$""" % (names, ', '.join('e.' + n for n in names.split(', ')),
             ', '.join('%s = EXCLUDED.%s' % (n, n) for n in names.split(', ') if n != 'id')))
    p.run('INSERT INTO finish VALUES (1)')
    s.run('CHECKPOINT')
    before, begin = wal(s), time.perf_counter()
    s.run('ALTER SUBSCRIPTION bench ENABLE')
    ran, deadline = 0, time.time() + 3600
    while not s.run('SELECT 1 FROM finish'):
        time.sleep(0.02)
        pids = [int(r[0]) for r in s.run("SELECT pid FROM pg_stat_subscription WHERE pid IS NOT NULL")]
        ran = max([ran] + [cpu(pid) for pid in pids])
        if time.time() > deadline:
            break
    seconds = time.perf_counter() - begin
    b.record('update', 'N', Sample(seconds, ran, wal(s) - before, 0))
    rows = 'SELECT count(*) || \' \' || coalesce(sum(hash_record_extended(ROW(%s), 0)), 0) FROM target' % names
    b.verdict(p.value(rows) == s.value(rows), 'native: the subscriber ends as the publisher')
    s.run('ALTER SUBSCRIPTION bench DISABLE')
    s.run('ALTER SUBSCRIPTION bench SET (slot_name = NONE)')
    s.run('DROP SUBSCRIPTION bench')
    s.close()
    p.close()
