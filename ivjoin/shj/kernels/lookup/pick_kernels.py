"""Compiled loops of joins that give each left row one partner: build sorted runs, search them, drop rows from them.

A run contains rows of the right side grouped by key; the rows of a key are in the order in which they are compared.
``vals`` : int64[lines, n] has a line for each expression. The expressions that rank rows come first.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IN2, IN_U8, IO1, IO2, IO_U8, VOID, compiled, inner
from ivjoin.shj.kernels.lookup.range_kernels import last_within, next_within
from ivjoin.shj.kernels.push.index_kernels import I64_MAX, I64_MIN

__all__ = ["DOWN", "DOWN_GROUPS", "UP", "group_rows", "merge_order", "radix_order", "sweep", "thin", "walk"]

# The direction in which a key's rows are visited: from the greatest down, from the least up, or down by groups of equal
# first values and up within each group.
DOWN, UP, DOWN_GROUPS = 0, 1, 2


@compiled(VOID(IN1, IN1, IO1, IO1))
def group_rows(kids, order, starts, out):  # type: ignore[no-untyped-def]
    """Group row numbers by key; the rows of one key keep the order of ``order`` (empty: ascending row numbers).

    Parameters
    ----------
    kids : int64[n]
        Key ids.
    order : int64[n] or int64[0]
    starts : int64[ids + 1]
        Zeros; afterwards where the rows of each key begin.
    out : int64[n]
        The row numbers.
    """
    n = kids.shape[0]
    given = order.shape[0] > 0
    for i in range(n):
        starts[kids[i] + 1] += 1
    for k in range(1, starts.shape[0]):
        starts[k] += starts[k - 1]
    for i in range(n):
        row = order[i] if given else i
        kid = kids[row]
        out[starts[kid]] = row
        starts[kid] += 1
    for j in range(1, starts.shape[0]):
        k = starts.shape[0] - j
        starts[k] = starts[k - 1]
    starts[0] = 0


@compiled(I8(IN1, I8, I8, IO1, IO1, IO1, IO1, IO1))
def radix_order(values, least, digits, keys, other_keys, order, other_order, counts):  # type: ignore[no-untyped-def]
    """Sort values by ``digits`` digits of 11 bits, least significant digit first; ``least`` is the least value.

    All arrays but ``values`` are scratch : int64[n]; ``counts`` : int64[2048 * digits] must be zeros. Returns 1 if the
    order ends in ``other_order``, 0 if it ends in ``order``.
    """
    n = values.shape[0]
    for i in range(n):
        key = values[i] - least
        keys[i] = key
        order[i] = i
        for d in range(digits):
            counts[2048 * d + ((key >> (11 * d)) & 2047)] += 1
    for d in range(digits):
        total = np.int64(0)
        for j in range(2048 * d, 2048 * d + 2048):
            count = counts[j]
            counts[j] = total
            total += count
        shift = 11 * d
        for i in range(n):
            key = keys[i] if d & 1 == 0 else other_keys[i]
            j = 2048 * d + ((key >> shift) & 2047)
            at = counts[j]
            counts[j] = at + 1
            if d & 1 == 0:
                other_keys[at] = key
                other_order[at] = order[i]
            else:
                keys[at] = key
                order[at] = other_order[i]
    return digits & 1


@compiled(VOID(IN1, IN1, IN1, IN1, IN1, IN1, I8, IO1, IO1))
def sweep(kids, low, high, order, run_kids, values, mode, best, out):  # type: ignore[no-untyped-def]
    """Find for each row the last row of its key within [low, high], with UP the first; -1 if none.

    Both sides are scanned in one pass, as in a merge join. ``values`` : int64[m] rise. The rows in ``order`` (empty:
    ascending row numbers) have rising ``high``, with UP rising ``low``. ``best`` : int64[ids] must be -1. ``kids``,
    ``low``, ``high`` and ``out`` are int64[n].
    """
    n = kids.shape[0]
    m = run_kids.shape[0]
    given = order.shape[0] > 0
    if mode == UP:
        at = m - 1
        for j in range(n):
            i = n - 1 - j
            i = order[i] if given else i
            least = low[i]
            while at >= 0 and values[at] >= least:
                best[run_kids[at]] = at
                at -= 1
            found = best[kids[i]]
            out[i] = found if found >= 0 and values[found] <= high[i] and values[found] >= least else -1
    else:
        at = 0
        for j in range(n):
            i = order[j] if given else j
            most = high[i]
            while at < m and values[at] <= most:
                best[run_kids[at]] = at
                at += 1
            found = best[kids[i]]
            out[i] = found if found >= 0 and values[found] >= low[i] and values[found] <= most else -1


@compiled(VOID(IN1, IN2, IN1, IN2, I8, IO1))
def merge_order(first_kids, first, second_kids, second, n_sort, out):  # type: ignore[no-untyped-def]
    """Compute the order in which the rows of two runs merge; rows of the second run are numbered on from the first.

    ``first`` and ``second`` are int64[lines, n] and int64[lines, m]; the first ``n_sort`` lines sort. ``out`` is
    int64[n + m].
    """
    n = first_kids.shape[0]
    m = second_kids.shape[0]
    i = 0
    j = 0
    for at in range(n + m):
        left = j >= m
        if i < n and not left:
            a = first_kids[i]
            b = second_kids[j]
            s = 0
            while a == b and s < n_sort:
                a = first[s, i]
                b = second[s, j]
                s += 1
            left = a <= b
        if left:
            out[at] = i
            i += 1
        else:
            out[at] = n + j
            j += 1



@inner
def _passes(d, v):  # type: ignore[no-untyped-def]
    """Return whether v + d overflows int64: 1 above, -1 below, 0 if it does not."""
    if d > 0 and v > I64_MAX - d:
        return 1
    if d < 0 and v < I64_MIN - d:
        return -1
    return 0


@inner
def _first_at_least(vals, line, least, start, end, hint):  # type: ignore[no-untyped-def]
    """Return the first place in [start, end) whose value is at least ``least``; the search starts at ``hint``."""
    a = start
    b = end
    if start <= hint < end:
        step = np.int64(1)
        if vals[line, hint] < least:
            a = hint + 1
            while a + step < end and vals[line, a + step] < least:
                a += step + 1
                step *= 2
            b = min(end, a + step)
        else:
            b = hint
            while b - step >= start and vals[line, b - step] >= least:
                b -= step
                step *= 2
            a = max(start, b - step)
    while a < b:
        mid = (a + b) >> 1
        if vals[line, mid] < least:
            a = mid + 1
        else:
            b = mid
    return a


@inner
def _narrowed(axes, i, vals, terms, n_search, start, end, hint):  # type: ignore[no-untyped-def]
    """Narrow the places [start, end) of a key's rows by the first terms, whose values rise along the run."""
    for t in range(n_search):
        v = axes[terms[t, 0], i]
        line = terms[t, 1]
        d = terms[t, 2]
        if d != I64_MIN:
            past = _passes(d, v)
            if past > 0:
                return end, end
            if past == 0:
                start = _first_at_least(vals, line, v + d, start, end, hint)
        d = terms[t, 3]
        if d != I64_MAX:
            past = _passes(d, v)
            if past < 0:
                return end, end
            if past == 0 and v + d != I64_MAX:
                end = _first_at_least(vals, line, v + d + 1, start, end, hint)
    return start, end


