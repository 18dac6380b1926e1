"""One call a push, for the plain case: read the batch, check its order, probe, build the output, insert, prune.

Everything is as the other kernels do it, whose loops these are; what is saved is the road between them. The plain
case: at most one key of one word, band terms and orders over columns that have ordinals, rows of fixed width, no null
in this batch. A batch that is not plain is declined before anything has changed, and goes the long way.

Arrays are bare pointers here: numba compiles those in half the time, and this is a large kernel.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj import index_kernels as index
from ivjoin.shj import lane_layout as at
from ivjoin.shj.batch_memory import build_batch, copy_all, copy_rows
from ivjoin.shj.compiling import I8, compiled, inner
from ivjoin.shj.fused_intake import axis_bounds, begin
from ivjoin.shj.memory import at_i32, at_i64, at_u8, release

__all__ = ["push_batch"]

_PAIRS, _LEFT_ROWS, _RIGHT_ROWS = 0, 1, 2
_LOOK_EVERY = 64  # pushes between two looks at whether a ring has become too large


@inner
def _emit(r, p, other, which, n, rows, places):  # type: ignore[no-untyped-def]
    """An output batch of n rows; the status that says so."""
    made = build_batch(
        r[at.OUT_STRUCT], r[at.RELEASER], at_i64(r[at.FIELDS]), r[at.N_FIELDS], which, p, n, rows,
        at_i64(r[at.IN_POINTERS]), places, at_i64(r[other + at.RINGS]), at_i32(r[other + at.ROWS]),
        2 * (index.FIRST_AXIS + r[other + at.N_AXES]),
    )
    return at.OUTPUT if made else at.FULL


@inner
def _choose(r, p, side, other):  # type: ignore[no-untyped-def]
    """The rows that the probe has to look at: all, or where keys are many, those that may find something."""
    if r[other + at.LIVE] > 8 * r[at.LIVE_KEYS]:
        r[at.CHOSEN_AT] = r[at.EVERY]
        r[at.N_CHOSEN] = r[at.N]
        return
    r[at.CHOSEN_AT] = r[at.CHOSEN]
    r[at.N_CHOSEN] = index.candidates(
        at_i64(r[at.KIDS]), r[at.N], at_i64(r[at.VALUES]), r[at.ROOM_ROWS], at_i64(r[side + at.BANDS]),
        r[side + at.N_PRIMARY], r[other + at.ORDERED], at_i32(r[at.SLOTS]), at_i64(r[other + at.ROWS]),
        index.FIRST_AXIS + r[other + at.N_AXES], 3 * (1 - p),
        r[other + at.LEAST], r[other + at.MOST], at_i64(r[at.CHOSEN]),
    )


@inner
def _probe_on(r, p, side, other):  # type: ignore[no-untyped-def]
    """Pairs until the scratch is full or the batch is through; how many."""
    state = at_i64(r[at.STATE_AT])
    count = index.probe_rows(
        at_i64(r[at.KIDS]), at_i64(r[at.CHOSEN_AT]), r[at.N_CHOSEN], at_i64(r[at.VALUES]), r[at.ROOM_ROWS],
        at_i64(r[side + at.BANDS]),
        r[side + at.N_PRIMARY], r[side + at.N_BANDS], r[other + at.ORDERED], at_i32(r[at.SLOTS]),
        at_i64(r[other + at.ROWS]), at_i32(r[other + at.ROWS]), index.FIRST_AXIS + r[other + at.N_AXES],
        3 * (1 - p), at_u8(r[at.MATCHED_ROWS]), r[side + at.MARKS], state,
        at_i64(r[at.PAIR_ROWS]), at_i64(r[at.PAIR_IDS]), r[at.PAIRS_SIZE],
    )
    r[other + at.STEPS] += state[2]
    r[other + at.REFUSED] += state[3]
    state[2] = 0
    state[3] = 0
    return count


@inner
def _keep(r, p, side):  # type: ignore[no-untyped-def]
    """Insert the rows that may still match."""
    n_kept = r[at.N_KEPT]
    if n_kept == 0:
        return
    n_axes = r[side + at.N_AXES]
    stride = r[at.ROOM_ROWS]
    values = at_i64(r[at.VALUES])
    kids = at_i64(r[at.KIDS])
    kept = at_i64(r[at.KEPT_AT])
    cap = r[side + at.CAP]
    first = r[side + at.HI]
    stored = at_i64(r[side + at.STORED])
    pointers = at_i64(r[at.IN_POINTERS])
    place = first % cap
    at_once = min(n_kept, cap - place)
    for c in range(r[side + at.N_STORED]):
        width = stored[3 * c + 2]
        source = pointers[stored[3 * c]]
        ring = stored[3 * c + 1]
        if n_kept == r[at.N]:
            copy_all(ring + place * width, source, at_once * width)
            copy_all(ring, source + at_once * width, (n_kept - at_once) * width)
            continue
        copy_rows(ring + place * width, source, width, width, kept, at_once)
        if at_once < n_kept:
            copy_rows(ring, source, width, width, at_i64(r[at.KEPT_AT] + 8 * at_once), n_kept - at_once)
    if n_kept < r[at.N]:
        for k in range(n_kept):
            kids[k] = kids[kept[k]]
            for a in range(n_axes):
                values[a * stride + k] = values[a * stride + kept[k]]
    if n_axes > 0:
        least = index.I64_MAX if r[side + at.LIVE] == 0 else r[side + at.LEAST]
        most = index.I64_MIN if r[side + at.LIVE] == 0 else r[side + at.MOST]
        for k in range(n_kept):
            least = min(least, values[k])
            most = max(most, values[k])
        r[side + at.LEAST] = least
        r[side + at.MOST] = most
    links = at_i32(r[side + at.ROWS])
    tally = at_i64(r[at.STATE_AT])
    tally[0] = 0
    r[at.LIVE_KEYS] += index.insert_rows(
        kids, n_kept, values, stride, n_axes, place, cap, r[side + at.ORDERED], at_i64(r[side + at.ROWS]), links,
        at_i32(r[at.SLOTS]), 3 * p, tally,
    )
    r[side + at.STEPS] += tally[0]
    r[side + at.LINKED] += n_kept
    if r[side + at.KEEPS]:
        matched = at_u8(r[at.MATCHED_ROWS])
        for k in range(n_kept):
            if matched[kept[k]]:
                pos = place + k if place + k < cap else place + k - cap
                links[2 * (index.FIRST_AXIS + n_axes) * pos + index.FLAGS] |= index.MATCHED
    r[side + at.HI] = first + n_kept
    r[side + at.LIVE] += n_kept
    r[side + at.PEAK_SPAN] = max(r[side + at.PEAK_SPAN], first + n_kept - r[side + at.LO])


@inner
def _unmatched(index, n, flags, stride, first):  # type: ignore[no-untyped-def]
    """Drops the matched rows from an index; how many are left. ``flags[stride * i + first]`` can only be MATCHED."""
    count = 0
    for k in range(n):
        if flags[stride * index[k] + first] == 0:
            index[count] = index[k]
            count += 1
    return count


@inner
def _prune(r, p, side, other):  # type: ignore[no-untyped-def]
    """Move the other store's bounds to what this side's orders now say. False when that is for the long way."""
    n_axes = r[other + at.N_AXES]
    bounds = at_i64(r[other + at.BOUNDS])
    r[at.N_DEAD] = 0
    if r[other + at.NOTHING]:
        return True
    trackers = at_i64(r[side + at.TRACKERS])
    for a in range(n_axes):
        if not axis_bounds(a, at_i64(r[other + at.TERMS]), r[other + at.N_TERMS], trackers, bounds):
            return False
    deaths = at_i64(r[other + at.DEATHS])
    width = index.FIRST_AXIS + n_axes
    links = at_i32(r[other + at.ROWS])
    tally = at_i64(r[at.STATE_AT])
    report = r[other + at.OWES] != 0
    n_dead = np.int64(0)
    for a in range(n_axes):
        low = bounds[4 * a + at.B_LOW]
        high = bounds[4 * a + at.B_HIGH]
        moved = False
        if a == 0:
            r[other + at.LEAST] = max(r[other + at.LEAST], low)
            r[other + at.MOST] = min(r[other + at.MOST], high)
        if low > deaths[6 * a + at.D_BOUND]:
            deaths[6 * a + at.D_BOUND] = low
            moved = True
        if ~high > deaths[6 * a + 3 + at.D_BOUND]:
            deaths[6 * a + 3 + at.D_BOUND] = ~high
            moved = True
        if moved and r[other + at.LIVE]:
            n_dead += index.prune_oldest(
                r[other + at.LO], r[other + at.HI], r[other + at.CAP], index.FIRST_AXIS + a, low, high,
                at_i64(r[other + at.ROWS]), links, width, at_i32(r[at.SLOTS]), 3 * (1 - p),
                at_i64(r[at.DEAD] + 8 * n_dead), report, tally,
            )
            r[other + at.LO] = tally[0]
            r[at.LIVE_KEYS] -= tally[1]
            r[other + at.LIVE] -= tally[2]
            r[other + at.RETIRED] += tally[2]
    if r[other + at.KEEPS]:
        n_dead = _unmatched(at_i64(r[at.DEAD]), n_dead, links, 2 * width, np.int64(index.FLAGS))
    r[at.N_DEAD] = n_dead
    return True


@inner
def _tidy(r, side):  # type: ignore[no-untyped-def]
    """Pass the dead rows in front; whether the store has room to give back or should change its index."""
    lo = r[side + at.LO]
    hi = r[side + at.HI]
    links = at_i32(r[side + at.ROWS])
    stride = 2 * (index.FIRST_AXIS + r[side + at.N_AXES])
    if r[side + at.LIVE] == 0:
        lo = hi
    while lo < hi and not links[lo % r[side + at.CAP] * stride + index.FLAGS] & index.LIVE:
        lo += 1
    r[side + at.LO] = lo
    if hi - lo > 2 * r[side + at.LIVE] + 1024:
        return True
    if r[side + at.REFUSED] > index.WORTH_REFUSING * r[side + at.PROBED] + index.SOME_REFUSED:
        return True
    much = index.WORTH_WALKING * r[side + at.LINKED] + index.SOME_STEPS
    return r[side + at.ORDERED] == 1 and r[side + at.STEPS] > much


@inner
def _finish(r, side, other):  # type: ignore[no-untyped-def]
    """Counts; the status that says what should be given back."""
    r[at.PHASE] = at.BEGIN
    here = _tidy(r, side)
    there = _tidy(r, other)
    status = at.TIDY if here or there else 0
    r[at.PEAK_ROWS] = max(r[at.PEAK_ROWS], r[side + at.LIVE] + r[other + at.LIVE])
    if r[at.KEYED] and r[at.N_IDS] - r[at.N_FREE] > r[at.LIVE_KEYS] + r[at.LIVE_KEYS] // 2 + 1024 + r[at.N]:
        status |= at.SWEEP
    r[at.PUSHES] += 1
    if r[at.PUSHES] % _LOOK_EVERY == 0:
        large = r[side + at.CAP] > 2 * r[side + at.PEAK_SPAN] + 1024
        if large or r[other + at.CAP] > 2 * r[other + at.PEAK_SPAN] + 1024:
            return status | at.TIDY
        r[side + at.PEAK_SPAN] = r[side + at.HI] - r[side + at.LO]
        r[other + at.PEAK_SPAN] = r[other + at.HI] - r[other + at.LO]
    return status


@inner
def _emit_list(r, p, other, which, total, listed, status):  # type: ignore[no-untyped-def]
    """Rows of one side alone, from the cursor on, one batch a call; the status, with MORE while rows are left."""
    n = min(r[total] - r[at.CURSOR], r[at.BATCH_SIZE])
    if n <= 0:
        return status
    if status & at.OUTPUT:
        return status | at.MORE
    rows = at_i64(listed + 8 * r[at.CURSOR])
    status |= _emit(r, p, other, which, n, rows, rows)
    r[at.CURSOR] += n
    return status if r[at.CURSOR] == r[total] else status | at.MORE


@inner
def _push(r, p):  # type: ignore[no-untyped-def]
    side = at.REGISTERS + at.SIDE * p
    other = at.REGISTERS + at.SIDE * (1 - p)
    status = 0
    if r[at.PHASE] == at.BEGIN:
        status = begin(r, p, side, other)
        if status != 0:
            return status
        if r[at.PHASE] == at.PROBING:
            r[other + at.PROBED] += r[at.N] + index.PUSH
            _choose(r, p, side, other)
    if r[at.PHASE] == at.PROBING:
        count = _probe_on(r, p, side, other)
        if count > 0:
            status = _emit(r, p, other, np.int64(_PAIRS), count, at_i64(r[at.PAIR_ROWS]), at_i64(r[at.PAIR_IDS]))
        if r[at.STATE] < r[at.N_CHOSEN]:
            return status | at.MORE
        r[at.PHASE] = at.KEEPING
    if r[at.PHASE] == at.KEEPING:
        _keep(r, p, side)
        r[side + at.RETIRED] += r[at.N_LEFT]
        if r[side + at.OWES] == 0:
            r[at.N_LEFT] = 0
        elif r[side + at.KEEPS]:
            matched = at_u8(r[at.MATCHED_ROWS])
            r[at.N_LEFT] = _unmatched(at_i64(r[at.LEFT]), r[at.N_LEFT], matched, np.int64(1), np.int64(0))
        r[at.CURSOR] = 0
        r[at.PHASE] = at.LEAVING
    if r[at.PHASE] == at.LEAVING:
        status = _emit_list(r, p, other, _LEFT_ROWS + p, at.N_LEFT, r[at.LEFT], status)
        if status & at.MORE:
            return status
        r[at.PHASE] = at.PRUNING
    if r[at.PHASE] == at.PRUNING:
        if not _prune(r, p, side, other):
            r[at.PHASE] = at.BEGIN
            return status | at.PRUNE
        r[at.CURSOR] = 0
        r[at.PHASE] = at.RETIRING
    status = _emit_list(r, p, other, _RIGHT_ROWS - p, at.N_DEAD, r[at.DEAD], status)
    if status & at.MORE:
        return status
    return status | _finish(r, side, other)


@compiled(I8(I8, I8))
def push_batch(registers, p):  # type: ignore[no-untyped-def]
    """Take the batch in the input struct on side p, or go on with it; see ``lane_layout`` for the status returned.

    The batch is released with the last call of a push, when nothing of it is read any more.
    """
    r = at_i64(registers)
    status = _push(r, p)
    if not status & at.MORE:
        release(r[at.IN_STRUCT])
    return status
