"""Find the stored rows that match the rows of a batch, in the lists of ``index_kernels``."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IN2, IO1, IO2_I4, IO_U8, compiled, inner
from ivjoin.shj.kernels.memory import line_of
from ivjoin.shj.kernels.push import index_kernels as index
from ivjoin.shj.kernels.records import source_at
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["candidates", "lies_within", "nulls_of", "others", "probe", "probe_rows", "verdict", "window"]


@inner
def window(axes, stride, bands, n_primary, i):
    """Return the closed interval of the store's first axis that row i can match; (1, 0) if it lies outside int64."""
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
def lies_within(v, p, low, high):
    """Return whether v is in [p + low, p + high], without overflow."""
    if low != I64_MIN:
        if low > 0 and p > I64_MAX - low:
            return False
        if not (low < 0 and p < I64_MIN - low) and v < p + low:
            return False
    if high != I64_MAX:
        if high < 0 and p < I64_MIN - high:
            return False
        if not (high > 0 and p > I64_MAX - high) and v > p + high:
            return False
    return True


@inner
def others(axes, stride, bands, n_primary, n_bands, i, rows, row):
    """Return whether the stored row that begins at ``rows[row]`` satisfies the band terms on the other axes."""
    for b in range(n_primary, n_bands):
        p = axes[bands[4 * b] * stride + i]
        if not lies_within(rows[row + index.FIRST_AXIS + bands[4 * b + 1]], p, bands[4 * b + 2], bands[4 * b + 3]):
            return False
    return True


@inner
def nulls_of(side):
    """Return a bit for each axis where some row of the batch has no value."""
    nulls = np.int64(0)
    for a in range(min(side.n_axes, index.MOST_AXES)):
        if source_at(side.sources, a).has_absent:
            nulls |= np.int64(1) << a
    return nulls


@inner
def verdict(checks, axes, absent, stride, nulls, i, stored, first, step, missing):
    """Evaluate the checks of a pair; return ``TRUE``, ``FALSE`` or ``ASK``.

    A check is eight words: probe axis, stored axis (-1: none), low, high, next check if the difference lies within
    them, if not, if a value is missing, unused. ``nulls`` has a bit for each axis on which a probe row may have no
    value. Axis b of the stored row is ``stored[first + b * step]``; ``missing`` has a bit for each without a value.
    """
    at = np.int64(0)
    while at >= 0:
        c = 8 * at
        a = checks[c]
        b = checks[c + 1]
        p = np.int64(0)
        v = np.int64(0)
        unknown = False
        if a >= 0:
            p = axes[a * stride + i]
            unknown = (nulls >> a) & 1 != 0 and absent[a * stride + i] != 0
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
def candidates(
    key_ids, begin, n, axes, stride, bands, n_primary, ordered, slots, rows, width, side, least, most, count, out,
):
    """List the probe rows whose key has stored rows in reach of the window; return the new count.

    The loop does not branch on the contents of rows: with many keys, most probe rows end here. The store's first axis
    lies within ``least`` and ``most``. ``out`` : int64[n + 1] has ``count`` rows already.
    """
    if ordered == 1 and n_primary == 1 and _stays_in_range(axes, stride, bands, n):
        below = bands[2]
        above = bands[3]
        column = bands[0] * stride
        for i in range(begin, n):
            low = I64_MIN if below == I64_MIN else axes[column + i] + below
            high = I64_MAX if above == I64_MAX else axes[column + i] + above
            if high < least or low > most:
                continue
            out[count] = i
            count += _may_meet(key_ids[i], low, high, side, slots, rows, width)
        return count
    if ordered == 1 and n_primary > 1:
        for i in range(begin, n):
            low, high = window(axes, stride, bands, n_primary, i)
            out[count] = i
            good = _may_meet(key_ids[i], low, high, side, slots, rows, width)
            count += good & (low <= most) & (high >= least)
        return count
    for i in range(begin, n):
        out[count] = i
        count += (key_ids[i] >= 0) & (slots[8 * max(key_ids[i], 0) + side] >= 0)
    return count


@inner
def _may_meet(key_id, low, high, side, slots, rows, width):
    """Return whether a key has rows whose first and last are not outside a window; branch-free."""
    slot = 8 * max(key_id, 0) + side
    head = slots[slot]
    first = max(np.int64(head), 0)
    last = max(np.int64(slots[slot + 1]), 0)
    good = (key_id >= 0) & (head >= 0)
    good &= rows[first * width + index.FIRST_AXIS] <= high
    good &= rows[last * width + index.FIRST_AXIS] >= low
    return good


@inner
def _stays_in_range(axes, stride, bands, n):
    """Return whether adding the ends of the first band to its probe axis cannot overflow int64."""
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
def _next_in_ring(place, key_id, high, rows, links, width, stop, cap):
    """Return the place of a key's next row up to ``high``, in a ring ordered by the first axis; -1 if none."""
    place += 1
    while True:
        if place == cap:
            place = 0
        if place == stop:
            return -1
        link = 2 * width * place
        if links[link + index.FLAGS] & index.LIVE:
            if rows[place * width + index.FIRST_AXIS] > high:
                return -1
            if links[link + index.KEY] == key_id:
                return place
        place += 1


