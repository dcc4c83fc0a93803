-- Attached targets whose triggers, rules, foreign keys, defaults and keys get
-- in the way of a truncate, an apply or a dry run; names, rights and registry
-- rows that are not what they seem.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA attach_faults_2;
SET search_path = attach_faults_2, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;

--
-- Truncate events and BEFORE triggers
--
CREATE FUNCTION undo_flag() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.deleted := false; RETURN NEW; END $$;
CREATE FUNCTION undo_position() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.source_position := OLD.source_position; RETURN NEW; END $$;
SELECT fresh();
SELECT stage($$ ('c', 1, 'a', '0/10'), ('c', 2, 'b', '0/11') $$);
SELECT apply_both('before', 'inserted=2', '1=a@0/10 2=b@0/11');
CREATE TRIGGER bt BEFORE UPDATE ON in_row FOR EACH ROW EXECUTE FUNCTION undo_flag();
SELECT stage($$ ('t', NULL, NULL, '0/20') $$);
SELECT apply_refused('a trigger that makes the killed row live again', 'in_row', 'event', '', '27000', 'deleted', 'h');
SELECT expect('nothing was recorded', fence::text, NULL) FROM cdc_targets WHERE target = 'in_row'::regclass;
DROP TRIGGER bt ON in_row;
CREATE TRIGGER bt BEFORE UPDATE ON in_row FOR EACH ROW EXECUTE FUNCTION undo_position();
SELECT apply_refused('a trigger that keeps its position', 'in_row', 'event', '', '27000', 'source_position', 'h');
DROP TRIGGER bt ON in_row;
INSERT INTO event_log TABLE event;
SELECT both_say('without them', $$SELECT applied('%s', 'event') || ' ' || stands('%s', true)$$, 'truncated=1 nothing');

--
-- Rules are not asked: a truncate kills what it has to kill
--
SELECT fresh();
CREATE RULE r AS ON DELETE TO in_table DO INSTEAD NOTHING;
CREATE RULE r AS ON UPDATE TO in_row DO INSTEAD NOTHING;
SELECT stage($$ ('c', 1, 'a', '0/10'), ('c', 2, 'b', '0/11'), ('c', 3, 'c', '0/30') $$);
SELECT apply_both('before', 'inserted=3', '1=a@0/10 2=b@0/11 3=c@0/30');
SELECT stage($$ ('t', NULL, NULL, '0/20') $$);
INSERT INTO event_log TABLE event;
SELECT both_say('a truncate', $$SELECT applied('%s', 'event')$$, 'truncated=1');
SELECT both_are_true('past the rules');

--
-- Foreign keys look at what the whole call leaves
--
SELECT fresh();
CREATE TABLE ref_row (id int PRIMARY KEY, p int REFERENCES in_row);
CREATE TABLE ref_table (id int PRIMARY KEY, p int REFERENCES in_table);
SELECT stage($$ ('c', 1, 'a', '0/10') $$);
SELECT apply_both('before', 'inserted=1', '1=a@0/10');
INSERT INTO ref_row VALUES (1, 1);
INSERT INTO ref_table VALUES (1, 1);
SELECT stage($$ ('t', NULL, NULL, '0/20'), ('c', 1, 'z', '0/21') $$);
INSERT INTO event_log TABLE event;
SELECT expect('truncated and back in one batch', counts(r), 'inserted=1 truncated=1') FROM cdc_apply('in_table', 'event') r;
SELECT expect('also in the row home', counts(r), 'inserted=1 truncated=1') FROM cdc_apply('in_row', 'event') r;
SELECT both_are_true('and true');
SELECT stage($$ ('t', NULL, NULL, '0/30') $$);
SELECT refused('a row that is referred to and does not come back', $$SELECT * FROM cdc_apply('in_table', 'event')$$, '23503', NULL, '', false);
SELECT expect('nothing was written', stands('in_table') || ' ' || fence, '1=z@0/21 0/20') FROM cdc_targets WHERE target = 'in_table'::regclass;

