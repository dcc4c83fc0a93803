-- What cdc_attach and calls on an attached target refuse, and how it is said.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA attach_refused;
SET search_path = attach_refused, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
-- a refused attach leaves neither column nor side table nor row
CREATE FUNCTION attach_refused(what text, target text, args text, want_state text, names text DEFAULT NULL, needs text DEFAULT '', show boolean DEFAULT true) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	look text := 'SELECT (SELECT string_agg(attname || attnum, '' '' ORDER BY attrelid, attnum) FROM pg_attribute JOIN pg_class c ON attrelid = c.oid WHERE relnamespace = ''attach_refused''::regnamespace)
		|| (SELECT count(*) FROM cdc_targets)';
	before text; after text; result text;
BEGIN
	EXECUTE look INTO before;
	result := refused(what, format('SELECT cdc_attach(%L%s)', target, CASE WHEN args <> '' THEN ', ' || args ELSE '' END), want_state, names, needs, show);
	EXECUTE look INTO after;
	RETURN result || CASE WHEN before = after THEN '' ELSE E'\nNOT OK | ' || what || ': something was left' END;
END $$;
CREATE TABLE e (op text, id int, v text, source_position cdc_position);

--
-- Who may
--
CREATE ROLE regress_cdc_attach_refused;
GRANT USAGE ON SCHEMA attach_refused TO regress_cdc_attach_refused;
CREATE TABLE t (id int PRIMARY KEY, v text);
GRANT ALL ON t, e TO regress_cdc_attach_refused;
SET ROLE regress_cdc_attach_refused;
SELECT refused('not the owner', $$SELECT cdc_attach('t', 'e')$$, '42501', 't', '');
RESET ROLE;
SELECT cdc_attach('t', 'e');
SET ROLE regress_cdc_attach_refused;
SELECT refused('not the owner: again', $$SELECT cdc_attach('t', on_tie => 'upsert')$$, '42501', 't');
SELECT refused('not the owner: detach', $$SELECT cdc_detach('t')$$, '42501', 't');
RESET ROLE;
-- an owner who may not create in the schema cannot have a side table there, but a flag
CREATE TABLE theirs (id int PRIMARY KEY, v text);
ALTER TABLE theirs OWNER TO regress_cdc_attach_refused;
SET ROLE regress_cdc_attach_refused;
SELECT refused('no CREATE in the schema', $$SELECT cdc_attach('theirs', 'e')$$, '42501', 'attach_refused');
SELECT cdc_attach('theirs', 'e', tombstones => 'row');
RESET ROLE;

--
-- What kind of relation
--
CREATE VIEW a_view AS SELECT 1 AS id, 'x' AS v;
CREATE MATERIALIZED VIEW a_matview AS SELECT 1 AS id, 'x' AS v;
CREATE SEQUENCE a_sequence;
CREATE FOREIGN DATA WRAPPER attach_refused_fdw;
CREATE SERVER attach_refused_server FOREIGN DATA WRAPPER attach_refused_fdw;
CREATE FOREIGN TABLE a_foreign (id int, v text) SERVER attach_refused_server;
CREATE TABLE a_parent (id int PRIMARY KEY, v text);
CREATE TABLE a_child (PRIMARY KEY (id)) INHERITS (a_parent);
SELECT attach_refused(r, r, '''e''', '42809', r) FROM unnest('{a_view,a_matview,a_sequence,a_foreign,a_parent}'::text[]) r;
SELECT attach_refused('a catalog', 'pg_catalog.pg_class', '''e''', '42501|42809|55000', 'pg_class');
SELECT attach_refused('a table of the extension', 'cdc_target_rule', '''e''', '42809', 'cdc_target_rule');
SELECT attach_refused('an index', 'a_parent_pkey', '''e''', '42809', 'a_parent_pkey');
SELECT refused('nothing', $$SELECT cdc_attach(NULL, 'e')$$, '22023|22004', 'target');
SELECT attach_refused('a staging of no OID', 't', '0', '42P01');
SELECT attach_refused('a staging that is no relation to read', 't', '''a_sequence''', '42809', 'a_sequence');
SELECT attach_refused('itself', 't', '''t''', '22023|42809', 't');

