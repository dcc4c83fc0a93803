-- What docs/choose.md says of cost: a view over the log, the same with the log
-- compacted, and a target that cdc_apply keeps. For a throwaway database:
--
--   createdb choose && psql -X -q -d choose -f test/bench/choose.sql
--   psql -v keys=1000 ..        smaller; 100000 by default
--
-- Each key has five events in a log in random order, one in twenty a delete.
-- A batch has a tenth as many events as there are keys. Times are medians of
-- five, buffers 8 kB pages touched, everything in shared buffers.
\set ON_ERROR_STOP on
\if :{?keys}
\else
\set keys 100000
\endif
CREATE EXTENSION IF NOT EXISTS cdc_precedence;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
SET work_mem = '64MB';
SELECT setseed(0.5) \g /dev/null

CREATE TABLE log (op text, id int, name text, amount numeric, source_position cdc_position);
CREATE INDEX ON log (id);
INSERT INTO log
SELECT CASE WHEN random() < 0.05 THEN 'd' ELSE 'u' END, 1 + n % :keys, 'name ' || n, n, cdc_position('1/0'::pg_lsn + n::numeric)
FROM generate_series(1, 5 * :keys) n ORDER BY random();
CREATE TABLE compacted (LIKE log);
INSERT INTO compacted TABLE log;
CREATE INDEX ON compacted (id);
DELETE FROM compacted l USING (SELECT id, max(source_position) AS newest FROM compacted GROUP BY id) n
WHERE n.id = l.id AND l.source_position < n.newest;
VACUUM FULL compacted;
CREATE TABLE target (id int PRIMARY KEY, name text, amount numeric);
CREATE TABLE target_log (LIKE log);
SELECT cdc_attach('target', 'target_log', consume => 'delete') \g /dev/null
INSERT INTO target_log TABLE log;
SELECT * FROM cdc_apply('target') \g /dev/null

CREATE VIEW view_log AS SELECT id, (e).name, (e).amount
FROM (SELECT id, latest_by_position(l, l.source_position) AS e FROM log l GROUP BY id) n WHERE (e).op <> 'd';
CREATE VIEW view_compacted AS SELECT id, (e).name, (e).amount
FROM (SELECT id, latest_by_position(l, l.source_position) AS e FROM compacted l GROUP BY id) n WHERE (e).op <> 'd';
VACUUM ANALYZE log;
VACUUM ANALYZE compacted;
VACUUM ANALYZE target;
VACUUM target_log;

CREATE TABLE measured (what text, way text, ms float8, buffers bigint, wal bigint);
CREATE FUNCTION measure(what text, way text, command text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, WAL, TIMING off, FORMAT json) ' || command INTO plan;
    INSERT INTO measured VALUES (what, way, (plan->0->>'Execution Time')::float8,
        (plan->0->'Plan'->>'Shared Hit Blocks')::bigint + (plan->0->'Plan'->>'Shared Read Blocks')::bigint,
        (plan->0->'Plan'->>'WAL Bytes')::bigint);
END $$;

SELECT measure('read all rows', way, format('SELECT sum(amount) FROM %s', way)),
       measure('read one key', way, format('SELECT * FROM %s WHERE id = %s', way, 1 + i * 17 % :keys))
FROM generate_series(1, 5) i, unnest('{view_log,view_compacted,target}'::text[]) way \g /dev/null

-- Batches; the compaction and the apply are the upkeep of their way.
CREATE PROCEDURE batch(i int, keys int) LANGUAGE plpgsql AS $$
DECLARE
    rows text := format('SELECT CASE WHEN random() < 0.05 THEN ''d'' ELSE ''u'' END, 1 + (random() * %s)::int, ''name '' || n, n,
        cdc_position(''2/0''::pg_lsn + (%s * %s + n)::numeric) FROM generate_series(1, %s) n', keys - 1, i, keys, keys / 10);
BEGIN
    CREATE TEMPORARY TABLE batch ON COMMIT DROP AS SELECT * FROM log LIMIT 0;
    EXECUTE 'INSERT INTO batch ' || rows;
    PERFORM measure('load a batch', 'view_log', 'INSERT INTO log TABLE batch');
    PERFORM measure('load a batch', 'view_compacted', 'INSERT INTO compacted TABLE batch');
    PERFORM measure('load a batch', 'target', 'INSERT INTO target_log TABLE batch');
    PERFORM measure('upkeep for it', 'view_compacted', 'DELETE FROM compacted l
        USING (SELECT id, max(source_position) AS newest FROM compacted GROUP BY id) n WHERE n.id = l.id AND l.source_position < n.newest');
    PERFORM measure('upkeep for it', 'target', 'SELECT * FROM cdc_apply(''target'')');
END $$;
SELECT format('CALL batch(%s, %s)', i, :keys) FROM generate_series(1, 5) i \gexec

-- all three say the same
DO $$
BEGIN
    IF EXISTS (TABLE view_log EXCEPT SELECT id, name, amount FROM target) OR EXISTS (SELECT id, name, amount FROM target EXCEPT TABLE view_log)
        OR EXISTS (TABLE view_compacted EXCEPT TABLE view_log) OR EXISTS (TABLE view_log EXCEPT TABLE view_compacted) THEN
        RAISE EXCEPTION 'the three ways differ';
    END IF;
END $$;
SELECT what, way, round((percentile_cont(0.5) WITHIN GROUP (ORDER BY ms))::numeric, 2) AS ms,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY buffers) AS buffers, percentile_disc(0.5) WITHIN GROUP (ORDER BY wal) / 1024 AS wal_kb
FROM measured GROUP BY what, way ORDER BY array_position('{read all rows,read one key,load a batch,upkeep for it}', what), array_position('{view_log,view_compacted,target}', way);
SELECT relname, pg_size_pretty(pg_table_size(oid)) AS rows, pg_size_pretty(pg_indexes_size(oid)) AS indexes
FROM pg_class WHERE relname IN ('log', 'compacted', 'target', 'target_tombstones', 'target_log') AND relkind = 'r' ORDER BY relname;
