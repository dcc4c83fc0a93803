/*
 * The machine of the law test: fills staging, makes the calls, and after every
 * call compares what the oracle said with what happened. A home is a schema with
 * the tables target, staging, other_staging and the view state; a delivery is
 * judged once and then played in each of its homes, and all must do as judged.
 */

-- The model after each step of a delivery: a call, or what an owner does before.
CREATE UNLOGGED TABLE law.past (
  step   integer, ka text, kb text, live boolean, pos numeric[], vals jsonb, own text,
  killed boolean, loose boolean,
  PRIMARY KEY (step, ka, kb)
);
CREATE UNLOGGED TABLE law.mark (step integer PRIMARY KEY, marks jsonb);

CREATE PROCEDURE law.remember(step integer)
LANGUAGE sql AS $$
  INSERT INTO law.past SELECT step, m.* FROM law.model m;
  INSERT INTO law.mark
  SELECT step, jsonb_build_object('fence', law.print(kind, fence), 'floor', law.print(kind, floor)) FROM law.setting;
$$;

-- Rows on which target and model disagree; values of dead rows are not compared.
-- A row that a truncate killed is no row in a side home.
CREATE FUNCTION law.differences(step integer, side boolean) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    SELECT jsonb_agg(jsonb_build_object('key', ka || '|' || kb, 'expected', to_jsonb(m) - '{ka,kb}'::text[],
                                        'actual', to_jsonb(t) - '{ka,kb}'::text[]) ORDER BY ka, kb)
    FROM (SELECT ka, kb, live, pos, CASE WHEN live THEN vals END AS vals, CASE WHEN live THEN own END AS own
          FROM state) AS t
         FULL JOIN
         (SELECT ka, kb, live, law.print((SELECT kind FROM law.setting), pos) AS pos, vals, own
          FROM law.past p WHERE p.step = $1 AND NOT (killed AND side)) AS m USING (ka, kb)
    WHERE t IS DISTINCT FROM m
      AND NOT (t.live IS NULL AND EXISTS (SELECT FROM law.past l
                                          WHERE (l.step, l.ka, l.kb) = ($1, m.ka, m.kb) AND l.loose)));
END
$$;

-- Rows on which the target at the end disagrees with the law and with the source.
-- A dead key at or below the fence need not be remembered.
CREATE FUNCTION law.final_differences(eids integer[], first jsonb, as_of numeric[], source jsonb,
                                      OUT law jsonb, OUT origin jsonb)
LANGUAGE plpgsql AS $$
BEGIN
  IF eids IS NOT NULL THEN
    SELECT jsonb_agg(jsonb_build_object('key', w.ka || '|' || w.kb, 'expected', to_jsonb(w) - '{ka,kb}'::text[],
                                        'actual', to_jsonb(t) - '{ka,kb}'::text[]))
    INTO law
    FROM (SELECT f.ka, f.kb, f.live, law.print(s.kind, f.pos) AS pos, f.vals
          FROM law.final(eids, first, as_of) AS f, law.setting s
          WHERE f.live OR s.fence IS NULL OR f.pos > s.fence) AS w
         LEFT JOIN
         (SELECT ka, kb, live, pos, CASE WHEN live THEN vals END AS vals FROM state) AS t USING (ka, kb)
    WHERE t IS DISTINCT FROM w;
    SELECT coalesce(law || i.list, i.list, law)
    INTO law
    FROM (SELECT jsonb_agg(jsonb_build_object('key', w.ka || '|' || w.kb, 'expected', 'dead', 'actual', to_jsonb(t)))
          FROM law.final(eids, first, as_of) AS w JOIN state t USING (ka, kb)
          WHERE t.live AND NOT w.live) AS i (list);
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
  DELETE FROM law.event;
  DELETE FROM law.form;
  DELETE FROM law.setting;
  INSERT INTO law.setting SELECT * FROM jsonb_populate_record(NULL::law.setting, h -> 'setting');
  INSERT INTO law.event
  SELECT r.* FROM jsonb_array_elements(h -> 'events') AS e, jsonb_populate_record(NULL::law.event, e) AS r;
  INSERT INTO law.form
  SELECT (e ->> 'eid')::integer, f.n - 1, f.form ->> 'op', f.form -> 'row'
  FROM jsonb_array_elements(h -> 'events') AS e,
       jsonb_array_elements(e -> 'forms') WITH ORDINALITY AS f (form, n);
END
$$;

