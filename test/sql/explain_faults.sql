-- cdc_explain: faults of single rows, of the batch and of the call; who may
-- call it, and where.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA explain_faults;
SET search_path = explain_faults, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

-- outcome and reason of each event by its position
CREATE FUNCTION told(args text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT concat_ws('' | '', coalesce(event_key::text, ''-''), coalesce(op, ''-''), coalesce(event_position::text, ''-''),
		coalesce(stored_position::text, ''-''), outcome, reason) FROM cdc_explain(%s) ORDER BY event_position, event_key, outcome, reason', args);
END $$;

--
-- Rows that cannot be read: each is told, and the others are judged without it
--
CREATE TABLE t (id int, part text, v int, PRIMARY KEY (id, part));
CREATE TABLE s (op text, id text, part text, v text, gone text, source jsonb);
SELECT cdc_attach('t', 's', staging_position => 'cdc_position_from_debezium(source)', delete_flag_column => 'gone');
INSERT INTO s VALUES ('c', '1', 'a', '1', NULL, '{"connector": "postgresql", "lsn": 256}'),
	('c', 'one', 'a', '1', NULL, '{"connector": "postgresql", "lsn": 257}'),
	('c', '2', 'a', 'two', NULL, '{"connector": "postgresql", "lsn": 258}'),
	('c', '3', 'a', '1', NULL, '{"connector": "nobody", "lsn": 259}'),
	('c', '4', NULL, '1', NULL, '{"connector": "postgresql", "lsn": 260}'),
	('c', '5', 'a', '1', 'perhaps', '{"connector": "postgresql", "lsn": 261}'),
	('u', '6', 'a"b', '1', NULL, '{"connector": "mysql", "file": "b.000001", "pos": 4}'),
	(NULL, '7', 'a', '1', 'true', '{"connector": "postgresql", "lsn": 263}'),
	('truncate', NULL, NULL, NULL, NULL, NULL),
	('u', '99999999999', 'a', '1', NULL, '{"connector": "postgresql", "lsn": 265}'),
	(NULL, '1', 'a', NULL, NULL, NULL),
	('u', '1', 'a', '2', NULL, '{"connector": "postgresql", "lsn": 266}');
SELECT told($$'t'$$);
-- the first of them ends an apply
SELECT apply_refused('apply', 't', 's', '', '22P02|22023|22003', show => false);
-- a dropped column, and staging that may be read in part only, or is a view
ALTER TABLE s DROP COLUMN gone, ADD COLUMN more text;
SELECT cdc_detach('t'), cdc_attach('t', 's', staging_position => 'cdc_position_from_debezium(source)', except_columns => '{more}');
SELECT count(*), count(*) FILTER (WHERE outcome = 'error') FROM cdc_explain('t');
CREATE VIEW sv AS SELECT op, id, part, v, source FROM s;
SELECT count(*), count(*) FILTER (WHERE outcome = 'error') FROM cdc_explain('t', 'sv', except_columns => '{}');
-- an expression over the whole row is a part of the query, which fails as a whole
SELECT told($$'t', 'sv', except_columns => '{}', staging_position => 'cdc_position_from_debezium((sv).source)'$$);
SELECT told($$'t', staging_filter => '1 / (length(v) - 1) > 0'$$);

--
-- The batch as a whole: positions of another kind than the target's
--
CREATE TABLE k (id int PRIMARY KEY, v text);
CREATE TABLE ks (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('k', 'ks');
INSERT INTO ks VALUES ('c', 1, 'a', '0/1');
SELECT applied('k', 'ks');
TRUNCATE ks;
INSERT INTO ks VALUES ('u', 1, 'a', '7'), ('t', NULL, NULL, '8'), ('m', NULL, NULL, '9');
SELECT told($$'k'$$);
SELECT apply_refused('apply', 'k', 'ks', '', '42804', show => false);

--
-- Keys that another event moves away from
--
CREATE TABLE m (id int PRIMARY KEY, v text NOT NULL) PARTITION BY RANGE (id);
CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (100);
CREATE TABLE ms (op text, id int, v text, __old_id int, source_position cdc_position);
SELECT cdc_attach('m', 'ms');
INSERT INTO ms VALUES ('c', 1, 'a', NULL, '0/1'), ('u', 2, 'b', 1, '0/2'), ('u', 3, 'c', 500, '0/3'), ('u', 700, 'd', NULL, '0/4'), ('u', 4, 'e', NULL, '0/5');
SELECT told($$'m'$$);

--
-- Keys as JSON, whatever DateStyle says
--
SET datestyle = 'German';
CREATE DOMAIN code AS bigint;
CREATE TABLE j (a date, b timestamptz, c boolean, d numeric, e float8, f code, "g h" uuid, PRIMARY KEY (a, b, c, d, e, f, "g h"));
CREATE TABLE js (op text, a date, b timestamptz, c boolean, d numeric, e float8, f code, "g h" uuid, source_position cdc_position);
SELECT cdc_attach('j', 'js');
INSERT INTO js SELECT 'd', '20260102', '20260102T030405Z', true, d, e, 3, '00000000-0000-0000-0000-00000000000a', '0/1' FROM (VALUES (numeric '1.50', float8 '1e300'), ('NaN', '-Infinity')) v(d, e);
SET timezone = 'UTC';
SELECT event_key, event_key->>'d' FROM cdc_explain('j') ORDER BY 2;
RESET datestyle;
RESET timezone;

--
-- The call as a whole is refused as cdc_apply refuses it
--
SELECT refused('no relation', $$SELECT * FROM cdc_explain(0)$$, '42P01', show => false);
SELECT refused('no target', $$SELECT * FROM cdc_explain(NULL)$$, '22023', show => false);
CREATE TABLE nokey (id int);
SELECT refused('no key', $$SELECT * FROM cdc_explain('nokey', 'ks')$$, '55000', show => false);
SELECT refused('staging feeds less', $$SELECT * FROM cdc_explain('k', 'ms', op_column => 'nix')$$, '42703', show => false);

--
-- Who may read target and staging may ask; nothing is written, and it runs
-- where nothing can be
--
CREATE ROLE explain_reader;
GRANT USAGE ON SCHEMA explain_faults TO explain_reader;
SET ROLE explain_reader;
SELECT refused('no rights', $$SELECT * FROM cdc_explain('m')$$, '42501', show => false);
RESET ROLE;
GRANT SELECT ON m TO explain_reader;
SET ROLE explain_reader;
SELECT refused('no rights on staging', $$SELECT * FROM cdc_explain('m')$$, '42501', show => false);
RESET ROLE;
GRANT SELECT (op, id, v, __old_id, source_position) ON ms TO explain_reader;
SET ROLE explain_reader;
BEGIN READ ONLY;
SELECT count(*) FROM cdc_explain('m');
SELECT pg_current_xact_id_if_assigned() IS NULL;
COMMIT;
RESET ROLE;
-- recorded consume => 'delete' takes nothing; the apply lock is not asked for
SELECT cdc_attach('m', consume => 'delete');
BEGIN;
SELECT count(*) FROM cdc_explain('m');
SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'pg_class'::regclass AND objid = 'm'::regclass;
COMMIT;
SELECT count(*) FROM ms;
-- a function of a cast that fails is itself again with the next row
CREATE TYPE odd AS (i int);
CREATE FUNCTION to_odd(text) RETURNS odd LANGUAGE sql AS $$ SELECT ROW(x::int)::explain_faults.odd FROM (SELECT $1 AS x OFFSET 0) y $$;
CREATE CAST (text AS odd) WITH FUNCTION to_odd(text) AS ASSIGNMENT;
CREATE TABLE o (id int PRIMARY KEY, v odd);
CREATE TABLE os (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('o', 'os');
INSERT INTO os SELECT 'c', i, CASE WHEN i % 3 = 0 THEN 'x' || i ELSE i::text END, cdc_position(pg_lsn '0/1' + i::numeric) FROM generate_series(1, 200) i;
SELECT outcome, count(*), count(DISTINCT reason) FROM cdc_explain('o') GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM cdc_explain('o') WHERE (outcome = 'error') <> ((event_key->>'id')::int % 3 = 0)
	OR outcome = 'error' AND reason <> format('column "v": invalid input syntax for type integer: "x%s"', event_key->>'id');
-- cancelled, it ends
CREATE FUNCTION to_slow(text) RETURNS int LANGUAGE sql AS $$ SELECT 1 FROM pg_sleep(10) $$;
\set VERBOSITY sqlstate
SET statement_timeout = '300ms';
SELECT * FROM cdc_explain('o', 'os', staging_position => 'cdc_position_from_numbers(to_slow(v))');
RESET statement_timeout;

-- an error on the way is the caller's, who may catch it and go on
INSERT INTO os SELECT 'c', i, i, cdc_position(pg_lsn '0/1' + i::numeric) FROM generate_series(201, 6000) i;
CREATE TABLE before_it (i int);
CREATE FUNCTION caught(kilobytes int) RETURNS text LANGUAGE plpgsql SET work_mem = '64kB' AS $$
BEGIN
	PERFORM set_config('temp_file_limit', kilobytes || 'kB', true);
	INSERT INTO before_it VALUES (kilobytes);
	BEGIN
		CREATE TABLE within (i int);
		PERFORM count(*) FROM cdc_explain('o');
		DROP TABLE within;
		RETURN 'not refused';
	EXCEPTION WHEN OTHERS THEN
		INSERT INTO before_it VALUES (-kilobytes);
		RETURN sqlstate || ' ' || (to_regclass('within') IS NULL);
	END;
END $$;
-- wherever on the way the disk is full
SELECT caught(n * 150), count(*) > 1 FROM generate_series(1, 20) n GROUP BY 1 ORDER BY 1;
SELECT count(*) FILTER (WHERE i > 0), count(*) FILTER (WHERE i < 0) > 5 FROM before_it;
SELECT count(*) FROM pg_class WHERE relname = 'within';

DROP OWNED BY explain_reader;
DROP ROLE explain_reader;
DROP SCHEMA explain_faults CASCADE;
