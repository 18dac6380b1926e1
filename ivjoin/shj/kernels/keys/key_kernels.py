"""Find the dense id of a key in an open-addressing table."""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import I8, IN1, IN1_I4, IN_U8, IO1, VOID, compiled, inner
from ivjoin.shj.kernels.pointers import AHEAD, at_i32, at_i64, at_u8, prefetch
from ivjoin.shj.kernels.records import operator_at

__all__ = [
    "CROWDED", "KEY_WORD", "MANY_ROWS", "SOME_KEYS", "SOME_PLACES", "SOME_ROOM", "fill_table", "has_key_room",
    "has_spare_room", "hash_key", "hash_words", "intern_ints", "intern_rows", "is_free", "key_room", "mix", "name_rows",
    "new_id", "regrow", "rehash", "shift_of", "spread", "take_back", "take_back_ids",
]  # fmt: skip

KEY_WORD = 3  # word of a key's slots: the key, if it is a word
SOME_ROOM = 16  # least number of new keys for which capacity is added
# With at least MANY_ROWS rows per key, finding the id is a small part of the cost: the table may then be half full and
# grow as keys get ids. A table of up to SOME_PLACES entries is never too large.
MANY_ROWS, SOME_PLACES = 16, 1024
CROWDED = 3  # other keys' entries probed per row, on average, above which the table is rehashed by ``mix``
SOME_KEYS = 1024  # unused ids that are tolerated, in addition to a quarter of the live keys
NEXT_FREE = 2  # link of an unused id's slots: the next unused id, -1 for none


@inner
def mix(x):
    # Finalizer of MurmurHash3 (Appleby, public domain), without the last step and reduced to 63 bits.
    h = np.uint64(x)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(33)
    return np.int64(h >> np.uint64(1))


@inner
def shift_of(mask):
    """Return the shift that reduces a 64-bit hash to a table index: 64 minus the bits of the mask."""
    shift = 64
    while mask > 0:
        mask >>= 1
        shift -= 1
    return np.uint64(shift)


@inner
def spread(x, shift):
    # Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4), after folding in the upper half.
    h = np.uint64(x)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0x9E3779B97F4A7C15)
    return np.int64(h >> shift)


@inner
def hash_words(address, size):
    """Hash the whole words of a byte string."""
    h = np.int64(size)
    words = at_i64(address)
    for w in range(size >> 3):
        h = mix(h ^ words[w])
    return h


@inner
def hash_key(address, size):
    """Return a 63-bit hash of a byte string whose last word is filled with zeros."""
    h = hash_words(address, size)
    return mix(h ^ at_i64(address)[size >> 3]) if size & 7 else mix(h)


@inner
def _enter(op, key_id, mask, shift):
    """Insert a key that has an id into the table.

    Fibonacci hashing spreads consecutive keys evenly, but keys at certain distances collide often. A table with many
    collisions becomes ``stirred``: ``mix`` then spreads all keys as at random.
    """
    table = at_i32(op.table)
    if op.key_kind == at.GIVEN:
        spans = at_i64(op.spans)
        j = hash_key(op.arena + spans[2 * key_id], spans[2 * key_id + 1]) & mask
    else:
        key = at_i64(op.slots)[4 * key_id + KEY_WORD]
        j = mix(key) & mask if op.stirred else spread(key, shift)
    while table[j] != 0:
        j = (j + 1) & mask
    table[j] = key_id + 1


@inner
def new_id(op):
    """Take an id for a new key: the first unused one, else the next one."""
    if op.n_free == 0:
        key_id = op.n_ids
        op.n_ids = key_id + 1
        return key_id
    key_id = op.free
    op.free = np.int64(at_i32(op.slots)[8 * key_id + NEXT_FREE])
    op.n_free -= 1
    return key_id


@inner
def key_room(n_ids, n_free, most_ids, size):
    """Return for how many new keys there are slots, and entries in a table of ``size`` that stays at most half full."""
    return min(most_ids, size >> 1) - n_ids + n_free


@inner
def _is_rest(rest, first, values, stride, words, others, i):
    """Return whether all words of row i but the last equal those from ``rest[first]`` on."""
    for k in range(others):  # noqa: SIM110 (numba has no all())
        if rest[first + k] != values[words[3 * k] * stride + i]:
            return False
    return True


