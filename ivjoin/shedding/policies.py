"""What a row is worth: how likely the other side is to send it a partner, and for how long.

Das, Gehrke and Riedewald (SIGMOD 2003). What the other side sends is learnt from what it has sent, what is long ago
counting less: of keys by a count-min sketch (Cormode and Muthukrishnan, 2005), of values by a sample that forgets
(Aggarwal, VLDB 2006), both of fixed size. The operator and :func:`ivjoin.shedding.replay` use the same code.
"""

from __future__ import annotations

import numpy as np

__all__ = ["POLICIES", "DecayedCounts", "DecayedSample", "worth"]

POLICIES = ("random", "prob", "life")

_DEPTH = 3
_SHIFTS = np.array([0, 21, 42], dtype=np.uint64)


def worth(policy: str, tickets: np.ndarray, chance: np.ndarray, life: np.ndarray) -> np.ndarray:
    """What rows are worth keeping, each : float64[n].

    Parameters
    ----------
    policy : {"random", "prob", "life"}
    tickets : float64[n]
        At random, from 0 to 1; they also decide between rows that are worth the same.
    chance : float64[n]
        In proportion to how likely the next row of the other side matches.
    life : float64[n]
        What is left of the row's time.
    """
    if policy == "random":
        return tickets
    value = chance if policy == "prob" else chance * life
    # A part in a million, so that no kind of row goes first for where it is stored.
    return np.asarray(value * (1 + 1e-6 * tickets) + 1e-300 * tickets)


def _mixed(keys: np.ndarray) -> np.ndarray:
    """Keys as 63 bits without a pattern (the finalizer of MurmurHash3)."""
    x = np.asarray(keys).astype(np.uint64)
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return np.asarray(x ^ (x >> np.uint64(33)))


class DecayedCounts:
    """How often each key has come, what is long ago counting less: a count-min sketch with exponential decay.

    Parameters
    ----------
    width : int
        Counters a row of the sketch, a power of two up to 2**21.
    half_life : float
        Rows after which a row counts half.
    """

    def __init__(self, width: int, half_life: float) -> None:
        self._count = np.zeros((_DEPTH, width), dtype=np.float64)
        self._mask = np.uint64(width - 1)
        self._unit, self._decay = 1.0, 0.5 ** (1 / half_life)

    @property
    def nbytes(self) -> int:
        return self._count.nbytes

    def see(self, keys: np.ndarray, rows: int | None = None) -> None:
        """Rows with these keys, whole numbers, have come; ``rows`` with those that have no key."""
        places = self._places(keys)
        for counts, at in zip(self._count, places, strict=True):
            np.add.at(counts, at, self._unit)
        self._unit /= self._decay ** (len(keys) if rows is None else rows)
        if self._unit > 1e200:
            self._count /= self._unit
            self._unit = 1.0

    def of(self, keys: np.ndarray) -> np.ndarray:
        """What the keys have counted so far : float64[n], in proportion to how likely the next row has one of them."""
        places = self._places(keys)
        return np.minimum.reduce([c[at] for c, at in zip(self._count, places, strict=True)]) / self._unit

    def _places(self, keys: np.ndarray) -> np.ndarray:
        return ((_mixed(keys)[None, :] >> _SHIFTS[:, None]) & self._mask).astype(np.int64)


class DecayedSample:
    """A sample of the values that have come, what is long ago being in it more rarely.

    Parameters
    ----------
    size : int
    rng : numpy.random.Generator
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self._values = np.empty(size, dtype=np.int64)
        self._n, self._rng = 0, rng

    def see(self, values: np.ndarray, half_life: float) -> None:
        """These values have come; a place in the sample is given to another so that half of it lasts a half-life."""
        free = min(len(values), len(self._values) - self._n)
        self._values[self._n : self._n + free] = values[:free]
        self._n += free
        rest = values[free:]
        rate = min(1.0, np.log(2) * len(self._values) / half_life)
        new = rest[self._rng.random(len(rest)) < rate]
        self._values[self._rng.integers(0, len(self._values), len(new))] = new

    def mass(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The share of values in closed intervals : float64[n]; never quite nothing."""
        if not self._n:
            return np.ones(len(low))
        values = np.sort(self._values[: self._n])
        inside = np.searchsorted(values, high, "right") - np.searchsorted(values, low, "left")
        return np.asarray((np.maximum(inside, 0) + 0.5) / (self._n + 1))
