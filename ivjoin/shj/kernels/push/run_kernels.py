"""Merge sorted runs, and probe them."""

from __future__ import annotations

from ivjoin.shj.kernels.compiling import I8, IN1, IN2, IN2_I4, IO1, VOID, compiled, inner
from ivjoin.shj.kernels.pointers import at_i64, at_u8, line_of
from ivjoin.shj.kernels.push import index_kernels as index
from ivjoin.shj.kernels.push.band_kernels import window
from ivjoin.shj.kernels.push.probe_kernels import Terms, others, terms_of, verdict
from ivjoin.shj.kernels.records import operator_at, side_at
from ivjoin.shj.registers import I64_MIN

__all__ = ["merge_runs", "probe_runs", "top_run"]


@inner
def _is_live(rid, lo, turn, cap, links, stride):
    """Return whether a row is live; ``turn`` is the greatest id <= ``lo`` at place 0 of the ring."""
    if rid < lo:
        return False
    pos = rid - turn
    return links[(pos if pos < cap else pos - cap) * stride + index.FLAGS] & index.LIVE != 0


@compiled(I8(IO1, IO1, IO1, I8, I8, I8, IN2_I4, I8, IO1, IO1, IO1))
def merge_runs(keys, values, ids, a, b, c, links, lo, key_buffer, value_buffer, id_buffer):
    """Merge the sorted runs [a, b) and [b, c) in place, without dead rows; return the new end."""
    cap, stride = links.shape
    flat = line_of(links)
    turn = lo - lo % cap
    n = 0
    for i in range(a, b):
        if _is_live(ids[i], lo, turn, cap, flat, stride):
            key_buffer[n] = keys[i]
            value_buffer[n] = values[i]
            id_buffer[n] = ids[i]
            n += 1
    i = 0
    j = b
    out = a
    while i < n or j < c:
        if j < c and not _is_live(ids[j], lo, turn, cap, flat, stride):
            j += 1
            continue
        left = j >= c
        if i < n and not left:
            left = key_buffer[i] < keys[j] or (key_buffer[i] == keys[j] and value_buffer[i] <= values[j])
        if left:
            keys[out] = key_buffer[i]
            values[out] = value_buffer[i]
            ids[out] = id_buffer[i]
            i += 1
        else:
            keys[out] = keys[j]
            values[out] = values[j]
            ids[out] = ids[j]
            j += 1
        out += 1
    return out


@compiled(VOID(IN1, IN1, IO1, I8, I8, IN2, I8, I8))
def top_run(keys, ids, tops, a, b, rows, lo, column):
    """Write the running maximum of ``rows[:, column]`` over each key's rows in the run [a, b), all live."""
    cap = rows.shape[0]
    turn = lo - lo % cap
    top = I64_MIN
    for i in range(a, b):
        pos = ids[i] - turn
        v = rows[pos if pos < cap else pos - cap, column]
        top = v if i == a or keys[i] != keys[i - 1] else max(top, v)
        tops[i] = top


@compiled(I8(I8, I8, IN2, I8, I8, IN1, IN1, IN1, IN1, IN1, I8))
def probe_runs(operator, p, bands, n_first, n_second, run_keys, run_values, run_ids, tops, ends, n_runs):
    """Do as ``probe_rows`` over sorted runs: a binary search in each run, then a visit backwards through the window.

    The batch is on side p; its pairs are written to the operator's record. Its ``state_at`` has the row of the batch,
    the run, and the place in the run to continue with (-1: search for it).

    bands : int64[b, 4], see ``Terms``. The first ``n_first`` are on the axis that sorts the runs. The next ``n_second``
    bound a second axis from below; the visit ends where ``tops``, its running maximum, is lower (an interval tree
    stored as a list).
    run_keys, run_values, run_ids, tops : int64[entries], run r ends before the entry ``ends[r]``; ends : int64[n_runs]
    """
    op = operator_at(operator, 0)
    side = side_at(op.sides, p)
    other = side_at(op.sides, 1 - p)
    x = index.index_of(op, other, 1 - p)
    rows, links, width, stride, cap = x.rows, x.links, x.width, x.stride, x.cap
    terms = line_of(bands)
    second = terms[4 * n_first :]
    whole = terms_of(op, side)
    t = Terms(
        whole.axes, whole.absent, whole.stride, whole.nulls, terms, n_first, bands.shape[0], whole.checks,
        whole.n_checks,
    )
    mode = index.PAIRS if side.decide else side.mode
    key_ids = at_i64(op.key_ids)
    matched = at_u8(op.matched)
    out_probe = at_i64(op.pair_rows)
    out_store = at_i64(op.pair_places)
    room = op.room_pairs
    state = at_i64(op.state_at)
    n = op.n
    lo = other.lo
    turn = lo - lo % cap
    count = 0
    i = state[0]
    r = state[1]
    at = state[2]
    while i < n:
        key_id = key_ids[i]
        low, high = window(t.axes, t.stride, terms, n_first, i)
        least, most = window(t.axes, t.stride, second, n_second, i)
        if key_id < 0 or low > high or least > most:
            i += 1
            r = 0
            at = -1
            continue
        done = False
        while r < n_runs and not done:
            start = ends[r - 1] if r > 0 else 0
            if at < 0:
                at = start
                top = ends[r]
                while at < top:
                    mid = (at + top) >> 1
                    if run_keys[mid] < key_id or (run_keys[mid] == key_id and run_values[mid] <= high):
                        at = mid + 1
                    else:
                        top = mid
                at -= 1
            while at >= start and run_keys[at] == key_id and run_values[at] >= low:
                if n_second > 0 and tops[at] < least:
                    break
                rid = run_ids[at]
                ok = _is_live(rid, lo, turn, cap, links, stride)
                pos = rid - turn if rid - turn < cap else rid - turn - cap
                flags = pos * stride + index.FLAGS
                if ok and n_first < t.n_bands:
                    ok = others(t, i, rows, pos * width)
                if ok and mode & index.FIRST_STORE and links[flags] & index.MATCHED:
                    ok = False
                found = i
                if ok and t.n_checks > 0:
                    missing = links[flags] >> index.FIRST_ABSENCE
                    end = verdict(t, i, rows, pos * width + index.FIRST_AXIS, 1, missing)
                    ok = end != index.FALSE
                    found = ~i if end == index.ASK else i
                if ok:
                    if mode & index.PAIRS:
                        if count == room:
                            state[0] = i
                            state[1] = r
                            state[2] = at
                            return count
                        out_probe[count] = found
                        out_store[count] = pos
                        count += 1
                    if mode & index.MARK_STORE:
                        links[flags] |= index.MATCHED
                    if mode & index.MARK_PROBE:
                        matched[i] = 1
                    if mode & index.FIRST_PROBE:
                        done = True
                        break
                at -= 1
            r += 1
            at = -1
        i += 1
        r = 0
        at = -1
    state[0] = n
    state[1] = 0
    state[2] = -1
    return count
