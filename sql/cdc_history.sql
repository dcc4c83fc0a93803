--------------------------------------------------------------------------
-- histories: a row for each version of a key
--------------------------------------------------------------------------

-- What is known of a history: it stays until the table is dropped.
CREATE TABLE cdc_history_rule (
  history            regclass PRIMARY KEY,
  events             regclass,
  track_columns      name[],
  time_column        name,
  high_position      cdc_position,
  changes            bigint   NOT NULL
) USING heap WITH (fillfactor = 50);
COMMENT ON TABLE cdc_history_rule IS
  'the events table and the tracked columns of each history; read it through cdc_histories';

REVOKE ALL ON cdc_history_rule FROM PUBLIC;
GRANT SELECT, INSERT ON cdc_history_rule TO @extowner@;
SELECT pg_catalog.pg_extension_config_dump('cdc_history_rule',
  'WHERE EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = history AND c.relpersistence <> ''t'')');

CREATE FUNCTION cdc_history_row_check() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  owner oid := (SELECT c.relowner FROM pg_class c WHERE c.oid = NEW.history);
BEGIN
  IF owner IS NULL THEN
    RETURN NULL;
  END IF;
  IF NOT pg_has_role(owner, 'USAGE') THEN
    RAISE EXCEPTION 'must be owner of table %', NEW.history
      USING ERRCODE = 'insufficient_privilege';
  END IF;
  NEW.events := (
    SELECT c.oid FROM pg_class c
    WHERE c.oid = NEW.events AND c.relkind = 'r' AND c.relowner = owner);
  RETURN NEW;
END
$$;
COMMENT ON FUNCTION cdc_history_row_check() IS
  'trigger of the registry of histories: rows that a restore brings are checked';

CREATE TRIGGER cdc_history_row_check BEFORE INSERT ON cdc_history_rule
  FOR EACH ROW EXECUTE FUNCTION cdc_history_row_check();
ALTER TABLE cdc_history_rule ENABLE ALWAYS TRIGGER cdc_history_row_check;
COMMENT ON TRIGGER cdc_history_row_check ON cdc_history_rule IS
  'only who owns a history may enter what is recorded of it';

CREATE VIEW cdc_histories WITH (security_barrier) AS
  SELECT r.history, r.events, r.track_columns, r.time_column, r.high_position
  FROM cdc_history_rule r
  WHERE EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) r.history)
    AND (pg_catalog.has_table_privilege(r.history, 'SELECT')
         OR pg_catalog.pg_has_role('pg_monitor', 'USAGE'));
COMMENT ON VIEW cdc_histories IS
  'histories: the table that remembers what their versions do not tell, tracked columns, time column, greatest position applied';
GRANT SELECT ON cdc_histories TO PUBLIC;

CREATE FUNCTION cdc_create_history(
  target             regclass,
  history            text     DEFAULT NULL,
  key_columns        name[]   DEFAULT NULL,
  track_columns      name[]   DEFAULT NULL,
  time_column        name     DEFAULT NULL
) RETURNS regclass
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_create_history(regclass, text, name[], name[], name) IS
  'make the table that holds the versions of a table''s rows, for cdc_apply_history(), and the table of events that it needs; the history';

CREATE FUNCTION cdc_apply_history(
  history            regclass,
  staging            regclass DEFAULT NULL,
  key_columns        name[]   DEFAULT NULL,
  position_columns   name[]   DEFAULT NULL,
  staging_position   text     DEFAULT NULL,
  staging_filter     text     DEFAULT NULL,
  op_column          name     DEFAULT NULL,
  default_op         text     DEFAULT NULL,
  delete_flag_column name     DEFAULT NULL,
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
  consume            text     DEFAULT NULL,
  bookmark_column    name     DEFAULT NULL,
  track_columns      name[]   DEFAULT NULL,
  time_column        name     DEFAULT NULL,
  expect_events      bigint   DEFAULT NULL,
  dry_run            boolean  DEFAULT false,
  nowait             boolean  DEFAULT false
) RETURNS cdc_apply_result
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_apply_history(regclass, regclass, name[], name[], text, text, name, text, name,
  name[], name, name[], jsonb, text, text, text, boolean, text, text, text, text, text, name, name[], name,
  bigint, boolean, boolean) IS
  'apply a staging relation of change events to a history: a row for each version of a key, in whatever order events arrive';

