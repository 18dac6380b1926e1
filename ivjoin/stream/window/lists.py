"""Reduce lists, for aggregates that need all values of a window at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivjoin.shj.arrow import bitmap, fixed_array, truths, whole_numbers

__all__ = ["REDUCTIONS", "reduced"]

Segments = tuple[pa.Array, np.ndarray]  # values, and the number of values of each list : int64[n]


def reduced(function: str, lists: pa.ListArray, mask: pa.ListArray | None, fraction: float | None) -> pa.Array:
    """Return one value for each list, by a key of :data:`REDUCTIONS`. An empty list gives NULL, or 0 for a count.

    ``mask`` selects the values to use, where NULL counts as False. ``fraction`` is for ``quantile``.
    """
    values, counts = lists.flatten(), _counts(lists)
    if mask is not None:
        values, counts = _some(values, counts, truths(mask.flatten().fill_null(False)))
    return REDUCTIONS[function](values, counts, 0.5 if fraction is None else fraction)


def _counts(lists: pa.ListArray) -> np.ndarray:
    return np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)


def _some(values: pa.Array, counts: np.ndarray, keep: np.ndarray) -> Segments:
    """Return the values where ``keep`` is True, and the number of these in each list."""
    if keep.all():
        return values, counts
    owner = np.repeat(np.arange(len(counts)), counts)
    return values.take(whole_numbers(np.flatnonzero(keep))), np.bincount(owner[keep], minlength=len(counts))


def _present(values: pa.Array, counts: np.ndarray) -> Segments:
    if values.null_count == 0:
        return values, counts
    return _some(values, counts, truths(values.is_valid()))


def _numbers(values: pa.Array, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the non-NULL values as doubles, and their number in each list."""
    values, counts = _present(values, counts)
    return np.asarray(values.cast(pa.float64(), safe=False)), counts


def _doubles(values: np.ndarray, there: np.ndarray) -> pa.Array:
    return fixed_array(np.ascontiguousarray(np.where(there, values, 0.0)), None if there.all() else there, pa.float64())


def _sorted(x: np.ndarray, counts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield lists of one length together: their numbers : int64[m], and their sorted values, one row for each list."""
    if not len(counts):
        return
    start = np.cumsum(counts) - counts
    order = np.argsort(counts, kind="stable")
    sizes, first = np.unique(counts[order], return_index=True)
    for size, rows in zip(sizes.tolist(), np.split(order, first[1:]), strict=True):
        if size:
            some = x[start[rows][:, None] + np.arange(size)]
            some.sort(axis=1)
            yield rows, some


def _quantile(values: pa.Array, counts: np.ndarray, fraction: float) -> pa.Array:
    """Return the value at a fraction of the sorted values, linear between two. NaN is the greatest value."""
    x, counts = _numbers(values, counts)
    out = np.zeros(len(counts))
    with np.errstate(all="ignore"):
        for rows, some in _sorted(x, counts):
            place = fraction * (some.shape[1] - 1)
            low = int(place)
            a, b = some[:, low], some[:, min(low + 1, some.shape[1] - 1)]
            out[rows] = a if place == low else np.where(a == b, a, a + (b - a) * (place - low))
    return _doubles(out, counts > 0)


def _distinct(values: pa.Array, counts: np.ndarray, _: float) -> pa.Array:
    values, counts = _present(values, counts)
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_decimal(values.type) and values.type.bit_width < 128:
        values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    if pa.types.is_floating(values.type):  # NaN equals NaN, and 0.0 equals -0.0
        x = np.asarray(values.cast(pa.float64())) + 0.0
        values = whole_numbers(np.where(np.isnan(x), np.nan, x).view(np.int64))
    out = np.zeros(len(counts), dtype=np.int64)
    for rows, codes in _sorted(np.asarray(values.dictionary_encode().indices), counts):
        out[rows] = 1 + np.count_nonzero(codes[:, 1:] != codes[:, :-1], axis=1)
    return whole_numbers(out)


def _place(values: pa.Array, counts: np.ndarray, last: bool) -> pa.Array:
    """Return the first or last value of each list."""
    ends = np.cumsum(counts)
    at = whole_numbers(np.where(counts > 0, ends - 1 if last else ends - counts, 0))
    there = bitmap(counts > 0)
    index = pa.Array.from_buffers(pa.int64(), len(at), [there, at.buffers()[1]])
    return values.take(index)


def _any(values: pa.Array, counts: np.ndarray, _: float) -> pa.Array:
    return _place(*_present(values, counts), False)


def _listed(values: pa.Array, counts: np.ndarray, _: float) -> pa.Array:
    ends = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=ends[1:])
    buffers = [bitmap(counts > 0), pa.py_buffer(ends)]
    return pa.Array.from_buffers(pa.list_(values.type), len(counts), buffers, children=[values])


REDUCTIONS: dict[str, Callable[[pa.Array, np.ndarray, float], pa.Array]] = {
    "median": _quantile,
    "quantile": _quantile,
    "count_distinct": _distinct,
    "any_value": _any,
    "first": lambda v, n, _: _place(v, n, False),
    "last": lambda v, n, _: _place(v, n, True),
    "array_agg": _listed,
}
