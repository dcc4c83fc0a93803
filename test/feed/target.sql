-- The target's side of the real feed: landing, typing, delivery, oracle.
-- What is compared with is never taken from the extension: the source's own
-- rows, and per key the last event as pg_lsn orders it.
SET check_function_bodies = off;   -- some tables are made by the procedures

CREATE SCHEMA feed;

-- What the decoder said, as it came: one row per message, in commit order.
CREATE TABLE feed.landing (
  seq  bigint GENERATED ALWAYS AS IDENTITY,
  data jsonb NOT NULL
);

-- The slot's consistent point. Every transaction that ended before it is in
-- the exported snapshot, every later one is in the feed, none in both or in
-- neither; that is what the snapshot rows' position means.
CREATE TABLE feed.slot (consistent_point pg_lsn NOT NULL);

-- Copies of the source: at the slot's snapshot, at a later moment while the
-- feed was running (its rows overlap with the feed), and at the end.
CREATE TABLE feed.account_end (
  branch text, no integer, owner text, balance numeric(14,2), tags text[], changed_at timestamptz);
CREATE TABLE feed.account_start (LIKE feed.account_end);
CREATE TABLE feed.account_late (LIKE feed.account_end);
CREATE TABLE feed.doc_end (id bigint, title text, body text, pages integer);
CREATE TABLE feed.doc_start (LIKE feed.doc_end);

-- A change's commit LSN is that of the next C message, since transactions
-- come one after the other. (COPY writes many rows in one WAL record, which
-- then share an LSN; their keys differ, so no key has two events at one LSN:
-- a test below makes sure.)
CREATE PROCEDURE feed.type_events() LANGUAGE plpgsql AS $$
BEGIN
  CREATE TABLE feed.change AS
  SELECT seq, data->>'action' AS action, data->>'table' AS tab,
         (data->>'lsn')::pg_lsn AS lsn,
         min((data->>'lsn')::pg_lsn) FILTER (WHERE data->>'action' = 'C')
           OVER (ORDER BY seq DESC) AS commit_lsn,
         (SELECT jsonb_object_agg(c->>'name', c->'value') FROM jsonb_array_elements(data->'columns') c) AS cols,
         (SELECT jsonb_object_agg(c->>'name', c->'value') FROM jsonb_array_elements(data->'identity') c) AS old
  FROM feed.landing;

  -- n orders the events as they were delivered: snapshot rows first.
  CREATE TABLE feed.account_event AS
  SELECT seq AS n, action AS op,
         coalesce(cols, old)->>'branch' AS branch, (coalesce(cols, old)->>'no')::integer AS no,
         cols->>'owner' AS owner, (cols->>'balance')::numeric(14,2) AS balance,
         (cols->>'tags')::text[] AS tags, (cols->>'changed_at')::timestamptz AS changed_at,
         CASE WHEN action = 'U' THEN old->>'branch' END AS __old_branch,
         CASE WHEN action = 'U' THEN (old->>'no')::integer END AS __old_no,
         lsn, commit_lsn
  FROM feed.change WHERE tab = 'account'
  UNION ALL
  SELECT -row_number() OVER (), 'r', s.*, NULL, NULL, NULL, (SELECT consistent_point FROM feed.slot)
  FROM feed.account_start s;

  CREATE TABLE feed.doc_event AS
  SELECT seq AS n, action AS op, (coalesce(cols, old)->>'id')::bigint AS id,
         cols->>'title' AS title, cols->>'body' AS body, (cols->>'pages')::integer AS pages,
         CASE WHEN action = 'U' THEN (old->>'id')::bigint END AS __old_id,
         CASE WHEN action = 'U' AND NOT cols ? 'body' THEN '{body}'::text[] END AS __unchanged,
         CASE WHEN action = 'U' THEN old->>'body' END AS old_body,
         lsn, commit_lsn
  FROM feed.change WHERE tab = 'doc'
  UNION ALL
  SELECT -row_number() OVER (), 'r', s.*, NULL, NULL, NULL, NULL, (SELECT consistent_point FROM feed.slot)
  FROM feed.doc_start s;

  ANALYZE feed.account_event, feed.doc_event;

  -- The last word on every key: the event itself, or a move away from it. The
  -- record's LSN orders one key's changes, since a second writer of a row
  -- waits for the first one's end; the same table serves both positions.
  CREATE TABLE feed.account_last AS
  SELECT DISTINCT ON (branch, no) * FROM (
    SELECT branch, no, op <> 'D' AS live, lsn, commit_lsn, owner, balance, tags, changed_at
    FROM feed.account_event
    UNION ALL
    SELECT __old_branch, __old_no, false, lsn, commit_lsn, NULL, NULL, NULL, NULL
    FROM feed.account_event
    WHERE (__old_branch, __old_no) <> (branch, no)) e
  ORDER BY branch, no, lsn DESC NULLS LAST;

  CREATE TABLE feed.doc_last AS
  SELECT DISTINCT ON (id) * FROM (
    SELECT id, op <> 'D' AS live, lsn, commit_lsn FROM feed.doc_event
    UNION ALL
    SELECT __old_id, false, lsn, commit_lsn FROM feed.doc_event WHERE __old_id <> id) e
  ORDER BY id, lsn DESC NULLS LAST;
