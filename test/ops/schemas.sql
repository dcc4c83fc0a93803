/*
 * Every function of the extension with nothing in search_path but pg_catalog;
 * the extension is in schema :"ext".  Prints its own checks.
 */
SET search_path = '';
\set VERBOSITY verbose
CREATE FUNCTION pg_temp.is(what text, got text, want text) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN got IS NOT DISTINCT FROM want THEN 'ok - ' || what
		ELSE 'not ok - ' || what || E'\n    got:  ' || coalesce(got, 'NULL') || E'\n    want: ' || coalesce(want, 'NULL') END $$;
-- the side table of a target, by its state
CREATE FUNCTION pg_temp.dead(target regclass, ext name) RETURNS text LANGUAGE plpgsql AS $$
DECLARE side regclass; r text;
BEGIN
	EXECUTE format('SELECT tombstones FROM %I.cdc_targets WHERE target = $1', ext) INTO side USING target;
	EXECUTE format('SELECT string_agg(id || '' '' || source_position, '', '' ORDER BY id) FROM %s',
		CASE WHEN side IS NULL THEN format('(SELECT * FROM %s WHERE deleted) t', target) ELSE side::text END) INTO r;
	RETURN coalesce(r, 'none');
END $$;

CREATE SCHEMA "a pp";
CREATE TABLE "a pp".events (op text, id int, v text, source_position :"ext".cdc_position);
INSERT INTO "a pp".events VALUES ('c', 1, 'one', '0/10'), ('c', 2, 'two', '0/20'), ('d', 2, NULL, '0/30');
CREATE TABLE "a pp".side (id int PRIMARY KEY, v text);
CREATE TABLE "a pp".flag (id int PRIMARY KEY, v text);
CREATE TEMP TABLE passing (id int PRIMARY KEY, v text);

