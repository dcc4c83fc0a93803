"""Workloads of cdc_apply against plain SQL: large batches."""
from harness import connect, drop_templates, restore, same_content, template, timed
from peers import PEERS, script, statements
import shapes

LIVE = {}                             # what a workload's first competitor left: live rows and their hash


def prepared(b, name, shape, layout, rows, staging, vacuum=True):
    """A template database: target, staging, the limit's winners, all vacuumed and analyzed."""
    setup = shape.create_target(layout) + shape.create_staging(layout)
    if rows:
        setup += shape.fill_target(layout, rows)
    setup += shape.finish_target(layout)
    setup += staging(layout)
    if layout == 'c':
        setup += shape.winners(layout)
    setup += ['VACUUM ANALYZE']
    return template(b, name, setup)


def expectation(shape, layout, name):
    s = connect(name, "-c work_mem=1GB")
    row = s.run(shape.expected(layout))[0]
    s.close()
    return row


class Contest:
    """One start state, several competitors, one or more timed pieces in a row."""

    def __init__(self, b, title, shape, rows, events, keys, space, deletes=5):
        self.b, self.title, self.shape = b, title, shape
        self.rows, self.events = rows, events
        self.names, self.right = {}, {}
        self.bad = {}

        def staging(layout):
            return shape.fill_staging(layout, events, keys, space, deletes=deletes)
        self.staging = staging

    def layout(self, who):
        return self.shape.layout if who.startswith('cdc') or who == 'L' else self.shape.peer_layout

    def make(self, layouts):
        for layout in sorted(layouts):
            name = 'bench_%s_%s' % (self.title.replace('-', '_'), layout)
            self.names[layout] = prepared(self.b, name, self.shape, layout, self.rows, self.staging)
            self.right[layout] = expectation(self.shape, layout, name)
        if len({tuple(r[:3]) for r in self.right.values()}) > 1:
            self.b.verdict(False, '%s: the layouts do not start from the same rows' % self.title)
        self.b.note('%s: %d rows, %d events, %s' % (self.title, self.rows, self.events, ' and '.join(
            'live %s dead %s' % (r[0], r[2]) for r in list(self.right.values())[:1])))

    def check(self, s, who, layout):
        ok = same_content(s, self.shape, layout, self.right[layout])
        self.bad[who] = self.bad.get(who, 0) + (not ok)

    def verdicts(self, rounds):
        for who, bad in self.bad.items():
            self.b.verdict(not bad, '%s: %s ends with the expected rows (%s live) after each of %d rounds' % (
                self.title, who, list(self.right.values())[0][0], rounds))

    def run(self, competitors, pieces, rounds=None, options='', calls={}, warm=True, restored=None):
        """pieces: names of timed pieces; 'x' the apply, then what to do before each following one."""
        rounds = rounds or self.b.rounds
        self.make({self.layout(c) for c in competitors})
        for _, who in self.b.turns(competitors, rounds):
            layout = self.layout(who)
            restore(self.names[layout], warm)
            s = connect(options=options)
            if restored:
                s = restored(s, who)
            sql = script(statements(who, self.shape, layout, call=calls.get(who, '')))
            for n, (piece, before) in enumerate(pieces):
                if n and who in ('L', 'P5'):
                    continue
                if before:
                    s.run(before)
                self.b.record(piece, who, timed(s, sql))
            self.check(s, who, layout)
            s.close()
        self.verdicts(rounds)

    def drop(self):
        drop_templates(self.b, *self.names.values())


def initial(b):
    c = Contest(b, 'initial', shapes.plain(), 0, b.n(1000000), b.n(362000), b.n(5500000))
    c.run(b.choose('cdc', *PEERS, 'P5', 'L'), [('initial', None)])
    c.drop()


def update(b):
    """An update of a large target, the same batch again, and again after VACUUM."""
    c = Contest(b, 'update', shapes.plain(), b.n(5000000), b.n(1000000), b.n(362000), b.n(5500000))
    c.run(b.choose('cdc', *PEERS, 'P5', 'L'),
          [('update', None), ('replay', None), ('replay-vacuumed', 'VACUUM target')])
    c.drop()


def hot(b):
    c = Contest(b, 'hot', shapes.plain(), b.n(5000000), b.n(1000000), b.n(10000), b.n(5000000))
    c.run(b.choose('cdc', *PEERS, 'L'), [('hot', None)])
    c.drop()
