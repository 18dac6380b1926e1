"""Value domains of typed intervals: integers, machine floats, decimals, dates and times, with their limits.

A domain's values are kept as *physical* ones: an integer as itself, a decimal as its unscaled integer, a date as days
and a timestamp, duration or time as ticks of its unit (since 1970-01-01 UTC, or midnight), an interval of months as
their number, a float as a double. Outside they are Python's own: int, float, Decimal, date, datetime, timedelta, time.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any

from ivjoin.errors import came
from ivjoin.interval.errors import IntervalError, IntervalTypeError, tamed
from ivjoin.interval.machine.floats import BINARY16, BINARY32, BINARY64, Format

__all__ = ["DAY", "TICKS_PER_SECOND", "Domain", "bounded_decimal", "domain", "limits"]

TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
DAY = 86_400
_FORMATS = {16: BINARY16, 32: BINARY32, 64: BINARY64}
_EPOCH = dt.datetime(1970, 1, 1)
_ALIASES = {
    "tinyint": "int8", "byte": "int8", "smallint": "int16", "short": "int16", "int": "int32", "integer": "int32",
    "bigint": "int64", "long": "int64", "half": "float16", "binary16": "float16", "float": "float32", "real": "float32",
    "binary32": "float32", "double": "float64", "binary64": "float64", "date32": "date", "timestamp": "timestamp[us]",
    "timestamp_ntz": "timestamp[us]", "duration": "duration[us]", "time": "time[us]", "decimal": "decimal(10,0)",
}  # fmt: skip
_NAME = re.compile(
    r"(?P<int>u?int)(?P<bits>\d+)|float(?P<fbits>16|32|64)|decimal(?:128)?\((?P<p>\d+)(?:,(?P<s>\d+))?\)"
    r"|(?P<time>timestamp|duration|time(?:32|64)?)\[(?P<unit>s|ms|us|ns)(?:,(?:tz=)?(?P<tz>.+))?\]|(?P<plain>date|months)"
)
_WIDE = Context(prec=100)
_MAX_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Domain:
    """What the values of a typed interval are; made by `domain` from a name.

    Attributes
    ----------
    kind : str
        One of int, float, decimal, date, timestamp, time, duration, months.
    bits : int
        Width of an int or float.
    signed : bool
        Of an int.
    precision, scale : int
        Of a decimal: its digits, and how many of them stand after the point.
    unit : str
        s, ms, us or ns, of a timestamp, time or duration.
    """

    kind: str
    bits: int = 0
    signed: bool = True
    precision: int = 0
    scale: int = 0
    unit: str = ""

    @property
    def limits(self) -> tuple[Any, Any]:
        """Least and greatest physical value; the infinities are values of a float domain."""
        return limits(self.kind, self.bits, self.signed, self.precision, self.unit)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def format(self) -> Format:
        """The binary format of a float domain."""
        return _FORMATS[self.bits]

    @property
    def ticks(self) -> int:
        """Ticks per second of a timestamp, time or duration."""
        return TICKS_PER_SECOND[self.unit]

    def __str__(self) -> str:
        if self.kind == "int":
            return f"{'' if self.signed else 'u'}int{self.bits}"
        if self.kind == "float":
            return f"float{self.bits}"
        if self.kind == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return f"{self.kind}[{self.unit}]" if self.unit else self.kind

    def physical(self, value: Any, up: bool) -> Any:
        """The physical form of a bound: the least value not below it (``up``) or the greatest not above it.

        Raises
        ------
        IntervalTypeError
            If values of the domain are not compared with such a one; also a TypeError.
        IntervalError
            If the bound is NaN.
        """
        if hasattr(value, "item") and hasattr(value, "dtype") and not getattr(value, "shape", ()):
            value = value.item()
        if isinstance(value, Decimal) and value.is_finite():
            value = tamed(value)
        if value.is_nan() if isinstance(value, Decimal) else isinstance(value, float) and value != value:
            raise IntervalError(f"NaN is no bound of a {self}; an interval that holds NaN has nan=True")
        is_number = isinstance(value, (int, float, Decimal, Fraction)) and not isinstance(value, bool)
        if self.kind == "float" and is_number:
            return _nearest(value, self.format, up)
        if is_number and (self.kind in ("int", "decimal", "months") or isinstance(value, int)):
            return _whole(value, 10**self.scale, up, self)
        if isinstance(value, dt.datetime) and self.kind in ("date", "timestamp"):
            # not by way of a datetime in UTC, which the first and the last days that there are may not have
            ahead = value.utcoffset() or dt.timedelta(0)
            return self._of_span(value.replace(tzinfo=None) - _EPOCH - ahead, up)
        if isinstance(value, dt.date) and self.kind in ("date", "timestamp"):
            return self._of_span(dt.datetime.combine(value, dt.time()) - _EPOCH, up)
        if isinstance(value, dt.timedelta) and self.kind == "duration":
            return self._of_span(value, up)
        if isinstance(value, dt.time) and value.tzinfo is None and self.kind == "time":
            return self._of_span(dt.datetime.combine(_EPOCH, value) - _EPOCH, up)
        raise IntervalTypeError(f"a bound of a {self} cannot be {came(value)}; expected {_EXPECTED[self.kind]}")

    def _of_span(self, span: dt.timedelta, up: bool) -> int:
        micros = span // dt.timedelta(microseconds=1)
        top, bottom = (micros * self.ticks, 1_000_000) if self.unit else (micros, DAY * 1_000_000)
        return -(-top // bottom) if up else top // bottom

    def shown(self, value: Any, up: bool) -> Any:
        """The Python value of a physical one, rounded ``up`` or down where Python's type is coarser (nanoseconds).

        None if Python's type does not reach so far (dates outside of the years 1 to 9999).
        """
        if self.kind in ("int", "months"):
            return value
        if self.kind == "float":
            return value + 0.0
        if self.kind == "decimal":
            return Decimal(value).scaleb(-self.scale, _WIDE)
        try:
            if self.kind == "date":
                return _EPOCH.date() + dt.timedelta(days=value)
            micros = -(-value * 1_000_000 // self.ticks) if up else value * 1_000_000 // self.ticks
            span = dt.timedelta(microseconds=micros)
            if self.kind == "duration":
                return span
            if self.kind == "time":
                return dt.time.max if span >= dt.timedelta(days=1) else (_EPOCH + span).time()
            return _EPOCH + span
        except OverflowError:
            return None


_EXPECTED = {
    "int": "a number", "float": "a number", "decimal": "a number", "months": "a number of months",
    "date": "a date, a datetime, or days since 1970-01-01 as an int",
    "timestamp": "a datetime, a date, or ticks since 1970-01-01 UTC as an int",
    "duration": "a timedelta, or ticks as an int", "time": "a time, or ticks since midnight as an int",
}  # fmt: skip


@cache
def limits(kind: str, bits: int, signed: bool, precision: int, unit: str) -> tuple[Any, Any]:
    """Least and greatest physical value of numbers and times, by what a `Domain` says of them."""
    if kind == "float":
        return -math.inf, math.inf
    if kind == "int":
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if kind == "decimal":
        return 1 - 10**precision, 10**precision - 1
    if kind == "time":
        return 0, DAY * TICKS_PER_SECOND[unit] - 1
    width = 32 if kind in ("date", "months") else 64
    return -(1 << width - 1), (1 << width - 1) - 1


@cache
def _named(name: str) -> Domain:
    text = re.sub(r"\s+", "", name)
    lower = text.lower()
    found = _NAME.fullmatch(_ALIASES.get(lower, lower))
    if found is None:
        raise IntervalError(
            f"unknown domain {came(name)}; expected a name such as int8, uint64, float32, decimal(10, 2), date, "
            "timestamp[us], duration[ms], time[us] or months"
        )
    if found["int"]:
        bits = int(found["bits"])
        if not 2 <= bits <= 64:
            raise IntervalError(f"unknown domain {name!r}: an integer has 2 to 64 bits")
        return Domain("int", bits, signed=found["int"] == "int")
    if found["fbits"]:
        return Domain("float", int(found["fbits"]))
    if found["p"]:
        p, s = int(found["p"]), int(found["s"] or 0)
        if not (1 <= p <= _MAX_DIGITS and s <= p):
            raise IntervalError(f"unknown domain {name!r}: a decimal has 1 to 38 digits, its scale no more")
        return Domain("decimal", precision=p, scale=s)
    if found["time"]:
        if found["tz"] and found["tz"] not in ("utc", "+00:00", "etc/utc"):
            raise IntervalError(
                f"a timestamp's interval is one of instants, in UTC; got the zone {found['tz']!r}. Zones belong to "
                "conditions: see ivjoin.propagation.contract(timezone=...)"
            )
        return Domain(found["time"].rstrip("3264"), unit=found["unit"])
    return Domain(found["plain"])


def domain(name: str | Domain) -> Domain:
    """The domain of a name.

    Parameters
    ----------
    name : str
        ``int2`` to ``int64``, ``uint2`` to ``uint64``, ``float16``, ``float32``, ``float64``, ``decimal(p, s)``,
        ``date``, ``months``, ``timestamp[unit]``, ``duration[unit]``, ``time[unit]`` with a unit of s, ms, us or ns;
        Spark's names (``tinyint``, ``bigint``, ``double``, ...) too.

    Raises
    ------
    IntervalError
        If there is no such domain.

    Examples
    --------
    >>> domain("decimal(5, 2)").limits
    (-99999, 99999)
    """
    if isinstance(name, Domain):
        return name
    if not isinstance(name, str):
        raise IntervalTypeError(f"a domain is {came(name)}; expected its name, such as 'int8' or 'decimal(10, 2)'")
    return _named(name)


def bounded_decimal(precision: int, scale: int) -> Domain:
    """A decimal with Spark's cap of 38 digits: those after the point go first, down to six."""
    if precision > _MAX_DIGITS:
        scale = max(_MAX_DIGITS - (precision - scale), min(scale, 6))
        precision = _MAX_DIGITS
    return Domain("decimal", precision=precision, scale=scale)


def _whole(value: Any, factor: int, up: bool, d: Domain) -> int:
    if isinstance(value, int):
        return value * factor
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        lo, hi = d.limits
        return int(hi) + 1 if value > 0 else int(lo) - 1
    exact = Fraction(value) * factor
    return math.ceil(exact) if up else math.floor(exact)


def _nearest(value: Any, f: Format, up: bool) -> float:
    if isinstance(value, float):
        return f.ceil(value) if up else f.floor(value)
    if isinstance(value, Decimal) and value.is_infinite():
        return float(value)
    exact = Fraction(value)
    try:
        x = f.near(exact.numerator / exact.denominator)
    except OverflowError:
        x = math.inf if exact > 0 else -math.inf
    if math.isinf(x):
        return x if (x > 0) == up else math.copysign(f.max, x)
    if up and Fraction(x) < exact:
        return f.up(x)
    return f.down(x) if not up and Fraction(x) > exact else x
