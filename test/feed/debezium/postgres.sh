# Debezium's PostgreSQL connector. Part of run.sh.

cdc_psql -c "CREATE DATABASE source" -c "CREATE DATABASE target"
cdc_psql -d source -f "$DBZ_DIR/source.sql"
cdc_psql -d target -f "$DBZ_DIR/source.sql"
export PGDATABASE=target
cdc_psql -c "CREATE EXTENSION cdc_precedence"
[ -z "${DBZ_STANDIN:-}" ] || cdc_psql -f "$DBZ_STANDIN"
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
dbz_kill() {
  dbz_end -9
  kills=$((kills + 1))
  sleep 0.3
  dbz_start
}
dbz_configure_postgres precise string double
dbz_bench $((load + 15)) & busy=$!
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
for ((i = 0; i < (long ? 8 : 3); i++)); do
  [ "$i" != 1 ] || feed_truncate
  sleep $((load / (long ? 10 : 5)))
  dbz_kill
done
wait "$busy"
cdc_psql -d source -c "CALL shop.finish()"
dbz_copy_end
dbz_wait 120 "the mark at the end" "$(dbz_every "key LIKE '%\"mark\"%'")"
# what was landed and not noted is sent again
for ((i = 0; i < 10; i++)); do
  dbz_kill
  sleep 4
  [ "$(cdc_value -c "SELECT $(dbz_sent_again)")" != t ] || break
done
dbz_end
cdc_psql -c "VACUUM ANALYZE"
cdc_say "captured $(cdc_value -c "SELECT count(*) FROM landing.precise_env") records by $DBZ_POSTGRES in $((SECONDS - begin)) s"

for engine in precise string double; do
  cdc_psql -c "CALL feed.judge('$engine')"
  while IFS='|' read -r what good; do
    verdict "$([ "$good" = t ] && echo 1 || echo 0)" "$engine: $what"
  done < <(cdc_value -c "SELECT * FROM feed.self_check($kills)")
done

# settings ENGINE: the view's arguments that say how the engine writes values
settings() {
  case $1 in
    string) echo ", decimals => 'string', times => 'iso', binaries => 'hex'" ;;
    double) echo ", decimals => 'double', times => 'connect'" ;;
  esac
}

# variant ENGINE FORM DELIVERY
variant() {
  local engine=$1 form=$2 delivery=$3 name="$1 $2 $3" home facts ok=1 tail= known= tabs log=$CDC_WORK/variant.log
  local wrong cells bad_sums events seconds all=
  tabs=account,doc_full,kind,kind_full,odd
  [ "$engine" = precise ] || tabs+=,edge
  [ "$engine" = double ] || tabs+=,dated
  # what an event does not carry converges only where batches come in log order
  case $delivery in in-order | cut | middle | replay) tabs+=,doc ;; esac
  feed_numbered "${engine}_$form" "$(feed_delivery "$delivery")"
  : >"$log"
  for home in row side; do
    cdc_psql -c "SET client_min_messages = error" -c "CALL feed.new_targets('$engine', '$form', '$home', '{$tabs}', \$\$$(settings "$engine")\$\$)" \
      -c "TRUNCATE feed.call" >>"$log" 2>&1 || { ok=0; tail+=" ($home: no views)"; continue; }
    cdc_psql -c "CALL feed.deliver('$name $home', '${engine}_$form', '{$tabs}')" >>"$log" 2>&1 || { ok=0; tail+=" ($home: not applied)"; }
    cdc_psql -c "CALL feed.compare('$engine', '$form', '$home', '{$tabs}')"
    read -r wrong cells known bad_sums events seconds < <(cdc_value -F ' ' -c "SELECT * FROM feed.result('$engine', '$form', '{$tabs}')")
    [ "$wrong $cells" = "0 0" ] || { ok=0; tail+=" ($home: $wrong keys, $cells cells differ)"; }
    [ "$bad_sums" = 0 ] || { ok=0; tail+=" ($home: $bad_sums calls with a wrong sum)"; }
    [ "$events" != 0 ] || { ok=0; tail+=" ($home: no event)"; }
    all+="${all:+ +} $seconds"
    if [ "$wrong $cells" != "0 0" ]; then
      cdc_psql -P border=0 -P footer=off -c "TABLE feed.unlike" >>"$log"
    fi
  done
  verdict "$ok" "$(printf '%-8s %-7s %-15s %7s events %11s s, %s cells lost by the connector%s' "$engine" "$form" "$delivery" "$events" "$all" "$known" "$tail")"
  if [ "$ok" = 0 ]; then
    cut -c1-300 "$log" | head -n 40
  elif grep -q WARNING "$log"; then
    grep WARNING "$log" | sed 's/.*WARNING/WARNING/' | sort | uniq -c | sort -rn | head -n 3 | cut -c1-200
  fi
}

if [ -n "$long" ]; then
  deliveries="in-order shuffled shuffled-twice cut middle replay"
  plan=$(for each in "precise env" "precise schema" "precise flat" "string env" "string flat" "double env" "double schema"; do
    for delivery in $deliveries; do echo "$each $delivery"; done; done)
else
  plan="precise env in-order
precise env shuffled
precise env shuffled-twice
precise env middle
precise schema shuffled-twice
precise flat cut
string env cut
string flat shuffled-twice
double env in-order
double schema shuffled-twice"
fi
[ -z "${DBZ_PLAN:-}" ] || plan=$DBZ_PLAN
while read -r each; do
  variant $each
done <<<"$plan"
cdc_say "what the connector cannot give:"
cdc_psql -P border=0 -P footer=off -c "SELECT engine, tab, col, cells, why FROM feed.known JOIN feed.known_seen USING (nr) ORDER BY nr"
truth "SELECT count(*) = 0 FROM feed.known LEFT JOIN feed.known_seen USING (nr) WHERE coalesce(cells, 0) = 0" \
  "every known loss was seen$(cdc_value -c "SELECT coalesce(', but not: ' || string_agg(concat_ws(' ', engine, tab, col), '; '), '') FROM feed.known LEFT JOIN feed.known_seen USING (nr) WHERE coalesce(cells, 0) = 0")"
