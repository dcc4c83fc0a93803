--------------------------------------------------------------------------
-- cdc_apply_snapshot: rows as they are in the source, without a log
--------------------------------------------------------------------------

CREATE FUNCTION cdc_apply_snapshot(
  target             regclass,
  snapshot           regclass,
  as_of              cdc_position,
  complete           boolean  DEFAULT false,
  max_delete_fraction float8  DEFAULT 0.1,
  min_delete_rows    bigint   DEFAULT 100,
  scope              text     DEFAULT NULL,
  key_columns        name[]   DEFAULT NULL,
  position_columns   name[]   DEFAULT NULL,
  staging_filter     text     DEFAULT NULL,
  tombstone_column   name     DEFAULT NULL,
  unchanged_column   name     DEFAULT NULL,
  except_columns     name[]   DEFAULT NULL,
  unavailable_value  text     DEFAULT NULL,
  on_unavailable     text     DEFAULT NULL,
  ignore_nulls       boolean  DEFAULT NULL,
  on_schema_change   text     DEFAULT NULL,
  column_positions   name     DEFAULT NULL,
  lineage            text     DEFAULT NULL,
  dry_run            boolean  DEFAULT false
) RETURNS cdc_apply_result
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_apply_snapshot(regclass, regclass, cdc_position, boolean, float8, bigint, text,
  name[], name[], text, name, name, name[], text, text, boolean, text, name, text, boolean) IS
  'reconcile a target with a relation that holds the source''s rows as of a position: rows that differ are written, and a complete snapshot deletes the keys it lacks';
