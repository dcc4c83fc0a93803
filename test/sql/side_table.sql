-- Tombstones beside the target: what a delete asks of the target, what is
-- remembered, and what the target's own triggers, keys and grants have to do
-- with it.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA side_table;
SET search_path = side_table, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;

--
-- A key-only delete and NOT NULL columns
--
CREATE DOMAIN posint AS int NOT NULL CHECK (VALUE > 0);
CREATE TABLE strict (id int PRIMARY KEY, name text NOT NULL, n posint, e text UNIQUE NOT NULL, CHECK (name <> ''));
CREATE TABLE strict_event (op text, id int, name text, n int, e text, source_position cdc_position);
SELECT cdc_attach('strict', 'strict_event');
INSERT INTO strict_event VALUES ('d', 88, NULL, NULL, NULL, '7/50');
SELECT apply_is('an unseen key', 'strict', 'strict_event', '', 'deleted=1', 'SELECT id, source_position, deleted_at = now() FROM strict_tombstones', '(88,7/50,t)');
SELECT expect('no live row', stands('strict'), '88 dead@7/50');
TRUNCATE strict_event;
INSERT INTO strict_event VALUES ('i', 88, 'a', 1, 'a@x', '7/40'), ('i', 89, 'b', 2, 'b@x', '7/40');
SELECT apply_is('the insert comes late', 'strict', 'strict_event', '', 'inserted=1 stale=1', 'SELECT stands(''strict'')', '("88 dead@7/50 89=b,2,b@x@7/40")');
TRUNCATE strict_event;
INSERT INTO strict_event VALUES ('d', 89, NULL, NULL, NULL, '7/60'), ('d', 90, NULL, NULL, NULL, '7/60'), ('i', 90, 'c', 3, 'c@x', '7/55'), ('i', 88, 'a', 1, 'b@x', '7/61');
SELECT apply_is('both in one batch; the unique value is free again', 'strict', 'strict_event', '', 'inserted=1 deleted=2 superseded=1',
	'SELECT stands(''strict'')', '("88=a,1,b@x@7/61 89 dead@7/60 90 dead@7/60")');
SELECT apply_is('again', 'strict', 'strict_event', '', 'duplicate=3 superseded=1', 'SELECT stands(''strict'')', '("88=a,1,b@x@7/61 89 dead@7/60 90 dead@7/60")');
SELECT expect('the tombstone of the revived key is gone', rows_of('SELECT id FROM strict_tombstones'), '(89) (90)');
-- an upsert is never excused
TRUNCATE strict_event;
INSERT INTO strict_event VALUES ('d', 88, NULL, NULL, NULL, '8/10'), ('u', 89, NULL, 1, 'e', '8/10');
SELECT apply_refused('NULL in a live row', 'strict', 'strict_event', '', '23502', NULL, '', false);
SELECT expect('nothing was remembered', rows_of('SELECT id, source_position FROM strict_tombstones'), '(89,7/60) (90,7/60)');
-- a unique value handed over and over within one batch
TRUNCATE strict_event;
INSERT INTO strict_event VALUES ('c', 91, 'd', 1, 'b@x', '8/11'), ('d', 88, NULL, NULL, NULL, '8/10'), ('c', 92, 'd', 1, 'z@x', '8/12'), ('d', 92, NULL, NULL, NULL, '8/13');
SELECT apply_is('handed over', 'strict', 'strict_event', '', 'inserted=1 deleted=2 superseded=1', 'SELECT stands(''strict'', true)', '("91=d,1,b@x@8/11")');

