-- What is refused, and how it is said: the code, the name of the thing, facts
-- in the detail and the fix in the hint; and that nothing was written.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA apply_errors;
SET search_path = apply_errors, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on

CREATE TABLE t (id int PRIMARY KEY, v text, n int CHECK (n < 1000), source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE s (id int, v text, n int, op text, source_position cdc_position);
INSERT INTO t VALUES (1, 'one', 1, '1/1'), (2, 'two', 2, '1/1');
-- a good event beside each bad one
CREATE FUNCTION bad(id int, v text, n int, op text, pos cdc_position, copies int DEFAULT 1) RETURNS void LANGUAGE sql AS $$
	TRUNCATE s;
	INSERT INTO s VALUES (1, 'good', 5, 'u', '2/2');
	INSERT INTO s SELECT id, v, n, op, pos FROM generate_series(1, copies);
$$;

-- 22023: ops
SELECT bad(2, 'x', 1, 'frobnicate', '2/3', 7);
SELECT apply_refused('unknown op', 't', 's', '', '22023', 'frobnicate', 'dh');
SELECT apply_refused('how many rows carry it', 't', 's', '', '22023', '7', '', false);
SELECT bad(2, 'x', 1, repeat('long', 100), '2/3');
SELECT apply_refused('a long unknown op is clipped', 't', 's', '', '22023', 'longlong', 'd');
SELECT bad(2, 'x', 1, '', '2/3');
SELECT apply_refused('an empty op', 't', 's', '', '22023', '', 'd');

-- 22023: options
SELECT bad(2, 'x', 1, 'u', '2/3');
SELECT apply_refused(name || ' of no meaning', 't', 's', format('%s => ''sometimes''', name), '22023', name, 'h')
FROM unnest('{null_op,on_unavailable,snapshot_position,on_tie,on_same_position,on_schema_change,consume}'::text[]) name;
SELECT apply_refused('op_map to no op', 't', 's', 'op_map => ''{"x":"frob"}''', '22023', '"x"', 'h');
SELECT apply_refused('op_map to a number', 't', 's', 'op_map => ''{"x":1}''', '22023', 'op_map');
SELECT apply_refused('op_map is an array', 't', 's', 'op_map => ''["x"]''', '22023', 'op_map');
SELECT apply_refused('expect_events', 't', 's', 'expect_events => 3', '22023', '3', 'd');
SELECT refused('no target', 'SELECT * FROM cdc_apply(NULL, ''s'')', '22023|22004', '');
SELECT refused('no staging, not attached', 'SELECT * FROM cdc_apply(''t'')', '55000|22023', 'staging', 'h');
SELECT apply_refused('target is staging', 't', 't', 'default_op => ''u''', '22023|42809|42703|42P16', '');

-- 23502: keys and positions
SELECT bad(NULL, 'x', 1, 'u', '2/3', 4);
SELECT apply_refused('NULL key', 't', 's', '', '23502', 'id', 'd');
SELECT apply_refused('how many rows have it', 't', 's', '', '23502', '4', '', false);
SELECT bad(NULL, 'x', 1, 'd', '2/3');
SELECT apply_refused('NULL key of a delete', 't', 's', '', '23502', 'id', 'd');
SELECT bad(2, 'x', 1, 'u', NULL, 3);
SELECT apply_refused('NULL position of an upsert', 't', 's', '', '23502', 'position', 'd');
SELECT bad(2, 'x', 1, 'd', NULL);
SELECT apply_refused('NULL position of a delete', 't', 's', '', '23502', 'position', 'd');
SELECT bad(2, 'x', 1, '-U', NULL);
SELECT apply_refused('NULL position of a retraction', 't', 's', '', '23502', 'position', 'd');
SELECT bad(2, 'x', 1, 'u', '0/0:5');
SELECT apply_refused('an LSN of 0/0 is none', 't', 's', '', '23502', 'position', 'd');

-- 21000: a tie
SELECT bad(1, 'x', 1, 'u', '2/2');
SELECT apply_refused('tie', 't', 's', '', '21000', '2/2', 'dh');

-- values that do not fit, as their types say
CREATE TABLE st (id text, v text, n text, op text, source_position cdc_position);
INSERT INTO st VALUES ('1', 'good', '5', 'u', '2/2'), ('2', 'x', 'many', 'u', '2/3');
SELECT apply_refused('bad integer', 't', 'st', '', '22P02', NULL, '', false);
UPDATE st SET n = '3000000000' WHERE id = '2';
SELECT apply_refused('integer out of range', 't', 'st', '', '22003', NULL, '', false);
UPDATE st SET n = '1000' WHERE id = '2';
SELECT apply_refused('CHECK', 't', 'st', '', '23514', NULL, '', false);
UPDATE st SET n = '7', id = 'two' WHERE id = '2';
SELECT apply_refused('bad key', 't', 'st', '', '22P02', NULL, '', false);
-- only values that are written are converted
UPDATE st SET n = 'many', id = '2', source_position = '0/1' WHERE id = 'two';
SELECT apply_is('a stale event is not converted', 't', 'st', '', 'updated=1 stale=1', 't', '(1,good,5,2/2,f) (2,two,2,1/1,f)');
INSERT INTO st VALUES ('2', 'y', '8', 'u', '3/3');
SELECT apply_is('nor a superseded one', 't', 'st', '', 'updated=1 duplicate=1 superseded=1', 't', '(1,good,5,2/2,f) (2,y,8,3/3,f)');
-- the context of a failing value names key, position and column
CREATE FUNCTION context_of(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	context text;
BEGIN
	EXECUTE command;
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
	RETURN split_part(context, E'\nSQL statement', 1);
END $$;
UPDATE st SET n = 'many', source_position = '4/4' WHERE v = 'y';
SELECT expect('context: ' || w, (context_of($$SELECT * FROM cdc_apply('t', 'st')$$) LIKE '%' || w || '%')::text, 'true') FROM unnest(ARRAY['2', '4/4', '"n"']) w;
SELECT context_of($$SELECT * FROM cdc_apply('t', 'st')$$);
-- long values are clipped
UPDATE st SET n = repeat('9', 5000), v = repeat('v', 5000) WHERE v = 'y';
SELECT expect('a short context', (length(context_of($$SELECT * FROM cdc_apply('t', 'st')$$)) < 400)::text, 'true');

-- 42703: columns that are not there
SELECT bad(2, 'x', 1, 'u', '2/3');
SELECT apply_refused(name, 't', 's', format(CASE WHEN name ~ 'columns$' THEN '%s => ''{nowhere}''' ELSE '%s => ''nowhere''' END, name), '42703', 'nowhere')
FROM unnest('{key_columns,position_columns,op_column,delete_flag_column,tombstone_column,old_key_columns,unchanged_column,except_columns}'::text[]) name;
SELECT apply_refused('staging_position', 't', 's', 'staging_position => ''nowhere''', '42703', 'nowhere', '', false);
SELECT apply_refused('staging_filter', 't', 's', 'staging_filter => ''nowhere > 1''', '42703', 'nowhere', '', false);
CREATE VIEW s_no_key AS SELECT v, n, op, source_position FROM s;
SELECT apply_refused('staging lacks the key', 't', 's_no_key', '', '42703', 'id');
CREATE VIEW s_no_op AS SELECT id, v, n, source_position FROM s;
SELECT apply_refused('staging lacks the op', 't', 's_no_op', '', '42703|22023', 'op', 'h');
CREATE VIEW s_no_position AS SELECT id, v, n, op FROM s;
SELECT apply_refused('staging lacks the position', 't', 's_no_position', '', '42703', 'source_position', 'h');
CREATE TABLE t_no_position (id int PRIMARY KEY, v text, n int, deleted boolean);
SELECT apply_refused('target has no position', 't_no_position', 's', '', '42703|55000|42804', 't_no_position', 'h');
CREATE TABLE t_two_positions (id int PRIMARY KEY, v text, n int, source_position cdc_position, other_position cdc_position, deleted boolean);
SELECT apply_refused('target has two', 't_two_positions', 's', '', '42703|22023|42804|55000|42702', 't_two_positions', 'h');
SELECT apply_is('until one is named', 't_two_positions', 's', 'position_columns => ''{source_position}'', except_columns => ''{n}''', 'inserted=2', 't_two_positions', '(1,good,,2/2,,f) (2,x,,2/3,,f)');

-- expressions: one expression over one row
SELECT apply_refused(e, 't', 's', format('staging_filter => %L', e), w, NULL, '', false) FROM (VALUES
	('id > (SELECT 1)', '0A000|22023'), ('count(*) > 1', '42803|22023'), ('generate_series(1, 2) = 1', '0A000|22023'), ('row_number() OVER () = 1', '42P20|22023'),
	('id', '42804'), ('id >', '42601'), ('true; DROP TABLE apply_errors.s', '42601'), ('true) OR (true', '42601'), ('true, false', '42601|22023'),
	('id = 1 UNION SELECT true', '42601|22023'), ('true LIMIT 1', '42601|22023'), ('true FROM apply_errors.s', '42601|22023'), ('true AS x', '42601|22023'),
	('DISTINCT true', '42601|22023'), ('true WHERE true', '42601|22023'), ('true FOR UPDATE', '42601|22023'), ('', '42601|22023'), ('$1 = 1', '42P02|22023'),
	('other.id = 1', '42P01'), ('no_such_function(id)', '42883'), ('s.*', '42804|42601|22023'), ('*', '42804|42601|22023')) v(e, w);
SELECT apply_refused('staging_position of another type', 't', 's', 'staging_position => ''v''', '42804', NULL, '', false);
SELECT apply_refused('staging_position of two values', 't', 's', 'staging_position => ''source_position, source_position''', '42601|22023', NULL, '', false);

-- 42804: positions that cannot order a log
CREATE FUNCTION position_of(type text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('DROP TABLE IF EXISTS tp, sp; CREATE TABLE tp (id int PRIMARY KEY, pos %s, deleted boolean); CREATE TABLE sp (id int, op text, pos %1$s)', type);
END $$;
SET client_min_messages = warning;
CREATE FUNCTION position_refused(type text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM position_of(type);
	RETURN apply_refused('positions of type ' || type, 'tp', 'sp', 'position_columns => ''{pos}''', '42804', 'pos', 'dh');
END $$;
SELECT apply_refused('a position that is a text', 't', 's', 'staging_position => ''op''', '42804', 'staging_position', 'dh');
SELECT position_refused(type) FROM unnest('{text,varchar(20),timestamp,timestamptz,date,real,double precision}'::text[]) type;
SELECT position_refused(type) FROM unnest('{boolean,uuid,bytea}'::text[]) type;
RESET client_min_messages;
-- mixed kinds
SELECT bad(2, 'x', 1, 'u', '47:3');
SELECT apply_refused('both kinds in a batch', 't', 's', '', '42804', '', 'h');
DELETE FROM s WHERE id = 1;
SELECT apply_refused('another kind than the row''s', 't', 's', '', '42804', '', 'h');
UPDATE s SET op = 'd';
SELECT apply_refused('a delete of another kind', 't', 's', '', '42804', '', 'h');
UPDATE s SET op = 'r';
SELECT apply_refused('a snapshot row of another kind', 't', 's', 'snapshot_position => ''event''', '42804', '', 'h');

-- 55000: keys
CREATE FUNCTION key_refused(what text, ddl text, args text DEFAULT '', state text DEFAULT '55000') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'DROP TABLE IF EXISTS tk; CREATE TABLE tk (id int, v text, n int, source_position cdc_position, deleted boolean)';
	EXECUTE ddl;
	RETURN apply_refused(what, 'tk', 's', args, state, 'tk', 'h');
END $$;
SET client_min_messages = warning;
SELECT bad(2, 'x', 1, 'u', '2/3');
SELECT key_refused('no primary key', 'SELECT 1');
SELECT key_refused('no unique index on the key', 'CREATE INDEX ON tk (id)', 'key_columns => ''{id}''');
SELECT key_refused('a partial index', 'CREATE UNIQUE INDEX ON tk (id) WHERE n > 0', 'key_columns => ''{id}''');
SELECT key_refused('an index on an expression', 'CREATE UNIQUE INDEX ON tk (abs(id))', 'key_columns => ''{id}''');
SELECT key_refused('an index on more columns', 'CREATE UNIQUE INDEX ON tk (id, v)', 'key_columns => ''{id}''');
SELECT key_refused('an index on fewer columns', 'CREATE UNIQUE INDEX ON tk (id)', 'key_columns => ''{id,v}''');
SELECT key_refused('a deferrable primary key', 'ALTER TABLE tk ADD PRIMARY KEY (id) DEFERRABLE');
SELECT key_refused('a deferrable unique constraint', 'ALTER TABLE tk ADD UNIQUE (id) DEFERRABLE INITIALLY DEFERRED', 'key_columns => ''{id}''');
SELECT apply_refused('the reason is said', 'tk', 's', '', '55000', 'deferrable', 'h', false) FROM key_refused('again', 'ALTER TABLE tk ADD PRIMARY KEY (id) DEFERRABLE');
SELECT apply_refused('the hint is the statement', 'tk', 's', 'key_columns => ''{v}''', '55000', 'CREATE UNIQUE INDEX', 'h');
SELECT apply_refused('a key column twice', 't', 's', 'key_columns => ''{id,id}''', '42701|22023|55000', 'id');
SELECT apply_refused('no key column', 't', 's', 'key_columns => ''{}''', '22023', 'key_columns');
SELECT apply_refused('the position as key', 't', 's', 'key_columns => ''{source_position}''', '55000|22023', 'source_position');
-- 55000: no home for tombstones
CREATE TABLE th (id int PRIMARY KEY, v text, n int, source_position cdc_position);
SELECT apply_refused('no tombstone home', 'th', 's', '', '55000', 'th', 'h');
CREATE TABLE tw (id int PRIMARY KEY, v text, n int, source_position cdc_position, deleted text, gone int);
SELECT apply_refused('a tombstone column of type text', 'tw', 's', '', '42804|55000', 'deleted');
SELECT apply_refused('a tombstone column of type int', 'tw', 's', 'tombstone_column => ''gone''', '42804|55000', 'gone');
RESET client_min_messages;

-- 42809: relations that are no target
CREATE VIEW tv AS SELECT * FROM t;
CREATE MATERIALIZED VIEW tm AS SELECT * FROM t;
CREATE FOREIGN DATA WRAPPER apply_errors_wrapper;
CREATE SERVER apply_errors_server FOREIGN DATA WRAPPER apply_errors_wrapper;
CREATE FOREIGN TABLE tf (id int, v text, n int, source_position cdc_position, deleted boolean) SERVER apply_errors_server;
CREATE SEQUENCE tq;
CREATE TABLE parent (LIKE t INCLUDING ALL);
CREATE TABLE child () INHERITS (parent);
CREATE TYPE composite AS (id int);
SELECT apply_refused(k, r, 's', '', '42809', r) FROM (VALUES ('a view', 'tv'), ('a materialized view', 'tm'), ('an inheritance parent', 'parent')) v(k, r);
SELECT refused('a foreign table', 'SELECT * FROM cdc_apply(''tf'', ''s'')', '42809', 'tf');
SELECT refused('a sequence', 'SELECT * FROM cdc_apply(''tq'', ''s'')', '42809', 'tq');
SELECT refused('an index', 'SELECT * FROM cdc_apply(''t_pkey'', ''s'')', '42809', 't_pkey');
SELECT refused('a composite type', 'SELECT * FROM cdc_apply(''composite'', ''s'')', '42809', 'composite');
SELECT refused('a system catalog', 'SELECT * FROM cdc_apply(''pg_class'', ''s'')', '42809|42501|42703|55000', 'pg_class');
SELECT refused('a staging that is none', 'SELECT * FROM cdc_apply(''t'', ''tq'')', '42809|42703', '');
SELECT refused('a relation that is not there', 'SELECT * FROM cdc_apply(''nowhere'', ''s'')', '42P01', NULL, '', false);
SELECT refused('an oid of nothing', 'SELECT * FROM cdc_apply(1::oid::regclass, ''s'')', '42P01', '');

-- 0A000: row level security in force on the target; on staging it is honoured
CREATE ROLE regress_apply_user;
GRANT USAGE ON SCHEMA apply_errors TO regress_apply_user;
GRANT ALL ON ALL TABLES IN SCHEMA apply_errors TO regress_apply_user;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
SET ROLE regress_apply_user;
SELECT apply_refused('row level security', 't', 's', '', '0A000', '"apply_errors.t"');
RESET ROLE;
SELECT expect('not in force for the owner', applied('t', 's', 'dry_run => true'), 'stale=1 duplicate=1');
ALTER TABLE t FORCE ROW LEVEL SECURITY;
ALTER TABLE t DISABLE ROW LEVEL SECURITY;
ALTER TABLE s ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON s USING (id = 2);
SET ROLE regress_apply_user;
SELECT expect('a policy on staging hides an event', applied('t', 's', 'dry_run => true'), 'stale=1');
RESET ROLE;
ALTER TABLE s DISABLE ROW LEVEL SECURITY;
SELECT expect('the owner sees both', applied('t', 's', 'dry_run => true'), 'stale=1 duplicate=1');

-- a column like the tombstone column that nobody named
ALTER TABLE s ADD deleted boolean;
SELECT apply_refused('staging has "deleted" too', 't', 's', '', '22023|55000|42701|42702', 'deleted', 'h');
SELECT expect('named', applied('t', 's', 'tombstone_column => ''deleted''') ~ 'stale=1' || '', 'true');
ALTER TABLE s DROP deleted;

-- read-only transactions
BEGIN READ ONLY;
SELECT refused('read-only transaction', 'SELECT * FROM cdc_apply(''t'', ''s'')', '25006', NULL, '', false);
ROLLBACK;

-- what was refused once does not stick: the same session goes on
SELECT bad(3, 'fine', 1, 'c', '5/5');
SELECT expect('all is well', applied('t', 's') ~ 'inserted=1' || '', 'true');

SET client_min_messages = warning;
DROP OWNED BY regress_apply_user;
DROP ROLE regress_apply_user;
DROP SERVER apply_errors_server CASCADE;
DROP FOREIGN DATA WRAPPER apply_errors_wrapper;
DROP SCHEMA apply_errors CASCADE;
