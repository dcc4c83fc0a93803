# Shared by the scripts of test/: finds or installs the server, builds and
# installs the extension, runs throwaway clusters, cleans up after itself.
# To be sourced from bash with "set -euo pipefail"; not a script of its own.
#
# Kept by everything here:
#   - a work directory of its own per run, so that two runs never meet;
#   - servers listen on a unix socket in that directory only, no TCP;
#   - existing clusters and the server's own files are left alone: the build is
#     installed into a private copy of the server's tree (links, except bin/);
#   - on exit, failure or Ctrl-C nothing runs on and no file is left.
#
# Set by it: CDC_ROOT (the source), CDC_WORK (the work directory),
# CDC_BUILD (the copy that is built), PG_CONFIG, CDC_BIN, CDC_MAJOR; after
# cdc_server_start PGHOST, PGPORT, PGUSER and PGDATABASE.

# no pager may wait for a key
export PAGER=cat PSQL_PAGER=cat

CDC_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CDC_WORK=
CDC_BUILD=
CDC_DATADIRS=()

cdc_say() { printf '%s\n' "$*"; }
cdc_die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# ---------------------------------------------------------------- clean up

# Prints what a server log says about crashes; false if there were none.
cdc_crashes() {
  local dir
  for dir in ${CDC_DATADIRS[@]+"${CDC_DATADIRS[@]}"}; do
    grep -B 2 -A 4 -E 'PANIC|TRAP:|was terminated by signal' "${dir%/data}/log" && return 0
  done
  return 1
}

cdc_cleanup() {
  local status=$? dir job pid
  trap '' INT TERM HUP
  set +e
  cdc_crashes
  for job in $(jobs -p); do kill "$job" 2>/dev/null; done
  wait 2>/dev/null
  for dir in ${CDC_DATADIRS[@]+"${CDC_DATADIRS[@]}"}; do
    cdc_as_server "$CDC_BIN/pg_ctl" -D "$dir" -m immediate -w stop >/dev/null 2>&1
    # one that hung before it wrote its pid file is known by its directory
    if command -v pgrep >/dev/null 2>&1; then
      for pid in $(pgrep -f -- "postgres -D $dir"); do
        cdc_as_server kill -9 "$pid" 2>/dev/null
      done
    fi
  done
  cdc_apt_guard_off
  if [ -n "$CDC_WORK" ]; then
    cd / && rm -rf "$CDC_WORK"
  fi
  exit "$status"
}

# Makes CDC_WORK and promises that it goes. The socket lies below it, and a
# socket path has at most 107 bytes, hence the check of TMPDIR's length.
cdc_workdir() {
  local base=${TMPDIR:-/tmp}
  [ "${#base}" -le 60 ] || base=/tmp
  CDC_WORK=$(mktemp -d "$base/cdc.XXXXXX")
  trap cdc_cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  chmod 711 "$CDC_WORK"   # the server's user must be able to pass through
}

# ---------------------------------------------------------------- packages

cdc_as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1; then
    sudo "$@"
  else
    return 127
  fi
}

# Installing Debian's server makes and starts a cluster "main", which nobody
# asked for. A drop-in of our own, there only while apt runs, prevents that.
CDC_APT_DROPIN=/etc/postgresql-common/createcluster.d/cdc-test-$$.conf
CDC_APT_GUARD=

cdc_apt_guard_on() {
  CDC_APT_GUARD=1
  cdc_as_root sh -c "mkdir -p ${CDC_APT_DROPIN%/*} &&
    echo 'create_main_cluster = false' > $CDC_APT_DROPIN"
}

cdc_apt_guard_off() {
  [ -n "$CDC_APT_GUARD" ] || return 0
  CDC_APT_GUARD=
  cdc_as_root sh -c "rm -f $CDC_APT_DROPIN;
    rmdir ${CDC_APT_DROPIN%/*} 2>/dev/null" || true
}

# cdc_install PACKAGE...: by apt, as root or through sudo, else says what to do.
cdc_install() {
  local what="$*"
  if ! command -v apt-get >/dev/null 2>&1; then
    cdc_die "missing: $what (Debian's names; install their like and run again, or set PG_CONFIG)"
  fi
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null 2>&1; then
    cdc_die "missing packages; install them as root: apt-get install $what"
  fi
  cdc_say "installing: $what"
  cdc_apt_guard_on
  if ! { cdc_as_root apt-get update -q &&
         cdc_as_root env DEBIAN_FRONTEND=noninteractive \
           apt-get install -y -q --no-install-recommends "$@"; } \
         >"$CDC_WORK/apt.log" 2>&1 </dev/null; then
    tail -n 20 "$CDC_WORK/apt.log" >&2
    cdc_die "could not install: $what"
  fi
  cdc_apt_guard_off
}

# The major of the distribution's own server, from the version of its
# metapackage "postgresql" (15+248 is 15).
cdc_distribution_major() {
  local version
  version=$(apt-cache policy postgresql 2>/dev/null | sed -n 's/^ *Candidate: *//p')
  case $version in
    [0-9]*) printf '%s\n' "${version%%[!0-9]*}" ;;
    *) return 1 ;;
  esac
}

