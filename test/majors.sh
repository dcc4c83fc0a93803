#!/usr/bin/env bash
# Builds the extension and runs its tests on servers of other majors, each in a
# chroot made of the Debian suite that has it.
#
# Needs root, debootstrap and a Debian mirror; a chroot takes about 2 GB and two
# minutes. The last line is "majors: N passed, N failed"; a major that could not
# be had is said, and is a failure only when it was asked for by name.
set -euo pipefail
cd "$(dirname "$0")/.."
. test/lib.sh

# major:suite:script of debootstrap that knows it:further suite with the server
known="17:trixie:trixie: 18:forky:sid: 19:sid:sid:experimental"

usage() {
  cat <<'USAGE'
usage: test/majors.sh [--all] [--dir DIR] [--limit SECONDS] [MAJOR...]
  MAJOR      17, 18 or 19; without one, 17 and 18
  --all      every suite of test/run.sh, not the regression and isolation tests only
  --dir DIR  keeps the chroots there, and uses those that are there already
  --limit N  gives up making a chroot after so many seconds (600)
USAGE
}

majors=()
all=
dir=
limit=600
while [ $# -gt 0 ]; do
  case $1 in
    --all) all=1 ;;
    --dir) dir=${2:?}; shift ;;
    --limit) limit=${2:?}; shift ;;
    --help | -h) usage; exit 0 ;;
    1[0-9]) majors+=("$1") ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
named=${majors[*]:-}
[ ${#majors[@]} -gt 0 ] || majors=(17 18)

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
    apt-get install -y -q --no-install-recommends postgresql-$major postgresql-server-dev-$major gcc make perl procps
    apt-get install -y -q --no-install-recommends postgresql-$major-wal2json python3 || true"
  touch "$root/made"
}

mount_into() { # ROOT
  local root=$1
  mkdir -p "$root/dev/shm"
  mount -t proc proc "$root/proc" && mounted+=("$root/proc")
  mount -t tmpfs tmpfs "$root/dev/shm" && mounted+=("$root/dev/shm")
}

run_in() { # ROOT MAJOR
  local root=$1 major=$2 out=$CDC_WORK/$2.out suites="--only regress --only isolation" last
  [ -z "$all" ] || suites=
  rm -rf "$root/cdc_precedence"
  mkdir "$root/cdc_precedence"
  tar -C "$CDC_ROOT" --exclude='*.o' --exclude='*.bc' --exclude='*.so' --exclude=./results -cf - . |
    tar -C "$root/cdc_precedence" -xf -
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    CDC_NO_MAJORS=1 PG_CONFIG="/usr/lib/postgresql/$major/bin/pg_config" \
    bash -c "cd /cdc_precedence && bash test/run.sh $suites" >"$out" 2>&1 </dev/null || true
  last=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$out" | tail -n 1 || true)
  if [ -z "$last" ]; then
    tail -n 40 "$out"
    not_had "$major" "its tests did not run to their end"
    return
  fi
  cdc_say "$(sed -n 's/^built for \(PostgreSQL [^ ]*\).*/\1/p' "$out" | head -n 1): $last"
  if [ "${last#*, }" != "0 failed" ]; then
    grep -vE '^(ok|test .* ok)' "$out" | tail -n 60
  fi
  passed=$((passed + ${last%% *}))
  last=${last#*, }
  failed=$((failed + ${last%% *}))
}

cdc_workdir
trap 'unmount_all; cdc_cleanup' EXIT
if [ "$(id -u)" != 0 ]; then
  for major in "${majors[@]}"; do not_had "$major" "chroots need root"; done
elif ! command -v debootstrap >/dev/null 2>&1 && ! (cdc_install debootstrap) >/dev/null 2>&1; then
  for major in "${majors[@]}"; do not_had "$major" "debootstrap could not be installed"; done
else
  for major in "${majors[@]}"; do
    of=$(tr ' ' '\n' <<<"$known" | grep "^$major:" || true)
    if [ -z "$of" ]; then
      not_had "$major" "no Debian suite has it"
      continue
    fi
    IFS=: read -r _ suite script further <<<"$of"
    root=${dir:-$CDC_WORK/chroot}/$major
    if [ ! -e "$root/made" ]; then
      begin=$SECONDS
      rm -rf "$root"
      export -f make_chroot fill_chroot mirror
      if ! { timeout "$limit" bash -ec 'make_chroot "$@"' make "$root" "$major" "$suite" "$script" &&
             mount_into "$root" &&
             timeout "$limit" bash -ec 'fill_chroot "$@"' fill "$root" "$major" "$further"; } \
           >"$CDC_WORK/make.log" 2>&1 </dev/null; then
        unmount_all
        tail -n 3 "$CDC_WORK/make.log" | cut -c 1-200
        not_had "$major" "Debian $suite could not be made into a chroot in $limit s"
        [ -n "$dir" ] || rm -rf "$root"
        continue
      fi
      cdc_say "Debian $suite with PostgreSQL $major in $((SECONDS - begin)) s"
    else
      mount_into "$root"
    fi
    run_in "$root" "$major"
    unmount_all
    [ -n "$dir" ] || rm -rf "$root"
  done
fi
cdc_say "majors: $passed passed, $failed failed"
[ "$failed" = 0 ]
