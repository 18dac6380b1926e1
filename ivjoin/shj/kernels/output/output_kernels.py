"""Build output batches: one block of memory each, exported through Arrow's C data interface."""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels import pointers as mem
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.output.batch_memory import array_struct
from ivjoin.shj.kernels.output.block_kernels import begin_block, blank, put_words, source_of
from ivjoin.shj.kernels.output.text_kernels import field_bytes, put_bools, put_text
from ivjoin.shj.kernels.output.text_store_kernels import word_at
from ivjoin.shj.kernels.records import field_at

__all__ = ["build_block"]

_MOST_NARROW = 2**31 - 1  # bytes of a column whose offsets are int32


@inner
def _size(op, p, other, which, n, rows, places):
    """Return the bytes of the columns of an output batch; -1 if its text exceeds what offsets can address."""
    bitmap = (((n + 7) >> 3) + 63) & ~63
    size = np.int64(0)
    for f in range(op.n_fields):
        field = field_at(op.fields, f)
        size += bitmap
        if field.kind == at.WORDS:
            size += (n * field.width + 63) & ~63
        elif field.kind == at.BITS:
            size += bitmap
        else:
            much = field_bytes(op, p, other, field, source_of(field, which, p), n, rows, places)
            if much > _MOST_NARROW and field.width == 4:
                return np.int64(-1)
            size += ((n + 1) * field.width + 63) & ~63
            size += (much + 8 + 63) & ~63
    return size


@inner
def build_block(op, p, other, which, most, rows, places):
    """Build an output batch of up to ``most`` rows at ``op.out_struct``; return how many, 0 if there is no memory.

    ``which`` is 0 for pairs, 1 for left rows alone, 2 for right rows alone. The probe side p has its ``rows`` :
    int64[most] in the batch, the other side its ``places`` : int64[most] in the store. If the text exceeds what its
    offsets can address, the batch has half of the rows. The text of one row cannot exceed it.
    """
    n = most
    size = _size(op, p, other, which, n, rows, places)
    while size < 0:
        n >>= 1
        size = _size(op, p, other, which, n, rows, places)
    n_fields = op.n_fields
    bitmap = (((n + 7) >> 3) + 63) & ~63
    block, children, structs, pointers, top = begin_block(n_fields, 3, size)
    if block == 0:
        return np.int64(0)
    for f in range(n_fields):
        field = field_at(op.fields, f)
        width = field.width
        side = source_of(field, which, p)
        column = field.left if side == 0 else field.right
        data = top + bitmap
        text = data
        after = data + ((n * width + 63) & ~63)
        if field.kind == at.BITS:
            after = data + bitmap
        elif field.kind == at.BYTES:
            text = data + (((n + 1) * width + 63) & ~63)
            after = text
        nulls = n
        if side < 0:
            blank(top, (n + 7) >> 3)
            blank(data, after - data)
        elif field.kind == at.WORDS:
            nulls = put_words(op, p, other, side, column, width, n, rows, places, top, data)
        elif field.kind == at.BITS:
            nulls = put_bools(op, p, other, side, column, n, rows, places, top, data)
        else:
            nulls = put_text(op, p, other, side, column, field, n, rows, places, top, data, text)
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
    return n
