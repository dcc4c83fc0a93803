# The Debezium feed's parts, for run.sh beside it. To be sourced after
# test/lib.sh and test/feed/feed.sh.

DBZ_DIR=$CDC_ROOT/test/feed/debezium
DBZ_CACHE=${CDC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cdc_precedence}
DBZ_PID=

# ------------------------------------------------------------ what it needs

# Where the connector's jars are kept: a directory per version and pom.
dbz_jars() { # CONNECTOR VERSION
  printf '%s/%s-%s-%s' "$DBZ_CACHE" "$1" "$2" "$(cksum <"$DBZ_DIR/pom.xml" | cut -d ' ' -f 1)"
}

# Says why the suite cannot run as things are, if it cannot.
dbz_missing() {
  local tool jars
  for tool in java javac python3; do
    command -v $tool >/dev/null 2>&1 || { echo "$tool is not there"; return; }
  done
  jars=$(dbz_jars postgres "$DBZ_POSTGRES")
  [ -d "$jars" ] || echo "$jars is not there (test/feed/debezium/run.sh fetches it)"
}

# Java, Maven and the jars, fetched once; compiles the runner for them.
dbz_prepare() { # CONNECTOR VERSION
  local jars classes=$CDC_WORK/classes-$1 want=()
  jars=$(dbz_jars "$1" "$2")
  command -v javac >/dev/null 2>&1 || want+=(default-jdk-headless)
  [ -d "$jars" ] || command -v mvn >/dev/null 2>&1 || want+=(maven)
  [ ${#want[@]} = 0 ] || cdc_install "${want[@]}"
  if [ ! -d "$jars" ]; then
    cdc_say "fetching debezium-connector-$1 $2 into $jars"
    rm -rf "$jars.part"
    mkdir -p "$jars.part"
    cp "$DBZ_DIR/pom.xml" "$CDC_WORK/pom.xml"
    if ! mvn -q -B -f "$CDC_WORK/pom.xml" "-Dconnector=$1" "-Ddebezium.version=$2" dependency:copy-dependencies \
         "-DoutputDirectory=$jars.part" -DincludeScope=runtime >"$CDC_WORK/mvn.log" 2>&1 </dev/null; then
      head -n 20 "$CDC_WORK/mvn.log" >&2
      return 1
    fi
    mv "$jars.part" "$jars"
  fi
  mkdir -p "$classes"
  # the jars name annotations that they do not bring along
  javac -Xlint:all,-classfile,-processing -d "$classes" -cp "$jars/*" "$DBZ_DIR/Capture.java" >"$CDC_WORK/javac.log" 2>&1 ||
    { cat "$CDC_WORK/javac.log" >&2; return 1; }
  DBZ_CLASSPATH="$classes:$jars/*"
}

# A port of the loopback on which nobody listens: JDBC knows no other way.
dbz_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 10000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}

# A server that decodes and also listens on the loopback, with a password there.
dbz_server() { # NAME
  DBZ_PORT=$(dbz_port)
  DBZ_PASSWORD=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  cdc_server_start "$1" "wal_level = logical" "max_replication_slots = 16" "max_wal_senders = 16" \
    "deadlock_timeout = '100ms'" "listen_addresses = '127.0.0.1'" "port = $DBZ_PORT" "timezone = 'UTC'"
  export PGPORT=$DBZ_PORT
  printf '%s\n' 'local all all trust' 'host all all 127.0.0.1/32 scram-sha-256' \
    'host replication all 127.0.0.1/32 scram-sha-256' |
    cdc_as_server tee "${CDC_DATADIRS[-1]}/pg_hba.conf" >/dev/null
  cdc_psql -c "SET password_encryption = 'scram-sha-256'" -c "ALTER ROLE postgres PASSWORD '$DBZ_PASSWORD'"
  cdc_value -c "SELECT pg_reload_conf()" >/dev/null
}

# ------------------------------------------------------------ the connectors

# dbz_configure FILE ENGINE...: FILE's settings and where everything is. Each
# engine has a slot, a publication, an offset file and a topic prefix of its own.
dbz_configure() {
  local engine file=$1
  shift
  DBZ_ENGINES=("$@")
  {
    cat "$DBZ_DIR/$file"
    echo "landing.url=jdbc:postgresql://127.0.0.1:$DBZ_PORT/target"
    echo "landing.user=postgres"
    echo "landing.password=$DBZ_PASSWORD"
    echo "landing.schema=landing"
    for engine in "$@"; do
      echo "engine.$engine.topic.prefix=$engine"
      echo "engine.$engine.offset.storage.file.filename=$CDC_WORK/$engine.offset"
    done
  } >"$CDC_WORK/capture.properties"
}

dbz_configure_postgres() { # ENGINE...
  local engine
  dbz_configure postgres.properties "$@"
  {
    printf '%s\n' "database.hostname=127.0.0.1" "database.port=$DBZ_PORT" "database.user=postgres" \
      "database.password=$DBZ_PASSWORD" "database.dbname=source"
    for engine in "$@"; do
      echo "engine.$engine.slot.name=$engine"
      echo "engine.$engine.publication.name=$engine"
    done
  } >>"$CDC_WORK/capture.properties"
}

dbz_start() {
  java -Xmx1g -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -cp "$DBZ_CLASSPATH" Capture "$CDC_WORK/capture.properties" "${DBZ_ENGINES[@]}" >>"$CDC_WORK/capture.log" 2>&1 9>&- &
  DBZ_PID=$!
}

# dbz_end [SIGNAL]: -9 is the crash.
dbz_end() {
  kill "${1:--TERM}" "$DBZ_PID" 2>/dev/null || true
  wait "$DBZ_PID" 2>/dev/null || true
  DBZ_PID=
}

# The crash, and the next start; counted in kills.
dbz_kill() {
  dbz_end -9
  kills=$((kills + 1))
  sleep 0.3
  dbz_start
}

# dbz_wait SECONDS WHAT SQL [PGDATABASE]: until SQL says t.
dbz_wait() {
  local until=$((SECONDS + $1)) what=$2 sql=$3 engine
  until [ "$(cdc_value -d "${4:-target}" -c "$sql")" = t ]; do
    if [ "$SECONDS" -ge "$until" ] || ! kill -0 "$DBZ_PID" 2>/dev/null; then
      tail -n 20 "$CDC_WORK/capture.log" | cut -c1-500 >&2
      for engine in "${DBZ_ENGINES[@]}"; do
        cdc_value -F ' ' -c "SELECT '$engine', count(*), max((value->'source'->>'lsn')::numeric) FROM landing.${engine}_env" >&2
      done
      cdc_value -F ' ' -c "SELECT slot_name, active, restart_lsn, confirmed_flush_lsn, pg_current_wal_lsn() FROM pg_replication_slots" >&2
      cdc_die "waited for: $what"
    fi
    sleep 0.3
  done
}

# Holds for the envelopes of every engine: SQL's "landing" is each in turn.
dbz_every() { # SQL_CONDITION_ON_LANDING
  local engine all=
  for engine in "${DBZ_ENGINES[@]}"; do
    all+="${all:+ AND }EXISTS (SELECT FROM landing.${engine}_env WHERE $1)"
  done
  echo "SELECT $all"
}

# Until every engine has landed some more records than there are now.
dbz_wait_landed() {
  local engine all=
  for engine in "${DBZ_ENGINES[@]}"; do
    all+="${all:+ AND }(SELECT max(id) FROM landing.${engine}_env) >= $(cdc_value -c "SELECT max(id) + 20 FROM landing.${engine}_env")"
  done
  dbz_wait 60 "more records" "SELECT $all"
}

# Has every engine sent some change again?
dbz_sent_again() {
  local engine all=
  for engine in "${DBZ_ENGINES[@]}"; do
    all+="${all:+ AND }EXISTS (SELECT FROM landing.${engine}_env WHERE value->>'op' <> 'r'
      GROUP BY key, value->>'op', value->'source'->>'lsn', value->'source'->>'pos', value->'source'->>'row' HAVING count(*) > 1)"
  done
  echo "$all"
}

