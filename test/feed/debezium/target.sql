-- The target's side of the Debezium feed: landings, deliveries, the oracle.
-- source.sql was run in this database, too: its tables hold the copies of the
-- source that targets are compared with. What is compared with is never taken
-- from the extension.
SET check_function_bodies = off;

CREATE SCHEMA landing;
CREATE SCHEMA feed;

CREATE TABLE feed.tab (tab text PRIMARY KEY, key_columns text[]);
INSERT INTO feed.tab VALUES ('account', '{branch,no}'), ('doc', '{id}'), ('doc_full', '{id}'), ('kind', '{id}'),
  ('kind_full', '{id}'), ('dated', '{day,u,ts}'), ('odd', '{id}'), ('edge', '{id}'),
  ('moved', '{id}');

-- The payload's type differs by form, since loaders' do.
CREATE PROCEDURE feed.new_landing(name text, form text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE landing.%I (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL, key text, value %s)', name || '_' || form,
    CASE WHEN form = 'flat' THEN 'text' WHEN (name, form) = ('string', 'env') THEN 'json' ELSE 'jsonb' END);
END $$;

/*
 * Every event of an engine, read from its envelopes with nothing but jsonb:
 * table, key as one jsonb of the target's values, op, position (its numbers,
 * and as it prints). Events that were sent again are there again.
 */
CREATE FUNCTION feed.events(engine text)
RETURNS TABLE (id bigint, tab text, key jsonb, op text, pos numeric[], shown text) LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY EXECUTE format($q$
    SELECT id, src->>'table', feed.key_of(%L, src->>'table', key::jsonb), value->>'op', pos,
           CASE WHEN src ? 'lsn' THEN ('0/0'::pg_lsn + pos[1])::text ELSE regexp_replace(array_to_string(pos, ':'), '(:0)+$', '') END
    FROM landing.%I, LATERAL (SELECT value::jsonb->'source') s (src),
      LATERAL (SELECT CASE WHEN src ? 'lsn' THEN ARRAY[(src->>'lsn')::numeric]
                      ELSE ARRAY[substring(src->>'file' FROM '[0-9]+$')::numeric, (src->>'pos')::numeric, coalesce((src->>'row')::numeric, 0)] END) p (pos)
    WHERE value IS NOT NULL$q$, engine, engine || '_env');
END $$;

