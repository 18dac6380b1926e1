"""The static case: find the k rows of two tables that give the most pairs of an equality join."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ivjoin.arguments import whole_number
from ivjoin.errors import OptionError, came

__all__ = ["k_truncated", "most_pairs"]


def most_pairs(m: int, n: int, p: int) -> int:
    """Return the pairs of ``p`` rows of one key with ``m`` left and ``n`` right rows, split as evenly as possible."""
    least = min(m, n)
    if p <= 2 * least:
        return (p // 2) * (p - p // 2)
    return least * (p - least)


def k_truncated(components: Iterable[tuple[int, int]], k: int) -> int:
    """Return the most pairs that ``k`` rows give in a join whose keys have ``m`` left and ``n`` right rows each.

    Dynamic programming over the keys, as in Das, Gehrke and Riedewald (SIGMOD 2003). A key with p stored rows gives at
    most floor(p * p / 4) pairs while both sides have enough rows, else the smaller side times the rest.

    Parameters
    ----------
    components : iterable of (m, n)
        Rows of each key, left and right.
    k : int
        Rows to store, of both sides together.

    Returns
    -------
    int

    Raises
    ------
    OptionError
        For an invalid argument.

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
            raise OptionError(f"components contains {came(item)}; expected a pair (left rows, right rows) of a key")
        m, n = (whole_number("a component's rows", x, 0, 2**31 - 1) for x in item)
        own = np.array([most_pairs(m, n, p) for p in range(min(m + n, k) + 1)], dtype=np.int64)
        size = min(k, len(best) - 1 + len(own) - 1) + 1
        out = np.zeros(size, dtype=np.int64)
        for p, pairs in enumerate(own):
            stop = min(size, p + len(best))
            out[p:stop] = np.maximum(out[p:stop], pairs + best[: stop - p])
        best = out
    return int(best.max())
