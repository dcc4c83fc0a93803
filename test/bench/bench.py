#!/usr/bin/env python3
"""The benchmark: cdc_apply, its aggregate and its type against plain SQL.

Run by run.sh, which builds the extension and starts the server. Prints one
table and, with --json, writes what was measured.
"""
import argparse
import sys

from harness import Bench, mid, noise, ratio
import apply
import micro

WORKLOADS = {
    'initial': apply.initial,
    'update': apply.update,
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
}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--only', action='append', metavar='WORKLOAD')
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--scale', type=float, default=1)
    p.add_argument('--competitors', type=lambda v: v.split(','), default=[])
    options = p.parse_args()
    b = Bench(options)
    for w in options.only or WORKLOADS:
        WORKLOADS[w](b)
    for w in sorted({w for w, _ in b.samples}):
        for c in [c for x, c in b.samples if x == w]:
            print('%-16s %-4s %8.3f s %8.3f s CPU %6.0f MB WAL  %5.0f MB  ratio %.2f, CPU %.2f' % (
                w, c, mid(b, w, c), mid(b, w, c, 'cpu'), mid(b, w, c, 'wal') / 1e6, mid(b, w, c, 'memory') / 1e6, ratio(b, w, 'cdc', c), ratio(b, w, 'cdc', c, 'cpu')), end='')
            print('  noise %s' % noise(b, w))
    print('bench: %d passed, %d failed' % (b.passed, b.failed))
    return 1 if b.failed else 0


if __name__ == '__main__':
    sys.exit(main())
