-- column_positions where it cannot work: what is refused, in which words, and
-- that nothing is changed.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
SET client_min_messages = error;
CREATE SCHEMA column_positions_refused;
SET search_path = column_positions_refused, public;
\i :testdir/include/error_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on

-- the column
CREATE TABLE t (id int PRIMARY KEY, body text, j json, made jsonb GENERATED ALWAYS AS ('{}'::jsonb) STORED, firm jsonb NOT NULL DEFAULT '{}',
	ages jsonb, source_position cdc_position, deleted boolean);
CREATE TABLE s (op text, id int, body text, source_position cdc_position);
CREATE DOMAIN marks AS jsonb;
ALTER TABLE t ADD d marks;
INSERT INTO t (id, body, source_position) VALUES (1, 'b', '1/10');
INSERT INTO s VALUES ('u', 1, '__debezium_unavailable_value', '1/20');
SELECT error_of(format($$SELECT cdc_apply('t', 's', column_positions => %L)$$, c))
FROM unnest('{none,body,j,d,made,firm,id,source_position,deleted,ctid}'::text[]) c;
SELECT error_of(format($$SELECT cdc_attach('t', 's', column_positions => %L)$$, c))
FROM unnest('{body,made,firm,id,deleted,ctid}'::text[]) c;
CREATE TABLE k (id jsonb UNIQUE, source_position cdc_position);
SELECT error_of($$SELECT cdc_attach('k', key_columns => '{id}', column_positions => 'id')$$);
CREATE TABLE bare (id int PRIMARY KEY);
SELECT error_of($$SELECT cdc_attach('bare', column_positions => '')$$);
SELECT error_of($$SELECT cdc_attach('bare', column_positions => 'source_position')$$);
SELECT error_of($$SELECT cdc_attach('bare', tombstone_column => 'deleted', column_positions => 'deleted')$$);
DROP TABLE bare;
CREATE TABLE many (id int PRIMARY KEY);
CREATE TABLE many_event (op text, id int, source_position cdc_position);
SELECT target, reason FROM cdc_attach_schema('column_positions_refused', 'column_positions_refused', '%s_event', column_positions => 'id') WHERE staging IS NOT NULL;
SELECT target, attached FROM cdc_attach_schema('column_positions_refused', 'column_positions_refused', '%s_event', column_positions => 'ages') WHERE staging IS NOT NULL;

-- a partition has the columns of its parent
CREATE TABLE p (id int PRIMARY KEY, body text, source_position cdc_position) PARTITION BY LIST (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
SELECT error_of($$SELECT cdc_attach('p1', column_positions => 'ages')$$);

-- what is dropped is missed, until a repeated attach makes it anew
CREATE TABLE gone (id int PRIMARY KEY, body text);
SELECT cdc_attach('gone', 's', column_positions => 'ages');
ALTER TABLE gone DROP ages;
SELECT error_of($$SELECT cdc_apply('gone')$$);
SELECT cdc_attach('gone');
SELECT attname, format_type(atttypid, atttypmod), attnotnull, atthasdef FROM pg_attribute WHERE attrelid = 'gone'::regclass AND attname = 'ages';

-- rights on the column are asked for
CREATE ROLE column_positions_user;
GRANT USAGE ON SCHEMA column_positions_refused TO column_positions_user;
GRANT SELECT (id, body, source_position, deleted), INSERT (id, body, source_position, deleted), UPDATE (id, body, source_position, deleted) ON t TO column_positions_user;
GRANT SELECT ON s TO column_positions_user;
SET ROLE column_positions_user;
SELECT error_of($$SELECT cdc_apply('t', 's', column_positions => 'ages')$$);
SELECT updated FROM cdc_apply('t', 's');
RESET ROLE;
GRANT SELECT (ages), INSERT (ages), UPDATE (ages) ON t TO column_positions_user;
UPDATE s SET source_position = '1/30';
SET ROLE column_positions_user;
SELECT updated FROM cdc_apply('t', 's', column_positions => 'ages');
RESET ROLE;
SELECT ages FROM t;
REVOKE ALL ON t, s FROM column_positions_user;
REVOKE ALL ON SCHEMA column_positions_refused FROM column_positions_user;
DROP ROLE column_positions_user;

-- what a foreign hand wrote
UPDATE s SET source_position = '1/25', body = 'late';
CREATE FUNCTION hand_error(marks text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	UPDATE t SET ages = marks::jsonb;
	RETURN marks || E'\n' || error_of('SELECT cdc_apply(''t'', ''s'', column_positions => ''ages'')');
END $$;
SELECT hand_error(m) FROM (VALUES (1, '[]'), (2, 'null'), (3, '"1/10"'), (4, '{"body": 7}'), (5, '{"body": true}'), (6, '{"body": "yesterday"}'), (7, '{"body": ""}'),
	(8, '{"body": {}}'), (9, '{"body": [7]}'), (10, '{"body": [null]}'), (11, '{"body": ["1/10", "1/11"]}'), (12, '{"body": [[]]}'), (13, '{"body": "10"}'), (14, '{"": "x"}'),
	(15, '{"other": {"a": 1}}'), (16, '{"body": "0/99999999999999999999"}')) v(n, m) ORDER BY n;
-- .. and what is none of these
CREATE FUNCTION hand_marks(marks text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	UPDATE t SET ages = marks::jsonb, body = 'b';
	SELECT updated INTO n FROM cdc_apply('t', 's', column_positions => 'ages');
	RETURN format('%s: %s, %s', marks, n, (SELECT body || ' ' || coalesce(ages::text, 'NULL') FROM t));
END $$;
SELECT hand_marks(m) FROM (VALUES (1, '{}'), (2, '{"body": null}'), (3, '{"body": "0/0"}'), (4, '{"body": []}'), (5, '{"body": ["1/25"]}'), (6, '{"body": "1/25"}'),
	(7, '{"body": "1/24:7"}'), (8, '{"body": "9/99"}'), (9, '{"": "1/29", "body": null}'), (10, '{"": "1/30", "body": null}'), (11, '{"": null, "body": null}')) v(n, m) ORDER BY n;

\set ECHO none
DROP SCHEMA column_positions_refused CASCADE;
