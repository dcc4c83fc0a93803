-- cdc_apply_snapshot: rows as they are in the source, against what follows from
-- the rows before them, worked out in plain SQL, in both homes.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA cdc_snap;
SET search_path = cdc_snap, public;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/home_helpers.sql
\i :testdir/include/snapshot_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

--
-- A part of the rows: what differs is written, nothing is deleted
--
SELECT fresh();
SELECT stage($$ ('c', 1, 'a', '0/10'), ('c', 2, 'b', '0/20'), ('c', 3, 'c', '0/90'), ('d', 4, NULL, '0/30'), ('d', 5, NULL, '0/90'), ('c', 6, NULL, '0/10'), ('c', 7, 'g', '0/50'), ('d', 8, NULL, '0/50') $$);
SELECT both_say('before', $$SELECT applied('%s', 'event')$$, 'inserted=5 deleted=3');
INSERT INTO snap VALUES (1, 'a'), (2, 'B'), (3, 'old'), (4, 'again'), (5, 'old'), (6, 'x'), (7, 'G'), (8, 'H'), (9, 'new'), (10, NULL);
SELECT snap_both('a part', '0/50');
SELECT snap_both('again: nothing differs', '0/50');
SELECT snap_both('later: nothing differs', '0/60');
CREATE TABLE before AS SELECT tuples_of('in_row') AS r, tuples_of('in_table') AS t;
SELECT snap_both('and again', '0/60');
SELECT expect('no row was touched', tuples_of('in_row') || tuples_of('in_table'), r || t) FROM before;
SET cdc_precedence.track_runs = off;
BEGIN;
SELECT snapped('in_row', '0/60'), snapped('in_table', '0/60');
SELECT expect('no transaction id is taken', pg_current_xact_id_if_assigned()::text, NULL);
COMMIT;
RESET cdc_precedence.track_runs;
SELECT both_say('no floor', $$SELECT coalesce(s.floor::text, 'none') || ' ' || s.high_position FROM cdc_status s WHERE target = '%s'::regclass$$, 'none 0/90');
-- what comes at or below it for a row that was written is stale, above it goes on
SELECT stage($$ ('u', 2, 'late', '0/40'), ('u', 9, 'late', '0/50'), ('u', 10, 'next', '0/50:1'), ('d', 8, NULL, '0/60'), ('u', 1, 'late', '0/40') $$);
SELECT both_say('events after it', $$SELECT applied('%s', 'event')$$, 'updated=2 deleted=1 stale=1 duplicate=1');

