"""The aggregates: how each is computed over ranges, merged over two runs, and turned into output.

A range may lie in several runs, or its pairs in several pieces, and the parts are merged. So each aggregate stores what
merges without loss: limbs of sums, counts with means, the place in the order with a first value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import EvaluationError
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.operator.lookup.aggregates.reduce import (
    DoubleSums,
    Ranges,
    limbs_of,
    quotients,
    range_sums,
    running,
    tree_of,
    widened,
    words_of_limbs,
)
from ivjoin.operator.lookup.aggregates.source import Source
from ivjoin.plan.aggregates import Aggregate, result_type
from ivjoin.shj.arrow import bitmap, byte_width, fixed_array, take, truths, whole_numbers
from ivjoin.shj.dictionaries import one_array
from ivjoin.shj.plain import to_values

__all__ = ["Measure", "Part", "measures"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_DECIMAL_LIMIT = divmod(10**38, 2**64)


@dataclass(slots=True)
class Part:
    """An aggregate over m ranges so far: the number of its values : int64[m], and their intermediate result."""

    count: np.ndarray
    value: Any = None


class Measure:
    """The computation of one aggregate."""

    def __init__(self, aggregate: Aggregate, schema: pa.Schema) -> None:
        self.aggregate = aggregate
        self.type = result_type(aggregate, schema)

    @property
    def node(self) -> Node:
        node = self.aggregate.node
        assert node is not None
        return node

    def over(self, source: Source, r: Ranges) -> Part:
        """Aggregate ranges of the source's rows."""
        raise NotImplementedError

    def joined(self, a: Part, b: Part) -> Part:
        """Merge the aggregates of two sets of rows."""
        raise NotImplementedError

    def finish(self, part: Part) -> pa.Array:
        """Return the output, one value for each range."""
        raise NotImplementedError

    def _counted(self, source: Source, r: Ranges) -> np.ndarray:
        """Return the number of values that are not null in each range : int64[m].

        Raises
        ------
        EvaluationError
            If the expression has an error for a row of a range.
        """
        v = source.vector(self.node)
        erred = v.error
        if erred is not None and erred.any():
            sums = source.once(("errors", self.node), lambda: running(erred))
            hit = np.flatnonzero(range_sums(sums, r))
            if len(hit):
                lo = int(r.lo[hit[0]])
                row = lo + int(erred[lo : int(r.hi[hit[0]])].argmax())
                raise EvaluationError(f"{self.aggregate.name}: {source.why(self.node, row)}")
        valid = v.valid
        if valid is None:
            return r.sizes
        return range_sums(source.once(("valid", self.node), lambda: running(valid)), r)


class Count(Measure):
    """The number of rows, or of values that are not null."""

    def over(self, source: Source, r: Ranges) -> Part:
        return Part(r.sizes if self.aggregate.node is None else self._counted(source, r))

    def joined(self, a: Part, b: Part) -> Part:
        return Part(a.count + b.count)

    def finish(self, part: Part) -> pa.Array:
        return whole_numbers(part.count.astype(np.int64, copy=False))


class Unknown(Count):
    """The least or greatest value of a column of type null, which is null."""

    def finish(self, part: Part) -> pa.Array:
        return pa.nulls(len(part.count))


class WholeSum(Measure):
    """The exact sum of whole numbers, or their mean."""

    def over(self, source: Source, r: Ranges) -> Part:
        def made() -> list[np.ndarray]:
            v = source.vector(self.node)
            values = v.values if v.valid is None else np.where(v.valid, v.values, 0)
            return [running(x) for x in limbs_of(values)]

        count = self._counted(source, r)
        return Part(count, [range_sums(sums, r) for sums in source.once(("limbs", self.node), made)])

    def joined(self, a: Part, b: Part) -> Part:
        most = max(len(a.value), len(b.value))
        if most == 1 or len(a.value) != len(b.value):
            most = max(most, 2)
        both = zip(widened(a.value, most), widened(b.value, most), strict=True)
        return Part(a.count + b.count, [x + y for x, y in both])

    def finish(self, part: Part) -> pa.Array:
        there = _mask(part.count)
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

    def over(self, source: Source, r: Ranges) -> Part:
        def made() -> np.ndarray:
            v = source.vector(self.node)
            values = v.values.astype(np.float64, copy=False)
            return _padded(values if v.valid is None else np.where(v.valid, values, 0.0), 0.0)

        def added() -> DoubleSums | None:
            return DoubleSums.of(source.once(("doubles", self.node), made)[:-1])

        count = self._counted(source, r)
        sums = source.once(("double sums", self.node), added)
        if sums is not None:
            return Part(count, sums.between(r))
        with np.errstate(all="ignore"):
            padded = source.once(("doubles", self.node), made)
            tree = _tree(source, ("sum tree", self.node), np.add, padded)
            return Part(count, r.reduce(np.add, padded, 0.0, tree))

    def joined(self, a: Part, b: Part) -> Part:
        with np.errstate(all="ignore"):
            return Part(a.count + b.count, a.value + b.value)

    def finish(self, part: Part) -> pa.Array:
        values = part.value
        if self.aggregate.function == "mean":
            with np.errstate(all="ignore"):
                values = values / np.maximum(part.count, 1)
        return fixed_array(np.ascontiguousarray(values), _mask(part.count), self.type)


