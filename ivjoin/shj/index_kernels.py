"""Compiled loops of a side's index: insert, probe, prune, take out.

Shape of a side's index::

    slots int64[keys, 8]    one cache line per key:  left  head tail finger | right head tail finger | refs | spare
    rows  int64[cap, 3+a]   one record per row:      next  prev  key id | axis 0 .. axis a-1
    flags uint8[cap]        LIVE | MATCHED

A row has an absolute id that only grows; its place is ``id & (cap - 1)``. The rows of a key form a doubly linked list,
kept in ascending order of the primary axis where the side is (nearly) ordered. The finger of a key remembers where
the last probe row's matches began: when both sides advance, it moves forward by what has been left behind, and a late
probe row walks back, so no probe depends on order for its answer, only for its cost.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.compiling import I8, IN1, IN2, IO1, IO2, IO_U8, compiled, inner

__all__ = [
    "FIRST_AXIS", "FIRST_PROBE", "FIRST_STORE", "LIVE", "MARK_PROBE", "MARK_STORE", "MATCHED", "PAIRS", "candidates",
    "insert", "insert_rows", "others", "probe", "probe_rows", "prune_oldest", "prune_prefix", "unlink", "window",
]

I64_MIN = -(2**63)
I64_MAX = 2**63 - 1

FIRST_AXIS = 3  # in a row record
USERS = 6  # in a key's slots
LIVE, MATCHED = 1, 2
PAIRS, MARK_STORE, MARK_PROBE, FIRST_PROBE, FIRST_STORE = 1, 2, 4, 8, 16


@inner
def _insert_between(row, rid, slot, rows, width, mask, slots):  # type: ignore[no-untyped-def]
    """Link a row that is less than its key's tail into its place, walking back from the tail; returns the steps."""
    v = rows[row + FIRST_AXIS]
    head = slots[slot]
    if rows[(head & mask) * width + FIRST_AXIS] > v:
        rows[row] = head
        rows[row + 1] = -1
        rows[(head & mask) * width + 1] = rid
        slots[slot] = rid
        return 0
    steps = 0
    after = slots[slot + 1]
    while rows[(after & mask) * width + FIRST_AXIS] > v:
        after = rows[(after & mask) * width + 1]
        steps += 1
    nxt = rows[(after & mask) * width]
    rows[row] = nxt
    rows[row + 1] = after
    rows[(after & mask) * width] = rid
    rows[(nxt & mask) * width + 1] = rid
    return steps


@inner
def insert_rows(kids, n, axes, stride, n_axes, first, ordered, rows, mask, flags, slots, side, tally):  # type: ignore[no-untyped-def]
    """``insert`` over flat arrays or pointers; value i of axis a is ``axes[a * stride + i]``."""
    width = FIRST_AXIS + n_axes
    born = 0
    steps = 0
    for i in range(n):
        kid = kids[i]
        rid = first + i
        pos = rid & mask
        row = pos * width
        for a in range(n_axes):
            rows[row + FIRST_AXIS + a] = axes[a * stride + i]
        rows[row + 2] = kid
        flags[pos] = LIVE
        slot = 8 * kid + side
        tail = slots[slot + 1]
        # Keys come at random, so whether a list is empty is a coin toss: the row stands in for a tail that is missing.
        before = rid if tail < 0 else tail
        if ordered == 1 and rows[(before & mask) * width + FIRST_AXIS] > rows[row + FIRST_AXIS]:
            steps += _insert_between(row, rid, slot, rows, width, mask, slots)
        else:
            rows[(before & mask) * width] = rid
            rows[row] = -1
            rows[row + 1] = tail
            slots[slot] = rid if tail < 0 else slots[slot]
            slots[slot + 1] = rid
            slots[slot + 2] = rid if tail < 0 else slots[slot + 2]
        born += slots[8 * kid + USERS] == 0
        slots[8 * kid + USERS] += 1
    tally[0] += steps
    return born