SELECT :"ext".cdc_attach('"a pp".side', '"a pp".events', staging_position => 'source_position', guard => 'error', lineage => 'A');
SELECT :"ext".cdc_attach('"a pp".flag', '"a pp".events', tombstones => 'row', guard => 'skip', live_view => 'flag_live', staging_filter => 'coalesce(id, 1) > 0');
SELECT :"ext".cdc_attach('pg_temp.passing', '"a pp".events');
SELECT pg_temp.is('the live view is in the target''s schema', to_regclass('"a pp".flag_live')::text, '"a pp".flag_live');
SELECT pg_temp.is('the side table is in the target''s schema', (SELECT tombstones::text FROM :"ext".cdc_targets WHERE target = '"a pp".side'::regclass), '"a pp".side_tombstones');
SELECT pg_temp.is('staging is shown with its schema', (SELECT staging FROM :"ext".cdc_targets WHERE target = '"a pp".side'::regclass), '"a pp".events');
SELECT pg_temp.is(t || ': apply', (SELECT concat_ws(' ', inserted, deleted, superseded) FROM :"ext".cdc_apply(t::regclass)), '1 1 1')
FROM (VALUES ('"a pp".side'), ('"a pp".flag'), ('pg_temp.passing')) t(t);
SELECT pg_temp.is(t || ': again', (SELECT concat_ws(' ', inserted, updated, deleted, duplicate) FROM :"ext".cdc_apply(t::regclass)), '0 0 0 2')
FROM (VALUES ('"a pp".side'), ('"a pp".flag'), ('pg_temp.passing')) t(t);
SELECT pg_temp.is(t || ': dead', pg_temp.dead(t::regclass, :'ext'), '2 0/30')
FROM (VALUES ('"a pp".side'), ('"a pp".flag'), ('pg_temp.passing')) t(t);
SELECT pg_temp.is('live view', (SELECT string_agg(id::text, ' ') FROM "a pp".flag_live), '1');
SELECT pg_temp.is(t || ': purge', :"ext".cdc_purge_tombstones(t::regclass, up_to => '0/30')::text, '1')
FROM (VALUES ('"a pp".side'), ('"a pp".flag'), ('pg_temp.passing')) t(t);
SELECT pg_temp.is(t || ': fenced', (SELECT concat_ws(' ', inserted, updated, deleted, duplicate, fenced) FROM :"ext".cdc_apply(t::regclass)), '0 0 0 1 1')
FROM (VALUES ('"a pp".side'), ('"a pp".flag'), ('pg_temp.passing')) t(t);
SELECT :"ext".cdc_set_fence(t::regclass, '0/40'), :"ext".cdc_set_floor(t::regclass, '0/15')
FROM (VALUES ('"a pp".side'), ('"a pp".flag'), ('pg_temp.passing')) t(t) \g /dev/null
SELECT pg_temp.is(target::text || ': fence and floor', fence || ' ' || floor, '0/40 0/15') FROM :"ext".cdc_targets ORDER BY target::text;
-- the guard, from statements that know nothing of the extension
DO $$ BEGIN DELETE FROM "a pp".side; RAISE 'passed'; EXCEPTION WHEN integrity_constraint_violation THEN NULL; END $$;
DO $$ BEGIN INSERT INTO "a pp".side VALUES (2, 'x', '0/39'); RAISE 'passed'; EXCEPTION WHEN integrity_constraint_violation THEN NULL; END $$;
DO $$ BEGIN TRUNCATE "a pp".flag; RAISE 'passed'; EXCEPTION WHEN integrity_constraint_violation THEN NULL; END $$;
INSERT INTO "a pp".flag VALUES (2, 'x', '0/39');
INSERT INTO "a pp".side VALUES (3, 'three', '0/41');
SELECT pg_temp.is('guard: skipped and passed', (SELECT count(*)::text FROM "a pp".flag WHERE id = 2) || (SELECT count(*) FROM "a pp".side), '02');
-- event triggers
ALTER TABLE "a pp".side RENAME COLUMN id TO "the key";
ALTER TABLE "a pp".side RENAME COLUMN "the key" TO id;
ALTER TABLE "a pp".side RENAME COLUMN source_position TO pos;
ALTER TABLE "a pp".side RENAME COLUMN pos TO source_position;
ALTER SCHEMA "a pp" RENAME TO "b pp";
SELECT pg_temp.is('renamed: found by the table', (SELECT string_agg(target::text, ' ' ORDER BY target::text) FROM :"ext".cdc_targets), '"b pp".flag "b pp".side passing');
-- staging is known by name, which the schema's new name is not
SELECT :"ext".cdc_attach('"b pp".side', '"b pp".events');
SELECT :"ext".cdc_attach('"b pp".flag', '"b pp".events');
-- an epoch
TRUNCATE "b pp".events;
SELECT pg_temp.is('epoch', :"ext".cdc_new_epoch('"b pp".side', lineage => 'B')::text, '1');
INSERT INTO "b pp".events VALUES ('u', 1, 'uno', '0/1'), ('d', 3, NULL, '0/2');
SELECT pg_temp.is('epoch: apply', (SELECT concat_ws(' ', inserted, updated, deleted) FROM :"ext".cdc_apply('"b pp".side', consume => 'delete')), '0 1 1');
SELECT pg_temp.is('epoch: dead', pg_temp.dead('"b pp".side', :'ext'), '3 1@0/2');
-- a truncate event
INSERT INTO "b pp".events VALUES ('t', NULL, NULL, '0/50');
SELECT pg_temp.is('truncate', (SELECT truncated::text FROM :"ext".cdc_apply('"b pp".flag', consume => 'delete')), '1');
SELECT pg_temp.is('truncate: live', (SELECT count(*)::text FROM "b pp".flag_live), '0');
-- detached, many at once, dropped
SELECT :"ext".cdc_detach('"b pp".side', drop_tombstones => true), :"ext".cdc_detach('"b pp".flag', drop_tombstones => true);
CREATE SCHEMA landing;
CREATE TABLE landing.side_events (op text, id int, v text, source_position :"ext".cdc_position);
SELECT pg_temp.is('attach_schema', (SELECT string_agg(concat_ws(' ', target::text, staging::text, attached), ', ' ORDER BY target::text)
	FROM :"ext".cdc_attach_schema('b pp', 'landing', '%s_events') WHERE attached), '"b pp".side landing.side_events t');
DROP SCHEMA "b pp" CASCADE;
DROP TABLE passing;
SELECT pg_temp.is('dropped: nothing is left', (SELECT count(*)::text FROM :"ext".cdc_targets), '0');
SELECT pg_temp.is('dropped: no table of the name', (SELECT count(*)::text FROM pg_class WHERE relname ~ '_tombstones'), '0');
