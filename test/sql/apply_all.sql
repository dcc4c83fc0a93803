-- All attached targets by one call, each as its owner: cdc_apply_attached() and
-- cdc_apply_all().
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA apply_all;
SET search_path = apply_all, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;
SET datestyle = iso;
CREATE ROLE regress_cdc_all_a;
CREATE ROLE regress_cdc_all_b;
CREATE ROLE regress_cdc_all_job;
GRANT regress_cdc_all_a TO regress_cdc_all_job;
CREATE SCHEMA apply_all_x;
CREATE SCHEMA apply_all_y;
GRANT ALL ON SCHEMA apply_all, apply_all_x, apply_all_y TO PUBLIC;

--
-- Every attached target whose staging is there, of one schema or all
--
CREATE TABLE apply_all_x.one (id int PRIMARY KEY, v text);
CREATE TABLE apply_all_x."Two" (id int PRIMARY KEY, v text);
CREATE TABLE apply_all_x.unfed (id int PRIMARY KEY, v text);
CREATE TABLE apply_all_x.no_staging (id int PRIMARY KEY, v text);
CREATE TABLE apply_all_x.not_attached (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
CREATE TABLE apply_all_y.three (id int PRIMARY KEY, v text);
CREATE TABLE s (op text, id int, v text, source_position cdc_position);
CREATE TABLE passing (LIKE s);
SELECT cdc_attach('apply_all_x.one', 's'), cdc_attach('apply_all_x."Two"', 's', tombstones => 'row'), cdc_attach('apply_all_y.three', 's'), cdc_attach('apply_all_x.unfed', 'passing'), cdc_attach('apply_all_x.no_staging');
DROP TABLE passing;
INSERT INTO s VALUES ('c', 1, 'a', '0/1'), ('u', 1, 'b', '0/2'), ('c', 2, 'x', '0/1'), ('d', 2, NULL, '0/3');
CREATE FUNCTION live() RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', (SELECT string_agg(id || v, '') FROM apply_all_x.one), (SELECT string_agg(id || v, '') FROM apply_all_x."Two" WHERE NOT deleted), (SELECT string_agg(id || v, '') FROM apply_all_y.three))
$$;
SELECT target, inserted, updated, deleted, superseded, skipped, low_position, high_position, error FROM cdc_apply_attached('apply_all_x');
SELECT expect('one schema', live(), '1b 1b');
SELECT target, inserted, duplicate, error FROM cdc_apply_attached() WHERE target::text ~ '^apply_all_';
SELECT expect('all schemas', live(), '1b 1b 1b');
SELECT refused('no such schema', $$SELECT * FROM cdc_apply_attached('apply_all_nowhere')$$, '3F000', 'apply_all_nowhere', '', false);
SELECT refused('not where nothing may be written', $$SET LOCAL transaction_read_only = on; SELECT * FROM cdc_apply_attached('apply_all_x')$$, '25006', 'cdc_apply_attached', '', false);

--
-- A target that fails is rolled back alone, and recorded
--
ALTER TABLE apply_all_x."Two" ADD CHECK (v <> 'bad');
INSERT INTO s VALUES ('c', 3, 'good', '0/10'), ('c', 4, 'bad', '0/11');
BEGIN;
SELECT target, inserted, error FROM cdc_apply_attached('apply_all_x');
SELECT expect('the transaction goes on', live(), '1b3good4bad 1b 1b');
COMMIT;
SELECT expect('recorded: ' || target, concat_ws(' ', events, inserted, sqlstate, error IS NOT NULL), CASE WHEN target = 'apply_all_x.one'::regclass THEN '6 2 f' ELSE '23514 t' END) FROM (SELECT DISTINCT ON (target) * FROM cdc_runs WHERE target::text ~ '^apply_all_x' ORDER BY target, run_id DESC) r ORDER BY target::text COLLATE "C";
SELECT expect('and seen', string_agg(target::text, ', '), 'apply_all_x."Two"') FROM cdc_status WHERE last_error ~ 'violates check constraint' AND target::text ~ '^apply_all_';
-- deferred constraints are checked inside, and the caller's own before that
CREATE TABLE apply_all_y.later (id int PRIMARY KEY, v text UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE s_later (LIKE s);
SELECT cdc_attach('apply_all_y.later', 's_later');
INSERT INTO s_later VALUES ('c', 1, 'same', '0/1'), ('c', 2, 'same', '0/2');
BEGIN;
SELECT target, inserted, error FROM cdc_apply_attached('apply_all_y');
COMMIT;
SELECT expect('nothing came', count(*)::text, '0') FROM apply_all_y.later;
UPDATE s_later SET v = 'other' WHERE id = 2;
BEGIN;
INSERT INTO apply_all_y.later VALUES (7, 'mine', '0/1'), (8, 'mine', '0/1');
SELECT refused('the caller''s own wait is over', $$SELECT * FROM cdc_apply_attached('apply_all_y')$$, '23505', 'later_v_key', '', false);
ROLLBACK;
SELECT target, inserted, error FROM cdc_apply_attached('apply_all_y');

--
-- A transaction each, and red at the end
--
INSERT INTO s VALUES ('c', 5, 'five', '0/20');
CALL cdc_apply_all('apply_all_x');
\echo :LAST_ERROR_SQLSTATE | :LAST_ERROR_MESSAGE
SELECT expect('the others are applied', live(), '1b3good4bad5five 1b 1b3good4bad');
DELETE FROM s WHERE v = 'bad';
CALL cdc_apply_all('apply_all_x');
CALL cdc_apply_all(schema_name => 'apply_all_y', nowait => false);
SELECT expect('all of them', live(), '1b3good4bad5five 1b3good5five 1b3good4bad5five');
CALL cdc_apply_all('apply_all_nowhere');
BEGIN;
CALL cdc_apply_all('apply_all_x');
ROLLBACK;
DO $$ BEGIN CALL cdc_apply_all('apply_all_x'); END $$;
SELECT refused('in a function neither', $$CALL cdc_apply_all('apply_all_x')$$, '2D000', NULL, 'dh');
-- many failures are not all told
CREATE SCHEMA apply_all_z;
DO $$ BEGIN FOR i IN 1 .. 22 LOOP EXECUTE format('CREATE TABLE apply_all_z.t%s (id int PRIMARY KEY, v text CHECK (v = ''''))', to_char(i, 'FM00')); PERFORM cdc_attach(format('apply_all_z.t%s', to_char(i, 'FM00'))::regclass, 's'); END LOOP; END $$;
CALL cdc_apply_all('apply_all_z');
SELECT expect('but all recorded', count(*)::text, '22') FROM cdc_runs WHERE target::text ~ '^apply_all_z' AND sqlstate = '23514';
DROP SCHEMA apply_all_z CASCADE;

--
-- As the owner
--
CREATE TABLE apply_all_x.as_a (id int PRIMARY KEY, v text);
CREATE TABLE apply_all_x.as_b (id int PRIMARY KEY, v text);
CREATE TABLE s_owner (LIKE s);
GRANT SELECT ON s, s_owner TO PUBLIC;
CREATE TABLE saw (what text);
GRANT ALL ON saw TO PUBLIC;
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO apply_all.saw VALUES (concat_ws(' ', TG_TABLE_NAME, TG_WHEN, TG_LEVEL, current_user, current_setting('search_path')));
	RETURN NEW;
END $$;
ALTER TABLE apply_all_x.as_a OWNER TO regress_cdc_all_a;
ALTER TABLE apply_all_x.as_b OWNER TO regress_cdc_all_b;
SELECT cdc_attach('apply_all_x.as_a', 's_owner'), cdc_attach('apply_all_x.as_b', 's_owner');
CREATE TRIGGER a BEFORE INSERT OR UPDATE ON apply_all_x.as_a FOR EACH ROW EXECUTE FUNCTION look();
CREATE TRIGGER b AFTER INSERT OR UPDATE ON apply_all_x.as_a FOR EACH ROW EXECUTE FUNCTION look();
CREATE TRIGGER c AFTER INSERT OR UPDATE ON apply_all_x.as_b FOR EACH STATEMENT EXECUTE FUNCTION look();
CREATE CONSTRAINT TRIGGER d AFTER INSERT ON apply_all_x.as_b DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION look();
INSERT INTO s_owner VALUES ('c', 1, 'a', '0/1');
SELECT target, inserted, error FROM cdc_apply_attached('apply_all_x') WHERE inserted > 0 OR error IS NOT NULL;
SELECT expect('code saw ' || split_part(what, ' ', 1), substr(what, strpos(what, ' ') + 1), w) FROM saw JOIN (VALUES
	('as_a', 'BEFORE', 'ROW regress_cdc_all_a'), ('as_a', 'AFTER', 'ROW regress_cdc_all_a'), ('as_b', 'AFTER', 'STATEMENT regress_cdc_all_b'), ('as_b', 'AFTER', 'ROW regress_cdc_all_b')) v(t, a, b) ON what LIKE t || ' ' || a || ' ' || split_part(b, ' ', 1) || ' %', LATERAL (SELECT a || ' ' || b || ' pg_catalog, pg_temp' AS w) x ORDER BY what COLLATE "C";
SELECT expect('all of it', count(*)::text, '4') FROM saw;
SELECT expect('the caller is who he was', current_user || ' ' || current_setting('search_path'), session_user || ' apply_all, public');
-- a caller who cannot become the owner is told so, and nothing is recorded
CREATE TABLE runs_before AS SELECT count(*) AS n FROM cdc_runs;
INSERT INTO s_owner VALUES ('c', 2, 'b', '0/2');
SET ROLE regress_cdc_all_job;
SELECT target, inserted, error FROM cdc_apply_attached('apply_all_x') WHERE target::text ~ 'as_' ORDER BY target::text COLLATE "C";
CALL cdc_apply_all('apply_all_y');
\echo :LAST_ERROR_SQLSTATE | :LAST_ERROR_MESSAGE
RESET ROLE;
SELECT expect('one run recorded, under the name of the job', string_agg(concat_ws(' ', target, role, events), ', '), 'apply_all_x.as_a regress_cdc_all_job 2') FROM cdc_runs WHERE run_id > (SELECT max(run_id) - (SELECT count(*) FROM cdc_runs) + n FROM cdc_runs, runs_before GROUP BY n);
SELECT expect('as_b was not touched', count(*)::text, '1') FROM apply_all_x.as_b;
-- the owner may lack rights to staging, whoever calls
REVOKE SELECT ON s_owner FROM PUBLIC;
SELECT target, error FROM cdc_apply_attached('apply_all_x') WHERE target::text ~ 'as_a';
GRANT SELECT ON s_owner TO PUBLIC;

--
-- What an owner's code cannot do with the caller
--
CREATE FUNCTION tricks() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	trick text; state text;
BEGIN
	FOREACH trick IN ARRAY ARRAY[
		'SET ROLE NONE', 'RESET ROLE', 'SET SESSION AUTHORIZATION DEFAULT', 'RESET SESSION AUTHORIZATION',
		'CREATE TEMP TABLE trick (i int)', 'DECLARE trick CURSOR WITH HOLD FOR SELECT current_user', 'PREPARE trick AS SELECT 1', 'LISTEN trick',
		'COMMIT', 'CREATE ROLE regress_cdc_all_trick SUPERUSER', 'ALTER ROLE regress_cdc_all_b SUPERUSER',
		'DELETE FROM public.cdc_run_log', 'SET search_path = apply_all', 'SET LOCAL work_mem = ''100MB''', 'SET work_mem = ''101MB''',
		'SET CONSTRAINTS ALL DEFERRED'] LOOP
		state := 'done';
		BEGIN
			EXECUTE trick;
		EXCEPTION WHEN OTHERS THEN
			state := SQLSTATE;
		END;
		INSERT INTO apply_all.saw VALUES (trick || ': ' || state);
	END LOOP;
	RETURN NEW;
END $$;
TRUNCATE saw;
CREATE TRIGGER t BEFORE INSERT ON apply_all_x.as_b FOR EACH ROW EXECUTE FUNCTION tricks();
-- deferred anew, its trigger would run at the caller's COMMIT
SELECT target, inserted, error FROM cdc_apply_attached('apply_all_x') WHERE target::text ~ 'as_b';
SELECT expect('rolled back', count(*)::text, '0') FROM saw;
DROP TRIGGER d ON apply_all_x.as_b;
-- nor are the constraints of others, whose turn comes later
CREATE TABLE apply_all_x.at_last (id int PRIMARY KEY, v text UNIQUE DEFERRABLE);
SELECT cdc_attach('apply_all_x.at_last', 's_owner');
BEGIN;
SELECT target, inserted, error FROM cdc_apply_attached('apply_all_x') WHERE target::text ~ 'as_b' OR target::text ~ 'at_last';
INSERT INTO apply_all_x.at_last VALUES (90, 'twice', '0/1');
SAVEPOINT s;
INSERT INTO apply_all_x.at_last VALUES (91, 'twice', '0/1');
ROLLBACK TO s;
COMMIT;
SELECT * FROM saw;
SELECT expect('settings are the caller''s', current_setting('search_path') || ' ' || (current_setting('work_mem') ~ '^10[01]MB')::text, 'apply_all, public false');

--
-- Code of an owner that says the call was cancelled is a failure of its target alone
--
DROP TRIGGER t ON apply_all_x.as_b;
CREATE FUNCTION cancelled() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'cancelled, says %', TG_TABLE_NAME USING ERRCODE = 'query_canceled'; END $$;
CREATE TRIGGER t BEFORE INSERT ON apply_all_x.as_a FOR EACH ROW EXECUTE FUNCTION cancelled();
INSERT INTO s_owner VALUES ('c', 93, 'later', '0/9');
SELECT target, inserted, error FROM cdc_apply_attached('apply_all_x') WHERE target::text ~ 'as_' ORDER BY target::text COLLATE "C";
INSERT INTO s_owner VALUES ('c', 94, 'later still', '0/A');
CALL cdc_apply_all('apply_all_x');
\echo :LAST_ERROR_SQLSTATE | :LAST_ERROR_MESSAGE
SELECT expect('the other is applied', string_agg(id::text, ' ' ORDER BY id), '93 94') FROM apply_all_x.as_b WHERE id IN (93, 94);
SELECT expect('and it is recorded', error, 'cancelled, says as_a') FROM cdc_runs WHERE target = 'apply_all_x.as_a'::regclass ORDER BY run_id DESC LIMIT 1;
-- nor has he the last word by talking on: what is kept of it has an end
CREATE OR REPLACE FUNCTION cancelled() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '%', repeat('long ', 1000000); END $$;
SELECT expect('clipped', (length(error) BETWEEN 4000 AND 4100 AND error LIKE 'long long %...')::text, 'true') FROM cdc_apply_attached('apply_all_x') WHERE target::text ~ 'as_a';
DROP TRIGGER t ON apply_all_x.as_a;
-- a real one ends the call
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$;
CREATE TRIGGER t BEFORE INSERT ON apply_all_x.as_a FOR EACH ROW EXECUTE FUNCTION slow();
SET statement_timeout = '300ms';
SELECT target FROM cdc_apply_attached('apply_all_x');
CALL cdc_apply_all('apply_all_x');
\echo :LAST_ERROR_SQLSTATE | :LAST_ERROR_MESSAGE
RESET statement_timeout;

DROP SCHEMA apply_all, apply_all_x, apply_all_y CASCADE;
DROP ROLE regress_cdc_all_job, regress_cdc_all_a, regress_cdc_all_b;
