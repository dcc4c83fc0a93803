/*
 * Tables of the crash test and its oracle, in plain SQL.
 *
 * "log" holds every event; "done" which of them a target has been given, kept
 * in the transaction of the apply that gave them. So at any moment, after
 * whatever kill, the target must be what the law says of the events in done.
 * An event's position is its number (eid), so no two share one.
 */
CREATE EXTENSION cdc_precedence;
CREATE SCHEMA storm;
SET search_path = storm, public;

CREATE TABLE log (eid bigint PRIMARY KEY, id integer NOT NULL, old_id integer, op text NOT NULL, val text);
CREATE TABLE done (target text, eid bigint, PRIMARY KEY (target, eid));
CREATE TABLE tally (target text, r cdc_apply_result);

CREATE FUNCTION lsn_of(eid bigint) RETURNS pg_lsn LANGUAGE sql IMMUTABLE AS
  $$ SELECT '0/0'::pg_lsn + eid * 8 $$;

-- n events on the keys 1 .. keys: a tenth deletes, a tenth moves to another key
CREATE PROCEDURE make_log(n integer, keys integer) LANGUAGE sql AS $$
  INSERT INTO log
  SELECT e, k, CASE WHEN what BETWEEN 10 AND 19 THEN 1 + (k + e) % keys END,
         CASE WHEN what < 10 THEN 'd' WHEN what < 20 THEN 'u' ELSE 'c' END,
         CASE WHEN what >= 10 THEN e || repeat(md5(e::text), (what % 5)::integer) END
  FROM (SELECT e, 1 + (hashint8(e) & 2147483647) % keys AS k, (hashint8extended(e, 7) & 65535) % 100 AS what
        FROM generate_series(1::bigint, n) AS e) AS x
$$;

-- Tombstones in the row without an attachment; in the row and in a side table, attached; partitioned.
CREATE TABLE t_plain (id integer PRIMARY KEY, val text, source_lsn pg_lsn, source_ordinal bigint, deleted boolean);
CREATE TABLE t_row (id integer PRIMARY KEY, val text NOT NULL DEFAULT 'none');
CREATE TABLE t_side (id integer PRIMARY KEY, val text);
CREATE TABLE t_part (val text, id integer PRIMARY KEY) PARTITION BY HASH (id);
CREATE TABLE t_part_0 PARTITION OF t_part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE t_part_1 PARTITION OF t_part FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE t_own (id integer PRIMARY KEY, val text);
CREATE TABLE t_shared (id integer PRIMARY KEY, val text);
-- like own, with staging truncated, and read by a bookmark
CREATE TABLE t_emptied (id integer PRIMARY KEY, val text);
CREATE TABLE t_marked (id integer PRIMARY KEY, val text);

DO $$
DECLARE
  t text;
BEGIN
  FOREACH t IN ARRAY '{plain,row,side,part,own,shared,emptied,marked}'::text[] LOOP
    EXECUTE format('CREATE TABLE s_%s (eid bigint, id integer, __old_id integer, op text, val text, source_lsn pg_lsn, '
                   'source_ordinal bigint)', t);
    IF t <> 'plain' THEN
      PERFORM cdc_attach(('t_' || t)::regclass, ('s_' || t)::regclass, on_schema_change => 'ignore',
                         staging_position => 'cdc_position(source_lsn, source_ordinal)', guard => 'error',
                         tombstones => CASE WHEN t IN ('row', 'own', 'emptied', 'marked') THEN 'row' ELSE 'table' END);
    END IF;
  END LOOP;
END $$;
ALTER TABLE s_marked ADD COLUMN loaded_xid xid8 DEFAULT pg_current_xact_id();
CREATE INDEX ON s_marked (loaded_xid);

-- Rows and tombstones of a target in one shape.
CREATE VIEW state_plain AS SELECT id, deleted IS NOT TRUE AS live, source_lsn AS lsn, val FROM t_plain;
CREATE VIEW state_row AS SELECT id, NOT deleted AS live, cdc_position_lsn(source_position) AS lsn, val FROM t_row;
CREATE VIEW state_own AS SELECT id, NOT deleted AS live, cdc_position_lsn(source_position) AS lsn, val FROM t_own;
CREATE VIEW state_emptied AS SELECT id, NOT deleted AS live, cdc_position_lsn(source_position) AS lsn, val FROM t_emptied;
CREATE VIEW state_marked AS SELECT id, NOT deleted AS live, cdc_position_lsn(source_position) AS lsn, val FROM t_marked;
CREATE VIEW state_side AS SELECT id, true AS live, cdc_position_lsn(source_position) AS lsn, val FROM t_side
  UNION ALL SELECT id, false, cdc_position_lsn(source_position), NULL FROM t_side_tombstones;
CREATE VIEW state_part AS SELECT id, true AS live, cdc_position_lsn(source_position) AS lsn, val FROM t_part
  UNION ALL SELECT id, false, cdc_position_lsn(source_position), NULL FROM t_part_tombstones;
