"""A join of two tables that picks one right row for each left row from the pairs of the join without the pick.

If no bound compares the value that picks, a search in its order may look at every right row for each left row. If few
pairs match, as a sample shows, it costs less to make them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ivjoin.operator.lookup.sides import SideReader, key_table
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.picking.pick import picking_of
from ivjoin.plan.spec import SIDES
from ivjoin.shj.arrow import counted, whole_numbers
from ivjoin.stream.sort.axis import kept_pairs, sample
from ivjoin.stream.sort.sorting import Arranged, arrange
from ivjoin.stream.sources.columns import chosen
from ivjoin.stream.sources.inputs import Source, open_inputs
from ivjoin.stream.threads.table_join import table_join
from ivjoin.stream.threads.table_lookup import MatchedTables, opened
from ivjoin.stream.threads.table_rows import TableRows

__all__ = ["PairedPick", "paired_pick"]

_PUSH_ROWS = 8192
_SEEN = 100, 4096  # left and right rows of which pairs are looked at


class PairedPick(MatchedTables):
    """The join of two tables that reduces pairs.

    Parameters
    ----------
    plan : JoinPlan
    left : TableRows
    right : pa.RecordBatch
        All right rows.
    pairs : iterator of RecordBatch
        The numbers of both rows of each pair.
    order : int64[m]
        The right rows that can be taken, the better ones last.
    threads : int
    """

    def __init__(
        self, plan: JoinPlan, left: TableRows, right: pa.RecordBatch, pairs: Iterator[pa.RecordBatch],
        order: np.ndarray, threads: int,
    ) -> None:
        super().__init__(plan, left, right, threads)
        self._pairs, self._order = pairs, order

    def close(self) -> None:
        super().close()
        self._pairs = iter(())

    def _found(self) -> np.ndarray:
        ranks = np.full(self._right.num_rows, -1, dtype=np.int64)
        ranks[self._order] = np.arange(len(self._order))
        best = np.full(self._left.rows, -1, dtype=np.int64)
        for batch in self._pairs:
            left, right = map(counted, batch.columns)
            np.maximum.at(best, left, ranks.take(right))
        out = np.full(len(best), -1, dtype=np.int32)
        there = np.flatnonzero(best >= 0)
        out[there] = self._order[best[there]]
        return out


def paired_pick(plan: JoinPlan, sources: tuple[Source, Source], threads: int) -> PairedPick | None:
    """The join of two tables that picks from pairs; None if a search costs less, or rows must be pushed."""
    picking, pick = picking_of(plan), plan.spec.pick
    assert pick is not None
    if picking.which == "nearest" or picking.n_search or pick.unbounded or not plan.kernel_terms:
        return None
    if plan.separation.residual or plan.raises or not all(source.in_memory for source in sources):
        return None
    plan = plan.own()
    given = sources[0].table(), sources[1].table()
    if not _pays(plan, given):
        return None
    tables = opened(plan, sources)
    if tables is None:
        return None
    (rows, _), right = tables
    read = SideReader(plan, picking).read(1, right, row_layouts(plan)[1].index, key_table(plan))
    if (read.wild is not None and read.wild.any()) or (read.odd is not None and read.odd.any()):
        return None
    usable = np.flatnonzero(read.usable)
    order = usable.take(np.lexsort(read.vals[picking.n_sort - 1 :: -1].take(usable, axis=1)))
    order = order if picking.which == "last" else order[::-1]
    return PairedPick(plan, rows, right, _pairs(plan, given, threads), order, threads)


def _pays(plan: JoinPlan, tables: tuple[pa.Table, pa.Table]) -> bool:
    """Return whether a left row has fewer matches than right rows that a search looks at, which cost about as much."""
    kept = kept_pairs(plan, (sample(tables[0], _SEEN[0]), sample(tables[1], _SEEN[1])))
    if not kept.size:
        return False
    shares, rows = kept.mean(axis=1), tables[1].num_rows
    looks = np.where(shares > 0, 1 / np.maximum(shares, 1 / rows), rows)
    return bool(shares.mean() * rows < looks.mean())


def _pairs(plan: JoinPlan, tables: tuple[pa.Table, pa.Table], threads: int) -> Iterator[pa.RecordBatch]:
    """Yield the numbers of both rows of each pair."""
    names = ["row", "row_of_right"]
    while any(name in table.column_names for name in names for table in tables):
        names = [f"{name}_" for name in names]
    left, right = (
        table.append_column(name, pa.chunked_array([whole_numbers(np.arange(table.num_rows))]))
        for table, name in zip(tables, names, strict=True)
    )
    spec = replace(plan.spec, schemas=(left.schema, right.schema), pick=None, how="inner", batch_size=1 << 18)
    output = chosen(plan_of(spec), names)
    sources = open_inputs(left, right)
    for source, kept in zip(sources, output.names, strict=True):
        source.keep(kept)
    arranged = arrange(output.plan, sources, threads)
    pairs = table_join(arranged, sources, threads)
    yield from map(output.pick, _pushed(arranged) if pairs is None else pairs.output())


def _pushed(arranged: Arranged) -> Iterator[pa.RecordBatch]:
    """Yield the pairs of rows that one operator finds."""
    op = SymmetricHashJoin.from_plan(arranged.plan, errors_first=arranged.errors_first)
    for p, piece in _turns(arranged) if arranged.sweep is None else arranged.sweep.turns(_PUSH_ROWS):
        yield from op.finish(SIDES[p]) if piece is None else op.push(SIDES[p], piece)


def _turns(arranged: Arranged) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """Yield (side, rows of it), first all right rows; (side, None) at its end."""
    for p in (1, 0):
        for batch in arranged.batches[p]:
            for start in range(0, batch.num_rows, _PUSH_ROWS):
                yield p, batch.slice(start, _PUSH_ROWS)
        yield p, None
