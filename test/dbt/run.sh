#!/usr/bin/env bash
# The dbt package with real dbt: first run, later runs, full refreshes, failures,
# changes of the schema, threads, names that need quotes; then the example of
# docs/dbt.md, installed as a user does.  Every table is compared with what SQL
# makes of all events delivered.
#
#   bash test/dbt/run.sh
#
# The server is the one of PGHOST, PGUSER ..; without PGHOST one of its own is
# started.  dbt comes from CDC_DBT (the bin directory of a Python environment
# that has it), else from an environment below the user's cache directory, made
# with pip on the first run.  Without dbt the suite says so and is skipped.
# Ends with "dbt: N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/lib.sh

skip() {
  cdc_say "dbt: skipped, because $*"
  cdc_say "dbt: 0 passed, 0 failed"
  exit 0
}

# dbt can be imported, and speaks PostgreSQL
has_dbt() { "$1/python" -c 'import dbt.cli.main, dbt.adapters.postgres' >/dev/null 2>&1; }

if [ -n "${PGHOST:-}" ]; then
  cdc_workdir
  CDC_BIN=$(dirname "$(command -v psql)")
else
  cdc_prepare
fi

bin=${CDC_DBT:-}
if [ -z "$bin" ]; then
  command -v python3 >/dev/null 2>&1 || skip "there is no python3"
  env=${XDG_CACHE_HOME:-$HOME/.cache}/cdc_precedence/dbt
  bin=$env/bin
  if ! has_dbt "$bin"; then
    mkdir -p "${env%/*}"
    log=$CDC_WORK/pip.log
    python3 -m venv --clear "$env" >"$log" 2>&1 || skip "python3 makes no environment: $(tail -n 1 "$log")"
    # the newest dbt-core builds a part from a file that not every network
    # reaches; its predecessor does without
    timeout 300 "$bin/pip" install -q dbt-core dbt-postgres >"$log" 2>&1 ||
      timeout 300 "$bin/pip" install -q 'dbt-core<1.12' dbt-postgres >"$log" 2>&1 || {
        rm -rf "$env"
        skip "dbt-core and dbt-postgres cannot be installed: $(tail -n 1 "$log")"
      }
  fi
fi
has_dbt "$bin" || skip "there is no dbt-core with dbt-postgres in $bin"

if [ -z "${PGHOST:-}" ]; then
  cdc_build
  cdc_server_start dbt
fi

export DBT_SEND_ANONYMOUS_USAGE_STATS=false
export PATH=$bin:$CDC_BIN:$PATH
status=0
"$bin/python" test/dbt/dbt_test.py "$CDC_WORK" || status=$?
exit "$status"
