"""Find the dense id of a key that is a byte string. An arena stores each key once.

In the arena a key begins at a word boundary, and zeros fill its last word.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IN_U8, IO1, VOID, compiled, inner
from ivjoin.shj.kernels.keys.key_kernels import hash_key, hash_words, is_free, key_room, mix, new_id
from ivjoin.shj.kernels.output.batch_memory import copy_all
from ivjoin.shj.kernels.pointers import at_i32, at_i64, at_u8, at_u64
from ivjoin.shj.kernels.records import operator_at

__all__ = ["compact", "hash_bytes", "id_at_top", "intern_bytes"]


@inner
def _same(a, b, size):
    wa = at_u64(a)
    wb = at_u64(b)
    for w in range((size + 7) >> 3):  # noqa: SIM110 (numba has no all())
        if wa[w] != wb[w]:
            return False
    return True


@inner
def id_at_top(op, size, last):
    """Return the id of the key at the top of the arena; -1 if it is new and there is no capacity for it.

    ``last`` is the id of the row before, or -1: consecutive rows often have the same key. ``spans[2 * id]`` is an id's
    place in the arena, and ``spans[2 * id + 1]`` its length.
    """
    spans = at_i64(op.spans)
    start = op.arena + op.arena_top
    if last >= 0 and spans[2 * last + 1] == size and _same(op.arena + spans[2 * last], start, size):
        return last
    table = at_i32(op.table)
    mask = op.table_size - 1
    j = hash_key(start, size) & mask
    while True:
        entry = np.int64(table[j])
        if entry == 0:
            if key_room(op.n_ids, op.n_free, op.slots_size, op.table_size) <= 0:
                return np.int64(-1)
            key_id = new_id(op)
            spans[2 * key_id] = op.arena_top
            spans[2 * key_id + 1] = size
            op.arena_top += (size + 7) & ~7
            table[j] = key_id + 1
            return key_id
        if spans[2 * entry - 1] == size and _same(op.arena + spans[2 * entry - 2], start, size):
            return entry - 1
        j = (j + 1) & mask


@compiled(VOID(I8, IN1, I8, IN_U8, IO1))
def intern_bytes(operator, offsets, buffer, usable, out):
    """Look up the id of each string from ``buffer + offsets[i]`` to ``offsets[i + 1]``, as ``intern_ints``."""
    op = operator_at(operator, 0)
    last = np.int64(-1)
    for i in range(offsets.shape[0] - 1):
        if usable.shape[0] > 0 and usable[i] == 0:
            out[i] = -1
            continue
        start = op.arena + op.arena_top
        size = offsets[i + 1] - offsets[i]
        if size & 7:
            at_i64(start)[size >> 3] = 0
        copy_all(start, buffer + offsets[i], size)
        last = id_at_top(op, size, last)
        out[i] = last


@compiled(VOID(I8, I8))
def compact(operator, fresh):
    """Copy the byte strings still in use to a fresh arena at an address."""
    op = operator_at(operator, 0)
    slots, spans = at_i32(op.slots), at_i64(op.spans)
    top = np.int64(0)
    for key_id in range(op.n_ids):
        if not is_free(slots, key_id):
            size = (spans[2 * key_id + 1] + 7) & ~7
            copy_all(fresh + top, op.arena + spans[2 * key_id], size)
            spans[2 * key_id] = top
            top += size
    op.arena_top = top


@compiled(VOID(IN1, I8, IO1))
def hash_bytes(offsets, buffer, out):
    """Write a 63-bit hash of each string from ``buffer + offsets[i]`` to ``offsets[i + 1]`` to ``out`` : int64[n]."""
    for i in range(offsets.shape[0] - 1):
        start = buffer + offsets[i]
        size = offsets[i + 1] - offsets[i]
        rest = at_u8(start + (size & ~7))
        word = np.int64(0)
        for b in range(size & 7):
            word |= np.int64(rest[b]) << (8 * b)
        out[i] = mix(hash_words(start, size) ^ word)
