/*
 * What a hostile user plants: functions, operators, tables, views and types
 * that would be taken instead of the server's or the extension's, wherever SQL
 * inside the extension names one without care.  Run by ops_mallory.
 *
 * Each of them calls canary.hit, which counts who ran it.
 *
 * "public" (behind pg_catalog in every search_path, beside the extension's own
 * objects): signatures that pg_catalog does not have and that fit the types
 * better than its own, which is enough to be taken.  "evil" (named before
 * pg_catalog by a careless caller): the very signatures of pg_catalog too.
 */
SET search_path = pg_catalog;


CREATE TABLE pg_temp.kind (name text, evil_too boolean);
INSERT INTO pg_temp.kind VALUES ('name', true), ('regclass', true), ('oid', true), ('text', true), ('"char"', true), ('int2', true), ('int4', true),
	('int8', true), ('bool', true), ('name[]', true), ('text[]', true), ('int2[]', true), ('int2vector', true), ('regrole', true),
	('regtype', true), ('jsonb', true), ('timestamptz', true), ('interval', false), ('public.cdc_position', true), ('pg_lsn', true), ('anyelement', false);

CREATE FUNCTION pg_temp.plant(home text) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
	a text; b text; o record; n bigint := 0;
	body text := 'BEGIN PERFORM canary.hit(current_user::text, %L); RETURN %s; END';
BEGIN
	FOR a, b IN SELECT x.name, y.name FROM pg_temp.kind x, pg_temp.kind y
		WHERE x.name <> 'anyelement' AND y.name <> 'anyelement'
	LOOP
		EXECUTE format('CREATE FUNCTION %I.op(%s, %s) RETURNS bool LANGUAGE plpgsql AS %L', home, a, b,
			format(body, home || ' operator ' || a || ' ' || b, 'true'));
		FOR o IN SELECT * FROM (VALUES ('='), ('<>'), ('<'), ('<='), ('>'), ('>='), ('||'), ('~'), ('@>'), ('-'), ('?'), ('->>')) v(name)
			WHERE home = 'evil' OR NOT EXISTS (
				SELECT FROM pg_operator WHERE oprname = v.name AND oprleft = a::regtype AND oprright = b::regtype)
		LOOP
			EXECUTE format('CREATE OPERATOR %I.%s (leftarg = %s, rightarg = %s, function = %1$I.op)', home, o.name, a, b);
			n := n + 1;
		END LOOP;
	END LOOP;

	-- functions by the names that the extension's own SQL uses, and the usual ones
	FOR o IN
		SELECT DISTINCT p.proname, k.args, format_type(p.prorettype, NULL) AS result, p.proretset AS setof, p.prorettype
		FROM pg_proc p,
			LATERAL (SELECT x.name AS args FROM pg_temp.kind x
				UNION ALL SELECT x.name || ', ' || y.name FROM pg_temp.kind x, pg_temp.kind y
				WHERE x.name IN ('text', 'name', 'regclass', 'oid', 'name[]', 'int2[]', 'public.cdc_position', 'regrole')
				AND y.name IN ('text', 'name', 'regclass', 'oid', 'int4', 'public.cdc_position')
				UNION ALL SELECT x.name || ', ' || y.name || ', text' FROM pg_temp.kind x, pg_temp.kind y
				WHERE x.name IN ('text', 'name', 'regrole', 'oid') AND y.name IN ('text', 'name', 'regclass', 'oid')) k
		WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f'
			AND NOT p.proretset AND p.prorettype <> 'internal'::regtype AND p.prorettype::regtype::text !~ '^any'
			AND p.proname IN (SELECT m[1] FROM pg_proc e
				JOIN pg_depend d ON d.objid = e.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
					AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'cdc_precedence'),
				regexp_matches(e.prosrc, '([a-z_0-9]+)\s*\(', 'g') m
				UNION VALUES ('format'), ('quote_ident'), ('quote_literal'), ('to_regclass'), ('has_table_privilege'), ('pg_has_role'),
					('pg_get_expr'), ('format_type'), ('array_position'), ('current_setting'), ('set_config'), ('lower'), ('length'),
					('to_jsonb'), ('pg_table_is_visible'), ('pg_get_userbyid'), ('now'), ('obj_description'))
	LOOP
		BEGIN
			CONTINUE WHEN home = 'public' AND to_regprocedure(format('pg_catalog.%I(%s)', o.proname, o.args)) IS NOT NULL;
			CONTINUE WHEN to_regprocedure(format('%I.%I(%s)', home, o.proname, o.args)) IS NOT NULL;
			EXECUTE format('CREATE FUNCTION %I.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', home, o.proname, o.args, o.result,
				format(body, home || '.' || o.proname || '(' || o.args || ')', 'NULL'));
			n := n + 1;
		EXCEPTION WHEN invalid_function_definition OR undefined_object THEN
		END;
	END LOOP;

	-- the extension's own functions, with types that fit better or as well
	FOR o IN
		SELECT p.proname, x.name || ', ' || y.name AS args FROM pg_proc p
		JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
			AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'cdc_precedence'),
		pg_temp.kind x, pg_temp.kind y
		WHERE p.pronargs >= 1 AND p.prokind = 'f'
			AND (x.name, y.name) IN (('regclass', 'regclass'), ('regclass', 'public.cdc_position'), ('regclass', 'bool'), ('regclass', 'text'), ('regclass', 'name'),
				('public.cdc_position', 'public.cdc_position'), ('public.cdc_position', 'pg_lsn'), ('pg_lsn', 'public.cdc_position'),
				('public.cdc_position', 'int8'), ('public.cdc_position', 'int4'), ('name', 'name'), ('oid', 'oid'), ('text', 'text'))
	LOOP
		CONTINUE WHEN to_regprocedure(format('%I.%I(%s)', home, o.proname, o.args)) IS NOT NULL;
		EXECUTE format('CREATE FUNCTION %I.%I(%s) RETURNS bool LANGUAGE plpgsql AS %L', home, o.proname, o.args,
			format(body, home || '.' || o.proname || '(' || o.args || ')', 'true'));
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;

