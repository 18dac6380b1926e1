"""The identity of a join: which arguments must not change if a query continues from its checkpoint, and which may."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import Any

from ivjoin.expr.codec import encode
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import value_of
from ivjoin.frontier.order import Order, ordinal_range
from ivjoin.frontier.slack import slack_ticks
from ivjoin.plan.cache import plan_of
from ivjoin.plan.spec import SIDES, JoinSpec

__all__ = ["FREE", "differences", "identity", "spelling_digest"]

FREE = "free"  # the name of the part that may change
_FORM = "condition form"


def identity(spec: JoinSpec) -> dict[str, Any]:
    """Return the identity of a join in words, by the name of the argument.

    The arguments that may change are under the name ``FREE``: reversed bands and keys, the order of conjuncts and
    columns, ``suffix``, ``on_late``, ``batch_size``, and slacks, which may grow.
    """
    free: dict[str, Any] = {
        "condition": "none" if spec.condition is None else str(spec.condition), "suffix": spec.suffix,
        "on_late": spec.on_late, "batch_size": spec.batch_size,
    }  # fmt: skip
    out: dict[str, Any] = {
        "how": spec.how,
        "on": ", ".join(sorted(a if a == b else f"{a} = {b}" for a, b in spec.on)) or "none",
        "timezone": spec.timezone,
        _FORM: _form(spec),
        FREE: free,
    }
    if spec.aggregates:
        out["aggregate"] = "; ".join(map(str, spec.aggregates))
    if spec.pick is not None:
        p = spec.pick
        near = "" if p.near is None else f" near {p.near}"
        out["pick"] = f"{p.which} {p.k}{' with ties' if p.ties else ''} by {', '.join(map(str, p.by))}{near}"
    if spec.left_over:
        out["condition left to Spark"] = " AND ".join(sorted(spec.left_over))
    for name, schema, orders, bounds in zip(SIDES, spec.schemas, spec.orders, spec.bounds, strict=True):
        out[f"{name} columns"] = ", ".join(sorted(f"{f.name} {f.type}" for f in schema))
        out[f"{name}_order"] = "; ".join(map(_order_text, orders)) or "none"
        out[f"{name}_bounds"] = ", ".join(sorted(_bound_text(*b) for b in bounds)) or "none"
        free[f"{name} columns"] = schema.names
        free[f"{name}_order"] = [[str(slack_ticks(o.slack, o.node.type, "")), str(o.slack)] for o in orders]
    return out


def differences(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return in words the differences between two identities that a checkpoint does not allow."""
    lines = [
        f"{name} was {was.get(name)!r} and is now {now.get(name)!r}"
        for name in sorted({*was, *now} - {_FORM, FREE})
        if was.get(name) != now.get(name)
    ]
    old, new = was.get(FREE, {}), now.get(FREE, {})
    if was.get(_FORM) != now.get(_FORM):
        texts = old.get("condition"), new.get("condition")
        lines.insert(0, f"condition was {texts[0]!r} and is now {texts[1]!r}" if texts[0] != texts[1] else
                     "condition: it reads the same but was built from other types or functions")  # fmt: skip
    if not lines:
        for name in ("left_order", "right_order"):
            for (before, said), (after, text) in zip(old.get(name, ()), new.get(name, ()), strict=True):
                if Fraction(after) < Fraction(before):
                    lines.append(f"the slack of {name} was {said} and is now {text}; it may only grow")
    return lines


def spelling_digest(spec: JoinSpec) -> str:
    """Return a digest of the keys, the condition and the columns as they are written."""
    return _digest([spec.on, encode(spec.condition), *(schema.names for schema in spec.schemas)])


def _form(spec: JoinSpec) -> str:
    """Return a digest of the condition that ignores the order of conjuncts and the sides of bands and keys."""
    found = plan_of(spec).separation
    parts = [["key", encode(k.left), encode(k.right), k.null_safe] for k in found.keys]
    parts += [["band", encode(b.left), encode(b.right), b.lo, b.hi] for b in found.bands]
    for name in ("left_filter", "right_filter", "residual", "constant"):
        parts += [[name, encode(n)] for n in getattr(found, name)]
    return _digest(sorted(json.dumps(part, sort_keys=True) for part in parts))


def _digest(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _order_text(o: Order) -> str:
    nulls = "" if o.nulls is None else f" nulls {o.nulls}"
    return f"{o.expr}{' descending' if o.descending else ''}{nulls}"


def _bound_text(node: Node, low: int, high: int) -> str:
    least, greatest = ordinal_range(node.type)
    ends: tuple[Any, Any] = (
        None if low == least else value_of(low, node.type), None if high == greatest else value_of(high, node.type)
    )
    return f"{node} {ends!r}"