END $$;

-- Does the feed itself hold, before the extension comes in? Rows: what, and
-- how many offend.
CREATE FUNCTION feed.self_check() RETURNS TABLE (what text, bad bigint)
LANGUAGE sql AS $$
  SELECT 'last event per key is the source', count(*) FROM (
    (SELECT branch, no, owner, balance, tags, changed_at FROM feed.account_last WHERE live
     EXCEPT ALL TABLE feed.account_end)
    UNION ALL
    (TABLE feed.account_end EXCEPT ALL
     SELECT branch, no, owner, balance, tags, changed_at FROM feed.account_last WHERE live)) d
  UNION ALL
  SELECT 'no key has two events at one LSN', count(*) FROM (
    SELECT FROM feed.account_event WHERE op <> 'r' GROUP BY branch, no, lsn HAVING count(*) > 1
    UNION ALL
    SELECT FROM feed.doc_event WHERE op <> 'r' GROUP BY id, lsn HAVING count(*) > 1) d
  UNION ALL
  -- Not each pair of events: a key UPDATE writes its record, then waits for the
  -- delete that frees the key, so its LSN can be the lower of the two.
  SELECT 'record and commit order agree on the last event of a key', count(*) FROM (
    SELECT (array_agg(lsn ORDER BY lsn DESC))[1] AS by_record,
      (array_agg(lsn ORDER BY commit_lsn DESC, lsn DESC))[1] AS by_commit
    FROM feed.account_event WHERE op <> 'r' GROUP BY branch, no) d WHERE by_record <> by_commit
  UNION ALL
  SELECT 'transactions open at the snapshot are missing from the feed',
         (count(*) = 0)::int FROM feed.account_event, feed.slot
  WHERE op <> 'r' AND lsn < consistent_point
$$;

-- Sequences, outcomes and times of all calls of a variant.
CREATE TABLE feed.call (
  variant text, batch integer, seconds float8, delivered bigint,
  events bigint, inserted bigint, updated bigint, deleted bigint, stale bigint,
  duplicate bigint, superseded bigint, fenced bigint, ignored bigint,
  truncated bigint, left_over bigint);

-- Delivers the queue to the target, batch after batch, each in a transaction
-- of its own: the batches that are "part" modulo "parts".
CREATE PROCEDURE feed.deliver(variant text, target text, stage text, options text,
                              part integer, parts integer)
LANGUAGE plpgsql AS $$
DECLARE
  columns text := (SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
                   WHERE attrelid = stage::regclass AND attnum > 0 AND NOT attisdropped);
  r record;
  b integer;
  started timestamptz;
  seconds float8;
  delivered bigint;
  left_over bigint;
