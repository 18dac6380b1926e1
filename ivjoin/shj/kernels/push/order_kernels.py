"""Read the ordinals of a batch, and check its rows against orders and promises."""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.output.batch_memory import double_below, read_double, read_source
from ivjoin.shj.kernels.pointers import at_i64, at_u8
from ivjoin.shj.kernels.push.band_kernels import add_saturating
from ivjoin.shj.kernels.push.sum_kernels import read_least
from ivjoin.shj.kernels.records import piece_at, source_at, tracker_at
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["check_orders", "commit_orders", "set_marks"]


@inner
def _limit_after(op, t, edge):
    """Return the least (turned) value that an order allows after ``edge``, its greatest value so far."""
    if t.is_float and t.slack != 0:
        return double_below(edge, t.slack, t.descending, op.state_at)
    return add_saturating(add_saturating(edge, -t.slack), -t.more_slack)


@inner
def _marks(op, n):
    """Return the marks of the rows, initialized at the first call for a batch."""
    marks = at_u8(op.marks)
    if op.masked == 0:
        op.masked = 1
        for i in range(n):
            marks[i] = at.USABLE | at.KEYED
    return marks


@inner
def _read_nulls(op, src, column, s, n):
    """Add the nulls of a column to a source."""
    valid = at_i64(op.in_valid)
    bitmap = valid[2 * column]
    if bitmap == 0:
        return
    absent = at_u8(op.absent + s * op.room_rows)
    bits = at_u8(bitmap)
    first = valid[2 * column + 1]
    if src.has_absent == 0:
        for i in range(n):
            absent[i] = 0
    for i in range(n):
        absent[i] |= 1 - ((bits[(first + i) >> 3] >> ((first + i) & 7)) & 1)
    src.has_absent = 1


@inner
def _read_source(op, src, s, n):
    """Read the ordinals and nulls of a source that is a column."""
    stride = op.room_rows
    row = at_i64(op.values + 8 * s * stride)
    values = at_i64(op.in_values)
    if src.arithmetic:
        second = values[src.second] if src.second >= 0 else np.int64(0)
        read_double(
            values[src.column], src.code, src.arithmetic, second, src.second_code, src.number, n, row, op.state_at
        )
    else:
        read_source(values[src.column], src.code, n, row, op.state_at)
    src.has_absent = 0
    _read_nulls(op, src, src.column, s, n)
    if src.arithmetic and src.second >= 0:
        _read_nulls(op, src, src.second, s, n)


@inner
def _check_source(op, src, s, n):
    """Apply a source's nulls, guard and promised range to the marks; return the rows outside the promised range."""
    stride = op.room_rows
    row = at_i64(op.values + 8 * s * stride)
    absent = at_u8(op.absent + s * stride)
    late = 0
    if src.has_absent and src.role:
        marks = _marks(op, n)
        cleared = 255 - (at.USABLE | at.KEYED if src.role & at.KEY_ROLE else at.USABLE)
        for i in range(n):
            if absent[i]:
                marks[i] &= cleared
    if src.guard_low != I64_MIN or src.guard_high != I64_MAX:
        least = I64_MAX
        most = I64_MIN
        for i in range(n):
            least = min(least, row[i])
            most = max(most, row[i])
        if least < src.guard_low or most > src.guard_high:
            marks = _marks(op, n)
            for i in range(n):
                if (row[i] < src.guard_low or row[i] > src.guard_high) and not (src.has_absent and absent[i]):
                    marks[i] |= at.WILD
    if src.low != I64_MIN or src.high != I64_MAX:
        for i in range(n):
            if (row[i] < src.low or row[i] > src.high) and not (src.has_absent and absent[i]):
                if src.spares_nan and row[i] == at.NAN_ORDINAL:
                    continue
                marks = _marks(op, n)
                late += 1
                marks[i] |= at.DROPPED
    return late


