-- Event views as staging: cdc_apply through them, in both homes, with consume,
-- with the rights of those who may and may not, and views made anew.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA event_view_apply;
SET search_path = event_view_apply, public;
SET client_min_messages = warning;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/event_view.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on

-- A random history of one source, told by all formats; what it ends in.
CREATE TABLE source (id int PRIMARY KEY, n numeric(8, 2), at timestamp, body text, tags text[]);
CREATE TABLE told (format text, lsn bigint, payload jsonb);
CREATE FUNCTION image(s source, body_known boolean DEFAULT true) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('id', s.id, 'n', unscaled(s.n, 2), 'at', micros(s.at), 'body', CASE WHEN body_known THEN s.body ELSE '__debezium_unavailable_value' END, 'tags', to_jsonb(s.tags))
$$;
CREATE FUNCTION items(s source, body_known boolean DEFAULT true) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_agg(jsonb_build_object('name', k, 'value', v)) FROM (VALUES ('id', to_jsonb(s.id)), ('n', to_jsonb(s.n)), ('at', to_jsonb(s.at::text)), ('body', to_jsonb(s.body)), ('tags', to_jsonb(s.tags::text))) c(k, v) WHERE k <> 'body' OR body_known
$$;
CREATE FUNCTION tell(op text, lsn bigint, old source, new source, known boolean) RETURNS void LANGUAGE sql AS $$
	INSERT INTO told VALUES
		('debezium', lsn, envelope(op, CASE WHEN op = 'd' THEN jsonb_build_object('id', old.id) WHEN old.id <> new.id THEN image(old) END, CASE WHEN op <> 'd' THEN image(new, known) END, lsn)),
		('wal2json', lsn, jsonb_strip_nulls(jsonb_build_object('action', CASE op WHEN 'c' THEN 'I' ELSE upper(op) END, 'lsn', '0/0'::pg_lsn + lsn, 'schema', 'public', 'table', 'source'))
			|| CASE WHEN op <> 'd' THEN jsonb_build_object('columns', items(new, known)) ELSE '{}' END
			|| CASE WHEN op <> 'c' THEN jsonb_build_object('identity', jsonb_build_array(jsonb_build_object('name', 'id', 'value', old.id))) ELSE '{}' END);
	INSERT INTO told SELECT 'debezium-flat', lsn, image(old) || jsonb_build_object('__op', 'd', '__deleted', 'true', '__source_lsn', lsn) WHERE op = 'd' OR old.id <> new.id;
	INSERT INTO told SELECT 'debezium-flat', lsn, image(new, known) || jsonb_build_object('__op', op, '__deleted', 'false', '__source_lsn', lsn) WHERE op <> 'd';
