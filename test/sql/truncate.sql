-- Truncate events: a change of the whole table that has a place in the log
-- like any other, and the same outcome in both homes of the tombstone.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA cdc_truncate;
SET search_path = cdc_truncate, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
-- calls of stale events alone warn
SET client_min_messages = error;

--
-- Rows at or below it die, rows above stay, and the fence remembers
--
SELECT fresh();
SELECT stage($$ ('c', 1, 'a', '2/10'), ('c', 2, 'b', '2/20'), ('c', 3, 'c', '2/28'), ('d', 4, NULL, '2/11') $$);
SELECT apply_both('before', 'inserted=3 deleted=1', '1=a@2/10 2=b@2/20 3=c@2/28 4 dead@2/11');
SELECT stage($$ ('t', NULL, NULL, '2/20') $$);
SELECT both_say('dry run', $$SELECT counts(r) || ' ' || (SELECT coalesce(fence::text, 'no fence') FROM cdc_targets WHERE target = '%s'::regclass) FROM cdc_apply('%s', 'event', dry_run => true) r$$, 'truncated=1 no fence');
SELECT both_say('dry run leaves the rows', $$SELECT stands('%s', true)$$, '1=a@2/10 2=b@2/20 3=c@2/28');
SELECT expect('row home', applied('in_row', 'event') || ': ' || stands('in_row'), 'truncated=1: 1 dead@2/20 2 dead@2/20 3=c@2/28 4 dead@2/11');
SELECT expect('values of the dead are kept', rows_of('SELECT id, v FROM in_row WHERE id < 3'), '(1,a) (2,b)');
SELECT expect('table home', applied('in_table', 'event') || ': ' || stands('in_table'), 'truncated=1: 3=c@2/28 4 dead@2/11');
INSERT INTO event_log TABLE event;
SELECT both_say('the fence is there', $$SELECT fence::text FROM cdc_targets WHERE target = '%s'::regclass$$, '2/20');
SELECT both_are_true('truncated');
-- again: stale, and nothing is written
CREATE TABLE before AS SELECT tuples_of('in_row') AS r, tuples_of('in_table') AS t;
SELECT both_say('once more', $$SELECT applied('%s', 'event')$$, 'stale=1');
SELECT expect('no row was touched', tuples_of('in_row') || tuples_of('in_table'), r || t) FROM before;
-- late events of dead keys, seen or never seen; then news
SELECT stage($$ ('u', 1, 'late', '2/15'), ('c', 9, 'late', '2/18'), ('d', 8, NULL, '2/19'), ('c', 7, 'at it', '2/20'), ('r', 6, 'bare', NULL) $$);
SELECT both_say('late events of dead keys', $$SELECT applied('%s', 'event')$$, 'fenced=5');
INSERT INTO event_log SELECT * FROM event WHERE op <> 'r';
SELECT both_are_true('nothing came back');
SELECT stage($$ ('u', 3, 'late', '2/18'), ('c', 1, 'new', '2/30'), ('c', 9, 'new', '2/20:1') $$);
SELECT both_say('late for a live key is stale; news are news', $$SELECT applied('%s', 'event')$$, 'inserted=2 stale=1');
INSERT INTO event_log TABLE event;
SELECT both_say('live', $$SELECT stands('%s', true)$$, '1=new@2/30 3=c@2/28 9=new@2/20:1');
SELECT both_are_true('after the truncate');

--
-- In one batch with row events
--
SELECT fresh();
SELECT stage($$ ('c', 1, 'a', '2/10'), ('c', 2, 'b', '2/10'), ('c', 3, 'c', '2/10') $$);
SELECT apply_both('before', 'inserted=3', '1=a@2/10 2=b@2/10 3=c@2/10');
SELECT stage($$ ('u', 1, 'dies', '2/15'), ('t', NULL, NULL, '2/20'), ('c', 2, 'lives', '2/30'), ('c', 4, 'born and gone', '2/12'),
	('c', 5, 'born', '2/21'), ('d', 5, NULL, '2/19'), ('d', 6, NULL, '2/20'), ('c', 7, 'at it', '2/20') $$);
