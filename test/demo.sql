-- The demo's first part: one key, a few changes, three ways to apply them.
-- Every result is computed; "!" marks what is not the source's state.
-- cdc_apply warns when a whole batch is stale, which is what is played here
SET client_min_messages = error;
CREATE SCHEMA demo;
SET search_path = demo, public;

-- What the source did to key 1: where in its log, by which clock, what.
CREATE TABLE change (story text, lsn pg_lsn, clock timestamptz, op text, name text,
                     PRIMARY KEY (story, lsn));
INSERT INTO change VALUES
  ('tie',   '0/100', '2026-03-01 12:00:00Z', 'i', 'a'),
  ('tie',   '0/200', '2026-03-01 12:00:00Z', 'u', 'b'),
  ('tie',   '0/300', '2026-03-01 12:00:05Z', 'd', NULL),
  -- the second change comes from a server whose clock is 3 s behind
  ('skew',  '0/100', '2026-03-01 12:00:00Z', 'i', 'a'),
  ('skew',  '0/200', '2026-03-01 11:59:57Z', 'u', 'b'),
  ('again', '0/100', '2026-03-01 12:00:00Z', 'i', 'v1'),
  ('again', '0/200', '2026-03-01 12:00:10Z', 'u', 'v2'),
  ('again', '0/300', '2026-03-01 12:00:20Z', 'u', 'v1'),
  ('again', '0/400', '2026-03-01 12:00:30Z', 'u', 'v3');

CREATE TABLE plain (id integer PRIMARY KEY, name text);
CREATE TABLE clocked (id integer PRIMARY KEY, name text, clock timestamptz);
CREATE TABLE target (id integer PRIMARY KEY, name text,
                     deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
CREATE TABLE staging (op text, id integer, name text, source_position cdc_position);
CREATE TABLE result (no integer GENERATED ALWAYS AS IDENTITY, delivery text,
                     source text, plain text, clocked text, applied text);

-- Plays one story to all three targets, in the order of the LSNs given.
CREATE PROCEDURE play(title text, which text, lsns pg_lsn[]) LANGUAGE plpgsql AS $$
DECLARE
  l pg_lsn;
  e change;
  last change;
BEGIN
  TRUNCATE plain, clocked, target, staging;
  FOREACH l IN ARRAY lsns LOOP
    SELECT * INTO STRICT e FROM change c WHERE c.story = which AND c.lsn = l;

    IF e.op = 'd' THEN
      DELETE FROM plain WHERE id = 1;
      DELETE FROM clocked WHERE id = 1 AND clocked.clock <= e.clock;
    ELSE
      INSERT INTO plain VALUES (1, e.name)
        ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name;
      INSERT INTO clocked VALUES (1, e.name, e.clock)
        ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, clock = EXCLUDED.clock
        WHERE EXCLUDED.clock >= clocked.clock;
    END IF;

    INSERT INTO staging VALUES (e.op, 1, e.name, e.lsn);
    PERFORM FROM cdc_apply('target', 'staging', consume => 'delete');
  END LOOP;
  -- the source's state: its last change among those delivered
  SELECT * INTO last FROM change c WHERE c.story = which AND c.lsn = ANY (lsns)
  ORDER BY c.lsn DESC LIMIT 1;
  INSERT INTO result (delivery, source, plain, clocked, applied)
  VALUES (title, coalesce(last.name, 'deleted'),
          coalesce((SELECT name FROM plain), 'deleted'),
          coalesce((SELECT name FROM clocked), 'deleted'),
          coalesce((SELECT name FROM target WHERE NOT deleted), 'deleted'));
END $$;

CALL play('in order: 100 200 300', 'tie', '{0/100,0/200,0/300}');
CALL play('100 once more: 100 200 100', 'tie', '{0/100,0/200,0/100}');
CALL play('late: 200 100', 'tie', '{0/200,0/100}');
CALL play('after the delete: 100 200 300 200', 'tie', '{0/100,0/200,0/300,0/200}');
CALL play('in order, a clock behind: 100 200', 'skew', '{0/100,0/200}');
CALL play('v1 v2 v1: the later v1 counts', 'again', '{0/100,0/200,0/300}');
CALL play('v1 v2 v1 v3, that v1 once more', 'again', '{0/100,0/200,0/300,0/400,0/300}');

\pset border 0
\pset footer off
SELECT delivery, source,
       plain || CASE WHEN plain <> source THEN ' !' ELSE '' END AS "upsert",
       clocked || CASE WHEN clocked <> source THEN ' !' ELSE '' END AS "by clock",
       applied || CASE WHEN applied <> source THEN ' !' ELSE '' END AS "cdc_apply"
FROM result ORDER BY no;
SELECT format('wrong of %s: upsert %s, by clock %s, cdc_apply %s', count(*),
              count(*) FILTER (WHERE plain <> source),
              count(*) FILTER (WHERE clocked <> source),
              count(*) FILTER (WHERE applied <> source)) AS summary
FROM result \gset
\echo :summary
