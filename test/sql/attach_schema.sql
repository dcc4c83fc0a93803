-- Many tables at once, what is attached, and how it follows renames, drops and
-- owners.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA attach_schema;
SET search_path = attach_schema, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;

--
-- A schema of targets, a schema of staging tables
--
CREATE SCHEMA attach_schema_t;
CREATE SCHEMA attach_schema_s;
CREATE TABLE attach_schema_t.a (id int PRIMARY KEY, v text);
CREATE TABLE attach_schema_t.b (id int PRIMARY KEY, v text) PARTITION BY HASH (id);
CREATE TABLE attach_schema_t.b_0 PARTITION OF attach_schema_t.b FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE attach_schema_t.keyless (id int, v text);
CREATE TABLE attach_schema_t.lonely (id int PRIMARY KEY, v text);
CREATE TABLE attach_schema_t."Odd" (id int PRIMARY KEY, v text);
CREATE VIEW attach_schema_t.a_view AS TABLE attach_schema_t.a;
CREATE TABLE attach_schema_s.stg_a_v1 (op text, id int, v text, source_position cdc_position);
CREATE TABLE attach_schema_s.stg_b_v1 (LIKE attach_schema_s.stg_a_v1);
CREATE TABLE attach_schema_s.stg_b_0_v1 (LIKE attach_schema_s.stg_a_v1);
CREATE TABLE attach_schema_s.stg_keyless_v1 (LIKE attach_schema_s.stg_a_v1);
CREATE TABLE attach_schema_s.stg_a_view_v1 (LIKE attach_schema_s.stg_a_v1);
CREATE VIEW attach_schema_s."stg_Odd_v1" AS TABLE attach_schema_s.stg_a_v1;
CREATE TABLE attach_schema_s.a (op text);
CREATE FUNCTION attached() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(concat_ws(' ', target, staging, home, guard), ', ' ORDER BY target::text COLLATE "C"), 'none') FROM cdc_targets WHERE target::text ~ '^attach_schema_'
$$;
SELECT target, staging, attached, reason FROM cdc_attach_schema('attach_schema_t', 'attach_schema_s', 'stg_%s_v1', dry_run => true) ORDER BY target::text COLLATE "C";
SELECT expect('a dry run attaches nothing', attached(), 'none');
SELECT expect('and adds nothing', count(*)::text, '0') FROM pg_attribute JOIN pg_class c ON attrelid = c.oid WHERE relnamespace = 'attach_schema_t'::regnamespace AND attname = 'source_position';
SELECT target, staging, attached, reason FROM cdc_attach_schema('attach_schema_t', 'attach_schema_s', 'stg_%s_v1', guard => 'error') ORDER BY target::text COLLATE "C";
SELECT expect('attached', attached(), 'attach_schema_t."Odd" attach_schema_s."stg_Odd_v1" table error, attach_schema_t.a attach_schema_s.stg_a_v1 table error, attach_schema_t.b attach_schema_s.stg_b_v1 table error');
INSERT INTO attach_schema_s.stg_a_v1 VALUES ('c', 1, 'x', '1/1'), ('d', 2, NULL, '1/1');
SELECT expect('it works: ' || t, counts(r), 'inserted=1 deleted=1') FROM unnest('{attach_schema_t.a,"attach_schema_t.\"Odd\""}'::text[]) t, cdc_apply(t::regclass) r;
-- again: nothing new, and a new table is found
CREATE TABLE attach_schema_t.late (id int PRIMARY KEY, v text);
CREATE TABLE attach_schema_s.stg_late_v1 (LIKE attach_schema_s.stg_a_v1);
SELECT target, staging, attached, reason FROM cdc_attach_schema('attach_schema_t', 'attach_schema_s', 'stg_%s_v1') ORDER BY target::text COLLATE "C";
SELECT expect('the late one, and no side table as a target', attached(), 'attach_schema_t."Odd" attach_schema_s."stg_Odd_v1" table error, attach_schema_t.a attach_schema_s.stg_a_v1 table error, '
	|| 'attach_schema_t.b attach_schema_s.stg_b_v1 table error, attach_schema_t.late attach_schema_s.stg_late_v1 table off');
