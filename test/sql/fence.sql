-- Purge, fence and floor: deletes that stay deleted when their tombstones are
-- gone, the same in both homes of the tombstone.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA fence;
SET search_path = fence, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;
CREATE FUNCTION horizon(t text) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', 'fence ' || fence, 'floor ' || floor) FROM cdc_targets WHERE target = t::regclass
$$;

--
-- A purge, then the whole log again
--
SELECT fresh();
INSERT INTO event SELECT 'c', n, 'v' || n, cdc_position(pg_lsn '1/0' + n::numeric) FROM generate_series(1, 20) n;
INSERT INTO event SELECT 'd', n, NULL, cdc_position(pg_lsn '2/0' + n::numeric) FROM generate_series(1, 20, 2) n;
INSERT INTO event SELECT 'u', n, 'w' || n, cdc_position(pg_lsn '3/0' + n::numeric) FROM generate_series(1, 20, 5) n;
SELECT both_say('the log', $$SELECT applied('%s', 'event')$$, 'inserted=12 deleted=8 superseded=14');
INSERT INTO event_log TABLE event;
SELECT both_are_true('the log');
SELECT both_say('nothing known dead yet', $$SELECT horizon('%s')$$, '');
SELECT both_say('tombstones up to a position go', $$SELECT cdc_purge_tombstones('%s', '2/9')$$, '4');
SELECT both_say('those above stay', $$SELECT string_agg(m[1], ' ' ORDER BY m[1]::int) FROM regexp_matches(stands('%s'), '(\d+) dead', 'g') m$$, '13 15 17 19');
SELECT both_say('the fence', $$SELECT horizon('%s')$$, 'fence 2/9');
SELECT both_say('the whole log again resurrects nothing', $$SELECT applied('%s', 'event')$$, 'duplicate=16 superseded=14 fenced=4');
SELECT both_are_true('the log again');
SELECT both_say('purge again: none', $$SELECT cdc_purge_tombstones('%s', '2/9')$$, '0');
SELECT both_say('the rest', $$SELECT cdc_purge_tombstones('%s', '3/10')$$, '4');
SELECT both_say('only live rows are left', $$SELECT (stands('%s') = stands('%s', true))::text || ' ' || horizon('%s')$$, 'true fence 3/10');
SELECT both_say('every old event of a dead key is fenced', $$SELECT applied('%s', 'event')$$, 'duplicate=12 superseded=14 fenced=8');
SELECT both_are_true('the log a third time');
-- also one by one, oldest first and newest first
CREATE FUNCTION one_by_one(t text, how text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	e event; result text;
BEGIN
	FOR e IN EXECUTE 'SELECT DISTINCT * FROM event_log ORDER BY source_position ' || how LOOP
		TRUNCATE event;
		INSERT INTO event SELECT e.*;
		result := applied(t, 'event');
		IF result !~ '^(stale|duplicate|fenced)=1$' THEN
			RETURN e || ': ' || result;
		END IF;
	END LOOP;
	RETURN 'nothing new';
END $$;
SELECT both_say('one by one, oldest first', $$SELECT one_by_one('%s', 'ASC')$$, 'nothing new');
SELECT both_say('one by one, newest first', $$SELECT one_by_one('%s', 'DESC')$$, 'nothing new');
SELECT both_are_true('one by one');
-- the control: tombstones taken away by hand, and the same replay
SELECT fresh();
SELECT stage($$ ('c', 1, 'a', '1/1'), ('d', 1, NULL, '1/2') $$);
SELECT apply_both('before', 'deleted=1 superseded=1', '1 dead@1/2');
DELETE FROM in_row WHERE deleted;
DELETE FROM in_table_tombstones;
SELECT stage($$ ('c', 1, 'a', '1/1') $$);
SELECT apply_both('a purge by hand lets it back in', 'inserted=1', '1=a@1/1');

--
-- What is fenced, said aloud
--
SELECT fresh();
SELECT stage($$ ('d', 1, NULL, '5/10'), ('c', 2, 'b', '5/10'), ('c', 9, 'i', '5/90') $$);
SELECT apply_both('before', 'inserted=2 deleted=1', '1 dead@5/10 2=b@5/10 9=i@5/90');
SELECT both_say('purged', $$SELECT cdc_purge_tombstones('%s', '5/50')$$, '1');
SET client_min_messages = warning;
SELECT stage($$ ('c', 62, 'new to us', '5/45'), ('u', 1, 'old', '5/5'), ('d', 63, NULL, '5/45'), ('u', 2, 'b2', '5/45') $$);
SELECT expect('upserts are warned of', applied('in_row', 'event'), 'updated=1 fenced=3');
SELECT expect('in the table home too', applied('in_table', 'event'), 'updated=1 fenced=3');
SELECT stage($$ ('d', 63, NULL, '5/45'), ('u', 9, 'i', '5/90') $$);
SELECT both_say('fenced deletes are not', $$SELECT applied('%s', 'event')$$, 'duplicate=1 fenced=1');
SELECT stage($$ ('c', 62, 'at it', '5/50'), ('c', 64, 'above it', '5/50:1') $$);
SELECT expect('at the fence and just above', applied('in_table', 'event') || ': ' || stands('in_table', true), 'inserted=1 fenced=1: 2=b2@5/45 64=above it@5/50:1 9=i@5/90');
SET client_min_messages = error;
SELECT applied('in_row', 'event');
-- the sum of the warning does not depend on dry_run, and nothing moves
SELECT stage($$ ('c', 71, 'x', '5/1'), ('r', 72, 'y', '5/1'), ('-U', 73, 'z', '5/1') $$);
SELECT both_say('dry run', $$SELECT counts(r) FROM cdc_apply('%s', 'event', dry_run => true) r$$, 'fenced=3');
SELECT both_say('a deleted key above the fence is still a tombstone', $$SELECT stands('%s')$$, '2=b2@5/45 64=above it@5/50:1 9=i@5/90');

--
-- The forms of the call
--
SELECT fresh();
SELECT stage($$ ('d', 1, NULL, '6/10'), ('d', 2, NULL, '6/20'), ('d', 3, NULL, '6/30'), ('d', 4, NULL, '6/40'), ('d', 5, NULL, '6/50') $$);
SELECT both_say('five tombstones', $$SELECT applied('%s', 'event')$$, 'deleted=5');
-- in slices: the fence rises at once, the rest goes later
SELECT both_say('a slice of two', $$SELECT cdc_purge_tombstones('%s', '6/40', max_rows => 2) || ' ' || horizon('%s')$$, '2 fence 6/40');
SELECT both_say('three are left', $$SELECT (length(stands('%s')) - length(replace(stands('%s'), 'dead', 'ead')))::text$$, '3');
SELECT stage($$ ('u', 1, 'x', '6/10'), ('u', 2, 'x', '6/20'), ('u', 3, 'x', '6/30'), ('u', 4, 'x', '6/40'), ('u', 5, 'x', '6/50') $$);
SELECT both_say('dead with or without their tombstones', $$SELECT counts(r) FROM cdc_apply('%s', 'event', dry_run => true) r$$, 'inserted=1 fenced=4');
SELECT both_say('no rows at all', $$SELECT cdc_purge_tombstones('%s', '6/40', max_rows => 0)$$, '0');
SELECT both_say('one more', $$SELECT cdc_purge_tombstones('%s', '6/40', max_rows => 1)$$, '1');
SELECT both_say('the last', $$SELECT cdc_purge_tombstones('%s', '6/40', max_rows => 100)$$, '1');
SELECT both_say('done', $$SELECT cdc_purge_tombstones('%s', '6/40', max_rows => 100) || ' ' || stands('%s')$$, '0 5 dead@6/50');
SELECT both_say('a lower purge leaves the fence', $$SELECT cdc_purge_tombstones('%s', '6/20') || ' ' || horizon('%s')$$, '0 fence 6/40');
-- above everything ever applied
SELECT both_refuse('above the greatest ever applied', $$SELECT cdc_purge_tombstones('%s', '6/51')$$, '22023', '6/51', 'dh');
SELECT both_say('at it', $$SELECT cdc_purge_tombstones('%s', '6/50', max_rows => 0) || ' ' || horizon('%s')$$, '0 fence 6/50');
SELECT both_say('forced', $$SELECT cdc_purge_tombstones('%s', '7/0', force => true) || ' ' || horizon('%s') || ', ' || stands('%s')$$, '1 fence 7/0, nothing');
-- the greatest ever applied is remembered when its row is gone
SELECT fresh();
SELECT stage($$ ('d', 1, NULL, '6/10'), ('c', 2, NULL, '6/20') $$);
SELECT apply_both('two events', 'inserted=1 deleted=1', '1 dead@6/10 2=NULL@6/20');
DELETE FROM in_row WHERE id = 2;
DELETE FROM in_table WHERE id = 2;
SELECT both_say('a row gone by hand', $$SELECT cdc_purge_tombstones('%s', '6/20')$$, '1');
-- no argument, wrong ones
SELECT both_refuse('neither', $$SELECT cdc_purge_tombstones('%s')$$, '22023', 'up_to', 'h');
SELECT both_refuse('fewer than none', $$SELECT cdc_purge_tombstones('%s', '6/20', max_rows => -1)$$, '22023', 'max_rows');
SELECT both_refuse('another kind', $$SELECT cdc_purge_tombstones('%s', '47:11')$$, '42804', NULL);
SELECT both_refuse('another kind by force', $$SELECT cdc_purge_tombstones('%s', '47:11', force => true)$$, '42804', NULL);
SELECT both_refuse('no position', $$SELECT cdc_purge_tombstones('%s', '0/0')$$, '22023', NULL);
SELECT refused('no target', $$SELECT cdc_purge_tombstones(NULL, '6/20')$$, '22023|22004', 'target');
CREATE TABLE plain (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
SELECT refused('not attached', $$SELECT cdc_purge_tombstones('plain', '6/20')$$, '55000', 'plain', 'h');
SELECT refused('not attached: fence', $$SELECT cdc_set_fence('plain', '6/20')$$, '55000', 'plain', 'h');
SELECT refused('not attached: floor', $$SELECT cdc_set_floor('plain', '6/20')$$, '55000', 'plain', 'h');
SELECT refused('a boolean has no time', $$SELECT cdc_purge_tombstones('in_row', older_than => '1 day')$$, '55000', 'in_row', 'h');
SELECT refused('nor beside a position', $$SELECT cdc_purge_tombstones('in_row', '6/20', '1 day')$$, '55000', 'in_row', 'h');

--
-- older_than: by the tombstones' own time
--
CREATE TABLE aged_row (id int PRIMARY KEY, v text, deleted_at timestamptz);
CREATE TABLE aged_table (id int PRIMARY KEY, v text);
SELECT cdc_attach('aged_row', 'event', tombstone_column => 'deleted_at'), cdc_attach('aged_table', 'event');
-- id, position, age in days
CREATE FUNCTION aged() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE aged_row, aged_table, aged_table_tombstones;
	PERFORM cdc_set_fence(t, NULL) FROM unnest('{aged_row,aged_table}'::regclass[]) t;
	CREATE TEMP TABLE a ON COMMIT DROP AS SELECT * FROM (VALUES (1, '7/10', 40), (2, '7/20', 30), (3, '7/30', 5), (4, '7/40', 20), (5, '7/50', 1)) v(id, p, days);
	INSERT INTO aged_row (id, source_position, deleted_at) SELECT id, p::cdc_position, now() - days * interval '1 day' FROM a;
	INSERT INTO aged_table_tombstones SELECT id, p::cdc_position, now() - days * interval '1 day' FROM a;
END $$;
CREATE FUNCTION aged_left(t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r text;
BEGIN
	EXECUTE format('SELECT coalesce(string_agg(id::text, '' '' ORDER BY id), ''none'') FROM %s', CASE t WHEN 'aged_row' THEN t ELSE t || '_tombstones' END) INTO r;
	RETURN r;
END $$;
CREATE FUNCTION aged_purge(what text, args text, want text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got text[] := '{}'; t text; n bigint;
BEGIN
	PERFORM aged();
	FOREACH t IN ARRAY '{aged_row,aged_table}'::text[] LOOP
		EXECUTE format('SELECT cdc_purge_tombstones(%L, %s)', t, args) INTO n;
		got := got || format('%s gone, left %s, known dead below %s', n, aged_left(t),
			(SELECT CASE WHEN fence IS NULL THEN 'none' WHEN fence >= '7/50' THEN '7/50' WHEN fence >= '7/40' THEN '7/40' WHEN fence >= '7/30' THEN '7/30'
				WHEN fence >= '7/20' THEN '7/20' WHEN fence >= '7/10' THEN '7/10' ELSE '0' END FROM cdc_targets WHERE target = t::regclass));
	END LOOP;
	DROP TABLE a;
	RETURN both_give(what, got[1], got[2], want);
END $$;
SELECT aged_purge('older than 60 days: none', 'older_than => ''60 days''', '0 gone, left 1 2 3 4 5, known dead below none');
SELECT aged_purge('older than 35 days', 'older_than => ''35 days''', '1 gone, left 2 3 4 5, known dead below 7/10');
-- 4 is old enough, but lies above 3, which is not
SELECT aged_purge('older than 10 days: only below the young', 'older_than => ''10 days''', '2 gone, left 3 4 5, known dead below 7/20');
SELECT aged_purge('all are older', 'older_than => ''12 hours''', '5 gone, left none, known dead below 7/50');
SELECT aged_purge('both: the age is the lower', '''7/40'', ''10 days''', '2 gone, left 3 4 5, known dead below 7/20');
SELECT aged_purge('both: the position is the lower', '''7/10'', ''10 days''', '1 gone, left 2 3 4 5, known dead below 7/10');
SELECT aged_purge('in slices', 'older_than => ''12 hours'', max_rows => 2', '2 gone, left 3 4 5, known dead below 7/50');

--
-- Set by hand: up, down and away
--
SELECT fresh();
SELECT both_say('fence', $$SELECT cdc_set_fence('%s', '8/20')::text || horizon('%s')$$, 'fence 8/20');
SELECT stage($$ ('c', 1, 'a', '8/20'), ('c', 2, 'b', '8/20:1') $$);
SELECT apply_both('above it only', 'inserted=1 fenced=1', '2=b@8/20:1');
SELECT both_say('lower', $$SELECT cdc_set_fence('%s', '8/10')::text || horizon('%s')$$, 'fence 8/10');
SELECT apply_both('now the other', 'inserted=1 duplicate=1', '1=a@8/20 2=b@8/20:1');
SELECT both_say('away', $$SELECT cdc_set_fence('%s', NULL)::text || horizon('%s')$$, '');
SELECT stage($$ ('c', 3, 'c', '8/1') $$);
SELECT apply_both('no fence', 'inserted=1', '1=a@8/20 2=b@8/20:1 3=c@8/1');
SELECT both_say('floor', $$SELECT cdc_set_floor('%s', '8/30')::text || horizon('%s')$$, 'floor 8/30');
SELECT stage($$ ('u', 1, 'x', '8/30'), ('d', 2, NULL, '8/2F'), ('d', 3, NULL, '8/31'), ('c', 4, 'd', '8/5') $$);
SELECT apply_both('everything up to it is decided', 'deleted=1 stale=3', '1=a@8/20 2=b@8/20:1 3 dead@8/31');
SELECT both_say('lower', $$SELECT cdc_set_floor('%s', '8/2')::text || horizon('%s')$$, 'floor 8/2');
SELECT apply_both('now they count', 'inserted=1 updated=1 deleted=1 duplicate=1', '1=x@8/30 2 dead@8/2F 3 dead@8/31 4=d@8/5');
SELECT both_say('away', $$SELECT cdc_set_floor('%s', NULL)::text || horizon('%s')$$, '');

--
-- The floor from the start: content that is complete up to a position
--
CREATE TABLE loaded_row (id int PRIMARY KEY, v text);
INSERT INTO loaded_row SELECT n, 'loaded' FROM generate_series(1, 3) n;
CREATE TABLE loaded_table (LIKE loaded_row INCLUDING ALL);
INSERT INTO loaded_table TABLE loaded_row;
SELECT cdc_attach('loaded_row', 'event', tombstones => 'row', as_of => '9/50'), cdc_attach('loaded_table', 'event', as_of => '9/50');
SELECT both_give('as_of', horizon('loaded_row'), horizon('loaded_table'), 'floor 9/50');
SELECT stage($$ ('u', 1, 'old', '9/10'), ('d', 2, NULL, '9/50'), ('c', 7, 'gone since', '9/20'), ('u', 3, 'new', '9/51') $$);
SELECT both_give('no old replay can harm it', applied('loaded_row', 'event') || ' ' || stands('loaded_row'), applied('loaded_table', 'event') || ' ' || stands('loaded_table'),
	'updated=1 stale=3 1=loaded@none 2=loaded@none 3=new@9/51');
-- it never sinks by a repeat
SELECT cdc_attach(t, as_of => '9/30') FROM unnest('{loaded_row,loaded_table}'::regclass[]) t;
SELECT both_give('a lower as_of', horizon('loaded_row'), horizon('loaded_table'), 'floor 9/50');
SELECT cdc_attach(t, as_of => '9/60') FROM unnest('{loaded_row,loaded_table}'::regclass[]) t;
SELECT both_give('a higher one', horizon('loaded_row'), horizon('loaded_table'), 'floor 9/60');

--
-- Owners
--
CREATE ROLE regress_cdc_fence_owner;
CREATE ROLE regress_cdc_fence_member IN ROLE regress_cdc_fence_owner;
CREATE ROLE regress_cdc_fence_other;
GRANT USAGE, CREATE ON SCHEMA fence TO regress_cdc_fence_owner;
GRANT USAGE ON SCHEMA fence TO regress_cdc_fence_other;
SELECT fresh();
ALTER TABLE in_row OWNER TO regress_cdc_fence_owner;
ALTER TABLE in_table OWNER TO regress_cdc_fence_owner;
SELECT expect('the side table follows its target', (SELECT relowner::regrole::text FROM pg_class WHERE oid = 'in_table_tombstones'::regclass), 'regress_cdc_fence_owner');
GRANT ALL ON in_row, in_table, event TO regress_cdc_fence_other, regress_cdc_fence_owner;
SELECT stage($$ ('d', 1, NULL, '6/10') $$);
SET ROLE regress_cdc_fence_other;
SELECT both_say('another role applies with its grants', $$SELECT counts(r) FROM cdc_apply('%s', 'event') r$$, 'deleted=1');
SELECT refused('but does not purge', $$SELECT cdc_purge_tombstones('in_row', '6/10')$$, '42501', 'in_row');
SELECT refused('nor set the fence', $$SELECT cdc_set_fence('in_table', '6/10')$$, '42501', 'in_table');
SELECT refused('nor the floor', $$SELECT cdc_set_floor('in_table', NULL)$$, '42501', 'in_table');
SET ROLE regress_cdc_fence_member;
SELECT both_say('a member of the owner does', $$SELECT cdc_purge_tombstones('%s', '6/10')$$, '1');
RESET ROLE;
SELECT both_say('done', $$SELECT horizon('%s')$$, 'fence 6/10');
-- a purge that is rolled back leaves fence and tombstones
SELECT fresh();
SELECT stage($$ ('d', 1, NULL, '6/10') $$);
SELECT apply_both('before', 'deleted=1', '1 dead@6/10');
BEGIN;
SELECT both_say('in a transaction', $$SELECT cdc_purge_tombstones('%s', '6/10') || ' ' || horizon('%s')$$, '1 fence 6/10');
ROLLBACK;
SELECT both_say('rolled back', $$SELECT stands('%s') || ' ' || horizon('%s')$$, '1 dead@6/10 ');

--
-- The law with safe purges between the batches.  Each purges up to a position
-- below which every event has come (it was in the batch before).
--
SELECT fresh();
INSERT INTO event_log
	SELECT CASE WHEN h % 3 = 0 THEN 'd' ELSE 'u' END, 1 + h % 15, 'v' || n, cdc_position(pg_lsn 'A/0' + n::numeric)
	FROM (SELECT n, abs(hashint8(n)) AS h FROM generate_series(1, 120) n) e;
CREATE TABLE the_truth AS SELECT truth() AS truth;
-- in the log's order, in slices that overlap, purged up to the slice before
CREATE FUNCTION in_slices(t text, size int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	purged bigint := 0;
BEGIN
	FOR at IN 0 .. 120 / size LOOP
		TRUNCATE event;
		INSERT INTO event SELECT * FROM event_log WHERE source_position > cdc_position(pg_lsn 'A/0' + greatest((at - 3) * size, 0)::numeric)
			AND source_position <= cdc_position(pg_lsn 'A/0' + ((at + 1) * size)::numeric);
		PERFORM applied(t, 'event');
		purged := purged + cdc_purge_tombstones(t::regclass, cdc_position(pg_lsn 'A/0' + least((at + 1) * size, 120)::numeric));
	END LOOP;
	-- and everything once more
	TRUNCATE event;
	INSERT INTO event TABLE event_log;
	PERFORM applied(t, 'event');
	RETURN (purged > 0)::text || ' ' || stands(t);
END $$;
SELECT both_say('slices of 10', $$SELECT in_slices('%s', 10)$$, (SELECT 'true ' || truth FROM the_truth));
CREATE TEMP TABLE keep AS TABLE event_log;
SELECT fresh();
INSERT INTO event_log TABLE keep;
SELECT both_say('slices of 17', $$SELECT in_slices('%s', 17)$$, (SELECT 'true ' || truth FROM the_truth));

DROP SCHEMA fence CASCADE;
DROP ROLE regress_cdc_fence_member, regress_cdc_fence_other, regress_cdc_fence_owner;
