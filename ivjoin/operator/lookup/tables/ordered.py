"""A whole table in the order in which a lookup reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["BoundTerm", "Sorted", "count_to", "rises"]

_AT_ONCE = 1 << 16  # values compared per step
BoundTerm = tuple[int, int, int]  # left axis, right axis, offset: a bound of the right value


@dataclass(slots=True)
class Sorted:
    """A side, sorted as passes read it."""

    keys: np.ndarray  # int64[n], of all rows of the side; see ``KeyIds``
    order: np.ndarray | None  # int32[m] or int64[m]: the sorted rows; None for all rows in table order
    lines: dict[int, np.ndarray]  # int64[m]: sorted values of the axes that bounds read
    numbers: np.ndarray | None = None  # int64[n]: the number of each row in its table; None if the side has all rows

    def __len__(self) -> int:
        return len(self.keys) if self.order is None else len(self.order)

    @property
    def lies_in_order(self) -> bool:
        """Return whether the sorted rows are all rows of the table in table order."""
        return self.order is None and self.numbers is None

    def rows_at(self, places: np.ndarray) -> np.ndarray:
        """Return the row numbers at sorted places : int64[k]."""
        for index in (self.order, self.numbers):
            if index is not None:
                places = index.take(places)
        return places.astype(np.int64, copy=False)

    def kids(self, start: int, end: int) -> np.ndarray:
        return self.keys[start:end] if self.order is None else self.keys.take(self.order[start:end])


def rises(values: np.ndarray) -> bool:
    """Return whether no value is less than the one before it."""
    cuts = (values[start : start + _AT_ONCE + 1] for start in range(0, len(values) - 1, _AT_ONCE))
    return all(bool((cut[1:] >= cut[:-1]).all()) for cut in cuts)


def count_to(values: np.ndarray, bound: int, closed: bool) -> int:
    """Return how many of the rising values are less than a bound (``closed``: at most). The bound may exceed int64."""
    if bound > I64_MAX:
        return len(values)
    return 0 if bound < I64_MIN else int(np.searchsorted(values, bound, side="right" if closed else "left"))
