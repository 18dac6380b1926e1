"""Number the keys of two batches, and group the build rows by key."""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import inner
from ivjoin.shj.kernels.pointers import at_i32, at_i64, at_u8
from ivjoin.shj.kernels.slices import slice_kernels as steps
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["group", "most_ids"]

_NARROW = 4  # times as many ids as build rows are worth less than naming keys by a table
_SOME = 1024  # ids that are worth so in any case


@inner
def _given_ids(op, ids):
    given = at_i64(op.key_ids)
    usable = at_u8(op.usable)
    for i in range(op.n):
        ids[i] = given[i] if op.masked == 0 or usable[i] else -1


@inner
def _one_id(op, ids):
    usable = at_u8(op.usable)
    for i in range(op.n):
        ids[i] = np.int64(usable[i] != 0) - 1


@inner
def _int_ids(s, mine, my_side, theirs, their_side):
    """Find the ids of keys that are one ordinal: the distance from the least build key, or by a table."""
    build_keys = at_i64(theirs.values + 8 * at_i64(their_side.key_words)[0] * theirs.room_rows)
    probe_keys = at_i64(mine.values + 8 * at_i64(my_side.key_words)[0] * mine.room_rows)
    usable = at_u8(theirs.usable)
    least = np.int64(I64_MAX)
    most = np.int64(I64_MIN)
    if theirs.masked:
        for j in range(theirs.n):
            if usable[j]:
                least = min(least, build_keys[j])
                most = max(most, build_keys[j])
    else:
        for j in range(theirs.n):
            least = min(least, build_keys[j])
            most = max(most, build_keys[j])
    span = _NARROW * theirs.n + _SOME
    if least <= most and (least > I64_MAX - span or most < least + span):
        s.n_ids = most - least + 1
        steps.narrow(build_keys, usable, theirs.masked, theirs.n, least, s.n_ids, at_i32(s.build_ids))
        steps.narrow(probe_keys, at_u8(mine.usable), mine.masked, mine.n, least, s.n_ids, at_i32(s.probe_ids))
        return
    size = np.int64(64)
    while size < 2 * theirs.n:
        size += size
    table = at_i32(s.table)
    for k in range(size):
        table[k] = 0
    words = at_i64(s.words)
    n_ids = steps.named(
        build_keys, usable, theirs.masked, theirs.n, table, size - 1, words, np.int64(0), 1, at_i32(s.build_ids)
    )
    s.n_ids = max(n_ids, np.int64(1))
    steps.named(
        probe_keys, at_u8(mine.usable), mine.masked, mine.n, table, size - 1, words, n_ids, 0, at_i32(s.probe_ids)
    )


@inner
def group(s, mine, my_side, theirs, their_side):
    """Find the ids of both sides, and group the places of the build side by key, unless all rows have one key."""
    s.keyed = 1
    if s.key_kind == at.INT:
        _int_ids(s, mine, my_side, theirs, their_side)
    elif s.key_kind == at.NO_KEY:
        s.keyed = np.int64(theirs.masked != 0)
        s.n_ids = 1
        ids = at_i32(s.build_ids)
        if s.keyed:
            _one_id(theirs, ids)
            ids = at_i32(s.probe_ids)
            if mine.masked:
                _one_id(mine, ids)
            else:
                for i in range(mine.n):
                    ids[i] = 0
    else:
        _given_ids(theirs, at_i32(s.build_ids))
        _given_ids(mine, at_i32(s.probe_ids))
    if s.keyed:
        steps.group_places(at_i32(s.build_ids), theirs.n, s.n_ids, at_i32(s.ends), at_i32(s.rows))


def most_ids(m: int) -> int:
    """Return how many ids keys of m build rows may get that are one ordinal."""
    return max(_NARROW * m + _SOME, m) + 1
