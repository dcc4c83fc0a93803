-- Rows of staging that are kept as they stand there: values out of line, keys
-- and positions among them, keys whose memory is gone, old keys that are also
-- something else; with and without a spill, and through a view, which keeps
-- rows in another form. Each time the target is what plain SQL makes of it.
\set ECHO none
CREATE SCHEMA kept_events;
SET search_path = kept_events, public;
SET client_min_messages = warning;
-- The differences between a target with a side table and the newest events, by key text.
CREATE FUNCTION differences(target text, staging text, key text, val text) RETURNS TABLE (difference text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format($q$
		WITH newest AS (SELECT DISTINCT ON (%3$s) %3$s AS k, %4$s AS v, op, source_position AS pos FROM %2$s ORDER BY %3$s, source_position DESC),
			live AS (SELECT k::text, v::text, pos FROM newest WHERE op <> 'd'),
			dead AS (SELECT k::text, pos FROM newest WHERE op = 'd'),
			has AS (SELECT %3$s::text AS k, %4$s::text AS v, source_position AS pos FROM %1$s),
			gone AS (SELECT %3$s::text AS k, source_position AS pos FROM %1$s_tombstones)
		SELECT 'live ' || e::text FROM (TABLE live EXCEPT TABLE has) e UNION ALL SELECT 'has ' || e::text FROM (TABLE has EXCEPT TABLE live) e
		UNION ALL SELECT 'dead ' || e::text FROM (TABLE dead EXCEPT TABLE gone) e UNION ALL SELECT 'gone ' || e::text FROM (TABLE gone EXCEPT TABLE dead) e$q$,
		target, staging, key, val);
END $$;
-- A row of so many columns that every value longer than 24 bytes goes out of line.
CREATE FUNCTION wide(name text, columns text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE (SELECT format('CREATE TABLE %s (%s, ', name, columns) || string_agg('c' || i || ' bigint DEFAULT 1', ', ') || ')' FROM generate_series(1, 260) i);
END $$;
-- Applied from the table, through a view and with a spill: the counts each way.
CREATE FUNCTION three_ways(target text, staging text, options text DEFAULT '') RETURNS TABLE (way text, counts text) LANGUAGE plpgsql AS $$
DECLARE
	w text;
BEGIN
	EXECUTE format('CREATE VIEW %s_view AS TABLE %1$s', staging);
	FOREACH w IN ARRAY ARRAY['view', 'spill', 'view and spill', 'table'] LOOP
		BEGIN
			PERFORM set_config('cdc_precedence.debug_fold_events', CASE WHEN w ~ 'spill' THEN '3' ELSE '0' END, true);
			EXECUTE format('SELECT concat_ws('' '', inserted, updated, deleted, stale, duplicate, superseded) FROM cdc_apply(%L, %L%s)', target,
				CASE WHEN w ~ 'view' THEN staging || '_view' ELSE staging END, options) INTO counts;
			way := w;
			RETURN NEXT;
			IF w <> 'table' THEN
				RAISE SQLSTATE '00001';
			END IF;
		EXCEPTION WHEN SQLSTATE '00001' THEN
		END;
	END LOOP;
	PERFORM set_config('cdc_precedence.debug_fold_events', '0', true);
END $$;
\set ECHO all
\pset format unaligned
\pset tuples_only on

-- a key out of line is the same key
SELECT wide('key_log', 'op text, id text, v text, source_position cdc_position');
CREATE TABLE keyed (id text PRIMARY KEY, v text);
SELECT cdc_attach('keyed', 'key_log');
INSERT INTO key_log SELECT op, '2b1f1a30-7c1d-4f43-9d25-6e1f0b7a' || n, op || n, pos::cdc_position
FROM generate_series(1000, 1009) n, (VALUES ('c', '0/10'), ('u', '0/20'), ('d', '0/30')) e (op, pos) WHERE n % 3 <> 0 OR op <> 'd';
SELECT bool_and(pg_column_size(id) < 40 AND pg_relation_size(reltoastrelid) > 0) FROM key_log, pg_class WHERE oid = 'key_log'::regclass;
SELECT * FROM three_ways('keyed', 'key_log', ', on_schema_change => ''ignore''');
SELECT * FROM differences('keyed', 'key_log', 'id', 'v');

-- a position out of line is the same position, in staging and in the target
SELECT wide('pos_log', 'op text, id int, v text, source_position cdc_position');
SELECT wide('positioned', 'id int PRIMARY KEY, v text, source_position cdc_position');
SELECT cdc_attach('positioned', 'pos_log');
INSERT INTO pos_log SELECT CASE WHEN n % 5 = 0 THEN 'd' ELSE 'u' END, n % 7, 'v' || n,
	cdc_position_from_numbers(39, 188000000000 + n, 500000000000, 39, 188000000000 + n, 300000000, 1) FROM generate_series(1, 40) n;
SELECT * FROM three_ways('positioned', 'pos_log');
SELECT * FROM differences('positioned', 'pos_log', 'id', 'v');
SELECT * FROM three_ways('positioned', 'pos_log_view');
INSERT INTO pos_log SELECT CASE WHEN n % 3 = 0 THEN 'd' ELSE 'u' END, n % 7, 'w' || n,
	cdc_position_from_numbers(39, 189000000000 + n, 500000000000, 39, 188000000000 + n, 300000000, 1) FROM generate_series(1, 40) n;
SELECT inserted, updated, deleted FROM cdc_apply('positioned');
SELECT * FROM differences('positioned', 'pos_log', 'id', 'v');

-- a placeholder out of line is no value, in whatever form it comes
SELECT wide('gap_log', 'op text, id int, v text, j jsonb, a text[], b bytea, source_position cdc_position');
SELECT wide('gapped', 'id int PRIMARY KEY, v text, j jsonb, a text[], b bytea');
SELECT cdc_attach('gapped', 'gap_log');
INSERT INTO gap_log VALUES ('c', 1, 'real', '{"real": 1}', '{real}', 'real', '0/10');
SELECT inserted FROM cdc_apply('gapped');
INSERT INTO gap_log VALUES ('u', 1, '__debezium_unavailable_value', '"__debezium_unavailable_value"', '{__debezium_unavailable_value}', '__debezium_unavailable_value', '0/20');
SELECT updated FROM cdc_apply('gapped');
SELECT id, v, j, a, encode(b, 'escape'), source_position FROM gapped;

-- a walk along the index does not look at keys whose memory is gone
CREATE TABLE walked (id text PRIMARY KEY, name text);
CREATE TABLE walk_log (name text, id text, op text, source_position cdc_position);
SELECT cdc_attach('walked', 'walk_log');
INSERT INTO walk_log SELECT 'a', 'key' || lpad(n::text, 6, '0'), 'd', '0/9000000' FROM generate_series(1, 20000) n;
SELECT deleted FROM cdc_apply('walked');
INSERT INTO walk_log SELECT CASE WHEN n <= 40 THEN 'a' ELSE repeat('y', 400) END, 'key' || lpad(n::text, 6, '0'), 'u', pg_lsn '0/0' + n::numeric FROM generate_series(1, 20000) n;
SET work_mem = '64kB';
SELECT superseded, duplicate FROM cdc_apply('walked');
DELETE FROM walk_log WHERE op = 'd';
SELECT stale, inserted FROM cdc_apply('walked');
RESET work_mem;
SELECT count(*) FROM walked;

-- an old key that is also a part of the key
CREATE TABLE moved (tenant text, id int, v text, PRIMARY KEY (tenant, id));
CREATE TABLE move_log (tenant text, id int, old_id int, v text, op text, source_position cdc_position);
SELECT cdc_attach('moved', 'move_log', old_key_columns => '{tenant,old_id}');
INSERT INTO move_log VALUES ('a', 1, NULL, 'x', 'c', '0/10'), ('a', 2, 1, 'y', 'u', '0/20'), ('b', 1, NULL, 'z', 'c', '0/30');
SELECT * FROM three_ways('moved', 'move_log');
SELECT tenant, id, v, source_position FROM moved ORDER BY 1, 2;
SELECT tenant, id, source_position FROM moved_tombstones;

-- snapshot rows without a place, which one key has many of
CREATE TABLE snapped (id text PRIMARY KEY, name text);
CREATE TABLE snap_log (name text, id text, op text, source_position cdc_position);
SELECT cdc_attach('snapped', 'snap_log');
INSERT INTO snap_log SELECT repeat('n', (n * 7) % 60), 'key' || n % 5 || repeat('z', 20), 'r', pg_lsn '0/0' + n::numeric FROM generate_series(1, 200) n ORDER BY hashint4(n);
SELECT * FROM three_ways('snapped', 'snap_log');
SELECT id, length(name) = (SELECT length(name) FROM snap_log l WHERE l.id = s.id ORDER BY l.source_position DESC LIMIT 1) AS newest FROM snapped s ORDER BY id;

-- unsigned four-byte keys beyond the signed ones
CREATE TABLE numbered (m oid, id int, v text, PRIMARY KEY (id, m));
CREATE TABLE number_log (m bigint, id int, v text, op text, source_position cdc_position);
SELECT cdc_attach('numbered', 'number_log');
INSERT INTO number_log VALUES (3000000000, 1, 'a', 'c', '0/10'), (3000000000, 1, 'b', 'u', '0/20'), (5, 1, 'c', 'c', '0/30');
SELECT * FROM three_ways('numbered', 'number_log');
SELECT * FROM differences('numbered', 'number_log', 'm', 'v');
DROP SCHEMA kept_events CASCADE;
