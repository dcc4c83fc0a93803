-- xml, or on a server without libxml what stands for it
DO $$
BEGIN
	PERFORM '<a/>'::xml;
	CREATE DOMAIN markup AS xml;
EXCEPTION WHEN feature_not_supported THEN
	CREATE DOMAIN markup AS text;
END $$;
/*
 * Raw events made in SQL from typed rows, as the connectors write them: what a
 * view decodes is compared with the rows that they were made of.
 */

-- As Jackson writes bytes: without line breaks.
CREATE FUNCTION base64(b bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT translate(encode(b, 'base64'), E'\n', '')
$$;

-- The bytes of v * 10 ^ scale, big-endian in two's complement, as few as hold it.
CREATE FUNCTION unscaled(v numeric, scale int) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
	u numeric := trunc(v * ('1e' || scale)::numeric);
	n int := 1;
	b bytea := '';
BEGIN
	WHILE u < -trunc(2::numeric ^ (8 * n - 1)) OR u >= trunc(2::numeric ^ (8 * n - 1)) LOOP
		n := n + 1;
	END LOOP;
	IF u < 0 THEN
		u := u + trunc(2::numeric ^ (8 * n));
	END IF;
	FOR i IN 1 .. n LOOP
		b := set_byte('\x00'::bytea, 0, mod(u, 256)::int) || b;
		u := div(u, 256);
	END LOOP;
	RETURN base64(b);
END $$;

-- Bits as bytes, the rightmost bit first.
CREATE FUNCTION bits64(b varbit) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT base64(string_agg(set_byte('\x00'::bytea, 0, byte), '' ORDER BY i))
	FROM (SELECT i, coalesce(sum((substring(b::text, length(b) - i * 8 - k, 1) = '1')::int << k), 0)::int AS byte
		FROM generate_series(0, (length(b) - 1) / 8) i, generate_series(0, 7) k WHERE i * 8 + k < length(b) GROUP BY i) x
$$;

CREATE FUNCTION micros(t timestamp) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT (extract(epoch FROM t) * 1000000)::bigint
$$;
CREATE FUNCTION micros(t time) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT (extract(epoch FROM t) * 1000000)::bigint
$$;

-- ISO 8601 as java.time writes it: the year 0 is 1 BC.
CREATE FUNCTION iso(d date) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT CASE WHEN extract(year FROM d) > 9999 THEN '+' WHEN extract(year FROM d) < -1 THEN '-' ELSE '' END
		|| lpad(abs(extract(year FROM d) + (extract(year FROM d) < 0)::int)::text, greatest(4, length(abs(extract(year FROM d))::text)), '0')
		|| to_char(d, '-MM-DD')
$$;
CREATE FUNCTION iso(t timestamp) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
	SELECT iso(t::date) || 'T' || t::time || 'Z'
$$;

CREATE FUNCTION special(v double precision) RETURNS jsonb LANGUAGE sql AS $$
	SELECT CASE WHEN v::text IN ('NaN', 'Infinity', '-Infinity') THEN to_jsonb(v::text) ELSE to_jsonb(v) END
$$;
-- A decimal of a fixed scale, and one of a scale of its own.
CREATE FUNCTION as_decimal(v numeric, scale int, mode text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT CASE mode WHEN 'precise' THEN to_jsonb(unscaled(v, scale)) WHEN 'string' THEN to_jsonb(v::text) ELSE to_jsonb(v) END
$$;
CREATE FUNCTION as_variable(v numeric, mode text) RETURNS jsonb LANGUAGE sql STRICT AS $$
	SELECT CASE mode WHEN 'precise' THEN jsonb_build_object('scale', scale(v), 'value', unscaled(v, scale(v))) ELSE as_decimal(v, 0, mode) END
$$;
CREATE FUNCTION bin(b bytea, mode text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT to_jsonb(CASE mode WHEN 'hex' THEN encode(b, 'hex') ELSE base64(b) END)
$$;
-- digits: the precision of the column
CREATE FUNCTION stamp(t timestamp, digits int, mode text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT CASE WHEN mode = 'iso' THEN to_jsonb(iso(t)) WHEN mode = 'connect' OR digits <= 3 THEN to_jsonb(floor(micros(t) / 1000.0)::bigint) ELSE to_jsonb(micros(t)) END
$$;
CREATE FUNCTION clock(t time, digits int, mode text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT CASE WHEN mode = 'iso' THEN to_jsonb(t::text || 'Z') WHEN mode = 'connect' OR digits <= 3 THEN to_jsonb(micros(t) / 1000) ELSE to_jsonb(micros(t)) END
$$;
CREATE FUNCTION day(d date, mode text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT CASE mode WHEN 'iso' THEN to_jsonb(iso(d) || 'Z') ELSE to_jsonb(d - '1970-01-01'::date) END
$$;
CREATE FUNCTION zoned(t timestamptz) RETURNS jsonb LANGUAGE sql AS $$
	SELECT to_jsonb(iso(t AT TIME ZONE 'UTC'))
$$;
CREATE FUNCTION each(a anyarray, element text, VARIADIC args text[] DEFAULT '{}') RETURNS jsonb LANGUAGE plpgsql STRICT AS $$
DECLARE
	result jsonb;
BEGIN
	EXECUTE format('SELECT coalesce(jsonb_agg(%s ORDER BY i), ''[]'') FROM unnest($1) WITH ORDINALITY u(e, i)', format(element, VARIADIC args)) USING a INTO result;
	RETURN result;
END $$;

-- What Debezium wraps a row in.
CREATE FUNCTION envelope(op text, before jsonb, after jsonb, lsn bigint) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('op', op, 'before', before, 'after', after, 'ts_ms', 0,
		'source', jsonb_build_object('connector', 'postgresql', 'lsn', lsn, 'db', 'shop', 'schema', 'public', 'table', 'source'))
$$;
