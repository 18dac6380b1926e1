"""Begin a push: read the batch, check its orders, find the rows that may still match, and look up the keys."""

from __future__ import annotations

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.keys.key_kernels import has_key_room, name_rows
from ivjoin.shj.kernels.keys.packed_key_kernels import packed_bytes_wanted
from ivjoin.shj.kernels.output.batch_memory import are_told_by_ordinals
from ivjoin.shj.kernels.pointers import BUFFERS, CHILDREN, LENGTH, NULL_COUNT, OFFSET, at_i64, at_u8, load
from ivjoin.shj.kernels.push.expiry_kernels import heaps_have_room
from ivjoin.shj.kernels.push.order_kernels import check_orders, commit_orders, set_marks
from ivjoin.shj.kernels.records import bound_at, source_at, stored_at
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["arrive", "read_columns"]


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
    """List the rows that a later row of the other side can match in ``kept``, and the others in ``alone``."""
    stride = op.room_rows
    values = at_i64(op.values)
    kept = at_i64(op.kept)
    alone = at_i64(op.alone)
    n_kept = 0
    n_alone = 0
    op.kept_at = op.kept
    if op.masked == 0 and side.nothing == 0 and _all_inside(values, stride, n, side):
        op.kept_at = op.every
        op.n_kept = n
        op.n_alone = 0
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
        op.n_alone = n - n_kept
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
        alone[n_alone] = i
        n_alone += not alive
    op.n_kept = n_kept
    op.n_alone = n_alone


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
    commit_orders(op, side, n)
    set_marks(op, side, other, n)
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
