-- consume => 'truncate' and consume => 'bookmark': what is read once is not
-- read again, what is not read is not lost, and what each refuses.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
SET client_min_messages = error;
CREATE SCHEMA consume;
SET search_path = consume, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/error_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on

-- Nobody else's transaction holds the horizon back, be it autovacuum's.
CREATE PROCEDURE settle() LANGUAGE plpgsql AS $$
DECLARE
	last xid8 := pg_snapshot_xmax(pg_current_snapshot());
BEGIN
	FOR i IN 1 .. 6000 LOOP
		EXIT WHEN pg_snapshot_xmin(pg_current_snapshot()) >= last;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
-- Does a target hold, per key, the last of everything that was ever loaded?
CREATE TABLE journal (target text, op text, id int, v text, source_position cdc_position);
CREATE FUNCTION as_loaded(target text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	wrong bigint;
BEGIN
	EXECUTE format($q$
		SELECT count(*)
		FROM (SELECT DISTINCT ON (id) * FROM journal j WHERE j.target = %L ORDER BY id, source_position DESC) j
		FULL JOIN %I t USING (id)
		WHERE (j.op = 'd', j.source_position) IS DISTINCT FROM (t.deleted, t.source_position) OR (NOT t.deleted AND j.v IS DISTINCT FROM t.v)$q$,
		target, target) INTO wrong;
	RETURN CASE WHEN wrong = 0 THEN 'as loaded' ELSE wrong || ' keys are not as loaded' END;
END $$;
CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO journal VALUES (TG_ARGV[0], NEW.op, NEW.id, NEW.v, NEW.source_position);
	RETURN NEW;
END $$;

--
-- TRUNCATE
--
CREATE TABLE t (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE s (op text, id int, v text, source_position cdc_position);
CREATE TRIGGER kept BEFORE INSERT ON s FOR EACH ROW EXECUTE FUNCTION kept('t');
INSERT INTO s VALUES ('c', 1, repeat('x', 100000), '0/1'), ('c', 2, 'two', '0/2'), ('d', 3, NULL, '0/3'), ('u', 2, 'zwei', '0/4'), ('m', NULL, NULL, '0/5');
ALTER TABLE s ALTER COLUMN v SET STORAGE EXTERNAL;
INSERT INTO s VALUES ('c', 4, repeat('long ', 5000), '0/6');
SELECT apply_is('all is read, staging is empty', 't', 's', 'consume => ''truncate''', 'inserted=3 deleted=1 superseded=1 ignored=1', 'SELECT count(*) FROM s', '(0)');
DELETE FROM journal WHERE op = 'm';
SELECT as_loaded('t');
SELECT expect('its file too', pg_relation_size('s')::text, '0');
-- nothing there: nothing is done
SELECT relfilenode AS before FROM pg_class WHERE oid = 's'::regclass \gset
SELECT apply_is('nothing to read', 't', 's', 'consume => ''truncate''', 'nothing', format('SELECT relfilenode = %s FROM pg_class WHERE oid = ''s''::regclass', :before), '(t)');
-- an error leaves everything
INSERT INTO s VALUES ('u', 1, 'ok', '0/10'), ('?', 2, 'bad', '0/11');
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'truncate')$$);
DELETE FROM s WHERE op = '?';
DELETE FROM journal WHERE op = '?';
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
CREATE TRIGGER refuse BEFORE TRUNCATE ON s FOR EACH STATEMENT EXECUTE FUNCTION refuse();
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'truncate')$$);
DROP TRIGGER refuse ON s;
BEGIN;
SELECT applied('t', 's', 'consume => ''truncate''');
ROLLBACK;
SELECT expect('rolled back', rows_of('SELECT op, id FROM s') || rows_of('SELECT v FROM t WHERE id = 1 AND v = ''ok'''), '(u,1)none');
SELECT apply_is('and again', 't', 's', 'consume => ''truncate'', expect_events => 1', 'updated=1', 'SELECT count(*) FROM s', '(0)');
SELECT as_loaded('t');
-- contradictions
INSERT INTO s VALUES ('u', 1, 'waits', '0/12');
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'truncate', staging_filter => 'id = 1')$$);
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'truncate', dry_run => true)$$);
SELECT error_of($$SELECT cdc_attach('t', 's', tombstone_column => 'deleted', consume => 'truncate', staging_filter => 'id = 1')$$);
-- what is no table
CREATE VIEW s_view AS SELECT * FROM s;
CREATE MATERIALIZED VIEW s_stored AS SELECT * FROM s;
SELECT error_of(format($$SELECT cdc_apply('t', %L, consume => 'truncate')$$, n)) FROM unnest('{s_view,s_stored}'::text[]) n;
SELECT error_of($$SELECT cdc_attach('t', 's_view', tombstone_column => 'deleted', consume => 'truncate')$$);
-- a snapshot that was taken before the lock may not see what is there
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'truncate')$$);
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'truncate')$$);
ROLLBACK;
-- referenced, or in use: as TRUNCATE says it, before anything is done
ALTER TABLE s ADD UNIQUE (id);
CREATE TABLE refers (id int REFERENCES s (id));
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'truncate')$$);
DROP TABLE refers;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM s;
FETCH c;
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'truncate')$$);
ROLLBACK;
-- a trigger of the target that feeds staging
CREATE FUNCTION echo() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO s VALUES ('u', NEW.id + 100, 'echo', '0/99');
	RETURN NULL;