$$;
CREATE FUNCTION live(steps int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	old source; new source; lsn bigint := 1000; known boolean; pick int;
BEGIN
	PERFORM setseed(0.42);
	FOR step IN 1 .. steps LOOP
		lsn := lsn + 8;
		pick := (random() * 30)::int;
		old := NULL;
		SELECT * INTO old FROM source WHERE id = pick;
		new := NULL;
		new.n := ((random() - 0.5) * 100000)::numeric(8, 2);
		new.at := '1970-01-01'::timestamp + ((random() - 0.5) * 1e9)::int * interval '1.000001 second';
		new.tags := CASE WHEN random() < 0.8 THEN ARRAY[step::text, NULL, ',"'] END;
		IF old.id IS NULL THEN
			new.id := pick;
			new.body := repeat(chr(97 + step % 26), 20 + step % 50);
			INSERT INTO source SELECT new.*;
			PERFORM tell('c', lsn, NULL, new, true);
		ELSIF random() < 0.3 THEN
			DELETE FROM source WHERE id = old.id;
			PERFORM tell('d', lsn, old, NULL, true);
		ELSE
			known := random() < 0.5;
			new.id := old.id;
			-- a key move carries all values: its events may be two
			IF random() < 0.2 AND NOT EXISTS (SELECT FROM source WHERE id = old.id + 31) AND old.id < 30 THEN
				new.id := old.id + 31;
				known := true;
			END IF;
			new.body := CASE WHEN known THEN 'body ' || step ELSE old.body END;
			UPDATE source SET (id, n, at, body, tags) = (new.id, new.n, new.at, new.body, new.tags) WHERE id = old.id;
			PERFORM tell('u', lsn, old, new, known);
		END IF;
	END LOOP;
END $$;
SELECT live(400);
SELECT expect('there are moves, deletes and gaps', bool_and(n > 20)::text, 'true') FROM (SELECT count(*) AS n FROM told WHERE format = 'wal2json' GROUP BY payload->>'action') x;

CREATE TABLE landing (id bigserial PRIMARY KEY, payload jsonb);
CREATE TABLE text_landing (id bigserial PRIMARY KEY, payload text);
-- Applied in the log's order in batches, then all of it again, shuffled.
CREATE FUNCTION told_again(told_format text, home text, batches int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	name text := replace(told_format, '-', '_') || '_' || home; landing text := CASE home WHEN 'row' THEN 'landing' ELSE 'text_landing' END;
	r cdc_apply_result; events bigint := 0; kept text; result text;
BEGIN
	EXECUTE format('CREATE TABLE %I (LIKE source INCLUDING ALL)', name);
	PERFORM cdc_event_view(name || '_events', name::regclass, landing::regclass, 'payload', told_format);
	PERFORM cdc_attach(name::regclass, (name || '_events')::regclass, tombstones => home, consume => 'delete');
	FOR i IN 0 .. batches - 1 LOOP
		EXECUTE format('INSERT INTO %I (payload) SELECT payload::%s FROM told WHERE format = %L AND lsn / 8 * %s / (SELECT max(lsn) / 8 + 1 FROM told) = %s ORDER BY lsn', landing, CASE home WHEN 'row' THEN 'jsonb' ELSE 'text' END, told_format, batches, i);
		SELECT * INTO r FROM cdc_apply(name::regclass);
		events := events + r.events;
		EXECUTE format('SELECT count(*) FROM %I', landing) INTO kept;
		IF kept <> '0' THEN
			RETURN 'NOT OK | not consumed: ' || kept;
		END IF;
	END LOOP;
	result := expect(name, rows_of(format('SELECT id, n, at, body, tags FROM %I %s', name, CASE home WHEN 'row' THEN 'WHERE NOT deleted' ELSE '' END)), rows_of('source'));
	result := result || E'\n' || expect('all events', events::text, (SELECT count(*)::text FROM told WHERE told.format = told_format));
	EXECUTE format('INSERT INTO %I (payload) SELECT payload::%s FROM told WHERE format = %L ORDER BY md5(lsn::text)', landing, CASE home WHEN 'row' THEN 'jsonb' ELSE 'text' END, told_format);
	SELECT * INTO r FROM cdc_apply(name::regclass);
	RETURN result || E'\n' || expect('a replay changes nothing', concat_ws(' ', r.inserted, r.updated, r.deleted), '0 0 0')
		|| E'\n' || expect('and leaves nothing', rows_of(format('SELECT id, n, at, body, tags FROM %I %s', name, CASE home WHEN 'row' THEN 'WHERE NOT deleted' ELSE '' END)), rows_of('source'));
END $$;
SELECT told_again(f, h, b) FROM (VALUES ('debezium', 1), ('debezium-flat', 7), ('wal2json', 40)) x(f, b), (VALUES ('row'), ('table')) y(h);

--
-- Through one shared landing, only the view's own events are consumed
--
TRUNCATE landing;
CREATE TABLE a (id int PRIMARY KEY, v text);
CREATE TABLE b (id int PRIMARY KEY, w text);
SELECT cdc_event_view(t || '_events', t::regclass, 'landing', 'payload', 'debezium', source_table => 'public.' || t), cdc_attach(t::regclass, (t || '_events')::regclass, consume => 'delete') FROM unnest('{a,b}'::text[]) t;
INSERT INTO landing (payload) VALUES ('{"op": "c", "after": {"id": 1, "v": "a"}, "source": {"connector": "postgresql", "lsn": 16, "schema": "public", "table": "a"}}'),
	('{"op": "c", "after": {"id": 1, "w": "b"}, "source": {"connector": "postgresql", "lsn": 17, "schema": "public", "table": "b"}}'),
	('{"op": "t", "source": {"connector": "postgresql", "lsn": 18, "schema": "public", "table": "b"}}'), (NULL);
SELECT apply_is('of a alone', 'a', 'a_events', '', 'inserted=1', 'a', '(1,a,0/10)');
SELECT expect('the others are kept', count(*)::text, '3') FROM landing;
SELECT apply_is('a truncate', 'b', 'b_events', '', 'superseded=1 truncated=1', 'b', 'none');
SELECT expect('null records are no table''s', count(*)::text, '1') FROM landing;

--
-- Unchanged columns need no parameter, and can be turned off
--
CREATE TABLE c (id int PRIMARY KEY, v text, w text, source_position cdc_position, deleted boolean);
SELECT cdc_event_view('c_events', 'c', 'landing', 'payload', 'debezium');
SELECT expect('columns of the law are none of the source', string_agg(attname, ' ' ORDER BY attnum), 'id v w __old_id op source_position __unchanged __absent') FROM pg_attribute WHERE attrelid = 'c_events'::regclass AND attnum > 0;
INSERT INTO c VALUES (1, 'v', 'w', '0/1', false);
TRUNCATE landing;
INSERT INTO landing (payload) VALUES (envelope('u', NULL, '{"id": 1, "v": "__debezium_unavailable_value"}', 16));
SELECT apply_is('unchanged', 'c', 'c_events', '', 'updated=1', 'c', '(1,v,w,0/10,f)');
TRUNCATE landing;
INSERT INTO landing (payload) VALUES (envelope('u', NULL, '{"id": 1, "v": "x"}', 17));
SELECT apply_is('left out', 'c', 'c_events', 'except_columns => ''{w}''', 'updated=1', 'c', '(1,x,w,0/11,f)');
TRUNCATE landing;
INSERT INTO landing (payload) VALUES (envelope('u', NULL, '{"id": 1, "v": "y"}', 18));
SELECT apply_is('not asked for', 'c', 'c_events', 'except_columns => ''{__unchanged}''', 'updated=1', 'c', '(1,y,,0/12,f)');

--
-- The view made anew: same columns, new columns behind, grants and comment kept
--
CREATE TABLE anew (LIKE source INCLUDING ALL);
SELECT cdc_event_view('anew_events', 'anew', 'landing', 'payload', 'debezium');
CREATE VIEW depends AS SELECT id FROM anew_events;
SELECT expect('again', cdc_event_view('anew_events', 'anew', 'landing', 'payload', 'debezium', decimals => 'string', source_table => 'public.anew')::text, 'anew_events');
ALTER TABLE anew ADD more jsonb DEFAULT '{}';
SELECT expect('with more', cdc_event_view('event_view_apply.anew_events', 'anew', 'landing', 'payload', 'debezium')::text, 'anew_events');
SELECT expect('behind the others', string_agg(attname, ' ' ORDER BY attnum), 'id n at body tags __old_id op source_position __unchanged __absent more') FROM pg_attribute WHERE attrelid = 'anew_events'::regclass AND attnum > 0;
SELECT expect('options and rights', reloptions::text || ' ' || (SELECT string_agg(privilege_type, ',' ORDER BY privilege_type) FROM aclexplode(relacl) WHERE grantee = 0), '{security_invoker=true} DELETE,SELECT') FROM pg_class WHERE oid = 'anew_events'::regclass;
SELECT expect('nothing is written through it', is_insertable_into, 'NO') FROM information_schema.views WHERE table_schema = 'event_view_apply' AND table_name = 'anew_events';
SELECT expect('rows may', (pg_relation_is_updatable('anew_events', false) & (1 << 4) <> 0)::text, 'true');

-- unqualified: beside the target; names that need quotes; a partition root; temporary
CREATE SCHEMA "Event View";
CREATE TABLE "Event View"."T ""x" ("Key 'a'" int, "k b" int, "v.c" text, PRIMARY KEY ("k b", "Key 'a'")) PARTITION BY HASH ("k b");
CREATE TABLE "Event View"."Raw" ("Pay ""load" json);
SELECT expect('quoted', cdc_event_view('"The View"', '"Event View"."T ""x"', '"Event View"."Raw"', 'Pay "load', 'debezium', op_name => 'The Op', position_name => 'The "Position"', source_table => 'it''s')::text, '"Event View"."The View"');
INSERT INTO "Event View"."Raw" VALUES ('{"op": "u", "before": {"Key ''a''": 1, "k b": 2, "v.c": null}, "after": {"Key ''a''": 1, "k b": 3, "v.c": "x"}, "source": {"connector": "postgresql", "lsn": 16, "table": "it''s"}}');
SELECT expect('its rows', rows_of('SELECT * FROM "Event View"."The View"'), '(1,3,x,2,1,u,0/10,,)');
SELECT expect('its columns', string_agg(attname, '|' ORDER BY attnum), 'Key ''a''|k b|v.c|__old_k b|__old_Key ''a''|The Op|The "Position"|__unchanged|__absent') FROM pg_attribute WHERE attrelid = '"Event View"."The View"'::regclass AND attnum > 0;
CREATE TEMP TABLE temp_landing (payload jsonb);
SELECT expect('temporary', concat_ws(' ', relpersistence, relnamespace = pg_my_temp_schema()), 't t') FROM pg_class WHERE oid = cdc_event_view('temp_events', 'anew', 'temp_landing', 'payload', 'wal2json');
-- generated columns are the target's own affair; a collation goes along
CREATE COLLATION backwards (provider = libc, locale = 'C');
CREATE TABLE odd (id text COLLATE backwards PRIMARY KEY, v text, twice text GENERATED ALWAYS AS (v || v) STORED, number int GENERATED BY DEFAULT AS IDENTITY);
CREATE TABLE odd_landing (payload varchar COLLATE "POSIX");
SELECT cdc_event_view('odd_events', 'odd', 'odd_landing', 'payload', 'debezium');
SELECT expect('columns', string_agg(attname || ' ' || attcollation::regcollation, ', ' ORDER BY attnum), 'id backwards, v "default", number -, __old_id backwards, op "POSIX", source_position -, __unchanged "POSIX", __absent "POSIX"') FROM pg_attribute WHERE attrelid = 'odd_events'::regclass AND attnum > 0;
-- attached with the side table, a column "deleted" is the source's
CREATE TABLE flagged (id int PRIMARY KEY, deleted boolean);
SELECT cdc_attach('flagged', tombstones => 'table');
SELECT cdc_event_view('flagged_events', 'flagged', 'landing', 'payload', 'debezium');
SELECT expect('its columns', string_agg(attname, ' ' ORDER BY attnum), 'id deleted __old_id op source_position __unchanged __absent') FROM pg_attribute WHERE attrelid = 'flagged_events'::regclass AND attnum > 0;
CREATE TABLE marked (id int PRIMARY KEY, gone timestamptz, v text);
SELECT cdc_attach('marked', tombstones => 'row', tombstone_column => 'gone', position_columns => '{at_position}');
SELECT cdc_event_view('marked_events', 'marked', 'landing', 'payload', 'debezium', position_name => 'at_position');
SELECT expect('its columns', string_agg(attname, ' ' ORDER BY attnum), 'id v __old_id op at_position __unchanged __absent') FROM pg_attribute WHERE attrelid = 'marked_events'::regclass AND attnum > 0;
RESET client_min_messages;
CREATE TABLE unattached (id int PRIMARY KEY, deleted boolean, source_lsn pg_lsn, source_ordinal bigint);
SELECT cdc_event_view('unattached_events', 'unattached', 'landing', 'payload', 'debezium');
SET client_min_messages = warning;

--
-- Rights: those on the landing table count, whoever made the view
--
CREATE ROLE event_view_maker;
CREATE ROLE event_view_loader;
CREATE ROLE event_view_reader;
CREATE SCHEMA event_view_rights;
GRANT USAGE ON SCHEMA event_view_rights, event_view_apply TO event_view_maker, event_view_loader, event_view_reader;
GRANT CREATE ON SCHEMA event_view_rights TO event_view_maker;
CREATE TABLE event_view_rights.item (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
CREATE TABLE event_view_rights.raw (payload jsonb);
SET ROLE event_view_maker;
-- the maker needs no right on the rows
SELECT cdc_event_view('item_events', 'event_view_rights.item', 'event_view_rights.raw', 'payload', 'debezium');
RESET ROLE;
INSERT INTO event_view_rights.raw VALUES (envelope('c', NULL, '{"id": 1, "v": "x"}', 16));
GRANT SELECT, INSERT, UPDATE ON event_view_rights.item TO event_view_loader, event_view_reader;
GRANT SELECT, DELETE ON event_view_rights.raw TO event_view_loader;
GRANT SELECT ON event_view_rights.raw TO event_view_reader;
SET ROLE event_view_maker;
SELECT refused('the maker may not read', 'SELECT * FROM event_view_rights.item_events', '42501', 'raw', show => false);
SET ROLE event_view_reader;
SELECT expect('who may SELECT there reads', rows_of('SELECT id, v FROM event_view_rights.item_events'), '(1,x)');
SELECT refused('and does not consume', 'SELECT * FROM cdc_apply(''event_view_rights.item'', ''event_view_rights.item_events'', consume => ''delete'')', '42501', 'raw', show => false);
SET ROLE event_view_loader;
SELECT expect('who may DELETE there consumes', events || ' ' || inserted, '1 1') FROM cdc_apply('event_view_rights.item', 'event_view_rights.item_events', consume => 'delete');
RESET ROLE;
SELECT expect('consumed', count(*)::text, '0') FROM event_view_rights.raw;
SET ROLE event_view_reader;
SELECT refused('who may not CREATE makes none', 'SELECT cdc_event_view(''mine'', ''event_view_rights.item'', ''event_view_rights.raw'', ''payload'', ''debezium'')', '42501', 'event_view_rights', show => false);
SELECT refused('nor changes another''s', 'SELECT cdc_event_view(''item_events'', ''event_view_rights.item'', ''event_view_rights.raw'', ''payload'', ''debezium'')', '42501', show => false);
RESET ROLE;
DROP SCHEMA event_view_rights, event_view_apply, "Event View" CASCADE;
DROP ROLE event_view_maker, event_view_loader, event_view_reader;
