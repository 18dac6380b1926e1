"""Create typed literal nodes from Python values and from texts of dates, timestamps and intervals."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from ivjoin.arguments import is_unicode
from ivjoin.errors import ConditionError, UnsupportedError, came
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import (
    BINARY,
    BOOL,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    NULL,
    STRING,
    TICKS_PER_SECOND,
    UUID,
    Type,
    decimal,
    duration,
    timestamp,
)
from ivjoin.interval.machine.domains import seconds_of

__all__ = [
    "CLOCK", "Params", "Value", "clock_of", "date_of", "decimal_text", "instant_of", "is_literal", "literal",
    "parse_moment", "parse_timestamp", "physical", "seconds_of", "uuid_bytes", "uuid_text", "zone_named",
]  # fmt: skip

Value: TypeAlias = bool | int | float | Decimal | str | bytes | dt.date | dt.time | dt.timedelta  # date or datetime
Params: TypeAlias = Mapping[str, Value | None]  # the values of ``:name`` in a condition

_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_WIDE = Context(prec=80, rounding=ROUND_HALF_UP)


def is_literal(node: Node) -> bool:
    return node.op == "literal"


def literal(value: Any, type: Type | None = None) -> Node:
    """Return the node of a constant.

    With ``type``, the value is a physical value, or a Python date, datetime, time, timedelta or Decimal, which is
    converted exactly. Without ``type``, the value determines the type:

    - bool, float (float64), str, bytes, None, date, time, timedelta, or a NumPy or Arrow scalar
    - int: the first of int32, int64 and decimal that is large enough
    - Decimal: Spark's type of the same digits, so 1.0 is decimal(2,1)
    - datetime: an instant if it is aware, or a timestamp without a zone if it is naive

    Raise ConditionError if the value does not fit the type, and UnsupportedError if its kind cannot be a literal.
    """
    if value is not None and not isinstance(value, (bool, int, float, str, bytes)):
        value = _plain(value)
    if type is None:
        type = _natural_type(value)
    return make("literal", (), (None if value is None else physical(value, type),), type)


def _plain(value: Any) -> Any:
    """Convert NumPy and Arrow scalars to Python objects."""
    if hasattr(value, "as_py"):
        return value.as_py()
    if hasattr(value, "dtype") and hasattr(value, "item") and not getattr(value, "shape", ()):
        if value.dtype.kind in "mM":
            import pyarrow as pa

            try:
                return pa.scalar(value).as_py()
            except pa.ArrowException as e:
                raise UnsupportedError(f"{came(value)} has no type here: {e}") from e
        return value.item()
    return value


def _natural_type(value: Any) -> Type:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        if -(1 << 31) <= value < 1 << 31:
            return INT32
        return INT64 if -(1 << 63) <= value < 1 << 63 else _digits_type(Decimal(value))
    if isinstance(value, float):
        return FLOAT64
    if isinstance(value, Decimal):
        return _digits_type(value)
    if isinstance(value, str):
        return STRING
    if isinstance(value, (bytes, bytearray, memoryview)):
        return BINARY
    if isinstance(value, uuid.UUID):
        return UUID
    fine = "ns" if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0) else "us"
    if isinstance(value, dt.datetime):
        return timestamp(fine, "UTC" if value.tzinfo else None)
    if isinstance(value, dt.date):
        return DATE
    if isinstance(value, dt.time):
        if value.tzinfo:
            raise UnsupportedError(f"a time of day with a zone ({came(value)}) has no type here; drop the zone")
        return Type("time", unit="us")
    if isinstance(value, dt.timedelta):
        return duration(fine)
    raise UnsupportedError(
        f"a constant of {value.__class__.__module__}.{value.__class__.__qualname__} cannot be used in a condition; "
        "expected bool, int, float, Decimal, str, bytes, UUID, date, datetime, time, timedelta or None"
    )


def _digits_type(value: Decimal) -> Type:
    """Return Spark's type of a decimal literal, whose precision is its number of digits."""
    if not value.is_finite():
        raise ConditionError(f"{value} has no decimal type; use float({str(value)!r}) instead")
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent) if digits != (0,) else 1, scale, 1)
    if precision > 38:
        raise ConditionError(f"the number {came(value)} needs {precision} digits; a decimal has at most 38")
    return decimal(precision, scale)


