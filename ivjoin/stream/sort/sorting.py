"""Sort inputs that end and have no order, along the axis that lets their join store the fewest rows.

This module decides what to do; ``ordered.py`` does it.

- A table is sorted by indices. Each row needs eight bytes for its value and four for its index. A table that is already
  in order is only checked.
- Row groups of Parquet files may follow each other along the axis, by their statistics. They are then read in that
  order, and only overlapping row groups are sorted together.
- With a memory limit, rows that do not fit are sorted in files (``outside.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from ivjoin.expr.nodes import Node, columns_of
from ivjoin.frontier.order import Order
from ivjoin.operator.explaining.wording import listed, said
from ivjoin.operator.memory.budget import Budget
from ivjoin.plan.cache import plan_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.stream.sort.axis import Axis, axes, best_axis, compared_share, sample
from ivjoin.stream.sort.given import Given
from ivjoin.stream.sort.ordered import Ordinals, Step, moves, of_steps, of_table, steps
from ivjoin.stream.sort.outside import sorted_outside
from ivjoin.stream.sort.sweep import Ordered, Sweep
from ivjoin.stream.sources.inputs import SEEN_GROUPS, Source
from ivjoin.stream.sources.row_groups import bytes_a_row, tables_of

__all__ = [
    "Arranged", "Prospect", "arrange", "as_they_are", "in_order", "in_steps", "is_free", "prospect", "put_in_order",
]  # fmt: skip

# Up to this number of row pairs, comparing all of them costs less than choosing an axis.
SMALL = 1 << 20
_FIRST_ROWS = 1 << 22  # rows of a file that are read before it is known whether the whole file is needed


@dataclass
class Arranged:
    """Inputs in the order in which they are joined."""

    plan: JoinPlan  # the plan with the orders of sorted inputs
    batches: tuple[Iterator[pa.RecordBatch], Iterator[pa.RecordBatch]]
    errors_first: bool = False  # whether rows for which the order's expression has an error precede the others
    ends: tuple[bool, bool] = (False, False)  # whether each input has an end
    rows: tuple[int | None, int | None] = (None, None)  # numbers of rows, if known
    sweep: Sweep | None = None  # how far to read one side before the other, if both are in order
    said: str = ""  # one line that states what was done, or ""
    copies: bool = False  # whether rows were copied, so that batches of a table in memory own their memory
    leads: int | None = None  # the side to read to its end first, regardless of the orders
    compared: float = 0.0  # if no order prunes, the share of row pairs for which the residual is evaluated
    ready: tuple[Ready | None, Ready | None] = (None, None)  # the sides that were put in order

    @property
    def first(self) -> int | None:
        """Return the side to read to its end first if nothing prunes. If both end, this is the shorter one."""
        if self.leads is not None:
            return self.leads
        if any(side.orders for side in self.plan.sides) or not any(self.ends):
            return None
        if not all(self.ends):
            return self.ends.index(True)
        left, right = self.rows
        return None if left is None or right is None else int(right < left)


def as_they_are(
    plan: JoinPlan, sources: tuple[Source, Source], threads: int = 1, budget: Budget | None = None
) -> Arranged:
    """Return both inputs in the given order. If memory is not limited, ``threads`` threads read row groups."""
    left, right = sources
    return put_in_order(plan, (Given(left, budget=budget), Given(right, budget=budget)), None, (), threads)


def is_free(plan: JoinPlan, sources: tuple[Source, Source], s: int) -> bool:
    """Return whether a side may be sorted."""
    return sources[s].ends and not plan.sides[s].orders and moves(sources[s].schema)


def _sorts(plan: JoinPlan, sources: tuple[Source, Source]) -> bool:
    """Return whether an input without an order can be sorted so that rows are pruned."""
    free = [is_free(plan, sources, s) for s in (0, 1)]
    ordered = all(free[s] or bool(plan.sides[s].orders) for s in (0, 1))
    return any(free) and ordered and next(axes(plan), None) is not None


@dataclass
class Ready:
    """A side that was put in order: its rows, whether some have an error, and what was done."""

    rows: Ordered
    errs: bool
    done: str  # "sorted", "runs", "kept" or "groups"
    size: int = 0
    table: pa.Table | None = None  # all rows if they are in memory, and the expression that orders them
    node: Node | None = None
    ordinals: Ordinals | None = None


def arrange(
    plan: JoinPlan, sources: tuple[Source, Source], threads: int = 1, budget: Budget | None = None
) -> Arranged:
    """Return both inputs, sorted with up to ``threads`` threads if that is worthwhile. Sorting reads the inputs."""
    known = [s.rows for s in sources if s.rows is not None]
    if (len(known) == 2 and known[0] * known[1] <= SMALL) or not _sorts(plan, sources):
        return as_they_are(plan, sources, threads, budget)
    choices = list(axes(plan))
    sides = [Given.of(s, budget, _read_first(plan, sources, i, choices, budget)) for i, s in enumerate(sources)]
    left, right = (_sampled(plan, s, sides[s], choices) for s in (0, 1))
    axis = best_axis(plan, (left, right))
    given = sides[0], sides[1]
    free = [axis is not None and is_free(plan, sources, s) for s in (0, 1)]
    kept = put_in_order(plan, given, axis, free, threads)
    if kept.plan is plan:
        kept.compared = compared_share(plan, (left, right))
    elif axis is not None:
        kept.sweep = _sweep(plan, axis, kept.ready)
    return kept


def put_in_order(
    plan: JoinPlan, sides: tuple[Given, Given], axis: Axis | None, which: Sequence[bool], threads: int
) -> Arranged:
    """Return both inputs, with some sides sorted by an axis. The plan is unchanged if no side can be ordered."""
    ready = [None if axis is None or not which[s] else in_order(axis, s, sides[s], threads) for s in (0, 1)]
    # The other side's order must not raise an error, and one rule applies to both sides.
    erred = None in ready and any(r is not None and r.errs for r in ready)
    left, right = (
        side.batches(threads) if r is None or (erred and r.done != "runs") else (b for b, _ in r.rows)
        for r, side in zip(ready, sides, strict=True)
    )
    ends, rows = (sides[0].source.ends, sides[1].source.ends), (sides[0].rows, sides[1].rows)
    kept = Arranged(plan, (left, right), False, ends, rows)
    if axis is None or erred:
        kept.compared = compared_share(plan, (None, None))
        return kept
    spec, own = plan.spec, [(Order(n, descending=axis.descending),) for n in axis.nodes]
    orders = [own[s] if r is not None else spec.orders[s] for s, r in enumerate(ready)]
    kept.plan = plan_of(spec.with_orders(orders[0], orders[1], spec.on_late))
    kept.errors_first = any(r is not None and r.errs for r in ready)
    kept.said = said_of(axis, ready)
    kept.copies = any(r is not None and r.done != "kept" for r in ready)
    kept.ready = ready[0], ready[1]
    return kept


def _read_first(
    plan: JoinPlan, sources: tuple[Source, Source], s: int, choices: list[Axis], budget: Budget | None
) -> bool:
    """Return whether to read a side before an axis is chosen. A sample would read most of its row groups anyway."""
    source = sources[s]
    if source.ranges is None or budget is not None or not is_free(plan, sources, s):
        return source.ends and source.ranges is None
    few = len(source.groups()) <= 2 * SEEN_GROUPS and (source.rows or 0) <= _FIRST_ROWS
    return few and not any(in_steps(source, s, a) for a in choices)


def in_steps(source: Source, s: int, axis: Axis) -> list[Step] | None:
    """Return the order in which row groups follow each other along an axis, or None if they do not."""
    node = axis.nodes[s]
    if node.op != "column" or source.ranges is None:
        return None
    return steps(source.ranges.of_side(SIDES[s]), source.groups(), node, axis.descending)


def _sampled(plan: JoinPlan, s: int, side: Given, choices: list[Axis]) -> pa.RecordBatch | None:
    """Return a sample of a side, or None for a stream, or for row groups that follow the only axis."""
    if side.table is None and (side.source.ranges is None or _only(plan, s, side.source, choices)):
        return None
    names = _compared(plan, s)
    return sample(side.table.select(names) if side.table is not None else side.source.some(names, side.capacity))


def _only(plan: JoinPlan, s: int, source: Source, choices: list[Axis]) -> bool:
    if len(choices) != 1 or plan.sides[s].orders:
        return False
    a, b = choices[0].nodes
    band = any(t.left is a and t.right is b and t.lo is not None and t.hi is not None for t in plan.kernel_terms)
    return band and in_steps(source, s, choices[0]) is not None


def in_order(axis: Axis, s: int, side: Given, threads: int) -> Ready:
    """Return the rows of a side in the order of an axis.

    If row groups follow each other along it, read them one by one.
    """
    node, source = axis.nodes[s], side.source
    if side.table is None:
        found = in_steps(source, s, axis)
        if found is not None:
            groups = [step.groups for step in found]
            tables = tables_of(source, groups, threads) if side.budget is None else map(source.of_groups, groups)
            return Ready(of_steps(found, tables, node, axis.descending), False, "groups")
    table = side.read()
    capacity = side.capacity
    if side.rest is not None and side.budget is not None and capacity is not None:
        side.table = None  # frees the table while the other rows are read
        batches = chain(_given_up([table]), side.rest)
        del table
        runs = sorted_outside(batches, source.schema, node, axis.descending, capacity, side.budget.folder)
        return Ready(runs.rows(), runs.errs, "runs", runs.nbytes)
    sorted_rows = Ordinals.of(table, node, axis.descending, threads)
    done, size = ("kept", 0) if sorted_rows.index is None else ("sorted", 12 * len(sorted_rows.index))
    return Ready(of_table(table, sorted_rows), sorted_rows.errs, done, size, table, node, sorted_rows)


def _compared(plan: JoinPlan, s: int) -> list[str]:
    nodes = [n for t in plan.kernel_terms for n in (t.left, t.right)] + [n for n, _, _ in plan.sides[s].orders]
    return list(dict.fromkeys(c.params[1] for c in columns_of(*nodes) if c.params[0] == SIDES[s]))


def _sweep(plan: JoinPlan, axis: Axis, ready: tuple[Ready | None, Ready | None]) -> Sweep | None:
    left, right = ready
    if left is None or right is None:
        return None
    terms = [(t.left, t.right) for t in plan.kernel_terms]
    leader = int(len({b for _, b in terms}) < len({a for a, _ in terms}))
    shift = axis.offset(plan) * (-1 if axis.descending else 1)
    return Sweep(leader, (left.rows, right.rows), (0, shift))


def _given_up(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a table, and release each one after it was yielded."""
    batches = tables.pop().to_batches()[::-1]
    while batches:
        yield batches.pop()


