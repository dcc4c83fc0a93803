-- Event views: every type in every mode, against the rows that the events were
-- made of.
\getenv testdir PG_ABS_SRCDIR
\set ECHO none
CREATE SCHEMA event_view_types;
SET search_path = event_view_types, public;
SET client_min_messages = warning;
\i :testdir/include/apply_helpers.sql
\i :testdir/include/event_view.sql
\set ECHO all
\pset format unaligned
\pset tuples_only on
SET timezone = 'Asia/Kolkata';
SET datestyle = 'SQL, DMY';
SET intervalstyle = 'iso_8601';

CREATE TYPE mood AS ENUM ('sad', 'so so', 'ok');
CREATE DOMAIN posint AS int NOT NULL CHECK (value > 0);
CREATE DOMAIN price AS numeric(9, 3) CHECK (value < 1000000);
CREATE DOMAIN words AS text[];
CREATE TABLE source (
	id bigint PRIMARY KEY, small smallint, whole int, flag boolean,
	fixed numeric(9, 3), thousands numeric(6, -3), free numeric, cash price, money_ money, unsigned_ numeric(20, 0),
	single real, double_ double precision,
	txt text, vc varchar(5), ch char(4), nm name, feeling mood, uid uuid, net inet, span int4range,
	day date, at timestamp, at_millis timestamp(3), at_seconds timestamp(0), zoned timestamptz, zoned_millis timestamptz(3),
	clock time, clock_millis time(3), clock_zoned timetz, lasts interval,
	bin bytea, bits bit(11), vbits varbit, one_bit bit(1),
	doc json, docb jsonb, markup markup, spot point,
	texts text[], ints int[], bigs bigint[], floats double precision[], bools boolean[], decs numeric(9, 3)[], days date[], uids uuid[], docs jsonb[], bins bytea[], moods mood[],
	pos posint, word_list words, "Odd ""name'" text);

INSERT INTO source VALUES
	(1, 7, 8, true, 12.345, 12000, 12.345, 1.5, '12.34', 18446744073709551615, 1.5, 2.25,
	 'text', 'abc', 'ab', 'nm', 'so so', '0189a5e2-7c1b-7d3e-9f00-0123456789ab', '10.0.0.1/8', '[1,5)',
	 '2024-06-02', '2024-06-02 05:00:05.25', '2024-06-02 05:00:05.25', '2024-06-02 05:00:05', '2024-06-02 05:00:05.25+00', '2024-06-02 05:00:05.25+00',
	 '05:00:05.25', '05:00:05.25', '05:00:05.25+00', '1 hour 0.5 seconds',
	 '\x00ff2a', '10100000001', '101', '1',
	 '{"a": [1, 2]}', '{"b": "c\"d"}', '<a>1</a>', '(1.5,-2)',
	 '{x,NULL,"y\"z\\",""}', '{1,NULL,-3}', '{9007199254740993}', '{1.5,NaN,Infinity,NULL}', '{t,f,NULL}', '{12.345,-0.001,NULL}', '{1969-12-31,NULL}',
	 '{0189a5e2-7c1b-7d3e-9f00-0123456789ab}', ARRAY['{"k": 1}', '"s"', '7']::jsonb[], '{"\\x00ff",NULL}', '{sad,"so so"}', 5, '{a,b}', 'odd'),
	(2, -32768, -2147483648, false, -0.001, -999000, -1e30, -999999.999, '-0.01', 0, -1.5e30, '-Infinity',
	 '', '', '', '', 'sad', '00000000-0000-0000-0000-000000000000', '::1', 'empty',
	 '1969-12-31', '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59.999', '1969-12-31 23:59:59', '1969-12-31 23:59:59.999999+00', '1969-12-31 23:59:59.999+00',
	 '00:00', '00:00', '00:00+00', '-1 hour',
	 '', '00000000000', '0', '0', 'null', 'null', '<b/>', '(0,0)',
	 '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', 2147483647, '{}', ''),
	(3, 32767, 2147483647, NULL, 999999.999, 0, 123456789012345678901234567890.123456789, 0, '0', 128, 0, 'NaN',
	 E'tab\t"quote" \\ \u00e9\U0001F600', 'äöü', 'abcd', 'x', 'ok', NULL, '192.168.0.1', '[,)',
	 '0044-03-15 BC', '0001-12-31 23:00 BC', '9999-12-31 23:59:59.999', '12000-01-01', '0001-01-01 00:00:00+00', '1900-01-01 00:00:00.001+00',
	 '23:59:59.999999', '23:59:59.999', '23:59:59.999999+00', '36:00',
	 '\xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff', '11111111111', '11111111111111111', '1',
	 '"a string"', '"a string"', NULL, '(1e300,-1e-300)',
	 ARRAY['__debezium_unavailable_value', 'and another'], '{0}', '{-9223372036854775808,9223372036854775807}', '{-0.1}', '{t}', '{0}', '{0044-03-15 BC}', '{NULL}', NULL, '{""}', NULL, 1, NULL, 'x');