--
-- A complete one: keys that it lacks are deleted, and the floor rises
--
SELECT fresh();
SELECT stage($$ ('c', 1, 'a', '0/10'), ('c', 2, 'b', '0/20'), ('c', 3, 'c', '0/90'), ('d', 4, NULL, '0/30'), ('c', 5, 'e', '0/50'), ('c', 6, 'f', '0/51') $$);
SELECT both_say('before', $$SELECT applied('%s', 'event')$$, 'inserted=5 deleted=1');
INSERT INTO in_row (id, v) VALUES (7, 'by hand');
INSERT INTO in_table (id, v) VALUES (7, 'by hand');
TRUNCATE snap;
INSERT INTO snap VALUES (1, 'a'), (9, 'new');
SELECT snap_both('complete', '0/50', complete => true);
SELECT both_say('the floor', $$SELECT floor::text FROM cdc_targets WHERE target = '%s'::regclass$$, '0/50');
SELECT both_say('it was logged', $$SELECT string_agg(concat_ws(' ', staging, operation, events, inserted, deleted, duplicate, low_position, high_position), '; ' ORDER BY run_id) FROM cdc_runs WHERE target = '%s'::regclass AND operation = 'snapshot'$$, 'cdc_snap.snap snapshot 5 1 3 1 0/50 0/50');
SELECT both_say('status does not take it for an apply', $$SELECT last_events::text FROM cdc_status WHERE target = '%s'::regclass$$, '6');
-- anything at or below it is stale, also for rows that were not touched
SELECT stage($$ ('u', 1, 'late', '0/40'), ('c', 2, 'late', '0/50'), ('c', 20, 'late', '0/5'), ('d', 9, NULL, '0/50'), ('r', 21, 'bare', NULL), ('c', 2, 'back', '0/50:1') $$);
SELECT both_say('late events', $$SELECT applied('%s', 'event')$$, 'inserted=1 stale=4 superseded=1');
TRUNCATE snap;
INSERT INTO snap VALUES (1, 'x'), (33, 'y');
SELECT snap_both('a snapshot at the floor changes nothing', '0/50', complete => true);
SELECT snap_both('nor one below it', '0/4F');
SELECT snap_both('one above it does', '0/95', complete => true);
SELECT both_say('and the floor rises', $$SELECT floor::text FROM cdc_targets WHERE target = '%s'::regclass$$, '0/95');
-- the warning
SET client_min_messages = warning;
SELECT counts(r) FROM cdc_apply_snapshot('in_row', 'snap', '0/60') r;
SET client_min_messages = error;
-- rows put back by hand over their tombstones are dead, but to be seen: those that it lacks go
CREATE TABLE ghost (id int PRIMARY KEY, v text);
SELECT cdc_attach('ghost');
INSERT INTO ghost (id, v, source_position) SELECT i, 'v', '0/10' FROM generate_series(1, 6) i;
CREATE VIEW ghost_copy AS SELECT * FROM (VALUES (5, 'v'), (6, 'v'), (1, 'v')) t (id, v);
SELECT counts(r) FROM cdc_apply_snapshot('ghost', 'ghost_copy', '0/50', true) r;
INSERT INTO ghost VALUES (2, 'by hand', NULL), (3, 'by hand', '0/50'), (4, 'by hand', '0/60');
SELECT refused('they count', $$SELECT cdc_apply_snapshot('ghost', 'ghost_copy', '0/55', true, min_delete_rows => 0, max_delete_fraction => 0.33)$$, '55000', '2 of 6', 'dh');
SELECT expect('as a dry run', r::text, d::text) FROM (SELECT cdc_apply_snapshot('ghost', 'ghost_copy', '0/55', true, dry_run => true)) x (d), cdc_apply_snapshot('ghost', 'ghost_copy', '0/55', true) r;
SELECT * FROM ghost ORDER BY id;
SELECT id, source_position FROM ghost_tombstones ORDER BY id;

--
-- Fences: a dead key at or below it stays dead
--
SELECT fresh();
SELECT stage($$ ('c', 1, 'a', '0/10'), ('d', 2, NULL, '0/20'), ('d', 3, NULL, '0/30') $$);
SELECT both_say('before', $$SELECT applied('%s', 'event')$$, 'inserted=1 deleted=2');
SELECT both_say('purged', $$SELECT cdc_purge_tombstones('%s', '0/20')::text$$, '1');
TRUNCATE snap;
INSERT INTO snap VALUES (1, 'A'), (2, 'b'), (3, 'c'), (4, 'd');
SELECT snap_both('at the fence', '0/20');
SELECT snap_both('above it', '0/21', complete => true);

--
-- A scope: the floor stays, each missing key has its own tombstone
--
SELECT fresh();
SELECT stage($$ ('c', 1, 'a', '0/10'), ('c', 2, 'b', '0/20'), ('c', 11, 'k', '0/20'), ('c', 12, 'l', '0/20'), ('c', 13, 'm', '0/99'), ('d', 14, NULL, '0/10'), ('c', 21, 'z', '0/10') $$);
SELECT both_say('before', $$SELECT applied('%s', 'event')$$, 'inserted=6 deleted=1');
TRUNCATE snap;
INSERT INTO snap VALUES (11, 'K'), (15, 'new'), (14, 'back');
SELECT snap_both('a scope', '0/50', complete => true, low => 10, high => 19);
SELECT both_say('no floor', $$SELECT coalesce(floor::text, 'none') FROM cdc_targets WHERE target = '%s'::regclass$$, 'none');
SELECT snap_both('again', '0/50', complete => true, low => 10, high => 19);
SELECT stage($$ ('u', 12, 'late', '0/40'), ('u', 1, 'late', '0/40'), ('c', 16, 'late', '0/40') $$);
SELECT both_say('what is out of scope goes on as before', $$SELECT applied('%s', 'event')$$, 'inserted=1 updated=1 stale=1');
-- a row that comes into the scope, and one that leaves it, taken at one position in either order
SELECT fresh();
SELECT stage($$ ('c', 1, 'north', '0/10'), ('c', 2, 'south', '0/10'), ('c', 3, 'south', '0/10') $$);
SELECT both_say('before', $$SELECT applied('%s', 'event')$$, 'inserted=3');
CREATE VIEW north AS SELECT * FROM (VALUES (2, 'north')) t (id, v);
CREATE VIEW south AS SELECT * FROM (VALUES (1, 'south'), (3, 'south')) t (id, v);
CREATE FUNCTION part(target text, side text) RETURNS text LANGUAGE sql AS $$
	SELECT counts(r) FROM cdc_apply_snapshot(target::regclass, side::regclass, '0/50', true, scope => format('v = %L', side)) r
