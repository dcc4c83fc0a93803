-- Field cases FC18 to FC35: faults of appliers seen in the field, each with
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

\echo FC18: one high-water mark instead of a guard per key
CALL fc.stage('t_in', $$ ('c', 20, 'a', '3/108') $$);
SELECT fc.is('FC18 B1', fc.apply('t', 't_in'), '1 = 1 inserted');
CALL fc.stage('t_in', $$ ('c', 21, 'b', '3/100') $$);
SELECT fc.is('FC18 B2', fc.apply('t', 't_in'), '1 = 1 inserted');
SELECT fc.is('FC18 both live', fc.state('t'), '20|a@3/108 21|b@3/100');
-- commit position, then change position
CREATE TABLE commits_in (op text, id int, v text, commit_lsn pg_lsn, lsn pg_lsn);
TRUNCATE t;
INSERT INTO commits_in VALUES ('u', 20, 'later commit', '3/130', '3/100'), ('c', 20, 'earlier commit', '3/118', '3/108');
SELECT fc.is('FC18 commit order', fc.apply('t', 'commits_in', $$staging_position => 'cdc_position(commit_lsn, (lsn - ''0/0'')::bigint)'$$) || ', ' ||
             fc.value($v$SELECT v FROM t$v$), '2 = 1 inserted + 1 superseded, later commit');
SELECT fc.is('FC18 a tie of commits goes to the change', concat(cdc_supersedes(cdc_position('3/130', ('3/128'::pg_lsn - '0/0')::bigint),
             cdc_position('3/130', ('3/120'::pg_lsn - '0/0')::bigint))), 't');

\echo FC19: a redelivered old event gets a new, higher version
CREATE TABLE landed_in (n bigint GENERATED ALWAYS AS IDENTITY, loaded_at timestamptz DEFAULT clock_timestamp(),
                        op text, id int, v text, source_position cdc_position);
TRUNCATE t;
INSERT INTO landed_in (op, id, v, source_position) VALUES ('d', 7, NULL, '100'), ('i', 7, 'b', '110');
SELECT fc.is('FC19 B1', fc.apply('t', 'landed_in', $$except_columns => '{n,loaded_at}'$$), '2 = 1 inserted + 1 superseded');
TRUNCATE landed_in;
INSERT INTO landed_in (op, id, v, source_position) VALUES ('d', 7, NULL, '100');
SELECT fc.is('FC19 B2', fc.apply('t', 'landed_in', $$except_columns => '{n,loaded_at}'$$) || ', ' || fc.state('t'), '1 = 1 stale, 7|b@110');
-- both in one batch, the old one staged last
TRUNCATE t;
INSERT INTO landed_in (op, id, v, source_position) VALUES ('i', 7, 'b', '110'), ('d', 7, NULL, '100');
SELECT fc.is('FC19 one batch', fc.apply('t', 'landed_in', $$except_columns => '{n,loaded_at}'$$) || ', ' || fc.state('t'),
             '3 = 1 inserted + 2 superseded, 7|b@110');

\echo FC20: operations ranked to break a tie
TRUNCATE t;
CALL fc.stage('t_in', $$ ('i', 1, 'p', '500:0'), ('d', 1, NULL, '500:1'), ('i', 1, 'q', '500:2'), ('i', 4, 'r', '500:0'), ('d', 4, NULL, '500:1') $$);
SELECT fc.deliveries('t', 't_in', 'any', '1|q@500:2 tomb 4@500:1');
SELECT fc.is('FC20 with an ordinal', fc.apply('t', 't_in'), '5 = 1 inserted + 1 deleted + 3 superseded');
TRUNCATE t;
CALL fc.stage('t_in', $$ ('i', 1, 'p', '500'), ('d', 1, NULL, '500'), ('i', 1, 'q', '500') $$);
SELECT fc.is('FC20 without one: key 1', fc.apply_error('t', 't_in'), '21000');
CALL fc.stage('t_in', $$ ('i', 4, 'r', '500'), ('d', 4, NULL, '500') $$);
SELECT fc.is('FC20 without one: key 4', fc.apply_error('t', 't_in'), '21000');
SELECT fc.is('FC20 nothing written', fc.state('t'), 'empty');
-- in different batches the upsert stands, whichever came first
CALL fc.stage('t_in', $$ ('i', 4, 'r', '500') $$);
SELECT fc.is('FC20 insert first', fc.apply('t', 't_in'), '1 = 1 inserted');
CALL fc.stage('t_in', $$ ('d', 4, NULL, '500') $$);
SELECT fc.is('FC20 then delete', fc.apply('t', 't_in') || ', ' || fc.state('t'), '1 = 1 duplicate, 4|r@500');
TRUNCATE t;
SELECT fc.is('FC20 delete first', fc.apply('t', 't_in'), '1 = 1 deleted');
CALL fc.stage('t_in', $$ ('i', 4, 'r', '500') $$);
SELECT fc.is('FC20 then insert', fc.apply('t', 't_in') || ', ' || fc.state('t'), '1 = 1 inserted, 4|r@500');

