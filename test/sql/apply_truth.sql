-- The truth table: every kind of event against every stored state, in every
-- home of the tombstone, for both kinds of position, and with every place that
-- fence and floor can have, as data.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA apply_truth;
SET search_path = apply_truth, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
-- an all-stale call and a met pair warn; apply_tie looks at those
SET client_min_messages = error;

-- Kinds of event; args is what makes a snapshot row keep its position.
CREATE TABLE event_kind (event text PRIMARY KEY, op text, args text, has_position boolean);
INSERT INTO event_kind VALUES
	('upsert', 'u', NULL, true),
	('delete', 'd', NULL, true),
	('retraction', '-U', NULL, true),
	('snapshot', 'r', 'snapshot_position => ''event''', true),
	('bare snapshot', 'r', NULL, false);

-- Stored states.  at: low, mid, high or none (no position) is the stored
-- position; the event's is always mid.
CREATE TABLE stored_state (state text PRIMARY KEY, is_live boolean, at text);
INSERT INTO stored_state VALUES
	('absent', NULL, NULL),
	('tombstone below', false, 'low'),
	('tombstone at', false, 'mid'),
	('tombstone above', false, 'high'),
	('tombstone without', false, 'none'),
	('live below', true, 'low'),
	('live at', true, 'mid'),
	('live above', true, 'high'),
	('live without', true, 'none');

/*
 * The cells: what the event counts as, what the key is afterwards, and what
 * the same event counts as when it comes again.  'same' leaves the row alone;
 * 'live' and 'dead' are written at the event's position.
 */
CREATE TABLE cell (event text, state text, outcome text, after text, again text,
	PRIMARY KEY (event, state));
INSERT INTO cell VALUES
	('upsert', 'absent', 'inserted', 'live', 'duplicate'),
	('upsert', 'tombstone below', 'inserted', 'live', 'duplicate'),
	('upsert', 'tombstone at', 'inserted', 'live', 'duplicate'),
	('upsert', 'tombstone above', 'stale', 'same', 'stale'),
	('upsert', 'tombstone without', 'inserted', 'live', 'duplicate'),
	('upsert', 'live below', 'updated', 'live', 'duplicate'),
	('upsert', 'live at', 'duplicate', 'same', 'duplicate'),
	('upsert', 'live above', 'stale', 'same', 'stale'),
	('upsert', 'live without', 'updated', 'live', 'duplicate'),
	('delete', 'absent', 'deleted', 'dead', 'duplicate'),
	('delete', 'tombstone below', 'deleted', 'dead', 'duplicate'),
	('delete', 'tombstone at', 'duplicate', 'same', 'duplicate'),
	('delete', 'tombstone above', 'stale', 'same', 'stale'),
	('delete', 'tombstone without', 'deleted', 'dead', 'duplicate'),
	('delete', 'live below', 'deleted', 'dead', 'duplicate'),
	('delete', 'live at', 'duplicate', 'same', 'duplicate'),
	('delete', 'live above', 'stale', 'same', 'stale'),
	('delete', 'live without', 'deleted', 'dead', 'duplicate'),
	('retraction', 'absent', 'deleted', 'dead', 'duplicate'),
	('retraction', 'tombstone below', 'deleted', 'dead', 'duplicate'),
	('retraction', 'tombstone at', 'duplicate', 'same', 'duplicate'),
	('retraction', 'tombstone above', 'stale', 'same', 'stale'),
	('retraction', 'tombstone without', 'deleted', 'dead', 'duplicate'),
	('retraction', 'live below', 'deleted', 'dead', 'duplicate'),
	('retraction', 'live at', 'duplicate', 'same', 'duplicate'),
	('retraction', 'live above', 'stale', 'same', 'stale'),
	('retraction', 'live without', 'deleted', 'dead', 'duplicate'),
	('snapshot', 'absent', 'inserted', 'live', 'duplicate'),
	('snapshot', 'tombstone below', 'inserted', 'live', 'duplicate'),
	('snapshot', 'tombstone at', 'duplicate', 'same', 'duplicate'),
	('snapshot', 'tombstone above', 'stale', 'same', 'stale'),
	('snapshot', 'tombstone without', 'inserted', 'live', 'duplicate'),
	('snapshot', 'live below', 'updated', 'live', 'duplicate'),
	('snapshot', 'live at', 'duplicate', 'same', 'duplicate'),
	('snapshot', 'live above', 'stale', 'same', 'stale'),
	('snapshot', 'live without', 'updated', 'live', 'duplicate'),
	('bare snapshot', 'absent', 'inserted', 'live', 'duplicate'),
	('bare snapshot', 'tombstone below', 'stale', 'same', 'stale'),
	('bare snapshot', 'tombstone at', 'stale', 'same', 'stale'),
	('bare snapshot', 'tombstone above', 'stale', 'same', 'stale'),
	('bare snapshot', 'tombstone without', 'duplicate', 'same', 'duplicate'),
	('bare snapshot', 'live below', 'stale', 'same', 'stale'),
	('bare snapshot', 'live at', 'stale', 'same', 'stale'),
	('bare snapshot', 'live above', 'stale', 'same', 'stale'),
	('bare snapshot', 'live without', 'duplicate', 'same', 'duplicate');

