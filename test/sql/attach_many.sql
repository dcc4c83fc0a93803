-- Two hundred tables of a schema: attached by one call, applied by another, in
-- one shared landing table's views and in staging tables of their own.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA attach_many;
SET search_path = attach_many, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;
CREATE SCHEMA attach_many_t;
CREATE SCHEMA attach_many_s;

-- Half of them have staging tables, half views of one landing table; a fifth
-- refers to the first, every fiftieth lacks what it needs.
CREATE TABLE landing (table_name text, op text, id int, v text, source_position cdc_position);
DO $$
DECLARE
	t text;
BEGIN
	FOR i IN 1 .. 200 LOOP
		t := 't' || to_char(i, 'FM000');
		EXECUTE format('CREATE TABLE attach_many_t.%s (id int %s, v text%s)', t, CASE WHEN i % 50 <> 0 THEN 'PRIMARY KEY' END,
			CASE WHEN i % 5 = 2 THEN ', FOREIGN KEY (id) REFERENCES attach_many_t.t001' END);
		CONTINUE WHEN i % 50 = 1 AND i > 1;
		IF i % 2 = 0 THEN
			EXECUTE format('CREATE TABLE attach_many_s.%s_events (op text, id int, v text, source_position cdc_position)', t);
		ELSE
			EXECUTE format('CREATE VIEW attach_many_s.%s_events AS SELECT op, id, v, source_position FROM landing WHERE table_name = %L', t, t);
		END IF;
	END LOOP;
END $$;
-- the registry cannot be read from a parallel plan, which these ask for
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT attached, count(*), count(reason) FROM cdc_attach_schema('attach_many_t', 'attach_many_s', '%s_events', dry_run => true) GROUP BY 1 ORDER BY 1;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
SELECT expect('a dry run attaches none', count(*)::text, '0') FROM cdc_targets WHERE target::text ~ '^attach_many_t';
SELECT attached, count(*), count(DISTINCT staging), string_agg(target::text || ': ' || reason, E'\n' ORDER BY target::text) FROM cdc_attach_schema('attach_many_t', 'attach_many_s', '%s_events') GROUP BY 1 ORDER BY 1;
SELECT expect('attached', count(*)::text, '193') FROM cdc_targets WHERE target::text ~ '^attach_many_t';

-- Events for all of them, then their target by the log alone
INSERT INTO landing SELECT 't' || to_char(i, 'FM000'), CASE WHEN k % 3 = 0 AND i > 1 THEN 'd' ELSE 'u' END, k % 7, 'v' || k || i, cdc_position('1/0'::pg_lsn + k * 7919 % 1000, i)
FROM generate_series(1, 200) i, generate_series(1, 20) k;
DO $$
BEGIN
	FOR i IN 2 .. 200 BY 2 LOOP
		EXECUTE format('INSERT INTO attach_many_s.t%1$s_events SELECT op, id, v, source_position FROM landing WHERE table_name = ''t%1$s''', to_char(i, 'FM000'));
	END LOOP;
END $$;
CREATE FUNCTION wrong() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	t text; got text; want text; result text := '';
BEGIN
	FOR t IN SELECT split_part(target::text, '.', 2) FROM cdc_targets WHERE target::text ~ '^attach_many_t' LOOP
		EXECUTE format('SELECT string_agg(id || v, '' '' ORDER BY id) FROM attach_many_t.%s', t) INTO got;
		SELECT string_agg(id || v, ' ' ORDER BY id) INTO want FROM (SELECT DISTINCT ON (id) * FROM landing WHERE table_name = t ORDER BY id, source_position DESC) e WHERE op <> 'd';
		IF got IS DISTINCT FROM want THEN
			result := result || format(' %s: %s, not %s', t, got, want);
		END IF;
	END LOOP;
	RETURN result;
END $$;
CALL cdc_apply_all('attach_many_t');
SELECT expect('every target is what its log says', wrong(), '');
SELECT expect('one run each', count(*) || ' ' || count(DISTINCT target) || ' ' || count(error), '193 193 0') FROM cdc_runs WHERE target::text ~ '^attach_many_t';
-- one of them fails in a group of many: those that are not tied to it go on
INSERT INTO landing SELECT 't' || to_char(i, 'FM000'), 'u', 100, 'new', '2/1' FROM generate_series(1, 200) i WHERE i % 2 = 1 OR i = 2;
INSERT INTO attach_many_s.t002_events VALUES ('u', 100, 'new', '2/1'), ('u', 101, 'orphan', '2/1');
SELECT error IS NULL AS applied, count(*), count(*) FILTER (WHERE inserted = 1) AS inserted FROM cdc_apply_attached('attach_many_t') GROUP BY 1 ORDER BY 1;
SELECT expect('tied to the failure', string_agg(substr(target::text, 16), ' ' ORDER BY target::text), string_agg(substr(w, 16), ' ' ORDER BY w)) FROM cdc_status s
	LEFT JOIN LATERAL (SELECT target::text AS w WHERE substr(target::text, 16)::int % 5 = 2 OR target = 'attach_many_t.t001'::regclass) x ON true WHERE target::text ~ '^attach_many_t' AND last_error IS NOT NULL;
DELETE FROM attach_many_s.t002_events WHERE v = 'orphan';
CALL cdc_apply_all('attach_many_t');
SELECT expect('and again all is well', wrong(), '');
CREATE FUNCTION rows_of(of regclass) RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN EXECUTE format('SELECT count(*) FROM %s', of) INTO n; RETURN n; END $$;
SELECT expect('and counted', sum(tombstones) || ' ' || (sum(rows_waiting) > 1000), (SELECT sum(rows_of(tombstones)) FROM cdc_targets WHERE target::text ~ '^attach_many_t' AND tombstones IS NOT NULL) || ' true') FROM cdc_status WHERE target::text ~ '^attach_many_t';
SELECT expect('in the status too', count(*) || ' ' || count(last_error), '193 0') FROM cdc_status WHERE target::text ~ '^attach_many_t';

DROP SCHEMA attach_many_t CASCADE;
SELECT expect('nothing is left of them', count(*)::text, '0') FROM cdc_run_log l WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = l.target);
DROP SCHEMA attach_many, attach_many_s CASCADE;
