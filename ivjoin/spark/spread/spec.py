"""What of a join must stay the same for a checkpoint to go on, in words."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ivjoin.expr.codec import encode
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import value_of
from ivjoin.frontier.order import Order, ordinal_range
from ivjoin.plan.spec import JoinSpec

__all__ = ["identity"]


def identity(spec: JoinSpec) -> dict[str, str]:
    """What must stay the same for a checkpoint to go on, in words, by the name of the argument."""
    out = {
        "how": spec.how,
        "on": ", ".join(a if a == b else f"{a} = {b}" for a, b in spec.on) or "none",
        "condition": "none" if spec.condition is None else str(spec.condition),
        "timezone": spec.timezone,
        "on_late": "join" if spec.on_late == "join" else "drop or raise",  # the state is the same for these two
    }
    if spec.condition is not None:
        exact = json.dumps(encode(spec.condition), sort_keys=True)
        out["condition form"] = hashlib.sha256(exact.encode()).hexdigest()[:16]
    if spec.aggregates:
        out["aggregate"] = "; ".join(map(str, spec.aggregates))
    if spec.pick is not None:
        p = spec.pick
        near = "" if p.near is None else f" near {p.near}"
        out["pick"] = f"{p.which} {p.k}{' with ties' if p.ties else ''} by {', '.join(map(str, p.by))}{near}"
    if spec.left_over:
        out["condition left to Spark"] = " AND ".join(spec.left_over)
    for name, schema, orders, bounds in zip(("left", "right"), spec.schemas, spec.orders, spec.bounds, strict=True):
        out[f"{name} columns"] = ", ".join(f"{f.name} {f.type}" for f in schema)
        out[f"{name}_order"] = "; ".join(_order_text(o) for o in orders) or "none"
        out[f"{name}_bounds"] = ", ".join(sorted(_bound_text(*b) for b in bounds)) or "none"
    return out


def _order_text(o: Order) -> str:
    slack = "" if o.slack is None else f" slack {o.slack}"
    nulls = "" if o.nulls is None else f" nulls {o.nulls}"
    return f"{o.expr}{' descending' if o.descending else ''}{nulls}{slack}"


def _bound_text(node: Node, low: int, high: int) -> str:
    least, greatest = ordinal_range(node.type)
    ends: tuple[Any, Any] = (
        None if low == least else value_of(low, node.type), None if high == greatest else value_of(high, node.type)
    )
    return f"{node} {ends!r}"
