"""Sort int64 values, as a whole or per key, by radix where that is faster than by comparison.

Source: D. E. Knuth, The Art of Computer Programming 3, 5.2.5, sorting by distribution, least significant digit first.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.lookup import grouped_kernels

__all__ = ["in_order", "order_by_key"]

_FEW = 2048  # below this number of values, sort by comparison
_MANY = 1 << 22  # above this number of values, the four scratch arrays take too much memory
_BITS = 11  # bits per digit
_DIGITS = 4  # most digits of a full radix sort; values that need more are sorted by their first _FIRST digits
_FIRST = 3
_PLACES = 1 << 16  # buckets for the values of one key


def in_order(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the stable sort order of values : int64[n], and the sorted values : int64[n]."""
    n = len(values)
    if not _FEW <= n <= _MANY:
        return _compared(values)
    least = int(values.min())
    bits = (int(values.max()) - least).bit_length()
    if bits <= _BITS * _DIGITS:
        order, keys = _by_radix(values, least, -(-bits // _BITS))
        keys += least
        return order, keys
    # Such as doubles: after a sort by the first digits, few values are out of order.
    first = (values.view(np.uint64) - np.uint64(least % 2**64)) >> np.uint64(bits - _BITS * _FIRST)
    order, _ = _by_radix(first.view(np.int64), 0, _FIRST)
    keys = values.take(order)
    if not bool((keys[:-1] <= keys[1:]).all()):
        again = np.argsort(keys, kind="stable")  # fast on nearly sorted values
        order, keys = order.take(again), keys.take(again)
    return order, keys


def order_by_key(kids: np.ndarray, values: np.ndarray, n_ids: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort values within each key.

    Parameters
    ----------
    kids, values : int64[n]
        Key ids from 0 to ``n_ids - 1``, and values.

    Returns
    -------
    starts : int64[n_ids + 1]
        Where each key begins.
    values, order : int64[n]
        The values grouped by key, rising within each key, and their original positions. The sort is stable.
    """
    starts = np.zeros(n_ids + 1, dtype=np.int64)
    found, order = np.empty(len(values), dtype=np.int64), np.empty(len(values), dtype=np.int64)
    grouped_kernels.group_values(kids, values, starts, found, order)
    most = int(np.diff(starts).max(initial=0))
    scratch = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64), np.empty(_PLACES, dtype=np.int64)
    grouped_kernels.sort_groups(starts, found, order, *scratch)
    return starts, found, order


def _compared(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(values, kind="stable")
    return order, values.take(order)


def _by_radix(values: np.ndarray, least: int, digits: int) -> tuple[np.ndarray, np.ndarray]:
    keys, other_keys, order, other = (np.empty(len(values), dtype=np.int64) for _ in range(4))
    counts = np.zeros(2048 * max(1, digits), dtype=np.int64)
    if grouped_kernels.radix_order(values, least, digits, keys, other_keys, order, other, counts):
        return other, other_keys
    return order, keys
