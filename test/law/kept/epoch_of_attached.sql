-- A history that tells cdc_apply from an applier that is wrong (epoch_ignored, seed 8), made small.
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
  own integer DEFAULT 42,
  PRIMARY KEY (id)
);

CREATE TABLE staging (
  id integer,
  __old_id integer,
  n integer,
  q integer,
  note text,
  body text,
  tags text[],
  doc jsonb,
  raw bytea,
  source_position cdc_position,
  __unchanged jsonb,
  op text
);

SELECT cdc_attach('target', 'staging', snapshot_position => 'none', tombstones => 'table', epoch => 1);
DO $do$ BEGIN EXECUTE $q$CREATE VIEW state AS
SELECT id::text AS ka, '' AS kb, true AS live,
  nullif(source_position::text, '0/0') AS pos,
  jsonb_build_object('n', n::text, 'q', q::text, 'note', note::text, 'body', body::text, 'tags', tags::text, 'doc', doc::text, 'raw', raw::text) AS vals, own::text AS own,
  ctid::text || '/' || xmin::text AS version
FROM target
UNION ALL
SELECT id::text AS ka, '' AS kb, false, source_position::text, NULL, NULL,
  't' || ctid::text || '/' || xmin::text
FROM $q$ ||
  (SELECT tombstones FROM cdc_targets WHERE target = 'target'::regclass);
END $do$;


-- Call 1
DELETE FROM staging;
INSERT INTO staging (id, n, q, note, tags, doc, raw, source_position, op) VALUES ('1', '55', '33', 'a6', '{a,b8}', '"s"', '\x', '0/F00A', 'UPDATE_BEFORE');
DO $check$
DECLARE
  want   jsonb := $want${"stale": 0, "events": 1, "fenced": 0, "deleted": 1, "ignored": 0, "updated": 0, "inserted": 0, "duplicate": 0, "truncated": 0, "superseded": 0}$want$;
  rows   jsonb := $want$[{"ka": "1", "kb": "", "live": false, "pos": "1@0/F00A", "vals": null, "own": null}]$want$;
  errors text[] := '{}';
  got    jsonb;
BEGIN
  BEGIN
    SELECT jsonb_build_object('events', r.events, 'inserted', r.inserted, 'updated', r.updated, 'deleted', r.deleted, 'stale', r.stale, 'duplicate', r.duplicate, 'superseded', r.superseded, 'fenced', r.fenced, 'ignored', r.ignored, 'truncated', r.truncated) INTO got
    FROM (SELECT * FROM cdc_apply('target', on_unavailable => 'null', dry_run => false)) AS r;
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
  IF true AND got <> $want${"fence": null, "floor": null}$want$ THEN
    RAISE EXCEPTION 'after call 1: fence and floor expected %, got %', $want${"fence": null, "floor": null}$want$, got;
  END IF;
END
$check$;
DROP SCHEMA law_kept CASCADE;
