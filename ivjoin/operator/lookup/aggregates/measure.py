"""Define the interface of an aggregate: compute it over ranges, merge partial results, and build its output.

A range may span several runs, and its pairs may be split into several pieces, so partial results are merged. Each
aggregate therefore stores values that merge exactly: limbs of sums, counts with means, or the place of a first value.
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
    """A partial aggregate over m ranges: the number of values : int64[m], and an intermediate result."""

    count: np.ndarray
    value: Any = None


class Measure:
    """The computation of one aggregate: over ranges, merged from two sets of rows, and built as output."""

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
        """Return the number of non-NULL values in each range. A row with an error raises an EvaluationError."""
        return self._valued(source, r).sizes

    def _valued(self, source: RightValues, r: Ranges) -> Ranges:
        """Return ranges that index only the non-NULL values. A row with an error raises an EvaluationError."""
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
    """Return which ranges have values : bool[m], or None if all ranges have some."""
    there = count > 0
    return None if there.all() else there
