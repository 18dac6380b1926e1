"""Functions of dates and timestamps: sums with days and months, truncation, fields, and units since the epoch."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce

from ivjoin.errors import UnsupportedError
from ivjoin.expr import build
from ivjoin.expr.build import chrono
from ivjoin.expr.build.strings import constant_text
from ivjoin.expr.kernels import times as ops_time
from ivjoin.expr.kernels.calendar import TRUNC_UNITS
from ivjoin.expr.literals import is_literal, literal
from ivjoin.expr.words import string_text
from ivjoin.functions.records import direction
from ivjoin.functions.records import linear as forms
from ivjoin.functions.records.record import Absent, Build, Call, Meaning, Operator, call, one
from ivjoin.functions.records.writing import ADD, ATOM, Arg, Node, Written, called, infix, written_call
from ivjoin.functions.rules import rules_time
from ivjoin.functions.rules.rule import same
from ivjoin.functions.rules.rules_integer import arithmetic

__all__ = ["OPERATORS", "SPELLINGS", "extracted"]

_MONTHS = Absent("months differ in length")
_CUT = Absent("the value is truncated, so it is not a multiple of the argument")
_NO_TIME = Absent("SymPy does not have dates and times")


def _moved(unit: str, name: str) -> Written:
    def written(n: Node, arg: Arg) -> tuple[str, int]:
        count = n.args[1]
        if count.op == "literal" and count.params[0] is not None:
            amount = count.params[0]
            return f"{arg(0, ADD)} {'-' if amount < 0 else '+'} INTERVAL '{abs(amount)}' {unit}", ADD
        return written_call(name, [arg(0), arg(1)])

    return written


def _date_trunc(n: Node, arg: Arg) -> tuple[str, int]:
    return f"date_trunc({string_text(n.params[0])}, {arg(0)})", ATOM


def _extract(n: Node, arg: Arg) -> tuple[str, int]:
    field = n.params[0]
    if field == "month_number":  # only in bands
        return f"12 * year({arg(0)}) + month({arg(0)})", ADD
    if field in ("yearofweek", "dayofweek_iso"):  # not functions of Spark
        return f"EXTRACT({field.upper()} FROM {arg(0)})", ATOM
    return f"{'weekofyear' if field == 'week' else field}({arg(0)})", ATOM


def extracted(field: str, x: Node, zone: str) -> Node:
    if field.lower().rstrip("s") in ("second", "sec", ""):
        raise UnsupportedError(
            "EXTRACT(SECOND) has a fraction, which is not supported; second(x) gives the whole second"
        )
    return chrono.extract(field, x, zone)


def _zoned(names: str, make: Callable[[Node, str], Node]) -> Call:
    return call(names, 1, 1, lambda a, z: make(a[0], z))


def _field(name: str) -> Call:
    return _zoned(name, lambda x, z: chrono.extract(name, x, z))


def _since_epoch(name: str, ticks: int) -> Operator:
    make = getattr(chrono, name)
    return Operator(
        name, {"time": Meaning(ops_time.since_epoch(ticks), rules_time.since_epoch(ticks))}, (f"{name}(l.t)",),
        called(name), direction.rises, forms.SINCE_EPOCH,
        calls=(_zoned(name, lambda x, zone: make(x, _zone_of(x, zone))),), sympy=_NO_TIME,
    )


def _zone_of(x: Node, zone: str) -> str:
    """Return the zone of a time for units since the epoch. As in Spark 4.3, a timestamp without a zone is in UTC."""
    return "UTC" if x.type.kind == "timestamp" and x.type.tz is None else zone


def _unix_timestamp(x: Node, zone: str) -> Node:
    """Return whole seconds, rounded toward zero as in Spark. (unix_seconds rounds down.)"""
    zone = _zone_of(x, zone)
    if x.type.kind == "date" or x.type.unit == "s":
        return chrono.unix_seconds(x, zone)
    return build.intdiv(chrono.unix_micros(x, zone), literal(1_000_000))


def _of_epoch(name: str, unit: str) -> Call:
    return _zoned(name, lambda x, z: chrono.timestamp_of(x, unit, z))


def _day_time_interval(a: list[Node], zone: str) -> Node:
    parts = []
    for n, unit in zip(a, ("day", "hour", "minute", "second")):
        if n.type.kind == "decimal" and is_literal(n) and n.params[0] is not None:
            parts.append(chrono.interval(Fraction(n.params[0], 10**n.type.scale), unit))
        else:
            parts.append(build.mul(chrono.interval(1, unit), n))
    return _total(parts, "second")


def _year_month_interval(a: list[Node], zone: str) -> Node:
    return _total([build.mul(chrono.interval(1, unit), n) for n, unit in zip(a, ("year", "month"))], "month")


def _total(parts: list[Node], unit: str) -> Node:
    """Return the sum of the parts, without literal zeros."""
    return reduce(build.add, [p for p in parts if not is_literal(p) or p.params[0] != 0] or [chrono.interval(0, unit)])


def _with_unit(make: Callable[[str, Node, str], Node], what: str) -> Build:
    return lambda a, z: make(constant_text(a[0], what), a[1], z)


OPERATORS = (
    Operator(
        "add_days", {"time": Meaning(ops_time.add_days, arithmetic("add"))},
        ("date_add(l.d, r.n)", "l.d + INTERVAL 3 DAYS", "l.d - INTERVAL 3 DAYS"),
        _moved("DAY", "date_add"), direction.add, forms.ADD,
        calls=(call("date_add dateadd", 2, 2, lambda a, z: chrono.add_days(a[0], a[1], z)),), sympy=_NO_TIME,
    ),
    Operator(
        "add_months", {"time": Meaning(ops_time.add_months, rules_time.add_months)},
        ("add_months(l.d, r.n)", "l.d + INTERVAL 1 MONTH", "l.t - INTERVAL 2 MONTHS"),
        _moved("MONTH", "add_months"), direction.add_months, _MONTHS,
        calls=(call("add_months", 2, 2, lambda a, z: chrono.add_months(a[0], a[1], z)),), sympy=_NO_TIME,
    ),
    Operator(
        "date_diff", {"time": Meaning(ops_time.date_diff, arithmetic("sub"))}, ("datediff(l.d, r.e)",),
        infix("-", ADD), direction.sub, forms.ADD,
        calls=(call("datediff date_diff", 2, 2, lambda a, z: build.days_apart(a[0], a[1], z)),), sympy=_NO_TIME,
    ),
    Operator(
        "date_trunc", {"time": Meaning(ops_time.date_trunc, rules_time.date_trunc)},
        tuple(f"date_trunc('{u}', l.t)" for u in TRUNC_UNITS),
        _date_trunc, direction.at_fixed_clock, _CUT,
        calls=(call("date_trunc", 2, 2, _with_unit(chrono.date_trunc, "the unit of date_trunc")),), sympy=_NO_TIME,
    ),
    Operator(
        "trunc_date", {"time": Meaning(ops_time.trunc_date, rules_time.trunc_date)},
        ("trunc(l.d, 'year')", "trunc(l.d, 'quarter')", "trunc(l.d, 'month')", "trunc(l.d, 'week')"),
        called("trunc", params=True), direction.rises, _CUT,
        calls=(call("trunc", 2, 2, lambda a, z: chrono.trunc_date(
            a[0], constant_text(a[1], "the unit of trunc"), z)),), sympy=_NO_TIME,
    ),
    _since_epoch("unix_seconds", 1),
    _since_epoch("unix_millis", 1_000),
    _since_epoch("unix_micros", 1_000_000),
    Operator(
        "unix_date", {"time": Meaning(ops_time.unix_date, same)}, ("unix_date(l.d)",),
        called("unix_date"), direction.rises, forms.SAME, calls=(_zoned("unix_date", chrono.unix_date),),
        sympy=_NO_TIME,
    ),
    Operator(
        "extract",
        {"time": Meaning(ops_time.extract, rules_time.extract,
                         "the interval rules cannot find the year that a week belongs to",
                         "a calendar field has the same value again in each year, day or hour")},
        ("year(l.d)", "month(l.t)", "hour(l.t)", "dayofweek(l.d)", "weekofyear(l.d)", "EXTRACT(YEAROFWEEK FROM l.d)"),
        _extract, direction.extract, Absent("a calendar field is not a multiple of the argument"),
        calls=(*map(_field, ("year", "quarter", "month", "day", "dayofmonth", "hour", "minute", "second", "weekofyear",
                             "dayofweek", "weekday", "dayofyear")),
               call("date_part datepart", 2, 2, _with_unit(extracted, "the field of date_part"))), sympy=_NO_TIME,
    ),
)  # fmt: skip
SPELLINGS = (
    _zoned("unix_timestamp to_unix_timestamp", _unix_timestamp),
    _zoned("last_day", chrono.last_day),
    one("date_from_unix_date", chrono.from_days),
    _of_epoch("timestamp_seconds", "second"),
    _of_epoch("timestamp_millis", "millisecond"),
    _of_epoch("timestamp_micros", "microsecond"),
    call("date_sub", 2, 2, lambda a, z: chrono.add_days(a[0], build.neg(a[1]), z)),
    call("make_dt_interval", 0, 4, _day_time_interval),
    call("make_ym_interval", 0, 2, _year_month_interval),
)
