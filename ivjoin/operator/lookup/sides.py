"""Read a whole table as one side of a lookup: its keys and the values that compare rows, without copies if possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ivjoin.conditions.evaluate import Vector
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.frontier.order import Frontier
from ivjoin.operator.intake import Intake
from ivjoin.operator.picks.ranks import Moved
from ivjoin.operator.picks.reading import Reader, Rows
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.pick import Picking
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable, NoKeys

__all__ = ["KeyIds", "LookupSide", "SideReader", "key_table"]

I64_MAX = 2**63 - 1
_NARROW = 4  # times as many ids as rows are worth less than naming keys by a table
_SOME = 1024  # ids that are worth so in any case


@dataclass(slots=True)
class LookupSide:
    """The rows of a side.

    Attributes
    ----------
    kids : int64[n]
        Keys; see :class:`KeyIds`.
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


def key_table(plan: JoinPlan) -> KeyTable:
    """Return an empty key table of the plan's kind."""
    keys = (IntKeys if plan.int_keys else ByteKeys if plan.null_safe else NoKeys)()
    keys.live = 2**31  # ids are never freed
    return keys


@dataclass(frozen=True, slots=True)
class KeyIds:
    """Ids of both sides' keys: ``kid - least`` of rows that can match.

    Attributes
    ----------
    least, n_ids : int
    """

    least: int
    n_ids: int

    @classmethod
    def of(cls, sides: tuple[LookupSide, LookupSide], keys: KeyTable) -> KeyIds:
        """Give the keys of both sides ids; keys that are whole numbers close to each other are their own ids."""
        if not isinstance(keys, IntKeys):
            return cls(0, max(1, keys.n_ids))
        there = [s.kids if s.usable is None else s.kids[s.usable] for s in sides]
        least = min(int(k.min(initial=I64_MAX)) for k in there)
        most = max(int(k.max(initial=least)) for k in there)
        if most - least < _NARROW * (len(sides[0]) + len(sides[1])) + _SOME:
            return cls(least, most - least + 1)
        for side in sides[::-1]:
            side.kids = keys.ids(side.kids, side.usable)
        return cls(0, max(1, keys.n_ids))