-- Only "dated" has keys that a connector writes in its own way.
CREATE FUNCTION feed.key_of(engine text, tab text, key jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN tab <> 'dated' OR key IS NULL THEN key
    WHEN engine = 'string' THEN jsonb_build_object('u', key->>'u', 'day', rtrim(key->>'day', 'Z')::date, 'ts', rtrim(key->>'ts', 'Z')::timestamp)
    ELSE jsonb_build_object('u', key->>'u', 'day', date '1970-01-01' + (key->>'day')::integer,
      'ts', timestamp '1970-01-01' + (key->>'ts')::bigint * CASE engine WHEN 'double' THEN interval '1 ms' ELSE interval '1 us' END)
  END
$$;

/*
 * The last word on every key: alive or dead, and its position (an LSN says
 * nothing for a snapshot row, binlog coordinates do). A TRUNCATE kills what
 * lies below it; that needs no memory per key.
 */
CREATE PROCEDURE feed.judge(engine text) LANGUAGE plpgsql AS $$
BEGIN
  SET LOCAL client_min_messages = warning;
  DROP TABLE IF EXISTS feed.event, feed.last;
  IF engine ~ '^(wal2json|pgoutput)' THEN
    CREATE TABLE feed.event AS SELECT * FROM feed.events_slot(split_part(engine, '_', 1), split_part(engine, '_', 2));
  ELSE
    CREATE TABLE feed.event AS SELECT * FROM feed.events(engine);
  END IF;
  CREATE INDEX ON feed.event (tab);
  CREATE TABLE feed.last AS
  WITH e AS (
    SELECT e.tab, e.key, e.op, CASE WHEN op <> 'r' OR cardinality(pos) > 1 THEN pos END AS pos,
           CASE WHEN op <> 'r' OR cardinality(pos) > 1 THEN shown END AS shown
    FROM feed.event e WHERE op NOT IN ('t', 'm')),
  s AS (SELECT t.tab, max(t.pos) AS sweep FROM feed.event t WHERE t.op = 't' GROUP BY 1)
  SELECT DISTINCT ON (e.tab, e.key) e.tab, e.key, shown,
    op <> 'd' AND (sweep IS NULL OR pos > sweep) IS TRUE AS live,
    sweep IS NOT NULL AND (pos IS NULL OR pos < sweep) AS swept
  FROM e LEFT JOIN s USING (tab)
  ORDER BY e.tab, e.key, pos DESC NULLS LAST;
  ANALYZE feed.event, feed.last;
END $$;

-- Targets, stage and views of a variant: home is row or side.
CREATE PROCEDURE feed.new_targets(engine text, form text, home text, tabs text[], options text) LANGUAGE plpgsql AS $$
DECLARE
  t text;
BEGIN
  DROP TABLE IF EXISTS feed.stage CASCADE;
  EXECUTE format('CREATE TABLE feed.stage (LIKE landing.%I)', engine || '_' || form);
  FOREACH t IN ARRAY tabs LOOP
    EXECUTE format('DROP TABLE IF EXISTS feed.%I CASCADE', t);
    EXECUTE format('CREATE TABLE feed.%I (LIKE shop.%1$I INCLUDING ALL)', t);
    EXECUTE format('SELECT cdc_attach(%L, tombstones => %L)', 'feed.' || t, CASE home WHEN 'row' THEN 'row' ELSE 'table' END);
    IF engine = 'pgoutput' THEN
      CALL feed.slot_view(t, form);
      CONTINUE;
    END IF;
    EXECUTE format('SELECT cdc_event_view(%L, %L, ''feed.stage'', ''value'', %L, source_table => %L%s)',
      'feed.' || t || '_events', 'feed.' || t,
      CASE WHEN form = 'flat' THEN 'debezium-flat' WHEN engine = 'wal2json' THEN engine ELSE 'debezium' END,
      'shop.' || t, options);
  END LOOP;
END $$;

-- Sequences, outcomes and times of all calls of a variant.
CREATE TABLE feed.call (
  nr bigint GENERATED ALWAYS AS IDENTITY, variant text, tab text, batch integer, seconds float8,
  events bigint, inserted bigint, updated bigint, deleted bigint, stale bigint,
  duplicate bigint, superseded bigint, fenced bigint, ignored bigint, truncated bigint);

-- The queue of a variant, batch after batch, each applied to every table.
CREATE PROCEDURE feed.deliver(variant text, source text, tabs text[], options text DEFAULT '') LANGUAGE plpgsql AS $$
DECLARE
  r record;
  b integer;
  t text;
  started timestamptz;
BEGIN
  FOR b IN SELECT DISTINCT batch FROM feed.queue ORDER BY 1 LOOP
    TRUNCATE feed.stage;
    EXECUTE format('INSERT INTO feed.stage SELECT l.* FROM feed.queue q JOIN landing.%I l ON l.id = q.n
                    WHERE q.batch = %s ORDER BY q.ord', source, b);
    COMMIT;
    FOREACH t IN ARRAY tabs LOOP
      started := clock_timestamp();
      EXECUTE format('SELECT * FROM cdc_apply(%L, %L%s)', 'feed.' || t, 'feed.' || t || '_events', options) INTO r;
      INSERT INTO feed.call OVERRIDING USER VALUE VALUES (0, variant, t, b, extract(epoch FROM clock_timestamp() - started),
        r.events, r.inserted, r.updated, r.deleted, r.stale, r.duplicate, r.superseded, r.fenced, r.ignored, r.truncated);
      COMMIT;
    END LOOP;
  END LOOP;
END $$;

-- A target's state: key as jsonb, dead or alive, position, image.
CREATE FUNCTION feed.state(t text, home text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  key text := (SELECT format('jsonb_build_object(%s)', string_agg(format('%L, %I', c, c), ', ')) FROM feed.tab, unnest(key_columns) c WHERE tab = t);
  tombstones regclass;
BEGIN
  IF home = 'row' THEN
    RETURN format('SELECT %s AS key, deleted, source_position::text AS pos FROM feed.%I', key, t);
  END IF;
  SELECT c.tombstones INTO STRICT tombstones FROM cdc_targets c WHERE target = format('feed.%I', t)::regclass;
  RETURN format('SELECT %s AS key, false AS deleted, source_position::text AS pos FROM feed.%I
                 UNION ALL SELECT %1$s, true, source_position::text FROM %3$s', key, t, tombstones);
END $$;

-- Keys whose life or position is not that of their last event. A key that the
-- TRUNCATE killed may be gone or remembered, but not alive.
CREATE FUNCTION feed.wrong_keys(t text, home text) RETURNS TABLE (key jsonb, expected text, got text) LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY EXECUTE format(
    'SELECT coalesce(s.key, l.key), l.live || '' '' || coalesce(l.shown, ''none''), (NOT s.deleted) || '' '' || coalesce(s.pos, ''none'')
     FROM (%s) s FULL JOIN (SELECT * FROM feed.last WHERE tab = %L) l ON s.key = l.key
     WHERE CASE WHEN l.swept THEN NOT s.deleted
                ELSE (NOT s.deleted, s.pos) IS DISTINCT FROM (l.live, l.shown) END', feed.state(t, home), t);
END $$;

/*
 * Every cell in which a target and the source's copy differ; a row that is on
 * one side only gives one line without a column. With lossy, as a connector
 * with double and connect loses it, times without a zone are compared to the
 * millisecond and numerics as double precision.
 */
CREATE FUNCTION feed.differing(t text, home text, lossy boolean DEFAULT false)
RETURNS TABLE (tab text, key jsonb, col text, source text, target text) LANGUAGE plpgsql AS $$
DECLARE
  keys text[] := (SELECT key_columns FROM feed.tab f WHERE f.tab = t);
  pairs text := (SELECT string_agg(format('%L, coalesce(s.%I, g.%2$I)', c, c), ', ') FROM unnest(keys) c);
  joined text := (SELECT string_agg(format('s.%I = g.%1$I', c), ' AND ') FROM unnest(keys) c);
  target text := format('(SELECT * FROM feed.%I %s) g', t, CASE home WHEN 'row' THEN 'WHERE NOT deleted' END);
  one text;
  query text;
BEGIN
  query := format('SELECT %1$L, jsonb_build_object(%2$s), NULL, CASE WHEN s.%3$I IS NOT NULL THEN ''row'' END, CASE WHEN g.%3$I IS NOT NULL THEN ''row'' END
                   FROM shop.%1$I s FULL JOIN %4$s ON %5$s WHERE (s.%3$I IS NOT NULL AND g.%3$I IS NOT NULL) IS NOT TRUE',
                  t, pairs, keys[1], target, joined);
  FOR one IN
    SELECT format('SELECT %L, jsonb_build_object(%s), %L, s.%3$I::text, g.%3$I::text FROM shop.%1$I s JOIN %4$s ON %5$s WHERE ',
                  t, pairs, attname, target, joined) ||
           format(CASE
             WHEN lossy AND atttypid IN ('time'::regtype, 'timestamp'::regtype)
               THEN 'date_trunc(''milliseconds'', s.%1$I) IS DISTINCT FROM date_trunc(''milliseconds'', g.%1$I)'
             WHEN lossy AND atttypid IN ('numeric'::regtype, 'money'::regtype)
               THEN 's.%1$I::numeric::float8 IS DISTINCT FROM g.%1$I::numeric::float8'
             WHEN lossy AND atttypid = 'numeric[]'::regtype THEN 's.%1$I::float8[] IS DISTINCT FROM g.%1$I::float8[]'
             WHEN atttypid IN ('json'::regtype, 'xml'::regtype, 'point'::regtype) THEN 's.%1$I::text IS DISTINCT FROM g.%1$I::text'
             ELSE 's.%1$I IS DISTINCT FROM g.%1$I' END, attname)
    FROM pg_attribute WHERE attrelid = format('shop.%I', t)::regclass AND attnum > 0 AND attname <> ALL (keys) ORDER BY attnum
  LOOP
    query := query || ' UNION ALL ' || one;
  END LOOP;
  RETURN QUERY EXECUTE query;
END $$;

-- Does the feed itself hold, and was it put to the test?
CREATE FUNCTION feed.self_check(kills integer) RETURNS TABLE (what text, good boolean) LANGUAGE sql AS $$
  SELECT format('the last events leave the source''s keys%s', ', but: ' || string_agg(tab || ' ' || key, '; ')), count(*) = 0 FROM (
    (SELECT tab, key FROM feed.last WHERE live EXCEPT ALL SELECT * FROM feed.source_keys())
    UNION ALL
    (SELECT * FROM feed.source_keys() k WHERE tab IN (SELECT e.tab FROM feed.last e) EXCEPT ALL SELECT tab, key FROM feed.last WHERE live)) d
  UNION ALL
  SELECT format('%s kills made it send %s events again', kills, coalesce(sum(n - 1), 0)), sum(n - 1) > 0
  FROM (SELECT count(*) AS n FROM feed.event WHERE op <> 'r' GROUP BY tab, key, op, pos) d
  UNION ALL
  SELECT format('%s events of transactions open at the snapshot have lower positions than it', count(*)), count(*) > 0
  FROM feed.event WHERE op <> 'r' AND pos < (SELECT max(pos) FROM feed.event WHERE op = 'r')
  UNION ALL
  SELECT format('no key has two events at one position (%s have)', count(*)), count(*) = 0
  FROM (SELECT FROM feed.event WHERE op NOT IN ('r', 't') GROUP BY tab, key, pos HAVING count(DISTINCT op) > 1) d
  UNION ALL
  SELECT 'there are creates, updates, deletes, snapshot rows and truncates', count(DISTINCT op) = 5
  FROM feed.event WHERE op IN ('c', 'u', 'd', 'r', 't')
$$;

CREATE FUNCTION feed.self_check_binlog(kills integer) RETURNS TABLE (what text, good boolean) LANGUAGE sql AS $$
  SELECT * FROM feed.self_check(kills) WHERE what NOT LIKE '%open at the snapshot%'
  UNION ALL
  SELECT format('events with up to %s rows, in %s binlog files', max(pos[3]) + 1, count(DISTINCT pos[1])), max(pos[3]) > 0 AND count(DISTINCT pos[1]) > 1
  FROM feed.event WHERE op <> 'r'
$$;

CREATE FUNCTION feed.source_keys() RETURNS TABLE (tab text, key jsonb) LANGUAGE plpgsql AS $$
DECLARE
  t record;
BEGIN
  FOR t IN SELECT f.tab, (SELECT string_agg(format('%L, %I', c, c), ', ') FROM unnest(key_columns) c) AS key FROM feed.tab f LOOP
    RETURN QUERY EXECUTE format('SELECT %L, jsonb_build_object(%s) FROM shop.%1$I', t.tab, t.key);
  END LOOP;
END $$;

-- What a connector is known to lose (known.sql), and in how many cells it was
-- seen to.
CREATE TABLE feed.known (
  nr integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, engine text, form text, tab text, col text, why text);
CREATE TABLE feed.known_seen (nr integer PRIMARY KEY, cells bigint);

-- Every cell that differs in the variant at hand, and every wrong key.
CREATE TABLE feed.cell (tab text, key jsonb, col text, source text, target text);
CREATE TABLE feed.key (tab text, key jsonb, expected text, got text);

CREATE PROCEDURE feed.compare(engine text, form text, home text, tabs text[]) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  t text;
BEGIN
  CALL feed.judge(CASE WHEN engine ~ 'wal2json|pgoutput' THEN engine || '_' || form ELSE engine END);
  TRUNCATE feed.cell, feed.key;
  FOREACH t IN ARRAY tabs LOOP
    INSERT INTO feed.cell SELECT * FROM feed.differing(t, home, engine = 'double');
    INSERT INTO feed.key SELECT t, w.* FROM feed.wrong_keys(t, home) w;
  END LOOP;
  -- a flat feed knows nothing of the TRUNCATE: what it killed stays
  IF form = 'flat' THEN
    DELETE FROM feed.key k USING feed.last l WHERE l.tab = k.tab AND l.key = k.key AND l.swept;
  END IF;
  INSERT INTO feed.known_seen
  SELECT k.nr, count(*) FROM feed.cell c JOIN feed.known k ON feed.is_known(k, compare.engine, compare.form, c) GROUP BY 1
  ON CONFLICT ON CONSTRAINT known_seen_pkey DO UPDATE SET cells = greatest(known_seen.cells, excluded.cells);
END $$;

CREATE FUNCTION feed.is_known(k feed.known, e text, f text, c feed.cell) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT e ~ k.engine AND f ~ k.form AND c.tab = k.tab AND (c.col = k.col OR c.col IS NULL AND k.col = '(row)')
    AND (k.col <> '(row)' OR EXISTS (SELECT FROM feed.last l WHERE l.tab = c.tab AND l.key = c.key AND l.swept))
$$;

-- wrong keys, cells that differ, cells known to be lost, calls with a wrong
-- sum, events, seconds
CREATE FUNCTION feed.result(e text, f text, tabs text[])
RETURNS TABLE (wrong bigint, cells bigint, known bigint, bad_sums bigint, events bigint, seconds numeric) LANGUAGE sql AS $$
  WITH c AS (SELECT c, EXISTS (SELECT FROM feed.known k WHERE feed.is_known(k, e, f, c)) AS known FROM feed.cell c)
  SELECT (SELECT count(*) FROM feed.key), (SELECT count(*) FROM c WHERE NOT c.known), (SELECT count(*) FROM c WHERE c.known),
    count(*) FILTER (WHERE l.events <> inserted + updated + deleted + stale + duplicate + superseded + fenced + ignored + truncated),
    coalesce(sum(l.events), 0)::bigint, round(coalesce(sum(l.seconds), 0)::numeric, 1)
  FROM feed.call l
$$;

-- What to read when a variant fails: each differing cell and each wrong key.
CREATE FUNCTION feed.unlike(e text, f text) RETURNS TABLE (tab text, key text, col text, source text, target text) LANGUAGE sql AS $$
  SELECT tab, left(key::text, 60), coalesce(col, '(row)'), left(source, 60), left(target, 60) FROM feed.cell c
  WHERE NOT EXISTS (SELECT FROM feed.known k WHERE feed.is_known(k, e, f, c))
  UNION ALL
  SELECT tab, left(key::text, 60), '(position)', expected, got FROM feed.key
  ORDER BY 1, 3, 2
$$;
