#!/usr/bin/env bash
# Is a pipeline safe to run again?  Runs it once, in order; then twice, out of
# order, and killed halfway, each time in a database of its own, and compares
# what its target holds in the end: number of rows, sums of its numeric
# columns, a hash of the whole table.  See docs/rerun.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

usage() {
  cat <<'USAGE'
usage: test/rerun.sh [--naive]
       test/rerun.sh --setup FILE --target TABLE --batches LIST
                     (--sql FILE | --run COMMAND) [OPTION...]
Without a pipeline of yours it takes its own sample, with cdc_apply or, with
--naive, with a plain upsert.
  --setup FILE      SQL, run by psql in each fresh database: extension, tables
  --batches LIST    names of the batches, in the order of the source, separated
                    by spaces; or a directory: its files, by name
  --sql FILE        what is done for a batch: SQL for psql, which finds the
                    batch in the variable batch (:'batch')
  --run COMMAND     the same as a command for sh, which finds the batch in
                    $BATCH and the database in PGHOST, PGDATABASE ..
  --target TABLE    what is compared
  --columns LIST    of these columns, separated by commas (all of them; leave
                    out what may differ, such as the time of loading)
  --where SQL       and these rows (all; dead rows in the target: 'NOT deleted')
  --truth QUERY     what the target must hold in the end, columns in the same
                    order; without it, what one run in order leaves
  --shuffles N      so many random orders, with repeats (5)
  --seed N          which they are (1)
  --server          databases cdc_rerun_* on the running server of PGHOST ..,
                    dropped in the end; without it a throwaway server
  --keep-going      shows all ways, not only up to the fifth that differs
Ends with "rerun: N passed, N failed", and with failure if anything differs.
USAGE
}

setup= batches= sql_file= run= target= columns= where=true truth= shuffles=5 seed=1
server= naive= self= give_up=5
while [ $# -gt 0 ]; do
  case $1 in
    --setup) setup=${2:?}; shift ;;
    --batches) batches=${2:?}; shift ;;
    --sql) sql_file=${2:?}; shift ;;
    --run) run=${2:?}; shift ;;
    --target) target=${2:?}; shift ;;
    --columns) columns=${2:?}; shift ;;
    --where) where=${2:?}; shift ;;
    --truth) truth=${2:?}; shift ;;
    --shuffles) shuffles=${2:?}; shift ;;
    --seed) seed=${2:?}; shift ;;
    --server) server=1 ;;
    --naive) naive=1 ;;
    --self) self=1 ;;
    --keep-going) give_up=1000 ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

sample() { # law | naive
  setup=$here/rerun/sample.sql
  sql_file=$here/rerun/$1.sql
  batches="1 2 3 4 5 6"
  target=item
  columns=id,name,amount
  where='NOT deleted'
  truth="SELECT id, name, amount FROM item_truth"
}
if [ -z "$setup$sql_file$run$target$batches" ]; then
  if [ -n "$naive" ]; then sample naive; else sample law; fi
elif [ -n "$naive$self" ]; then
  usage >&2
  exit 2
elif [ -z "$target" ] || [ -z "$batches" ] || { [ -z "$sql_file" ] && [ -z "$run" ]; }; then
  usage >&2
  exit 2
fi
for file in "$setup" "$sql_file"; do
  [ -z "$file" ] || [ -r "$file" ] || cdc_die "cannot read $file"
done
list=()
if [ -d "$batches" ]; then
  for file in "$batches"/*; do list+=("$(cd "$batches" && pwd)/${file##*/}"); done
else
  read -ra list <<<"$batches"
