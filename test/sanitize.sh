#!/usr/bin/env bash
# Runs the regress and isolation suites with the module under a checker:
#   ubsan     the module compiled with UndefinedBehaviorSanitizer, its library
#             preloaded into the server: undefined arithmetic, shifts, bounds.
#             About as fast as an ordinary run.
#   valgrind  the whole server under memcheck: values used before they are set,
#             memory used after malloc's free. Many times slower. Chunks of
#             palloc inside one block are not told apart.
# Without a name both run. AddressSanitizer is not offered: Debian's server
# hangs at its start with that library preloaded.
# Fails on any report whose stack has a function of the module, and on a
# failing test. Not part of the ordinary run.
set -euo pipefail
cd "$(dirname "$0")/.."
. test/lib.sh

tool=
fuzz=
tests=()
usage() {
  cat <<'USAGE'
usage: test/sanitize.sh [ubsan | valgrind] [--fuzz SECONDS] [TEST...]
  --fuzz SECONDS  the fuzz test's statements instead of the suites, for so long
  TEST  names of regress tests; none: all of them, and the isolation suite
USAGE
}
while [ $# -gt 0 ]; do
  case $1 in
    ubsan | valgrind) tool=$1 ;;
    --fuzz) fuzz=${2:?}; shift ;;
    --help | -h) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) tests+=("$1") ;;
  esac
  shift
done

if [ -z "$tool" ]; then
  status=0
  for tool in ubsan valgrind; do
    bash test/sanitize.sh "$tool" ${fuzz:+--fuzz "$fuzz"} ${tests[@]+"${tests[@]}"} || status=1
  done
  exit "$status"
fi

cdc_prepare
case $tool in
  valgrind) command -v valgrind >/dev/null 2>&1 || cdc_install valgrind ;;
esac
reports=$CDC_WORK/reports
mkdir -p "$reports"
chmod 1777 "$reports"
CDC_POSTGRES=$CDC_WORK/postgres
flags="-g -O1 -fno-omit-frame-pointer -DUSE_ASSERT_CHECKING"
link=
if [ "$tool" = ubsan ]; then
  # the alignment of on-disk data is the server's convention
  flags="$flags -fsanitize=undefined -fno-sanitize=alignment"
  link="-fsanitize=undefined"
  lib=$(gcc -print-file-name=libubsan.so)
  case $lib in /*) ;; *) cdc_die "gcc has no libubsan (Debian: libgcc-NN-dev)" ;; esac
  cat >"$CDC_POSTGRES" <<WRAP
#!/bin/sh
export LD_PRELOAD="$lib"
export UBSAN_OPTIONS="print_stacktrace=1:log_path=$reports/ubsan"
exec "$CDC_BIN/postgres" "\$@"
WRAP
  cdc_say "checker: UndefinedBehaviorSanitizer in the module"
else
  # A datum with unset padding may be hashed, checksummed and written; these
  # are the server's own and known, so reports without cdc_ do not count.
  cat >"$CDC_POSTGRES" <<WRAP
#!/bin/sh
exec valgrind -q --trace-children=yes --child-silent-after-fork=no --leak-check=no \\
  --gen-suppressions=no --num-callers=30 --error-markers=BEGIN-REPORT,END-REPORT \\
  --log-file=$reports/memcheck.%p "$CDC_BIN/postgres" "\$@"
WRAP
  cdc_say "checker: valgrind memcheck, $(valgrind --version)"
fi
chmod 755 "$CDC_POSTGRES"

cdc_build "PG_CFLAGS=$flags" "SHLIB_LINK=$link" with_llvm=no
cdc_server_start server "jit = off" "max_stack_depth = '1MB'" "statement_timeout = 0"

status=0
run() { make -C "$CDC_BUILD" "PG_CONFIG=$PG_CONFIG" with_llvm=no installcheck "$@" || status=1; }
log=$CDC_WORK/tests.log
if [ -n "$fuzz" ]; then
  export CDC_SERVER_LOG
  python3 test/fuzz/statements.py --start "$RANDOM" --seeds 1000000 --seconds "$fuzz" --shrink 0 || status=1
  python3 test/fuzz/values.py --count 1000 || status=1
  python3 test/fuzz/parsers.py --count 300 || status=1
elif [ ${#tests[@]} != 0 ]; then
  run "REGRESS=${tests[*]}" ISOLATION=
else
  run ISOLATION=
  if compgen -G 'test/specs/*.spec' >/dev/null; then run REGRESS=; fi
fi >"$log" 2>&1
grep -E '^(test |ok |not ok |fuzz: |FAIL )' "$log" || cat "$log"
if [ -s "$CDC_BUILD/regression.diffs" ]; then
  head -n 200 "$CDC_BUILD/regression.diffs"
  status=1
fi
cdc_as_server "$CDC_BIN/pg_ctl" -D "${CDC_DATADIRS[0]}" -m fast -w -t 300 stop >/dev/null 2>&1 || true

# one report each: those with a frame of the module count
found=0
others=0
for file in "$reports"/*; do
  [ -s "$file" ] || continue
  if grep -qE '\bcdc_|latest_by_position|cdc_precedence' "$file"; then
    found=$((found + 1))
    head -n 80 "$file"
  else
    others=$((others + 1))
  fi
done
cdc_say "$tool: $found report files with functions of the module, $others without (the server's own)"
[ "$found" = 0 ] && [ "$status" = 0 ]
