"""Rows of a side that wait for their slice of an axis, with the closed range of it that each lies in, or can meet.

Rows whose ranges rise, as those of most input do, are a :class:`Run`: how many of them a value has passed is found by
binary search, and a part of them is a slice that copies nothing. All others are :class:`Loose`, with arrays of their
ranges, and are looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from ivjoin.plan.cutting import shifted
from ivjoin.shj.plain import rows_at
from ivjoin.stream.memory import Segment

__all__ = ["I64_MAX", "I64_MIN", "Loose", "Piece", "Run"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_ARRAYS = 17  # bytes of a row's range, and of whether it is owned


@dataclass(slots=True)
class Run:
    """Rows whose ranges rise at both ends: from ``low + low_by`` to ``high + high_by``.

    Attributes
    ----------
    low, high : int64[n]
        They never fall; no range is empty. They may be one array.
    low_by, high_by : int
        Sums beyond int64 mean its ends.
    widest : int
        No range is wider.
    first_owned, end_owned : int
        Which rows were not given to their home yet.
    each : float
        Bytes of memory that a row takes.
    segment : Segment or None
        The file in which the rows lie.
    """

    batch: pa.RecordBatch
    low: np.ndarray
    high: np.ndarray
    low_by: int
    high_by: int
    widest: int
    first_owned: int
    end_owned: int
    each: float = 0
    segment: Segment | None = None
    ends: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))  # of both: they may lie in a file, so not to read

    def __post_init__(self) -> None:
        if self.ends == ((0, 0), (0, 0)):
            low, high = ((int(a[0]), int(a[-1])) if len(a) else (I64_MAX, I64_MIN) for a in (self.low, self.high))
            self.ends = low, high

    @property
    def rows(self) -> int:
        return len(self.low)

    @property
    def nbytes(self) -> int:
        return int(self.each * len(self.low))

    @property
    def owned(self) -> int:
        """How many rows were not given to their home yet."""
        return self.end_owned - self.first_owned

    @property
    def least(self) -> int:
        return _moved(self.ends[0][0], self.low_by)

    def below(self, end: int) -> int:
        """How many rows' ranges begin below a value."""
        return _place(self.low, self.ends[0], end, self.low_by)

    def top_of_homes(self, end: int) -> int:
        """The greatest value that the owned rows can meet whose ranges begin below a value; the least one of none."""
        last = min(self.below(end), self.end_owned)
        if last <= self.first_owned:
            return I64_MIN
        return _moved(self.high[last - 1], self.high_by)

    def starting_below(self, end: int) -> Run | None:
        """The rows whose ranges begin below a value."""
        return self._part(0, self.below(end))

    def starting_from(self, end: int) -> Run | None:
        """The others."""
        return self._part(self.below(end), self.rows)

    def ending_from(self, end: int) -> Run | None:
        """The rows whose ranges do not end below a value."""
        return self._part(_place(self.high, self.ends[1], end, self.high_by), self.rows)

    def owned_below(self, end: int) -> Run:
        """The same, owned only where the range begins below a value."""
        last = min(self.end_owned, self.below(end))
        return replace(self, end_owned=max(self.first_owned, last))

    def owned_from(self, end: int) -> Run:
        """The same, owned only where the range does not begin below a value."""
        return replace(self, first_owned=min(self.end_owned, max(self.first_owned, self.below(end))))

    def marks(self) -> np.ndarray:
        """bool[n]: the owned rows."""
        out = np.zeros(self.rows, dtype=bool)
        out[self.first_owned : self.end_owned] = True
        return out

    def spans(self, every: int) -> tuple[np.ndarray, np.ndarray]:
        """Where ranges of each so many rows begin, at least and at most : int64, both."""
        begins = np.arange(every, self.rows, every)
        lows = np.concatenate([[self.ends[0][0]], self.low[begins]])
        tops = np.concatenate([self.low[begins - 1], [self.ends[0][1]]])
        return shifted(lows, self.low_by), shifted(tops, self.low_by)

    def _part(self, start: int, end: int) -> Run | None:
        if start >= end:
            return None
        if end - start == self.rows:
            return self
        first = min(max(self.first_owned, start), end) - start
        last = min(max(self.end_owned, start), end) - start
        return Run(
            self.batch.slice(start, end - start), self.low[start:end], self.high[start:end], self.low_by, self.high_by,
            self.widest, first, last, self.each, self.segment,
        )


