-- cdc_position on the wire and on disk

\set VERBOSITY terse

CREATE TEMP TABLE sent AS
SELECT n, t::cdc_position AS pos, cdc_position_send(t::cdc_position) AS bytes
FROM (VALUES (1, '16/B374D848'), (2, '16/B374D848:3'), (3, '2@16/B374D848:3'), (4, '47:10840633:2'), (5, '0'),
	(6, '0/0'), (7, '256'), (8, '1:0:3'), (9, '4294967295@18446744073709551615')) v(n, t);
SELECT n, pos, bytes FROM sent ORDER BY n;

-- a round trip through COPY BINARY
CREATE TABLE round_trip (n int, pos cdc_position);
INSERT INTO round_trip SELECT n, pos FROM sent UNION ALL SELECT 10, NULL;
INSERT INTO round_trip
SELECT 100 + i, cdc_position_with_epoch(cdc_position_from_numbers(i, i * 7919::bigint % 10007, i % 3), i % 5)
FROM generate_series(1, 1000) i;
INSERT INTO round_trip
SELECT 2000 + i, cdc_position(('0/' || to_hex(i * 1000))::pg_lsn, i % 7, i % 2, i % 300) FROM generate_series(1, 1000) i;
\copy round_trip TO 'results/type_binary.bin' WITH (FORMAT binary)
CREATE TABLE came_back (LIKE round_trip);
\copy came_back FROM 'results/type_binary.bin' WITH (FORMAT binary)
SELECT count(*) AS rows, count(*) FILTER (WHERE a.pos IS DISTINCT FROM b.pos
	OR cdc_position_send(a.pos) IS DISTINCT FROM cdc_position_send(b.pos)) AS changed
FROM round_trip a JOIN came_back b USING (n);

-- on disk: an LSN with a small ordinal takes at most 16 bytes, header included
CREATE TABLE on_disk (pos cdc_position);
INSERT INTO on_disk VALUES ('16/B374D848'), ('16/B374D848:3'), ('FFFFFFFF/FFFFFFFF:65535'), ('2@16/B374D848:3');
SELECT pos, pg_column_size(pos) AS bytes, pg_column_size(pos) <= 16 AS small FROM on_disk ORDER BY pos;

-- stored among neighbours of odd lengths: no alignment is assumed
CREATE TABLE neighbours (a text, pos cdc_position, b text, pos2 cdc_position);
INSERT INTO neighbours
SELECT repeat('x', i), cdc_position_from_numbers(i, 1), repeat('y', i % 3), cdc_position('0/FF', i) FROM generate_series(0, 9) i;
SELECT count(*) AS right_ones FROM neighbours
WHERE pos = cdc_position_from_numbers(length(a), 1) AND pos2 = cdc_position('0/FF', length(a)) AND pos2 < pos;

-- a stored value that is compressed or moved out of line reads the same
CREATE TABLE toasted (n int, pos cdc_position, filler text);
ALTER TABLE toasted ALTER pos SET STORAGE external, ALTER filler SET STORAGE plain;
INSERT INTO toasted
SELECT i, ('9@0/' || i || repeat(':18446744073709551615', 7))::cdc_position, repeat('x', 1990) FROM generate_series(1, 5) i;
SELECT pg_relation_size(reltoastrelid) > 0 AS moved_out FROM pg_class WHERE oid = 'toasted'::regclass;
SELECT n, cdc_position_lsn(pos) - '0/0'::pg_lsn AS lsn, cdc_position_part(pos, 8), pos > '9@0/3' AS above, cdc_position_hash(pos) = cdc_position_hash(pos::text::cdc_position) AS hash
FROM toasted ORDER BY pos DESC;
SELECT max(pos) = (SELECT pos FROM toasted WHERE n = 5) AS greatest, cdc_supersedes(max(pos), min(pos)) FROM toasted;

-- bytes that are no position are refused one and all (22P03)
CREATE TABLE wire (bytes bytea);
CREATE TABLE received (pos cdc_position);
\set VERBOSITY terse
\echo no bytes
TRUNCATE wire; INSERT INTO wire VALUES ('\x');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\set VERBOSITY sqlstate
\echo valid: LSN 0/1
TRUNCATE wire; INSERT INTO wire VALUES ('\x000000000000000001');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo reserved format bit
TRUNCATE wire; INSERT INTO wire VALUES ('\x80000000000000000001');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo reserved bit 3
TRUNCATE wire; INSERT INTO wire VALUES ('\x08000000000000000001');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo reserved bit 5
TRUNCATE wire; INSERT INTO wire VALUES ('\x20000000000000000001');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo LSN cut short
TRUNCATE wire; INSERT INTO wire VALUES ('\x0001');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo five epoch bytes
TRUNCATE wire; INSERT INTO wire VALUES ('\x05010203040506');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo seven epoch bytes
TRUNCATE wire; INSERT INTO wire VALUES ('\x07');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo epoch without a head
TRUNCATE wire; INSERT INTO wire VALUES ('\x0101');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo epoch with a leading zero
TRUNCATE wire; INSERT INTO wire VALUES ('\x01000000000000000001');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo epoch with a leading zero of two
TRUNCATE wire; INSERT INTO wire VALUES ('\x0200010000000000000001');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo number without a length
TRUNCATE wire; INSERT INTO wire VALUES ('\x40');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo valid: number 1
TRUNCATE wire; INSERT INTO wire VALUES ('\x400101');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo number cut short
TRUNCATE wire; INSERT INTO wire VALUES ('\x4002');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo number with a leading zero
TRUNCATE wire; INSERT INTO wire VALUES ('\x40020001');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo number of nine bytes
TRUNCATE wire; INSERT INTO wire VALUES ('\x4009010203040506070809');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo number of 255 bytes
TRUNCATE wire; INSERT INTO wire VALUES ('\x40ff');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo trailing zero part
TRUNCATE wire; INSERT INTO wire VALUES ('\x40010100');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo a zero part, then a part cut short
TRUNCATE wire; INSERT INTO wire VALUES ('\x4001010001');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo valid: 1:0:1
TRUNCATE wire; INSERT INTO wire VALUES ('\x400101000101');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo LSN with a trailing zero part
TRUNCATE wire; INSERT INTO wire VALUES ('\x00000000000000000100');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo valid: eight parts of 1
TRUNCATE wire; INSERT INTO wire VALUES ('\x4001010101010101010101010101010101');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo nine parts
TRUNCATE wire; INSERT INTO wire VALUES ('\x40010101010101010101010101010101010101');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
\echo too long
TRUNCATE wire; INSERT INTO wire VALUES ('\x4001010101010101010101010101010101ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff');
\copy wire TO 'results/type_binary.bin' WITH (FORMAT binary)
\copy received FROM 'results/type_binary.bin' WITH (FORMAT binary)
SELECT pos FROM received ORDER BY pos;

DROP TABLE round_trip, came_back, on_disk, neighbours, toasted, wire, received;
