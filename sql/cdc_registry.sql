--------------------------------------------------------------------------
-- what is known of attached targets
--
-- The C code writes these tables directly; nobody else needs rights on them,
-- but for a dump and a restore by the extension's owner.  What a row says is
-- checked when it is used.
--------------------------------------------------------------------------

-- The rule of a target: from cdc_attach() to cdc_detach().  The parameters from
-- key_columns to bookmark_column stand in the order of cdc_apply()'s.
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
  bookmark_column    name,
  key_attnums        int2[]   NOT NULL,
  position_attnums   int2[]   NOT NULL,
  tombstone_attnum   int2,
  guard              text     NOT NULL,
  live_view          regclass,
  attached_at        timestamptz NOT NULL,
  CHECK ((staging_schema IS NULL) = (staging_name IS NULL))
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
  fed_attnums        int2[],
  tombstone_column   name,
  tombstone_attnum   int2
) USING heap;
COMMENT ON TABLE cdc_target_state IS
  'fence, floor, epoch and side table of each target that is or was attached; read it through cdc_targets';

-- How far a target has read a staging relation, with consume => 'bookmark'.  No
-- dump holds it: transaction ids are those of one cluster.
CREATE TABLE cdc_bookmark (
  target             regclass,
  staging            regclass,
  loaded_table       regclass NOT NULL,
  loaded_attnum      int2     NOT NULL,
  staging_filter     text,
  read_below         xid8     NOT NULL,
  system_identifier  bigint   NOT NULL,
  PRIMARY KEY (target, staging)
) USING heap;
COMMENT ON TABLE cdc_bookmark IS
  'how far each target has read a staging relation with consume => ''bookmark'': rows of all transactions below read_below';

REVOKE ALL ON cdc_target_rule, cdc_target_state, cdc_bookmark FROM PUBLIC;
GRANT SELECT, INSERT ON cdc_target_rule, cdc_target_state TO @extowner@;

-- no row of a table that is gone, or that a dump does not hold
SELECT pg_catalog.pg_extension_config_dump('cdc_target_rule',
  'WHERE EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = target AND c.relpersistence <> ''t'')');
SELECT pg_catalog.pg_extension_config_dump('cdc_target_state',
  'WHERE EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = target AND c.relpersistence <> ''t'')');

--------------------------------------------------------------------------
-- rows that do not come from the C code: a restore's, or those of a hand
--
-- A rule holds expressions that others will run, so only who could attach a
-- table may enter it.  Column numbers are those of this database.
--------------------------------------------------------------------------

CREATE FUNCTION cdc_target_row_check() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  owner oid := (SELECT c.relowner FROM pg_class c WHERE c.oid = NEW.target);
BEGIN
  IF owner IS NULL THEN
    RETURN NULL;
  END IF;
  IF NOT pg_has_role(owner, 'USAGE') THEN
    RAISE EXCEPTION 'must be owner of table %', NEW.target
      USING ERRCODE = 'insufficient_privilege';
  END IF;
  IF TG_TABLE_NAME = 'cdc_target_rule' THEN
    NEW.key_attnums := ARRAY(
      SELECT coalesce(a.attnum, 0::int2)
      FROM unnest(NEW.key_columns) WITH ORDINALITY AS n(name, place)
      LEFT JOIN pg_attribute a ON a.attrelid = NEW.target AND a.attname = n.name AND a.attnum > 0
      ORDER BY n.place);
    NEW.position_attnums := ARRAY(
      SELECT coalesce(a.attnum, 0::int2)
      FROM unnest(NEW.position_columns) WITH ORDINALITY AS n(name, place)
      LEFT JOIN pg_attribute a ON a.attrelid = NEW.target AND a.attname = n.name AND a.attnum > 0
      ORDER BY n.place);
    NEW.tombstone_attnum := (
      SELECT a.attnum FROM pg_attribute a
      WHERE a.attrelid = NEW.target AND a.attname = NEW.tombstone_column AND a.attnum > 0);
    NEW.live_view := (
      SELECT c.oid FROM pg_class c
      WHERE c.oid = NEW.live_view AND c.relkind = 'v' AND pg_has_role(c.relowner, 'USAGE'));
  ELSE
    NEW.fed_attnums := CASE WHEN NEW.fed_columns IS NOT NULL THEN ARRAY(
      SELECT coalesce(a.attnum, 0::int2)
      FROM unnest(NEW.fed_columns) WITH ORDINALITY AS n(name, place)
      LEFT JOIN pg_attribute a ON a.attrelid = NEW.target AND a.attname = n.name AND a.attnum > 0
      ORDER BY n.place) END;
    NEW.tombstone_attnum := (
      SELECT a.attnum FROM pg_attribute a
      WHERE a.attrelid = NEW.target AND a.attname = NEW.tombstone_column AND a.attnum > 0);
    NEW.tombstones := (
      SELECT c.oid FROM pg_class c
      WHERE c.oid = NEW.tombstones AND c.relkind = 'r' AND pg_has_role(c.relowner, 'USAGE'));
  END IF;
  RETURN NEW;
