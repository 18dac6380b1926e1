"""Read a user's ``withWatermark`` as a declared order, if rows still arrive in the order that it promises.

Spark stores a watermark's delay in the column's metadata, and also copies it in cases where the order is lost:

- A union has the delay of its first input for the rows of all inputs.
- A join of two streams emits rows again when their partners arrive, which can be late.
- ``window_time`` is the end of a window, which rounds times up.

Therefore the delay is read as an order only if rows still arrive as ``withWatermark`` received them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ivjoin.expr.nodes import Node, columns_of
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.frontier.order import Order
from ivjoin.spark.runtime.catalyst import analyzed, computed, each, ids, kind_of, reference
from ivjoin.spark.runtime.environment import is_connect

__all__ = [
    "WatermarkWarning", "delays", "is_unordered_window", "slack_of_window", "watermarks_of", "window_note",
    "with_watermarks", "without_watermark",
]  # fmt: skip

_DELAY = "spark.watermarkDelayMs"  # in a column's metadata, which renames and projections preserve
_WATERMARKS = frozenset({"EventTimeWatermark", "UpdateEventTimeWatermarkColumn"})
_MIXING = frozenset({"Join", "SetOperation"})
_KEEPS_WINDOWS = frozenset({"Filter", "SubqueryAlias", "Deduplicate", *_WATERMARKS})


class WatermarkWarning(UserWarning):
    """Warns that a watermark is not read as an order."""


def delays(schema: Any) -> dict[str, timedelta]:
    """Return the delay of each event-time column of a ``StructType``, by name."""
    return {f.name: timedelta(milliseconds=f.metadata[_DELAY]) for f in schema if _DELAY in (f.metadata or {})}


def without_watermark(metadata: dict[str, Any] | None) -> dict[str, Any]:
    """Return column metadata for the output, without the delay: it would announce a watermark that does not exist."""
    return {k: v for k, v in (metadata or {}).items() if k != _DELAY}


def with_watermarks(
    orders: Iterable[Order], delay: Mapping[Any, timedelta], no_order: Collection[Any] = ()
) -> list[Order]:
    """Combine declared orders with watermarks: an order on an event-time column takes the delay as its slack.

    An explicit slack takes precedence. A watermark without a declared order becomes an order, except for columns in
    ``no_order``. The columns in ``delay`` have the same form as the expressions of the orders.
    """
    left = dict(delay)
    out = []
    for o in orders:
        wait = left.pop(o.expr, None)
        if wait is not None and o.slack is None and not o.descending:
            o = replace(o, slack=wait)
        out.append(o)
    return out + [Order(column, slack=wait) for column, wait in left.items() if column not in no_order]


def watermarks_of(
    frame: Any, side: str, column_at: Callable[[int], Node], declared: Sequence[Order]
) -> tuple[dict[Node, timedelta], list[Node], list[WatermarkWarning]]:
    """Return the delays of a frame's columns, and the columns whose delay is not an order, with warnings about them."""
    delay: dict[Node, timedelta] = {}
    no_order, notes = [], []
    for i, f in enumerate(frame.schema):
        for wait in delays([f]).values():
            column = column_at(i)
            if not has_ordinal(column.type):  # Spark also marks windows over an event time, which are structs
                continue
            delay[column] = wait
            if frame.isStreaming and all(o.expr is not column for o in declared) and not _in_order(frame, i):
                no_order.append(column)
                notes.append(WatermarkWarning(_watermark_note(side, f.name)))
    return delay, no_order, notes


def _watermark_note(side: str, column: str) -> str:
    return (
        f"the watermark of {side}'s column {column!r} is not read as an order, since the column is no longer as "
        "withWatermark saw it: a union or a join of streams lies between, or it was computed. Rows would be dropped as "
        "late that are not. Without an order the other side's rows are kept: set withWatermark after the union, or "
        f"say what holds with {side}_order=Order({column!r}, slack=...)"
    )


