-- cdc_check: each trap is planted and found by its check, and a clean pair has
-- none.  cdc_exposed: tables that look fed and are not attached.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA "check it";
SET search_path = "check it", public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

CREATE FUNCTION bad(target regclass DEFAULT NULL, staging regclass DEFAULT NULL) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT concat_ws(' | ', check_name, detail, hint) FROM cdc_check(target, staging) WHERE NOT ok
$$;
CREATE FUNCTION trap(name text, target regclass, staging regclass DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT expect(name, string_agg(check_name, ' ' ORDER BY check_name COLLATE "C"), name)
		|| coalesce(E'\n    ' || min(detail) FILTER (WHERE check_name = name), '') || coalesce(E'\n    ' || min(c.hint) FILTER (WHERE check_name = name), '')
	FROM cdc_check(target, staging) c WHERE NOT ok
$$;

-- a clean pair, whose staging has something of everything
CREATE TABLE t (id int PRIMARY KEY, v text, n int, derived int);
CREATE TABLE s (op text, id int, v text, n text, source_position cdc_position);
SELECT cdc_attach('t', 's', guard => 'error');
INSERT INTO s VALUES ('c', 1, 'a', '1', '0/10'), ('u', 1, 'b', '2', '0/20'), ('d', 2, NULL, NULL, '0/30'), ('r', 3, 'a', '3', '0/5'), ('m', NULL, NULL, NULL, '0/40');
BEGIN READ ONLY;
SELECT check_name, ok, detail, hint FROM cdc_check('t');
COMMIT;
SELECT count(*) FROM s;

--
-- What an apply is refused for as a whole
--
SELECT trap('target', 0);
CREATE TABLE x (id int, v text, source_position cdc_position, deleted boolean);
SELECT bad('x', 's');
ALTER TABLE x ADD PRIMARY KEY (id);
ALTER TABLE x ALTER source_position TYPE text;
SELECT bad('x', 's');
ALTER TABLE x DROP source_position;
SELECT bad('x', 's');
ALTER TABLE x ADD source_position cdc_position, DROP deleted;
SELECT bad('x', 's');
SELECT cdc_attach('x', guard => 'skip');
SELECT trap('staging', 'x');
CREATE TABLE nopos (op text, id int, v text);
SELECT trap('staging_position', 'x', 'nopos');
ALTER TABLE nopos ADD source_position timestamptz;
SELECT trap('staging_position', 'x', 'nopos');
CREATE TABLE noop (id int, v text, source_position cdc_position);
SELECT trap('staging_columns', 'x', 'noop');
SELECT cdc_attach('x', 's', except_columns => '{n}', lineage => 'one');
CREATE TABLE s2 (LIKE s);
SELECT trap('staging', 'x', 's2');
CREATE VIEW gone AS SELECT * FROM s;
SELECT cdc_attach('x', 'gone');
DROP VIEW gone;
SELECT trap('staging', 'x');
SELECT expect('the target is looked at all the same', count(*)::text, '1') FROM cdc_check('x') WHERE check_name = 'rows_without_position';

--
-- Columns on one side only
--
ALTER TABLE s ADD more text;
SELECT trap('staging_only_columns', 't');
ALTER TABLE s DROP more;
SELECT applied('t', 's');
SELECT cdc_attach('t', as_of => '0/1');
ALTER TABLE s RENAME v TO w;
SELECT bad('t');
ALTER TABLE s RENAME w TO v;
SELECT bad('t');

--
-- The data
--
SELECT cdc_set_floor('t', NULL);
SELECT trap('rows_without_position', 't');
DELETE FROM s WHERE op = 'r';
SET cdc_precedence.bypass_guard = on;
DELETE FROM t WHERE id = 3;
INSERT INTO t VALUES (2, 'back', 1, NULL, '0/25');
SELECT trap('rows_resurrected', 't');
DELETE FROM t WHERE id = 2;
INSERT INTO s VALUES ('u', 1, 'c', '1', NULL);
SELECT trap('events_without_position', 't');
DELETE FROM s WHERE source_position IS NULL;
INSERT INTO s VALUES ('u', 1, 'one', '1', '0/50'), ('u', 1, 'two', '1', '0/50');
SELECT trap('events_tied', 't');
SELECT cdc_attach('t', on_tie => 'upsert');
SELECT trap('events_tied', 't');
DELETE FROM s WHERE v = 'two';
INSERT INTO s VALUES ('u', 1, 'x', 'many', '0/60'), ('?', 1, 'x', '1', '0/70');
SELECT trap('events_refused', 't');
DELETE FROM s WHERE source_position >= '0/60';
SELECT cdc_set_fence('t', '0/10');
SELECT trap('fence', 't');
SELECT cdc_set_fence('t', NULL), cdc_set_floor('t', '0/15');
SELECT trap('floor', 't');
SELECT cdc_set_floor('t', NULL);
SELECT cdc_attach('t', snapshot_position => 'event');
INSERT INTO s VALUES ('r', 4, 'x', '1', '0/60');
SELECT trap('record_positions', 't');
SELECT cdc_attach('t', snapshot_position => 'none');
DELETE FROM s WHERE op = 'r';

-- a filter on columns that a delete does not carry; one that is false leaves out what it means to
CREATE TABLE f (id int PRIMARY KEY, v text);
CREATE TABLE fs (op text, id int, v text, source_position cdc_position, test boolean, gone text);
SELECT cdc_attach('f', 'fs', staging_filter => 'NOT test', delete_flag_column => 'gone', op_map => '{"X": "delete"}', guard => 'error', except_columns => '{test}');
INSERT INTO fs VALUES ('d', 11, NULL, '0/61', NULL, NULL), ('X', 12, NULL, '0/62', NULL, NULL), ('u', 13, NULL, '0/63', NULL, 't'), ('d', 14, NULL, '0/64', true, NULL), ('d', 15, NULL, '0/65', false, NULL), ('u', 16, 'a', '0/66', NULL, NULL);
SELECT trap('deletes_filtered', 'f');
SELECT expect('counted by hand', split_part(detail, ' ', 1), (SELECT count(*)::text FROM fs WHERE test IS NULL AND (op IN ('d', 'X') OR gone::boolean))) FROM cdc_check('f') WHERE check_name = 'deletes_filtered';
SELECT cdc_attach('f', staging_filter => 'test IS NOT TRUE');
SELECT expect('NULL is let through', bool_and(ok)::text, 'true') FROM cdc_check('f') WHERE check_name = 'deletes_filtered';
-- a question that cannot be answered has no hint of an answer's
CREATE VIEW fv AS SELECT op, id / (id - 12) AS id, v, source_position, test, gone FROM fs;
SELECT cdc_attach('f', 'fv', staging_filter => 'NOT test');
SELECT detail, hint FROM cdc_check('f') WHERE check_name IN ('deletes_filtered', 'rows_resurrected');
DROP TABLE f, fs CASCADE;

-- two targets on one staging, of which one takes rows out
CREATE TABLE both_events (op text, id int, v text, source_position cdc_position);
CREATE TABLE one (id int PRIMARY KEY, v text);
CREATE TABLE other (id int PRIMARY KEY, v text);
SELECT cdc_attach('one', 'both_events', guard => 'error'), cdc_attach('other', 'both_events', guard => 'error');
SELECT expect('both keep', bool_and(ok)::text, 'true') FROM cdc_check('one') WHERE check_name = 'staging_shared';
SELECT cdc_attach('other', consume => 'truncate');
SELECT trap('staging_shared', 'one');
SELECT expect('seen from the other', bool_or(ok)::text, 'false') FROM cdc_check('other') WHERE check_name = 'staging_shared';
INSERT INTO both_events VALUES ('c', 1, 'a', '0/10');
SELECT inserted FROM cdc_apply('other');
SELECT inserted FROM cdc_apply('one');
SELECT cdc_attach('other', consume => 'delete');
SELECT trap('staging_shared', 'one');
SELECT cdc_attach('other', consume => 'delete', staging_filter => 'id % 2 = 0');
SELECT trap('staging_shared', 'one');
SELECT cdc_attach('one', consume => 'delete', staging_filter => 'id % 2 = 1');
SELECT expect('each its own', bool_and(ok)::text, 'true') FROM cdc_check('one') WHERE check_name = 'staging_shared';
DROP TABLE one, other, both_events CASCADE;

--
-- What stands around the target
--
SELECT cdc_attach('t', guard => 'off');
SELECT trap('guard', 't');
CREATE TABLE parent (id int PRIMARY KEY);
INSERT INTO parent SELECT generate_series(1, 9);
ALTER TABLE t ADD CONSTRAINT casc FOREIGN KEY (id) REFERENCES parent ON DELETE CASCADE DEFERRABLE;
SELECT cdc_attach('t', guard => 'error');
SELECT trap('foreign_keys_cascade', 't');
ALTER TABLE t DROP CONSTRAINT casc, ADD CONSTRAINT plain FOREIGN KEY (id) REFERENCES parent;
SELECT trap('foreign_keys_order', 't');
ALTER TABLE t DROP CONSTRAINT plain;
CREATE TABLE child (id int, CONSTRAINT plain FOREIGN KEY (id) REFERENCES t);
SELECT trap('foreign_keys_order', 't');
DROP TABLE child;
CREATE TABLE r (id int PRIMARY KEY, v text);
SELECT cdc_attach('r', 's', tombstones => 'row', guard => 'error', live_view => 'r_live', except_columns => '{n}');
SELECT bad('r');
CREATE VIEW seen AS SELECT id FROM r;
CREATE VIEW filtered AS SELECT id FROM r WHERE NOT deleted;
SELECT trap('dependents', 'r');
DROP VIEW seen;
-- a pair that is not attached
CREATE TABLE u (id int PRIMARY KEY, v text, n int, source_position cdc_position, deleted boolean);
SELECT trap('attached', 'u', 's');
-- all attached ones that the caller may read, each by its name
SELECT DISTINCT split_part(detail, ':', 1) FROM cdc_check() ORDER BY 1;
SELECT refused('staging alone', $$SELECT * FROM cdc_check(NULL, 's')$$, '22023', 'staging');
CREATE ROLE check_reader;
GRANT USAGE ON SCHEMA "check it" TO check_reader;
GRANT SELECT ON t, s TO check_reader;
SET ROLE check_reader;
SELECT DISTINCT split_part(detail, ':', 1) FROM cdc_check() ORDER BY 1;
SELECT * FROM bad('t');
SELECT refused('no rights', $$SELECT * FROM cdc_check('r')$$, '42501', show => false);
-- of all, one whose staging may not be read does not hide the others
RESET ROLE;
REVOKE SELECT ON s FROM check_reader;
CREATE TABLE other_s AS TABLE s;
CREATE TABLE other_t (id int PRIMARY KEY, v text, n int);
SELECT cdc_attach('other_t', 'other_s', guard => 'error');
GRANT SELECT ON other_t, other_s TO check_reader;
SET ROLE check_reader;
SELECT detail FROM cdc_check() WHERE NOT ok ORDER BY detail COLLATE "C";
SELECT expect('the other is checked', count(*)::text, (SELECT count(*)::text FROM cdc_check('other_t'))) FROM cdc_check() WHERE detail ~ '\mother_t\M';
RESET ROLE;
DROP TABLE other_t, other_s;
-- a row with two witnesses is one row
CREATE TABLE w (id int PRIMARY KEY, v text);
CREATE TABLE ws (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('w', 'ws');
INSERT INTO ws VALUES ('d', 1, NULL, '0/2');
SELECT applied('w', 'ws');
INSERT INTO w VALUES (1, 'a', '0/1');
SELECT expect('two say so', count(*)::text, '2') FROM cdc_find_resurrected('w');
SELECT detail FROM cdc_check('w') WHERE check_name = 'rows_resurrected';
-- a superuser who checks all runs nobody's code as himself
CREATE FUNCTION who(text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$ BEGIN
	INSERT INTO "check it".saw VALUES (current_user);
	PERFORM set_config('work_mem', '77MB', false);
	BEGIN SET ROLE NONE; EXCEPTION WHEN OTHERS THEN INSERT INTO "check it".saw VALUES (SQLSTATE); END;
	RETURN $1;
END $$;
CREATE TABLE saw (who text);
GRANT ALL ON saw, w, ws TO check_reader;
CREATE VIEW wv AS SELECT op, id, who(v) AS v, source_position FROM ws;
ALTER VIEW wv OWNER TO check_reader;
SELECT cdc_attach('w', 'wv');
ALTER TABLE w OWNER TO check_reader;
ALTER TABLE w_tombstones OWNER TO check_reader;
SELECT check_name FROM cdc_check() WHERE NOT ok AND detail ~ '\mw\M';
SELECT expect('it ran as the owner', string_agg(DISTINCT s.who, ' ' ORDER BY s.who), '42501 check_reader') FROM saw s;
SELECT expect('settings are the caller''s', (current_setting('work_mem') = '77MB')::text, 'false');
DROP TABLE w CASCADE;

--
-- Tables that look fed
--
CREATE TABLE fed (id int PRIMARY KEY, "__deleted" text, "__LSN" bigint);
CREATE TABLE lsn (id int PRIMARY KEY, at pg_lsn);
CREATE TABLE landing (id int, "__deleted" text);
CREATE TABLE plain (id int PRIMARY KEY, note text);
SELECT relation, evidence, hint FROM cdc_exposed('check it');
SELECT count(*) FROM cdc_exposed() WHERE relation IN ('fed'::regclass, 'lsn'::regclass, 't'::regclass, 'plain'::regclass, 'landing'::regclass);
SELECT cdc_attach('fed', tombstones => 'table');
SELECT relation FROM cdc_exposed('check it');
SET ROLE check_reader;
SELECT relation FROM cdc_exposed('check it');
RESET ROLE;
--
-- A hostile search_path has no say
--
CREATE FUNCTION evil() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil'; END $$;
CREATE FUNCTION eq(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT "check it".evil()';
CREATE OPERATOR = (FUNCTION = eq, LEFTARG = int, RIGHTARG = int);
CREATE FUNCTION cdc_supersedes(cdc_position, cdc_position) RETURNS boolean LANGUAGE sql AS 'SELECT "check it".evil()';
CREATE FUNCTION format(text, VARIADIC "any") RETURNS text LANGUAGE internal AS 'text_format';
CREATE TABLE ids (id int);
SET search_path = "check it", pg_catalog, public;
SELECT pg_catalog.count(*) FROM cdc_explain('t');
SELECT pg_catalog.count(*) FROM cdc_find_resurrected('t', source => 'ids', sample => 1);
SELECT pg_catalog.count(*) FROM cdc_find_resurrected('t', source => 'ids', sample => 0.9999) WHERE evidence OPERATOR(pg_catalog.=) 'log';
SELECT pg_catalog.count(*) FROM cdc_check('t') WHERE NOT ok;
SELECT pg_catalog.count(*) > 0 FROM cdc_exposed('check it');
SELECT cdc_forget('t', '0/FFFFFF');
SET search_path = "check it", public;
DROP OWNED BY check_reader;
DROP ROLE check_reader;
DROP SCHEMA "check it" CASCADE;
