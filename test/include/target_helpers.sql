/*
 * One table definition in both homes of the tombstone, a log for it, and the
 * comparison of what cdc_apply made of the log with what plain SQL makes of
 * it; after apply_helpers.sql.
 */

-- The commands of %s for NAME_row and NAME_table, staging and log beside them,
-- and both attached.  Event: the columns of staging but op and source_position.
CREATE FUNCTION make(name text, commands text, event text, args text DEFAULT '') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(commands, '%s', name || '_row');
	EXECUTE replace(commands, '%s', name || '_table');
	EXECUTE format('CREATE TABLE %s_event (op text, %s, source_position cdc_position)', name, event);
	EXECUTE format('CREATE TABLE %1$s_log (LIKE %1$s_event)', name);
	EXECUTE format('SELECT cdc_attach(%L, %L, tombstones => ''row''%s)', name || '_row', name || '_event', args);
	EXECUTE format('SELECT cdc_attach(%L, %L%s)', name || '_table', name || '_event', args);
END $$;

/*
 * The law by plain SQL over the log: of each key the event at the greatest
 * position, live unless it is a delete; compared as text, images and all.
 */
CREATE FUNCTION differs(name text, home text, key text, cols text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	live_cols text; key_cols text; result text;
BEGIN
	SELECT string_agg(format('(%s)::text COLLATE "C"', c), ', ') INTO live_cols FROM regexp_split_to_table(concat_ws('; ', key, cols, 'source_position'), ';\s*') c;
	SELECT string_agg(format('(%s)::text COLLATE "C"', c), ', ') INTO key_cols FROM regexp_split_to_table(key || '; source_position', ';\s*') c;
	EXECUTE format($q$
		WITH last_word AS (SELECT DISTINCT ON (%1$s) * FROM %2$s_log ORDER BY %1$s, source_position DESC),
		want AS (SELECT 'live ' || ROW(%3$s)::text AS r FROM last_word WHERE op <> 'd' UNION ALL SELECT 'dead ' || source_position FROM last_word WHERE op = 'd'),
		got AS (SELECT 'live ' || ROW(%3$s)::text AS r FROM %2$s_%4$s WHERE %5$s UNION ALL SELECT 'dead ' || source_position FROM %6$s)
		SELECT string_agg(r, ' ' ORDER BY r) FROM (
			(SELECT 'missing ' || r AS r FROM (TABLE want EXCEPT ALL TABLE got) m ORDER BY 1 LIMIT 3) UNION ALL
			(SELECT 'extra ' || r FROM (TABLE got EXCEPT ALL TABLE want) x ORDER BY 1 LIMIT 3)) d$q$,
		replace(key, ';', ','), name, live_cols, home, CASE home WHEN 'row' THEN 'NOT deleted' ELSE 'true' END,
		CASE home WHEN 'row' THEN name || '_row WHERE deleted' ELSE name || '_table_tombstones' END) INTO result;
	RETURN result;
END $$;

/*
 * The log in another order, cut into batches that overlap, at last all of it:
 * the counts are the same in both homes, the rest is as plain SQL has it, and
 * a replay changes nothing.  Key and columns are separated by semicolons.
 */
CREATE FUNCTION converges(what text, name text, key text, cols text, args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got text[]; problems text; c cdc_apply_result; home text; n_events bigint; n_dead bigint;
BEGIN
	FOR batch IN 1 .. 5 LOOP
		EXECUTE format('TRUNCATE %s_event', name);
		EXECUTE format($q$INSERT INTO %1$s_event SELECT * FROM %1$s_log l WHERE %2$L::boolean OR hashtextextended(l::text, 0) & 1023 BETWEEN %3$s AND %4$s OR hashtextextended(l::text, %5$s) & 3 = 0
			ORDER BY hashtextextended(l::text, %5$s)$q$, name, (batch >= 4)::text, (3 - batch) * 341, (4 - batch) * 341, batch);
		got := '{}';
		FOREACH home IN ARRAY '{row,table}'::text[] LOOP
			got := got || applied(name || '_' || home, name || '_event', args);
		END LOOP;
		IF got[1] <> got[2] THEN
			problems := concat_ws(E'\n    ', problems, format('batch %s: in the row %s, side table %s', batch, got[1], got[2]));
		END IF;
		IF batch = 5 AND got[1] ~ 'inserted|updated|deleted|fenced|truncated|skipped' THEN
			problems := concat_ws(E'\n    ', problems, 'a replay: ' || got[1]);
		END IF;
	END LOOP;
	FOREACH home IN ARRAY '{row,table}'::text[] LOOP
		problems := concat_ws(E'\n    ', problems, home || ' home: ' || differs(name, home, key, cols));
	END LOOP;
	EXECUTE format('SELECT count(*) FROM %s_log', name) INTO n_events;
	EXECUTE format('SELECT count(*) FROM %s_row WHERE deleted', name) INTO n_dead;
	RETURN CASE WHEN problems <> '' THEN 'NOT OK | ' || what || E'\n    ' || problems
		ELSE format('ok | %s: %s events, %s deleted keys', what, n_events, n_dead) END;
END $$;
