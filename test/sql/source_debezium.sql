-- cdc_position_from_debezium: the source block of an event, by its connector

\set VERBOSITY terse
CREATE FUNCTION pg_temp.refused(source jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	state text; message text; det text; hint text;
BEGIN
	RETURN 'not refused: ' || coalesce(cdc_position_from_debezium(source)::text, 'NULL');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		det = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', state, message, nullif(det, ''), nullif(hint, ''));
END $$;
-- a block with fields changed; a null takes the field out
CREATE FUNCTION pg_temp.with_fields(block jsonb, fields jsonb) RETURNS jsonb LANGUAGE sql
	RETURN jsonb_strip_nulls(block || fields);

-- one whole block of each connector, as it writes them
CREATE TEMP TABLE blocks (connector text PRIMARY KEY, block jsonb);
INSERT INTO blocks SELECT j->>'connector', j FROM (VALUES
	('{"version": "3.6.1.Final", "connector": "postgresql", "name": "s", "ts_ms": 1559033904863, "snapshot": "false", "db": "postgres",
	   "sequence": "[\"24023119\",\"24023128\"]", "ts_us": 1559033904863123, "ts_ns": 1559033904863123000, "schema": "public",
	   "table": "customers", "txId": 555, "lsn": 24023128, "xmin": null, "origin": null, "origin_lsn": null}'::jsonb),
	('{"version": "3.6.1.Final", "connector": "mysql", "name": "s", "ts_ms": 1465491411815, "snapshot": "false", "db": "inventory",
	   "sequence": null, "table": "customers", "server_id": 223344, "gtid": "36c9e1ba-6ed1-11ee-9a2b-0242ac120003:45",
	   "file": "mysql-bin.000003", "pos": 484, "row": 0, "thread": 7, "query": null}'),
	('{"version": "3.6.1.Final", "connector": "mariadb", "name": "s", "ts_ms": 1465491411815, "snapshot": "false", "db": "inventory",
	   "table": "customers", "server_id": 1, "gtid": "0-1-4711", "file": "mariadb-bin.000003", "pos": 484, "row": 2}'),
	('{"version": "3.6.1.Final", "connector": "sqlserver", "name": "s", "ts_ms": 1559729468470, "snapshot": "false", "db": "testDB",
	   "sequence": null, "schema": "dbo", "table": "customers", "change_lsn": "00000027:00000758:0003",
	   "commit_lsn": "00000027:00000758:0005", "event_serial_no": "1"}'),
	('{"version": "3.6.1.Final", "connector": "oracle", "name": "s", "ts_ms": 1520085154000, "snapshot": "false", "db": "ORCLPDB1",
	   "sequence": null, "schema": "DEBEZIUM", "table": "CUSTOMERS", "txId": "6.28.807", "scn": "2122185", "commit_scn": "2122190",
	   "lcr_position": null, "rs_id": " 0x00009a.0000d8b7.0010 ", "ssn": 1, "redo_thread": 1, "user_name": "U"}'),
	('{"version": "2.7.4.Final", "connector": "mongodb", "name": "s", "ts_ms": 1558965508000, "snapshot": "false", "db": "inventory",
	   "sequence": null, "rs": "rs0", "collection": "customers", "ord": 31, "wallTime": 1558965508241}'),
	('{"version": "3.6.1.Final", "connector": "db2", "name": "s", "ts_ms": 1559729468470, "snapshot": "false", "db": "mydatabase",
	   "schema": "MYSCHEMA", "table": "CUSTOMERS", "change_lsn": "00000000:00000000:000000000478cf3a",
	   "commit_lsn": "00000000:00000000:000000000478d012"}'),
	('{"version": "3.6.1.Final", "connector": "informix", "name": "s", "ts_ms": 1559729468470, "snapshot": "false", "db": "testdb",
	   "schema": "informix", "table": "customers", "commit_lsn": "627404540760620", "change_lsn": "627404540485812",
	   "txId": "250", "begin_lsn": "627404540372400"}'),
	('{"version": "3.6.1.Final", "connector": "tidb", "name": "s", "ts_ms": 1559729468470, "snapshot": "false", "db": "test",
	   "table": "customers", "commit_ts": 447984074911121426, "cluster_id": "c1"}'),
	('{"version": "2.4.0.Final", "connector": "TiCDC", "name": "s", "ts_ms": 1559729468470, "snapshot": "false", "db": "test",
	   "table": "customers", "server_id": 0, "gtid": null, "file": "", "pos": 0, "row": 0, "commit_ts": 447984074911121426,
	   "cluster_id": "c1"}')) v(j);
SELECT connector, cdc_position_from_debezium(block) AS pos FROM blocks ORDER BY connector COLLATE "C";

-- the same positions, made from the coordinates by hand
SELECT connector, cdc_position_from_debezium(block) = CASE connector
	WHEN 'postgresql' THEN '0/0'::pg_lsn + (block->>'lsn')::numeric
	WHEN 'mysql' THEN cdc_position_from_numbers(3, 484, 0)
	WHEN 'mariadb' THEN cdc_position_from_numbers(3, 484, 2)
	WHEN 'sqlserver' THEN cdc_position_from_numbers(x'27'::int, x'758'::int, 5, x'27'::int, x'758'::int, 3, 1)
	WHEN 'oracle' THEN cdc_position_from_numbers(2122185, x'9a'::int, x'd8b7'::int, x'10'::int, 1)
	WHEN 'mongodb' THEN cdc_position_from_numbers(1558965508, 31)
	WHEN 'db2' THEN cdc_position_from_numbers(0, x'478d012'::int, 0, x'478cf3a'::int)
	WHEN 'informix' THEN cdc_position_from_numbers(627404540760620, 627404540485812)
	ELSE cdc_position_from_numbers(447984074911121426) END AS equal
FROM blocks ORDER BY connector COLLATE "C";

-- NULL gives NULL, and so does a JSON null, which is what a missing value of a loader may become
SELECT cdc_position_from_debezium(NULL) IS NULL AS null, cdc_position_from_debezium('null') IS NULL AS json_null;

-- which fields place a change, and which only separate changes of one place: each taken out, each as text, each of
-- a snapshot row
SELECT connector, field,
	split_part(pg_temp.refused(pg_temp.with_fields(block, jsonb_build_object(field, NULL))), ' | ', 1) AS without,
	split_part(pg_temp.refused(pg_temp.with_fields(block, jsonb_build_object(field, NULL)) || '{"snapshot": "true"}'), ' | ', 1) AS snapshot_without,
	cdc_position_from_debezium(block || jsonb_build_object(field, block->>field)) = cdc_position_from_debezium(block) AS as_text
FROM blocks, jsonb_object_keys(block) field
WHERE pg_temp.refused(pg_temp.with_fields(block, jsonb_build_object(field, NULL)))
	IS DISTINCT FROM 'not refused: ' || cdc_position_from_debezium(block)
ORDER BY connector COLLATE "C", field COLLATE "C";
SELECT connector, pg_temp.refused(block - CASE connector WHEN 'postgresql' THEN 'lsn' WHEN 'mysql' THEN 'file' WHEN 'mariadb' THEN 'pos'
	WHEN 'sqlserver' THEN 'commit_lsn' WHEN 'oracle' THEN 'scn' WHEN 'mongodb' THEN 'ord' WHEN 'informix' THEN 'change_lsn'
	WHEN 'db2' THEN 'commit_lsn' ELSE 'commit_ts' END)
FROM blocks ORDER BY connector COLLATE "C";

-- marks of a snapshot: with coordinates they are used, without there is no position
SELECT mark, pg_temp.refused((block - 'lsn') || jsonb_build_object('snapshot', mark)) AS without_lsn,
	cdc_position_from_debezium(block || jsonb_build_object('snapshot', mark)) AS with_lsn
FROM blocks, jsonb_array_elements('["true", "TRUE", "first", "first_in_data_collection", "last_in_data_collection", "last", "incremental",
	true, "false", false, null, "tru", "", 1]') mark
WHERE connector = 'postgresql';
SELECT cdc_position_from_debezium('{"connector": "sqlserver", "snapshot": "true", "change_lsn": null,
	"commit_lsn": "00000025:00000d98:00a2", "event_serial_no": null}') AS sqlserver_snapshot,
	cdc_position_from_debezium('{"connector": "sqlserver", "snapshot": "true", "commit_lsn": null}') IS NULL AS sqlserver_without,
	cdc_position_from_debezium('{"connector": "db2", "snapshot": "last", "change_lsn": null,
	"commit_lsn": "00000025:00000d98:00a2"}') AS db2_snapshot,
	cdc_position_from_debezium('{"connector": "informix", "snapshot": "true", "commit_lsn": "0"}') AS informix_snapshot,
	cdc_position_from_debezium('{"connector": "oracle", "snapshot": "true", "scn": "2122185", "ssn": 0}') AS oracle_snapshot,
	cdc_position_from_debezium('{"connector": "mysql", "snapshot": "last", "file": "b.1", "pos": 154, "row": 0}') AS mysql_snapshot,
	cdc_position_from_debezium('{"connector": "mysql", "snapshot": "last", "file": "", "pos": 0, "row": 0}') IS NULL AS mysql_no_binlog,
	cdc_position_from_debezium('{"connector": "mysql", "snapshot": "false", "file": "", "pos": 0, "row": 0}') IS NULL AS mysql_flink;

-- numbers: whole, 0 .. 2^64-1, as JSON numbers or as text
SELECT lsn, pg_temp.refused(block || jsonb_build_object('lsn', lsn))
FROM blocks, jsonb_array_elements('[0, 1, 24023128.0, 2.4e7, 9223372036854775807, 9223372036854775808, 18446744073709551615,
	"18446744073709551615", "0018", 18446744073709551616, "18446744073709551616", -1, "-1", 1.5, 1e30, "", "-", " 5", "5 ", "5.0", "1e3",
	"16/B374D848", "abc", "--1", true, [5], {"a": 5}]') WITH ORDINALITY a (lsn, n)
WHERE connector = 'postgresql' ORDER BY n;

-- files: the number at the end, however it is padded
SELECT file, pg_temp.refused(block || jsonb_build_object('file', file))
FROM blocks, jsonb_array_elements('["mysql-bin.000047", "mysql-bin.47", "/var/lib/mysql/binlog.000001", "db1.2.000003", "a.999999", "a.1000000",
	"a.18446744073709551615", "a.18446744073709551616", "47", "mysql-bin.", "mysql-bin", "", "binlog.000001 ", "binlog.index", "binlog.000001:4",
	"36c9e1ba-6ed1-11ee-9a2b-0242ac120003:45", "36C9E1BA-6ED1-11EE-9A2B-0242AC120003:1-5:11-18",
	"36c9e1ba-6ed1-11ee-9a2b-0242ac120003:tag:45", "MySQL56/36c9e1ba-6ed1-11ee-9a2b-0242ac120003:1-45",
	"0-1-4711", "0-1-4711,1-2-5", "MariaDB/0-54610504-47", "2026-01-02.000007", "0-1-4711.000001", 47]') WITH ORDINALITY a (file, n)
WHERE connector = 'mysql' ORDER BY n;
SELECT pg_temp.refused(block - 'file') AS only_a_gtid FROM blocks WHERE connector = 'mysql';

-- LSNs of SQL Server and Db2, records of Oracle
SELECT lsn, pg_temp.refused(block || jsonb_build_object('change_lsn', lsn))
FROM blocks, jsonb_array_elements('["00000027:00000758:0003", "0000002A:0000aBcD:fFfF", "0x0000002a0000abcdffff", "0X0000002A0000ABCDFFFF",
	"0000002a0000abcdffff", "ffffffff:ffffffff:ffff", "27:758:3", "00000027:00000758", "00000027:00000758:0003:0001", "00000027:00000758:00030",
	"0000002a0000abcdfff", "0x0000002a0000abcdffff00", "0x00000027:00000758:0003", "NULL", "", "0000002g:00000758:0003", 39]') WITH ORDINALITY a (lsn, n)
WHERE connector = 'sqlserver' ORDER BY n;
SELECT lsn, pg_temp.refused(block || jsonb_build_object('change_lsn', lsn))
FROM blocks, jsonb_array_elements('["00000000:00000000:000000000478cf3a", "0000000000000000000000000478cf3a", "00000000:0478cf3a:0000",
	"ffffffff:ffffffff:ffffffffffffffff", "00000000:00000000:000000000478cf", "x"]') WITH ORDINALITY a (lsn, n)
WHERE connector = 'db2' ORDER BY n;
SELECT rs_id, pg_temp.refused(block || jsonb_build_object('rs_id', rs_id))
FROM blocks, jsonb_array_elements('[" 0x00009a.0000d8b7.0010 ", "0x00009a.0000d8b7.0010", "0X9A.D8B7.10", "00009a.0000d8b7.0010", null, "", "  ",
	"0x00009a.0000d8b7", "0x00009a.0000d8b7.0010.0001", "0x00009a..0010", "0x.1.2", "a:b:c", "0x9a.0xd8b7.0x10", "123456789012345678.1.1", 5]')
	WITH ORDINALITY a (rs_id, n)
WHERE connector = 'oracle' ORDER BY n;

-- MongoDB: up to 3.3 ts_ms is the oplog's second; later versions put the wall clock there
SELECT fields, pg_temp.refused(pg_temp.with_fields(block, fields))
FROM blocks, jsonb_array_elements('[{"wallTime": null}, {"ts_ms": 1558965508000, "wallTime": 1558965508000},
	{"ts_ms": 1558965508000, "wallTime": 1558965508000, "version": "3.4.0.Final"}, {"ts_ms": 1558965508000, "wallTime": 1558965508000, "version": null},
	{"ts_ms": 1558965508000, "wallTime": 1558965508000, "version": "10.1"}, {"ts_ms": 1558965508000, "version": "3.6.1.Final"},
	{"ts_ms": 1558965508241, "version": "3.6.1.Final"}, {"ts_ms": 1558965508241, "version": "3.6.1.Final", "snapshot": "true"},
	{"ts_ms": 0, "ord": 0, "wallTime": null, "version": "3.6.1.Final", "snapshot": "true"},
	{"ord": -1}, {"ts_ms": -1000}]') WITH ORDINALITY a (fields, n)
WHERE connector = 'mongodb' ORDER BY n;

-- connectors whose block orders nothing, ones that are not known, and what is no source block
SELECT source, pg_temp.refused(source)
FROM jsonb_array_elements('[{"connector": "vitess", "vgtid": "[]"}, {"connector": "cassandra"}, {"connector": "spanner"}, {"connector": "cockroachdb"},
	{"connector": "nope", "lsn": 5}, {"connector": "PostgreSQL", "lsn": 5}, {"connector": 5}, {"connector": null}, {}, {"lsn": 5},
	{"op": "c", "source": {"connector": "postgresql", "lsn": 5}}, [1], "text", 5, true]') WITH ORDINALITY a (source, n)
ORDER BY n;
SELECT pg_temp.refused(jsonb_build_object('connector', repeat('ä', 120)));

-- order is kept: random coordinates, compared as rows of numbers
SELECT setseed(0.6);
CREATE TEMP TABLE coordinates AS
SELECT n, a, b, c, ARRAY[a, b, c] AS numbers,
	jsonb_build_object('connector', 'mysql', 'file', 'bin.' || lpad(a::text, 7 + n % 5, '0'), 'pos', b, 'row', c) AS mysql,
	jsonb_build_object('connector', 'oracle', 'scn', a::text, 'rs_id', format(' 0x%s.%s.%s ', lpad(to_hex(b::bigint), 6, '0'), '00000001', '0010'), 'ssn', c) AS oracle,
	jsonb_build_object('connector', 'mongodb', 'ts_ms', a * 1000, 'ord', b) AS mongodb,
	jsonb_build_object('connector', 'postgresql', 'lsn', a * 4294967296 + b) AS postgresql,
	decode(lpad(to_hex(a::bigint), 8, '0') || lpad(to_hex(b::bigint), 8, '0') || lpad(to_hex(c::bigint), 4, '0'), 'hex') AS lsn
FROM (SELECT n, (999990 + floor(random() * 20))::numeric AS a,
		floor(random() * (10 ^ (n % 8)))::numeric AS b, floor(random() * 12)::numeric AS c
	FROM generate_series(1, 300) n) v;
SELECT count(*) AS pairs,
	count(*) FILTER (WHERE (cdc_position_from_debezium(x.mysql) < cdc_position_from_debezium(y.mysql))
		<> ((x.a, x.b, x.c) < (y.a, y.b, y.c))) AS mysql,
	count(*) FILTER (WHERE (cdc_position_from_debezium(x.oracle) < cdc_position_from_debezium(y.oracle))
		<> ((x.a, x.b, x.c) < (y.a, y.b, y.c))) AS oracle,
	count(*) FILTER (WHERE (cdc_position_from_debezium(x.mongodb) < cdc_position_from_debezium(y.mongodb))
		<> ((x.a, x.b) < (y.a, y.b))) AS mongodb,
	count(*) FILTER (WHERE (cdc_position_from_debezium(x.postgresql) < cdc_position_from_debezium(y.postgresql))
		<> ((x.a, x.b) < (y.a, y.b))) AS postgresql,
	count(*) FILTER (WHERE (cdc_position_from_debezium(x.mysql) = cdc_position_from_debezium(y.mysql))
		<> (x.numbers = y.numbers)) AS equal
FROM coordinates x, coordinates y;
-- SQL Server and Db2: as the bytes of the LSN do
CREATE TEMP TABLE lsns AS
SELECT jsonb_build_object('connector', 'sqlserver', 'commit_lsn', '0x' || encode(x.lsn, 'hex'), 'change_lsn',
		regexp_replace(encode(y.lsn, 'hex'), '(.{8})(.{8})', '\1:\2:'), 'event_serial_no', x.c) AS sqlserver,
	jsonb_build_object('connector', 'db2', 'commit_lsn', regexp_replace(encode('\x000000000000' || x.lsn, 'hex'), '(.{8})(.{8})', '\1:\2:'),
		'change_lsn', regexp_replace(encode(y.lsn, 'hex'), '(.{8})(.{8})', '\1:\2:')) AS db2,
	x.lsn AS commit, y.lsn AS change, x.c AS serial
FROM coordinates x JOIN coordinates y ON y.n = x.n % 17 + 1;
SELECT count(*) AS pairs,
	count(*) FILTER (WHERE (cdc_position_from_debezium(x.sqlserver) < cdc_position_from_debezium(y.sqlserver))
		<> ((x.commit, x.change, x.serial) < (y.commit, y.change, y.serial))) AS sqlserver,
	count(*) FILTER (WHERE (cdc_position_from_debezium(x.db2) < cdc_position_from_debezium(y.db2))
		<> ((x.commit, x.change) < (y.commit, y.change))) AS db2
FROM lsns x, lsns y;

-- through cdc_apply: envelopes in any order, one position of them all
CREATE TABLE debezium_customer (id int PRIMARY KEY, name text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE debezium_landing (payload jsonb);
INSERT INTO debezium_landing
SELECT jsonb_build_object('op', op, 'after', CASE WHEN op <> 'd' THEN jsonb_build_object('id', 1, 'name', name) END,
	'before', CASE WHEN op = 'd' THEN jsonb_build_object('id', 1) END,
	'source', jsonb_build_object('connector', 'mysql', 'snapshot', op = 'r', 'file', file, 'pos', pos, 'row', 0))
FROM (VALUES ('u', 'last', 'bin.1000000', 4), ('r', 'first', 'bin.999998', 154), ('d', NULL, 'bin.999999', 900), ('c', 'again', 'bin.999999', 1000)) v(op, name, file, pos);
CREATE VIEW debezium_changes AS
SELECT payload->>'op' AS op, coalesce(payload->'after'->>'id', payload->'before'->>'id')::int AS id, payload->'after'->>'name' AS name,
	cdc_position_from_debezium(payload->'source') AS source_position
FROM debezium_landing;
SELECT events, inserted, superseded FROM cdc_apply('debezium_customer', 'debezium_changes');
SELECT * FROM debezium_customer;
DROP VIEW debezium_changes;
DROP TABLE debezium_landing, debezium_customer;

-- immutable, strict, parallel safe: usable in indexes and generated columns
SELECT provolatile, proisstrict, proparallel, obj_description(oid, 'pg_proc') IS NOT NULL AS commented
FROM pg_proc WHERE proname = 'cdc_position_from_debezium';
