"""Compare the distances of two values from a third value, without rounding and without overflow."""

from __future__ import annotations

import numpy as np

from ivjoin.expr.ordinal import NAN_ORDINAL
from ivjoin.expr.types import Type
from ivjoin.shj.arrow import doubles_of
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["compared", "distance_keys"]

_SIGN = np.uint64(1 << 63)


def compared(of: np.ndarray, a: np.ndarray, b: np.ndarray, t: Type) -> np.ndarray:
    """Return int8[n]: -1 where ``a`` is nearer to ``of``, 1 where ``b`` is nearer, 0 where both are equally near.

    Equal values have distance 0, and so have two NaNs. An infinity has an infinite distance to any other value. NaN has
    a distance to any other value that is greater than infinity.
    """
    out = np.zeros(len(of), dtype=np.int8)
    for x, y in zip(distance_keys(of, a, t), distance_keys(of, b, t), strict=True):
        out = np.where(out == 0, (x > y).astype(np.int8) - (x < y).astype(np.int8), out)
    return out


def distance_keys(
    of: np.ndarray, to: np.ndarray, t: Type, finer: tuple[np.ndarray, int] | None = None
) -> list[np.ndarray]:
    """Return arrays : int64[n] that rank distances, most significant first. See :func:`compared`.

    ``finer`` has the values of ``to`` in a coarser unit, and the ticks in one tick of that unit. A value outside the
    range of ``t`` appears as the least or greatest value of ``t``. Its distance is then computed in the coarser unit.
    """
    if t.kind != "float":
        apart = (_apart(of, to) ^ _SIGN).view(np.int64)
        if finer is None:
            return [apart]
        beyond = np.zeros(len(of), dtype=np.int64)
        values, step = finer
        for i in np.flatnonzero((to == I64_MIN) | (to == I64_MAX)).tolist():
            d = abs(int(values[i]) * step - int(of[i]))
            beyond[i], apart[i] = d >> 64, (d & (2**64 - 1)) - 2**63
        return [beyond, apart]
    x, y = (doubles_of(np.minimum(o, NAN_ORDINAL)) for o in (of, to))
    rank, value, rest = _split(of, to, x, y)
    far = np.isinf(value)
    if far.any():  # the difference overflows; halves of such large numbers are exact
        value[far], rest[far] = _difference(x[far] / 2, y[far] / 2)
    return [2 * rank.astype(np.int64) + far, _image(value), _image(rest)]


def _image(x: np.ndarray) -> np.ndarray:
    bits = (x + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & I64_MAX)


def _apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    low, high = np.minimum(a, b), np.maximum(a, b)
    return high.astype(np.uint64) - low.astype(np.uint64)


def _split(of: np.ndarray, to: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a distance as three arrays: its class, its rounded value and the rounding error.

    The class is 0 for finite distances, 1 for infinite ones and 2 for NaN.
    """
    rank = np.where(np.isnan(x) | np.isnan(y), 2, np.where(np.isinf(x) | np.isinf(y), 1, 0)).astype(np.int8)
    rank[of == to] = 0
    plain = (rank == 0) & (of != to)
    value, rest = np.zeros(len(x)), np.zeros(len(x))
    value[plain], rest[plain] = _difference(x[plain], y[plain])
    return rank, value, rest


def _difference(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return |x - y| as a double, and its rounding error (Knuth's TwoSum)."""
    with np.errstate(over="ignore", invalid="ignore"):
        s = x - y
        back = s - x
        e = (x - (s - back)) - (y + back)
        return np.where(s < 0, -s, s), np.where(s < 0, -e, e)
