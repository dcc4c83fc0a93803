# Dump and restore: what is attached, and everything it remembers, must be
# there again and go on working, for a superuser and for a plain owner.

# The targets that go on after a restore; "shelved" is detached and keeps a
# side table, which cdc_apply refuses.
live_targets="label <> 'shelved'"

# Dump text without what must differ: the registry's rows (their order and
# attribute numbers) and the random keys of recent minors.
dump_text() { # DATABASE [PG_DUMP ARGUMENT...]
  pg_dump -d "$@" | awk '/^COPY .*cdc_target_(rule|state)/ { skip = 1 }
    !skip && !/^\\(un)?restrict / && !/^-- (Dumped|Started|Completed)/ { print }
    /^\\\.$/ { skip = 0 }'
}

# compare_restored WHAT RESTORED [USER]: registry, text, rows
compare_restored() {
  local what=$1 dst=$2 user=${3:-postgres} wrong
  is "$what: registry" "$(sql "$dst" -U "$user" -c "SELECT truth.registry()" 2>&1)" "$source_registry"
  gives "$what: attribute numbers follow the names" "" "$dst" -U "$user" -c "SELECT truth.wrong_numbers()"
  wrong=$(diff "$ops_tmp/source.txt" <(dump_text "$dst" -U "$user" 2>&1) | head -n 15)
  is "$what: a second dump is the first" "$wrong" ""
  gives "$what: rows and tombstones" "" "$dst" -U "$user" \
    -c "SELECT label, truth.wrong(label) FROM truth.target"
  gives "$what: triggers always fire" "app.plain|A
app.plain|A" "$dst" -c "SELECT tgrelid::regclass, tgenabled FROM pg_trigger
    WHERE tgrelid = 'app.plain'::regclass AND NOT tgisinternal"
  gives "$what: append-only tables are so still, each of them" "12 A" "$dst" -c "
    SELECT count(*), tgenabled FROM pg_trigger WHERE tgrelid::regclass::text LIKE 'app.score%' AND tgfoid = 'cdc.cdc_append_only'::regproc GROUP BY 2" -F ' '
  gives "$what: with their rows" "2 2 1" "$dst" -c "
    SELECT (SELECT count(*) FROM app.score), (SELECT count(*) FROM app.score_parts), (SELECT count(*) FROM app.score_parent)" -F ' '
  refused "$what: and refuse" 23000 "$dst" -U "$user" -c "UPDATE app.score SET v = 'x'"
  refused "$what: in a partition" 23000 "$dst" -U "$user" -c "DELETE FROM app.score_parts_1_0"
  works "$what: nothing is missing" "$dst" -U "$user" -c "SELECT cdc.cdc_make_append_only(t) FROM unnest('{app.score,app.score_parts,app.score_parent}'::regclass[]) t"
}

