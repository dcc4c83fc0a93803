-- The guard trigger: what a hand may do to an attached target, row by row, in
-- both modes, both homes of the tombstone, with and without partitions.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA guard;
SET search_path = guard, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

/*
 * Eight targets.  Each holds: 1 and 2 live at 5/50, 3 dead at 5/50, 5 live
 * without position, 8 dead at 5/10; the fence is at 5/20.
 */
CREATE TABLE guarded (target text PRIMARY KEY, home text, mode text, shape text);
INSERT INTO guarded SELECT concat_ws('_', mode, home, shape), home, mode, shape
FROM unnest('{skip,error}'::text[]) mode, unnest('{row,table}'::text[]) home, unnest('{plain,part}'::text[]) shape;
CREATE FUNCTION make(t text, home text, mode text, shape text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %s (id int PRIMARY KEY, v text)', t) || CASE shape WHEN 'part' THEN ' PARTITION BY RANGE (id)' ELSE '' END;
	IF shape = 'part' THEN
		EXECUTE format('CREATE TABLE %1$s_1 PARTITION OF %1$s FOR VALUES FROM (0) TO (3); CREATE TABLE %1$s_rest (v text, id int NOT NULL);
			ALTER TABLE %1$s ATTACH PARTITION %1$s_rest DEFAULT', t);
	END IF;
	EXECUTE format('INSERT INTO %s VALUES (5, ''e'')', t);
	PERFORM cdc_attach(t::regclass, 'event', tombstones => home, guard => mode);
	PERFORM stage($q$ ('c', 1, 'a', '5/50'), ('c', 2, 'b', '5/50'), ('d', 3, NULL, '5/50'), ('d', 8, NULL, '5/10') $q$);
	PERFORM applied(t, 'event');
	PERFORM cdc_set_fence(t::regclass, '5/20');
END $$;
SELECT make(target, home, mode, shape) FROM guarded ORDER BY target COLLATE "C";
SELECT expect(target, stands(target), '1=a@5/50 2=b@5/50 3 dead@5/50 5=e@none 8 dead@5/10') FROM guarded ORDER BY target COLLATE "C";

/*
 * What a hand does, in which home (NULL: both), and what comes of it: the
 * number of rows that the statement reports, or an SQLSTATE; in mode skip and
 * in mode error.  shows is what the table holds then; NULL: what it held.
 */
CREATE TABLE hand (n int GENERATED ALWAYS AS IDENTITY, home text, what text, command text, skip text, error text, shows text[]);
INSERT INTO hand (home, what, command, skip, error, shows) VALUES
	(NULL, 'values alone', 'UPDATE %s SET v = ''x'' WHERE id = 1', '1', '1', '{1=x@5/50}'),
	(NULL, 'values at the same position', 'UPDATE %s SET v = ''x'', source_position = ''5/50:0'' WHERE id = 1', '1', '1', '{1=x@5/50}'),
	(NULL, 'values of a row without position', 'UPDATE %s SET v = ''x'' WHERE id = 5', '1', '1', '{5=x@none}'),
	(NULL, 'newer', 'UPDATE %s SET v = ''x'', source_position = ''5/50:1'' WHERE id = 1', '1', '1', '{1=x@5/50:1}'),
	(NULL, 'older', 'UPDATE %s SET v = ''x'', source_position = ''5/4F'' WHERE id = 1', '0', '23000', NULL),
	(NULL, 'older, by the position alone', 'UPDATE %s SET source_position = ''5/4F'' WHERE id = 1', '0', '23000', NULL),
	(NULL, 'the position away', 'UPDATE %s SET source_position = NULL WHERE id = 1', '0', '23000', NULL),
	(NULL, 'the position to none', 'UPDATE %s SET source_position = ''0/0'' WHERE id = 1', '0', '23000', NULL),
	(NULL, 'a first position', 'UPDATE %s SET source_position = ''5/1'' WHERE id = 5', '1', '1', '{5=e@5/1}'),
	(NULL, 'one may, one may not', 'UPDATE %s SET v = ''x'', source_position = ''5/30'' WHERE id IN (1, 5)', '1', '23000', '{1=a@5/50,5=x@5/30}'),
	(NULL, 'another kind of log', 'UPDATE %s SET source_position = ''47:3'' WHERE id = 1', '42804', '42804', NULL),
	(NULL, 'another key', 'UPDATE %s SET id = 7 WHERE id = 1', '0', '23000', NULL),
	(NULL, 'another key, newer', 'UPDATE %s SET id = 7, source_position = ''5/60'' WHERE id = 1', '0', '23000', NULL),
	(NULL, 'the same key', 'UPDATE %s SET id = 1, v = ''x'' WHERE id = 1', '1', '1', '{1=x@5/50}'),
	('row', 'all rows, values alone', 'UPDATE %s SET v = ''x''', '5', '5', '{1=x@5/50,2=x@5/50,"3 dead@5/50",5=x@none}'),
	('table', 'all rows, values alone', 'UPDATE %s SET v = ''x''', '3', '3', '{1=x@5/50,2=x@5/50,"3 dead@5/50",5=x@none}'),
	('row', 'a soft delete that says when', 'UPDATE %s SET deleted = true, source_position = ''5/60'' WHERE id = 1', '1', '1', '{"1 dead@5/60"}'),
	('row', 'a soft delete at the row''s own position', 'UPDATE %s SET deleted = true WHERE id = 1', '0', '23000', NULL),
	('row', 'a soft delete from before', 'UPDATE %s SET deleted = true, source_position = ''5/30'' WHERE id = 1', '0', '23000', NULL),
	('row', 'a soft delete of a row without position', 'UPDATE %s SET deleted = true, source_position = ''5/30'' WHERE id = 5', '1', '1', '{"5 dead@5/30"}'),
	('row', 'a revival', 'UPDATE %s SET deleted = false, v = ''x'', source_position = ''5/60'' WHERE id = 3', '1', '1', '{3=x@5/60}'),
	('row', 'a revival at the tombstone''s position: the upsert stands', 'UPDATE %s SET deleted = false, v = ''x'' WHERE id = 3', '1', '1', '{3=x@5/50}'),
	('row', 'a revival from before', 'UPDATE %s SET deleted = false, source_position = ''5/40'' WHERE id = 3', '0', '23000', NULL),
	('row', 'a revival above the tombstone, at the fence', 'UPDATE %s SET deleted = false, source_position = ''5/20'' WHERE id = 8', '0', '23000', NULL),
	('row', 'a revival without position', 'UPDATE %s SET deleted = false, source_position = NULL WHERE id = 3', '0', '23000', NULL),
	('row', 'a tombstone moves up', 'UPDATE %s SET source_position = ''5/60'' WHERE id = 3', '1', '1', '{"3 dead@5/60"}'),
	('row', 'a tombstone moves down', 'UPDATE %s SET source_position = ''5/40'' WHERE id = 3', '0', '23000', NULL),
	(NULL, 'a new key', 'INSERT INTO %s (id, v, source_position) VALUES (4, ''n'', ''5/30'')', '1', '1', '{4=n@5/30}'),
	(NULL, 'a new key at the fence', 'INSERT INTO %s (id, v, source_position) VALUES (4, ''n'', ''5/20'')', '0', '23000', NULL),
	(NULL, 'a new key without position', 'INSERT INTO %s (id, v) VALUES (4, ''n'')', '0', '23000', NULL),
	(NULL, 'two keys, one below the fence', 'INSERT INTO %s (id, v, source_position) VALUES (4, ''n'', ''5/30''), (6, ''n'', ''5/10'')', '1', '23000', '{4=n@5/30}'),
	(NULL, 'a live key', 'INSERT INTO %s (id, v, source_position) VALUES (1, ''n'', ''5/60'')', '23505', '23505', NULL),
	('table', 'a dead key from before', 'INSERT INTO %s (id, v, source_position) VALUES (3, ''n'', ''5/40'')', '0', '23000', NULL),
	('row', 'a dead key', 'INSERT INTO %s (id, v, source_position) VALUES (3, ''n'', ''5/40'')', '23505', '23505', NULL),
	('table', 'a dead key, newer', 'INSERT INTO %s (id, v, source_position) VALUES (3, ''n'', ''5/60'')', '1', '1', '{3=n@5/60}'),
	('table', 'a dead key at its tombstone''s position: the upsert stands', 'INSERT INTO %s (id, v, source_position) VALUES (3, ''n'', ''5/50'')', '1', '1', '{3=n@5/50}'),
	('table', 'a dead key without position', 'INSERT INTO %s (id, v) VALUES (3, ''n'')', '0', '23000', NULL),
	('row', 'a tombstone', 'INSERT INTO %s (id, source_position, deleted) VALUES (4, ''5/30'', true)', '1', '1', '{"4 dead@5/30"}'),
	(NULL, 'upsert, newer', 'INSERT INTO %s AS t (id, v, source_position) VALUES (1, ''n'', ''5/60'') ON CONFLICT (id) DO UPDATE SET v = excluded.v, source_position = excluded.source_position', '1', '1', '{1=n@5/60}'),
	(NULL, 'upsert, older', 'INSERT INTO %s AS t (id, v, source_position) VALUES (1, ''n'', ''5/40'') ON CONFLICT (id) DO UPDATE SET v = excluded.v, source_position = excluded.source_position', '0', '23000', NULL),
	(NULL, 'upsert of a dead key, older', 'INSERT INTO %s AS t (id, v, source_position) VALUES (3, ''n'', ''5/40'') ON CONFLICT (id) DO UPDATE SET v = excluded.v, source_position = excluded.source_position', '0', '23000', NULL),
	(NULL, 'upsert of a new key below the fence', 'INSERT INTO %s AS t (id, v, source_position) VALUES (9, ''n'', ''5/15'') ON CONFLICT (id) DO UPDATE SET v = excluded.v, source_position = excluded.source_position', '0', '23000', NULL),
	(NULL, 'upsert without position', 'INSERT INTO %s AS t (id, v) VALUES (1, ''n'') ON CONFLICT (id) DO UPDATE SET v = excluded.v', '1', '1', '{1=n@5/50}'),
	(NULL, 'do nothing', 'INSERT INTO %s (id, v, source_position) VALUES (1, ''n'', ''5/40''), (4, ''n'', ''5/30'') ON CONFLICT DO NOTHING', '1', '1', '{1=a@5/50,4=n@5/30}'),
	(NULL, 'delete', 'DELETE FROM %s WHERE id = 1', '0', '23000', NULL),
	(NULL, 'delete of a row without position', 'DELETE FROM %s WHERE id = 5', '0', '23000', NULL),
	(NULL, 'delete of no row', 'DELETE FROM %s WHERE id = 99', '0', '0', NULL),
	('row', 'delete of a tombstone above the fence', 'DELETE FROM %s WHERE id = 3', '0', '23000', NULL),
	('row', 'delete of a tombstone that the fence covers', 'DELETE FROM %s WHERE id = 8', '1', '1', '{"3 dead@5/50"}'),
	('row', 'delete of all', 'DELETE FROM %s', '1', '23000', '{1=a@5/50,"3 dead@5/50"}'),
	('table', 'delete of all', 'DELETE FROM %s', '0', '23000', NULL),
	(NULL, 'truncate', 'TRUNCATE %s', '23000', '23000', NULL),
	(NULL, 'merge: update or insert', 'MERGE INTO %s t USING (VALUES (1, ''n'', cdc_position ''5/40''), (2, ''n'', ''5/60''), (3, ''n'', ''5/40''), (4, ''n'', ''5/30'')) s (id, v, p) ON t.id = s.id
		WHEN MATCHED THEN UPDATE SET v = s.v, source_position = s.p WHEN NOT MATCHED THEN INSERT (id, v, source_position) VALUES (s.id, s.v, s.p)',
		'2', '23000', '{1=a@5/50,2=n@5/60,"3 dead@5/50",4=n@5/30}'),
	(NULL, 'merge: with its own guard', 'MERGE INTO %s t USING (VALUES (1, ''n'', cdc_position ''5/40''), (2, ''n'', ''5/60''), (4, ''n'', ''5/30'')) s (id, v, p) ON t.id = s.id
		WHEN MATCHED AND cdc_supersedes(s.p, t.source_position) THEN UPDATE SET v = s.v, source_position = s.p WHEN NOT MATCHED THEN INSERT (id, v, source_position) VALUES (s.id, s.v, s.p)',
		'2', '2', '{1=a@5/50,2=n@5/60,4=n@5/30}'),
	(NULL, 'merge: delete', 'MERGE INTO %s t USING (VALUES (1)) s (id) ON t.id = s.id WHEN MATCHED THEN DELETE', '0', '23000', NULL);

-- the statements that dbt makes of incremental_strategy merge and delete+insert
CREATE TABLE dbt_tmp (id int, v text, source_position cdc_position);
INSERT INTO dbt_tmp VALUES (1, 'old', '5/40'), (2, 'new', '5/60'), (3, 'old', '5/40'), (4, 'new', '5/30'), (6, 'old', '5/10');
CREATE TABLE dbt_new (id int, v text, source_position cdc_position);
INSERT INTO dbt_new VALUES (4, 'new', '5/30');
INSERT INTO hand (home, what, command, skip, error, shows) VALUES
	(NULL, 'dbt merge', 'merge into "%d"."guard"."%s" as DBT_INTERNAL_DEST
        using "dbt_tmp" as DBT_INTERNAL_SOURCE
        on ((DBT_INTERNAL_SOURCE.id = DBT_INTERNAL_DEST.id))
    when matched then update set
        "id" = DBT_INTERNAL_SOURCE."id","v" = DBT_INTERNAL_SOURCE."v","source_position" = DBT_INTERNAL_SOURCE."source_position"
    when not matched then insert
        ("id", "v", "source_position")
    values
        ("id", "v", "source_position")
', '2', '23000', '{1=a@5/50,2=new@5/60,"3 dead@5/50",4=new@5/30}'),
	-- the rows are there still, so that the insert finds them: no row is lost, and none goes back unseen
	(NULL, 'dbt delete+insert', 'delete from "%d"."guard"."%s" as DBT_INTERNAL_DEST
        where (id) in (
            select distinct id
            from "dbt_tmp" as DBT_INTERNAL_SOURCE
        );
    insert into "%d"."guard"."%s" ("id", "v", "source_position")
    (
        select "id", "v", "source_position"
        from "dbt_tmp"
    )
', '23505', '23000', NULL),
	(NULL, 'dbt delete+insert of new keys', 'delete from "%d"."guard"."%s" as DBT_INTERNAL_DEST
        where (id) in (
            select distinct id
            from "dbt_new" as DBT_INTERNAL_SOURCE
        );
    insert into "%d"."guard"."%s" ("id", "v", "source_position")
    (
        select "id", "v", "source_position"
        from "dbt_new"
    )
', '1', '1', '{4=new@5/30}');

-- Each as if it were the first: what is wrong, and how many there were.
CREATE FUNCTION check_hand(g guarded) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	h hand; before text; after text; got text; want text; n_rows bigint; n int := 0; wrong int := 0; problem text;
BEGIN
	before := stands(g.target);
	FOR h IN SELECT * FROM hand WHERE hand.home IS NULL OR hand.home = g.home ORDER BY hand.n LOOP
		BEGIN
			EXECUTE replace(replace(h.command, '%s', g.target), '%d', current_database());
			GET DIAGNOSTICS n_rows = ROW_COUNT;
			got := n_rows;
			after := stands(g.target);
			RAISE SQLSTATE 'UNDO1';
		EXCEPTION
			WHEN SQLSTATE 'UNDO1' THEN
				NULL;
			WHEN OTHERS THEN
				got := SQLSTATE;
				after := before;
		END;
		n := n + 1;
		want := CASE g.mode WHEN 'skip' THEN h.skip ELSE h.error END;
		problem := NULL;
		IF got <> want THEN
			problem := format('got %s, right is %s', got, want);
		ELSIF want !~ '^\d{1,2}$' OR h.shows IS NULL THEN
			IF after <> before THEN
				problem := 'the table was changed: ' || after;
			END IF;
		ELSIF EXISTS (SELECT FROM unnest(h.shows) s WHERE (' ' || after || ' ') NOT LIKE '% ' || s || ' %') THEN
			problem := format('the table holds %s, right is %s', after, h.shows);
		END IF;
		IF problem IS NOT NULL THEN
			wrong := wrong + 1;
			RETURN NEXT format('NOT OK | %s: %s: %s', g.target, h.what, problem);
		END IF;
	END LOOP;
	RETURN NEXT expect(format('%s: %s statements', g.target, n), wrong || ' wrong', '0 wrong');
END $$;
SELECT check_hand(g) FROM guarded g ORDER BY target COLLATE "C";

-- directly to a partition; for a replication worker
SELECT refused('a partition''s own UPDATE', 'UPDATE error_row_part_1 SET source_position = ''5/1'' WHERE id = 1', '23000', NULL, 'd');
SELECT refused('a partition''s own DELETE', 'DELETE FROM error_table_part_1', '23000', NULL, 'dh');
SELECT refused('a partition''s own TRUNCATE: ' || t, 'TRUNCATE ' || t, '23000', NULL, 'h', false) FROM unnest('{error_table_part_1,skip_row_part_1,skip_table_part_rest}'::text[]) t;
SET session_replication_role = replica;
SELECT refused('also as a replica', 'UPDATE error_row_plain SET source_position = ''5/1'' WHERE id = 1', '23000', NULL, 'd', false);
RESET session_replication_role;
-- in what words
SELECT refused('older', 'UPDATE error_table_plain SET source_position = ''5/1'' WHERE id = 1', '23000', '5/50', 'd');
SELECT refused('a key', 'UPDATE error_table_plain SET id = 12 WHERE id = 1', '23000', NULL, 'dh');
SELECT refused('a delete', 'DELETE FROM error_table_plain WHERE id = 1', '23000', NULL, 'dh');
SELECT refused('a dead key', 'INSERT INTO error_table_plain VALUES (3, ''x'', ''5/40'')', '23000', '5/50', 'd');
SELECT refused('below the fence', 'INSERT INTO error_table_plain VALUES (4, ''x'', ''5/4'')', '23000', '5/20', 'd');
SELECT refused('truncate', 'TRUNCATE skip_row_plain', '23000', 'skip_row_plain', 'h');
-- below a floor
SELECT cdc_set_floor('error_row_plain', '5/70');
SELECT refused('below the floor', 'UPDATE error_row_plain SET source_position = ''5/60'' WHERE id = 1', '23000', '5/70', 'd');
SELECT refused('a new key below the floor', 'INSERT INTO error_row_plain VALUES (4, ''x'', ''5/60'')', '23000', '5/70', 'd', false);
SELECT cdc_set_floor('error_row_plain', NULL);
-- a live row at or below its tombstone counts as dead and may go
INSERT INTO error_table_plain_tombstones SELECT id, '5/90', now() FROM error_table_plain WHERE id = 2;
DELETE FROM error_table_plain WHERE id = 2;
SELECT expect('gone', stands('error_table_plain'), '1=a@5/50 2 dead@5/90 3 dead@5/50 5=e@none 8 dead@5/10');

--
-- The extension's own work is let through
--
SELECT stage($$ ('d', 1, NULL, '6/10'), ('u', 3, 'back', '6/10'), ('c', 4, 'n', '6/10'), ('u', 5, 'old', '5/15') $$);
SELECT expect(target, applied(target, 'event'), 'inserted=2 updated=1 deleted=1') FROM guarded ORDER BY target COLLATE "C";
SELECT stage($$ ('t', NULL, NULL, '6/20'), ('c', 10, 'n', '6/30') $$);
SELECT expect(target, applied(target, 'event') || ' ' || stands(target, true), 'inserted=1 truncated=1 10=n@6/30') FROM guarded ORDER BY target COLLATE "C";
SELECT expect(target, (cdc_purge_tombstones(target::regclass, '6/20') > 0)::text || ' ' || stands(target), 'true 10=n@6/30') FROM guarded ORDER BY target COLLATE "C";
-- and the guard is there after an apply that failed
SELECT stage($$ ('u', 10, 'x', '6/40'), ('u', NULL, 'x', '6/40') $$);
SELECT refused('apply', format('SELECT cdc_apply(%L, ''event'')', target), '23502', NULL, '', false) FROM guarded ORDER BY target COLLATE "C";
SELECT refused('delete after it', format('DELETE FROM %s', target), '23000', NULL, '', false) FROM guarded WHERE mode = 'error' ORDER BY target COLLATE "C";
-- switched, and off
SELECT cdc_attach('error_row_part', guard => 'skip');
DELETE FROM error_row_part;
SELECT expect('skips', stands('error_row_part'), '10=n@6/30');
SELECT cdc_attach('error_row_part', guard => 'off');
SELECT expect('no trigger is left', count(*)::text, '0') FROM pg_trigger WHERE tgrelid IN ('error_row_part'::regclass, 'error_row_part_1'::regclass, 'error_row_part_rest'::regclass);
DELETE FROM error_row_part;
SELECT expect('off', stands('error_row_part'), 'nothing');
SELECT cdc_detach('skip_table_part');
SELECT expect('nor after a detach', count(*)::text, '0') FROM pg_trigger WHERE tgrelid IN ('skip_table_part'::regclass, 'skip_table_part_1'::regclass, 'skip_table_part_rest'::regclass);

SELECT stage($$ ('d', 10, NULL, '6/50') $$);
SELECT expect('a tombstone', applied('skip_row_part', 'event'), 'deleted=1');
SELECT cdc_detach('skip_row_part', drop_tombstones => true);
SELECT expect('a detach that takes the dead rows', stands('skip_row_part'), 'nothing');
-- partitions that come later, below others, and that leave
CREATE TABLE grown (id int, r text, v text, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE grown_a PARTITION OF grown FOR VALUES IN ('a') PARTITION BY HASH (id);
CREATE TABLE grown_a0 PARTITION OF grown_a FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE grown_event (op text, id int, r text, v text, source_position cdc_position);
SELECT cdc_attach('grown', 'grown_event', guard => 'error');
CREATE TABLE grown_b PARTITION OF grown FOR VALUES IN ('b');
INSERT INTO grown_event VALUES ('c', 1, 'a', 'x', '1/1'), ('c', 2, 'b', 'x', '1/1'), ('d', 3, 'b', NULL, '1/1');
SELECT expect('applied', applied('grown', 'grown_event'), 'inserted=2 deleted=1');
SELECT refused(c, c, '23000', NULL, '', false) FROM unnest(ARRAY['DELETE FROM grown_b', 'DELETE FROM grown_a0', 'TRUNCATE grown_a0', 'TRUNCATE grown_a',
	'INSERT INTO grown_b VALUES (3, ''b'', ''x'', ''1/0'')', 'UPDATE grown SET r = ''a'' WHERE id = 2']) c;
-- TRUNCATE of a later one is refused once the target is attached again
SELECT cdc_attach('grown');
SELECT refused(c, c, '23000', NULL, '', false) FROM unnest(ARRAY['TRUNCATE grown_b', 'DELETE FROM grown_b']) c;
ALTER TABLE grown DETACH PARTITION grown_b;
DELETE FROM grown_b;
SELECT refused('a partition that left', 'TRUNCATE grown_b', '55000', 'grown_b', 'h');
DROP TRIGGER zzz_cdc_guard_truncate ON grown_b;
TRUNCATE grown_b;

--
-- The bypass is for owners
--
CREATE ROLE regress_cdc_guard;
GRANT USAGE ON SCHEMA guard TO regress_cdc_guard;
GRANT ALL ON error_row_plain, skip_table_plain TO regress_cdc_guard;
SET cdc_precedence.bypass_guard = on;
SET ROLE regress_cdc_guard;
SELECT refused('not for others', 'DELETE FROM error_row_plain', '23000', NULL, '', false);
SELECT refused('nor their TRUNCATE', 'TRUNCATE skip_table_plain', '23000', NULL, '', false);
DELETE FROM skip_table_plain;
RESET ROLE;
SELECT expect('skipped', stands('skip_table_plain'), '10=n@6/30');
DELETE FROM error_row_plain WHERE id = 10;
TRUNCATE skip_table_plain;
SELECT expect('the owner', stands('error_row_plain') || ' ' || stands('skip_table_plain'), 'nothing nothing');
RESET cdc_precedence.bypass_guard;

--
-- Foreign keys
--
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE kid (id int PRIMARY KEY, pid int REFERENCES parent ON DELETE CASCADE);
CREATE TABLE kid_null (id int PRIMARY KEY, pid int REFERENCES parent ON DELETE SET NULL);
CREATE TABLE kid_update (id int PRIMARY KEY REFERENCES parent ON UPDATE CASCADE);
CREATE TABLE kid_plain (id int PRIMARY KEY, pid int REFERENCES parent);
CREATE TABLE kid_event (op text, id int, pid int, source_position cdc_position);
SELECT refused('skip under a cascade: ' || t, format('SELECT cdc_attach(%L, ''kid_event'', guard => ''skip'')', t), '55000', t, 'dh', t = 'kid') FROM unnest('{kid,kid_null,kid_update}'::text[]) t;
SELECT expect('nothing was attached', count(*)::text, '0') FROM cdc_targets WHERE target::text ~ '^kid';
SELECT cdc_attach('kid', 'kid_event', guard => 'error'), cdc_attach('kid_null', 'kid_event', guard => 'error'), cdc_attach('kid_plain', 'kid_event', guard => 'skip');
INSERT INTO parent VALUES (1);
INSERT INTO kid_event VALUES ('c', 10, 1, '1/1');
SELECT expect('applied', applied('kid', 'kid_event') || ' ' || applied('kid_null', 'kid_event', 'on_same_position => ''keep'''), 'inserted=1 inserted=1');
SELECT refused('a cascade into a guarded table', 'DELETE FROM parent', '23000', 'kid', '', false);
SELECT expect('all is there', rows_of('parent') || rows_of('SELECT id FROM kid') || rows_of('kid_null'), '(1)(10)(10,1,1/1)');

--
-- A position in two columns
--
CREATE TABLE two (id int PRIMARY KEY, v text, source_lsn pg_lsn, source_ordinal int);
CREATE TABLE two_event (op text, id int, v text, source_lsn pg_lsn, source_ordinal int);
SELECT cdc_attach('two', 'two_event', guard => 'error');
INSERT INTO two_event VALUES ('c', 1, 'a', '7/10', 5);
SELECT applied('two', 'two_event');
UPDATE two SET v = 'b';
UPDATE two SET source_ordinal = 6;
SELECT refused('a lower ordinal', 'UPDATE two SET source_ordinal = 4', '23000', '7/10:6', 'd', false);
SELECT refused('none', 'UPDATE two SET source_ordinal = NULL', '23000', NULL, 'd', false);
UPDATE two SET source_lsn = '7/11', source_ordinal = NULL;
SELECT expect('a higher LSN', rows_of('SELECT id, v, source_lsn::cdc_position, source_ordinal FROM two'), '(1,b,7/11,)');

--
-- Upserts by many hands in any order, under skip, are an apply
--
SELECT fresh(', guard => ''skip''');
INSERT INTO event_log
	SELECT CASE WHEN h % 4 = 0 THEN 'd' ELSE 'u' END, 1 + h % 10, 'v' || n, cdc_position(pg_lsn '8/0' + n::numeric)
	FROM (SELECT n, abs(hashint8(n)) AS h FROM generate_series(1, 120) n) e;
CREATE FUNCTION by_hand(seed bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	e event_log;
BEGIN
	FOR e IN SELECT * FROM event_log ORDER BY hashint8extended(id + 1000 * hashtext(source_position::text)::bigint, seed) LOOP
		INSERT INTO in_row (id, v, source_position, deleted) VALUES (e.id, e.v, e.source_position, e.op = 'd')
			ON CONFLICT (id) DO UPDATE SET v = excluded.v, source_position = excluded.source_position, deleted = excluded.deleted;
		-- a delete by hand has no place beside the row
		IF e.op = 'd' THEN
			TRUNCATE event;
			INSERT INTO event SELECT e.*;
			PERFORM applied('in_table', 'event');
		ELSE
			INSERT INTO in_table (id, v, source_position) VALUES (e.id, e.v, e.source_position)
				ON CONFLICT (id) DO UPDATE SET v = excluded.v, source_position = excluded.source_position;
		END IF;
	END LOOP;
END $$;
SELECT by_hand(1);
SELECT both_are_true('by hand');
SELECT by_hand(2);
SELECT both_are_true('by hand again');

DROP SCHEMA guard CASCADE;
DROP ROLE regress_cdc_guard;
