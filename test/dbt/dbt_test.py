"""The dbt package against real dbt.  Run by run.sh; see there."""

import json
import os
import sys

import world
from world import GONE, ROOT, TRUTH, Database, Events, Project, check, deliver, difference, guarded

WORK = sys.argv[1]

SETUP = """
CREATE SCHEMA "cdc ext";
CREATE EXTENSION cdc_precedence SCHEMA "cdc ext";
CREATE SCHEMA landing;
CREATE TYPE landing.mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE landing.events (op text, id int, name text, amount numeric(12, 2), mood landing.mood, lsn pg_lsn, seq int,
  loaded_at timestamptz DEFAULT now(), loaded_xid xid8 DEFAULT pg_current_xact_id());
CREATE TABLE landing.archive (LIKE landing.events INCLUDING ALL);
CREATE TABLE landing.queue (LIKE landing.events INCLUDING ALL);
CREATE TABLE landing.cut (LIKE landing.events INCLUDING ALL);
CREATE TABLE landing.bare (op text, id int);
CREATE TABLE landing.hooks (what text, transaction xid8);
"""

# each cdc model, and how its live rows are read
READ = {
    "plain": "SELECT id, name, amount, mood, source_position::text FROM shop.plain",
    "in_row": "SELECT id, name, amount, mood, source_position::text FROM shop.in_row WHERE NOT deleted",
    "timed_row": "SELECT id, name, amount, mood, source_position::text FROM shop.timed_row WHERE gone IS NULL",
    "swapped": "SELECT id, name, amount, mood, source_position::text FROM shop.swapped",
    "replayed": "SELECT id, name, amount, mood, source_position::text FROM shop.replayed",
    "quoted": 'SELECT "Id", "Na""me", "group", mood, "At"::text FROM "shop_Shop 2 %"."Order \'Items\'"',
    "consuming": "SELECT id, name, amount, mood, source_position::text FROM shop.consuming",
    "filtered": "SELECT id, name, amount, mood, source_position::text FROM shop.filtered",
}
DEAD = {
    "plain": "SELECT id, source_position::text FROM shop.plain_tombstones",
    "in_row": "SELECT id, source_position::text FROM shop.in_row WHERE deleted",
    "timed_row": "SELECT id, source_position::text FROM shop.timed_row WHERE gone IS NOT NULL",
    "swapped": "SELECT id, source_position::text FROM shop.swapped_tombstones",
    "consuming": "SELECT id, source_position::text FROM shop.consuming_tombstones",
}
# the extension writes an ordinal of 0 by leaving it out
ZERO = "regexp_replace({}, ':0$', '')"


def truth(columns="id, name, amount, mood"):
    return f"SELECT {columns}, {ZERO.format('pos')} FROM ({TRUTH}) truth"


def all_right(database, when, models=READ):
    for model in models:
        wrong = difference(database, READ[model], truth())
        check(f"{when}: live rows of {model}", not wrong, wrong[:5])
        if model in DEAD:
            wrong = difference(database, DEAD[model], f"SELECT id, {ZERO.format('pos')} FROM ({GONE}) gone")
            check(f"{when}: deleted keys of {model}", not wrong, wrong[:5])


def ok(when, results, but=()):
    for name, (status, message) in results.items():
        if name not in but:
            check(f"{when}: {name}", status in ("success", "pass"), f"{status}: {message}")


