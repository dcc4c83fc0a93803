-- cdc_read_below: up to where every target has read a landing table, whatever
-- names and views are between, so that no row goes that one has not read.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA "Read below";
SET search_path = "Read below", public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE PROCEDURE settle() LANGUAGE plpgsql AS $$
DECLARE
	last xid8 := pg_snapshot_xmax(pg_current_snapshot());
BEGIN
	FOR i IN 1 .. 6000 LOOP
		EXIT WHEN pg_snapshot_xmin(pg_current_snapshot()) >= last;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
CREATE FUNCTION below(landing text) RETURNS text LANGUAGE sql AS $$ SELECT coalesce(cdc_read_below(landing::regclass)::text, 'nothing') $$;
-- the least bookmark of some targets, by hand
CREATE FUNCTION least_of(VARIADIC targets regclass[]) RETURNS text LANGUAGE sql AS $$ SELECT min(read_below)::text FROM cdc_bookmark WHERE target = ANY (targets) $$;

CREATE TABLE "Landing" (op text, id int, v text, source_position cdc_position, kind text, loaded_xid xid8 DEFAULT pg_current_xact_id());
SELECT expect('nobody reads it', below('"Landing"'), 'nothing');
-- the table itself; a view with another name for the column; a view over a view
CREATE TABLE "A" (id int PRIMARY KEY, v text);
CREATE TABLE b (id int PRIMARY KEY, v text);
CREATE TABLE c (id int PRIMARY KEY, v text);
CREATE VIEW "B view" AS SELECT op, id, v, source_position, loaded_xid AS "Loaded" FROM "Landing" WHERE kind IS NULL;
CREATE VIEW c1 AS SELECT * FROM "Landing";
CREATE VIEW c2 AS SELECT op, id, v, source_position, loaded_xid FROM c1;
SELECT cdc_attach('"A"', '"Landing"', consume => 'bookmark', except_columns => '{kind}');
SELECT expect('attached, and nothing read', below('"Landing"'), 'nothing');
INSERT INTO "Landing" (op, id, v, source_position) VALUES ('c', 1, 'a', '0/10'), ('c', 2, 'b', '0/20');
CALL settle();
SELECT applied('"A"', '"Read below"."Landing"');
SELECT expect('the only one', below('"Landing"'), least_of('"A"'));
SELECT cdc_attach('b', '"B view"', consume => 'bookmark', bookmark_column => 'Loaded');
SELECT expect('one through a view has not read', below('"Landing"'), 'nothing');
CALL settle();
SELECT applied('b', '"Read below"."B view"');
SELECT cdc_attach('c', 'c2', consume => 'bookmark');
SELECT expect('one through two views has not read', below('"Landing"'), 'nothing');
CALL settle();
SELECT applied('c', 'c2');
SELECT expect('all have read', below('"Landing"'), least_of('"A"', 'b', 'c'));
INSERT INTO "Landing" (op, id, v, source_position) VALUES ('u', 1, 'c', '0/30');
CALL settle();
SELECT applied('"A"', '"Read below"."Landing"');
SELECT expect('the slowest counts', below('"Landing"'), least_of('b', 'c'));
SELECT expect('and is not the fastest', (below('"Landing"') <> least_of('"A"'))::text, 'true');
-- what is deleted was read by all, and is all that was
DELETE FROM "Landing" WHERE loaded_xid < (SELECT cdc_read_below('"Landing"'));
SELECT op, id, v FROM "Landing";
SELECT applied('b', '"Read below"."B view"'), applied('c', 'c2');
SELECT expect('all three are the same', rows_of('SELECT id, v FROM b'), rows_of('SELECT id, v FROM "A"'));
SELECT expect('all three are the same', rows_of('SELECT id, v FROM c'), rows_of('SELECT id, v FROM "A"'));
DELETE FROM "Landing" WHERE loaded_xid < (SELECT cdc_read_below('"Landing"'));
SELECT count(*) FROM "Landing";

