#!/usr/bin/env python3
"""Every message of the extension is one that a test has seen.

Reads each ereport() of src/ and each RAISE of sql/, and looks for its texts
in the expected outputs of the suites: the primary message next to its
SQLSTATE, and each detail and hint.  What no output has must be in
test/errors.allow with its reason.  Sentences that are put into a variable
first are looked for as well.  An elog(ERROR) must be in the list too: it says
why it cannot be reached.  docs/errors.md must have each SQLSTATE and WARNING.

    python3 test/errors.py [--list]
Ends with "errors: N passed, N failed".
"""

import glob
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = r'"(?:[^"\\]|\\.)*"'
CALLS = ("errmsg", "errdetail", "errhint", "errmsg_plural", "errdetail_plural",
         "errmsg_internal", "errdetail_internal")
# lengthmodifiers too: %lld, %.100s, %X
PLACE = re.compile(r"%[-0-9.]*(?:ll|l|z)?[sdiuXxcf]")


def unquote(literals):
    """The C string that adjacent literals make."""
    joined = "".join(literal[1:-1] for literal in literals)
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m.group(1), m.group(1)), joined)


def strip_comments(source):
    """Comments as spaces, so that lines stay where they are."""
    def blank(m):
        return m.group(0) if m.group(0)[0] == '"' else re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(TEXT + r"|/\*.*?\*/", blank, source, flags=re.S)


def call_at(source, start):
    """The text between the parentheses that open at or after start."""
    depth, at = 0, source.index("(", start)
    begin = at + 1
    while True:
        m = re.compile(TEXT + r"|'(?:[^'\\]|\\.)+'|[()]").search(source, at)
        at = m.end()
        if m.group(0) == "(":
            depth += 1
        elif m.group(0) == ")":
            depth -= 1
            if depth == 0:
                return source[begin:m.start()]


def first_argument(arguments):
    depth = 0
    for m in re.finditer(TEXT + r"|[(),]", arguments):
        if m.group(0) == "(":
            depth += 1
        elif m.group(0) == ")":
            depth -= 1
        elif m.group(0) == "," and depth == 0:
            return arguments[:m.start()]
    return arguments


def formats(argument):
    """The formats an argument can be: those of both arms of a ?: are apart."""
    argument = re.sub(r"\b[A-Z]+64_FORMAT\b", '"%lld"', argument)
    for piece in re.split(r"[?:](?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", argument):
        literals = re.findall(TEXT, piece)
        # a comparison such as strcmp(x, "y") is no text
        if literals and re.fullmatch(r"[\s()_]*" + r"\s*".join(map(re.escape, literals)) + r"[\s()]*", piece):
            yield unquote(literals)


def pattern(text):
    """A text as a regular expression; each place holder takes anything."""
    pieces = PLACE.split(text.replace("%%", "\0"))
    return ".*?".join(re.escape(piece.replace("\0", "%")) for piece in pieces)


def messages():
    """(file, line, kind, text, level, code) of all that can be raised."""
    for name in sorted(glob.glob(str(ROOT / "src/*.[ch]"))):
        source = strip_comments(Path(name).read_text())
        short = Path(name).name
        spans = []
        for m in re.finditer(r"\b(ereport|errsave|ereturn|elog)\s*\(", source):
            if source.rfind("\n#define", 0, m.start()) > source.rfind("\n", 0, m.start()) - 8:
                continue
            body = call_at(source, m.start())
            spans.append((m.start(), m.end() + len(body)))
            line = source.count("\n", 0, m.start()) + 1
            level = re.match(r"\s*(\w+)", body).group(1)
            if m.group(1) == "elog":
                if level in ("ERROR", "FATAL", "PANIC"):
                    yield short, line, "elog", unquote(re.findall(TEXT, body)[:1]), level, None
                continue
            code = re.findall(r"errcode\w*\(\s*(\w*)", body)
            for kind in CALLS:
                for c in re.finditer(r"\b%s\s*\(" % kind, body):
                    for text in formats(first_argument(call_at(body, c.start()))):
                        if text != "%s":
                            yield short, line, kind.split("_")[0], text, level, code
        # sentences on their way to errdetail("%s") and errhint("%s")
        for m in re.finditer(r"(?:%s\s*)+" % TEXT, source):
            # descriptions of settings
            if short == "cdc_module.c" or any(a <= m.start() < b for a, b in spans):
                continue
            text = unquote(re.findall(TEXT, m.group(0)))
            if re.match(r"[A-Z][a-z]* .*\.$", text) or re.match(r"ALTER .*;$", text):
                yield short, source.count("\n", 0, m.start()) + 1, "sentence", text, None, None
    for name in sorted(glob.glob(str(ROOT / "sql/*.sql"))):
        if "--" in Path(name).name:
            continue
        source = Path(name).read_text()
        for m in re.finditer(r"RAISE (EXCEPTION|WARNING|NOTICE)\s+'((?:[^']|'')*)'(.*?);", source, re.S):
            line = source.count("\n", 0, m.start()) + 1
            short = Path(name).name
            yield short, line, "errmsg", re.sub("%(?!%)", "%s", m.group(2).replace("''", "'").replace("%%", "\0")).replace("\0", "%%"), m.group(1), []
            for option in re.finditer(r"(HINT|DETAIL)\s*=\s*(?:format\(\s*)?'((?:[^']|'')*)'", m.group(3)):
                yield short, line, "err" + option.group(1).lower(), option.group(2).replace("''", "'"), m.group(1), []


