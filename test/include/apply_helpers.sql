/*
 * Helpers of the cdc_apply tests, created in the schema that search_path
 * names first.  A test states what is right by the contract and prints
 *     ok | what was looked at
 * or, where it differs, what came and what was wanted.
 */

CREATE FUNCTION expect(what text, got text, want text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN got IS NOT DISTINCT FROM want THEN 'ok | ' || what
		ELSE 'NOT OK | ' || what
			|| E'\n    got:  ' || coalesce(got, 'NULL')
			|| E'\n    want: ' || coalesce(want, 'NULL') END
$$;

-- The counts that are not 0, and the law that they add up to the events.
CREATE FUNCTION counts(r cdc_apply_result) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
	SELECT coalesce(string_agg(name || '=' || coalesce(n::text, 'NULL'), ' ' ORDER BY ord) FILTER (WHERE n IS DISTINCT FROM 0), 'nothing')
		|| CASE WHEN r.events IS DISTINCT FROM sum(n) THEN ' but events=' || coalesce(r.events::text, 'NULL') ELSE '' END
		|| CASE r.skipped WHEN true THEN ' skipped' WHEN false THEN '' ELSE ' skipped=NULL' END
	FROM (VALUES
		(1, 'inserted', r.inserted), (2, 'updated', r.updated), (3, 'deleted', r.deleted),
		(4, 'stale', r.stale), (5, 'duplicate', r.duplicate), (6, 'superseded', r.superseded),
		(7, 'fenced', r.fenced), (8, 'ignored', r.ignored), (9, 'truncated', r.truncated)) c(ord, name, n)
$$;

-- Apply, and the counts.
CREATE FUNCTION applied(target text, staging text, args text DEFAULT '') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	r cdc_apply_result;
BEGIN
	EXECUTE format('SELECT * FROM cdc_apply(%L, %L%s)', target, staging,
		CASE WHEN args <> '' THEN ', ' || args ELSE '' END) INTO r;
	RETURN counts(r);
END $$;

-- All rows of a relation or a query in a fixed order.
CREATE FUNCTION rows_of(query text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format($q$SELECT coalesce(string_agg(q::text, ' ' ORDER BY q::text COLLATE "C"), 'none') FROM (%s) q$q$,
		CASE WHEN query ~* '^\s*(select|values|table|with)\M' THEN query ELSE 'SELECT * FROM ' || query END) INTO result;
	RETURN result;
END $$;

-- Apply, then look at the counts and at the target's rows.
CREATE FUNCTION apply_is(what text, target text, staging text, args text, want_counts text, look text, want_rows text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	got text := applied(target, staging, args);
BEGIN
	RETURN expect(what, got || ': ' || rows_of(look), want_counts || ': ' || want_rows);
END $$;

-- Where the tuples are and who wrote them: equal means untouched.  An aborted
-- write leaves only an xmax.
CREATE FUNCTION tuples_of(rel text, with_xmax boolean DEFAULT true) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format($q$SELECT md5(coalesce(string_agg(%s::text, ' ' ORDER BY %1$s::text), '')) FROM %s t$q$,
		CASE WHEN (SELECT relkind IN ('r', 'p', 'm') FROM pg_class WHERE oid = rel::regclass)
			THEN '(t.tableoid, t.ctid, t.xmin' || CASE WHEN with_xmax THEN ', t.xmax' ELSE '' END || ', t)' ELSE 't' END, rel) INTO result;
	RETURN result;
END $$;

/*
 * A call that must be refused: SQLSTATE (a regular expression), what the
 * message must name (LIKE, none if NULL), whether detail ("d") and hint ("h")
 * must be there.  Our own texts are shown, the server's are not (show false):
 * those differ between majors.
 */
CREATE FUNCTION refused(what text, command text, want_state text, names text DEFAULT NULL,
						needs text DEFAULT '', show boolean DEFAULT true) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	state text; message text; detail text; hint text; problems text := '';
BEGIN
	BEGIN
		EXECUTE command;
		RETURN 'NOT OK | ' || what || E'\n    was not refused: ' || command;
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
			detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	END;
	IF state !~ ('^(' || want_state || ')$') THEN
		problems := problems || ' SQLSTATE is not ' || want_state || ';';
	END IF;
	IF message || ' ' || detail || ' ' || hint NOT LIKE '%' || names || '%' THEN
		problems := problems || ' does not name ' || names || ';';
	END IF;
	IF message ~ '\.$' OR message ~ '^[A-Z][a-z]' THEN
		problems := problems || ' style of the message;';
	END IF;
	IF needs LIKE '%d%' AND detail = '' THEN
		problems := problems || ' no detail;';
	END IF;
	IF needs LIKE '%h%' AND hint = '' THEN
		problems := problems || ' no hint;';
	END IF;
	RETURN CASE WHEN problems = '' THEN 'ok | ' || what ELSE 'NOT OK | ' || what || ':' || problems END
		|| CASE WHEN show OR problems <> '' THEN E'\n    ' || state || ': ' || message
			|| coalesce(E'\n    DETAIL: ' || nullif(detail, ''), '')
			|| coalesce(E'\n    HINT: ' || nullif(hint, ''), '') ELSE '' END;
END $$;

-- A refused apply, which must leave both relations as they were.
CREATE FUNCTION apply_refused(what text, target text, staging text, args text, want_state text,
							  names text DEFAULT NULL, needs text DEFAULT '', show boolean DEFAULT true) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	before text := tuples_of(target, false) || tuples_of(staging, false);
	result text;
BEGIN
	result := refused(what, format('SELECT * FROM cdc_apply(%L, %L%s)', target, staging,
		CASE WHEN args <> '' THEN ', ' || args ELSE '' END), want_state, names, needs, show);
	IF before <> tuples_of(target, false) || tuples_of(staging, false) THEN
		result := result || E'\nNOT OK | ' || what || ': something was written';
	END IF;
	RETURN result;
END $$;
