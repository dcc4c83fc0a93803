-- Two targets partitioned by hash of the key, one in each home, whose leaves
-- are attached to the leaves of their staging; the log of one source, with
-- moves and truncates; and what the whole log says of every key.
SET client_min_messages = error;
CREATE EXTENSION cdc_precedence;

CREATE TABLE in_row (id bigint PRIMARY KEY, v text, n int, source_position cdc_position,
    deleted boolean NOT NULL DEFAULT false) PARTITION BY HASH (id);
CREATE TABLE beside (id bigint PRIMARY KEY, v text, n int, source_position cdc_position) PARTITION BY HASH (id);
-- one column before the others, so that no attribute number is alike
CREATE TABLE in_row_events (loaded_at timestamptz DEFAULT now(), op text, id bigint, v text, n int,
    source_position cdc_position) PARTITION BY HASH (id);
CREATE TABLE beside_events (LIKE in_row_events INCLUDING DEFAULTS) PARTITION BY HASH (id);
SELECT format('CREATE TABLE %1$s_%2$s PARTITION OF %1$s FOR VALUES WITH (MODULUS 4, REMAINDER %2$s)', t, r)
FROM unnest('{in_row,beside,in_row_events,beside_events}'::text[]) t, generate_series(0, 3) r \gexec
SELECT cdc_attach(format('%s_%s', t, r)::regclass, format('%s_events_%s', t, r)::regclass,
    except_columns => '{loaded_at}', consume => 'delete', tombstones => CASE t WHEN 'in_row' THEN 'row' ELSE 'table' END)
FROM unnest('{in_row,beside}'::text[]) t, generate_series(0, 3) r;

-- The source's log: 12,000 changes of 400 keys; some move a row to another key.
CREATE TABLE log (n int PRIMARY KEY, op text, id bigint, old_id bigint, v text, pos cdc_position);
SELECT setseed(0.42);
INSERT INTO log
SELECT n, CASE WHEN n IN (4000, 8500) THEN 't' WHEN dice < 0.2 THEN 'd' ELSE 'u' END,
    CASE WHEN n NOT IN (4000, 8500) THEN key END,
    CASE WHEN n NOT IN (4000, 8500) AND dice > 0.9 THEN other END, 'v' || n,
    cdc_position('16/0'::pg_lsn + (n / 5) * 256, n % 5)
FROM (SELECT n, random() AS dice, floor(random() * 400)::bigint AS key, floor(random() * 400)::bigint AS other
      FROM generate_series(1, 12000) n OFFSET 0) g;

-- What it says of every key, by itself: a truncate kills what stands at or
-- below it, a move is a delete of the old key that loses to an upsert there.
CREATE VIEW winners AS
SELECT DISTINCT ON (id) id, v, n, pos, rank > 0 AS live
FROM (SELECT id, v, n, pos, CASE op WHEN 'u' THEN 2 ELSE 0 END AS rank FROM log WHERE op <> 't'
      UNION ALL
      SELECT old_id, NULL, n, pos, -1 FROM log WHERE op = 'u' AND old_id <> id) e
WHERE pos > (SELECT max(pos) FROM log WHERE op = 't')
ORDER BY id, pos DESC, rank DESC;

-- A key of each shard: a truncate is a row in all of them.
CREATE TABLE shard AS
SELECT r, (SELECT k FROM generate_series(0, 1000) k WHERE satisfies_hash_partition('in_row_events'::regclass, 4, r, k::bigint) LIMIT 1)::bigint AS any_id
FROM generate_series(0, 3) r;

-- Distribute a part of the log to the shards of a target's staging.
CREATE FUNCTION load(target text, part text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format($q$
        INSERT INTO %I (op, id, v, n, source_position)
        SELECT e.op, e.id, e.v, e.n, e.pos
        FROM (SELECT op, id, v, n, pos FROM log WHERE op <> 't' AND (%2$s)
              UNION ALL SELECT '-U', old_id, NULL, NULL, pos FROM log WHERE op = 'u' AND old_id <> id AND (%2$s)
              UNION ALL SELECT op, any_id, NULL, NULL, pos FROM log, shard WHERE op = 't' AND (%2$s)) e
        ORDER BY random() $q$, target || '_events', part);
END $$;

-- Rows and, above the last truncate, tombstones that are not what the log says.
CREATE VIEW wrong AS
WITH stands AS (
    SELECT 'in_row' AS target, id, v, n, source_position AS pos, NOT deleted AS live FROM in_row
    UNION ALL SELECT 'beside', id, v, n, source_position, true FROM beside
    UNION ALL SELECT 'beside', t.id, NULL, NULL, t.source_position, false FROM (
        SELECT id, source_position FROM beside_0_tombstones UNION ALL SELECT id, source_position FROM beside_1_tombstones
        UNION ALL SELECT id, source_position FROM beside_2_tombstones UNION ALL SELECT id, source_position FROM beside_3_tombstones) t),
said AS (
    SELECT t AS target, w.id, CASE WHEN live THEN v END AS v, CASE WHEN live THEN n END AS n, pos, live
    FROM winners w, unnest('{in_row,beside}'::text[]) t),
seen AS (
    SELECT target, id, CASE WHEN live THEN v END AS v, CASE WHEN live THEN n END AS n, pos, live FROM stands
    WHERE live OR pos > (SELECT max(pos) FROM log WHERE op = 't'))
(SELECT 'too much' AS what, * FROM seen EXCEPT ALL SELECT 'too much', * FROM said)
UNION ALL
(SELECT 'missing', * FROM said EXCEPT ALL SELECT 'missing', * FROM seen);

-- Tombstones stand beside the shard that their key belongs to.
CREATE VIEW misplaced AS
SELECT r, id FROM (
    SELECT 0 AS r, id FROM beside_0_tombstones UNION ALL SELECT 1, id FROM beside_1_tombstones
    UNION ALL SELECT 2, id FROM beside_2_tombstones UNION ALL SELECT 3, id FROM beside_3_tombstones) t
WHERE NOT satisfies_hash_partition('beside'::regclass, 4, r, id);
