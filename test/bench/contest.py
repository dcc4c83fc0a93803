"""One start state, several competitors, one or more timed pieces in a row."""
from collections import namedtuple

from harness import connect, drop_templates, restore, same_content, template, timed
from peers import PEERS, script, statements

# shape and layout; more arguments for cdc_apply; what is run after the restore, untimed
Entry = namedtuple('Entry', 'shape layout sql call setup', defaults=(None, '', None))
# name of what is measured; the staging it applies; what is run before it, untimed; only these run it
Piece = namedtuple('Piece', 'name staging before only', defaults=('staging', None, None))
# events of keys numbers spread over 1..space, numbered from first
Events = namedtuple('Events', 'events keys space first name deletes', defaults=(0, 'staging', 5))


def entries(shape, who):
    """Each competitor with the layout that is its own."""
    return {w: Entry(shape, shape.layout if w in ('cdc', 'L') else shape.peer_layout, w) for w in who}


class Contest:
    def __init__(self, b, title, rows, events):
        self.b, self.title, self.rows, self.events = b, title, int(rows), events
        self.names, self.right, self.bad = {}, {}, {}

    def make(self, shape, layout, limit):
        """A template: target, staging, for the limit the winners, all vacuumed and analyzed."""
        key = shape, layout
        if key in self.names:
            return
        setup = shape.create_target(layout) + [q for e in self.events for q in shape.create_staging(layout, e.name)]
        setup += shape.fill_target(layout, self.rows) if self.rows else []
        setup += shape.finish_target(layout) + (shape.fill_tombstones(layout, self.rows) if self.rows else [])
        for e in self.events:
            setup += shape.fill_staging(layout, e.events, e.keys, e.space, e.name, e.first, e.deletes)
        setup += shape.winners(layout) if limit else []
        name = 'bench_%s_%d' % (self.title.replace('-', '_').lower(), len(self.names))
        # an empty target that was vacuumed is believed to stay empty, and P4's plan
        # is then a scan of the growing target per row; a new table's is not
        tables = [e.name for e in self.events] + (['winners_new', 'winners_old'] if limit else [])
        setup.append('VACUUM ANALYZE' if self.rows else 'VACUUM ANALYZE ' + ', '.join(tables))
        self.names[key] = template(self.b, name, setup)
        self.right[key] = {}

    def expected(self, key, stagings):
        """What must be there once these were applied."""
        shape, layout = key
        if stagings not in self.right[key]:
            source = stagings[0] if len(stagings) == 1 else '(%s) u' % ' UNION ALL '.join('TABLE ' + x for x in stagings)
            s = connect(self.names[key], '-c work_mem=1GB')
            self.right[key][stagings] = s.run(shape.expected(layout, source))[0]
            s.close()
        return self.right[key][stagings]

    def run(self, who, pieces, rounds=None, options='', warm=True, reach=None):
        """who: names and entries; reach: what to do after a restore in place of connecting."""
        rounds = rounds or self.b.rounds
        for e in who.values():
            self.make(e.shape, e.layout, any(x.sql == 'L' and x[:2] == e[:2] for x in who.values()))
        self.b.note('%s: %d rows, %s events, %d competitors, %d rounds' % (
            self.title, self.rows, ' + '.join(str(int(e.events)) for e in self.events), len(who), rounds))
        for _, name in self.b.turns(list(who), rounds):
            e = who[name]
            restore(self.names[e.shape, e.layout], warm)
            s = reach(self.names[e.shape, e.layout]) if reach else connect(options=options)
            for q in e.setup or []:
                s.run(q)
            done = ()
            for p in pieces:
                if p.only and name not in p.only:
                    continue
                if p.before:
                    s.run(p.before)
                sql = script(statements(e.sql, e.shape, e.layout, p.staging, call=e.call))
                self.b.record(p.name, name, timed(s, sql))
                if p.staging not in done:
                    done += (p.staging,)
            right = self.expected((e.shape, e.layout), done)
            ok = same_content(s, e.shape, e.layout, right)
            self.bad.setdefault(name, []).append(ok)
            s.close()
        self.verdicts(rounds)

    def verdicts(self, rounds):
        for name, ok in self.bad.items():
            self.b.verdict(all(ok) and len(ok) == rounds, '%s: %s leaves the expected rows in %d of %d rounds' % (
                self.title, name, sum(ok), rounds))
        # what is expected of one layout is expected of the other, positions aside
        same = {}
        for (shape, _), by_staging in self.right.items():
            for staging, row in by_staging.items():
                same.setdefault((shape.name, staging), set()).add(tuple(row[:3]))
        live = sorted({row[0] for rows in same.values() for row in rows})
        self.b.verdict(all(len(rows) == 1 for rows in same.values()), '%s: the same live rows for all (%s)' % (
            self.title, ', '.join(live)))

    def drop(self):
        drop_templates(self.b, *self.names.values())


def contest(b, title, shape, rows, events, pieces, who=('cdc',) + tuple(PEERS), **options):
    """The usual one: the competitors of one shape."""
    c = Contest(b, title, rows, events)
    c.run(entries(shape, b.choose(*who)), pieces, **options)
    c.drop()
