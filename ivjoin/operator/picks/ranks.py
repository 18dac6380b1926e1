"""Integer labels for text, bytes and long decimals that compare as the values do.

Each distinct stored value has a label, with gaps between labels for later values. If a gap is full, all values get new
labels, and the owner of the old labels is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.expr.types import Type
from ivjoin.shj.arrow import Bytes, counted, whole_numbers
from ivjoin.shj.kernels.output import byte_kernels

__all__ = ["Moved", "Ranks"]

_TOP = 1 << 62  # labels lie between 0, which stands for no value, and this
_APART = 1 << 32  # distance of new labels before the first and after the last one
_FEW = 1024  # labels of values no longer stored that may stay

Moved = Callable[[Callable[[np.ndarray], np.ndarray]], None]


class Ranks:
    """The labels of the values of one expression."""

    def __init__(self) -> None:
        # Rising values with their labels, and 0 and _TOP at the ends. Each level is more than twice as long as the
        # next.
        self._levels: list[tuple[Bytes, np.ndarray]] = []

    def __len__(self) -> int:
        return sum(len(ends) - 2 for _, ends in self._levels)

    @property
    def nbytes(self) -> int:
        return sum(words.offsets.nbytes + words.buffer.nbytes + ends.nbytes for words, ends in self._levels)

    def labels(self, values: Any, t: Type, there: np.ndarray, moved: Moved) -> np.ndarray:
        """Return labels of values : int64[n], positive.

        Parameters
        ----------
        values : pa.Array or object[n]
            As in ``Vector.values``.
        t : Type
        there : bool[n]
            Rows with a value; the others get 0.
        moved : callable
            Called, before the labels are returned, with a function from old labels : int64[m] to new ones.
        """
        import pyarrow.compute as pc

        out = np.zeros(len(there), dtype=np.int64)
        at = np.flatnonzero(there)
        if not len(at):
            return out
        coded = pc.dictionary_encode(_octets(values, t, at))
        order = counted(pc.sort_indices(coded.dictionary))
        found = np.empty(len(order), dtype=np.int64)
        found[order] = self._of(_some(Bytes.of(coded.dictionary), order), moved)
        out[at] = found[counted(coded.indices)]
        return out

    def _of(self, words: Bytes, moved: Moved) -> np.ndarray:
        """Return the labels of rising values : int64[n]."""
        n = len(words.offsets) - 1
        label, low, high = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.full(n, _TOP)
        place = np.empty(n, dtype=np.int64)
        for known, ends in self._levels:
            byte_kernels.places(words.offsets, words.buffer, known.offsets, known.buffer, place)
            at, same = place >> 1, (place & 1) != 0
            label[same] = ends[at[same] + 1]
            np.maximum(low, ends[at], out=low)
            np.minimum(high, ends[at + 1], out=high)
        new = np.flatnonzero(label == 0)
        if not len(new):
            return label
        fresh = _between(low[new], high[new])
        if fresh is None:
            self._spread(moved)
            return self._of(words, moved)
        label[new] = fresh
        self._levels.append((words if len(new) == n else _some(words, new), _ended(fresh)))
        while len(self._levels) > 1 and len(self._levels[-2][1]) <= 2 * len(self._levels[-1][1]):
            (a, first), (b, second) = self._levels[-2:]
            labels = np.concatenate((first[1:-1], second[1:-1]))
            order = np.argsort(labels, kind="stable")
            self._levels[-2:] = [(_some(_both(a, b), order), _ended(labels[order]))]
        return label

    def _spread(self, moved: Moved) -> None:
        """Give all values new labels with the largest possible gaps."""
        old = np.sort(np.concatenate([ends[1:-1] for _, ends in self._levels]))
        step = _TOP // (2 * (len(old) + 1))
        new = _TOP // 4 + step * np.arange(len(old), dtype=np.int64)

        def image(labels: np.ndarray) -> np.ndarray:
            return np.where(labels == 0, 0, new[np.searchsorted(old, labels)])

        self._levels = [(words, _ended(image(ends[1:-1]))) for words, ends in self._levels]
        moved(image)

    def forget(self, rows: int, used: Callable[[], list[np.ndarray]]) -> None:
        """Drop unused labels if they may be many. ``rows``: number of stored rows; ``used`` returns their labels."""
        if len(self) <= 2 * rows + _FEW:
            return
        live = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *used()]))
        levels = []
        for words, ends in self._levels:
            at = np.flatnonzero(np.isin(ends[1:-1], live, assume_unique=True))
            if len(at):
                levels.append((_some(words, at), _ended(ends[at + 1])))
        self._levels = levels


def _ended(labels: np.ndarray) -> np.ndarray:
    out = np.empty(len(labels) + 2, dtype=np.int64)
    out[0], out[1:-1], out[-1] = 0, labels, _TOP
    return out


def _some(words: Bytes, at: np.ndarray) -> Bytes:
    return Bytes.gather(words.offsets[at], words.offsets[at + 1] - words.offsets[at], words.buffer)


def _both(a: Bytes, b: Bytes) -> Bytes:
    """Concatenate byte strings; both start at offset 0."""
    offsets = np.concatenate((a.offsets, b.offsets[1:] + a.offsets[-1]))
    return Bytes(offsets, np.concatenate((a.buffer, b.buffer)))


def _between(low: np.ndarray, high: np.ndarray) -> np.ndarray | None:
    """Return rising labels, each between its ends, or None if a gap is too small. Equal ends are adjacent."""
    n = len(low)
    starts = np.flatnonzero(np.concatenate(([True], low[1:] != low[:-1])))
    sizes = np.diff(starts, append=n)
    number = np.arange(n) - np.repeat(starts, sizes) + 1
    step = (high[starts] - low[starts]) // (sizes + 1)
    if not step.all():
        return None
    first = low[starts]
    near = np.minimum(step, _APART)
    at_front, at_end = low[starts] == 0, high[starts] == _TOP
    step = np.where(at_front | at_end, near, step)
    # Before all other labels or after them: close to the next one. Without other labels: in the middle.
    ahead = np.where(at_end, _TOP // 2 - step * (sizes // 2), high[starts] - step * (sizes + 1))
    first = np.where(at_front, ahead, first)
    return np.repeat(first, sizes) + np.repeat(step, sizes) * number


def _octets(values: Any, t: Type, at: np.ndarray) -> pa.Array:
    """Return values as bytes that compare as the values do."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        found = values if len(at) == len(values) else values.take(whole_numbers(at))
        return found.cast(pa.large_binary())
    # Arrow lets a column have numbers of more digits than its type.
    size = 32 if t.kind == "decimal" else 33 + t.precision // 2
    half = 1 << (8 * size - 1)
    return pa.array([(int(v) + half).to_bytes(size, "big") for v in values[at]], pa.large_binary())
