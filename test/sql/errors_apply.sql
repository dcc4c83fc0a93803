-- Errors of cdc_apply that the other tests do not show: code, message, detail
-- and hint, and that targets, tombstones, staging and registry stay as they
-- were.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
SET client_min_messages = error;
CREATE SCHEMA errors_apply;
SET search_path = errors_apply, public;
\i :testdir/include/error_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on

CREATE TABLE t (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
CREATE TABLE s (op text, id int, v text, n int, j jsonb, a point, source_position cdc_position);
INSERT INTO t VALUES (1, 'one', '0/1', false), (9, 'dead', '0/1', true);
INSERT INTO s VALUES ('u', 1, 'two', 1, '["v"]', NULL, '0/2'), ('d', 1, NULL, 1, '[]', NULL, '0/3');
CREATE TABLE side (id int PRIMARY KEY, v text);
INSERT INTO side VALUES (1, 'one');
CREATE TABLE side_events (op text, id int, v text, source_position cdc_position);
INSERT INTO side_events VALUES ('d', 2, NULL, '0/2'), ('u', 1, 'two', '0/2');
SELECT cdc_attach('side', 'side_events');
SELECT inserted + updated + deleted FROM cdc_apply('side');
INSERT INTO side_events VALUES ('u', 2, 'three', '0/3');

-- what staging's columns are
SELECT error_of($$SELECT cdc_apply('t', 's', op_column => 'a')$$);
SELECT error_of($$SELECT cdc_apply('t', 's', delete_flag_column => 'a')$$);
SELECT error_of($$SELECT cdc_apply('t', 's', unchanged_column => 'n')$$);
SELECT error_of($$SELECT cdc_apply('t', 's', old_key_columns => '{id,n}')$$);
SELECT error_of($$SELECT cdc_apply('t', 's', except_columns => '{id}')$$);
SELECT error_of($$SELECT cdc_apply('t', 's', except_columns => '{v,NULL}')$$);
SELECT error_of($$SELECT cdc_apply('t', 's', key_columns => '{}')$$);
SELECT error_of($$SELECT cdc_apply('t', 's', position_columns => '{a,b,c,d,e,f,g,h,i}')$$);
UPDATE s SET j = '{"v": 1}';
SELECT error_of($$SELECT cdc_apply('t', 's', unchanged_column => 'j')$$);

-- expressions
SELECT error_of($$SELECT cdc_apply('t', 's', staging_filter => 'id')$$);
SELECT error_of(format($$SELECT cdc_apply('t', 's', staging_filter => %L)$$, e))
FROM unnest('{true WHERE true,true AS x,s.*,id > (SELECT 1),count(*) > 1,"row_number() OVER () = 1","generate_series(1, 2) = 1"}'::text[]) e;

-- the key
CREATE TABLE k (id int, v text, source_position cdc_position, deleted boolean);
CREATE INDEX k_index ON k (id);
SELECT error_of($$SELECT cdc_apply('k', 's', key_columns => '{id}')$$);
DROP INDEX k_index;
INSERT INTO k VALUES (1), (1);
CREATE UNIQUE INDEX CONCURRENTLY k_index ON k (id);
SELECT error_of($$SELECT cdc_apply('k', 's', key_columns => '{id}')$$);
DROP INDEX k_index;
CREATE TABLE g (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean GENERATED ALWAYS AS (id > 0) STORED);
SELECT error_of($$SELECT cdc_apply('g', 's')$$);
CREATE TABLE p (id int, v text, source_position cdc_position, deleted boolean, PRIMARY KEY (id, source_position));
SELECT error_of($$SELECT cdc_apply('p', 's')$$);

-- positions that the target has no columns for
CREATE TABLE few (id int PRIMARY KEY, v text, source_lsn pg_lsn, source_ordinal smallint, deleted boolean);
INSERT INTO few VALUES (1, 'one', '0/1', 0);
CREATE TABLE few_events (op text, id int, v text, pos cdc_position);
INSERT INTO few_events VALUES ('u', 1, 'x', '0/2:40000');
SELECT error_of($$SELECT cdc_apply('few', 'few_events', staging_position => 'pos')$$);
UPDATE few_events SET pos = '47:3';
SELECT error_of($$SELECT cdc_apply('few', 'few_events', staging_position => 'pos')$$);
TRUNCATE few;
SELECT error_of($$SELECT cdc_apply('few', 'few_events', staging_position => 'pos')$$);
UPDATE few_events SET pos = '2@0/2';
SELECT error_of($$SELECT cdc_apply('few', 'few_events', staging_position => 'pos')$$);
UPDATE few_events SET pos = '0/2:3:4';
SELECT error_of($$SELECT cdc_apply('few', 'few_events', staging_position => 'pos')$$);

-- rows that others write while one is applied
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE t SET v = 'meddled' WHERE id = NEW.id;
	RETURN NEW;
END $$;
CREATE TRIGGER meddle BEFORE UPDATE ON t FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION meddle();
SELECT error_of($$SELECT cdc_apply('t', 's')$$);
DROP TRIGGER meddle ON t;

-- a rule in the place of DELETE
CREATE TABLE other (LIKE s);
INSERT INTO other VALUES ('u', 5, 'other', 1, NULL, NULL, '0/9');
CREATE RULE instead AS ON DELETE TO s DO INSTEAD DELETE FROM other RETURNING *;
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'delete')$$);
DROP RULE instead ON s;
CREATE RULE instead AS ON DELETE TO s DO INSTEAD INSERT INTO other VALUES ('u', 6, 'x', 1, NULL, NULL, '0/9') RETURNING *;
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'delete')$$);
DROP RULE instead ON s;
CREATE RULE instead AS ON DELETE TO s DO INSTEAD NOTHING;
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'delete')$$);
DROP RULE instead ON s;
CREATE RULE instead AS ON DELETE TO s WHERE OLD.op = 'd' DO INSTEAD NOTHING;
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'delete')$$);
DROP RULE instead ON s;

