-- What a target can be: partitioned in every way, unlogged, temporary, with
-- triggers of every kind, published, tied by foreign keys; in both homes, each
-- compared with what plain SQL makes of the same log.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA targets_kinds;
SET search_path = targets_kinds, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/target_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

-- n-th event: which key, what it does, at a position of its own
CREATE VIEW happens AS SELECT n, abs(hashint8(n)) % 17 AS k, CASE WHEN abs(hashint8(n + 1000)) % 3 = 0 THEN 'd' ELSE 'u' END AS op,
	cdc_position(pg_lsn '1/0' + (n / 4)::numeric, n % 4) AS pos FROM generate_series(1, 150) n;

--
-- Partitions
--
SELECT make('by_range', 'CREATE TABLE %s (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
	CREATE TABLE %s_low PARTITION OF %s FOR VALUES FROM (MINVALUE) TO (5);
	CREATE TABLE %s_mid (x int, v text, id int NOT NULL, y int DEFAULT 3); ALTER TABLE %s_mid DROP x, DROP y; ALTER TABLE %s ATTACH PARTITION %s_mid FOR VALUES FROM (5) TO (10);
	CREATE TABLE %s_high PARTITION OF %s DEFAULT', 'v text, id int');
INSERT INTO by_range_log SELECT op, CASE WHEN op = 'u' THEN 'v' || n END, k, pos FROM happens;
SELECT converges('by range', 'by_range', 'id', 'v');
SELECT expect('every partition has rows', count(DISTINCT tableoid)::text, '3') FROM by_range_table;

SELECT make('by_list', 'CREATE TABLE %s (gone int, r text, v text, id int, n int DEFAULT 7, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
	CREATE TABLE %s_a PARTITION OF %s FOR VALUES IN (''a'', ''b'');
	CREATE TABLE %s_c (n int DEFAULT 8, v text, r text NOT NULL, more int, id int NOT NULL, gone int); ALTER TABLE %s_c DROP more; ALTER TABLE %s ATTACH PARTITION %s_c FOR VALUES IN (''c'');
	ALTER TABLE %s DROP gone', 'id int, v text, r text');
INSERT INTO by_list_log SELECT op, k, CASE WHEN op = 'u' THEN 'v' || n END, chr(97 + n % 3), pos FROM happens;
SELECT converges('by list, dropped columns above and below', 'by_list', 'id; r', 'v');
-- the default is the partitioned table's: a routed row
SELECT expect('defaults of the table that is named, ' || t, rows_of(format('SELECT DISTINCT n FROM %I', t)), '(7)') FROM unnest('{by_list_row,by_list_table}'::text[]) t;

SELECT make('by_hash', 'CREATE TABLE %s (id bigint, v text, PRIMARY KEY (id)) PARTITION BY HASH (id);
	CREATE TABLE %s_0 PARTITION OF %s FOR VALUES WITH (MODULUS 3, REMAINDER 0); CREATE TABLE %s_1 PARTITION OF %s FOR VALUES WITH (MODULUS 3, REMAINDER 1);
	CREATE UNLOGGED TABLE %s_2 PARTITION OF %s FOR VALUES WITH (MODULUS 3, REMAINDER 2)', 'id text, v text');
INSERT INTO by_hash_log SELECT op, k, 'v' || n, pos FROM happens;
SELECT converges('by hash, one of them unlogged', 'by_hash', 'id', 'v');

SELECT make('two_levels', 'CREATE TABLE %s (id int, r text, d date, v text, PRIMARY KEY (r, d, id)) PARTITION BY LIST (r);
	CREATE TABLE %s_eu PARTITION OF %s FOR VALUES IN (''eu'') PARTITION BY RANGE (d);
	CREATE TABLE %s_eu_1 PARTITION OF %s_eu FOR VALUES FROM (''2024-01-01'') TO (''2024-02-01'');
	CREATE TABLE %s_eu_2 (v text, d date NOT NULL, junk text, id int NOT NULL, r text NOT NULL); ALTER TABLE %s_eu_2 DROP junk;
	ALTER TABLE %s_eu ATTACH PARTITION %s_eu_2 FOR VALUES FROM (''2024-02-01'') TO (''2024-03-01'');
	CREATE TABLE %s_us (d date NOT NULL, v text, r text NOT NULL, id int NOT NULL) PARTITION BY HASH (id, r);
	CREATE TABLE %s_us_0 PARTITION OF %s_us FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE %s_us_1 PARTITION OF %s_us FOR VALUES WITH (MODULUS 2, REMAINDER 1);
	ALTER TABLE %s ATTACH PARTITION %s_us DEFAULT', 'v text, d date, r text, id int');
INSERT INTO two_levels_log SELECT op, CASE WHEN op = 'u' THEN 'v' || n END, date '2024-01-31' + k % 2, CASE k % 3 WHEN 0 THEN 'us' ELSE 'eu' END, k, pos FROM happens;
SELECT converges('two levels', 'two_levels', 'id; r; d', 'v');
-- no partition: the server's error, nothing written; a stale or unseen one is another matter
TRUNCATE two_levels_event;
INSERT INTO two_levels_event VALUES ('u', 'good', '2024-01-31', 'eu', 1, '2/1'), ('u', 'bad', '2024-12-31', 'eu', 1, '2/1');
SELECT apply_refused('no partition for it, ' || t, t, 'two_levels_event', '', '23514', NULL, '', false) FROM unnest('{two_levels_row,two_levels_table}'::text[]) t;
SELECT expect('nothing of it, ' || home, differs('two_levels', home, 'id; r; d', 'v'), NULL) FROM unnest('{row,table}'::text[]) home;
-- a partition detached takes its rows along, and what it holds is dead for the rest
ALTER TABLE by_range_row DETACH PARTITION by_range_row_mid;
ALTER TABLE by_range_table DETACH PARTITION by_range_table_mid;
DELETE FROM by_range_log WHERE id BETWEEN 5 AND 9;
DELETE FROM by_range_table_tombstones WHERE id BETWEEN 5 AND 9;
INSERT INTO by_range_log SELECT 'u', 'later', k, '3/0' FROM generate_series(1, 20, 3) k;
SELECT converges('a partition less', 'by_range', 'id', 'v');

--
-- Unlogged and temporary tables
--
SELECT make('quick', 'CREATE UNLOGGED TABLE %s (id int PRIMARY KEY, v text)', 'id int, v text');
INSERT INTO quick_log SELECT op, k, 'v' || n, pos FROM happens;
SELECT converges('unlogged', 'quick', 'id', 'v');
SELECT expect('so are its tombstones', relpersistence::text, 'u') FROM pg_class WHERE oid = 'quick_table_tombstones'::regclass;
SELECT make('passing', 'CREATE TEMP TABLE %s (id int PRIMARY KEY, v text)', 'id int, v text');
INSERT INTO passing_log SELECT op, k, 'v' || n, pos FROM happens;
SELECT converges('temporary', 'passing', 'id', 'v');
SELECT expect('so are its tombstones', relpersistence::text, 't') FROM pg_class WHERE relname = 'passing_table_tombstones';
SELECT make('passing_parts', 'CREATE TEMP TABLE %s (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TEMP TABLE %s_1 PARTITION OF %s DEFAULT', 'id int, v text');
INSERT INTO passing_parts_log SELECT op, k, 'v' || n, pos FROM happens;
SELECT converges('temporary partitions', 'passing_parts', 'id', 'v');
BEGIN;
CREATE TEMP TABLE brief (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean) ON COMMIT DROP;
SELECT expect('one that goes with its transaction', applied('brief', 'passing_log') ~ '^inserted=\d+ deleted=\d+ superseded=\d+$' || '', 'true');
SELECT expect('as the others', rows_of('SELECT id, v, source_position FROM brief WHERE NOT deleted'), rows_of('SELECT id, v, source_position FROM passing_table'));
COMMIT;

--
-- Published: what UPDATE and DELETE ask for, apply asks for
--
SELECT make('published', 'CREATE TABLE %s (id int PRIMARY KEY, v text)', 'id int, v text');
INSERT INTO published_log SELECT op, k, 'v' || n, pos FROM happens;
CREATE PUBLICATION targets_kinds_pub FOR TABLE published_row, published_table;
SELECT converges('published', 'published', 'id', 'v');
CREATE PUBLICATION targets_kinds_all FOR ALL TABLES;
TRUNCATE published_log;
INSERT INTO published_log SELECT 'u', i, 'w', cdc_position '5/0' FROM generate_series(0, 16) i UNION ALL SELECT 'd', i, 'w', '5/1' FROM generate_series(1, 5) i;
SELECT converges('all tables published, side tables too', 'published', 'id', 'v');
DROP PUBLICATION targets_kinds_all;
ALTER TABLE published_row REPLICA IDENTITY NOTHING;
ALTER TABLE published_table REPLICA IDENTITY NOTHING;
UPDATE published_event SET source_position = '6/0';
DELETE FROM published_event WHERE op = 'd';
SELECT apply_refused('no replica identity, ' || t, t, 'published_event', '', '55000', t, '', false) FROM unnest('{published_row,published_table}'::text[]) t;
DROP PUBLICATION targets_kinds_pub;

--
-- Triggers: each sees what an ordinary statement shows it
--
CREATE TABLE seen (target text, what text, n bigint, keys text);
CREATE FUNCTION see_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen VALUES (TG_TABLE_NAME, concat_ws(' ', TG_WHEN, TG_LEVEL, TG_OP), 1, (CASE TG_OP WHEN 'DELETE' THEN OLD.id ELSE NEW.id END)::text);
	RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE FUNCTION see_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen VALUES (TG_TABLE_NAME, concat_ws(' ', TG_WHEN, TG_LEVEL, TG_OP), 1, '');
	RETURN NULL;
END $$;
CREATE FUNCTION see_tables() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP <> 'INSERT' THEN
		INSERT INTO seen SELECT TG_TABLE_NAME, TG_OP || ' old', count(*), string_agg(id::text, ',' ORDER BY id) FROM was;
	END IF;
	IF TG_OP <> 'DELETE' THEN
		INSERT INTO seen SELECT TG_TABLE_NAME, TG_OP || ' new', count(*), string_agg(id || v, ',' ORDER BY id) FROM comes;
	END IF;
	RETURN NULL;
END $$;
SELECT make('watched', 'CREATE TABLE %s (id int PRIMARY KEY, v text);
	CREATE TRIGGER b_row BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION see_row();
	CREATE TRIGGER a_row AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION see_row();
	CREATE TRIGGER b_statement BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION see_statement();
	CREATE TRIGGER a_statement AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION see_statement();
	CREATE TRIGGER t_insert AFTER INSERT ON %s REFERENCING NEW TABLE AS comes FOR EACH STATEMENT EXECUTE FUNCTION see_tables();
	CREATE TRIGGER t_update AFTER UPDATE ON %s REFERENCING NEW TABLE AS comes OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION see_tables();
	CREATE TRIGGER t_delete AFTER DELETE ON %s REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION see_tables();
	CREATE CONSTRAINT TRIGGER deferred AFTER INSERT OR UPDATE OR DELETE ON %s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION see_row()', 'id int, v text');
INSERT INTO watched_log SELECT 'c', i, 'a', '1/1' FROM generate_series(1, 6) i;
INSERT INTO watched_event TABLE watched_log;
SELECT expect('first, ' || t, applied(t, 'watched_event'), 'inserted=6') FROM unnest('{watched_row,watched_table}'::text[]) t;
TRUNCATE seen, watched_event;
INSERT INTO watched_event VALUES ('u', 1, 'b', '1/2'), ('u', 2, 'b', '1/2'), ('d', 3, NULL, '1/2'), ('d', 4, NULL, '1/2'), ('c', 7, 'b', '1/2'), ('c', 8, 'b', '1/2'), ('u', 5, 'z', '1/0'), ('d', 9, NULL, '1/2');
INSERT INTO watched_log TABLE watched_event;
SELECT expect('then, ' || t, applied(t, 'watched_event'), 'inserted=2 updated=2 deleted=3 stale=1') FROM unnest('{watched_row,watched_table}'::text[]) t;
-- the same by hand: what INSERT, UPDATE and DELETE of these rows make known
CREATE FUNCTION was_seen(t text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(what || ' ' || n || ' ' || keys, '; ' ORDER BY what COLLATE "C") FROM (SELECT what, sum(n) AS n, string_agg(keys, ',' ORDER BY keys COLLATE "C") AS keys FROM seen WHERE target = t GROUP BY what) s
$$;
CREATE TEMP TABLE by_apply AS SELECT t, was_seen(t) AS seen FROM unnest('{watched_row,watched_table}'::text[]) t;
TRUNCATE seen;
BEGIN;
CREATE TABLE again_row (LIKE watched_row INCLUDING ALL);
CREATE TABLE again_table (LIKE watched_table INCLUDING ALL);
INSERT INTO again_row SELECT id, 'a', '1/1', false FROM generate_series(1, 6) id;
INSERT INTO again_table SELECT id, 'a', '1/1' FROM generate_series(1, 6) id;
SELECT replace(pg_get_triggerdef(oid), 'targets_kinds.watched_', 'targets_kinds.again_') FROM pg_trigger WHERE tgrelid IN ('watched_row'::regclass, 'watched_table'::regclass) AND tgfoid::regproc::text ~ 'see_' ORDER BY tgrelid::regclass::text, tgname \gexec
INSERT INTO again_row VALUES (7, 'b', '1/2', false), (8, 'b', '1/2', false), (9, NULL, '1/2', true);
UPDATE again_row SET deleted = id IN (3, 4), v = CASE WHEN id IN (3, 4) THEN v ELSE 'b' END, source_position = '1/2' WHERE id < 5;
DELETE FROM again_table WHERE id IN (3, 4);
UPDATE again_table SET v = 'b', source_position = '1/2' WHERE id IN (1, 2);
INSERT INTO again_table VALUES (7, 'b', '1/2'), (8, 'b', '1/2');
COMMIT;
SELECT expect('triggers see what plain statements show, ' || t, seen, was_seen(replace(t, 'watched', 'again'))) FROM by_apply;
TRUNCATE seen;
SELECT expect('and nothing of a replay, ' || t, applied(t, 'watched_event') || coalesce(was_seen(t), ' none'), 'stale=1 duplicate=7 none') FROM unnest('{watched_row,watched_table}'::text[]) t;
SELECT expect('as plain SQL has it, ' || home, differs('watched', home, 'id', 'v'), NULL) FROM unnest('{row,table}'::text[]) home;

-- triggers that change the row or drop it
CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.v LIKE 'drop%' THEN
		RETURN NULL;
	END IF;
	NEW.v := upper(NEW.v);
	RETURN NEW;
END $$;
SELECT make('loud', 'CREATE TABLE %s (id int PRIMARY KEY, v text, len int GENERATED ALWAYS AS (length(v)) STORED) PARTITION BY RANGE (id);
	CREATE TABLE %s_1 PARTITION OF %s FOR VALUES FROM (0) TO (9); CREATE TABLE %s_2 (v text, len int GENERATED ALWAYS AS (length(v)) STORED, id int NOT NULL);
	ALTER TABLE %s ATTACH PARTITION %s_2 FOR VALUES FROM (9) TO (99);
	CREATE TRIGGER shout BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION shout()', 'id int, v text', ', on_same_position => ''keep''');
INSERT INTO loud_log SELECT op, k, repeat('v', n % 9) || n, pos FROM happens;
SELECT converges('a trigger that changes the row', 'loud', 'id', 'upper(v); length(v)');
TRUNCATE loud_event;
INSERT INTO loud_event SELECT CASE WHEN i % 4 = 0 THEN 'd' ELSE 'u' END, i, 'drop' || i, '4/1' FROM generate_series(0, 20) i;
SELECT expect('one that drops it, side table', applied('loud_table', 'loud_event'), 'deleted=6 ignored=15');
SELECT expect('nothing is remembered of what was dropped', count(*)::text, '0') FROM loud_table WHERE source_position = '4/1';
-- afterwards the same events are taken, in both homes to the same end
DROP TRIGGER shout ON loud_row;
DROP TRIGGER shout ON loud_table;
INSERT INTO loud_log TABLE loud_event;
SELECT expect('once they may', applied('loud_table', 'loud_event') ~ 'duplicate=6$' || '', 'true');
SELECT expect('the other home had none of them yet', applied('loud_row', 'loud_event') ~ 'deleted=6$' || '', 'true');
SELECT expect('as plain SQL has it, ' || home, differs('loud', home, 'id', 'CASE WHEN source_position < ''4/1'' THEN upper(v) ELSE v END; length(v)'), NULL) FROM unnest('{row,table}'::text[]) home;

--
-- Foreign keys in both directions
--
CREATE TABLE country (code text PRIMARY KEY);
INSERT INTO country SELECT chr(97 + i) FROM generate_series(0, 3) i;
SELECT make('city', 'CREATE TABLE %s (id int PRIMARY KEY, country text REFERENCES country, twin int REFERENCES %s DEFERRABLE INITIALLY DEFERRED, v text);
	CREATE TABLE %s_street (sid int PRIMARY KEY, id int REFERENCES %s ON DELETE CASCADE ON UPDATE CASCADE);
	CREATE TABLE %s_map (mid int PRIMARY KEY, id int REFERENCES %s ON DELETE SET NULL)', 'id int, country text, twin int, v text');
INSERT INTO city_log SELECT CASE WHEN k < 5 THEN 'u' ELSE op END, k, chr((97 + n % 4)), NULLIF(n % 5, 4), 'v' || n, pos FROM happens;
INSERT INTO city_log SELECT 'u', i, 'a', NULL, 'first', cdc_position('0/1', i) FROM generate_series(0, 4) i;
BEGIN;
SELECT converges('refers to another table and to itself', 'city', 'id', 'country; twin; v');
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
INSERT INTO city_row_street SELECT id, id FROM city_row WHERE NOT deleted;
INSERT INTO city_table_street SELECT id, id FROM city_table;
INSERT INTO city_row_map SELECT id, id FROM city_row WHERE NOT deleted;
INSERT INTO city_table_map SELECT id, id FROM city_table;
TRUNCATE city_event;
INSERT INTO city_event SELECT CASE WHEN id % 2 = 0 THEN 'd' ELSE 'u' END, id, country, NULL, 'later', '3/1' FROM city_table WHERE id > 4;
INSERT INTO city_log TABLE city_event;
SELECT expect('the same of both', applied('city_row', 'city_event'), applied('city_table', 'city_event'));
SELECT expect('as plain SQL has it, ' || home, differs('city', home, 'id', 'country; twin; v'), NULL) FROM unnest('{row,table}'::text[]) home;
SELECT expect('cascades follow a row that goes', rows_of('city_table_street'), rows_of('SELECT id AS sid, id FROM city_table'));
SELECT expect('set to NULL', rows_of('SELECT mid FROM city_table_map WHERE id IS NULL'), rows_of('SELECT id FROM city_event WHERE op = ''d'''));
SELECT expect('in the row no row goes', rows_of('SELECT id FROM city_row_map'), rows_of('SELECT mid FROM city_table_map'));
TRUNCATE city_event;
INSERT INTO city_event VALUES ('u', 1, 'a', NULL, 'good', '3/2'), ('u', 2, 'zz', NULL, 'bad', '3/2');
SELECT apply_refused('a reference to nothing, ' || t, t, 'city_event', '', '23503', NULL, '', false) FROM unnest('{city_row,city_table}'::text[]) t;
UPDATE city_event SET twin = 77, country = 'a';
BEGIN;
SELECT expect('deferred, ' || t, applied(t, 'city_event'), 'updated=2') FROM unnest('{city_row,city_table}'::text[]) t;
SELECT refused('until its end', 'SET CONSTRAINTS ALL IMMEDIATE', '23503', NULL, '', false);
ROLLBACK;

--
-- Refused as targets, attached or not, with whatever is in staging
--
CREATE TABLE parent (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent);
CREATE VIEW simple_view AS SELECT * FROM child;
CREATE MATERIALIZED VIEW stored_view AS SELECT * FROM child;
CREATE FOREIGN DATA WRAPPER targets_kinds_wrapper;
CREATE SERVER targets_kinds_server FOREIGN DATA WRAPPER targets_kinds_wrapper;
CREATE FOREIGN TABLE remote (id int NOT NULL, v text, source_position cdc_position, deleted boolean) SERVER targets_kinds_server;
TRUNCATE quick_event;
SELECT refused(t || CASE WHEN a THEN ', attached' ELSE '' END, format(CASE WHEN a THEN 'SELECT cdc_attach(%L, ''quick_event'')' ELSE 'SELECT cdc_apply(%L, ''quick_event'')' END, t), '42809', t, '', false)
FROM unnest('{parent,simple_view,stored_view,remote}'::text[]) t, unnest('{f,t}'::bool[]) a;
-- the child of an inheritance parent is a table like any other
INSERT INTO quick_event SELECT DISTINCT ON (id) * FROM quick_log ORDER BY id, source_position DESC;
SELECT expect('a child', applied('child', 'quick_event') ~ '^inserted=\d+ deleted=\d+$' || '', 'true');
SELECT expect('as the unlogged one', rows_of('SELECT id, v, source_position FROM child WHERE NOT deleted'), rows_of('SELECT id, v, source_position FROM quick_table'));

DROP SCHEMA targets_kinds CASCADE;
DROP FOREIGN DATA WRAPPER targets_kinds_wrapper CASCADE;
