"""Every compiled loop of the join, in one file, since numba's disk cache follows one file only.

All of them are plain functions over int64 and uint8 arrays with fixed signatures, so each compiles once, whatever
the query. They run uncompiled under ``NUMBA_DISABLE_JIT=1``.

Shape of a side's index::

    slots int64[keys, 8]    one cache line per key:  left  head tail finger | right head tail finger | refs | spare
    rows  int64[cap, 3+a]   one record per row:      next  prev  key id | axis 0 .. axis a-1
    flags uint8[cap]        LIVE | MATCHED

A row has an absolute id that only grows; its place is ``id & (cap - 1)``. The rows of a key form a doubly linked list,
kept in ascending order of the primary axis where the side is (nearly) ordered. The finger of a key remembers where
the last probe row's matches began: when both sides advance, it moves forward by what has been left behind, and a late
probe row walks back, so no probe depends on order for its answer, only for its cost.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import numba
import numpy as np
from numba import types

__all__ = [
    "FIRST_PROBE", "FIRST_STORE", "LIVE", "MARK_PROBE", "MARK_STORE", "MATCHED", "PAIRS",
    "concat_pieces", "gather_bytes", "insert", "intern_bytes", "intern_ints", "merge_runs", "probe", "probe_runs",
    "prune_prefix", "rehash_bytes", "rehash_ints", "unlink",
]

I64_MIN = -(2**63)
I64_MAX = 2**63 - 1

LIVE, MATCHED = 1, 2
PAIRS, MARK_STORE, MARK_PROBE, FIRST_PROBE, FIRST_STORE = 1, 2, 4, 8, 16

_i8 = types.int64
_in1 = types.Array(types.int64, 1, "C", readonly=True)
_in2 = types.Array(types.int64, 2, "C", readonly=True)
_io1 = types.Array(types.int64, 1, "C")
_io2 = types.Array(types.int64, 2, "C")
_in_u8 = types.Array(types.uint8, 1, "C", readonly=True)
_io_u8 = types.Array(types.uint8, 1, "C")


def _compiled(signature: Any) -> Any:
    """Compile (or load from numba's disk cache) at the first call: a join pays for the kernels that it uses.

    The module's name is bound to the compiled function then, so later calls go straight to it.
    """

    def prepare(function: Any) -> Any:
        if numba.config.DISABLE_JIT:
            return function

        @wraps(function)
        def first_call(*args: Any) -> Any:
            compiled = numba.njit(signature, cache=True, nogil=True, error_model="numpy")(function)
            globals()[function.__name__] = compiled
            return compiled(*args)

        return first_call

    return prepare


# Called by kernels alone: compiled as part of them, with whatever types they pass.
_inner = numba.njit(nogil=True, error_model="numpy")


@_inner
def _mix(x):  # type: ignore[no-untyped-def]
    # Finaliser of MurmurHash3 (Appleby, public domain) cut to stay within signed products.
    h = np.uint64(x)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(33)
    return np.int64(h >> np.uint64(1))


@_compiled(_i8(_in1, _in_u8, _io1, _io1, _io1, _i8, _io1, _i8))
def intern_ints(keys, usable, table, key_of, free, n_free, out, n_ids):  # type: ignore[no-untyped-def]
    """Id of each key; new keys take an id from the free list, else the next one. Returns n_ids * 2**32 + n_free.

    ``table`` holds id + 1, 0 for empty, and is never more than half full: the caller makes room for n new keys.
    """
    mask = table.shape[0] - 1
    for i in range(keys.shape[0]):
        if usable.shape[0] > 0 and usable[i] == 0:
            out[i] = -1
            continue
        key = keys[i]
        j = _mix(key) & mask
        while True:
            entry = table[j]
            if entry == 0:
                if n_free > 0:
                    n_free -= 1
                    kid = free[n_free]
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


@_compiled(types.void(_io1, _in1, _in2, _i8))
def rehash_ints(table, key_of, slots, n_ids):  # type: ignore[no-untyped-def]
    """Put every key that some row still uses into an empty table."""
    mask = table.shape[0] - 1
    for kid in range(n_ids):
        if slots[kid, 6] > 0:
            j = _mix(key_of[kid]) & mask
            while table[j] != 0:
                j = (j + 1) & mask
            table[j] = kid + 1


@_inner
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


@_compiled(_i8(_in1, _in_u8, _in_u8, _io1, _io1, _io_u8, _io1, _i8, _io1, _i8, _i8))
def intern_bytes(offsets, buf, usable, table, spans, arena, free, n_free, out, n_ids, top):  # type: ignore[no-untyped-def]
    """Id of each byte string ``buf[offsets[i]:offsets[i+1]]``; ``spans[2 * id]`` is its arena place, then its length.

    Returns n_ids * 2**32 + n_free; the new top of the arena is left in ``spans[-1]``.
    """
    mask = table.shape[0] - 1
    for i in range(offsets.shape[0] - 1):
        if usable.shape[0] > 0 and usable[i] == 0:
            out[i] = -1
            continue
        start = offsets[i]
        size = offsets[i + 1] - start
        j = _hash_bytes(buf, start, start + size) & mask
        while True:
            entry = table[j]
            if entry == 0:
                if n_free > 0:
                    n_free -= 1
                    kid = free[n_free]
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
    spans[spans.shape[0] - 1] = top
    return (n_ids << 32) + n_free


@_compiled(_i8(_io1, _io1, _in_u8, _io_u8, _in2, _i8))
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


@_compiled(_i8(_in1, _in2, _i8, _i8, _i8, _io2, _io_u8, _io2, _i8, _io1))
def insert(kids, axes, first, axis_base, ordered, rows, flags, slots, side, tally):  # type: ignore[no-untyped-def]
    """Append rows with ids first, first+1, ...; returns how many keys came to life.

    ``ordered`` 1 keeps each key's list ascending in the first axis (walking back from the tail, which costs what the
    row is out of order by, and is added to ``tally[0]``); 0 appends.
    """
    mask = rows.shape[0] - 1
    born = 0
    steps = 0
    n_axes = axes.shape[0]
    for i in range(kids.shape[0]):
        kid = kids[i]
        rid = first + i
        pos = rid & mask
        for a in range(n_axes):
            rows[pos, axis_base + a] = axes[a, i]
        rows[pos, 2] = kid
        flags[pos] = LIVE
        tail = slots[kid, side + 1]
        if tail < 0:
            rows[pos, 0] = -1
            rows[pos, 1] = -1
            slots[kid, side] = rid
            slots[kid, side + 1] = rid
            slots[kid, side + 2] = rid
        else:
            after = tail
            if ordered == 1:
                v = rows[pos, axis_base]
                if rows[tail & mask, axis_base] > v:
                    head = slots[kid, side]
                    if rows[head & mask, axis_base] > v:
                        after = -1
                    else:
                        while rows[after & mask, axis_base] > v:
                            after = rows[after & mask, 1]
                            steps += 1
            if after < 0:
                head = slots[kid, side]
                rows[pos, 0] = head
                rows[pos, 1] = -1
                rows[head & mask, 1] = rid
                slots[kid, side] = rid
            else:
                nxt = rows[after & mask, 0]
                rows[pos, 0] = nxt
                rows[pos, 1] = after
                rows[after & mask, 0] = rid
                if nxt < 0:
                    slots[kid, side + 1] = rid
                else:
                    rows[nxt & mask, 1] = rid
        if slots[kid, 6] == 0:
            born += 1
        slots[kid, 6] += 1
    tally[0] += steps
    return born


@_inner
def _unlink_one(pos, rows, slots, side):  # type: ignore[no-untyped-def]
    mask = rows.shape[0] - 1
    nxt = rows[pos, 0]
    prv = rows[pos, 1]
    kid = rows[pos, 2]
    if prv < 0:
        slots[kid, side] = nxt
    else:
        rows[prv & mask, 0] = nxt
    if nxt < 0:
        slots[kid, side + 1] = prv
    else:
        rows[nxt & mask, 1] = prv
    finger = slots[kid, side + 2]
    if finger >= 0 and (finger & mask) == pos:
        slots[kid, side + 2] = nxt if nxt >= 0 else prv
    slots[kid, 6] -= 1
    return 1 if slots[kid, 6] == 0 else 0


@_compiled(_i8(_in1, _io2, _io_u8, _io2, _i8))
def unlink(ids, rows, flags, slots, side):  # type: ignore[no-untyped-def]
    """Take live rows out of their lists and clear LIVE; returns how many keys died."""
    mask = rows.shape[0] - 1
    died = 0
    for i in range(ids.shape[0]):
        pos = ids[i] & mask
        if flags[pos] & LIVE:
            flags[pos] &= 254
            died += _unlink_one(pos, rows, slots, side)
    return died


@_compiled(_i8(_i8, _i8, _i8, _i8, _i8, _io2, _io_u8, _io2, _i8, _io1, _io1))
def prune_prefix(lo, hi, column, low, high, rows, flags, slots, side, dead, tally):  # type: ignore[no-untyped-def]
    """Unlink the oldest rows while their axis value lies outside [low, high]; returns how many ids went into ``dead``.

    ``tally`` gets: first id not passed, keys that died, rows that died. An empty ``dead`` means nobody asks for ids.
    """
    mask = rows.shape[0] - 1
    count = 0
    keys_died = 0
    rows_died = 0
    want = dead.shape[0] > 0
    rid = lo
    while rid < hi:
        pos = rid & mask
        if flags[pos] & LIVE:
            v = rows[pos, column]
            if low <= v <= high:
                break
            flags[pos] &= 254
            keys_died += _unlink_one(pos, rows, slots, side)
            rows_died += 1
            if want:
                dead[count] = rid
                count += 1
        rid += 1
    tally[0] = rid
    tally[1] = keys_died
    tally[2] = rows_died
    return count


@_inner
def _window(axes, bands, n_primary, i):  # type: ignore[no-untyped-def]
    """The closed interval of the store's first axis that row i can match; (1, 0) when its bound lies past int64."""
    low = I64_MIN
    high = I64_MAX
    for b in range(n_primary):
        v = axes[bands[b, 0], i]
        d = bands[b, 2]
        if d != I64_MIN:
            if d > 0 and v > I64_MAX - d:
                return 1, 0
            if not (d < 0 and v < I64_MIN - d) and v + d > low:
                low = v + d
        d = bands[b, 3]
        if d != I64_MAX:
            if d < 0 and v < I64_MIN - d:
                return 1, 0
            if not (d > 0 and v > I64_MAX - d) and v + d < high:
                high = v + d
    return low, high