CREATE FUNCTION law.int_array(j jsonb) RETURNS integer[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(array_agg(v::integer ORDER BY n), '{}') FROM jsonb_array_elements_text(j) WITH ORDINALITY AS t (v, n)
$$;

-- A position, if it is one.
CREATE FUNCTION law.num_array(j jsonb) RETURNS numeric[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT array_agg(v::numeric ORDER BY n)
  FROM jsonb_array_elements_text(CASE WHEN jsonb_typeof(j) = 'array' THEN j END) WITH ORDINALITY AS t (v, n)
$$;

CREATE FUNCTION law.code_array(j jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(j) = 'string' THEN ARRAY[j #>> '{}'] ELSE '{}' END
$$;

CREATE PROCEDURE law.enter(home jsonb)
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('search_path', quote_ident(home ->> 'schema') || ', public', false);
END
$$;

-- Model and a home as they are before the first call of a delivery.
CREATE PROCEDURE law.begin_model(d jsonb)
LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM law.model;
  DELETE FROM law.past;
  DELETE FROM law.mark;
  INSERT INTO law.model
  SELECT f ->> 'ka', f ->> 'kb', true, NULL, f -> 'vals', f -> 'row' ->> 'own'
  FROM jsonb_array_elements(d -> 'first') AS f;
  UPDATE law.setting SET fence = NULL, floor = law.num_array(d -> 'as_of');
  CALL law.remember(0);
END
$$;

CREATE PROCEDURE law.begin_home(d jsonb, home jsonb)
LANGUAGE plpgsql AS $$
BEGIN
  CALL law.enter(home);
  EXECUTE home ->> 'reset';
  INSERT INTO target
  SELECT r.* FROM jsonb_array_elements(d -> 'first') AS f, jsonb_populate_record(NULL::target, f -> 'row') AS r;
  EXECUTE home ->> 'attach';
  DELETE FROM staging;
  DELETE FROM other_staging;
END
$$;

-- Runs a statement that gives one row; with "caught" an error is an answer.
CREATE FUNCTION law.attempt(statement text, caught boolean, OUT got jsonb, OUT code text, OUT message text)
LANGUAGE plpgsql AS $$
BEGIN
  IF caught THEN
    BEGIN
      EXECUTE statement INTO got;
    EXCEPTION WHEN OTHERS THEN
      GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
    END;
  ELSE
    EXECUTE statement INTO got;
  END IF;
END
$$;

CREATE FUNCTION law.run(statements text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE statements;
  RETURN 'done';
END
$$;

-- What is wrong in the home at hand after a step; '{}' if nothing is.
CREATE FUNCTION law.inspect(home jsonb, step integer) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  wrong jsonb := '{}';
  rows  jsonb := law.differences(step, home ->> 'name' = 'side');
  marks jsonb;
  want  jsonb;
BEGIN
  IF rows IS NOT NULL THEN
    wrong := jsonb_build_object('rows', rows);
  END IF;
  IF home ->> 'marks' IS NOT NULL THEN
    EXECUTE home ->> 'marks' INTO marks;
    want := (SELECT m.marks FROM law.mark m WHERE m.step = $2);
    IF marks IS DISTINCT FROM want THEN
      wrong := wrong || jsonb_build_object('expected_marks', want, 'marks', marks);
    END IF;
  END IF;
  RETURN wrong;
END
$$;

/*
 * What an owner does before a call: "kind" and "pos" for the model, "sql" (one
 * text or one per home), "refused" (the SQLSTATE it must fail with, one or one
 * per home), "max_rows", "value" (what it must give). It is done after "step".
 */
CREATE FUNCTION law.act(home jsonb, a jsonb, step integer) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  statement text := CASE jsonb_typeof(a -> 'sql') WHEN 'string' THEN a ->> 'sql' ELSE a -> 'sql' ->> (home ->> 'name') END;
  refused   text[] := law.code_array(CASE jsonb_typeof(a -> 'refused') WHEN 'object'
                                     THEN a -> 'refused' -> (home ->> 'name') ELSE a -> 'refused' END);
  at        numeric[] := law.num_array(a -> 'pos');
  purges    boolean := a ->> 'kind' LIKE 'purge%';
  want      text := a ->> 'value';
  old       bigint;
  done      record;
BEGIN
  IF purges THEN
    -- the rows that are there
    old := (SELECT count(*) FROM state t JOIN law.past m USING (ka, kb) WHERE m.step = $3 AND NOT t.live AND m.pos <= at);
    want := least(old, (a ->> 'max_rows')::bigint);
  END IF;
  SELECT * INTO done FROM law.attempt('SELECT to_jsonb(r) FROM (' || statement || ') AS r (v)', true);
  IF done.code IS NOT NULL AND done.code = ANY (refused) THEN
    RETURN jsonb_build_object('refused', done.code);
  ELSIF done.code IS NOT NULL OR cardinality(refused) > 0 THEN
    RETURN jsonb_build_object('act', a ->> 'kind', 'statement', statement, 'expected_error', refused,
                              'error', done.code, 'message', done.message);
  ELSIF want IS NOT NULL AND want IS DISTINCT FROM done.got ->> 'v' THEN
    RETURN jsonb_build_object('act', a ->> 'kind', 'statement', statement, 'expected_value', want,
                              'value', done.got ->> 'v');
  ELSIF purges
        AND old - (done.got ->> 'v')::bigint
            <> (SELECT count(*) FROM state t JOIN law.past m USING (ka, kb)
                WHERE m.step = $3 AND NOT t.live AND m.pos <= at) THEN
    RETURN jsonb_build_object('act', a ->> 'kind', 'statement', statement, 'tombstones_before', old,
                              'said_to_be_removed', done.got ->> 'v');
  END IF;
  RETURN jsonb_build_object('want', want);
END
$$;

-- What the oracle says of each call of a delivery: "calls" (counts, errors,
-- written, killed, the last step) and "seen" (the events that were applied). A
-- purge above the greatest position that was delivered must be refused, unless
-- forced.
CREATE FUNCTION law.judge_delivery(d jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  calls   jsonb[] := '{}';
  seen    integer[] := '{}';
  topmost numeric[];
  step    integer := 0;
  n       integer := 0;
  eids    integer[];
  acts    jsonb;
  c       jsonb;
  a       jsonb;
  want    record;
BEGIN
  CALL law.begin_model(d);
  WHILE n < jsonb_array_length(d -> 'calls') LOOP
    c := d -> 'calls' -> n;
    n := n + 1;
    acts := '[]';
    FOR i IN 0 .. coalesce(jsonb_array_length(c -> 'acts'), 0) - 1 LOOP
      a := c -> 'acts' -> i;
      IF a ->> 'kind' LIKE 'purge%' AND NOT (a ->> 'force')::boolean
         AND (topmost IS NULL OR law.num_array(a -> 'pos') > topmost) THEN
        a := a || '{"refused": "22023"}';
      ELSIF jsonb_typeof(a -> 'refused') IS DISTINCT FROM 'string' THEN
        CALL law.owner_act(a ->> 'kind', law.num_array(a -> 'pos'));
      END IF;
      acts := acts || a;
      step := step + 1;
      CALL law.remember(step);
    END LOOP;
    IF (c ->> 'bump')::boolean THEN
      UPDATE law.model SET own = own::integer + 1 WHERE live;
    END IF;
    eids := law.int_array(c -> 'e');
    SELECT * INTO want FROM law.judge(eids, law.int_array(c -> 'f'), law.code_array(c -> 'refused'));
    step := step + 1;
    CALL law.remember(step);
    calls := calls || (to_jsonb(want) || jsonb_build_object('step', step, 'acts', acts));
    IF cardinality(want.errors) = 0 THEN
      seen := seen || eids;
      SELECT max(e.pos) INTO topmost
      FROM (SELECT topmost UNION ALL SELECT e.pos FROM law.event e JOIN law.form f USING (eid)
            WHERE eid = ANY (eids) AND form = 0
              AND law.class(f.op, e.ka, e.kb, e.pos, e.vals) NOT IN ('snapshot', 'ignored')) AS e (pos);
    END IF;
  END LOOP;
  RETURN jsonb_build_object('calls', to_jsonb(calls), 'seen', to_jsonb(seen));
END
$$;

/*
 * A delivery d in one home: "wants" is what the oracle says of each call. The
 * result is NULL or says what went wrong at the first call that went wrong; the
 * trace is what was expected up to there.
 */
CREATE PROCEDURE law.play_home(d jsonb, home jsonb, wants jsonb, INOUT result jsonb, INOUT trace jsonb)
LANGUAGE plpgsql AS $$
DECLARE
  commits  boolean := (d ->> 'commits')::boolean;
  consumes boolean := (d ->> 'consume')::boolean;
  decoys   integer := (d ->> 'decoys')::integer;
  side     boolean := home ->> 'name' = 'side';
  c        jsonb;
  acts     jsonb;
  n        integer := 0;
  step     integer := 0;
  eids     integer[];
  forms    integer[];
  want     jsonb;
  errors   text[];
  got      record;
  wrong    jsonb;
  answer   jsonb;
  before   jsonb;
  written  text[];
  expected text[];
  left_over bigint;
BEGIN
  result := NULL;
  trace := '[]';
  CALL law.begin_home(d, home);
  IF commits THEN COMMIT; END IF;
  WHILE n < jsonb_array_length(d -> 'calls') LOOP
    c := d -> 'calls' -> n;
    want := wants -> n;
    n := n + 1;
    eids := law.int_array(c -> 'e');
    forms := law.int_array(c -> 'f');
    errors := ARRAY(SELECT jsonb_array_elements_text(want -> 'errors'));
    wrong := '{}';
    acts := '[]';
    DELETE FROM staging;
    FOR i IN 0 .. jsonb_array_length(want -> 'acts') - 1 LOOP
      answer := law.act(home, want -> 'acts' -> i, step);
      acts := acts || answer;
      step := step + 1;
      IF NOT answer ? 'act' THEN
        answer := law.inspect(home, step);
        CONTINUE WHEN answer = '{}';
        answer := answer || jsonb_build_object('act', want -> 'acts' -> i -> 'kind',
                                               'statement', want -> 'acts' -> i -> 'sql');
      END IF;
      wrong := answer;
      EXIT;
    END LOOP;
    step := (want ->> 'step')::integer;
    IF wrong = '{}' THEN
      IF (c ->> 'bump')::boolean THEN
        EXECUTE home ->> 'bump';
      END IF;
      INSERT INTO staging
      SELECT r.*
      FROM unnest(eids, forms) WITH ORDINALITY AS i (eid, form, seq) JOIN law.form f USING (eid, form),
           jsonb_populate_record(NULL::staging, f.row) AS r
      ORDER BY i.seq;
      -- rows that the filter leaves out; read, they would be an error
      IF decoys > 0 THEN
        INSERT INTO staging (op) SELECT '9' FROM generate_series(1, decoys);
      END IF;
      before := (SELECT jsonb_object_agg(ka || '|' || kb, version) FROM state);
      IF commits THEN COMMIT; END IF;
      FOR run IN (CASE WHEN (c ->> 'dry')::boolean THEN 0 ELSE 1 END) .. 1 LOOP
        SELECT * INTO got FROM law.attempt(
          'SELECT to_jsonb(r) FROM (' || replace(replace(home ->> 'call', '@dry@', (run = 0)::text),
                                                 '@with@', coalesce(c ->> 'with', '')) || ') AS r',
          cardinality(errors) > 0 OR (d ->> 'caught')::boolean);
        IF got.code IS NOT NULL AND got.code = ANY (errors) THEN
          NULL;
        ELSIF got.code IS NOT NULL OR cardinality(errors) > 0 THEN
          wrong := wrong || jsonb_build_object('expected_error', errors, 'error', got.code, 'message', got.message,
                                               'expected', want -> 'counts',
                                               'actual', got.got - 'low_position' - 'high_position');
        ELSIF NOT got.got @> (want -> 'counts' || '{"skipped": false}') THEN
          wrong := wrong || jsonb_build_object('expected', want -> 'counts',
                                               'actual', got.got - 'low_position' - 'high_position');
        END IF;
        written := (SELECT coalesce(array_agg(ka || '|' || kb ORDER BY ka, kb), '{}') FROM state
                    WHERE version IS DISTINCT FROM before ->> (ka || '|' || kb));
        expected := '{}';
        IF run = 1 THEN
          expected := ARRAY(SELECT jsonb_array_elements_text(
            CASE WHEN side THEN want -> 'written' ELSE want -> 'written' || (want -> 'killed') END));
        END IF;
        IF NOT (written @> expected AND expected @> written) THEN
          wrong := wrong || jsonb_build_object('expected_written', expected, 'written', written);
        END IF;
        left_over := (SELECT count(*) FROM staging);
        IF left_over <> (CASE WHEN run = 1 AND consumes AND cardinality(errors) = 0 THEN 0
                              ELSE cardinality(eids) END) + decoys THEN
          wrong := wrong || jsonb_build_object('staging_rows_left', left_over);
        END IF;
        IF wrong <> '{}' THEN
          wrong := wrong || jsonb_build_object('dry_run', run = 0);
          EXIT;
        END IF;
      END LOOP;
      IF wrong -> 'dry_run' IS DISTINCT FROM 'true' THEN
        wrong := wrong || law.inspect(home, step);
      END IF;
    END IF;
    IF (d ->> 'trace')::boolean THEN
      trace := trace || jsonb_build_object(
        'counts', want -> 'counts', 'errors', want -> 'errors', 'acts', acts,
        'marks', (SELECT m.marks FROM law.mark m WHERE m.step = (want ->> 'step')::integer),
        'state', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                    'ka', ka, 'kb', kb, 'live', live, 'pos', law.print((SELECT kind FROM law.setting), pos),
                    'vals', vals, 'own', own, 'killed', killed, 'loose', loose) ORDER BY ka, kb), '[]')
                  FROM law.past p WHERE p.step = (want ->> 'step')::integer));
    END IF;
    IF wrong <> '{}' THEN
      result := jsonb_build_object('call', n) || wrong;
      RETURN;
    END IF;
    IF commits THEN COMMIT; END IF;
  END LOOP;
END
$$;

/*
 * One delivery d: "homes" (each "name", "schema", "reset" and "attach" (what
 * makes the target anew, around its first rows), "call" (the statement, @dry@
 * standing for dry_run, @with@ for more arguments), "bump" (an UPDATE of the
 * target-only column), "marks" (the query for fence and floor)), "consume",
 * "decoys" (rows in staging that are no events), "first" (rows that stand in the
 * target before), "as_of" (the floor it is attached with), "source" (the rows
 * that the source holds at the end), "final" (whether the law is checked at the
 * end), "commits", "caught", "calls": each "e" and "f" (events and their
 * spellings), "dry", "bump", "with", "refused" (the SQLSTATE it must fail with),
 * "acts" (see law.act). The result is NULL or says what went wrong at the first
 * call that went wrong in the first home that went wrong; with "trace", what the
 * oracle expected of each call.
 */
CREATE PROCEDURE law.play(d jsonb, INOUT result jsonb)
LANGUAGE plpgsql AS $$
DECLARE
  verdict jsonb := law.judge_delivery(d);
  home    jsonb;
  trace   jsonb;
  final   record;
BEGIN
  result := NULL;
  IF (d ->> 'commits')::boolean THEN COMMIT; END IF;
  FOR h IN 0 .. jsonb_array_length(d -> 'homes') - 1 LOOP
    home := d -> 'homes' -> h;
    CALL law.play_home(d, home, verdict -> 'calls', result, trace);
    IF result IS NULL THEN
      SELECT * INTO final
      FROM law.final_differences(CASE WHEN (d ->> 'final')::boolean THEN law.int_array(verdict -> 'seen') END,
                                 d -> 'first', law.num_array(d -> 'as_of'), nullif(d -> 'source', 'null'));
      IF final.law IS NOT NULL OR final.origin IS NOT NULL THEN
        result := jsonb_build_object('call', jsonb_array_length(d -> 'calls'), 'against_the_law', final.law,
                                     'against_the_source', final.origin);
      END IF;
    END IF;
    IF result IS NOT NULL THEN
      result := result || jsonb_build_object('home', home -> 'name');
      EXIT;
    END IF;
  END LOOP;
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
  home  jsonb := d -> 'homes' -> 0;
  n     integer := 0;
  c     jsonb;
  got   jsonb;
  eids  integer[];
  forms integer[];
  total bigint;
BEGIN
  result := NULL;
  CALL law.enter(home);
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
    EXECUTE 'SELECT to_jsonb(r) FROM (' || replace(replace(home ->> 'call', '@dry@', 'false'), '@with@', '')
            || ') AS r' INTO got;
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
  eids    integer[] := law.int_array(d -> 'all');
  verdict record;
BEGIN
  CALL law.enter(d -> 'homes' -> 0);
  UPDATE law.setting SET fence = (SELECT max(e.pos) FROM law.event e JOIN law.form f USING (eid)
                                  WHERE eid = ANY (eids) AND law.class(f.op, e.ka, e.kb, e.pos, e.vals) = 'truncate');
  SELECT * INTO verdict FROM law.final_differences(eids, d -> 'first', law.num_array(d -> 'as_of'),
                                             nullif(d -> 'source', 'null'));
  IF verdict.law IS NOT NULL OR verdict.origin IS NOT NULL THEN
    RETURN jsonb_build_object('against_the_law', verdict.law, 'against_the_source', verdict.origin);
  END IF;
  RETURN NULL;
END
$$;