# go_on WHAT RESTORED [USER]: the restored database applies further events
go_on() {
  local what=$1 db=$2 user=${3:-postgres}
  gives "$what: a replay of everything changes nothing" "" "$db" -U "$user" -c "
    SELECT label, r FROM truth.target, truth.deliver(label, replayable) r
    WHERE $live_targets AND r <> 'i0 u0 d0'"
  gives "$what: nor did late events come in" "" "$db" -U "$user" \
    -c "SELECT label, truth.wrong(label) FROM truth.target"
  gives "$what: new events apply" "" "$db" -U "$user" -c "
    SELECT label, r FROM truth.target,
      truth.feed(label, format('u 1 %s0/200 uno2, c 2 %1\$s0/200:1 back, d 4 %1\$s0/200:2, c 7 %1\$s0/200:3 seven, d 5 %1\$s0/200:4, c 5 %1\$s0/190 never',
        CASE label WHEN 'epochs' THEN '1@' END)) r
    WHERE $live_targets
      AND r <> 'i2 u1 d2'"
  gives "$what: and end in what the log says" "" "$db" -U "$user" \
    -c "SELECT label, truth.wrong(label) FROM truth.target"
  refused "$what: guard refuses a hand DELETE" 23000 "$db" -U "$user" -c "DELETE FROM app.plain WHERE id = 1"
  refused "$what: guard refuses TRUNCATE" 23000 "$db" -U "$user" -c "TRUNCATE app.flag"
  gives "$what: guard skips an older UPDATE" "0" "$db" -U "$user" -c "
    WITH u AS (UPDATE app.flag SET v = 'x', source_position = '0/1' WHERE id = '1' RETURNING 1) SELECT count(*) FROM u"
  refused "$what: guard of the odd names holds" 23000 "$db" -U "$user" \
    -c 'DELETE FROM "we ird, ""s"""."x""y.z"'
  gives "$what: live view" "1 2 7" "$db" -U "$user" \
    -c "SELECT string_agg(id, ' ' ORDER BY id) FROM app.flag_live"
  gives "$what: a detached target comes back with its fence" "0/150" "$db" -U "$user" \
    -c "SET search_path = cdc, app" -c "DO \$\$ BEGIN PERFORM cdc_attach('shelved', 'shelved_stage'); END \$\$" \
    -c "SELECT fence FROM cdc_targets WHERE target = 'shelved'::regclass"
  gives "$what: and with its tombstones" "" "$db" -U "$user" -c "
    SELECT truth.wrong('shelved')"
  gives "$what: so that a replay changes nothing there" "i0 u0 d0" "$db" -U "$user" \
    -c "SELECT truth.deliver('shelved')"
  gives "$what: side tables go with their targets" "0" "$db" -U "$user" -c "
    DROP TABLE app.plain CASCADE" -c "
    SELECT count(*) FROM pg_class WHERE relname = 'plain_tombstones'"
  gives "$what: and so do registry rows" "0" "$db" -U "$user" -c "
    SELECT count(*) FROM cdc.cdc_target_state s WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = s.target)"
}

make_source() { # DATABASE USER
  sql "$1" -U "$2" -c "CREATE SCHEMA cdc" -c "CREATE EXTENSION cdc_precedence SCHEMA cdc" &&
    sql "$1" -U "$2" -f dump_source.sql >"$ops_tmp/source.out" 2>&1 || {
    tail -n 5 "$ops_tmp/source.out"
    return 1
  }
}

# What restored databases are compared with.
know_source() { # USER
  source_registry=$(sql ops_src -U "$1" -c "SELECT truth.registry()")
  dump_text ops_src -U "$1" >"$ops_tmp/source.txt"
  is "source: twelve targets are attached" "$(grep -c '^target' <<<"$source_registry")" 12
}

