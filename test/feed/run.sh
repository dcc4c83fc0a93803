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
#   purge           log order in six batches, tombstones purged at a safe
#                   position after the third and the last, then everything once
#                   more: nothing may come back, no row may change
#   forget          log order, then the tombstones deleted by hand and all but
#                   the last batch once more: dead rows must come back, and be
#                   seen, else the checks above check nothing
# Each is played into two targets, one that remembers deletes in the row and
# one that has a side table; both must end as the source and as each other, with
# the same counts call by call. Deliveries come with record positions (the change's LSN) and with commit positions
# (the commit's LSN, then the change's). Snapshot rows stay without a position
# with the first and have the slot's consistent point with the second.
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/lib.sh
. test/feed/feed.sh

events=150000
usage() {
  cat <<'USAGE'
usage: test/feed/run.sh [--long] [--events N] [--seed N] [--help]
  --long      1000000 events instead of 150000
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

# play HOME: one home of the variant at hand; sets lost, same, again.
play() {
  local home=$1 target=feed.$tab part pids=() before after
  [ "$home" != side ] || target=feed.${tab}_side
  deliver() { # PART [FIRST LAST]
    cdc_psql -c "CALL feed.deliver('$name $home', '$target', 'feed.stage_$1', \$\$$options\$\$, $1, $parts${2:+, $2, $3})" >>"$log" 2>&1
  }
  purge() { # LAST_BATCH
    cdc_value -c "SELECT cdc_purge_tombstones('$target', feed.safe_position($1))" >>"$log" 2>&1
  }
  cdc_psql -c "SET client_min_messages = error" -c "CALL feed.new_target('$tab', '$home')" >/dev/null
  case $delivery in
    purge)
      deliver 0 0 2 && purge 2 && deliver 0 3 5 && purge 5 || lost=1 ;;
    *)
      for ((part = 0; part < parts; part++)); do
        deliver "$part" & pids+=($!)
      done
      for part in "${pids[@]}"; do wait "$part" || lost=1; done ;;
  esac
  case $delivery in
    replay | purge)
      before=$(cdc_value -c "SELECT feed.footprint('$tab', '$home')")
      deliver 0 || lost=1
      after=$(cdc_value -c "SELECT feed.footprint('$tab', '$home')")
      same=", unmoved"
      [ "$before" = "$after" ] || { moved=1; same=", ROWS MOVED"; } ;;
    forget)
      cdc_psql -c "CALL feed.forget_deletes('$tab', '$home')"
      deliver 0 0 4 || lost=1 ;;
  esac
}

