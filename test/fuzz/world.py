"""Random worlds for the SQL fuzzer: a target, a staging relation, events and
statements, from harmless to absurd. All follows from the seed.
"""
import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from pg import ident, lit  # noqa: E402

from material import (ENUMS, EVIL_EXPRESSIONS, EVIL_JSON, EVIL_TEXT, COMMON, KEY_TYPES, MARK, NAMES, ODD_OPS, OPS,  # noqa: E402
                      TRIGGERS, TYPES)


class World:
    def __init__(self, seed):
        self.seed = seed
        r = self.rng = random.Random(seed)
        self.schema = 'fuzz_%d' % seed
        self.wild = r.choice([0, 0, 0.02, 0.02, 0.07, 0.3])
        self.owner = r.random() < 0.5          # a plain owner rather than a superuser
        self.volatile = False                  # content may differ between equal calls
        self.untracked = False                 # event triggers were off
        self.tricky = False                    # triggers that make replays and dry runs differ
        self.fold = r.choice([0, 0, 1, 2, 5, 17])
        self.nkeys = r.choice([1, 1, 1, 2, 2, 3])
        self.keys = []
        names = r.sample(NAMES, k=12)
        for i in range(self.nkeys):
            t = r.choice(KEY_TYPES if r.random() < 0.7 else ['integer', 'text'])
            self.keys.append((r.choice(['id', 'k%d' % i, names.pop()]) if i == 0 else names.pop(), t))
        self.cols = [(names.pop(), r.choice(COMMON if r.random() < 0.6 else list(TYPES)))
                     for _ in range(r.choice([0, 1, 2, 3, 5]))]
        self.pos = r.choice(['cdc', 'cdc', 'cdc', 'expr', 'lsn2', 'lsn2', 'num2', 'num1', 'text'])
        self.home = r.choice(['row', 'row', 'side', 'side', 'time', 'none'])
        self.optype = r.choice(list(OPS))
        self.move = r.random() < 0.4
        self.gone = r.choice([None, None, 'text[]', 'name[]', 'jsonb'])
        self.flag = r.choice([None, None, None, 'boolean', 'text', 'integer', 'smallint', 'char(5)'] + (
            ['name', '"char"'] if self.odd() else []))
        self.partitioned = r.random() < 0.2
        self.universe = [[r.choice(TYPES[t]) for _, t in self.keys] for _ in range(r.choice([1, 3, 5, 8]))]
        self.at = 0
        self.names_tombstone = r.random() < 0.5
        self.attached = self.refused = False   # what became of the last attach and the last apply
        self.not_null = set()
        self.first = r.random() < (0.9 if self.home in ('side', 'none') else 0.5)

    def chance(self, p):
        return self.rng.random() < p

    def odd(self):
        return self.rng.random() < self.wild

    # ------------------------------------------------------------ setting up

    def setup(self):
        r = self.rng
        out = []
        cells = []
        for n, t in self.keys:
            always = ' GENERATED ALWAYS AS IDENTITY' if t in ('integer', 'bigint', 'smallint') and self.odd() else ''
            cells.append('%s %s%s' % (ident(n), t, always))
        for n, t in self.cols:
            extra = r.choice(['', '', '', ' DEFAULT ' + lit(r.choice(TYPES[t])), ' NOT NULL',
                              ' NOT NULL DEFAULT ' + lit(r.choice(TYPES[t]))])
            cells.append('%s %s%s' % (ident(n), t, extra))
            if extra.startswith(' NOT NULL'):
                self.not_null.add(n)
        if self.chance(0.15):
            cells.append('gen text GENERATED ALWAYS AS (%s::text || \'g\') STORED' % ident(self.keys[0][0])
                         if self.keys[0][1] in ('integer', 'text', 'bigint', 'uuid') else 'gen integer')
        if self.chance(0.1):
            cells.append('ident bigint GENERATED %s AS IDENTITY' % r.choice(['ALWAYS', 'BY DEFAULT']))
            self.volatile = True
        if self.chance(0.3):
            cells.append('own integer DEFAULT 42')
        if self.pos in ('cdc', 'expr', 'text') and (self.home != 'side' or self.chance(0.5)):
            cells.append('source_position ' + r.choice(['cdc_position'] * 9 + ['dpos']) + r.choice(['', '', ' NOT NULL DEFAULT \'0/0\'']))
        elif self.pos == 'lsn2':
            cells += ['source_lsn ' + r.choice(['pg_lsn'] * 5 + ['dlsn']),
                      'source_ordinal ' + r.choice(['bigint', 'integer', 'numeric', 'dnum'])]
        elif self.pos == 'num2':
            cells += ['source_lsn numeric', 'source_ordinal ' + r.choice(['bigint', 'numeric', 'smallint'])]
        elif self.pos == 'num1':
            cells += ['pos ' + r.choice(['bigint', 'numeric', 'integer'])]
        if self.home == 'row':
            cells.append('deleted boolean' + r.choice(['', ' NOT NULL DEFAULT false', ' DEFAULT false']))
        elif self.home == 'time':
            cells.append('deleted_at timestamptz')
        r.shuffle(cells)
        junk = self.chance(0.3)
        if junk:
            cells.insert(r.randint(0, len(cells)), 'junk text')
        key = ', '.join(ident(n) for n, _ in self.keys)
        kind = 'UNLOGGED ' if self.chance(0.1) else 'TEMP ' if self.chance(0.05) else ''
        by = r.choice(['HASH', 'HASH', 'RANGE', 'LIST'])
        out.append('CREATE %sTABLE target (%s)%s' % (
            kind, ', '.join(cells), ' PARTITION BY %s (%s)' % (by, ident(self.keys[0][0])) if self.partitioned else ''))
        if junk:
            out.append('ALTER TABLE target DROP COLUMN junk')
        if self.partitioned:
            if by == 'HASH':
                out.append('CREATE %sTABLE part_0 PARTITION OF target FOR VALUES WITH (MODULUS 2, REMAINDER 0)' % kind)
                out.append('CREATE %sTABLE part_1 (%s)' % (kind, ', '.join(sorted(cells))))
                out.append('ALTER TABLE part_1 DROP COLUMN IF EXISTS junk')
                out.append('ALTER TABLE target ATTACH PARTITION part_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1)')
            else:
                v = lit(r.choice(TYPES[self.keys[0][1]]))
                out.append('CREATE %sTABLE part_0 PARTITION OF target FOR VALUES %s' % (
                    kind, 'IN (%s)' % v if by == 'LIST' else 'FROM (MINVALUE) TO (%s)' % v))
                if self.chance(0.8):
                    out.append('CREATE %sTABLE part_1 PARTITION OF target DEFAULT' % kind)
        if not self.odd():
            out.append('ALTER TABLE target ADD PRIMARY KEY (%s)' % key if self.chance(0.7) else
                       'CREATE UNIQUE INDEX ON target (%s)' % key)
        elif self.chance(0.8):
            out.append(r.choice(['ALTER TABLE target ADD PRIMARY KEY (%s) DEFERRABLE',
                                 'ALTER TABLE target ADD UNIQUE (%s) DEFERRABLE INITIALLY DEFERRED',
                                 'CREATE UNIQUE INDEX ON target (%s) WHERE true', 'CREATE INDEX ON target (%s)',
                                 'CREATE UNIQUE INDEX ON target (%s, own)',
                                 'CREATE UNIQUE INDEX ON target (%s) NULLS NOT DISTINCT',
                                 'CREATE UNIQUE INDEX ON target (%s DESC) INCLUDE (own)']) % key)
        if self.odd():
            out += r.choice([
                ['ALTER TABLE target ADD COLUMN gk integer GENERATED ALWAYS AS (1 + 1) STORED',
                 'CREATE UNIQUE INDEX ON target (gk, %s)' % key],
                ['ALTER TABLE target ADD EXCLUDE USING btree (%s WITH =)' % key.split(', ')[0]],
                ['CREATE RULE rt AS ON UPDATE TO target DO INSTEAD NOTHING'],
                ['ALTER TABLE target ADD CHECK (hashtext(%s::text) %% 3 <> 0)' % key.split(', ')[0]],
                ['CREATE FOREIGN DATA WRAPPER fw', 'CREATE SERVER fs FOREIGN DATA WRAPPER fw',
                 'CREATE FOREIGN TABLE part_f PARTITION OF target DEFAULT SERVER fs'],
                ['ALTER TABLE target REPLICA IDENTITY NOTHING', 'CREATE PUBLICATION pb FOR TABLE target'],
                ['CREATE TABLE %s (LIKE target INCLUDING ALL)' % 'target_tombstones'],
                ['ALTER TABLE target CLUSTER ON target_pkey', 'ALTER TABLE target SET (fillfactor = 10)'],
                ['ALTER TABLE target ' + ', '.join('ADD c%d integer DEFAULT 1' % i for i in range(300))]])
        if self.chance(0.1) and self.cols:
            n, t = r.choice(self.cols)
            out.append('CREATE UNIQUE INDEX ON target (%s)' % (ident(n) + (', ' + key if self.partitioned else '')))
        if self.chance(0.1) and not self.partitioned:
            out.append('CREATE TABLE child (id integer, %s, FOREIGN KEY (%s) REFERENCES target %s %s)' % (
                ', '.join('%s %s' % (ident(n), t) for n, t in self.keys), key,
                r.choice(['', 'ON DELETE CASCADE', 'ON DELETE SET NULL', 'ON UPDATE CASCADE']),
                r.choice(['', 'DEFERRABLE', 'DEFERRABLE INITIALLY DEFERRED'])))
            out.append('INSERT INTO child (id, %s) SELECT 1, %s FROM target' % (key, key))
        for _ in range(r.choice([0, 0, 0, 0, 1, 2])):
            self.tricky = True
            f = r.choice(TRIGGERS) if self.odd() or self.chance(0.3) else r.choice(['tg_same', 'tg_null'])
            when = 'AFTER' if f == 'tg_null' and not self.odd() else r.choice(['BEFORE', 'AFTER'])
            if self.chance(0.2):
                out.append('CREATE TRIGGER t%d AFTER %s ON target REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT '
                           'EXECUTE FUNCTION tg_transition()' % (r.randint(0, 99), r.choice(['INSERT', 'UPDATE'])))
            else:
                out.append('CREATE TRIGGER t%d %s %s ON target FOR EACH %s EXECUTE FUNCTION %s()' % (
                    r.randint(0, 99), when, r.choice(['INSERT', 'UPDATE', 'DELETE', 'INSERT OR UPDATE OR DELETE']),
                    r.choice(['ROW', 'ROW', 'ROW', 'STATEMENT']), f))
        out += self.staging_ddl()
        return out

    def staging_ddl(self):
        r = self.rng
        text = self.chance(0.25)
        cells = []

        def cell(n, t):
            if text:
                t = 'text'
            elif self.odd():
                t = r.choice(list(TYPES))
            cells.append('%s %s' % (ident(n), t))
        for n, t in self.keys:
            cell(n, t)
        for n, t in self.cols:
            if not self.odd():
                cell(n, t)
        if self.move:
            for n, t in self.keys:
                cell('__old_' + n[:57], t)
        self.staging_columns = {'cdc': [('source_position', 'cdc_position')], 'text': [('ptext', 'text')],
                                'expr': [('source_lsn', 'pg_lsn'), ('source_ordinal', 'bigint')],
                                'lsn2': [('source_lsn', 'pg_lsn'), ('source_ordinal', 'bigint')],
                                'num2': [('source_lsn', 'numeric'), ('source_ordinal', 'bigint')],
                                'num1': [('pos', 'bigint')]}[self.pos]
        cells += ['%s %s' % (n, t) for n, t in self.staging_columns]
        if not self.odd():
            cells.append('op %s' % self.optype)
        if self.gone:
            cells.append('__unchanged ' + self.gone)
        if self.flag:
            cells.append('flag ' + self.flag)
        if self.odd():
            cells.append(r.choice(['extra integer', 'deleted boolean', 'own integer', 'extra tsvector', 'gen text']))
        r.shuffle(cells)
        how = r.choice(['table'] * 6 + ['view', 'temp', 'partitioned', 'unlogged', 'join', 'matview'])
        if how == 'table':
            return ['CREATE TABLE staging (%s)' % ', '.join(cells)]
        if how in ('temp', 'unlogged'):
            return ['CREATE %s TABLE staging (%s)' % (how, ', '.join(cells))]
        if how == 'partitioned':
            return ['CREATE TABLE staging (%s, bucket integer DEFAULT 1) PARTITION BY LIST (bucket)' % ', '.join(cells),
                    'CREATE TABLE staging_1 PARTITION OF staging DEFAULT']
        out = ['CREATE TABLE staging_raw (%s)' % ', '.join(cells)]
        if how == 'view':
            out.append('CREATE VIEW staging AS SELECT * FROM staging_raw' + r.choice(['', ' WHERE true']))
        elif how == 'join':
            out.append('CREATE VIEW staging AS SELECT s.* FROM staging_raw s, (VALUES (1)) AS v')
        else:
            out.append('CREATE MATERIALIZED VIEW staging AS SELECT * FROM staging_raw')
        return out

    # ------------------------------------------------------------ events

    def key(self):
        return [None if self.chance(self.wild / 5) else v for v in self.rng.choice(self.universe)]

    def position(self):
        """Values of staging's position columns."""
        r = self.rng
        if self.chance(0.85):
            self.at += 1
            head, ordinal = self.at, r.choice([0, 0, 1, 5])
        else:
            head, ordinal = r.randint(0 if self.odd() else 1, 10), r.randint(0, 1)
        if self.odd():
            head = r.choice([0, -1, 2 ** 31, 2 ** 63 - 1, None])
        lsn = None if head is None else '%X/%X' % (max(head, 0) >> 32, max(head, 0) & 0xffffffff)
        if self.pos in ('cdc', 'text'):
            p = None if lsn is None else lsn + (':%d' % ordinal if ordinal else '')
            if p and self.odd():
                p = r.choice(['3@' + p, '7:1', '0/0:4', 'x', p + ':0:0:9'])
            return [p]
        if self.pos in ('expr', 'lsn2'):
            return [lsn, None if self.odd() else ordinal]
        if self.pos == 'num2':
            return [head, None if self.odd() else ordinal]
        return [head]

    def value(self, t):
        r = self.rng
        if self.chance(0.15):
            return None
        if self.chance(0.07):
            return {'text': MARK, 'bytea': '\\x' + MARK.encode().hex(), 'text[]': '{%s}' % MARK,
                    'jsonb': '"%s"' % MARK, 'json': '"%s"' % MARK}.get(t, r.choice(TYPES[t]))
        if t == 'text' and self.chance(0.05):
            return r.choice('abc') * 3000
        return r.choice(TYPES[t])

    def event(self):
        r = self.rng
        row = {}
        for (n, _), v in zip(self.keys, self.key()):
            row[n] = v
        for n, t in self.cols:
            row[n] = self.value(t)
            if row[n] is None and n in self.not_null and not self.odd():
                row[n] = r.choice(TYPES[t])
        if self.move and self.chance(0.4):
            for (n, _), v in zip(self.keys, self.key()):
                row['__old_' + n[:57]] = v
        for (n, _), v in zip(self.staging_columns, self.position()):
            row[n] = v
        row['op'] = r.choice(ODD_OPS) if self.odd() else r.choice(OPS[self.optype])
        if self.gone and self.chance(0.5):
            listed = [n for n, _ in self.cols if self.chance(0.4)]
            if self.odd():
                listed += [r.choice(['nope', '', self.keys[0][0], 'x' * 70, None])]
            row['__unchanged'] = json.dumps(listed) if self.gone == 'jsonb' else \
                '{%s}' % ','.join('NULL' if x is None else '"%s"' % x.replace('\\', '\\\\').replace('"', '\\"') for x in listed)
            if self.odd():
                row['__unchanged'] = r.choice(EVIL_JSON if self.gone == 'jsonb' else ['{{a,b},{c,d}}', '[5:6]={a,b}', '{}'])
        if self.flag and self.chance(0.4):
            row['flag'] = r.choice({'boolean': ['true', 'false'], 'integer': ['0', '1', '-5'], 'smallint': ['0', '1']}.get(
                self.flag, ['t', 'f', 'true', 'false', '1', '0'] + (['', 'yes', 'x', 'TRUE', ' t'] if self.odd() else [])))
        return row

    def load(self, table='staging'):
        rows = [self.event() for _ in range(self.rng.choice([1, 3, 8, 20, 40]))]
        if rows and self.chance(0.3):
            rows += self.rng.choices(rows, k=3)
        out = []
        for row in rows:
            used = [n for n in row if row[n] is not None]
            out.append('INSERT INTO %s (%s) VALUES (%s)' % (table, ', '.join(map(ident, used)),
                                                            ', '.join(lit(row[n]) for n in used)))
        return out

    # ------------------------------------------------------------ arguments

    def columns_list(self):
        r = self.rng
        pool = [n for n, _ in self.keys + self.cols] + ['source_position', 'source_lsn', 'op', 'deleted', 'nope', 'ctid',
                                                        '', 'own', None]
        v = r.sample(pool, k=r.choice([0, 1, 1, 2, 3]))
        return "ARRAY[%s]::name[]" % ', '.join(map(lit, v)) if v else r.choice(["'{}'", "'{{a},{b}}'"])

    def name_arg(self):
        return lit(self.rng.choice(['op', 'deleted', 'deleted_at', 'flag', '__unchanged', 'nope', '', 'ctid', 'source_position',
                                    'tableoid', self.keys[0][0]] + [n for n, _ in self.cols]))

    def expression(self):
        r = self.rng
        e = r.choice(EVIL_EXPRESSIONS)
        if self.chance(0.3):
            e = r.choice(['(%s)', 'NOT (%s)', '%s IS NOT NULL', 'coalesce(%s, NULL)', '%s AND true', '(%s)::text', '%s\n',
                          '\n%s --', '((%s))::boolean']) % e.replace('%', '%%') if '%' not in e else e
        return lit(e)

    def rule(self):
        """Arguments that cdc_apply and cdc_attach share."""
        r = self.rng
        a = {}
        if self.pos == 'expr':
            a['staging_position'] = lit('cdc_position(source_lsn, source_ordinal)')
        elif self.pos == 'text':
            a['staging_position'] = lit('ptext::cdc_position')
        elif self.pos == 'num1':
            a['position_columns'] = "'{pos}'"
        if self.home == 'time':
            a['tombstone_column'] = "'deleted_at'"
        elif self.home == 'row' and self.names_tombstone:
            a['tombstone_column'] = "'deleted'"
        if not self.chance(0.3):
            a['key_columns'] = 'ARRAY[%s]::name[]' % ', '.join(lit(n) for n, _ in self.keys)
        if self.gone:
            a['unchanged_column'] = "'__unchanged'"
        if self.flag:
            a['delete_flag_column'] = "'flag'"
        if self.chance(0.5):
            a['on_unavailable'] = "'null'"
        if self.chance(0.6):
            a['on_tie'] = "'upsert'"
        for n, values in ENUMS.items():
            if self.chance(0.12):
                a[n] = lit(r.choice(values))
        if self.chance(0.15):
            a['ignore_nulls'] = r.choice(['true', 'false'])
        if self.chance(0.1):
            a['staging_filter'] = lit(r.choice(["op IS DISTINCT FROM 'x'", 'true', 'NOT false', 'op IS NOT NULL']))
        if self.chance(0.1):
            a['except_columns'] = 'ARRAY[%s]::name[]' % ', '.join(lit(n) for n, _ in self.cols[:1])
        if self.optype == 'op_enum':
            a['op_map'] = '\'{"weird": "delete"}\''
        if self.odd():
            for _ in range(r.choice([1, 1, 2])):
                n = r.choice(list(EVIL_ARGS))
                a[n] = EVIL_ARGS[n](self)
        return a

    def call(self, function, args):
        return '%s(%s)' % (function, ', '.join(['%s => %s' % kv for kv in args.items()]))

    def relation(self, usual):
        r = self.rng
        if self.odd():
            return r.choice(["'staging'", "'target'", "'part_0'", "'target_tombstones'", "'pg_class'", "'audit'", "'fuzz_seq'",
                             'NULL', '0', '4294967295', "'child'", "'pg_class_oid_index'", "'nope'", "'cdc_targets'",
                             "'cdc_target_rule'", "'cdc_target_state'", "'staging_raw'", "'pair'"])
        return usual

    def apply_args(self):
        r = self.rng
        a = {'target': self.relation("'target'"), 'staging': self.relation("'staging'")}
        if self.attached and self.chance(0.4) or self.odd():
            del a['staging']
        if not self.attached or self.chance(0.4):
            a.update(self.rule())
        if self.odd():
            n = r.choice(['expect_events', 'lineage', 'nowait'])
            a[n] = {'expect_events': '0', 'lineage': "'other'", 'nowait': 'true'}[n]
        return a

    def attach_args(self):
        r = self.rng
        a = {'target': self.relation("'target'")}
        if self.chance(0.8):
            a['staging'] = self.relation("'staging'")
        if not self.attached or self.chance(0.3):
            a.update(self.rule())
        if self.chance(0.3):
            a['tombstones'] = lit(r.choice(['auto', 'row', 'table']) if not self.odd() else r.choice(EVIL_TEXT))
        if self.chance(0.4):
            a['guard'] = lit(r.choice(['off', 'skip', 'error']) if not self.odd() else r.choice(EVIL_TEXT))
        if self.chance(0.15):
            a['live_view'] = lit(r.choice(['live', self.schema + '.live2']) if not self.odd() else
                                 r.choice(EVIL_TEXT + ['target', 'staging', 'pg_catalog.x', 'a.b.c']))
        if self.chance(0.1):
            a['as_of'] = self.position_literal()
        if self.chance(0.1):
            a['lineage'] = lit(r.choice(['main', 'other'] + EVIL_TEXT))
        if self.chance(0.1):
            a['epoch'] = r.choice(['0', '1', '5', '-1', '4294967295', '4294967296', 'NULL'])
        if self.chance(0.3):
            a['column_positions'] = "'the marks'"
        return a

    def position_literal(self):
        r = self.rng
        if self.odd():
            return r.choice(["'0/0'", "'0/0:5'", "'5'", "'9@1/1'", 'NULL', "'FFFFFFFF/FFFFFFFF'", "'4294967295@0/1'"])
        n = r.randint(1, 40)
        return lit('0/%X' % n if self.pos in ('cdc', 'expr', 'lsn2', 'text') else str(n))

    # ------------------------------------------------------------ statements

    def step(self):
        """One of: (kind, ...) with kind call, plain, load."""
        r = self.rng
        what = r.random()
        if self.first:
            self.first = False
            return ('call', 'SELECT ' + self.call('cdc_attach', dict(self.attach_args(), staging="'staging'")))
        if self.refused and self.chance(0.5):
            self.refused = False               # one bad row would spoil all that follows
            return ('plain', 'DELETE FROM staging')
        if what < 0.30:
            return ('load', self.load())
        if what < 0.62:
            return ('apply', self.apply_args())
        if what < 0.74:
            return ('call', 'SELECT ' + self.call('cdc_attach', self.attach_args()))
        if what < 0.84:
            target = self.relation("'target'")
            return ('call', r.choice([
                'SELECT cdc_purge_tombstones(%s, %s, force => %s)' % (target, self.position_literal(), r.choice(['true', 'false'])),
                'SELECT cdc_purge_tombstones(%s, older_than => %s, max_rows => %s)' % (
                    target, r.choice(["'0'", "'1 day'", "'-1 day'", "'-290000 years'", 'NULL']), r.choice(['NULL', '0', '1', '5', '-1'])),
                'SELECT cdc_purge_tombstones(%s, %s, %s, %s)' % (target, self.position_literal(), "'0'", r.choice(['NULL', '1'])),
                'SELECT cdc_set_fence(%s, %s)' % (target, self.position_literal()),
                'SELECT cdc_set_floor(%s, %s)' % (target, self.position_literal()),
                'SELECT cdc_new_epoch(%s%s)' % (target, r.choice(['', ", 'l2'", ", ''"])),
                'SELECT cdc_detach(%s, %s)' % (target, r.choice(['true', 'false'])),
                'SELECT * FROM cdc_attach_schema(%s, %s, %s)' % (lit(self.schema), lit(self.schema),
                                                               r.choice(["'staging'", "'%s'", "'staging%s'", "'nope'", 'NULL'])),
                'SELECT count(target::text) FROM cdc_targets']))
        return ('plain', self.plain())

    def plain(self):
        """By-hand writes and DDL: may fail, but not inside the extension."""
        r = self.rng
        key = self.keys[0][0]
        where = ' WHERE %s = %s' % (ident(key), lit(r.choice(self.universe)[0]))
        col = ident(r.choice(self.keys + self.cols)[0])
        tame = ['DELETE FROM target' + where, 'UPDATE target SET %s = %s%s' % (col, col, where), 'DELETE FROM staging',
                'INSERT INTO target (%s) VALUES (%s)' % (', '.join(ident(n) for n, _ in self.keys),
                                                         ', '.join(lit(v) for v in r.choice(self.universe))),
                'UPDATE target SET source_position = %s%s' % (self.position_literal(), where),
                'SET cdc_precedence.bypass_guard = %s' % r.choice(['on', 'off']), 'VACUUM ANALYZE target',
                'REFRESH MATERIALIZED VIEW staging', 'ANALYZE staging', "SET work_mem = '64kB'", 'RESET work_mem']
        if not self.odd():
            return r.choice(tame)
        self.untracked = True
        name = r.choice(['target', 'staging', 'target_tombstones', 'part_0', 'live'])
        t = r.choice(list(TYPES))
        return r.choice([
            'TRUNCATE target', 'TRUNCATE target_tombstones', 'DROP TABLE target_tombstones', 'DROP VIEW live',
            'DROP TABLE staging CASCADE', 'ALTER TABLE %s DROP COLUMN %s CASCADE' % (name, col),
            'ALTER TABLE %s RENAME COLUMN %s TO renamed' % (name, col), 'ALTER TABLE %s ADD COLUMN added %s' % (name, t),
            'ALTER TABLE %s ALTER COLUMN %s TYPE %s USING NULL' % (name, col, t),
            'ALTER TABLE %s ALTER COLUMN %s TYPE text' % (name, col),
            'ALTER TABLE target DROP COLUMN source_position CASCADE', 'ALTER TABLE target DROP COLUMN deleted CASCADE',
            'ALTER TABLE target ALTER COLUMN source_position TYPE text', 'ALTER TABLE %s RENAME TO moved' % name,
            'ALTER TABLE moved RENAME TO target', 'ALTER TABLE target RENAME COLUMN source_position TO sp',
            'ALTER TABLE target RENAME COLUMN deleted TO gone', 'DROP TRIGGER zzz_cdc_guard ON target',
            'ALTER TABLE target DISABLE TRIGGER ALL', 'ALTER TABLE target ENABLE ROW LEVEL SECURITY',
            'ALTER TABLE target DROP CONSTRAINT target_pkey CASCADE', 'DROP INDEX target_tombstones_pkey',
            'ALTER TABLE target_tombstones ADD COLUMN more integer NOT NULL DEFAULT 1',
            'ALTER TABLE target_tombstones DROP COLUMN deleted_at', 'ALTER TABLE target_tombstones RENAME TO moved_side',
            'ALTER TABLE target_tombstones RENAME COLUMN source_position TO sp', 'DELETE FROM target_tombstones',
            'UPDATE target_tombstones SET source_position = %s' % r.choice(["'5'", "'0/0'", "'0/FF'"]),
            'ALTER TABLE target_tombstones ALTER COLUMN source_position DROP NOT NULL',
            'UPDATE target_tombstones SET source_position = NULL',
            'CREATE TRIGGER ts BEFORE INSERT OR DELETE ON target_tombstones FOR EACH ROW EXECUTE FUNCTION tg_null()',
            'CREATE RULE ru AS ON DELETE TO %s DO INSTEAD NOTHING' % name, 'CREATE RULE ri AS ON INSERT TO target DO ALSO SELECT 1',
            'ALTER TABLE %s SET SCHEMA public' % name, 'ALTER TABLE part_1 RENAME TO target2',
            'ALTER TABLE target DETACH PARTITION part_0', 'CREATE TABLE kid () INHERITS (%s)' % name,
            'UPDATE cdc_target_rule SET key_columns = \'{nope}\'', 'UPDATE cdc_target_rule SET position_columns = \'{nope}\'',
            'UPDATE cdc_target_rule SET position_columns = array_fill(\'source_position\'::name, ARRAY[12])',
            'UPDATE cdc_target_rule SET staging_position = %s' % self.expression(),
            'UPDATE cdc_target_rule SET staging_filter = %s' % self.expression(),
            'UPDATE target SET "the marks" = %s' % lit(r.choice(EVIL_JSON + ['{"": "0/1"}', '{"own": []}', '{"": null}', '{"own": ["0/5"]}'])),
            'UPDATE cdc_target_rule SET op_map = \'[1]\'', 'UPDATE cdc_target_rule SET on_tie = \'nope\'',
            'UPDATE cdc_target_rule SET tombstone_column = \'nope\'', 'UPDATE cdc_target_rule SET guard = \'nope\'',
            'UPDATE cdc_target_state SET tombstones = 0', 'UPDATE cdc_target_state SET tombstones = \'pg_class\'::regclass',
            'UPDATE cdc_target_state SET tombstones = \'staging\'::regclass', 'UPDATE cdc_target_state SET epoch = -1',
            'UPDATE cdc_target_state SET fence = \'5\'', 'UPDATE cdc_target_state SET fed_columns = \'{a,NULL}\'',
            'DELETE FROM cdc_target_rule', 'DELETE FROM cdc_target_state', 'UPDATE cdc_target_rule SET key_columns = \'{}\'',
            'UPDATE cdc_target_rule SET key_columns = NULL', 'CREATE INDEX ON target (%s)' % col,
            'CREATE STATISTICS st ON %s, source_position FROM target' % col, 'DROP SEQUENCE fuzz_seq CASCADE',
            'SET session_replication_role = %s' % r.choice(['replica', 'origin', 'local']), 'SET row_security = off',
            'SET temp_file_limit = 0', 'SET temp_file_limit = -1', 'SET constraint_exclusion = off', 'SET default_tablespace = pg_global',
            'SET transaction_read_only = on', 'SET default_transaction_read_only = %s' % r.choice(['on', 'off']),
            'SET max_stack_depth = 100', 'SET lock_timeout = 1', 'SET extra_float_digits = -15', "SET DateStyle = 'SQL, DMY'",
            'SET standard_conforming_strings = off', "SET TimeZone = 'Asia/Kolkata'", "SET search_path = pg_catalog, " + self.schema,
            'SET default_table_access_method = heap', 'DROP TYPE mood CASCADE', 'ALTER TYPE op_enum ADD VALUE \'z\'', 'DROP EXTENSION cdc_precedence CASCADE'
            if self.chance(0.05) else 'ALTER EXTENSION cdc_precedence SET SCHEMA %s' % self.schema])


EVIL_ARGS = {
    'key_columns': World.columns_list, 'position_columns': World.columns_list, 'old_key_columns': World.columns_list,
    'except_columns': World.columns_list, 'staging_position': World.expression, 'staging_filter': World.expression,
    'op_column': World.name_arg, 'delete_flag_column': World.name_arg, 'tombstone_column': World.name_arg,
    'unchanged_column': World.name_arg, 'op_map': lambda w: lit(w.rng.choice(EVIL_JSON)),
    'default_op': lambda w: lit(w.rng.choice(['upsert', 'd', 'r', 'm', 't'] + EVIL_TEXT)),
    'unavailable_value': lambda w: lit(w.rng.choice(EVIL_TEXT)), 'ignore_nulls': lambda w: 'true',
    'column_positions': World.name_arg}
for _n in ENUMS:
    EVIL_ARGS[_n] = lambda w, n=_n: lit(w.rng.choice(EVIL_TEXT + ENUMS[n] + ['truncate', 'bookmark']))
