"""Write columns of text and bools to an output batch."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels import pointers as mem
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.output.block_kernels import taken_bits, taken_bytes
from ivjoin.shj.kernels.output.text_store_kernels import batch_bytes, buffer_of, copy_text, first_of, set_word, word_at
from ivjoin.shj.kernels.push.index_kernels import FIRST_AXIS, KEY
from ivjoin.shj.kernels.records import ring_at, text_at

__all__ = ["field_bytes", "put_bools", "put_text"]


@inner
def _stored_bytes(t, cap, places, n):
    starts, top = t.starts, t.top
    width = t.start_width
    mask = np.int64(-1) if width == 8 else np.int64(0xFFFFFFFF)
    last = t.next % cap
    total = 0
    for i in range(n):
        k = places[i]
        after = k + 1 if k + 1 < cap else 0
        end = top if after == last else word_at(starts, width, after)
        total += (end - word_at(starts, width, k)) & mask
    return total


@inner
def _take_stored(t, cap, places, n, offsets, offset_width, data):
    """Write the offsets and bytes of the stored rows at some places; up to 7 bytes after them may be overwritten."""
    starts, arena = t.starts, t.arena
    base, top, room = t.base, t.top, t.room
    width = t.start_width
    mask = np.int64(-1) if width == 8 else np.int64(0xFFFFFFFF)
    last = t.next % cap
    used = 0
    for i in range(n):
        set_word(offsets, offset_width, i, used)
        k = places[i]
        after = k + 1 if k + 1 < cap else 0
        begin = word_at(starts, width, k)
        end = top if after == last else word_at(starts, width, after)
        size = (end - begin) & mask
        low = (begin - base) & mask
        copy_text(data + used, arena + low, size, room - low)
        used += size
    set_word(offsets, offset_width, n, used)


@inner
def _piece_of_key(op, key_id, piece, pieces):
    """Return where a piece of a key begins, and its length; see ``packed_key_kernels``."""
    spans = mem.at_i64(op.spans)
    key = op.arena + spans[2 * key_id]
    end = spans[2 * key_id + 1]
    heads = mem.at_i32(key)
    begin = np.int64(4 * (pieces - 1))
    if piece < pieces - 1:
        end = 4 * (pieces - 1 - piece) + np.int64(heads[pieces - 2 - piece])
    if piece > 0:
        begin = 4 * (pieces - piece) + np.int64(heads[pieces - 1 - piece])
    return key + begin, end - begin


@inner
def _key_bytes(op, other, piece, places, n):
    links = mem.at_i32(other.rows)
    stride = 2 * (FIRST_AXIS + other.n_axes)
    total = np.int64(0)
    for i in range(n):
        _, size = _piece_of_key(op, np.int64(links[stride * places[i] + KEY]), piece, other.n_key_pieces)
        total += size
    return total


@inner
def _take_keys(op, other, piece, places, n, offsets, offset_width, data):
    """Do as ``_take_stored`` for a column that is a piece of the key."""
    links = mem.at_i32(other.rows)
    stride = 2 * (FIRST_AXIS + other.n_axes)
    end = op.arena + op.arena_room
    used = np.int64(0)
    for i in range(n):
        set_word(offsets, offset_width, i, used)
        begin, size = _piece_of_key(op, np.int64(links[stride * places[i] + KEY]), piece, other.n_key_pieces)
        copy_text(data + used, begin, size, end - begin)
        used += size
    set_word(offsets, offset_width, n, used)


@inner
def _take_batch(op, column, width, rows, n, offsets, data):
    """Do as ``_take_stored`` for rows of the batch."""
    source_offsets = buffer_of(op, column, 1) + width * first_of(op, column)
    source = buffer_of(op, column, 2)
    end = word_at(source_offsets, width, op.n)
    used = 0
    for i in range(n):
        set_word(offsets, width, i, used)
        low = word_at(source_offsets, width, rows[i])
        size = word_at(source_offsets, width, rows[i] + 1) - low
        copy_text(data + used, source + low, size, end - low)
        used += size
    set_word(offsets, width, n, used)


@inner
def field_bytes(op, p, other, field, side, n, rows, places):
    """Return the bytes of an output column of text."""
    if side < 0:
        return 0
    column = field.left if side == 0 else field.right
    if side == p:
        offsets = buffer_of(op, column, 1) + field.width * first_of(op, column)
        return batch_bytes(offsets, field.width, rows, n)
    ring = ring_at(other.rings, column)
    if ring.stride < 0:
        return _key_bytes(op, other, -1 - ring.stride, places, n)
    return _stored_bytes(text_at(ring.values, 0), other.cap, places, n)


@inner
def put_text(op, p, other, side, column, field, n, rows, places, top, offsets, data):
    """Write a side's column of text, and its validity to ``top`` if there are nulls; return the nulls."""
    if side == p:
        _take_batch(op, column, field.width, rows, n, offsets, data)
        valid = mem.at_i64(op.in_valid)
        return taken_bits(top, valid[2 * column], valid[2 * column + 1], rows, n) if valid[2 * column] else 0
    ring = ring_at(other.rings, column)
    if ring.stride < 0:
        _take_keys(op, other, -1 - ring.stride, places, n, offsets, field.width, data)
        return np.int64(0)
    t = text_at(ring.values, 0)
    _take_stored(t, other.cap, places, n, offsets, field.width, data)
    return taken_bytes(top, t.valid, places, n) if t.valid else 0


@inner
def put_bools(op, p, other, side, column, n, rows, places, top, data):
    """Do as ``put_text`` for a column of bools."""
    if side == p:
        taken_bits(data, buffer_of(op, column, 1), first_of(op, column), rows, n)
        valid = mem.at_i64(op.in_valid)
        return taken_bits(top, valid[2 * column], valid[2 * column + 1], rows, n) if valid[2 * column] else 0
    t = text_at(ring_at(other.rings, column).values, 0)
    taken_bytes(data, t.starts, places, n)
    return taken_bytes(top, t.valid, places, n) if t.valid else 0
