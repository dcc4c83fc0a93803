/*
 * The oracle of the law test: what one call must do, and what all of them
 * together must leave, worked out in plain SQL from the events alone.
 *
 * Nothing here uses the extension. A position is an array of numbers
 * {epoch, head, part, part}, all of one length, compared number by number; an
 * LSN is its 64-bit number. NULL is "no position". Values are text, kept in one
 * jsonb object per row.
 */
CREATE SCHEMA law;

-- How the history at hand is to be read; one row.
CREATE UNLOGGED TABLE law.setting (
  kind     text,       -- 'lsn' or 'num': what heads the positions
  snap     text,       -- 'event' or 'none': the position of snapshot rows
  on_tie   text,       -- 'error' or 'upsert'
  unav     text,       -- 'error' or 'null': an unchanged value found nowhere
  nulls    boolean,    -- a NULL means "no change": found nowhere, the default
  defaults jsonb,      -- column defaults of the target
  fence    numeric[],  -- a dead key is known dead up to here
  floor    numeric[]   -- every key is decided up to here
);

-- The events of a history. "gone" lists the columns an event does not carry.
CREATE UNLOGGED TABLE law.event (
  eid  integer PRIMARY KEY,
  ka   text, kb text,  -- key; kb is '' where the key has one column
  oa   text, ob text,  -- key before the change
  pos  numeric[],
  vals jsonb NOT NULL,
  gone text[] NOT NULL DEFAULT '{}'
);

-- The ways one event is spelled in staging: they mean the same.
CREATE UNLOGGED TABLE law.form (
  eid  integer, form integer,
  op   text,
  row  jsonb NOT NULL,
  PRIMARY KEY (eid, form)
);

-- The state the oracle believes in.
CREATE UNLOGGED TABLE law.model (
  ka   text, kb text,
  live boolean NOT NULL,
  pos  numeric[],
  vals jsonb,
  own  text,           -- a column that only the target has
  killed boolean NOT NULL DEFAULT false, -- dead by a truncate: in the row home a row, in the side home nothing
  loose  boolean NOT NULL DEFAULT false, -- a tombstone that a purge may have taken already
  PRIMARY KEY (ka, kb)
);

CREATE TABLE law.spelling (op text PRIMARY KEY, class text NOT NULL);
INSERT INTO law.spelling
SELECT op, class
FROM (VALUES ('upsert',     '{c,i,insert,create,u,update,upsert,+i,+u,update_after,2,4}'::text[]),
             ('snapshot',   '{r,read,snapshot}'),
             ('delete',     '{d,delete,-d,1}'),
             ('retraction', '{-u,update_before,3}'),
             ('truncate',   '{t,truncate,7}'),   -- 7 by op_map, where op is an integer
             ('ignored',    '{m,message,begin,commit}')) AS t (class, ops),
     unnest(ops) AS op;

-- A position as the extension prints it.
CREATE FUNCTION law.print(kind text, pos numeric[]) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN pos IS NULL THEN NULL
              ELSE CASE WHEN pos[1] > 0 THEN pos[1] || '@' ELSE '' END
                || CASE kind WHEN 'lsn' THEN upper(to_hex(div(pos[2], 4294967296)::bigint)) || '/'
                                          || upper(to_hex(mod(pos[2], 4294967296)::bigint))
                             ELSE pos[2]::text END
                || regexp_replace(coalesce(':' || array_to_string(pos[3:], ':'), ''), '(:0)+$', '') END
$$;

-- What an op means for an event.
CREATE FUNCTION law.class(op text, ka text, kb text, pos numeric[], vals jsonb) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN op IS NULL AND pos IS NULL AND jsonb_strip_nulls(vals) = '{}' THEN 'ignored'
              WHEN op IS NULL THEN 'snapshot'
              WHEN btrim(op) IN ('B', 'C') AND num_nonnulls(ka, kb) = 0
                   AND jsonb_strip_nulls(vals) = '{}' THEN 'ignored'
              ELSE coalesce((SELECT s.class FROM law.spelling s WHERE s.op = lower(btrim($1))), 'unknown')
         END
$$;

/*
 * One call: the events in "eids" (each spelled as "forms" says) meet the model.
 * Gives the counts, the SQLSTATEs one of which the call must fail with (none:
 * it must succeed), the keys that are written and those that a truncate kills
 * and nothing else writes, and moves the model on. A call that is refused for
 * another reason has its SQLSTATE in "refusals".
 */
