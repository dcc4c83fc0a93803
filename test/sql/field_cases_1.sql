-- Field cases FC01 to FC16: faults of appliers seen in the field, each with
-- the state that is right and with variants of its kind.  Helpers and the
-- notation of states: test/include/field_cases.sql.
\set ECHO none
\pset format unaligned
\pset tuples_only on
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/include/field_cases.sql'
\i :helpers

\echo FC01: a delete, then an insert of one key in one batch
CREATE TABLE part (sku int PRIMARY KEY, qty int, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE part_in (op text, sku int, qty int, source_position cdc_position);
INSERT INTO part VALUES (71, 5, false, '1A/100');
CALL fc.stage('part_in', $$ ('d', 71, NULL, '1A/200'), ('i', 71, 12, '1A/200:1') $$);
SELECT fc.deliveries('part', 'part_in', 'any', '71|12@1A/200:1');
SELECT fc.is('FC01 counts', fc.apply('part', 'part_in'), '2 = 1 updated + 1 superseded');
SELECT fc.is('FC01 live again', fc.state('part'), '71|12@1A/200:1');
-- the insert in a later transaction
TRUNCATE part;
INSERT INTO part VALUES (71, 5, false, '1A/100');
CALL fc.stage('part_in', $$ ('i', 71, 12, '1A/240'), ('d', 71, NULL, '1A/200') $$);
SELECT fc.deliveries('part', 'part_in', 'any', '71|12@1A/240');
SELECT fc.is('FC01 a later transaction', fc.apply('part', 'part_in'), '2 = 1 updated + 1 superseded');
-- both directions at once: no split of the batch by op is right for both keys
TRUNCATE part;
INSERT INTO part VALUES (71, 5, false, '1A/100'), (72, 6, false, '1A/100');
CALL fc.stage('part_in', $$ ('i', 71, 12, '1A/200:1'), ('d', 72, NULL, '1A/200:3'),
                              ('u', 72, 13, '1A/200:2'), ('d', 71, NULL, '1A/200:0') $$);
SELECT fc.deliveries('part', 'part_in', 'any', '71|12@1A/200:1 tomb 72@1A/200:3');
SELECT fc.is('FC01 both directions', fc.apply('part', 'part_in'), '4 = 1 updated + 1 deleted + 2 superseded');
-- the target knows the key as deleted
TRUNCATE part;
INSERT INTO part VALUES (71, 5, true, '1A/100');
CALL fc.stage('part_in', $$ ('d', 71, NULL, '1A/200'), ('i', 71, 12, '1A/200:1') $$);
SELECT fc.is('FC01 revival', fc.apply('part', 'part_in'), '2 = 1 inserted + 1 superseded');
SELECT fc.is('FC01 revival, state', fc.state('part'), '71|12@1A/200:1');

\echo FC02: several changes of one key share the commit position
CREATE TABLE acct (id int PRIMARY KEY, n int, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE acct_in (op text, id int, n int, source_position cdc_position);
INSERT INTO acct VALUES (9, 0, false, '2C/100');
CALL fc.stage('acct_in', $$ ('u', 9, 3, '2C/500:2'), ('u', 9, 1, '2C/500:0'), ('u', 9, 2, '2C/500:1') $$);
SELECT fc.deliveries('acct', 'acct_in', 'any', '9|3@2C/500:2');
SELECT fc.is('FC02 B1', fc.apply('acct', 'acct_in'), '3 = 1 updated + 2 superseded');
SELECT fc.is('FC02 B1, state', fc.state('acct'), '9|3@2C/500:2');
CALL fc.stage('acct_in', $$ ('u', 9, 4, '2C/600:0'), ('d', 9, NULL, '2C/600:1') $$);
SELECT fc.deliveries('acct', 'acct_in', 'any', 'tomb 9@2C/600:1');
SELECT fc.is('FC02 B2', fc.apply('acct', 'acct_in'), '2 = 1 deleted + 1 superseded');
SELECT fc.is('FC02 B2, state', fc.state('acct'), 'tomb 9@2C/600:1');
SELECT fc.is('FC02 the tombstone keeps the last live image', (SELECT n::text FROM acct), '4');
-- ordinals compare as numbers
CALL fc.stage('acct_in', $$ ('u', 9, 10, '2C/700:10'), ('u', 9, 9, '2C/700:9') $$);
SELECT fc.is('FC02 ordinal 10 after 9', fc.apply('acct', 'acct_in') || ', ' || fc.state('acct'),
             '2 = 1 inserted + 1 superseded, 9|10@2C/700:10');
-- without ordinals three images have no order: refused, nothing written
TRUNCATE acct;
INSERT INTO acct VALUES (9, 0, false, '2C/100');
CALL fc.stage('acct_in', $$ ('u', 9, 3, '2C/500'), ('u', 9, 1, '2C/500'), ('u', 9, 2, '2C/500') $$);
SELECT fc.is('FC02 a tie is refused', fc.apply_error('acct', 'acct_in'), '21000');
SELECT fc.is('FC02 a tie writes nothing', fc.state('acct'), '9|0@2C/100');
-- asked for, the tie is decided, and by the rows alone
SELECT fc.deliveries('acct', 'acct_in', 'batch', '9|3@2C/500', $$on_tie => 'upsert'$$);
CALL fc.stage('acct_in', $$ ('d', 9, NULL, '2C/500'), ('u', 9, 1, '2C/500') $$);
SELECT fc.is('FC02 update and delete tie', fc.apply_error('acct', 'acct_in'), '21000');
SELECT fc.deliveries('acct', 'acct_in', 'batch', '9|1@2C/500', $$on_tie => 'upsert'$$);
-- the same event twice is no tie
CALL fc.stage('acct_in', $$ ('u', 9, 1, '2C/500'), ('u', 9, 1, '2C/500') $$);
SELECT fc.is('FC02 the same image twice', fc.apply('acct', 'acct_in'), '2 = 1 updated + 1 superseded');
-- a tie that would not be written harms nobody
CALL fc.stage('acct_in', $$ ('u', 9, 7, '2C/400'), ('u', 9, 8, '2C/400') $$);
SELECT fc.is('FC02 a tie of stale events', fc.apply('acct', 'acct_in'), '2 = 1 stale + 1 superseded');

\echo FC03: a change of the primary key leaves the old key behind
CREATE TABLE moved (id int PRIMARY KEY, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE moved_in (op text, id int, v text, source_position cdc_position);
CREATE TABLE moved_old_in (op text, id int, v text, source_position cdc_position, __old_id int);
INSERT INTO moved VALUES (40, 'x', false, '3/80');
CALL fc.stage('moved_in', $$ ('d', 40, NULL, '3/90:0'), ('c', 41, 'x', '3/90:1') $$);
SELECT fc.deliveries('moved', 'moved_in', 'any', 'tomb 40@3/90 41|x@3/90:1');
SELECT fc.is('FC03 a: delete and create', fc.apply('moved', 'moved_in'), '2 = 1 inserted + 1 deleted');
TRUNCATE moved;
INSERT INTO moved VALUES (40, 'x', false, '3/80');
CALL fc.stage('moved_old_in', $$ ('u', 41, 'x', '3/90', 40) $$);
SELECT fc.deliveries('moved', 'moved_old_in', 'any', 'tomb 40@3/90 41|x@3/90');
SELECT fc.is('FC03 b: old key column', fc.apply('moved', 'moved_old_in'), '1 = 1 inserted');
SELECT fc.is('FC03 b: state', fc.state('moved'), 'tomb 40@3/90 41|x@3/90');
SELECT fc.is('FC03 b: replay', fc.apply('moved', 'moved_old_in'), '1 = 1 duplicate');
SELECT fc.is('FC03 b: state after the replay', fc.state('moved'), 'tomb 40@3/90 41|x@3/90');
-- an old event of the old key stays out
CALL fc.stage('moved_old_in', $$ ('u', 40, 'old', '3/85', NULL) $$);
SELECT fc.is('FC03 b: late event of the old key', fc.apply('moved', 'moved_old_in'), '1 = 1 stale');
-- a chain of moves in one batch; an equal old key is no move
TRUNCATE moved;
INSERT INTO moved VALUES (40, 'x', false, '3/80');
CALL fc.stage('moved_old_in', $$ ('u', 40, 'y', '3/89', 40), ('u', 41, 'y', '3/90', 40), ('u', 42, 'z', '3/91', 41) $$);
SELECT fc.deliveries('moved', 'moved_old_in', 'any', 'tomb 40@3/90 tomb 41@3/91 42|z@3/91');
SELECT fc.is('FC03 a chain', fc.apply('moved', 'moved_old_in'), '3 = 1 inserted + 2 superseded');
-- the old key was taken again later: it stays
TRUNCATE moved;
INSERT INTO moved VALUES (40, 'new holder', false, '3/A0');
CALL fc.stage('moved_old_in', $$ ('u', 41, 'x', '3/90', 40) $$);
SELECT fc.is('FC03 the old key has a new holder', fc.apply('moved', 'moved_old_in') || ', ' || fc.state('moved'),
             '1 = 1 inserted, 40|new holder@3/A0 41|x@3/90');
-- (c) no old key anywhere: 40 stays live, as the documentation says
TRUNCATE moved;
INSERT INTO moved VALUES (40, 'x', false, '3/80');
CALL fc.stage('moved_in', $$ ('u', 41, 'x', '3/90') $$);
SELECT fc.is('FC03 c: no old key', fc.apply('moved', 'moved_in') || ', ' || fc.state('moved'),
             '1 = 1 inserted, 40|x@3/80 41|x@3/90');
-- a composite key of which one column changes, named by hand
CREATE TABLE moved2 (tenant text, id int, v text, deleted boolean NOT NULL DEFAULT false,
                     source_position cdc_position, PRIMARY KEY (tenant, id));
CREATE TABLE moved2_in (op text, tenant text, id int, v text, source_position cdc_position,
                        was_tenant text, was_id int);
INSERT INTO moved2 VALUES ('a', 1, 'x', false, '3/80'), ('b', 1, 'other', false, '3/80');
CALL fc.stage('moved2_in', $$ ('u', 'c', 1, 'x', '3/90', 'a', 1) $$);
SELECT fc.is('FC03 part of a composite key',
             fc.apply('moved2', 'moved2_in', $$old_key_columns => '{was_tenant,was_id}'$$) || ', ' || fc.state('moved2'),
             '1 = 1 inserted, tomb a|1@3/90 b|1|other@3/80 c|1|x@3/90');

\echo FC04: a physical delete forgets its position
CREATE TABLE gone (id int PRIMARY KEY, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE gone_in (op text, id int, v text, source_position cdc_position);
INSERT INTO gone VALUES (15, 'v1', false, '5/10');
CALL fc.stage('gone_in', $$ ('d', 15, NULL, '5/30') $$);
SELECT fc.is('FC04 B1', fc.apply('gone', 'gone_in'), '1 = 1 deleted');
CALL fc.stage('gone_in', $$ ('u', 15, 'v0', '5/20') $$);
SELECT fc.is('FC04 B2 is stale', fc.apply('gone', 'gone_in'), '1 = 1 stale');
SELECT fc.is('FC04 still deleted', fc.state('gone'), 'tomb 15@5/30');
CALL fc.stage('gone_in', $$ ('u', 15, 'v2', '5/40') $$);
SELECT fc.is('FC04 B3 revives', fc.apply('gone', 'gone_in'), '1 = 1 inserted');
SELECT fc.is('FC04 live', fc.state('gone'), '15|v2@5/40');
TRUNCATE gone;
INSERT INTO gone VALUES (15, 'v1', false, '5/10');
CALL fc.stage('gone_in', $$ ('d', 15, NULL, '5/30'), ('u', 15, 'v0', '5/20'), ('u', 15, 'v2', '5/40'),
                              ('D', 16, NULL, '5/35'), (' insert ', 16, 'w', '5/34'), ('d', 16, NULL, '5/33') $$);
SELECT fc.deliveries('gone', 'gone_in', 'any', '15|v2@5/40 tomb 16@5/35');
-- a tombstone moves up with a newer delete, so that it blocks more
TRUNCATE gone;
INSERT INTO gone VALUES (15, 'v1', true, '5/10');
CALL fc.stage('gone_in', $$ ('d', 15, NULL, '5/30') $$);
SELECT fc.is('FC04 a tombstone moves up', fc.apply('gone', 'gone_in') || ', ' || fc.state('gone'), '1 = 1 deleted, tomb 15@5/30');
SELECT fc.is('FC04 the same delete again', fc.apply('gone', 'gone_in'), '1 = 1 duplicate');
-- deletes by a flag
CREATE TABLE gone_flag_in (id int, v text, source_position cdc_position, __deleted text);
INSERT INTO gone_flag_in VALUES (17, 'x', '5/41', 'false'), (17, 'x', '5/42', 'true'), (18, 'y', '5/43', NULL);
SELECT fc.is('FC04 deletes by a flag',
             fc.apply('gone', 'gone_flag_in', $$delete_flag_column => '__deleted'$$) || ', ' || fc.state('gone'),
             '3 = 1 inserted + 1 deleted + 1 superseded, tomb 15@5/30 tomb 17@5/42 18|y@5/43');
-- a timestamp as the tombstone column
CREATE TABLE gone_at (id int PRIMARY KEY, v text, deleted_at timestamptz, source_position cdc_position);
CALL fc.stage('gone_in', $$ ('d', 15, NULL, '5/30'), ('u', 15, 'v0', '5/20'), ('c', 16, 'a', '5/20') $$);
SELECT fc.is('FC04 tombstone_column timestamptz', fc.apply('gone_at', 'gone_in', $$tombstone_column => 'deleted_at'$$),
             '3 = 1 inserted + 1 deleted + 1 superseded');
SELECT fc.is('FC04 timestamptz set and not set',
             (SELECT string_agg(id || ':' || (deleted_at IS NOT NULL), ' ' ORDER BY id) FROM gone_at), '15:true 16:false');
CALL fc.stage('gone_in', $$ ('u', 15, 'v3', '5/44'), ('u', 16, 'old', '5/10') $$);
SELECT fc.is('FC04 revival clears the time', fc.apply('gone_at', 'gone_in', $$tombstone_column => 'deleted_at'$$) || ', ' ||
             fc.value($v$SELECT string_agg(id || v || (deleted_at IS NOT NULL), ' ' ORDER BY id) FROM gone_at$v$),
             '2 = 1 inserted + 1 stale, 15v3false 16afalse');
-- no place to remember a delete: refused before anything is written
CREATE TABLE forgetful (id int PRIMARY KEY, v text, source_position cdc_position);
SELECT fc.is('FC04 no tombstone home', fc.apply_error('forgetful', 'gone_in'), '55000');

\echo FC05: a delete arrives before the insert of a key never seen
CREATE TABLE early (id int PRIMARY KEY, name text NOT NULL DEFAULT '', deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE early_in (op text, id int, name text, source_position cdc_position);
CALL fc.stage('early_in', $$ ('d', 88, NULL, '7/50') $$);
SELECT fc.is('FC05 B1', fc.apply('early', 'early_in') || ', ' || fc.state('early'), '1 = 1 deleted, tomb 88@7/50');
CALL fc.stage('early_in', $$ ('i', 88, 'a', '7/40') $$);
SELECT fc.is('FC05 B2', fc.apply('early', 'early_in') || ', ' || fc.state('early'), '1 = 1 stale, tomb 88@7/50');
TRUNCATE early;
CALL fc.stage('early_in', $$ ('d', 88, NULL, '7/50'), ('i', 88, 'a', '7/40') $$);
SELECT fc.deliveries('early', 'early_in', 'any', 'tomb 88@7/50');
SELECT fc.is('FC05 one batch', fc.apply('early', 'early_in'), '2 = 1 deleted + 1 superseded');
-- NOT NULL without a default: kept when the batch has the values, else an error, never silence
CREATE TABLE early_strict (id int PRIMARY KEY, name text NOT NULL, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
SELECT fc.is('FC05 the batch has the values', fc.apply('early_strict', 'early_in') || ', ' || fc.state('early_strict'),
             '2 = 1 deleted + 1 superseded, tomb 88@7/50');
CALL fc.stage('early_in', $$ ('d', 89, NULL, '7/50') $$);
SELECT fc.is('FC05 no value and no default', fc.apply_error('early_strict', 'early_in'), '23502');

\echo FC06: the marker of an unchanged value is not data
CREATE TABLE doc (id int PRIMARY KEY, title text, body text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE doc_in (op text, id int, title text, body text, source_position cdc_position);
INSERT INTO doc VALUES (3, 't1', 'long-1', false, '9/1');
CALL fc.stage('doc_in', $$ ('u', 3, 't2', '__debezium_unavailable_value', '9/2') $$);
SELECT fc.deliveries('doc', 'doc_in', 'any', '3|t2|long-1@9/2');
SELECT fc.is('FC06', fc.apply('doc', 'doc_in') || ', ' || fc.state('doc'), '1 = 1 updated, 3|t2|long-1@9/2');
SELECT fc.is('FC06 replay', fc.apply('doc', 'doc_in'), '1 = 1 duplicate');
-- a value stored out of line is kept too
INSERT INTO doc SELECT 4, 't1', string_agg(md5(i::text), ''), false, '9/1' FROM generate_series(1, 2000) i;
CALL fc.stage('doc_in', $$ ('u', 4, 't2', '__debezium_unavailable_value', '9/2') $$);
SELECT fc.is('FC06 out of line', fc.apply('doc', 'doc_in') || ', ' ||
             fc.value($v$SELECT title || (body = (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 2000) i)) FROM doc WHERE id = 4$v$),
             '1 = 1 updated, t2true');
-- a delete with markers
CALL fc.stage('doc_in', $$ ('d', 3, '__debezium_unavailable_value', '__debezium_unavailable_value', '9/3') $$);
SELECT fc.is('FC06 delete', fc.apply('doc', 'doc_in') || ', ' || fc.value($v$SELECT title || body FROM doc WHERE id = 3$v$),
             '1 = 1 deleted, t2long-1');
-- nothing to keep: an error, or NULL when asked for
CALL fc.stage('doc_in', $$ ('u', 5, 't', '__debezium_unavailable_value', '9/4') $$);
SELECT fc.is('FC06 nothing to keep', fc.apply_error('doc', 'doc_in'), '55000');
SELECT fc.is('FC06 NULL asked for', fc.apply('doc', 'doc_in', $$on_unavailable => 'null'$$) || ', ' ||
             fc.value($v$SELECT title || coalesce(body, ' NULL') FROM doc WHERE id = 5$v$), '1 = 1 inserted, t NULL');
-- an event that is not written needs no value
CALL fc.stage('doc_in', $$ ('u', 3, 't', '__debezium_unavailable_value', '9/2') $$);
SELECT fc.is('FC06 a stale event', fc.apply('doc', 'doc_in'), '1 = 1 stale');

\echo FC07: insert and partial update of one key in one batch
TRUNCATE doc;
CALL fc.stage('doc_in', $$ ('c', 6, 'a', 'L6', '9/10'), ('u', 6, 'b', '__debezium_unavailable_value', '9/11') $$);
SELECT fc.deliveries('doc', 'doc_in', 'batch', '6|b|L6@9/11');
SELECT fc.deliveries('doc', 'doc_in', 'log', '6|b|L6@9/11');
SELECT fc.is('FC07 a', fc.apply('doc', 'doc_in') || ', ' || fc.state('doc'), '2 = 1 inserted + 1 superseded, 6|b|L6@9/11');
CALL fc.stage('doc_in', $$ ('u', 6, 'x', 'L7', '9/12'), ('u', 6, 'c', '__debezium_unavailable_value', '9/13') $$);
SELECT fc.deliveries('doc', 'doc_in', 'batch', '6|c|L7@9/13');
SELECT fc.deliveries('doc', 'doc_in', 'log', '6|c|L7@9/13');
SELECT fc.is('FC07 b', fc.apply('doc', 'doc_in') || ', ' || fc.state('doc'), '2 = 1 updated + 1 superseded, 6|c|L7@9/13');
CALL fc.stage('doc_in', $$ ('u', 6, 'y', NULL, '9/14'), ('u', 6, 'd', '__debezium_unavailable_value', '9/15') $$);
SELECT fc.deliveries('doc', 'doc_in', 'batch', '6|d|NULL@9/15');
SELECT fc.deliveries('doc', 'doc_in', 'log', '6|d|NULL@9/15');
SELECT fc.is('FC07 c', fc.apply('doc', 'doc_in') || ', ' || fc.state('doc'), '2 = 1 updated + 1 superseded, 6|d|NULL@9/15');
-- an event of the batch that is older than the stored row gives nothing
TRUNCATE doc;
INSERT INTO doc VALUES (6, 'a', 'stored', false, '9/20');
CALL fc.stage('doc_in', $$ ('u', 6, 'b', 'older', '9/19'), ('u', 6, 'c', '__debezium_unavailable_value', '9/21') $$);
SELECT fc.deliveries('doc', 'doc_in', 'batch', '6|c|stored@9/21');
-- several markers in a row, each column from its own event
TRUNCATE doc;
CALL fc.stage('doc_in', $$ ('c', 6, 'a', 'L1', '9/10'), ('u', 6, '__debezium_unavailable_value', 'L2', '9/11'),
                             ('u', 6, '__debezium_unavailable_value', '__debezium_unavailable_value', '9/12') $$);
SELECT fc.deliveries('doc', 'doc_in', 'batch', '6|a|L2@9/12');
SELECT fc.deliveries('doc', 'doc_in', 'log', '6|a|L2@9/12');
-- never across a delete: a new row inherits nothing from an old one
TRUNCATE doc;
CALL fc.stage('doc_in', $$ ('c', 6, 'a', 'L6', '9/10'), ('d', 6, NULL, NULL, '9/11'),
                             ('c', 6, 'b', '__debezium_unavailable_value', '9/12') $$);
SELECT fc.is('FC07 never across a delete', fc.apply_error('doc', 'doc_in'), '55000');
SELECT fc.deliveries('doc', 'doc_in', 'batch', '6|b|NULL@9/12', $$on_unavailable => 'null'$$);
SELECT fc.deliveries('doc', 'doc_in', 'log', '6|b|NULL@9/12', $$on_unavailable => 'null'$$);

\echo FC08: partial updates out of order
TRUNCATE doc;
INSERT INTO doc VALUES (12, '0', 'b0', false, '4/10');
CALL fc.stage('doc_in', $$ ('u', 12, '2', '__debezium_unavailable_value', '4/40'), ('u', 12, '1', 'b1', '4/30') $$);
SELECT fc.deliveries('doc', 'doc_in', 'batch', '12|2|b1@4/40');
SELECT fc.deliveries('doc', 'doc_in', 'log', '12|2|b1@4/40');
-- across batches and out of order the row still never goes back; its count says so
CALL fc.stage('doc_in', $$ ('u', 12, '2', '__debezium_unavailable_value', '4/40') $$);
SELECT fc.is('FC08 B1', fc.apply('doc', 'doc_in'), '1 = 1 updated');
CALL fc.stage('doc_in', $$ ('u', 12, '1', 'b1', '4/30') $$);
SELECT fc.is('FC08 B2 is counted', fc.apply('doc', 'doc_in'), '1 = 1 stale');
SELECT fc.is('FC08 the row does not go back', (SELECT title || '@' || source_position FROM doc), '2@4/40');

-- with column positions every order ends with the source's truth
ALTER TABLE doc ADD cdc_columns jsonb;
TRUNCATE doc;
INSERT INTO doc VALUES (12, '0', 'b0', false, '4/10');
CALL fc.stage('doc_in', $$ ('u', 12, '2', '__debezium_unavailable_value', '4/40'), ('u', 12, '1', 'b1', '4/30') $$);
SELECT fc.deliveries('doc', 'doc_in', 'any', '12|2|b1|{"": "4/40", "body": "4/30"}@4/40', $$column_positions => 'cdc_columns'$$);
CALL fc.stage('doc_in', $$ ('u', 12, '2', '__debezium_unavailable_value', '4/40') $$);
SELECT fc.is('FC08 B1 is marked', fc.apply('doc', 'doc_in', $$column_positions => 'cdc_columns'$$) || ', ' || fc.state('doc'),
             '1 = 1 updated, 12|2|b0|{"": "4/40", "body": "4/10"}@4/40');
CALL fc.stage('doc_in', $$ ('u', 12, '1', 'b1', '4/30') $$);
SELECT fc.is('FC08 B2 fills its column', fc.apply('doc', 'doc_in', $$column_positions => 'cdc_columns'$$) || ', ' || fc.state('doc'),
             '1 = 1 updated, 12|2|b1|{"": "4/40", "body": "4/30"}@4/40');
SELECT fc.is('FC08 B2 again', fc.apply('doc', 'doc_in', $$column_positions => 'cdc_columns'$$), '1 = 1 stale');
-- its kin: no row before, a delete between, a value that is NULL, one that nobody has (FC07's events in any order)
TRUNCATE doc;
CALL fc.stage('doc_in', $$ ('c', 6, 'a', 'L6', '9/10'), ('u', 6, 'b', '__debezium_unavailable_value', '9/11'), ('c', 7, 'a', 'L6', '9/10'), ('d', 7, NULL, NULL, '9/11'),
                              ('c', 7, 'b', NULL, '9/12'), ('u', 7, 'c', '__debezium_unavailable_value', '9/13'), ('u', 8, 'b', '__debezium_unavailable_value', '9/11') $$);
SELECT fc.deliveries('doc', 'doc_in', 'any', '6|b|L6|{"": "9/11", "body": "9/10"}@9/11 7|c|NULL|{"": "9/13", "body": "9/12"}@9/13 8|b|NULL|{"": "9/11", "body": []}@9/11',
                     $$column_positions => 'cdc_columns', on_unavailable => 'null'$$);
ALTER TABLE doc DROP cdc_columns;

\echo FC09: snapshot rows after newer streamed events
CREATE TABLE ship (id int PRIMARY KEY, w int, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE ship_in (op text, id int, w int, source_position cdc_position);
CALL fc.stage('ship_in', $$ ('d', 1, NULL, '6100'), ('c', 1, 510, '6100:1'), ('d', 2, NULL, '6100:2') $$);
SELECT fc.is('FC09 B1', fc.apply('ship', 'ship_in'), '3 = 1 inserted + 1 deleted + 1 superseded');
CALL fc.stage('ship_in', $$ ('r', 1, 70, '6050'), ('r', 2, 70, '6050') $$);
SELECT fc.is('FC09 B2', fc.apply('ship', 'ship_in'), '2 = 2 stale');
SELECT fc.is('FC09 state', fc.state('ship'), '1|510@6100:1 tomb 2@6100:2');
TRUNCATE ship;
CALL fc.stage('ship_in', $$ ('r', 1, 70, '6050'), ('r', 2, 70, '6050'), ('d', 1, NULL, '6100'),
                              ('c', 1, 510, '6100:1'), ('d', 2, NULL, '6100:2') $$);
SELECT fc.deliveries('ship', 'ship_in', 'any', '1|510@6100:1 tomb 2@6100:2');
-- the same with LSNs: there a snapshot row's position is not used
CALL fc.stage('ship_in', $$ ('r', 1, 70, '0/6050'), ('r', 2, 70, '0/6050'), ('r', 3, 70, '0/6050'), ('d', 1, NULL, '0/6100'),
                              ('c', 1, 510, '0/6100:1'), ('d', 2, NULL, '0/6100:2') $$);
SELECT fc.deliveries('ship', 'ship_in', 'any', '1|510@0/6100:1 tomb 2@0/6100:2 3|70@none');
SELECT fc.deliveries('ship', 'ship_in', 'any', '1|510@0/6100:1 tomb 2@0/6100:2 3|70@0/6050', $$snapshot_position => 'event'$$);
-- the snapshot is stamped too high (its end): with record positions the stream must win all the same
CALL fc.stage('ship_in', $$ ('r', 1, 70, '0/6200'), ('u', 1, 71, '0/6150') $$);
SELECT fc.deliveries('ship', 'ship_in', 'any', '1|71@0/6150');
-- on an exact tie the streamed event wins
CALL fc.stage('ship_in', $$ ('r', 1, 70, '6100'), ('c', 1, 510, '6100') $$);
SELECT fc.deliveries('ship', 'ship_in', 'batch', '1|510@6100');
CALL fc.stage('ship_in', $$ ('r', 1, 70, '6100'), ('d', 1, NULL, '6100') $$);
SELECT fc.deliveries('ship', 'ship_in', 'batch', 'tomb 1@6100');
-- a snapshot that ran again wins over its first attempt
CALL fc.stage('ship_in', $$ ('r', 1, 70, '6050'), ('r', 1, 71, '6060') $$);
SELECT fc.deliveries('ship', 'ship_in', 'any', '1|71@6060');

\echo FC10: snapshot rows without a position or an op, or with a left-over position
CREATE TABLE seed (id int PRIMARY KEY, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE seed_in (op text, id int, v text, source_position cdc_position);
INSERT INTO seed VALUES (5, 'new', false, '8/90'), (6, 'x', true, '8/95');
CALL fc.stage('seed_in', $$ ('r', 5, 'old', NULL), ('r', 6, 'old', NULL), ('r', 7, 'seed', NULL), (NULL, 8, 'seed', NULL) $$);
SELECT fc.deliveries('seed', 'seed_in', 'any', '5|new@8/90 tomb 6@8/95 7|seed@none 8|seed@none');
SELECT fc.is('FC10 B1', fc.apply('seed', 'seed_in'), '4 = 2 inserted + 2 stale');
SELECT fc.is('FC10 B1 again', fc.apply('seed', 'seed_in'), '4 = 2 stale + 2 duplicate');
CALL fc.stage('seed_in', $$ ('u', 7, 'x', '8/91') $$);
SELECT fc.is('FC10 B2', fc.apply('seed', 'seed_in') || ', ' || fc.state('seed'),
             '1 = 1 updated, 5|new@8/90 tomb 6@8/95 7|x@8/91 8|seed@none');
-- a position left over from an earlier record does not let old data win
CALL fc.stage('seed_in', $$ ('r', 5, 'old', '8/99'), ('r', 6, 'old', '8/99') $$);
SELECT fc.is('FC10 a left-over position', fc.apply('seed', 'seed_in') || ', ' || fc.state('seed'),
             '2 = 2 stale, 5|new@8/90 tomb 6@8/95 7|x@8/91 8|seed@none');
-- 0/0 is no position either; a delete without one is refused
CALL fc.stage('seed_in', $$ ('r', 5, 'old', '0/0'), ('r', 9, 'seed', '0/0:4') $$);
SELECT fc.is('FC10 0/0', fc.apply('seed', 'seed_in'), '2 = 1 inserted + 1 stale');
SELECT fc.is('FC10 0/0 is stored as no position', (SELECT source_position IS NULL FROM seed WHERE id = 9)::text, 'true');
CALL fc.stage('seed_in', $$ ('d', 8, NULL, NULL) $$);
SELECT fc.is('FC10 a delete without a position', fc.apply_error('seed', 'seed_in'), '23502');
CALL fc.stage('seed_in', $$ ('u', 8, 'u', NULL) $$);
SELECT fc.is('FC10 an update without a position', fc.apply_error('seed', 'seed_in'), '23502');
-- what a NULL op means can be said
CALL fc.stage('seed_in', $$ (NULL, 8, 'z', '8/99') $$);
SELECT fc.is('FC10 null_op error', fc.apply_error('seed', 'seed_in', $$null_op => 'error'$$), '22023');
SELECT fc.is('FC10 null_op ignore', fc.apply('seed', 'seed_in', $$null_op => 'ignore'$$), '1 = 1 ignored');

\echo FC11: the log starts again from a lower place
CREATE TABLE lineage (id int PRIMARY KEY, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE lineage_in (op text, id int, v text, source_position cdc_position);
INSERT INTO lineage VALUES (33, 'a', false, '1@900:4411'), (34, 'a', false, '1@900:4411');
CALL fc.stage('lineage_in', $$ ('u', 33, 'b', '2@3:120'), ('u', 34, 'late', '1@901:1') $$);
SELECT fc.deliveries('lineage', 'lineage_in', 'any', '33|b@2@3:120 34|late@1@901:1');
SELECT fc.is('FC11 an epoch outranks', fc.apply('lineage', 'lineage_in'), '2 = 2 updated');
CALL fc.stage('lineage_in', $$ ('u', 33, 'old log', '1@999:1') $$);
SELECT fc.is('FC11 the old log is over', fc.apply('lineage', 'lineage_in') || ', ' || fc.state('lineage'),
             '1 = 1 stale, 33|b@2@3:120 34|late@1@901:1');
CALL fc.stage('lineage_in', $$ ('u', 33, 'c', '3:121') $$);
SELECT fc.is('FC11 the epoch by expression',
             fc.apply('lineage', 'lineage_in', $$staging_position => 'cdc_position_with_epoch(source_position, 2)'$$) || ', ' || fc.state('lineage'),
             '1 = 1 updated, 33|c@2@3:121 34|late@1@901:1');
-- without an epoch every event of the call is stale: that is said aloud
TRUNCATE lineage;
INSERT INTO lineage VALUES (33, 'a', false, '900:4411');
CALL fc.stage('lineage_in', $$ ('u', 33, 'b', '3:120') $$);
CREATE FUNCTION fc.warned(statement text) RETURNS void LANGUAGE plpgsql SET client_min_messages = warning AS $$
BEGIN EXECUTE statement; END $$;
\set VERBOSITY terse
\echo -- a warning must follow
SELECT fc.warned($$SELECT fc.apply('lineage', 'lineage_in')$$);
\set VERBOSITY default

\echo FC14: an unset marker becomes the highest or a valid position
CREATE TABLE unset (id int PRIMARY KEY, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE unset_in (op text, id int, v text, source_position cdc_position);
SELECT fc.is('FC14 -1 as text', fc.sqlstate($$SELECT '-1'::cdc_position$$), '22P02');
SELECT fc.is('FC14 -1 as a number', fc.sqlstate($$SELECT cdc_position_from_numbers(-1)$$), '22003');
SELECT fc.is('FC14 -1 as an ordinal', fc.sqlstate($$SELECT cdc_position('2/10'::pg_lsn, -1)$$), '22003');
SELECT fc.is('FC14 2^64', fc.sqlstate($$SELECT cdc_position_from_numbers(18446744073709551616)$$), '22003');
SELECT fc.is('FC14 2^64 - 1 is a position', cdc_position_from_numbers(18446744073709551615)::text, '18446744073709551615');
CALL fc.stage('unset_in', $$ ('c', 5, 'a', '0/0') $$);
SELECT fc.is('FC14 a create at 0/0', fc.apply_error('unset', 'unset_in'), '23502');
CALL fc.stage('unset_in', $$ ('c', 5, 'a', '7@0/0:3') $$);
SELECT fc.is('FC14 a create at 0/0, epoch and ordinal', fc.apply_error('unset', 'unset_in'), '23502');
CALL fc.stage('unset_in', $$ ('r', 4, 'a', '0/0'), ('r', 5, 'a', '7@0/0:3') $$);
SELECT fc.is('FC14 snapshot rows at 0/0', fc.apply('unset', 'unset_in', $$snapshot_position => 'event'$$), '2 = 2 inserted');
CALL fc.stage('unset_in', $$ ('u', 4, 'b', '2/10'), ('u', 5, 'b', '2/11') $$);
SELECT fc.is('FC14 every real position wins', fc.apply('unset', 'unset_in') || ', ' || fc.state('unset'),
             '2 = 2 updated, 4|b@2/10 5|b@2/11');
-- a 0/0 that somebody else stored is the lowest, too
UPDATE unset SET source_position = '9@0/0:8' WHERE id = 4;
CALL fc.stage('unset_in', $$ ('u', 4, 'c', '0/1') $$);
SELECT fc.is('FC14 a stored 0/0', fc.apply('unset', 'unset_in') || ', ' || fc.state('unset'), '1 = 1 updated, 4|c@0/1 5|b@2/11');
SELECT fc.is('FC14 0/0 supersedes nothing',
             concat(cdc_supersedes('0/0', NULL), ' ', cdc_supersedes('0/0', '0/0'), ' ', cdc_supersedes('0/0:9', '0/0:8'), ' ',
                    cdc_supersedes(NULL, NULL), ' ', cdc_supersedes('0/1', '9@0/0:8'), ' ', cdc_supersedes('0/1', NULL)), 'f f f f t t');
-- zero is real where the log starts at zero
SELECT fc.is('FC14 number 0 is real', concat(cdc_supersedes('0', NULL), ' ', cdc_supersedes('1', '0')), 't t');

\echo FC15: LSNs compared or parsed as text
CREATE TABLE lsn (id int PRIMARY KEY, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE lsn_in (op text, id int, v text, source_lsn pg_lsn);
INSERT INTO lsn VALUES (1, 'a', false, '9/FFFFFFF0'), (2, 'b', false, '4/FFFFFF00'), (3, 'c', false, '0/2B40C18');
INSERT INTO lsn_in VALUES ('u', 1, 'a2', '10/00000010'), ('u', 2, 'b2', '5/00000010'), ('u', 3, 'c', '0/02b40c18');
SELECT fc.is('FC15 a, b, c', fc.apply('lsn', 'lsn_in', $$staging_position => 'source_lsn'$$), '3 = 2 updated + 1 duplicate');
SELECT fc.is('FC15 state', fc.state('lsn'), '1|a2@10/10 2|b2@5/10 3|c@0/2B40C18');
SELECT fc.is('FC15 spellings', concat('0/2B40C18'::cdc_position = '0/02B40C18', ' ', '0/2B40C18'::cdc_position = '0/2b40c18', ' ',
             cdc_position('0/0'::pg_lsn + 45354008) = '0/2B40C18', ' ', cdc_position('0/2B40C18'::pg_lsn) = '0/2B40C18:0'), 't t t t');
SELECT fc.is('FC15 no position: ' || quote_literal(t), fc.sqlstate(format('SELECT %L::cdc_position', t)), '22P02')
FROM unnest('{" 0/1",000000001/0,1d4b17068128,0/0/1,"0/1 ","",0/,/1,1:,:1,0x10}'::text[]) WITH ORDINALITY u (t, n) ORDER BY n;
-- a text position would compare as text
CREATE TABLE lsn_text_in (op text, id int, v text, source_position text);
INSERT INTO lsn_text_in VALUES ('u', 1, 'a3', '9/FFFFFFF1');
SELECT fc.is('FC15 a text position is refused', fc.apply_error('lsn', 'lsn_text_in'), '42804');
SELECT fc.is('FC15 and as an expression', fc.apply_error('lsn', 'lsn_text_in', $$staging_position => 'source_position'$$), '42804');
SELECT fc.is('FC15 converted by the caller', fc.apply('lsn', 'lsn_text_in', $$staging_position => 'source_position::cdc_position'$$), '1 = 1 stale');

\echo FC16: binlog coordinates compared as text
CREATE TABLE binlog (id int PRIMARY KEY, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE binlog_in (op text, id int, v text, file text, pos bigint);
INSERT INTO binlog VALUES (1, 'a', false, '999999:900'), (2, 'b', false, '7:23'), (3, 'c', false, '9:5');
INSERT INTO binlog_in VALUES ('u', 1, 'a2', 'bin.1000000', 4), ('u', 2, 'b2', 'bin.00007', 123), ('u', 3, 'c2', 'edge-bin.10', 4);
SELECT fc.is('FC16 a, b, c', fc.apply('binlog', 'binlog_in',
             $$staging_position => 'cdc_position_from_numbers(substring(file from ''[0-9]+$'')::numeric, pos)'$$), '3 = 3 updated');
SELECT fc.is('FC16 state', fc.state('binlog'), '1|a2@1000000:4 2|b2@7:123 3|c2@10:4');
SELECT fc.is('FC16 a dotted position', fc.sqlstate($$SELECT '00007.23'::cdc_position$$), '22P02');
-- a file without a number gives no position, and that is refused
UPDATE binlog_in SET file = 'bin.index' WHERE id = 1;
SELECT fc.is('FC16 e: no number', fc.apply_error('binlog', 'binlog_in',
             $$staging_position => 'cdc_position_from_numbers(substring(file from ''[0-9]+$'')::numeric, pos)'$$), '23502');

\echo The positions of each source, as the documentation writes them
CREATE TABLE sources (lsn_number bigint, lsn_text text, commit_lsn pg_lsn, lsn pg_lsn, ordinal int,
                      file text, pos bigint, row_no int, scn numeric, ts_seconds bigint, ord int, kafka_offset bigint);
INSERT INTO sources VALUES (24023128, '0/16E9058', '0/16E9100', '0/16E9058', 3, 'mysql-bin.000047', 10840633, 2,
                            281474976710656, 1717304405, 4, 0);
CREATE TABLE sourced (id int PRIMARY KEY, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE FUNCTION fc.sourced(expression text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE sourced;
    EXECUTE 'CREATE TEMP VIEW sourced_in AS SELECT ''c'' AS op, 1 AS id, * FROM sources';
    PERFORM fc.apply('sourced', 'sourced_in', format('staging_position => %L', expression));
    DROP VIEW sourced_in;
    RETURN fc.state('sourced');
END $$;
SELECT fc.is(expression, fc.sourced(expression), '1@' || want)
FROM (VALUES (1, $$'0/0'::pg_lsn + lsn_number$$, '0/16E9058'),
             (2, $$lsn_text::pg_lsn$$, '0/16E9058'),
             (3, $$cdc_position(commit_lsn, ordinal)$$, '0/16E9100:3'),
             (4, $$cdc_position(commit_lsn, (lsn - '0/0')::bigint)$$, '0/16E9100:24023128'),
             (5, $$cdc_position_from_numbers(substring(file from '[0-9]+$')::numeric, pos, row_no)$$, '47:10840633:2'),
             (6, $$cdc_position_from_numbers(scn, ordinal)$$, '281474976710656:3'),
             (7, $$cdc_position_from_numbers(ts_seconds, ord)$$, '1717304405:4'),
             (8, $$cdc_position_from_numbers(kafka_offset)$$, '0'),
             (9, $$cdc_position_with_epoch(commit_lsn, 1)$$, '1@0/16E9100')) v (n, expression, want)
ORDER BY n;

DROP SCHEMA fc CASCADE;
