# The real feed's parts, for run.sh beside it and for the demo. To be sourced
# after test/lib.sh with the private server of cdc_prepare; needs wal2json.

FEED_DIR=$CDC_ROOT/test/feed
FEED_SEED=1
FEED_PLUGIN_OPTIONS="'format-version', '2', 'include-lsn', 'true', 'include-xids', 'true', 'include-transaction', 'true', 'include-pk', 'true', 'add-tables', 'shop.*'"

# A server that can decode, with a database for each side.
feed_start() {
  cdc_server_start feed "wal_level = logical" "max_replication_slots = 4" \
    "max_wal_senders = 4" "deadlock_timeout = '100ms'" "work_mem = '32MB'"
  cdc_allow_plugin wal2json
  cdc_psql -c "CREATE DATABASE source" -c "CREATE DATABASE target"
  export PGDATABASE=target
  cdc_psql -d source -f "$FEED_DIR/source.sql"
  cdc_psql -c "CREATE EXTENSION cdc_precedence"
  cdc_psql -f "$FEED_DIR/target.sql"
}

# feed_bench TRANSACTIONS: each of 8 clients runs that many transactions.
feed_bench() {
  local b=$FEED_DIR/bench
  FEED_ROUND=$((${FEED_ROUND:-0} + 1))
  "$CDC_BIN/pgbench" -n -c 8 -j 1 -t "$1" --random-seed=$((FEED_SEED + FEED_ROUND)) \
    --max-tries=50 -f "$b/single.sql@30" -f "$b/long.sql@6" -f "$b/undo.sql@8" \
    -f "$b/move.sql@8" -f "$b/bulk.sql@8" -f "$b/doc.sql@22" source \
    >"$CDC_WORK/pgbench.log" 2>&1 ||
    { tail -n 20 "$CDC_WORK/pgbench.log" >&2; cdc_die "pgbench failed"; }
}

# Clients that hold a transaction open nearly all of the time, until they are
# killed: so that some are open at the moment of the slot's snapshot.
feed_hold() {
  exec "$CDC_BIN/pgbench" -n -c 4 -j 1 -T 3600 --random-seed="$FEED_SEED" --max-tries=50 \
    -f "$FEED_DIR/bench/open.sql" source >"$CDC_WORK/open.log" 2>&1
}

# COPY beside the clients: rows of a range of keys, deleted as one statement
# and copied again, so that COPY also brings dead keys back.
feed_copy() {
  local i
  for i in 1 2 3; do
    cdc_value -d source -c "COPY (SELECT 'south', n, 'copy $i', n, ARRAY['$i'], now()
      FROM generate_series(5000, 5999) n) TO STDOUT" |
      cdc_psql -d source -c "COPY shop.account FROM STDIN"
    cdc_psql -d source -c "UPDATE shop.account SET balance = $i WHERE no BETWEEN 5000 AND 5400"
    [ "$i" = 3 ] || cdc_psql -d source -c "DELETE FROM shop.account WHERE no BETWEEN 5000 AND 5999"
  done
  cdc_psql -d source -c "DELETE FROM shop.account WHERE no BETWEEN 5500 AND 5999"
  # the key of every second row changes, which also frees the range
  cdc_psql -d source -c "DELETE FROM shop.account WHERE no BETWEEN 5000 AND 5499 AND no % 2 = 0" \
    -c "UPDATE shop.account SET no = no + 10000 * $FEED_ROUND WHERE no BETWEEN 5000 AND 5499"
}

feed_table() { # FROM_TABLE TO_TABLE [SNAPSHOT]
  local begin="BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
  [ -z "${3:-}" ] || begin="$begin SET TRANSACTION SNAPSHOT '$3';"
  cdc_psql -d source -c "$begin" -c "COPY shop.$1 TO STDOUT" -c "COMMIT" |
    cdc_psql -c "COPY feed.$2 FROM STDIN"
}

