"""Join two tables slice by slice, with any number of threads.

Both tables are in the order of an axis. A slice is a range of rows of one side, its *own* side, and the rows of the
other side that can match them. Both are views of the tables. The start of a slice depends only on the rows and the
arguments of the join, never on the number of threads. Each slice is one call (``ivjoin.operator.match.whole``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.lookup.tables.ordered import count_to
from ivjoin.operator.match.whole import Part, Whole
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.outer.batches import pieces_of
from ivjoin.outer.values import has_value
from ivjoin.plan.cutting import Cut, cut_of, why_pushed
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.stream.sort.sorting import Arranged
from ivjoin.stream.sources.inputs import Source
from ivjoin.stream.tables.table_rows import Bounds, TableRows, any_late
from ivjoin.stream.workers import joined

__all__ = ["TableJoin", "table_join"]

_OWN_ROWS = 65_536  # rows of the own side in a slice, if the band is narrow
_BANDS = 8  # width of a slice in bands, so that few rows are in two slices
_MOST_OWN_ROWS = 1 << 20  # greatest number of own rows of a slice, for any width of its band
_MOST_COPIED = 4  # a slice's band may add _MOST_COPIED times the rows of the slice
_SEEN = 64  # rows whose window is sampled


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows from ``start`` to ``end`` of the own side, and the rows of the other side that can match them."""

    start: int
    end: int
    last: int  # end of the copies of own rows that rows with their home here can match
    first_other: int  # rows of the other side, to end_other
    end_other: int
    home: int  # rows of the other side whose home is this slice; complete only if they are emitted unmatched
    end_home: int

    @property
    def rows(self) -> int:
        return self.last - self.start + self.end_other - self.first_other


def slices_of(own: np.ndarray, low: Bounds, high: Bounds, both: bool, rows: int, missing: int = 0) -> list[Slice]:
    """Cut two sides at values of an axis into slices of at least ``rows`` own rows.

    - ``own`` : int64[n] are rising axis values. The first ``missing`` rows have no value and match nothing.
    - ``low`` and ``high`` bound the values that rows of the other side can match.
    - ``both``: unmatched rows of both sides are emitted. The home of a row of the other side is then the slice of the
      least value that it can match.
    """
    n, m = len(own), len(low)
    starts, at = [0], rows
    while at < n:
        start = at if at < missing else max(missing, int(np.searchsorted(own, own[at], side="left")))
        if start <= starts[-1]:  # all rows have one value
            start = int(np.searchsorted(own, own[at], side="right"))
        if start >= n:
            break
        starts.append(start)
        at = start + rows
    out = []
    home = 0
    for start, end in zip(starts, [*starts[1:], n], strict=True):
        end_home = m if end == n else 0 if end < missing else low.below(int(own[end]))
        first, end_other, last = home, end_home, end
        if end > max(start, missing):
            begins, ends = high.below(int(own[max(start, missing)])), low.up_to(int(own[end - 1]))
            first, end_other = (min(first, begins), end_home) if both else (min(begins, ends), ends)
        elif not both:
            end_other = first
        if both and end < n and end_home > home:
            last = max(end, count_to(own, high.at(end_home - 1), True))
        out.append(Slice(start, end, last, first, end_other, home, end_home))
        home = end_home
    return out


class TableJoin:
    """The join of two tables along a cut, in ordered slices. ``first`` is the Whole that has checked the rows."""

    def __init__(
        self, plan: JoinPlan, cut: Cut, sides: tuple[TableRows, TableRows], slices: list[Slice], threads: int,
        first: Whole,
    ) -> None:
        self.plan, self._cut, self._sides, self.slices, self._threads = plan, cut, sides, slices, threads
        self._spare = [first]
        self._counts = _Counts(cut.own)
        self._rows_out = self._at = 0

    @property
    def schema(self) -> pa.Schema:
        return self.plan.schema

    @property
    def metrics(self) -> JoinMetrics:
        """Counts so far. The state is the rows of running slices, including copies, and their scratch memory."""
        m = JoinMetrics(rows_out=self._rows_out)
        self._counts.fill(m)
        return m

    def output(self) -> Iterator[pa.RecordBatch]:
        """Yield the output slice by slice, in batches of at most ``batch_size`` rows."""
        for number, batch in joined(self.slices, self._joiner, self._threads):
            self._at = number
            for piece in pieces_of(batch, self.plan.spec.batch_size):
                self._rows_out += piece.num_rows
                yield piece
        self._at = len(self.slices)

    def output_bounds(self) -> dict[str, tuple[Any, Any]]:
        """Return bounds of later output rows, like ``SymmetricHashJoin.output_bounds``."""
        op = SymmetricHashJoin.from_plan(self.plan)
        part = self.slices[self._at] if self._at < len(self.slices) else None
        for s in (0, 1):
            first = self._sides[s].rows
            if part is not None:
                first = part.start if s == self._cut.own else part.first_other
            if first < self._sides[s].rows:
                list(op.reach(SIDES[s], self._edges(s, first)))
            else:
                list(op.finish(SIDES[s]))
        return op.output_bounds()

    def _edges(self, s: int, row: int) -> list[int | None]:
        """Return how far the orders of a side have advanced at a row."""
        batch = self._sides[s].part(row, row + 1)
        orders = [(n, o.descending) for n, _, o in self.plan.sides[s].orders if not o.follows]
        edges: list[int | None] = []
        found = evaluate([n for n, _ in orders], lambda _, name: batch.column(name), 1)
        for (node, falls), v in zip(orders, found, strict=True):
            value = int(ordinals(v.values, node.type)[0])
            present = has_value(v)
            edges.append(None if present is not None and not present[0] else ~value if falls else value)
        return edges

    def close(self) -> None:
        self._spare.clear()
        left, right = (TableRows(pa.Table.from_batches([], side.schema)) for side in self.plan.sides)
        self._sides = left, right

    def _joiner(self) -> partial[Iterator[pa.RecordBatch]]:
        try:
            whole = self._spare.pop()
        except IndexError:
            whole = Whole(self.plan, self._cut.own)
        return partial(_join, self._counts, self._sides, whole)


