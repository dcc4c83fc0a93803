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
                       't': ['t', 'truncate', 'T', ' Truncate'],
                       'm': ['m', 'message', 'begin', 'commit', 'M', 'BEGIN']},
              'char': {'c': ['c', 'i', 'C', 'I', '2'], 'u': ['u', 'U', '4'], 'r': ['r', 'R', None],
                       'd': ['d', 'D', '1'], '-U': ['3'], '+U': ['4'], 't': ['t', 'T'], 'm': ['m', 'M']},
              'integer': {'c': ['2'], 'u': ['4', '2'], 'r': [None], 'd': ['1'], '-U': ['3'], '+U': ['4'], 't': ['7'],
                          'm': [None]}}


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

    # A home is one of
    #   free  tombstones in the row, not attached
    #   row   tombstones in the row, attached
    #   side  attached, tombstones in a side table

    def target_ddl(self, home, bare):
        """The target; bare, it lacks what attaching adds."""
        keys = ''.join(f'  {k} {t},\n' for k, t in self.keys)
        cells = ''.join(f'  {c} {TYPES[c]}{"" if DEFAULTS[c] is None else " DEFAULT " + lit(DEFAULTS[c])},\n'
                        for c in COLUMNS)
        pos = '' if bare and self.pos in ('lsn', 'num') else self.position_ddl
        tomb = {'flag': '' if bare else '  deleted boolean NOT NULL DEFAULT false,\n',
                'nullable': '  deleted boolean,\n', 'time': '  deleted_at timestamptz,\n'}[self.dead]
        return (f'CREATE TABLE target (\n{keys}{cells}{pos}{"" if home == "side" else tomb}  own integer DEFAULT 42,\n'
                f'  PRIMARY KEY ({", ".join(k for k, _ in self.keys)})\n);\n')

    @property
    def position_ddl(self):
        return {'lsn': '  source_position cdc_position,\n', 'num': '  source_position cdc_position,\n',
                'lsn2': '  source_lsn pg_lsn,\n  source_ordinal bigint,\n',
                'num2': '  source_lsn numeric,\n  source_ordinal bigint,\n'}[self.pos]

    def staging_ddl(self, names=('staging', 'other_staging')):
        typed = self.cells == 'typed'
        keys = ''.join(f'  {p}{k} {t if typed else "text"},\n' for p in ('', '__old_') for k, t in self.keys)
        cells = ''.join(f'  {c} {TYPES[c].split()[0] if typed else "text"},\n' for c in COLUMNS)
        op = {'text': 'text', 'char': '"char"', 'integer': 'integer'}[self.op]
        return ''.join(f'CREATE TABLE {name} (\n{keys}{cells}{self.position_ddl}  __unchanged {self.gone},\n'
                       f'  op {op}\n);\n' for name in names)

    def state_ddl(self, home, tombstones=None):
        """The view that the test looks at: live rows and remembered deletes."""
        key = (self.keys[0][0] + '::text AS ka, ' + ("''" if self.key == 'one' else 'b') + ' AS kb')
        pos = {'lsn': 'source_position::text', 'num': 'source_position::text',
               # 19 writes all eight digits behind an LSN's slash
               'lsn2': r"regexp_replace(source_lsn::text, '/0+(.)', '/\1') || coalesce(':' || nullif(source_ordinal, 0), '')",
               'num2': "source_lsn::text || coalesce(':' || nullif(source_ordinal, 0), '')"}[self.pos]
        vals = ', '.join(f"'{c}', {c}::text" for c in COLUMNS)
        out = (f'CREATE VIEW state AS\nSELECT {key}, {"true" if home == "side" else self.is_live} AS live,\n'
               f"  nullif({pos}, '0/0') AS pos,\n  jsonb_build_object({vals}) AS vals, own::text AS own,\n"
               f"  ctid::text || '/' || xmin::text AS version\nFROM target")
        if home != 'side':
            return out + ';\n'
        out += (f"\nUNION ALL\nSELECT {key}, false, source_position::text, NULL, NULL,\n"
                f"  't' || ctid::text || '/' || xmin::text\nFROM ")
        if tombstones:
            return out + tombstones + ';\n'
        return ("DO $do$ BEGIN EXECUTE $q$" + out + "$q$ ||\n  (SELECT tombstones FROM cdc_targets "
                "WHERE target = 'target'::regclass);\nEND $do$;\n")

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
        # What needs an attached target, and is played in both of its homes.
        self.attached = r.random() < 0.65
        self.truncates = self.attached and r.random() < 0.45
        self.acts = self.attached and r.random() < 0.75
        self.as_of = self.attached and r.random() < 0.2
        self.reattach = self.acts and r.random() < 0.4
        self.lineage = 'log-a' if self.attached and r.random() < 0.2 else None
        whole = L.pos in ('lsn', 'num')
        self.restart = self.attached and whole and r.random() < 0.25
        self.first_epoch = r.choice([1, 1, 7]) if self.attached and whole and r.random() < (0.6 if self.restart else 0.1) \
            else None
        self.bare = r.random() < 0.3
        self.unav = r.choice(['error', 'null', None])
        self.on_tie = 'upsert' if self.mode == 'full' and r.random() < 0.3 else 'error'
        self.consume = r.random() < 0.25
        self.big = 600 if r.random() < 0.1 else 0
        self.decoys = r.randint(1, 3) if r.random() < 0.2 else 0
        self.keep = r.random() < 0.2
        self.universe = self.make_universe(r.randint(2, 6))
        self.events = []
        self.make()
        self.arrange()
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
        self.epoch = self.first_epoch or 0
        self.subs = self.layout.pos in ('lsn', 'num') and r.random() < 0.3
        if self.layout.kind == 'lsn':
            self.head = r.choice([0x10, 0xF000, 0xFFFFFF00, 0x9FFFFFF00, 0xFFFFFFF80, 0x7FFFFFFFFFFFFF00,
                                  r.getrandbits(40) + 1])
        else:
            self.head = r.choice([0, 8, 98, 999990, 2 ** 63 - 5, 2 ** 64 - 10000, r.getrandbits(40)])
        self.offset = r.choice([4, 95, 10 ** 6])

    def next_commit(self):
        r = self.rng
        if self.restart or self.first_epoch is not None:
            if self.restart and self.epoch == (self.first_epoch or 0) and self.log and r.random() < 0.2:
                self.epoch += 1
                self.head = r.choice([1, max(1, self.head // 3)])
        elif self.layout.pos in ('lsn', 'num') and r.random() < 0.04:
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
        if self.by_epoch:
            # form 0 leaves the epoch to the target, form 1 has it
            e['forms'].append(self.form(e, 1, explicit=True))
        elif self.rng.random() < 0.4:
            e['forms'].append(self.form(e, 1))
        self.events.append(e)
        return eid

    @property
    def by_epoch(self):
        return self.restart or self.first_epoch is not None

    def form(self, e, n, explicit=False):
        r, L = self.rng, self.layout
        if e['raw_op'] is not None:
            op = e['raw_op'][0]
        else:
            names = UPSERT_OPS[L.op][e['op']]
            op = names[0] if n == 0 and r.random() < 0.5 else r.choice(names)
        row = {'op': op if L.op != 'integer' or op is None else int(op)}
        row.update(L.key_row(e['key']))
        old = e['old']
        if old is None and e['key'] is not None and e['op'] in list('crud') and r.random() < 0.2:
            old = e['key']
        row.update(L.key_row(old, '__old_'))
        pos = e['pos']
        if e['op'] == 't' and n and r.random() < 0.5:
            row.update(L.key_row(r.choice(self.universe)))
        if pos is not None:
            if L.pos in ('lsn', 'num'):
                if self.by_epoch and not explicit:
                    pos = [0] + pos[1:]
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
        self.moments = []   # the source's rows, and the position up to which they are complete
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
                if self.truncates and r.random() < 0.06:
                    p = self.last = self.next_pos()
                    rows.clear()
                    self.log.append(self.add('t', None, p, None))
                else:
                    self.change(rows)
            self.moments.append((list(self.last), {k: dict(v) for k, v in rows.items()}))
            if self.noise and r.random() < 0.3:
                self.noise_event()
            last_pos = self.last
            # A snapshot may know more than its position says, but then it is no
            # place to look for what an event did not carry.
            if r.random() < 0.5 and self.mode == 'full':
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
        if what == 'pos' and self.truncates and r.random() < 0.3:
            return self.add('t', None, None, None, poison=True)
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

    def arrange(self):
        """What stands in the target before, how it is attached, and what each call says."""
        r = self.rng
        self.as_of_pos, self.first = None, self.initial if self.prefill else {}
        if self.as_of:
            self.as_of_pos, self.first = r.choice(self.moments)
        self.restarted = self.restart and self.epoch != (self.first_epoch or 0)
        self.homes = ['row', 'side'] if self.attached else r.choice([['free', 'side']] * 3 + [['free', 'row', 'side']])
        self.staging_attached = r.random() < 0.7
        self.staging_named = not self.staging_attached or r.random() < 0.2
        self.recorded = set(name for name, _ in self.arguments() if r.random() < 0.5)
        self.how_row = r.choice(['tombstones', 'column', 'both'])
        self.how_side = r.choice(['', ", tombstones => 'table'", ", tombstones => 'auto'"])
        # the guard lets cdc_apply, purges and untouched positions pass
        self.guard = r.choice([None, None, None, 'skip', 'error'])

    def make_deliveries(self):
        r = self.rng
        full = self.mode == 'full'
        kinds = r.sample(['log', 'one', 'replay', 'shuffle', 'reverse', 'duplicate'], 2 if full else 3)
        if self.acts and r.random() < 0.3:
            kinds[0] = 'purged'
        if not full and any(self.events[i]['op'] == 't' for i in self.log) and r.random() < 0.6:
            kinds[-1] = 'sweep'
        return [self.make_delivery(kind) for kind in kinds]

    def make_delivery(self, kind):
        r = self.rng
        full = self.mode == 'full'
        order = self.snap_events + self.log
        items = list(order)
        ordered = kind in ('log', 'one', 'replay', 'purged')
        purged_at = None
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
        elif kind == 'purged':
            calls = self.cut(items, few=True)
            purged_at = len(calls)
            calls += self.cut(items)
        elif kind == 'sweep':
            calls = self.sweep() + self.cut(items)
        elif kind == 'shuffle':
            r.shuffle(items)
            calls = self.cut(items)
        elif kind == 'reverse':
            calls = self.cut(items[::-1])
        else:
            items += r.choices(order, k=len(order) // 2)
            r.shuffle(items)
            calls = self.cut(items, few=True) + [r.choices(order, k=10)]
        if self.snap_events and r.random() < 0.3:
            # a snapshot that comes again
            calls.insert(r.randint(1, len(calls)) if full and kind != 'purged' else len(calls), list(self.snap_events))
        new_epoch = None
        if self.restarted:
            calls, new_epoch = self.restart_log(calls, ordered)
            purged_at = None
        plan = {'kind': kind, 'faithful': full or ordered, 'commits': r.random() < 0.5, 'calls': []}
        # now and then the owner does not keep what he promises; the counts are still known
        plan['broken'] = self.acts and kind != 'purged' and r.random() < 0.25
        if plan['broken']:
            plan['faithful'] = False
        now = {'epoch': self.first_epoch or 0, 'lineage': self.lineage, 'fence': [], 'floor': self.as_of_pos or [],
               'purged': False}
        done = set()
        for n, c in enumerate(calls):
            c = list(c)
            acts = []
            if n == new_epoch:
                acts.append(self.new_epoch(now))
            if n == purged_at:
                acts += self.purge_all(done)
            elif self.acts and (n or r.random() < 0.3) and r.random() < 0.35:
                acts += [a for a in (self.act(plan, now, done) for _ in range(r.choice([1, 1, 2]))) if a]
            if c and r.random() < 0.3:
                c += r.choices(c, k=r.randint(1, 3))
            r.shuffle(c)
            some = []
            if r.random() < 0.06:
                p = self.poison(c)
                if p is not None:
                    bad = c + [p]
                    r.shuffle(bad)
                    some.append(self.call(bad, now))
            if r.random() < 0.04:
                some.append(self.refused_call(c, now))
            some.append(self.call(c, now))
            some[0]['acts'] = acts
            plan['calls'] += some
            done.update(c)
            now['fence'] = max([now['fence']] + [self.events[i]['pos'] for i in c if self.events[i]['op'] == 't'])
        if new_epoch == len(calls):
            acts = [self.new_epoch(now)]
            plan['calls'].append(dict(self.call([], now), acts=acts))
        return plan

    def sweep(self):
        """What lacks values, in one call with a truncate or with what the truncate swept away."""
        r = self.rng
        t = r.choice([i for i in self.log if self.events[i]['op'] == 't'])
        before = [i for i in self.log if i < t]
        after = [i for i in self.log if i > t and self.events[i]['gone']]
        after = r.sample(after, min(len(after), 3))
        return r.choice([[before, [t] + after], [[t], before + after], [before + [t] + after]])

    # A replay after the tombstones went

    def can_resurrect(self):
        """Keys that the first half of the log leaves live and the source does not have.

        None where the history does not lend itself: what a truncate, a floor or
        the log's restart say holds without tombstones.
        """
        if not self.attached or self.mode != 'full' or self.truncates or self.as_of or self.restarted:
            return None
        live = set()
        for i in self.snap_events + self.first_half():
            e = self.events[i]
            if e['op'] == 'm' or e['op'] == 'r' and (self.snap != 'none' or self.prefill):
                continue
            live.discard(e['old'])
            if e['op'] in ('d', '-U'):
                live.discard(e['key'])
            else:
                live.add(e['key'])
        return live - set(self.source)

    def first_half(self):
        return self.log[:len(self.log) // 2]

    def replay_plan(self, by_hand):
        """The whole log; then its tombstones are purged, or deleted by hand; then its first half again."""
        now = {'epoch': self.first_epoch or 0, 'lineage': self.lineage}
        again = [c for half in (self.first_half(), self.log) for c in self.cut(half)] if not by_hand \
            else self.cut(self.first_half())
        acts = [self.hand_delete()] if by_hand else self.purge_all(set(self.snap_events + self.log))
        calls = [self.call(self.snap_events + self.log, now)] + [self.call(c, now) for c in again]
        calls[1]['acts'] = acts
        return {'kind': 'replay', 'faithful': True, 'broken': by_hand, 'commits': False, 'calls': calls}

    # The log that restarts

    def later(self, eid):
        pos = self.events[eid]['pos']
        return pos is not None and pos[0] > (self.first_epoch or 0)

    def restart_log(self, calls, ordered):
        """The calls, and before which of them the owner begins the new epoch.

        From then on events of the old log can be told only if they have an epoch
        of their own to say.
        """
        r = self.rng
        if ordered and len(calls) > 1:
            at = next((n for n, c in enumerate(calls) if any(self.later(i) for i in c)), len(calls))
            if at < len(calls):
                c = calls[at]
                calls = calls[:at] + [[i for i in c if not self.later(i)], [i for i in c if self.later(i)]] + calls[at + 1:]
                at += 1
        elif ordered:
            at = len(calls)
        else:
            at = r.randint(0, len(calls))
        if self.first_epoch is None:
            done = set(sum(calls[:at], []))
            missing = [i for i in dict.fromkeys(sum(calls[at:], [])) if not self.later(i) and i not in done]
            calls = calls[:at] + ([missing] if missing else []) + [[i for i in c if self.later(i)] for c in calls[at:]]
            at += bool(missing)
        if r.random() < 0.2:
            # the new log's events say their epoch, the target is not told
            return calls, None
        return calls, at

    def new_epoch(self, now):
        now['epoch'] += 1
        arg = ''
        if self.lineage and self.rng.random() < 0.5:
            now['lineage'] = 'log-b'
            arg = ", 'log-b'"
        return {'kind': 'none', 'what': 'new epoch', 'epoch': True, 'sql': "SELECT cdc_new_epoch('target'%s)" % arg, 'value': str(now['epoch'])}

    # What an owner does between calls

    def placed(self, eid):
        """The position that an event is weighed by."""
        e = self.events[eid]
        if e['pos'] is None or self.layout.kind == 'lsn' and e['pos'][1] == 0 or e['op'] == 'r' and self.snap == 'none':
            return None
        return e['pos']

    def safe(self, done):
        """Positions up to which all was delivered."""
        low = None
        for i in self.snap_events + self.log:
            p = self.placed(i)
            if i in done or self.events[i]['op'] == 'm' or self.as_of and (p is None or p <= self.as_of_pos):
                continue
            if p is None:
                return []
            low = p if low is None else min(low, p)
        return sorted(p for p in self.told(done) if low is None or p < low)

    def told(self, done):
        return [self.events[i]['pos'] for i in sorted(done) if self.events[i]['op'] not in 'mr']

    def literal(self, pos):
        return lit(print_pos(self.layout.kind, pos))

    def purge_all(self, done):
        safe = self.safe(done)
        return [self.purge(safe[-1])] if safe else []

    def purge(self, pos, max_rows=None, force=False):
        sql = "SELECT cdc_purge_tombstones('target', up_to => %s" % self.literal(pos)
        if max_rows is not None:
            sql += ', max_rows => %d' % max_rows
        if force:
            sql += ', force => true'
        return {'kind': 'purge' if max_rows is None else 'purge some', 'what': 'purge', 'pos': pos, 'sql': sql + ')',
                'max_rows': max_rows, 'force': force}

    def act(self, plan, now, done):
        r, L = self.rng, self.layout
        whole = L.pos in ('lsn', 'num')
        choices = ['purge'] * 4 + ['some'] * 2 + ['above', 'young', 'fence', 'floor', 'epoch']
        if self.reattach:
            choices += ['again', 'again']
        if plan['broken']:
            choices += ['early', 'early', 'any fence', 'any fence', 'any floor', 'no fence', 'no fence', 'drop', 'hand']
        what = r.choice(choices)
        safe, told = self.safe(done), self.told(done)
        any_pos = r.choice([self.events[i]['pos'] for i in self.log if self.events[i]['op'] != 'm'])
        pos = None
        if safe:
            pos = safe[-1] if r.random() < 0.7 else r.choice(safe)
        if what in ('purge', 'some', 'early'):
            if what == 'early' and told:
                pos = r.choice(told)
            if pos is None:
                return None
            now['fence'] = max(now['fence'], pos)
            now['purged'] = True
            return self.purge(pos, r.choice([0, 1, 1, 2, 3]) if what == 'some' else None, r.random() < 0.2)
        if what == 'above':
            return self.purge([now['epoch'] + 9, 2 ** 40, 0, 0] if whole else [0, 2 ** 64 - 1, 0, 0])
        if what == 'young':
            return {'kind': 'none', 'what': what, 'sql': "SELECT cdc_purge_tombstones('target', older_than => '1 day')", 'value': '0',
                    'refused': {'row': '55000'} if L.dead != 'time' else None}
        if what in ('fence', 'any fence'):
            if what == 'any fence':
                pos = any_pos
            if pos is None or pos < now['fence']:
                return None
            now['fence'] = pos
            return self.mark('fence', pos)
        if what == 'any floor':
            return self.mark('floor', r.choice([None, any_pos, any_pos]))
        if what == 'floor':
            if pos is None or plan['broken'] or pos < now['floor']:
                return None
            now['floor'] = pos
            return self.mark('floor', pos)
        if what == 'no fence':
            # where a key is dead by the fence alone, the homes remember different things
            if self.truncates or now['purged']:
                return None
            lower = sorted(p for p in told if p < now['fence'])
            now['fence'] = r.choice(lower) if lower and r.random() < 0.5 else []
            return self.mark('fence', now['fence'] or None)
        if what == 'epoch':
            if not whole:
                return {'kind': 'none', 'what': what, 'sql': "SELECT cdc_new_epoch('target')", 'refused': '55000'}
            if not self.staging_attached:
                return None
            return {'kind': 'none', 'what': what, 'statements': "INSERT INTO staging DEFAULT VALUES; SELECT cdc_new_epoch('target')",
                    'refused': '55000'}
        if what == 'again':
            as_of = r.choice(safe) if safe and not plan['broken'] and r.random() < 0.6 else None
            if as_of:
                now['floor'] = max(now['floor'], as_of)
            if r.random() < 0.3:
                # attached again as it is: what is not named stays
                more = ', as_of => ' + self.literal(as_of) if as_of else ''
                return {'kind': 'as_of' if as_of else 'none', 'what': what, 'pos': as_of,
                        'sql': "SELECT cdc_attach('target'%s)" % more}
            return {'kind': 'as_of' if as_of else 'none', 'what': what, 'pos': as_of, 'statements': {
                h: "SELECT cdc_detach('target'); " + self.attach(h, as_of=as_of) for h in self.homes}}
        if what == 'drop':
            return {'kind': 'forget', 'what': what, 'statements': {
                h: "DROP VIEW state; SELECT cdc_detach('target', true); " + self.attach(h) + L.state_ddl(h)
                for h in self.homes}}
        return self.hand_delete()

    def hand_delete(self):
        return {'kind': 'forget', 'what': 'hand', 'statements': {
            'row': 'SET cdc_precedence.bypass_guard = on; DELETE FROM target WHERE NOT (%s); '
                   'RESET cdc_precedence.bypass_guard' % self.layout.is_live, 'side': "DO $do$ BEGIN EXECUTE 'DELETE FROM ' ||\n  (SELECT tombstones FROM cdc_targets "
                    "WHERE target = 'target'::regclass);\nEND $do$"}}

    def mark(self, kind, pos):
        return {'kind': kind, 'what': kind, 'pos': pos, 'sql': "SELECT cdc_set_%s('target', %s)" % (
            kind, 'NULL' if pos is None else self.literal(pos))}

    # Calls

    def call(self, eids, now):
        r = self.rng
        forms = []
        for i in eids:
            e = self.events[i]
            if self.by_epoch and self.placed(i) is not None:
                may = [0] * (e['pos'][0] == now['epoch']) + [1] * (e['pos'][0] != 0 or now['epoch'] == 0)
                forms.append(r.choice(may))
            else:
                forms.append(r.randrange(len(e['forms'])))
        more = self.lineage_argument(now)
        if r.random() < 0.05:
            more += ', expect_events => %d' % len(eids)
        return {'e': eids, 'f': forms, 'dry': r.random() < 0.15, 'bump': r.random() < 0.15, 'with': more}

    def lineage_argument(self, now):
        if self.lineage and (not self.staging_attached or self.rng.random() < 0.3):
            return ', lineage => ' + lit(now['lineage'])
        return ''

    def refused_call(self, eids, now):
        c = self.call(eids, now)
        if self.rng.random() < 0.5:
            return dict(c, refused='22023', **{'with': '%s, expect_events => %d' % (
                self.lineage_argument(now), len(eids) + 1)})
        return dict(c, refused='55000', **{'with': ", lineage => 'another log'"})

    # What the machine reads

    def arguments(self):
        out = []
        if self.mode == 'nulls':
            out.append(('ignore_nulls', 'true'))
        if self.mode in ('list', 'mark'):
            out.append(('unchanged_column', "'__unchanged'"))
        if self.snap_arg:
            out.append(('snapshot_position', lit(self.snap_arg)))
        if self.on_tie != 'error':
            out.append(('on_tie', lit(self.on_tie)))
        if self.truncates and self.layout.op == 'integer':
            out.append(('op_map', lit('{"7": "truncate"}')))
        if self.unav:
            out.append(('on_unavailable', lit(self.unav)))
        if self.decoys:
            out.append(('staging_filter', lit("op::text IS DISTINCT FROM '9'")))
        if self.keep:
            out.append(('on_same_position', "'keep'"))
        if self.consume:
            out.append(('consume', "'delete'"))
        return out

    def attach(self, home, as_of=None, first=False):
        """The statement that attaches the target in that home."""
        L = self.layout
        args = ["'target'"] + (["'staging'"] if self.staging_attached else [])
        args += ['%s => %s' % a for a in self.arguments() if a[0] in self.recorded]
        if home == 'row':
            if L.dead == 'time' or self.how_row != 'tombstones':
                args.append("tombstone_column => '%s'" % L.tomb)
            if self.how_row != 'column':
                args.append("tombstones => 'row'")
        elif self.how_side:
            args.append(self.how_side[2:])
        if self.guard:
            args.append('guard => ' + lit(self.guard))
        if as_of:
            args.append('as_of => ' + self.literal(as_of))
        if first and self.lineage:
            args.append('lineage => ' + lit(self.lineage))
        if first and self.first_epoch is not None:
            args.append('epoch => %d' % self.first_epoch)
        return 'SELECT cdc_attach(%s);\n' % ', '.join(args)

    def apply_call(self, home, staging='staging', rush=False):
        args = ["'target'"]
        if home == 'free' or self.staging_named or staging != 'staging':
            args.append(lit(staging))
        if home == 'free' and self.layout.dead == 'time':
            args.append("tombstone_column => 'deleted_at'")
        args += ['%s => %s' % a for a in self.arguments() if home == 'free' or a[0] not in self.recorded]
        if rush and self.lineage:
            args.append('lineage => ' + lit(self.lineage))
        return 'SELECT * FROM cdc_apply(%s, dry_run => @dry@@with@)' % ', '.join(args)

    def home(self, home, **how):
        L = self.layout
        target = L.target_ddl(home, self.bare and home != 'free')
        out = {'name': home, 'schema': '%s_%s' % (L.name, home),
               'bump': 'UPDATE target SET own = own + 1' + (' WHERE ' + L.is_live if home != 'side' else ''),
               'reset': 'DROP VIEW IF EXISTS state; DROP TABLE IF EXISTS target;\n' + target,
               'attach': '', 'marks': None, 'call': self.apply_call(home, **how)}
        if home != 'free':
            out['attach'] = self.attach(home, self.as_of_pos, first=True)
            out['marks'] = ("SELECT jsonb_build_object('fence', fence::text, 'floor', floor::text) FROM cdc_targets "
                            "WHERE target = 'target'::regclass")
        out['attach'] += L.state_ddl(home)
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
        L, out = self.layout, []
        for (ka, kb), vals in sorted(self.first.items()):
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

    def to_play(self, plan, homes=None, **how):
        faithful = plan['faithful'] and not self.wild_pairs
        return {'homes': [self.home(h, **how) for h in homes or self.homes], 'consume': self.consume,
                'decoys': self.decoys, 'first': self.first_rows(), 'as_of': self.as_of_pos,
                'source': self.source_rows() if faithful else None,
                'final': self.mode == 'full' and not plan['broken'], 'commits': plan['commits'],
                'caught': not plan['commits'], 'calls': plan['calls']}