group_dump() {
  # ---- a superuser
  new_database ops_src
  make_source ops_src postgres || { not_ok "source of the superuser"; return; }
  gives "source: rows and tombstones" "" ops_src -c "SELECT label, truth.wrong(label) FROM truth.target"
  gives "source: attribute numbers" "" ops_src -c "SELECT truth.wrong_numbers()"
  gives "source: dropped targets left no rows" "0" ops_src -c "
    SELECT count(*) FROM (SELECT target FROM cdc.cdc_target_state UNION ALL SELECT target FROM cdc.cdc_target_rule) r
    WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = r.target)"
  gives "source: nor side tables" "0" ops_src -c "SELECT count(*) FROM pg_class WHERE relname ~ '^gone'"

  # a stray row: event triggers were off when the table was dropped
  works "a target dropped past the event triggers" ops_src -c "SET search_path = app, cdc" \
    -c "CREATE TABLE quiet (id int PRIMARY KEY, v text)" \
    -c "DO \$\$ BEGIN PERFORM cdc_attach('quiet', 'shelved_stage', tombstones => 'row', guard => 'error'); END \$\$" \
    -c "SET session_replication_role = replica" -c "DROP TABLE quiet"
  # temporary targets, alive while the dump runs
  background ops_temp ops_src "SET search_path = pg_temp, app, cdc;
    CREATE TEMP TABLE passing (id int PRIMARY KEY, v text); SELECT cdc_attach('passing', 'shelved_stage');
    CREATE TEMP TABLE passing_row (id int PRIMARY KEY, v text);
    SELECT cdc_attach('passing_row', 'shelved_stage', tombstones => 'row', guard => 'skip')" ||
    not_ok "temporary targets can be attached"

  works "plain dump" ops_src -c "\! pg_dump -Fp -d ops_src -f $ops_tmp/all.sql"
  pg_dump -Fc -d ops_src -f "$ops_tmp/all.dump" || not_ok "custom dump"
  end_background ops_temp
  gives "temporary targets end with their session" "0" ops_src -c "
    SELECT count(*) FROM cdc.cdc_targets WHERE target::text ~ 'passing'"
  is "dump has no row of temporary or dropped targets" \
    "$(awk '/^COPY .*cdc_target_(rule|state)/ { inside = 1; next } /^\\\.$/ { inside = 0 }
        inside && /^[0-9]|passing|quiet/' "$ops_tmp/all.sql")" ""
  # from here on, the source as the dump shows it
  sql ops_src -c "DELETE FROM cdc.cdc_target_state s WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = s.target)" \
    -c "DELETE FROM cdc.cdc_target_rule s WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = s.target)"

  know_source postgres

  new_database ops_dst
  works "restore of the plain dump" ops_dst -f "$ops_tmp/all.sql"
  compare_restored "plain" ops_dst
  go_on "plain" ops_dst

  new_database ops_dst
  if pg_restore -e -d ops_dst "$ops_tmp/all.dump" >"$ops_tmp/out" 2>&1; then
    ok "pg_restore"
  else
    not_ok "pg_restore" "$(cat "$ops_tmp/out")"
  fi
  compare_restored "custom" ops_dst
  # once more over the same database
  # (the server's own dumps stumble over the keys of partitions there)
  pg_restore --clean --if-exists -d ops_dst "$ops_tmp/all.dump" >"$ops_tmp/out" 2>&1 || true
  is "pg_restore --clean" "$(grep ERROR "$ops_tmp/out" | grep -v 'cannot drop inherited constraint')" ""
  compare_restored "clean" ops_dst
  go_on "clean" ops_dst

  new_database ops_dst
  if pg_restore -e -j2 -d ops_dst "$ops_tmp/all.dump" >"$ops_tmp/out" 2>&1; then
    ok "pg_restore -j2"
  else
    not_ok "pg_restore -j2" "$(cat "$ops_tmp/out")"
  fi
  compare_restored "parallel" ops_dst

  # ---- selections
  # schemas alone: tables with content, no attachment, and attaching works
  new_database ops_dst
  works "extension before a selection" ops_dst -c "CREATE SCHEMA cdc" -c "CREATE EXTENSION cdc_precedence SCHEMA cdc"
  if pg_dump -d ops_src -n app -n truth | psql -X -q -v ON_ERROR_STOP=1 -d ops_dst >"$ops_tmp/out" 2>&1; then
    ok "restore of schemas alone"
  else
    not_ok "restore of schemas alone" "$(tail -n 5 "$ops_tmp/out")"
  fi
  gives "schemas alone: nothing is attached" "0" ops_dst -c "SELECT count(*) FROM cdc.cdc_targets"
  gives "schemas alone: rows are there" "" ops_dst \
    -c "SELECT label, truth.wrong(label) FROM truth.target WHERE tab ~ '^app'"
  works "schemas alone: a target in the row can be attached" ops_dst -c "SET search_path = cdc, app" \
    -c "DO \$\$ BEGIN PERFORM cdc_attach('flag', 'flag_stage', tombstones => 'row'); END \$\$"
  gives "schemas alone: and replayed, with its guard" "i0 u0 d0" ops_dst -c "SELECT truth.deliver('flag')"
  # schemas with the extension's own
  new_database ops_dst
  works "extension before pg_restore -n" ops_dst -c "CREATE SCHEMA cdc" -c "CREATE EXTENSION cdc_precedence SCHEMA cdc" \
    -c 'CREATE SCHEMA app; CREATE SCHEMA truth; CREATE SCHEMA "moved away"; CREATE SCHEMA "we ird, ""s""";'
  if pg_restore -e -d ops_dst -n app -n truth -n cdc -n "moved away" -n 'we ird, "s"' "$ops_tmp/all.dump" >"$ops_tmp/out" 2>&1; then
    ok "pg_restore -n with the extension's schema"
  else
    not_ok "pg_restore -n with the extension's schema" "$(tail -n 5 "$ops_tmp/out")"
  fi
  compare_restored "pg_restore -n" ops_dst
  # tables
  new_database ops_dst
  works "extension before -t" ops_dst -c "CREATE SCHEMA cdc" -c "CREATE EXTENSION cdc_precedence SCHEMA cdc" \
    -c 'CREATE SCHEMA app; CREATE SCHEMA truth; CREATE SCHEMA "moved away"; CREATE SCHEMA "we ird, ""s""";'
  if pg_dump -d ops_src -t 'app.*' -t '"moved away".*' -t '"we ird, ""s""".*' -t 'truth.*' \
      -t cdc.cdc_target_rule -t cdc.cdc_target_state | psql -X -q -v ON_ERROR_STOP=1 -d ops_dst >"$ops_tmp/out" 2>&1; then
    ok "pg_dump -t of all tables and the registry"
  else
    not_ok "pg_dump -t of all tables and the registry" "$(tail -n 5 "$ops_tmp/out")"
  fi
  gives "pg_dump -t: registry" "$(sql ops_src -c "SELECT count(*) FROM cdc.cdc_targets")" ops_dst \
    -c "SELECT count(*) FROM cdc.cdc_targets"
  # sections one by one
  new_database ops_dst
  : >"$ops_tmp/out"
  for section in pre-data data post-data; do
    pg_restore -e --section=$section -d ops_dst "$ops_tmp/all.dump" >>"$ops_tmp/out" 2>&1 || echo "$section" >>"$ops_tmp/out"
  done
  is "pg_restore by sections" "$(cat "$ops_tmp/out")" ""
  compare_restored "sections" ops_dst
  # a schema-only dump restores, with nothing attached
  new_database ops_dst
  pg_dump -s -d ops_src >"$ops_tmp/schema.sql"
  works "schema-only dump" ops_dst -f "$ops_tmp/schema.sql"
  gives "schema-only dump: nothing is attached" "0" ops_dst -c "SELECT count(*) FROM cdc.cdc_targets"
  # then the data alone, loaded into it
  pg_dump -a -d ops_src >"$ops_tmp/data.sql" 2>/dev/null
  # the guards are there already, and the rows that they judge by are not
  works "data-only dump, past the guard" ops_dst -c "SET cdc_precedence.bypass_guard = on" -f "$ops_tmp/data.sql"
  gives "data-only dump: rows and tombstones" "" ops_dst -c "SELECT label, truth.wrong(label) FROM truth.target"

  # ---- the superuser's database moves to a plain owner
  new_database ops_dst ops_owner
  pg_dump -O -x -d ops_src -f "$ops_tmp/moved.sql" || not_ok "dump without owners"
  works "a dump without owners, restored by a plain owner" ops_dst -U ops_owner -f "$ops_tmp/moved.sql"
  gives "moved: registry" "$source_registry" ops_dst -U ops_owner -c "SELECT truth.registry()"
  gives "moved: attribute numbers follow the names" "" ops_dst -U ops_owner -c "SELECT truth.wrong_numbers()"
  go_on "moved" ops_dst ops_owner

  # ---- a plain owner of the trusted extension
  new_database ops_src ops_owner
  make_source ops_src ops_owner || { not_ok "source of a plain owner"; return; }
  gives "owner's source: rows and tombstones" "" ops_src -U ops_owner -c "SELECT label, truth.wrong(label) FROM truth.target"
  know_source ops_owner
  PGUSER=ops_owner pg_dump -Fp -d ops_src -f "$ops_tmp/all.sql" || not_ok "owner's plain dump"
  PGUSER=ops_owner pg_dump -Fc -d ops_src -f "$ops_tmp/all.dump" || not_ok "owner's custom dump"
  new_database ops_dst ops_owner
  works "owner's plain restore" ops_dst -U ops_owner -f "$ops_tmp/all.sql"
  compare_restored "owner's plain" ops_dst ops_owner
  go_on "owner's plain" ops_dst ops_owner
  new_database ops_dst ops_owner
  if PGUSER=ops_owner pg_restore -e -j2 -d ops_dst "$ops_tmp/all.dump" >"$ops_tmp/out" 2>&1; then
    ok "owner's pg_restore -j2"
  else
    not_ok "owner's pg_restore -j2" "$(cat "$ops_tmp/out")"
  fi
  compare_restored "owner's parallel" ops_dst ops_owner
  go_on "owner's parallel" ops_dst ops_owner
  # the superuser restores the owner's dump, and the other way round
  new_database ops_dst
  works "owner's dump restored by the superuser" ops_dst -f "$ops_tmp/all.sql"
  compare_restored "owner's by superuser" ops_dst
}
