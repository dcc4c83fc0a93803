-- latest_by_position in parallel workers and partitionwise: combine, serialize, deserialize

\set VERBOSITY terse
CREATE FUNCTION pg_temp.refused(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	state text; message text; det text; hint text;
BEGIN
	EXECUTE query;
	RETURN 'not refused';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		det = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', state, message, nullif(det, ''), nullif(hint, ''));
END $$;

CREATE FUNCTION pg_temp.plan_has(query text, node text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON, COSTS OFF) ' || query INTO plan;
	RETURN plan::text LIKE '%' || node || '%';
END $$;

CREATE TYPE par_pair AS (x int, y text);
CREATE TABLE par (key int, i int, t text, big text, u uuid, c "char", f float8, pair par_pair, arr int[], m name, pos cdc_position);
ALTER TABLE par ALTER big SET STORAGE external;
INSERT INTO par
SELECT i % 50, i, CASE WHEN i % 7 > 0 THEN 'text ' || i END, CASE WHEN i % 97 = 0 THEN repeat(md5(i::text), 100) ELSE 'b' || i END,
	md5(i::text)::uuid, chr(65 + i % 26), i / 8.0, ROW(i, repeat('y', i % 9))::par_pair, ARRAY[i, NULL, i + 1], 'n' || i,
	-- few positions, so that many rows tie; some without
	CASE WHEN i % 5 > 0 THEN cdc_position('0/1', (i * 7919::bigint) % 101, epoch => i % 2) END
FROM generate_series(1, 20000) i;
ANALYZE par;

CREATE VIEW answers AS
SELECT key, latest_by_position(i, pos) AS i, latest_by_position(t, pos) AS t, latest_by_position(big, pos) AS big,
	latest_by_position(u, pos) AS u, latest_by_position(c, pos) AS c, latest_by_position(f, pos) AS f,
	latest_by_position(pair, pos) AS pair, latest_by_position(arr, pos) AS arr, latest_by_position(m, pos) AS m,
	latest_by_position(p, pos) AS whole, latest_by_position(ROW(i, t), pos)::text AS anonymous,
	latest_by_position(t, NULL) AS nothing, max(pos) AS greatest, min(pos) AS least
FROM par p GROUP BY key;

SET max_parallel_workers_per_gather = 0;
SELECT pg_temp.plan_has('SELECT * FROM answers', 'Gather') AS parallel;
CREATE TABLE serial_answers AS SELECT key, i, t, big, u, c, f, pair, arr, m, whole, anonymous, nothing, greatest, least FROM answers;

SET max_parallel_workers_per_gather = 3;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
SELECT pg_temp.plan_has('SELECT * FROM answers', 'Gather') AS parallel,
	pg_temp.plan_has('SELECT * FROM answers', '"Partial Mode": "Finalize"') AS finalized;
CREATE TABLE parallel_answers AS SELECT key, i, t, big, u, c, f, pair, arr, m, whole, anonymous, nothing, greatest, least FROM answers;
SELECT count(*) AS differ FROM serial_answers s FULL JOIN parallel_answers p USING (key) WHERE s::text IS DISTINCT FROM p::text;
SELECT count(*) AS keys, count(t) < count(*) AS some_null, count(nothing) AS nothing FROM parallel_answers;

-- against a recomputation: greatest position, then greatest image
SELECT count(*) AS differ FROM serial_answers s JOIN (
	SELECT DISTINCT ON (key) key, t FROM par WHERE pos IS NOT NULL ORDER BY key, pos DESC, t COLLATE "C" DESC NULLS LAST) e USING (key)
WHERE s.t IS DISTINCT FROM e.t;

-- without GROUP BY; workers that see no rows or no real position
SELECT pg_temp.plan_has('SELECT latest_by_position(t, pos) FROM par', 'Gather') AS parallel;
SELECT latest_by_position(i, pos) = (SELECT max(i) FROM par WHERE pos = (SELECT max(pos) FROM par)) AS same FROM par;
SELECT latest_by_position(i, pos) AS one_row FROM par WHERE i = 4711;
SELECT latest_by_position(i, pos) IS NULL AS none FROM par WHERE i % 5 = 0;
SELECT latest_by_position(i, pos) IS NULL AS no_rows FROM par WHERE i < 0;

-- kinds that meet only when workers' states are combined
CREATE TABLE par_mixed AS SELECT i, CASE WHEN i <= 10000 THEN cdc_position_from_numbers(i) ELSE cdc_position('0/1', i) END AS pos FROM generate_series(1, 20000) i;
ANALYZE par_mixed;
SELECT left(pg_temp.refused('SELECT latest_by_position(i, pos) FROM par_mixed'), 70) AS mixed;

-- partitionwise: states are combined without being serialized
CREATE TABLE parted (key int, v text, pos cdc_position) PARTITION BY RANGE (key);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (500);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (500) TO (1000);
INSERT INTO parted SELECT i % 1000, CASE WHEN i % 9 > 0 THEN repeat(chr(65 + i % 26), 1 + i % 50) END,
	cdc_position_from_numbers((i * 7919::bigint) % 1009, i % 2) FROM generate_series(1, 20000) i;
ANALYZE parted;
SET max_parallel_workers_per_gather = 0;
CREATE TEMP TABLE plain AS SELECT key % 3 AS k, latest_by_position(v, pos) AS v FROM parted GROUP BY key % 3;
SET enable_partitionwise_aggregate = on;
SELECT pg_temp.plan_has('SELECT key % 3, latest_by_position(v, pos) FROM parted GROUP BY key % 3', '"Partial Mode": "Finalize"') AS finalized;
SELECT count(*) AS differ FROM plain p JOIN (SELECT key % 3 AS k, latest_by_position(v, pos) AS v FROM parted GROUP BY key % 3) q USING (k)
WHERE p.v IS DISTINCT FROM q.v;
SET max_parallel_workers_per_gather = 3;
SELECT count(*) AS differ FROM plain p JOIN (SELECT key % 3 AS k, latest_by_position(v, pos) AS v FROM parted GROUP BY key % 3) q USING (k)
WHERE p.v IS DISTINCT FROM q.v;

DROP VIEW answers;
DROP TABLE par, serial_answers, parallel_answers, par_mixed, parted;
DROP TYPE par_pair;
