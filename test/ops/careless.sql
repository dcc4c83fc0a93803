/*
 * Everything that a superuser or an owner does with the extension, under
 * whatever search_path the caller has.  The statements themselves name all
 * they use, so that what is shadowed is met only by the extension's own SQL.
 */
DO $$ BEGIN PERFORM public.cdc_attach(target => 'app.side'::pg_catalog.regclass, staging => 'app.stage'::pg_catalog.regclass, guard => 'error', on_tie => 'upsert'); END $$;
DO $$ BEGIN PERFORM public.cdc_attach(target => 'app.flag'::pg_catalog.regclass, staging => 'app.stage'::pg_catalog.regclass, tombstones => 'row', guard => 'skip', live_view => 'app.flag_live'); END $$;
SELECT inserted, updated, deleted, superseded FROM public.cdc_apply(target => 'app.side'::pg_catalog.regclass);
SELECT inserted, updated, deleted, superseded FROM public.cdc_apply(target => 'app.flag'::pg_catalog.regclass);
DO $$ BEGIN PERFORM public.cdc_attach(target => 'app.side'::pg_catalog.regclass, as_of => '0/5'); END $$;
SELECT pg_catalog.count(c.*) FROM public.cdc_targets c;
SELECT public.cdc_purge_tombstones(target => 'app.side'::pg_catalog.regclass, up_to => '0/30');
SELECT public.cdc_purge_tombstones(target => 'app.flag'::pg_catalog.regclass, up_to => '0/30');
SELECT public.cdc_purge_tombstones(target => 'app.side'::pg_catalog.regclass, older_than => '1 day');
DO $$ BEGIN PERFORM public.cdc_set_fence(target => 'app.side'::pg_catalog.regclass, fence => '0/35'); END $$;
DO $$ BEGIN PERFORM public.cdc_set_floor(target => 'app.flag'::pg_catalog.regclass, floor => '0/5'); END $$;
-- DDL, which the event triggers follow
ALTER TABLE app.side RENAME COLUMN id TO "k""ey; drop table app.precious; --";
ALTER TABLE app.side RENAME COLUMN "k""ey; drop table app.precious; --" TO id;
ALTER TABLE app.flag RENAME COLUMN deleted TO gone;
ALTER TABLE app.flag RENAME COLUMN gone TO deleted;
ALTER TABLE app.side RENAME TO "si""de $$; --";
ALTER TABLE app."si""de $$; --" RENAME TO side;
ALTER TABLE app.side OWNER TO ops_user;
-- the guard
DO $$ BEGIN INSERT INTO app.side VALUES (3, 'x', '0/15'); RAISE EXCEPTION USING errcode = 'XX001';
EXCEPTION WHEN integrity_constraint_violation THEN NULL; END $$;
UPDATE app.flag SET v = 'x', source_position = '0/1' WHERE id OPERATOR(pg_catalog.=) 1;
INSERT INTO app.side VALUES (9, 'x', '0/90');
UPDATE app.side SET v = 'y', source_position = '0/91' WHERE id OPERATOR(pg_catalog.=) 9;
-- a new log
TRUNCATE app.stage;
DO $$ BEGIN PERFORM public.cdc_attach(target => 'app.side'::pg_catalog.regclass, lineage => 'a'); END $$;
SELECT public.cdc_new_epoch(target => 'app.side'::pg_catalog.regclass, lineage => 'b');
INSERT INTO app.stage VALUES ('u', 1, 'uno', '0/2'), ('d', 9, NULL, '0/3');
SELECT inserted, updated, deleted FROM public.cdc_apply(target => 'app.side'::pg_catalog.regclass, consume => 'delete');
INSERT INTO app.stage VALUES ('c', 1, 'one', '0/10'), ('c', 2, 'two', '0/20'), ('d', 2, NULL, '0/30'), ('d', 3, NULL, '0/40');
SELECT a.attached FROM public.cdc_attach_schema(target_schema => 'app', staging_schema => 'app', staging_pattern => '%s_stage') a WHERE a.attached;
DO $$ BEGIN PERFORM public.cdc_detach(target => 'app.side'::pg_catalog.regclass, drop_tombstones => true); END $$;
DO $$ BEGIN PERFORM public.cdc_detach(target => 'app.flag'::pg_catalog.regclass, drop_tombstones => true); END $$;
DO $$ BEGIN PERFORM public.cdc_detach(target => 'app.bait'::pg_catalog.regclass, drop_tombstones => true); END $$;
DROP TABLE app.side;
DROP TABLE app.flag CASCADE;
DROP TABLE app.bait;
