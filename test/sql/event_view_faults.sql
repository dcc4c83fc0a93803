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
-- However much stands in an event, a message keeps its length
--
CREATE TABLE brief (id int PRIMARY KEY, n int);
CREATE TABLE brief_landing (payload jsonb);
CREATE FUNCTION length_of_refusal(payload jsonb, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text; detail text;
BEGIN
	TRUNCATE brief_landing;
	INSERT INTO brief_landing VALUES (payload);
	EXECUTE query;
	RETURN 'not refused';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
	RETURN CASE WHEN length(message) < 400 AND length(detail) < 1500 THEN 'brief' ELSE length(message) || ' and ' || length(detail) || ' bytes' END;
END $$;
SELECT expect('made', cdc_event_view('brief_events', 'brief', 'brief_landing', 'payload', 'debezium', decimals => 'string')::text, 'brief_events');
SELECT expect('a long ' || what, length_of_refusal(payload, 'SELECT * FROM brief_events'), 'brief') FROM (SELECT repeat('xé', 20000) AS long) l, LATERAL (VALUES
	('value', envelope('c', NULL, jsonb_build_object('id', 1, 'n', long), 16)), ('key', envelope('c', NULL, jsonb_build_object('id', long), 16)), ('op', envelope(long, NULL, '{"id": 1, "n": "x"}', 16)),
	('op without a row', envelope(long, NULL, NULL, 16)), ('row', envelope('c', NULL, jsonb_build_object(long, long), 16)), ('table', envelope('c', NULL, '{"id": 1, "n": "x"}', 16) || jsonb_build_object('source', jsonb_build_object('connector', 'postgresql', 'lsn', 1, 'schema', long, 'table', long))),
	('coordinate', envelope('c', NULL, '{"id": 1}', 16) || jsonb_build_object('source', jsonb_build_object('connector', 'postgresql', 'lsn', long, 'scn', long))), ('connector', envelope('c', NULL, '{"id": 1}', 16) || jsonb_build_object('source', jsonb_build_object('connector', long))),
	('event', jsonb_build_object('x', long))) v(what, payload);

--
-- Names that an event view cannot have
--
CREATE TABLE reserved (id int PRIMARY KEY, __unchanged text, __absent text);
CREATE TABLE reserved_landing (payload jsonb);
SELECT refused('a name of the view''s own', $$SELECT cdc_event_view('v', 'reserved', 'reserved_landing', 'payload', 'debezium')$$, '42701', '__unchanged', 'dh');
ALTER TABLE reserved DROP __unchanged;
SELECT refused('another', $$SELECT cdc_event_view('v', 'reserved', 'reserved_landing', 'payload', 'debezium')$$, '42701', '__absent', 'dh', false);
ALTER TABLE reserved DROP __absent;
SELECT refused('no name for the op', $$SELECT cdc_event_view('v', 'reserved', 'reserved_landing', 'payload', 'debezium', op_name => '')$$, '22023', 'op_name');
SELECT refused('no name for the position', $$SELECT cdc_event_view('v', 'reserved', 'reserved_landing', 'payload', 'debezium', position_name => '')$$, '22023', 'position_name', '', false);
SELECT format('CREATE TABLE long_key (%I int PRIMARY KEY)', repeat('k', 58)) \gexec
SELECT refused('a long key', $$SELECT cdc_event_view('v', 'long_key', 'reserved_landing', 'payload', 'debezium')$$, '22023', repeat('k', 58), 'dh');
SELECT format('ALTER TABLE long_key RENAME %I TO %I', repeat('k', 58), repeat('k', 57)) \gexec
SELECT expect('the longest', cdc_event_view('long_events', 'long_key', 'reserved_landing', 'payload', 'debezium')::text, 'long_events');

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

--
-- Columns that the source does not have: a new row has their defaults, any other keeps what it has.
-- Told by all formats, in both homes, in batches of every size, shuffled in each, with and without
-- room in memory, and compared with the source's rows and what the target had of its own.
--
CREATE TABLE source (id int PRIMARY KEY, v text, body text);
CREATE TABLE told (format text, n int, payload jsonb);
CREATE FUNCTION tell(n int, op text, id int, v text, body text, known boolean) RETURNS void LANGUAGE sql AS $$
	INSERT INTO told VALUES
		('debezium', n, envelope(op, CASE op WHEN 'd' THEN jsonb_build_object('id', id) END,
			CASE WHEN op <> 'd' THEN jsonb_build_object('id', id, 'v', v, 'body', CASE WHEN known THEN body ELSE '__debezium_unavailable_value' END) END, n)),
		('debezium-flat', n, jsonb_build_object('id', id, 'v', v, 'body', CASE WHEN known THEN body ELSE '__debezium_unavailable_value' END, '__op', op, '__deleted', (op = 'd')::text, '__source_lsn', n)),
		('wal2json', n, jsonb_build_object('action', CASE op WHEN 'u' THEN 'U' WHEN 'd' THEN 'D' ELSE 'I' END, 'lsn', '0/0'::pg_lsn + n, 'schema', 'public', 'table', 'source')
			|| CASE op WHEN 'd' THEN '{}' ELSE jsonb_build_object('columns', jsonb_build_array(jsonb_build_object('name', 'id', 'value', id), jsonb_build_object('name', 'v', 'value', v)) || CASE WHEN known THEN jsonb_build_array(jsonb_build_object('name', 'body', 'value', body)) ELSE '[]' END) END
			|| CASE op WHEN 'd' THEN jsonb_build_object('identity', jsonb_build_array(jsonb_build_object('name', 'id', 'value', id))) ELSE '{}' END)
$$;
DO $$
DECLARE
	r source; pick int; known boolean;
BEGIN
	PERFORM setseed(0.31);
	FOR n IN 1 .. 120 LOOP
		pick := (random() * 9)::int;
		SELECT * INTO r FROM source WHERE id = pick;
		IF r.id IS NULL THEN
			INSERT INTO source VALUES (pick, 'v' || n, 'b' || n);
			PERFORM tell(n, CASE WHEN n % 5 = 0 THEN 'r' ELSE 'c' END, pick, 'v' || n, 'b' || n, true);
		ELSIF random() < 0.25 THEN
			DELETE FROM source WHERE id = pick;
			PERFORM tell(n, 'd', pick, NULL, NULL, true);
		ELSE
			known := random() < 0.5;
			UPDATE source SET v = 'v' || n, body = CASE WHEN known THEN 'b' || n ELSE body END WHERE id = pick RETURNING * INTO r;
			PERFORM tell(n, 'u', pick, r.v, r.body, known);
		END IF;
	END LOOP;
END $$;
CREATE TABLE told_landing (payload jsonb);
-- what became of it; own counts rows by what they have of their own
CREATE FUNCTION told_to(f text, home text, batch int, spill int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	name text := 'own_' || replace(f, '-', '_') || '_' || home; own text; r record;
BEGIN
	EXECUTE format('DROP VIEW IF EXISTS %I_events', name);
	PERFORM cdc_detach(to_regclass(name), true) WHERE to_regclass(name) IS NOT NULL;
	EXECUTE format('DROP TABLE IF EXISTS %I', name);
	EXECUTE format('CREATE TABLE %I (id int PRIMARY KEY, v text, loaded text DEFAULT ''loaded'' NOT NULL, body text, tries int DEFAULT 7)', name);
	PERFORM cdc_event_view(name || '_events', name::regclass, 'told_landing', 'payload', f), cdc_attach(name::regclass, (name || '_events')::regclass, tombstones => home, snapshot_position => 'event');
	PERFORM set_config('cdc_precedence.debug_fold_events', spill::text, true);
	FOR i IN 0 .. 120 / batch LOOP
		TRUNCATE told_landing;
		-- the batch before comes again with it
		INSERT INTO told_landing SELECT payload FROM told WHERE format = f AND n BETWEEN (i - 1) * batch + 1 AND (i + 1) * batch ORDER BY md5(n || f || batch);
		PERFORM cdc_apply(name::regclass);
		-- half way the target changes what is its own
		IF (i + 1) * batch >= 60 AND own IS NULL THEN
			EXECUTE format('UPDATE %I SET loaded = ''kept'', tries = NULL %s', name, CASE home WHEN 'row' THEN 'WHERE NOT deleted' ELSE '' END);
			own := (i + 1) * batch;
		END IF;
	END LOOP;
	PERFORM set_config('cdc_precedence.debug_fold_events', '0', true);
	RETURN CASE WHEN rows_of(format('SELECT id, v, body, loaded, tries FROM %I %s', name, CASE home WHEN 'row' THEN 'WHERE NOT deleted' ELSE '' END))
		= rows_of(format($q$SELECT s.id, s.v, s.body, CASE WHEN born > %1$s THEN 'loaded' ELSE 'kept' END, CASE WHEN born > %1$s THEN 7 END
			FROM source s, (SELECT (payload #>> '{after,id}')::int AS id, max(n) AS born FROM told WHERE format = 'debezium' AND payload ->> 'op' IN ('c', 'r') GROUP BY 1) b WHERE b.id = s.id$q$, own))
		THEN 'as it should be' ELSE rows_of('SELECT * FROM ' || name) END;
END $$;
SELECT expect(f || ' ' || h || ', batches of ' || b || ', kept events ' || s, told_to(f, h, b, s), 'as it should be')
FROM unnest('{debezium,debezium-flat,wal2json}'::text[]) f, unnest('{row,table}'::text[]) h, (VALUES (1, 0), (7, 0), (60, 0), (60, 3), (60, 17)) x(b, s);
-- the lists
TRUNCATE told_landing;
INSERT INTO told_landing VALUES (envelope('c', NULL, '{"id": 1, "v": "v", "body": "__debezium_unavailable_value"}', 900)), (envelope('u', NULL, '{"id": 2, "v": "v", "body": "__debezium_unavailable_value"}', 901)), (envelope('r', NULL, '{"id": 3}', 902)), (envelope('d', '{"id": 4}', NULL, 903));
SELECT expect('unchanged, and not there at all', rows_of('SELECT id, __unchanged, __absent FROM own_debezium_row_events'), '(1,{body},"{loaded,tries}") (2,"{loaded,body,tries}",) (3,,"{v,loaded,body,tries}") (4,,)');
-- what an insert leaves unsaid is still unavailable, and an update whose insert never came does not say what the source has
CREATE TABLE lone (id int PRIMARY KEY, v text, own int DEFAULT 7);
SELECT cdc_event_view('lone_events', 'lone', 'told_landing', 'payload', 'debezium');
SELECT expect('attached', cdc_attach('lone', 'lone_events') IS NULL || '', 'false');
TRUNCATE told_landing;
INSERT INTO told_landing VALUES (envelope('u', NULL, '{"id": 1, "v": "v"}', 900));
SELECT apply_refused('an update alone', 'lone', 'lone_events', '', '55000', '"own"', 'dh', false);
UPDATE told_landing SET payload = envelope('c', NULL, '{"id": 1, "v": "__debezium_unavailable_value"}', 900);
SELECT apply_refused('a placeholder in an insert', 'lone', 'lone_events', '', '55000', '"v"', 'dh', false);
-- a revived row has the defaults again, in one batch with the delete and in another
TRUNCATE told_landing;
INSERT INTO told_landing VALUES (envelope('c', NULL, '{"id": 1, "v": "a"}', 900)), (envelope('d', '{"id": 1}', NULL, 901)), (envelope('c', NULL, '{"id": 2, "v": "a"}', 900));
SELECT apply_is('one deleted', 'lone', 'lone_events', '', 'inserted=1 deleted=1 superseded=1', 'SELECT id, v, own FROM lone', '(2,a,7)');
UPDATE lone SET own = 8;
TRUNCATE told_landing;
INSERT INTO told_landing VALUES (envelope('c', NULL, '{"id": 1, "v": "b"}', 910)), (envelope('d', '{"id": 2}', NULL, 911)), (envelope('c', NULL, '{"id": 2, "v": "b"}', 912)), (envelope('u', NULL, '{"id": 2, "v": "c"}', 913));
SELECT apply_is('both revived', 'lone', 'lone_events', '', 'inserted=1 updated=1 superseded=2', 'SELECT id, v, own FROM lone', '(1,b,7) (2,c,7)');
-- the list in a landing of one's own: jsonb, and not where the target has such a column
CREATE TABLE by_hand (op text, id int, v text, own int, __absent jsonb, source_position cdc_position);
INSERT INTO by_hand VALUES ('u', 3, 'x', NULL, '["own"]', '0/500');
SELECT apply_is('by hand', 'lone', 'by_hand', '', 'inserted=1', 'SELECT id, v, own FROM lone WHERE id = 3', '(3,x,7)');
ALTER TABLE by_hand ALTER __absent TYPE text;
SELECT apply_refused('a list of another type', 'lone', 'by_hand', '', '42804', '__absent', 'dh');
SELECT apply_is('a list that is left out', 'lone', 'by_hand', 'except_columns => ''{__absent}'', on_same_position => ''rewrite''', 'updated=1', 'SELECT id, v, own FROM lone WHERE id = 3', '(3,x,)');
DROP SCHEMA event_view_faults CASCADE;
