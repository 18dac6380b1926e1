"""The question of a join with all names resolved: it determines the output rows.

One immutable value is the key of cached plans, part of snapshots and checkpoints, and sent to Spark's workers.
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
RANKS = ("least", "greatest")  # ways to pick that compare all matches of a left row

Bounds = tuple[tuple[Node, int, int], ...]  # (expression, least ordinal, greatest ordinal)
_Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Pick:
    """How a left row selects one of the right rows that satisfy the whole condition.

    ``which`` is last, first, nearest, least or greatest. The first three take one row, decided as right rows arrive.
    The others compare all matches of a left row, and take ``k`` of them, with ``ties`` also those that tie with the
    last.
    """

    which: str
    by: tuple[Node, ...]  # of the right side, or for least and greatest of both sides; the later ones break ties
    near: Node | None = None  # of the left side: where the distance of nearest starts
    unbounded: bool = False  # sums of the condition do not overflow
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
    """A join, fully described: frozen, hashable, picklable. :func:`ivjoin.plan.question.join_spec` makes one.

    ``implied`` are conditions that are true for every pair that the caller needs. They prune, and decide no pair.
    """

    schemas: tuple[pa.Schema, pa.Schema]
    on: _Pairs = ()  # key columns, left and right
    condition: Node | None = None  # besides the keys, as given
    how: str = "inner"
    orders: tuple[tuple[Order, ...], tuple[Order, ...]] = ((), ())  # with nodes as expressions
    bounds: tuple[Bounds, Bounds] = ((), ())  # closed, of every row, as ordinals (``ivjoin.expr.ordinal``)
    suffix: str = "_right"
    batch_size: int = 65536  # most rows of an output batch
    on_late: str = "raise"
    timezone: str = "UTC"
    left_over: tuple[str, ...] = ()  # conjuncts that the caller applies to the joined rows
    pick: Pick | None = None  # None for all matches
    aggregates: tuple[Aggregate, ...] = ()  # of each left row's matches, in place of the pairs
    first_by: tuple[Node, bool] | None = None  # what orders matches for first and last, and whether it falls
    include_previous: bool = False  # the row before a window is the first row of it
    implied: tuple[Node, ...] = ()

    @property
    def grouped(self) -> bool:
        """Return whether all matches of a left row are answered at once: aggregates, or the best ones."""
        return bool(self.aggregates) or (self.pick is not None and self.pick.which in RANKS)

    @property
    def picks_one(self) -> bool:
        """Return whether a left row takes one right row, decided as right rows arrive."""
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

        A damaged expression is a SnapshotError. Other text is a KeyError, TypeError or ValueError.
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
        """Return the spec as bytes: equal for equal joins, the same in every process."""
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
        # An extension type is written as its storage; the types distinguish two of them.
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
