"""The pick of a join in the form that operators use: the expressions to compute and compare."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ivjoin.errors import ConditionError
from ivjoin.expr import build
from ivjoin.expr.nodes import Node, columns_of, is_met
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.types import TICKS_PER_SECOND
from ivjoin.frontier.order import Order
from ivjoin.plan.join_plan import JoinPlan, SidePlan, of_plan
from ivjoin.plan.planner import direction_of
from ivjoin.plan.spec import SIDES

__all__ = ["RANKED", "WHICH", "PickTerm", "Picking", "beside", "meeting", "picking_of"]

WHICH = ("last", "first", "nearest")
RANKED = ("string", "binary", "decimal", "decimal256")  # kinds that have an order although they may lack an ordinal
_DAY = 86_400  # seconds


def meeting(near: Node, by: Node, zone: str) -> tuple[Node, Node]:
    """Return both ends of a distance in one type. Raise ConditionError if no type has distances between them."""
    for node in (near, by):
        if not has_ordinal(node.type) and node.type.kind in RANKED:
            raise ConditionError(
                f"direction='nearest': values of {node}, which is {node.type}, have no distances; expected numbers or "
                "times (decimals of at most 18 digits). Cast it, or use direction='backward' or 'forward'"
            )
    try:
        a, b = build.eq(near, by, zone).args
    except ConditionError as e:
        raise ConditionError(f"direction='nearest': no distance from {near} to {by}: {e}") from e
    if not has_ordinal(a.type) or a.type.kind == "bool":
        raise ConditionError(
            f"direction='nearest': no distance from {near} ({near.type}) to {by} ({by.type}); cast one of them to "
            "the other's type"
        )
    # At the ends of the finer unit, `is_met` casts use marker values for instants out of range. These would give wrong
    # distances.
    return _in_own_unit(a), _in_own_unit(b)


def _in_own_unit(node: Node) -> Node:
    """Replace a cast to the same unit by a plain cast to the common zone, which has no marker values."""
    if is_met(node) and node.args[0].type.kind == node.type.kind and node.args[0].type.unit == node.type.unit:
        return build.cast(node.args[0], node.type, node.params[1])
    return node


class PickTerm(NamedTuple):
    """``low <= right - left <= high`` in ordinals. An end of int64 is an open end."""

    left: Node
    right: Node
    low: int
    high: int


@dataclass(frozen=True)
class Picking:
    """How right rows are compared to pick one of them."""

    which: str
    place: Node  # the right value that is compared first; for a distance, its right end in the common type
    near: Node | None  # the left value that distances are measured from
    plain: bool  # rows are compared only by the place
    met: bool  # the place is a cast of the caller's expression
    terms: tuple[PickTerm, ...]  # the bands; the right values of the first `n_search` rise with the place
    n_search: int

    @property
    def step(self) -> int:
        """Return the number of distance ticks in one tick of the place; 0 unless the place has a coarser unit."""
        node = self.place
        if self.near is None or not is_met(node) or node.args[0].type.unit == node.type.unit:
            return 0
        ticks = TICKS_PER_SECOND[node.type.unit]
        return ticks * _DAY if node.args[0].type.kind == "date" else ticks // TICKS_PER_SECOND[node.args[0].type.unit]


@of_plan
def picking_of(plan: JoinPlan) -> Picking:
    pick = plan.spec.pick
    assert pick is not None
    own = place = pick.by[0]
    near = None
    if pick.near is not None:
        near, place = meeting(pick.near, own, plan.spec.timezone)
    found = []
    for mine, theirs, low, high in plan.tables[0].terms.tolist():
        node = plan.sides[1].axes[theirs]
        rises = node in (own, place) or _rises(plan.sides[1], own, node)
        found.append((rises, PickTerm(plan.sides[0].axes[mine], node, low, high)))
    terms = (*(t for rises, t in found if rises), *(t for rises, t in found if not rises))
    return Picking(
        pick.which, place, near, place is own and len(pick.by) == 1, place is not own, terms,
        sum(rises for rises, _ in found),
    )


def beside(picking: Picking) -> Node | None:
    """Return the left expression that the condition or the pick compares with the place."""
    if picking.near is not None:
        return picking.near
    return next((t.left for t in picking.terms if t.right == picking.place), None)


def _rises(side: SidePlan, by: Node, node: Node) -> bool:
    """Return whether ``node`` never falls while ``by`` rises."""
    if not has_ordinal(by.type) or not any(c.params[0] == SIDES[1] for c in columns_of(node)):
        return False
    return direction_of(replace(side, orders=[(by, "", Order(by))]), node) == "rises"
