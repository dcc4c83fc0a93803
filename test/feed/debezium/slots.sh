# The same changes through SQL: wal2json with pg_logical_slot_get_changes and
# cdc_event_view, pgoutput with _get_binary_changes and pgoutput.py. The slots
# were there before the first row, so there is no snapshot. Part of run.sh.

command -v python3 >/dev/null 2>&1 || cdc_install python3
cdc_psql -f "$DBZ_DIR/slots.sql"
cdc_psql -d source -c "COPY (SELECT data FROM pg_logical_slot_get_changes('wal2json', NULL, NULL, $FEED_PLUGIN_OPTIONS)) TO STDOUT" |
  cdc_psql -c "COPY landing.wal2json_record (value) FROM STDIN"
# as a loader does that keeps each change until it knows its commit
cdc_psql -c "INSERT INTO landing.wal2json_commit
  SELECT id, value, min((value->>'lsn')::pg_lsn) FILTER (WHERE value->>'action' = 'C') OVER (ORDER BY id DESC) FROM landing.wal2json_record"
cdc_value -d source -c "SELECT lsn, encode(data, 'hex') FROM pg_logical_slot_get_binary_changes('pgoutput', NULL, NULL, 'proto_version', '1', 'publication_names', 'pgoutput')" |
  python3 "$DBZ_DIR/pgoutput.py" | cdc_psql -c "COPY landing.pgoutput_record (tab, op, lsn, commit_lsn, cols, old, unchanged) FROM STDIN"
cdc_say "wal2json gave $(cdc_value -c "SELECT count(*) FROM landing.wal2json_record") messages, pgoutput $(cdc_value -c "SELECT count(*) FROM landing.pgoutput_record") changes"
truth "SELECT (SELECT count(*) FROM landing.wal2json_record WHERE value->>'action' IN ('I', 'U', 'D', 'T')) = (SELECT count(*) FROM landing.pgoutput_record)" \
  "wal2json and pgoutput give the same number of changes"

if [ -n "$long" ]; then
  plan=$(for each in "wal2json record" "wal2json commit" "pgoutput record" "pgoutput commit"; do
    for delivery in in-order shuffled shuffled-twice cut middle replay; do echo "$each $delivery"; done; done)
else
  plan="wal2json record in-order
wal2json commit shuffled-twice
pgoutput record shuffled-twice
pgoutput commit in-order"
fi
while read -r each; do
  variant $each
done <<<"$plan"
