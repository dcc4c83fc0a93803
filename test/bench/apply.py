"""Workloads of cdc_apply against plain SQL: large batches."""
import shapes
from contest import Contest, Entry, Events, Piece, contest, entries
from harness import connect, evict, restart
from peers import PEERS

ALL = ('cdc', *PEERS, 'P5', 'L')
REPLAYS = ('cdc', *PEERS)


def initial(b):
    contest(b, 'initial', shapes.plain(), 0, [Events(b.n(1e6), b.n(362e3), b.n(5.5e6))], [Piece('initial')], ALL)


def update(b):
    """An update of a large target, the same batch again, and again after VACUUM."""
    contest(b, 'update', shapes.plain(), b.n(5e6), [Events(b.n(1e6), b.n(362e3), b.n(5.5e6))], [
        Piece('update'), Piece('replay', only=REPLAYS),
        Piece('replay vacuumed', before='VACUUM target', only=REPLAYS)], ALL)


def hot(b):
    contest(b, 'hot', shapes.plain(), b.n(5e6), [Events(b.n(1e6), b.n(10e3), b.n(5e6))], [Piece('hot')],
            ('cdc', *PEERS, 'L'))


def wide(b):
    """60 columns, some in TOAST: many bytes that a loser of its key need not move."""
    contest(b, 'wide', shapes.wide(), b.n(2e5), [Events(b.n(2e5), b.n(72e3), b.n(2.2e5))], [Piece('wide')])


def deletes(b):
    """Every third event a delete, one stored row in ten dead, in both homes."""
    events = [Events(b.n(5e5), b.n(181e3), b.n(1.1e6), deletes=30)]
    contest(b, 'deletes-row', shapes.plain(dead_every=10), b.n(1e6), events, [Piece('deletes, in the row')])
    contest(b, 'deletes-side', shapes.plain(dead_every=10, home='side'), b.n(1e6), events,
            [Piece('deletes, side table')], ('cdc', 'P1', 'P2', 'P4'))


def medium(b):
    return b.n(1e6), [Events(b.n(5e5), b.n(181e3), b.n(1.1e6))]


def keys(b):
    rows, events = medium(b)
    contest(b, 'text', shapes.text_key(), rows, events, [Piece('text key')])
    contest(b, 'composite', shapes.composite_key(), rows, events, [Piece('composite key')])


def storage(b):
    """Fillfactor, more indexes, partitions: what the table is made of."""
    rows, events = medium(b)
    for fill in (100, 90, 80):
        contest(b, 'fill-%d' % fill, shapes.plain(fillfactor=fill), rows, events, [Piece('fillfactor %d' % fill)])
    contest(b, 'indexes', shapes.plain(indexes=('changed_at', 'status, amount')), rows, events, [Piece('two more indexes')])
    contest(b, 'partitioned', shapes.plain(partitions=8), rows, events, [Piece('8 partitions')])


def memory(b):
    """The same update with little and with much work_mem."""
    rows, events = b.n(1e6), [Events(b.n(1e6), b.n(362e3), b.n(1.1e6))]
    for size in ('4MB', '512MB'):
        contest(b, 'memory-' + size, shapes.plain(), rows, events, [Piece('work_mem ' + size)],
                options='-c work_mem=' + size)


def layouts(b):
    """Would the peers do better with a cdc_position column?"""
    rows, events = medium(b)
    shape = shapes.plain()
    who = entries(shape, b.choose('cdc', *PEERS))
    for p in b.choose(*PEERS):
        who[p + ' cdc_position'] = Entry(shape, 'c', p)
    c = Contest(b, 'layouts', rows, events)
    c.run(who, [Piece('peers with cdc_position')])
    c.drop()


