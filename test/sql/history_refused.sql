-- What histories refuse, in which words; and who may do what.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA history_refused;
SET search_path = history_refused, public;
SET client_min_messages = warning;
\set ECHO all
\pset format unaligned
\pset tuples_only on

-- SQLSTATE, message, detail, hint and context of a command
CREATE FUNCTION refused(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text; detail text; hint text; context text;
BEGIN
	EXECUTE command;
	RETURN 'NOT REFUSED: ' || command;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT;
	RETURN regexp_replace(concat_ws(E'\n    ', sqlstate || ': ' || message, nullif(detail, ''), nullif(hint, ''), substring(context from '(?n)^cdc_apply from .*$')), 'OID \d+', 'OID n');
END $$;

-- making one
CREATE TABLE plain (a int);
CREATE TABLE thing (id int PRIMARY KEY, name text, note text, source_position cdc_position, deleted boolean);
CREATE TABLE taken (id int PRIMARY KEY, valid_to date);
CREATE VIEW seen AS TABLE thing;
SELECT refused('SELECT cdc_create_history(NULL)');
SELECT refused('SELECT cdc_create_history(4294967295)');
SELECT refused('SELECT cdc_create_history(''plain'')');
SELECT refused('SELECT cdc_create_history(''thing'', key_columns => ''{name}'')');
SELECT refused('SELECT cdc_create_history(''seen'')');
SELECT refused('SELECT cdc_create_history(''taken'')');
SELECT refused('SELECT cdc_create_history(''thing'', track_columns => ''{id}'')');
SELECT refused('SELECT cdc_create_history(''thing'', track_columns => ''{deleted}'')');
SELECT refused('SELECT cdc_create_history(''thing'', track_columns => ''{no}'')');
SELECT refused('SELECT cdc_create_history(''thing'', ''elsewhere.history_refused.h'')');
SELECT refused('SELECT cdc_create_history(''thing'', ''no_schema.h'')');
SELECT refused('SELECT cdc_create_history(''thing'', ''plain'')');
SELECT cdc_create_history('thing'), cdc_create_history('thing');

-- applying: the relations
CREATE TABLE ev (op text, id int, name text, note text, source_position cdc_position, made_at timestamptz);
SELECT refused('SELECT cdc_apply_history(NULL, ''ev'')');
SELECT refused('SELECT cdc_apply_history(4294967295, ''ev'')');
SELECT refused('SELECT cdc_apply_history(''thing_history'')');
SELECT refused('SELECT cdc_apply_history(''thing_history'', 4294967295)');
SELECT refused('SELECT cdc_apply_history(''thing'', ''ev'')');
SELECT refused('SELECT cdc_apply_history(''seen'', ''ev'')');
SELECT refused('SELECT cdc_apply_history(''thing_history'', ''thing_history'')');
-- keys, positions
SELECT refused('SELECT cdc_apply_history(''thing_history'', ''ev'', key_columns => ''{name}'')');
SELECT refused('SELECT cdc_apply_history(''thing_history'', ''ev'', position_columns => ''{no}'')');
SELECT refused('SELECT cdc_apply_history(''thing_history'', ''ev'', position_columns => ''{name}'')');
SELECT refused('SELECT cdc_apply_history(''thing_history'', ''ev'', position_columns => ''{id,id,id,id}'')');
CREATE TABLE two (op text, id int, p cdc_position, q cdc_position);
SELECT refused('SELECT cdc_apply_history(''thing_history'', ''two'')');
CREATE TABLE none (op text, id int, name text);
SELECT refused('SELECT cdc_apply_history(''thing_history'', ''none'')');
CREATE TABLE as_text (op text, id int, source_position text);
SELECT refused('SELECT cdc_apply_history(''thing_history'', ''as_text'')');
-- times and tracked columns
SELECT refused('SELECT cdc_apply_history(''thing_history'', ''ev'', time_column => ''made_at'', dry_run => true)');
SELECT cdc_create_history('thing', 'timed', track_columns => '{name}', time_column => 'made_at');
SELECT refused('SELECT cdc_apply_history(''timed'', ''ev'', time_column => ''no'')');
SELECT refused('SELECT cdc_apply_history(''timed'', ''ev'', track_columns => ''{note}'')');
INSERT INTO none VALUES ('c', 1, 'x');
SELECT refused('SELECT cdc_apply_history(''timed'', ''none'', position_columns => ''{id}'', time_column => ''op'')');
SELECT refused('SELECT cdc_apply_history(''thing_history'', ''ev'', except_columns => ''{made_at}'', track_columns => ''{no}'')');
INSERT INTO ev VALUES ('c', 1, 'a', 'n', '0/10', now());
SELECT inserted FROM cdc_apply_history('thing_history', 'ev', except_columns => '{made_at}');
SELECT refused('SELECT cdc_apply_history(''thing_history'', ''ev'', except_columns => ''{made_at}'', track_columns => ''{name}'')');
-- recorded by the first call
SELECT cdc_create_history('thing', 'later');
SELECT inserted FROM cdc_apply_history('later', 'ev', except_columns => '{made_at}', track_columns => '{name,note}');
SELECT inserted, duplicate FROM cdc_apply_history('later', 'ev', except_columns => '{made_at}', track_columns => '{note,name}');
SELECT track_columns FROM cdc_histories WHERE history = 'later'::regclass;

-- events
\set all 'SELECT cdc_apply_history(''thing_history'', ''ev'', except_columns => ''{made_at}'''
TRUNCATE ev; INSERT INTO ev VALUES ('c', 2, 'a', 'n', '0/20'), ('u', 2, 'b', 'n', '0/20');
SELECT refused(:'all' || ')');
SELECT updated, inserted, superseded FROM cdc_apply_history('thing_history', 'ev', except_columns => '{made_at}', on_tie => 'upsert');
TRUNCATE ev; INSERT INTO ev VALUES ('c', 2, 'a', 'n', '0/30'), ('d', 2, NULL, NULL, '0/30');
SELECT refused(:'all' || ')');
TRUNCATE ev; INSERT INTO ev VALUES ('u', 2, 'other', 'n', '0/20');
SELECT refused(:'all' || ', on_same_position => ''error'')');
SELECT duplicate FROM cdc_apply_history('thing_history', 'ev', except_columns => '{made_at}', on_same_position => 'keep');
TRUNCATE ev; INSERT INTO ev VALUES ('u', 3, 'a', '__debezium_unavailable_value', '0/30');
SELECT refused(:'all' || ')');
TRUNCATE ev; INSERT INTO ev VALUES ('u', 3, 'a', 'n', '30');
SELECT refused(:'all' || ')');
TRUNCATE ev; INSERT INTO ev VALUES ('u', 3, 'a', 'n', '0/30'), ('u', 3, 'a', 'n', '30');
SELECT refused(:'all' || ')');
TRUNCATE ev; INSERT INTO ev VALUES ('x', 3, 'a', 'n', '0/30'), ('u', NULL, 'a', 'n', '0/30'), ('u', 3, 'a', 'n', NULL);
SELECT refused(:'all' || ')');
DELETE FROM ev WHERE op = 'x';
SELECT refused(:'all' || ')');
DELETE FROM ev WHERE id IS NULL;
SELECT refused(:'all' || ')');
TRUNCATE ev;
SELECT refused(:'all' || ', expect_events => 1)');
-- a key change must carry everything
CREATE TABLE move (op text, id int, __old_id int, name text, note text, source_position cdc_position);
INSERT INTO move VALUES ('u', 5, 4, 'a', '__debezium_unavailable_value', '0/40');
SELECT refused('SELECT cdc_apply_history(''thing_history'', ''move'')');
SELECT inserted FROM cdc_apply_history('thing_history', 'move', on_unavailable => 'null');
SELECT name, note FROM thing_history WHERE id = 5;
-- a value that does not fit is named
ALTER TABLE later ADD COLUMN n int;
CREATE TABLE numbers (op text, id int, name text, note text, n text, source_position cdc_position);
INSERT INTO numbers VALUES ('u', 7, 'a', 'b', 'many', '0/50');
SELECT refused('SELECT cdc_apply_history(''later'', ''numbers'')');
-- columns on one side only
ALTER TABLE numbers ADD COLUMN extra text;
UPDATE numbers SET n = '7', extra = 'e';
SET client_min_messages = warning;
SELECT refused('SELECT cdc_apply_history(''later'', ''numbers'', on_schema_change => ''fail'')');
SELECT inserted FROM cdc_apply_history('later', 'numbers', dry_run => true, on_schema_change => 'ignore');
SELECT count(*) FROM later WHERE id = 7;
SELECT inserted FROM cdc_apply_history('later', 'numbers', on_schema_change => 'append_new_columns');
SELECT id, n, extra, valid_from FROM later ORDER BY id;
SELECT refused('SELECT cdc_apply_history(''later'', ''ev'', except_columns => ''{made_at}'')');

-- a trigger that holds rows back would leave versions that do not fit
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER hold BEFORE INSERT ON thing_history FOR EACH ROW EXECUTE FUNCTION hold();
TRUNCATE ev; INSERT INTO ev VALUES ('u', 8, 'a', 'n', '0/70', now());
SELECT refused(:'all' || ')');
DROP TRIGGER hold ON thing_history;
-- one that changes a version's key or where it begins or ends would, too; other columns are its affair
CREATE TABLE meddled (id int PRIMARY KEY, name text);
SELECT cdc_create_history('meddled', time_column => 'made_at');
CREATE TABLE meddled_log (op text, id int, name text, made_at timestamptz, source_position cdc_position);
INSERT INTO meddled_log VALUES ('c', 1, 'a', '2026-01-01 00:00+00', '0/10'), ('u', 1, 'b', '2026-01-02 00:00+00', '0/30');
SELECT inserted FROM cdc_apply_history('meddled_history', 'meddled_log');
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW := jsonb_populate_record(NEW, current_setting('meddle.with')::jsonb);
	RETURN NEW;
END $$;
CREATE TRIGGER meddle BEFORE INSERT OR UPDATE ON meddled_history FOR EACH ROW EXECUTE FUNCTION meddle();
INSERT INTO meddled_log VALUES ('u', 1, 'late', '2026-01-01 12:00+00', '0/20');
SELECT what, set_config('meddle.with', what, false) = what, refused('SELECT * FROM cdc_apply_history(''meddled_history'', ''meddled_log'')')
FROM unnest('{"{\"id\": 9}","{\"valid_from\": \"0/1\"}","{\"valid_to\": null}","{\"valid_to_at\": null}"}'::text[]) what;
SELECT set_config('meddle.with', '{"name": "by the trigger"}', false);
SELECT inserted FROM cdc_apply_history('meddled_history', 'meddled_log');
TABLE meddled_history ORDER BY valid_from;
DROP TRIGGER meddle ON meddled_history;
-- neither it nor its events table can be made append-only
SELECT refused('SELECT cdc_make_append_only(''meddled_history'')');
SELECT refused('SELECT cdc_make_append_only(''meddled_history_events'')');
-- questions it has no answer to
SELECT refused('SELECT * FROM cdc_history_at(NULL::meddled_history, ''5''::cdc_position)');
SELECT refused('SELECT * FROM cdc_history_at(NULL::thing_history, ''2026-01-01''::timestamptz)');
ALTER TABLE meddled_history DROP COLUMN name, ADD COLUMN other int DEFAULT 7;
SELECT * FROM cdc_history_at(NULL::meddled_history, '0/20'::cdc_position);
SELECT * FROM cdc_history_at(NULL::meddled_history, '2026-01-01 13:00+00'::timestamptz);

-- rights: on the history alone, all of them, before anything is read
CREATE ROLE regress_history_applier;
CREATE ROLE regress_history_owner;
GRANT USAGE ON SCHEMA history_refused TO regress_history_applier, regress_history_owner;
GRANT SELECT ON ev TO regress_history_applier;
GRANT SELECT, INSERT, UPDATE ON thing_history TO regress_history_applier;
SET ROLE regress_history_applier;
SELECT refused(:'all' || ')');
RESET ROLE;
GRANT DELETE ON thing_history TO regress_history_applier;
REVOKE UPDATE ON thing_history FROM regress_history_applier;
SET ROLE regress_history_applier;
SELECT refused(:'all' || ')');
RESET ROLE;
GRANT UPDATE ON thing_history TO regress_history_applier;
SET ROLE regress_history_applier;
SELECT inserted FROM cdc_apply_history('thing_history', 'ev', except_columns => '{made_at}');
SELECT refused('SELECT cdc_create_history(''thing'')');
SELECT refused('TABLE thing_history_events');
SELECT refused('TABLE cdc_history_rule');
SELECT history::text FROM cdc_histories ORDER BY 1;
RESET ROLE;
-- row-level security
ALTER TABLE thing_history ENABLE ROW LEVEL SECURITY;
SET ROLE regress_history_applier;
SELECT refused(:'all' || ')');
RESET ROLE;
ALTER TABLE thing_history DISABLE ROW LEVEL SECURITY;
-- the events table must be the owner's
ALTER TABLE thing_history_events OWNER TO regress_history_owner;
SELECT refused(:'all' || ')');
ALTER TABLE thing_history OWNER TO regress_history_owner;
SELECT duplicate FROM cdc_apply_history('thing_history', 'ev', except_columns => '{made_at}');
-- it follows a new owner, and renames
GRANT CREATE ON SCHEMA history_refused TO regress_history_owner;
ALTER TABLE later OWNER TO regress_history_owner;
SELECT relowner::regrole FROM pg_class WHERE oid = 'later_events'::regclass;
ALTER TABLE later RENAME COLUMN name TO label;
SELECT track_columns FROM cdc_histories WHERE history = 'later'::regclass;
SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'later_events'::regclass AND attnum > 0;
ALTER TABLE later FORCE ROW LEVEL SECURITY;
ALTER TABLE later ENABLE ROW LEVEL SECURITY;
SELECT refused('SELECT cdc_apply_history(''later'', ''numbers'')');
ALTER TABLE later DISABLE ROW LEVEL SECURITY;

-- without its events table a history is not written
DROP TABLE later_events;
SELECT refused('SELECT cdc_apply_history(''later'', ''numbers'')');
-- nor without a column of its own
ALTER TABLE thing_history1 ALTER COLUMN valid_to TYPE text;
SELECT refused('SELECT cdc_apply_history(''thing_history1'', ''ev'')');
-- the events table goes with it
SELECT to_regclass('timed_events') IS NOT NULL;
SELECT cdc_create_history('thing', 'left_over');
GRANT CREATE ON SCHEMA history_refused TO regress_history_applier;
ALTER TABLE left_over OWNER TO regress_history_applier;
ALTER TABLE left_over_events OWNER TO regress_history_owner;
DROP TABLE timed;
SET ROLE regress_history_applier;
DROP TABLE left_over;
RESET ROLE;
SELECT to_regclass('timed_events'), count(*) FROM cdc_histories WHERE history::text = 'timed';
-- neither is exposed, nor attached with a schema
SELECT relation FROM cdc_exposed('history_refused') WHERE relation::text LIKE '%history%';
SELECT target FROM cdc_attach_schema('history_refused', 'history_refused', '%s_log', dry_run => true) WHERE target::text LIKE '%history%';
SELECT refused('SELECT * FROM cdc_history_at(1, ''0/1''::cdc_position)');
-- what a call warns of
SELECT duplicate FROM cdc_apply_history('thing_history', 'ev', except_columns => '{made_at}');
UPDATE ev SET name = 'other';
SELECT duplicate FROM cdc_apply_history('thing_history', 'ev', except_columns => '{made_at}');
UPDATE ev SET op = 'd';
SELECT duplicate FROM cdc_apply_history('thing_history', 'ev', except_columns => '{made_at}');
UPDATE ev SET source_position = '0/80';
SELECT deleted FROM cdc_apply_history('thing_history', 'ev', except_columns => '{made_at}');
UPDATE ev SET op = 'u';
SELECT inserted FROM cdc_apply_history('thing_history', 'ev', except_columns => '{made_at}');
-- temporary ones
CREATE TEMP TABLE brief (id int PRIMARY KEY, name text);
SELECT regexp_replace(cdc_create_history('brief', track_columns => '{name}')::text, '^pg_temp_\d+', 'pg_temp');
SELECT inserted FROM cdc_apply_history('brief_history', 'ev', except_columns => '{made_at}', on_schema_change => 'ignore');
SELECT * FROM brief_history;
-- without columns to apply there is still the key
CREATE TABLE keys_only (id int PRIMARY KEY);
SELECT cdc_create_history('keys_only');
CREATE TABLE keys_only_log (op text, id int, source_position cdc_position);
INSERT INTO keys_only_log VALUES ('c', 1, '0/10'), ('d', 1, '0/20'), ('c', 1, '0/30');
SELECT inserted, deleted FROM cdc_apply_history('keys_only_history', 'keys_only_log');
SELECT * FROM keys_only_history ORDER BY valid_from;
-- consumed
SELECT duplicate FROM cdc_apply_history('keys_only_history', 'keys_only_log', consume => 'delete', dry_run => true);
SELECT duplicate, (SELECT count(*) FROM keys_only_log) AS still FROM cdc_apply_history('keys_only_history', 'keys_only_log', consume => 'delete');
SELECT count(*) FROM keys_only_log;
INSERT INTO keys_only_log VALUES ('c', 2, '0/10');
SELECT inserted FROM cdc_apply_history('keys_only_history', 'keys_only_log', consume => 'truncate');
SELECT count(*) FROM keys_only_log;
ALTER TABLE keys_only_log ADD COLUMN loaded_xid xid8 DEFAULT pg_current_xact_id();
INSERT INTO keys_only_log VALUES ('c', 3, '0/10');
SELECT inserted FROM cdc_apply_history('keys_only_history', 'keys_only_log', consume => 'bookmark');
SELECT events FROM cdc_apply_history('keys_only_history', 'keys_only_log', consume => 'bookmark');
\set ECHO none
SET client_min_messages = error;
DROP SCHEMA history_refused CASCADE;
DROP ROLE regress_history_applier, regress_history_owner;
