--------------------------------------------------------------------------
-- the guard trigger
--------------------------------------------------------------------------

CREATE FUNCTION cdc_guard() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION cdc_guard() IS
  'trigger of an attached target: refuses changes that would put an older version over a newer one, change a key or forget a delete; its argument is ''skip'' or ''error''';
