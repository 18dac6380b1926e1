"""Join a slice, two whole batches, in one call: read, group, probe, emit.

Like ``push_batch``, it reads batches and returns statuses (``registers``). The index step is in ``slice_kernels``.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import I8, compiled, inner
from ivjoin.shj.kernels.keys.packed_key_kernels import most_bytes
from ivjoin.shj.kernels.pointers import LENGTH, RELEASE, at_i32, at_i64, at_u8, load, release
from ivjoin.shj.kernels.push.intake_kernels import read_columns
from ivjoin.shj.kernels.push.order_kernels import check_orders, set_marks
from ivjoin.shj.kernels.push.probe_kernels import terms_of
from ivjoin.shj.kernels.records import operator_at, side_at, slice_at, source_at
from ivjoin.shj.kernels.slices import place_kernels as by_place
from ivjoin.shj.kernels.slices import slice_kernels as steps
from ivjoin.shj.kernels.slices.slice_blocks import PAIRS, build_rows
from ivjoin.shj.kernels.slices.slice_keys import group
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["join_slice"]


@inner
def _take_in(op, side):
    """Read a batch; return False if the whole condition must decide for one of its rows."""
    n = load(op.in_struct + LENGTH)
    read_columns(op, side, n)
    if op.prepared == 0:
        op.masked = 0
    op.prepared = 0
    op.n_late = 0
    op.n = n
    op.full_predicate = 0
    check_orders(op, side, n)
    set_marks(op, side, side, n)
    if side.n_pieces:
        op.key_bytes = most_bytes(op, side, n)
    usable = at_u8(op.usable)
    if op.masked:
        marks = at_u8(op.marks)
        for i in range(n):
            usable[i] = (marks[i] & at.USABLE) != 0
    matched = at_u8(op.matched)
    for i in range(n):
        matched[i] = 0
    return op.full_predicate == 0


@inner
def _axis(op, side, a):
    """Return the course of an axis's values along the batch."""
    values = at_i64(op.values + 8 * a * op.room_rows)
    if source_at(side.sources, a).has_absent:
        by_place.fill(values, at_u8(op.absent + a * op.room_rows), op.n)
    return by_place.course(values, op.n)


@inner
def _turn(op, a, out):
    by_place.turned(at_i64(op.values + 8 * a * op.room_rows), op.n, at_i64(out))


@inner
def _narrowed(s, n, m, begins, ends):
    """Intersect the ranges so far with the ranges of one more term."""
    first = at_i32(s.first)
    last = at_i32(s.last)
    lo = at_i32(s.spare)
    if begins:
        for i in range(n):
            first[i] = max(first[i], lo[i])
    if ends:
        for i in range(n):
            last[i] = min(last[i], lo[i])


