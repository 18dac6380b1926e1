"""Look up the ids of keys that are byte strings: text, several columns, and null-safe ones.

``keys.pack`` makes the bytes of a key from its pieces: first the bytes packed up to the last piece but one, ...,
finally the bytes of the first piece, each after its length. Equal bytes mean equal pieces.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import I8, compiled, inner
from ivjoin.shj.kernels.keys.byte_key_kernels import id_at_top
from ivjoin.shj.kernels.keys.key_kernels import has_key_room
from ivjoin.shj.kernels.output.text_store_kernels import buffer_of, copy_text, word_at
from ivjoin.shj.kernels.pointers import at_i64, at_u8, at_u64
from ivjoin.shj.kernels.records import operator_at, piece_at, side_at

__all__ = ["most_bytes", "name_packed", "packed_bytes_wanted"]


@inner
def _is_null(op, piece, i):
    if piece.source >= 0:
        return at_u8(op.absent + piece.source * op.room_rows)[i] != 0
    valid = at_i64(op.in_valid)
    bitmap = valid[2 * piece.column]
    if bitmap == 0:
        return False
    k = valid[2 * piece.column + 1] + i
    return ((at_u8(bitmap)[k >> 3] >> (k & 7)) & 1) == 0


@inner
def _size(op, piece, i):
    if piece.kind == at.ORDINAL_PIECE:
        return np.int64(8)
    if piece.kind == at.VALIDITY_PIECE:
        return np.int64(1)
    if piece.nulls and _is_null(op, piece, i):
        return np.int64(0)
    offsets = at_i64(op.in_values)[piece.column]
    if piece.kind == at.TEXT_PIECE:
        return word_at(offsets, piece.width, i + 1) - word_at(offsets, piece.width, i)
    return piece.width


@inner
def _put(target, op, piece, i, size):
    if piece.kind == at.ORDINAL_PIECE:
        value = at_i64(op.values + 8 * piece.source * op.room_rows)[i]
        if piece.nulls and _is_null(op, piece, i):
            value = np.int64(0)
        at_i64(target)[0] = value
        return
    if piece.kind == at.VALIDITY_PIECE:
        at_u8(target)[0] = 0 if piece.nulls and _is_null(op, piece, i) else 1
        return
    offsets = at_i64(op.in_values)[piece.column]
    source = offsets + i * piece.width
    within = (op.n - i) * piece.width
    if piece.kind == at.TEXT_PIECE:
        low = word_at(offsets, piece.width, i)
        source = buffer_of(op, piece.column, 2) + low
        within = word_at(offsets, piece.width, op.n) - low
    copy_text(target, source, size, within)  # the target has slack


@inner
def _pack(op, side, i, target):
    m = side.n_pieces
    sizes = at_i64(op.key_sizes)  # cumulative length up to each piece
    for k in range(m):
        size = _size(op, piece_at(side.pieces, k), i)
        sizes[k] = size if k == 0 else 4 + sizes[k - 1] + size
    top = target
    for k in range(m - 2, -1, -1):
        head = at_u8(top)
        for b in range(4):
            head[b] = (sizes[k] >> (8 * b)) & 255
        top += 4
    for k in range(m):
        size = sizes[k] if k == 0 else sizes[k] - sizes[k - 1] - 4
        _put(top, op, piece_at(side.pieces, k), i, size)
        top += size
    size = sizes[m - 1]
    if size & 7:
        at_u64(target)[size >> 3] &= (np.uint64(1) << np.uint64(8 * (size & 7))) - np.uint64(1)
    return size


@inner
def most_bytes(op, side, n):
    """Return an upper bound of the bytes of n rows' keys, with slack to write and compare them word by word."""
    total = 16 + 8 * n
    for k in range(side.n_pieces):
        piece = piece_at(side.pieces, k)
        total += 4 * n if k > 0 else 0
        offsets = at_i64(op.in_values)[piece.column] if piece.column >= 0 else np.int64(0)
        if piece.kind == at.TEXT_PIECE:
            total += word_at(offsets, piece.width, n) - word_at(offsets, piece.width, 0)
        elif piece.kind == at.FIXED_PIECE:
            total += n * piece.width
        else:
            total += 8 * n
    return total


@inner
def packed_bytes_wanted(op, p, side, n):
    """Return the bytes to reserve in the key table before a batch's keys are looked up; 0 for enough capacity."""
    need = most_bytes(op, side, n)
    rows = side.live + side_at(op.sides, 1 - p).live
    return need if op.arena_top + need > op.arena_room or not has_key_room(op, rows, n) else 0


@compiled(I8(I8, I8))
def name_packed(operator, p):
    """Look up the ids of the batch's keys, -1 for rows that match nothing; count the rows left without capacity."""
    op = operator_at(operator, 0)
    side = side_at(op.sides, p)
    n = op.n
    key_ids = at_i64(op.key_ids)
    usable = at_u8(op.usable)
    if op.n_kept == 0 and side_at(op.sides, 1 - p).live == 0:
        for i in range(n):
            key_ids[i] = -1
        op.n_named = n
        return 0
    last = np.int64(-1)
    for i in range(op.n_named, n):
        if op.masked and usable[i] == 0:
            key_ids[i] = -1
            continue
        last = id_at_top(op, _pack(op, side, i, op.arena + op.arena_top), last)
        if last < 0:
            op.n_named = i
            return n - i
        key_ids[i] = last
    op.n_named = n
    return 0
