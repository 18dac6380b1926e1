"""Allocate the block of memory of an output batch, and write columns of words and validity to it."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels import pointers as mem
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.output.batch_memory import copy_doubles, copy_keys, copy_rows
from ivjoin.shj.kernels.push.index_kernels import FIRST_AXIS
from ivjoin.shj.kernels.records import ring_at

__all__ = ["begin_block", "blank", "put_words", "source_of", "taken_bits", "taken_bytes"]


@inner
def taken_bits(target, bitmap, first, index, n):
    """Write the validity of the values at ``index`` of a bitmap, from bit ``first`` on; return the number of nulls.

    Index -1 is null.
    """
    out = mem.at_u8(target)
    bits = mem.at_u8(bitmap)
    nulls = np.int64(0)
    for b in range((n + 7) >> 3):
        word = np.int64(0)
        for i in range(8 * b, min(8 * b + 8, n)):
            bit = np.int64(0)
            if index[i] >= 0:
                k = first + index[i]
                bit = np.int64((bits[k >> 3] >> (k & 7)) & 1)
            word |= bit << (i & 7)
            nulls += 1 - bit
        out[b] = word
    return nulls


@inner
def taken_bytes(target, valid, index, n):
    """Do as ``taken_bits``, from one byte per value."""
    out = mem.at_u8(target)
    flags = mem.at_u8(valid)
    nulls = np.int64(0)
    for b in range((n + 7) >> 3):
        word = np.int64(0)
        for i in range(8 * b, min(8 * b + 8, n)):
            bit = np.int64(flags[index[i]])
            word |= bit << (i & 7)
            nulls += 1 - bit
        out[b] = word
    return nulls


@inner
def blank(target, size):
    t = mem.at_u8(target)
    for i in range(size):
        t[i] = 0


@inner
def source_of(field, which, p):
    """Return the side that supplies an output column; -1 if the column is null."""
    left = field.left if which != 2 else -1
    right = field.right if which != 1 else -1
    if left >= 0 and right >= 0 and field.alike:
        return p
    return 0 if left >= 0 else 1 if right >= 0 else -1


@inner
def put_words(op, p, other, side, column, width, n, rows, places, validity, data):
    """Write a side's column of ``width`` bytes a value, and its validity if there are nulls; return the nulls."""
    if side == p:
        copy_rows(data, mem.at_i64(op.in_values)[column], width, width, rows, n)
        valid = mem.at_i64(op.in_valid)
        return taken_bits(validity, valid[2 * column], valid[2 * column + 1], rows, n) if valid[2 * column] else 0
    ring = ring_at(other.rings, column)
    if ring.stride == 0:
        links = mem.at_i32(other.rows)
        copy_keys(data, ring.values, width, links, 2 * (FIRST_AXIS + other.n_axes), places, n)
    elif ring.stride < 0:
        copy_doubles(data, ring.values, -ring.stride >> 3, places, n)
    else:
        copy_rows(data, ring.values, width, ring.stride, places, n)
    return taken_bytes(validity, ring.valid, places, n) if ring.valid else 0


@inner
def begin_block(n_fields, buffers, size):
    """Allocate a batch whose values take ``size`` bytes, with ``buffers`` pointers per column, and set its count.

    Return the addresses of the block (0: no pointers), the children, their structs, the pointers and the values. The
    block's first word counts batch and columns.
    """
    head = (8 + 8 * n_fields + (mem.ARROW_ARRAY + 8 * buffers) * n_fields + 63) & ~63
    block = mem.malloc(head + 72 + size)
    if block == 0:
        return block, block, block, block, block
    mem.save(block, 1 + n_fields)
    base = (block + 8 + 63) & ~63
    mem.save(base, 0)  # the validity of the rows themselves
    children = base + 8
    structs = children + 8 * n_fields
    return block, children, structs, structs + mem.ARROW_ARRAY * n_fields, base + head
