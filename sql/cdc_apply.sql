--------------------------------------------------------------------------
-- cdc_apply: a staging table of events applied to a target
--------------------------------------------------------------------------

CREATE TYPE cdc_apply_result AS (
  events        bigint,
  inserted      bigint,
  updated       bigint,
  deleted       bigint,
  stale         bigint,
  duplicate     bigint,
  superseded    bigint,
  fenced        bigint,
  ignored       bigint,
  truncated     bigint,
  skipped       boolean,
  low_position  cdc_position,
  high_position cdc_position
);
COMMENT ON TYPE cdc_apply_result IS
  'what became of the events of one cdc_apply() call; events is the sum of the counts from inserted to truncated';

CREATE FUNCTION cdc_apply(
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
  bookmark_column    name     DEFAULT NULL,
  expect_events      bigint   DEFAULT NULL,
  lineage            text     DEFAULT NULL,
  dry_run            boolean  DEFAULT false,
  nowait             boolean  DEFAULT false
) RETURNS cdc_apply_result
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_apply(regclass, regclass, name[], name[], text, text, name, text, name, name,
  name[], name, name[], jsonb, text, text, text, boolean, text, text, text, text, name, text, name,
  bigint, text, boolean, boolean) IS
  'apply a staging relation of change events to a target table: per key the event with the greatest position wins, and deletes are remembered';

--------------------------------------------------------------------------
-- fences, floors and epochs of attached targets
--------------------------------------------------------------------------

CREATE FUNCTION cdc_purge_tombstones(
  target             regclass,
  up_to              cdc_position DEFAULT NULL,
  older_than         interval DEFAULT NULL,
  max_rows           bigint   DEFAULT NULL,
  force              boolean  DEFAULT false
) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_purge_tombstones(regclass, cdc_position, interval, bigint, boolean) IS
  'remove tombstones at or below a position and raise the target''s fence to it, so that no older event brings a row back; the number removed';

CREATE FUNCTION cdc_set_fence(target regclass, fence cdc_position) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_set_fence(regclass, cdc_position) IS
  'set the position at and below which a dead key is known to be dead; NULL removes the fence';

CREATE FUNCTION cdc_set_floor(target regclass, floor cdc_position) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_set_floor(regclass, cdc_position) IS
  'set the position at and below which every key is decided; NULL removes the floor';

CREATE FUNCTION cdc_new_epoch(target regclass, lineage text DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_new_epoch(regclass, text) IS
  'the source has a new log: from now on its positions of epoch 0 get the next epoch, which is returned, and outrank the old log''s';
