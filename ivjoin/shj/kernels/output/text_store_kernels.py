"""Store text and bools of new rows."""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels import pointers as mem
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.output.batch_memory import copy_all
from ivjoin.shj.kernels.records import text_at

__all__ = ["append_bits", "batch_bytes", "buffer_of", "copy_text", "first_of", "set_word", "store_text", "word_at"]


@inner
def word_at(pointer, width, i):
    return mem.at_i64(pointer)[i] if width == 8 else np.int64(mem.at_i32(pointer)[i])


@inner
def set_word(pointer, width, i, value):
    # A value that is too large for 32 bits is stored modulo 2**32.
    if width == 8:
        mem.at_i64(pointer)[i] = value
    else:
        mem.at_u32(pointer)[i] = value & 0xFFFFFFFF


@inner
def _child(op, column):
    return mem.load(mem.load(op.in_struct + mem.CHILDREN) + 8 * column)


@inner
def buffer_of(op, column, i):
    return mem.load(mem.load(_child(op, column) + mem.BUFFERS) + 8 * i)


@inner
def first_of(op, column):
    """Return the index of the batch's first row in its buffers."""
    return mem.load(op.in_struct + mem.OFFSET) + mem.load(_child(op, column) + mem.OFFSET)


@inner
def copy_text(target, source, size, within):
    """Copy ``size`` bytes; copy up to 7 more, in whole words, if so many lie ``within`` reach of both."""
    words = (size + 7) >> 3
    if 8 * words <= within:
        t8, s8 = mem.at_u64(target), mem.at_u64(source)
        for i in range(words):
            t8[i] = s8[i]
    else:
        copy_all(target, source, size)


@inner
def batch_bytes(offsets, width, rows, n):
    total = 0
    for i in range(n):
        total += word_at(offsets, width, rows[i] + 1) - word_at(offsets, width, rows[i])
    return total


@inner
def _kept_bytes(op, t, n):
    offsets = buffer_of(op, t.column, 1) + t.offset_width * first_of(op, t.column)
    if n == op.n:
        return word_at(offsets, t.offset_width, n) - word_at(offsets, t.offset_width, 0)
    return batch_bytes(offsets, t.offset_width, mem.at_i64(op.kept_at), n)


@inner
def _shifted(side, t):
    """Move an arena's rows over its dead front, if at least an eighth of its capacity is then free."""
    mask = np.int64(-1) if t.start_width == 8 else np.int64(0xFFFFFFFF)
    used = t.top - t.base
    dead = used
    if side.lo < t.next:
        dead = (word_at(t.starts, t.start_width, side.lo % side.cap) - t.base) & mask
    if dead < 64 or 8 * (t.wanted - dead) > 7 * t.room:
        return False
    copy_all(t.arena, t.arena + dead, used - dead)
    t.base += dead
    t.wanted -= dead
    return True


@inner
def _append_bytes(op, side, t, n):
    width = t.offset_width
    offsets = buffer_of(op, t.column, 1) + width * first_of(op, t.column)
    source = buffer_of(op, t.column, 2)
    kept = mem.at_i64(op.kept_at)
    cap = side.cap
    place = side.hi % cap
    starts = t.starts
    start_width = t.start_width
    top = t.top
    used = top - t.base
    if n == op.n:
        low = word_at(offsets, width, 0)
        size = word_at(offsets, width, n) - low
        copy_all(t.arena + used, source + low, size)
        for k in range(n):
            pos = place + k if place + k < cap else place + k - cap
            set_word(starts, start_width, pos, top + word_at(offsets, width, k) - low)
        top += size
    else:
        end = word_at(offsets, width, op.n)
        for k in range(n):
            low = word_at(offsets, width, kept[k])
            size = word_at(offsets, width, kept[k] + 1) - low
            pos = place + k if place + k < cap else place + k - cap
            set_word(starts, start_width, pos, top)
            copy_text(t.arena + used, source + low, size, min(end - low, t.room - used))
            top += size
            used += size
    t.top = top
    t.next = side.hi + n


@inner
def append_bits(flags, bitmap, first, kept, n, place, cap):
    """Write a byte to a ring for each of some bits of a bitmap; 1 for all if there is no bitmap."""
    ring = mem.at_u8(flags)
    bits = mem.at_u8(bitmap)
    for k in range(n):
        b = first + kept[k]
        pos = place + k if place + k < cap else place + k - cap
        ring[pos] = 1 if bitmap == 0 else (bits[b >> 3] >> (b & 7)) & 1


@inner
def store_text(op, side):
    """Append the new rows to a side's columns of text and bools.

    Return 0, or ``ROOM`` without having done anything: an arena is smaller than ``wanted``, or a first null comes.
    """
    valid = mem.at_i64(op.in_valid)
    n = op.n_kept
    short = 0
    for c in range(side.n_texts):
        t = text_at(side.texts, c)
        if t.kind == at.BYTES:
            t.wanted = t.top - t.base + _kept_bytes(op, t, n)
            if t.wanted > t.room and not _shifted(side, t):
                short = at.ROOM
        if t.valid == 0 and valid[2 * t.column] != 0:
            short = at.ROOM
    if short:
        return short
    kept = mem.at_i64(op.kept_at)
    place = side.hi % side.cap
    for c in range(side.n_texts):
        t = text_at(side.texts, c)
        if t.kind == at.BYTES:
            _append_bytes(op, side, t, n)
        else:
            append_bits(t.starts, buffer_of(op, t.column, 1), first_of(op, t.column), kept, n, place, side.cap)
        if t.valid:
            append_bits(t.valid, valid[2 * t.column], valid[2 * t.column + 1], kept, n, place, side.cap)
    return short