def first_and_later_runs(database, project, events):
    everything = ["run", "--exclude", "changing", "cut_*"]
    deliver(database, events.batch(250))
    results = project.dbt(*everything)
    ok("first run", results)
    all_right(database, "first run")
    message = results["plain"][1]
    live = database.value("SELECT count(*) FROM shop.plain")
    check("counts in the run's line", f"{live} inserted" in message and "superseded" in message, message)
    check("four threads make one table of state", database.value("SELECT count(*) FROM shop.cdc_precedence_models") == 7)
    check("no event column in the table", database.value(
        "SELECT count(*) FROM pg_attribute WHERE attrelid = 'shop.plain'::regclass AND attname IN ('op', 'lsn', 'seq')") == 0)
    check("the key is a unique index", database.value(
        "SELECT count(*) FROM pg_index WHERE indrelid = 'shop.plain'::regclass AND indisunique AND indkey::text = '1'") == 1)
    check("the configured indexes", database.value("SELECT count(*) FROM pg_index WHERE indrelid = 'shop.plain'::regclass") == 3)
    check("grants", database.value("SELECT has_table_privilege('dbt_reader', 'shop.plain', 'SELECT')"))
    check("description", database.value("SELECT obj_description('shop.plain'::regclass)") == "the plain one; it's $1")
    check("a tombstone column of the contract's own type", database.value(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'shop.timed_row'::regclass AND attname = 'gone'")
        == "timestamp with time zone")
    check("contract's types and constraints", database.value(
        "SELECT count(*) FROM pg_constraint WHERE conrelid = 'shop.timed_row'::regclass AND contype IN ('p', 'c')") == 2)
    hooks = [row[0] for row in database.run("SELECT what FROM landing.hooks")]
    check("hooks and their order", hooks == ["before begin", "pre", "post", "after commit"], hooks)
    check("their transactions", database.value("SELECT count(DISTINCT transaction) FROM landing.hooks") == 3
          and database.value("SELECT count(DISTINCT transaction) FROM landing.hooks WHERE what IN ('pre', 'post')") == 1
          and database.value("""SELECT bool_and(s.xmin::text = h.transaction::text) FROM shop.plain s, landing.hooks h
              WHERE h.what = 'pre'"""))

    deliver(database, events.batch(400))
    ok("late and again", project.dbt(*everything))
    all_right(database, "late and again")
    results = project.dbt(*everything)
    ok("nothing new", results)
    check("only new rows are read", "CDC 0 events" in results["plain"][1], results["plain"][1])
    check("a model without a filter reads all again", "duplicate" in results["quoted"][1], results["quoted"][1])
    all_right(database, "nothing new")
    check("consume removes what was read", database.value("SELECT count(*) FROM landing.queue") == 0)


def readers(database, project):
    for name in ("live_rows", "live_timed", "by_hand", "in_row_live"):
        wrong = difference(database, f"SELECT id, name, amount, mood FROM shop.{name}",
                           f"SELECT id, name, amount, mood FROM ({TRUTH}) t")
        check(f"{name} shows the live rows", not wrong, wrong[:5])
    wrong = difference(database, "SELECT rows, amount FROM shop.on_plain", f"SELECT count(*), sum(amount) FROM ({TRUTH}) t")
    check("the view on top", not wrong, wrong)


def a_loader_that_commits_late(database, project, events):
    """unread() misses no row of a transaction that was open during a run."""
    import psycopg2
    slow = psycopg2.connect(dbname=database.name)
    batch = events.batch(430)
    half = len(batch) // 2
    with slow.cursor() as cursor:
        for table in ("landing.events", "landing.archive", "landing.queue"):
            cursor.executemany(f"INSERT INTO {table} (op, id, name, amount, mood, lsn, seq)"
                               " VALUES (%s, %s, %s, %s, %s::landing.mood, %s, %s)", batch[:half])
    deliver(database, batch[half:])
    ok("with an open loader", project.dbt("run", "-s", "plain", "in_row"))
    all_right(database, "with an open loader", ["plain", "in_row"])
    slow.commit()
    slow.close()
    ok("after its commit", project.dbt("run", "-s", "plain", "in_row"))
    all_right(database, "after its commit", ["plain", "in_row"])


def full_refresh_in_the_middle(database, project, events):
    models = ["plain", "in_row", "timed_row", "swapped", "replayed", "quoted", "filtered"]
    # a filter that cannot be told from the source's: rows that only the table knows
    oids = {m: database.value(f"SELECT 'shop.{m}'::regclass::oid") for m in ("plain", "in_row", "timed_row", "swapped", "replayed")}
    database.run("ALTER TABLE shop.plain ADD COLUMN derived text")
    database.run("ALTER TABLE shop.swapped ADD COLUMN derived text")
    database.run("UPDATE shop.plain SET derived = 'of ' || id")
    database.run("UPDATE shop.swapped SET derived = 'of ' || id")
    database.run("GRANT SELECT ON shop.swapped TO dbt_reader")
    # drift: a wrong value, a row that vanished, a row that nobody knows
    for table in ("plain", "in_row", "swapped", "replayed"):
        database.run(f"SET cdc_precedence.bypass_guard = on; UPDATE shop.{table} SET name = 'drift' WHERE id % 3 = 0")
    database.run("DELETE FROM shop.plain WHERE id = (SELECT min(id) FROM shop.plain)")
    database.run("INSERT INTO shop.plain (id, name) VALUES (7777, 'of nobody')")
    database.run("""SELECT "cdc ext".cdc_set_fence('shop.plain', '0/800')""")
    deliver(database, events.batch(500))
    live = database.value("SELECT count(*) FROM shop.plain WHERE id <> 7777")
    results = project.dbt("run", "--full-refresh", "-s", *models)
    ok("full refresh", results)
    all_right(database, "full refresh", models)
    check("one row was not confirmed", "1 not confirmed" in results["plain"][1], (live, results["plain"][1]))
    for m, oid in oids.items():
        now = database.value(f"SELECT 'shop.{m}'::regclass::oid")
        check(f"{m} is {'another' if m == 'swapped' else 'the same'} table", (now == oid) == (m != "swapped"))
    for m in ("plain", "swapped"):
        wrong = database.run(f"SELECT id, derived FROM shop.{m} WHERE derived <> 'of ' || id")
        check(f"derived column of {m}", not wrong and database.value(f"SELECT count(derived) FROM shop.{m}") > 5, wrong)
    check("grants of the swapped table", database.value("SELECT has_table_privilege('dbt_reader', 'shop.swapped', 'SELECT')"))
    check("its index", database.value("SELECT count(*) FROM pg_index WHERE indrelid = 'shop.swapped'::regclass") == 2)
    check("no index twice", database.value("SELECT count(*) FROM pg_index WHERE indrelid = 'shop.plain'::regclass") == 3)
    check("guards", database.run("""SELECT target::text, guard FROM "cdc ext".cdc_targets WHERE guard <> 'off' ORDER BY 1""")
          == [("shop.in_row", "error"), ("shop.swapped", "skip")])
    check("the fence", database.value("""SELECT fence::text FROM "cdc ext".cdc_targets WHERE target = 'shop.plain'::regclass""")
          == "0/800")
    for m in ("plain", "in_row", "timed_row", "swapped"):
        high = database.value(f"""SELECT high_position::text FROM "cdc ext".cdc_targets WHERE target = 'shop.{m}'::regclass""")
        check(f"the greatest position of {m}", high == database.value("SELECT max(lsn)::text || ':' || max(seq) FROM landing.archive"), high)
    check("nothing is left behind", database.run("SELECT relname FROM pg_class WHERE relname ~ '__(cdc|dbt)_'") == [],
          database.run("SELECT relname FROM pg_class WHERE relname ~ '__(cdc|dbt)_'"))
    readers(database, project)
    ok("quoted names by swap", project.dbt("run", "--full-refresh", "-s", "quoted", env={"TRIAL_REFRESH": "swap"}))
    all_right(database, "quoted names by swap", ["quoted"])


def what_the_table_knows(database, project, events):
    """A landing that lost its beginning: deletes, fence and floor are carried over, too great a loss is refused."""
    # what was held back so far comes now, so that the greatest position is a safe one
    deliver(database, events.batch(500, late=0))
    ok("nothing held back", project.dbt("run", "-s", "plain", "in_row", "swapped", "replayed"))
    before = database.run(READ["plain"] + " ORDER BY id")
    database.run("CREATE TABLE landing.aside AS TABLE landing.events")
    # the deletes are lost, older upserts of the same keys are not: nothing may come back
    database.run("DELETE FROM landing.events WHERE op = 'd'")
    ok("deletes lost", project.dbt("run", "--full-refresh", "-s", "plain", "in_row", "swapped", "replayed"))
    all_right(database, "deletes lost", ["plain", "in_row", "swapped", "replayed"])
    # purged: the fence remembers
    for m in ("plain", "swapped"):
        database.run(f"""SELECT "cdc ext".cdc_purge_tombstones('shop.{m}', up_to => high_position)
            FROM "cdc ext".cdc_targets WHERE target = 'shop.{m}'::regclass""")
    ok("purged", project.dbt("run", "--full-refresh", "-s", "plain", "swapped"))
    for m in ("plain", "swapped"):
        wrong = difference(database, READ[m], truth())
        check(f"purged: live rows of {m}", not wrong, wrong[:5])
    # the half of the landing is gone
    database.run("DELETE FROM landing.events WHERE id % 2 = 0")
    results = project.dbt("run", "--full-refresh", "-s", "plain", "swapped", "replayed")
    for m in ("plain", "swapped"):
        check(f"too great a loss is refused: {m}", results[m][0] == "error" and "max_delete_fraction" in results[m][1], results[m])
    ok("replay goes on", results, but=("plain", "swapped"))
    check("a refused refresh changes nothing", database.run(READ["plain"] + " ORDER BY id") == before)
    all_right(database, "replay of a half landing", ["replayed"])
    # a floor decides keys that the landing has lost
    database.run("""SELECT "cdc ext".cdc_set_floor('shop.plain', high_position) FROM "cdc ext".cdc_targets
        WHERE target = 'shop.plain'::regclass""")
    ok("below the floor", project.dbt("run", "--full-refresh", "-s", "plain"))
    check("what the floor has decided stays", database.run(READ["plain"] + " ORDER BY id") == before)
    database.run("""SELECT "cdc ext".cdc_set_floor('shop.plain', NULL)""")
    database.run("TRUNCATE landing.events; INSERT INTO landing.events SELECT * FROM landing.aside; DROP TABLE landing.aside")


def retry_after_failure(database, project, events):
    deliver(database, events.batch(540))
    before = database.run("SELECT * FROM shop.plain ORDER BY id")
    state = database.run("SELECT * FROM shop.cdc_precedence_models WHERE model = 'plain'")
    results = project.dbt("run", "-s", "plain", env={"TRIAL_FAIL": "yes"})
    check("a failing hook fails the run", results["plain"][0] == "error", results)
    check("and leaves the table", database.run("SELECT * FROM shop.plain ORDER BY id") == before)
    check("and what is remembered", database.run("SELECT * FROM shop.cdc_precedence_models WHERE model = 'plain'") == state)
    results = project.dbt("run", "-s", "plain", "--full-refresh", env={"TRIAL_FAIL": "yes"})
    check("a failing full refresh leaves the table", results["plain"][0] == "error"
          and database.run("SELECT * FROM shop.plain ORDER BY id") == before, results)
    ok("retry", project.dbt("run", "-s", "plain"))
    check("the greatest position", database.value("""SELECT high_position::text FROM "cdc ext".cdc_targets
        WHERE target = 'shop.plain'::regclass""") == database.value("SELECT max(lsn)::text || ':' || max(seq) FROM landing.archive"))
    wrong = difference(database, READ["plain"], truth())
    check("retry: live rows", not wrong, wrong[:5])


def schema_changes(database, project, events):
    def run(columns, mode, *more):
        return project.dbt("run", "-s", "changing", *more, env={"TRIAL_COLUMNS": columns, "TRIAL_MODE": mode})["changing"]

    def columns():
        return [row[0] for row in database.run("SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute"
                " WHERE attrelid = 'shop.changing'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname")]

    first = ['amount numeric(12,2)', 'id integer', 'name text', 'source_position "cdc ext".cdc_position']
    check("first shape", run("id, name, amount", "ignore")[0] == "success" and columns() == first, columns())
    database.run("ALTER TABLE shop.changing ADD COLUMN mine text DEFAULT 'derived', ADD COLUMN twice int GENERATED ALWAYS AS (id * 2) STORED")
    kept = ['mine text', 'twice integer']
    status, message = run("id, name, amount, mood", "ignore")
    check("ignore leaves a new column out", status == "success" and columns() == sorted(first + kept), (status, message, columns()))
    status, message = run("id, name, amount, mood", "fail")
    check("fail says what differs", status == "error" and "new: mood landing.mood" in message, message)
    status, message = run("id, name, amount, mood", "append_new_columns", "--full-refresh")
    check("append adds it", status == "success" and "mood landing.mood" in columns(), (message, columns()))
    wrong = difference(database, "SELECT id, name, amount, mood, source_position::text FROM shop.changing", truth())
    check("and a full refresh fills it", not wrong, wrong[:5])
    database.run("CREATE TYPE landing.mood2 AS ENUM ('sad', 'ok', 'happy', 'new')")
    status, message = run("id, name, amount, mood::text::landing.mood2 as mood", "fail")
    check("another type of an extension or a user is seen", status == "error" and "landing.mood2" in message, message)
    status, message = run("id, name, amount, mood::text::landing.mood2 as mood", "append_new_columns")
    check("and converted", status == "error" or "mood landing.mood" in columns(), message)
    status, message = run("id, name, mood::text as mood", "append_new_columns")
    check("a column that stops being fed is refused", status == "error" and "amount" in message, message)
    status, message = run("id, name, mood::text as mood", "sync_all_columns")
    expected = sorted(['id integer', 'name text', 'mood text', first[3]] + kept)
    check("sync drops and alters what the model feeds, nothing else", status == "success" and columns() == expected, (message, columns()))
    deliver(database, events.batch(570))
    status, message = run("id, name, mood::text as mood", "sync_all_columns")
    check("and goes on", status == "success", message)
    wrong = difference(database, "SELECT id, name, mood, source_position::text FROM shop.changing", truth("id, name, mood::text"))
    check("with the right rows", not wrong, wrong[:5])
    check("derived values stay", database.value("SELECT bool_and(mine = 'derived' AND twice = id * 2) FROM shop.changing"))


def tests_can_fail(database, project):
    project.dbt("run", "-s", "plain", "in_row")
    ok("tests", project.dbt("test", "--exclude", "source:landing.bare"))
    results = project.dbt("test", "-s", "source:landing.bare")
    check("staging without a position fails", [r[0] for r in results.values()] == ["fail"], results)
    dead = database.value("SELECT min(id) FROM shop.plain_tombstones")
    check("a deleted key to bring back", dead is not None)
    database.run("INSERT INTO shop.plain (id, name) VALUES (%s, 'back')", (dead,))
    database.run("SET cdc_precedence.bypass_guard = on; UPDATE shop.in_row SET deleted = false, source_position = '0/1' WHERE id = %s", (dead,))
    database.run("INSERT INTO landing.events (op, id) VALUES ('u', 1)")
    results = project.dbt("test", "--exclude", "source:landing.bare")
    for name, (status, message) in results.items():
        check(f"must fail: {name}", status == "fail", f"{status}: {message}")
    database.run("DELETE FROM landing.events WHERE lsn IS NULL")
    database.run("DELETE FROM shop.plain WHERE name = 'back' AND source_position IS NULL")
    ok("mended", project.dbt("run", "--full-refresh", "-s", "plain", "in_row"), but=("in_row",))


def other_ways_in(database, project, events):
    """Tables and views that were there before; a model that has no position; the end of the history."""
    database.run("CREATE SCHEMA IF NOT EXISTS other; DROP TABLE shop.replayed; DROP VIEW IF EXISTS shop.replayed")
    database.run(f"CREATE TABLE shop.replayed AS SELECT id, name, amount, mood, now() AS loaded_then FROM ({TRUTH}) t")
    before = database.run("SELECT * FROM shop.replayed ORDER BY id")
    results = project.dbt("run", "-s", "replayed")
    check("another table under the name of one that was fed is refused", results["replayed"][0] == "error"
          and "not attached any more" in results["replayed"][1] and "cdc_attach" in results["replayed"][1], results)
    check("and left alone", database.run("SELECT * FROM shop.replayed ORDER BY id") == before)
    database.run("DELETE FROM shop.cdc_precedence_models WHERE model = 'replayed'")   # as the error says
    results = project.dbt("run", "-s", "replayed")
    check("a table without a key says which index it needs", results["replayed"][0] == "error"
          and "CREATE UNIQUE INDEX" in results["replayed"][1], results)
    database.run("CREATE UNIQUE INDEX ON shop.replayed (id)")
    deliver(database, events.batch(600))
    results = project.dbt("run", "--exclude", "changing", "cut_*")
    ok("the whole history, a table taken over", results)
    check("what its former writer fed is named", "does not feed" in project.output and "new rows: loaded_then." in project.output, project.output)
    all_right(database, "the whole history", [m for m in READ if m not in ("plain", "swapped", "in_row")])
    for m in ("plain", "swapped", "in_row"):
        wrong = difference(database, READ[m], truth())
        check(f"the whole history: live rows of {m}", not wrong, wrong[:5])
    database.run("DROP TABLE shop.filtered; CREATE VIEW shop.filtered AS SELECT 1 AS id")
    ok("a view becomes a table", project.dbt("run", "-s", "filtered"))
    all_right(database, "a view becomes a table", ["filtered"])
    database.run("CREATE VIEW other.on_swapped AS SELECT id FROM shop.swapped")
    results = project.dbt("run", "--full-refresh", "-s", "swapped")
    check("swap under a view is refused", results["swapped"][0] == "error" and "other.on_swapped" in results["swapped"][1], results)
    ok("cdc_swap_cascade", project.dbt("run", "--full-refresh", "-s", "swapped", env={"TRIAL_CASCADE": "yes"}))
    check("lets it go", database.value("SELECT to_regclass('other.on_swapped') IS NULL"))
    results = project.dbt("run", "-s", "plain", "--full-refresh", "--empty")
    check("--empty does not empty a table", database.value("SELECT count(*) FROM shop.plain") > 5, results)


def epochs(database, project):
    """A log that started over: epoch, lineage and floor outlive a full refresh, old positions stay outranked."""
    models = ("plain", "swapped")
    for m in models:
        database.run(f"""SELECT "cdc ext".cdc_set_floor('shop.{m}', '0/900'), "cdc ext".cdc_new_epoch('shop.{m}', 'second')""")
    results = project.dbt("run", "-s", *models)
    for m in models:
        check(f"no positions of an undeclared log: {m}", results[m][0] == "error" and "lineage" in results[m][1], results[m])
    ok("full refresh in another epoch", project.dbt("run", "--full-refresh", "-s", *models, env={"TRIAL_LINEAGE": "second"}))
    for m in models:
        kept = database.run(f"""SELECT epoch, lineage, floor::text FROM "cdc ext".cdc_targets WHERE target = 'shop.{m}'::regclass""")
        check(f"epoch, lineage and floor of {m}", kept == [(1, "second", "0/900")], kept)
        wrong = difference(database, READ[m].replace("source_position::text", "regexp_replace(source_position::text, '^1@', '')"), truth())
        check(f"another epoch: live rows of {m}", not wrong, wrong[:5])
        check(f"all in the new epoch: {m}", database.value(f"""SELECT bool_and("cdc ext".cdc_position_epoch(source_position) = 1) FROM shop.{m}"""))


def truncates(database, project):
    """A truncate that a full refresh meets first kills the table's rows, and stays a fence."""
    models = {"cut_in_place": "", "cut_swap": "", "cut_in_row": " WHERE NOT deleted"}
    cut = ("landing.cut",)
    deliver(database, [("c", k, "old", k, "ok", f"0/{100 + k}", 0) for k in range(1, 8)], cut)
    ok("before a truncate", project.dbt("run", "-s", *models))
    deliver(database, [("t", None, None, None, None, "0/200", 0), ("c", 3, "new", 1, "ok", "0/210", 0),
                       ("u", 8, "late", 1, "ok", "0/190", 0)], cut)
    # the log has lost what was before, too
    database.run("DELETE FROM landing.cut WHERE id IN (1, 2, 5)")
    results = project.dbt("run", "--full-refresh", "-s", *models)
    ok("with a truncate", results)

    def rows(m):
        return database.run(f"SELECT id, name, source_position::text FROM shop.{m}{models[m]} ORDER BY id")

    for m in models:
        check(f"only what came after the truncate: {m}", rows(m) == [(3, "new", "0/210")], rows(m))
        check(f"which is no loss: {m}", "0 not confirmed" in results[m][1], results[m])
    database.run("DELETE FROM landing.cut WHERE op = 't'")
    deliver(database, [("c", k, "old", k, "ok", f"0/{100 + k}", 0) for k in range(1, 8)], cut)
    for how in ([], ["--full-refresh"]):
        ok("the truncate is lost", project.dbt("run", *how, "-s", *models))
        for m in models:
            check(f"nothing comes back {how}: {m}", rows(m) == [(3, "new", "0/210")], rows(m))
            fence = database.value(f"""SELECT fence::text FROM "cdc ext".cdc_targets WHERE target = 'shop.{m}'::regclass""")
            check(f"the fence of {m}", fence == "0/200", fence)


def contracts(database, project):
    path = os.path.join(project.path, "models", "models.yml")
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace("numeric(12, 2)", "bigint"))
    results = project.dbt("run", "-s", "timed_row")
    check("a broken contract fails", results["timed_row"][0] == "error" and "contract" in results["timed_row"][1].lower(), results)
    with open(path, "w") as file:
        file.write(text)