\echo FC21: insert, then delete in one batch, of a key that is not in the target
TRUNCATE t;
CALL fc.stage('t_in', $$ ('i', 52, 'a', '1/10'), ('u', 52, 'b', '1/11'), ('d', 52, NULL, '1/12'), ('i', 53, 'a', '1/20'), ('u', 53, 'b', '1/21') $$);
SELECT fc.deliveries('t', 't_in', 'any', 'tomb 52@1/12 53|b@1/21');
SELECT fc.is('FC21', fc.apply('t', 't_in'), '5 = 1 inserted + 1 deleted + 3 superseded');
SELECT fc.is('FC21 replay', fc.apply('t', 't_in'), '5 = 2 duplicate + 3 superseded');
CALL fc.stage('t_in', $$ ('u', 54, 'only an update', '1/30') $$);
SELECT fc.is('FC21 an update of an unseen key', fc.apply('t', 't_in'), '1 = 1 inserted');

\echo FC22: truncate
TRUNCATE t;
INSERT INTO t VALUES (1, 'a', false, '2/10');
CALL fc.stage('t_in', $$ ('t', NULL, NULL, '2/20'), ('c', 2, 'b', '2/30') $$);
SELECT fc.is('FC22 refused, never skipped', fc.apply_error('t', 't_in'), '55000');
SELECT fc.is('FC22 nothing written', fc.state('t'), '1|a@2/10');
SELECT fc.is('FC22 ignored when that is said', fc.apply('t', 't_in', $$op_map => '{"t": "ignore"}'$$) || ', ' || fc.state('t'),
             '2 = 1 inserted + 1 ignored, 1|a@2/10 2|b@2/30');
-- an op that nobody knows is refused as well
CALL fc.stage('t_in', $$ ('x', 1, 'z', '2/40'), ('c', 3, 'c', '2/41') $$);
SELECT fc.is('FC22 an unknown op', fc.apply_error('t', 't_in'), '22023');
SELECT fc.is('FC22 an op mapped', fc.apply('t', 't_in', $$op_map => '{"x": "upsert"}'$$), '2 = 1 inserted + 1 updated');

