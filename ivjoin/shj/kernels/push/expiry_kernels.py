"""Derive one side's bounds from the other side's orders, and evict the stored rows outside them.

Each axis and direction has one schedule. Values are inverted (``~v``) if the bound falls, so that a schedule's bound
always rises. The schedule walks the rows, starting with the oldest, up to the first row that is not below the bound.
Rows below an earlier value (stragglers) are also in a binary heap of (inverted value, id). Rows without a value are
skipped.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, VOID, compiled, inner
from ivjoin.shj.kernels.pointers import at_i32, at_i64
from ivjoin.shj.kernels.push.band_kernels import beyond
from ivjoin.shj.kernels.push.index_kernels import FIRST_AXIS, FLAGS, LIVE, MATCHED, absence, index_of, unlink_one
from ivjoin.shj.kernels.push.sum_kernels import bounds_of_sums
from ivjoin.shj.kernels.records import bound_at, expiry_at, operator_at, side_at, term_at, tracker_at
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["bounds_of", "enlist", "heaps_have_room", "in_order", "prune", "reschedule", "scan", "take_out"]


@inner
def heaps_have_room(op, side, n):
    """Return whether every schedule has capacity for the rows of a batch, even if they are out of order."""
    for a in range(side.n_axes):
        values = at_i64(op.values + 8 * a * op.room_rows)
        for falling in range(2):
            d = expiry_at(side.expiry, 2 * a + falling)
            if d.used == 0 or d.size + n <= d.room:
                continue
            turn = np.int64(-falling)
            falls = (values[0] ^ turn) < (d.last if side.live else I64_MIN)
            for k in range(1, n):
                falls |= (values[k] ^ turn) < (values[k - 1] ^ turn)
            if falls:
                return False
    return True


@inner
def _rise(heap, top, i, value, rid):
    """Insert an entry at the empty place i or above it, up to ``top``."""
    while i > top:
        parent = (i - 1) >> 1
        if heap[2 * parent] <= value:
            break
        heap[2 * i] = heap[2 * parent]
        heap[2 * i + 1] = heap[2 * parent + 1]
        i = parent
    heap[2 * i] = value
    heap[2 * i + 1] = rid


@inner
def _sink(heap, size, i, value, rid):
    """Insert an entry at the empty place i or below it; the empty place first moves down, branch-free."""
    top = i
    child = 2 * i + 1
    while child + 1 < size:
        child += heap[2 * child + 2] < heap[2 * child]
        heap[2 * i] = heap[2 * child]
        heap[2 * i + 1] = heap[2 * child + 1]
        i = child
        child = 2 * i + 1
    if child < size:
        heap[2 * i] = heap[2 * child]
        heap[2 * i + 1] = heap[2 * child + 1]
        i = child
    _rise(heap, top, i, value, rid)


@inner
def in_order(values, first, n, turn, d):
    """Return whether n rows, all with a value, rise as the schedule requires; if so, store only the last value."""
    falls = (values[first] ^ turn) < d.last
    for k in range(first + 1, first + n):
        falls |= (values[k] ^ turn) < (values[k - 1] ^ turn)
    if falls:
        return False
    d.last = values[first + n - 1] ^ turn
    return True


@inner
def enlist(side, d, column, turn, first, n):
    """Add the stored rows first .. first+n-1 to a schedule whose heap has capacity for them."""
    rows = at_i64(side.rows)
    links = at_i32(side.rows)
    width = FIRST_AXIS + side.n_axes
    absent = absence(column - FIRST_AXIS)
    heap = at_i64(d.heap)
    cap = side.cap
    pos = first % cap
    last = d.last
    for rid in range(first, first + n):
        flags = links[2 * width * pos + FLAGS]
        if flags & LIVE and not flags & absent:
            v = rows[width * pos + column] ^ turn
            if v >= last:
                last = v
            else:
                _rise(heap, 0, d.size, v, rid)
                d.size += 1
        pos += 1
        if pos == cap:
            pos = 0
    d.last = last


@compiled(VOID(I8, I8, I8, I8))
def reschedule(operator, s, axis, falling):
    """Rebuild a schedule from the stored rows; its heap has capacity for all of them."""
    op = operator_at(operator, 0)
    side = side_at(op.sides, s)
    d = expiry_at(side.expiry, 2 * axis + falling)
    d.used = 1
    d.last = I64_MIN
    d.size = 0
    d.cursor = side.lo
    enlist(side, d, FIRST_AXIS + axis, -falling, side.lo, side.hi - side.lo)


@inner
def bounds_of(side, other, a):
    """Set one axis's bounds of ``other``'s rows from the orders of ``side``; return False if Python must do it."""
    low = I64_MIN
    high = I64_MAX
    for k in range(other.n_terms):
        term = term_at(other.terms, k)
        if term.axis != a:
            continue
        t = tracker_at(side.trackers, term.tracker)
        least = t.low
        most = t.high
        if t.limit != I64_MIN:
            if t.descending:
                most = min(most, ~t.limit)
            else:
                least = max(least, t.limit)
        if least > most:
            return False
        d = term.low
        if d != I64_MIN and least > term.least:
            if beyond(least, d) != 0:
                return False
            low = max(low, least + d)
        d = term.high
        if d != I64_MAX and most < term.most:
            if beyond(most, d) != 0:
                return False
            high = min(high, most + d)
    b = bound_at(other.bounds, a)
    if low <= b.least:
        low = I64_MIN
    if high >= b.most:
        high = I64_MAX
    if low > b.most or high < b.least or low > high:
        return False
    if other.look_every:  # bounds that Python has computed stay valid
        low = max(low, b.low)
        high = min(high, b.high)
        if low > high:
            return False
    b.low = low
    b.high = high
    return True


@inner
def _kill(op, other, x, rid):
    """Remove a live row from the index, and list it in ``op.dead`` if the join type must emit it."""
    pos = rid % x.cap
    flags = x.links[pos * x.stride + FLAGS]
    x.links[pos * x.stride + FLAGS] = flags & ~LIVE
    if other.loose == 0 or rid < other.loose - 1:
        op.live_keys -= unlink_one(x, pos)
    other.live -= 1
    other.retired += 1
    if other.owes and not (other.keeps and flags & MATCHED):
        at_i64(op.dead)[op.n_dead] = pos
        op.n_dead += 1


@inner
def _is_live(other, x, rid):
    """Return whether a row that may have left the ring is live."""
    return rid >= other.lo and x.links[(rid % x.cap) * x.stride + FLAGS] & LIVE != 0


@inner
def _expire_many(op, other, x, d):
    """Evict many rows of a heap in one pass, and make a heap of those that stay."""
    heap = at_i64(d.heap)
    bound = d.bound
    kept = 0
    for e in range(d.size):
        value = heap[2 * e]
        rid = heap[2 * e + 1]
        if value >= bound:
            heap[2 * kept] = value
            heap[2 * kept + 1] = rid
            kept += 1
        elif _is_live(other, x, rid):
            _kill(op, other, x, rid)
    d.size = kept
    for k in range(kept >> 1):
        i = (kept >> 1) - 1 - k
        _sink(heap, kept, i, heap[2 * i], heap[2 * i + 1])


@inner
def _expire(op, other, x, d, column, turn):
    absent = absence(column - FIRST_AXIS)
    bound = d.bound
    if d.size > 0:
        heap = at_i64(d.heap)
        some = (d.size >> 4) + 4
        while d.size > 0 and heap[0] < bound and some > 0:
            rid = heap[1]
            d.size -= 1
            _sink(heap, d.size, 0, heap[2 * d.size], heap[2 * d.size + 1])
            if _is_live(other, x, rid):
                _kill(op, other, x, rid)
            some -= 1
        if d.size > 0 and heap[0] < bound:
            _expire_many(op, other, x, d)
    rid = max(d.cursor, other.lo)
    hi = other.hi
    pos = rid % x.cap
    dead = at_i64(op.dead)
    n_dead = op.n_dead
    spared = MATCHED if other.keeps else 0
    owes = other.owes != 0
    loose = other.loose - 1 if other.loose else I64_MAX
    keys = 0
    gone = 0
    # Most rows are evicted here. As ``_kill``, with the counts in local variables.
    while rid < hi:
        flags = x.links[pos * x.stride + FLAGS]
        if flags & LIVE and not flags & absent:
            if (x.rows[pos * x.width + column] ^ turn) >= bound:
                break
            x.links[pos * x.stride + FLAGS] = flags & ~LIVE
            if rid < loose:
                keys += unlink_one(x, pos)
            gone += 1
            if owes and not flags & spared:
                dead[n_dead] = pos
                n_dead += 1
        rid += 1
        pos += 1
        if pos == x.cap:
            pos = 0
    d.cursor = rid
    op.live_keys -= keys
    other.live -= gone
    other.retired += gone
    op.n_dead = n_dead


@inner
def _bounds_at(op, other, a):
    """Return an axis's bounds, also by the sums that are derived from it."""
    b = bound_at(other.bounds, a)
    ends = at_i64(op.state_at + 8)
    ends[0] = b.low
    ends[1] = b.high
    if other.n_sums:
        bounds_of_sums(other, a, ends, op.state_at)
    return ends[0], ends[1]


