#!/usr/bin/env bash
# The fuzz test, in six parts:
#   position    the pure core of the type (position.c): libFuzzer with address
#               and undefined-behaviour sanitizers where clang has it, else
#               inputs that the program makes up
#   source      in the same way the texts of sources (source.c)
#   values      the type and the deserializer of latest_by_position through
#               SQL, against a model (values.py)
#   parsers     what is read out of staging's values: ops, op_map, flags, lists of
#               unchanged columns, the placeholder; against a model (parsers.py)
#   payloads    raw events through event views, whole and mutated (payloads.py)
#   statements  random tables, options and events (statements.py)
# Needs python3, a C compiler, PG_CONFIG and a running server (PGHOST, PGPORT,
# PGUSER) that has the extension installed. A failure prints its seed; what
# failed is left in failures/.
set -euo pipefail
cd "$(dirname "$0")"

seed=$((RANDOM * 32768 + RANDOM))
core=5
values=3000
parsers=500
payloads=100
seconds=20
seeds=1000000
only=
usage() {
  cat <<'USAGE'
usage: test/fuzz/run.sh [--long] [--seed N] [--only position|source|values|parsers|payloads|statements]
  --long    a quarter of an hour each
  --seed N  what is random follows from N; it is printed
  --only    one part
For one seed of the statements: python3 test/fuzz/statements.py --start N --seeds 1
USAGE
}
while [ $# -gt 0 ]; do
  case $1 in
    --long) core=900; values=100000; parsers=30000; payloads=6000; seconds=900 ;;
    --seed) seed=${2:?}; shift ;;
    --only) only=${2:?}; shift ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
wanted() { [ -z "$only" ] || [ "$only" = "$1" ]; }

work=$(mktemp -d "${TMPDIR:-/tmp}/cdc-fuzz.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
chmod 711 "$work"   # the server loads a module from it
passed=0
failed=0
verdict() { # OK TEXT
  if [ "$1" = 1 ]; then
    passed=$((passed + 1)); printf 'ok    %s\n' "$2"
  else
    failed=$((failed + 1)); printf 'FAIL  %s\n' "$2"
  fi
}
# A program whose last line is "NAME: N passed, N failed".
run_python() { # NAME SCRIPT ARGUMENT...
  local name=$1 status=0 last ok bad
  shift
  python3 "$@" >"$work/out" 2>&1 || status=$?
  grep -vE "^$name: [0-9]+ passed, [0-9]+ failed\$" "$work/out" || true
  last=$(grep -E "^$name: [0-9]+ passed, [0-9]+ failed\$" "$work/out" | tail -n 1) || last="0 passed, 1 failed"
  read -r ok bad < <(sed 's/^[^0-9]*\([0-9]*\) passed, \([0-9]*\) failed/\1 \2/' <<<"$last")
  passed=$((passed + ok))
  failed=$((failed + bad))
}

include=(-I"$("$PG_CONFIG" --includedir-server)" -I../../src)
printf 'fuzz: seed %s\n' "$seed"

# Sanitizers of some ages do not start wherever the kernel may put things
# (vm.mmap_rnd_bits), and look for leaks only where they may trace themselves:
# one that does not even run empty, time and again, is done without.
sanitizers="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
fixed=()
if setarch -R true >/dev/null 2>&1; then fixed=(setarch -R); fi
starts() { # PROGRAM ARGUMENT..., with which it does nothing
  local try
  for try in 1 2 3 4 5; do
    timeout 60 ${fixed[@]+"${fixed[@]}"} "$@" >"$work/out" 2>&1 || { tail -n 3 "$work/out"; return 1; }
  done
}
# A harness outside of the server: libFuzzer, or what the program makes up.
run_core() { # NAME CORPUS SOURCE...
  local name=$1 corpus=$2 clang= status=0 each runs what file
  shift 2
  for each in clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14; do
    if command -v "$each" >/dev/null 2>&1; then clang=$each; break; fi
  done
  if [ -n "$clang" ] && "$clang" -g -O1 -Wno-ignored-attributes -fsanitize=fuzzer $sanitizers "${include[@]}" "$@" \
      -o "$work/$name" 2>"$work/compile" && starts "$work/$name" -help=1; then
    mkdir "$work/found-$name"
    ${fixed[@]+"${fixed[@]}"} "$work/$name" -seed="$((seed % 4294967295 + 1))" -max_total_time="$core" -max_len=300 \
      -print_final_stats=1 -artifact_prefix="$work/" "$work/found-$name" "$corpus" >"$work/out" 2>&1 || status=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/out")
    what="libFuzzer with sanitizers, ${runs:-?} inputs"
  else
    what="made up, with sanitizers, $((core * 100000)) inputs"
    if ! gcc -g -O1 -DSTANDALONE $sanitizers "${include[@]}" "$@" -o "$work/$name" 2>"$work/compile" ||
        ! starts "$work/$name" 0; then
      ${CC:-cc} -g -O1 -DSTANDALONE "${include[@]}" "$@" -o "$work/$name"
      what="made up, $((core * 100000)) inputs"
    fi
    ${fixed[@]+"${fixed[@]}"} "$work/$name" $((core * 100000)) "$seed" "$corpus"/* >"$work/out" 2>&1 || status=$?
  fi
  if [ "$status" != 0 ]; then
    tail -n 40 "$work/out"
    mkdir -p failures
    for file in "$work"/crash-* "$work"/leak-* "$work"/timeout-*; do
      if [ -f "$file" ]; then cp "$file" failures/; printf 'fuzz: kept in %s\n' "$PWD/failures/${file##*/}"; fi
    done
  fi
  verdict $((status == 0)) "$name: $what"
}
if wanted position; then
  run_core position corpus position.c ../../src/cdc_position.c
fi
if wanted source; then
  run_core source corpus_source source.c ../../src/cdc_source_text.c ../../src/cdc_position.c
fi

if wanted values; then
  # the deserializer takes its bytes from a module of the test's own
  if ${CC:-gcc} -shared -fPIC "${include[@]}" deserial.c -o "$work/deserial.so" 2>"$work/compile"; then
    run_python values values.py --seed "$seed" --count "$values" --module "$work/deserial.so"
  else
    cat "$work/compile"
    verdict 0 "values: deserial.c does not compile"
  fi
fi

if wanted parsers; then
  run_python parsers parsers.py --seed "$seed" --count "$parsers"
fi

if wanted payloads; then
  run_python payloads payloads.py --seed "$seed" --count "$payloads"
fi

if wanted statements; then
  run_python statements statements.py --start "$seed" --seeds "$seeds" --seconds "$seconds" --max-failures 5
fi

printf 'fuzz: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
