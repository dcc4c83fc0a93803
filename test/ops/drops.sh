# Drops: whatever goes away, no registry row and no side table stays behind,
# what is used next says what is missing, and a dump still restores.

# What must not be: registry rows without a table, side tables that belong to
# no target, memberships that dangle.
no_orphans() { # WHAT DATABASE
  gives "$1: no orphan rows, no orphan side table" "" "$2" -c "
    SELECT 'row of ' || target::oid FROM (SELECT target FROM cdc.cdc_target_state UNION ALL SELECT target FROM cdc.cdc_target_rule) r
    WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = r.target)" -c "
    SELECT 'rule without state ' || target FROM cdc.cdc_target_rule EXCEPT SELECT 'rule without state ' || target FROM cdc.cdc_target_state" -c "
    SELECT 'table ' || oid::regclass FROM pg_class c WHERE relname ~ '_tombstones[0-9]*\$' AND relkind = 'r'
    AND NOT EXISTS (SELECT FROM cdc.cdc_target_state s WHERE s.tombstones = c.oid)"
}

# restores WHAT DATABASE
restores() {
  new_database ops_dst
  if pg_dump -d "$2" | psql -X -q -v ON_ERROR_STOP=1 -d ops_dst >"$ops_tmp/out" 2>&1; then
    ok "$1: a dump restores"
  else
    not_ok "$1: a dump restores" "$(tail -n 5 "$ops_tmp/out")"
  fi
}

