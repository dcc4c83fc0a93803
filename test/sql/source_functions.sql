-- positions out of binlog coordinates, LSNs of SQL Server, SCNs of Oracle, change sequence numbers of BigQuery, rivet

\set VERBOSITY terse
CREATE FUNCTION pg_temp.try(expression text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text; state text; message text; det text; hint text;
BEGIN
	EXECUTE 'SELECT coalesce((' || expression || ')::text, ''NULL'')' INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		det = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', state, message, nullif(det, ''), nullif(hint, ''));
END $$;
CREATE FUNCTION pg_temp.try_all(expressions text[]) RETURNS TABLE (expression text, result text) LANGUAGE sql AS $$
	SELECT e, pg_temp.try(e) FROM unnest($1) WITH ORDINALITY u (e, n) ORDER BY n
$$;

-- what each one is
SELECT p.oid::regprocedure AS function, provolatile, proisstrict, proparallel, prorettype::regtype, obj_description(p.oid, 'pg_proc') IS NOT NULL AS commented
FROM pg_proc p WHERE proname ~ '^cdc_position_(from|to)_(binlog|sqlserver|oracle|change_seq|rivet|debezium)' ORDER BY proname COLLATE "C";

-- binlog coordinates
SELECT * FROM pg_temp.try_all(ARRAY[
	$$cdc_position_from_binlog('mysql-bin.000047', 10840633)$$,
	$$cdc_position_from_binlog('mysql-bin.000047', 10840633, 2)$$,
	$$cdc_position_from_binlog('binlog.47', 4)$$,
	$$cdc_position_from_binlog('/var/lib/mysql/mysql-bin.000047', 4, 0)$$,
	$$cdc_position_from_binlog('db2.eu.000003', 5)$$,
	$$cdc_position_from_binlog('2026-01-02.000007', 5)$$,
	$$cdc_position_from_binlog('000047', 5)$$,
	$$cdc_position_from_binlog('b.18446744073709551615', 18446744073709551615, 18446744073709551615)$$,
	$$cdc_position_from_binlog('b.1', 4.0)$$,
	$$cdc_position_from_binlog(NULL, 4)$$,
	$$cdc_position_from_binlog('b.1', NULL)$$,
	$$cdc_position_from_binlog('b.1', 4, NULL)$$,
	$$cdc_position_from_binlog('b.18446744073709551616', 4)$$,
	$$cdc_position_from_binlog('b.1', -4)$$,
	$$cdc_position_from_binlog('b.1', 4, 0.5)$$,
	$$cdc_position_from_binlog('b.1', 'NaN')$$,
	$$cdc_position_from_binlog('mysql-bin', 4)$$,
	$$cdc_position_from_binlog('mysql-bin.index', 4)$$,
	$$cdc_position_from_binlog('', 4)$$,
	$$cdc_position_from_binlog('b.000001 ', 4)$$,
	$$cdc_position_from_binlog('b.000001:4', 4)$$,
	$$cdc_position_from_binlog(repeat('x', 200), 4)$$]);
-- a GTID is no place in a log
SELECT * FROM pg_temp.try_all(ARRAY[
	$$cdc_position_from_binlog('3E11FA47-71CA-11E1-9E33-C80AA9429562:23', 4)$$,
	$$cdc_position_from_binlog('3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:11-18', 4)$$,
	$$cdc_position_from_binlog(' 3e11fa47-71ca-11e1-9e33-c80aa9429562:1,4e11fa47-71ca-11e1-9e33-c80aa9429562:7', 4)$$,
	$$cdc_position_from_binlog('3e11fa47-71ca-11e1-9e33-c80aa9429562', 4)$$,
	$$cdc_position_from_binlog('0-1-4711', 4)$$,
	$$cdc_position_from_binlog('0-1-4711,1-1-12', 4)$$,
	$$cdc_position_from_binlog('MySQL56/3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5', 4)$$,
	$$'3e11fa47-71ca-11e1-9e33-c80aa9429562:23'::cdc_position$$,
	$$'0-1-4711'::cdc_position$$,
	$$cdc_position_from_rivet('{"gtid": "0-1-4711"}')$$]);

-- SQL Server
SELECT * FROM pg_temp.try_all(ARRAY[
	$$cdc_position_from_sqlserver('00000027:00000758:0005', '00000027:00000758:0003', 1)$$,
	$$cdc_position_from_sqlserver('0x00000027000007580005', '0x00000027000007580003', 1)$$,
	$$cdc_position_from_sqlserver('00000027000007580005', '00000027:00000758:0003', 1)$$,
	$$cdc_position_from_sqlserver('0000002a:0000ABCD:fFfF')$$,
	$$cdc_position_from_sqlserver('0X0000002A0000abcdFFFF', NULL, 7)$$,
	$$cdc_position_from_sqlserver('ffffffff:ffffffff:ffff', 'ffffffff:ffffffff:ffff', 18446744073709551615)$$,
	$$cdc_position_from_sqlserver('00000027:00000758:0005', '00000027:00000758:0003', NULL)$$,
	$$cdc_position_from_sqlserver(NULL, '00000027:00000758:0003', 1)$$,
	$$cdc_position_from_sqlserver('0x' || encode('\x0000002700000758ffff'::bytea, 'hex'))$$,
	$$cdc_position_from_sqlserver('27:758:5')$$,
	$$cdc_position_from_sqlserver('00000027:00000758')$$,
	$$cdc_position_from_sqlserver('00000027:00000758:0005', '0x000000270000075800')$$,
	$$cdc_position_from_sqlserver('00000027:00000758:00050')$$,
	$$cdc_position_from_sqlserver('0000002700000758:0005')$$,
	$$cdc_position_from_sqlserver('0x00000027:00000758:0005')$$,
	$$cdc_position_from_sqlserver('39000000188000005')$$,
	$$cdc_position_from_sqlserver('NULL')$$,
	$$cdc_position_from_sqlserver('')$$,
	$$cdc_position_from_sqlserver(' 00000027:00000758:0005')$$,
	$$cdc_position_from_sqlserver('0000002g:00000758:0005')$$,
	$$cdc_position_from_sqlserver('00000027:00000758:0005', NULL, -1)$$]);

-- Oracle
SELECT * FROM pg_temp.try_all(ARRAY[
	$$cdc_position_from_oracle(2122185)$$,
	$$cdc_position_from_oracle(2122185, ' 0x00009a.0000d8b7.0010 ', 1)$$,
	$$cdc_position_from_oracle(2122185, '0x9A.D8B7.10', 1)$$,
	$$cdc_position_from_oracle(2122185, '00009a.0000d8b7.0010')$$,
	$$cdc_position_from_oracle(2122185, NULL, 1)$$,
	$$cdc_position_from_oracle(2122185, '   ', NULL)$$,
	$$cdc_position_from_oracle('18446744073709551615'::numeric)$$,
	$$cdc_position_from_oracle(NULL, ' 0x00009a.0000d8b7.0010 ', 1)$$,
	$$cdc_position_from_oracle(18446744073709551616)$$,
	$$cdc_position_from_oracle(-1)$$,
	$$cdc_position_from_oracle(1, NULL, -1)$$,
	$$cdc_position_from_oracle(1, '0x00009a.0000d8b7')$$,
	$$cdc_position_from_oracle(1, '0x00009a.0000d8b7.0010.1')$$,
	$$cdc_position_from_oracle(1, 'AAASjEAAFAAAAC7AAA')$$]);

-- change sequence numbers, both ways
SELECT * FROM pg_temp.try_all(ARRAY[
	$$cdc_position_from_change_sequence_number('0')$$,
	$$cdc_position_from_change_sequence_number('1F/a0/0/3')$$,
	$$cdc_position_from_change_sequence_number('0000000000000012/0/0')$$,
	$$cdc_position_from_change_sequence_number('FFFFFFFFFFFFFFFF/ffffffffffffffff/FFFFFFFFFFFFFFFF/FFFFFFFFFFFFFFFF')$$,
	$$cdc_position_from_change_sequence_number('16B374D848/3', true)$$,
	$$cdc_position_from_change_sequence_number('0/3', true)$$,
	$$cdc_position_from_change_sequence_number(NULL)$$,
	$$cdc_position_from_change_sequence_number('1', NULL)$$,
	$$cdc_position_from_change_sequence_number('')$$,
	$$cdc_position_from_change_sequence_number('/')$$,
	$$cdc_position_from_change_sequence_number('1/')$$,
	$$cdc_position_from_change_sequence_number('/1')$$,
	$$cdc_position_from_change_sequence_number('1//2')$$,
	$$cdc_position_from_change_sequence_number('1/2/3/4/5')$$,
	$$cdc_position_from_change_sequence_number('10000000000000000')$$,
	$$cdc_position_from_change_sequence_number('-1')$$,
	$$cdc_position_from_change_sequence_number('0x1')$$,
	$$cdc_position_from_change_sequence_number(' 1')$$,
	$$cdc_position_from_change_sequence_number('g')$$,
	$$cdc_position_to_change_sequence_number('0')$$,
	$$cdc_position_to_change_sequence_number('16/B374D848:3')$$,
	$$cdc_position_to_change_sequence_number('FFFFFFFF/FFFFFFFF:18446744073709551615:0:10')$$,
	$$cdc_position_to_change_sequence_number('31:160:0:3')$$,
	$$cdc_position_to_change_sequence_number('0/0')$$,
	$$cdc_position_to_change_sequence_number(NULL)$$,
	$$cdc_position_to_change_sequence_number('1@16/B374D848')$$,
	$$cdc_position_to_change_sequence_number('1:2:3:4:5')$$,
	$$cdc_position_to_change_sequence_number('0/1:2:3:4:5')$$]);

-- rivet: the commit's coordinates, and the change's number after them
SELECT * FROM pg_temp.try_all(ARRAY[
	$$cdc_position_from_rivet('{"file": "binlog.000047", "pos": 10840633}')$$,
	$$cdc_position_from_rivet('{"file":"binlog.000047","pos":10840633}'::text::jsonb, 2)$$,
	$$cdc_position_from_rivet('{"file": "binlog.1000000", "pos": "4"}', 0)$$,
	$$cdc_position_from_rivet('{"lsn": "3D/484A4908"}', 7)$$,
	$$cdc_position_from_rivet('{"lsn": "3d/484a4908"}')$$,
	$$cdc_position_from_rivet('{"lsn": "0000002d000000d80194"}', 2)$$,
	$$cdc_position_from_rivet('{"lsn": "0000002D:000000D8:0194", "pinned": true}')$$,
	$$cdc_position_from_rivet('null')$$,
	$$cdc_position_from_rivet(NULL, 2)$$,
	$$cdc_position_from_rivet('{"lsn": "3D/484A4908"}', NULL)$$,
	$$cdc_position_from_rivet('{"lsn": "3D/484A4908"}', -1)$$,
	$$cdc_position_from_rivet('{"lsn": "3D/484A4908:5"}')$$,
	$$cdc_position_from_rivet('{"lsn": "2@3D/484A4908"}')$$,
	$$cdc_position_from_rivet('{"lsn": "3D/"}')$$,
	$$cdc_position_from_rivet('{"lsn": "12345"}')$$,
	$$cdc_position_from_rivet('{"lsn": 12345}')$$,
	$$cdc_position_from_rivet('{"file": "binlog", "pos": 4}')$$,
	$$cdc_position_from_rivet('{"file": "binlog.1", "pos": -4}')$$,
	$$cdc_position_from_rivet('{"file": "binlog.1", "pos": "x"}')$$,
	$$cdc_position_from_rivet('{"file": "binlog.1"}')$$,
	$$cdc_position_from_rivet('{"file": null, "pos": 4}')$$,
	$$cdc_position_from_rivet('{"_data": "8265A1B2C3000000022B0429296E1404"}')$$,
	$$cdc_position_from_rivet('{}')$$,
	$$cdc_position_from_rivet('[1]')$$,
	$$cdc_position_from_rivet('"{\"lsn\": \"3D/484A4908\"}"')$$]);

-- order and values against an independent recomputation, over random coordinates near each other
SELECT setseed(0.25);
CREATE TEMP TABLE coordinates AS
SELECT n, a, b, c, d, decode(lpad(to_hex(b::bigint), 8, '0') || lpad(to_hex(c::bigint), 8, '0') || lpad(to_hex(d::bigint), 4, '0'), 'hex') AS lsn
FROM (SELECT n, (floor(random() * 3) * 999999 + floor(random() * 3))::numeric AS a, floor(random() * 16 ^ (n % 9))::numeric AS b,
		floor(random() * 16 ^ (n % 5))::numeric AS c, floor(random() * 3)::numeric AS d
	FROM generate_series(1, 400) n) v;
CREATE TEMP TABLE positions AS
SELECT *, cdc_position_from_binlog('bin.' || CASE n % 3 WHEN 0 THEN a::text ELSE lpad(a::text, 7, '0') END, b, c) AS binlog,
	cdc_position_from_sqlserver(CASE n % 3 WHEN 0 THEN '0x' || encode(lsn, 'hex') WHEN 1 THEN upper(encode(lsn, 'hex'))
		ELSE regexp_replace(encode(lsn, 'hex'), '(.{8})(.{8})', '\1:\2:') END, '0x00000001000000020003', a) AS sqlserver,
	cdc_position_from_oracle(a, format(' 0x%s.%s.%s ', lpad(to_hex(b::bigint), 8, '0'), to_hex(c::bigint), '0010'), d) AS oracle,
	cdc_position_from_change_sequence_number(concat_ws('/', to_hex(a::bigint), upper(to_hex(b::bigint)), lpad(to_hex(c::bigint), 16, '0'), to_hex(d::bigint))) AS csn,
	cdc_position_from_rivet(jsonb_build_object('file', 'bin.' || lpad(a::text, 7, '0'), 'pos', b), d) AS rivet_binlog,
	cdc_position_from_rivet(jsonb_build_object('lsn', (pg_lsn '0/0' + b * 65536 + c)::text), d) AS rivet_lsn
FROM coordinates;
SELECT count(*) AS pairs,
	count(*) FILTER (WHERE (x.binlog < y.binlog) <> ((x.a, x.b, x.c) < (y.a, y.b, y.c))) AS binlog,
	count(*) FILTER (WHERE (x.sqlserver < y.sqlserver) <> ((x.lsn, x.a) < (y.lsn, y.a))) AS sqlserver,
	count(*) FILTER (WHERE (x.oracle < y.oracle) <> ((x.a, x.b, x.c, x.d) < (y.a, y.b, y.c, y.d))) AS oracle,
	count(*) FILTER (WHERE (x.csn < y.csn) <> (ARRAY[x.a, x.b, x.c, x.d] < ARRAY[y.a, y.b, y.c, y.d])) AS csn,
	count(*) FILTER (WHERE (x.rivet_binlog < y.rivet_binlog) <> ((x.a, x.b, x.d) < (y.a, y.b, y.d))) AS rivet_binlog,
	count(*) FILTER (WHERE (x.rivet_lsn < y.rivet_lsn) <> ((x.b * 65536 + x.c, x.d) < (y.b * 65536 + y.c, y.d))) AS rivet_lsn,
	count(*) FILTER (WHERE (x.binlog = y.binlog) <> ((x.a, x.b, x.c) = (y.a, y.b, y.c))) AS equal
FROM positions x, positions y;
SELECT count(*) FILTER (WHERE binlog <> cdc_position_from_numbers(a, b, c)) AS binlog,
	count(*) FILTER (WHERE sqlserver <> cdc_position_from_numbers(b, c, d, 1, 2, 3, a)) AS sqlserver,
	count(*) FILTER (WHERE oracle <> cdc_position_from_numbers(a, b, c, 16, d)) AS oracle,
	count(*) FILTER (WHERE csn <> cdc_position_from_numbers(a, b, c, d)) AS csn,
	count(*) FILTER (WHERE rivet_binlog <> cdc_position_from_numbers(a, b, d)) AS rivet_binlog,
	count(*) FILTER (WHERE rivet_lsn <> cdc_position(pg_lsn '0/0' + b * 65536 + c, d::bigint)) AS rivet_lsn
FROM positions;

-- change sequence numbers: there and back is the identity, and the texts keep the order section by section
CREATE TEMP TABLE there AS
SELECT p, cdc_position_to_change_sequence_number(p) AS csn, cdc_position_parts(p) AS parts
FROM (SELECT csn FROM positions UNION ALL SELECT rivet_lsn FROM positions UNION ALL SELECT cdc_position(pg_lsn '0/0' + b, c::bigint, d::bigint) FROM coordinates
	UNION ALL SELECT unnest('{0,0/0,18446744073709551615,FFFFFFFF/FFFFFFFF,0/1:0:0:18446744073709551615}'::cdc_position[])) v(p);
SELECT count(*), count(*) FILTER (WHERE cdc_position_from_change_sequence_number(csn, p < '0') <> p) AS changed,
	count(*) FILTER (WHERE csn !~ '^(0|[1-9A-F][0-9A-F]{0,15})(/(0|[1-9A-F][0-9A-F]{0,15})){0,3}$') AS malformed,
	count(*) FILTER (WHERE csn <> (SELECT string_agg(upper(regexp_replace(lpad(to_hex(div(v, 4294967296)::bigint), 8, '0')
		|| lpad(to_hex((v % 4294967296)::bigint), 8, '0'), '^0+(?=.)', '')), '/' ORDER BY n) FROM unnest(parts) WITH ORDINALITY u (v, n))) AS other_text
FROM there;
SELECT count(*) AS pairs,
	count(*) FILTER (WHERE (cdc_position_from_change_sequence_number(x.csn) < cdc_position_from_change_sequence_number(y.csn))
		<> (x.p < y.p)) AS other_order
FROM there x JOIN there y ON (x.p < '0') = (y.p < '0');

-- rollover, and a guard of one's own
SELECT cdc_supersedes(cdc_position_from_binlog('bin.1000000', 4), cdc_position_from_binlog('bin.999999', 900)) AS rollover,
	cdc_supersedes(cdc_position_from_binlog('bin.000010', 4), cdc_position_from_binlog('bin.9', 900)) AS unpadded,
	cdc_supersedes(cdc_position_from_binlog('bin.000010', 4, 1), cdc_position_from_binlog('bin.10', 4)) AS row_of_event,
	cdc_supersedes(cdc_position_from_sqlserver('00000027:00000758:0010'), cdc_position_from_sqlserver('0x00000027000007580009')) AS hexadecimal;

-- usable where only immutable functions are
CREATE TABLE source_generated (file text, pos bigint, position cdc_position GENERATED ALWAYS AS (cdc_position_from_binlog(file, pos)) STORED);
CREATE INDEX ON source_generated (cdc_position_to_change_sequence_number(position));
INSERT INTO source_generated VALUES ('b.000009', 5), ('b.000010', 4), (NULL, 4);
SELECT * FROM source_generated ORDER BY position;
DROP TABLE source_generated;
