-- cdc_attach: the rule is written once; what it adds, what it leaves alone,
-- and what a call then does without being told.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA attach;
SET search_path = attach, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE FUNCTION columns_of(t regclass) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'not null' END, 'default ' || pg_get_expr(adbin, adrelid)), ', ' ORDER BY attnum)
	FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = t AND attnum > 0 AND NOT attisdropped
$$;
-- all that a repeat could touch
CREATE FUNCTION everything(t regclass) RETURNS text LANGUAGE sql AS $$
	SELECT md5(concat((SELECT string_agg(a::text || a.xmin, ' ' ORDER BY attnum) FROM pg_attribute a WHERE attrelid = t),
		(SELECT string_agg(oid || ' ' || c.xmin, ' ' ORDER BY oid) FROM pg_class c WHERE relnamespace = 'attach'::regnamespace AND relname ~ t::text),
		(SELECT string_agg(g::text || g.xmin, ' ' ORDER BY oid) FROM pg_trigger g WHERE tgrelid = t),
		(SELECT x::text FROM cdc_targets x WHERE target = t)))
$$;

--
-- What is added
--
CREATE TABLE item_event (op text, id int, v text, source_position cdc_position);
CREATE TABLE item (id int PRIMARY KEY, v text NOT NULL);
INSERT INTO item VALUES (1, 'loaded');
CREATE TABLE before AS SELECT relfilenode AS file, (SELECT count(*) FROM pg_index WHERE indrelid = c.oid) AS n_index FROM pg_class c WHERE oid = 'item'::regclass;
SELECT cdc_attach('item', 'item_event');
SELECT expect('a position', columns_of('item'), 'id integer not null, v text not null, source_position cdc_position');
SELECT expect('and a side table', columns_of('item_tombstones'), 'id integer not null, source_position cdc_position not null, deleted_at timestamp with time zone not null');
SELECT expect('keyed like the target', rows_of($$SELECT indisunique, indimmediate, indisvalid, indisreplident, indnkeyatts, indkey, indpred IS NULL FROM pg_index WHERE indrelid = 'item_tombstones'::regclass$$), '(t,t,t,t,1,1,t)');
SELECT expect('replica identity', relreplident::text, 'i') FROM pg_class WHERE oid = 'item_tombstones'::regclass;
SELECT expect('the target is not rewritten and gets no index', concat_ws(' ', c.relfilenode = file, n_index = (SELECT count(*) FROM pg_index WHERE indrelid = c.oid)), 't t') FROM pg_class c, before WHERE oid = 'item'::regclass;
SELECT expect('no trigger', count(*)::text, '0') FROM pg_trigger WHERE tgrelid IN ('item'::regclass, 'item_tombstones'::regclass);
SELECT expect('what is attached', concat_ws(' ', target, staging, home, tombstones, tombstone_column, key_columns, position_columns, guard, live_view, fence, floor, high_position, lineage, attached_at <= now()),
	'item attach.item_event table item_tombstones {id} {source_position} off t') FROM cdc_targets WHERE target = 'item'::regclass;
INSERT INTO item_event VALUES ('u', 1, 'new', '1/1'), ('d', 2, NULL, '1/1');
SELECT expect('one word', counts(r), 'updated=1 deleted=1') FROM cdc_apply('item') r;
SELECT expect('state', stands('item'), '1=new@1/1 2 dead@1/1');

CREATE TABLE flagged (id int PRIMARY KEY, v text NOT NULL DEFAULT '');
INSERT INTO flagged VALUES (1, 'loaded');
UPDATE before SET file = relfilenode FROM pg_class WHERE oid = 'flagged'::regclass;
SELECT cdc_attach('flagged', 'item_event', tombstones => 'row');
SELECT expect('the row home: a flag too', columns_of('flagged'), $$id integer not null, v text not null default ''::text, source_position cdc_position, deleted boolean not null default false$$);
SELECT expect('not rewritten, rows live', concat_ws(' ', relfilenode = file, rows_of('flagged')), 't (1,loaded,,f)') FROM pg_class, before WHERE oid = 'flagged'::regclass;
SELECT expect('no side table', concat_ws(' ', to_regclass('flagged_tombstones'), home, tombstone_column, tombstones), 'row deleted') FROM cdc_targets WHERE target = 'flagged'::regclass;
SELECT expect('applies', counts(r), 'updated=1 deleted=1') FROM cdc_apply('flagged') r;

