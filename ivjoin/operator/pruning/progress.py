"""Compare how far two inputs have advanced. The lagging input is read next, so that few rows wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ivjoin.expr.nodes import Node
from ivjoin.frontier.order import ordinal_range
from ivjoin.plan.join_plan import JoinPlan, of_plan

__all__ = ["behind", "compared_orders"]

Spans = Mapping[Node, tuple[int, ...]]  # (low, high, ...) of an expression in future rows


@of_plan
def compared_orders(plan: JoinPlan) -> list[tuple[Node, Node, int, bool]]:
    """Return ordered expressions of one type that relate both sides: (left, right, offset, whether they fall)."""
    orders = [{n: o.descending for n, _, o in side.orders} for side in plan.sides]
    out = []
    for t in plan.terms:
        if t.left in orders[0] and t.right in orders[1] and orders[0][t.left] == orders[1][t.right]:
            known = [x for x in (t.lo, t.hi) if x is not None]
            out.append((t.left, t.right, sum(known) // len(known), orders[0][t.left]))
    for a, down in orders[0].items():
        out.extend((a, b, 0, down) for b, also in orders[1].items() if a.type == b.type and down == also)
    return out


def behind(
    compared: Sequence[tuple[Node, Node, int, bool]], left: Spans, right: Spans, rows_left: int, rows_right: int
) -> int:
    """Return the side whose frontier lags. If neither lags, return the side with fewer rows read."""
    for a, b, offset, falling in compared:
        x, y = left.get(a), right.get(b)
        if x is None or y is None:
            continue
        if falling:
            lag, unseen = y[1] + offset - x[1], (x[1], y[1])
            start = ordinal_range(a.type)[1]
        else:
            lag, unseen = x[0] - y[0] - offset, (x[0], y[0])
            start = ordinal_range(a.type)[0]
        if start in unseen:
            return 0 if unseen[0] == start and (unseen[1] != start or rows_left <= rows_right) else 1
        return 0 if lag <= 0 else 1
    return 0 if rows_left <= rows_right else 1
