-- latest_by_position: the value at the greatest position

\set VERBOSITY terse
CREATE FUNCTION pg_temp.refused(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	state text; message text; det text; hint text;
BEGIN
	EXECUTE query;
	RETURN 'not refused';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		det = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', state, message, nullif(det, ''), nullif(hint, ''));
END $$;

-- a NULL value can win; no position never beats a real one
SELECT latest_by_position(v, p::cdc_position) AS plain FROM (VALUES ('a', '0/1'), ('c', '0/3'), ('b', '0/2')) t(v, p);
SELECT latest_by_position(v, p::cdc_position) IS NULL AS null_wins FROM (VALUES ('a', '0/1'), (NULL, '0/3'), ('b', '0/2')) t(v, p);
SELECT latest_by_position(v, p::cdc_position) AS real_wins
FROM (VALUES ('z', NULL), ('a', '0/1'), ('y', '0/0'), ('x', '9@0/0:7')) t(v, p);
-- FC14: where no row has a real position the result is NULL
SELECT latest_by_position(v, p::cdc_position) IS NULL AS none FROM (VALUES ('z', NULL), ('y', '0/0'), ('x', '9@0/0:7')) t(v, p);
SELECT latest_by_position(1, '0/1'::cdc_position) IS NULL AS no_rows WHERE false;
SELECT latest_by_position(v, p::cdc_position) AS number_zero_is_real FROM (VALUES ('z', NULL), ('a', '0')) t(v, p);
-- epochs and ordinals
SELECT latest_by_position(v, p::cdc_position) AS epoch FROM (VALUES ('old', 'FF/FFFFFFFF'), ('new', '1@0/1')) t(v, p);
SELECT latest_by_position(v, p::cdc_position) AS ordinal FROM (VALUES ('b', '0/1:10'), ('a', '0/1:9'), ('c', '0/1')) t(v, p);
-- an LSN is a position
SELECT latest_by_position(v, l) AS by_lsn FROM (VALUES ('a', '9/FFFFFFF0'::pg_lsn), ('b', '10/10')) t(v, l);

-- FC33: kinds do not mix; rows without a position are of no kind
SELECT pg_temp.refused($$SELECT latest_by_position(p, p::cdc_position) FROM unnest('{0/2B40C18,17}'::text[]) p$$) AS mixed;
SELECT pg_temp.refused($$SELECT latest_by_position(p, p::cdc_position) FROM unnest('{17,0/2B40C18}'::text[]) p$$) AS turned_round;
SELECT latest_by_position(p, p::cdc_position) AS none_mixes FROM unnest('{0/0,17,NULL,3@0/0:1,16}'::text[]) p;

-- equal positions: the greater image wins, NULL lowest, in any order of input
CREATE TEMP TABLE ties (n int, i int, t text, u uuid, b bytea, a int[], f float8, o boolean, m name);
INSERT INTO ties VALUES
	(1, 5, 'b', '00000000-0000-0000-0000-000000000002', '\x0102', '{1,2}', 2.5, true, 'm'),
	(2, 7, 'bb', '00000000-0000-0000-0000-000000000001', '\x01', '{1,3}', 1.5, false, 'mm'),
	(3, 6, 'a', 'f0000000-0000-0000-0000-000000000001', '\x0101ff', '{1}', 0, NULL, 'a'),
	(4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT latest_by_position(i, '0/1' ORDER BY n) AS i, latest_by_position(t, '0/1' ORDER BY n) AS t,
	latest_by_position(u, '0/1' ORDER BY n) AS u, latest_by_position(b, '0/1' ORDER BY n) AS b,
	latest_by_position(o, '0/1' ORDER BY n) AS o, latest_by_position(m, '0/1' ORDER BY n) AS m
FROM ties;
SELECT bool_and(same) AS order_does_not_matter
FROM (
	SELECT (latest_by_position(i, '0/1' ORDER BY n), latest_by_position(t, '0/1' ORDER BY n), latest_by_position(u, '0/1' ORDER BY n),
			latest_by_position(a, '0/1' ORDER BY n), latest_by_position(f, '0/1' ORDER BY n), latest_by_position(ties, '0/1' ORDER BY n))
		IS NOT DISTINCT FROM
		(latest_by_position(i, '0/1' ORDER BY md5(n::text || s)), latest_by_position(t, '0/1' ORDER BY md5(n::text || s)),
			latest_by_position(u, '0/1' ORDER BY md5(n::text || s)), latest_by_position(a, '0/1' ORDER BY md5(n::text || s)),
			latest_by_position(f, '0/1' ORDER BY md5(n::text || s)), latest_by_position(ties, '0/1' ORDER BY md5(n::text || s))) AS same
	FROM ties, generate_series(1, 40) s GROUP BY s
) t;
SELECT latest_by_position(v, '0/1') IS NULL AS only_nulls FROM (VALUES (NULL::text), (NULL)) t(v);

-- types: by value, by reference, short, compressed, moved out of line, composite, domain, enum
CREATE TYPE agg_mood AS ENUM ('low', 'high');
CREATE DOMAIN agg_positive AS int CHECK (VALUE > 0);
CREATE TYPE agg_pair AS (x int, y text);
CREATE DOMAIN agg_pair_domain AS agg_pair;
CREATE TABLE agg_types (n int, i2 smallint, i8 bigint, f4 float4, c "char", ts timestamptz, iv interval, num numeric,
	e agg_mood, d agg_positive, pair agg_pair, pd agg_pair_domain, j jsonb, arr text[], rng int4range, m name, big text, wide text, pos cdc_position);
ALTER TABLE agg_types ALTER big SET STORAGE external;
INSERT INTO agg_types
SELECT n, n, n * 10000000000, n / 4.0, chr(64 + n), '2026-01-01Z'::timestamptz + n * interval '1 day', n * interval '1 hour', n / 3.0,
	CASE WHEN n % 2 = 0 THEN 'low' ELSE 'high' END::agg_mood, n, ROW(n, 'y' || n)::agg_pair, ROW(n, repeat('z', 3000))::agg_pair_domain,
	jsonb_build_object('n', n), ARRAY['a', n::text, NULL], int4range(n, n + 5), 'name' || n,
	repeat(md5(n::text), 200), repeat('w', 10000 + n), cdc_position('0/1', (n * 7) % 11)
FROM generate_series(1, 10) n;
SET timezone = 'UTC'; SET datestyle = ISO;
SELECT latest_by_position(n, pos) AS n, latest_by_position(i2, pos) AS i2, latest_by_position(i8, pos) AS i8, latest_by_position(f4, pos) AS f4,
	latest_by_position(c, pos) AS c, latest_by_position(ts, pos) AS ts, latest_by_position(iv, pos) AS iv, latest_by_position(num, pos)::numeric(9,3) AS num,
	latest_by_position(e, pos) AS e, latest_by_position(d, pos) AS d, latest_by_position(pair, pos) AS pair, (latest_by_position(pd, pos)).x,
	latest_by_position(j, pos) AS j, latest_by_position(arr, pos) AS arr, latest_by_position(rng, pos) AS rng, latest_by_position(m, pos) AS m
FROM agg_types;
SELECT latest_by_position(big, pos) = repeat(md5('3'), 200) AS big, length(latest_by_position(wide, pos)) AS wide,
	latest_by_position(pos, pos) AS pos FROM agg_types;
SELECT pg_typeof(latest_by_position(e, pos)), pg_typeof(latest_by_position(d, pos)), pg_typeof(latest_by_position(arr, pos)) FROM agg_types;

-- whole rows: (latest_by_position(c, c.pos)).*, dropped and added columns included
CREATE TABLE changes (id int, gone int, name text, deleted boolean, pos cdc_position);
INSERT INTO changes VALUES (1, 0, 'old layout', false, '0/1'), (2, 0, 'two', false, '0/2');
ALTER TABLE changes DROP gone, ADD added text DEFAULT 'd';
INSERT INTO changes VALUES (1, 'a', false, '0/5', 'x'), (1, 'b', false, '0/4', NULL), (2, NULL, true, '0/9', NULL), (3, 'c', false, NULL, NULL), (4, 'd', false, '0/1', 'q');
SELECT id AS key, (latest_by_position(c, c.pos)).* FROM changes c GROUP BY c.id ORDER BY key;
SELECT latest_by_position(c, c.pos) FILTER (WHERE id = 3) IS NULL AS no_real_row FROM changes c;
-- deletes are filtered after picking the latest: filtered before, key 2 comes back to life
SELECT key, (r).name FROM (SELECT id AS key, latest_by_position(c, c.pos) AS r FROM changes c GROUP BY id) s WHERE NOT (r).deleted ORDER BY key;
SELECT id AS wrong FROM changes c WHERE NOT deleted GROUP BY id ORDER BY id;
-- anonymous records
SELECT latest_by_position(ROW(id, name), pos) AS r FROM changes;
SELECT latest_by_position(ROW(id, name), '0/1' ORDER BY id, name) = latest_by_position(ROW(id, name), '0/1' ORDER BY id DESC, name DESC) AS same FROM changes;

-- a tie between equal rows, one stored compressed and one not, and of rows that differ after the compressed part
CREATE TABLE squeezed (a text, b int);
INSERT INTO squeezed VALUES (repeat('x', 5000), 1);
ALTER TABLE squeezed ALTER a SET STORAGE external;
INSERT INTO squeezed VALUES (repeat('x', 5000), 2), (repeat('x', 5000), 0);
SELECT (latest_by_position(s, '0/1' ORDER BY b)).b AS up, (latest_by_position(s, '0/1' ORDER BY b DESC)).b AS down,
	length(latest_by_position(a, '0/1')) AS length FROM squeezed s;

-- expanded arrays and rows built by PL/pgSQL
CREATE FUNCTION grown(n int) RETURNS int[] LANGUAGE plpgsql AS
$$ DECLARE a int[] := '{}'; BEGIN FOR i IN 1..n LOOP a[i] := i; END LOOP; RETURN a; END $$;
CREATE FUNCTION made(n int) RETURNS agg_pair LANGUAGE plpgsql AS $$ DECLARE p agg_pair; BEGIN p.x := n; p.y := repeat('q', n); RETURN p; END $$;
SELECT latest_by_position(grown(n), cdc_position_from_numbers(n % 7)) AS grown, latest_by_position(made(n), cdc_position_from_numbers(n % 7)) AS made
FROM generate_series(1, 6) n;

-- windows: the state survives its results
SELECT n, latest_by_position(v, p::cdc_position) OVER (ORDER BY n) AS running,
	latest_by_position(v, p::cdc_position) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS sliding,
	latest_by_position(v, p::cdc_position) OVER () AS whole,
	lag(n) OVER (ORDER BY n) AS other
FROM (VALUES (1, 'a', '0/1'), (2, 'a much longer value than that', '0/5'), (3, 'b', NULL), (4, 'c', '0/3'), (5, 'd', '0/7'), (6, NULL, '0/8')) t(n, v, p)
ORDER BY n;
SELECT array_agg(r ORDER BY n) FROM (
	SELECT n, latest_by_position(repeat(chr(64 + n), n), cdc_position_from_numbers(n)) OVER (ORDER BY n) AS r FROM generate_series(1, 5) n) s;

-- DISTINCT, ORDER BY, FILTER, GROUPING SETS
SELECT latest_by_position(DISTINCT v, p ORDER BY v, p) AS distinct_ordered, latest_by_position(v, p) FILTER (WHERE v < 'c') AS filtered
FROM (VALUES ('a', '0/1'::cdc_position), ('c', '0/3'), ('b', '0/2'), ('c', '0/3')) t(v, p);
SELECT n % 2 AS odd, n % 3 AS third, latest_by_position(n, pos) FROM agg_types
GROUP BY GROUPING SETS ((n % 2), (n % 3), ()) ORDER BY odd NULLS LAST, third NULLS LAST;

-- hashed and sorted grouping against DISTINCT ON, many keys, values of changing length
CREATE TABLE many AS
SELECT i % 997 AS key, CASE WHEN i % 11 > 0 THEN repeat(md5(i::text), i % 5) END AS value,
	CASE WHEN i % 13 > 0 THEN cdc_position(('0/' || to_hex((i * 7919::bigint) % 100003))::pg_lsn, i % 3, epoch => i % 2) END AS pos
FROM generate_series(1, 40000) i;
CREATE TEMP TABLE expected AS
SELECT DISTINCT ON (key) key, value FROM many WHERE pos IS NOT NULL AND NOT pos <= '0/0' ORDER BY key, pos DESC, value COLLATE "C" DESC NULLS LAST;
SET enable_sort = off; SET work_mem = '64kB';
CREATE TEMP TABLE by_hash AS SELECT key, latest_by_position(value, pos) AS value FROM many GROUP BY key;
RESET enable_sort;
SET enable_hashagg = off;
CREATE TEMP TABLE by_sort AS SELECT key, latest_by_position(value, pos) AS value FROM many GROUP BY key;
RESET enable_hashagg; RESET work_mem;
SELECT (SELECT count(*) FROM (TABLE expected EXCEPT TABLE by_hash) e) AS hash_differs,
	(SELECT count(*) FROM (TABLE expected EXCEPT TABLE by_sort) e) AS sort_differs, count(*) AS keys FROM by_hash;

-- support functions are not for calling by hand: recent minors do not even find them (42883)
SELECT left(pg_temp.refused('SELECT latest_by_position_final(NULL, 1, ''0/1'')'), 5) IN ('0A000', '42883') AS refused_by_hand;

-- serialized states are checked byte by byte: hostile ones are refused (22P03) and never crash
CREATE FUNCTION read_state(bytea) RETURNS bigint LANGUAGE c STRICT AS '$libdir/cdc_precedence', 'latest_by_position_deserial';
CREATE AGGREGATE reads_state(bytea) (SFUNC = byteacat, STYPE = bytea, INITCOND = '', FINALFUNC = read_state);
CREATE FUNCTION verdict(state bytea) RETURNS text LANGUAGE plpgsql AS
$$ BEGIN PERFORM reads_state(state); RETURN 'read'; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
SELECT n, what, verdict(state) FROM (VALUES
	(1, 'int4 5 at 0/1', '\x000000170009000000000000000001'::bytea || '\x0000000000000005'),
	(2, 'NULL int4 at 0/1', '\x000000170109000000000000000001'),
	(3, 'NULL with a value', '\x00000017010900000000000000000105'),
	(4, 'nothing', '\x'), (5, 'no position', '\x000000170000'), (6, 'no value', '\x000000170009000000000000000001'),
	(7, 'no such type', '\xfffffff00109000000000000000001'), (8, 'type 0', '\x000000000109000000000000000001'),
	(9, 'no real position', '\x000000170109000000000000000000'), (10, 'position too long', '\x0000001701ff000000000000000001'),
	(11, 'position not canonical', '\x00000017010a00000000000000000100'), (12, 'unknown flag', '\x000000170209000000000000000001'),
	(13, 'int4 of 4 bytes', '\x00000017000900000000000000000100000005'), (14, 'text without a length', '\x000000190009000000000000000001ff'),
	(15, 'text longer than said', '\x00000019000900000000000000000110000000616263'), (16, 'toast pointer', '\x000000190009000000000000000001011200000000000000000000000000000000000000'),
	(17, 'short text', '\x00000019000900000000000000000109616263'), (18, 'uuid of 3 bytes', '\x00000b860009000000000000000001010203'),
	(19, 'cut row', '\x000008c9000900000000000000000110000000'), (20, 'cut name', '\x0000001300090000000000000000016162')
) v(n, what, state) ORDER BY n;
SELECT verdict(set_byte(s, at, b)) AS verdict, count(*) > 0 AS seen
FROM (VALUES ('\x000000170009000000000000000001'::bytea || '\x0000000000000005'), ('\x0000001900090000000000000000011c000000616263'::bytea)) v(s),
	generate_series(0, 14) at, generate_series(0, 255, 5) b
WHERE at <> 3 GROUP BY 1 ORDER BY 1;
SELECT verdict(substr(s, 1, n)) AS verdict, count(*) FROM (VALUES ('\x000000170009000000000000000001'::bytea || '\x0000000000000005')) v(s),
	generate_series(0, 23) n GROUP BY 1 ORDER BY 1;
DROP AGGREGATE reads_state(bytea);
DROP FUNCTION read_state(bytea), verdict(bytea);

DROP TABLE agg_types, changes, squeezed, many;
DROP FUNCTION grown(int), made(int);
DROP TYPE agg_mood, agg_positive, agg_pair_domain, agg_pair;
