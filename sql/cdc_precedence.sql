/* cdc_precedence: the objects of the extension, in the order of their use. */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION cdc_precedence" to load this file. \quit

--------------------------------------------------------------------------
-- cdc_position: where the source's log put a change
--------------------------------------------------------------------------

CREATE TYPE cdc_position;

CREATE FUNCTION cdc_position_in(cstring) RETURNS cdc_position
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_in(cstring) IS 'I/O: text input of cdc_position';

CREATE FUNCTION cdc_position_out(cdc_position) RETURNS cstring
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_out(cdc_position) IS 'I/O: text output of cdc_position';

CREATE FUNCTION cdc_position_recv(internal) RETURNS cdc_position
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_recv(internal) IS 'I/O: binary input of cdc_position';

CREATE FUNCTION cdc_position_send(cdc_position) RETURNS bytea
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_send(cdc_position) IS 'I/O: binary output of cdc_position';

CREATE TYPE cdc_position (
	INPUT = cdc_position_in,
	OUTPUT = cdc_position_out,
	RECEIVE = cdc_position_recv,
	SEND = cdc_position_send,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = extended
);
COMMENT ON TYPE cdc_position IS 'where the source''s log put a change: [epoch@]head[:number ..], head an LSN or a number';

-- one total order: kind, epoch, then the parts; it never raises

CREATE FUNCTION cdc_position_eq(cdc_position, cdc_position) RETURNS boolean
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_eq(cdc_position, cdc_position) IS 'implementation of = operator';

CREATE FUNCTION cdc_position_ne(cdc_position, cdc_position) RETURNS boolean
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_ne(cdc_position, cdc_position) IS 'implementation of <> operator';

CREATE FUNCTION cdc_position_lt(cdc_position, cdc_position) RETURNS boolean
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_lt(cdc_position, cdc_position) IS 'implementation of < operator';

CREATE FUNCTION cdc_position_le(cdc_position, cdc_position) RETURNS boolean
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_le(cdc_position, cdc_position) IS 'implementation of <= operator';

CREATE FUNCTION cdc_position_gt(cdc_position, cdc_position) RETURNS boolean
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_gt(cdc_position, cdc_position) IS 'implementation of > operator';

CREATE FUNCTION cdc_position_ge(cdc_position, cdc_position) RETURNS boolean
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_ge(cdc_position, cdc_position) IS 'implementation of >= operator';

CREATE FUNCTION cdc_position_cmp(cdc_position, cdc_position) RETURNS int4
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_cmp(cdc_position, cdc_position) IS 'less-equal-greater of two positions';

CREATE FUNCTION cdc_position_sortsupport(internal) RETURNS void
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_sortsupport(internal) IS 'sort support of cdc_position';

CREATE FUNCTION cdc_position_hash(cdc_position) RETURNS int4
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_hash(cdc_position) IS 'hash of a position';

CREATE FUNCTION cdc_position_hash_extended(cdc_position, int8) RETURNS int8
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_hash_extended(cdc_position, int8) IS 'seeded hash of a position';

CREATE FUNCTION cdc_position_larger(cdc_position, cdc_position) RETURNS cdc_position
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_larger(cdc_position, cdc_position) IS 'the greater of two positions';

CREATE FUNCTION cdc_position_smaller(cdc_position, cdc_position) RETURNS cdc_position
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_smaller(cdc_position, cdc_position) IS 'the smaller of two positions';

CREATE OPERATOR = (
	LEFTARG = cdc_position, RIGHTARG = cdc_position, FUNCTION = cdc_position_eq,
	COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel,
	HASHES, MERGES
);
COMMENT ON OPERATOR = (cdc_position, cdc_position) IS 'is equal';