--
-- The key
--
CREATE TABLE keyless (id int NOT NULL, b int, v text, "Odd col" int NOT NULL);
SELECT attach_refused('no key', 'keyless', '''e''', '55000|22023', 'keyless', 'h');
SELECT attach_refused('no unique index', 'keyless', '''e'', key_columns => ''{id,"Odd col"}''', '55000', 'CREATE UNIQUE INDEX CONCURRENTLY', 'h');
CREATE UNIQUE INDEX keyless_partial ON keyless (id) WHERE v IS NOT NULL;
CREATE UNIQUE INDEX keyless_expr ON keyless ((id + 1));
CREATE INDEX keyless_plain ON keyless (id);
CREATE UNIQUE INDEX keyless_wider ON keyless (id, b);
SELECT attach_refused('none of these', 'keyless', '''e'', key_columns => ''{id}''', '55000', 'CREATE UNIQUE INDEX CONCURRENTLY', 'h');
-- the hint is a command that works
CREATE FUNCTION hint_of(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE command;
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN substring(hint FROM 'CREATE UNIQUE INDEX [^;]*');
END $$;
SELECT hint_of($$SELECT cdc_attach('keyless', 'e', key_columns => '{id,"Odd col"}')$$) \gexec
SELECT cdc_attach('keyless', 'e', key_columns => '{id,"Odd col"}');
SELECT expect('by the index of the hint', key_columns::text, '{id,"Odd col"}') FROM cdc_targets WHERE target = 'keyless'::regclass;
-- also for a partitioned table, which cannot have one concurrently
CREATE TABLE keyless_parts (id int NOT NULL, v text) PARTITION BY RANGE (id);
CREATE TABLE keyless_part PARTITION OF keyless_parts DEFAULT;
SELECT hint_of($$SELECT cdc_attach('keyless_parts', 'e', key_columns => '{id}')$$) \gexec
SELECT cdc_attach('keyless_parts', 'e', key_columns => '{id}');
CREATE TABLE deferred (id int PRIMARY KEY DEFERRABLE, v text);
SELECT attach_refused('deferrable', 'deferred', '''e''', '55000', 'deferred', 'h');
CREATE TABLE clash (source_position int PRIMARY KEY, v text);
CREATE TABLE clash2 (deleted_at int PRIMARY KEY, v text);
SELECT attach_refused('a key column named like the side table''s', 'clash', '''e'', position_columns => ''{pos}''', '55000|22023|42701', 'source_position', 'h');
SELECT attach_refused('and the other', 'clash2', '''e''', '55000|22023|42701', 'deleted_at', 'h');
CREATE TABLE e2 (op text, deleted_at int, v text, source_position cdc_position);
SELECT cdc_attach('clash2', 'e2', tombstones => 'row');
SELECT expect('which the row home takes', home, 'row') FROM cdc_targets WHERE target = 'clash2'::regclass;

--
-- Columns in the way, columns that are not there
--
CREATE TABLE wrong_position (id int PRIMARY KEY, source_position text);
SELECT attach_refused('source_position of another type', 'wrong_position', '''e''', '42804|42701', 'source_position', 'h');
CREATE TABLE wrong_deleted (id int PRIMARY KEY, deleted text);
SELECT attach_refused('deleted of another type', 'wrong_deleted', '''e'', tombstones => ''row''', '42804|42701', 'deleted', 'd');
CREATE TABLE two_positions (id int PRIMARY KEY, p cdc_position, q cdc_position);
SELECT attach_refused('two positions', 'two_positions', '''e''', '42703|22023|42804|55000|42702', 'two_positions', 'h');
CREATE TABLE t2 (id int PRIMARY KEY, v text);
SELECT attach_refused('a position in two columns, not there', 't2', '''e'', position_columns => ''{a,b}''', '42703', 'a');
SELECT attach_refused('of a type that does not order', 'wrong_position', '''e'', position_columns => ''{source_position}''', '42804', 'source_position', 'h');
SELECT attach_refused('a key column', 't2', '''e'', key_columns => ''{nowhere}''', '42703', 'nowhere');
SELECT attach_refused('a rule that names no column of staging', 't2', '''e'', ' || o, '42703', 'nowhere', '', false)
FROM unnest(ARRAY['op_column => ''nowhere''', 'delete_flag_column => ''nowhere''', 'unchanged_column => ''nowhere''', 'except_columns => ''{nowhere}''',
	'old_key_columns => ''{nowhere}''', 'staging_position => ''nowhere''', 'staging_filter => ''nowhere = 1''']) o;
