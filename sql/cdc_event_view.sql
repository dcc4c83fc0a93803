
--------------------------------------------------------------------------
-- cdc_event_view: typed views over landed raw events
--------------------------------------------------------------------------

CREATE FUNCTION cdc_event_view(
	view_name text,
	target regclass,
	raw regclass,
	payload_column name,
	format text,
	source_table text DEFAULT NULL,
	op_name name DEFAULT 'op',
	position_name name DEFAULT 'source_position',
	decimals text DEFAULT 'precise',
	times text DEFAULT 'adaptive',
	binaries text DEFAULT 'base64',
	commit_lsn_column name DEFAULT NULL
) RETURNS regclass
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_event_view(text, regclass, regclass, name, text, text, name, name, text, text, text, name) IS 'make a typed view over a landing table of raw events, for a target: its columns, __old_<key>, op, position, __unchanged, __absent';

-- What such views call.  A filter is cheap and comes before what it spares.

CREATE FUNCTION cdc_event_view_is_of(payload "any", modes text, source_table text[]) RETURNS boolean
	LANGUAGE C STABLE PARALLEL SAFE COST 5 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_event_view_is_of("any", text, text[]) IS 'internal, called by event views: is a raw event of that table?';

CREATE FUNCTION cdc_event_view_op(payload "any", modes text) RETURNS text
	LANGUAGE C STABLE PARALLEL SAFE COST 10 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_event_view_op("any", text) IS 'internal, called by event views: the op of a raw event';

CREATE FUNCTION cdc_event_view_position(payload "any", modes text) RETURNS cdc_position
	LANGUAGE C STABLE PARALLEL SAFE COST 20 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_event_view_position("any", text) IS 'internal, called by event views: the position of a raw event';

CREATE FUNCTION cdc_event_view_position(payload "any", modes text, commit_lsn pg_lsn) RETURNS cdc_position
	LANGUAGE C STABLE PARALLEL SAFE COST 20 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_event_view_position("any", text, pg_lsn) IS 'internal, called by event views: the position of a raw event, its commit first';

CREATE FUNCTION cdc_event_view_value(payload "any", modes text, role text, column_name text, type_modifier int, type anyelement) RETURNS anyelement
	LANGUAGE C STABLE PARALLEL SAFE COST 20 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_event_view_value("any", text, text, text, int, anyelement) IS 'internal, called by event views: the value of a column in a raw event';

CREATE FUNCTION cdc_event_view_domain_value(payload "any", modes text, role text, column_name text, type_modifier int, array_type anyarray) RETURNS anyelement
	LANGUAGE C STABLE PARALLEL SAFE COST 20 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_event_view_domain_value("any", text, text, text, int, anyarray) IS 'internal, called by event views: the value of a column whose type is a domain';

CREATE FUNCTION cdc_event_view_unchanged(payload "any", modes text, column_names text[], types regtype[]) RETURNS text[]
	LANGUAGE C STABLE PARALLEL SAFE COST 20 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_event_view_unchanged("any", text, text[], regtype[]) IS 'internal, called by event views: columns that a raw event does not carry';

CREATE FUNCTION cdc_event_view_absent(payload "any", modes text, column_names text[], types regtype[]) RETURNS text[]
	LANGUAGE C STABLE PARALLEL SAFE COST 20 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_event_view_absent("any", text, text[], regtype[]) IS 'internal, called by event views: columns that the source of a raw event does not have';