@compiled(I8(IN1, IN2, I8, I8, IO2, IO_U8, IO2, I8, IO1))
def insert(kids, axes, first, ordered, rows, flags, slots, side, tally):  # type: ignore[no-untyped-def]
    """Append rows with ids first, first+1, ...; returns how many keys came to life.

    ``ordered`` 1 keeps each key's list ascending in the first axis (walking back from the tail, which costs what the
    row is out of order by, and is added to ``tally[0]``); 0 appends.
    """
    return insert_rows(
        kids, kids.shape[0], axes.ravel(), axes.shape[1], axes.shape[0], first, ordered, rows.ravel(),
        rows.shape[0] - 1, flags, slots.ravel(), side, tally,
    )


@inner
def _unlink_one(pos, rows, width, mask, slots, side):  # type: ignore[no-untyped-def]
    nxt = rows[pos * width]
    prv = rows[pos * width + 1]
    kid = rows[pos * width + 2]
    slot = 8 * kid + side
    # Without branches, as in ``insert_rows``: the dead row itself stands in for a neighbour that is not there.
    rows[(pos if prv < 0 else prv & mask) * width] = nxt
    slots[slot] = nxt if prv < 0 else slots[slot]
    rows[(pos if nxt < 0 else nxt & mask) * width + 1] = prv
    slots[slot + 1] = prv if nxt < 0 else slots[slot + 1]
    finger = slots[slot + 2]
    heir = prv if nxt < 0 else nxt
    slots[slot + 2] = heir if finger >= 0 and (finger & mask) == pos else finger
    slots[8 * kid + USERS] -= 1
    return 1 if slots[8 * kid + USERS] == 0 else 0


@compiled(I8(IN1, IO2, IO_U8, IO2, I8))
def unlink(ids, rows, flags, slots, side):  # type: ignore[no-untyped-def]
    """Take live rows out of their lists and clear LIVE; returns how many keys died."""
    mask = rows.shape[0] - 1
    flat = rows.ravel()
    keys = slots.ravel()
    died = 0
    for i in range(ids.shape[0]):
        pos = ids[i] & mask
        if flags[pos] & LIVE:
            flags[pos] &= 254
            died += _unlink_one(pos, flat, rows.shape[1], mask, keys, side)
    return died


@inner
def prune_oldest(lo, hi, column, low, high, rows, width, mask, flags, slots, side, dead, want, tally):  # type: ignore[no-untyped-def]
    """``prune_prefix`` over flat arrays or pointers; ``want`` says whether ids go into ``dead``."""
    count = 0
    keys_died = 0
    rows_died = 0
    rid = lo
    while rid < hi:
        pos = rid & mask
        if flags[pos] & LIVE:
            v = rows[pos * width + column]
            if low <= v <= high:
                break
            flags[pos] &= 254
            keys_died += _unlink_one(pos, rows, width, mask, slots, side)
            rows_died += 1
            if want:
                dead[count] = rid
                count += 1
        rid += 1
    tally[0] = rid
    tally[1] = keys_died
    tally[2] = rows_died
    return count


@compiled(I8(I8, I8, I8, I8, I8, IO2, IO_U8, IO2, I8, IO1, IO1))
def prune_prefix(lo, hi, column, low, high, rows, flags, slots, side, dead, tally):  # type: ignore[no-untyped-def]
    """Unlink the oldest rows while their axis value lies outside [low, high]; returns how many ids went into ``dead``.

    ``tally`` gets: first id not passed, keys that died, rows that died. An empty ``dead`` means nobody asks for ids.
    """
    return prune_oldest(
        lo, hi, column, low, high, rows.ravel(), rows.shape[1], rows.shape[0] - 1, flags, slots.ravel(), side, dead,
        dead.shape[0] > 0, tally,
    )


