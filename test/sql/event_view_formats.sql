-- Event views: the formats, what is a change and what is not, one table out of
-- many, positions.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA event_view_formats;
SET search_path = event_view_formats, public;
SET client_min_messages = warning;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/event_view.sql
\set ECHO all
SET datestyle = 'ISO, MDY';
\pset format unaligned
\pset tuples_only on
CREATE TABLE target (id int PRIMARY KEY, v text, n numeric(8, 2));
CREATE TABLE landing (payload jsonb, commit_lsn pg_lsn, commit_text text, commit_number numeric);

--
-- debezium: what is no change of a row
--
SELECT cdc_event_view('events', 'target', 'landing', 'payload', 'debezium');
INSERT INTO landing VALUES (NULL), ('null'), ('{"schema": {"type": "string"}, "payload": null}'),
	('{"ts_ms": 1}'), ('{"ts_ms": 1, "ts_us": 1000, "ts_ns": 1000000}'),
	('{"status": "BEGIN", "id": "571:24023128", "event_count": null, "data_collections": null, "ts_ms": 1}'),
	('{"source": {"connector": "mysql"}, "databaseName": "shop", "schemaName": null, "ddl": "ALTER ..", "tableChanges": [], "ts_ms": 1}'),
	('{"op": "m", "ts_ms": 1, "source": {"connector": "postgresql", "lsn": 5, "table": ""}, "message": {"prefix": "p", "content": "Yg=="}}'),
	('{"op": "t", "before": null, "after": null, "source": {"connector": "postgresql", "lsn": 300, "schema": "public", "table": "target"}}');
SELECT expect('op and position', rows_of('SELECT op, source_position, id, v, n, __old_id, __unchanged FROM events'),
	'(,,,,,,) (,,,,,,) (,,,,,,) (m,,,,,,) (m,,,,,,) (m,,,,,,) (m,,,,,,) (m,,,,,,) (t,0/12C,,,,,)');

-- changes: a delete has its key in before, an update may have an old key there
TRUNCATE landing;
INSERT INTO landing VALUES (envelope('r', NULL, '{"id": 1, "v": "a", "n": "ZA=="}', 100)),
	(envelope('c', NULL, '{"id": 2, "v": null, "n": null}', 101)),
	(envelope('u', NULL, '{"id": 2, "v": "b", "n": "ZA=="}', 102)),
	(envelope('u', '{"id": 2, "v": "b", "n": "ZA=="}', '{"id": 3, "v": "b", "n": "ZA=="}', 103)),
	(envelope('u', '{"v": "b"}', '{"id": 3, "v": "c"}', 104)),
	(envelope('u', '{"id": null, "v": "b"}', '{"id": 3, "v": "d", "n": 1.5}', 105)),
	(envelope('d', '{"id": 3, "v": null}', NULL, 106));
SELECT expect('changes', rows_of('SELECT op, source_position, id, v, n, __old_id, __unchanged FROM events'),
	'(c,0/65,2,,,,) (d,0/6A,3,,,,) (r,0/64,1,a,1.00,,) (u,0/66,2,b,1.00,,) (u,0/67,3,b,1.00,2,) (u,0/68,3,c,,,{n}) (u,0/69,3,d,1.50,,)');
-- the same position as the function gives
SELECT expect('positions', string_agg(source_position::text, ' ' ORDER BY source_position),
	(SELECT string_agg(p::text, ' ' ORDER BY p) FROM landing, cdc_position_from_debezium(payload->'source') p)) FROM events;
-- of other connectors
TRUNCATE landing;
INSERT INTO landing VALUES ('{"op": "c", "after": {"id": 1, "v": "x", "n": null}, "source": {"connector": "mysql", "db": "shop", "table": "target", "file": "binlog.000047", "pos": 10840633, "row": 2}}'),
	('{"op": "c", "after": {"id": 1, "v": "x", "n": null}, "source": {"connector": "sqlserver", "commit_lsn": "00000027:00000758:0005", "change_lsn": "00000027:00000758:0003", "event_serial_no": 1}}'),
	('{"op": "c", "after": {"id": 1, "v": "x", "n": null}, "source": {"connector": "oracle", "scn": "2868546"}}');
SELECT expect('positions', string_agg(source_position::text, ' ' ORDER BY source_position),
	(SELECT string_agg(p::text, ' ' ORDER BY p) FROM landing, cdc_position_from_debezium(payload->'source') p)) FROM events;

--
-- One table of a shared landing
--
CREATE FUNCTION seen(source_table text, format text DEFAULT 'debezium') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM cdc_event_view('one', 'target', 'landing', 'payload', format, source_table => source_table);
	RETURN rows_of('SELECT op, id FROM one');
