"""Inputs that have an end and no order, sorted along the axis that lets a join of them hold the fewest rows.

A table is sorted by indices: beside it there are eight bytes a row for the values and four for their order, and rows
are gathered as they are read. One that is in order already is only looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.expr.evaluate import Vector, evaluate
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinals
from ivjoin.frontier.order import Order
from ivjoin.operator.intake import has_value
from ivjoin.plan.cache import plan_of
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.stream.axis import best_axis, sample
from ivjoin.stream.inputs import Source

__all__ = ["Arranged", "arrange", "as_they_are"]

_GATHERED = 65_536  # rows gathered at once
# Where there are no more pairs of rows than this, looking at all of them costs less than choosing an axis.
SMALL = 1 << 20


@dataclass
class Arranged:
    """Inputs in the order in which they are joined.

    Attributes
    ----------
    plan : JoinPlan
        With the order of what was sorted.
    batches : (Iterator of RecordBatch, Iterator of RecordBatch)
    errors_first : bool
        Rows for which the order's expression errs come before the others.
    ends : (bool, bool)
        Which input is all there.
    rows : (int or None, int or None)
    said : str
        What was done, in a line; "" where nothing was.
    """

    plan: JoinPlan
    batches: tuple[Iterator[pa.RecordBatch], Iterator[pa.RecordBatch]]
    errors_first: bool = False
    ends: tuple[bool, bool] = (False, False)
    rows: tuple[int | None, int | None] = (None, None)
    said: str = ""

    @property
    def first(self) -> int | None:
        """The side to read to its end first: nothing prunes, and of two sides that end the shorter one is stored."""
        if any(side.orders for side in self.plan.sides) or not any(self.ends):
            return None
        if not all(self.ends):
            return self.ends.index(True)
        left, right = self.rows
        return None if left is None or right is None else int(right < left)


@dataclass
class _Image:
    """Ordinals of an axis over a table; what has no value first."""

    values: np.ndarray
    valid: np.ndarray | None
    errs: bool

    def order(self, descending: bool) -> np.ndarray | None:
        """Indices that sort the rows; None where they are in order."""
        v = self.values
        seen = v if self.valid is None else v[self.valid]
        first, second = (seen[1:], seen[:-1]) if descending else (seen[:-1], seen[1:])
        if not self.errs and bool((first <= second).all()):
            return None
        if self.valid is None:
            index = np.argsort(~v if descending else v)
        else:
            there = np.flatnonzero(self.valid)
            index = np.concatenate((np.flatnonzero(~self.valid), there[np.argsort(~seen if descending else seen)]))
        return index.astype(np.uint32) if len(index) < 2**32 else index


def as_they_are(plan: JoinPlan, sources: tuple[Source, Source]) -> Arranged:
    """Both inputs as they come."""
    ends, rows = (sources[0].ends, sources[1].ends), (sources[0].rows, sources[1].rows)
    return Arranged(plan, (sources[0].batches(), sources[1].batches()), False, ends, rows)


def _sorts(plan: JoinPlan, sources: tuple[Source, Source]) -> bool:
    """Whether an input without an order of its own could be given one."""
    return any(_free(plan, sources, s) for s in (0, 1)) and all(
        _free(plan, sources, s) or bool(plan.sides[s].orders) for s in (0, 1)
    )


def _free(plan: JoinPlan, sources: tuple[Source, Source], s: int) -> bool:
    return sources[s].ends and not plan.sides[s].orders


def arrange(plan: JoinPlan, sources: tuple[Source, Source]) -> Arranged:
    """Both inputs, sorted where that is worth it; reads what has to be sorted."""
    rows = [s.rows for s in sources if s.rows is not None]
    if not _sorts(plan, sources) or (len(rows) == 2 and rows[0] * rows[1] <= SMALL):
        return as_they_are(plan, sources)
    ends = sources[0].ends, sources[1].ends
    tables = [s.table() if s.ends else None for s in sources]
    left_rows, right_rows = (r.rows if t is None else t.num_rows for t, r in zip(tables, sources, strict=True))
    kept = Arranged(plan, (iter(()), iter(())), False, ends, (left_rows, right_rows))
    left, right = (None if t is None else sample(t) for t in tables)
    axis = best_axis(plan, (left, right))
    images: list[_Image | None] = [None, None]
    if axis is not None:
        images = [_image(t, axis.nodes[s]) if _free(plan, sources, s) else None for s, t in enumerate(tables)]
        if any(i is None and plan.sides[s].orders for s, i in enumerate(images)) and any(i and i.errs for i in images):
            axis = None  # the other side's order may not err, and one rule holds for both
    if axis is None:
        kept.batches = _plain(sources[0], tables[0]), _plain(sources[1], tables[1])
        return kept
    orders = [plan.spec.orders[0], plan.spec.orders[1]]
    given: list[Iterator[pa.RecordBatch]] = []
    sizes = [0, 0]
    was_sorted = []
    for s, (table, image) in enumerate(zip(tables, images, strict=True)):
        if image is None:
            given.append(_plain(sources[s], table))
            continue
        orders[s] = (Order(axis.nodes[s], descending=axis.descending),)
        index = image.order(axis.descending)
        assert table is not None
        if index is None:
            given.append(iter(table.to_batches()))
        else:
            was_sorted.append(s)
            sizes[s] = 12 * len(index)
            given.append(gathered(table, index))
    spec = plan.spec
    kept.plan = plan_of(spec.with_orders(orders[0], orders[1], spec.on_late))
    kept.batches = given[0], given[1]
    kept.errors_first = any(i is not None and i.errs for i in images)
    kept.said = _said([str(n) for n in axis.nodes], was_sorted, [i is not None for i in images], sum(sizes))
    return kept


def _plain(source: Source, table: pa.Table | None) -> Iterator[pa.RecordBatch]:
    return source.batches() if table is None else iter(table.to_batches())


def _said(names: list[str], was_sorted: list[int], free: list[bool], size: int) -> str:
    if not was_sorted:
        return f"{_inputs(free)} in order already, by {' and '.join(n for n, f in zip(names, free, strict=True) if f)}"
    if len(was_sorted) == 2:
        return f"neither side was ordered: both were sorted, by {names[0]} and {names[1]}, with {size / 1e6:,.1f} MB"
    s = was_sorted[0]
    return f"the {SIDES[s]} side was not ordered: it was sorted by {names[s]}, with {size / 1e6:,.1f} MB"


def _inputs(free: list[bool]) -> str:
    return "both sides are" if all(free) else f"the {SIDES[free.index(True)]} side is"


def _image(table: pa.Table, node: Node) -> _Image:
    parts = [_value(node, b) for b in table.to_batches()]
    values = [np.ascontiguousarray(ordinals(v.values, node.type)) for v in parts]
    valid = [has_value(v) for v in parts]
    seen = None
    if any(v is not None for v in valid):
        seen = np.concatenate([np.ones(len(o), bool) if v is None else v for v, o in zip(valid, values, strict=True)])
    errs = any(v.error is not None and bool(v.error.any()) for v in parts)
    return _Image(np.concatenate(values) if values else np.empty(0, np.int64), seen, errs)


def _value(node: Node, batch: pa.RecordBatch) -> Vector:
    return evaluate([node], lambda _, name: batch.column(name), batch.num_rows)[0]


def gathered(table: pa.Table, index: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The rows of a table in another order, some at a time."""
    whole = table.combine_chunks()
    batches = whole.to_batches()
    for start in range(0, len(index), _GATHERED):
        at = pa.array(index[start : start + _GATHERED])
        if len(batches) == 1:
            yield batches[0].take(at)
        else:  # more text than one array can hold
            yield from whole.take(at).combine_chunks().to_batches()