SELECT both_say('events at or below it are superseded', $$SELECT applied('%s', 'event')$$, 'inserted=2 superseded=5 truncated=1');
INSERT INTO event_log TABLE event;
SELECT both_say('live', $$SELECT stands('%s', true)$$, '2=lives@2/30 5=born@2/21');
SELECT both_are_true('one batch');
SELECT both_say('again', $$SELECT applied('%s', 'event')$$, 'stale=1 duplicate=2 superseded=1 fenced=4');
-- two truncates: the greatest counts
SELECT stage($$ ('t', NULL, NULL, '2/50'), ('c', 2, 'x', '2/45'), ('t', NULL, NULL, '2/40'), ('c', 3, 'y', '2/50:1'), ('T', 1, 'a key and values say nothing', '2/41') $$);
SELECT both_say('the greatest counts', $$SELECT applied('%s', 'event')$$, 'inserted=1 superseded=3 truncated=1');
INSERT INTO event_log SELECT lower(op), id, v, source_position FROM event;
SELECT both_say('live', $$SELECT stands('%s', true) || ', fence ' || fence FROM cdc_targets WHERE target = '%s'::regclass$$, '3=y@2/50:1, fence 2/50');
SELECT both_are_true('two truncates');
-- the same truncate twice
SELECT stage($$ ('t', NULL, NULL, '2/60'), ('truncate', NULL, NULL, '2/60') $$);
SELECT both_say('a copy is superseded', $$SELECT applied('%s', 'event')$$, 'superseded=1 truncated=1');
-- one at or below the fence is stale and supersedes nothing
SELECT stage($$ ('t', NULL, NULL, '2/50'), ('c', 1, 'a', '2/70'), ('c', 2, 'late', '2/45') $$);
SELECT both_say('a stale one', $$SELECT applied('%s', 'event')$$, 'inserted=1 stale=1 fenced=1');
SELECT both_say('live', $$SELECT stands('%s', true) || ', fence ' || fence FROM cdc_targets WHERE target = '%s'::regclass$$, '1=a@2/70, fence 2/60');
-- a late one beside one that counts
SELECT stage($$ ('t', NULL, NULL, '2/65'), ('t', NULL, NULL, '2/55') $$);
SELECT both_say('a late one beside one that counts', $$SELECT applied('%s', 'event')$$, 'superseded=1 truncated=1');
-- at or below the floor: stale
SELECT both_say('floor', $$SELECT cdc_set_floor('%s', '2/80')::text$$, '');
SELECT stage($$ ('t', NULL, NULL, '2/80'), ('c', 5, 'e', '2/90') $$);
SELECT both_say('at the floor', $$SELECT applied('%s', 'event')$$, 'inserted=1 stale=1');
SELECT both_say('nothing died, no fence', $$SELECT stands('%s', true) || ', fence ' || fence FROM cdc_targets WHERE target = '%s'::regclass$$, '1=a@2/70 5=e@2/90, fence 2/65');

--
-- What else dies, and what does not
--
SELECT fresh();
INSERT INTO in_row VALUES (1, 'without position', NULL), (2, 'zero', '0/0:4');
INSERT INTO in_table VALUES (1, 'without position', NULL), (2, 'zero', '0/0:4');
SELECT stage($$ ('c', 3, 'c', '3/10'), ('d', 4, NULL, '3/50'), ('d', 5, NULL, '3/10') $$);
SELECT both_say('before', $$SELECT applied('%s', 'event')$$, 'inserted=1 deleted=2');
SELECT stage($$ ('t', NULL, NULL, '3/20') $$);
SELECT expect('row home', applied('in_row', 'event') || ': ' || stands('in_row'), 'truncated=1: 1 dead@3/20 2 dead@3/20 3 dead@3/20 4 dead@3/50 5 dead@3/10');
SELECT expect('table home', applied('in_table', 'event') || ': ' || stands('in_table'), 'truncated=1: 4 dead@3/50 5 dead@3/10');
-- the tombstone above it still says no
SELECT stage($$ ('u', 4, 'late', '3/30'), ('u', 5, 'new', '3/30') $$);
SELECT both_say('a tombstone above it stays', $$SELECT applied('%s', 'event') || ' ' || stands('%s', true)$$, 'inserted=1 stale=1 5=new@3/30');

