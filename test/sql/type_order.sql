-- the order of positions: kind, epoch, then the parts, numerically

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

-- one total order
SELECT string_agg(p::text, ' < ' ORDER BY p) AS in_order
FROM unnest('{47:5,2@0/1,F/FFFFFFFF,10/0,10/0:2,10/0:10,10/0:9:1,0,1@0,47,46:99999,0/0,0/0:1,3@5,
	FFFFFFFF/FFFFFFFF,256@0/1,255@0/1,18446744073709551615,255,256,256:0:1,256:1}'::cdc_position[]) p;

-- FC15: LSNs compare as numbers, not as text
SELECT '10/00000010'::cdc_position > '9/FFFFFFF0' AS a, '5/00000010'::cdc_position > '4/FFFFFF00' AS b,
	'F/0'::cdc_position < '10/0' AS c;

-- FC34: a missing part is 0, and never makes a comparison NULL
SELECT '7'::cdc_position = '7:0:0' AS same, '7'::cdc_position < '7:0:1' AS lower,
	'7:5'::cdc_position > '7' AS greater, '16/1'::cdc_position = '16/1:0' AS lsn_same;

-- FC33: the operators answer across kinds, LSN-headed below number-headed
SELECT 'FFFFFFFF/FFFFFFFF'::cdc_position < '0' AS lt, '0/1'::cdc_position = '1' AS eq,
	'9@0/1'::cdc_position < '0' AS epoch_too, '0/1'::cdc_position <> '1' AS ne;

-- every pair of a list of edge cases against the order of (kind, epoch, parts)
CREATE TEMP TABLE edge AS
SELECT concat(e || '@', h, p)::cdc_position AS pos, h LIKE '%/%' AS is_lsn, coalesce(e, 0)::numeric AS epoch
FROM unnest('{NULL,1,126,127,128,255,256,65536,4294967295}'::bigint[]) e,
	unnest('{0/0,0/1,0/FF,0/100,3FFFFF/FFFFFFFF,400000/0,400000/1,400000/8,FFFFFFFF/FFFFFFFF,0,1,255,256,65535,
		16777216,72057594037927935,72057594037927936,18446744073709551615}'::text[]) h,
	unnest('{"",:1,:255,:256,:510,:511,:512,:65536,:0:1,:1:1,:18446744073709551615}'::text[]) p;
CREATE TEMP TABLE ranked AS
SELECT pos, row_number() OVER (ORDER BY NOT is_lsn, epoch, cdc_position_part(pos, 1),
	cdc_position_part(pos, 2), cdc_position_part(pos, 3)) AS rank
FROM edge;
SELECT count(*) AS positions, count(DISTINCT pos) AS distinct_positions FROM ranked;

-- the sort abbreviates keys, the operators compare in full: both agree
SELECT count(*) AS out_of_order
FROM (SELECT rank, row_number() OVER (ORDER BY pos) AS n FROM ranked) s WHERE rank <> n;
SELECT count(*) AS out_of_order
FROM (SELECT rank, row_number() OVER (ORDER BY pos DESC) AS n, count(*) OVER () AS c FROM ranked) s WHERE rank <> c + 1 - n;
SELECT count(*) AS wrong_pairs
FROM ranked a, ranked b
WHERE (a.rank < b.rank) <> (a.pos < b.pos) OR (a.rank <= b.rank) <> (a.pos <= b.pos)
	OR (a.rank > b.rank) <> (a.pos > b.pos) OR (a.rank >= b.rank) <> (a.pos >= b.pos)
	OR (a.rank = b.rank) <> (a.pos = b.pos) OR (a.rank <> b.rank) <> (a.pos <> b.pos)
	OR sign(a.rank - b.rank) <> cdc_position_cmp(a.pos, b.pos);

-- random positions against the order of rows of numbers
SELECT count(*) AS out_of_order
FROM (
	SELECT row_number() OVER (ORDER BY a, b, c) AS by_row,
		row_number() OVER (ORDER BY cdc_position_from_numbers(a, b, c)) AS by_position
	FROM (SELECT DISTINCT floor(random() * 300)::numeric AS a, floor(random() * 70000)::numeric AS b,
		floor(random() * 3)::numeric AS c FROM generate_series(1, 20000)) s
) t
WHERE by_row <> by_position;

-- few distinct positions, many rows: abbreviation gives up and nothing changes
SELECT count(*) AS out_of_order
FROM (
	SELECT pos, lag(pos) OVER (ORDER BY pos) AS previous
	FROM (SELECT cdc_position('0/1', i % 3 + 600) AS pos FROM generate_series(1, 60000) i OFFSET 0) s
) t
WHERE previous > pos;

-- min and max
SELECT min(pos) = '0/0' AS least, max(pos) AS greatest, min(pos) FILTER (WHERE false) IS NULL AS of_none FROM edge;

-- equal values are equal bytes and have equal hashes
SELECT count(*) AS wrong
FROM (VALUES ('7:0:0', '7'), ('0@16/0A', '16/A'), ('16/A:0', '0016/a'), ('1@0/0:0', '1@0/0')) v(a, b)
WHERE NOT (a::cdc_position = b::cdc_position AND cdc_position_send(a::cdc_position) = cdc_position_send(b::cdc_position)
	AND cdc_position_hash(a::cdc_position) = cdc_position_hash(b::cdc_position)
	AND cdc_position_hash_extended(a::cdc_position, 42) = cdc_position_hash_extended(b::cdc_position, 42));
SELECT count(DISTINCT cdc_position_hash(pos)) > count(*) * 0.99 AS spread,
	count(DISTINCT cdc_position_hash_extended(pos, 1)) > count(*) * 0.99 AS spread_extended,
	bool_or(cdc_position_hash_extended(pos, 1) <> cdc_position_hash_extended(pos, 2)) AS seeded
FROM edge;
-- core's rule: seed 0 gives the low half the plain hash
SELECT count(*) AS wrong FROM edge
WHERE (cdc_position_hash_extended(pos, 0) & 4294967295) <> (cdc_position_hash(pos)::bigint & 4294967295);

-- pg_lsn meets cdc_position
SELECT '16/B374D848:1'::cdc_position > '16/B374D848'::pg_lsn AS gt, '16/B'::pg_lsn = '16/B'::cdc_position AS eq,
	coalesce(NULL::cdc_position, '0/9'::pg_lsn) AS resolved, '0/9'::pg_lsn - '0/1'::pg_lsn AS own_operator;