SELECT attach_refused(o || ' of no meaning', 't2', '''e'', ' || o || ' => ''sometimes''', '22023', o, 'h', false)
FROM unnest('{null_op,on_unavailable,snapshot_position,on_tie,on_same_position,on_schema_change,consume,tombstones,guard}'::text[]) o;
SELECT attach_refused('a side table and a flag', 't2', '''e'', tombstones => ''table'', tombstone_column => ''v''', '22023', 'tombstone');
SELECT attach_refused('an expression that is none', 't2', '''e'', staging_filter => ''true; DROP TABLE e''', '42601|22023', NULL, '', false);
SELECT attach_refused('op_map to no op', 't2', '''e'', op_map => ''{"x":"frob"}''', '22023', '"x"', 'h');
SELECT attach_refused('as_of without a position', 't2', '''e'', as_of => ''0/0''', '22023', 'as_of');

--
-- One log a table: partitions and their ancestors
--
CREATE TABLE p (id int, r text, v text, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE p_a PARTITION OF p FOR VALUES IN ('a');
CREATE TABLE p_bc PARTITION OF p FOR VALUES IN ('b', 'c') PARTITION BY LIST (r);
CREATE TABLE p_b PARTITION OF p_bc FOR VALUES IN ('b');
CREATE TABLE pe (op text, id int, r text, v text, source_position cdc_position);
-- each leaf its own log
ALTER TABLE p ADD source_position cdc_position, ADD gone boolean NOT NULL DEFAULT false;
SELECT cdc_attach('p_a', 'pe', lineage => 'log a');
SELECT cdc_attach('p_b', 'pe', lineage => 'log b');
INSERT INTO pe VALUES ('c', 1, 'a', 'x', '1/1'), ('d', 2, 'a', NULL, '1/1');
SELECT expect('a leaf by itself', counts(r) || ' ' || stands('p_a'), 'inserted=1 deleted=1 1,a=x,false@1/1 2,a dead@1/1') FROM cdc_apply('p_a') r;
TRUNCATE pe;
INSERT INTO pe VALUES ('c', 1, 'b', 'y', '900');
SELECT expect('another leaf, another kind of log', counts(r) || ' ' || stands('p_b'), 'inserted=1 1,b=y,false@900') FROM cdc_apply('p_b') r;
SELECT attach_refused('the ancestor of an attached partition', 'p', '''pe''', '55000', 'p_a', 'h');
SELECT attach_refused('and the one between', 'p_bc', '''pe''', '55000', 'p_b', 'h');
SELECT refused('nor apply to it, past the tombstones of its partitions', $$SELECT * FROM cdc_apply('p', 'pe', tombstone_column => 'gone')$$, '55000', 'p_', 'h');
CREATE TABLE q (id int, r text, v text, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE q_a PARTITION OF q FOR VALUES IN ('a') PARTITION BY LIST (r);
CREATE TABLE q_a1 PARTITION OF q_a FOR VALUES IN ('a');
SELECT cdc_attach('q', 'pe');
SELECT attach_refused('a partition of an attached table', 'q_a1', '''pe''', '55000', 'q', 'h');
SELECT refused('nor apply to it', $$SELECT * FROM cdc_apply('q_a', 'pe')$$, '55000', 'q', 'h');
-- attaching by DDL later: the call finds out
CREATE TABLE q_b (id int NOT NULL, r text NOT NULL, v text, source_position cdc_position, PRIMARY KEY (id, r));
SELECT cdc_attach('q_b', 'pe');
ALTER TABLE q ATTACH PARTITION q_b FOR VALUES IN ('b');
SELECT refused('a partition that came attached', $$SELECT * FROM cdc_apply('q_b', 'pe')$$, '55000', 'q', 'h');

-- a partition has the columns of its parent, which is told
CREATE TABLE lp (id int, r text, v text, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE lp_a PARTITION OF lp FOR VALUES IN ('a');
SELECT attach_refused('a partition without a position', 'lp_a', '''pe''', '42809|55000', 'source_position', 'h');
ALTER TABLE lp ADD source_position cdc_position;
SELECT attach_refused('a partition without a flag', 'lp_a', '''pe'', tombstones => ''row''', '42809|55000', 'deleted', 'h');

--
-- What does not change by a repeat
--
CREATE TABLE fixed (id int PRIMARY KEY, code int NOT NULL UNIQUE, v text, other cdc_position, flag boolean);
SELECT cdc_attach('fixed', 'e', position_columns => '{other}', staging_position => 'source_position', lineage => 'x', epoch => 3);
SELECT attach_refused('another key', 'fixed', 'key_columns => ''{code}''', '22023', 'key', 'h');
SELECT attach_refused('another position', 'fixed', 'position_columns => ''{source_position}''', '22023', 'position', 'h');
SELECT attach_refused('another home', 'fixed', 'tombstones => ''row''', '22023', 'tombstone', 'h');
SELECT attach_refused('a flag', 'fixed', 'tombstone_column => ''flag''', '22023', 'tombstone', 'h');
SELECT attach_refused('another lineage', 'fixed', 'lineage => ''y''', '55000|22023', 'cdc_new_epoch', 'h');
SELECT attach_refused('another epoch', 'fixed', 'epoch => 4', '55000|22023', 'cdc_new_epoch', 'h');
SELECT cdc_attach('fixed', key_columns => '{id}', position_columns => '{other}', tombstones => 'table', lineage => 'x', epoch => 3);
CREATE TABLE fixed_row (id int PRIMARY KEY, v text, flag boolean, gone boolean);
SELECT cdc_attach('fixed_row', 'e', tombstone_column => 'flag');
SELECT attach_refused('the other home', 'fixed_row', 'tombstones => ''table''', '22023', 'tombstone', 'h');
SELECT attach_refused('another flag', 'fixed_row', 'tombstone_column => ''gone''', '22023', 'tombstone', 'h');
-- nor by a call
CREATE TABLE ef (op text, id int, code int, v text, source_position cdc_position, other cdc_position);
SELECT apply_refused('another key', 'fixed', 'e', 'key_columns => ''{code}'', lineage => ''x''', '22023', 'key', 'h');
SELECT apply_refused('another position', 'fixed', 'e', 'position_columns => ''{source_position}'', lineage => ''x''', '22023', 'position', 'h');
SELECT apply_refused('a flag', 'fixed', 'e', 'tombstone_column => ''flag'', lineage => ''x''', '22023', 'tombstone', 'h');
SELECT apply_refused('another flag', 'fixed_row', 'e', 'tombstone_column => ''gone''', '22023', 'tombstone', 'h');
INSERT INTO e VALUES ('c', 1, 'a', '1/1');
SELECT expect('what is attached may be said', counts(r), 'inserted=1') FROM cdc_apply('fixed_row', 'e', tombstone_column => 'flag', key_columns => '{id}', position_columns => '{source_position}') r;

--
-- A side table that was changed by hand
--
CREATE TABLE bent (id int PRIMARY KEY, v text);
SELECT cdc_attach('bent', 'e');
-- the hint's own command mends it
CREATE FUNCTION fix_of(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE command;
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN substring(hint FROM '(?:ALTER|CREATE) [^;]*');
END $$;
ALTER TABLE bent ALTER id TYPE bigint;
SELECT apply_refused('the key has another type', 'bent', 'e', '', '55000', 'bent_tombstones', 'h');
SELECT fix_of($$SELECT cdc_apply('bent', 'e')$$) \gexec
SELECT expect('mended', counts(r), 'inserted=1') FROM cdc_apply('bent', 'e') r;
DROP INDEX bent_tombstones_key;
SELECT apply_refused('no index', 'bent', 'e', '', '55000', 'bent_tombstones', 'h');
CREATE UNIQUE INDEX ON bent_tombstones (id);
SELECT expect('mended', counts(r), 'duplicate=1') FROM cdc_apply('bent', 'e') r;
ALTER TABLE bent_tombstones DROP source_position;
SELECT apply_refused('no position', 'bent', 'e', '', '55000', 'bent_tombstones', 'h');
ALTER TABLE bent_tombstones ADD source_position cdc_position;
SELECT expect('there again', counts(r), 'duplicate=1') FROM cdc_apply('bent', 'e') r;
-- triggers on it are nobody's
CREATE FUNCTION no_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'a trigger of the side table fired'; END $$;
CREATE TRIGGER r BEFORE INSERT OR UPDATE OR DELETE ON bent_tombstones FOR EACH ROW EXECUTE FUNCTION no_trigger();
CREATE TRIGGER s AFTER INSERT OR UPDATE OR DELETE ON bent_tombstones FOR EACH STATEMENT EXECUTE FUNCTION no_trigger();
CREATE TABLE bent_event (op text, id int, v text, source_position cdc_position);
INSERT INTO bent_event VALUES ('d', 1, NULL, '1/2'), ('d', 2, NULL, '1/2'), ('d', 3, NULL, '1/2');
SELECT expect('tombstones come', counts(r), 'deleted=3') FROM cdc_apply('bent', 'bent_event') r;
TRUNCATE bent_event;
INSERT INTO bent_event VALUES ('d', 1, NULL, '1/3'), ('c', 2, 'b', '1/3'), ('t', NULL, NULL, '1/2');
SELECT expect('move, go', counts(r), 'inserted=1 deleted=1 truncated=1') FROM cdc_apply('bent', 'bent_event') r;
SELECT expect('are purged', cdc_purge_tombstones('bent', '1/2')::text, '1');

--
-- A column that stopped being fed
--
CREATE TABLE fed (id int PRIMARY KEY, a text, b text, c text DEFAULT 'derived');
CREATE TABLE fed_event (op text, id int, a text, b text, source_position cdc_position);
SELECT cdc_attach('fed', 'fed_event');
INSERT INTO fed_event VALUES ('c', 1, 'a', 'b', '1/1');
SELECT expect('fed', counts(r), 'inserted=1') FROM cdc_apply('fed') r;
ALTER TABLE fed_event DROP b;
INSERT INTO fed_event VALUES ('u', 1, 'a2', '1/2');
SELECT apply_refused('no longer fed: ' || o, 'fed', 'fed_event', format('on_schema_change => %L', o), '42703', 'b', 'h', o = 'warn') FROM unnest('{warn,fail}'::text[]) o;
SELECT apply_refused('also when staging is not named', 'fed', 'fed_event', '', '42703', 'b', 'h', false);
SELECT expect('ignored', counts(r) || ' ' || rows_of('fed'), 'updated=1 superseded=1 (1,a2,b,derived,1/2)') FROM cdc_apply('fed', on_schema_change => 'ignore') r;
CREATE TABLE fed_other (op text, id int, b text, source_position cdc_position);
INSERT INTO fed_other VALUES ('u', 1, 'b3', '1/3');
SELECT expect('another staging may feed less', counts(r), 'updated=1') FROM cdc_apply('fed', 'fed_other') r;
ALTER TABLE fed RENAME b TO bb;
SELECT apply_refused('the column was renamed', 'fed', 'fed_event', '', '42703', 'bb', 'h', false);
SELECT cdc_attach('fed', 'fed_event');
SELECT expect('forgotten by naming staging again', counts(r), 'stale=1 superseded=1') FROM cdc_apply('fed') r;
ALTER TABLE fed DROP a;
SELECT expect('a column that the target lost asks for nothing', counts(r), 'stale=1 superseded=1') FROM cdc_apply('fed', except_columns => '{a}') r;

SET client_min_messages = warning;
DROP SERVER attach_refused_server CASCADE;
DROP FOREIGN DATA WRAPPER attach_refused_fdw;
DROP SCHEMA attach_refused CASCADE;
DROP ROLE regress_cdc_attach_refused;
