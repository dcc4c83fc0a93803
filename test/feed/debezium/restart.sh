# A snapshot that breaks off and begins anew, and a converter's default: what
# goes wrong without an error, and what helps. Part of run.sh.

# The engine is killed within its snapshot; rows that it has landed change and
# go before it takes another one.
cdc_psql -c "CALL feed.new_landing('broken', 'env')" -c "CALL feed.new_landing('filled', 'env')"
dbz_configure_postgres broken
: >"$CDC_WORK/capture.log"
dbz_start
dbz_wait 60 "a part of a snapshot" "SELECT count(*) BETWEEN 100 AND (SELECT count(*) / 2 FROM shop.account) FROM landing.broken_env"
dbz_end -9
keys=$(cdc_value -c "SELECT string_agg(format('(%L,%s)', key::jsonb->>'branch', key::jsonb->>'no'), ',') FROM (SELECT key FROM landing.broken_env ORDER BY id LIMIT 40) k")
cdc_psql -d source -c "UPDATE shop.account SET owner = 'changed between' WHERE (branch, no) IN ($keys) AND no % 2 = 0" \
  -c "DELETE FROM shop.account WHERE (branch, no) IN ($keys) AND no % 2 = 1"
sed -i 's/^engine.broken.landing.pause.ms=.*/engine.broken.landing.pause.ms=0/' "$CDC_WORK/capture.properties"
dbz_start
dbz_wait 60 "the second snapshot" "SELECT count(DISTINCT value->'source'->>'lsn') = 2 AND bool_or(value->'source'->>'snapshot' = 'last') FROM landing.broken_env"
cdc_psql -d source -c "INSERT INTO shop.account VALUES ('mark', 1, 'restart')"
dbz_wait 60 "the stream after it" "SELECT EXISTS (SELECT FROM landing.broken_env WHERE value->>'op' = 'c')"
dbz_end
cdc_psql -c "TRUNCATE shop.account"
cdc_psql -d source -c "COPY shop.account TO STDOUT" | cdc_psql -c "COPY shop.account FROM STDIN"

# broken_apply FILTER: rows that are too many, and rows that are not as they should
broken_apply() {
  cdc_psql -c "SET client_min_messages = error" -c "CALL feed.new_targets('broken', 'env', 'row', '{account}', '')" \
    -c "INSERT INTO feed.stage SELECT * FROM landing.broken_env $1 ORDER BY id" >/dev/null
  cdc_psql -c "SELECT * FROM cdc_apply('feed.account', 'feed.account_events')" >"$CDC_WORK/broken.log" 2>&1 || cat "$CDC_WORK/broken.log" >&2
  cdc_value -F ' ' -c "SELECT count(DISTINCT key) FILTER (WHERE col IS NULL), count(DISTINCT key) FILTER (WHERE col IS NOT NULL) FROM feed.differing('account', 'row')"
}
last="WHERE value IS NULL OR value->>'op' <> 'r' OR value->'source'->>'lsn' = (
  SELECT value->'source'->>'lsn' FROM landing.broken_env WHERE value->>'op' = 'r' ORDER BY id DESC LIMIT 1)"
read -r phantoms stale <<<"$(broken_apply "")"
verdict "$([ "$phantoms" != 0 ] && echo 1 || echo 0)" "a snapshot that broke off and began anew, both applied: $phantoms deleted rows stay, as they must, $stale rows are old"
read -r phantoms stale <<<"$(broken_apply "$last")"
verdict "$([ "$phantoms $stale" = "0 0" ] && echo 1 || echo 0)" "a snapshot that broke off and began anew, only the last applied: $phantoms rows too many, $stale old"

# replace.null.with.default, Kafka's default: NULLs of a column with a DEFAULT.
dbz_configure_postgres filled
dbz_start
dbz_wait 60 "a snapshot" "SELECT bool_or(value->'source'->>'snapshot' = 'last') FROM landing.filled_env"
dbz_end
truth "SELECT count(*) > 0 FROM landing.filled_env l JOIN shop.account a ON a.branch = key::jsonb->>'branch' AND a.no = (key::jsonb->>'no')::int
  WHERE a.note IS NULL AND value->'after'->>'note' = 'none'" \
  "replace.null.with.default=true, a converter's default, lands the column's DEFAULT for NULL (so it must be false)"
