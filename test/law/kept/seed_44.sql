-- A history that the law test found (seed 44), made small.
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
  source_lsn pg_lsn,
  source_ordinal bigint,
  deleted_at timestamptz,
  own integer DEFAULT 42,
  PRIMARY KEY (a, b)
);
CREATE TABLE staging (
  a text,
  b text,
  __old_a text,
  __old_b text,
  n text,
  q text,
  note text,
  body text,
  tags text,
  doc text,
  raw text,
  source_lsn pg_lsn,
  source_ordinal bigint,
  __unchanged text[],
  op text
);
CREATE VIEW state AS
SELECT a::text AS ka, b AS kb, deleted_at IS NULL AS live,
  nullif(regexp_replace(source_lsn::text, '/0+(.)', '/\1') || coalesce(':' || nullif(source_ordinal, 0), ''), '0/0') AS pos,
  jsonb_build_object('n', n::text, 'q', q::text, 'note', note::text, 'body', body::text, 'tags', tags::text, 'doc', doc::text, 'raw', raw::text) AS vals, own::text AS own,
  ctid::text || '/' || xmin::text AS version
FROM target;


-- Call 1
DELETE FROM staging;
INSERT INTO staging (a, b, n, q, note, body, doc, raw, source_lsn, source_ordinal, __unchanged, op) VALUES ('10', 'o''k', '71', '21', 'été5', 'body 121361', '"s"', '\x00', '10/52', '3', '{}', '-U');
DO $check$
DECLARE
  want   jsonb := $want${"stale": 0, "events": 1, "fenced": 0, "deleted": 1, "ignored": 0, "updated": 0, "inserted": 0, "duplicate": 0, "truncated": 0, "superseded": 0}$want$;
  rows   jsonb := $want$[{"ka": "10", "kb": "o'k", "live": false, "pos": "10/52:3", "vals": null, "own": null}]$want$;
  errors text[] := '{}';
  got    jsonb;
BEGIN
  BEGIN
    SELECT jsonb_build_object('events', r.events, 'inserted', r.inserted, 'updated', r.updated, 'deleted', r.deleted, 'stale', r.stale, 'duplicate', r.duplicate, 'superseded', r.superseded, 'fenced', r.fenced, 'ignored', r.ignored, 'truncated', r.truncated) INTO got
    FROM (SELECT * FROM cdc_apply('target', 'staging', tombstone_column => 'deleted_at', unchanged_column => '__unchanged', on_unavailable => 'null', dry_run => false)) AS r;
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

-- Call 2
DELETE FROM staging;
INSERT INTO staging (a, b, n, q, note, body, tags, doc, raw, source_lsn, source_ordinal, op) VALUES ('10', 'o''k', '19', '21', 'été5', 'body 121361', '{a,b1}', '"s"', '\x00', '10/52', '3', '+U');
INSERT INTO staging (a, b, n, q, body, tags, doc, raw, source_lsn, source_ordinal, __unchanged, op) VALUES ('10', 'o''k', '90', '14', 'body 121361', '{NULL,c}', '"s"', '\x00', '10/5A', '1', '{note}', 'U');
DO $check$
DECLARE
  want   jsonb := $want${"stale": 0, "events": 2, "fenced": 0, "deleted": 0, "ignored": 0, "updated": 0, "inserted": 1, "duplicate": 0, "truncated": 0, "superseded": 1}$want$;
  rows   jsonb := $want$[{"ka": "10", "kb": "o'k", "live": true, "pos": "10/5A:1", "vals": {"n": "90", "q": "14", "doc": "\"s\"", "raw": "\\x00", "body": "body 121361", "note": "été5", "tags": "{NULL,c}"}, "own": "42"}]$want$;
  errors text[] := '{}';
  got    jsonb;
BEGIN
  BEGIN
    SELECT jsonb_build_object('events', r.events, 'inserted', r.inserted, 'updated', r.updated, 'deleted', r.deleted, 'stale', r.stale, 'duplicate', r.duplicate, 'superseded', r.superseded, 'fenced', r.fenced, 'ignored', r.ignored, 'truncated', r.truncated) INTO got
    FROM (SELECT * FROM cdc_apply('target', 'staging', tombstone_column => 'deleted_at', unchanged_column => '__unchanged', on_unavailable => 'null', dry_run => false)) AS r;
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
          FROM state);
  IF true AND got <> rows THEN
    RAISE EXCEPTION E'after call 2:\n  expected %\n  got      %', rows, got;
  END IF;
END
$check$;
DROP SCHEMA law_kept CASCADE;
