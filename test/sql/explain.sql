-- cdc_explain: random histories of every kind of event, in both homes; what it
-- says of each event is counted as cdc_apply counts it, agrees with what is
-- stored before, and with what is stored after.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA explain;
SET search_path = explain, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

CREATE TABLE event (op text, id int, v text, w text, n text, __old_id int, __same text[], source_position cdc_position);

CREATE FUNCTION make_targets(epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS in_row, in_table;
	CREATE TABLE in_row (id int PRIMARY KEY, v text, w text DEFAULT 'none', n int) PARTITION BY RANGE (id);
	CREATE TABLE in_row_1 PARTITION OF in_row FOR VALUES FROM (1) TO (7);
	CREATE TABLE in_row_2 PARTITION OF in_row FOR VALUES FROM (7) TO (13);
	CREATE TABLE in_table (id int PRIMARY KEY, v text, w text DEFAULT 'none', n int);
	PERFORM cdc_attach('in_row', 'event', tombstones => 'row', unchanged_column => '__same', epoch => make_targets.epoch);
	PERFORM cdc_attach('in_table', 'event', unchanged_column => '__same', epoch => make_targets.epoch);
END $$;

/*
 * One batch of events of log places 1 .. 200 on keys 1 .. 12, drawn by a hash.
 * The place decides the event, so that a place drawn twice is a redelivery;
 * places above 180 share a position with the one before, which makes ties.
 * faults: some ops are unknown, or keys NULL, values no numbers, positions NULL.
 */
CREATE FUNCTION draw(seed bigint, batch int, n int, faults boolean) RETURNS void LANGUAGE sql AS $$
	TRUNCATE event;
	INSERT INTO event
	SELECT CASE WHEN faults AND seed % 4 = 0 AND place % 37 = 5 THEN 'what' WHEN kind = 0 THEN 'm' WHEN kind < 8 THEN 'd' WHEN kind < 10 THEN '-U' WHEN kind = 10 AND place % 3 = 0 THEN 't'
			WHEN kind < 14 THEN 'r' WHEN kind = 14 THEN '+U' ELSE 'u' END,
		CASE WHEN kind <> 10 OR place % 3 > 0 THEN nullif(key, CASE WHEN faults AND seed % 4 = 1 AND place % 41 = 7 THEN key ELSE 0 END) END,
		CASE WHEN kind >= 11 AND same & 1 = 0 THEN 'v' || place END, CASE WHEN kind >= 11 AND same & 2 = 0 THEN 'w' || place END,
		CASE WHEN faults AND seed % 4 = 2 AND place % 2 = 1 THEN 'x' ELSE '' END || place,
		CASE WHEN kind >= 36 THEN old_key END,
		CASE WHEN kind >= 14 THEN array_remove(ARRAY[CASE WHEN same & 1 > 0 THEN 'v' END, CASE WHEN same & 2 > 0 THEN 'w' END], NULL) END,
		CASE WHEN (kind <= 10 OR kind > 12) AND NOT (faults AND seed % 4 = 3 AND place % 43 = 9) THEN
			cdc_position(pg_lsn '1/0' + (least(place, 180 + place % 2) / 4)::numeric, least(place, 180 + place % 2) % 4) END
	FROM (SELECT place, abs(h) % 40 AS kind, 1 + abs(h) / 40 % 12 AS key, 1 + abs(h) / 480 % 12 AS old_key, abs(h) / 5760 % 6 AS same
		FROM (SELECT place, hashint4((place + 1000 * seed)::int) AS h
			FROM (SELECT (1 + abs(hashint8extended(i, seed * 100 + batch)) % 200)::int AS place FROM generate_series(1, n) i) d) e) x
	ORDER BY hashint4(place);
$$;

-- what is stored of a key: its position, and whether it lives
CREATE FUNCTION stored(t text) RETURNS TABLE (key int, pos cdc_position, live boolean) LANGUAGE plpgsql AS $$
BEGIN
	IF t = 'in_row' THEN
		RETURN QUERY SELECT id, source_position, NOT deleted FROM in_row;
	ELSE
		RETURN QUERY SELECT id, source_position, true FROM in_table UNION ALL SELECT id, source_position, false FROM in_table_tombstones;
	END IF;
END $$;

CREATE TABLE told (event_key jsonb, op text, event_position cdc_position, stored_position cdc_position, outcome text, reason text);
CREATE TABLE before (key int, pos cdc_position, live boolean);

CREATE FUNCTION outcomes() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(outcome || '=' || n, ' ' ORDER BY array_position('{inserted,updated,deleted,stale,duplicate,superseded,fenced,ignored,truncated,error}', outcome)), 'nothing')
	FROM (SELECT outcome, count(*) AS n FROM told GROUP BY 1) o
$$;

-- One batch, explained and then applied: what does not agree, if anything.
CREATE FUNCTION one(t text, args text, seen INOUT jsonb, problem OUT text) LANGUAGE plpgsql AS $$
DECLARE
	c text; said text; untouched text := tuples_of(t); new_epoch bigint := (SELECT epoch FROM cdc_targets WHERE target = t::regclass);
