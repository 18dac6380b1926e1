"""Find the doubles whose sum with a number reaches a bound. An axis of such sums stores the doubles."""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels import pointers as mem
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.output.batch_memory import bits_of_double, float_ordinal
from ivjoin.shj.kernels.push.band_kernels import add_saturating
from ivjoin.shj.kernels.records import bound_at, sum_at
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["bounds_of_sums", "read_least"]

_TOP_BIT = -(2**63)
_INFINITY = at.NAN_ORDINAL - 1
_MOST_STEP = np.int64(1 << 61)


@inner
def _with_number(ordinal, number, cell):
    """Return the ordinal of a double plus a number; the double is not NaN."""
    mem.at_i64(cell)[0] = -ordinal ^ _TOP_BIT if ordinal < 0 else ordinal
    return float_ordinal(bits_of_double(mem.at_f64(cell)[0] + number, cell))


@inner
def _least_with(bound, number, cell):
    """Return the least ordinal whose double plus a finite number has an ordinal of at least ``bound``.

    It is the least int64 if all doubles do, the greatest if none does. The search starts at the bound minus the number
    and doubles its steps, because many small doubles may have the same sum.
    """
    if bound > _INFINITY:
        return at.NAN_ORDINAL if bound == at.NAN_ORDINAL else I64_MAX
    if bound <= -_INFINITY:
        return I64_MIN
    high = _with_number(bound, -number, cell)
    low = high
    step = np.int64(1)
    if _with_number(high, number, cell) < bound:
        while True:
            high = low + step if low < _INFINITY - step else np.int64(_INFINITY)
            if _with_number(high, number, cell) >= bound:
                break
            low = high
            step = min(2 * step, _MOST_STEP)
    else:
        while True:
            low = high - step if high > step - _INFINITY else np.int64(-_INFINITY)
            if _with_number(low, number, cell) < bound:
                break
            high = low
            step = min(2 * step, _MOST_STEP)
    while low + 1 < high:
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        if _with_number(middle, number, cell) < bound:
            low = middle
        else:
            high = middle
    return high


@inner
def read_least(values, offset, bits, n, out, cell):
    """Write the least ordinals whose doubles plus a number (as ``bits``) reach each of n ordinals plus ``offset``."""
    mem.at_i64(cell)[0] = bits
    number = mem.at_f64(cell)[0]
    for i in range(n):
        out[i] = _least_with(add_saturating(values[i], offset), number, cell)


@inner
def bounds_of_sums(other, axis, b, cell):
    """Intersect a stored axis's bounds ``b`` : int64[2] with the bounds of the sums that are derived from it."""
    for k in range(other.n_sums):
        s = sum_at(other.sums, k)
        if s.axis != axis:
            continue
        d = bound_at(other.bounds, other.n_axes + k)
        mem.at_i64(cell)[0] = s.number
        number = mem.at_f64(cell)[0]
        if d.low != I64_MIN:
            b[0] = max(b[0], _least_with(d.low, number, cell))
        if d.high != I64_MAX:
            first = _least_with(d.high + 1, number, cell)  # the first ordinal outside
            b[1] = min(b[1], first - 1 if first > I64_MIN else np.int64(I64_MIN))
