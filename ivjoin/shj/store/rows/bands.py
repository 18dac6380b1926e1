"""Represent band terms as the probe kernels read them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["BandTable"]


@dataclass(frozen=True, slots=True)
class BandTable:
    """Band terms : int64[b, 4] of (probe axis, store axis, low, high). Terms on the store's first axis come first."""

    terms: np.ndarray
    n_primary: int
    n_second: int = 0
    _turned: dict[tuple[int, int], BandTable] = field(default_factory=dict, compare=False, repr=False)

    @property
    def has_choice(self) -> bool:
        """Whether the terms are on more than one axis of the store."""
        return len(np.unique(self.terms[:, 1])) > 1

    def led_by(self, axis: int, second: int | None = None) -> BandTable:
        """Return the terms with the ``n_primary`` terms on ``axis`` first, then the ``n_second`` terms on ``second``.
        """
        if axis == 0 and second is None:
            return self
        name = axis, -1 if second is None else second
        made = self._turned.get(name)
        if made is None:
            rank = np.where(self.terms[:, 1] == axis, 0, np.where(self.terms[:, 1] == name[1], 1, 2))
            terms = np.ascontiguousarray(self.terms[np.argsort(rank, kind="stable")])
            counts = np.bincount(rank, minlength=3)
            made = self._turned[name] = BandTable(terms, int(counts[0]), int(counts[1]))
        return made
