"""Find the places of a run whose value is in a range. The values are not sorted, for example the ends of intervals.

A search skips blocks without a value in range: blocks of four places, of four such blocks, and so on.
least, most : int64[n], the values; upper : int64[2, m], least and greatest of the blocks of all higher levels
starts : int64[levels], where each of these levels begins
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import I8, IN1, IN2, IO1, compiled, inner

__all__ = ["BITS", "next_within", "pairs_swept", "pairs_within"]

BITS = 2  # a block has 2^2 places, or blocks of the level below
_MASK = (1 << BITS) - 1
I64_MAX = np.int64(2**63 - 1)


@inner
def _may_hold(least, most, upper, starts, level, i, low, high):
    if level == 0:
        return most[i] >= low and least[i] <= high
    j = starts[level - 1] + i
    return upper[1, j] >= low and upper[0, j] <= high


@inner
def next_within(least, most, upper, starts, at, end, low, high):
    """Return the first place in [at, end) whose value lies in [low, high], or ``end``."""
    levels = starts.shape[0]
    level = 0
    i = at
    while (i << (BITS * level)) < end:
        if _may_hold(least, most, upper, starts, level, i, low, high):
            if level == 0:
                return i
            level -= 1
            i <<= BITS
        else:
            i += 1
            while level < levels and (i & _MASK) == 0:
                i >>= BITS
                level += 1
    return end


@compiled(I8(IN1, IN1, IN1, IN1, IN1, IN1, IN2, IN1, IO1, IO1, IO1))
def pairs_within(first, last, low, high, least, most, upper, starts, state, out_row, out_at):
    """Find for each row i the places k with ``first[i] <= k < last[i]`` and a value in ``[low[i], high[i]]``.

    Return the number of pairs. The search stops when the output is full; ``state`` : int64[2] then has the row and the
    place to continue with (-1: begin the row).
    """
    count = 0
    room = out_row.shape[0]
    i = state[0]
    at = state[1]
    while i < first.shape[0]:
        if at < 0:
            at = first[i]
        while at < last[i]:
            at = next_within(least, most, upper, starts, at, last[i], low[i], high[i])
            if at < last[i]:
                if count == room:
                    state[0] = i
                    state[1] = at
                    return count
                out_row[count] = i
                out_at[count] = at
                count += 1
                at += 1
        i += 1
        at = np.int64(-1)
    state[0] = i
    state[1] = at
    return count


@compiled(I8(IN1, IN1, IN1, IN1, IN1, IN2, IN1, IO1, IO1, IO1, IO1))
def pairs_swept(first, last, low, least, most, upper, starts, active, state, out_row, out_at):
    """Find for each row i the places k with ``first[i] <= k < last[i]`` and a value of at least ``low[i]``.

    Rows with equal ``first`` follow each other with rising ``low``, so a value that is lower once is not looked at
    again (Bouros and Mamoulis, A forward scan based plane sweep algorithm, PVLDB 2017). Return the number of pairs.

    active : int64[m], scratch; state : int64[1], rows that are finished
    out_row, out_at : int64[p + 1], the last is scratch
    """
    count = 0
    alive = 0
    begun = np.int64(-1)
    entered = np.int64(0)
    room = out_row.shape[0] - 1
    for i in range(first.shape[0]):
        bound = low[i]
        end = last[i]
        if first[i] != begun:  # of the values before, look only at those that are not lower
            begun = first[i]
            entered = begun
            alive = 0
            while entered < end:
                entered = next_within(least, most, upper, starts, entered, end, bound, I64_MAX)
                if entered < end:
                    active[alive] = entered
                    alive += 1
                    entered += 1
        while entered < end:
            active[alive] = entered
            if most[entered] >= bound:
                alive += 1
            entered += 1
        if count + alive > room:
            state[0] = i
            return count
        kept = 0
        for j in range(alive):
            k = active[j]
            active[kept] = k
            out_row[count] = i
            out_at[count] = k
            if most[k] >= bound:
                kept += 1
                if k < end:
                    count += 1
        alive = kept
    state[0] = first.shape[0]
    return count