# One TRUNCATE amid the clients, the table filled again in its transaction. It
# waits for every transaction that has written the table, so it comes after all
# of these by either kind of position.
feed_truncate() {
  local i
  for i in 1 2 3 4 5; do
    cdc_psql -d source -1 -c "TRUNCATE shop.account" -c "INSERT INTO shop.account
      SELECT b, n, 'loaded again', n, NULL, now() FROM unnest('{north,south,øst}'::text[]) b, generate_series(1, 1500) n" \
      2>"$CDC_WORK/truncate.log" && return
  done
  cat "$CDC_WORK/truncate.log" >&2
  cdc_die "TRUNCATE failed"
}

# The slot, made while clients are writing, and the snapshot it exports, which
# lives as long as the session that made it says nothing more.
feed_slot() {
  local answer point snapshot
  coproc FEED_SLOT { "$CDC_BIN/psql" -X -q -At -F ' ' "dbname=source replication=database" 2>&1; }
  local in=${FEED_SLOT[1]} out=${FEED_SLOT[0]} pid=$FEED_SLOT_PID
  echo 'CREATE_REPLICATION_SLOT feed LOGICAL wal2json EXPORT_SNAPSHOT;' >&"$in"
  read -r -t 120 answer <&"$out" || cdc_die "no slot"
  read -r _ point snapshot _ <<<"$answer"
  [[ $point == */* ]] || cdc_die "no slot: $answer"
  feed_table account account_start "$snapshot"
  feed_table doc doc_start "$snapshot"
  echo '\q' >&"$in"
  wait "$pid" 2>/dev/null || true
  cdc_psql -c "INSERT INTO feed.slot VALUES ('$point')"
}

# Pulls what the slot has into the landing table; FEED_EVENTS counts changes.
feed_pull() {
  cdc_psql -d source -c "COPY (SELECT data FROM pg_logical_slot_get_changes('feed', NULL, NULL, $FEED_PLUGIN_OPTIONS)) TO STDOUT" |
    cdc_psql -c "COPY feed.landing (data) FROM STDIN"
  FEED_EVENTS=$(cdc_value -c "SELECT count(*) FROM feed.landing WHERE data->>'action' IN ('I', 'U', 'D')")
}

# feed_capture EVENTS: a feed of at least so many changes, typed.
feed_capture() {
  local want=$1 busy copier holder
  feed_bench 300 & busy=$!
  feed_hold & holder=$!
  sleep 0.5
  feed_slot
  wait "$busy"
  kill "$holder" 2>/dev/null || { cat "$CDC_WORK/open.log" >&2; cdc_die "pgbench failed"; }
  wait "$holder" 2>/dev/null || true
  FEED_EVENTS=0
  FEED_ROUND=1
  while [ "$FEED_EVENTS" -lt "$want" ]; do
    feed_bench 1200 & busy=$!
    FEED_ROUND=$((FEED_ROUND + 1))
    feed_copy & copier=$!
    if [ "$FEED_ROUND" = 2 ]; then
      sleep 1
      feed_table account account_late
      [ -z "${FEED_TRUNCATE:-}" ] || feed_truncate
    fi
    wait "$copier"
    wait "$busy"
    feed_pull
  done
  feed_table account account_end
  feed_table doc doc_end
  cdc_psql -c "CALL feed.type_events()" -c "VACUUM ANALYZE"
}

# feed_queue EVENTS_SQL DELIVERY_SQL: the queue of a variant. EVENTS_SQL gives
# n and staging's columns; DELIVERY_SQL gives (batch, ord, n) from "numbered"
# (n, i = 0.., total), and may give one n several times.
feed_queue() {
  cdc_psql <<SQL
SET client_min_messages = error;
DROP TABLE IF EXISTS feed.queue, feed.stage_0, feed.stage_1;
CREATE UNLOGGED TABLE feed.queue AS
WITH event AS MATERIALIZED ($1),
numbered AS MATERIALIZED (SELECT n, row_number() OVER (ORDER BY n) - 1 AS i, count(*) OVER () AS total FROM event),
delivery AS ($2)
SELECT batch::integer AS batch, ord, event.* FROM delivery JOIN event USING (n);
CREATE INDEX ON feed.queue (batch);
ANALYZE feed.queue;
CREATE TABLE feed.stage_0 AS SELECT * FROM feed.queue WITH NO DATA;
ALTER TABLE feed.stage_0 DROP batch, DROP ord, DROP n;
CREATE TABLE feed.stage_1 (LIKE feed.stage_0);
SQL
}

# The deliveries. "feed_hash(salt)" is a random number per event that the seed
# fixes; it is an expression over n.
feed_hash() { printf '(hashint8extended(n, %s) & 1073741823)' "$((FEED_SEED * 1000 + $1))"; }
feed_delivery() { # NAME
  case $1 in
    in-order)  echo "SELECT i * 10 / total AS batch, i AS ord, n FROM numbered" ;;
    purge | forget)
               echo "SELECT i * 6 / total AS batch, i AS ord, n FROM numbered" ;;
    shuffled)  echo "SELECT 0 AS batch, $(feed_hash 1) AS ord, n FROM numbered" ;;
    shuffled-twice)
      echo "SELECT $(feed_hash 2) % 8 AS batch, $(feed_hash 1) AS ord, n FROM numbered
            UNION ALL
            SELECT $(feed_hash 3) % 8, $(feed_hash 4), n FROM numbered WHERE $(feed_hash 5) % 10 < 3" ;;
    cut)
      # a new batch begins at one event in 1 of every 40th part of the feed
      echo "SELECT sum(($(feed_hash 6) % greatest(total / 40, 1) = 0)::int) OVER (ORDER BY i) AS batch, i AS ord, n FROM numbered" ;;
    middle)
      echo "SELECT i * 6 / total AS batch, i AS ord, n FROM numbered
            UNION ALL
            SELECT 6 + i * 6 / total, i, n FROM numbered WHERE i * 2 > total" ;;
    replay)
      echo "SELECT i * 3 / total AS batch, i AS ord, n FROM numbered" ;;
    concurrent)
      echo "SELECT $(feed_hash 7) % 24 AS batch, $(feed_hash 1) AS ord, n FROM numbered
            UNION ALL
            SELECT $(feed_hash 8) % 24, $(feed_hash 4), n FROM numbered WHERE $(feed_hash 9) % 10 < 3" ;;
  esac
}

# Staging's select list by table and kind of position.
feed_events() { # TABLE record|commit full|carried|late|stream
  local position kind
  case $2 in
    record) position="cdc_position(lsn) AS source_position" ;;
    commit) position="cdc_position(commit_lsn, coalesce(lsn - '0/0'::pg_lsn, 0)::bigint) AS source_position" ;;
  esac
  kind="SELECT n, op, branch, no, owner, balance, tags, changed_at, __old_branch, __old_no, $position FROM feed.account_event"
  case $1-$3 in
    account-full) echo "$kind" ;;
    account-late)
      echo "$kind WHERE op <> 'r' UNION ALL
            SELECT -row_number() OVER (), 'r', l.*, NULL, NULL, NULL FROM feed.account_late l" ;;
    account-stream)
      echo "$kind UNION ALL
            SELECT seq, action, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, cdc_position(lsn)
            FROM feed.change WHERE action IN ('B', 'C', 'M')" ;;
    doc-full)
      echo "SELECT n, op, id, title, CASE WHEN __unchanged IS NULL THEN body ELSE old_body END AS body,
                   pages, __old_id, $position FROM feed.doc_event" ;;
    doc-carried)
      echo "SELECT n, op, id, title, body, pages, __old_id, __unchanged, $position FROM feed.doc_event" ;;
  esac
}