$$;
SELECT expect('north, then south', part('in_row', 'north') || '; ' || part('in_row', 'south'), 'updated=1 deleted=1; inserted=1 duplicate=1');
SELECT expect('south, then north', part('in_table', 'south') || '; ' || part('in_table', 'north'), 'updated=1 deleted=1 duplicate=1; inserted=1');
SELECT both_say('either way', $$SELECT stands('%s')$$, '1=south@0/50 2=north@0/50 3=south@0/10');

--
-- The guard against half a snapshot
--
SELECT fresh();
INSERT INTO event SELECT 'c', i, 'v' || i, '0/10' FROM generate_series(1, 1000) i;
SELECT both_say('before', $$SELECT applied('%s', 'event')$$, 'inserted=1000');
CREATE FUNCTION snap_of(n int) RETURNS void LANGUAGE sql AS $$
	TRUNCATE snap; INSERT INTO snap SELECT i, 'v' || i FROM generate_series(n + 1, 1000) i
$$;
SELECT snap_of(101);
SELECT both_refuse('101 of 1000', $$SELECT snapped('%s', '0/50', 'complete => true')$$, '55000', '101 of 1000', 'dh');
SELECT both_refuse('in a dry run too', $$SELECT snapped('%s', '0/50', 'complete => true, dry_run => true')$$, '55000', '101 of 1000', 'dh');
SELECT both_say('a greater fraction', $$SELECT snapped('%s', '0/50', 'complete => true, max_delete_fraction => 0.101, dry_run => true')$$, 'deleted=101 duplicate=899');
SELECT both_say('from more rows on', $$SELECT snapped('%s', '0/50', 'complete => true, min_delete_rows => 102, dry_run => true')$$, 'deleted=101 duplicate=899');
SELECT snap_of(100);
SELECT both_say('100 of 1000', $$SELECT snapped('%s', '0/50', 'complete => true, dry_run => true')$$, 'deleted=100 duplicate=900');
SELECT both_refuse('100 of 1000, at most 9 in 100', $$SELECT snapped('%s', '0/50', 'complete => true, max_delete_fraction => 0.09')$$, '55000', '100 of 1000', 'dh');
SELECT both_refuse('none may go', $$SELECT snapped('%s', '0/50', 'complete => true, max_delete_fraction => 0, min_delete_rows => 0')$$, '55000', '100 of 1000', 'dh');
SELECT both_refuse('half a scope', $$SELECT snapped('%s', '0/50', 'complete => true, scope => ''id <= 150'', staging_filter => ''id <= 150''')$$, '55000', '100 of 150', 'dh');
SELECT snap_of(1000);
SELECT both_refuse('an empty one', $$SELECT snapped('%s', '0/50', 'complete => true, max_delete_fraction => 1')$$, '55000', 'empty', 'dh');
SELECT both_say('an empty part is nothing', $$SELECT snapped('%s', '0/50')$$, 'nothing');
SELECT snap_of(0);
SELECT both_refuse('empty after its filter', $$SELECT snapped('%s', '0/50', 'complete => true, max_delete_fraction => 1, staging_filter => ''id > 1000''')$$, '55000', 'empty', 'dh');
SELECT both_refuse('an empty scope', $$SELECT snapped('%s', '0/50', 'complete => true, max_delete_fraction => 1, staging_filter => ''id > 1000'', scope => ''id > 1000''')$$, '55000', 'in scope', 'dh');
SELECT both_say('rows above it stay, but are live', $$SELECT snapped('%s', '0/9', 'complete => true, staging_filter => ''id = 1''')$$, 'stale=1');
SELECT both_say('nothing was deleted', $$SELECT count(*)::text FROM %s$$, '1000');

