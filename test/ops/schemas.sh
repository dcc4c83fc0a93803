# The extension in other schemas than public, used with an empty search_path,
# and met by users who know nothing of it.
group_schemas() {
  local ext
  for ext in public cdc "My Ext" select; do
    new_database ops_schema
    works "extension in schema $ext" ops_schema -c "CREATE SCHEMA IF NOT EXISTS \"$ext\"" -c "CREATE EXTENSION cdc_precedence SCHEMA \"$ext\""
    echo "# in schema $ext"
    counted ops_schema -v "ext=$ext" -f schemas.sql
  done
  gives "every object is in that schema" "select" ops_schema -c "
    SELECT DISTINCT n.nspname FROM pg_depend d
    JOIN (SELECT 'pg_class'::regclass AS c, oid, relnamespace AS n FROM pg_class UNION ALL SELECT 'pg_proc'::regclass, oid, pronamespace FROM pg_proc
      UNION ALL SELECT 'pg_type'::regclass, oid, typnamespace FROM pg_type UNION ALL SELECT 'pg_operator'::regclass, oid, oprnamespace FROM pg_operator) o
      ON o.c = d.classid AND o.oid = d.objid JOIN pg_namespace n ON n.oid = o.n
    WHERE d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'cdc_precedence')"
  refused "it does not move" 0A000 ops_schema -c "CREATE SCHEMA other" -c "ALTER EXTENSION cdc_precedence SET SCHEMA other"
  either "its schema's new name" ".*" ops_schema -c 'ALTER SCHEMA "select" RENAME TO "renamed"'
  works "a target in the renamed schema" ops_schema -c "CREATE TABLE public.t (id int PRIMARY KEY, v text)" \
    -c "SELECT \"renamed\".cdc_attach('t', guard => 'error')" -c "ALTER TABLE t RENAME v TO w" -c "DROP TABLE t"

  # users without a right on the extension's schema: their DDL and their writes go on
  works "tables for a user who knows nothing of it" ops_schema -c "REVOKE ALL ON SCHEMA \"renamed\" FROM PUBLIC" -c "
    CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO ops_user;
    CREATE TABLE app.events (op text, id int, v text, source_position \"renamed\".cdc_position);
    CREATE TABLE app.t (id int PRIMARY KEY, v text);
    SELECT \"renamed\".cdc_attach('app.t', 'app.events', guard => 'error');
    CREATE TABLE app.r (id int PRIMARY KEY, v text);
    SELECT \"renamed\".cdc_attach('app.r', 'app.events', tombstones => 'row', guard => 'skip');
    GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON app.t, app.r TO ops_user"
  works "DDL of all sorts" ops_schema -U ops_user -c "
    CREATE TABLE app.mine (id int PRIMARY KEY, v text, w int) PARTITION BY RANGE (id);
    CREATE TABLE app.mine1 PARTITION OF app.mine FOR VALUES FROM (0) TO (10);
    ALTER TABLE app.mine RENAME v TO x; ALTER TABLE app.mine DROP COLUMN w; ALTER TABLE app.mine DETACH PARTITION app.mine1;
    CREATE VIEW app.myview AS TABLE app.mine; ALTER VIEW app.myview RENAME TO myview2; CREATE TEMP TABLE app (a int); ALTER TABLE app RENAME a TO b;
    CREATE INDEX ON app.mine (x); ALTER TABLE app.mine ADD COLUMN y serial; CREATE TYPE app.pair AS (a int, b int); ALTER TYPE app.pair RENAME ATTRIBUTE a TO c;
    ALTER TABLE app.mine SET SCHEMA app; DROP TABLE app.mine CASCADE; DROP TABLE app.mine1; DROP TYPE app.pair; CREATE FUNCTION app.f() RETURNS int LANGUAGE sql AS 'SELECT 1';
    DROP FUNCTION app.f()" -c "DROP OWNED BY ops_user"
  sql ops_schema -c "GRANT ALL ON SCHEMA app TO ops_user; GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON app.t, app.r TO ops_user"
  works "guarded writes that are right" ops_schema -U ops_user -c "INSERT INTO app.t VALUES (1, 'x', '0/10')" \
    -c "UPDATE app.t SET v = 'y', source_position = '0/11'" -c "INSERT INTO app.r VALUES (1, 'x', '0/10')"
  refused "guarded writes that are wrong" 23000 ops_schema -U ops_user -c "UPDATE app.t SET v = 'z', source_position = '0/1'"
  gives "guarded writes that are skipped" "0" ops_schema -U ops_user -c "
    WITH d AS (DELETE FROM app.r RETURNING 1) SELECT count(*) FROM d"
}
