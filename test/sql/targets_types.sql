-- Targets of every make: keys of several columns and of each usual type, what
-- a column can be, constraints and indexes beside the key, as many columns as
-- a table can have, values stored out of line; in both homes, each compared
-- with what plain SQL makes of the same log.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA targets_types;
SET search_path = targets_types, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/target_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
SET TimeZone = 'UTC';

CREATE TYPE colour AS ENUM ('red', 'orange', 'yellow', 'green', 'blue', 'indigo', 'violet');
CREATE DOMAIN code AS varchar(10) COLLATE "C" CHECK (VALUE ~ '^K');
-- n-th event: which key, what it does, at a position of its own
CREATE VIEW happens AS SELECT n, abs(hashint8(n)) % 15 AS k, CASE WHEN abs(hashint8(n + 1000)) % 4 = 0 THEN 'd' ELSE 'u' END AS op,
	cdc_position(pg_lsn '1/0' + (n / 4)::numeric, n % 4) AS pos FROM generate_series(1, 120) n;

--
-- Keys
--
SELECT make('five', 'CREATE TABLE %s (v text, a int, b text COLLATE "C", c uuid, d date, e numeric(9, 3), PRIMARY KEY (e, c, b, a, d))',
	'v text, e numeric, d date, c uuid, b text COLLATE "C", a bigint');
INSERT INTO five_log SELECT op, CASE WHEN op = 'u' THEN 'v' || n END, 0.500 + k % 2, date '2024-02-28' + k % 3, ('00000000-0000-0000-0000-00000000000' || k % 4)::uuid,
	CASE WHEN k % 2 = 0 THEN 'Straße' ELSE 'STRAßE' END || k % 5, k % 2, pos FROM happens;
SELECT converges('five columns in another order', 'five', 'e; c; b; a; d', 'v');

CREATE FUNCTION key_of(type text, expression text, usable boolean DEFAULT true) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	IF usable THEN
		PERFORM make('keyed', format('CREATE TABLE %%s (id %s PRIMARY KEY, v text)', type), format('id %s, v text', type));
		EXECUTE format('INSERT INTO keyed_log SELECT op, %s, CASE WHEN op = ''u'' THEN ''v'' || n END, pos FROM happens', expression);
		result := converges('key of type ' || type, 'keyed', 'id', 'v');
		-- staging has the key as text
		DROP TABLE keyed_row, keyed_table, keyed_event;
		ALTER TABLE keyed_log RENAME TO keyed_typed;
		PERFORM make('keyed', format('CREATE TABLE %%s (id %s PRIMARY KEY, v text)', type), 'id text, v text');
		EXECUTE format('DROP TABLE keyed_log; CREATE TABLE keyed_log (op text, id %s, v text, source_position cdc_position); INSERT INTO keyed_log TABLE keyed_typed', type);
		IF converges('', 'keyed', 'id', 'v') !~ '^ok' THEN
			result := result || E'\n' || converges('the same, text in staging', 'keyed', 'id', 'v');
		END IF;
		DROP TABLE keyed_row, keyed_table, keyed_event, keyed_log, keyed_typed;
	END IF;
	RETURN coalesce(result, format('ok | key of type %s: 120 events, %s deleted keys', type,
		(SELECT count(*) FROM (SELECT DISTINCT ON (k) op FROM happens ORDER BY k, pos DESC) l WHERE op = 'd')));
