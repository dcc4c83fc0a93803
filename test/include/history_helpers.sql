/*
 * Histories compared with what plain SQL makes of all events: one walk through
 * the events of each key, in the order of their positions.
 *
 * Logs have the shape (op text, id int, name text, note text, was int,
 * source_position cdc_position, made_at timestamptz, missing text[]); was is
 * the key before a change of it.
 */
CREATE TABLE event (op text, id int, name text, note text, was int, source_position cdc_position, made_at timestamptz, missing text[]);

-- The versions that a log leaves; track: columns whose changes make versions.
CREATE FUNCTION told(log regclass, track text[] DEFAULT NULL)
RETURNS TABLE (id int, name text, note text, valid_from cdc_position, valid_to cdc_position, valid_from_at timestamptz, valid_to_at timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	k int; e record; live boolean; new_name text; new_note text;
	cur_name text; cur_note text; cur_from cdc_position; cur_at timestamptz;
BEGIN
	FOR k IN EXECUTE format('SELECT DISTINCT id FROM (SELECT id FROM %1$s UNION SELECT was FROM %1$s) x WHERE id IS NOT NULL', log) LOOP
		live := false;
		FOR e IN EXECUTE format($q$
			SELECT DISTINCT ON (source_position) * FROM (
				SELECT CASE WHEN op IN ('d', '-U') THEN 'gone' WHEN op = 't' THEN 'gone' ELSE 'there' END AS op, name, note, source_position, made_at, missing,
					CASE op WHEN 't' THEN 0 WHEN 'd' THEN 2 WHEN '-U' THEN 3 WHEN 'r' THEN 4 ELSE 1 END AS rank
				FROM %1$s WHERE id = %2$s OR op = 't'
				UNION ALL SELECT 'gone', NULL, NULL, source_position, made_at, NULL, 3 FROM %1$s WHERE was = %2$s AND was <> id) x
			ORDER BY source_position, rank$q$, log, k) LOOP
			IF e.op = 'gone' THEN
				IF live THEN
					RETURN QUERY SELECT k, cur_name, cur_note, cur_from, e.source_position, cur_at, e.made_at;
				END IF;
				live := false;
				CONTINUE;
			END IF;
			new_name := CASE WHEN 'name' = ANY (e.missing) THEN CASE WHEN live THEN cur_name END ELSE e.name END;
			new_note := CASE WHEN 'note' = ANY (e.missing) THEN CASE WHEN live THEN cur_note END ELSE e.note END;
			IF live AND track IS NOT NULL
				AND ('name' <> ALL (track) OR new_name IS NOT DISTINCT FROM cur_name)
				AND ('note' <> ALL (track) OR new_note IS NOT DISTINCT FROM cur_note) THEN
				NULL;	-- the same version, with other values
			ELSE
				IF live THEN
					RETURN QUERY SELECT k, cur_name, cur_note, cur_from, e.source_position, cur_at, e.made_at;
				END IF;
				cur_from := e.source_position;
				cur_at := e.made_at;
			END IF;
			cur_name := new_name;
			cur_note := new_note;
			live := true;
		END LOOP;
		IF live THEN
			RETURN QUERY SELECT k, cur_name, cur_note, cur_from, NULL::cdc_position, cur_at, NULL::timestamptz;
		END IF;
	END LOOP;
END $$;

-- The counts of one call that are not zero; which add up.
CREATE FUNCTION applied(history text, staging text, args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r cdc_apply_result; result text;
BEGIN
	EXECUTE format('SELECT * FROM cdc_apply_history(%L, %L%s)', history, staging, CASE WHEN args <> '' THEN ', ' || args ELSE '' END) INTO r;
	SELECT string_agg(key || '=' || value, ' ') INTO result
	FROM json_each_text(row_to_json(r)) WHERE value NOT IN ('0', 'false') AND key NOT IN ('events', 'low_position', 'high_position');
	IF r.events <> r.inserted + r.updated + r.deleted + r.stale + r.duplicate + r.superseded + r.fenced + r.ignored + r.truncated THEN
		result := concat_ws(' ', result, 'OF', r.events);
	END IF;
	RETURN coalesce(result, 'nothing');
END $$;

-- What a history has that the log does not tell, and the other way round; NULL: nothing.
CREATE FUNCTION differs(history text, log text, track text[] DEFAULT NULL, times boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	cols text := 'id, name, note, valid_from, valid_to' || CASE WHEN times THEN ', valid_from_at, valid_to_at' ELSE '' END;
	result text;
BEGIN
	EXECUTE format($q$
		WITH want AS (SELECT ROW(%1$s)::text AS r FROM told(%2$L, %3$L)), got AS (SELECT ROW(%1$s)::text AS r FROM %4$s)
		SELECT string_agg(r, ' ' ORDER BY r) FROM (
			(SELECT 'missing ' || r AS r FROM (TABLE want EXCEPT ALL TABLE got) m ORDER BY 1 LIMIT 3) UNION ALL
			(SELECT 'extra ' || r FROM (TABLE got EXCEPT ALL TABLE want) x ORDER BY 1 LIMIT 3)) d$q$, cols, log, track, history) INTO result;
	RETURN result;
END $$;

-- Where every row of history and events table stands, and who put it there.
CREATE FUNCTION places(history text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT string_agg(p, '' '' ORDER BY p) FROM (SELECT ''v'' || ctid || xmin AS p FROM %1$s UNION ALL SELECT ''e'' || ctid || xmin FROM %1$s_events) x', history) INTO result;
	RETURN result;
END $$;

/*
 * A log delivered into a history in another order, cut into batches, with
 * duplicates.  After each call the history is as told of all that came so far;
 * at last a replay of everything changes nothing.
 */
CREATE FUNCTION converges(what text, history text, log text, seed int, batches int, track text[] DEFAULT NULL, args text DEFAULT '', times boolean DEFAULT false)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	problems text; wrong text; before text; counts text;
BEGIN
	EXECUTE format('CREATE TEMP TABLE came (LIKE %1$s); CREATE TEMP TABLE now (LIKE %1$s)', log);
	FOR batch IN 0 .. batches - 1 LOOP
		TRUNCATE now;
		EXECUTE format($q$INSERT INTO now SELECT l.* FROM %1$s l WHERE abs(hashtextextended(l::text, %2$s) %% %3$s) = %4$s OR abs(hashtextextended(l::text, %2$s + %4$s + 1) %% 4) = 0
			ORDER BY hashtextextended(l::text, %2$s)$q$, log, seed, batches, batch);
		INSERT INTO came TABLE now;
		counts := applied(history, 'now', args);
		wrong := differs(history, 'came', track, times);
		IF wrong IS NOT NULL OR counts LIKE '%OF%' THEN
			problems := concat_ws(E'\n    ', problems, format('batch %s: %s: %s', batch, counts, wrong));
		END IF;
	END LOOP;
	before := places(history);
	TRUNCATE now;
	INSERT INTO now TABLE came;
	counts := applied(history, 'now', args);
	IF places(history) IS DISTINCT FROM before OR counts !~ '^(duplicate=\d+ ?)?(stale=\d+ ?)?(superseded=\d+ ?)?(ignored=\d+)?$' THEN
		problems := concat_ws(E'\n    ', problems, 'a replay is not without effect: ' || counts);
	END IF;
	DROP TABLE came, now;
	RETURN what || ': ' || coalesce(problems, 'ok');
END $$;
