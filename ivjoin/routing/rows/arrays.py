"""Small functions on arrays of rows, cells and hashes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["Copies", "dealt", "expanded", "stacked"]

#: Rows and cells (int64[m]) of copies, and whether each one is owned (bool[m]).
Copies = tuple[np.ndarray, np.ndarray, np.ndarray]

_HALF = np.uint64(32)


def dealt(hashes: np.ndarray, count: int | np.ndarray) -> np.ndarray:
    """Return a number below ``count`` (one, or one for each hash), from the high half of each hash."""
    return (((hashes >> _HALF) * np.asarray(count).astype(np.uint64)) >> _HALF).astype(np.int64)


def expanded(first: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all numbers of ranges, given the first of each and how many it has: the number's range, and the number."""
    ranges = np.repeat(np.arange(len(count)), count)
    return ranges, np.arange(len(ranges)) - np.repeat(np.cumsum(count) - count - first, count)


def stacked(parts: Sequence[Copies]) -> Copies:
    rows, cells, owned = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows, cells, owned
