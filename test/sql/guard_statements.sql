-- What other people's statements report on a guarded target, in both modes and
-- both homes of the tombstones, and that the table ends as the law says.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
\set VERBOSITY terse
SET client_min_messages = error;
CREATE SCHEMA guard_statements;
SET search_path = guard_statements, public;

-- What the source's log says.  lsn is a pg_lsn, so that winners can be picked
-- without anything of the extension.
CREATE TABLE log (n serial, op text, id int, v text, lsn pg_lsn);
INSERT INTO log (op, id, v, lsn) VALUES
	('c', 1, 'first', '0/100'), ('c', 2, 'first', '0/100'), ('c', 3, 'first', '0/100'),
	('u', 1, 'newest', '0/300'), ('d', 3, NULL, '0/300');
CREATE VIEW event AS SELECT op, id, v, lsn::cdc_position AS source_position FROM log;
-- what a model or loader brings: late for 1 and for the deleted 3, new for 2 and 4
CREATE TABLE incoming (id int, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
INSERT INTO incoming VALUES (1, 'late', '0/200'), (2, 'new', '0/200'), (3, 'late', '0/200'), (4, 'new', '0/200');

CREATE TABLE unguarded (id int PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE skip_row (LIKE unguarded INCLUDING ALL);
CREATE TABLE error_row (LIKE unguarded INCLUDING ALL);
-- the column deleted is here to let the same statements run; it means nothing
CREATE TABLE skip_table (LIKE unguarded INCLUDING ALL);
CREATE TABLE error_table (LIKE unguarded INCLUDING ALL);
SELECT cdc_attach('unguarded', 'event', tombstone_column => 'deleted', tombstones => 'row') \g /dev/null
SELECT cdc_attach('skip_row', 'event', tombstone_column => 'deleted', tombstones => 'row', guard => 'skip') \g /dev/null
SELECT cdc_attach('error_row', 'event', tombstone_column => 'deleted', tombstones => 'row', guard => 'error') \g /dev/null
SELECT cdc_attach('skip_table', 'event', tombstones => 'table', guard => 'skip') \g /dev/null
SELECT cdc_attach('error_table', 'event', tombstones => 'table', guard => 'error') \g /dev/null

-- A target as the log leaves it.
CREATE FUNCTION fresh(target text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL cdc_precedence.bypass_guard = on;
	EXECUTE format('DELETE FROM %I', target);
	IF target ~ '_table' THEN
		EXECUTE format('DELETE FROM %I', target || '_tombstones');
	END IF;
	SET LOCAL cdc_precedence.bypass_guard = off;
	PERFORM cdc_apply(target::regclass);
END $$;

-- The live rows of a target.
CREATE FUNCTION holds(target text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT string_agg(concat(id, ''='', v, ''@'', source_position), '' '' ORDER BY id) FROM %I%s', target,
		CASE WHEN target ~ '_table' THEN '' ELSE ' WHERE NOT deleted' END) INTO result;
	RETURN coalesce(result, 'nothing');
END $$;

-- The live rows that the log's events and these (op, id, v, lsn) leave.
CREATE FUNCTION winners(means text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format($q$SELECT string_agg(concat(id, '=', v, '@', lsn::cdc_position), ' ' ORDER BY id) FROM (
		SELECT DISTINCT ON (id) id, op, v, lsn FROM (SELECT n, op, id, v, lsn FROM log UNION ALL SELECT 1000, e.* FROM (%s) e) all_events
		ORDER BY id, lsn DESC, n DESC) w WHERE op <> 'd'$q$, means) INTO result;
	RETURN result;
END $$;

/*
 * Run statements on each target (%t), first as the log leaves it.  reports: the
 * rows that each statement says it changed, or its error.  law: whether the
 * live rows are the winners of the log's events and of those that the
 * statements mean, unless they failed; and still so after the whole log was
 * applied again.
 */
CREATE FUNCTION run(statements text[], means text DEFAULT NULL)
RETURNS TABLE (target text, reports text, holds text, law text) LANGUAGE plpgsql AS $$
DECLARE
	nothing CONSTANT text := 'SELECT NULL::text, NULL::int, NULL::text, NULL::pg_lsn WHERE false';
	statement text; n bigint; said text; want text;
BEGIN
	FOREACH target IN ARRAY '{unguarded,skip_row,skip_table,error_row,error_table}'::text[] LOOP
		PERFORM fresh(target);
		want := winners(coalesce(means, nothing));
		BEGIN
			reports := '';
			FOREACH statement IN ARRAY statements LOOP
				EXECUTE replace(statement, '%t', target);
				GET DIAGNOSTICS n = ROW_COUNT;
				reports := concat_ws(', ', nullif(reports, ''), n);
			END LOOP;
		EXCEPTION WHEN OTHERS THEN
			reports := concat_ws(', ', nullif(reports, ''), format('%s %s', SQLSTATE, replace(SQLERRM, target, 't')));
			want := winners(nothing);
		END;
		holds := guard_statements.holds(target);
		PERFORM cdc_apply(target::regclass);
		law := CASE WHEN guard_statements.holds(target) <> holds THEN 'A REPLAY CHANGES IT: ' || guard_statements.holds(target)
			WHEN holds <> want THEN 'NOT ' || want ELSE 'ok' END;
		RETURN NEXT;
	END LOOP;
END $$;

CREATE FUNCTION incoming_means() RETURNS text LANGUAGE sql AS
	$$ SELECT 'SELECT ''u'', id, v, source_position::pg_lsn FROM incoming' $$;

\set ECHO all
\pset format unaligned

--
-- dbt's incremental strategies, as dbt-postgres writes them
--
-- merge
SELECT * FROM run(ARRAY[$$
	merge into "guard_statements"."%t" as DBT_INTERNAL_DEST
		using "incoming" as DBT_INTERNAL_SOURCE
		on (DBT_INTERNAL_SOURCE.id = DBT_INTERNAL_DEST.id)
	when matched then update set
		"id" = DBT_INTERNAL_SOURCE."id","v" = DBT_INTERNAL_SOURCE."v","source_position" = DBT_INTERNAL_SOURCE."source_position","deleted" = DBT_INTERNAL_SOURCE."deleted"
	when not matched then insert
		("id", "v", "source_position", "deleted")
	values
		(DBT_INTERNAL_SOURCE."id", DBT_INTERNAL_SOURCE."v", DBT_INTERNAL_SOURCE."source_position", DBT_INTERNAL_SOURCE."deleted")
$$], incoming_means());
-- delete+insert: a row that is held back makes the insert fail
SELECT * FROM run(ARRAY[$$
	delete from "guard_statements"."%t" as DBT_INTERNAL_DEST
	where (id) in (
		select distinct id
		from "incoming" as DBT_INTERNAL_SOURCE
	)
$$, $$
	insert into "guard_statements"."%t" ("id", "v", "source_position", "deleted")
	(
		select "id", "v", "source_position", "deleted"
		from "incoming"
	)
$$], incoming_means());
-- append
SELECT * FROM run(ARRAY[$$INSERT INTO %t SELECT * FROM incoming WHERE id >= 3$$], incoming_means() || ' WHERE id >= 3');
SELECT * FROM run(ARRAY[$$INSERT INTO %t SELECT * FROM incoming WHERE id >= 4$$], incoming_means() || ' WHERE id >= 4');

--
-- Upserts
--
-- without a guard of their own
SELECT * FROM run(ARRAY[$$
	INSERT INTO %t SELECT * FROM incoming
	ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v, source_position = EXCLUDED.source_position, deleted = EXCLUDED.deleted
$$], incoming_means());
-- guarded; in the side table's home nobody but the guard knows of the delete
SELECT * FROM run(ARRAY[$$
	INSERT INTO %t AS t SELECT * FROM incoming
	ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v, source_position = EXCLUDED.source_position, deleted = EXCLUDED.deleted
	WHERE cdc_supersedes(EXCLUDED.source_position, t.source_position)
$$], incoming_means());
-- nothing is refused, so nothing fails
SELECT * FROM run(ARRAY[$$
	INSERT INTO %t AS t SELECT * FROM incoming WHERE id IN (2, 4)
	ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v, source_position = EXCLUDED.source_position, deleted = EXCLUDED.deleted
$$], incoming_means() || ' WHERE id IN (2, 4)');
-- the row that is there stays, which is right only where it is newer
SELECT * FROM run(ARRAY[$$INSERT INTO %t SELECT * FROM incoming WHERE id IN (1) ON CONFLICT (id) DO NOTHING$$], incoming_means() || ' WHERE id IN (1)');
-- rows without a position fill unseen keys
SELECT * FROM run(ARRAY[$$
	INSERT INTO %t SELECT id, v FROM incoming
	ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v, source_position = EXCLUDED.source_position, deleted = EXCLUDED.deleted
$$], $$SELECT 'u', 4, 'new', NULL::pg_lsn$$);

--
-- By hand
--
-- a column that the log does not decide, or a mended value: position and tombstone stay
SELECT * FROM run(ARRAY[$$UPDATE %t SET v = 'mended' WHERE id = 2$$], $$SELECT 'u', 2, 'mended', '0/100'::pg_lsn$$);
-- back in time, ahead in time
SELECT * FROM run(ARRAY[$$UPDATE %t SET source_position = '0/50' WHERE id IN (1,2)$$]);
SELECT * FROM run(ARRAY[$$UPDATE %t SET source_position = '0/200' WHERE id IN (1,2)$$], $$SELECT 'u', 2, 'first', '0/200'::pg_lsn$$);
SELECT * FROM run(ARRAY[$$UPDATE %t SET v = 'x', source_position = NULL WHERE id = 1$$]);
-- another key
SELECT * FROM run(ARRAY[$$UPDATE %t SET id = 10 WHERE id = 2$$]);
-- deletes
SELECT * FROM run(ARRAY[$$DELETE FROM %t WHERE id = 2$$]);
SELECT * FROM run(ARRAY[$$DELETE FROM %t$$]);
SELECT * FROM run(ARRAY[$$DELETE FROM %t WHERE id = 3$$]);
SELECT * FROM run(ARRAY[$$TRUNCATE %t$$]);
-- a merge of events that deletes
SELECT * FROM run(ARRAY[$$
	MERGE INTO %t t USING (VALUES (2, 'd', '0/400'::cdc_position), (5, 'c', '0/400')) s (id, op, pos) ON t.id = s.id
	WHEN MATCHED AND op = 'd' THEN DELETE
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'five', s.pos)
$$], $$VALUES ('c', 5, 'five', '0/400'::pg_lsn)$$);
\pset format aligned

-- deletes by hand that are remembered: in the row home only, and newer than the row
UPDATE skip_row SET deleted = true WHERE id = 1;
UPDATE error_row SET deleted = true WHERE id = 1;
UPDATE error_row SET deleted = true, source_position = '0/310' WHERE id = 1;
UPDATE skip_row SET deleted = true, source_position = '0/310' WHERE id = 1;
SELECT holds('skip_row'), holds('error_row');
SELECT count(cdc_apply(t)) FROM (VALUES ('skip_row'::regclass), ('error_row')) r (t);
SELECT holds('skip_row'), holds('error_row');
-- and back, newer again; both kinds of position are not weighed
UPDATE error_row SET deleted = false, source_position = '0/305' WHERE id = 1;
UPDATE error_row SET deleted = false, source_position = '0/320' WHERE id = 1;
UPDATE skip_row SET source_position = '47' WHERE id = 1;
SELECT holds('error_row');

--
-- COPY
--
SELECT count(fresh(t)) FROM unnest('{skip_row,skip_table,error_row,error_table}'::text[]) t;
COPY skip_table FROM stdin;
3	late	0/200	f
4	new	0/200	f
\.
COPY error_table FROM stdin;
4	new	0/200	f
3	late	0/200	f
\.
-- the tombstone is a row: no copy goes past it
COPY skip_row FROM stdin;
3	late	0/200	f
\.
SELECT t, holds(t) FROM unnest('{skip_row,skip_table,error_row,error_table}'::text[]) t;

--
-- Who and how
--
-- a logical replication worker's role is no way around
SET session_replication_role = replica;
UPDATE error_table SET source_position = '0/50' WHERE id = 1;
TRUNCATE error_table;
RESET session_replication_role;
-- owners who insist, row by row
BEGIN;
SET LOCAL cdc_precedence.bypass_guard = on;
UPDATE error_table SET source_position = '0/50' WHERE id = 1;
DELETE FROM error_row WHERE id = 2;
TRUNCATE skip_row;
SELECT t, holds(t) FROM unnest('{skip_row,error_row,error_table}'::text[]) t;
ROLLBACK;
CREATE ROLE regress_cdc_guard;
GRANT USAGE ON SCHEMA guard_statements TO regress_cdc_guard;
GRANT SELECT, UPDATE, DELETE, TRUNCATE ON error_row, skip_row TO regress_cdc_guard;
SET ROLE regress_cdc_guard;
SET cdc_precedence.bypass_guard = on;
UPDATE error_row SET source_position = '0/50' WHERE id = 1;
UPDATE skip_row SET source_position = '0/50' WHERE id = 1;
TRUNCATE error_row;
RESET cdc_precedence.bypass_guard;
RESET ROLE;
SELECT holds('error_row'), holds('skip_row');
-- what an error says
\set VERBOSITY default
UPDATE error_row SET source_position = '0/50' WHERE id = 1;
UPDATE error_row SET id = 10 WHERE id = 1;
DELETE FROM error_row WHERE id = 2;
DELETE FROM error_row WHERE id = 3;
INSERT INTO error_table VALUES (3, 'late', '0/200');
TRUNCATE error_table;
SELECT cdc_set_fence('error_table', '0/180'), cdc_set_floor('error_row', '0/350');
INSERT INTO error_table VALUES (9, 'unseen', '0/170');
UPDATE error_row SET source_position = '0/340' WHERE id = 1;
\set VERBOSITY terse

--
-- The extension's own statements pass, what they set off does not
--
SELECT cdc_purge_tombstones('error_table', '0/300'), cdc_purge_tombstones('skip_row', '0/300');
SELECT holds('error_table'), holds('skip_row');
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('DELETE FROM %I WHERE id = 1', TG_TABLE_NAME);
	RETURN NULL;
END $$;
CREATE TRIGGER meddle AFTER DELETE ON error_row FOR EACH ROW EXECUTE FUNCTION meddle();
SELECT cdc_set_floor('error_row', NULL);
SELECT fresh('error_row');
SELECT cdc_purge_tombstones('error_row', '0/300');
-- after the error nothing is exempt
DELETE FROM error_row WHERE id = 3;
DROP TRIGGER meddle ON error_row;

--
-- Partitions: the rule is the root's
--
CREATE TABLE part (id int, region text, v text, source_position cdc_position, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE part_eu (v text, gone int, region text NOT NULL, source_position cdc_position, id int NOT NULL);
ALTER TABLE part_eu DROP COLUMN gone;
ALTER TABLE part ATTACH PARTITION part_eu FOR VALUES IN ('eu');
CREATE TABLE part_event (op text, id int, region text, v text, source_position cdc_position);
SELECT cdc_attach('part', 'part_event', guard => 'error');
CREATE TABLE part_us PARTITION OF part FOR VALUES IN ('us');
INSERT INTO part_event VALUES ('c', 1, 'eu', 'a', '0/100'), ('c', 1, 'us', 'a', '0/100'), ('d', 2, 'eu', NULL, '0/100'), ('d', 2, 'us', NULL, '0/100');
SELECT inserted, deleted FROM cdc_apply('part');
UPDATE part SET source_position = '0/50' WHERE region = 'eu';
UPDATE part_us SET source_position = '0/50';
UPDATE part SET region = 'eu' WHERE region = 'us';
INSERT INTO part VALUES (2, 'eu', 'late', '0/50');
INSERT INTO part_us VALUES (2, 'us', 'late', '0/50');
INSERT INTO part VALUES (2, 'eu', 'new', '0/150'), (2, 'us', 'new', '0/150');
TRUNCATE part;
TRUNCATE part_eu;
-- TRUNCATE of a partition made later is guarded once the target is attached again
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'part_us'::regclass;
SELECT cdc_attach('part', guard => 'error');
TRUNCATE part_us;
UPDATE part SET source_position = '0/160' WHERE id = 2;
SELECT id, region, v, source_position FROM part ORDER BY 1, 2;

--
-- Without a rule nothing can be judged
--
CREATE TABLE lonely (id int PRIMARY KEY, v text);
CREATE TRIGGER g BEFORE INSERT OR UPDATE OR DELETE ON lonely FOR EACH ROW EXECUTE FUNCTION cdc_guard('skip');
CREATE TRIGGER gt BEFORE TRUNCATE ON lonely FOR EACH STATEMENT EXECUTE FUNCTION cdc_guard('skip');
INSERT INTO lonely VALUES (1);
TRUNCATE lonely;
DROP TABLE lonely;
-- triggers that cdc_attach() would not make
CREATE TABLE odd (id int PRIMARY KEY);
CREATE TRIGGER g AFTER INSERT ON odd FOR EACH ROW EXECUTE FUNCTION cdc_guard('skip');
INSERT INTO odd VALUES (1);
DROP TRIGGER g ON odd;
CREATE TRIGGER g BEFORE INSERT ON odd EXECUTE FUNCTION cdc_guard('skip');
INSERT INTO odd VALUES (1);
DROP TRIGGER g ON odd;
CREATE TRIGGER g BEFORE INSERT ON odd FOR EACH ROW EXECUTE FUNCTION cdc_guard('warn');
INSERT INTO odd VALUES (1);
SELECT cdc_guard();

DROP OWNED BY regress_cdc_guard;
DROP ROLE regress_cdc_guard;
DROP SCHEMA guard_statements CASCADE;
