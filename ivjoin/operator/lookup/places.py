"""The places where values lie in a run: keys and axis values as one rising number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ivjoin.shj.kernels.lookup import grouped_kernels

__all__ = ["Places"]


@dataclass(slots=True)
class Places:
    """Keys and axis values as one rising number: rank of the key * width + place of the value."""

    whole: np.ndarray  # int64[n]
    least: int
    most: int
    width: int
    distinct: np.ndarray | None  # int64[u]: if values are too far apart, places are those in this array

    @classmethod
    def of(cls, values: np.ndarray, starts: np.ndarray, new: np.ndarray) -> Places:
        keys = len(starts) - 1
        least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if keys <= 1:
            return cls(values, least, most, 0, None)
        ranks = np.cumsum(new, dtype=np.int64) - 1
        width = most - least + 1
        if keys * width < 2**63:
            return cls(ranks * width + (values - least), least, most, width, None)
        distinct = np.unique(values)
        width = len(distinct) + 1
        return cls(ranks * width + np.searchsorted(distinct, values), least, most, width, distinct)

    @property
    def nbytes(self) -> int:
        return 0 if not self.width else self.whole.nbytes + (0 if self.distinct is None else self.distinct.nbytes)

    def find(self, rank: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of the values in ``[low, high]`` within the key of each rank; lo >= hi for no values."""
        if not self.width:
            lo = _placed(self.whole, low, False)
            return lo, np.where(low > high, lo, _placed(self.whole, high, True))
        if self.distinct is None:
            none = (low > high) | (low > self.most) | (high < self.least)
            first = np.clip(low, self.least, self.most) - self.least
            last = np.clip(high, self.least, self.most) - self.least
        else:
            none = low > high
            first = np.searchsorted(self.distinct, low, side="left")
            last = np.searchsorted(self.distinct, high, side="right") - 1
        base = rank * self.width
        lo = _placed(self.whole, base + first, False)
        return lo, np.where(none, lo, _placed(self.whole, base + last, True))


def _placed(values: np.ndarray, given: np.ndarray, after: bool) -> np.ndarray:
    """Return where given values belong among rising values : int64[m]. Fast if the given values rise too."""
    out = np.empty(len(given), dtype=np.int64)
    grouped_kernels.place_rising(values, np.ascontiguousarray(given), after, out)
    return out
