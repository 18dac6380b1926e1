"""Compute counts and sums, and choose the class for each aggregate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ivjoin.errors import EvaluationError
from ivjoin.operator.lookup.aggregates.chosen import ChosenRow, Listed
from ivjoin.operator.lookup.aggregates.measure import Measure, Partial, nonempty
from ivjoin.operator.lookup.aggregates.reduce import (
    DoubleSums,
    Ranges,
    SumTree,
    limbs_of,
    quotients,
    range_sums,
    running,
    widened,
    words_of_limbs,
)
from ivjoin.operator.lookup.aggregates.source import RightValues
from ivjoin.plan.aggregates import SPREADS, Aggregate
from ivjoin.shj.arrow import fixed_array, truths, whole_numbers
from ivjoin.shj.kernels.lookup.sum_kernels import spreads
from ivjoin.shj.plain import nulls, to_values, value_type

__all__ = ["measures", "nothing"]

_DECIMAL_LIMIT = divmod(10**38, 2**64)


class Count(Measure):
    """The number of rows, or of non-NULL values."""

    def over(self, source: RightValues, r: Ranges) -> Partial:
        return Partial(r.sizes if self.aggregate.node is None else self._counted(source, r))

    def joined(self, a: Partial, b: Partial) -> Partial:
        return Partial(a.count + b.count)

    def finish(self, part: Partial) -> pa.Array:
        return whole_numbers(part.count.astype(np.int64, copy=False))


class Unknown(Count):
    """The least or greatest value of a column of type null, which is NULL."""

    def finish(self, part: Partial) -> pa.Array:
        return pa.nulls(len(part.count))


class WholeSum(Measure):
    """The exact sum of whole numbers, or their mean."""

    def over(self, source: RightValues, r: Ranges) -> Partial:
        def made() -> list[np.ndarray]:
            v = source.vector(self.node)
            values = v.values if v.valid is None else np.where(v.valid, v.values, 0)
            return [running(x) for x in limbs_of(values)]

        count = self._counted(source, r)
        return Partial(count, [range_sums(sums, r) for sums in source.once(("limbs", self.node), made)])

    def joined(self, a: Partial, b: Partial) -> Partial:
        most = max(len(a.value), len(b.value))
        if most == 1 or len(a.value) != len(b.value):
            most = max(most, 2)
        both = zip(widened(a.value, most), widened(b.value, most), strict=True)
        return Partial(a.count + b.count, [x + y for x, y in both])

    def finish(self, part: Partial) -> pa.Array:
        there = nonempty(part.count)
        if self.aggregate.function == "mean":
            means = quotients(part.value, np.maximum(part.count, 1), 10**self.node.type.scale)
            return fixed_array(means, there, self.type)
        low, high, beyond = words_of_limbs(part.value)
        top = high.view(np.int64)
        if pa.types.is_decimal(self.type):
            most = np.int64(_DECIMAL_LIMIT[0]), np.uint64(_DECIMAL_LIMIT[1])
            least = -(10**38)
            under = np.int64(least >> 64), np.uint64(least & (2**64 - 1))
            beyond = beyond | (top > most[0]) | ((top == most[0]) & (low >= most[1]))
            beyond |= (top < under[0]) | ((top == under[0]) & (low <= under[1]))
            self._refuse(beyond)
            return fixed_array(np.stack((low, high), axis=1), there, self.type)
        unsigned = self.type == pa.uint64()
        self._refuse(beyond | (top != (0 if unsigned else low.view(np.int64) >> 63)))
        return fixed_array(low, there, self.type)

    def _refuse(self, beyond: np.ndarray) -> None:
        if beyond.any():
            raise EvaluationError(
                f"{self.aggregate.name}: the sum of {self.node} is more than {self.type} holds; "
                f"sum CAST({self.node} AS DOUBLE), or a decimal"
            )


class DoubleSum(Measure):
    """The sum of doubles, or their mean. Sums over the rows of one run are exact and rounded once."""

    def over(self, source: RightValues, r: Ranges) -> Partial:
        def added() -> DoubleSums | SumTree:
            v = source.vector(self.node)
            values = v.values.astype(np.float64, copy=False)
            values = values if v.valid is None else np.where(v.valid, values, 0.0)
            return DoubleSums.of(values) or SumTree.of(values)

        count = self._counted(source, r)
        return Partial(count, source.once(("double sums", self.node), added).between(r))

    def joined(self, a: Partial, b: Partial) -> Partial:
        with np.errstate(all="ignore"):
            return Partial(a.count + b.count, a.value + b.value)

    def finish(self, part: Partial) -> pa.Array:
        values = part.value
        if self.aggregate.function == "mean":
            with np.errstate(all="ignore"):
                values = values / np.maximum(part.count, 1)
        return fixed_array(np.ascontiguousarray(values), nonempty(part.count), self.type)


class Variance(Measure):
    """The variance or standard deviation of numbers.

    Parts are merged by the formula of Chan, Golub and LeVeque (1979).
    """

    def over(self, source: RightValues, r: Ranges) -> Partial:
        def made() -> tuple[np.ndarray, np.ndarray | None]:
            array = source.array(self.node)
            array = to_values(array, value_type(array.type))
            places = None if array.null_count == 0 else running(truths(array.is_valid()))
            return np.asarray(array.drop_null().cast(pa.float64(), safe=False)), places

        count = self._counted(source, r)
        values, places = source.once(("spread", self.node), made)
        lo, hi = (r.lo, r.hi) if places is None else (places[r.lo], places[r.hi])
        means, squares = np.empty(len(r)), np.empty(len(r))
        spreads(values, lo, hi, means, squares)
        return Partial(count, (means, squares))

    def joined(self, a: Partial, b: Partial) -> Partial:
        count = a.count + b.count
        with np.errstate(all="ignore"):
            share = b.count / np.maximum(count, 1)
            apart = np.where(a.count * b.count > 0, b.value[0] - a.value[0], 0.0)
            means = np.where(a.count > 0, a.value[0] + apart * share, b.value[0])
            return Partial(count, (means, a.value[1] + b.value[1] + apart * apart * a.count * share))

    def finish(self, part: Partial) -> pa.Array:
        least = 1 if self.aggregate.function in ("stddev", "variance") else 0
        there = part.count > least
        with np.errstate(all="ignore"):
            out = np.where(there, np.maximum(part.value[1], 0.0) / (part.count - least), 0.0)
            out = np.sqrt(out) if self.aggregate.function.startswith("stddev") else out
        return fixed_array(out, None if there.all() else there, self.type)


def measures(aggregates: tuple[Aggregate, ...], schema: pa.Schema) -> list[Measure]:
    """Return the computation of each aggregate over right rows."""
    return [_measure(a, schema) for a in aggregates]


def nothing(made: Sequence[Measure], n: int, types: Sequence[pa.DataType] | None = None) -> list[pa.Array]:
    """Return the aggregates of n rows without matches. ``types``, if given, replace the output types."""
    return [
        whole_numbers(np.zeros(n, dtype=np.int64)) if m.aggregate.function == "count" else nulls(n, t)
        for m, t in zip(made, types or [m.type for m in made], strict=True)
    ]


def _measure(a: Aggregate, schema: pa.Schema) -> Measure:
    if a.function == "count":
        return Count(a, schema)
    assert a.node is not None
    kind = a.node.type.kind
    if a.function == "array_agg":
        return Listed(a, schema)
    if a.function in SPREADS:
        return Variance(a, schema)
    if a.function in ("sum", "mean"):
        return DoubleSum(a, schema) if kind == "float" else WholeSum(a, schema)
    if kind == "null" and a.function in ("min", "max"):
        return Unknown(a, schema)
    return ChosenRow(a, schema)
