"""Probe windows that contain few stored rows by a pass over both sides in order, as a merge join does.

A list finds the rows of a key with any axis value, and a sweep finds rows by the axis with any key. A sweep requires
that ring and batch are in the order of the first axis. The rows within a window are then neighbours, slightly after the
previous row's matches. With many keys, a list costs several more mispredictions.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.pointers import at_i32, at_i64
from ivjoin.shj.kernels.push.index_kernels import FIRST_AXIS, FLAGS, KEY, LIVE, index_of, link_one
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["FEW", "MANY", "link_loose", "may_sweep", "store_loose", "sweep"]

FEW = 4.0  # most stored rows within a window, on average, for a sweep
MANY = 3  # least stored rows per key, on average, for which a sweep is faster than lists
_PATIENCE = 12  # stored rows read per probe row, on average, before the lists handle the rest


@inner
def may_sweep(op, side, other, loosens):
    """Return whether the batch and the store are in order, and the windows contain few rows.

    If no list need be built (``loosens``), a sweep pays even if each key has few rows.
    """
    if op.full_predicate or side.n_primary != 1 or other.ordered == 0:
        return False
    if other.lo < other.since or other.hi - other.lo != other.live:
        return False
    if not loosens and other.live < MANY * op.live_keys:
        return False
    bands = at_i64(side.bands)
    values = at_i64(op.values)
    n = op.n
    below = bands[2]
    above = bands[3]
    if below == I64_MIN or above == I64_MAX or below > above:
        return False
    if float(other.live) * (float(above) - float(below) + 1.0) > FEW * (float(other.most) - float(other.least) + 1.0):
        return False
    column = bands[0] * op.room_rows
    falls = False
    for i in range(column + 1, column + n):
        falls |= values[i] < values[i - 1]
    if falls:
        return False
    first = values[column]
    last = values[column + n - 1]
    if first < I64_MIN - min(below, above, 0):
        return False
    return last < I64_MAX - max(below, above, 0)


@inner
def _meets(rows, links, at, key_id, high):
    """Return whether the row whose record begins at ``rows[at]`` has the key, and a first axis up to ``high``."""
    return (links[2 * at + KEY] == key_id) & (rows[at + FIRST_AXIS] <= high)


@inner
def sweep(op, side, other):
    """List the probe rows whose window contains a row of their key in ``op.chosen``, each with its first match.

    An entry is a word, see ``PROBE_ROW``. Return the number of entries and of rows done: the sweep may end early.
    """
    key_ids = at_i64(op.key_ids)
    values = at_i64(op.values)
    out = at_i64(op.chosen)
    n = op.n
    bands = at_i64(side.bands)
    column = bands[0] * op.room_rows
    below = bands[2]
    above = bands[3]
    rows = at_i64(other.rows)
    links = at_i32(other.rows)
    width = FIRST_AXIS + other.n_axes
    hi = other.hi
    most = other.most
    patience = _PATIENCE * (n + 16)
    cap = other.cap
    rid = min(max(other.swept, other.lo), hi)
    pos = rid % cap
    low = values[column] + below
    while rid > other.lo and patience > 0:
        before = (cap if pos == 0 else pos) - 1
        if rows[before * width + FIRST_AXIS] < low:
            break
        pos = before
        rid -= 1
        patience -= 1
    count = 0
    done = 0
    while done < n and patience > 0:
        low = values[column + done] + below
        high = values[column + done] + above
        if low > most:
            done = n
            break
        key_id = key_ids[done]
        found = 0
        # Most windows begin at most three places further and contain at most three rows: a branch-free fast path.
        if rid + 8 <= hi and pos + 8 <= cap:
            at = pos * width
            steps = 0
            steps += rows[at + FIRST_AXIS] < low
            steps += rows[at + width + FIRST_AXIS] < low
            steps += rows[at + 2 * width + FIRST_AXIS] < low
            pos += steps
            rid += steps
            at += steps * width
            if rows[at + FIRST_AXIS] >= low and rows[at + 3 * width + FIRST_AXIS] > high:
                found = pos + 3 if _meets(rows, links, at + 2 * width, key_id, high) else found
                found = pos + 2 if _meets(rows, links, at + width, key_id, high) else found
                found = pos + 1 if _meets(rows, links, at, key_id, high) else found
                out[count] = done | found << 32
                count += found > 0
                done += 1
                continue
        while rid < hi and rows[pos * width + FIRST_AXIS] < low:
            rid += 1
            pos += 1
            patience -= 1
            if pos == cap:
                pos = 0
        place = pos
        for _ in range(rid, hi):
            if rows[place * width + FIRST_AXIS] > high:
                break
            patience -= 1
            if links[2 * place * width + KEY] == key_id:
                found = place + 1
                break
            place += 1
            if place == cap:
                place = 0
        out[count] = done | found << 32
        count += found > 0
        done += 1
    other.swept = rid
    return count, done


@inner
def store_loose(x, key_ids, n, axes, axis_stride, place):
    """Store rows as ``insert_rows`` does, but in no list."""
    pos = place
    for i in range(n):
        for a in range(x.width - FIRST_AXIS):
            x.rows[pos * x.width + FIRST_AXIS + a] = axes[a * axis_stride + i]
        x.rows[pos * x.width] = -1
        x.links[x.stride * pos + KEY] = key_ids[i]
        x.links[x.stride * pos + FLAGS] = LIVE
        pos += 1
        if pos == x.cap:
            pos = 0


@inner
def link_loose(op, store, p):
    """Put the rows of side p that are in no list into their keys' lists."""
    if store.loose == 0:
        return
    x = index_of(op, store, p)
    born = 0
    steps = 0
    for rid in range(max(store.loose - 1, store.lo), store.hi):
        pos = rid % x.cap
        if x.links[x.stride * pos + FLAGS] & LIVE:
            key_id = np.int64(x.links[x.stride * pos + KEY])
            born += (x.slots[8 * key_id] < 0) & (x.slots[8 * key_id + 3] < 0)
            steps += link_one(x, pos, key_id)
    op.live_keys += born
    store.steps += steps
    store.loose = 0
