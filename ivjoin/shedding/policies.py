"""What a row is worth: how likely the other side is to send it a partner, and for how long."""

from __future__ import annotations

import numpy as np

__all__ = ["POLICIES", "KeyFrequency"]

POLICIES = ("random", "prob", "life")


class KeyFrequency:
    """How often each of a known number of keys has been seen, what is long ago counting less.

    Parameters
    ----------
    size : int
        Keys, numbered from zero on.
    decay : float
        What a row counts one step later.
    """

    def __init__(self, size: int, decay: float) -> None:
        self._count = np.zeros(size, dtype=np.float64)
        self._unit, self._decay = 1.0, decay

    def see(self, key: int) -> None:
        """A row arrives; -1 is a row without a key."""
        self._unit /= self._decay
        if key >= 0:
            self._count[key] += self._unit
        if self._unit > 1e200:
            self._count /= self._unit
            self._unit = 1.0

    def of(self, keys: np.ndarray) -> np.ndarray:
        """What the keys have counted so far: in proportion to how likely the next row has one of them."""
        return self._count[keys] / self._unit
