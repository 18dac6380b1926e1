"""Compare the distances of two values from a third one, without rounding and without overflow."""

from __future__ import annotations

import numpy as np

from ivjoin.expr.ordinal import NAN_ORDINAL
from ivjoin.expr.types import Type

__all__ = ["compared", "reals"]

_SIGN = np.uint64(1 << 63)


def compared(of: np.ndarray, a: np.ndarray, b: np.ndarray, t: Type) -> np.ndarray:
    """Compare the distances from ``of`` to ``a`` and to ``b``.

    Equal values have distance 0, including two NaNs. The distance of an infinity from another value is infinite; the
    distance of NaN from another value is greater still.

    Parameters
    ----------
    of, a, b : int64[n]
        Ordinals of a type.
    t : Type

    Returns
    -------
    int8[n]
        -1 if ``a`` is nearer, 1 if ``b`` is nearer, 0 if both are equally near.
    """
    if t.kind != "float":
        first, second = _apart(of, a), _apart(of, b)
        return (first > second).astype(np.int8) - (first < second).astype(np.int8)
    x, y, z = reals(of), reals(a), reals(b)
    (rank, first, rest), (other_rank, second, other_rest) = _split(of, a, x, y), _split(of, b, x, z)
    far = np.isinf(first) | np.isinf(second)
    if far.any():  # the difference overflows: halves are exact for numbers of this size
        halves = x[far] / 2, y[far] / 2, z[far] / 2
        first[far], rest[far] = _difference(halves[0], halves[1])
        second[far], other_rest[far] = _difference(halves[0], halves[2])
    out = np.sign(rank - other_rank).astype(np.int8)
    for left, right in ((first, second), (rest, other_rest)):
        out = np.where(out == 0, (left > right).astype(np.int8) - (left < right).astype(np.int8), out)
    return out


def _apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return |a - b| of whole numbers : uint64[n]."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    return high.astype(np.uint64) - low.astype(np.uint64)


def reals(o: np.ndarray) -> np.ndarray:
    """Return the doubles of ordinals : float64[n]."""
    bits = np.where(o < 0, (-o).view(np.uint64) | _SIGN, o.view(np.uint64))
    x = np.ascontiguousarray(bits).view(np.float64).copy()
    x[o >= NAN_ORDINAL] = np.nan
    return x


def _split(of: np.ndarray, to: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a distance: 0, 1 (infinite) or 2 (NaN), then its rounded value and the rounding error."""
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
