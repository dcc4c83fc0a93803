# MariaDB's binlog through Debezium's connector: statements that write many
# rows are one event or a few, whose rows have a number each; small binlog
# files, so that positions go on in the next. A private server of the
# distribution's MariaDB on a socket and a port of the loopback. Part of run.sh.

maria_pid=
# keeps the exit status for cdc_cleanup
maria_cleanup() {
  local status=$?
  set +e
  [ -z "$maria_pid" ] || kill -9 "$maria_pid" 2>/dev/null
  return "$status"
}
trap 'maria_cleanup; cdc_cleanup' EXIT

maria_start() {
  local home=$CDC_WORK/maria want=() i
  command -v mariadbd >/dev/null 2>&1 || [ -x /usr/sbin/mariadbd ] || want+=(mariadb-server-core)
  command -v mariadb >/dev/null 2>&1 || want+=(mariadb-client-core)
  [ ${#want[@]} = 0 ] || cdc_install "${want[@]}"
  mkdir -p "$home"
  [ "$(id -u)" != 0 ] || chown "$(id postgres >/dev/null 2>&1 && echo postgres || echo nobody)" "$home"
  cdc_as_server env "TMPDIR=$home" mariadb-install-db --no-defaults --datadir="$home/data" --auth-root-authentication-method=normal \
    --skip-test-db >"$CDC_WORK/maria-install.log" 2>&1 || { tail "$CDC_WORK/maria-install.log" >&2; return 1; }
  maria_port=$(dbz_port)
  cdc_as_server env "TMPDIR=$home" sh -c 'echo $$ >"$0/pid"; exec "$@"' "$home" "$(PATH=$PATH:/usr/sbin command -v mariadbd)" --no-defaults --datadir="$home/data" \
    --socket="$home/socket" --port="$maria_port" --bind-address=127.0.0.1 --server-id=1 --log-bin=binlog \
    --binlog-format=ROW --binlog-row-image=FULL --max-binlog-size=128K --character-set-server=utf8mb4 \
    --default-time-zone=+00:00 --innodb-flush-log-at-trx-commit=0 --secure-file-priv="$home" \
    >"$CDC_WORK/maria.log" 2>&1 9>&- &
  for ((i = 0; i < 100; i++)); do
    if maria -e 'SELECT 1' >/dev/null 2>&1; then
      maria_pid=$(cat "$home/pid")
      return 0
    fi
    sleep 0.3
  done
  tail -n 20 "$CDC_WORK/maria.log" >&2
  return 1
}

maria() { mariadb --no-defaults -u root -S "$CDC_WORK/maria/socket" --default-character-set=utf8mb4 "$@"; }

# maria_statements SEED COUNT: what a client says; most statements write many rows.
maria_statements() {
  awk -v seed="$1" -v count="$2" '
    function r(n) { return int(rand() * n) + 1 }
    function row(id) {
      return sprintf("(%d, \"%s\", %s, %d.%04d, %d, %d / 3, %d, \"20%02d-02-03\", \"20%02d-04-05 06:07:08.%06d\", \"2030-01-01 00:00:%02d\", \"2024-06-07 08:09:10.%06d\", \"11:12:13.%06d\", UNHEX(MD5(%d)), \"{\\\"n\\\": %d}\", %d)",
        id, r(2) == 1 ? "a" : "ø", r(5) == 1 ? "NULL" : "\"n" r(99) "\"", r(99999), r(9999), r(1e9), r(99), r(2) - 1, r(90) + 9, r(90) + 9, r(999999), r(59), r(999999), r(999999), r(999), r(999), r(3))
    }
    BEGIN {
      srand(seed)
      for (i = 0; i < count; i++) {
        k = r(12); a = r(400); b = a + r(30)
        if (k <= 4) {
          s = "INSERT INTO item VALUES " row(a)
          for (j = 1; j < r(20); j++) s = s ", " row(r(400))
          print s " ON DUPLICATE KEY UPDATE name = VALUES(name), n = VALUES(n), ts = VALUES(ts), e = VALUES(e), j = VALUES(j);"
        } else if (k <= 7) print "UPDATE item SET n = n + 1, flag = NOT flag, tz = NOW(6) WHERE id BETWEEN " a " AND " b ";"
        else if (k == 8) print "DELETE FROM item WHERE id BETWEEN " a " AND " a + 3 ";"
        else if (k == 9) print "UPDATE IGNORE item SET id = id + 7 WHERE id BETWEEN " a " AND " a + 2 " ORDER BY id DESC;"
        else if (k == 10) {
          print "BEGIN; UPDATE item SET name = \"twice\" WHERE id = " a "; UPDATE item SET name = \"thrice\" WHERE id = " a "; DELETE FROM plain WHERE id = " a ";"
          print (r(3) == 1 ? "ROLLBACK;" : "COMMIT;")
        } else if (k == 11) print "REPLACE INTO plain SELECT seq, CONCAT(\"r\", " i ", \"-\", seq) FROM seq_" a "_to_" b ";"
        else print "UPDATE plain SET v = NULL WHERE id BETWEEN " a " AND " b ";"
      }
    }'
}

# Two clients, for as long as CDC_WORK/go is there.
maria_clients() {
  local client pids=() seed=$((FEED_SEED * 1000))
  while [ -e "$CDC_WORK/go" ]; do
    pids=()
    for client in 1 2; do
      seed=$((seed + 1))
      maria_statements "$seed" 15 | maria --force shop >>"$CDC_WORK/maria-clients.log" 2>&1 & pids+=($!)
    done
    wait "${pids[@]}" || true   # a deadlock's loser, --force goes on
    sleep 0.2
  done
}

maria_capture() {
  local i
  maria -e "CREATE DATABASE shop" && maria shop <"$DBZ_DIR/mariadb.sql"
  cdc_psql -f "$DBZ_DIR/mariadb_target.sql"
  maria -e "CREATE USER debezium@'127.0.0.1' IDENTIFIED BY '$DBZ_PASSWORD'; GRANT ALL ON *.* TO debezium@'127.0.0.1'"
  dbz_configure mariadb.properties maria
  printf '%s\n' "database.hostname=127.0.0.1" "database.port=$maria_port" "database.user=debezium" \
    "database.password=$DBZ_PASSWORD" "schema.history.internal.file.filename=$CDC_WORK/maria.history" >>"$CDC_WORK/capture.properties"
  : >"$CDC_WORK/capture.log"
  touch "$CDC_WORK/go"
  maria_clients & local busy=$!
  dbz_start
  dbz_wait 90 "MariaDB's stream" "$(dbz_every "value->>'op' IN ('c', 'u', 'd')")"
  # an offset that speaks of the snapshot begins with another one
  for ((i = 0; i < 300; i++)); do
    if [ -s "$CDC_WORK/maria.offset" ] && ! grep -a -q '"snapshot' "$CDC_WORK/maria.offset"; then break; fi
    sleep 0.2
  done
  for ((i = 0; i < (long ? 8 : 2); i++)); do
    sleep "$pause"
    dbz_wait_landed
    dbz_kill
  done
  dbz_wait_landed
  rm "$CDC_WORK/go"
  wait "$busy"
  maria shop -e "TRUNCATE TABLE plain; INSERT INTO plain SELECT seq, 'again' FROM seq_300_to_500"
  maria shop -e "INSERT INTO plain VALUES (0, 'mark')"
  maria shop -e "SELECT id, part, name, n, big, f, flag, d, ts, ts0, CONCAT(tz, '+00'), ti, CONCAT('\\\\x', HEX(b)), j, e FROM item INTO OUTFILE '$CDC_WORK/maria/item' CHARACTER SET utf8mb4"
  maria shop -e "SELECT * FROM plain INTO OUTFILE '$CDC_WORK/maria/plain' CHARACTER SET utf8mb4"
  cdc_psql -c "\\copy shop.item FROM '$CDC_WORK/maria/item'" -c "\\copy shop.plain FROM '$CDC_WORK/maria/plain'"
  dbz_wait 120 "the mark at the end" "$(dbz_every "key = '{\"id\":0}' AND value IS NOT NULL")"
  dbz_kill
  dbz_wait 120 "what was not noted, once more" "SELECT $(dbz_sent_again)"
  dbz_end
}

if ! dbz_prepare mariadb "$DBZ_MARIADB"; then
  verdict 0 "MariaDB: debezium-connector-mariadb $DBZ_MARIADB is not to be had"
elif ! maria_start; then
  verdict 0 "MariaDB: no server"
else
  kills=0
  since=$SECONDS
  maria_capture
  maria_version=$(maria -N -e 'SELECT version()')
  kill "$maria_pid"
  maria_pid=
  cdc_say "captured $(cdc_value -c "SELECT count(*) FROM landing.maria_env") records of MariaDB $maria_version by $DBZ_MARIADB in $((SECONDS - since)) s"
  cdc_psql -c "CALL feed.judge('maria')"
  while IFS='|' read -r what good; do
    verdict "$([ "$good" = t ] && echo 1 || echo 0)" "maria: $what"
  done < <(cdc_value -c "SELECT * FROM feed.self_check_binlog($kills)")
  deliveries="in-order shuffled-twice"
  [ -z "$long" ] || deliveries="in-order shuffled shuffled-twice cut middle replay"
  for form in env schema flat; do
    for delivery in $deliveries; do
      variant maria "$form" "$delivery"
    done
  done
fi