\echo FC23: keys renumbered or swapped in one statement
CREATE TABLE t_old_in (op text, id int, v text, source_position cdc_position, __old_id int);
TRUNCATE t;
INSERT INTO t VALUES (1, 'a', false, '8/1'), (2, 'b', false, '8/1'), (3, 'c', false, '8/1');
-- one position for the statement: the move in ranks above the move out
CALL fc.stage('t_old_in', $$ ('u', 2, 'a', '8/40', 1), ('u', 3, 'b', '8/40', 2), ('u', 4, 'c', '8/40', 3) $$);
SELECT fc.deliveries('t', 't_old_in', 'any', 'tomb 1@8/40 2|a@8/40 3|b@8/40 4|c@8/40');
SELECT fc.is('FC23 id = id + 1', fc.apply('t', 't_old_in') , '3 = 1 inserted + 2 updated');
SELECT fc.is('FC23 id = id + 1, replay', fc.apply('t', 't_old_in') || ', ' || fc.state('t') , '3 = 3 duplicate, tomb 1@8/40 2|a@8/40 3|b@8/40 4|c@8/40');
-- an ordinal for each row, in the order that an immediate key allows
TRUNCATE t;
INSERT INTO t VALUES (1, 'a', false, '8/1'), (2, 'b', false, '8/1'), (3, 'c', false, '8/1');
CALL fc.stage('t_old_in', $$ ('u', 4, 'c', '8/40:1', 3), ('u', 3, 'b', '8/40:2', 2), ('u', 2, 'a', '8/40:3', 1) $$);
SELECT fc.deliveries('t', 't_old_in', 'any', 'tomb 1@8/40:3 2|a@8/40:3 3|b@8/40:2 4|c@8/40:1');
-- a swap
TRUNCATE t;
INSERT INTO t VALUES (1, 'a', false, '8/1'), (2, 'b', false, '8/1');
CALL fc.stage('t_old_in', $$ ('u', 2, 'a', '8/40', 1), ('u', 1, 'b', '8/40', 2) $$);
SELECT fc.deliveries('t', 't_old_in', 'any', '1|b@8/40 2|a@8/40');
SELECT fc.is('FC23 swap', fc.apply('t', 't_old_in') || ', ' || fc.state('t'), '2 = 2 updated, 1|b@8/40 2|a@8/40');