def said_of(axis: Axis, ready: list[Ready | None]) -> str:
    """Return one line that states what was done."""
    own = [(s, r) for s, r in enumerate(ready) if r is not None]
    names = listed([said(axis.nodes[s]) for s, _ in own])
    done = {r.done for _, r in own}
    size = sum(r.size for _, r in own if r.done != "runs") / 1e6
    files = sum(r.size for _, r in own if r.done == "runs") / 1e6
    cost = (f", with {size:,.1f} MB" if size else "") + (f", by runs of {files:,.1f} MB in files" if files else "")
    if len(done) > 1:
        parts = [f"the {SIDES[s]} side {_DONE[r.done]}, by {said(axis.nodes[s])}" for s, r in own]
        return listed(parts) + cost
    who = "both sides" if len(own) == 2 else f"the {SIDES[own[0][0]]} side"
    if "kept" in done:
        return f"{who} {'are' if len(own) == 2 else 'is'} in order already, by {names}"
    if "groups" in done:
        return f"{who} {'were' if len(own) == 2 else 'was'} read in the order of row groups, by {names}"
    if len(own) == 2:
        return f"neither side was ordered: both were sorted, by {names}{cost}"
    return f"{who} was not ordered: it was sorted by {names}{cost}"


_DONE = {
    "kept": "is in order already", "groups": "was read in the order of its row groups",
    "sorted": "was not ordered: it was sorted", "runs": "was not ordered: it was sorted outside memory",
}  # fmt: skip


