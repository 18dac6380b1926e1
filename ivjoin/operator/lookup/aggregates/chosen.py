"""Aggregates that return values of rows: the first, last, least, greatest or all values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.expr.ordinal import has_ordinal
from ivjoin.operator.lookup.aggregates.measure import Measure, Partial, nonempty
from ivjoin.operator.lookup.aggregates.reduce import LeastTree, Ranges
from ivjoin.operator.lookup.aggregates.source import RightValues
from ivjoin.operator.lookup.rows import gathered
from ivjoin.plan.aggregates import Aggregate
from ivjoin.shj.arrow import bitmap, byte_width, take, truths
from ivjoin.shj.dictionaries import one_array
from ivjoin.shj.plain import to_values

__all__ = ["ChosenRow", "Listed"]


@dataclass(frozen=True, slots=True)
class _RowsAt:
    """One row for each of m ranges: row ``at[i]`` of ``sources[of[i]]``. For an empty range, the row is arbitrary."""

    sources: list[RightValues]
    of: np.ndarray  # int64[m]
    at: np.ndarray  # int64[m]
    place: tuple[np.ndarray, ...] | None  # arrays that rank the rows, if their values do not


class ChosenRow(Measure):
    """The value of one row: the first or last row, or a row with the least or greatest value."""

    def __init__(self, aggregate: Aggregate, schema: pa.Schema) -> None:
        super().__init__(aggregate, schema)
        self._least = aggregate.function in ("min", "first")
        self._by_place = aggregate.function in ("first", "last")

    def over(self, source: RightValues, r: Ranges) -> Partial:
        among = r
        if not self._by_place or self.node.op != "column":
            valued = self._valued(source, r)  # raises an EvaluationError if the expression fails for a row
            among = r if self._by_place else valued
        count = among.sizes
        if self._by_place and source.in_order:
            at = r.lo if self._least else r.hi - 1
        else:
            at = self._least_of(source, among)
        at = np.where(count > 0, at, 0)
        place = self._place(source, at) if len(source) else None
        return Partial(count, _RowsAt([source], np.zeros(len(at), dtype=np.int64), at, place))

    def _least_of(self, source: RightValues, among: Ranges) -> np.ndarray:
        """Return the row of each range with the least or greatest value or place, and -1 for an empty range."""
        valid = None if self._by_place else source.vector(self.node).valid

        def made() -> LeastTree:
            images = _ranks(source) if self._by_place else source.images(self.node)
            images = images if valid is None else images[valid]
            return LeastTree.of(images if self._least else ~images)

        found = source.once((self._least, None if self._by_place else self.node), made).places(among)
        if valid is None:
            return found
        rows = source.once(("rows", self.node), lambda: np.append(np.flatnonzero(valid), -1))
        return rows[found]

    def _place(self, source: RightValues, at: np.ndarray) -> tuple[np.ndarray, ...] | None:
        """Return arrays that rank rows of several runs, most significant first, or None if their values rank them."""
        if self._by_place:
            return source.places(at)
        return (source.images(self.node)[at],) if has_ordinal(self.node.type) else None

    def joined(self, a: Partial, b: Partial) -> Partial:
        x, y = a.value, b.value
        take_b = (b.count > 0) & ((a.count == 0) | self._better(x, y))
        of, at = np.where(take_b, y.of + len(x.sources), x.of), np.where(take_b, y.at, x.at)
        place = x.place and tuple(np.where(take_b, q, p) for p, q in zip(x.place, y.place, strict=True))
        return Partial(a.count + b.count, _RowsAt([*x.sources, *y.sources], of, at, place))

    def _better(self, x: _RowsAt, y: _RowsAt) -> np.ndarray:
        """Return where the rows of y rank better : bool[m]."""
        if x.place is None or y.place is None:
            import pyarrow.compute as pc

            first, second = (
                c.cast(pa.binary()) if pa.types.is_fixed_size_binary(c.type) else c for c in map(self._values, (x, y))
            )
            return truths((pc.less(second, first) if self._least else pc.greater(second, first)).fill_null(False))
        better, tied = np.zeros(len(x.at), dtype=bool), np.ones(len(x.at), dtype=bool)
        for p, q in zip(x.place, y.place, strict=True):
            better |= tied & ((q < p) if self._least else (q > p))
            tied &= p == q
        return better

    def _values(self, rows: _RowsAt) -> pa.Array:
        """Return the values of chosen rows."""
        if len(rows.sources) == 1:
            return self._some(rows.sources[0], rows.at)
        places = [np.flatnonzero(rows.of == i) for i in range(len(rows.sources))]
        return gathered([self._some(s, rows.at[p]) for s, p in zip(rows.sources, places, strict=True)], places)

    def _some(self, source: RightValues, at: np.ndarray) -> pa.Array:
        if not len(source):
            return pa.nulls(len(at), source.array(self.node).type)
        chosen = source.some(self.node, at)
        return chosen.dictionary_decode() if pa.types.is_dictionary(chosen.type) and not self._by_place else chosen

    def finish(self, part: Partial) -> pa.Array:
        array, there = self._values(part.value), nonempty(part.count)
        if there is not None:
            n = np.arange(len(array), dtype=np.int64)
            array = array.take(pa.Array.from_buffers(pa.int64(), len(n), [bitmap(there), pa.py_buffer(n)]))
        return array


class Listed(Measure):
    """The values of all rows in the order of first and last, including NULLs."""

    def over(self, source: RightValues, r: Ranges) -> Partial:
        if self.node.op != "column":
            self._counted(source, r)  # raises an EvaluationError if the expression fails for a row
        at = r.positions()
        if not source.in_order:
            at = at[np.lexsort((_ranks(source)[at], np.repeat(np.arange(len(r)), r.sizes)))]
        values = to_values(source.some(self.node, at), self.type.value_type)
        return Partial(r.sizes, (values, lambda: source.places(at)))

    def joined(self, a: Partial, b: Partial) -> Partial:
        place = [np.concatenate(pair) for pair in zip(a.value[1](), b.value[1](), strict=True)]
        n = np.arange(len(a.count))
        group = np.concatenate((np.repeat(n, a.count), np.repeat(n, b.count)))
        order = np.lexsort((*place[::-1], group))
        values = one_array([a.value[0], b.value[0]])
        there = [x[order] for x in place]
        return Partial(a.count + b.count, (take(values, order, byte_width(values.type)), lambda: there))

    def finish(self, part: Partial) -> pa.Array:
        ends = np.zeros(len(part.count) + 1, dtype=np.int32)
        np.cumsum(part.count, out=ends[1:])
        there = nonempty(part.count)
        valid = None if there is None else bitmap(there)
        return pa.Array.from_buffers(
            self.type, len(part.count), [valid, pa.py_buffer(ends)], children=[part.value[0]]
        )


def _ranks(source: RightValues) -> np.ndarray:
    """Return the place of each row in the order of first and last : int64[n]."""
    node, falls = source.order or (None, False)
    return source.ranks([] if node is None else [node], falls)
