"""A user's ``withWatermark`` read as a declared order: event time, and its delay as slack."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ivjoin.frontier.order import Order

__all__ = ["delays", "with_watermarks", "without_watermark"]

# Spark keeps the delay in the column's metadata, and there it survives renames and projections.
_KEY = "spark.watermarkDelayMs"


def delays(schema: Any) -> dict[str, timedelta]:
    """Delay of each event-time column of a ``StructType``, by name."""
    return {f.name: timedelta(milliseconds=f.metadata[_KEY]) for f in schema if _KEY in (f.metadata or {})}


def without_watermark(metadata: dict[str, Any] | None) -> dict[str, Any]:
    """Column metadata as it may stand on the output: a delay there would announce a watermark that nobody computes."""
    return {k: v for k, v in (metadata or {}).items() if k != _KEY}


def with_watermarks(
    orders: Iterable[Order], delay: Mapping[Any, timedelta], no_order: Collection[Any] = ()
) -> list[Order]:
    """Declared orders joined with the watermarks: an order on an event-time column takes the delay as its slack.

    A slack that was given explicitly stands. A watermark without a declared order becomes one, but for ``no_order``.
    ``delay`` has columns in the form in which the orders have their expressions.
    """
    left = dict(delay)
    out = []
    for o in orders:
        wait = left.pop(o.expr, None)
        if wait is not None and o.slack is None and not o.descending:
            o = replace(o, slack=wait)
        out.append(o)
    return out + [Order(column, slack=wait) for column, wait in left.items() if column not in no_order]
