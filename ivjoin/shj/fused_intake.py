"""How the fused kernel takes a batch in: read it, check its order, tell which rows may still match, name the keys.

All that can refuse a batch stands before anything changes; see ``fused``.
"""

from __future__ import annotations

from ivjoin.shj import lane_layout as at
from ivjoin.shj.batch_memory import read_pointers, read_source
from ivjoin.shj.compiling import inner
from ivjoin.shj.index_kernels import I64_MAX, I64_MIN
from ivjoin.shj.key_kernels import intern_rows
from ivjoin.shj.memory import LENGTH, at_i32, at_i64, at_u8, load

__all__ = ["axis_bounds", "begin"]


@inner
def _below(edge, slack):  # type: ignore[no-untyped-def]
    """The least (turned) value that keeps an order whose greatest value so far is ``edge``."""
    return I64_MIN if edge < I64_MIN + slack else edge - slack


@inner
def _keeps_order(tracker, values, n, within):  # type: ignore[no-untyped-def]
    """Whether rows keep a declared order; the edge to which they move it is left in ``T_NEXT``."""
    edge = tracker[at.T_EDGE]
    slack = tracker[at.T_SLACK]
    limit = _below(edge, slack)
    turn = -1 if tracker[at.T_DESCENDING] else 0
    plain = tracker[at.T_FLOAT] == 0
    top = edge
    if slack == 0 and plain and within:
        # The common case, without a branch in the loop: no value below the one before.
        falls = values[0] ^ turn < edge
        for i in range(1, n):
            falls |= (values[i] ^ turn) < (values[i - 1] ^ turn)
        tracker[at.T_NEXT] = values[n - 1] ^ turn
        return not falls
    for i in range(n):
        v = values[i] ^ turn
        if v < limit or (v == at.NAN_ORDINAL and not plain):
            return False
        if v > top:
            top = v
            if within:
                limit = _below(top, slack)
    tracker[at.T_NEXT] = top
    return True


@inner
def axis_bounds(a, terms, n_terms, trackers, bounds):  # type: ignore[no-untyped-def]
    """Bounds of one axis of a store from the other side's orders; False when they are out of the ordinary."""
    low = I64_MIN
    high = I64_MAX
    for k in range(n_terms):
        t = 6 * k
        if terms[t + at.P_AXIS] != a:
            continue
        o = at.T_WIDTH * terms[t + at.P_TRACKER]
        least = trackers[o + at.T_LOW]
        most = trackers[o + at.T_HIGH]
        limit = trackers[o + at.T_LIMIT]
        if limit != I64_MIN:
            if trackers[o + at.T_DESCENDING]:
                most = min(most, ~limit)
            else:
                least = max(least, limit)
        if least > most:
            return False
        d = terms[t + at.P_LO]
        if d != I64_MIN and least > terms[t + at.P_LEAST]:
            if (d > 0 and least > I64_MAX - d) or (d < 0 and least < I64_MIN - d):
                return False
            low = max(low, least + d)
        d = terms[t + at.P_HI]
        if d != I64_MAX and most < terms[t + at.P_MOST]:
            if (d > 0 and most > I64_MAX - d) or (d < 0 and most < I64_MIN - d):
                return False
            high = min(high, most + d)
    b = 4 * a
    if low <= bounds[b + at.B_LEAST]:
        low = I64_MIN
    if high >= bounds[b + at.B_MOST]:
        high = I64_MAX
    if low > bounds[b + at.B_MOST] or high < bounds[b + at.B_LEAST] or low > high:
        return False
    bounds[b + at.B_LOW] = low
    bounds[b + at.B_HIGH] = high
    return True


@inner
def _all_inside(values, stride, n, bounds, n_axes):  # type: ignore[no-untyped-def]
    """Whether every axis value of every row lies within the bounds; one pass an axis, without a branch in it."""
    for a in range(n_axes):
        least = I64_MAX
        most = I64_MIN
        for i in range(a * stride, a * stride + n):
            least = min(least, values[i])
            most = max(most, values[i])
        if least < bounds[4 * a + at.B_LOW] or most > bounds[4 * a + at.B_HIGH]:
            return False
    return True


@inner
def _sort_out(r, side, n, values, kept, left):  # type: ignore[no-untyped-def]
    """Which rows a later row of the other side can match: their indices into ``kept``, the others' into ``left``.

    False if the kept ones do not come in the order in which they will die.
    """
    n_axes = r[side + at.N_AXES]
    stride = r[at.ROOM_ROWS]
    bounds = at_i64(r[side + at.BOUNDS])
    n_kept = 0
    n_left = 0
    nothing = r[side + at.NOTHING]
    r[at.KEPT_AT] = r[at.KEPT]
    if nothing == 0 and _all_inside(values, stride, n, bounds, n_axes):
        n_kept = n
        r[at.KEPT_AT] = r[at.EVERY]
    elif r[side + at.OWES] == 0 and n_axes == 1:
        low = bounds[at.B_LOW]
        high = bounds[at.B_HIGH]
        if nothing == 0:
            for i in range(n):
                kept[n_kept] = i
                n_kept += (values[i] >= low) & (values[i] <= high)
        n_left = n - n_kept
    else:
        for i in range(n):
            alive = nothing == 0
            for a in range(n_axes):
                v = values[a * stride + i]
                if v < bounds[4 * a + at.B_LOW] or v > bounds[4 * a + at.B_HIGH]:
                    alive = False
            kept[n_kept] = i
            n_kept += alive
            left[n_left] = i
            n_left += not alive
    r[at.N_KEPT] = n_kept
    r[at.N_LEFT] = n_left
    if n_kept == 0:
        return True
    kept = at_i64(r[at.KEPT_AT])
    deaths = at_i64(r[side + at.DEATHS])
    for a in range(2 * n_axes):
        if deaths[3 * a + at.D_USED] == 0:
            continue
        turn = -(a & 1)
        column = (a >> 1) * stride
        last = deaths[3 * a + at.D_LAST] if r[side + at.LIVE] else I64_MIN
        falls = values[column + kept[0]] ^ turn < last
        if n_kept == n:
            for k in range(column + 1, column + n):
                falls |= (values[k] ^ turn) < (values[k - 1] ^ turn)
        else:
            for k in range(1, n_kept):
                falls |= (values[column + kept[k]] ^ turn) < (values[column + kept[k - 1]] ^ turn)
        if falls:
            return False
    for a in range(2 * n_axes):
        deaths[3 * a + at.D_LAST] = values[(a >> 1) * stride + kept[n_kept - 1]] ^ -(a & 1)
    return True


