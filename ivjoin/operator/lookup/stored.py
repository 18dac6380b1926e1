"""Store left rows until no right row can match them, and right rows while a left row can match them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ivjoin.operator.lookup.rows import Rows, joined
from ivjoin.operator.lookup.run import Run, Term, by_arrival, sorted_rows
from ivjoin.plan.cutting import shifted
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.store.disk.backing import Files

__all__ = ["AxisBounds", "LeftRows", "RightRows", "WaitingKeys", "dead_rows", "spill", "split"]

AxisBounds = Sequence[tuple[int, int]] | None  # closed bounds of each axis; None if no row can match

_TOGETHER = 4096  # parts of fewer rows are merged with the next part, before they become a run
_CHUNK = 1 << 16  # the same for waiting rows; a limit, because copying more rows at once takes memory
_IDLE = 8  # rows are evicted when 1 / _IDLE of the right rows is dead


class LeftRows:
    def __init__(self) -> None:
        self.chunks: list[Rows] = []

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    @property
    def nbytes(self) -> int:
        return sum(c.nbytes for c in self.chunks)

    def add(self, rows: Rows) -> None:
        if len(rows):
            _put(self.chunks, rows, _CHUNK)

    def keep(self, chunks: Sequence[Rows]) -> None:
        self.chunks = [c for c in chunks if len(c)]

    def hull(self, axis: int) -> tuple[int, int] | None:
        """Return the least and greatest ordinal of an axis, or None if a row has no value there."""
        if any(axis in c.absent for c in self.chunks):
            return None
        spans = [s for c in self.chunks if (s := c.span(axis)) is not None]
        return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None

    def by_key(self, axes: Iterable[int]) -> WaitingKeys | None:
        """Return the ends of axes over the rows of each key, or None without rows."""
        if not self.chunks:
            return None
        kids = np.concatenate([c.kids for c in self.chunks])
        order = np.argsort(kids, kind="stable")
        kids = kids.take(order)
        starts = np.flatnonzero(np.concatenate(([True], kids[1:] != kids[:-1])))
        ends = {}
        for axis in dict.fromkeys(axes):
            found = []
            for end, reduced in ((I64_MIN, np.minimum), (I64_MAX, np.maximum)):
                parts = [np.where(c.absent[axis], end, c.axes[axis]) if axis in c.absent else c.axes[axis]
                         for c in self.chunks]  # fmt: skip
                found.append(reduced.reduceat(np.concatenate(parts).take(order), starts))
            ends[axis] = found[0], found[1]
        return WaitingKeys(kids.take(starts), ends)


@dataclass(frozen=True, slots=True)
class WaitingKeys:
    """The keys of waiting left rows, and the least and greatest value of some axes over the rows of each key."""

    kids: np.ndarray  # int64[u], rising
    ends: dict[int, tuple[np.ndarray, np.ndarray]]  # int64[u]; a row without a value has both ends of int64

    def places(self, kids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = np.minimum(np.searchsorted(self.kids, kids), len(self.kids) - 1)
        return at, self.kids.take(at) == kids

    def takes(self, rows: Rows, terms: Sequence[Term]) -> np.ndarray:
        """Return the right rows that a waiting row may match : bool[n]."""
        at, there = self.places(rows.kids)
        for t in terms:
            values = rows.axes[t.right]
            inside = np.ones(len(rows), dtype=bool)
            if t.high is not None:
                inside &= values >= shifted(self.ends[t.left][0], -t.high).take(at)
            if t.low is not None:
                inside &= values <= shifted(self.ends[t.left][1], -t.low).take(at)
            there &= inside | rows.absent[t.right] if t.right in rows.absent else inside
        return there


class RightRows:
    """Right rows that a left row may match. Each run is at least twice as long as the next (a log-structured merge)."""

    def __init__(self, axis: int | None) -> None:
        self.runs: list[Run] = []
        self._axis = axis
        self._fresh: list[Rows] = []  # not part of a run yet
        self.evicted: list[Rows] | None = None  # evicted rows to emit; None: drop them

    def __len__(self) -> int:
        return sum(map(len, self.runs)) + sum(map(len, self._fresh))

    @property
    def nbytes(self) -> int:
        return sum(r.nbytes for r in self.runs) + sum(r.nbytes for r in self._fresh)

    @property
    def unread(self) -> int:
        """Return the number of rows without computed results."""
        return sum(len(r) for r in self.runs if not r.kept) + sum(map(len, self._fresh))

    def add(self, rows: Rows) -> None:
        if len(rows):
            _put(self._fresh, rows, _TOGETHER)

    def sorted(self) -> list[Run]:
        """Return all rows as runs."""
        if self._fresh:
            self._put(joined(self._fresh))
            self._fresh = []
        return self.runs

    def _put(self, rows: Rows) -> None:
        parts = [rows]
        n = len(rows)
        while self.runs and len(self.runs[-1]) < 2 * n:
            parts.append(self.runs.pop().rows)
            n += len(parts[-1])
        parts.reverse()
        self.runs.append(self._run(parts))

    def _run(self, parts: list[Rows]) -> Run:
        """Return one run of parts. This empties the list, so that its rows are freed before the sort."""
        rows = joined(parts)
        parts.clear()
        rows = sorted_rows(rows, self._axis)
        return Run(rows, self._axis)

    def clear(self) -> None:
        if self.evicted is not None:
            self.evicted += self.each()
        self.runs, self._fresh = [], []

    def merge(self) -> None:
        """Merge all runs into one."""
        runs = self.sorted()
        if len(runs) > 1:
            parts = [r.rows for r in runs]
            runs.clear()
            runs.append(self._run(parts))

    def evict(self, dead: Callable[[Run], np.ndarray], force: bool) -> None:
        """Evict the rows that ``dead`` marks : bool[n].

        ``force``: copy the remaining rows even if few rows are evicted.
        """
        runs, self.runs = self.sorted(), []
        for run in runs:
            gone = dead(run)
            count = int(np.count_nonzero(gone))
            if not count or not (force or count * _IDLE >= len(run)):
                self.runs.append(run)
                continue
            if self.evicted is not None:
                self.evicted.append(run.rows.take(np.flatnonzero(gone)))
            if count < len(run):
                self.runs.append(Run(run.rows.take(np.flatnonzero(~gone)), self._axis))

    def spill(self, files: Files) -> None:
        for i, run in enumerate(self.runs):
            if not run.rows.lies_in_files:
                self.runs[i] = run.spilled(files)
        spill(self._fresh, files)

    def compact(self, files: Files) -> None:
        """Rewrite the columns of runs whose files are much longer than needed."""
        for i, run in enumerate(self.runs):
            rows = run.rows.compacted(files)
            if rows is not run.rows:
                self.runs[i] = Run(rows, self._axis)

    def each(self) -> Iterator[Rows]:
        yield from (r.rows for r in self.runs)
        yield from self._fresh

    def not_emitted(self) -> Iterator[Rows]:
        """Yield the stored rows, and the rows that a refused batch has evicted. The next batch emits the latter."""
        yield from self.each()
        yield from self.evicted or ()

    def replace(self, change: Callable[[Rows], Rows]) -> None:
        parts = [by_arrival(change(rows)) for rows in self.each()]
        self.runs, self._fresh = [], [p for p in parts if len(p)]


def spill(parts: list[Rows], files: Files) -> None:
    for i, rows in enumerate(parts):
        if not rows.lies_in_files:
            parts[i] = rows.spilled(files)


def _put(parts: list[Rows], rows: Rows, most: int) -> None:
    """Append rows. Merge them with earlier parts that have fewer than twice as many rows, and fewer than ``most``.

    Each part costs memory and time. As in a log-structured merge tree, a row is copied a logarithmic number of times.
    """
    parts.append(rows)
    while len(parts) > 1 and len(parts[-2]) < min(2 * len(parts[-1]), most) and not parts[-2].filed:
        parts[-2:] = [joined(parts[-2:])]


def split(rows: Rows, done: np.ndarray) -> tuple[Rows, Rows]:
    """Return the unmarked rows, and the marked rows : bool[n]. If the marked rows come first, no row is copied."""
    n, count = len(rows), int(np.count_nonzero(done))
    if not count or not done[:count].all():
        return (rows.take(np.flatnonzero(~done)) if count else rows), rows.take(np.flatnonzero(done))
    rest = rows.slice(count, n)
    few = rest.seq.base is not None and 2 * len(rest) < len(rest.seq.base)  # most of its arrays is unused
    return (rest.apart() if few else rest), rows if count == n else rows.slice(0, count)


def dead_rows(rows: Rows, bounds: AxisBounds, spared: WaitingKeys | None, terms: Sequence[Term]) -> np.ndarray:
    dead = rows.outside(bounds)
    if spared is not None and dead.any():
        dead &= ~spared.takes(rows, terms)
    return dead
