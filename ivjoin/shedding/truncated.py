"""The static case: which k rows of two tables give the most pairs of an equality join."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ivjoin.errors import OptionError, came
from ivjoin.expr.arguments import whole_number

__all__ = ["k_truncated", "most_pairs"]


def most_pairs(m: int, n: int, p: int) -> int:
    """Pairs of ``p`` rows of one key of which there are ``m`` and ``n``: as even a split as there is."""
    least = min(m, n)
    if p <= 2 * least:
        return (p // 2) * (p - p // 2)
    return least * (p - least)


def k_truncated(components: Iterable[tuple[int, int]], k: int) -> int:
    """The most pairs that ``k`` rows give, of a join whose keys have ``m`` left and ``n`` right rows each.

    By dynamic programming over the keys, as in Das, Gehrke and Riedewald (SIGMOD 2003): a key that keeps p rows gives
    at most floor(p * p / 4) pairs while both its sides last, and the lesser side times the rest beyond.

    Parameters
    ----------
    components : iterable of (m, n)
        Rows of each key, left and right.
    k : int
        Rows to keep, of both sides together.

    Returns
    -------
    int

    Raises
    ------
    OptionError

    Examples
    --------
    >>> k_truncated([(3, 1), (2, 2), (4, 2)], k=6)
    8
    """
    k = whole_number("k", k, 0, 2**31 - 1, "a whole number of rows")
    best = np.zeros(1, dtype=np.int64)  # [q]: most pairs of q rows of the keys so far
    if isinstance(components, (str, bytes)) or not isinstance(components, Iterable):
        raise OptionError(f"components is {came(components)}; expected a list of pairs (left rows, right rows)")
    for item in components:
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise OptionError(f"components holds {came(item)}; expected a pair (left rows, right rows) of a key")
        m, n = (whole_number("a component's rows", x, 0, 2**31 - 1) for x in item)
        own = np.array([most_pairs(m, n, p) for p in range(min(m + n, k) + 1)], dtype=np.int64)
        size = min(k, len(best) - 1 + len(own) - 1) + 1
        out = np.zeros(size, dtype=np.int64)
        for p, pairs in enumerate(own):
            stop = min(size, p + len(best))
            out[p:stop] = np.maximum(out[p:stop], pairs + best[: stop - p])
        best = out
    return int(best.max())
