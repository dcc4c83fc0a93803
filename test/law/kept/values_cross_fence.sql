-- A history that tells cdc_apply from an applier that is wrong (values_cross_fence, seed 5), made small.
-- Rows and counts are those that an oracle in plain SQL worked out.
\set ON_ERROR_STOP on
SET client_min_messages = error;
DROP SCHEMA IF EXISTS law_kept CASCADE;
CREATE SCHEMA law_kept;
SET search_path = law_kept, public;
CREATE TABLE target (
  a integer,
  b text,
  n integer NOT NULL DEFAULT '7',
  q integer DEFAULT '5',
  note text DEFAULT 'none',
  body text,
  tags text[] DEFAULT '{}',
  doc jsonb DEFAULT '{}',
  raw bytea,
  source_position cdc_position,
  own integer DEFAULT 42,
  PRIMARY KEY (a, b)
);

CREATE TABLE staging (
  a integer,
  b text,
  __old_a integer,
  __old_b text,
  n integer,
  q integer,
  note text,
  body text,
  tags text[],
  doc jsonb,
  raw bytea,
  source_position cdc_position,
  __unchanged text[],
  op integer
);

SELECT cdc_attach('target', 'staging', consume => 'delete', tombstones => 'table', guard => 'error', lineage => 'log-a');
DO $do$ BEGIN EXECUTE $q$CREATE VIEW state AS
SELECT a::text AS ka, b AS kb, true AS live,
  nullif(source_position::text, '0/0') AS pos,
  jsonb_build_object('n', n::text, 'q', q::text, 'note', note::text, 'body', body::text, 'tags', tags::text, 'doc', doc::text, 'raw', raw::text) AS vals, own::text AS own,
  ctid::text || '/' || xmin::text AS version
FROM target
UNION ALL
SELECT a::text AS ka, b AS kb, false, source_position::text, NULL, NULL,
  't' || ctid::text || '/' || xmin::text
FROM $q$ ||
  (SELECT tombstones FROM cdc_targets WHERE target = 'target'::regclass);
END $do$;


-- Call 1
DELETE FROM staging;
INSERT INTO staging (op) SELECT '9' FROM generate_series(1, 1);
INSERT INTO staging (source_position, op) VALUES ('8@0/51C7:8', '7');
DO $check$
DECLARE
  want   jsonb := $want${"stale": 0, "events": 1, "fenced": 0, "deleted": 0, "ignored": 0, "updated": 0, "inserted": 0, "duplicate": 0, "truncated": 1, "superseded": 0}$want$;
  rows   jsonb := $want$[]$want$;
  errors text[] := '{}';
  got    jsonb;
BEGIN
  BEGIN
    SELECT jsonb_build_object('events', r.events, 'inserted', r.inserted, 'updated', r.updated, 'deleted', r.deleted, 'stale', r.stale, 'duplicate', r.duplicate, 'superseded', r.superseded, 'fenced', r.fenced, 'ignored', r.ignored, 'truncated', r.truncated) INTO got
    FROM (SELECT * FROM cdc_apply('target', 'staging', unchanged_column => '__unchanged', op_map => '{"7": "truncate"}', on_unavailable => 'error', staging_filter => 'op::text IS DISTINCT FROM ''9''', dry_run => false)) AS r;
    IF cardinality(errors) > 0 THEN
      RAISE EXCEPTION 'call 1 succeeded: %', got USING ERRCODE = 'XX001';
    ELSIF got <> want THEN
      RAISE EXCEPTION 'call 1: expected %, got %', want, got USING ERRCODE = 'XX001';
    END IF;
  EXCEPTION WHEN OTHERS THEN
    IF SQLSTATE <> ALL (errors) THEN RAISE; END IF;
  END;
  got := (SELECT coalesce(jsonb_agg(jsonb_build_object('ka', ka, 'kb', kb, 'live', live, 'pos', pos,
                   'vals', CASE WHEN live THEN vals END, 'own', CASE WHEN live THEN own END) ORDER BY ka, kb), '[]')
          FROM state WHERE NOT $want$[]$want$ ? (ka || '|' || kb));
  IF true AND got <> rows THEN
    RAISE EXCEPTION E'after call 1:\n  expected %\n  got      %', rows, got;
  END IF;
  got := (SELECT jsonb_build_object('fence', fence::text, 'floor', floor::text) FROM cdc_targets WHERE target = 'target'::regclass);
  IF true AND got <> $want${"fence": "8@0/51C7:8", "floor": null}$want$ THEN
    RAISE EXCEPTION 'after call 1: fence and floor expected %, got %', $want${"fence": "8@0/51C7:8", "floor": null}$want$, got;
  END IF;