@_inner
def _others(axes, bands, n_primary, axis_base, i, rows, pos):  # type: ignore[no-untyped-def]
    """Whether the stored row at a place satisfies the band terms on the other axes."""
    for b in range(n_primary, bands.shape[0]):
        p = axes[bands[b, 0], i]
        v = rows[pos, axis_base + bands[b, 1]]
        d = bands[b, 2]
        if d != I64_MIN:
            if d > 0 and p > I64_MAX - d:
                return False
            if not (d < 0 and p < I64_MIN - d) and v < p + d:
                return False
        d = bands[b, 3]
        if d != I64_MAX:
            if d < 0 and p < I64_MIN - d:
                return False
            if not (d > 0 and p > I64_MAX - d) and v > p + d:
                return False
    return True


@_compiled(_i8(_in1, _in2, _in2, _i8, _i8, _i8, _io2, _in2, _io_u8, _i8, _io_u8, _i8, _io1, _io1, _io1))
def probe(  # type: ignore[no-untyped-def]
    kids, axes, bands, n_primary, axis_base, ordered, slots, rows, flags, side, matched, mode, state, out_probe,
    out_store,
):
    """Find the stored rows that match each probe row; returns how many pairs were written.

    Parameters
    ----------
    kids : int64[n]
        Key ids of the probe rows, -1 for a row that cannot match.
    axes : int64[a, n]
        Their axis values.
    bands : int64[b, 4]
        (probe axis, store axis, low, high): a stored value must lie in [probe + low, probe + high]; the
        least and greatest int64 stand for no bound. The first ``n_primary`` are about the store's first axis.
    state : int64[4]
        Probe row and list node to go on from (node -2: the row's beginning), updated when the output is full; then the
        steps walked to find where matches begin, added up.
    """
    mask = rows.shape[0] - 1
    n = kids.shape[0]
    n_bands = bands.shape[0]
    room = out_probe.shape[0]
    emit = mode & PAIRS
    count = 0
    steps = 0
    i = state[0]
    node = state[1]
    while i < n:
        kid = kids[i]
        head = slots[kid, side] if kid >= 0 else -1
        if head < 0:
            i += 1
            node = -2
            continue
        low, high = _window(axes, bands, n_primary, i)
        if low > high:
            i += 1
            node = -2
            continue
        if node == -2:
            node = head
            if ordered == 1 and n_primary > 0:
                finger = slots[kid, side + 2]
                node = finger
                if rows[node & mask, axis_base] >= low:
                    while True:
                        prv = rows[node & mask, 1]
                        if prv < 0 or rows[prv & mask, axis_base] < low:
                            break
                        node = prv
                        steps += 1
                else:
                    while True:
                        finger = node
                        node = rows[node & mask, 0]
                        steps += 1
                        if node < 0 or rows[node & mask, axis_base] >= low:
                            break
                slots[kid, side + 2] = node if node >= 0 else finger
        while node >= 0:
            pos = node & mask
            nxt = rows[pos, 0]
            if n_primary > 0:
                v = rows[pos, axis_base]
                if v > high:
                    if ordered == 1:
                        break
                    node = nxt
                    continue
                if v < low:
                    node = nxt
                    continue
            ok = n_primary == n_bands or _others(axes, bands, n_primary, axis_base, i, rows, pos)
            if ok and mode & FIRST_STORE and flags[pos] & MATCHED:
                ok = False
            if ok:
                if emit:
                    if count == room:
                        state[0] = i
                        state[1] = node
                        state[2] += steps
                        return count
                    out_probe[count] = i
                    out_store[count] = node
                    count += 1
                if mode & MARK_STORE:
                    flags[pos] |= MATCHED
                if mode & MARK_PROBE:
                    matched[i] = 1
                if mode & FIRST_PROBE:
                    break
            node = nxt
        i += 1
        node = -2
    state[0] = n
    state[1] = -2
    state[2] += steps
    return count


