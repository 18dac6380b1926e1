"""Aggregates that are values of rows: the first, the last, the least, the greatest, or all values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ivjoin.expr.ordinal import has_ordinal
from ivjoin.operator.lookup.aggregates.measure import Measure, Part, nonempty
from ivjoin.operator.lookup.aggregates.reduce import LeastTree, Ranges
from ivjoin.operator.lookup.aggregates.source import Source
from ivjoin.plan.aggregates import Aggregate
from ivjoin.shj.arrow import bitmap, byte_width, take, truths, whole_numbers
from ivjoin.shj.dictionaries import one_array
from ivjoin.shj.plain import to_values

__all__ = ["Chosen", "Listed"]


class Chosen(Measure):
    """The value of one row: the first or last, or one with the least or greatest value."""

    def __init__(self, aggregate: Aggregate, schema: pa.Schema) -> None:
        super().__init__(aggregate, schema)
        self._least = aggregate.function in ("min", "first")
        self._by_place = aggregate.function in ("first", "last")

    def over(self, source: Source, r: Ranges) -> Part:
        among = r
        if not self._by_place or self.node.op != "column":
            valued = self._valued(source, r)  # raises if the expression has an error
            among = r if self._by_place else valued
        count = among.sizes
        if not len(source):
            return Part(count, (pa.nulls(len(r), source.array(self.node).type), None))
        if self._by_place and source.in_order:
            at = r.lo if self._least else r.hi - 1
        else:
            at = self._least_of(source, among)
        at = np.where(count > 0, at, 0)
        chosen = source.some(self.node, at)
        if pa.types.is_dictionary(chosen.type) and not self._by_place:
            chosen = chosen.dictionary_decode()
        return Part(count, (chosen, self._place(source, at)))

    def _least_of(self, source: Source, among: Ranges) -> np.ndarray:
        """Return the row of each range with the least, or greatest, value or place, -1 for an empty range."""
        valid = None if self._by_place else source.vector(self.node).valid

        def made() -> LeastTree:
            images = source.ranks() if self._by_place else source.images(self.node)
            images = images if valid is None else images[valid]
            return LeastTree.of(images if self._least else ~images)

        found = source.once((self._least, None if self._by_place else self.node), made).places(among)
        if valid is None:
            return found
        rows = source.once(("rows", self.node), lambda: np.append(np.flatnonzero(valid), -1))
        return rows[found]

    def _place(self, source: Source, at: np.ndarray) -> tuple[np.ndarray, ...] | None:
        """Return what compares rows with those of other runs, the first array first; None if their values do."""
        if self._by_place:
            null, image = source.order_keys() if source.order is not None else (None, None)
            return tuple(x[at] for x in (null, image, source.seq) if x is not None)
        return (source.images(self.node)[at],) if has_ordinal(self.node.type) else None

    def joined(self, a: Part, b: Part) -> Part:
        (first, place), (second, other) = a.value, b.value
        if place is not None:
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
        if place is not None:
            at = tuple(np.where(take_b, y, x) for x, y in zip(place, other, strict=True))
        return Part(a.count + b.count, (chosen, at))

    def finish(self, part: Part) -> pa.Array:
        array, there = part.value[0], nonempty(part.count)
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
            at = at[np.lexsort((source.ranks()[at], np.repeat(np.arange(len(r)), r.sizes)))]

        def place() -> list[np.ndarray]:
            null, image = source.order_keys() if source.order is not None else (None, None)
            return [x[at] for x in (null, image, source.seq) if x is not None]

        return Part(r.sizes, (to_values(source.some(self.node, at), self.type.value_type), place))

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
        there = nonempty(part.count)
        valid = None if there is None else bitmap(there)
        return pa.Array.from_buffers(
            self.type, len(part.count), [valid, pa.py_buffer(ends)], children=[part.value[0]]
        )