# variant TABLE record|commit full|carried|late|stream DELIVERY
variant() {
  local tab=$1 kind=$2 image=$3 delivery=$4 name="$1 $2 $3 $4" options= how=$4 parts=1 homes=(row side)
  local commit=false same= moved=0 lost=0 home facts ok=1 tail= log=$CDC_WORK/variant.log
  local differ wrong dead bad_sums delivered counted left seconds apart unequal all_seconds= all_differ=
  # a TRUNCATE, which only account has, and a purge need an attached target
  [ "$tab" = account ] || [ "$delivery" = purge ] || homes=(free side)
  [ "$kind" = record ] || { commit=true; options+=", snapshot_position => 'event'"; }
  [ "$image" != carried ] || options+=", unchanged_column => '__unchanged'"
  case $delivery in
    consume) how=shuffled-twice; options+=", consume => 'delete'" ;;
    concurrent) parts=2 ;;
  esac
  feed_queue "$(feed_events "$tab" "$kind" "$image")" "$(feed_delivery "$how")"
  : >"$log"
  for home in "${homes[@]}"; do
    play "$home"
    # facts: differing, wrong keys, dead keys, calls whose sum is wrong,
    # events delivered, events counted, rows that consume left, seconds
    facts=$(cdc_value -F ' ' <<SQL
SELECT v.*, c.* FROM feed.verify('$tab', $commit, $commit, '$home') v,
  (SELECT count(*) FILTER (WHERE events <> inserted + updated + deleted + stale
            + duplicate + superseded + fenced + ignored + truncated OR events <> delivered),
          coalesce(sum(delivered), 0), coalesce(sum(events), 0),
          coalesce(sum(left_over), 0), round(coalesce(sum(seconds), 0)::numeric, 1)
   FROM feed.call WHERE variant = '$name $home') c
SQL
    )
    read -r differ wrong dead bad_sums delivered counted left seconds <<<"$facts"
    if [ "$delivery" = forget ]; then
      [ "$differ" != 0 ] || { ok=0; tail+=" ($home: NOT SEEN)"; }
    else
      [ "$differ $wrong" = "0 0" ] || { ok=0; tail+=" ($home: $wrong keys with a wrong position or life)"; }
    fi
    [ "$bad_sums $lost" = "0 0" ] || { ok=0; tail+=" ($home: $bad_sums calls with a wrong sum)"; }
    [ "$delivered" = "$counted" ] && [ "$delivered" != 0 ] || { ok=0; tail+=" ($home: $counted events counted)"; }
    [ "$moved" = 0 ] || ok=0
    [ "$delivery" != consume ] || [ "$left" = 0 ] || { ok=0; tail+=" ($home: $left left in staging)"; }
    all_seconds+="${all_seconds:+ +} $seconds"
    all_differ+="${all_differ:+ +} $differ"
  done
  # between the homes: keys, and calls with other counts (which of two sessions
  # comes first is open, so with two the calls are not compared)
  apart=$(cdc_value -c "SELECT feed.between_homes('$tab', '${homes[0]}')")
  unequal=$(cdc_value -c "
    SELECT count(*) FROM (
      SELECT batch, events, inserted, updated, deleted, stale, duplicate, superseded, fenced, ignored, truncated,
             row_number() OVER (PARTITION BY variant ORDER BY nr) AS nr
      FROM feed.call WHERE variant IN ('$name ${homes[0]}', '$name side')) c
    GROUP BY c HAVING count(*) <> 2" | wc -l)
  [ "$parts" = 1 ] || unequal=0
  [ "$apart" = 0 ] || { ok=0; tail+=" (homes differ in $apart keys)"; }
  [ "$unequal" = 0 ] || { ok=0; tail+=" (homes differ in the counts of calls)"; }
  verdict "$ok" "$(printf '%-7s %-6s %-7s %-14s %7s events %11s s,%s differ%s%s' \
    "$tab" "$kind" "$image" "$delivery" "$delivered" "$all_seconds" "$all_differ" "$same" "$tail")"
  if [ "$ok" = 0 ]; then
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
FEED_TRUNCATE=1
feed_capture "$events"
cdc_say "captured $FEED_EVENTS changes by 8 clients, COPY and a TRUNCATE in $((SECONDS - begin)) s"

cdc_say "$(cdc_value -c "SELECT count(*) FROM (SELECT lsn FROM feed.account_event UNION ALL SELECT lsn FROM feed.doc_event) e
  WHERE (lsn - '0/0'::pg_lsn) % 8 <> 0") changes had a lower LSN than an earlier change of the same key, and were given a higher one"
while IFS='|' read -r what bad; do
  verdict "$([ "$bad" = 0 ] && echo 1 || echo 0)" "feed itself: $what ($bad offend)"
done < <(cdc_value -c "SELECT * FROM feed.self_check()")

for kind in record commit; do
  for delivery in in-order shuffled shuffled-twice cut middle replay concurrent consume purge forget; do
    variant account $kind full $delivery
  done
  for delivery in in-order shuffled cut middle replay purge; do
    variant doc $kind carried $delivery
  done
  for delivery in shuffled-twice concurrent forget; do
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
         sum(superseded) AS superseded, sum(fenced) AS fenced, sum(ignored) AS ignored,
         sum(truncated) AS truncated FROM feed.call"
cdc_say "feed took $((SECONDS - begin)) s"
cdc_say "feed: $passed passed, $failed failed"
[ "$failed" = 0 ]
