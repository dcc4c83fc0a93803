-- Columns, types, privileges, constraints and triggers: what an ordinary
-- statement by the caller would do.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA apply_columns;
SET search_path = apply_columns, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET datestyle = 'ISO, MDY';
SET timezone = 'UTC';
SET intervalstyle = 'postgres';

--
-- Types
--
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN posint AS int CHECK (value > 0);
CREATE TYPE point2 AS (x int, y int);
CREATE TABLE typed (
	id uuid PRIMARY KEY, n int, big bigint, num numeric(9, 3), f float8, b boolean, m mood, ms mood[], j jsonb, d posint,
	t timestamptz, day date, v varchar(5), c char(3), bytes bytea, ints int[], p point2, r int4range, ip inet, iv interval,
	source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE typed_event (op text, id text, n text, big text, num text, f text, b text, m text, ms text, j text, d text,
	t text, day text, v text, c text, bytes text, ints text, p text, r text, ip text, iv text, source_position cdc_position);
INSERT INTO typed_event VALUES ('c', '00000000-0000-0000-0000-00000000000A', '-7', '9007199254740993', '12.3450', '1e3', 'yes', 'happy', '{sad,ok}', '{"a": [1, null]}', '5',
	'2024-06-02 05:00:05.25+02', '2024-06-02', 'short', 'abc', '\x00ff2a', '{1,NULL,3}', '(1,2)', '[1,5)', '10.0.0.1/8', '90 minutes', '1/1');
SELECT apply_is('from text to every type', 'typed', 'typed_event', '', 'inserted=1', 'typed',
	'(00000000-0000-0000-0000-00000000000a,-7,9007199254740993,12.345,1000,t,happy,"{sad,ok}","{""a"": [1, null]}",5,"2024-06-02 03:00:05.25+00",2024-06-02,short,abc,"\\x00ff2a","{1,NULL,3}","(1,2)","[1,5)",10.0.0.1/8,01:30:00,1/1,f)');
SELECT expect('and again', applied('typed', 'typed_event', 'on_same_position => ''error'''), 'duplicate=1');
UPDATE typed_event SET id = upper(id), op = 'd', source_position = '1/2';
SELECT expect('a delete finds the key through the same conversion', applied('typed', 'typed_event'), 'deleted=1');
UPDATE typed_event SET op = 'c', source_position = '1/3';
SELECT expect('back', applied('typed', 'typed_event'), 'inserted=1');
CREATE FUNCTION bad_value(col text, value text, state text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	keep typed_event;
	result text;
BEGIN
	SELECT * INTO keep FROM typed_event;
	EXECUTE format('UPDATE typed_event SET %I = %L, source_position = ''9/9''', col, value);
	result := apply_refused(format('%s = %s', col, value), 'typed', 'typed_event', '', state, NULL, '', false);
	DELETE FROM typed_event;
	INSERT INTO typed_event SELECT keep.*;
	RETURN result;
END $$;
SELECT bad_value(c, v, s) FROM (VALUES ('m', 'angry', '22P02'), ('ms', '{ok,angry}', '22P02'), ('d', '0', '23514'), ('v', 'longer', '22001'), ('c', 'abcd', '22001'),
	('num', '1234567.1', '22003'), ('n', '99999999999', '22003'), ('j', '{', '22P02'), ('t', 'some day', '22007'), ('id', 'x', '22P02'), ('b', 'perhaps', '22P02')) v(c, v, s);
-- as in INSERT: spaces too many are cut, numeric is rounded
UPDATE typed_event SET v = 'short   ', num = '0.00049', source_position = '2/1';
SELECT apply_is('what INSERT would do', 'typed', 'typed_event', '', 'updated=1', 'SELECT v, num FROM typed', '(short,0.000)');
SELECT expect('the same again is equal', applied('typed', 'typed_event', 'on_same_position => ''error'''), 'duplicate=1');
-- other types than text: assignment casts
CREATE TABLE cast_event (op "char", id uuid, n bigint, big smallint, num float8, f numeric, b boolean, m text, day timestamp, t date, v int, j json, ints smallint[], ip cidr, source_position pg_lsn);
INSERT INTO cast_event VALUES ('u', '00000000-0000-0000-0000-00000000000a', 5, 6, 7.25, 8.5, false, 'sad', '2020-01-01 13:00', '2020-01-02', 12345, '{"a":1}', '{1,2}', '10.0.0.0/8', '3/1');
SELECT apply_is('assignment casts', 'typed', 'cast_event', '', 'updated=1', 'SELECT n, big, num, f, b, m, day, t, v, j, ints, ip, c, source_position FROM typed',
	'(5,6,7.250,8.5,f,sad,2020-01-01,"2020-01-02 00:00:00+00",12345,"{""a"": 1}","{1,2}",10.0.0.0/8,abc,3/1)');
UPDATE cast_event SET n = 3000000000, source_position = '4/1';
SELECT apply_refused('bigint to int', 'typed', 'cast_event', '', '22003', NULL, '', false);
UPDATE cast_event SET n = 1, v = 123456;
SELECT apply_refused('int to varchar(5)', 'typed', 'cast_event', '', '22001', NULL, '', false);

--
-- Names, orders, dropped columns
--
CREATE TABLE "Odd ""Table" ("select" int, gone int, "Käse" text, "from" int DEFAULT 4, gone2 text, "a b" text, "Position" cdc_position, "Deleted?" boolean, PRIMARY KEY ("a b", "select"));
ALTER TABLE "Odd ""Table" DROP gone, DROP gone2;
CREATE TABLE "odd events" (gone int, "Position" cdc_position, "a b" text, "$op" text, gone2 text, "Käse" text, "select" int);
ALTER TABLE "odd events" DROP gone, DROP gone2;
INSERT INTO "odd events" VALUES ('1/1', 'x', 'c', 'brie', 1), ('1/2', 'y', 'c', 'feta', 1), ('1/3', 'y', 'd', NULL, 1);
SELECT apply_is('odd names', '"Odd ""Table"', '"odd events"', 'op_column => ''$op'', tombstone_column => ''Deleted?''', 'inserted=1 deleted=1 superseded=1',
	'SELECT "select", "Käse", "from", "a b", "Position", "Deleted?" FROM "Odd ""Table"', '(1,brie,4,x,1/1,f) (1,feta,4,y,1/3,t)');
ALTER TABLE "Odd ""Table" ADD added int DEFAULT 9;
ALTER TABLE "odd events" ADD added int;
UPDATE "odd events" SET "Position" = '2/2', added = 8 WHERE "a b" = 'x';
SELECT apply_is('a column added later', '"Odd ""Table"', '"odd events"', 'op_column => ''$op'', tombstone_column => ''Deleted?''', 'updated=1 duplicate=1 superseded=1',
	'SELECT added FROM "Odd ""Table"', '(8) (9)');
SELECT apply_is('staging_filter and staging_position of odd names', '"Odd ""Table"', '"odd events"', $$op_column => '$op', tombstone_column => 'Deleted?', staging_filter => '"a b" = ''x''', staging_position => 'cdc_position_with_epoch("Position", "select")'$$,
	'updated=1', 'SELECT "Position" FROM "Odd ""Table"', '(1/3) (1@2/2)');

-- many columns, in the opposite order
SELECT format('CREATE TABLE many (id int PRIMARY KEY, %s, source_position cdc_position, deleted boolean)', string_agg(format('c%s int', g), ', ' ORDER BY g)) FROM generate_series(1, 300) g \gexec
SELECT format('CREATE TABLE many_event (source_position cdc_position, %s, op text, id int)', string_agg(format('c%s int', g), ', ' ORDER BY g DESC)) FROM generate_series(1, 300) g \gexec
SELECT format('INSERT INTO many_event SELECT ''1'', %s, ''c'', k FROM generate_series(1, 3) k', string_agg(g::text, ', ' ORDER BY g DESC)) FROM generate_series(1, 300) g \gexec
SELECT apply_is('300 columns', 'many', 'many_event', '', 'inserted=3', 'SELECT id, c1, c150, c300 FROM many', '(1,1,150,300) (2,1,150,300) (3,1,150,300)');

-- generated columns, on either side
CREATE TABLE area (id int PRIMARY KEY, w int, h int, size int GENERATED ALWAYS AS (w * h) STORED, source_position cdc_position, deleted boolean);
CREATE TABLE area_event (op text, id int, w int, h int, size int, source_position cdc_position);
INSERT INTO area_event VALUES ('c', 1, 2, 3, 999, '1');
SELECT apply_is('generated', 'area', 'area_event', '', 'inserted=1', 'area', '(1,2,3,6,1,f)');
UPDATE area_event SET w = 5, source_position = '2';
SELECT apply_is('generated anew', 'area', 'area_event', '', 'updated=1', 'SELECT id, w, h, size FROM area', '(1,5,3,15)');
SELECT expect('not compared either', applied('area', 'area_event', 'on_same_position => ''error'''), 'duplicate=1');
CREATE TABLE area_event_g (op text DEFAULT 'u', id int, w int, h int GENERATED ALWAYS AS (w + 1) STORED, source_position cdc_position);
INSERT INTO area_event_g (id, w, source_position) VALUES (1, 7, '3');
SELECT apply_is('generated in staging', 'area', 'area_event_g', '', 'updated=1', 'SELECT id, w, h, size FROM area', '(1,7,8,56)');

--
-- on_schema_change
--
CREATE TABLE drift (id int PRIMARY KEY, v text, note text DEFAULT 'n/a', source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE drift_event (op text, id int, v text, extra numeric(6,2), "Extra 2" text[], source_position cdc_position, loaded_at date);
INSERT INTO drift VALUES (2, 'a', 'keep', '1/1');
INSERT INTO drift_event VALUES ('u', 2, 'b', 1.5, '{p}', '1/2', '2020-01-01'), ('c', 3, 'c', 2.5, '{q}', '1/3', '2020-01-01');
SELECT apply_is('warn, once', 'drift', 'drift_event', '', 'inserted=1 updated=1', 'SELECT id, v, note FROM drift', '(2,b,keep) (3,c,n/a)');
SELECT apply_is('ignore', 'drift', 'drift_event', 'on_schema_change => ''ignore''', 'duplicate=2', 'SELECT id, v, note FROM drift', '(2,b,keep) (3,c,n/a)');
SELECT apply_is('named in except_columns: silent', 'drift', 'drift_event', 'except_columns => ''{extra,Extra 2,loaded_at}''', 'duplicate=2', 'SELECT id, v, note FROM drift', '(2,b,keep) (3,c,n/a)');
SELECT apply_refused('fail', 'drift', 'drift_event', 'on_schema_change => ''fail''', '42703|22023|55000', 'extra', 'h');
SELECT apply_is('fail, but all is named', 'drift', 'drift_event', 'on_schema_change => ''fail'', except_columns => ''{extra,Extra 2,loaded_at}''', 'duplicate=2', 'SELECT id, v, note FROM drift', '(2,b,keep) (3,c,n/a)');
UPDATE drift_event SET source_position = '1/4' WHERE id = 3;
SELECT apply_is('append_new_columns', 'drift', 'drift_event', 'on_schema_change => ''append_new_columns'', except_columns => ''{loaded_at}''', 'updated=1 duplicate=1',
	'SELECT id, v, note, extra, "Extra 2" FROM drift', '(2,b,keep,,) (3,c,n/a,2.50,{q})');
SELECT expect('with staging''s types', string_agg(format('%s %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum), 'extra numeric(6,2), Extra 2 text[]')
FROM pg_attribute WHERE attrelid = 'drift'::regclass AND attname IN ('extra', 'Extra 2', 'loaded_at');
SELECT apply_is('nothing new', 'drift', 'drift_event', 'on_schema_change => ''append_new_columns'', except_columns => ''{loaded_at}''', 'duplicate=2', 'SELECT id, extra FROM drift', '(2,) (3,2.50)');
ALTER TABLE drift_event ADD later int DEFAULT 5;
SELECT expect('a dry run adds nothing', applied('drift', 'drift_event', 'on_schema_change => ''append_new_columns'', dry_run => true'), 'duplicate=2');
SELECT expect('a dry run adds nothing', count(*)::text, '0') FROM pg_attribute WHERE attrelid = 'drift'::regclass AND attname = 'later';

--
-- Keys match by their index's own equality
--
CREATE TABLE num_key (id numeric PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
CREATE TABLE num_event (op text, id numeric, v text, source_position cdc_position);
INSERT INTO num_event VALUES ('c', 1.0, 'a', '1'), ('u', 1.00, 'b', '2');
SELECT apply_is('1.0 and 1.00 are one key', 'num_key', 'num_event', '', 'inserted=1 superseded=1', 'SELECT id, v FROM num_key', '(1.00,b)');
TRUNCATE num_event;
INSERT INTO num_event VALUES ('u', 1, 'c', '3');
SELECT apply_is('the image is written as it comes', 'num_key', 'num_event', '', 'updated=1', 'SELECT id, v FROM num_key', '(1,c)');
UPDATE num_event SET id = 1.000, op = 'd', source_position = '4';
SELECT apply_is('a delete finds it', 'num_key', 'num_event', '', 'deleted=1', 'SELECT v, deleted FROM num_key', '(c,t)');
-- text patterns, another operator class of the key's index
CREATE TABLE case_event (op text, name text, v text, source_position cdc_position);
INSERT INTO case_event SELECT 'u', CASE i % 3 WHEN 0 THEN upper(n) WHEN 1 THEN lower(n) ELSE initcap(n) END, i::text, cdc_position_from_numbers(i)
FROM (SELECT i, md5((i % 100)::text) AS n FROM generate_series(1, 900) i) s ORDER BY md5(i::text);
CREATE TABLE pattern_key (name text NOT NULL, v text, source_position cdc_position, deleted boolean);
CREATE UNIQUE INDEX ON pattern_key (name text_pattern_ops);
SELECT apply_is('text_pattern_ops', 'pattern_key', 'case_event', 'key_columns => ''{name}''', format('inserted=%s superseded=%s', n, 900 - n), 'SELECT count(*) FROM pattern_key', format('(%s)', n))
FROM (SELECT count(DISTINCT name COLLATE "C") AS n FROM case_event) d;
-- NULLs in a key column that allows them
CREATE TABLE null_key (a int, b int, v text, source_position cdc_position, deleted boolean, UNIQUE (a, b));
CREATE TABLE null_event (op text, a int, b int, v text, source_position cdc_position);
INSERT INTO null_event VALUES ('c', 1, 1, 'x', '1'), ('c', 1, NULL, 'y', '2');
SELECT apply_refused('a NULL in a key', 'null_key', 'null_event', 'key_columns => ''{a,b}''', '23502', 'b', 'd');

--
-- Privileges: before anything is read, whatever the batch holds
--
CREATE ROLE regress_apply_user;
GRANT USAGE ON SCHEMA apply_columns TO regress_apply_user;
CREATE TABLE own (id int PRIMARY KEY, v text, secret text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE own_event (op text, id int, v text, source_position cdc_position);
CREATE FUNCTION as_user(what text, state text, args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text := 'allowed';
BEGIN
	SET LOCAL ROLE regress_apply_user;
	BEGIN
		EXECUTE format('SELECT counts(r) FROM cdc_apply(''own'', ''own_event''%s) r', args) INTO result;
	EXCEPTION WHEN insufficient_privilege THEN
		result := SQLSTATE;
	END;
	RESET ROLE;
	RETURN expect(what, result, state);
END $$;
SELECT as_user('no privilege at all, nothing to do', '42501');
GRANT SELECT ON own_event TO regress_apply_user;
GRANT SELECT, INSERT ON own TO regress_apply_user;
SELECT as_user('no UPDATE, nothing to do', '42501');
GRANT UPDATE (id, v, source_position) ON own TO regress_apply_user;
SELECT as_user('no UPDATE of the tombstone column, nothing to do', '42501');
INSERT INTO own_event VALUES ('c', 1, 'a', '1');
SELECT as_user('nor with an insert alone', '42501');
GRANT UPDATE (deleted) ON own TO regress_apply_user;
SELECT as_user('all that is needed', 'inserted=1');
REVOKE INSERT ON own FROM regress_apply_user;
SELECT as_user('no INSERT, a replay', '42501');
GRANT INSERT (id, v, source_position, deleted) ON own TO regress_apply_user;
SELECT as_user('INSERT by column', 'duplicate=1');
REVOKE UPDATE (v) ON own FROM regress_apply_user;
SELECT as_user('no UPDATE of one applied column', '42501');
SELECT as_user('which then is excepted', 'duplicate=1', ', except_columns => ''{v}''');
GRANT UPDATE (v) ON own TO regress_apply_user;
REVOKE SELECT ON own FROM regress_apply_user;
SELECT as_user('no SELECT on the target', '42501');
GRANT SELECT ON own TO regress_apply_user;
SELECT as_user('no DELETE on staging to consume', '42501', ', consume => ''delete''');
GRANT DELETE ON own_event TO regress_apply_user;
SELECT as_user('DELETE on staging', 'duplicate=1', ', consume => ''delete''');
REVOKE SELECT ON own_event FROM regress_apply_user;
SELECT as_user('no SELECT on staging', '42501');
GRANT SELECT ON own_event TO regress_apply_user;
-- only the owner may add columns
ALTER TABLE own_event ADD extra int;
SELECT as_user('append_new_columns', '42501', ', on_schema_change => ''append_new_columns''');
ALTER TABLE own_event DROP extra;
DROP OWNED BY regress_apply_user;
DROP ROLE regress_apply_user;

--
-- Partitioned targets
--
CREATE TABLE parted (id int, region text, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE parted_eu PARTITION OF parted FOR VALUES IN ('eu');
CREATE TABLE parted_us (deleted boolean NOT NULL DEFAULT false, v text, gone int, region text NOT NULL, source_position cdc_position, id int NOT NULL);
ALTER TABLE parted_us DROP gone;
ALTER TABLE parted ATTACH PARTITION parted_us FOR VALUES IN ('us');
CREATE TABLE parted_event (op text, id int, region text, v text, source_position cdc_position);
INSERT INTO parted_event VALUES ('c', 1, 'eu', 'a', '1'), ('c', 2, 'us', 'b', '2'), ('u', 2, 'us', 'c', '3'), ('d', 3, 'us', NULL, '4');
SELECT apply_is('partition routing', 'parted', 'parted_event', '', 'inserted=2 deleted=1 superseded=1',
	'SELECT tableoid::regclass, id, v, source_position, deleted FROM parted', '(parted_eu,1,a,1,f) (parted_us,2,c,3,f) (parted_us,3,,4,t)');
SELECT apply_is('again', 'parted', 'parted_event', '', 'duplicate=3 superseded=1',
	'SELECT tableoid::regclass, id, v, source_position, deleted FROM parted', '(parted_eu,1,a,1,f) (parted_us,2,c,3,f) (parted_us,3,,4,t)');
TRUNCATE parted_event;
INSERT INTO parted_event VALUES ('u', 1, 'eu', 'a2', '5'), ('u', 2, 'us', 'c2', '5'), ('c', 3, 'us', 'd', '5'), ('u', 1, 'eu', 'old', '0:1');
SELECT apply_is('updates and a revival', 'parted', 'parted_event', '', 'inserted=1 updated=2 superseded=1',
	'SELECT tableoid::regclass, id, v, source_position, deleted FROM parted', '(parted_eu,1,a2,5,f) (parted_us,2,c2,5,f) (parted_us,3,d,5,f)');
-- a change of the partition needs the old key
ALTER TABLE parted_event ADD __old_id int, ADD __old_region text;
TRUNCATE parted_event;
INSERT INTO parted_event VALUES ('u', 1, 'us', 'moved', '6', 1, 'eu');
SELECT apply_is('a move between partitions', 'parted', 'parted_event', '', 'inserted=1',
	'SELECT tableoid::regclass, id, v, deleted FROM parted WHERE id = 1', '(parted_eu,1,a2,t) (parted_us,1,moved,f)');
TRUNCATE parted_event;
INSERT INTO parted_event VALUES ('c', 9, 'mars', 'x', '7');
SELECT apply_refused('no partition', 'parted', 'parted_event', '', '23514', NULL, '', false);
SELECT apply_is('a leaf partition as target', 'parted_eu', 'parted_event', 'staging_filter => ''region = ''''eu''''''', 'nothing', 'SELECT id FROM parted_eu', '(1)');

--
-- Constraints
--
-- deletes come before upserts: a unique value passes on within a batch
CREATE TABLE mail (id int PRIMARY KEY, email text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE UNIQUE INDEX ON mail (email) WHERE NOT deleted;
CREATE TABLE mail_event (op text, id int, email text, source_position cdc_position);
INSERT INTO mail VALUES (5, 'm@x', '1', false), (1, 'n@x', '1', false);
INSERT INTO mail_event VALUES ('c', 4, 'm@x', '4:2'), ('d', 5, NULL, '4:1'), ('c', 6, 'n@x', '4:4'), ('d', 1, NULL, '4:3');
SELECT apply_is('a value passes on', 'mail', 'mail_event', '', 'inserted=2 deleted=2', 'SELECT id, email, deleted FROM mail', '(1,n@x,t) (4,m@x,f) (5,m@x,t) (6,n@x,f)');
TRUNCATE mail_event;
INSERT INTO mail_event VALUES ('u', 4, 'n@x', '5');
SELECT apply_refused('a value that is taken', 'mail', 'mail_event', '', '23505', NULL, '', false);
INSERT INTO mail_event VALUES ('u', 6, 'm@x', '5');
SELECT apply_refused('values swapped', 'mail', 'mail_event', '', '23505', NULL, '', false);
CREATE TABLE mail_deferred (id int PRIMARY KEY, email text UNIQUE DEFERRABLE, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
INSERT INTO mail_deferred VALUES (4, 'm@x', '1'), (6, 'n@x', '1');
SELECT apply_is('swapped under a deferrable constraint', 'mail_deferred', 'mail_event', '', 'updated=2', 'SELECT id, email FROM mail_deferred', '(4,n@x) (6,m@x)');
-- NOT NULL, exclusion
CREATE TABLE booked (id int PRIMARY KEY, during int4range NOT NULL, source_position cdc_position, deleted boolean NOT NULL DEFAULT false, EXCLUDE USING gist (during WITH &&) WHERE (NOT deleted));
CREATE TABLE booked_event (op text, id int, during int4range, source_position cdc_position);
INSERT INTO booked_event VALUES ('c', 1, '[1,5)', '1'), ('c', 2, '[5,9)', '1');
SELECT apply_is('exclusion', 'booked', 'booked_event', '', 'inserted=2', 'SELECT id, during FROM booked', '(1,"[1,5)") (2,"[5,9)")');
TRUNCATE booked_event;
INSERT INTO booked_event VALUES ('u', 1, '[1,7)', '2');
SELECT apply_refused('exclusion met', 'booked', 'booked_event', '', '23P01', NULL, '', false);
INSERT INTO booked_event VALUES ('d', 2, NULL, '2');
SELECT apply_is('exclusion, the other one deleted', 'booked', 'booked_event', '', 'updated=1 deleted=1', 'SELECT id, during, deleted FROM booked', '(1,"[1,7)",f) (2,"[5,9)",t)');
UPDATE booked_event SET source_position = '3', during = NULL;
SELECT apply_refused('NOT NULL', 'booked', 'booked_event', '', '23502', NULL, '', false);
-- foreign keys: checked as by one statement
CREATE TABLE boss (id int PRIMARY KEY, boss int REFERENCES boss, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE boss_event (op text, id int, boss int, source_position cdc_position);
INSERT INTO boss_event VALUES ('c', 1, 2, '1'), ('c', 2, 3, '2'), ('c', 3, NULL, '3');
SELECT apply_is('a self-reference in any order', 'boss', 'boss_event', '', 'inserted=3', 'SELECT id, boss FROM boss', '(1,2) (2,3) (3,)');
TRUNCATE boss_event;
INSERT INTO boss_event VALUES ('u', 3, 77, '4'), ('u', 1, 3, '4');
SELECT apply_refused('a reference to nothing', 'boss', 'boss_event', '', '23503', NULL, '', false);

--
-- Triggers
--
CREATE TABLE watched (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE watched_event (op text, id int, v text, source_position cdc_position);
CREATE TABLE fired (n serial, what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO fired (what) VALUES (format('%s %s %s', TG_WHEN, TG_LEVEL, TG_OP));
	RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER a BEFORE INSERT OR UPDATE OR DELETE ON watched FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TRIGGER b BEFORE INSERT OR UPDATE OR DELETE ON watched FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER c AFTER INSERT OR UPDATE OR DELETE ON watched FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER d AFTER INSERT OR UPDATE OR DELETE ON watched FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE FUNCTION note_table() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		INSERT INTO fired (what) SELECT format('INSERT of %s: %s', count(*), string_agg(v, ',' ORDER BY v)) FROM new_rows;
	ELSE
		INSERT INTO fired (what) SELECT format('UPDATE of %s: %s', count(*), string_agg(format('%s>%s', o.v, n.v), ',' ORDER BY id)) FROM old_rows o JOIN new_rows n USING (id);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER e AFTER INSERT ON watched REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_table();
CREATE TRIGGER f AFTER UPDATE ON watched REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_table();
CREATE FUNCTION what_fired() RETURNS text LANGUAGE sql AS $$
	WITH gone AS (SELECT what, count(*) FROM fired GROUP BY what)
	SELECT coalesce(string_agg(CASE WHEN count > 1 THEN count || ' x ' ELSE '' END || what, '; ' ORDER BY what COLLATE "C"), 'nothing') FROM gone
$$;
INSERT INTO watched VALUES (1, 'a', '1'), (2, 'b', '1'), (3, 'c', '1'), (4, 'd', '9');
TRUNCATE fired;
INSERT INTO watched_event VALUES ('u', 1, 'A', '2'), ('d', 2, NULL, '2'), ('c', 5, 'E', '2'), ('c', 6, 'F', '2'), ('u', 4, 'D', '2'), ('c', 6, 'f', '1');
SELECT expect('mixed batch', applied('watched', 'watched_event'), 'inserted=2 updated=1 deleted=1 stale=1 superseded=1');
SELECT expect('triggers', what_fired(), '2 x AFTER ROW INSERT; 2 x AFTER ROW UPDATE; AFTER STATEMENT INSERT; AFTER STATEMENT UPDATE; '
	|| '2 x BEFORE ROW INSERT; 2 x BEFORE ROW UPDATE; BEFORE STATEMENT INSERT; BEFORE STATEMENT UPDATE; INSERT of 2: E,F; UPDATE of 2: a>A,b>b');
TRUNCATE fired;
SELECT expect('a replay fires nothing', applied('watched', 'watched_event') || ', ' || what_fired(), 'stale=1 duplicate=4 superseded=1, nothing');
SELECT expect('nor does a dry run', applied('watched', 'watched_event', 'dry_run => true') || ', ' || what_fired(), 'stale=1 duplicate=4 superseded=1, nothing');
TRUNCATE watched_event;
INSERT INTO watched_event VALUES ('u', 1, 'AA', '3');
SELECT expect('updates alone', applied('watched', 'watched_event'), 'updated=1');
SELECT expect('triggers', what_fired(), 'AFTER ROW UPDATE; AFTER STATEMENT UPDATE; BEFORE ROW UPDATE; BEFORE STATEMENT UPDATE; UPDATE of 1: A>AA');
-- a revival in the row home is an update
TRUNCATE fired, watched_event;
INSERT INTO watched_event VALUES ('c', 2, 'B', '3');
SELECT expect('a revival', applied('watched', 'watched_event'), 'inserted=1');
SELECT expect('triggers', what_fired(), 'AFTER ROW UPDATE; AFTER STATEMENT UPDATE; BEFORE ROW UPDATE; BEFORE STATEMENT UPDATE; UPDATE of 1: b>B');
-- a BEFORE trigger that changes a value; one that refuses; ones that may not
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	CASE NEW.v
		WHEN 'skip' THEN RETURN NULL;
		WHEN 'position' THEN NEW.source_position := '77';
		WHEN 'no position' THEN NEW.source_position := NULL;
		WHEN 'key' THEN NEW.id := NEW.id + 1000;
		WHEN 'tombstone' THEN NEW.deleted := NOT NEW.deleted;
		WHEN 'raise' THEN RAISE EXCEPTION 'not this one';
		ELSE NEW.v := NEW.v || '!';
	END CASE;
	RETURN NEW;
END $$;
CREATE TABLE meddled (LIKE watched INCLUDING ALL);
CREATE TRIGGER m BEFORE INSERT OR UPDATE ON meddled FOR EACH ROW EXECUTE FUNCTION meddle();
TRUNCATE watched_event;
INSERT INTO watched_event VALUES ('c', 1, 'a', '1'), ('c', 2, 'skip', '1');
SELECT apply_is('a changed value, a refused row', 'meddled', 'watched_event', '', 'inserted=1 ignored=1', 'meddled', '(1,a!,1,f)');
SELECT apply_is('nothing of it is remembered', 'meddled', 'watched_event', 'on_same_position => ''keep''', 'duplicate=1 ignored=1', 'meddled', '(1,a!,1,f)');
UPDATE watched_event SET v = 'skip', source_position = '2' WHERE id = 1;
SELECT apply_is('an update refused', 'meddled', 'watched_event', '', 'ignored=2', 'meddled', '(1,a!,1,f)');
CREATE FUNCTION meddle_refused(v text, id int) RETURNS text LANGUAGE sql AS $$
	DELETE FROM watched_event;
	INSERT INTO watched_event VALUES ('u', meddle_refused.id, meddle_refused.v, '3');
	SELECT apply_refused(format('a trigger changes the %s of row %s', v, id), 'meddled', 'watched_event', '', '27000', '', 'h');
$$;
SELECT meddle_refused(v, id) FROM unnest('{position,no position,key,tombstone}'::text[]) v, (VALUES (1), (2)) i(id);
SELECT meddle_refused('raise', 1) ~ 'P0001' AS "an error of the trigger's own";
-- constraint triggers and deferred ones run as ever
CREATE TABLE later (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE CONSTRAINT TRIGGER x AFTER INSERT OR UPDATE ON later DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
TRUNCATE fired, watched_event;
INSERT INTO watched_event VALUES ('c', 1, 'a', '1');
BEGIN;
SELECT expect('insert', applied('later', 'watched_event'), 'inserted=1');
SELECT expect('not yet', what_fired(), 'nothing');
COMMIT;
SELECT expect('at commit', what_fired(), 'AFTER ROW INSERT');
-- UPDATE OF columns and WHEN
CREATE TABLE picky (id int PRIMARY KEY, v text, w text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TRIGGER w AFTER UPDATE OF w ON picky FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER v AFTER UPDATE ON picky FOR EACH ROW WHEN (OLD.v IS DISTINCT FROM NEW.v) EXECUTE FUNCTION note();
INSERT INTO picky VALUES (1, 'a', 'w', '0');
TRUNCATE fired;
SELECT expect('update', applied('picky', 'watched_event'), 'updated=1');
SELECT expect('neither column was set to something new', what_fired(), 'nothing');
-- triggers see the call's own rows as one statement does: a row trigger that
-- writes elsewhere, and one that reads the target
CREATE TABLE total (n int);
INSERT INTO total VALUES (0);
CREATE FUNCTION add_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE total SET n = (SELECT count(*) FROM watched WHERE NOT deleted);
	RETURN NULL;
END $$;
CREATE TRIGGER g AFTER INSERT OR UPDATE ON watched FOR EACH STATEMENT EXECUTE FUNCTION add_up();
INSERT INTO watched_event SELECT 'c', g, 'x', '9' FROM generate_series(100, 119) g;
SELECT expect('insert', applied('watched', 'watched_event') ~ 'inserted=20' || '', 'true');
SELECT expect('a statement trigger sees them all', n::text, (SELECT count(*)::text FROM watched WHERE NOT deleted)) FROM total;

SET client_min_messages = warning;
DROP SCHEMA apply_columns CASCADE;
