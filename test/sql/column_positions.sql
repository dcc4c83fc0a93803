-- column_positions: columns that are older than their row are filled by late
-- events, so that values that events do not carry converge in any order.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA column_positions;
SET search_path = column_positions, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;
SET cdc_precedence.track_runs = off;

/*
 * Two targets of one shape, one in each home of the tombstone, and their
 * staging; "log" holds all events of a case.
 */
CREATE FUNCTION hole() RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT '__debezium_unavailable_value' $$;
CREATE TABLE event (op text, id int, title text, body text, note text, source_position cdc_position);
CREATE TABLE log (n int, LIKE event);

-- Both targets anew, with these rows in them: "VALUES (..)" of id, title, body, note, source_position.
CREATE FUNCTION fresh(rows text DEFAULT NULL, args text DEFAULT '', partitioned boolean DEFAULT false) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	t text;
BEGIN
	DROP TABLE IF EXISTS in_row, in_table CASCADE;
	FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
		EXECUTE format('CREATE TABLE %I (id int PRIMARY KEY, title text, body text DEFAULT ''no body'', note text) %s', t,
			CASE WHEN partitioned THEN 'PARTITION BY LIST (id)' ELSE '' END);
		IF partitioned THEN
			EXECUTE format('CREATE TABLE %1$s_1 (note text, gone int, body text DEFAULT ''no body'', title text, id int NOT NULL);
				ALTER TABLE %1$s_1 DROP COLUMN gone;
				ALTER TABLE %1$s ATTACH PARTITION %1$s_1 FOR VALUES IN (1, 3, 5, 12); CREATE TABLE %1$s_2 PARTITION OF %1$s DEFAULT', t);
		END IF;
		EXECUTE format('SELECT cdc_attach(%L, ''event'', tombstones => %L, column_positions => ''cdc_columns''%s%s)',
			t, CASE t WHEN 'in_row' THEN 'row' ELSE 'table' END, CASE WHEN args !~ 'on_unavailable' THEN ', on_unavailable => ''null''' ELSE '' END, args);
		IF rows IS NOT NULL THEN
			EXECUTE format('INSERT INTO %I (id, title, body, note, source_position) %s', t, rows);
		END IF;
	END LOOP;
	TRUNCATE event, log;
END $$;

-- Live rows: "1=title,body,note@position", and with marks those too.
CREATE FUNCTION stands(t text, with_marks boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format($q$SELECT coalesce(string_agg(format('%%s=%%s,%%s,%%s@%%s%%s', id, coalesce(title, 'NULL'), coalesce(body, 'NULL'), coalesce(note, 'NULL'),
			coalesce(source_position::text, 'none'), CASE WHEN %L THEN ' ' || (cdc_columns - '')::text END), ' ' ORDER BY id), 'nothing')
		FROM %s t WHERE NOT coalesce((to_jsonb(t)->>'deleted')::boolean, false)$q$, with_marks, t) INTO result;
	RETURN result;
END $$;

-- A marked row says at which position it was marked: its own.
CREATE FUNCTION marks_are_sound(t text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	result boolean;
BEGIN
	EXECUTE format($q$SELECT coalesce(bool_and(cdc_columns <> '{}' AND (cdc_columns ->> '')::cdc_position IS NOT DISTINCT FROM source_position
			AND NOT coalesce((to_jsonb(t)->>'deleted')::boolean, false)
			AND (SELECT count(*) > 1 AND bool_and(key IN ('', 'title', 'body', 'note')) FROM jsonb_each(cdc_columns))), true)
		FROM %s t WHERE cdc_columns IS NOT NULL$q$, t) INTO result;
	RETURN result;
END $$;

/*
 * The source's truth out of the log alone: of each key the last word; each
 * column's value is that of the last event that carries it, unless a delete or
 * truncate came after it.  "first" are the rows before the log.  A value that
 * nobody has is "unknown"; with nulls, a NULL is no value.
 */
CREATE FUNCTION truth(first text, unknown text DEFAULT 'NULL', nulls boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	CREATE TEMP TABLE said AS SELECT op, id, title, body, note, source_position AS pos FROM log;
	IF first IS NOT NULL THEN
		EXECUTE 'INSERT INTO said SELECT ''u'', * FROM (' || first || ') f';
	END IF;
	WITH kills AS (
		SELECT k.id, max(s.pos) AS pos FROM (SELECT DISTINCT id FROM said WHERE id IS NOT NULL) k
		JOIN said s ON s.op = 't' OR s.op IN ('d', '-U') AND s.id = k.id
			AND NOT EXISTS (SELECT FROM said u WHERE s.op = '-U' AND u.op = '+U' AND u.id = s.id AND u.pos = s.pos)
		GROUP BY k.id
	), winner AS (
		SELECT id, max(pos) AS pos FROM said WHERE op NOT IN ('t', 'd', '-U') GROUP BY id
	), live AS (
		SELECT w.id, w.pos, k.pos AS killed FROM winner w LEFT JOIN kills k USING (id)
		WHERE k.pos IS NULL OR w.pos > k.pos
	), columns AS (
		SELECT l.id, l.pos, c.name,
			(SELECT e.value FROM said s CROSS JOIN LATERAL (VALUES ('title', s.title), ('body', s.body), ('note', s.note)) e (name, value)
			 WHERE s.id = l.id AND s.op NOT IN ('t', 'd', '-U') AND (l.killed IS NULL OR s.pos > l.killed)
				AND e.name = c.name AND e.value IS DISTINCT FROM hole() AND (NOT nulls OR e.value IS NOT NULL)
			 ORDER BY s.pos DESC NULLS LAST LIMIT 1) AS value,
			EXISTS (SELECT FROM said s CROSS JOIN LATERAL (VALUES ('title', s.title), ('body', s.body), ('note', s.note)) e (name, value)
			 WHERE s.id = l.id AND s.op NOT IN ('t', 'd', '-U') AND (l.killed IS NULL OR s.pos > l.killed)
				AND e.name = c.name AND e.value IS DISTINCT FROM hole() AND (NOT nulls OR e.value IS NOT NULL)) AS known
		FROM live l CROSS JOIN (VALUES ('title'), ('body'), ('note')) c (name)
	), rows AS (
		SELECT id, pos, max(CASE WHEN known THEN coalesce(value, 'NULL') ELSE unknown END) FILTER (WHERE name = 'title') AS title,
			max(CASE WHEN known THEN coalesce(value, 'NULL') WHEN nulls THEN 'no body' ELSE unknown END) FILTER (WHERE name = 'body') AS body,
			max(CASE WHEN known THEN coalesce(value, 'NULL') ELSE unknown END) FILTER (WHERE name = 'note') AS note
		FROM columns GROUP BY id, pos
	)
	SELECT coalesce(string_agg(format('%s=%s,%s,%s@%s', id, title, body, note, coalesce(pos::text, 'none')), ' ' ORDER BY id), 'nothing')
	INTO result FROM rows;
	DROP TABLE said;
	RETURN result;
END $$;

CREATE FUNCTION permutations(n int) RETURNS SETOF int[] LANGUAGE sql AS $$
	WITH RECURSIVE p (a) AS (
		SELECT '{}'::int[]
		UNION ALL SELECT a || i FROM p, generate_series(1, n) i WHERE i <> ALL (a))
	SELECT a FROM p WHERE cardinality(a) = n
$$;

-- Rows as they were before the first call, with nothing remembered.
CREATE FUNCTION again(first text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	t text;
BEGIN
	DELETE FROM in_row;
	DELETE FROM in_table;
	DELETE FROM in_table_tombstones;
	FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
		PERFORM cdc_set_fence(t, NULL) FROM log WHERE op = 't';
		IF first IS NOT NULL THEN
			EXECUTE format('INSERT INTO %I (id, title, body, note, source_position) %s', t, first);
		END IF;
	END LOOP;
END $$;

/*
 * The events of the log in every order, one by one, in pairs, in threes and all
 * at once, into both homes: what stands is the truth, the marks are the same
 * whatever the order, and the whole log once more, in one call or one by one,
 * writes nothing.
 */
CREATE FUNCTION any_order(what text, first text, events text, args text DEFAULT '', unknown text DEFAULT 'NULL', partitioned boolean DEFAULT false)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	want text; got text; marks text; known text; order_of int[]; size int; n int; t text; tuples text; tried int := 0;
BEGIN
	PERFORM fresh(NULL, args, partitioned);
	EXECUTE 'INSERT INTO log SELECT row_number() OVER (), * FROM (VALUES ' || events || ') v';
	n := (SELECT count(*) FROM log);
	want := truth(first, unknown, args ~ 'ignore_nulls');
	FOR order_of IN SELECT * FROM permutations(n) LOOP
		FOREACH size IN ARRAY ARRAY[1, 2, 3, n] LOOP
			-- all at once their order does not matter
			CONTINUE WHEN size > n OR size = 3 AND n > 4 OR size = n AND order_of <> (SELECT array_agg(i) FROM generate_series(1, n) i);
			PERFORM again(first);
			FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
				-- of many orders every other one in each home
				CONTINUE WHEN n > 4 AND (t = 'in_row') = ((order_of[1] + order_of[3]) % 2 = 0);
				FOR i IN 0 .. (n - 1) / size LOOP
					DELETE FROM event;
					INSERT INTO event SELECT l.op, l.id, l.title, l.body, l.note, l.source_position FROM log l WHERE l.n = ANY (order_of[i * size + 1 : (i + 1) * size]);
					PERFORM cdc_apply(t);
				END LOOP;
				got := stands(t);
				marks := stands(t, true);
				known := coalesce(known, marks);
				IF got <> want OR marks <> known OR NOT marks_are_sound(t) THEN
					RETURN format(E'NOT OK | %s: %s, order %s by %s\n    got:  %s\n    want: %s\n    marks %s, else %s', what, t, order_of, size, got, want, marks, known);
				END IF;
				-- replays
				tuples := tuples_of(t);
				FOR i IN 0 .. CASE WHEN size = 1 AND n < 5 THEN n ELSE 0 END LOOP
					DELETE FROM event;
					INSERT INTO event SELECT l.op, l.id, l.title, l.body, l.note, l.source_position FROM log l WHERE i = 0 OR l.n = order_of[i];
					PERFORM cdc_apply(t);
				END LOOP;
				IF tuples_of(t) <> tuples THEN
					RETURN format(E'NOT OK | %s: %s, order %s by %s: a replay wrote: %s, before %s', what, t, order_of, size, stands(t, true), marks);
				END IF;
				tried := tried + 1;
			END LOOP;
		END LOOP;
	END LOOP;
	RETURN format('ok | %s: %s, as the source, %s times', what, known, tried);
EXCEPTION WHEN OTHERS THEN
	RETURN format('NOT OK | %s: %s, order %s by %s: %s %s', what, t, order_of, size, SQLSTATE, SQLERRM);
END $$;

--
-- The field case: the older event has the only copy of a column
--
SELECT any_order('FC08', $$VALUES (12, '0', 'b0', NULL, '4/10'::cdc_position)$$,
	$$('u', 12, '2', hole(), NULL, '4/40'::cdc_position), ('u', 12, '1', 'b1', NULL, '4/30')$$);
SELECT any_order('two columns, from two events', $$VALUES (12, '0', 'b0', 'n0', '4/10'::cdc_position)$$,
	$$('u', 12, hole(), hole(), hole(), '4/50'::cdc_position), ('u', 12, '1', hole(), 'n1', '4/40'), ('u', 12, hole(), 'b2', 'n2', '4/30'), ('u', 12, 't3', 'b3', 'n3', '4/20')$$);
SELECT any_order('no row before', NULL,
	$$('c', 1, 't', 'b', 'n', '1/10'::cdc_position), ('u', 1, 't2', hole(), hole(), '1/20'), ('u', 1, hole(), 'b3', hole(), '1/30'), ('u', 1, 't4', hole(), hole(), '1/40')$$);
SELECT any_order('an explicit NULL is a value', NULL,
	$$('c', 1, 't', 'b', 'n', '1/10'::cdc_position), ('u', 1, 't2', NULL, hole(), '1/20'), ('u', 1, 't3', hole(), NULL, '1/30'), ('u', 1, hole(), hole(), hole(), '1/40')$$);
SELECT any_order('nobody has it', NULL,
	$$('u', 1, 't2', hole(), hole(), '1/20'::cdc_position), ('u', 1, hole(), hole(), 'n3', '1/30'), ('u', 1, 't4', hole(), hole(), '1/40')$$);
SELECT any_order('a row without a position', $$VALUES (1, 't', 'b', 'n', NULL::cdc_position)$$,
	$$('u', 1, 't2', hole(), hole(), '1/20'::cdc_position), ('u', 1, hole(), 'b3', hole(), '1/30'), ('u', 1, 't4', hole(), hole(), '1/40')$$);

--
-- Never across a delete
--
SELECT any_order('deleted and made again', NULL,
	$$('c', 1, 't', 'b', 'n', '1/10'::cdc_position), ('d', 1, NULL, NULL, NULL, '1/20'), ('c', 1, 't3', 'b3', 'n3', '1/30'), ('u', 1, 't4', hole(), hole(), '1/40')$$);
SELECT any_order('what came before the delete is gone', NULL,
	$$('c', 1, 't', 'b', 'n', '1/10'::cdc_position), ('d', 1, NULL, NULL, NULL, '1/20'), ('u', 1, 't4', hole(), hole(), '1/40')$$);
SELECT any_order('two deletes', NULL,
	$$('u', 1, 't', 'b', 'n', '1/10'::cdc_position), ('d', 1, NULL, NULL, NULL, '1/20'), ('u', 1, hole(), 'b3', hole(), '1/30'), ('d', 1, NULL, NULL, NULL, '1/40'), ('u', 1, 't5', hole(), hole(), '1/50')$$);
SELECT any_order('a delete at last', NULL,
	$$('c', 1, 't', 'b', 'n', '1/10'::cdc_position), ('u', 1, 't2', hole(), hole(), '1/20'), ('u', 1, hole(), 'b3', hole(), '1/30'), ('d', 1, NULL, NULL, NULL, '1/40')$$);
SELECT any_order('a truncate between', NULL,
	$$('c', 1, 't', 'b', 'n', '1/10'::cdc_position), ('t', NULL, NULL, NULL, NULL, '1/20'), ('u', 1, hole(), 'b3', hole(), '1/30'), ('u', 1, 't4', hole(), hole(), '1/40'), ('u', 2, 'x', hole(), 'y', '1/35')$$);
SELECT any_order('images before and after', NULL,
	$$('c', 1, 't', 'b', 'n', '1/10'::cdc_position), ('-U', 1, 't', 'b', 'n', '1/20'), ('+U', 1, 't2', 'b2', 'n2', '1/20'), ('u', 1, hole(), hole(), 'n3', '1/30')$$);

--
-- Snapshot rows
--
SELECT any_order('a snapshot row whose position does not count', NULL,
	$$('r', 1, 't', 'b', 'n', NULL::cdc_position), ('u', 1, 't2', hole(), hole(), '1/20'), ('u', 1, hole(), 'b3', hole(), '1/30'), ('u', 1, 't4', hole(), hole(), '1/40')$$);
SELECT any_order('a snapshot row in its place', NULL,
	$$('r', 1, 't', 'b', 'n', '20'::cdc_position), ('u', 1, 'ta', 'ba', 'na', '10'), ('u', 1, hole(), 'b3', hole(), '30'), ('u', 1, 't4', hole(), hole(), '40')$$);

--
-- NULL as "no change"
--
SELECT any_order('ignore_nulls', NULL,
	$$('c', 1, 't', NULL, NULL, '1/10'::cdc_position), ('u', 1, NULL, 'b2', NULL, '1/20'), ('d', 1, NULL, NULL, NULL, '1/30'), ('c', 1, 't4', NULL, NULL, '1/40'), ('u', 1, NULL, NULL, 'n5', '1/50')$$,
	', ignore_nulls => true');

--
-- Other shapes
--
SELECT any_order('partitions of another shape, several keys', $$VALUES (12, '0', 'b0', 'n0', '4/10'::cdc_position), (2, 'x', 'y', 'z', '4/10')$$,
	$$('u', 12, hole(), hole(), hole(), '4/50'::cdc_position), ('u', 2, hole(), 'y2', hole(), '4/45'), ('u', 12, hole(), 'b2', 'n2', '4/30'), ('u', 2, 'x3', hole(), hole(), '4/60')$$, partitioned => true);

--
-- One late event at a time: counts, marks, positions, dry run, reason
--
CREATE FUNCTION give(events text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM event;
	EXECUTE 'INSERT INTO event (op, id, title, body, note, source_position) VALUES ' || events;
END $$;
-- What both targets make of an event: dry run and explanation say the same as the call.
CREATE FUNCTION in_both(what text, events text, want text, args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	t text; told text; tried text; got text; before text; result text := 'ok | ' || what;
BEGIN
	PERFORM give(events);
	FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
		before := tuples_of(t);
		EXECUTE format('SELECT string_agg(outcome || ''='' || n, '' '' ORDER BY array_position(''{inserted,updated,deleted,stale,duplicate,superseded}'', outcome)) FROM (SELECT outcome, count(*) n FROM cdc_explain(%L, ''event''%s) GROUP BY outcome) x',
			t, CASE WHEN args <> '' THEN ', ' || args ELSE '' END) INTO told;
		tried := applied(t, 'event', concat_ws(', ', 'dry_run => true', nullif(args, '')));
		IF tuples_of(t) <> before THEN
			result := format(E'NOT OK | %s: %s: the dry run wrote', what, t);
		END IF;
		got := applied(t, 'event', args) || ': ' || stands(t, true);
		IF got <> want OR got NOT LIKE told || ': %' OR tried <> told THEN
			result := format(E'NOT OK | %s: %s\n    got:  %s (dry run %s, explained as %s)\n    want: %s', what, t, got, tried, told, want);
		END IF;
	END LOOP;
	RETURN result;
END $$;
SELECT fresh($$VALUES (12, '0', 'b0', 'n0', '4/10'::cdc_position)$$);
SELECT in_both('no marks where all is carried', $$('u', 12, '1', 'b1', 'n1', '4/20')$$, 'updated=1: 12=1,b1,n1@4/20');
SELECT in_both('what is not carried is marked', $$('u', 12, '2', hole(), hole(), '4/40')$$, 'updated=1: 12=2,b1,n1@4/40 {"body": "4/20", "note": "4/20"}');
SELECT in_both('late, and not newer than a column', $$('u', 12, 'x', 'x', 'x', '4/20')$$, 'stale=1: 12=2,b1,n1@4/40 {"body": "4/20", "note": "4/20"}');
SELECT in_both('late, and carries none of them', $$('u', 12, 'x', hole(), hole(), '4/35')$$, 'stale=1: 12=2,b1,n1@4/40 {"body": "4/20", "note": "4/20"}');
SELECT in_both('late, and newer than both', $$('u', 12, 'x', 'b3', hole(), '4/30')$$, 'updated=1: 12=2,b3,n1@4/40 {"body": "4/30", "note": "4/20"}');
SELECT in_both('the same again', $$('u', 12, 'x', 'b3', hole(), '4/30')$$, 'stale=1: 12=2,b3,n1@4/40 {"body": "4/30", "note": "4/20"}');
SELECT in_both('newer than one of them', $$('u', 12, 'x', 'b2', 'n2', '4/25')$$, 'updated=1: 12=2,b3,n2@4/40 {"body": "4/30", "note": "4/25"}');
SELECT in_both('an equal value moves the mark', $$('u', 12, 'x', 'b3', hole(), '4/35')$$, 'updated=1: 12=2,b3,n2@4/40 {"body": "4/35", "note": "4/25"}');
SELECT in_both('several of one batch', $$('u', 12, 'x', hole(), hole(), '4/39'), ('u', 12, hole(), hole(), 'n8', '4/38'), ('u', 12, 'x', 'b7', 'n7', '4/37')$$, 'updated=1 superseded=2: 12=2,b7,n8@4/40 {"body": "4/37", "note": "4/38"}');
SELECT in_both('a newer event keeps the rest', $$('u', 12, '5', hole(), 'n5', '4/50')$$, 'updated=1: 12=5,b7,n5@4/50 {"body": "4/37"}');
SELECT in_both('an event with all of it clears them', $$('u', 12, '6', 'b6', 'n6', '4/60')$$, 'updated=1: 12=6,b6,n6@4/60');
SELECT in_both('nothing is open any more', $$('u', 12, 'x', 'x', 'x', '4/55')$$, 'stale=1: 12=6,b6,n6@4/60');
SELECT in_both('a new row lacks a value', $$('u', 3, 't', hole(), 'n', '4/60')$$, 'inserted=1: 3=t,NULL,n@4/60 {"body": []} 12=6,b6,n6@4/60');
SELECT in_both('a delete before it', $$('d', 3, NULL, NULL, NULL, '4/50')$$, 'updated=1: 3=t,NULL,n@4/60 {"body": ["4/50"]} 12=6,b6,n6@4/60');
SELECT in_both('a value from before the delete', $$('u', 3, 'x', 'x', 'x', '4/45')$$, 'stale=1: 3=t,NULL,n@4/60 {"body": ["4/50"]} 12=6,b6,n6@4/60');
SELECT in_both('at the delete''s position the upsert stands', $$('u', 3, 'x', 'b', 'x', '4/50')$$, 'updated=1: 3=t,b,n@4/60 {"body": "4/50"} 12=6,b6,n6@4/60');
SELECT in_both('the value goes with a later delete', $$('d', 3, NULL, NULL, NULL, '4/55'), ('u', 3, 'x', 'y', 'z', '4/54')$$, 'updated=1 superseded=1: 3=t,NULL,n@4/60 {"body": ["4/55"]} 12=6,b6,n6@4/60');
SELECT in_both('and comes with the row that followed', $$('c', 3, 'x', 'b8', 'z', '4/58')$$, 'updated=1: 3=t,b8,n@4/60 {"body": "4/58"} 12=6,b6,n6@4/60');
SELECT in_both('a dead row has no marks', $$('d', 3, NULL, NULL, NULL, '4/70')$$, 'deleted=1: 12=6,b6,n6@4/60');
SELECT expect('in the row', (SELECT cdc_columns::text FROM in_row WHERE deleted), NULL);
SELECT in_both('and takes no late value', $$('u', 3, 'x', 'y', 'z', '4/65')$$, 'stale=1: 12=6,b6,n6@4/60');
SELECT in_both('what is revived inherits nothing', $$('u', 3, 'back', hole(), hole(), '4/80')$$, 'inserted=1: 3=back,NULL,NULL@4/80 {"body": ["4/70"], "note": ["4/70"]} 12=6,b6,n6@4/60');

-- why
SELECT give($$('u', 3, 'x', 'b', 'x', '4/75'), ('u', 3, 'x', 'a', hole(), '4/74'), ('u', 12, 'x', 'x', 'x', '4/55')$$);
SELECT event_position, outcome, reason FROM cdc_explain('in_table', 'event') ORDER BY event_position;
SELECT give($$('d', 3, NULL, NULL, NULL, '4/75')$$);
SELECT outcome, reason FROM cdc_explain('in_table', 'event');
SELECT give($$('u', 3, 'back', 'b', 'n', '4/80')$$);
SELECT outcome, reason FROM cdc_explain('in_table', 'event');

--
-- At one position
--
SELECT in_both('events at one position make up one another', $$('u', 3, 'back', 'b', hole(), '4/80')$$, 'updated=1: 3=back,b,NULL@4/80 {"note": ["4/70"]} 12=6,b6,n6@4/60');
SELECT in_both('but what is there stays', $$('u', 3, 'other', 'other', hole(), '4/80')$$, 'duplicate=1: 3=back,b,NULL@4/80 {"note": ["4/70"]} 12=6,b6,n6@4/60');
SELECT in_both('rewrite', $$('u', 3, 'new', hole(), 'n', '4/80')$$, 'updated=1: 3=new,b,n@4/80 12=6,b6,n6@4/60', $$on_same_position => 'rewrite'$$);
SELECT give($$('u', 12, 'x', hole(), hole(), '4/90')$$);
SELECT expect('two late events tie', counts(r), 'updated=1') FROM cdc_apply('in_row') r;
SELECT give($$('u', 12, 'x', 'one', hole(), '4/70'), ('u', 12, 'x', 'two', hole(), '4/70')$$);
SELECT apply_refused('a tie of late events', 'in_row', 'event', '', '21000', '(id)=(12)', 'dh');
SELECT expect('upsert: the greater image', applied('in_row', 'event', $$on_tie => 'upsert'$$) || ' ' || stands('in_row', true), 'updated=1 superseded=1 3=new,b,n@4/80 12=x,two,n6@4/90 {"body": "4/70", "note": "4/60"}');
SELECT give($$('u', 12, 'x', 'one', hole(), '4/60'), ('u', 12, 'x', 'two', hole(), '4/60')$$);
SELECT expect('a tie that changes nothing is none', applied('in_row', 'event'), 'stale=1 superseded=1');
-- an upsert and a delete at one position: the upsert stands, and what is older than both is gone
SELECT give($$('d', 12, NULL, NULL, NULL, '4/90')$$);
SELECT expect('a delete at the row''s position', applied('in_row', 'event') || ' ' || stands('in_row', true), 'updated=1 3=new,b,n@4/80 12=x,NULL,NULL@4/90 {"body": ["4/90"], "note": ["4/90"]}');
SELECT expect('once', applied('in_row', 'event'), 'duplicate=1');

--
-- Fence and floor
--
SELECT fresh($$VALUES (1, 't', 'b', 'n', '4/10'::cdc_position)$$);
SELECT in_both('a mark', $$('u', 1, 't4', hole(), hole(), '4/40')$$, 'updated=1: 1=t4,b,n@4/40 {"body": "4/10", "note": "4/10"}');
SELECT cdc_set_fence('in_row', '4/25'), cdc_set_fence('in_table', '4/25');
SELECT in_both('a fence is about dead keys', $$('u', 1, 'x', 'b2', hole(), '4/20')$$, 'updated=1: 1=t4,b2,n@4/40 {"body": "4/20", "note": "4/10"}');
SELECT in_both('a new row knows that it was dead there', $$('u', 2, 't', hole(), hole(), '4/40')$$, 'inserted=1: 1=t4,b2,n@4/40 {"body": "4/20", "note": "4/10"} 2=t,NULL,NULL@4/40 {"body": ["4/25"], "note": ["4/25"]}');
SELECT in_both('so what is fenced gives no value', $$('u', 2, 'x', 'x', 'x', '4/25')$$, 'stale=1: 1=t4,b2,n@4/40 {"body": "4/20", "note": "4/10"} 2=t,NULL,NULL@4/40 {"body": ["4/25"], "note": ["4/25"]}');
SELECT cdc_set_floor('in_row', '4/30'), cdc_set_floor('in_table', '4/30');
SELECT in_both('nothing at or below the floor', $$('u', 1, 'x', 'x', 'x', '4/30'), ('d', 2, NULL, NULL, NULL, '4/30')$$, 'stale=2: 1=t4,b2,n@4/40 {"body": "4/20", "note": "4/10"} 2=t,NULL,NULL@4/40 {"body": ["4/25"], "note": ["4/25"]}');
SELECT in_both('above it', $$('u', 1, 'x', hole(), 'n3', '4/31'), ('u', 1, 'x', 'x', 'x', '4/29')$$, 'updated=1 superseded=1: 1=t4,b2,n3@4/40 {"body": "4/20", "note": "4/31"} 2=t,NULL,NULL@4/40 {"body": ["4/25"], "note": ["4/25"]}');

--
-- Values that nobody has: an error unless on_unavailable says NULL, or defaults
--
SELECT fresh($$VALUES (1, 't', 'b', 'n', '4/10'::cdc_position)$$, $$, on_unavailable => 'error'$$);
SELECT give($$('u', 2, 't', hole(), 'n', '4/40')$$);
SELECT apply_refused('a new row', 'in_row', 'event', '', '55000', 'body', 'dh');
SELECT in_both('a row that has it', $$('u', 1, 't4', hole(), 'n', '4/40')$$, 'updated=1: 1=t4,b,n@4/40 {"body": "4/10"}');
SELECT give($$('d', 1, NULL, NULL, NULL, '4/20')$$);
SELECT apply_refused('a delete that takes it', 'in_row', 'event', '', '55000', 'body', 'dh');
SELECT apply_refused('beside a side table', 'in_table', 'event', '', '55000', 'body', 'dh', false);
SELECT give($$('t', NULL, NULL, NULL, NULL, '4/20')$$);
SELECT apply_refused('a truncate that takes it', 'in_row', 'event', '', '55000', 'body', 'dh');
SELECT in_both('a delete together with what follows', $$('d', 1, NULL, NULL, NULL, '4/20'), ('c', 1, 'x', 'b3', 'x', '4/30')$$, 'updated=1 superseded=1: 1=t4,b3,n@4/40 {"body": "4/30"}');
SELECT in_both('defaults', $$('d', 1, NULL, NULL, NULL, '4/35')$$, 'updated=1: 1=t4,no body,n@4/40 {"body": ["4/35"]}', 'ignore_nulls => true');
-- a column that the source does not have is not open
CREATE TABLE absent_event (LIKE event, __unchanged text[], __absent text[]);
INSERT INTO absent_event VALUES ('c', 7, 't', NULL, 'n', '5/10', NULL, '{body}');
SELECT expect('absent', applied('in_table', 'absent_event') || ' ' || stands('in_table', true), 'inserted=1 1=t4,no body,n@4/40 {"body": ["4/35"]} 7=t,no body,n@5/10');
UPDATE absent_event SET op = 'u', source_position = '5/20', __unchanged = '{body}', __absent = NULL;
SELECT expect('left alone since', applied('in_table', 'absent_event') || ' ' || stands('in_table', true), 'updated=1 1=t4,no body,n@4/40 {"body": ["4/35"]} 7=t,no body,n@5/20 {"body": "5/10"}');

--
-- Key moves: a moved row brings its values along; they are as old as the move
--
CREATE TABLE move_event (op text, id int, __old_id int, title text, body text, note text, source_position cdc_position);
CREATE FUNCTION moves(what text, want text, VARIADIC batches text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	t text; b text; got text; result text := 'ok | ' || what;
BEGIN
	PERFORM fresh($q$VALUES (5, 't', 'L', 'n', '1/10'::cdc_position)$q$);
	FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
		FOREACH b IN ARRAY batches LOOP
			DELETE FROM move_event;
			EXECUTE 'INSERT INTO move_event VALUES ' || b;
			PERFORM cdc_apply(t, 'move_event');
		END LOOP;
		got := stands(t, true);
		IF got <> want OR NOT marks_are_sound(t) THEN
			result := format(E'NOT OK | %s: %s\n    got:  %s\n    want: %s', what, t, got, want);
		END IF;
	END LOOP;
	RETURN result;
END $$;
SELECT moves('from the old key''s row', '6=t2,L,n@1/20', $$('u', 6, 5, 't2', hole(), hole(), '1/20')$$);
SELECT moves('from its column that is older', '6=t3,L,n@1/30', $$('u', 5, NULL, 't2', hole(), hole(), '1/20')$$, $$('u', 6, 5, 't3', hole(), hole(), '1/30')$$);
SELECT moves('from its late event in the same batch', '6=t3,L2,n@1/30', $$('u', 5, NULL, 't2', hole(), hole(), '1/20')$$, $$('u', 6, 5, 't3', hole(), hole(), '1/30'), ('u', 5, NULL, 'x', 'L2', hole(), '1/15')$$);
SELECT moves('an update before the move', '6=t3,L,n@1/30 {"body": "1/20", "note": "1/20"}', $$('u', 6, NULL, 't3', hole(), hole(), '1/30')$$, $$('u', 6, 5, 't2', hole(), hole(), '1/20')$$);
SELECT moves('both at once', '6=t3,L,n@1/30 {"body": "1/20", "note": "1/20"}', $$('u', 6, NULL, 't3', hole(), hole(), '1/30'), ('u', 6, 5, 't2', hole(), hole(), '1/20')$$);
SELECT moves('the old key used again before the move came', '5=new,NULL,NULL@1/30 {"body": ["1/20"], "note": ["1/20"]} 6=t2,L,n@1/20', $$('u', 5, NULL, 'new', hole(), hole(), '1/30')$$, $$('u', 6, 5, 't2', hole(), hole(), '1/20')$$);
SELECT moves('what the new key had before is not its own', '6=t3,L,n@1/30 {"body": "1/20", "note": "1/20"}', $$('c', 6, NULL, 'x', 'x', 'x', '1/12')$$, $$('u', 6, NULL, 't3', hole(), hole(), '1/30')$$, $$('u', 6, 5, 't2', hole(), hole(), '1/20')$$);
SELECT moves('a chain of moves', '7=t3,L,n@1/40', $$('u', 7, 6, 't3', hole(), hole(), '1/40'), ('u', 6, 5, 't2', hole(), hole(), '1/20')$$);
SELECT moves('from a key that nobody knows', '5=t,L,n@1/10 6=t2,NULL,NULL@1/20 {"body": ["1/20"], "note": ["1/20"]}', $$('u', 6, 4, 't2', hole(), hole(), '1/20')$$);
-- the limit: after the move an event of the old key finds the row no more
SELECT moves('too late for the old key', '6=t3,L,n@1/30', $$('u', 6, 5, 't3', hole(), hole(), '1/30')$$, $$('u', 5, NULL, 'x', 'L2', hole(), '1/15')$$);

--
-- What others write: the guard lets a late value through, and marks of another
-- version of a row are void
--
SELECT fresh($$VALUES (1, 't', 'b', 'n', '4/10'::cdc_position)$$, $$, guard => 'error'$$);
SELECT in_both('under a guard', $$('u', 1, 't4', hole(), hole(), '4/40')$$, 'updated=1: 1=t4,b,n@4/40 {"body": "4/10", "note": "4/10"}');
SELECT in_both('a late value', $$('u', 1, 'x', 'b2', hole(), '4/20')$$, 'updated=1: 1=t4,b2,n@4/40 {"body": "4/20", "note": "4/10"}');
UPDATE in_row SET body = 'by hand', source_position = '4/50';
UPDATE in_table SET body = 'by hand', source_position = '4/50';
SELECT in_both('who writes a row at another position', $$('u', 1, 'x', 'b3', 'n3', '4/30')$$, 'stale=1: 1=t4,by hand,n@4/50 {"body": "4/20", "note": "4/10"}');
SELECT in_both('and the next event starts from there', $$('u', 1, 't6', hole(), hole(), '4/60')$$, 'updated=1: 1=t6,by hand,n@4/60 {"body": "4/50", "note": "4/50"}');
SELECT cdc_attach('in_row', guard => 'off');
SELECT cdc_forget('in_row', '4/55');
SELECT give($$('u', 1, 'x', 'b3', hole(), '4/30')$$);
SELECT expect('a row that lost its position', applied('in_row', 'event') || ' ' || stands('in_row', true), 'updated=1 1=x,b3,n@4/30 {"note": null}');
-- marks that a hand wrote
UPDATE in_row SET cdc_columns = '{"body": "4/10", "gone": "4/5"}';
SELECT give($$('u', 1, 'x', 'b2', hole(), '4/20')$$);
SELECT expect('marks by hand', applied('in_row', 'event') || ' ' || rows_of('SELECT cdc_columns FROM in_row'), 'updated=1 ("{"""": ""4/30"", ""body"": ""4/20"", ""gone"": ""4/5""}")');
SELECT give($$('u', 1, 'y', 'b4', hole(), '4/40')$$);
SELECT expect('of a column that is not fed', applied('in_row', 'event') || ' ' || rows_of('SELECT cdc_columns FROM in_row'), 'updated=1 ("{"""": ""4/40"", ""gone"": ""4/5"", ""note"": ""4/30""}")');

-- triggers see an ordinary update, and may not meddle with marks
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_ARGV[0] = 'meddle' THEN
		NEW.cdc_columns := NULL;
	ELSE
		NEW.title := NEW.title || ' seen';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER see BEFORE UPDATE ON in_row FOR EACH ROW EXECUTE FUNCTION see();
SELECT give($$('u', 1, 'x', hole(), 'n5', '4/35')$$);
SELECT expect('a trigger', applied('in_row', 'event') || ' ' || stands('in_row', true), 'updated=1 1=y seen,b4,n5@4/40 {"gone": "4/5", "note": "4/35"}');
DROP TRIGGER see ON in_row;
CREATE TRIGGER see BEFORE UPDATE ON in_row FOR EACH ROW EXECUTE FUNCTION see('meddle');
SELECT give($$('u', 1, 'x', hole(), 'n6', '4/36')$$);
SELECT apply_refused('a trigger that meddles', 'in_row', 'event', '', '27000', 'cdc_columns', 'dh');
DROP TRIGGER see ON in_row;

--
-- Names: the column of marks may be renamed; a marked column takes its marks
-- along by a statement
--
SELECT fresh($$VALUES (1, 't', 'b', 'n', '4/10'::cdc_position)$$);
SELECT in_both('marked', $$('u', 1, 't4', hole(), hole(), '4/40')$$, 'updated=1: 1=t4,b,n@4/40 {"body": "4/10", "note": "4/10"}');
ALTER TABLE in_row RENAME cdc_columns TO "Ages ""of"" columns";
SELECT column_positions FROM cdc_targets WHERE target = 'in_row'::regclass;
SELECT give($$('u', 1, 'x', 'b2', hole(), '4/20')$$);
SELECT expect('after the rename', applied('in_row', 'event') || ' ' || rows_of('SELECT "Ages ""of"" columns" FROM in_row'), 'updated=1 ("{"""": ""4/40"", ""body"": ""4/20"", ""note"": ""4/10""}")');
ALTER TABLE in_table RENAME note TO "Notiz";
UPDATE in_table SET cdc_columns = cdc_columns - 'note' || jsonb_build_object('Notiz', cdc_columns -> 'note') WHERE cdc_columns ? 'note';
CREATE TABLE renamed_event (op text, id int, title text, body text, "Notiz" text, source_position cdc_position);
INSERT INTO renamed_event VALUES ('u', 1, 'x', hole(), 'n3', '4/30');
SELECT expect('a renamed column', applied('in_table', 'renamed_event') || ' ' || rows_of('in_table'), $$updated=1 (1,t4,b,n3,4/40,"{"""": ""4/40"", ""body"": ""4/10"", ""Notiz"": ""4/30""}")$$);

--
-- Without an attachment; positions in several columns; an odd name; an epoch
--
CREATE TABLE doc ("a ""b"", {c}" text, id int PRIMARY KEY, body text, source_lsn pg_lsn, source_ordinal int, deleted boolean, ages jsonb);
CREATE TABLE doc_event (op text, id int, "a ""b"", {c}" text, body text, source_lsn pg_lsn, source_ordinal int);
INSERT INTO doc VALUES ('a', 1, 'b', '1/10', 0);
INSERT INTO doc_event VALUES ('u', 1, hole(), hole(), '1/20', 7);
SELECT apply_is('several position columns', 'doc', 'doc_event', $$column_positions => 'ages'$$, 'updated=1', 'SELECT d."a ""b"", {c}", id, body, cdc_position(source_lsn), source_ordinal, deleted, ages FROM doc d', $$(a,1,b,1/20,7,f,"{"""": ""1/20:7"", ""body"": ""1/10"", ""a \\""b\\"", {c}"": ""1/10""}")$$);
UPDATE doc_event SET "a ""b"", {c}" = 'late', source_ordinal = 6;
SELECT apply_is('a late event', 'doc', 'doc_event', $$column_positions => 'ages'$$, 'updated=1', 'SELECT d."a ""b"", {c}", id, body, cdc_position(source_lsn), source_ordinal, deleted, ages FROM doc d', $$(late,1,b,1/20,7,f,"{"""": ""1/20:7"", ""body"": ""1/10"", ""a \\""b\\"", {c}"": ""1/20:6""}")$$);
SELECT apply_is('which without the parameter is stale', 'doc', 'doc_event', '', 'stale=1', 'SELECT body FROM doc', '(b)');
CREATE TABLE epoch (id int PRIMARY KEY, body text);
CREATE TABLE epoch_event (op text, id int, body text, source_position cdc_position);
SELECT cdc_attach('epoch', 'epoch_event', column_positions => 'ages', on_unavailable => 'null');
SELECT cdc_new_epoch('epoch');
INSERT INTO epoch_event VALUES ('u', 1, hole(), '1/40');
SELECT apply_is('an epoch', 'epoch', 'epoch_event', '', 'inserted=1', 'SELECT * FROM epoch', $$(1,,1@1/40,"{"""": ""1@1/40"", ""body"": []}")$$);
UPDATE epoch_event SET body = 'late', source_position = '1/30';
SELECT apply_is('a late event of it', 'epoch', 'epoch_event', '', 'updated=1', 'SELECT * FROM epoch', $$(1,late,1@1/40,"{"""": ""1@1/40"", ""body"": ""1@1/30""}")$$);

--
-- An event view leaves the column out; attached again, nothing changes
--
CREATE TABLE landed (payload jsonb);
CREATE TABLE seen (id int PRIMARY KEY, body text);
SELECT cdc_attach('seen', column_positions => 'ages', on_unavailable => 'null');
SELECT cdc_attach('seen'), cdc_attach('seen', column_positions => 'ages');
SELECT cdc_event_view('seen_event', 'seen', 'landed', 'payload', 'debezium');
SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'seen_event'::regclass AND attnum > 0;
INSERT INTO landed VALUES ('{"op": "u", "after": {"id": 1, "body": "__debezium_unavailable_value"}, "source": {"connector": "postgresql", "lsn": 400}}');
SELECT apply_is('raw', 'seen', 'seen_event', '', 'inserted=1', 'SELECT * FROM seen', $$(1,,0/190,"{"""": ""0/190"", ""body"": []}")$$);
INSERT INTO landed VALUES ('{"op": "u", "after": {"id": 1, "body": "late"}, "source": {"connector": "postgresql", "lsn": 300}}');
SELECT apply_is('raw and late', 'seen', 'seen_event', '', 'updated=1 superseded=1', 'SELECT * FROM seen', $$(1,late,0/190,"{"""": ""0/190"", ""body"": ""0/12C""}")$$);
SELECT apply_is('again', 'seen', 'seen_event', '', 'duplicate=1 superseded=1', 'SELECT body FROM seen', '(late)');

\set ECHO none
DROP SCHEMA column_positions CASCADE;
