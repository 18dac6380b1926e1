"""Value domains of typed intervals by name, and their physical values.

`types` lists the physical values (unscaled ints, days, ticks, doubles). The public form is a Python value: int, float,
Decimal, date, datetime, timedelta, time.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any

from ivjoin.errors import came
from ivjoin.interval.errors import IntervalError, IntervalTypeError, tamed
from ivjoin.interval.machine.floats import Format
from ivjoin.interval.machine.types import DAY, Type

__all__ = [
    "HAVE_INTERVALS", "bounded_decimal", "decimal_result", "domain", "nearest", "physical", "seconds_of", "shown",
]  # fmt: skip

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


def physical(t: Type, value: Any, up: bool) -> Any:
    """Return the physical form of a bound: the least value not below it (``up``) or the greatest not above it.

    Raises IntervalError for NaN, and IntervalTypeError if values of the domain cannot be compared with it.
    """
    if hasattr(value, "item") and hasattr(value, "dtype") and not getattr(value, "shape", ()):
        value = value.item()
    if isinstance(value, Decimal) and value.is_finite():
        value = tamed(value)
    if value.is_nan() if isinstance(value, Decimal) else isinstance(value, float) and value != value:
        raise IntervalError(f"a bound of {t} is NaN; expected a number. To include NaN, pass nan=True")
    is_number = isinstance(value, (int, float, Decimal, Fraction)) and not isinstance(value, bool)
    if t.kind == "float" and is_number:
        return nearest(value, t.format, up)
    if is_number and (t.kind in ("int", "decimal", "months") or isinstance(value, int)):
        return _whole(value, 10**t.scale, up, t)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime) and t.kind in ("date", "timestamp"):
        value = dt.datetime.combine(value, dt.time())
    kind: Any = _OF_KIND.get(t.kind, ())
    if isinstance(value, kind) and not (t.kind == "time" and value.tzinfo):
        ticks = seconds_of(value) * t.ticks if t.unit else seconds_of(value) / DAY
        return math.ceil(ticks) if up else math.floor(ticks)
    raise IntervalTypeError(f"a bound of a {t} cannot be {came(value)}; expected {_EXPECTED[t.kind]}")


def seconds_of(value: dt.datetime | dt.timedelta | dt.time) -> Fraction:
    """Return seconds since the epoch (of local time, if there is no zone), of a duration, or since midnight."""
    if isinstance(value, dt.datetime):
        # Not through a datetime in UTC: for the first and the last day, Python has none.
        span = value.replace(tzinfo=None) - _EPOCH - (value.utcoffset() or dt.timedelta(0))
    elif isinstance(value, dt.timedelta):
        span = value
    else:
        span = dt.datetime.combine(_EPOCH, value) - _EPOCH
    # pandas' subclasses of datetime and timedelta carry nanoseconds.
    extra = int(getattr(span, "nanoseconds", 0))
    micros = (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
    return Fraction(micros * 1_000 + extra, 10**9)


def shown(t: Type, value: Any, up: bool) -> Any:
    """Return the Python value of a physical one; None if Python cannot represent it (years outside 1 to 9999).

    Nanoseconds are rounded ``up`` or down, because Python's types are coarser.
    """
    if t.kind in ("int", "months"):
        return value
    if t.kind == "float":
        return value + 0.0
    if t.kind == "decimal":
        return Decimal(value).scaleb(-t.scale, _WIDE)
    try:
        if t.kind == "date":
            return _EPOCH.date() + dt.timedelta(days=value)
        micros = -(-value * 1_000_000 // t.ticks) if up else value * 1_000_000 // t.ticks
        span = dt.timedelta(microseconds=micros)
        if t.kind == "duration":
            return span
        if t.kind == "time":
            return dt.time.max if span >= dt.timedelta(days=1) else (_EPOCH + span).time()
        return _EPOCH + span
    except OverflowError:
        return None


_OF_KIND = {"date": dt.datetime, "timestamp": dt.datetime, "duration": dt.timedelta, "time": dt.time}
_EXPECTED = {
    "int": "a number", "float": "a number", "decimal": "a number", "months": "a number of months",
    "date": "a date, a datetime, or days since 1970-01-01 as an int",
    "timestamp": "a datetime, a date, or ticks since 1970-01-01 UTC as an int",
    "duration": "a timedelta, or ticks as an int", "time": "a time, or ticks since midnight as an int",
}  # fmt: skip
HAVE_INTERVALS = frozenset(_EXPECTED)  # kinds of types


@cache
def _named(name: str) -> Type:
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
            raise IntervalError(f"unknown domain {name!r}: expected an integer of 2 to 64 bits")
        return Type("int", bits, signed=found["int"] == "int")
    if found["fbits"]:
        return Type("float", int(found["fbits"]))
    if found["p"]:
        p, s = int(found["p"]), int(found["s"] or 0)
        if not (1 <= p <= _MAX_DIGITS and s <= p):
            raise IntervalError(f"unknown domain {name!r}: expected 1 to 38 digits and a scale of at most as many")
        return Type("decimal", precision=p, scale=s)
    if found["time"]:
        if found["tz"] and found["tz"] not in ("utc", "+00:00", "etc/utc"):
            raise IntervalError(
                f"domain {name!r} has the zone {found['tz']!r}; expected a timestamp without a zone, because intervals "
                "contain instants in UTC. Pass a zone to ivjoin.propagation.contract(timezone=...)"
            )
        return Type(found["time"].rstrip("3264"), unit=found["unit"])
    return Type(found["plain"])


def domain(name: str | Type) -> Type:
    """Return the domain of a name.

    Parameters
    ----------
    name : str or Type
        ``int2`` to ``int64``, ``uint2`` to ``uint64``, ``float16``, ``float32``, ``float64``, ``decimal(p, s)``,
        ``date``, ``months``, ``timestamp[unit]``, ``duration[unit]``, ``time[unit]`` with a unit of s, ms, us or ns.
        Spark's names (``tinyint``, ``double``, ...) are also accepted. The zone of a Type is dropped.

    Raises
    ------
    IntervalError
        If the domain does not exist.

    Examples
    --------
    >>> domain("decimal(5, 2)").limits
    (-99999, 99999)
    """
    if isinstance(name, Type):
        if name.kind not in HAVE_INTERVALS:
            raise IntervalTypeError(f"typed intervals of {name} do not exist; expected a number, a date or a time")
        return name if name.tz is None else replace(name, tz=None)
    if not isinstance(name, str):
        raise IntervalTypeError(f"domain is {came(name)}; expected a name such as 'int8' or 'decimal(10, 2)'")
    return _named(name)


def bounded_decimal(precision: int, scale: int) -> Type:
    """Return a decimal with Spark's cap of 38 digits: digits after the point are dropped first, down to six."""
    if precision > _MAX_DIGITS:
        scale = max(_MAX_DIGITS - (precision - scale), min(scale, 6))
        precision = _MAX_DIGITS
    return Type("decimal", precision=precision, scale=scale)


def decimal_result(name: str, s: Type, u: Type) -> Type:
    """Return Spark's type of a sum, product or quotient (add, sub, mul, div) of decimals, or of a remainder."""
    whole, scale = (s.precision - s.scale, u.precision - u.scale), max(s.scale, u.scale)
    if name in ("add", "sub"):
        return bounded_decimal(max(whole) + scale + 1, scale)
    if name == "mul":
        return bounded_decimal(s.precision + u.precision + 1, s.scale + u.scale)
    if name == "div":
        digits = max(6, s.scale + u.precision + 1)
        return bounded_decimal(whole[0] + u.scale + digits, digits)
    return bounded_decimal(min(whole) + scale, scale)


def _whole(value: Any, factor: int, up: bool, d: Type) -> int:
    if isinstance(value, int):
        return value * factor
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        lo, hi = d.limits
        return int(hi) + 1 if value > 0 else int(lo) - 1
    exact = Fraction(value) * factor
    return math.ceil(exact) if up else math.floor(exact)


def nearest(value: Any, f: Format, up: bool) -> float:
    """Return the least value of a format that is not below a number (``up``), or the greatest that is not above it."""
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