-- arguments
SELECT refused('no such schema', $$SELECT * FROM cdc_attach_schema('attach_schema_nowhere', 'attach_schema_s')$$, '3F000', 'attach_schema_nowhere');
SELECT refused('no such staging schema', $$SELECT * FROM cdc_attach_schema('attach_schema_t', 'attach_schema_nowhere')$$, '3F000', 'attach_schema_nowhere');
SELECT refused('a pattern without a place for the name', $$SELECT * FROM cdc_attach_schema('attach_schema_t', 'attach_schema_s', 'stg')$$, '22023', '%s', 'h');
SELECT expect('nothing there', count(*)::text, '0') FROM cdc_attach_schema('attach_schema_s', 'attach_schema_t', 'nothing_%s_here') WHERE attached;
-- tables of others are told of, not attached
CREATE ROLE regress_cdc_schema;
CREATE ROLE regress_cdc_schema_reader;
GRANT USAGE, CREATE ON SCHEMA attach_schema, attach_schema_t, attach_schema_s TO regress_cdc_schema;
CREATE TABLE attach_schema_t.mine (id int PRIMARY KEY, v text);
CREATE TABLE attach_schema_s.stg_mine_v1 (LIKE attach_schema_s.stg_a_v1);
CREATE TABLE attach_schema_t.not_mine (id int PRIMARY KEY, v text);
CREATE TABLE attach_schema_s.stg_not_mine_v1 (LIKE attach_schema_s.stg_a_v1);
ALTER TABLE attach_schema_t.mine OWNER TO regress_cdc_schema;
GRANT SELECT ON ALL TABLES IN SCHEMA attach_schema_s TO regress_cdc_schema;
SET ROLE regress_cdc_schema;
SELECT target, attached, reason FROM cdc_attach_schema('attach_schema_t', 'attach_schema_s', 'stg_%s_v1') WHERE target::text ~ 'mine' ORDER BY target::text COLLATE "C";
SELECT expect('what one may not read is not shown', attached(), 'attach_schema_t.mine attach_schema_s.stg_mine_v1 table off');
RESET ROLE;
GRANT SELECT ON attach_schema_t.a TO regress_cdc_schema_reader;
SET ROLE regress_cdc_schema_reader;
RESET ROLE;
GRANT USAGE ON SCHEMA attach_schema TO regress_cdc_schema_reader;
SET ROLE regress_cdc_schema_reader;
SELECT expect('a reader of one table', attached(), 'attach_schema_t.a attach_schema_s.stg_a_v1 table error');
SELECT refused('the registry itself is closed: ' || t, 'SELECT * FROM ' || t, '42501', t, '', false) FROM unnest('{cdc_target_rule,cdc_target_state}'::text[]) t;
SELECT refused('and not to be written: ' || t, 'INSERT INTO ' || t || ' DEFAULT VALUES', '42501', t, '', false) FROM unnest('{cdc_target_rule,cdc_target_state}'::text[]) t;
RESET ROLE;
GRANT pg_monitor TO regress_cdc_schema_reader;
SET ROLE regress_cdc_schema_reader;
SELECT expect('a monitor sees all', (SELECT count(*) > 4 FROM cdc_targets)::text, 'true');
RESET ROLE;

--
-- Renames are followed
--
SELECT fresh();
CREATE FUNCTION shown(t text) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', target, staging, home, tombstones, tombstone_column, key_columns, position_columns) FROM cdc_targets WHERE target = t::regclass
$$;
SELECT stage($$ ('c', 1, 'a', '2/10'), ('d', 2, NULL, '2/10') $$);
SELECT apply_both('before', 'inserted=1 deleted=1', '1=a@2/10 2 dead@2/10');
ALTER TABLE in_row RENAME id TO key;
ALTER TABLE in_row RENAME source_position TO pos;
ALTER TABLE in_row RENAME deleted TO gone;
ALTER TABLE in_table RENAME id TO key;
ALTER TABLE in_table RENAME source_position TO pos;
SELECT expect('columns of the row home', shown('in_row'), 'in_row attach_schema.event row gone {key} {pos}');
SELECT expect('columns of the table home', shown('in_table'), 'in_table attach_schema.event table in_table_tombstones {key} {pos}');
SELECT expect('the side table goes along', string_agg(attname, ' ' ORDER BY attnum), 'key source_position deleted_at') FROM pg_attribute WHERE attrelid = 'in_table_tombstones'::regclass AND attnum > 0;
ALTER TABLE event RENAME id TO key;
ALTER TABLE event RENAME source_position TO pos;
TRUNCATE event;
INSERT INTO event VALUES ('u', 1, 'b', '2/20'), ('c', 2, 'late', '2/5'), ('d', 3, NULL, '2/20');
SELECT expect('row home', counts(r), 'updated=1 deleted=1 stale=1') FROM cdc_apply('in_row') r;
SELECT expect('table home', counts(r), 'updated=1 deleted=1 stale=1') FROM cdc_apply('in_table') r;
-- swapped names
ALTER TABLE in_table ADD other int;
ALTER TABLE in_table RENAME key TO tmp;
ALTER TABLE in_table RENAME other TO key;
ALTER TABLE in_table RENAME tmp TO other;
SELECT expect('by number, not by name', shown('in_table'), 'in_table attach_schema.event table in_table_tombstones {other} {pos}');
ALTER TABLE in_table DROP key;
ALTER TABLE in_table RENAME other TO key;
ALTER TABLE in_row RENAME TO "In Row";
CREATE SCHEMA attach_schema_moved;
ALTER TABLE in_table SET SCHEMA attach_schema_moved;
ALTER TABLE attach_schema_moved.in_table RENAME TO moved;
ALTER TABLE in_table_tombstones RENAME TO graves;
SELECT expect('tables', shown('"In Row"') || ', ' || shown('attach_schema_moved.moved'), '"In Row" attach_schema.event row gone {key} {pos}, attach_schema_moved.moved attach_schema.event table graves {key} {pos}');
SELECT expect('nothing new', counts(r), 'stale=1 duplicate=2') FROM cdc_apply('"In Row"') r;
SELECT expect('nothing new', counts(r), 'stale=1 duplicate=2') FROM cdc_apply('attach_schema_moved.moved') r;
-- in one ALTER of a procedure, and undone
BEGIN;
ALTER TABLE attach_schema_moved.moved RENAME key TO k2;
SELECT expect('inside', key_columns::text, '{k2}') FROM cdc_targets WHERE target = 'attach_schema_moved.moved'::regclass;
ROLLBACK;
SELECT expect('undone', key_columns::text, '{key}') FROM cdc_targets WHERE target = 'attach_schema_moved.moved'::regclass;
-- the parts of a rule cannot be dropped unnoticed
ALTER TABLE "In Row" DROP gone;
SELECT refused('the flag is gone', $$SELECT * FROM cdc_apply('"In Row"')$$, '42703|55000', 'In Row');
DROP TABLE graves;
SELECT refused('the side table is gone', $$SELECT * FROM cdc_apply('attach_schema_moved.moved')$$, '55000', 'moved', 'h');
-- and the hint helps
SELECT cdc_detach('attach_schema_moved.moved'), cdc_attach('attach_schema_moved.moved', 'event'), cdc_detach('"In Row"'), cdc_attach('"In Row"', 'event', tombstones => 'row');
SELECT expect('a new side table', tombstones::text, 'attach_schema_moved.moved_tombstones') FROM cdc_targets WHERE target = 'attach_schema_moved.moved'::regclass;
SELECT expect('works again', counts(r), 'inserted=1 deleted=1 duplicate=1') FROM cdc_apply('attach_schema_moved.moved') r;
SELECT expect('works again', counts(r), 'stale=1 duplicate=2') FROM cdc_apply('"In Row"') r;