@_compiled(_i8(_io1, _io1, _io1, _i8, _i8, _i8, _in_u8, _i8, _io1, _io1, _io1))
def merge_runs(keys, values, ids, a, b, c, flags, lo, key_buffer, value_buffer, id_buffer):  # type: ignore[no-untyped-def]
    """Merge the sorted runs [a, b) and [b, c) in place, leaving out rows that are gone; returns the new end."""
    mask = flags.shape[0] - 1
    n = 0
    for i in range(a, b):
        if ids[i] >= lo and flags[ids[i] & mask] & LIVE:
            key_buffer[n] = keys[i]
            value_buffer[n] = values[i]
            id_buffer[n] = ids[i]
            n += 1
    i = 0
    j = b
    out = a
    while i < n or j < c:
        if j < c and not (ids[j] >= lo and flags[ids[j] & mask] & LIVE):
            j += 1
            continue
        left = j >= c
        if i < n and not left:
            left = key_buffer[i] < keys[j] or (key_buffer[i] == keys[j] and value_buffer[i] <= values[j])
        if left:
            keys[out] = key_buffer[i]
            values[out] = value_buffer[i]
            ids[out] = id_buffer[i]
            i += 1
        else:
            keys[out] = keys[j]
            values[out] = values[j]
            ids[out] = ids[j]
            j += 1
        out += 1
    return out


