/* Recorded expressions and names that try to break out; run by ops_user. */
SET search_path = pg_catalog, pg_temp;
CREATE TEMP TABLE tries (e text);
INSERT INTO tries VALUES ('1) ; DROP TABLE app.precious; --'), ('source_position FROM app.stage; DROP TABLE app.precious'),
	('(SELECT source_position)'), ('(SELECT max(source_position) FROM app.precious)'), ('generate_series(1, 2)'), ('max(source_position)'),
	('source_position) FROM app.precious WHERE (true'), ('/* */ source_position /* '), ('$$ ; DROP TABLE app.precious; $$'),
	('source_position AS x'), ('source_position, 1'), ('*'), ('app.stage.*'), (''), ('row_number() OVER ()'), ('$1'), ('source_position; COMMIT'),
	('EXISTS (SELECT FROM app.precious)'), ('source_position UNION SELECT ''0/1'''), ('lateral'), ('DEFAULT'), ('CURRENT OF c'),
	('grouping(source_position)'), ('source_position ORDER BY 1'), ('source_position INTO app.stolen'), (E'source_position\n) ; DROP TABLE app.precious'),
	('ARRAY(SELECT 1)'), ('(TABLE app.precious)'), ('WITH w AS (DELETE FROM app.precious RETURNING 1) SELECT 1'), ('source_position FOR UPDATE');
SELECT canary.tried('position: ' || replace(e, E'\n', ' '), '42601|22023|42703|0A000|42803|42P20|42804|42P02|42P01|42883',
	format('SELECT public.cdc_attach(target => ''app.bait'', staging => ''app.stage'', staging_position => %L)', e)) FROM tries;
SELECT canary.tried('filter: ' || replace(e, E'\n', ' '), '42601|22023|42703|0A000|42803|42P20|42804|42P02|42P01|42883',
	format('SELECT public.cdc_attach(target => ''app.bait'', staging => ''app.stage'', staging_filter => %L)', e)) FROM tries;
-- with a staging that is not there at attach: refused when it is
SELECT canary.tried('later: ' || replace(e, E'\n', ' '), '42601|22023|42703|0A000|42803|42P20|42804|42P02|42P01|42883|55000',
	format('CREATE TABLE app.later (LIKE app.stage); SELECT public.cdc_attach(target => ''app.bait'', staging => ''app.later'');
		DROP TABLE app.later; SELECT public.cdc_attach(target => ''app.bait'', staging_filter => %L);
		CREATE TABLE app.later (LIKE app.stage); SELECT public.cdc_apply(target => ''app.bait'')', e)) FROM tries;
-- and at once
SELECT canary.tried('apply: ' || replace(e, E'\n', ' '), '42601|22023|42703|0A000|42803|42P20|42804|42P02|42P01|42883',
	format('SELECT public.cdc_apply(target => ''app.flag'', staging => ''app.stage'', staging_filter => %L)', e)) FROM tries;
SELECT canary.tried('name: ' || e, '42703|22023|55000|42602',
	format('SELECT public.cdc_attach(target => ''app.bait'', staging => ''app.stage'', %s); SELECT public.cdc_apply(target => ''app.bait'')', e), true)
FROM (VALUES ($$key_columns => '{"id\"; DROP TABLE app.precious; --"}'$$), ($$op_column => 'op"; DROP TABLE app.precious; --'$$),
	($$tombstone_column => 'x"); DROP TABLE app.precious; --'$$), ($$old_key_columns => '{"a\""}'$$), ($$except_columns => '{"a\""}'$$),
	($$unchanged_column => 'a"; --'$$), ($$delete_flag_column => 'a"'$$), ($$op_map => '{"x": "drop"}'$$), ($$guard => 'x''; --'$$),
	($$tombstones => '"'$$), ($$on_tie => '1) ; --'$$), ($$live_view => 'a"b; DROP TABLE app.precious', tombstones => 'row'$$)) n(e);
SELECT CASE WHEN (SELECT count(*) FROM public.cdc_targets WHERE target::text = 'app.bait'::text) = 0 AND (SELECT count(*) FROM app.precious) = 1
	THEN 'ok' ELSE 'not ok' END || ' - nothing was recorded, nothing was dropped';
