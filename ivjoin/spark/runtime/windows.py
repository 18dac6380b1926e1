"""Windows over an event time as columns: in which order their ends arrive.

Let rows arrive with times of at least ``max - delay``. A window that contains a time ends after it, and at most its
length later. So the end of a later window is above ``greatest end - length - delay``. Groups of windows are emitted
when the watermark passes their end, so their ends rise from one micro-batch to the next.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ivjoin.spark.runtime.environment import is_connect
from ivjoin.spark.runtime.eventtime import arrives_in_order

__all__ = ["slack_of_window"]

_TICK = timedelta(microseconds=1)
_KEEPS = frozenset({"Filter", "SubqueryAlias", "EventTimeWatermark", "UpdateEventTimeWatermarkColumn", "Deduplicate"})


def slack_of_window(frame: Any, index: int, delay: timedelta) -> timedelta | None:
    """Return how far the end of a window is below the greatest one of earlier micro-batches, at most.

    None if the plan does not show it: over Connect, after a join or union, or for a window of varying length.
    """
    if is_connect(frame):
        return None
    plan = frame._jdf.queryExecution().analyzed()
    attribute = plan.output().apply(index).exprId().id()
    while True:
        kind = plan.getClass().getSimpleName()
        made = None
        if kind == "Aggregate":
            return timedelta(0)
        if kind == "Project":
            made = _named(plan.projectList(), attribute)
        elif kind == "Expand":
            at = [a.exprId().id() for a in _each(plan.output())].index(attribute)
            made = plan.projections().apply(0).apply(at)
        elif kind not in _KEEPS:
            return None
        if made is not None and made.getClass().getSimpleName() == "AttributeReference":
            attribute = made.exprId().id()
        elif made is not None:
            length, time = _length(made), [a.exprId().id() for a in _each(made.references().toSeq())]
            if length is None or len(time) != 1 or not arrives_in_order(plan.children().apply(0), time[0]):
                return None
            return delay + length - _TICK
        plan = plan.children().apply(0)


def _named(expressions: Any, attribute: int) -> Any:
    """Return what a projection computes as this output."""
    (found,) = (e for e in _each(expressions) if e.exprId().id() == attribute)
    return found.child() if found.getClass().getSimpleName() == "Alias" else found


def _length(struct: Any) -> timedelta | None:
    """Return the constant that the end of a window adds to something; None if the expression has another form."""
    if struct.getClass().getSimpleName() != "CreateNamedStruct" or struct.children().size() != 4:
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


def _each(scala: Any) -> list[Any]:
    return [scala.apply(i) for i in range(scala.size())]