-- nothing is added where all is there
CREATE TABLE ready (id int PRIMARY KEY, at timestamptz, pos cdc_position);
SELECT cdc_attach('ready', 'item_event', tombstone_column => 'at', staging_position => 'source_position');
SELECT expect('all there, a cdc_position of any name', columns_of('ready') || ' ' || home || ' ' || position_columns::text, 'id integer not null, at timestamp with time zone, pos cdc_position row {pos}') FROM cdc_targets WHERE target = 'ready'::regclass;
CREATE TABLE ready_parts (id int PRIMARY KEY, source_lsn pg_lsn, source_ordinal int);
CREATE TABLE parts_event (op text, id int, source_lsn pg_lsn, source_ordinal int);
SELECT cdc_attach('ready_parts', 'parts_event');
SELECT expect('source_lsn and source_ordinal do', columns_of('ready_parts') || ' ' || position_columns::text, 'id integer not null, source_lsn pg_lsn, source_ordinal integer {source_lsn,source_ordinal}') FROM cdc_targets WHERE target = 'ready_parts'::regclass;
SELECT expect('one position in the side table', columns_of('ready_parts_tombstones'), 'id integer not null, source_position cdc_position not null, deleted_at timestamp with time zone not null');
CREATE TABLE named (id int PRIMARY KEY);
SELECT cdc_attach('named', 'item_event', position_columns => '{"the Position"}', staging_position => 'source_position', except_columns => '{v}');
SELECT expect('the one that is named', rows_of($$SELECT attname, atttypid::regtype FROM pg_attribute WHERE attrelid = 'named'::regclass AND attnum = 2$$), '("the Position",cdc_position)');
SELECT expect('and used', counts(r), 'inserted=1 deleted=1') FROM cdc_apply('named') r;
-- a table with a flag of its own keeps it: the side table is the rule
CREATE TABLE own_flag (id int PRIMARY KEY, v text, deleted boolean NOT NULL);
SELECT cdc_attach('own_flag', 'item_event', tombstones => 'auto');
SELECT expect('auto is the side table', home, 'table') FROM cdc_targets WHERE target = 'own_flag'::regclass;
CREATE TABLE own_flag2 (id int PRIMARY KEY, v text, deleted boolean);
SELECT cdc_attach('own_flag2', 'item_event', tombstone_column => 'deleted', tombstones => 'auto');
SELECT expect('unless a flag is named', home, 'row') FROM cdc_targets WHERE target = 'own_flag2'::regclass;

-- names: cut like an index name, numbered when taken
SELECT rpad('a', 60, 'b') AS long \gset
CREATE TABLE :"long" (id int PRIMARY KEY);
SELECT cdc_attach(:'long'::regclass, 'item_event', except_columns => '{v}');
SELECT expect('cut', tombstones::text, left(:'long', 52) || '_tombstones') FROM cdc_targets WHERE target = :'long'::regclass;
SELECT repeat(U&'\00e9', 30) AS accents \gset
CREATE TABLE :"accents" (id int PRIMARY KEY);
SELECT cdc_attach(:'accents'::regclass, 'item_event', except_columns => '{v}');
SELECT expect('cut between characters', trim('"' FROM tombstones::text), repeat(U&'\00e9', 26) || '_tombstones') FROM cdc_targets WHERE target = :'accents'::regclass;
CREATE TABLE taken (id int PRIMARY KEY);
CREATE VIEW taken_tombstones AS SELECT 1 AS one;
CREATE TABLE taken_tombstones1 (one int);
SELECT cdc_attach('taken', 'item_event', except_columns => '{v}');
SELECT expect('numbered', tombstones::text, 'taken_tombstones2') FROM cdc_targets WHERE target = 'taken'::regclass;
CREATE TABLE "Odd name" ("The key" int PRIMARY KEY, "v" text);
CREATE TABLE "Odd event" (op text, "The key" int, v text, source_position cdc_position);
SELECT cdc_attach('"Odd name"', '"Odd event"');
INSERT INTO "Odd event" VALUES ('c', 1, 'a', '1/1'), ('d', 2, NULL, '1/1');
SELECT expect('quoted names', counts(r) || ' ' || rows_of('SELECT "The key" FROM "Odd name_tombstones"'), 'inserted=1 deleted=1 (2)') FROM cdc_apply('"Odd name"') r;

