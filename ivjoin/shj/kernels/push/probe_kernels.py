"""Find the stored rows that match the rows of a batch, in the lists of ``index_kernels``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN2, IO1, compiled, inner
from ivjoin.shj.kernels.pointers import at_i64, at_u8, line_of
from ivjoin.shj.kernels.push import index_kernels as index
from ivjoin.shj.kernels.push.band_kernels import beyond, lies_within, window
from ivjoin.shj.kernels.records import operator_at, side_at, source_at
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["Terms", "candidates", "others", "probe", "probe_rows", "terms_of", "verdict"]


class Terms(NamedTuple):
    """The axes of a batch, and the bands and checks of its pairs: flat arrays or pointers, and scalars.

    Value i of axis a is ``axes[a * stride + i]``; it may be absent if ``nulls`` has bit a.

    A band is four words: probe axis, stored axis, low, high. The first ``n_primary`` are on the store's first axis.
    A check is eight words: probe axis, stored axis (-1: none), low, high, next check if the difference lies within
    them, if not, if a value is missing, unused.
    """

    axes: Any
    absent: Any
    stride: int
    nulls: int
    bands: Any
    n_primary: int
    n_bands: int
    checks: Any
    n_checks: int


@inner
def terms_of(op, side):
    nulls = 0
    for a in range(min(side.n_axes, index.MOST_AXES)):
        if source_at(side.sources, a).has_absent:
            nulls |= 1 << a
    some = op.full_predicate == 0
    return Terms(
        at_i64(op.values), at_u8(op.absent), op.room_rows, nulls, at_i64(side.bands), side.n_primary if some else 0,
        side.n_bands if some else 0, at_i64(side.checks), side.n_checks if some else 0,
    )


@inner
def others(t, i, rows, row):
    """Return whether the stored row that begins at ``rows[row]`` satisfies the band terms on the other axes."""
    bands = t.bands
    for b in range(t.n_primary, t.n_bands):
        p = t.axes[bands[4 * b] * t.stride + i]
        if not lies_within(rows[row + index.FIRST_AXIS + bands[4 * b + 1]], p, bands[4 * b + 2], bands[4 * b + 3]):
            return False
    return True


@inner
def verdict(t, i, stored, first, step, missing):
    """Evaluate the checks of a pair; return ``TRUE``, ``FALSE`` or ``ASK``.

    Axis b of the stored row is ``stored[first + b * step]``; ``missing`` has a bit for each axis without a value.
    """
    checks = t.checks
    at = np.int64(0)
    while at >= 0:
        c = 8 * at
        a = checks[c]
        b = checks[c + 1]
        p = np.int64(0)
        v = np.int64(0)
        unknown = False
        if a >= 0:
            p = t.axes[a * t.stride + i]
            unknown = (t.nulls >> a) & 1 != 0 and t.absent[a * t.stride + i] != 0
        if b >= 0:
            v = stored[first + b * step]
            unknown |= (missing >> b) & 1 != 0
        else:
            v = p
            p = np.int64(0)
        if unknown:
            at = checks[c + 6]
        elif lies_within(v, p, checks[c + 2], checks[c + 3]):
            at = checks[c + 4]
        else:
            at = checks[c + 5]
    return at


@inner
def candidates(t, x, key_ids, begin, n, least, most, count, out):
    """List the probe rows whose key has stored rows in reach of the window; return the new count.

    The loop does not branch on the contents of rows: with many keys, most probe rows end here. The store's first axis
    lies within ``least`` and ``most``. ``out`` : int64[n + 1] has ``count`` rows already.
    """
    if x.ordered == 1 and t.n_primary == 1 and _stays_in_range(t, n):
        below = t.bands[2]
        above = t.bands[3]
        column = t.bands[0] * t.stride
        for i in range(begin, n):
            low = I64_MIN if below == I64_MIN else t.axes[column + i] + below
            high = I64_MAX if above == I64_MAX else t.axes[column + i] + above
            if high < least or low > most:
                continue
            out[count] = i
            count += _may_meet(x, key_ids[i], low, high)
        return count
    if x.ordered == 1 and t.n_primary > 1:
        for i in range(begin, n):
            low, high = window(t.axes, t.stride, t.bands, t.n_primary, i)
            out[count] = i
            count += _may_meet(x, key_ids[i], low, high) & (low <= most) & (high >= least)
        return count
    for i in range(begin, n):
        out[count] = i
        count += (key_ids[i] >= 0) & (x.slots[8 * max(key_ids[i], 0) + x.side] >= 0)
    return count


@inner
def _may_meet(x, key_id, low, high):
    """Return whether a key has rows whose first and last are not outside a window; branch-free."""
    slot = 8 * max(key_id, 0) + x.side
    head = x.slots[slot]
    first = max(np.int64(head), 0)
    last = max(np.int64(x.slots[slot + 1]), 0)
    good = (key_id >= 0) & (head >= 0)
    good &= x.rows[first * x.width + index.FIRST_AXIS] <= high
    good &= x.rows[last * x.width + index.FIRST_AXIS] >= low
    return good


@inner
def _stays_in_range(t, n):
    """Return whether adding the ends of the first band to its probe axis cannot overflow int64."""
    bands = t.bands
    least = I64_MAX
    most = I64_MIN
    for i in range(bands[0] * t.stride, bands[0] * t.stride + n):
        least = min(least, t.axes[i])
        most = max(most, t.axes[i])
    good = True
    for d in (bands[2], bands[3]):
        if d != I64_MIN and d != I64_MAX:
            good &= beyond(most, d) <= 0 and beyond(least, d) >= 0
    return good


@inner
def _next_in_ring(x, place, key_id, high, stop):
    """Return the place of a key's next row up to ``high``, in a ring ordered by the first axis; -1 if none."""
    place += 1
    while True:
        if place == x.cap:
            place = 0
        if place == stop:
            return -1
        link = x.stride * place
        if x.links[link + index.FLAGS] & index.LIVE:
            if x.rows[place * x.width + index.FIRST_AXIS] > high:
                return -1
            if x.links[link + index.KEY] == key_id:
                return place
        place += 1