@inner
def _checked(axes, i, vals, at, terms, n_search):  # type: ignore[no-untyped-def]
    """Return whether a row of the run satisfies the other terms."""
    for t in range(n_search, terms.shape[0]):
        v = axes[terms[t, 0], i]
        w = vals[terms[t, 1], at]
        d = terms[t, 2]
        if d != I64_MIN:
            past = _passes(d, v)
            if past > 0 or (past == 0 and w < v + d):
                return False
        d = terms[t, 3]
        if d != I64_MAX:
            past = _passes(d, v)
            if past < 0 or (past == 0 and w > v + d):
                return False
    return True


@inner
def _same(vals, n, i, j):  # type: ignore[no-untyped-def]
    same = True
    for line in range(n):
        same = same and vals[line, i] == vals[line, j]
    return same


@inner
def _reach(axes, i, terms, t):  # type: ignore[no-untyped-def]
    """Return the closed range of right values that satisfy a term; low above high if it is empty."""
    v = axes[terms[t, 0], i]
    low = np.int64(I64_MIN)
    high = np.int64(I64_MAX)
    d = terms[t, 2]
    if d != I64_MIN:
        past = _passes(d, v)
        if past > 0:
            return np.int64(I64_MAX), np.int64(I64_MIN)
        low = v + d if past == 0 else low
    d = terms[t, 3]
    if d != I64_MAX:
        past = _passes(d, v)
        if past < 0:
            return np.int64(I64_MAX), np.int64(I64_MIN)
        high = v + d if past == 0 else high
    return low, high


