"""Machine arithmetic in Python: the operations of the trap table, and the neighbours of edge values."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
from join.conditions import rank

INF = math.inf


def days(*text: str) -> list[int]:
    return [(dt.date.fromisoformat(t) - dt.date(1970, 1, 1)).days for t in text]


def micros(*text: str) -> list[int]:
    epoch = dt.datetime(1970, 1, 1)
    return [(dt.datetime.fromisoformat(t) - epoch) // dt.timedelta(microseconds=1) for t in text]


def near(v: float) -> list[float]:
    """A double and its neighbours, two on each side."""
    out = [v]
    for _ in range(2):
        out = [math.nextafter(out[0], -INF), *out, math.nextafter(out[-1], INF)]
    return out


def f32(v: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(v))


def ge(a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else rank(a) >= rank(b)


def gt(a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else rank(a) > rank(b)


def both(*truths: bool | None) -> bool | None:
    return False if False in truths else None if None in truths else True


def plus_month(day: int) -> int:
    d = dt.date(1970, 1, 1) + dt.timedelta(days=day)
    year, month = d.year + d.month // 12, d.month % 12 + 1
    last = ((dt.date(year, month, 28) + dt.timedelta(days=4)).replace(day=1) - dt.timedelta(days=1)).day
    return (dt.date(year, month, min(d.day, last)) - dt.date(1970, 1, 1)).days


def month(nanos: int) -> tuple[int, int]:
    d = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=nanos // 1000)
    return d.year, d.month