fi
[ ${#list[@]} -gt 0 ] || cdc_die "no batches"

# ---------------------------------------------------------------- databases

prefix=cdc_rerun_$$
if [ -n "$server" ]; then
  cdc_workdir
  CDC_BIN=$(dirname "$(command -v psql)") || cdc_die "no psql"
else
  cdc_prepare
  [ -n "${CDC_PREPARED:-}" ] || cdc_build
  cdc_server_start rerun
fi
work=$CDC_WORK
passed=0 failed=0

# what is left of a run is dropped, then what lib.sh has to tidy up
drop_databases() {
  local db
  for db in $(cdc_value -d postgres -c "SELECT datname FROM pg_database WHERE datname ~ '^${prefix}_'" 2>/dev/null); do
    cdc_psql -d postgres -c "DROP DATABASE IF EXISTS $db WITH (FORCE)" >/dev/null 2>&1
  done
}
finish() {
  local status=$?
  trap '' INT TERM HUP
  set +e
  drop_databases
  (exit $status)
  cdc_cleanup
}
trap finish EXIT

# an empty one, or a copy of one
fresh() { # DATABASE [TEMPLATE]
  cdc_psql -d postgres -c "SET client_min_messages = error" -c "DROP DATABASE IF EXISTS $1 WITH (FORCE)" \
    -c "CREATE DATABASE $1${2:+ TEMPLATE $2}"
}

# ---------------------------------------------------------------- the pipeline

# One batch, by a process group of its own, so that all of it can be killed.
start_batch() { # DATABASE BATCH
  if [ -n "$run" ]; then
    PGDATABASE=$1 BATCH=$2 setsid sh -c "$run" >"$work/batch.out" 2>&1 </dev/null 9>&- &
  else
    setsid "$CDC_BIN/psql" -X -q -v ON_ERROR_STOP=1 -v batch="$2" -d "$1" -f "$sql_file" >"$work/batch.out" 2>&1 </dev/null 9>&- &
  fi
  batch_pid=$!
}

# true if the batch went through
one_batch() { # DATABASE BATCH
  start_batch "$1" "$2"
  wait "$batch_pid" && return 0
  printf 'batch %s failed:\n' "$2"
  tail -n 5 "$work/batch.out"
  return 1
}

# Kill a batch after SECONDS, client and server process; it may be over by then.
kills=0 hits=0
killed_batch() { # DATABASE BATCH SECONDS
  start_batch "$1" "$2"
  sleep "$3"
  kills=$((kills + 1))
  if kill -0 "$batch_pid" 2>/dev/null; then hits=$((hits + 1)); fi
  kill -9 -- "-$batch_pid" 2>/dev/null || true
  wait "$batch_pid" 2>/dev/null || true
  cdc_value -d postgres -c "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = '$1'" >/dev/null
}

# ---------------------------------------------------------------- what it left

# The rows, to be shown where they differ, and their fingerprint: number, sums, hash.
# The target may have a column "t", hence t.*.
look() { # DATABASE NAME [QUERY]
  local query=${3:-"SELECT $columns FROM $target WHERE $where"} sums
  sums=$(cdc_value -d "$1" -c "SELECT coalesce(string_agg(format(', ''%s '' || coalesce(sum(%1\$I)::text, ''none'')', attname), '' ORDER BY attnum), '')
    FROM pg_attribute WHERE attrelid = '$target'::regclass AND attnum > 0 AND NOT attisdropped
      AND attname::text = ANY (string_to_array('$columns', ',')) AND atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'numeric'::regtype, 'money'::regtype)")
  cdc_value -d "$1" -c "SELECT concat_ws(', ', count(*) || ' rows'$sums, 'hash ' || coalesce(sum(hashtextextended(ROW(t.*)::text, 0)::numeric), 0)) FROM ($query) t" >"$work/$2.print"
  cdc_value -d "$1" -c "COPY (SELECT * FROM ($query) t ORDER BY ROW(t.*)::text COLLATE \"C\") TO STDOUT" >"$work/$2.rows"
}

differs() { # WHAT: says how it differs from the truth
  failed=$((failed + 1))
  printf 'not ok - %s: %s\n' "$1" "$(cat "$work/way.print")"
  diff "$work/truth.rows" "$work/way.rows" | grep '^[<>]' >"$work/diff" || true
  printf '    rows that should not be there: %s, that are missing: %s\n' \
    "$(grep -c '^>' "$work/diff" || true)" "$(grep -c '^<' "$work/diff" || true)"
  { grep '^>' "$work/diff" | head -n 2; grep '^<' "$work/diff" | head -n 2; } | sed -e 's/^>/    is:       /' -e 's/^</    should be:/'
}

compare() { # WHAT DATABASE
  look "$2" way
  if cmp -s "$work/truth.print" "$work/way.print"; then
    passed=$((passed + 1))
    printf 'ok - %s\n' "$1"
  else
    differs "$1"
  fi
}

# way WHAT STEP...: run it so, in a fresh database, and compare.  A step is
# +N: batch N; -N/F: batch N killed after the part F of its time; N from 0.
way() {
  local what=$1 step n db=${prefix}_way out=
  shift
  if [ "$failed" -ge "$give_up" ]; then return 0; fi
  fresh "$db" ${prefix}_empty
  for step in "$@"; do
    n=${step#?}
    if [ "${step%"$n"}" = + ]; then
      if ! out=$(one_batch "$db" "${list[n]}"); then
        failed=$((failed + 1))
        printf 'not ok - %s: %s\n' "$what" "$out"
        return 0
      fi
    else
      killed_batch "$db" "${list[${n%/*}]}" "$(awk -v t="${took[${n%/*}]}" -v f="${n#*/}" 'BEGIN { print t * f }')"
    fi
  done
  compare "$what" "$db"
}

# N numbers from 0 in a random order, by the seed
shuffled() { # SEED NUMBER...
  local s=$1
  shift
  printf '%s\n' "$@" | awk -v s="$s" 'BEGIN { srand(s) } { print rand() "\t" $0 }' | sort -n | cut -f 2
}

all_ways() {
  local n last=$((${#list[@]} - 1)) db=${prefix}_once begin order=() back=() twice=() killed=() later=() i f
  took=()
  for n in $(seq 0 $last); do
    order+=("+$n")
    back=("+$n" ${back[@]+"${back[@]}"})
    twice+=("+$n" "+$n")
  done

  fresh "$db" ${prefix}_empty
  for n in $(seq 0 $last); do
    begin=$(date +%s%N)
    one_batch "$db" "${list[n]}" >&2 || cdc_die "the pipeline does not run once"
    took[n]=$(awk -v ns=$(($(date +%s%N) - begin)) 'BEGIN { print ns / 1e9 }')
  done
  [ -n "$columns" ] || columns=$(cdc_value -d "$db" -c "SELECT string_agg(quote_ident(attname), ',' ORDER BY attnum)
    FROM pg_attribute WHERE attrelid = '$target'::regclass AND attnum > 0 AND NOT attisdropped")
  look "$db" truth ${truth:+"$truth"}
  # what leaves nothing ends alike in every way
  if [ -z "$truth" ] && [ ! -s "$work/truth.rows" ]; then
    cdc_die "one run left no row to compare in $target; if that is right, say so by --truth"
  fi
  cdc_say "once, in order: $(cat "$work/truth.print")"
  if [ -n "$truth" ]; then compare "once, in order" "$db"; fi

  way "each batch twice" "${twice[@]}"
  way "all of it twice" "${order[@]}" "${order[@]}"
  way "the first batch once more, at the end" "${order[@]}" +0
  way "in reverse order" "${back[@]}"
  for i in $(seq 1 "$shuffles"); do
    way "shuffled, with repeats ($((seed + i - 1)))" \
      $(shuffled $((seed + i - 1)) "${order[@]}" $(shuffled $((seed + i)) "${order[@]}" | head -n $((last / 2 + 1))))
  done
  # a killed batch is run again at once, or after the next one
  for f in 0.2 0.4 0.6 0.8; do
    killed=() later=()
    for n in $(seq 0 $last); do
      killed+=("-$n/$f" "+$n")
      if [ $((n % 2)) = 0 ] && [ "$n" -lt "$last" ]; then
        later+=("-$n/$f" "+$((n + 1))" "+$n")
      elif [ "$n" = "$last" ] && [ $((n % 2)) = 0 ]; then
        later+=("-$n/$f" "+$n")
      fi
    done
    way "each batch killed at $f of its time, and run again" "${killed[@]}"
    way "killed at $f, and run again after the next one" "${later[@]}"
  done
  if [ "$kills" -gt 0 ]; then
    cdc_say "# $hits of $kills kills met a batch that was running"
  fi
  if [ "$failed" -ge "$give_up" ]; then cdc_say "# not all ways were tried: --keep-going"; fi
}

begin_pipeline() {
  fresh ${prefix}_empty
  [ -z "$setup" ] || cdc_psql -d "${prefix}_empty" -f "$setup" >/dev/null || cdc_die "the setup failed"
}

if [ -z "$self" ]; then
  begin_pipeline
  all_ways
  cdc_say "rerun: $passed passed, $failed failed"
  [ "$failed" = 0 ]
  exit
fi

# ---------------------------------------------------------------- of itself
# The sample by cdc_apply must pass in every way, killed batches included; by
# a plain upsert it must be found out.
sample law
begin_pipeline
all_ways
law_passed=$passed law_failed=$failed
if [ "$hits" -ge $((kills / 4)) ]; then
  law_passed=$((law_passed + 1))
else
  law_failed=$((law_failed + 1))
  cdc_say "not ok - kills met running batches: $hits of $kills"
fi
passed=0 failed=0 give_up=1000
sample naive
begin_pipeline
all_ways >"$work/naive.out" 2>&1 || true
for what in "once, in order" "each batch twice"; do
  # right in order: what is found out is the order
  if grep -q "^ok - $what" "$work/naive.out"; then
    law_passed=$((law_passed + 1))
  else
    law_failed=$((law_failed + 1))
    cdc_say "not ok - a plain upsert, $what"
    cat "$work/naive.out"
  fi
done
for what in "the first batch once more, at the end" "in reverse order" "killed at 0.4, and run again after the next one"; do
  if grep -qF "not ok - $what" "$work/naive.out"; then
    law_passed=$((law_passed + 1))
    cdc_say "ok - a plain upsert is found out: $what"
  else
    law_failed=$((law_failed + 1))
    cdc_say "not ok - a plain upsert was not found out: $what"
    cat "$work/naive.out"
  fi
done
# what would pass whatever the pipeline does
found_out() { # WHAT TEXT
  begin_pipeline
  (failed=0 kills=0; all_ways) >"$work/blind.out" 2>&1 || true
  if grep -qF "$2" "$work/blind.out"; then
    law_passed=$((law_passed + 1))
    cdc_say "ok - $1"
  else
    law_failed=$((law_failed + 1))
    cdc_say "not ok - $1"
    cat "$work/blind.out"
  fi
}
setup=$here/rerun/tables.sql sql_file=$here/rerun/last.sql target='"Odd"' columns='id,t,v' where=true truth= shuffles=0 give_up=1
found_out 'a column "t" hides no other' "not ok - the first batch once more, at the end"
run=true
found_out "a pipeline that writes nothing is no pass" "left no row to compare"
cdc_say "rerun: $law_passed passed, $law_failed failed"
[ "$law_failed" = 0 ]
