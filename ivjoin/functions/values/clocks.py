"""Time buckets, times of day, and time functions that are built from other operators."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr import build
from ivjoin.expr.build import chrono, strings
from ivjoin.expr.build.nested import as_length
from ivjoin.expr.build.strings import constant_text
from ivjoin.expr.kernels.calendar import split
from ivjoin.expr.kernels.cells import Consts, Kernel, checked, of_values, unsupported
from ivjoin.expr.kernels.zones import zone_of
from ivjoin.expr.literals import is_literal, literal, zone_named
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import DAY, FLOAT64, INT64, STRING, TICKS_PER_SECOND, timestamp
from ivjoin.functions.records import direction
from ivjoin.functions.records.record import BOTH_WAYS, NO_ORDER, NOT_LINEAR, Absent, Meaning, Operator, call, one
from ivjoin.functions.records.writing import ATOM, Arg, called
from ivjoin.functions.rules.rule import Place, Rule, strict_unary
from ivjoin.functions.rules.rules_time import bucketed, clock

__all__ = ["OPERATORS", "SPELLINGS"]

_MONDAY = 946_857_600  # 2000-01-03 in seconds, the default origin of buckets in DuckDB
_UNITS = {"s": "SECOND", "ms": "MILLISECOND", "us": "MICROSECOND", "ns": "NANOSECOND"}
_NO_TIME = Absent("SymPy does not have dates and times")
_CUT = Absent("the value is truncated, so it is not a multiple of the argument")


# -- time_bucket ---------------------------------------------------------------------------------------------------


def _bucket(args: list[Node], zone: str) -> Node:
    """Return ``time_bucket(width, x[, offset])``, the start of the bucket that contains x."""
    width, x, *rest = args
    if not all(is_literal(a) and a.type.kind in ("duration", "months", "null") for a in (width, *rest)):
        raise ConditionError("time_bucket takes INTERVAL literals as width and offset, such as INTERVAL 15 MINUTES")
    if x.type.kind not in ("date", "timestamp", "string", "null"):
        raise ConditionError(f"time_bucket needs a date or timestamp, not {x.type}: {x}")
    if width.type.kind == "months":
        unit = {1: "month", 3: "quarter", 12: "year"}.get(width.params[0] or 0)
        if unit is None or rest:
            raise UnsupportedError("time_bucket takes INTERVAL 1 MONTH, 3 MONTHS or 1 YEAR, or a width in days or less")
        return chrono.trunc_date(x, unit, zone) if x.type.kind == "date" else chrono.date_trunc(unit, x, "UTC")
    seconds = _seconds(width)
    if seconds <= 0:
        raise ConditionError("time_bucket needs a width above zero, such as INTERVAL 15 MINUTES")
    offset = _seconds(rest[0]) if rest else Fraction(0)
    if x.type.kind != "timestamp" and (x.type.kind != "date" or seconds % DAY or offset % DAY):
        x = build.cast(x, timestamp("us", zone), zone)
    for unit in (x.type.unit, "us", "ns"):
        per = TICKS_PER_SECOND[unit] if x.type.kind == "timestamp" else Fraction(1, DAY)
        if (seconds * per).denominator == (offset * per).denominator == 1:
            break
        x = build.cast(x, timestamp("ns" if unit == "us" else "us", x.type.tz), zone)
    ticks = int(seconds * per)
    if ticks >= 1 << 63:
        raise ConditionError("time_bucket has a width of more than 292,000 years")
    return make("time_bucket", (x,), (ticks, int((_MONDAY + offset) * per) % ticks), x.type)


def _seconds(n: Node) -> Fraction:
    return Fraction(n.params[0], TICKS_PER_SECOND[n.type.unit])


def _bucket_text(n: Node, arg: Arg) -> tuple[str, int]:
    width, phase = n.params
    t = n.type
    per, unit = Fraction(1, DAY), "DAY"
    if t.kind == "timestamp":
        per, unit = Fraction(TICKS_PER_SECOND[t.unit]), _UNITS[t.unit]
    offset = (phase - int(_MONDAY * per)) % width
    parts = [f"INTERVAL '{width}' {unit}", arg(0), *([f"INTERVAL '{offset}' {unit}"] if offset else [])]
    return f"time_bucket({', '.join(parts)})", ATOM


def _bucket_exact(node: Node, _: Consts) -> Kernel:
    if node.args[0].type != node.type or node.type.kind not in ("date", "timestamp"):
        raise unsupported(node)
    width, phase = node.params

    def bucket(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wide = x.astype(np.int64, copy=False)
        r = wide - (wide % width - phase) % width
        low = r > wide
        if x.dtype != np.int64:
            low = low | (r < np.iinfo(x.dtype).min)
        return r.astype(x.dtype, copy=False), low  # only values near the least time wrap around

    return checked(bucket)


# -- CAST(x AS TIME) -----------------------------------------------------------------------------------------------


def _day_exact(node: Node, _: Consts) -> Kernel:
    t = node.args[0].type
    if t.kind != "timestamp":
        raise unsupported(node)
    per = TICKS_PER_SECOND[t.unit]
    zone = zone_of(node.params[0]) if t.tz else zone_of(None)

    def time_of_day(x: np.ndarray) -> np.ndarray:
        seconds, below = split(x, per)
        return (seconds % DAY + zone.offsets(seconds)) % DAY * per + below

    return of_values(time_of_day)


def _day_bounds(p: Place) -> Rule:
    t = p.node.args[0].type
    per = TICKS_PER_SECOND[t.unit]
    fixed, day = clock(p.node, 0).fixed, DAY * per
    whole = 0, day - 1

    def within(x: tuple[int, int]) -> tuple[int, int]:
        if fixed is None or (x[0] + fixed * per) // day != (x[1] + fixed * per) // day:
            return whole
        return (x[0] + fixed * per) % day, (x[1] + fixed * per) % day

    return strict_unary(p, within, None, whole)


# -- columns of intervals ------------------------------------------------------------------------------------------


def _length_exact(node: Node, _: Consts) -> Kernel:
    return checked(_length)


def _length(array: Any) -> tuple[np.ndarray, np.ndarray]:
    parts = np.frombuffer(array.buffers()[1], dtype=_SPAN, count=len(array), offset=array.offset * _SPAN.itemsize)
    days = parts["days"].astype(np.int64)
    bad = (parts["months"] != 0) | (parts["nanos"] % 1000 != 0) | (np.abs(days) > _MOST_DAYS)
    return np.where(bad, 0, days) * DAY * 10**6 + parts["nanos"] // 1000, bad


_SPAN = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
_MOST_DAYS = 50_000_000  # so that the sum with any number of nanoseconds fits int64


# -- functions that are built from other operators -----------------------------------------------------------------


def _shifted(to: Callable[[Node, str, str], Node]) -> Callable[[list[Node], str], Node]:
    """Shift an instant between the local times of UTC and a zone. As in Spark, a time without a zone is an instant."""
    def make_(args: list[Node], zone: str) -> Node:
        name = constant_text(args[1], "the zone of from_utc_timestamp and to_utc_timestamp")
        zone_named(name)
        given = args[0].type
        local = given.kind == "timestamp" and given.tz is None
        unit = given.unit if given.kind == "timestamp" else "us"
        instant = args[0] if given.tz else build.cast(args[0], timestamp(unit, zone), zone)
        made = build.cast(to(instant, name, unit), timestamp(unit, instant.type.tz), "UTC")
        return build.cast(made, timestamp(unit), zone) if local else made

    return make_


def _from_utc(instant: Node, zone: str, unit: str) -> Node:
    return build.cast(instant, timestamp(unit), zone)


def _to_utc(instant: Node, zone: str, unit: str) -> Node:
    return build.cast(build.cast(instant, timestamp(unit), "UTC"), timestamp(unit, zone), zone)


def _epoch(args: list[Node], zone: str) -> Node:
    micros = build.cast(chrono.unix_micros(args[0], "UTC" if args[0].type.tz is None else zone), FLOAT64)
    return build.div(micros, literal(1e6))


def _overlaps(args: list[Node], zone: str) -> Node:
    """Return whether two periods overlap.

    A period does not contain its end, unless the end equals the start. An argument may be a length instead of an end.
    """
    a, b, c, d = args
    b, d = (build.add(s, e, zone) if e.type.kind in ("duration", "months") else e for s, e in ((a, b), (c, d)))

    def less(op: str, x: Node, y: Node) -> Node:
        return build.compare(op, x, y, zone)

    strict = build.or_(build.and_(less("lt", a, d), less("lt", c, b)), less("eq", a, c))
    return build.and_(less("le", a, d), less("le", c, b), strict)  # the first two are bands


_FIELD = {"y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second", "D": "dayofyear"}
_WIDTHS = {"y": 4, "D": 3}
_MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]  # fmt: skip
_DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]


def _date_format(args: list[Node], zone: str) -> Node:
    """Format a time as text by a pattern of Java."""
    x, pattern = args[0], constant_text(args[1], "the pattern of date_format")
    x = chrono.instant(x, zone) if x.type.kind == "timestamp" else build.cast(x, timestamp("us", zone), zone)
    parts = [
        _formatted(m[0], x, zone) for m in re.finditer(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+", pattern)
    ]
    return strings.concat(*parts) if len(parts) > 1 else parts[0] if parts else literal("")


def _formatted(token: str, x: Node, zone: str) -> Node:
    letter, n = token[0], len(token)
    if letter == "'":
        return literal(token[1:-1].replace("''", "'") or "'")
    if not letter.isalpha():
        return literal(token)
    if letter == "E" or (letter == "M" and n in (3, 4)):
        field, names = ("dayofweek", _DAYS) if letter == "E" else ("month", _MONTHS)
        value = chrono.extract(field, x, zone)
        whens = [
            (build.compare("eq", value, literal(i)), literal(name if n == 4 else name[:3]))
            for i, name in enumerate(names, 1)
        ]
        return build.case(whens, None, zone)
    if letter == "a" and n == 1:
        hour = chrono.extract("hour", x, zone)
        return build.case([(build.compare("lt", hour, literal(12)), literal("AM")),
                           (build.compare("ge", hour, literal(12)), literal("PM"))], None, zone)  # fmt: skip
    if letter == "S" and n <= 6:
        micros = build.pmod(chrono.unix_micros(x, zone), literal(1_000_000))
        return _digits(build.intdiv(micros, literal(10 ** (6 - n))), n)
    if letter == "h" and n <= 2:
        hour = build.pmod(build.add(chrono.extract("hour", x, zone), literal(11)), literal(12))
        return _digits(build.add(hour, literal(1)), n)
    if letter not in _FIELD or n > _WIDTHS.get(letter, 2):
        raise UnsupportedError(
            f"date_format does not support {token!r}; it knows y M d H h m s S D E a, and text in single quotes"
        )
    value = chrono.extract(_FIELD[letter], x, zone)
    if letter == "y" and n == 2:
        return _digits(build.pmod(value, literal(100)), 2)
    return _digits(value, n)


def _digits(value: Node, width: int) -> Node:
    text = build.cast(value, STRING)
    if width == 1:
        return text
    short = build.compare("lt", build.cast(value, INT64), literal(10**width))
    return build.case([(short, strings.lpad(text, width, "0"))], text)  # lpad would cut longer numbers


OPERATORS = (
    Operator(
        "time_bucket", {"time": Meaning(_bucket_exact, lambda p: bucketed(p, *p.node.params))},
        ("time_bucket(INTERVAL 15 MINUTES, l.t)", "time_bucket(INTERVAL 1 WEEK, l.d)",
         "time_bucket(INTERVAL 7 SECONDS, l.t, INTERVAL 3 SECONDS)"),
        _bucket_text, direction.rises, _CUT, calls=(call("time_bucket", 2, 3, _bucket),), sympy=_NO_TIME,
    ),
    Operator(
        "time_of_day",
        {"time": Meaning(_day_exact, _day_bounds)},
        ("CAST(l.t AS TIME)",), lambda n, arg: (f"CAST({arg(0)} AS TIME)", ATOM), BOTH_WAYS,
        Absent("a time of day starts at zero again on each day"), sympy=_NO_TIME,
    ),
    Operator(
        "interval_length",
        {"opaque": Meaning(_length_exact, Absent("the interval rules do not handle calendar intervals"))},
        ("l.t + l.md", "l.t - r.t <= l.md", "l.i = r.md"), called("interval_length"), NO_ORDER, NOT_LINEAR,
        calls=(one("interval_length", as_length),), sympy=_NO_TIME,
    ),
)  # fmt: skip
SPELLINGS = (
    call("from_utc_timestamp", 2, 2, _shifted(_from_utc)),
    call("to_utc_timestamp", 2, 2, _shifted(_to_utc)),
    call("date_format", 2, 2, _date_format),
    call("epoch", 1, 1, _epoch),
    call("overlaps", 4, 4, _overlaps),
)
