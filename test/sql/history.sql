-- A history against what plain SQL makes of all events.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA history;
SET search_path = history, public;
SET client_min_messages = warning;
\i :testdir/include/history_helpers.sql
SET timezone = 'UTC';
SET datestyle = 'ISO';
\set ECHO all
\pset format unaligned
\pset tuples_only on

CREATE TABLE thing (id int PRIMARY KEY, name text NOT NULL DEFAULT 'x', note varchar(20), source_position cdc_position, deleted boolean);
SELECT cdc_create_history('thing');
-- its columns, without those that belong to the target's own rows
SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = 'thing_history'::regclass AND attnum > 0 ORDER BY attnum;
SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = 'thing_history_events'::regclass AND attnum > 0 ORDER BY attnum;
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid IN ('thing_history'::regclass, 'thing_history_events'::regclass) ORDER BY 1;
SELECT obj_description('thing_history'::regclass), obj_description('thing_history_events'::regclass), col_description('thing_history'::regclass, 4);
SELECT history, events, track_columns, time_column, high_position FROM cdc_histories;
SELECT cdc_is_history('thing_history'), cdc_is_history('thing_history_events'), cdc_is_history('thing');

-- one key, three changes
INSERT INTO event (op, id, name, note, source_position) VALUES ('c', 1, 'a', 'n1', '0/100'), ('u', 1, 'b', 'n2', '0/200'), ('d', 1, NULL, NULL, '0/300');
\set args 'except_columns => ''{made_at}'', unchanged_column => ''missing'', old_key_columns => ''{was}'''
SELECT applied('thing_history', 'event', :'args');
SELECT * FROM thing_history ORDER BY id, valid_from;
SELECT * FROM thing_history_events;
-- the result's own columns
SELECT * FROM cdc_apply_history('thing_history', 'event', except_columns => '{made_at}', unchanged_column => 'missing', old_key_columns => '{was}');
SELECT high_position FROM cdc_histories;
-- both calls are in the log of runs, with who and how long; a dry run and one without events are not
SELECT applied('thing_history', 'event', :'args' || ', dry_run => true'), applied('thing_history', 'event', :'args' || ', staging_filter => ''false''');
SELECT target, staging, operation, events, inserted, deleted, duplicate, low_position, high_position, role = current_user, duration > '0' FROM cdc_runs WHERE target = 'thing_history'::regclass ORDER BY run_id;

-- each in its own batch, the last first
TRUNCATE thing_history, thing_history_events;
CREATE TABLE one (LIKE event);
SELECT places('thing_history') IS NULL AS empty;
INSERT INTO one SELECT * FROM event WHERE op = 'd';
SELECT applied('thing_history', 'one', :'args'), rows FROM (SELECT count(*) AS rows FROM thing_history) x;
TRUNCATE one; INSERT INTO one SELECT * FROM event WHERE op = 'c';
SELECT applied('thing_history', 'one', :'args');
SELECT * FROM thing_history;
TRUNCATE one; INSERT INTO one SELECT * FROM event WHERE op = 'u';
SELECT applied('thing_history', 'one', :'args'), applied('thing_history', 'one', :'args');
SELECT * FROM thing_history ORDER BY valid_from;

-- many keys and events, of every kind, at random but always the same
CREATE TABLE log (LIKE event);
INSERT INTO log
	SELECT CASE WHEN x < 0.25 THEN 'd' WHEN x < 0.6 THEN 'u' ELSE 'c' END, 1 + (hashint4(i) & 7), 'n' || (hashint4(i + 7000) & 3), 'o' || (hashint4(i + 9000) & 1), NULL,
		cdc_position('0/0'::pg_lsn + (i * 16), i % 3), timestamptz '2026-01-01' + i * interval '1 hour', NULL
	FROM (SELECT i, (hashint4(i + 5000) & 1023) / 1024.0 AS x FROM generate_series(1, 160) i) g;
SELECT count(*), count(DISTINCT source_position), count(*) FILTER (WHERE op = 'd') > 20 AS deletes FROM log;
TRUNCATE thing_history, thing_history_events;
SELECT converges('in two batches', 'thing_history', 'log', 1, 2, args => :'args');
TRUNCATE thing_history, thing_history_events;
SELECT converges('in nine', 'thing_history', 'log', 2, 9, args => :'args');
TRUNCATE thing_history, thing_history_events;
SELECT converges('in twenty', 'thing_history', 'log', 3, 20, args => :'args');
SELECT count(*) > 50 AS many, count(*) FILTER (WHERE valid_to IS NULL) > 0 AS current FROM thing_history;
-- the events table holds deletes, and nothing of versions
SELECT DISTINCT __op, __unchanged FROM thing_history_events;

