"""Add and compare ordinals without overflow. ``ivjoin.plan.cutting`` has the same for arrays, without a compiler."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["add_saturating", "beyond", "lies_within", "window"]


@inner
def beyond(v, d):
    """Return 1 if v + d is greater than every int64, -1 if it is less, otherwise 0."""
    if d > 0:
        return 1 if v > I64_MAX - d else 0
    return -1 if v < I64_MIN - d else 0


@inner
def add_saturating(v, d):
    out = beyond(v, d)
    if out == 0:
        return v + d
    return np.int64(I64_MAX) if out > 0 else np.int64(I64_MIN)


@inner
def lies_within(v, p, low, high):
    """Return whether v is in [p + low, p + high]; the ends of int64 as ``low`` and ``high`` are no bounds."""
    if low != I64_MIN:
        out = beyond(p, low)
        if out > 0 or (out == 0 and v < p + low):
            return False
    if high != I64_MAX:
        out = beyond(p, high)
        if out < 0 or (out == 0 and v > p + high):
            return False
    return True


@inner
def window(axes, stride, bands, n, i):
    """Return the values that lie within the first n bands of row i, which are on one axis; (1, 0) if none can.

    See ``probe_kernels.Terms`` for the arrays.
    """
    low = I64_MIN
    high = I64_MAX
    for b in range(n):
        v = axes[bands[4 * b] * stride + i]
        d = bands[4 * b + 2]
        if d != I64_MIN:
            out = beyond(v, d)
            if out > 0:
                return 1, 0
            if out == 0:
                low = max(low, v + d)
        d = bands[4 * b + 3]
        if d != I64_MAX:
            out = beyond(v, d)
            if out < 0:
                return 1, 0
            if out == 0:
                high = min(high, v + d)
    return low, high
