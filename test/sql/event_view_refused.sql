-- Event views: what is refused, and what the errors say.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA event_view_refused;
SET search_path = event_view_refused, public;
SET client_min_messages = warning;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
CREATE TABLE target (id int PRIMARY KEY, n numeric(5, 2), free numeric, small smallint, flag boolean, d date, ts timestamp, tz timestamptz, tm time, iv interval, b bytea, bi bit(3), j jsonb, u uuid, a int[], aa text[], vc varchar(3), p point, f float8);
CREATE TABLE landing (id int GENERATED ALWAYS AS IDENTITY, payload jsonb, as_text text, bytes bytea, commit_lsn timestamptz);
CREATE FUNCTION view_refused(what text, args text, want_state text, names text DEFAULT NULL, needs text DEFAULT '', show boolean DEFAULT true) RETURNS text LANGUAGE sql AS $$
	SELECT refused(what, 'SELECT cdc_event_view(' || args || ')', want_state, names, needs, show)
$$;

--
-- Making a view
--
SELECT view_refused('a format', $$'v', 'target', 'landing', 'payload', 'maxwell'$$, '22023', 'maxwell', 'd');
SELECT view_refused('decimals', $$'v', 'target', 'landing', 'payload', 'debezium', decimals => 'exact'$$, '22023', 'exact', 'd');
SELECT view_refused('times', $$'v', 'target', 'landing', 'payload', 'debezium', times => 'micros'$$, '22023', 'micros', 'd');
SELECT view_refused('binaries', $$'v', 'target', 'landing', 'payload', 'debezium', binaries => 'bytes'$$, '22023', 'bytes', 'd');
SELECT view_refused('no ' || n, args, '22023', n) FROM (VALUES
	('view_name', $$NULL, 'target', 'landing', 'payload', 'debezium'$$), ('target', $$'v', NULL, 'landing', 'payload', 'debezium'$$), ('raw', $$'v', 'target', NULL, 'payload', 'debezium'$$),
	('payload_column', $$'v', 'target', 'landing', NULL, 'debezium'$$), ('format', $$'v', 'target', 'landing', 'payload', NULL$$)) a(n, args);
SELECT view_refused('no such payload', $$'v', 'target', 'landing', 'Payload', 'debezium'$$, '42703', 'Payload');
SELECT view_refused('a payload of bytes', $$'v', 'target', 'landing', 'bytes', 'debezium'$$, '42804', 'bytea', 'dh');
SELECT view_refused('no such commit LSN', $$'v', 'target', 'landing', 'payload', 'wal2json', commit_lsn_column => 'lsn'$$, '42703', 'lsn');
SELECT view_refused('a clock as commit LSN', $$'v', 'target', 'landing', 'payload', 'wal2json', commit_lsn_column => 'commit_lsn'$$, '42804', 'timestamp', 'd');
SELECT view_refused('a commit LSN of Debezium', $$'v', 'target', 'landing', 'payload', 'debezium', commit_lsn_column => 'commit_lsn'$$, '22023', 'commit_lsn_column', 'd');
SELECT view_refused('source_table ' || t, format($$'v', 'target', 'landing', 'payload', 'debezium', source_table => %L$$, t), '22023', NULL, 'h', t = '') FROM unnest('{"",.,a.,.b,a.b.c.d,"\"a"}'::text[]) t;
SELECT view_refused('another database', $$'elsewhere.public.v', 'target', 'landing', 'payload', 'debezium'$$, '0A000', 'elsewhere', 'h');
SELECT view_refused('no such schema', $$'nowhere.v', 'target', 'landing', 'payload', 'debezium'$$, '3F000', 'nowhere', show => false);
SELECT view_refused('no such table', $$'v', 99, 'landing', 'payload', 'debezium'$$, '42P01', '99', 'h', false);
CREATE TABLE keyless (id int, v text);
SELECT view_refused('a target without a key', $$'v', 'keyless', 'landing', 'payload', 'debezium'$$, '55000', 'keyless', 'dh', true);
CREATE VIEW no_table AS SELECT 1 AS id;
SELECT view_refused('a target that is a view', $$'v', 'no_table', 'landing', 'payload', 'debezium'$$, '42809', 'no_table', 'd', false);
CREATE SEQUENCE counter;
SELECT view_refused('a landing that is none', $$'v', 'target', 'counter', 'payload', 'debezium'$$, '42809', 'counter');
CREATE TABLE named (id int PRIMARY KEY, op text, source_position text);
SELECT view_refused('a column named like the op', $$'v', 'named', 'landing', 'payload', 'debezium'$$, '42701', 'op', 'dh');
SELECT view_refused('a column named like the position', $$'v', 'named', 'landing', 'payload', 'debezium', op_name => '__op'$$, '42701', 'source_position', 'dh', false);
SELECT view_refused('op and position of one name', $$'v', 'target', 'landing', 'payload', 'debezium', op_name => 'x', position_name => 'x'$$, '42701', 'x', '', false);
CREATE TABLE long (a23456789012345678901234567890123456789012345678901234567890 int PRIMARY KEY);
SELECT view_refused('no room for __old_', $$'v', 'long', 'landing', 'payload', 'debezium'$$, '22023', '__old_a234');
SELECT view_refused('the name of a table', $$'landing', 'target', 'landing', 'payload', 'debezium'$$, '42P07', 'landing', 'dh');
CREATE TABLE other_landing (payload jsonb);
SELECT cdc_event_view('taken', 'target', 'other_landing', 'payload', 'debezium');
SELECT view_refused('a view over another landing', $$'taken', 'target', 'landing', 'payload', 'debezium'$$, '42P07', 'taken', 'dh');
SELECT view_refused('of another target', $$'taken', 'named', 'other_landing', 'payload', 'debezium', op_name => 'what', position_name => 'at'$$, '42P07', 'taken', 'dh');
CREATE TABLE retyped AS TABLE target;
ALTER TABLE retyped ALTER n TYPE numeric(6, 2), ADD PRIMARY KEY (id);
SELECT view_refused('of other types', $$'taken', 'retyped', 'other_landing', 'payload', 'debezium'$$, '42P07', 'numeric(6,2)', 'dh');
BEGIN READ ONLY;
SELECT cdc_event_view('v', 'target', 'landing', 'payload', 'debezium');
ROLLBACK;