@dataclass
class Prospect:
    """The plan of :func:`arrange`, as far as it is known before an input is read."""

    choices: list[Axis]  # the axes that may be chosen; only one if both sides could be sampled
    small: bool = False
    orders: tuple[tuple[Order, ...], tuple[Order, ...]] | None = None  # orders after sorting; None if nothing is sorted
    size: float | None = None  # megabytes for sorting, including the data that must be read
    middle: tuple[int | None, int | None] = (None, None)  # the median ordinal of each sample
    compared: float = 0.0  # as in Arranged

    @property
    def axis(self) -> Axis | None:
        return self.choices[0] if len(self.choices) == 1 else None


def prospect(plan: JoinPlan, sources: tuple[Source | None, Source | None]) -> Prospect:
    """Return how inputs would be arranged. None represents an input with only a schema."""
    choices = list(axes(plan))
    left, right = sources
    if left is None or right is None or not _sorts(plan, (left, right)):
        return Prospect(choices, compared=compared_share(plan, (None, None)))
    known = (left, right)
    if left.rows is not None and right.rows is not None and left.rows * right.rows <= SMALL:
        return Prospect(choices, small=True)
    tables = [s.table() if s.in_memory else None for s in known]
    middle: list[int | None] = [None, None]
    samples = [sample(t.select(_compared(plan, s))) for s, t in enumerate(tables) if t is not None]
    if len(samples) == 2:
        axis = best_axis(plan, (samples[0], samples[1]))
        if axis is None:
            return Prospect(choices, compared=compared_share(plan, (samples[0], samples[1])))
        choices = [axis]
        for s, rows in enumerate(samples):
            found = Ordinals.of(pa.Table.from_batches([rows]), axis.nodes[s], axis.descending)
            if len(found.values):
                at = int(found.values[len(found.values) // 2])
                middle[s] = ~at if axis.descending else at
    spec, axis = plan.spec, choices[0]
    free = [is_free(plan, known, s) for s in (0, 1)]
    own = (Order(axis.nodes[0], descending=axis.descending),), (Order(axis.nodes[1], descending=axis.descending),)
    orders = own[0] if free[0] else spec.orders[0], own[1] if free[1] else spec.orders[1]
    sizes = [_size(s) for s, f in zip(known, free, strict=True) if f]
    whole = None if None in sizes else sum(x for x in sizes if x is not None) / 1e6
    return Prospect(choices, False, orders, whole, (middle[0], middle[1]))


def _size(source: Source) -> int | None:
    if source.rows is None:
        return None
    return source.rows * (12 + (0 if source.in_memory else bytes_a_row(source.schema)))