--
-- Any state, any snapshot: many of each, from a hash
--
CREATE FUNCTION deal(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	what text; line text; as_of cdc_position; wrong text := ''; said text := '';
BEGIN
	FOR i IN 1 .. n LOOP
		IF i % 6 = 1 THEN
			PERFORM fresh();
			INSERT INTO event SELECT (ARRAY['c', 'c', 'u', 'd'])[1 + (hashint8extended(k, i) & 3)], k, nullif('v' || (hashint8extended(k, i + 1000) & 3), 'v3'),
				cdc_position_from_lsn('0/0'::pg_lsn + 1 + (hashint8extended(k, i + 2000) & 63)::numeric) FROM generate_series(1, 40) k;
			PERFORM applied('in_row', 'event'), applied('in_table', 'event');
			IF i % 4 = 1 THEN
				PERFORM cdc_set_fence('in_row', '0/20'), cdc_set_fence('in_table', '0/20');
			END IF;
		END IF;
		TRUNCATE snap;
		INSERT INTO snap SELECT k, nullif('v' || (hashint8extended(k, i + 3000) & 3), 'v3') FROM generate_series(1, 45) k WHERE hashint8extended(k, i + 4000) & 7 > i % 5
		ORDER BY hashint8extended(k, i + 5000);
		as_of := cdc_position_from_lsn('0/0'::pg_lsn + 1 + (hashint8extended(i, 6000) & 127)::numeric);
		-- nothing twice, and mostly what is there
		UPDATE snap s SET v = t.v FROM in_row t WHERE t.id = s.id AND hashint8extended(s.id, i + 7000) & 1 = 1;
		line := CASE i % 3 WHEN 0 THEN snap_both('deal ' || i, as_of::text, 'max_delete_fraction => 1', complete => true)
			WHEN 1 THEN snap_both('deal ' || i, as_of::text)
			ELSE (SELECT snap_both('deal ' || i, as_of::text, 'max_delete_fraction => 1, staging_filter => ''id BETWEEN 10 AND 30''', complete => true, low => 10, high => 30)
				FROM (SELECT cut()) c) END;
		IF line !~ '^ok' THEN
			wrong := wrong || line || E'\n';
		END IF;
	END LOOP;
	RETURN coalesce(nullif(wrong, ''), format('ok | %s snapshots', n));
END $$;
-- the model sees what the filter leaves
CREATE FUNCTION cut() RETURNS void LANGUAGE sql AS $$DELETE FROM snap WHERE id NOT BETWEEN 10 AND 30$$;
SELECT deal(90);
-- little memory: what is kept goes to disk
SET cdc_precedence.debug_fold_events = 5;
SET work_mem = '64kB';
SELECT deal(30);
RESET work_mem;
RESET cdc_precedence.debug_fold_events;

--
-- Columns: types that differ, derived ones, placeholders, rows twice
--
CREATE TABLE item (id bigint PRIMARY KEY, name varchar(10), price numeric(10, 2), made text GENERATED ALWAYS AS (name || '!') STORED, note text DEFAULT 'none', own int DEFAULT 7, source_position cdc_position);
CREATE TABLE item_events (op text, id bigint, name text, price numeric, note text, source_position cdc_position);
CREATE TABLE copy (price text, id text, name text, op text, "__old_id" int, extra int);
SELECT cdc_attach('item', 'item_events', on_schema_change => 'ignore', except_columns => '{note}');
INSERT INTO item_events VALUES ('c', 1, 'one', 1, 'n', '0/10'), ('c', 2, 'two', 2.5, 'n', '0/10'), ('c', 10, 'ten', 10, 'n', '0/10');
SELECT counts(r) FROM cdc_apply('item') r;
UPDATE item SET own = 8, note = 'mine' WHERE id = 2;
INSERT INTO copy VALUES ('1', '1', 'one', 'x', 5, 1), ('2.51', '2', 'two', 'x', 5, 1), ('10.00', '10', 'ten', 'x', 5, 1), ('11', '11', '__debezium_unavailable_value', NULL, NULL, NULL);
SELECT refused('a placeholder of a new row', $$SELECT cdc_apply_snapshot('item', 'copy', '0/50')$$, '55000', 'name', 'dh');
SELECT counts(r) FROM cdc_apply_snapshot('item', 'copy', '0/50', on_unavailable => 'null') r;
SELECT * FROM item ORDER BY id;
UPDATE copy SET name = '__debezium_unavailable_value', price = '3' WHERE id = '2';
INSERT INTO copy SELECT * FROM copy;
SELECT expect('rows twice', counts(r), 'updated=1 duplicate=3 superseded=4') FROM cdc_apply_snapshot('item', 'copy', '0/60', true) r;
SELECT * FROM item WHERE id = 2;
ALTER TABLE copy ADD same text[];
UPDATE copy SET name = NULL, price = id || '.00', same = CASE WHEN id = '10' THEN '{name}'::text[] END;
SELECT counts(r) FROM cdc_apply_snapshot('item', 'copy', '0/61', ignore_nulls => true, dry_run => true) r;
SELECT counts(r) FROM cdc_apply_snapshot('item', 'copy', '0/61', unchanged_column => 'same') r;
SELECT id, name, price FROM item ORDER BY id;
UPDATE copy SET name = 'much too long';
SELECT refused('a value that does not fit', $$SELECT cdc_apply_snapshot('item', 'copy', '0/70')$$, '22001', show => false);
-- positions in several columns, without an attachment
CREATE TABLE parts (id int PRIMARY KEY, v text, deleted timestamptz, source_lsn pg_lsn, source_ordinal bigint);
INSERT INTO parts VALUES (1, 'a', NULL, '0/10', 5), (2, 'b', NULL, '0/20', 0), (3, 'c', now(), '0/20', 1), (4, 'd', NULL, NULL, NULL);
TRUNCATE snap;
INSERT INTO snap VALUES (1, 'A'), (2, 'B'), (3, 'C'), (5, 'E');
SELECT counts(r) FROM cdc_apply_snapshot('parts', 'snap', '0/20:1', true, scope => 'id < 10') r;
SELECT id, v, deleted IS NOT NULL AS dead, cdc_position(source_lsn), source_ordinal FROM parts ORDER BY id;

--
-- Keys of several columns, another order of the index, partitions, a key by collation
--
CREATE TABLE sales (day date, region text COLLATE "C", v int, n int DEFAULT 1, PRIMARY KEY (region, day)) PARTITION BY LIST (region);
CREATE TABLE sales_n PARTITION OF sales FOR VALUES IN ('n');
CREATE TABLE sales_s (v int, gone int, region text COLLATE "C" NOT NULL, n int DEFAULT 1, day date NOT NULL);
ALTER TABLE sales_s DROP COLUMN gone;
ALTER TABLE sales ATTACH PARTITION sales_s FOR VALUES IN ('s', 't');
SELECT cdc_attach('sales');
CREATE TABLE sales_copy (region varchar, v int, day timestamp);
INSERT INTO sales_copy SELECT r, i, date '2024-01-01' + i FROM generate_series(1, 20) i, (VALUES ('n'), ('s'), ('t')) x (r);
SELECT counts(r) FROM cdc_apply_snapshot('sales', 'sales_copy', '5', true) r;
DELETE FROM sales_copy WHERE region = 's' AND v > 12 OR region = 't';
UPDATE sales_copy SET v = v + 100 WHERE v % 5 = 0;
SELECT counts(r) FROM cdc_apply_snapshot('sales', 'sales_copy', '6', true, max_delete_fraction => 1) r;
SELECT expect('the same rows', rows_of('SELECT region::text, v, day FROM sales'), rows_of('SELECT region::text, v, day::date FROM sales_copy'));
SELECT count(*), min(source_position), max(source_position) FROM sales_tombstones;
CREATE TABLE words (w text, v int, source_position cdc_position, deleted boolean);
CREATE UNIQUE INDEX ON words (w DESC);
INSERT INTO words VALUES (NULL, 0, '3', false), ('b', 1, '3', NULL), ('a', 2, '3', false), ('c', 3, '3', true);
CREATE TABLE words_copy AS SELECT * FROM (VALUES ('a', 2), ('d', 4), ('c', 3)) x (w, v);
SELECT counts(r) FROM cdc_apply_snapshot('words', 'words_copy', '4', true, scope => 'w > ''''', key_columns => '{w}') r;
SELECT * FROM words ORDER BY w;
-- equal keys that are written in another way: as the snapshot has them, and two ways are two rows
CREATE TABLE amount (n numeric PRIMARY KEY, v text);
CREATE TABLE amount_copy (n numeric, v text);
SELECT cdc_attach('amount');
INSERT INTO amount (n, v, source_position) VALUES (1.0, 'a', '3'), (2.0, 'b', '3'), (3.0, 'c', '9');
INSERT INTO amount_copy VALUES (1.00, 'a'), (2.0, 'b'), (3.00, 'c'), (4, 'd');
SELECT counts(r) FROM cdc_apply_snapshot('amount', 'amount_copy', '4') r;
SELECT counts(r) FROM cdc_apply_snapshot('amount', 'amount_copy', '4', true) r;
SELECT * FROM amount ORDER BY n;
INSERT INTO amount_copy VALUES (2.00, 'b');
SELECT refused('stored one way', format($$SELECT cdc_apply_snapshot('amount', 'amount_copy', '5', %L)$$, c), '21000', '2.0', 'dh', show => false) FROM unnest('{f,t}'::bool[]) c;
UPDATE amount_copy SET n = 5.0 WHERE n = 4;
INSERT INTO amount_copy VALUES (5.00, 'd');
SELECT refused('new', $$SELECT cdc_apply_snapshot('amount', 'amount_copy', '5', staging_filter => 'n > 3')$$, '21000', '5.0', 'dh', show => false);
SELECT refused('not a new one', $$SELECT cdc_apply_snapshot('amount', 'amount_copy', '5', true, max_delete_fraction => 1, staging_filter => 'n > 3')$$, '21000', '5.0', 'dh', show => false);

--
-- Triggers and constraints see ordinary statements, deletes first
--
CREATE TABLE seat (id int PRIMARY KEY, place text UNIQUE, made_by text);
CREATE TABLE heard (n serial, what text);
CREATE FUNCTION hear() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF tg_level = 'STATEMENT' THEN
		INSERT INTO heard (what) VALUES (concat_ws(' ', tg_when, tg_op, tg_level));
		RETURN NULL;
	END IF;
	INSERT INTO heard (what) VALUES (concat_ws(' ', tg_when, tg_op, coalesce(new.id, old.id)));
	IF new.place = 'no' THEN RETURN NULL; END IF;
	RETURN coalesce(new, old);
END $$;
SELECT cdc_attach('seat', guard => 'error');
INSERT INTO seat (id, place, source_position) VALUES (1, 'a', '1'), (2, 'b', '1'), (3, 'c', '1');
CREATE TRIGGER b BEFORE INSERT OR UPDATE OR DELETE ON seat FOR EACH ROW EXECUTE FUNCTION hear();
CREATE TRIGGER s AFTER INSERT OR UPDATE OR DELETE ON seat FOR EACH STATEMENT EXECUTE FUNCTION hear();
CREATE TABLE seat_copy AS SELECT * FROM (VALUES (2, 'b'), (3, 'a'), (4, 'c'), (5, 'no')) x (id, place);
SELECT counts(r) FROM cdc_apply_snapshot('seat', 'seat_copy', '9', true) r;
SELECT what FROM heard ORDER BY n;
SELECT id, place, made_by, source_position FROM seat ORDER BY id;

--
-- A view as the snapshot; the target in its own snapshot; values out of line
--
CREATE TABLE big (id int PRIMARY KEY, doc text, source_position cdc_position, deleted boolean);
INSERT INTO big SELECT i, string_agg(md5(i || '.' || j), ''), '1' FROM generate_series(1, 20) i, generate_series(1, 300) j GROUP BY i;
CREATE VIEW big_copy AS SELECT id, doc || CASE WHEN id = 3 THEN '!' ELSE '' END AS doc FROM big WHERE id <> 5;
SELECT counts(r) FROM cdc_apply_snapshot('big', 'big_copy', '2', true, scope => 'true') r;
SELECT id, right(doc, 2), deleted, source_position FROM big WHERE id IN (3, 4, 5) ORDER BY id;

--
-- Columns that are older than their row: older than the snapshot they take its values
--
CREATE TABLE doc (id int PRIMARY KEY, title text, body text);
CREATE TABLE doc_events (op text, id int, title text, body text, source_position cdc_position);
CREATE TABLE doc_copy (id int, title text, body text);
SELECT cdc_attach('doc', 'doc_events', consume => 'delete', column_positions => 'cdc_columns', on_unavailable => 'null');
INSERT INTO doc_events VALUES ('c', 1, 'first', 'body 0', '4/10'), ('c', 2, 'first', 'body 0', '4/10');
SELECT counts(r) FROM cdc_apply('doc') r;
INSERT INTO doc_events VALUES ('u', 1, 'third', '__debezium_unavailable_value', '4/40'), ('u', 2, 'second', '__debezium_unavailable_value', '4/20');
SELECT counts(r) FROM cdc_apply('doc') r;
INSERT INTO doc_copy VALUES (1, 'second', 'body 1'), (2, 'second', 'body 0');
SELECT counts(r) FROM cdc_apply_snapshot('doc', 'doc_copy', '4/30', true) r;
SELECT * FROM doc ORDER BY id;
INSERT INTO doc_events VALUES ('u', 1, 'late', 'body late', '4/25'), ('u', 2, 'late', 'body late', '4/15'), ('u', 1, 'late', 'body 2', '4/35');
SELECT counts(r) FROM cdc_apply('doc') r;
SELECT * FROM doc ORDER BY id;
-- a newer row that the snapshot lacks was dead then: what it has from before goes, as in order
CREATE FUNCTION doc_ends(steps text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	step text; said text := ''; r cdc_apply_result;
BEGIN
	DELETE FROM doc;
	DELETE FROM doc_tombstones;
	PERFORM cdc_set_floor('doc', NULL);
	FOREACH step IN ARRAY steps LOOP
		IF step = 'snapshot' THEN
			r := cdc_apply_snapshot('doc', 'doc_copy', '4/30', true, max_delete_fraction => 1);
		ELSE
			INSERT INTO doc_events SELECT op, id, title, body, p FROM (VALUES ('create', 'c', 1, 'a', 'old', '4/10'::cdc_position), ('create', 'c', 2, 'b', 'b', '4/10'),
				('again', 'c', 1, 'c', NULL, '4/35'), ('newest', 'u', 1, 'd', NULL, '4/40')) e (name, op, id, title, body, p) WHERE name = step;
			r := cdc_apply('doc', ignore_nulls => true);
		END IF;
		said := said || step || ': ' || counts(r) || '; ';
	END LOOP;
	RETURN said || (SELECT string_agg(d::text, ' ' ORDER BY id) FROM doc d);
END $$;
TRUNCATE doc_copy;
INSERT INTO doc_copy VALUES (2, 'b', 'b');
SELECT doc_ends('{create,snapshot,again,newest}');
SELECT doc_ends('{create,newest,snapshot,again}');
SELECT doc_ends('{create,newest,again,snapshot}');
SELECT doc_ends('{create,newest}');
SELECT expect('in a scope, too', counts(r), 'updated=1 duplicate=1') FROM cdc_apply_snapshot('doc', 'doc_copy', '4/31', true, scope => 'id < 9') r;
SELECT expect('once only', counts(r), 'duplicate=1') FROM cdc_apply_snapshot('doc', 'doc_copy', '4/31', true, scope => 'id < 9') r;

--
-- REPEATABLE READ, read-only, rights
--
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE big SET doc = 'mine' WHERE id = 4;
SELECT counts(r) FROM cdc_apply_snapshot('big', 'big_copy', '3', true, scope => 'id < 10', staging_filter => 'id < 10') r;
ROLLBACK;
BEGIN READ ONLY;
SELECT counts(r) FROM cdc_apply_snapshot('big', 'big_copy', '3', true, scope => 'id < 10', staging_filter => 'id < 10', dry_run => true) r;
SELECT refused('read only', $$SELECT cdc_apply_snapshot('big', 'big_copy', '3')$$, '25006', show => false);
COMMIT;
CREATE ROLE cdc_snap_role;
GRANT USAGE ON SCHEMA cdc_snap TO cdc_snap_role;
GRANT SELECT ON snap TO cdc_snap_role;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA cdc_snap TO cdc_snap_role;
GRANT SELECT, INSERT, UPDATE ON in_row, in_table TO cdc_snap_role;
SET ROLE cdc_snap_role;
SELECT refused('the side table needs DELETE', $$SELECT cdc_apply_snapshot('in_table', 'snap', '0/FFFF')$$, '42501', show => false);
SELECT counts(r) <> '' FROM cdc_apply_snapshot('in_row', 'snap', '0/FFFF', true, max_delete_fraction => 1) r;
RESET ROLE;
SELECT floor FROM cdc_targets WHERE target = 'in_row'::regclass;
REVOKE SELECT ON snap FROM cdc_snap_role;
SET ROLE cdc_snap_role;
SELECT refused('the snapshot', $$SELECT cdc_apply_snapshot('in_row', 'snap', '0/FFFFF')$$, '42501', show => false);
RESET ROLE;

DROP OWNED BY cdc_snap_role;
DROP ROLE cdc_snap_role;
SET client_min_messages = warning;
DROP SCHEMA cdc_snap CASCADE;
