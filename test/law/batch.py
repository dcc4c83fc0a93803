"""Random targets, stagings and events for ways.py: keys and values of many
types, options, partitions, and rows of which no longer value stays in the row.
"""
import random

PLACEHOLDER = '__debezium_unavailable_value'
WIDE = 260  # so many bigints leave no room for longer values in the row

# Key types: how the target declares one, and the literals that mean key number n (equal ones, if several).
KEYS = {
    'int': ('int', lambda n: ['%d' % n]),
    'bigint': ('bigint', lambda n: ['%d' % (n * 10 ** 10 - 5)]),
    'smallint': ('smallint', lambda n: ['%d' % (n - 20)]),
    'text': ('text', lambda n: ["'k%s%d'" % ('y' * (n % 7), n)]),
    'long text': ('text', lambda n: ["'k%d' || md5('%d') || repeat('ab%d', %d)" % (n, n, n, 100 if n % 5 == 0 else 3)]),
    'citext': ('citext', lambda n: ["'Key%d'" % n, "'kEY%d'" % n, "'key%d'" % n]),
    'numeric': ('numeric', lambda n: ['%d' % n, '%d.0' % n, '%d.000' % n]),
    'bpchar': ('char(6)', lambda n: ["'b%d'" % n, "'b%d  '" % n]),
    'varchar': ('varchar(20)', lambda n: ["'v%d'" % n]),
    'name': ('name', lambda n: ["'n%d'" % n]),
    'float8': ('float8', lambda n: ['%d.5' % n] if n else ["'0'", "'-0'"]),
    'uuid': ('uuid', lambda n: ["md5('%d')::uuid" % n]),
    'date': ('date', lambda n: ["date '2000-01-01' + %d" % (n * 3 - 40)]),
    'array': ('int[]', lambda n: ['array[%d, %d]' % (n % 3, n)]),
    'bytea': ('bytea', lambda n: ["'\\x%04x'::bytea" % n]),
    'inet': ('inet', lambda n: ["'10.0.%d.%d'" % (n % 2, n)]),
    'timestamptz': ('timestamptz', lambda n: ["timestamptz '2020-01-01 UTC' + interval '%d min'" % n]),
    'enum': ('color', lambda n: ["'c%d'" % (n % 25)]),
    'bool': ('bool', lambda n: ['true' if n % 2 else 'false']),
    'domain': ('natural_int', lambda n: ['%d' % n]),
    'icu': ('text collate caseless', lambda n: ["'Zz%d'" % n, "'zZ%d'" % n]),
    'char': ('"char"', lambda n: ['chr(65 + %d)' % (n % 50)]),
    'oid': ('oid', lambda n: ['%d' % n]),
    'composite': ('pair', lambda n: ["row(%d, 'r%d')" % (n % 4, n)]),
    'range': ('int4range', lambda n: ['int4range(%d, %d)' % (n, n + 2)]),
    'jsonb': ('jsonb', lambda n: ["'{\"a\": %d}'" % n])}

# Value columns: the type, and some literals.
VALUES = {
    'v': ('text', lambda r: ["'v%d'" % r.randrange(9), "''", 'NULL', "'%s'" % PLACEHOLDER, "'x%sx'" % PLACEHOLDER,
                             "repeat(md5('%d'), %d)" % (r.randrange(99), r.choice([1, 20, 200])),
                             "repeat('z', %d)" % r.randrange(5000)]),
    'w': ('varchar(9000)', lambda r: ["'w%d'" % r.randrange(9), 'NULL', "'%s'" % PLACEHOLDER]),
    'n': ('numeric', lambda r: ['%d' % r.randrange(99), '1.%d0' % r.randrange(9), 'NULL']),
    'j': ('jsonb', lambda r: ["'{\"a\": %d}'" % r.randrange(9), 'NULL', "'\"%s\"'" % PLACEHOLDER,
                              "'[\"%s\"]'" % PLACEHOLDER]),
    'a': ('text[]', lambda r: ["'{a,b%d}'" % r.randrange(5), 'NULL', "'{%s}'" % PLACEHOLDER, "'{}'"]),
    'b': ('bytea', lambda r: ["'\\x%02x'" % r.randrange(255), 'NULL', "'%s'" % PLACEHOLDER]),
    'i': ('int', lambda r: ['%d' % r.randrange(99), 'NULL']),
    'h': ('smallint', lambda r: ['%d' % r.randrange(99), 'NULL']),
    'r': ('pair', lambda r: ["row(%d, 'q')" % r.randrange(9), 'NULL']),
    'f': ('float8', lambda r: ['%d' % r.randrange(9), 'NULL']),
    'c': ('"char"', lambda r: ["'q'", 'NULL'])}

