"""The types of expression nodes and of typed intervals, with their limits.

The evaluator, the intervals and the pruning axes use the same physical values:

| kind | physical value |
|---|---|
| ``int`` | the integer |
| ``float`` | the double (every float32 value is exactly a double) |
| ``decimal`` | the unscaled integer, value * 10**scale |
| ``decimal256`` | likewise; only compared |
| ``date`` | days since 1970-01-01 (date64 becomes days too) |
| ``timestamp`` | ticks of ``unit`` since the epoch: of the instant when ``tz`` is set, else of the local time |
| ``time`` | ticks of ``unit`` since midnight |
| ``duration`` | ticks of ``unit`` (Spark's day-time interval has unit ``us``) |
| ``months`` | a number of months (Spark's year-month interval) |
| ``bool`` | the truth value |
| ``string`` | str (compared by UTF-8 bytes) |
| ``binary`` | bytes |

Typed intervals exist for numbers and times (``ivjoin.interval.machine.domains``). Expressions have all types.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from ivjoin.interval.machine.floats import BINARY16, BINARY32, BINARY64, Format

__all__ = ["DAY", "TICKS_PER_SECOND", "Type"]

TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
DAY = 86_400
_FORMATS = {16: BINARY16, 32: BINARY32, 64: BINARY64}
_DISCRETE = frozenset({"int", "decimal", "date", "time", "timestamp", "duration", "months"})


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value."""

    kind: str  # one of the module's table, ``null`` or ``opaque``
    bits: int = 0  # of an int (2 to 64) or float (16, 32, 64)
    signed: bool = True  # for ints
    precision: int = 0  # for decimals, like the scale
    scale: int = 0
    unit: str = ""  # s, ms, us or ns, for time, timestamp and duration
    tz: str | None = None  # zone of a timestamp; None is a timestamp without zone
    text: str = ""  # the Arrow type's own text, for opaque types

    @property
    def is_discrete(self) -> bool:
        """Return whether physical values are integers (ints, decimals, all times)."""
        return self.kind in _DISCRETE

    @property
    def is_numeric(self) -> bool:
        return self.kind in ("int", "float", "decimal")

    @property
    def is_temporal(self) -> bool:
        return self.kind in ("date", "time", "timestamp", "duration")

    @property
    def is_ordered(self) -> bool:
        """Return whether ``<`` is defined."""
        return self.kind not in ("opaque", "null")

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def format(self) -> Format:
        return _FORMATS[self.bits]

    @property
    def ticks(self) -> int:
        """Ticks per second of a timestamp, time or duration."""
        return TICKS_PER_SECOND[self.unit]

    @property
    def limits(self) -> tuple[Any, Any]:
        """Return the least and greatest physical value; infinities for floats, the limits of an int32 for dates."""
        return _limits(self)

    def __str__(self) -> str:
        if self.kind == "int":
            return f"{'' if self.signed else 'u'}int{self.bits}"
        if self.kind == "float":
            return f"float{self.bits}"
        if self.kind in ("decimal", "decimal256"):
            return f"{self.kind}({self.precision},{self.scale})"
        if self.kind == "timestamp":
            return f"timestamp[{self.unit}, {self.tz}]" if self.tz else f"timestamp[{self.unit}]"
        if self.kind in ("time", "duration"):
            return f"{self.kind}[{self.unit}]"
        return self.text or self.kind


@cache
def _limits(t: Type) -> tuple[Any, Any]:
    if t.kind == "float":
        return -math.inf, math.inf
    if t.kind == "int":
        return (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.signed else (0, (1 << t.bits) - 1)
    if t.kind == "decimal":
        return 1 - 10**t.precision, 10**t.precision - 1
    if t.kind == "time":
        return 0, DAY * TICKS_PER_SECOND[t.unit] - 1
    if t.kind not in _DISCRETE:
        raise AssertionError(f"{t} has no limits")
    width = 32 if t.kind in ("date", "months") else 64
    return -(1 << width - 1), (1 << width - 1) - 1
