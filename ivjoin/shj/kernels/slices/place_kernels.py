"""Find the places of values in a rising column; loops read eight entries at once without branches."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.push.band_kernels import beyond
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["FALLS", "LOOKS", "RISES", "course", "fill", "places", "turned"]

RISES, FALLS = 1, 2
LOOKS = 8  # entries that are read at once


@inner
def fill(values, absent, n):
    """Fill rows without a value with the value before, or with the first value, so that they do not break the order."""
    last = np.int64(0)
    for i in range(n):
        if not absent[i]:
            last = values[i]
            break
    for i in range(n):
        if absent[i]:
            values[i] = last
        else:
            last = values[i]


@inner
def course(values, n):
    """Return ``RISES`` if values never fall, ``FALLS`` if they never rise, or 0."""
    falls = False
    rises = False
    for i in range(1, n):
        falls |= values[i] < values[i - 1]
        rises |= values[i] > values[i - 1]
    if not falls:
        return RISES
    return FALLS if not rises else 0


@inner
def turned(values, n, out):
    """Write ``~value`` of each value: falling values then rise."""
    for i in range(n):
        out[i] = ~values[i]


@inner
def _below(values, m, x):
    a = np.int64(0)
    b = np.int64(m)
    while a < b:
        middle = (a + b) >> 1
        if values[middle] < x:
            a = middle + 1
        else:
            b = middle
    return a


@inner
def _places_in_step(values, m, probes, n, by, out):
    """Count the values below ``probes[i] + by``; both rise, and no sum leaves int64."""
    p = np.int64(0)
    for i in range(n):
        x = probes[i] + by
        while p + LOOKS <= m and values[p + 7] < x:
            p += LOOKS
        if p + LOOKS <= m:  # spelled out: the compiler unrolls no loop
            p += (
                np.int64(values[p] < x) + np.int64(values[p + 1] < x) + np.int64(values[p + 2] < x)
                + np.int64(values[p + 3] < x) + np.int64(values[p + 4] < x) + np.int64(values[p + 5] < x)
                + np.int64(values[p + 6] < x)
            )
        else:
            while p < m and values[p] < x:
                p += 1
        out[i] = p


@inner
def _places_near(values, m, probes, n, by, out):
    """Count them for probes in any order, from the last place on by doubling steps (Bentley and Yao 1976)."""
    p = np.int64(0)
    for i in range(n):
        x = probes[i] + by
        if p < m and values[p] < x:
            step = np.int64(1)
            low = p + 1
            while low + step <= m and values[low + step - 1] < x:
                low += step
                step += step
            high = np.int64(min(low + step - 1, m))
        else:
            step = np.int64(1)
            high = p
            while high - step >= 0 and values[high - step] >= x:
                high -= step
                step += step
            low = max(high - step, np.int64(-1)) + 1
        while low < high:
            middle = (low + high) >> 1
            if values[middle] < x:
                low = middle + 1
            else:
                high = middle
        p = low
        out[i] = p


@inner
def _places_apart(values, m, probes, n, by, closed, out):
    """Count them where sums may leave int64."""
    for i in range(n):
        v = probes[i]
        leaves = beyond(v, by)
        if leaves != 0:
            out[i] = m if leaves > 0 else 0
        elif not closed:
            out[i] = _below(values, m, v + by)
        elif v + by == I64_MAX:
            out[i] = m
        else:
            out[i] = _below(values, m, v + by + 1)


@inner
def places(values, m, probes, n, rises, by, closed, out):
    """Count the m rising values that are less than ``probes[i] + by`` (``closed``: no greater than it)."""
    if n == 0:
        return
    least = I64_MAX
    most = I64_MIN
    for i in range(n):
        least = min(least, probes[i])
        most = max(most, probes[i])
    # One more than a closed end is an open one.
    far = by
    if closed:
        if by == I64_MAX:
            _places_apart(values, m, probes, n, by, closed, out)
            return
        far = by + 1
    if beyond(most, far) > 0 or beyond(least, far) < 0:
        _places_apart(values, m, probes, n, by, closed, out)
    elif rises:
        _places_in_step(values, m, probes, n, far, out)
    else:
        _places_near(values, m, probes, n, far, out)