BEGIN
  FOR b IN SELECT DISTINCT batch FROM feed.queue WHERE batch % parts = part ORDER BY 1 LOOP
    EXECUTE format('TRUNCATE %s', stage);
    EXECUTE format('INSERT INTO %s SELECT %s FROM feed.queue WHERE batch = %s ORDER BY ord',
                   stage, columns, b);
    GET DIAGNOSTICS delivered = ROW_COUNT;
    COMMIT;
    started := clock_timestamp();
    EXECUTE format('SELECT * FROM cdc_apply(%L, %L%s)', target, stage, options) INTO r;
    seconds := extract(epoch FROM clock_timestamp() - started);
    EXECUTE format('SELECT count(*) FROM %s', stage) INTO left_over;
    INSERT INTO feed.call VALUES (variant, b, seconds, delivered, r.events, r.inserted,
      r.updated, r.deleted, r.stale, r.duplicate, r.superseded, r.fenced, r.ignored,
      r.truncated, left_over);
    COMMIT;
  END LOOP;
END $$;

-- A target with its tombstones in the row; new for every variant.
CREATE PROCEDURE feed.new_target(tab text) LANGUAGE plpgsql AS $$
BEGIN
  DROP TABLE IF EXISTS feed.account, feed.doc;
  IF tab = 'account' THEN
    CREATE TABLE feed.account (
      branch text, no integer, owner text, balance numeric(14,2) NOT NULL DEFAULT 0,
      tags text[], changed_at timestamptz, PRIMARY KEY (branch, no));
  ELSE
    CREATE TABLE feed.doc (
      id bigint PRIMARY KEY, title text NOT NULL DEFAULT '', body text, pages integer);
    ALTER TABLE feed.doc ALTER COLUMN body SET STORAGE EXTERNAL;
  END IF;
  EXECUTE format('ALTER TABLE feed.%I ADD deleted boolean NOT NULL DEFAULT false, ADD source_position cdc_position', tab);
END $$;

-- What the target must hold, by the table's own name and the kind of
-- position: rows that differ from the source, and keys whose life or position
-- is not that of the last event (deleted keys must be remembered).
CREATE FUNCTION feed.verify(tab text, snapshot_has_position boolean, commit_positions boolean,
                            OUT differing bigint, OUT wrong_keys bigint, OUT dead bigint)
LANGUAGE plpgsql AS $$
DECLARE
  key text := CASE tab WHEN 'account' THEN 'branch, no' ELSE 'id' END;
  columns text := CASE tab WHEN 'account' THEN 'branch, no, owner, balance, tags, changed_at'
                  ELSE 'id, title, body, pages' END;
  expected text := CASE WHEN commit_positions
                   THEN 'cdc_position(commit_lsn, coalesce(lsn - ''0/0''::pg_lsn, 0)::bigint)'
                   ELSE 'cdc_position(lsn)' END;
BEGIN
  IF NOT snapshot_has_position THEN
    expected := format('CASE WHEN lsn IS NOT NULL THEN %s END', expected);
  END IF;
  EXECUTE format(
    'SELECT count(*) FROM (
       (SELECT %1$s FROM feed.%2$s WHERE NOT deleted EXCEPT ALL SELECT %1$s FROM feed.%2$s_end)
       UNION ALL
       (SELECT %1$s FROM feed.%2$s_end EXCEPT ALL SELECT %1$s FROM feed.%2$s WHERE NOT deleted)) d',
    columns, tab) INTO differing;
  EXECUTE format(
    'SELECT count(*) FILTER (WHERE (t.deleted, t.source_position)
                             IS DISTINCT FROM (NOT l.live, %3$s)),
            count(*) FILTER (WHERE t.deleted)
     FROM feed.%1$s t FULL JOIN feed.%1$s_last l USING (%2$s)',
    tab, key, expected) INTO wrong_keys, dead;
END $$;

-- Where every version of every row of the target is: a replay leaves this.
CREATE FUNCTION feed.footprint(tab text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  result text;
BEGIN
  EXECUTE format('SELECT count(*) || '' '' || sum(hashtextextended(concat_ws('' '', ctid, xmin, xmax), 0)) FROM feed.%I', tab)
    INTO result;
  RETURN result;
END $$;
