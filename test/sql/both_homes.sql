-- The two homes of the tombstone say the same: random events of every kind, in
-- any order, with purges, fences and floors between them; after each batch the
-- counts, the live rows and what is known dead are compared.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA both_homes;
SET search_path = both_homes, public;
\i :testdir/include/apply_helpers.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET client_min_messages = error;

CREATE TABLE event (op text, id int, v text, w text, __old_id int, __same text[], source_position cdc_position);

CREATE FUNCTION make_targets(epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS in_row, in_table;
	CREATE TABLE in_row (id int PRIMARY KEY, v text, w text DEFAULT 'none');
	CREATE TABLE in_table (id int PRIMARY KEY, v text, w text DEFAULT 'none');
	PERFORM cdc_attach('in_row', 'event', tombstones => 'row', unchanged_column => '__same', on_unavailable => 'null', on_same_position => 'keep', epoch => make_targets.epoch);
	PERFORM cdc_attach('in_table', 'event', unchanged_column => '__same', on_unavailable => 'null', on_same_position => 'keep', epoch => make_targets.epoch);
END $$;

/*
 * One batch: n events of log places 1 .. 200 on keys 1 .. 12, drawn by a hash.
 * The place decides the event, so that a place drawn twice is a redelivery.
 */
CREATE FUNCTION draw(seed bigint, batch int, n int) RETURNS void LANGUAGE sql AS $$
	TRUNCATE event;
	INSERT INTO event
	SELECT CASE WHEN kind < 8 THEN 'd' WHEN kind < 10 THEN '-U' WHEN kind = 10 THEN 't' WHEN kind < 14 THEN 'r' ELSE 'u' END,
		CASE WHEN kind <> 10 THEN key END,
		CASE WHEN kind >= 11 AND same & 1 = 0 THEN 'v' || place END, CASE WHEN kind >= 11 AND same & 2 = 0 THEN 'w' || place END,
		CASE WHEN kind >= 36 THEN old_key END,
		CASE WHEN kind >= 14 THEN array_remove(ARRAY[CASE WHEN same & 1 > 0 THEN 'v' END, CASE WHEN same & 2 > 0 THEN 'w' END], NULL) END,
		CASE WHEN kind < 12 OR kind > 12 THEN cdc_position(pg_lsn '1/0' + (place / 4)::numeric, place % 4) END
	FROM (SELECT place, abs(h) % 40 AS kind, 1 + abs(h) / 40 % 12 AS key, 1 + abs(h) / 480 % 12 AS old_key, abs(h) / 5760 % 6 AS same
		FROM (SELECT place, hashint4((place + 1000 * seed)::int) AS h
			FROM (SELECT (1 + abs(hashint8extended(i, seed * 100 + batch)) % 200)::int AS place FROM generate_series(1, n) i) d) e) x
	ORDER BY hashint4(place);
$$;

-- live rows, and the keys that have a tombstone above the fence
CREATE FUNCTION look(t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	live text; dead text; at cdc_position;
BEGIN
	SELECT fence INTO at FROM cdc_targets WHERE target = t::regclass;
	IF t = 'in_row' THEN
		SELECT string_agg(id || '=' || coalesce(v, '') || ',' || coalesce(w, '') || '@' || coalesce(source_position::text, ''), ' ' ORDER BY id) INTO live FROM in_row WHERE NOT deleted;
		SELECT string_agg(id || '@' || source_position, ' ' ORDER BY id) INTO dead FROM in_row WHERE deleted AND (at IS NULL OR source_position > at);
	ELSE
		SELECT string_agg(id || '=' || coalesce(v, '') || ',' || coalesce(w, '') || '@' || coalesce(source_position::text, ''), ' ' ORDER BY id) INTO live FROM in_table;
		SELECT string_agg(id || '@' || source_position, ' ' ORDER BY id) INTO dead FROM in_table_tombstones WHERE at IS NULL OR source_position > at;
	END IF;
	RETURN concat_ws('; ', live, 'dead ' || dead, 'fence ' || at);
END $$;

-- what differs first, if anything; and how much was seen
CREATE FUNCTION compare(seeds int, args text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r text; t text; at cdc_position; seen jsonb := '{}'; c text; n_dead int := 0;
BEGIN
	FOR seed IN 1 .. seeds LOOP
		PERFORM make_targets(seed % 3);
		FOR batch IN 1 .. 8 LOOP
			PERFORM draw(seed, batch, 5 + 3 * batch);
			r := counts(x) FROM cdc_apply('in_row', dry_run => true) x;
			EXECUTE format('SELECT applied(''in_row'', ''event'', %L), applied(''in_table'', ''event'', %L)', args, args) INTO c, t;
			IF c <> t OR c <> r AND args = '' OR look('in_row') <> look('in_table') THEN
				RETURN expect(format('seed %s, batch %s (dry run: %s)', seed, batch, r), t || ': ' || look('in_table'), c || ': ' || look('in_row'));
			END IF;
			SELECT jsonb_object_agg(w, true) || seen INTO seen FROM regexp_split_to_table(regexp_replace(c, '=\d+', '', 'g'), ' ') w;
			-- once more: nothing is written
			r := tuples_of('in_row') || tuples_of('in_table') || tuples_of('in_table_tombstones');
			c := applied('in_row', 'event', args);
			t := applied('in_table', 'event', args);
			IF c <> t OR c ~ '(inserted|updated|deleted|truncated)' OR r <> tuples_of('in_row') || tuples_of('in_table') || tuples_of('in_table_tombstones') THEN
				RETURN expect(format('seed %s, batch %s once more', seed, batch), t, c || ' and nothing written');
			END IF;
			-- now and then a purge, a fence, a floor
			at := cdc_position_with_epoch(cdc_position(pg_lsn '1/0' + (abs(hashint8extended(batch, seed)) % 50)::numeric), seed % 3);
			FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
				CASE abs(hashint8extended(batch, seed + 7)) % 8
					WHEN 0 THEN PERFORM cdc_purge_tombstones(t::regclass, at, max_rows => CASE WHEN seed % 2 = 0 THEN 3 END, force => true);
					-- never down: rows that a truncate killed are known by the fence alone in one home
					WHEN 1 THEN PERFORM cdc_set_fence(target, greatest(fence, at)) FROM cdc_targets WHERE target = t::regclass;
					WHEN 2 THEN PERFORM cdc_set_floor(t::regclass, at);
					WHEN 3 THEN PERFORM cdc_set_floor(t::regclass, NULL);
					ELSE NULL;
				END CASE;
			END LOOP;
			IF look('in_row') <> look('in_table') THEN
				RETURN expect(format('seed %s, after batch %s', seed, batch), look('in_table'), look('in_row'));
			END IF;
		END LOOP;
		n_dead := n_dead + (SELECT count(*) FROM in_table_tombstones);
	END LOOP;
	RETURN expect(format('%s histories of 8 batches', seeds), concat_ws(' ', n_dead > seeds, (SELECT string_agg(k, ' ' ORDER BY k) FROM jsonb_object_keys(seen) k)), 't deleted duplicate fenced inserted stale superseded truncated updated');
END $$;
SELECT compare(25);
-- the same for snapshot rows whose position counts
SELECT compare(12, 'snapshot_position => ''event''');

--
-- Nor does the memory of a call matter: a great batch, with little and with much
--
CREATE FUNCTION great(memory text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c text[] := '{}'; t text; same boolean;
BEGIN
	PERFORM set_config('work_mem', memory, true);
	PERFORM make_targets(0);
	FOREACH t IN ARRAY '{in_row,in_table}'::text[] LOOP
		EXECUTE format('INSERT INTO %s (id, v, source_position) SELECT n, ''before'', cdc_position(pg_lsn ''1/0'' + n::numeric) FROM generate_series(1, 6000) n', t);
		c := c || applied(t, 'event');
		-- the second half goes once more, the rest is purged first
		PERFORM cdc_purge_tombstones(t::regclass, cdc_position(pg_lsn '1/0' + 9000::numeric), force => true);
	END LOOP;
	DELETE FROM event WHERE id % 2 = 0;
	c := c || applied('in_row', 'event');
	c := c || applied('in_table', 'event');
	SELECT NOT EXISTS ((SELECT id, v, w, source_position FROM in_row WHERE NOT deleted EXCEPT SELECT id, v, w, source_position FROM in_table)
		UNION ALL (SELECT id, v, w, source_position FROM in_table EXCEPT SELECT id, v, w, source_position FROM in_row WHERE NOT deleted)) INTO same;
	RETURN concat_ws(' ', CASE WHEN c[1] = c[2] AND c[3] = c[4] AND same THEN 'same in both' ELSE 'not the same' END, c[1], 'then', c[3],
		(SELECT count(*) FROM in_table), (SELECT count(*) FROM in_table_tombstones), (SELECT md5(string_agg(i::text, ' ' ORDER BY id)) FROM in_table i));
END $$;
TRUNCATE event;
INSERT INTO event
	SELECT CASE WHEN h % 9 = 0 THEN 'd' ELSE 'u' END, 1 + h % 8000, CASE WHEN n % 3 > 0 THEN 'v' || n END, repeat('w', h % 40), CASE WHEN h % 31 = 0 THEN 1 + h / 8000 % 8000 END,
		CASE WHEN n % 3 = 0 THEN '{v}'::text[] END, cdc_position(pg_lsn '1/0' + (n % 14000)::numeric, n)
	FROM (SELECT n, abs(hashint4(n)) AS h FROM generate_series(1, 24000) n) e
	UNION ALL SELECT 't', NULL, NULL, NULL, NULL, NULL, cdc_position(pg_lsn '1/0' + 4000::numeric);
CREATE TABLE great_event AS TABLE event;
CREATE TABLE result AS SELECT '64 kB' AS memory, great('64kB') AS result;
TRUNCATE event;
INSERT INTO event TABLE great_event ORDER BY hashint8(id);
INSERT INTO result SELECT '64 MB', great('64MB');
SELECT expect('the same with little memory and with much, in another order', count(DISTINCT result)::text, '1') FROM result;
SELECT expect(memory || ': the same in both homes', left(result, 12), 'same in both') FROM result ORDER BY memory COLLATE "C";

DROP SCHEMA both_homes CASCADE;
