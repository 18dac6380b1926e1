"""Read columns of an incoming Arrow batch, and copy values to output batches."""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels import pointers as mem
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.push.index_kernels import KEY

__all__ = [
    "are_told_by_ordinals", "array_struct", "bits_of_double", "copy_all", "copy_doubles", "copy_keys", "copy_rows",
    "double_below", "float_ordinal", "read_double", "read_source",
]  # fmt: skip

_LOW_BITS = 2**63 - 1
_TOP_BIT = -(2**63)


@inner
def float_ordinal(bits):
    # As ``ivjoin.expr.ordinal``: sign and magnitude become one number line, where -0.0 equals 0.0.
    sign = bits >> 63
    ordinal = (bits ^ (sign & _LOW_BITS)) - sign
    if ordinal > at.NAN_ORDINAL - 1 or ordinal < 1 - at.NAN_ORDINAL:
        return at.NAN_ORDINAL
    return ordinal


@inner
def bits_of_double(x, cell):
    mem.at_f64(cell)[0] = x
    return mem.at_i64(cell)[0]


@inner
def are_told_by_ordinals(pointer, n):
    """Return whether the ordinals of n doubles determine their bits: none is -0.0 or a NaN with unusual bits."""
    values = mem.at_i64(pointer)
    odd = False
    for i in range(n):
        bits = values[i]
        odd |= (bits == _TOP_BIT) | ((bits & _LOW_BITS >= at.NAN_ORDINAL) & (bits != at.NAN_BITS))
    return not odd


@inner
def read_source(pointer, code, n, out, cell):
    """Write the ordinals of n values of a column to ``out`` : int64[n]; ``cell`` is the address of a scratch word."""
    if code == at.I32:
        p3 = mem.at_i32(pointer)
        for i in range(n):
            out[i] = p3[i]
    elif code == at.I64:
        p4 = mem.at_i64(pointer)
        for i in range(n):
            out[i] = p4[i]
    elif code == at.F64:
        p10 = mem.at_i64(pointer)
        for i in range(n):
            out[i] = float_ordinal(p10[i])
    elif code == at.F32:
        p9 = mem.at_f32(pointer)
        for i in range(n):
            out[i] = float_ordinal(bits_of_double(float(p9[i]), cell))
    elif code == at.I8:
        p1 = mem.at_i8(pointer)
        for i in range(n):
            out[i] = p1[i]
    elif code == at.I16:
        p2 = mem.at_i16(pointer)
        for i in range(n):
            out[i] = p2[i]
    elif code == at.U8:
        p5 = mem.at_u8(pointer)
        for i in range(n):
            out[i] = p5[i]
    elif code == at.U16:
        p6 = mem.at_u16(pointer)
        for i in range(n):
            out[i] = p6[i]
    elif code == at.U32:
        p7 = mem.at_u32(pointer)
        for i in range(n):
            out[i] = p7[i]
    elif code == at.U64:
        p8 = mem.at_i64(pointer)
        for i in range(n):
            out[i] = p8[i] ^ _TOP_BIT
    else:  # a decimal of at most 18 digits: its low word is its value
        p11 = mem.at_i64(pointer)
        for i in range(n):
            out[i] = p11[2 * i]


@inner
def _double_at(pointer, code, i):
    if code == at.F64:
        return mem.at_f64(pointer)[i]
    if code == at.F32:
        return float(mem.at_f32(pointer)[i])
    if code == at.I32:
        return float(mem.at_i32(pointer)[i])
    return float(mem.at_i64(pointer)[i])


@inner
def read_double(pointer, code, arithmetic, second, second_code, number, n, out, cell):
    """Write the ordinals of n values as doubles, after arithmetic; ``cell`` is the address of two scratch words.

    The second operand is the column at address ``second``, or if that is 0, ``number``, given as bits.
    """
    mem.at_i64(cell)[0] = number
    other = mem.at_f64(cell)[0]
    for i in range(n):
        x = _double_at(pointer, code, i)
        if second != 0:
            other = _double_at(second, second_code, i)
        if arithmetic == at.PLUS:
            x = x + other
        elif arithmetic == at.MINUS:
            x = x - other
        elif arithmetic == at.TIMES:
            x = x * other
        out[i] = float_ordinal(bits_of_double(x, cell + 8))