-- persistence and owner are the target's
CREATE ROLE regress_cdc_attach;
CREATE ROLE regress_cdc_attach_other;
GRANT USAGE, CREATE ON SCHEMA attach TO regress_cdc_attach, regress_cdc_attach_other;
SET ROLE regress_cdc_attach;
CREATE UNLOGGED TABLE quick (id int PRIMARY KEY);
CREATE TABLE quick_event (op text, id int, source_position cdc_position);
SELECT cdc_attach('quick', 'quick_event');
RESET ROLE;
SELECT expect('unlogged, the owner''s', rows_of($$SELECT relpersistence, relowner::regrole FROM pg_class WHERE oid = 'quick_tombstones'::regclass$$), '(u,regress_cdc_attach)');
-- by a superuser for someone else
CREATE TABLE theirs (id int PRIMARY KEY);
ALTER TABLE theirs OWNER TO regress_cdc_attach;
SELECT cdc_attach('theirs', 'quick_event');
SELECT expect('the target''s owner', relowner::regrole::text, 'regress_cdc_attach') FROM pg_class WHERE oid = 'theirs_tombstones'::regclass;
CREATE TEMP TABLE passing (id int PRIMARY KEY);
SELECT cdc_attach('passing', 'quick_event');
SELECT expect('a temporary one', relpersistence::text || (relnamespace = pg_my_temp_schema()), 'ttrue') FROM pg_class JOIN cdc_targets ON tombstones = oid WHERE target = 'passing'::regclass;
INSERT INTO quick_event VALUES ('d', 1, '1/1');
SELECT expect('and it works', counts(r), 'deleted=1') FROM cdc_apply('passing') r;
DROP TABLE passing;

--
-- A replay and a dry run write nothing, not even what is known of the target
--
CREATE TABLE quiet (id int PRIMARY KEY, v text);
CREATE TABLE quiet_event (op text, id int, v text, source_position cdc_position);
SELECT cdc_attach('quiet', 'quiet_event', guard => 'error');
INSERT INTO quiet_event VALUES ('c', 1, 'a', '1/1'), ('d', 2, NULL, '1/2'), ('d', 3, NULL, '1/1');
SELECT expect('dry run', counts(r), 'inserted=1 deleted=2') FROM cdc_apply('quiet', dry_run => true) r;
SELECT expect('no high position yet', high_position::text, NULL) FROM cdc_targets WHERE target = 'quiet'::regclass;
SELECT expect('applied', counts(r), 'inserted=1 deleted=2') FROM cdc_apply('quiet') r;
SELECT expect('the high position', high_position::text, '1/2') FROM cdc_targets WHERE target = 'quiet'::regclass;
BEGIN;
-- the run log's one row aside: test "runs"
SET LOCAL cdc_precedence.track_runs = off;
SELECT expect('replay', counts(r), 'duplicate=3') FROM cdc_apply('quiet') r;
SELECT expect('no transaction id', pg_current_xact_id_if_assigned()::text, NULL);
COMMIT;
BEGIN READ ONLY;
SELECT expect('a dry run where nothing may be written', counts(r), 'duplicate=3') FROM cdc_apply('quiet', dry_run => true) r;
COMMIT;

--
-- A repeat changes what it names and nothing else
--
CREATE TABLE was AS SELECT everything('item') AS e;
SELECT cdc_attach('item');
SELECT cdc_attach('item', 'item_event');
SELECT cdc_attach('item', key_columns => '{id}', position_columns => '{source_position}', tombstones => 'table');
SELECT expect('nothing', everything('item'), e) FROM was;
SELECT cdc_attach('item', on_tie => 'upsert');
SELECT expect('one thing', concat_ws(' ', staging, on_tie, on_same_position), 'attach.item_event upsert') FROM cdc_targets WHERE target = 'item'::regclass;
SELECT cdc_attach('item', on_same_position => 'keep');
SELECT expect('another', concat_ws(' ', staging, on_tie, on_same_position), 'attach.item_event upsert keep') FROM cdc_targets WHERE target = 'item'::regclass;
CREATE TABLE item_event2 (LIKE item_event);
SELECT cdc_attach('item', 'item_event2');
SELECT expect('another staging', concat_ws(' ', staging, on_tie), 'attach.item_event2 upsert') FROM cdc_targets WHERE target = 'item'::regclass;
SELECT expect('nothing staged there', counts(r), 'nothing') FROM cdc_apply('item') r;
-- a rollback leaves nothing
CREATE TABLE undone (id int PRIMARY KEY);
UPDATE was SET e = everything('undone');
BEGIN;
SELECT cdc_attach('undone', 'quick_event', as_of => '1/1', guard => 'error');
SELECT expect('inside', (everything('undone') <> e)::text, 'true') FROM was;
ROLLBACK;
SELECT expect('rolled back', everything('undone'), e) FROM was;
SELECT expect('no side table', to_regclass('undone_tombstones')::text, NULL);
SELECT refused('an attach that fails half way', $$SELECT cdc_attach('undone', 'quick_event', guard => 'sometimes')$$, '22023', 'guard', 'h');
SELECT expect('leaves nothing', everything('undone'), e) FROM was;