-- whoever asks: targets that he may not see count as well
CREATE ROLE read_below_loader;
GRANT USAGE ON SCHEMA "Read below" TO read_below_loader;
GRANT SELECT, DELETE ON "Landing" TO read_below_loader;
SET ROLE read_below_loader;
SELECT expect('he sees no target', count(*)::text, '0') FROM cdc_targets;
SELECT cdc_read_below('"Read below"."Landing"') AS as_other \gset
RESET ROLE;
SELECT expect('and is told the same', :'as_other', below('"Landing"'));
-- one that reads without a bookmark, or by a relation that is no simple view, has no say that can be used
CREATE TABLE d (id int PRIMARY KEY, v text);
SELECT cdc_attach('d', '"Landing"', except_columns => '{kind,loaded_xid}');
SELECT expect('kept', below('"Landing"'), 'nothing');
CREATE VIEW d1 AS SELECT DISTINCT op, id, v, source_position FROM c1;
SELECT cdc_attach('d', 'd1', except_columns => '{}');
SELECT expect('through a view of another kind', below('"Landing"'), 'nothing');
CREATE MATERIALIZED VIEW d2 AS SELECT op, id, v, source_position FROM "Landing";
SELECT cdc_attach('d', 'd2');
SELECT expect('through a materialized view', below('"Landing"'), 'nothing');
SELECT cdc_detach('d', drop_tombstones => true);
SELECT expect('gone', below('"Landing"'), least_of('"A"', 'b', 'c'));
-- a bookmark that is void is none
BEGIN;
UPDATE cdc_bookmark SET system_identifier = system_identifier + 1 WHERE target = 'c'::regclass;
SELECT expect('of another cluster', below('"Landing"'), 'nothing');
ROLLBACK;
SELECT cdc_attach('c', staging_filter => 'id > 0');
SELECT expect('of another filter', below('"Landing"'), 'nothing');
SELECT cdc_attach('c', staging_filter => 'true');
-- a landing that was renamed is the same one; the target that lost its name has still not read the rest
SELECT cdc_detach('c', drop_tombstones => true);
ALTER TABLE "Landing" RENAME TO renamed;
INSERT INTO renamed (op, id, v, source_position) VALUES ('u', 2, 'z', '0/40');
CALL settle();
SELECT applied('b', '"Read below"."B view"');
SELECT expect('the one that lost its name', below('renamed'), least_of('"A"'));
SELECT expect('its row is there', count(*)::text, '1') FROM renamed WHERE loaded_xid >= cdc_read_below('renamed');
ALTER TABLE renamed RENAME TO "Landing";
SELECT applied('"A"', '"Read below"."Landing"');

-- a history has no rule: what it has read by a bookmark counts
SELECT cdc_create_history('"A"', 'hist');
SELECT events FROM cdc_apply_history('hist', '"Landing"', consume => 'bookmark', except_columns => '{kind}');
INSERT INTO "Landing" (op, id, v, source_position) VALUES ('u', 2, 'y', '0/50');
CALL settle();
SELECT applied('b', '"Read below"."B view"'), applied('"A"', '"Read below"."Landing"');
SELECT expect('the history is behind', below('"Landing"'), least_of('hist'));
SELECT expect('its row is there', count(*)::text, '1') FROM "Landing" WHERE v = 'y' AND loaded_xid >= cdc_read_below('"Landing"');
SELECT events FROM cdc_apply_history('hist', '"Landing"', consume => 'bookmark', except_columns => '{kind}');
SELECT expect('all three', below('"Landing"'), least_of('"A"', 'b', 'hist'));
DROP TABLE hist CASCADE;
SELECT expect('and the two', below('"Landing"'), least_of('"A"', 'b'));

-- partitions: who reads one, and who reads all
CREATE TABLE parts (k int, op text, id int, v text, source_position cdc_position, loaded_xid xid8 DEFAULT pg_current_xact_id()) PARTITION BY LIST (k);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2);
CREATE TABLE every (id int PRIMARY KEY, v text);
CREATE TABLE one (id int PRIMARY KEY, v text);
SELECT cdc_attach('every', 'parts', consume => 'bookmark', except_columns => '{k}'), cdc_attach('one', 'parts_1', consume => 'bookmark', except_columns => '{k}');
INSERT INTO parts (k, op, id, v, source_position) VALUES (1, 'c', 1, 'a', '0/10'), (2, 'c', 2, 'b', '0/20');
CALL settle();
SELECT applied('every', 'parts');
SELECT expect('one has not read', below('parts') || ' ' || below('parts_1'), 'nothing nothing');
SELECT expect('which is no matter of the other partition', below('parts_2'), least_of('every'));
SELECT applied('one', 'parts_1');
SELECT expect('both', below('parts') || ' ' || below('parts_1'), least_of('every', 'one') || ' ' || least_of('every', 'one'));

SELECT refused('a view', $$SELECT cdc_read_below('c1')$$, '42809', 'c1', 'h');
SELECT refused('no relation', $$SELECT cdc_read_below(1)$$, '42P01', show => false);
SELECT cdc_read_below(NULL) IS NULL;
-- a hostile search_path has no say
CREATE FUNCTION evil(oid, oid) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil'; END $$;
CREATE OPERATOR = (FUNCTION = evil, LEFTARG = oid, RIGHTARG = oid);
SET search_path = "Read below", pg_catalog, public;
SELECT cdc_read_below('"Landing"') IS NOT NULL;
SET search_path = "Read below", public;
DROP OWNED BY read_below_loader;
DROP ROLE read_below_loader;
SET client_min_messages = error;
DROP SCHEMA "Read below" CASCADE;