BEGIN
	TRUNCATE told, before;
	INSERT INTO before SELECT * FROM stored(t);
	EXECUTE format('INSERT INTO told SELECT * FROM cdc_explain(%L%s)', t, args);
	seen := (SELECT jsonb_object_agg(outcome, true) FROM told) || seen;
	IF untouched <> tuples_of(t) THEN
		problem := 'something was written';
		RETURN;
	END IF;
	-- each event is told once
	IF EXISTS ((SELECT op, cdc_position_with_epoch(source_position, new_epoch)::text FROM event EXCEPT ALL SELECT told.op, event_position::text FROM told)
			UNION ALL (SELECT told.op, event_position::text FROM told EXCEPT ALL SELECT op, cdc_position_with_epoch(source_position, new_epoch)::text FROM event))
		AND NOT EXISTS (SELECT FROM told WHERE reason LIKE 'the key that%') THEN
		problem := 'not the events of staging';
		RETURN;
	END IF;
	-- what was stored is what was judged against
	SELECT min(told::text) INTO problem FROM told LEFT JOIN before b ON b.key = (event_key->>'id')::int
	WHERE stored_position IS DISTINCT FROM b.pos AND outcome NOT IN ('error', 'ignored', 'truncated')
		AND event_key IS NOT NULL AND NOT EXISTS (SELECT FROM event WHERE op = 't');
	IF problem IS NOT NULL THEN
		problem := 'stored is not ' || problem;
		RETURN;
	END IF;
	BEGIN
		EXECUTE format('SELECT counts(r) FROM cdc_apply(%L%s, dry_run => true) r', t, args) INTO c;
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS said = MESSAGE_TEXT;
		-- what is refused is an error of some event, and in these words if it is about one
		IF NOT EXISTS (SELECT FROM told WHERE outcome = 'error' AND (sqlstate IN ('22023', '23502') OR strpos(reason, said) > 0)) THEN
			problem := 'not explained: ' || said;
		END IF;
		seen := seen || jsonb_build_object('refused ' || sqlstate, true);
		RETURN;
	END;
	IF c <> outcomes() THEN
		problem := 'dry run ' || c || ', explained ' || outcomes();
		RETURN;
	END IF;
	EXECUTE format('SELECT counts(r) FROM cdc_apply(%L%s) r', t, args) INTO said;
	IF c <> said THEN
		problem := 'dry run ' || c || ', applied ' || said;
		RETURN;
	END IF;
	-- and it came as it was told, but for a key that another event moved away from
	SELECT min(told::text) INTO problem FROM told LEFT JOIN stored(t) s ON s.key = (event_key->>'id')::int
	WHERE outcome IN ('inserted', 'updated', 'deleted')
		AND (s.live IS DISTINCT FROM (outcome <> 'deleted')
			OR s.pos IS DISTINCT FROM CASE WHEN op <> 'r' OR args LIKE '%event%' THEN event_position END);
	problem := 'not so: ' || problem;
END $$;

CREATE FUNCTION compare(seeds int, args text, faults boolean, want text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	t text; at cdc_position; seen jsonb := '{}'; problem text;
BEGIN
	FOR seed IN 1 .. seeds LOOP
		PERFORM make_targets(seed % 3);
		FOR batch IN 1 .. 8 LOOP
			PERFORM draw(seed, batch, 5 + 3 * batch, faults AND batch % 2 = 0);
			at := cdc_position_with_epoch(cdc_position(pg_lsn '1/0' + (abs(hashint8extended(batch, seed)) % 50)::numeric), seed % 3);
			FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
				SELECT o.seen, o.problem INTO seen, problem FROM one(t, args, seen) o;
				IF problem IS NOT NULL THEN
					RETURN format('NOT OK | %s, seed %s, batch %s: %s', t, seed, batch, problem);
				END IF;
				CASE abs(hashint8extended(batch, seed + 7)) % 8
					WHEN 0 THEN PERFORM cdc_purge_tombstones(t::regclass, at, force => true);
					WHEN 1 THEN PERFORM cdc_set_fence(target, greatest(fence, at)) FROM cdc_targets WHERE target = t::regclass;
					WHEN 2 THEN PERFORM cdc_set_floor(t::regclass, at);
					WHEN 3 THEN PERFORM cdc_set_floor(t::regclass, NULL);
					ELSE NULL;
				END CASE;
			END LOOP;
		END LOOP;
	END LOOP;
	RETURN expect(format('%s histories of 8 batches %s', seeds, args), (SELECT string_agg(k, ' ' ORDER BY k COLLATE "C") FROM jsonb_object_keys(seen) k), want);
END $$;
SELECT compare(4, ', on_unavailable => ''null'', on_tie => ''upsert'', on_same_position => ''keep''', false,
	'deleted duplicate fenced ignored inserted stale superseded truncated updated');
SELECT compare(3, ', on_unavailable => ''null'', on_tie => ''upsert'', on_same_position => ''rewrite'', snapshot_position => ''event''', false,
	'deleted duplicate fenced ignored inserted stale superseded truncated updated');
SELECT compare(4, ', on_unavailable => ''null'', on_same_position => ''error''', false,
	'deleted duplicate error fenced ignored inserted refused 21000 stale superseded truncated updated');
SELECT compare(8, ', on_unavailable => ''null''', true,
	'deleted duplicate error fenced ignored inserted refused 21000 refused 22023 refused 22P02 refused 23502 stale superseded truncated updated');
-- the same where memory is short
SET cdc_precedence.debug_fold_events = 3;
SELECT compare(4, ', on_unavailable => ''null'', on_tie => ''upsert''', false,
	'deleted duplicate fenced ignored inserted stale superseded truncated updated');
SELECT compare(4, ', on_tie => ''upsert''', true,
	'deleted duplicate error fenced ignored inserted refused 22023 refused 22P02 refused 23502 refused 55000 stale superseded truncated');
RESET cdc_precedence.debug_fold_events;

DROP SCHEMA explain CASCADE;
