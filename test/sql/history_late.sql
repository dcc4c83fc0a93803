-- Histories that events reach late: splits, deletes, re-inserts, times, values
-- that come from older events, tracked columns, one step at a time.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA history_late;
SET search_path = history_late, public;
SET client_min_messages = warning;
\i :testdir/include/history_helpers.sql
SET timezone = 'UTC';
SET datestyle = 'ISO';

-- One event applied: what became of it, the versions of its keys that it leaves,
-- and whether all versions are those of all events so far.
CREATE TABLE came (LIKE event);
CREATE FUNCTION arrives(history text, op text, id int, name text, note text, pos text, missing text[] DEFAULT NULL, was int DEFAULT NULL, args text DEFAULT '') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	track text[] := (SELECT track_columns FROM cdc_histories h WHERE h.history = arrives.history::regclass);
BEGIN
	TRUNCATE event;
	INSERT INTO event VALUES (op, id, name, note, was, pos::cdc_position, timestamptz '2026-01-01' + cdc_position_part(pos::cdc_position, 1)::int * interval '1 minute', missing);
	INSERT INTO came TABLE event;
	RETURN NEXT applied(history, 'event', 'unchanged_column => ''missing'', old_key_columns => ''{was}'', on_unavailable => ''null''' || args);
	RETURN QUERY EXECUTE format('SELECT ''  '' || concat_ws('' '', id, coalesce(name, ''-''), coalesce(note, ''-''), valid_from || ''..'' || coalesce(valid_to::text, ''''), valid_from_at::time(0) || ''..'' || coalesce(valid_to_at::time(0)::text, '''')) FROM %s WHERE $1 IS NULL OR id IN ($1, $2) ORDER BY id, valid_from', history) USING id, was;
	IF differs(history, 'came', track, true) IS NOT NULL THEN
		RETURN NEXT 'WRONG: ' || differs(history, 'came', track, true);
	END IF;
END $$;
\set ECHO all
\pset format unaligned
\pset tuples_only on

CREATE TABLE thing (id int PRIMARY KEY, name text, note text);
SELECT cdc_create_history('thing', 'h', time_column => 'made_at');

-- a late event splits the version that it falls into
SELECT arrives('h', 'c', 1, 'a', NULL, '0/10');
SELECT arrives('h', 'u', 1, 'd', NULL, '0/40');
SELECT arrives('h', 'u', 1, 'c', NULL, '0/30');
SELECT arrives('h', 'u', 1, 'b', NULL, '0/20');
-- before the first, after the last
SELECT arrives('h', 'c', 1, '0', NULL, '0/5');
SELECT arrives('h', 'u', 1, 'e', NULL, '0/50');
-- a delete at the end; one in the middle, which leaves a gap; one more, which changes nothing in sight
SELECT arrives('h', 'd', 1, NULL, NULL, '0/60');
SELECT arrives('h', 'd', 1, NULL, NULL, '0/35');
SELECT arrives('h', 'd', 1, NULL, NULL, '0/38');
-- .. until something is put between the two
SELECT arrives('h', 'u', 1, 'c2', NULL, '0/37');
-- inserted again, after a gap
SELECT arrives('h', 'c', 1, 'f', NULL, '0/70');
-- between the delete and that
SELECT arrives('h', 'c', 1, 'e2', NULL, '0/65');
SELECT arrives('h', 'd', 1, NULL, NULL, '0/66');
-- a key whose first word is a delete: what comes late is a closed version
SELECT arrives('h', 'd', 2, NULL, NULL, '0/40');
SELECT arrives('h', 'c', 2, 'x', NULL, '0/20');
SELECT arrives('h', 'd', 2, NULL, NULL, '0/30');
-- the same again
SELECT arrives('h', 'c', 2, 'x', NULL, '0/20');
SELECT arrives('h', 'd', 2, NULL, NULL, '0/30');
-- a delete and an upsert at one position: the upsert stands, whichever came first, and it is said
SELECT arrives('h', 'c', 2, 'y', NULL, '0/50');
SELECT arrives('h', 'd', 2, NULL, NULL, '0/50');
SELECT arrives('h', 'u', 2, 'y', NULL, '0/40');
-- pairs of before and after image: nothing is said
SELECT arrives('h', '-U', 2, NULL, NULL, '0/60');
SELECT arrives('h', '+U', 2, 'z', NULL, '0/60');
SELECT arrives('h', '-U', 2, NULL, NULL, '0/60');

-- another image at a stored position
SELECT arrives('h', 'u', 2, 'other', NULL, '0/60', args => ', on_same_position => ''warn''');
DELETE FROM came WHERE name = 'other';
SELECT arrives('h', 'u', 2, 'z', NULL, '0/60', args => ', on_same_position => ''error''');
UPDATE came SET name = 'mended' WHERE name = 'z';
SELECT arrives('h', 'u', 2, 'mended', NULL, '0/60', args => ', on_same_position => ''rewrite''');
SELECT arrives('h', 'u', 2, 'mended', NULL, '0/60', args => ', on_same_position => ''rewrite''');

