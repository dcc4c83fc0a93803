-- A history that tells cdc_apply from an applier that is wrong (tombstone_stands, seed 1), made small.
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
  source_lsn pg_lsn,
  source_ordinal bigint,
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
  source_lsn pg_lsn,
  source_ordinal bigint,
  __unchanged name[],
  op text
);

SELECT cdc_attach('target', 'staging', tombstones => 'auto', guard => 'skip');
DO $do$ BEGIN EXECUTE $q$CREATE VIEW state AS
SELECT id::text AS ka, '' AS kb, true AS live,
  nullif(regexp_replace(source_lsn::text, '/0+(.)', '/\1') || coalesce(':' || nullif(source_ordinal, 0), ''), '0/0') AS pos,
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
INSERT INTO staging (id, n, note, body, tags, raw, source_lsn, source_ordinal, op) VALUES ('1', '57', 'été9', '3a1890c7fb695ffb0326324dc541013d331381318a245e6beb8ac8cedc3bf3648c5fe8f83b6fe507678a5aa383868a295804f922f3d4e711d8f3341893ea5c4e5a702cfa7589a82be8e5b46144ef7feba8c24d428c497c689be3cecbf5059285bab9f87f0176274162397bc7c89da11bdb610487d20b5d59f463b337e2dcaa37f03edca7bd91a1b783333218cf23cae821167d8f84c81999c70380698fb5262c349aae906d14475bf320cd570e5e18ba7b297d0bdeb8fc4c5d5f576c91eb79fa8ded3c963328ad08f0e642f481355c5369d495dd7c240d49d037cdff5b5696436a17b9af589890080067dba889d9bf028a449ebe9f9d0129c9546b439cc9af4e54c56c9a75491bc399901c0407295e42cdf844043ac7652ca2a7ae1f2d5db79b8cfe5cd1959f3a512e47dc0edc6b13ab1773308ccc667e978d103ed3cc0e95eed9ed17e3d1020a15ee52bdb6415af341084f3dd6d77c96c0f18dd1eeac512b0112093d26154ed512de3a5db50445d65673f7ba8e03ba33dbc10faa40c16e228447fc816a3fe31d0344c5b4761c07724ecc1b0c3e9ff3078f2f429ce5582c18c94a5012dc11cbc2882adf559a28dd37eb4155d7ef870266c4f3b37f322b0b8c12a81aa40a45ddb87da5f09e63b62ac1fe4b63e0ef7467537ab3df44a4526eb5237f1a355e79490eab1d3b993f060cea634fdf8e1a62f5680c57e54acc6bc15385cbd3f5e03023580c4227de211bd7ce7340e2a20ae65a8149baeb41a58296f5eafa0b85183586fca7f72f2bb89b0bca166e80fa48d12982e4f9bddea5055455e839b21c950492c4f565b675cd257e8454090b20bbb80599e9f5bb91882904acec721754efb46108cc819d7ca7ad9cedde6d39eb438b7199cdd50e00973879399bfa1b1bf1f9c08fefa17a4340cc3d5506b1eedaff843fdda7736a947a39235bc0861e02eca604845707dbf9246518093dacc66a57936aa40ccdaaac43523d2a54a8ea37f7a185cc8e6d21f4cd0f0c8a89bcc99ae84c717095202cc828f7c882f4364e433fe023033d0c250a034e6f5a94121b2800dbc799b01391f9b94f73fd94eacc110ef07534fe4c41d9c0be6c6fe9288047906a8a43ef909ff497409a8a7821615022022bc3208f8b2b83e0f3a7efd9bc1d9709b4e5d2973082d6d1c51f8637b4000bf652d008e69bae2991fde85c75fa6dd82be88b46d3f21dccde26e655deb0e066f9495568c7af3626b43adc4f9f7a7daf82458cc80994940e60c290d0334de73d58d076741959b9ef34accd7892c9357dac954ab5e585552f6ed5d1bf976699cc31b1c27e7e0ab2ed1abb8ba3f01dbf29aa7c314b63db01fc4bcb6b22810d2e307ff2e34104673b755349da489cb471a5df22965066fec086e65150b54806aa8104a1bde4282ee0bc336b1a45db87872d53e6d093cfa6cf3efcaf4a5a903715c8c85f0d462298bdb156cef8ec6de2b33b36891eeb443baac5aca9167918ae013ed67393d6611575c2eea3d6858c31406d58068a9dea190b2ae1e48557d6730839afe673f688c9da8a7c081bb7c49872c6fc4a447e885342063c11654910b8fe22b9b816350a57af3515ad9a9d220d672b2b7113432aa3300be9367ed989c80c4d3685156b449c4ca2c2557035550d40dd99a749248181e84dd7547080415ac4005e3c536c56befa39571ceeee1d2965884a8d15d83c35612ede0f39a7f1a9a6589a9e994cc78fec45f44d7e40b7115c02e323ce547d2186d322a608bf947810d88d19821fc52f4fbe1ab1c42f521b18a90a04ef486816de0612bccdcb6156c4dfddbd358ffdc1786bc9c1ffef25b7501ad418f7af2001217057450e651d5c48259d7cd4f696605d95c82ad589ed192da360c73494139f7110921ebce68cdece753945535390e32e8214ed2049f3c668b1444800305d698c8be40961504ba955f3907f966988c780f6ecd1345e1d43d1ff75305db7e592067346f573271b943cfcc979cb060bb662a8d3e89d324bb57b5c032b73289d19ee45aba018ea03b96d9117788b9569dd64931d775b7cd37c9961e2934bf1ca3575680a3efb80301ba9883d589cabc91752a3fcf7f49d96380ed66bc78bf5297a21d71d95389b736ebf512ad9a40aae4ecf4b3dcdb85628b09a93be773448d85328b61a5356b56f62e63ae927db48f6f62c2860d6c766ce75f4baf86339588afd2973e8c2d219d17f64944b4521238cda80a340df7c9ab62c228e7a1d556c50806f0119a2105c35263b45a6ecc31f514232860a248cff06faadb102b087f8c96fa758fb8a99a2ecf45ccb4ba927c3b9fad67e98b8da9f51fbfcc7732902f4642a357c50332cb86607b615101e75eb106ee2abe9d40f2b513dd1a6f845aed999f86c8df844956074b31bfb1c823d9e40041e003716e7eac8fea5d79e289761c725bd97fade312de4264c9f8afc5beede1bf0cdb02d3504780b25d9a96dfb2c5b177a38425375be2ee7af978aa672353534ccae4eac98d632ffd03d3f12d68e5c47577b14d4954ed1ea041847e1a38b16e3e380fbbe9381c0d7656072a9b8a4172a4012a6ea298193090287a4ba316156c11669f0d3fa5c3a389b0963f666e0f772f8ea4e896a650a82669553c617eb2fd2f79251158de5caf078b0d8ddd2ef9439c746e4bc6e82ebddb0984d84e9903eefe7345596dfde19d7b4038b525b4f9c842b6a943863a5cebcc1ba98910052179030da3ebebe3e385c1b3305373b76ceea590b3e67026c66daa36512840ea1449fd49b8d1bc13ade1827471227932fbaaad651133bb4c20581f255a2a866b40289eb064a7347fac02fc22acacc9ec85bf3f74d7e465b19780587f0dcd69029dbeef77a2778507c19d6d73b805db06ac71a5b11cb8409d653fdf07c13bd488e825f8542f3009a5caa4da8222c5998592df810b9c6b5a1c62649c1b0fc2222d2243bd888d2511c38dd94665851dd5d5c4e3d4d0f1b5c56d3b59641d283acfb7ed5ae305beb5af9f99a15a3114b2220a420552f5fe4cd607534ecf2ed24452ecf8ba56d34e91553a9b8fe2f4b08216b65c79d444050e9e079d22f02f3e730cb289f9f80d0cdc98666ac153076e83b3ab18d8e3b13d739543bf1878d5fbf05f8fafca7cb5fb0894f5a3497553c2d9b8ebf4c8670626ec15d38899918a7286bef290c6e5973b6febc3adcb284f8aaf38c2f3f4ed95a40a980bdc71c5cf1107d72d5ae9c8563f6a07500725a9a5bcee9a4fd6e1fb6ad8c9cf440400e67ed8a97b9d8707c70b4d9ee50e289be4b4b740c1a6502c8261b654d479ad6172adf56b305742be893f4420a43237c5c483d063fa2b6cb06718ca57d041eeec1754c6aabcb78f9ef954e9213147b04d759880ff44f65b11379a25add92d1', '{a}', '\x00', '10/1B3', '9', '-U');
DO $check$
DECLARE
  want   jsonb := $want${"stale": 0, "events": 1, "fenced": 0, "deleted": 1, "ignored": 0, "updated": 0, "inserted": 0, "duplicate": 0, "truncated": 0, "superseded": 0}$want$;
  rows   jsonb := $want$[{"ka": "1", "kb": "", "live": false, "pos": "10/1B3:9", "vals": null, "own": null}]$want$;
  errors text[] := '{}';
  got    jsonb;