def example(work):
    """docs/dbt.md, step by step, with the package installed by git, by a role that is no superuser."""
    database = Database("cdc_dbt_example", "dbt_plain")
    os.environ["PGUSER"] = "dbt_plain"
    project = Project(os.path.join(ROOT, "dbt", "example"), work, database)
    repository = world.git_package(work)
    if repository:
        project.packages(f"packages:\n  - git: '{repository}'\n    subdirectory: dbt\n    revision: v1\n")
    else:
        project.packages(f"packages:\n  - local: {os.path.join(ROOT, 'dbt')}\n")
    project.dbt("deps")

    def psql(name):
        with open(os.path.join(project.path, "setup", name)) as file:
            database.run(file.read())

    by_hand = """SELECT id, name, city FROM (SELECT DISTINCT ON (id) * FROM landing.customers
        ORDER BY id, commit_lsn DESC, seq DESC) s WHERE op <> 'd'"""
    totals = f"""SELECT c.id, c.name, coalesce(sum(o.total), 0) FROM ({by_hand}) c LEFT JOIN (
        SELECT * FROM (SELECT DISTINCT ON (id) * FROM landing.orders ORDER BY id, commit_lsn DESC, seq DESC) s WHERE op <> 'd') o
        ON o.customer_id = c.id GROUP BY c.id, c.name"""
    psql("landing.sql")
    for step in ("first build", "second delivery", "once more", "full refresh", "swap"):
        if step == "second delivery":
            psql("later.sql")
        if step == "swap":
            database.run("DROP VIEW shop.customer_totals, shop.customers_by_log")
            path = os.path.join(project.path, "dbt_project.yml")
            with open(path) as file:
                text = file.read()
            with open(path, "w") as file:
                file.write(text.replace("+unique_key: id", "+unique_key: id\n      +cdc_full_refresh: swap"))
        results = project.dbt("build", *(["--full-refresh"] if step in ("full refresh", "swap") else []))
        ok(f"example, {step}", results)
        for table, expected in (("customers", by_hand), ("customers_by_log", by_hand), ("customer_totals", totals)):
            columns = "id, name, total" if table == "customer_totals" else "id, name, city"
            wrong = difference(database, f"SELECT {columns} FROM shop.{table}", expected)
            check(f"example, {step}: {table}", not wrong, wrong)
    database.connection.close()


