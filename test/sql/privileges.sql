-- Who may do what: the documented grants are enough, each of them is needed,
-- whatever is in staging, and what only owners may do.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA privileges;
SET search_path = privileges, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/target_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

CREATE ROLE regress_cdc_owner;
CREATE ROLE regress_cdc_loader;
CREATE ROLE regress_cdc_nobody;
CREATE ROLE regress_cdc_all_data IN ROLE pg_read_all_data, pg_write_all_data;
CREATE SCHEMA privileges_dwh AUTHORIZATION regress_cdc_owner;
CREATE SCHEMA privileges_landing;
-- one command as a role: what it gives, or its SQLSTATE
CREATE FUNCTION as_role(role text, command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text := 'done';
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	BEGIN
		IF command ~* '^\s*select' THEN
			EXECUTE command INTO result;
		ELSE
			EXECUTE command;
		END IF;
	EXCEPTION WHEN OTHERS THEN
		result := SQLSTATE;
	END;
	RESET ROLE;
	RETURN result;
END $$;

-- in either home, by the owner of the targets; staging belongs to another
CREATE TABLE privileges_landing.event (op text, id int, v text, source_position cdc_position);
CREATE TABLE item_log (LIKE privileges_landing.event);
INSERT INTO item_log SELECT CASE WHEN abs(hashint8(n + 1000)) % 3 = 0 THEN 'd' ELSE 'u' END, abs(hashint8(n)) % 17, 'v' || n, cdc_position(pg_lsn '1/0' + n::numeric) FROM generate_series(1, 100) n;
INSERT INTO privileges_landing.event TABLE item_log;
GRANT USAGE ON SCHEMA privileges_landing TO regress_cdc_owner;
SET ROLE regress_cdc_owner;
CREATE TABLE privileges_dwh.item_row (id int PRIMARY KEY, v text, ours text DEFAULT 'ours');
CREATE TABLE privileges_dwh.item_table (id int PRIMARY KEY, v text, ours text DEFAULT 'ours');
SELECT cdc_attach('privileges_dwh.item_row', 'privileges_landing.event', tombstones => 'row');
SELECT cdc_attach('privileges_dwh.item_table', 'privileges_landing.event');
RESET ROLE;
CREATE VIEW item_row AS TABLE privileges_dwh.item_row;
CREATE VIEW item_table AS TABLE privileges_dwh.item_table;
CREATE VIEW item_table_tombstones AS TABLE privileges_dwh.item_table_tombstones;

--
-- Every grant that is documented, together and each one away
--
CREATE TABLE a_grant (home text, by text, args text, what text);
INSERT INTO a_grant
	SELECT h, b, a, w FROM unnest('{row,table}'::text[]) h, unnest('{table,column}'::text[]) b, unnest(ARRAY['', ', consume => ''delete''']) a,
		unnest('{USAGE ON SCHEMA privileges_dwh,USAGE ON SCHEMA privileges_landing}'::text[]) w
	UNION ALL SELECT h, 'table', a, w FROM unnest('{row,table}'::text[]) h, unnest(ARRAY['', ', consume => ''delete''']) a,
		unnest(ARRAY['SELECT ON privileges_landing.event', 'SELECT ON privileges_dwh.item_' || h, 'INSERT ON privileges_dwh.item_' || h, 'UPDATE ON privileges_dwh.item_' || h]) w
	UNION ALL SELECT h, 'column', a, format('%s (%s) ON privileges_dwh.item_%s', p, c, h) FROM unnest('{row,table}'::text[]) h, unnest(ARRAY['', ', consume => ''delete''']) a,
		unnest('{SELECT,INSERT,UPDATE}'::text[]) p, unnest('{id,v,source_position,deleted}'::text[]) c WHERE h = 'row' OR c <> 'deleted'
	UNION ALL SELECT h, 'column', a, format('SELECT (%s) ON privileges_landing.event', c) FROM unnest('{row,table}'::text[]) h, unnest(ARRAY['', ', consume => ''delete''']) a, unnest('{op,id,v,source_position}'::text[]) c
	UNION ALL SELECT 'table', b, a, 'DELETE ON privileges_dwh.item_table' FROM unnest('{table,column}'::text[]) b, unnest(ARRAY['', ', consume => ''delete''']) a
	UNION ALL SELECT h, b, ', consume => ''delete''', 'DELETE ON privileges_landing.event' FROM unnest('{row,table}'::text[]) h, unnest('{table,column}'::text[]) b;

-- what staging holds must not matter: nothing, a log, a replay, what is refused
CREATE FUNCTION whatever_is_staged(home text, args text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	call text := format('SELECT counts(r) FROM cdc_apply(''privileges_dwh.item_%s''%s) r', home, args);
	result text[]; kept text := '';
BEGIN
	TRUNCATE privileges_landing.event;
	result := result || as_role('regress_cdc_loader', call);
	INSERT INTO privileges_landing.event TABLE item_log;
	result := result || as_role('regress_cdc_loader', call);
	TRUNCATE privileges_landing.event;
	INSERT INTO privileges_landing.event SELECT * FROM item_log WHERE op = 'd' LIMIT 1;
	result := result || as_role('regress_cdc_loader', call);
	TRUNCATE privileges_landing.event;
	INSERT INTO privileges_landing.event VALUES ('no op', NULL, NULL, NULL);
	result := result || as_role('regress_cdc_loader', call);
	result := result || as_role('regress_cdc_loader', format('SELECT counts(r) FROM cdc_apply(''privileges_dwh.item_%s'', staging_filter => ''1 / (length(op) - 5) > 0''%s) r', home, args));
	RETURN array_to_string(result, ' | ');
END $$;
GRANT USAGE ON SCHEMA privileges TO regress_cdc_loader;
CREATE FUNCTION each_is_needed(h text, b text, a text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	g record; n int := 0; problems text; got text;
BEGIN
	EXECUTE 'DROP OWNED BY regress_cdc_loader';
	GRANT USAGE ON SCHEMA privileges TO regress_cdc_loader;
	EXECUTE format('DELETE FROM privileges_dwh.item_%s', h);
	DELETE FROM privileges_dwh.item_table_tombstones;
	FOR g IN SELECT what FROM a_grant WHERE (home, by, args) = (h, b, a) LOOP
		EXECUTE 'GRANT ' || g.what || ' TO regress_cdc_loader';
	END LOOP;
	FOR g IN SELECT what FROM a_grant WHERE (home, by, args) = (h, b, a) ORDER BY what COLLATE "C" LOOP
		EXECUTE 'REVOKE ' || g.what || ' FROM regress_cdc_loader';
		got := whatever_is_staged(h, a);
		IF got <> '42501 | 42501 | 42501 | 42501 | 42501' THEN
			problems := concat_ws(E'\n    ', problems, 'without ' || g.what || ': ' || got);
		END IF;
		EXECUTE 'GRANT ' || g.what || ' TO regress_cdc_loader';
		n := n + 1;
	END LOOP;
	got := whatever_is_staged(h, a);
	IF got !~ '^nothing \| inserted=\d+ deleted=\d+ superseded=\d+ \| (stale|duplicate)=1 \| 22023 \| 22012$' THEN
		problems := concat_ws(E'\n    ', problems, 'with all: ' || got);
	END IF;
	problems := concat_ws(E'\n    ', problems, differs('item', h, 'id', 'v'));
	RETURN CASE WHEN problems <> '' THEN 'NOT OK | ' || concat_ws(', ', h, b, a) || E'\n    ' || problems
		ELSE format('ok | %s home, %s grants%s: %s are enough and each is needed', h, b, a, n) END;
END $$;
SELECT each_is_needed(home, by, args) FROM (SELECT DISTINCT home, by, args FROM a_grant) g ORDER BY home, by, args;
-- the side table stays closed to who may apply
SELECT expect(p || ' on the side table', has_table_privilege('regress_cdc_loader', 'privileges_dwh.item_table_tombstones', p)::text, 'false') FROM unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE}'::text[]) p;
-- a column that only the target has needs nothing, one that is excepted nothing either
DROP OWNED BY regress_cdc_loader;
GRANT USAGE ON SCHEMA privileges, privileges_dwh, privileges_landing TO regress_cdc_loader;
GRANT SELECT (id, source_position), INSERT (id, source_position), UPDATE (id, source_position), DELETE ON privileges_dwh.item_table TO regress_cdc_loader;
GRANT SELECT ON privileges_landing.event TO regress_cdc_loader;
TRUNCATE privileges_landing.event;
INSERT INTO privileges_landing.event VALUES ('u', 1, 'x', '3/1');
SELECT expect('a column less', as_role('regress_cdc_loader', 'SELECT counts(r) FROM cdc_apply(''privileges_dwh.item_table'') r'), '42501');
SELECT expect('excepted', as_role('regress_cdc_loader', 'SELECT counts(r) ~ ''^(inserted|updated)=1$'' FROM cdc_apply(''privileges_dwh.item_table'', except_columns => ''{v}'') r'), 'true');
DROP OWNED BY regress_cdc_loader;
GRANT USAGE ON SCHEMA privileges TO regress_cdc_owner, regress_cdc_loader, regress_cdc_nobody, regress_cdc_all_data;

-- the server's roles that read and write everything are enough
DELETE FROM privileges_dwh.item_row;
DELETE FROM privileges_dwh.item_table;
DELETE FROM privileges_dwh.item_table_tombstones;
TRUNCATE privileges_landing.event;
INSERT INTO privileges_landing.event TABLE item_log;
SELECT expect('pg_read_all_data and pg_write_all_data, ' || h, as_role('regress_cdc_all_data', format('SELECT counts(r) ~ ''^inserted=\d+ deleted=\d+ superseded=\d+$'' FROM cdc_apply(''privileges_dwh.item_%s'') r', h)), 'true') FROM unnest('{row,table}'::text[]) h;
SELECT expect('as plain SQL has it, ' || h, differs('item', h, 'id', 'v'), NULL) FROM unnest('{row,table}'::text[]) h;
-- the owner of the target needs SELECT on staging like anybody
SELECT expect('owner of the target, ' || h, as_role('regress_cdc_owner', format('SELECT counts(r) FROM cdc_apply(''privileges_dwh.item_%s'') r', h)), '42501') FROM unnest('{row,table}'::text[]) h;
GRANT SELECT ON privileges_landing.event TO regress_cdc_owner;
SELECT expect('with SELECT, ' || h, as_role('regress_cdc_owner', format('SELECT counts(r) ~ ''^duplicate'' FROM cdc_apply(''privileges_dwh.item_%s'') r', h)), 'true') FROM unnest('{row,table}'::text[]) h;

--
-- Partitions, views, defaults, functions: as in a statement of the caller
--
CREATE TABLE privileges_dwh.parted (id int PRIMARY KEY, v text) PARTITION BY HASH (id);
CREATE TABLE privileges_dwh.parted_0 PARTITION OF privileges_dwh.parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE privileges_dwh.parted_1 PARTITION OF privileges_dwh.parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE VIEW privileges_landing.only_this AS SELECT * FROM privileges_landing.event WHERE id < 10;
SELECT cdc_attach('privileges_dwh.parted', 'privileges_landing.only_this');
GRANT USAGE ON SCHEMA privileges_dwh, privileges_landing TO regress_cdc_loader;
GRANT SELECT, INSERT, UPDATE, DELETE ON privileges_dwh.parted TO regress_cdc_loader;
SELECT expect('no view', as_role('regress_cdc_loader', 'SELECT counts(r) FROM cdc_apply(''privileges_dwh.parted'') r'), '42501');
GRANT SELECT ON privileges_landing.only_this TO regress_cdc_loader;
SELECT expect('the view and the partitioned table are enough', as_role('regress_cdc_loader', 'SELECT counts(r) ~ ''^inserted=\d+'' FROM cdc_apply(''privileges_dwh.parted'') r'), 'true');
SELECT expect('as plain SQL has it', rows_of('privileges_dwh.parted'), rows_of('SELECT id, v, source_position FROM privileges_dwh.item_table WHERE id < 10'));
SELECT expect('not the partition by itself', as_role('regress_cdc_loader', 'SELECT count(*) FROM privileges_dwh.parted_0'), '42501');
-- a default that takes a sequence needs USAGE of it when it is used
CREATE TABLE privileges_dwh.counted (id int PRIMARY KEY, v text, n serial, i int GENERATED ALWAYS AS IDENTITY);
SELECT cdc_attach('privileges_dwh.counted', 'privileges_landing.event');
GRANT SELECT, INSERT, UPDATE, DELETE ON privileges_dwh.counted TO regress_cdc_loader;
GRANT SELECT ON privileges_landing.event TO regress_cdc_loader;
SELECT expect('no sequence', as_role('regress_cdc_loader', 'SELECT counts(r) FROM cdc_apply(''privileges_dwh.counted'') r'), '42501');
SELECT expect('nothing came of it', rows_of('privileges_dwh.counted') || rows_of('privileges_dwh.counted_tombstones'), 'nonenone');
GRANT USAGE ON SEQUENCE privileges_dwh.counted_n_seq TO regress_cdc_loader;
SELECT expect('the sequence', as_role('regress_cdc_loader', 'SELECT counts(r) ~ ''^inserted'' FROM cdc_apply(''privileges_dwh.counted'') r'), 'true');
-- expressions run with the caller's rights, recorded or not
CREATE FUNCTION closed(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE FUNCTION who() RETURNS name LANGUAGE sql STABLE AS 'SELECT current_user';
REVOKE EXECUTE ON FUNCTION closed FROM PUBLIC;
SELECT expect('a function that the caller may not call', as_role('regress_cdc_loader', 'SELECT counts(r) FROM cdc_apply(''privileges_dwh.counted'', staging_filter => ''privileges.closed(op)'') r'), '42501');
SELECT cdc_attach('privileges_dwh.counted', staging_filter => 'closed(op) AND who() = ''regress_cdc_loader''');
SELECT expect('a recorded one', as_role('regress_cdc_loader', 'SELECT counts(r) FROM cdc_apply(''privileges_dwh.counted'') r'), '42501');
GRANT EXECUTE ON FUNCTION closed TO regress_cdc_loader;
SELECT expect('once it may, as itself', as_role('regress_cdc_loader', 'SELECT counts(r) ~ ''^duplicate'' FROM cdc_apply(''privileges_dwh.counted'') r'), 'true');
SELECT expect('nobody else has events', counts(r), 'nothing') FROM cdc_apply('privileges_dwh.counted') r;

--
-- SECURITY DEFINER: who may call the function needs nothing else
--
SELECT expect('nobody, ' || h, as_role('regress_cdc_nobody', format('SELECT counts(r) FROM cdc_apply(''privileges_dwh.item_%s''::regclass) r', h)), '42501') FROM unnest('{row,table}'::text[]) h;
GRANT SELECT, INSERT, UPDATE ON privileges_dwh.item_row TO regress_cdc_loader;
GRANT SELECT, INSERT, UPDATE, DELETE ON privileges_dwh.item_table TO regress_cdc_loader;
CREATE FUNCTION load_items(OUT in_row text, OUT in_table text) LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
	SELECT privileges.counts(r) INTO in_row FROM cdc_apply('privileges_dwh.item_row') r;
	SELECT privileges.counts(r) INTO in_table FROM cdc_apply('privileges_dwh.item_table') r;
END $$;
CREATE FUNCTION load_items_sql() RETURNS SETOF cdc_apply_result LANGUAGE sql SECURITY DEFINER BEGIN ATOMIC
	SELECT (r).* FROM cdc_apply('privileges_dwh.item_table') r;
END;
ALTER FUNCTION load_items OWNER TO regress_cdc_loader;
ALTER FUNCTION load_items_sql OWNER TO regress_cdc_loader;
TRUNCATE privileges_landing.event;
INSERT INTO privileges_landing.event VALUES ('u', 1, 'by wrapper', '4/1'), ('d', 2, NULL, '4/1'), ('d', 77, NULL, '4/1'), ('u', 78, 'new', '4/1');
INSERT INTO item_log TABLE privileges_landing.event;
SELECT expect('through the wrapper', as_role('regress_cdc_nobody', 'SELECT in_row = in_table AND in_row ~ ''deleted=2$'' FROM privileges.load_items()'), 'true');
SELECT expect('as plain SQL has it, ' || h, differs('item', h, 'id', 'v'), NULL) FROM unnest('{row,table}'::text[]) h;
SELECT expect('in SQL', as_role('regress_cdc_nobody', 'SELECT duplicate FROM privileges.load_items_sql()'), '4');
REVOKE DELETE ON privileges_dwh.item_table FROM regress_cdc_loader;
SELECT expect('what its owner may not, it may not', as_role(r, 'SELECT duplicate FROM privileges.load_items_sql()'), '42501') FROM unnest('{regress_cdc_nobody,regress_cdc_owner}'::text[]) r;
-- and the caller's own rights are back after it, an error too
SELECT expect('back again', as_role('regress_cdc_nobody', 'SELECT count(*) FROM privileges_dwh.item_row'), '42501');

--
-- Columns of staging: those that the rule uses, no other; and a dry run needs
-- what a run needs
--
CREATE TABLE privileges_landing.full_event (op text, id int, v text, source_position cdc_position, __unchanged text[], __old_id int, gone boolean, batch int, extra int);
CREATE TABLE privileges_dwh.full_row (id int PRIMARY KEY, v text);
CREATE TABLE privileges_dwh.full_table (id int PRIMARY KEY, v text);
SELECT cdc_attach('privileges_dwh.full_' || h, 'privileges_landing.full_event', tombstones => h, unchanged_column => '__unchanged', delete_flag_column => 'gone', staging_filter => 'batch IS NULL', except_columns => '{extra}')
FROM unnest('{row,table}'::text[]) h;
INSERT INTO privileges_landing.full_event (op, id, v, source_position) TABLE item_log;
GRANT SELECT, INSERT, UPDATE ON privileges_dwh.full_row TO regress_cdc_loader;
GRANT SELECT, INSERT, UPDATE, DELETE ON privileges_dwh.full_table TO regress_cdc_loader;
CREATE FUNCTION with_columns(h text, cols text, args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	REVOKE ALL ON privileges_landing.full_event FROM regress_cdc_loader;
	EXECUTE format('GRANT SELECT (%s) ON privileges_landing.full_event TO regress_cdc_loader', cols);
	RETURN as_role('regress_cdc_loader', format('SELECT counts(r) FROM cdc_apply(''privileges_dwh.full_%s''%s) r', h, args));
END $$;
SELECT expect(h || ' home, without ' || less, with_columns(h, array_to_string(array_remove('{op,id,v,source_position,__unchanged,__old_id,gone,batch}'::text[], less), ', ')), '42501')
FROM unnest('{row,table}'::text[]) h, unnest('{op,id,v,source_position,__unchanged,__old_id,gone,batch}'::text[]) less;
REVOKE INSERT ON privileges_dwh.full_row, privileges_dwh.full_table FROM regress_cdc_loader;
SELECT expect(h || ' home, a dry run', with_columns(h, 'op, id, v, source_position, __unchanged, __old_id, gone, batch', ', dry_run => true'), '42501') FROM unnest('{row,table}'::text[]) h;
GRANT INSERT ON privileges_dwh.full_row, privileges_dwh.full_table TO regress_cdc_loader;
SELECT expect(h || ' home, with all that it uses', with_columns(h, 'op, id, v, source_position, __unchanged, __old_id, gone, batch') ~ '^inserted=\d+ deleted=\d+ superseded=\d+$' || '', 'true') FROM unnest('{row,table}'::text[]) h;
CREATE VIEW full_row AS TABLE privileges_dwh.full_row;
CREATE VIEW full_table AS TABLE privileges_dwh.full_table;
CREATE VIEW full_table_tombstones AS TABLE privileges_dwh.full_table_tombstones;
CREATE VIEW full_log AS TABLE item_log;
SELECT expect('as plain SQL has it, ' || h, differs('full', h, 'id', 'v'), NULL) FROM unnest('{row,table}'::text[]) h;

--
-- Nothing is read before: a staging that counts its readers
--
CREATE SEQUENCE privileges_landing.readers;
CREATE FUNCTION privileges_landing.count_reader() RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$ BEGIN RETURN nextval('privileges_landing.readers') > 0; END $$;
CREATE VIEW privileges_landing.counting AS SELECT * FROM privileges_landing.event WHERE privileges_landing.count_reader();
GRANT SELECT ON privileges_landing.counting TO regress_cdc_loader;
TRUNCATE privileges_landing.event;
INSERT INTO privileges_landing.event VALUES ('u', 500, 'counted', '6/1'), ('d', 1, NULL, '6/1');
CREATE FUNCTION reads_nothing(h text, p text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	was bigint; got text; before text := tuples_of('privileges_dwh.item_' || h) || tuples_of('privileges_dwh.item_table_tombstones');
BEGIN
	GRANT SELECT, INSERT, UPDATE, DELETE ON privileges_dwh.item_row, privileges_dwh.item_table TO regress_cdc_loader;
	EXECUTE format('REVOKE %s ON privileges_dwh.item_%s FROM regress_cdc_loader', p, h);
	SELECT last_value INTO was FROM privileges_landing.readers;
	got := as_role('regress_cdc_loader', format('SELECT counts(r) FROM cdc_apply(''privileges_dwh.item_%s'', ''privileges_landing.counting'') r', h));
	RETURN concat_ws(', ', got, (SELECT format('%s readers', last_value - was) FROM privileges_landing.readers),
		CASE WHEN before = tuples_of('privileges_dwh.item_' || h) || tuples_of('privileges_dwh.item_table_tombstones') THEN 'nothing changed' END);
END $$;
SELECT expect(format('%s home, without %s', h, p), reads_nothing(h, p), '42501, 0 readers, nothing changed') FROM unnest('{row,table}'::text[]) h, unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p WHERE h = 'table' OR p <> 'DELETE';
SELECT expect('with all of them', reads_nothing(h, 'TRUNCATE') ~ '^inserted=1 deleted=1, \d readers$' || '', 'true') FROM unnest('{row,table}'::text[]) h;
INSERT INTO item_log TABLE privileges_landing.event;
SELECT expect('as plain SQL has it, ' || h, differs('item', h, 'id', 'v'), NULL) FROM unnest('{row,table}'::text[]) h;

--
-- What only owners may do, whatever was granted
--
GRANT ALL ON ALL TABLES IN SCHEMA privileges_dwh, privileges_landing TO regress_cdc_loader, regress_cdc_all_data;
GRANT ALL ON SCHEMA privileges_dwh, privileges_landing TO regress_cdc_loader, regress_cdc_all_data;
CREATE TABLE privileges_dwh.fresh (id int PRIMARY KEY, v text);
ALTER TABLE privileges_dwh.fresh OWNER TO regress_cdc_owner;
GRANT ALL ON privileges_dwh.fresh TO regress_cdc_loader, regress_cdc_all_data;
CREATE TABLE owners_call (n int GENERATED ALWAYS AS IDENTITY, call text);
INSERT INTO owners_call (call) VALUES ('cdc_attach(''privileges_dwh.fresh'', ''privileges_landing.event'')'), ('cdc_attach(''privileges_dwh.item_%s'', on_tie => ''upsert'')'), ('cdc_attach(''privileges_dwh.item_%s'', guard => ''error'')'),
	('cdc_set_fence(''privileges_dwh.item_%s'', ''0/10'')'), ('cdc_set_floor(''privileges_dwh.item_%s'', ''0/10'')'), ('cdc_purge_tombstones(''privileges_dwh.item_%s'', ''0/10'')'),
	('cdc_new_epoch(''privileges_dwh.item_%s'', ''another'')'), ('cdc_detach(''privileges_dwh.item_%s'')');
TRUNCATE privileges_landing.event;
SELECT expect(format(call, h) || ' by ' || r, as_role(r, 'SELECT ' || format(call, h)), '42501')
FROM owners_call, unnest('{row,table}'::text[]) h, unnest('{regress_cdc_loader,regress_cdc_all_data}'::text[]) r WHERE call ~ '%' OR h = 'row' ORDER BY n, h, r;
SELECT expect('nothing was done', rows_of('SELECT target, fence, floor, epoch, on_tie, guard FROM cdc_targets WHERE target::text ~ ''item|fresh'''), '(privileges_dwh.item_row,,,0,,off) (privileges_dwh.item_table,,,0,,off)');
CREATE ROLE regress_cdc_member IN ROLE regress_cdc_owner;
GRANT USAGE ON SCHEMA privileges TO regress_cdc_member;
SELECT expect(format(call, h) || ' by a member of the owner', as_role('regress_cdc_member', 'SELECT ' || format(call, h)) ~ '^\d{5}$' || '', 'false')
FROM owners_call, unnest('{row,table}'::text[]) h WHERE call ~ '%' OR h = 'row' ORDER BY n, h;

DROP SCHEMA privileges, privileges_dwh, privileges_landing CASCADE;
DROP OWNED BY regress_cdc_owner, regress_cdc_loader, regress_cdc_nobody, regress_cdc_all_data, regress_cdc_member;
DROP ROLE regress_cdc_owner, regress_cdc_loader, regress_cdc_nobody, regress_cdc_all_data, regress_cdc_member;
