-- A history that the law test found (seed 379), made small.
-- Rows and counts are those that an oracle in plain SQL worked out.
\set ON_ERROR_STOP on
SET client_min_messages = error;
DROP SCHEMA IF EXISTS law_kept CASCADE;
CREATE SCHEMA law_kept;
SET search_path = law_kept, public;
CREATE TABLE target (
  id integer,
  n integer NOT NULL DEFAULT '7',
  q integer DEFAULT '5',
  note text DEFAULT 'none',
  body text,
  tags text[] DEFAULT '{}',
  doc jsonb DEFAULT '{}',
  raw bytea,
  source_position cdc_position,
  deleted_at timestamptz,
  own integer DEFAULT 42,
  PRIMARY KEY (id)
);
CREATE TABLE staging (
  id text,
  __old_id text,
  n text,
  q text,
  note text,
  body text,
  tags text,
  doc text,
  raw text,
  source_position cdc_position,
  __unchanged jsonb,
  op text
);
CREATE VIEW state AS
SELECT id::text AS ka, '' AS kb, deleted_at IS NULL AS live,
  nullif(source_position::text, '0/0') AS pos,
  jsonb_build_object('n', n::text, 'q', q::text, 'note', note::text, 'body', body::text, 'tags', tags::text, 'doc', doc::text, 'raw', raw::text) AS vals, own::text AS own,
  ctid::text || '/' || xmin::text AS version
FROM target;


-- Call 1
DELETE FROM staging;
INSERT INTO staging (id, __old_id, n, body, doc, raw, source_position, op) VALUES ('-1', '-1', '28', 'body 959040', '{"a": null, "b": "x6"}', '\xff01', '10/90:1', 'c');
INSERT INTO staging (id, n, body, doc, raw, source_position, op) VALUES ('-1', '28', 'body 959040', '{"k": 3}', '\xff01', '10/90:2', '-d');
INSERT INTO staging (id, __old_id, n, q, note, body, tags, doc, raw, source_position, op) VALUES ('2', '-1', '54', '14', '__debezium_unavailable_value', 'body 136810', '__debezium_unavailable_value', '__debezium_unavailable_value', '\xff06', '00000010/000002d2:1', 'update');
DO $check$
DECLARE
  want   jsonb := $want${"stale": 0, "events": 3, "fenced": 0, "deleted": 0, "ignored": 0, "updated": 0, "inserted": 1, "duplicate": 0, "truncated": 0, "superseded": 2}$want$;
  rows   jsonb := $want$[]$want$;
  errors text[] := '{55000}';
  got    jsonb;
BEGIN
  BEGIN
    SELECT jsonb_build_object('events', r.events, 'inserted', r.inserted, 'updated', r.updated, 'deleted', r.deleted, 'stale', r.stale, 'duplicate', r.duplicate, 'superseded', r.superseded, 'fenced', r.fenced, 'ignored', r.ignored, 'truncated', r.truncated) INTO got
    FROM (SELECT * FROM cdc_apply('target', 'staging', tombstone_column => 'deleted_at', unchanged_column => '__unchanged', snapshot_position => 'none', on_unavailable => 'error', dry_run => false)) AS r;
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
          FROM state);
  IF true AND got <> rows THEN
    RAISE EXCEPTION E'after call 1:\n  expected %\n  got      %', rows, got;
  END IF;
END
$check$;
DROP SCHEMA law_kept CASCADE;
