"""The order of int64 values, of all or key by key: by what they differ in, where that is faster than by comparing them.

Source: D. E. Knuth, The Art of Computer Programming 3, 5.2.5, sorting by distribution, from the last digit on.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels import grouped_kernels, pick_kernels

__all__ = ["in_order", "order_by_key"]

_FEW = 2048  # values that are sorted by comparing them
_MANY = 1 << 22  # four more arrays of so many values take too much memory
_BITS = 11  # of a digit
_DIGITS = 4  # by all of which values are sorted; where they differ in more bits than that, by the first _FIRST
_FIRST = 3
_PLACES = 1 << 16  # that the values of a key are dealt to


def in_order(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order of some values : int64[n], and the values in it; equal ones stay as they were."""
    n = len(values)
    if not _FEW <= n <= _MANY:
        return _compared(values)
    least = int(values.min())
    bits = (int(values.max()) - least).bit_length()
    if bits <= _BITS * _DIGITS:
        order, keys = _by_radix(values, least, -(-bits // _BITS))
        keys += least
        return order, keys
    # such as doubles: what little they differ in beyond the first digits leaves few out of place
    first = (values.view(np.uint64) - np.uint64(least % 2**64)) >> np.uint64(bits - _BITS * _FIRST)
    order, _ = _by_radix(first.view(np.int64), 0, _FIRST)
    keys = values.take(order)
    if not bool((keys[:-1] <= keys[1:]).all()):
        again = np.argsort(keys, kind="stable")  # which sees what is in order already
        order, keys = order.take(again), keys.take(again)
    return order, keys


def order_by_key(kids: np.ndarray, values: np.ndarray, n_ids: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The order of values key by key.

    Parameters
    ----------
    kids, values : int64[n]
        No key is below 0, or not below ``n_ids``.

    Returns
    -------
    starts : int64[n_ids + 1]
        Where each key begins.
    values, order : int64[n]
        The values by key, those of one key rising, and whose they are; equal ones stay as they were.
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
    if pick_kernels.radix_order(values, least, digits, keys, other_keys, order, other, counts):
        return other, other_keys
    return order, keys
