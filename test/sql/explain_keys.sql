-- cdc_explain where keys are not numbers in their order: equal keys of other
-- images, indexes that fall, keys of several columns, a key that is out of line.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA explain_keys;
SET search_path = explain_keys, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

CREATE FUNCTION same_counts(t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a text; b text; n bigint;
BEGIN
	SELECT counts(r), r.events INTO a, n FROM cdc_apply(t::regclass, dry_run => true) r;
	SELECT string_agg(outcome || '=' || c, ' ' ORDER BY array_position('{inserted,updated,deleted,stale,duplicate,superseded,fenced,ignored,truncated,error}', outcome)) INTO b
	FROM (SELECT outcome, count(*) AS c FROM cdc_explain(t::regclass) GROUP BY 1) o;
	RETURN expect(t || ' ' || n, b, a);
END $$;
-- explained, applied in part, explained again; with much memory and with little
CREATE FUNCTION in_parts(t text, s text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	FOR little IN 0 .. 1 LOOP
		PERFORM set_config('cdc_precedence.debug_fold_events', CASE WHEN little = 1 THEN '7' ELSE '0' END, true);
		EXECUTE 'TRUNCATE ' || t;
		RETURN NEXT same_counts(t);
		PERFORM cdc_apply(t::regclass, staging_filter => 'cdc_position_part(source_position, 2) <= 600');
		RETURN NEXT same_counts(t);
	END LOOP;
END $$;

CREATE TABLE n (a numeric, b text COLLATE "C", v text);
CREATE UNIQUE INDEX n_key ON n (a DESC NULLS LAST, b DESC);
ALTER TABLE n ALTER a SET NOT NULL, ALTER b SET NOT NULL;
CREATE TABLE ns (op text, a numeric, b text, v text, __old_a numeric, __old_b text, source_position cdc_position);
SELECT cdc_attach('n', 'ns', key_columns => '{a,b}');
INSERT INTO ns SELECT CASE WHEN h % 7 = 0 THEN 'd' ELSE 'u' END, (h % 10)::numeric + CASE h % 3 WHEN 0 THEN 0 WHEN 1 THEN 0.0 ELSE 0.000 END,
	repeat(chr(97 + h / 10 % 4), CASE WHEN h / 10 % 4 = 3 THEN 2000 ELSE 1 END), 'v' || i, CASE WHEN h % 5 = 0 THEN (h / 100 % 10)::numeric END, CASE WHEN h % 5 = 0 THEN chr(97 + h / 1000 % 4) END,
	cdc_position(pg_lsn '0/1', i) FROM (SELECT i, abs(hashint4(i)) AS h FROM generate_series(1, 1000) i) x;
SELECT in_parts('n', 'ns');
SELECT count(*), count(DISTINCT event_key), bool_and(outcome <> 'error') FROM cdc_explain('n');

-- a type of one's own order, without hashing
CREATE TABLE k (a int, b uuid, c bytea, v text, PRIMARY KEY (c, a, b));
CREATE TABLE ks (op text, a int, b uuid, c bytea, v text, source_position cdc_position);
SELECT cdc_attach('k', 'ks', tombstones => 'row');
INSERT INTO ks SELECT CASE WHEN h % 7 = 0 THEN 'd' ELSE 'u' END, h % 5, lpad(to_hex(h % 11), 32, '0')::uuid, decode(lpad(to_hex(h % 3), 2, '0'), 'hex'), 'v' || i,
	cdc_position(pg_lsn '0/1', i) FROM (SELECT i, abs(hashint4(i)) AS h FROM generate_series(1, 1000) i) x;
SELECT in_parts('k', 'ks');

-- a view over raw events: what cannot be decoded ends the reading, and is named
CREATE TABLE r (id int PRIMARY KEY, v text, at date);
CREATE TABLE raw (seq bigint, payload jsonb);
SELECT cdc_event_view('r_events', 'r', 'raw', 'payload', 'debezium');
SELECT cdc_attach('r', 'r_events');
INSERT INTO raw VALUES (1, '{"op": "c", "before": null, "after": {"id": 1, "v": "a", "at": 20000}, "source": {"connector": "postgresql", "lsn": 256, "schema": "public", "table": "r"}}');
SELECT * FROM cdc_explain('r');
INSERT INTO raw VALUES (2, '{"op": "u", "before": null, "after": {"id": 1, "v": "a", "at": "never"}, "source": {"connector": "postgresql", "lsn": 512, "schema": "public", "table": "r"}}');
SELECT event_key, op, event_position, outcome, reason LIKE 'staging "explain_keys.r_events" could not be read: %"at"%' FROM cdc_explain('r');
DROP SCHEMA explain_keys CASCADE;
