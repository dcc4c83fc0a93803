#!/usr/bin/env python3
"""The table, the JSON and the README's section, all from the same samples.

As a program: writes README.md's section and results.svg anew from results.json.
"""
import json
import os
import platform
import time

import goals
import picture
from harness import Bench, Sample, admin, mid, noise, ratio

HERE = os.path.dirname(os.path.abspath(__file__))
SETTINGS = ('shared_buffers', 'work_mem', 'maintenance_work_mem', 'hash_mem_multiplier', 'max_wal_size', 'wal_level',
            'full_page_writes', 'fsync', 'synchronous_commit', 'checkpoint_timeout', 'autovacuum', 'jit',
            'random_page_cost', 'effective_cache_size', 'max_parallel_workers_per_gather')
BEGIN, END = '<!-- results: written by run.sh --write -->', '<!-- end of results -->'


def machine():
    out = ['%d cores %s' % (os.cpu_count(), platform.machine())]
    try:
        with open('/proc/meminfo') as f:
            out.append('%d GB' % round(int(f.readline().split()[1]) / 1e6 * 0.95))
        with open('/etc/os-release') as f:
            name = [x.split('=', 1)[1].strip().strip('"') for x in f if x.startswith('PRETTY_NAME')]
            out += [n.replace(' GNU/Linux', '') for n in name]
    except OSError:
        pass
    return ', '.join(out + ['PostgreSQL ' + admin('SHOW server_version')[0][0].split()[0]])


def settings():
    return {name: admin('SHOW ' + name)[0][0] for name in SETTINGS}


def load():
    return round(os.getloadavg()[0], 1)


def seconds(v, small):
    """A time; small: it stands beside one below 0.1 s, and one line has one unit."""
    if v is None:
        return ''
    if small:
        return ('%.2f ms' if v < 0.1 else '%.0f ms') % (v * 1000)
    return '%.2f' % v


def megabytes(v):
    return '%.1f' % (v / 1e6) if v < 1e7 else '%.0f' % (v / 1e6)


def ordered(b, workload=None):
    return list(dict.fromkeys(p for p, _ in b.samples if workload in (None, b.part_of[p])))


def row(b, piece, field):
    """One line of the table."""
    field = goals.by(piece, field)
    who = [c for p, c in b.samples if p == piece]
    me = goals.ours(b, piece)
    others = [c for c in who if c != me]
    order = sorted(others, key=lambda c: (len(c) > 2, c == 'N', c == 'L', c))
    best = goals.fastest(b, piece, field)
    ratios = []
    if best:
        ratios.append('%.2f of %s' % (ratio(b, piece, me, best, field), best))
    elif me and others:
        ratios += ['%.2f %s' % (ratio(b, piece, c, me, field), c) for c in order if 'ordinal' not in c and c != 'lsn']
    limit = ratio(b, piece, me, 'L', field) if (piece, 'L') in b.samples and me else None
    lean, little = goals.leanest(b, piece, 'wal')[0], goals.leanest(b, piece, 'memory')[0]
    wal, held = mid(b, piece, me, 'wal') if me else None, mid(b, piece, me, 'memory') if me else None
    found = goals.of(b, piece, field)
    off = noise(b, piece, field)
    small = any(t is not None and t < 0.1 for t in [mid(b, piece, c, field) for c in who])
    return [piece, seconds(mid(b, piece, me, field), small) if me else '',
            ', '.join('%s %s' % (c, seconds(mid(b, piece, c, field), small)) for c in order),
            ', '.join(ratios), '' if limit is None else '%.2f' % limit,
            '' if wal is None else megabytes(wal) + ('' if lean is None else ' / ' + megabytes(lean)),
            '' if held is None else megabytes(held) + ('' if little is None else ' / ' + megabytes(little)),
            '' if off is None else '%.0f %%' % (100 * off),
            ', '.join('%s %s (%s)' % (g.text, short(g.limit), short(g.value)) for g in found),
            ', '.join('met' if g.met else 'NOT' for g in found)]


def short(v):
    return '%.2f' % v if isinstance(v, float) and abs(v) < 100 else '%d' % v


HEAD = ['workload', 'cdc_precedence', 'others', 'ratio to the fastest', 'to L', 'WAL MB / leanest peer',
        'memory MB / leanest peer', 'noise', 'goal (measured)', '']


def lines(b, field, workload=None):
    return ['| ' + ' | '.join(row(b, p, field)) + ' |' for p in ordered(b, workload)]


def table(b, field):
    return '\n'.join(['| ' + ' | '.join(HEAD) + ' |', '|' + '---|' * len(HEAD)] + lines(b, field))


def results(b, options, where):
    return {'machine': where['machine'], 'date': time.strftime('%Y-%m-%d'), 'settings': where['settings'],
            'load': where['load'], 'scale': b.scale, 'by': options.by, 'minutes': round((time.time() - b.began) / 60),
            'samples': listed(b)}


def listed(b):
    return [{'workload': b.part_of[p], 'piece': p, 'competitor': c, 'samples': [list(x) for x in got]}
            for (p, c), got in b.samples.items()]


def read(path):
    """A Bench and the facts, as they were written."""
    with open(path) as f:
        found = json.load(f)
    b = Bench.of(found['scale'])
    for x in found['samples']:
        b.samples[x['piece'], x['competitor']] = [Sample(*s) for s in x['samples']]
        b.part_of[x['piece']] = x['workload']
    return b, found


def write_json(path, found):
    head = {k: v for k, v in found.items() if k != 'samples'}
    with open(path, 'w') as f:
        f.write(json.dumps(head, indent=1)[:-2] + ',\n "samples": [\n')
        f.write(',\n'.join('  ' + json.dumps({**x, 'samples': [[float('%.6g' % v) for v in s] for s in x['samples']]})
                           for x in found['samples']))
        f.write('\n ]\n}\n')


def words(found):
    """What must be known of a run to read its numbers."""
    kind = {'seconds': 'Seconds are elapsed time', 'cpu': 'Seconds are CPU time of the backend'}[found['by']]
    out = ['%s, on %s.' % (found['machine'], found['date']),
           '%s, medians over up to %d rounds; the load average before the run was %s and after it %s.' % (
               kind, max([len(x['samples']) for x in found['samples']] or [0]), found['load'][0], found['load'][1])]
    if found['by'] == 'cpu':
        out.append('The machine was busy with other work, which elapsed time would have measured too.')
    if found['scale'] != 1:
        out.append('Sizes are %g of what the names of the workloads say.' % found['scale'])
    return ' '.join(out) + '\n\nSettings: ' + ', '.join('`%s = %s`' % x for x in found['settings'].items()) + '.'


def write_readme(b, found, path=os.path.join(HERE, 'README.md')):
    with open(path) as f:
        text = f.read()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    with open(path, 'w') as f:
        f.write('%s%s\n\n%s\n\n![Results](results.svg)\n\n%s\n\n%s%s' % (
            head, BEGIN, words(found), table(b, found['by']), END, tail))


def redraw(b, found):
    write_readme(b, found)
    with open(os.path.join(HERE, 'results.svg'), 'w') as f:
        f.write(picture.picture(b, found))


def count(b, field):
    every = [g for p in ordered(b) for g in goals.of(b, p, field)]
    return sum(g.met for g in every), len(every)


if __name__ == '__main__':
    redraw(*read(os.path.join(HERE, 'results.json')))
