#!/usr/bin/env python3
"""What cdc_apply reads out of staging's values, against a model in python: op
texts, op_map, the text of a delete flag, lists of unchanged columns (jsonb and
text[]) and the placeholder (text, bytea, text[], jsonb).

Needs a running server (PGHOST, PGPORT, PGUSER) with the extension installed.
"""
import argparse
import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pg import PgError, Session, lit  # noqa: E402

MARK = '__debezium_unavailable_value'
OPS = {'updated': 'c i insert create u update upsert +i 2 +u update_after 4', 'stale': 'r read snapshot',
       'deleted': 'd delete -d 1 -u update_before 3', 'truncated': 't truncate', 'ignored': 'm message begin commit'}
WORDS = {w: outcome for outcome, words in OPS.items() for w in words.split()}
MAP = {'upsert': 'updated', 'snapshot': 'stale', 'delete': 'deleted', 'retraction': 'deleted', 'truncate': 'truncated', 'ignore': 'ignored'}
SETUP = r"""
CREATE TABLE t (id int PRIMARY KEY, v text, b bytea, a text[], j jsonb);
CREATE TABLE e (op text, id int, v text, b bytea, a text[], j jsonb, flag text, gone jsonb, gone_text text[], source_position cdc_position);
SELECT cdc_attach('t', 'e', tombstones => 'row');
INSERT INTO t VALUES (1, 'old', 'old', '{old}', '"old"', '0/5');
-- one event as it is said, and what became of it; nothing stays
CREATE FUNCTION try(event text, args text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  r cdc_apply_result; kept text; state text; message text;
BEGIN
  BEGIN
    EXECUTE 'INSERT INTO e SELECT * FROM jsonb_populate_record(NULL::e, $1)' USING
      '{"op": "u", "id": 1, "v": "new", "a": ["new"], "b": "new", "j": "new", "source_position": "0/9"}'::jsonb || event::jsonb;
    EXECUTE 'SELECT * FROM cdc_apply(''t''' || args || ')' INTO r;
    SELECT concat_ws(' ', CASE v WHEN 'old' THEN 'v' END, CASE b WHEN 'old' THEN 'b' END, CASE a WHEN '{old}' THEN 'a' END,
                     CASE j WHEN '"old"' THEN 'j' END) INTO kept FROM t;
    RAISE SQLSTATE '00001' USING MESSAGE = concat(CASE WHEN r.updated = 1 THEN 'updated' WHEN r.deleted = 1 THEN 'deleted'
      WHEN r.stale = 1 THEN 'stale' WHEN r.truncated = 1 THEN 'truncated' WHEN r.ignored = 1 THEN 'ignored' END, ' ', kept);
  EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
  END;
  RETURN CASE state WHEN '00001' THEN message ELSE state END;
END $$;
"""


def word(r, words):
    """A word as it is meant, written otherwise, or spoilt."""
    w = r.choice(words)
    w = ''.join(c.upper() if r.random() < 0.3 else c for c in w)
    if r.random() < 0.3:
        w = r.choice(['', ' ', '\t', '  ']) + w + r.choice(['', ' ', '\t'])
    for _ in range(r.choice([0, 0, 0, 1, 2])):
        i = r.randint(0, len(w))
        w = w[:i] + r.choice(['', ' ', 'x', 'İ', 'ı', 'K', '\u00a0', '\n', '\x01', '"', "'", '\\', 'é' * 40, '0', '-']) + w[i + r.choice([0, 1]):]
    return w


def plain(w):
    return ''.join(c.lower() if c.isascii() else c for c in w.strip(' \t'))


def flag(w):
    """parse_bool: a beginning of these words; "o" alone is neither."""
    w = ''.join(c.lower() if c.isascii() else c for c in w)
    if w in ('1', 'on') or w and ('true'.startswith(w) or 'yes'.startswith(w)):
        return 'deleted'
    if w in ('0', 'of', 'off') or w and ('false'.startswith(w) or 'no'.startswith(w)):
        return 'updated'
    return '22P02'