@inner
def _follow(op, t, src, n):
    """Mark the rows that break an order and return their number; ``next`` gets the order's new edge."""
    values = at_i64(op.values + 8 * t.source * op.room_rows)
    absent = at_u8(op.absent + t.source * op.room_rows)
    edge = t.edge
    limit = t.limit if t.seen_value else I64_MIN
    turn = np.int64(-1) if t.descending else np.int64(0)
    top = edge
    if t.slack == 0 and t.more_slack == 0 and t.is_float == 0 and op.within and not src.has_absent:
        # The common case, branch-free: no value is below the one before.
        falls = (values[0] ^ turn) < edge
        for i in range(1, n):
            falls |= (values[i] ^ turn) < (values[i - 1] ^ turn)
        if not falls:
            t.next = values[n - 1] ^ turn
            return 0
    late = 0
    for i in range(n):
        v = values[i] ^ turn
        if (src.has_absent and absent[i]) or (t.is_float and values[i] == at.NAN_ORDINAL):
            continue
        if v < limit:
            marks = _marks(op, n)
            late += 1
            marks[i] |= at.DROPPED
        elif v > top:
            top = v
            if op.within:
                limit = _limit_after(op, t, top)
    t.next = top
    return late


@inner
def _check_key_nulls(op, side, n):
    """Clear the marks of rows with a null in a text key, unless the key is null-safe."""
    valid = at_i64(op.in_valid)
    for k in range(side.n_pieces):
        piece = piece_at(side.pieces, k)
        if piece.source >= 0:
            piece.nulls = source_at(side.sources, piece.source).has_absent
            continue
        bitmap = valid[2 * piece.column]
        piece.nulls = bitmap != 0
        if bitmap != 0 and piece.safe == 0:
            marks = _marks(op, n)
            bits = at_u8(bitmap)
            first = valid[2 * piece.column + 1]
            for i in range(n):
                if not (bits[(first + i) >> 3] >> ((first + i) & 7)) & 1:
                    marks[i] &= 255 - (at.USABLE | at.KEYED)


@inner
def check_orders(op, side, n):
    """Count the late rows by all orders and promises; a row counts once for each rule that it breaks."""
    late = op.n_late
    for s in range(side.n_sources):
        src = source_at(side.sources, s)
        if src.arithmetic == at.LEAST:
            read_least(
                at_i64(op.values + 8 * src.second * op.room_rows), src.second_code, src.number, n,
                at_i64(op.values + 8 * s * op.room_rows), op.state_at,
            )
        elif src.column >= 0:
            _read_source(op, src, s, n)
        late += _check_source(op, src, s, n)
    for k in range(side.n_trackers):
        t = tracker_at(side.trackers, k)
        if not t.in_python:
            late += _follow(op, t, source_at(side.sources, t.source), n)
    if side.packs:
        _check_key_nulls(op, side, n)
    return late


@inner
def commit_orders(op, side, n):
    for k in range(side.n_trackers):
        t = tracker_at(side.trackers, k)
        if t.in_python:
            op.moved = 1
            continue
        src = source_at(side.sources, t.source)
        if t.next > t.edge or (t.seen_value == 0 and not src.has_absent and not t.is_float):
            op.moved = 1
            t.edge = t.next
            t.limit = _limit_after(op, t, t.edge)
            t.seen_value = 1
        elif t.seen_value == 0:
            # All values so far equal the least possible one, so the edge has not moved.
            values = at_i64(op.values + 8 * t.source * op.room_rows)
            absent = at_u8(op.absent + t.source * op.room_rows)
            for i in range(n):
                if not (src.has_absent and absent[i]) and not (t.is_float and values[i] == at.NAN_ORDINAL):
                    t.seen_value = 1
                    op.moved = 1
                    break


@inner
def set_marks(op, side, other, n):
    """Exclude dropped late rows. With one WILD row, the whole condition decides every pair of the batch."""
    if op.never or (other.ended and other.live == 0):
        marks = _marks(op, n)
        for i in range(n):
            marks[i] &= at.DROPPED
    if op.masked == 0:
        return
    marks = at_u8(op.marks)
    if op.n_late:
        if op.drops:
            count = 0
            for i in range(n):
                if marks[i] & at.DROPPED:
                    marks[i] = at.DROPPED
                    count += 1
            op.n_late = count
        else:
            count = 0
            for i in range(n):
                count += (marks[i] & at.DROPPED) != 0
                marks[i] &= 255 - at.DROPPED
            op.n_late = count
    for i in range(n):
        if marks[i] & at.WILD:
            op.full_predicate = 1
            break
