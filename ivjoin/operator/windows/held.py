"""The stored rows: left rows until no right row can match them, and right rows while a left row can."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ivjoin.operator.memory.small_parts import put
from ivjoin.operator.windows.previous import without_older
from ivjoin.operator.windows.rows import Rows, joined
from ivjoin.operator.windows.run import Run, Term, in_order
from ivjoin.plan.cutting import shifted
from ivjoin.shj.store.disk.backing import Files
from ivjoin.shj.store.keys import KeyTable

__all__ = ["Bounds", "LeftRows", "RightRows", "Waiting", "dead_rows"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
Bounds = Sequence[tuple[int, int]] | None  # closed, for each axis; None if no row can match

_TOGETHER = 4096  # rows of a part up to which it is merged with the next, before it becomes a run
_IDLE = 8  # 1 in so many right rows may be dead without eviction


class LeftRows:
    """Left rows that are not decided."""

    def __init__(self) -> None:
        self.chunks: list[Rows] = []
        self._whole: list[int] = []  # rows of the original chunk that each chunk is the rest of

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    @property
    def nbytes(self) -> int:
        """The bytes of the rows."""
        return sum(c.nbytes for c in self.chunks)

    def add(self, rows: Rows) -> None:
        """Store more rows."""
        if not len(rows):
            return
        self._put(rows)
        while len(self.chunks) > 1 and len(self.chunks[-2]) < 2 * len(self.chunks[-1]) and not self.chunks[-2].filed:
            last, before = self.chunks.pop(), self.chunks.pop()
            del self._whole[-2:]
            self._put(joined([before, last]))

    def _put(self, rows: Rows) -> None:
        self.chunks.append(rows)
        self._whole.append(len(rows))

    def decided(self, bounds: Bounds) -> Iterator[Rows]:
        """Remove and yield the rows that no future right row can match."""
        chunks, wholes = self.chunks, self._whole
        self.chunks, self._whole = [], []
        out = []
        for rows, whole in zip(chunks, wholes, strict=True):
            done = rows.outside(bounds)
            count = int(np.count_nonzero(done))
            if count == len(rows):
                out.append(rows)
                continue
            left = rows
            if count and done[:count].all():
                out.append(rows.slice(0, count))
                left = rows.slice(count, len(rows))
                if 2 * len(left) < whole:
                    left, whole = left.apart(), len(left)
            elif count:
                out.append(rows.take(np.flatnonzero(done)))
                left = rows.take(np.flatnonzero(~done))
                whole = len(left)
            self.chunks.append(left)
            self._whole.append(whole)
        yield from out

    def keep(self, chunks: Sequence[Rows]) -> None:
        """Replace all rows."""
        self.chunks = [c for c in chunks if len(c)]
        self._whole = [len(c) for c in self.chunks]

    def hull(self, axis: int) -> tuple[int, int] | None:
        """Return the least and greatest ordinal of an axis; None if a row has no value there."""
        if any(axis in c.absent for c in self.chunks):
            return None
        spans = [s for c in self.chunks if (s := c.span(axis)) is not None]
        return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None

    def by_key(self, axes: Iterable[int]) -> Waiting | None:
        """Return the ends of axes over the rows of each key; None if there are no rows."""
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
        return Waiting(kids.take(starts), ends)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The keys of waiting left rows, and the least and greatest value of some axes over the rows of each key.

    Attributes
    ----------
    kids : int64[u]
        Rising.
    ends : dict of int to (int64[u], int64[u])
        A row without a value has both ends of int64.
    """

    kids: np.ndarray
    ends: dict[int, tuple[np.ndarray, np.ndarray]]

    def places(self, kids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the place of each key, and whether it is there : (int64[n], bool[n])."""
        at = np.minimum(np.searchsorted(self.kids, kids), len(self.kids) - 1)
        return at, self.kids.take(at) == kids

    def takes(self, rows: Rows, terms: Sequence[Term]) -> np.ndarray:
        """Return which right rows a waiting row may match : bool[n]."""
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
    """Right rows that a left row may match, in runs at least twice as long as the next (a log-structured merge)."""

    def __init__(self, axis: int | None, keys: KeyTable | None = None) -> None:
        self.runs: list[Run] = []
        self._axis = axis
        self.keys = keys  # the table of the key ids, if they are small numbers
        self._fresh: list[Rows] = []  # not part of a run yet
        self.evicted: list[Rows] | None = None  # where evicted rows go, if they may still be emitted
        self._since = 0  # rows that arrived since the last eviction

    def __len__(self) -> int:
        return sum(map(len, self.runs)) + sum(map(len, self._fresh))

    @property
    def nbytes(self) -> int:
        """The bytes of the rows and runs."""
        return sum(r.nbytes for r in self.runs) + sum(r.nbytes for r in self._fresh)

    def add(self, rows: Rows) -> None:
        """Store more rows."""
        if len(rows):
            put(self._fresh, rows, _TOGETHER, joined, len)
            self._since += len(rows)

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
        self.runs.append(self._run(parts[::-1]))

    def _run(self, parts: Sequence[Rows]) -> Run:
        n_ids = 0 if self.keys is None else self.keys.n_ids
        return Run(in_order(joined(parts), self._axis, n_ids), self._axis)

    def prune(self, bounds: Bounds, waiting: LeftRows, terms: Sequence[Term], force: bool) -> int:
        """Evict rows that neither a future left row nor a waiting one can match; return their number."""
        if not force and _IDLE * self._since < len(self):
            return 0
        self._since = 0
        spared = waiting.by_key(t.left for t in terms)
        dropped = 0
        runs, self.runs = self.runs, []
        for run in runs:
            rows = self._alive(run.rows, bounds, spared, terms, force)
            dropped += len(run) - len(rows)
            if len(rows):
                self.runs.append(run if rows is run.rows else Run(rows, self._axis))
        fresh, self._fresh = self._fresh, []
        for part in fresh:
            rows = self._alive(part, bounds, spared, terms, force)
            dropped += len(part) - len(rows)
            if len(rows):
                self._fresh.append(rows)
        return dropped

    def prune_older(self, bounds: Bounds, waiting: LeftRows, terms: Sequence[Term], force: bool) -> int:
        """Evict rows that no left row can match or have as the last row before its window; return their number."""
        if bounds is None and not len(waiting):
            dropped, self.runs, self._fresh = len(self), [], []
            return dropped
        if not force and _IDLE * self._since < len(self):
            return 0
        axis = self._axis
        assert axis is not None
        low = I64_MAX if bounds is None else bounds[axis][0]
        for right, least, _ in _hulls(waiting, [t for t in terms if t.high is not None]) or ():
            if right == axis:
                low = min(low, least)
        if len(waiting) and any(waiting.hull(t.left) is None for t in terms):
            low = I64_MIN
        self._since = dropped = 0
        runs = self.sorted()
        self.runs = []
        for run in runs:
            dead = without_older(run, axis, low)
            count = int(np.count_nonzero(dead))
            if not count or (not force and count * _IDLE < len(run)):
                self.runs.append(run)
                continue
            dropped += count
            rows = run.rows.take(np.flatnonzero(~dead))
            if len(rows):
                self.runs.append(Run(rows, axis))
        return dropped

    def thin(self, dead: Callable[[Run], np.ndarray], together: bool) -> int:
        """Evict the rows that ``dead`` marks : bool[n]; return their number. ``together``: merge all runs first."""
        runs, dropped = self.sorted(), 0
        if together and len(runs) > 1:
            runs = [self._run([r.rows for r in runs])]
        self.runs = []
        for run in runs:
            gone = dead(run)
            count = int(np.count_nonzero(gone))
            dropped += count
            if count < len(run):
                self.runs.append(Run(run.rows.take(np.flatnonzero(~gone)), self._axis) if count else run)
        return dropped

    def spill(self, files: Files) -> None:
        """Move the columns of all rows to files."""
        self.runs = [run if run.rows.lies_in_files else Run(run.rows.spilled(files), self._axis) for run in self.runs]
        self._fresh = [rows if rows.lies_in_files else rows.spilled(files) for rows in self._fresh]

    def compact(self, files: Files) -> None:
        """Write the columns of runs again whose files are much longer than their rows need."""
        for i, run in enumerate(self.runs):
            rows = run.rows.compacted(files)
            if rows is not run.rows:
                self.runs[i] = Run(rows, self._axis)

    def _alive(
        self, rows: Rows, bounds: Bounds, spared: Waiting | None, terms: Sequence[Term], force: bool
    ) -> Rows:
        """Return the rows that may still match; all rows if too few are dead to pay for a copy."""
        dead = dead_rows(rows, bounds, spared, terms)
        count = int(np.count_nonzero(dead))
        if count == 0 or (not force and count * _IDLE < len(rows)):
            return rows
        if self.evicted is not None:
            self.evicted.append(rows.take(np.flatnonzero(dead)))
        return rows.take(np.flatnonzero(~dead))

    def each(self) -> Iterator[Rows]:
        """Yield all rows in pieces."""
        yield from (r.rows for r in self.runs)
        yield from self._fresh

    def replace(self, change: Callable[[Rows], Rows]) -> None:
        """Replace all rows by what ``change`` returns for them."""
        parts = [change(rows) for rows in self.each()]
        self.runs, self._fresh = [], [p for p in parts if len(p)]


def _hulls(waiting: LeftRows, terms: Sequence[Term]) -> list[tuple[int, int, int]] | None:
    """Return (right axis, least, greatest) that waiting left rows can match; None if no left row waits."""
    if not len(waiting):
        return None
    out = []
    for t in terms:
        span = waiting.hull(t.left)
        if span is not None:
            low = I64_MIN if t.high is None else max(I64_MIN, span[0] - t.high)
            high = I64_MAX if t.low is None else min(I64_MAX, span[1] - t.low)
            out.append((t.right, low, high))
    return out


def dead_rows(rows: Rows, bounds: Bounds, spared: Waiting | None, terms: Sequence[Term]) -> np.ndarray:
    """Return bool[n]: the rows that no row can match."""
    dead = rows.outside(bounds)
    if spared is not None and dead.any():
        dead &= ~spared.takes(rows, terms)
    return dead
