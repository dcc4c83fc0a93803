#!/bin/sh
# The law test: random histories, delivered in every way, against cdc_apply.
# Needs python3 and a running server (PGHOST, PGPORT, PGUSER) that has the
# extension installed. Options: run.sh --help.
exec python3 "$(dirname "$0")/law.py" "$@"
