-- Attached targets in unlucky company: a column that is gone, a trigger, a
-- rule, a search path or a partition from elsewhere.  Nothing that was deleted
-- comes back, and what is refused says what to do.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA attach_faults;
SET search_path = attach_faults, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
-- the command in the hint of a refused call
CREATE FUNCTION fix_of(command text, pattern text DEFAULT '(?:ALTER|CREATE|SELECT) [^;]*') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE command;
	RETURN 'SELECT ''NOT OK | was not refused''';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN coalesce(substring(hint FROM pattern), 'SELECT ''NOT OK | no command in the hint''');
END $$;
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE TABLE e (op text, id int, v text, source_position cdc_position);

--
-- Recorded expressions mean the same whoever calls, also in the call that adds
-- a column
--
CREATE SCHEMA attach_faults_evil;
CREATE FUNCTION attach_faults_evil.gt(int, int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'not this operator'; RETURN false; END $$;
CREATE OPERATOR attach_faults_evil.> (LEFTARG = int, RIGHTARG = int, FUNCTION = attach_faults_evil.gt);
CREATE FUNCTION attach_faults_evil.cdc_position(pg_lsn, bigint) RETURNS cdc_position LANGUAGE sql AS $$ SELECT '9/9'::public.cdc_position $$;
CREATE TABLE said (id int PRIMARY KEY, v text);
CREATE TABLE said_event (op text, id int, v text, lsn pg_lsn, ord int);
SELECT cdc_attach('said', 'said_event', staging_filter => 'id > 0', staging_position => 'cdc_position(lsn, ord)', except_columns => '{lsn,ord}', on_schema_change => 'append_new_columns');
INSERT INTO said_event VALUES ('c', 1, 'a', '1/1', 1), ('c', -1, 'no', '1/1', 1);
SELECT expect('as recorded', counts(r), 'inserted=1') FROM cdc_apply('said') r;
ALTER TABLE said_event ADD extra int;
INSERT INTO said_event VALUES ('u', 1, 'b', '1/2', 1, 7), ('c', 2, 'b', '1/2', 2, 8);
SET search_path = attach_faults_evil, pg_catalog, attach_faults, public;
SELECT expect('as recorded, with a new column', counts(r) || ' ' || high_position, 'inserted=1 updated=1 superseded=1 1/2:2') FROM cdc_apply('said') r;
SET search_path = attach_faults, public;
SELECT expect('the rows', rows_of('said'), '(1,b,1/2:1,7) (2,b,1/2:2,8)');
DROP SCHEMA attach_faults_evil CASCADE;

--
-- A key type that grows: the side table is not left behind with the old length
--
CREATE TABLE widened (id varchar(5), n numeric(10, 2), c char(3), v text, PRIMARY KEY (id, n, c));
CREATE TABLE widened_event (op text, id text, n numeric, c text, v text, source_position cdc_position);
SELECT cdc_attach('widened', 'widened_event');
ALTER TABLE widened ALTER id TYPE varchar(50), ALTER n TYPE numeric(20, 6), ALTER c TYPE char(9);
INSERT INTO widened_event VALUES ('d', 'a rather long key', 1.001, 'abcdefg', NULL, '0/10'), ('d', 'a rather long key', 1.002, 'abcdefg', NULL, '0/10');
SELECT apply_refused('a column of the side table is too short', 'widened', 'widened_event', '', '55000', 'ALTER TABLE', 'dh');
SELECT refused('also for an attach', $$SELECT cdc_attach('widened', 'widened_event')$$, '55000', 'ALTER TABLE', 'dh', false);
SELECT fix_of($$SELECT cdc_apply('widened')$$) \gexec
SELECT fix_of($$SELECT cdc_apply('widened')$$) \gexec
SELECT fix_of($$SELECT cdc_apply('widened')$$) \gexec
SELECT expect('the types of the target', count(*)::text, '3') FROM pg_attribute k JOIN pg_attribute t USING (attname, atttypid, atttypmod)
WHERE k.attrelid = 'widened_tombstones'::regclass AND t.attrelid = 'widened'::regclass AND attname IN ('id', 'n', 'c');
SELECT expect('mended', counts(r), 'deleted=2') FROM cdc_apply('widened') r;
-- a dump writes the tombstones as text and reads them by the column's type
CREATE TABLE restored (LIKE widened_tombstones INCLUDING ALL);
INSERT INTO restored SELECT (u::text::widened_tombstones).* FROM widened_tombstones u;
SELECT expect('come back from text as they were', rows_of('SELECT id, n, c, source_position FROM restored'), rows_of('SELECT id, n, c, source_position FROM widened_tombstones'));
TRUNCATE widened_event;
INSERT INTO widened_event VALUES ('c', 'a rather long key', 1.001, 'abcdefg', 'back', '0/5');
INSERT INTO widened_event VALUES ('c', 'new', 1, 'a', 'new', '0/5');
SELECT expect('still dead', counts(r), 'inserted=1 stale=1') FROM cdc_apply('widened') r;
-- another type or collation
CREATE TABLE retyped (id text PRIMARY KEY, v text);
SELECT cdc_attach('retyped', 'e');
INSERT INTO e VALUES ('d', 7, NULL, '0/10');
SELECT applied('retyped', 'e');
ALTER TABLE retyped ALTER id TYPE text COLLATE "C";
SELECT apply_refused('another collation', 'retyped', 'e', '', '55000', 'retyped_tombstones', 'dh');
SELECT fix_of($$SELECT cdc_apply('retyped')$$) \gexec
SELECT expect('mended', counts(r), 'duplicate=1') FROM cdc_apply('retyped') r;
ALTER TABLE retyped ALTER id TYPE int USING id::int;
SELECT apply_refused('another type, which text is not cast to unasked', 'retyped', 'e', '', '55000', 'retyped_tombstones', 'dh');
SELECT fix_of($$SELECT cdc_apply('retyped')$$) \gexec
SELECT expect('mended', counts(r), 'duplicate=1') FROM cdc_apply('retyped') r;
TRUNCATE e;

--
-- Persistence: a logged target's deletes survive a crash
--
CREATE UNLOGGED TABLE loaded (id int PRIMARY KEY, v text);
SELECT cdc_attach('loaded', 'e');
INSERT INTO e VALUES ('c', 1, 'a', '0/10'), ('d', 2, NULL, '0/11');
SELECT expect('unlogged both', counts(r), 'inserted=1 deleted=1') FROM cdc_apply('loaded') r;
ALTER TABLE loaded SET LOGGED;
SELECT apply_refused('the side table is not', 'loaded', 'e', '', '55000', 'loaded_tombstones', 'dh');
SELECT fix_of($$SELECT cdc_apply('loaded')$$) \gexec
SELECT expect('logged both', counts(r) || ' ' || relpersistence::text, 'duplicate=2 p') FROM cdc_apply('loaded') r, pg_class WHERE oid = 'loaded_tombstones'::regclass;
ALTER TABLE loaded SET UNLOGGED;
SELECT expect('the other way round there is no harm', counts(r), 'duplicate=2') FROM cdc_apply('loaded') r;
TRUNCATE e;

--
-- Partitions that remember something themselves
--
CREATE TABLE pq (id int, r text, v text, source_position cdc_position, gone boolean NOT NULL DEFAULT false, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE pq_e PARTITION OF pq FOR VALUES IN ('e');
CREATE TABLE pq_event (op text, id int, r text, v text, source_position cdc_position);
CREATE TABLE pq_g (LIKE pq INCLUDING DEFAULTS, PRIMARY KEY (id, r));
SELECT cdc_attach('pq_g', 'pq_event');
INSERT INTO pq_event VALUES ('d', 5, 'g', NULL, '0/20'), ('c', 6, 'g', 'x', '0/20');
SELECT expect('a table by itself', counts(r), 'inserted=1 deleted=1') FROM cdc_apply('pq_g') r;
SELECT cdc_detach('pq_g');
ALTER TABLE pq ATTACH PARTITION pq_g FOR VALUES IN ('g');
UPDATE pq_event SET op = 'c', source_position = '0/10';
SELECT refused('an ancestor is not attached past a detached partition''s tombstones', $$SELECT cdc_attach('pq', 'pq_event')$$, '55000', 'pq_g', 'h');
SELECT apply_refused('nor applied to', 'pq', 'pq_event', 'tombstone_column => ''gone''', '55000', 'pq_g', 'h');
-- the parent was attached first
ALTER TABLE pq DETACH PARTITION pq_g;
SELECT cdc_attach('pq', 'pq_event');
ALTER TABLE pq ATTACH PARTITION pq_g FOR VALUES IN ('g');
SELECT apply_refused('a parent that is attached', 'pq', 'pq_event', '', '55000', 'pq_g', 'h');
SELECT expect('no deleted key is live', rows_of('SELECT id, r, v FROM pq'), '(6,g,x)');
SELECT fix_of($$SELECT * FROM cdc_apply('pq')$$, 'SELECT [^;]*\)') \gexec
SELECT expect('once they are forgotten on purpose', counts(r) || ' ' || coalesce(to_regclass('pq_g_tombstones')::text, 'gone'), 'inserted=1 stale=1 gone') FROM cdc_apply('pq') r;
-- the other way round: deletes of the parent, a partition alone
CREATE TABLE py (id int, r text, v text, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE py_a PARTITION OF py FOR VALUES IN ('a') PARTITION BY HASH (id);
CREATE TABLE py_a0 PARTITION OF py_a FOR VALUES WITH (MODULUS 1, REMAINDER 0);
SELECT cdc_attach('py', 'pq_event');
TRUNCATE pq_event;
INSERT INTO pq_event VALUES ('d', 1, 'a', NULL, '0/9');
SELECT expect('deleted', counts(r), 'deleted=1') FROM cdc_apply('py') r;
SELECT cdc_detach('py');
UPDATE pq_event SET op = 'c', source_position = '0/5';
SELECT refused('a partition is not attached past its detached ancestor''s tombstones', $$SELECT cdc_attach('py_a0', 'pq_event')$$, '55000', 'py', 'h');
SELECT refused('nor the one between', $$SELECT cdc_attach('py_a', 'pq_event')$$, '55000', 'py', 'h');
ALTER TABLE py ADD gone boolean NOT NULL DEFAULT false;
SELECT apply_refused('nor applied to', 'py_a0', 'pq_event', 'tombstone_column => ''gone''', '55000', 'py', 'h');
SELECT cdc_attach('py', 'pq_event');
INSERT INTO pq_event VALUES ('c', 2, 'a', 'new', '0/5');
SELECT expect('the ancestor itself remembers', counts(r) || ' ' || rows_of('SELECT id, v FROM py'), 'inserted=1 stale=1 (2,new)') FROM cdc_apply('py') r;
TRUNCATE pq_event;
INSERT INTO pq_event VALUES ('c', 1, 'g', NULL, '0/5');

-- a guard that a partition has from its parent is not the partition's to drop
CREATE TABLE pg (id int, r text, v text, source_position cdc_position, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE pg_e PARTITION OF pg FOR VALUES IN ('e');
CREATE TABLE pg_g (id int, r text, v text, source_position cdc_position, PRIMARY KEY (id, r));
SELECT cdc_attach('pg', 'pq_event', guard => 'error'), cdc_attach('pg_g', 'pq_event');
ALTER TABLE pg ATTACH PARTITION pg_g FOR VALUES IN ('g');
SELECT apply_refused('a partition that came attached', 'pg', 'pq_event', '', '55000', 'pg_g', 'h');
SELECT cdc_detach('pg_g', drop_tombstones => true);
SELECT refused('the guard of the parent stays', $$INSERT INTO pg VALUES (1, 'g', 'x', NULL); DELETE FROM pg_g$$, '23000', 'pg', 'h');
SELECT expect('detached', counts(r) || ' ' || rows_of('pg_g'), 'inserted=1 (1,g,,0/5)') FROM cdc_apply('pg') r;
SELECT cdc_detach('pg');
SELECT expect('and goes with the parent''s', count(*)::text, '0') FROM pg_trigger WHERE tgrelid IN ('pg'::regclass, 'pg_e'::regclass, 'pg_g'::regclass);

--
-- Rows that are dead stay so: the column that says it, renamed or changed
-- while the target is detached
--
CREATE TABLE marked (id int PRIMARY KEY, v text, d2 timestamptz);
SELECT cdc_attach('marked', 'e', tombstones => 'row');
INSERT INTO e VALUES ('d', 1, NULL, '0/10'), ('c', 2, 'a', '0/10');
SELECT applied('marked', 'e');
SELECT cdc_detach('marked');
ALTER TABLE marked RENAME deleted TO gone;
SELECT refused('renamed', $$SELECT cdc_attach('marked', 'e')$$, '55000', 'gone', 'dh');
SELECT refused('another column', $$SELECT cdc_attach('marked', 'e', tombstone_column => 'd2')$$, '55000', 'gone', 'dh');
SELECT refused('a new one', $$SELECT cdc_attach('marked', 'e', tombstones => 'row')$$, '55000', 'gone', 'dh');
SELECT cdc_attach('marked', 'e', tombstone_column => 'gone');
SELECT expect('as it was', counts(r) || ' ' || rows_of('SELECT id, gone FROM marked'), 'duplicate=2 (1,t) (2,f)') FROM cdc_apply('marked') r;
-- gone while attached: an error of every call, and no silent new one
ALTER TABLE marked DROP gone;
SELECT apply_refused('dropped', 'marked', 'e', '', '42703', 'gone');
SELECT refused('and attached again', $$SELECT cdc_attach('marked')$$, '42703|55000', 'gone');
BEGIN;
SELECT cdc_detach('marked', drop_tombstones => true);
SELECT expect('a detach has nothing to look for', count(*)::text, '0') FROM cdc_targets WHERE target = 'marked'::regclass;
ROLLBACK;
-- there again, it is known by its name
ALTER TABLE marked ADD gone boolean NOT NULL DEFAULT false;
UPDATE marked SET gone = id = 1;
SELECT cdc_detach('marked', drop_tombstones => true);
SELECT expect('dead rows go', rows_of('SELECT id, gone FROM marked'), '(2,f)');
SELECT cdc_attach('marked', 'e', position_columns => '{source_position}', tombstones => 'row');
ALTER TABLE marked DROP source_position;
SELECT refused('a position that was dropped', $$SELECT cdc_attach('marked')$$, '42703|55000', 'source_position');
SELECT apply_refused('nor applied to', 'marked', 'e', '', '42703', 'source_position');
TRUNCATE e;

-- a table that was applied to without an attachment, with a flag
CREATE TABLE unattached (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
INSERT INTO e VALUES ('d', 1, NULL, '0/2');
SELECT applied('unattached', 'e');
BEGIN;
SELECT cdc_attach('unattached', 'e');
ROLLBACK;
SELECT cdc_attach('unattached', 'e', tombstone_column => 'deleted');
TRUNCATE e;
INSERT INTO e VALUES ('c', 1, 'late', '0/1'), ('c', 2, 'new', '0/3');
SELECT expect('as the hint has it', counts(r) || ' ' || stands('unattached'), 'inserted=1 stale=1 1 dead@0/2 2=new@0/3') FROM cdc_apply('unattached') r;
TRUNCATE e;

--
-- A column that was dropped and made anew is known by its name
--
CREATE TABLE remade (id int PRIMARY KEY, v text);
SELECT cdc_attach('remade', 'e');
ALTER TABLE remade DROP COLUMN id;
ALTER TABLE remade ADD COLUMN id int PRIMARY KEY;
INSERT INTO e VALUES ('c', 1, 'a', '0/1'), ('d', 2, NULL, '0/1');
SELECT expect('by its name', counts(r), 'inserted=1 deleted=1') FROM cdc_apply('remade') r;
ALTER TABLE remade RENAME v TO w;
ALTER TABLE e RENAME v TO w;
SELECT expect('a rename of another column does not spoil it', key_columns::text || ' ' || counts(r), '{id} duplicate=2') FROM cdc_targets, cdc_apply('remade', 'e') r WHERE target = 'remade'::regclass;
ALTER TABLE remade RENAME id TO key;
ALTER TABLE e RENAME id TO key;
SELECT expect('and its own is followed', key_columns::text || ' ' || counts(r), '{key} duplicate=2') FROM cdc_targets, cdc_apply('remade', 'e') r WHERE target = 'remade'::regclass;
ALTER TABLE e RENAME w TO v;
ALTER TABLE e RENAME key TO id;

--
-- Hints run where the extension is in a schema that is not searched
--
CREATE SCHEMA attach_faults_ext;
BEGIN;
SET LOCAL client_min_messages = error;
DROP EXTENSION cdc_precedence CASCADE;
CREATE EXTENSION cdc_precedence SCHEMA attach_faults_ext;
SET LOCAL search_path = attach_faults;
CREATE TABLE away (id int NOT NULL, v text);
CREATE TABLE away_event (op text, id int, v text, source_position attach_faults_ext.cdc_position);
INSERT INTO away_event VALUES ('c', 1, 'a', '0/1'), ('d', 2, NULL, '0/1');
SELECT refused('no key', $$SELECT attach_faults_ext.cdc_attach('away', 'away_event', key_columns => '{id}')$$, '55000', 'CREATE UNIQUE INDEX', 'h', false);
ALTER TABLE away ADD PRIMARY KEY (id);
SELECT refused('no position', $$SELECT attach_faults_ext.cdc_apply('away', 'away_event')$$, '42703', 'attach_faults_ext.cdc_position', 'dh');
SELECT fix_of($$SELECT attach_faults_ext.cdc_apply('away', 'away_event')$$) \gexec
SELECT refused('no place for tombstones', $$SELECT attach_faults_ext.cdc_apply('away', 'away_event')$$, '55000', 'attach_faults_ext.cdc_attach', 'dh');
SELECT fix_of($$SELECT attach_faults_ext.cdc_apply('away', 'away_event')$$, 'SELECT [^)]*\)') \gexec
SELECT inserted, deleted FROM attach_faults_ext.cdc_apply('away', 'away_event');
ALTER TABLE away ALTER id TYPE bigint;
SELECT fix_of($$SELECT attach_faults_ext.cdc_apply('away', 'away_event')$$) \gexec
ALTER TABLE away_tombstones DROP source_position;
SELECT refused('a side table without its position', $$SELECT attach_faults_ext.cdc_apply('away', 'away_event')$$, '55000', 'attach_faults_ext.cdc_position', 'dh');
ROLLBACK;

DROP SCHEMA attach_faults, attach_faults_ext CASCADE;
