"""Small batches into a large target, in a warm session: what one call costs.

A loader's session empties staging and fills it with the next batch; the apply's
session applies it and then applies it once more. Latency is the median of the
calls, WAL their mean.
"""
import time

import shapes
from contest import entries
from harness import (Sample, connect, cpu, drop_templates, median, own_memory, restore, same_content, template, wal)
from peers import PEERS, script, statements
from shapes import draw, key_number

SIZES = ((100, 200), (1000, 60), (10000, 20))         # events a call, calls
EMPTY = 200


def fill(b, shape, layout, rows, sizes):
    """All batches in one table, by number; the log goes on from batch to batch."""
    out = ['CREATE TABLE batches (batch int, LIKE staging)']
    first = number = 0
    for size, calls in sizes:
        # seven keys for ten events, one in eleven of them new
        k = key_number(int(rows * 1.1), int(rows * 1.1))
        batch = '%d + (e - %d) / %d' % (number, first, size)
        query = ('SELECT e, %s AS k, e + CASE WHEN %s = 0 THEN %s ELSE 0 END AS late, %s AS batch FROM (SELECT e, '
                 'CASE WHEN %s < 3 THEN e - %s ELSE e END AS same FROM generate_series(%d::bigint, %d) e) z' % (
                     k.replace('(e,', '(same,'), draw(13, 10), draw(14, 50), batch, draw(15, 10), draw(16, 20),
                     first, first + size * calls - 1))
        out.append('INSERT INTO batches ' + shape.select_events(layout, query, extra='batch::int,', order='batch, late'))
        first, number = first + size * calls, number + calls
    return out + ['CREATE INDEX ON batches (batch)']


class Calls:
    """The calls of one kind: each one's time."""

    def __init__(self, s):
        self.s, self.seconds, self.cpu = s, [], []
        self.wal, self.memory = wal(s), own_memory(s.pid)

    def call(self, sql):
        ran, begin = cpu(self.s.pid), time.perf_counter()
        self.s.run(sql)
        self.seconds.append(time.perf_counter() - begin)
        self.cpu.append(cpu(self.s.pid) - ran)

    def sample(self, wal_bytes):
        return Sample(median(self.seconds), median(self.cpu), wal_bytes / len(self.seconds),
                      max(0, own_memory(self.s.pid) - self.memory) << 10)


def play(b, who, shape, layout, sizes):
    s, loader = connect(), connect()
    columns = ', '.join(['op', shape.data_list] + shape.position(layout))
    sql = script(statements(who, shape, layout, small=True))
    number = 0
    for (name, _), (_, calls) in zip(SIZES, sizes):
        s.run('CHECKPOINT')
        applies, replays = Calls(s), Calls(s)
        wrote = [0, 0]
        for n in range(calls):
            loader.run('TRUNCATE staging; INSERT INTO staging (%s) SELECT %s FROM batches WHERE batch = %d' % (
                columns, columns, number + n))
            for kind, c in enumerate((applies, replays)):
                before = wal(s)
                c.call(sql)
                wrote[kind] += wal(s) - before
        number += calls
        b.record('micro %d' % name, who, applies.sample(wrote[0]))
        b.record('micro %d, replay' % name, who, replays.sample(wrote[1]))
    loader.run('TRUNCATE staging')
    s.run(sql)
    before, empty = wal(s), Calls(s)
    for _ in range(max(3, int(EMPTY * min(1, b.scale * 10)))):
        empty.call(sql)
    b.record('empty call', who, empty.sample(wal(s) - before))
    loader.close()
    return s


def micro(b, rounds=None):
    rounds = rounds or min(b.rounds, 3)
    shape, rows = shapes.plain(), b.n(1e7)
    sizes = [(size, max(3, int(calls * min(1, b.scale * 2)))) for size, calls in SIZES]
    if b.scale < 0.05:
        sizes = [(size // 10, calls) for size, calls in sizes]
    names, right, good = {}, {}, {}
    who = entries(shape, b.choose('cdc', *PEERS))
    for layout in {e.layout for e in who.values()}:
        names[layout] = template(
            b, 'bench_micro_' + layout, shape.create_target(layout) + shape.create_staging(layout)
            + shape.fill_target(layout, rows) + shape.finish_target(layout) + fill(b, shape, layout, rows, sizes)
            # a loader's staging that was analyzed once, with a batch of the middle size in it
            + ['INSERT INTO staging SELECT %s FROM batches LIMIT %d' % (
                ', '.join(['op', shape.data_list] + shape.position(layout)), sizes[1][0]), 'VACUUM ANALYZE'])
        s = connect(names[layout], '-c work_mem=1GB')
        right[layout] = s.run(shape.expected(layout, 'batches'))[0]
        s.close()
    b.note('micro: %d rows, batches %s, %d rounds' % (rows, sizes, rounds))
    for _, name in b.turns(list(who), rounds):
        layout = who[name].layout
        restore(names[layout])
        s = play(b, name, shape, layout, sizes)
        good.setdefault(name, []).append(same_content(s, shape, layout, right[layout]))
        s.close()
    for name, ok in good.items():
        b.verdict(all(ok), 'micro: %s leaves the expected rows in %d of %d rounds' % (name, sum(ok), rounds))
    b.verdict(len({tuple(r[:3]) for r in right.values()}) == 1, 'micro: the same live rows for all')
    drop_templates(b, *names.values())