def leaving(work):
    """DROP EXTENSION and back, by the statements of docs/dbt.md, with deletes held by tombstone, row and fence."""
    database = Database("cdc_dbt_leaving", "dbt_plain")
    os.environ["PGUSER"] = "dbt_plain"
    project = Project(os.path.join(ROOT, "dbt", "example"), work, database, "leaving")
    project.packages(f"packages:\n  - local: {os.path.join(ROOT, 'dbt')}\n")
    project.dbt("deps")
    for name in ("landing.sql", "later.sql"):
        with open(os.path.join(project.path, "setup", name)) as file:
            database.run(file.read())
    ok("before leaving", project.dbt("build"))
    database.run("SELECT cdc_purge_tombstones('shop.customers', up_to => '0/200')")
    state = """SELECT 'customer', id, name || city, source_position::text, NULL::bool FROM shop.customers UNION ALL
        SELECT 'dead', id, NULL, source_position::text, NULL FROM shop.customers_tombstones UNION ALL
        SELECT 'order', id, total::text, source_position::text, deleted FROM shop.orders ORDER BY 1, 2"""
    before = database.run(state)
    kinds = [row[0] for row in before]
    check("deletes of each kind", kinds.count("dead") == 1 and any(row[4] for row in before)
          and database.value("SELECT fence::text FROM cdc_targets WHERE target = 'shop.customers'::regclass") == "0/200", before)
    leave, columns, attach = world.blocks("dbt.md", "Leaving and coming back")
    database.run(leave)
    # a landing that keeps some time only, and old events that come once more
    database.run("DELETE FROM landing.customers WHERE op = 'd'; DELETE FROM landing.orders WHERE op = 'd'")
    database.run("""INSERT INTO landing.orders (op, id, customer_id, total, commit_lsn, seq) VALUES ('c', 12, 1, 3, '0/160', 0);
        INSERT INTO landing.customers (op, id, name, city, commit_lsn, seq) VALUES
            ('c', 1, 'Ann', 'Ulm', '0/100', 0), ('c', 3, 'Cid', 'Celle', '0/120', 0)""")
    database.run(columns)
    for how in ([], ["--full-refresh"]):
        results = project.dbt("run", "-s", "marts", *how)
        for m, words in (("customers", ("not attached any more", "shop.customers_tombstones", "cdc_attach")),
                         ("orders", ("not attached any more", "cdc_attach"))):
            check(f"not attached: {m} is refused {how}", results[m][0] == "error" and all(w in results[m][1] for w in words), results[m])
    check("nothing was attached", database.value("SELECT count(*) FROM cdc_targets") == 0
          and database.value("SELECT to_regclass('shop.customers_tombstones1') IS NULL"))
    check("nothing has changed", database.run(state) == before, database.run(state))
    database.run(attach)
    for how in ([], ["--full-refresh"], []):
        # the view that picks from the log by hand has nothing but the log
        ok(f"back again {how}", project.dbt("build", "--exclude", "customers_by_log", *how))
        check(f"nothing came back {how}", database.run(state) == before, (before, database.run(state)))
    check("the fence too", database.value("SELECT fence::text FROM cdc_targets WHERE target = 'shop.customers'::regclass") == "0/200")
    check("the guard is the configuration's", database.value("SELECT guard FROM cdc_targets WHERE target = 'shop.orders'::regclass") == "error")
    # by hand before, by dbt from now on: the package has no record, the old side table tells
    database.run(leave.replace(", shop.customers_by_log", ""))
    database.run("DROP TABLE shop.cdc_precedence_models")
    database.run(columns)
    results = project.dbt("run", "-s", "marts")
    check("an old side table is reason enough", results["customers"][0] == "error" and "shop.customers_tombstones" in results["customers"][1]
          and "any more" not in results["customers"][1], results["customers"])
    ok("marked rows need no more than their column", results, but=("customers",))
    database.run("DROP TABLE shop.customers, shop.customers_tombstones")
    ok("from nothing", project.dbt("run", "-s", "marts"))
    check("is from what the landing has", database.run("SELECT id FROM shop.customers ORDER BY id") == [(1,), (2,), (3,), (4,)])
    database.connection.close()