CREATE OPERATOR <> (
	LEFTARG = cdc_position, RIGHTARG = cdc_position, FUNCTION = cdc_position_ne,
	COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR <> (cdc_position, cdc_position) IS 'is not equal';

CREATE OPERATOR < (
	LEFTARG = cdc_position, RIGHTARG = cdc_position, FUNCTION = cdc_position_lt,
	COMMUTATOR = >, NEGATOR = >=, RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
COMMENT ON OPERATOR < (cdc_position, cdc_position) IS 'is older';

CREATE OPERATOR <= (
	LEFTARG = cdc_position, RIGHTARG = cdc_position, FUNCTION = cdc_position_le,
	COMMUTATOR = >=, NEGATOR = >, RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
COMMENT ON OPERATOR <= (cdc_position, cdc_position) IS 'is older or equal';

CREATE OPERATOR > (
	LEFTARG = cdc_position, RIGHTARG = cdc_position, FUNCTION = cdc_position_gt,
	COMMUTATOR = <, NEGATOR = <=, RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
COMMENT ON OPERATOR > (cdc_position, cdc_position) IS 'is newer';

CREATE OPERATOR >= (
	LEFTARG = cdc_position, RIGHTARG = cdc_position, FUNCTION = cdc_position_ge,
	COMMUTATOR = <=, NEGATOR = <, RESTRICT = scalargesel, JOIN = scalargejoinsel
);
COMMENT ON OPERATOR >= (cdc_position, cdc_position) IS 'is newer or equal';

CREATE OPERATOR CLASS cdc_position_ops DEFAULT FOR TYPE cdc_position USING btree AS
	OPERATOR 1 <,
	OPERATOR 2 <=,
	OPERATOR 3 =,
	OPERATOR 4 >=,
	OPERATOR 5 >,
	FUNCTION 1 cdc_position_cmp(cdc_position, cdc_position),
	FUNCTION 2 cdc_position_sortsupport(internal),
	FUNCTION 4 btequalimage(oid);
COMMENT ON OPERATOR CLASS cdc_position_ops USING btree IS 'total order of positions';
COMMENT ON OPERATOR FAMILY cdc_position_ops USING btree IS 'total order of positions';

CREATE OPERATOR CLASS cdc_position_ops DEFAULT FOR TYPE cdc_position USING hash AS
	OPERATOR 1 =,
	FUNCTION 1 cdc_position_hash(cdc_position),
	FUNCTION 2 cdc_position_hash_extended(cdc_position, int8);
COMMENT ON OPERATOR CLASS cdc_position_ops USING hash IS 'hash of positions';
COMMENT ON OPERATOR FAMILY cdc_position_ops USING hash IS 'hash of positions';

CREATE AGGREGATE max(cdc_position) (
	SFUNC = cdc_position_larger, STYPE = cdc_position,
	COMBINEFUNC = cdc_position_larger, SORTOP = >, PARALLEL = SAFE
);
COMMENT ON AGGREGATE max(cdc_position) IS 'greatest position';

CREATE AGGREGATE min(cdc_position) (
	SFUNC = cdc_position_smaller, STYPE = cdc_position,
	COMBINEFUNC = cdc_position_smaller, SORTOP = <, PARALLEL = SAFE
);
COMMENT ON AGGREGATE min(cdc_position) IS 'smallest position';

-- conversion to and from pg_lsn

CREATE FUNCTION cdc_position_from_lsn(pg_lsn) RETURNS cdc_position
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_from_lsn(pg_lsn) IS 'an LSN as a position';

CREATE FUNCTION cdc_position_to_lsn(cdc_position) RETURNS pg_lsn
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_to_lsn(cdc_position) IS 'the LSN of a position that is nothing else; an error otherwise';

CREATE CAST (pg_lsn AS cdc_position) WITH FUNCTION cdc_position_from_lsn(pg_lsn) AS IMPLICIT;
COMMENT ON CAST (pg_lsn AS cdc_position) IS 'an LSN as a position';

CREATE CAST (cdc_position AS pg_lsn) WITH FUNCTION cdc_position_to_lsn(cdc_position) AS ASSIGNMENT;
COMMENT ON CAST (cdc_position AS pg_lsn) IS 'the LSN of a position that is nothing else';

-- constructors and pieces

CREATE FUNCTION cdc_position(lsn pg_lsn, ordinal bigint DEFAULT 0, sub_ordinal bigint DEFAULT 0, epoch bigint DEFAULT 0) RETURNS cdc_position
	LANGUAGE C IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position(lsn pg_lsn, ordinal bigint, sub_ordinal bigint, epoch bigint) IS 'LSN-headed position; NULL without an LSN, other NULLs are 0';

CREATE FUNCTION cdc_position_from_numbers(VARIADIC parts numeric[]) RETURNS cdc_position
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_from_numbers(VARIADIC parts numeric[]) IS 'number-headed position: SCN, file and offset, sequence ..';

CREATE FUNCTION cdc_position_with_epoch(pos cdc_position, epoch bigint) RETURNS cdc_position
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_with_epoch(pos cdc_position, epoch bigint) IS 'the same position in another epoch';

CREATE FUNCTION cdc_position_lsn(pos cdc_position) RETURNS pg_lsn
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_lsn(pos cdc_position) IS 'LSN of an LSN-headed position; an error for others';

CREATE FUNCTION cdc_position_epoch(pos cdc_position) RETURNS bigint
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_epoch(pos cdc_position) IS 'epoch of a position';

CREATE FUNCTION cdc_position_part(pos cdc_position, n int) RETURNS numeric
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_part(pos cdc_position, n int) IS 'part n (1 .. 8) of a position; 0 beyond its last';

CREATE FUNCTION cdc_position_parts(pos cdc_position) RETURNS numeric[]
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_position_parts(pos cdc_position) IS 'parts of a position';

CREATE FUNCTION cdc_supersedes(incoming cdc_position, stored cdc_position) RETURNS boolean
	LANGUAGE C IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION cdc_supersedes(incoming cdc_position, stored cdc_position) IS 'is incoming a real position and newer than stored? never NULL';

--------------------------------------------------------------------------
-- latest_by_position: the value at the greatest position
--------------------------------------------------------------------------

CREATE FUNCTION latest_by_position_trans(internal, anyelement, cdc_position) RETURNS internal
	LANGUAGE C IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION latest_by_position_trans(internal, anyelement, cdc_position) IS 'aggregate transition function';

CREATE FUNCTION latest_by_position_combine(internal, internal) RETURNS internal
	LANGUAGE C IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION latest_by_position_combine(internal, internal) IS 'aggregate combine function';

CREATE FUNCTION latest_by_position_serial(internal) RETURNS bytea
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION latest_by_position_serial(internal) IS 'aggregate serialization function';

CREATE FUNCTION latest_by_position_deserial(bytea, internal) RETURNS internal
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION latest_by_position_deserial(bytea, internal) IS 'aggregate deserialization function';

CREATE FUNCTION latest_by_position_final(internal, anyelement, cdc_position) RETURNS anyelement
	LANGUAGE C IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION latest_by_position_final(internal, anyelement, cdc_position) IS 'aggregate final function';

-- SSPACE: the state and a value of some hundred bytes
CREATE AGGREGATE latest_by_position(value anyelement, pos cdc_position) (
	SFUNC = latest_by_position_trans,
	STYPE = internal,
	SSPACE = 256,
	FINALFUNC = latest_by_position_final,
	FINALFUNC_EXTRA,
	FINALFUNC_MODIFY = READ_ONLY,
	COMBINEFUNC = latest_by_position_combine,
	SERIALFUNC = latest_by_position_serial,
	DESERIALFUNC = latest_by_position_deserial,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE latest_by_position(anyelement, cdc_position) IS 'the value at the greatest position; a NULL value can win, a row without a position never beats a real one';
