-- The live view: what readers of the row home read.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA live_view;
SET search_path = live_view, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE FUNCTION columns_of(t regclass) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = t AND attnum > 0 AND NOT attisdropped
$$;

-- a flag that may be NULL, between other columns
CREATE TABLE item (id int PRIMARY KEY, gone boolean, "Odd name" text, price numeric(8, 2), source_position cdc_position);
CREATE TABLE item_event (op text, id int, "Odd name" text, price numeric, source_position cdc_position);
SELECT cdc_attach('item', 'item_event', tombstone_column => 'gone', live_view => 'item_live');
SELECT expect('all columns but the flag', columns_of('item_live'), 'id integer, Odd name text, price numeric(8,2), source_position cdc_position');
SELECT expect('what is attached', live_view::text, 'item_live') FROM cdc_targets WHERE target = 'item'::regclass;
INSERT INTO item VALUES (7, NULL, 'before', 1), (8, true, 'dead before', 1), (9, false, 'before', 1);
INSERT INTO item_event VALUES ('c', 1, 'a', 1, '1/1'), ('c', 2, 'b', 2, '1/1'), ('d', 3, NULL, NULL, '1/1'), ('d', 9, NULL, NULL, '1/1');
SELECT applied('item', 'item_event');
SELECT expect('live rows', rows_of('item_live'), '(1,a,1.00,1/1) (2,b,2.00,1/1) (7,before,1.00,)');
TRUNCATE item_event;
INSERT INTO item_event VALUES ('d', 1, NULL, NULL, '1/2'), ('c', 3, 'c', 3, '1/2');
SELECT applied('item', 'item_event');
SELECT expect('as the table stands', rows_of('item_live'), rows_of('SELECT id, "Odd name", price, source_position FROM item WHERE gone IS NOT TRUE'));

