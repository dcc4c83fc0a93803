# Shared by the scripts of test/ops: databases, and checks that are counted.
# Sourced by run.sh; every group of checks is a function of a file of its own.
# Databases and roles are named ops_*, and only those are made and dropped.

passed=0
failed=0

ok() { passed=$((passed + 1)); printf 'ok - %s\n' "$*"; }
not_ok() { # WHAT [TEXT]
  failed=$((failed + 1))
  printf 'not ok - %s\n' "$1"
  [ $# -lt 2 ] || head -n 15 <<<"$2" | sed 's/^/    /'
}

# is WHAT GOT WANT
is() {
  if [ "$2" = "$3" ]; then
    ok "$1"
  else
    not_ok "$1" "got:  $2
want: $3"
  fi
}

# sql DATABASE [PSQL ARGUMENT...]: unaligned rows, stops at the first error.
sql() {
  local db=$1
  shift
  psql -X -q -v ON_ERROR_STOP=1 -At -d "$db" "$@"
}

# works WHAT DATABASE [PSQL ARGUMENT...]: it must run without an error.
works() {
  local what=$1 out
  shift
  if out=$(sql "$@" 2>&1 </dev/null); then ok "$what"; else not_ok "$what" "$out"; fi
}

# gives WHAT WANT DATABASE [PSQL ARGUMENT...]: what a query gives, errors too;
# empty lines, as of a function that returns nothing, do not count.
gives() {
  local what=$1 want=$2 out
  shift 2
  out=$(sql "$@" 2>&1 </dev/null | sed '/^$/d') || true
  is "$what" "$out" "$want"
}

# refused WHAT SQLSTATE DATABASE [PSQL ARGUMENT...]: it must end in that error;
# SQLSTATE is a regular expression.
refused() {
  local what=$1 state=$2 out
  shift 2
  if out=$(sql "$@" -v VERBOSITY=verbose 2>&1 </dev/null); then
    not_ok "$what" "was not refused: ${*: -1}"
  elif grep -qE "(ERROR|FATAL):  ($state):" <<<"$out"; then
    ok "$what"
  else
    not_ok "$what" "not $state: $out"
  fi
}

# either WHAT SQLSTATE DATABASE [PSQL ARGUMENT...]: it may work or end in that
# error, and in no other.
either() {
  local what=$1 state=$2 out
  shift 2
  if out=$(sql "$@" -v VERBOSITY=verbose 2>&1 </dev/null) || grep -qE "ERROR:  ($state):" <<<"$out"; then
    ok "$what"
  else
    not_ok "$what" "neither worked nor was $state: $out"
  fi
}

# counted DATABASE [PSQL ARGUMENT...]: a script that prints its own checks, as
# lines "ok - .." and "not ok - ..".
counted() {
  local out good bad status=0
  out=$(sql "$@" 2>&1) || status=$?
  out=$(sed '/^|*$/d' <<<"$out")
  printf '%s\n' "$out"
  good=$(grep -c '^ok - ' <<<"$out" || true)
  bad=$(grep -c '^not ok - ' <<<"$out" || true)
  passed=$((passed + good))
  failed=$((failed + bad))
  if [ "$status" != 0 ]; then
    not_ok "the script above ends in an error"
  fi
}

# new_database NAME [OWNER]
new_database() {
  dropdb --if-exists --force "$1" 2>/dev/null
  createdb ${2:+-O "$2"} "$1"
}

# A session that stays open: background NAME DATABASE SQL, until ended.
background() {
  local name=$1 db=$2 tries=0
  sql "$db" -c "SET application_name = '$name'" -c "$3" -c "SELECT 'ready'" \
    -c "SELECT pg_sleep(300)" >"$ops_tmp/$name.out" 2>&1 </dev/null &
  until grep -q '^ready' "$ops_tmp/$name.out"; do
    tries=$((tries + 1))
    if [ $tries -gt 600 ] || ! kill -0 $! 2>/dev/null; then
      cat "$ops_tmp/$name.out"
      return 1
    fi
    sleep 0.1
  done
}
end_background() { # NAME
  sql postgres -c "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
    WHERE application_name = '$1'" >/dev/null
}
