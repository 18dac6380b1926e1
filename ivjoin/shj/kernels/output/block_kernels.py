"""Build output batches: one block of memory each, exported through Arrow's C data interface."""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels import memory as mem
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.output.batch_memory import (
    array_struct,
    blank,
    copy_doubles,
    copy_keys,
    copy_rows,
    taken_bits,
    taken_bytes,
)
from ivjoin.shj.kernels.output.text_kernels import field_bytes, put_bools, put_text
from ivjoin.shj.kernels.output.text_store_kernels import word_at
from ivjoin.shj.kernels.push.index_kernels import FIRST_AXIS
from ivjoin.shj.kernels.records import field_at, ring_at

__all__ = ["begin_block", "build_block"]

_MOST_NARROW = 2**31 - 1  # bytes of a column whose offsets are int32


@inner
def _source_of(field, which, p):
    """Return the side that supplies an output column; -1 if the column is null."""
    left = field.left if which != 2 else -1
    right = field.right if which != 1 else -1
    if left >= 0 and right >= 0 and field.alike:
        return p
    return 0 if left >= 0 else 1 if right >= 0 else -1


@inner
def _put_validity(op, p, other, side, column, n, rows, places, target):
    """Write the validity of a side's column if it may have nulls; return the number of nulls."""
    if side == p:
        valid = mem.at_i64(op.in_valid)
        return taken_bits(target, valid[2 * column], valid[2 * column + 1], rows, n) if valid[2 * column] else 0
    ring = ring_at(other.rings, column)
    return taken_bytes(target, ring.valid, places, n) if ring.valid else 0


@inner
def _put_words(op, p, other, side, column, width, n, rows, places, data):
    """Write a side's column of ``width`` bytes a value."""
    if side == p:
        copy_rows(data, mem.at_i64(op.in_values)[column], width, width, rows, n)
        return
    ring = ring_at(other.rings, column)
    if ring.stride == 0:
        links = mem.at_i32(other.rows)
        copy_keys(data, ring.values, width, links, 2 * (FIRST_AXIS + other.n_axes), places, n)
    elif ring.stride < 0:
        copy_doubles(data, ring.values, -ring.stride >> 3, places, n)
    else:
        copy_rows(data, ring.values, width, ring.stride, places, n)


@inner
def begin_block(n_fields, size):
    """Allocate a batch whose values take ``size`` bytes, with three pointers per column, and set its count.

    Return the addresses of the block (0: no memory), the children, their structs, the pointers and the values.
    """
    head = (8 + 8 * n_fields + (mem.ARROW_ARRAY + 24) * n_fields + 63) & ~63
    block = mem.malloc(head + 72 + size)
    if block == 0:
        return block, block, block, block, block
    mem.save(block, 1 + n_fields)
    base = (block + 8 + 63) & ~63
    mem.save(base, 0)  # the validity of the rows themselves
    children = base + 8
    structs = children + 8 * n_fields
    return block, children, structs, structs + mem.ARROW_ARRAY * n_fields, base + head


@inner
def build_block(op, p, other, which, n, rows, places):
    """Build an output batch of n rows at ``op.out_struct``.

    ``which`` is 0 for pairs, 1 for left rows alone, 2 for right rows alone. The probe side p has its ``rows`` :
    int64[n] in the batch, the other side its ``places`` : int64[n] in the store. The block's first word counts batch
    and columns.

    Return ``OUTPUT``; ``FULL`` if there is no memory; ``ROOM`` if a column's text exceeds what its offsets can address:
    ``state_at`` then has the column and the bytes.
    """
    n_fields = op.n_fields
    bitmap = (((n + 7) >> 3) + 63) & ~63
    size = np.int64(0)
    for f in range(n_fields):
        field = field_at(op.fields, f)
        size += bitmap
        if field.kind == at.WORDS:
            size += (n * field.width + 63) & ~63
        elif field.kind == at.BITS:
            size += bitmap
        else:
            much = field_bytes(op, p, other, field, _source_of(field, which, p), n, rows, places)
            if much > _MOST_NARROW and field.width == 4:
                mem.save(op.state_at, f)
                mem.save(op.state_at + 8, much)
                return at.ROOM
            size += ((n + 1) * field.width + 63) & ~63
            size += (much + 8 + 63) & ~63
    block, children, structs, pointers, top = begin_block(n_fields, size)
    if block == 0:
        return at.FULL
    for f in range(n_fields):
        field = field_at(op.fields, f)
        width = field.width
        side = _source_of(field, which, p)
        column = field.left if side == 0 else field.right
        data = top + bitmap
        after = data + (bitmap if field.kind == at.BITS else (n * width + 63) & ~63)
        text = data
        if field.kind == at.BYTES:
            text = data + (((n + 1) * width + 63) & ~63)
        nulls = n
        if side < 0:
            blank(top, (n + 7) >> 3)
            blank(data, text - data if field.kind == at.BYTES else after - data)
        else:
            nulls = _put_validity(op, p, other, side, column, n, rows, places, top)
            if field.kind == at.WORDS:
                _put_words(op, p, other, side, column, width, n, rows, places, data)
            elif field.kind == at.BITS:
                put_bools(op, p, other, side, column, n, rows, places, data)
            else:
                put_text(op, p, other, side, column, width, n, rows, places, data, text)
        if field.kind == at.BYTES:
            after = text + ((word_at(data, width, n) + 8 + 63) & ~63)
        mem.save(pointers, top if nulls else 0)
        mem.save(pointers + 8, data)
        mem.save(pointers + 16, text)
        mem.save(children + 8 * f, structs)
        array_struct(structs, n, nulls, 3 if field.kind == at.BYTES else 2, pointers, 0, 0, op.releaser, block)
        structs += mem.ARROW_ARRAY
        pointers += 24
        top = after
    array_struct(op.out_struct, n, 0, 1, children - 8, n_fields, children, op.releaser, block)
    return at.OUTPUT
