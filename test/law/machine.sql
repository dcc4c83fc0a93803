/*
 * The machine of the law test: fills staging, makes the calls, and after every
 * call compares what the oracle said with what happened. A layout is a schema
 * with the tables target, staging, other_staging and the view state; law.play
 * finds it by search_path.
 */

-- Rows on which target and model disagree; values of dead rows are not compared.
CREATE FUNCTION law.differences() RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    SELECT jsonb_agg(jsonb_build_object('key', ka || '|' || kb, 'expected', to_jsonb(m) - '{ka,kb}'::text[],
                                        'actual', to_jsonb(t) - '{ka,kb}'::text[]) ORDER BY ka, kb)
    FROM (SELECT ka, kb, live, pos, CASE WHEN live THEN vals END AS vals, CASE WHEN live THEN own END AS own
          FROM state) AS t
         FULL JOIN
         (SELECT ka, kb, live, law.print((SELECT kind FROM law.setting), pos) AS pos, vals, own
          FROM law.model) AS m USING (ka, kb)
    WHERE t IS DISTINCT FROM m);
END
$$;

-- Rows on which the target at the end disagrees with the law and with the source.
CREATE FUNCTION law.final_differences(eids integer[], first jsonb, source jsonb, OUT law jsonb, OUT origin jsonb)
LANGUAGE plpgsql AS $$
BEGIN
  IF eids IS NOT NULL THEN
    SELECT jsonb_agg(jsonb_build_object('key', w.ka || '|' || w.kb, 'expected', to_jsonb(w) - '{ka,kb}'::text[],
                                        'actual', to_jsonb(t) - '{ka,kb}'::text[]))
    INTO law
    FROM (SELECT f.ka, f.kb, f.live, law.print(s.kind, f.pos) AS pos, f.vals
          FROM law.final(eids, first) AS f, law.setting s) AS w
         LEFT JOIN
         (SELECT ka, kb, live, pos, CASE WHEN live THEN vals END AS vals FROM state) AS t USING (ka, kb)
    WHERE t IS DISTINCT FROM w;
  END IF;
  IF source IS NOT NULL THEN
    SELECT jsonb_agg(jsonb_build_object('key', ka || '|' || kb, 'expected', w.vals, 'actual', t.vals))
    INTO origin
    FROM (SELECT r ->> 'ka' AS ka, r ->> 'kb' AS kb, r -> 'vals' AS vals FROM jsonb_array_elements(source) AS r) AS w
         FULL JOIN (SELECT ka, kb, vals FROM state WHERE live) AS t USING (ka, kb)
    WHERE w.vals IS DISTINCT FROM t.vals;
  END IF;
END
$$;

-- A new history: what law.play and law.rush speak about.
CREATE PROCEDURE law.load(h jsonb)
LANGUAGE plpgsql AS $$
BEGIN
  TRUNCATE law.event, law.form, law.setting;
  INSERT INTO law.setting SELECT * FROM jsonb_populate_record(NULL::law.setting, h -> 'setting');
  INSERT INTO law.event
  SELECT r.* FROM jsonb_array_elements(h -> 'events') AS e, jsonb_populate_record(NULL::law.event, e) AS r;
  INSERT INTO law.form
  SELECT (e ->> 'eid')::integer, f.n - 1, f.form ->> 'op', f.form -> 'row'
  FROM jsonb_array_elements(h -> 'events') AS e,
       jsonb_array_elements(e -> 'forms') WITH ORDINALITY AS f (form, n);
END
$$;

CREATE PROCEDURE law.begin_delivery(first jsonb)
LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM target;
  DELETE FROM staging;
  DELETE FROM other_staging;
  DELETE FROM law.model;
  INSERT INTO target
  SELECT r.* FROM jsonb_array_elements(first) AS f, jsonb_populate_record(NULL::target, f -> 'row') AS r;
  INSERT INTO law.model
  SELECT f ->> 'ka', f ->> 'kb', true, NULL, f -> 'vals', f -> 'row' ->> 'own' FROM jsonb_array_elements(first) AS f;
END
$$;

