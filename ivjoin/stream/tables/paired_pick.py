"""Join two tables that take the best of all matches of each left row, with any number of threads.

A search in the order of the ranking value may read every right row for each left row, if no bound compares that value.
If a sample shows that few rows match, it costs less to find all matches. A pick of several rows, or by an expression
over both sides, always compares all matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.operator.key_values import key_hashes
from ivjoin.operator.lookup.best import padded
from ivjoin.operator.lookup.tables.one_run import OneRun
from ivjoin.operator.match.output import in_parts
from ivjoin.outer.batches import BatchRows
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import picking_of
from ivjoin.shj.kernels.lookup import grouped_kernels
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.stream.sort.axis import candidate_pairs, sample
from ivjoin.stream.sources.inputs import Source
from ivjoin.stream.tables.table_lookup import MatchedTables, parts_of
from ivjoin.stream.tables.table_sides import OUT_ROWS, TableSides
from ivjoin.stream.workers import each

__all__ = ["BestOfTables", "best_of_tables", "pairs_pay"]

_SEEN = 64, 2048  # left and right rows whose pairs are sampled
_FEW = 64  # matches of a left row that can be found in the time of a search
_SLICE_ROWS, _MOST_SLICES = 1 << 15, 64  # left rows of a slice, and slices
_NONE = np.empty(0, dtype=np.int64)


class BestOfTables(MatchedTables):
    """The join of two tables that takes the best matches, one or several, for each left row."""

    def __init__(self, sides: TableSides) -> None:
        super().__init__(sides.plan, sides.left, sides.right, sides.threads)
        self._run: OneRun | None = OneRun(sides.plan, sides.read, sides.batches, sides.keys)

    def close(self) -> None:
        super().close()
        self._run = None

    def _looked(self, add: Callable[[tuple[np.ndarray, np.ndarray]], None]) -> None:
        """Call ``add`` with the numbers of left rows and of the right rows that they take, slice by slice."""
        run = self._run
        assert run is not None

        def look(part: slice) -> None:
            for looked in run.look(part):
                add((looked.rows.seq.take(looked.here), looked.found.seq.take(looked.chosen)))

        n = len(run.left)
        each(parts_of(n, max(_SLICE_ROWS, n // _MOST_SLICES)), lambda: look, self._threads)

    def _found(self) -> np.ndarray:
        out = np.full(self._left.rows, -1, dtype=np.int32)
        self._looked(lambda pairs: out.__setitem__(*pairs))
        return out

    def _tasks(self) -> tuple[Sequence[Any], Callable[[Any], Iterator[pa.RecordBatch]]]:
        if self.plan.spec.picks_one:
            return super()._tasks()
        found: list[tuple[np.ndarray, np.ndarray]] = [(_NONE, _NONE)]
        self._looked(found.append)
        left, right = (np.concatenate(parts) for parts in zip(*found, strict=True))
        starts = np.zeros(self._left.rows + 1, dtype=np.int64)
        grouped, order = np.empty(len(right), dtype=np.int64), np.empty(len(right), dtype=np.int64)
        grouped_kernels.group_values(left, right, starts, grouped, order)
        right = grouped.astype(np.int32)
        self._metrics.state_bytes = self._metrics.peak_state_bytes = starts.nbytes + right.nbytes
        keep = self.plan.how.keep

        def batches(task: tuple[int, slice]) -> Iterator[pa.RecordBatch]:
            s, part = task
            if s == 1:
                yield self._builder.batch(None, BatchRows(self._right, untaken[part], self._widths[1]))
                return
            counts = np.diff(starts[part.start : part.stop + 1])
            index, rows = padded(counts, right[starts[part.start] : starts[part.stop]], keep[0] or None)
            yield from self._several(part, index, rows)

        taken = np.ones(self._right.num_rows, dtype=bool)
        if keep[1]:
            taken[:] = False
            taken[right] = True
        untaken = np.flatnonzero(~taken)
        tasks = [(0, part) for part in parts_of(self._left.rows, OUT_ROWS)]
        return [*tasks, *((1, part) for part in parts_of(len(untaken), OUT_ROWS))], batches

    def _several(self, part: slice, index: np.ndarray, found: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Yield output batches that pair left row ``index[i]`` of a part with right row ``found[i]``."""
        batch = self._left.part(part.start, part.stop)

        def built(cut: slice) -> pa.RecordBatch:
            return self._emitted(batch, index[cut], found[cut])

        for cut in parts_of(len(index), OUT_ROWS):
            yield from in_parts(built, cut.start, cut.stop)


def best_of_tables(plan: JoinPlan, sources: tuple[Source, Source], threads: int) -> BestOfTables | None:
    """Return the join of two tables that compares all matches of a left row, or None if rows must be pushed."""
    sides = TableSides.of(plan.own(), sources, threads)
    return None if sides is None else BestOfTables(sides)


def pairs_pay(plan: JoinPlan, sources: tuple[Source, Source], along: bool) -> bool:
    """Return whether to find all matches of tables. Otherwise a search costs less, or rows must be pushed.

    ``along``: right rows are sorted by the ranking value, so that a search is always preferred.
    """
    if not plan.kernel_terms or any(plan.overflows) or not all(source.in_memory for source in sources):
        return False
    return _pays(plan, (sources[0].table(), sources[1].table()), along)


def _pays(plan: JoinPlan, tables: tuple[pa.Table, pa.Table], along: bool) -> bool:
    """Return whether a left row has few matches, or fewer than the right rows that a search reads without an order."""
    some = sample(tables[0], _SEEN[0]), sample(tables[1], _SEEN[1])
    kept = candidate_pairs(plan, some)
    if not kept.size:
        return False
    rows = tables[1].num_rows
    matches = float((kept & _agree(plan, some)).mean()) * rows
    if matches <= _FEW:
        return True
    picking = picking_of(plan)
    first, terms = picking.which == "first", picking.terms[: picking.n_search]
    if picking.near is not None or any(t.low != I64_MIN if first else t.high != I64_MAX for t in terms):
        return False  # a search starts among the matches
    shares = kept.mean(axis=1)
    looks = np.where(shares > 0, 1 / np.maximum(shares, 1 / rows), rows)
    return along or matches < float(looks.mean())


def _agree(plan: JoinPlan, some: tuple[pa.RecordBatch, pa.RecordBatch]) -> np.ndarray:
    """Return the pairs of sampled rows with equal keys : bool[left rows, right rows]."""
    if not plan.sides[0].keys:
        return np.ones((some[0].num_rows, some[1].num_rows), dtype=bool)
    left, right = (
        key_hashes(plan, s, batch.num_rows, lambda _, name: batch.column(name))  # noqa: B023
        for s, batch in enumerate(some)
    )
    return left[:, None] == right[None]
