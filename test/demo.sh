#!/usr/bin/env bash
# The demo: one key played three ways, then a real feed delivered badly.
# Everything runs in a private server that is gone afterwards; every number is
# computed. Exit status 0 only if cdc_apply's targets equal their source.
set -euo pipefail
cd "$(dirname "$0")/.."
. test/lib.sh
. test/feed/feed.sh

events=30000
usage() {
  cat <<'USAGE'
usage: test/demo.sh [--events N] [--help]
  --events N  size of the real feed (30000)
USAGE
}
while [ $# -gt 0 ]; do
  case $1 in
    --events) events=${2:?}; shift ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
title() { printf '\n%s\n%s\n' "$1" "$(printf '%s' "$1" | tr -c '' '-')"; }

cdc_prepare wal2json
cdc_build
feed_start

title "One key, played three ways"
cdc_say "100 sets 'a', 200 sets 'b', 300 deletes; the numbers are log positions."
cdc_say "upsert: the last arrival wins. by clock: an upsert guarded by the change's"
cdc_say "timestamp. cdc_apply: the greatest log position wins. '!' is wrong."
cdc_psql -f test/demo.sql
wrong=$(cdc_value -c "SELECT count(*) FROM demo.result WHERE applied <> source")

title "A real feed"
cdc_say "A source database under 8 clients and COPY, read through a logical slot"
cdc_say "with wal2json; the initial rows come from the slot's snapshot ..."
begin=$SECONDS
feed_capture "$events"
cdc_say "$FEED_EVENTS changes captured in $((SECONDS - begin)) s. Now the delivery: in random order,"
cdc_say "30 % of the events twice, cut into 24 batches that two sessions apply at once."
feed_queue "$(feed_events account record full)" "$(feed_delivery concurrent)"
cdc_psql -c "SET client_min_messages = error" -c "CALL feed.new_target('account')"
cdc_psql -c "CALL feed.deliver('demo', 'feed.account', 'feed.stage_0', '', 0, 2)" & one=$!
cdc_psql -c "CALL feed.deliver('demo', 'feed.account', 'feed.stage_1', '', 1, 2)" & two=$!
wait "$one"
wait "$two"
cdc_psql <<'SQL'
-- the same delivery, row by row, by a plain upsert
CREATE TABLE feed.upserted (LIKE feed.account_end, PRIMARY KEY (branch, no));
DO $$
DECLARE
  e record;
BEGIN
  FOR e IN SELECT * FROM feed.queue ORDER BY batch, ord LOOP
    IF e.op = 'D' OR (e.__old_branch, e.__old_no) <> (e.branch, e.no) THEN
      DELETE FROM feed.upserted
      WHERE branch = coalesce(e.__old_branch, e.branch) AND no = coalesce(e.__old_no, e.no);
    END IF;
    IF e.op <> 'D' THEN
      INSERT INTO feed.upserted VALUES (e.branch, e.no, e.owner, e.balance, e.tags, e.changed_at)
      ON CONFLICT (branch, no) DO UPDATE
      SET (owner, balance, tags, changed_at) =
          (EXCLUDED.owner, EXCLUDED.balance, EXCLUDED.tags, EXCLUDED.changed_at);
    END IF;
  END LOOP;
END $$;
SQL
cdc_value -F '' <<'SQL'
WITH c AS (
  SELECT sum(events) AS events, count(*) AS calls, sum(inserted) AS inserted,
         sum(updated) AS updated, sum(deleted) AS deleted, sum(stale) AS stale,
         sum(duplicate) AS duplicate, sum(superseded) AS superseded,
         sum(fenced + ignored + truncated) AS other, sum(seconds) AS seconds,
         sum(delivered) AS delivered
  FROM feed.call)
SELECT format('  %-12s %9s   %s', what, number, note) FROM c, LATERAL (VALUES
  (1, 'events', events, format('in %s calls; %s were delivered', calls, delivered)),
  (2, 'inserted', inserted, 'the key became live'),
  (3, 'updated', updated, 'live before and after'),
  (4, 'deleted', deleted, 'dead now, and remembered'),
  (5, 'stale', stale, 'older than what the target has'),
  (6, 'duplicate', duplicate, 'applied before'),
  (7, 'superseded', superseded, 'beaten inside its own batch'),
  (8, 'other', other, 'fenced, ignored, truncated'),
  (9, 'sum', inserted + updated + deleted + stale + duplicate + superseded + other, 'of the above; equals events'),
  (10, 'per second', round(events / seconds::numeric), 'events per second of a call, two at once')
) v (i, what, number, note) ORDER BY i;
SQL
read -r differ keys dead <<<"$(cdc_value -F ' ' -c "SELECT * FROM feed.verify('account', false, false)")"
sums=$(cdc_value -c "SELECT count(*) FROM feed.call WHERE events <> delivered OR events <> inserted
  + updated + deleted + stale + duplicate + superseded + fenced + ignored + truncated")
upserted=$(cdc_value -c "SELECT count(*) FROM (
  (TABLE feed.upserted EXCEPT ALL TABLE feed.account_end) UNION ALL
  (TABLE feed.account_end EXCEPT ALL TABLE feed.upserted)) d")
rows=$(cdc_value -c "SELECT count(*) FROM feed.account_end")
cdc_say ""
cdc_say "  rows in the source                    $rows"
cdc_say "  rows that differ after cdc_apply      $differ"
cdc_say "  rows that differ after a plain upsert $upserted"
cdc_say "  deleted keys remembered               $dead"
cdc_say "  keys at a wrong position              $keys"

title "By hand"
root=$CDC_ROOT
bin=${CDC_BIN#"$CDC_WORK/tree"}    # not the demo's own copy, which is removed
cat <<HAND
  cd $root
  make PG_CONFIG=$bin/pg_config && sudo make PG_CONFIG=$bin/pg_config install
                                     # then as an ordinary user:
  $bin/initdb -D /tmp/try -A trust -U me
  $bin/pg_ctl -D /tmp/try -l /tmp/try.log -w start \\
    -o "-c listen_addresses='' -c unix_socket_directories=/tmp -p 5499"
  $bin/psql -h /tmp -p 5499 -U me postgres

  CREATE EXTENSION cdc_precedence;
  CREATE TABLE part (id int PRIMARY KEY, name text,
    deleted boolean NOT NULL DEFAULT false, source_position cdc_position);
  CREATE TABLE staging (op text, id int, name text,
    source_position cdc_position);
  INSERT INTO staging VALUES ('u', 1, 'b', '0/200'), ('i', 1, 'a', '0/100');
  SELECT * FROM cdc_apply('part', 'staging');
  SELECT * FROM cdc_apply('part', 'staging');   -- a replay changes nothing
  SELECT * FROM part;

  $bin/pg_ctl -D /tmp/try stop
  rm -r /tmp/try /tmp/try.log
HAND
if [ "$wrong" != 0 ] || [ "$differ" != 0 ] || [ "$keys" != 0 ] || [ "$sums" != 0 ]; then
  cdc_say "demo: FAILED ($wrong of the played, $differ rows, $keys keys, $sums sums wrong)"
  exit 1
fi
cdc_say ""
cdc_say "demo: the target equals the source"
