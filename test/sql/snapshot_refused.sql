-- What cdc_apply_snapshot refuses, and that nothing is written then.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA cdc_snap_refused;
SET search_path = cdc_snap_refused, public;
\i :testdir/include/error_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

CREATE TABLE event (op text, id int, v text, w text, source_position cdc_position);
CREATE TABLE t (id int PRIMARY KEY, v text, w text, derived int);
CREATE TABLE plain (id int PRIMARY KEY, v text, deleted boolean, source_position cdc_position);
CREATE TABLE snap (id int, v text, w text);
SELECT cdc_attach('t', 'event');
INSERT INTO event VALUES ('c', 1, 'a', 'a', '0/10'), ('c', 2, 'b', 'b', '0/20');
SELECT updated + inserted FROM cdc_apply('t');
INSERT INTO plain VALUES (1, 'a', false, '0/10');
INSERT INTO snap VALUES (1, 'a', 'a'), (2, 'B', 'b');

-- arguments
SELECT error_of($$SELECT cdc_apply_snapshot(NULL, 'snap', '0/50')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('t', NULL, '0/50')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', NULL)$$);
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '0/0')$$);
SELECT error_of(format($$SELECT cdc_apply_snapshot('t', 'snap', '0/50', max_delete_fraction => %L)$$, f)) FROM unnest('{1.5,-0.1,NaN}'::float8[]) f;
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '0/50', min_delete_rows => -1)$$);
SELECT error_of($$SELECT cdc_apply_snapshot('t', 't', '0/50')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '0/50', key_columns => '{v}')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '0/50', on_schema_change => 'perhaps')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '0/50', except_columns => '{x}')$$);

-- relations
CREATE VIEW v AS TABLE t;
CREATE SEQUENCE seq;
CREATE TABLE no_home (id int PRIMARY KEY, v text, source_position cdc_position);
CREATE TABLE no_key (id int, v text, deleted boolean, source_position cdc_position);
SELECT error_of($$SELECT cdc_apply_snapshot('v', 'snap', '0/50')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'seq', '0/50')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('no_home', 'snap', '0/50', on_schema_change => 'ignore')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('no_key', 'snap', '0/50', on_schema_change => 'ignore')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('plain', 'snap', '0/50', true)$$);
CREATE TABLE flagged (LIKE plain);
SELECT error_of($$SELECT cdc_apply_snapshot('plain', 'flagged', '0/50')$$);
-- also where the target's column is known: a row that is dead in the snapshot is no live one
INSERT INTO flagged VALUES (1, 'A', false, '0/50'), (2, 'dead', true, '0/50');
SELECT error_of($$SELECT cdc_apply_snapshot('plain', 'flagged', '0/50', tombstone_column => 'deleted')$$);
SELECT inserted, updated FROM cdc_apply_snapshot('plain', 'flagged', '0/50', tombstone_column => 'deleted', staging_filter => 'NOT deleted', except_columns => '{deleted}', dry_run => true);

-- the snapshot's columns and rows
CREATE VIEW no_id AS SELECT v, w FROM snap;
CREATE VIEW no_w AS SELECT id, v FROM snap;
CREATE VIEW more AS SELECT *, 1 AS more FROM snap;
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'no_id', '0/50')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'no_w', '0/50')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'more', '0/50', on_schema_change => 'fail')$$);
INSERT INTO snap VALUES (NULL, 'x', 'x');
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '0/50')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '0/50', true)$$);
DELETE FROM snap WHERE id IS NULL;
-- two rows of one key: both new, one as it is stored, first or last
INSERT INTO snap VALUES (3, 'x', 'x'), (3, 'y', 'x');
SELECT error_of(format($$SELECT cdc_apply_snapshot('t', 'snap', '0/50', complete => %L)$$, c)) FROM unnest('{f,t}'::bool[]) c;
DELETE FROM snap WHERE id = 3;
INSERT INTO snap VALUES (1, 'z', 'a');
SELECT error_of(format($$SELECT cdc_apply_snapshot('t', 'snap', '0/50', complete => %L)$$, c)) FROM unnest('{f,t}'::bool[]) c;
DELETE FROM snap WHERE v = 'a';
INSERT INTO snap VALUES (1, 'a', 'a');
SELECT error_of(format($$SELECT cdc_apply_snapshot('t', 'snap', '0/50', complete => %L)$$, c)) FROM unnest('{f,t}'::bool[]) c;
DELETE FROM snap WHERE v = 'z';