# ------------------------------------------------------------ the source

# Clients at a rate that the engines follow, for as long as CDC_WORK/go is there.
dbz_clients() {
  local b=$FEED_DIR/bench o=$DBZ_DIR/bench seed=$FEED_SEED
  while [ -e "$CDC_WORK/go" ]; do
    seed=$((seed + 1))
    "$CDC_BIN/pgbench" -n -c 6 -j 1 -T 5 -R "$DBZ_RATE" --random-seed=$seed --max-tries=50 \
      -f "$b/single.sql@30" -f "$b/long.sql@8" -f "$b/undo.sql@6" -f "$b/move.sql@8" -f "$b/bulk.sql@1" \
      -f "$o/note.sql@10" -f "$o/doc.sql@10" -f "$o/kind.sql@20" source >"$CDC_WORK/pgbench.log" 2>&1 ||
      { tail -n 20 "$CDC_WORK/pgbench.log" >&2; cdc_die "pgbench failed"; }
  done
}

dbz_copy_end() {
  local tab
  for tab in account doc doc_full kind kind_full dated odd edge moved; do
    cdc_psql -d source -c "COPY shop.$tab TO STDOUT" | cdc_psql -d target -c "COPY shop.$tab FROM STDIN"
  done
}

# feed_numbered LANDING DELIVERY_SQL: the queue of a variant: landing ids (n)
# by batch and order, from "numbered" as in feed.sh.
feed_numbered() {
  cdc_psql <<SQL
SET client_min_messages = error;
DROP TABLE IF EXISTS feed.queue;
CREATE UNLOGGED TABLE feed.queue AS
WITH numbered AS MATERIALIZED (SELECT id AS n, row_number() OVER (ORDER BY id) - 1 AS i, count(*) OVER () AS total FROM landing.$1)
SELECT batch::integer AS batch, ord, n FROM ($2) d;
CREATE INDEX ON feed.queue (batch);
ANALYZE feed.queue;
SQL
}
