"""Distribute unordered rows to buckets of rising values, so that each bucket can be sorted alone (Knuth 3, 5.2.5)."""

from __future__ import annotations

from ivjoin.shj.kernels.compiling import I8, IN1, IN_U8, IO1, IO1_I4, IO_U8, VOID, compiled

__all__ = ["buckets_of", "deal"]


@compiled(VOID(IN1, IN1, IN1, I8, IO_U8, IO1))
def buckets_of(values, cuts, first, shift, out, counts):
    """Find the bucket of each value (the number of cuts that are no greater), and count the rows of each bucket.

    A value's *place* is how many steps of ``2**shift`` it lies above the first cut; the search is in its place's
    buckets.

    values, out : int64[n], uint8[n]; counts : int64[cuts + 1], zeros
    cuts : int64[1 to 255], rising; ``shift`` >= 1 if they span 2**63 or more
    first : int64[places + 1], the cuts that are no greater than the least value of each place; the last is all
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
def deal(values, buckets, start, cursors, out_values, out_rows):
    """Move values : int64[n] and row numbers (from ``start`` on) to their buckets : uint8[n], in their order.

    cursors : int64[buckets], where the next row of each bucket goes; out_values, out_rows : int64[m], int32[m]
    """
    for i in range(values.shape[0]):
        bucket = buckets[i]
        at = cursors[bucket]
        cursors[bucket] = at + 1
        out_values[at] = values[i]
        out_rows[at] = start + i
