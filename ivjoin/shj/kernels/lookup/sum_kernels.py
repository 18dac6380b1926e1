"""Add doubles exactly: as whole multiples of a power of two, each in two limbs, rounded once.

A double with the bits ``b`` is ``mantissa * 2**(exponent - 1075)``; the exponent is in bits 52 to 62, and at least 1.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IN1_F8, IN2, IO1, IO1_F8, IO2, VOID, compiled, inner

__all__ = ["add_up", "common_unit", "spreads", "sums_between"]

_FRACTION = (1 << 52) - 1
_SPECIAL = 0x7FF  # the exponent of infinities and NaN


@inner
def _exponent_of(bits):
    exponent = (bits >> 52) & _SPECIAL
    return exponent if exponent > 0 else np.int64(1)


@inner
def _mantissa_of(bits):
    return (bits & _FRACTION) | (0 if (bits >> 52) & _SPECIAL == 0 else _FRACTION + 1)


@compiled(I8(IN1, IO1))
def common_unit(bits, ends):
    """Find the exponents that doubles span; return 0 if one of them is infinite or NaN, otherwise 1.

    bits : int64[n]; ends : int64[2], exponents of the last set bit and above the first, 0 if all doubles are zero
    """
    least, most = np.int64(_SPECIAL), np.int64(0)
    for i in range(bits.shape[0]):
        exponent = _exponent_of(bits[i])
        if exponent == _SPECIAL:
            return 0
        mantissa = _mantissa_of(bits[i])
        if mantissa != 0:
            most = max(most, exponent + 53)
            if exponent < least:
                step = np.int64(32)
                while step > 0:  # past the zeros behind the last bit that is set
                    if mantissa & ((np.int64(1) << step) - 1) == 0:
                        mantissa >>= step
                        exponent += step
                    step >>= 1
                least = min(least, exponent)
    ends[0] = least if most > 0 else 0
    ends[1] = most
    return 1


@compiled(VOID(IN1, I8, I8, IO2))
def add_up(bits, unit, width, sums):
    """Add up the lower limbs (``width`` bits, never negative) and the upper limbs (with the sign) of doubles.

    bits : int64[n], no set bit has an exponent below ``unit``
    sums : int64[2, n + 1], sums of the first 0, 1, ..., n limbs
    """
    mask = (np.int64(1) << width) - 1
    low, high = np.int64(0), np.int64(0)
    sums[0, 0] = low
    sums[1, 0] = high
    for i in range(bits.shape[0]):
        number = _mantissa_of(bits[i])
        if bits[i] < 0:
            number = -number
        left = _exponent_of(bits[i]) - unit
        if left <= 0:
            number >>= min(-left, 62)  # zeros alone go
            low += number & mask
            high += number >> width
        elif left < width:
            low += (number << left) & mask
            high += number >> (width - left)
        else:
            high += number << (left - width)
        sums[0, i + 1] = low
        sums[1, i + 1] = high


@compiled(VOID(IN2, IN1, IN1, I8, IO1_F8))
def sums_between(sums, lo, hi, width, out):
    """Write the sums of the terms ``lo[i] <= k < hi[i]``, in units and rounded once, to out : float64[m]."""
    mask = (np.int64(1) << width) - 1
    one_word = np.int64(1) << (62 - width)
    for i in range(lo.shape[0]):
        low = sums[0, hi[i]] - sums[0, lo[i]]
        high = sums[1, hi[i]] - sums[1, lo[i]] + (low >> width)
        low &= mask
        if -one_word <= high < one_word:
            out[i] = np.float64((high << width) + low)
        else:
            # Take 62 bits and the sign. The last one also tells whether there are more: rounding needs no others.
            rest = width
            step = np.int64(32)
            while step > 0:
                top = np.int64(1) << (61 - step)
                if -top <= high < top:
                    rest -= step
                    high = (high << step) | (low >> rest)
                    low &= (np.int64(1) << rest) - 1
                step >>= 1
            out[i] = np.float64(high | (low != 0)) * np.float64(np.int64(1) << rest)


@compiled(VOID(IN1_F8, IN1, IN1, IO1_F8, IO1_F8))
def spreads(values, lo, hi, means, squares):
    """Write the mean of the values of each range, and the sum of their squared distances from it : float64[m]."""
    for i in range(lo.shape[0]):
        start, stop = lo[i], hi[i]
        a = b = c = d = 0.0  # four sums, so that an addition does not wait for the one before
        even = start + ((stop - start) >> 2 << 2)
        for k in range(start, even, 4):
            a += values[k]
            b += values[k + 1]
            c += values[k + 2]
            d += values[k + 3]
        for k in range(even, stop):
            a += values[k]
        count = np.float64(max(stop - start, 1))
        mean = ((a + b) + (c + d)) / count
        a = b = c = d = 0.0
        even = start + ((stop - start) >> 1 << 1)
        for k in range(start, even, 2):
            one, two = values[k] - mean, values[k + 1] - mean
            a += one * one
            b += two * two
            c += one
            d += two
        if even < stop:
            one = values[even] - mean
            a += one * one
            c += one
        c += d
        means[i] = mean
        squares[i] = (a + b) - c * c / count  # the second term is zero but for the rounding of the mean