def arguments_of_tests(database, project, models):
    """The tests with the logs of docs/dbt.md: what passes, what fails, and what they ask of a log."""
    text = world.blocks("dbt.md", "Tests", "yaml")[1].replace("source('landing'", "source('landing_raw'")
    shown = "".join("    " + line for line in text.splitlines(True))

    def of_both(tests):
        with open(os.path.join(models, "raw_tests.yml"), "w") as file:
            file.write("version: 2\nmodels:\n" + "".join(f"  - name: {m}\n{tests}" for m in ("customers_by_hand", "customers_decoded")))
        results = project.dbt("test", "-s", "customers_by_hand", "customers_decoded")
        return {name: result for name, result in results.items() if name.startswith("cdc_precedence")}

    def statuses(results):
        return sorted((name.split("_customers")[0], status) for name, (status, _) in results.items())

    # rows that the truncate has not taken: of a snapshot, and of the log
    database.run("""INSERT INTO landing.customers_raw (payload) SELECT jsonb_build_object('op', 'r', 'after', jsonb_build_object('id', i,
        'name', 'of the snapshot'), 'source', '{"connector": "postgresql", "lsn": 60}'::jsonb) FROM generate_series(20, 22) i""")
    for m in ("customers_by_hand", "customers_decoded"):
        database.run(f"INSERT INTO shop.{m} (id, name) SELECT i, 'of the snapshot' FROM generate_series(20, 22) i")
    passing = [("cdc_precedence_no_resurrected_rows", "pass")] * 2 + [("cdc_precedence_positions_not_null", "pass")] * 2
    results = of_both(shown)
    check("snapshot rows pass, as the log says what they are", statuses(results) == passing, results)
    plain = "    data_tests: [cdc_precedence.positions_not_null]\n"
    results = of_both(plain)
    check("without it they fail", [(r[0], r[1].split()[1]) for r in results.values()] == [("fail", "3")] * 2, results)
    results = of_both("    data_tests:\n      - cdc_precedence.positions_not_null:\n          arguments: {allow_snapshot_rows: true}\n")
    check("nothing is allowed without a log", [(r[0], "needs log" in r[1]) for r in results.values()] == [("error", True)] * 2, results)

    # one that nobody knows, one that a change came for, one with a position that is none
    for m in ("customers_by_hand", "customers_decoded"):
        database.run(f"INSERT INTO shop.{m} (id, name) VALUES (23, 'of nobody'); UPDATE shop.{m} SET source_position = '0/0' WHERE id = 21")
    database.run("""INSERT INTO landing.customers_raw (payload) VALUES ('{"op": "u", "after": {"id": 22, "name": "x"},
        "source": {"connector": "postgresql", "lsn": 170}}')""")
    results = of_both(shown)
    found = sorted((name.split("_customers")[0], *r[1].split()[:2]) for name, r in results.items() if r[0] == "fail")
    check("what the log does not say is a snapshot row fails", found == [("cdc_precedence_positions_not_null", "Got", "3")] * 2, results)
    database.run("DELETE FROM landing.customers_raw WHERE payload @> '{\"op\": \"u\", \"after\": {\"id\": 22}}'")
    for m in ("customers_by_hand", "customers_decoded"):
        database.run(f"SELECT cdc_set_floor('shop.{m}', '0/100')")
    results = of_both(plain)
    check("below a floor they need none", [r[0] for r in results.values()] == ["pass"] * 2, results)
    for m in ("customers_by_hand", "customers_decoded"):
        database.run(f"SELECT cdc_set_floor('shop.{m}', NULL); DELETE FROM shop.{m} WHERE id >= 20")

    # a log that has not what the tests need
    raw = "      - cdc_precedence.{}:\n          arguments: {{log: \"{{{{ source('landing_raw', 'customers_raw') }}}}\"{}}}\n"
    results = of_both("    data_tests:\n" + raw.format("no_resurrected_rows", "") + raw.format("positions_not_null", ", allow_snapshot_rows: true"))
    check("a raw log is refused by the names that it lacks", len(results) == 4 and all(
        r[0] == "error" and 'has no column "id", "op"' in r[1] and "payload, loaded_xid" in r[1] for r in results.values()), results)
    os.remove(os.path.join(models, "raw_tests.yml"))