@_compiled(
    _i8(_in1, _in2, _in2, _i8, _i8, _in1, _in1, _in1, _in1, _i8, _i8, _in2, _io_u8, _io_u8, _i8, _io1, _io1, _io1)
)
def probe_runs(  # type: ignore[no-untyped-def]
    kids, axes, bands, n_primary, axis_base, run_keys, run_values, run_ids, ends, n_runs, lo, rows, flags, matched,
    mode, state, out_probe, out_store,
):
    """As ``probe``, over sorted runs: for each probe row, a binary search in each run. Indifferent to disorder.

    ``state`` holds probe row, run and place in the run (-1: search for it).
    """
    mask = rows.shape[0] - 1
    n = kids.shape[0]
    room = out_probe.shape[0]
    emit = mode & PAIRS
    count = 0
    i = state[0]
    r = state[1]
    at = state[2]
    while i < n:
        kid = kids[i]
        low, high = _window(axes, bands, n_primary, i)
        if kid < 0 or low > high:
            i += 1
            r = 0
            at = -1
            continue
        done = False
        while r < n_runs and not done:
            stop = ends[r]
            if at < 0:
                at = ends[r - 1] if r > 0 else 0
                top = stop
                while at < top:
                    mid = (at + top) >> 1
                    if run_keys[mid] < kid or (run_keys[mid] == kid and run_values[mid] < low):
                        at = mid + 1
                    else:
                        top = mid
            while at < stop and run_keys[at] == kid and run_values[at] <= high:
                rid = run_ids[at]
                pos = rid & mask
                ok = rid >= lo and flags[pos] & LIVE
                if ok and n_primary < bands.shape[0]:
                    ok = _others(axes, bands, n_primary, axis_base, i, rows, pos)
                if ok and mode & FIRST_STORE and flags[pos] & MATCHED:
                    ok = False
                if ok:
                    if emit:
                        if count == room:
                            state[0] = i
                            state[1] = r
                            state[2] = at
                            return count
                        out_probe[count] = i
                        out_store[count] = rid
                        count += 1
                    if mode & MARK_STORE:
                        flags[pos] |= MATCHED
                    if mode & MARK_PROBE:
                        matched[i] = 1
                    if mode & FIRST_PROBE:
                        done = True
                        break
                at += 1
            r += 1
            at = -1
        i += 1
        r = 0
        at = -1
    state[0] = n
    state[1] = 0
    state[2] = -1
    return count


