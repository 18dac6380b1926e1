"""Compiled loops that deal unordered rows to buckets of rising values; each bucket is then sorted for itself.

Source: D. E. Knuth, The Art of Computer Programming 3, 5.2.5, sorting by distribution. Buckets are dealt from their
values; within a bucket, the least significant digit comes first.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IN_U8, IO1, IO1_I4, IO_U8, VOID, compiled

__all__ = ["DIGITS", "buckets_of", "deal", "sort_bucket"]

_BITS = 11  # of a digit; six digits are a value, and the last one has its sign
DIGITS = 1 << _BITS


@compiled(VOID(IN1, IN1, IN1, I8, IO_U8, IO1))
def buckets_of(values, cuts, first, shift, out, counts):  # type: ignore[no-untyped-def]
    """Find the bucket of each value, which is the number of cuts that are no greater, and count the rows of each.

    A value's *place* is how many steps of ``2**shift`` it lies above the first cut. Only the buckets of its place are
    searched.

    Parameters
    ----------
    values : int64[n]
    cuts : int64[1 to 255]
        Rising.
    first : int64[places + 1]
        How many cuts are no greater than the least value of each place; the last entry is the number of cuts.
    shift : int
        At least 1 if the cuts span 2**63 or more.
    out : uint8[n]
    counts : int64[cuts + 1]
        Zeros; afterwards the rows of each bucket.
    """
    most = cuts[cuts.shape[0] - 1]
    base = cuts[0] >> shift
    for i in range(values.shape[0]):
        v = values[i]
        bucket = 0
        if v >= cuts[0]:
            place = (min(v, most) >> shift) - base
            bucket, last = first[place], first[place + 1]
            if v >= most:
                bucket = last = cuts.shape[0]
            while bucket < last:
                middle = (bucket + last) >> 1
                if cuts[middle] <= v:
                    bucket = middle + 1
                else:
                    last = middle
        out[i] = bucket
        counts[bucket] += 1


@compiled(VOID(IN1, IN_U8, I8, IO1, IO1, IO1_I4))
def deal(values, buckets, start, cursors, out_values, out_rows):  # type: ignore[no-untyped-def]
    """Move values and row numbers to their buckets, in the order in which they come.

    Parameters
    ----------
    values : int64[n]
    buckets : uint8[n]
    start : int
        The number of the first row.
    cursors : int64[buckets]
        Where the next row of each bucket goes.
    out_values : int64[m]
    out_rows : int32[m]
    """
    for i in range(values.shape[0]):
        bucket = buckets[i]
        at = cursors[bucket]
        cursors[bucket] = at + 1
        out_values[at] = values[i]
        out_rows[at] = start + i


@compiled(VOID(IO1, IO1_I4, IO1, IO1_I4, IO1))
def sort_bucket(values, rows, other_values, other_rows, counts):  # type: ignore[no-untyped-def]
    """Sort values, and their row numbers with them; rows of one value keep their order.

    Parameters
    ----------
    values : int64[n]
    rows : int32[n]
    other_values : int64[n]
        Scratch.
    other_rows : int32[n]
        Scratch.
    counts : int64[DIGITS]
        Scratch.
    """
    n = values.shape[0]
    differ, rises = np.int64(0), True
    for i in range(1, n):
        differ |= values[i] ^ values[0]
        rises &= values[i - 1] <= values[i]
    if rises:
        return
    moved = False
    for d in range(6):
        shift = _BITS * d
        if (differ >> shift) & (DIGITS - 1) == 0:
            continue
        sign = DIGITS >> 1 if d == 5 else 0  # negative values come first
        for j in range(DIGITS):
            counts[j] = 0
        for i in range(n):
            v = other_values[i] if moved else values[i]
            counts[((v >> shift) & (DIGITS - 1)) ^ sign] += 1
        total = np.int64(0)
        for j in range(DIGITS):
            count = counts[j]
            counts[j] = total
            total += count
        for i in range(n):
            v = other_values[i] if moved else values[i]
            j = ((v >> shift) & (DIGITS - 1)) ^ sign
            at = counts[j]
            counts[j] = at + 1
            if moved:
                values[at] = v
                rows[at] = other_rows[i]
            else:
                other_values[at] = v
                other_rows[at] = rows[i]
        moved = not moved
    if moved:
        for i in range(n):
            values[i] = other_values[i]
            rows[i] = other_rows[i]