-- truncates close what is live at their position, and what comes late below them
SELECT arrives('h', 't', NULL, NULL, NULL, '0/45');
SELECT arrives('h', 'u', 2, 'y0', NULL, '0/44');
SELECT arrives('h', 'c', 3, 'late', NULL, '0/30');
SELECT arrives('h', 't', NULL, NULL, NULL, '0/45');
SELECT arrives('h', 'u', 3, 'at it', NULL, '0/45');

-- a key change closes the old key's version
TRUNCATE h, h_events, came;
SELECT arrives('h', 'c', 1, 'a', NULL, '0/10');
SELECT arrives('h', 'u', 2, 'b', NULL, '0/20', was => 1);
SELECT arrives('h', 'u', 3, 'c', NULL, '0/15', was => 1);
SELECT arrives('h', 'u', 1, 'a1', NULL, '0/12');
SELECT arrives('h', 'u', 1, 'a2', NULL, '0/18');

-- values that an event does not carry: from the version below, mended when an older event comes late
TRUNCATE h, h_events, came;
SELECT arrives('h', 'u', 1, 'a', 'gone', '0/40', '{note}');
SELECT arrives('h', 'u', 1, 'b', 'gone', '0/50', '{note}');
SELECT arrives('h', 'c', 1, 'c', 'n1', '0/10');
SELECT arrives('h', 'u', 1, 'gone', 'n2', '0/20', '{name}');
SELECT arrives('h', 'u', 1, NULL, NULL, '0/30');
SELECT arrives('h', 'u', 1, 'd', 'n3', '0/45');
-- never across a delete
SELECT arrives('h', 'd', 1, NULL, NULL, '0/35');
SELECT arrives('h', 'c', 1, 'e', 'n4', '0/36');
SELECT * FROM h_events ORDER BY __position;

-- tracked columns: a note alone makes no version
SELECT cdc_create_history('thing', 't', track_columns => '{name}', time_column => 'made_at');
TRUNCATE came;
SELECT arrives('t', 'c', 1, 'a', 'n1', '0/10');
SELECT arrives('t', 'u', 1, 'a', 'n3', '0/30');
SELECT arrives('t', 'u', 1, 'a', 'n2', '0/20');
SELECT * FROM t_events ORDER BY __position;
-- what lies between two events of one version parts them: each has its own values again
SELECT arrives('t', 'u', 1, 'b', 'm', '0/15');
-- what comes before a version with its tracked values takes it over
SELECT arrives('t', 'u', 1, 'a', 'm2', '0/18');
SELECT arrives('t', 'u', 1, 'b', 'm1', '0/17');
-- and what parts it again gives each its own
SELECT arrives('t', 'u', 1, 'b', 'm3', '0/25');
SELECT arrives('t', 'u', 1, 'a', 'm4', '0/16');
SELECT arrives('t', 'd', 1, NULL, NULL, '0/19');
SELECT arrives('t', 'd', 1, NULL, NULL, '0/12');
SELECT arrives('t', 'u', 1, 'gone', 'n4', '0/40', '{name}');
SELECT arrives('t', 'u', 1, 'z', 'gone', '0/28', '{note}');

-- snapshot rows: below everything of the log, or at their position
TRUNCATE h, h_events, came;
TRUNCATE event;
INSERT INTO event (op, id, name, source_position) VALUES ('u', 1, 'log', '0/40'), ('d', 2, NULL, '0/40');
SELECT applied('h', 'event', 'unchanged_column => ''missing'', old_key_columns => ''{was}''');
TRUNCATE event;
INSERT INTO event (op, id, name, source_position) VALUES ('r', 1, 'snap', '0/100'), ('r', 2, 'snap', '0/100'), ('r', 3, 'snap', NULL);
SELECT applied('h', 'event', 'unchanged_column => ''missing'', old_key_columns => ''{was}''');
SELECT id, name, valid_from, valid_to FROM h ORDER BY id, valid_from;
SELECT applied('h', 'event', 'unchanged_column => ''missing'', old_key_columns => ''{was}''');
DELETE FROM event WHERE source_position IS NULL;
SELECT applied('h', 'event', 'unchanged_column => ''missing'', old_key_columns => ''{was}'', snapshot_position => ''event''');
SELECT id, name, valid_from, valid_to FROM h ORDER BY id, valid_from;
-- all of them are there at any position
SELECT count(*) FROM cdc_history_at(NULL::h, '0/1'::cdc_position);
-- times that come later: the owner's call adds the columns; what is there has none until it is rewritten
SELECT cdc_create_history('thing', 'untimed');
TRUNCATE event;
INSERT INTO event (op, id, name, source_position, made_at) VALUES ('u', 1, 'a', '0/10', '2026-01-01'), ('u', 1, 'b', '0/20', '2026-01-02');
SELECT applied('untimed', 'event', 'except_columns => ''{was,missing,made_at}''');
INSERT INTO event (op, id, name, source_position, made_at) VALUES ('u', 1, 'c', '0/30', '2026-01-03');
SELECT applied('untimed', 'event', 'except_columns => ''{was,missing}'', time_column => ''made_at''');
SELECT id, name, valid_from, valid_to, valid_from_at, valid_to_at FROM untimed ORDER BY valid_from;
SELECT time_column FROM cdc_histories WHERE history = 'untimed'::regclass;
\set ECHO none
DROP SCHEMA history_late CASCADE;