INSERT INTO source (id, pos) VALUES (4, 1);    -- all the others NULL
UPDATE source SET vbits = NULL WHERE id = 2;   -- leading zeros of a varbit are not sent

CREATE TABLE landing (payload jsonb, as_json json, as_text text);
CREATE FUNCTION image(r source, decimals text, times text, binaries text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('id', r.id, 'small', r.small, 'whole', r.whole, 'flag', r.flag,
		'fixed', as_decimal(r.fixed, 3, decimals), 'thousands', as_decimal(r.thousands, -3, decimals), 'free', as_variable(r.free, decimals), 'cash', as_decimal(r.cash, 3, decimals),
		'money_', as_decimal(r.money_::numeric, 2, decimals), 'unsigned_', as_decimal(r.unsigned_, 0, decimals),
		'single', r.single, 'double_', special(r.double_), 'txt', r.txt, 'vc', r.vc, 'ch', r.ch, 'nm', r.nm, 'feeling', r.feeling, 'uid', r.uid, 'net', r.net, 'span', r.span)
	|| jsonb_build_object('day', day(r.day, times), 'at', stamp(r.at, 6, times), 'at_millis', stamp(r.at_millis, 3, times), 'at_seconds', stamp(r.at_seconds, 0, times),
		'zoned', zoned(r.zoned), 'zoned_millis', zoned(r.zoned_millis), 'clock', clock(r.clock, 6, times), 'clock_millis', clock(r.clock_millis, 3, times),
		'clock_zoned', r.clock_zoned::time || 'Z', 'lasts', (extract(epoch FROM r.lasts) * 1000000)::bigint,
		'bin', bin(r.bin, binaries), 'bits', bits64(r.bits), 'vbits', bits64(r.vbits), 'one_bit', r.one_bit = '1',
		'doc', r.doc::text, 'docb', r.docb::text, 'markup', r.markup::text, 'spot', CASE WHEN r.spot IS NOT NULL THEN jsonb_build_object('x', r.spot[0], 'y', r.spot[1], 'wkb', 'AQ==', 'srid', NULL) END)
	|| jsonb_build_object('texts', to_jsonb(r.texts), 'ints', to_jsonb(r.ints), 'bigs', to_jsonb(r.bigs), 'floats', each(r.floats, 'special(e)'), 'bools', to_jsonb(r.bools),
		'decs', each(r.decs, 'as_decimal(e, 3, %L)', decimals), 'days', each(r.days, 'day(e, %L)', times), 'uids', to_jsonb(r.uids), 'docs', each(r.docs, 'e::text'),
		'bins', each(r.bins, 'bin(e, %L)', binaries), 'moods', to_jsonb(r.moods), 'pos', r.pos, 'word_list', r.word_list, 'Odd "name''', r."Odd ""name'")
$$;
-- What a view shows, and the same of the rows themselves.
CREATE FUNCTION shown(view text, adjusted text DEFAULT 'source') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	cols text; got text; want text; bad text;
BEGIN
	SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO cols FROM pg_attribute WHERE attrelid = 'source'::regclass AND attnum > 0;
	got := rows_of(format('SELECT %s FROM %s', cols, view));
	want := rows_of(format('SELECT %s FROM %s', cols, adjusted));
	IF got = want THEN
		RETURN 'ok | ' || view || ': ' || (SELECT count(*) FROM source) || ' rows as in the source';
	END IF;
	EXECUTE (SELECT format('SELECT string_agg(x, E''\n'') FROM (%s) y(x)', string_agg(format(
		'SELECT %L || s.id || '': '' || coalesce(v.%I::text, ''NULL'') || '' instead of '' || coalesce(s.%2$I::text, ''NULL'') FROM %s s LEFT JOIN %s v USING (id) WHERE v.%2$I::text IS DISTINCT FROM s.%2$I::text',
		attname || ' of ', attname, adjusted, view), ' UNION ALL '))
		FROM pg_attribute WHERE attrelid = 'source'::regclass AND attnum > 0) INTO bad;
	RETURN 'NOT OK | ' || view || E'\n' || coalesce(bad, got || E'\n' || want);
END $$;

--
-- The envelope without a schema: all modes
--
CREATE TABLE target (LIKE source INCLUDING ALL);
SELECT expect('the view', cdc_event_view(d || '_' || t || '_' || b, 'target', 'landing', 'payload', 'debezium', decimals => d, times => t, binaries => b)::text, d || '_' || t || '_' || b)
FROM unnest('{precise,string,double}'::text[]) d, unnest('{adaptive,connect,iso}'::text[]) t, unnest('{base64,hex}'::text[]) b WHERE (t = 'adaptive') OR (d = 'string' AND b = 'hex');
-- the target's columns, by name and type
SELECT expect('names and types', string_agg(attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attcollation::regcollation, ', ' ORDER BY attnum),
	(SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attcollation::regcollation, ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'target'::regclass AND attnum > 0)
	|| ', __old_id bigint -, op text "default", source_position cdc_position -, __unchanged text[] "default", __absent text[] "default"')
FROM pg_attribute WHERE attrelid = 'precise_adaptive_base64'::regclass AND attnum > 0;

-- a decimal as double, and what milliseconds cannot hold, as they arrive
CREATE VIEW less_exact AS SELECT (jsonb_populate_record(s, jsonb_strip_nulls(jsonb_build_object('at', date_trunc('milliseconds', s.at), 'clock', date_trunc('milliseconds', s.clock::interval)::time)))).* FROM source s;
\set QUIET on
CREATE FUNCTION in_mode(d text, t text, b text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE landing;
	INSERT INTO landing SELECT envelope('c', NULL, image(s, d, t, b), 100 + id) FROM source s;
	UPDATE landing SET as_json = payload::text::json, as_text = payload::text;
	RETURN shown(d || '_' || t || '_' || b, CASE t WHEN 'connect' THEN 'less_exact' ELSE 'source' END);
END $$;
SELECT in_mode('precise', 'adaptive', 'base64');
SELECT in_mode('precise', 'adaptive', 'hex');
SELECT in_mode('string', 'adaptive', 'base64');
SELECT in_mode('string', 'adaptive', 'hex');
SELECT in_mode('string', 'iso', 'hex');
SELECT in_mode('string', 'connect', 'hex');
SELECT in_mode('double', 'adaptive', 'base64');
SELECT in_mode('double', 'adaptive', 'hex');
-- the payload as json and as text
SELECT cdc_event_view('of_json', 'target', 'landing', 'as_json', 'debezium', decimals => 'double', binaries => 'hex');
SELECT cdc_event_view('of_text', 'target', 'landing', 'as_text', 'debezium', decimals => 'double', binaries => 'hex');
SELECT shown('of_json');
SELECT shown('of_text');
-- the same under other settings of the session
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
SET timezone = 'UTC';
SELECT shown('of_text');

--
-- What the contract of the encodings says, as literals
--
CREATE TABLE vector (id int PRIMARY KEY, a numeric(9, 3), b numeric(9, 2), c numeric, d date, e timestamp, f bytea, g numeric(5, 2), h bigint, i bit(12));
SELECT cdc_event_view('vectors', 'vector', 'landing', 'payload', 'debezium');
TRUNCATE landing;
INSERT INTO landing VALUES (envelope('c', NULL, '{"id": 1, "a": "MDk=", "b": "/2A=", "c": {"scale": 3, "value": "MDk="}, "d": 19876, "e": 1717304405250000, "f": "AP8q", "g": "gA==", "h": "AP8=", "i": "AQg="}', 1));
SELECT expect('vectors', rows_of('SELECT id, a, b, c, d, e, f, g, h, i FROM vectors'), '(1,12.345,-1.60,12.345,2024-06-02,"2024-06-02 05:00:05.25","\\x00ff2a",-1.28,255,100000000001)');

--
-- A schema block is believed, whatever the modes say
--
CREATE TABLE meant (id int PRIMARY KEY, millis timestamp, micros timestamp(0), nanos timestamp, zoned timestamptz, day date, time_millis time, time_micros time(0), time_nanos time,
	millis_connect timestamp, day_connect date, time_connect time, dec_5 numeric, dec_0 numeric, decs numeric[], free numeric, bits varbit, bytes bytea, hex bytea, string_dec numeric, plain bigint, as_text text, day_text text, dec_text varchar(10), raw_micros bigint, lasts interval, stamps timestamp[], iso_day date, iso_time time, iso_stamp timestamp);
INSERT INTO meant VALUES (1, '2024-06-02 05:00:05.25', '2024-06-02 05:00:05', '2024-06-02 05:00:05.123457', '2024-06-02 05:00:05.25+00', '1969-12-31', '05:00:05.25', '05:00:05', '05:00:05.123457',
	'1969-12-31 23:59:59.999', '2024-06-02', '00:00', 0.12345, -128, '{1.5,NULL}', 12.345, '101', '\x00ff2a', '\x00ff2a', 1234, 1717304405250000, '2024-06-02 05:00:05.25', '2024-06-02', '12.345', 1717304405250000, '1.5 s', '{2024-06-02 05:00:05.25,NULL}', '2024-06-02', '05:00:05.25', '2024-06-02 05:00:05.25');
CREATE FUNCTION field(name text, type text, meaning text DEFAULT NULL, parameters jsonb DEFAULT NULL, items jsonb DEFAULT NULL) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_strip_nulls(jsonb_build_object('field', name, 'type', type, 'optional', true, 'name', meaning, 'version', 1, 'parameters', parameters, 'items', items))
$$;
CREATE FUNCTION block(fields jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('type', 'struct', 'optional', false, 'name', 'shop.public.meant.Envelope', 'fields', jsonb_build_array(
		jsonb_build_object('type', 'struct', 'optional', true, 'field', 'before', 'fields', fields),
		jsonb_build_object('type', 'struct', 'optional', true, 'field', 'after', 'fields', fields),
		jsonb_build_object('type', 'struct', 'optional', false, 'field', 'source', 'fields', '[]'::jsonb), field('op', 'string')))
$$;
CREATE TABLE fields AS SELECT jsonb_build_array(field('id', 'int32'),
	field('millis', 'int64', 'io.debezium.time.Timestamp'), field('micros', 'int64', 'io.debezium.time.MicroTimestamp'), field('nanos', 'int64', 'io.debezium.time.NanoTimestamp'),
	field('zoned', 'string', 'io.debezium.time.ZonedTimestamp'), field('day', 'int32', 'io.debezium.time.Date'),
	field('time_millis', 'int32', 'io.debezium.time.Time'), field('time_micros', 'int64', 'io.debezium.time.MicroTime'), field('time_nanos', 'int64', 'io.debezium.time.NanoTime'),
	field('millis_connect', 'int64', 'org.apache.kafka.connect.data.Timestamp'), field('day_connect', 'int32', 'org.apache.kafka.connect.data.Date'), field('time_connect', 'int32', 'org.apache.kafka.connect.data.Time'),
	field('dec_5', 'bytes', 'org.apache.kafka.connect.data.Decimal', '{"scale": "5", "connect.decimal.precision": "9"}'), field('dec_0', 'bytes', 'org.apache.kafka.connect.data.Decimal', '{"scale": "0"}'),
	field('decs', 'array', NULL, NULL, field(NULL, 'bytes', 'org.apache.kafka.connect.data.Decimal', '{"scale": "1"}')), field('free', 'struct', 'io.debezium.data.VariableScaleDecimal'),
	field('bits', 'bytes', 'io.debezium.data.Bits', '{"length": "8"}'), field('bytes', 'bytes'), field('hex', 'string'), field('string_dec', 'string'), field('plain', 'int64'),
	field('as_text', 'int64', 'io.debezium.time.MicroTimestamp'), field('day_text', 'int32', 'io.debezium.time.Date'), field('dec_text', 'bytes', 'org.apache.kafka.connect.data.Decimal', '{"scale": "3"}'),
	field('raw_micros', 'int64', 'io.debezium.time.MicroTimestamp'), field('lasts', 'int64', 'io.debezium.time.NanoDuration'),
	field('stamps', 'array', NULL, NULL, field(NULL, 'int64', 'io.debezium.time.Timestamp')),
	field('iso_day', 'string', 'io.debezium.time.IsoDate'), field('iso_time', 'string', 'io.debezium.time.IsoTime'), field('iso_stamp', 'string', 'io.debezium.time.IsoTimestamp')) AS f;
CREATE TABLE after AS SELECT '{"id": 1, "millis": 1717304405250, "micros": 1717304405250000, "nanos": 1717304405123456789, "zoned": "2024-06-02T07:00:05.25+02:00", "day": -1,
	"time_millis": 18005250, "time_micros": 18005250000, "time_nanos": 18005123456789, "millis_connect": -1, "day_connect": 19876, "time_connect": 0, "dec_5": "MDk=", "dec_0": "gA==",
	"decs": ["Dw==", null], "free": {"scale": 3, "value": "MDk="}, "bits": "BQ==", "bytes": "AP8q", "hex": "00ff2a", "string_dec": "1234", "plain": 1717304405250000,
	"as_text": 1717304405250000, "day_text": 19876, "dec_text": "MDk=", "raw_micros": 1717304405250000, "lasts": 1500000000, "stamps": [1717304405250, null],
	"iso_day": "2024-06-02Z", "iso_time": "05:00:05.25Z", "iso_stamp": "2024-06-02T05:00:05.25Z"}'::jsonb AS a;
SELECT cdc_event_view('meant_events', 'meant', 'landing', 'payload', 'debezium', decimals => 'double', times => 'iso', binaries => 'hex');
TRUNCATE landing;
INSERT INTO landing SELECT jsonb_build_object('schema', block(f), 'payload', envelope('c', NULL, a, 1)) FROM fields, after;
CREATE FUNCTION as_meant(view text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	cols text;
BEGIN
	SELECT string_agg(attname, ', ' ORDER BY attnum) INTO cols FROM pg_attribute WHERE attrelid = 'meant'::regclass AND attnum > 0;
	RETURN expect(view, rows_of(format('SELECT %s FROM %I', cols, view)), rows_of('meant'));
END $$;
SELECT as_meant('meant_events');
-- fields in another order in the next event, with and without the old row, and then no schema
INSERT INTO landing SELECT jsonb_build_object('schema', block((SELECT jsonb_agg(e ORDER BY e->>'field') FROM jsonb_array_elements(f) e)), 'payload', envelope('u', a, a || '{"id": 2}', 2)) FROM fields, after;
INSERT INTO landing SELECT jsonb_build_object('schema', block(f), 'payload', envelope('u', a || '{"id": 2}', a || '{"id": 3}', 3)) FROM fields, after;
INSERT INTO meant SELECT (jsonb_populate_record(m, jsonb_build_object('id', i))).* FROM meant m, generate_series(2, 3) i;
SELECT as_meant('meant_events');
SELECT expect('old keys', rows_of('SELECT id, __old_id FROM meant_events'), '(1,) (2,1) (3,2)');
INSERT INTO landing SELECT jsonb_build_object('schema', NULL, 'payload', envelope('d', '{"id": 4, "millis": "2024-06-02T00:00:00Z"}', NULL, 4));
SELECT expect('a schema that is null', rows_of('SELECT id, millis FROM meant_events WHERE op = ''d'''), '(4,"2024-06-02 00:00:00")');

--
-- Infinity, as the connector has it
--
CREATE TABLE endless (id int PRIMARY KEY, d date, ts timestamp, ms timestamp(3), tz timestamptz);
SELECT cdc_event_view('endless_events', 'endless', 'landing', 'payload', 'debezium');
TRUNCATE landing;
INSERT INTO landing VALUES (envelope('c', NULL, '{"id": 1, "d": -2147472692, "ts": 9223372036825200000, "ms": 9223372036825200, "tz": "+292278994-08-16T23:00:00Z"}', 1)),
	(envelope('c', NULL, '{"id": 2, "d": -2147472691, "ts": -9223372036832400000, "ms": -9223372036832400, "tz": "-292275055-05-16T23:00:00Z"}', 1)),
	(envelope('c', NULL, '{"id": 3, "d": "-5877611-06-21Z", "ts": "+294247-01-10T04:00:25.2Z", "ms": 9223372036825200000, "tz": "infinity"}', 1)),
	(envelope('c', NULL, '{"id": 4, "d": "-5877611-06-22Z", "ts": "-290308-12-21T19:59:27.6Z", "ms": -9223372036832400000, "tz": "-infinity"}', 1));
SELECT expect('infinity', rows_of('SELECT id, d, ts, ms, tz FROM endless_events'), '(1,infinity,infinity,infinity,infinity) (2,-infinity,-infinity,-infinity,-infinity) (3,infinity,infinity,infinity,infinity) (4,-infinity,-infinity,-infinity,-infinity)');

--
-- Placeholders: what an event does not carry
--
CREATE TABLE gap (id int PRIMARY KEY, t text, b bytea, h bytea, j jsonb, js json, x markup, ta text[], ba bytea[], ua uuid[], ia int[], fa float8[], na numeric(5, 2)[], va numeric[], boa bool[], ja jsonb[], p text, absent int);
SELECT cdc_event_view('gaps', 'gap', 'landing', 'payload', 'debezium');
CREATE TABLE placeholder AS SELECT p, (SELECT jsonb_agg(get_byte(p::bytea, i) ORDER BY i) FROM generate_series(0, length(p) - 1) i) AS codes FROM (VALUES ('__debezium_unavailable_value')) v(p);
TRUNCATE landing;
INSERT INTO landing SELECT envelope('u', NULL, jsonb_build_object('id', 1, 't', p, 'b', base64(p::bytea), 'h', encode(p::bytea, 'hex'), 'j', p, 'js', p, 'x', p, 'ta', jsonb_build_array(p), 'ba', jsonb_build_array(base64(p::bytea)),
	'ua', jsonb_build_array(overlay(overlay(md5(p) PLACING '3' FROM 13) PLACING to_hex(('x' || substr(md5(p), 17, 1))::bit(4)::int & 3 | 8) FROM 17)::uuid), 'ia', codes, 'fa', codes,
	'na', (SELECT jsonb_agg(base64(set_byte('\x00'::bytea, 0, c::int))) FROM jsonb_array_elements_text(codes) c), 'va', (SELECT jsonb_agg(jsonb_build_object('scale', 0, 'value', base64(set_byte('\x00'::bytea, 0, c::int)))) FROM jsonb_array_elements_text(codes) c),
	'boa', (SELECT jsonb_agg(true) FROM jsonb_array_elements(codes)), 'ja', jsonb_build_array(p), 'p', p || ' and more'), 1) FROM placeholder;
SELECT expect('unchanged', __unchanged::text, '{t,b,h,j,js,x,ta,ba,ua,ia,fa,na,va,boa,ja,absent}') FROM gaps;
SELECT expect('and NULL', rows_of('SELECT id, t, b, h, j, js, x, ta, ba, ua, ia, fa, na, va, boa, ja, absent, p FROM gaps'), '(1,,,,,,,,,,,,,,,,,"__debezium_unavailable_value and more")');
-- values that only look like it
TRUNCATE landing;
INSERT INTO landing SELECT envelope('u', NULL, jsonb_build_object('id', 1, 't', base64(p::bytea), 'b', 'AA==', 'h', NULL, 'j', jsonb_build_array(p)::text, 'js', to_jsonb(p)::text, 'x', NULL, 'ta', jsonb_build_array(p, p), 'ba', '[]'::jsonb,
	'ua', NULL, 'ia', codes - 27, 'fa', codes || '[1]', 'na', NULL, 'va', NULL, 'boa', '[true]'::jsonb, 'ja', NULL, 'p', NULL, 'absent', NULL), 1) FROM placeholder;
SELECT expect('values', coalesce(__unchanged::text, 'none') || ' ' || concat_ws(' ', t = base64(convert_to(q.p, 'UTF8')), b, j, js, ta, cardinality(ia), cardinality(fa), boa), 'none t \x00 ["' || q.p || '"] "' || q.p || '" {' || q.p || ',' || q.p || '} 27 29 {t}') FROM gaps, placeholder q;
--
-- Types of other extensions, known by name: here texts with such names
--
SELECT format($$CREATE TYPE %1$s; CREATE FUNCTION %1$s_in(cstring) RETURNS %1$s LANGUAGE internal IMMUTABLE STRICT AS 'textin'; CREATE FUNCTION %1$s_out(%1$s) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout'; CREATE TYPE %1$s (INPUT = %1$s_in, OUTPUT = %1$s_out, LIKE = text)$$, t) FROM unnest('{hstore,geometry}'::text[]) t \gexec
CREATE TABLE named (id int PRIMARY KEY, h hstore, g geometry);
SELECT cdc_event_view('named_events', 'named', 'landing', 'payload', 'debezium');
TRUNCATE landing;
INSERT INTO landing VALUES (envelope('c', NULL, '{"id": 1, "h": {"a": "1", "b\"\\": null}, "g": {"wkb": "AP8q", "srid": 4326}}', 1)),
	(envelope('c', NULL, '{"id": 2, "h": "{\"a\":\"x y\",\"b\":null}", "g": {"wkb": "AP8q", "srid": null}}', 1)),
	(envelope('c', NULL, '{"id": 3, "h": {"__debezium_unavailable_value": "__debezium_unavailable_value"}, "g": "POINT(1 2)"}', 1)),
	(envelope('c', NULL, '{"id": 4, "h": "{\"__debezium_unavailable_value\":\"__debezium_unavailable_value\"}", "g": {"x": 1}}', 1)),
	(envelope('c', NULL, '{"id": 5, "h": {}, "g": "__debezium_unavailable_value"}', 1));
SELECT expect('maps and geometries', string_agg(concat_ws(' ', id, h, g, __unchanged), '|' ORDER BY id), '1 "a"=>"1", "b\"\\"=>NULL SRID=4326;00ff2a|2 "a"=>"x y", "b"=>NULL 00ff2a|3 POINT(1 2) {h}|4 {"x": 1} {h}|5  {g}') FROM named_events;
DROP SCHEMA event_view_types CASCADE;