CREATE FUNCTION law.judge(eids integer[], forms integer[], refusals text[],
                          OUT counts jsonb, OUT errors text[], OUT written text[], OUT killed text[])
LANGUAGE plpgsql AS $$
DECLARE
  swept numeric[];
BEGIN
  WITH RECURSIVE
  -- The rows of the call, each with what its op means and the position it is weighed by.
  item AS MATERIALIZED (
    SELECT i.seq, e.ka, e.kb, e.vals, e.gone, c.class,
           CASE WHEN c.class = 'snapshot' AND s.snap = 'none' THEN NULL
                WHEN s.kind = 'lsn' AND e.pos[2] = 0 THEN NULL
                ELSE e.pos END AS pos,
           m.moved, m.fa, m.fb
    FROM law.setting s,
         unnest(eids, forms) WITH ORDINALITY AS i (eid, form, seq)
         JOIN law.event e USING (eid)
         JOIN law.form f USING (eid, form),
         LATERAL (SELECT law.class(f.op, e.ka, e.kb, e.pos, e.vals)) AS c (class),
         LATERAL (SELECT e.oa IS NOT NULL AND (e.oa, e.ob) IS DISTINCT FROM (e.ka, e.kb)) AS v (moved),
         LATERAL (SELECT v.moved, CASE WHEN v.moved THEN e.oa ELSE e.ka END,
                         CASE WHEN v.moved THEN e.ob ELSE e.kb END) AS m (moved, fa, fb)
  ),
  refused AS (
    SELECT '22023' AS code FROM item WHERE class = 'unknown'
    UNION SELECT '23502' FROM item WHERE class NOT IN ('ignored', 'truncate') AND num_nulls(ka, kb) > 0
    UNION SELECT '23502' FROM item WHERE class IN ('upsert', 'delete', 'retraction', 'truncate') AND pos IS NULL
    UNION SELECT unnest(refusals)
  ),
  -- The greatest truncate, unless fence or floor has gone past it.
  sweep AS MATERIALIZED (
    SELECT t.pos, t.pos > coalesce(s.fence, '{-1}') AND t.pos > coalesce(s.floor, '{-1}') AS effective
    FROM (SELECT max(i.pos) AS pos FROM item i WHERE i.class = 'truncate') AS t, law.setting s
    WHERE t.pos IS NOT NULL
  ),
  -- The model as the truncate leaves it, with the fence raised.
  bound AS MATERIALIZED (
    SELECT coalesce((SELECT w.pos FROM sweep w WHERE w.effective), s.fence) AS fence, s.floor,
           (SELECT w.pos FROM sweep w WHERE w.effective) AS swept
    FROM law.setting s
  ),
  stored AS MATERIALIZED (
    SELECT m.ka, m.kb, m.live AND NOT k.kill AS live, CASE WHEN k.kill THEN b.swept ELSE m.pos END AS pos,
           m.vals, m.own, k.kill
    FROM law.model m, bound b,
         LATERAL (SELECT m.live AND b.swept IS NOT NULL AND (m.pos IS NULL OR m.pos <= b.swept)) AS k (kill)
  ),
  -- What speaks for each key: its events, and a delete for each key left behind.
  voice AS MATERIALIZED (
    SELECT v.*, coalesce(v.pos, '{-1}') AS ord,
           bool_or(v.class = 'upsert') OVER (PARTITION BY v.ka, v.kb, v.pos) AS beside_upsert
    FROM (SELECT seq, false AS implied, ka, kb, pos, class,
                 CASE class WHEN 'upsert' THEN 5 WHEN 'delete' THEN 4 WHEN 'retraction' THEN 3
                            ELSE 1 END AS rank
          FROM item WHERE class NOT IN ('ignored', 'unknown')
          UNION ALL
          SELECT seq, true, fa, fb, pos, 'delete', 2
          FROM item WHERE moved AND class NOT IN ('ignored', 'unknown')) AS v, bound b
    WHERE v.class <> 'truncate' AND (b.swept IS NULL OR v.pos > b.swept)
  ),
  ranked AS (
    SELECT v.*, row_number() OVER (PARTITION BY ka, kb ORDER BY ord DESC, rank DESC, implied, seq) = 1 AS wins
    FROM voice v
  ),
  -- The truth table.
  verdict AS MATERIALIZED (
    SELECT w.*,
           CASE WHEN w.pos IS NULL AND s.floor IS NOT NULL OR w.pos <= s.floor THEN 'stale'
                WHEN m.live IS NOT TRUE
                     AND (w.pos IS NULL AND s.fence IS NOT NULL OR w.pos <= s.fence) THEN 'fenced'
                WHEN m.ka IS NULL THEN CASE WHEN w.class IN ('upsert', 'snapshot') THEN 'inserted' ELSE 'deleted' END
                WHEN w.pos IS NULL AND m.pos IS NULL THEN 'duplicate'
                WHEN w.pos IS NULL THEN 'stale'
                WHEN m.pos IS NULL OR w.pos > m.pos THEN
                     CASE WHEN w.class NOT IN ('upsert', 'snapshot') THEN 'deleted'
                          WHEN m.live THEN 'updated' ELSE 'inserted' END
                WHEN w.pos = m.pos AND w.class = 'upsert' AND NOT m.live THEN 'inserted'
                WHEN w.pos = m.pos THEN 'duplicate'
                ELSE 'stale' END AS outcome
    FROM bound s, ranked w LEFT JOIN stored m ON (m.ka, m.kb) = (w.ka, w.kb)
    WHERE w.wins
  ),
  tie AS (
    SELECT '21000' AS code
    FROM verdict w
         JOIN voice o ON (o.ka, o.kb, o.ord) = (w.ka, w.kb, w.ord) AND o.seq <> w.seq
         JOIN item wi ON wi.seq = w.seq
         JOIN item oi ON oi.seq = o.seq,
         law.setting s
    WHERE w.outcome IN ('inserted', 'updated', 'deleted') AND s.on_tie = 'error'
      AND NOT w.implied AND NOT o.implied
      AND (w.class = 'upsert' AND o.class = 'delete'
           OR w.class = o.class AND (wi.vals, wi.gone) IS DISTINCT FROM (oi.vals, oi.gone))
  ),
  -- Values that the winner does not carry: back through the key's older events
  -- in the call, through a move to the old key's below that position, at the
  -- end the stored row; an old key's row that is newer than the move is another.
  -- What fence and floor decide is not looked at: there the key was dead, or the
  -- stored row already is what came of it.
  walk AS (
    SELECT w.seq, col, i.fa AS ka, i.fb AS kb, w.ord, CASE WHEN i.moved THEN 0 ELSE w.rank END AS rank,
           CASE WHEN i.moved THEN w.ord END AS moved_at, false AS over, false AS found, NULL::text AS val
    FROM verdict w JOIN item i USING (seq), unnest(i.gone) AS col
    WHERE w.outcome IN ('inserted', 'updated')
    UNION ALL
    SELECT w.seq, w.col, y.fa, y.fb, y.ord, CASE WHEN y.moved THEN 0 ELSE y.rank END,
           CASE WHEN y.moved THEN y.ord ELSE w.moved_at END,
           y.seq IS NULL OR y.class IN ('delete', 'retraction') OR w.col <> ALL (y.gone),
           CASE WHEN y.seq IS NULL THEN m.live IS TRUE AND (w.moved_at IS NULL OR m.pos IS NULL OR m.pos < w.moved_at)
                ELSE y.class NOT IN ('delete', 'retraction') AND w.col <> ALL (y.gone) END,
           CASE WHEN y.seq IS NULL THEN m.vals ->> w.col ELSE y.vals ->> w.col END
    FROM walk w
         LEFT JOIN stored m ON (m.ka, m.kb) = (w.ka, w.kb)
         LEFT JOIN LATERAL (
           SELECT v.seq, v.class, v.ord, v.rank, i.vals, i.gone, i.moved, i.fa, i.fb
           FROM voice v JOIN item i USING (seq), bound b
           WHERE (v.ka, v.kb) = (w.ka, w.kb)
             AND (b.floor IS NULL OR v.pos > b.floor)
             AND (m.live IS TRUE OR b.fence IS NULL OR v.pos > b.fence)
             AND (v.ord, v.rank) < (w.ord, w.rank)
             -- a before image beside its after image is no delete
             AND NOT (v.class = 'retraction' AND v.beside_upsert)
             AND (m.ka IS NULL OR v.pos > m.pos OR v.pos IS NOT NULL AND m.pos IS NULL
                  OR v.pos = m.pos AND NOT m.live AND v.class = 'upsert')
           ORDER BY v.ord DESC, v.rank DESC, v.seq LIMIT 1) AS y ON true
    WHERE NOT w.over
  ),
  filled AS MATERIALIZED (
    SELECT w.seq, jsonb_object_agg(w.col, CASE WHEN w.found THEN w.val
                                               WHEN s.nulls THEN s.defaults ->> w.col END) AS vals,
           bool_or(NOT w.found AND NOT s.nulls AND s.unav = 'error') AS lost
    FROM walk w, law.setting s
    WHERE w.over
    GROUP BY w.seq
  ),
  fault AS MATERIALIZED (
    SELECT code FROM refused
    UNION SELECT code FROM tie
    UNION SELECT '55000' FROM filled WHERE lost
  ),
  write AS (
    INSERT INTO law.model AS m (ka, kb, live, pos, vals, own)
    SELECT v.ka, v.kb, v.outcome <> 'deleted', v.pos,
           CASE WHEN v.outcome <> 'deleted' THEN i.vals || coalesce(f.vals, '{}') END,
           CASE WHEN v.outcome = 'updated' THEN o.own WHEN v.outcome = 'inserted' THEN s.defaults ->> 'own' END
    FROM verdict v JOIN item i USING (seq) LEFT JOIN filled f USING (seq)
         LEFT JOIN stored o ON (o.ka, o.kb) = (v.ka, v.kb), law.setting s
    WHERE v.outcome IN ('inserted', 'updated', 'deleted') AND NOT EXISTS (SELECT FROM fault)
    ON CONFLICT (ka, kb) DO UPDATE
    SET live = excluded.live, pos = excluded.pos, vals = excluded.vals, own = excluded.own,
        killed = false, loose = false
    RETURNING ka, kb
  ),
  kill AS (
    UPDATE law.model m SET live = false, pos = o.pos, vals = NULL, own = NULL, killed = true
    FROM stored o
    WHERE o.kill AND (o.ka, o.kb) = (m.ka, m.kb) AND NOT EXISTS (SELECT FROM fault)
      AND NOT EXISTS (SELECT FROM verdict v
                      WHERE (v.ka, v.kb) = (m.ka, m.kb) AND v.outcome IN ('inserted', 'updated', 'deleted'))
    RETURNING m.ka, m.kb
  ),
  outcome AS (
    SELECT CASE WHEN r.wins THEN v.outcome ELSE 'superseded' END AS outcome
    FROM ranked r LEFT JOIN verdict v ON v.seq = r.seq AND v.implied = r.implied
    WHERE NOT r.implied
    UNION ALL
    SELECT 'ignored' FROM item WHERE class = 'ignored'
    UNION ALL
    SELECT 'superseded' FROM item i, bound b
    WHERE i.class NOT IN ('ignored', 'unknown', 'truncate') AND (i.pos <= b.swept OR i.pos IS NULL AND b.swept IS NOT NULL)
    UNION ALL
    -- a truncate that comes too late supersedes nothing, no other truncate either
    SELECT CASE WHEN NOT w.effective THEN 'stale'
                WHEN row_number() OVER (ORDER BY i.pos DESC) > 1 THEN 'superseded' ELSE 'truncated' END
    FROM item i, sweep w WHERE i.class = 'truncate'
  )
  SELECT (SELECT jsonb_build_object(
                   'events', count(*),
                   'inserted', count(*) FILTER (WHERE outcome = 'inserted'),
                   'updated', count(*) FILTER (WHERE outcome = 'updated'),
                   'deleted', count(*) FILTER (WHERE outcome = 'deleted'),
                   'stale', count(*) FILTER (WHERE outcome = 'stale'),
                   'duplicate', count(*) FILTER (WHERE outcome = 'duplicate'),
                   'superseded', count(*) FILTER (WHERE outcome = 'superseded'),
                   'fenced', count(*) FILTER (WHERE outcome = 'fenced'),
                   'ignored', count(*) FILTER (WHERE outcome = 'ignored'),
                   'truncated', count(*) FILTER (WHERE outcome = 'truncated'))
          FROM outcome),
         (SELECT coalesce(array_agg(code), '{}') FROM fault),
         (SELECT coalesce(array_agg(ka || '|' || kb ORDER BY ka, kb), '{}') FROM write),
         (SELECT coalesce(array_agg(ka || '|' || kb ORDER BY ka, kb), '{}') FROM kill),
         (SELECT b.swept FROM bound b WHERE NOT EXISTS (SELECT FROM fault))
  INTO counts, errors, written, killed, swept;
  IF swept IS NOT NULL THEN
    UPDATE law.setting SET fence = swept;
  END IF;
