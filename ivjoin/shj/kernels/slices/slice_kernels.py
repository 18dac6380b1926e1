"""Find candidate pairs of two batches that are in the order of an axis.

A row's number in its batch is its *place*. Each band term whose build values rise turns a probe row into a range of
places. The build rows are grouped by key with a stable counting sort, so the places of a key rise. The partners of a
probe row are the places of its key in its range. Loops read eight or four entries at once without branches, so arrays
have eight entries more than rows.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.keys.key_kernels import shift_of, spread
from ivjoin.shj.kernels.push.band_kernels import lies_within
from ivjoin.shj.kernels.push.index_kernels import ASK, MOST_AXES, TRUE
from ivjoin.shj.kernels.push.probe_kernels import verdict
from ivjoin.shj.kernels.slices.place_kernels import LOOKS

__all__ = [
    "group_places", "mark", "meet", "meet_all", "meets_any", "named", "narrow", "passing", "start_of",
    "with_alone",
]


@inner
def narrow(keys, usable, some, n, least, n_ids, ids):
    """Number close keys by their distance from the least one; -1 for keys beyond, or rows not usable."""
    top = least + (n_ids - 1)
    for i in range(n):
        key = keys[i]
        good = (key >= least) & (key <= top)
        if some:
            good &= usable[i] != 0
        ids[i] = key - least if good else -1


@inner
def named(keys, usable, some, n, table, mask, words, n_ids, grows, ids):
    """Number keys by a table of id + 1 (0: empty); -1 for rows not usable, and without ``grows`` for unknown keys."""
    shift = shift_of(mask)
    for i in range(n):
        if some and usable[i] == 0:
            ids[i] = -1
            continue
        key = keys[i]
        j = spread(key, shift)
        while True:
            e = np.int64(table[j])
            if e == 0:
                if grows:
                    words[n_ids] = key
                    n_ids += 1
                    table[j] = n_ids
                    ids[i] = n_ids - 1
                else:
                    ids[i] = -1
                break
            if words[e - 1] == key:
                ids[i] = e - 1
                break
            j = (j + 1) & mask
    return n_ids


@inner
def group_places(ids, n, n_ids, ends, rows):
    """List the places by key, rising in each key, in ``rows[ends[2 * id]:ends[2 * id + 1]]``; skip rows with id -1."""
    for b in range(2 * n_ids):
        ends[b] = 0
    for j in range(n):
        if ids[j] >= 0:
            ends[2 * ids[j] + 1] += 1
    total = np.int64(0)
    for b in range(n_ids):
        c = np.int64(ends[2 * b + 1])
        ends[2 * b] = total
        ends[2 * b + 1] = total
        total += c
    for j in range(n):
        if ids[j] >= 0:
            at = 2 * np.int64(ids[j]) + 1
            p = np.int64(ends[at])
            ends[at] = p + 1
            rows[p] = j
    return total


@inner
def start_of(rows, p, end, lo, rises):
    """Return the first of a key's places, from p on, that is no less than lo."""
    if rises:
        step = np.int64(4)
        while step == 4:
            step = np.int64(0)
            for u in range(4):
                step += np.int64((p + u < end) & (rows[p + u] < lo))
            p += step
        return p
    while p < end:
        middle = (p + end) >> 1
        if rows[middle] < lo:
            p = middle + 1
        else:
            end = middle
    return p


@inner
def meet(ids, first, last, n, rises, ends, rows, keep, state, out_probe, out_store, room):
    """List pairs of probe rows and the places of their keys in ``[first[i], last[i])``; return their number.

    ``rises``: ``first`` never falls, so the begin of each key in ``ends`` advances. ``state``: the probe row and the
    entry of ``rows`` to continue with (-1: begin the row), and where the row began. ``keep``: a row without a pair gets
    place -1.
    """
    out = np.int64(0)
    i = np.int64(state[0])
    q = np.int64(state[1])
    began = np.int64(state[2])
    while i < n and out <= room - LOOKS:
        b = 2 * max(np.int64(ids[i]), np.int64(0))
        end = np.int64(ends[b + 1])
        hi = np.int64(last[i])
        if q < 0:
            q = start_of(rows, np.int64(ends[b]), end, np.int64(first[i]), rises)
            if rises:
                ends[b] = q
            began = q
        count = np.int64(LOOKS)
        while count == LOOKS and out <= room - LOOKS:
            count = np.int64(0)
            for u in range(LOOKS):
                j = np.int64(rows[q + u])
                out_probe[out + u] = i
                out_store[out + u] = j
                count += np.int64((q + u < end) & (j < hi))
            q += count
            out += count
        if count == LOOKS:
            break
        if keep and q == began:
            out_probe[out] = i
            out_store[out] = -1
            out += 1
        i += 1
        q = np.int64(-1)
    state[0] = i
    state[1] = q
    state[2] = began
    return out


