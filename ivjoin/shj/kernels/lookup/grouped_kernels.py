"""Sort the rows of each key, and search within a key. Most groups fit into the processor's cache."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IO1, IO1_I4, VOID, compiled, inner

__all__ = ["DIGITS", "group_values", "place_within", "sort_groups", "sort_rows"]

_FEW = 24  # up to this number of rows, a key or a bucket is sorted by insertion
_NEAR = 1 << 15  # up to this number of rows, a key is sorted by buckets, which fit the processor's cache
_BITS = 11  # bits per digit of the radix sort of larger keys
DIGITS = 1 << _BITS


@compiled(VOID(IN1, IN1, IO1, IO1, IO1))
def group_values(kids, values, starts, keys, rows):
    """Group values and row numbers by key; the rows of one key stay in order.

    kids, values, keys, rows : int64[n], keys and rows are the output
    starts : int64[ids + 1], zeros; afterwards where the rows of each key begin
    """
    n = kids.shape[0]
    for i in range(n):
        starts[kids[i] + 1] += 1
    for k in range(1, starts.shape[0]):
        starts[k] += starts[k - 1]
    for i in range(n):
        at = starts[kids[i]]
        starts[kids[i]] = at + 1
        keys[at] = values[i]
        rows[at] = i
    for j in range(1, starts.shape[0]):
        k = starts.shape[0] - j
        starts[k] = starts[k - 1]
    starts[0] = 0


@inner
def _insert(from_keys, from_rows, first, keys, rows, start, n):
    """Sort n rows from ``first`` on by insertion into the places from ``start`` on; the sort is stable."""
    for i in range(n):
        key = from_keys[first + i]
        row = from_rows[first + i]
        j = start + i - 1
        while j >= start and keys[j] > key:
            keys[j + 1] = keys[j]
            rows[j + 1] = rows[j]
            j -= 1
        keys[j + 1] = key
        rows[j + 1] = row


@inner
def _dealt(keys, rows, start, end, least, span, other_keys, other_rows, counts):
    """Sort [start, end) by distributing its rows to at least as many buckets, by their first bits.

    Return False, without sorting, if a bucket would get more than 24 rows (Knuth 3, 5.2.1, address calculation).
    """
    n = end - start
    size = np.int64(1)
    while size < n:
        size <<= 1
    shift = np.uint64(0)
    while (span >> shift) >= np.uint64(size):
        shift += np.uint64(1)
    base = np.uint64(least)
    for j in range(size):
        counts[j] = 0
    for i in range(start, end):
        counts[np.int64((np.uint64(keys[i]) - base) >> shift)] += 1
    total = np.int64(0)
    most = np.int64(0)
    for j in range(size):
        count = counts[j]
        most = max(most, count)
        counts[j] = total
        total += count
    if most > _FEW:
        return False
    for i in range(start, end):
        key = keys[i]
        place = np.int64((np.uint64(key) - base) >> shift)
        at = counts[place]
        counts[place] = at + 1
        other_keys[at] = key
        other_rows[at] = rows[i]
    _insert(other_keys, other_rows, 0, keys, rows, start, n)
    return True


@inner
def _by_digits(keys, rows, start, end, least, span, other_keys, other_rows, counts):
    """Sort [start, end) by the digits in which its values differ, least significant first (Knuth 3, 5.2.5)."""
    n = end - start
    base = np.uint64(least)
    mask = np.uint64(DIGITS - 1)
    shift = np.uint64(0)
    moved = False  # whether the rows are in the other arrays
    while shift < np.uint64(64) and (span >> shift) > np.uint64(0):
        for j in range(DIGITS):
            counts[j] = 0
        for i in range(n):
            key = np.uint64(other_keys[i] if moved else keys[start + i]) - base
            counts[np.int64((key >> shift) & mask)] += 1
        total = np.int64(0)
        for j in range(DIGITS):
            count = counts[j]
            counts[j] = total
            total += count
        for i in range(n):
            word = other_keys[i] if moved else keys[start + i]
            row = other_rows[i] if moved else rows[start + i]
            digit = np.int64(((np.uint64(word) - base) >> shift) & mask)
            at = counts[digit]
            counts[digit] = at + 1
            if moved:
                keys[start + at] = word
                rows[start + at] = row
            else:
                other_keys[at] = word
                other_rows[at] = row
        moved = not moved
        shift += np.uint64(_BITS)
    if moved:
        for i in range(n):
            keys[start + i] = other_keys[i]
            rows[start + i] = other_rows[i]


@compiled(VOID(IO1, IO1_I4, IO1, IO1_I4, IO1))
def sort_rows(values, rows, other_values, other_rows, counts):
    """Sort values : int64[n] and their row numbers : int32[n] in place, stably; the other arrays are scratch."""
    n = values.shape[0]
    if n < 2:
        return
    least = values[0]
    most = least
    rises = True
    for i in range(1, n):
        rises = rises and values[i - 1] <= values[i]
        least = min(least, values[i])
        most = max(most, values[i])
    if not rises:
        span = np.uint64(most) - np.uint64(least)
        _by_digits(values, rows, 0, n, least, span, other_values, other_rows, counts)


@compiled(VOID(IN1, IO1, IO1, IO1, IO1, IO1))
def sort_groups(starts, keys, rows, other_keys, other_rows, counts):
    """Sort the rows of each group by their values, in place; the sort is stable.

    starts : int64[groups + 1], keys, rows : int64[n]
    Scratch: other_keys, other_rows : int64[rows of the greatest group], counts : int64[2 ** 16]
    """
    for k in range(starts.shape[0] - 1):
        a = starts[k]
        b = starts[k + 1]
        if b - a < 2:
            continue
        least = keys[a]
        most = least
        rises = True
        for i in range(a + 1, b):
            rises = rises and keys[i - 1] <= keys[i]
            least = min(least, keys[i])
            most = max(most, keys[i])
        if rises:
            continue
        if b - a <= _FEW:
            _insert(keys, rows, a, keys, rows, a, b - a)
            continue
        span = np.uint64(most) - np.uint64(least)
        if b - a > _NEAR or not _dealt(keys, rows, a, b, least, span, other_keys, other_rows, counts):
            _by_digits(keys, rows, a, b, least, span, other_keys, other_rows, counts)


@compiled(VOID(IN1, IN1, IN1, IN1, I8, IO1))
def place_within(starts, stops, values, given, after, out):
    """Return where given values would be inserted among values that rise from a start to a stop.

    starts, stops, given, out : int64[n]; before equal values, or ``after`` them
    values : int64[m]
    A search begins where the last one ended if it can, and doubles its steps (Bentley and Yao 1976).
    """
    last = np.int64(0)
    start = np.int64(-1)
    at = np.int64(0)
    for i in range(given.shape[0]):
        value = given[i]
        if starts[i] != start or value < last:
            at = starts[i]
        start = starts[i]
        last = value
        stop = stops[i]
        at = min(at, stop)
        step = np.int64(1)
        high = at
        while high < stop and (values[high] < value or (after != 0 and values[high] == value)):
            at = high + 1
            high += step
            step *= 2
        high = min(high, stop)
        while at < high:
            middle = (at + high) >> 1
            if values[middle] < value or (after != 0 and values[middle] == value):
                at = middle + 1
            else:
                high = middle
        out[i] = at
