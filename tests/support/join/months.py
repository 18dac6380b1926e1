"""Months as Java counts them."""

from __future__ import annotations

import datetime as dt


def months(a: dt.datetime, b: dt.datetime) -> int:
    """Whole months from a to b as java.time counts them: a part of a day less is a day less."""
    end = b.date()
    if end > a.date() and b.time() < a.time():
        end -= dt.timedelta(days=1)
    elif end < a.date() and b.time() > a.time():
        end += dt.timedelta(days=1)
    apart = (end.year * 12 + end.month - a.year * 12 - a.month) * 32 + end.day - a.day
    return apart // 32 if apart >= 0 else -(-apart // 32)
