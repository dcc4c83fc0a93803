# Locks and cost of attaching: on a big table nothing is scanned, rewritten or
# built, and ACCESS EXCLUSIVE is taken only while a column or trigger is added.

# What one transaction does to table "big": run STATEMENT in it and print the
# relation locks, the apply lock, and whether anything was read or written.
in_one_transaction() { # STATEMENT
  sql ops_lock -1 -c "DO \$\$ BEGIN $1; END \$\$" -c "
    SELECT string_agg(DISTINCT mode, ' ' ORDER BY mode) FROM pg_locks
    WHERE pid = pg_backend_pid() AND relation = 'big'::regclass" -c "
    SELECT 'apply lock ' || string_agg(mode, ' ') FROM pg_locks
    WHERE pid = pg_backend_pid() AND locktype = 'object' AND classid = 'pg_class'::regclass AND objid = 'big'::regclass AND objsubid <> 0" -c "
    SELECT concat_ws(' ', 'read', sum(seq_scan), sum(seq_tup_read), sum(coalesce(idx_scan, 0)), 'written', sum(n_tup_ins), sum(n_tup_upd), sum(n_tup_del))
    FROM pg_stat_xact_user_tables WHERE relid = 'big'::regclass"
}
# Files and indexes of "big".
files() {
  sql ops_lock -c "SELECT string_agg(c.relname || c.relfilenode || ' ' || pg_relation_size(c.oid), ' ' ORDER BY c.relname)
    FROM pg_class c WHERE c.oid = 'big'::regclass OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'big'::regclass)
      OR c.oid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'big'::regclass)"
}
# costs WHAT CLASS STATEMENT: "weak", readers and writers go on; "writers", those
# wait; "strong", ACCESS EXCLUSIVE
costs() {
  local before after out class
  before=$(files)
  out=$(in_one_transaction "$3" 2>&1)
  after=$(files)
  is "$1: files and indexes untouched" "$after" "$before"
  is "$1: nothing read, nothing written" "$(tail -n 1 <<<"$out")" "read 0 0 0 written 0 0 0"
  is "$1: under the apply lock" "$(sed -n 2p <<<"$out")" "apply lock ExclusiveLock"
  case " $(sed -n 1p <<<"$out") " in
    *" AccessExclusiveLock "*) class=strong ;;
    *" ShareLock "* | *" ShareRowExclusiveLock "* | *" ExclusiveLock "*) class=writers ;;
    *) class=weak ;;
  esac
  is "$1: lock" "$class" "$2"
  echo "    # $1 holds $(sed -n 1p <<<"$out")"
}