@inner
def prune(op, other, q):
    """Evict the rows of side q outside its bounds, or all if nothing can match; append them to ``op.dead``."""
    if other.live == 0:
        return
    x = index_of(op, other, q)
    if other.nothing:
        for rid in range(other.lo, other.hi):
            if _is_live(other, x, rid):
                _kill(op, other, x, rid)
        return
    for a in range(other.n_axes):
        low, high = _bounds_at(op, other, a)
        if a == 0:
            other.least = max(other.least, low)
            other.most = min(other.most, high)
        for falling in range(2):
            turned = ~high if falling else low
            if turned == I64_MIN:
                continue
            d = expiry_at(other.expiry, 2 * a + falling)
            if d.used and turned > d.bound:
                d.bound = turned
                if other.live:
                    _expire(op, other, x, d, FIRST_AXIS + a, -falling)


@inner
def scan(op, other, q):
    """Evict rows outside the bounds that no schedule tracks, by looking at every row; such bounds move rarely."""
    x = index_of(op, other, q)
    for a in range(other.n_axes):
        low, high = _bounds_at(op, other, a)
        if expiry_at(other.expiry, 2 * a).used:
            low = I64_MIN
        if expiry_at(other.expiry, 2 * a + 1).used:
            high = I64_MAX
        if low == I64_MIN and high == I64_MAX:
            continue
        absent = absence(a)
        pos = other.lo % x.cap
        for rid in range(other.lo, other.hi):
            flags = x.links[pos * x.stride + FLAGS]
            if flags & LIVE and not flags & absent:
                value = x.rows[pos * x.width + FIRST_AXIS + a]
                if value < low or value > high:
                    _kill(op, other, x, rid)
            pos += 1
            if pos == x.cap:
                pos = 0


@inner
def take_out(op, other, q, places, n):
    """Remove live rows that the join type no longer needs from the index; no row is listed."""
    x = index_of(op, other, q)
    for i in range(n):
        flag = places[i] * x.stride + FLAGS
        if x.links[flag] & LIVE:
            x.links[flag] &= ~LIVE
            op.live_keys -= unlink_one(x, places[i])
            other.live -= 1
            other.retired += 1
