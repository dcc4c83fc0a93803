# Two shards, each a database of a server of its own with a log of its own,
# into one table: a leaf partition each, attached alone. The second server is
# new, so its positions are far below the first's: with one log for both, its
# events would be stale. Part of run.sh.

shard_source() { # SHARD: the current server's database
  cdc_psql -d postgres -c "CREATE DATABASE shard_$1"
  cdc_psql -d "shard_$1" -c "CREATE SCHEMA shop" \
    -c "CREATE TABLE shop.shard (shard text, id integer, v text, n numeric(12,3), PRIMARY KEY (shard, id))"
  cdc_value -d "shard_$1" -c "SELECT pg_create_logical_replication_slot('shard_$1', 'wal2json')" >/dev/null
  "$CDC_BIN/pgbench" -n -c 4 -j 1 -t $((long ? 3000 : 300)) -D "shard='$1'" --max-tries=50 --random-seed="$FEED_SEED" \
    -f "$DBZ_DIR/bench/shard.sql" "shard_$1" >"$CDC_WORK/pgbench.log" 2>&1 ||
    { tail -n 20 "$CDC_WORK/pgbench.log" >&2; cdc_die "pgbench failed"; }
  cdc_psql -d "shard_$1" -c "COPY (SELECT data FROM pg_logical_slot_get_changes('shard_$1', NULL, NULL, $FEED_PLUGIN_OPTIONS)) TO STDOUT" >"$CDC_WORK/shard_$1.json"
  cdc_psql -d "shard_$1" -c "COPY shop.shard TO STDOUT" >"$CDC_WORK/shard_$1.rows"
}

shard_source a
main_host=$PGHOST main_port=$PGPORT
cdc_server_start shard "port = 5432" "wal_level = logical" "deadlock_timeout = '100ms'"
cdc_allow_plugin wal2json
shard_source b
export PGHOST=$main_host PGPORT=$main_port PGDATABASE=target

cdc_psql >/dev/null <<'SQL'
SET client_min_messages = error;
CREATE TABLE shop.shard (shard text, id integer, v text, n numeric(12,3), PRIMARY KEY (shard, id));
CREATE TABLE feed.shard (LIKE shop.shard INCLUDING ALL, source_position cdc_position) PARTITION BY LIST (shard);
CREATE TABLE feed.shard_a PARTITION OF feed.shard FOR VALUES IN ('a');
CREATE TABLE feed.shard_b PARTITION OF feed.shard FOR VALUES IN ('b');
CREATE TABLE landing.shard_a (id bigint GENERATED ALWAYS AS IDENTITY, value jsonb);
CREATE TABLE landing.shard_b (LIKE landing.shard_a INCLUDING ALL);
CREATE TABLE feed.shard_stage_a (LIKE landing.shard_a);
CREATE TABLE feed.shard_stage_b (LIKE landing.shard_a);
SELECT cdc_attach('feed.shard_a', tombstones => 'table', lineage => 'a'), cdc_attach('feed.shard_b', tombstones => 'table', lineage => 'b');
SELECT cdc_event_view('feed.shard_events_a', 'feed.shard_a', 'feed.shard_stage_a', 'value', 'wal2json', source_table => 'shop.shard'),
       cdc_event_view('feed.shard_events_b', 'feed.shard_b', 'feed.shard_stage_b', 'value', 'wal2json', source_table => 'shop.shard');
SQL
for shard in a b; do
  cdc_psql -c "\\copy landing.shard_$shard (value) FROM '$CDC_WORK/shard_$shard.json'" -c "\\copy shop.shard FROM '$CDC_WORK/shard_$shard.rows'"
done
truth "SELECT (SELECT max((value->>'lsn')::pg_lsn) FROM landing.shard_b) < (SELECT min((value->>'lsn')::pg_lsn) FROM landing.shard_a)" \
  "shards: every position of one log is below every position of the other"

# Both in random order, 30 % twice, in eight batches that alternate.
shard_batches=ok
for ((batch = 0; batch < 8; batch++)); do
  for shard in a b; do
    cdc_psql -c "TRUNCATE feed.shard_stage_$shard" -c "INSERT INTO feed.shard_stage_$shard
        SELECT d.id, d.value FROM (
          SELECT *, $(feed_hash 2) % 8 AS batch FROM (SELECT id AS n, * FROM landing.shard_$shard) l
          UNION ALL
          SELECT *, $(feed_hash 3) % 8 FROM (SELECT id AS n, * FROM landing.shard_$shard) l WHERE $(feed_hash 5) % 10 < 3) d
        WHERE batch = $batch ORDER BY $(feed_hash 1)" \
      -c "SELECT * FROM cdc_apply('feed.shard_$shard', 'feed.shard_events_$shard', lineage => '$shard')" >"$CDC_WORK/shard.log" 2>&1 ||
      { shard_batches=failed; cat "$CDC_WORK/shard.log"; }
  done
done
for shard in a b; do
  differ=$(cdc_value -c "SELECT count(*) FROM (
    (SELECT * FROM shop.shard WHERE shard = '$shard' EXCEPT ALL SELECT shard, id, v, n FROM feed.shard WHERE shard = '$shard')
    UNION ALL
    (SELECT shard, id, v, n FROM feed.shard WHERE shard = '$shard' EXCEPT ALL SELECT * FROM shop.shard WHERE shard = '$shard')) d")
  verdict "$([ "$differ" = 0 ] && [ $shard_batches = ok ] && echo 1 || echo 0)" \
    "shard $shard: $(cdc_value -c "SELECT count(*) FROM landing.shard_$shard WHERE value->>'action' IN ('I', 'U', 'D')") events, $(cdc_value -c "SELECT count(*) FROM shop.shard WHERE shard = '$shard'") rows, $differ differ"
done
answer=$(cdc_value -c "SELECT * FROM cdc_apply('feed.shard_b', 'feed.shard_events_a', lineage => 'a')" 2>&1 || true)
verdict "$(grep -q lineage <<<"$answer" && echo 1 || echo 0)" "shards: one log's events are refused by the other's partition: $(head -n 1 <<<"$answer")"
