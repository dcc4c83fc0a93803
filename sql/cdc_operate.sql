--------------------------------------------------------------------------
-- operating it: what was done, how every target is doing, all of them at once
--
-- As with the registry, the C code writes these tables directly.  A dump holds
-- none of their rows.
--------------------------------------------------------------------------

CREATE TABLE cdc_run_log (
  run_id             bigint   PRIMARY KEY,
  target             regclass NOT NULL,
  staging            text,
  operation          text     NOT NULL,
  started_at         timestamptz NOT NULL,
  duration           interval NOT NULL,
  role               name,
  application_name   text,
  events             bigint,
  inserted           bigint,
  updated            bigint,
  deleted            bigint,
  stale              bigint,
  duplicate          bigint,
  superseded         bigint,
  fenced             bigint,
  ignored            bigint,
  truncated          bigint,
  low_position       cdc_position,
  high_position      cdc_position,
  wal_bytes          bigint,
  error              text,
  sqlstate           text
) USING heap;
CREATE INDEX cdc_run_log_target ON cdc_run_log (target, run_id);
COMMENT ON TABLE cdc_run_log IS
  'what was done to attached targets; read it through cdc_runs';

CREATE SEQUENCE cdc_run_id;
COMMENT ON SEQUENCE cdc_run_id IS
  'numbers the rows of cdc_runs';

CREATE TABLE cdc_target_seen (
  target             regclass PRIMARY KEY,
  empty_at           timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE cdc_target_seen IS
  'when the staging of each target was last found empty; read it through cdc_status';

REVOKE ALL ON cdc_run_log, cdc_target_seen FROM PUBLIC;
REVOKE ALL ON SEQUENCE cdc_run_id FROM PUBLIC;

CREATE VIEW cdc_runs WITH (security_barrier) AS
  SELECT run_id, target, staging, operation, started_at, duration, role, application_name, events,
         inserted, updated, deleted, stale, duplicate, superseded, fenced, ignored, truncated,
         low_position, high_position, wal_bytes, error, sqlstate
  FROM cdc_run_log
  WHERE pg_catalog.has_table_privilege(target, 'SELECT')
     OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW cdc_runs IS
  'what was done to attached targets: one row per call that had events or failed, of the targets that the reader may SELECT';
COMMENT ON COLUMN cdc_runs.run_id IS 'ascending';
COMMENT ON COLUMN cdc_runs.target IS 'the attached table';
COMMENT ON COLUMN cdc_runs.staging IS 'relation that was read, as the call had it';
COMMENT ON COLUMN cdc_runs.operation IS 'apply, purge, forget, set_fence, set_floor or new_epoch';
COMMENT ON COLUMN cdc_runs.started_at IS 'when the call began';
COMMENT ON COLUMN cdc_runs.duration IS 'how long it took';
COMMENT ON COLUMN cdc_runs.role IS 'who called';
COMMENT ON COLUMN cdc_runs.application_name IS 'of the session that called';
COMMENT ON COLUMN cdc_runs.events IS 'events read; of a purge or forget what was removed or taken back';
COMMENT ON COLUMN cdc_runs.inserted IS 'events that made a key live';
COMMENT ON COLUMN cdc_runs.updated IS 'events that changed a live row';
COMMENT ON COLUMN cdc_runs.deleted IS 'events that made a key dead';
COMMENT ON COLUMN cdc_runs.stale IS 'events older than what was stored';
COMMENT ON COLUMN cdc_runs.duplicate IS 'events at the stored position';
COMMENT ON COLUMN cdc_runs.superseded IS 'events with a newer one in the same batch';
COMMENT ON COLUMN cdc_runs.fenced IS 'events for a dead key at or below the fence';
COMMENT ON COLUMN cdc_runs.ignored IS 'events that were no changes';
COMMENT ON COLUMN cdc_runs.truncated IS 'the truncate that counted';
COMMENT ON COLUMN cdc_runs.low_position IS 'the least position read';
COMMENT ON COLUMN cdc_runs.high_position IS 'the greatest position read, or the position that was set';
COMMENT ON COLUMN cdc_runs.wal_bytes IS 'WAL that the call wrote';
COMMENT ON COLUMN cdc_runs.error IS 'message of a call that failed';
COMMENT ON COLUMN cdc_runs.sqlstate IS 'and its code';
GRANT SELECT ON cdc_runs TO PUBLIC;

CREATE FUNCTION cdc_apply_attached(schema_name name DEFAULT NULL)
RETURNS TABLE (
  target             regclass,
  events             bigint,
  inserted           bigint,
  updated            bigint,
  deleted            bigint,
  stale              bigint,
  duplicate          bigint,
  superseded         bigint,
  fenced             bigint,
  ignored            bigint,
  truncated          bigint,
  skipped            boolean,
  low_position       cdc_position,
  high_position      cdc_position,
  error              text
)
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_apply_attached(name) IS
  'apply the staging of every attached target, of one schema or all, each as its owner: one row per target; one that fails is rolled back alone';

CREATE PROCEDURE cdc_apply_all(schema_name name DEFAULT NULL, nowait boolean DEFAULT true)
AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE cdc_apply_all(name, boolean) IS
  'what a scheduled job calls: apply every attached target, each as its owner and in a transaction of its own; ends with an error that lists what failed';

CREATE FUNCTION cdc_status_counts(target regclass, OUT tombstones bigint, OUT rows_waiting bigint)
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_status_counts(regclass) IS
  'internal, for cdc_status: how many tombstones a target has and how many rows of its staging are to be read; large tables are estimated or NULL';

CREATE VIEW cdc_status WITH (security_barrier) AS
  SELECT r.target,
         CASE WHEN r.staging_name IS NOT NULL
              THEN pg_catalog.format('%I.%I', r.staging_schema, r.staging_name) END AS staging,
         n.rows_waiting,
         l.started_at AS last_run, l.events AS last_events, l.error AS last_error,
         e.empty_at AS last_seen_empty,
         s.high_position, s.fence, s.floor, n.tombstones,
         -- the oldest transaction that still runs, up to which a bookmark can move
         CASE WHEN r.consume OPERATOR(pg_catalog.=) 'bookmark'
               AND pg_catalog.pg_snapshot_xmin(x.now) OPERATOR(pg_catalog.<) pg_catalog.pg_snapshot_xmax(x.now)
              THEN pg_catalog.pg_snapshot_xmin(x.now) END AS waits_for
  FROM cdc_target_rule r
  LEFT JOIN cdc_target_state s ON s.target = r.target
  LEFT JOIN cdc_target_seen e ON e.target = r.target
  LEFT JOIN LATERAL (
    SELECT g.started_at, g.events, g.error FROM cdc_run_log g
    WHERE g.target = r.target AND g.operation OPERATOR(pg_catalog.=) 'apply'
    ORDER BY g.run_id DESC LIMIT 1) l ON true
  CROSS JOIN LATERAL cdc_status_counts(r.target) n
  CROSS JOIN pg_catalog.pg_current_snapshot() x (now)
  WHERE EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = r.target)
    AND (pg_catalog.has_table_privilege(r.target, 'SELECT')
         OR pg_catalog.pg_has_role('pg_monitor', 'USAGE'));