def case(r, kind):
    """The event, the arguments of the call, and what must come."""
    if kind == 'op':
        w = word(r, list(WORDS) + ['', 'b', 'x'])
        return {'op': w}, '', WORDS.get(plain(w), '22023')
    if kind == 'op_map':
        pairs = {word(r, list(WORDS) + ['x', 'zz']): word(r, list(MAP)) if r.random() < 0.9 else r.choice([None, 1, {}, ['delete'], True, ''])
                 for _ in range(r.choice([0, 1, 1, 2, 5]))}
        op = r.choice(list(pairs) or ['u'])
        meant = {}
        bad = any(not isinstance(v, str) or plain(v) not in MAP for v in pairs.values())
        for k, v in pairs.items():
            # one op with two meanings is refused
            bad = bad or plain(meant.setdefault(plain(k), v)) != plain(v)
        got = MAP[plain(meant[plain(op)])] if not bad and plain(op) in meant else WORDS.get(plain(op), '22023')
        return {'op': op}, ', op_map => ' + lit(json.dumps(pairs)), '22023' if bad else got
    if kind == 'flag':
        w = word(r, 'true false t f 1 0 yes no y n on off o of'.split())
        return {'flag': w}, ", delete_flag_column => 'flag'", flag(w)
    if kind == 'list':
        names = [r.choice(['v', 'a', 'V', 'v ', '', 'id', 'nope', None, 'x' * 100, 'source_position']) for _ in range(r.choice([0, 1, 2, 4]))]
        kept = 'updated ' + ' '.join(c for c in 'va' if c in names)
        if r.random() < 0.5:
            return {'gone_text': names}, ", unchanged_column => 'gone_text'", kept
        odd = r.choice([0] * 8 + [{'v': 1}, 'v', 1, True])
        if odd != 0:
            return {'gone': odd}, ", unchanged_column => 'gone'", '22023'
        names += r.choice([[], [1], [['v']], [{'v': 'v'}]])
        kept = 'updated ' + ' '.join(c for c in 'va' if c in [n for n in names if isinstance(n, str)])
        return {'gone': names}, ", unchanged_column => 'gone'", kept
    w = MARK if r.random() < 0.5 else word(r, [MARK, MARK[:-1], '"%s"' % MARK, '{%s}' % MARK])
    same = w == MARK
    column = r.choice('vbaj')
    odd = r.random() < 0.2
    value = {'v': w, 'b': '\\x' + w.encode().hex(), 'a': [w, w] if odd else [w], 'j': [w] if odd else w}[column]
    return {column: value}, '', 'updated ' + (column if same and not (odd and column in 'aj') else '')


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--count', type=int, default=3000, help='inputs of each kind')
    options = p.parse_args()
    name = 'fuzz_parsers_%d' % os.getpid()
    admin = Session('postgres')
    admin.run('DROP DATABASE IF EXISTS ' + name)
    admin.run('CREATE DATABASE %s TEMPLATE template0' % name)
    s = Session(name, '-c client_min_messages=error -c synchronous_commit=off')
    s.run('CREATE EXTENSION cdc_precedence')
    s.run(SETUP)
    passed = failed = 0
    for kind in ('op', 'op_map', 'flag', 'list', 'placeholder'):
        r = random.Random('%s %d' % (kind, options.seed))
        wrong = 0
        for _ in range(options.count):
            event, args, want = case(r, kind)
            try:
                got = s.value('SELECT try(%s, %s)' % (lit(json.dumps(event)), lit(args)))
            except PgError as e:
                got = str(e)
            # what an event does not set is new, so that only a list or a placeholder keeps anything
            if kind in ('op', 'op_map', 'flag') and got[:1] not in '0123456789X':
                got = got.split(' ')[0]
            if got.strip() != want.strip():
                wrong += 1
                if wrong <= 3:
                    print('%s: %r %s: %s instead of %s' % (kind, event, args, got, want))
        passed, failed = passed + (wrong == 0), failed + (wrong != 0)
        print('%s  parsers: %s, %d inputs, %d wrong' % ('FAIL' if wrong else 'ok  ', kind, options.count, wrong), flush=True)
    s.close()
    admin.run('DROP DATABASE IF EXISTS %s WITH (FORCE)' % name)
    print('parsers: %d passed, %d failed' % (passed, failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
