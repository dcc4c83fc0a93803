-- Field cases FC39 to FC54: faults of appliers seen in the field, each with
-- the state that is right and with variants of its kind.  Helpers and the
-- notation of states: test/include/field_cases.sql.
\set ECHO none
\pset format unaligned
\pset tuples_only on
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/include/field_cases.sql'
\i :helpers

CREATE TABLE t (id int PRIMARY KEY, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE t_in (op text, id int, v text, source_position cdc_position);
CREATE FUNCTION fc.warned(statement text) RETURNS text LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE r text; BEGIN EXECUTE statement INTO r; RETURN r; END $$;

\echo FC39: GTIDs are sets, not numbers
SELECT fc.is('FC39 a GTID is no position', fc.sqlstate($$SELECT 'aaaaaaaa-0000-0000-0000-000000000000:41'::cdc_position$$), '22P02');
SELECT fc.is('FC39 nor is a MariaDB one', fc.sqlstate($$SELECT '0-7-12'::cdc_position$$), '22P02');
CREATE TABLE gtid_in (op text, id int, v text, gtid text, ts timestamptz, f float8, d date);
INSERT INTO gtid_in VALUES ('u', 1, 'x', '0-7-12', '2024-01-01', 1.5, '2024-01-01');
SELECT fc.is('FC39 refused as a position: ' || e, fc.apply_error('t', 'gtid_in', format('staging_position => %L', e)), '42804')
FROM unnest('{gtid,ts,f,d}'::text[]) WITH ORDINALITY u (e, n) ORDER BY n;

\echo FC40: a replay older than a tombstone
INSERT INTO t VALUES (61, 'x', true, '3/30');
CALL fc.stage('t_in', $$ ('u', 61, 'old', '3/20'), ('c', 62, 'new', '3/45') $$);
SELECT fc.deliveries('t', 't_in', 'any', 'tomb 61@3/30 62|new@3/45');
SELECT fc.is('FC40', fc.apply('t', 't_in'), '2 = 1 inserted + 1 stale');

\echo FC41: a full snapshot after a gap
TRUNCATE t;
INSERT INTO t VALUES (1, 'a', false, '5/10'), (2, 'b', false, '5/10'), (3, 'c', true, '5/9');
CALL fc.stage('t_in', $$ ('r', 1, 'a6', '6/0'), ('r', 3, 'c6', '6/0') $$);
\set VERBOSITY terse
\echo -- a warning must follow
SELECT fc.is('FC41 by default snapshot rows only fill', fc.warned($$SELECT fc.apply('t', 't_in')$$) || ', ' || fc.state('t'),
             '2 = 2 stale, 1|a@5/10 2|b@5/10 tomb 3@5/9');
\set VERBOSITY default
-- their position counted; what the snapshot lacks stays, as the documentation says
SELECT fc.is('FC41 snapshot_position event', fc.apply('t', 't_in', $$snapshot_position => 'event'$$) || ', ' || fc.state('t'),
             '2 = 1 inserted + 1 updated, 1|a6@6/0 2|b@5/10 3|c6@6/0');

\echo FC43: retractions (-U): paired, with another key, alone, or cut between batches
CREATE TABLE f (id int PRIMARY KEY, v int, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE f_in (op text, id int, v int, source_position cdc_position);
INSERT INTO f VALUES (3, 25, false, '10');
CALL fc.stage('f_in', $$ ('-U', 3, 25, '20'), ('+U', 3, 30, '20') $$);
SELECT fc.deliveries('f', 'f_in', 'any', '3|30@20');
SELECT fc.is('FC43 a', fc.apply('f', 'f_in') || ', ' || fc.state('f'), '2 = 1 updated + 1 superseded, 3|30@20');
TRUNCATE f;
INSERT INTO f VALUES (3, 25, false, '10');
CALL fc.stage('f_in', $$ ('+U', 3, 30, '20'), ('-U', 3, 25, '20') $$);
SELECT fc.is('FC43 a, the other order', fc.apply('f', 'f_in') || ', ' || fc.state('f'), '2 = 1 updated + 1 superseded, 3|30@20');
TRUNCATE f;
INSERT INTO f VALUES (3, 25, false, '10');
CALL fc.stage('f_in', $$ ('-U', 3, 25, '20'), ('+U', 4, 30, '20') $$);
SELECT fc.deliveries('f', 'f_in', 'any', 'tomb 3@20 4|30@20');
SELECT fc.is('FC43 b', fc.apply('f', 'f_in') || ', ' || fc.state('f'), '2 = 1 inserted + 1 deleted, tomb 3@20 4|30@20');
TRUNCATE f;
INSERT INTO f VALUES (3, 25, false, '10');
CALL fc.stage('f_in', $$ ('-U', 3, 25, '20') $$);
SELECT fc.is('FC43 c, and d part 1', fc.apply('f', 'f_in') || ', ' || fc.state('f'), '1 = 1 deleted, tomb 3@20');
CALL fc.stage('f_in', $$ ('+U', 3, 30, '20') $$);
\echo -- no warning: +U is the second half of a pair
SELECT fc.is('FC43 d part 2', fc.warned($$SELECT fc.apply('f', 'f_in')$$) || ', ' || fc.state('f'), '1 = 1 inserted, 3|30@20');
CALL fc.stage('f_in', $$ ('-U', 3, 25, '20') $$);
SELECT fc.is('FC43 d, the second half again', fc.apply('f', 'f_in') || ', ' || fc.state('f'), '1 = 1 duplicate, 3|30@20');
-- the same by the long names
CALL fc.stage('f_in', $$ ('update_before', 3, 30, '21'), ('UPDATE_AFTER', 3, 31, '21') $$);
SELECT fc.deliveries('f', 'f_in', 'any', '3|31@21');

\echo FC44: partitions out of order, and replays
TRUNCATE t;
CALL fc.stage('t_in', $$ ('u', 1, 'c', '40') $$);
SELECT fc.is('FC44 B1', fc.apply('t', 't_in'), '1 = 1 inserted');
CREATE TABLE was AS SELECT ctid::text AS c, xmin::text AS x FROM t;
CALL fc.stage('t_in', $$ ('u', 1, 'b', '20') $$);
SELECT fc.is('FC44 B2', fc.apply('t', 't_in'), '1 = 1 stale');
CALL fc.stage('t_in', $$ ('u', 1, 'c', '40') $$);
SELECT fc.is('FC44 B3', fc.apply('t', 't_in'), '1 = 1 duplicate');
CALL fc.stage('t_in', $$ ('u', 1, 'b', '20'), ('c', 1, 'a', '10'), ('u', 1, 'c', '40'), ('d', 1, NULL, '30') $$);
SELECT fc.is('FC44 B4', fc.apply('t', 't_in'), '4 = 1 duplicate + 3 superseded');
SELECT fc.is('FC44 the row was not written', (SELECT string_agg(t.ctid::text || t.xmin, '') FROM t), (SELECT c || x FROM was));
SELECT fc.is('FC44 state', fc.state('t'), '1|c@40');
-- a replay takes no transaction id
BEGIN;
SELECT fc.is('FC44 replay', (SELECT duplicate::text FROM cdc_apply('t', 't_in')), '1');
SELECT fc.is('FC44 no transaction id', coalesce(pg_current_xact_id_if_assigned()::text, 'none'), 'none');
COMMIT;
-- another payload at the stored position is a conflict, not a duplicate like others
CALL fc.stage('t_in', $$ ('u', 1, 'zzz', '40') $$);
\set VERBOSITY terse
\echo -- a warning must follow
SELECT fc.is('FC44 B5', fc.warned($$SELECT fc.apply('t', 't_in')$$) || ', ' || fc.state('t'), '1 = 1 duplicate, 1|c@40');
\set VERBOSITY default
\echo -- and none here
SELECT fc.is('FC44 B5 keep', fc.warned($$SELECT fc.apply('t', 't_in', $q$on_same_position => 'keep'$q$)$$) || ', ' || fc.state('t'), '1 = 1 duplicate, 1|c@40');
SELECT fc.is('FC44 B5 error', fc.apply_error('t', 't_in', $$on_same_position => 'error'$$) !~ '=' || '', 'true');
SELECT fc.is('FC44 B5 rewrite', fc.apply('t', 't_in', $$on_same_position => 'rewrite'$$) || ', ' || fc.state('t'), '1 = 1 updated, 1|zzz@40');
SELECT fc.is('FC44 B5 rewrite again', fc.apply('t', 't_in', $$on_same_position => 'rewrite'$$), '1 = 1 duplicate');
SELECT fc.is('FC44 B5 error on equal images', fc.apply_error('t', 't_in', $$on_same_position => 'error'$$), '1 = 1 duplicate');

\echo FC45: Kafka null-value records after a delete
TRUNCATE t;
INSERT INTO t VALUES (2, 'a', false, '20');
CALL fc.stage('t_in', $$ ('d', 2, NULL, '30'), ('c', 2, 'b', '40') $$);
SELECT fc.is('FC45 B1', fc.apply('t', 't_in'), '2 = 1 updated + 1 superseded');
CALL fc.stage('t_in', $$ (NULL, 2, NULL, NULL) $$);
SELECT fc.is('FC45 B2', fc.apply('t', 't_in'), '1 = 1 ignored');
CALL fc.stage('t_in', $$ (NULL, NULL, NULL, NULL) $$);
SELECT fc.is('FC45 B3', fc.apply('t', 't_in'), '1 = 1 ignored');
SELECT fc.is('FC45 state', fc.state('t'), '2|b@40');
TRUNCATE t;
INSERT INTO t VALUES (2, 'a', false, '20');
CALL fc.stage('t_in', $$ ('d', 2, NULL, '30'), (NULL, 2, NULL, NULL), ('c', 2, 'b', '40'), (NULL, NULL, NULL, NULL) $$);
SELECT fc.deliveries('t', 't_in', 'any', '2|b@40');
SELECT fc.is('FC45 one batch', fc.apply('t', 't_in'), '4 = 1 updated + 1 superseded + 2 ignored');
-- begin, commit and messages of a decoder
CALL fc.stage('t_in', $$ ('B', NULL, NULL, '50'), ('message', NULL, NULL, '51'), ('u', 2, 'c', '52'), ('C', NULL, NULL, '53') $$);
SELECT fc.is('FC45 begin, message, commit', fc.apply('t', 't_in') || ', ' || fc.state('t'), '4 = 1 updated + 3 ignored, 2|c@52');
CALL fc.stage('t_in', $$ ('c', NULL, NULL, '54') $$);
SELECT fc.is('FC45 a create without a key', fc.apply_error('t', 't_in'), '23502');

\echo FC46: encodings read literally
CREATE TABLE money (id int PRIMARY KEY, n numeric(9, 3), d date, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE money_in (op text, id int, n text, d text, source_position cdc_position);
CALL fc.stage('money_in', $$ ('c', 1, 'MDk=', '2024-06-02', '1/1') $$);
SELECT fc.is('FC46 base64 is no number', fc.apply_error('money', 'money_in'), '22P02');
CALL fc.stage('money_in', $$ ('c', 1, '12.345', '19876', '1/1') $$);
SELECT fc.is('FC46 days are no date', fc.apply_error('money', 'money_in') ~ '^22' || '', 'true');
CALL fc.stage('money_in', $$ ('c', 1, '12.345', '2024-06-02', '1/1') $$);
SELECT fc.is('FC46 decoded values', fc.apply('money', 'money_in') || ', ' || fc.value($v$SELECT n || ' ' || to_char(d, 'YYYY-MM-DD') FROM money$v$), '1 = 1 inserted, 12.345 2024-06-02');

\echo FC48: one key twice in a batch
TRUNCATE t;
CALL fc.stage('t_in', $$ ('u', 1, 'a', '1/1'), ('u', 1, 'b', '1/2'), ('u', 2, 'a', '1/3'), ('u', 2, 'a', '1/3') $$);
SELECT fc.deliveries('t', 't_in', 'any', '1|b@1/2 2|a@1/3');
SELECT fc.is('FC48 empty target', fc.apply('t', 't_in'), '4 = 2 inserted + 2 superseded');
SELECT fc.is('FC48 again', fc.apply('t', 't_in'), '4 = 2 duplicate + 2 superseded');
TRUNCATE t;
INSERT INTO t VALUES (1, '0', false, '1/0'), (2, '0', false, '1/0');
SELECT fc.is('FC48 rows there', fc.apply('t', 't_in') || ', ' || fc.state('t'), '4 = 2 updated + 2 superseded, 1|b@1/2 2|a@1/3');
CREATE TABLE nokey (id int, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
SELECT fc.is('FC48 no key', fc.apply_error('nokey', 't_in'), '55000');
SELECT fc.is('FC48 a key without an index', fc.apply_error('nokey', 't_in', $$key_columns => '{id}'$$), '55000');
CREATE UNIQUE INDEX nokey_part ON nokey (id) WHERE v IS NOT NULL;
CREATE UNIQUE INDEX nokey_expr ON nokey ((id + 0));
CREATE UNIQUE INDEX nokey_wide ON nokey (id, v);
CREATE INDEX nokey_plain ON nokey (id);
SELECT fc.is('FC48 a partial, an expression, a wider, a plain index', fc.apply_error('nokey', 't_in', $$key_columns => '{id}'$$), '55000');
CREATE UNIQUE INDEX nokey_covering ON nokey (id) INCLUDE (v);
SELECT fc.is('FC48 a covering unique index', fc.apply('nokey', 't_in', $$key_columns => '{id}'$$), '4 = 2 inserted + 2 superseded');

\echo FC49: a delete that carries the key only, and NOT NULL columns
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE DOMAIN some_text AS text NOT NULL;
CREATE TABLE strict (id int PRIMARY KEY, name text NOT NULL, d posint, e some_text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE strict_in (op text, id int, name text, d int, e text, source_position cdc_position);
INSERT INTO strict VALUES (1, 'keep', 5, 'too', false, '1/1');
CALL fc.stage('strict_in', $$ ('d', 1, NULL, NULL, NULL, '1/2') $$);
SELECT fc.is('FC49 B1', fc.apply('strict', 'strict_in') || ', ' || fc.state('strict'), '1 = 1 deleted, tomb 1@1/2');
SELECT fc.is('FC49 values kept', (SELECT concat_ws(' ', name, d, e) FROM strict), 'keep 5 too');
CALL fc.stage('strict_in', $$ ('d', 9, NULL, NULL, NULL, '1/3') $$);
SELECT fc.is('FC49 B2: no place for it in the row', fc.apply_error('strict', 'strict_in'), '23502');
ALTER TABLE strict ALTER name SET DEFAULT '';
ALTER TABLE strict ALTER e SET DEFAULT '';
SELECT fc.is('FC49 B2 with defaults', fc.apply('strict', 'strict_in') || ', ' || fc.state('strict'), '1 = 1 deleted, tomb 1@1/2 tomb 9@1/3');
-- a delete that carries the old image
CALL fc.stage('strict_in', $$ ('d', 10, 'was', 6, 'so', '1/4') $$);
SELECT fc.is('FC49 a delete with its image', fc.apply('strict', 'strict_in') || ', ' || fc.value($v$SELECT concat_ws(' ', name, d, e) FROM strict WHERE id = 10$v$),
             '1 = 1 deleted, was 6 so');
-- a live row is never excused
CALL fc.stage('strict_in', $$ ('u', 11, NULL, 6, 'x', '1/5') $$);
SELECT fc.is('FC49 NULL in a live row', fc.apply_error('strict', 'strict_in'), '23502');
CALL fc.stage('strict_in', $$ ('u', 11, 'x', -6, 'x', '1/5') $$);
SELECT fc.is('FC49 a domain in a live row', fc.apply_error('strict', 'strict_in'), '23514');

\echo FC50: another unique constraint, and dead rows that keep the value
CREATE TABLE mail (id int PRIMARY KEY, email text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE mail_in (op text, id int, email text, source_position cdc_position);
CREATE UNIQUE INDEX mail_live ON mail (email) WHERE NOT deleted;
INSERT INTO mail VALUES (1, 'm@x', false, '4/0');
CALL fc.stage('mail_in', $$ ('d', 1, NULL, '4/1'), ('c', 2, 'm@x', '4/2') $$);
SELECT fc.deliveries('mail', 'mail_in', 'batch', 'tomb 1@4/1 2|m@x@4/2');
SELECT fc.is('FC50 deletes come first', fc.apply('mail', 'mail_in') || ', ' || fc.state('mail'), '2 = 1 inserted + 1 deleted, tomb 1@4/1 2|m@x@4/2');
-- handed on along a chain of keys
CALL fc.stage('mail_in', $$ ('c', 3, 'm@x', '4/4'), ('d', 2, NULL, '4/3') $$);
SELECT fc.is('FC50 handed on', fc.apply('mail', 'mail_in') || ', ' || fc.state('mail'), '2 = 1 inserted + 1 deleted, tomb 1@4/1 tomb 2@4/3 3|m@x@4/4');
-- a constraint over dead rows too: they keep the value, which is an error and not a lost row
DROP INDEX mail_live;
TRUNCATE mail;
ALTER TABLE mail ADD CONSTRAINT mail_email UNIQUE (email);
INSERT INTO mail VALUES (1, 'm@x', false, '4/0');
CALL fc.stage('mail_in', $$ ('d', 1, NULL, '4/1'), ('c', 2, 'm@x', '4/2') $$);
SELECT fc.is('FC50 a dead row keeps the value', fc.apply_error('mail', 'mail_in') || ', ' || fc.state('mail'), '23505, 1|m@x@4/0');
-- a swap needs a deferrable constraint
TRUNCATE mail;
INSERT INTO mail VALUES (1, 'a@x', false, '4/0'), (2, 'b@x', false, '4/0');
CALL fc.stage('mail_in', $$ ('u', 1, 'b@x', '4/1'), ('u', 2, 'a@x', '4/1') $$);
SELECT fc.is('FC50 a swap, immediate', fc.apply_error('mail', 'mail_in') || ', ' || fc.state('mail'), '23505, 1|a@x@4/0 2|b@x@4/0');
ALTER TABLE mail DROP CONSTRAINT mail_email, ADD CONSTRAINT mail_email UNIQUE (email) DEFERRABLE;
SELECT fc.is('FC50 a swap, deferrable', fc.apply('mail', 'mail_in') || ', ' || fc.state('mail'), '2 = 2 updated, 1|b@x@4/1 2|a@x@4/1');

\echo FC53: a partitioned target, a deferrable key
CREATE TABLE geo (id int, region text, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE geo_eu PARTITION OF geo FOR VALUES IN ('eu');
CREATE TABLE geo_us PARTITION OF geo FOR VALUES IN ('us');
CREATE TABLE geo_in (op text, id int, region text, v text, source_position cdc_position);
CREATE TABLE geo_old_in (op text, id int, region text, v text, source_position cdc_position, __old_id int, __old_region text);
INSERT INTO geo VALUES (1, 'eu', 'a', false, '2/1');
CALL fc.stage('geo_old_in', $$ ('u', 1, 'us', 'b', '2/2', 1, 'eu') $$);
SELECT fc.deliveries('geo', 'geo_old_in', 'any', 'tomb 1|eu@2/2 1|us|b@2/2');
SELECT fc.is('FC53 with the old key', fc.apply('geo', 'geo_old_in') || ', ' || fc.state('geo'), '1 = 1 inserted, tomb 1|eu@2/2 1|us|b@2/2');
CALL fc.stage('geo_in', $$ ('u', 2, 'us', 'b', '2/3'), ('u', 1, 'us', 'c', '2/3'), ('d', 1, 'eu', NULL, '2/3') $$);
SELECT fc.deliveries('geo', 'geo_in', 'any', 'tomb 1|eu@2/3 1|us|c@2/3 2|us|b@2/3');
SELECT fc.is('FC53 the source''s key alone', fc.apply_error('geo', 'geo_in', $$key_columns => '{id}'$$), '55000');
-- without the old key it is another row, as the documentation says
TRUNCATE geo;
INSERT INTO geo VALUES (1, 'eu', 'a', false, '2/1');
CALL fc.stage('geo_in', $$ ('u', 1, 'us', 'b', '2/2') $$);
SELECT fc.is('FC53 without the old key', fc.apply('geo', 'geo_in') || ', ' || fc.state('geo'), '1 = 1 inserted, 1|eu|a@2/1 1|us|b@2/2');
-- no partition for the row: an error, nothing lost
CALL fc.stage('geo_in', $$ ('u', 1, 'us', 'c', '2/3'), ('u', 1, 'ap', 'b', '2/3') $$);
SELECT fc.is('FC53 no partition', fc.apply_error('geo', 'geo_in') || ', ' || fc.state('geo'), '23514, 1|eu|a@2/1 1|us|b@2/2');
-- partitions of partitions, with columns in another order
CREATE TABLE geo_ap (x int, source_position cdc_position, v text, deleted boolean NOT NULL DEFAULT false, region text NOT NULL, id int NOT NULL)
    PARTITION BY RANGE (id);
ALTER TABLE geo_ap DROP COLUMN x;
CREATE TABLE geo_ap_1 PARTITION OF geo_ap FOR VALUES FROM (0) TO (100);
CREATE TABLE geo_ap_2 (id int NOT NULL, region text NOT NULL, deleted boolean NOT NULL DEFAULT false, y int, v text, source_position cdc_position);
ALTER TABLE geo_ap_2 DROP COLUMN y;
ALTER TABLE geo_ap ATTACH PARTITION geo_ap_2 FOR VALUES FROM (100) TO (200);
ALTER TABLE geo ATTACH PARTITION geo_ap FOR VALUES IN ('ap');
CALL fc.stage('geo_old_in', $$ ('u', 1, 'ap', 'x', '2/4', 1, 'eu'), ('u', 150, 'ap', 'y', '2/5', 1, 'ap'), ('c', 2, 'ap', 'z', '2/5', NULL, NULL),
                               ('d', 3, 'ap', NULL, '2/5', NULL, NULL) $$);
SELECT fc.deliveries('geo', 'geo_old_in', 'any', '150|ap|y@2/5 tomb 1|ap@2/5 tomb 1|eu@2/4 1|us|b@2/2 2|ap|z@2/5 tomb 3|ap@2/5');
SELECT fc.is('FC53 partitions of partitions', fc.apply('geo', 'geo_old_in'), '4 = 2 inserted + 1 deleted + 1 superseded');
CREATE TABLE deferred (id int PRIMARY KEY DEFERRABLE, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
SELECT fc.is('FC53 a deferrable key', fc.apply_error('deferred', 't_in'), '55000');

\echo FC54: types differ between staging and target
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE typed (id uuid PRIMARY KEY, m mood, ms mood[], j jsonb, d posint, n numeric(6, 2), vc varchar(3),
                    deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE typed_in (op text, id text, m text, ms text, j text, d text, n text, vc text, source_position cdc_position);
CALL fc.stage('typed_in', $$ ('c', '0000000000000000000000000000000a', 'ok', '{sad,ok}', '{"a":1}', '3', '1.005', 'abc', '6/1') $$);
SELECT fc.is('FC54 B1', fc.apply('typed', 'typed_in') || ', ' || fc.state('typed'),
             '1 = 1 inserted, 00000000-0000-0000-0000-00000000000a|ok|{sad,ok}|{"a": 1}|3|1.01|abc@6/1');
SELECT fc.is('FC54 replay in another spelling', fc.apply('typed', 'typed_in'), '1 = 1 duplicate');
CALL fc.stage('typed_in', $$ ('d', '00000000-0000-0000-0000-00000000000A', NULL, NULL, NULL, NULL, NULL, NULL, '6/2') $$);
SELECT fc.is('FC54 B2', fc.apply('typed', 'typed_in') || ', ' || fc.state('typed'), '1 = 1 deleted, tomb 00000000-0000-0000-0000-00000000000a@6/2');
CALL fc.stage('typed_in', $$ ('c', '0000000000000000000000000000000b', 'ok', NULL, NULL, '3', '1', 'a', '6/3'),
                               ('c', '0000000000000000000000000000000c', 'glad', NULL, NULL, '3', '1', 'a', '6/3') $$);
SELECT fc.is('FC54 B3: an unknown label', fc.apply_error('typed', 'typed_in'), '22P02');
SELECT fc.is('FC54 all or nothing', fc.state('typed'), 'tomb 00000000-0000-0000-0000-00000000000a@6/2');
CALL fc.stage('typed_in', $$ ('c', '0000000000000000000000000000000b', 'ok', NULL, NULL, '3', '1', 'abcd', '6/3') $$);
SELECT fc.is('FC54 too long', fc.apply_error('typed', 'typed_in'), '22001');
CALL fc.stage('typed_in', $$ ('c', '0000000000000000000000000000000b', 'ok', NULL, NULL, '-3', '1', 'abc', '6/3') $$);
SELECT fc.is('FC54 a domain', fc.apply_error('typed', 'typed_in'), '23514');
CALL fc.stage('typed_in', $$ ('c', 'b', 'ok', NULL, NULL, '3', '1', 'abc', '6/3') $$);
SELECT fc.is('FC54 a key that does not convert', fc.apply_error('typed', 'typed_in'), '22P02');
-- only written values are converted: a stale event cannot stop the pipeline
CALL fc.stage('typed_in', $$ ('u', '0000000000000000000000000000000a', 'glad', NULL, NULL, 'x', 'x', 'abcd', '6/1'),
                               ('c', '0000000000000000000000000000000d', 'sad', NULL, NULL, '3', '1', 'a', '6/3') $$);
SELECT fc.is('FC54 a stale event with a bad value', fc.apply('typed', 'typed_in'), '2 = 1 inserted + 1 stale');

DROP SCHEMA fc CASCADE;
