"""Sort right rows by key and an axis, and look up the range that a left row can match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import Vector
from ivjoin.errors import EvaluationError
from ivjoin.operator.lookup.aggregates.reduce import DoubleSums, LeastTree, Ranges, SumTree
from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.tables.ordered import rises
from ivjoin.plan.cutting import shifted
from ivjoin.shj.kernels.lookup import grouped_kernels
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.sorting import order_by_key
from ivjoin.shj.store.disk.backing import Files
from ivjoin.shj.store.values.value_blocks import ValueBlocks

__all__ = ["Pairs", "Run", "RunRanges", "Term", "by_arrival", "reach", "sorted_rows", "window"]

Pairs = tuple[np.ndarray, np.ndarray]  # left row numbers and places in a run, int64[p] each
_DENSE, _SMALL = 4, 1024  # keys are counted in a table of at most _DENSE entries per row, plus _SMALL


@dataclass(frozen=True, slots=True)
class Term:
    """``low <= left axis - right axis <= high``, in ordinals; None for an open end."""

    left: int
    right: int
    low: int | None
    high: int | None


@dataclass(slots=True)
class RunRanges:
    """The places of left rows' matches in a run."""

    ranges: Ranges  # one for each left row
    rest: list[Term]  # the terms that remain to be checked for each pair


def reach(rows: Rows, term: Term) -> tuple[np.ndarray, np.ndarray]:
    """Return the closed range of the right axis that each left row can match. It is empty if low > high."""
    at = rows.axes[term.left]
    low = np.full(len(at), I64_MIN) if term.high is None else shifted(at, -term.high)
    high = np.full(len(at), I64_MAX) if term.low is None else shifted(at, -term.low)
    if term.high is not None and term.high < 0:
        # No ordinal is beyond the greatest one.
        high = np.where(at > I64_MAX + term.high, I64_MIN, high)
        low = np.where(at > I64_MAX + term.high, I64_MAX, low)
    if term.low is not None and term.low > 0:
        low = np.where(at < I64_MIN + term.low, I64_MAX, low)
        high = np.where(at < I64_MIN + term.low, I64_MIN, high)
    if term.left in rows.absent:  # if the value has an error, any row may match
        low, high = np.where(rows.absent[term.left], I64_MIN, low), np.where(rows.absent[term.left], I64_MAX, high)
    return low, high


def window(rows: Rows, terms: Sequence[Term]) -> tuple[np.ndarray, np.ndarray]:
    """Return the closed range of one right axis that satisfies the terms on it : (int64[n], int64[n])."""
    if not terms:
        return np.full(len(rows), I64_MIN), np.full(len(rows), I64_MAX)
    low, high = reach(rows, terms[0])
    for t in terms[1:]:
        more_low, more_high = reach(rows, t)
        low, high = np.maximum(low, more_low), np.minimum(high, more_high)
    return low, high


def by_arrival(rows: Rows) -> Rows:
    return rows if rises(rows.seq) else rows.take(np.argsort(rows.seq, kind="stable"))


def sorted_rows(rows: Rows, axis: int | None) -> Rows:
    """Return rows sorted by key, then by an axis. Rows that are equal in both stay in order of arrival."""
    kids = rows.kids
    values = np.zeros(len(rows), dtype=np.int64) if axis is None else rows.axes[axis]
    if not len(rows) or (rises(kids) and (axis is None or (kids[0] == kids[-1] and rises(values)))):
        return rows
    least, most = int(kids.min()), int(kids.max())
    if most - least < _DENSE * len(rows) + _SMALL:
        return rows.take(order_by_key(kids - least, values, most - least + 1)[2])
    order = np.argsort(kids, kind="stable")  # this sort merges runs that are already sorted
    kids, values = kids.take(order), values.take(order)
    new = kids[1:] != kids[:-1]
    if bool((~new & (values[1:] < values[:-1])).any()):
        kids[0] = 0
        np.cumsum(new, out=kids[1:])  # from here on, these are numbers of the keys
        order = order.take(order_by_key(kids, values, int(kids[-1]) + 1)[2])
    del kids, values, new
    return rows.take(order)


