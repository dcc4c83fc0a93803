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