def window_note(side: str, column: str) -> str:
    return (
        f"the key {column!r} of {side} is a window over an event time, and its watermark is not read as an order: rows "
        "of the other side are stored forever. To evict them, declare the order on both sides, such as "
        f"{side}_order=Order('{column}.end', slack=...) with the watermark's delay plus the length of the window, and "
        f"add the condition l.{column}.end = r.{column}.end"
    )


def is_unordered_window(name: str, frame: Any, orders: Sequence[Order]) -> bool:
    """Return whether a column of a stream is a window over an event time, and no order reads it."""
    ordered = {c.params[1] for o in orders if isinstance(o.expr, Node) for c in columns_of(o.expr)}
    windows = {f.name for f in frame.schema if delays([f]) and f.dataType.typeName() == "struct"}
    return frame.isStreaming and name in windows and name not in ordered


def _in_order(frame: Any, index: int) -> bool:
    """Return whether the promise of a delay still applies to a column of a streaming frame.

    Over Connect, the analyzed plan is not available. Only unions and joins are detected there.
    """
    if is_connect(frame):
        return _in_order_on_connect(frame)
    plan = analyzed(frame)
    return _arrives_in_order(plan, plan.output().apply(index).exprId().id())


def _arrives_in_order(plan: Any, attribute: int | None) -> bool:
    while True:
        kind = kind_of(plan)
        if kind == "Aggregate":
            return True  # a group is emitted when the watermark passes it
        if kind in _WATERMARKS and plan.eventTime().exprId().id() == attribute:
            return True
        streams = [c for c in each(plan.children()) if c.isStreaming()]
        if len(streams) != 1:
            return not streams and attribute is not None  # a source whose schema contains the delay
        if kind == "Project" and attribute is not None:
            made = computed(plan).get(attribute)
            attribute = None if made is None else reference(made)
        plan = streams[0]


def _in_order_on_connect(frame: Any) -> bool:
    plan = frame._plan
    while plan is not None:
        kind = type(plan).__name__
        if kind == "WithWatermark":
            return True
        if kind in _MIXING:
            other = plan.other if kind == "SetOperation" else plan.right
            if type(frame)(other, frame.sparkSession).isStreaming:
                return False
        plan = getattr(plan, "_child", None)
    return True


def slack_of_window(frame: Any, index: int, delay: timedelta) -> timedelta | None:
    """Return how far the end of a window can be below the greatest end of earlier micro-batches.

    A window ends after each of its times, and at most its length later. Therefore the end of a later window is above
    ``greatest end - length - delay``. Groups of windows are emitted in the order of their ends. Return None if the plan
    does not show the length: over Connect, after a join or union, or for a window of varying length.
    """
    if is_connect(frame):
        return None
    plan = analyzed(frame)
    attribute = plan.output().apply(index).exprId().id()
    while True:
        kind = kind_of(plan)
        made = None
        if kind == "Aggregate":
            return timedelta(0)
        if kind == "Project":
            made = computed(plan)[attribute]
        elif kind == "Expand":
            made = plan.projections().apply(0).apply(ids(plan.output()).index(attribute))
        elif kind not in _KEEPS_WINDOWS:
            return None
        plan = plan.children().apply(0)
        if made is None:
            continue
        attribute = reference(made)
        if attribute is None:
            length, time = _length(made), ids(made.references().toSeq())
            if length is None or len(time) != 1 or not _arrives_in_order(plan, time[0]):
                return None
            return delay + length - timedelta(microseconds=1)


def _length(struct: Any) -> timedelta | None:
    """Return the constant that the end of a window adds to another expression; None if it has another form."""
    if kind_of(struct) != "CreateNamedStruct" or struct.children().size() != 4:
        return None
    node = struct.children().apply(3)
    while node.children().size() == 1:
        node = node.children().apply(0)
    if node.children().size() != 2 or not node.children().apply(1).foldable():
        return None
    added = node.children().apply(1).eval(None)
    if isinstance(added, int):
        return timedelta(microseconds=added)
    from py4j.java_gateway import get_field

    months, days, micros = (get_field(added, name) for name in ("months", "days", "microseconds"))
    return None if months else timedelta(days=days, microseconds=micros)