SELECT expect('every kind of event meets every stored state',
	(SELECT string_agg(event || ' x ' || state, ', ') FROM (
		SELECT event, state FROM event_kind CROSS JOIN stored_state
		EXCEPT SELECT event, state FROM cell) missing), NULL);

-- Positions by name, of both kinds; differing in the LSN or number, in the
-- ordinal alone, and in the epoch alone.
CREATE TABLE scale (scale text PRIMARY KEY, low cdc_position, mid cdc_position, high cdc_position);
INSERT INTO scale VALUES
	('lsn', '9/FFFFFFF0', '10/10', '10/20'),
	('ordinal', '16/B374D848:9', '16/B374D848:10', '16/B374D848:11'),
	('epoch', '16/B374D848', '1@2/B0', '2@1/A0'),
	('number', '47:99', '47:100:2', '48:4'),
	('first number', '0', '0:0:1', '0:1');

/*
 * A home lays out a key and tells how it stands.  target is the name to apply
 * to, staging the events' (event_staging, or a view of it), clear what is
 * emptied before each cell, put a statement that stores ($1 value, $2
 * position, $3 live), look a query for one line of text: absent, or live or
 * dead with position, and the value of a live row.  lacks is a state that the
 * home cannot have; scales are those of its positions (NULL: all).
 */
CREATE TABLE home (home text PRIMARY KEY, target text, args text, put text, look text,
	staging text DEFAULT 'event_staging', clear text, lacks text, scales text[], attached boolean DEFAULT false);
CREATE TABLE event_staging (k int, v text, op text, source_position cdc_position);

CREATE TABLE in_row (k int PRIMARY KEY, v text, source_position cdc_position, deleted boolean NOT NULL DEFAULT false);
INSERT INTO home VALUES ('row, boolean', 'in_row', NULL,
	'INSERT INTO in_row VALUES (1, $1, $2, NOT $3)',
	'SELECT CASE WHEN deleted THEN ''dead '' ELSE ''live '' || v || '' '' END || coalesce(source_position::text, ''without'') FROM in_row WHERE k = 1');

-- NULL in the flag means live
CREATE TABLE in_row_null (k int PRIMARY KEY, v text, source_position cdc_position, deleted boolean);
INSERT INTO home VALUES ('row, boolean with NULL', 'in_row_null', NULL,
	'INSERT INTO in_row_null VALUES (1, $1, $2, CASE WHEN $3 THEN NULL ELSE true END)',
	'SELECT CASE WHEN deleted THEN ''dead '' ELSE ''live '' || v || '' '' END || coalesce(source_position::text, ''without'') FROM in_row_null WHERE k = 1');