END
$check$;

-- Call 2
DELETE FROM staging;
INSERT INTO staging (op) SELECT '9' FROM generate_series(1, 1);
INSERT INTO staging (a, b, __old_a, __old_b, n, note, body, tags, raw, source_position, __unchanged, op) VALUES ('1', 'X', '1', 'X', '70', 'b3', 'body 589753', '{a,b3}', '\xff09', '8@0/51C7:11', '{q,body}', '4');
INSERT INTO staging (a, b, n, body, tags, raw, source_position, __unchanged, op) VALUES ('1', 'X', '44', 'body 513361', '{NULL,c}', '\x', '0/F239', '{note,tags,doc}', '2');
DO $check$
DECLARE
  want   jsonb := $want${"stale": 0, "events": 2, "fenced": 0, "deleted": 0, "ignored": 0, "updated": 0, "inserted": 1, "duplicate": 0, "truncated": 0, "superseded": 1}$want$;
  rows   jsonb := $want$[]$want$;
  errors text[] := '{55000}';
  got    jsonb;
BEGIN
  BEGIN
    SELECT jsonb_build_object('events', r.events, 'inserted', r.inserted, 'updated', r.updated, 'deleted', r.deleted, 'stale', r.stale, 'duplicate', r.duplicate, 'superseded', r.superseded, 'fenced', r.fenced, 'ignored', r.ignored, 'truncated', r.truncated) INTO got
    FROM (SELECT * FROM cdc_apply('target', 'staging', unchanged_column => '__unchanged', op_map => '{"7": "truncate"}', on_unavailable => 'error', staging_filter => 'op::text IS DISTINCT FROM ''9''', dry_run => false)) AS r;
    IF cardinality(errors) > 0 THEN
      RAISE EXCEPTION 'call 2 succeeded: %', got USING ERRCODE = 'XX001';
    ELSIF got <> want THEN
      RAISE EXCEPTION 'call 2: expected %, got %', want, got USING ERRCODE = 'XX001';
    END IF;
  EXCEPTION WHEN OTHERS THEN
    IF SQLSTATE <> ALL (errors) THEN RAISE; END IF;
  END;
  got := (SELECT coalesce(jsonb_agg(jsonb_build_object('ka', ka, 'kb', kb, 'live', live, 'pos', pos,
                   'vals', CASE WHEN live THEN vals END, 'own', CASE WHEN live THEN own END) ORDER BY ka, kb), '[]')
          FROM state WHERE NOT $want$[]$want$ ? (ka || '|' || kb));
  IF true AND got <> rows THEN
    RAISE EXCEPTION E'after call 2:\n  expected %\n  got      %', rows, got;
  END IF;
  got := (SELECT jsonb_build_object('fence', fence::text, 'floor', floor::text) FROM cdc_targets WHERE target = 'target'::regclass);
  IF true AND got <> $want${"fence": "8@0/51C7:8", "floor": null}$want$ THEN
    RAISE EXCEPTION 'after call 2: fence and floor expected %, got %', $want${"fence": "8@0/51C7:8", "floor": null}$want$, got;
  END IF;
END
$check$;
DROP SCHEMA law_kept CASCADE;