END $$;
TRUNCATE landing;
CREATE FUNCTION of_table(op text, id int, db text, schema text, "table" text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('op', op, 'after', jsonb_build_object('id', id, 'v', 'x', 'n', NULL), 'source', jsonb_build_object('connector', 'postgresql', 'lsn', 1, 'db', db, 'schema', schema, 'table', "table"))
$$;
INSERT INTO landing VALUES (of_table('c', 1, 'shop', 'public', 'target')), (of_table('c', 2, 'shop', 'other', 'target')), (of_table('c', 3, 'shop', NULL, 'target')),
	(of_table('c', 4, 'shop', 'public', 'Target')), (of_table('c', 5, 'bank', 'public', 'target')), (of_table('c', 6, 'shop', 'a.b', 'c"d')), (of_table('t', 7, 'shop', 'public', 'target')),
	(NULL), ('{"ts_ms": 1}'), (of_table('m', 8, NULL, '', ''));
-- what is of another table need not have the target's columns
INSERT INTO landing VALUES ('{"op": "c", "after": {"other_id": "not a number"}, "source": {"connector": "postgresql", "lsn": 1, "schema": "public", "table": "elsewhere"}}');
SELECT expect('by table', seen('target'), '(c,1) (c,2) (c,3) (c,5) (t,)');
SELECT expect('by schema and table', seen('public.target'), '(c,1) (c,5) (t,)');
SELECT expect('by database, where there is no schema', seen('shop.target'), '(c,3)');
SELECT expect('by all three', seen('shop.public.target'), '(c,1) (t,)');
SELECT expect('spelled as the source does', seen('public.Target'), '(c,4)');
SELECT expect('quoted', seen('"a.b"."c""d"'), '(c,6)');
SELECT expect('none', seen('public.nothing'), 'none');
-- a condition on a column does not decode the events of other tables
SELECT seen('public.target');
SELECT expect('conditions', rows_of('SELECT id FROM one WHERE id > 1 AND v = ''x'''), '(5)');

--
-- debezium-flat
--
SELECT cdc_event_view('flat', 'target', 'landing', 'payload', 'debezium-flat', decimals => 'string');
TRUNCATE landing;
INSERT INTO landing VALUES (NULL), ('null'), ('{"ts_ms": 1}'),
	('{"id": 1, "v": "a", "n": "1.00", "__deleted": "false", "__op": "r", "__source_lsn": 100}'),
	('{"id": 1, "v": "b", "n": "1.00", "__deleted": "false", "__op": "u", "__lsn": 101, "__source_snapshot": "false"}'),
	('{"id": 1, "v": "__debezium_unavailable_value", "n": "2.00", "__deleted": "false", "__op": "u", "__source_lsn": "102", "__source_connector": "postgresql"}'),
	('{"id": 1, "v": null, "n": null, "__deleted": "true", "__op": "d", "__source_lsn": 103}'),
	('{"id": 2, "v": null, "n": null, "__deleted": "true", "__source_lsn": 104}'),
	('{"id": 3, "v": "x", "n": "1", "__op": "c", "__source_file": "binlog.000047", "__source_pos": 10840633, "__source_row": 2}'),
	('{"id": 4, "v": "x", "n": "1", "__op": "c", "__source_commit_lsn": "00000027:00000758:0005", "__source_change_lsn": "00000027:00000758:0003", "__source_event_serial_no": 1}'),
	('{"id": 5, "v": "x", "n": "1", "__op": "c", "__source_scn": "2868546", "__scn": "2868546"}'),
	('{"schema": {"type": "struct", "fields": [{"field": "id", "type": "int32"}, {"field": "n", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}]}, "payload": {"id": 6, "v": "x", "n": "ZA==", "__op": "c", "__source_lsn": 105}}');
SELECT expect('flat', rows_of('SELECT op, source_position, id, v, n, __old_id, __unchanged FROM flat'),
	'(,,,,,,) (,,,,,,) (c,0/69,6,x,1.00,,) (c,2868546,5,x,1.00,,) (c,39:1880:5:39:1880:3:1,4,x,1.00,,) (c,47:10840633:2,3,x,1.00,,) (d,0/67,1,,,,) (d,0/68,2,,,,) (m,,,,,,) (r,0/64,1,a,1.00,,) (u,0/65,1,b,1.00,,) (u,0/66,1,,2.00,,{v})');
TRUNCATE landing;
INSERT INTO landing VALUES ('{"id": 1, "v": "a", "n": "1", "__op": "c", "__source_lsn": 1, "__source_schema": "public", "__source_table": "target"}'),
	('{"id": 2, "v": "a", "n": "1", "__op": "c", "__lsn": 1, "__db": "shop", "__table": "target"}'), ('{"id": 3, "v": "a", "n": "1", "__op": "c", "__lsn": 1, "__table": "other"}'), (NULL);
SELECT expect('by table', seen('target', 'debezium-flat'), '(c,1) (c,2)');
SELECT expect('by schema', seen('public.target', 'debezium-flat'), '(c,1)');
SELECT expect('by database', seen('shop.target', 'debezium-flat'), '(c,2)');

--
-- wal2json
--
SELECT cdc_event_view('changes', 'target', 'landing', 'payload', 'wal2json');
SELECT cdc_event_view('committed', 'target', 'landing', 'payload', 'wal2json', commit_lsn_column => 'commit_lsn');
SELECT cdc_event_view('committed_text', 'target', 'landing', 'payload', 'wal2json', commit_lsn_column => 'commit_text');
SELECT cdc_event_view('committed_number', 'target', 'landing', 'payload', 'wal2json', commit_lsn_column => 'commit_number');
TRUNCATE landing;
INSERT INTO landing SELECT p, c, c, c - '0/0' FROM (VALUES
	('{"action": "B", "lsn": "0/200"}'::jsonb, '0/200'::pg_lsn),
	('{"action": "I", "lsn": "0/100", "schema": "public", "table": "target", "columns": [{"name": "id", "type": "integer", "value": 1}, {"name": "v", "type": "text", "value": "a"}, {"name": "n", "type": "numeric(8,2)", "value": 1.00}]}', '0/200'),
	('{"action": "U", "lsn": "0/110", "schema": "public", "table": "target", "columns": [{"name": "id", "type": "integer", "value": 2}, {"name": "n", "type": "numeric(8,2)", "value": null}], "identity": [{"name": "id", "type": "integer", "value": 1}]}', '0/200'),
	-- the old row logged whole: what is missing in the new one is as it was
	('{"action": "U", "lsn": "0/120", "schema": "public", "table": "target", "columns": [{"name": "id", "type": "integer", "value": 2}, {"name": "n", "type": "numeric(8,2)", "value": 2}], "identity": [{"name": "id", "type": "integer", "value": 2}, {"name": "v", "type": "text", "value": "as it was"}]}', '0/200'),
	('{"action": "D", "lsn": "0/130", "schema": "public", "table": "target", "identity": [{"name": "id", "type": "integer", "value": 2}]}', '0/200'),
	('{"action": "T", "lsn": "0/140", "schema": "public", "table": "target"}', '0/200'),
	('{"action": "C", "lsn": "0/200"}', '0/200'),
	('{"action": "M", "lsn": "0/300", "transactional": false, "prefix": "p", "content": "c"}', NULL)) l(p, c);
SELECT expect('changes', rows_of('SELECT op, source_position, id, v, n, __old_id, __unchanged FROM changes'),
	'(B,,,,,,) (C,,,,,,) (D,0/130,2,,,,) (I,0/100,1,a,1.00,,) (M,,,,,,) (T,0/140,,,,,) (U,0/110,2,,,1,{v}) (U,0/120,2,"as it was",2.00,2,)');
SELECT expect('with the commit', rows_of('SELECT op, source_position FROM committed'), '(B,) (C,) (D,0/200:304) (I,0/200:256) (M,) (T,0/200:320) (U,0/200:272) (U,0/200:288)');
SELECT expect('the commit as ' || k, rows_of('SELECT op, source_position FROM ' || k), rows_of('SELECT op, source_position FROM committed')) FROM unnest('{committed_text,committed_number}'::text[]) k;
SELECT expect('by table', seen('public.target', 'wal2json'), '(D,2) (I,1) (T,) (U,2) (U,2)');
SELECT expect('by another table', seen('target.public', 'wal2json'), 'none');
-- what the views say of their positions
SELECT obj_description(v::regclass) FROM unnest('{events,flat,changes,committed}'::text[]) v;

-- every type's output, taken back by its input
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN posint AS int CHECK (value > 0);
CREATE TABLE source (id int PRIMARY KEY, n numeric(9, 3), free numeric, d date, ts timestamp, ts3 timestamp(3), tz timestamptz, b bytea, a text[], ia int[], j jsonb, js json, m mood, ma mood[], p posint, u uuid, iv interval, tm time, ttz timetz, bi bit(5), vb varbit, vc varchar(5), c char(4), f float8, r real, ok boolean, x markup, ip inet, rg int4range, pt point, o oid, nm name, ba bytea[], l pg_lsn, "Odd ""name'" text);
INSERT INTO source VALUES (1, 12.3, 1e30, '0044-03-15 BC', '4000-01-01 BC', '1969-12-31 23:59:59.999', '-infinity', '\x00ff2a5c', '{x,NULL,"y\"z\\",""}', '{{1,2},{3,4}}', '{"k": "a\"b"}', '[1, 2]', 'ok', '{sad,ok}', 5, 'b68a35a7-17ad-35b3-af2a-ae46edb4545a', '1 year 2 mons 3 days 04:05:06.789', '24:00:00', '05:00:05.25+02', '10101', '0010', 'abc', 'ab', -1.7e308, 1.1, true, '<a>1</a>', '10.0.0.1/8', '[1,5)', '(1.5,2)', 4294967295, 'nm', '{"\\x00ff"}', '16/B374D848', E'tab\there\u00e9'),
	(2, -0.001, 0.10, 'infinity', 'infinity', '-infinity', '0001-01-01 00:00:00+00', '', '{}', '{}', 'null', 'null', NULL, '{}', NULL, NULL, '-1 sec', '00:00', '23:59:59.999999-15:59', '00000', '', '', '', 0, -0.5, false, NULL, '::1', 'empty', NULL, 0, '', '{""}', '0/0', '\xff');
INSERT INTO source (id) VALUES (3);
CREATE FUNCTION wal2json(r source) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	att record; result jsonb := '[]'; value text;
BEGIN
	FOR att IN SELECT attname, atttypid, format_type(atttypid, atttypmod) AS type FROM pg_attribute WHERE attrelid = 'source'::regclass AND attnum > 0 ORDER BY attnum LOOP
		EXECUTE format('SELECT ($1).%I::text', att.attname) USING r INTO value;
		result := result || jsonb_build_object('name', att.attname, 'type', att.type, 'value', CASE
			WHEN value IS NULL THEN 'null'::jsonb
			WHEN att.atttypid IN ('int4'::regtype, 'numeric'::regtype, 'float8'::regtype, 'float4'::regtype, 'bool'::regtype, 'oid'::regtype) THEN value::jsonb
			WHEN att.atttypid = 'bytea'::regtype THEN to_jsonb(substr(value, 3))
			ELSE to_jsonb(value) END);
	END LOOP;
	RETURN jsonb_build_object('action', 'I', 'lsn', '0/100', 'schema', 's', 'table', 'source', 'columns', result);
END $$;
CREATE TABLE typed (LIKE source INCLUDING ALL);
SELECT cdc_event_view('typed_changes', 'typed', 'landing', 'payload', 'wal2json');
TRUNCATE landing;
INSERT INTO landing SELECT wal2json(s) FROM source s;
SELECT expect('all types', rows_of((SELECT 'SELECT ' || string_agg(quote_ident(attname), ', ' ORDER BY attnum) || ' FROM typed_changes' FROM pg_attribute WHERE attrelid = 'source'::regclass AND attnum > 0)), rows_of('source'));
-- a text that is all hex digits is bytes only in a bytea
SELECT expect('bytes', rows_of('SELECT id, b, ba FROM typed_changes WHERE id = 1'), '(1,"\\x00ff2a5c","{""\\\\x00ff""}")');

-- with numeric-data-types-as-string
TRUNCATE landing;
INSERT INTO landing VALUES ('{"action": "I", "lsn": "0/100", "columns": [{"name": "id", "value": "7"}, {"name": "n", "value": "-1.5"}, {"name": "free", "value": "NaN"}, {"name": "f", "value": "-Infinity"}, {"name": "r", "value": "NaN"}, {"name": "o", "value": "1"}]}');
SELECT expect('numbers as texts', rows_of('SELECT id, n, free, f, r, o FROM typed_changes'), '(7,-1.500,NaN,-Infinity,NaN,1)');

-- payloads that are large: compressed and out of line
CREATE TABLE big_landing (id serial, payload jsonb, as_text text);
CREATE TABLE big (id int PRIMARY KEY, v text, w text, x text);
SELECT cdc_event_view('big_events', 'big', 'big_landing', 'payload', 'debezium');
SELECT cdc_event_view('big_text_events', 'big', 'big_landing', 'as_text', 'debezium');
ALTER TABLE big_landing ALTER payload SET STORAGE EXTERNAL;
INSERT INTO big_landing (payload) SELECT envelope('c', NULL, jsonb_build_object('id', i, 'v', repeat(i::text, 5000), 'w', md5(i::text), 'x', repeat('x', i)), i) FROM generate_series(1, 20) i;
UPDATE big_landing SET as_text = payload::text;
SELECT expect('out of line', count(*)::text, '20') FROM big_events WHERE v = repeat(id::text, 5000) AND w = md5(id::text) AND x = repeat('x', id) AND source_position = cdc_position_from_lsn('0/0'::pg_lsn + id);
SELECT expect('compressed', count(*)::text, '20') FROM big_text_events WHERE v = repeat(id::text, 5000) AND w = md5(id::text) AND x = repeat('x', id) AND source_position = cdc_position_from_lsn('0/0'::pg_lsn + id);
-- two views in one query, row by row
SELECT expect('two at a time', count(*)::text, '400') FROM big_events a, big_text_events b WHERE a.v = repeat(a.id::text, 5000) AND b.w = md5(b.id::text) AND (a.id <> b.id OR a.x = b.x);
DROP SCHEMA event_view_formats CASCADE;
