/*
 * Two targets of one shape, one in each home of the tombstone, for what must
 * be the same in both; after apply_helpers.sql.
 */

CREATE TABLE event (op text, id int, v text, source_position cdc_position);
-- every event that was ever handed over
CREATE TABLE event_log (LIKE event);

-- Both targets anew, with nothing remembered.
CREATE FUNCTION fresh(args text DEFAULT '') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS in_row, in_table CASCADE;
	CREATE TABLE in_row (id int PRIMARY KEY, v text);
	CREATE TABLE in_table (id int PRIMARY KEY, v text);
	TRUNCATE event, event_log;
	EXECUTE format('SELECT cdc_attach(''in_row'', ''event'', tombstones => ''row''%s)', args);
	EXECUTE format('SELECT cdc_attach(''in_table'', ''event''%s)', args);
END $$;

-- The next batch: staging emptied and filled anew.
CREATE FUNCTION stage(events text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE event;
	EXECUTE 'INSERT INTO event VALUES ' || events;
END $$;

/*
 * How a target stands, by key: "1=a@0/10" a live row, "2 dead@0/20" a
 * tombstone, in either home.  For targets with a primary key, source_position
 * and, in the row home, deleted; the other columns are the value.
 */
CREATE FUNCTION stands(target text, live_only boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	in_row boolean := EXISTS (SELECT FROM pg_attribute WHERE attrelid = target::regclass AND attname = 'deleted' AND NOT attisdropped);
	key text; val text; result text;
BEGIN
	SELECT string_agg(quote_ident(attname) || '::text', ' || '','' || ' ORDER BY attnum) FILTER (WHERE attnum = ANY (indkey)),
		string_agg(format('coalesce(%I::text, ''NULL'')', attname), ' || '','' || ' ORDER BY attnum) FILTER (WHERE attnum <> ALL (indkey))
	INTO key, val
	FROM pg_attribute JOIN pg_index ON indrelid = attrelid AND indisprimary
	WHERE attrelid = target::regclass AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('source_position', 'deleted');
	EXECUTE format('SELECT coalesce(string_agg(CASE WHEN dead THEN k || '' dead'' ELSE k || ''='' || v END || ''@'' || coalesce(p::text, ''none''), '' ''
			ORDER BY k COLLATE "C", dead), ''nothing'') FROM (SELECT %s, %s, source_position, %s FROM %s', key, coalesce(val, ''''''),
			CASE WHEN in_row THEN 'coalesce(deleted, false)' ELSE 'false' END, target)
		|| CASE WHEN in_row THEN '' ELSE format(' UNION ALL SELECT %s, NULL, source_position, true FROM %s_tombstones', key, target) END
		|| ') t (k, v, p, dead)' || CASE WHEN live_only THEN ' WHERE NOT dead' ELSE '' END INTO result;
	RETURN result;
END $$;

-- one line for both homes: ok, or what differs
CREATE FUNCTION both_give(what text, got_row text, got_table text, want text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN got_row IS NOT DISTINCT FROM want AND got_table IS NOT DISTINCT FROM want THEN 'ok | ' || what
		ELSE concat_ws(E'\n', nullif(expect('row home: ' || what, got_row, want), 'ok | row home: ' || what),
			nullif(expect('table home: ' || what, got_table, want), 'ok | table home: ' || what)) END
$$;

-- The staged events are applied to both; counts and states are the same.
CREATE FUNCTION apply_both(what text, want_counts text, want_state text, args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got text[] := '{}'; t text;
BEGIN
	IF args !~ 'dry_run' THEN
		INSERT INTO event_log SELECT * FROM event;
	END IF;
	FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
		got := got || (applied(t, 'event', args) || ': ' || stands(t));
	END LOOP;
	RETURN both_give(what, got[1], got[2], want_counts || ': ' || want_state);
END $$;

-- A query (%s is the target) gives the same in both.
CREATE FUNCTION both_say(what text, query text, want text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got text[] := '{}'; one text; t text;
BEGIN
	FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
		EXECUTE replace(query, '%s', t) INTO one;
		got := array_append(got, one);
	END LOOP;
	RETURN both_give(what, got[1], got[2], want);
END $$;

-- A command (%s is the target) is refused in both, in the same words.
CREATE FUNCTION both_refuse(what text, command text, want_state text, names text DEFAULT NULL, needs text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before text := stands('in_row') || stands('in_table');
	got_row text := refused(what, replace(command, '%s', 'in_row'), want_state, names, needs);
	got_table text := refused(what, replace(command, '%s', 'in_table'), want_state, names, needs);
BEGIN
	RETURN CASE WHEN replace(got_table, 'in_table', 'in_row') = got_row THEN got_row
			ELSE got_row || E'\n    and with the side table: ' || got_table END
		|| CASE WHEN stands('in_row') || stands('in_table') = before THEN '' ELSE E'\nNOT OK | ' || what || ': something was written' END;
END $$;

/*
 * The source's state, recomputed from the log alone: of each key the event at
 * the greatest position, unless a later truncate took it.
 */
CREATE FUNCTION truth() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(id || '=' || coalesce(v, 'NULL') || '@' || source_position, ' ' ORDER BY id::text COLLATE "C"), 'nothing')
	FROM (SELECT DISTINCT ON (id) * FROM event_log WHERE op <> 't' ORDER BY id, source_position DESC) last_word
	WHERE op <> 'd' AND source_position > coalesce((SELECT max(source_position) FROM event_log WHERE op = 't'), '0/0')
$$;

CREATE FUNCTION both_are_true(what text) RETURNS text LANGUAGE sql AS $$
	SELECT both_give(what, stands('in_row', true), stands('in_table', true), truth())
$$;

/*
 * The whole log again and again, from nothing: in every delivery the events
 * come in another order, cut into other batches, some of them twice, at last
 * all of them.  Before each batch but the first the command is run on both
 * targets (%s).  The deliveries come from a hash: the same in every run.
 */
CREATE FUNCTION deliveries(what text, n int, command text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	want text := truth(); t text; wrong text;
BEGIN
	CREATE TEMP TABLE whole_log AS SELECT row_number() OVER (ORDER BY source_position, id) AS n, l.* FROM (SELECT DISTINCT * FROM event_log) l;
	FOR deal IN 1 .. n LOOP
		PERFORM fresh();
		FOR batch IN 1 .. 4 LOOP
			TRUNCATE event;
			INSERT INTO event SELECT l.op, l.id, l.v, l.source_position FROM whole_log l
			WHERE batch = 4 OR hashint8extended(l.n, deal) & 1023 BETWEEN (batch - 1) * 341 AND batch * 341 OR hashint8extended(l.n, deal * 10 + batch) & 3 = 0
			ORDER BY hashint8extended(l.n, deal * 10 + batch);
			FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
				IF batch > 1 AND command IS NOT NULL THEN
					EXECUTE replace(command, '%s', t);
				END IF;
				PERFORM applied(t, 'event');
			END LOOP;
			INSERT INTO event_log SELECT * FROM event;
		END LOOP;
		wrong := both_give(what || ', delivery ' || deal, stands('in_row', true), stands('in_table', true), want);
		EXIT WHEN wrong !~ '^ok';
		wrong := NULL;
	END LOOP;
	DROP TABLE whole_log;
	RETURN coalesce(wrong, format('ok | %s: %s deliveries in both homes', what, n));
END $$;