--
-- Reading one: the error names event, column and value
--
SELECT cdc_event_view('d', 'target', 'landing', 'payload', 'debezium');
SELECT cdc_event_view('d_text', 'target', 'landing', 'as_text', 'debezium');
SELECT cdc_event_view('d_iso', 'target', 'landing', 'payload', 'debezium', times => 'iso', binaries => 'hex', decimals => 'string');
SELECT cdc_event_view('f', 'target', 'landing', 'payload', 'debezium-flat');
SELECT cdc_event_view('f_table', 'target', 'landing', 'payload', 'debezium-flat', source_table => 'target');
SELECT cdc_event_view('w', 'target', 'landing', 'payload', 'wal2json');
CREATE FUNCTION event_refused(what text, view text, event jsonb, want_state text, names text DEFAULT NULL, needs text DEFAULT 'd', show boolean DEFAULT true) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	INSERT INTO landing (payload, as_text) VALUES (event, event#>>'{}');
	result := refused(what, 'SELECT * FROM ' || view, want_state, names, needs, show);
	TRUNCATE landing;
	RETURN result;
END $$;
CREATE FUNCTION value_refused(what text, view text, col text, value jsonb, want_state text, show boolean DEFAULT true) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	event jsonb := jsonb_build_object('op', 'c', 'after', jsonb_build_object('id', 1, col, value), 'source', '{"connector": "postgresql", "lsn": 24023128, "schema": "public", "table": "target"}'::jsonb);
	result text := event_refused(what, view, event, want_state, format('Column "%s", value %s, event: op c, table public.target, lsn 24023128, row {', col, value), 'd', show);
BEGIN
	RETURN result;
END $$;
SELECT value_refused('no integer', 'd', 'small', '1.5', '22P02', false);
SELECT value_refused('too large', 'd', 'small', '40000', '22003', false);
SELECT value_refused('not base64', 'd', 'n', '"12.34"', '22P02');
SELECT value_refused('does not fit', 'd', 'n', '"D0JA"', '22003', false);
SELECT value_refused('of unknown scale', 'd', 'free', '"MDk="', '22P02');
SELECT value_refused('no scale and value', 'd', 'free', '{"unscaled": "MDk="}', '22P02');
SELECT value_refused('of no possible scale', 'd', 'free', '{"scale": 40000, "value": "MDk="}', '22003');
SELECT value_refused('base64 as a decimal text', 'd_iso', 'n', '"MDk="', '22P02', false);
SELECT value_refused('no boolean', 'd', 'flag', '2', '22P02', false);
SELECT value_refused('out of range', 'd', 'd', '2147483647', '22008');
SELECT value_refused('out of range', 'd', 'ts', '-9223372036854775808', '22008', false);
SELECT value_refused('no unit', 'd_iso', 'ts', '1717304405250000', '22007');
SELECT value_refused('no unit', 'd', 'd', '1.5', '22007', false);
SELECT value_refused('no such day', 'd', 'd', '"2024-02-30"', '22008', false);
SELECT value_refused('no time', 'd', 'tz', '"soon"', '22007', false);
SELECT value_refused('more than a day', 'd', 'tm', '86400000001', '22008', false);
SELECT value_refused('no bytes', 'd', 'b', '"%"', '22P02');
SELECT value_refused('no bytes', 'd', 'b', '17', '22P02');
SELECT value_refused('no hex', 'd_iso', 'b', '"AP8q"', '22023', false);
SELECT value_refused('too many bits', 'd', 'bi', '"/w=="', '22026', false);
SELECT value_refused('no JSON', 'd', 'j', '"{"', '22P02', false);
SELECT value_refused('no uuid', 'd', 'u', '"b68a35a7"', '22P02', false);
SELECT value_refused('no array', 'd', 'a', '7', '22P02', false);
SELECT value_refused('an element', 'd', 'a', '[1, "x"]', '22P02', false);
SELECT value_refused('a mixed array', 'd', 'aa', '[["x"], "y"]', '2202E');
SELECT value_refused('too long', 'd', 'vc', '"abcd"', '22001', false);
SELECT value_refused('no point', 'd', 'p', '{"x": 1}', '22P02', false);
SELECT value_refused('no number', 'd', 'f', '"much"', '22P02', false);
SELECT event_refused('a long value is clipped', 'd', jsonb_build_object('op', 'c', 'after', jsonb_build_object('id', 1, 'u', repeat('x', 200))), '22P02', format('Column "u", value "%s...", event', repeat('x', 100)), 'd', false);
-- schemas that say nothing, or nonsense, of a field
SELECT event_refused('a schema of nulls', 'd', '{"schema": {"type": "struct", "fields": [null, {"field": null, "fields": 1}, {"field": "after", "fields": [7, {"field": 1, "type": null}, {"field": "n", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": null}, "items": []}]}]}, "payload": {"op": "c", "after": {"id": 1, "n": "%"}}}', '22P02', 'Column "n", value "%"', 'd', false);
-- in the text of a payload, and in a key
INSERT INTO landing (as_text) VALUES ('{"op": "c", "after": {"id": 1, "n": "ZA==}');
SELECT refused('no JSON', 'SELECT id FROM d_text', '22P02', 'The payload of a raw event: {"op": "c", "after": {"id": 1, "n": "ZA==}', 'd', false);
TRUNCATE landing;
SELECT event_refused('no JSON object', 'd', '[1]', '22023', '[1]');
SELECT event_refused('a text', 'd', '"c"', '22023', '"c"', 'd', false);
SELECT event_refused('no envelope', 'd', '{"id": 1, "v": "x"}', '22023', '{"v": "x", "id": 1}');
SELECT event_refused('a document in a text', 'd', '{"op": "c", "after": "{\"_id\": 1}"}', '22023', 'after');
SELECT event_refused('no new row', 'd', '{"op": "c", "after": null, "source": {}}', '22023', '"after"');
SELECT event_refused('no old row', 'd', '{"op": "d", "before": null, "source": {}}', '22023', '"before"', 'd', false);
SELECT event_refused('no key', 'd', '{"op": "c", "after": {"Id": 1}, "source": {"table": "elsewhere"}}', '23502', 'elsewhere', 'dh');
SELECT event_refused('no source', 'd', '{"op": "c", "after": {"id": 1}}', '22023', 'row {"id": 1}', 'dh');
SELECT event_refused('no position', 'd', '{"op": "c", "after": {"id": 1}, "source": {"connector": "postgresql", "lsn": "far"}}', '22P02', 'The event: op c, lsn far, row {"id": 1}.', 'd', false);
SELECT event_refused('no op', 'f', '{"id": 1, "__source_lsn": 5}', '22023', '{"id": 1, "__source_lsn": 5}', 'dh');
SELECT event_refused('no position', 'f', '{"id": 1, "__op": "c", "__source_file": "binlog.000001"}', '22023', 'op c, file binlog.000001', 'dh');
SELECT event_refused('no table', 'f_table', '{"id": 1, "__op": "c", "__source_lsn": 5}', '22023', 'lsn 5', 'dh');
SELECT event_refused('format version 1', 'w', '{"change": []}', '22023', NULL, 'dh');
SELECT event_refused('no change', 'w', '{"id": 1}', '22023', '{"id": 1}');
SELECT event_refused('no columns', 'w', '{"action": "I", "lsn": "0/1", "table": "target"}', '22023', '"columns"');
SELECT event_refused('no identity', 'w', '{"action": "D", "lsn": "0/1", "table": "target"}', '22023', '"identity"', 'd', false);
SELECT event_refused('a column without a name', 'w', '{"action": "I", "columns": [{"value": 1}]}', '22023', '"name"');
SELECT event_refused('no lsn', 'w', '{"action": "I", "table": "target", "columns": [{"name": "id", "value": 1}]}', '22023', 'op I, table target, id 1', 'dh');
SELECT event_refused('a bad lsn', 'w', '{"action": "I", "lsn": "1", "columns": [{"name": "id", "value": 1}]}', '22P02', '"1"', '', false);
SELECT event_refused('a value', 'w', '{"action": "I", "lsn": "0/1", "table": "target", "columns": [{"name": "id", "value": 1}, {"name": "n", "value": "x"}]}', '22P02', 'Column "n", value "x", event: op I, table target, lsn 0/1, id 1, n x.', 'd', false);
SELECT event_refused('no key', 'w', '{"action": "D", "lsn": "0/1", "table": "target", "identity": [{"name": "email", "value": "x"}]}', '23502', 'email x', 'dh', false);

SELECT format($$CREATE TYPE %1$s; CREATE FUNCTION %1$s_in(cstring) RETURNS %1$s LANGUAGE internal IMMUTABLE STRICT AS 'textin'; CREATE FUNCTION %1$s_out(%1$s) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout'; CREATE TYPE %1$s (INPUT = %1$s_in, OUTPUT = %1$s_out, LIKE = text)$$, t) FROM unnest('{hstore,geometry}'::text[]) t \gexec
CREATE TABLE by_name (id int PRIMARY KEY, h hstore, g geometry);
SELECT cdc_event_view('n', 'by_name', 'landing', 'payload', 'debezium');
SELECT value_refused('no map', 'n', 'h', '"[1]"', '22P02');
SELECT value_refused('no wkb', 'n', 'g', '{"wkb": "%"}', '22P02');
-- a domain's own words are kept, and what is no fault of the value is not dressed up
CREATE DOMAIN short AS text CONSTRAINT is_short CHECK (length(value) < 3);
CREATE FUNCTION slow(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE object_not_in_prerequisite_state USING MESSAGE = 'not now'; END $$;
CREATE DOMAIN busy AS text CHECK (slow(value));
CREATE TABLE with_domain (id int PRIMARY KEY, s short, c busy, many short[]);
SELECT cdc_event_view('dd', 'with_domain', 'landing', 'payload', 'debezium');
SELECT event_refused('a domain', 'dd', '{"op": "c", "after": {"id": 1, "s": "long"}, "source": {"connector": "postgresql", "lsn": 1}}', '23514', 'Column "s", value "long"', 'd', false);
SELECT value_refused('an element of a domain', 'dd', 'many', '["ab", "long"]', '23514', false);
SELECT value_refused('a domain over none', 'dd', 'many', '[["ab"], ["long"]]', '23514', false);
SELECT event_refused('another error', 'dd', '{"op": "c", "after": {"id": 1, "c": "long"}, "source": {"connector": "postgresql", "lsn": 1}}', '55000', 'not now', '', true);
-- the error of an apply says both: which event, and from which staging
SELECT cdc_attach('target', 'd', tombstones => 'table');
INSERT INTO landing (payload) VALUES ('{"op": "c", "after": {"id": 1, "n": "x"}, "source": {"connector": "postgresql", "lsn": 16, "table": "target"}}');
SELECT refused('an apply', 'SELECT * FROM cdc_apply(''target'', ''d'', consume => ''delete'')', '22P02', 'Column "n", value "x"', 'd', false);
SELECT expect('and nothing is consumed', count(*)::text, '1') FROM landing;
TRUNCATE landing;

--
-- The functions that views call, called by hand
--
SELECT refused('a payload of bytes', $$SELECT cdc_event_view_op('\x00'::bytea, 'debezium')$$, '42804', 'bytea', 'd');
SELECT refused('no format', $$SELECT cdc_event_view_op('{}'::jsonb, NULL)$$, '22023', NULL, 'd', false);
SELECT refused('no column', $$SELECT cdc_event_view_value('{}'::jsonb, 'debezium', 'row', NULL, -1, NULL::int)$$, '22023', NULL, 'd');
SELECT expect('NULL lists', concat_ws(' ', cdc_event_view_is_of('{"op": "t"}'::jsonb, 'debezium', NULL), cdc_event_view_unchanged('{"op": "c", "after": {}}'::jsonb, 'debezium', '{}', '{}') IS NULL), 'f t');
SELECT expect('only the format', rows_of($$SELECT cdc_event_view_value('{"op": "c", "after": {"id": "AP8="}}'::text, 'debezium', 'row', 'id', -1, NULL::bytea)$$), '("\\x00ff")');
DROP SCHEMA event_view_refused CASCADE;