@inner
def window(axes, stride, bands, n_primary, i):  # type: ignore[no-untyped-def]
    """The closed interval of the store's first axis that row i can match; (1, 0) when its bound lies past int64."""
    low = I64_MIN
    high = I64_MAX
    for b in range(n_primary):
        v = axes[bands[4 * b] * stride + i]
        d = bands[4 * b + 2]
        if d != I64_MIN:
            if d > 0 and v > I64_MAX - d:
                return 1, 0
            if not (d < 0 and v < I64_MIN - d) and v + d > low:
                low = v + d
        d = bands[4 * b + 3]
        if d != I64_MAX:
            if d < 0 and v < I64_MIN - d:
                return 1, 0
            if not (d > 0 and v > I64_MAX - d) and v + d < high:
                high = v + d
    return low, high


@inner
def others(axes, stride, bands, n_primary, n_bands, i, rows, row):  # type: ignore[no-untyped-def]
    """Whether the stored row that begins at ``rows[row]`` satisfies the band terms on the other axes."""
    for b in range(n_primary, n_bands):
        p = axes[bands[4 * b] * stride + i]
        v = rows[row + FIRST_AXIS + bands[4 * b + 1]]
        d = bands[4 * b + 2]
        if d != I64_MIN:
            if d > 0 and p > I64_MAX - d:
                return False
            if not (d < 0 and p < I64_MIN - d) and v < p + d:
                return False
        d = bands[4 * b + 3]
        if d != I64_MAX:
            if d < 0 and p < I64_MIN - d:
                return False
            if not (d > 0 and p > I64_MAX - d) and v > p + d:
                return False
    return True


@inner
def candidates(  # type: ignore[no-untyped-def]
    kids, n, axes, stride, bands, n_primary, ordered, slots, rows, width, mask, side, least, most, out,
):
    """Indices of the probe rows whose key has rows, the first and the last of them on the right sides of the window.

    One pass without a branch on what the rows hold: with many keys, most probe rows end here. The store's rows have a
    first axis within ``least`` and ``most``. ``out`` has room for one more than n.
    """
    count = 0
    if ordered == 1 and n_primary == 1 and _stays_in_range(axes, stride, bands, n):
        below = bands[2]
        above = bands[3]
        column = bands[0] * stride
        for i in range(n):
            low = I64_MIN if below == I64_MIN else axes[column + i] + below
            high = I64_MAX if above == I64_MAX else axes[column + i] + above
            if high < least or low > most:
                continue
            slot = 8 * max(kids[i], 0) + side
            head = slots[slot]
            good = (kids[i] >= 0) & (head >= 0)
            good &= rows[(head & mask) * width + FIRST_AXIS] <= high
            good &= rows[(slots[slot + 1] & mask) * width + FIRST_AXIS] >= low
            out[count] = i
            count += good
        return count
    for i in range(n):
        out[count] = i
        count += (kids[i] >= 0) & (slots[8 * max(kids[i], 0) + side] >= 0)
    return count


@inner
def _stays_in_range(axes, stride, bands, n):  # type: ignore[no-untyped-def]
    """Whether no value of the first band's probe axis leaves int64 when the band's ends are added to it."""
    least = I64_MAX
    most = I64_MIN
    for i in range(bands[0] * stride, bands[0] * stride + n):
        least = min(least, axes[i])
        most = max(most, axes[i])
    good = True
    for d in (bands[2], bands[3]):
        if d != I64_MIN and d != I64_MAX:
            good &= (d <= 0 or most <= I64_MAX - d) and (d >= 0 or least >= I64_MIN - d)
    return good


