"""Read a whole table as one side of a lookup: its keys and the values that compare rows, without copies if possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ivjoin.conditions.evaluate import Vector
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.frontier.tracking import Frontier
from ivjoin.operator.intake import Intake
from ivjoin.operator.picks.ranks import Moved
from ivjoin.operator.picks.reading import Reader, Rows
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import Picking
from ivjoin.shj.store.keys import IntKeys, KeyTable

__all__ = ["LookupSide", "SideReader", "Sorted", "Term", "count_to"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1

Term = tuple[int, int, int]  # left line, right line, offset: a bound of the right value


@dataclass(slots=True)
class LookupSide:
    """The rows of a side.

    Attributes
    ----------
    kids : int64[n]
        Keys; see :class:`~ivjoin.operator.lookup.key_ids.KeyIds`.
    vals : int64[lines, n]
    usable : bool[n] or None
        Rows that can match at all; None for all.
    """

    kids: np.ndarray
    vals: np.ndarray
    usable: np.ndarray | None

    def __len__(self) -> int:
        return len(self.kids)

    @classmethod
    def of(cls, parts: Sequence[Rows]) -> LookupSide | None:
        """Join the rows of batches; None if the whole condition decides the pairs of some row."""
        if any((p.wild is not None and p.wild.any()) or (p.odd is not None and p.odd.any()) for p in parts):
            return None
        one = len(parts) == 1
        usable = parts[0].usable if one else np.concatenate([p.usable for p in parts])
        return cls(
            parts[0].kids if one else np.concatenate([p.kids for p in parts]),
            parts[0].vals if one else np.concatenate([p.vals for p in parts], axis=1),
            None if usable.all() else usable,
        )


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
        Values of the lines that bounds read, in order.
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


class SideReader(Reader):
    """Reads batches of tables. A key that is one whole number stays as it is: its id is found later."""

    def __init__(self, plan: JoinPlan, picking: Picking) -> None:
        super().__init__(plan, picking, Intake(plan, (Frontier([], {}), Frontier([], {}))), _moved)

    def _kids(
        self, s: int, n: int, values: dict[Node, Vector], keys: KeyTable, usable: np.ndarray | None
    ) -> np.ndarray:
        if isinstance(keys, IntKeys):
            return np.ascontiguousarray(self._intake.ordinals(self._plan.sides[s].keys[0], values, {}))
        return super()._kids(s, n, values, keys, usable)

    def _lines(self, s: int, n: int, values: dict[Node, Vector], usable: np.ndarray) -> np.ndarray:
        node, *more = self._picking.lines[s]
        if more or (s == 1 and (self.ranks or self._picking.flags)):
            return super()._lines(s, n, values, usable)
        # Rows without a value are not usable, so their words do not matter.
        return np.ascontiguousarray(ordinals(values[node].values, node.type))[None]


def _moved(_: int) -> Moved:
    def nothing(image: Callable[[np.ndarray], np.ndarray]) -> None:
        raise AssertionError("labels change, though all values came at once")

    return nothing


def count_to(values: np.ndarray, bound: int, closed: bool) -> int:
    """Return how many values, which rise, are less than a bound (``closed``: no greater), which may leave int64."""
    if bound > I64_MAX:
        return len(values)
    return 0 if bound < I64_MIN else int(np.searchsorted(values, bound, side="right" if closed else "left"))
