"""Define the search for matches of left rows: the bands, the order of first and last, and the sort axis."""

from __future__ import annotations

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, sides_of
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.operator.lookup.picks.trim import distance_of
from ivjoin.operator.lookup.run import Term
from ivjoin.plan.derivations import Derived
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import picking_of
from ivjoin.plan.spec import SIDES, Pick

__all__ = ["comes_in_order", "search_of"]


def search_of(plan: JoinPlan, by_pick: bool = False) -> tuple[list[Term], tuple[Node, bool] | None, int | None]:
    """Return the bands, the order of first and last, and the right axis that sorts the rows of a key.

    A plan without bands, or with a pick of one row, gets the axes of its pick. With ``by_pick``, the ranking value
    sorts the rows, unless no band follows it.
    """
    pick = plan.spec.pick
    apart = None if pick is None else distance_of(pick.by[0])
    if pick is not None and (plan.spec.picks_one or not plan.kernel_terms or apart is not None):
        _add_axes(plan, pick)
    terms = [
        Term(plan.sides[0].axes.index(t.left), plan.sides[1].axes.index(t.right), t.lo, t.hi)
        for t in plan.kernel_terms
    ]
    order = plan.spec.first_by or ((plan.kernel_terms[0].right, False) if plan.kernel_terms else None)
    if by_pick and pick is not None:
        picking, place = picking_of(plan), plan.axis(1, pick.by[0])
        if place is not None and (picking.n_search or picking.near is not None or not terms):
            return terms, order, place
    if apart is not None and not plan.spec.picks_one:
        place = next((a for a, n in enumerate(plan.sides[1].axes) if n in apart), None)
        if place is not None and all(_follows(plan.sides[1].axes[t.right], plan.sides[1].axes[place]) for t in terms):
            return terms, order, place
    return terms, order, _sorted_by(plan, terms, order)


def _follows(node: Node, other: Node) -> bool:
    """Return whether an expression rises with another one: it is the same expression, or adds a number to it."""
    return node is other or (node.op == ops.ADD and node.args[0] is other and node.args[1].op == "literal")


def comes_in_order(plan: JoinPlan, order: tuple[Node, bool] | None, axis: int | None) -> bool:
    """Return whether sorting by this axis puts the right rows of a key into the order of first and last."""
    if axis is None:
        return order is None
    return order is not None and order[0] is plan.sides[1].axes[axis] and not order[1]


def _add_axes(plan: JoinPlan, pick: Pick) -> None:
    """Add the axes of the value that ranks right rows, and of the left value of a distance."""
    nodes: tuple[Node, ...] = distance_of(pick.by[0]) or (pick.by[0],)
    if plan.spec.picks_one:
        picking = picking_of(plan)
        nodes = (pick.by[0], picking.place, *([picking.near] if picking.near is not None else []))
    for s, name in enumerate(SIDES):
        axes = plan.sides[s].axes
        new = [n for n in dict.fromkeys(nodes) if n not in axes and sides_of(n) == {name} and has_ordinal(n.type)]
        if new:
            axes += new
            plan.derived = Derived()


def _sorted_by(plan: JoinPlan, terms: list[Term], order: tuple[Node, bool] | None) -> int | None:
    """Return the right axis with the most band ends.

    Ties go to an axis with an upper end, then to the axis of the order.

    Rows below an upper end come first. A sweep then finds those that also satisfy a lower end of another axis.
    """
    ends: dict[int, int] = {}
    for t in terms:
        ends[t.right] = ends.get(t.right, 0) + 4 * (t.high is not None) + 6 * (t.low is not None)
    for axis in ends:
        if order is not None and plan.sides[1].axes[axis] is order[0]:
            ends[axis] += 1
    if not ends and plan.spec.pick is not None:
        by = distance_of(plan.spec.pick.by[0]) or (plan.spec.pick.by[0],)
        return next((a for a, n in enumerate(plan.sides[1].axes) if n in by), None)
    return max(ends, key=lambda a: ends[a]) if ends else None
