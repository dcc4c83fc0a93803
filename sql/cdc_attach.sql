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
  bookmark_column    name     DEFAULT NULL,
  tombstones         text     DEFAULT NULL,
  guard              text     DEFAULT NULL,
  live_view          text     DEFAULT NULL,
  as_of              cdc_position DEFAULT NULL,
  lineage            text     DEFAULT NULL,
  epoch              bigint   DEFAULT NULL
) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_attach(regclass, regclass, name[], name[], text, text, name, text, name, name,
  name[], name, name[], jsonb, text, text, text, boolean, text, text, text, text, name, text, name, text,
  text, text, cdc_position, text, bigint) IS
  'record the rule of a target once and add what it lacks: position column, tombstone column or side table, column of column positions, guard, live view; a repeat changes only what it names';

CREATE FUNCTION cdc_is_side_table(relation regclass) RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_is_side_table(regclass) IS
  'internal: does a table hold the tombstones of a target?';

CREATE FUNCTION cdc_detach(target regclass, drop_tombstones boolean DEFAULT false) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_detach(regclass, boolean) IS
  'forget the rule of a target and drop its guard; fence, floor and epoch stay with the table, and so do its tombstones unless they are to go';

-- what of a schema can be attached; under a search_path of its own
CREATE FUNCTION cdc_staged_tables(
  target_schema      name,
  staging_schema     name,
  staging_pattern    text
) RETURNS TABLE (target regclass, staging regclass, staging_name text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  target_namespace  oid := (SELECT oid FROM pg_namespace WHERE nspname = target_schema);
  staging_namespace oid := (SELECT oid FROM pg_namespace WHERE nspname = staging_schema);
BEGIN
  IF target_namespace IS NULL OR staging_namespace IS NULL THEN
    RAISE EXCEPTION 'schema "%" does not exist',
        CASE WHEN target_namespace IS NULL THEN target_schema ELSE staging_schema END
      USING ERRCODE = 'invalid_schema_name';
  END IF;
  RETURN QUERY
    SELECT t.oid::regclass, s.oid::regclass, n.name
    FROM pg_class t
    CROSS JOIN LATERAL replace(staging_pattern, '%s', t.relname::text) AS n (name)
    LEFT JOIN pg_class s ON s.relnamespace = staging_namespace AND s.relname::text = n.name
                        AND s.relkind IN ('r', 'p', 'v', 'm', 'f')
    WHERE t.relnamespace = target_namespace AND t.relkind IN ('r', 'p') AND NOT t.relispartition
      AND NOT @extschema@.cdc_is_side_table(t.oid)
      AND NOT @extschema@.cdc_is_history(t.oid)
      AND NOT EXISTS (
        SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'cdc_precedence'
        WHERE d.classid = 'pg_class'::regclass AND d.objid = t.oid
          AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e')
    ORDER BY t.relname;
END
$$;
COMMENT ON FUNCTION cdc_staged_tables(name, name, text) IS
  'internal, for cdc_attach_schema(): the tables of a schema that could be attached, each with the relation of another schema that feeds it by name';

-- The caller's search_path is not changed here: cdc_attach() reads expressions
-- under it.
CREATE FUNCTION cdc_attach_schema(
  target_schema      name,
  staging_schema     name,
  staging_pattern    text     DEFAULT '%s',
  dry_run            boolean  DEFAULT false,
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
  tombstones         text     DEFAULT NULL,
  guard              text     DEFAULT NULL,
  lineage            text     DEFAULT NULL,
  epoch              bigint   DEFAULT NULL
) RETURNS TABLE (target regclass, staging regclass, attached boolean, reason text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
#variable_conflict use_variable
DECLARE
  rel  record;
  hint pg_catalog.text;
BEGIN
  IF staging_pattern IS NULL OR pg_catalog.strpos(staging_pattern, '%s') OPERATOR(pg_catalog.=) 0 THEN
    RAISE EXCEPTION 'staging_pattern must contain %%s, which stands for the name of the target'
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A table "t" is fed by "t_events" with the pattern ''%s_events''.';
  END IF;

  FOR rel IN
    SELECT * FROM @extschema@.cdc_staged_tables(target_schema, staging_schema, staging_pattern)
  LOOP
    target := rel.target;
    staging := rel.staging;
    attached := false;
    reason := NULL;
    IF staging IS NULL THEN
      reason := pg_catalog.format('no relation %I.%I', staging_schema, rel.staging_name);
      RETURN NEXT;
      CONTINUE;
    END IF;
    BEGIN
      PERFORM @extschema@.cdc_attach(target => target, staging => staging,
          key_columns => key_columns,
          position_columns => position_columns,
          staging_position => staging_position,
          staging_filter => staging_filter,
          op_column => op_column,
          default_op => default_op,
          delete_flag_column => delete_flag_column,
          tombstone_column => tombstone_column,
          old_key_columns => old_key_columns,
          unchanged_column => unchanged_column,
          except_columns => except_columns,
          op_map => op_map,
          null_op => null_op,
          unavailable_value => unavailable_value,
          on_unavailable => on_unavailable,
          ignore_nulls => ignore_nulls,
          snapshot_position => snapshot_position,
          on_tie => on_tie,
          on_same_position => on_same_position,
          on_schema_change => on_schema_change,
          column_positions => column_positions,
          consume => consume,
          bookmark_column => bookmark_column,
          tombstones => tombstones, guard => guard, lineage => lineage, epoch => epoch);
      attached := true;
      IF dry_run THEN
        -- back to where the block began; the variable keeps its value
        RAISE EXCEPTION USING ERRCODE = 'CDC01', MESSAGE = 'dry run';
      END IF;
    EXCEPTION
      WHEN SQLSTATE 'CDC01' THEN
        reason := NULL;
      WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
        reason := pg_catalog.concat_ws('; ', SQLERRM, CASE WHEN pg_catalog.length(hint) OPERATOR(pg_catalog.>) 0 THEN hint END);
    END;
    RETURN NEXT;
  END LOOP;
END
$$;
COMMENT ON FUNCTION cdc_attach_schema(name, name, text, boolean, name[], name[], text, text, name, text, name, name,
  name[], name, name[], jsonb, text, text, text, boolean, text, text, text, text, name, text, name, text,
  text, text, bigint) IS
  'attach every table of a schema that has a staging relation: one row per table, done or why not';
