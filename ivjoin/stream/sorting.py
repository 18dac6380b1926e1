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
from ivjoin.expr.nodes import Node, columns_of
from ivjoin.expr.ordinal import ordinals
from ivjoin.frontier.order import Order
from ivjoin.operator.intake import has_value
from ivjoin.operator.wording import said
from ivjoin.plan.cache import plan_of
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.shj.arrow import plain_type, to_plain
from ivjoin.stream.axis import Axis, axes, best_axis, indices, sample
from ivjoin.stream.inputs import Source

__all__ = ["Arranged", "arrange", "as_they_are"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
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
    sweep : Sweep or None
        How far to read one side before the other, where both were sorted or found in order.
    said : str
        What was done, in a line; "" where nothing was.
    """

    plan: JoinPlan
    batches: tuple[Iterator[pa.RecordBatch], Iterator[pa.RecordBatch]]
    errors_first: bool = False
    ends: tuple[bool, bool] = (False, False)
    rows: tuple[int | None, int | None] = (None, None)
    sweep: Sweep | None = None
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
class Sweep:
    """Two sorted sides read in step: a piece of the one that leads, then what of the other is not beyond it, and a row.

    By that row it is known how far the other side has come, lest rows of the leader wait in front of a gap.
    The rows of the side that follows are dropped as they come, but for the window, so that only the leader's are
    searched through: it is the side of which the band compares the fewest expressions.
    """

    leader: int
    images: tuple[np.ndarray, np.ndarray]  # never falling

    @property
    def rows(self) -> list[int]:
        """How many each side has."""
        return [len(i) for i in self.images]

    def turns(self, most: int) -> Iterator[tuple[int, int]]:
        """(side, rows to read of it), none more than ``most``."""
        lead, follow = self.images[self.leader], self.images[1 - self.leader]
        ends = np.minimum(np.arange(most, len(lead) + most, most), len(lead))
        cuts = np.minimum(np.searchsorted(follow, lead[ends - 1], side="right") + 1, len(follow))
        follows = len(follow)
        self.images = lead[:0], follow[:0]
        a = b = 0
        for end, cut in zip([*ends.tolist(), len(lead)], [*cuts.tolist(), follows], strict=True):
            if end > a:
                yield self.leader, end - a
                a = end
            while b < cut:
                n = min(cut - b, most)
                yield 1 - self.leader, n
                b += n


@dataclass
class _Image:
    """Ordinals of an axis over a table, in the order in which its rows are joined; what has no value looks least."""

    values: np.ndarray
    errs: bool
    index: np.ndarray | None  # that sorts the rows; None where they are in order

    @classmethod
    def of(cls, table: pa.Table, node: Node, descending: bool) -> _Image:
        parts = [_value(node, b) for b in table.to_batches()]
        images = [np.ascontiguousarray(ordinals(v.values, node.type)) for v in parts]
        values = np.concatenate(images) if images else np.empty(0, np.int64)
        values = ~values if descending else values
        errs = any(v.error is not None and bool(v.error.any()) for v in parts)
        there = [has_value(v) for v in parts]
        if all(v is None for v in there):
            if bool((values[:-1] <= values[1:]).all()):
                return cls(values, errs, None)
            index = np.argsort(values)
            return cls(values[index], errs, _short(index))
        valid = np.concatenate([np.ones(len(o), bool) if v is None else v for v, o in zip(there, images, strict=True)])
        seen = values[valid]
        if not errs and bool((seen[:-1] <= seen[1:]).all()):
            return cls(np.maximum.accumulate(np.where(valid, values, I64_MIN)), errs, None)
        none, order = np.flatnonzero(~valid), np.argsort(seen)
        index = np.concatenate((none, np.flatnonzero(valid)[order]))
        return cls(np.concatenate((np.full(len(none), I64_MIN), seen[order])), errs, _short(index))


def _short(index: np.ndarray) -> np.ndarray:
    return index.astype(np.uint32) if len(index) < 2**32 else index


def _value(node: Node, batch: pa.RecordBatch) -> Vector:
    return evaluate([node], lambda _, name: batch.column(name), batch.num_rows)[0]


def as_they_are(plan: JoinPlan, sources: tuple[Source, Source]) -> Arranged:
    """Both inputs as they come."""
    ends, rows = (sources[0].ends, sources[1].ends), (sources[0].rows, sources[1].rows)
    return Arranged(plan, (sources[0].batches(), sources[1].batches()), False, ends, rows)


def _free(plan: JoinPlan, sources: tuple[Source, Source], s: int) -> bool:
    """Whether a side may be put in another order."""
    return sources[s].ends and not plan.sides[s].orders and _moves(sources[s].schema)


def _sorts(plan: JoinPlan, sources: tuple[Source, Source]) -> bool:
    """Whether an input without an order of its own could be given one that prunes."""
    free = [_free(plan, sources, s) for s in (0, 1)]
    ordered = all(free[s] or bool(plan.sides[s].orders) for s in (0, 1))
    return any(free) and ordered and next(axes(plan), None) is not None


def arrange(plan: JoinPlan, sources: tuple[Source, Source]) -> Arranged:
    """Both inputs, sorted where that is worth it; reads what has to be sorted."""
    rows = [s.rows for s in sources if s.rows is not None]
    if not _sorts(plan, sources) or (len(rows) == 2 and rows[0] * rows[1] <= SMALL):
        return as_they_are(plan, sources)
    ends = sources[0].ends, sources[1].ends
    tables = [s.table() if s.ends else None for s in sources]
    left_rows, right_rows = (r.rows if t is None else t.num_rows for t, r in zip(tables, sources, strict=True))
    kept = Arranged(plan, (iter(()), iter(())), False, ends, (left_rows, right_rows))
    left, right = (None if t is None else sample(t.select(_compared(plan, s))) for s, t in enumerate(tables))
    axis = best_axis(plan, (left, right))
    images: list[_Image | None] = [None, None]
    if axis is not None:
        images = [
            _Image.of(t, axis.nodes[s], axis.descending) if t is not None and _free(plan, sources, s) else None
            for s, t in enumerate(tables)
        ]
        if None in images and any(i is not None and i.errs for i in images):
            axis = None  # the other side's order may not err, and one rule holds for both
    if axis is None:
        kept.batches = _plain(sources[0], tables[0]), _plain(sources[1], tables[1])
        return kept
    orders = list(plan.spec.orders)
    given: list[Iterator[pa.RecordBatch]] = []
    for s, (table, image) in enumerate(zip(tables, images, strict=True)):
        if image is not None:
            orders[s] = (Order(axis.nodes[s], descending=axis.descending),)
        index = None if image is None else image.index
        given.append(_plain(sources[s], table) if table is None or index is None else gathered(table, index))
    spec = plan.spec
    kept.plan = plan_of(spec.with_orders(orders[0], orders[1], spec.on_late))
    kept.batches = given[0], given[1]
    kept.errors_first = any(i is not None and i.errs for i in images)
    kept.sweep = _sweep(plan, axis, images)
    kept.said = _said(axis, images)
    return kept


def _compared(plan: JoinPlan, s: int) -> list[str]:
    nodes = [n for t in plan.kernel_terms for n in (t.left, t.right)] + [n for n, _, _ in plan.sides[s].orders]
    return list(dict.fromkeys(c.params[1] for c in columns_of(*nodes) if c.params[0] == SIDES[s]))


def _sweep(plan: JoinPlan, axis: Axis, images: list[_Image | None]) -> Sweep | None:
    left, right = images
    if left is None or right is None:
        return None
    terms = [(t.left, t.right) for t in plan.kernel_terms]
    leader = int(len({b for _, b in terms}) < len({a for a, _ in terms}))
    shift = axis.offset(plan) * (-1 if axis.descending else 1)
    return Sweep(leader, (left.values, _shifted(right.values, shift)))


def _shifted(values: np.ndarray, by: int) -> np.ndarray:
    """Ordinals moved, no further than int64 goes."""
    if not by:
        return values
    moved = values + np.int64(max(I64_MIN, min(by, I64_MAX)))
    return np.where(moved < values, I64_MAX, moved) if by > 0 else np.where(moved > values, I64_MIN, moved)


def _plain(source: Source, table: pa.Table | None) -> Iterator[pa.RecordBatch]:
    return source.batches() if table is None else iter(table.to_batches())


def _said(axis: Axis, images: list[_Image | None]) -> str:
    names = [said(n) for n in axis.nodes]
    done = [s for s, i in enumerate(images) if i is not None and i.index is not None]
    if not done:
        own = [s for s, i in enumerate(images) if i is not None]
        sides = "both sides are" if len(own) == 2 else f"the {SIDES[own[0]]} side is"
        return f"{sides} in order already, by {' and '.join(names[s] for s in own)}"
    size = sum(12 * len(i.index) for i in images if i is not None and i.index is not None) / 1e6
    if len(done) == 2:
        return f"neither side was ordered: both were sorted, by {names[0]} and {names[1]}, with {size:,.1f} MB"
    return f"the {SIDES[done[0]]} side was not ordered: it was sorted by {names[done[0]]}, with {size:,.1f} MB"


def gathered(table: pa.Table, index: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The rows of a table in another order, some at a time."""
    schema = table.schema
    plain = [plain_type(t) for t in schema.types]
    if plain != schema.types:  # no rows are taken of views
        columns = [
            pa.chunked_array([to_plain(a, t) for a in c.chunks], t) for c, t in zip(table.columns, plain, strict=True)
        ]
        table = pa.Table.from_arrays(columns, names=schema.names)
    whole = table.combine_chunks()
    batches = whole.to_batches()
    for start in range(0, len(index), _GATHERED):
        at = indices(index[start : start + _GATHERED])
        if len(batches) == 1:
            taken = [batches[0].take(at)]
        else:  # more text than one array can hold
            taken = whole.take(at).combine_chunks().to_batches()
        for batch in taken:
            yield batch if plain == schema.types else batch.cast(schema)


def _moves(schema: pa.Schema) -> bool:
    """Whether rows can be taken of every column."""
    at = pa.array([], pa.uint32())
    try:
        for t in schema.types:
            pa.array([], plain_type(t)).take(at).cast(t)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, TypeError):
        return False
    return True