@inner
def probe_rows(t, x, key_ids, chosen, n, matched, mode, state, out_probe, out_store, room, stop):
    """Find the pairs of the n ``chosen`` rows; return how many. A pair that the checks leave open has row ``~i``.

    If ``stop`` is not -1, it is the place after the last row of an ordered ring, each row's first match is known, and
    the next ones are searched in the ring, not in lists.
    """
    rows, links, slots, width, link_stride = x.rows, x.links, x.slots, x.width, x.stride
    count = 0
    steps = 0
    missed = 0
    c = state[0]
    node = state[1]
    while c < n:
        i = chosen[c] & index.PROBE_ROW
        key_id = key_ids[i]
        low, high = window(t.axes, t.stride, t.bands, t.n_primary, i)
        if low > high:
            c += 1
            node = -2
            continue
        known = (chosen[c] >> 32) - 1
        if node == -2 and known >= 0 and (stop >= 0 or links[known * link_stride + index.FLAGS] & index.LIVE):
            node = known
        elif node == -2:
            node = np.int64(slots[8 * key_id + x.side])
            if node >= 0 and x.ordered == 1 and t.n_primary > 0:
                finger = np.int64(slots[8 * key_id + x.side + 2])
                node = finger
                if rows[node * width + index.FIRST_AXIS] >= low:
                    while True:
                        prv = np.int64(links[node * link_stride + index.PREV])
                        if prv < 0 or rows[prv * width + index.FIRST_AXIS] < low:
                            break
                        node = prv
                        steps += 1
                else:
                    while True:
                        finger = node
                        node = np.int64(links[node * link_stride])
                        steps += 1
                        if node < 0 or rows[node * width + index.FIRST_AXIS] >= low:
                            break
                slots[8 * key_id + x.side + 2] = node if node >= 0 else finger
        while node >= 0:
            row = node * width
            link = node * link_stride
            nxt = np.int64(links[link])
            if t.n_primary > 0:
                v = rows[row + index.FIRST_AXIS]
                if v > high:
                    if x.ordered == 1:
                        break
                    node = nxt
                    continue
                if v < low:
                    node = nxt
                    continue
            ok = t.n_primary == t.n_bands or others(t, i, rows, row)
            missed += not ok
            if ok and mode & index.FIRST_STORE and links[link + index.FLAGS] & index.MATCHED:
                ok = False
            found = i
            if ok and t.n_checks > 0:
                missing = links[link + index.FLAGS] >> index.FIRST_ABSENCE
                end = verdict(t, i, rows, row + index.FIRST_AXIS, 1, missing)
                ok = end != index.FALSE
                found = ~i if end == index.ASK else i
            if ok:
                if mode & index.PAIRS:
                    if count == room:
                        state[0] = c
                        state[1] = node
                        state[2] += steps
                        state[3] += missed
                        return count
                    out_probe[count] = found
                    out_store[count] = node
                    count += 1
                if mode & index.MARK_STORE:
                    links[link + index.FLAGS] |= index.MATCHED
                if mode & index.MARK_PROBE:
                    matched[i] = 1
                if mode & index.FIRST_PROBE:
                    break
            if stop >= 0:
                nxt = _next_in_ring(x, node, key_id, high, stop)
            node = nxt
        c += 1
        node = -2
    state[0] = n
    state[1] = -2
    state[2] += steps
    state[3] += missed
    return count


@compiled(I8(I8, I8, IN2, I8, IO1, IO1, IO1, IO1))
def probe(operator, p, bands, n_primary, state, out_probe, out_store, chosen):
    """Find the stored rows that each row of the batch on side p matches by these bands; return the number of pairs.

    bands : int64[b, 4], see ``Terms``; the first ``n_primary`` are on the store's first axis
    state : int64[4], entry of ``chosen`` and node to continue with (node -2: begin the row), the number of rows at the
    end; steps; rows that other bands refused
    out_probe, out_store : int64[m], rows of the batch and places of stored rows
    chosen : int64[n + 1], scratch
    """
    op = operator_at(operator, 0)
    side = side_at(op.sides, p)
    other = side_at(op.sides, 1 - p)
    x = index.index_of(op, other, 1 - p)
    key_ids = at_i64(op.key_ids)
    terms = line_of(bands)
    whole = terms_of(op, side)
    t = Terms(whole.axes, whole.absent, whole.stride, 0, terms, n_primary, bands.shape[0], whole.checks, 0)
    left = candidates(t, x, key_ids, 0, op.n, I64_MIN, I64_MAX, 0, chosen)
    count = probe_rows(
        t, x, key_ids, chosen, left, at_u8(op.matched), index.PAIRS, state, out_probe, out_store, out_probe.shape[0], -1
    )
    if state[0] == left:
        state[0] = op.n
    return count
