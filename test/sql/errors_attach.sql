-- Errors and warnings that the other tests do not show, of what is done to an
-- attached target and of the functions that are not for calls: code, message,
-- detail and hint, and that everything stays as it was.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
SET client_min_messages = error;
CREATE SCHEMA errors_attach;
SET search_path = errors_attach, public;
\i :testdir/include/error_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
CREATE ROLE regress_errors_owner;
CREATE ROLE regress_errors_other;
GRANT ALL ON SCHEMA errors_attach TO regress_errors_owner, regress_errors_other;

CREATE TABLE e (op text, id int, v text, source_position cdc_position);
INSERT INTO e VALUES ('c', 1, 'one', '0/1'), ('d', 2, NULL, '0/2');
CREATE TABLE side (id int PRIMARY KEY, v text);
CREATE TABLE in_row (id int PRIMARY KEY, v text);
SELECT cdc_attach('side', 'e'), cdc_attach('in_row', 'e', tombstones => 'row', live_view => 'live');
SELECT (SELECT deleted FROM cdc_apply('side')), (SELECT deleted FROM cdc_apply('in_row'));

--
-- cdc_attach
--
SELECT error_of($$SELECT cdc_attach('side_tombstones')$$);
SELECT error_of($$SELECT cdc_attach('side', 'e', staging_filter => 'id + 1')$$);
SELECT error_of($$SELECT cdc_attach(0::regclass)$$);
SELECT error_of($$SELECT cdc_attach('side', 4294967295::oid::regclass)$$);
CREATE TABLE numbered (id int PRIMARY KEY, v text, source_lsn bigint, deleted boolean);
SELECT error_of($$SELECT cdc_attach('numbered', tombstones => 'row', tombstone_column => 'deleted', position_columns => '{source_lsn}', as_of => '0/5')$$);
-- detached, deletes are still remembered where they were
BEGIN;
SELECT cdc_detach('side');
SELECT error_of($$SELECT cdc_attach('side', tombstones => 'row')$$);
ROLLBACK;
-- somebody's trigger under the guard's name
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
BEGIN;
SELECT cdc_attach('side', guard => 'error');
CREATE TABLE name_of_guard AS SELECT tgname FROM pg_trigger WHERE tgrelid = 'side'::regclass AND NOT tgisinternal ORDER BY 1 LIMIT 1;
SELECT cdc_attach('side', guard => 'off');
DO $$BEGIN EXECUTE format('CREATE TRIGGER %I BEFORE INSERT ON side FOR EACH ROW EXECUTE FUNCTION nothing()', (SELECT tgname FROM name_of_guard)); END$$;
SELECT error_of($$SELECT cdc_attach('side', guard => 'error')$$);
ROLLBACK;

--
-- The live view
--
SELECT error_of($$SELECT cdc_attach('in_row', live_view => 'elsewhere.errors_attach.live')$$);
SELECT error_of($$SELECT cdc_attach('in_row', live_view => 'a.b.c.d')$$);
SELECT error_of($$SELECT cdc_attach('in_row', live_view => 'e')$$);
ALTER VIEW live OWNER TO regress_errors_owner;
SELECT error_of($$SELECT cdc_attach('in_row')$$);
ALTER VIEW live OWNER TO CURRENT_USER;
CREATE OR REPLACE VIEW live AS SELECT id, v, source_position, id + 1 AS next FROM in_row;
SELECT error_of($$SELECT cdc_attach('in_row')$$);
DROP VIEW live;

--
-- Event triggers that drop or rename what is being made
--
CREATE FUNCTION meddle() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
	c record;
BEGIN
	FOR c IN SELECT objid, object_type FROM pg_event_trigger_ddl_commands()
			WHERE command_tag IN ('CREATE TABLE', 'CREATE VIEW', 'ALTER VIEW') AND objid::regclass::text ~ 'victim' LOOP
		EXECUTE format('DROP %s %s CASCADE', split_part(c.object_type, ' ', 1), c.objid::regclass);
	END LOOP;
END $$;
CREATE TABLE t_victim (id int PRIMARY KEY, v text);
CREATE EVENT TRIGGER regress_errors_meddle ON ddl_command_end EXECUTE FUNCTION meddle();
SELECT error_of($$SELECT cdc_attach('t_victim', 'e')$$);
SELECT error_of($$SELECT cdc_attach('in_row', live_view => 'victim')$$);
ALTER EVENT TRIGGER regress_errors_meddle DISABLE;
SELECT cdc_attach('in_row', live_view => 'victim');
ALTER TABLE in_row RENAME v TO w;
ALTER TABLE in_row ADD more int;
ALTER EVENT TRIGGER regress_errors_meddle ENABLE;
SELECT error_of($$SELECT cdc_attach('in_row')$$);
DROP EVENT TRIGGER regress_errors_meddle;
ALTER TABLE in_row RENAME w TO v;

