"""Look up the ids of keys that are several words: ordinals, and validity words if null is a value like any other.

A hash of all words takes the place of a one-word key. For fixed other words it is a bijection of the last word, so
only the other words are stored and compared. These kernels are compiled for plans with such keys alone.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import I8, IN1, IN2, IN_U8, IO1, VOID, compiled, inner
from ivjoin.shj.kernels.keys.key_kernels import intern_rows, name_rows
from ivjoin.shj.kernels.pointers import at_i64, at_u8, line_of
from ivjoin.shj.kernels.records import key_word_at, operator_at, side_at, source_at

__all__ = ["intern_words", "name_words"]


@inner
def _make_words(op, side, n):
    """Compute the words of keys in which null is a value like any other."""
    for k in range(side.n_key_words):
        word = key_word_at(side.key_words, k)
        if word.kind == at.AS_READ:
            continue
        nulls = source_at(side.sources, word.source).has_absent
        absent = at_u8(op.absent + word.source * op.room_rows)
        values = at_i64(op.values + 8 * word.source * op.room_rows)
        out = at_i64(op.values + 8 * word.row * op.room_rows)
        for i in range(n):
            null = nulls != 0 and absent[i] != 0
            value = values[i] if word.kind == at.VALUE_WORD else np.int64(1)
            out[i] = np.int64(0) if null else value


@inner
def _sum_words(values, stride, words, count, begin, n, out):
    """Hash each row's words to one word, from row ``begin`` on."""
    for i in range(begin, n):
        out[i] = values[words[0] * stride + i]
    for k in range(1, count):
        first = words[3 * k] * stride
        for i in range(begin, n):
            out[i] = np.int64(np.uint64(out[i]) * np.uint64(0x9E3779B97F4A7C15)) ^ values[first + i]


@compiled(I8(I8, I8))
def name_words(operator, p):
    """Look up the ids of the batch's keys, -1 for rows that match nothing; count the rows left without capacity."""
    op = operator_at(operator, 0)
    side = side_at(op.sides, p)
    n = op.n
    if op.n_named == 0:
        _make_words(op, side, n)
    words = at_i64(side.key_words)
    _sum_words(at_i64(op.values), op.room_rows, words, side.n_key_words, op.n_named, n, at_i64(op.key_ids))
    name_rows(op, side, side_at(op.sides, 1 - p), op.key_ids)
    return n - op.n_named


@compiled(VOID(I8, IN2, IN1, IN_U8, IO1, IO1))
def intern_words(operator, keys, rows, usable, out, places):
    """Do as ``intern_ints`` for keys of several words : int64[words, n]; ``rows[3 * k]`` is k."""
    count, n = keys.shape
    values = line_of(keys)
    _sum_words(values, n, rows, count, 0, n, out)
    op = operator_at(operator, 0)
    intern_rows(op, out, 0, n, usable, usable.shape[0] > 0, out, places, values, n, rows, count - 1)