def physical(value: Any, type: Type) -> Any:
    """Convert a Python value to a physical value of the type."""
    kind = type.kind
    if isinstance(value, bool):
        if kind == "bool":
            return value
    elif isinstance(value, Decimal) and kind == "decimal":
        return _fits(_WIDE.scaleb(value, type.scale), value, type)
    elif isinstance(value, dt.datetime) and kind == "timestamp":
        return _fits(seconds_of(value) * TICKS_PER_SECOND[type.unit], value, type)
    elif isinstance(value, dt.date) and kind == "date" and not isinstance(value, dt.datetime):
        return value.toordinal() - _EPOCH_DAY
    elif isinstance(value, (dt.timedelta, dt.time)) and kind in ("duration", "time"):
        return _fits(seconds_of(value) * TICKS_PER_SECOND[type.unit], value, type)
    elif isinstance(value, int) and type.is_discrete:
        return _fits(value, value, type)
    elif isinstance(value, (int, float)) and kind == "float":
        return type.format.near(float(value))
    elif isinstance(value, str) and kind == "string":
        if not is_unicode(value):
            raise ConditionError(f"the text {came(value)} contains an unpaired surrogate, which no column can contain")
        return value
    elif isinstance(value, uuid.UUID) and type == UUID:
        return value.bytes
    elif isinstance(value, (bytes, bytearray, memoryview)) and kind == "binary":
        return bytes(value)
    raise ConditionError(f"{came(value)} is not a value of type {type}")


def _fits(x: Any, value: Any, type: Type) -> int:
    lo, hi = type.limits
    n = int(x)
    if n != x or not lo <= n <= hi:
        raise ConditionError(f"{came(value)} does not fit {type} exactly")
    return n


def date_of(days: int) -> dt.date:
    return dt.date.fromordinal(days + _EPOCH_DAY)


def decimal_text(unscaled: int, scale: int) -> str:
    return format(Decimal(unscaled).scaleb(-scale, _WIDE), "f")


def zone_named(name: str) -> dt.tzinfo:
    """Return the zone with a name such as ``UTC``, ``Z``, ``+05:30``, ``GMT+8`` or ``Europe/Paris``."""
    expected = "expected a name such as 'UTC', 'Europe/Paris' or an offset such as '+02:00'"
    if not isinstance(name, str):
        raise ConditionError(f"timezone is {came(name)}; {expected}")
    text = name.strip()
    if text in ("UTC", "Z", "Etc/UTC", "GMT", "UT"):
        return dt.UTC
    m = re.fullmatch(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", text)
    if m:
        h, mi, s = (int(g or 0) for g in m.groups()[1:])
        if h <= 18 and mi < 60 and s < 60:
            offset = dt.timedelta(hours=h, minutes=mi, seconds=s)
            return dt.timezone(offset if m[1] == "+" else -offset)
    try:
        return ZoneInfo(text)
    except Exception as e:
        raise ConditionError(f"unknown time zone {came(name)}; {expected}") from e


_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
_CLOCK = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9})\d*)?)?)?"
_STAMP = re.compile(rf"(\d{{4}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[T ]{_CLOCK}\s*(\S+)?)?)?)?", re.ASCII)
CLOCK = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?", re.ASCII)


def parse_moment(text: str, t: Type, zone: str) -> Node | None:
    """Parse a text as a literal of the kind of ``t``, in the unit of its digits. None for other text."""
    if t.kind == "date":
        return _parse_date(text)
    return _parse_time(text) if t.kind == "time" else parse_timestamp(text, bool(t.tz), zone)


# 'infinity' is the end of the type, and is later than all other times, as in DuckDB and PostgreSQL.
_INFINITE = {"infinity": 1, "+infinity": 1, "-infinity": -1}