-- nothing is inherited across it: not from the row, not from the batch
CREATE TABLE doc_row (id int PRIMARY KEY, v text, body text DEFAULT 'default body');
CREATE TABLE doc_table (LIKE doc_row INCLUDING ALL);
CREATE TABLE doc_event (op text, id int, v text, body text, source_position cdc_position);
SELECT cdc_attach('doc_row', 'doc_event', tombstones => 'row', ignore_nulls => true), cdc_attach('doc_table', 'doc_event', ignore_nulls => true);
CREATE FUNCTION docs(counts_want text, want text, what text) RETURNS text LANGUAGE sql AS $$
	SELECT both_give(what, applied('doc_row', 'doc_event') || ': ' || stands('doc_row', true), applied('doc_table', 'doc_event') || ': ' || stands('doc_table', true), counts_want || ': ' || want)
$$;
INSERT INTO doc_event VALUES ('c', 1, 'a', 'long', '4/10'), ('c', 2, 'b', 'long', '4/10');
SELECT docs('inserted=2', '1=a,long@4/10 2=b,long@4/10', 'before');
TRUNCATE doc_event;
INSERT INTO doc_event VALUES ('t', NULL, NULL, NULL, '4/20'), ('u', 1, 'new', NULL, '4/30'), ('u', 2, 'x', 'longer', '4/15'), ('u', 2, 'new', NULL, '4/31');
SELECT docs('inserted=2 superseded=1 truncated=1', '1=new,default body@4/30 2=new,default body@4/31', 'nothing inherited');
-- a row above it keeps what it has
TRUNCATE doc_event;
INSERT INTO doc_event VALUES ('u', 1, NULL, 'own', '4/40'), ('t', NULL, NULL, NULL, '4/35'), ('u', 1, 'newest', NULL, '4/41');
SELECT docs('inserted=1 superseded=1 truncated=1', '1=newest,own@4/41', 'from an event after it');

