#!/usr/bin/env bash
# The real feed: a source database under pgbench, captured by a logical slot
# with wal2json, delivered in every bad way; the target must end as the source.
#
# Values that an event does not carry (an unchanged TOASTed column) converge
# only where batches arrive in log order. So the deliveries that reorder
# across batches ("full" below) use events with full images; events as they
# were carried ("carried") are cut, repeated and shuffled inside one batch.
#
# Deliveries:
#   in-order        ten batches in log order
#   shuffled        one batch in random order
#   shuffled-twice  random order, 30 % delivered twice, over eight batches
#   cut             log order, cut in random places
#   middle          log order, then the second half once more
#   replay          log order, then everything once more: no row may change
#   concurrent      shuffled-twice in 24 batches, two sessions at once
#   consume         shuffled-twice with consume => 'delete'
# each with record positions (the change's LSN) and with commit positions
# (the commit's LSN, then the change's). Snapshot rows stay without a position
# with the first and have the slot's consistent point with the second.
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/lib.sh
. test/feed/feed.sh

events=300000
usage() {
  cat <<'USAGE'
usage: test/feed/run.sh [--long] [--events N] [--seed N] [--help]
  --long      1000000 events instead of 300000
  --events N  at least N events
  --seed N    what is random follows from N (the clients' timing does not)
USAGE
}
while [ $# -gt 0 ]; do
  case $1 in
    --long) events=1000000 ;;
    --events) events=${2:?}; shift ;;
    --seed) FEED_SEED=${2:?}; shift ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

passed=0
failed=0
# verdict OK TEXT...
verdict() {
  if [ "$1" = 1 ]; then
    passed=$((passed + 1)); printf 'ok    '
  else
    failed=$((failed + 1)); printf 'FAIL  '
  fi
  shift
  printf '%s\n' "$*"
}

# variant TABLE record|commit full|carried|late|stream DELIVERY
variant() {
  local tab=$1 kind=$2 image=$3 delivery=$4 name="$1 $2 $3 $4" options= how=$4 parts=1
  local commit=false before= after= same= facts part pids=() lost=0 log=$CDC_WORK/variant.log
  [ "$kind" = record ] || { commit=true; options+=", snapshot_position => 'event'"; }
  [ "$image" != carried ] || options+=", unchanged_column => '__unchanged'"
  case $delivery in
    consume) how=shuffled-twice; options+=", consume => 'delete'" ;;
    concurrent) parts=2 ;;
  esac
  feed_queue "$(feed_events "$tab" "$kind" "$image")" "$(feed_delivery "$how")"
  cdc_psql -c "SET client_min_messages = error" -c "CALL feed.new_target('$tab')"
  : >"$log"
  deliver() { # PART
    cdc_psql -c "CALL feed.deliver('$name', 'feed.$tab', 'feed.stage_$1', \$\$$options\$\$, $1, $parts)" >>"$log" 2>&1
  }
  for ((part = 0; part < parts; part++)); do
    deliver "$part" & pids+=($!)
  done
  for part in "${pids[@]}"; do wait "$part" || lost=1; done
  if [ "$delivery" = replay ] && [ "$lost" = 0 ]; then
    before=$(cdc_value -c "SELECT feed.footprint('$tab')")
    deliver 0 || lost=1
    after=$(cdc_value -c "SELECT feed.footprint('$tab')")
    same=", unmoved"
  fi
  # facts: differing, wrong keys, dead keys, calls whose sum is wrong,
  # events delivered, events counted, rows that consume left, seconds
  facts=$(cdc_value -F ' ' <<SQL
SELECT v.*, c.* FROM feed.verify('$tab', $commit, $commit) v,
  (SELECT count(*) FILTER (WHERE events <> inserted + updated + deleted + stale
            + duplicate + superseded + fenced + ignored + truncated OR events <> delivered),
          coalesce(sum(delivered), 0), coalesce(sum(events), 0),
          coalesce(sum(left_over), 0), round(coalesce(sum(seconds), 0)::numeric, 1)
   FROM feed.call WHERE variant = '$name') c
SQL
  )
  local differ wrong dead bad_sums delivered counted left seconds ok=1
  read -r differ wrong dead bad_sums delivered counted left seconds <<<"$facts"
  [ "$differ $wrong $bad_sums $lost" = "0 0 0 0" ] || ok=0
  [ "$delivered" = "$counted" ] && [ "$delivered" != 0 ] || ok=0
  [ "$before" = "$after" ] || { ok=0; same=", ROWS MOVED"; }
  [ "$delivery" != consume ] || [ "$left" = 0 ] || { ok=0; same=", $left left in staging"; }
  verdict "$ok" "$(printf '%-7s %-6s %-7s %-14s %7s events %5s s, %s differ%s' \
    "$tab" "$kind" "$image" "$delivery" "$delivered" "$seconds" "$differ" "$same")"
  if [ "$ok" = 0 ]; then
    cdc_say "      keys with a wrong position or life: $wrong, calls with a wrong sum: $bad_sums,"
    cdc_say "      events counted: $counted"
    head -n 20 "$log"
  elif grep -q '^WARNING' "$log"; then
    sort "$log" | grep '^WARNING' | uniq -c | head -n 3 | cut -c1-160 || true
  fi
}

cdc_prepare wal2json
[ -n "${CDC_PREPARED:-}" ] || cdc_build
begin=$SECONDS
cdc_say "feed: seed $FEED_SEED, at least $events events"
feed_start
feed_capture "$events"
cdc_say "captured $FEED_EVENTS changes by 8 clients and COPY in $((SECONDS - begin)) s"

while IFS='|' read -r what bad; do
  verdict "$([ "$bad" = 0 ] && echo 1 || echo 0)" "feed itself: $what ($bad offend)"
done < <(cdc_value -c "SELECT * FROM feed.self_check()")

for kind in record commit; do
  for delivery in in-order shuffled shuffled-twice cut middle replay concurrent consume; do
    variant account $kind full $delivery
  done
  for delivery in in-order shuffled cut middle replay; do
    variant doc $kind carried $delivery
  done
  for delivery in shuffled-twice concurrent; do
    variant doc $kind full $delivery
  done
done
variant account record stream shuffled-twice
# A snapshot taken later than the slot overlaps with the feed: its rows have
# no position of their own, fill absent keys and lose to every change.
variant account record late shuffled-twice

cdc_say "outcomes of all calls:"
cdc_psql -P border=0 -P footer=off -c "
  SELECT sum(events) AS events, sum(inserted) AS inserted, sum(updated) AS updated,
         sum(deleted) AS deleted, sum(stale) AS stale, sum(duplicate) AS duplicate,
         sum(superseded) AS superseded, sum(ignored) AS ignored FROM feed.call"
cdc_say "feed took $((SECONDS - begin)) s"
cdc_say "feed: $passed passed, $failed failed"
[ "$failed" = 0 ]