@compiled(I8(IN1, IN2, IN_U8, IN1, IN1, IN2, IN1, IN2, I8, I8, I8, IN2, IN1, IO2, IO1, IO1))
def walk(  # type: ignore[no-untyped-def]
    kids, axes, free, rows, run_kids, vals, starts, terms, n_search, mode, most, upper, levels, state, out_row, out_at,
):
    """Find the next ``most`` candidates of each row, the best ones first; return the number of pairs.

    Parameters
    ----------
    kids : int64[n]
        Key ids of all rows.
    axes : int64[a, n]
        Their axis values.
    free : uint8[n] or uint8[0]
        1 for rows that no term restricts.
    rows : int64[j]
        The rows to search for.
    run_kids, vals : int64[m], int64[lines, m]
        The run.
    starts : int64[ids + 1] or int64[0]
        Where each key's rows begin; if empty, they are found by binary search.
    terms : int64[t, 4]
        (axis, line, low, high). The values of the first ``n_search`` terms rise along a key's rows.
    mode : int
        The direction. From ``DOWN_GROUPS`` on, rows that are equal in the first ``1 + mode - DOWN_GROUPS`` lines form a
        group, and the first row of a group comes first.
    upper, levels : int64[2, b], int64[l]
        Blocks of the values of the first term after ``n_search``, as in ``range_kernels``; empty without such a term.
    state : int64[4, n]
        The remaining places and the current group. -1 in the first line starts a new search.
    out_row, out_at : int64
        The pairs: rows, and places in the run.
    """
    count = 0
    m = run_kids.shape[0]
    indexed = starts.shape[0] > 0
    skips = n_search < terms.shape[0]
    values = vals[terms[n_search, 1]] if skips else vals[0]
    hint = np.int64(-1)  # place of the last row's candidates
    for j in range(rows.shape[0]):
        i = rows[j]
        is_free = free.shape[0] > 0 and free[i] != 0
        start = state[0, i]
        end = state[1, i]
        at = state[2, i]
        stop = state[3, i]
        if start < 0:
            kid = kids[i]
            start = m
            end = m
            if kid >= 0 and indexed:
                if kid + 1 < starts.shape[0]:
                    start = starts[kid]
                    end = starts[kid + 1]
            elif kid >= 0:
                a = 0
                b = m
                while a < b:
                    mid = (a + b) >> 1
                    if run_kids[mid] < kid:
                        a = mid + 1
                    else:
                        b = mid
                start = a
                b = m
                while a < b:
                    mid = (a + b) >> 1
                    if run_kids[mid] <= kid:
                        a = mid + 1
                    else:
                        b = mid
                end = a
            if not is_free and start < end:
                start, end = _narrowed(axes, i, vals, terms, n_search, start, end, hint)
                hint = start if mode == UP else end - 1
            at = 0
            stop = 0
        low = np.int64(I64_MIN)
        high = np.int64(I64_MAX)
        if skips and not is_free:
            low, high = _reach(axes, i, terms, n_search)
        given = 0
        while given < most:
            if skips and not is_free and start < end and (mode < DOWN_GROUPS or at >= stop):
                if mode == UP:
                    start = next_within(values, values, upper, levels, start, end, low, high)
                else:
                    end = last_within(values, values, upper, levels, start, end, low, high) + 1
            if mode >= DOWN_GROUPS:
                if at >= stop:
                    if start >= end:
                        break
                    stop = end
                    at = end - 1
                    while at > start and _same(vals, mode - DOWN_GROUPS + 1, at - 1, stop - 1):
                        at -= 1
                    end = at
                place = at
                at += 1
            elif start >= end:
                break
            elif mode == UP:
                place = start
                start += 1
            else:
                end -= 1
                place = end
            if is_free or _checked(axes, i, vals, place, terms, n_search):
                out_row[count] = i
                out_at[count] = place
                count += 1
                given += 1
        state[0, i] = start
        state[1, i] = end
        state[2, i] = at
        state[3, i] = stop
    return count


@inner
def _ripe(vals, i, low, high):  # type: ignore[no-untyped-def]
    inside = True
    for line in range(vals.shape[0]):
        inside = inside and low[line] <= vals[line, i] <= high[line]
    return inside


@compiled(VOID(IN1, IN2, IN2, I8, I8, I8, IN2, IN2, IO_U8))
def thin(kids, vals, reach, n_place, lower, upper, below, above, keep):  # type: ignore[no-untyped-def]
    """Mark the rows of a run that a left row may still take.

    Parameters
    ----------
    kids, vals : int64[n], int64[lines, n]
        The run.
    reach : int64[2, lines]
        Least and greatest value of each line that a left row can match.
    n_place : int
        Rows that are equal in this many lines are ties.
    lower : int
        If not 0, drop a key's rows before the last one within ``below`` : int64[2, lines]. 1 keeps the last row of
        ties. 2 keeps the first row of ties. 3 does so too, and keeps a key's very first row.
    upper : int
        If not 0, drop a key's rows after the first one within ``above`` : int64[2, lines].
    keep : uint8[n]
        The output.
    """
    n = kids.shape[0]
    for i in range(n):
        keep[i] = 1 if _ripe(vals, i, reach[0], reach[1]) else 0
    start = 0
    while start < n:
        end = start + 1
        while end < n and kids[end] == kids[start]:
            end += 1
        if lower > 0 or upper > 0:
            # Keep one row of ties.
            for i in range(start, end):
                if lower == 1:
                    if i + 1 < end and _same(vals, n_place, i, i + 1):
                        keep[i] = 0
                elif i > start and _same(vals, n_place, i - 1, i):
                    keep[i] = 0
        if lower > 0:
            i = end - 1
            while i >= start and not _ripe(vals, i, below[0], below[1]):
                i -= 1
            while lower > 1 and i > start and _same(vals, n_place, i - 1, i):
                i -= 1
            for j in range(start + (1 if lower == 3 else 0), i):
                keep[j] = 0
        if upper > 0:
            i = start
            while i < end and not _ripe(vals, i, above[0], above[1]):
                i += 1
            for j in range(i + 1, end):
                keep[j] = 0
        start = end
