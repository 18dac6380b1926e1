"""Insert rows into a side's index, find matches, and remove rows.

- ``slots`` : int32[keys, 8], per key: left head, tail, finger; right head, tail, finger; key (int64).
- ``links`` : int32[cap, 4 + 2 a], per row: next, previous, key id, flags (LIVE | MATCHED), axes.
- ``rows`` : int64[cap, 2 + a], the same memory as words: two words of links, then the axes.

A row has an id that only grows; its place in the ring is ``id % cap``. Links are places (-1: none). The rows of a key
form a doubly linked list, which ascends in the first axis if the side is (nearly) ordered. A key's finger is the row
where the matches of the last probe row began. It moves forward as both sides advance, and a late probe row walks back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IN2, IO1, IO2, IO2_I4, compiled, inner
from ivjoin.shj.kernels.pointers import AHEAD, at_i32, at_i64, line_of, prefetch

__all__ = [
    "ASK", "FALSE", "FIRST_ABSENCE", "FIRST_AXIS", "FIRST_PROBE", "FIRST_STORE", "FLAGS", "KEY", "LIVE", "MARK_PROBE",
    "MARK_STORE", "MATCHED", "MOST_AXES", "PAIRS", "PREV", "PROBE_ROW", "PUSH", "SOME_REFUSED", "SOME_STEPS", "TRUE",
    "WORTH_REFUSING", "WORTH_WALKING", "Index", "absence", "index_of", "insert", "insert_rows", "link_one", "unlink",
    "unlink_one",
]

# A store switches to sorted runs above this many walked steps per row, plus a constant allowance.
WORTH_WALKING, SOME_STEPS = 128, 500_000
# The same for rows per probe row within the first axis's window that other bands refuse.
WORTH_REFUSING, SOME_REFUSED = 128, 1_000_000
PUSH = 200  # the fixed cost of a push, in probe rows

FIRST_AXIS = 2  # word of a row record
PREV, KEY, FLAGS = 1, 2, 3  # links of a row record
LIVE, MATCHED = 1, 2
# Mask of the probe row in a word. The upper half is 1 + the place of its first match, or 0 if that is unknown.
PROBE_ROW = 0xFFFFFFFF
FIRST_ABSENCE = 8  # first of the flag bits that mark an axis without a value
MOST_AXES = 22  # axes with such a bit of their own
TRUE, FALSE, ASK = -1, -2, -3  # results of the checks of a pair; ASK: Python decides
PAIRS, MARK_STORE, MARK_PROBE, FIRST_PROBE, FIRST_STORE = 1, 2, 4, 8, 16


@inner
def absence(axis):
    """Return the flag of a row without a value on an axis; axes from ``MOST_AXES`` on share one."""
    return np.int64(1) << (FIRST_ABSENCE + min(axis, MOST_AXES))


class Index(NamedTuple):
    """The index of a side: flat arrays or pointers, and scalars."""

    rows: Any
    links: Any
    slots: Any
    width: int  # words of a row record
    stride: int  # links of a row record
    side: int  # position of the side's head in a slot
    ordered: int
    cap: int


@inner
def index_of(op, store, p):
    width = FIRST_AXIS + store.n_axes
    rows, links, slots = at_i64(store.rows), at_i32(store.rows), at_i32(op.slots)
    return Index(rows, links, slots, width, 2 * width, 3 * p, store.ordered, store.cap)


@inner
def _insert_between(x, pos, slot):
    """Link a row that is less than its key's tail, walking back from the tail; return the steps."""
    rows, links, slots, width, stride = x.rows, x.links, x.slots, x.width, x.stride
    v = rows[pos * width + FIRST_AXIS]
    head = np.int64(slots[slot])
    if rows[head * width + FIRST_AXIS] > v:
        links[pos * stride] = head
        links[pos * stride + PREV] = -1
        links[head * stride + PREV] = pos
        slots[slot] = pos
        return 0
    steps = 0
    after = np.int64(slots[slot + 1])
    while rows[after * width + FIRST_AXIS] > v:
        after = np.int64(links[after * stride + PREV])
        steps += 1
    nxt = np.int64(links[after * stride])
    links[pos * stride] = nxt
    links[pos * stride + PREV] = after
    links[after * stride] = pos
    links[nxt * stride + PREV] = pos
    return steps


