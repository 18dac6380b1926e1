"""Read a user's ``withWatermark`` as a declared order on event time, with the delay as slack."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ivjoin.frontier.order import Order

__all__ = ["delays", "with_watermarks", "without_watermark"]

# Spark stores the delay in the column's metadata, which renames and projections preserve.
_KEY = "spark.watermarkDelayMs"


def delays(schema: Any) -> dict[str, timedelta]:
    """Return the delay of each event-time column of a ``StructType``, by name."""
    return {f.name: timedelta(milliseconds=f.metadata[_KEY]) for f in schema if _KEY in (f.metadata or {})}


def without_watermark(metadata: dict[str, Any] | None) -> dict[str, Any]:
    """Return column metadata for the output, without the delay: it would announce a watermark that does not exist."""
    return {k: v for k, v in (metadata or {}).items() if k != _KEY}


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
