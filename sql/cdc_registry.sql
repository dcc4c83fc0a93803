--------------------------------------------------------------------------
-- what is known of attached targets
--
-- The C code writes these tables directly; nobody else needs rights on them,
-- but for a dump and a restore by the extension's owner.  What a row says is
-- checked when it is used.
--------------------------------------------------------------------------

-- The rule of a target: from cdc_attach() to cdc_detach().  The parameters from
-- key_columns to consume stand in the order of cdc_apply()'s.
CREATE TABLE cdc_target_rule (
  target             regclass PRIMARY KEY,
  staging_schema     name,
  staging_name       name,
  key_columns        name[]   NOT NULL,
  position_columns   name[]   NOT NULL,
  staging_position   text,
  staging_filter     text,
  op_column          name,
  default_op         text,
  delete_flag_column name,
  tombstone_column   name,
  old_key_columns    name[],
  unchanged_column   name,
  except_columns     name[],
  op_map             jsonb,
  null_op            text,
  unavailable_value  text,
  on_unavailable     text,
  ignore_nulls       boolean,
  snapshot_position  text,
  on_tie             text,
  on_same_position   text,
  on_schema_change   text,
  column_positions   name,
  consume            text,
  key_attnums        int2[]   NOT NULL,
  position_attnums   int2[]   NOT NULL,
  tombstone_attnum   int2,
  guard              text     NOT NULL,
  live_view          regclass,
  attached_at        timestamptz NOT NULL
) USING heap;
COMMENT ON TABLE cdc_target_rule IS
  'the rule of each attached target, as cdc_attach() recorded it; read it through cdc_targets';

-- What must not be forgotten of a target: it stays until the table is dropped.
CREATE TABLE cdc_target_state (
  target             regclass PRIMARY KEY,
  tombstones         regclass,
  fence              cdc_position,
  floor              cdc_position,
  high_position      cdc_position,
  epoch              bigint   NOT NULL,
  lineage            text,
  fed_columns        name[],
  fed_attnums        int2[]
) USING heap;
COMMENT ON TABLE cdc_target_state IS
  'fence, floor, epoch and side table of each target that is or was attached; read it through cdc_targets';

REVOKE ALL ON cdc_target_rule, cdc_target_state FROM PUBLIC;
GRANT SELECT, INSERT ON cdc_target_rule, cdc_target_state TO @extowner@;

-- no row of a table that is gone, or that a dump does not hold
SELECT pg_catalog.pg_extension_config_dump('cdc_target_rule',
  'WHERE EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = target AND c.relpersistence <> ''t'')');
SELECT pg_catalog.pg_extension_config_dump('cdc_target_state',
  'WHERE EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = target AND c.relpersistence <> ''t'')');
