#!/usr/bin/env bash
# The real thing: Debezium's connectors, embedded, against private servers with
# clients at work, killed with kill -9 and started again. Their JSON lands in
# tables as a loader of a Kafka topic would leave it; cdc_event_view types it,
# cdc_apply applies it in every bad order; the targets must end as the source.
#
# Engines differ in how values are written (see postgres.properties), forms in
# what is landed: env (envelope), schema (envelope with its schema block), flat
# (after ExtractNewRecordState). Deliveries are those of test/feed/feed.sh.
#
# What a connector or a mode of it cannot give is listed in known.sql, with the
# reason: those cells are counted and said, and one that is listed but does not
# differ is a failure like any cell that differs and is not listed.
#
# Tried with PostgreSQL 15.20, OpenJDK 17.0.15, debezium-connector-postgres
# 3.6.1.Final, wal2json 2.5, MariaDB 10.11.19, debezium-connector-mariadb
# 3.5.0.Final (its 3.6.1.Final is not served; the MySQL one was not needed).
set -euo pipefail
cd "$(dirname "$0")/../../.."
. test/lib.sh
. test/feed/feed.sh
DBZ_POSTGRES=3.6.1.Final
DBZ_MARIADB=3.5.0.Final   # the newest whose connector for MariaDB is served
. test/feed/debezium/parts.sh
. test/feed/debezium/deliver.sh

long=
usage() {
  cat <<'USAGE'
usage: test/feed/debezium/run.sh [--long] [--seed N] [--ready] [--help]
  --long   a longer load, every engine with every form and delivery, a snapshot
           that breaks off, and MariaDB
  --ready  only says why a run would have to fetch or install something
           first; says nothing when all is there
The connectors' jars are kept below CDC_CACHE (~/.cache/cdc_precedence).
USAGE
}
while [ $# -gt 0 ]; do
  case $1 in
    --long) long=1 ;;
    --seed) FEED_SEED=${2:?}; shift ;;
    --ready) dbz_missing; exit 0 ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
DBZ_RATE=40 pause=2
[ -z "$long" ] || { DBZ_RATE=200 pause=8; }

passed=0
failed=0
# verdict OK TEXT...
verdict() {
  if [ "$1" = 1 ]; then
    passed=$((passed + 1)); printf 'ok    '
  else
    failed=$((failed + 1)); printf 'FAIL  '
  fi
  shift
  printf '%s\n' "$*"
}
# truth SQL TEXT...: SQL must say t
truth() { verdict "$([ "$(cdc_value -c "$1")" = t ] && echo 1 || echo 0)" "${@:2}"; }

cdc_prepare wal2json
[ -n "${CDC_PREPARED:-}" ] || cdc_build
begin=$SECONDS
dbz_prepare postgres "$DBZ_POSTGRES" || cdc_die "no connector"
dbz_server feed
cdc_allow_plugin "wal2json', 'pgoutput"   # a list

. test/feed/debezium/postgres.sh
for part in variants slots shards ${long:+restart mariadb}; do
  . test/feed/debezium/$part.sh
done

cdc_say "what sources and connectors cannot give, and where that was seen:"
cdc_psql -P border=0 -P footer=off -c "SELECT engine, tab, col, cells, why FROM feed.known JOIN feed.known_seen USING (nr) ORDER BY nr"
truth "SELECT count(*) = 0 FROM feed.known LEFT JOIN feed.known_seen USING (nr) WHERE coalesce(cells, 0) = 0" \
  "each of these was seen$(cdc_value -c "SELECT coalesce(', but not: ' || string_agg(concat_ws(' ', engine, tab, col), '; '), '') FROM feed.known LEFT JOIN feed.known_seen USING (nr) WHERE coalesce(cells, 0) = 0")"
cdc_say "debezium took $((SECONDS - begin)) s"
cdc_say "debezium: $passed passed, $failed failed"
[ "$failed" = 0 ]
