"""Read the caller's promises about later rows of a side: watermarks, and positions of a whole side's orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ivjoin.errors import OptionError, ProtocolError, came
from ivjoin.expr.nodes import Node
from ivjoin.frontier.order import ordinal_range, physical_ordinal, shown
from ivjoin.operator.engine import Engine
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.question import side_expression
from ivjoin.plan.spec import SIDES
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["check_edges", "promises_of", "requirements"]

_MOST_WORDS = 64  # greatest number of watermark texts that an operator caches


def promises_of(engine: Engine, p: int, values: Mapping[Any, Any]) -> list[tuple[Node, int, bool]]:
    """Return the watermarks of side p as (expression, ordinal, whether the expression falls)."""
    if not isinstance(values, Mapping) or not values:
        raise OptionError(f"advance takes {{expression: value}}; got {came(values)}")
    side = engine.plan.sides[p]
    promises = []
    for name, value in values.items():
        # Programs usually pass the same text with every batch.
        known = engine.watermarks.get((p, name)) if type(name) is str else None
        if known is None:
            node = side_expression(name, p, side.schema, engine.plan.spec.timezone, "watermark")
            known = node, any(n is node and o.descending and not o.follows for n, _, o in side.orders)
            if type(name) is str and len(engine.watermarks) < _MOST_WORDS:
                engine.watermarks[p, name] = known
        node, descending = known
        ordinal = physical_ordinal(value, node.type, f"the watermark of {name}", up=not descending)
        promises.append((node, ordinal, descending))
    return promises


def check_edges(plan: JoinPlan, p: int, edges: Sequence[int | None]) -> None:
    """Raise ProtocolError unless ``edges`` is a list with an int64 or None for each order of side p."""
    call = f"reach({SIDES[p]!r}, ...)"
    if not isinstance(edges, (list, tuple)) or not all(_is_edge(e) for e in edges):
        raise ProtocolError(f"{call} got {came(edges)}; expected a list with an int64 or None for each order")
    n = sum(not o.follows for _, _, o in plan.sides[p].orders)
    if len(edges) != n:
        raise ProtocolError(f"{call} got {len(edges)} edges; the side has {n} orders")


def _is_edge(edge: Any) -> bool:
    whole = isinstance(edge, (int, np.integer)) and not isinstance(edge, bool)
    return edge is None or (whole and I64_MIN <= int(edge) <= I64_MAX)


def requirements(engine: Engine, p: int) -> list[str]:
    """Return the requirements of side p's orders and bounds for its next rows, as text such as ``ts >= 12``."""
    frontier = engine.frontiers[p]
    out = []
    for t in frontier.trackers:
        if t.limit > I64_MIN:
            sign, limit = ("<=", ~t.limit) if t.descending else (">=", t.limit)
            out.append(f"{t.name} {sign} {shown(limit, t.node.type)}")
    for node in {**frontier.bounds, **frontier.promised}:
        low, high, _ = frontier.limits_of(node)
        least, most = ordinal_range(node.type)
        out += [f"{node} >= {shown(low, node.type)}"] if low > least else []
        out += [f"{node} <= {shown(high, node.type)}"] if high < most else []
    return out
