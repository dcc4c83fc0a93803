#!/usr/bin/env bash
# The crash test (crash.py) on servers of its own: one that is killed again
# and again, and a physical standby of it; before that, many sessions at once
# on the same targets (commotion.py).
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/lib.sh

level=logical
seconds=16
commotion=6
stream=20
arguments=()
usage() {
  cat <<'USAGE'
usage: test/crash/run.sh [--long] [--physical] [--seconds N] [--seed N] [--only storm|consume]
  --long       15 minutes, 100000 events, 5 minutes of commotion, and 2 of the stream
  --physical   the storm alone, with wal_level = replica and so without a subscriber:
               new rows are written together there
  --seconds N  so long (without the start of the servers, commotion, stream and the end)
  --seed N     what is random follows from N; the moments of the kills do not
USAGE
}
while [ $# -gt 0 ]; do
  case $1 in
    --long) seconds=900; commotion=300; stream=120; arguments+=(--events 100000 --keys 20000) ;;
    --physical) level=replica; arguments+=(--physical --only storm) ;;
    --seconds) seconds=${2:?}; shift ;;
    --seed | --only) arguments+=("$1" "${2:?}"); shift ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

command -v python3 >/dev/null 2>&1 || cdc_die "python3 is missing"

# signal 9 is this test's own doing
cdc_crashes() {
  local dir
  for dir in ${CDC_DATADIRS[@]+"${CDC_DATADIRS[@]}"}; do
    grep -A 4 -E 'PANIC|TRAP:|was terminated by signal' "${dir%/data}/log" |
      grep -E 'PANIC|TRAP:|was terminated by signal ([1-8]|[1-3][0-9])\b' && return 0
  done
  return 1
}

cdc_prepare
[ -n "${CDC_PREPARED:-}" ] || cdc_build "PG_CFLAGS=-DUSE_ASSERT_CHECKING"
# a killed process may leave half a page behind
cdc_server_start crash "full_page_writes = on" "wal_level = $level" "max_wal_senders = 10" \
  "max_replication_slots = 10" "autovacuum_naptime = 1s" "checkpoint_timeout = 30s" \
  "wal_retrieve_retry_interval = 200ms" "wal_receiver_timeout = 10s" "max_standby_streaming_delay = -1" \
  "wal_keep_size = '2GB'" "restart_after_crash = on" "deadlock_timeout = 200ms"
home=$CDC_WORK/crash
standby=$CDC_WORK/standby
mkdir -p "$standby/socket"
if [ "$(id -u)" = 0 ]; then chown -R "$(stat -c %U "$home/data")" "$standby"; fi
chmod 700 "$standby/socket"
cdc_as_server "$CDC_BIN/pg_basebackup" -h "$home/socket" -U postgres -D "$standby/data" -R -X stream -c fast \
  --no-sync >"$CDC_WORK/basebackup.log" 2>&1 || { cat "$CDC_WORK/basebackup.log" >&2; cdc_die "pg_basebackup failed"; }
echo "unix_socket_directories = '$standby/socket'" | cdc_as_server tee -a "$standby/data/postgresql.auto.conf" >/dev/null
CDC_DATADIRS+=("$standby/data")
cdc_as_server "$CDC_BIN/pg_ctl" -D "$standby/data" -l "$standby/log" -w -t 120 start >"$CDC_WORK/start.log" 2>&1 ||
  { cat "$CDC_WORK/start.log" "$standby/log" >&2; cdc_die "the standby did not start"; }

start="$(printf '%q ' "$CDC_BIN/pg_ctl" -D "$home/data" -l "$home/log" -w -t 120 start)"
if [ "$(id -u)" = 0 ]; then start="cd / && runuser -u $(stat -c %U "$home/data") -- $start"; fi
passed=0
failed=0
# A program whose last line is "NAME: N passed, N failed".
run_python() { # NAME SCRIPT ARGUMENT...
  local name=$1 status=0 last ok bad
  shift
  python3 "$@" >"$CDC_WORK/$name.out" 2>&1 || status=$?
  grep -vE "^$name: [0-9]+ passed, [0-9]+ failed\$" "$CDC_WORK/$name.out" || true
  last=$(grep -E "^$name: [0-9]+ passed, [0-9]+ failed\$" "$CDC_WORK/$name.out" | tail -n 1) || last="0 passed, 1 failed"
  read -r ok bad < <(sed 's/^[^0-9]*\([0-9]*\) passed, \([0-9]*\) failed/\1 \2/' <<<"$last")
  passed=$((passed + ok))
  failed=$((failed + bad))
}
if [ "$level" = logical ]; then
  run_python commotion test/crash/commotion.py --seconds "$commotion"
  run_python stream test/crash/stream.py --seconds "$stream" --log "$CDC_SERVER_LOG" --bin "$CDC_BIN"
fi
run_python crash test/crash/crash.py --data "$home/data" --bin "$CDC_BIN" --standby "$standby/socket" --start "$start" \
  --seconds "$seconds" ${arguments[@]+"${arguments[@]}"}
if cdc_crashes; then
  cdc_say "FAIL  the server crashed or failed an assertion by itself (lines above)"
  failed=$((failed + 1))
fi
cdc_say "crash: $passed passed, $failed failed"
[ "$failed" = 0 ]
