"""Choose the order in which to read the inputs of a join that gives each left row one right row.

- A right side with an end and no order is read first. Rows of a left stream are then decided when they arrive; tables
  and files are looked up in parts. The output is in the order of the left side.
- Parquet files whose row groups follow each other are read together with the left side. Only row groups that overlap
  are in memory.
- A left side with an end is sorted and read together with a right side that has an order.
- With a memory limit, a right side that needs more than half of it is sorted, in files if needed. The left side is
  sorted as well, unless it is in order.
"""

from __future__ import annotations

from ivjoin.operator.memory.budget import Budget
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import beside, picking_of
from ivjoin.stream.sort.axis import Axis
from ivjoin.stream.sort.given import Given
from ivjoin.stream.sort.sorting import Arranged, in_steps, is_free, put_in_order
from ivjoin.stream.sources.inputs import Source

__all__ = ["arrange_picked", "picked_arrival"]

_A_ROW = 48  # bytes for finding a stored row


def arrange_picked(
    plan: JoinPlan, sources: tuple[Source, Source], sort: bool, threads: int, budget: Budget | None = None
) -> Arranged:
    """Return both inputs in the order in which they are read. ``threads`` threads read row groups."""
    left, right = sources
    axis = _axis(plan)
    given = Given(left, budget=budget), Given(right, budget=budget)
    if sort and axis is not None:
        in_step = _in_step(plan, sources, axis)
        if not any(in_step) and budget is not None:
            in_step, axis = _beyond(plan, given, axis, budget)
        if any(in_step):
            return put_in_order(plan, given, axis, in_step, threads)
    kept = put_in_order(plan, given, None, (), threads)  # a part of the right side may have been read
    if right.ends and not plan.sides[1].orders:
        kept.leads = 1
        kept.said = "the right side is read first" if not left.ends else "the right side was read first"
    elif left.ends and not plan.sides[0].orders:
        kept.leads = 0
    return kept


def picked_arrival(plan: JoinPlan, left: Source | None, right: Source | None) -> list[str]:
    """Return the lines that describe the order of reading. None represents an input with only a schema."""
    if plan.sides[1].orders:
        return []
    if right is None:
        return ["the right side is not ordered: a table or files would be read first; of a stream, left rows wait"]
    if right.ends:
        streams = left is not None and not left.ends
        then = "each left row is decided when it arrives" if streams else "left rows are looked up"
        return [f"the right side has no order and is read first; then {then}"]
    return ["the right side is a stream without an order: left rows wait until it ends"]


def _in_step(plan: JoinPlan, sources: tuple[Source, Source], axis: Axis) -> list[bool]:
    """Return which sides to sort by the axis, so that both are read together."""
    free = [is_free(plan, sources, s) for s in (0, 1)]
    ordered = [any(n is axis.nodes[s] for n, _, _ in side.orders) for s, side in enumerate(plan.sides)]
    groups = [free[s] and in_steps(sources[s], s, axis) is not None for s in (0, 1)]
    if groups[1] and (groups[0] or ordered[0] or free[0]):
        return [free[0], True]
    if ordered[1] and free[0]:
        return [True, False]
    if ordered[0] and groups[1]:
        return [False, True]
    return [False, False]


def _beyond(
    plan: JoinPlan, given: tuple[Given, Given], axis: Axis, budget: Budget
) -> tuple[list[bool], Axis]:
    """Return which sides to sort, and the axis, if the right side is too large to read first."""
    free = [is_free(plan, (given[0].source, given[1].source), s) for s in (0, 1)]
    ordered = any(n is axis.nodes[0] for n, _, _ in plan.sides[0].orders)
    if not free[1] or not (free[0] or ordered):
        return [False, False], axis
    table = given[1].read()
    if given[1].rest is None and int(table.nbytes) + _A_ROW * table.num_rows <= budget.limit // 2:
        return [False, False], axis
    if not free[0]:
        return [False, True], axis
    # In descending order, the first right row that is not earlier is the one that arrived last. Do not sort floats like
    # this, because a later NaN may still arrive, and it decides nothing.
    falls = picking_of(plan).which == "first" and all(n.type.kind != "float" for n in axis.nodes)
    return [True, True], Axis(axis.nodes, falls)


def _axis(plan: JoinPlan) -> Axis | None:
    """Return the axis: the ranking expression of right rows, and the left expression that it is compared with."""
    picking = picking_of(plan)
    near = beside(picking)
    if near is None:
        return None
    nodes = near, picking.place
    falls = any(n is nodes[s] and o.descending for s, side in enumerate(plan.sides) for n, _, o in side.orders)
    return Axis(nodes, falls)
