#!/usr/bin/env python3
"""Raw events, whole and mutated, through event views: values of every type in
every format and mode. Held to:

  - what cannot be read is an error of a class that speaks of data, without an
    internal text, and the server lives on;
  - a payload means the same as jsonb, json and text;
  - many payloads read in one query are what each is alone (parsed events and
    schema blocks are kept between calls).

Needs a running server (PGHOST, PGPORT, PGUSER) with the extension installed.
"""
import argparse
import base64
import copy
import json
import os
import random
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pg import Lost, PgError, Session, lit  # noqa: E402

MARK = '__debezium_unavailable_value'
SETUP = r"""
CREATE TYPE mood AS ENUM ('sad', 'so so', 'ok');
CREATE DOMAIN posint AS int CHECK (value > 0);
CREATE DOMAIN words AS text[] CHECK (cardinality(value) < 4);
CREATE DOMAIN cents AS numeric(9, 2) NOT NULL;
CREATE TABLE t (id int, k text, i2 smallint, i8 bigint, o oid, fl boolean, f4 real, f8 double precision, n numeric, n2 numeric(9, 2),
	nn numeric(5, -2), m money, tx text, vc varchar(5), ch char(3), nm name, b bytea, bi bit(5), vb varbit, d date, ts timestamp,
	ts0 timestamp(0), tz timestamptz, tz3 timestamptz(3), ti time, ti3 time(3), tt timetz, iv interval, ivd interval day to second, j json,
	jb jsonb, x xml, u uuid, p point, net inet, span int4range, md mood, po posint, w words, ct cents, ia int[], na numeric(9, 2)[],
	ta text[], da date[], tsa timestamp(3)[], ba bytea[], ja jsonb[], ua uuid[], ma mood[], pa posint[], iva interval[],
	"Odd ""n'\" int, PRIMARY KEY (id, k));
CREATE TABLE landing (b jsonb, j json, s text, commit_lsn pg_lsn);
-- what these columns of the one row are, each by itself: its text, or how it is refused
CREATE FUNCTION look(view text, cols text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  col text; one text; whole text := ''; state text; message text;
BEGIN
  FOREACH col IN ARRAY cols LOOP
    BEGIN
      EXECUTE format('SELECT coalesce(string_agg(coalesce(%I::text, ''null''), '',''), ''none'') FROM %I', col, view) INTO one;
    EXCEPTION WHEN OTHERS THEN
      GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
      one := '!' || state;
      IF state !~ '^(22|23|42|54|0A)' OR message ~ 'cache lookup|invalid memory|unrecognized' THEN
        one := one || '!' || message;
      END IF;
    END;
    whole := whole || col || '=' || one || E'\n';
  END LOOP;
  RETURN whole;
END $$;
"""
# SQL type -> JSON values that are right in one mode or another
NUMBERS = [0, 1, -1, 5, 12, 127, 32767, 2 ** 31, 2 ** 53 + 1, 2 ** 63 - 1, -2 ** 63, 2 ** 64, 1.5, -0.25, 1e30, 9223372036825200000,
           -9223372036832400000, -2147472692, 86400000, 86400000000, 1717304405250000, 1717304405250, 19876, -719529, 10 ** 40]
WORDS = ['', 'a', 'so so', 'ok', 'MDk=', '/2A=', 'AP8q', 'gA==', 'BNI=', 'AQ', '00ff', 'NaN', 'Infinity', '-Infinity', 'POSITIVE_INFINITY', '1.5',
         '-12.50', '2024-06-02', '2024-06-02Z', '2024-06-02T05:00:05.25Z', '-0043-03-15Z', '+12345-06-07T01:02:03+05:30',
         '05:00:05.25', '05:00:05.25Z', '24:00:00', 'infinity', 'P1Y2M3DT4H5M6.7S', 'P', 'null', '"x"', '{"a": 1}', '[1]', '{a,NULL}',
         '<a/>', '0189a5e2-7c1b-7d3e-9f00-0123456789ab', '(1,2)', '10.0.0.1/8', '[1,5)', '101', 'true', MARK, base64.b64encode(MARK.encode()).decode(),
         MARK.encode().hex(), 'é€😀', 'x' * 300, '9' * 200, '\\', '"', "'", '2020-02-20T23:59:59-99:99', 'é' * 40, '0/16B3748', '16/B374D848', '\t\n']
