"""Compiled loops of the key table: from a key to its dense id."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IN_U8, IO1, IO1_I4, IO2, IO2_I4, IO_U8, VOID, compiled, inner
from ivjoin.shj.kernels.memory import AHEAD, at_i32, at_i64, at_u8, line_of, prefetch

__all__ = [
    "CROWDED", "KEY_WORD", "MANY_ROWS", "SOME_KEYS", "SOME_PLACES", "SOME_ROOM", "fill_table", "has_key_room",
    "has_spare_room", "hash_bytes", "intern_bytes", "intern_ints", "intern_rows", "key_room", "mark_ints",
    "name_rows", "new_id", "number_ints", "regrow_bytes", "regrow_ints", "rehash_bytes", "rehash_ints", "take_back",
    "take_back_ids",
]  # fmt: skip

KEY_WORD = 3  # in a key's slots, as words: the key, if it is a word
SOME_ROOM = 16  # for new keys, and no less, where there is any
# Rows a key, beside which it is little to find the key's id: the table may be half full then, and grow as keys are
# named. Of a table of so few places the size is not asked.
MANY_ROWS, SOME_PLACES = 16, 1024
CROWDED = 3  # places of other keys that are passed for each row, on average, before a table is stirred
SOME_KEYS = 1024  # without rows are nothing to sweep for, beside a quarter of those that have some
NEXT_FREE = 2  # in the slots of an id without rows: another such id, -1 for none


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
def _shift(mask):  # type: ignore[no-untyped-def]
    """By how many bits a word is shifted to leave a place of a table: 64 less the bits of its mask."""
    shift = 64
    while mask > 0:
        mask >>= 1
        shift -= 1
    return np.uint64(shift)


@inner
def _spread(x, shift):  # type: ignore[no-untyped-def]
    # Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4), with the upper half folded in.
    h = np.uint64(x)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0x9E3779B97F4A7C15)
    return np.int64(h >> shift)


@inner
def _place(key, mask, shift, stirred):  # type: ignore[no-untyped-def]
    """Where a key is looked for first.

    Keys that follow one another are spread evenly, so that hardly two of them have the same place; some that are a
    certain distance apart crowd instead. A table in which they do is ``stirred``: any keys lie in it as at random.
    """
    return _mix(key) & mask if stirred else _spread(key, shift)


@inner
def new_id(slots, n_free, n_ids, cell):  # type: ignore[no-untyped-def]
    """An id for a key: the first free one, which ``cell[0]`` names, else the next one."""
    if n_free == 0:
        return np.int64(n_ids)
    key_id = cell[0]
    cell[0] = slots[8 * key_id + NEXT_FREE]
    return key_id


@inner
def key_room(n_ids, n_free, most_ids, size):  # type: ignore[no-untyped-def]
    """For how many new keys there are slots, and places in a table of ``size`` that is at most half full."""
    return min(most_ids, size >> 1) - n_ids + n_free


@inner
def _is_rest(rest, first, values, stride, words, others, i):  # type: ignore[no-untyped-def]
    """Whether words of row i, all but the last, are those from ``rest[first]`` on."""
    for k in range(others):  # noqa: SIM110 (numba has no all())
        if rest[first + k] != values[words[3 * k] * stride + i]:
            return False
    return True


@inner
def intern_rows(  # type: ignore[no-untyped-def]
    keys, begin, n, usable, some, table, mask, most_ids, slots, key_of, n_free, out, n_ids, cell, values, stride,
    words, others, rest, places, table_at, slots_at, stirred,
):
    """``intern_ints`` of rows begin .. n-1, over flat arrays or pointers; ``some`` says whether ``usable`` is asked.

    There are slots for ``most_ids``. In ``cell[1]`` is left how far it has come: to n, or to a row whose key is new
    and finds no room; in ``cell[2]``, how many places were passed by that were another key's.

    Of keys of several words, ``keys`` are the sums (they may stand where the ids go); word k of row i is
    ``values[words[3 * k] * stride + i]``, and all of an id but the last are the ``others`` words from
    ``rest[others * id]`` on. ``places`` is scratch for n; ``table_at`` and ``slots_at`` are addresses.
    """
    shift = _shift(mask)
    if stirred:
        for i in range(begin, n):
            places[i] = _mix(keys[i]) & mask
    else:
        for i in range(begin, n):
            places[i] = _spread(keys[i], shift)
    passed = 0
    room = key_room(n_ids, n_free, most_ids, mask + 1)
    for i in range(begin, n):
        if i + 2 * AHEAD < n:
            prefetch(table_at + 4 * places[i + 2 * AHEAD])
            prefetch(slots_at + 32 * (np.int64(table[places[i + AHEAD]]) - 1))
        if some and usable[i] == 0:
            out[i] = -1
            continue
        key = keys[i]
        j = places[i]
        while True:
            entry = np.int64(table[j])
            if entry == 0:
                if room <= 0:
                    cell[1] = i
                    cell[2] = passed
                    return (n_ids << 32) + n_free
                room -= 1
                key_id = new_id(slots, n_free, n_ids, cell)
                if n_free > 0:
                    n_free -= 1
                else:
                    n_ids += 1
                key_of[4 * key_id + KEY_WORD] = key
                for k in range(others):
                    rest[others * key_id + k] = values[words[3 * k] * stride + i]
                table[j] = key_id + 1
                out[i] = key_id
                break
            if key_of[4 * entry + (KEY_WORD - 4)] == key and _is_rest(
                rest, others * (entry - 1), values, stride, words, others, i
            ):
                out[i] = entry - 1
                break
            passed += 1
            j = (j + 1) & mask
    cell[1] = n
    cell[2] = passed
    return (n_ids << 32) + n_free


@compiled(I8(IN1, IN_U8, IO1_I4, IO2_I4, IO2, I8, IO1, I8, IO1, IO1, I8, I8, I8))
def intern_ints(  # type: ignore[no-untyped-def]
    keys, usable, table, slots, words, n_free, out, n_ids, cell, places, table_at, slots_at, stirred,
):
    """Id of each key; new keys take an id from the free list, else the next one. Returns n_ids * 2**32 + n_free.

    ``table`` holds id + 1, 0 for empty, and is never more than half full: the caller makes room for n new keys.
    ``words`` are the slots as int64[n, 4]; ``cell[0]`` is the first free id. ``places`` is scratch : int64[n];
    ``table_at`` and ``slots_at`` are the addresses of arrays. For ``stirred`` see ``_place``.
    """
    return intern_rows(
        keys, 0, keys.shape[0], usable, usable.shape[0] > 0, table, table.shape[0] - 1, slots.shape[0], line_of(slots),
        line_of(words), n_free, out, n_ids, cell, keys, 0, keys, 0, cell, places, table_at, slots_at, stirred,
    )


@compiled(VOID(IN1, IN_U8, I8, IO_U8))
def mark_ints(keys, usable, least, marks):  # type: ignore[no-untyped-def]
    """Mark the keys that there are, ``least`` in the first place; rows that are not ``usable`` (empty: all are) not."""
    some = usable.shape[0] > 0
    for i in range(keys.shape[0]):
        if not some or usable[i] != 0:
            marks[keys[i] - least] = 1


@compiled(VOID(IN1, IN_U8, I8, IN1, IO1))
def number_ints(keys, usable, least, ids, out):  # type: ignore[no-untyped-def]
    """Id of each key, from those by place; -1 of rows that are not ``usable``."""
    some = usable.shape[0] > 0
    for i in range(keys.shape[0]):
        out[i] = ids[keys[i] - least] if not some or usable[i] != 0 else -1


@inner
def has_key_room(op, rows, n):  # type: ignore[no-untyped-def]
    """Whether there is the room for n new keys that must be there before any is named, beside so many stored rows.

    Slots may be made later, and so may places of the table where keys have many rows; they need not quite be as many as
    for the table to be made to fit.
    """
    if op.grows != 0 and 2 * rows > MANY_ROWS * (op.n_ids - op.n_free):
        return True
    if 2 * (op.n_ids - op.n_free + n) > op.table_size:
        return False
    return op.grows != 0 or op.n_ids + max(n - op.n_free, 0) <= op.slots_size


@inner
def has_spare_room(op, rows):  # type: ignore[no-untyped-def]
    """Whether there is much more room than for the keys of the rows in lists, many rows each; see ``KeyTable.fit``."""
    live = op.live_keys
    if op.grows == 0 or rows <= MANY_ROWS * live:
        return False
    most = op.n_ids + (live >> 3) + 4 * SOME_ROOM
    return op.table_size > max(SOME_PLACES, 4 * (live + SOME_ROOM)) or op.slots_size > most


@inner
def name_rows(op, side, other, keys):  # type: ignore[no-untyped-def]
    """Ids of the keys of the batch at hand, words at an address, -1 for rows that match nothing.

    From row ``n_named`` on, which is short of the last one where there is no room for a new key.
    """
    key_ids = at_i64(op.key_ids)
    n = op.n
    if other.live == 0 and op.n_kept == 0:
        for i in range(n):
            key_ids[i] = -1
        op.n_named = n
        return
    cell = at_i64(op.state_at)
    cell[0] = op.free
    packed = intern_rows(
        at_i64(keys), op.n_named, n, at_u8(op.usable), op.masked != 0, at_i32(op.table), op.table_size - 1,
        op.slots_size, at_i32(op.slots), at_i64(op.slots), op.n_free, key_ids, op.n_ids, cell, at_i64(op.values),
        op.room_rows, at_i64(side.key_words), side.n_key_words - 1, at_i64(op.rest), at_i64(op.chosen), op.table,
        op.slots, op.stirred != 0,
    )
    op.free = cell[0]
    op.n_named = cell[1]
    op.passed += cell[2]
    op.n_ids = packed >> 32
    op.n_free = packed & 0xFFFFFFFF


@inner
def _is_free(slots, key_id):  # type: ignore[no-untyped-def]
    """Whether no row of either side has a key."""
    return slots[8 * key_id] < 0 and slots[8 * key_id + 3] < 0


@inner
def take_back_ids(slots, n_ids, live, cell):  # type: ignore[no-untyped-def]
    """``take_back`` over flat arrays or pointers."""
    if 8 * live < n_ids:
        while n_ids > 0 and _is_free(slots, n_ids - 1):
            n_ids -= 1
    n_free = 0
    first = np.int64(-1)
    for k in range(n_ids):
        key_id = n_ids - 1 - k
        if _is_free(slots, key_id):
            slots[8 * key_id + NEXT_FREE] = first
            first = np.int64(key_id)
            n_free += 1
    cell[0] = first
    return (n_ids << 32) + n_free


@compiled(I8(IO2_I4, I8, I8, IO1))
def take_back(slots, n_ids, live, cell):  # type: ignore[no-untyped-def]
    """Link the ids that no row uses, the least first: it goes to ``cell[0]``. Returns n_ids * 2**32 + their number.

    Where few keys are ``live``, ids that are free at the end are not given out any more.
    """
    return take_back_ids(line_of(slots), n_ids, live, cell)


@inner
def fill_table(table, mask, slots, key_of, n_ids, stirred):  # type: ignore[no-untyped-def]
    """Put every key that some row uses into an empty table."""
    shift = _shift(mask)
    for key_id in range(n_ids):
        if not _is_free(slots, key_id):
            j = _place(key_of[4 * key_id + KEY_WORD], mask, shift, stirred)
            while table[j] != 0:
                j = (j + 1) & mask
            table[j] = key_id + 1


@compiled(VOID(IO1_I4, IO2_I4, IO2, I8, I8))
def rehash_ints(table, slots, words, n_ids, stirred):  # type: ignore[no-untyped-def]
    """``fill_table`` over arrays."""
    fill_table(table, table.shape[0] - 1, line_of(slots), line_of(words), n_ids, stirred)


@compiled(VOID(IO1_I4, IO1_I4, IO2, I8))
def regrow_ints(old, table, words, stirred):  # type: ignore[no-untyped-def]
    """Put all keys of a table into a larger, empty one."""
    mask = table.shape[0] - 1
    shift = _shift(mask)
    for i in range(old.shape[0]):
        entry = np.int64(old[i])
        if entry != 0:
            j = _place(words[entry - 1, KEY_WORD], mask, shift, stirred)
            while table[j] != 0:
                j = (j + 1) & mask
            table[j] = entry


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


@inner
def _fill_up(arena, top):  # type: ignore[no-untyped-def]
    """Zeros up to the next word; where it begins."""
    after = (top + 7) & ~7
    for b in range(top, after):
        arena[b] = 0
    return after


@compiled(I8(IN1, IN_U8, IN_U8, IO1_I4, IO1, IO_U8, IO2_I4, I8, IO1, I8, IO1, IO1))
def intern_bytes(offsets, buf, usable, table, spans, arena, slots, n_free, out, n_ids, tops, cell):  # type: ignore[no-untyped-def]
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
def rehash_bytes(table, spans, arena, fresh, slots, n_ids):  # type: ignore[no-untyped-def]
    """Copy the byte strings still in use to a fresh arena and table; returns the fresh arena's top."""
    mask = table.shape[0] - 1
    top = 0
    for key_id in range(n_ids):
        if not _is_free(line_of(slots), key_id):
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
def regrow_bytes(spans, arena, old, table):  # type: ignore[no-untyped-def]
    """Put all keys of a table into a larger, empty one."""
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
def hash_bytes(offsets, buf, out):  # type: ignore[no-untyped-def]
    """63 bits of each byte string ``buf[offsets[i]:offsets[i+1]]``."""
    for i in range(offsets.shape[0] - 1):
        out[i] = _hash_bytes(buf, offsets[i], offsets[i + 1])
