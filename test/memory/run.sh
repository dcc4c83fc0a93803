#!/bin/sh
# The memory test: a backend's own memory while it applies large batches.
# Needs python3, /proc and a running server (PGHOST, PGPORT, PGUSER) that has
# the extension installed. Options: run.sh --help.
exec python3 "$(dirname "$0")/memory.py" "$@"
