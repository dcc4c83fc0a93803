"""What the tests of the dbt package stand on: a database, events, dbt itself.

Events are drawn at random from a fixed seed and delivered badly: shuffled, in
batches, some twice, some late.  All that was ever delivered stays in
landing.archive, from which plain SQL, without the extension, says what a table
must hold.
"""

import contextlib
import io
import os
import random
import re
import shutil
import subprocess
import sys
import traceback

import psycopg2
from dbt.cli.main import dbtRunner

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

passed = failed = 0


def check(what, ok, detail=""):
    """Counts; says what failed."""
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print(f"FAIL {what}" + (f"\n     {str(detail)[:1500]}" if detail != "" else ""), flush=True)


class Database:
    def __init__(self, name, owner=None):
        self.name = name
        admin = psycopg2.connect(dbname="postgres")
        admin.autocommit = True
        with admin.cursor() as cursor:
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            if owner:
                cursor.execute(f"SELECT FROM pg_roles WHERE rolname = '{owner}'")
                if cursor.fetchone() is None:
                    cursor.execute(f"CREATE ROLE {owner} LOGIN")
            cursor.execute(f'CREATE DATABASE "{name}"' + (f" OWNER {owner}" if owner else ""))
        admin.close()
        self.connection = psycopg2.connect(dbname=name, **({"user": owner} if owner else {}))
        self.connection.autocommit = True

    def run(self, sql, arguments=None):
        with self.connection.cursor() as cursor:
            cursor.execute(sql, arguments)
            return cursor.fetchall() if cursor.description else None

    def value(self, sql, arguments=None):
        return self.run(sql, arguments)[0][0]

    def drop(self):
        self.connection.close()
        admin = psycopg2.connect(dbname="postgres")
        admin.autocommit = True
        with admin.cursor() as cursor:
            cursor.execute(f'DROP DATABASE IF EXISTS "{self.name}" WITH (FORCE)')
        admin.close()


class Project:
    """A dbt project, copied, and run in this process."""

    def __init__(self, source, work, database, name=None):
        self.path = os.path.join(work, (name or os.path.basename(source)) + "_project")
        shutil.copytree(source, self.path, ignore=shutil.ignore_patterns("dbt_packages", "target", "logs"))
        os.environ["PGDATABASE"] = database.name
        self.output = ""

    def packages(self, text):
        with open(os.path.join(self.path, "packages.yml"), "w") as file:
            file.write(text)

    def dbt(self, *arguments, env=()):
        """{node: (status, message)}, or the exception if dbt did not get that far.

        What varies is told by env: dbt then reads only the files again that ask for it."""
        out = io.StringIO()
        for name in ("TRIAL_COLUMNS", "TRIAL_MODE", "TRIAL_FAIL", "TRIAL_REFRESH", "TRIAL_LINEAGE", "TRIAL_CASCADE"):
            os.environ.pop(name, None)
        os.environ.update(env)
        with contextlib.redirect_stdout(out):
            result = dbtRunner().invoke(["--no-use-colors", "--log-level-file", "none", *arguments, "--project-dir", self.path]
                + ([] if arguments[0] == "deps" else ["--profiles-dir", self.path]))
        self.output = out.getvalue()
        if result.exception is not None and result.result is None:
            return {"": ("error", str(result.exception))}
        if arguments[0] == "deps":
            return {}
        return {each.node.name: (str(each.status), str(each.message)) for each in result.result.results}


class Events:
    """Random histories of keys; each event is (op, id, name, amount, mood, lsn, seq)."""

    def __init__(self, seed, keys=60, count=600):
        self.random = random.Random(seed)
        lsn = 0x1000
        live = set()
        self.history = []
        for _ in range(count):
            key = self.random.randint(1, keys)
            lsn += self.random.choice((0, 16, 0x100))
            op = "d" if key in live and self.random.random() < 0.25 else "u" if key in live else "c"
            (live.discard if op == "d" else live.add)(key)
            row = (None, None, None) if op == "d" else (
                self.random.choice(("ann", "bob's", 'c"d', "ß", None, "x" * 50)),
                self.random.randint(0, 99999) / 100,
                self.random.choice(("sad", "ok", "happy", None)))
            self.history.append((op, key, *row, f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}", len(self.history)))
        self.sent = []
        self.waiting = list(self.history)

    def batch(self, upto, late=0.2, again=0.3):
        """Up to a place in the history: some are held back, some come again, all shuffled."""
        due = [e for e in self.waiting if e[6] < upto]
        held = [e for e in due if self.random.random() < late] if upto < len(self.history) else []
        new = [e for e in due if e not in held]
        self.waiting = [e for e in self.waiting if e not in new]
        repeats = [e for e in self.sent if self.random.random() < again]
        repeats += [e for e in new if self.random.random() < again]
        self.sent += new
        out = new + repeats
        self.random.shuffle(out)
        return out


def deliver(database, events, tables=("landing.events", "landing.archive", "landing.queue")):
    for table in tables:
        with database.connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {table} (op, id, name, amount, mood, lsn, seq) VALUES (%s, %s, %s, %s, %s::landing.mood, %s, %s)",
                events)


# the law, in plain SQL
TRUTH = """SELECT id, name, amount, mood, lsn::text || ':' || seq AS pos FROM (
    SELECT DISTINCT ON (id) * FROM landing.archive ORDER BY id, lsn DESC, seq DESC) s WHERE op <> 'd'"""
GONE = """SELECT id, lsn::text || ':' || seq AS pos FROM (
    SELECT DISTINCT ON (id) * FROM landing.archive ORDER BY id, lsn DESC, seq DESC) s WHERE op = 'd'"""


def difference(database, ours, truth):
    """Rows on one side only."""
    return database.run(f"(SELECT 'only here', * FROM ({ours} EXCEPT ALL {truth}) a) UNION ALL "
                        f"(SELECT 'missing', * FROM ({truth} EXCEPT ALL {ours}) b)")


def blocks(page, heading, language="postgresql"):
    """The SQL, or models, of a page under a heading, in order: what readers of it would paste."""
    with open(os.path.join(ROOT, "docs", page)) as file:
        section = file.read().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.S | re.M)


def finish(name):
    print(f"{name}: {passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)


def guarded(what, function, *arguments):
    """A part that breaks counts as one failure; the others still run."""
    try:
        function(*arguments)
    except Exception:
        check(what, False, traceback.format_exc())


def git_package(work):
    """The package in a repository of its own, as it is fetched by git: None without git."""
    if shutil.which("git") is None:
        return None
    repository = os.path.join(work, "repository")
    shutil.copytree(os.path.join(ROOT, "dbt"), os.path.join(repository, "dbt"),
                    ignore=shutil.ignore_patterns("dbt_packages", "target", "logs"))
    for command in (["init", "-q"], ["add", "-A"],
                    ["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-q", "-m", "package"], ["tag", "v1"]):
        subprocess.run(["git", "-C", repository, *command], check=True)
    return repository
