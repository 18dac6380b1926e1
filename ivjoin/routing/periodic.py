"""Endless slices of one width along an ordered axis: the plan of a stream before anything is known about it.

A row of the cut side is in one slice, a row of the other side in every slice that it can match. In a full join, a row
of the other side is owned in the slice in which its range begins. A row of the cut side also goes, not owned, to every
slice in which the range of a possible match begins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.plan.cutting import cut_of, shifted
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.routing.rows.arrays import Copies, expanded

__all__ = ["PeriodicSlices", "periodic_slices"]

_BANDS = 4  # a slice is this many bands wide: a row of the copied side has one and a quarter copies
_WIDEST = 1 << 60


@dataclass(frozen=True)
class PeriodicSlices:
    """A function from a row to its copies."""

    own: int  # the side that is cut
    nodes: tuple[Node, Node]  # the axis: a column of each side
    low: int  # a row of the other side matches ordinals from its own + low
    high: int  # to its own + high
    width: int  # of a slice, in ordinals, at least one more than the band
    both: bool  # both sides are preserved

    def copies(self, side: int, batch: pa.RecordBatch) -> Copies:
        """Return the copies of a batch's rows. A row that cannot match has one, in slice 0."""
        node = self.nodes[side]
        index = batch.schema.get_field_index(node.params[1])
        v = evaluate([node], lambda _, name: batch.column(index), batch.num_rows)[0]
        places = ordinals(v.values, node.type)
        if side == self.own:
            first = shifted(places, self.low - self.high) if self.both else places
            last, home = places, places
        else:
            first, last = shifted(places, self.low), shifted(places, self.high)
            home = first
        first, last, home = (x // self.width for x in (first, last, home))
        if v.valid is not None:
            first, last, home = (np.where(v.valid, x, 0) for x in (first, last, home))
        rows, slices = expanded(first, last - first + 1)
        # For a copied side that is not preserved, every copy may be part of a pair.
        owned = slices == home[rows] if side == self.own or self.both else np.ones(len(rows), dtype=bool)
        return rows, slices, owned

    def __str__(self) -> str:
        return f"slices of {self.width} ordinals along {self.nodes[self.own]} of the {SIDES[self.own]} side"


def periodic_slices(plan: JoinPlan) -> PeriodicSlices | str:
    """Return how a join of streams is cut, or the reason why it cannot be cut."""
    if plan.spec.pick is not None:
        return "each left row takes one partner, for which all of them are compared by one operator"
    cut = cut_of(plan)
    if isinstance(cut, str):
        return cut
    theirs = {node for node, _ in (*cut.lows, *cut.highs)}
    if len(theirs) > 1:
        return f"{' and '.join(map(str, theirs))} bound {cut.node}, so the width of a slice is unknown"
    (their,) = theirs
    for node in (cut.node, their):
        if node.op != "column":
            return f"{node} is not a column, so it may have no value where the condition has one"
    low, high = max(by for _, by in cut.lows), min(by for _, by in cut.highs)
    width = _BANDS * (high - low + 1)
    if not 0 < width < _WIDEST:
        return f"the band of {cut.node} is {'empty' if width <= 0 else 'too wide'}"
    nodes = (cut.node, their) if cut.own == 0 else (their, cut.node)
    return PeriodicSlices(cut.own, nodes, low, high, width, cut.both)
