"""Resolve ``ivjoin.Pick``.

Some picks of one row can be decided as right rows arrive. The other picks compare all matches of a left row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ivjoin.conditions.evaluate import check_supported
from ivjoin.errors import ConditionError, IvjoinError, came
from ivjoin.expr import build, ops
from ivjoin.expr.conjuncts import conjuncts_of
from ivjoin.expr.nodes import Node, sides_of
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.types import INT64, from_arrow
from ivjoin.outer.jointype import JoinType
from ivjoin.plan import spec
from ivjoin.plan.picking.choice import Pick, check_pick
from ivjoin.plan.picking.pick import RANKED, meeting
from ivjoin.separation.separate import separate

__all__ = ["best_of"]


def best_of(
    given: object, how: JoinType, condition: Node | None, right: pa.Schema, expression: Callable[[Any], Node], zone: str
) -> spec.Pick:
    """Resolve the caller's ``pick``. ``expression`` returns the node of an expression.

    Raise OptionError if ``pick`` is not an ``ivjoin.Pick``, and ColumnError for an unknown column. Raise ConditionError
    for an expression without an order, and for a semi or anti join.
    """
    pick = check_pick(given)
    if how.single is not None:
        raise ConditionError(
            f"how is {how.name!r} with pick=, which takes right rows; expected 'inner', 'left', 'right' or 'full'"
        )
    by = tuple(_node(item, right, expression) for item in pick.items)
    if how.name in ("inner", "left") and pick.k == 1 and pick.ties == "any":
        found = _by_one(pick, by, condition, right, zone)
        if found is not None:
            return found
    for node in by:
        check_supported(node)
    return spec.Pick("least" if pick.keep == "first" else "greatest", by, k=pick.k, ties=pick.ties == "all")


def _node(item: Any, right: pa.Schema, expression: Callable[[Any], Node]) -> Node:
    if isinstance(item, str) and item in right.names:
        node = build.column("right", item, from_arrow(right.field(item).type))
    else:
        try:
            node = expression(item)
        except IvjoinError as e:
            raise type(e)(f"pick by {came(item)}: {e}") from None
    if node.type.kind == "null":
        return build.cast(node, INT64)  # all values are NULL, so any type is correct
    if not has_ordinal(node.type) and node.type.kind not in RANKED and node.type.kind != "uuid":
        raise ConditionError(f"pick by {came(item)} is {node.type}; expected a number, a bool, a time, text or bytes")
    return node


def _by_one(
    pick: Pick, by: tuple[Node, ...], condition: Node | None, right: pa.Schema, zone: str
) -> spec.Pick | None:
    """Return a pick that can be decided as right rows arrive; None if all matches must be compared.

    Such a pick never takes a row with a null as its first value. The condition must therefore exclude these nulls.
    """
    place, near = by[0], None
    if pick.keep == "first" and len(by) == 1 and place.op == ops.ABS and place.args[0].op == ops.SUB:
        a, b = place.args[0].args
        near, place = (a, b) if sides_of(b) == {"right"} else (b, a)
        if sides_of(near) != {"left"} or condition is None:
            return None
        terms = [t for t in separate(condition).bands if t.exact]
        if not any(t.right is place and t.left is near for t in terms):
            return None
        try:
            meeting(near, place, zone)
        except ConditionError:
            return None
        return spec.Pick("nearest", (place,), near)
    if any(sides_of(node) != {"right"} for node in by):
        return None
    fields = {f.name: f for f in right}
    present = place.op == "column" and not fields[place.params[1]].nullable
    if not present and condition is not None:
        present = build.is_not_null(place) in conjuncts_of(condition) or any(
            t.exact and t.right is place for t in separate(condition).bands
        )
    return spec.Pick("first" if pick.keep == "first" else "last", by) if present else None