group_locks() {
  local hint
  new_database ops_lock
  works "extension and a big table" ops_lock -c "CREATE EXTENSION cdc_precedence" -c "
    -- an autovacuum of it would be one more session that waits and is waited for
    CREATE TABLE big (id bigint PRIMARY KEY, v text, n int) WITH (autovacuum_enabled = false);
    INSERT INTO big SELECT g, 'value ' || g, g % 1000 FROM generate_series(1, 300000) g;
    CREATE INDEX big_n ON big (n); CREATE INDEX big_v ON big (v);
    CREATE TABLE stage (op text, id bigint, v text, n int, source_position cdc_position)" -c "VACUUM ANALYZE big"

  costs "attach (side table)" strong "PERFORM cdc_attach('big', 'stage')"
  costs "attach again" weak "PERFORM cdc_attach('big', 'stage', on_tie => 'upsert')"
  costs "as_of" weak "PERFORM cdc_attach('big', as_of => '0/100')"
  costs "guard" writers "PERFORM cdc_attach('big', guard => 'error')"
  costs "guard again" weak "PERFORM cdc_attach('big', guard => 'error')"
  costs "set_fence" weak "PERFORM cdc_set_fence('big', '0/50')"
  costs "set_floor" weak "PERFORM cdc_set_floor('big', '0/50')"
  costs "purge" weak "PERFORM cdc_purge_tombstones('big', '0/60', force => true)"
  costs "new_epoch" weak "PERFORM cdc_new_epoch('big')"
  costs "detach (with its triggers)" strong "PERFORM cdc_detach('big', drop_tombstones => true)"
  costs "attach (position is there)" weak "PERFORM cdc_attach('big', 'stage')"
  costs "detach" weak "PERFORM cdc_detach('big')"
  works "another home" ops_lock -c "SELECT cdc_attach('big')" -c "SELECT cdc_detach('big', drop_tombstones => true)"
  costs "attach (in the row)" strong "PERFORM cdc_attach('big', 'stage', tombstones => 'row')"
  costs "attach again (in the row)" weak "PERFORM cdc_attach('big', 'stage', tombstones => 'row')"
  costs "live view" weak "PERFORM cdc_attach('big', live_view => 'big_live')"
  costs "detach (in the row)" weak "PERFORM cdc_detach('big')"
  costs "attach (columns are there)" weak "PERFORM cdc_attach('big', 'stage', tombstones => 'row')"

  # the apply itself
  gives "apply: what writers take, nothing more" "RowExclusiveLock|ExclusiveLock" ops_lock -1 -c "
    INSERT INTO stage VALUES ('u', 1, 'new', 1, '1@0/200')" -c "
    DO \$\$ BEGIN PERFORM cdc_apply('big'); END \$\$" -c "
    SELECT (SELECT string_agg(DISTINCT mode, ' ' ORDER BY mode) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'big'::regclass),
      (SELECT string_agg(mode, ' ') FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'object' AND objid = 'big'::regclass AND objsubid <> 0)"

  # no usable key: the hint is the statement itself
  sql ops_lock -c 'CREATE TABLE "no Key" (id int NOT NULL, "b""c" int NOT NULL, v text)'
  refused "no primary key" 55000 ops_lock -c "SELECT cdc_attach('\"no Key\"')"
  refused "no unique index" 55000 ops_lock -c "SELECT cdc_attach('\"no Key\"', key_columns => '{id,\"b\\\"c\"}')"
  hint=$(psql -X -d ops_lock -c "SELECT cdc_attach('\"no Key\"', key_columns => '{id,\"b\\\"c\"}')" 2>&1 | sed -n 's/^HINT: *//p')
  like_hint='^CREATE UNIQUE INDEX CONCURRENTLY .*;$'
  if [[ $hint =~ $like_hint ]]; then ok "the hint is a statement"; else not_ok "the hint is a statement" "$hint"; fi
  works "that can be run" ops_lock -c "${hint:-SELECT 1/0}"
  works "and makes it attachable" ops_lock -c "SELECT cdc_attach('\"no Key\"', key_columns => '{id,\"b\\\"c\"}')"

  # partitioned: no partition is rewritten
  works "partitioned" ops_lock -c "
    CREATE TABLE pbig (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
    CREATE TABLE pbig1 PARTITION OF pbig FOR VALUES FROM (0) TO (1000);
    CREATE TABLE pbig2 PARTITION OF pbig FOR VALUES FROM (1000) TO (2000);
    INSERT INTO pbig SELECT g, 'v' FROM generate_series(1, 1999) g"
  gives "partitioned: files stay, nothing is scanned" "t|0|0" ops_lock -1 -c "
    CREATE TEMP TABLE before AS SELECT oid, relfilenode FROM pg_class WHERE relname ~ '^pbig'" -c "
    DO \$\$ BEGIN PERFORM cdc_attach('pbig', 'stage', tombstones => 'row', guard => 'error', as_of => '0/1'); END \$\$" -c "
    SELECT bool_and(c.relfilenode = b.relfilenode), (SELECT sum(seq_scan + n_tup_upd) FROM pg_stat_xact_user_tables WHERE relname ~ '^pbig'),
      (SELECT count(*) FROM pg_index i WHERE i.indrelid::regclass::text ~ '^pbig' AND i.indexrelid NOT IN (SELECT oid FROM before))
    FROM before b JOIN pg_class c USING (oid)"

  # nobody waits longer than he says, and nobody without rights waits at all
  background ops_hold ops_lock "BEGIN; SELECT cdc_set_fence('big', '0/70')" || not_ok "a session that holds the apply lock"
  refused "lock_timeout ends the wait of an apply" 55P03 ops_lock -c "SET lock_timeout = '100ms'" -c "SELECT cdc_apply('big', 'stage')"
  refused "of an attach" 55P03 ops_lock -c "SET lock_timeout = '100ms'" -c "SELECT cdc_attach('big', guard => 'error')"
  refused "of a purge" 55P03 ops_lock -c "SET lock_timeout = '100ms'" -c "SELECT cdc_purge_tombstones('big', '0/70')"
  refused "of a detach" 55P03 ops_lock -c "SET lock_timeout = '100ms'" -c "SELECT cdc_detach('big')"
  gives "nowait returns at once" "t" ops_lock -c "SELECT skipped FROM cdc_apply('big', 'stage', nowait => true)"
  for call in "cdc_apply('big', 'stage')" "cdc_attach('big')" "cdc_purge_tombstones('big', '0/1')" "cdc_detach('big')" \
      "cdc_set_fence('big', NULL)" "cdc_set_floor('big', NULL)" "cdc_new_epoch('big')"; do
    refused "no right, no wait: ${call%%(*}" 42501 ops_lock -U ops_user -c "SET lock_timeout = '100ms'" -c "SELECT $call"
  done
  # what must not wait is given more time than a session that does wait for the open one would ever need
  gives "readers and writers of other keys do not wait" "1" ops_lock -c "SET lock_timeout = '20s'" \
    -c "UPDATE big SET n = n WHERE id = 5" -c "SELECT count(*) FROM big WHERE id = 5"
  end_background ops_hold
  # a reader or a writer of the table holds an attach up only where a column or a trigger comes
  background ops_hold ops_lock "BEGIN; UPDATE big SET n = n WHERE id = 6" || not_ok "a session that writes"
  works "a writer does not hold up a repeated attach" ops_lock -c "SET lock_timeout = '20s'" -c "SELECT cdc_attach('big', on_tie => 'error')"
  works "nor an as_of" ops_lock -c "SET lock_timeout = '20s'" -c "SELECT cdc_attach('big', as_of => '0/100')"
  works "nor a purge" ops_lock -c "SET lock_timeout = '20s'" -c "SELECT cdc_purge_tombstones('big', '0/70')"
  refused "but a guard, which waits for the lock" 55P03 ops_lock -c "SET lock_timeout = '100ms'" -c "SELECT cdc_attach('big', guard => 'error')"
  gives "and is then not there" "0" ops_lock -c "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'big'::regclass AND NOT tgisinternal"
  end_background ops_hold
}
