"""Random histories: a source that really holds rows, the events its log tells
of them, and plans for delivering these.

A history is a dict that law.load and law.play (machine.sql) read. Positions are
lists of numbers [epoch, head, part, part]; None is "no position". Values are
text, as the target prints them.
"""
import json
import random

MARK = '__debezium_unavailable_value'
COLUMNS = ['n', 'q', 'note', 'body', 'tags', 'doc', 'raw']
TYPES = {'n': 'integer NOT NULL', 'q': 'integer', 'note': 'text', 'body': 'text', 'tags': 'text[]',
         'doc': 'jsonb', 'raw': 'bytea'}
DEFAULTS = {'n': '7', 'q': '5', 'note': 'none', 'body': None, 'tags': '{}', 'doc': '{}', 'raw': None, 'own': '42'}
UPSERT_OPS = {'text': {'c': ['c', 'i', 'insert', 'create', 'upsert', '+I', 'C', ' Insert ', '2'],
                       'u': ['u', 'update', 'UPDATE', 'upsert', 'U', 'u ', '4'],
                       'r': ['r', 'read', 'snapshot', 'R', 'Snapshot', None],
                       'd': ['d', 'delete', '-D', 'DELETE', 'D', '1', '-d'],
                       '-U': ['-U', 'UPDATE_BEFORE', '3', '-u', 'update_before'],
                       '+U': ['+U', 'UPDATE_AFTER', '4', '+u'],
                       'm': ['m', 'message', 'begin', 'commit', 'M', 'BEGIN']},
              'char': {'c': ['c', 'i', 'C', 'I', '2'], 'u': ['u', 'U', '4'], 'r': ['r', 'R', None],
                       'd': ['d', 'D', '1'], '-U': ['3'], '+U': ['4'], 'm': ['m', 'M']},
              'integer': {'c': ['2'], 'u': ['4', '2'], 'r': [None], 'd': ['1'], '-U': ['3'], '+U': ['4'], 'm': [None]}}


class Layout:
    """How target and staging are built. One schema each."""

    def __init__(self, rng):
        self.key = rng.choice(['one', 'two', 'two'])
        self.pos = rng.choice(['lsn', 'lsn', 'lsn', 'lsn2', 'lsn2', 'num', 'num2'])
        self.dead = rng.choice(['flag', 'nullable', 'time'])
        self.cells = rng.choice(['typed', 'typed', 'text'])
        self.op = rng.choice(['text', 'text', 'text', 'char', 'integer'])
        self.gone = rng.choice(['text[]', 'name[]', 'jsonb'])

    @property
    def name(self):
        return '_'.join(['l', self.key, self.pos, self.dead, self.cells, self.op, self.gone.replace('[]', 's')])

    @property
    def keys(self):
        return [('id', 'integer')] if self.key == 'one' else [('a', 'integer'), ('b', 'text')]

    @property
    def kind(self):
        return 'num' if self.pos.startswith('num') else 'lsn'

    @property
    def tomb(self):
        return 'deleted_at' if self.dead == 'time' else 'deleted'

    @property
    def is_live(self):
        return 'deleted_at IS NULL' if self.dead == 'time' else 'deleted IS NOT TRUE'

    def ddl(self, schema, staging_names=('staging', 'other_staging')):
        keys = ''.join(f'  {k} {t},\n' for k, t in self.keys)
        cells = ''.join(f'  {c} {TYPES[c]}{"" if DEFAULTS[c] is None else " DEFAULT " + lit(DEFAULTS[c])},\n'
                        for c in COLUMNS)
        pos = {'lsn': '  source_position cdc_position,\n', 'num': '  source_position cdc_position,\n',
               'lsn2': '  source_lsn pg_lsn,\n  source_ordinal bigint,\n',
               'num2': '  source_lsn numeric,\n  source_ordinal bigint,\n'}[self.pos]
        tomb = {'flag': '  deleted boolean NOT NULL DEFAULT false,\n', 'nullable': '  deleted boolean,\n',
                'time': '  deleted_at timestamptz,\n'}[self.dead]
        out = f'CREATE SCHEMA {schema};\nSET search_path = {schema}, public;\n'
        out += (f'CREATE TABLE target (\n{keys}{cells}{pos}{tomb}  own integer DEFAULT 42,\n'
                f'  PRIMARY KEY ({", ".join(k for k, _ in self.keys)})\n);\n')
        skeys = ''.join(f'  {k} {t if self.cells == "typed" else "text"},\n' for k, t in self.keys)
        skeys += ''.join(f'  __old_{k} {t if self.cells == "typed" else "text"},\n' for k, t in self.keys)
        scells = ''.join(f'  {c} {TYPES[c].split()[0] if self.cells == "typed" else "text"},\n' for c in COLUMNS)
        op = {'text': 'text', 'char': '"char"', 'integer': 'integer'}[self.op]
        for name in staging_names:
            out += f'CREATE TABLE {name} (\n{skeys}{scells}{pos}  __unchanged {self.gone},\n  op {op}\n);\n'
        ka = self.keys[0][0] + '::text'
        kb = "''" if self.key == 'one' else 'b'
        ptext = {'lsn': 'source_position::text', 'num': 'source_position::text',
                 'lsn2': "source_lsn::text || coalesce(':' || nullif(source_ordinal, 0), '')",
                 'num2': "source_lsn::text || coalesce(':' || nullif(source_ordinal, 0), '')"}[self.pos]
        vals = ', '.join(f"'{c}', {c}::text" for c in COLUMNS)
        out += (f'CREATE VIEW state AS\nSELECT {ka} AS ka, {kb} AS kb, {self.is_live} AS live,\n'
                f"  nullif({ptext}, '0/0') AS pos,\n  jsonb_build_object({vals}) AS vals, own::text AS own,\n"
                f"  ctid::text || '/' || xmin::text AS version\nFROM target;\n")
        return out

    def key_row(self, key, prefix=''):
        names = [prefix + k for k, _ in self.keys]
        if key is None:
            return {}
        return dict(zip(names, key))


