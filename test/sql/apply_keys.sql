-- Keys of many types: with and without hash support, other images of equal
-- values, indexes of other directions; and the places a target can live in.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA apply_keys;
SET search_path = apply_keys, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;

CREATE TYPE colour AS ENUM ('red', 'green', 'blue');
CREATE DOMAIN short AS varchar(3);
CREATE TYPE pair AS (a int, b text);

/*
 * Two different keys a and b, and b2 another image of b: insert both, update
 * b by its other image in a batch together with an older event, delete a,
 * replay; from staging of the key's own type and of text.
 */
CREATE FUNCTION key_works(type text, a text, b text, b2 text, index text DEFAULT '(k)') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	log text; staging text; result text;
BEGIN
	FOREACH staging IN ARRAY ARRAY[type, 'text'] LOOP
		EXECUTE format('DROP TABLE IF EXISTS kt, ks; CREATE TABLE kt (k %s NOT NULL, v text, source_position cdc_position, deleted boolean);
			CREATE UNIQUE INDEX ON kt %s; CREATE TABLE ks (k %s, v text, op text, source_position cdc_position)', type, index, staging);
		EXECUTE format('INSERT INTO ks VALUES (%L, ''a'', ''c'', ''1''), (%L, ''b'', ''c'', ''1'')', a, b);
		log := applied('kt', 'ks', 'key_columns => ''{k}''');
		EXECUTE format('INSERT INTO ks VALUES (%L, ''b2'', ''u'', ''2''), (%L, NULL, ''d'', ''3'')', b2, a);
		log := log || ', ' || applied('kt', 'ks', 'key_columns => ''{k}''');
		log := log || ', ' || applied('kt', 'ks', 'key_columns => ''{k}'', on_same_position => ''error''');
		log := log || ' ' || rows_of('SELECT v, source_position, deleted FROM kt');
		result := concat_ws(E'\n', result, expect(format('%s, staging %s', type, staging), log,
			'inserted=2, updated=1 deleted=1 superseded=2, duplicate=2 superseded=2 (a,3,t) (b2,2,f)'));
	END LOOP;
	RETURN result;
END $$;
SELECT key_works(t, a, b, b2, coalesce(i, '(k)')) FROM (VALUES
	('smallint', '1', '2', '2', NULL), ('bigint', '1', '2', '02', NULL), ('int', '-1', '0', '-0', '(k DESC)'), ('numeric', '1', '2.0', '2.000', NULL),
	('numeric', '1', 'NaN', 'NaN', '(k DESC NULLS LAST)'), ('float8', '1', '0', '-0', NULL), ('float4', 'NaN', '0.1', '0.1', NULL),
	('text', '', ' ', ' ', NULL), ('text', 'ä', 'Ä', 'Ä', '(k COLLATE "C")'), ('varchar(5)', 'a', 'b', 'b', NULL), ('char(4)', 'a', 'b', 'b   ', NULL), ('"char"', 'a', 'b', 'b', NULL), ('name', 'a', 'b', 'b', NULL),
	('bytea', '\x', '\x00', '\000', NULL), ('uuid', '00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-00000000000a', '{0000000000000000000000000000000A}', NULL),
	('boolean', 'true', 'false', 'no', NULL), ('date', '2020-01-01', 'infinity', 'infinity', NULL), ('timestamptz', '2020-01-01 00:00+00', '2020-01-01 12:00+02', '2020-01-01 10:00+00', NULL),
	('timestamp', 'epoch', '2020-01-01 12:00', '2020-01-01 12:00:00.0', NULL), ('time', '1:00', '2:00', '02:00:00', NULL), ('timetz', '1:00+00', '12:00+02', '12:00+02', NULL), ('interval', '1 day', '1 mon', '30 days', NULL),
	('colour', 'red', 'blue', 'blue', NULL), ('short', 'abc', 'abd', 'abd', NULL), ('int[]', '{}', '{1,NULL}', '{1,NULL}', NULL), ('text[]', '{a}', '{b,c}', '{"b","c"}', NULL),
	('pair', '(1,x)', '(1,y)', '(1,"y")', NULL), ('jsonb', '{"a":1}', '{"a":1,"b":2}', '{"b":2, "a":1}', NULL), ('int4range', 'empty', '[1,5)', '[1,4]', NULL), ('int4multirange', '{}', '{[1,5)}', '{[1,3),[3,5)}', NULL),
	('inet', '10.0.0.1', '10.0.0.2', '10.0.0.2/32', NULL), ('cidr', '10.0.0.0/8', '10.1.0.0/16', '10.1.0.0/16', NULL), ('macaddr', '08:00:2b:01:02:03', '08:00:2b:01:02:04', '08002b-010204', NULL),
	('pg_lsn', '0/1', '0/A', '0/a', NULL), ('oid', '1', '4294967295', '4294967295', NULL),
	-- no hash support
	('money', '1', '2', '2.00', NULL), ('bit varying', '1', '10', '10', NULL), ('bit(3)', '101', '111', '111', NULL), ('tsvector', 'a', 'b', 'b', NULL)
) v(t, a, b, b2, i);

-- texts that become one key
CREATE TABLE one (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
CREATE TABLE one_event (id text, v text, op text, source_position cdc_position);
INSERT INTO one_event VALUES ('1', 'a', 'c', '1'), ('01', 'b', 'u', '2'), (' 1 ', 'c', 'u', '3'), ('+1', 'late', 'u', '1:5');
SELECT apply_is('1, 01, +1 and " 1 " are one key', 'one', 'one_event', '', 'inserted=1 superseded=3', 'one', '(1,c,3,f)');
-- a tie is seen through the conversion
TRUNCATE one, one_event;
INSERT INTO one_event VALUES ('1', 'a', 'c', '1'), ('01', 'b', 'u', '1');
SELECT apply_refused('a tie of 1 and 01', 'one', 'one_event', '', '21000', '', 'dh');

-- a key that is the cdc_position of something else
CREATE TABLE by_position (at cdc_position PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
CREATE TABLE by_position_event (at cdc_position, v text, op text, source_position cdc_position);
INSERT INTO by_position_event VALUES ('16/B', 'a', 'c', '1'), ('16/B:0', 'b', 'u', '2'), ('16/B:1', 'c', 'u', '2');
SELECT apply_is('positions as keys', 'by_position', 'by_position_event', 'position_columns => ''{source_position}''', 'inserted=2 superseded=1', 'SELECT at, v FROM by_position', '(16/B,b) (16/B:1,c)');

-- a wide key
CREATE TABLE wide (a int, b text, c date, d numeric, e uuid, f boolean, g int, h int, v text, source_position cdc_position, deleted boolean, PRIMARY KEY (h, g, f, e, d, c, b, a));
CREATE TABLE wide_event (LIKE wide);
ALTER TABLE wide_event DROP deleted, ADD op text;
INSERT INTO wide_event SELECT i % 2, 'b', '2020-01-01', i % 3, '00000000-0000-0000-0000-000000000001', true, i % 5, 1, i::text, cdc_position_from_numbers(i), 'u' FROM generate_series(1, 300) i;
SELECT apply_is('eight columns', 'wide', 'wide_event', '', 'inserted=30 superseded=270', 'SELECT min(v::int), max(v::int) FROM wide', '(271,300)');

-- tables that are unlogged or temporary, with a table space of attributes gone
CREATE UNLOGGED TABLE unlogged (LIKE one INCLUDING ALL);
CREATE TEMP TABLE temporary (LIKE one INCLUDING ALL);
DELETE FROM one_event WHERE v = 'b';
SELECT apply_is('unlogged', 'unlogged', 'one_event', '', 'inserted=1', 'unlogged', '(1,a,1,f)');
SELECT apply_is('temporary', 'temporary', 'one_event', '', 'inserted=1', 'temporary', '(1,a,1,f)');
DROP TABLE temporary;
-- columns added with a default after rows were written
CREATE TABLE grown (id int PRIMARY KEY, source_position cdc_position, deleted boolean);
INSERT INTO grown VALUES (1, '0:1'), (2, '0:1');
ALTER TABLE grown ADD v text DEFAULT 'fast', ADD w text DEFAULT 'default', ADD x int NOT NULL DEFAULT 3;
SELECT apply_is('a row older than its columns', 'grown', 'one_event', '', 'updated=1', 'SELECT id, v, w, x FROM grown', '(1,a,default,3) (2,fast,default,3)');
-- fillfactor, an index of each kind besides the key
CREATE TABLE indexed (id int PRIMARY KEY, v text, tags text[], during int4range, source_position cdc_position, deleted boolean);
CREATE INDEX ON indexed USING hash (v);
CREATE INDEX ON indexed USING gin (tags);
CREATE INDEX ON indexed USING gist (during);
CREATE INDEX ON indexed USING brin (id);
CREATE INDEX ON indexed (lower(v)) WHERE NOT deleted;
CREATE INDEX ON indexed (source_position);
CREATE TABLE indexed_event (id int, v text, tags text[], during int4range, op text, source_position cdc_position);
INSERT INTO indexed_event SELECT i % 100, 'V' || i, ARRAY['t' || i % 10], int4range(i, i + 10), CASE WHEN i % 13 = 0 THEN 'd' ELSE 'u' END, cdc_position('1/0'::pg_lsn + i) FROM generate_series(1, 1000) i;
SELECT expect('first', applied('indexed', 'indexed_event', 'staging_filter => ''source_position < ''''1/200'''''''), 'inserted=92 deleted=8 superseded=411');
SELECT expect('second', applied('indexed', 'indexed_event') ~ 'superseded=900$' || '', 'true');
SET enable_seqscan = off;
SELECT expect('found by every index', string_agg(q, ', '), NULL) FROM (
	SELECT 'lower' AS q FROM indexed i WHERE NOT deleted AND NOT EXISTS (SELECT FROM indexed WHERE lower(v) = lower(i.v) AND NOT deleted)
	UNION ALL SELECT 'hash' FROM indexed i WHERE NOT EXISTS (SELECT FROM indexed WHERE v = i.v)
	UNION ALL SELECT 'position' FROM indexed i WHERE NOT EXISTS (SELECT FROM indexed WHERE source_position = i.source_position)) s;
SELECT expect('gin and gist', (SELECT count(*)::text FROM indexed WHERE tags @> '{t7}') || ' ' || (SELECT count(*)::text FROM indexed WHERE during && '[0,2000]'), '10 100');
RESET enable_seqscan;

-- inside other statements and transactions
TRUNCATE one, one_event;
INSERT INTO one_event VALUES ('1', 'a', 'c', '1');
SELECT expect('two calls in a query', counts(a) || ', ' || counts(b), 'inserted=1, duplicate=1') FROM cdc_apply('one', 'one_event') a, LATERAL cdc_apply('one', CASE WHEN a.events > 0 THEN regclass 'one_event' END) b;
PREPARE again AS SELECT counts(r) FROM cdc_apply('one', 'one_event') r;
EXECUTE again;
ALTER TABLE one ADD w int;
ALTER TABLE one_event ADD w int DEFAULT 5;
UPDATE one_event SET source_position = '2';
EXECUTE again;
SELECT expect('a prepared call sees the new column', rows_of('one'), '(1,a,2,f,5)');
BEGIN ISOLATION LEVEL SERIALIZABLE;
UPDATE one_event SET source_position = '3';
SELECT expect('serializable', applied('one', 'one_event'), 'updated=1');
SELECT expect('sees its own write', applied('one', 'one_event'), 'duplicate=1');
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT expect('repeatable read', applied('one', 'one_event'), 'duplicate=1');
COMMIT;
BEGIN;
SAVEPOINT s;
UPDATE one_event SET source_position = '4';
SELECT expect('to be rolled back', applied('one', 'one_event'), 'updated=1');
ROLLBACK TO s;
SELECT expect('after ROLLBACK TO', applied('one', 'one_event'), 'duplicate=1');
UPDATE one_event SET source_position = '5', op = 'd';
SELECT expect('a later savepoint', applied('one', 'one_event'), 'deleted=1');
COMMIT;
SELECT expect('committed', rows_of('SELECT id, source_position, deleted FROM one'), '(1,5,t)');
-- a trigger of one target that applies to the next
CREATE TABLE chain (LIKE one INCLUDING ALL);
CREATE FUNCTION apply_on() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM cdc_apply('chain', 'one_event');
	RETURN NULL;
END $$;
CREATE TRIGGER next AFTER INSERT OR UPDATE ON one FOR EACH STATEMENT EXECUTE FUNCTION apply_on();
UPDATE one_event SET source_position = '6', op = 'c';
SELECT apply_is('an apply within an apply', 'one', 'one_event', '', 'inserted=1', 'chain', '(1,a,6,f,5)');
-- a trigger that applies to the very target
CREATE FUNCTION apply_itself() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_trigger_depth() = 1 THEN
		PERFORM cdc_apply('chain', 'one_event');
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER itself AFTER INSERT OR UPDATE ON chain FOR EACH ROW EXECUTE FUNCTION apply_itself();
UPDATE one_event SET source_position = '7';
SELECT apply_is('an apply within itself', 'chain', 'one_event', '', 'updated=1', 'chain', '(1,a,7,f,5)');
-- a cursor
BEGIN;
DECLARE c CURSOR FOR SELECT counts(r) FROM cdc_apply('chain', 'one_event') r;
FETCH c;
CLOSE c;
COMMIT;

DROP SCHEMA apply_keys CASCADE;