--
-- All of the rule
--
CREATE TABLE full_rule (a int, b int, v text, w text, source_position cdc_position, PRIMARY KEY (a, b));
CREATE TABLE full_event (action text, gone text, kb int, ka int, b int, a int, v text, w text, same text[], junk text, lsn pg_lsn, ord int, load int);
SELECT cdc_attach('full_rule', 'full_event', key_columns => '{b,a}', position_columns => '{source_position}',
	staging_position => 'cdc_position(lsn, ord)', staging_filter => 'load = 7', op_column => 'action', delete_flag_column => 'gone',
	old_key_columns => '{kb,ka}', unchanged_column => 'same', except_columns => '{junk}', op_map => '{"x": "delete"}', null_op => 'ignore',
	unavailable_value => '?', on_unavailable => 'null', ignore_nulls => false, snapshot_position => 'event', on_tie => 'upsert', on_same_position => 'keep',
	on_schema_change => 'ignore', consume => 'delete', tombstones => 'table', guard => 'off');
SELECT expect('key by the index, order of the key as given', key_columns::text, '{b,a}') FROM cdc_targets WHERE target = 'full_rule'::regclass;
SELECT expect('recorded', concat_ws(' ', op_column, delete_flag_column, old_key_columns, unchanged_column, except_columns, op_map, null_op, unavailable_value, on_unavailable,
	ignore_nulls, snapshot_position, on_tie, on_same_position, on_schema_change, consume, guard),
	'action gone {kb,ka} same {junk} {"x": "delete"} ignore ? null f event upsert keep ignore delete off') FROM cdc_targets WHERE target = 'full_rule'::regclass;
INSERT INTO full_event VALUES
	('u', 'f', NULL, NULL, 1, 1, 'v', 'w', NULL, 'j', '1/1', 1, 7), ('u', 'f', NULL, NULL, 1, 1, '?', 'w2', NULL, 'j', '1/1', 2, 7),
	('x', 'f', NULL, NULL, 1, 2, 'v', 'w', NULL, 'j', '1/1', 3, 7), ('u', 't', NULL, NULL, 1, 3, 'v', 'w', NULL, 'j', '1/1', 4, 7),
	('u', NULL, 2, 2, 1, 4, 'v', 'w', NULL, 'j', '1/1', 5, 7), ('u', 'f', NULL, NULL, 1, 4, 'tie', 'w', NULL, 'j', '1/1', 5, 7),
	(NULL, 'f', NULL, NULL, 1, 5, 'v', NULL, NULL, 'j', '1/1', 6, 7), ('u', 'f', NULL, NULL, 1, 1, 'other load', NULL, NULL, 'j', '9/9', 1, 8);
SELECT expect('dry run', counts(r), 'inserted=2 deleted=2 superseded=2 ignored=1') FROM cdc_apply('full_rule', dry_run => true) r;
SELECT expect('applied', counts(r), 'inserted=2 deleted=2 superseded=2 ignored=1') FROM cdc_apply('full_rule') r;
SELECT expect('rows', rows_of('full_rule'), '(1,1,v,w2,1/1:2) (4,1,v,w,1/1:5)');
SELECT expect('tombstones, the key in its given order', rows_of('SELECT b, a, source_position FROM full_rule_tombstones'), '(1,2,1/1:3) (1,3,1/1:4) (2,2,1/1:5)');
SELECT expect('consumed', rows_of('SELECT load FROM full_event'), '(8)');
-- said for one call only
SELECT expect('another filter for this call', counts(r), 'updated=1') FROM cdc_apply('full_rule', staging_filter => 'load = 8', consume => 'keep', on_unavailable => 'error') r;
SELECT expect('kept', rows_of('SELECT load FROM full_event'), '(8)');
SELECT expect('the rule is as it was', concat_ws(' ', staging_filter ~ '7', consume, on_unavailable), 't delete null') FROM cdc_targets WHERE target = 'full_rule'::regclass;

