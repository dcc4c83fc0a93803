
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