# cdc_packages [wal2json]: finds the server, installs what is missing.
# PG_CONFIG decides; else the distribution's server; else pg_config in PATH.
cdc_packages() {
  local want=() major= tool lib
  for tool in make gcc; do
    command -v "$tool" >/dev/null 2>&1 || want+=("$tool")
  done
  if ! command -v perl >/dev/null 2>&1; then want+=(perl); fi
  if [ -z "${PG_CONFIG:-}" ]; then
    if command -v apt-get >/dev/null 2>&1; then
      major=$(cdc_distribution_major) || {
        cdc_as_root apt-get update -q >/dev/null 2>&1 || true
        major=$(cdc_distribution_major) || true
      }
    fi
    if [ -n "$major" ]; then
      PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config
      [ -x "/usr/lib/postgresql/$major/bin/postgres" ] || want+=("postgresql-$major")
      [ -x "$PG_CONFIG" ] && [ -f "$("$PG_CONFIG" --pgxs)" ] ||
        want+=("postgresql-server-dev-$major")
      lib=/usr/lib/postgresql/$major/lib
      [ "${1:-}" != wal2json ] || [ -f "$lib/wal2json.so" ] ||
        want+=("postgresql-$major-wal2json")
    else
      PG_CONFIG=$(command -v pg_config) ||
        cdc_die "no pg_config: install PostgreSQL 15 or later with its development files, or set PG_CONFIG"
    fi
  fi
  [ ${#want[@]} = 0 ] || cdc_install "${want[@]}"
  [ -x "$PG_CONFIG" ] || cdc_die "PG_CONFIG is not there: $PG_CONFIG"
  CDC_MAJOR=$("$PG_CONFIG" --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
  CDC_BIN=$("$PG_CONFIG" --bindir)
  for tool in postgres initdb pg_ctl psql pgbench; do
    [ -x "$CDC_BIN/$tool" ] || cdc_die "$CDC_BIN/$tool is missing: install the server of $PG_CONFIG (Debian: postgresql-$CDC_MAJOR)"
  done
  [ -f "$("$PG_CONFIG" --pgxs)" ] ||
    cdc_die "no PGXS for $PG_CONFIG: install the server's development files (Debian: postgresql-server-dev-$CDC_MAJOR)"
  [ "${1:-}" != wal2json ] || [ -f "$("$PG_CONFIG" --pkglibdir)/wal2json.so" ] ||
    cdc_die "no wal2json for $PG_CONFIG (Debian: postgresql-$CDC_MAJOR-wal2json)"
  export PG_CONFIG
}

# ---------------------------------------------------------------- build

# A private copy of the server's tree. A PostgreSQL server finds its files
# relative to its own program, so links to everything and real copies of the
# programs make a server that an extension can be installed into without
# touching the real one. PG_CONFIG then means the copy.
cdc_private_tree() {
  local tree=$CDC_WORK/tree dir option
  for option in --pkglibdir --sharedir --includedir-server; do
    dir=$("$PG_CONFIG" $option)
    mkdir -p "$tree$dir"
    cp -as "$dir/." "$tree$dir/"
  done
  mkdir -p "$tree$CDC_BIN"
  cp -pL "$CDC_BIN"/* "$tree$CDC_BIN/"
  if [ "$("$tree$CDC_BIN/pg_config" --pkglibdir)" != "$tree$("$PG_CONFIG" --pkglibdir)" ]; then
    return 1
  fi
  PG_CONFIG=$tree$CDC_BIN/pg_config
  CDC_BIN=$tree$CDC_BIN
  export PG_CONFIG
}

# cdc_build [VARIABLE=VALUE...]: builds a copy of the source (so that the
# source stays clean and two runs do not share objects) and installs it.
cdc_build() {
  local log=$CDC_WORK/build.log make_args clang
  make_args=("PG_CONFIG=$PG_CONFIG" "$@")
  clang=$(sed -n 's/^CLANG *= *//p' "$(dirname "$("$PG_CONFIG" --pgxs)")/../Makefile.global")
  if [ -n "$clang" ] && ! command -v "$clang" >/dev/null 2>&1; then
    make_args+=(with_llvm=no)   # no bitcode without its compiler
  fi
  CDC_BUILD=$CDC_WORK/build
  mkdir -p "$CDC_BUILD"
  tar -C "$CDC_ROOT" --exclude=./.git --exclude='*.o' --exclude='*.bc' \
    --exclude='*.so' --exclude=./results --exclude=./output_iso -cf - . |
    tar -C "$CDC_BUILD" -xf -
  local begin=$SECONDS
  if ! make -C "$CDC_BUILD" -j2 "${make_args[@]}" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    cdc_die "the build failed"
  fi
  if [ -w "$("$PG_CONFIG" --pkglibdir)" ]; then
    make -C "$CDC_BUILD" "${make_args[@]}" install >>"$log" 2>&1
  else
    cdc_as_root make -C "$CDC_BUILD" "${make_args[@]}" install >>"$log" 2>&1
  fi || { tail -n 20 "$log" >&2; cdc_die "make install failed (it writes to $("$PG_CONFIG" --pkglibdir))"; }
  cdc_say "built for $("$PG_CONFIG" --version) in $((SECONDS - begin)) s"
}

# cdc_prepare [wal2json]: packages and a private tree; the build is a step of
# its own, since its flags differ. A tree handed down by the script above
# (CDC_PREPARED) is used as it is.
cdc_prepare() {
  cdc_workdir
  cdc_packages "$@"
  if [ -z "${CDC_PREPARED:-}" ] && ! cdc_private_tree; then
    cdc_say "the server of $PG_CONFIG cannot be copied: installing into it"
  fi
  PATH=$CDC_BIN:$PATH
  export PATH
}

# ---------------------------------------------------------------- servers

# Runs a command as the user the server runs as: never root.
cdc_as_server() {
  if [ "$(id -u)" != 0 ]; then
    "$@"
  elif id postgres >/dev/null 2>&1; then
    (cd / && runuser -u postgres -- "$@")
  else
    (cd / && runuser -u nobody -- "$@")
  fi
}

# cdc_server_start NAME [SETTING...]: a new cluster, started, and libpq's
# environment set to it. CDC_POSTGRES, if set, is run instead of postgres.
cdc_server_start() {
  local home=$CDC_WORK/$1 data setting
  shift
  data=$home/data
  mkdir -p "$home/socket"
  if [ "$(id -u)" = 0 ]; then
    chown -R "$(id postgres >/dev/null 2>&1 && echo postgres || echo nobody)" "$home"
  fi
  chmod 700 "$home/socket"
  cdc_as_server "$CDC_BIN/initdb" -D "$data" -U postgres -A trust -E UTF8 \
    --no-locale --no-sync >"$CDC_WORK/initdb.log" 2>&1 ||
    { cat "$CDC_WORK/initdb.log" >&2; cdc_die "initdb failed"; }
  {
    echo "listen_addresses = ''"
    echo "unix_socket_directories = '$home/socket'"
    echo "fsync = off"
    echo "full_page_writes = off"
    echo "max_wal_size = '4GB'"
    echo "shared_buffers = '256MB'"
    echo "log_statement = 'none'"
    for setting in "$@"; do echo "$setting"; done
  } | cdc_as_server tee -a "$data/postgresql.conf" >/dev/null
  CDC_DATADIRS+=("$data")
  # fd 9 is closed for the server in case the caller holds a lock on it
  cdc_as_server "$CDC_BIN/pg_ctl" -D "$data" -l "$home/log" -w -t 120 \
    ${CDC_POSTGRES:+-p "$CDC_POSTGRES"} start >"$CDC_WORK/start.log" 2>&1 9>&- ||
    { cat "$CDC_WORK/start.log" "$home/log" >&2; cdc_die "the server did not start"; }
  export PGHOST=$home/socket PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
  unset PGSERVICE PGPASSWORD PGOPTIONS PGHOSTADDR
  CDC_SERVER_LOG=$home/log
}

# Recent minors load only the output plugins that a setting names.
cdc_allow_plugin() { # PLUGIN
  if [ "$(cdc_value -c "SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'")" = 1 ]; then
    cdc_psql -c "ALTER SYSTEM SET output_plugin_libraries = '$1'"
    cdc_value -c "SELECT pg_reload_conf()" >/dev/null
  fi
}

# psql as the scripts use it: no startup file, stop at the first error.
cdc_psql() { "$CDC_BIN/psql" -X -q -v ON_ERROR_STOP=1 "$@"; }
cdc_value() { "$CDC_BIN/psql" -X -q -v ON_ERROR_STOP=1 -At "$@"; }
