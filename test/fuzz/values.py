#!/usr/bin/env python3
"""Values of the position type through SQL, against a model in python: text in
and out, binary in and out, order, hash; and bytes thrown at the deserializer
of latest_by_position (with --module, the compiled deserial.c).

Needs a running server (PGHOST, PGPORT, PGUSER) with the extension installed.
"""
import argparse
import os
import random
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pg import Lost, PgError, Session, lit  # noqa: E402

passed = failed = 0
EDGES = [0, 1, 2, 9, 10, 255, 256, 511, 512, 65535, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 53, 2 ** 54 - 1, 2 ** 54, 2 ** 63, 2 ** 64 - 1]


def verdict(ok, text):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(('ok    ' if ok else 'FAIL  ') + text, flush=True)


# ---------------------------------------------------------------- the model

GRAMMAR = re.compile(r'(?:([0-9]+)@)?(?:([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})|([0-9]+))((?::[0-9]+)*)', re.ASCII)


def parse(text):
    """(kind, epoch, parts) or a SQLSTATE."""
    m = GRAMMAR.fullmatch(text)
    if not m or text.endswith('\n'):
        return '22P02'
    epoch = int(m[1] or 0)
    head = int(m[2], 16) << 32 | int(m[3], 16) if m[2] else int(m[4])
    parts = [head] + [int(x) for x in m[5].split(':')[1:]]
    # eight parts are what the grammar allows, as many as they may be
    if len(parts) > 8:
        return '22P02|22003'
    if epoch >= 2 ** 32 or any(p >= 2 ** 64 for p in parts):
        return '22003'
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return (0 if m[2] else 1, epoch, parts)


def show(p):
    kind, epoch, parts = p
    head = '%X/%X' % (parts[0] >> 32, parts[0] & 0xffffffff) if kind == 0 else str(parts[0])
    return ('%d@' % epoch if epoch else '') + head + ''.join(':%d' % x for x in parts[1:])