CREATE FUNCTION law.int_array(j jsonb) RETURNS integer[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(array_agg(v::integer ORDER BY n), '{}') FROM jsonb_array_elements_text(j) WITH ORDINALITY AS t (v, n)
$$;

/*
 * One delivery d: "call" (the statement, @dry@ standing for dry_run), "bump"
 * (an UPDATE of the target-only column), "consume", "decoys" (rows in staging that
 * are no events), "first" (rows that stand in the target before), "source" (the rows that the source holds at the end),
 * "final" (whether the law is checked at the end), "commits", "caught", "calls":
 * each "e" and "f" (events and their spellings), "dry", "bump". The result is
 * NULL or says what went wrong at the first call that went wrong; with "trace",
 * what the oracle expected of each call.
 */
CREATE PROCEDURE law.play(d jsonb, INOUT result jsonb)
LANGUAGE plpgsql AS $$
DECLARE
  commits  boolean := (d ->> 'commits')::boolean;
  consumes boolean := (d ->> 'consume')::boolean;
  trace    jsonb := '[]';
  c        jsonb;
  n        integer := 0;
  eids     integer[];
  forms    integer[];
  want     record;
  got      jsonb;
  code     text;
  message  text;
  wrong    jsonb;
  before   jsonb;
  written  text[];
  left_over bigint;
  seen     integer[] := '{}';
  verdict  record;
BEGIN
  result := NULL;
  CALL law.begin_delivery(d -> 'first');
  IF commits THEN COMMIT; END IF;
  WHILE n < jsonb_array_length(d -> 'calls') LOOP
    c := d -> 'calls' -> n;
    n := n + 1;
    eids := law.int_array(c -> 'e');
    forms := law.int_array(c -> 'f');
    IF (c ->> 'bump')::boolean THEN
      EXECUTE d ->> 'bump';
      UPDATE law.model SET own = own::integer + 1 WHERE live;
    END IF;
    DELETE FROM staging;
    INSERT INTO staging
    SELECT r.*
    FROM unnest(eids, forms) WITH ORDINALITY AS i (eid, form, seq) JOIN law.form f USING (eid, form),
         jsonb_populate_record(NULL::staging, f.row) AS r
    ORDER BY i.seq;
    -- rows that the filter leaves out; read, they would be an error
    INSERT INTO staging (op) SELECT '9' FROM generate_series(1, (d ->> 'decoys')::integer);
    before := (SELECT jsonb_object_agg(ka || '|' || kb, version) FROM state);
    IF commits THEN COMMIT; END IF;
    SELECT * INTO want FROM law.judge(eids, forms);
    wrong := '{}';
    FOR run IN (CASE WHEN (c ->> 'dry')::boolean THEN 0 ELSE 1 END) .. 1 LOOP
      code := NULL; message := NULL; got := NULL;
      IF cardinality(want.errors) > 0 OR (d ->> 'caught')::boolean THEN
        BEGIN
          EXECUTE 'SELECT to_jsonb(r) FROM (' || replace(d ->> 'call', '@dry@', (run = 0)::text) || ') AS r' INTO got;
        EXCEPTION WHEN OTHERS THEN
          GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
        END;
      ELSE
        EXECUTE 'SELECT to_jsonb(r) FROM (' || replace(d ->> 'call', '@dry@', (run = 0)::text) || ') AS r' INTO got;
      END IF;
      IF code IS NOT NULL AND code = ANY (want.errors) THEN
        NULL;
      ELSIF code IS NOT NULL OR cardinality(want.errors) > 0 THEN
        wrong := wrong || jsonb_build_object('expected_error', want.errors, 'error', code, 'message', message,
                                             'expected', want.counts, 'actual', got - 'low_position' - 'high_position');
      ELSIF NOT got @> (want.counts || '{"skipped": false}') THEN
        wrong := wrong || jsonb_build_object('expected', want.counts, 'actual', got - 'low_position' - 'high_position');
      END IF;
      written := (SELECT coalesce(array_agg(ka || '|' || kb ORDER BY ka, kb), '{}') FROM state
                  WHERE version IS DISTINCT FROM before ->> (ka || '|' || kb));
      IF written IS DISTINCT FROM (CASE WHEN run = 0 THEN '{}' ELSE want.written END) THEN
        wrong := wrong || jsonb_build_object('expected_written', CASE WHEN run = 0 THEN '{}' ELSE want.written END,
                                             'written', written);
      END IF;
      left_over := (SELECT count(*) FROM staging);
      IF left_over <> (CASE WHEN run = 1 AND consumes AND cardinality(want.errors) = 0 THEN 0
                            ELSE cardinality(eids) END) + (d ->> 'decoys')::integer THEN
        wrong := wrong || jsonb_build_object('staging_rows_left', left_over);
      END IF;
      IF wrong <> '{}' THEN
        wrong := wrong || jsonb_build_object('dry_run', run = 0);
        EXIT;
      END IF;
    END LOOP;
    IF wrong -> 'dry_run' IS DISTINCT FROM 'true' THEN
      got := law.differences();
      IF got IS NOT NULL THEN
        wrong := wrong || jsonb_build_object('rows', got);
      END IF;
    END IF;
    IF (d ->> 'trace')::boolean THEN
      trace := trace || jsonb_build_object(
        'counts', want.counts, 'errors', want.errors,
        'state', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                    'ka', ka, 'kb', kb, 'live', live, 'pos', law.print((SELECT kind FROM law.setting), pos),
                    'vals', vals, 'own', own) ORDER BY ka, kb), '[]') FROM law.model));
    END IF;
    IF wrong <> '{}' THEN
      result := jsonb_build_object('call', n) || wrong;
      IF (d ->> 'trace')::boolean THEN result := result || jsonb_build_object('trace', trace); END IF;
      RETURN;
    END IF;
    IF cardinality(want.errors) = 0 THEN seen := seen || eids; END IF;
    IF commits THEN COMMIT; END IF;
  END LOOP;
  SELECT * INTO verdict FROM law.final_differences(CASE WHEN (d ->> 'final')::boolean THEN seen END, d -> 'first',
                                             nullif(d -> 'source', 'null'));
  IF verdict.law IS NOT NULL OR verdict.origin IS NOT NULL THEN
    result := jsonb_build_object('call', n, 'against_the_law', verdict.law, 'against_the_source', verdict.origin);
  END IF;
  IF (d ->> 'trace')::boolean THEN result := coalesce(result, '{}') || jsonb_build_object('trace', trace); END IF;
