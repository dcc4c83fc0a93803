-- A side table that an earlier attachment has left: what is said of it, and
-- that nothing comes back once its deletes are carried over.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA side_table_left;
SET search_path = side_table_left, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;

-- a table whose key needs quotes and has two parts, in another order than the index
CREATE TABLE "Left over" (v text, "Id" int, "Kind" text COLLATE "C", PRIMARY KEY ("Kind", "Id"));
CREATE TABLE left_event (op text, "Id" int, "Kind" text, v text, source_position cdc_position);
SELECT cdc_attach('"Left over"', 'left_event');
INSERT INTO left_event VALUES ('c', 1, 'a', 'one', '0/100'), ('c', 2, 'a', 'two', '0/110'), ('d', 1, 'a', NULL, '0/200'), ('d', 3, 'b', NULL, '0/210');
SELECT applied('"Left over"', 'left_event');
-- what dropping the extension leaves: the tables, with positions as text, and no registry
CREATE TABLE before AS SELECT *, 'live' AS is FROM "Left over" UNION ALL SELECT NULL, "Id", "Kind", source_position, 'dead' FROM "Left over_tombstones";
CREATE TABLE kept AS SELECT "Id", "Kind", source_position::text, deleted_at FROM "Left over_tombstones";
SELECT cdc_detach('"Left over"', drop_tombstones => true);
CREATE TABLE again (LIKE "Left over" INCLUDING ALL);
INSERT INTO again TABLE "Left over";
DROP TABLE "Left over";
ALTER TABLE again RENAME TO "Left over";
ALTER TABLE kept RENAME TO "Left over_tombstones";
SELECT cdc_attach('"Left over"', 'left_event');
-- the statement of the hint, then the log without its deletes: nothing comes back
INSERT INTO side_table_left."Left over_tombstones1" ("Kind", "Id", source_position, deleted_at) SELECT "Kind", "Id", source_position::public.cdc_position, deleted_at FROM side_table_left."Left over_tombstones";
DELETE FROM left_event WHERE op = 'd';
INSERT INTO left_event VALUES ('c', 3, 'b', 'three', '0/105');
SELECT apply_is('the log without its deletes', '"Left over"', 'left_event', '', 'stale=2 duplicate=1',
	'SELECT *, ''live'' FROM "Left over" UNION ALL SELECT NULL, "Id", "Kind", source_position, ''dead'' FROM "Left over_tombstones1" EXCEPT TABLE before', 'none');
SELECT expect('and nothing is missing', count(*)::text, '3') FROM (SELECT "Id" FROM "Left over" UNION ALL SELECT "Id" FROM "Left over_tombstones1") t;
-- a repeat says nothing, nor does a target whose table is at hand
SELECT cdc_attach('"Left over"');
SELECT cdc_detach('"Left over"');
SELECT cdc_attach('"Left over"', 'left_event');

-- without the warning's advice they come back, which is why it is one
CREATE TABLE item (id int PRIMARY KEY, v text);
CREATE TABLE item_event (op text, id int, v text, source_position cdc_position);
CREATE TABLE item_tombstones (id int PRIMARY KEY, source_position cdc_position, deleted_at timestamptz);
INSERT INTO item_tombstones VALUES (1, '0/200', now());
INSERT INTO item_event VALUES ('c', 1, 'x', '0/100');
SELECT cdc_attach('item', 'item_event');
SELECT apply_is('forgotten', 'item', 'item_event', '', 'inserted=1', 'SELECT id FROM item', '(1)');

-- positions that went with the extension, or were made an LSN and an ordinal
CREATE TABLE part (id int PRIMARY KEY, v text);
CREATE TABLE part_tombstones (id int PRIMARY KEY, deleted_at timestamptz);
SELECT cdc_attach('part', 'item_event');
CREATE TABLE bare (id int PRIMARY KEY, v text);
CREATE TABLE bare_tombstones (id int PRIMARY KEY, source_position text) PARTITION BY HASH (id);
SELECT cdc_attach('bare', 'item_event');

-- what is no side table: other columns, another kind, another target's
CREATE TABLE plain (id int PRIMARY KEY, v text);
CREATE TABLE plain_tombstones (id int PRIMARY KEY, note text);
SELECT cdc_attach('plain', 'item_event');
CREATE TABLE other (id int PRIMARY KEY, v text);
CREATE TABLE other_tombstones (key int PRIMARY KEY, source_position cdc_position, deleted_at timestamptz);
SELECT cdc_attach('other', 'item_event');
CREATE TABLE seen (id int PRIMARY KEY, v text);
CREATE VIEW seen_tombstones AS TABLE item_tombstones;
SELECT cdc_attach('seen', 'item_event');
CREATE TABLE moved (id int PRIMARY KEY, v text);
SELECT cdc_attach('moved', 'item_event');
ALTER TABLE moved RENAME TO moved_on;
CREATE TABLE moved (id int PRIMARY KEY, v text);
SELECT cdc_attach('moved', 'item_event');
SELECT expect('each has its own', string_agg(concat_ws(' ', target, tombstones), ', ' ORDER BY target::text), 'moved moved_tombstones1, moved_on moved_tombstones')
FROM cdc_targets WHERE target IN ('moved'::regclass, 'moved_on'::regclass);
-- the row home needs no side table
CREATE TABLE in_rows (id int PRIMARY KEY, v text);
CREATE TABLE in_rows_tombstones (LIKE item_tombstones);
SELECT cdc_attach('in_rows', 'item_event', tombstones => 'row');
DROP SCHEMA side_table_left CASCADE;
