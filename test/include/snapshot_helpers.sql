/*
 * Helpers of the snapshot tests, after apply_helpers.sql and home_helpers.sql:
 * what a snapshot does is worked out from the rows before it, in plain SQL, for
 * both homes of the tombstone.
 */

CREATE TABLE snap (id int, v text);

-- Every key that is remembered: live rows and tombstones.
CREATE FUNCTION keys_of(target text) RETURNS TABLE (id int, v text, pos cdc_position, dead boolean) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE CASE WHEN EXISTS (SELECT FROM pg_attribute WHERE attrelid = target::regclass AND attname = 'deleted' AND NOT attisdropped)
		THEN format('SELECT id, v, source_position, deleted FROM %s', target)
		ELSE format('SELECT id, v, source_position, false FROM %s UNION ALL SELECT id, NULL, source_position, true FROM %1$s_tombstones', target) END;
END $$;

-- What becomes of each key, and how it stands then.
CREATE FUNCTION worked_out(target text, as_of cdc_position, complete boolean, low int, high int)
RETURNS TABLE (id int, outcome text, stands text) LANGUAGE sql AS $$
	WITH mark AS (SELECT coalesce(as_of <= floor, false) AS below, coalesce(as_of <= fence, false) AS fenced FROM cdc_targets c WHERE c.target = $1::regclass),
	k AS (SELECT coalesce(t.id, s.id) AS id, t.id IS NOT NULL AS known, coalesce(t.dead, true) AS dead, t.v, t.pos, s.id IS NOT NULL AS there, s.v AS new
		FROM keys_of(target) t FULL JOIN snap s ON s.id = t.id),
	o AS (SELECT k.*, CASE
			WHEN there AND below THEN 'stale'
			WHEN there AND dead AND fenced THEN 'fenced'
			WHEN there AND NOT known THEN 'inserted'
			WHEN there AND pos > as_of THEN 'stale'
			WHEN there AND dead THEN 'inserted'
			WHEN there AND v IS NOT DISTINCT FROM new THEN 'duplicate'
			WHEN there THEN 'updated'
			WHEN complete AND NOT below AND NOT dead AND NOT coalesce(pos > as_of, false) AND k.id BETWEEN low AND high THEN 'deleted' END AS outcome
		FROM k, mark)
	SELECT o.id, o.outcome, CASE
			WHEN outcome IN ('inserted', 'updated') THEN format('%s=%s@%s', o.id, coalesce(new, 'NULL'), as_of)
			WHEN outcome = 'deleted' THEN format('%s dead@%s', o.id, as_of)
			WHEN NOT known THEN NULL
			WHEN dead THEN format('%s dead@%s', o.id, coalesce(pos::text, 'none'))
			ELSE format('%s=%s@%s', o.id, coalesce(v, 'NULL'), coalesce(pos::text, 'none')) END
	FROM o
$$;

-- The counts and the rows that follow, as text.
CREATE FUNCTION worked_out_text(target text, as_of cdc_position, complete boolean, low int, high int) RETURNS text LANGUAGE sql AS $$
	WITH w AS MATERIALIZED (SELECT * FROM worked_out(target, as_of, complete, low, high))
	SELECT coalesce((SELECT string_agg(format('%s=%s', name, n), ' ' ORDER BY ord)
			FROM (VALUES (1, 'inserted'), (2, 'updated'), (3, 'deleted'), (4, 'stale'), (5, 'duplicate'), (6, 'fenced')) c (ord, name),
				LATERAL (SELECT count(*) AS n FROM w WHERE outcome = name) x WHERE n > 0), 'nothing')
		|| ': ' || coalesce((SELECT string_agg(stands, ' ' ORDER BY id::text COLLATE "C", stands) FROM w), 'nothing')
$$;

CREATE FUNCTION snapped(target text, as_of text, args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r cdc_apply_result;
BEGIN
	EXECUTE format('SELECT * FROM cdc_apply_snapshot(%L, ''snap'', %L%s)', target, as_of, CASE WHEN args <> '' THEN ', ' || args ELSE '' END) INTO r;
	RETURN counts(r);
END $$;

/*
 * The snapshot applied in both homes: counts, rows and tombstones are those
 * worked out before, and a dry run before it says the same and writes nothing.
 */
CREATE FUNCTION snap_both(what text, as_of text, args text DEFAULT '', complete boolean DEFAULT false, low int DEFAULT -2147483648, high int DEFAULT 2147483647)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	t text; dry text; before text; want text; got text; said text; wrong text := '';
	call text := concat_ws(', ', nullif(args, ''), CASE WHEN complete THEN 'complete => true' END, CASE WHEN low > -2147483648 THEN format('scope => ''id BETWEEN %s AND %s''', low, high) END);
BEGIN
	FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
		want := worked_out_text(t, as_of::cdc_position, complete, low, high);
		before := tuples_of(t, false);
		dry := snapped(t, as_of, concat_ws(', ', nullif(call, ''), 'dry_run => true'));
		IF tuples_of(t, false) <> before THEN
			wrong := wrong || E'\nNOT OK | ' || t || ': a dry run wrote';
		END IF;
		said := snapped(t, as_of, call);
		got := said || ': ' || stands(t);
		IF got IS DISTINCT FROM want OR dry IS DISTINCT FROM said THEN
			wrong := wrong || E'\nNOT OK | ' || t || ': ' || what || E'\n    got:  ' || coalesce(got, 'NULL') || E'\n    want: ' || coalesce(want, 'NULL') || E'\n    dry:  ' || coalesce(dry, 'NULL');
		END IF;
	END LOOP;
	RETURN CASE WHEN wrong = '' THEN 'ok | ' || what || ' | ' || got ELSE wrong END;
END $$;