class _Counts:
    """The counts of all threads. Any thread may append to the lists."""

    def __init__(self, own: int) -> None:
        self._own = own
        self._begun: list[Slice] = []
        self._done: list[Slice] = []
        self._peaks: list[tuple[int, int]] = []

    def begin(self, part: Slice, nbytes: int) -> None:
        self._begun.append(part)
        at_work = self._begun[len(self._done) :]  # approximate, because other threads begin and end slices
        self._peaks.append((sum(s.rows for s in at_work), nbytes * len(at_work)))

    def end(self, part: Slice) -> None:
        self._done.append(part)

    def fill(self, m: JoinMetrics) -> None:
        begun, done = list(self._begun), list(self._done)
        rows = [sum(s.end - s.start for s in parts) for parts in (begun, done)]
        others = [sum(s.end_home - s.home for s in parts) for parts in (begun, done)]
        left, right = (others, rows) if self._own else (rows, others)
        m.left_rows_in, m.left_rows_retired = left
        m.right_rows_in, m.right_rows_retired = right
        m.state_rows = sum(s.rows for s in begun) - sum(s.rows for s in done)
        m.peak_state_rows = max((rows for rows, _ in self._peaks), default=0)
        m.peak_state_bytes = max((size for _, size in self._peaks), default=0)


def _join(
    counts: _Counts, sides: tuple[TableRows, TableRows], whole: Whole, part: Slice
) -> Iterator[pa.RecordBatch]:
    own = whole.probe
    counts.begin(part, whole.nbytes)
    mine = Part(sides[own].part(part.start, part.last), 0, part.end - part.start)
    theirs = Part(
        sides[1 - own].part(part.first_other, part.end_other), max(0, part.home - part.first_other),
        max(0, part.end_home - part.first_other),
    )
    yield from whole.join(*((mine, theirs) if own == 0 else (theirs, mine)))
    counts.end(part)


def table_join(arranged: Arranged, sources: tuple[Source, Source], threads: int) -> TableJoin | None:
    """Return the join of two inputs in slices, or None unless both are tables in memory that can be cut."""
    plan = arranged.plan
    cut = cut_of(plan)
    if isinstance(cut, str) or why_pushed(plan) or arranged.errors_first:
        return None
    found = [_rows_of(arranged, source, s, threads) for s, source in enumerate(sources)]
    if found[0] is None or found[1] is None:
        return None
    sides = found[0], found[1]
    mine = sides[cut.own].values(cut.node, cut.falling)
    if mine is None or not mine.rises:
        return None
    other = sides[1 - cut.own]
    lows, highs = (cut.highs, cut.lows) if cut.falling else (cut.lows, cut.highs)
    low, high = other.moved(lows, cut, ends=False), other.moved(highs, cut, ends=True)
    if low is None or high is None:
        return None
    rows = _own_rows(mine.values, low, high)
    if rows is None or not all(side.is_cut(2 * rows) for side in sides):
        return None
    never_null = any(
        source.table().column(i).null_count
        for s, source in enumerate(sources) if source.in_memory
        for i, f in enumerate(plan.sides[s].schema) if not f.nullable
    )
    clean = _clean(plan, arranged, sides)
    whole = Whole(plan, cut.own)
    if never_null or any_late(plan, sides, clean):
        return None
    if any(whole.strays(s, side.batches(), side.spans()) for s, side in enumerate(sides)):
        return None
    slices = slices_of(mine.values, low, high, cut.both, rows, sides[cut.own].missing)
    return TableJoin(plan, cut, sides, slices, threads, whole)


def _rows_of(arranged: Arranged, source: Source, s: int, threads: int) -> TableRows | None:
    ready = arranged.ready[s]
    if ready is not None:
        if ready.table is None or ready.node is None or ready.ordinals is None:
            return None
        return TableRows(ready.table, (ready.node, ready.ordinals), threads)
    return TableRows(source.table(), threads=threads) if source.in_memory else None


def _clean(
    plan: JoinPlan, arranged: Arranged, sides: tuple[TableRows, TableRows]
) -> tuple[frozenset[Node], frozenset[Node]]:
    """Return for each side the ordered expressions whose order every row follows."""
    left, right = (
        frozenset(
            node for node, _, order in plan.sides[s].orders
            if arranged.ready[s] is not None or side.keeps_order(node, order.descending)
        )
        for s, side in enumerate(sides)
    )
    return left, right


def _own_rows(own: np.ndarray, low: Bounds, high: Bounds) -> int | None:
    """Return the number of own rows of a slice, or None if its band would copy too many rows."""
    n, m = len(own), len(low)
    if not n or not m:
        return _OWN_ROWS
    some = [int(own[i]) for i in range(0, n, max(1, n // _SEEN))]
    window = sum(low.up_to(x) - high.below(x) for x in some) / len(some)
    band = int(max(0, window) * n / m)  # approximate own rows in one window
    rows = min(max(_OWN_ROWS, _BANDS * band), _MOST_OWN_ROWS)
    return None if n > rows and band > _MOST_COPIED * rows else rows
