-- The same log read through SQL: wal2json and pgoutput, with positions of the
-- record and of the commit. What these slots cannot give stands below, too.
CREATE TABLE landing.wal2json_record (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value jsonb NOT NULL);
CREATE TABLE landing.wal2json_commit (id bigint PRIMARY KEY, value jsonb NOT NULL, commit_lsn pg_lsn);
CREATE TABLE landing.pgoutput_record (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tab text, op text, lsn pg_lsn, commit_lsn pg_lsn, cols jsonb, old jsonb, unchanged text[]);
CREATE VIEW landing.pgoutput_commit AS TABLE landing.pgoutput_record;

-- Events as feed.events gives them; a move is a delete of its old key, too.
CREATE FUNCTION feed.events_slot(engine text, form text)
RETURNS TABLE (id bigint, tab text, key jsonb, op text, pos numeric[], shown text) LANGUAGE plpgsql AS $$
BEGIN
  DROP TABLE IF EXISTS pg_temp.change;
  IF engine = 'wal2json' THEN
    CREATE TEMP TABLE change ON COMMIT DROP AS
    SELECT l.id, value->>'table' AS tab, CASE value->>'action' WHEN 'I' THEN 'c' ELSE lower(value->>'action') END AS op,
      (value->>'lsn')::pg_lsn AS lsn, l.commit_lsn,
      (SELECT jsonb_object_agg(c->>'name', c->'value') FROM jsonb_array_elements(value->'columns') c) AS cols,
      (SELECT jsonb_object_agg(c->>'name', c->'value') FROM jsonb_array_elements(value->'identity') c) AS old
    FROM landing.wal2json_commit l WHERE value->>'action' IN ('I', 'U', 'D', 'T');
  ELSE
    CREATE TEMP TABLE change ON COMMIT DROP AS
    SELECT p.id, p.tab, p.op, p.lsn, p.commit_lsn, CASE p.op WHEN 'd' THEN NULL ELSE cols END AS cols, CASE p.op WHEN 'd' THEN cols ELSE old END AS old
    FROM landing.pgoutput_record p;
  END IF;
  RETURN QUERY
  WITH keyed AS (
    SELECT c.*, feed.slot_key(c.tab, coalesce(cols, old)) AS key, CASE c.op WHEN 'u' THEN feed.slot_key(c.tab, old) END AS old_key,
      CASE form WHEN 'record' THEN ARRAY[lsn - '0/0'] ELSE ARRAY[commit_lsn - '0/0', lsn - '0/0'] END AS pos,
      CASE form WHEN 'record' THEN lsn::text ELSE format('%s:%s', commit_lsn, lsn - '0/0'::pg_lsn) END AS shown
    FROM change c)
  SELECT k.id, k.tab, k.key, k.op, k.pos, k.shown FROM keyed k
  UNION ALL
  SELECT k.id, k.tab, k.old_key, 'd', k.pos, k.shown FROM keyed k WHERE old_key <> k.key;
END $$;

CREATE FUNCTION feed.slot_key(t text, v jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT CASE t
    WHEN 'account' THEN jsonb_build_object('branch', v->>'branch', 'no', (v->>'no')::integer)
    WHEN 'dated' THEN jsonb_build_object('u', v->>'u', 'day', (v->>'day')::date, 'ts', (v->>'ts')::timestamp)
    ELSE jsonb_build_object('id', (v->>'id')::bigint) END
  WHERE v IS NOT NULL
$$;

-- What pgoutput gives is typed by hand.
CREATE PROCEDURE feed.slot_view(t text, form text) LANGUAGE plpgsql AS $$
DECLARE
  columns text;
  olds text;
BEGIN
  SELECT string_agg(CASE WHEN atttypid IN ('json'::regtype, 'jsonb'::regtype) THEN format('(cols->>%L)::%s AS %1$I', attname, atttypid::regtype)
                    ELSE format('(jsonb_populate_record(NULL::shop.%I, cols)).%I', t, attname) END, ', ' ORDER BY attnum),
    string_agg(format('(jsonb_populate_record(NULL::shop.%I, old)).%I AS %I', t, attname, '__old_' || attname), ', ' ORDER BY attnum)
      FILTER (WHERE attname = ANY ((SELECT key_columns FROM feed.tab WHERE tab = t)::text[]))
    INTO columns, olds
  FROM pg_attribute WHERE attrelid = format('shop.%I', t)::regclass AND attnum > 0;
  EXECUTE format('CREATE VIEW feed.%I AS SELECT %s, %s, op, unchanged AS __unchanged, cdc_position(%s) AS source_position FROM feed.stage WHERE tab = %L',
    t || '_events', columns, olds, CASE form WHEN 'record' THEN 'lsn' ELSE 'commit_lsn, (lsn - ''0/0''::pg_lsn)::bigint' END, t);
END $$;

INSERT INTO feed.known (engine, form, tab, col, why) VALUES
  ('wal2json', '.', 'kind', 'f8', 'wal2json writes NaN and infinity as null'),
  ('wal2json', '.', 'kind_full', 'f8', 'wal2json writes NaN and infinity as null'),
  ('wal2json', '.', 'edge', 'n', 'wal2json writes NaN and infinity as null'),
  ('wal2json', '.', 'edge', 'n4', 'wal2json writes NaN and infinity as null');
