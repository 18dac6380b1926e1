"""The value of a row: how likely a match from the other side is, and for how long.

After Das, Gehrke and Riedewald (SIGMOD 2003). The future of a side is estimated from its past rows, older ones with
lower weight. Keys are counted by a count-min sketch (Cormode and Muthukrishnan, 2005), values by a biased sample
(Aggarwal, VLDB 2006), both of fixed size.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

__all__ = ["POLICIES", "DecayedCounts", "DecayedSample", "Policy", "worth"]

Policy = Literal["random", "prob", "life"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

_DEPTH = 3
_SHIFTS = np.array([0, 21, 42], dtype=np.uint64)


def worth(policy: str, tickets: np.ndarray, chance: np.ndarray, life: np.ndarray) -> np.ndarray:
    """Return the worth of each row : float64[n].

    ``tickets`` are random numbers from 0 to 1 that also decide ties. ``chance`` is proportional to the chance that the
    next row of the other side matches, and ``life`` the remaining time of the row.
    """
    if policy == "random":
        return tickets
    value = chance if policy == "prob" else chance * life
    # The ticket changes the worth by a millionth, so that ties are broken at random and not by the order of rows.
    return np.asarray(value * (1 + 1e-6 * tickets) + 1e-300 * tickets)


def _mixed(keys: np.ndarray) -> np.ndarray:
    """Return keys as 63 mixed bits (the finalizer of MurmurHash3)."""
    x = np.asarray(keys).astype(np.uint64)
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return np.asarray(x ^ (x >> np.uint64(33)))


class DecayedCounts:
    """Counts of keys, with a lower weight for older rows: a count-min sketch with exponential decay.

    ``width``: counters a row of the sketch, a power of two up to 2**21. ``half_life``: rows after which a row counts
    half.
    """

    def __init__(self, width: int, half_life: float) -> None:
        self._count = np.zeros((_DEPTH, width), dtype=np.float64)
        self._mask = np.uint64(width - 1)
        self._unit, self._decay = 1.0, 0.5 ** (1 / half_life)

    @property
    def nbytes(self) -> int:
        return self._count.nbytes

    def see(self, keys: np.ndarray, rows: int | None = None) -> None:
        """Count rows with these keys, which are integers; ``rows`` includes the rows without a key."""
        places = self._places(keys)
        for counts, at in zip(self._count, places, strict=True):
            np.add.at(counts, at, self._unit)
        self._unit /= self._decay ** (len(keys) if rows is None else rows)
        if self._unit > 1e200:
            self._count /= self._unit
            self._unit = 1.0

    def of(self, keys: np.ndarray) -> np.ndarray:
        """Return the counts of keys : float64[n], proportional to the chance that the next row has the key."""
        places = self._places(keys)
        return np.minimum.reduce([c[at] for c, at in zip(self._count, places, strict=True)]) / self._unit

    def _places(self, keys: np.ndarray) -> np.ndarray:
        return ((_mixed(keys)[None, :] >> _SHIFTS[:, None]) & self._mask).astype(np.int64)


class DecayedSample:
    """A sample of the values so far, biased toward recent ones."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self._values = np.empty(size, dtype=np.int64)
        self._n, self._rng = 0, rng

    def see(self, values: np.ndarray, half_life: float) -> None:
        """Add values to the sample, replacing others at random so that half of the sample is older than a half-life."""
        free = min(len(values), len(self._values) - self._n)
        self._values[self._n : self._n + free] = values[:free]
        self._n += free
        rest = values[free:]
        rate = min(1.0, np.log(2) * len(self._values) / half_life)
        new = rest[self._rng.random(len(rest)) < rate]
        self._values[self._rng.integers(0, len(self._values), len(new))] = new

    def mass(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the share of values in closed intervals : float64[n]; always above 0."""
        if not self._n:
            return np.ones(len(low))
        values = np.sort(self._values[: self._n])
        inside = np.searchsorted(values, high, "right") - np.searchsorted(values, low, "left")
        return np.asarray((np.maximum(inside, 0) + 0.5) / (self._n + 1))