--
-- Drops leave nothing behind
--
DROP TABLE event, event_log;
CREATE TABLE event (op text, id int, v text, source_position cdc_position);
CREATE TABLE event_log (LIKE event);
SELECT fresh();
SELECT 'in_table_tombstones'::regclass::oid AS side, 'in_table'::regclass::oid AS home_table, 'in_row'::regclass::oid AS home_row \gset
DROP TABLE in_table, in_row;
SELECT expect('the side table goes with its target', count(*)::text, '0') FROM pg_class WHERE oid = :side;
SELECT expect('and what was known', concat_ws(' ', (SELECT count(*) FROM cdc_target_rule WHERE target IN (:home_table, :home_row)), (SELECT count(*) FROM cdc_target_state WHERE target IN (:home_table, :home_row))), '0 0');
SELECT fresh();
SELECT cdc_detach('in_row'), cdc_detach('in_table');
SELECT 'in_table_tombstones'::regclass::oid AS side, 'in_table'::regclass::oid AS home_table \gset
DROP TABLE in_table;
SELECT expect('also of a detached one', concat_ws(' ', (SELECT count(*) FROM pg_class WHERE oid = :side), (SELECT count(*) FROM cdc_target_state WHERE target = :home_table)), '0 0');
SELECT fresh();
BEGIN;
DROP TABLE in_table;
ROLLBACK;
SELECT expect('a drop undone', concat_ws(' ', shown('in_table')), 'in_table attach_schema.event table in_table_tombstones {id} {source_position}');
-- a dropped schema, as its owner
SET ROLE regress_cdc_schema;
CREATE TABLE attach_schema_t.by_owner (id int PRIMARY KEY);
SELECT cdc_attach('attach_schema_t.by_owner', 'attach_schema_s.stg_a_v1', except_columns => '{v}', guard => 'skip');
ALTER TABLE attach_schema_t.by_owner RENAME id TO key;
SELECT expect('an owner''s rename', key_columns::text, '{key}') FROM cdc_targets WHERE target = 'attach_schema_t.by_owner'::regclass;
DROP TABLE attach_schema_t.by_owner;
RESET ROLE;
SELECT expect('an owner''s drop', count(*)::text, '0') FROM cdc_target_state WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = target);
DROP SCHEMA attach_schema_t, attach_schema_s, attach_schema_moved CASCADE;
SELECT expect('nothing left', count(*)::text, '0') FROM cdc_target_rule WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = target);
-- owner and side table stay together
ALTER TABLE in_table OWNER TO regress_cdc_schema;
SELECT expect('a new owner', relowner::regrole::text, 'regress_cdc_schema') FROM pg_class WHERE oid = 'in_table_tombstones'::regclass;
ALTER TABLE in_table_tombstones OWNER TO regress_cdc_schema_reader;
SELECT stage($$ ('c', 1, 'a', '2/10'), ('d', 2, NULL, '2/10') $$);
SELECT refused('a side table of another owner is not trusted', $$SELECT * FROM cdc_apply('in_table')$$, '55000', 'in_table_tombstones', 'h');

SET client_min_messages = warning;
DROP SCHEMA attach_schema CASCADE;
DROP ROLE regress_cdc_schema, regress_cdc_schema_reader;