--
-- cdc_detach, fences
--
BEGIN;
ALTER EVENT TRIGGER cdc_follow_alter DISABLE;
ALTER TABLE side_tombstones OWNER TO regress_errors_other;
SELECT error_of($$SELECT cdc_detach('side', drop_tombstones => true)$$);
ROLLBACK;
CREATE TABLE part (id int PRIMARY KEY, v text) PARTITION BY LIST (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
SELECT cdc_attach('part', 'e');
SELECT error_of($$SELECT cdc_set_fence('part_1', '0/1')$$);
SELECT error_of($$SELECT cdc_set_fence('e', '0/1')$$);
SELECT error_of($$SELECT cdc_purge_tombstones(0::regclass, up_to => '0/1')$$);
SELECT error_of($$SELECT cdc_purge_tombstones('in_row', up_to => '0/1', max_rows => -1)$$);

--
-- The guard
--
CREATE TABLE guarded (id int PRIMARY KEY, v text);
SELECT cdc_attach('guarded', 'e', guard => 'error');
INSERT INTO guarded VALUES (1, 'one', '0/5');
ALTER TABLE guarded RENAME source_position TO away;
BEGIN;
UPDATE cdc_target_rule SET position_columns = '{nowhere}', position_attnums = '{99}' WHERE target = 'guarded'::regclass;
SELECT error_of($$UPDATE guarded SET away = '0/6'$$);
UPDATE cdc_target_rule SET position_columns = '{a,b,c,d,e,f,g,h,i}' WHERE target = 'guarded'::regclass;
SELECT error_of($$UPDATE guarded SET away = '0/6'$$);
ROLLBACK;
-- a trigger that drops what the guard looks into
CREATE FUNCTION drop_side() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS guarded_tombstones;
	RETURN NEW;
END $$;
CREATE TRIGGER zz BEFORE INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION drop_side();
SELECT error_of($$INSERT INTO guarded VALUES (7, 'x', '0/7'), (8, 'y', '0/8')$$);
CREATE OR REPLACE FUNCTION drop_side() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DROP INDEX IF EXISTS guarded_tombstones_key;
	RETURN NEW;
END $$;
SELECT error_of($$INSERT INTO guarded VALUES (7, 'x', '0/7'), (8, 'y', '0/8')$$);
ALTER TRIGGER zz ON guarded RENAME TO zzzz;
SELECT error_of($$INSERT INTO guarded VALUES (7, 'x', '0/7'), (8, 'y', '0/8')$$);
DROP TRIGGER zzzz ON guarded;
SELECT error_of($$CREATE TRIGGER wrong AFTER INSERT ON e FOR EACH ROW EXECUTE FUNCTION cdc_guard('error'); INSERT INTO e VALUES ('c', 1)$$);
SELECT error_of($$CREATE TRIGGER wrong BEFORE INSERT ON e FOR EACH ROW EXECUTE FUNCTION cdc_guard('never'); INSERT INTO e VALUES ('c', 1)$$);

--
-- A new owner and a drop, by who may not touch what belongs to the target
--
CREATE TABLE owned (id int PRIMARY KEY, v text);
ALTER TABLE owned OWNER TO regress_errors_owner;
SELECT cdc_attach('owned', 'e');
ALTER EVENT TRIGGER cdc_follow_alter DISABLE;
ALTER TABLE owned_tombstones OWNER TO regress_errors_other;
ALTER EVENT TRIGGER cdc_follow_alter ENABLE ALWAYS;
SET client_min_messages = warning;
GRANT regress_errors_other TO regress_errors_owner;
CREATE ROLE regress_errors_third;
GRANT ALL ON SCHEMA errors_attach TO regress_errors_third;
GRANT regress_errors_third TO regress_errors_owner;
REVOKE regress_errors_other FROM regress_errors_owner;
\set VERBOSITY default
SET ROLE regress_errors_owner;
ALTER TABLE owned OWNER TO regress_errors_third;
RESET ROLE;
SET ROLE regress_errors_third;
DROP TABLE owned;
RESET ROLE;
DROP TABLE owned_tombstones;

--
-- Functions that are not for calls, and what the type refuses
--
SET client_min_messages = error;
SELECT error_of('SELECT cdc_follow_drop()');
SELECT error_of('SELECT cdc_follow_alter()');
SELECT error_of('SELECT cdc_guard()');
-- bytes of another type, as a superuser can make them count
BEGIN;
CREATE CAST (bytea AS cdc_position) WITHOUT FUNCTION;
CREATE TABLE bytes AS SELECT '\x80'::bytea AS b;
SELECT error_of('SELECT b::cdc_position::text FROM bytes');
ROLLBACK;
SELECT error_of($$SELECT cdc_position('0/1', -1)$$);
SELECT error_of($$SELECT cdc_position_from_numbers(-1)$$);
SELECT error_of($$SELECT cdc_position_from_numbers(VARIADIC '{}')$$);
SELECT error_of($$SELECT cdc_position_from_numbers(VARIADIC '{{1,2},{3,4}}')$$);
SELECT error_of($$SELECT cdc_position_from_numbers(1, 2, 3, 4, 5, 6, 7, 8, 9)$$);
SELECT error_of($$SELECT '1:2:3:4:5:6:7:8:9'::cdc_position$$);

DROP OWNED BY regress_errors_owner, regress_errors_other, regress_errors_third;
DROP SCHEMA errors_attach CASCADE;
DROP ROLE regress_errors_owner, regress_errors_other, regress_errors_third;