def short(n):
    return n.to_bytes((n.bit_length() + 7) // 8, 'big')


def pack(p):
    kind, epoch, parts = p
    e = short(epoch)
    out = bytes([kind * 0x40 | len(e)]) + e
    for i, x in enumerate(parts):
        out += struct.pack('!Q', x) if i == 0 and kind == 0 else bytes([len(short(x))]) + short(x)
    return out


def order(p):
    return (p[0], p[1], p[2] + [0] * (8 - len(p[2])))


def number(r):
    return r.choice(EDGES) if r.random() < 0.4 else r.getrandbits(r.choice([3, 8, 16, 33, 55, 64]))


def position(r):
    parts = [number(r) for _ in range(r.choice([1, 1, 2, 2, 3, 8]))]
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return (r.randint(0, 1), r.choice([0, 0, 0, 1, 2, 255, 256, 2 ** 32 - 1]), parts)


def spoil(r, text, letters):
    for _ in range(r.choice([0, 1, 1, 2, 5])):
        i = r.randint(0, len(text))
        text = r.choice([text[:i] + r.choice(letters) + text[i:], text[:i] + text[i + 1:], text[:i] + text[i:] * 2])
    return text


# ---------------------------------------------------------------- the tests

def texts(s, r, count):
    wrong = []
    s.run("CREATE FUNCTION try_position(t text) RETURNS text LANGUAGE plpgsql AS $$BEGIN RETURN t::cdc_position::text; "
          "EXCEPTION WHEN OTHERS THEN RETURN '!' || SQLSTATE; END$$")
    for start in range(0, count, 1000):
        batch = []
        for _ in range(min(1000, count - start)):
            t = show(position(r))
            if r.random() < 0.3:
                t = t.lower()
            if r.random() < 0.2:
                t = re.sub(r'\d+', lambda m: r.choice(['', '0', '000']) + m[0], t)
            batch.append(spoil(r, t, '0123456789abcdefABCDEF/@:-+. x\t\nü٣'))
        got = s.run('SELECT try_position(t) FROM unnest(ARRAY[%s]::text[]) WITH ORDINALITY AS u(t, n) ORDER BY n'
                    % ', '.join(map(lit, batch)))
        for t, (g,) in zip(batch, got):
            want = parse(t)
            if isinstance(want, str) and (not g.startswith('!') or g[1:] not in want.split('|')) or \
                    not isinstance(want, str) and g != show(want):
                wrong.append('%r: want %s, got %s' % (t, want, g))
    for w in wrong[:5]:
        print('      ' + w)
    verdict(not wrong, 'text: %d strings, %d not as the grammar says' % (count, len(wrong)))


def binaries(s, r, count):
    wrong, refused = [], 0
    for _ in range(count):
        raw = pack(position(r))
        for _ in range(r.choice([0, 1, 1, 3])):
            i = r.randint(0, len(raw))
            raw = r.choice([raw[:i] + bytes([r.choice([0, 1, 8, 9, 0x40, 0x80, r.getrandbits(8)])]) + raw[i + r.randint(0, 1):],
                            raw[:i], raw[:i] + raw[i + 1:]])
        try:
            text, back = s.bind('SELECT $1::cdc_position::text, encode(cdc_position_send($1::cdc_position), \'hex\')', [raw])[0]
        except PgError as e:
            refused += 1
            # a payload that pack would have written must be taken
            if e.code not in ('22P03', '08P01'):
                wrong.append('%s: %s' % (raw.hex(), e))
            continue
        p = parse(text)
        if isinstance(p, str) or pack(p) != raw or back != raw.hex():
            wrong.append('%s was taken for %s, sent as %s' % (raw.hex(), text, back))
    ok = [position(r) for _ in range(300)]
    for p in ok:
        if s.bind('SELECT $1::cdc_position::text', [pack(p)])[0][0] != show(p):
            wrong.append('%s is not %s' % (pack(p).hex(), show(p)))
    array = struct.pack('!iii', 1, 0, int(s.value("SELECT 'cdc_position'::regtype::oid"))) + struct.pack('!ii', len(ok), 1)
    array += b''.join(struct.pack('!i', len(pack(p))) + pack(p) for p in ok)
    got = s.bind("SELECT array_to_string($1::cdc_position[], ' ')", [array])[0][0]
    if got != ' '.join(map(show, ok)):
        wrong.append('an array of positions')
    for w in wrong[:5]:
        print('      ' + w)
    verdict(not wrong, 'binary: %d payloads, %d refused, %d wrong' % (count, refused, len(wrong)))


def orders(s, r, count):
    ps = [position(r) for _ in range(count // 2)]
    for p in ps[:count // 2]:            # neighbours: one part differs a little
        parts = list(p[2])
        i = r.randrange(len(parts))
        parts[i] = max(0, min(2 ** 64 - 1, parts[i] + r.choice([-1, 0, 1])))
        while len(parts) > 1 and parts[-1] == 0:
            parts.pop()
        ps.append((p[0], p[1], parts))
    r.shuffle(ps)
    want = [show(p) for p in sorted(ps, key=order)]
    s.run('CREATE TABLE ps (n serial, p cdc_position)')
    s.run('INSERT INTO ps (p) SELECT unnest(ARRAY[%s]::cdc_position[])' % ', '.join(lit(show(p)) for p in ps))
    wrong = []
    for sql, expect in (
            ('SELECT p FROM ps ORDER BY p', want), ('SELECT p FROM ps ORDER BY p DESC', want[::-1]),
            ('SELECT min(p) FROM ps', want[:1]), ('SELECT max(p) FROM ps', want[-1:])):
        if [x[0] for x in s.run(sql)] != expect:
            wrong.append(sql)
    s.run('CREATE INDEX ON ps (p); CREATE INDEX ON ps USING hash (p); ANALYZE ps; SET enable_seqscan = off; SET enable_sort = off')
    if [x[0] for x in s.run('SELECT p FROM ps ORDER BY p')] != want:
        wrong.append('by index')
    for p in r.sample(ps, 200):
        low = sum(order(q) < order(p) for q in ps)
        same = sum(order(q) == order(p) for q in ps)
        got = s.run('SELECT count(*) FILTER (WHERE p < %s), count(*) FILTER (WHERE p = %s) FROM ps' % (lit(show(p)), lit(show(p))))[0]
        probe = s.value('SELECT count(*) FROM ps WHERE p = %s' % lit(show(p)))
        if got != [str(low), str(same)] or probe != str(same):
            wrong.append('%s: %s' % (show(p), got))
    s.run('RESET enable_seqscan; RESET enable_sort; SET enable_hashjoin = on; SET enable_mergejoin = off; SET enable_nestloop = off')
    distinct = len(set(want))
    if s.value('SELECT count(*) FROM (SELECT DISTINCT p FROM ps) x') != str(distinct):
        wrong.append('distinct')
    pairs = s.value('SELECT count(*) FROM ps a JOIN ps b USING (p)')
    if int(pairs) != sum(want.count(x) for x in want):
        wrong.append('hash join')
    for w in wrong[:5]:
        print('      ' + w)
    verdict(not wrong, 'order: %d positions sorted, indexed, joined: %d wrong' % (len(ps), len(wrong)))


def states(s, r, count, module):
    """Serialized states of latest_by_position, whole and corrupted."""
    s.run("CREATE FUNCTION fuzz_save_final(internal, anyelement, cdc_position) RETURNS bytea AS %s LANGUAGE c;"
          "CREATE FUNCTION fuzz_load_step(internal, bytea) RETURNS internal AS %s LANGUAGE c;"
          "CREATE FUNCTION fuzz_load_final(internal) RETURNS bytea AS %s LANGUAGE c;"
          "CREATE AGGREGATE fuzz_save(anyelement, cdc_position) (sfunc = latest_by_position_trans, stype = internal, "
          "finalfunc = fuzz_save_final, finalfunc_extra);"
          "CREATE AGGREGATE fuzz_load(bytea) (sfunc = fuzz_load_step, stype = internal, finalfunc = fuzz_load_final);"
          "CREATE TYPE pair AS (a integer, b text)" % ((lit(module),) * 3))
    values = ["NULL::integer", '1', '1::bigint', '1::smallint', 'true', "'x'::text", "repeat('x', 5000)", "''::text", "'n'::name",
              "'c'::\"char\"", "'1.5'::numeric", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", "'{1,2}'::integer[]", "ROW(1, 'x')::pair",
              "'(1,2)'::point", "'{\"a\": 1}'::jsonb", "'x'::cstring::text", '1.5::float8', "'1 day'::interval", "NULL::pair"]
    whole = []
    for v in values:
        for _ in range(3):
            p = position(r)
            raw = s.value('SELECT encode(fuzz_save(%s, %s), \'hex\')' % (v, lit(show(p))))
            if raw is not None:
                whole.append((bytes.fromhex(raw), 'pair' in v or '[]' in v))
    oids = [int(x[0]) for x in s.run("SELECT oid FROM pg_type WHERE typtype <> 'c' OR typname = 'pair'")]
    wrong, refused = [], 0

    def load(*raws):
        return s.value("SELECT encode(fuzz_load(b ORDER BY n), 'hex') FROM unnest(ARRAY[%s]::bytea[]) WITH ORDINALITY AS u(b, n)"
                       % ', '.join("'\\x%s'" % x.hex() for x in raws))
    for raw, _ in whole:
        if load(raw) != raw.hex():
            wrong.append('whole: %s' % raw.hex()[:80])
    for _ in range(count):
        raw, composite = r.choice(whole)
        raw = raw[:400] if len(raw) > 400 and r.random() < 0.5 else raw
        for _ in range(r.choice([1, 1, 2, 4])):
            i = r.randint(0, min(len(raw), r.choice([6, 30, 1000])))
            how = r.random()
            if how < 0.25:
                raw = struct.pack('!I', r.choice(oids + [0, 1, 2 ** 32 - 1])) + raw[4:]
            elif how < 0.5:
                raw = raw[:i] + bytes([r.getrandbits(8)]) + raw[i + 1:]
            elif how < 0.7:
                raw = raw[:i]
            elif how < 0.85:
                raw = raw[:i] + bytes(r.getrandbits(8) for _ in range(r.choice([1, 4, 9]))) + raw[i:]
            else:
                raw = raw[:i] + raw[i + 1:]
        # ties look into values: only flat ones stand being looked into when they are noise
        more = [r.choice([w for w, c in whole if not c])] if not composite and r.random() < 0.2 else []
        try:
            back = load(raw, *more)
            if not more and back != raw.hex():
                wrong.append('%s came back as %s' % (raw.hex()[:200], back[:200]))
        except PgError as e:
            refused += 1
            if e.code not in ('22P03', '42804'):
                wrong.append('%s: %s' % (raw.hex()[:200], e))
    for w in wrong[:5]:
        print('      ' + w)
    verdict(not wrong, 'states: %d serialized states, %d refused, %d wrong' % (count, refused, len(wrong)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--count', type=int, default=4000, help='how many of each')
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--module', help='deserial.so')
    options = p.parse_args()
    r = random.Random(options.seed)
    db = 'values_%d' % os.getpid()
    s = Session('postgres')
    s.run('CREATE DATABASE %s TEMPLATE template0' % db)
    try:
        d = Session(db, '-c jit=off')
        d.run('CREATE EXTENSION cdc_precedence')
        texts(d, r, options.count * 3)
        binaries(d, r, options.count)
        orders(d, r, min(options.count, 4000))
        if options.module:
            states(d, r, options.count, options.module)
        d.close()
    except Lost as e:
        verdict(False, 'the server went away: %s' % e)
    finally:
        # after a crash it takes a moment
        for _ in range(50):
            try:
                s.run('DROP DATABASE %s WITH (FORCE)' % db)
                break
            except (Lost, PgError):
                import time
                time.sleep(0.2)
                try:
                    s = Session('postgres')
                except (Lost, PgError):
                    pass
    print('values: seed %d\nvalues: %d passed, %d failed' % (options.seed, passed, failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