CREATE TABLE in_row_time (k int PRIMARY KEY, v text, source_position cdc_position, deleted_at timestamptz);
INSERT INTO home VALUES ('row, time', 'in_row_time', 'tombstone_column => ''deleted_at''',
	'INSERT INTO in_row_time VALUES (1, $1, $2, CASE WHEN $3 THEN NULL ELSE timestamptz ''2001-01-01 UTC'' END)',
	'SELECT CASE WHEN deleted_at IS NOT NULL THEN ''dead '' ELSE ''live '' || v || '' '' END || coalesce(source_position::text, ''without'') FROM in_row_time WHERE k = 1');

-- attached, each to one log: a row that has the flag, and one whose tombstones
-- are kept beside it
CREATE TABLE attached_row (k int PRIMARY KEY, v text);
CREATE TABLE attached_row_n (k int PRIMARY KEY, v text);
CREATE TABLE in_table (k int PRIMARY KEY, v text);
CREATE TABLE in_table_n (k int PRIMARY KEY, v text);
SELECT cdc_attach(t, 'event_staging', tombstones => 'row') FROM unnest('{attached_row,attached_row_n}'::regclass[]) t;
SELECT cdc_attach(t, 'event_staging') FROM unnest('{in_table,in_table_n}'::regclass[]) t;
CREATE FUNCTION put(target text, v text, at cdc_position, live boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF live THEN
		EXECUTE format('INSERT INTO %s (k, v, source_position) VALUES (1, $1, $2)', target) USING v, at;
	ELSE
		EXECUTE format('INSERT INTO %s_tombstones (k, source_position, deleted_at) VALUES (1, $1, now())', target) USING at;
	END IF;
END $$;
INSERT INTO home (home, target, put, look, clear, lacks, scales, attached)
SELECT format('row, attached (%s)', kind), target,
	format('INSERT INTO %s (k, v, source_position, deleted) VALUES (1, $1, $2, NOT $3)', target),
	format('SELECT CASE WHEN deleted THEN ''dead '' ELSE ''live '' || v || '' '' END || coalesce(source_position::text, ''without'') FROM %s WHERE k = 1', target),
	NULL, NULL, scales, true
FROM (VALUES ('lsn', 'attached_row', '{lsn,ordinal,epoch}'::text[]), ('number', 'attached_row_n', '{number,first number}')) h(kind, target, scales)
UNION ALL
SELECT format('table (%s)', kind), target,
	format('SELECT put(%L, $1, $2, $3)', target),
	format('SELECT string_agg(w, '' and '' ORDER BY w) FROM (SELECT ''live '' || v || '' '' || coalesce(source_position::text, ''without'') FROM %1$s WHERE k = 1
		UNION ALL SELECT ''dead '' || source_position FROM %1$s_tombstones WHERE k = 1) s(w)', target),
	target || '_tombstones', 'tombstone without', scales, true
FROM (VALUES ('lsn', 'in_table', '{lsn,ordinal,epoch}'::text[]), ('number', 'in_table_n', '{number,first number}')) h(kind, target, scales);

-- the same with the position in two columns of the target
CREATE VIEW event_parts AS
	SELECT k, v, op, cdc_position_lsn(source_position) AS source_lsn, coalesce(cdc_position_part(source_position, 2), 0)::bigint AS source_ordinal FROM event_staging;
CREATE TABLE parts_row (k int PRIMARY KEY, v text, source_lsn pg_lsn, source_ordinal bigint, deleted boolean NOT NULL DEFAULT false);
CREATE TABLE parts_table (k int PRIMARY KEY, v text, source_lsn pg_lsn, source_ordinal bigint);
SELECT cdc_attach('parts_row', 'event_parts', tombstone_column => 'deleted');
SELECT cdc_attach('parts_table', 'event_parts');
CREATE FUNCTION put_parts(v text, at cdc_position, live boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF live THEN
		INSERT INTO parts_table VALUES (1, v, cdc_position_lsn(at), coalesce(cdc_position_part(at, 2), 0));
	ELSE
		INSERT INTO parts_table_tombstones (k, source_position, deleted_at) VALUES (1, at, now());
	END IF;
END $$;
INSERT INTO home (home, target, staging, put, look, clear, lacks, scales, attached) VALUES
	('row, two columns', 'parts_row', 'event_parts',
	'INSERT INTO parts_row VALUES (1, $1, cdc_position_lsn($2), coalesce(cdc_position_part($2, 2), 0), NOT $3)',
	'SELECT CASE WHEN deleted THEN ''dead '' ELSE ''live '' || v || '' '' END || coalesce(cdc_position(source_lsn, source_ordinal)::text, ''without'') FROM parts_row WHERE k = 1',
	NULL, NULL, '{lsn,ordinal}', true),
	('table, two columns', 'parts_table', 'event_parts', 'SELECT put_parts($1, $2, $3)',
	'SELECT string_agg(w, '' and '' ORDER BY w) FROM (SELECT ''live '' || v || '' '' || coalesce(cdc_position(source_lsn, source_ordinal)::text, ''without'') FROM parts_table WHERE k = 1
		UNION ALL SELECT ''dead '' || source_position FROM parts_table_tombstones WHERE k = 1) s(w)',
	'parts_table_tombstones', 'tombstone without', '{lsn,ordinal}', true);

-- Where fence and floor stand, seen from the event.
CREATE TABLE horizon (horizon text PRIMARY KEY, fence text, floor text);
INSERT INTO horizon VALUES
	('none', NULL, NULL),
	('fence below', 'low', NULL),
	('fence at', 'mid', NULL),
	('fence above', 'high', NULL),
	('floor below', NULL, 'low'),
	('floor at', NULL, 'mid'),
	('floor above', NULL, 'high'),
	('fence and floor below', 'low', 'low'),
	('fence above, floor below', 'high', 'low'),
	('floor above, fence below', 'low', 'high'),
	('fence and floor at', 'mid', 'mid');

/*
 * All cells of one home on one scale with one horizon: the number that are
 * right, and each that is not.  The floor decides first, for every key; then
 * the fence, for the dead; an event without position is below both.
 */
CREATE FUNCTION check_cells(the_home text, the_scale text, the_horizon text DEFAULT 'none') RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
	h home; s scale; z horizon; c record;
	at_stored cdc_position; at_event cdc_position;
	below_floor boolean; below_fence boolean;
	got text; want text; state_before text; state_after text; want_state text; call_args text; outcome text; after text; again text;
	n int := 0; wrong int := 0;
BEGIN
	SELECT * INTO h FROM home WHERE home = the_home;
	SELECT * INTO s FROM scale WHERE scale = the_scale;
	SELECT * INTO z FROM horizon WHERE horizon = the_horizon;
	IF h.attached THEN
		PERFORM cdc_set_fence(h.target::regclass, CASE z.fence WHEN 'low' THEN s.low WHEN 'mid' THEN s.mid WHEN 'high' THEN s.high END);
		PERFORM cdc_set_floor(h.target::regclass, CASE z.floor WHEN 'low' THEN s.low WHEN 'mid' THEN s.mid WHEN 'high' THEN s.high END);
	END IF;
	FOR c IN SELECT * FROM cell JOIN event_kind USING (event) JOIN stored_state USING (state)
			 WHERE state IS DISTINCT FROM h.lacks ORDER BY event, state LOOP
		-- quicker than TRUNCATE of that many tables
		EXECUTE concat_ws('; DELETE FROM ', 'DELETE FROM event_staging', h.target, h.clear);
		at_stored := CASE c.at WHEN 'low' THEN s.low WHEN 'mid' THEN s.mid WHEN 'high' THEN s.high END;
		at_event := CASE WHEN c.has_position THEN s.mid END;
		IF c.is_live IS NOT NULL THEN
			EXECUTE h.put USING 'old', at_stored, c.is_live;
		END IF;
		EXECUTE h.look INTO state_before;
		INSERT INTO event_staging VALUES (1, 'new', c.op, at_event);
		call_args := concat_ws(', ', 'on_same_position => ''keep''', h.args, c.args);

		below_floor := z.floor IS NOT NULL AND (z.floor <> 'low' OR NOT c.has_position);
		below_fence := z.fence IS NOT NULL AND (z.fence <> 'low' OR NOT c.has_position);
		outcome := CASE WHEN below_floor THEN 'stale' WHEN below_fence AND c.is_live IS NOT TRUE THEN 'fenced' ELSE c.outcome END;
		after := CASE WHEN outcome = c.outcome THEN c.after ELSE 'same' END;
		again := CASE WHEN below_floor THEN 'stale'
			WHEN below_fence AND (after = 'dead' OR after = 'same' AND c.is_live IS NOT TRUE) THEN 'fenced' ELSE c.again END;
		want_state := CASE after
			WHEN 'live' THEN 'live new ' || coalesce(at_event::text, 'without')
			WHEN 'dead' THEN 'dead ' || at_event
			ELSE state_before END;

		got := applied(h.target, h.staging, call_args);
		EXECUTE h.look INTO state_after;
		got := format('%s (%s)', got, coalesce(state_after, 'absent'));
		want := format('%s=1 (%s)', outcome, coalesce(want_state, 'absent'));

		-- the law: once more changes nothing
		got := got || ', ' || applied(h.target, h.staging, call_args);
		EXECUTE h.look INTO state_after;
		got := format('%s (%s)', got, coalesce(state_after, 'absent'));
		want := format('%s, %s=1 (%s)', want, again, coalesce(want_state, 'absent'));

		n := n + 1;
		IF got <> want THEN
			wrong := wrong + 1;
			RETURN NEXT expect(format('%s, %s, horizon %s: %s x %s', h.home, s.scale, z.horizon, c.event, c.state), got, want);
		END IF;
	END LOOP;
	RETURN NEXT expect(format('%s, %s, horizon %s: %s cells', h.home, s.scale, z.horizon, n), wrong || ' wrong', '0 wrong');
END $$;

SELECT check_cells(home, scale) FROM home CROSS JOIN scale WHERE scales IS NULL OR scale = ANY (scales) ORDER BY home COLLATE "C", scale COLLATE "C";
-- fence and floor
SELECT check_cells(home, scale, horizon) FROM home CROSS JOIN scale CROSS JOIN horizon
WHERE attached AND scale = ANY (scales) AND horizon <> 'none'
	AND CASE scale WHEN 'ordinal' THEN target !~ 'parts' OR horizon ~ 'at$' WHEN 'epoch' THEN horizon ~ '^fence (at|below)$' WHEN 'number' THEN horizon ~ '^(fence at|floor at)$' END
ORDER BY home COLLATE "C", scale COLLATE "C", horizon COLLATE "C";

-- A stored position of 0/0 is no position, whatever its ordinal and epoch.
CREATE FUNCTION check_zero(at_stored cdc_position) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
	c record; got text;
BEGIN
	FOR c IN SELECT * FROM cell JOIN event_kind USING (event) JOIN stored_state USING (state)
			 WHERE at = 'none' ORDER BY event, state LOOP
		TRUNCATE event_staging, in_row;
		INSERT INTO in_row VALUES (1, 'old', at_stored, NOT c.is_live);
		INSERT INTO event_staging VALUES (1, 'new', c.op, CASE WHEN c.has_position THEN cdc_position '16/B' END);
		got := applied('in_row', 'event_staging', concat_ws(', ', 'on_same_position => ''keep''', c.args));
		RETURN NEXT expect(format('%s x %s, stored %s', c.event, c.state, at_stored), got, c.outcome || '=1');
	END LOOP;
END $$;
SELECT check_zero(z::cdc_position) FROM unnest(ARRAY['0/0', '0/0:7', '3@0/0']) z;

-- snapshot_position: LSN-headed snapshot rows fill absent keys and lose to all
-- else; number-headed ones weigh; either can be chosen.
CREATE FUNCTION snapshot_row(stored cdc_position, live boolean, event cdc_position, args text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	got text;
BEGIN
	TRUNCATE event_staging, in_row;
	IF live IS NOT NULL THEN
		INSERT INTO in_row VALUES (1, 'old', stored, NOT live);
	END IF;
	INSERT INTO event_staging VALUES (1, 'new', 'r', event);
	got := applied('in_row', 'event_staging', concat_ws(', ', 'on_same_position => ''keep''', args));
	RETURN got || ' ' || (SELECT concat_ws(' ', v, coalesce(source_position::text, 'without'), CASE WHEN deleted THEN 'dead' END) FROM in_row);
END $$;
SELECT expect('lsn, default: fills an absent key, without position', snapshot_row(NULL, NULL, '5/5', NULL), 'inserted=1 new without');
SELECT expect('lsn, default: loses to a row it is above', snapshot_row('1/1', true, '5/5', NULL), 'stale=1 old 1/1');
SELECT expect('lsn, default: loses to a tombstone it is above', snapshot_row('1/1', false, '5/5', NULL), 'stale=1 old 1/1 dead');
SELECT expect('lsn, default: a row without position is met', snapshot_row(NULL, true, '5/5', NULL), 'duplicate=1 old without');
SELECT expect('lsn, event: beats a row below', snapshot_row('1/1', true, '5/5', 'snapshot_position => ''event'''), 'updated=1 new 5/5');
SELECT expect('number, default: beats a row below', snapshot_row('3', true, '4', NULL), 'updated=1 new 4');
SELECT expect('number, default: Kafka''s first offset is a position', snapshot_row(NULL, true, '0', NULL), 'updated=1 new 0');
SELECT expect('number, none: fills an absent key, without position', snapshot_row(NULL, NULL, '4', 'snapshot_position => ''none'''), 'inserted=1 new without');
SELECT expect('number, none: loses to a row it is above', snapshot_row('3', true, '4', 'snapshot_position => ''none'''), 'stale=1 old 3');
SELECT expect('event, but a position of 0/0 is none', snapshot_row('1/1', true, '0/0:8', 'snapshot_position => ''event'''), 'stale=1 old 1/1');

-- when 'none' left alone what the position would have beaten, one WARNING
RESET client_min_messages;
SELECT snapshot_row('1/1', true, '5/5', NULL);
TRUNCATE in_row, event_staging;
INSERT INTO in_row SELECT k, 'old', '1/1' FROM generate_series(1, 3) k;
INSERT INTO event_staging SELECT k, 'new', 'r', '5/5' FROM generate_series(1, 4) k;
SELECT expect('three rows left alone, one filled', applied('in_row', 'event_staging'), 'inserted=1 stale=3');
-- and none where it would not have beaten them
UPDATE in_row SET source_position = '6/6';
INSERT INTO event_staging VALUES (9, 'new', 'u', '7/7');
SELECT expect('nothing to warn of', applied('in_row', 'event_staging'), 'inserted=1 stale=4');

-- 'none' writes without position, so that the first change after a quiet
-- snapshot, at the snapshot's own position, is not lost
TRUNCATE in_row, event_staging;
INSERT INTO event_staging VALUES (1, 'seed', 'r', '5/5');
SELECT apply_is('snapshot, then a change at its own position', 'in_row', 'event_staging', '', 'inserted=1', 'in_row', '(1,seed,,f)');
INSERT INTO event_staging VALUES (1, 'first', 'u', '5/5');
SELECT apply_is('the change wins, the snapshot row is superseded', 'in_row', 'event_staging', '', 'updated=1 superseded=1', 'in_row', '(1,first,5/5,f)');

SET client_min_messages = warning;
DROP SCHEMA apply_truth CASCADE;
