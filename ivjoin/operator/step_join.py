"""A join of two as a step of a join of many inputs, which knows more than the step's own inputs say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from ivjoin.expr.nodes import Node
from ivjoin.operator import steps
from ivjoin.operator.core import Core
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.operator.output_bounds import stored_span
from ivjoin.operator.protocol import Output

__all__ = ["StepJoin"]


class StepJoin(SymmetricHashJoin):
    """An operator that is told what of its sides' later rows can matter, and asked what it holds."""

    _core: Core

    def narrow(self, side: str, spans: Mapping[Node, tuple[int, int]]) -> Output:
        """Promise that no later row of a side can matter whose value lies outside closed intervals.

        For whoever knows more than the inputs say, as a join of many inputs does of its steps. Unlike :meth:`advance`
        it bounds both ends, and takes ordinals (``ivjoin.expr.ordinal``) of expressions that err for no row. A row
        outside of them is treated like a late one. An interval that is wider than what is known changes nothing.
        """
        p = self._side(side)
        self._enter()
        try:
            return self._change("narrow", self._narrowed(p, spans))
        finally:
            self._lock.release()

    def _narrowed(self, p: int, spans: Mapping[Node, tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        known = [self._core.narrow(p, node, *span) for node, span in spans.items()]
        if not all(known):
            self._core.learn()
        yield from steps.settle(self._core, p)

    def stored_spans(self, side: str, nodes: Sequence[Node]) -> dict[Node, tuple[int, int] | None]:
        """Least and greatest ordinal of expressions of a side over its stored rows; None where none has a value.

        Costs a look at every stored row.
        """
        p = self._side(side)
        self._enter()
        try:
            return {node: stored_span(self._core, p, node) for node in nodes}
        finally:
            self._lock.release()

    @property
    def held(self) -> tuple[int, int]:
        """Rows in the side stores, and bytes held."""
        left, right = self._core.stores
        return int(left.live + right.live), self._core.bytes_held()

    def stored(self, side: str) -> int:
        """Rows of a side that are stored now."""
        return int(self._core.state.sides[self._side(side)]["live"])