-- revived rows inherit nothing, keep nothing: not even from the same batch
CREATE TABLE heir (id int PRIMARY KEY, v text DEFAULT 'fresh', derived text DEFAULT 'derived', serial int GENERATED ALWAYS AS IDENTITY);
CREATE TABLE heir_event (op text, id int, v text, __unchanged text[], source_position cdc_position);
SELECT cdc_attach('heir', 'heir_event', unchanged_column => '__unchanged', on_unavailable => 'null');
INSERT INTO heir_event VALUES ('c', 1, 'old', NULL, '1/1'), ('c', 2, 'old', NULL, '1/1');
SELECT applied('heir', 'heir_event');
UPDATE heir SET derived = 'by hand';
TRUNCATE heir_event;
INSERT INTO heir_event VALUES ('d', 1, 'old', NULL, '1/2'), ('u', 1, NULL, '{v}', '1/3'), ('u', 2, NULL, '{v}', '1/2');
SELECT apply_is('update keeps, a row through a delete does not', 'heir', 'heir_event', '', 'updated=2 superseded=1', 'SELECT id, v, CASE id WHEN 2 THEN derived END FROM heir', '(1,,) (2,old,"by hand")');
TRUNCATE heir_event;
INSERT INTO heir_event VALUES ('d', 2, 'old', NULL, '1/4');
SELECT applied('heir', 'heir_event');
TRUNCATE heir_event;
INSERT INTO heir_event VALUES ('c', 2, 'new', NULL, '1/5');
SELECT apply_is('a new row in its own right', 'heir', 'heir_event', '', 'inserted=1', 'SELECT v, derived, serial > 2 FROM heir WHERE id = 2', '(new,derived,t)');

