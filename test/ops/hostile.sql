/*
 * The ground of the hostile group: the extension in "public", where everybody
 * may create (as in clusters that grew old); a victim's tables; a canary.
 * Run by the superuser in a database of ops_owner, who then creates the
 * extension.
 */
GRANT CREATE ON SCHEMA public TO PUBLIC;
CREATE SCHEMA canary;
GRANT USAGE ON SCHEMA canary TO PUBLIC;
-- sequences keep what a rollback would take back
CREATE SEQUENCE canary.postgres;
CREATE SEQUENCE canary.ops_owner;
CREATE SEQUENCE canary.ops_user;
CREATE SEQUENCE canary.ops_other;
CREATE SEQUENCE canary.ops_mallory;
CREATE FUNCTION canary.hit(who text, what text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET log_min_messages = log AS $$
BEGIN
	PERFORM nextval(format('canary.%I', who)::regclass);
	IF who <> 'ops_mallory' THEN
		RAISE LOG 'canary: % ran %', who, what;
	END IF;
	RETURN true;
END $$;
-- who ran what ops_mallory planted, beside herself
CREATE FUNCTION canary.hits() RETURNS text LANGUAGE sql SET search_path = pg_catalog AS $$
	SELECT coalesce(string_agg(sequencename::text || ' ' || last_value::text, ', '), 'nobody')
	FROM pg_sequences WHERE schemaname = 'canary' AND sequencename <> 'ops_mallory' AND last_value IS NOT NULL
$$;
CREATE SCHEMA app AUTHORIZATION ops_user;
GRANT USAGE ON SCHEMA app TO PUBLIC;
-- and a schema of the attacker's own
CREATE SCHEMA evil AUTHORIZATION ops_mallory;

/*
 * Try a command, take it back, and say how it ended: it must end in one of
 * these errors, or may also work.  The caller's search_path is safe.
 */
CREATE FUNCTION canary.tried(what text, states text, command text, may_work boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	state text := 'no error'; message text := '';
BEGIN
	BEGIN
		EXECUTE command;
		RAISE EXCEPTION USING ERRCODE = 'XXOPS';
	EXCEPTION WHEN SQLSTATE 'XXOPS' THEN NULL;
	WHEN OTHERS THEN
		state := SQLSTATE;
		message := SQLERRM;
	END;
	RETURN CASE WHEN state ~ ('^(' || states || CASE WHEN may_work THEN '|no error' ELSE '' END || ')$') THEN 'ok - ' || what
		ELSE format(E'not ok - %s\n    %s %s\n    %s', what, state, message, command) END;
END $$;
-- A wrong state of affairs, and what is done then, each step by itself.
CREATE FUNCTION canary.survives(what text, states text, wrong text, VARIADIC steps text[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	step text; result text; bad text := '';
BEGIN
	BEGIN
		EXECUTE wrong;
		FOREACH step IN ARRAY steps LOOP
			result := canary.tried(what, states, step, true);
			bad := bad || CASE WHEN result LIKE 'not ok%' THEN result ELSE '' END;
		END LOOP;
		RAISE EXCEPTION USING ERRCODE = 'XXOPS';
	EXCEPTION WHEN SQLSTATE 'XXOPS' THEN NULL;
	-- the wrong may be refused by a constraint
	WHEN check_violation OR not_null_violation OR invalid_text_representation THEN NULL;
	END;
	RETURN CASE WHEN bad = '' THEN 'ok - ' || what ELSE bad END;
END $$;
