"""Find the last right row before a window, which counts as its first row, and the rows to store for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivjoin.operator.lookup.aggregates.reduce import Ranges
from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.run import Run, Term, reach
from ivjoin.operator.lookup.stored import AxisBounds, LeftRows
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["older_than", "previous_bounds", "previous_rows", "without_older"]


def previous_rows(runs: Sequence[Run], rows: Rows, terms: Sequence[Term], axis: int | None) -> list[Ranges]:
    """Return ranges for each run that contain the last row before each left row's window.

    At most one run has this row.
    """
    assert axis is not None
    low = np.full(len(rows), I64_MIN)
    for t in terms:
        if t.high is not None:
            low = np.maximum(low, reach(rows, t)[0])
    best = np.full(len(rows), -1, dtype=np.int64)
    places: list[np.ndarray] = []
    value = np.full(len(rows), I64_MIN)
    seq = np.full(len(rows), -1, dtype=np.int64)
    for i, run in enumerate(runs):
        at = run.below(rows, axis, low)
        places.append(at)
        own, came = run.rows.axes[axis][at], run.rows.seq[at]
        better = (at >= 0) & ((best < 0) | (own > value) | ((own == value) & (came > seq)))
        best[better], value[better], seq[better] = i, own[better], came[better]
    out = []
    for i, at in enumerate(places):
        lo = np.where(best == i, at, 0)
        out.append(Ranges(lo, lo + (best == i)))
    return out


def previous_bounds(bounds: AxisBounds, terms: Sequence[Term], axes: int) -> AxisBounds:
    """Return the bounds of left rows that a future right row can match or precede.

    A left row is final once all future right rows are above its window. It is not final if they are below it.
    """
    uppers = {t.left for t in terms if t.low is not None} if bounds is not None else ()
    return [(bounds[a][0] if bounds is not None and a in uppers else I64_MIN, I64_MAX) for a in range(axes)]


def older_than(bounds: AxisBounds, waiting: LeftRows, terms: Sequence[Term], axis: int) -> int:
    """Return the value below which a right row cannot match, but only precede the windows of left rows."""
    low = I64_MAX if bounds is None else bounds[axis][0]
    for t in terms if len(waiting) else ():
        span = waiting.hull(t.left)
        if span is None:
            return I64_MIN
        if t.right == axis and t.high is not None:
            low = min(low, max(I64_MIN, span[0] - t.high))
    return low


def without_older(run: Run, axis: int, low: int) -> np.ndarray:
    """Return bool[n]: the rows below ``low`` that have a later row of their key that is also below ``low``."""
    dead = run.rows.axes[axis] < low
    followed = np.zeros(len(run), dtype=bool)
    kids = run.rows.kids
    followed[:-1] = dead[1:] & (kids[1:] == kids[:-1])
    return dead & followed