@inner
def _find_windows(s, mine, my_side, theirs, their_side):
    """Find the range of places that each probe row can match, by all terms whose build values rise or fall."""
    n = mine.n
    m = theirs.n
    first = at_i32(s.first)
    last = at_i32(s.last)
    for i in range(n):
        first[i] = 0
        last[i] = m
    bands = at_i64(my_side.bands)
    used = at_i64(s.used)
    rest = np.int64(0)
    begun = np.int64(0)
    for b in range(my_side.n_bands):
        theirs_at = bands[4 * b + 1]
        mine_at = bands[4 * b]
        course = _axis(theirs, their_side, theirs_at)
        low = bands[4 * b + 2]
        high = bands[4 * b + 3]
        if high == I64_MIN and course == by_place.FALLS:
            course = 0  # which cannot be turned
        used[b] = course
        if course == 0:
            rest += 1
            continue
        mine_goes = _axis(mine, my_side, mine_at)
        probes = mine.values + 8 * mine_at * mine.room_rows
        values = theirs.values + 8 * theirs_at * theirs.room_rows
        opens = low == I64_MIN
        stays = high == I64_MAX
        if course == by_place.FALLS:
            # ~x of what falls rises, and ~(p + low) is ~p - low.
            _turn(mine, mine_at, s.turned)
            _turn(theirs, theirs_at, s.turned + 8 * s.turned_by)
            probes = s.turned
            values = s.turned + 8 * s.turned_by
            swap = -high if not stays else I64_MIN
            high = -low if not opens else I64_MAX
            low = swap
            swapped = opens
            opens = stays
            stays = swapped
        rises = np.int64(mine_goes == course)
        if not opens:
            by_place.places(
                at_i64(values), m, at_i64(probes), n, rises, low, 0, at_i32(s.spare) if begun else first
            )
            if begun:
                _narrowed(s, n, m, 1, 0)
        if not stays:
            by_place.places(at_i64(values), m, at_i64(probes), n, rises, high, 1, at_i32(s.spare) if begun else last)
            if begun:
                _narrowed(s, n, m, 0, 1)
        begun = np.int64(1)
    if mine.masked or s.keyed:
        usable = at_u8(mine.usable)
        ids = at_i32(s.probe_ids)
        for i in range(n):
            good = mine.masked == 0 or usable[i] != 0
            if s.keyed:
                good &= ids[i] >= 0
            last[i] = last[i] if good else np.int32(0)
    falls = False
    for i in range(1, n):
        falls |= first[i] < first[i - 1]
    s.rises = np.int64(not falls)
    s.exact = np.int64(rest == 0 and my_side.n_checks == 0 and my_side.decide == 0)


@inner
def _end_of_segment(s, n):
    return s.probe_from if s.segment == 0 else s.probe_to if s.segment == 1 else n


@inner
def _find_pairs(s, mine, my_side, theirs, their_side):
    """Find pairs until their scratch is full; return False if no probe row is left."""
    state = at_i64(s.state)
    while state[0] >= _end_of_segment(s, mine.n):
        if s.segment == 2:
            return False
        s.segment += 1
    end = _end_of_segment(s, mine.n)
    keep = s.exact != 0 and my_side.keeps != 0 and s.segment == 1
    out_probe = at_i32(s.out_probe)
    out_build = at_i32(s.out_build)
    if s.keyed:
        count = steps.meet(
            at_i32(s.probe_ids), at_i32(s.first), at_i32(s.last), end, s.rises, at_i32(s.ends), at_i32(s.rows), keep,
            state, out_probe, out_build, s.room,
        )
    else:
        count = steps.meet_all(at_i32(s.first), at_i32(s.last), end, keep, state, out_probe, out_build, s.room)
    s.asked = 0
    if s.exact == 0:
        packed = steps.passing(
            terms_of(mine, my_side), terms_of(theirs, their_side), at_i64(s.used), count, out_probe, out_build
        )
        count = packed & 0xFFFFFFFF
        s.asked = packed >> 32
        if my_side.decide and my_side.n_checks == 0:
            s.asked = count
    s.n_pairs = count
    s.cursor = -1
    return True


@inner
def _settle_pairs(s, mine, my_side, theirs, their_side):
    """Mark and list the pairs at hand as the join type requires."""
    n = s.n_pairs
    s.cursor = 0
    s.total = 0
    s.which = PAIRS
    s.listed = 0
    if their_side.keeps:
        steps.mark(at_u8(theirs.matched), at_i32(s.out_build), n)
    if my_side.single:
        matched = at_u8(mine.matched)
        steps.mark(matched, at_i32(s.out_probe), n)
        state = at_i64(s.state)
        if state[0] < mine.n and matched[state[0]]:  # one match is enough
            state[0] += 1
            state[1] = -1
        return
    if s.segment != 1:
        return
    s.total = n
    if my_side.keeps and s.exact == 0:
        state = at_i64(s.state)
        s.listed = 1
        s.total = steps.with_alone(
            state, state[0], at_i32(s.out_probe), at_i32(s.out_build), n, at_i32(s.at), at_i32(s.to)
        )


