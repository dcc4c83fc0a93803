-- A history that the law test found (seed 25), made small.
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
  source_lsn numeric,
  source_ordinal bigint,
  deleted boolean NOT NULL DEFAULT false,
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
  source_lsn numeric,
  source_ordinal bigint,
  __unchanged jsonb,
  op text
);
CREATE VIEW state AS
SELECT a::text AS ka, b AS kb, deleted IS NOT TRUE AS live,
  nullif(regexp_replace(source_lsn::text, '/0+(.)', '/\1') || coalesce(':' || nullif(source_ordinal, 0), ''), '0/0') AS pos,
  jsonb_build_object('n', n::text, 'q', q::text, 'note', note::text, 'body', body::text, 'tags', tags::text, 'doc', doc::text, 'raw', raw::text) AS vals, own::text AS own,
  ctid::text || '/' || xmin::text AS version
FROM target;


-- Call 1
DELETE FROM staging;
INSERT INTO staging (a, b, n, q, note, raw, source_lsn, source_ordinal, op) VALUES ('2', 'long long long long long long long long long long ', '38', '99', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx1', '\x00', '832', '4294967295', '-U');
DO $check$
DECLARE
  want   jsonb := $want${"stale": 0, "events": 1, "fenced": 0, "deleted": 1, "ignored": 0, "updated": 0, "inserted": 0, "duplicate": 0, "truncated": 0, "superseded": 0}$want$;
  rows   jsonb := $want$[{"ka": "2", "kb": "long long long long long long long long long long ", "live": false, "pos": "832:4294967295", "vals": null, "own": null}]$want$;
  errors text[] := '{}';
  got    jsonb;
BEGIN
  BEGIN
    SELECT jsonb_build_object('events', r.events, 'inserted', r.inserted, 'updated', r.updated, 'deleted', r.deleted, 'stale', r.stale, 'duplicate', r.duplicate, 'superseded', r.superseded, 'fenced', r.fenced, 'ignored', r.ignored, 'truncated', r.truncated) INTO got
    FROM (SELECT * FROM cdc_apply('target', 'staging', unchanged_column => '__unchanged', on_unavailable => 'error', dry_run => false)) AS r;
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
INSERT INTO staging (a, b, n, q, note, body, raw, source_lsn, source_ordinal, __unchanged, op) VALUES ('2', 'long long long long long long long long long long ', '38', '99', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx1', 'body 750340', '\x00', '832', '4294967295', '[]', '+U');
INSERT INTO staging (a, b, n, q, note, body, raw, source_lsn, source_ordinal, __unchanged, op) VALUES ('2', 'long long long long long long long long long long ', '38', '99', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx1', 'body 750340', '\x00', '840', '2', '["q", "body", "tags", "raw"]', 'upsert');
DO $check$
DECLARE
  want   jsonb := $want${"stale": 0, "events": 2, "fenced": 0, "deleted": 0, "ignored": 0, "updated": 0, "inserted": 1, "duplicate": 0, "truncated": 0, "superseded": 1}$want$;
  rows   jsonb := $want$[{"ka": "2", "kb": "long long long long long long long long long long ", "live": true, "pos": "840:2", "vals": {"n": "38", "q": "99", "doc": null, "raw": "\\x00", "body": "body 750340", "note": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx1", "tags": null}, "own": "42"}]$want$;
  errors text[] := '{}';
  got    jsonb;
BEGIN
  BEGIN
    SELECT jsonb_build_object('events', r.events, 'inserted', r.inserted, 'updated', r.updated, 'deleted', r.deleted, 'stale', r.stale, 'duplicate', r.duplicate, 'superseded', r.superseded, 'fenced', r.fenced, 'ignored', r.ignored, 'truncated', r.truncated) INTO got
    FROM (SELECT * FROM cdc_apply('target', 'staging', unchanged_column => '__unchanged', on_unavailable => 'error', dry_run => false)) AS r;
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
