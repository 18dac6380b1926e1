"""Reductions of ranges of an array: sums, least and greatest values of ``values[lo[i]:hi[i]]`` for many i at once.

Sums of whole numbers are differences of running sums, which are exact: each number is split into limbs of 32 bits, and
2^31 limbs add up without overflow. Doubles are whole multiples of a power of two, so their sums are exact in the same
way and rounded once, unless their magnitudes are too far apart or one is infinite or NaN. Those sums, and least and
greatest values, are computed range by range if ranges are short. If they are long, a segment tree (Bentley 1977)
composes each range from blocks that lie within it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ivjoin.operator.lookup.tables.ordered import rises
from ivjoin.shj.kernels.lookup import sum_kernels

__all__ = [
    "DoubleSums", "Ranges", "limbs_of", "quotients", "range_sums", "running", "spread", "tree_of", "widened",
    "words_of_limbs",
]  # fmt: skip

_LONG = 96  # a tree pays for ranges with more values than this on average
_MASK = np.int64(0xFFFFFFFF)
_LIMB = 62  # bits of a sum of limbs, beside its sign
_ONE = 1075  # the exponent of a double whose unit is 1
_EXACT = 2**53  # doubles represent all whole numbers up to here


@dataclass(slots=True)
class Ranges:
    """Ranges ``lo[i] <= k < hi[i]`` : int64[m] of an array."""

    lo: np.ndarray
    hi: np.ndarray
    _kept: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lo)

    @property
    def sizes(self) -> np.ndarray:
        return self._once("sizes", lambda: self.hi - self.lo)

    @property
    def total(self) -> int:
        return int(self._once("total", self.sizes.sum))

    @property
    def filled(self) -> np.ndarray:
        """Return the numbers of the ranges that are not empty : int64[f]."""
        return self._once("filled", lambda: np.flatnonzero(self.sizes > 0))

    def _in_step(self) -> bool:
        """Return whether the filled ranges rise, with small gaps between them."""
        lo, hi = self.lo[self.filled], self.hi[self.filled]
        if not rises(lo):
            return False
        gaps = int(np.maximum(lo[1:] - hi[:-1], 0).sum())
        return gaps <= 4 * self.total + 1024

    def positions(self) -> np.ndarray:
        """Return all positions, range by range : int64[total]."""
        return self._once("positions", lambda: spread(self.lo, self.sizes))

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    def reduce(self, ufunc: Any, padded: np.ndarray, identity: Any, tree: Callable[[], list[np.ndarray]]) -> np.ndarray:
        """Return ``ufunc.reduce`` of each range of values; ``identity`` for an empty one.

        ``padded`` has one more value at its end, which is in no range. ``tree`` returns :func:`tree_of` the values.
        """
        out = np.full(len(self), identity, dtype=padded.dtype)
        at = self.filled
        if not len(at):
            return out
        lo, hi = self.lo[at], self.hi[at]
        if self.total > _LONG * len(at):
            out[at] = _by_tree(ufunc, tree(), lo, hi, identity)
        elif self._once("in_step", self._in_step):
            edges = np.empty(2 * len(at), dtype=np.int64)
            edges[0::2], edges[1::2] = lo, hi
            out[at] = ufunc.reduceat(padded[: int(hi.max()) + 1], edges)[0::2]
        else:
            starts = np.cumsum(hi - lo) - (hi - lo)
            out[at] = ufunc.reduceat(padded[self.positions()], starts)
        return out


def spread(lo: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return lo[i], lo[i] + 1, ..., sizes[i] numbers for each i : int64[sizes.sum()]."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(lo - (ends - sizes), sizes)


def tree_of(ufunc: Any, values: np.ndarray) -> list[np.ndarray]:
    """Return the levels of a segment tree; level k has the reductions of the whole blocks of 2^k values."""
    levels = [values]
    while len(levels[-1]) > 1:
        below = levels[-1]
        even = len(below) // 2 * 2
        levels.append(ufunc(below[0:even:2], below[1:even:2]))
    return levels


def _by_tree(ufunc: Any, levels: list[np.ndarray], lo: np.ndarray, hi: np.ndarray, identity: Any) -> np.ndarray:
    """Reduce bottom up: each level adds the odd end blocks of a range, and the rest is a range of doubled blocks."""
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


def limbs_of(values: np.ndarray) -> list[np.ndarray]:
    """Split whole numbers into limbs of 32 bits, the last with the sign; one limb if sums cannot overflow."""
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


@dataclass(frozen=True, slots=True)
class DoubleSums:
    """Running sums of doubles that lose nothing: see ``sum_kernels``."""

    sums: np.ndarray  # int64[2, n + 1], of whole multiples of ``2**unit``, in two limbs
    width: int  # bits of the lower limb
    unit: int

    @classmethod
    def of(cls, values: np.ndarray) -> DoubleSums | None:
        """Add up values : float64[n]; None if one is infinite or NaN, or if their magnitudes are too far apart."""
        bits, ends = np.ascontiguousarray(values).view(np.int64), np.empty(2, dtype=np.int64)
        if not sum_kernels.common_unit(bits, ends):
            return None
        least, most = ends.tolist()
        carries = len(values).bit_length()
        width = _LIMB - carries
        if most - least > width + _LIMB - carries:
            return None
        sums = np.empty((2, len(values) + 1), dtype=np.int64)
        sum_kernels.add_up(bits, least, width, sums)
        return cls(sums, width, least - _ONE)

    def between(self, r: Ranges) -> np.ndarray:
        """Return the sums of ranges, each rounded once, to the nearest double : float64[m]."""
        out = np.empty(len(r), dtype=np.float64)
        sum_kernels.sums_between(self.sums, r.lo, r.hi, self.width, out)
        with np.errstate(over="ignore"):
            return np.ldexp(out, self.unit)


def running(values: np.ndarray) -> np.ndarray:
    """Return running sums : int64[n + 1]."""
    out = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=out[1:])
    return out


def range_sums(sums: np.ndarray, r: Ranges) -> np.ndarray:
    return sums[r.hi] - sums[r.lo]


def words_of_limbs(limbs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (low, high : uint64[m], overflow : bool[m]), the two's complement of 128 bits of sums of limbs."""
    words, carry = [], np.zeros(len(limbs[0]), dtype=np.int64)
    for k in range(4):
        if k < len(limbs):
            carry = carry + limbs[k]
        words.append((carry & _MASK).astype(np.uint64))
        carry = carry >> 32
    low, high = words[0] | (words[1] << np.uint64(32)), words[2] | (words[3] << np.uint64(32))
    return low, high, carry != (high.view(np.int64) >> 63)


def widened(limbs: list[np.ndarray], count: int) -> list[np.ndarray]:
    """Return at least ``count`` limbs: a single limb is split, and zeros are appended."""
    if len(limbs) == 1 and count > 1:
        limbs = [limbs[0] & _MASK, limbs[0] >> 32]
    return [*limbs, *(np.zeros(len(limbs[0]), dtype=np.int64) for _ in range(count - len(limbs)))]


def quotients(limbs: list[np.ndarray], divisors: np.ndarray, unit: int) -> np.ndarray:
    """Divide sums of limbs by ``divisors * unit`` : float64[m], each quotient rounded once. Divisors are positive."""
    low, high, beyond = words_of_limbs(limbs)
    whole = low.view(np.int64)
    most = _EXACT // unit  # the greatest divisor whose product with the unit is an exact double
    plain = ~beyond & (high.view(np.int64) == whole >> 63) & (np.abs(whole) <= _EXACT) & (whole >= -_EXACT)
    plain &= divisors <= most
    out = whole / np.where(plain, divisors * unit if most else 1, 1)
    for i in np.flatnonzero(~plain).tolist():
        out[i] = sum(int(limb[i]) << 32 * k for k, limb in enumerate(limbs)) / (int(divisors[i]) * unit)
    return out
