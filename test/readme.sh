#!/bin/sh
# Runs every SQL example of the documentation, in order, as a reader would
# paste it: each file in a fresh database, each block in one psql.  Without
# files it also checks that each message has been seen by a test (errors.py).
#
#   bash test/readme.sh [file...]      (README.md, docs/*.md and docs/sources/*.md by default)
#
# The server is the one of PGHOST, PGUSER ..; the extension is installed there.
# A block whose first line is "-- fails: SQLSTATE" must end in that error.
# A block without a language that comes next, with nothing between, is how the
# output must end: psql's, less counts of rows, SQLSTATEs, names of objects, contexts and source locations.
# Each page of docs/sources has at least one.
# Ends with "readme: N passed, N failed", and with failure if any block failed.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0
if [ $# -eq 0 ]; then
	set -- README.md docs/*.md docs/sources/*.md
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

# What psql said, as the pages show it.
plain()
{
	sed -E -e 's/^psql:[^ ]*: //' -e 's/^(ERROR|WARNING|NOTICE):  [0-9A-Z]{5}: /\1:  /' -e 's/ +$//' \
		-e '/^(LOCATION|CONTEXT|[A-Z]+ NAME):/d' -e '/^\([0-9]+ rows?\)$/d' -e '/^$/d' "$@"
}

# plain output in $tmp/out must end as the file says
ends_as()
{
	plain "$1" >"$tmp/want"
	plain "$tmp/out" | tail -n "$(wc -l <"$tmp/want")" | diff "$tmp/want" - >"$tmp/diff"
}

for file in "$@"; do
	rm -f "$tmp"/block.* "$tmp"/shown.*
	awk -v dir="$tmp" '
		/^```sql$/          { inside = "block"; line = NR; next }
		/^```$/ && inside   { last = inside; inside = ""; next }
		/^```$/ && last == "block" { inside = "shown"; last = ""; next }
		/^```/              { inside = "other"; next }
		inside && inside != "other" { print > (sprintf("%s/%s.%04d", dir, inside, line)) }
		!inside && /[^ ]/   { last = "" }' "$file"
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
		run -f "$block" &&
			psql -X -q -d $db -v ON_ERROR_STOP=1 -f "$tmp/jobs.sql" >>"$tmp/out" 2>&1
		status=$?
		if [ -n "$want" ]; then
			[ $status -ne 0 ] && grep -q "ERROR: *$want:" "$tmp/out"
		else
			[ $status -eq 0 ]
		fi
		if [ $? -ne 0 ]; then
			failed=$((failed + 1))
			echo "$file, block at line ${block##*.}: ${want:+not the error $want; }status $status"
			sed 's/^/    /' "$tmp/out"
		elif [ -e "$tmp/shown.${block##*.}" ] && ! ends_as "$tmp/shown.${block##*.}"; then
			failed=$((failed + 1))
			echo "$file, block at line ${block##*.}: another output than shown"
			sed 's/^/    /' "$tmp/diff"
		else
			passed=$((passed + 1))
		fi
	done
	case $file in
		docs/sources/*)
			ls "$tmp"/shown.* >/dev/null 2>&1 || { failed=$((failed + 1)); echo "$file: shows no output"; } ;;
	esac
	dropdb --force $db
done
echo "readme: $passed passed, $failed failed"
[ $failed -eq 0 ]
