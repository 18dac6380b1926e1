"""Look up the ids of keys that are byte strings: text, several columns, and null-safe ones.

A key's bytes are those that ``keys.pack`` makes of its pieces: first the bytes packed up to the last piece but one,
..., at last the bytes of the first piece, each after its length. Equal bytes mean equal pieces.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.keys.byte_key_kernels import name_bytes, same_words
from ivjoin.shj.kernels.keys.key_kernels import has_key_room
from ivjoin.shj.kernels.memory import BUFFERS, CHILDREN, at_i32, at_i64, at_u8, at_u64, load
from ivjoin.shj.kernels.records import piece_at

__all__ = ["name_packed", "packed_bytes_wanted"]


@inner
def _data_of(op, column):
    return load(load(load(load(op.in_struct + CHILDREN) + 8 * column) + BUFFERS) + 16)


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
        p4 = at_i32(offsets)
        return np.int64(p4[i + 1]) - np.int64(p4[i])
    if piece.kind == at.LARGE_TEXT_PIECE:
        p8 = at_i64(offsets)
        return p8[i + 1] - p8[i]
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
        p4 = at_i32(offsets)
        source = _data_of(op, piece.column) + p4[i]
        within = np.int64(p4[op.n]) - p4[i]
    elif piece.kind == at.LARGE_TEXT_PIECE:
        p8 = at_i64(offsets)
        source = _data_of(op, piece.column) + p8[i]
        within = p8[op.n] - p8[i]
    words = (size + 7) >> 3
    if 8 * words <= within:  # whole words stay within the batch's memory, and the target has slack
        t8 = at_u64(target)
        s8 = at_u64(source)
        for w in range(words):
            t8[w] = s8[w]
        return
    t = at_u8(target)
    s = at_u8(source)
    for b in range(size):
        t[b] = s[b]


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
def _most_bytes(op, side, n):
    """Return an upper bound of the bytes of n rows' keys, with slack to write and compare them word by word."""
    total = 16 + 8 * n
    for k in range(side.n_pieces):
        piece = piece_at(side.pieces, k)
        total += 4 * n if k > 0 else 0
        offsets = at_i64(op.in_values)[piece.column] if piece.column >= 0 else np.int64(0)
        if piece.kind == at.TEXT_PIECE:
            p4 = at_i32(offsets)
            total += np.int64(p4[n]) - np.int64(p4[0])
        elif piece.kind == at.LARGE_TEXT_PIECE:
            p8 = at_i64(offsets)
            total += p8[n] - p8[0]
        elif piece.kind == at.FIXED_PIECE:
            total += n * piece.width
        else:
            total += 8 * n
    return total


@inner
def packed_bytes_wanted(op, side, other, n):
    """Return the bytes to reserve in the key table before a batch's keys are looked up; 0 for enough capacity."""
    need = _most_bytes(op, side, n)
    enough = op.arena_top + need <= op.arena_room and has_key_room(op, side.live + other.live, n)
    return np.int64(0) if enough else need


@inner
def name_packed(op, side, other, table):
    """Do as ``key_kernels.name_rows`` for keys that are byte strings."""
    n = op.n
    key_ids = at_i64(op.key_ids)
    usable = at_u8(op.usable)
    if op.n_kept == 0 and other.live == 0:
        for i in range(n):
            key_ids[i] = -1
        op.n_named = n
        return
    spans = at_i64(table.spans)
    last = np.int64(-1)  # consecutive rows often have the same key
    for i in range(op.n_named, n):
        if op.masked and usable[i] == 0:
            key_ids[i] = -1
            continue
        start = table.arena + table.arena_top
        size = _pack(op, side, i, start)
        if last < 0 or spans[2 * last + 1] != size or not same_words(table.arena + spans[2 * last], start, size):
            last = name_bytes(table, size)
            if last < 0:
                op.n_named = i
                return
        key_ids[i] = last
    op.n_named = n
