"""Aggregates of each left row's partners, the long way: a nested loop, and sums that are rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

Row = dict[str, Any]

FUNCTIONS = ("count", "sum", "mean", "min", "max", "first", "last")


def _key(v: Any) -> Any:
    """NaN is the greatest."""
    return (isinstance(v, float) and math.isnan(v), 0.0 if isinstance(v, float) and math.isnan(v) else v)


def _total(values: Sequence[Any]) -> Any:
    if isinstance(values[0], float):
        try:
            return math.fsum(values)
        except (ValueError, OverflowError):
            return sum(values)
    return sum(values, Decimal(0) if isinstance(values[0], Decimal) else 0)


def aggregate(function: str, rows: Sequence[Row], column: str, order: Callable[[Row], Any]) -> Any:
    """One aggregate over the partners of a row; ``order`` tells which is first, ties by the row's ``j``."""
    if column == "*":
        return len(rows)
    if function in ("first", "last"):
        placed = sorted(rows, key=lambda r: (order(r), r["j"]))
        return None if not placed else placed[0 if function == "first" else -1][column]
    values = [r[column] for r in rows if r[column] is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    if function == "sum":
        return _total(values)
    if function == "mean":
        total = _total(values)
        return float(total) / len(values)
    return (min if function == "min" else max)(values, key=_key)


def answers(
    left: Sequence[Row], right: Sequence[Row], how: str, meets: Sequence[Callable[[Row, Row], bool]],
    asked: dict[str, tuple[str, str]], order: Callable[[Row], Any],
) -> dict[int, tuple[Any, ...]]:
    """The output for each left row, by its ``i``."""
    out = {}
    for a in left:
        partners = [b for b in right if all(f(a, b) for f in meets)]
        if partners or how == "left":
            out[a["i"]] = tuple(aggregate(f, partners, c, order) for c, f in asked.values())
    return out


def alike(a: Any, b: Any, scale: float = 1.0) -> bool:
    """Equal, doubles but for rounding."""
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b or abs(a - b) <= 1e-12 * max(abs(a), abs(b), scale)
    return type(a) is type(b) and a == b
