"""Find the dense id of a key that is a byte string, each stored once in an arena."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IN_U8, IO1, IO1_I4, IO2_I4, IO_U8, VOID, compiled, inner
from ivjoin.shj.kernels.keys.key_kernels import is_free, mix, new_id
from ivjoin.shj.kernels.memory import line_of

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


@compiled(I8(IN1, IN_U8, IN_U8, IO1_I4, IO1, IO_U8, IO2_I4, I8, IO1, I8, IO1, IO1))
def intern_bytes(offsets, buf, usable, table, spans, arena, slots, n_free, out, n_ids, tops, cell):
    """Look up the id of each ``buf[offsets[i]:offsets[i+1]]``, as ``intern_ints``; offsets : int64[n + 1], buf : uint8.

    ``spans[2 * id]`` is the id's place in the arena, ``spans[2 * id + 1]`` its length, ``tops[0]`` the arena's top.
    """
    top = tops[0]
    mask = table.shape[0] - 1
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
                key_id = new_id(line_of(slots), n_free, n_ids, cell)
                if n_free > 0:
                    n_free -= 1
                else:
                    n_ids += 1
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
    tops[0] = top
    return (n_ids << 32) + n_free


@compiled(I8(IO1_I4, IO1, IN_U8, IO_U8, IO2_I4, I8))
def rehash_bytes(table, spans, arena, fresh, slots, n_ids):
    """Copy the byte strings still in use to a fresh arena and table; return the fresh arena's top."""
    mask = table.shape[0] - 1
    top = 0
    for key_id in range(n_ids):
        if not is_free(line_of(slots), key_id):
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
    return top


@compiled(VOID(IN1, IN_U8, IO1_I4, IO1_I4))
def regrow_bytes(spans, arena, old, table):
    """Insert all keys of the table ``old`` into a larger, empty one; both are int32."""
    mask = table.shape[0] - 1
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
