-- Which log positions come from: a log that restarted, another server, and
-- the epoch that puts the new log above the old one.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA lineage;
SET search_path = lineage, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE FUNCTION log_of(t text) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', lineage, 'epoch ' || nullif(epoch, 0), 'high ' || high_position) FROM cdc_targets WHERE target = t::regclass
$$;

CREATE FUNCTION fence_of(t text) RETURNS text LANGUAGE sql AS $$ SELECT fence::text FROM cdc_targets WHERE target = t::regclass $$;

--
-- Without a lineage a log that starts lower is stale, and that is said
--
SELECT fresh();
SELECT stage($$ ('c', 33, 'a', '900:4411') $$);
SELECT apply_both('the old server', 'inserted=1', '33=a@900:4411');
SELECT stage($$ ('u', 33, 'b', '3:120') $$);
SELECT apply_both('the new server: a warning each', 'stale=1', '33=a@900:4411');

--
-- With one, the other log is refused until a new epoch is opened for it
--
SELECT fresh(', lineage => ''db-1''');
SELECT both_say('the lineage', $$SELECT log_of('%s')$$, 'db-1');
SELECT stage($$ ('c', 33, 'a', '900:4411'), ('c', 34, 'gone', '900:4000'), ('d', 34, NULL, '900:4500') $$);
SELECT apply_both('from the attached staging, undeclared', 'inserted=1 deleted=1 superseded=1', '33=a@900:4411 34 dead@900:4500');
SELECT apply_both('declared', 'duplicate=2 superseded=1', '33=a@900:4411 34 dead@900:4500', 'lineage => ''db-1''');
SELECT stage($$ ('u', 33, 'b', '3:120') $$);
SELECT both_refuse('another lineage', $$SELECT applied('%s', 'event', 'lineage => ''db-2''')$$, '55000', 'db-2', 'dh');
SELECT both_refuse('also as a dry run', $$SELECT applied('%s', 'event', 'lineage => ''db-2'', dry_run => true')$$, '55000', 'db-2', 'dh');
CREATE TABLE other_event (LIKE event);
INSERT INTO other_event VALUES ('u', 33, 'c', '950:1');
SELECT both_refuse('another staging, undeclared', $$SELECT applied('%s', 'other_event')$$, '55000', 'lineage', 'h');
SELECT both_say('another staging, declared', $$SELECT applied('%s', 'other_event', 'lineage => ''db-1''')$$, 'updated=1');
SELECT both_refuse('a repeated attach does not change it', $$SELECT cdc_attach('%s', lineage => 'db-2')$$, '55000|22023', 'db-2', 'h');
SELECT both_refuse('nor the epoch', $$SELECT cdc_attach('%s', epoch => 7)$$, '55000|22023', 'epoch', 'h');
SELECT both_say('the same again is no change', $$SELECT cdc_attach('%s', lineage => 'db-1')::text || log_of('%s')$$, 'db-1 high 950:1');
-- the switch
SELECT both_refuse('while staging holds rows', $$SELECT cdc_new_epoch('%s', 'db-2')$$, '55000', 'event', 'dh');
TRUNCATE event;
SELECT both_say('a new epoch', $$SELECT cdc_new_epoch('%s', 'db-2') || ' ' || log_of('%s')$$, '1 db-2 epoch 1 high 950:1');
SELECT stage($$ ('u', 33, 'b', '3:120'), ('c', 35, 'new', '2:7'), ('c', 34, 'born again', '1:1') $$);
SELECT both_say('the new log outranks the old', $$SELECT applied('%s', 'event') || ' ' || stands('%s')$$, 'inserted=2 updated=1 33=b@1@3:120 34=born again@1@1:1 35=new@1@2:7');
SELECT both_say('the result is in the epoch', $$SELECT concat_ws(' ', duplicate, low_position, high_position) FROM cdc_apply('%s', 'event')$$, '3 1@1:1 1@3:120');
SELECT both_say('and so is the high position', $$SELECT log_of('%s')$$, 'db-2 epoch 1 high 1@3:120');
SELECT both_refuse('the old lineage is another now', $$SELECT applied('%s', 'other_event', 'lineage => ''db-1''')$$, '55000', 'db-1', 'dh');
-- positions that say their epoch keep it
SELECT stage($$ ('u', 33, 'late word of the old log', '1@2:9'), ('u', 35, 'x', '1@2:8'), ('u', 34, 'the next log', '2@0:5') $$);
SELECT both_say('explicit epochs', $$SELECT applied('%s', 'event') || ' ' || stands('%s')$$, 'updated=2 stale=1 33=b@1@3:120 34=the next log@2@0:5 35=x@1@2:8');
-- again: the lineage may stay as it was
TRUNCATE event;
SELECT both_say('another epoch of one lineage', $$SELECT cdc_new_epoch('%s') || ' ' || log_of('%s')$$, '2 db-2 epoch 2 high 2@0:5');
SELECT stage($$ ('u', 34, 'too low in it', '0:4'), ('u', 33, 'fine', '0:4') $$);
SELECT both_say('in the second epoch', $$SELECT applied('%s', 'event') || ' ' || stands('%s')$$, 'updated=1 stale=1 33=fine@2@0:4 34=the next log@2@0:5 35=x@1@2:8');

