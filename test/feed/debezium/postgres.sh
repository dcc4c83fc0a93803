# Captures with Debezium's PostgreSQL connector, killed now and then. Part of
# run.sh; variants.sh delivers what landed.

cdc_psql -c "CREATE DATABASE source" -c "CREATE DATABASE target"
cdc_psql -d source -f "$DBZ_DIR/source.sql"
cdc_psql -d target -f "$DBZ_DIR/source.sql"
export PGDATABASE=target
cdc_psql -c "CREATE EXTENSION cdc_precedence"
cdc_psql -f "$DBZ_DIR/target.sql" -f "$DBZ_DIR/known.sql"
for form in precise_env precise_schema precise_flat string_env string_flat double_env double_schema; do
  cdc_psql -c "CALL feed.new_landing('${form%_*}', '${form#*_}')"
done
# the slots of slots.sh, which read the same log
cdc_value -d source -c "CREATE PUBLICATION pgoutput FOR TABLES IN SCHEMA shop" \
  -c "SELECT pg_create_logical_replication_slot('pgoutput', 'pgoutput'), pg_create_logical_replication_slot('wal2json', 'wal2json')" >/dev/null
cdc_psql -d source -c "CALL shop.fill()"

# Clients first, so that transactions are open across the connectors' snapshot.
kills=0
dbz_configure_postgres precise string double
touch "$CDC_WORK/go"
dbz_clients & busy=$!
for who in a b c; do
  cdc_psql -d source -c "CALL shop.overlap('$who', '{precise,string,double}')" &
done
sleep 1
dbz_start
dbz_wait 90 "the stream after the snapshot" "$(dbz_every "value->>'op' IN ('c', 'u')")"
# once an offset beyond the snapshot is noted; else it would begin with another
dbz_wait 60 "an offset beyond the snapshot" "SELECT count(*) = 3 FROM pg_replication_slots, LATERAL (
  SELECT max((value->'source'->>'lsn')::numeric) AS lsn FROM landing.precise_env WHERE value->>'op' = 'r') s
  WHERE slot_name IN ('precise', 'string', 'double') AND confirmed_flush_lsn > '0/0'::pg_lsn + s.lsn"
# killed as soon as every engine has landed something that it may not have noted
for ((i = 0; i < (long ? 8 : 2); i++)); do
  [ "$i" != 1 ] || feed_truncate
  sleep "$pause"
  dbz_wait_landed
  dbz_kill
done
rm "$CDC_WORK/go"
wait "$busy"
cdc_psql -d source -c "CALL shop.finish()"
dbz_copy_end
dbz_wait 300 "the mark at the end" "$(dbz_every "key LIKE '%\"mark\"%'")"
dbz_kill
dbz_wait 120 "what was not noted, once more" "SELECT $(dbz_sent_again)"
dbz_end
cdc_psql -c "VACUUM ANALYZE"
cdc_say "captured $(cdc_value -c "SELECT count(*) FROM landing.precise_env") records by $DBZ_POSTGRES in $((SECONDS - begin)) s"

