"""End a push: skip dead rows in front, free ids of keys without rows, and report whether memory can be freed."""

from __future__ import annotations

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.keys.key_kernels import CROWDED, SOME_KEYS, fill_table, take_back_ids
from ivjoin.shj.kernels.memory import at_i32
from ivjoin.shj.kernels.push import index_kernels as index
from ivjoin.shj.kernels.records import expiry_at

__all__ = ["LOOK_EVERY", "SOME_ENTRIES", "finish"]

SOME_ENTRIES = 1024  # capacity that a heap may always have
_SOME_ROWS = 64  # added to a batch's rows, so that few rows do not make a table look crowded
LOOK_EVERY = 64  # pushes between two checks whether memory that is reserved exceeds the need


@inner
def _tidy(side):
    """Skip the dead rows in front; return whether the store can free memory or should change its index."""
    lo = side.lo
    hi = side.hi
    links = at_i32(side.rows)
    stride = 2 * (index.FIRST_AXIS + side.n_axes)
    if side.live == 0:
        lo = hi
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
    if side.by_python and gone > 256 + ((hi - lo) >> 2):
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
def finish(op, side, other):
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
    if op.stirred == 0 and op.passed > CROWDED * (op.n + _SOME_ROWS):
        op.stirred = 1
        _sweep(op)
    op.passed = 0
    many = op.live_keys + op.live_keys // 4 + SOME_KEYS
    if op.key_kind != at.NO_KEY and op.n_ids - op.n_free > many + op.n:
        if op.key_kind != at.GIVEN:
            _sweep(op)
        else:
            status |= at.SWEEP
    op.pushes += 1
    if op.pushes % LOOK_EVERY == 0:
        status |= at.TIDY | at.SWEEP
    return status