class Extreme(Measure):
    """The least or greatest of numbers or times."""

    def __init__(self, aggregate: Aggregate, schema: pa.Schema) -> None:
        super().__init__(aggregate, schema)
        self._float = self.node.type.kind == "float"
        least = aggregate.function == "min"
        # NaN is the greatest value: the least of a range only if every value is NaN.
        self._ufunc = (np.fmin if least else np.maximum) if self._float else (np.minimum if least else np.maximum)
        self._none = (np.nan if least else -np.inf) if self._float else (I64_MAX if least else I64_MIN)

    def over(self, source: Source, r: Ranges) -> Part:
        name = self.aggregate.function

        def made() -> np.ndarray:
            v = source.vector(self.node)
            values = v.values if self._float else ordinals(v.values, self.node.type)
            return _padded(values if v.valid is None else np.where(v.valid, values, self._none), self._none)

        count = self._counted(source, r)
        with np.errstate(all="ignore"):
            padded = source.once((name, self.node), made)
            tree = _tree(source, (name, "tree", self.node), self._ufunc, padded)
            return Part(count, r.reduce(self._ufunc, padded, self._none, tree))

    def joined(self, a: Part, b: Part) -> Part:
        with np.errstate(all="ignore"):
            return Part(a.count + b.count, self._ufunc(a.value, b.value))

    def finish(self, part: Part) -> pa.Array:
        there, values = _mask(part.count), part.value
        if there is not None:
            values = np.where(there, values, 0)
        if self.node.type.kind == "bool":
            return pa.Array.from_buffers(
                self.type, len(values), [None if there is None else bitmap(there), bitmap(values != 0)]
            )
        if self._float:
            values = values.astype(np.dtype(f"f{self.type.bit_width // 8}"))
        elif self.type == pa.uint64():
            values = values.view(np.uint64) ^ np.uint64(1 << 63) if values.dtype == np.int64 else values
        else:
            values = values.astype(np.dtype(f"i{self.type.bit_width // 8}"))
        return fixed_array(np.ascontiguousarray(values), there, self.type)


class Chosen(Measure):
    """The value of one row: the first or last, or the least or greatest of a type without ordinals."""

    def __init__(self, aggregate: Aggregate, schema: pa.Schema) -> None:
        super().__init__(aggregate, schema)
        self._least = aggregate.function in ("min", "first")
        self._by_place = aggregate.function in ("first", "last")

    def over(self, source: Source, r: Ranges) -> Part:
        count = r.sizes
        if not self._by_place or self.node.op != "column":
            there = self._counted(source, r)  # raises if the expression has an error
            count = r.sizes if self._by_place else there
        if self._by_place:
            if source.in_order:
                at = r.lo if self._least else r.hi - 1
            else:
                at = self._ranked(source, *source.ranks(), None, r)
        else:
            at = self._ranked(source, *source.value_ranks(self.node), source.vector(self.node).valid, r)
        at = np.where(count > 0, at, 0)
        array = source.array(self.node)
        if not len(array):
            return Part(count, (pa.nulls(len(r), array.type), None))
        if pa.types.is_dictionary(array.type) and not self._by_place:
            array = array.dictionary_decode()
        chosen = array.take(whole_numbers(at))
        if not self._by_place:
            return Part(count, (chosen, None))
        null, image = source.order_keys() if source.order is not None else (None, None)
        place = tuple(x[at] for x in (null, image, source.seq) if x is not None)
        return Part(count, (chosen, place))

    def _ranked(
        self, source: Source, rank: np.ndarray, order: np.ndarray, valid: np.ndarray | None, r: Ranges
    ) -> np.ndarray:
        """Return the row of each range with the least, or greatest, rank; rows that are not valid are skipped."""
        none = len(rank) if self._least else -1
        ufunc = np.minimum if self._least else np.maximum
        what = self.aggregate.function, None if self._by_place else self.node

        def made() -> np.ndarray:
            return _padded(rank if valid is None else np.where(valid, rank, none), none)

        padded = source.once((what, "ranks"), made)
        found = r.reduce(ufunc, padded, none, _tree(source, (what, "rank tree"), ufunc, padded))
        return order[np.clip(found, 0, max(len(order) - 1, 0))] if len(order) else found

    def joined(self, a: Part, b: Part) -> Part:
        (first, place), (second, other) = a.value, b.value
        if self._by_place:
            better = np.zeros(len(a.count), dtype=bool)
            tied = np.ones(len(a.count), dtype=bool)
            for x, y in zip(place, other, strict=True):
                better |= tied & ((y < x) if self._least else (y > x))
                tied &= x == y
        else:
            x, y = (c.cast(pa.binary()) if pa.types.is_fixed_size_binary(c.type) else c for c in (first, second))
            import pyarrow.compute as pc

            better = truths((pc.less(y, x) if self._least else pc.greater(y, x)).fill_null(False))
        take_b = (b.count > 0) & ((a.count == 0) | better)
        n = len(a.count)
        chosen = one_array([first, second]).take(whole_numbers(np.where(take_b, np.arange(n) + n, np.arange(n))))
        at = None
        if self._by_place:
            at = tuple(np.where(take_b, y, x) for x, y in zip(place, other, strict=True))
        return Part(a.count + b.count, (chosen, at))

    def finish(self, part: Part) -> pa.Array:
        array, there = part.value[0], _mask(part.count)
        if there is not None:
            n = np.arange(len(array), dtype=np.int64)
            array = array.take(pa.Array.from_buffers(pa.int64(), len(n), [bitmap(there), pa.py_buffer(n)]))
        return array


