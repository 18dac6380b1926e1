"""Find the dense id of a key that is a byte string. An arena stores each key once."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IN1_I4, IN_U8, IO1, IO_U8, VOID, compiled, inner
from ivjoin.shj.kernels.keys.key_kernels import is_free, mix, new_id
from ivjoin.shj.kernels.memory import at_i32, at_i64, at_u8
from ivjoin.shj.kernels.records import operator_at

__all__ = ["hash_bytes", "intern_bytes", "regrow_bytes", "rehash_bytes"]


@inner
def _hash_bytes(buf, start, stop):
    h = np.int64(stop - start)
    i = start
    while i + 8 <= stop:
        word = np.int64(0)
        for b in range(8):
            word |= np.int64(buf[i + b]) << np.int64(8 * b)
        h = mix(h ^ word)
        i += 8
    word = np.int64(0)
    shift = np.int64(0)
    while i < stop:
        word |= np.int64(buf[i]) << shift
        shift += np.int64(8)
        i += 1
    return mix(h ^ word)


@inner
def _fill_up(arena, top):
    """Write zeros up to the next word; return where it begins."""
    after = (top + 7) & ~7
    for b in range(top, after):
        arena[b] = 0
    return after


@compiled(VOID(I8, IN1, IN_U8, IN_U8, IO1))
def intern_bytes(operator, offsets, buf, usable, out):
    """Look up the id of each ``buf[offsets[i]:offsets[i+1]]``, as ``intern_ints``; offsets : int64[n + 1], buf : uint8.

    ``spans[2 * id]`` is the id's place in the arena, and ``spans[2 * id + 1]`` its length.
    """
    op = operator_at(operator, 0)
    table, spans, arena = at_i32(op.table), at_i64(op.spans), at_u8(op.arena)
    top = op.arena_top
    mask = op.table_size - 1
    for i in range(offsets.shape[0] - 1):
        if usable.shape[0] > 0 and usable[i] == 0:
            out[i] = -1
            continue
        start = offsets[i]
        size = offsets[i + 1] - start
        j = _hash_bytes(buf, start, start + size) & mask
        while True:
            entry = np.int64(table[j])
            if entry == 0:
                key_id = new_id(op)
                for b in range(size):
                    arena[top + b] = buf[start + b]
                spans[2 * key_id] = top
                spans[2 * key_id + 1] = size
                top = _fill_up(arena, top + size)
                table[j] = key_id + 1
                out[i] = key_id
                break
            at = spans[2 * (entry - 1)]
            same = spans[2 * (entry - 1) + 1] == size
            if same:
                for b in range(size):
                    if arena[at + b] != buf[start + b]:
                        same = False
                        break
            if same:
                out[i] = entry - 1
                break
            j = (j + 1) & mask
    op.arena_top = top


@compiled(VOID(I8, IO_U8))
def rehash_bytes(operator, fresh):
    """Copy the byte strings still in use to a fresh arena, and insert them into the empty table."""
    op = operator_at(operator, 0)
    table, slots, spans, arena = at_i32(op.table), at_i32(op.slots), at_i64(op.spans), at_u8(op.arena)
    mask = op.table_size - 1
    top = np.int64(0)
    for key_id in range(op.n_ids):
        if not is_free(slots, key_id):
            at = spans[2 * key_id]
            size = spans[2 * key_id + 1]
            for b in range(size):
                fresh[top + b] = arena[at + b]
            j = _hash_bytes(fresh, top, top + size) & mask
            while table[j] != 0:
                j = (j + 1) & mask
            table[j] = key_id + 1
            spans[2 * key_id] = top
            top = _fill_up(fresh, top + size)
    op.arena_top = top


@compiled(VOID(I8, IN1_I4))
def regrow_bytes(operator, old):
    """Insert all keys of the table ``old`` : int32[size] into the larger, empty one."""
    op = operator_at(operator, 0)
    table, spans, arena = at_i32(op.table), at_i64(op.spans), at_u8(op.arena)
    mask = op.table_size - 1
    for i in range(old.shape[0]):
        entry = np.int64(old[i])
        if entry != 0:
            at = spans[2 * entry - 2]
            j = _hash_bytes(arena, at, at + spans[2 * entry - 1]) & mask
            while table[j] != 0:
                j = (j + 1) & mask
            table[j] = entry


@compiled(VOID(IN1, IN_U8, IO1))
def hash_bytes(offsets, buf, out):
    """Write a 63-bit hash of each byte string ``buf[offsets[i]:offsets[i+1]]`` to ``out`` : int64[n]."""
    for i in range(offsets.shape[0] - 1):
        out[i] = _hash_bytes(buf, offsets[i], offsets[i + 1])
