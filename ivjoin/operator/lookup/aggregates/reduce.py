"""Reduce many ranges of an array at once: sums, least and greatest values of ``values[lo[i]:hi[i]]``.

Sums of whole numbers are differences of running sums. They are exact, because each number is split into limbs of 32
bits, and 2^31 limbs add up without overflow. Doubles are multiples of a power of two, so the same method sums them
exactly and rounds once. This fails if a value is infinite or NaN, or if the magnitudes differ too much. For such
doubles, and for places of least values, a tree combines the results of blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ivjoin.shj.kernels.lookup import sum_kernels, tree_kernels

__all__ = [
    "DoubleSums", "LeastTree", "Ranges", "SumTree", "limbs_of", "quotients", "range_sums", "running", "spread",
    "widened", "words_of_limbs",
]  # fmt: skip

_MASK = np.int64(0xFFFFFFFF)
_LIMB = 62  # bits of a sum of limbs, without its sign
_ONE = 1075  # the exponent of a double whose unit is 1
_EXACT = 2**53  # doubles represent all whole numbers up to this one exactly


@dataclass(slots=True)
class Ranges:
    """The ranges ``lo[i] <= k < hi[i]`` : int64[m] of an array."""

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

    def positions(self) -> np.ndarray:
        """Return all positions, range by range : int64[total]."""
        return self._once("positions", lambda: spread(self.lo, self.sizes))

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]


def spread(lo: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the positions lo[i], lo[i] + 1, ... of each range i, sizes[i] of them : int64[sizes.sum()]."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(lo - (ends - sizes), sizes)


def limbs_of(values: np.ndarray) -> list[np.ndarray]:
    """Split whole numbers into limbs of 32 bits.

    The last limb has the sign. If sums cannot overflow, return one limb.
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


@dataclass(frozen=True, slots=True)
class DoubleSums:
    """Exact running sums of doubles. See ``sum_kernels``."""

    sums: np.ndarray  # int64[2, n + 1], multiples of ``2**unit``, in two limbs
    width: int  # bits of the lower limb
    unit: int

    @classmethod
    def of(cls, values: np.ndarray) -> DoubleSums | None:
        """Add up float64[n] values. Return None if one is infinite or NaN, or if the magnitudes differ too much."""
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
        """Return the sums of ranges : float64[m], each rounded once to the nearest double."""
        out = np.empty(len(r), dtype=np.float64)
        sum_kernels.sums_between(self.sums, r.lo, r.hi, self.width, out)
        with np.errstate(over="ignore"):
            return np.ldexp(out, self.unit)


@dataclass(frozen=True, slots=True)
class SumTree:
    """Sums of doubles by blocks, rounded after each addition. See ``tree_kernels``."""

    tree: np.ndarray  # float64[2 n]

    @classmethod
    def of(cls, values: np.ndarray) -> SumTree:
        tree = np.concatenate((values, values))
        tree_kernels.grow_sums(tree)
        return cls(tree)

    def between(self, r: Ranges) -> np.ndarray:
        """Return the sums of ranges : float64[m]."""
        out = np.empty(len(r), dtype=np.float64)
        tree_kernels.sums_within(self.tree, r.lo, r.hi, out)
        return out


@dataclass(frozen=True, slots=True)
class LeastTree:
    """The places of least values by blocks. See ``tree_kernels``."""

    values: np.ndarray  # int64[n]
    tree: np.ndarray  # int64[n]

    @classmethod
    def of(cls, values: np.ndarray) -> LeastTree:
        values, tree = np.ascontiguousarray(values), np.zeros(len(values), dtype=np.int64)
        tree_kernels.grow_least(values, tree)
        return cls(values, tree)

    def places(self, r: Ranges) -> np.ndarray:
        """Return the place of a least value of each range : int64[m], and -1 for an empty range."""
        out = np.empty(len(r), dtype=np.int64)
        tree_kernels.least_within(self.values, self.tree, r.lo, r.hi, out)
        return out


def running(values: np.ndarray) -> np.ndarray:
    """Return running sums : int64[n + 1]."""
    out = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=out[1:])
    return out


def range_sums(sums: np.ndarray, r: Ranges) -> np.ndarray:
    return sums[r.hi] - sums[r.lo]


def words_of_limbs(limbs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (low, high : uint64[m], overflow : bool[m]): sums of limbs as 128 bits in two's complement."""
    words, carry = [], np.zeros(len(limbs[0]), dtype=np.int64)
    for k in range(4):
        if k < len(limbs):
            carry = carry + limbs[k]
        words.append((carry & _MASK).astype(np.uint64))
        carry = carry >> 32
    low, high = words[0] | (words[1] << np.uint64(32)), words[2] | (words[3] << np.uint64(32))
    return low, high, carry != (high.view(np.int64) >> 63)


def widened(limbs: list[np.ndarray], count: int) -> list[np.ndarray]:
    """Return at least ``count`` limbs. A single limb is split, then zeros are appended."""
    if len(limbs) == 1 and count > 1:
        limbs = [limbs[0] & _MASK, limbs[0] >> 32]
    return [*limbs, *(np.zeros(len(limbs[0]), dtype=np.int64) for _ in range(count - len(limbs)))]


def quotients(limbs: list[np.ndarray], divisors: np.ndarray, unit: int) -> np.ndarray:
    """Divide sums of limbs by ``divisors * unit`` : float64[m].

    Each quotient is rounded once. Divisors are positive.
    """
    low, high, beyond = words_of_limbs(limbs)
    whole = low.view(np.int64)
    most = _EXACT // unit  # the greatest divisor whose product with the unit is exact as a double
    plain = ~beyond & (high.view(np.int64) == whole >> 63) & (np.abs(whole) <= _EXACT) & (whole >= -_EXACT)
    plain &= divisors <= most
    out = whole / np.where(plain, divisors * unit if most else 1, 1)
    for i in np.flatnonzero(~plain).tolist():
        out[i] = sum(int(limb[i]) << 32 * k for k, limb in enumerate(limbs)) / (int(divisors[i]) * unit)
    return out
