"""Sort int64 values, all together or per key. Use radix sort where it is faster than comparisons (Knuth 3, 5.2.5)."""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.lookup import grouped_kernels

__all__ = ["in_order", "order_by_key", "scratch_of"]

_FEW = 2048  # below this number of values, sort by comparison
_MANY = 1 << 22  # above this number of values, the scratch arrays take too much memory
_PLACES = 1 << 16  # buckets for the values of one key


def in_order(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the stable sort order of values : int64[n], and the sorted values : int64[n]."""
    n = len(values)
    if not _FEW <= n <= _MANY:
        order = np.argsort(values, kind="stable")
        return order, values.take(order)
    found, rows = values.copy(), np.arange(n, dtype=np.int32)
    grouped_kernels.sort_rows(found, rows, *scratch_of(n))
    return rows.astype(np.int64), found


def scratch_of(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(grouped_kernels.DIGITS, np.int64)


def order_by_key(kids: np.ndarray, values: np.ndarray, n_ids: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort values within each key, stably. The key ids are from 0 to ``n_ids - 1``.

    Return starts : int64[n_ids + 1], where each key begins, and the values by key and their positions : int64[n].
    """
    starts = np.zeros(n_ids + 1, dtype=np.int64)
    found, order = np.empty(len(values), dtype=np.int64), np.empty(len(values), dtype=np.int64)
    grouped_kernels.group_values(kids, values, starts, found, order)
    most = int(np.diff(starts).max(initial=0))
    scratch = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64), np.empty(_PLACES, dtype=np.int64)
    grouped_kernels.sort_groups(starts, found, order, *scratch)
    return starts, found, order
