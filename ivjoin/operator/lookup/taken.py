"""Record the right rows that a left row has taken, by their order of arrival."""

from __future__ import annotations

import numpy as np

__all__ = ["TakenRows"]

_FEW = 1 << 16


class TakenRows:
    """A set of arrival numbers. None of them is below the least number of the stored rows."""

    def __init__(self) -> None:
        self._start = 0
        self._flags = np.zeros(_FEW, dtype=bool)

    @property
    def nbytes(self) -> int:
        return self._flags.nbytes

    def add(self, seq: np.ndarray) -> None:
        if not len(seq):
            return
        most = int(seq.max()) - self._start
        if most >= len(self._flags):
            self._flags = np.concatenate((self._flags, np.zeros(most + 1, dtype=bool)))
        self._flags[seq - self._start] = True

    def of(self, seq: np.ndarray) -> np.ndarray:
        """Return which numbers are in the set : bool[n]."""
        at = seq - self._start
        known = at < len(self._flags)
        return known & self._flags[np.where(known, at, 0)]

    def forget(self, least: int) -> None:
        """Drop the numbers below ``least``, if these are at least half of the set."""
        gone = min(least - self._start, len(self._flags))
        if gone > _FEW and 2 * gone > len(self._flags):
            self._flags, self._start = np.append(self._flags[gone:], np.zeros(_FEW, dtype=bool)), self._start + gone
