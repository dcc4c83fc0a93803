-- The law: the same events in any order, any number of times and in any
-- batches give the same target.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA apply_order;
SET search_path = apply_order, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

CREATE TABLE person (id int PRIMARY KEY, name text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE event (id int, name text, op text, source_position cdc_position);

-- Applies the numbered changes of one key in the order given, '/' ends a
-- batch, and gives the row: position, name of a live row.
CREATE TABLE change (n text PRIMARY KEY, id int, name text, op text, source_position cdc_position);
CREATE FUNCTION delivered(delivery text, args text DEFAULT '') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	batch text; word text; log text;
BEGIN
	TRUNCATE person;
	FOREACH batch IN ARRAY string_to_array(delivery, '/') LOOP
		TRUNCATE event;
		FOREACH word IN ARRAY regexp_split_to_array(trim(batch), '\s+') LOOP
			INSERT INTO event SELECT id, name, op, source_position FROM change WHERE n = word;
			ASSERT FOUND, word;
		END LOOP;
		log := concat_ws(', ', log, applied('person', 'event', args));
	END LOOP;
	RETURN coalesce((SELECT string_agg(format('%s %s %s', id, source_position, CASE WHEN deleted THEN 'dead' ELSE 'live ' || name END), ', ' ORDER BY id) FROM person), 'none')
		|| ' (' || log || ')';
END $$;

-- The problem itself: 100 sets a, 200 sets b, 300 deletes.
INSERT INTO change VALUES
	('100', 1, 'a', 'c', '0/100'), ('200', 1, 'b', 'u', '0/200'), ('300', 1, NULL, 'd', '0/300');
SELECT expect('in order', delivered('100 / 200 / 300'), '1 0/300 dead (inserted=1, updated=1, deleted=1)');
SELECT expect('the 100-batch is replayed after 200', delivered('100 / 200 / 100'), '1 0/200 live b (inserted=1, updated=1, stale=1)');
SELECT expect('200 arrives before 100', delivered('200 / 100'), '1 0/200 live b (inserted=1, stale=1)');
SELECT expect('200 is replayed after the delete', delivered('100 / 200 / 300 / 200'), '1 0/300 dead (inserted=1, updated=1, deleted=1, stale=1)');
SELECT expect('the delete comes first', delivered('300 / 100 / 200'), '1 0/300 dead (deleted=1, stale=1, stale=1)');
SELECT expect('all in one batch', delivered('200 300 100'), '1 0/300 dead (deleted=1 superseded=2)');
SELECT expect('all in one batch, the delete missing', delivered('200 100'), '1 0/200 live b (inserted=1 superseded=1)');

-- Every arrival order and every cut of the three changes.
SELECT expect('6 orders x 4 cuts', string_agg(DISTINCT split_part(delivered(concat_ws(' ', a.n, c1, b.n, c2, c.n)), ' (', 1), '; '), '1 0/300 dead')
FROM change a, change b, change c, (VALUES (NULL), ('/')) AS x(c1), (VALUES (NULL), ('/')) AS y(c2)
WHERE a.n <> b.n AND b.n <> c.n AND a.n <> c.n;

-- Delete and create again of one key, cut and shuffled.
TRUNCATE change;
INSERT INTO change VALUES
	('i', 1, 'a', 'i', '0/100'), ('d', 1, NULL, 'd', '0/200'), ('j', 1, 'b', 'i', '0/200:1'), ('u', 1, 'c', 'u', '0/300');
SELECT expect('24 orders x 8 cuts', string_agg(DISTINCT split_part(delivered(concat_ws(' ', a.n, c1, b.n, c2, c.n, c3, d.n)), ' (', 1), '; '), '1 0/300 live c')
FROM change a, change b, change c, change d,
	(VALUES (NULL), ('/')) AS x(c1), (VALUES (NULL), ('/')) AS y(c2), (VALUES (NULL), ('/')) AS z(c3)
WHERE a.n NOT IN (b.n, c.n, d.n) AND b.n NOT IN (c.n, d.n) AND c.n <> d.n;
SELECT expect('delete, then insert at the next ordinal', delivered('d j'), '1 0/200:1 live b (inserted=1 superseded=1)');
SELECT expect('the same in two batches, backwards', delivered('j / d'), '1 0/200:1 live b (inserted=1, stale=1)');
SELECT expect('an update of a key never seen is an insert', delivered('u'), '1 0/300 live c (inserted=1)');
SELECT expect('the same batch again changes nothing', delivered('i d j / i d j'), '1 0/200:1 live b (inserted=1 superseded=2, duplicate=1 superseded=2)');
SELECT expect('the same event twice in a batch', delivered('u u'), '1 0/300 live c (inserted=1 superseded=1)');
SELECT expect('one guard and one comparison: ordinals are numbers', delivered('d'), '1 0/200 dead (deleted=1)');

-- Changelog row kinds (+I -U +U -D) of a stream without ordinals.
TRUNCATE change;
INSERT INTO change VALUES
	('+I', 1, 'a', '+I', '10'), ('-D', 1, 'a', '-D', '20'), ('+I2', 1, 'b', '+I', '30'),
	('-U', 1, 'a', '-U', '20'), ('+U', 1, 'b', '+U', '20'), ('+U2', 2, 'b', '+U', '20'),
	('-D3', 3, 'x', '-D', '20'), ('+I4', 4, 'y', '+I', '20');
SELECT expect('+I then -D: absent', delivered('+I -D'), '1 20 dead (deleted=1 superseded=1)');
SELECT expect('-D then +I: present', delivered('-D +I2'), '1 30 live b (inserted=1 superseded=1)');
SELECT expect('-D then +I in two batches', delivered('-D / +I2'), '1 30 live b (deleted=1, inserted=1)');
SELECT expect('-U and +U of one row', delivered('+I / -U +U'), '1 20 live b (inserted=1, updated=1 superseded=1)');
SELECT expect('+U and -U of one row', delivered('+I / +U -U'), '1 20 live b (inserted=1, updated=1 superseded=1)');
SELECT expect('the pair cut between batches', delivered('+I / -U / +U'), '1 20 live b (inserted=1, deleted=1, inserted=1)');
SELECT expect('the pair cut, backwards', delivered('+I / +U / -U'), '1 20 live b (inserted=1, updated=1, duplicate=1)');
SELECT expect('the pair cut, replayed', delivered('+I / -U / +U / -U / +U / -U +U'), '1 20 live b (inserted=1, deleted=1, inserted=1, duplicate=1, duplicate=1, duplicate=1 superseded=1)');
SELECT expect('-U alone: the row left the stream', delivered('+I / -U'), '1 20 dead (inserted=1, deleted=1)');
SELECT expect('-U(1) and +U(2): the key moved', delivered('+I / -U +U2'), '1 20 dead, 2 20 live b (inserted=1, inserted=1 deleted=1)');
SELECT expect('+U(2) and -U(1), cut', delivered('+I / +U2 / -U'), '1 20 dead, 2 20 live b (inserted=1, inserted=1, deleted=1)');
SELECT expect('disjoint delete and insert', delivered('-D3 +I4'), '3 20 dead, 4 20 live y (inserted=1 deleted=1)');

-- In-batch winners at one position.  (Across batches a snapshot row that keeps
-- its position holds every change up to it: the upsert there is a duplicate.)
TRUNCATE change;
INSERT INTO change VALUES
	('r', 1, 'snap', 'r', '7'), ('u', 1, 'streamed', 'u', '7'), ('d', 1, NULL, 'd', '7'),
	('x', 1, 'before', '-U', '7'), ('r0', 1, 'bare', 'r', NULL), ('n0', 1, 'no op', NULL, NULL);
SELECT expect('streamed beats snapshot: ' || d, delivered(d), '1 7 live streamed (inserted=1 superseded=1)') FROM (VALUES ('r u'), ('u r')) v(d);
SELECT expect('upsert beats retraction: ' || d, delivered(d), '1 7 live streamed (inserted=1 superseded=1)') FROM (VALUES ('x u'), ('u x')) v(d);
SELECT expect('a streamed delete beats a snapshot row: ' || d, delivered(d), '1 7 dead (deleted=1 superseded=1)') FROM (VALUES ('r d'), ('d r')) v(d);
SELECT expect('all three kinds: ' || d, delivered(d), '1 7 live streamed (inserted=1 superseded=2)')
FROM (VALUES ('r u x'), ('r x u'), ('u r x'), ('u x r'), ('x r u'), ('x u r')) v(d);
SELECT expect('a row without position loses to any: ' || d, delivered(d), '1 7 live streamed (inserted=1 superseded=1)') FROM (VALUES ('r0 u'), ('u r0'), ('u n0')) v(d);
SELECT expect('snapshot, then the change at its position: ' || d, split_part(delivered(d), ' (', 1), '1 7 live streamed') FROM (VALUES ('r0 / u'), ('u / r'), ('u / r0')) v(d);

/*
 * A fixed history: 60 keys, 1500 changes, deletes and re-creations among
 * them.  Each delivery shuffles it, sends a third of it twice or thrice and
 * cuts it anywhere; the target must be what DISTINCT ON says.
 */
CREATE TABLE history (id int, name text, n int, op text, source_position cdc_position);
CREATE TABLE copy (id int PRIMARY KEY, name text, n int, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE batch (LIKE history);
DO $$
DECLARE
	alive boolean[] := array_fill(false, ARRAY[60]);
	k int; op text; pos cdc_position;
BEGIN
	PERFORM setseed(0.25);
	FOR i IN 1 .. 1500 LOOP
		k := 1 + floor(random() * 60);
		op := CASE WHEN NOT alive[k] THEN 'c' WHEN random() < 0.25 THEN 'd' ELSE 'u' END;
		alive[k] := op <> 'd';
		-- a transaction has up to three changes: the ordinal parts them; every
		-- now and then the log starts again in a new epoch, lower
		pos := cdc_position('0/0'::pg_lsn + (1 + (i % 500) / 3) * 4096, i % 3, 0, i / 500);
		INSERT INTO history VALUES (k, CASE WHEN op <> 'd' THEN 'name ' || i END, CASE WHEN op <> 'd' THEN i END, op, pos);
	END LOOP;
END $$;
SELECT expect('positions are unique', (SELECT count(DISTINCT source_position)::text FROM history), '1500');

CREATE VIEW truth AS
	SELECT id, CASE WHEN op <> 'd' THEN name END AS name, CASE WHEN op <> 'd' THEN n END AS n, source_position, op = 'd' AS deleted
	FROM (SELECT DISTINCT ON (id) * FROM history ORDER BY id, source_position DESC) w;
CREATE VIEW held AS
	SELECT id, CASE WHEN NOT deleted THEN name END AS name, CASE WHEN NOT deleted THEN n END AS n, source_position, deleted FROM copy;
SELECT expect('the history ends with live and dead keys', (SELECT format('%s %s %s', count(*), count(*) FILTER (WHERE deleted) > 0, count(*) FILTER (WHERE NOT deleted) > 0) FROM truth), '60 t t');

CREATE FUNCTION differs() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM ((TABLE truth EXCEPT ALL TABLE held) UNION ALL (TABLE held EXCEPT ALL TABLE truth)) d
$$;

-- Delivers the history; copies: how often an event may come; step: largest batch.
CREATE FUNCTION deliver(copies int, step int, OUT sent bigint, OUT counted bigint, OUT differing bigint)
LANGUAGE plpgsql AS $$
DECLARE
	r cdc_apply_result; at int := 0; upto int;
BEGIN
	TRUNCATE copy;
	CREATE TEMP TABLE delivery ON COMMIT DROP AS
		SELECT row_number() OVER () AS ord, s.* FROM
			(SELECT h.* FROM history h, generate_series(1, copies) c WHERE c = 1 OR random() < 0.33 ORDER BY random()) s;
	SELECT count(*), 0 INTO sent, counted FROM delivery;
	WHILE at < sent LOOP
		upto := at + 1 + floor(random() * step);
		TRUNCATE batch;
		INSERT INTO batch SELECT id, name, n, op, source_position FROM delivery WHERE ord > at AND ord <= upto;
		SELECT * INTO r FROM cdc_apply('copy', 'batch');
		counted := counted + r.events;
		ASSERT counts(r) !~ 'but';
		at := upto;
	END LOOP;
	differing := differs();
	DROP TABLE delivery;
END $$;

SELECT setseed(0.5);
SELECT expect(format('delivery of up to %s copies in batches of up to %s', copies, step),
	(SELECT format('%s counted of %s, %s differ', counted, sent, differing) FROM deliver(copies, step)) ~ '^(\d+) counted of \1, 0 differ$' || '', 'true')
FROM (VALUES (1, 1500), (1, 1), (2, 40), (3, 300), (3, 7), (2, 5000), (1, 60), (3, 1000), (2, 15), (3, 100)) v(copies, step);

-- The whole history on top, twice: nothing moves.
TRUNCATE batch;
INSERT INTO batch TABLE history;
CREATE TABLE tuples AS SELECT tuples_of('copy') AS before;
SELECT expect('replay of everything', applied('copy', 'batch'), 'duplicate=60 superseded=1440');
TRUNCATE batch;
INSERT INTO batch SELECT * FROM history h WHERE (id, source_position) NOT IN (SELECT id, source_position FROM truth);
SELECT expect('replay of all that lost', applied('copy', 'batch') ~ '^stale=\d+ superseded=\d+$' || '', 'true');
SELECT expect('not a tuple was touched', tuples_of('copy'), before) FROM tuples;

-- The same with a composite text key, number-headed positions and hardly any memory.
SET work_mem = '64kB';
CREATE TABLE wide (a text COLLATE "C", b int, pad text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false, PRIMARY KEY (a, b));
CREATE TABLE wide_event (b int, a text, pad text, op "char", source_position cdc_position);
SELECT setseed(0.75);
INSERT INTO wide_event
	SELECT i % 40, 'key ' || i % 50, repeat(md5(i::text), 8), CASE WHEN i % 7 = 0 THEN 'd' ELSE 'u' END, cdc_position_from_numbers(3, i)
	FROM generate_series(1, 12000) i ORDER BY random();
SELECT expect('12,000 events of 200 keys', applied('wide', 'wide_event'),
	(SELECT format('inserted=%s deleted=%s superseded=11800', count(*) FILTER (WHERE op <> 'd'), count(*) FILTER (WHERE op = 'd'))
	 FROM (SELECT DISTINCT ON (a, b) * FROM wide_event ORDER BY a, b, source_position DESC) w));
SELECT expect('and they hold what DISTINCT ON says', rows_of($$
	SELECT a, b, CASE WHEN op <> 'd' THEN pad END, source_position, op = 'd' FROM (SELECT DISTINCT ON (a, b) * FROM wide_event ORDER BY a, b, source_position DESC) w
	 EXCEPT SELECT a, b, CASE WHEN NOT deleted THEN pad END, source_position, deleted FROM wide$$), 'none');
-- many keys: more than memory holds
TRUNCATE wide, wide_event;
INSERT INTO wide_event
	SELECT i % 6000, 'k', md5(i::text), CASE WHEN i % 11 = 0 THEN 'd' ELSE 'u' END, cdc_position_from_numbers(3, i)
	FROM generate_series(1, 20000) i ORDER BY random();
SELECT expect('20,000 events of 6,000 keys', applied('wide', 'wide_event'),
	(SELECT format('inserted=%s deleted=%s superseded=14000', count(*) FILTER (WHERE op <> 'd'), count(*) FILTER (WHERE op = 'd'))
	 FROM (SELECT DISTINCT ON (a, b) * FROM wide_event ORDER BY a, b, source_position DESC) w));
SELECT expect('and they hold what DISTINCT ON says', rows_of($$
	SELECT a, b, CASE WHEN op <> 'd' THEN pad END, source_position, op = 'd' FROM (SELECT DISTINCT ON (a, b) * FROM wide_event ORDER BY a, b, source_position DESC) w
	 EXCEPT SELECT a, b, CASE WHEN NOT deleted THEN pad END, source_position, deleted FROM wide$$), 'none');
RESET work_mem;

-- Key moves commute too: row 1 becomes 2, then 3, then goes; any order, any cut.
CREATE TABLE moved_event (id int, name text, op text, source_position cdc_position, __old_id int);
CREATE TABLE move (n int PRIMARY KEY, id int, name text, op text, source_position cdc_position, old_id int);
INSERT INTO move VALUES
	(1, 1, 'a', 'c', '0/10', NULL), (2, 2, 'b', 'u', '0/20', 1), (3, 3, 'c', 'u', '0/30', 2), (4, 1, 'd', 'c', '0/40', NULL);
CREATE FUNCTION moved(orders int[], cuts int) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE person, moved_event;
	FOR i IN 1 .. array_length(orders, 1) LOOP
		INSERT INTO moved_event SELECT id, name, op, source_position, old_id FROM move WHERE n = orders[i];
		IF cuts & (1 << (i - 1)) <> 0 OR i = array_length(orders, 1) THEN
			PERFORM applied('person', 'moved_event');
			TRUNCATE moved_event;
		END IF;
	END LOOP;
	RETURN (SELECT string_agg(format('%s %s %s', id, source_position, CASE WHEN deleted THEN 'dead' ELSE 'live ' || name END), ', ' ORDER BY id) FROM person);
END $$;
SELECT expect('key moves, 24 orders x 8 cuts', string_agg(DISTINCT moved(ARRAY[a.n, b.n, c.n, d.n], cuts), '; '),
	'1 0/40 live d, 2 0/30 dead, 3 0/30 live c')
FROM move a, move b, move c, move d, generate_series(0, 7) cuts
WHERE a.n NOT IN (b.n, c.n, d.n) AND b.n NOT IN (c.n, d.n) AND c.n <> d.n;
-- renumbering: 1,2,3 become 2,3,4 within one commit; a move's delete ranks
-- below the upsert that lands on its old key
TRUNCATE move;
INSERT INTO move VALUES (1, 2, 'a', 'u', '8/40', 1), (2, 3, 'b', 'u', '8/40', 2), (3, 4, 'c', 'u', '8/40', 3);
SELECT expect('renumbering at one position, 6 orders x 4 cuts', string_agg(DISTINCT moved(ARRAY[a.n, b.n, c.n], cuts), '; '),
	'1 8/40 dead, 2 8/40 live a, 3 8/40 live b, 4 8/40 live c')
FROM move a, move b, move c, generate_series(0, 3) cuts
WHERE a.n <> b.n AND b.n <> c.n AND a.n <> c.n;
-- a swap of two keys
TRUNCATE move;
INSERT INTO move VALUES (1, 2, 'a', 'u', '8/40', 1), (2, 1, 'b', 'u', '8/40', 2);
SELECT expect('a swap at one position', string_agg(DISTINCT moved(ARRAY[a.n, b.n], cuts), '; '), '1 8/40 live b, 2 8/40 live a')
FROM move a, move b, generate_series(0, 1) cuts WHERE a.n <> b.n;
-- old key NULL or equal: no move; it counts once, by its new key
TRUNCATE person, moved_event;
INSERT INTO moved_event VALUES (1, 'a', 'u', '0/10', NULL), (2, 'b', 'u', '0/10', 2);
SELECT apply_is('no moves', 'person', 'moved_event', '', 'inserted=2', 'person', '(1,a,0/10,f) (2,b,0/10,f)');
TRUNCATE moved_event;
INSERT INTO moved_event VALUES (5, 'a2', 'u', '0/20', 1);
SELECT apply_is('a move counts once, by its new key', 'person', 'moved_event', '', 'inserted=1', 'SELECT id, source_position, deleted FROM person', '(1,0/20,t) (2,0/10,f) (5,0/20,f)');
SELECT apply_is('again', 'person', 'moved_event', '', 'duplicate=1', 'SELECT id, source_position, deleted FROM person', '(1,0/20,t) (2,0/10,f) (5,0/20,f)');
TRUNCATE moved_event;
INSERT INTO moved_event VALUES (6, 'b2', 'u', '0/5', 2);
SELECT apply_is('a late move of a key changed since', 'person', 'moved_event', '', 'inserted=1', 'SELECT id, source_position, deleted FROM person', '(1,0/20,t) (2,0/10,f) (5,0/20,f) (6,0/5,f)');

SET client_min_messages = warning;
DROP SCHEMA apply_order CASCADE;
