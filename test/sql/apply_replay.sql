-- A replay is free: no tuple, no lock on a row, no WAL, no transaction id.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA apply_replay;
SET search_path = apply_replay, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

-- WAL records that a query writes, each time: a page that it prunes as it reads,
-- of a catalog say, because an autovacuum's snapshot was in the way before, is
-- pruned once.
CREATE FUNCTION wal_records(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	fewest bigint;
BEGIN
	FOR try IN 1 .. 5 LOOP
		EXECUTE 'EXPLAIN (ANALYZE, WAL, COSTS off, TIMING off, SUMMARY off, FORMAT JSON) ' || query INTO plan;
		fewest := least(fewest, (plan->0->'Plan'->>'WAL Records')::bigint);
		EXIT WHEN fewest = 0;
	END LOOP;
	RETURN fewest;
END $$;

CREATE TABLE account (id int PRIMARY KEY, owner text, body text, balance numeric, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE INDEX ON account (owner);
CREATE TABLE account_event (id int, owner text, body text, balance numeric, op text, source_position cdc_position);
INSERT INTO account_event
	SELECT i % 500, CASE WHEN i % 9 > 0 THEN 'owner ' || i END, CASE WHEN i % 9 > 0 THEN repeat(md5(i::text), 5) END, i,
		CASE WHEN i % 9 = 0 THEN 'd' ELSE 'u' END, cdc_position('3/0'::pg_lsn + i)
	FROM generate_series(1, 2000) i;
SELECT expect('first run', counts(r), 'inserted=444 deleted=56 superseded=1500') FROM cdc_apply('account', 'account_event') r;
VACUUM account, account_event;
CREATE TABLE before AS SELECT tuples_of('account') AS account, tuples_of('account_event') AS event;
VACUUM account, account_event, before;

SELECT expect('a replay writes WAL records', wal_records($$SELECT * FROM cdc_apply('account', 'account_event')$$)::text, '0');
SELECT expect('a dry run writes WAL records', wal_records($$SELECT * FROM cdc_apply('account', 'account_event', dry_run => true)$$)::text, '0');
SELECT expect('where all is compared', wal_records($$SELECT * FROM cdc_apply('account', 'account_event', on_same_position => 'rewrite')$$)::text, '0');
SELECT expect('the probe sees a write', (wal_records($$INSERT INTO account_event VALUES (-1, 'x', 'x', 0, 'u', '3/0:1') RETURNING 1$$) > 0)::text, 'true');
DELETE FROM account_event WHERE id = -1;

BEGIN;
SELECT expect('a replay', counts(r), 'duplicate=500 superseded=1500') FROM cdc_apply('account', 'account_event') r;
SELECT expect('takes no transaction id', pg_current_xact_id_if_assigned()::text, NULL);
SELECT expect('a dry run', counts(r), 'duplicate=500 superseded=1500') FROM cdc_apply('account', 'account_event', dry_run => true) r;
SELECT expect('takes none either', pg_current_xact_id_if_assigned()::text, NULL);
-- relation locks of a replay stay at what an ordinary statement takes
SELECT expect('relation lock: ' || relation::regclass, string_agg(mode, ', ' ORDER BY mode), CASE relation::regclass::text WHEN 'account' THEN 'AccessShareLock, RowExclusiveLock' ELSE 'AccessShareLock' END)
FROM (SELECT DISTINCT relation, mode FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation IN ('account'::regclass, 'account_event'::regclass)) l
GROUP BY relation ORDER BY relation::regclass::text;
COMMIT;
SELECT expect('no tuple of the target moved, was locked or written', tuples_of('account'), account) FROM before;
SELECT expect('nor of staging', tuples_of('account_event'), event) FROM before;

-- stale events alone
TRUNCATE account_event;
INSERT INTO account_event SELECT id, 'late', 'late', 0, 'u', '1/1' FROM account;
VACUUM account_event;
SELECT expect('stale events write WAL records', wal_records($$SELECT * FROM cdc_apply('account', 'account_event')$$)::text, '0');
BEGIN;
SELECT expect('stale events', counts(r), 'stale=500') FROM cdc_apply('account', 'account_event') r;
SELECT expect('take no transaction id', pg_current_xact_id_if_assigned()::text, NULL);
COMMIT;
SELECT expect('no tuple was touched', tuples_of('account'), account) FROM before;

-- one new event among them: one row is written, the others are not
INSERT INTO account_event SELECT id, 'news', body, 1, 'u', '9/9' FROM account WHERE id = 77;
CREATE TABLE others AS SELECT md5(string_agg((ctid, xmin, xmax, a)::text, ' ' ORDER BY ctid)) AS rows FROM account a WHERE id <> 77;
SELECT apply_is('one is new', 'account', 'account_event', '', 'updated=1 stale=499 superseded=1', 'SELECT id, owner FROM account WHERE source_position = ''9/9''', '(77,news)');
SELECT expect('the others stay where they are', (SELECT md5(string_agg((ctid, xmin, xmax, a)::text, ' ' ORDER BY ctid)) FROM account a WHERE id <> 77), rows) FROM others;

-- a read-only transaction can do neither more nor less than a dry run
BEGIN READ ONLY;
SELECT expect('a dry run, read only', counts(r), 'stale=499 duplicate=1 superseded=1') FROM cdc_apply('account', 'account_event', dry_run => true) r;
ROLLBACK;

-- an update that leaves all indexed columns alone keeps the chain on its page
CREATE TABLE hot (id int PRIMARY KEY, owner text, n int, source_position cdc_position, deleted boolean NOT NULL DEFAULT false) WITH (fillfactor = 50);
CREATE INDEX ON hot (owner);
CREATE TABLE hot_event (id int, owner text, n int, op text, source_position cdc_position);
INSERT INTO hot_event SELECT g, 'o' || g, g, 'c', '1' FROM generate_series(1, 20) g;
SELECT expect('insert', applied('hot', 'hot_event'), 'inserted=20');
UPDATE hot_event SET n = n + 1, source_position = '2';
BEGIN;
SELECT expect('update', applied('hot', 'hot_event'), 'updated=20');
SELECT expect('all of them heap-only', pg_stat_get_xact_tuples_hot_updated('hot'::regclass)::text, '20');
COMMIT;

SET client_min_messages = warning;
DROP SCHEMA apply_replay CASCADE;
