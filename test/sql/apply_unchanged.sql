-- Values that an event does not carry.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA apply_unchanged;
SET search_path = apply_unchanged, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on

CREATE TABLE doc (id int PRIMARY KEY, title text, body text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE doc_event (id int, title text, body text, op text, source_position cdc_position);
CREATE FUNCTION hole() RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT '__debezium_unavailable_value' $$;

-- the placeholder keeps the stored value, and the position advances
INSERT INTO doc VALUES (3, 't1', 'long-1', '9/1');
INSERT INTO doc_event VALUES (3, 't2', hole(), 'u', '9/2');
SELECT apply_is('placeholder', 'doc', 'doc_event', '', 'updated=1', 'doc', '(3,t2,long-1,9/2,f)');
SELECT apply_is('again', 'doc', 'doc_event', '', 'duplicate=1', 'doc', '(3,t2,long-1,9/2,f)');
-- a text that only contains it is data
UPDATE doc_event SET body = hole() || ' ', source_position = '9/3';
SELECT apply_is('a longer text is data', 'doc', 'doc_event', '', 'updated=1', 'doc', '(3,t2,"__debezium_unavailable_value ",9/3,f)');
-- another placeholder, and none
UPDATE doc_event SET body = '?', source_position = '9/4';
SELECT apply_is('unavailable_value', 'doc', 'doc_event', 'unavailable_value => ''?''', 'updated=1', 'doc', '(3,t2,"__debezium_unavailable_value ",9/4,f)');
UPDATE doc_event SET body = hole(), source_position = '9/5';
SELECT apply_is('the usual one is data then', 'doc', 'doc_event', 'unavailable_value => ''?''', 'updated=1', 'doc', '(3,t2,__debezium_unavailable_value,9/5,f)');
UPDATE doc SET body = 'b';
UPDATE doc_event SET source_position = '9/6';
SELECT apply_is(''''' turns it off', 'doc', 'doc_event', 'unavailable_value => ''''', 'updated=1', 'doc', '(3,t2,__debezium_unavailable_value,9/6,f)');
UPDATE doc_event SET body = '', source_position = '9/7';
SELECT apply_is('and an empty text is data', 'doc', 'doc_event', 'unavailable_value => ''''', 'updated=1', 'doc', '(3,t2,"",9/7,f)');

-- in other types: bytea of it, a one-element array of it, a JSON string of it
CREATE TABLE typed (id int PRIMARY KEY, b bytea, a text[], va varchar(40)[], j json, jb jsonb, v varchar(60), n numeric, source_position cdc_position, deleted boolean);
CREATE TABLE typed_event (id int, b bytea, a text[], va varchar(40)[], j json, jb jsonb, v varchar(60), n numeric, op text, source_position cdc_position);
INSERT INTO typed VALUES (1, '\x01', '{x}', '{y}', '{"k":1}', '[1]', 'v', 1, '5/1');
INSERT INTO typed_event VALUES (1, convert_to(hole(), 'UTF8'), ARRAY[hole()], ARRAY[hole()], to_json(hole()), to_jsonb(hole()), hole(), 2, 'u', '5/2');
SELECT apply_is('typed placeholders', 'typed', 'typed_event', '', 'updated=1', 'SELECT b, a, va, j, jb, v, n FROM typed', '("\\x01",{x},{y},"{""k"":1}",[1],v,2)');
UPDATE typed_event SET a = ARRAY['x', hole(), 'y'], va = ARRAY[ARRAY[hole()]]::varchar[], jb = jsonb_build_array(hole()), j = json_build_object('k', hole()), b = convert_to(hole() || '!', 'UTF8'), v = '', source_position = '5/3';
SELECT apply_is('real values that hold it', 'typed', 'typed_event', '', 'updated=1',
	'SELECT a[2] = hole() AND array_length(a, 1) = 3, jb->>0 = hole(), j->>''k'' = hole(), convert_from(b, ''UTF8'') = hole() || ''!'', v = '''' FROM typed', '(t,t,t,t,t)');
-- staging in text, target in other types: the placeholder in the text
CREATE TABLE raw_event (id text, b text, a text, j text, jb text, v text, n text, op text, source_position cdc_position);
UPDATE typed SET b = '\x02', a = '{z}', jb = '{"z":2}', j = '1', n = 5;
INSERT INTO raw_event VALUES ('1', hole(), hole(), hole(), hole(), 'text', hole(), 'u', '5/4');
SELECT apply_is('a text placeholder for every type', 'typed', 'raw_event', '', 'updated=1', 'SELECT b, a, j, jb, v, n, source_position FROM typed', '("\\x02",{z},1,"{""z"": 2}",text,5,5/4)');

-- unchanged_column: text[], name[], jsonb
CREATE FUNCTION named(type text, list text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('DROP TABLE IF EXISTS named_event; CREATE TABLE named_event (id int, title text, body text, op text, source_position cdc_position, absent %s)', type);
	TRUNCATE doc;
	INSERT INTO doc VALUES (1, 'old', 'old', '1'), (2, 'old', 'old', '1');
	EXECUTE format('INSERT INTO named_event VALUES (1, NULL, NULL, ''u'', ''2'', %L), (2, ''new'', NULL, ''u'', ''2'', NULL)', list);
	RETURN applied('doc', 'named_event', 'unchanged_column => ''absent''') || ': ' || rows_of('SELECT id, title, body, source_position FROM doc');
END $$;
SET client_min_messages = warning;
SELECT expect(t || ' ' || l, named(t, l), w) FROM (VALUES
	('text[]', '{title,body}', 'updated=2: (1,old,old,2) (2,new,,2)'),
	('text[]', '{body}', 'updated=2: (1,,old,2) (2,new,,2)'),
	('text[]', '{}', 'updated=2: (1,,,2) (2,new,,2)'),
	('name[]', '{title}', 'updated=2: (1,old,,2) (2,new,,2)'),
	('jsonb', '["title", "body"]', 'updated=2: (1,old,old,2) (2,new,,2)'),
	('jsonb', '["body"]', 'updated=2: (1,,old,2) (2,new,,2)'),
	('jsonb', '[]', 'updated=2: (1,,,2) (2,new,,2)')) v(t, l, w);
RESET client_min_messages;

-- ignore_nulls
TRUNCATE doc, doc_event;
INSERT INTO doc VALUES (1, 't', 'b', '1');
INSERT INTO doc_event VALUES (1, NULL, 'b2', 'u', '2');
SELECT apply_is('a NULL is a value', 'doc', 'doc_event', '', 'updated=1', 'doc', '(1,,b2,2,f)');
UPDATE doc_event SET body = NULL, title = 't3', source_position = '3';
SELECT apply_is('ignore_nulls: a NULL is no change', 'doc', 'doc_event', 'ignore_nulls => true', 'updated=1', 'doc', '(1,t3,b2,3,f)');
ALTER TABLE doc ALTER body SET DEFAULT 'default body';
INSERT INTO doc_event VALUES (2, 'new', NULL, 'c', '3');
SELECT apply_is('ignore_nulls: nothing found, the default', 'doc', 'doc_event', 'ignore_nulls => true', 'inserted=1 duplicate=1', 'doc', '(1,t3,b2,3,f) (2,new,"default body",3,f)');
ALTER TABLE doc ALTER body DROP DEFAULT;

--
-- Filling, in every order of arrival
--
CREATE TABLE step (n int PRIMARY KEY, id int, title text, body text, op text, source_position cdc_position);
-- Loads the steps in the order given on top of one stored row (or none).
CREATE FUNCTION filled(orders int[], stored text, args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	TRUNCATE doc, doc_event;
	IF stored IS NOT NULL THEN
		INSERT INTO doc VALUES (6, 'stored', stored, '9/1');
	END IF;
	FOR i IN 1 .. array_length(orders, 1) LOOP
		INSERT INTO doc_event SELECT id, title, body, op, source_position FROM step WHERE n = orders[i];
	END LOOP;
	result := applied('doc', 'doc_event', args);
	RETURN result || ': ' || rows_of('SELECT id, CASE WHEN NOT deleted THEN title END, CASE WHEN NOT deleted THEN body END, source_position FROM doc');
END $$;
CREATE FUNCTION all_orders(stored text, args text DEFAULT '') RETURNS text LANGUAGE sql AS $$
	WITH RECURSIVE o(orders) AS (
		SELECT ARRAY[n] FROM step
		UNION ALL SELECT orders || n FROM o, step WHERE n <> ALL (orders))
	SELECT string_agg(DISTINCT filled(orders, stored, args), '; ') FROM o
	WHERE array_length(orders, 1) = (SELECT count(*) FROM step)
$$;
INSERT INTO step VALUES (1, 6, 'a', 'L6', 'c', '9/10'), (2, 6, 'b', hole(), 'u', '9/11');
SELECT expect('from the older event of the batch', all_orders(NULL), 'inserted=1 superseded=1: (6,b,L6,9/11)');
SELECT expect('not from the row, which is older still', all_orders('L0'), 'updated=1 superseded=1: (6,b,L6,9/11)');
INSERT INTO step VALUES (3, 6, 'c', hole(), 'u', '9/12'), (4, 6, hole(), 'L9', 'u', '9/13');
SELECT expect('through several', all_orders('L0'), 'updated=1 superseded=3: (6,c,L9,9/13)');
TRUNCATE step;
INSERT INTO step VALUES (1, 6, 'a', NULL, 'u', '9/14'), (2, 6, 'd', hole(), 'u', '9/15'), (3, 6, 'a', 'older', 'u', '9/13');
SELECT expect('an explicit NULL is a value', all_orders('L0'), 'updated=1 superseded=2: (6,d,,9/15)');
SELECT expect('but not with ignore_nulls', all_orders('L0', 'ignore_nulls => true'), 'updated=1 superseded=2: (6,d,older,9/15)');
TRUNCATE step;
INSERT INTO step VALUES (1, 6, 'x', 'too old', 'u', '8/1'), (2, 6, 'd', hole(), 'u', '9/15');
SELECT expect('an event older than the row gives nothing', all_orders('L0'), 'updated=1 superseded=1: (6,d,L0,9/15)');
SELECT expect('unless there is no row', all_orders(NULL), 'inserted=1 superseded=1: (6,d,"too old",9/15)');
-- never across a delete
TRUNCATE step;
INSERT INTO step VALUES (1, 6, 'x', 'before', 'u', '9/2'), (2, 6, NULL, NULL, 'd', '9/3'), (3, 6, 'y', hole(), 'c', '9/4');
SELECT expect('not across a delete in the batch', all_orders('L0', 'on_unavailable => ''null'''), 'updated=1 superseded=2: (6,y,,9/4)');
SELECT expect('not across a delete, no row', all_orders(NULL, 'on_unavailable => ''null'''), 'inserted=1 superseded=2: (6,y,,9/4)');
INSERT INTO step VALUES (4, 6, 'z', 'after', 'c', '9/3:1');
SELECT expect('from what came after the delete', all_orders('L0'), 'updated=1 superseded=3: (6,y,after,9/4)');
-- nor from a tombstone
TRUNCATE doc, doc_event;
INSERT INTO doc VALUES (6, 't', 'dead value', '9/1', true);
INSERT INTO doc_event VALUES (6, 'y', hole(), 'u', '9/4');
SELECT apply_refused('a dead row gives nothing', 'doc', 'doc_event', '', '55000', 'body', 'dh');
SELECT apply_is('nor with null', 'doc', 'doc_event', 'on_unavailable => ''null''', 'inserted=1', 'doc', '(6,y,,9/4,f)');

-- nothing found
TRUNCATE doc, doc_event;
INSERT INTO doc_event VALUES (7, 't', hole(), 'u', '9/1');
SELECT apply_refused('on_unavailable error', 'doc', 'doc_event', '', '55000', 'body', 'dh');
SELECT apply_is('on_unavailable null', 'doc', 'doc_event', 'on_unavailable => ''null''', 'inserted=1', 'doc', '(7,t,,9/1,f)');
-- only for an event that would be written
UPDATE doc SET source_position = '9/9';
SELECT apply_is('a stale event needs no value', 'doc', 'doc_event', '', 'stale=1', 'doc', '(7,t,,9/9,f)');
TRUNCATE doc;
INSERT INTO doc_event VALUES (7, 't2', 'b2', 'u', '9/2');
SELECT apply_is('nor does a superseded one', 'doc', 'doc_event', '', 'inserted=1 superseded=1', 'doc', '(7,t2,b2,9/2,f)');
-- a delete keeps the last values, whatever it carries
TRUNCATE doc_event;
INSERT INTO doc_event VALUES (7, hole(), hole(), 'd', '9/3');
SELECT apply_is('a delete of placeholders', 'doc', 'doc_event', '', 'deleted=1', 'doc', '(7,t2,b2,9/3,t)');
TRUNCATE doc, doc_event;
INSERT INTO doc_event VALUES (8, hole(), hole(), 'd', '9/3');
SELECT apply_is('a delete of placeholders, unseen key', 'doc', 'doc_event', '', 'deleted=1', 'SELECT id, source_position, deleted, body = hole() FROM doc', '(8,9/3,t,)');

--
-- After a key move: the old key's events, then its row as it was
--
CREATE TABLE move_event (id int, __old_id int, title text, body text, op text, source_position cdc_position);
TRUNCATE doc;
INSERT INTO doc VALUES (5, 't', 'L', '1/1');
INSERT INTO move_event VALUES (6, 5, 't2', hole(), 'u', '1/2');
SELECT apply_is('from the old key''s row', 'doc', 'move_event', '', 'inserted=1', 'SELECT id, CASE WHEN NOT deleted THEN title END, CASE WHEN NOT deleted THEN body END, source_position, deleted FROM doc', '(5,,,1/2,t) (6,t2,L,1/2,f)');
TRUNCATE doc, move_event;
INSERT INTO doc VALUES (5, 't', 'L', '1/1');
INSERT INTO move_event VALUES (6, 5, 't2', hole(), 'u', '1/3'), (5, NULL, 't1', 'M', 'u', '1/2');
SELECT apply_is('from the old key''s newer event', 'doc', 'move_event', '', 'inserted=1 superseded=1', 'SELECT id, CASE WHEN NOT deleted THEN body END, source_position, deleted FROM doc', '(5,,1/3,t) (6,M,1/3,f)');
TRUNCATE doc, move_event;
INSERT INTO doc VALUES (5, 't', 'L', '1/1');
INSERT INTO move_event VALUES (7, 6, 't4', hole(), 'u', '1/4'), (6, 5, 't3', hole(), 'u', '1/3'), (5, NULL, 'new 5', 'N', 'c', '1/5');
SELECT apply_is('through two moves, the old key used again', 'doc', 'move_event', '', 'inserted=1 updated=1 superseded=1',
	'SELECT id, CASE WHEN NOT deleted THEN title END, CASE WHEN NOT deleted THEN body END, source_position, deleted FROM doc', '(5,"new 5",N,1/5,f) (6,,,1/4,t) (7,t4,L,1/4,f)');
-- a swap: each row takes the other's value as it was before the call
TRUNCATE doc, move_event;
INSERT INTO doc VALUES (1, 'a', 'A', '1/1'), (2, 'b', 'B', '1/1');
INSERT INTO move_event VALUES (2, 1, 'a', hole(), 'u', '1/2'), (1, 2, 'b', hole(), 'u', '1/2');
SELECT apply_is('a swap', 'doc', 'move_event', '', 'updated=2', 'doc', '(1,b,B,1/2,f) (2,a,A,1/2,f)');

--
-- A kept TOAST value is reused, not written again
--
CREATE TABLE big (id int PRIMARY KEY, title text, body text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
ALTER TABLE big ALTER body SET STORAGE EXTERNAL;
CREATE TABLE big_event (id int, title text, body text, op text, source_position cdc_position);
INSERT INTO big SELECT g, 't', repeat(md5(g::text), 2000), '1' FROM generate_series(1, 5) g;
INSERT INTO big_event SELECT g, 't2', hole(), 'u', '2' FROM generate_series(1, 5) g;
CREATE TABLE toast AS SELECT pg_relation_size(reltoastrelid) AS size, reltoastrelid::regclass AS rel FROM pg_class WHERE oid = 'big'::regclass;
SELECT expect('the values are in the TOAST table', (SELECT (size > 300000)::text FROM toast), 'true');
SELECT apply_is('update around large values', 'big', 'big_event', '', 'updated=5', 'SELECT id, title, body = repeat(md5(id::text), 2000) FROM big', '(1,t2,t) (2,t2,t) (3,t2,t) (4,t2,t) (5,t2,t)');
SELECT expect('nothing was added to it', (pg_relation_size(rel) - size)::text, '0') FROM toast;
UPDATE big_event SET op = 'd', body = NULL, title = NULL, source_position = '3';
SELECT apply_is('a delete keeps them', 'big', 'big_event', '', 'deleted=5', 'SELECT DISTINCT title, body = repeat(md5(id::text), 2000) FROM big', '(t2,t)');
SELECT expect('nothing was added to it', (pg_relation_size(rel) - size)::text, '0') FROM toast;
VACUUM FREEZE big;
SELECT expect('and they can still be read', count(*)::text, '5') FROM big WHERE body = repeat(md5(id::text), 2000);
-- large values from staging, and through a fill
TRUNCATE big, big_event;
ALTER TABLE big_event ALTER body SET STORAGE EXTERNAL;
INSERT INTO big_event VALUES (1, 'a', repeat('x', 50000), 'c', '1'), (1, 'b', hole(), 'u', '2');
SELECT apply_is('a large value filled from an older event', 'big', 'big_event', 'consume => ''delete''', 'inserted=1 superseded=1', 'SELECT title, length(body) FROM big', '(b,50000)');
DROP TABLE big_event;
VACUUM big;
SELECT expect('it does not hang on staging', body, repeat('x', 50000)) FROM big;

--
-- Partial updates and key moves, in log order: whatever the batches, however a
-- batch is shuffled and whatever older events it repeats, the target is what
-- the source's own statements give.
--
SET client_min_messages = error;
CREATE TABLE source (id int PRIMARY KEY, title text, body text);
CREATE TABLE log (n int PRIMARY KEY, id int, __old_id int, title text, body text, op text, source_position cdc_position);
CREATE TABLE log_batch (id int, __old_id int, title text, body text, op text, source_position cdc_position);
CREATE FUNCTION live() RETURNS text LANGUAGE sql AS $$ SELECT rows_of('SELECT id, title, body FROM doc WHERE NOT deleted') $$;
-- One history of the given length on few keys, and its delivery.
CREATE FUNCTION history(seed float8, len int, keys int, step int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	k int; dest int; r float8; row source; keep_title boolean; keep_body boolean; at int := 0; upto int;
BEGIN
	PERFORM setseed(seed);
	TRUNCATE source, log, doc;
	FOR i IN 1 .. len LOOP
		k := 1 + floor(random() * keys);
		r := random();
		SELECT * INTO row FROM source WHERE id = k;
		IF NOT FOUND THEN
			row := (k, 'title ' || i, CASE WHEN random() < 0.8 THEN 'body ' || i END);
			INSERT INTO source SELECT row.*;
			INSERT INTO log VALUES (i, k, NULL, row.title, row.body, 'c', cdc_position_from_numbers(i));
		ELSIF r < 0.15 THEN
			DELETE FROM source WHERE id = k;
			INSERT INTO log VALUES (i, k, NULL, NULL, NULL, 'd', cdc_position_from_numbers(i));
		ELSE
			keep_title := random() < 0.5;
			keep_body := random() < 0.6;
			IF NOT keep_title THEN row.title := 'title ' || i; END IF;
			IF NOT keep_body THEN row.body := CASE WHEN random() < 0.8 THEN 'body ' || i END; END IF;
			dest := k;
			IF r > 0.6 THEN
				SELECT g INTO dest FROM generate_series(1, keys) g WHERE NOT EXISTS (SELECT FROM source WHERE id = g) ORDER BY random() LIMIT 1;
				dest := coalesce(dest, k);
			END IF;
			UPDATE source SET id = dest, title = row.title, body = row.body WHERE id = k;
			INSERT INTO log VALUES (i, dest, CASE WHEN dest <> k OR random() < 0.5 THEN k END,
				CASE WHEN keep_title THEN hole() ELSE row.title END, CASE WHEN keep_body THEN hole() ELSE row.body END, 'u', cdc_position_from_numbers(i));
		END IF;
	END LOOP;
	WHILE at < len LOOP
		upto := at + 1 + floor(random() * step);
		TRUNCATE log_batch;
		INSERT INTO log_batch SELECT id, __old_id, title, body, op, source_position FROM
			(SELECT * FROM log WHERE n > at AND n <= upto
			 UNION ALL SELECT * FROM log WHERE n > at AND n <= upto AND random() < 0.2
			 UNION ALL SELECT * FROM log WHERE n <= at AND random() < 0.2) e ORDER BY random();
		BEGIN
			PERFORM applied('doc', 'log_batch');
		EXCEPTION WHEN OTHERS THEN
			RETURN format('seed %s, %s changes, %s keys, batches to %s: %s', seed, len, keys, step, SQLERRM);
		END;
		at := upto;
	END LOOP;
	RETURN CASE WHEN live() = rows_of('source') THEN 'as the source'
		ELSE format('seed %s, %s changes, %s keys, batches to %s: %s but source %s', seed, len, keys, step, live(), rows_of('source')) END;
END $$;
SELECT expect('40 changes of 3 to 6 keys in batches up to ' || step, string_agg(DISTINCT history(seed / 100.0, 40, 3 + seed % 4, step), E'\n'), 'as the source')
FROM generate_series(1, 15) seed, unnest('{1,4,12,40}'::int[]) step GROUP BY step ORDER BY step;

SET client_min_messages = warning;
DROP SCHEMA apply_unchanged CASCADE;