def _parse_date(text: str) -> Node | None:
    """Parse ``2024-01-31``, ``2024-1``, or the date in the text of a timestamp. None for other text."""
    s = text.strip()
    if (sign := _INFINITE.get(s.lower())) is not None:
        return literal(sign * ((1 << 31) - 1), DATE)
    m = _DATE.fullmatch(re.split(r"[T ]", s, maxsplit=1)[0])
    try:
        return literal(dt.date(int(m[1]), int(m[2] or 1), int(m[3] or 1))) if m else None
    except ValueError:
        return None


def parse_timestamp(text: str, zoned: bool, zone: str) -> Node | None:
    """Parse a timestamp literal. None for other text.

    Its unit is microseconds, or nanoseconds if the text has more than six fractional digits and the value fits. If
    ``zoned``, a text without a zone is local time in ``zone``. Otherwise a zone in the text is ignored, as in Spark.
    """
    if (sign := _INFINITE.get(text.strip().lower())) is not None:
        return literal(sign * ((1 << 63) - 1), timestamp("us", zone if zoned else None))
    m = _STAMP.fullmatch(text.strip())
    if m is None:
        return None
    try:
        year, month, day, hour, minute, second = (int(g or d) for g, d in zip(m.groups(), (1, 1, 1, 0, 0, 0)))
        local = dt.datetime(year, month, day, hour, minute, second)
        tz = zone_named(m[8]) if m[8] else None
    except (ValueError, ConditionError):
        return None
    nanos = int((m[7] or "").ljust(9, "0"))
    seconds = instant_of(local, tz or zone_named(zone)) if zoned else _whole(local)
    fine = nanos % 1000 and -(1 << 63) <= seconds * 10**9 + nanos < 1 << 63
    t = timestamp("ns" if fine else "us", zone if zoned else None)
    per = TICKS_PER_SECOND[t.unit]
    return literal(seconds * per + nanos * per // 10**9, t)


def _whole(local: dt.datetime) -> int:
    span = local - _EPOCH
    return span.days * 86_400 + span.seconds


def instant_of(local: dt.datetime, tz: dt.tzinfo) -> int:
    """Return the epoch second of a local time with the rules of java.time.

    A time that occurs twice is the earlier instant. A skipped time moves forward by the length of the gap.
    """
    offset = local.replace(tzinfo=tz, fold=0).utcoffset()
    assert offset is not None
    return _whole(local) - offset.days * 86_400 - offset.seconds


def _parse_time(text: str) -> Node | None:
    """Parse a time of day such as ``10:30`` or ``10:30:05.25``."""
    m = CLOCK.fullmatch(text.strip())
    clock = clock_of(*m.groups()) if m else None
    if clock is None:
        return None
    seconds, nanos = clock
    unit = "ns" if nanos % 1000 else "us"
    per = TICKS_PER_SECOND[unit]
    return literal(seconds * per + nanos * per // 10**9, Type("time", unit=unit))


def clock_of(hour: str | None, minute: str | None, second: str | None, fraction: str | None) -> tuple[int, int] | None:
    """Return the seconds since midnight and the nanoseconds of a time of day, or None if it is invalid."""
    h, m, s = int(hour or 0), int(minute or 0), int(second or 0)
    if h > 23 or m > 59 or s > 59:
        return None
    return h * 3600 + m * 60 + s, int((fraction or "")[:9].ljust(9, "0"))


_UUID = re.compile(r"\{?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?", re.IGNORECASE)


def uuid_bytes(text: str) -> bytes | None:
    """Parse a UUID with or without hyphens to sixteen bytes. None for other text."""
    m = _UUID.fullmatch(text.strip())
    return bytes.fromhex("".join(m.groups())) if m else None


def uuid_text(value: bytes) -> str:
    """Return a UUID in the usual form with hyphens, in lower case."""
    return "-".join((value[:4].hex(), value[4:6].hex(), value[6:8].hex(), value[8:10].hex(), value[10:].hex()))
