"""Compiled loops of the key table: from a key to its dense id."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IN2_I4, IN_U8, IO1, IO1_I4, IO2_I4, IO_U8, VOID, compiled, inner

__all__ = ["hash_bytes", "intern_bytes", "intern_ints", "intern_rows", "rehash_bytes", "rehash_ints", "spread_bytes",
           "spread_ints", "take_back"]  # fmt: skip


@inner
def _mix(x):  # type: ignore[no-untyped-def]
    # Finaliser of MurmurHash3 (Appleby, public domain) cut to stay within signed products.
    h = np.uint64(x)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(33)
    return np.int64(h >> np.uint64(1))


@inner
def intern_rows(keys, n, usable, some, table, mask, key_of, free, n_free, out, n_ids):  # type: ignore[no-untyped-def]
    """``intern_ints`` over flat arrays or pointers; ``some`` says whether ``usable`` is asked."""
    for i in range(n):
        if some and usable[i] == 0:
            out[i] = -1
            continue
        key = keys[i]
        j = _mix(key) & mask
        while True:
            entry = np.int64(table[j])
            if entry == 0:
                if n_free > 0:
                    n_free -= 1
                    kid = np.int64(free[n_free])
                else:
                    kid = n_ids
                    n_ids += 1
                key_of[kid] = key
                table[j] = kid + 1
                out[i] = kid
                break
            if key_of[entry - 1] == key:
                out[i] = entry - 1
                break
            j = (j + 1) & mask
    return (n_ids << 32) + n_free


@compiled(I8(IN1, IN_U8, IO1_I4, IO1, IO1_I4, I8, IO1, I8))
def intern_ints(keys, usable, table, key_of, free, n_free, out, n_ids):  # type: ignore[no-untyped-def]
    """Id of each key; new keys take an id from the free list, else the next one. Returns n_ids * 2**32 + n_free.

    ``table`` holds id + 1, 0 for empty, and is never more than two thirds full: the caller makes room for n new keys.
    """
    return intern_rows(
        keys, keys.shape[0], usable, usable.shape[0] > 0, table, table.shape[0] - 1, key_of, free, n_free, out, n_ids
    )


@compiled(I8(IO2_I4, I8, IO1_I4))
def take_back(slots, n_ids, free):  # type: ignore[no-untyped-def]
    """Empty the slots that no row uses, and list their ids, ascending, in ``free``.

    Returns (the last id in use + 1) * 2**32 + the number of ids listed.
    """
    n_free = 0
    top = 0
    for kid in range(n_ids):
        if slots[kid, 6] > 0:
            top = kid + 1
            continue
        for i in range(6):
            slots[kid, i] = -1
        free[n_free] = kid
        n_free += 1
    return (top << 32) + n_free


@compiled(VOID(IO1_I4, IN1, IN2_I4, I8))
def rehash_ints(table, key_of, slots, n_ids):  # type: ignore[no-untyped-def]
    """Put every key that some row still uses into an empty table."""
    mask = table.shape[0] - 1
    for kid in range(n_ids):
        if slots[kid, 6] > 0:
            j = _mix(key_of[kid]) & mask
            while table[j] != 0:
                j = (j + 1) & mask
            table[j] = kid + 1


@inner
def _hash_bytes(buf, start, stop):  # type: ignore[no-untyped-def]
    h = np.int64(stop - start)
    i = start
    while i + 8 <= stop:
        word = np.int64(0)
        for b in range(8):
            word |= np.int64(buf[i + b]) << np.int64(8 * b)
        h = _mix(h ^ word)
        i += 8
    word = np.int64(0)
    shift = np.int64(0)
    while i < stop:
        word |= np.int64(buf[i]) << shift
        shift += np.int64(8)
        i += 1
    return _mix(h ^ word)


@compiled(I8(IN1, IN_U8, IN_U8, IO1_I4, IO1, IO_U8, IO1_I4, I8, IO1, I8, IO1))
def intern_bytes(offsets, buf, usable, table, spans, arena, free, n_free, out, n_ids, tops):  # type: ignore[no-untyped-def]
    """Id of each byte string ``buf[offsets[i]:offsets[i+1]]``; ``spans[2 * id]`` is its arena place, then its length.

    Returns n_ids * 2**32 + n_free; the top of the arena is read from and left in ``tops[0]``.
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
                if n_free > 0:
                    n_free -= 1
                    kid = np.int64(free[n_free])
                else:
                    kid = n_ids
                    n_ids += 1
                for b in range(size):
                    arena[top + b] = buf[start + b]
                spans[2 * kid] = top
                spans[2 * kid + 1] = size
                top += size
                table[j] = kid + 1
                out[i] = kid
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


@compiled(I8(IO1_I4, IO1, IN_U8, IO_U8, IN2_I4, I8))
def rehash_bytes(table, spans, arena, fresh, slots, n_ids):  # type: ignore[no-untyped-def]
    """Copy the byte strings still in use to a fresh arena and table; returns the fresh arena's top."""
    mask = table.shape[0] - 1
    top = 0
    for kid in range(n_ids):
        if slots[kid, 6] > 0:
            at = spans[2 * kid]
            size = spans[2 * kid + 1]
            for b in range(size):
                fresh[top + b] = arena[at + b]
            j = _hash_bytes(fresh, top, top + size) & mask
            while table[j] != 0:
                j = (j + 1) & mask
            table[j] = kid + 1
            spans[2 * kid] = top
            top += size
    return top


@compiled(VOID(IN1, I8, IO1))
def spread_ints(keys, count, out):  # type: ignore[no-untyped-def]
    """Which of ``count`` partitions each key falls into, by other bits of the hash than those of its table place."""
    for i in range(keys.shape[0]):
        out[i] = (_mix(keys[i]) >> 32) % count


@compiled(VOID(IN1, IN_U8, I8, IO1))
def spread_bytes(offsets, buf, count, out):  # type: ignore[no-untyped-def]
    """As ``spread_ints``, for byte strings."""
    for i in range(offsets.shape[0] - 1):
        out[i] = (_hash_bytes(buf, offsets[i], offsets[i + 1]) >> 32) % count


@compiled(VOID(IN1, IN_U8, IO1))
def hash_bytes(offsets, buf, out):  # type: ignore[no-untyped-def]
    """63 bits of each byte string ``buf[offsets[i]:offsets[i+1]]``."""
    for i in range(offsets.shape[0] - 1):
        out[i] = _hash_bytes(buf, offsets[i], offsets[i + 1])
