"""Merge sorted runs, and probe them."""

from __future__ import annotations

from ivjoin.shj.kernels.compiling import I8, IN1, IN2, IN2_I4, IN_U8, IO1, IO2_I4, IO_U8, VOID, compiled, inner
from ivjoin.shj.kernels.memory import line_of
from ivjoin.shj.kernels.push import index_kernels as index
from ivjoin.shj.kernels.push.probe_kernels import Terms, others, verdict, window
from ivjoin.shj.registers import I64_MIN

__all__ = ["merge_runs", "probe_runs", "top_run"]


@inner
def _is_live(rid, lo, turn, cap, links):
    """Return whether a row is live; ``turn`` is the greatest id <= ``lo`` at place 0 of the ring."""
    if rid < lo:
        return False
    pos = rid - turn
    return links[pos if pos < cap else pos - cap, index.FLAGS] & index.LIVE != 0


@compiled(I8(IO1, IO1, IO1, I8, I8, I8, IN2_I4, I8, IO1, IO1, IO1))
def merge_runs(keys, values, ids, a, b, c, links, lo, key_buffer, value_buffer, id_buffer):
    """Merge the sorted runs [a, b) and [b, c) in place, without dead rows; return the new end."""
    cap = links.shape[0]
    turn = lo - lo % cap
    n = 0
    for i in range(a, b):
        if _is_live(ids[i], lo, turn, cap, links):
            key_buffer[n] = keys[i]
            value_buffer[n] = values[i]
            id_buffer[n] = ids[i]
            n += 1
    i = 0
    j = b
    out = a
    while i < n or j < c:
        if j < c and not _is_live(ids[j], lo, turn, cap, links):
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


@compiled(
    I8(IN1, IN2, IN2, I8, I8, IN1, IN1, IN1, IN1, IN1, I8, I8, IN2, IO2_I4, IO_U8, I8, IO1, IO1, IO1, IN1, IN_U8, I8)
)
def probe_runs(
    key_ids, axes, bands, n_first, n_second, run_keys, run_values, run_ids, tops, ends, n_runs, lo, rows, links,
    matched, mode, state, out_probe, out_store, checks, absent, nulls,
):
    """Do as ``probe`` over sorted runs: a binary search in each run, then a visit backwards through the window.

    The first ``n_first`` bands are on the axis that sorts the runs. The next ``n_second`` bound a second axis from
    below; the visit ends where ``tops``, its running maximum, is lower (an interval tree stored as a list). ``state`` :
    int64[3] has the probe row, the run, and the place in the run (-1: search for it).
    """
    cap = rows.shape[0]
    turn = lo - lo % cap
    n = key_ids.shape[0]
    room = out_probe.shape[0]
    terms = line_of(bands)
    second = terms[4 * n_first :]
    t = Terms(
        line_of(axes), absent, axes.shape[1], nulls, terms, n_first, bands.shape[0], checks, checks.shape[0]
    )
    records = line_of(rows)
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
                ok = _is_live(rid, lo, turn, cap, links)
                pos = rid - turn if rid - turn < cap else rid - turn - cap
                if ok and n_first < t.n_bands:
                    ok = others(t, i, records, pos * rows.shape[1])
                if ok and mode & index.FIRST_STORE and links[pos, index.FLAGS] & index.MATCHED:
                    ok = False
                found = i
                if ok and t.n_checks > 0:
                    missing = links[pos, index.FLAGS] >> index.FIRST_ABSENCE
                    first = pos * rows.shape[1] + index.FIRST_AXIS
                    end = verdict(t, i, records, first, 1, missing)
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
                        out_store[count] = rid
                        count += 1
                    if mode & index.MARK_STORE:
                        links[pos, index.FLAGS] |= index.MATCHED
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