-- tracked columns: changes of the note alone make no version
SELECT cdc_create_history('thing', 'tracked', track_columns => '{name}');
SELECT converges('tracked, in two batches', 'tracked', 'log', 1, 2, '{name}', :'args');
TRUNCATE tracked, tracked_events;
SELECT converges('tracked, in nine', 'tracked', 'log', 2, 9, '{name}', :'args');
TRUNCATE tracked, tracked_events;
SELECT converges('tracked, in twenty', 'tracked', 'log', 3, 20, '{name}', :'args');
SELECT (SELECT count(*) FROM tracked) < (SELECT count(*) FROM thing_history) AS fewer;
-- all tracked: only what changes nothing at all makes none
SELECT cdc_create_history('thing', 'all_tracked', track_columns => '{name,note}');
SELECT converges('all tracked', 'all_tracked', 'log', 4, 12, '{name,note}', :'args');

-- times
SELECT cdc_create_history('thing', 'timed', time_column => 'made_at');
\set timed 'unchanged_column => ''missing'', old_key_columns => ''{was}'''
SELECT converges('times', 'timed', 'log', 5, 12, args => :'timed', times => true);
SELECT cdc_create_history('thing', 'timed_tracked', track_columns => '{name}', time_column => 'made_at');
SELECT converges('times of tracked columns', 'timed_tracked', 'log', 6, 15, '{name}', :'timed', true);

-- key changes, values not carried, truncates
INSERT INTO log SELECT 'u', 1 + (i & 7), 'moved' || i, 'm', 1 + ((i + 3) & 7), cdc_position('0/0'::pg_lsn + i * 128 + 7), timestamptz '2026-02-01' + i * interval '1 day', NULL FROM generate_series(1, 20) i;
UPDATE log SET missing = CASE hashtext(source_position::text) & 3 WHEN 0 THEN '{name}' WHEN 1 THEN '{note}' WHEN 2 THEN '{name,note}' END::text[]
	WHERE op = 'u' AND was IS NULL AND hashtext(source_position::text || 'x') & 1 = 0;
INSERT INTO log SELECT 't', NULL, NULL, NULL, NULL, cdc_position('0/0'::pg_lsn + i * 700 + 9), timestamptz '2026-03-01' + i * interval '1 day', NULL FROM generate_series(1, 3) i;
\set all 'unchanged_column => ''missing'', old_key_columns => ''{was}'', on_unavailable => ''null'''
TRUNCATE timed, timed_events, timed_tracked, timed_tracked_events;
SELECT converges('everything', 'timed', 'log', 7, 15, args => :'all', times => true);
SELECT converges('everything, tracked', 'timed_tracked', 'log', 8, 15, '{name}', :'all', true);
TRUNCATE timed, timed_events, timed_tracked, timed_tracked_events;
SELECT converges('everything, in one', 'timed', 'log', 9, 1, args => :'all', times => true);
SELECT converges('everything, tracked, in three', 'timed_tracked', 'log', 10, 3, '{name}', :'all', true);

-- as of a position, as of a time: against the versions counted one by one
SELECT count(*) FROM log l
WHERE (SELECT array_agg(h::text ORDER BY h::text) FROM cdc_history_at(NULL::timed, l.source_position) h)
	IS DISTINCT FROM (SELECT array_agg(h::text ORDER BY h::text) FROM timed h WHERE NOT (h.valid_from > l.source_position) AND coalesce(h.valid_to > l.source_position, true));
SELECT count(*) FROM generate_series(timestamptz '2026-01-01', '2026-04-01', '1 day') t
WHERE (SELECT array_agg(h::text ORDER BY h::text) FROM cdc_history_at(NULL::timed, t) h)
	IS DISTINCT FROM (SELECT array_agg(h::text ORDER BY h::text) FROM timed h WHERE NOT (h.valid_from_at > t) AND coalesce(h.valid_to_at > t, true));
SELECT count(*) = 0 AS before_all FROM cdc_history_at(NULL::timed, '0/1'::cdc_position);
-- the predicate becomes a condition that the key's index serves
CREATE FUNCTION uses_index(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN plan::text ~ 'Index Cond[^,}]*valid_from';
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT uses_index('SELECT * FROM timed WHERE id = 1 AND cdc_valid_at(valid_from, valid_to, ''0/500'')');
RESET enable_seqscan;
RESET enable_bitmapscan;
\set ECHO none
DROP SCHEMA history CASCADE;