def raw_events(work):
    """The two models of docs/dbt.md over a landing of Debezium's envelopes."""
    database = Database("cdc_dbt_raw", "dbt_plain")
    os.environ["PGUSER"] = "dbt_plain"
    project = Project(os.path.join(ROOT, "dbt", "example"), work, database, "raw")
    project.packages(f"packages:\n  - local: {os.path.join(ROOT, 'dbt')}\n")
    project.dbt("deps")
    models = os.path.join(project.path, "models")
    for name, text in zip(("customers_by_hand", "customers_decoded"), world.blocks("dbt.md", "A landing of raw events", "jinja")):
        with open(os.path.join(models, "marts", name + ".sql"), "w") as file:
            file.write(text)
    with open(os.path.join(models, "raw.yml"), "w") as file:
        file.write("version: 2\nsources:\n  - name: landing_raw\n    schema: landing\n"
                   "    tables: [{name: customers_raw}, {name: customers_decoded_events}]\n")
    for name in ("customers_by_hand", "customers_decoded"):
        path = os.path.join(models, "marts", name + ".sql")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("source('landing'", "source('landing_raw'"))
    database.run("""CREATE SCHEMA landing; CREATE EXTENSION cdc_precedence;
        CREATE TABLE landing.customers_raw (payload jsonb, loaded_xid xid8 DEFAULT pg_current_xact_id())""")
    database.run(world.blocks("dbt.md", "A landing of raw events")[0])

    history = []

    def land(*events):
        """Each (op, id, name, city, lsn), as Debezium writes it: a JSON null where there is no image."""
        history.extend(events)
        for op, key, name, city, lsn in events:
            row = {"id": key, "name": name, "city": city}
            database.run("INSERT INTO landing.customers_raw (payload) VALUES (%s)", (json.dumps({
                "op": op, "before": {"id": key, "name": None, "city": None} if op == "d" else None,
                "after": None if op in ("d", "t") else row,
                "source": {"connector": "postgresql", "schema": "public", "table": "customers", "lsn": lsn}}),))

    def right(when):
        last = {}
        cut = max([e[4] for e in history if e[0] == "t"], default=0)
        for op, key, name, city, lsn in sorted(history, key=lambda e: (e[0] != "r", e[4])):
            if lsn > cut:
                last[key] = (op, key, name, city)
        want = sorted(e[1:] for e in last.values() if e[0] != "d")
        for m in ("customers_by_hand", "customers_decoded"):
            got = database.run(f"SELECT id, name, city FROM shop.{m} ORDER BY id")
            check(f"raw events, {when}: {m}", got == want, (got, want))
            columns = [row[0] for row in database.run(f"SELECT attname::text FROM pg_attribute WHERE attrelid = 'shop.{m}'::regclass"
                                                      " AND attnum > 0 AND NOT attisdropped ORDER BY attnum")]
            check(f"raw events, {when}: columns of {m}", columns == ["id", "name", "city", "source_position"], columns)

    both = ("run", "-s", "customers_by_hand", "customers_decoded")
    database.run("INSERT INTO landing.customers_raw (payload) VALUES (NULL), ('null'), ('{\"ts_ms\": 1}')")
    land(("r", 9, "Ida", "Jena", 50), ("c", 1, "Ann", "Ulm", 100), ("c", 2, "Bob", "Bonn", 110), ("d", 1, None, None, 120),
         ("d", 7, None, None, 130))
    ok("raw events, first run", project.dbt(*both))
    right("first run")
    land(("c", 7, "Gus", "Gera", 90), ("u", 1, "Ann", "Köln", 115), ("u", 2, "Bob", None, 140), ("c", 3, "Cid", "Celle", 150))
    results = project.dbt(*both)
    ok("raw events, late", results)
    for m in both[2:]:
        message = results[m][1]
        check(f"raw events, only what is new is read: {m}", "CDC 4 events" in message, message)
    right("late")
    ok("raw events, full refresh", project.dbt(*both, "--full-refresh"))
    right("full refresh")
    land(("t", None, None, None, 145))
    ok("raw events, truncate", project.dbt(*both))
    right("truncate")
    arguments_of_tests(database, project, models)
    # the trap
    path = os.path.join(models, "marts", "customers_by_hand.sql")
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace("nullif(payload->'after', 'null')", "payload->'after'"))
    land(("d", 3, None, None, 160))
    results = project.dbt(*both)
    check("raw events, a JSON null is no image", results["customers_by_hand"][0] == "error" and "NULL" in results["customers_by_hand"][1], results)
    database.connection.close()


