#!/usr/bin/env bash
# The benchmark on a private server. See README.md beside this file; options:
# run.sh --help.
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/lib.sh

only=
native=
shared=4GB
last=
for arg in "$@"; do
  case $last$arg in
    # a small run asks a small machine for little memory
    --scale0.0* | --scale=0.0*) shared=256MB ;;
  esac
  last=$arg
  case $arg in
    --help | -h) exec python3 test/bench/bench.py --help ;;
    --only | --only=*) only=1 ;;
  esac
  [[ $arg != native && $arg != --only=native ]] || native=1
done
[ -n "$only" ] || native=1

# Production's settings, but for what would measure this machine's disk:
# no fsync, and log files enough to never be waited for.
settings=(
  "shared_buffers = '$shared'" "work_mem = '64MB'" "maintenance_work_mem = '1GB'"
  "wal_level = replica" "full_page_writes = on" "fsync = off" "synchronous_commit = on"
  "max_wal_size = '16GB'" "min_wal_size = '2GB'" "checkpoint_timeout = '1d'" "wal_buffers = '64MB'"
  "autovacuum = off" "jit = off" "effective_cache_size = '12GB'" "random_page_cost = 1.1"
  "max_parallel_workers_per_gather = 2" "log_checkpoints = off"
)

cdc_prepare
[ -n "${CDC_PREPARED:-}" ] || cdc_build
if [ -n "$native" ]; then
  # two clusters that sleep but for this one workload
  for role in PUBLISHER SUBSCRIBER; do
    cdc_server_start "${role,,}" "${settings[@]}" "shared_buffers = '2GB'" "wal_level = logical" "min_wal_size = '80MB'"
    export "CDC_BENCH_$role=$PGHOST"
  done
fi
cdc_server_start bench "${settings[@]}"
export CDC_BIN CDC_SERVER_LOG CDC_BENCH_DATA=$CDC_WORK/bench/data
status=0
python3 test/bench/bench.py "$@" || status=$?
if cdc_crashes; then
  status=1
fi
exit "$status"