-- a flag that is a time; another schema; partitions
CREATE SCHEMA live_view_other;
CREATE TABLE timed (id int PRIMARY KEY, v text, gone_at timestamptz) PARTITION BY HASH (id);
CREATE TABLE timed_0 PARTITION OF timed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE timed_1 PARTITION OF timed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE timed_event (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('timed', 'timed_event', tombstone_column => 'gone_at', live_view => 'live_view_other."Timed, live"');
INSERT INTO timed_event VALUES ('c', 1, 'a', '1/1'), ('d', 2, NULL, '1/1'), ('c', 3, 'c', '1/1');
SELECT applied('timed', 'timed_event');
SELECT expect('qualified and quoted', rows_of('live_view_other."Timed, live"'), '(1,a,1/1) (3,c,1/1)');
SELECT expect('what is attached', live_view::text, 'live_view_other."Timed, live"') FROM cdc_targets WHERE target = 'timed'::regclass;
-- unqualified: in the target's schema, whatever the search path
CREATE TABLE live_view_other.elsewhere (id int PRIMARY KEY, v text);
SELECT cdc_attach('live_view_other.elsewhere', 'timed_event', tombstones => 'row', live_view => 'elsewhere_live');
SELECT expect('beside its target', live_view::text, 'live_view_other.elsewhere_live') FROM cdc_targets WHERE target = 'live_view_other.elsewhere'::regclass;

--
-- A repeat
--
GRANT SELECT ON item_live TO PUBLIC;
SELECT 'item_live'::regclass::oid AS view_oid \gset
CREATE TABLE was AS SELECT c::text AS c, xmin::text AS x FROM pg_class c WHERE oid = 'item_live'::regclass;
SELECT cdc_attach('item');
SELECT cdc_attach('item', live_view => 'item_live');
SELECT expect('changes nothing', p.xmin::text, x) FROM pg_class p, was WHERE oid = :view_oid;
-- the table got columns
ALTER TABLE item ADD extra text DEFAULT 'e';
SELECT cdc_attach('item');
SELECT expect('made anew', columns_of('item_live'), 'id integer, Odd name text, price numeric(8,2), source_position cdc_position, extra text');
SELECT expect('the same view, with its grants', concat_ws(' ', oid, has_table_privilege('pg_monitor', oid, 'SELECT')), :view_oid || ' t') FROM pg_class WHERE oid = 'item_live'::regclass;
-- renames
ALTER TABLE item RENAME gone TO dead;
ALTER VIEW item_live RENAME TO item_now;
SELECT expect('renamed', live_view::text || ' ' || tombstone_column, 'item_now dead') FROM cdc_targets WHERE target = 'item'::regclass;
SELECT expect('live rows', (SELECT string_agg(id::text, ' ' ORDER BY id) FROM item_now), '2 3 7');
-- dropped and forgotten; asked for again
DROP VIEW item_now;
SELECT expect('forgotten', live_view::text, NULL) FROM cdc_targets WHERE target = 'item'::regclass;
SELECT cdc_attach('item');
SELECT expect('not made unasked', to_regclass('item_live')::text, NULL);
SELECT cdc_attach('item', live_view => 'item_live');
SELECT expect('asked for', (SELECT string_agg(id::text, ' ' ORDER BY id) FROM item_live), '2 3 7');
-- it outlives a detach
SELECT cdc_detach('item');
SELECT expect('detached', (SELECT string_agg(id::text, ' ' ORDER BY id) FROM item_live), '2 3 7');

--
-- Refused, and nothing is left
--
CREATE TABLE other (id int PRIMARY KEY, v text);
CREATE VIEW taken AS SELECT 1 AS one;
SELECT refused('the side table needs none', $$SELECT cdc_attach('other', 'timed_event', live_view => 'other_live')$$, '22023|55000', 'live view', 'd');
SELECT refused('the name is a table''s', $$SELECT cdc_attach('other', 'timed_event', tombstones => 'row', live_view => 'item')$$, '42P07|42809', 'item');
SELECT refused('the name is another view''s', $$SELECT cdc_attach('other', 'timed_event', tombstones => 'row', live_view => 'taken')$$, '42P07', 'taken');
SELECT refused('the name of another target''s view', $$SELECT cdc_attach('other', 'timed_event', tombstones => 'row', live_view => 'item_live')$$, '42P07', 'item_live');
SELECT refused('no such schema', $$SELECT cdc_attach('other', 'timed_event', tombstones => 'row', live_view => 'nowhere.other_live')$$, '3F000', 'nowhere');
SELECT refused('no name', $$SELECT cdc_attach('other', 'timed_event', tombstones => 'row', live_view => '')$$, '42601|42602|22023', NULL);
SELECT refused('no quotes', $$SELECT cdc_attach('other', 'timed_event', tombstones => 'row', live_view => 'Other Live')$$, '42602', 'live_view => ''"Other Live"''', 'h');
SELECT refused('three parts and more', $$SELECT cdc_attach('other', 'timed_event', tombstones => 'row', live_view => 'a.b.c.d')$$, '42601|0A000|42602|22023', NULL, '', false);
SELECT expect('nothing was attached or added', (SELECT count(*) FROM cdc_targets WHERE target = 'other'::regclass) || columns_of('other'), '0id integer, v text');
SELECT expect('the other view is as it was', rows_of('taken'), '(1)');

--
-- It belongs to the target's owner, and readers need nothing else
--
CREATE ROLE regress_cdc_live_owner;
CREATE ROLE regress_cdc_live_reader;
GRANT USAGE, CREATE ON SCHEMA live_view TO regress_cdc_live_owner;
GRANT USAGE ON SCHEMA live_view TO regress_cdc_live_reader;
ALTER TABLE other OWNER TO regress_cdc_live_owner;
SELECT cdc_attach('other', 'timed_event', tombstones => 'row', live_view => 'other_live');
SELECT expect('owner', relowner::regrole::text, 'regress_cdc_live_owner') FROM pg_class WHERE oid = 'other_live'::regclass;
SELECT applied('other', 'timed_event');
SET ROLE regress_cdc_live_owner;
GRANT SELECT ON other_live TO regress_cdc_live_reader;
SELECT cdc_attach('other', live_view => 'other_live');
SET ROLE regress_cdc_live_reader;
SELECT expect('a reader of the view', rows_of('other_live'), '(1,a,1/1) (3,c,1/1)');
SELECT refused('who may not read the table', 'SELECT * FROM other', '42501', NULL, '', false);
RESET ROLE;
-- the table does not go while somebody looks, and then it goes with the view
SELECT refused('drop', 'DROP TABLE other', '2BP01', NULL, '', false);
SELECT 'other_live'::regclass::oid AS view_oid \gset
SET client_min_messages = error;
DROP TABLE other CASCADE;
SELECT expect('gone', count(*)::text, '0') FROM pg_class WHERE oid = :view_oid;

DROP SCHEMA live_view, live_view_other CASCADE;
DROP ROLE regress_cdc_live_owner, regress_cdc_live_reader;
