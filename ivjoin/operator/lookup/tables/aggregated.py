"""Aggregate the matches of left rows slice by slice, without creating the pairs.

The right rows of a slice are grouped by key. The matches of a left row are then a range of its key's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.expr.nodes import Node
from ivjoin.operator.lookup.aggregates.measure import Measure
from ivjoin.operator.lookup.aggregates.reduce import Ranges
from ivjoin.operator.lookup.aggregates.source import RightValues
from ivjoin.operator.lookup.answer import MOST_PAIRS, parts_within
from ivjoin.operator.lookup.key_ids import KeyIds
from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.tables.ordered import BoundTerm, Sorted, count_to, rises
from ivjoin.plan.layout import RowLayout
from ivjoin.shj.kernels.lookup import lookup_kernels

__all__ = ["Aggregated", "Window"]

_BEHIND = 8  # entries that the kernels may read beyond the last one
_FEW = 1 << 16  # up to this number of ids, slices need no separate tables


@dataclass(frozen=True, slots=True)
class Window:
    """Closed bounds of right values, ``left value + offset``, as (left line, right line, offset)."""

    lows: list[BoundTerm]
    highs: list[BoundTerm]


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Aggregates of left rows over two sorted sides."""

    left: Sorted
    right: Sorted
    ids: KeyIds
    window: Window
    columns: list[pa.Array]  # the stored right columns
    layout: RowLayout  # of the right side
    measures: Sequence[Measure]
    order: tuple[Node, bool] | None  # the order of first and last, and whether it falls
    in_order: bool  # whether the rows of each key are in that order

    def pieces(self, part: slice) -> Iterator[tuple[np.ndarray, list[pa.Array]]]:
        """Yield the number of matches of each left row of a slice, and its aggregates."""
        begin, end = self.reach(part)
        n, m = part.stop - part.start, end - begin
        first, last = np.zeros(n, dtype=np.int32), np.full(n, m, dtype=np.int32)
        spare, all_rise = np.empty(n, dtype=np.int32), True
        for terms, closed, out, meet in (
            (self.window.lows, 0, first, np.maximum), (self.window.highs, 1, last, np.minimum),
        ):
            for mine, theirs, by in terms:
                probes = self.left.lines[mine][part]
                way = rises(probes)
                all_rise = all_rise and way
                lookup_kernels.count_below(self.right.lines[theirs][begin:end], probes, way, by, closed, 0, spare)
                meet(out, spare, out=out)
        rows, ranges = self._ranges(part, begin, end, first, last, all_rise)
        at = self.right.rows_at(rows[:m].astype(np.int64) + begin)
        source = RightValues(Rows(self.columns, at, at, [], {}, at), self.layout, {}, self.order, self.in_order)
        lists = any(m.aggregate.function == "array_agg" for m in self.measures)
        for cut in parts_within(ranges.sizes, MOST_PAIRS) if lists else [slice(0, n)]:
            some = Ranges(ranges.lo[cut], ranges.hi[cut]) if lists else ranges
            yield some.sizes, [m.finish(m.over(source, some)) for m in self.measures]

    def reach(self, part: slice) -> tuple[int, int]:
        """Return the range of places that the rows of a slice can match."""
        begin, end = 0, len(self.right)
        if part.stop > part.start:
            for mine, theirs, by in self.window.lows:
                least = int(self.left.lines[mine][part].min()) + by
                begin = max(begin, count_to(self.right.lines[theirs], least, False))
            for mine, theirs, by in self.window.highs:
                most = int(self.left.lines[mine][part].max()) + by
                end = min(end, count_to(self.right.lines[theirs], most, True))
        return begin, max(begin, end)

    def _ranges(
        self, part: slice, begin: int, end: int, first: np.ndarray, last: np.ndarray, rise: bool
    ) -> tuple[np.ndarray, Ranges]:
        """Return the places sorted by key, and the range of each left row among them."""
        kids, theirs = self.left.kids(part.start, part.stop), self.right.kids(begin, end)
        n, m, n_ids = len(kids), len(theirs), self.ids.n_ids
        ids, build_ids = np.empty(n, dtype=np.int32), np.empty(m, dtype=np.int32)
        named = n_ids > 2 * (n + m) + _FEW
        table = np.zeros(max(64, 1 << (2 * m).bit_length()) if named else 0, dtype=np.int32)
        words = np.empty(m if named else 0, dtype=np.int64)
        n_ids = lookup_kernels.local_ids(theirs, kids, self.ids.least, n_ids, table, words, build_ids, ids)
        ends, tails = np.empty(2 * n_ids, dtype=np.int32), np.empty(n_ids, dtype=np.int32)
        rows = np.empty(m + _BEHIND, dtype=np.int32)
        low, high = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        lookup_kernels.group_ranges(build_ids, ids, first, last, rise, ends, tails, rows, low, high)
        return rows, Ranges(low, high)
