# Jobs of pg_cron, as the pages have them: red when a target fails, with the
# reason, while the others are applied; green otherwise; nobody's code runs with
# the rights of the job.  All jobs run in the same minute, on the same targets.

# run_of JOB: how its first run ended, waiting for it
run_of() {
  local out
  until out=$(sql ops_cron -c "SELECT status FROM cron.job_run_details JOIN cron.job USING (jobid)
      WHERE jobname = '$1' AND status IN ('succeeded', 'failed') ORDER BY runid LIMIT 1") && [ -n "$out" ]; do
    if [ $SECONDS -gt "$run_until" ]; then echo "did not run"; return; fi
    sleep 0.5
  done
  printf '%s\n' "$out"
}

group_cron() {
  local job
  new_database ops_cron
  if ! sql ops_cron -c "CREATE EXTENSION pg_cron" -c "CREATE EXTENSION cdc_precedence"; then
    not_ok "pg_cron is preloaded for this database"
    return
  fi
  works "targets of two owners" ops_cron -c "
    CREATE SCHEMA app AUTHORIZATION ops_user; CREATE SCHEMA more AUTHORIZATION ops_other; GRANT USAGE ON SCHEMA app, more TO PUBLIC;
    CREATE TABLE app.s (op text, id int, v text, source_position cdc_position);
    INSERT INTO app.s SELECT 'c', i, 'v' || i, cdc_position('0/0'::pg_lsn + i) FROM generate_series(1, 1000) i;
    INSERT INTO app.s SELECT 'd', i, NULL, cdc_position('0/1000'::pg_lsn + i) FROM generate_series(1, 100) i;
    CREATE TABLE app.good (id int PRIMARY KEY, v text); CREATE TABLE app.bad (id int PRIMARY KEY, v text CHECK (v <> 'v500'));
    CREATE TABLE app.parent (id int PRIMARY KEY, v text); CREATE TABLE app.child (id int PRIMARY KEY REFERENCES app.parent, v text);
    CREATE TABLE more.fine (id int PRIMARY KEY, v text); CREATE TABLE more.who (name text);
    GRANT SELECT ON app.s TO PUBLIC; GRANT INSERT ON more.who TO PUBLIC;
    CREATE FUNCTION more.look() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO more.who VALUES (current_user); RETURN NEW; END';
    CREATE TRIGGER look BEFORE INSERT OR DELETE ON more.fine FOR EACH ROW EXECUTE FUNCTION more.look();
    CREATE TRIGGER look AFTER INSERT ON app.good FOR EACH STATEMENT EXECUTE FUNCTION more.look();
    ALTER TABLE app.s OWNER TO ops_user; ALTER TABLE app.good OWNER TO ops_user; ALTER TABLE app.bad OWNER TO ops_user;
    ALTER TABLE app.parent OWNER TO ops_user; ALTER TABLE app.child OWNER TO ops_user; ALTER TABLE more.fine OWNER TO ops_other" -c "
    SELECT cdc_attach('app.good', 'app.s'), cdc_attach('app.bad', 'app.s'), cdc_attach('app.parent', 'app.s'), cdc_attach('app.child', 'app.s'), cdc_attach('more.fine', 'app.s')"
  works "jobs" ops_cron -c "
    SELECT cron.schedule('cdc-apply', '* * * * *', 'CALL cdc_apply_all()');
    SELECT cron.schedule('cdc-apply-more', '* * * * *', 'CALL cdc_apply_all(''more'')');
    SELECT cron.schedule('cdc-apply-again', '* * * * *', 'CALL cdc_apply_all(''more'', nowait => false)')"
  run_until=$((SECONDS + 100))
  is "the job over all is red" "$(run_of cdc-apply)" failed
  for job in cdc-apply-more cdc-apply-again; do
    is "$job is green" "$(run_of $job)" succeeded
  done
  gives "the message says what failed, and that it is one" "t|t|f" ops_cron -c "
    SELECT m ~ 'targets not applied: 1 of 5', m ~ '\"app.bad\": new row for relation \"bad\" violates check constraint', m ~ 'app.good|app.child|more.fine'
    FROM (SELECT return_message AS m FROM cron.job_run_details WHERE status = 'failed' ORDER BY runid LIMIT 1) r"
  gives "the others are applied, once each" "900 900 900 900 0" ops_cron -c "
    SELECT concat_ws(' ', (SELECT count(*) FROM app.good), (SELECT count(*) FROM app.parent), (SELECT count(*) FROM app.child), (SELECT count(*) FROM more.fine), (SELECT count(*) FROM app.bad))"
  gives "their code ran as their owners" "ops_other|900
ops_user|1" ops_cron -c "SELECT name, count(*) FROM more.who GROUP BY 1 ORDER BY 1"
  gives "recorded" "app.bad|23514||t
app.child||900|t
app.good||900|t
app.parent||900|t
more.fine||900|t" ops_cron -c "SELECT DISTINCT ON (target::text) target, sqlstate, inserted, role = 'postgres' FROM cdc_runs WHERE operation = 'apply' ORDER BY target::text, inserted DESC NULLS LAST"
  works "no more of them" ops_cron -c "SELECT cron.unschedule(jobid) FROM cron.job"
}