# SQLSTATEs of the errcode macros that src uses
CODES = {
    "FEATURE_NOT_SUPPORTED": "0A000", "DATA_EXCEPTION": "22000", "CARDINALITY_VIOLATION": "21000", "NUMERIC_VALUE_OUT_OF_RANGE": "22003",
    "INVALID_PARAMETER_VALUE": "22023", "ARRAY_SUBSCRIPT_ERROR": "2202E", "INVALID_TEXT_REPRESENTATION": "22P02",
    "INVALID_DATETIME_FORMAT": "22007", "DATETIME_VALUE_OUT_OF_RANGE": "22008",
    "INVALID_BINARY_REPRESENTATION": "22P03", "INTEGRITY_CONSTRAINT_VIOLATION": "23000", "NOT_NULL_VIOLATION": "23502",
    "TRIGGERED_DATA_CHANGE_VIOLATION": "27000", "E_R_I_E_TRIGGER_PROTOCOL_VIOLATED": "39P01",
    "E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED": "39P03", "T_R_SERIALIZATION_FAILURE": "40001", "INVALID_NAME": "42602", "DUPLICATE_COLUMN": "42701",
    "UNDEFINED_COLUMN": "42703", "UNDEFINED_OBJECT": "42704", "DUPLICATE_OBJECT": "42710", "DATATYPE_MISMATCH": "42804",
    "WRONG_OBJECT_TYPE": "42809", "GENERATED_ALWAYS": "428C9", "UNDEFINED_TABLE": "42P01", "DUPLICATE_TABLE": "42P07",
    "INDETERMINATE_DATATYPE": "42P18", "OBJECT_NOT_IN_PREREQUISITE_STATE": "55000",
    "INSUFFICIENT_PRIVILEGE": "42501", "INVALID_TRANSACTION_TERMINATION": "2D000", "QUERY_CANCELED": "57014", "DATA_CORRUPTED": "XX001"}


def documented():
    """Codes and warnings of src that docs/errors.md lacks."""
    docs = (ROOT / "docs/errors.md").read_text()
    for name in sorted(glob.glob(str(ROOT / "src/*.[ch]"))):
        for macro in sorted(set(re.findall(r"(?<!== )ERRCODE_(?!TO_CATEGORY)(\w+)", Path(name).read_text()))):
            if not re.search(r"^\|[^|]*\b%s\b" % CODES.get(macro, "unknown"), docs, re.M):
                yield f"{Path(name).name}: docs/errors.md has no row for {macro} ({CODES.get(macro, 'not in CODES')})"
    for name, line, kind, text, level, _ in messages():
        if kind == "errmsg" and level == "WARNING" and max(PLACE.split(text), key=len).strip(' ":') not in docs:
            yield f"{name}:{line}: docs/errors.md does not explain the warning: {text}"


def allowed():
    """test/errors.allow: FILE, a tab, the text, a tab, why no output has it."""
    result = {}
    for line in (ROOT / "test/errors.allow").read_text().splitlines():
        if line and not line.startswith("#"):
            name, text, why = line.split("\t")
            assert why, line
            result[(name, text)] = why
    return result


def main():
    outputs = "".join(Path(p).read_text(errors="replace") for p in sorted(glob.glob(str(ROOT / "expected/*.out"))))
    outputs += "".join(Path(p).read_text() for p in sorted(glob.glob(str(ROOT / "test/ops/*.out"))))
    allow = allowed()
    used, total, tested, failed = set(), 0, 0, 0
    for name, line, kind, text, level, code in messages():
        total += 1
        wanted = pattern(text)
        if kind == "errmsg" and level not in ("WARNING", "NOTICE", "LOG"):
            # as error_of() and refused() of the helpers and VERBOSITY verbose show it
            wanted = r"\b(?!ERROR)[0-9A-Z]{5}(?::| \|) *" + wanted
        key = (name, text.replace("\n", "\\n").replace("\t", "\\t"))
        found = kind != "elog" and re.search(wanted, outputs)
        if found:
            tested += 1
        elif key not in allow:
            failed += 1
            print(f"{name}:{line}: no test shows this {kind}: {text}")
        if key in allow:
            used.add(key)
            if found:
                failed += 1
                print(f"{name}:{line}: a test shows it, test/errors.allow need not have it: {text}")
        if code is not None and kind == "errmsg" and level == "ERROR" and name.endswith(".c") and not code:
            failed += 1
            print(f"{name}:{line}: no errcode: {text}")
        if "--list" in sys.argv:
            print("tested " if found else "allowed" if key in allow else "MISSING", f"{name}:{line}", kind, text, sep="\t")
    for key in set(allow) - used:
        failed += 1
        print(f"test/errors.allow: no such text any more: {key}")
    for gap in documented():
        failed += 1
        print(gap)
    if failed == 0 or "--list" in sys.argv:
        print(f"# {total} texts, {tested} in an expected output, {total - tested} not")
    print(f"errors: {total - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