@inner
def double_below(edge, slack, falling, cell):
    """Return the least (turned) ordinal of a double that is at most ``slack`` (as bits) below the edge; exact.

    The error of a difference of doubles is itself a double (Knuth 2, 4.2.2, theorem B). If the difference was rounded
    down, the next double is the least one. ``falling`` is 1 if ordinals are turned.
    """
    if edge == -_LOW_BITS - 1:
        return edge
    ordinal = edge + falling  # the ordinal of the value, negated if falling: ~v is -v - 1
    mem.at_i64(cell)[0] = ordinal if ordinal >= 0 else (ordinal - 1) ^ _LOW_BITS
    value = mem.at_f64(cell)[0]
    mem.at_i64(cell)[0] = slack
    less = mem.at_f64(cell)[0]
    least = value - less
    back = least - value
    rest = (value - (least - back)) - (less + back)
    found = float_ordinal(bits_of_double(least, cell))
    return found - falling + (1 if rest > 0 else 0)


@inner
def copy_all(target, source, size):
    words = size >> 3
    t8, s8 = mem.at_u64(target), mem.at_u64(source)
    for i in range(words):
        t8[i] = s8[i]
    t1, s1 = mem.at_u8(target), mem.at_u8(source)
    for i in range(8 * words, size):
        t1[i] = s1[i]


@inner
def copy_rows(target, source, width, stride, index, n):
    """Set ``target[i] = source[index[i]]`` for values of ``width`` bytes that lie ``stride`` bytes apart.

    If the two differ, both are word sizes of the machine and the stride is a multiple of 8.
    """
    if width == 8:
        t8, s8 = mem.at_u64(target), mem.at_u64(source)
        if stride == 8:
            for i in range(n):
                t8[i] = s8[index[i]]
        else:
            step = stride >> 3
            for i in range(n):
                t8[i] = s8[step * index[i]]
    elif width == 4:
        t4, s4 = mem.at_u32(target), mem.at_u32(source)
        step = stride >> 2
        for i in range(n):
            t4[i] = s4[step * index[i]]
    elif width == 2:
        t2, s2 = mem.at_u16(target), mem.at_u16(source)
        step = stride >> 1
        for i in range(n):
            t2[i] = s2[step * index[i]]
    elif width == 1:
        t1, s1 = mem.at_u8(target), mem.at_u8(source)
        for i in range(n):
            t1[i] = s1[stride * index[i]]
    elif width & 7 == 0:
        words = width >> 3
        tw, sw = mem.at_u64(target), mem.at_u64(source)
        for i in range(n):
            k = index[i] * words
            for w in range(words):
                tw[i * words + w] = sw[k + w]
    else:
        tb, sb = mem.at_u8(target), mem.at_u8(source)
        for i in range(n):
            k = index[i] * width
            for w in range(width):
                tb[i * width + w] = sb[k + w]


@inner
def copy_doubles(target, source, step, index, n):
    """Set ``target[i]`` to the double with ordinal ``source[index[i]]``; ordinals lie ``step`` words apart."""
    t, s = mem.at_i64(target), mem.at_i64(source)
    for i in range(n):
        ordinal = s[step * index[i]]
        bits = -ordinal ^ _TOP_BIT if ordinal < 0 else ordinal
        t[i] = at.NAN_BITS if ordinal == at.NAN_ORDINAL else bits


@inner
def copy_keys(target, key_of, width, links, link_stride, places, n):
    """Copy the keys of the rows at some places, as values of ``width`` bytes; keys lie four words apart."""
    keys = mem.at_i64(key_of)
    if width == 8:
        t8 = mem.at_i64(target)
        for i in range(n):
            t8[i] = keys[4 * np.int64(links[link_stride * places[i] + KEY])]
    elif width == 4:
        t4 = mem.at_i32(target)
        for i in range(n):
            t4[i] = keys[4 * np.int64(links[link_stride * places[i] + KEY])]
    elif width == 2:
        t2 = mem.at_i16(target)
        for i in range(n):
            t2[i] = keys[4 * np.int64(links[link_stride * places[i] + KEY])]
    else:
        t1 = mem.at_i8(target)
        for i in range(n):
            t1[i] = keys[4 * np.int64(links[link_stride * places[i] + KEY])]


@inner
def array_struct(at_, n, nulls, n_buffers, buffers, n_children, children, releaser, block):
    mem.save(at_ + mem.LENGTH, n)
    mem.save(at_ + mem.NULL_COUNT, nulls)
    mem.save(at_ + mem.OFFSET, 0)
    mem.save(at_ + mem.N_BUFFERS, n_buffers)
    mem.save(at_ + mem.N_CHILDREN, n_children)
    mem.save(at_ + mem.BUFFERS, buffers)
    mem.save(at_ + mem.CHILDREN, children)
    mem.save(at_ + 56, 0)
    mem.save(at_ + mem.RELEASE, releaser)
    mem.save(at_ + mem.PRIVATE, block)