--
-- Staging is remembered by name, since loaders re-create it
--
SELECT cdc_attach('item', 'item_event');
DROP TABLE item_event;
SELECT expect('remembered while it is gone', staging, 'attach.item_event') FROM cdc_targets WHERE target = 'item'::regclass;
SELECT refused('but not to be applied', $$SELECT * FROM cdc_apply('item')$$, '42P01|55000', 'item_event');
CREATE TABLE item_event (v text, source_position cdc_position, id bigint, op text);
INSERT INTO item_event VALUES ('re-created', '2/1', 1, 'u');
SELECT expect('there again, with its columns in another order', counts(r) || ' ' || stands('item'), 'updated=1 1=re-created@2/1 2 dead@1/1') FROM cdc_apply('item') r;
ALTER TABLE item_event RENAME TO item_event_old;
CREATE VIEW item_event AS SELECT 'u' AS op, 3 AS id, 'view' AS v, cdc_position '2/2' AS source_position;
SELECT expect('a view in its place', counts(r), 'inserted=1') FROM cdc_apply('item') r;
-- expressions do not depend on the search path of attach or apply
CREATE SCHEMA attach_evil;
CREATE FUNCTION attach_evil.cdc_position(pg_lsn, bigint) RETURNS cdc_position LANGUAGE sql AS $$ SELECT '9/9'::cdc_position $$;
INSERT INTO full_event VALUES ('u', 'f', NULL, NULL, 6, 6, 'v', 'w', NULL, 'j', '1/1', 6, 7);
SET search_path = attach_evil, attach, public;
SELECT expect('the function that was meant', counts(r) || ' ' || high_position, 'inserted=1 1/1:6') FROM cdc_apply('full_rule') r;
SET search_path = attach, public;
DROP SCHEMA attach_evil CASCADE;
-- a temporary one
CREATE TEMP TABLE passing_event (op text, id int, source_position cdc_position);
CREATE TABLE by_temp (id int PRIMARY KEY);
SELECT cdc_attach('by_temp', 'passing_event');
SELECT expect('recorded without its number', staging, 'pg_temp.passing_event') FROM cdc_targets WHERE target = 'by_temp'::regclass;
DROP TABLE passing_event;
CREATE TEMP TABLE passing_event AS SELECT 'c' AS op, 1 AS id, cdc_position '1/1' AS source_position;
SELECT expect('found again', counts(r), 'inserted=1') FROM cdc_apply('by_temp') r;
-- none attached
CREATE TABLE bare (id int PRIMARY KEY, v text);
SELECT cdc_attach('bare');
SELECT refused('no staging is attached', $$SELECT * FROM cdc_apply('bare')$$, '55000|22023', 'staging', 'h');
SELECT expect('one is named', counts(r), 'inserted=1') FROM cdc_apply('bare', 'item_event') r;

--
-- Detach forgets the rule; what is dead stays dead
--
SELECT fresh();
SELECT stage($$ ('d', 1, NULL, '5/10'), ('d', 2, NULL, '5/20'), ('c', 3, 'c', '5/30') $$);
SELECT apply_both('before', 'inserted=1 deleted=2', '1 dead@5/10 2 dead@5/20 3=c@5/30');
SELECT both_say('purged, floor', $$SELECT cdc_purge_tombstones('%s', '5/10') || cdc_set_floor('%s', '5/2')::text$$, '1');
SELECT cdc_detach('in_row');
SELECT cdc_detach('in_table');
SELECT expect('not attached', count(*)::text, '0') FROM cdc_targets WHERE target IN ('in_row'::regclass, 'in_table'::regclass);
SELECT refused('detached twice', $$SELECT cdc_detach('in_row')$$, '55000', 'in_row');
SELECT refused('the side table is not forgotten', $$SELECT * FROM cdc_apply('in_table', 'event')$$, '55000', 'in_table', 'h');
SELECT stage($$ ('c', 1, 'a', '5/5'), ('u', 3, 'x', '5/2'), ('c', 2, 'b', '5/15') $$);
SELECT expect('fence and floor hold on a detached target', counts(r), 'stale=2 fenced=1') FROM cdc_apply('in_row', 'event') r;
SELECT cdc_attach('in_row', 'event', tombstones => 'row');
SELECT cdc_attach('in_table', 'event');
SELECT both_say('attached again', $$SELECT concat_ws(' ', fence, floor, high_position) FROM cdc_targets WHERE target = '%s'::regclass$$, '5/10 5/2 5/30');
SELECT apply_both('nothing was forgotten', 'stale=2 fenced=1', '2 dead@5/20 3=c@5/30');
-- or with the tombstones
SELECT both_say('detached with them', $$SELECT cdc_detach('%s', drop_tombstones => true)::text$$, '');
SELECT expect('the side table is gone', to_regclass('in_table_tombstones')::text, NULL);
SELECT expect('dead rows are gone', rows_of('in_row') || rows_of('in_table'), '(3,c,5/30,f)(3,c,5/30)');
SELECT cdc_attach('in_table', 'event', tombstones => 'row');
SELECT cdc_attach('in_row', 'event', tombstones => 'table');
SELECT expect('and the home may be another', string_agg(home || ' ' || fence, ', ' ORDER BY target::text), 'table 5/10, row 5/10') FROM cdc_targets WHERE target IN ('in_row'::regclass, 'in_table'::regclass);

