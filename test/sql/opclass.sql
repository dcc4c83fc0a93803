-- operator classes: indexes, joins, grouping, partitions, statistics

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
	RETURN plan::text LIKE '%"' || node || '"%';
END $$;

SELECT opcname, amname, amvalidate(c.oid) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
WHERE opcname = 'cdc_position_ops' ORDER BY amname;

-- FC33: a column with both kinds: index builds, ANALYZE and VACUUM never raise
CREATE TABLE mixed (id int, pos cdc_position);
INSERT INTO mixed SELECT i, CASE WHEN i % 3 = 0 THEN cdc_position_from_numbers(i % 1000, i % 7)
	WHEN i % 3 = 1 THEN cdc_position(('1/' || to_hex(i))::pg_lsn, i % 4)
	WHEN i % 30 = 2 THEN NULL ELSE cdc_position_with_epoch(('0/' || to_hex(i % 99))::pg_lsn, i % 5) END
FROM generate_series(1, 20000) i;
ANALYZE mixed;
CREATE INDEX mixed_btree ON mixed (pos);
CREATE INDEX mixed_hash ON mixed USING hash (pos);
VACUUM ANALYZE mixed;
REINDEX TABLE mixed;
SELECT n_distinct <> 0 AS has_statistics, histogram_bounds IS NOT NULL AS has_histogram FROM pg_stats
WHERE tablename = 'mixed' AND attname = 'pos' AND schemaname = current_schema;
-- planning estimates ranges and joins across kinds
SELECT count(*) = (SELECT count(*) FROM mixed WHERE cdc_position_cmp(pos, '500') > 0) AS gt FROM mixed WHERE pos > '500';
SELECT count(*) = (SELECT count(*) FROM mixed WHERE cdc_position_cmp(pos, '1/100') <= 0) AS le FROM mixed WHERE pos <= '1/100'::pg_lsn;

-- the indexes are used and right
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT pg_temp.plan_has($$SELECT * FROM mixed WHERE pos = '1/64:0'$$, 'Index Scan') AS equality,
	pg_temp.plan_has($$SELECT max(pos) FROM mixed$$, 'Index Only Scan') AS max_by_index,
	pg_temp.plan_has($$SELECT pos FROM mixed ORDER BY pos$$, 'Index Only Scan') AS order_by_index;
SELECT id FROM mixed WHERE pos = '1/64'::cdc_position ORDER BY id;
SELECT max(pos), min(pos) FROM mixed;
DROP INDEX mixed_btree;
SELECT pg_temp.plan_has($$SELECT * FROM mixed WHERE pos = '1/64:0'$$, 'mixed_hash') AS hash_index;
SELECT id FROM mixed WHERE pos = '1/64'::cdc_position ORDER BY id;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- grouping and joining by hash and by sort agree
SET enable_sort = off;
CREATE TEMP TABLE by_hash AS SELECT pos, count(*) AS n FROM mixed GROUP BY pos;
RESET enable_sort;
SET enable_hashagg = off;
CREATE TEMP TABLE by_sort AS SELECT pos, count(*) AS n FROM mixed GROUP BY pos;
RESET enable_hashagg;
SELECT count(*) AS differ FROM by_hash h FULL JOIN by_sort s USING (pos, n) WHERE (h.n IS NULL OR s.n IS NULL) AND pos IS NOT NULL;
SET enable_hashjoin = off; SET enable_nestloop = off;
SELECT count(*) AS merge_joined FROM by_hash h JOIN by_sort s USING (pos);
RESET enable_hashjoin; RESET enable_nestloop;
SET enable_mergejoin = off; SET enable_nestloop = off;
SELECT count(*) AS hash_joined FROM by_hash h JOIN by_sort s USING (pos);
RESET enable_mergejoin; RESET enable_nestloop;

-- equal positions share their index entries: deduplication is safe
CREATE TABLE dup (pos cdc_position);
INSERT INTO dup SELECT cdc_position('16/B374D848', i % 2) FROM generate_series(1, 20000) i;
CREATE INDEX dup_shared ON dup (pos) WITH (deduplicate_items = on);
CREATE INDEX dup_apart ON dup (pos) WITH (deduplicate_items = off);
SELECT pg_relation_size('dup_shared') * 2 < pg_relation_size('dup_apart') AS deduplicated;

-- unique and primary keys, ON CONFLICT
CREATE TABLE keyed (pos cdc_position PRIMARY KEY);
INSERT INTO keyed VALUES ('7'), ('0/7'), ('1@7');
INSERT INTO keyed VALUES ('7:0:0') ON CONFLICT DO NOTHING;
SELECT pg_temp.refused($$INSERT INTO keyed VALUES ('0/07:0')$$);

-- range and hash partitions
CREATE TABLE ranged (pos cdc_position) PARTITION BY RANGE (pos);
CREATE TABLE ranged_lsn PARTITION OF ranged FOR VALUES FROM (MINVALUE) TO ('0');
CREATE TABLE ranged_number PARTITION OF ranged FOR VALUES FROM ('0') TO (MAXVALUE);
INSERT INTO ranged VALUES ('FFFFFFFF/FFFFFFFF'), ('3@0/1'), ('0'), ('5:6');
SELECT tableoid::regclass AS part, pos FROM ranged ORDER BY pos;
CREATE TABLE hashed (pos cdc_position) PARTITION BY HASH (pos);
CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO hashed SELECT cdc_position_from_numbers(i) FROM generate_series(1, 1000) i;
SELECT count(*) > 300 AS balanced FROM hashed GROUP BY tableoid;
SELECT count(*) FROM hashed WHERE pos = '77:0';

DROP TABLE mixed, dup, keyed, ranged, hashed;