END
$$;

/*
 * One of two appliers that run at the same time: each call commits. Counts are
 * only summed, since which of the two came first is open.
 */
CREATE PROCEDURE law.rush(d jsonb, staging_name text, INOUT result jsonb)
LANGUAGE plpgsql AS $$
DECLARE
  n     integer := 0;
  c     jsonb;
  got   jsonb;
  eids  integer[];
  forms integer[];
  total bigint;
BEGIN
  result := NULL;
  WHILE n < jsonb_array_length(d -> 'calls') LOOP
    c := d -> 'calls' -> n;
    n := n + 1;
    eids := law.int_array(c -> 'e');
    forms := law.int_array(c -> 'f');
    EXECUTE format('DELETE FROM %1$I', staging_name);
    EXECUTE format('INSERT INTO %1$I SELECT r.*
      FROM unnest($1, $2) WITH ORDINALITY AS i (eid, form, seq) JOIN law.form f USING (eid, form),
           jsonb_populate_record(NULL::%1$I, f.row) AS r
      ORDER BY i.seq', staging_name) USING eids, forms;
    COMMIT;
    EXECUTE 'SELECT to_jsonb(r) FROM (' || replace(d ->> 'call', '@dry@', 'false') || ') AS r' INTO got;
    COMMIT;
    total := (SELECT sum((got ->> k)::bigint)
              FROM unnest('{inserted,updated,deleted,stale,duplicate,superseded,fenced,ignored,truncated}'::text[]) AS k);
    IF total <> cardinality(eids) OR (got ->> 'events')::bigint <> cardinality(eids) THEN
      result := jsonb_build_object('call', n, 'staging', staging_name, 'events', cardinality(eids), 'actual', got);
      RETURN;
    END IF;
  END LOOP;
END
$$;

-- The end of a history that two appliers shared.
CREATE FUNCTION law.after_rush(d jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  f record;
BEGIN
  SELECT * INTO f FROM law.final_differences(law.int_array(d -> 'all'), d -> 'first', nullif(d -> 'source', 'null'));
  IF f.law IS NOT NULL OR f.origin IS NOT NULL THEN
    RETURN jsonb_build_object('against_the_law', f.law, 'against_the_source', f.origin);
  END IF;
  RETURN NULL;
END
$$;
