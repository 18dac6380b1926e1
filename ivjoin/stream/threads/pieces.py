"""Store rows of a side that wait for their slice of an axis, with the closed range of the axis that each can match.

Rows are sorted by the start of their range, so a binary search finds a slice without copying rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ivjoin.operator.lookup.tables.ordered import rises
from ivjoin.plan.cutting import shifted
from ivjoin.shj.plain import rows_at
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["Piece", "cut_at", "follow"]

_ARRAYS = 16  # bytes of a row's range
_ENOUGH = 1.02  # a search stops at _ENOUGH times the requested rows


@dataclass(slots=True)
class Piece:
    """At least one row, with ranges from ``low + low_by`` to ``high + high_by``.

    - ``low`` : int64[n] never falls. If ``rises``, ``high`` does not fall either. They may be one array.
    - A row whose range ends before it begins matches nothing.
    - Sums beyond int64 are clipped to its ends.
    - ``each`` is the number of bytes of a row.
    """

    batch: pa.RecordBatch
    low: np.ndarray
    high: np.ndarray
    low_by: int = 0
    high_by: int = 0
    rises: bool = True
    each: float = 0

    @classmethod
    def of(cls, batch: pa.RecordBatch, low: np.ndarray, high: np.ndarray) -> Piece:
        """Return the rows of a batch, sorted by the start of their range. Equal rows stay in order of arrival."""
        if not rises(low):
            order = np.argsort(low, kind="stable")
            batch, low, high = rows_at(batch, order), low[order], high[order]
        return cls(batch, low, high, rises=rises(high))

    @property
    def rows(self) -> int:
        return len(self.low)

    @property
    def nbytes(self) -> int:
        return int(self.each * len(self.low))

    def bytes_a_row(self, views: bool) -> float:
        """Return the bytes of a row. With ``views``, the batch is not counted, because a caller owns its memory."""
        arrays = {id(a): a for a in (self.low, self.high)}.values()
        size = sum(a.nbytes for a in arrays if not _lies_in(a, self.batch))
        return (size if views else size + self.batch.nbytes) / self.rows

    def begin(self, row: int) -> int:
        """Return where the range of a row begins."""
        return _moved(self.low[row], self.low_by)

    def lows(self) -> np.ndarray:
        """Return where the ranges begin : int64[n]."""
        return shifted(self.low, self.low_by)

    def highs(self) -> np.ndarray:
        """Return where the ranges end : int64[n]."""
        return shifted(self.high, self.high_by)

    def below(self, end: int) -> int:
        """Return the number of rows whose ranges begin below a value."""
        return _place(self.low, end, self.low_by)

    def ended(self, end: int) -> int:
        """Return the number of rows whose ranges end below a value."""
        if self.rises:
            return _place(self.high, end, self.high_by)
        return int(np.count_nonzero(self.highs() < end)) if end <= I64_MAX else self.rows

    def top(self, start: int, end: int) -> int:
        """Return the greatest value that rows can match whose ranges begin from ``start`` to below ``end``.

        Without such rows, return the least ordinal.
        """
        last = self.below(end)
        return I64_MIN if last <= self.below(start) else _moved(self.high[last - 1], self.high_by)

    def starting_below(self, end: int) -> Piece | None:
        """Return the rows whose ranges begin below a value."""
        return self._part(0, self.below(end))

    def starting_from(self, end: int) -> Piece | None:
        """Return the rows whose ranges begin at a value or above."""
        return self._part(self.below(end), self.rows)

    def ending_from(self, end: int) -> Piece | None:
        """Return the rows whose ranges do not end below a value, or do not begin below it."""
        if self.low is self.high and self.low_by <= self.high_by:
            return self._part(_place(self.high, end, self.high_by), self.rows)
        keep = np.flatnonzero((self.highs() >= end) | (self.lows() >= end))
        if len(keep) and keep[-1] - keep[0] + 1 == len(keep):
            return self._part(int(keep[0]), int(keep[-1]) + 1)
        if not len(keep):
            return None
        batch = rows_at(self.batch, keep)
        each = batch.nbytes / len(keep) + _ARRAYS
        return replace(self, batch=batch, low=self.low[keep], high=self.high[keep], each=each)

    def _part(self, start: int, end: int) -> Piece | None:
        if start >= end:
            return None
        if end - start == self.rows:
            return self
        low = self.low[start:end]
        high = low if self.low is self.high else self.high[start:end]
        return replace(self, batch=self.batch.slice(start, end - start), low=low, high=high)


def follow(pieces: Sequence[Piece]) -> bool:
    """Return whether the ranges of all rows rise at both ends, also from each piece to the next one."""
    if len(pieces) == 1:
        return True
    return all(piece.rises for piece in pieces) and all(
        _moved(a.low[-1], a.low_by) <= _moved(b.low[0], b.low_by)
        and _moved(a.high[-1], a.high_by) <= _moved(b.high[0], b.high_by)
        for a, b in pairwise(pieces)
    )


def _moved(value: np.int64 | int, by: int) -> int:
    return min(max(int(value) + by, I64_MIN), I64_MAX)


def _place(values: np.ndarray, end: int, by: int) -> int:
    """Return how many of the rising values plus ``by`` are below ``end``."""
    value = end - by
    if end > I64_MAX or value > int(values[-1]):
        return len(values)
    if value <= int(values[0]):
        return 0
    return int(np.searchsorted(values, value)) if value > I64_MIN else 0


def cut_at(own: Sequence[Piece], other: Sequence[Piece], rows: int, parts: int, start: int, end: int) -> int | None:
    """Return a value up to ``end`` where a slice from ``start`` may end, or None if no such value exists.

    The slice has at least ``rows`` rows. At most 1 / ``parts`` of them are rows of the other side that the next slice
    also needs.
    """
    pieces = [*own, *other]
    copies = sum(p.below(start) for p in other)  # copies of rows of earlier slices
    most = sum(p.below(end) for p in pieces) - copies
    while rows <= most:
        cut = _with_rows(pieces, rows + copies, start, end)
        copied = sum(p.below(cut) - p.ended(cut) for p in other)
        if copied * parts <= rows:
            return cut
        rows = max(copied * parts, rows + rows // 4)
    return None


def _with_rows(pieces: Sequence[Piece], enough: int, low: int, high: int) -> int:
    """Return a value up to ``high`` with at least ``enough`` rows below it, and few more if possible."""
    while low < high:
        middle = (low + high) // 2
        rows = sum(p.below(middle) for p in pieces)
        if rows < enough:
            low = middle + 1
        else:
            high = middle
            if rows <= _ENOUGH * enough:
                break
    return high


def _lies_in(array: np.ndarray, batch: pa.RecordBatch) -> bool:
    """Return whether an array is a view of a batch's memory."""
    at = array.ctypes.data
    buffers = (b for column in batch.columns for b in column.buffers() if b is not None)
    return any(b.address <= at < b.address + b.size for b in buffers)
