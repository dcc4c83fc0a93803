-- A history that tells cdc_apply from an applier that is wrong (values_cross_fence, seed 259), made small.
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
  source_lsn numeric,
  source_ordinal bigint,
  deleted_at timestamptz,
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
  source_lsn numeric,
  source_ordinal bigint,
  __unchanged jsonb,
  op "char"
);

SELECT cdc_attach('target', 'staging', on_unavailable => 'null', tombstone_column => 'deleted_at', guard => 'skip', as_of => '1000302:2');
CREATE VIEW state AS
SELECT id::text AS ka, '' AS kb, deleted_at IS NULL AS live,
  nullif(regexp_replace(source_lsn::text, '/0+(.)', '/\1') || coalesce(':' || nullif(source_ordinal, 0), ''), '0/0') AS pos,
  jsonb_build_object('n', n::text, 'q', q::text, 'note', note::text, 'body', body::text, 'tags', tags::text, 'doc', doc::text, 'raw', raw::text) AS vals, own::text AS own,
  ctid::text || '/' || xmin::text AS version
FROM target;


-- Call 1
DELETE FROM staging;
INSERT INTO staging (id, n, q, note, body, tags, doc, source_lsn, source_ordinal, __unchanged, op) VALUES ('9', '55', '14', 'null4', 'body 318785', '{NULL,c}', '{}', '1000254', '4294967294', '["tags"]', '4');
INSERT INTO staging (id, n, note, body, tags, doc, source_lsn, source_ordinal, __unchanged, op) VALUES ('9', '55', 'b6', 'body 318785', '{a}', '{}', '1000319', '4294967294', '["q", "note", "tags"]', 'U');
DO $check$
DECLARE
  want   jsonb := $want${"stale": 0, "events": 2, "fenced": 0, "deleted": 0, "ignored": 0, "updated": 0, "inserted": 1, "duplicate": 0, "truncated": 0, "superseded": 1}$want$;
  rows   jsonb := $want$[{"ka": "9", "kb": "", "live": true, "pos": "1000319:4294967294", "vals": {"n": "55", "q": null, "doc": "{}", "raw": null, "body": "body 318785", "note": null, "tags": null}, "own": "42"}]$want$;
  errors text[] := '{}';
  got    jsonb;
BEGIN
  BEGIN
    SELECT jsonb_build_object('events', r.events, 'inserted', r.inserted, 'updated', r.updated, 'deleted', r.deleted, 'stale', r.stale, 'duplicate', r.duplicate, 'superseded', r.superseded, 'fenced', r.fenced, 'ignored', r.ignored, 'truncated', r.truncated) INTO got
    FROM (SELECT * FROM cdc_apply('target', unchanged_column => '__unchanged', snapshot_position => 'event', dry_run => false)) AS r;
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
  IF true AND got <> $want${"fence": null, "floor": "1000302:2"}$want$ THEN
    RAISE EXCEPTION 'after call 1: fence and floor expected %, got %', $want${"fence": null, "floor": "1000302:2"}$want$, got;
  END IF;
END
$check$;
DROP SCHEMA law_kept CASCADE;