--
-- Tombstones, truncates, fence, purge and ties follow
--
SELECT fresh(', lineage => ''A''');
SELECT stage($$ ('c', 1, 'a', '16/B0'), ('d', 2, NULL, '16/C0'), ('c', 3, 'c', '16/D0') $$);
SELECT apply_both('before', 'inserted=2 deleted=1', '1=a@16/B0 2 dead@16/C0 3=c@16/D0');
TRUNCATE event;
SELECT both_say('promoted', $$SELECT cdc_new_epoch('%s', 'B')::text$$, '1');
-- the same LSN in two lineages is no duplicate
SELECT stage($$ ('u', 1, 'b', '16/B0'), ('u', 1, 'a', '16/A8'), ('d', 3, NULL, '1/10') $$);
SELECT apply_both('in epoch 1', 'updated=1 deleted=1 superseded=1', '1=b@1@16/B0 2 dead@16/C0 3 dead@1@1/10');
-- a tie by epoch 0 and by hand is one
SELECT stage($$ ('u', 1, 'x', '1@16/B8'), ('u', 1, 'y', '16/B8') $$);
SELECT both_refuse('a tie within the epoch', $$SELECT applied('%s', 'event')$$, '21000', '1@16/B8', 'h');
SELECT both_say('positions passed by hand are as written', $$SELECT cdc_purge_tombstones('%s', '16/FF') || ' ' || stands('%s') || ', fence ' || fence_of('%s')$$,
	'1 1=b@1@16/B0 3 dead@1@1/10, fence 16/FF');
SELECT stage($$ ('u', 2, 'late, but of the new log', '0/1'), ('t', NULL, NULL, '0/8') $$);
SELECT both_say('a truncate in the epoch', $$SELECT applied('%s', 'event') || ' ' || stands('%s', true) || ', fence ' || fence_of('%s')$$,
	'superseded=1 truncated=1 1=b@1@16/B0, fence 1@0/8');
-- a snapshot row has no position and gets no epoch
SELECT stage($$ ('r', 9, 'seed', '0/9') $$);
SELECT both_say('a snapshot row without position', $$SELECT counts(r) FROM cdc_apply('%s', 'event') r$$, 'fenced=1');
SELECT both_say('with its position', $$SELECT applied('%s', 'event', 'snapshot_position => ''event''') || ' ' || stands('%s', true)$$, 'inserted=1 1=b@1@16/B0 9=seed@1@0/9');

