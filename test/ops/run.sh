#!/usr/bin/env bash
# Operations: dump and restore, drops, locks and cost of attaching, hostile
# users, extension schemas, shards applied side by side; and jobs of pg_cron, on a server that has it
# preloaded for the database ops_cron. A running server (PGHOST, PGPORT, PGUSER of a
# superuser) with the extension installed is used; databases and roles named
# ops_* come and go.
#
#   bash test/ops/run.sh [dump] [drops] [locks] [hostile] [schemas] [shards]
#   bash test/ops/run.sh cron
#
# Ends with "ops: N passed, N failed", and with failure if any check failed.
set -euo pipefail
cd "$(dirname "$0")"
. ./ops.sh

for tool in psql createdb dropdb pg_dump pg_restore; do
  command -v $tool >/dev/null 2>&1 || { echo "$tool is missing: it comes with the server's client programs" >&2; exit 1; }
done

ops_tmp=$(mktemp -d)
ops_roles="ops_owner ops_user ops_other ops_mallory"
tidy() {
  local db role
  for db in $(psql -X -q -At -d postgres -c "SELECT datname FROM pg_database WHERE datname LIKE 'ops\_%'"); do
    dropdb --if-exists --force "$db"
  done
  for role in $ops_roles; do
    psql -X -q -d postgres -c "DROP ROLE IF EXISTS $role"
  done
}
cleanup() {
  local status=$?
  set +e
  tidy >/dev/null 2>&1
  rm -rf "$ops_tmp"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

export PGOPTIONS="-c client_min_messages=error ${PGOPTIONS:-}"
tidy
for role in $ops_roles; do
  psql -X -q -d postgres -c "CREATE ROLE $role LOGIN"
done

[ $# -gt 0 ] || set -- dump drops locks hostile schemas shards
for group in "$@"; do
  [ -f "$group.sh" ] || { echo "no such group: $group" >&2; exit 2; }
  begin=$SECONDS
  . "./$group.sh"
  # a command that fails unseen must not end the suite as a success
  "group_$group" || not_ok "$group ran to its end"
  echo "# $group: $((SECONDS - begin)) s"
done

echo "ops: $passed passed, $failed failed"
[ "$failed" = 0 ]
