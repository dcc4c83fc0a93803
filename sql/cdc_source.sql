
--------------------------------------------------------------------------
-- positions out of what sources call their coordinates
--------------------------------------------------------------------------

CREATE FUNCTION cdc_position_from_debezium(source jsonb) RETURNS cdc_position
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_from_debezium(source jsonb) IS 'position from the source block of a Debezium event, by its connector; NULL for a snapshot row without coordinates';

CREATE FUNCTION cdc_position_from_binlog(file text, pos numeric, row_no numeric DEFAULT 0) RETURNS cdc_position
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_from_binlog(file text, pos numeric, row_no numeric) IS 'position from binlog coordinates: number at the end of the file''s name, offset, row';

-- not strict: only the first argument must be there
CREATE FUNCTION cdc_position_from_sqlserver(commit_lsn text, change_lsn text DEFAULT NULL, serial numeric DEFAULT 0) RETURNS cdc_position
	LANGUAGE C IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_from_sqlserver(commit_lsn text, change_lsn text, serial numeric) IS 'position from LSNs of SQL Server, a:b:c or 0x..; NULL without a commit LSN, other NULLs are 0';

CREATE FUNCTION cdc_position_from_oracle(scn numeric, rs_id text DEFAULT NULL, ssn numeric DEFAULT 0) RETURNS cdc_position
	LANGUAGE C IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_from_oracle(scn numeric, rs_id text, ssn numeric) IS 'position from SCN, redo record and row of Oracle; NULL without an SCN, other NULLs are 0';

CREATE FUNCTION cdc_position_from_change_sequence_number(csn text, lsn_headed boolean DEFAULT false) RETURNS cdc_position
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_from_change_sequence_number(csn text, lsn_headed boolean) IS 'position from a change sequence number of BigQuery; lsn_headed: its first section is an LSN';

CREATE FUNCTION cdc_position_to_change_sequence_number(pos cdc_position) RETURNS text
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_to_change_sequence_number(pos cdc_position) IS 'position as a change sequence number of BigQuery; an error for an epoch or more than four parts';

CREATE FUNCTION cdc_position_from_rivet(pos jsonb, seq numeric DEFAULT 0) RETURNS cdc_position
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_from_rivet(pos jsonb, seq numeric) IS 'position from __pos and __seq of a rivet change';