def uuid(b):
    """Random keys on a table four times shared_buffers, from disk and from the operating system's cache."""
    restart(shared_buffers='%dMB' % max(1, int(160 * min(1, b.scale))))
    shape, rows, events = shapes.uuid_key(), b.n(5e6), [Events(b.n(1e5), b.n(36e3), b.n(5.5e6))]
    try:
        c = Contest(b, 'uuid', rows, events)
        who = entries(shape, b.choose('cdc', *PEERS))
        c.run(who, [Piece('uuid, warm')], rounds=min(b.rounds, 3))

        def cold(_):
            restart(shared_buffers='%dMB' % max(1, int(160 * min(1, b.scale))))
            evict()
            return connect()
        c.bad.clear()
        c.run(who, [Piece('uuid, cold')], rounds=min(b.rounds, 3), warm=False, reach=cold)
        c.drop()
    finally:
        restart()


def safety(b):
    """What being attached, guarded, ready for late columns, or in the other home costs: cdc_apply against itself."""
    rows, events = medium(b)
    row, side = shapes.plain(), shapes.plain(home='side')
    attach = "SELECT cdc_attach('target', 'staging', tombstone_column => 'deleted'%s)"
    expression = ['ALTER TABLE staging ADD COLUMN lsn pg_lsn, ADD COLUMN ordinal bigint',
                  'UPDATE staging SET lsn = cdc_position_lsn(source_position), '
                  'ordinal = cdc_position_part(source_position, 2)::bigint',
                  'ALTER TABLE staging DROP COLUMN source_position', 'VACUUM FULL staging', 'ANALYZE staging']
    bookmark = ['ALTER TABLE staging ADD COLUMN loaded_xid xid8 DEFAULT pg_current_xact_id()', 'VACUUM FULL staging',
                'CREATE INDEX ON staging (loaded_xid)', 'ANALYZE staging']
    c = Contest(b, 'safety', rows, events)
    c.run({'cdc': Entry(row, 'c', 'cdc'),
           'attached': Entry(row, 'c', 'cdc', '', [attach % '']),
           'guarded': Entry(row, 'c', 'cdc', '', [attach % ", guard => 'skip'"]),
           'side table': Entry(side, 'c', 'cdc'),
           'column positions': Entry(row, 'c', 'cdc', ", column_positions => 'marks'", ['ALTER TABLE target ADD COLUMN marks jsonb']),
           'consume delete': Entry(row, 'c', 'cdc', ", consume => 'delete'"),
           'consume truncate': Entry(row, 'c', 'cdc', ", consume => 'truncate'"),
           'consume bookmark': Entry(row, 'c', 'cdc', ", consume => 'bookmark'", bookmark),
           'expression': Entry(row, 'c', 'cdc', ", staging_position => 'cdc_position(lsn, ordinal)', "
                               "except_columns => '{lsn,ordinal}'", expression)}, [Piece('safety')])
    c.drop()


def growth_target(b):
    """The same batches on larger and larger targets. VACUUM, since pruning would grow with the pages touched."""
    events = [Events(b.n(5e5), b.n(181e3), 0), Events(b.n(5e5), b.n(10e3), 0, b.n(5e5), 'staging_hot')]
    for size in (1e6, 4e6, 16e6):
        name = '%dM rows' % (size / 1e6)
        here = [e._replace(space=b.n(size * 1.1) if e.name == 'staging' else b.n(size)) for e in events]
        contest(b, 'growth-%dM' % (size / 1e6), shapes.plain(), b.n(size), here, [
            Piece('update, ' + name), Piece('replay, ' + name, before='VACUUM target'), Piece('hot, ' + name, 'staging_hot')],
            ('cdc', 'P1', 'P2', 'P3'), rounds=min(b.rounds, 3))


def growth_batch(b):
    """Larger and larger batches on one target."""
    for size, name in ((1e4, '10k'), (1e5, '100k'), (1e6, '1M'), (1e7, '10M')):
        contest(b, 'batch-' + name, shapes.plain(), b.n(5e6), [Events(b.n(size), b.n(size * .362), b.n(5.5e6))],
                [Piece('batch of ' + name)], ('cdc', 'P1', 'P3'), rounds=min(b.rounds, 3))
