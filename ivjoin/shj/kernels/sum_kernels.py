"""Doubles with a number added: which of them come to a bound. Where such sums are an axis, the doubles are stored."""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels import memory as mem
from ivjoin.shj.kernels.batch_memory import bits_of_double, float_ordinal
from ivjoin.shj.kernels.compiling import I8, IN1, IO1, VOID, compiled, inner
from ivjoin.shj.kernels.index_kernels import I64_MAX, I64_MIN
from ivjoin.shj.kernels.records import bound_at, sum_at

__all__ = ["bounds_of_sums", "least_of", "read_least"]

_TOP_BIT = -(2**63)
_INFINITY = at.NAN_ORDINAL - 1
_MOST_STEP = np.int64(1 << 61)


@inner
def _with_number(ordinal, number, cell):  # type: ignore[no-untyped-def]
    """The ordinal of a double, which is no NaN, with a number added."""
    mem.at_i64(cell)[0] = -ordinal ^ _TOP_BIT if ordinal < 0 else ordinal
    return float_ordinal(bits_of_double(mem.at_f64(cell)[0] + number, cell))


@inner
def _least_with(bound, number, cell):  # type: ignore[no-untyped-def]
    """The least ordinal of a double that with a finite number added has an ordinal no less than ``bound``.

    The least int64 where all have, the greatest where none has. Sums rise with what the number is added to: from the
    bound with the number taken off, it is a few steps to where they pass the bound, and more where these are so small
    that many doubles have one sum. ``cell`` is the address of a spare word.
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
def read_least(values, offset, bits, n, out, cell):  # type: ignore[no-untyped-def]
    """For each of n ordinals, with an offset, the least one that the double of these ``bits``, added, brings there."""
    mem.at_i64(cell)[0] = bits
    number = mem.at_f64(cell)[0]
    for i in range(n):
        v = values[i]
        if offset > 0:
            v = v + offset if v <= I64_MAX - offset else np.int64(I64_MAX)
        else:
            v = v + offset if v >= I64_MIN - offset else np.int64(I64_MIN)
        out[i] = _least_with(v, number, cell)


@compiled(VOID(IN1, I8, IO1, I8))
def least_of(bounds, bits, out, cell):  # type: ignore[no-untyped-def]
    """As ``read_least``, over arrays, without an offset."""
    read_least(mem.line_of(bounds), 0, bits, bounds.shape[0], mem.line_of(out), cell)


@inner
def bounds_of_sums(other, axis, b, cell):  # type: ignore[no-untyped-def]
    """Take into a stored axis's bounds, two words, those of the sums that are made of it."""
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
            first = _least_with(d.high + 1, number, cell)  # that is beyond
            b[1] = min(b[1], first - 1 if first > I64_MIN else np.int64(I64_MIN))
