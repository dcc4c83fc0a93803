#!/usr/bin/env bash
# Runs the regress and isolation suites with the module under a memory checker:
#   asan      (default) the module compiled with AddressSanitizer and
#             UndefinedBehaviorSanitizer, the server started with their
#             libraries preloaded: the module's own stack, globals, malloc and
#             undefined arithmetic. Chunks of palloc are the server's business
#             and are not told apart.
#   valgrind  the whole server under memcheck: values used before they are set,
#             reads behind what malloc gave. Many times slower.
# Fails on any report whose stack has a function of the module. A failing
# regress test fails too. Not part of the ordinary run.
set -euo pipefail
cd "$(dirname "$0")/.."
. test/lib.sh

tool=asan
tests=()
usage() {
  cat <<'USAGE'
usage: test/sanitize.sh [asan | valgrind] [TEST...]
  TEST  names of regress tests; none: all of them, and the isolation suite
USAGE
}
while [ $# -gt 0 ]; do
  case $1 in
    asan | valgrind) tool=$1 ;;
    --help | -h) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) tests+=("$1") ;;
  esac
  shift
done

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
if [ "$tool" = asan ]; then
  flags="$flags -fsanitize=address,undefined -fno-sanitize-recover=undefined"
  # alignment of on-disk data is the server's convention, checked by its own
  flags="$flags -fno-sanitize=alignment -fno-sanitize-recover=undefined"
  link="-fsanitize=address,undefined"
  libs="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
  for lib in $libs; do
    case $lib in /*) ;; *) cdc_die "gcc has no sanitizer libraries (Debian: libgcc-NN-dev)" ;; esac
  done
  cat >"$CDC_POSTGRES" <<WRAP
#!/bin/sh
export LD_PRELOAD="$libs"
export ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=0:log_path=$reports/asan"
export UBSAN_OPTIONS="print_stacktrace=1:log_path=$reports/ubsan"
exec "$CDC_BIN/postgres" "\$@"
WRAP
  cdc_say "checker: AddressSanitizer and UndefinedBehaviorSanitizer in the module"
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
unset LD_PRELOAD
cdc_server_start server "jit = off" "max_stack_depth = '1MB'" "statement_timeout = 0"

status=0
run() { make -C "$CDC_BUILD" "PG_CONFIG=$PG_CONFIG" with_llvm=no installcheck "$@" || status=1; }
if [ ${#tests[@]} != 0 ]; then
  run "REGRESS=${tests[*]}" ISOLATION=
else
  run ISOLATION=
  if compgen -G 'test/specs/*.spec' >/dev/null; then run REGRESS=; fi
fi 2>&1 | grep -vE '^(make|/bin/sh|echo|\+\+\+)' || true
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
