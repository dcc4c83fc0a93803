--------------------------------------------------------------------------
-- attaching a target, and what an attached target can do
--------------------------------------------------------------------------

CREATE FUNCTION cdc_attach(
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
  tombstones         text     DEFAULT NULL,
  guard              text     DEFAULT NULL,
  live_view          text     DEFAULT NULL,
  as_of              cdc_position DEFAULT NULL,
  lineage            text     DEFAULT NULL,
  epoch              bigint   DEFAULT NULL
) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_attach(regclass, regclass, name[], name[], text, text, name, text, name, name,
  name[], name, name[], jsonb, text, text, text, boolean, text, text, text, text, name, text, text, text,
  text, cdc_position, text, bigint) IS
  'record the rule of a target once and add what it lacks: position column, tombstone column or side table, guard, live view; a repeat changes only what it names';

CREATE FUNCTION cdc_is_side_table(relation regclass) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION cdc_is_side_table(regclass) IS
  'does a table hold the tombstones of a target?';