@inner
def probe_rows(
    key_ids, chosen, n, axes, stride, bands, n_primary, n_bands, ordered, slots, rows, links, width, side, matched,
    mode, state, out_probe, out_store, room, checks, n_checks, absent, nulls, stop, cap,
):
    """Find the pairs of the n ``chosen`` rows; return how many. A pair that the checks leave open has row ``~i``.

    If ``stop`` is not -1, it is the place after the last row of an ordered ring, each row's first match is known, and
    the next ones are searched in the ring, not in lists.
    """
    emit = mode & index.PAIRS
    link_stride = 2 * width
    count = 0
    steps = 0
    missed = 0
    c = state[0]
    node = state[1]
    while c < n:
        i = chosen[c] & index.PROBE_ROW
        key_id = key_ids[i]
        low, high = window(axes, stride, bands, n_primary, i)
        if low > high:
            c += 1
            node = -2
            continue
        known = (chosen[c] >> 32) - 1
        if node == -2 and known >= 0 and (stop >= 0 or links[known * link_stride + index.FLAGS] & index.LIVE):
            node = known
        elif node == -2:
            node = np.int64(slots[8 * key_id + side])
            if node >= 0 and ordered == 1 and n_primary > 0:
                finger = np.int64(slots[8 * key_id + side + 2])
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
                slots[8 * key_id + side + 2] = node if node >= 0 else finger
        while node >= 0:
            row = node * width
            link = node * link_stride
            nxt = np.int64(links[link])
            if n_primary > 0:
                v = rows[row + index.FIRST_AXIS]
                if v > high:
                    if ordered == 1:
                        break
                    node = nxt
                    continue
                if v < low:
                    node = nxt
                    continue
            ok = n_primary == n_bands or others(axes, stride, bands, n_primary, n_bands, i, rows, row)
            missed += not ok
            if ok and mode & index.FIRST_STORE and links[link + index.FLAGS] & index.MATCHED:
                ok = False
            found = i
            if ok and n_checks > 0:
                missing = links[link + index.FLAGS] >> index.FIRST_ABSENCE
                end = verdict(checks, axes, absent, stride, nulls, i, rows, row + index.FIRST_AXIS, 1, missing)
                ok = end != index.FALSE
                found = ~i if end == index.ASK else i
            if ok:
                if emit:
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
                nxt = _next_in_ring(node, key_id, high, rows, links, width, stop, cap)
            node = nxt
        c += 1
        node = -2
    state[0] = n
    state[1] = -2
    state[2] += steps
    state[3] += missed
    return count


@compiled(I8(IN1, IN2, IN2, I8, I8, IO2_I4, IN2, IO2_I4, I8, I8, IO_U8, I8, IO1, IO1, IO1, IO1))
def probe(
    key_ids, axes, bands, n_primary, ordered, slots, rows, links, lo, side, matched, mode, state, out_probe, out_store,
    chosen,
):
    """Find the stored rows that match each probe row; return the number of pairs written.

    key_ids, axes : int64[n] (-1: matches nothing), int64[a, n]
    bands : int64[b, 4], (probe axis, store axis, low, high); the first ``n_primary`` are on the store's first axis
    matched : uint8[n], set for probe rows with a match, if ``mode`` requests it
    state : int64[4], probe row and node to continue with (node -2: begin the row); steps; rows that other bands refused
    out_probe, out_store : int64[m], probe rows and ids of stored rows
    """
    n = key_ids.shape[0]
    axis_values = line_of(axes)
    terms = line_of(bands)
    records = line_of(rows)
    keys = line_of(slots)
    cap = rows.shape[0]
    left = candidates(
        key_ids, 0, n, axis_values, axes.shape[1], terms, n_primary, ordered, keys, records, rows.shape[1], side,
        I64_MIN, I64_MAX, 0, chosen,
    )
    # The caller may have excluded rows since the last call: continue with the same row, or with the next one.
    row = state[0]
    first = np.int64(0)
    while first < left and chosen[first] < row:
        first += 1
    state[0] = first
    if state[0] < left and chosen[state[0]] != row:
        state[1] = -2
    count = probe_rows(
        key_ids, chosen, left, axis_values, axes.shape[1], terms, n_primary, bands.shape[0], ordered, keys, records,
        line_of(links), rows.shape[1], side, matched, mode, state, out_probe, out_store, out_probe.shape[0], terms, 0,
        matched, 0, -1, cap,
    )
    state[0] = chosen[state[0]] if state[0] < left else n
    turn = lo - lo % cap
    for k in range(count):
        out_store[k] += turn if out_store[k] + turn >= lo else turn + cap
    return count
