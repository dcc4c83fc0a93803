"""The aggregate and the type: what picking a value and ordering positions cost."""
import shapes
from harness import connect, drop_templates, restore, template, timed
from shapes import draw

# ------------------------------------------------------------ latest_by_position

FORMS = ('latest', 'D', 'R', 'A')
# for context: what grouping itself costs, with an aggregate of the server that picks a value of the same column
FLOOR = 'max'
FORM_NAMES = {'latest': 'latest_by_position', 'D': 'DISTINCT ON', 'R': 'ROW_NUMBER', 'A': '(array_agg(.. ORDER BY ..))[1]'}


def pick(form, table, columns, whole):
    """A query for the newest of each key: columns of a row, or the whole row taken apart."""
    newest = 'source_lsn DESC, source_ordinal DESC'
    names = ', '.join(columns)
    if form == FLOOR:
        return 'SELECT id, max(%s) AS %s FROM %s GROUP BY id' % (names, names, table)
    if form == 'D':
        return 'SELECT DISTINCT ON (id) id, %s FROM %s ORDER BY id, %s' % (names, table, newest)
    if form == 'R':
        return ('SELECT id, %s FROM (SELECT id, %s, row_number() OVER (PARTITION BY id ORDER BY %s) AS place FROM %s) r '
                'WHERE place = 1' % (names, names, newest, table))
    one = {'latest': 'latest_by_position(%s, source_position)', 'A': '(array_agg(%%s ORDER BY %s))[1]' % newest}[form]
    if not whole:
        return 'SELECT id, %s AS %s FROM %s GROUP BY id' % (one % names, names, table)
    return 'SELECT id, %s FROM (SELECT id, %s AS e FROM %s c GROUP BY id) x' % (
        ', '.join('(e).%s AS %s' % (c, c) for c in columns), one % 'c', table)


def agg(b):
    shape = shapes.plain()
    setup = shape.create_target('c') + shape.create_staging('c')
    for keys, name in ((100, 'few'), (b.n(340e3), 'many')):
        for layout in 'cp':
            setup += shape.create_staging(layout, '%s_%s' % (name, layout))
            setup += shape.fill_staging(layout, b.n(1e6), keys, keys, '%s_%s' % (name, layout), deletes=0)
    name = template(b, 'bench_agg', setup + ['VACUUM ANALYZE'])
    restore(name)
    forms = list(FORMS)
    b.note('agg: %d events, %d rounds' % (b.n(1e6), b.rounds))
    values = [c.name for c in shape.columns]
    for keys, label in (('few', '100 keys'), ('many', 'many keys')):
        for whole in (False, True):
            columns = values if whole else ['note']
            for workers in (0, 2):
                piece = 'pick %s, %s%s' % ('rows' if whole else 'a column', label, ', 2 workers' if workers else '')
                found = set()
                for r, form in b.turns(forms + ([] if whole else [FLOOR])):
                    query = pick(form, '%s_%s' % (keys, 'c' if form == 'latest' else 'p'), columns, whole)
                    s = connect(options='-c max_parallel_workers_per_gather=%d' % workers)
                    b.record(piece, form, timed(s, 'SELECT count(id), %s FROM (%s) q' % (
                        ', '.join('count(%s)' % c for c in columns), query)))
                    if r == 0 and form != FLOOR:
                        found.add(s.value('SELECT count(*) || \' \' || sum(hash_record_extended(ROW(id, %s), 0)) FROM (%s) q'
                                          % (', '.join(columns), query)))
                    s.close()
                b.verdict(len(found) == 1, '%s: all forms find the same in %s' % (piece, ', '.join(sorted(found))))
    drop_templates(b, name)


# ------------------------------------------------------------ cdc_position

# what a position is stored as, and what it is made of
TABLES = {
    'cdc': ('cdc_position', 'cdc_position({lsn})'),
    'lsn': ('pg_lsn', '{lsn}'),
    'bigint': ('bigint', "(({lsn}) - '0/0'::pg_lsn)::bigint"),
    'cdc, ordinal': ('cdc_position', 'cdc_position({lsn}, {ordinal})'),
    'lsn, ordinal': ('pg_lsn, ordinal bigint', '{lsn}, {ordinal}'),
}


def position(b):
    rows = b.n(2e6)
    # the log's order has nothing to do with the table's
    e = '(%s)' % draw(21, 1 << 40)
    setup = shapes.plain().create_target('c') + shapes.plain().create_staging('c')
    tables = {}
    for name, (kind, value) in TABLES.items():
        table = tables[name] = 'pos_' + name.replace(', ', '_')
        lsn = "('1/0'::pg_lsn + {0} * 8)".format(e) if 'ordinal' not in name else "('1/0'::pg_lsn + {0} / 8 * 64)".format(e)
        setup += ['CREATE TABLE %s (id bigint, payload text, pos %s)' % (table, kind),
                  "INSERT INTO %s SELECT e, 'payload of row ' || e || repeat('.', 40), %s FROM generate_series(1::bigint, %d) e" % (
                      table, value.format(lsn=lsn, ordinal='%s %% 8' % e), rows)]
    name = template(b, 'bench_position', setup + ['VACUUM ANALYZE'])
    restore(name)
    b.note('position: %d rows, %d rounds' % (rows, b.rounds))
    orders = {n: 'pos, ordinal' if n == 'lsn, ordinal' else 'pos' for n in tables}
    sort = 'SELECT %s FROM (SELECT %s FROM %s ORDER BY %s OFFSET 0) x'
    pieces = {
        'sort rows': (lambda t, o: sort % ('count(id), count(payload), count(pos)', 'id, payload, ' + o, t, o), '1GB'),
        'sort rows on disk': (lambda t, o: sort % ('count(id), count(payload), count(pos)', 'id, payload, ' + o, t, o), '16MB'),
        'sort positions': (lambda t, o: sort % ('count(pos)', o, t, o), '1GB'),
        'build an index': (lambda t, o: 'CREATE INDEX bench_index ON %s (%s)' % (t, o), '1GB'),
    }
    for piece, (query, mem) in pieces.items():
        for _, n in b.turns(list(tables)):
            s = connect(options='-c max_parallel_workers_per_gather=0 -c max_parallel_maintenance_workers=0 -c work_mem=' + mem)
            b.record(piece, n, timed(s, query(tables[n], orders[n])))
            s.run('DROP INDEX IF EXISTS bench_index')
            s.close()
    s = connect()
    # each table's own order must be that of the numbers it was made from
    wrong = [n for n in tables if s.value(
        'SELECT count(*) FROM (SELECT {e} AS k, lag({e}) OVER (ORDER BY {o}) AS p FROM {t} r (e)) x WHERE p > k'.format(
            e=e if 'ordinal' not in n else '%s / 8 * 8 + %s %% 8' % (e, e), o=orders[n], t=tables[n])) != '0']
    s.close()
    b.verdict(not wrong, 'position: every table sorts as its numbers do' + (', but ' + ', '.join(wrong) if wrong else ''))
    drop_templates(b, name)