@inner
def link_one(x, pos, key_id):
    """Link a row whose record is written into its key's list; return the steps that it took."""
    rows, links, slots, width, stride = x.rows, x.links, x.slots, x.width, x.stride
    slot = 8 * key_id + x.side
    tail = np.int64(slots[slot + 1])
    # Branch-free, because a branch on an empty list would be unpredictable: without a tail, the row replaces it.
    before = pos if tail < 0 else tail
    if x.ordered == 1 and rows[before * width + FIRST_AXIS] > rows[pos * width + FIRST_AXIS]:
        return _insert_between(x, pos, slot)
    links[before * stride] = pos
    links[pos * stride] = -1
    links[pos * stride + PREV] = tail
    slots[slot] = pos if tail < 0 else slots[slot]
    slots[slot + 1] = pos
    slots[slot + 2] = pos if tail < 0 else slots[slot + 2]
    return 0


@inner
def insert_rows(x, key_ids, n, axes, axis_stride, place, tally, rows_at):
    """Do as ``insert``; value i of axis a is ``axes[a * axis_stride + i]``, and ``rows_at`` the address of the rows."""
    rows, links, slots, width, stride = x.rows, x.links, x.slots, x.width, x.stride
    born = 0
    steps = 0
    pos = place
    for i in range(n):
        if i + AHEAD < n:
            prefetch(rows_at + 8 * width * np.int64(slots[8 * key_ids[i + AHEAD] + x.side + 1]))
        key_id = key_ids[i]
        row = pos * width
        link = pos * stride
        for a in range(width - FIRST_AXIS):
            rows[row + FIRST_AXIS + a] = axes[a * axis_stride + i]
        links[link + KEY] = key_id
        links[link + FLAGS] = LIVE
        slot = 8 * key_id + x.side
        tail = np.int64(slots[slot + 1])
        born += (slots[8 * key_id] < 0) & (slots[8 * key_id + 3] < 0)
        # As ``link_one``; calling it for each row would double the time.
        before = pos if tail < 0 else tail
        if x.ordered == 1 and rows[before * width + FIRST_AXIS] > rows[row + FIRST_AXIS]:
            steps += _insert_between(x, pos, slot)
        else:
            links[before * stride] = pos
            links[link] = -1
            links[link + PREV] = tail
            slots[slot] = pos if tail < 0 else slots[slot]
            slots[slot + 1] = pos
            slots[slot + 2] = pos if tail < 0 else slots[slot + 2]
        pos += 1
        if pos == x.cap:
            pos = 0
    tally[0] += steps
    return born


@compiled(I8(IN1, IN2, I8, I8, IO2, IO2_I4, IO2_I4, I8, IO1, I8))
def insert(key_ids, axes, place, ordered, rows, links, slots, side, tally, rows_at):
    """Store rows from ``place`` on; return the number of keys that had no row before.

    ``key_ids`` : int64[n], ``axes`` : int64[a, n]. ``ordered`` 1 keeps lists ascending and adds the steps to
    ``tally[0]``.
    """
    cap, width = rows.shape
    x = Index(line_of(rows), line_of(links), line_of(slots), width, 2 * width, side, ordered, cap)
    return insert_rows(x, key_ids, key_ids.shape[0], line_of(axes), axes.shape[1], place, tally, rows_at)


@inner
def unlink_one(x, pos):
    """Remove a row from its key's list; return whether its key is left without rows."""
    links, slots, stride = x.links, x.slots, x.stride
    nxt = np.int64(links[pos * stride])
    prv = np.int64(links[pos * stride + PREV])
    key_id = np.int64(links[pos * stride + KEY])
    slot = 8 * key_id + x.side
    # Branch-free, as in ``insert_rows``: the dead row itself replaces a missing neighbour.
    links[(pos if prv < 0 else prv) * stride] = nxt
    slots[slot] = nxt if prv < 0 else slots[slot]
    links[(pos if nxt < 0 else nxt) * stride + PREV] = prv
    slots[slot + 1] = prv if nxt < 0 else slots[slot + 1]
    heir = prv if nxt < 0 else nxt
    slots[slot + 2] = heir if slots[slot + 2] == pos else slots[slot + 2]
    return np.int64((slots[8 * key_id] < 0) & (slots[8 * key_id + 3] < 0))


@compiled(I8(IN1, IO2_I4, IO2_I4, I8))
def unlink(places, links, slots, side):
    """Remove live rows at ``places`` : int64[n] from their lists; return the number of keys left without rows."""
    flat = line_of(links)
    x = Index(flat, flat, line_of(slots), links.shape[1] >> 1, links.shape[1], side, 0, links.shape[0])
    died = 0
    for i in range(places.shape[0]):
        flag = places[i] * x.stride + FLAGS
        if flat[flag] & LIVE:
            flat[flag] &= ~LIVE
            died += unlink_one(x, places[i])
    return died
