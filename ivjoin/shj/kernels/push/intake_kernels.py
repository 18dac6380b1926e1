"""Begin a push: read the batch, check its orders, find the rows that may still match, and look up the keys."""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import inner, inner
from ivjoin.shj.kernels.keys.key_kernels import has_key_room, name_rows
from ivjoin.shj.kernels.keys.packed_key_kernels import packed_bytes_wanted
from ivjoin.shj.kernels.memory import BUFFERS, CHILDREN, LENGTH, NULL_COUNT, OFFSET, at_i64, at_u8, load
from ivjoin.shj.kernels.output.batch_memory import are_told_by_ordinals, double_below, read_double, read_source
from ivjoin.shj.kernels.push.expiry_kernels import heaps_have_room
from ivjoin.shj.kernels.push.sum_kernels import read_least
from ivjoin.shj.kernels.records import bound_at, piece_at, source_at, stored_at, tracker_at
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["arrive", "below", "check_orders", "read_columns", "settle_marks"]


@inner
def below(edge, slack, more):
    """Return the least (turned) value that an order allows after ``edge``, its greatest value so far."""
    edge = I64_MIN if edge < I64_MIN + slack else edge - slack
    return I64_MIN if edge < I64_MIN + more else edge - more


@inner
def _limit_after(op, t, edge):
    if t.is_float and t.slack != 0:
        return double_below(edge, t.slack, t.descending, op.state_at)
    return below(edge, t.slack, t.more_slack)


@inner
def read_columns(op, side, n):
    """Store the addresses of each needed column's values and validity; validity 0 means no null in these rows."""
    first = load(op.in_struct + OFFSET)
    children = load(op.in_struct + CHILDREN)
    columns = at_i64(side.columns)
    values = at_i64(op.in_values)
    valid = at_i64(op.in_valid)
    for c in range(side.n_columns):
        column = columns[2 * c]
        child = load(children + 8 * column)
        offset = first + load(child + OFFSET)
        buffers = load(child + BUFFERS)
        values[column] = load(buffers + 8) + offset * columns[2 * c + 1]
        valid[2 * column] = 0
        bitmap = load(buffers)
        if bitmap != 0 and load(child + NULL_COUNT) != 0:
            bits = at_u8(bitmap)
            for i in range(offset, offset + n):
                if not (bits[i >> 3] >> (i & 7)) & 1:
                    valid[2 * column] = bitmap
                    valid[2 * column + 1] = offset
                    break


@inner
def _has_room(op, p, side, other, n):
    if n > op.room_rows or side.hi - side.lo + n > side.cap:
        return False
    if (other.owes and other.live > op.dead_size) or (side.owes and side.live + n > op.dead_size):
        return False
    valid = at_i64(op.in_valid)
    for c in range(side.n_stored):
        s = stored_at(side.stored, c)
        if s.valid == 0 and valid[2 * s.column] != 0:
            return False
        if s.width == 0 and s.ring == 1 and not are_told_by_ordinals(at_i64(op.in_values)[s.column], n):
            return False
    if op.key_kind == at.INT or op.key_kind == at.INTS:
        return has_key_room(op, side.live + other.live, n)
    if side.packs:
        op.key_bytes = packed_bytes_wanted(op, p, side, n)
        return op.key_bytes == 0
    return True


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
    """Add the nulls of a column to those of a source."""
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
    """Apply a source's nulls, guard and promised range to the marks; return the rows outside the promised range.

    For pairs of a row outside the guard (WILD), the whole condition must be evaluated.
    """
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
def _commit_orders(op, side, n):
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
def settle_marks(op, side, other, n):
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


@inner
def _all_inside(values, stride, n, side):
    """Return whether every axis value of every row lies within the bounds; one branch-free pass per axis."""
    for a in range(side.n_axes + side.n_sums):
        b = bound_at(side.bounds, a)
        if b.low == I64_MIN and b.high == I64_MAX:
            continue
        least = I64_MAX
        most = I64_MIN
        for i in range(a * stride, a * stride + n):
            least = min(least, values[i])
            most = max(most, values[i])
        if least < b.low or most > b.high:
            return False
    return True


