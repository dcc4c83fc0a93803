
--------------------------------------------------------------------------
-- positions out of what sources call their coordinates
--------------------------------------------------------------------------

CREATE FUNCTION cdc_position_from_debezium(source jsonb) RETURNS cdc_position
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_from_debezium(source jsonb) IS 'position from the source block of a Debezium event, by its connector; NULL for a snapshot row without coordinates';