-- positions: kinds, epochs, lineage, what the columns hold
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '50')$$);
SELECT error_of(format($$SELECT cdc_apply_snapshot('plain', 'no_w', '50', %L, scope => 'id > 0', max_delete_fraction => 1)$$, c)) FROM unnest('{f,t}'::bool[]) c;
CREATE VIEW only_2 AS SELECT id, v FROM snap WHERE id = 2;
SELECT error_of($$SELECT cdc_apply_snapshot('plain', 'only_2', '50', true, scope => 'id > 0')$$);
CREATE TABLE parts (id int PRIMARY KEY, v text, deleted boolean, source_lsn pg_lsn, source_ordinal int);
SELECT error_of(format($$SELECT cdc_apply_snapshot('parts', 'no_w', %L, dry_run => true)$$, p)) FROM unnest('{47,0/50:1:2,2@0/50,0/50:9999999999}'::text[]) p;
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '0/50', lineage => 'db1')$$);
SELECT cdc_attach('t', lineage => 'db1');
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '0/50')$$);
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '0/50', lineage => 'db2')$$);
TRUNCATE event;
SELECT cdc_new_epoch('t', 'db2');
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '0/50', lineage => 'db2')$$);
SELECT events, updated, duplicate FROM cdc_apply_snapshot('t', 'snap', '1@0/50', lineage => 'db2', dry_run => true);

-- scope
SELECT error_of(format($$SELECT cdc_apply_snapshot('t', 'snap', '1@0/50', lineage => 'db2', scope => %L)$$, s))
FROM unnest(ARRAY['id', '(SELECT true)', 'count(*) > 0', 'id > 0 OR', 'x = 1', 'true) OR (true', 't IS NOT NULL', 'ctid IS NOT NULL', 'derived > 0', 'source_position > ''0/1''', 'id > 1', 'v < ''B''', 'NULL::boolean']) s;

-- row-level security
CREATE ROLE cdc_snap_blind;
GRANT USAGE ON SCHEMA cdc_snap_refused TO cdc_snap_blind;
GRANT SELECT, INSERT, UPDATE, DELETE ON t, snap, plain TO cdc_snap_blind;
ALTER TABLE snap ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON snap USING (id = 1);
SET ROLE cdc_snap_blind;
SELECT error_of($$SELECT cdc_apply_snapshot('t', 'snap', '1@0/50', true, lineage => 'db2')$$);
SELECT events FROM cdc_apply_snapshot('t', 'snap', '1@0/50', lineage => 'db2', dry_run => true);
RESET ROLE;
-- below views that read as the caller, too
CREATE VIEW as_caller WITH (security_invoker) AS SELECT * FROM snap;
CREATE VIEW deep WITH (security_invoker) AS WITH w AS (SELECT * FROM as_caller) SELECT * FROM plain JOIN w USING (id, v) WHERE id IN (SELECT id FROM w);
CREATE VIEW as_owner AS SELECT * FROM snap;
GRANT SELECT ON as_caller, deep, as_owner TO cdc_snap_blind;
SET ROLE cdc_snap_blind;
SELECT error_of(format($$SELECT cdc_apply_snapshot('t', %L, '1@0/50', true, lineage => 'db2', on_schema_change => 'ignore')$$, s)) FROM unnest('{as_caller,deep}'::text[]) s;
SELECT events FROM cdc_apply_snapshot('t', 'as_owner', '1@0/50', true, lineage => 'db2', dry_run => true);
RESET ROLE;
SELECT events FROM cdc_apply_snapshot('t', 'as_caller', '1@0/50', true, lineage => 'db2', dry_run => true);
ALTER TABLE plain ENABLE ROW LEVEL SECURITY;
SET ROLE cdc_snap_blind;
SELECT error_of($$SELECT cdc_apply_snapshot('plain', 'snap', '0/50')$$);
RESET ROLE;

-- code of the snapshot's own cannot take away what the call stands on
CREATE FUNCTION meddle(what text) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN EXECUTE what; RETURN true; END $$;
ALTER TABLE snap DISABLE ROW LEVEL SECURITY;
SELECT regexp_replace(error_of(format($$SELECT cdc_apply_snapshot('t', 'snap', '1@0/50', true, lineage => 'db2', staging_filter => %L)$$, format('meddle(%L)', m))), 'portal \d+', 'portal N')
FROM unnest(ARRAY['CLOSE ALL', 'DROP TABLE t_tombstones', 'ALTER TABLE t ADD x int']) m;

DROP OWNED BY cdc_snap_blind;
DROP ROLE cdc_snap_blind;
SET client_min_messages = warning;
DROP SCHEMA cdc_snap_refused CASCADE;