class Run:
    """Right rows sorted by :func:`sorted_rows`, with cached results. ``axis`` sorts them within a key."""

    def __init__(self, rows: Rows, axis: int | None) -> None:
        self.rows = rows
        self.axis = axis
        kids = rows.kids
        new = np.empty(len(kids), dtype=bool)
        new[:1] = True
        np.not_equal(kids[1:], kids[:-1], out=new[1:])
        self._starts = np.append(np.flatnonzero(new), len(kids))
        self._kids = kids[self._starts[:-1]]
        self._new = new
        self._rises: dict[int, bool] = {}
        self._blocks: dict[int, ValueBlocks] = {}
        self.kept: dict[Any, Any] = {}  # results of reductions of its columns

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        made = sum(b.nbytes for b in self._blocks.values())
        own = self._starts.nbytes + self._kids.nbytes + self._new.nbytes
        return self.rows.nbytes + own + made + sum(map(_bytes, [*self.kept.values()]))

    def spilled(self, files: Files) -> Run:
        """Return the run with its columns in a file. Cached results are retained, except text."""
        run = copy(self)
        run.rows, run.kept = self.rows.spilled(files), {k: v for k, v in self.kept.items() if not _has_text(v)}
        return run

    def find(self, left: Rows, terms: Sequence[Term]) -> RunRanges:
        """Return ranges with all matches of each left row, as narrow as the run's order permits."""
        lo, hi = self._spans(left.kids)
        rest = []
        by_axis: dict[int, list[Term]] = {}
        for t in terms:
            by_axis.setdefault(t.right, []).append(t)
        for axis, same in by_axis.items():
            if not self._in_order(axis):
                rest += same
                continue
            low, high = window(left, same)
            if any(t.high is not None for t in same):
                lo = self.place(axis, (lo, hi), low)
            if any(t.low is not None for t in same):
                hi = self.place(axis, (lo, hi), high, after=True)
            hi = np.where(low > high, lo, hi)
        return RunRanges(Ranges(lo, hi), rest)

    def place(
        self, axis: int, within: tuple[np.ndarray, np.ndarray], values: np.ndarray, after: bool = False
    ) -> np.ndarray:
        """Return the position of values on an axis within a range of each left row : int64[n].

        With ``after``, the position is after equal values. EvaluationError is raised if the axis has an error for a
        row.
        """
        if not self._in_order(axis):
            raise EvaluationError(
                "the right side of the window's condition has an error for a row; use try_add or TRY_CAST there"
            )
        out = np.empty(len(values), dtype=np.int64)
        grouped_kernels.place_within(
            *map(np.ascontiguousarray, (*within, self.rows.axes[axis], values)), after, out
        )
        return out

    def below(self, left: Rows, axis: int, low: np.ndarray) -> np.ndarray:
        """Return the place of the last row below ``low`` with the key of each left row : int64[n], or -1."""
        start, stop = self._spans(left.kids)
        at = self.place(axis, (start, stop), low)
        return np.where(at > start, at - 1, -1)

    def keys(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the start and the number of each key's rows : (int64[u], int64[u])."""
        return self._starts[:-1], np.diff(self._starts)

    def _spans(self, kids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the start and the stop of the rows with each left row's key : (int64[n], int64[n])."""
        if not len(self):
            return np.zeros(len(kids), dtype=np.int64), np.zeros(len(kids), dtype=np.int64)
        least, most = int(self._kids[0]), int(self._kids[-1])
        if most - least < _DENSE * len(kids) + _SMALL:
            counts = np.zeros(most - least + 2, dtype=np.int64)
            counts[self._kids - least + 1] = np.diff(self._starts)
            table = np.cumsum(counts)
            inside = (kids >= least) & (kids <= most)
            at = np.where(inside, kids, least) - least
            start = table.take(at)
            return start, np.where(inside, table.take(at + 1), start)
        at = np.minimum(np.searchsorted(self._kids, kids), len(self._kids) - 1)
        start = self._starts.take(at)
        return start, np.where(self._kids.take(at) == kids, self._starts.take(at + 1), start)

    def parts(self, most: int) -> Iterator[Run]:
        """Yield parts of the run that contain whole keys, with about ``most`` rows each."""
        start = 0
        while start < len(self):
            stop = int(self._starts[np.searchsorted(self._starts, min(start + most, len(self)))])
            yield Run(self.rows.slice(start, stop), self.axis)
            start = stop

    def same(self) -> tuple[np.ndarray, np.ndarray]:
        """Return for each row the start and the stop of the rows with its key and axis value : int64[n]."""
        if "same" not in self.kept:
            assert self.axis is not None
            values = self.rows.axes[self.axis]
            edges = np.flatnonzero(self._new | np.concatenate(([True], values[1:] != values[:-1]))[: len(values)])
            sizes = np.diff(np.append(edges, len(values)))
            self.kept["same"] = np.repeat(edges, sizes), np.repeat(edges + sizes, sizes)
        start, stop = self.kept["same"]
        return start, stop

    def pairs(
        self, left: Rows, found: RunRanges, most: int, trim: Callable[[Run, Rows, Ranges], Ranges] | None = None
    ) -> tuple[Pairs, int]:
        """Return pairs that satisfy all terms, and the number of left rows that they cover.

        See :meth:`ValueBlocks.pairs`.

        ``found`` are the places found by :meth:`find`. ``trim`` may narrow their ranges if no other term remains.
        """
        ranges = found.ranges
        found.rest.sort(key=lambda t: t.low is not None)  # a sweep needs a term without an upper limit first
        if not found.rest:
            if trim is not None:
                ranges = trim(self, left, ranges)
            done = len(left)
            if ranges.total > most:
                done = max(1, int(np.searchsorted(np.cumsum(ranges.sizes), most, side="right")))
                ranges = Ranges(ranges.lo[:done], ranges.hi[:done])
            return (np.repeat(np.arange(done), ranges.sizes), ranges.positions()), done
        blocks = self.blocks(found.rest[0].right)
        bounds = ranges.lo, ranges.hi, *reach(left, found.rest[0])
        here, there, done = blocks.found(*bounds, most)
        return self.within(left, found.rest[1:], here, there), done

    def within(self, left: Rows, terms: Sequence[Term], here: np.ndarray, there: np.ndarray) -> Pairs:
        """Return the pairs that satisfy terms. A right row without a value may satisfy any term of its axis."""
        for t in terms:
            low, high = reach(left, t)
            values = self.rows.axes[t.right][there]
            inside = (values >= low[here]) & (values <= high[here])
            if t.right in self.rows.absent:
                inside |= self.rows.absent[t.right][there]
            here, there = here[inside], there[inside]
        return here, there

    def blocks(self, axis: int) -> ValueBlocks:
        if axis not in self._blocks:
            self._blocks[axis] = ValueBlocks.of(self.rows.axes[axis], self.rows.absent.get(axis))
        return self._blocks[axis]

    def asks(self, terms: Sequence[Term]) -> bool:
        """Return whether a term remains to be checked for each pair."""
        return any(not self._in_order(t.right) for t in terms)

    def _in_order(self, axis: int) -> bool:
        """Return whether the rows of each key rise along an axis, and all have a value there."""
        if axis not in self._rises:
            values = self.rows.axes[axis]
            falls = values[1:] < values[:-1]
            self._rises[axis] = axis not in self.rows.absent and not bool((falls & ~self._new[1:]).any())
        return self._rises[axis]


def _parts(kept: Any) -> Sequence[Any]:
    """Return the arrays of a cached result."""
    if isinstance(kept, Vector):
        return kept.values, kept.valid, kept.error
    if isinstance(kept, (DoubleSums, LeastTree, SumTree)):
        return [getattr(kept, f.name) for f in fields(kept)]
    return kept if isinstance(kept, (tuple, list)) else (kept,)


def _bytes(kept: Any) -> int:
    return sum(part.nbytes for part in _parts(kept) if hasattr(part, "nbytes"))


def _has_text(kept: Any) -> bool:
    return any(isinstance(part, (pa.Array, pa.ChunkedArray)) for part in _parts(kept))