--
-- An epoch from the start
--
SELECT fresh(', lineage => ''x'', epoch => 4');
SELECT stage($$ ('c', 1, 'a', '7'), ('c', 2, 'b', '3@9') $$);
SELECT apply_both('declared at attach', 'inserted=2', '1=a@4@7 2=b@3@9');
TRUNCATE event;
SELECT both_say('the next', $$SELECT cdc_new_epoch('%s', 'y')::text$$, '5');
SELECT both_say('kept over detach and attach', $$SELECT concat(cdc_detach('%s'), cdc_attach('%s', 'event', tombstone_column => CASE '%s' WHEN 'in_row' THEN 'deleted' END), log_of('%s'))$$, 'y epoch 5 high 4@7');
SELECT stage($$ ('u', 1, 'b', '1') $$);
SELECT apply_both('and used', 'updated=1', '1=b@5@1 2=b@3@9');
-- old and new log, any order: epoch 0 of the first log came before the switch
SELECT fresh(', lineage => ''one''');
INSERT INTO event SELECT CASE n % 4 WHEN 0 THEN 'd' ELSE 'u' END, n % 7, 'one ' || n, cdc_position_from_numbers(900, n) FROM generate_series(1, 30) n;
SELECT both_say('log one', $$SELECT (counts(r) <> '')::text FROM cdc_apply('%s', 'event') r$$, 'true');
INSERT INTO event_log TABLE event;
TRUNCATE event;
SELECT both_say('switch', $$SELECT cdc_new_epoch('%s', 'two')::text$$, '1');
INSERT INTO event SELECT CASE n % 4 WHEN 0 THEN 'd' ELSE 'u' END, n % 5, 'two ' || n, cdc_position_from_numbers(3, n) FROM generate_series(1, 20) n ORDER BY hashint8(n);
SELECT both_say('log two', $$SELECT (counts(r) <> '')::text FROM cdc_apply('%s', 'event') r$$, 'true');
INSERT INTO event_log SELECT op, id, v, cdc_position_with_epoch(source_position, 1) FROM event;
SELECT both_are_true('both logs');
SELECT both_say('log two again', $$SELECT applied('%s', 'event')$$, 'duplicate=5 superseded=15');

--
-- Refused
--
SELECT fresh();
SELECT stage($$ ('c', 1, 'a', '1/1') $$);
SELECT both_refuse('a lineage on a target attached without one', $$SELECT applied('%s', 'event', 'lineage => ''x''')$$, '55000', 'lineage', 'h');
CREATE TABLE plain (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
SELECT apply_refused('a lineage on a target that is not attached', 'plain', 'event', 'lineage => ''x''', '55000', 'plain', 'h');
SELECT refused('a new epoch of a target that is not attached', $$SELECT cdc_new_epoch('plain', 'x')$$, '55000', 'plain', 'h');
SELECT refused('of nothing', $$SELECT cdc_new_epoch(NULL, 'x')$$, '22023|22004', 'target');
TRUNCATE event;
SELECT both_say('a lineage may come later', $$SELECT concat(cdc_attach('%s', lineage => 'late'), log_of('%s'))$$, 'late');
CREATE TABLE two (id int PRIMARY KEY, v text, source_lsn pg_lsn, source_ordinal bigint);
CREATE TABLE two_event (op text, id int, v text, source_lsn pg_lsn, source_ordinal bigint);
SELECT cdc_attach('two', 'two_event', lineage => 'x');
SELECT refused('no room for an epoch', $$SELECT cdc_new_epoch('two', 'y')$$, '55000', 'two', 'h');
CREATE TABLE two_more (LIKE two INCLUDING ALL);
SELECT refused('nor at attach', $$SELECT cdc_attach('two_more', 'two_event', epoch => 1)$$, '55000', 'two_more', 'h');
CREATE TABLE plain2 (id int PRIMARY KEY, v text);
SELECT refused('below 0', $$SELECT cdc_attach('plain2', 'event', epoch => -1)$$, '22003|22023', 'epoch');
SELECT refused('above 2^32-1', $$SELECT cdc_attach('plain2', 'event', epoch => 4294967296)$$, '22003|22023', 'epoch');
SELECT expect('nothing was added', count(*)::text, '2') FROM pg_attribute WHERE attrelid = 'plain2'::regclass AND attnum > 0;
SELECT cdc_attach('plain2', 'event', epoch => 4294967295);
SELECT refused('no epoch is left', $$SELECT cdc_new_epoch('plain2')$$, '22003|55000|22023', NULL);
-- only the owner opens an epoch; staging that is gone holds no rows
CREATE ROLE regress_cdc_lineage;
GRANT USAGE ON SCHEMA lineage TO regress_cdc_lineage;
GRANT ALL ON in_row, event TO regress_cdc_lineage;
SET ROLE regress_cdc_lineage;
SELECT refused('not the owner', $$SELECT cdc_new_epoch('in_row', 'mine')$$, '42501', 'in_row');
RESET ROLE;
DROP TABLE event;
SELECT both_say('staging is gone', $$SELECT cdc_new_epoch('%s', 'after') || ' ' || log_of('%s')$$, '1 after epoch 1');

DROP SCHEMA lineage CASCADE;
DROP ROLE regress_cdc_lineage;
