"""The interface of an aggregate: compute it over ranges, merge it over two sets of rows, and make output of it.

A range may be in several runs, or its pairs in several pieces, and the parts are merged. Therefore each aggregate
stores values that merge without loss: limbs of sums, counts with means, and the place in the order with a first value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import EvaluationError
from ivjoin.expr.nodes import Node
from ivjoin.operator.lookup.aggregates.reduce import Ranges, range_sums, running
from ivjoin.operator.lookup.aggregates.source import RightValues
from ivjoin.outer.values import errors_of
from ivjoin.plan.aggregates import Aggregate, result_type

__all__ = ["Measure", "Partial", "nonempty"]


@dataclass(slots=True)
class Partial:
    """An aggregate over m ranges so far: the number of its values : int64[m], and their intermediate result."""

    count: np.ndarray
    value: Any = None


class Measure:
    """The computation of one aggregate: over ranges, joined for two sets of rows, and finished as output."""

    def __init__(self, aggregate: Aggregate, schema: pa.Schema) -> None:
        self.aggregate = aggregate
        self.type = result_type(aggregate, schema)

    @property
    def node(self) -> Node:
        node = self.aggregate.node
        assert node is not None
        return node

    def over(self, source: RightValues, r: Ranges) -> Partial:
        raise NotImplementedError

    def joined(self, a: Partial, b: Partial) -> Partial:
        raise NotImplementedError

    def finish(self, part: Partial) -> pa.Array:
        raise NotImplementedError

    def _counted(self, source: RightValues, r: Ranges) -> np.ndarray:
        """Return the number of values in each range that are not null; EvaluationError if a row has an error."""
        return self._valued(source, r).sizes

    def _valued(self, source: RightValues, r: Ranges) -> Ranges:
        """Return ranges of the values that are not null, among these alone; EvaluationError if a row has an error."""
        v = source.vector(self.node)
        erred = errors_of(v)
        if erred is not None:
            sums = source.once(("errors", self.node), lambda: running(erred))
            hit = np.flatnonzero(range_sums(sums, r))
            if len(hit):
                lo = int(r.lo[hit[0]])
                row = lo + int(erred[lo : int(r.hi[hit[0]])].argmax())
                raise EvaluationError(f"{self.aggregate.name}: {source.why(self.node, row)}")
        valid = v.valid
        if valid is None:
            return r
        sums = source.once(("valid", self.node), lambda: running(valid))
        return Ranges(sums[r.lo], sums[r.hi])


def nonempty(count: np.ndarray) -> np.ndarray | None:
    """Return which ranges have values : bool[m]; None if all have one."""
    there = count > 0
    return None if there.all() else there
