"""The competitors: what a good engineer writes in plain SQL, and the limit.

Each is a list of statements that run in one transaction. All of them pick the
newest event per key in the batch and write it only over an older row, deletes
included, except P5, which is what dbt's delete+insert does and is not safe: it
believes every batch. L writes winners that are known in advance, in key order:
no apply can do with less.
"""
from shapes import newest_first

NAMES = {
    'cdc': 'cdc_apply',
    'P1': 'INSERT .. ON CONFLICT from DISTINCT ON',
    'P2': 'MERGE from DISTINCT ON',
    'P3': 'MERGE from ROW_NUMBER',
    'P4': 'guarded UPDATE .. FROM, then INSERT .. WHERE NOT EXISTS',
    'P5': "dbt's delete+insert (not safe)",
    'L': 'the limit: one scan of staging, and the winners, known in advance',
}
PEERS = ['P1', 'P2', 'P3', 'P4']


class Sql:
    """The statements for one shape and layout."""

    def __init__(self, shape, layout, staging='staging'):
        self.s, self.staging = shape, staging
        self.position = shape.position(layout)
        self.flag = ['deleted'] if shape.home == 'row' else []
        self.all = [c.name for c in shape.keys + shape.columns] + self.position
        self.same = self.match('t', 's')
        self.newer = '(%s) > (%s)' % (', '.join(shape.position(layout, 's')), ', '.join(shape.position(layout, 't')))
        self.order = '%s, %s' % (shape.key_list, newest_first(shape, layout))
        names = ', '.join(self.all)
        self.distinct = "SELECT DISTINCT ON (%s) %s, op = 'd' AS deleted FROM %s ORDER BY %s" % (
            shape.key_list, names, staging, self.order)
        self.ranked = ("SELECT * FROM (SELECT %s, op = 'd' AS deleted, row_number() OVER (PARTITION BY %s ORDER BY %s) AS place "
                       "FROM %s) r WHERE place = 1" % (names, shape.key_list, newest_first(shape, layout), staging))

    def match(self, a, b):
        return ' AND '.join('%s.%s = %s.%s' % (a, c.name, b, c.name) for c in self.s.keys)

    @property
    def written(self):
        """What an update sets: all but the key."""
        return [c.name for c in self.s.columns] + self.position + self.flag

    def assign(self, source):
        return ', '.join('%s = %s.%s' % (c, source, c) for c in self.written)

    @property
    def names(self):
        return ', '.join(self.all + self.flag)

    def of(self, alias):
        return ', '.join('%s.%s' % (alias, c) for c in self.all + self.flag)

    # ------------------------------------------------ deletes in the row

    def upsert(self, source, extra=''):
        newer = self.newer.replace('s.', 'EXCLUDED.')
        return ('INSERT INTO target AS t (%s) SELECT %s FROM (%s) s %s ON CONFLICT (%s) DO UPDATE SET %s WHERE %s'
                % (self.names, self.of('s'), source, extra, self.s.key_list, self.assign('EXCLUDED'), newer))

    def merge(self, source):
        return ('MERGE INTO target t USING (%s) s ON %s WHEN MATCHED AND %s THEN UPDATE SET %s '
                'WHEN NOT MATCHED THEN INSERT (%s) VALUES (%s)' % (
                    source, self.same, self.newer, self.assign('s'), self.names, self.of('s')))

    def temp(self):
        return ['CREATE TEMP TABLE latest ON COMMIT DROP AS %s' % self.distinct, 'ANALYZE latest']

    def guarded(self):
        """One statement for small batches; a temporary table that is analyzed for large ones."""
        return ['UPDATE target t SET %s FROM latest s WHERE %s AND %s' % (self.assign('s'), self.same, self.newer),
                'INSERT INTO target (%s) SELECT %s FROM latest s WHERE NOT EXISTS (SELECT FROM target t WHERE %s)'
                % (self.names, self.of('s'), self.same)]

    def delete_insert(self):
        return ['DELETE FROM target t USING latest s WHERE %s' % self.same,
                'INSERT INTO target (%s) SELECT %s FROM latest s' % (self.names, self.of('s'))]

    # -------------------------------------- deletes in a table beside it

    def side(self, write):
        """write: the statements that upsert the live part of latest."""
        key = self.s.key_list
        both = key + ', ' + ', '.join(self.position)
        s_both = ', '.join('s.' + c for c in both.split(', '))
        return self.temp() + [
            'DELETE FROM target t USING latest s WHERE s.deleted AND %s AND %s' % (self.same, self.newer),
            'INSERT INTO target_tombstones AS t (%s) SELECT %s FROM latest s WHERE s.deleted AND NOT EXISTS '
            '(SELECT FROM target t WHERE %s) ON CONFLICT (%s) DO UPDATE SET %s WHERE %s' % (
                both, s_both, self.same, key, ', '.join('%s = EXCLUDED.%s' % (c, c) for c in self.position),
                self.newer.replace('s.', 'EXCLUDED.')),
            'DELETE FROM latest s USING target_tombstones t WHERE %s AND NOT %s AND NOT s.deleted' % (self.same, self.newer),
        ] + write + ['DELETE FROM target_tombstones t USING latest s WHERE NOT s.deleted AND %s' % self.same]

    def statements(self, who, small=False):
        if self.s.home == 'side':
            live = 'SELECT * FROM latest WHERE NOT deleted'
            guarded = [q.replace('FROM latest s', 'FROM (%s) s' % live) for q in self.guarded()]
            return {'P1': lambda: self.side([self.upsert(live)]),
                    'P2': lambda: self.side([self.merge(live)]),
                    'P4': lambda: self.side(guarded)}[who]()
        if who == 'P4' and small:
            update, insert = self.guarded()
            return ['WITH latest AS MATERIALIZED (%s), u AS (%s) %s' % (self.distinct, update, insert)]
        return {'P1': lambda: [self.upsert(self.distinct)],
                'P2': lambda: [self.merge(self.distinct)],
                'P3': lambda: [self.merge(self.ranked)],
                'P4': lambda: self.temp() + self.guarded(),
                'P5': lambda: self.temp() + self.delete_insert()}[who]()

    def limit(self):
        """Written by the key alone: a nested loop in the winners' order."""
        out = ['SET LOCAL enable_hashjoin = off', 'SET LOCAL enable_mergejoin = off',
               'SELECT count(%s) FROM %s' % (self.s.columns[-1].name, self.staging)]
        out.append('UPDATE target t SET %s FROM winners_old s WHERE %s' % (self.assign('s'), self.same))
        out.append('INSERT INTO target (%s) SELECT %s FROM winners_new s' % (self.names, self.of('s')))
        return out


def statements(who, shape, layout, staging='staging', small=False, call='', target='target'):
    """What a competitor runs. call: more arguments for cdc_apply."""
    if who.startswith('cdc'):
        return ["SELECT * FROM cdc_apply('%s', '%s'%s)" % (target, staging, call)]
    sql = Sql(shape, layout, staging)
    if who == 'L':
        return sql.limit()
    return sql.statements(who, small)


def script(stmts):
    """One round trip; one transaction, as any string of several statements is."""
    if len(stmts) == 1:
        return stmts[0]
    return 'BEGIN; ' + '; '.join(stmts) + '; COMMIT'
