-- What was done to attached targets (cdc_runs), how each is doing (cdc_status),
-- and how far a long call has come.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA runs;
SET search_path = runs, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;
SET application_name = 'runs test';

CREATE TABLE side (id int PRIMARY KEY, v text);
CREATE TABLE in_row (id int PRIMARY KEY, v text);
CREATE TABLE free (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE event (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('side', 'event', guard => 'error'), cdc_attach('in_row', 'event', tombstones => 'row');
CREATE FUNCTION runs_of(t regclass) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(concat_ws(' ', operation, events, high_position, sqlstate), ', ' ORDER BY run_id), 'none') FROM cdc_runs WHERE target = t
$$;

--
-- One row per call that had events, with the result that the call returned
--
CREATE TABLE returned (LIKE cdc_runs);
-- a call, and its result kept as the row that the log should have
CREATE FUNCTION apply_and_keep(t regclass, s regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r cdc_apply_result; before timestamptz := clock_timestamp();
BEGIN
	SELECT * INTO r FROM cdc_apply(t, s);
	INSERT INTO returned SELECT (SELECT max(run_id) FROM cdc_runs), t, 'runs.' || s::text, 'apply', before, clock_timestamp() - before, current_user, 'runs test',
		r.events, r.inserted, r.updated, r.deleted, r.stale, r.duplicate, r.superseded, r.fenced, r.ignored, r.truncated, r.low_position, r.high_position;
	RETURN counts(r);
END $$;
INSERT INTO event SELECT (ARRAY['c', 'u', 'd'])[1 + i % 3], i % 40, 'v' || i, cdc_position('1/0'::pg_lsn + i) FROM generate_series(1, 200) i;
INSERT INTO event VALUES ('t', NULL, NULL, '1/32'), ('m', NULL, NULL, '1/33');
SELECT 'first: ' || t, apply_and_keep(t, 'event') FROM unnest('{side,in_row}'::regclass[]) t;
SELECT 'replay: ' || t, apply_and_keep(t, 'event') FROM unnest('{side,in_row}'::regclass[]) t;
CREATE TABLE event2 AS SELECT * FROM event WHERE id < 20;
UPDATE event2 SET source_position = cdc_position('2/0'::pg_lsn + id, id) WHERE op <> 't';
SELECT 'other staging: ' || t, counts(r) FROM unnest('{side}'::regclass[]) t, cdc_apply(t, 'event2', on_tie => 'upsert') r;
INSERT INTO returned SELECT * FROM cdc_runs WHERE target = 'side'::regclass AND staging = 'runs.event2';
SELECT expect('it names the staging of the call', count(*)::text, '1') FROM returned WHERE staging = 'runs.event2';
SELECT expect('logged and not returned, or other than returned', count(*)::text, '0') FROM (
	SELECT run_id, target, staging, operation, role, application_name, events, inserted, updated, deleted, stale, duplicate, superseded, fenced, ignored, truncated, low_position, high_position, error, sqlstate FROM cdc_runs WHERE target IN ('side'::regclass, 'in_row'::regclass)
	EXCEPT ALL SELECT run_id, target, staging, operation, role, application_name, events, inserted, updated, deleted, stale, duplicate, superseded, fenced, ignored, truncated, low_position, high_position, error, sqlstate FROM returned) x;
SELECT expect('returned and not logged', (SELECT count(*) FROM returned)::text, (SELECT count(*) FROM cdc_runs WHERE target IN ('side'::regclass, 'in_row'::regclass))::text);
SELECT expect('times are those of the call', count(*)::text, '4') FROM cdc_runs l JOIN returned r USING (run_id) WHERE l.staging = 'runs.event' AND l.started_at >= r.started_at AND l.started_at + l.duration <= r.started_at + r.duration AND l.duration > '0';
SELECT expect('who wrote, wrote WAL', bool_and(wal_bytes > 1000)::text, 'true') FROM cdc_runs WHERE target IN ('side'::regclass, 'in_row'::regclass) AND inserted > 0;

--
-- What leaves no row
--
CREATE TABLE empty (LIKE event);
CREATE TABLE before AS SELECT count(*) AS n FROM cdc_runs;
SELECT expect('a dry run', (events > 0)::text, 'true') FROM cdc_apply('side', dry_run => true);
SELECT expect('no events', counts(r), 'nothing') FROM cdc_apply('side', 'empty') r;
SELECT expect('a target that is not attached', (inserted > 0)::text, 'true') FROM cdc_apply('free', 'event2', on_tie => 'upsert', op_map => '{"t": "ignore"}') r;
SET cdc_precedence.track_runs = off;
SELECT expect('not asked for', (events > 0)::text, 'true') FROM cdc_apply('side');
SELECT cdc_set_floor('side', NULL);
RESET cdc_precedence.track_runs;
SELECT refused('one that fails takes its row back', $$SELECT * FROM cdc_apply('side', expect_events => 7)$$, '22023', '7', 'dh', false);
SELECT expect('no row', (SELECT count(*) FROM cdc_runs)::text, n::text) FROM before;

--
-- A replay writes this row and nothing else, and without it nothing
--
CREATE TABLE tuples AS SELECT t, tuples_of(t) AS was FROM unnest('{side,side_tombstones,in_row,event,public.cdc_target_rule,public.cdc_target_state,public.cdc_target_seen}'::text[]) t;
BEGIN;
SET LOCAL cdc_precedence.track_runs = off;
SELECT expect('a replay: ' || t, (inserted + updated + deleted)::text, '0') FROM unnest('{side,in_row}'::regclass[]) t, cdc_apply(t, 'event');
SELECT expect('takes no transaction id', pg_current_xact_id_if_assigned()::text, NULL);
COMMIT;
SELECT expect('a replay: ' || t, (inserted + updated + deleted)::text, '0') FROM unnest('{side,in_row}'::regclass[]) t, cdc_apply(t, 'event');
SELECT expect('tuples of ' || t, tuples_of(t), was) FROM tuples;
SELECT expect('two rows more', (SELECT count(*) - n FROM cdc_runs)::text, '2') FROM before;

--
-- Other operations
--
CREATE TABLE since AS SELECT max(run_id) AS run_id FROM cdc_runs;
CREATE TABLE purged AS SELECT cdc_purge_tombstones('side', '1/B0') AS n;
SELECT cdc_purge_tombstones('in_row', '1/B0', max_rows => 1);
SELECT cdc_set_fence('side', '1/60'), cdc_set_floor('side', '1/10'), cdc_set_floor('side', NULL);
DELETE FROM event;
SELECT cdc_new_epoch('side', 'db2');
SELECT cdc_purge_tombstones('side', older_than => '1 year');
SELECT expect('each has its row', string_agg(concat_ws(' ', target, operation, events, high_position), ', ' ORDER BY run_id),
	'side purge ' || (SELECT n FROM purged) || ' 1/B0, in_row purge 1 1/B0, side set_fence 1/60, side set_floor 1/10, side set_floor, side new_epoch') FROM cdc_runs WHERE run_id > (SELECT run_id FROM since);

--
-- Kept for a time
--
SHOW cdc_precedence.runs_retention;
UPDATE cdc_run_log SET started_at = started_at - interval '91 days' WHERE run_id <= (SELECT max(run_id) FROM cdc_run_log WHERE target = 'in_row'::regclass);
INSERT INTO event VALUES ('c', 1, 'x', '3/1');
SET cdc_precedence.runs_retention = -1;
SELECT expect('applied', counts(r), 'updated=1') FROM cdc_apply('side') r;
SELECT expect('for ever', (count(*) > 1)::text, 'true') FROM cdc_runs WHERE target = 'in_row'::regclass;
RESET cdc_precedence.runs_retention;
UPDATE event SET source_position = '3/2';
-- rows of other targets that are older come first
SELECT count(cdc_set_fence('side', '1/60')) FROM generate_series(1, 50);
SELECT expect('older than 90 days', count(*)::text || runs_of('in_row'), '0none') FROM cdc_run_log WHERE started_at < now() - interval '90 days';
SELECT expect('younger', (count(*) > 5)::text, 'true') FROM cdc_runs WHERE target = 'side'::regclass;

--
-- Who sees them
--
CREATE ROLE regress_cdc_runs_owner;
CREATE ROLE regress_cdc_runs_reader;
CREATE ROLE regress_cdc_runs_other;
CREATE ROLE regress_cdc_runs_monitor IN ROLE pg_monitor;
GRANT USAGE ON SCHEMA runs TO PUBLIC;
ALTER TABLE side OWNER TO regress_cdc_runs_owner;
ALTER TABLE in_row OWNER TO regress_cdc_runs_owner;
GRANT SELECT ON side TO regress_cdc_runs_reader;
SELECT cdc_set_fence('in_row', '1/60');
SELECT cdc_set_fence('in_row', '1/60');
CREATE FUNCTION seen() RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', (SELECT string_agg(DISTINCT target::text, ',' ORDER BY target::text) FROM cdc_runs WHERE target IN ('side'::regclass, 'in_row'::regclass)),
		(SELECT string_agg(target::text, ',' ORDER BY target::text) FROM cdc_status WHERE target IN ('side'::regclass, 'in_row'::regclass)))
$$;
SET ROLE regress_cdc_runs_owner;
SELECT expect('the owner sees', seen(), 'in_row,side in_row,side');
SELECT refused('retention is the superuser''s', 'SET cdc_precedence.runs_retention = 0', '42501', 'runs_retention', '', false);
SET cdc_precedence.track_runs = off;
RESET cdc_precedence.track_runs;
SET ROLE regress_cdc_runs_reader;
SELECT expect('a reader of one table sees', seen(), 'side side');
SET ROLE regress_cdc_runs_other;
SELECT expect('others see', seen(), '');
SELECT expect('and count nothing', (cdc_status_counts('side'))::text, '(,)');
SELECT refused('the table itself is closed: ' || t, 'SELECT * FROM ' || t, '42501', t, '', false) FROM unnest('{cdc_run_log,cdc_target_seen,cdc_run_id}'::text[]) t;
SELECT refused('and not to be written: ' || t, 'INSERT INTO ' || t || ' DEFAULT VALUES', '42501', t, '', false) FROM unnest('{cdc_run_log,cdc_target_seen}'::text[]) t;
SELECT refused('nor through its view', 'DELETE FROM cdc_runs', '42501', 'cdc_runs', '', false);
SELECT refused('the sequence neither', $$SELECT nextval('cdc_run_id')$$, '42501', 'cdc_run_id', '', false);
SET ROLE regress_cdc_runs_monitor;
SELECT expect('a member of pg_monitor sees', seen(), 'in_row,side in_row,side');
SELECT expect('rows that wait, too', rows_waiting::text, '1') FROM cdc_status WHERE target = 'side'::regclass;
RESET ROLE;
SELECT expect('no dump holds them', count(*)::text, '0') FROM pg_extension, unnest(extconfig) c WHERE extname = 'cdc_precedence' AND c::regclass::text ~ 'run|seen';

--
-- How each is doing
--
INSERT INTO event SELECT 'd', i, NULL, cdc_position('4/0'::pg_lsn + i) FROM generate_series(1, 30) i;
INSERT INTO event SELECT 'c', i, 'x', cdc_position('4/0'::pg_lsn + i) FROM generate_series(100, 110) i;
SELECT expect('applied: ' || t, (deleted > 0)::text, 'true') FROM unnest('{side,in_row}'::regclass[]) t, cdc_apply(t) r;
CREATE FUNCTION status_is(what text, t text, waiting bigint, dead bigint, high text) RETURNS text LANGUAGE sql AS $$
	SELECT expect(what, concat_ws(' ', staging, rows_waiting, tombstones, high_position, fence, floor, last_events, last_error), concat_ws(' ', 'runs.event', waiting, dead, high, '1/60', NULL, 42))
	FROM cdc_status WHERE target = t::regclass
$$;
SELECT status_is('side table', 'side', (SELECT count(*) FROM event), (SELECT count(*) FROM side_tombstones), '1@4/6E');
SELECT status_is('in the row', 'in_row', (SELECT count(*) FROM event), (SELECT count(*) FROM in_row WHERE deleted), '4/6E');
SELECT expect('its last run', (last_run = (SELECT max(started_at) FROM cdc_runs r WHERE r.target = s.target AND operation = 'apply'))::text, 'true') FROM cdc_status s WHERE target IN ('side'::regclass, 'in_row'::regclass);
SELECT expect('never seen empty', last_seen_empty::text, NULL) FROM cdc_status WHERE target = 'side'::regclass;
TRUNCATE event;
SELECT expect('nothing to do', counts(r), 'nothing') FROM cdc_apply('side') r;
SELECT expect('seen empty after its last run', (last_seen_empty > last_run AND last_seen_empty <= clock_timestamp())::text, 'true') FROM cdc_status WHERE target = 'side'::regclass;
CREATE TABLE seen_tuples AS SELECT tuples_of('public.cdc_target_seen') AS was;
SELECT expect('again', counts(r), 'nothing') FROM cdc_apply('side') r;
SELECT expect('soon after, it is not written again', tuples_of('public.cdc_target_seen'), was) FROM seen_tuples;
INSERT INTO event VALUES ('c', 1, 'y', '5/1');
SELECT expect('a run between', counts(r), 'inserted=1') FROM cdc_apply('side') r;
TRUNCATE event;
SELECT expect('nothing to do once more', counts(r), 'nothing') FROM cdc_apply('side') r;
SELECT expect('seen empty after that run', (last_seen_empty > last_run)::text, 'true') FROM cdc_status WHERE target = 'side'::regclass;
-- nobody's view runs for who looks at the status
CREATE FUNCTION trap() RETURNS boolean LANGUAGE plpgsql COST 1 AS $$ BEGIN RAISE EXCEPTION 'a view was run'; END $$;
CREATE VIEW event_view AS SELECT * FROM event WHERE trap();
CREATE TABLE viewed (id int PRIMARY KEY, v text);
SELECT cdc_attach('viewed', 'event_view');
SELECT expect('a view is not counted', concat_ws(' ', staging, rows_waiting, tombstones), 'runs.event_view 0') FROM cdc_status WHERE target = 'viewed'::regclass;
CREATE TABLE cut (LIKE event) PARTITION BY RANGE (id);
CREATE TABLE cut_1 PARTITION OF cut FOR VALUES FROM (0) TO (10);
CREATE TABLE cut_2 PARTITION OF cut FOR VALUES FROM (10) TO (20);
INSERT INTO cut SELECT 'c', i, 'x', cdc_position('5/0'::pg_lsn + i) FROM generate_series(5, 14) i;
CREATE TABLE cut_target (id int PRIMARY KEY, v text, gone timestamptz) PARTITION BY HASH (id);
CREATE TABLE cut_target_0 PARTITION OF cut_target FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE cut_target_1 (gone timestamptz, v text, id int NOT NULL);
ALTER TABLE cut_target ATTACH PARTITION cut_target_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT cdc_attach('cut_target', 'cut', tombstone_column => 'gone');
SELECT expect('partitions', concat_ws(' ', rows_waiting, tombstones), '10 0') FROM cdc_status WHERE target = 'cut_target'::regclass;
UPDATE cut SET op = 'd' WHERE id % 3 = 0;
SELECT expect('applied', counts(r), 'inserted=7 deleted=3') FROM cdc_apply('cut_target') r;
SELECT expect('partitions of a timestamp', concat_ws(' ', rows_waiting, tombstones), '10 ' || (SELECT count(*) FROM cut_target WHERE gone IS NOT NULL)) FROM cdc_status WHERE target = 'cut_target'::regclass;
-- too long to count: estimated, or left out
CREATE TABLE large (LIKE event, filler text);
ALTER TABLE large ALTER filler SET STORAGE PLAIN;
INSERT INTO large SELECT 'c', i, 'x', cdc_position('5/0'::pg_lsn + i), repeat('x', 7000) FROM generate_series(1, 8300) i;
ANALYZE large;
SELECT cdc_attach('viewed', 'large', except_columns => '{filler}');
SELECT expect('estimated', (rows_waiting = (SELECT reltuples FROM pg_class WHERE oid = 'large'::regclass) AND abs(rows_waiting - 8300) < 100)::text, 'true') FROM cdc_status WHERE target = 'viewed'::regclass;
DROP TABLE large;
SELECT expect('no staging any more', concat_ws(' ', staging, rows_waiting, tombstones), 'runs.large 0') FROM cdc_status WHERE target = 'viewed'::regclass;

--
-- Renamed, detached, dropped
--
ALTER TABLE side RENAME TO other_side;
SELECT expect('followed', (runs_of('other_side') <> 'none')::text, 'true');
SELECT cdc_detach('other_side');
SELECT expect('kept', (runs_of('other_side') <> 'none')::text, 'true');
SELECT expect('no status', count(*)::text, '0') FROM cdc_status WHERE target = 'other_side'::regclass;
SELECT 'other_side'::regclass::oid AS oid \gset
DROP TABLE other_side;
SELECT expect('gone with the table', (SELECT count(*) FROM cdc_run_log WHERE target = :oid)::text || (SELECT count(*) FROM cdc_target_seen WHERE target = :oid), '00');
CREATE TEMP TABLE passing (id int PRIMARY KEY, v text);
SELECT cdc_attach('passing', 'event');
SELECT expect('a temporary target', runs_of('passing'), 'none');
INSERT INTO event VALUES ('c', 1, 'y', '5/1');
SELECT expect('applied', counts(r), 'inserted=1') FROM cdc_apply('passing') r;
SELECT expect('is logged too', runs_of('passing'), 'apply 1 5/1');

--
-- How far a long call has come
--
CREATE VIEW slow AS SELECT op, id, v, source_position FROM event WHERE id % 64 <> 0 OR pg_sleep(0.01) IS NOT NULL;
TRUNCATE event;
INSERT INTO event SELECT 'c', i, 'x', cdc_position('7/0'::pg_lsn + i) FROM generate_series(1, 200) i;
CREATE TABLE long_one (id int PRIMARY KEY, v text);
CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id % 64 = 0 THEN PERFORM pg_sleep(0.01); END IF; RETURN NEW; END $$;
CREATE TRIGGER nap BEFORE INSERT ON long_one FOR EACH ROW EXECUTE FUNCTION nap();
SELECT cdc_attach('long_one', 'slow');
SET client_min_messages = notice;
SELECT expect('nothing is said', inserted::text, '200') FROM cdc_apply('long_one', dry_run => true);
SET cdc_precedence.progress_interval = '2ms';
SELECT expect('after each interval', inserted::text, '200') FROM cdc_apply('long_one');
SET cdc_precedence.progress_interval = '1h';
SELECT expect('not before', duplicate::text, '200') FROM cdc_apply('long_one');
SET client_min_messages = error;

DROP SCHEMA runs CASCADE;
DROP ROLE regress_cdc_runs_owner, regress_cdc_runs_reader, regress_cdc_runs_other, regress_cdc_runs_monitor;
