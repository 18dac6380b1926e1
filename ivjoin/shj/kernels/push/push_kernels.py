"""Run a push: read, probe, emit, store, prune, emit.

One function serves every plan. Some steps need Python: a condition evaluated per pair, values of variable size, bounds
by propagation. The function then returns with a request and continues from there at the next call; see ``registers``.
It uses bare pointers, because numba compiles them in half the time.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj import registers as at
from ivjoin.shj.kernels.compiling import I8, compiled, inner
from ivjoin.shj.kernels.output.output_kernels import build_block
from ivjoin.shj.kernels.output.text_store_kernels import store_text
from ivjoin.shj.kernels.pointers import RELEASE, at_i32, at_i64, at_u8, load, release
from ivjoin.shj.kernels.push import index_kernels as index
from ivjoin.shj.kernels.push.expiry_kernels import bounds_of, prune, scan, take_out
from ivjoin.shj.kernels.push.intake_kernels import arrive
from ivjoin.shj.kernels.push.probe_kernels import candidates, probe_rows, terms_of
from ivjoin.shj.kernels.push.store_kernels import keep, may_loosen
from ivjoin.shj.kernels.push.sweep_kernels import link_loose, may_sweep, sweep
from ivjoin.shj.kernels.push.upkeep_kernels import finish
from ivjoin.shj.kernels.records import operator_at, side_at

__all__ = ["push_batch"]

PAIRS, LEFT_ROWS, RIGHT_ROWS = 0, 1, 2
# A useful call of Python evicts _FEW * `look_least` rows; limits of useless calls, and of rows between two calls.
_FEW, _MOST_PATIENCE, _LOOK_AFTER = 2, 16, 1 << 16


@inner
def _emit(op, p, other, which, n, rows, places):
    made = build_block(op, p, other, which, n, rows, places)
    op.cursor += made
    return at.OUTPUT if made else at.FULL


@inner
def _choose(op, p, side, other):
    """Choose the rows to probe: all, or if keys are many, those that may have a match."""
    swept = may_sweep(op, side, other, may_loosen(op, side, other))
    op.by_ring = 0
    other.sweeps = 0
    if not swept and other.loose:
        link_loose(op, other, 1 - p)
    if not swept and op.masked == 0 and other.live > 8 * op.live_keys:
        op.chosen_at = op.every
        op.n_chosen = op.n
    else:
        op.chosen_at = op.chosen
        count = np.int64(0)
        done = np.int64(0)
        if swept:
            count, done = sweep(op, side, other)
            if done < op.n:
                link_loose(op, other, 1 - p)
            else:
                other.sweeps = 1
                op.by_ring = not (side.single or other.single)
        op.n_chosen = candidates(
            terms_of(op, side), index.index_of(op, other, 1 - p), at_i64(op.key_ids), done, op.n, other.least,
            other.most, count, at_i64(op.chosen),
        )
    if op.probe_end == 0:
        op.probe_end = op.n_chosen


@inner
def _probe_on(op, p, side, other):
    """Probe until the scratch arrays of pairs are full or all rows are done."""
    state = at_i64(op.state_at)
    state[0] = op.row
    state[1] = op.node
    state[2] = 0
    state[3] = 0
    decided = op.full_predicate or side.decide
    mode = index.PAIRS if decided else side.mode
    op.n_pairs = probe_rows(
        terms_of(op, side), index.index_of(op, other, 1 - p), at_i64(op.key_ids), at_i64(op.chosen_at),
        min(op.probe_end, op.n_chosen), at_u8(op.matched), mode, state, at_i64(op.pair_rows), at_i64(op.pair_places),
        op.room_pairs, other.hi % other.cap if op.by_ring else -1,
    )
    op.row = state[0]
    op.node = state[1]
    other.steps += state[2]
    other.refused += state[3]


@inner
def _emit_pairs(op, p, side, other, status):
    """Emit the pairs as the join type requires, one output batch per call."""
    single = side.single or other.single
    places = at_i64(op.pair_places)
    if other.single and op.cursor == 0:
        take_out(op, other, 1 - p, places, op.n_pairs)
        # The probe continues at its node or after it: the links of evicted rows still lead to the next ones.
        links = at_i32(other.rows)
        stride = 2 * (index.FIRST_AXIS + other.n_axes)
        while op.node >= 0 and not links[stride * op.node + index.FLAGS] & index.LIVE:
            op.node = np.int64(links[stride * op.node])
    if single and not (other.single and other.semi):
        op.cursor = op.n_pairs
        return status
    n = min(op.n_pairs - op.cursor, op.batch_size)
    if n <= 0:
        return status
    which = PAIRS
    if single:
        which = RIGHT_ROWS - p
    if op.blocks == 0:
        op.out_which = which
        return status | at.GATHER | at.MORE
    if status & at.OUTPUT:
        return status | at.MORE
    status |= _emit(
        op, p, other, which, n, at_i64(op.pair_rows + 8 * op.cursor), at_i64(op.pair_places + 8 * op.cursor)
    )
    return status | at.MORE if op.cursor < op.n_pairs else status


@inner
def _choose_rows(op, side):
    """After the probe, choose the rows to store, and those to emit alone: the matched ones in a semi join."""
    side.retired += op.n_alone
    matched = at_u8(op.matched)
    alone = at_i64(op.alone)
    if side.single:
        kept = at_i64(op.kept)
        source = at_i64(op.kept_at)
        count = 0
        n_alone = 0
        for k in range(op.n_kept):
            i = source[k]
            if matched[i] == 0:
                kept[count] = i
                count += 1
        side.retired += op.n_kept - count
        if side.semi:
            for i in range(op.n):
                if matched[i]:
                    alone[n_alone] = i
                    n_alone += 1
        else:
            n_alone = _without_matched(alone, op.n_alone, matched)
        op.n_kept = count
        op.kept_at = op.kept
        op.n_alone = n_alone
    elif side.owes == 0:
        op.n_alone = 0
    elif side.keeps:
        op.n_alone = _without_matched(alone, op.n_alone, matched)
    op.cursor = 0


@inner
def _without_matched(rows, n, matched):
    """Drop the matched rows from a list; return how many remain."""
    count = 0
    for k in range(n):
        if matched[rows[k]] == 0:
            rows[count] = rows[k]
            count += 1
    return count


@inner
def _bound(side, other):
    """Move the other side's bounds to what this side's orders imply; return False if Python must compute them."""
    if other.nothing:
        return True
    for a in range(other.n_axes + other.n_sums):  # noqa: SIM110 (numba has no all())
        if not bounds_of(side, other, a):
            return False
    return True


@inner
def _is_due(op, other):
    """Count the rows of the batch; return whether to ask Python for better bounds."""
    other.unlooked += op.n
    if other.look_every == 0 or other.unlooked < other.look_every:
        return False
    other.unlooked = 0
    return True


@inner
def _put_off(other, gain, live):
    """Adapt the number of rows between two calls of Python to how many rows the last call evicted.

    A call costs as much as joining several thousand rows. One that evicted many rows halves the interval. Useless calls
    double it, after ``looks_left`` of them.
    """
    if gain >= max(_FEW * other.look_least, live >> 3):
        other.looks_next = min(2 * other.looks_next + 1, _MOST_PATIENCE)
        other.looks_left = other.looks_next
        other.look_every = max(other.look_least, other.look_every >> 1)
    elif other.looks_left > 0:
        other.looks_left -= 1
    else:
        other.look_every = min(2 * other.look_every, _LOOK_AFTER)


@inner
def _emit_alone(op, p, other, which, total, listed, status):
    """Emit rows of one side alone from the cursor on, one batch per call; MORE means that rows are left."""
    n = min(total - op.cursor, op.batch_size)
    if n <= 0:
        return status
    if op.blocks == 0:
        op.out_which = which
        return status | at.GATHER | at.MORE
    if status & at.OUTPUT:
        return status | at.MORE
    rows = at_i64(listed + 8 * op.cursor)
    status |= _emit(op, p, other, which, n, rows, rows)
    return status if op.cursor == total else status | at.MORE


@inner
def _push(op, p):
    side = side_at(op.sides, p)
    other = side_at(op.sides, 1 - p)
    status = 0
    if op.phase == at.BEGIN or (op.phase == at.NAMING and op.n_named < op.n):
        status = arrive(op, p, side, other)
        if status != 0:
            return status
    if op.phase == at.NAMING:
        op.phase = at.PROBING if other.live else at.KEEPING
        if op.phase == at.PROBING:
            other.probed += op.n + index.PUSH
            _choose(op, p, side, other)
            if side.beyond and not op.full_predicate:
                return at.BEYOND | at.MORE
    while op.phase == at.PROBING or op.phase == at.EMITTING:
        if op.phase == at.PROBING:
            op.cursor = 0
            op.phase = at.EMITTING
            if other.sorted and not op.full_predicate:
                return status | at.RUNS | at.MORE
            _probe_on(op, p, side, other)
            if op.n_pairs and (op.full_predicate or side.decide):
                return status | at.DECIDE | at.MORE
        status = _emit_pairs(op, p, side, other, status)
        if status & (at.MORE | at.FULL):
            return status
        if op.row < min(op.probe_end, op.n_chosen):
            op.phase = at.PROBING
            if status & at.OUTPUT:
                return status | at.MORE
        elif op.probe_end < op.n_chosen:
            op.phase = at.PROBING
            return status | at.PIECE | at.MORE
        else:
            op.phase = at.KEEPING
    if op.phase == at.KEEPING:
        _choose_rows(op, side)
        op.phase = at.STORING
        if op.n_kept and side.by_python == at.ARRAYS:
            return status | at.STORE | at.MORE
    if op.phase == at.STORING:
        if op.n_kept:
            if side.by_python == at.TEXT_ALONE and store_text(op, side) != 0:
                return status | at.STORE | at.MORE
            keep(op, p, side, other)
        op.phase = at.ALONE
        if op.n_kept and side.sorted:
            return status | at.INDEX | at.MORE
    if op.phase == at.ALONE:
        status = _emit_alone(op, p, other, LEFT_ROWS + p, op.n_alone, op.alone, status)
        if status & (at.MORE | at.FULL):
            return status
        op.phase = at.BOUNDING
    if op.phase == at.BOUNDING:
        op.phase = at.PRUNING
        if op.moved:
            look = _is_due(op, other)
            if not (other.in_kernel and _bound(side, other)):
                return status | at.BOUNDS | at.MORE
            if look:
                prune(op, other, 1 - p)
                return status | at.BOUNDS | at.MORE
    if op.phase == at.PRUNING:
        live = other.live
        prune(op, other, 1 - p)
        if other.look_every and other.unlooked == 0:
            scan(op, other, 1 - p)
            _put_off(other, live - other.live, live)
        op.cursor = 0
        op.phase = at.EVICTED
    status = _emit_alone(op, p, other, RIGHT_ROWS - p, op.n_dead, op.dead, status)
    if status & (at.MORE | at.FULL):
        return status
    return status | finish(op, p, side, other)


@compiled(I8(I8, I8))
def push_batch(operator, p):
    """Process the batch in the input struct on side p, or continue with it; return the status, see ``registers``.

    The last call releases the batch. All rows are in lists when it returns, unless the status is output, the end of the
    push, or a request for keys. Side ``LINK`` has no batch: the call only puts all rows into lists.
    """
    op = operator_at(operator, 0)
    status = at.TIDY if p == at.LINK else _push(op, p)
    if status & ~(at.OUTPUT | at.MORE | at.KEYS):
        link_loose(op, side_at(op.sides, 0), 0)
        link_loose(op, side_at(op.sides, 1), 1)
        if p == at.LINK:
            return 0
    if not status & at.MORE and load(op.in_struct + RELEASE):
        release(op.in_struct)
    return status
