"""The rule for late rows: a name, or a function that receives them. Also measure how late rows are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import time
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from ivjoin.expr.ordinal import NAN_ORDINAL, python_value
from ivjoin.frontier.tracking import OrderTracker
from ivjoin.shj.registers import I64_MIN

__all__ = ["OnLate", "Report", "greatest_lateness", "late_rule"]

Report: TypeAlias = "Callable[[str, pa.RecordBatch], None]"
OnLate: TypeAlias = "Literal['raise', 'drop', 'join'] | Callable[[str, pa.RecordBatch], None]"


def late_rule(on_late: OnLate) -> tuple[str, Report | None]:
    """Return the rule by name, and the function that receives late rows. With a function, late rows are dropped."""
    return ("drop", on_late) if callable(on_late) else (on_late, None)


def greatest_lateness(
    t: OrderTracker, was: int, late: np.ndarray, ordinals: np.ndarray, valid: np.ndarray | None, within: bool
) -> Any:
    """Return the greatest distance of a late row from the furthest row before it; None if there is no distance.

    ``was`` is the edge of the order before the batch. ``within`` states whether rows of the same batch count.
    """
    floats = t.node.type.kind == "float"
    there = np.ones(len(ordinals), dtype=bool) if valid is None else valid.copy()
    if floats:
        there &= ordinals != NAN_ORDINAL
    rises = np.where(there, ~ordinals if t.descending else ordinals, I64_MIN)
    before = np.full(len(rises), was, dtype=np.int64)
    if within:
        before = np.maximum.accumulate(np.concatenate((before[:1], rises[:-1])))
    rows = np.flatnonzero(late & there & (before > rises))
    if not len(rows):
        return None
    if not floats:  # ordinals are ticks, so that the greatest difference of ordinals is that of values
        rows = rows[[int(np.argmax(before[rows].astype(np.float64) - rises[rows]))]]
    return max(_apart(t, int(before[i]), int(rises[i])) for i in rows.tolist())


def _apart(t: OrderTracker, edge: int, ordinal: int) -> Any:
    high, low = (~ordinal, ~edge) if t.descending else (edge, ordinal)
    a, b = python_value(high, t.node.type), python_value(low, t.node.type)
    if isinstance(a, (bool, time)):
        return high - low
    try:
        return a - b
    except (TypeError, ValueError, OverflowError):  # Python represents neither all times nor all lengths of time
        return high - low