group_drops() {
  local db=ops_drop home side
  new_database $db
  works "extension" $db -c "CREATE SCHEMA cdc" -c "CREATE EXTENSION cdc_precedence SCHEMA cdc" \
    -c "GRANT USAGE ON SCHEMA cdc TO PUBLIC" \
    -c "CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO ops_user" \
    -c "ALTER DATABASE $db SET search_path = app, cdc" \
    -c "CREATE TABLE app.stage (op text, id int, v text, source_position cdc.cdc_position)" \
    -c "INSERT INTO app.stage VALUES ('c', 1, 'one', '0/10'), ('d', 2, NULL, '0/20')" \
    -c "GRANT SELECT ON app.stage TO ops_user" \
    -c "CREATE FUNCTION app.make(name text, home text DEFAULT 'table', guard text DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS \$\$
      BEGIN
        EXECUTE format('CREATE TABLE %s (id int PRIMARY KEY, v text)', name);
        PERFORM cdc_attach(name::regclass, 'stage', tombstones => home, guard => guard);
        PERFORM cdc_apply(name::regclass);
      END \$\$"

  # ---- targets
  for home in table row; do
    works "DROP TABLE ($home)" $db -c "SELECT make('t', '$home', 'error')" -c "DROP TABLE t"
    no_orphans "DROP TABLE ($home)" $db
    works "DROP TABLE and made anew in one transaction ($home)" $db -1 -c "SELECT make('t', '$home')" \
      -c "DROP TABLE t" -c "SELECT make('t', '$home')" -c "DROP TABLE t"
    no_orphans "made anew ($home)" $db
    gives "a table of the same name starts from nothing ($home)" "1|1|f" $db -c "SELECT make('t', '$home')" -c "DROP TABLE t" -c "
      CREATE TABLE t (id int PRIMARY KEY, v text)" -c "
      DO \$\$ BEGIN PERFORM cdc_attach('t', 'stage', tombstones => '$home'); END \$\$" -c "
      SELECT inserted, deleted, skipped FROM cdc_apply('t')" -c "DROP TABLE t"
    works "DROP taken back ($home)" $db -c "SELECT make('t', '$home', 'error')" -c "BEGIN; DROP TABLE t; ROLLBACK"
    gives "DROP taken back: all as before ($home)" "0|0|2|1" $db -c "
      SELECT inserted, deleted, duplicate, (SELECT count(*) FROM cdc_targets) FROM cdc_apply('t')"
    works "DROP of several at once ($home)" $db -c "SELECT make('u', '$home')" -c "DROP TABLE t, u"
    no_orphans "DROP of several ($home)" $db
    works "DROP SCHEMA CASCADE ($home)" $db -c "CREATE SCHEMA sub" -c "SELECT make('sub.t', '$home', 'skip')" \
      -c "SELECT make('sub.u', '$home')" -c "DROP SCHEMA sub CASCADE"
    no_orphans "DROP SCHEMA CASCADE ($home)" $db
    works "DROP OWNED ($home)" $db -c "SET ROLE ops_user" -c "SELECT make('t', '$home', 'error')" -c "SELECT make('u', '$home')" \
      -c "DROP OWNED BY ops_user"
    no_orphans "DROP OWNED ($home)" $db
    sql $db -c "GRANT ALL ON SCHEMA app TO ops_user; GRANT SELECT ON app.stage TO ops_user"
    works "DROP TABLE by a plain owner ($home)" $db -U ops_user -c "SELECT make('t', '$home')" -c "DROP TABLE t"
    no_orphans "DROP TABLE by a plain owner ($home)" $db
    works "DROP of a detached target ($home)" $db -c "SELECT make('t', '$home')" -c "SELECT cdc_detach('t')" -c "DROP TABLE t"
    no_orphans "DROP of a detached target ($home)" $db
    works "DROP of a partitioned target ($home)" $db -c "
      CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
      CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
      SELECT cdc_attach('p', 'stage', tombstones => '$home', guard => 'error'); SELECT cdc_apply('p'); DROP TABLE p"
    no_orphans "DROP of a partitioned target ($home)" $db
    works "DROP of a partition ($home)" $db -c "
      CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
      CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
      SELECT cdc_attach('p', 'stage', tombstones => '$home', guard => 'error'); SELECT cdc_apply('p'); DROP TABLE p1"
    refused "no partition for the key after that ($home)" "23514" $db -c "SELECT cdc_apply('p')"
    works "partitioned target gone ($home)" $db -c "DROP TABLE p"
    no_orphans "DROP of a partition ($home)" $db
  done

  # ---- columns
  for home in table row; do
    works "targets ($home)" $db -c "SELECT make('k', '$home'), make('p', '$home'), make('i', '$home'), make('f', '$home')"
    works "DROP of the key column ($home)" $db -c "ALTER TABLE k DROP COLUMN id"
    refused "next apply says so ($home)" "42703|55000" $db -c "SELECT cdc_apply('k')"
    works "DROP of the position column ($home)" $db -c "ALTER TABLE p DROP COLUMN source_position"
    refused "next apply says so ($home)" "42703|55000" $db -c "SELECT cdc_apply('p')"
    works "DROP of the key's index ($home)" $db -c "ALTER TABLE i DROP CONSTRAINT i_pkey"
    refused "next apply says so ($home)" "55000" $db -c "SELECT cdc_apply('i')"
    works "DROP of a fed column ($home)" $db -c "ALTER TABLE f DROP COLUMN v"
    works "next apply goes on without it ($home)" $db -c "SELECT cdc_apply('f')"
    restores "dropped columns ($home)" $db
    works "a new unique index will do ($home)" $db -c "CREATE UNIQUE INDEX ON i (id)" -c "SELECT cdc_apply('i')"
    works "detach works without the key ($home)" $db -c "SELECT cdc_detach('k', drop_tombstones => true)"
    works "the tables go ($home)" $db -c "DROP TABLE k, p, i, f"
    no_orphans "columns ($home)" $db
  done
  works "target" $db -c "SELECT make('t', 'row')"
  works "DROP of the tombstone column" $db -c "ALTER TABLE t DROP COLUMN deleted"
  refused "next apply says so" "42703|55000" $db -c "SELECT cdc_apply('t')"
  refused "so does purge" "42703|55000" $db -c "SELECT cdc_purge_tombstones('t', '0/1')"
  restores "DROP of the tombstone column" $db
  either "detach, with tombstones that are gone" "42703|55000" $db -c "SELECT cdc_detach('t', drop_tombstones => true)"
  works "and the table goes" $db -c "DROP TABLE t"
  # a column dropped and made anew is another column
  works "column anew" $db -c "SELECT make('t')" -c "ALTER TABLE t DROP COLUMN v; ALTER TABLE t ADD COLUMN v text"
  works "next apply feeds it" $db -c "INSERT INTO stage VALUES ('u', 1, 'anew', '0/30')" -c "SELECT cdc_apply('t')"
  gives "with the value" "anew" $db -c "SELECT v FROM t WHERE id = 1"
  works "and the table goes" $db -c "DROP TABLE t" -c "DELETE FROM stage WHERE v = 'anew'"
  for home in table row; do
    works "key, position and mark made anew ($home)" $db -c "SELECT make('t', '$home')" -c "
      ALTER TABLE t DROP COLUMN id; ALTER TABLE t ADD COLUMN id int; UPDATE t SET id = 1 WHERE v = 'one'; DELETE FROM t WHERE id IS NULL;
      ALTER TABLE t ADD PRIMARY KEY (id); ALTER TABLE t DROP COLUMN source_position; ALTER TABLE t ADD COLUMN source_position cdc_position;
      ALTER TABLE t DROP COLUMN IF EXISTS deleted; ALTER TABLE t ADD COLUMN deleted boolean"
    works "next apply goes by the names ($home)" $db -c "SELECT cdc_apply('t')"
    works "a rename does not spoil it ($home)" $db -c "ALTER TABLE t RENAME v TO w" -c "SELECT cdc_apply('t', on_schema_change => 'ignore')"
    gives "nor names of dropped columns come in ($home)" "{id}|{source_position}" $db -c "SELECT key_columns, position_columns FROM cdc_targets"
    works "detach goes by the names, too ($home)" $db -c "SELECT cdc_detach('t', drop_tombstones => true)"
    works "and the table goes ($home)" $db -c "DROP TABLE t"
  done

  # ---- what is known of a detached target follows its renames
  works "detached, then renamed" $db -c "SELECT make('t', 'row')" -c "SELECT cdc_detach('t')" -c "ALTER TABLE t RENAME deleted TO gone"
  refused "its dead rows do not come back in the other home" 55000 $db -c "SELECT cdc_attach('t', 'stage')"
  works "and are dead in their own" $db -c "SELECT cdc_attach('t', 'stage', tombstone_column => 'gone')"
  gives "as before" "0|0|2" $db -c "SELECT inserted, deleted, duplicate FROM cdc_apply('t')"
  works "and the table goes" $db -c "DROP TABLE t"

  # ---- the side table by hand
  works "target" $db -c "SELECT make('t', 'table', 'error')"
  works "DROP of the side table" $db -c "DROP TABLE t_tombstones"
  refused "next apply says so" "55000" $db -c "SELECT cdc_apply('t')"
  refused "so does purge" "55000" $db -c "SELECT cdc_purge_tombstones('t', '0/1')"
  refused "the guard does not let an INSERT slip past" "55000|23000" $db -c "INSERT INTO t VALUES (3, 'x', '0/5')"
  restores "DROP of the side table" $db
  works "renames still work" $db -c "ALTER TABLE t RENAME id TO id2; ALTER TABLE t RENAME id2 TO id"
  works "detach, attach: a new side table" $db -c "SELECT cdc_detach('t')" -c "SELECT cdc_attach('t', 'stage')"
  works "which works" $db -c "SELECT cdc_apply('t')"
  no_orphans "DROP of the side table" $db
  works "and the table goes" $db -c "DROP TABLE t"
  no_orphans "DROP after it" $db
  works "target" $db -c "SELECT make('t')"
  works "a view on the side table" $db -c "CREATE VIEW memory AS SELECT * FROM t_tombstones"
  # the view is the user's: it must not vanish, nor may the side table stay as
  # an orphan that nobody knows of
  if sql $db -c "DROP TABLE t" >/dev/null 2>&1; then
    ok "DROP TABLE with a view on the side table goes through"
    sql $db -c "DROP VIEW IF EXISTS memory; DROP TABLE IF EXISTS t_tombstones"
  else
    ok "DROP TABLE with a view on the side table is refused"
    works "and works with CASCADE or without the view" $db -c "DROP VIEW memory; DROP TABLE t"
  fi
  no_orphans "a view on the side table" $db
  works "target" $db -c "SELECT make('t')"
  works "side table moved to another schema and renamed" $db -c "CREATE SCHEMA memory; ALTER TABLE t_tombstones SET SCHEMA memory; ALTER TABLE memory.t_tombstones RENAME TO m"
  gives "is found there" "0|2|1" $db -c "SELECT inserted, duplicate, (SELECT count(*) FROM memory.m) FROM cdc_apply('t')"
  restores "a moved side table" $db
  works "DROP SCHEMA of the side table" $db -c "DROP SCHEMA memory CASCADE"
  refused "next apply says so" "55000" $db -c "SELECT cdc_apply('t')"
  works "and the table goes" $db -c "DROP TABLE t"

  # ---- staging, live view, index and constraint of the side table
  works "target with a live view" $db -c "CREATE TABLE t (id int PRIMARY KEY, v text)" \
    -c "SELECT cdc_attach('t', 'stage', tombstones => 'row', live_view => 't_live')" -c "SELECT cdc_apply('t')"
  works "DROP VIEW" $db -c "DROP VIEW t_live"
  gives "is forgotten" "" $db -c "SELECT live_view FROM cdc_targets WHERE live_view IS NOT NULL"
  restores "a dropped live view" $db
  works "and can be made anew" $db -c "SELECT cdc_attach('t', live_view => 't_live')" -c "SELECT * FROM t_live"
  works "DROP TABLE CASCADE takes the view along" $db -c "DROP TABLE t CASCADE"
  no_orphans "live view" $db
  works "target whose staging goes" $db -c "CREATE TABLE s2 (LIKE stage)" -c "CREATE TABLE t (id int PRIMARY KEY, v text)" \
    -c "SELECT cdc_attach('t', 's2')" -c "DROP TABLE s2"
  refused "apply without staging says so" "42P01|55000" $db -c "SELECT cdc_apply('t')"
  restores "a dropped staging" $db
  works "a loader made it anew" $db -c "CREATE TABLE s2 (LIKE stage)" -c "INSERT INTO s2 TABLE stage" -c "SELECT cdc_apply('t')"
  works "the side table's index dropped" $db -c "
    DO \$\$ DECLARE i regclass; BEGIN
      SELECT indexrelid INTO i FROM pg_index WHERE indrelid = 't_tombstones'::regclass;
      BEGIN EXECUTE 'DROP INDEX ' || i; EXCEPTION WHEN OTHERS THEN
        EXECUTE format('ALTER TABLE t_tombstones DROP CONSTRAINT %s', (SELECT quote_ident(conname) FROM pg_constraint WHERE conindid = i)); END;
    END \$\$"
  refused "next apply says so" "55000" $db -c "SELECT cdc_apply('t')"
  works "and the table goes" $db -c "DROP TABLE t"
  works "target" $db -c "SELECT make('t')"
  works "a column of the side table dropped" $db -c "ALTER TABLE t_tombstones DROP COLUMN source_position"
  refused "next apply says so" "55000|42703" $db -c "SELECT cdc_apply('t')"
  # what no longer looks like a side table is not dropped along
  works "and the table goes" $db -c "DROP TABLE t" -c "DROP TABLE IF EXISTS t_tombstones"
  works "target" $db -c "SELECT make('t')"
  works "the key's type changed" $db -c "ALTER TABLE t ALTER id TYPE bigint"
  either "next apply says so, or the side table followed" "55000|42804" $db -c "SELECT cdc_apply('t')"
  works "and the table goes" $db -c "DROP TABLE t" -c "DROP TABLE IF EXISTS t_tombstones"
  no_orphans "side table's parts" $db

  # ---- the guard's triggers
  works "target under guard" $db -c "SELECT make('t', 'table', 'error')"
  works "triggers dropped by hand" $db -c "DROP TRIGGER zzz_cdc_guard ON t; DROP TRIGGER zzz_cdc_guard_truncate ON t"
  works "apply goes on" $db -c "SELECT cdc_apply('t')"
  works "attach puts them back" $db -c "SELECT cdc_attach('t', guard => 'error')"
  refused "and they work" "23000" $db -c "DELETE FROM t"
  works "detach takes them" $db -c "SELECT cdc_detach('t')"
  works "so that a DELETE passes" $db -c "DELETE FROM t"
  works "and the table goes" $db -c "DROP TABLE t"

  # ---- role and owner
  works "target of a plain owner" $db -c "SET ROLE ops_user" -c "SELECT make('t')"
  works "ALTER OWNER" $db -c "ALTER TABLE t OWNER TO ops_other"
  gives "the side table's owner follows" "ops_other" $db -c "SELECT relowner::regrole FROM pg_class WHERE relname = 't_tombstones'"
  works "REASSIGN OWNED" $db -c "REASSIGN OWNED BY ops_other TO ops_user"
  gives "both follow" "t|ops_user
t_tombstones|ops_user" $db -c "SELECT relname, relowner::regrole FROM pg_class WHERE relname IN ('t', 't_tombstones') ORDER BY 1"
  works "apply goes on" $db -c "SELECT cdc_apply('t')"
  works "and the table goes" $db -c "DROP TABLE t"
  no_orphans "owners" $db

  # ---- the extension
  for home in table row; do
    works "target ($home)" $db -c "SELECT make('t', '$home', 'error')"
    refused "DROP EXTENSION is refused while a column is of its type ($home)" "2BP01" $db -c "DROP EXTENSION cdc_precedence"
    works "nothing was taken ($home)" $db -c "SELECT cdc_apply('t')"
    works "DROP EXTENSION CASCADE ($home)" $db -c "BEGIN; DROP EXTENSION cdc_precedence CASCADE; ROLLBACK"
    works "taken back: nothing was lost ($home)" $db -c "SELECT cdc_apply('t')"
    gives "still attached ($home)" "1" $db -c "SELECT count(*) FROM cdc_targets"
    refused "still guarded ($home)" "23000" $db -c "DELETE FROM t"
    works "and the table goes ($home)" $db -c "DROP TABLE t"
  done
  works "targets" $db -c "SELECT make('t', 'table', 'error')" -c "SELECT make('u', 'row', 'skip')"
  works "DROP EXTENSION CASCADE" $db -c "DROP EXTENSION cdc_precedence CASCADE"
  gives "data stay, guard triggers go" "2|0" $db -c "
    SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM u WHERE NOT deleted), (SELECT count(*) FROM pg_trigger WHERE tgname ~ 'zzz_cdc')"
  works "hand writes pass" $db -c "DELETE FROM t; TRUNCATE u; ALTER TABLE u RENAME id TO id2; DROP TABLE u"
  works "the extension comes anew" $db -c "CREATE EXTENSION cdc_precedence SCHEMA cdc" \
    -c "ALTER TABLE stage ADD COLUMN source_position cdc_position" \
    -c "UPDATE stage SET source_position = '0/50' WHERE id = 1" -c "UPDATE stage SET source_position = '0/60' WHERE id = 2"
  works "the table can be attached anew" $db -c "SELECT cdc_attach('t', 'stage')" -c "SELECT cdc_apply('t')"
  restores "extension anew" $db
  works "the table goes" $db -c "DROP TABLE t"
}
