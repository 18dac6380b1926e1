"""The pick of a join: what an operator computes and compares for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ivjoin.errors import ConditionError
from ivjoin.expr import build
from ivjoin.expr.nodes import Node, columns_of, is_met
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.types import TICKS_PER_SECOND
from ivjoin.frontier.order import Order
from ivjoin.plan.join_plan import JoinPlan, SidePlan
from ivjoin.plan.planner import inferred
from ivjoin.plan.spec import SIDES

__all__ = ["RANKED", "WHICH", "Picking", "beside", "meeting", "picking_of"]

WHICH = ("last", "first", "nearest")
RANKED = ("string", "binary", "decimal", "decimal256")  # kinds that compare without an ordinal of their own
I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_DAY = 86_400  # seconds


def meeting(near: Node, by: Node, zone: str) -> tuple[Node, Node]:
    """Return both ends of a distance in one type; ConditionError if no type has distances between them."""
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
    # The markers that keep instants distinct at the ends of the finer unit would change distances there.
    return _in_own_unit(a), _in_own_unit(b)


def _in_own_unit(node: Node) -> Node:
    """Return the argument of a cast to its own unit: in the common zone, and without the bounds of the cast."""
    if is_met(node) and node.args[0].type.kind == node.type.kind and node.args[0].type.unit == node.type.unit:
        return build.cast(node.args[0], node.type, node.params[1])
    return node


@dataclass(frozen=True)
class Picking:
    """The expressions that an operator with a pick computes and compares.

    ``lines`` are stored as ordinals with each row. The right side starts with ``n_sort`` lines that compare rows. The
    first ``n_place`` of these give the place of a row; the others break ties.
    """

    which: str
    lines: tuple[list[Node], list[Node]]
    axes: tuple[list[int], list[int]]  # the line of each axis of a side
    n_sort: int
    n_place: int
    flags: frozenset[int]  # right lines: the next line's expression is null, which loses against every value
    near: int  # the left line that distances are measured from, or -1
    terms: np.ndarray  # int64[t, 4]: left line, right line, least and greatest difference
    n_search: int  # terms that rise along the rows of a key, the first ones
    reads: tuple[list[Node], list[Node]]  # all expressions that are computed for a batch

    @property
    def step(self) -> int:
        """Return the ticks of the distance in one tick of the place, if the place has a coarser unit; else 0."""
        node = self.lines[1][0]
        if self.near < 0 or not is_met(node) or node.args[0].type.unit == node.type.unit:
            return 0
        ticks = TICKS_PER_SECOND[node.type.unit]
        return ticks * _DAY if node.args[0].type.kind == "date" else ticks // TICKS_PER_SECOND[node.args[0].type.unit]

    def with_near(self, low: int, high: int) -> np.ndarray:
        """Return the terms, preceded by one for the distance of the place from the expression to be near to."""
        own = np.array([[self.near, 0, low, high]], dtype=np.int64)
        return np.ascontiguousarray(np.concatenate((own, self.terms)))


def picking_of(plan: JoinPlan) -> Picking:
    """Return the picking of a plan that has a pick."""
    return plan.derived.once(_picking, lambda: _picking(plan))


def _picking(plan: JoinPlan) -> Picking:
    pick = plan.spec.pick
    assert pick is not None
    place = pick.by[0]
    sort = list(pick.by)
    near = None
    n_place = 1
    if pick.near is not None:
        near, met = meeting(pick.near, place, plan.spec.timezone)
        if met is not place:
            sort, n_place = [met, *sort], 2
    left = list(dict.fromkeys([*plan.sides[0].axes, *([near] if near is not None else [])]))
    lines: list[tuple[Node, bool]] = [(n, False) for n in sort[:n_place]]
    for tie in sort[n_place:]:
        lines += [(tie, False)] if tie in plan.sides[1].never_null else [(tie, True), (tie, False)]
    n_sort = len(lines)
    lines += [(n, False) for n in dict.fromkeys(plan.sides[1].axes) if (n, False) not in lines]
    right = [n for n, _ in lines]
    axes = [left.index(n) for n in plan.sides[0].axes], [lines.index((n, False)) for n in plan.sides[1].axes]
    rows = []
    for mine, theirs, low, high in plan.tables[0].terms.tolist():
        line = axes[1][theirs]
        rises = line < n_place or _rises(plan.sides[1], place, right[line])
        rows.append((not rises, axes[0][mine], line, low, high))
    rows.sort()
    terms = np.array([r[1:] for r in rows], dtype=np.int64).reshape(len(rows), 4)
    reads = tuple(
        list(dict.fromkeys([*side.keys, *lines, *side.filters, *(g for g, _, _ in side.guards)]))
        for side, lines in zip(plan.sides, (left, right), strict=True)
    )
    flags = frozenset(i for i, (_, flag) in enumerate(lines) if flag)
    return Picking(
        pick.which, (left, right), axes, n_sort, n_place, flags, -1 if near is None else left.index(near), terms,
        sum(not r[0] for r in rows), (reads[0], reads[1]),
    )


def beside(picking: Picking) -> Node | None:
    """Return the left expression of the same kind as the picked place that is compared with it."""
    if picking.near >= 0:
        return picking.lines[0][picking.near]
    return next((picking.lines[0][t[0]] for t in picking.terms.tolist() if t[1] == 0), None)


def _rises(side: SidePlan, by: Node, node: Node) -> bool:
    """Return whether an expression never falls while another one of its side rises."""
    if not has_ordinal(by.type) or not any(c.params[0] == SIDES[1] for c in columns_of(node)):
        return False
    why = inferred(replace(side, orders=[(by, "", Order(by))]), node)
    return why is not None and why.startswith("rises")