def lit(value):
    return 'NULL' if value is None else "'" + str(value).replace("'", "''") + "'"


def print_pos(kind, pos, rng=None):
    """A spelling of the position; with rng, any of those that mean the same."""
    epoch, head, rest = pos[0], pos[1], list(pos[2:])
    if kind == 'lsn':
        fmt = '%X/%X'
        if rng:
            fmt = rng.choice(['%X/%X', '%x/%x', '%08X/%08x', '%X/%08X'])
        text = fmt % (head >> 32, head & 0xffffffff)
    else:
        text = str(head)
    while rest and rest[-1] == 0 and not (rng and rng.random() < 0.3):
        rest.pop()
    text += ''.join(':%d' % p for p in rest)
    if epoch or rng and rng.random() < 0.1:
        text = '%d@%s' % (epoch, text)
    return text


class History:
    def __init__(self, seed):
        self.seed = seed
        r = self.rng = random.Random(seed)
        self.layout = Layout(r)
        L = self.layout
        self.mode = r.choice(['full', 'full', 'full', 'list', 'mark', 'nulls'])
        self.pairs = r.random() < 0.35
        self.moves = r.choice([['old'], ['split'], ['old', 'split'], ['pair'], ['old', 'split', 'pair']])
        self.noise = r.random() < 0.5
        self.wild_pairs = self.mode != 'full' and self.pairs and r.random() < 0.3
        self.snap_pos = r.choice(['null', 'at', 'at', 'zero' if L.kind == 'lsn' else 'null'])
        self.snap_arg = r.choice([None, None, 'event', 'none'])
        self.snap = self.snap_arg or ('none' if L.kind == 'lsn' else 'event')
        self.snapshots = r.random() < 0.6
        self.prefill = r.random() < 0.3
        self.unav = r.choice(['error', 'null', None])
        self.on_tie = 'upsert' if self.mode == 'full' and r.random() < 0.3 else 'error'
        self.consume = r.random() < 0.25
        self.big = 600 if r.random() < 0.1 else 0
        self.decoys = r.randint(1, 3) if r.random() < 0.2 else 0
        self.keep = r.random() < 0.2
        self.universe = self.make_universe(r.randint(2, 6))
        self.events = []
        self.make()
        self.deliveries = self.make_deliveries()

    # The source

    def make_universe(self, n):
        r = self.rng
        keys = set()
        while len(keys) < n:
            if self.layout.key == 'one':
                keys.add((str(r.choice([1, 2, 3, 9, 10, 11, -1, 0, 2147483647])), ''))
            else:
                keys.add((str(r.choice([1, 2, 10])), r.choice(['x', 'X', '', ' x', 'é', "o'k", 'long ' * 10])))
        return sorted(keys)

    def value(self, col):
        r = self.rng
        if col != 'n' and self.mode != 'nulls' and r.random() < 0.2:
            return None
        i = r.randint(0, 9)
        if col in ('n', 'q'):
            return str(r.randint(-3, 99))
        if col == 'note':
            return r.choice(['', 'a', 'b', 'null', 'été', 'x' * 40]) + str(i)
        if col == 'body':
            if self.big and r.random() < 0.4:
                return ''.join('%08x' % r.getrandbits(32) for _ in range(self.big))
            return 'body %d' % r.randint(0, 10 ** 6)
        if col == 'tags':
            return r.choice(['{}', '{a}', '{a,b%d}' % i, '{NULL,c}'])
        if col == 'doc':
            return r.choice(['{}', '[1, 2]', '{"k": %d}' % i, '{"a": null, "b": "x%d"}' % i, '"s"'])
        return '\\x' + r.choice(['', '00', 'ff%02x' % i])

    def row(self):
        return {c: self.value(c) for c in COLUMNS}

    def start_positions(self):
        r = self.rng
        self.epoch = 0
        self.subs = self.layout.pos in ('lsn', 'num') and r.random() < 0.3
        if self.layout.kind == 'lsn':
            self.head = r.choice([0x10, 0xF000, 0xFFFFFF00, 0x9FFFFFF00, 0xFFFFFFF80, 0x7FFFFFFFFFFFFF00,
                                  r.getrandbits(40) + 1])
        else:
            self.head = r.choice([0, 8, 98, 999990, 2 ** 63 - 5, 2 ** 64 - 10000, r.getrandbits(40)])
        self.offset = r.choice([4, 95, 10 ** 6])

    def next_commit(self):
        r = self.rng
        if self.layout.pos in ('lsn', 'num') and r.random() < 0.04:
            self.epoch += r.choice([1, 1, 8])
            self.head = r.choice([1, max(1, self.head // 3)])
        if self.layout.pos == 'num' and r.random() < 0.7:
            self.offset += r.choice([1, 5, 90])
        else:
            self.head += r.choice([1, 8, 0x30, 0x100])
            self.offset = r.choice([4, 95])
        self.ordinal = r.choice([0, 0, 1, 8, 2 ** 32 - 2])
        self.sub = 0

    def next_pos(self):
        r = self.rng
        if self.layout.pos == 'num':
            pos = [self.epoch, self.head, self.offset, self.ordinal]
        else:
            pos = [self.epoch, self.head, self.ordinal, self.sub]
        if self.subs and self.layout.pos == 'lsn' and r.random() < 0.5:
            self.sub += 1
        else:
            self.ordinal += 1
            self.sub = 0
        return pos

    # The log

    def add(self, op, key, pos, vals, old=None, gone=(), poison=False, raw_op=None):
        eid = len(self.events)
        vals = dict(vals) if vals is not None else {c: None for c in COLUMNS}
        gone = list(gone)
        if self.mode == 'nulls' and op in ('c', 'u', 'r', '+U'):
            gone = [c for c in COLUMNS if vals[c] is None or c in gone]
        e = {'eid': eid, 'op': op, 'key': key, 'old': old, 'pos': pos, 'vals': vals, 'gone': gone,
             'poison': poison, 'raw_op': raw_op}
        e['forms'] = [self.form(e, 0)]
        if self.rng.random() < 0.4:
            e['forms'].append(self.form(e, 1))
        self.events.append(e)
        return eid

    def form(self, e, n):
        r, L = self.rng, self.layout
        if e['raw_op'] is not None:
            op = e['raw_op'][0]
        else:
            names = UPSERT_OPS[L.op][e['op']]
            op = names[0] if n == 0 and r.random() < 0.5 else r.choice(names)
        row = {'op': op if L.op != 'integer' or op is None else int(op)}
        row.update(L.key_row(e['key']))
        old = e['old']
        if old is None and e['key'] is not None and e['op'] in 'crud' and r.random() < 0.2:
            old = e['key']
        row.update(L.key_row(old, '__old_'))
        pos = e['pos']
        if pos is not None:
            if L.pos in ('lsn', 'num'):
                row['source_position'] = print_pos(L.kind, pos, r if n else None)
            else:
                row['source_lsn'] = print_pos('lsn', [0, pos[1]], None) if L.pos == 'lsn2' else str(pos[1])
                if pos[2] or r.random() < 0.7:
                    row['source_ordinal'] = pos[2]
        elif L.pos in ('lsn2', 'num2') and r.random() < 0.2:
            row['source_ordinal'] = 3
            if e['op'] in ('m',) or e['raw_op']:
                del row['source_ordinal']
        listed = []
        for c in COLUMNS:
            v = e['vals'][c]
            if c in e['gone']:
                if self.mode == 'nulls':
                    v = None
                elif self.mode == 'list' or c == 'q' and L.cells == 'typed':
                    listed.append(c)
                    v = r.choice([None, v])
                else:
                    v = MARK
                    if L.cells == 'typed' and c == 'tags':
                        v = '{' + MARK + '}'
                    if c == 'raw' and L.cells == 'typed':
                        v = '\\x' + MARK.encode().hex()
                    if c == 'doc' and L.cells == 'typed':
                        row[c] = MARK
                        continue
            if v is None:
                continue
            if c == 'doc' and L.cells == 'typed':
                row[c] = json.loads(v)
            else:
                row[c] = v
        if listed or r.random() < 0.1 and self.mode == 'list' and e['key'] is not None:
            row['__unchanged'] = listed
        return {'op': op, 'row': row}

    def gone_in(self, changed, allowed=True):
        if self.mode in ('full',) or not allowed:
            return []
        return [c for c in COLUMNS if c not in changed and c != 'n' and self.rng.random() < 0.6]

    def make(self):
        r, L = self.rng, self.layout
        self.start_positions()
        rows = {}
        self.initial = {}
        if self.snapshots or self.prefill:
            for k in self.universe:
                if r.random() < 0.5:
                    rows[k] = self.row()
        self.initial = {k: dict(v) for k, v in rows.items()}
        size = r.randint(12, 45)
        self.snap_events = []
        self.log = []
        # Rows without a position that differ have no order: one such snapshot
        # at most. Where events lack values, what stood before the log must be
        # delivered as it was then.
        snapshot_at = []
        if self.snapshots and (self.mode == 'full' or self.prefill):
            unplaced = self.snap == 'none' or self.snap_pos in ('null', 'zero')
            snapshot_at = [r.randint(0, 6) for _ in range(1 if unplaced or r.random() < 0.6 else 2)]
        elif self.snapshots:
            snapshot_at = [0]
        last_pos = [self.epoch, self.head, 0, 0]
        txn = 0
        while True:
            done = len(self.log) >= size
            if txn in snapshot_at or done and self.snapshots and txn < min(snapshot_at):
                for k, v in rows.items():
                    p = {'null': None, 'zero': [0, 0, 0, 0], 'at': list(last_pos)}[self.snap_pos]
                    self.snap_events.append(self.add('r', k, p, v))
            if done:
                break
            txn += 1
            self.next_commit()
            for _ in range(r.choice([1, 1, 2, 3, 5])):
                self.change(rows)
            if self.noise and r.random() < 0.3:
                self.noise_event()
            last_pos = self.last
            if r.random() < 0.5:
                last_pos = last_pos[:2] + ([0, 0] if L.pos != 'num' else [last_pos[2], 0])
        self.source = rows

    def change(self, rows):
        r = self.rng
        k = r.choice(self.universe)
        emit = lambda *a, **kw: self.log.append(self.add(*a, **kw))
        if k not in rows:
            p = self.last = self.next_pos()
            rows[k] = self.row()
            emit('c', k, p, rows[k])
            return
        what = r.random()
        before = dict(rows[k])
        free = [x for x in self.universe if x not in rows]
        if what < 0.28:
            p = self.last = self.next_pos()
            del rows[k]
            emit('d', k, p, before if r.random() < 0.6 else None)
        elif what < 0.45 and free:
            to = r.choice(free)
            changed = [c for c in COLUMNS if r.random() < 0.3]
            after = dict(before)
            for c in changed:
                after[c] = self.value(c)
            del rows[k]
            rows[to] = after
            how = r.choice(self.moves)
            p = self.last = self.next_pos()
            if how == 'old':
                emit('u', to, p, after, old=k, gone=self.gone_in(changed))
            elif how == 'split':
                emit('d', k, p, before if r.random() < 0.5 else None)
                p = self.last = self.next_pos()
                emit('c', to, p, after)
            else:
                emit('-U', k, p, before)
                emit('+U', to, p, after)
        else:
            changed = [c for c in COLUMNS if r.random() < 0.35]
            after = dict(before)
            for c in changed:
                after[c] = self.value(c)
            rows[k] = after
            p = self.last = self.next_pos()
            if self.pairs and r.random() < 0.6:
                emit('-U', k, p, before)
                emit('+U', k, p, after, gone=self.gone_in(changed, self.wild_pairs))
            else:
                emit('u', k, p, after, gone=self.gone_in(changed))

    def noise_event(self):
        r, L = self.rng, self.layout
        what = r.choice(['m', 'null', 'nullkey', 'B'])
        if what == 'm' and L.op != 'integer':
            self.log.append(self.add('m', r.choice([None, r.choice(self.universe)]),
                                     r.choice([None, list(self.last)]), None))
        elif what == 'B' and L.op != 'integer':
            self.log.append(self.add('m', None, r.choice([None, list(self.last)]), None, raw_op=[r.choice('BC')]))
        else:
            self.log.append(self.add('m', None if what == 'nullkey' else r.choice(self.universe), None, None,
                                     raw_op=[None]))

    # The deliveries

    def poison(self, call):
        """An event that, added to the call, must make it fail (a tie perhaps not)."""
        r, L = self.rng, self.layout
        key = r.choice(self.universe)
        pos = self.last
        what = r.choice(['op', 'key', 'pos', 'tie', 'tie'])
        if what == 'op' and L.op != 'char':
            op = '8' if L.op == 'integer' else r.choice(['x', 'upd', '5', '', 'TRUE'])
            return self.add('u', key, pos, self.row(), poison=True, raw_op=[op])
        if what == 'key':
            return self.add('c', None, pos, self.row(), poison=True)
        if what == 'pos':
            p = [0, 0, 3, 0] if L.kind == 'lsn' and r.random() < 0.5 and L.pos == 'lsn' else None
            return self.add(r.choice('cud'), key, p, self.row(), poison=True)
        ups = [e for e in (self.events[i] for i in call) if e['op'] in 'cu' and e['key'] and not e['poison']]
        if not ups:
            return None
        e = r.choice(ups)
        if self.on_tie == 'upsert':
            return self.add('d', e['key'], e['pos'], None, poison=True)
        vals = dict(e['vals'])
        vals['n'] = str(int(vals['n'] or 0) + 1)
        return self.add('u', e['key'], e['pos'], vals, old=e['old'], gone=e['gone'], poison=True)

    def cut(self, items, few=False):
        r = self.rng
        calls, i = [], 0
        while i < len(items):
            n = r.choice([1, 2, 3, 5, 8, 13, 21] if not few else [8, 13, 21, 34, 55])
            calls.append(items[i:i + n])
            i += n
        return calls

    def make_deliveries(self):
        r = self.rng
        order = self.snap_events + self.log
        plans = []
        full = self.mode == 'full'
        for kind in r.sample(['log', 'one', 'replay', 'shuffle', 'reverse', 'duplicate'], 3 if full else 4):
            faithful = full or kind in ('log', 'one', 'replay')
            items = list(order)
            if kind == 'log':
                calls = self.cut(items)
            elif kind == 'one':
                calls = [items * r.choice([1, 2])]
            elif kind == 'replay':
                calls = []
                for c in self.cut(items):
                    calls.append(c)
                    if r.random() < 0.25:
                        a = r.randint(0, len(items) - 1)
                        done = sum((x for x in calls), [])
                        calls.append(done[a % len(done):][:r.randint(1, 20)])
                calls.append(items)
            elif kind == 'shuffle':
                r.shuffle(items)
                calls = self.cut(items)
            elif kind == 'reverse':
                calls = self.cut(items[::-1])
            else:
                items += r.choices(order, k=len(order) // 2)
                r.shuffle(items)
                calls = self.cut(items, few=True) + [r.choices(order, k=10)]
            out = []
            for c in calls:
                c = list(c)
                if c and r.random() < 0.3:
                    c += r.choices(c, k=r.randint(1, 3))
                r.shuffle(c)
                if r.random() < 0.06:
                    p = self.poison(c)
                    if p is not None:
                        bad = c + [p]
                        r.shuffle(bad)
                        out.append(bad)
                out.append(c)
            plans.append({'kind': kind, 'faithful': faithful,
                          'calls': [self.call(c) for c in out],
                          'commits': r.random() < 0.5})
        return plans

    def call(self, eids):
        r = self.rng
        return {'e': eids, 'f': [r.randrange(len(self.events[i]['forms'])) for i in eids],
                'dry': r.random() < 0.15, 'bump': r.random() < 0.15}

    # What the machine reads

    def arguments(self):
        out = []
        if self.layout.dead == 'time':
            out.append("tombstone_column => 'deleted_at'")
        if self.mode == 'nulls':
            out.append('ignore_nulls => true')
        if self.mode in ('list', 'mark'):
            out.append("unchanged_column => '__unchanged'")
        if self.snap_arg:
            out.append("snapshot_position => '%s'" % self.snap_arg)
        if self.on_tie != 'error':
            out.append("on_tie => '%s'" % self.on_tie)
        if self.unav:
            out.append("on_unavailable => '%s'" % self.unav)
        if self.decoys:
            out.append("staging_filter => 'op::text IS DISTINCT FROM ''9'''")
        if self.keep:
            out.append("on_same_position => 'keep'")
        if self.consume:
            out.append("consume => 'delete'")
        return out

    def to_load(self):
        events = []
        for e in self.events:
            k, o = e['key'], e['old']
            events.append({'eid': e['eid'], 'ka': k and k[0], 'kb': k and k[1], 'oa': o and o[0], 'ob': o and o[1],
                           'pos': e['pos'], 'vals': e['vals'], 'gone': e['gone'], 'forms': e['forms']})
        return {'setting': {'kind': self.layout.kind, 'snap': self.snap, 'on_tie': self.on_tie,
                            'unav': self.unav or 'error', 'nulls': self.mode == 'nulls', 'defaults': DEFAULTS},
                'events': events}

    def first_rows(self):
        if not self.prefill:
            return []
        L, out = self.layout, []
        for (ka, kb), vals in sorted(self.initial.items()):
            row = dict(vals, own=42)
            if row['doc'] is not None:
                row['doc'] = json.loads(row['doc'])
            row.update(L.key_row((ka, kb)))
            if L.dead == 'flag':
                row['deleted'] = False
            out.append({'ka': ka, 'kb': kb, 'vals': vals, 'row': row})
        return out

    def source_rows(self):
        return [{'ka': k[0], 'kb': k[1], 'vals': v} for k, v in sorted(self.source.items())]

    def to_play(self, plan, call):
        faithful = plan['faithful'] and not self.wild_pairs
        return {'call': call, 'consume': self.consume, 'decoys': self.decoys, 'first': self.first_rows(),
                'bump': 'UPDATE target SET own = own + 1 WHERE ' + self.layout.is_live,
                'source': self.source_rows() if faithful else None,
                'final': self.mode == 'full', 'commits': plan['commits'], 'caught': not plan['commits'],
                'calls': plan['calls']}