def _moved(value: np.int64 | int, by: int) -> int:
    return min(max(int(value) + by, I64_MIN), I64_MAX)


def _place(values: np.ndarray, ends: tuple[int, int], end: int, by: int) -> int:
    """How many of the values, which rise between two ends, are below ``end`` when ``by`` has been added."""
    value = end - by
    if end > I64_MAX or value > ends[1]:
        return len(values)
    if value <= ends[0]:
        return 0
    return int(np.searchsorted(values, value)) if value > I64_MIN else 0


@dataclass(slots=True)
class Loose:
    """Rows in any order.

    Attributes
    ----------
    low, high : int64[n]
        A row with ``low > high`` meets nothing.
    marked : bool[n]
        Rows that were not given to their home yet.
    each, segment
        As of :class:`Run`.
    """

    batch: pa.RecordBatch
    low: np.ndarray
    high: np.ndarray
    marked: np.ndarray
    each: float = 0
    segment: Segment | None = None
    least: int = field(init=False)

    def __post_init__(self) -> None:
        self.least = int(self.low.min()) if len(self.low) else I64_MAX

    @property
    def rows(self) -> int:
        return len(self.low)

    @property
    def nbytes(self) -> int:
        return int(self.each * len(self.low))

    @property
    def owned(self) -> int:
        return int(np.count_nonzero(self.marked))

    @property
    def widest(self) -> int:
        """No range is wider; past int64 where some is."""
        wide = self.high - self.low
        return I64_MAX + 1 if ((wide < 0) & (self.high >= self.low)).any() else int(wide.max(initial=0))

    def below(self, end: int) -> int:
        return int(np.count_nonzero(self._starts_below(end)))

    def top_of_homes(self, end: int) -> int:
        return int(self.high[self._starts_below(end) & self.marked].max(initial=I64_MIN))

    def starting_below(self, end: int) -> Loose | None:
        return self._where(self._starts_below(end))

    def starting_from(self, end: int) -> Loose | None:
        return self._where(~self._starts_below(end))

    def ending_from(self, end: int) -> Loose | None:
        return self._where(self.high >= end)

    def owned_below(self, end: int) -> Loose:
        return replace(self, marked=self.marked & self._starts_below(end))

    def owned_from(self, end: int) -> Loose:
        return replace(self, marked=self.marked & ~self._starts_below(end))

    def marks(self) -> np.ndarray:
        return self.marked

    def spans(self, every: int) -> tuple[np.ndarray, np.ndarray]:
        starts = np.arange(0, self.rows, every)
        return np.minimum.reduceat(self.low, starts), np.maximum.reduceat(self.low, starts)

    def _starts_below(self, end: int) -> np.ndarray:
        return self.low < end if end <= I64_MAX else np.ones(self.rows, dtype=bool)

    def _where(self, keep: np.ndarray) -> Loose | None:
        count = int(np.count_nonzero(keep))
        if count == len(keep):
            return self
        if not count:
            return None
        first = int(keep.argmax())
        if keep[first : first + count].all():
            cut = slice(first, first + count)
            some = self.batch.slice(first, count), self.low[cut], self.high[cut], self.marked[cut]
            return Loose(*some, self.each, self.segment)
        batch = rows_at(self.batch, np.flatnonzero(keep))
        return Loose(batch, self.low[keep], self.high[keep], self.marked[keep], batch.nbytes / count + _ARRAYS)


Piece = Run | Loose