GOOD = {'i2 i8 o fl f4 f8 n iv po ia pa': [0, 1, 5, 12, None], 'n2 nn m ct na': ['MDk=', '/2A=', 'AA==', 5, '1.5', {'scale': 1, 'value': 'zw=='}, None],
        'tx vc ch nm k ta w': ['a', 'b c', '', 'é', None, MARK], 'b ba': ['AP8q', '', '00ff', None], 'bi vb': ['AQ==', True, 'CQ==', None],
        'd da': [0, 19876, -719529, '2024-06-02', '2024-06-02Z', None], 'ts ts0 tsa': [0, -1, 1717304405250, '2024-06-02T05:00:05.25Z', None],
        'tz tz3': ['2024-06-02T05:00:05.25Z', 'infinity', None], 'ti ti3': [0, 1, '05:00:05.25Z', None], 'tt': ['05:00:05.25Z', None],
        'ivd iva': [0, 'PT1H', None], 'j jb ja': ['null', '{"a": 1}', '7', None], 'u ua': ['0189a5e2-7c1b-7d3e-9f00-0123456789ab', None],
        'md ma': ['sad', 'so so', None], 'net': ['10.0.0.1/8', None], 'span': ['[1,5)', 'empty', None], 'p': [{'x': 1, 'y': -2.5}, None], 'x': ['<a/>', None]}
GOOD = {c: v for cs, v in GOOD.items() for c in cs.split()}
NAMES = ['io.debezium.time.MicroTimestamp', 'io.debezium.time.Timestamp', 'io.debezium.time.NanoTimestamp', 'io.debezium.time.Date',
         'io.debezium.time.Time', 'io.debezium.time.MicroTime', 'io.debezium.time.NanoTime', 'io.debezium.time.MicroDuration',
         'io.debezium.time.NanoDuration', 'io.debezium.data.VariableScaleDecimal', 'io.debezium.data.Bits', 'org.apache.kafka.connect.data.Decimal',
         'org.apache.kafka.connect.data.Date', 'org.apache.kafka.connect.data.Timestamp', 'io.debezium.data.Json', 'io.debezium.time.ZonedTimestamp', '']
SOURCES = [{'connector': 'postgresql', 'lsn': 24023128, 'schema': 'public', 'table': 't', 'db': 'shop', 'snapshot': 'false', 'ts_ms': 1},
           {'connector': 'mysql', 'file': 'bin.000047', 'pos': 1084, 'row': 2, 'db': 'public', 'table': 't', 'snapshot': None},
           {'connector': 'sqlserver', 'commit_lsn': '00000027:00000758:0005', 'change_lsn': '00000027:00000758:0003', 'event_serial_no': 1, 'schema': 'public', 'table': 't'},
           {'connector': 'oracle', 'scn': '2868546', 'rs_id': ' 0x000007.00000003.0010 ', 'ssn': 0, 'schema': 'public', 'table': 't'},
           {'connector': 'mongodb', 'ord': 3, 'ts_ms': 1717304405000, 'db': 'public', 'collection': 't'}]


def scalar(r):
    return r.choice([None, True, False, r.choice(NUMBERS), r.choice(NUMBERS), r.choice(WORDS), r.choice(WORDS), r.choice(WORDS)])


def value(r):
    how = r.random()
    if how < 0.7:
        return scalar(r)
    if how < 0.85:
        return [scalar(r) if r.random() < 0.8 else [scalar(r)] for _ in range(r.choice([0, 1, 1, 2, 3, 28]))]
    return r.choice([{}, {'scale': r.choice([0, 3, -2, 40000, 10 ** 12, '1']), 'value': r.choice(WORDS)}, {'x': scalar(r), 'y': scalar(r)},
                     {'a': scalar(r)}, {'wkb': 'AQ==', 'srid': 1}])


def good(r, column):
    x = GOOD.get(column, [None, 1])
    if column in ('w', 'ia', 'na', 'ta', 'da', 'tsa', 'ba', 'ja', 'ua', 'ma', 'pa', 'iva'):
        return r.choice([None, [], [r.choice(x)], [r.choice(x), r.choice(x)], [[r.choice(x)], [r.choice(x)]]])
    return r.choice(x)