@inner
def _list_rows(s, which, op, begin, end, value):
    """List the rows of one side that are emitted alone: their flag has a given value."""
    matched = at_u8(op.matched)
    out = at_i32(s.at)
    count = np.int64(0)
    for i in range(begin, end):
        out[count] = i
        count += np.int64(matched[i] == value)
    s.total = count
    s.cursor = 0
    s.listed = 1
    s.which = which


@inner
def _emit(s, first):
    if first.blocks == 0:
        return at.GATHER | at.MORE
    n = min(s.total - s.cursor, s.block_rows)
    one = s.at if s.listed else s.out_probe
    other = s.to if s.listed else s.out_build
    made = build_rows(s, s.which, n, one + 4 * s.cursor, other + 4 * s.cursor)
    if not made:
        return at.FULL
    s.cursor += n
    return at.OUTPUT | at.MORE


@inner
def _begin(s, mine, my_side, theirs, their_side):
    """Find windows and groups; where one match decides a row and no check is left, find the rows that have one."""
    group(s, mine, my_side, theirs, their_side)
    _find_windows(s, mine, my_side, theirs, their_side)
    state = at_i64(s.state)
    state[0] = 0
    state[1] = -1
    state[2] = 0
    state[3] = s.probe_from
    s.segment = 0
    if my_side.single and s.exact:
        steps.meets_any(
            at_i32(s.probe_ids), at_i32(s.first), at_i32(s.last), mine.n, s.rises, at_i32(s.ends), at_i32(s.rows),
            s.keyed, at_u8(mine.matched),
        )
        state[0] = mine.n


@inner
def _join(s, mine, theirs):
    p = s.probe
    my_side = side_at(mine.sides, p)
    their_side = side_at(theirs.sides, 1 - p)
    first = operator_at(load(s.operators), 0)
    if s.phase == at.BEGIN:
        good = _take_in(mine, my_side)
        good &= _take_in(theirs, their_side)
        if not good:
            return at.BEYOND | at.MORE
        s.phase = at.GROUPING
        if s.key_kind != at.NO_KEY and s.key_kind != at.INT:
            return at.KEYS | at.MORE
    if s.phase == at.GROUPING:
        _begin(s, mine, my_side, theirs, their_side)
        s.phase = at.PROBING
    while s.phase == at.PROBING or s.phase == at.EMITTING:
        if s.phase == at.PROBING:
            if not _find_pairs(s, mine, my_side, theirs, their_side):
                s.phase = at.ALONE
                s.total = 0
                s.cursor = 0
                if my_side.single:
                    _list_rows(s, p, mine, s.probe_from, s.probe_to, my_side.semi)
                break
            s.phase = at.EMITTING
            if s.asked:
                return at.DECIDE | at.MORE
        if s.cursor < 0:
            _settle_pairs(s, mine, my_side, theirs, their_side)
        if s.cursor < s.total:
            return _emit(s, first)
        s.phase = at.PROBING
    if s.phase == at.ALONE:
        if s.cursor < s.total:
            return _emit(s, first)
        s.phase = at.EVICTED
        if their_side.keeps:
            _list_rows(s, 1 - p, theirs, s.build_from, s.build_to, 0)
    if s.phase == at.EVICTED and s.cursor < s.total:
        return _emit(s, first)
    s.phase = at.BEGIN
    return 0


@compiled(I8(I8))
def join_slice(record):
    """Join the batches in the input structs, or continue; return a status. The last call releases the batches."""
    s = slice_at(record, 0)
    mine = operator_at(load(s.operators + 8 * s.probe), 0)
    theirs = operator_at(load(s.operators + 8 * (1 - s.probe)), 0)
    status = _join(s, mine, theirs)
    if not status & at.MORE:
        if load(mine.in_struct + RELEASE):
            release(mine.in_struct)
        if load(theirs.in_struct + RELEASE):
            release(theirs.in_struct)
    return status
