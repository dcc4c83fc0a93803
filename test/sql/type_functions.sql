-- constructors, casts, pieces and the law's comparison

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

-- cdc_position(lsn, ordinal, sub_ordinal, epoch): NULL lsn gives NULL, other NULLs are 0
SELECT cdc_position('16/B374D848'::pg_lsn) AS lsn, cdc_position('16/B374D848'::pg_lsn, 3) AS ordinal,
	cdc_position('16/B374D848', 3, 4) AS sub_ordinal, cdc_position('16/B374D848', 3, 4, 2) AS epoch,
	cdc_position('16/B374D848', 0, 4) AS gap, cdc_position('16/B374D848', epoch => 5) AS named;
SELECT cdc_position(NULL::pg_lsn, 3, 4, 2) IS NULL AS null_lsn, cdc_position('0/1', NULL, NULL, NULL) AS null_rest,
	cdc_position('0/1', 9223372036854775807) AS greatest;
SELECT cdc_position('2@47:5') AS from_literal;
SELECT n, pg_temp.refused(q) FROM (VALUES
	(1, $$SELECT cdc_position('0/1'::pg_lsn, -1)$$),
	(2, $$SELECT cdc_position('0/1'::pg_lsn, 0, -1)$$),
	(3, $$SELECT cdc_position('0/1'::pg_lsn, 0, 0, -1)$$),
	(4, $$SELECT cdc_position('0/1'::pg_lsn, 0, 0, 4294967296)$$),
	(5, $$SELECT cdc_position_with_epoch('0/1', -1)$$),
	(6, $$SELECT cdc_position_with_epoch('0/1', 4294967296)$$)) v(n, q)
ORDER BY n;

-- cdc_position_from_numbers: whole numbers, NULL part gives NULL
SELECT cdc_position_from_numbers(47, 10840633, 2) AS binlog, cdc_position_from_numbers(0) AS zero,
	cdc_position_from_numbers(18446744073709551615, 18446744073709551615) AS greatest,
	cdc_position_from_numbers(5.00, 1e3) AS whole, cdc_position_from_numbers(7, 0, 0) AS trailing_zeros,
	cdc_position_from_numbers(VARIADIC '{1,2,3,4,5,6,7,8}') AS eight;
-- FC34: a missing component is not read as before or after: the position is NULL
SELECT cdc_position_from_numbers(1, NULL, 3) IS NULL AS null_part,
	cdc_position_from_numbers(VARIADIC NULL) IS NULL AS null_array, cdc_position_from_numbers(NULL) IS NULL AS only_null;
SELECT n, pg_temp.refused(q) FROM (VALUES
	(1, $$SELECT cdc_position_from_numbers(-1)$$),
	(2, $$SELECT cdc_position_from_numbers(1.5)$$),
	(3, $$SELECT cdc_position_from_numbers(18446744073709551616)$$),
	(4, $$SELECT cdc_position_from_numbers('NaN')$$),
	(5, $$SELECT cdc_position_from_numbers('Infinity')$$),
	(6, $$SELECT cdc_position_from_numbers(1, 0.5)$$),
	(7, $$SELECT cdc_position_from_numbers(VARIADIC '{}')$$),
	(8, $$SELECT cdc_position_from_numbers(1,2,3,4,5,6,7,8,9)$$),
	(9, $$SELECT cdc_position_from_numbers(VARIADIC '{{1,2},{3,4}}')$$)) v(n, q)
ORDER BY n;

-- epochs
SELECT cdc_position_with_epoch('16/B:3', 2) AS set, cdc_position_with_epoch('2@16/B:3', 0) AS removed,
	cdc_position_with_epoch('7@47:5', 4294967295) AS greatest,
	cdc_position_with_epoch('1/0', 2) > 'FFFFFFFF/FFFFFFFF'::cdc_position AS outranks,
	cdc_position_with_epoch(NULL, 1) IS NULL AND cdc_position_with_epoch('0/1', NULL) IS NULL AS strict;

-- pieces
SELECT p, cdc_position_epoch(p) AS epoch, cdc_position_part(p, 1) AS part1, cdc_position_part(p, 2) AS part2,
	cdc_position_part(p, 8) AS part8, cdc_position_parts(p) AS parts