COMMENT ON VIEW cdc_status IS
  'how every attached target is doing: its last run, when its staging was last seen empty, what waits there, how far it has come';
COMMENT ON COLUMN cdc_status.target IS 'the attached table';
COMMENT ON COLUMN cdc_status.staging IS 'relation that feeds it, by name';
COMMENT ON COLUMN cdc_status.rows_waiting IS 'rows of staging, with a bookmark those not yet read; NULL: not known';
COMMENT ON COLUMN cdc_status.last_run IS 'start of the last apply that had events or failed';
COMMENT ON COLUMN cdc_status.last_events IS 'events of it';
COMMENT ON COLUMN cdc_status.last_error IS 'its error';
COMMENT ON COLUMN cdc_status.last_seen_empty IS 'when an apply last found staging without events';
COMMENT ON COLUMN cdc_status.high_position IS 'the greatest position read';
COMMENT ON COLUMN cdc_status.fence IS 'a dead key is known dead at and below it';
COMMENT ON COLUMN cdc_status.floor IS 'every key is decided up to it';
COMMENT ON COLUMN cdc_status.tombstones IS 'number of remembered deletes; NULL: not known';
COMMENT ON COLUMN cdc_status.waits_for IS 'with a bookmark: the oldest transaction that still runs, which holds reading back';
GRANT SELECT ON cdc_status TO PUBLIC;