@inner
def meet_all(first, last, n, keep, state, out_probe, out_store, room):
    """Do as ``meet`` for all places of a range."""
    out = np.int64(0)
    i = np.int64(state[0])
    q = np.int64(state[1])
    while i < n:
        a = np.int64(first[i]) if q < 0 else q
        b = np.int64(last[i])
        count = min(max(b - a, np.int64(0)), room - out)
        for u in range(count):
            out_probe[out + u] = i
            out_store[out + u] = a + u
        out += count
        if a + count < b:
            q = a + count
            break
        if keep and q < 0 and b <= a:
            if out == room:
                break
            out_probe[out] = i
            out_store[out] = -1
            out += 1
        i += 1
        q = np.int64(-1)
    state[0] = i
    state[1] = q
    return out


@inner
def meets_any(ids, first, last, n, rises, ends, rows, keyed, matched):
    """Mark the probe rows that have a partner."""
    for i in range(n):
        lo = np.int64(first[i])
        hi = np.int64(last[i])
        if not keyed:
            matched[i] = lo < hi
            continue
        b = 2 * max(np.int64(ids[i]), np.int64(0))
        end = np.int64(ends[b + 1])
        q = start_of(rows, np.int64(ends[b]), end, lo, rises)
        if rises:
            ends[b] = q
        matched[i] = (q < end) & (np.int64(rows[q]) < hi)


@inner
def _others(mine, theirs, used, i, j):
    """Return whether a pair satisfies the band terms that places do not imply."""
    bands = mine.bands
    for b in range(mine.n_bands):
        if used[b] == 0:
            p = mine.axes[bands[4 * b] * mine.stride + i]
            v = theirs.axes[bands[4 * b + 1] * theirs.stride + j]
            if not lies_within(v, p, bands[4 * b + 2], bands[4 * b + 3]):
                return False
    return True


@inner
def passing(mine, theirs, used, n, out_probe, out_store):
    """Select the candidate pairs that pass bands and checks; return (open pairs << 32) + pairs.

    A pair that the checks leave open has the probe row ``~i``.
    """
    out = np.int64(0)
    asks = np.int64(0)
    for k in range(n):
        i = np.int64(out_probe[k])
        j = np.int64(out_store[k])
        good = _others(mine, theirs, used, i, j)
        if good and mine.n_checks:
            missing = np.int64(0)
            if theirs.nulls:
                for b in range(MOST_AXES):
                    if (theirs.nulls >> b) & 1:
                        missing |= np.int64(theirs.absent[b * theirs.stride + j] != 0) << b
            end = verdict(mine, i, theirs.axes, j, theirs.stride, missing)
            good = end in (TRUE, ASK)
            if end == ASK:
                i = ~i
                asks += 1
        out_probe[out] = i
        out_store[out] = j
        out += np.int64(good)
    return (asks << 32) + out


@inner
def mark(flags, places, n):
    for k in range(n):
        if places[k] >= 0:
            flags[places[k]] = 1


@inner
def with_alone(state, end, out_probe, out_store, n, at, to):
    """List the n pairs, and between them, with -1, the probe rows before ``end`` without a pair; return the number.

    ``state[3]`` is the first probe row that has not been listed.
    """
    out = np.int64(0)
    seen = np.int64(state[3])
    for k in range(n):
        i = np.int64(out_probe[k])
        while seen < i:
            at[out] = seen
            to[out] = -1
            out += 1
            seen += 1
        seen = i + 1
        at[out] = i
        to[out] = out_store[k]
        out += 1
    while seen < end:
        at[out] = seen
        to[out] = -1
        out += 1
        seen += 1
    state[3] = seen
    return out
