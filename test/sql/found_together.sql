-- Rows that are looked for together, with others or one by one: the same is
-- found. Keys that have several index entries, dead ones, keys that are gone or
-- new, indexes of one page and of many, in any order of columns and directions.
\set ECHO none
CREATE SCHEMA found_together;
SET search_path = found_together, public;
SET client_min_messages = warning;
-- A call with rows looked for in groups of each size, taken back each time; then for good.
CREATE FUNCTION in_groups(target text, staging text, options text DEFAULT '') RETURNS TABLE (size text, same boolean, counts text) LANGUAGE plpgsql AS $$
DECLARE
	n int;
	content text;
	first text;
BEGIN
	FOREACH n IN ARRAY ARRAY[0, 1, 3, 8, 64, -1] LOOP
		BEGIN
			PERFORM set_config('cdc_precedence.debug_scout', n::text, true);
			EXECUTE format('SELECT concat_ws('' '', events, inserted, updated, deleted, stale, duplicate, superseded) FROM cdc_apply(%L, %L%s)', target, staging, options)
				INTO counts;
			EXECUTE format('SELECT md5(string_agg(t::text, '','' ORDER BY t::text)) FROM %s t', target) INTO content;
			first := coalesce(first, counts || content);
			same := counts || content = first;
			size := n;
			RETURN NEXT;
			IF n >= 0 THEN
				RAISE SQLSTATE '00001';
			END IF;
		EXCEPTION WHEN SQLSTATE '00001' THEN
		END;
	END LOOP;
	PERFORM set_config('cdc_precedence.debug_scout', '-1', true);
END $$;
-- Rows of the target that are not those of the newest events, and the other way round.
CREATE FUNCTION differences(target text, keys text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format($q$
		WITH newest AS (SELECT DISTINCT ON (%2$s) %2$s, CASE WHEN op <> 'd' THEN v END AS v, op = 'd' AS deleted, source_position
			FROM (TABLE %1$s_1 UNION ALL TABLE %1$s_2 UNION ALL TABLE %1$s_3 UNION ALL TABLE %1$s_4) e ORDER BY %2$s, source_position DESC),
			has AS (SELECT %2$s, CASE WHEN NOT deleted THEN v END AS v, deleted, source_position FROM %1$s)
		SELECT (SELECT count(*) FROM (TABLE newest EXCEPT TABLE has) e) + (SELECT count(*) FROM (TABLE has EXCEPT TABLE newest) e)$q$, target, keys) INTO n;
	RETURN n;
END $$;
-- Four batches: all rows; twice a third of them, so that keys have many entries; any, also old ones and of new keys.
CREATE FUNCTION batches(target text, keys text, n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR b IN 1..4 LOOP
		EXECUTE format($q$
			CREATE TABLE %1$s_%3$s AS
			SELECT CASE WHEN h %% 10 = 0 THEN 'd' ELSE 'u' END AS op, %2$s, 'batch %3$s, ' || e AS v,
				cdc_position(('0/' || to_hex(CASE WHEN %3$s = 4 AND h %% 7 = 0 THEN 100 ELSE %3$s * 100000 END + e))::pg_lsn, 0) AS source_position
			FROM (SELECT e, e::bigint * 7919 %% (CASE WHEN %3$s = 4 THEN %4$s * 5 / 4 ELSE %4$s END) AS k, hashint4(e * 4 + %3$s) & 65535 AS h FROM generate_series(1, %4$s) e) x
			WHERE CASE %3$s WHEN 1 THEN true WHEN 4 THEN h %% 5 = 0 ELSE h %% 3 = 0 END$q$, target, keys, b, n);
	END LOOP;
END $$;
\set ECHO all
\pset format unaligned
\pset tuples_only on

-- numbers; updates leave index entries behind
CREATE TABLE numbers (id bigint PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false) WITH (autovacuum_enabled = off);
CREATE INDEX ON numbers (v);
SELECT batches('numbers', 'k AS id', 4000);
SELECT * FROM in_groups('numbers', 'numbers_1');
SELECT * FROM in_groups('numbers', 'numbers_2');
SELECT * FROM in_groups('numbers', 'numbers_3');
SELECT * FROM in_groups('numbers', 'numbers_4');
SELECT * FROM in_groups('numbers', 'numbers_4');
SELECT differences('numbers', 'id');

-- an index in falling order whose columns stand in another order than the table's
CREATE TABLE pairs (a int, b text COLLATE "C", v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false) WITH (autovacuum_enabled = off);
ALTER TABLE pairs ALTER a SET NOT NULL, ALTER b SET NOT NULL;
CREATE UNIQUE INDEX pairs_key ON pairs (b DESC, a);
CREATE INDEX ON pairs (v);
SELECT batches('pairs', '(k % 50)::int AS a, ''key '' || k AS b', 3000);
SELECT * FROM in_groups('pairs', 'pairs_1', ', key_columns => ''{a,b}''');
SELECT * FROM in_groups('pairs', 'pairs_2', ', key_columns => ''{a,b}''');
VACUUM pairs;
SELECT * FROM in_groups('pairs', 'pairs_3', ', key_columns => ''{a,b}''');
SELECT * FROM in_groups('pairs', 'pairs_4', ', key_columns => ''{a,b}''');
SELECT differences('pairs', 'a, b');

-- an index of one page
CREATE TABLE few (id text PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
SELECT batches('few', '''key '' || k AS id', 60);
SELECT * FROM in_groups('few', 'few_1');
SELECT * FROM in_groups('few', 'few_2');
SELECT * FROM in_groups('few', 'few_3');
SELECT * FROM in_groups('few', 'few_4');
SELECT differences('few', 'id');

-- what is found so is counted as looked up in the index
VACUUM numbers;
REINDEX TABLE numbers;
SET cdc_precedence.debug_scout = 8;
SELECT pg_stat_force_next_flush();
BEGIN;
SELECT idx_scan AS before FROM pg_stat_user_indexes WHERE indexrelid = 'numbers_pkey'::regclass \gset
SELECT duplicate > 500 FROM cdc_apply('numbers', 'numbers_4');
COMMIT;
SELECT pg_stat_force_next_flush();
SELECT idx_scan - :before > 500, idx_tup_read >= idx_tup_fetch FROM pg_stat_user_indexes WHERE indexrelid = 'numbers_pkey'::regclass;
RESET cdc_precedence.debug_scout;

-- a serializable transaction looks one by one, and so do temporary tables with few buffers
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM in_groups('numbers', 'numbers_4');
COMMIT;
SET temp_buffers = 100;
CREATE TEMP TABLE passing (LIKE numbers INCLUDING ALL);
SELECT * FROM in_groups('passing', 'numbers_1');
SELECT * FROM in_groups('passing', 'numbers_2');
\set ECHO none
DROP SCHEMA found_together CASCADE;