# Positions: staging's columns, their values for the p-th position, the recorded expression.
FAR = ':18446744073709551615' * 5
POSITIONS = {
    'lsn': (['source_position cdc_position'], lambda p: ["'0/%X'" % p], None),
    'ordinal': (['lsn pg_lsn', 'ord int'], lambda p: ["'0/%X'" % (p // 3 + 1), str(p % 3)], 'cdc_position(lsn, ord)'),
    'number': (['scn numeric'], lambda p: [str(p)], 'cdc_position_from_numbers(scn)'),
    'long': (['source_position cdc_position'], lambda p: ["'%d%s'" % (p, FAR)], None)}


class Batch:
    """A target, its staging and events, drawn from a seed."""

    def __init__(self, session, seed, key_types):
        self.s, self.rng = session, random.Random(seed)
        self.draw(key_types)

    def chance(self, p):
        return self.rng.random() < p

    def draw(self, key_types):
        r = self.rng
        self.types = [r.choice(key_types) for _ in range(r.choice([1, 1, 1, 2, 2, 3]))]
        self.keys = ['k%d' % i for i in range(len(self.types))]
        self.columns = r.sample(list(VALUES), r.randrange(1, 6))
        self.home = r.choice(['row', 'table'])
        self.gaps = self.chance(0.6)
        self.lists = r.choice(['text[]', 'jsonb', 'name[]']) if self.gaps and self.chance(0.5) else None
        self.wide = self.chance(0.15)
        self.partitioned = self.chance(0.3) and not {'icu', 'composite', 'range'} & set(self.types)
        self.staging = r.choice(['plain', 'plain', 'plain', 'partitioned', 'inherited'])
        self.position = r.choice(list(POSITIONS))
        self.snapshots = r.choice(['none', 'none', 'event'])
        self.unique = self.chance(0.6)
        self.free = list(range(1, 3000))
        r.shuffle(self.free)
        self.key_count = r.choice([8, 40, 45])
        # the key before the change: columns of its own, or the key column itself where it never changes
        self.old = []
        if self.chance(0.4):
            self.old = ['__old_' + k for k in self.keys]
            if len(self.keys) > 1 and self.chance(0.4):
                i = r.randrange(len(self.keys))
                self.old[i] = self.keys[i]
        self.ignore_nulls = self.chance(0.15)
        self.same = r.choice(['keep', 'rewrite', 'error']) if self.chance(0.3) else None
        self.filtered = self.chance(0.2)

    # ------------------------------------------------------------ tables

    def pad(self):
        return ['wide_%d bigint DEFAULT %d' % (i, i) for i in range(WIDE)] if self.wide else []

    def make_target(self):
        r, s = self.rng, self.s
        columns = ['%s %s' % (k, KEYS[t][0]) for k, t in zip(self.keys, self.types)]
        columns += ['%s %s%s' % (c, VALUES[c][0], r.choice(['', ' DEFAULT NULL'])) for c in self.columns]
        columns += ['source_position cdc_position', 'extra int DEFAULT 5']
        if self.chance(0.2):
            columns.append("made text GENERATED ALWAYS AS ('g' || (%s IS NULL)::text) STORED" % self.columns[0])
        r.shuffle(columns)
        if self.chance(0.5):
            columns += self.pad()
        order = r.sample(self.keys, len(self.keys))
        primary = self.partitioned or self.chance(0.5)
        key = ', PRIMARY KEY (%s)%s' % (', '.join(order), r.choice(['', ' INCLUDE (source_position)'])) if primary else ''
        s.run('CREATE TABLE t (%s%s)%s' % (', '.join(columns), key,
                                           ' PARTITION BY HASH (%s)' % order[0] if self.partitioned else ''))
        if self.partitioned:
            s.run('CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0)')
            r.shuffle(columns)
            s.run('CREATE TABLE t1 (gone int, %s)' % ', '.join(columns))
            s.run('ALTER TABLE t1 DROP COLUMN gone')
            for k in order:
                s.run('ALTER TABLE t1 ALTER %s SET NOT NULL' % k)
            s.run('ALTER TABLE t ATTACH PARTITION t1 FOR VALUES WITH (MODULUS 2, REMAINDER 1)')
        if not primary:
            self.make_index(order)
        if self.chance(0.2) and not self.partitioned:
            s.run('CREATE INDEX ON t (source_position)')

    def make_index(self, order):
        r = self.rng
        if self.chance(0.5):
            for k in self.keys:
                self.s.run('ALTER TABLE t ALTER %s SET NOT NULL' % k)
        ways = r.choice([[''], [' DESC'], ['', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST']])
        include = ' INCLUDE (%s)' % self.columns[0] if self.columns[0] in 'inhf' and self.chance(0.5) else ''
        self.s.run('CREATE UNIQUE INDEX ON t (%s)%s' % (', '.join(k + r.choice(ways) for k in order), include))

    def make_staging(self):
        """The staging table; a column that comes later is left out and returned."""
        r, s = self.rng, self.s
        plain = {k: KEYS[t][0].replace(' collate caseless', '') for k, t in zip(self.keys, self.types)}
        columns = ['%s %s' % x for x in plain.items()]
        columns += ['%s %s' % (o, plain[k]) for k, o in zip(self.keys, self.old) if o != k]
        columns += ['%s %s' % (c, VALUES[c][0]) for c in self.columns] + ['op text'] + POSITIONS[self.position][0]
        columns += ['unchanged %s' % self.lists] if self.lists else []
        columns += ['surplus int'] if self.chance(0.3) else []
        made = self.chance(0.2)
        columns += ["made_here text GENERATED ALWAYS AS ('g' || op) STORED"] if made else []
        r.shuffle(columns)
        late = None
        if self.chance(0.3):
            late = r.choice([c for c in columns if c.split()[0] in self.columns])
            columns.remove(late)
        columns += self.pad()
        gone = self.chance(0.15)
        kind = r.choice(['', '', 'UNLOGGED ', 'TEMP '])
        if self.staging == 'partitioned' and not made:
            s.run('CREATE TABLE s (%s) PARTITION BY HASH (op)' % ', '.join(columns))
            s.run('CREATE TABLE s0 PARTITION OF s FOR VALUES WITH (MODULUS 2, REMAINDER 0)')
            if self.chance(0.5):
                r.shuffle(columns)
            s.run('CREATE TABLE s1 (%s)' % ', '.join(columns))
            s.run('ALTER TABLE s ATTACH PARTITION s1 FOR VALUES WITH (MODULUS 2, REMAINDER 1)')
            return late
        s.run('CREATE %sTABLE s (%s%s)' % (kind, 'gone int, ' if gone else '', ', '.join(columns)))
        if self.wide and self.position == 'long':
            s.run('ALTER TABLE s ALTER source_position SET STORAGE EXTERNAL')
        if gone:
            s.run('ALTER TABLE s DROP COLUMN gone')
        if self.staging == 'inherited' and not kind:
            s.run('CREATE TABLE sc (more int) INHERITS (s)')
        else:
            self.staging = 'plain'
        return late

    def attach(self):
        given = {'tombstones': self.home, 'key_columns': '{%s}' % ','.join(self.keys),
                 'on_tie': self.rng.choice(['upsert', 'upsert', 'error']), 'on_unavailable': 'null',
                 'snapshot_position': self.snapshots, 'staging_position': POSITIONS[self.position][2],
                 'unchanged_column': 'unchanged' if self.lists else None, 'on_same_position': self.same,
                 'staging_filter': "op <> ''zz''" if self.filtered else None,
                 'on_schema_change': 'ignore' if self.wide else None,
                 'old_key_columns': '{%s}' % ','.join(self.old) if self.old else None,
                 'column_positions': 'marks' if self.chance(0.3) else None}
        options = ["%s => '%s'" % o for o in given.items() if o[1]]
        options += ['ignore_nulls => true'] if self.ignore_nulls else []
        self.s.run("SELECT cdc_attach('t', 's', %s)" % ', '.join(options))

    # ------------------------------------------------------------ events

    def literals(self):
        """A key, by one literal per column."""
        numbers = [self.rng.randrange(self.key_count)] + [self.rng.randrange(3) for _ in self.keys[1:]]
        return [self.rng.choice(KEYS[t][1](n)) for t, n in zip(self.types, numbers)]

    def event(self, columns):
        r = self.rng
        row = dict(zip(self.keys, self.literals()))
        # a snapshot row at the position of another event is judged by what came before it
        ops = 'cuuurrdd' if self.unique or self.snapshots == 'none' else 'cuuudd'
        op = r.choice(ops) if self.chance(0.85) else r.choice(['-U', '+U', 'zz' if self.filtered else 'c'])
        if self.old and op in 'uc' and self.chance(0.3):
            for k, o, v in zip(self.keys, self.old, self.literals()):
                if o != k:
                    row[o] = 'NULL' if self.chance(0.15) else v
        for c in columns:
            row[c] = r.choice([v for v in VALUES[c][1](r) if self.gaps or PLACEHOLDER not in v or "'x" in v])
        row['op'] = "'%s'" % op
        names, position, _ = POSITIONS[self.position]
        p = self.free.pop() if self.unique else r.randrange(1, 400)
        if op != 'r' or self.chance(0.7):
            row.update(zip([n.split()[0] for n in names], position(p)))
        if self.lists and self.chance(0.4):
            listed = r.sample(self.columns, r.randrange(len(self.columns) + 1))
            row['unchanged'] = "'[%s]'" % ','.join('"%s"' % x for x in listed) if self.lists == 'jsonb' \
                else "'{%s}'" % ','.join(listed)
        table = 'sc' if self.staging == 'inherited' and self.chance(0.4) else 's'
        return 'INSERT INTO %s (%s) VALUES (%s)' % (table, ', '.join(row), ', '.join(row.values()))

    def load(self, count, columns):
        self.s.run('; '.join(self.event(columns) for _ in range(count)))
