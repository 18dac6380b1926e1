"""Joins of two tables that take right rows from all matches of each left row, by any number of threads.

A search in the order of the value that picks may look at every right row if no bound compares that value. If few rows
match, as a sample shows, it costs less to find all matches. A pick of several rows, or by both sides, compares all
matches in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.operator.lookup.best import is_far, nearer
from ivjoin.operator.lookup.key_ids import key_table
from ivjoin.operator.lookup.sides import LookupSide, SideReader, Sorted
from ivjoin.operator.match.output import in_parts
from ivjoin.operator.windows.best import BestAnswers, Matches
from ivjoin.operator.windows.one_run import OneRun
from ivjoin.operator.windows.search import search_of
from ivjoin.outer.emit import BatchRows
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.picking.pick import Picking, picking_of
from ivjoin.shj.arrow import counted
from ivjoin.shj.dictionaries import one_array
from ivjoin.shj.kernels.lookup import grouped_kernels
from ivjoin.shj.sorting import in_order
from ivjoin.stream.sort.axis import kept_pairs, sample
from ivjoin.stream.sources.inputs import Source
from ivjoin.stream.threads.table_lookup import OUT_ROWS, MatchedRows, MatchedTables, opened, parts_of
from ivjoin.stream.threads.table_rows import TableRows
from ivjoin.stream.threads.table_window import evaluated_sides
from ivjoin.stream.workers import each

__all__ = ["BestOfTables", "PairedPick", "best_of_tables", "paired_pick"]

_SEEN = 64, 2048  # left and right rows of which pairs are looked at
_FEW = 64  # matches of a left row that are all found in the time of a search
_SLICE_ROWS, _MOST_SLICES = 1 << 15, 64  # left rows of a slice, and slices
_NONE = np.empty(0, dtype=np.int64)
_ABOVE = np.int64(2**63 - 1)


class _Matched(MatchedTables):
    """The join of two tables that compares all matches of a left row."""

    def __init__(self, plan: JoinPlan, left: TableRows, right: pa.RecordBatch, run: OneRun, threads: int) -> None:
        super().__init__(plan, left, right, threads)
        self._run: OneRun | None = run

    def close(self) -> None:
        super().close()
        self._run = None

    def _each(self, take: Callable[[np.ndarray, Matches], None]) -> None:
        """Call a function with left rows and their matches, for all left rows with a match."""
        run = self._run
        assert run is not None

        def look(part: slice) -> None:
            for rows, pairs in run.blocks(part):
                take(rows.seq, Matches(run, rows, run.runs, pairs or []))

        n = len(run.left)
        each(parts_of(n, max(_SLICE_ROWS, n // _MOST_SLICES)), lambda: look, self._threads)


class PairedPick(_Matched):
    """The join of two tables that takes one of the matches of a left row.

    ``order`` (int64[m]) has the right rows that can be taken, from the first to the last. ``near``: for each left row,
    the value to be near to, and for each right row in order, its value. ``usable``: left rows with such a value; None
    for all.
    """

    def __init__(
        self, plan: JoinPlan, left: TableRows, right: pa.RecordBatch, run: OneRun, order: np.ndarray,
        near: tuple[np.ndarray, np.ndarray] | None, usable: np.ndarray | None, threads: int,
    ) -> None:
        super().__init__(plan, left, right, run, threads)
        self._order, self._near, self._usable = order, near, usable

    def _found(self) -> np.ndarray:
        order, out = self._order, np.full(self._left.rows, -1, dtype=np.int32)
        ranks = np.full(self._right.num_rows, -1, dtype=np.int64)
        ranks[order] = np.arange(len(order))
        picking = picking_of(self.plan)

        def take(left: np.ndarray, matches: Matches) -> None:
            places = ranks.take(matches.seq)
            there = places >= 0
            if self._usable is not None:
                there &= self._usable.take(left.take(matches.here))
            here = matches.here if there.all() else matches.here[there]
            if not len(here):
                return
            places = places if there.all() else places[there]
            starts = np.flatnonzero(np.concatenate(([True], here[1:] != here[:-1])))
            rows = left.take(here[starts])
            if self._near is not None:
                best = self._nearest(picking, rows, places, starts)
            else:
                best = (np.maximum if picking.which == "last" else np.minimum).reduceat(places, starts)
            out[rows] = order.take(best)

        self._each(take)
        return out

    def _nearest(
        self, picking: Picking, rows: np.ndarray, places: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        """Return the nearest place for each left row; of places with equal values the first one."""
        assert self._near is not None
        x, values = self._near[0].take(rows), self._near[1]
        sizes = np.diff(np.append(starts, len(places)))
        found = values.take(places)
        below = found <= np.repeat(x, sizes)
        before = np.maximum.reduceat(np.where(below, places, -1), starts)
        same = below & (found == np.repeat(values.take(np.maximum(before, 0)), sizes))
        before = np.where(before < 0, -1, np.minimum.reduceat(np.where(same, places, _ABOVE), starts))
        after = np.minimum.reduceat(np.where(below, _ABOVE, places), starts)
        after = np.where(after == _ABOVE, -1, after)
        return nearer(x, values, before, after, picking.lines[1][0].type)


def paired_pick(
    plan: JoinPlan, sources: tuple[Source, Source], threads: int, order: np.ndarray | None = None
) -> PairedPick | None:
    """Return the join of two tables that takes one match; None if a search costs less, or rows must be pushed.

    ``order`` (int64[m]), if known, has the right rows that can be taken, as they are compared.
    """
    picking, pick = picking_of(plan), plan.spec.pick
    assert pick is not None
    if pick.unbounded or picking.step or not plan.kernel_terms or plan.raises or any(plan.overflows):
        return None
    if not all(source.in_memory for source in sources):
        return None
    plan = plan.own()
    if not _pays(plan, (sources[0].table(), sources[1].table())):
        return None
    tables = opened(plan, sources)
    if tables is None:
        return None
    rows, batches = tables
    right = batches[1][0]
    reader, table = SideReader(plan, picking), key_table(plan)
    index = [layout.index for layout in row_layouts(plan)]
    offered = LookupSide.of([reader.read(1, right, index[1], table)])
    if offered is None:
        return None
    if order is None:
        some = np.arange(len(offered)) if offered.usable is None else np.flatnonzero(offered.usable)
        lines = offered.vals[: picking.n_sort].take(some, axis=1)
        order = some.take(in_order(lines[0])[0] if len(lines) == 1 else np.lexsort(lines[::-1]))
    near = usable = None
    if picking.near >= 0:
        mine = LookupSide.of([reader.read(0, batch, index[0], table) for batch in batches[0]])
        if mine is None or is_far(mine.vals[picking.near], picking.lines[1][0].type.kind):
            return None
        near = mine.vals[picking.near], offered.vals[0].take(order)
        usable = mine.usable
    sides, keys = evaluated_sides(plan, batches)
    if sides is None:
        return None
    axis, ready = search_of(plan)[2], None
    same = axis is not None and picking.n_sort == 1 and picking.axes[1][axis] == 0  # the run has the same order
    if axis is not None and same and len(sides[1]) == len(order) == right.num_rows:
        ready = Sorted(offered.kids, order, {axis: offered.vals[0].take(order)})
    return PairedPick(plan, rows, right, OneRun(plan, sides, batches, keys, ready), order, near, usable, threads)


def _pays(plan: JoinPlan, tables: tuple[pa.Table, pa.Table]) -> bool:
    """Return whether a left row has few matches, or fewer than right rows that a search in no order looks at."""
    some = sample(tables[0], _SEEN[0]), sample(tables[1], _SEEN[1])
    kept = kept_pairs(plan, some)
    if not kept.size:
        return False
    rows = tables[1].num_rows
    matches = float((kept & _agree(plan, some)).mean()) * rows
    if matches <= _FEW:
        return True
    shares = kept.mean(axis=1)
    looks = np.where(shares > 0, 1 / np.maximum(shares, 1 / rows), rows)
    return not picking_of(plan).n_search and matches < float(looks.mean())


def _agree(plan: JoinPlan, some: tuple[pa.RecordBatch, pa.RecordBatch]) -> np.ndarray:
    """Return which pairs of sampled rows have equal keys : bool[left rows, right rows]."""
    agree = np.ones((some[0].num_rows, some[1].num_rows), dtype=bool)
    for nodes in zip(*(side.keys for side in plan.sides), strict=True):
        left, right = (
            evaluate([node], lambda _, name: batch.column(name), batch.num_rows)[0].values  # noqa: B023
            for node, batch in zip(nodes, some, strict=True)
        )
        if not isinstance(left, np.ndarray):
            codes = counted(one_array([*_chunks(left), *_chunks(right)]).dictionary_encode().indices.fill_null(-1))
            left, right = codes[: len(left)], codes[len(left) :]
        agree &= left[:, None] == right[None]
    return agree


def _chunks(array: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return [array] if isinstance(array, pa.Array) else array.chunks


class BestOfTables(_Matched):
    """The join of two tables that takes the best of all matches, one or several, for each left row."""

    def _tasks(self) -> tuple[Sequence[Any], Callable[[Any], Iterator[pa.RecordBatch]]]:
        run = self._run
        assert run is not None
        answers = run.answers
        assert isinstance(answers, BestAnswers)
        found: list[tuple[np.ndarray, np.ndarray]] = [(_NONE, _NONE)]

        def take(left: np.ndarray, matches: Matches) -> None:
            chosen = answers.chosen(matches)
            found.append((left.take(matches.here.take(chosen)), matches.seq.take(chosen)))

        self._each(take)
        left, right = (np.concatenate(parts) for parts in zip(*found, strict=True))
        starts, order = np.zeros(self._left.rows + 1, dtype=np.int64), np.empty(len(left), dtype=np.int64)
        grouped_kernels.group_rows(left, starts, order)
        right = right.take(order).astype(np.int32)
        self._metrics.state_bytes = self._metrics.peak_state_bytes = starts.nbytes + right.nbytes
        keep = self.plan.how.keep

        def batches(task: tuple[int, slice]) -> Iterator[pa.RecordBatch]:
            s, part = task
            if s == 1:
                yield self._emitter.batch(None, BatchRows(self._right, untaken[part], self._widths))
                return
            counts = np.diff(starts[part.start : part.stop + 1])
            index = np.repeat(np.arange(len(counts)), np.maximum(counts, 1) if keep[0] else counts)
            rows = right[starts[part.start] : starts[part.stop]]
            if len(index) > len(rows):
                there = counts.take(index) > 0
                padded = np.full(len(index), -1, dtype=np.int32)
                padded[there] = rows
                rows = padded
            yield from self._several(part, index, rows)

        taken = np.ones(self._right.num_rows, dtype=bool)
        if keep[1]:
            taken[:] = False
            taken[right] = True
        untaken = np.flatnonzero(~taken)
        tasks = [(0, part) for part in parts_of(self._left.rows, OUT_ROWS)]
        return [*tasks, *((1, part) for part in parts_of(len(untaken), OUT_ROWS))], batches

    def _several(self, part: slice, index: np.ndarray, found: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Yield left rows of a part, at ``index``, with right rows."""
        batch, widths = self._left.part(part.start, part.stop), row_layouts(self.plan)[0].widths

        def built(cut: slice) -> pa.RecordBatch:
            rows = BatchRows(batch, index[cut], widths)
            return self._emitter.batch(rows, MatchedRows(self._right, found[cut], self._widths))

        for cut in parts_of(len(index), OUT_ROWS):
            yield from in_parts(built, cut.start, cut.stop)


def best_of_tables(plan: JoinPlan, sources: tuple[Source, Source], threads: int) -> BestOfTables | None:
    """Return the join of two tables that compares all matches of a left row; None if rows must be pushed."""
    plan = plan.own()
    if plan.raises:
        return None
    tables = opened(plan, sources)
    if tables is None:
        return None
    rows, batches = tables
    right = batches[1][0]
    search_of(plan)  # adds axes
    sides, keys = evaluated_sides(plan, batches)
    if sides is None:
        return None
    return BestOfTables(plan, rows, right, OneRun(plan, sides, batches, keys), threads)
