"""Look up the ids of keys that are byte strings: text, several columns, and null-safe ones.

``keys.pack`` makes the bytes of a key from its pieces: first the bytes packed up to the last piece but one, ...,
finally the bytes of the first piece, each after its length. Equal bytes mean equal pieces. In the arena a key begins at
a word boundary, and zeros fill its last word.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import I8, compiled, inner
from ivjoin.shj.kernels.keys.key_kernels import has_key_room, key_room, mix, new_id
from ivjoin.shj.kernels.memory import BUFFERS, CHILDREN, at_i32, at_i64, at_u8, at_u64, load
from ivjoin.shj.kernels.records import operator_at, piece_at, side_at

__all__ = ["name_packed"]


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
def _hash(address, size):
    """Do as ``key_kernels._hash_bytes`` for bytes whose last word is filled with zeros."""
    h = np.int64(size)
    words = at_i64(address)
    for w in range(size >> 3):
        h = mix(h ^ words[w])
    return mix(h ^ words[size >> 3]) if size & 7 else mix(h)


@inner
def _same(a, b, size):
    wa = at_u64(a)
    wb = at_u64(b)
    for w in range((size + 7) >> 3):  # noqa: SIM110 (numba has no all())
        if wa[w] != wb[w]:
            return False
    return True


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
def packed_bytes_wanted(op, p, side, n):
    """Return the bytes to reserve in the key table before a batch's keys are looked up; 0 for enough capacity."""
    need = _most_bytes(op, side, n)
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
    table = at_i32(op.table)
    mask = op.table_size - 1
    spans = at_i64(op.spans)
    last = np.int64(-1)  # consecutive rows often have the same key
    room = key_room(op.n_ids, op.n_free, op.slots_size, op.table_size)
    for i in range(op.n_named, n):
        if op.masked and usable[i] == 0:
            key_ids[i] = -1
            continue
        start = op.arena + op.arena_top
        size = _pack(op, side, i, start)
        if last >= 0 and spans[2 * last + 1] == size and _same(op.arena + spans[2 * last], start, size):
            key_ids[i] = last
            continue
        j = _hash(start, size) & mask
        while True:
            entry = np.int64(table[j])
            if entry == 0:
                if room <= 0:
                    op.n_named = i
                    return n - i
                room -= 1
                last = new_id(op)
                spans[2 * last] = op.arena_top
                spans[2 * last + 1] = size
                op.arena_top += (size + 7) & ~7
                table[j] = last + 1
                break
            if spans[2 * entry - 1] == size and _same(op.arena + spans[2 * entry - 2], start, size):
                last = entry - 1
                break
            j = (j + 1) & mask
        key_ids[i] = last
    op.n_named = n
    return 0
