"""Find the positions of two streams' rows on the cut axis, and how far both streams have advanced."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.frontier.tracking import Frontier
from ivjoin.operator.lookup.tables.ordered import rises
from ivjoin.operator.pruning.prune_bounds import Bounder
from ivjoin.outer.values import has_value
from ivjoin.plan.cutting import Cut, shifted
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.stream.threads.pieces import Piece

__all__ = ["SlicedAxis"]


class SlicedAxis:
    """The axis of a cut. The caller moves the ``frontiers`` of both sides."""

    def __init__(self, plan: JoinPlan, cut: Cut, frontiers: tuple[Frontier, Frontier]) -> None:
        self._cut, self._frontiers = cut, frontiers
        self._index = [layout.index for layout in row_layouts(plan)]
        self._bounder = Bounder(plan, frontiers)

    def lagging(self, rows_left: int, rows_right: int) -> int:
        """Return the side to read next (0 left, 1 right)."""
        for f in self._frontiers:
            f.refresh()
        return self._bounder.lagging(rows_left, rows_right)

    def settled(self) -> int:
        """Return the value below which no row of either side can still arrive or match."""
        cut = self._cut
        own, other = self._frontiers[cut.own], self._frontiers[1 - cut.own]
        for f in (own, other):
            f.refresh()
        ends = []
        if not own.ended:
            low, high, _ = own.intervals.get(cut.node, (I64_MIN, I64_MAX, True))
            ends.append(~high if cut.falling else low)
        if not other.ended:
            self._bounder.move(1 - cut.own, True, 1)
            bounds = self._bounder.bounds(cut.own)
            if bounds is not None:
                low, high = bounds[cut.axis]
                ends.append(I64_MAX if low > high else ~high if cut.falling else low)
        return min(ends, default=I64_MAX)

    def placed(self, p: int, batch: pa.RecordBatch, start: int) -> tuple[Piece, bool]:
        """Return a batch with the ranges of its rows, and whether a row may match rows of every slice.

        Slices below ``start`` are already running, so no row can belong to them.
        """
        cut, n = self._cut, batch.num_rows
        nodes = [cut.node] if p == cut.own else list(dict.fromkeys(node for node, _ in (*cut.lows, *cut.highs)))
        index = self._index[p]
        found = evaluate(nodes, lambda _, name: batch.column(index[name]), n)
        values: dict[Node, np.ndarray] = {}
        valid: np.ndarray | None = None
        erred = False
        for node, v in zip(nodes, found, strict=True):
            values[node] = ordinals(v.values, node.type)
            present = has_value(v)
            if present is not None:
                valid = present if valid is None else valid & present
            erred = erred or (v.error is not None and bool(v.error.any()))
        lows = cut.lows if p != cut.own else ((cut.node, 0),)
        highs = cut.highs if p != cut.own else ((cut.node, 0),)
        piece = None
        if valid is None and len(nodes) == len(lows) == len(highs) == 1:
            piece = self._in_order(batch, values[nodes[0]], lows[0][1], highs[0][1], start)
        if piece is None:
            low, high = np.full(n, I64_MIN), np.full(n, I64_MAX)
            for node, by in lows:
                low = np.maximum(low, shifted(values[node], by))
            for node, by in highs:
                high = np.minimum(high, shifted(values[node], by))
            if cut.falling:
                low, high = ~high, ~low
            # A row without a value matches nothing. It belongs to the next slice.
            now = max(start, I64_MIN + 1)
            low = np.maximum(low, now)
            fine = low <= high if valid is None else valid & (low <= high)
            low, high = np.where(fine, low, now), np.where(fine, high, now if p == cut.own else now - 1)
            piece = Piece.of(batch, low, high)
        return piece, erred

    def _in_order(
        self, batch: pa.RecordBatch, values: np.ndarray, low_by: int, high_by: int, start: int
    ) -> Piece | None:
        """Return the rows whose ranges are one expression's values, shifted, or None unless these rise."""
        if self._cut.falling:
            values, low_by, high_by = ~values, -high_by, -low_by
        if low_by > high_by or int(values[0]) + low_by < max(start, I64_MIN + 1) or not rises(values):
            return None
        return Piece(batch, values, values, low_by, high_by)