CREATE VIEW state_shared AS SELECT id, true AS live, cdc_position_lsn(source_position) AS lsn, val FROM t_shared
  UNION ALL SELECT id, false, cdc_position_lsn(source_position), NULL FROM t_shared_tombstones;

-- What the law makes of the events that a target was given.
CREATE FUNCTION law(target text) RETURNS TABLE (id integer, live boolean, lsn pg_lsn, val text)
LANGUAGE sql STABLE AS $$
  SELECT DISTINCT ON (v.id) v.id, v.live, lsn_of(v.eid), v.val
  FROM (SELECT l.id, l.eid, l.op <> 'd' AS live, CASE WHEN l.op <> 'd' THEN l.val END AS val
        FROM log l JOIN done d USING (eid) WHERE d.target = $1
        UNION ALL
        SELECT l.old_id, l.eid, false, NULL
        FROM log l JOIN done d USING (eid) WHERE d.target = $1 AND l.old_id <> l.id) AS v
  ORDER BY v.id, v.eid DESC, v.live DESC
$$;

-- The number of keys on which a target disagrees with the law. Tombstones at or below the fence may be gone.
CREATE FUNCTION wrong(target text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  n     bigint;
  fence pg_lsn := (SELECT cdc_position_lsn(t.fence) FROM cdc_targets t
                   WHERE t.target = ('storm.t_' || $1)::regclass);
BEGIN
  EXECUTE format('SELECT count(*) FROM law(%L) AS w FULL JOIN
                    (SELECT id, live, lsn, CASE WHEN live THEN val END AS val FROM state_%s) AS s USING (id)
                  WHERE (w.live, w.lsn, w.val) IS DISTINCT FROM (s.live, s.lsn, s.val)
                    AND NOT (s.live IS NULL AND NOT w.live AND w.lsn <= coalesce($1, ''0/0''))', target, target)
    INTO n USING fence;
  RETURN n;
END $$;

-- Everything that an aborted call must leave alone.
CREATE FUNCTION footprint(target text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  rel  text;
  part text;
  out  text := '';
BEGIN
  FOREACH rel IN ARRAY ARRAY['t_' || target, 's_' || target, 't_' || target || '_tombstones'] LOOP
    CONTINUE WHEN to_regclass('storm.' || rel) IS NULL;
    EXECUTE format('SELECT count(*) || '':'' || sum(hashtextextended(r::text || r.tableoid || r.ctid::text || r.xmin::text, 0)) '
                   'FROM %I r', rel) INTO part;
    out := out || rel || '=' || coalesce(part, '-') || ' ';
  END LOOP;
  RETURN out || coalesce((SELECT t.fence::text || '/' || t.high_position::text FROM cdc_targets t
                          WHERE t.target = ('storm.t_' || $1)::regclass), '');
END $$;

-- Fill a target's staging with about this part of the events up to a number, in no order, some twice.
CREATE PROCEDURE fill(target text, part float8, up_to bigint) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('TRUNCATE s_%s', target);
  EXECUTE format('INSERT INTO s_%s SELECT l.eid, l.id, l.old_id, l.op, l.val, lsn_of(l.eid), 0
                  FROM log l, LATERAL generate_series(1, 1 + (l.eid > 0 AND random() < 0.1)::integer)
                  WHERE l.eid <= $1 AND random() < $2 ORDER BY random()', target) USING up_to, part;
END $$;

-- Loaders of the consume tests take their events' numbers from here.
CREATE SEQUENCE loaded;
CREATE TABLE loads (target text, eid bigint, id integer, op text, val text);

-- What of a target's staging is still to be read.
CREATE FUNCTION waiting(target text) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY EXECUTE format('SELECT eid FROM s_%s', target)
    || CASE WHEN target = 'marked' THEN ' WHERE loaded_xid >= coalesce((SELECT read_below FROM cdc_bookmark), ''0'')' ELSE '' END;
END $$;

/*
 * Every event that a loader committed is in staging or was applied, once:
 * the number of events for which this does not hold.
 */
CREATE FUNCTION astray_own(target text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  n bigint;
BEGIN
  EXECUTE format($q$SELECT count(*) FROM
    (SELECT eid, count(*) AS n FROM loads WHERE target = %L GROUP BY eid) AS l FULL JOIN
    (SELECT eid, count(*) AS n FROM (SELECT waiting(%L) AS eid UNION ALL SELECT id FROM t_%s) AS x GROUP BY eid) AS f
    USING (eid)
  WHERE l.n IS DISTINCT FROM 1 OR f.n IS DISTINCT FROM 1$q$, target, target, target) INTO n;
  RETURN n;
END $$;
CREATE FUNCTION astray_counted(target text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  waiting bigint;
BEGIN
  SELECT count(*) INTO waiting FROM waiting(target);
  RETURN (SELECT count(*) FROM loads l WHERE l.target = $1) - waiting
       - (SELECT coalesce(sum((t.r).events), 0) FROM tally t WHERE t.target = $1);
END $$;
