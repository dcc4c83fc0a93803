-- cdc_forget: a batch with wrong positions is taken back, the log is replayed,
-- and the target ends as the log says, in both homes and with random histories.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA forget;
SET search_path = forget, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = notice;

CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE s (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('t', 's');
INSERT INTO s VALUES ('c', 1, 'a', '0/100'), ('c', 2, 'a', '0/110'), ('d', 3, NULL, '0/120');
SELECT applied('t', 's');
-- a decoder that wrote positions of another log
CREATE TABLE bad (LIKE s);
INSERT INTO bad VALUES ('u', 1, 'wrong', 'F/100'), ('d', 2, NULL, 'F/110'), ('c', 4, 'new', 'F/120');
SELECT applied('t', 'bad');
INSERT INTO s VALUES ('u', 1, 'b', '0/200'), ('c', 4, 'new', '0/210');
SELECT applied('t', 's');
SELECT cdc_forget('t', '0/FFF');
SELECT rows_of('t'), rows_of('SELECT id, source_position FROM t_tombstones'), high_position FROM cdc_targets WHERE target = 't'::regclass;
SELECT applied('t', 's');
SELECT rows_of('t'), rows_of('SELECT id, source_position FROM t_tombstones'), high_position FROM cdc_targets WHERE target = 't'::regclass;
-- once more: nothing is above
SELECT cdc_forget('t', '0/FFF');
-- fence and floor above it go, and say so; those below only where something was taken back
SELECT cdc_set_fence('t', 'F/100'), cdc_set_floor('t', '0/FFFF');
SELECT cdc_forget('t', '0/FFF');
SELECT fence, floor FROM cdc_targets WHERE target = 't'::regclass;
SELECT cdc_set_fence('t', '0/115'), cdc_set_floor('t', '0/50');
SELECT cdc_forget('t', '0/FFF');
SELECT fence, floor FROM cdc_targets WHERE target = 't'::regclass;
SELECT cdc_forget('t', '0/115');
SELECT fence, floor, high_position, rows_of('t'), rows_of('SELECT id, source_position FROM t_tombstones') FROM cdc_targets WHERE target = 't'::regclass;
-- every position
SELECT cdc_forget('t', '0/0');
SELECT high_position, rows_of('t') FROM cdc_targets WHERE target = 't'::regclass;
-- so that positions of the other kind can come
INSERT INTO bad VALUES ('u', 1, 'number', '7');
DELETE FROM bad WHERE id <> 1 OR v <> 'number';
SELECT applied('t', 'bad'), rows_of('t');
SELECT refused('another kind', $$SELECT cdc_forget('t', '0/1')$$, '42804', show => false);
SELECT cdc_forget('t', '6');
SELECT rows_of('t');

--
-- What is refused
--
SELECT refused('NULL', $$SELECT cdc_forget('t', NULL)$$, '22023', 'above', 'h');
CREATE TABLE plain (id int PRIMARY KEY, source_position cdc_position, deleted boolean);
SELECT refused('not attached', $$SELECT cdc_forget('plain', '0/1')$$, '55000', 'plain', 'h', show => false);
CREATE ROLE forget_other;
GRANT USAGE ON SCHEMA forget TO forget_other;
GRANT ALL ON ALL TABLES IN SCHEMA forget TO forget_other;
SET ROLE forget_other;
SELECT refused('not the owner', $$SELECT cdc_forget('t', '0/1')$$, '42501', show => false);
RESET ROLE;
DROP OWNED BY forget_other;
DROP ROLE forget_other;
BEGIN READ ONLY;
SELECT refused('read only', $$SELECT cdc_forget('t', '0/1')$$, '25006', show => false);
COMMIT;
-- columns that allow no NULL
CREATE TABLE nn (id int PRIMARY KEY, v text, source_position cdc_position NOT NULL);
CREATE TABLE n1 (id int PRIMARY KEY, v text, source_lsn pg_lsn NOT NULL, source_ordinal bigint NOT NULL);
CREATE TABLE n2 (id int PRIMARY KEY, v text, file bigint NOT NULL, pos bigint);
SELECT cdc_attach('nn', 's'), cdc_attach('n1', 's', position_columns => '{source_lsn,source_ordinal}'),
	cdc_attach('n2', 's', position_columns => '{file,pos}', staging_position => 'cdc_position_from_numbers(1, id)');
INSERT INTO nn VALUES (1, 'a', '0/100'), (2, 'b', '0/200');
INSERT INTO n1 VALUES (1, 'a', '0/100', 1), (2, 'b', '0/200', 1);
INSERT INTO n2 VALUES (1, 'a', 1, 1), (2, 'b', 2, NULL);
SELECT cdc_forget('nn', '0/150'), cdc_forget('n1', '0/150');
SELECT rows_of('nn'), rows_of('SELECT id, v, cdc_position(source_lsn), source_ordinal FROM n1');
SELECT refused('numbers', $$SELECT cdc_forget('n2', '1:1')$$, '55000', 'file', 'dh');
ALTER TABLE n2 ALTER file DROP NOT NULL;
SELECT cdc_forget('n2', '1:1');
SELECT rows_of('n2');

--
-- It waits for a running apply, and the guard lets it through
--
CREATE TABLE g (id int PRIMARY KEY, v text);
SELECT cdc_attach('g', 's', tombstones => 'row', guard => 'error');
INSERT INTO g VALUES (1, 'a', '0/100', false), (2, 'b', '0/200', true), (3, 'c', '0/300', false);
BEGIN;
SELECT cdc_forget('g', '0/150');
SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'pg_class'::regclass AND objid = 'g'::regclass AND mode = 'ExclusiveLock' AND granted;
COMMIT;
SELECT rows_of('g');

--
-- Random histories: a part of the log is applied, a batch comes with its
-- positions in a wrong epoch, truncates too, more of the log; the wrong epoch
-- is taken back and the whole log replayed
--
CREATE TABLE log (place int, op text, id int, v text, __old_id int, source_position cdc_position);
CREATE TABLE event (op text, id int, v text, __old_id int, source_position cdc_position);
CREATE FUNCTION make_log(seed bigint) RETURNS void LANGUAGE sql AS $$
	TRUNCATE log;
	INSERT INTO log
	SELECT place, CASE WHEN kind = 0 THEN 't' WHEN kind < 8 THEN 'd' ELSE 'u' END, CASE WHEN kind > 0 THEN key END,
		CASE WHEN kind >= 8 THEN 'v' || place END, CASE WHEN kind > 28 THEN old_key END, cdc_position(pg_lsn '1/0' + place::numeric)
	FROM (SELECT place, abs(h) % 32 AS kind, 1 + abs(h) / 32 % 12 AS key, 1 + abs(h) / 480 % 12 AS old_key
		FROM (SELECT place, hashint4((place + 1000 * seed)::int) AS h FROM generate_series(1, 80) place) d) x
$$;
-- the log alone: per key what is left of its last word
CREATE FUNCTION truth() RETURNS text LANGUAGE sql AS $$
	WITH word AS (
		SELECT id AS key, place, CASE WHEN op = 'u' THEN 1 ELSE 0 END AS alive, v FROM log WHERE op <> 't'
		UNION ALL SELECT __old_id, place, 0, NULL FROM log WHERE __old_id <> id
		UNION ALL SELECT k, place, 0, NULL FROM log, generate_series(1, 12) k WHERE op = 't')
	SELECT coalesce(string_agg(key || '=' || v || '@' || (SELECT source_position FROM log l WHERE l.place = w.place), ' ' ORDER BY key), 'none')
	FROM (SELECT DISTINCT ON (key) * FROM word ORDER BY key, place DESC, alive DESC) w WHERE alive = 1
$$;
CREATE FUNCTION live(t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format($q$SELECT coalesce(string_agg(id || '=' || v || '@' || coalesce(source_position::text, ''), ' ' ORDER BY id), 'none') FROM %s WHERE %s$q$,
		t, CASE WHEN t = 'in_row' THEN 'NOT deleted' ELSE 'true' END) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION histories(seeds int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	t text; harmed int := 0;
BEGIN
	FOR seed IN 1 .. seeds LOOP
		DROP TABLE IF EXISTS in_row, in_table;
		CREATE TABLE in_row (id int PRIMARY KEY, v text);
		CREATE TABLE in_table (id int PRIMARY KEY, v text);
		PERFORM cdc_attach('in_row', 'event', tombstones => 'row', on_same_position => 'keep'), cdc_attach('in_table', 'event', on_same_position => 'keep');
		PERFORM make_log(seed);
		FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
			FOR step IN 1 .. 3 LOOP
				TRUNCATE event;
				INSERT INTO event SELECT op, id, v, __old_id, CASE WHEN step = 2 THEN cdc_position_with_epoch(source_position, 9) ELSE source_position END
					FROM log WHERE place BETWEEN 20 * step - seed % 15 AND 20 * step + 25;
				PERFORM cdc_apply(t::regclass);
			END LOOP;
			harmed := harmed + (live(t) <> truth())::int;
			PERFORM cdc_forget(t::regclass, cdc_position(pg_lsn '1/0' + 1000::numeric));
			IF EXISTS (SELECT FROM cdc_targets WHERE target = t::regclass AND (cdc_position_epoch(high_position) > 0 OR cdc_position_epoch(fence) > 0)) THEN
				RETURN format('NOT OK | %s, seed %s: still something of the wrong epoch', t, seed);
			END IF;
			FOR step IN 0 .. 3 LOOP
				TRUNCATE event;
				INSERT INTO event SELECT op, id, v, __old_id, source_position FROM log WHERE place % 4 = step;
				PERFORM cdc_apply(t::regclass);
			END LOOP;
			IF live(t) <> truth() THEN
				RETURN expect(format('%s, seed %s', t, seed), live(t), truth());
			END IF;
		END LOOP;
	END LOOP;
	RETURN expect(seeds || ' histories', (harmed > seeds)::text, 'true');
END $$;
SET client_min_messages = error;
SELECT histories(30);
DROP SCHEMA forget CASCADE;
