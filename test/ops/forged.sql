/* Registry rows that nobody checked, as after a superuser's UPDATE: no crash, no break-out; run by the superuser. */
SET search_path = pg_catalog, pg_temp;
SELECT canary.survives('a wrong rule is no crash: ' || wrong,
	'23000|42601|42703|22023|55000|42804|42P01|3F000|42809|XX000|23502|42704|22P02|42P16',
	format('UPDATE public.cdc_target_rule SET %s WHERE target::text = ''app.flag''::text', wrong),
	$$SELECT public.cdc_apply(target => 'app.flag')$$, $$SELECT public.cdc_apply(target => 'app.flag', dry_run => true)$$,
	$$SELECT * FROM public.cdc_targets$$, $$SELECT public.cdc_attach(target => 'app.flag', guard => 'error')$$,
	$$SELECT public.cdc_attach(target => 'app.flag', guard => 'error'); UPDATE app.flag SET v = 'x', source_position = '0/1'$$,
	$$SELECT public.cdc_purge_tombstones(target => 'app.flag', up_to => '0/1')$$, $$ALTER TABLE app.flag RENAME COLUMN v TO v2$$,
	$$SELECT public.cdc_detach(target => 'app.flag', drop_tombstones => true)$$, $$DROP TABLE app.flag CASCADE$$)
FROM (VALUES ($$key_attnums = '{99}'$$), ($$key_attnums = '{-6}'$$), ($$key_attnums = '{}'$$), ($$key_attnums = '{NULL}'$$), ($$key_attnums = '{{1},{2}}'$$),
	($$key_columns = '{}'$$), ($$key_columns = '{nope}'$$), ($$key_columns = '{v}'$$), ($$key_columns = '{NULL}'$$), ($$key_columns = '{{id}}'$$),
	($$position_columns = '{v}'$$), ($$position_columns = '{nope}'$$), ($$position_columns = '{}'$$), ($$position_attnums = '{0}'$$),
	($$tombstone_column = 'nope'$$), ($$tombstone_column = 'v'$$), ($$tombstone_column = NULL$$), ($$tombstone_attnum = -1$$), ($$guard = 'what'$$), ($$on_tie = 'what'$$),
	($$op_map = '[1]'$$), ($$op_map = '1'$$), ($$staging_name = NULL$$), ($$staging_schema = 'nope'$$), ($$staging_schema = NULL$$), ($$staging_name = 'precious'$$),
	($$target = 0$$), ($$target = 'pg_class'$$), ($$consume = 'x'$$), ($$live_view = 'app.precious'$$), ($$live_view = 1$$),
	($$staging_position = '''0/1'') ; DROP TABLE app.precious; --'$$),
	($$staging_filter = 'true) OR (SELECT canary.hit(current_user::text, ''filter''))'$$)) w(wrong);
SELECT canary.survives('a wrong state is no crash: ' || wrong,
	'23000|42703|22023|55000|42804|42P01|42809|XX000|42501|22003|23514|2BP01',
	format('UPDATE public.cdc_target_state SET %s WHERE target::text = ''app.side''::text', wrong),
	$$SELECT public.cdc_apply(target => 'app.side')$$, $$SELECT * FROM public.cdc_targets$$,
	$$SELECT public.cdc_purge_tombstones(target => 'app.side', up_to => '0/1')$$, $$ALTER TABLE app.side RENAME COLUMN id TO id2$$,
	$$UPDATE app.side SET v = 'x', source_position = '0/1'$$, $$INSERT INTO app.side VALUES (50, 'x', 'F/1')$$, $$DELETE FROM app.side$$,
	$$SELECT public.cdc_new_epoch(target => 'app.side')$$, $$SELECT public.cdc_detach(target => 'app.side')$$, $$DROP TABLE app.side$$)
FROM (VALUES ($$tombstones = 'pg_class'$$), ($$tombstones = 'app.side_pkey'$$), ($$tombstones = 'app.side'$$), ($$tombstones = 1$$), ($$tombstones = NULL$$),
	($$fence = '5'$$), ($$floor = '5'$$), ($$high_position = '7'$$), ($$epoch = -1$$), ($$epoch = 5000000000$$), ($$fed_columns = '{nope}'$$),
	($$fed_columns = '{{v}}'$$), ($$fed_columns = NULL$$), ($$fed_attnums = '{77}'$$), ($$lineage = ''$$), ($$target = 0$$)) w(wrong);
SELECT CASE WHEN to_regclass('app.side_pkey') IS NOT NULL AND to_regclass('pg_catalog.pg_class') IS NOT NULL AND (SELECT count(*) FROM app.precious) = 1
	THEN 'ok' ELSE 'not ok' END || ' - the catalog, the key and precious rows are there';
