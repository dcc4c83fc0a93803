/* What a user with all rights on a table, but not its owner, may not do; run by ops_mallory. */
SET search_path = pg_catalog, pg_temp;
SELECT canary.tried('not the owner: ' || call, '42501|42809', 'SELECT public.' || call)
FROM (VALUES ($$cdc_attach(target => 'app.side')$$),
	($$cdc_attach(target => 'app.side', staging => 'app.stage', guard => 'off')$$),
	($$cdc_attach(target => 'app.bait', staging => 'app.stage')$$),
	($$cdc_attach(target => 'app.side', as_of => 'F/0')$$),
	($$cdc_attach(target => 'app.flag', live_view => 'evil.v')$$),
	($$cdc_attach(target => 'pg_catalog.pg_class')$$),
	($$cdc_attach(target => 'public.cdc_target_rule')$$),
	($$cdc_detach(target => 'app.side')$$),
	($$cdc_detach(target => 'app.side', drop_tombstones => true)$$),
	($$cdc_purge_tombstones(target => 'app.side', up_to => 'F/0', force => true)$$),
	($$cdc_purge_tombstones(target => 'app.side', older_than => '0 s')$$),
	($$cdc_set_fence(target => 'app.side', fence => 'F/0')$$),
	($$cdc_set_fence(target => 'app.side', fence => NULL)$$),
	($$cdc_set_floor(target => 'app.side', floor => 'F/0')$$),
	($$cdc_new_epoch(target => 'app.side')$$),
	($$cdc_new_epoch(target => 'app.side', lineage => 'x')$$),
	($$cdc_apply(target => 'app.bait', staging => 'app.stage')$$)) c(call);
SELECT canary.tried('registry: ' || format(command, rel), '42501', format(command, rel))
FROM (VALUES ('public.cdc_target_rule'), ('public.cdc_target_state')) r(rel),
	(VALUES ('INSERT INTO %s DEFAULT VALUES'), ('UPDATE %s SET target = target'), ('DELETE FROM %s'), ('TRUNCATE %s'), ('SELECT * FROM %s'),
		('LOCK %s'), ('ALTER TABLE %s DISABLE TRIGGER ALL')) c(command);
