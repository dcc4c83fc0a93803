-- Code that runs inside an apply - triggers, expressions, casts, domain
-- checks, views - and does what an apply does, or takes away what it stands
-- on: it is refused in words for users, or does no harm; never an internal
-- error of the server.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
SET client_min_messages = error;
CREATE SCHEMA errors_nested;
SET search_path = errors_nested, public;
\i :testdir/include/error_helpers.sql
-- Each act as the body of a function, where a case calls it; what came, and
-- how the target stands if there was no error.
CREATE FUNCTION act() RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION acts_once() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('errors_nested.acting', true) = 'no' THEN RETURN true; END IF;
	PERFORM set_config('errors_nested.acting', 'no', true);
	PERFORM act();
	RETURN true;
END $$;
CREATE FUNCTION outcome(body text, command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r text; state text; message text;
BEGIN
	EXECUTE format('CREATE OR REPLACE FUNCTION act() RETURNS void LANGUAGE plpgsql AS %L', 'BEGIN ' || body || '; END');
	PERFORM set_config('errors_nested.acting', 'yes', true);
	BEGIN
		EXECUTE command;
		SELECT string_agg(id || '=' || coalesce(v, '') || '@' || source_position, ' ' ORDER BY id) INTO r FROM t;
		RAISE SQLSTATE '00001' USING MESSAGE = coalesce(r, 'no rows');
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
	END;
	RETURN CASE WHEN state = '00001' THEN 'ok ' || message
		-- the server's own texts differ between majors
		WHEN state ~ '^XX' OR message ~ 'OID|cache lookup|internal' THEN 'NOT OK ' || state || ': ' || message
		ELSE state END;
END $$;
-- Which acts came to what.
CREATE FUNCTION outcomes(command text) RETURNS TABLE (came_to text, acts text) LANGUAGE plpgsql AS $$
DECLARE
	a record; came jsonb := '{}'; o text;
BEGIN
	FOR a IN SELECT n, body FROM acts ORDER BY n LOOP
		o := outcome(a.body, command);
		came := came || jsonb_build_object(o, coalesce(came ->> o || ' ', '') || a.n);
	END LOOP;
	RETURN QUERY SELECT key, value FROM jsonb_each_text(came) ORDER BY key COLLATE "C";
END $$;
\set ECHO all
\pset format unaligned
\pset tuples_only on

CREATE TABLE t (id int, v text);
CREATE UNIQUE INDEX t_key ON t (id);
CREATE TABLE s (op text, id int, v text, source_position cdc_position);
INSERT INTO s VALUES ('c', 1, 'one', '0/10'), ('d', 2, NULL, '0/20'), ('c', 3, 'three', '0/30');
SELECT cdc_attach('t', 's', key_columns => '{id}');
SELECT inserted FROM cdc_apply('t');
INSERT INTO s VALUES ('u', 1, 'new', '0/40'), ('d', 3, NULL, '0/50'), ('c', 4, 'four', '0/60');
CREATE TABLE acts (n int, body text);
INSERT INTO acts VALUES
	(1, $$PERFORM cdc_apply('t')$$),
	(2, $$PERFORM cdc_apply('t', consume => 'delete')$$),
	(3, $$PERFORM cdc_attach('t', guard => 'error')$$),
	(4, $$PERFORM cdc_attach('t', live_view => 'x')$$),
	(5, $$PERFORM cdc_detach('t', drop_tombstones => true)$$),
	(6, $$PERFORM cdc_purge_tombstones('t', up_to => '0/FF', force => true)$$),
	(7, $$PERFORM cdc_set_fence('t', '0/FF'), cdc_set_floor('t', '0/FF')$$),
	(8, $$PERFORM cdc_new_epoch('t', 'next')$$),
	(9, $$DELETE FROM t$$),
	(10, $$INSERT INTO t VALUES (4, 'mine', '0/1') ON CONFLICT DO NOTHING$$),
	(11, $$UPDATE t SET source_position = '0/FFF'$$),
	(12, $$DELETE FROM t_tombstones$$),
	(13, $$UPDATE t_tombstones SET source_position = '0/FFF'$$),
	(14, $$DELETE FROM s$$),
	(15, $$INSERT INTO s VALUES ('d', 1, NULL, '0/FFF')$$),
	(16, $$TRUNCATE t$$),
	(17, $$TRUNCATE s$$),
	(18, $$TRUNCATE t_tombstones$$),
	(19, $$DROP TABLE t$$),
	(20, $$DROP TABLE s$$),
	(21, $$DROP TABLE t_tombstones$$),
	(22, $$DROP INDEX t_tombstones_key$$),
	(23, $$ALTER TABLE t ADD more int$$),
	(24, $$ALTER TABLE t DROP v$$),
	(25, $$ALTER TABLE t RENAME v TO w$$),
	(26, $$ALTER TABLE s ADD more int$$),
	(27, $$ALTER TABLE t ALTER id TYPE bigint$$),
	(28, $$DROP INDEX t_key$$),
	(29, $$DROP EXTENSION cdc_precedence CASCADE$$),
	(30, $$CREATE INDEX ON t (v)$$),
	(31, $$CREATE TRIGGER late BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()$$),
	(32, $$LOCK TABLE t, s, t_tombstones$$),
	(33, $$DELETE FROM cdc_target_rule$$),
	(34, $$DELETE FROM cdc_target_state$$),
	(35, $$ALTER TABLE t ALTER v TYPE varchar(3)$$),
	(36, $$ALTER TABLE t OWNER TO pg_monitor$$),
	(37, $$ALTER TABLE t_tombstones ALTER id TYPE bigint$$),
	(38, $$PERFORM set_config('search_path', 'pg_catalog', false)$$),
	(39, $$ANALYZE t; ANALYZE s$$),
	(40, $$SET LOCAL enable_indexscan = off; SET LOCAL work_mem = '64kB'$$);

CREATE FUNCTION acting() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM acts_once(); RETURN coalesce(NEW, OLD); END';
\echo in an expression over staging
SELECT * FROM outcomes($$SELECT cdc_apply('t', staging_filter => 'acts_once()')$$);
\echo in a view over staging
CREATE VIEW acting_view AS SELECT * FROM s WHERE acts_once();
SELECT * FROM outcomes($$SELECT cdc_apply('t', 'acting_view', consume => 'delete')$$);
\echo in a trigger of the target, before each row
CREATE TRIGGER acting BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION acting();
SELECT * FROM outcomes($$SELECT cdc_apply('t')$$);
\echo after each row
DROP TRIGGER acting ON t;
CREATE TRIGGER acting AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION acting();
SELECT * FROM outcomes($$SELECT cdc_apply('t')$$);
\echo before the statement
DROP TRIGGER acting ON t;
CREATE TRIGGER acting BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION acting();
SELECT * FROM outcomes($$SELECT cdc_apply('t')$$);
DROP TRIGGER acting ON t;
\echo in a check of the target
ALTER TABLE t ADD CONSTRAINT acting CHECK (acts_once());
SELECT * FROM outcomes($$SELECT cdc_apply('t')$$);
ALTER TABLE t DROP CONSTRAINT acting;
\echo in a trigger of staging that is consumed
CREATE TRIGGER acting BEFORE DELETE ON s FOR EACH ROW EXECUTE FUNCTION acting();
SELECT * FROM outcomes($$SELECT cdc_apply('t', consume => 'delete')$$);
DROP TRIGGER acting ON s;
\echo in the check of a domain to which values are converted
CREATE DOMAIN acting AS text CHECK (acts_once());
ALTER TABLE t ALTER v TYPE acting;
SELECT * FROM outcomes($$SELECT cdc_apply('t')$$);
ALTER TABLE t ALTER v TYPE text;
\echo in a trigger of the side table
CREATE TRIGGER acting BEFORE INSERT OR UPDATE OR DELETE ON t_tombstones FOR EACH ROW EXECUTE FUNCTION acting();
SELECT * FROM outcomes($$SELECT cdc_apply('t')$$);
DROP TRIGGER acting ON t_tombstones;
\echo in a trigger beside the guard
SELECT cdc_attach('t', guard => 'error');
CREATE TRIGGER acting BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION acting();
SELECT * FROM outcomes($$INSERT INTO t VALUES (8, 'x', '0/80'), (9, 'y', '0/90')$$);
ALTER TRIGGER acting ON t RENAME TO zzzz_acting;
SELECT * FROM outcomes($$INSERT INTO t VALUES (8, 'x', '0/80'), (9, 'y', '0/90')$$);
DROP TRIGGER zzzz_acting ON t;
-- nothing of it is left
SELECT updated, deleted, inserted FROM cdc_apply('t');
SELECT string_agg(id || '=' || v || '@' || source_position, ' ' ORDER BY id) FROM t;
DROP SCHEMA errors_nested CASCADE;
