-- Append-only tables: what nobody may change, the owner and a superuser included.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA append_only;
SET search_path = append_only, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE ROLE regress_append_owner;
CREATE ROLE regress_append_writer;
GRANT ALL ON SCHEMA append_only TO regress_append_owner;
GRANT USAGE ON SCHEMA append_only TO regress_append_writer;

-- Six tables: plain, with a name to quote, partitioned by list and by hash
-- below it, an inheritance parent, one that a foreign key would change.
SET ROLE regress_append_owner;
CREATE TABLE plain (id int PRIMARY KEY, version int NOT NULL DEFAULT 1, v text);
CREATE TABLE "we ird.""t" (id int PRIMARY KEY, version int NOT NULL DEFAULT 1, v text);
CREATE TABLE parted (id int, version int NOT NULL DEFAULT 1, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (5) PARTITION BY HASH (id);
CREATE TABLE parted_low_0 PARTITION OF parted_low FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE parted_rest (v text, version int NOT NULL DEFAULT 1, id int NOT NULL);
ALTER TABLE parted ATTACH PARTITION parted_rest DEFAULT;
CREATE TABLE parent (id int PRIMARY KEY, version int NOT NULL DEFAULT 1, v text);
CREATE TABLE child (more text) INHERITS (parent);
ALTER TABLE child ADD PRIMARY KEY (id);
CREATE TABLE referenced (id int PRIMARY KEY);
INSERT INTO referenced VALUES (1), (2), (9);
CREATE TABLE referencing (id int PRIMARY KEY REFERENCES referenced ON DELETE CASCADE ON UPDATE CASCADE, version int NOT NULL DEFAULT 1, v text);
CREATE TABLE tables (name text PRIMARY KEY, root text);
INSERT INTO tables VALUES ('plain', 'plain'), ('"we ird.""t"', '"we ird.""t"'), ('parted', 'parted'), ('parted_low', 'parted'),
	('parted_low_0', 'parted'), ('parent', 'parent'), ('child', 'parent'), ('referencing', 'referencing');
SELECT format('INSERT INTO %s (id, v) VALUES (1, ''a''), (2, ''b'')', name) FROM tables WHERE name NOT LIKE 'parted\__%' \gexec
INSERT INTO child (id, v) VALUES (3, 'c');
GRANT ALL ON ALL TABLES IN SCHEMA append_only TO regress_append_writer;

SELECT cdc_make_append_only(root::regclass) FROM tables WHERE name = root;

-- Where the triggers are and that each of them always fires.
SELECT tgrelid::regclass, tgname, tgenabled, tgparentid <> 0 AS of_the_parent FROM pg_trigger
WHERE tgfoid = 'cdc_append_only'::regproc ORDER BY tgrelid::regclass::text COLLATE "C", tgname;

-- again: nothing is done, and no lock is taken that would stop anybody
CREATE TABLE before AS SELECT oid, xmin::text AS writer FROM pg_trigger WHERE tgfoid = 'cdc_append_only'::regproc;
BEGIN;
SELECT cdc_make_append_only(root::regclass) FROM tables WHERE name = root;
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN (SELECT name::regclass FROM tables) AND mode NOT IN ('AccessShareLock');
COMMIT;
SELECT count(*) FROM (SELECT oid, xmin::text FROM pg_trigger WHERE tgfoid = 'cdc_append_only'::regproc EXCEPT ALL TABLE before) d;

/*
 * Statements that must be refused, whether they find a row or not, on each
 * table by each of three roles; and those that pass.  passes: what they add.
 */
CREATE TABLE statement (n int GENERATED ALWAYS AS IDENTITY, command text, passes text);
INSERT INTO statement (command, passes) VALUES
	('UPDATE %s SET v = ''x''', NULL),
	('UPDATE %s SET v = ''x'' WHERE id = 1', NULL),
	('UPDATE %s SET v = v WHERE id = 99', NULL),
	('UPDATE ONLY %s SET v = ''x''', NULL),
	('DELETE FROM %s', NULL),
	('DELETE FROM %s WHERE id = 99', NULL),
	('DELETE FROM ONLY %s', NULL),
	('TRUNCATE %s', NULL),
	('TRUNCATE %s CASCADE', NULL),
	('INSERT INTO %s (id, v) VALUES (1, ''x'') ON CONFLICT (id) DO UPDATE SET v = excluded.v', NULL),
	('INSERT INTO %s (id, v) VALUES (4, ''x'') ON CONFLICT (id) DO UPDATE SET v = excluded.v', NULL),
	('MERGE INTO %s t USING (VALUES (1, ''x''), (4, ''x'')) s (id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)', NULL),
	('MERGE INTO %s t USING (VALUES (1)) s (id) ON t.id = s.id WHEN MATCHED THEN DELETE', NULL),
	('WITH d AS (DELETE FROM %s RETURNING *) SELECT count(*) FROM d', NULL),
	('INSERT INTO %s (id, v) VALUES (4, ''new'')', '4=new'),
	('INSERT INTO %s (id, v) VALUES (1, ''x''), (4, ''new'') ON CONFLICT DO NOTHING', '4=new'),
	('MERGE INTO %s t USING (VALUES (1, ''x''), (4, ''new'')) s (id, v) ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)', '4=new'),
	('SELECT * FROM %s FOR UPDATE', '');
INSERT INTO referenced VALUES (4);
GRANT ALL ON statement TO regress_append_writer;

CREATE FUNCTION holds(t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT string_agg(id || ''='' || v, '' '' ORDER BY id) FROM %s', t) INTO result;
	RETURN result;
END $$;

-- MERGE into a parent with children is the server's to refuse up to 16
CREATE FUNCTION check_statements() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	t tables; s statement; before text; got text; want text; checked int := 0; wrong int := 0;
BEGIN
	FOR t IN SELECT * FROM tables ORDER BY name COLLATE "C" LOOP
		before := holds(t.root);
		FOR s IN SELECT * FROM statement WHERE NOT (t.root = 'parent' AND (command LIKE 'MERGE%' OR command LIKE 'INSERT%')) ORDER BY n LOOP
			BEGIN
				EXECUTE format(s.command, t.name);
				got := holds(t.root);
				RAISE SQLSTATE '00001';
			EXCEPTION WHEN OTHERS THEN
				IF SQLSTATE <> '00001' THEN
					got := SQLSTATE || CASE WHEN SQLERRM NOT LIKE '%append-only' THEN SQLERRM ELSE '' END;
				END IF;
			END;
			checked := checked + 1;
			want := CASE WHEN s.passes IS NULL THEN '23000' WHEN s.passes = '' THEN before ELSE
				(SELECT string_agg(w, ' ' ORDER BY split_part(w, '=', 1)::int) FROM unnest(string_to_array(before || ' ' || s.passes, ' ')) w) END;
			IF got IS DISTINCT FROM want THEN
				wrong := wrong + 1;
				RETURN NEXT format('NOT OK | %s as %s: %s, not %s', format(s.command, t.name), current_user, got, want);
			END IF;
		END LOOP;
	END LOOP;
	RETURN NEXT format('%s: %s statements, %s wrong', current_user, checked, wrong);
END $$;
SELECT check_statements();
RESET ROLE;
SET ROLE regress_append_writer;
SELECT check_statements();
RESET ROLE;
SELECT replace(check_statements(), current_user, 'a superuser');
-- as a replication worker writes, and a restore with --disable-triggers
SET session_replication_role = replica;
SELECT refused('as a replica', 'UPDATE plain SET v = ''x''', '23000', 'plain', 'dh');
SELECT refused('as a replica, a row of a partition', 'DELETE FROM parted_low_0', '23000', 'parted_low_0', 'dh');
RESET session_replication_role;
SELECT refused('a truncate', 'TRUNCATE "we ird.""t"', '23000', 'we ird.', 'dh');
-- a cascade is a change as well
SELECT refused('a cascading delete', 'DELETE FROM referenced WHERE id = 1', '23000', 'referencing', 'dh');
SELECT refused('a cascading update', 'UPDATE referenced SET id = 10 WHERE id = 1', '23000', 'referencing', 'dh');
SELECT refused('of a row that nobody references, too', 'DELETE FROM referenced WHERE id = 9', '23000', 'referencing', 'dh', false);
-- COPY adds
COPY plain (id, v) FROM stdin;
7	copied
\.
SELECT holds('plain');

-- A partition that comes later: its rows from the start, its TRUNCATE after a repeat.
SET ROLE regress_append_owner;
CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (100) TO (200);
INSERT INTO parted (id, v) VALUES (100, 'later');
GRANT ALL ON parted_high TO regress_append_writer;
SELECT refused('a row of a new partition', 'UPDATE parted_high SET v = ''x''', '23000', 'parted_high', 'dh', false);
SELECT refused('by the table', 'TRUNCATE parted', '23000', 'parted', 'dh', false);
SELECT cdc_make_append_only('parted');
SELECT refused('and its truncate', 'TRUNCATE parted_high', '23000', 'parted_high', 'dh', false);
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'parted_high'::regclass AND tgfoid = 'cdc_append_only'::regproc ORDER BY 1;
ALTER TABLE plain DISABLE TRIGGER zzz_cdc_append_only;
SELECT cdc_make_append_only('plain');
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'plain'::regclass AND tgfoid = 'cdc_append_only'::regproc ORDER BY 1;

--
-- Past it: owners who say so, and nobody else
--
SET cdc_precedence.bypass_guard = on;
UPDATE plain SET v = 'mended' WHERE id = 1;
DELETE FROM parted WHERE id = 2;
TRUNCATE "we ird.""t";
SELECT holds('plain'), holds('parted'), holds('"we ird.""t"');
RESET ROLE;
SET ROLE regress_append_writer;
SELECT refused('not the owner', 'UPDATE plain SET v = ''x''', '23000', 'plain', 'dh', false);
SELECT refused('not the owner of a partition', 'DELETE FROM parted_high', '23000', 'parted_high', 'dh', false);
SELECT refused('made by its owner', 'SELECT cdc_make_append_only(''referenced'')', '42501', 'referenced', '', false);
SELECT refused('taken back by its owner', 'SELECT cdc_make_append_only(''plain'', undo => true)', '42501', 'plain', '', false);
-- a foreign key acts as the owner of the table
DELETE FROM referenced WHERE id = 2;
SELECT holds('referencing');
RESET ROLE;
RESET cdc_precedence.bypass_guard;

--
-- No target, and no target becomes one
--
CREATE TABLE events (op text, id int, v text, source_position cdc_position);
INSERT INTO events VALUES ('u', 1, 'x', '0/100');
CREATE TABLE with_position (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
SELECT cdc_make_append_only('with_position');
SELECT apply_refused('apply', 'with_position', 'events', '', '55000', 'with_position', 'dh');
SELECT apply_refused('dry run', 'with_position', 'events', 'dry_run => true', '55000', 'with_position', 'dh', false);
SELECT refused('attach', 'SELECT cdc_attach(''with_position'', ''events'')', '55000', 'with_position', 'dh', false);
SELECT refused('attach, a partition of one', 'SELECT cdc_attach(''parted_high'', ''events'')', '55000', 'parted_high', 'dh', false);
SELECT refused('explain', 'SELECT * FROM cdc_explain(''with_position'', ''events'')', '55000', 'with_position', 'dh', false);
SELECT ok, detail FROM cdc_check('with_position', 'events') WHERE check_name = 'target';
CREATE TABLE target (id int PRIMARY KEY, v text);
SELECT cdc_attach('target', 'events', guard => 'error');
SELECT refused('of an attached target', 'SELECT cdc_make_append_only(''target'')', '55000', 'target', 'dh');
SELECT refused('of its side table', 'SELECT cdc_make_append_only(''target_tombstones'')', '55000', 'target_tombstones', 'dh', false);
CREATE TABLE target_p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE target_p_1 PARTITION OF target_p FOR VALUES FROM (0) TO (10);
SELECT cdc_attach('target_p', 'events');
SELECT refused('of a partition of one', 'SELECT cdc_make_append_only(''target_p_1'')', '55000', 'target_p_1', 'dh', false);
-- staging may be one, if it is read by a bookmark
CREATE TABLE landing (op text, id int, v text, source_position cdc_position, loaded_xid xid8 DEFAULT pg_current_xact_id());
SELECT cdc_make_append_only('landing');
INSERT INTO landing VALUES ('c', 1, 'a', '0/100'), ('c', 2, 'b', '0/110');
SELECT apply_refused('consumed by DELETE', 'target', 'landing', 'consume => ''delete''', '23000', 'landing', 'dh', false);
SELECT apply_refused('by TRUNCATE', 'target', 'landing', 'consume => ''truncate''', '23000', 'landing', 'dh', false);
DO $$
DECLARE
	last xid8 := pg_snapshot_xmax(pg_current_snapshot());
BEGIN
	-- an autovacuum may hold the bookmark back
	FOR i IN 1 .. 6000 LOOP
		EXIT WHEN pg_snapshot_xmin(pg_current_snapshot()) >= last;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SELECT apply_is('by a bookmark', 'target', 'landing', 'consume => ''bookmark''', 'inserted=2', 'SELECT id, v FROM target', '(1,a) (2,b)');

--
-- Refused: what is no table, a name that is taken, half of a family
--
CREATE VIEW a_view AS SELECT 1 AS id;
SELECT refused('a view', 'SELECT cdc_make_append_only(''a_view'')', '42809', 'a_view', 'd');
SELECT refused('a catalog', 'SELECT cdc_make_append_only(''pg_class'')', '42809', 'pg_class', 'd', false);
SELECT refused('nothing', 'SELECT cdc_make_append_only(NULL)', '22023', 'relation');
SELECT refused('a table that is gone', 'SELECT cdc_make_append_only(''4000000000''::regclass)', '42P01', NULL, '', false);
CREATE TABLE taken (id int);
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER zzz_cdc_append_only BEFORE UPDATE ON taken EXECUTE FUNCTION nothing();
SELECT refused('a trigger of that name', 'SELECT cdc_make_append_only(''taken'')', '42710', 'zzz_cdc_append_only', 'h');
SELECT cdc_make_append_only('taken', undo => true);
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'taken'::regclass;
SELECT refused('a partition taken back', 'SELECT cdc_make_append_only(''parted_high'', undo => true)', '55000', 'parted_high', 'h');
SELECT refused('by hand', 'SELECT cdc_append_only()', '0A000|39P01', NULL, '', false);
CREATE TABLE wrong_trigger (id int);
CREATE TRIGGER t BEFORE INSERT ON wrong_trigger EXECUTE FUNCTION cdc_append_only();
SELECT refused('a trigger on INSERT', 'INSERT INTO wrong_trigger VALUES (1)', '39P01', NULL, 'h');
BEGIN READ ONLY;
SELECT refused('read only', 'SELECT cdc_make_append_only(''referenced'')', '25006', NULL, '', false);
COMMIT;

--
-- Taken back
--
SELECT cdc_make_append_only(root::regclass, undo => true) FROM tables WHERE name = root;
SELECT cdc_make_append_only('parted', undo => true);
SELECT count(*) FROM pg_trigger t JOIN tables n ON t.tgrelid = n.name::regclass WHERE tgfoid = 'cdc_append_only'::regproc;
UPDATE parted SET v = 'free';
TRUNCATE parted_high;
SELECT holds('parted');
SELECT cdc_make_append_only('with_position', undo => true);
SELECT applied('with_position', 'events');

--
-- Derived columns of a side table's target: said once, by name
--
SET client_min_messages = warning;
CREATE TABLE derived_events (op text, id int, name text, loaded_at timestamptz, source_position cdc_position);
CREATE TABLE derived (id int PRIMARY KEY, name text, score float8, "em bedding" text, loaded_at timestamptz,
	twice text GENERATED ALWAYS AS (name || name) STORED);
SELECT cdc_attach('derived', 'derived_events', except_columns => '{loaded_at}');
SELECT cdc_attach('derived', guard => 'error');
SELECT cdc_attach('derived', consume => 'delete');
SELECT cdc_attach('derived', 'derived_events');
CREATE TABLE derived_row (id int PRIMARY KEY, name text, score float8);
SELECT cdc_attach('derived_row', 'derived_events', tombstones => 'row', except_columns => '{loaded_at}');
CREATE TABLE all_fed (id int PRIMARY KEY, name text, loaded_at timestamptz);
SELECT cdc_attach('all_fed', 'derived_events');
-- what it warns of
INSERT INTO derived_events VALUES ('c', 1, 'a', now(), '0/100');
SELECT applied('derived', 'derived_events');
SET cdc_precedence.bypass_guard = on;
UPDATE derived SET score = 0.5;
INSERT INTO derived_events VALUES ('d', 1, NULL, now(), '0/200');
SELECT applied('derived', 'derived_events');
INSERT INTO derived_events VALUES ('c', 1, 'a', now(), '0/300');
SELECT applied('derived', 'derived_events');
SELECT id, name, score FROM derived;

SET client_min_messages = error;
DROP SCHEMA append_only CASCADE;
DROP ROLE regress_append_owner, regress_append_writer;