-- the rule of the table below a view
CREATE RULE instead AS ON DELETE TO other DO INSTEAD DELETE FROM s RETURNING *;
CREATE VIEW over_other AS SELECT * FROM other;
SELECT error_of($$SELECT cdc_apply('t', 'over_other', consume => 'delete')$$);
SELECT error_of($$SELECT cdc_apply('t', 'over_other', consume => 'delete', dry_run => true)$$);
-- what a rule does beside the DELETE is the user's own
DROP RULE instead ON other;
CREATE TABLE seen (id int);
CREATE RULE also AS ON DELETE TO other DO ALSO INSERT INTO seen VALUES (OLD.id);
SELECT inserted FROM cdc_apply('t', 'over_other', consume => 'delete');
SELECT (SELECT count(*) FROM other), (SELECT count(*) FROM seen);

-- a side table that is none, as a row of the registry by hand could say
CREATE VIEW no_side AS SELECT id, source_position, now() AS deleted_at FROM t;
BEGIN;
UPDATE cdc_target_state SET tombstones = 'no_side' WHERE target = 'side'::regclass;
SELECT error_of($$SELECT cdc_apply('side')$$);
ROLLBACK;

-- tables of the extension that are not as the library knows them
BEGIN;
ALTER EVENT TRIGGER cdc_follow_alter DISABLE;
ALTER EXTENSION cdc_precedence DROP TABLE cdc_target_rule;
ALTER TABLE cdc_target_rule RENAME TO elsewhere;
SELECT error_of($$SELECT cdc_apply('side')$$);
ROLLBACK;
BEGIN;
ALTER EVENT TRIGGER cdc_follow_alter DISABLE;
ALTER TABLE cdc_target_rule ADD later int;
SELECT error_of($$SELECT cdc_apply('side')$$);
ROLLBACK;

-- after all of that everything can still be applied
SELECT updated, deleted FROM cdc_apply('t', 's');
SELECT inserted FROM cdc_apply('side');
TABLE side;

DROP SCHEMA errors_apply CASCADE;