END
$$;

-- What an owner does between calls, to the model.
CREATE PROCEDURE law.owner_act(kind text, pos numeric[])
LANGUAGE plpgsql AS $$
BEGIN
  CASE kind
    WHEN 'fence' THEN UPDATE law.setting SET fence = owner_act.pos;
    WHEN 'floor' THEN UPDATE law.setting SET floor = owner_act.pos;
    WHEN 'as_of' THEN UPDATE law.setting SET floor = greatest(floor, owner_act.pos);
    WHEN 'purge' THEN
      UPDATE law.setting SET fence = greatest(fence, owner_act.pos);
      DELETE FROM law.model m WHERE NOT m.live AND m.pos <= owner_act.pos;
    WHEN 'purge some' THEN
      UPDATE law.setting SET fence = greatest(fence, owner_act.pos);
      UPDATE law.model m SET loose = true WHERE NOT m.live AND m.pos <= owner_act.pos;
    WHEN 'forget' THEN DELETE FROM law.model m WHERE NOT m.live;
    WHEN 'none' THEN NULL;
  END CASE;
END
$$;

/*
 * All calls together: for each key the change with the greatest position wins,
 * and nothing at or below the greatest truncate counts. Rows that stood in the
 * target before ("first") have no position, but all up to "as_of" is in them. A
 * key whose greatest position is shared by changes that differ is left out:
 * which of them stands is not the law's affair. For events that carry every
 * value.
 */
