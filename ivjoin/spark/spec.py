"""What a worker needs to know of a join: a picklable description that becomes a plan, once per process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from ivjoin.expr.codec import encode
from ivjoin.expr.nodes import Node
from ivjoin.frontier.order import Order
from ivjoin.plan.planner import JoinPlan, make_plan

__all__ = ["JoinSpec", "identity"]


@dataclass(frozen=True)
class JoinSpec:
    """The arguments of a join with every name resolved.

    Attributes
    ----------
    schemas : (pa.Schema, pa.Schema)
        Left and right, as their rows reach a worker.
    on : tuple of (str, str)
    condition : Node or None
    how : str
    orders : (tuple of Order, tuple of Order)
        Their expressions are nodes.
    bounds : (dict or None, dict or None)
    suffix, on_late, timezone : str
    batch_size : int
    left_over : tuple of str
        Conjuncts that Spark applies to the joined rows, as SQL.
    """

    schemas: tuple[pa.Schema, pa.Schema]
    on: tuple[tuple[str, str], ...]
    condition: Node | None
    how: str
    orders: tuple[tuple[Order, ...], tuple[Order, ...]]
    bounds: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
    suffix: str
    on_late: str
    timezone: str
    batch_size: int
    left_over: tuple[str, ...] = ()

    def plan(self) -> JoinPlan:
        """The plan of the operator, made once per process: operators copy what they change of it and share the rest."""
        return _planned(_Keyed(self, self.fingerprint))

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that decides which rows come out."""
        text = json.dumps(identity(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def with_orders(self, left: tuple[Order, ...], right: tuple[Order, ...], on_late: str) -> JoinSpec:
        return replace(self, orders=(left, right), on_late=on_late)


class _Keyed:
    """A spec that hashes by its fingerprint, since schemas and bounds do not hash."""

    __slots__ = ("key", "spec")

    def __init__(self, spec: JoinSpec, fingerprint: str) -> None:
        self.spec, self.key = spec, (fingerprint, spec.batch_size)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and other.key == self.key


@lru_cache(maxsize=64)
def _planned(keyed: _Keyed) -> JoinPlan:
    s = keyed.spec
    return make_plan(
        s.schemas[0], s.schemas[1], on=list(s.on), condition=s.condition, how=s.how, left_order=list(s.orders[0]),
        right_order=list(s.orders[1]), left_bounds=s.bounds[0], right_bounds=s.bounds[1], suffix=s.suffix,
        batch_size=s.batch_size, on_late=s.on_late, timezone=s.timezone,
    )


def identity(spec: JoinSpec) -> dict[str, str]:
    """What must stay the same for a checkpoint to go on, in words, by the name of the argument."""
    out = {
        "how": spec.how,
        "on": ", ".join(a if a == b else f"{a} = {b}" for a, b in spec.on) or "none",
        "condition": "none" if spec.condition is None else str(spec.condition),
        "timezone": spec.timezone,
        "suffix": spec.suffix,
        "on_late": spec.on_late,
    }
    if spec.condition is not None:
        exact = json.dumps(encode(spec.condition), sort_keys=True)
        out["condition form"] = hashlib.sha256(exact.encode()).hexdigest()[:16]
    if spec.left_over:
        out["condition left to Spark"] = " AND ".join(spec.left_over)
    for name, schema, orders, bounds in zip(("left", "right"), spec.schemas, spec.orders, spec.bounds, strict=True):
        out[f"{name} columns"] = ", ".join(f"{f.name} {f.type}" for f in schema)
        out[f"{name}_order"] = "; ".join(_order_text(o) for o in orders) or "none"
        out[f"{name}_bounds"] = ", ".join(f"{k} {v!r}" for k, v in sorted((bounds or {}).items())) or "none"
    return out


def _order_text(o: Order) -> str:
    slack = "" if o.slack is None else f" slack {o.slack}"
    return f"{o.expr}{' descending' if o.descending else ''}{slack}"
