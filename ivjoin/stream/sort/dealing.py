"""Sort the values of a table with several threads: distribute rows to buckets of rising values, then sort each bucket.

Threads share parts of each step, so the work does not grow with the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ivjoin.operator.lookup import key_ids
from ivjoin.operator.lookup.tables.ordered import rises
from ivjoin.shj.kernels.lookup import grouped_kernels
from ivjoin.shj.kernels.slices import deal_kernels
from ivjoin.shj.sorting import in_order, scratch_of
from ivjoin.stream.workers import each

__all__ = ["ends_of", "order_of", "rise", "sort_order", "values_at"]

_WORTH_DEALING = 1 << 17  # least rows for several buckets
_BUCKET = 1 << 15  # rows of a bucket, unless this would need too many buckets
_MOST_BUCKETS = 256  # their numbers have eight bits
_SAMPLE = 1 << 14  # sampled rows that determine the cuts between buckets
_PLACE_BITS = 12
_PART = 1 << 18  # rows of a thread's task
_MOST_ROWS = 2**31 - 1  # row numbers have 32 bits


def sort_order(values: np.ndarray, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the stable sort order (int64[n] or int32[n]) and the sorted values (int64[n]) of values : int64[n]."""
    n = len(values)
    if not _WORTH_DEALING <= n <= _MOST_ROWS:
        return in_order(values)
    some = np.sort(values[:: max(1, n // _SAMPLE)])
    buckets = min(_MOST_BUCKETS, n // _BUCKET)
    cuts = np.unique(some[np.arange(1, buckets) * len(some) // buckets])
    dealt, rows, starts = _dealt(values, cuts, threads)

    most = int(np.diff(starts).max())

    def sorts() -> Callable[[int], None]:
        values, numbers, counts = scratch_of(most)

        def sort(bucket: int) -> None:
            at = slice(int(starts[bucket]), int(starts[bucket + 1]))
            size = at.stop - at.start
            grouped_kernels.sort_rows(dealt[at], rows[at], values[:size], numbers[:size], counts)

        return sort

    each(range(len(cuts) + 1), sorts, threads)
    return rows, dealt


def _dealt(values: np.ndarray, cuts: np.ndarray, threads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values and row numbers bucket by bucket, and where each bucket begins : int64[buckets + 1]."""
    parts = _parts(len(values))
    places = _Places.of(cuts)
    numbers = np.empty(len(values), dtype=np.uint8)
    counts = np.zeros((len(parts), len(cuts) + 1), dtype=np.int64)

    def count(part: int) -> None:
        at = parts[part]
        deal_kernels.buckets_of(values[at], cuts, places.first, places.shift, numbers[at], counts[part])

    each(range(len(parts)), lambda: count, threads)
    starts = np.concatenate(([0], np.cumsum(counts.sum(axis=0))))
    cursors = starts[:-1] + np.cumsum(counts, axis=0) - counts
    dealt, rows = np.empty(len(values), dtype=np.int64), np.empty(len(values), dtype=np.int32)

    def deal(part: int) -> None:
        at = parts[part]
        deal_kernels.deal(values[at], numbers[at], at.start, cursors[part], dealt, rows)

    each(range(len(parts)), lambda: deal, threads)
    return dealt, rows, starts


@dataclass(frozen=True)
class _Places:
    """Steps of equal width from the first cut to the last one. See ``deal_kernels.buckets_of``."""

    first: np.ndarray
    shift: int

    @classmethod
    def of(cls, cuts: np.ndarray) -> _Places:
        least, most = int(cuts[0]), int(cuts[-1])
        shift = max(0, (most - least).bit_length() - _PLACE_BITS)
        lows = [place << shift for place in range(least >> shift, (most >> shift) + 1)]
        inside = np.searchsorted(cuts, np.array(lows, dtype=np.int64), side="right")
        return cls(np.append(inside, len(cuts)).astype(np.int64), shift)


def order_of(values: np.ndarray, usable: np.ndarray | None, threads: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the order of usable rows by value, and the sorted values.

    If all rows are sorted, return None as the order.
    """
    if usable is None:
        return (None, values) if rise(values, threads) else sort_order(values, threads)
    rows = np.flatnonzero(usable)
    values = values_at(values, rows, threads)
    if rise(values, threads):
        return rows, values
    order, values = sort_order(values, threads)
    return values_at(rows, order, threads), values


def values_at(values: np.ndarray, order: np.ndarray | None, threads: int) -> np.ndarray:
    """Return the values in an order. Without an order, return them unchanged."""
    if order is None:
        return values
    out = np.empty(len(order), dtype=values.dtype)

    def take(at: slice) -> None:
        values.take(order[at], out=out[at], mode="clip")

    each(_parts(len(order)), lambda: take, threads)
    return out


def rise(values: np.ndarray, threads: int) -> bool:
    """Return whether no value is less than the one before it, as :func:`rises` does."""
    falls: list[slice] = []

    def look(at: slice) -> None:
        if not falls and not rises(values[at.start : at.stop + 1]):
            falls.append(at)

    each(_parts(len(values)), lambda: look, threads)
    return not falls


def ends_of(values: np.ndarray, usable: np.ndarray | None, threads: int) -> tuple[int, int] | None:
    """Return the least and the greatest of the usable values, as ``key_ids.ends_of`` does."""
    found: list[tuple[int, int]] = []

    def look(at: slice) -> None:
        if (ends := key_ids.ends_of(values[at], None if usable is None else usable[at])) is not None:
            found.append(ends)

    each(_parts(len(values)), lambda: look, threads)
    return (min(least for least, _ in found), max(most for _, most in found)) if found else None


def _parts(rows: int) -> list[slice]:
    return [slice(start, min(start + _PART, rows)) for start in range(0, rows, _PART)]
