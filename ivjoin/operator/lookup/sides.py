"""Read a whole table as one side of a lookup: its keys and the values that compare rows, without copies if possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.frontier.tracking import Frontier
from ivjoin.operator.intake import Intake
from ivjoin.operator.windows.best import images
from ivjoin.operator.windows.reading import evaluated
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
    def of(cls, parts: Sequence[LookupSide | None]) -> LookupSide | None:
        """Join the rows of batches; None if the whole condition decides the pairs of some row."""
        known = [p for p in parts if p is not None]
        if len(known) < len(parts):
            return None
        if len(known) == 1:
            return known[0]
        usable = [np.ones(len(p), dtype=bool) if p.usable is None else p.usable for p in known]
        every = all(p.usable is None for p in known)
        return cls(
            np.concatenate([p.kids for p in known]), np.concatenate([p.vals for p in known], axis=1),
            None if every else np.concatenate(usable),
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


class SideReader:
    """Reads batches of tables. A key that is one whole number stays as it is: its id is found later."""

    def __init__(self, plan: JoinPlan, picking: Picking) -> None:
        self._plan, self._picking = plan, picking
        self._intake = Intake(plan, (Frontier([], {}), Frontier([], {})))
        self._beyond = self._at_end = False

    @property
    def ends_decide(self) -> bool:
        """Whether values at the ends of int64 decide bands, so that the whole condition decides all pairs."""
        return self._beyond and self._at_end

    def read(self, s: int, batch: pa.RecordBatch, index: dict[str, int], keys: KeyTable) -> LookupSide | None:
        """Return the rows of a batch; None if the whole condition decides the pairs of some row.

        Raises
        ------
        EvaluationError
            If a key, an expression that picks right rows or one that distances start at has an error.
        """
        n, lines = batch.num_rows, self._picking.lines[s]
        e = evaluated(self._plan, s, n, lambda _, name: batch.column(index[name]), True, True, lines)
        self._beyond, self._at_end = self._beyond or e.beyond, self._at_end or e.at_end
        if e.wild or self.ends_decide:
            return None
        usable = None if e.usable.all() else e.usable
        if isinstance(keys, IntKeys):
            kids = np.ascontiguousarray(self._intake.ordinals(self._plan.sides[s].keys[0], e.values, {}))
        else:
            kids = self._intake.key_ids(s, n, e.values, keys, usable)
        if len(lines) == 1 and has_ordinal(lines[0].type):
            # Rows without a value are not usable, so their words do not matter.
            words = ordinals(e.values[lines[0]].values, lines[0].type)
            return LookupSide(kids, np.ascontiguousarray(words)[None], usable)
        vals = np.empty((len(lines), n), dtype=np.int64)
        for i, node in enumerate(lines):
            v, sorts = e.values[node], s == 1 and i < self._picking.n_sort
            if sorts and i in self._picking.flags:
                there = np.ones(n, dtype=bool) if v.valid is None else v.valid
                vals[i] = there if self._picking.which == "last" else ~there
                continue
            vals[i] = images(v, node) if sorts else ordinals(v.values, node.type)
            if sorts and v.valid is not None:
                vals[i][~v.valid] = 0
        return LookupSide(kids, vals, usable)


def count_to(values: np.ndarray, bound: int, closed: bool) -> int:
    """Return how many values, which rise, are less than a bound (``closed``: no greater), which may leave int64."""
    if bound > I64_MAX:
        return len(values)
    return 0 if bound < I64_MIN else int(np.searchsorted(values, bound, side="right" if closed else "left"))