--
-- A NULL in a key column of a partitioned table
--
CREATE TABLE nul (id int, r text, v text, UNIQUE (id, r)) PARTITION BY LIST (r);
CREATE TABLE nul_a PARTITION OF nul FOR VALUES IN ('a');
CREATE TABLE nul_d PARTITION OF nul DEFAULT;
CREATE TABLE nul_row (LIKE nul, UNIQUE (id, r)) PARTITION BY LIST (r);
CREATE TABLE nul_row_d PARTITION OF nul_row DEFAULT;
CREATE TABLE nul_event (op text, id int, r text, v text, source_position cdc_position);
SELECT cdc_attach('nul', 'nul_event', key_columns => '{id,r}'), cdc_attach('nul_row', 'nul_event', key_columns => '{id,r}', tombstones => 'row');
INSERT INTO nul (id, r, v, source_position) VALUES (1, NULL, 'by hand', NULL), (2, NULL, 'by hand', '0/5'), (NULL, 'a', 'by hand', '0/30'), (3, 'a', 'by hand', '0/5');
INSERT INTO nul_row (id, r, v, source_position) TABLE nul;
INSERT INTO nul_event VALUES ('t', NULL, NULL, NULL, '0/10');
SELECT expect('rows without a whole key are killed like others', counts(r) || ' ' || rows_of('nul'), 'truncated=1 (,a,"by hand",0/30)') FROM cdc_apply('nul') r;
SELECT expect('also in the row home', counts(r) || ' ' || rows_of('nul_row'), 'truncated=1 (,a,"by hand",0/30,f) (1,,"by hand",0/10,t) (2,,"by hand",0/10,t) (3,a,"by hand",0/10,t)') FROM cdc_apply('nul_row') r;

--
-- A dry run writes nothing: no default that could is called
--
CREATE TABLE numbered (id int PRIMARY KEY, a text, c serial, g int GENERATED ALWAYS AS IDENTITY);
CREATE TABLE dear (what text);
CREATE FUNCTION dear() RETURNS text LANGUAGE sql AS $$ INSERT INTO dear VALUES ('called') RETURNING what $$;
ALTER TABLE numbered ADD d text DEFAULT dear();
CREATE TABLE numbered_event (op text, id int, a text, source_position cdc_position);
SELECT cdc_attach('numbered', 'numbered_event');
TRUNCATE dear;
INSERT INTO numbered_event VALUES ('c', 1, 'a', '0/1'), ('c', 2, 'a', '0/1');
BEGIN READ ONLY;
SELECT expect('where nothing may be written', counts(r), 'inserted=2') FROM cdc_apply('numbered', dry_run => true) r;
COMMIT;
SELECT expect('once more', counts(r), 'inserted=2') FROM cdc_apply('numbered', dry_run => true) r;
SELECT expect('nothing was called', concat_ws(' ', (SELECT is_called FROM numbered_c_seq), (SELECT is_called FROM numbered_g_seq), rows_of('dear'), rows_of('numbered')), 'f f none none');
SELECT expect('the call itself', counts(r) || ' ' || rows_of('SELECT id, d, c + g FROM numbered'), 'inserted=2 (1,called,2) (2,called,4)') FROM cdc_apply('numbered') r;

