"""A whole table in the order in which a lookup goes through it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Sorted", "Term", "count_to"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1

Term = tuple[int, int, int]  # left axis, right axis, offset: a bound of the right value


@dataclass(slots=True)
class Sorted:
    """A side in the order in which passes go through it.

    Attributes
    ----------
    keys : int64[n]
        Keys of all rows of the side; see :class:`~ivjoin.operator.lookup.key_ids.KeyIds`.
    order : int32[m], int64[m] or None
        The rows in order; None for all rows as they lie.
    lines : dict of int to int64[m]
        Values of the axes that bounds read, in order.
    numbers : int64[n] or None
        The number of each row in its table; None for all rows of the table.
    """

    keys: np.ndarray
    order: np.ndarray | None
    lines: dict[int, np.ndarray]
    numbers: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.keys) if self.order is None else len(self.order)

    @property
    def lies_in_order(self) -> bool:
        """Whether the rows in order are all rows of the table as they lie."""
        return self.order is None and self.numbers is None

    def rows_at(self, places: np.ndarray) -> np.ndarray:
        """Return the numbers of rows in order : int64[k]."""
        for index in (self.order, self.numbers):
            if index is not None:
                places = index.take(places)
        return places.astype(np.int64, copy=False)

    def kids(self, start: int, end: int) -> np.ndarray:
        """Return the keys of some rows in order."""
        return self.keys[start:end] if self.order is None else self.keys.take(self.order[start:end])


def count_to(values: np.ndarray, bound: int, closed: bool) -> int:
    """Return how many values, which rise, are less than a bound (``closed``: no greater), which may leave int64."""
    if bound > I64_MAX:
        return len(values)
    return 0 if bound < I64_MIN else int(np.searchsorted(values, bound, side="right" if closed else "left"))
