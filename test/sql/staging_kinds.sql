-- What a staging can be: every kind of relation, columns of types that say
-- more or less than the target's, names of every kind, policies; each
-- compared with what plain SQL makes of the same events.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA staging_kinds;
SET search_path = staging_kinds, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/target_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

CREATE VIEW happens AS SELECT n, abs(hashint8(n)) % 17 AS k, CASE WHEN abs(hashint8(n + 1000)) % 3 = 0 THEN 'd' ELSE 'u' END AS op,
	cdc_position(pg_lsn '1/0' + (n / 4)::numeric, n % 4) AS pos FROM generate_series(1, 150) n;
SELECT make('item', 'CREATE TABLE %s (id int PRIMARY KEY, v text, n numeric)', 'id int, v text, n numeric');
INSERT INTO item_log SELECT op, k, CASE WHEN op = 'u' THEN 'v' || n END, n, pos FROM happens;
-- the log from another staging: the whole of it, then again
CREATE FUNCTION taken_from(what text, staging text, args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	home text; problems text; counts text; again text;
BEGIN
	DELETE FROM item_row;
	DELETE FROM item_table;
	DELETE FROM item_table_tombstones;
	FOREACH home IN ARRAY '{row,table}'::text[] LOOP
		counts := applied('item_' || home, staging, args);
		again := applied('item_' || home, staging, args || CASE WHEN args <> '' THEN ', ' ELSE '' END || 'on_same_position => ''error''');
		IF counts !~ '^inserted=\d+ deleted=\d+ superseded=\d+$' OR again !~ '^duplicate=\d+ superseded=\d+$' THEN
			problems := concat_ws(E'\n    ', problems, home || ' home: ' || counts || ', again ' || again);
		END IF;
		problems := concat_ws(E'\n    ', problems, home || ' home: ' || differs('item', home, 'id', 'v; n'));
	END LOOP;
	RETURN CASE WHEN problems <> '' THEN 'NOT OK | ' || what || E'\n    ' || problems ELSE 'ok | ' || what || ': ' || counts END;
END $$;

--
-- Kinds of relations
--
CREATE TABLE plain AS TABLE item_log;
SELECT taken_from('table', 'plain');
CREATE UNLOGGED TABLE quick AS TABLE item_log;
SELECT taken_from('unlogged', 'quick');
CREATE TEMP TABLE passing AS TABLE item_log;
SELECT taken_from('temporary', 'passing');
CREATE TABLE parts (source_position cdc_position, gone int, n numeric, id int, op text, v text) PARTITION BY LIST (op);
CREATE TABLE parts_u (op text, x int, v text, source_position cdc_position, gone int, n numeric, id int);
ALTER TABLE parts_u DROP x;
ALTER TABLE parts ATTACH PARTITION parts_u FOR VALUES IN ('u');
CREATE TABLE parts_d PARTITION OF parts DEFAULT PARTITION BY RANGE (id);
CREATE TABLE parts_d_1 PARTITION OF parts_d FOR VALUES FROM (0) TO (9);
CREATE TABLE parts_d_2 PARTITION OF parts_d DEFAULT;
ALTER TABLE parts DROP gone;
INSERT INTO parts (op, id, v, n, source_position) TABLE item_log;
SELECT taken_from('partitioned', 'parts');
SELECT taken_from('one partition of it gives less', 'parts_u') !~ '^ok' AS less;
CREATE TABLE general (id int, v text);
CREATE TABLE special (n numeric, op text, source_position cdc_position) INHERITS (general);
CREATE TABLE heirs (LIKE item_log);
CREATE TABLE heirs_1 () INHERITS (heirs);
INSERT INTO heirs SELECT * FROM item_log WHERE id % 2 = 0;
INSERT INTO heirs_1 SELECT * FROM item_log WHERE id % 2 = 1;
SELECT taken_from('inheritance, children too', 'heirs');
INSERT INTO special (op, id, v, n, source_position) TABLE item_log;
SELECT taken_from('an heir', 'special');
CREATE VIEW simple AS SELECT source_position, upper(op) AS op, id, v, n FROM plain;
SELECT taken_from('view', 'simple');
CREATE VIEW joined AS SELECT source_position, m.op, id, v, n FROM (SELECT id, v, n, source_position, op FROM plain) p JOIN (VALUES ('u', 'upsert'), ('d', 'DELETE')) m(o, op) ON m.o = p.op
	UNION ALL SELECT source_position, op, id, v, n FROM quick WHERE false;
SELECT taken_from('view with a join and a union', 'joined');
CREATE VIEW barrier WITH (security_barrier, security_invoker) AS TABLE plain;
SELECT taken_from('security barrier view', 'barrier');
CREATE MATERIALIZED VIEW stored AS TABLE plain;
SELECT taken_from('materialized view', 'stored');
CREATE MATERIALIZED VIEW unfilled AS TABLE plain WITH NO DATA;
SELECT refused('an unfilled one', 'SELECT cdc_apply(''item_row'', ''unfilled'')', '55000', 'unfilled', '', false);
CREATE TYPE event_type AS (op text, id int, v text, n numeric, source_position cdc_position);
CREATE TABLE typed OF event_type;
INSERT INTO typed TABLE plain;
SELECT taken_from('typed table', 'typed');

-- a foreign table of this very server, where the wrapper is at hand and the
-- server lets itself in; elsewhere a view stands in, so that the output is one
CREATE FUNCTION reachable(rel text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT count(*) FROM %I', rel);
	RETURN true;
EXCEPTION WHEN OTHERS THEN
	RETURN false;
END $$;
SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'postgres_fdw') AS have_fdw, current_database() AS db, current_setting('port') AS port,
	split_part(current_setting('unix_socket_directories'), ',', 1) AS socket_dir \gset
\set ECHO none
\if :have_fdw
CREATE EXTENSION postgres_fdw;
CREATE SERVER this_server FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host :'socket_dir', port :'port', dbname :'db');
CREATE USER MAPPING FOR CURRENT_USER SERVER this_server;
CREATE FOREIGN TABLE remote (source_position cdc_position, v text, n numeric, op text, id int) SERVER this_server OPTIONS (schema_name 'staging_kinds', table_name 'plain');
SELECT reachable('remote') AS have_fdw \gset
\endif
\if :have_fdw
\else
DROP EXTENSION IF EXISTS postgres_fdw CASCADE;
CREATE VIEW remote AS TABLE plain;
\endif
\set ECHO all
SELECT taken_from('foreign table', 'remote');
CREATE TABLE mixed (LIKE plain) PARTITION BY LIST (op);
CREATE TABLE mixed_u PARTITION OF mixed FOR VALUES IN ('u');
INSERT INTO mixed SELECT * FROM plain WHERE op = 'u';
\set ECHO none
\if :have_fdw
CREATE FOREIGN TABLE mixed_d PARTITION OF mixed FOR VALUES IN ('d') SERVER this_server OPTIONS (schema_name 'staging_kinds', table_name 'only_d');
CREATE VIEW only_d AS SELECT * FROM plain WHERE op = 'd';
\else
CREATE TABLE mixed_d PARTITION OF mixed FOR VALUES IN ('d');
INSERT INTO mixed_d SELECT * FROM plain WHERE op = 'd';
\endif
\set ECHO all
SELECT taken_from('a foreign table as a partition', 'mixed');

