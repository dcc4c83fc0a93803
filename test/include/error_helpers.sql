/*
 * How an error is said, and that it changed nothing: for tests whose objects
 * stand in the schema that search_path names first.
 */

-- Every row of every table of the schema and of the registry, where it is and
-- who wrote it, and the columns, triggers, indexes and owners there.
CREATE FUNCTION state_of_all() RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
	rel record; part text; result text := '';
BEGIN
	FOR rel IN SELECT c.oid, c.oid::regclass AS name FROM pg_class c
			WHERE c.relkind IN ('r', 'm') AND (c.relnamespace = 'SCHEMA'::regnamespace OR c.relname IN ('cdc_target_rule', 'cdc_target_state', 'cdc_bookmark'))
			ORDER BY c.relname LOOP
		EXECUTE format('SELECT md5(coalesce(string_agg((r.ctid, r.xmin, r)::text, '' '' ORDER BY r.ctid), '''')) FROM ONLY %s r', rel.name) INTO part;
		result := result || part;
	END LOOP;
	SELECT result || md5(string_agg((attrelid, attnum, attname, atttypid, attisdropped)::text, ' ' ORDER BY attrelid, attnum)) INTO result
	FROM pg_attribute JOIN pg_class c ON attrelid = c.oid WHERE relnamespace = 'SCHEMA'::regnamespace;
	SELECT result || md5(coalesce(string_agg((c.oid, relname, relowner, relkind, relfilenode, relhasrules,
			(SELECT string_agg(tgname, ' ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = c.oid))::text, ' ' ORDER BY c.oid), '')) INTO result
	FROM pg_class c WHERE relnamespace = 'SCHEMA'::regnamespace;
	RETURN result;
END $$;
DO $$
BEGIN
	EXECUTE replace(pg_get_functiondef('state_of_all'::regproc), 'SCHEMA', current_schema);
END $$;

-- The error of a command: SQLSTATE, message, detail, hint.  Temporary schemas
-- have numbers, tables have OIDs.
CREATE FUNCTION error_of(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before text := state_of_all(); changed boolean;
	state text; message text; detail text; hint text;
BEGIN
	BEGIN
		EXECUTE command;
		RAISE SQLSTATE '00001' USING MESSAGE = 'NOT OK: no error';
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
			detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	END;
	changed := state_of_all() <> before;
	RETURN regexp_replace(regexp_replace(state || ': ' || message, 'pg_temp_\d+', 'pg_temp_N', 'g'), 'OID \d+', 'OID N')
		|| coalesce(E'\n  DETAIL: ' || nullif(detail, ''), '')
		|| coalesce(E'\n  HINT: ' || nullif(hint, ''), '')
		|| CASE WHEN message ~ '\.$' OR message ~ '^[A-Z][a-z]' OR (detail <> '' AND detail !~ '\.$') OR (hint <> '' AND hint !~ '[.;]$') THEN E'\n  NOT OK: style' ELSE '' END
		|| CASE WHEN changed THEN E'\n  NOT OK: something was changed' ELSE '' END;
END $$;
