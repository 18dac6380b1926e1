"""Interpolate values between two rows, linearly in time, for ``interpolate=`` of as-of joins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivjoin.conditions.evaluate import from_arrow_array
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.types import TICKS_PER_SECOND, from_arrow
from ivjoin.plan.picking.asof import shift_of
from ivjoin.shj.arrow import fixed_array

__all__ = ["NUMBERS", "TIMES", "between", "weights"]

TIMES = ("date", "timestamp", "duration", "time")
NUMBERS = ("int", "float", "decimal", "decimal256")


def _ticks(array: pa.Array) -> tuple[np.ndarray, int]:
    """Return times as integers : int64[n], and the nanoseconds in one unit. For numbers, the unit is 0."""
    t = from_arrow(array.type)
    if t.kind in TIMES:
        values = np.asarray(from_arrow_array(array, t).values).astype(np.int64)
        return values, 86_400 * 10**9 if t.kind == "date" else 10**9 // TICKS_PER_SECOND[t.unit]
    if t.kind == "int" and has_ordinal(t) and t.bits <= 64 and t.signed:
        return np.asarray(from_arrow_array(array, t).values).astype(np.int64), 0
    return np.asarray(array.cast(pa.float64(), safe=False).fill_null(0.0)), 0


def _apart(a: np.ndarray, unit: int, b: np.ndarray, other: int, shift: float = 0.0) -> np.ndarray:
    """Return ``a + shift - b`` as doubles. ``shift`` is in nanoseconds, or in the unit of numbers."""
    step = min(unit, other)
    if unit != other:
        a, b = _times(a, unit // step), _times(b, other // step)
    whole = a.dtype == np.int64 == b.dtype and bool((np.abs(a // 2 - b // 2) < 2**61).all())
    apart = (a - b if whole else a.astype(np.float64) - b.astype(np.float64)).astype(np.float64)
    return apart * (step or 1) + shift


def _times(values: np.ndarray, factor: int) -> np.ndarray:
    """Return the values times a factor : int64[n], or float64[n] if the products overflow."""
    most = 2**63 // factor - 1
    fits = bool(((values >= -most) & (values <= most)).all())
    return values * factor if fits else values.astype(np.float64) * factor


def weights(at: pa.Array, before: pa.Array, after: pa.Array, offset: Any) -> np.ndarray:
    """Return the position of each row between the previous and the next row, from 0 to 1 : float64[n].

    A row at the time of the previous row has position 0.
    """
    (t, u), (t0, u0), (t1, u1) = _ticks(at), _ticks(before), _ticks(after)
    shift = 0.0 if offset is None else shift_of(offset)
    with np.errstate(all="ignore"):
        whole, part = _apart(t1, u1, t0, u0), _apart(t, u, t0, u0, shift)
        return np.where(part == 0, 0.0, part / np.where(whole == 0, 1.0, whole))


def between(before: pa.Array, after: pa.Array, weight: np.ndarray) -> pa.Array:
    """Return the values between two columns, or NULL where one of them is NULL."""
    t = from_arrow(before.type)
    there = np.asarray(pc.and_(before.is_valid(), after.is_valid()))
    mask = None if there.all() else there
    with np.errstate(all="ignore"):
        if t.kind in TIMES:
            a, b = (np.asarray(from_arrow_array(x, t).values).astype(np.int64) for x in (before, after))
            moved = np.where(there, a + np.round((b - a) * np.where(there, weight, 0.0)).astype(np.int64), 0)
            width = before.type.bit_width // 8
            return fixed_array(np.ascontiguousarray(moved.astype(np.dtype(f"i{width}"))), mask, before.type)
        a, b = (np.asarray(x.cast(pa.float64(), safe=False).fill_null(0.0)) for x in (before, after))
        values = np.where((weight == 0) | (a == b), a, np.where(weight == 1, b, a + (b - a) * weight))
    return fixed_array(np.ascontiguousarray(np.where(there, values, 0.0)), mask, pa.float64())
