"""Find, for each left row of a slice, the last or first right row of its key within a range.

Both sides lie in the order of an axis. The number of a right row in that order is its *place*. A left row has a range
of places, ``first[i] <= place < last[i]``. One pass goes through both sides and remembers the last place of each key,
so nothing is grouped and nothing is searched.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IO1, IO1_I4, VOID, compiled
from ivjoin.shj.kernels.pointers import line_of
from ivjoin.shj.kernels.slices import slice_kernels as steps
from ivjoin.shj.kernels.slices.place_kernels import places

__all__ = ["count_below", "first_of_key", "group_ranges", "keys_met", "last_of_key", "local_ids"]


@compiled(VOID(IN1, IN1, I8, I8, I8, I8, IO1_I4))
def count_below(values, probes, rises, by, closed, base, out):
    """Count the values below ``probe + by`` (``closed``: no greater than it) for each probe, plus ``base``.

    values : int64[m], rising; probes : int64[n]; ``rises``: the probes rise too; out : int32[n]
    """
    n = probes.shape[0]
    places(line_of(values), values.shape[0], line_of(probes), n, rises, by, closed, out)
    for i in range(n):
        out[i] += base


@compiled(I8(IN1, IO1_I4, IO1_I4, IN1, IN1, I8, I8, I8, IO1_I4, IO1_I4, IO1_I4))
def last_of_key(kids, first, last, build_kids, groups, least, begin, floor, at, out, open_rows):
    """Find the last place of each row's key in its range; return how many rows have no place of their key so far.

    kids, build_kids : int64[n], int64[m], key ids (minus ``least``) of left rows and of the places from ``begin`` on
    first, last, out : int32[n], ranges of places, ``last`` never falls; places or -1
    groups : int64[m] or int64[0], values, rising: then the first of a key's last equal values counts
    at : int32[ids], the last place of each key, or -1
    open_rows : int32[n], rows without a place of their key from ``floor`` on; places below are of another call's slice
    """
    m = build_kids.shape[0]
    grouped = groups.shape[0] > 0
    p = np.int64(0)
    opened = np.int64(0)
    for i in range(kids.shape[0]):
        stop = np.int64(last[i]) - begin
        while p < stop:
            kid = build_kids[p] - least
            known = np.int64(at[kid])
            if not grouped or known < begin or groups[known - begin] != groups[p]:
                at[kid] = begin + p
            p += 1
        place = np.int64(at[kids[i] - least])
        if place < floor:
            open_rows[opened] = i
            opened += 1
            place = np.int64(-1)
        out[i] = place if place >= first[i] else -1
    while p < m:
        kid = build_kids[p] - least
        known = np.int64(at[kid])
        if not grouped or known < begin or groups[known - begin] != groups[p]:
            at[kid] = begin + p
        p += 1
    return opened


@compiled(I8(IN1, IO1_I4, IO1_I4, IN1, I8, I8, I8, IO1_I4, IO1_I4, IO1_I4))
def first_of_key(kids, first, last, build_kids, least, begin, ceiling, at, out, open_rows):
    """Do as ``last_of_key`` for the first place: the pass goes backwards, and ``first`` never falls.

    Places from ``ceiling`` on are of a slice that another call visits. ``at`` begins as 2**31 - 1.
    """
    n = kids.shape[0]
    p = np.int64(build_kids.shape[0])
    opened = np.int64(0)
    for k in range(n):
        i = n - 1 - k
        start = np.int64(first[i]) - begin
        while p > start:
            p -= 1
            at[build_kids[p] - least] = begin + p
        place = np.int64(at[kids[i] - least])
        if place >= ceiling:
            open_rows[opened] = i
            opened += 1
            place = np.int64(2**31 - 1)
        out[i] = place if place < last[i] else -1
    while p > 0:
        p -= 1
        at[build_kids[p] - least] = begin + p
    return opened


@compiled(I8(IN1, I8, I8, IO1_I4, IO1, IO1_I4))
def keys_met(build_kids, least, begin, at, kids, places):
    """List the key ids of a slice and, from ``at`` : int32[ids], the place of each; return how many there are."""
    count = np.int64(0)
    for p in range(build_kids.shape[0]):
        kid = build_kids[p] - least
        if at[kid] == begin + p:
            kids[count] = kid
            places[count] = begin + p
            count += 1
    return count


@compiled(I8(IN1, IN1, I8, I8, IO1_I4, IO1, IO1_I4, IO1_I4))
def local_ids(build_kids, kids, least, n_ids, table, words, build_ids, ids):
    """Give the keys of a slice ids from 0 on; return how many there are.

    build_kids, kids : int64[m], int64[n]; with a table, a left key of no right row gets -1
    table : int32[2**k], zeros, at least 2 m; or int32[0]: ids are ``kid - least``, less than ``n_ids``
    words : int64[m], scratch; build_ids, ids : int32[m], int32[n]
    """
    m = build_kids.shape[0]
    n = kids.shape[0]
    size = table.shape[0]
    if size == 0:
        for j in range(m):
            build_ids[j] = build_kids[j] - least
        for i in range(n):
            ids[i] = kids[i] - least
        return n_ids
    count = steps.named(build_kids, ids, 0, m, table, size - 1, words, np.int64(0), 1, build_ids)
    steps.named(kids, ids, 0, n, table, size - 1, words, count, 0, ids)
    return count


@compiled(VOID(IO1_I4, IO1_I4, IO1_I4, IO1_I4, I8, IO1_I4, IO1_I4, IO1_I4, IO1, IO1))
def group_ranges(build_ids, ids, first, last, rises, ends, tails, rows, low, high):
    """Group right rows by key, and find the range of its key's rows that each left row matches.

    build_ids, ids : int32[m], int32[n], key ids, -1 for none
    first, last : int32[n], ranges of places; ``rises``: neither falls
    ends, tails : int32[2 * ids], int32[ids], scratch
    rows : int32[m + 8], places by key, rising; low, high : int64[n], ``rows[low[i]:high[i]]`` match
    """
    n_ids = tails.shape[0]
    steps.group_places(build_ids, build_ids.shape[0], n_ids, ends, rows)
    for k in range(n_ids):
        tails[k] = ends[2 * k]
    for i in range(ids.shape[0]):
        kid = np.int64(ids[i])
        if kid < 0:
            low[i] = 0
            high[i] = 0
            continue
        end = np.int64(ends[2 * kid + 1])
        a = steps.start_of(rows, np.int64(ends[2 * kid]), end, np.int64(first[i]), rises)
        b = steps.start_of(rows, max(a, np.int64(tails[kid])), end, np.int64(last[i]), rises)
        if rises:
            ends[2 * kid] = a
            tails[kid] = b
        low[i] = a
        high[i] = b
