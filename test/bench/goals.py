"""What is wanted, as numbers: ratios, lower is better."""
from collections import namedtuple

from harness import mid, ratio
from peers import PEERS

Goal = namedtuple('Goal', 'text value limit met')

# piece: the most that cdc_apply may take of the fastest peer's time
PEER = {
    'initial': 0.5, 'update': 0.8, 'replay': 0.4, 'replay vacuumed': 0.4, 'hot': 0.2, 'wide': 0.6,
    'micro 100': 1.0, 'micro 1000': 0.9, 'micro 10000': 0.9,
    'micro 100, replay': 0.5, 'micro 1000, replay': 0.5, 'micro 10000, replay': 0.5,
    'uuid, cold': 0.5, 'uuid, warm': 0.8,
    'snapshot, 0.1 % changed': 0.5, 'snapshot, 5 % changed': 0.5, 'snapshot, 5 % changed, in random order': 0.5,
    'snapshot, all changed': 0.5,
}
LIMIT = {'initial': 1.3, 'update': 1.15}
PICK = {'pick a column, 100 keys': 0.35, 'pick rows, 100 keys': 0.35, 'pick a column, 100 keys, 2 workers': 0.35,
        'pick rows, 100 keys, 2 workers': 0.35, 'pick a column, many keys': 0.7, 'pick a column, many keys, 2 workers': 0.7}
SORT = {'sort rows': (0.85, 0.75), 'build an index': (0.85, 0.75), 'sort positions': (1.6, None)}
# as many bytes as the server itself writes now and then
NO_WAL = 1024


def by(piece, field):
    """CPU time of the backend says nothing where others work for it or where it waits for the disk."""
    return 'seconds' if 'workers' in piece or 'cold' in piece else field


def ours(b, piece):
    for name in ('cdc', 'latest'):
        if (piece, name) in b.samples:
            return name


def fastest(b, piece, field):
    """Of the peers with the safe guard, or of the forms that an aggregate stands against."""
    got = [(mid(b, piece, c, field), c) for c in PEERS + ['D', 'R', 'A', 'H'] if (piece, c) in b.samples]
    return min(got)[1] if got else None


def leanest(b, piece, field='wal'):
    got = [(mid(b, piece, c, field), c) for c in PEERS + ['D', 'R', 'A', 'H'] if (piece, c) in b.samples]
    return min(got) if got else (None, None)


def goal(text, value, limit):
    return Goal(text, value, limit, value is not None and value <= limit)


def of(b, piece, field):
    """Goals of one piece."""
    out, field = [], by(piece, field)
    me, best = ours(b, piece), fastest(b, piece, field)
    if piece in PEER and me and best:
        out.append(goal('fastest', ratio(b, piece, me, best, field), PEER[piece]))
    if piece in PICK and me and best:
        out.append(goal('fastest', ratio(b, piece, me, best, field), PICK[piece]))
    if piece in LIMIT and (piece, 'L') in b.samples and me:
        out.append(goal('L', ratio(b, piece, me, 'L', field), LIMIT[piece]))
    if piece == 'update' and best:
        out.append(goal('WAL of the leanest', mid(b, piece, me, 'wal') / max(1, leanest(b, piece)[0]), 1.0))
    if piece == 'replay vacuumed' and me:
        out.append(Goal('WAL bytes', mid(b, piece, me, 'wal'), 0, mid(b, piece, me, 'wal') <= NO_WAL))
    if piece == 'empty call' and me:
        out.append(goal('ms', mid(b, piece, me, field) * 1000, 1.0))
    if piece in SORT:
        lsn, both = SORT[piece]
        out.append(goal('pg_lsn', ratio(b, piece, 'cdc', 'lsn', field), lsn))
        if both:
            out.append(goal('(pg_lsn, bigint)', ratio(b, piece, 'cdc, ordinal', 'lsn, ordinal', field), both))
    return out + growth(b, piece, field)


def grown(b, one, other, who, field):
    a, z = mid(b, one, who, field), mid(b, other, who, field)
    return z / a if a and z else None


def growth(b, piece, field):
    """Stands with the last of the sizes."""
    out = []
    if piece in ('replay, 16M rows', 'hot, 16M rows'):
        out.append(goal('1M to 16M', grown(b, piece.replace('16M', '1M'), piece, 'cdc', field), 1.25))
    if piece == 'update, 16M rows':
        first, best = piece.replace('16M', '1M'), fastest(b, piece, field)
        if best:
            out.append(goal("1M to 16M, of %s's" % best, grown(b, first, piece, 'cdc', field), grown(b, first, piece, best, field) or 0))
    if piece == 'batch of 10M':
        few = grown(b, 'batch of 10k', piece, 'cdc', field)
        out.append(goal('per event, 10k to 10M', few and few / 1000, 1.3))
    return [g for g in out if g.value is not None]
