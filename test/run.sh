#!/usr/bin/env bash
# Builds the extension, starts a throwaway server and runs every test suite.
# Ends with one line "N passed, N failed"; exit status 0 only without a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
. test/lib.sh

usage() {
  cat <<'USAGE'
usage: test/run.sh [--long] [--only SUITE] [--help]
  --long        more histories, a longer feed, longer fuzzing and storms than a
                quick run has
  --only SUITE  one of: regress isolation readme law ops rerun dbt feed debezium
                fuzz memory crash bench majors (may be given several times); dbt
                needs Python packages, or is skipped; majors are other
                servers, in chroots, where these can be made: see
                test/majors.sh; bench is the benchmark's shape, not its times;
                debezium runs by itself only where Java and the connectors are
                there already, and fetches them if it is named or with --long
PG_CONFIG chooses the server; without it the distribution's is used and, where
it is missing, installed. Nothing is left running and nothing is left behind.
USAGE
}

only=" "
long=
while [ $# -gt 0 ]; do
  case $1 in
    --long) long=--long ;;
    --only)
      [ $# -ge 2 ] || { usage >&2; exit 2; }
      case $2 in
        regress | isolation | readme | law | ops | rerun | dbt | feed | debezium | fuzz | memory | crash | bench | majors) only="$only$2 " ;;
        *) usage >&2; exit 2 ;;
      esac
      shift ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
wanted() { [ "$only" = " " ] || [[ $only == *" $1 "* ]]; }

passed=0
failed=0
since=$SECONDS
scripts=0
troubles=()
# add SUITE PASSED FAILED [FILE]: prints the suite's count and time, and adds
# it up; what FILE says of failures is said again at the end.
add() {
  cdc_say "$1: $2 passed, $3 failed ($((SECONDS - since)) s)"
  since=$SECONDS
  passed=$((passed + $2))
  failed=$((failed + $3))
  if [ "$3" != 0 ]; then troubles+=("$1: $2 passed, $3 failed|${4:-}"); fi
}

# The end of a long log is what is read first: it tells what failed.
say_troubles() {
  local each file lines
  for each in ${troubles[@]+"${troubles[@]}"}; do
    file=${each##*|}
    cdc_say "== ${each%|*}"
    if [ -s "$file" ]; then
      case $file in
        *.diffs) head -n 80 "$file" ;;
        *)
          lines=$(grep -n -E -B 2 -A 12 '^ *(FAIL|not ok)' "$file" || tail -n 40 "$file")
          head -n 80 <<<"$lines" ;;
      esac
    fi
  done
}

# pg_regress speaks of each test as "test x ... ok" up to 15, as TAP from 16.
run_pg_regress() { # SUITE MAKE_VARIABLE...
  local suite=$1 out=$CDC_WORK/$1.out ok bad status=0
  shift
  make -C "$CDC_BUILD" "PG_CONFIG=$PG_CONFIG" installcheck "$@" >"$out" 2>&1 || status=$?
  grep -E '^(test |ok |not ok | +[a-z0-9_]+ +\.\.\. )' "$out" || true
  ok=$(grep -cE '^ok [0-9]|^(test )?.*\.\.\. ok' "$out" || true)
  bad=$(grep -cE '^not ok [0-9]|^(test )?.*\.\.\. FAILED' "$out" || true)
  if [ "$status" != 0 ]; then
    if [ -s "$CDC_BUILD/regression.diffs" ]; then
      # the next suite writes the same file
      out=$CDC_WORK/$suite.diffs
      cp "$CDC_BUILD/regression.diffs" "$out"
    fi
    cat "$out"
    [ "$bad" != 0 ] || bad=1
  fi
  add "$suite" "$ok" "$bad" "$out"
}

# A suite of its own script: its last line is "SUITE: N passed, N failed".
run_script() { # SUITE SCRIPT ARGUMENT...
  local suite=$1 out status=0 ok=0 bad=0 last
  scripts=$((scripts + 1))
  out=$CDC_WORK/$1.$scripts.out   # a suite may run in two forms
  shift
  bash "$@" 2>&1 | tee "$out" | sed "/^$suite: [0-9]* passed, [0-9]* failed\$/d" || status=$?
  last=$(grep -E "^$suite: [0-9]+ passed, [0-9]+ failed\$" "$out" | tail -n 1 || true)
  if [ -n "$last" ]; then
    ok=$(sed 's/^[^0-9]*\([0-9]*\).*/\1/' <<<"$last")
    bad=$(sed 's/^.*, \([0-9]*\) failed/\1/' <<<"$last")
  fi
  if [ "$bad" = 0 ] && { [ "$status" != 0 ] || [ -z "$last" ]; }; then
    bad=1
  fi
  add "$suite" "$ok" "$bad" "$out"
}