@inner
def _sort_out(op, side, n):
    """List the rows that a later row of the other side can match in ``kept``, and the others in ``left``."""
    stride = op.room_rows
    values = at_i64(op.values)
    kept = at_i64(op.kept)
    left = at_i64(op.left)
    n_kept = 0
    n_left = 0
    op.kept_at = op.kept
    if op.masked == 0 and side.nothing == 0 and _all_inside(values, stride, n, side):
        op.kept_at = op.every
        op.n_kept = n
        op.n_left = 0
        return
    n_axes = side.n_axes + side.n_sums
    if op.masked == 0 and side.owes == 0 and n_axes == 1 and source_at(side.sources, 0).has_absent == 0:
        b = bound_at(side.bounds, 0)
        low = b.low
        high = b.high
        if side.nothing == 0:
            for i in range(n):
                kept[n_kept] = i
                n_kept += (values[i] >= low) & (values[i] <= high)
        op.n_kept = n_kept
        op.n_left = n - n_kept
        return
    marks = at_u8(op.marks)
    good = at.USABLE | (at.WILD if op.full_predicate else 0)
    for i in range(n):
        alive = side.nothing == 0
        if op.masked:
            if marks[i] & at.DROPPED:
                continue
            alive = alive and (marks[i] & good) != 0 and (op.full_predicate == 0 or (marks[i] & at.KEYED) != 0)
        if alive:
            for a in range(n_axes):
                b = bound_at(side.bounds, a)
                v = values[a * stride + i]
                if v < b.low or v > b.high:
                    if not source_at(side.sources, a).has_absent or not at_u8(op.absent + a * stride)[i]:
                        alive = False
        kept[n_kept] = i
        n_kept += alive
        left[n_left] = i
        n_left += not alive
    op.n_kept = n_kept
    op.n_left = n_left


@inner
def _find_usable(op, side, n):
    """Mark the rows whose keys need an id; if kernels look up no keys, set -1 for rows that match nothing."""
    key_ids = at_i64(op.key_ids)
    marks = at_u8(op.marks)
    usable = at_u8(op.usable)
    good = at.KEYED if op.full_predicate else at.USABLE
    if op.masked:
        for i in range(n):
            usable[i] = (marks[i] & good) != 0
    named_later = op.key_kind == at.INT or op.key_kind == at.INTS or side.n_pieces > 0
    op.n_named = 0 if named_later else n
    if op.key_kind == at.INT:
        return
    if op.key_kind == at.NO_KEY:
        for i in range(n):
            key_ids[i] = 0
    if op.masked and not side.packs:
        for i in range(n):
            if usable[i] == 0:
                key_ids[i] = -1


@inner
def _take_in(op, p, side, other):
    """Read and check a batch; nothing changes before all checks have passed. Return a status, 0 to continue."""
    n = load(op.in_struct + LENGTH)
    read_columns(op, side, n)
    if not _has_room(op, p, side, other, n):
        return at.ROOM
    if op.prepared == 0:
        op.masked = 0
        op.n_late = 0
    op.moved = 0
    late = check_orders(op, side, n)
    if late and op.raises:
        op.prepared = 0
        return at.LATE
    if not heaps_have_room(op, side, n):
        return at.ROOM | at.HEAP
    op.n_late = late
    op.prepared = 0
    # From here on, the batch is accepted.
    op.n = n
    op.largest = max(op.largest, n)
    side.rows_in += n
    _commit_orders(op, side, n)
    settle_marks(op, side, other, n)
    op.late_rows += op.n_late
    _sort_out(op, side, n)
    _find_usable(op, side, n)
    if side.keeps or side.single:
        matched = at_u8(op.matched)
        for i in range(n):
            matched[i] = op.emitted
    op.row = 0
    op.node = -2
    op.steps = 0
    op.missed = 0
    op.n_pairs = 0
    op.cursor = 0
    op.n_dead = 0
    op.side = p
    op.phase = at.NAMING
    return 0


@inner
def arrive(op, p, side, other):
    """Accept a batch and look up its keys, or continue to look them up. Return a status, 0 to continue."""
    if op.phase == at.BEGIN:
        status = _take_in(op, p, side, other)
        if status != 0:
            return status
    if op.key_kind == at.INT:
        name_rows(op, side, other, op.values + 8 * at_i64(side.key_words)[0] * op.room_rows)
        if op.n_named < op.n:
            return at.KEYS | at.MORE
    return at.KEYS | at.MORE if side.packs else 0
