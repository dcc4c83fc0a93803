"""What rows look like: target, staging and the events in it, as SQL.

A shape has key columns and value columns, each made from numbers: k, the key's
number, and e, the event's number in the source's log. A target stores where
its row came from in one of two layouts: 'c', a cdc_position column, or 'p', a
pg_lsn and a bigint ordinal, which is what plain SQL would use. Deleted rows
stay, flagged, or, in the side home, leave for a table of tombstones.
"""
from collections import namedtuple

Column = namedtuple('Column', 'name type value')

# positions: three changes share a commit, 64 bytes of log apart
LSN = "'1/0'::pg_lsn + (e / 3) * 64"
ORDINAL = 'e % 3'
# rows that are there from the start are older than every event
OLD_LSN = "'0/1000000'::pg_lsn + k"


def draw(seed, n):
    """An expression: a number below n that e decides and that looks random."""
    return '((hashint8extended(e, %d) & 9223372036854775807) %% %d)' % (seed, n)


def key_number(keys, space):
    """One of keys numbers, spread over 1..space."""
    return '1 + %s * %d / %d' % (draw(10, keys), space, keys)


class Shape:
    def __init__(self, name, keys, columns, home='row', fillfactor=100, partitions=0, indexes=(), layout='c',
                 peer_layout='p', dead_every=0):
        self.dead_every = dead_every
        self.name, self.keys, self.columns, self.home = name, keys, columns, home
        self.fillfactor, self.partitions, self.indexes = fillfactor, partitions, indexes
        self.layout, self.peer_layout = layout, peer_layout

    key_list = property(lambda self: ', '.join(c.name for c in self.keys))
    value_list = property(lambda self: ', '.join(c.name for c in self.columns))
    data_list = property(lambda self: self.key_list + ', ' + self.value_list)

    @staticmethod
    def position(layout, alias=''):
        a = alias + '.' if alias else ''
        return [a + 'source_position'] if layout == 'c' else [a + 'source_lsn', a + 'source_ordinal']

    @staticmethod
    def position_types(layout):
        if layout == 'c':
            return ['source_position cdc_position']
        return ['source_lsn pg_lsn', 'source_ordinal bigint']

    @staticmethod
    def position_value(layout, lsn, ordinal):
        if layout == 'c':
            return 'cdc_position(%s, %s)' % (lsn, ordinal)
        return '%s, %s' % (lsn, ordinal)

    def values(self, columns, k, e):
        """Expressions with k and e put in. They name them as {k} and {e}."""
        return ', '.join(c.value.format(k=k, e=e) for c in columns)

    # ------------------------------------------------------------ tables

    def create_target(self, layout):
        columns = ['%s %s' % (c.name, c.type) for c in self.keys + self.columns] + self.position_types(layout)
        if self.home == 'row':
            columns.append('deleted boolean NOT NULL DEFAULT false')
        with_ = 'WITH (fillfactor = %d)' % self.fillfactor if self.fillfactor != 100 else ''
        if not self.partitions:
            return ['CREATE TABLE target (%s) %s' % (', '.join(columns), with_)]
        out = ['CREATE TABLE target (%s) PARTITION BY HASH (%s)' % (', '.join(columns), self.keys[0].name)]
        for n in range(self.partitions):
            out.append('CREATE TABLE target_%d PARTITION OF target FOR VALUES WITH (MODULUS %d, REMAINDER %d) %s'
                       % (n, self.partitions, n, with_))
        return out

    def fill_target(self, layout, rows):
        """Rows of key numbers 1..rows, in that order; one in dead_every is dead."""
        names = self.data_list + ', ' + ', '.join(self.position(layout))
        values = '%s, %s' % (self.values(self.keys + self.columns, 'k', '0::bigint'),
                             self.position_value(layout, OLD_LSN, '0'))
        where = ''
        if self.dead_every and self.home == 'row':
            names, values = names + ', deleted', values + ', k %% %d = 0' % self.dead_every
        elif self.dead_every:
            where = 'WHERE k %% %d <> 0' % self.dead_every
        return ['INSERT INTO target (%s) SELECT %s FROM generate_series(1::bigint, %d) k %s' % (names, values, rows, where)]

    def fill_tombstones(self, layout, rows):
        if not self.dead_every or self.home == 'row':
            return []
        return ['INSERT INTO target_tombstones (%s, %s, deleted_at) SELECT %s, %s, now() FROM generate_series(1::bigint, %d) k WHERE k %% %d = 0' % (
            self.key_list, ', '.join(self.position(layout)), self.values(self.keys, 'k', '0::bigint'),
            self.position_value(layout, OLD_LSN, '0'), rows, self.dead_every)]

    def finish_target(self, layout):
        out = ['ALTER TABLE target ADD PRIMARY KEY (%s)' % self.key_list]
        out += ['CREATE INDEX ON target (%s)' % i for i in self.indexes]
        if self.home == 'side':
            if layout == 'c':
                out.append("SELECT cdc_attach('target', 'staging', tombstones => 'table')")
            else:
                out.append('CREATE TABLE target_tombstones (%s, %s, deleted_at timestamptz NOT NULL DEFAULT now(), '
                           'PRIMARY KEY (%s))' % (', '.join('%s %s' % (c.name, c.type) for c in self.keys),
                                                  ', '.join(self.position_types(layout)), self.key_list))
        return out

    def create_staging(self, layout, name='staging'):
        columns = ['op text'] + ['%s %s' % (c.name, c.type) for c in self.keys + self.columns]
        return ['CREATE TABLE %s (%s) WITH (autovacuum_enabled = false)' % (
            name, ', '.join(columns + self.position_types(layout)))]

    def select_events(self, layout, events, deletes=5, extra='', order='late'):
        """Events as a query. events is a query that gives e, k and late."""
        dead = '%s < %d' % (draw(11, 100), deletes) if deletes else 'false'
        values = ', '.join('CASE WHEN NOT dead THEN %s END' % c.value.format(k='k', e='e') for c in self.columns)
        return ("SELECT %s CASE WHEN dead THEN 'd' WHEN %s = 0 THEN 'c' ELSE 'u' END, %s, %s, %s "
                "FROM (SELECT *, %s AS dead FROM (%s) y) x ORDER BY %s" % (
                    extra, draw(12, 10), self.values(self.keys, 'k', 'e'), values,
                    self.position_value(layout, LSN, ORDINAL), dead, events, order))

    def fill_staging(self, layout, events, keys, space, name='staging', first=0, deletes=5):
        """That many events of keys drawn from 1..space, one event in ten late."""
        events = int(events)
        late = 'e + CASE WHEN %s = 0 THEN %s ELSE 0 END' % (draw(13, 10), draw(14, max(1, events // 20)))
        query = 'SELECT e, %s AS k, %s AS late FROM generate_series(%d::bigint, %d) e' % (
            key_number(keys, space), late, first, first + events - 1)
        return ['INSERT INTO %s %s' % (name, self.select_events(layout, query, deletes))]

    def winners(self, layout):
        """For the limit: what an apply writes, known in advance, in key order."""
        position = ', '.join(self.position(layout))
        latest = ("SELECT DISTINCT ON (%s) %s, %s, op = 'd' AS deleted FROM staging ORDER BY %s, %s" % (
            self.key_list, self.data_list, position, self.key_list, newest_first(self, layout)))
        same = ' AND '.join('t.%s = w.%s' % (c.name, c.name) for c in self.keys)
        return ['CREATE TABLE winners_new AS SELECT * FROM (%s) w WHERE NOT EXISTS (SELECT FROM target t WHERE %s) '
                'ORDER BY %s' % (latest, same, self.key_list),
                'CREATE TABLE winners_old AS SELECT * FROM (%s) w WHERE EXISTS (SELECT FROM target t WHERE %s) '
                'ORDER BY %s' % (latest, same, self.key_list)]

    # ------------------------------------------------------------ content

    def content(self, layout, source='target'):
        """A row that says what the target holds: live rows, a hash of them, dead keys, a hash of all positions."""
        position = ', '.join(self.position(layout))
        both = self.key_list + ', ' + position
        dead = 'deleted' if self.home == 'row' else 'false'
        query = ('SELECT count(*) FILTER (WHERE NOT {d}), coalesce(sum(hash_record_extended(ROW({data}), 0)) FILTER (WHERE NOT {d}), 0), '
                 'count(*) FILTER (WHERE {d}), coalesce(sum(hash_record_extended(ROW({both}), 0)), 0) FROM {source} t').format(
                     d=dead, data=self.data_list, both=both, source=source)
        if self.home == 'row' or source != 'target':
            return query
        return ('SELECT a.c1, a.c2, b.c1, a.c4 + b.c2 FROM (%s) a (c1, c2, c3, c4), (SELECT count(*), '
                'coalesce(sum(hash_record_extended(ROW(%s), 0)), 0) FROM target_tombstones) b (c1, c2)' % (query, both))

    def expected(self, layout, staging='staging'):
        """The same row, worked out by plain SQL from target and staging as they are before an apply."""
        position = self.position(layout)
        names = self.data_list + ', ' + ', '.join(position)
        same = ' AND '.join('t.%s = w.%s' % (c.name, c.name) for c in self.keys)
        newer = '(%s) > (%s)' % (', '.join(self.position(layout, 'w')), ', '.join(self.position(layout, 't')))
        stored = 'SELECT %s, %s AS deleted FROM target' % (names, 'deleted' if self.home == 'row' else 'false')
        if self.home == 'side':
            nothing = ', '.join('NULL::' + c.type for c in self.columns)
            stored += ' UNION ALL SELECT %s, %s, %s, true FROM target_tombstones' % (
                self.key_list, nothing, ', '.join(position))
        latest = "SELECT DISTINCT ON (%s) %s, op = 'd' AS deleted FROM %s ORDER BY %s, %s" % (
            self.key_list, names, staging, self.key_list, newest_first(self, layout))
        flat = ("SELECT * FROM t WHERE NOT EXISTS (SELECT FROM w WHERE %s AND %s) UNION ALL "
                "SELECT * FROM w WHERE NOT EXISTS (SELECT FROM t WHERE %s AND NOT %s)" % (same, newer, same, newer))
        # content() reads the flag, also where the table has none
        flag = Shape(self.name, self.keys, self.columns)
        return 'WITH t AS (%s), w AS MATERIALIZED (%s) %s' % (stored, latest, flag.content(layout, '(%s)' % flat))


def newest_first(shape, layout):
    return ', '.join(p + ' DESC' for p in shape.position(layout))


VALUES = [
    Column('name', 'text', "'customer ' || {k}"),
    Column('status', 'text', "(ARRAY['new', 'active', 'paused', 'closed'])[1 + ({e} % 4)]"),
    Column('amount', 'numeric(12,2)', '({e} % 100000) / 100.0'),
    Column('quantity', 'integer', '({e} % 1000)::int'),
    Column('changed_at', 'timestamptz', "'2024-01-01 00:00Z'::timestamptz + {e} * interval '1 second'"),
    Column('note', 'text', "'change ' || {e} || ' of customer ' || {k}"),
]
ID = [Column('id', 'bigint', '{k}')]


def plain(**options):
    return Shape('plain', ID, VALUES, **options)


def text_key(**options):
    return Shape('text', [Column('code', 'text', "'cust-' || substr(md5({k}::text), 1, 16)")], VALUES, **options)


def composite_key(**options):
    return Shape('composite', [Column('tenant', 'integer', '({k} / 1000)::int'), Column('branch', 'text', "'b' || ({k} / 10) % 100"),
                               Column('no', 'bigint', '{k}')], VALUES, **options)


def uuid_key(**options):
    return Shape('uuid', [Column('id', 'uuid', 'md5({k}::text)::uuid')], VALUES, **options)


def wide(columns=60, **options):
    """Numbers and texts, and one value in fifteen long enough for TOAST."""
    values = []
    for n in range(columns):
        if n % 15 == 7:
            # md5 does not compress, and every second value stays in line
            long = "(SELECT string_agg(md5({k}::text || i), '') FROM generate_series(1, 70) i)"
            values.append(Column('c%d' % n, 'text', "CASE WHEN ({k} + {e}) % 4 = 0 THEN " + long + " ELSE 'short ' || {e} END"))
        elif n % 3 == 0:
            values.append(Column('c%d' % n, 'bigint', '{e} * %d' % (n + 1)))
        elif n % 3 == 1:
            values.append(Column('c%d' % n, 'text', "'value ' || {k} || '/%d'" % n))
        else:
            values.append(Column('c%d' % n, 'numeric', '({e} %% 1000) / %d.0' % (n + 1)))
    return Shape('wide', ID, values, **options)
