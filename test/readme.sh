#!/bin/sh
# Runs every SQL example of the documentation, in order, as a reader would
# paste it: each file in a fresh database, each block in one psql.  Without
# files it also checks that each message has been seen by a test (errors.py).
#
#   bash test/readme.sh [file...]      (README.md and docs/*.md by default)
#
# The server is the one of PGHOST, PGUSER ..; the extension is installed there.
# A block whose first line is "-- fails: SQLSTATE" must end in that error.
# Ends with "readme: N passed, N failed", and with failure if any block failed.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0
if [ $# -eq 0 ]; then
	set -- README.md docs/*.md
	if python3 test/errors.py; then passed=1; else failed=1; fi
fi

db=cdc_precedence_readme_$$
tmp=$(mktemp -d) || exit 1
trap 'dropdb --if-exists --force $db 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

run()
{
	psql -X -q -d $db -v ON_ERROR_STOP=1 -v VERBOSITY=verbose "$@" >"$tmp/out" 2>&1
}

for file in "$@"; do
	rm -f "$tmp"/block.*
	awk -v dir="$tmp" '
		/^```sql$/    { inside = 1; name = sprintf("%s/block.%04d", dir, NR); next }
		/^```$/       { inside = 0; next }
		inside        { print > name }' "$file"
	createdb $db || exit 1
	# a page that does not create the extension itself relies on it
	grep -q '^CREATE EXTENSION' "$file" || run -c 'CREATE EXTENSION cdc_precedence' || { cat "$tmp/out"; exit 1; }
	# instead of pg_cron: each job's command is run once after the block, as
	# pg_cron does it, in no transaction block
	run -c 'CREATE SCHEMA cron' -c 'CREATE TABLE cron.job (command text)' \
		-c 'CREATE FUNCTION cron.schedule(job_name text, schedule text, command text)
		RETURNS bigint LANGUAGE sql AS $$ INSERT INTO cron.job VALUES (command); SELECT 1::bigint $$'
	printf '%s\n' 'SELECT command FROM cron.job \gexec' 'TRUNCATE cron.job;' >"$tmp/jobs.sql"
	for block in "$tmp"/block.*; do
		[ -e "$block" ] || continue
		want=$(sed -n '1s/^-- fails: *//p' "$block")
		run -f "$block" && run -f "$tmp/jobs.sql"
		status=$?
		if [ -n "$want" ]; then
			[ $status -ne 0 ] && grep -q "ERROR: *$want:" "$tmp/out"
		else
			[ $status -eq 0 ]
		fi
		if [ $? -eq 0 ]; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
			echo "$file, block at line ${block##*.}: ${want:+not the error $want; }status $status"
			sed 's/^/    /' "$tmp/out"
		fi
	done
	dropdb --force $db
done
echo "readme: $passed passed, $failed failed"
[ $failed -eq 0 ]
