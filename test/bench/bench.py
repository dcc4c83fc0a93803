#!/usr/bin/env python3
"""The benchmark: cdc_apply, its aggregate and its type against plain SQL.

Run by run.sh, which builds the extension and starts the server. Prints one
table; its last line says how many checks passed. That a goal is missed is no
failed check, unless --strict asks for it.
"""
import argparse
import os
import sys

import apply
import micro
import native
import report
import snapshot
import values
from harness import Bench

WORKLOADS = {
    'initial': apply.initial,
    'update': apply.update,
    'native': native.native,
    'hot': apply.hot,
    'micro': micro.micro,
    'wide': apply.wide,
    'deletes': apply.deletes,
    'keys': apply.keys,
    'uuid': apply.uuid,
    'storage': apply.storage,
    'memory': apply.memory,
    'layouts': apply.layouts,
    'safety': apply.safety,
    'growth-target': apply.growth_target,
    'growth-batch': apply.growth_batch,
    'snapshot': snapshot.snapshot,
    'agg': values.agg,
    'position': values.position,
}
# found in one run with another
TOGETHER = {'replay': 'update', 'growth': 'growth-target'}


def parse():
    p = argparse.ArgumentParser(prog='test/bench/run.sh', description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--only', action='append', metavar='WORKLOAD', help='one of: %s; several times for several'
                   % ' '.join(WORKLOADS))
    p.add_argument('--rounds', type=int, default=5, help='rounds over all competitors (5; at most 3 where one takes minutes)')
    p.add_argument('--scale', type=float, default=1, metavar='F', help='so many times the rows and events; '
                   '0.01 is for the shape only: that all competitors run and end with the same rows')
    p.add_argument('--competitors', type=lambda v: v.split(','), default=[], metavar='LIST',
                   help='of P1,P2,P3,P4,P5,L; cdc_apply always runs')
    p.add_argument('--by', choices=['seconds', 'cpu'], default='seconds',
                   help='ratios and goals by elapsed time, or by the CPU time of the backend, for a machine with other work')
    p.add_argument('--strict', action='store_true', help='a missed goal is a failed check')
    p.add_argument('--json', metavar='FILE', help='write what was measured')
    p.add_argument('--write', action='store_true', help='write results.json, results.svg and the section of README.md, '
                   'all in test/bench; workloads that were not run keep their numbers')
    options = p.parse_args()
    options.only = [TOGETHER.get(w, w) for w in options.only or []] or list(WORKLOADS)
    unknown = [w for w in options.only if w not in WORKLOADS]
    if unknown:
        p.error('no workload %s' % ', '.join(unknown))
    return options


def merged(b, found, path):
    """New numbers over those that are there, if these were measured alike."""
    if not os.path.exists(path):
        return b, found
    old, was = report.read(path)
    if any(was[k] != found[k] for k in ('machine', 'settings', 'scale', 'by')):
        return b, found
    old.samples.update(b.samples)
    old.part_of.update(b.part_of)
    order = list(WORKLOADS)
    old.samples = dict(sorted(old.samples.items(), key=lambda x: order.index(old.part_of[x[0][0]])))
    found['samples'] = report.listed(old)
    return old, found


def main():
    options = parse()
    b = Bench(options)
    where = {'machine': report.machine(), 'settings': report.settings(), 'load': [report.load()]}
    print('%s\n%s' % (where['machine'], ', '.join('%s = %s' % x for x in where['settings'].items())), flush=True)
    for w in options.only:
        # what native measures stands beside its like
        b.workload = 'update' if w == 'native' else w
        WORKLOADS[w](b)
        print('\n'.join(report.lines(b, options.by, b.workload)), flush=True)
        where['load'][1:] = [report.load()]
        found = report.results(b, options, where)
        if options.json:
            report.write_json(options.json, found)
    met, goals = report.count(b, options.by)
    print('\n%s\n\n%s\n' % (report.words(found), report.table(b, options.by)))
    if options.write:
        path = os.path.join(report.HERE, 'results.json')
        kept, found = merged(b, found, path)
        report.write_json(path, found)
        report.redraw(kept, found)
    print('%d of %d goals met, %d minutes' % (met, goals, found['minutes']))
    if options.strict:
        b.verdict(met == goals, 'goals: %d of %d met' % (met, goals))
    print('bench: %d passed, %d failed' % (b.passed, b.failed))
    return 1 if b.failed or not b.passed else 0


if __name__ == '__main__':
    sys.exit(main())
