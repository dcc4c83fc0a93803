#!/usr/bin/env bash
# The law test, in five parts: random histories, delivered in every way, against
# cdc_apply (law.py), single batches, applied in every way (ways.py), histories
# whose events leave values out, in any order (columns.py), snapshots of a live
# source among its events (snapshots.py), and the versions that
# cdc_apply_history keeps (versions.py).
# Needs python3 and a running server (PGHOST, PGPORT, PGUSER) that has the
# extension installed. Options: run.sh --help; one seed or wrong appliers are
# the first part's alone; --help of the others tells of theirs.
set -uo pipefail
cd "$(dirname "$0")"

seconds=15
for option in "$@"; do
  case $option in
    --long) seconds=600 ;;
    --seed | --seed=* | --mutate | --mutation | --mutation=* | --help | -h) exec python3 law.py "$@" ;;
  esac
done

passed=0
failed=0
out=$(mktemp "${TMPDIR:-/tmp}/cdc-law.XXXXXX")
trap 'rm -f "$out"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# A program whose last line is "NAME: N passed, N failed".
run_python() { # NAME ARGUMENT...
  local name=$1 status=0 last ok bad
  shift
  python3 "$@" 2>&1 | tee "$out" | sed "/^$name: [0-9]* passed, [0-9]* failed\$/d" || status=$?
  last=$(grep -E "^$name: [0-9]+ passed, [0-9]+ failed\$" "$out" | tail -n 1) || last="0 passed, 1 failed"
  read -r ok bad < <(sed 's/^[^0-9]*\([0-9]*\) passed, \([0-9]*\) failed/\1 \2/' <<<"$last")
  if [ "$status" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
  passed=$((passed + ok))
  failed=$((failed + bad))
}
run_python law law.py "$@"
run_python ways ways.py --seconds "$seconds"
run_python columns columns.py --seconds "$seconds"
run_python snapshots snapshots.py --seconds "$seconds"
run_python versions versions.py "$@"
printf 'law: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
