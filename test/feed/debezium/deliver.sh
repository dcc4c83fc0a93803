# One variant of the Debezium feed: an engine's form, delivered in one way into
# both tombstone homes, and compared. For run.sh beside it.

# settings ENGINE: the view's arguments that say how the engine writes values
settings() { # ENGINE FORM
  case $1 in
    wal2json) [ "$2" = record ] || echo ", commit_lsn_column => 'commit_lsn'" ;;
    string) echo ", decimals => 'string', times => 'iso', binaries => 'hex'" ;;
    double) echo ", decimals => 'double', times => 'connect'" ;;
  esac
}

# variant ENGINE FORM DELIVERY
variant() {
  local engine=$1 form=$2 delivery=$3 name="$1 $2 $3" home facts ok=1 tail= known= tabs log=$CDC_WORK/variant.log
  local wrong cells bad_sums events seconds all=
  tabs=account,doc_full,kind,kind_full,odd
  case $engine in
    maria) tabs=item,plain ;;
    precise) tabs+=,dated ;;
    string) tabs+=,dated,edge ;;
    double) tabs+=,edge ;;
    wal2json | pgoutput) tabs+=,dated,edge ;;
  esac
  # what an event does not carry converges only where batches come in log order
  case $engine-$delivery in maria-*) ;; *-in-order | *-cut | *-middle | *-replay) tabs+=,doc ;; esac
  case $engine-$delivery in wal2json-in-order | pgoutput-in-order) tabs+=,moved ;; esac
  feed_numbered "${engine}_$form" "$(feed_delivery "$delivery")"
  : >"$log"
  : >"$log.unlike"
  for home in row side; do
    cdc_psql -c "SET client_min_messages = error" -c "CALL feed.new_targets('$engine', '$form', '$home', '{$tabs}', \$\$$(settings "$engine" "$form")\$\$)" \
      -c "TRUNCATE feed.call" >>"$log" 2>&1 || { ok=0; tail+=" ($home: no views)"; continue; }
    cdc_psql -c "CALL feed.deliver('$name $home', '${engine}_$form', '{$tabs}')" >>"$log" 2>&1 || { ok=0; tail+=" ($home: not applied)"; }
    cdc_psql -c "CALL feed.compare('$engine', '$form', '$home', '{$tabs}')"
    read -r wrong cells known bad_sums events seconds < <(cdc_value -F ' ' -c "SELECT * FROM feed.result('$engine', '$form', '{$tabs}')")
    [ "$wrong $cells" = "0 0" ] || { ok=0; tail+=" ($home: $wrong keys, $cells cells differ)"; }
    [ "$bad_sums" = 0 ] || { ok=0; tail+=" ($home: $bad_sums calls with a wrong sum)"; }
    [ "$events" != 0 ] || { ok=0; tail+=" ($home: no event)"; }
    all+="${all:+ +} $seconds"
    if [ "$wrong $cells" != "0 0" ]; then
      cdc_psql -P border=0 -P footer=off -c "SELECT * FROM feed.unlike('$engine', '$form')" | cut -c1-250 >>"$log.unlike"
    fi
  done
  verdict "$ok" "$(printf '%-8s %-7s %-15s %7s events %11s s, %s cells lost by the connector%s' "$engine" "$form" "$delivery" "$events" "$all" "$known" "$tail")"
  if [ "$ok" = 0 ]; then
    sed -n '1,30p' "$log.unlike"
    cut -c1-250 "$log" | sed -n '1,20p'
  elif grep -q WARNING "$log"; then
    grep WARNING "$log" | sed 's/.*WARNING/WARNING/' | sort | uniq -c | sort -rn | sed -n '1,3p' | cut -c1-200
  fi
}
