"""Look once at all values of a table: whether they rise, and their ends."""

from __future__ import annotations

from ivjoin.shj.kernels.compiling import I8, IN1, IO1, VOID, compiled

__all__ = ["ends", "rises"]

_BLOCK = 4096  # values that are compared before the next test, so that the loop over them has no branch


@compiled(I8(IN1))
def rises(values):
    """Return 1 if no value is less than the one before it, else 0.

    values : int64[n]
    """
    n = values.shape[0]
    for start in range(0, n - 1, _BLOCK):
        before, after = values[start : start + _BLOCK], values[start + 1 : start + 1 + _BLOCK]
        falls = 0
        for i in range(after.shape[0]):
            falls |= after[i] < before[i]
        if falls:
            return 0
    return 1


@compiled(VOID(IN1, IO1))
def ends(values, out):
    """Write the least and the greatest value to ``out`` : int64[2].

    values : int64[n], n >= 1
    """
    least = most = values[0]
    for i in range(values.shape[0]):
        least = min(least, values[i])
        most = max(most, values[i])
    out[0], out[1] = least, most
