"""Merge and search the runs that index rows in files.

A run has sorted words, ``hash << 32 | row number``. A table has the place where each value of their first bits begins.
"""

from __future__ import annotations

from ivjoin.shj.kernels.compiling import I8, IN1, IN_U8, IO1, compiled, inner

__all__ = ["LIVE", "merge", "search"]

LIVE = 1
_MASK = 0xFFFFFFFF
_SIGN = -(2**63)


@inner
def _number(word, low):
    return ((word - low) & _MASK) + low


@inner
def _lives(number, base, top, flags):
    """Return whether a row is live; numbers from ``top`` on stem from evicted rows."""
    return number < top and flags[number - base] & LIVE != 0


@compiled(I8(IN1, IN1, IO1, I8, I8, I8, IN_U8))
def merge(a, b, out, low, base, top, flags):
    """Merge two runs a, b into ``out`` : int64, without evicted rows; return the number of entries."""
    i = 0
    j = 0
    n = 0
    while i < a.shape[0] or j < b.shape[0]:
        word = 0
        # Words compare as unsigned.
        if j >= b.shape[0] or (i < a.shape[0] and a[i] ^ _SIGN <= b[j] ^ _SIGN):
            word = a[i]
            i += 1
        else:
            word = b[j]
            j += 1
        if _lives(_number(word, low), base, top, flags):
            out[n] = word
            n += 1
    return n


@compiled(I8(IN1, IN1, I8, IN1, IO1, IO1, IO1, I8, I8, I8, IN_U8))
def search(run, table, bits, asked, at, which, numbers, low, base, top, flags):
    """Find the rows with some hashes; return their number. If ``which`` is full, there may be more.

    run : int64[n], table : int64[2 ** bits + 1]
    asked : int64[m], 32-bit hashes, rising
    at : int64[2], the hash and the place in the run to continue with (-1: search for the place)
    which, numbers : int64[k], positions in ``asked`` and row numbers
    """
    n = 0
    i = at[0]
    j = at[1]
    while i < asked.shape[0]:
        wanted = asked[i]
        if j < 0:
            first = wanted >> (32 - bits)
            j = table[first]
            end = table[first + 1]
            while end - j > 8:
                middle = (j + end) >> 1
                if run[middle] >> 32 & _MASK < wanted:
                    j = middle + 1
                else:
                    end = middle
            while j < end and run[j] >> 32 & _MASK < wanted:
                j += 1
        while j < run.shape[0] and run[j] >> 32 & _MASK == wanted:
            number = _number(run[j], low)
            if _lives(number, base, top, flags):
                if n == which.shape[0]:
                    at[0] = i
                    at[1] = j
                    return n
                which[n] = i
                numbers[n] = number
                n += 1
            j += 1
        i += 1
        j = -1
    at[0] = i
    at[1] = j
    return n