END
$$;
COMMENT ON FUNCTION cdc_target_row_check() IS
  'trigger of the registry: rows that a restore brings are checked and given the column numbers of this database';

CREATE TRIGGER cdc_target_row_check BEFORE INSERT ON cdc_target_rule
  FOR EACH ROW EXECUTE FUNCTION cdc_target_row_check();
ALTER TABLE cdc_target_rule ENABLE ALWAYS TRIGGER cdc_target_row_check;
COMMENT ON TRIGGER cdc_target_row_check ON cdc_target_rule IS
  'only who could attach a table may enter its rule';

CREATE TRIGGER cdc_target_row_check BEFORE INSERT ON cdc_target_state
  FOR EACH ROW EXECUTE FUNCTION cdc_target_row_check();
ALTER TABLE cdc_target_state ENABLE ALWAYS TRIGGER cdc_target_row_check;
COMMENT ON TRIGGER cdc_target_row_check ON cdc_target_state IS
  'only who could attach a table may enter its state';

--------------------------------------------------------------------------
-- renames, new owners and drops
--------------------------------------------------------------------------

CREATE FUNCTION cdc_follow_alter() RETURNS event_trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION cdc_follow_alter() IS
  'event trigger: what is recorded of a target follows a renamed column, side table and live view follow a new owner';

CREATE FUNCTION cdc_follow_drop() RETURNS event_trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION cdc_follow_drop() IS
  'event trigger: what is recorded of a dropped table goes, and its side table with it';

-- a column of a table can be renamed by any of these
CREATE EVENT TRIGGER cdc_follow_alter ON ddl_command_end
  WHEN TAG IN ('ALTER TABLE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER FOREIGN TABLE')
  EXECUTE FUNCTION cdc_follow_alter();
ALTER EVENT TRIGGER cdc_follow_alter ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER cdc_follow_alter IS
  'cdc_precedence: names and owners of attached targets are followed';

-- tables go by many commands: DROP TABLE, SCHEMA, OWNED, TYPE .. CASCADE
CREATE EVENT TRIGGER cdc_follow_drop ON sql_drop
  EXECUTE FUNCTION cdc_follow_drop();
ALTER EVENT TRIGGER cdc_follow_drop ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER cdc_follow_drop IS
  'cdc_precedence: dropped targets, side tables and live views are forgotten';

--------------------------------------------------------------------------
-- what is attached, for those who may read the target
--------------------------------------------------------------------------

CREATE VIEW cdc_targets WITH (security_barrier) AS
  SELECT r.target,
         CASE WHEN r.staging_name IS NOT NULL
              THEN pg_catalog.format('%I.%I', r.staging_schema, r.staging_name) END AS staging,
         CASE WHEN r.tombstone_column IS NULL THEN 'table' ELSE 'row' END AS home,
         s.tombstones, r.tombstone_column, r.key_columns, r.position_columns, r.guard,
         (SELECT v.oid::pg_catalog.regclass FROM pg_catalog.pg_class v
          WHERE v.oid OPERATOR(pg_catalog.=) r.live_view AND v.relkind OPERATOR(pg_catalog.=) 'v') AS live_view,
         s.fence, s.floor, s.high_position, s.epoch, s.lineage, r.attached_at,
         r.staging_position, r.staging_filter, r.op_column, r.default_op, r.delete_flag_column,
         r.old_key_columns, r.unchanged_column, r.except_columns, r.op_map, r.null_op,
         r.unavailable_value, r.on_unavailable, r.ignore_nulls, r.snapshot_position, r.on_tie,
         r.on_same_position, r.on_schema_change, r.column_positions, r.consume,
         r.bookmark_column,
         (SELECT b.read_below
          FROM cdc_bookmark b
          JOIN pg_catalog.pg_class c ON c.oid = b.staging
          JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
          WHERE b.target = r.target AND n.nspname = r.staging_schema AND c.relname = r.staging_name) AS read_below
  FROM cdc_target_rule r
  LEFT JOIN cdc_target_state s ON s.target = r.target
  WHERE EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = r.target)
    AND (pg_catalog.has_table_privilege(r.target, 'SELECT')
         OR pg_catalog.pg_has_role('pg_monitor', 'USAGE'));