--
-- Fence and purge from the target's own trigger while it is applied to
--
SELECT fresh();
CREATE FUNCTION inner_call() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE replace(TG_ARGV[0], '%s', TG_TABLE_NAME); RETURN NULL; END $$;
CREATE TRIGGER x AFTER INSERT ON in_row FOR EACH ROW EXECUTE FUNCTION inner_call('SELECT cdc_set_fence(''%s'', ''0/5'')');
CREATE TRIGGER x AFTER INSERT ON in_table FOR EACH ROW EXECUTE FUNCTION inner_call('SELECT cdc_set_fence(''%s'', ''0/5'')');
SELECT stage($$ ('c', 1, 'a', '0/10') $$);
SELECT both_say('a fence', $$SELECT applied('%s', 'event')$$, 'inserted=1');
SELECT both_say('both are recorded', $$SELECT concat_ws(' ', fence, high_position) FROM cdc_targets WHERE target = '%s'::regclass$$, '0/5 0/10');
DROP TRIGGER x ON in_row;
DROP TRIGGER x ON in_table;
CREATE TRIGGER x AFTER INSERT ON in_row FOR EACH ROW EXECUTE FUNCTION inner_call('SELECT cdc_purge_tombstones(''%s'', ''0/8'')');
CREATE TRIGGER x AFTER INSERT ON in_table FOR EACH ROW EXECUTE FUNCTION inner_call('SELECT cdc_purge_tombstones(''%s'', ''0/8'')');
SELECT stage($$ ('c', 2, 'b', '0/11'), ('d', 3, NULL, '0/12') $$);
SELECT both_say('a purge', $$SELECT applied('%s', 'event')$$, 'inserted=1 deleted=1');
SELECT both_say('both are recorded', $$SELECT concat_ws(' ', fence, high_position, stands('%s')) FROM cdc_targets WHERE target = '%s'::regclass$$, '0/8 0/12 1=a@0/10 2=b@0/11 3 dead@0/12');

