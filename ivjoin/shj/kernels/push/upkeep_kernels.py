"""End a push: skip evicted rows at the front, free ids of keys without rows, and report whether memory can be freed."""

from __future__ import annotations

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.keys.key_kernels import CROWDED, SOME_KEYS, fill_table, has_spare_room, take_back_ids
from ivjoin.shj.kernels.pointers import at_i32
from ivjoin.shj.kernels.push import index_kernels as index
from ivjoin.shj.kernels.push.sweep_kernels import link_loose
from ivjoin.shj.kernels.records import expiry_at

__all__ = ["SOME_ENTRIES", "finish"]

SOME_ENTRIES = 1024  # capacity that a heap may always have
_SOME_ROWS = 64  # added to a batch's rows, so that few rows do not make a table look crowded
_LOOK_EVERY = 64  # pushes between two checks whether a ring is too large


@inner
def _tidy(side):
    """Skip the dead rows in front; return whether the store can free memory or should change its index."""
    lo = side.lo
    hi = side.hi
    links = at_i32(side.rows)
    stride = 2 * (index.FIRST_AXIS + side.n_axes)
    if side.live == 0:
        lo = hi
        side.loose = 0
    place = lo % side.cap
    while lo < hi and not links[place * stride + index.FLAGS] & index.LIVE:
        lo += 1
        place += 1
        if place == side.cap:
            place = 0
    side.lo = lo
    if hi - lo > 2 * side.live + 1024:
        return True
    for e in range(2 * side.n_axes):
        d = expiry_at(side.expiry, e)
        if d.size > 2 * side.live + 1024:
            return True
    gone = lo - side.trimmed
    if side.by_python == at.ARRAYS and gone > 256 + ((hi - lo) >> 2):
        return True
    # A full text arena compacts itself; this checks occasionally whether it can shrink.
    if side.by_python == at.TEXT_ALONE and gone > 4096 + 2 * (hi - lo):
        return True
    if side.sorted:
        return lo > side.trimmed
    if side.refused > index.WORTH_REFUSING * side.probed + side.patience:
        return True
    much = index.WORTH_WALKING * side.linked + index.SOME_STEPS
    return side.ordered == 1 and side.steps > much


@inner
def _sweep(op):
    """Free the ids of keys that no row uses, and rebuild the table."""
    take_back_ids(op)
    table = at_i32(op.table)
    for i in range(op.table_size):
        table[i] = 0
    fill_table(op)


@inner
def _is_wide(op, side):
    """Return whether a ring, or a heap of a schedule, has far too much capacity.

    Moderate slack also counts, once four times the capacity has been stored since the ring last shrank.
    """
    for e in range(2 * side.n_axes):
        d = expiry_at(side.expiry, e)
        if d.room > 8 * (d.size + op.largest) + SOME_ENTRIES:
            return True
    need = max(side.peak_span, side.hi - side.lo + op.largest)
    if side.cap > 2 * need + 1024:
        return True
    return side.cap > need + (need >> 4) + 256 and side.rows_in - side.fitted > 4 * side.cap


@inner
def _many_keys(op, side, other):
    """Return the number of ids above which a sweep pays; each row in no list may have a key of its own."""
    keys = op.live_keys
    if side.loose:
        keys += side.hi - max(side.loose - 1, side.lo)
    if other.loose:
        keys += other.hi - max(other.loose - 1, other.lo)
    return keys + keys // 4 + SOME_KEYS


@inner
def finish(op, p, side, other):
    """Update the counters; return the status that reports which memory can be freed."""
    op.phase = at.BEGIN
    op.probe_end = 0
    here = _tidy(side)
    there = _tidy(other)
    status = at.TIDY if here or there else 0
    op.peak_rows = max(op.peak_rows, side.live + other.live)
    # If evaluating keys failed for some rows (`rekeyed`), equal ids do not imply equal keys: keep the full predicate.
    if op.full_predicate and not op.rekeyed and side.live == 0 and other.live == 0:
        op.full_predicate = 0
    crowded = op.stirred == 0 and op.passed > CROWDED * (op.n + _SOME_ROWS)
    op.passed = 0
    many = _many_keys(op, side, other)
    if crowded or (op.key_kind != at.NO_KEY and op.n_ids - op.n_free > many + op.n):
        link_loose(op, side, p)
        link_loose(op, other, 1 - p)
        many = _many_keys(op, side, other)
    if crowded:
        op.stirred = 1
        _sweep(op)
    if op.key_kind != at.NO_KEY and op.n_ids - op.n_free > many + op.n:
        if op.key_kind != at.GIVEN:
            _sweep(op)
        else:
            status |= at.SWEEP
    op.pushes += 1
    if op.pushes % _LOOK_EVERY == 0:
        if op.key_kind != at.NO_KEY:
            much = max(op.table_size, op.slots_size) > 8 * (many + 2 * op.largest)
            if much or (side.loose == other.loose == 0 and has_spare_room(op, side.live + other.live)):
                status |= at.SWEEP
        text = side.by_python == at.TEXT_ALONE or other.by_python == at.TEXT_ALONE
        if _is_wide(op, side) or _is_wide(op, other) or side.has_nulls or other.has_nulls or text:
            return status | at.TIDY
        # Scratch arrays that a burst of rows has enlarged.
        if op.room_rows > 4 * op.largest + 1024 or op.dead_size > 4 * max(side.live, other.live) + 1024:
            return status | at.TIDY
        op.largest = 0
        side.peak_span = side.hi - side.lo
        other.peak_span = other.hi - other.lo
    return status