COMMENT ON VIEW cdc_targets IS
  'attached targets: where their deletes are remembered, fence, floor and epoch, and the rule by which events are applied';
COMMENT ON COLUMN cdc_targets.target IS 'the attached table';
COMMENT ON COLUMN cdc_targets.staging IS 'relation that feeds it, by name';
COMMENT ON COLUMN cdc_targets.home IS 'where deletes are remembered: table (a side table) or row';
COMMENT ON COLUMN cdc_targets.tombstones IS 'the side table';
COMMENT ON COLUMN cdc_targets.tombstone_column IS 'column that marks dead rows; NULL: the side table';
COMMENT ON COLUMN cdc_targets.key_columns IS 'the key';
COMMENT ON COLUMN cdc_targets.position_columns IS 'where rows keep their position';
COMMENT ON COLUMN cdc_targets.guard IS 'off, skip or error';
COMMENT ON COLUMN cdc_targets.live_view IS 'view of the live rows';
COMMENT ON COLUMN cdc_targets.fence IS 'a dead key is known dead at and below it';
COMMENT ON COLUMN cdc_targets.floor IS 'every key is decided up to it';
COMMENT ON COLUMN cdc_targets.high_position IS 'the greatest position read';
COMMENT ON COLUMN cdc_targets.epoch IS 'that incoming positions of epoch 0 get';
COMMENT ON COLUMN cdc_targets.lineage IS 'name of the log that positions come from';
COMMENT ON COLUMN cdc_targets.attached_at IS 'when the rule was recorded';
COMMENT ON COLUMN cdc_targets.staging_position IS 'expression for the position of an event; NULL: columns of the same names';
COMMENT ON COLUMN cdc_targets.staging_filter IS 'which rows of staging are events; NULL: all';
COMMENT ON COLUMN cdc_targets.op_column IS 'what an event is; NULL: op';
COMMENT ON COLUMN cdc_targets.default_op IS 'the op where staging has no op column';
COMMENT ON COLUMN cdc_targets.delete_flag_column IS 'staging column that marks deletes';
COMMENT ON COLUMN cdc_targets.old_key_columns IS 'the key before the change; NULL: __old_<key column>, where staging has all';
COMMENT ON COLUMN cdc_targets.unchanged_column IS 'lists the columns that an event does not carry; NULL: __unchanged, where staging has it';
COMMENT ON COLUMN cdc_targets.except_columns IS 'staging columns that are not applied';
COMMENT ON COLUMN cdc_targets.op_map IS 'more ops, or others';
COMMENT ON COLUMN cdc_targets.null_op IS 'what an event without op is; NULL: auto';
COMMENT ON COLUMN cdc_targets.unavailable_value IS 'marks a value that is not carried; NULL: __debezium_unavailable_value';
COMMENT ON COLUMN cdc_targets.on_unavailable IS 'an unchanged value that is nowhere to be found; NULL: error';
COMMENT ON COLUMN cdc_targets.ignore_nulls IS 'does a NULL mean that the value is not carried? NULL: no';
COMMENT ON COLUMN cdc_targets.snapshot_position IS 'do snapshot rows use their position? NULL: none for LSNs, event for numbers';
COMMENT ON COLUMN cdc_targets.on_tie IS 'different events of a key at its newest position; NULL: error';
COMMENT ON COLUMN cdc_targets.on_same_position IS 'other values at the stored position; NULL: warn';
COMMENT ON COLUMN cdc_targets.on_schema_change IS 'staging columns that the target lacks; NULL: warn';
COMMENT ON COLUMN cdc_targets.column_positions IS 'jsonb column of the target that remembers older columns';
COMMENT ON COLUMN cdc_targets.consume IS 'what becomes of rows that were read; NULL: keep';
COMMENT ON COLUMN cdc_targets.bookmark_column IS 'staging column that says which transaction loaded a row; NULL: loaded_xid';
COMMENT ON COLUMN cdc_targets.read_below IS 'with a bookmark: rows of all transactions below it have been read';
GRANT SELECT ON cdc_targets TO PUBLIC;

--------------------------------------------------------------------------
-- what every target has read of a landing table
--------------------------------------------------------------------------

CREATE FUNCTION cdc_read_below(landing regclass) RETURNS xid8
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION cdc_read_below(regclass) IS
  'rows of a landing table that transactions below it have loaded were read by all attached targets, directly or through views; NULL: one has not read by a bookmark yet, or none reads it';