-- consumed: tables of each kind and simple views give up what was read
CREATE FUNCTION consumed(staging text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	problems text; left_over bigint;
BEGIN
	DELETE FROM item_row;
	DELETE FROM item_table;
	DELETE FROM item_table_tombstones;
	PERFORM applied('item_row', staging, 'consume => ''keep''');
	PERFORM applied('item_table', staging, 'consume => ''delete''');
	EXECUTE format('SELECT count(*) FROM %s', staging) INTO left_over;
	problems := concat_ws('; ', differs('item', 'row', 'id', 'v; n'), differs('item', 'table', 'id', 'v; n'), NULLIF(left_over || ' are left', '0 are left'));
	RETURN CASE WHEN problems <> '' THEN 'NOT OK | ' || staging || ': ' || problems ELSE 'ok | consumed: ' || staging END;
END $$;
CREATE VIEW to_quick AS TABLE quick;
SELECT consumed(s) FROM unnest('{to_quick,passing,parts,heirs,typed}'::text[]) s;
-- over there too: rows of another table, whole or as a partition
CREATE TABLE whole AS TABLE plain;
SELECT consumed('mixed');
TRUNCATE plain;
INSERT INTO plain TABLE whole;
SELECT consumed('remote');
SELECT expect('gone over there', rows_of('plain'), 'none');
INSERT INTO plain TABLE whole;
REFRESH MATERIALIZED VIEW stored;
SELECT apply_refused(s, 'item_row', s, 'consume => ''delete''', '42809|55000', s, '', false) FROM unnest('{joined,stored}'::text[]) s;

--
-- Types of columns
--
CREATE TYPE event_op AS ENUM ('u', 'd');
CREATE DOMAIN an_id AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN short AS varchar(20);
CREATE DOMAIN a_position AS cdc_position;
CREATE TABLE all_text AS SELECT op, id::text, v, n::text, source_position::text FROM plain;
SELECT apply_refused('a position as text needs to be said', 'item_row', 'all_text', '', '42804', 'source_position', 'h', false);
SELECT taken_from('all text', 'all_text', 'staging_position => ''source_position::cdc_position''');
CREATE TABLE all_domains AS SELECT op::event_op, id::an_id, v::short, n::float8, source_position::a_position FROM plain;
SELECT taken_from('enum, domains, another number', 'all_domains');
CREATE TABLE all_char AS SELECT op::"char", id::smallint, v::char(10), n::int, cdc_position_lsn(source_position) AS lsn, cdc_position_part(source_position, 2)::bigint AS ord FROM plain;
SELECT expect('char(n) keeps its blanks off', applied('item_row', 'all_char', 'staging_position => ''cdc_position(lsn, ord)'', on_same_position => ''error''') ~ '^duplicate' || '', 'true');
CREATE TABLE raw_json AS SELECT jsonb_build_object('op', op, 'after', CASE op WHEN 'u' THEN jsonb_build_object('id', id, 'v', v, 'n', n) END, 'before', jsonb_build_object('id', id), 'pos', source_position) AS event FROM plain;
CREATE VIEW from_json AS SELECT event ->> 'op' AS op, coalesce(NULLIF(event -> 'after', 'null'), event -> 'before') ->> 'id' AS id, event #>> '{after,v}' AS v, (event #>> '{after,n}')::numeric AS n, (event ->> 'pos')::cdc_position AS source_position FROM raw_json;
SELECT taken_from('raw JSON through a view', 'from_json');
-- a target of such types from text, and text from such types
SELECT make('odd', 'CREATE TABLE %s (id an_id PRIMARY KEY, doc jsonb, j json, kind event_op, s short, arr int[], t text)', 'id int, doc text, j text, kind text, s text, arr text, t jsonb');
INSERT INTO odd_log SELECT op, k, format('{"b": %s,  "a": [1]}', n), format('{"x":  %s}', n), CASE n % 2 WHEN 0 THEN 'u' ELSE 'd' END, 's' || n, format('{%s, %s}', n, k), to_jsonb('q' || n), pos FROM happens;
SELECT converges('text becomes JSON, enum, domain, array; JSON becomes text', 'odd', 'id', 'doc::jsonb; j; kind; s; arr::int[]; t');
-- every such type from every other that can hold it
CREATE TYPE event_op_2 AS ENUM ('d', 'u', 'x');
CREATE DOMAIN doc AS jsonb CHECK (VALUE <> '"no"');
CREATE DOMAIN word AS text COLLATE "C";
CREATE DOMAIN an_op AS event_op;
SELECT make('cross', 'CREATE TABLE %s (id word PRIMARY KEY, j1 jsonb, j2 json, j3 text, j4 doc, e1 text, e2 event_op_2, e3 an_op, e4 event_op, n1 numeric(10, 2), n2 int, n3 text, b boolean, ts timestamptz, arr text[])',
	'id an_id, j1 json, j2 jsonb, j3 json, j4 text, e1 event_op, e2 event_op, e3 event_op_2, e4 an_op, n1 short, n2 jsonb, n3 an_id, b word, ts timestamp, arr event_op[]');
INSERT INTO cross_log SELECT op, k, j::json, j::jsonb, j::json, j, e::event_op, e::event_op, e::event_op_2, e::an_op, n || '.5', to_jsonb(n), n, CASE n % 2 WHEN 0 THEN 'yes' ELSE 'f' END,
	timestamp '2024-03-31 00:30' + n * interval '1 hour', ARRAY[e, NULL]::event_op[], pos
FROM (SELECT *, format('{"b": %s,  "a": [null]}', n) AS j, CASE n % 3 WHEN 0 THEN 'u' WHEN 1 THEN 'd' END AS e FROM happens) h;
SELECT converges('JSON, enum, domain and array, each from another', 'cross', 'id', 'j1::jsonb; j2::jsonb; j3; j4::jsonb; e1; e2; e3; e4; n1::numeric(10,2); n2; n3; b::boolean; ts::timestamptz; arr');
CREATE FUNCTION odd_refuses(what text, change text, state text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	TRUNCATE odd_event;
	INSERT INTO odd_event SELECT 'u', i, '{}', '{}', 'u', 's', '{}', 'null', cdc_position('3/1', i) FROM generate_series(1, 2) i;
	EXECUTE 'UPDATE odd_event SET ' || change || ' WHERE id = 2';
	SELECT string_agg(apply_refused(what || ', ' || t, t, 'odd_event', '', state, NULL, '', false), E'\n') INTO result FROM unnest('{odd_row,odd_table}'::text[]) t;
	RETURN result;
END $$;
SELECT odd_refuses('no JSON', 'j = ''{x''', '22P02');
SELECT odd_refuses('no such label', 'kind = ''x''', '22P02');
SELECT odd_refuses('too long', 's = repeat(''s'', 21)', '22001');
SELECT odd_refuses('key outside of its domain', 'id = -1', '23514');
SELECT odd_refuses('no array', 'arr = ''1,2''', '22P02');

--
-- Names
--

-- Target, staging, key, value, op and position by any names
CREATE FUNCTION named(what text, t text, s text, k text, v text, o text, p text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	home text; got text; want text; problems text; side regclass;
BEGIN
	FOREACH home IN ARRAY '{row,table}'::text[] LOOP
		EXECUTE format('CREATE TABLE %1$I (%2$I int PRIMARY KEY, %3$I text); CREATE TABLE %4$I (gone int, %5$I cdc_position, %3$I text, %6$I text, %2$I int); ALTER TABLE %4$I DROP gone', t, k, v, s, p, o);
		PERFORM cdc_attach(quote_ident(t)::regclass, quote_ident(s)::regclass, op_column => o, position_columns => ARRAY[p]::name[], tombstones => home,
			staging_filter => format('%I IS NOT NULL AND %I.%I > 0', o, s, k));
		EXECUTE format('INSERT INTO %I (%I, %I, %I, %I) SELECT op, k + 1, ''v'' || n, pos FROM happens', s, o, k, v, p);
		EXECUTE format('INSERT INTO %I (%I, %I) VALUES (NULL, 1), (''u'', -1)', s, o, k);
		PERFORM cdc_apply(quote_ident(t)::regclass);
		EXECUTE format('SELECT string_agg(concat_ws('' '', %I, %I, %I), '','' ORDER BY %1$I) FROM %4$I %5$s', k, v, p, t, CASE home WHEN 'row' THEN 'WHERE NOT deleted' ELSE '' END) INTO got;
		SELECT string_agg(concat_ws(' ', h.k + 1, 'v' || n, pos), ',' ORDER BY h.k) INTO want FROM (SELECT DISTINCT ON (k) * FROM happens ORDER BY k, pos DESC) h WHERE op = 'u';
		IF got IS DISTINCT FROM want THEN
			problems := concat_ws(E'\n    ', problems, home || ' home: ' || coalesce(got, 'NULL'));
		END IF;
		PERFORM cdc_detach(quote_ident(t)::regclass, drop_tombstones => home = 'table');
		EXECUTE format('DROP TABLE %I, %I', t, s);
	END LOOP;
	RETURN CASE WHEN problems <> '' THEN 'NOT OK | ' || what || E'\n    ' || problems ELSE 'ok | ' || what END;
END $$;
SELECT named('quotes, blanks, other letters', 'It''s "a" Table', 'stag.ing; --', 'Key "1"', 'värde %s $1', 'O''p', 'pos:1');
SELECT named('reserved words', 'select', 'from', 'order', 'user', 'end', 'table');
SELECT named('words of the statement', 'excluded', 'merge', 'old', 'new', 'returning', 'when');
SELECT named('63 bytes', repeat('t', 63), repeat('s', 63), repeat('k', 63), repeat('v', 63), repeat('o', 63), repeat('p', 63));
SELECT named('63 bytes of longer letters', repeat('ü', 31) || 't', repeat('ü', 31) || 's', repeat('ü', 31) || 'k', repeat('ü', 31) || 'v', repeat('ü', 31) || 'o', repeat('ü', 31) || 'p');
SELECT named('names that differ by case alone', 'name', 'Name', 'NAME', 'nAME', 'naME', 'namE');
SELECT named('every column like a table', 't', 's', 't_', 's', 't', 'e');
SELECT named('names of functions and types', 'cdc_apply', 'cdc_position', 'int', 'text', 'cdc_op', 'cdc_supersedes');
SELECT named('the names of the extension''s parameters', 'target', 'staging', 'key_columns', 'staging_position', 'op_column', 'position');
SELECT named('system columns'' likes', 'ctid', 'xmin', 'oid', 'Ctid', 'XMAX', 'TableOid');
-- one name in two schemas, in the search path and out of it
CREATE SCHEMA staging_kinds_2;
CREATE TABLE twin (id int PRIMARY KEY, v text);
CREATE TABLE staging_kinds_2.twin (op text, id int, v text, source_position cdc_position);
INSERT INTO staging_kinds_2.twin SELECT op, k, 'v' || n, pos FROM happens;
SELECT cdc_attach('twin', 'staging_kinds_2.twin', staging_filter => 'twin.id >= 0');
SELECT applied('twin', 'staging_kinds_2.twin') ~ '^inserted' AS first;
SET search_path = staging_kinds_2, staging_kinds, public;
SELECT expect('found in any search path', counts(r) ~ '^duplicate' || '', 'true') FROM cdc_apply('staging_kinds.twin') r;
SET search_path = staging_kinds, public;
SELECT expect('as plain SQL has it', rows_of('SELECT id, v, source_position FROM twin'),
	rows_of('SELECT id, v, source_position FROM (SELECT DISTINCT ON (id) * FROM staging_kinds_2.twin ORDER BY id, source_position DESC) l WHERE op = ''u'''));

--
-- Row level security: on staging it decides what is an event
--
CREATE ROLE regress_cdc_tenant;
CREATE ROLE regress_cdc_bypass BYPASSRLS;
GRANT USAGE ON SCHEMA staging_kinds TO regress_cdc_tenant, regress_cdc_bypass;
GRANT SELECT, INSERT, UPDATE, DELETE ON item_row, item_table, item_log TO regress_cdc_tenant, regress_cdc_bypass;
ALTER TABLE item_log ENABLE ROW LEVEL SECURITY;
CREATE TABLE whole_log AS TABLE item_log;
CREATE FUNCTION as_role(role text, call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	BEGIN
		EXECUTE call INTO result;
	EXCEPTION WHEN OTHERS THEN
		result := SQLSTATE;
	END;
	RESET ROLE;
	RETURN result;
END $$;
CREATE FUNCTION item_is(what text, filter text, role text DEFAULT 'regress_cdc_tenant', args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint; home text; problems text; got text;
BEGIN
	FOREACH home IN ARRAY '{row,table}'::text[] LOOP
		EXECUTE 'DELETE FROM item_' || home;
		DELETE FROM item_table_tombstones;
		got := as_role(role, format('SELECT events FROM cdc_apply(''item_%s'', ''item_log''%s)', home, args));
		EXECUTE format('SELECT count(*) FROM whole_log WHERE %s', filter) INTO n;
		IF got IS DISTINCT FROM n::text THEN
			problems := concat_ws('; ', problems, format('%s home: events %s, visible %s', home, got, n));
		END IF;
		EXECUTE format('SELECT string_agg(concat_ws('' '', id, v, n, source_position), '','' ORDER BY id) FROM item_%s %s', home, CASE home WHEN 'row' THEN 'WHERE NOT deleted' ELSE '' END) INTO got;
		IF got IS DISTINCT FROM fold(filter) THEN
			problems := concat_ws('; ', problems, home || ' home: ' || coalesce(got, 'nothing') || ', right is ' || fold(filter));
		END IF;
	END LOOP;
	RETURN CASE WHEN problems <> '' THEN 'NOT OK | ' || what || ': ' || problems ELSE 'ok | ' || what END;
END $$;
CREATE FUNCTION fold(filter text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT string_agg(concat_ws('' '', id, v, n, source_position), '','' ORDER BY id) FROM (SELECT DISTINCT ON (id) * FROM whole_log WHERE %s ORDER BY id, source_position DESC) l WHERE op = ''u''', filter) INTO result;
	RETURN result;
END $$;
SELECT item_is('no policy, no event', 'false');
CREATE POLICY a_third ON item_log FOR SELECT USING (id % 3 = 0 AND current_user = 'regress_cdc_tenant');
SELECT item_is('a policy', 'id % 3 = 0');
SELECT item_is('a policy and a filter', 'id % 3 = 0 AND n > 40', args => ', staging_filter => ''n > 40''');
CREATE POLICY late ON item_log AS RESTRICTIVE FOR SELECT USING (n > 20);
SELECT item_is('two policies', 'id % 3 = 0 AND n > 20');
SELECT item_is('a role that passes by', 'true', 'regress_cdc_bypass');
SELECT item_is('the owner', 'true', current_user);
-- who switched it off is told so by the server, and nothing is read
BEGIN;
CREATE TABLE item_before AS SELECT * FROM item_table;
SET LOCAL row_security = off;
SELECT expect('switched off, ' || t, as_role('regress_cdc_tenant', format('SELECT events FROM cdc_apply(%L, ''item_log'')', t)), '42501') FROM unnest('{item_row,item_table}'::text[]) t;
SELECT expect('nothing came of it', rows_of('item_table'), rows_of('item_before'));
ROLLBACK;
CREATE VIEW window_on_log WITH (security_invoker) AS TABLE item_log;
GRANT SELECT ON window_on_log TO regress_cdc_tenant;
SELECT expect('through an invoker''s view', as_role('regress_cdc_tenant', 'SELECT events FROM cdc_apply(''item_row'', ''window_on_log'')'), (SELECT count(*)::text FROM whole_log WHERE id % 3 = 0 AND n > 20));
-- consumed is what may be read and deleted
CREATE POLICY del ON item_log FOR DELETE USING (n > 60);
SELECT expect('what may be deleted is read', as_role('regress_cdc_tenant', 'SELECT events FROM cdc_apply(''item_row'', ''item_log'', consume => ''delete'')'), (SELECT count(*)::text FROM whole_log WHERE id % 3 = 0 AND n > 60));
SELECT expect('and gone, no other', count(*)::text, (SELECT count(*)::text FROM whole_log WHERE NOT (id % 3 = 0 AND n > 60))) FROM item_log;
-- on the target it is refused, in both homes, whatever is in staging; and
-- nothing changes
ALTER TABLE item_row ENABLE ROW LEVEL SECURITY;
ALTER TABLE item_table ENABLE ROW LEVEL SECURITY;
CREATE POLICY everything ON item_row USING (true);
CREATE POLICY everything ON item_table USING (true);
CREATE TABLE nothing (LIKE item_log);
GRANT SELECT ON nothing TO regress_cdc_tenant;
CREATE TABLE item_before AS SELECT tuples_of('item_row') AS in_row, tuples_of('item_table') AS in_table, tuples_of('item_table_tombstones') AS tombstones;
SELECT expect(t || ' from ' || s, as_role('regress_cdc_tenant', format('SELECT events FROM cdc_apply(%L, %L)', t, s)), '0A000') FROM unnest('{item_row,item_table}'::text[]) t, unnest('{item_log,nothing}'::text[]) s;
-- also where the session wants no policies, or the owner asked for them himself
SET row_security = off;
SELECT expect('switched off, ' || t, as_role('regress_cdc_tenant', format('SELECT events FROM cdc_apply(%L, ''nothing'')', t)), '0A000') FROM unnest('{item_row,item_table}'::text[]) t;
RESET row_security;
CREATE ROLE regress_cdc_landlord;
GRANT USAGE ON SCHEMA staging_kinds TO regress_cdc_landlord;
GRANT SELECT ON nothing TO regress_cdc_landlord;
ALTER TABLE item_row OWNER TO regress_cdc_landlord;
ALTER TABLE item_table OWNER TO regress_cdc_landlord;
SELECT expect('not for the owner, ' || t, as_role('regress_cdc_landlord', format('SELECT events FROM cdc_apply(%L, ''nothing'')', t)), '0') FROM unnest('{item_row,item_table}'::text[]) t;
ALTER TABLE item_row FORCE ROW LEVEL SECURITY;
ALTER TABLE item_table FORCE ROW LEVEL SECURITY;
SELECT expect('unless it is forced, ' || t, as_role('regress_cdc_landlord', format('SELECT events FROM cdc_apply(%L, ''nothing'')', t)), '0A000') FROM unnest('{item_row,item_table}'::text[]) t;
SELECT expect('nothing changed', ROW(tuples_of('item_row'), tuples_of('item_table'), tuples_of('item_table_tombstones'))::text, item_before::text) FROM item_before;
SELECT expect('not for who passes by, ' || t, as_role('regress_cdc_bypass', format('SELECT events > 0 FROM cdc_apply(%L, ''item_log'')', t)), 'true') FROM unnest('{item_row,item_table}'::text[]) t;

DROP SCHEMA staging_kinds, staging_kinds_2 CASCADE;
DROP ROLE regress_cdc_tenant, regress_cdc_bypass, regress_cdc_landlord;
