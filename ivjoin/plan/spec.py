"""The resolved arguments of a join, which determine its output rows.

A spec is immutable. It is the key of cached plans and part of snapshots and checkpoints, and Spark workers receive it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from ivjoin.expr.codec import decode, encode
from ivjoin.expr.nodes import Node
from ivjoin.frontier.order import Order
from ivjoin.plan.aggregates import Aggregate

__all__ = ["RANKS", "SIDES", "Bounds", "JoinSpec", "Pick"]

SIDES = ("left", "right")
RANKS = ("least", "greatest")  # picks that compare all matches of a left row

Bounds = tuple[tuple[Node, int, int], ...]  # (expression, least ordinal, greatest ordinal)
_Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Pick:
    """How a left row picks from the right rows that satisfy the whole condition.

    ``which`` is last, first, nearest, least or greatest. The first three pick one row, and decide as right rows arrive.
    The other two compare all matches of a left row, and pick ``k`` of them. With ``ties``, they also pick the matches
    that tie with the last one.
    """

    which: str
    by: tuple[Node, ...]  # right expressions; least and greatest may read both sides. Later ones break ties
    near: Node | None = None  # for nearest: the left expression that distances are measured from
    unbounded: bool = False  # sums in the condition do not overflow
    k: int = 1
    ties: bool = False

    @property
    def as_json(self) -> dict[str, Any]:
        saved = {
            "which": self.which, "by": [encode(n) for n in self.by], "near": encode(self.near),
            "unbounded": self.unbounded,
        }
        return saved | {"k": self.k, "ties": self.ties} if self.which in RANKS else saved

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Pick:
        return cls(saved["which"], tuple(_node(n) for n in saved["by"]), decode(saved["near"]), saved["unbounded"],
                   int(saved.get("k", 1)), bool(saved.get("ties", False)))  # fmt: skip


@dataclass(frozen=True, eq=False)
class JoinSpec:
    """The complete description of a join. :func:`ivjoin.plan.question.join_spec` creates it.

    The ``implied`` conditions are true for every pair that the caller needs. They are used only for pruning.
    """

    schemas: tuple[pa.Schema, pa.Schema]
    on: _Pairs = ()  # key columns, left and right
    condition: Node | None = None  # the caller's condition, without the keys
    how: str = "inner"
    orders: tuple[tuple[Order, ...], tuple[Order, ...]] = ((), ())  # with resolved expressions
    bounds: tuple[Bounds, Bounds] = ((), ())  # closed intervals of ordinals that contain every row
    suffix: str = "_right"
    batch_size: int = 65536  # most rows of an output batch
    on_late: str = "raise"
    timezone: str = "UTC"
    left_over: tuple[str, ...] = ()  # conjuncts that the caller evaluates on the joined rows
    pick: Pick | None = None  # None for all matches
    aggregates: tuple[Aggregate, ...] = ()  # the output is one row for each left row instead of pairs
    first_by: tuple[Node, bool] | None = None  # the order of matches for first and last, and whether it falls
    include_previous: bool = False  # the row before a window also belongs to the window
    implied: tuple[Node, ...] = ()

    @property
    def grouped(self) -> bool:
        """Return whether all matches of a left row must be known before output: for aggregates, least and greatest."""
        return bool(self.aggregates) or (self.pick is not None and self.pick.which in RANKS)

    @property
    def picks_one(self) -> bool:
        """Return whether a left row picks one right row, which is decided as right rows arrive."""
        return self.pick is not None and self.pick.which not in RANKS

    @cached_property
    def as_json(self) -> dict[str, Any]:
        saved = {
            "schemas": [base64.b64encode(s.serialize().to_pybytes()).decode() for s in self.schemas],
            "on": [list(pair) for pair in self.on],
            "condition": encode(self.condition),
            "how": self.how,
            "orders": [
                [
                    [encode(o.node), o.descending, _slack(o.slack), o.nulls, *([True] if o.follows else [])]
                    for o in side
                ]
                for side in self.orders
            ],
            "bounds": [[[encode(n), low, high] for n, low, high in side] for side in self.bounds],
            "options": {
                "suffix": self.suffix, "batch_size": self.batch_size, "on_late": self.on_late,
                "timezone": self.timezone,
            },
        }
        if self.left_over:
            saved["left_over"] = list(self.left_over)
        if self.aggregates:
            saved["aggregates"] = [a.as_json() for a in self.aggregates]
            saved["first_by"] = None if self.first_by is None else [encode(self.first_by[0]), self.first_by[1]]
        if self.include_previous:
            saved["include_previous"] = True
        if self.pick is not None:
            saved["pick"] = self.pick.as_json
        if self.implied:
            saved["implied"] = [encode(n) for n in self.implied]
        return saved

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> JoinSpec:
        """Return the spec that :attr:`as_json` describes.

        A damaged expression raises a SnapshotError. Other damage raises a KeyError, TypeError or ValueError.
        """
        left, right = (pa.ipc.read_schema(pa.py_buffer(base64.b64decode(t))) for t in saved["schemas"])
        first, second = (
            tuple(
                Order(decode(n), descending, _unslack(slack), nulls, follows=bool(follows))
                for n, descending, slack, nulls, *follows in side
            )
            for side in saved["orders"]
        )
        by = saved.get("first_by")
        of_left, of_right = (tuple((_node(n), low, high) for n, low, high in side) for side in saved["bounds"])
        return cls(
            (left, right), tuple((a, b) for a, b in saved["on"]), decode(saved["condition"]), saved["how"],
            (first, second), (of_left, of_right), left_over=tuple(saved.get("left_over", ())),
            aggregates=tuple(Aggregate.from_json(a) for a in saved.get("aggregates", ())),
            first_by=None if by is None else (_node(by[0]), bool(by[1])),
            include_previous=bool(saved.get("include_previous", False)),
            pick=Pick.from_json(saved["pick"]) if "pick" in saved else None,
            implied=tuple(_node(n) for n in saved.get("implied", ())), **saved["options"],
        )

    @cached_property
    def encoded(self) -> bytes:
        """Return the spec as bytes. Equal joins have equal bytes in every process."""
        return json.dumps(self.as_json, separators=(",", ":"), sort_keys=True).encode()

    def with_late(self, on_late: str) -> JoinSpec:
        return replace(self, on_late=on_late)

    def with_orders(self, left: tuple[Order, ...], right: tuple[Order, ...], on_late: str) -> JoinSpec:
        return replace(self, orders=(left, right), on_late=on_late)

    def __hash__(self) -> int:
        return hash(self.encoded)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JoinSpec):
            return NotImplemented
        # JSON shows only the storage of an extension type, so the types are compared too.
        return self is other or (
            self.encoded == other.encoded
            and all(a.types == b.types for a, b in zip(self.schemas, other.schemas, strict=True))
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def _node(data: Any) -> Node:
    node = decode(data)
    if node is None:
        raise ValueError("a bound is of nothing")
    return node


def _slack(slack: Any) -> Any:
    if isinstance(slack, timedelta):
        return {"us": (slack.days * 86_400 + slack.seconds) * 1_000_000 + slack.microseconds}
    if isinstance(slack, Decimal):
        return {"decimal": str(slack)}
    if isinstance(slack, float):
        return {"float": slack.hex()}
    return slack


def _unslack(slack: Any) -> Any:
    if not isinstance(slack, dict):
        return slack
    (tag, value), = slack.items()
    if tag == "us":
        return timedelta(microseconds=value)
    return Decimal(value) if tag == "decimal" else float.fromhex(value)