BEGIN
  BEGIN
    SELECT jsonb_build_object('events', r.events, 'inserted', r.inserted, 'updated', r.updated, 'deleted', r.deleted, 'stale', r.stale, 'duplicate', r.duplicate, 'superseded', r.superseded, 'fenced', r.fenced, 'ignored', r.ignored, 'truncated', r.truncated) INTO got
    FROM (SELECT * FROM cdc_apply('target', unchanged_column => '__unchanged', snapshot_position => 'none', on_unavailable => 'null', consume => 'delete', dry_run => false)) AS r;
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

-- Call 2
DELETE FROM staging;
INSERT INTO staging (id, __old_id, source_lsn, source_ordinal, op) VALUES ('1', '1', '10/1E5', '3', 'DELETE');
DO $check$
DECLARE
  want   jsonb := $want${"stale": 0, "events": 1, "fenced": 0, "deleted": 1, "ignored": 0, "updated": 0, "inserted": 0, "duplicate": 0, "truncated": 0, "superseded": 0}$want$;
  rows   jsonb := $want$[{"ka": "1", "kb": "", "live": false, "pos": "10/1E5:3", "vals": null, "own": null}]$want$;
  errors text[] := '{}';
  got    jsonb;
BEGIN
  BEGIN
    SELECT jsonb_build_object('events', r.events, 'inserted', r.inserted, 'updated', r.updated, 'deleted', r.deleted, 'stale', r.stale, 'duplicate', r.duplicate, 'superseded', r.superseded, 'fenced', r.fenced, 'ignored', r.ignored, 'truncated', r.truncated) INTO got
    FROM (SELECT * FROM cdc_apply('target', unchanged_column => '__unchanged', snapshot_position => 'none', on_unavailable => 'null', consume => 'delete', dry_run => false)) AS r;
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
  IF true AND got <> $want${"fence": null, "floor": null}$want$ THEN
    RAISE EXCEPTION 'after call 2: fence and floor expected %, got %', $want${"fence": null, "floor": null}$want$, got;
  END IF;
END
$check$;
DROP SCHEMA law_kept CASCADE;