@inner
def intern_rows(op, keys, begin, n, usable, some, out, places, values, stride, words, others):
    """Do as ``intern_ints`` for rows begin .. n-1; return n, or the first row whose new key does not fit.

    For keys of several words, ``keys`` are hashes, which may lie in ``out``. Word k of row i is
    ``values[words[3 * k] * stride + i]``. All words of an id but the last are the ``others`` words from
    ``rest[others * id]`` on. The second result is the number of other keys' entries probed.
    """
    table_at, slots_at = op.table, op.slots
    table, slots, key_of, rest = at_i32(table_at), at_i32(slots_at), at_i64(slots_at), at_i64(op.rest)
    mask = op.table_size - 1
    if op.stirred:
        for i in range(begin, n):
            places[i] = mix(keys[i]) & mask
    else:
        shift = shift_of(mask)
        for i in range(begin, n):
            places[i] = spread(keys[i], shift)
    passed = 0
    n_ids, n_free, free = op.n_ids, op.n_free, op.free
    room = key_room(n_ids, n_free, op.slots_size, mask + 1)
    i = begin
    while i < n:
        if i + 2 * AHEAD < n:
            prefetch(table_at + 4 * places[i + 2 * AHEAD])
            prefetch(slots_at + 32 * (np.int64(table[places[i + AHEAD]]) - 1))
        if some and usable[i] == 0:
            out[i] = -1
            i += 1
            continue
        key = keys[i]
        j = places[i]
        entry = np.int64(table[j])
        while entry != 0:
            if key_of[4 * entry + (KEY_WORD - 4)] == key and _is_rest(
                rest, others * (entry - 1), values, stride, words, others, i
            ):
                break
            passed += 1
            j = (j + 1) & mask
            entry = np.int64(table[j])
        if entry == 0:
            if room <= 0:
                break
            room -= 1
            if n_free > 0:
                entry = free + 1
                free = np.int64(slots[8 * free + NEXT_FREE])
                n_free -= 1
            else:
                n_ids += 1
                entry = n_ids
            key_of[4 * entry + (KEY_WORD - 4)] = key
            for k in range(others):
                rest[others * (entry - 1) + k] = values[words[3 * k] * stride + i]
            table[j] = entry
        out[i] = entry - 1
        i += 1
    op.n_ids = n_ids
    op.n_free = n_free
    op.free = free
    return i, passed


@compiled(VOID(I8, IN1, IN_U8, IO1, IO1))
def intern_ints(operator, keys, usable, out, places):
    """Look up the id of each key; new keys take an unused id, else the next one. The caller reserves capacity.

    keys, out, places : int64[n], places is scratch; usable : uint8[n], 0 for id -1, or empty if all are usable
    """
    op = operator_at(operator, 0)
    intern_rows(op, keys, 0, keys.shape[0], usable, usable.shape[0] > 0, out, places, keys, 0, keys, 0)


@inner
def has_key_room(op, rows, n):
    """Return whether there is the capacity for n new keys that must exist before any key gets an id."""
    if op.grows != 0 and 2 * rows > MANY_ROWS * (op.n_ids - op.n_free):
        return True
    if 2 * (op.n_ids - op.n_free + n) > op.table_size:
        return False
    return op.grows != 0 or op.n_ids + max(n - op.n_free, 0) <= op.slots_size


@inner
def has_spare_room(op, rows):
    """Return whether capacity far exceeds the live keys' need, if each has many rows; see ``KeyTable.fit``."""
    live = op.live_keys
    if op.grows == 0 or rows <= MANY_ROWS * live:
        return False
    most = op.n_ids + (live >> 3) + 4 * SOME_ROOM
    return op.table_size > max(SOME_PLACES, 4 * (live + SOME_ROOM)) or op.slots_size > most


@inner
def name_rows(op, side, other, keys):
    """Look up the ids of the keys at an address from row ``n_named`` on, until capacity for a new key lacks."""
    key_ids = at_i64(op.key_ids)
    n = op.n
    if other.live == 0 and op.n_kept == 0:
        for i in range(n):
            key_ids[i] = -1
        op.n_named = n
        return
    done, passed = intern_rows(
        op, at_i64(keys), op.n_named, n, at_u8(op.usable), op.masked != 0, key_ids, at_i64(op.chosen),
        at_i64(op.values), op.room_rows, at_i64(side.key_words), side.n_key_words - 1,
    )
    op.n_named = done
    op.passed += passed


@inner
def is_free(slots, key_id):
    return slots[8 * key_id] < 0 and slots[8 * key_id + 3] < 0


@inner
def take_back_ids(op):
    """Link the ids that no row uses, the least first; if few keys are live, remove unused ids at the end."""
    slots = at_i32(op.slots)
    n_ids = op.n_ids
    if 8 * op.live_keys < n_ids:
        while n_ids > 0 and is_free(slots, n_ids - 1):
            n_ids -= 1
    n_free = 0
    first = np.int64(-1)
    for k in range(n_ids):
        key_id = n_ids - 1 - k
        if is_free(slots, key_id):
            slots[8 * key_id + NEXT_FREE] = first
            first = np.int64(key_id)
            n_free += 1
    op.n_ids = n_ids
    op.n_free = n_free
    op.free = first


@compiled(VOID(I8))
def take_back(operator):
    take_back_ids(operator_at(operator, 0))


@inner
def fill_table(op):
    """Insert every key that some row uses into the empty table."""
    slots = at_i32(op.slots)
    mask = op.table_size - 1
    shift = shift_of(mask)
    for key_id in range(op.n_ids):
        if not is_free(slots, key_id):
            _enter(op, np.int64(key_id), mask, shift)


@compiled(VOID(I8))
def rehash(operator):
    fill_table(operator_at(operator, 0))


@compiled(VOID(I8, IN1_I4))
def regrow(operator, old):
    """Insert all keys of the table ``old`` : int32[size] into the larger, empty one."""
    op = operator_at(operator, 0)
    mask = op.table_size - 1
    shift = shift_of(mask)
    for i in range(old.shape[0]):
        if old[i] != 0:
            _enter(op, np.int64(old[i]) - 1, mask, shift)
