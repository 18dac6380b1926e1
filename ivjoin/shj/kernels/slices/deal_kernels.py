"""Compiled loops that deal unordered rows to buckets of rising values; each bucket is then sorted for itself.

Source: D. E. Knuth, The Art of Computer Programming 3, 5.2.5, sorting by distribution.
"""

from __future__ import annotations

from ivjoin.shj.kernels.compiling import I8, IN1, IN_U8, IO1, IO1_I4, IO_U8, VOID, compiled

__all__ = ["buckets_of", "deal"]


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
