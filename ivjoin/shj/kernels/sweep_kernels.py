"""The probe of a window that few stored rows lie in: both sides passed through in order, as a merge join does.

A key's list leads to the rows of a key, whatever their axis; here rows are found by the axis, whatever their key. Where
the stored rows lie in their ring in the order of the first axis, and the batch is in that order, too, the rows within
each probe row's window are neighbours, a little further on than those of the row before. So as long as they are few,
no more is read than they, and the next branch is seldom a surprise: with many keys, a list costs several.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import inner, tiny
from ivjoin.shj.kernels.index_kernels import FIRST_AXIS, I64_MAX, I64_MIN, LIVE, PROBE_ROW
from ivjoin.shj.kernels.memory import at_i64

__all__ = ["FEW", "MANY", "is_swept", "sweep"]

FEW = 4.0  # stored rows within a window, on average: no more than these are looked at for each probe row
MANY = 3  # stored rows of a key, on average, from which on a list takes longer than that
_PATIENCE = 12  # stored rows passed for each probe row, on average, before the rest is left to the lists
_LINKS = 1  # in a row record, as words: the key id and above it the flags
_ALIVE = LIVE << 32
_ID = _ALIVE | PROBE_ROW


@inner
def is_swept(op, side, other, n_primary):  # type: ignore[no-untyped-def]
    """Whether the batch at hand, of ``side``, is in order, and finds few rows in its windows of a store that is."""
    if n_primary != 1 or other.ordered == 0 or other.lo < other.since or other.live < MANY * op.live_keys:
        return False
    bands = at_i64(side.bands)
    values = at_i64(op.values)
    n = op.n
    below = bands[2]
    above = bands[3]
    if below == I64_MIN or above == I64_MAX or below > above:
        return False
    if float(other.live) * (float(above) - float(below) + 1.0) > FEW * (float(other.most) - float(other.least) + 1.0):
        return False
    column = bands[0] * op.room_rows
    falls = False
    for i in range(column + 1, column + n):
        falls |= values[i] < values[i - 1]
    if falls:
        return False
    first = values[column]
    last = values[column + n - 1]
    if first < I64_MIN - min(below, above, 0):
        return False
    return last < I64_MAX - max(below, above, 0)


@tiny
def _is_behind(rows, at, low):  # type: ignore[no-untyped-def]
    """Whether the row whose record begins at ``rows[at]`` is gone, or less than ``low``."""
    return (rows[at + _LINKS] & _ALIVE == 0) | (rows[at + FIRST_AXIS] < low)


@tiny
def _matches(rows, at, wanted, high):  # type: ignore[no-untyped-def]
    return (rows[at + _LINKS] & _ID == wanted) & (rows[at + FIRST_AXIS] <= high)


@inner
def sweep(key_ids, n, values, column, below, above, other, rows, cell, out):  # type: ignore[no-untyped-def]
    """The probe rows that find a row in the store, each with the place of the first one (``PROBE_ROW``) : how many.

    ``values[column + i]`` is the value of row i, which with ``below`` and ``above`` added is its window; see
    ``is_swept``. Where it takes too long to come to the windows, it ends early: in ``cell[0]`` is left how many rows
    are through.
    """
    width = FIRST_AXIS + other.n_axes
    cap = other.cap
    lo = other.lo
    hi = other.hi
    least = other.least
    most = other.most
    patience = _PATIENCE * (n + 16)
    done = 0
    while done < n and values[column + done] + above < least:
        done += 1
    rid = min(max(other.swept, lo), hi)
    pos = rid % cap
    low = values[column + min(done, n - 1)] + below
    # Rows that are gone may be out of order, so they are passed over both ways.
    while rid > lo and patience > 0:
        before = (cap if pos == 0 else pos) - 1
        if not _is_behind(rows, before * width, low) or not rows[before * width + _LINKS] & _ALIVE:
            pos = before
            rid -= 1
            patience -= 1
        else:
            break
    count = 0
    while done < n and patience > 0:
        low = values[column + done] + below
        high = values[column + done] + above
        if low > most:
            done = n
            break
        wanted = _ALIVE | (key_ids[done] & PROBE_ROW)
        found = np.int64(0)
        # Most rows come a few places further on and meet few others: so much is done without a branch.
        if rid + 4 <= hi and pos + 4 <= cap:
            at = pos * width
            one = _is_behind(rows, at, low)
            two = one & _is_behind(rows, at + width, low)
            three = two & _is_behind(rows, at + 2 * width, low)
            steps = np.int64(one) + np.int64(two) + np.int64(three)
            pos += steps
            rid += steps
        while rid < hi and _is_behind(rows, pos * width, low):
            rid += 1
            pos += 1
            patience -= 1
            if pos == cap:
                pos = 0
        place = pos
        seen = rid
        goes_on = True
        if rid + 4 <= hi and pos + 4 <= cap:
            at = pos * width
            last = at + 3 * width
            found = pos + 4 if _matches(rows, last, wanted, high) else found
            found = pos + 3 if _matches(rows, at + 2 * width, wanted, high) else found
            found = pos + 2 if _matches(rows, at + width, wanted, high) else found
            found = pos + 1 if _matches(rows, at, wanted, high) else found
            goes_on = _is_behind(rows, last, high + 1)
            place = pos + 4 if pos + 4 < cap else 0
            seen += 4
        if goes_on and found == 0:
            while seen < hi and _is_behind(rows, place * width, high + 1):
                patience -= 1
                if _matches(rows, place * width, wanted, high):
                    found = place + 1
                    break
                seen += 1
                place += 1
                if place == cap:
                    place = 0
        out[count] = done | found << 32
        count += found > 0
        done += 1
    other.swept = rid
    cell[0] = done
    return count