@_compiled(_i8(_in1, _in1, _i8, _in_u8, _io_u8))
def gather_bytes(starts, sizes, step, source, out):  # type: ignore[no-untyped-def]
    """Copy ``source[starts[i] : starts[i] + sizes[i]]`` one after another into ``out``; returns the bytes written."""
    top = 0
    for i in range(starts.shape[0]):
        at = starts[i]
        for b in range(sizes[i]):
            out[top + b] = source[at + b]
        top += sizes[i]
    return top


@_compiled(types.void(_in1, _in_u8, _in1, _in_u8, _io1, _io_u8))
def concat_pieces(offsets_a, a, offsets_b, b, offsets, out):  # type: ignore[no-untyped-def]
    """Row-wise ``size(a_i) ++ a_i ++ b_i``: unambiguous, so equal results mean equal pieces."""
    top = 0
    offsets[0] = 0
    for i in range(offsets_a.shape[0] - 1):
        size = offsets_a[i + 1] - offsets_a[i]
        for s in range(4):
            out[top + s] = (size >> (8 * s)) & 255
        top += 4
        for k in range(offsets_a[i], offsets_a[i + 1]):
            out[top] = a[k]
            top += 1
        for k in range(offsets_b[i], offsets_b[i + 1]):
            out[top] = b[k]
            top += 1
        offsets[i + 1] = top