--
-- Great numbers in integer columns
--
CREATE TABLE scn (id int PRIMARY KEY, scn bigint, ord int, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE scn_event (op text, id int, scn bigint, ord int);
SELECT cdc_attach('scn', 'scn_event', position_columns => '{scn,ord}', tombstones => 'row');
INSERT INTO scn_event VALUES ('d', 1, 450000000000000002, 1), ('d', 2, 450000000000000002, 7), ('c', 3, 450000000000000001, 1), ('c', 4, 9007199254740993, 1);
SELECT expect('applied', counts(r), 'inserted=2 deleted=2') FROM cdc_apply('scn') r;
SELECT expect('purged to the digit', cdc_purge_tombstones('scn', '450000000000000002:1') || ' ' || rows_of('SELECT id FROM scn'), '1 (2) (3) (4)');
TRUNCATE scn_event;
INSERT INTO scn_event VALUES ('t', NULL, 450000000000000002, 2);
SELECT expect('truncated to the digit', counts(r) || ' ' || rows_of('scn'), 'truncated=1 (2,450000000000000002,7,t) (3,450000000000000002,2,t) (4,450000000000000002,2,t)') FROM cdc_apply('scn') r;

--
-- Rights: USAGE on the schema of the staging that is read, of no other
--
CREATE ROLE regress_cdc_faults;
CREATE SCHEMA attach_faults_priv;
CREATE TABLE attach_faults_priv.own_event (op text, id int, v text, source_position cdc_position);
CREATE TABLE shared (id int PRIMARY KEY, v text);
SELECT cdc_attach('shared', 'attach_faults_priv.own_event', lineage => 'L');
GRANT USAGE ON SCHEMA attach_faults_2 TO regress_cdc_faults;
GRANT SELECT, INSERT, UPDATE, DELETE ON shared TO regress_cdc_faults;
GRANT SELECT ON event TO regress_cdc_faults;
SELECT stage($$ ('c', 1, 'a', '0/10'), ('d', 2, NULL, '0/10') $$);
SET ROLE regress_cdc_faults;
SELECT expect('another staging', counts(r), 'inserted=1 deleted=1') FROM cdc_apply('shared', 'event', lineage => 'L') r;
SELECT refused('the recorded one', $$SELECT * FROM cdc_apply('shared')$$, '42501', 'attach_faults_priv', '', false);
RESET ROLE;
ALTER TABLE shared OWNER TO regress_cdc_faults;
GRANT CREATE ON SCHEMA attach_faults_2 TO regress_cdc_faults;
SET ROLE regress_cdc_faults;
SELECT cdc_attach('shared', on_tie => 'upsert');
SELECT expect('an owner who may not look there: a repeat', on_tie || ' ' || staging, 'upsert attach_faults_priv.own_event') FROM cdc_targets WHERE target = 'shared'::regclass;
RESET ROLE;

--
-- Which tables are side tables
--
SELECT expect('side tables', concat_ws(' ', cdc_is_side_table(0), cdc_is_side_table('in_table'), cdc_is_side_table('in_table_tombstones'), cdc_is_side_table('event')), 'f f t f');

--
-- The registry's rows, written by hand: refused or harmless
--
CREATE TABLE forged (id int PRIMARY KEY, v text, source_position cdc_position);
SELECT refused('half a name of staging', $$INSERT INTO cdc_target_rule (target, staging_name, key_columns, position_columns, key_attnums, position_attnums, guard, attached_at)
	VALUES ('forged', 'event', '{id}', '{source_position}', '{1}', '{3}', 'off', now())$$, '23514|23502|55000|42501', NULL, '', false);
INSERT INTO cdc_target_state (target, tombstones, epoch) VALUES ('forged', 'shared', 0);
SELECT apply_refused('a side table that is none', 'forged', 'event', '', '55000', 'shared', 'dh');
CREATE TABLE was AS SELECT rows_of('SELECT id, v, source_position FROM shared') AS rows;
ALTER TABLE forged RENAME id TO other;
ALTER TABLE forged OWNER TO CURRENT_USER;
DROP TABLE forged;
SELECT expect('it is not renamed, given away or dropped along', concat_ws(' ', rows_of('SELECT id, v, source_position FROM shared') = was.rows, relowner::regrole), 't regress_cdc_faults') FROM was, pg_class WHERE oid = 'shared'::regclass;

-- a guard that came without its rule, as from a restore of a part, is taken up
CREATE TABLE lonely (id int PRIMARY KEY, v text);
SELECT cdc_attach('lonely', 'event', guard => 'error');
DELETE FROM cdc_target_rule WHERE target = 'lonely'::regclass;
SELECT refused('a write under it', $$INSERT INTO lonely VALUES (1, 'a', '0/1')$$, '55000', 'lonely', 'dh');
SELECT cdc_attach('lonely', 'event');
SELECT expect('the rule has it', guard, 'error') FROM cdc_targets WHERE target = 'lonely'::regclass;
INSERT INTO lonely VALUES (1, 'a', '0/1');
SELECT refused('and it works', 'DELETE FROM lonely', '23000', 'lonely', 'dh', false);

--
-- The warning of fenced events tells the position that they were judged at
--
CREATE TABLE warned (id int PRIMARY KEY, v text);
SELECT cdc_attach('warned', 'event', snapshot_position => 'none');
SELECT cdc_set_fence('warned', '0/8');
SELECT stage($$ ('r', 9, 'a', '0/9') $$);
SELECT expect('a snapshot row counts as without position', counts(r), 'fenced=1') FROM cdc_apply('warned') r;

--
-- An epoch is not raised twice by a call that is repeated
--
CREATE TABLE pu (id int PRIMARY KEY, v text);
SELECT cdc_attach('pu', 'event', lineage => 'one');
SELECT stage($$ ('c', 1, 'old', '0/900') $$);
SELECT expect('the old log', counts(r), 'inserted=1') FROM cdc_apply('pu', 'event', lineage => 'one') r;
TRUNCATE event;
SET client_min_messages = notice;
SELECT expect('the first epoch', cdc_new_epoch('pu', 'two')::text, '1');
SELECT stage($$ ('u', 1, 'new', '0/200') $$);
SELECT expect('the new log', counts(r), 'updated=1') FROM cdc_apply('pu', 'event', lineage => 'two') r;
TRUNCATE event;
SELECT expect('called again', cdc_new_epoch('pu', 'two')::text, '1');
SET client_min_messages = error;
SELECT stage($$ ('u', 1, 'redelivered', '0/150') $$);
SELECT expect('an old event of the new log is old', counts(r) || ' ' || rows_of('pu'), 'stale=1 (1,new,1@0/200)') FROM cdc_apply('pu', 'event', lineage => 'two') r;
SET client_min_messages = warning;

--
-- Positions of the wrong kind are left behind once none is stored
--
CREATE TABLE kinds (id int PRIMARY KEY, v text);
CREATE TABLE kinds_event (op text, id int, v text, lsn bigint);
SELECT cdc_attach('kinds', 'kinds_event', staging_position => 'lsn');
INSERT INTO kinds_event VALUES ('c', 1, 'a', 100), ('d', 2, NULL, 101);
SELECT expect('numbers', counts(r) || ' ' || r.high_position, 'inserted=1 deleted=1 101') FROM cdc_apply('kinds') r;
SELECT cdc_attach('kinds', staging_position => '''0/0''::pg_lsn + lsn');
SELECT apply_refused('LSNs', 'kinds', 'kinds_event', '', '42804', 'kinds', 'dh');
GRANT SELECT, INSERT, UPDATE, DELETE ON kinds TO regress_cdc_faults;
GRANT SELECT ON kinds_event TO regress_cdc_faults;
SET ROLE regress_cdc_faults;
SELECT apply_refused('LSNs, by one who may only apply', 'kinds', 'kinds_event', '', '42804', 'kinds', 'dh', false);
RESET ROLE;
UPDATE kinds SET source_position = NULL;
SELECT apply_refused('a tombstone still has the other kind', 'kinds', 'kinds_event', '', '42804', 'kinds', 'dh', false);
SELECT expect('purged', cdc_purge_tombstones('kinds', '101')::text, '1');
SELECT apply_refused('the fence has it', 'kinds', 'kinds_event', '', '42804', 'kinds', 'dh', false);
SELECT cdc_set_fence('kinds', NULL);
BEGIN;
SELECT expect('once none is left', counts(r) || ' ' || stands('kinds'), 'updated=1 deleted=1 1=a@0/64 2 dead@0/65') FROM cdc_apply('kinds') r;
SELECT expect('it is the high position', high_position::text, '0/65') FROM cdc_targets WHERE target = 'kinds'::regclass;
ROLLBACK;
SELECT cdc_detach('kinds', drop_tombstones => true);
SELECT cdc_attach('kinds', 'kinds_event', staging_position => '''0/0''::pg_lsn + lsn');
SELECT expect('the log once more', counts(r) || ' ' || stands('kinds'), 'updated=1 deleted=1 1=a@0/64 2 dead@0/65') FROM cdc_apply('kinds') r;

--
-- A fence, or dead rows, of a leaf that was attached by itself: its parent does not pass them by
--
CREATE TABLE whole (id int, r text, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE part PARTITION OF whole FOR VALUES IN ('g');
CREATE TABLE whole_event (op text, id int, r text, v text, source_position cdc_position);
INSERT INTO whole_event VALUES ('d', 5, 'g', NULL, '0/20');
SELECT cdc_attach('part', 'whole_event', tombstones => 'table');
SELECT expect('a delete in the leaf', counts(r), 'deleted=1') FROM cdc_apply('part') r;
SELECT expect('purged', cdc_purge_tombstones('part', '0/20')::text, '1');
SELECT cdc_detach('part', drop_tombstones => true);
SELECT refused('a fence of the leaf', $$SELECT cdc_attach('whole', 'whole_event', tombstones => 'table')$$, '55000', 'part', 'h');
SELECT cdc_attach('part', 'whole_event', tombstones => 'table');
SELECT cdc_set_fence('part', NULL);
SELECT cdc_detach('part', drop_tombstones => true);
SELECT cdc_attach('part', 'whole_event', tombstone_column => 'deleted');
SELECT expect('a delete in a row of the leaf', counts(r), 'deleted=1') FROM cdc_apply('part') r;
SELECT cdc_detach('part');
SELECT refused('dead rows of the leaf', $$SELECT cdc_attach('whole', 'whole_event', tombstones => 'table')$$, '55000', 'part', 'h');
SELECT cdc_detach('part', drop_tombstones => true);
SELECT cdc_attach('whole', 'whole_event', tombstones => 'table');
SELECT expect('forgotten on purpose', counts(r) || ' ' || (SELECT count(*) FROM whole), 'deleted=1 0') FROM cdc_apply('whole') r;

SET client_min_messages = warning;
DROP SCHEMA attach_faults_2, attach_faults_priv CASCADE;
DROP ROLE regress_cdc_faults;
