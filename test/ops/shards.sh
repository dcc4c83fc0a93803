# Pairs of shards, a partition of the target and one of staging, applied at the
# same time by sessions of their own: together they must end in what the whole
# log says, and none may wait for another.

# Apply every pair of a database at the same time; each in a transaction that
# ends when all have applied.  Prints what went wrong.
apply_pairs() { # DATABASE
  local target pids=() pid n=0
  for target in in_row_0 in_row_1 in_row_2 in_row_3 beside_0 beside_1 beside_2 beside_3; do
    sql "$1" -c "SET lock_timeout = '60s'" -c "BEGIN" \
      -c "SELECT '$target', events FROM cdc_apply('$target')" \
      -c "SELECT pg_advisory_lock_shared(7)" -c "COMMIT" >"$ops_tmp/pair.$n" 2>&1 </dev/null &
    pids+=($!)
    n=$((n + 1))
  done
  # all of them hold what they wrote, none waits for another
  until [ "$(sql "$1" -c "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND NOT granted")" = 8 ]; do
    for pid in "${pids[@]}"; do
      kill -0 "$pid" 2>/dev/null || { cat "$ops_tmp"/pair.*; end_background ops_gate; wait; return 1; }
    done
    sleep 0.1
  done
  end_background ops_gate
  for pid in "${pids[@]}"; do
    wait "$pid" || { cat "$ops_tmp"/pair.*; return 1; }
  done
}

# round WHAT PART: load a part of the log into both stagings, apply all pairs
round() {
  local out
  sql ops_shards -c "SELECT load('in_row', '$2'), load('beside', '$2')" >/dev/null
  background ops_gate ops_shards "SELECT pg_advisory_lock(7)" || { not_ok "$1: the gate"; return; }
  if out=$(apply_pairs ops_shards); then ok "$1: all pairs at once"; else not_ok "$1: all pairs at once" "$out"; fi
  gives "$1: nothing is left in staging" "0|0" ops_shards \
    -c "SELECT (SELECT count(*) FROM in_row_events), (SELECT count(*) FROM beside_events)"
}

group_shards() {
  new_database ops_shards
  works "two targets, in four pairs each" ops_shards -f shards.sql
  gives "the log has moves between shards" "t" ops_shards -c "
    SELECT count(*) > 200 FROM log, shard a, shard b WHERE op = 'u' AND old_id <> id AND a.r <> b.r
      AND satisfies_hash_partition('in_row'::regclass, 4, a.r, id) AND satisfies_hash_partition('in_row'::regclass, 4, b.r, old_id)"

  # the later half first, then parts that overlap, then all of it again
  round "late half" "n > 6000"
  round "early and overlapping" "n <= 7000 AND n % 3 <> 0"
  round "what was missing" "n % 3 = 0 OR n = 8500"
  gives "both targets are what the log says" "" ops_shards -c "SELECT * FROM wrong LIMIT 20"
  gives "there were rows and deletes to compare" "t|t" ops_shards \
    -c "SELECT count(*) FILTER (WHERE live) > 100, count(*) FILTER (WHERE NOT live) > 50 FROM winners"
  gives "tombstones stand with their keys" "" ops_shards -c "SELECT * FROM misplaced"
  gives "each pair has its own fence, all at the truncate" "8|1|t" ops_shards -c "
    SELECT count(*), count(DISTINCT fence), bool_and(fence = (SELECT max(pos) FROM log WHERE op = 't')) FROM cdc_targets"

  sql ops_shards -c "CREATE TABLE before AS
    SELECT tableoid AS leaf, ctid AS place, xmin::text AS writer FROM in_row UNION ALL SELECT tableoid, ctid, xmin::text FROM beside"
  round "all of it again" "true"
  gives "and no row was written" "0" ops_shards -c "
    SELECT count(*) FROM ((SELECT tableoid, ctid, xmin::text FROM in_row UNION ALL SELECT tableoid, ctid, xmin::text FROM beside)
      EXCEPT ALL TABLE before) d"
  gives "nor anything else of the law" "" ops_shards -c "SELECT * FROM wrong LIMIT 20"

  # a move that is not distributed: the row of the old key stays where it was
  works "a move to another shard, as one row" ops_shards -c "
    WITH pair AS (SELECT a.any_id AS id, b.any_id AS old_id FROM shard a, shard b WHERE a.r = 0 AND b.r = 1)
    INSERT INTO log SELECT 20000, 'u', id, old_id, 'moved', '17/0' FROM pair" -c "
    ALTER TABLE beside_events ADD __old_id bigint" -c "
    INSERT INTO beside_events (op, id, v, n, source_position) SELECT 'u', old_id, 'old', 19999, '16/FFFFFFFF' FROM log WHERE n = 20000" -c "
    INSERT INTO beside_events (op, id, v, n, source_position, __old_id) SELECT op, id, v, n, pos, old_id FROM log WHERE n = 20000"
  works "applied" ops_shards -c "SELECT cdc_apply(target) FROM cdc_targets WHERE target::text LIKE 'beside%'"
  gives "is what the test must find" "1" ops_shards -c "
    SELECT count(*) FROM wrong WHERE target = 'beside' AND what = 'too much' AND live"
}