CREATE FUNCTION law.final(eids integer[], first jsonb, as_of numeric[])
RETURNS TABLE (ka text, kb text, live boolean, pos numeric[], vals jsonb)
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY
  WITH item AS (
    SELECT e.ka, e.kb, e.oa, e.ob, e.vals, c.class,
           CASE WHEN c.class = 'snapshot' AND s.snap = 'none' THEN NULL
                WHEN s.kind = 'lsn' AND e.pos[2] = 0 THEN NULL
                ELSE e.pos END AS pos
    FROM law.setting s,
         (SELECT DISTINCT unnest(eids)) AS i (eid)
         JOIN law.event e USING (eid)
         JOIN law.form f ON f.eid = e.eid AND f.form = 0,
         LATERAL (SELECT law.class(f.op, e.ka, e.kb, e.pos, e.vals)) AS c (class)
    WHERE c.class <> 'ignored'
  ),
  told AS (
    SELECT i.ka, i.kb, i.pos, i.class IN ('upsert', 'snapshot') AS live, i.class = 'retraction' AS yields,
           CASE WHEN i.class IN ('upsert', 'snapshot') THEN i.vals END AS vals, false AS old
    FROM item i
    WHERE i.class <> 'truncate'
    UNION ALL
    SELECT i.oa, i.ob, i.pos, false, true, NULL, false FROM item i
    WHERE i.oa IS NOT NULL AND (i.oa, i.ob) IS DISTINCT FROM (i.ka, i.kb)
    UNION ALL
    SELECT r ->> 'ka', r ->> 'kb', NULL, true, false, r -> 'vals', true FROM jsonb_array_elements(first) AS r
  ),
  sweep AS (
    SELECT max(i.pos) AS pos FROM item i WHERE i.class = 'truncate' AND (as_of IS NULL OR i.pos > as_of)
  ),
  voice AS (
    SELECT v.ka, v.kb, v.pos, v.live, v.yields, v.vals
    FROM told v, sweep w
    WHERE (v.old OR as_of IS NULL OR v.pos > as_of) AND (w.pos IS NULL OR v.pos > w.pos)
    UNION ALL
    -- known to be dead by the truncate, if by nothing else
    SELECT DISTINCT v.ka, v.kb, '{-1}'::numeric[], false, false, NULL::jsonb
    FROM told v, sweep w WHERE v.pos IS NULL AND w.pos IS NOT NULL OR v.pos <= w.pos
  ),
  top AS (
    SELECT v.*, rank() OVER (PARTITION BY v.ka, v.kb ORDER BY coalesce(v.pos, '{-1}') DESC) AS r,
           bool_or(v.live) OVER (PARTITION BY v.ka, v.kb, v.pos) AS any_live
    FROM voice v
  ),
  last AS (
    SELECT DISTINCT t.ka, t.kb, t.live, t.pos, t.vals FROM top t WHERE t.r = 1 AND NOT (t.yields AND t.any_live)
  )
  SELECT (array_agg(l.ka))[1], (array_agg(l.kb))[1], bool_or(l.live), max(l.pos), max(l.vals::text)::jsonb
  FROM last l GROUP BY l.ka, l.kb HAVING count(*) = 1;
END
$$;
