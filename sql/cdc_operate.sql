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
  'for cdc_status: how many tombstones a target has and how many rows its staging; large tables are estimated or NULL';

CREATE VIEW cdc_status WITH (security_barrier) AS
  SELECT r.target,
         CASE WHEN r.staging_name IS NOT NULL
              THEN pg_catalog.format('%I.%I', r.staging_schema, r.staging_name) END AS staging,
         n.rows_waiting,
         l.started_at AS last_run, l.events AS last_events, l.error AS last_error,
         e.empty_at AS last_seen_empty,
         s.high_position, s.fence, s.floor, n.tombstones
  FROM cdc_target_rule r
  LEFT JOIN cdc_target_state s ON s.target = r.target
  LEFT JOIN cdc_target_seen e ON e.target = r.target
  LEFT JOIN LATERAL (
    SELECT g.started_at, g.events, g.error FROM cdc_run_log g
    WHERE g.target = r.target AND g.operation OPERATOR(pg_catalog.=) 'apply'
    ORDER BY g.run_id DESC LIMIT 1) l ON true
  CROSS JOIN LATERAL cdc_status_counts(r.target) n
  WHERE EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = r.target)
    AND (pg_catalog.has_table_privilege(r.target, 'SELECT')
         OR pg_catalog.pg_has_role('pg_monitor', 'USAGE'));
COMMENT ON VIEW cdc_status IS
  'how every attached target is doing: its last run, when its staging was last seen empty, what waits there, how far it has come';
GRANT SELECT ON cdc_status TO PUBLIC;