def field(r, name):
    f = {'field': name, 'type': r.choice(['int32', 'int64', 'string', 'bytes', 'boolean', 'double', 'struct', 'array', 'map']), 'optional': True}
    if r.random() < 0.5:
        f['name'] = r.choice(NAMES)
    if r.random() < 0.3:
        f['parameters'] = {'scale': r.choice(['0', '2', '-2', '99999999999', '', 'x']), 'length': '5'}
    if f['type'] == 'array' or r.random() < 0.05:
        f['items'] = field(r, 'x')
        if r.random() < 0.7:
            del f['items']['field']
    return f


def event(r, columns, form):
    row = {c: good(r, c) if r.random() < 0.8 else value(r) for c in columns if r.random() < 0.9}
    row.update(id=r.randint(1, 9), k=r.choice(['a', 'b', '']))
    op = r.choice('ccuuudrtm')
    source = copy.deepcopy(r.choice(SOURCES))
    if form == 'wal2json':
        items = [{'name': c, 'type': r.choice(['integer', 'text', 'bytea']), 'value': v} for c, v in row.items()]
        out = {'action': {'c': 'I', 'r': 'I', 'u': 'U', 'd': 'D', 't': 'T', 'm': 'M'}[op], 'lsn': '0/16E9180', 'schema': 'public', 'table': 't'}
        if op in 'cur':
            out['columns'] = items
        if op in 'ud':
            out['identity'] = items if r.random() < 0.5 else items[-2:]
        return out
    if form == 'debezium-flat':
        body = dict(row, __op=op, __deleted='true' if op == 'd' else 'false')
        body.update({('__source_' if r.random() < 0.8 else '__') + k: v for k, v in source.items()})
        fields = [field(r, c) for c in body]
    else:
        before = row if op == 'd' or (op == 'u' and r.random() < 0.4) else None
        body = {'op': op, 'before': before, 'after': row if op in 'cur' else None, 'source': source, 'ts_ms': 1}
        image = [field(r, c) for c in columns if r.random() < 0.8]
        fields = [{'field': f, 'type': 'struct', 'fields': image} for f in ('before', 'after')]
    if r.random() < 0.3:
        return {'schema': {'type': 'struct', 'fields': fields}, 'payload': body}
    return body


def places(x, path=()):
    yield path
    for k, v in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ():
        yield from places(v, path + (k,))


def mutate(r, x):
    """Something in it is another thing, elsewhere, twice, or gone."""
    x = copy.deepcopy(x)
    for _ in range(r.choice([0, 0, 1, 1, 2, 4])):
        path = r.choice(list(places(x)))
        if not path:
            if r.random() < 0.05:
                return r.choice([None, 1, 'x', [], [x], {}])
            continue
        at = x
        for k in path[:-1]:
            at = at[k]
        how = r.random()
        if how < 0.2:
            del at[path[-1]]
        elif how < 0.3 and isinstance(at, dict):
            at[r.choice(WORDS + ['op', 'before', 'after', 'source', 'field', 'name', 'type', 'id', 'k', '__op'])] = at.pop(path[-1])
        elif how < 0.4:
            at[path[-1]] = [at[path[-1]]]
        elif how < 0.5:
            at[path[-1]] = {r.choice(['value', 'schema', 'x', 'field']): at[path[-1]]}
        else:
            at[path[-1]] = value(r)
    return x