@inner
def _read(r, side, n, pointers, values):  # type: ignore[no-untyped-def]
    """The ordinals of every source; False if one lies outside the guards."""
    sources = at_i64(r[side + at.SOURCES])
    for s in range(r[side + at.N_SOURCES]):
        row = at_i64(r[at.VALUES] + 8 * s * r[at.ROOM_ROWS])
        read_source(pointers[sources[4 * s + at.S_COLUMN]], sources[4 * s + at.S_CODE], n, row, r[at.STATE_AT])
        low = sources[4 * s + at.S_LOW]
        high = sources[4 * s + at.S_HIGH]
        if low != I64_MIN or high != I64_MAX:
            least = I64_MAX
            most = I64_MIN
            for i in range(n):
                least = min(least, row[i])
                most = max(most, row[i])
            if least < low or most > high:
                return False
    return True


@inner
def begin(r, p, side, other):  # type: ignore[no-untyped-def]
    """Read and check a batch; all that can refuse it stands before anything changes. Returns a status, 0 to go on."""
    struct = r[at.IN_STRUCT]
    n = load(struct + LENGTH)
    pointers = at_i64(r[at.IN_POINTERS])
    whole = read_pointers(struct, at_i64(r[side + at.COLUMNS]), r[side + at.N_COLUMNS], pointers)
    if not whole or n == 0:
        return at.DECLINED
    if n > r[at.ROOM_ROWS] or r[side + at.HI] - r[side + at.LO] + n > r[side + at.CAP]:
        return at.ROOM
    if r[other + at.OWES] and r[other + at.LIVE] > r[at.DEAD_SIZE]:
        return at.ROOM
    if r[at.KEYED]:
        new = max(n - r[at.N_FREE], 0)
        if 2 * (r[at.N_IDS] - r[at.N_FREE] + n) > r[at.TABLE_SIZE] or r[at.N_IDS] + new > r[at.SLOTS_SIZE]:
            return at.ROOM
    values = at_i64(r[at.VALUES])
    if not _read(r, side, n, pointers, values):
        return at.DECLINED
    stride = r[at.ROOM_ROWS]
    n_trackers = r[side + at.N_TRACKERS]
    for t in range(n_trackers):
        tracker = at_i64(r[side + at.TRACKERS] + 8 * at.T_WIDTH * t)
        column = at_i64(r[at.VALUES] + 8 * tracker[at.T_SOURCE] * stride)
        if not _keeps_order(tracker, column, n, r[at.WITHIN]):
            return at.DECLINED
    if not _sort_out(r, side, n, values, at_i64(r[at.KEPT]), at_i64(r[at.LEFT])):
        return at.DECLINED
    # From here on, the batch is taken.
    for t in range(n_trackers):
        tracker = at_i64(r[side + at.TRACKERS] + 8 * at.T_WIDTH * t)
        edge = tracker[at.T_NEXT]
        if edge > tracker[at.T_EDGE]:
            tracker[at.T_EDGE] = edge
            tracker[at.T_LIMIT] = _below(edge, tracker[at.T_SLACK])
    _name_keys(r, side, n, r[other + at.LIVE] > 0 or r[at.N_KEPT] > 0)
    if r[side + at.KEEPS]:
        matched = at_u8(r[at.MATCHED_ROWS])
        for i in range(n):
            matched[i] = 0
    r[at.N] = n
    r[side + at.ROWS_IN] += n
    r[at.STATE] = 0
    r[at.STATE + 1] = -2
    r[at.STATE + 2] = 0
    r[at.PHASE] = at.PROBING if r[other + at.LIVE] else at.KEEPING
    return 0


@inner
def _name_keys(r, side, n, needed):  # type: ignore[no-untyped-def]
    """Ids of the rows' keys, if anyone will ask for them."""
    kids = at_i64(r[at.KIDS])
    if r[at.KEYED] and needed:
        keys = at_i64(r[at.VALUES] + 8 * r[side + at.KEY_SOURCE] * r[at.ROOM_ROWS])
        packed = intern_rows(
            keys, n, keys, False, at_i32(r[at.TABLE]), r[at.TABLE_SIZE] - 1, at_i64(r[at.KEY_OF]), at_i32(r[at.FREE]),
            r[at.N_FREE], kids, r[at.N_IDS],
        )
        r[at.N_IDS] = packed >> 32
        r[at.N_FREE] = packed & 0xFFFFFFFF
    else:
        for i in range(n):
            kids[i] = 0
