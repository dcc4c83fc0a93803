-- cdc_position as text: what is accepted, how it prints, what is refused

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

-- accepted: every spelling of a position prints the same
SELECT n, t, t::cdc_position AS prints
FROM (VALUES
	(1, '16/B374D848'), (2, '16/b374d848'), (3, '0016/B374D848'),
	(4, '16/B374D848:3'), (5, '2@16/B374D848:3'), (6, '0@16/B374D848:0:0'),
	(7, '47:10840633:2'), (8, '39:1880:5:39:1880:3:1'), (9, '0'), (10, '0/0'),
	(11, '0/0:7'), (12, 'FFFFFFFF/FFFFFFFF'), (13, '18446744073709551615'),
	(14, '4294967295@18446744073709551615:18446744073709551615'),
	(15, '1:2:3:4:5:6:7:8'), (16, '1:0:0:0:0:0:0:0'), (17, '007:08'),
	(18, '1:0:3'), (19, '00000000000000000000000000001'), (20, '0/1:0:0:2'),
	(21, '4294967295@FFFFFFFF/FFFFFFFF:18446744073709551615:18446744073709551615:18446744073709551615:18446744073709551615:18446744073709551615:18446744073709551615:18446744073709551615')
) v(n, t)
ORDER BY n;

-- FC15: one LSN in several spellings is one position
SELECT '0/2B40C18'::cdc_position = '0/02B40C18' AS padded,
	'0/2B40C18'::cdc_position = '0/2b40c18' AS lower_case;

-- refused: FC14 (-1), FC15 (padding, bare hex, nine digits) and bad syntax
SELECT n, pg_temp.refused(format('SELECT %L::cdc_position', t))
FROM (VALUES
	(1, ''), (2, ' '), (3, '-1'), (4, '+1'), (5, ' 1'), (6, '1 '), (7, '1.5'), (8, '1e3'),
	(9, '1d4b17068128'), (10, '000000001/0'), (11, '0/000000001'), (12, ' 0/1'), (13, '0/1 '),
	(14, '1/2/3'), (15, '/1'), (16, '1/'), (17, '/'), (18, '0x1/0'), (19, 'G/0'), (20, '-1/0'),
	(21, '1:'), (22, ':1'), (23, '1::2'), (24, '1:-2'), (25, '1: 2'), (26, '1:2/3'), (27, '0/1:A'),
	(28, '@1'), (29, '1@'), (30, '1@2@3'), (31, '-1@2'), (32, '1:2@3'), (33, 'a@1'), (34, '0/1@5'),
	(35, 'NaN'), (36, 'null'), (37, '1,2'), (38, '1' || chr(9))
) v(n, t)
ORDER BY n;

-- out of range; bad syntax weighs more than a value out of range before it
SELECT n, pg_temp.refused(format('SELECT %L::cdc_position', t))
FROM (VALUES
	(1, '18446744073709551616'), (2, '1:18446744073709551616'), (3, '0/0:99999999999999999999999'),
	(4, '4294967296@1'), (5, '4294967296@1:x'), (6, '99999999999999999999x'),
	(7, '1:2:3:4:5:6:7:8:9'), (8, '1:0:0:0:0:0:0:0:0'), (9, '0/1:2:3:4:5:6:7:8:9:x')
) v(n, t)
ORDER BY n;

-- NULL in, NULL out; an array and a row type of positions
SELECT NULL::cdc_position IS NULL AS is_null;
SELECT '{16/B374D848:3,47:2,NULL}'::cdc_position[] AS array_of, ROW('1@0/1'::cdc_position, 1) AS in_row;

-- text round trip of random positions of both kinds
SELECT count(*) AS changed
FROM (
	SELECT concat(CASE WHEN i % 3 = 0 THEN (random() * 4294967294 + 1)::bigint || '@' END,
		CASE WHEN i % 2 = 0 THEN upper(to_hex((random() * 4294967295)::bigint)) || '/' || upper(to_hex((random() * 4294967295)::bigint))
			ELSE (random() * 9223372036854775807)::numeric::text END,
		CASE WHEN i % 5 > 0 THEN ':' || (random() * 1000 + 1)::int END,
		CASE WHEN i % 5 = 1 THEN ':0:' || (random() * 1000000000000 + 1)::bigint END) AS t
	FROM generate_series(1, 3000) i
) s
WHERE t::cdc_position::text <> t;
