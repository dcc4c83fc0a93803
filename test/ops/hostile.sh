# Hostile users: what they plant is never run by others, what they may not do
# is refused with 42501, and what is recorded cannot break out.

# nobody_but_mallory WHAT: the canaries
nobody_but_mallory() {
  gives "$1: nobody ran what was planted" nobody ops_host -c "SELECT canary.hits()"
  forget_canaries
}
forget_canaries() {
  sql ops_host -c "DO \$\$ DECLARE s pg_catalog.text; BEGIN
    FOR s IN SELECT sequencename FROM pg_catalog.pg_sequences WHERE schemaname OPERATOR(pg_catalog.=) 'canary'
    LOOP EXECUTE pg_catalog.format('ALTER SEQUENCE canary.%I RESTART', s); END LOOP; END \$\$"
}
# careless WHAT USER SEARCH_PATH
careless() {
  local out
  sql ops_host -U ops_user -f targets.sql
  out=$(sql ops_host -U "$2" -c "SET search_path = $3" -f careless.sql 2>&1) || true
  is "$1: results" "$out" "$(cat careless.out)"
  nobody_but_mallory "$1"
}
# In the hostile database every query of this script names what it uses.
safe="SET search_path = pg_catalog, pg_temp"

group_hostile() {
  local what call expression
  new_database ops_host ops_owner
  sql ops_host -f hostile.sql || { not_ok "the ground"; return; }
  works "a plain owner creates the trusted extension" ops_host -U ops_owner -c "CREATE EXTENSION cdc_precedence"
  works "the victim's tables" ops_host -U ops_user -f victim.sql
  works "and targets" ops_host -U ops_user -f targets.sql

  # ---- how the extension's own functions are made
  # cdc_attach_schema() hands expressions on under its caller's; it qualifies every name and operator
  gives "every other SQL and PL/pgSQL function pins its search_path" "" ops_host -c "
    SELECT p.oid::regprocedure FROM pg_proc p
    JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
    JOIN pg_language l ON l.oid = p.prolang
    WHERE (l.lanname IN ('plpgsql', 'sql') OR p.prosecdef) AND p.prosqlbody IS NULL
      AND p.proname <> 'cdc_attach_schema'
      AND NOT EXISTS (SELECT FROM unnest(p.proconfig) c WHERE c ~ '^search_path=.*pg_temp\"?\$')"
  gives "SECURITY DEFINER is for triggers only, unless nobody may call it" "" ops_host -c "
    SELECT p.oid::regprocedure FROM pg_proc p
    JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
    WHERE p.prosecdef AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
      AND has_function_privilege('ops_mallory', p.oid, 'EXECUTE')"
  gives "nothing of the extension may be written by everybody" "" ops_host -c "
    SELECT c.oid::regclass FROM pg_class c
    JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
    WHERE has_table_privilege('ops_mallory', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')"

  # ---- shadowed names
  careless "before anything is planted (superuser)" postgres public
  works "shadows are planted" ops_host -U ops_mallory -f shadows.sql
  sql ops_host -c "SET search_path = public" -c "SELECT FROM pg_class WHERE oid = 'pg_class'::regclass LIMIT 1" >/dev/null
  sql ops_host -U ops_user -c "SET search_path = evil, pg_catalog" -c "SELECT FROM pg_catalog.pg_class WHERE relname = 'pg_class'::pg_catalog.name LIMIT 1" >/dev/null
  gives "and catch those who are careless" "postgres, ops_user" ops_host -c "
    SELECT regexp_replace(canary.hits(), ' [0-9]+', '', 'g')"
  forget_canaries
  careless "objects in public, superuser" postgres "public"
  careless "objects in public, owner" ops_user "app, public"
  careless "empty search_path, superuser" postgres "''"
  careless "evil before pg_catalog, superuser" postgres "evil, pg_catalog, public"
  careless "evil before pg_catalog, owner" ops_user "evil, pg_catalog, app, public"
  careless "evil alone, superuser" postgres "evil"

  # ---- her own DDL under SECURITY DEFINER triggers, with temporary shadows
  works "her own targets" ops_host -U ops_mallory -c "$safe" -c "
    CREATE TABLE evil.t (id int PRIMARY KEY, v text);
    CREATE TABLE evil.s (op text, id int, v text, source_position public.cdc_position)" -c "
    SELECT public.cdc_attach(target => 'evil.t', staging => 'evil.s', guard => 'error')"
  either "her DDL with everything shadowed" ".*" ops_host -U ops_mallory -c "$safe" -c "
    DO \$\$ DECLARE r record; BEGIN
      FOR r IN SELECT relname FROM pg_class WHERE relnamespace OPERATOR(pg_catalog.=) 'evil'::regnamespace::oid AND relkind OPERATOR(pg_catalog.=) 'v' LOOP
        EXECUTE format('CREATE TEMP VIEW %1\$I AS SELECT * FROM evil.%1\$I', r.relname); END LOOP; END \$\$" -c "
    SET search_path = evil, pg_temp, pg_catalog, public" -c "
    ALTER TABLE evil.t RENAME COLUMN id TO \"i\"\"d\"" -c "ALTER TABLE evil.t RENAME TO \"t\"\" \$\$\"" -c "
    ALTER TABLE evil.\"t\"\" \$\$\" ADD COLUMN x int" -c "DROP TABLE evil.\"t\"\" \$\$\""
  nobody_but_mallory "her own DDL"

  # ---- a key whose type runs code of hers
  either "a key of her own domain" ".*" ops_host -U ops_mallory -c "$safe" -c "
    CREATE DOMAIN evil.tricky AS pg_catalog.int4 CHECK (canary.hit(current_user::text, 'domain of the key'));
    CREATE TABLE evil.d (id evil.tricky PRIMARY KEY, v text DEFAULT canary.hit(current_user::text, 'default')::text)" -c "
    SELECT public.cdc_attach(target => 'evil.d', staging => 'evil.s', tombstones => 'table')" -c "
    INSERT INTO evil.s VALUES ('d', 5, NULL, '0/10')" -c "SELECT public.cdc_apply(target => 'evil.d')" -c "
    ALTER TABLE evil.d RENAME COLUMN id TO id2" -c "DROP TABLE evil.d"
  nobody_but_mallory "a key of her own domain"

  # ---- what maintains her table runs none of her code
  works "a table full of her code" ops_host -U ops_mallory -c "$safe" -c "
    CREATE FUNCTION evil.boom() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN PERFORM canary.hit(current_user::pg_catalog.text, 'trigger of her table'); RETURN NEW; END \$\$;
    CREATE FUNCTION evil.sly(pg_catalog.int4) RETURNS pg_catalog.int4 IMMUTABLE LANGUAGE plpgsql AS \$\$ BEGIN PERFORM canary.hit(current_user::pg_catalog.text, 'index of her table'); RETURN 1; END \$\$;
    CREATE DOMAIN evil.key AS pg_catalog.int4 CHECK (canary.hit(current_user::pg_catalog.text, 'domain of her table'));
    CREATE TABLE evil.code (id evil.key PRIMARY KEY, v pg_catalog.text DEFAULT canary.hit(current_user::pg_catalog.text, 'default of her table')::pg_catalog.text,
      CHECK (canary.hit(current_user::pg_catalog.text, 'constraint of her table')));
    CREATE INDEX ON evil.code (evil.sly(id)); INSERT INTO evil.code VALUES (1);
    CREATE TRIGGER boom BEFORE INSERT OR UPDATE OR DELETE ON evil.code FOR EACH ROW EXECUTE FUNCTION evil.boom();
    CREATE TRIGGER boom2 AFTER TRUNCATE ON evil.code EXECUTE FUNCTION evil.boom();
    CREATE TABLE evil.feed (op pg_catalog.text, id pg_catalog.int4, v pg_catalog.text, source_position public.cdc_position)"
  for what in table row; do
    works "attached, fenced, renamed, detached by a superuser ($what)" ops_host -c "$safe" -c "
      SELECT public.cdc_attach(target => 'evil.code', staging => 'evil.feed', tombstones => '$what', guard => 'error')" -c "
      SELECT public.cdc_attach(target => 'evil.code', as_of => '0/10', staging_filter => 'id > 0')" -c "
      SELECT public.cdc_set_fence(target => 'evil.code', fence => '0/1'), public.cdc_set_floor(target => 'evil.code', floor => '0/1')" -c "
      SELECT public.cdc_new_epoch(target => 'evil.code')" -c "
      ALTER TABLE evil.code RENAME COLUMN v TO w; ALTER TABLE evil.code RENAME COLUMN w TO v; ALTER TABLE evil.code OWNER TO ops_mallory" -c "
      SELECT * FROM public.cdc_targets" -c "SELECT public.cdc_detach(target => 'evil.code')" -c "
      DROP TABLE IF EXISTS evil.code_tombstones"
  done
  works "dropped by a superuser" ops_host -c "DROP TABLE evil.code CASCADE"
  nobody_but_mallory "her table"

  # ---- a superuser's job: all that is attached, each as its owner
  works "her target, with her code at every corner" ops_host -U ops_mallory -c "$safe" -c "
    CREATE TABLE evil.landing (op pg_catalog.text, id pg_catalog.int4, v pg_catalog.text, source_position public.cdc_position);
    CREATE FUNCTION evil.seen(what pg_catalog.text) RETURNS pg_catalog.bool VOLATILE COST 0.01 LANGUAGE plpgsql AS \$\$ BEGIN RETURN canary.hit(current_user::pg_catalog.text, what); END \$\$;
    CREATE VIEW evil.fed AS SELECT * FROM evil.landing WHERE evil.seen('view over staging');
    CREATE TABLE evil.parent (id pg_catalog.int4 PRIMARY KEY, v pg_catalog.text);
    CREATE TABLE evil.job (id evil.key PRIMARY KEY REFERENCES evil.parent, v pg_catalog.text DEFAULT evil.seen('default')::pg_catalog.text, w pg_catalog.text DEFAULT evil.seen('default of no event')::pg_catalog.text, CHECK (evil.seen('constraint')));
    CREATE INDEX ON evil.job (evil.sly(id));
    ALTER TABLE evil.landing ENABLE ROW LEVEL SECURITY; ALTER TABLE evil.landing FORCE ROW LEVEL SECURITY;
    CREATE POLICY p ON evil.landing USING (evil.seen('policy'))" -c "
    CREATE TRIGGER a BEFORE INSERT OR UPDATE OR DELETE ON evil.job FOR EACH ROW EXECUTE FUNCTION evil.boom();
    CREATE TRIGGER b AFTER INSERT OR UPDATE OR DELETE ON evil.job FOR EACH ROW EXECUTE FUNCTION evil.boom();
    CREATE TRIGGER c AFTER INSERT ON evil.parent FOR EACH STATEMENT EXECUTE FUNCTION evil.boom()" -c "
    SELECT public.cdc_attach(target => 'evil.parent', staging => 'evil.fed')" -c "
    SELECT public.cdc_attach(target => 'evil.job', staging => 'evil.fed', staging_filter => 'evil.seen(''filter'')', staging_position => 'CASE WHEN evil.seen(''position'') THEN source_position END')" -c "
    INSERT INTO evil.landing VALUES ('c', 1, 'x', '0/10'), ('c', 2, 'y', '0/11'), ('d', 3, NULL, '0/12')"
  sql ops_host -c "ALTER TABLE evil.landing DISABLE ROW LEVEL SECURITY"
  gives "applied in a superuser's transaction" "parent|2|
job|2|" ops_host -c "SET search_path = evil, public, pg_catalog" -c "
    SELECT pg_catalog.split_part(target::pg_catalog.regclass::pg_catalog.text, '.', 1), inserted, error FROM public.cdc_apply_attached('evil')"
  gives "and again, and by a superuser's job" "" ops_host -c "$safe" -c "UPDATE evil.landing SET source_position = '0/20', v = 'z'" -c "CALL public.cdc_apply_all('evil')"
  gives "her code ran, as hers" "t" ops_host -c "SELECT last_value > 10 FROM canary.ops_mallory"
  gives "her constraint trigger that would wait" "t" ops_host -U ops_mallory -c "$safe" -c "
    CREATE CONSTRAINT TRIGGER later AFTER INSERT OR UPDATE ON evil.parent DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION evil.boom()" -c "SELECT true"
  works "does not" ops_host -c "$safe" -c "UPDATE evil.landing SET source_position = '0/30', v = 'zz'" -c "CALL public.cdc_apply_all('evil')"
  works "what a superuser looks at" ops_host -c "SET search_path = evil, public, pg_catalog" -c "
    SELECT pg_catalog.count(s.*) FROM public.cdc_status s" -c "SELECT pg_catalog.count(r.*) FROM public.cdc_runs r"
  nobody_but_mallory "a superuser's job"
  works "her targets go" ops_host -c "DROP TABLE evil.job, evil.parent, evil.landing CASCADE"

  # ---- not the owner: refused, each
  works "the victim's tables anew" ops_host -U ops_user -f targets.sql
  works "the victim attaches" ops_host -U ops_user -c "$safe" -c "SELECT public.cdc_attach(target => 'app.side', staging => 'app.stage', guard => 'error')" \
    -c "SELECT public.cdc_apply(target => 'app.side')" \
    -c "SELECT public.cdc_attach(target => 'app.flag', staging => 'app.stage', tombstones => 'row')" -c "SELECT public.cdc_apply(target => 'app.flag')" \
    -c "GRANT ALL ON app.side, app.flag, app.stage TO ops_mallory"
  counted ops_host -U ops_mallory -f strangers.sql
  refused "a job of hers is nobody else's" 42501 ops_host -U ops_mallory -c "$safe" -c "CALL public.cdc_apply_all('app')"
  gives "and leaves no trace" "0" ops_host -c "SELECT count(*) FROM public.cdc_runs WHERE error IS NOT NULL AND target::text ~ 'app'"
  gives "attach_schema attaches nothing of others" "f" ops_host -U ops_mallory -c "$safe" \
    -c "SELECT coalesce(bool_or(attached), false) FROM public.cdc_attach_schema(target_schema => 'app', staging_schema => 'app', staging_pattern => '%s_stage')"
  for what in cdc_target_rule cdc_target_state cdc_run_log cdc_target_seen; do
    refused "$what: UPDATE by the extension's owner" 42501 ops_host -U ops_owner -c "$safe" -c "UPDATE public.$what SET target = target"
    refused "$what: DELETE by the extension's owner" 42501 ops_host -U ops_owner -c "$safe" -c "DELETE FROM public.$what"
    refused "$what: a trigger of the extension's owner" 42501 ops_host -U ops_owner -c "$safe" -c "
      CREATE TRIGGER x BEFORE INSERT ON public.$what FOR EACH ROW EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger()"
  done
  gives "cdc_targets shows what she may read" "app.flag app.side" ops_host -U ops_mallory -c "$safe" \
    -c "SELECT string_agg(target::text, ' ' ORDER BY target::text COLLATE \"C\") FROM public.cdc_targets WHERE target::text ~ 'app'"
  gives "and nothing else" "0" ops_host -U ops_other -c "$safe" -c "SELECT count(*) FROM public.cdc_targets"
  gives "all to pg_monitor" "t" ops_host -c "$safe" -c "GRANT pg_monitor TO ops_other" -c "SET ROLE ops_other" \
    -c "SELECT count(*) >= 2 FROM public.cdc_targets" -c "RESET ROLE" -c "REVOKE pg_monitor FROM ops_other"

  # ---- with the rights of a writer
  gives "a writer applies, and reaches the side table through the target" "0|1|1" ops_host -U ops_mallory -c "$safe" -c "
    TRUNCATE app.stage; INSERT INTO app.stage VALUES ('d', 1, NULL, '0/100'), ('u', 2, 'late', '0/25')" \
    -c "SELECT updated, deleted, stale FROM public.cdc_apply(target => 'app.side')"
  refused "but not by herself" 42501 ops_host -U ops_mallory -c "$safe" -c "DELETE FROM app.side_tombstones"
  refused "a guarded INSERT is judged for her too" 23000 ops_host -U ops_mallory -c "$safe" -c "INSERT INTO app.side VALUES (1, 'x', '0/90')"
  refused "bypass_guard is for owners" 23000 ops_host -U ops_mallory -c "$safe" -c "SET cdc_precedence.bypass_guard = on" \
    -c "INSERT INTO app.side VALUES (1, 'x', '0/90')"
  works "and works for them" ops_host -U ops_user -c "$safe" -c "SET cdc_precedence.bypass_guard = on" \
    -c "BEGIN; INSERT INTO app.side VALUES (1, 'x', '0/90'); ROLLBACK"
  sql ops_host -U ops_user -c "REVOKE DELETE ON app.side FROM ops_mallory"
  refused "DELETE is needed with a side table" 42501 ops_host -U ops_mallory -c "$safe" -c "SELECT public.cdc_apply(target => 'app.side')"
  sql ops_host -U ops_user -c "REVOKE SELECT ON app.stage FROM ops_mallory; GRANT DELETE ON app.side TO ops_mallory"
  refused "SELECT on the attached staging too" 42501 ops_host -U ops_mallory -c "$safe" -c "SELECT public.cdc_apply(target => 'app.side')"

  # ---- recorded expressions
  counted ops_host -U ops_user -f expressions.sql
  works "a comment is no harm" ops_host -U ops_user -c "$safe" -c "
    BEGIN" -c "SELECT public.cdc_attach(target => 'app.bait', staging => 'app.stage', staging_position => 'source_position -- )', staging_filter => '/* ) */ true --')" -c "
    SELECT public.cdc_apply(target => 'app.bait')" -c "ROLLBACK"
  works "a lineage of any text" ops_host -U ops_user -c "$safe" -c "SELECT public.cdc_attach(target => 'app.bait', staging => 'app.bait_stage', lineage => 'a''b\"c\$\$;--\\')"
  refused "is told as it is" 55000 ops_host -U ops_user -c "$safe" -c "SELECT public.cdc_apply(target => 'app.bait', lineage => 'other')"
  gives "and kept" "a'b\"c\$\$;--\\" ops_host -U ops_user -c "$safe" -c "SELECT lineage FROM public.cdc_targets WHERE target::text = 'app.bait'::text"
  gives "precious rows" "1" ops_host -c "SELECT count(*) FROM app.precious"
  nobody_but_mallory "recorded expressions"

  # ---- registry rows that others made
  works "the extension's owner has a table" ops_host -U ops_owner -c "$safe" -c "CREATE SCHEMA own" -c "CREATE TABLE own.t (id int PRIMARY KEY, v text, source_position public.cdc_position)" \
    -c "CREATE TABLE own.s (op text, id int, v text, source_position public.cdc_position)"
  refused "state of somebody else's table" 42501 ops_host -U ops_owner -c "$safe" -c "
    INSERT INTO public.cdc_target_state (target, floor, epoch) VALUES ('app.precious', 'F/0', 0)"
  refused "rule of somebody else's table" 42501 ops_host -U ops_owner -c "$safe" -c "
    INSERT INTO public.cdc_target_rule (target, staging_schema, staging_name, key_columns, position_columns, guard, attached_at) VALUES ('app.precious', 'own', 's', '{id}', '{source_position}', 'off', now())"
  gives "state of no table" "0" ops_host -U ops_owner -c "$safe" -c "INSERT INTO public.cdc_target_state (target, epoch) VALUES (12345, 0)" \
    -c "SELECT count(*) FROM public.cdc_target_state WHERE target::oid OPERATOR(pg_catalog.=) 12345::oid"
  either "somebody else's table as side table" "42501|55000" ops_host -U ops_owner -c "$safe" -c "
    INSERT INTO public.cdc_target_state (target, tombstones, epoch) VALUES ('own.t', 'app.precious', 0)"
  either "and a rule to it" "42501|55000" ops_host -U ops_owner -c "$safe" -c "
    INSERT INTO public.cdc_target_rule (target, staging_schema, staging_name, key_columns, position_columns, guard, attached_at) VALUES ('own.t', 'own', 's', '{id}', '{source_position}', 'off', now())"
  either "is not used" "55000|42501" ops_host -U ops_owner -c "$safe" -c "INSERT INTO own.s VALUES ('d', 7, NULL, '0/1'), ('c', 1, 'x', '0/2')" -c "SELECT public.cdc_apply(target => 'own.t')"
  either "nor by purge" "55000|42501" ops_host -U ops_owner -c "$safe" -c "SELECT public.cdc_purge_tombstones(target => 'own.t', up_to => '0/1', force => true)"
  either "nor by detach" "55000|42501" ops_host -U ops_owner -c "$safe" -c "BEGIN; SELECT public.cdc_detach(target => 'own.t', drop_tombstones => true); ROLLBACK"
  works "nor by a rename" ops_host -U ops_owner -c "$safe" -c "ALTER TABLE own.t RENAME COLUMN id TO id2"
  works "nor by a change of owner" ops_host -c "$safe" -c "ALTER TABLE own.t OWNER TO ops_mallory"
  works "nor by a drop" ops_host -c "$safe" -c "DROP TABLE own.t"
  gives "the other's table is as it was" "ops_user|{id,source_position,deleted_at}|1" ops_host -c "$safe" -c "
    SELECT relowner::regrole, ARRAY(SELECT attname FROM pg_attribute WHERE attrelid OPERATOR(pg_catalog.=) c.oid AND attnum > 0 ORDER BY attnum), (SELECT count(*) FROM app.precious)
    FROM pg_class c WHERE oid OPERATOR(pg_catalog.=) 'app.precious'::regclass::oid"
  works "the extension's owner has a table again" ops_host -U ops_owner -c "$safe" -c "CREATE TABLE own.t (id int PRIMARY KEY, v text, source_position public.cdc_position)"
  either "somebody else's view as live view" "42501|55000" ops_host -U ops_owner -c "$safe" -c "
    INSERT INTO public.cdc_target_state (target, epoch) VALUES ('own.t', 0)" -c "
    INSERT INTO public.cdc_target_rule (target, key_columns, position_columns, live_view, guard, attached_at) VALUES ('own.t', '{id}', '{source_position}', 'app.flag', 'off', now())"
  either "is let alone" ".*" ops_host -U ops_owner -c "$safe" -c "SELECT public.cdc_detach(target => 'own.t', drop_tombstones => true)"
  works "the forger's table goes" ops_host -U ops_owner -c "$safe" -c "DROP TABLE own.t"
  gives "the other's table is there" "t" ops_host -c "$safe" -c "SELECT to_regclass('app.flag') IS NOT NULL"
  # rows that nobody checked: a superuser's UPDATE
  counted ops_host -f forged.sql

  # ---- the extension's trigger functions on a table of hers
  either "trigger functions of the extension on her table" ".*" ops_host -U ops_mallory -c "$safe" -c "
    CREATE TABLE evil.mine (target regclass, tombstones regclass, id int, v text, source_position public.cdc_position)" -c "
    DO \$\$ DECLARE f regprocedure; BEGIN
      FOR f IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace OPERATOR(pg_catalog.=) 'public'::regnamespace::oid AND p.proname ~ '^cdc_'::text
        AND p.prorettype OPERATOR(pg_catalog.=) 'trigger'::regtype::oid LOOP
        EXECUTE format('CREATE TRIGGER %I BEFORE INSERT OR UPDATE OR DELETE ON evil.mine FOR EACH ROW EXECUTE FUNCTION %s(''error'')', f::text, f::regproc);
        BEGIN INSERT INTO evil.mine VALUES ('app.side', 'app.precious', 1, 'x', '0/1'); EXCEPTION WHEN OTHERS THEN NULL; END;
        BEGIN UPDATE evil.mine SET v = 'y'; EXCEPTION WHEN OTHERS THEN NULL; END;
        BEGIN DELETE FROM evil.mine; EXCEPTION WHEN OTHERS THEN NULL; END;
        EXECUTE format('DROP TRIGGER %I ON evil.mine', f::text);
      END LOOP; END \$\$"
  nobody_but_mallory "trigger functions"

  # ---- the side table replaced
  works "the victim lets her create in the schema" ops_host -U ops_user -c "GRANT CREATE ON SCHEMA app TO ops_mallory"
  works "side table dropped by its owner, made by her" ops_host -c "$safe" -c "BEGIN" -c "DROP TABLE app.side_tombstones" -c "SET LOCAL ROLE ops_mallory" -c "
    CREATE TABLE app.side_tombstones (id int, source_position public.cdc_position NOT NULL, deleted_at timestamptz NOT NULL, UNIQUE (id));
    INSERT INTO app.side_tombstones VALUES (77, '0/1', now()); GRANT ALL ON app.side_tombstones TO PUBLIC" -c "COMMIT"
  refused "is not taken for the old one" 55000 ops_host -U ops_user -c "$safe" -c "SELECT public.cdc_apply(target => 'app.side')"
  refused "nor by the guard" "55000|23000" ops_host -U ops_user -c "$safe" -c "INSERT INTO app.side VALUES (50, 'x', '0/5')"
  refused "nor by purge" 55000 ops_host -U ops_user -c "$safe" -c "SELECT public.cdc_purge_tombstones(target => 'app.side', up_to => '0/1')"
  works "detach and attach make another" ops_host -U ops_user -c "$safe" -c "SELECT public.cdc_detach(target => 'app.side')" \
    -c "SELECT public.cdc_attach(target => 'app.side', staging => 'app.stage')" -c "SELECT public.cdc_apply(target => 'app.side')"
  gives "beside hers, which is as it was" "77|app.side_tombstones" ops_host -c "$safe" -c "
    SELECT (SELECT string_agg(id::text, ' ') FROM app.side_tombstones), (SELECT string_agg(oid::regclass::text, ' ') FROM pg_class WHERE relname ~ '^side_tombstones'::text
      AND oid OPERATOR(pg_catalog.<>) (SELECT tombstones::oid FROM public.cdc_targets WHERE target::text = 'app.side'::text) AND relkind OPERATOR(pg_catalog.=) 'r')"
  works "the names are taken before an attach" ops_host -U ops_mallory -c "$safe" -c "
    CREATE TABLE app.bait2_tombstones (id int UNIQUE, source_position public.cdc_position, deleted_at timestamptz)" -c "
    CREATE VIEW app.bait2_live AS SELECT 1"
  works "an attach takes another" ops_host -U ops_user -c "$safe" -c "CREATE TABLE app.bait2 (id int PRIMARY KEY, v text)" \
    -c "SELECT public.cdc_attach(target => 'app.bait2', staging => 'app.stage')" -c "SELECT public.cdc_apply(target => 'app.bait2')"
  gives "not hers" "f|0" ops_host -c "$safe" -c "
    SELECT tombstones::text = 'app.bait2_tombstones'::text, (SELECT count(*) FROM app.bait2_tombstones) FROM public.cdc_targets WHERE target::text = 'app.bait2'::text"
  works "row home" ops_host -U ops_user -c "$safe" -c "SELECT public.cdc_detach(target => 'app.bait2', drop_tombstones => true)" -c "SELECT public.cdc_attach(target => 'app.bait2', staging => 'app.stage', tombstones => 'row')"
  refused "her view is not replaced" "42501|42P07|42809|55000|42P16" ops_host -U ops_user -c "$safe" -c "SELECT public.cdc_attach(target => 'app.bait2', live_view => 'app.bait2_live')"
  works "side table given to her" ops_host -U ops_user -c "$safe" -c "CREATE TABLE app.given (id int PRIMARY KEY, v text)" -c "
    SELECT public.cdc_attach(target => 'app.given', staging => 'app.stage')"
  works "by a superuser" ops_host -c "ALTER TABLE app.given_tombstones OWNER TO ops_mallory"
  refused "is not used" 55000 ops_host -U ops_user -c "$safe" -c "SELECT public.cdc_apply(target => 'app.given')"
  refused "by a superuser neither" 55000 ops_host -c "$safe" -c "SELECT public.cdc_apply(target => 'app.given')"
  works "given back, it is" ops_host -c "$safe" -c "ALTER TABLE app.given_tombstones OWNER TO ops_user" -c "SELECT public.cdc_apply(target => 'app.given')"
  works "her trigger on the side table" ops_host -U ops_user -c "GRANT ALL ON app.given_tombstones TO ops_mallory"
  works "is made" ops_host -U ops_mallory -c "$safe" -c "
    CREATE FUNCTION evil.fire() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN PERFORM canary.hit(current_user::pg_catalog.text, 'trigger of the side table'); RETURN NULL; END \$\$" -c "
    CREATE TRIGGER x BEFORE INSERT OR UPDATE OR DELETE ON app.given_tombstones FOR EACH ROW EXECUTE FUNCTION evil.fire();
    CREATE TRIGGER y AFTER INSERT OR UPDATE OR DELETE ON app.given_tombstones FOR EACH STATEMENT EXECUTE FUNCTION evil.fire()"
  gives "and does not fire" "1|1
1" ops_host -U ops_user -c "$safe" -c "
    INSERT INTO app.stage VALUES ('d', 60, NULL, '0/200'), ('c', 61, 'x', '0/201'), ('c', 1, 'again', '0/202')" -c "
    SELECT inserted - 1, deleted FROM public.cdc_apply(target => 'app.given')" \
    -c "SELECT count(*) FROM app.given_tombstones WHERE id OPERATOR(pg_catalog.=) 60"
  works "nor at a purge" ops_host -U ops_user -c "$safe" -c "SELECT public.cdc_purge_tombstones(target => 'app.given', up_to => '0/200')"
  nobody_but_mallory "side tables"
  gives "precious rows are there at last" "1" ops_host -c "SELECT count(*) FROM app.precious"
}
