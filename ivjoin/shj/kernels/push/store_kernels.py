"""Store the rows of a batch that may still match."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.output.batch_memory import copy_all, copy_rows
from ivjoin.shj.kernels.output.text_store_kernels import append_bits
from ivjoin.shj.kernels.pointers import at_i64, at_u8
from ivjoin.shj.kernels.push import index_kernels as index
from ivjoin.shj.kernels.push.expiry_kernels import enlist, in_order
from ivjoin.shj.kernels.push.sweep_kernels import link_loose, store_loose
from ivjoin.shj.kernels.records import expiry_at, source_at, stored_at
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["keep", "may_loosen"]


@inner
def keep(op, p, side, other):
    """Store the rows that may still match."""
    n_kept = op.n_kept
    stride = op.room_rows
    values = at_i64(op.values)
    key_ids = at_i64(op.key_ids)
    kept = at_i64(op.kept_at)
    first = side.hi
    place = first % side.cap
    _store_columns(op, side, kept, place)
    if n_kept != op.n:
        for k in range(n_kept):
            key_ids[k] = key_ids[kept[k]]
            for a in range(side.n_axes):
                values[a * stride + k] = values[a * stride + kept[k]]
    falls = side.n_axes == 0 or _extend_first(side, values, n_kept)
    if side.beyond:
        _extend(side, values, stride, n_kept)
    x = index.index_of(op, side, p)
    tally = at_i64(op.state_at)
    tally[0] = 0
    if side.sweeps and not falls and may_loosen(op, side, other):
        # Rows that come in order and are found in the ring are mostly evicted before a list is needed.
        store_loose(x, key_ids, n_kept, values, stride, place)
        if side.loose == 0:
            side.loose = 1 + first
    else:
        if side.loose:
            link_loose(op, side, p)
        op.live_keys += index.insert_rows(x, key_ids, n_kept, values, stride, place, tally, side.rows)
    side.steps += tally[0]
    side.linked += n_kept
    if side.keeps:
        _flag(x, at_u8(op.matched), kept, n_kept, place, index.MATCHED)
    for a in range(side.n_axes):  # first, because axes may share a flag
        if source_at(side.sources, a).has_absent:
            _flag(x, at_u8(op.absent + a * stride), kept, n_kept, place, index.absence(a))
    side.hi = first + n_kept
    for a in range(side.n_axes):
        has_absent = source_at(side.sources, a).has_absent
        for falling in range(2):
            d = expiry_at(side.expiry, 2 * a + falling)
            if d.used:
                if side.live == 0:
                    d.last = I64_MIN
                    d.size = 0
                    d.cursor = first
                turn = np.int64(-falling)
                if has_absent or not in_order(values, a * stride, n_kept, turn, d):
                    enlist(side, d, index.FIRST_AXIS + a, turn, first, n_kept)
    side.live += n_kept
    side.peak_span = max(side.peak_span, side.hi - side.lo)


@inner
def _store_columns(op, side, kept, place):
    """Copy the rows' values and validity to the rings, from ``place`` on."""
    n_kept = op.n_kept
    pointers = at_i64(op.in_values)
    valid = at_i64(op.in_valid)
    at_once = min(n_kept, side.cap - place)
    for c in range(side.n_stored):
        s = stored_at(side.stored, c)
        width = s.width
        source = pointers[s.column]
        if width:
            if n_kept == op.n:
                copy_all(s.ring + place * width, source, at_once * width)
                copy_all(s.ring, source + at_once * width, (n_kept - at_once) * width)
            else:
                copy_rows(s.ring + place * width, source, width, width, kept, at_once)
                if at_once < n_kept:
                    copy_rows(s.ring, source, width, width, at_i64(op.kept_at + 8 * at_once), n_kept - at_once)
        if s.valid:
            append_bits(s.valid, valid[2 * s.column], valid[2 * s.column + 1], kept, n_kept, place, side.cap)


@inner
def _extend_first(side, values, n):
    """Extend the range of the first axis, and note where its order begins; return whether n rows break it."""
    if side.live == 0:
        side.since = side.hi
    least = I64_MAX if side.live == 0 else side.least
    most = I64_MIN if side.live == 0 else side.most
    falls = values[0] < most
    for k in range(1, n):
        falls |= values[k] < values[k - 1]
    if falls:
        side.since = side.hi + n
    for k in range(n):
        least = min(least, values[k])
        most = max(most, values[k])
    side.least = least
    side.most = most
    return falls


@inner
def _flag(x, marks, kept, n, place, flag):
    """Set a flag of the stored rows with a mark : uint8[rows of the batch]."""
    for k in range(n):
        if marks[kept[k]]:
            pos = place + k if place + k < x.cap else place + k - x.cap
            x.links[x.stride * pos + index.FLAGS] |= flag


@inner
def may_loosen(op, side, other):
    """Return whether rows may be in no list: only if no code but these kernels looks for them during a push."""
    if op.loosens == 0 or op.blocks == 0 or side.single or other.single or side.by_python or other.by_python:
        return False
    if side.decide or other.decide or side.beyond or other.beyond or op.full_predicate:
        return False
    return side.in_kernel != 0 and other.in_kernel != 0


@inner
def _extend(side, values, stride, n):
    """Extend the least and greatest value of each axis by n more rows."""
    extents = at_i64(side.extents)
    for a in range(side.n_axes):
        least = I64_MAX if side.live == 0 else extents[2 * a]
        most = I64_MIN if side.live == 0 else extents[2 * a + 1]
        for k in range(a * stride, a * stride + n):
            least = min(least, values[k])
            most = max(most, values[k])
        extents[2 * a] = least
        extents[2 * a + 1] = most
