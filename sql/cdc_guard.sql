--------------------------------------------------------------------------
-- the guard trigger; tables that are only added to
--------------------------------------------------------------------------

CREATE FUNCTION cdc_guard() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION cdc_guard() IS
  'trigger of an attached target: refuses changes that would put an older version over a newer one, change a key or forget a delete; its argument is ''skip'' or ''error''';

CREATE FUNCTION cdc_append_only() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION cdc_append_only() IS
  'trigger of an append-only table: refuses UPDATE, DELETE and TRUNCATE to everybody, unless an owner sets cdc_precedence.bypass_guard';

CREATE FUNCTION cdc_make_append_only(relation regclass, undo boolean DEFAULT false) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION cdc_make_append_only(regclass, boolean) IS
  'refuse UPDATE, DELETE and TRUNCATE of a table, its partitions and its children to everybody, the owner included; a repeat adds what is missing, undo takes it back';
