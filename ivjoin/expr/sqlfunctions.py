"""The functions a condition may call, by their SQL names: how many arguments, and which node they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr import build, chrono, strings
from ivjoin.expr.literals import is_literal, literal
from ivjoin.expr.nodes import Node
from ivjoin.expr.scope import nearest
from ivjoin.expr.strings import constant_int, constant_text
from ivjoin.expr.types import (
    BINARY,
    BOOL,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    decimal,
    timestamp,
)

__all__ = ["FUNCTIONS", "call", "extracted"]

_ANY = 1 << 30


@dataclass(frozen=True, slots=True)
class _Function:
    least: int
    most: int
    make: Callable[[list[Node], str], Node]


FUNCTIONS: dict[str, _Function] = {}


def call(name: str, args: list[Node], zone: str) -> Node:
    """The node of ``name(args)``.

    Raises
    ------
    UnsupportedError
        If there is no such function here, naming the nearest ones.
    ConditionError
        If the number or the types of the arguments are wrong.
    """
    f = FUNCTIONS.get(name.lower())
    if f is None:
        reason = _REFUSED.get(name.lower())
        if reason is not None:
            raise UnsupportedError(f"the function {name}() is not supported in a condition: {reason}")
        raise UnsupportedError(f"the function {name}() is not known here{nearest(name, FUNCTIONS)}")
    if not f.least <= len(args) <= f.most:
        count = (
            str(f.least) if f.least == f.most else f"{f.least} or more" if f.most == _ANY else f"{f.least} to {f.most}"
        )
        raise ConditionError(f"{name}() takes {count} argument{'' if count == '1' else 's'}, got {len(args)}")
    return f.make(args, zone)


_REFUSED = {
    **dict.fromkeys(("rand", "random", "randn", "uuid", "shuffle", "monotonically_increasing_id"),
                    "it has another value at each call"),
    **dict.fromkeys(("now", "current_timestamp", "current_date", "localtimestamp", "curdate", "current_timezone"),
                    "its value depends on when it is called; put the time into the text as a literal"),
    **dict.fromkeys(("sum", "count", "avg", "min", "max", "first", "last", "collect_list", "collect_set"),
                    "it is an aggregate; compute it in a column before the join"),
    **dict.fromkeys(("row_number", "rank", "lag", "lead", "ntile", "dense_rank"),
                    "it is a window function; compute it in a column before the join"),
    **dict.fromkeys(("explode", "array", "map", "struct", "named_struct", "array_contains", "size", "element_at"),
                    "nested values can only travel as payload; make what you compare a column first"),
    "try_cast": "CAST raises where a value does not fit; guard it with CASE",
}  # fmt: skip


def _put(names: str, least: int, most: int, make: Callable[[list[Node], str], Node]) -> None:
    for name in names.split():
        FUNCTIONS[name] = _Function(least, most, make)


def _one(names: str, make: Callable[[Node], Node]) -> None:
    _put(names, 1, 1, lambda a, z: make(a[0]))


def _zoned(names: str, make: Callable[[Node, str], Node]) -> None:
    _put(names, 1, 1, lambda a, z: make(a[0], z))


def _with_text(name: str, make: Callable[[Node, str], Node]) -> None:
    _put(name, 2, 2, lambda a, z: make(a[0], constant_text(a[1], f"the second argument of {name}")))


def _with_int(name: str, make: Callable[[Node, int], Node]) -> None:
    _put(name, 2, 2, lambda a, z: make(a[0], constant_int(a[1], f"the second argument of {name}")))


# Numbers
for _name in ("sqrt", "cbrt", "exp", "expm1", "ln", "log10", "log2", "log1p", "sin", "cos", "tan", "asin", "acos",
              "atan", "sinh", "cosh", "tanh", "floor", "rint"):  # fmt: skip
    _one(_name, getattr(build, _name))
_one("abs", build.abs_)
_one("ceil ceiling", build.ceil)
_one("sign signum", build.sign)
_one("negative", build.neg)
_one("positive", lambda a: a)
_one("isnan", build.is_nan)
_put("log", 1, 2, lambda a, z: build.ln(a[0]) if len(a) == 1 else build.log(*a))
_put("pow power", 2, 2, lambda a, z: build.pow_(*a))
_put("mod", 2, 2, lambda a, z: build.mod(*a))
_put("pmod", 2, 2, lambda a, z: build.pmod(*a))
_put("div", 2, 2, lambda a, z: build.intdiv(*a))
_put("greatest", 2, _ANY, lambda a, z: build.greatest(*a, zone=z))
_put("least", 2, _ANY, lambda a, z: build.least(*a, zone=z))


def _digits(a: list[Node], what: str) -> int:
    return constant_int(a[1], f"the second argument of {what}") if len(a) > 1 else 0


_put("round", 1, 2, lambda a, z: build.round_(a[0], _digits(a, "round")))
_put("bround", 1, 2, lambda a, z: build.bround(a[0], _digits(a, "bround")))


def _nanvl(a: list[Node], z: str) -> Node:
    t = FLOAT32 if a[0].type == a[1].type == FLOAT32 else FLOAT64
    x, y = (build.cast(n, t) for n in a)
    return build.if_(build.is_nan(x), y, x)


_put("nanvl", 2, 2, _nanvl)

# Choice and nulls
_put("coalesce", 1, _ANY, lambda a, z: build.coalesce(*a, zone=z))
_put("nvl ifnull", 2, 2, lambda a, z: build.coalesce(*a, zone=z))
_put("nvl2", 3, 3, lambda a, z: build.if_(build.is_not_null(a[0]), a[1], a[2], z))
_put("nullif", 2, 2, lambda a, z: build.nullif(a[0], a[1], z))
_put("if iff", 3, 3, lambda a, z: build.if_(a[0], a[1], a[2], z))
_put("equal_null", 2, 2, lambda a, z: build.eq_null_safe(a[0], a[1], z))
_one("isnull", build.is_null)
_one("isnotnull", build.is_not_null)

# Casts that look like functions
for _name, _type in (("tinyint", INT8), ("smallint", INT16), ("int", INT32), ("bigint", INT64), ("float", FLOAT32),
                     ("double", FLOAT64), ("boolean", BOOL), ("string", STRING), ("binary", BINARY), ("date", DATE),
                     ("to_date", DATE), ("decimal", decimal(10, 0))):  # fmt: skip
    _put(_name, 1, 1, lambda a, z, t=_type: build.cast(a[0], t, z))  # type: ignore[misc]
_zoned("timestamp to_timestamp to_timestamp_ltz", lambda a, z: build.cast(a, timestamp("us", z), z))
_zoned("to_timestamp_ntz", lambda a, z: build.cast(a, timestamp("us"), z))


def extracted(field: str, x: Node, zone: str) -> Node:
    """``EXTRACT(field FROM x)``."""
    if field.lower().rstrip("s") in ("second", "sec", ""):
        raise UnsupportedError(
            "EXTRACT(SECOND) has a fraction, which is not supported; second(x) gives the whole second"
        )
    return chrono.extract(field, x, zone)


# Times
for _name in ("unix_seconds", "unix_millis", "unix_micros", "unix_date", "last_day"):
    _zoned(_name, getattr(chrono, _name))
_zoned("unix_timestamp to_unix_timestamp", chrono.unix_seconds)
_one("date_from_unix_date", chrono.from_days)
for _name, _unit in (("timestamp_seconds", "second"), ("timestamp_millis", "millisecond"),
                     ("timestamp_micros", "microsecond")):  # fmt: skip
    _put(_name, 1, 1, lambda a, z, u=_unit: chrono.timestamp_of(a[0], u, z))  # type: ignore[misc]
for _name in ("year", "quarter", "month", "day", "dayofmonth", "hour", "minute", "second", "weekofyear", "dayofweek",
              "weekday", "dayofyear"):  # fmt: skip
    _put(_name, 1, 1, lambda a, z, f=_name: chrono.extract(f, a[0], z))  # type: ignore[misc]
_put("date_part datepart", 2, 2, lambda a, z: extracted(constant_text(a[0], "the field of date_part"), a[1], z))
_put("date_trunc", 2, 2, lambda a, z: chrono.date_trunc(constant_text(a[0], "the unit of date_trunc"), a[1], z))
_put("trunc", 2, 2, lambda a, z: chrono.trunc_date(a[0], constant_text(a[1], "the unit of trunc"), z))
_put("date_add dateadd", 2, 2, lambda a, z: chrono.add_days(a[0], a[1], z))
_put("date_sub", 2, 2, lambda a, z: chrono.add_days(a[0], build.neg(a[1]), z))
_put("datediff date_diff", 2, 2, lambda a, z: build.days_apart(a[0], a[1], z))
_put("add_months", 2, 2, lambda a, z: chrono.add_months(a[0], a[1], z))


def _day_time_interval(a: list[Node], z: str) -> Node:
    parts = []
    for n, unit in zip(a, ("day", "hour", "minute", "second")):
        if n.type.kind == "decimal" and is_literal(n) and n.params[0] is not None:
            parts.append(chrono.interval(Fraction(n.params[0], 10**n.type.scale), unit))
        else:
            parts.append(build.mul(chrono.interval(1, unit), n))
    return _total(parts, "second")


def _year_month_interval(a: list[Node], z: str) -> Node:
    return _total([build.mul(chrono.interval(1, unit), n) for n, unit in zip(a, ("year", "month"))], "month")


def _total(parts: list[Node], unit: str) -> Node:
    """The sum of the parts that are not zero."""
    return reduce(build.add, [p for p in parts if not is_literal(p) or p.params[0] != 0] or [chrono.interval(0, unit)])


_put("make_dt_interval", 0, 4, _day_time_interval)
_put("make_ym_interval", 0, 2, _year_month_interval)

# Strings
for _name in ("upper", "lower", "initcap", "reverse", "length", "octet_length"):
    _one(_name, getattr(strings, _name))
_one("ucase", strings.upper)
_one("lcase", strings.lower)
_one("len char_length character_length", strings.length)
for _name in ("startswith", "endswith", "contains", "rlike"):
    _with_text(_name, getattr(strings, _name))
_with_text("regexp_like", strings.rlike)
_with_text("regexp", strings.rlike)


def _text_at(a: list[Node], i: int, default: str, what: str) -> str:
    return constant_text(a[i], what) if len(a) > i else default


def _trimmed(make: Callable[[Node, str], Node], characters_first: bool) -> Callable[[list[Node], str], Node]:
    def trim(a: list[Node], zone: str) -> Node:
        if len(a) == 1:
            return make(a[0], " ")
        # Spark's two-argument ltrim and rtrim take the characters first.
        characters, x = a if characters_first else reversed(a)
        return make(x, constant_text(characters, "what a trim removes"))

    return trim


_put("like", 2, 3, lambda a, z: strings.like(
    a[0], constant_text(a[1], "the pattern of like"), _text_at(a, 2, "\\", "the escape of like")))  # fmt: skip
_put("ilike", 2, 3, lambda a, z: strings.ilike(
    a[0], constant_text(a[1], "the pattern of ilike"), _text_at(a, 2, "\\", "the escape of ilike")))  # fmt: skip
_with_int("left", strings.left_part)
_with_int("right", strings.right_part)
_with_int("repeat", strings.repeat)
_put("substring substr", 2, 3, lambda a, z: strings.substring(
    a[0], constant_int(a[1], "the position of substring"),
    constant_int(a[2], "the length of substring") if len(a) > 2 else None))  # fmt: skip
_put("replace", 2, 3, lambda a, z: strings.replace(
    a[0], constant_text(a[1], "the search text of replace"), _text_at(a, 2, "", "the replacement")))  # fmt: skip
_put("lpad", 2, 3, lambda a, z: strings.lpad(
    a[0], constant_int(a[1], "the width of lpad"), _text_at(a, 2, " ", "the fill of lpad")))  # fmt: skip
_put("rpad", 2, 3, lambda a, z: strings.rpad(
    a[0], constant_int(a[1], "the width of rpad"), _text_at(a, 2, " ", "the fill of rpad")))  # fmt: skip
_put("concat", 0, _ANY, lambda a, z: strings.concat(*a))
_one("space", lambda a: strings.repeat(literal(" "), constant_int(a, "the argument of space")))
_put("trim btrim", 1, 2, _trimmed(strings.trim, False))
_put("ltrim", 1, 2, _trimmed(strings.ltrim, True))
_put("rtrim", 1, 2, _trimmed(strings.rtrim, True))