CREATE FUNCTION cdc_is_history(relation regclass) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_is_history(regclass) IS
  'is a table a history, or the events table of one?';

--------------------------------------------------------------------------
-- asking a history
--------------------------------------------------------------------------

CREATE FUNCTION cdc_valid_at(valid_from cdc_position, valid_to cdc_position, at_position cdc_position) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN valid_from <= at_position AND (valid_to IS NULL OR valid_to > at_position);
COMMENT ON FUNCTION cdc_valid_at(cdc_position, cdc_position, cdc_position) IS
  'was a version of a history the valid one at a position?';

CREATE FUNCTION cdc_valid_at(valid_from_at timestamptz, valid_to_at timestamptz, at_time timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN valid_from_at <= at_time AND (valid_to_at IS NULL OR valid_to_at > at_time);
COMMENT ON FUNCTION cdc_valid_at(timestamptz, timestamptz, timestamptz) IS
  'was a version of a history the valid one at a time?';

CREATE FUNCTION cdc_history_at(history anyelement, at_position cdc_position) RETURNS SETOF anyelement
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- a position of the other kind would find all or none
  EXECUTE pg_catalog.format(
      'SELECT @extschema@.cdc_supersedes($1, h.valid_from) FROM %s h WHERE h.valid_from OPERATOR(@extschema@.>) ''0/0'' LIMIT 1',
      @extschema@.cdc_history_of_row(history))
    USING at_position;
  RETURN QUERY EXECUTE pg_catalog.format(
      'SELECT h.* FROM %s h WHERE @extschema@.cdc_valid_at(h.valid_from, h.valid_to, $1)',
      @extschema@.cdc_history_of_row(history))
    USING at_position;
END
$$;
COMMENT ON FUNCTION cdc_history_at(anyelement, cdc_position) IS
  'the versions of a history that were valid at a position; the history is named by a NULL of its row type';

CREATE FUNCTION cdc_history_at(history anyelement, at_time timestamptz) RETURNS SETOF anyelement
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation text := @extschema@.cdc_history_of_row(history);
BEGIN
  IF NOT EXISTS (SELECT FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid
                 WHERE t.oid = pg_typeof(history) AND a.attname = 'valid_from_at') THEN
    RAISE EXCEPTION 'history % keeps no times', relation
      USING ERRCODE = 'undefined_column', DETAIL = 'It has no columns valid_from_at and valid_to_at.',
      HINT = 'Ask for a position; or give time_column to cdc_apply_history(): versions made from then on have times.';
  END IF;
  RETURN QUERY EXECUTE pg_catalog.format(
      'SELECT h.* FROM %s h WHERE @extschema@.cdc_valid_at(h.valid_from_at, h.valid_to_at, $1)',
      relation)
    USING at_time;
END
$$;
COMMENT ON FUNCTION cdc_history_at(anyelement, timestamptz) IS
  'the versions of a history that were valid at a time; the history is named by a NULL of its row type';

-- schema.table of a row type
CREATE FUNCTION cdc_history_of_row(history anyelement) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  name text := (SELECT format('%I.%I', n.nspname, c.relname)
                FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE t.oid = pg_typeof(history) AND c.relkind IN ('r', 'p', 'v', 'm', 'f'));
BEGIN
  IF name IS NULL THEN
    RAISE EXCEPTION 'type % is not the row type of a history', pg_typeof(history)
      USING ERRCODE = 'datatype_mismatch', HINT = 'Name the history by NULL::history.';
  END IF;
  RETURN name;
END
$$;
COMMENT ON FUNCTION cdc_history_of_row(anyelement) IS
  'the table that a value''s row type is of, for cdc_history_at()';
