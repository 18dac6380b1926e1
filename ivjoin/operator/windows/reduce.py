"""Reductions of ranges of an array: sums, least and greatest values of ``values[lo[i]:hi[i]]`` for many i at once.

Sums of whole numbers are differences of running sums, which are exact: a number is cut into limbs of 32 bits, of which
2^31 add up without overflow. Sums of doubles are not found that way, since a difference of running sums loses what
is small beside all that came before, and one NaN or infinity would stay in every later one. They, and least and
greatest values, are reduced range by range where ranges are short, and by a segment tree (Bentley 1977) where they are
long: a range is put together from blocks that lie within it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = [
    "Ranges", "limbs_of", "quotients", "range_sums", "running", "spread", "tree_of", "widened", "words_of_limbs",
]  # fmt: skip

_LONG = 96  # values of a range, on average, from which a tree pays
_MASK = np.int64(0xFFFFFFFF)
_EXACT = 2**53  # whole numbers up to here are doubles


@dataclass(slots=True)
class Ranges:
    """Ranges ``lo[i] <= k < hi[i]`` : int64[m] of some array, and what is known of them all."""

    lo: np.ndarray
    hi: np.ndarray
    _kept: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lo)

    @property
    def sizes(self) -> np.ndarray:
        """int64[m]"""
        return self._once("sizes", lambda: self.hi - self.lo)

    @property
    def total(self) -> int:
        """Of all sizes."""
        return int(self._once("total", self.sizes.sum))

    @property
    def filled(self) -> np.ndarray:
        """int64[f]: which ranges hold something."""
        return self._once("filled", lambda: np.flatnonzero(self.sizes > 0))

    @property
    def in_step(self) -> bool:
        """Whether the filled ranges begin one after the other, with little room between them."""
        return bool(self._once("in_step", self._in_step))

    def _in_step(self) -> bool:
        lo, hi = self.lo[self.filled], self.hi[self.filled]
        if not bool((lo[:-1] <= lo[1:]).all()):
            return False
        gaps = int(np.maximum(lo[1:] - hi[:-1], 0).sum())
        return gaps <= 4 * self.total + 1024

    def positions(self) -> np.ndarray:
        """int64[total]: all positions, range by range."""
        return self._once("positions", lambda: spread(self.lo, self.sizes))

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    def reduce(self, ufunc: Any, padded: np.ndarray, identity: Any, tree: Callable[[], list[np.ndarray]]) -> np.ndarray:
        """``ufunc.reduce`` of each range; ``identity`` for an empty one.

        Parameters
        ----------
        padded : ndarray[n + 1]
            The values, and one more that is in no range.
        tree : callable
            Gives :func:`tree_of` the values, where ranges are long.
        """
        out = np.full(len(self), identity, dtype=padded.dtype)
        at = self.filled
        if not len(at):
            return out
        lo, hi = self.lo[at], self.hi[at]
        if self.total > _LONG * len(at):
            out[at] = _by_tree(ufunc, tree(), lo, hi, identity)
        elif self.in_step:
            edges = np.empty(2 * len(at), dtype=np.int64)
            edges[0::2], edges[1::2] = lo, hi
            out[at] = ufunc.reduceat(padded[: int(hi.max()) + 1], edges)[0::2]
        else:
            starts = np.cumsum(hi - lo) - (hi - lo)
            out[at] = ufunc.reduceat(padded[self.positions()], starts)
        return out


def spread(lo: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """lo[i], lo[i] + 1, ... sizes[i] of them, for each i : int64[sizes.sum()]."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(lo - (ends - sizes), sizes)


def tree_of(ufunc: Any, values: np.ndarray) -> list[np.ndarray]:
    """Level k has the reductions of the whole blocks of 2^k values."""
    levels = [values]
    while len(levels[-1]) > 1:
        below = levels[-1]
        even = len(below) // 2 * 2
        levels.append(ufunc(below[0:even:2], below[1:even:2]))
    return levels


