-- Keys whose equality is that of a collation: what is equal to the index is one
-- key, in every home and whatever memory there is.  All that needs ICU is here.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA keys_icu;
SET search_path = keys_icu, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\i :testdir/include/target_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;

CREATE COLLATION no_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);

--
-- In the row
--
CREATE TABLE case_key (name text COLLATE no_case PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
CREATE TABLE case_event (op text, name text, v text, source_position cdc_position);
INSERT INTO case_event VALUES ('c', 'Alice', 'a', '1'), ('u', 'ALICE', 'b', '2'), ('c', 'Bob', 'c', '3'), ('u', 'alice', 'late', '1');
DELETE FROM case_event WHERE v = 'late';
SELECT apply_is('a collation that ignores case', 'case_key', 'case_event', '', 'inserted=2 superseded=1', 'SELECT name COLLATE "C", v FROM case_key', '(ALICE,b) (Bob,c)');
TRUNCATE case_event;
INSERT INTO case_event VALUES ('d', 'bOB', NULL, '4'), ('u', 'alice', 'd', '4');
SELECT apply_is('and again', 'case_key', 'case_event', '', 'updated=1 deleted=1', 'SELECT lower(name COLLATE "C"), v, deleted FROM case_key', '(alice,d,f) (bob,c,t)');
-- many of them, in another order
TRUNCATE case_key, case_event;
INSERT INTO case_event SELECT 'u', CASE i % 3 WHEN 0 THEN upper(n) WHEN 1 THEN lower(n) ELSE initcap(n) END, i::text, cdc_position_from_numbers(i)
FROM (SELECT i, md5((i % 100)::text) AS n FROM generate_series(1, 900) i) s ORDER BY md5(i::text);
SELECT apply_is('900 events of 100 keys', 'case_key', 'case_event', '', 'inserted=100 superseded=800', 'SELECT count(*), min(v::int), max(v::int) FROM case_key', '(100,801,900)');

--
-- Beside the target
--
SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citext') AS have_citext \gset
\if :have_citext
CREATE EXTENSION citext SCHEMA keys_icu;
\set ci citext
\else
\set ci 'text COLLATE no_case'
\endif
CREATE TABLE keyed (v text, a numeric(20, 4), b :ci, c text COLLATE no_case, PRIMARY KEY (c, a, b));
CREATE TABLE keyed_event (op text, a numeric, b text, c text, v text, source_position cdc_position);
SELECT cdc_attach('keyed', 'keyed_event');
SELECT expect('columns of the side table', string_agg(attname, ' ' ORDER BY attnum), 'c a b source_position deleted_at') FROM pg_attribute WHERE attrelid = 'keyed_tombstones'::regclass AND attnum > 0;
SELECT expect('the key as the target has it', count(*)::text, '3')
FROM pg_attribute k JOIN pg_attribute t USING (attname, atttypid, atttypmod, attcollation) WHERE k.attrelid = 'keyed_tombstones'::regclass AND t.attrelid = 'keyed'::regclass AND attname IN ('a', 'b', 'c');
INSERT INTO keyed_event VALUES ('c', 1.0, 'Ab', 'Xy', 'one', '1/1'), ('c', 2, 'Ab', 'Xy', 'two', '1/1');
SELECT applied('keyed', 'keyed_event');
TRUNCATE keyed_event;
INSERT INTO keyed_event VALUES ('d', 1.00, 'AB', 'XY', NULL, '1/2'), ('d', 3, 'q', 'q', NULL, '1/2');
SELECT applied('keyed', 'keyed_event');
SELECT expect('dead in another spelling', rows_of('SELECT c, b, v FROM keyed'), '(Xy,Ab,two)');
TRUNCATE keyed_event;
INSERT INTO keyed_event VALUES ('u', 1, 'ab', 'xy', 'late', '1/1'), ('c', 3.0, 'Q', 'Q', 'three', '1/3'), ('d', 2.000, 'aB', 'xY', NULL, '1/1:1');
SELECT apply_is('found by its own equality', 'keyed', 'keyed_event', '', 'inserted=1 deleted=1 stale=1',
	'SELECT a, b, c, v FROM keyed', '(3.0000,Q,Q,three)');
SELECT expect('one tombstone a key', rows_of('SELECT trunc(a), lower(b::text), lower(c), source_position FROM keyed_tombstones'), '(1,ab,xy,1/2) (2,ab,xy,1/1:1)');

--
-- As one of five columns, in both homes, compared with plain SQL
--
CREATE VIEW happens AS SELECT n, abs(hashint8(n)) % 15 AS k, CASE WHEN abs(hashint8(n + 1000)) % 4 = 0 THEN 'd' ELSE 'u' END AS op,
	cdc_position(pg_lsn '1/0' + (n / 4)::numeric, n % 4) AS pos FROM generate_series(1, 120) n;
SELECT make('five', 'CREATE TABLE %s (v text, a int, b text COLLATE no_case, c uuid, d date, e numeric(9, 3), PRIMARY KEY (e, c, b, a, d))',
	'v text, e numeric, d date, c uuid, b text COLLATE no_case, a bigint');
INSERT INTO five_log SELECT op, CASE WHEN op = 'u' THEN 'v' || n END, 0.500 + k % 2, date '2024-02-28' + k % 3, ('00000000-0000-0000-0000-00000000000' || k % 4)::uuid,
	CASE WHEN n % 2 = 0 THEN 'Straße' ELSE 'STRAßE' END || k % 5, k % 2, pos FROM happens;
SELECT converges('five columns in another order', 'five', 'e; c; b; a; d', 'v');

DROP SCHEMA keys_icu CASCADE;
