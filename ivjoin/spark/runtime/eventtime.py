"""Whether a column still arrives in the order that its watermark promises.

Spark stores a watermark's delay in the column's metadata, and copies it where the order is lost:

- A union has the delay of its first input for the rows of all.
- A join of two streams emits rows again, as late as their partners arrive.
- ``window_time`` is the end of a window, which rounds times up.

Spark's own operators wait for the least watermark of all. An order is a stronger promise. The delay is therefore read
as an order only if rows still arrive as ``withWatermark`` received them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ivjoin.expr.nodes import Node, columns_of
from ivjoin.frontier.order import Order
from ivjoin.spark.runtime.environment import is_connect
from ivjoin.spark.runtime.watermark import delays

__all__ = ["WatermarkWarning", "arrives_in_order", "in_order", "watermark_note", "window_note", "windows_without_order"]

_WATERMARKS = frozenset({"EventTimeWatermark", "UpdateEventTimeWatermarkColumn"})
_MIXING = frozenset({"Join", "SetOperation"})


class WatermarkWarning(UserWarning):
    """Warns that a watermark is not read as an order."""


def watermark_note(side: str, column: str) -> str:
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


def windows_without_order(
    pairs: Sequence[tuple[str, str]], side: int, frame: Any, orders: Sequence[Order]
) -> list[str]:
    """Return the key columns that are windows of an event time, and that no order of a stream reads."""
    ordered = {c.params[1] for o in orders if isinstance(o.expr, Node) for c in columns_of(o.expr)}
    windows = {f.name for f in frame.schema if delays([f]) and f.dataType.typeName() == "struct"}
    keys = [pair[side] for pair in pairs]
    return [name for name in keys if frame.isStreaming and name in windows and name not in ordered]


def in_order(frame: Any, index: int) -> bool:
    """Return whether a column of a streaming frame that carries a delay still keeps its promise.

    Over Connect the analyzed plan is not available. Only unions and joins are detected there.
    """
    if is_connect(frame):
        return _in_order_on_connect(frame)
    plan = frame._jdf.queryExecution().analyzed()
    return arrives_in_order(plan, plan.output().apply(index).exprId().id())


def arrives_in_order(plan: Any, expression: int) -> bool:
    """Return whether an attribute in the output of a plan keeps the promise of its watermark."""
    source: int | None = expression
    while True:
        kind = plan.getClass().getSimpleName()
        if kind == "Aggregate":
            return True  # a group is emitted when the watermark passes it
        if kind in _WATERMARKS and plan.eventTime().exprId().id() == source:
            return True
        streams = [c for c in _each(plan.children()) if c.isStreaming()]
        if len(streams) != 1:
            return not streams and source is not None  # a source whose schema was given the delay
        if kind == "Project" and source is not None:
            source = _handed_on(plan, source)
        plan = streams[0]


def _handed_on(project: Any, expression: int) -> int | None:
    """Return the input attribute that a projection passes on as this output; None if it is computed."""
    for e in _each(project.projectList()):
        if e.exprId().id() == expression:
            node = e.child() if e.getClass().getSimpleName() == "Alias" else e
            return int(node.exprId().id()) if node.getClass().getSimpleName() == "AttributeReference" else None
    return None


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


def _each(scala: Any) -> list[Any]:
    return [scala.apply(i) for i in range(scala.size())]
