"""Durations as text: ``100ns``, ``1h30m``, ``2 days 3 hours``."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

__all__ = ["EXAMPLES", "at_least", "seconds_of_text"]

EXAMPLES = "'100ns', '500 ms', '10s', '5 minutes', '1h30m', '2 days', '1w'"
_SECONDS = {
    "ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60),
    "h": Fraction(3600), "d": Fraction(86_400), "w": Fraction(7 * 86_400),
}  # fmt: skip
_NAMES = {
    "ns": "ns nano nanos nanosecond nanoseconds", "us": "us µs μs usec usecs micro micros microsecond microseconds",
    "ms": "ms msec msecs milli millis millisecond milliseconds", "s": "s sec secs second seconds",
    "m": "m min mins minute minutes", "h": "h hr hrs hour hours", "d": "d day days", "w": "w wk wks week weeks",
}  # fmt: skip
_UNITS = {name: _SECONDS[unit] for unit, names in _NAMES.items() for name in names.split()}
_PART = re.compile(r"([0-9]{1,400}(?:\.[0-9]{1,400})?)\s*([A-Za-zµμ]+)[\s,]*")


def seconds_of_text(text: str) -> Fraction | None:
    """Return the exact number of seconds of a duration such as ``1h30m`` or ``-1.5 s``; None if the text is not one."""
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    body = body[1:].lstrip() if body[:1] in ("-", "+") else body
    total, at = Fraction(0), 0
    while at < len(body):
        part = _PART.match(body, at)
        unit = None if part is None else _UNITS.get(part[2].lower())
        if part is None or unit is None:
            return None
        total += Fraction(Decimal(part[1])) * unit
        at = part.end()
    return sign * total if body else None


def at_least(seconds: Fraction) -> timedelta:
    """Return the shortest timedelta that is not shorter; OverflowError if it is longer than any timedelta."""
    return timedelta(microseconds=math.ceil(seconds * 10**6))
