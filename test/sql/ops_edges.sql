-- ops and delete flags of every type that a landing table may give them: frames, null records, numbers, maps
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA ops_edges;
SET search_path = ops_edges, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all

CREATE TABLE word (k int PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE landing (k int, v text, op text, source_position cdc_position);
CREATE FUNCTION landed(type text, rows text, args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE word;
	INSERT INTO word VALUES (1, 'old', '1'), (2, 'old', '1');
	EXECUTE format('DROP TABLE IF EXISTS landing; CREATE TABLE landing (k int, v text, op %s, source_position cdc_position); INSERT INTO landing VALUES %s', type, rows);
	RETURN applied('word', 'landing', args) || ': ' || rows_of('SELECT k, CASE WHEN deleted THEN ''dead'' ELSE v END FROM word');
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
SET client_min_messages = warning;

-- frames of transactions in every type: a capital B or C with nothing in it; a small one is an op
CREATE TYPE op_frame AS ENUM ('B', 'I', 'U', 'D', 'C', 'b', 'c');
SELECT expect('frames in ' || type, landed(type, $$(NULL, NULL, 'B', NULL), (1, 'new', 'U', '2'), (3, 'new', 'I', '2:1'), (2, NULL, 'D', '2:2'), (NULL, NULL, 'C', '2:3'),
	(NULL, NULL, 'B', '5'), (NULL, NULL, 'C', NULL)$$), 'inserted=1 updated=1 deleted=1 ignored=4: (1,new) (2,dead) (3,new)')
FROM unnest('{text,varchar(3),char(1),char(4),name,"\"char\"",op_frame}'::text[]) type;
SELECT expect('a small c without a key in ' || type, landed(type, $$(NULL, NULL, 'c', NULL)$$), '23502')
FROM unnest('{text,char(4),"\"char\"",op_frame}'::text[]) type;
SELECT expect('a small b in ' || type, landed(type, $$(NULL, NULL, 'b', NULL)$$), '22023')
FROM unnest('{text,char(4),"\"char\"",op_frame}'::text[]) type;
SELECT expect(what, landed('text', rows), want) FROM (VALUES
	('frames with spaces around', $$(NULL, NULL, ' B ', NULL), (NULL, NULL, '  C', '7')$$, 'ignored=2: (1,old) (2,old)'),
	('C with a key', $$(3, NULL, 'C', '7')$$, 'inserted=1: (1,old) (2,old) (3,)'),
	('C with a value, no key', $$(NULL, 'x', 'C', '7')$$, '23502'),
	('B with a value', $$(NULL, 'x', 'B', '7')$$, '22023'),
	('a frame first, then creates: what is remembered of C is right for both', $$(NULL, NULL, 'C', NULL), (3, 'a', 'C', '7'), (NULL, NULL, 'C', NULL), (4, 'b', 'c', '8')$$,
		'inserted=2 ignored=2: (1,old) (2,old) (3,a) (4,b)')) v(what, rows, want);

-- numbers of SQL Server: 1 delete, 2 insert, 3 before, 4 after; as integers and as text; pairs at one position
SELECT expect('numbers in ' || type, landed(type, replace($$(1, NULL, '1'::@, '2'), (3, 'new', '2'::@, '2:1'), (2, 'old', '3'::@, '2:2'), (2, 'new', '4'::@, '2:2')$$, '@', type)),
	'inserted=1 updated=1 deleted=1 superseded=1: (1,dead) (2,new) (3,new)')
FROM unnest('{smallint,integer,bigint,text,varchar,char(2),"\"char\""}'::text[]) type;
SELECT expect('before and after in either order', landed('int', $$(2, 'new', 4, '2:2'), (2, 'old', 3, '2:2')$$), 'updated=1 superseded=1: (1,old) (2,new)');
SELECT expect('a before alone is a delete', landed('int', $$(2, 'old', 3, '2:2')$$), 'deleted=1: (1,old) (2,dead)');
SELECT expect('no op ' || n, landed('int', format($$(2, 'x', %s, '5')$$, n)), '22023') FROM unnest('{-1,0,5,11,40}'::int[]) n;
SELECT expect('types that are no op: ' || type, landed(type, format($$(2, 'x', NULL::%s, '5')$$, type)), '42804') FROM unnest('{numeric,boolean,text[],jsonb}'::text[]) type;

-- op_map: overrides everything, in any case, for every type; one op with two meanings is refused
SELECT expect('op_map ' || map || ' of ' || op, landed('text', format($$(1, 'new', %L, '2')$$, op), format('op_map => %L', map)), want) FROM (VALUES
	('{"X": "delete"}', 'x', 'deleted=1: (1,dead) (2,old)'),
	('{" x ": " DELETE "}', 'X', 'deleted=1: (1,dead) (2,old)'),
	('{"c": "delete"}', 'C', 'deleted=1: (1,dead) (2,old)'),
	('{"d": "upsert"}', 'D', 'updated=1: (1,new) (2,old)'),
	('{"": "ignore"}', '', 'ignored=1: (1,old) (2,old)'),
	('{"+u": "ignore"}', '+U', 'ignored=1: (1,old) (2,old)'),
	('{"u": "snapshot"}', 'u', 'updated=1: (1,new) (2,old)'),
	('{"u": "retraction"}', 'u', 'deleted=1: (1,dead) (2,old)'),
	('{}', 'u', 'updated=1: (1,new) (2,old)'),
	('{"X": "upsert", "x": "upsert"}', 'X', 'updated=1: (1,new) (2,old)'),
	('{"X": "upsert", "x": "delete"}', 'X', '22023'),
	('{"x": "delete", " x": "upsert"}', 'u', '22023')) v(map, op, want);
SELECT apply_refused('one op, two meanings', 'word', 'landing', 'op_map => ''{"X": "upsert", "x": "delete"}''', '22023', '"x"', 'd');
SELECT expect('op_map of a frame', landed('text', $$(NULL, NULL, 'B', '2'), (1, 'new', 'u', '2')$$, $$op_map => '{"b": "upsert"}'$$), '23502');

-- null records: neither op nor position nor a value, with a key or without; one warning with their number
CREATE TABLE null_record (k int, v text, op text, source_position cdc_position);
INSERT INTO null_record VALUES (1, 'new', 'u', '7'), (1, NULL, 'd', '8'), (1, NULL, NULL, NULL), (2, NULL, NULL, NULL), (NULL, NULL, NULL, NULL);
TRUNCATE word;
RESET client_min_messages;
SELECT apply_is('null records after a delete', 'word', 'null_record', '', 'deleted=1 superseded=1 ignored=3', 'SELECT k, deleted FROM word', '(1,t)');
-- with a flag instead of an op, and with both
CREATE VIEW null_flag AS SELECT k, v, CASE op WHEN 'd' THEN 'true' WHEN 'u' THEN 'false' END AS __deleted, source_position FROM null_record;
SELECT apply_is('null records beside a flag', 'word', 'null_flag', 'delete_flag_column => ''__deleted''', 'duplicate=1 superseded=1 ignored=3', 'SELECT k, deleted FROM word', '(1,t)');
-- where the default is an upsert they are such too, with an op column and without; positions and values still count
TRUNCATE word;
SELECT apply_is('null records where upserts need no op', 'word', 'null_record', 'default_op => ''upsert''', 'deleted=1 superseded=1 ignored=3', 'SELECT k, deleted FROM word', '(1,t)');
CREATE VIEW null_bare AS SELECT k, v, source_position FROM null_record WHERE op IS DISTINCT FROM 'd';
TRUNCATE word;
SELECT apply_is('null records without an op column', 'word', 'null_bare', 'default_op => ''upsert''', 'inserted=1 ignored=3', 'SELECT k, v FROM word', '(1,new)');
SELECT expect('a value without a position', landed('text', $$(3, 'x', NULL, NULL)$$, 'default_op => ''upsert'''), '23502');
SELECT expect('a position without a value', landed('text', $$(1, NULL, NULL, '9')$$, 'default_op => ''upsert'''), 'updated=1: (1,) (2,old)');
-- a snapshot row needs neither; a delete must not get lost
SELECT expect('said to be a snapshot row', landed('text', $$(3, NULL, NULL, NULL)$$, 'default_op => ''read'''), 'inserted=1: (1,old) (2,old) (3,)');
SELECT expect('said to be a delete', landed('text', $$(3, NULL, NULL, NULL)$$, 'default_op => ''delete'''), '23502');
-- a record with a value is none of them
SELECT expect('a key and a value, neither op nor position, is a snapshot row', landed('text', $$(3, 'x', NULL, NULL)$$), 'inserted=1: (1,old) (2,old) (3,x)');
SELECT expect('a position alone is a snapshot row', landed('text', $$(1, NULL, NULL, '9')$$), 'updated=1: (1,) (2,old)');
SET client_min_messages = warning;

-- delete flags: Debezium's text, Hudi's boolean, numbers; NULL is false, true beats the op
CREATE DOMAIN flag_domain AS text;
CREATE FUNCTION flagged(type text, flag text, op text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('DROP TABLE IF EXISTS hudi; CREATE TABLE hudi (k int, v text, _hoodie_is_deleted %s, source_position cdc_position %s)', type, CASE WHEN op IS NOT NULL THEN ', op text' END);
	EXECUTE format('INSERT INTO hudi VALUES (1, ''new'', %L, ''2'' %s)', flag, CASE WHEN op IS NOT NULL THEN format(', %L', op) END);
	TRUNCATE word;
	INSERT INTO word VALUES (1, 'old', '1');
	RETURN split_part(applied('word', 'hudi', 'delete_flag_column => ''_hoodie_is_deleted'''), '=', 1);
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
SELECT expect(format('%s flag %s', type, coalesce(flag, 'NULL')), flagged(type, flag), want)
FROM (VALUES ('true', 'deleted'), ('t', 'deleted'), ('1', 'deleted'), ('false', 'updated'), ('f', 'updated'), ('0', 'updated'), (NULL, 'updated')) f(flag, want),
	unnest('{text,varchar(8),char(8),flag_domain,boolean}'::text[]) type
UNION ALL
SELECT expect(format('%s flag %s', type, coalesce(flag, 'NULL')), flagged(type, flag), want)
FROM (VALUES ('1', 'deleted'), ('0', 'updated'), (NULL, 'updated')) f(flag, want), unnest('{smallint,integer,bigint}'::text[]) type;
SELECT expect('TRUE', flagged('text', 'TRUE'), 'deleted'), expect('False', flagged('text', 'False'), 'updated');
SELECT expect(format('no flag %s', quote_literal(flag)), flagged('text', flag), '22P02') FROM unnest('{maybe,2,-1,"",d,"null"}'::text[]) flag;
SELECT expect(format('type %s', type), flagged(type, NULL), '42804') FROM unnest('{numeric,jsonb,bytea,date}'::text[]) type;
SELECT expect(format('flag %s, op %s', coalesce(flag, 'NULL'), op), flagged('text', flag, op), want)
FROM (VALUES ('true', 'u', 'deleted'), ('true', 'r', 'deleted'), ('true', 'd', 'deleted'), ('true', 'nonsense', 'deleted'), ('false', 'd', 'deleted'),
	('false', 'u', 'updated'), (NULL, 'd', 'deleted'), (NULL, 'm', 'ignored'), ('false', 'nonsense', '22023')) v(flag, op, want);