END $$;
SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citext') AS have_citext \gset
\set ECHO none
\if :have_citext
CREATE EXTENSION citext SCHEMA targets_types;
\endif
\set ECHO all
SELECT key_of(t, e, t <> 'citext' OR :'have_citext') FROM (VALUES
	('int', 'k - 7'), ('bigint', '(k - 7) * 4000000000'), ('numeric', '(k * 1.5)::numeric(20, 1) * (CASE WHEN n % 2 = 0 THEN 1 ELSE 1.000 END)'),
	('citext', 'CASE WHEN n % 2 = 0 THEN ''key'' ELSE ''Key'' END || k'),
	('uuid', 'md5(k::text)::uuid'), ('bytea', 'decode(repeat(''00'', k), ''hex'')'), ('date', 'CASE k WHEN 1 THEN date ''-infinity'' ELSE date ''1999-12-25'' + k END'),
	('timestamptz', 'timestamptz ''2024-03-31 00:30+01'' + k * interval ''15 minutes'''), ('colour', '(enum_range(NULL::colour))[1 + k % 7]'), ('code', '''K'' || k')) v(t, e);

-- keys that no page of an index can hold: the server's error, and nothing written
SELECT make('long', 'CREATE TABLE %s (id text PRIMARY KEY, v text)', 'id text, v text');
INSERT INTO long_log SELECT op, 'short' || k, CASE WHEN op = 'u' THEN 'v' || n END, pos FROM happens;
SELECT converges('short keys', 'long', 'id', 'v');
CREATE TABLE too_long AS SELECT string_agg(sha512(n::text::bytea)::text, '' ORDER BY n) AS id FROM generate_series(1, 30) n;
TRUNCATE long_event;
INSERT INTO long_event SELECT 'u', 'short1', 'good', cdc_position '2/1' UNION ALL SELECT 'u', id, 'bad', '2/2' FROM too_long;
SELECT apply_refused('a key too long, ' || t, t, 'long_event', '', '54000', 'long', '', false) FROM unnest('{long_row,long_table}'::text[]) t;
UPDATE long_event SET op = 'd' WHERE v = 'bad';
SELECT apply_refused('a delete of it, ' || t, t, 'long_event', '', '54000', 'long', '', false) FROM unnest('{long_row,long_table}'::text[]) t;
UPDATE long_event SET id = repeat(id, 20) WHERE v = 'bad';
SELECT apply_refused('longer than any page, ' || t, t, 'long_event', '', '54000', NULL, '', false) FROM unnest('{long_row,long_table}'::text[]) t;
SELECT expect('nothing is left of it, ' || home, differs('long', home, 'id', 'v'), NULL) FROM unnest('{row,table}'::text[]) home;
-- one that compresses is none of them
UPDATE long_event SET id = repeat('x', 20000), op = 'u' WHERE v = 'bad';
INSERT INTO long_log TABLE long_event;
INSERT INTO long_log VALUES ('d', repeat('y', 20000), NULL, '2/3');
SELECT converges('long keys that fit once compressed', 'long', 'id', 'v');

--
-- What a column can be, and what else stands on the table
--
CREATE DOMAIN percent AS numeric(5, 2) DEFAULT 50 NOT NULL CHECK (VALUE BETWEEN 0 AND 100);
SELECT make('rich', $$
	CREATE TABLE %s (id int PRIMARY KEY, always int GENERATED ALWAYS AS IDENTITY, by_default int GENERATED BY DEFAULT AS IDENTITY,
		qty int NOT NULL CHECK (qty >= 0), share percent, total numeric GENERATED ALWAYS AS (qty * 2.5) STORED,
		kind colour NOT NULL DEFAULT 'red', doc jsonb DEFAULT '{}', during int4range, serial int NOT NULL, note text DEFAULT 'none', derived text DEFAULT 'ours',
		UNIQUE (serial) DEFERRABLE INITIALLY DEFERRED, CHECK (kind <> 'violet' OR qty > 1),
		EXCLUDE USING gist (during WITH &&), EXCLUDE USING gist (during WITH =) DEFERRABLE INITIALLY IMMEDIATE);
	CREATE UNIQUE INDEX %s_note ON %s (lower(note)) WHERE note <> 'none' AND qty > 90;
	CREATE INDEX %s_doc ON %s USING gin (doc);
	CREATE INDEX %s_id ON %s USING brin (id, serial) WITH (pages_per_range = 1, autosummarize = off);
	CREATE INDEX %s_total ON %s ((total + qty)) WHERE kind = 'red';
	CREATE INDEX %s_share ON %s (share DESC NULLS FIRST) INCLUDE (qty)$$,
	'id int, always int, by_default int, qty int, share numeric, total numeric, kind text, doc text, during int4range, serial int, note text');
INSERT INTO rich_log SELECT op, k, 1000 + n, 2000 + n, n % 100, n % 101, -1, (enum_range(NULL::colour))[1 + n % 6]::text, '{"n": ' || n || '}', int4range(n * 10, n * 10 + 10), n, 'Note' || n, pos
FROM happens;
SELECT converges('columns and constraints of every kind', 'rich', 'id', 'always; by_default; qty; share::numeric(5,2); qty * 2.5; kind; doc; during; serial; note');
SELECT expect('what only the target has, ' || t, rows_of(format('SELECT DISTINCT derived, total = qty * 2.5 FROM %I', t)), '(ours,t)') FROM unnest('{rich_row,rich_table}'::text[]) t;
SET enable_seqscan = off;
SELECT expect('every index finds it, row', count(*)::text, (SELECT count(*) FROM rich_row WHERE NOT deleted)::text) FROM rich_row r WHERE NOT deleted
	AND EXISTS (SELECT FROM rich_row i WHERE i.doc @> r.doc AND i.id = r.id) AND EXISTS (SELECT FROM rich_row i WHERE i.during && r.during AND i.id = r.id)
	AND EXISTS (SELECT FROM rich_row i WHERE i.serial = r.serial AND i.id = r.id) AND EXISTS (SELECT FROM rich_row i WHERE i.share = r.share AND i.id = r.id);
SELECT expect('every index finds it, side table', count(*)::text, (SELECT count(*) FROM rich_table)::text) FROM rich_table r
	WHERE EXISTS (SELECT FROM rich_table i WHERE i.doc @> r.doc AND i.id = r.id) AND EXISTS (SELECT FROM rich_table i WHERE i.during && r.during AND i.id = r.id)
	AND EXISTS (SELECT FROM rich_table i WHERE i.serial = r.serial AND i.id = r.id) AND EXISTS (SELECT FROM rich_table i WHERE i.share = r.share AND i.id = r.id);
RESET enable_seqscan;
-- each refuses what it should, in both homes, and nothing is written
CREATE FUNCTION rich_refuses(what text, change text, state text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	TRUNCATE rich_event;
	INSERT INTO rich_event SELECT 'u', i, 5000 + i, 6000 + i, 95, 5, NULL, 'red', '{}', int4range(i * 100000, i * 100000 + 5), 7000 + i, 'fresh' || i, cdc_position('3/1', i) FROM generate_series(50, 51) i;
	EXECUTE 'UPDATE rich_event SET ' || change || ' WHERE id = 51';
	SELECT string_agg(apply_refused(what || ', ' || t, t, 'rich_event', '', state, NULL, '', false), E'\n') INTO result FROM unnest('{rich_row,rich_table}'::text[]) t;
	RETURN result;
END $$;
SELECT rich_refuses('CHECK', 'qty = -1', '23514');
SELECT rich_refuses('CHECK of two columns', 'kind = ''violet'', qty = 1', '23514');
SELECT rich_refuses('NOT NULL', 'qty = NULL', '23502');
SELECT rich_refuses('domain', 'share = 100.01', '23514');
SELECT rich_refuses('domain NOT NULL', 'share = NULL', '23502');
SELECT rich_refuses('enum', 'kind = ''pink''', '22P02');
SELECT rich_refuses('jsonb', 'doc = ''{''', '22P02');
SELECT rich_refuses('exclusion', 'during = ''[5000003,5000004]''', '23P01');
SELECT rich_refuses('partial unique expression', 'note = ''FRESH50''', '23505');
-- a deferrable one is checked at the end of the transaction
BEGIN;
UPDATE rich_event SET serial = 7050, note = 'other' WHERE id = 51;
SELECT expect('not yet, ' || t, applied(t, 'rich_event'), 'inserted=2') FROM unnest('{rich_row,rich_table}'::text[]) t;
SELECT refused('then', 'SET CONSTRAINTS ALL IMMEDIATE', '23505', NULL, '', false);
ROLLBACK;
-- unique values swapped in one batch, by the deferrable constraint
TRUNCATE rich_log;
INSERT INTO rich_log SELECT 'u', i, 100 + i, 200 + i, 5, 5, NULL, 'red', '{}', int4range(i * 100000, i * 100000 + 5), i, 'v', cdc_position('4/1', i) FROM generate_series(60, 69) i;
INSERT INTO rich_log SELECT 'u', id, always, by_default, 6, share, NULL, kind, doc, during, 129 - serial, 'w', cdc_position('4/2', id) FROM rich_log;
DELETE FROM rich_row;
DELETE FROM rich_table;
DELETE FROM rich_table_tombstones;
SELECT converges('ten rows swap their unique values', 'rich', 'id', 'always; by_default; qty; serial; note');

--
-- 1,600 columns: target, staging, and one too many
--
SELECT string_agg('c' || n || ' int', ', ') AS cols, string_agg('c' || n, '; ') AS names, string_agg(CASE WHEN n % 3 = 0 THEN 'NULL' ELSE 'n + ' || n END, ', ') AS vals FROM generate_series(1, 1597) n \gset wide_
SET client_min_messages = error;
\set ECHO none
SELECT make('wide', 'CREATE TABLE %s (id int PRIMARY KEY, ' || :'wide_cols' || ')', 'id int, ' || :'wide_cols');
INSERT INTO wide_log SELECT op, k % 7, :wide_vals, pos FROM happens WHERE n <= 24;
SELECT converges('1,600 columns', 'wide', 'id', 'c1; c2; c3; c800; c1596; c1597');
SELECT expect('the last of them, ' || home, differs('wide', home, 'id', 'ARRAY[' || replace((SELECT string_agg('c' || n, ', ') FROM generate_series(1, 1597) n), ';', ',') || ']'), NULL)
FROM unnest('{row,table}'::text[]) home;
\set ECHO all
SELECT expect('as many as can be', string_agg(relnatts::text, ' ' ORDER BY relname), '1600 1600 1599') FROM pg_class WHERE relname IN ('wide_row', 'wide_table', 'wide_event') AND relnamespace = 'targets_types'::regnamespace;
ALTER TABLE wide_table ADD c1598 int;
SELECT expect('one more, by hand', applied('wide_table', 'wide_event'), (SELECT counts(r) FROM cdc_apply('wide_row', 'wide_event', dry_run => true) r));
\set ECHO none
SELECT format('CREATE TABLE full_up (id int PRIMARY KEY, %s, c1598 int, c1599 int)', :'wide_cols') \gexec
\set ECHO all
SELECT refused('no room for a position', 'SELECT cdc_attach(''full_up'', ''wide_event'')', '54011', NULL, '', false);
SET client_min_messages = warning;

--
-- A value out of line is kept without being written again
--
CREATE FUNCTION body(i int) RETURNS text LANGUAGE sql AS $$ SELECT string_agg(sha512((i * 1000 + n)::text::bytea)::text, '') FROM generate_series(1, 100) n $$;
SELECT make('big', 'CREATE TABLE %s (id int PRIMARY KEY, n int, body text); ALTER TABLE %s ALTER body SET STORAGE EXTERNAL', 'id int, n int, body text, __unchanged text[]', ', unchanged_column => ''__unchanged''');
INSERT INTO big_log SELECT 'c', i, 0, body(i), NULL, cdc_position('1/0', i) FROM generate_series(1, 5) i;
INSERT INTO big_event TABLE big_log;
SELECT expect('first, ' || t, applied(t, 'big_event'), 'inserted=5') FROM unnest('{big_row,big_table}'::text[]) t;
CREATE FUNCTION chunks(rel regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || md5(string_agg(concat_ws('','', chunk_id, chunk_seq, ctid, xmin), '' '' ORDER BY chunk_id, chunk_seq)) FROM %s',
		(SELECT reltoastrelid::regclass FROM pg_class WHERE oid = rel)) INTO result;
	RETURN result;
END $$;
SELECT chunks('big_row') AS row_before, chunks('big_table') AS table_before \gset
TRUNCATE big_event;
INSERT INTO big_event SELECT 'u', i, 1, NULL, '{body}', cdc_position('1/1', i) FROM generate_series(1, 2) i;
INSERT INTO big_event SELECT 'u', i, 1, '__debezium_unavailable_value', NULL, cdc_position('1/1', i) FROM generate_series(3, 4) i;
SELECT expect('kept, ' || t, applied(t, 'big_event') || rows_of(format('SELECT id, n, md5(body) = md5(body(id)) FROM %I', t)), 'updated=4(1,1,t) (2,1,t) (3,1,t) (4,1,t) (5,0,t)') FROM unnest('{big_row,big_table}'::text[]) t;
SELECT expect('no chunk was written, in the row', chunks('big_row'), :'row_before');
SELECT expect('no chunk was written, side table', chunks('big_table'), :'table_before');
TRUNCATE big_event;
INSERT INTO big_event VALUES ('d', 5, NULL, NULL, NULL, '1/2');
SELECT expect('nor by a delete that keeps the row, ' || t, applied(t, 'big_event'), 'deleted=1') FROM unnest('{big_row,big_table}'::text[]) t;
SELECT expect('in the row', chunks('big_row'), :'row_before');
SET client_min_messages = error;
-- and the rest of it is as plain SQL has it
INSERT INTO big_log SELECT 'u', id, 1, body, NULL, cdc_position('1/1', id) FROM big_log WHERE id < 5;
INSERT INTO big_log TABLE big_event;
SELECT converges('values out of line', 'big', 'id', 'n; body');

DROP SCHEMA targets_types CASCADE;