class Listed(Measure):
    """The values of all rows in the order of first and last, nulls included."""

    def over(self, source: Source, r: Ranges) -> Part:
        if self.node.op != "column":
            self._counted(source, r)  # raises if the expression has an error
        at = r.positions()
        if not source.in_order:
            at = at[np.lexsort((source.ranks()[0][at], np.repeat(np.arange(len(r)), r.sizes)))]
        array = to_values(source.array(self.node), self.type.value_type)

        def place() -> list[np.ndarray]:
            null, image = source.order_keys() if source.order is not None else (None, None)
            return [x[at] for x in (null, image, source.seq) if x is not None]

        return Part(r.sizes, (take(array, at, byte_width(array.type)), place))

    def joined(self, a: Part, b: Part) -> Part:
        place = [np.concatenate(pair) for pair in zip(a.value[1](), b.value[1](), strict=True)]
        n = np.arange(len(a.count))
        group = np.concatenate((np.repeat(n, a.count), np.repeat(n, b.count)))
        order = np.lexsort((*place[::-1], group))
        values = one_array([a.value[0], b.value[0]])
        there = [x[order] for x in place]
        return Part(a.count + b.count, (take(values, order, byte_width(values.type)), lambda: there))

    def finish(self, part: Part) -> pa.Array:
        ends = np.zeros(len(part.count) + 1, dtype=np.int32)
        np.cumsum(part.count, out=ends[1:])
        there = _mask(part.count)
        valid = None if there is None else bitmap(there)
        return pa.Array.from_buffers(
            self.type, len(part.count), [valid, pa.py_buffer(ends)], children=[part.value[0]]
        )


def measures(aggregates: tuple[Aggregate, ...], schema: pa.Schema) -> list[Measure]:
    """Return the computation of each aggregate. ``schema``: the schema of the right side."""
    return [_measure(a, schema) for a in aggregates]


_NUMBERS = ("int", "float", "timestamp", "duration", "time", "bool")


def _measure(a: Aggregate, schema: pa.Schema) -> Measure:
    if a.function == "count":
        return Count(a, schema)
    assert a.node is not None
    kind = a.node.type.kind
    if a.function == "array_agg":
        return Listed(a, schema)
    if a.function in ("sum", "mean"):
        return DoubleSum(a, schema) if kind == "float" else WholeSum(a, schema)
    if kind == "null" and a.function in ("min", "max"):
        return Unknown(a, schema)
    numbers = kind in _NUMBERS or (kind == "date" and not pa.types.is_date64(result_type(a, schema)))
    return Extreme(a, schema) if a.function in ("min", "max") and numbers else Chosen(a, schema)


def _padded(values: np.ndarray, last: Any) -> np.ndarray:
    out = np.empty(len(values) + 1, dtype=values.dtype)
    out[:-1], out[-1] = values, last
    return out


def _tree(source: Source, key: Any, ufunc: Any, padded: np.ndarray) -> Any:
    return lambda: source.once(key, lambda: tree_of(ufunc, padded[:-1]))


def _mask(count: np.ndarray) -> np.ndarray | None:
    there = count > 0
    return None if there.all() else there
