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

-- Events that took effect after another one of the same key whose LSN is the
-- higher, "before".
CREATE FUNCTION feed.out_of_order() RETURNS TABLE (tab text, n bigint, before pg_lsn)
LANGUAGE sql STABLE AS $$
  SELECT 'account', n, max(before) FROM (
    SELECT n, lsn, max(lsn) OVER (PARTITION BY branch, no ORDER BY commit_lsn, lsn
                                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (SELECT n, branch, no, lsn, commit_lsn FROM feed.account_event WHERE op NOT IN ('r', 'T')
          UNION ALL
          SELECT n, __old_branch, __old_no, lsn, commit_lsn FROM feed.account_event
          WHERE op NOT IN ('r', 'T') AND (__old_branch, __old_no) <> (branch, no)) x) y
  WHERE before > lsn GROUP BY n
  UNION ALL
  SELECT 'doc', n, max(before) FROM (
    SELECT n, lsn, max(lsn) OVER (PARTITION BY id ORDER BY commit_lsn, lsn
                                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (SELECT n, id, lsn, commit_lsn FROM feed.doc_event WHERE op <> 'r'
          UNION ALL
          SELECT n, __old_id, lsn, commit_lsn FROM feed.doc_event WHERE op <> 'r' AND __old_id <> id) x) y
  WHERE before > lsn GROUP BY n
$$;

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
  FROM feed.change WHERE tab = 'account'   -- a T too, which has no key
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

  -- An INSERT or a change of a key writes its record, then waits for whoever
  -- frees the key; so its LSN can be the lower of the two, though it takes
  -- effect later. It happens to one change in some 300000, and what these tests
  -- are about is not how a source numbers its changes: such a one gets the next
  -- LSN, at which no record can begin.
  UPDATE feed.account_event e SET lsn = o.before + 1 FROM feed.out_of_order() o WHERE o.tab = 'account' AND o.n = e.n;
  UPDATE feed.doc_event e SET lsn = o.before + 1 FROM feed.out_of_order() o WHERE o.tab = 'doc' AND o.n = e.n;
  ANALYZE feed.account_event, feed.doc_event;

  -- Where the source's TRUNCATE is, if there was one.
  CREATE TABLE feed.sweep AS
  SELECT lsn, commit_lsn FROM feed.account_event WHERE op = 'T';

  -- The last word on every key: the event itself, or a move away from it; what
  -- the TRUNCATE found is dead, whatever its own last word was. The record's LSN orders one key's changes, since a second writer of a row
  -- waits for the first one's end; the same table serves both positions.
  CREATE TABLE feed.account_last AS
  SELECT DISTINCT ON (branch, no) * FROM (
    SELECT branch, no, op <> 'D' AND NOT EXISTS (SELECT FROM feed.sweep s WHERE e.lsn < s.lsn OR e.op = 'r') AS live,
      lsn, commit_lsn, owner, balance, tags, changed_at
    FROM feed.account_event e WHERE op <> 'T'
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
    SELECT FROM feed.account_event WHERE op NOT IN ('r', 'T') GROUP BY branch, no, lsn HAVING count(*) > 1
    UNION ALL
    SELECT FROM feed.doc_event WHERE op <> 'r' GROUP BY id, lsn HAVING count(*) > 1) d
  UNION ALL
  SELECT 'record and commit order agree on each key', count(*) FROM feed.out_of_order()
  UNION ALL
  SELECT 'record and commit order agree on what comes before the TRUNCATE', count(*)
  FROM feed.account_event e, feed.sweep s
  WHERE op <> 'r' AND (e.lsn < s.lsn) <> ((e.commit_lsn, e.lsn) < (s.commit_lsn, s.lsn))
  UNION ALL
  SELECT 'transactions open at the snapshot are missing from the feed',
         (count(*) = 0)::int FROM feed.account_event, feed.slot
  WHERE op <> 'r' AND lsn < consistent_point
$$;

-- Sequences, outcomes and times of all calls of a variant.
CREATE TABLE feed.call (
  nr bigint GENERATED ALWAYS AS IDENTITY, variant text, batch integer, seconds float8, delivered bigint,
  events bigint, inserted bigint, updated bigint, deleted bigint, stale bigint,
  duplicate bigint, superseded bigint, fenced bigint, ignored bigint,
  truncated bigint, left_over bigint);

-- Delivers the queue to the target, batch after batch, each in a transaction
-- of its own: the batches from first to last that are "part" modulo "parts".
CREATE PROCEDURE feed.deliver(variant text, target text, stage text, options text,
                              part integer, parts integer, first integer DEFAULT 0, last integer DEFAULT 1000000)
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
  FOR b IN SELECT DISTINCT batch FROM feed.queue WHERE batch % parts = part AND batch BETWEEN first AND last ORDER BY 1 LOOP
    EXECUTE format('TRUNCATE %s', stage);
    EXECUTE format('INSERT INTO %s SELECT %s FROM feed.queue WHERE batch = %s ORDER BY ord',
                   stage, columns, b);
    GET DIAGNOSTICS delivered = ROW_COUNT;
    COMMIT;
    started := clock_timestamp();
    EXECUTE format('SELECT * FROM cdc_apply(%L, %L%s)', target, stage, options) INTO r;
    seconds := extract(epoch FROM clock_timestamp() - started);
    EXECUTE format('SELECT count(*) FROM %s', stage) INTO left_over;
    INSERT INTO feed.call OVERRIDING USER VALUE VALUES (0, variant, b, seconds, delivered, r.events, r.inserted,
      r.updated, r.deleted, r.stale, r.duplicate, r.superseded, r.fenced, r.ignored,
      r.truncated, left_over);
    COMMIT;
  END LOOP;
END $$;

/*
 * The target, new for every variant. Its home says where its tombstones are:
 *   free  feed.<tab>, in the row, not attached
 *   row   feed.<tab>, in the row, attached
 *   side  feed.<tab>_side, attached, in the side table
 */
CREATE PROCEDURE feed.new_target(tab text, home text DEFAULT 'free') LANGUAGE plpgsql AS $$
DECLARE
  name text := tab || CASE home WHEN 'side' THEN '_side' ELSE '' END;
BEGIN
  EXECUTE format('DROP TABLE IF EXISTS feed.%I', name);
  IF tab = 'account' THEN
    EXECUTE format('CREATE TABLE feed.%I (
      branch text, no integer, owner text, balance numeric(14,2) NOT NULL DEFAULT 0,
      tags text[], changed_at timestamptz, PRIMARY KEY (branch, no))', name);
  ELSE
    EXECUTE format('CREATE TABLE feed.%I (
      id bigint PRIMARY KEY, title text NOT NULL DEFAULT '''', body text, pages integer)', name);
    EXECUTE format('ALTER TABLE feed.%I ALTER COLUMN body SET STORAGE EXTERNAL', name);
  END IF;
  IF home = 'free' THEN
    EXECUTE format('ALTER TABLE feed.%I ADD deleted boolean NOT NULL DEFAULT false, ADD source_position cdc_position', name);
  ELSE
    EXECUTE format('SELECT cdc_attach(%L, tombstones => %L)', 'feed.' || name, CASE home WHEN 'row' THEN 'row' ELSE 'table' END);
  END IF;
END $$;

-- A query of a target's state: its key, deleted, source_position and, with
-- columns, these (NULL where deleted, since they are no part of the law).
CREATE FUNCTION feed.state(tab text, home text, columns text[] DEFAULT '{}') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  key text := CASE tab WHEN 'account' THEN 'branch, no' ELSE 'id' END;
  list text := (SELECT coalesce(string_agg(', ' || c, '' ORDER BY n), '') FROM unnest(columns) WITH ORDINALITY u (c, n));
  none text := regexp_replace(list, ', (\w+)', ', NULL', 'g');
  tombstones regclass;
BEGIN
  IF home <> 'side' THEN
    RETURN format('SELECT %1$s, deleted, source_position%2$s FROM feed.%4$I WHERE NOT deleted
                   UNION ALL SELECT %1$s, deleted, source_position%3$s FROM feed.%4$I WHERE deleted', key, list, none, tab);
  END IF;
  EXECUTE format('SELECT tombstones FROM cdc_targets WHERE target = ''feed.%I''::regclass', tab || '_side') INTO STRICT tombstones;
  RETURN format('SELECT %1$s, false AS deleted, source_position%2$s FROM feed.%4$I
                 UNION ALL SELECT %1$s, true, source_position%3$s FROM %5$s', key, list, none, tab || '_side', tombstones);
END $$;

CREATE FUNCTION feed.fence(tab text, home text) RETURNS cdc_position LANGUAGE plpgsql AS $$
DECLARE
  fence cdc_position;
BEGIN
  IF home <> 'free' THEN
    EXECUTE format('SELECT fence FROM cdc_targets WHERE target = ''feed.%I''::regclass',
                   tab || CASE home WHEN 'side' THEN '_side' ELSE '' END) INTO STRICT fence;
  END IF;
  RETURN fence;
END $$;

-- What the target must hold, by the table's own name and the kind of
-- position: rows that differ from the source, and keys whose life or position
-- is not that of the last event (deleted keys must be remembered, unless the
-- fence remembers them).
CREATE FUNCTION feed.verify(tab text, snapshot_has_position boolean, commit_positions boolean, home text DEFAULT 'free',
                            OUT differing bigint, OUT wrong_keys bigint, OUT dead bigint)
LANGUAGE plpgsql AS $$
DECLARE
  key text := CASE tab WHEN 'account' THEN 'branch, no' ELSE 'id' END;
  more text[] := CASE tab WHEN 'account' THEN '{owner,balance,tags,changed_at}' ELSE '{title,body,pages}'::text[] END;
  columns text := key || ', ' || array_to_string(more, ', ');
  expected text := CASE WHEN commit_positions
                   THEN 'cdc_position(commit_lsn, coalesce(lsn - ''0/0''::pg_lsn, 0)::bigint)'
                   ELSE 'cdc_position(lsn)' END;
BEGIN
  IF NOT snapshot_has_position THEN
    expected := format('CASE WHEN lsn IS NOT NULL THEN %s END', expected);
  END IF;
  EXECUTE format(
    'WITH t AS (SELECT %1$s FROM (%3$s) s WHERE NOT deleted)
     SELECT count(*) FROM (
       (TABLE t EXCEPT ALL SELECT %1$s FROM feed.%2$s_end)
       UNION ALL
       (SELECT %1$s FROM feed.%2$s_end EXCEPT ALL TABLE t)) d',
    columns, tab, feed.state(tab, home, more)) INTO differing;
  EXECUTE format(
    'SELECT count(*) FILTER (WHERE CASE WHEN NOT l.live AND (l.position <= $1 OR l.position IS NULL AND $1 IS NOT NULL)
                                        THEN NOT t.deleted
                                        ELSE (t.deleted, t.source_position) IS DISTINCT FROM (NOT l.live, l.position) END),
            count(*) FILTER (WHERE t.deleted)
     FROM (%1$s) t FULL JOIN (SELECT *, %4$s AS position FROM feed.%2$s_last) l USING (%3$s)',
    feed.state(tab, home), tab, key, expected) INTO wrong_keys, dead USING feed.fence(tab, home);
END $$;

-- Keys on which two homes disagree: rows, and deletes above the fence.
CREATE FUNCTION feed.between_homes(tab text, home text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  more text[] := CASE tab WHEN 'account' THEN '{owner,balance,tags,changed_at}' ELSE '{title,body,pages}'::text[] END;
  n bigint;
BEGIN
  IF feed.fence(tab, 'side') IS DISTINCT FROM feed.fence(tab, home) AND home <> 'free' THEN
    RETURN -1;
  END IF;
  EXECUTE format(
    'WITH a AS (SELECT * FROM (%s) s WHERE NOT deleted OR $1 IS NULL OR source_position > $1),
          b AS (SELECT * FROM (%s) s WHERE NOT deleted OR $1 IS NULL OR source_position > $1)
     SELECT count(*) FROM ((TABLE a EXCEPT ALL TABLE b) UNION ALL (TABLE b EXCEPT ALL TABLE a)) d',
    feed.state(tab, home, more), feed.state(tab, 'side', more)) INTO n USING feed.fence(tab, 'side');
  RETURN n;
END $$;

-- Where every version of every row and tombstone is: a replay leaves this.
CREATE FUNCTION feed.footprint(tab text, home text DEFAULT 'free') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  name text;
  one text;
  result text := '';
  names text[] := ARRAY[format('feed.%I', tab || CASE home WHEN 'side' THEN '_side' ELSE '' END)];
BEGIN
  IF home = 'side' THEN
    EXECUTE format('SELECT $1 || tombstones::text FROM cdc_targets WHERE target = %L::regclass', names[1]) INTO names USING names;
  END IF;
  FOREACH name IN ARRAY names LOOP
    EXECUTE format('SELECT count(*) || '' '' || coalesce(sum(hashtextextended(concat_ws('' '', ctid, xmin, xmax), 0)), 0) FROM %s', name)
      INTO one;
    result := result || one || ' ';
  END LOOP;
  RETURN result;
END $$;

-- The greatest position up to which the batches up to the last one have it all.
CREATE FUNCTION feed.safe_position(last integer) RETURNS cdc_position LANGUAGE plpgsql AS $$
DECLARE
  safe cdc_position;
BEGIN
  EXECUTE 'SELECT max(source_position) FROM feed.queue
           WHERE op <> ''r'' AND batch <= $1 AND source_position <
                 coalesce((SELECT min(source_position) FROM feed.queue WHERE batch > $1), ''FFFFFFFF/FFFFFFFF'')'
    INTO safe USING last;
  RETURN safe;
END $$;

-- What must not be done: the memory of deletes removed without a fence.
CREATE PROCEDURE feed.forget_deletes(tab text, home text) LANGUAGE plpgsql AS $$
BEGIN
  IF home = 'side' THEN
    EXECUTE format('DELETE FROM %s', (SELECT tombstones FROM cdc_targets WHERE target = format('feed.%I', tab || '_side')::regclass));
  ELSE
    EXECUTE format('DELETE FROM feed.%I WHERE deleted', tab);
  END IF;
END $$;