FROM unnest('{16/B374D848:3,2@FFFFFFFF/FFFFFFFF,47:18446744073709551615:2,0,0/0,1:2:3:4:5:6:7:8}'::cdc_position[]) p
ORDER BY p;
SELECT cdc_position_lsn('2@16/B374D848:3') AS lsn, cdc_position_from_numbers(VARIADIC cdc_position_parts('47:5:2')) AS back,
	cdc_position_lsn(NULL) IS NULL AND cdc_position_epoch(NULL) IS NULL AND cdc_position_parts(NULL) IS NULL
	AND cdc_position_part(NULL, 1) IS NULL AND cdc_position_part('1', NULL) IS NULL AS strict;
SELECT n, pg_temp.refused(q) FROM (VALUES
	(1, $$SELECT cdc_position_part('1', 0)$$), (2, $$SELECT cdc_position_part('1', 9)$$),
	(3, $$SELECT cdc_position_part('1', -1)$$), (4, $$SELECT cdc_position_lsn('47:5')$$)) v(n, q)
ORDER BY n;

-- casts: from pg_lsn implicit, to pg_lsn by assignment and only without loss
CREATE TEMP TABLE lsns (l pg_lsn, p cdc_position);
INSERT INTO lsns VALUES ('16/B374D848'::cdc_position, '16/B374D848'::pg_lsn);
SELECT l, p, l = p AS equal, '0/0'::cdc_position::pg_lsn = '0/0' AS zero, 'FFFFFFFF/FFFFFFFF'::cdc_position::pg_lsn AS greatest FROM lsns;
SELECT n, pg_temp.refused(q) FROM (VALUES
	(1, $$SELECT '16/B:3'::cdc_position::pg_lsn$$), (2, $$SELECT '2@16/B'::cdc_position::pg_lsn$$),
	(3, $$SELECT '47'::cdc_position::pg_lsn$$), (4, $$INSERT INTO lsns (l) VALUES ('0/1:1'::cdc_position)$$)) v(n, q)
ORDER BY n;

-- cdc_supersedes: never NULL
SELECT n, a AS incoming, b AS stored, cdc_supersedes(a::cdc_position, b::cdc_position)
FROM (VALUES
	(1, '16/2', '16/1'), (2, '16/1', '16/2'), (3, '16/1', '16/1'), (4, '16/1:1', '16/1'), (5, '1@0/1', '16/1'),
	(6, '16/1', NULL), (7, NULL, '16/1'), (8, NULL, NULL), (9, '47:5', '47:4'), (10, '0', NULL),
	-- FC14: 0/0 is no position whatever its epoch and ordinal: it never wins and always loses
	(11, '0/0', '16/1'), (12, '16/1', '0/0'), (13, '0/0', '0/0'), (14, '0/0', NULL), (15, '9@0/0:9', '0/1'),
	(16, '0/1', '9@0/0:9'), (17, '9@0/0:9', '0/0'), (18, '0', '0/0'), (19, '0/0', '0'), (20, '9@0/0', '5')
) v(n, a, b)
ORDER BY n;
-- FC33: one kind is not weighed against the other
SELECT pg_temp.refused($$SELECT cdc_supersedes('0/1', '5')$$) AS a;
SELECT pg_temp.refused($$SELECT cdc_supersedes('1@5:2', '0/1:3')$$) AS b;

-- nothing is without a comment, and everything may run in a parallel worker
SELECT p.oid::regprocedure AS uncommented FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'cdc_precedence'
WHERE obj_description(p.oid, 'pg_proc') IS NULL AND (p.proname LIKE 'cdc\_position%' OR p.proname LIKE 'latest%')
ORDER BY 1;
SELECT p.oid::regprocedure AS unsafe FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'cdc_precedence'
WHERE (p.proparallel <> 's' OR p.provolatile <> 'i') AND (p.proname LIKE 'cdc\_position%' OR p.proname LIKE 'latest%' OR p.proname = 'cdc_supersedes')
ORDER BY 1;
