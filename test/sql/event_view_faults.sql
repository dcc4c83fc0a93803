-- Event views where they were found to fail: calls of their functions by hand,
-- events that are nearly right, columns that the source does not have.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA event_view_faults;
SET search_path = event_view_faults, public;
SET client_min_messages = warning;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/event_view.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

--
-- What views call can be called by everybody
--
SELECT refused('no list of columns', $$SELECT cdc_event_view_unchanged('{"op": "c", "after": {}}'::jsonb, 'debezium', NULL, NULL)$$, '22023', 'cdc_event_view', 'd');
SELECT refused('no list of types', $$SELECT cdc_event_view_unchanged('{"op": "c", "after": {}}'::jsonb, 'debezium', '{a}', NULL)$$, '22023', 'cdc_event_view', 'd', false);
SELECT refused('no modes', $$SELECT cdc_event_view_unchanged('{"op": "c", "after": {}}'::jsonb, NULL, '{a}', '{int}')$$, '22023', NULL, 'd', false);
SELECT refused('no such type', $$SELECT cdc_event_view_unchanged('{"op": "c", "after": {}}'::jsonb, 'debezium', '{a}', '{0}'::oid[]::regtype[])$$, '42704', '0');
SELECT refused('more bits than there are', $$SELECT cdc_event_view_value('{"op": "c", "after": {"a": "AQ=="}}'::jsonb, 'debezium', 'row', 'a', 2147483647, NULL::bit)$$, '22026', NULL, 'd', false);
SELECT expect('fewer types than columns', cdc_event_view_unchanged('{"op": "u", "after": {}}'::jsonb, 'debezium', '{a,b}', '{int}')::text, '{a}');

--
-- Schema blocks whose fields say nothing, or not what they should
--
CREATE TABLE plain (id int PRIMARY KEY, string text, n numeric(10, 2));
CREATE TABLE landing (payload text);
SELECT cdc_event_view('plain_events', 'plain', 'landing', 'payload', 'debezium');
INSERT INTO landing SELECT format('{"schema": {"type": "struct", "fields": [{"field": "after", "fields": [{"field": "id"}, %s]}]}, "payload": %s}', f, envelope('c', NULL, '{"id": 1, "string": "s", "n": "BNI="}', 16))
FROM unnest(ARRAY['{}', '{"name": 5}', '{"items": {}}', '{"field": "string", "items": {"items": {}}}', '{"field": "n", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}',
	'{"field": "n", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}']) f;
SELECT expect('each as it is said', string_agg(string, ''), 'ssssss') FROM plain_events;
SELECT expect('a decimal without a type', string_agg(DISTINCT n::text, ' '), '12.34') FROM plain_events;

--
-- Actions and moments that are none
--
TRUNCATE landing;
INSERT INTO landing VALUES ('{"action": "", "lsn": "0/10"}');
CREATE VIEW wal_plain AS SELECT payload FROM landing;
SELECT cdc_event_view('wal_events', 'plain', 'wal_plain', 'payload', 'wal2json');
SELECT expect('an action without a letter', op || '|' || coalesce(id::text, 'none'), '|none') FROM wal_events;
SELECT apply_refused('and what becomes of it', 'plain', 'wal_events', '', '22023', '""', 'd', false) FROM (SELECT cdc_attach('plain', 'wal_events')) a;
CREATE FUNCTION decoded(value text, modes text, type anyelement) RETURNS text LANGUAGE sql AS $$
	SELECT cdc_event_view_value(jsonb_build_object('op', 'c', 'after', jsonb_build_object('a', value::jsonb)), 'debezium ' || modes, 'row', 'a', -1, type)::text
$$;
SELECT refused('a zone of ' || z, format($$SELECT decoded('"2020-02-20T23:59:59%s"', 'string', NULL::timestamptz)$$, z), s, z, 'd', false)
FROM (VALUES ('-99:99:99', '22009'), ('+16:00', '22009'), ('+01:60', '22009')) z(z, s);
SELECT expect('the widest zones', decoded('"2020-02-20T00:00:00+15:59:59"', 'string', NULL::timestamptz) || ' ' || decoded('"2020-02-20T00:00:00-15:59:59"', 'string', NULL::timestamptz), '2020-02-19 08:00:01+00 2020-02-20 15:59:59+00');
SELECT refused('a quarter past 24', $$SELECT decoded('"2020-02-20T24:15:00Z"', 'string', NULL::timestamp)$$, '22008', '24:15', 'd', false);
SELECT expect('24:00 is the next day', decoded('"2020-02-20T24:00:00Z"', 'string', NULL::timestamp), '2020-02-21 00:00:00');
-- microseconds before any date
INSERT INTO landing VALUES ('{"schema": {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": [{"field": "d", "type": "int64", "name": "io.debezium.time.MicroTimestamp"}]}]}, "payload": {"op": "c", "after": {"id": 1, "d": -9223372036854775000}, "source": {"connector": "postgresql", "lsn": 16}}}');
CREATE TABLE day (id int PRIMARY KEY, d date);
CREATE VIEW day_landing AS SELECT payload FROM landing WHERE payload LIKE '{"schema%';
SELECT cdc_event_view('day_events', 'day', 'day_landing', 'payload', 'debezium');
SELECT refused('a day before all', 'SELECT d FROM day_events', '22008', '-9223372036854775000', 'd', false);
-- more digits than a number can have, refused before they are worked out
SELECT refused('a decimal of a million bytes', format($$SELECT decoded(%L, 'precise', NULL::numeric)$$, format('{"scale": 0, "value": "%s"}', repeat('QUFB', 350000))), '22003', NULL, 'd');
SELECT expect('the longest', length(decoded(format('{"scale": 0, "value": "%s"}', repeat('f///', 18142)), 'precise', NULL::numeric))::text, (floor((18142 * 24 - 1) * log(2)) + 1)::text);
