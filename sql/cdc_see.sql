
--------------------------------------------------------------------------
-- seeing: why a row looks as it does, and what stands in the way
--------------------------------------------------------------------------

CREATE FUNCTION cdc_explain(
  target             regclass,
  staging            regclass DEFAULT NULL,
  key_columns        name[]   DEFAULT NULL,
  position_columns   name[]   DEFAULT NULL,
  staging_position   text     DEFAULT NULL,
  staging_filter     text     DEFAULT NULL,
  op_column          name     DEFAULT NULL,
  default_op         text     DEFAULT NULL,
  delete_flag_column name     DEFAULT NULL,
  tombstone_column   name     DEFAULT NULL,
  old_key_columns    name[]   DEFAULT NULL,
  unchanged_column   name     DEFAULT NULL,
  except_columns     name[]   DEFAULT NULL,
  op_map             jsonb    DEFAULT NULL,
  null_op            text     DEFAULT NULL,
  unavailable_value  text     DEFAULT NULL,
  on_unavailable     text     DEFAULT NULL,
  ignore_nulls       boolean  DEFAULT NULL,
  snapshot_position  text     DEFAULT NULL,
  on_tie             text     DEFAULT NULL,
  on_same_position   text     DEFAULT NULL,
  on_schema_change   text     DEFAULT NULL,
  column_positions   name     DEFAULT NULL,
  consume            text     DEFAULT NULL,
  lineage            text     DEFAULT NULL
) RETURNS TABLE (event_key jsonb, op text, event_position cdc_position, stored_position cdc_position,
                 outcome text, reason text)
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_explain(regclass, regclass, name[], name[], text, text, name, text, name, name,
  name[], name, name[], jsonb, text, text, text, boolean, text, text, text, text, name, text, text) IS
  'what cdc_apply() would make of each event of staging, and why: one row per event, nothing is written';

CREATE FUNCTION cdc_forget(target regclass, above cdc_position) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_forget(regclass, cdc_position) IS
  'take back what was applied at positions that were wrong: rows above lose their position, tombstones above go; then the log is to be replayed; the number of both';

CREATE FUNCTION cdc_find_resurrected(
  target             regclass,
  log                regclass DEFAULT NULL,
  source             regclass DEFAULT NULL,
  sample             float8   DEFAULT 1
) RETURNS TABLE (key jsonb, stored_position cdc_position, evidence text, gone_at cdc_position)
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_find_resurrected(regclass, regclass, regclass, float8) IS
  'keys that live in a target although the last word of a log (the attached staging, by default), the source itself or a tombstone says that they are gone';

CREATE FUNCTION cdc_check(
  target             regclass DEFAULT NULL,
  staging            regclass DEFAULT NULL
) RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION cdc_check(regclass, regclass) IS
  'the questions to ask before events are applied to a target, or to all attached ones: one row each, whether all is right, what was found, what to do';

-- Tables with a key, not attached, that tell by their columns, or by a
-- subscription, that a change log feeds them.
CREATE FUNCTION cdc_exposed(schema_name name DEFAULT NULL)
RETURNS TABLE (relation regclass, evidence text, hint text)
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  WITH signs (tool, column_name) AS (VALUES
    ('Debezium', '__deleted'), ('Debezium', '__op'), ('Debezium', '__lsn'), ('Debezium', '__source_lsn'),
    ('Debezium', '__source_ts_ms'), ('Debezium', '__ts_ms'),
    ('Airbyte', '_ab_cdc_lsn'), ('Airbyte', '_ab_cdc_deleted_at'), ('Airbyte', '_ab_cdc_updated_at'),
    ('Airbyte', '_ab_cdc_log_pos'), ('Fivetran', '_fivetran_deleted'), ('Fivetran', '_fivetran_synced'),
    ('Stitch', '_sdc_deleted_at'), ('Stitch', '_sdc_sequence'), ('PeerDB', '_peerdb_is_deleted'),
    ('PeerDB', '_peerdb_version'), ('Hudi', '_hoodie_is_deleted'), ('Hudi', '_hoodie_commit_seqno'),
    ('a change log', 'source_lsn'), ('a change log', 'source_position'))
  SELECT c.oid::regclass,
         concat_ws('; ',
           (SELECT string_agg(format('column %I of %s', a.attname, s.tool), ', ' ORDER BY a.attnum)
            FROM pg_attribute a JOIN signs s ON s.column_name = lower(a.attname)
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
           (SELECT string_agg(format('column %I of type %s', a.attname, format_type(a.atttypid, NULL)), ', ' ORDER BY a.attnum)
            FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
              AND a.atttypid IN ('pg_lsn'::regtype, '@extschema@.cdc_position'::regtype)
              AND lower(a.attname) NOT IN (SELECT s.column_name FROM signs s)),
           (SELECT string_agg(format('subscription %I', b.subname), ', ' ORDER BY b.subname)
            FROM pg_subscription_rel r JOIN pg_subscription b ON b.oid = r.srsubid WHERE r.srrelid = c.oid)),
         CASE WHEN EXISTS (SELECT FROM pg_subscription_rel r WHERE r.srrelid = c.oid)
              THEN 'the server''s own replication keeps its order; nobody else may write to it'
              ELSE format('cdc_check(%L) says what an apply would meet; cdc_attach(%1$L) gives it a place to remember deletes', c.oid::regclass) END
  FROM pg_class c
  WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
    AND (c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = schema_name)
         OR schema_name IS NULL AND c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace))
    AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL)
    AND NOT EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
                    WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e')
    AND NOT EXISTS (SELECT FROM @extschema@.cdc_targets t WHERE t.target = c.oid)
    AND NOT @extschema@.cdc_is_side_table(c.oid)
    AND NOT @extschema@.cdc_is_history(c.oid)
    AND has_table_privilege(c.oid, 'SELECT')
    AND (EXISTS (SELECT FROM pg_attribute a
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                   AND (lower(a.attname) IN (SELECT s.column_name FROM signs s)
                        OR a.atttypid IN ('pg_lsn'::regtype, '@extschema@.cdc_position'::regtype)))
         OR EXISTS (SELECT FROM pg_subscription_rel r WHERE r.srrelid = c.oid))
  ORDER BY c.oid::regclass::text
$$;
COMMENT ON FUNCTION cdc_exposed(name) IS
  'tables of a schema, or of all, that have a key, look fed by a change log, and are not attached';