@inner
def probe_rows(  # type: ignore[no-untyped-def]
    kids, chosen, n, axes, stride, bands, n_primary, n_bands, ordered, slots, rows, width, mask, flags, side, matched,
    mode, state, out_probe, out_store, room,
):
    """``probe`` over flat arrays or pointers, of the n ``chosen`` rows (none with key id -1), up to ``room`` pairs."""
    emit = mode & PAIRS
    count = 0
    steps = 0
    c = state[0]
    node = state[1]
    while c < n:
        i = chosen[c]
        kid = kids[i]
        low, high = window(axes, stride, bands, n_primary, i)
        if low > high:
            c += 1
            node = -2
            continue
        if node == -2:
            node = slots[8 * kid + side]
            if node >= 0 and ordered == 1 and n_primary > 0:
                finger = slots[8 * kid + side + 2]
                node = finger
                if rows[(node & mask) * width + FIRST_AXIS] >= low:
                    while True:
                        prv = rows[(node & mask) * width + 1]
                        if prv < 0 or rows[(prv & mask) * width + FIRST_AXIS] < low:
                            break
                        node = prv
                        steps += 1
                else:
                    while True:
                        finger = node
                        node = rows[(node & mask) * width]
                        steps += 1
                        if node < 0 or rows[(node & mask) * width + FIRST_AXIS] >= low:
                            break
                slots[8 * kid + side + 2] = node if node >= 0 else finger
        while node >= 0:
            pos = node & mask
            row = pos * width
            nxt = rows[row]
            if n_primary > 0:
                v = rows[row + FIRST_AXIS]
                if v > high:
                    if ordered == 1:
                        break
                    node = nxt
                    continue
                if v < low:
                    node = nxt
                    continue
            ok = n_primary == n_bands or others(axes, stride, bands, n_primary, n_bands, i, rows, row)
            if ok and mode & FIRST_STORE and flags[pos] & MATCHED:
                ok = False
            if ok:
                if emit:
                    if count == room:
                        state[0] = c
                        state[1] = node
                        state[2] += steps
                        return count
                    out_probe[count] = i
                    out_store[count] = node
                    count += 1
                if mode & MARK_STORE:
                    flags[pos] |= MATCHED
                if mode & MARK_PROBE:
                    matched[i] = 1
                if mode & FIRST_PROBE:
                    break
            node = nxt
        c += 1
        node = -2
    state[0] = n
    state[1] = -2
    state[2] += steps
    return count


@compiled(I8(IN1, IN2, IN2, I8, I8, IO2, IN2, IO_U8, I8, IO_U8, I8, IO1, IO1, IO1))
def probe(  # type: ignore[no-untyped-def]
    kids, axes, bands, n_primary, ordered, slots, rows, flags, side, matched, mode, state, out_probe, out_store,
):
    """Find the stored rows that match each probe row; returns how many pairs were written.

    Parameters
    ----------
    kids : int64[n]
        Key ids of the probe rows, -1 for a row that cannot match.
    axes : int64[a, n]
        Their axis values.
    bands : int64[b, 4]
        (probe axis, store axis, low, high): a stored value must lie in [probe + low, probe + high]; the
        least and greatest int64 stand for no bound. The first ``n_primary`` are about the store's first axis.
    state : int64[4]
        Probe row and list node to go on from (node -2: the row's beginning), updated when the output is full; row n
        when all is done. Then the steps walked to find where matches begin, added up.
    """
    n = kids.shape[0]
    axis_values = axes.ravel()
    terms = bands.ravel()
    records = rows.ravel()
    keys = slots.ravel()
    mask = rows.shape[0] - 1
    chosen = np.empty(n + 1, dtype=np.int64)
    left = candidates(
        kids, n, axis_values, axes.shape[1], terms, n_primary, ordered, keys, records, rows.shape[1], mask, side,
        I64_MIN, I64_MAX, chosen,
    )
    # The caller may have struck rows out since the last call: go on at the same row, or at the next one.
    row = state[0]
    state[0] = np.searchsorted(chosen[:left], row)
    if state[0] < left and chosen[state[0]] != row:
        state[1] = -2
    count = probe_rows(
        kids, chosen, left, axis_values, axes.shape[1], terms, n_primary, bands.shape[0], ordered, keys, records,
        rows.shape[1], mask, flags, side, matched, mode, state, out_probe, out_store, out_probe.shape[0],
    )
    state[0] = chosen[state[0]] if state[0] < left else n
    return count
