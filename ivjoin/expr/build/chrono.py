"""Constructors of date and timestamp functions and of interval literals."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import partial

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.build.arith import add, days_apart, mul
from ivjoin.expr.build.casting import cast
from ivjoin.expr.build.coerce import as_date, as_int32, as_timestamp
from ivjoin.expr.kernels.calendar import DATE_UNITS, TRUNC_UNITS, UNIT_MONTHS, UNIT_NANOS
from ivjoin.expr.kernels.zones import is_fixed
from ivjoin.expr.literals import literal
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import DATE, INT32, INT64, MONTHS, duration, timestamp

__all__ = [
    "add_days", "add_interval", "add_months", "date_trunc", "days_apart", "extract", "from_days", "instant", "interval",
    "interval_text", "last_day", "timestamp_of", "trunc_date", "unix_date", "unix_micros", "unix_millis",
    "unix_seconds", "unit_named",
]  # fmt: skip

_LONGEST = (2**63 - 1) * 1000  # the longest duration of int64 microseconds, in nanoseconds
_SHORT = {
    "ns": "nanosecond", "nano": "nanosecond", "us": "microsecond", "usec": "microsecond", "micro": "microsecond",
    "ms": "millisecond", "msec": "millisecond", "milli": "millisecond", "s": "second", "sec": "second",
    "min": "minute", "m": "minute", "h": "hour", "hr": "hour", "d": "day", "w": "week", "mon": "month", "mm": "month",
    "q": "quarter", "qtr": "quarter", "y": "year", "yr": "year", "yyyy": "year", "yy": "year", "dd": "day",
}  # fmt: skip
FIELDS = {
    "year": "year", "quarter": "quarter", "month": "month", "day": "day", "dayofmonth": "day", "hour": "hour",
    "minute": "minute", "second": "second", "week": "week", "weekofyear": "week", "dayofweek": "dayofweek",
    "dow": "dayofweek", "dayofweek_iso": "dayofweek_iso", "dow_iso": "dayofweek_iso", "weekday": "weekday",
    "dayofyear": "dayofyear", "doy": "dayofyear", "yearofweek": "yearofweek",
}  # fmt: skip


def unit_named(name: str) -> str:
    """Return the singular name of a time unit: ``SECONDS``, ``sec`` and ``s`` are ``second``."""
    word = name.strip().lower()
    for w in (word, word.removesuffix("s")):
        if w in UNIT_NANOS or w in UNIT_MONTHS:
            return w
        if w in _SHORT:
            return _SHORT[w]
    raise ConditionError(f"unknown time unit {name!r}; expected one of {', '.join([*UNIT_NANOS, *UNIT_MONTHS])}")


def interval(amount: Fraction | int, unit: str) -> Node:
    """Return the literal of ``amount`` units. Its type is months for months and longer units.

    Otherwise it is a duration in microseconds, or in nanoseconds if needed.
    """
    unit = unit_named(unit)
    if unit in UNIT_MONTHS:
        months = Fraction(amount) * UNIT_MONTHS[unit]
        if months.denominator != 1:
            raise ConditionError(f"INTERVAL {amount} {unit.upper()} is not a whole number of months")
        return literal(int(months), MONTHS)
    nanos = Fraction(amount) * UNIT_NANOS[unit]
    if nanos.denominator != 1:
        raise ConditionError(f"INTERVAL {amount} {unit.upper()} is finer than a nanosecond")
    n = int(nanos)
    if abs(n) > _LONGEST:
        most = _LONGEST // UNIT_NANOS[unit]
        raise ConditionError(
            f"INTERVAL {amount} {unit.upper()} is too long; the longest is {most:,} {unit.upper()}, about 292,000 years"
        )
    return literal(n, duration("ns")) if n % 1000 else literal(n // 1000, duration("us"))


_LIMITS = {"hour": 24, "minute": 60, "second": 60}
_FIELDS_ORDER = ("day", "hour", "minute", "second")


def interval_text(text: str, first: str | None = None, last: str | None = None) -> Node:
    """Return the interval of ``'10'`` FIRST, ``'1 02:03:04'`` FIRST TO LAST, or ``'1 day 2 hours'`` without units."""
    s = text.strip()
    if first is None:
        return _worded(s)
    a = unit_named(first)
    if last is None:
        m = re.fullmatch(r"([+-]?)\s*(\d+(?:\.\d*)?|\.\d+)", s)
        if m is None:
            raise ConditionError(f"INTERVAL '{text}' {first.upper()}: expected one number in the quotes")
        return interval(Fraction(m[2]) * (-1 if m[1] == "-" else 1), a)
    b = unit_named(last)
    sign = -1 if s.startswith("-") else 1
    s = s.lstrip("+-").strip()
    if (a, b) == ("year", "month"):
        m = re.fullmatch(r"(\d+)-(\d+)", s)
        if m is None or int(m[2]) > 11:
            raise ConditionError(f"INTERVAL '{text}' YEAR TO MONTH: expected 'years-months' such as '1-2'")
        return interval(sign * (12 * int(m[1]) + int(m[2])), "month")
    if a in _FIELDS_ORDER and b in _FIELDS_ORDER and _FIELDS_ORDER.index(a) < _FIELDS_ORDER.index(b):
        units = _FIELDS_ORDER[_FIELDS_ORDER.index(a) : _FIELDS_ORDER.index(b) + 1]
        parts = re.split(r"[\s:]+" if a == "day" else ":", s)
        ok = len(parts) == len(units) and all(
            re.fullmatch(r"\d+(\.\d*)?" if u == "second" else r"\d+", p) for u, p in zip(units, parts)
        )
        if ok and all(Fraction(p) < _LIMITS[u] for u, p in zip(units[1:], parts[1:])):
            nanos = sum((Fraction(p) * UNIT_NANOS[u] for u, p in zip(units, parts)), Fraction(0))
            return interval(sign * nanos, "nanosecond")
        shape = ("1 " if a == "day" else "") + ":".join(("02", "03", "04")[: len(units) - (a == "day")])
        raise ConditionError(f"INTERVAL '{text}' {a.upper()} TO {b.upper()}: expected '{shape}'")
    raise ConditionError(
        f"INTERVAL ... {a.upper()} TO {b.upper()} is not supported; use YEAR TO MONTH or "
        "DAY TO SECOND"
    )


def _worded(s: str) -> Node:
    body = re.sub(r"^interval\s+", "", s, flags=re.IGNORECASE)
    found = re.findall(r"([+-]?)\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]+)", body)
    if not found or re.sub(r"[+-]?\s*(\d+(?:\.\d*)?|\.\d+)\s*[A-Za-z]+\s*", "", body).strip():
        raise ConditionError(f"INTERVAL '{s}' cannot be read; write INTERVAL 10 SECONDS or INTERVAL '1 day 2 hours'")
    months, nanos = Fraction(0), Fraction(0)
    for sign, number, unit in found:
        amount, u = Fraction(number) * (-1 if sign == "-" else 1), unit_named(unit)
        if u in UNIT_MONTHS:
            months += amount * UNIT_MONTHS[u]
        else:
            nanos += amount * UNIT_NANOS[u]
    if months and nanos:
        raise UnsupportedError(f"INTERVAL '{s}' mixes months with days or times; add the two one after the other")
    return interval(months, "month") if months else interval(nanos, "nanosecond")


def add_interval(x: Node, count: Node, unit: str, zone: str = "UTC") -> Node:
    """Return ``timestampadd``, which is ``x + count units``. The result is always a timestamp."""
    return add(as_timestamp(x, "timestampadd", zone), mul(interval(1, unit), count), zone)


def add_days(d: Node, n: Node, zone: str = "UTC") -> Node:
    """Return ``date_add(d, n)``, the date n days later."""
    return make("add_days", (as_date(d, "date_add", zone), as_int32(n, "date_add")), (), DATE)


def add_months(d: Node, n: Node, zone: str = "UTC") -> Node:
    """Return ``add_months(d, n)``, the date n months later, or the last day of that month if it is shorter."""
    return make("add_months", (as_date(d, "add_months", zone), as_int32(n, "add_months")), (zone,), DATE)


def last_day(d: Node, zone: str = "UTC") -> Node:
    """Return the last day of the month, computed as the first day of the next month minus one day."""
    first = trunc_date(d, "month", zone)
    return add_days(add_months(first, literal(1), zone), literal(-1), zone)


def instant(x: Node, zone: str) -> Node:
    """Convert a local time to an instant if the offset of the zone changes. Return other timestamps unchanged.

    Most Spark functions convert a time without a zone in this manner. A local time that the clocks skip moves forward.
    """
    shown = x.op == "cast" and x.args[0].type.tz is not None and x.params[1] == zone  # the local time of an instant
    return x if x.type.tz or shown or is_fixed(zone) else cast(x, timestamp(x.type.unit, zone), zone)


def date_trunc(unit: str, x: Node, zone: str = "UTC") -> Node:
    """Return ``date_trunc(unit, x)`` in local time of ``zone``. A date becomes a timestamp first."""
    u = unit_named(unit)
    if u not in TRUNC_UNITS:
        raise ConditionError(f"date_trunc does not support the unit {unit!r}; expected one of {', '.join(TRUNC_UNITS)}")
    x = as_timestamp(x, "date_trunc", zone)
    return make("date_trunc", (x,), (u, zone), x.type)


def trunc_date(x: Node, unit: str, zone: str = "UTC") -> Node:
    """Return ``trunc(x, unit)``: the first date of the year, quarter, month or week."""
    u = unit_named(unit)
    if u not in DATE_UNITS:
        raise ConditionError(f"trunc does not support the unit {unit!r}; expected year, quarter, month or week")
    return make("trunc_date", (as_date(x, "trunc", zone),), (u,), DATE)


def extract(field: str, x: Node, zone: str = "UTC") -> Node:
    """Return a field of a date or timestamp as int32, in local time of ``zone``."""
    name = field.strip().lower()
    name = name if name in FIELDS else name.removesuffix("s")
    if name not in FIELDS:
        try:
            name = unit_named(name)
        except ConditionError:
            name = ""
    if name not in FIELDS:
        raise ConditionError(f"unknown field {field!r}; expected one of {', '.join(sorted(FIELDS))}")
    f = FIELDS[name]
    if x.type.kind in ("string", "null"):
        x = cast(x, DATE if f not in ("hour", "minute", "second") else timestamp("us", zone), zone)
    if x.type.kind == "date" and f in ("hour", "minute", "second"):
        x = cast(x, timestamp("us", zone), zone)
    if x.type.kind not in ("date", "timestamp"):
        raise ConditionError(f"{field} needs a date or timestamp, not {x.type}: {x}")
    return make("extract", (x,), (f, zone), INT32)


def _unix(op: str, x: Node, zone: str = "UTC") -> Node:
    """Return the units since the epoch as int64, rounded down. A timestamp without a zone is local time of ``zone``."""
    x = as_timestamp(x, op, zone)
    if not x.type.tz:
        x = cast(x, timestamp(x.type.unit, zone), zone)
    return make(op, (x,), (), INT64)


unix_seconds, unix_millis, unix_micros = (partial(_unix, f"unix_{unit}") for unit in ("seconds", "millis", "micros"))


def unix_date(x: Node, zone: str = "UTC") -> Node:
    """Return the days since 1970-01-01 as int32."""
    return make("unix_date", (as_date(x, "unix_date", zone),), (), INT32)


def from_days(n: Node) -> Node:
    return make("add_days", (literal(0, DATE), as_int32(n, "date_from_unix_date")), (), DATE)


def timestamp_of(n: Node, unit: str, zone: str = "UTC") -> Node:
    """Return the instant n units after the epoch. n is an int; seconds may also be a decimal or a float."""
    t = timestamp("us", zone)
    if n.type.kind in ("float", "decimal") and unit == "second":
        return cast(n, t, zone)
    if n.type.kind not in ("int", "null"):
        raise ConditionError(f"timestamp_{unit} needs a whole number, not {n.type}: {n}")
    epoch = literal(0, t)
    # The zone of the sum is always UTC, because no calendar days are added.
    return add(epoch, mul(literal(UNIT_NANOS[unit] // 1000, duration("us")), n), "UTC")
