-- Two events of one key at one position: within a batch and across batches.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA apply_tie;
SET search_path = apply_tie, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on

CREATE TABLE acct (id int PRIMARY KEY, n int, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE acct_event (id int, n int, v text, op text, source_position cdc_position);
CREATE TABLE change (name text PRIMARY KEY, id int, n int, v text, op text, source_position cdc_position);
INSERT INTO change VALUES
	('a', 1, 1, 'a', 'u', '2C/500'), ('b', 1, 2, 'b', 'u', '2C/500'), ('b2', 1, 2, 'b', 'c', '2C/500'), ('d', 1, NULL, NULL, 'd', '2C/500'),
	('D', 1, NULL, NULL, '-D', '2C/500'), ('x', 1, 1, 'a', '-U', '2C/500'), ('+', 1, 1, 'a', '+U', '2C/500'),
	('new', 1, 9, 'new', 'u', '2C/600'), ('old', 1, 0, 'old', 'u', '2C/400'), ('other', 2, 5, 'o', 'u', '2C/500');

CREATE FUNCTION load(batch text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	word text;
BEGIN
	TRUNCATE acct_event;
	FOREACH word IN ARRAY regexp_split_to_array(trim(batch), '\s+') LOOP
		INSERT INTO acct_event SELECT id, n, v, op, source_position FROM change WHERE name = word;
		ASSERT FOUND, word;
	END LOOP;
END $$;
CREATE FUNCTION delivered(delivery text, args text DEFAULT '') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	batch text; log text;
BEGIN
	TRUNCATE acct;
	FOREACH batch IN ARRAY string_to_array(delivery, '/') LOOP
		PERFORM load(batch);
		BEGIN
			log := concat_ws(', ', log, applied('acct', 'acct_event', args));
		EXCEPTION WHEN cardinality_violation THEN
			log := concat_ws(', ', log, 'tie');
		END;
	END LOOP;
	RETURN log || ': ' || coalesce((SELECT string_agg(format('%s %s', id, CASE WHEN deleted THEN 'dead' ELSE v END), ', ' ORDER BY id) FROM acct), 'none');
END $$;

--
-- In one batch
--
SELECT load('a b');
SELECT apply_refused('two images at one position', 'acct', 'acct_event', '', '21000', '2C/500', 'dh');
SELECT load('a d other');
SELECT apply_refused('upsert and delete at one position', 'acct', 'acct_event', '', '21000', '2C/500', 'dh');
SELECT expect('no order is knowable: ' || d, delivered(d), 'tie: none')
FROM (VALUES ('a b'), ('b a'), ('a d'), ('d a'), ('a D'), ('a b d'), ('d b a'), ('b d a b2'), ('other a b'), ('x a b')) v(d);
SELECT expect('error is the default', delivered('a b', 'on_tie => ''error'''), 'tie: none');
-- equal images are no tie, whatever the upsert is called; nor is a before image
SELECT expect('no tie: ' || d, delivered(d), w)
FROM (VALUES ('a a', 'inserted=1 superseded=1: 1 a'), ('b b2', 'inserted=1 superseded=1: 1 b'), ('b2 b b', 'inserted=1 superseded=2: 1 b'),
	('d d', 'deleted=1 superseded=1: 1 dead'), ('d D', 'deleted=1 superseded=1: 1 dead'), ('x a', 'inserted=1 superseded=1: 1 a'),
	('x + x', 'inserted=1 superseded=2: 1 a')) v(d, w);
-- only the winner's position matters, and only if it would be written
SELECT expect('a tie among the losers', delivered('a b new'), 'inserted=1 superseded=2: 1 new');
SELECT expect('a tie that is stale', delivered('new / a b'), 'inserted=1, stale=1 superseded=1: 1 new');
SELECT expect('a tie that is above', delivered('old / a b'), 'inserted=1, tie: 1 old');
-- columns that are not applied do not tie
SELECT expect('no tie in what is applied', delivered('a b', 'except_columns => ''{n,v}''') ~ '^inserted=1 superseded=1:' || '', 'true');
-- stored images are compared: 1.0 and 1.00 differ
CREATE TABLE money (id int PRIMARY KEY, amount numeric, source_position cdc_position, deleted boolean);
CREATE TABLE money_event (id int, amount numeric, op text, source_position cdc_position);
INSERT INTO money_event VALUES (1, 1.0, 'u', '5'), (1, 1.00, 'u', '5');
SELECT apply_refused('1.0 and 1.00 are two images', 'money', 'money_event', '', '21000', '', 'dh');

-- on_tie => 'upsert': the same winner in every order
SELECT expect('on_tie upsert: ' || string_agg(o, ', ' ORDER BY o), string_agg(DISTINCT r, '; '), w)
FROM (SELECT o, w, delivered(o, 'on_tie => ''upsert''') AS r
	FROM (VALUES ('a b', 'inserted=1 superseded=1: 1 b'), ('b a', 'inserted=1 superseded=1: 1 b'),
		('a d', 'inserted=1 superseded=1: 1 a'), ('d a', 'inserted=1 superseded=1: 1 a'),
		('a b d', 'inserted=1 superseded=2: 1 b'), ('a d b', 'inserted=1 superseded=2: 1 b'), ('b a d', 'inserted=1 superseded=2: 1 b'),
		('b d a', 'inserted=1 superseded=2: 1 b'), ('d a b', 'inserted=1 superseded=2: 1 b'), ('d b a', 'inserted=1 superseded=2: 1 b')) v(o, w)) s
GROUP BY w ORDER BY w;

-- several keys: detail and hint name one key
TRUNCATE acct_event;
INSERT INTO acct_event SELECT k, n, 'v', 'u', '7/7' FROM generate_series(1, 50) k, generate_series(1, 2) n;
SELECT apply_refused('fifty ties', 'acct', 'acct_event', '', '21000', '7/7', 'dh');
-- with the ordinal all is known
TRUNCATE acct;
UPDATE acct_event SET source_position = cdc_position('7/7', n);
SELECT apply_is('an ordinal ends it', 'acct', 'acct_event', '', 'inserted=50 superseded=50', 'SELECT count(*), sum(n) FROM acct', '(50,100)');

--
-- Across batches: upsert and delete at one position
--
-- the upsert stands whichever came first, and one WARNING tells
SELECT expect('upsert, then delete', delivered('a / d'), 'inserted=1, duplicate=1: 1 a');
SELECT expect('delete, then upsert', delivered('d / a'), 'deleted=1, inserted=1: 1 a');
SELECT expect('and again', delivered('d / a / d / a'), 'deleted=1, inserted=1, duplicate=1, duplicate=1: 1 a');
-- the second half of a pair is silent
SELECT expect('-U, then +U', delivered('x / +'), 'deleted=1, inserted=1: 1 a');
SELECT expect('+U, then -U', delivered('+ / x'), 'inserted=1, duplicate=1: 1 a');
-- one warning for many
TRUNCATE acct, acct_event;
INSERT INTO acct SELECT k, k, 'v', '5/5', k <= 40 FROM generate_series(1, 100) k;
INSERT INTO acct_event SELECT k, k, 'v', CASE WHEN k <= 40 THEN 'u' ELSE 'd' END, '5/5' FROM generate_series(1, 100) k;
SELECT expect('forty and sixty', applied('acct', 'acct_event'), 'inserted=40 duplicate=60');
-- a snapshot row and a delete at one position: the first applied stands
TRUNCATE acct, acct_event;
INSERT INTO acct VALUES (1, 1, 'v', '5', false), (2, 1, 'v', '5', true);
INSERT INTO acct_event VALUES (2, 2, 'w', 'r', '5');
SELECT apply_is('a snapshot row meets a tombstone', 'acct', 'acct_event', '', 'duplicate=1', 'SELECT id, v, deleted FROM acct', '(1,v,f) (2,v,t)');

--
-- on_same_position: another image at the stored position
--
CREATE FUNCTION again(v text, args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	TRUNCATE acct, acct_event;
	INSERT INTO acct VALUES (1, 1, 'stored', '5/5', false), (2, NULL, NULL, '5/5', false), (3, 3, 'bare', NULL, false);
	INSERT INTO acct_event VALUES (1, 1, v, 'u', '5/5'), (2, NULL, NULL, 'u', '5/5'), (3, 3, CASE WHEN v = 'stored' THEN 'bare' ELSE v END, 'r', NULL);
	result := applied('acct', 'acct_event', args);
	RETURN result || ': ' || rows_of('SELECT id, n, v, source_position FROM acct');
END $$;
SELECT expect('equal images are silent', again('stored'), 'duplicate=3: (1,1,stored,5/5) (2,,,5/5) (3,3,bare,)');
SELECT expect('equal images, rewrite', again('stored', 'on_same_position => ''rewrite'''), 'duplicate=3: (1,1,stored,5/5) (2,,,5/5) (3,3,bare,)');
SELECT expect('equal images, error', again('stored', 'on_same_position => ''error'''), 'duplicate=3: (1,1,stored,5/5) (2,,,5/5) (3,3,bare,)');
SELECT expect('warn, by default', again('other'), 'duplicate=3: (1,1,stored,5/5) (2,,,5/5) (3,3,bare,)');
SELECT expect('warn', again('other', 'on_same_position => ''warn'''), 'duplicate=3: (1,1,stored,5/5) (2,,,5/5) (3,3,bare,)');
SELECT expect('warn, NULL is a difference', again(NULL, 'on_same_position => ''warn'''), 'duplicate=3: (1,1,stored,5/5) (2,,,5/5) (3,3,bare,)');
SELECT expect('keep', again('other', 'on_same_position => ''keep'''), 'duplicate=3: (1,1,stored,5/5) (2,,,5/5) (3,3,bare,)');
SELECT expect('rewrite', again('other', 'on_same_position => ''rewrite'''), 'updated=2 duplicate=1: (1,1,other,5/5) (2,,,5/5) (3,3,other,)');
SELECT expect('rewrite with a NULL', again(NULL, 'on_same_position => ''rewrite'''), 'updated=2 duplicate=1: (1,1,,5/5) (2,,,5/5) (3,3,,)');
SELECT apply_refused('error', 'acct', 'acct_event', 'on_same_position => ''error''', '21000|22023|55000', '', 'dh')
FROM (SELECT again('other', 'on_same_position => ''keep''')) s;
-- rewrite does not touch deletes, stale rows or tombstones
TRUNCATE acct, acct_event;
INSERT INTO acct VALUES (1, 1, 'v', '5/5', true), (2, 2, 'v', '5/6', false), (3, 3, 'v', '5/5', false);
INSERT INTO acct_event VALUES (1, 9, 'w', 'd', '5/5'), (2, 9, 'w', 'u', '5/5'), (3, 9, 'w', 'u', '5/5');
SELECT apply_is('rewrite writes what stands at its position', 'acct', 'acct_event', 'on_same_position => ''rewrite''', 'updated=1 stale=1 duplicate=1',
	'SELECT id, n, v, deleted FROM acct', '(1,1,v,t) (2,2,v,f) (3,9,w,f)');
SELECT apply_is('and once only', 'acct', 'acct_event', 'on_same_position => ''rewrite''', 'stale=1 duplicate=2',
	'SELECT id, n, v, deleted FROM acct', '(1,1,v,t) (2,2,v,f) (3,9,w,f)');
-- a backfill of a new column
ALTER TABLE acct ADD extra text;
ALTER TABLE acct_event ADD extra text;
UPDATE acct_event SET extra = 'filled';
SELECT apply_is('backfill from the log', 'acct', 'acct_event', 'on_same_position => ''rewrite''', 'updated=1 stale=1 duplicate=1',
	'SELECT id, n, extra, deleted FROM acct', '(1,1,,t) (2,2,,f) (3,9,filled,f)');
-- what the event does not carry is not compared
UPDATE acct_event SET extra = '__debezium_unavailable_value', n = 9;
SELECT apply_is('unavailable values are skipped', 'acct', 'acct_event', 'on_same_position => ''error''', 'stale=1 duplicate=2',
	'SELECT id, n, extra, deleted FROM acct', '(1,1,,t) (2,2,,f) (3,9,filled,f)');

-- 'warn' compares at most 1,000 rows a call: a difference beyond is not seen,
-- 'error' sees it
TRUNCATE acct, acct_event;
INSERT INTO acct SELECT k, k, 'v', '5/5' FROM generate_series(1, 3000) k;
INSERT INTO acct_event SELECT k, k + 1, 'v', 'u', '5/5' FROM generate_series(1, 3000) k;
SELECT expect('3,000 that differ: one warning, for 1,000', applied('acct', 'acct_event'), 'duplicate=3000');
UPDATE acct_event SET n = id;
SELECT expect('3,000 that are equal', applied('acct', 'acct_event', 'on_same_position => ''error'''), 'duplicate=3000');
UPDATE acct_event SET n = id + 1 WHERE id % 1000 = 7;
SELECT apply_refused('error compares all', 'acct', 'acct_event', 'on_same_position => ''error''', '21000|22023|55000', '', 'dh');
SELECT apply_is('rewrite compares all', 'acct', 'acct_event', 'on_same_position => ''rewrite''', 'updated=3 duplicate=2997', 'SELECT count(*) FROM acct WHERE n <> id', '(3)');

--
-- A whole call of stale events hints at a log that restarted
--
TRUNCATE acct, acct_event;
INSERT INTO acct SELECT k, k, 'v', '900/5' FROM generate_series(1, 3) k;
INSERT INTO acct_event SELECT k, k, 'w', 'u', '3/5' FROM generate_series(1, 3) k;
SELECT expect('all stale: a warning', applied('acct', 'acct_event'), 'stale=3');
INSERT INTO acct_event VALUES (9, 9, 'w', 'u', '3/5');
SELECT expect('one is not: silent', applied('acct', 'acct_event'), 'inserted=1 stale=3');
SELECT expect('one is a duplicate: silent', applied('acct', 'acct_event'), 'stale=3 duplicate=1');

SET client_min_messages = warning;
DROP SCHEMA apply_tie CASCADE;
