-- What waits behind a bookmark: rows_waiting of cdc_status, and a new epoch,
-- which rows that were read must not hold up.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA waiting;
SET search_path = waiting, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
-- until no transaction of before is running, an autovacuum's say
CREATE PROCEDURE settle() LANGUAGE plpgsql AS $$
DECLARE
	last xid8 := pg_snapshot_xmax(pg_current_snapshot());
BEGIN
	FOR i IN 1 .. 6000 LOOP
		EXIT WHEN pg_snapshot_xmin(pg_current_snapshot()) >= last;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;

CREATE TABLE landing (op text, id int, v text, source_position cdc_position, kind text, loaded_xid xid8 DEFAULT pg_current_xact_id());
CREATE FUNCTION waits(t text) RETURNS text LANGUAGE sql AS $$ SELECT coalesce(rows_waiting::text, 'unknown') FROM cdc_status WHERE target = t::regclass $$;
-- the same, asked of the table: rows that no call has read
CREATE FUNCTION unread(t text, staging text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT count(*) FROM %s WHERE loaded_xid IS NULL OR loaded_xid >= coalesce((SELECT read_below FROM cdc_targets WHERE target = %L::regclass), ''0'')', staging, t) INTO result;
	RETURN result;
END $$;

CREATE TABLE t (id int PRIMARY KEY, v text);
SELECT cdc_attach('t', 'landing', consume => 'bookmark', except_columns => '{kind}', lineage => 'one');
SELECT expect('nothing', waits('t'), '0');
INSERT INTO landing (op, id, v, source_position) VALUES ('c', 1, 'a', '5/100'), ('c', 2, 'b', '5/110');
CALL settle();
SELECT expect('all, as long as nothing was read', waits('t') || unread('t', 'landing'), '22');
SELECT applied('t', 'landing');
SELECT expect('none', waits('t') || unread('t', 'landing'), '00');
INSERT INTO landing (op, id, v, source_position) VALUES ('u', 1, 'c', '5/120');
INSERT INTO landing (op, id, v, source_position, loaded_xid) VALUES ('u', 1, 'old', '5/050', NULL);
CALL settle();
SELECT expect('new rows, and one without an id', waits('t') || unread('t', 'landing'), '22');
SELECT applied('t', 'landing');
SELECT expect('the one without an id waits for ever', waits('t') || unread('t', 'landing'), '11');

-- a new epoch: not while rows wait, whatever was read
SELECT refused('while one waits', $$SELECT cdc_new_epoch('t', 'two')$$, '55000', 'landing', 'dh');
DELETE FROM landing WHERE loaded_xid IS NULL;
SELECT expect('rows are there that were read', count(*)::text, '3') FROM landing;
INSERT INTO landing (op, id, v, source_position) VALUES ('u', 1, 'of the new log', '1/1');
SELECT refused('while one waits', $$SELECT cdc_new_epoch('t', 'two')$$, '55000', 'landing', 'dh', false);
CREATE TEMPORARY TABLE aside AS SELECT op, id, v, source_position FROM landing WHERE v = 'of the new log';
DELETE FROM landing WHERE v = 'of the new log';
SELECT cdc_new_epoch('t', 'two');
INSERT INTO landing (op, id, v, source_position) SELECT * FROM aside;
CALL settle();
SELECT applied('t', 'landing');
SELECT * FROM t ORDER BY id;
-- all rows by hand: those of the old log get the epoch, too, which is why they must not be read again
SELECT expect('read once', applied('t', 'landing'), 'nothing');

-- rows that the filter leaves out never wait for this target
CREATE TABLE filtered (id int PRIMARY KEY, v text);
SELECT cdc_attach('filtered', 'landing', consume => 'bookmark', staging_filter => 'kind = ''f''', except_columns => '{kind}');
INSERT INTO landing (op, id, v, source_position, kind) VALUES ('c', 7, 'f', '5/100', 'f'), ('c', 8, 'g', '5/110', 'g');
CALL settle();
SELECT applied('filtered', 'landing');
INSERT INTO landing (op, id, v, source_position, kind) VALUES ('c', 9, 'g', '5/120', 'g');
CALL settle();
SELECT cdc_new_epoch('filtered', 'two');
INSERT INTO landing (op, id, v, source_position, kind) VALUES ('c', 7, 'f', '5/130', 'f');
SELECT refused('but one of its own does', $$SELECT cdc_new_epoch('filtered', 'three')$$, '55000', 'landing', 'dh', false);

-- another bookmark is void: everything waits
CREATE TABLE again (id int PRIMARY KEY, v text);
SELECT cdc_attach('again', 'landing', consume => 'bookmark', except_columns => '{kind}');
SELECT (applied('again', 'landing') <> 'nothing')::text;
UPDATE cdc_bookmark SET system_identifier = system_identifier + 1 WHERE target = 'again'::regclass;
SELECT expect('of another cluster', waits('again'), count(*)::text) FROM landing;
SELECT refused('and no epoch', $$SELECT cdc_new_epoch('again', 'two')$$, '55000', 'landing', 'dh', false);

-- through a view a new epoch knows it, the number of rows does not
CREATE VIEW seen AS SELECT op, id, v, source_position, loaded_xid AS "Loaded" FROM landing WHERE kind IS NULL;
CREATE TABLE viewed (id int PRIMARY KEY, v text);
SELECT cdc_attach('viewed', 'seen', consume => 'bookmark', bookmark_column => 'Loaded');
CALL settle();
SELECT (applied('viewed', 'seen') <> 'nothing')::text;
SELECT expect('not counted', waits('viewed'), 'unknown');
SELECT cdc_new_epoch('viewed', 'x');
INSERT INTO landing (op, id, v, source_position) VALUES ('u', 1, 'late', '5/200');
SELECT refused('a row of the view', $$SELECT cdc_new_epoch('viewed', 'y')$$, '55000', 'seen', 'dh', false);

-- partitions, and a table of more than 64 MB: by an index on the column, else not known
CREATE TABLE parts (k int, op text, id int, v text, source_position cdc_position, loaded_xid xid8 DEFAULT pg_current_xact_id()) PARTITION BY LIST (k);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 (loaded_xid xid8 DEFAULT pg_current_xact_id(), v text, op text, id int, source_position cdc_position, k int);
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (2);
CREATE TABLE large (id int PRIMARY KEY, v text);
SELECT cdc_attach('large', 'parts', consume => 'bookmark', except_columns => '{k}');
INSERT INTO parts (k, op, id, v, source_position) SELECT 1 + i % 2, 'u', i % 10, 'v', ('6/' || 1000 + i)::cdc_position FROM generate_series(1, 20) i;
CALL settle();
SELECT applied('large', 'parts');
INSERT INTO parts (k, op, id, v, source_position) SELECT 1 + i % 2, 'u', i % 10, 'v', ('7/' || 1000 + i)::cdc_position FROM generate_series(1, 7) i;
SELECT expect('partitions', waits('large') || unread('large', 'parts'), '77');
ALTER TABLE parts_1 ALTER COLUMN v SET STORAGE PLAIN;
INSERT INTO parts (k, op, id, v, source_position) SELECT 1, 'u', i, repeat('x', 7900), ('6/' || 1000 + i)::cdc_position FROM generate_series(1, 8300) i;
SELECT expect('large, without an index', waits('large'), 'unknown');
CREATE INDEX ON parts (loaded_xid);
SELECT expect('with one', waits('large') || ' ' || unread('large', 'parts'), '8307 8307');
UPDATE parts SET loaded_xid = NULL WHERE loaded_xid >= (SELECT read_below FROM cdc_targets WHERE target = 'large'::regclass) AND id < 3;
SELECT expect('rows without an id as well', (waits('large') = unread('large', 'parts'))::text, 'true');
DROP INDEX parts_loaded_xid_idx;
CREATE INDEX ON parts (loaded_xid) WHERE id > 0;
SELECT expect('a partial index does not tell', waits('large'), 'unknown');

SET client_min_messages = error;
DROP SCHEMA waiting CASCADE;