--
-- Refused
--
SELECT fresh();
SELECT stage($$ ('c', 1, 'a', '1/1'), ('t', NULL, NULL, NULL) $$);
SELECT both_refuse('no position', $$SELECT applied('%s', 'event')$$, '23502', 'position', 'd');
SELECT stage($$ ('c', 1, 'a', '1/1'), ('t', NULL, NULL, '0/0:1') $$);
SELECT both_refuse('0/0 is no position', $$SELECT applied('%s', 'event')$$, '23502', 'position', 'd');
SELECT stage($$ ('c', 1, 'a', '1/1'), ('t', NULL, NULL, '47:11') $$);
SELECT both_refuse('another kind', $$SELECT applied('%s', 'event')$$, '42804', NULL, 'h');
CREATE TABLE plain (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
SELECT stage($$ ('c', 1, 'a', '1/1'), ('t', NULL, NULL, '1/2') $$);
SELECT apply_refused('not attached', 'plain', 'event', '', '55000', 'attached', 'dh');
SELECT both_say('mapped away', $$SELECT applied('%s', 'event', 'op_map => ''{"t":"ignore"}''')$$, 'inserted=1 ignored=1');
-- expect_events counts it, so do low and high position
SELECT both_say('one of the events', $$SELECT concat_ws(' ', events, truncated, duplicate, low_position, high_position) FROM cdc_apply('%s', 'event', expect_events => 2)$$, '2 1 0 1/1 1/2');

--
-- Positions in two columns; a partitioned target; a flag with a time
--
CREATE TABLE two_row (id int PRIMARY KEY, v text, source_lsn pg_lsn, source_ordinal bigint, deleted_at timestamptz);
CREATE TABLE two_table (id int PRIMARY KEY, v text, source_lsn pg_lsn, source_ordinal bigint);
CREATE TABLE two_event (op text, id int, v text, source_lsn pg_lsn, source_ordinal bigint);
SELECT cdc_attach('two_row', 'two_event', tombstone_column => 'deleted_at'), cdc_attach('two_table', 'two_event');
INSERT INTO two_event VALUES ('c', 1, 'a', '5/10', 1), ('c', 2, 'b', '5/20', 3), ('c', 3, 'c', '5/20', 4), ('c', 4, 'd', '5/20', NULL);
SELECT both_give('two columns', applied('two_row', 'two_event'), applied('two_table', 'two_event'), 'inserted=4');
TRUNCATE two_event;
INSERT INTO two_event VALUES ('t', NULL, NULL, '5/20', 3);
SELECT both_give('two columns', applied('two_row', 'two_event'), applied('two_table', 'two_event'), 'truncated=1');
SELECT expect('row home', rows_of('SELECT id, source_lsn::cdc_position, source_ordinal, deleted_at <= now() FROM two_row'), '(1,5/20,3,t) (2,5/20,3,t) (3,5/20,4,) (4,5/20,3,t)');
SELECT expect('table home', rows_of('SELECT id, v, source_lsn::cdc_position, source_ordinal FROM two_table'), '(3,c,5/20,4)');
SELECT expect('fence', string_agg(fence::text, ' '), '5/20:3 5/20:3') FROM cdc_targets WHERE target IN ('two_row'::regclass, 'two_table'::regclass);

CREATE TABLE part_row (id int, part text, v text, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE part_row_a PARTITION OF part_row FOR VALUES IN ('a');
CREATE TABLE part_row_b (part text NOT NULL, v text, id int NOT NULL);
ALTER TABLE part_row ATTACH PARTITION part_row_b FOR VALUES IN ('b');
CREATE TABLE part_table (id int, part text, v text, PRIMARY KEY (id, part)) PARTITION BY RANGE (part);
CREATE TABLE part_table_ab PARTITION OF part_table FOR VALUES FROM ('a') TO ('c') PARTITION BY LIST (part);
CREATE TABLE part_table_a PARTITION OF part_table_ab FOR VALUES IN ('a');
CREATE TABLE part_table_b PARTITION OF part_table_ab DEFAULT;
CREATE TABLE part_event (op text, id int, part text, v text, source_position cdc_position);
SELECT cdc_attach('part_row', 'part_event', tombstones => 'row'), cdc_attach('part_table', 'part_event');
INSERT INTO part_event VALUES ('c', 1, 'a', 'x', '6/10'), ('c', 1, 'b', 'y', '6/10'), ('c', 2, 'a', 'z', '6/30');
SELECT both_give('partitioned', applied('part_row', 'part_event'), applied('part_table', 'part_event'), 'inserted=3');
TRUNCATE part_event;
INSERT INTO part_event VALUES ('t', NULL, NULL, NULL, '6/20');
SELECT both_give('partitioned', applied('part_row', 'part_event') || ' ' || stands('part_row', true), applied('part_table', 'part_event') || ' ' || stands('part_table', true), 'truncated=1 2,a=z@6/30');
TRUNCATE part_event;
INSERT INTO part_event VALUES ('u', 1, 'a', 'late', '6/15'), ('u', 3, 'b', 'late', '6/20'), ('c', 1, 'b', 'new', '6/21');
SELECT both_give('partitioned', applied('part_row', 'part_event') || ' ' || stands('part_row', true), applied('part_table', 'part_event') || ' ' || stands('part_table', true), 'inserted=1 fenced=2 1,b=new@6/21 2,a=z@6/30');

-- a key that moves across it: the old key dies by the truncate or by the move
CREATE TABLE move_event (op text, id int, v text, source_position cdc_position, __old_id int);
SELECT fresh();
SELECT stage($$ ('c', 1, 'a', '7/10'), ('c', 2, 'b', '7/10') $$);
SELECT apply_both('before', 'inserted=2', '1=a@7/10 2=b@7/10');
INSERT INTO move_event VALUES ('u', 11, 'a', '7/30', 1), ('t', NULL, NULL, '7/20', NULL), ('u', 12, 'b', '7/15', 2);
SELECT both_say('moves', $$SELECT applied('%s', 'move_event') || ' ' || stands('%s', true)$$, 'inserted=1 superseded=1 truncated=1 11=a@7/30');

--
-- Triggers and consume
--
SELECT fresh();
CREATE TABLE fired (what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO fired VALUES (TG_TABLE_NAME || ' ' || TG_OP || ' ' || OLD.id);
	RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
SELECT stage($$ ('c', 1, 'a', '7/10'), ('c', 2, 'b', '7/30') $$);
SELECT apply_both('before', 'inserted=2', '1=a@7/10 2=b@7/30');
CREATE TRIGGER note BEFORE UPDATE OR DELETE ON in_row FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note BEFORE UPDATE OR DELETE ON in_table FOR EACH ROW EXECUTE FUNCTION note();
SELECT stage($$ ('t', NULL, NULL, '7/20') $$);
SELECT expect('consumed by the row home', applied('in_row', 'event', 'consume => ''delete''') || ' ' || rows_of('event'), 'truncated=1 none');
SELECT stage($$ ('t', NULL, NULL, '7/20') $$);
SELECT expect('consumed by the table home', applied('in_table', 'event', 'consume => ''delete''') || ' ' || rows_of('event'), 'truncated=1 none');
SELECT expect('row triggers fire', rows_of('fired'), '("in_row UPDATE 1") ("in_table DELETE 1")');
-- a truncate that kills nothing fires nothing
SELECT fresh();
TRUNCATE fired;
CREATE FUNCTION note_statement() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fired VALUES (TG_TABLE_NAME || ' ' || TG_WHEN || ' ' || TG_OP); RETURN NULL; END $$;
CREATE TRIGGER s AFTER INSERT OR UPDATE OR DELETE ON in_row FOR EACH STATEMENT EXECUTE FUNCTION note_statement();
CREATE TRIGGER s AFTER INSERT OR UPDATE OR DELETE ON in_table FOR EACH STATEMENT EXECUTE FUNCTION note_statement();
SELECT stage($$ ('t', NULL, NULL, '7/20') $$);
SELECT both_say('nothing to kill', $$SELECT applied('%s', 'event')$$, 'truncated=1');
SELECT expect('no statement trigger without a row', rows_of('fired'), 'none');

--
-- The law: any order, any batches
--
SELECT fresh();
INSERT INTO event_log
	SELECT CASE WHEN h % 7 = 0 THEN 'd' ELSE 'u' END, 1 + h % 12, 'v' || n, cdc_position(pg_lsn '8/0' + n::numeric)
	FROM (SELECT n, abs(hashint8(n)) AS h FROM generate_series(1, 90) n) e
	UNION ALL SELECT 't', NULL, NULL, cdc_position(pg_lsn '8/0' + n::numeric, 5) FROM (VALUES (23), (61)) s(n);
SELECT expect('the truth is worth a look', (length(truth()) > 40)::text, 'true');
SELECT deliveries('truncates in any order', 12);

SET client_min_messages = warning;
DROP SCHEMA cdc_truncate CASCADE;
