/*-------------------------------------------------------------------------
 *
 * cdc_ahead.c
 *		Pages of the target asked from disk ahead of the winners' turn.
 *
 * Winners come in the order of the key index.  Where that is not the order of
 * the table, as with random keys, each finds its row on another page, and
 * where pages come from disk the time goes by waiting for one after the other.
 * So the index is asked where the next rows are, and the operating system to
 * read these pages, in their order, while the rows before them are written.
 *
 * All here is a hint.  It costs a second look into the index, so it begins
 * when winners are seen to wait for pages: a read that the operating system
 * can answer from memory does not make the process give up its turn, one from
 * disk does.  It is not done where effective_io_concurrency is 0; partitioned
 * targets do without.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/resource.h>

#include "executor/instrument.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "cdc_probe.h"
#include "cdc_write.h"

/* Winners whose pages are asked for together; the next are asked for before. */
#define CDC_AHEAD_GROUP	256

/* After so many winners it is seen anew whether to ask. */
#define CDC_AHEAD_CHECK	64

/* One winner in so many must wait for it to begin. */
#define CDC_AHEAD_WAITS	4

/* After so many checks it ends, and whether winners wait is seen anew. */
#define CDC_AHEAD_TURNS	16

struct CdcAhead
{
	int			winners;		/* since the last check */
	int64		reads;			/* pages this backend had read at it */
	long		waits;			/* times it had given up its turn */
	int			turns;			/* checks to go, 0: not asking */
	int			asked;			/* winners from the next on that were asked for */
};

bool		cdc_debug_prefetch = false;

/* NULL: none of this target's pages is asked for. */
CdcAhead *
cdc_ahead_create(CdcWriter *w)
{
#ifdef USE_PREFETCH
	Relation	rel = w->target->rel;

	if (rel->rd_rel->relkind == RELKIND_RELATION &&
		(cdc_debug_prefetch || get_tablespace_io_concurrency(rel->rd_rel->reltablespace) > 0))
		return palloc0(sizeof(CdcAhead));
#endif
	return NULL;
}

static long
count_waits(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nvcsw : 0;
}

/* A pass over the winners begins. */
void
cdc_ahead_rewind(CdcAhead *ahead)
{
	ahead->asked = 0;
	ahead->winners = 0;
	ahead->turns = 0;
	ahead->reads = pgBufferUsage.shared_blks_read;
	ahead->waits = count_waits();
}

static void
check(CdcAhead *ahead)
{
	int64		reads = pgBufferUsage.shared_blks_read - ahead->reads;
	long		waits = count_waits();
	int			enough = ahead->winners / CDC_AHEAD_WAITS;

	if (ahead->turns > 0)
		ahead->turns--;
	else if (cdc_debug_prefetch || (reads >= enough && waits - ahead->waits >= enough))
		ahead->turns = CDC_AHEAD_TURNS;
	if (ahead->turns == 0)
		ahead->asked = 0;
	ahead->winners = 0;
	ahead->reads = pgBufferUsage.shared_blks_read;
	ahead->waits = waits;
}

static int
compare_blocks(const void *a, const void *b)
{
	BlockNumber x = *(const BlockNumber *) a;
	BlockNumber y = *(const BlockNumber *) b;

	return (x > y) - (x < y);
}

/* Ask for the pages of the winners that come from..to places after the next. */
static void
ask(CdcWriter *w, int from, int to)
{
	CdcTarget  *target = w->target;
	CdcLeaf    *leaf = target->leaf;
	BlockNumber blocks[2 * CDC_AHEAD_GROUP];
	Datum	   *keys = palloc(sizeof(Datum) * target->nkeys);
	IndexScanDesc scan = cdc_probe_ahead_begin(leaf->probe);
	int			n = 0;

	for (int i = from; i < to; i++)
	{
		const CdcEvent *ev = cdc_fold_ahead(w->fold, i);
		bool		isnull;

		if (ev == NULL)
			break;
		for (int k = 0; k < target->nkeys; k++)
			keys[k] = cdc_event_value(w->cols, ev, k + 1, &isnull);
		blocks[n] = cdc_probe_ahead(leaf->probe, scan, keys);
		if (BlockNumberIsValid(blocks[n]))
			n++;
	}
	index_endscan(scan);
	pfree(keys);
	qsort(blocks, n, sizeof(BlockNumber), compare_blocks);
	for (int i = 0; i < n; i++)
		if (i == 0 || blocks[i] != blocks[i - 1])
			(void) PrefetchBuffer(leaf->rri->ri_RelationDesc, MAIN_FORKNUM, blocks[i]);
}

/* A winner's turn has come. */
void
cdc_ahead_step(CdcWriter *w)
{
	CdcAhead   *ahead = w->ahead;

	if (++ahead->winners >= CDC_AHEAD_CHECK)
		check(ahead);
	if (ahead->turns == 0)
		return;
	ahead->asked = Max(ahead->asked - 1, 0);
	if (ahead->asked <= CDC_AHEAD_GROUP)
	{
		ask(w, ahead->asked, 2 * CDC_AHEAD_GROUP);
		ahead->asked = 2 * CDC_AHEAD_GROUP;
	}
}