@dataclass
class Prospect:
    """What :func:`arrange` is going to do, as far as that is known before anything is read.

    Attributes
    ----------
    choices : list of Axis
        One, where rows could be looked at.
    orders : (tuple of Order, tuple of Order) or None
        Of both sides by then; None where nothing is sorted.
    size : float or None
        Megabytes that sorting takes, with what has to be read for it.
    middle : (int or None, int or None)
        Of the rows that were looked at: the ordinal in the middle.
    """

    choices: list[Axis]
    small: bool = False
    orders: tuple[tuple[Order, ...], tuple[Order, ...]] | None = None
    size: float | None = None
    middle: tuple[int | None, int | None] = (None, None)

    @property
    def axis(self) -> Axis | None:
        return self.choices[0] if len(self.choices) == 1 else None


def prospect(plan: JoinPlan, sources: tuple[Source | None, Source | None]) -> Prospect:
    """What would be done with inputs; None stands for one of which there is but a schema."""
    choices = list(axes(plan))
    left, right = sources
    if left is None or right is None or not _sorts(plan, (left, right)):
        return Prospect(choices)
    known = (left, right)
    if left.rows is not None and right.rows is not None and left.rows * right.rows <= SMALL:
        return Prospect(choices, small=True)
    tables = [s.table() if s.in_memory else None for s in known]
    middle: list[int | None] = [None, None]
    samples = [sample(t.select(_compared(plan, s))) for s, t in enumerate(tables) if t is not None]
    if len(samples) == 2:
        axis = best_axis(plan, (samples[0], samples[1]))
        if axis is None:
            return Prospect(choices)
        choices = [axis]
        for s, rows in enumerate(samples):
            image = _Image.of(pa.Table.from_batches([rows]), axis.nodes[s], axis.descending)
            if len(image.values):
                at = int(image.values[len(image.values) // 2])
                middle[s] = ~at if axis.descending else at
    spec, axis = plan.spec, choices[0]
    free = [_free(plan, known, s) for s in (0, 1)]
    own = (Order(axis.nodes[0], descending=axis.descending),), (Order(axis.nodes[1], descending=axis.descending),)
    orders = own[0] if free[0] else spec.orders[0], own[1] if free[1] else spec.orders[1]
    sizes = [_size(s) for s, f in zip(known, free, strict=True) if f]
    whole = None if None in sizes else sum(x for x in sizes if x is not None) / 1e6
    return Prospect(choices, False, orders, whole, (middle[0], middle[1]))


def _size(source: Source) -> int | None:
    if source.rows is None:
        return None
    width = 0
    if not source.in_memory:
        for t in source.schema.types:
            try:
                width += max(1, t.bit_width // 8)
            except ValueError:
                width += 16  # text; a guess
    return source.rows * (12 + width)
