-- Targets that foreign keys tie are applied together: the keys are checked at
-- the group's end, like those of one statement.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA apply_group;
SET search_path = apply_group, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

-- Every key that is live in a target, by the log alone.
CREATE FUNCTION log_says(log text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format($q$SELECT coalesce(string_agg(id || coalesce('>' || ref, ''), ' ' ORDER BY id), 'none') FROM (
		SELECT DISTINCT ON (id) * FROM %s ORDER BY id, source_position DESC) e WHERE op <> 'd'$q$, log) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION target_says(target text, home text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format($q$SELECT coalesce(string_agg(id || coalesce('>' || ref, ''), ' ' ORDER BY id), 'none') FROM %s %s$q$, target, CASE home WHEN 'row' THEN 'WHERE NOT deleted' END) INTO result;
	RETURN result;
END $$;

--
-- Random histories of three tables, parent and child in every mix, in both
-- homes.  In the row home a dead child still refers to its parent, which stays.
--
CREATE TABLE a_log (op text, id int, ref int, source_position cdc_position);
CREATE TABLE b_log (LIKE a_log);
CREATE TABLE c_log (LIKE a_log);
CREATE TABLE a_event (LIKE a_log);
CREATE TABLE b_event (LIKE a_log);
CREATE TABLE c_event (LIKE a_log);
CREATE FUNCTION play(home text, seed float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	t text; kind int; n bigint := 0; pos bigint := 0; problems text := ''; k int; parents int[]; failing text;
	live jsonb := '{"a": {}, "b": {}, "c": {}}'; parent text;
BEGIN
	PERFORM setseed(seed);
	DROP TABLE IF EXISTS a, b, c CASCADE;
	CREATE TABLE a (id int PRIMARY KEY, ref int);
	CREATE TABLE b (id int PRIMARY KEY, ref int REFERENCES a);
	CREATE TABLE c (id int PRIMARY KEY, ref int REFERENCES b);
	TRUNCATE a_log, b_log, c_log;
	PERFORM cdc_attach(x::regclass, (x || '_event')::regclass, tombstones => home) FROM unnest('{a,b,c}'::text[]) x;
	FOR batch IN 1 .. 12 LOOP
		TRUNCATE a_event, b_event, c_event;
		-- a source that keeps its foreign keys
		FOR step IN 1 .. 30 LOOP
			t := substr('abc', 1 + floor(random() * 3)::int, 1);
			parent := CASE t WHEN 'b' THEN 'a' WHEN 'c' THEN 'b' END;
			k := 1 + floor(random() * 12)::int;
			pos := pos + 1;
			IF random() < 0.4 THEN
				CONTINUE WHEN NOT live->t ? k::text
					OR t = 'a' AND EXISTS (SELECT FROM jsonb_each_text(live->'b') WHERE value = k::text)
					OR t = 'b' AND EXISTS (SELECT FROM jsonb_each_text(live->'c') WHERE value = k::text);
				EXECUTE format('INSERT INTO %s_event VALUES (''d'', $1, NULL, $2)', t) USING k, cdc_position('1/0'::pg_lsn + pos);
				live := live #- ARRAY[t, k::text];
			ELSE
				parents := CASE WHEN t <> 'a' THEN ARRAY(SELECT j::int FROM jsonb_object_keys(live->parent) j) END;
				CONTINUE WHEN parents = '{}';
				EXECUTE format('INSERT INTO %s_event VALUES (''u'', $1, $2, $3)', t) USING k, parents[1 + floor(random() * cardinality(parents))::int], cdc_position('1/0'::pg_lsn + pos);
				live := jsonb_set(live, ARRAY[t, k::text], to_jsonb(coalesce(parents[1], 0)));
				EXECUTE format('SELECT jsonb_set($1, ARRAY[$2, $3], to_jsonb(coalesce(ref, 0))) FROM %s_event ORDER BY source_position DESC LIMIT 1', t) INTO live USING live, t, k::text;
			END IF;
		END LOOP;
		INSERT INTO a_log SELECT * FROM a_event;
		INSERT INTO b_log SELECT * FROM b_event;
		INSERT INTO c_log SELECT * FROM c_event;
		SELECT string_agg(target || ': ' || error, '; ') INTO failing FROM cdc_apply_attached('apply_group');
		problems := concat_ws(E'\n    ', nullif(problems, ''), 'batch ' || batch || ': ' || failing);
		FOREACH t IN ARRAY '{a,b,c}'::text[] LOOP
			IF target_says(t, home) <> log_says(t || '_log') THEN
				problems := concat_ws(E'\n    ', nullif(problems, ''), format('batch %s: %s has %s, the log says %s', batch, t, target_says(t, home), log_says(t || '_log')));
			END IF;
		END LOOP;
	END LOOP;
	RETURN CASE WHEN problems = '' THEN 'ok | ' ELSE 'NOT OK | ' END || home || ' ' || seed || problems;
END $$;
SELECT play(home, seed / 10.0) FROM unnest('{row,table}'::text[]) home, generate_series(1, 6) seed ORDER BY 1;
-- the same without the group's end: it takes what the group gives
TRUNCATE a_event, b_event, c_event;
INSERT INTO a_event SELECT 'd', id, NULL, '2/1' FROM a;
INSERT INTO b_event SELECT 'd', id, NULL, '2/1' FROM b;
INSERT INTO c_event SELECT 'd', id, NULL, '2/1' FROM c;
SELECT refused('a parent alone', $$SELECT * FROM cdc_apply('a')$$, '23503', NULL, '', false);
SELECT target, deleted > 0 AS some, error FROM cdc_apply_attached('apply_group');
DROP TABLE a, b, c;

--
-- A cycle, a row that refers to itself, a key to a partition
--
CREATE TABLE hen (id int PRIMARY KEY, egg int NOT NULL);
CREATE TABLE egg (id int PRIMARY KEY, hen int NOT NULL REFERENCES hen, twin int REFERENCES egg);
ALTER TABLE hen ADD FOREIGN KEY (egg) REFERENCES egg;
CREATE TABLE hen_event (op text, id int, egg int, source_position cdc_position);
CREATE TABLE egg_event (op text, id int, hen int, twin int, source_position cdc_position);
SELECT cdc_attach('hen', 'hen_event', guard => 'error'), cdc_attach('egg', 'egg_event', guard => 'error');
INSERT INTO hen_event VALUES ('c', 1, 10, '0/1'), ('c', 2, 20, '0/3');
INSERT INTO egg_event VALUES ('c', 10, 1, 11, '0/2'), ('c', 20, 2, NULL, '0/4'), ('c', 11, 1, 10, '0/2');
SELECT target, inserted, error FROM cdc_apply_attached('apply_group');
INSERT INTO hen_event VALUES ('d', 1, NULL, '0/11');
INSERT INTO egg_event VALUES ('d', 10, NULL, NULL, '0/10'), ('d', 11, NULL, NULL, '0/10'), ('u', 20, 2, 20, '0/12');
SELECT target, updated, deleted, duplicate, error FROM cdc_apply_attached('apply_group');
SELECT expect('what is left', rows_of('SELECT id, egg FROM hen') || ' ' || rows_of('SELECT id, hen, twin FROM egg'), '(2,20) (20,2,20)');
-- half of it is nothing: all of the group stays as it was, and is told why
INSERT INTO hen_event VALUES ('d', 2, NULL, '0/20');
CREATE TABLE hen_before AS SELECT tuples_of('hen', false) AS hen, tuples_of('egg', false) AS egg, tuples_of('hen_tombstones') AS dead;
CREATE TABLE apart (id int PRIMARY KEY);
CREATE TABLE apart_event (op text, id int, source_position cdc_position);
INSERT INTO apart_event VALUES ('c', 1, '0/1');
SELECT cdc_attach('apart', 'apart_event');
SELECT target, inserted, split_part(error, '.', 1) FROM cdc_apply_attached('apply_group');
SELECT expect('as it was', tuples_of('hen', false) || tuples_of('egg', false) || tuples_of('hen_tombstones'), hen || egg || dead) FROM hen_before;
-- one of them cannot be read: the other says with whom it went
INSERT INTO egg_event VALUES ('what', 20, NULL, NULL, '0/21');
SELECT target, inserted, split_part(error, '.', 1) FROM cdc_apply_attached('apply_group');
SELECT expect('recorded with both', string_agg(target || ' ' || sqlstate, ', ' ORDER BY target::text), 'egg 22023, hen 22023') FROM (SELECT DISTINCT ON (target) * FROM cdc_runs WHERE target IN ('hen'::regclass, 'egg'::regclass) ORDER BY target, run_id DESC) r;
DELETE FROM egg_event WHERE op = 'what';
INSERT INTO egg_event VALUES ('d', 20, NULL, NULL, '0/19');
CALL cdc_apply_all('apply_group');
SELECT expect('gone', rows_of('hen') || rows_of('egg'), 'nonenone');
DROP TABLE hen, egg CASCADE;

CREATE TABLE part (id int PRIMARY KEY, n int) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE TABLE refers (id int PRIMARY KEY, part int REFERENCES part);
CREATE TABLE part_event (op text, id int, n int, source_position cdc_position);
CREATE TABLE refers_event (op text, id int, part int, source_position cdc_position);
SELECT cdc_attach('part', 'part_event'), cdc_attach('refers', 'refers_event');
INSERT INTO part_event VALUES ('c', 1, 1, '0/1'), ('c', 2, 1, '0/1');
INSERT INTO refers_event VALUES ('c', 7, 1, '0/2');
SELECT target, inserted, deleted, error FROM cdc_apply_attached('apply_group') WHERE target::text <> 'apart';
INSERT INTO part_event VALUES ('d', 1, NULL, '0/12');
INSERT INTO refers_event VALUES ('u', 7, 2, '0/11');
SELECT target, updated, deleted, error FROM cdc_apply_attached('apply_group') WHERE target::text <> 'apart';
DROP TABLE refers;
-- one attached leaf is a group with what refers to it alone
SELECT cdc_detach('part', drop_tombstones => true);
SELECT cdc_attach('part_1', 'part_event');
CREATE TABLE refers (id int PRIMARY KEY, part int REFERENCES part_1);
SELECT cdc_attach('refers', 'refers_event');
TRUNCATE part_event, refers_event;
INSERT INTO part_event VALUES ('c', 5, 1, '0/31'), ('d', 2, NULL, '0/32');
INSERT INTO refers_event VALUES ('c', 8, 5, '0/2');
SELECT target, inserted, deleted, error FROM cdc_apply_attached('apply_group') WHERE target::text <> 'apart';
DROP TABLE refers, part;

--
-- Triggers of a group: each table's statement triggers once, with its own rows
--
CREATE TABLE up (id int PRIMARY KEY, v text);
CREATE TABLE down (id int PRIMARY KEY, up int REFERENCES up ON DELETE CASCADE);
CREATE TABLE fired (what text);
CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO apply_group.fired SELECT concat_ws(' ', TG_TABLE_NAME, TG_OP, TG_LEVEL, (SELECT string_agg(id::text, ',' ORDER BY id) FROM r), (SELECT count(*) FROM apply_group.up), (SELECT count(*) FROM apply_group.down)); RETURN NULL; END $$;
CREATE TRIGGER i AFTER INSERT ON up REFERENCING NEW TABLE AS r FOR EACH STATEMENT EXECUTE FUNCTION say();
CREATE TRIGGER d AFTER DELETE ON up REFERENCING OLD TABLE AS r FOR EACH STATEMENT EXECUTE FUNCTION say();
CREATE TRIGGER i AFTER INSERT ON down REFERENCING NEW TABLE AS r FOR EACH STATEMENT EXECUTE FUNCTION say();
CREATE TRIGGER d AFTER DELETE ON down REFERENCING OLD TABLE AS r FOR EACH STATEMENT EXECUTE FUNCTION say();
CREATE TABLE up_event (op text, id int, v text, source_position cdc_position);
CREATE TABLE down_event (op text, id int, up int, source_position cdc_position);
SELECT cdc_attach('up', 'up_event', consume => 'delete'), cdc_attach('down', 'down_event', consume => 'delete');
INSERT INTO up_event SELECT 'c', i, 'v', cdc_position('0/0'::pg_lsn + i) FROM generate_series(1, 5) i;
INSERT INTO down_event SELECT 'c', 10 + i, i, cdc_position('0/0'::pg_lsn + i) FROM generate_series(1, 5) i;
SELECT target, events, inserted, error FROM cdc_apply_attached('apply_group') WHERE target::text <> 'apart';
SELECT * FROM fired ORDER BY what COLLATE "C";
TRUNCATE fired;
INSERT INTO up_event VALUES ('d', 1, NULL, '0/10'), ('d', 2, NULL, '0/11');
INSERT INTO down_event VALUES ('d', 11, NULL, '0/9');
SELECT target, events, deleted, error FROM cdc_apply_attached('apply_group') WHERE target::text <> 'apart';
-- key 12 is the cascade's
SELECT * FROM fired ORDER BY what COLLATE "C";
SELECT expect('all was consumed', rows_of('up_event') || rows_of('down_event'), 'nonenone');
-- an apply from a trigger of the group is an apply of its own
CREATE TABLE copy (id int PRIMARY KEY, up int REFERENCES up DEFERRABLE);
CREATE TABLE copy_event (op text, id int, up int, source_position cdc_position);
SELECT cdc_attach('copy', 'copy_event', staging_filter => 'false');
CREATE TABLE copied (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE FUNCTION pass_on() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.cdc_apply('apply_group.copied', 'apply_group.up_event'); RETURN NEW; END $$;
CREATE TRIGGER p BEFORE INSERT ON up FOR EACH ROW EXECUTE FUNCTION pass_on();
SELECT cdc_attach('up', consume => 'keep');
INSERT INTO up_event VALUES ('c', 21, 'x', '0/21');
INSERT INTO down_event VALUES ('c', 31, 21, '0/22');
SELECT target, inserted, error FROM cdc_apply_attached('apply_group') WHERE target::text ~ 'up|down';
SELECT expect('both', rows_of('SELECT id FROM up WHERE id > 20') || rows_of('SELECT id FROM copied'), '(21)(21)');
DROP TABLE copy, down, up;

--
-- Different owners are not tied, but parents come first
--
CREATE ROLE regress_cdc_group_a;
CREATE ROLE regress_cdc_group_b;
GRANT ALL ON SCHEMA apply_group TO regress_cdc_group_a, regress_cdc_group_b;
CREATE TABLE z_parent (id int PRIMARY KEY);
CREATE TABLE m_child (id int PRIMARY KEY, ref int REFERENCES z_parent);
CREATE TABLE a_child (id int PRIMARY KEY, ref int REFERENCES m_child);
ALTER TABLE z_parent OWNER TO regress_cdc_group_a;
ALTER TABLE m_child OWNER TO regress_cdc_group_b;
ALTER TABLE a_child OWNER TO regress_cdc_group_a;
GRANT SELECT ON a_event, b_event, c_event TO PUBLIC;
SELECT cdc_attach('z_parent', 'a_event', except_columns => '{ref}'), cdc_attach('m_child', 'b_event'), cdc_attach('a_child', 'c_event');
TRUNCATE a_event, b_event, c_event;
INSERT INTO a_event VALUES ('c', 1, NULL, '0/1');
INSERT INTO b_event VALUES ('c', 1, 1, '0/2');
INSERT INTO c_event VALUES ('c', 1, 1, '0/3');
SELECT target, inserted, error FROM cdc_apply_attached('apply_group') WHERE target::text ~ '_';
INSERT INTO a_event VALUES ('d', 1, NULL, '0/12');
INSERT INTO b_event VALUES ('d', 1, NULL, '0/11');
INSERT INTO c_event VALUES ('d', 1, NULL, '0/10');
SELECT expect('run ' || n || ': deleted', (SELECT coalesce(sum(deleted), 0)::text FROM cdc_apply_attached('apply_group') WHERE target::text ~ '_' AND n IS NOT NULL), '1') FROM generate_series(1, 3) n;

DROP SCHEMA apply_group CASCADE;
DROP ROLE regress_cdc_group_a, regress_cdc_group_b;
