"""The pick of a join: its arguments, and what an operator computes and compares for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from ivjoin.errors import ColumnError, ConditionError, OptionError, came
from ivjoin.expr import build
from ivjoin.expr.arguments import one_of
from ivjoin.expr.nodes import Node, columns_of, is_met
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.types import INT64, TICKS_PER_SECOND
from ivjoin.frontier.order import Order
from ivjoin.outer.jointype import JoinType
from ivjoin.plan.join_plan import JoinPlan, SidePlan
from ivjoin.plan.planner import inferred
from ivjoin.plan.spec import SIDES, Pick
from ivjoin.separation.separate import separate

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression

__all__ = ["RANKED", "WHICH", "PickBy", "Picking", "beside", "meeting", "pick_of", "picking_of"]

WHICH = ("last", "first", "nearest")
RANKED = ("string", "binary", "decimal", "decimal256")  # kinds that compare without an ordinal of their own
I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_DAY = 86_400  # seconds
PickBy: TypeAlias = "Expression | Sequence[Expression]"
SideExpression = Callable[[Any, int, str], Node]


def pick_of(
    pick: Any, pick_by: Any, near: Any, how: JoinType, condition: Node | None,
    left_orders: tuple[Order, ...], schemas: tuple[pa.Schema, pa.Schema], expression: SideExpression,
    zone: str,
) -> Pick | None:
    """Resolve the arguments ``pick`` and ``pick_by`` of a join.

    Raises
    ------
    IvjoinError
        If an argument is invalid, or does not go with ``how``. ColumnError and ConditionError are subclasses.
    """
    if pick is None:
        if pick_by is not None:
            raise OptionError(f"pick_by is {came(pick_by)} without pick; add pick='last', 'first' or 'nearest'")
        return None
    one_of("pick", pick, WHICH)
    items = list(pick_by) if isinstance(pick_by, (list, tuple)) else [] if pick_by is None else [pick_by]
    if not items:
        raise ColumnError(
            f"pick_by is {came(pick_by)}; pick={pick!r} needs a right column, or a list of right columns whose later "
            "ones break ties, such as pick_by='ts'"
        )
    if how.name not in ("inner", "left"):
        raise ConditionError(
            f"how is {how.name!r} with pick={pick!r}, where each left row takes one right row; expected 'inner' or "
            "'left' (for 'right' exchange the two inputs; 'left_semi' and 'left_anti' need no pick)"
        )
    found = (expression(item, 1, "pick_by") for item in items)
    by = tuple(build.cast(node, INT64) if node.type.kind == "null" else node for node in found)  # all rows are alike
    for node, item in zip(by, items, strict=True):
        if not has_ordinal(node.type) and node.type.kind not in RANKED:
            raise ConditionError(
                f"pick_by {came(item)} is {node.type}; expected a number, a bool, a time, text or bytes"
            )
    if pick != "nearest":
        return Pick(pick, by)
    if near is not None:
        start = expression(near, 0, "pick_near")
        meeting(start, by[0], zone)
        return Pick(pick, by, start)
    return Pick(pick, by, _near(by[0], condition, left_orders, schemas, expression, zone))


def _near(
    by: Node, condition: Node | None, left_orders: tuple[Order, ...],
    schemas: tuple[pa.Schema, pa.Schema], expression: SideExpression,
    zone: str,
) -> Node:
    """Return the left expression to measure distances from: ordered, compared with ``by``, or of the same name."""
    found = [o.node for o in left_orders[:1]]
    if not found and condition is not None:
        found = [t.left for t in separate(condition).bands if t.right is by and t.left.op == "column"][:1]
    name = by.params[1] if by.op == "column" else None
    if not found and name in schemas[0].names:
        found = [expression(name, 0, "pick_by")]
    if not found:
        raise ConditionError(
            f"pick='nearest' takes the least distance from the left side's order to {by}; give left_order="
        )
    meeting(found[0], by, zone)
    return found[0]


def meeting(near: Node, by: Node, zone: str) -> tuple[Node, Node]:
    """Return both ends of a distance in one type.

    Raises
    ------
    ConditionError
        If no type has distances between them.
    """
    for node in (near, by):
        if not has_ordinal(node.type) and node.type.kind in RANKED:
            raise ConditionError(
                f"pick='nearest': values of {node}, which is {node.type}, have no distances; expected "
                "numbers or times (decimals of at most 18 digits); cast it, or use pick='last' or 'first'"
            )
    try:
        a, b = build.eq(near, by, zone).args
    except ConditionError as e:
        raise ConditionError(f"pick='nearest': no distance from {near} to {by}: {e}") from e
    if not has_ordinal(a.type) or a.type.kind == "bool":
        raise ConditionError(
            f"pick='nearest': no distance from {near} ({near.type}) to {by} ({by.type}); cast one of them to the "
            "other's type"
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

    Attributes
    ----------
    which : str
    lines : (list of Node, list of Node)
        Expressions whose ordinals are stored with each row of either side. The right side starts with the lines that
        compare rows.
    axes : (list of int, list of int)
        The line of each axis of a side.
    n_sort, n_place : int
        Number of right lines that compare rows. The first ``n_place`` give the place of a row; the others break ties.
    flags : frozenset of int
        Right lines that state whether the next line's expression is null, which loses against every value.
    near : int
        The left line that distances are measured from, or -1.
    terms : int64[t, 4]
        Left line, right line, least and greatest difference. The first ``n_search`` rise along the rows of a key.
    n_search : int
    reads : (list of Node, list of Node)
        All expressions that are computed for a batch.
    """

    which: str
    lines: tuple[list[Node], list[Node]]
    axes: tuple[list[int], list[int]]
    n_sort: int
    n_place: int
    flags: frozenset[int]
    near: int
    terms: np.ndarray
    n_search: int
    reads: tuple[list[Node], list[Node]]

    @property
    def step(self) -> int:
        """Number of ticks of the distance in one tick of the place, if the place has a coarser unit; else 0."""
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