\echo FC24: the key changes and a large column is "unchanged"
CREATE TABLE doc (id int PRIMARY KEY, title text, body text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE doc_in (op text, id int, title text, body text, source_position cdc_position);
CREATE TABLE doc_old_in (op text, id int, title text, body text, source_position cdc_position, __old_id int);
INSERT INTO doc VALUES (5, 't', 'L', false, '1/1');
CALL fc.stage('doc_in', $$ ('d', 5, NULL, NULL, '1/2'), ('c', 6, 't2', '__debezium_unavailable_value', '1/2:1') $$);
SELECT fc.is('FC24 without the old key', fc.apply_error('doc', 'doc_in'), '55000');
SELECT fc.is('FC24 nothing written', fc.state('doc'), '5|t|L@1/1');
CALL fc.stage('doc_old_in', $$ ('u', 6, 't2', '__debezium_unavailable_value', '1/2', 5) $$);
SELECT fc.deliveries('doc', 'doc_old_in', 'log', 'tomb 5@1/2 6|t2|L@1/2');
SELECT fc.is('FC24 with the old key', fc.apply('doc', 'doc_old_in') || ', ' || fc.state('doc'), '1 = 1 inserted, tomb 5@1/2 6|t2|L@1/2');
-- the old key's older event of the same batch; two moves
TRUNCATE doc;
INSERT INTO doc VALUES (5, 't', 'L', false, '1/1');
CALL fc.stage('doc_old_in', $$ ('u', 5, 't1', 'L1', '1/2', NULL), ('u', 6, 't2', '__debezium_unavailable_value', '1/3', 5),
                                 ('u', 7, 't3', '__debezium_unavailable_value', '1/4', 6) $$);
SELECT fc.deliveries('doc', 'doc_old_in', 'batch', 'tomb 5@1/3 tomb 6@1/4 7|t3|L1@1/4');
SELECT fc.deliveries('doc', 'doc_old_in', 'log', 'tomb 5@1/3 tomb 6@1/4 7|t3|L1@1/4');
-- two moves, and the value stands in the target alone
CALL fc.stage('doc_old_in', $$ ('u', 6, 't2', '__debezium_unavailable_value', '1/3', 5), ('u', 7, 't3', '__debezium_unavailable_value', '1/4', 6) $$);
SELECT fc.deliveries('doc', 'doc_old_in', 'batch', 'tomb 5@1/3 tomb 6@1/4 7|t3|L@1/4');
SELECT fc.deliveries('doc', 'doc_old_in', 'log', 'tomb 5@1/3 tomb 6@1/4 7|t3|L@1/4');

-- the old key is taken again, in the same batch: its new holder's values are not the moved row's
TRUNCATE doc;
INSERT INTO doc VALUES (5, 't', 'L', false, '1/1');
CALL fc.stage('doc_old_in', $$ ('u', 5, 't1', 'L1', '1/2', NULL), ('u', 6, 't2', '__debezium_unavailable_value', '1/3', 5),
                               ('c', 5, 'other', 'L2', '1/4', NULL), ('u', 5, 'other', '__debezium_unavailable_value', '1/5', NULL) $$);
SELECT fc.deliveries('doc', 'doc_old_in', 'batch', '5|other|L2@1/5 6|t2|L1@1/3');
SELECT fc.deliveries('doc', 'doc_old_in', 'log', '5|other|L2@1/5 6|t2|L1@1/3');
CALL fc.stage('doc_old_in', $$ ('u', 6, 't2', '__debezium_unavailable_value', '1/3', 5), ('c', 5, 'other', 'L2', '1/4', NULL) $$);
SELECT fc.deliveries('doc', 'doc_old_in', 'batch', '5|other|L2@1/4 6|t2|L@1/3');
TRUNCATE doc;
CALL fc.stage('doc_old_in', $$ ('c', 5, 't1', 'L1', '1/2', NULL), ('u', 6, 't2', '__debezium_unavailable_value', '1/3', 5),
                               ('c', 5, 'other', NULL, '1/4', NULL) $$);
SELECT fc.deliveries('doc', 'doc_old_in', 'batch', '5|other|NULL@1/4 6|t2|L1@1/3');

\echo FC25: a column that the event does not carry is not NULL
CREATE TABLE doc_list_in (op text, id int, title text, body text, source_position cdc_position, unchanged text[]);
TRUNCATE doc;
INSERT INTO doc VALUES (3, 't1', 'L', false, '9/1');
CALL fc.stage('doc_list_in', $$ ('u', 3, 't2', NULL, '9/2', '{body}') $$);
SELECT fc.is('FC25 B1', fc.apply('doc', 'doc_list_in', $$unchanged_column => 'unchanged'$$) || ', ' || fc.state('doc'), '1 = 1 updated, 3|t2|L@9/2');
CALL fc.stage('doc_list_in', $$ ('u', 3, 't2', NULL, '9/3', NULL) $$);
SELECT fc.is('FC25 B2: an explicit NULL', fc.apply('doc', 'doc_list_in', $$unchanged_column => 'unchanged'$$) || ', ' || fc.state('doc'),
             '1 = 1 updated, 3|t2|NULL@9/3');
TRUNCATE doc;
INSERT INTO doc VALUES (3, 't1', 'L', false, '9/1');
CALL fc.stage('doc_list_in', $$ ('u', 3, NULL, 'L4', '9/4', '{title}'), ('u', 3, 't5', NULL, '9/5', '{body}'), ('u', 3, NULL, NULL, '9/6', '{body,title}') $$);
SELECT fc.deliveries('doc', 'doc_list_in', 'batch', '3|t5|L4@9/6', $$unchanged_column => 'unchanged'$$);
SELECT fc.deliveries('doc', 'doc_list_in', 'log', '3|t5|L4@9/6', $$unchanged_column => 'unchanged'$$);
-- the list as a jsonb array
CREATE TABLE doc_json_in (op text, id int, title text, body text, source_position cdc_position, unchanged jsonb);
CALL fc.stage('doc_json_in', $$ ('u', 3, 't2', NULL, '9/2', '["body"]'), ('u', 4, 't', 'b', '9/2', '[]'), ('u', 5, 't', 'b', '9/2', NULL) $$);
SELECT fc.is('FC25 a jsonb list', fc.apply('doc', 'doc_json_in', $$unchanged_column => 'unchanged'$$) || ', ' || fc.state('doc'),
             '3 = 2 inserted + 1 updated, 3|t2|L@9/2 4|t|b@9/2 5|t|b@9/2');
-- a source that never sends NULL: NULL is "no change" when that is said
TRUNCATE doc;
INSERT INTO doc VALUES (3, 't1', 'L', false, '9/1');
CALL fc.stage('doc_in', $$ ('u', 3, 't2', NULL, '9/2'), ('u', 4, 't', NULL, '9/3') $$);
SELECT fc.is('FC25 ignore_nulls', fc.apply('doc', 'doc_in', $$ignore_nulls => true$$) || ', ' || fc.state('doc'),
             '2 = 1 inserted + 1 updated, 3|t2|L@9/2 4|t|NULL@9/3');

\echo FC26: the marker in other types, and real data that looks like it
CREATE TABLE blob (id int PRIMARY KEY, b bytea, a text[], u uuid[], j jsonb, n int, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE blob_in (op text, id int, b bytea, a text[], u text[], j jsonb, n text, source_position cdc_position);
INSERT INTO blob VALUES (1, '\x01', '{x}', '{00000000-0000-0000-0000-000000000001}', '{"k": 1}', 7, false, '5/1');
CALL fc.stage('blob_in', $$ ('u', 1, convert_to('__debezium_unavailable_value', 'UTF8'), '{__debezium_unavailable_value}',
    '{__debezium_unavailable_value}', '"__debezium_unavailable_value"', '__debezium_unavailable_value', '5/2') $$);
SELECT fc.is('FC26 B1', fc.apply('blob', 'blob_in') || ', ' || fc.state('blob'),
             '1 = 1 updated, 1|\x01|{x}|{00000000-0000-0000-0000-000000000001}|{"k": 1}|7@5/2');
CALL fc.stage('blob_in', $$ ('u', 1, '\x02', '{x,__debezium_unavailable_value,y}', '{00000000-0000-0000-0000-000000000002}',
    '{"v": "__debezium_unavailable_value"}', '8', '5/3') $$);
SELECT fc.is('FC26 B2: among other values it is data', fc.apply('blob', 'blob_in') || ', ' || fc.state('blob'),
             '1 = 1 updated, 1|\x02|{x,__debezium_unavailable_value,y}|{00000000-0000-0000-0000-000000000002}|{"v": "__debezium_unavailable_value"}|8@5/3');
CALL fc.stage('blob_in', $$ ('u', 1, convert_to('__gone__', 'UTF8'), '{__gone__}', '{__gone__}', '"__gone__"', '__gone__', '5/4') $$);
SELECT fc.is('FC26 B3: another marker', fc.apply('blob', 'blob_in', $$unavailable_value => '__gone__'$$) || ', ' || fc.state('blob'),
             '1 = 1 updated, 1|\x02|{x,__debezium_unavailable_value,y}|{00000000-0000-0000-0000-000000000002}|{"v": "__debezium_unavailable_value"}|8@5/4');
-- with another marker configured, and with none, the default one is data
CALL fc.stage('blob_in', $$ ('u', 1, NULL, '{__debezium_unavailable_value}', NULL, NULL, NULL, '5/5') $$);
SELECT fc.is('FC26 the default marker as data', fc.apply('blob', 'blob_in', $$unavailable_value => '__gone__'$$) || ', ' || fc.value($v$SELECT a::text FROM blob$v$),
             '1 = 1 updated, {__debezium_unavailable_value}');
CALL fc.stage('blob_in', $$ ('u', 1, NULL, NULL, NULL, '"__debezium_unavailable_value"', NULL, '5/6') $$);
SELECT fc.is('FC26 turned off', fc.apply('blob', 'blob_in', $$unavailable_value => ''$$) || ', ' || fc.value($v$SELECT j::text FROM blob$v$),
             '1 = 1 updated, "__debezium_unavailable_value"');
-- a value that only begins or ends like it
CREATE TABLE near_in (op text, id int, title text, body text, source_position cdc_position);
TRUNCATE doc;
CALL fc.stage('near_in', $$ ('u', 1, '__debezium_unavailable_value ', 'x__debezium_unavailable_value', '5/7') $$);
SELECT fc.is('FC26 near misses are data', fc.apply('doc', 'near_in') || ', ' || fc.state('doc'),
             '1 = 1 inserted, 1|__debezium_unavailable_value |x__debezium_unavailable_value@5/7');

\echo FC27: the delete does not carry the whole key
CREATE TABLE pair (id int, region text, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position, PRIMARY KEY (id, region));
CREATE TABLE pair_in (op text, id int, region text, v text, source_position cdc_position);
INSERT INTO pair VALUES (4, 'n', 'x', false, '3/1');
CALL fc.stage('pair_in', $$ ('d', 4, NULL, NULL, '3/9'), ('c', 5, 'n', 'y', '3/A') $$);
SELECT fc.is('FC27 refused', fc.apply_error('pair', 'pair_in'), '23502');
SELECT fc.is('FC27 nothing written', fc.state('pair'), '4|n|x@3/1');
CREATE TABLE pair_short_in (op text, id int, v text, source_position cdc_position);
INSERT INTO pair_short_in VALUES ('d', 4, NULL, '3/9');
SELECT fc.is('FC27 staging without the column', fc.apply_error('pair', 'pair_short_in'), '42703');
SELECT fc.is('FC27 the incomplete rows set aside', fc.apply('pair', 'pair_in', $$staging_filter => 'region IS NOT NULL'$$) || ', ' || fc.state('pair'),
             '1 = 1 inserted, 4|n|x@3/1 5|n|y@3/A');

\echo FC30: a column on one side only
CREATE TABLE drift (id int PRIMARY KEY, v text, note text DEFAULT 'none yet', deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
INSERT INTO drift VALUES (2, 'a', 'keep', false, '1/1');
CALL fc.stage('t_in', $$ ('u', 2, 'b', '1/2'), ('c', 3, 'c', '1/3') $$);
SELECT fc.is('FC30 B1', fc.apply('drift', 't_in') || ', ' || fc.state('drift'), '2 = 1 inserted + 1 updated, 2|b|keep@1/2 3|c|none yet@1/3');
CREATE TABLE drift_in (op text, id int, v text, newcol int, source_position cdc_position);
INSERT INTO drift_in VALUES ('u', 2, 'c', 9, '1/4');
SELECT fc.is('FC30 fail', fc.apply_error('drift', 'drift_in', $$on_schema_change => 'fail'$$) IN ('42703') || '', 'true');
SELECT fc.is('FC30 fail writes nothing', fc.state('drift'), '2|b|keep@1/2 3|c|none yet@1/3');
CREATE FUNCTION fc.warned(statement text) RETURNS text LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE r text; BEGIN EXECUTE statement INTO r; RETURN r; END $$;
\set VERBOSITY terse
\echo -- a warning must follow
SELECT fc.is('FC30 warn', fc.warned($$SELECT fc.apply('drift', 'drift_in')$$), '1 = 1 updated');
\set VERBOSITY default
\echo -- and none here
CALL fc.stage('drift_in', $$ ('u', 2, 'd', 9, '1/5') $$);
SELECT fc.is('FC30 ignore', fc.warned($$SELECT fc.apply('drift', 'drift_in', $q$on_schema_change => 'ignore'$q$)$$), '1 = 1 updated');
CALL fc.stage('drift_in', $$ ('u', 2, 'e', 9, '1/6') $$);
SELECT fc.is('FC30 except_columns', fc.warned($$SELECT fc.apply('drift', 'drift_in', $q$except_columns => '{newcol}'$q$)$$), '1 = 1 updated');
CALL fc.stage('drift_in', $$ ('u', 2, 'f', 9, '1/7') $$);
SELECT fc.is('FC30 append_new_columns', fc.apply('drift', 'drift_in', $$on_schema_change => 'append_new_columns'$$), '1 = 1 updated');
SELECT fc.is('FC30 the new column', fc.state('drift'), '2|f|keep|9@1/7 3|c|none yet|NULL@1/3');

\echo FC31: NULL in a key column
CREATE TABLE nullkey (a int NOT NULL, b int, v int, deleted boolean NOT NULL DEFAULT false, source_position cdc_position, UNIQUE (a, b));
CREATE TABLE nullkey_in (op text, a int, b int, v int, source_position cdc_position);
CALL fc.stage('nullkey_in', $$ ('c', 1, NULL, 1, '1/1'), ('u', 1, NULL, 2, '1/2') $$);
SELECT fc.is('FC31 B1', fc.apply_error('nullkey', 'nullkey_in', $$key_columns => '{a,b}'$$), '23502');
CALL fc.stage('nullkey_in', $$ ('d', 1, NULL, NULL, '1/3') $$);
SELECT fc.is('FC31 B2', fc.apply_error('nullkey', 'nullkey_in', $$key_columns => '{a,b}'$$), '23502');
SELECT fc.is('FC31 no row', (SELECT count(*)::text FROM nullkey), '0');
CALL fc.stage('nullkey_in', $$ ('c', 1, 1, 1, '1/1'), ('u', 1, 1, 2, '1/2') $$);
SELECT fc.is('FC31 a unique index as the key', fc.apply('nullkey', 'nullkey_in', $$key_columns => '{a,b}'$$), '2 = 1 inserted + 1 superseded');
SELECT fc.is('FC31 in any column order', fc.apply('nullkey', 'nullkey_in', $$key_columns => '{b,a}'$$), '2 = 1 duplicate + 1 superseded');
SELECT fc.is('FC31 no key named, none found', fc.apply_error('nullkey', 'nullkey_in'), '55000');
CALL fc.stage('t_in', $$ ('c', NULL, 'x', '1/1') $$);
SELECT fc.is('FC31 a primary key', fc.apply_error('t', 't_in'), '23502');

\echo FC33: two orderings, or two number domains, in one position column
CREATE TABLE clocks (id int PRIMARY KEY, v text, ts bigint, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE clocks_in (op text, id int, v text, ts bigint, source_position cdc_position);
INSERT INTO clocks VALUES (3, 'w', 880, false, '55');
CALL fc.stage('clocks_in', $$ ('u', 3, 'x', 900, '50'), ('u', 3, 'y', 890, '60') $$);
SELECT fc.deliveries('clocks', 'clocks_in', 'any', '3|y|890@60');
SELECT fc.is('FC33 one comparison for both', fc.apply('clocks', 'clocks_in'), '2 = 1 updated + 1 superseded');
TRUNCATE clocks;
INSERT INTO clocks VALUES (4, 's', 1, false, '1717304405250000000');
CALL fc.stage('clocks_in', $$ ('u', 4, 't', 2, '0/2B40C18') $$);
SELECT fc.is('FC33 LSN against number', fc.apply_error('clocks', 'clocks_in'), '42804');
CALL fc.stage('clocks_in', $$ ('u', 5, 't', 2, '0/2B40C18'), ('u', 6, 't', 2, '17') $$);
SELECT fc.is('FC33 both kinds in a batch', fc.apply_error('clocks', 'clocks_in'), '42804');
SELECT fc.is('FC33 nothing written', fc.state('clocks'), '4|s|1@1717304405250000000');
SELECT fc.is('FC33 cdc_supersedes', fc.sqlstate($$SELECT cdc_supersedes('0/2B40C18', '17')$$), '42804');
SELECT fc.is('FC33 latest_by_position', fc.sqlstate($$SELECT latest_by_position(p, p::cdc_position) FROM unnest('{0/2B40C18,17}'::text[]) p$$), '42804');
SELECT fc.is('FC33 sorting never fails', (SELECT string_agg(p, ' ' ORDER BY p::cdc_position) FROM unnest('{17,0/2B40C18,9,0/1}'::text[]) p),
             '0/1 0/2B40C18 9 17');

\echo FC34: a position with missing parts
CREATE TABLE parts (id int PRIMARY KEY, v text, deleted boolean NOT NULL DEFAULT false, c numeric, x numeric, s int);
CREATE TABLE parts_in (op text, id int, v text, c numeric, x numeric, s int);
CREATE FUNCTION fc.parts(rows text, options text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE parts;
    INSERT INTO parts VALUES (1, 'a', false, 1, 5, 1);
    CALL fc.stage('parts_in', rows);
    RETURN fc.apply_error('parts', 'parts_in', $o$position_columns => '{c,x,s}'$o$) || ', ' ||
           fc.value($v$SELECT concat_ws(':', v, c, coalesce(x::text, '-'), coalesce(s::text, '-')) FROM parts$v$);
END $$;
SELECT fc.is('FC34 commit only', fc.parts($$ ('u', 1, 'b', 1, NULL, NULL) $$), '1 = 1 stale, a:1:5:1');
SELECT fc.is('FC34 no serial', fc.parts($$ ('u', 1, 'b', 1, 5, NULL) $$), '1 = 1 stale, a:1:5:1');
SELECT fc.is('FC34 a later commit only', fc.parts($$ ('u', 1, 'b', 2, NULL, NULL) $$), '1 = 1 updated, b:2:0:0');
SELECT fc.is('FC34 no commit', fc.parts($$ ('u', 1, 'b', NULL, 5, 9) $$), '23502, a:1:5:1');
SELECT fc.is('FC34 the same place', fc.parts($$ ('u', 1, 'a', 1, 5, 1) $$), '1 = 1 duplicate, a:1:5:1');
SELECT fc.is('FC34 a fraction is no position', fc.parts($$ ('u', 1, 'b', 2.5, 0, 0) $$), '22003, a:1:5:1');
SELECT fc.is('FC34 missing is 0, in every operator',
             concat('1'::cdc_position = '1:0:0', ' ', '1'::cdc_position < '1:5', ' ', cdc_supersedes('1:0:1', '1'), ' ', cdc_supersedes('1', '1:5:1')),
             't t t f');
SELECT fc.is('FC34 a NULL part gives no position', coalesce(cdc_position_from_numbers(1, NULL)::text, 'NULL'), 'NULL');
SELECT fc.is('FC34 a position needs a part', fc.sqlstate($$SELECT cdc_position_from_numbers(VARIADIC '{}')$$), '22023');
-- LSN and ordinal in two columns of their usual names
CREATE TABLE parts_lsn (id int PRIMARY KEY, v text, deleted boolean NOT NULL DEFAULT false, source_lsn pg_lsn, source_ordinal int);
CREATE TABLE parts_lsn_in (op text, id int, v text, source_lsn pg_lsn, source_ordinal int);
INSERT INTO parts_lsn VALUES (1, 'a', false, '1/5', 1);
CALL fc.stage('parts_lsn_in', $$ ('u', 1, 'b', '1/5', NULL), ('u', 2, 'c', '1/5', NULL) $$);
SELECT fc.is('FC34 two columns', fc.apply('parts_lsn', 'parts_lsn_in') || fc.value($v$SELECT string_agg(concat_ws(':', '', id, v, source_lsn::cdc_position, source_ordinal), '' ORDER BY id) FROM parts_lsn$v$),
             '2 = 1 inserted + 1 stale:1:a:1/5:1:2:c:1/5:0');

\echo FC35: a delete and an insert with the same commit and change LSN
CREATE TABLE mssql (id int PRIMARY KEY, v text, deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE mssql_in (op int, id int, v text, source_position cdc_position);
INSERT INTO mssql VALUES (8, 'a', false, '7:1');
CALL fc.stage('mssql_in', $$ (1, 8, 'a', '7:3:1'), (2, 8, 'b', '7:3:2') $$);
SELECT fc.deliveries('mssql', 'mssql_in', 'any', '8|b@7:3:2');
SELECT fc.is('FC35 B1', fc.apply('mssql', 'mssql_in'), '2 = 1 updated + 1 superseded');
CALL fc.stage('mssql_in', $$ (2, 8, 'b', '7:3:1') $$);
SELECT fc.is('FC35 B2', fc.apply('mssql', 'mssql_in') || ', ' || fc.state('mssql'), '1 = 1 stale, 8|b@7:3:2');
-- a pair of images at one position: the old one is a retraction
CALL fc.stage('mssql_in', $$ (4, 8, 'c', '7:4'), (3, 8, 'b', '7:4') $$);
SELECT fc.deliveries('mssql', 'mssql_in', 'any', '8|c@7:4');
SELECT fc.is('FC35 an update pair', fc.apply('mssql', 'mssql_in') || ', ' || fc.state('mssql'), '2 = 1 updated + 1 superseded, 8|c@7:4');
-- both with one serial: a delete and an insert tie
CALL fc.stage('mssql_in', $$ (1, 8, 'c', '7:5:1'), (2, 8, 'd', '7:5:1') $$);
SELECT fc.is('FC35 a tie', fc.apply_error('mssql', 'mssql_in'), '21000');

DROP SCHEMA fc CASCADE;
