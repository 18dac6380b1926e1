"""Build output batches of a slice: columns gathered from two batches by places, -1 for no row."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels import pointers as mem
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.output.batch_memory import array_struct, copy_rows
from ivjoin.shj.kernels.output.block_kernels import begin_block, blank, taken_bits
from ivjoin.shj.kernels.records import field_at, operator_at

__all__ = ["PAIRS", "build_rows"]

PAIRS = 2  # of both sides; else the side alone


@inner
def _there(target, index, n):
    """Write a bitmap of the entries that are not -1; return how many are -1."""
    out = mem.at_u8(target)
    none = np.int64(0)
    for k in range(n >> 3):
        word = np.int64(0)
        for b in range(8):
            bit = np.int64(index[8 * k + b] >= 0)
            word |= bit << b
            none += 1 - bit
        out[k] = word
    if n & 7:
        word = np.int64(0)
        for i in range(n & ~7, n):
            bit = np.int64(index[i] >= 0)
            word |= bit << (i & 7)
            none += 1 - bit
        out[n >> 3] = word
    return none


@inner
def _taken(op, column, width, n, index, clean, shared, missing, validity, data):
    """Write the values of a column at some places to ``data``; return the nulls.

    ``state[0]`` gets the address of their bitmap: ``validity``, or ``shared``, which marks the ``missing`` entries.
    ``clean`` is the index without -1.
    """
    state = mem.at_i64(op.state_at)
    state[0] = validity
    if op.n == 0:
        blank(validity, (n + 7) >> 3)
        blank(data, n * width)
        return n
    copy_rows(data, mem.at_i64(op.in_values)[column], width, width, clean, n)
    valid = mem.at_i64(op.in_valid)
    if valid[2 * column]:
        return taken_bits(validity, valid[2 * column], valid[2 * column + 1], index, n)
    state[0] = shared
    return missing


@inner
def _cleaned(index, n, out):
    for i in range(n):
        out[i] = max(index[i], np.int32(0))


@inner
def build_rows(s, which, n, at, to):
    """Build an output batch of n rows at the left operator's ``out_struct``; return False if there is no memory.

    With ``PAIRS``, rows of the probe side at the places ``at`` and of the build side at ``to`` (addresses of int32[n]);
    otherwise rows of side ``which`` alone, at its places ``at``.
    """
    p = s.probe
    first = operator_at(mem.load(s.operators), 0)
    n_fields = s.n_fields
    bitmap = (((n + 7) >> 3) + 63) & ~63
    size = bitmap
    for f in range(n_fields):
        size += ((n * field_at(first.fields, f).width + 63) & ~63) + bitmap
    block, children, structs, pairs, top = begin_block(n_fields, 2, size)
    if block == 0:
        return False
    my_index = mem.at_i32(at)
    # The places without -1, and the bitmap that columns without nulls of their own share.
    their_index = mem.at_i32(to)
    their_clean = to
    theirs = np.int64(0)
    if which == PAIRS:
        theirs = _there(top, their_index, n)
        if theirs:
            their_clean = s.clean
            _cleaned(their_index, n, mem.at_i32(s.clean))
    shared = top
    top += bitmap
    for f in range(n_fields):
        field = field_at(first.fields, f)
        width = field.width
        side = which
        if which == PAIRS:
            side = 0 if field.left >= 0 else 1
            if field.left >= 0 and field.right >= 0 and field.alike:
                side = p
        column = field.left if side == 0 else field.right
        data = top + bitmap
        validity = top
        nulls = np.int64(0)
        if column < 0:
            nulls = n
            blank(top, (n + 7) >> 3)
            blank(data, n * width)
        else:
            op = operator_at(mem.load(s.operators + 8 * side), 0)
            if side == p or which != PAIRS:
                nulls = _taken(op, column, width, n, my_index, my_index, 0, 0, top, data)
            else:
                nulls = _taken(
                    op, column, width, n, their_index, mem.at_i32(their_clean), shared, theirs, top, data
                )
            validity = mem.at_i64(op.state_at)[0]
        mem.save(pairs, validity if nulls else 0)
        mem.save(pairs + 8, data)
        top = data + ((n * width + 63) & ~63)
        mem.save(children + 8 * f, structs)
        array_struct(structs, n, nulls, 2, pairs, 0, 0, first.releaser, block)
        structs += mem.ARROW_ARRAY
        pairs += 16
    array_struct(first.out_struct, n, 0, 1, children - 8, n_fields, children, first.releaser, block)
    return True