want_wal2json=
if wanted feed || wanted debezium; then want_wal2json=wal2json; fi
cdc_prepare $want_wal2json

flags="-Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -DUSE_ASSERT_CHECKING"
if [ "$CDC_MAJOR" -ge 18 ]; then
  flags="$flags -Wno-missing-field-initializers"   # PG_MODULE_MAGIC_EXT
fi
cdc_build "PG_CFLAGS=$flags"
cdc_server_start server "max_prepared_transactions = 10"
since=$SECONDS

if wanted regress; then
  if compgen -G 'test/sql/*.sql' >/dev/null; then
    if ! cdc_value -c "CREATE COLLATION pg_temp.it (provider = icu, locale = 'und')" >/dev/null 2>&1; then
      without=$(grep -lE 'provider *= *icu' test/sql/*.sql | sed 's#.*/##; s#\.sql$##' | paste -sd ' ')
      tests=$(grep -LE 'provider *= *icu' test/sql/*.sql | sed 's#.*/##; s#\.sql$##' | paste -sd ' ')
      cdc_say "regress: the server has no ICU, left out: $without"
      run_pg_regress regress ISOLATION= "REGRESS=$tests"
    else
      run_pg_regress regress ISOLATION=
    fi
  else
    cdc_say "regress: skipped, test/sql has no tests"
  fi
fi
if wanted isolation; then
  if compgen -G 'test/specs/*.spec' >/dev/null; then
    run_pg_regress isolation REGRESS=
  else
    cdc_say "isolation: skipped, test/specs has no tests"
  fi
fi
if wanted readme; then
  run_script readme test/readme.sh
fi
if wanted law; then
  if [ -f test/law/run.sh ]; then
    run_script law test/law/run.sh $long
    # appliers that are wrong on purpose: the law test must be able to fail
    run_script law test/law/run.sh --mutate
  else
    cdc_say "law: skipped, test/law/run.sh is not there"
  fi
fi
if wanted ops; then
  run_script ops test/ops/run.sh
  # jobs of pg_cron, where it is installed, on a server of their own
  if [ -f "$("$PG_CONFIG" --pkglibdir)/pg_cron.so" ]; then
    before=("$PGHOST" "$CDC_SERVER_LOG")
    cdc_server_start cron "shared_preload_libraries = 'pg_cron'" "cron.database_name = 'ops_cron'" \
      "cron.use_background_workers = on" "cron.launch_active_jobs = on" "max_worker_processes = 20"
    run_script ops test/ops/run.sh cron
    export PGHOST=${before[0]}
    CDC_SERVER_LOG=${before[1]}
  else
    cdc_say "ops: pg_cron is not installed, its jobs are left out"
  fi
fi
if wanted rerun; then
  run_script rerun test/rerun.sh --server --self
fi
if wanted dbt; then
  run_script dbt test/dbt/run.sh
fi
if wanted feed; then
  CDC_PREPARED=1 run_script feed test/feed/run.sh $long
fi
if wanted debezium; then
  missing=$(bash test/feed/debezium/run.sh --ready)
  if [ -z "$missing" ] || [ -n "$long" ] || [ "$only" != " " ]; then
    CDC_PREPARED=1 run_script debezium test/feed/debezium/run.sh $long
  else
    cdc_say "debezium: skipped, because $missing"
  fi
fi
if wanted fuzz; then
  CDC_SERVER_LOG=$CDC_SERVER_LOG run_script fuzz test/fuzz/run.sh $long
fi
if wanted memory; then
  run_script memory test/memory/run.sh $long
fi
if wanted crash; then
  CDC_PREPARED=1 run_script crash test/crash/run.sh $long
  CDC_PREPARED=1 run_script crash test/crash/run.sh $long --physical
fi
if wanted bench; then
  # small, and only that every competitor runs and ends with the same rows
  shapes=(--only initial --only update --only hot --only micro --only wide
    --only deletes --only keys --only agg --only position)
  if [ -n "$long" ]; then shapes=(); fi
  CDC_PREPARED=1 run_script bench test/bench/run.sh --scale 0.003 --rounds 1 ${shapes[@]+"${shapes[@]}"}
fi
if wanted majors && [ -z "${CDC_NO_MAJORS:-}" ]; then
  run_script majors test/majors.sh --limit 240
fi

if cdc_crashes; then
  cdc_say "the server crashed or failed an assertion (lines above)"
  failed=$((failed + 1))
fi
say_troubles
cdc_say "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