def main():
    database = Database("cdc_dbt_trial")
    database.run("DO $$ BEGIN CREATE ROLE dbt_reader; EXCEPTION WHEN duplicate_object THEN END $$")
    database.run(SETUP)
    project = Project(os.path.join(world.HERE, "project"), WORK, database)
    project.packages(f"packages:\n  - local: {os.path.join(ROOT, 'dbt')}\n")
    project.dbt("deps")
    events = Events(int(os.environ.get("CDC_SEED", "7")))
    guarded("first and later runs", first_and_later_runs, database, project, events)
    guarded("readers", readers, database, project)
    guarded("a loader that commits late", a_loader_that_commits_late, database, project, events)
    guarded("full refresh in the middle", full_refresh_in_the_middle, database, project, events)
    guarded("what the table knows", what_the_table_knows, database, project, events)
    guarded("retry after failure", retry_after_failure, database, project, events)
    guarded("schema changes", schema_changes, database, project, events)
    guarded("tests can fail", tests_can_fail, database, project)
    guarded("other ways in", other_ways_in, database, project, events)
    guarded("epochs", epochs, database, project)
    guarded("truncates", truncates, database, project)
    guarded("contracts", contracts, database, project)
    database.drop()
    user = os.environ.get("PGUSER")
    for what, function in (("example", example), ("leaving", leaving), ("raw events", raw_events)):
        guarded(what, function, WORK)
        os.environ.pop("PGUSER", None)
        if user:
            os.environ["PGUSER"] = user
    for name in ("cdc_dbt_example", "cdc_dbt_leaving", "cdc_dbt_raw"):
        Database(name).drop()
    admin = Database("cdc_dbt_trial")
    admin.run("DROP ROLE IF EXISTS dbt_reader, dbt_plain")
    admin.drop()
    world.finish("dbt")


if __name__ == "__main__":   # dbt starts processes that read this file again
    main()
