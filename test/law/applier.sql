/*
 * An applier in PL/pgSQL, right or wrong on purpose, to test the law test: the
 * right one must pass, each wrong one must be caught. It walks event by event
 * where the oracle works on sets. It has both homes, and fence, floor, purge and
 * epoch of its own. The mistakes:
 *
 * no_guard: the batch's winner is written whatever is stored
 * equal_wins: a change at the stored position is written again
 * forgets_deletes: a delete removes the row and its position
 * snapshot_wins: snapshot rows beat streamed events
 * text_order: positions are compared as text
 * last_arrived: of a batch the last row of each key wins
 * before_image_wins: a before image beats its after image
 * old_key_stays: a key move leaves the old row
 * no_ordinal: only epoch and log coordinate are compared
 * no_epoch: the epoch is not compared
 * high_water: nothing at or below the target's greatest position is applied
 * fills_from_row_only: an unchanged value is only looked for in the stored row
 * fills_across_delete: an unchanged value is taken from before a delete
 * revives_values: a revived row inherits unchanged values from the dead one
 * placeholder_stored: the placeholder is a value
 * ties_pass: two images at one position are not refused
 * rewrites_duplicates: a duplicate is written again, unchanged
 * loses_target_columns: an update sets target-only columns back
 * dry_run_writes: a dry run writes
 * keeps_staging: consumed rows stay in staging
 * fence_ignored: an event at or below the fence brings a dead key back
 * fence_exclusive: an event at the fence passes it
 * fence_hits_live: the fence holds for live keys as well
 * fenced_deletes_pass: a delete at or below the fence is remembered
 * unplaced_passes_fence: a row without a position passes the fence
 * floor_ignored: events at or below the floor are applied
 * unplaced_passes_floor: a row without a position passes the floor
 * as_of_lowers_floor: attaching sets the floor, also to a lower one
 * purge_sets_no_fence: tombstones go, the fence stays
 * purge_lowers_fence: a purge sets the fence, also to a lower one
 * purge_takes_all: a purge removes tombstones above its position
 * detach_forgets: fence and floor go when the target is detached
 * epoch_ignored: positions of epoch 0 stay there after a new epoch
 * forgets_deletes_aside: the side table keeps no tombstone
 * tombstone_stays: a revived key keeps its tombstone in the side table
 * tombstone_stands: a tombstone in the side table does not move up
 * truncate_ignored: a truncate is counted and kills nothing
 * truncate_kills_all: a truncate kills rows above it
 * truncate_spares_unplaced: a truncate leaves rows without a position
 * truncate_sets_no_fence: a truncate kills and is forgotten
 * truncate_supersedes_nothing: the call's events below a truncate are judged as ever
 * late_truncate_kills: a truncate below the fence kills
 * truncates_all_count: every truncate of a call counts
 * killed_rows_count: rows that a truncate kills count as deleted
 * values_cross_truncate: an unchanged value is taken from a row that a truncate killed
 * values_cross_fence: an unchanged value is taken from an event at or below fence or floor
 * dry_run_raises_fence: a truncate in a dry run raises the fence
 */
-- What is known of an attached home, by its schema.
CREATE UNLOGGED TABLE law.registry (
  home  text PRIMARY KEY,
  fence numeric[], floor numeric[], high numeric[],
  epoch bigint NOT NULL
);

CREATE FUNCTION law.attach(as_of numeric[], epoch bigint) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO law.registry VALUES (current_schema(), NULL, as_of, NULL, epoch)
  ON CONFLICT (home) DO UPDATE
  SET fence = excluded.fence, floor = excluded.floor, high = excluded.high, epoch = excluded.epoch
$$;

CREATE FUNCTION law.attach_again(mistake text, as_of numeric[]) RETURNS void
LANGUAGE sql AS $$
  UPDATE law.registry
  SET fence = CASE WHEN mistake <> 'detach_forgets' THEN fence END,
      floor = CASE WHEN mistake = 'detach_forgets' OR mistake = 'as_of_lowers_floor' AND as_of IS NOT NULL THEN as_of
                   ELSE greatest(floor, as_of) END
  WHERE home = current_schema()