--
-- Triggers: a delete is a DELETE, a revival an INSERT, and the side table's
-- own rows are nobody's business
--
CREATE TABLE watched (id int PRIMARY KEY, v text);
CREATE TABLE watched_event (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('watched', 'watched_event');
CREATE TABLE fired (n int GENERATED ALWAYS AS IDENTITY, what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO fired (what) VALUES (concat_ws(' ', TG_WHEN, TG_LEVEL, TG_OP, CASE WHEN TG_OP <> 'INSERT' THEN OLD.id || OLD.v END, CASE WHEN TG_OP <> 'DELETE' THEN NEW.id || NEW.v END));
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE FUNCTION note_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO fired (what) VALUES (concat_ws(' ', TG_WHEN, TG_LEVEL, TG_OP));
	RETURN NULL;
END $$;
CREATE FUNCTION note_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO fired (what) SELECT 'TRANSITION ' || TG_OP || ' ' || string_agg(id || v, ',' ORDER BY id) FROM gone;
	RETURN NULL;
END $$;
CREATE FUNCTION note_come() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO fired (what) SELECT 'TRANSITION ' || TG_OP || ' ' || string_agg(id || v, ',' ORDER BY id) FROM come;
	RETURN NULL;
END $$;
CREATE FUNCTION what_fired() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(n || what, '; ' ORDER BY what COLLATE "C"), 'none') FROM (SELECT CASE WHEN count(*) > 1 THEN count(*) || ' x ' ELSE '' END, what FROM fired GROUP BY what) f(n, what)
$$;
INSERT INTO watched_event VALUES ('c', 1, 'a', '1/1'), ('c', 2, 'b', '1/1'), ('c', 3, 'c', '1/1'), ('d', 9, NULL, '1/1');
SELECT applied('watched', 'watched_event');
CREATE TRIGGER br BEFORE INSERT OR UPDATE OR DELETE ON watched FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER ar AFTER INSERT OR UPDATE OR DELETE ON watched FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER bs BEFORE INSERT OR UPDATE OR DELETE ON watched FOR EACH STATEMENT EXECUTE FUNCTION note_statement();
CREATE TRIGGER ast AFTER INSERT OR UPDATE OR DELETE ON watched FOR EACH STATEMENT EXECUTE FUNCTION note_statement();
CREATE TRIGGER td AFTER DELETE ON watched REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note_gone();
CREATE TRIGGER ti AFTER INSERT ON watched REFERENCING NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION note_come();
TRUNCATE watched_event;
INSERT INTO watched_event VALUES ('d', 1, NULL, '1/2'), ('d', 2, 'b', '1/2'), ('d', 8, 'x', '1/2'), ('u', 9, 'i', '1/2');
SELECT applied('watched', 'watched_event');
SELECT expect('two deletes of rows, one of an unseen key, one revival', what_fired(), concat_ws('; ', 'AFTER ROW DELETE 1a', 'AFTER ROW DELETE 2b', 'AFTER ROW INSERT 9i',
	'AFTER STATEMENT DELETE', 'AFTER STATEMENT INSERT', 'BEFORE ROW DELETE 1a', 'BEFORE ROW DELETE 2b', 'BEFORE ROW INSERT 9i', 'BEFORE STATEMENT DELETE', 'BEFORE STATEMENT INSERT',
	'TRANSITION DELETE 1a,2b', 'TRANSITION INSERT 9i'));
TRUNCATE fired;
SELECT applied('watched', 'watched_event');
SELECT expect('a replay fires nothing', what_fired(), 'none');
TRUNCATE watched_event;
INSERT INTO watched_event VALUES ('d', 1, NULL, '1/3'), ('d', 77, NULL, '1/3');
SELECT applied('watched', 'watched_event');
SELECT expect('nor do tombstones that move or come without a row', what_fired(), 'none');
-- a BEFORE DELETE trigger that says no: ignored, and nothing is remembered
CREATE FUNCTION veto() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN OLD.id = 3 THEN NULL ELSE OLD END; END $$;
CREATE TRIGGER a_veto BEFORE DELETE ON watched FOR EACH ROW EXECUTE FUNCTION veto();
TRUNCATE watched_event;
INSERT INTO watched_event VALUES ('d', 3, NULL, '1/4'), ('d', 9, NULL, '1/4');
SELECT apply_is('vetoed', 'watched', 'watched_event', '', 'deleted=1 ignored=1', 'SELECT stands(''watched'')', '("1 dead@1/3 2 dead@1/2 3=c@1/1 77 dead@1/3 8 dead@1/2 9 dead@1/4")');
DROP TRIGGER a_veto ON watched;
SELECT apply_is('and once it may', 'watched', 'watched_event', '', 'deleted=1 duplicate=1', 'SELECT stands(''watched'', true)', '(nothing)');
-- so does a BEFORE INSERT trigger: the tombstone stays
CREATE FUNCTION veto_all() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER a_veto BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION veto_all();
TRUNCATE watched_event;
INSERT INTO watched_event VALUES ('u', 3, 'x', '1/5');
SELECT apply_is('a revival vetoed', 'watched', 'watched_event', '', 'ignored=1', 'SELECT stands(''watched'')', '("1 dead@1/3 2 dead@1/2 3 dead@1/4 77 dead@1/3 8 dead@1/2 9 dead@1/4")');
DROP TRIGGER a_veto ON watched;

-- foreign keys: cascades run, restrictions hold
CREATE TABLE child (cid int PRIMARY KEY, id int REFERENCES watched ON DELETE CASCADE);
CREATE TABLE held (hid int PRIMARY KEY, id int REFERENCES watched);
INSERT INTO watched_event VALUES ('c', 3, 'c', '2/1'), ('c', 4, 'd', '2/1'), ('c', 5, 'e', '2/1');
SELECT applied('watched', 'watched_event');
INSERT INTO child VALUES (1, 3), (2, 4), (3, 4);
INSERT INTO held VALUES (1, 5);
TRUNCATE watched_event;
INSERT INTO watched_event VALUES ('d', 4, NULL, '2/2');
SELECT apply_is('a cascade', 'watched', 'watched_event', '', 'deleted=1', 'child', '(1,3)');
INSERT INTO watched_event VALUES ('d', 5, NULL, '2/2'), ('d', 3, NULL, '2/2');
SELECT apply_refused('a row that is referred to', 'watched', 'watched_event', '', '23503', NULL, '', false);
SELECT expect('all or nothing', rows_of('SELECT id, source_position FROM watched_tombstones WHERE id IN (3, 5)') || rows_of('child'), 'none(1,3)');

-- a table that refers to itself: the order of a batch does not matter
CREATE TABLE tree (id int PRIMARY KEY, parent int REFERENCES tree, v text);
CREATE TABLE tree_event (op text, id int, parent int, v text, source_position cdc_position);
SELECT cdc_attach('tree', 'tree_event');
INSERT INTO tree_event VALUES ('c', 2, 1, 'b', '1/1'), ('c', 1, NULL, 'a', '1/2'), ('c', 3, 2, 'c', '1/3');
SELECT applied('tree', 'tree_event');
TRUNCATE tree_event;
INSERT INTO tree_event VALUES ('d', 1, NULL, NULL, '1/4'), ('u', 3, 9, 'c', '1/4'), ('c', 9, NULL, 'i', '1/5'), ('d', 2, NULL, NULL, '1/6');
SELECT apply_is('parents go, others come', 'tree', 'tree_event', '', 'inserted=1 updated=1 deleted=2', 'SELECT id, parent FROM tree', '(3,9) (9,)');
TRUNCATE tree_event;
INSERT INTO tree_event VALUES ('t', NULL, NULL, NULL, '1/4:1'), ('u', 9, NULL, 'j', '1/7');
SELECT apply_is('a truncate takes the child', 'tree', 'tree_event', '', 'updated=1 truncated=1', 'SELECT id, v FROM tree', '(9,j)');
-- BEFORE triggers that change what is the law's, or the row itself
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	CASE NEW.v WHEN 'position' THEN NEW.source_position := '9/9'; WHEN 'key' THEN NEW.id := 99; ELSE NEW.v := upper(NEW.v); END CASE;
	RETURN NEW;
END $$;
CREATE FUNCTION meddle_delete() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE tree SET v = 'z' WHERE id = OLD.id; RETURN OLD; END $$;
CREATE TRIGGER meddle BEFORE INSERT ON tree FOR EACH ROW EXECUTE FUNCTION meddle();
CREATE TRIGGER meddle_delete BEFORE DELETE ON tree FOR EACH ROW EXECUTE FUNCTION meddle_delete();
TRUNCATE tree_event;
INSERT INTO tree_event VALUES ('c', 1, NULL, 'position', '2/1');
SELECT apply_refused('the position of a revived row', 'tree', 'tree_event', '', '27000', 'source_position', 'h', false);
UPDATE tree_event SET v = 'key';
SELECT apply_refused('its key', 'tree', 'tree_event', '', '27000', 'id', 'h', false);
UPDATE tree_event SET v = 'value';
SELECT apply_is('any other value', 'tree', 'tree_event', '', 'inserted=1', 'SELECT id, v FROM tree', '(1,VALUE) (9,j)');
UPDATE tree_event SET op = 'd', source_position = '2/2';
SELECT apply_refused('the row under a delete', 'tree', 'tree_event', '', '27000', NULL, '', false);

--
-- Keys
--
-- by another unique index, as attached
CREATE TABLE by_code (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, region text NOT NULL, code text NOT NULL, v text);
CREATE UNIQUE INDEX by_code_key ON by_code (code, region);
CREATE TABLE by_code_event (op text, region text, code text, v text, source_position cdc_position);
SELECT cdc_attach('by_code', 'by_code_event', key_columns => '{region,code}');
INSERT INTO by_code_event VALUES ('c', 'eu', 'A', 'one', '1'), ('c', 'us', 'A', 'two', '1'), ('d', 'eu', 'A', NULL, '2'), ('d', 'eu', 'B', NULL, '2');
SELECT apply_is('another unique key', 'by_code', 'by_code_event', '', 'inserted=1 deleted=2 superseded=1', 'SELECT region, code, source_position FROM by_code_tombstones', '(eu,A,2) (eu,B,2)');

-- types: the side table has the key as the target has it, and finds it so
CREATE TYPE color AS ENUM ('red', 'green');
CREATE DOMAIN code AS varchar(8) CHECK (VALUE <> '');
CREATE TYPE pair AS (a int, b text);
CREATE TABLE key_type (type text, val text, again text);
INSERT INTO key_type VALUES ('smallint', '7', '07'), ('numeric', '1.0', '1.00'), ('float8', '0', '-0'), ('text', 'a', 'a'), ('"char"', 'c', 'c'), ('char(4)', 'ab', 'ab  '),
	('color', 'green', 'green'), ('code', 'x', 'x'), ('uuid', '0000000000000000000000000000000A', '00000000-0000-0000-0000-00000000000a'), ('bytea', '\xAB', '\xab'),
	('timestamptz', '2024-02-29 12:00+00', '2024-02-29 13:00+01'), ('interval', '24:00', '1 day'), ('int[]', '{1,2}', '{1, 2}'), ('pair', '(1,x)', '(1,x)'),
	('int4range', '[1,2]', '[1,3)'), ('jsonb', '{"a": 1}', '{"a":1}'), ('inet', '10.0.0.1', '10.0.0.1/32'), ('boolean', 't', 'true'), ('cdc_position', '0/A', '0/0A:0');
CREATE FUNCTION key_of(t key_type) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got text;
BEGIN
	EXECUTE format('CREATE TABLE k (id %s PRIMARY KEY, v text); CREATE TABLE k_event (op text, id text, v text, pos cdc_position)', t.type);
	PERFORM cdc_attach('k', 'k_event', staging_position => 'pos', position_columns => '{pos}');
	INSERT INTO k_event VALUES ('c', t.val, 'a', '1/1');
	got := applied('k', 'k_event');
	UPDATE k_event SET id = t.again, op = 'd', pos = '1/2';
	got := got || ' ' || applied('k', 'k_event');
	UPDATE k_event SET id = t.val, op = 'u', pos = '1/1';
	got := got || ' ' || applied('k', 'k_event') || ' ' || rows_of('k') || ' ' || (SELECT count(*) FROM k_tombstones);
	UPDATE k_event SET id = t.again, op = 'u', pos = '1/3';
	got := got || ' ' || applied('k', 'k_event');
	got := got || ' ' || (SELECT count(*) FROM k) || (SELECT count(*) FROM k_tombstones);
	DROP TABLE k, k_event;
	RETURN expect('key of type ' || t.type, got, 'inserted=1 deleted=1 stale=1 none 1 inserted=1 10');
END $$;
SET client_min_messages = error;
SELECT key_of(t) FROM key_type t ORDER BY type COLLATE "C";
SET client_min_messages = warning;
-- operator class and order of the target's index
CREATE TABLE pattern (a text NOT NULL, b int NOT NULL, v text);
CREATE UNIQUE INDEX pattern_key ON pattern (a text_pattern_ops DESC, b) INCLUDE (v);
CREATE TABLE pattern_event (op text, a text, b int, v text, source_position cdc_position);
SELECT cdc_attach('pattern', 'pattern_event', key_columns => '{a,b}');
SELECT expect('its operator class', string_agg(opcname, ' ' ORDER BY n), 'text_pattern_ops int4_ops') FROM pg_index, unnest(indclass) WITH ORDINALITY c (oid, n) JOIN pg_opclass USING (oid)
WHERE indrelid = 'pattern_tombstones'::regclass;
INSERT INTO pattern_event VALUES ('c', 'a%', 1, 'v', '1/1'), ('d', 'a_', 1, NULL, '1/1'), ('d', 'a%', 1, NULL, '1/2');
SELECT apply_is('and works', 'pattern', 'pattern_event', '', 'deleted=2 superseded=1', 'SELECT a, b, source_position FROM pattern_tombstones', '(a%,1,1/2) (a_,1,1/1)');

-- moves of keys
CREATE TABLE moved (id int PRIMARY KEY, v text, body text);
CREATE TABLE moved_event (op text, id int, v text, body text, __old_id int, source_position cdc_position);
SELECT cdc_attach('moved', 'moved_event');
INSERT INTO moved_event VALUES ('c', 40, 'x', 'long', NULL, '3/80');
SELECT applied('moved', 'moved_event');
TRUNCATE moved_event;
INSERT INTO moved_event VALUES ('u', 41, 'y', '__debezium_unavailable_value', 40, '3/90'), ('u', 51, 'z', 'seen', 50, '3/90');
SELECT apply_is('old keys are remembered, seen or not; the value comes along', 'moved', 'moved_event', '', 'inserted=2', 'SELECT stands(''moved'')', '("40 dead@3/90 41=y,long@3/90 50 dead@3/90 51=z,seen@3/90")');
SELECT apply_is('again', 'moved', 'moved_event', '', 'duplicate=2', 'SELECT stands(''moved'')', '("40 dead@3/90 41=y,long@3/90 50 dead@3/90 51=z,seen@3/90")');
TRUNCATE moved_event;
INSERT INTO moved_event VALUES ('u', 41, 'b', 'b', 51, '4/10'), ('u', 51, 'a', 'a', 41, '4/10');
SELECT apply_is('a swap', 'moved', 'moved_event', '', 'updated=2', 'SELECT stands(''moved'', true)', '("41=b,b@4/10 51=a,a@4/10")');

--
-- Partitioned
--
CREATE TABLE geo (id int, region text, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE geo_eu PARTITION OF geo FOR VALUES IN ('eu');
CREATE TABLE geo_rest (v text, x int, region text NOT NULL, id int NOT NULL) PARTITION BY HASH (id);
ALTER TABLE geo_rest DROP x;
CREATE TABLE geo_rest_0 PARTITION OF geo_rest FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE geo_rest_1 PARTITION OF geo_rest FOR VALUES WITH (MODULUS 2, REMAINDER 1);
ALTER TABLE geo ATTACH PARTITION geo_rest DEFAULT;
CREATE TABLE geo_event (op text, id int, region text, v text, __old_id int, __old_region text, source_position cdc_position);
SELECT cdc_attach('geo', 'geo_event');
SELECT expect('one side table, not partitioned', string_agg(relname || ' ' || relkind::text, ', ' ORDER BY relname), 'geo_tombstones r') FROM pg_class WHERE relname ~ '^geo.*tomb.*s$' AND relnamespace = 'side_table'::regnamespace;
INSERT INTO geo_event VALUES ('c', 1, 'eu', 'a', NULL, NULL, '1/1'), ('c', 2, 'us', 'b', NULL, NULL, '1/1'), ('c', 3, 'us', 'c', NULL, NULL, '1/1'), ('d', 9, 'mars', NULL, NULL, NULL, '1/1');
SELECT applied('geo', 'geo_event');
TRUNCATE geo_event;
INSERT INTO geo_event VALUES ('u', 1, 'us', 'moved', 1, 'eu', '1/2'), ('d', 2, 'us', NULL, NULL, NULL, '1/2'), ('c', 9, 'mars', 'late', NULL, NULL, '1/0');
SELECT apply_is('across partitions', 'geo', 'geo_event', '', 'inserted=1 deleted=1 stale=1', 'SELECT stands(''geo'')', '("1,eu dead@1/2 1,us=moved@1/2 2,us dead@1/2 3,us=c@1/1 9,mars dead@1/1")');
SELECT apply_is('again', 'geo', 'geo_event', '', 'stale=1 duplicate=2', 'SELECT count(*) FROM geo', '(2)');

--
-- Names that are the row home's are ordinary here
--
CREATE TABLE app (id int PRIMARY KEY, deleted boolean, __deleted text);
CREATE TABLE app_event (op text, id int, deleted boolean, __deleted text, source_position cdc_position);
SELECT cdc_attach('app', 'app_event');
INSERT INTO app_event VALUES ('c', 1, true, 'a', '1/1'), ('c', 2, NULL, 'b', '1/1'), ('d', 3, false, NULL, '1/1');
SELECT applied('app', 'app_event');
SELECT expect('the application''s own flag', rows_of('app') || ' ' || rows_of('SELECT id FROM app_tombstones'), '(1,t,a,1/1) (2,,b,1/1) (3)');

--
-- A key both live and dead, by a hand INSERT: the greater position is S
--
SELECT fresh();
INSERT INTO in_table_tombstones (id, source_position, deleted_at) SELECT n, '5/50', now() FROM generate_series(1, 6) n;
INSERT INTO in_table VALUES (1, 'below', '5/10'), (2, 'at', '5/50'), (3, 'above', '5/90'), (4, 'without', NULL);
SELECT stage($$ ('u', 1, 'x', '5/20'), ('u', 2, 'x', '5/20'), ('u', 3, 'x', '5/60'), ('u', 4, 'x', '5/20'), ('u', 5, 'x', '5/20') $$);
SELECT expect('older than the greater', applied('in_table', 'event'), 'stale=5');
SELECT stage($$ ('d', 1, NULL, '5/50'), ('d', 2, NULL, '5/50'), ('d', 3, NULL, '5/90') $$);
SELECT expect('a delete at the tombstone, of a row that counts as dead', counts(r), 'duplicate=3') FROM cdc_apply('in_table', 'event', dry_run => true) r;
SELECT stage($$ ('u', 1, 'new', '5/60'), ('u', 2, 'new', '5/60'), ('u', 3, 'new', '5/99'), ('u', 4, 'new', '5/60') $$);
SELECT expect('newer than both', applied('in_table', 'event') || ': ' || stands('in_table', true), 'inserted=3 updated=1: 1=new@5/60 2=new@5/60 3=new@5/99 4=new@5/60');
SELECT expect('what came back is in one place', rows_of('SELECT id FROM in_table_tombstones WHERE id <> 3'), '(5) (6)');
INSERT INTO in_table VALUES (5, 'by hand', '5/10');
SELECT stage($$ ('d', 5, NULL, '5/70') $$);
SELECT expect('a newer delete takes the row away too', applied('in_table', 'event') || ': ' || stands('in_table', true), 'deleted=1: 1=new@5/60 2=new@5/60 3=new@5/99 4=new@5/60');
SELECT expect('and is remembered', source_position::text, '5/70') FROM in_table_tombstones WHERE id = 5;

--
-- Privileges: DELETE on the target, nothing on the side table
--
SELECT fresh();
CREATE ROLE regress_cdc_side;
GRANT USAGE ON SCHEMA side_table TO regress_cdc_side;
GRANT SELECT ON event TO regress_cdc_side;
GRANT SELECT, INSERT, UPDATE ON in_table, in_row TO regress_cdc_side;
SELECT stage($$ ('c', 1, 'a', '1/1') $$);
SET ROLE regress_cdc_side;
SELECT expect('the row home needs no DELETE', counts(r), 'inserted=1') FROM cdc_apply('in_row', 'event') r;
SELECT refused('the side table does, whatever the batch', $$SELECT * FROM cdc_apply('in_table', 'event')$$, '42501', 'in_table');
RESET ROLE;
GRANT DELETE ON in_table TO regress_cdc_side;
SELECT stage($$ ('c', 1, 'a', '1/1'), ('d', 2, NULL, '1/1') $$);
SET ROLE regress_cdc_side;
SELECT expect('through the target', counts(r), 'inserted=1 deleted=1') FROM cdc_apply('in_table', 'event') r;
SELECT refused('the side table itself is closed', $$SELECT * FROM in_table_tombstones$$, '42501', 'in_table_tombstones', '', false);
RESET ROLE;
SELECT expect('remembered', stands('in_table'), '1=a@1/1 2 dead@1/1');

--
-- The law, in both homes
--
SELECT fresh();
INSERT INTO event_log
	SELECT CASE WHEN h % 3 = 0 THEN 'd' ELSE 'u' END, 1 + h % 20, 'v' || n, cdc_position(pg_lsn '9/0' + (n / 3)::numeric, n % 3)
	FROM (SELECT n, abs(hashint8(n)) AS h FROM generate_series(1, 150) n) e;
SELECT deliveries('deletes in any order', 12);

DROP SCHEMA side_table CASCADE;
DROP ROLE regress_cdc_side;