SELECT pg_temp.plant('public') > 1000;
SELECT pg_temp.plant('evil') > 1000;

-- relations that stand where the catalogs and the registry do
DO $$
DECLARE
	rel record;
BEGIN
	FOR rel IN SELECT c.oid, c.relname, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'pg_catalog' AND c.relname IN ('pg_class', 'pg_namespace', 'pg_attribute', 'pg_index', 'pg_trigger', 'pg_proc', 'pg_type',
				'pg_inherits', 'pg_depend', 'pg_extension', 'pg_constraint', 'pg_authid', 'pg_roles')
			OR n.nspname = 'public' AND c.relname ~ '^cdc_' AND c.relkind IN ('r', 'v')
	LOOP
		EXECUTE format('CREATE TABLE evil.%I (%s)', rel.relname || '_base',
			(SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) FROM pg_attribute
			 WHERE attrelid = rel.oid AND attnum > 0 AND atttypid <> 'anyarray'::regtype AND NOT attisdropped));
		-- a view over it runs what it likes whenever it is read
		EXECUTE format('CREATE VIEW evil.%I AS SELECT * FROM evil.%I UNION ALL SELECT b.* FROM (SELECT 1 WHERE canary.hit(current_user::text, %L)) h
			LEFT JOIN evil.%2$I b ON true', rel.relname, rel.relname || '_base', 'relation ' || rel.relname);
	END LOOP;
	EXECUTE 'GRANT ALL ON ALL TABLES IN SCHEMA evil TO PUBLIC';
END $$;
CREATE DOMAIN evil.cdc_position AS public.cdc_position CHECK (canary.hit(current_user::text, 'domain cdc_position'));
CREATE DOMAIN evil.name AS pg_catalog.name CHECK (canary.hit(current_user::text, 'domain name'));
CREATE DOMAIN evil.regclass AS pg_catalog.regclass CHECK (canary.hit(current_user::text, 'domain regclass'));
CREATE DOMAIN evil.text AS pg_catalog.text CHECK (canary.hit(current_user::pg_catalog.text, 'domain text'));
CREATE DOMAIN evil.oid AS pg_catalog.oid CHECK (canary.hit(current_user::pg_catalog.text, 'domain oid'));
CREATE DOMAIN evil.int8 AS pg_catalog.int8 CHECK (canary.hit(current_user::pg_catalog.text, 'domain int8'));
GRANT USAGE ON SCHEMA evil TO PUBLIC;