def _by_tree(ufunc: Any, levels: list[np.ndarray], lo: np.ndarray, hi: np.ndarray, identity: Any) -> np.ndarray:
    """From the bottom: a range gives its odd ends to the sum, and what is left is a range of blocks twice as long."""
    first = np.full(len(lo), identity, dtype=levels[0].dtype)
    last = first.copy()
    out = first.copy()
    at = np.arange(len(lo))
    for level in levels:
        odd = (lo & 1).astype(bool)
        if odd.any():
            first[at[odd]] = ufunc(first[at[odd]], level[lo[odd]])
            lo = lo + odd
        odd = (hi & 1).astype(bool) & (hi > lo)
        if odd.any():
            last[at[odd]] = ufunc(level[hi[odd] - 1], last[at[odd]])
        lo, hi = lo >> 1, hi >> 1
        left = lo < hi
        if not left.all():
            at, lo, hi = at[left], lo[left], hi[left]
        if not len(at):
            break
    out[:] = ufunc(first, last)
    return out


# -- exact sums -------------------------------------------------------------------------------------------------------


def limbs_of(values: np.ndarray) -> list[np.ndarray]:
    """Whole numbers as limbs of 32 bits, least first; the last has the sign. Whole where sums of them stay whole.

    Parameters
    ----------
    values : intN[n], uintN[n], bool[n], or object[n] of Python ints
    """
    if values.dtype == object:
        out = []
        for _ in range(3):
            out.append((values & 0xFFFFFFFF).astype(np.int64))
            values = values >> 32
        return [*out, values.astype(np.int64)]
    if values.dtype == np.uint64:
        return [(values & np.uint64(_MASK)).astype(np.int64), (values >> np.uint64(32)).astype(np.int64)]
    v = values.astype(np.int64, copy=False)
    if not len(v):
        return [v]
    most = max(abs(int(v.min())), abs(int(v.max())))
    return [v] if most * len(v) < 2**62 else [v & _MASK, v >> 32]


def running(values: np.ndarray) -> np.ndarray:
    """int64[n + 1]: running sums."""
    out = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=out[1:])
    return out


def range_sums(sums: np.ndarray, r: Ranges) -> np.ndarray:
    """int64[m], from :func:`running` sums."""
    return sums[r.hi] - sums[r.lo]


def words_of_limbs(limbs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(low, high : uint64[m], beyond : bool[m]): two's complement of 128 bits of sums of limbs."""
    words, carry = [], np.zeros(len(limbs[0]), dtype=np.int64)
    for k in range(4):
        if k < len(limbs):
            carry = carry + limbs[k]
        words.append((carry & _MASK).astype(np.uint64))
        carry = carry >> 32
    low, high = words[0] | (words[1] << np.uint64(32)), words[2] | (words[3] << np.uint64(32))
    return low, high, carry != (high.view(np.int64) >> 63)


def widened(limbs: list[np.ndarray], count: int) -> list[np.ndarray]:
    """Limbs of which there are more: a whole number that was kept whole is cut, the others get empty ones."""
    if len(limbs) == 1 and count > 1:
        limbs = [limbs[0] & _MASK, limbs[0] >> 32]
    return [*limbs, *(np.zeros(len(limbs[0]), dtype=np.int64) for _ in range(count - len(limbs)))]


def quotients(limbs: list[np.ndarray], divisors: np.ndarray, unit: int) -> np.ndarray:
    """Divide sums of limbs by ``divisors * unit`` : float64[m], each quotient rounded once.

    Parameters
    ----------
    divisors : int64[m], positive
    unit : int, positive
    """
    low, high, beyond = words_of_limbs(limbs)
    whole = low.view(np.int64)
    most = _EXACT // unit  # the greatest divisor whose product with the unit is a double
    plain = ~beyond & (high.view(np.int64) == whole >> 63) & (np.abs(whole) <= _EXACT) & (whole >= -_EXACT)
    plain &= divisors <= most
    out = whole / np.where(plain, divisors * unit if most else 1, 1)
    for i in np.flatnonzero(~plain).tolist():
        out[i] = sum(int(limb[i]) << 32 * k for k, limb in enumerate(limbs)) / (int(divisors[i]) * unit)
    return out