$$;

CREATE FUNCTION law.set_mark(kind text, pos numeric[]) RETURNS void
LANGUAGE sql AS $$
  UPDATE law.registry
  SET fence = CASE WHEN kind = 'fence' THEN pos ELSE fence END,
      floor = CASE WHEN kind = 'floor' THEN pos ELSE floor END
  WHERE home = current_schema()
$$;

CREATE FUNCTION law.new_epoch() RETURNS bigint
LANGUAGE sql AS $$
  UPDATE law.registry SET epoch = epoch + 1 WHERE home = current_schema() RETURNING epoch
$$;

CREATE FUNCTION law.purge(mistake text, up_to numeric[], max_rows bigint, force boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  k record;
  n bigint := 0;
BEGIN
  IF NOT force AND NOT EXISTS (SELECT FROM law.registry WHERE home = current_schema() AND high >= up_to) THEN
    RAISE EXCEPTION 'above all that was applied' USING ERRCODE = '22023';
  END IF;
  UPDATE law.registry
  SET fence = CASE mistake WHEN 'purge_lowers_fence' THEN up_to WHEN 'purge_sets_no_fence' THEN fence
                           ELSE greatest(fence, up_to) END
  WHERE home = current_schema();
  FOR k IN SELECT ka, kb FROM state
           WHERE NOT live AND (law.parse(pos) <= up_to OR mistake = 'purge_takes_all') LIMIT max_rows LOOP
    CALL law.remove(k.ka, k.kb, true);
    n := n + 1;
  END LOOP;
  RETURN n;
END
$$;

CREATE TYPE law.incoming_event AS (ka text, kb text, oa text, ob text, op text, pos numeric[], vals jsonb, gone text[],
                                   class text);

-- '2@16/B3:4' or '47:3' as {2, 22*2^32+179, 4, 0}.
CREATE FUNCTION law.parse(t text) RETURNS numeric[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  parts text[] := string_to_array(regexp_replace(t, '^[0-9]+@', ''), ':');
  epoch numeric := coalesce(substring(t FROM '^([0-9]+)@')::numeric, 0);
  head  numeric;
BEGIN
  IF t IS NULL THEN
    RETURN NULL;
  ELSIF parts[1] LIKE '%/%' THEN
    head := parts[1]::pg_lsn - '0/0'::pg_lsn;
    IF head = 0 THEN RETURN NULL; END IF;
  ELSE
    head := parts[1];
  END IF;
  RETURN ARRAY[epoch, head, coalesce(parts[2], '0')::numeric, coalesce(parts[3], '0')::numeric];
END
$$;

-- In the layout at hand: staging as the applier reads it.
CREATE PROCEDURE law.make_incoming()
LANGUAGE plpgsql AS $$
DECLARE
  names text[] := (SELECT array_agg(attname) FROM pg_attribute WHERE attrelid = 'staging'::regclass AND attnum > 0);
BEGIN
  EXECUTE format(
    'CREATE VIEW incoming AS SELECT %s, op::text AS op, law.parse(%s) AS pos, jsonb_build_object(%s) AS vals,
       %s AS gone, NULL::text AS class FROM staging
     WHERE op::text IS DISTINCT FROM ''9''',
    CASE WHEN 'id' = ANY (names)
         THEN $q$id::text AS ka, CASE WHEN id IS NOT NULL THEN '' END AS kb,
                 __old_id::text AS oa, CASE WHEN __old_id IS NOT NULL THEN '' END AS ob$q$
         ELSE 'a::text AS ka, b AS kb, __old_a::text AS oa, __old_b AS ob' END,
    CASE WHEN 'source_position' = ANY (names) THEN 'source_position::text'
         ELSE $q$source_lsn::text || coalesce(':' || source_ordinal, '')$q$ END,
    (SELECT string_agg(format('%L, %I::text', c, c), ', ') FROM unnest('{n,q,note,body,tags,doc,raw}'::text[]) AS c),
    CASE WHEN (SELECT atttypid FROM pg_attribute WHERE attrelid = 'staging'::regclass AND attname = '__unchanged')
              = 'jsonb'::regtype
         THEN 'ARRAY(SELECT jsonb_array_elements_text(__unchanged))' ELSE $q$coalesce(__unchanged::text[], '{}')$q$ END);
END
$$;

CREATE FUNCTION law.compare(mistake text, a numeric[], b numeric[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  kind text;
BEGIN
  IF a IS NULL OR b IS NULL THEN
    RETURN (a IS NOT NULL)::integer - (b IS NOT NULL)::integer;
  ELSIF mistake = 'text_order' THEN
    kind := (SELECT s.kind FROM law.setting s);
    RETURN sign(CASE WHEN law.print(kind, a) COLLATE "C" > law.print(kind, b) THEN 1
                     WHEN law.print(kind, a) = law.print(kind, b) THEN 0 ELSE -1 END);
  ELSIF mistake = 'no_ordinal' THEN
    a := a[1:2]; b := b[1:2];
  ELSIF mistake = 'no_epoch' THEN
    a := a[2:]; b := b[2:];
  END IF;
  RETURN (a > b)::integer - (a < b)::integer;
END
$$;

CREATE FUNCTION law.rank(mistake text, class text, implied boolean) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN implied THEN 2 WHEN class = 'upsert' THEN 5 WHEN class = 'delete' THEN 4
              WHEN class = 'retraction' THEN CASE WHEN mistake = 'before_image_wins' THEN 6 ELSE 3 END ELSE 1 END
$$;

-- The value of a column that event i does not carry; hit says whether there is one.
CREATE FUNCTION law.look_back(mistake text, evs law.incoming_event[], stored jsonb, marks law.registry,
                              i integer, col text, OUT hit boolean, OUT val text)
LANGUAGE plpgsql AS $$
DECLARE
  e     law.incoming_event := evs[i];
  o     law.incoming_event;
  moved boolean;
  since numeric[];
  fa    text := e.ka;
  fb    text := e.kb;
  pos   numeric[] := e.pos;
  rank  integer := 5;
  row   jsonb;
  best  integer;
  best_implied boolean;
  r     integer;
BEGIN
  IF e.class = 'snapshot' THEN rank := 1; END IF;
  LOOP
    moved := e.oa IS NOT NULL AND (e.oa, e.ob) IS DISTINCT FROM (e.ka, e.kb);
    IF moved THEN
      fa := e.oa; fb := e.ob; since := e.pos; rank := 0;
    END IF;
    row := stored -> (fa || '|' || fb);
    best := NULL;
    IF mistake <> 'fills_from_row_only' THEN
      FOR j IN 1 .. cardinality(evs) LOOP
        o := evs[j];
        CONTINUE WHEN o.class = 'ignored';
        FOR implied IN 0 .. 1 LOOP
          IF implied = 0 THEN
            CONTINUE WHEN (o.ka, o.kb) IS DISTINCT FROM (fa, fb);
          ELSE
            CONTINUE WHEN o.oa IS NULL OR (o.oa, o.ob) IS DISTINCT FROM (fa, fb) OR (o.ka, o.kb) = (fa, fb);
          END IF;
          r := law.rank('', o.class, implied = 1);
          CONTINUE WHEN law.compare('', o.pos, pos) * 10 + sign(r - rank) >= 0;
          IF mistake <> 'values_cross_fence' THEN
            CONTINUE WHEN marks.floor IS NOT NULL AND law.compare('', o.pos, marks.floor) <= 0;
            CONTINUE WHEN marks.fence IS NOT NULL AND (row ->> 'live')::boolean IS NOT TRUE
                          AND law.compare('', o.pos, marks.fence) <= 0;
          END IF;
          IF implied = 0 AND o.class = 'retraction' THEN
            CONTINUE WHEN EXISTS (SELECT FROM unnest(evs) AS u
                                  WHERE (u.ka, u.kb, u.class) = (fa, fb, 'upsert') AND u.pos = o.pos);
          END IF;
          IF row IS NOT NULL THEN
            CONTINUE WHEN law.compare('', o.pos, law.parse(row ->> 'pos')) < 0;
            CONTINUE WHEN law.compare('', o.pos, law.parse(row ->> 'pos')) = 0
                          AND NOT (o.pos IS NOT NULL AND NOT (row ->> 'live')::boolean AND r = 5);
          END IF;
          CONTINUE WHEN mistake = 'fills_across_delete' AND (implied = 1 OR o.class IN ('delete', 'retraction'));
          IF best IS NULL
             OR law.compare('', o.pos, evs[best].pos) * 10
                + sign(r - law.rank('', evs[best].class, best_implied)) > 0 THEN
            best := j; best_implied := implied = 1;
          END IF;
        END LOOP;
      END LOOP;
    END IF;
    IF best IS NULL THEN
      hit := row IS NOT NULL AND ((row ->> 'live')::boolean OR mistake = 'revives_values' AND NOT row ? 'killed'
                                  OR mistake = 'values_cross_truncate' AND row ? 'killed')
               AND (since IS NULL OR law.compare('', law.parse(row ->> 'pos'), since) < 0);
      val := row -> 'vals' ->> col;
      RETURN;
    END IF;
    e := evs[best];
    IF best_implied OR e.class IN ('delete', 'retraction') THEN
      hit := false;
      RETURN;
    ELSIF col <> ALL (e.gone) THEN
      hit := true;
      val := e.vals ->> col;
      RETURN;
    END IF;
    pos := e.pos;
    rank := law.rank('', e.class, false);
  END LOOP;
END
$$;

CREATE FUNCTION law.apply(mistake text, consume boolean, dry boolean,
                          OUT events bigint, OUT inserted bigint, OUT updated bigint, OUT deleted bigint,
                          OUT stale bigint, OUT duplicate bigint, OUT superseded bigint, OUT fenced bigint,
                          OUT ignored bigint, OUT truncated bigint, OUT skipped boolean)
LANGUAGE plpgsql AS $$
DECLARE
  s       law.setting;
  mark    text := '__debezium_unavailable_value';
  evs     law.incoming_event[] := '{}';
  e       law.incoming_event;
  w       law.incoming_event;
  stored  jsonb := (SELECT coalesce(jsonb_object_agg(ka || '|' || kb, to_jsonb(t)), '{}') FROM state t);
  highest numeric[] := (SELECT max(law.parse(pos)) FROM state);
  k       record;
  best    integer;
  implied boolean;
  c       integer;
  outcome text;
  row     jsonb;
  new     jsonb;
  live    boolean;
  back    record;
  writes  jsonb[] := '{}';
  marks   law.registry;
  topmost numeric[];
  sweep   numeric[];
  truncates integer := 0;
  reached boolean := false;
  kept    law.incoming_event[] := '{}';
BEGIN
  SELECT * INTO s FROM law.setting;
  SELECT * INTO marks FROM law.registry WHERE home = current_schema();
  events := 0; inserted := 0; updated := 0; deleted := 0; stale := 0; duplicate := 0; superseded := 0; fenced := 0;
  ignored := 0; truncated := 0; skipped := false;
  FOR e IN SELECT * FROM incoming LOOP
    events := events + 1;
    e.class := law.class(e.op, e.ka, e.kb, e.pos, e.vals);
    IF e.class = 'unknown' THEN
      RAISE EXCEPTION 'unknown op' USING ERRCODE = '22023';
    ELSIF e.class = 'ignored' THEN
      ignored := ignored + 1;
      CONTINUE;
    ELSIF num_nulls(e.ka, e.kb) > 0 AND e.class <> 'truncate' OR e.class <> 'snapshot' AND e.pos IS NULL THEN
      RAISE EXCEPTION 'no key or no position' USING ERRCODE = '23502';
    END IF;
    IF e.class = 'snapshot' AND s.snap = 'none' THEN e.pos := NULL; END IF;
    IF e.pos[1] = 0 AND marks.epoch > 0 AND mistake <> 'epoch_ignored' THEN
      e.pos[1] := marks.epoch;
    END IF;
    topmost := CASE WHEN e.class = 'snapshot' THEN topmost ELSE greatest(topmost, e.pos) END;
    IF e.class = 'truncate' THEN
      truncates := truncates + 1;
      IF sweep IS NOT NULL AND mistake <> 'truncates_all_count' THEN
        superseded := superseded + 1;
      ELSE
        truncated := truncated + 1;
      END IF;
      sweep := greatest(sweep, e.pos);
      CONTINUE;
    END IF;
    IF mistake <> 'placeholder_stored' OR s.nulls THEN
      e.gone := e.gone || ARRAY(
        SELECT key FROM jsonb_each_text(e.vals)
        WHERE value IS NULL AND s.nulls
           OR value IN (mark, '{' || mark || '}', '"' || mark || '"', '\x' || encode(mark::bytea, 'hex')));
    END IF;
    evs := evs || e;
  END LOOP;

  -- a truncate comes before all that is above it
  IF sweep IS NOT NULL THEN
    reached := (marks.fence IS NULL OR sweep > marks.fence OR mistake = 'late_truncate_kills')
               AND (marks.floor IS NULL OR sweep > marks.floor);
    IF NOT reached THEN
      stale := stale + truncates;
      superseded := superseded - (truncates - truncated);
      truncated := 0;
    END IF;
  END IF;
  IF reached THEN
    IF mistake <> 'truncate_supersedes_nothing' THEN
      FOREACH e IN ARRAY evs LOOP
        IF e.pos IS NULL OR e.pos <= sweep THEN
          superseded := superseded + 1;
        ELSE
          kept := kept || e;
        END IF;
      END LOOP;
      evs := kept;
    END IF;
    IF mistake <> 'truncate_sets_no_fence' THEN marks.fence := greatest(marks.fence, sweep); END IF;
    IF mistake <> 'truncate_ignored' THEN
      FOR row IN SELECT value FROM jsonb_each(stored)
                 WHERE (value ->> 'live')::boolean
                   AND CASE WHEN value ->> 'pos' IS NULL THEN mistake <> 'truncate_spares_unplaced'
                            ELSE law.parse(value ->> 'pos') <= sweep OR mistake = 'truncate_kills_all' END LOOP
        row := row || jsonb_build_object('live', false, 'pos', law.print(s.kind, sweep), 'killed', true);
        stored := jsonb_set(stored, ARRAY[row ->> 'ka' || '|' || (row ->> 'kb')], row);
        writes := writes || row;
        deleted := deleted + (mistake = 'killed_rows_count')::integer;
      END LOOP;
    END IF;
  END IF;

  FOR k IN SELECT DISTINCT key.ka, key.kb
           FROM unnest(evs) AS v, LATERAL (VALUES (v.ka, v.kb), (v.oa, v.ob)) AS key (ka, kb)
           WHERE key.ka IS NOT NULL LOOP
    best := NULL;
    FOR i IN 1 .. cardinality(evs) LOOP
      e := evs[i];
      IF (e.ka, e.kb) = (k.ka, k.kb) THEN
        superseded := superseded + 1;
        IF best IS NOT NULL THEN
          c := law.compare(mistake, e.pos, evs[best].pos);
          IF c = 0 THEN
            c := sign(law.rank(mistake, e.class, false) - law.rank(mistake, evs[best].class, implied));
          END IF;
          IF mistake = 'last_arrived' THEN c := 1; END IF;
        END IF;
        IF best IS NULL OR c > 0 THEN best := i; implied := false; END IF;
      ELSIF (e.oa, e.ob) = (k.ka, k.kb) AND mistake <> 'old_key_stays' THEN
        IF best IS NOT NULL THEN
          c := law.compare(mistake, e.pos, evs[best].pos);
          IF c = 0 THEN c := sign(2 - law.rank(mistake, evs[best].class, implied)); END IF;
        END IF;
        IF best IS NULL OR c > 0 THEN best := i; implied := true; END IF;
      END IF;
    END LOOP;
    CONTINUE WHEN best IS NULL;
    w := evs[best];
    row := stored -> (k.ka || '|' || k.kb);
    live := NOT implied AND w.class IN ('upsert', 'snapshot');
    c := law.compare(mistake, w.pos, law.parse(row ->> 'pos'));
    IF row IS NULL OR mistake = 'no_guard' OR mistake = 'snapshot_wins' AND w.class = 'snapshot' THEN
      c := 1;
    ELSIF c = 0 AND (mistake = 'equal_wins' OR w.class = 'upsert' AND live AND NOT (row ->> 'live')::boolean) THEN
      c := 1;
    END IF;
    IF mistake = 'high_water' AND law.compare('', w.pos, highest) <= 0 THEN c := -1; END IF;
    IF marks.floor IS NOT NULL AND law.compare('', w.pos, marks.floor) <= 0 AND mistake <> 'floor_ignored'
       AND NOT (w.pos IS NULL AND mistake = 'unplaced_passes_floor') THEN
      c := -1;
    ELSIF marks.fence IS NOT NULL AND mistake <> 'fence_ignored'
          AND ((row ->> 'live')::boolean IS NOT TRUE OR mistake = 'fence_hits_live')
          AND law.compare('', w.pos, marks.fence) < (CASE WHEN mistake = 'fence_exclusive' THEN 0 ELSE 1 END)
          AND NOT (w.pos IS NULL AND mistake = 'unplaced_passes_fence')
          AND NOT (NOT live AND mistake = 'fenced_deletes_pass') THEN
      c := -2;
    END IF;
    outcome := CASE WHEN c = -2 THEN 'fenced' WHEN c < 0 THEN 'stale' WHEN c = 0 THEN 'duplicate' WHEN NOT live THEN 'deleted'
                    WHEN (row ->> 'live')::boolean THEN 'updated' ELSE 'inserted' END;
    IF NOT implied THEN
      superseded := superseded - 1;
      inserted := inserted + (outcome = 'inserted')::integer;
      updated := updated + (outcome = 'updated')::integer;
      deleted := deleted + (outcome = 'deleted')::integer;
      stale := stale + (outcome = 'stale')::integer;
      duplicate := duplicate + (outcome = 'duplicate')::integer;
      fenced := fenced + (outcome = 'fenced')::integer;
    END IF;
    IF c = 0 AND mistake = 'rewrites_duplicates' THEN
      new := row;
      live := (row ->> 'live')::boolean;
    ELSE
      CONTINUE WHEN c <= 0;
      IF s.on_tie = 'error' AND mistake <> 'ties_pass' AND NOT implied THEN
        FOREACH e IN ARRAY evs LOOP
          IF (e.ka, e.kb) = (k.ka, k.kb) AND e.pos IS NOT DISTINCT FROM w.pos
             AND (w.class = 'upsert' AND e.class = 'delete'
                  OR w.class = e.class AND (e.vals - e.gone, e.gone) IS DISTINCT FROM (w.vals - w.gone, w.gone)) THEN
            RAISE EXCEPTION 'tie' USING ERRCODE = '21000';
          END IF;
        END LOOP;
      END IF;
      new := jsonb_build_object('ka', k.ka, 'kb', k.kb, 'live', live, 'pos', law.print(s.kind, w.pos), 'vals', w.vals,
                                'own', CASE WHEN outcome = 'updated' AND mistake <> 'loses_target_columns'
                                            THEN row ->> 'own' ELSE '42' END);
      IF live THEN
        FOR i IN 1 .. cardinality(w.gone) LOOP
          SELECT * INTO back FROM law.look_back(mistake, evs, stored, marks, best, w.gone[i]);
          IF NOT back.hit AND NOT s.nulls AND s.unav = 'error' THEN
            RAISE EXCEPTION 'unavailable' USING ERRCODE = '55000';
          END IF;
          new := jsonb_set(new, ARRAY['vals', w.gone[i]],
                           coalesce(to_jsonb(CASE WHEN back.hit THEN back.val
                                                  WHEN s.nulls THEN s.defaults ->> w.gone[i] END), 'null'));
        END LOOP;
      ELSE
        new := jsonb_set(new, '{vals}', coalesce(nullif(row -> 'vals', 'null'), s.defaults - 'own'));
      END IF;
    END IF;
    writes := writes || new;
  END LOOP;

  UPDATE law.registry SET fence = marks.fence
  WHERE home = current_schema() AND (NOT dry OR mistake = 'dry_run_raises_fence');
  IF dry AND mistake <> 'dry_run_writes' THEN RETURN; END IF;
  UPDATE law.registry SET high = greatest(high, topmost) WHERE home = current_schema();
  FOREACH new IN ARRAY writes LOOP
    CALL law.put(new, mistake);
  END LOOP;
  IF consume AND NOT dry AND mistake <> 'keeps_staging' THEN
    DELETE FROM staging WHERE op::text IS DISTINCT FROM '9';
  END IF;
END
$$;

-- Removes a key's row and, if asked, its tombstone in the side table.
CREATE PROCEDURE law.remove(ka text, kb text, tombstone boolean)
LANGUAGE plpgsql AS $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY CASE WHEN tombstone AND to_regclass('target_tombstones') IS NOT NULL
                             THEN '{target,target_tombstones}' ELSE '{target}'::text[] END LOOP
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = name::regclass AND attname = 'id') THEN
      EXECUTE format('DELETE FROM %I WHERE id = $1::integer', name) USING ka;
    ELSE
      EXECUTE format('DELETE FROM %I WHERE (a, b) = ($1::integer, $2)', name) USING ka, kb;
    END IF;
  END LOOP;
END
$$;

-- Writes one row of the home at hand.
CREATE PROCEDURE law.put(new jsonb, mistake text)
LANGUAGE plpgsql AS $$
DECLARE
  row  jsonb := new -> 'vals';
  live boolean := (new ->> 'live')::boolean;
  side boolean := to_regclass('target_tombstones') IS NOT NULL;
BEGIN
  IF row -> 'doc' <> 'null' THEN
    row := jsonb_set(row, '{doc}', (row ->> 'doc')::jsonb);
  END IF;
  CALL law.remove(new ->> 'ka', new ->> 'kb',
                  CASE mistake WHEN 'tombstone_stays' THEN NOT live WHEN 'tombstone_stands' THEN live ELSE true END);
  IF NOT live AND (mistake = 'forgets_deletes' OR side AND (mistake = 'forgets_deletes_aside' OR new ? 'killed')) THEN
    RETURN;
  END IF;
  row := coalesce(row, '{}') || jsonb_build_object(
    'id', new -> 'ka', 'a', new -> 'ka', 'b', new -> 'kb', 'own', new -> 'own', 'source_position', new -> 'pos',
    'source_lsn', split_part(new ->> 'pos', ':', 1), 'deleted', NOT live,
    'source_ordinal', coalesce(nullif(split_part(new ->> 'pos', ':', 2), ''), '0'),
    'deleted_at', CASE WHEN NOT live OR side THEN now() END);
  IF live OR NOT side THEN
    INSERT INTO target SELECT * FROM jsonb_populate_record(NULL::target, row);
  ELSE
    INSERT INTO target_tombstones SELECT * FROM jsonb_populate_record(NULL::target_tombstones, row)
    ON CONFLICT DO NOTHING;
  END IF;
END
$$;