-- the row home is not left for the side table while it holds dead rows
CREATE TABLE flagged2 (id int PRIMARY KEY, v text);
CREATE TABLE flagged2_event AS SELECT 'd' AS op, 1 AS id, NULL::text AS v, cdc_position '1/5' AS source_position;
SELECT cdc_attach('flagged2', 'flagged2_event', tombstones => 'row');
SELECT applied('flagged2', 'flagged2_event');
SELECT cdc_detach('flagged2');
SELECT refused('dead rows would be live ones', $$SELECT cdc_attach('flagged2', 'flagged2_event')$$, '55000', 'flagged2', 'h');
SELECT cdc_attach('flagged2', 'flagged2_event', tombstones => 'row');
SELECT cdc_detach('flagged2', drop_tombstones => true);
SELECT cdc_attach('flagged2', 'flagged2_event');
SELECT expect('once they are gone', home, 'table') FROM cdc_targets WHERE target = 'flagged2'::regclass;

-- consuming was said of the recorded staging: an archive that is replayed keeps its rows
CREATE TABLE eaten (id int PRIMARY KEY, v text);
CREATE TABLE eaten_event AS SELECT 'c' AS op, 1 AS id, 'new' AS v, cdc_position '1/5' AS source_position;
CREATE TABLE eaten_archive AS SELECT 'c' AS op, n AS id, 'old' AS v, cdc_position('1/3', n) AS source_position FROM generate_series(1, 3) n;
SELECT cdc_attach('eaten', 'eaten_event', consume => 'delete');
SELECT applied('eaten', 'eaten_archive');
SELECT expect('the archive is whole', count(*)::text, '3') FROM eaten_archive;
SELECT events, updated FROM cdc_apply('eaten', 'eaten_event');
SELECT expect('the recorded staging is consumed, also when named', count(*)::text, '0') FROM eaten_event;
SELECT events, stale, duplicate FROM cdc_apply('eaten', 'eaten_archive', consume => 'delete');
SELECT expect('and the archive when the call says so', count(*)::text, '0') FROM eaten_archive;
SELECT expect('all is there', string_agg(id || v, ' ' ORDER BY id), '1new 2old 3old') FROM eaten;
CREATE TABLE eaten_any (id int PRIMARY KEY, v text);
SELECT cdc_attach('eaten_any', consume => 'delete');
INSERT INTO eaten_event VALUES ('c', 1, 'x', '1/5');
SELECT events, inserted FROM cdc_apply('eaten_any', 'eaten_event');
SELECT expect('without a recorded staging it goes for any', count(*)::text, '0') FROM eaten_event;

-- staging that says nowhere where an event stands is taken, but not in silence
CREATE TABLE unplaced (id int PRIMARY KEY, v text);
CREATE TABLE unplaced_event (op text, id int, v text);
SET client_min_messages = notice;
SELECT cdc_attach('unplaced', 'unplaced_event');
SELECT refused('an apply', $$SELECT * FROM cdc_apply('unplaced')$$, '42703', 'unplaced_event', 'h', false);
SELECT cdc_attach('unplaced', staging_position => '''0/1''::pg_lsn');
SELECT cdc_attach('unplaced', 'unplaced_event');
SET client_min_messages = warning;
DROP SCHEMA attach CASCADE;
DROP ROLE regress_cdc_attach, regress_cdc_attach_other;
