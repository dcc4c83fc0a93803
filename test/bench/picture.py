#!/usr/bin/env python3
"""results.json as a picture: picture.py results.json > results.svg

One bar per workload: the time of cdc_apply, or of the aggregate or the type, as
a part of the fastest plain SQL's, which is the line at 1.
"""
import os
import sys
from xml.sax.saxutils import escape

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import goals  # noqa: E402
from harness import mid, ratio  # noqa: E402

# what is shown, and as what; workloads that were not run are left out
SHOWN = [
    ('initial', 'initial load, 1M events'), ('update', '1M events onto 5M rows'), ('replay', 'the same again'),
    ('replay vacuumed', 'the same again, after VACUUM'), ('hot', '1M events of 10k keys'),
    ('micro 100', '100 events onto 10M rows'), ('micro 1000', '1,000 events onto 10M rows'),
    ('micro 10000', '10,000 events onto 10M rows'), ('micro 1000, replay', '1,000 events again'),
    ('wide', '60 columns'), ('deletes, in the row', '30 % deletes, kept in the row'),
    ('deletes, side table', '30 % deletes, side table'), ('uuid, warm', 'random uuid, warm'),
    ('uuid, cold', 'random uuid, from disk'), ('pick a column, 100 keys', 'aggregate: a column, 100 keys'),
    ('pick a column, many keys', 'aggregate: a column, 340k keys'), ('pick rows, 100 keys', 'aggregate: rows, 100 keys'),
]
LEFT, WIDE, STEP, TOP, MOST = 250, 420, 24, 64, 1.5
STYLE = """text{font:13px system-ui,sans-serif;fill:#1f2328}.dim{fill:#59636e;font-size:12px}.b{fill:#2a78d6}
.over{fill:#bc4c00}.l{stroke:#59636e;stroke-width:1}.t{font-weight:600;font-size:15px}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#9198a1}.b{fill:#4493f8}.over{fill:#db6d28}.l{stroke:#9198a1}}"""


def time_text(v):
    return '%.1f s' % v if v >= 1 else '%.1f ms' % (v * 1000) if v < 0.01 else '%.0f ms' % (v * 1000)


def picture(b, found):
    field, lines = found['by'], []
    for piece, name in SHOWN:
        by = goals.by(piece, field)
        me, best = goals.ours(b, piece), goals.fastest(b, piece, by)
        if me and best:
            lines.append((name, ratio(b, piece, me, best, by), mid(b, piece, me, by), mid(b, piece, best, by), best))
    unit, high = WIDE / MOST, TOP + STEP * len(lines) + 44
    kind = 'CPU time' if field == 'cpu' else 'time'
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 %d" width="860" height="%d" role="img">' % (high, high),
           '<title>cdc_precedence against the fastest plain SQL: %s, shorter is better</title>' % kind,
           '<style>%s</style>' % STYLE,
           '<text class="t" x="16" y="24">%s as a part of the fastest plain SQL\'s</text>' % kind.capitalize().replace('Cpu', 'CPU'),
           '<text class="dim" x="16" y="44">shorter is better; the line at 1 is the best of four peers, or of three queries</text>']
    for n, (name, r, mine, other, best) in enumerate(lines):
        y = TOP + STEP * n
        out.append('<text x="%d" y="%d" text-anchor="end">%s</text>' % (LEFT - 10, y + 15, escape(name)))
        out.append('<rect class="%s" x="%d" y="%d" width="%.1f" height="16" rx="2"/>' % (
            'b' if r <= 1 else 'over', LEFT, y + 2, min(r, MOST) * unit))
        out.append('<text class="dim" x="%d" y="%d">%.2f: %s, %s %s</text>' % (
            LEFT + WIDE + 10, y + 15, r, time_text(mine), best, time_text(other)))
    bottom = TOP + STEP * len(lines) + 4
    out.append('<line class="l" x1="{0}" y1="{1}" x2="{0}" y2="{2}"/>'.format(LEFT + unit, TOP - 4, bottom))
    for v in (0, 0.5, 1, 1.5):
        out.append('<text class="dim" x="%.1f" y="%d" text-anchor="middle">%g</text>' % (LEFT + v * unit, bottom + 16, v))
    size = '' if found['scale'] == 1 else ', sizes times %g' % found['scale']
    out.append('<text class="dim" x="16" y="%d">%s, %s%s</text>' % (high - 6, escape(found['machine']), found['date'], size))
    return '\n'.join(out + ['</svg>', ''])


if __name__ == '__main__':
    import report
    sys.stdout.write(picture(*report.read(sys.argv[1])))