def written(r, x):
    """As text, at times with a key twice, an escape, or broken."""
    s = json.dumps(x, ensure_ascii=r.random() < 0.5)
    how = r.random()
    if how < 0.05:
        s = s.replace(': {', ': {"id": 3, "id": 4, ', 1)
    elif how < 0.08:
        s = s.replace('"a', r'"' + r.choice([r'\u0000', r'\ud83d', r'\ud83d\ude00', r'\u00e9', r'\"']), 1)
    elif how < 0.12:
        for _ in range(r.choice([1, 2])):
            i = r.randint(0, len(s))
            s = s[:i] + r.choice(['', '"', '{', ']', ',', 'x', '\\', '0', 'e9', '-']) + s[i + r.choice([0, 1, 1]):]
    return s


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--count', type=int, default=300, help='payloads of each format')
    options = p.parse_args()
    name = 'fuzz_payloads_%d' % os.getpid()
    admin = Session('postgres')
    admin.run('DROP DATABASE IF EXISTS ' + name)
    admin.run('CREATE DATABASE %s TEMPLATE template0' % name)
    passed = failed = 0
    try:
        s = Session(name, '-c client_min_messages=error -c synchronous_commit=off -c jit=off')
        s.run('CREATE EXTENSION cdc_precedence')
        s.run(SETUP)
        columns = [x[0] for x in s.run("SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 2 ORDER BY attnum")]
        for form in ('debezium', 'debezium-flat', 'wal2json'):
            r = random.Random('%s %d' % (form, options.seed))
            wrong, refused, done = [], 0, 0
            while done < options.count:
                modes = 'decimals => %s, times => %s, binaries => %s' % tuple(map(lit, (
                    r.choice(['precise', 'string', 'double']), r.choice(['adaptive', 'connect', 'iso']), r.choice(['base64', 'hex']))))
                more = r.choice(['', ", source_table => 'public.t'"]) + (
                    r.choice(['', ", commit_lsn_column => 'commit_lsn'"]) if form == 'wal2json' else '')
                s.run('DROP VIEW IF EXISTS vb, vj, vs')
                for c in 'bjs':
                    s.run("SELECT cdc_event_view('v%s', 't', 'landing', '%s', '%s', %s%s)" % (c, c, form, modes, more))
                whole = []
                for _ in range(min(50, options.count - done)):
                    done += 1
                    some = r.sample(columns, r.choice([1, 3, 8]))
                    text = written(r, mutate(r, event(r, some, form)))
                    read = 'ARRAY[%s]' % ', '.join(map(lit, some + ['id', 'k', '__old_id', 'op', 'source_position', '__unchanged', '__absent']))
                    got = {}
                    for c in 'sjb':
                        s.run("TRUNCATE landing; INSERT INTO landing (s, commit_lsn) VALUES (%s, '0/16E9200')" % lit(text))
                        try:
                            s.run('UPDATE landing SET %s = s::json%s' % (c, c if c == 'b' else '') if c != 's' else 'SELECT')
                        except PgError as e:
                            # the type itself refuses what the view of the text refuses
                            if '=!22' not in got['s']:
                                wrong.append('%s, but not as text: %s' % (e, text))
                            continue
                        got[c] = s.value("SELECT look('v%s', %s)" % (c, read))
                        if '\n!' in got[c] or any(x.count('!') > 1 and re.match('[^=]*=![0-9A-Z]{5}!', x) for x in got[c].split('\n')):
                            wrong.append('%s %s: %s: %s' % (c, modes, got[c], text))
                        if got[c] != got['s']:
                            wrong.append('%s %s: %s instead of %s: %s' % (c, modes, got[c], got['s'], text))
                    if '=!' in got['s']:
                        refused += 1
                    elif 'b' in got:
                        whole += [(text, s.run('SELECT v::text FROM vs v'))] * r.choice([1, 1, 2])
                s.run('TRUNCATE landing')
                for text, _ in whole:
                    s.run("INSERT INTO landing SELECT %s::jsonb, %s::json, %s, '0/16E9200'" % ((lit(text),) * 3))
                # where a table puts its rows is its own affair
                want = sorted(row for _, rows in whole for row in rows)
                for c in 'bjs':
                    try:
                        got = sorted(s.run('SELECT v::text FROM v%s v' % c))
                    except PgError as e:
                        got = [str(e)]
                    if got != want:
                        wrong.append('all of v%s, %s: %s' % (c, modes, [x for x in zip(got, want) if x[0] != x[1]][:1]))
            for w in wrong[:5]:
                print('      ' + w[:2000])
            passed, failed = passed + (not wrong), failed + bool(wrong)
            print('%s  payloads: %s, %d events, %d refused, %d wrong' % (
                'FAIL' if wrong else 'ok  ', form, done, refused, len(wrong)), flush=True)
        s.close()
    except Lost as e:
        failed += 1
        print('FAIL  payloads: the server went away: %s' % e)
    for _ in range(50):        # after a crash it takes a moment
        try:
            admin.run('DROP DATABASE IF EXISTS %s WITH (FORCE)' % name)
            break
        except (Lost, PgError):
            time.sleep(0.2)
            try:
                admin = Session('postgres')
            except (Lost, PgError):
                pass
    print('payloads: seed %d\npayloads: %d passed, %d failed' % (options.seed, passed, failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
