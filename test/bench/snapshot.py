"""Snapshots: cdc_apply_snapshot against the MERGE by row hash that people write.

The target has all rows of the source at some time, the snapshot those of a
later time: some changed, one in a thousand new, one in a thousand gone. H
keeps a hash of each row beside it, hashes the snapshot's rows and writes where
the hashes differ; a row that is gone is deleted, not remembered.
"""
import shapes
from harness import connect, drop_templates, restore, template, timed
from shapes import draw

# changed rows in a thousand
CHANGED = (('snapshot, 0.1 % changed', 1, 'k'), ('snapshot, 5 % changed', 50, 'k'),
           ('snapshot, 5 % changed, in random order', 50, draw(31, 1 << 40).replace('e,', 'k,')),
           ('snapshot, all changed', 1000, 'k'))
AS_OF = '2/0'
COLUMNS = [c.name for c in shapes.VALUES]


def thousandth(seed):
    """A number below 1000 that the key decides."""
    return draw(seed, 1000).replace('(e,', '(k,')


def fill_copy(rows, changed, order):
    shape = shapes.plain()
    values = shape.values(shape.columns, 'k', 'e')
    return ('INSERT INTO copy SELECT k, %s FROM (SELECT k, CASE WHEN %s < %d THEN 7::bigint ELSE 0 END AS e '
            'FROM generate_series(1::bigint, %d) k WHERE k > %d OR %s >= 1) x ORDER BY %s' % (
                values, thousandth(32), changed, rows + rows // 1000, rows, thousandth(33), order))


def hashed(alias):
    return "md5(concat_ws('|', %s))" % ', '.join("coalesce(%s.%s::text, '')" % (alias, c) for c in COLUMNS)


def setup(who, rows, changed, order):
    shape = shapes.plain(home='side')
    out = shape.create_target('c') + shape.create_staging('c') + ['CREATE TABLE copy (id bigint, %s)' % ', '.join(
        '%s %s' % (c.name, c.type) for c in shape.columns)]
    if who == 'H':
        out.append('ALTER TABLE target ADD row_hash text')
        fill = shape.fill_target('c', rows)[0].replace('INSERT INTO target (', 'INSERT INTO target (row_hash, ')
        out.append(fill.replace('SELECT ', 'SELECT %s, ' % hashed('x').replace('x.', ''), 1).replace(
            'FROM generate_series', 'FROM (SELECT k, %s FROM generate_series' % ', '.join(
                '(%s)::%s AS %s' % (c.value.format(k='k', e='0::bigint'), c.type, c.name) for c in shape.columns)) + ') x')
        out.append('ALTER TABLE target ADD PRIMARY KEY (id)')
    else:
        out += shape.fill_target('c', rows) + shape.finish_target('c')
    return out + [fill_copy(rows, changed, order), 'VACUUM ANALYZE']


def statements(who, major):
    if who == 'cdc':
        return "SELECT * FROM cdc_apply_snapshot('target', 'copy', '%s', complete => true)" % AS_OF
    names = ['id'] + COLUMNS + ['row_hash', 'source_position']
    merge = ('MERGE INTO target t USING (SELECT c.*, %s AS row_hash, %r::cdc_position AS source_position FROM copy c) s ON t.id = s.id '
             'WHEN MATCHED AND t.row_hash <> s.row_hash THEN UPDATE SET %s '
             'WHEN NOT MATCHED THEN INSERT (%s) VALUES (%s)' % (
                 hashed('c'), AS_OF, ', '.join('%s = s.%s' % (c, c) for c in names[1:]), ', '.join(names),
                 ', '.join('s.' + c for c in names)))
    if major >= 17:
        return merge + ' WHEN NOT MATCHED BY SOURCE THEN DELETE'
    return 'BEGIN; %s; DELETE FROM target t WHERE NOT EXISTS (SELECT FROM copy s WHERE s.id = t.id); COMMIT' % merge


def content(table):
    return 'SELECT count(*), sum(hash_record_extended(ROW(id, %s), 0)) FROM %s' % (', '.join(COLUMNS), table)


def snapshot(b):
    rows = b.n(5e6)
    for piece, changed, order in CHANGED:
        made = {who: template(b, 'bench_snapshot_' + who.lower(), setup(who, rows, changed, order)) for who in ('cdc', 'H')}
        b.note('%s: %d rows, %d rounds' % (piece, rows, min(b.rounds, 3)))
        right, lean = [], []
        for _, who in b.turns(list(made), min(b.rounds, 3)):
            restore(made[who])
            s = connect()
            b.record(piece, who, timed(s, statements(who, int(s.value('SHOW server_version_num')) // 10000)))
            right.append(s.run(content('target')) == s.run(content('copy')))
            if who == 'cdc':
                # what was not changed stands where it stood
                want = s.value('SELECT count(*) FROM copy WHERE id > %d OR quantity = 7' % rows)
                lean.append(s.value("SELECT count(*) FROM target WHERE source_position = '%s'" % AS_OF) == want)
            s.close()
        b.verdict(all(right), '%s: the target has the rows of the snapshot in %d of %d runs' % (piece, sum(right), len(right)))
        b.verdict(all(lean), '%s: only rows that differ were written in %d of %d runs' % (piece, sum(lean), len(lean)))
        drop_templates(b, *made.values())