END $$;
CREATE TRIGGER echo AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION echo();
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'truncate')$$);
DROP TRIGGER echo ON t;
-- rights: TRUNCATE and SELECT on staging, asked for before it is locked
CREATE ROLE regress_consume_user;
GRANT USAGE ON SCHEMA consume TO regress_consume_user;
GRANT SELECT, INSERT, UPDATE ON t TO regress_consume_user;
GRANT SELECT, INSERT, DELETE ON s TO regress_consume_user;
GRANT SELECT, INSERT ON journal TO regress_consume_user;
SET ROLE regress_consume_user;
BEGIN;
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'truncate')$$);
SELECT expect('not locked', count(*)::text, '0') FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 's'::regclass AND mode = 'AccessExclusiveLock';
ROLLBACK;
RESET ROLE;
GRANT TRUNCATE ON s TO regress_consume_user;
REVOKE SELECT ON s FROM regress_consume_user;
SET ROLE regress_consume_user;
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'truncate')$$);
RESET ROLE;
GRANT SELECT ON s TO regress_consume_user;
-- rows that the caller does not see
ALTER TABLE s ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON s USING (id < 2);
INSERT INTO s VALUES ('u', 2, 'hidden', '0/13');
SET ROLE regress_consume_user;
SELECT error_of($$SELECT cdc_apply('t', 's', consume => 'truncate')$$);
RESET ROLE;
SELECT expect('the owner sees all', applied('t', 's', 'consume => ''truncate'''), 'updated=2');
ALTER TABLE s DISABLE ROW LEVEL SECURITY;
INSERT INTO s VALUES ('d', 2, NULL, '0/14');
SET ROLE regress_consume_user;
SELECT apply_is('by who may', 't', 's', 'consume => ''truncate''', 'deleted=1', 'SELECT count(*) FROM s', '(0)');
RESET ROLE;
SELECT as_loaded('t');
-- partitions and children; a recorded staging
CREATE TABLE parted (op text, id int, v text, source_position cdc_position) PARTITION BY LIST (op);
CREATE TABLE "parted C" PARTITION OF parted FOR VALUES IN ('c');
CREATE TABLE parted_other PARTITION OF parted DEFAULT;
CREATE TRIGGER kept BEFORE INSERT ON parted FOR EACH ROW EXECUTE FUNCTION kept('t2');
CREATE TABLE t2 (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
SELECT cdc_attach('t2', 'parted', tombstone_column => 'deleted', consume => 'truncate', guard => 'error');
SELECT consume, bookmark_column FROM cdc_targets WHERE target = 't2'::regclass;
INSERT INTO parted SELECT 'c', i, 'v' || i, ('0/' || i)::cdc_position FROM generate_series(1, 9) i;
INSERT INTO parted VALUES ('d', 3, NULL, '0/20');
SELECT expect('a recorded dry run', inserted || ' ' || deleted, '8 1') FROM cdc_apply('t2', consume => 'keep', dry_run => true);
SELECT error_of($$SELECT cdc_apply('t2', dry_run => true)$$);
SELECT expect('recorded', inserted || ' ' || deleted, '8 1') FROM cdc_apply('t2');
SELECT expect('every partition', rows_of('parted') || as_loaded('t2'), 'noneas loaded');
CREATE TABLE parent (op text, id int, v text, source_position cdc_position);
CREATE TABLE child () INHERITS (parent);
INSERT INTO child VALUES ('u', 1, 'heir', '0/30');
INSERT INTO journal SELECT 't2', * FROM child;
INSERT INTO parent VALUES ('u', 2, 'own', '0/31');
INSERT INTO journal SELECT 't2', * FROM ONLY parent;
SELECT apply_is('children', 't2', 'parent', 'consume => ''truncate''', 'updated=2', 'SELECT count(*) FROM parent', '(0)');
SELECT as_loaded('t2');
CREATE FOREIGN DATA WRAPPER consume_fdw;
CREATE SERVER consume_server FOREIGN DATA WRAPPER consume_fdw;
CREATE FOREIGN TABLE far () INHERITS (parent) SERVER consume_server;
SELECT error_of($$SELECT cdc_apply('t2', 'parent', consume => 'truncate')$$);
DROP FOREIGN TABLE far;
CREATE TABLE t3 (id int PRIMARY KEY, deleted boolean, CHECK (id > 0)) INHERITS (parent);
SELECT error_of($$SELECT cdc_apply('t3', 'parent', consume => 'truncate', default_op => 'c')$$);
DROP TABLE t3;
-- staging named anew must fit the recorded consume
CREATE VIEW parent_view AS SELECT * FROM parent;
SELECT error_of($$SELECT cdc_attach('t2', 'parent_view')$$);

--
-- A bookmark
--
CREATE TABLE b (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE log (op text, id int, v text, source_position cdc_position);
CREATE TRIGGER kept BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION kept('b');
INSERT INTO log VALUES ('c', 1, 'one', '0/1'), ('c', 2, 'two', '0/2');
-- the column must be there, of its type, with its default
SELECT error_of($$SELECT cdc_apply('b', 'log', consume => 'bookmark')$$);
SELECT error_of($$SELECT cdc_attach('b', 'log', tombstone_column => 'deleted', consume => 'bookmark')$$);
ALTER TABLE log ADD COLUMN "The xid" bigint DEFAULT txid_current();
SELECT error_of($$SELECT cdc_apply('b', 'log', consume => 'bookmark', bookmark_column => 'The xid')$$);
ALTER TABLE log ALTER COLUMN "The xid" DROP DEFAULT, ALTER COLUMN "The xid" TYPE xid8 USING pg_current_xact_id();
SELECT error_of($$SELECT cdc_apply('b', 'log', consume => 'bookmark', bookmark_column => 'The xid')$$);
ALTER TABLE log DROP COLUMN "The xid";
-- the hint mends each
ALTER TABLE consume.log ADD COLUMN loaded_xid int DEFAULT 1;
SELECT error_of($$SELECT cdc_apply('b', 'log', consume => 'bookmark')$$);
ALTER TABLE consume.log ALTER COLUMN loaded_xid DROP DEFAULT, ALTER COLUMN loaded_xid TYPE xid8 USING pg_current_xact_id(), ALTER COLUMN loaded_xid SET DEFAULT pg_current_xact_id();
CALL settle();
-- rows that were there before count as loaded by the ALTER TABLE
SELECT apply_is('the first call reads all', 'b', 'log', 'consume => ''bookmark''', 'inserted=2', 'SELECT count(*) FROM log', '(2)');
SELECT apply_is('the second nothing', 'b', 'log', 'consume => ''bookmark''', 'nothing', 'SELECT count(*) FROM log', '(2)');
-- and writes nothing
CREATE FUNCTION bookmarks() RETURNS text LANGUAGE sql AS $$ SELECT string_agg((ctid, xmin, r)::text, ' ' ORDER BY ctid) FROM cdc_bookmark r $$;
SELECT bookmarks() AS before \gset
BEGIN;
SELECT applied('b', 'log', 'consume => ''bookmark''');
SELECT expect('no transaction id', pg_current_xact_id_if_assigned()::text, NULL);
SELECT expect('no lock that stops a loader', string_agg(DISTINCT mode, ' '), 'AccessShareLock') FROM pg_locks WHERE relation = 'log'::regclass AND pid = pg_backend_pid();
COMMIT;
SELECT expect('the bookmark stays where it is', bookmarks(), :'before');
-- new rows, late positions, deletes
INSERT INTO log (op, id, v, source_position) VALUES ('u', 1, 'uno', '0/10'), ('c', 3, 'three', '0/3'), ('d', 2, NULL, '0/11');
CALL settle();
SELECT expect('a dry run reads the same', applied('b', 'log', 'consume => ''bookmark'', dry_run => true'), 'inserted=1 updated=1 deleted=1');
SELECT expect('and moves nothing', bookmarks(), :'before');
SELECT expect('new rows only', applied('b', 'log', 'consume => ''bookmark'', expect_events => 3'), 'inserted=1 updated=1 deleted=1');
SELECT expect('each once', applied('b', 'log', 'consume => ''bookmark'''), 'nothing');
INSERT INTO log (op, id, v, source_position) VALUES ('u', 2, 'late', '0/5');
CALL settle();
SELECT expect('stale ones too', applied('b', 'log', 'consume => ''bookmark''') || ' ' || applied('b', 'log', 'consume => ''bookmark'''), 'stale=1 nothing');
SELECT as_loaded('b');
-- an error moves nothing
INSERT INTO log (op, id, v, source_position) VALUES ('?', 5, 'bad', '0/20'), ('c', 6, 'good', '0/21');
CALL settle();
SELECT error_of($$SELECT cdc_apply('b', 'log', consume => 'bookmark')$$);
DELETE FROM journal WHERE op = '?';
UPDATE log SET op = 'm' WHERE op = '?';
BEGIN;
SELECT applied('b', 'log', 'consume => ''bookmark''');
ROLLBACK;
SELECT expect('after the mend', applied('b', 'log', 'consume => ''bookmark''') || ' ' || applied('b', 'log', 'consume => ''bookmark'''), 'inserted=1 ignored=1 nothing');
SELECT as_loaded('b');
-- the caller's own transaction has not ended
BEGIN;
INSERT INTO log (op, id, v, source_position) VALUES ('c', 7, 'own', '0/22');
SAVEPOINT a;
INSERT INTO log (op, id, v, source_position) VALUES ('c', 8, 'own, deeper', '0/23');
RELEASE a;
SAVEPOINT b;
INSERT INTO log (op, id, v, source_position) VALUES ('c', 9, 'taken back', '0/24');
ROLLBACK TO b;
SELECT expect('own rows wait', applied('b', 'log', 'consume => ''bookmark'''), 'nothing');
COMMIT;
CALL settle();
SELECT expect('and come', applied('b', 'log', 'consume => ''bookmark'''), 'inserted=2');
SELECT as_loaded('b');
-- rows without a transaction of this cluster count as unread, but move nothing
INSERT INTO log (op, id, v, source_position, loaded_xid) VALUES ('c', 10, 'unknown', '0/25', NULL), ('c', 11, 'restored', '0/26', '18446744073709551615');
SELECT expect('unread', applied('b', 'log', 'consume => ''bookmark'''), 'inserted=2');
SELECT bookmarks() AS before \gset
SELECT expect('always', applied('b', 'log', 'consume => ''bookmark'''), 'duplicate=2');
SELECT expect('at no cost', bookmarks(), :'before');
SELECT as_loaded('b');
DELETE FROM log WHERE id >= 10;
-- another call's filter does not hide rows from the next one
INSERT INTO log (op, id, v, source_position) VALUES ('c', 12, 'even', '0/30'), ('c', 13, 'odd', '0/31');
CALL settle();
SELECT expect('filtered', applied('b', 'log', 'consume => ''bookmark'', staging_filter => ''id = 12'''), 'inserted=1');
SELECT expect('the same filter', applied('b', 'log', 'consume => ''bookmark'', staging_filter => ''id = 12'''), 'nothing');
SELECT expect('nothing is passed by', (SELECT inserted::text FROM cdc_apply('b', 'log', consume => 'bookmark')), '1');
SELECT as_loaded('b');
-- what is void: another cluster, a transaction that is still to come, another column, another table of the name
SELECT expect('read on', (SELECT events::text FROM cdc_apply('b', 'log', consume => 'bookmark')), '0');
UPDATE cdc_bookmark SET system_identifier = system_identifier + 1 WHERE target = 'b'::regclass;
SELECT expect('another cluster', (SELECT (events = (SELECT count(*) FROM log))::text FROM cdc_apply('b', 'log', consume => 'bookmark')), 'true');
UPDATE cdc_bookmark SET read_below = '18446744073709551000' WHERE target = 'b'::regclass;
SELECT expect('a transaction to come', (SELECT (events = (SELECT count(*) FROM log))::text FROM cdc_apply('b', 'log', consume => 'bookmark')), 'true');
ALTER TABLE log ADD COLUMN other xid8 DEFAULT pg_current_xact_id();
CALL settle();
SELECT expect('another column', (SELECT (events = (SELECT count(*) FROM log))::text FROM cdc_apply('b', 'log', consume => 'bookmark', bookmark_column => 'other')), 'true');
ALTER TABLE log DROP COLUMN loaded_xid;
ALTER TABLE log RENAME COLUMN other TO loaded_xid;
ALTER TABLE log RENAME TO log_by_another_name;
SELECT expect('renames are followed', (SELECT events::text FROM cdc_apply('b', 'log_by_another_name', consume => 'bookmark')), '0');
SELECT expect('one pair', count(*)::text, '1') FROM cdc_bookmark;
CREATE TABLE log (LIKE log_by_another_name INCLUDING DEFAULTS);
INSERT INTO log SELECT * FROM log_by_another_name;
SELECT expect('a new table of the old name', (SELECT (events = (SELECT count(*) FROM log))::text FROM cdc_apply('b', 'log', consume => 'bookmark')), 'true');
SELECT expect('two pairs', count(*)::text, '2') FROM cdc_bookmark;
DROP TABLE log_by_another_name;
SELECT expect('dropped and forgotten', count(*)::text, '1') FROM cdc_bookmark;
-- read again on demand; detached, the target starts anew
SELECT expect('keep reads all, and misses no column', (SELECT (events = (SELECT count(*) FROM log))::text FROM cdc_apply('b', 'log', consume => 'keep', on_schema_change => 'fail')), 'true');
SELECT cdc_attach('b', 'log', tombstone_column => 'deleted', consume => 'bookmark', staging_filter => 'id > 0');
INSERT INTO log (op, id, v, source_position) VALUES ('u', 13, 'attached', '0/40');
INSERT INTO journal VALUES ('b', 'u', 13, 'attached', '0/40');
CALL settle();
SELECT expect('the recorded filter is another', (SELECT (events = (SELECT count(*) FROM log) AND updated = 1)::text FROM cdc_apply('b')), 'true');
SELECT expect('and seen', read_below::text, (SELECT read_below::text FROM cdc_bookmark WHERE target = 'b'::regclass AND staging = 'log'::regclass)) FROM cdc_targets WHERE target = 'b'::regclass;
SELECT expect('all of it is below', count(*)::text, '0') FROM log, cdc_targets WHERE target = 'b'::regclass AND loaded_xid >= read_below;
SET search_path = public, pg_temp;
SELECT consume.expect('and the same under any search_path', (SELECT events::text FROM cdc_apply('consume.b')), '0');
SET search_path = consume, public;
SELECT as_loaded('b');
SELECT cdc_detach('b');
SELECT expect('forgotten', count(*)::text, '0') FROM cdc_bookmark;

-- no dump holds a bookmark
SELECT expect('not dumped', (extconfig @> ARRAY['cdc_target_state'::regclass::oid])::text || (extconfig @> ARRAY['cdc_bookmark'::regclass::oid]), 'truefalse') FROM pg_extension WHERE extname = 'cdc_precedence';

-- several targets of one log, each with its own bookmark
CREATE TABLE b2 (LIKE b INCLUDING ALL);
SELECT expect('another target reads for itself', (SELECT (events = (SELECT count(*) FROM log))::text FROM cdc_apply('b2', 'log', consume => 'bookmark')), 'true');
SELECT expect('the same keys', rows_of('SELECT id, source_position, deleted FROM b2'), rows_of('SELECT id, source_position, deleted FROM b WHERE id NOT IN (10, 11)'));
DROP TABLE b2;
SELECT expect('a target dropped', count(*)::text, '0') FROM cdc_bookmark;

-- through views: the table below counts
CREATE VIEW v AS SELECT op, id, v, source_position, loaded_xid AS lx FROM log WHERE op <> 'm';
CREATE VIEW v2 AS SELECT * FROM v;
CALL settle();
SELECT expect('through views', (SELECT (events > 0)::text FROM cdc_apply('b', 'v2', consume => 'bookmark', bookmark_column => 'lx')) || (SELECT events FROM cdc_apply('b', 'v2', consume => 'bookmark', bookmark_column => 'lx')), 'true0');
CREATE TABLE log2 (LIKE log INCLUDING DEFAULTS);
INSERT INTO log2 SELECT * FROM log;
CREATE OR REPLACE VIEW v AS SELECT op, id, v, source_position, loaded_xid AS lx FROM log2;
SELECT expect('a view over another table', (SELECT (events > 0)::text FROM cdc_apply('b', 'v2', consume => 'bookmark', bookmark_column => 'lx')), 'true');
CREATE VIEW v_sum AS SELECT op, id, max(v) AS v, source_position, loaded_xid FROM log GROUP BY 1, 2, 4, 5;
CREATE VIEW v_made AS SELECT op, id, v, source_position, coalesce(loaded_xid) AS loaded_xid FROM log;
CREATE MATERIALIZED VIEW v_stored AS SELECT * FROM log;
SELECT error_of(format($$SELECT cdc_apply('b', %L, consume => 'bookmark')$$, n)) FROM unnest('{v,v_sum,v_made,v_stored}'::text[]) n;
ALTER TABLE log2 ALTER COLUMN loaded_xid DROP DEFAULT;
SELECT error_of($$SELECT cdc_apply('b', 'v2', consume => 'bookmark', bookmark_column => 'lx')$$);
-- one landing of raw events, two targets
CREATE TABLE raw (payload jsonb, loaded_xid xid8 DEFAULT pg_current_xact_id());
CREATE INDEX ON raw (loaded_xid);
CREATE TABLE r1 (id int PRIMARY KEY, v text);
CREATE TABLE r2 (id int PRIMARY KEY, v text, loaded_xid int);
CREATE TABLE r3 (id int PRIMARY KEY, v text);
SELECT cdc_event_view(t || '_events', t::regclass, 'raw', 'payload', 'debezium-flat', source_table => 'public.' || t) FROM unnest('{r1,r2,r3}'::text[]) t;
SELECT expect('passed on, but for a column of the target''s own', string_agg(attrelid::regclass || ' ' || atttypid::regtype, ', ' ORDER BY attrelid::regclass::text), 'r1_events xid8, r2_events integer, r3_events xid8') FROM pg_attribute WHERE attrelid::regclass::text ~ '^r\d_events$' AND attname = 'loaded_xid';
SELECT cdc_attach(t::regclass, (t || '_events')::regclass, consume => 'bookmark') FROM unnest('{r1,r3}'::text[]) t;
INSERT INTO raw (payload) SELECT jsonb_build_object('id', i, 'v', 'v' || i, '__op', 'c', '__deleted', 'false', '__source_lsn', 1000 + i, '__source_schema', 'public', '__source_table', CASE WHEN i % 3 = 0 THEN 'r1' ELSE 'r3' END) FROM generate_series(1, 9) i;
CALL settle();
SELECT expect('the first', (SELECT inserted::text FROM cdc_apply('r1')) || (SELECT events FROM cdc_apply('r1')), '30');
SELECT expect('the second', (SELECT inserted::text FROM cdc_apply('r3')) || (SELECT events FROM cdc_apply('r3')), '60');
SELECT expect('all of it', rows_of('SELECT id FROM r1 UNION ALL SELECT id FROM r3'), rows_of('SELECT (payload ->> ''id'')::int FROM raw'));
-- partitions
CREATE TABLE plog (op text, id int, v text, source_position cdc_position, loaded_xid xid8 DEFAULT pg_current_xact_id()) PARTITION BY LIST (op);
CREATE TABLE plog_c PARTITION OF plog FOR VALUES IN ('c');
CREATE TABLE plog_u PARTITION OF plog DEFAULT;
INSERT INTO plog (op, id, v, source_position) VALUES ('c', 50, 'p', '0/50'), ('d', 1, NULL, '0/51');
CALL settle();
SELECT expect('partitions', applied('b', 'plog', 'consume => ''bookmark''') || ' ' || applied('b', 'plog', 'consume => ''bookmark'''), 'inserted=1 deleted=1 nothing');
-- who loads into one by its name gets its default: another would be passed by, none is unread
ALTER TABLE plog_u ALTER loaded_xid SET DEFAULT '3';
INSERT INTO plog_u (op, id, v, source_position) VALUES ('u', 52, 'p', '0/52');
SELECT error_of($$SELECT cdc_apply('b', 'plog', consume => 'bookmark')$$);
ALTER TABLE plog_u ALTER loaded_xid DROP DEFAULT;
UPDATE plog_u SET loaded_xid = DEFAULT WHERE loaded_xid = '3';
SELECT expect('no default', applied('b', 'plog', 'consume => ''bookmark''') || ' ' || applied('b', 'plog', 'consume => ''bookmark'''), 'inserted=1 duplicate=1');
DELETE FROM plog_u WHERE loaded_xid IS NULL;
CREATE FOREIGN TABLE plog_far PARTITION OF plog FOR VALUES IN ('x') SERVER consume_server;
SELECT error_of($$SELECT cdc_apply('b', 'plog', consume => 'bookmark')$$);
CREATE FOREIGN TABLE far (op text, id int, v text, source_position cdc_position, loaded_xid xid8 DEFAULT pg_current_xact_id()) SERVER consume_server;
SELECT error_of($$SELECT cdc_apply('b', 'far', consume => 'bookmark')$$);
-- rows that the caller does not see
GRANT SELECT, INSERT, UPDATE ON b TO regress_consume_user;
GRANT SELECT ON log TO regress_consume_user;
ALTER TABLE log ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON log USING (id < 2);
SET ROLE regress_consume_user;
SELECT error_of($$SELECT cdc_apply('b', 'log', consume => 'bookmark')$$);
RESET ROLE;
ALTER TABLE log DISABLE ROW LEVEL SECURITY;
-- no rights on the bookmarks are needed, nor given
INSERT INTO log (op, id, v, source_position) VALUES ('u', 13, 'by somebody', '0/60');
CALL settle();
SET ROLE regress_consume_user;
SELECT expect('by who may', (SELECT updated::text FROM cdc_apply('b', 'log', consume => 'bookmark')) || (SELECT events FROM cdc_apply('b', 'log', consume => 'bookmark')), '10');
SELECT error_of($$SELECT * FROM cdc_bookmark$$);
RESET ROLE;
-- REPEATABLE READ: up to its own snapshot
INSERT INTO log (op, id, v, source_position) VALUES ('u', 13, 'repeatable', '0/61');
CALL settle();
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT expect('REPEATABLE READ', applied('b', 'log', 'consume => ''bookmark''') || ' ' || applied('b', 'log', 'consume => ''bookmark'''), 'updated=1 nothing');
COMMIT;
-- an index on the column serves the condition of a later call
CREATE TABLE big (op text, id int, v text, source_position cdc_position, loaded_xid xid8 DEFAULT pg_current_xact_id());
CREATE INDEX ON big (loaded_xid);
INSERT INTO big SELECT 'c', i, 'v', ('1/' || i)::cdc_position FROM generate_series(1000, 9999) i;
CALL settle();
SELECT expect('much', (SELECT inserted::text FROM cdc_apply('b', 'big', consume => 'bookmark')), '9000');
INSERT INTO big SELECT 'u', i, 'w', '2/1' FROM generate_series(1000, 1004) i;
ANALYZE big;
CALL settle();
SELECT pg_stat_force_next_flush() \gset
SELECT expect('little', (SELECT updated::text FROM cdc_apply('b', 'big', consume => 'bookmark')), '5');
CREATE FUNCTION scans() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_stat_clear_snapshot();
	RETURN (SELECT seq_scan || ' ' || (idx_tup_fetch < 100) FROM pg_stat_user_tables WHERE relid = 'big'::regclass);
END $$;
SELECT pg_stat_force_next_flush() \gset
SELECT split_part(scans(), ' ', 1)::int AS scans \gset
INSERT INTO big SELECT 'u', i, 'x', '2/2' FROM generate_series(1000, 1004) i;
CALL settle();
SELECT expect('and again', (SELECT updated::text FROM cdc_apply('b', 'big', consume => 'bookmark')), '5');
SELECT pg_stat_force_next_flush() \gset
SELECT expect('by the index', scans(), :scans || ' true');

--
-- The recipe for very large landings: partitions are applied one by one and dropped
--
CREATE TABLE d (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE landing (op text, id int, v text, source_position cdc_position, part int NOT NULL DEFAULT 1) PARTITION BY LIST (part);
CREATE TABLE landing_1 PARTITION OF landing FOR VALUES IN (1);
CREATE TRIGGER kept BEFORE INSERT ON landing FOR EACH ROW EXECUTE FUNCTION kept('d');
SELECT cdc_attach('d', 'landing', tombstone_column => 'deleted', except_columns => '{part}');
INSERT INTO landing SELECT 'c', i, 'first', ('0/' || i)::cdc_position FROM generate_series(10, 40) i;
-- new rows go to the next partition; a loader that is at work is waited for by DETACH
BEGIN;
CREATE TABLE landing_2 PARTITION OF landing FOR VALUES IN (2);
ALTER TABLE landing ALTER COLUMN part SET DEFAULT 2;
COMMIT;
INSERT INTO landing SELECT 'u', i, 'second', ('1/' || i)::cdc_position FROM generate_series(10, 20) i;
ALTER TABLE landing DETACH PARTITION landing_1;
-- a row that came late for the old partition has nowhere to go, and says so
SELECT error_of($$INSERT INTO landing VALUES ('c', 1, 'late', '0/1', 1)$$);
BEGIN;
SELECT expect('the partition', counts(r), 'inserted=31') FROM cdc_apply('d', 'landing_1') r;
DROP TABLE landing_1;
COMMIT;
SELECT expect('the rest is there', count(*)::text, '11') FROM landing;
-- the next turn
BEGIN;
CREATE TABLE landing_3 PARTITION OF landing FOR VALUES IN (3);
ALTER TABLE landing ALTER COLUMN part SET DEFAULT 3;
COMMIT;
INSERT INTO landing VALUES ('d', 15, NULL, '2/1');
ALTER TABLE landing DETACH PARTITION landing_2;
BEGIN;
SELECT expect('the next one', counts(r), 'updated=11') FROM cdc_apply('d', 'landing_2') r;
DROP TABLE landing_2;
COMMIT;
SELECT expect('and what is landing now', counts(r), 'deleted=1') FROM cdc_apply('d') r;
SELECT as_loaded('d');

DROP OWNED BY regress_consume_user;
SET client_min_messages = error;
DROP SCHEMA consume CASCADE;
DROP FOREIGN DATA WRAPPER consume_fdw CASCADE;
DROP ROLE regress_consume_user;
SELECT expect_gone FROM (SELECT count(*) AS expect_gone FROM cdc_bookmark) x;
