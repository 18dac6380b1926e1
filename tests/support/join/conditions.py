"""Conditions in three forms at once: text for ivjoin, text for DuckDB, and a Python predicate.

The Python form is the meaning: None is NULL, NaN equals itself and is the greatest, times are nanoseconds. DuckDB
sees times as whole numbers too (see ``duck``), so its text writes every span as a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from join.tables import DAY, KINDS, NANOS, Kind

Value = Callable[[dict[str, Any], dict[str, Any]], Any]


@dataclass(frozen=True, eq=False)
class Term:
    """A scalar or a truth value over a pair of rows."""

    sql: str
    duck: str
    value: Value
    family: str

    def __repr__(self) -> str:
        return self.sql


def swapped(text: str) -> str:
    """A condition's text with its sides exchanged."""
    return re.sub(r"\b([lr])\.", lambda m: "r." if m[1] == "l" else "l.", text)


def rank(v: Any) -> tuple[int, Any]:
    """Spark's order: NaN above everything, strings by bytes."""
    if isinstance(v, float) and v != v:
        return (1, 0)
    return (0, v.encode() if isinstance(v, str) else v)


def col(side: str, name: str, kind: Kind) -> Term:
    def value(a: dict[str, Any], b: dict[str, Any]) -> Any:
        return (a if side == "l" else b)[name]

    return Term(f"{side}.{name}", f"{side}.{name}", value, "int" if kind.family == "uint" else kind.family)


def lit(sql: str, v: Any, family: str, duck: str | None = None) -> Term:
    return Term(sql, sql if duck is None else duck, lambda a, b: v, family)


def number(v: int) -> Term:
    return lit(str(v) if v >= 0 else f"({v})", v, "int")


def span(kind: Kind, n: int) -> Term:
    """A distance of n steps of a kind, as it is added to one of its values."""
    if kind.family in ("int", "uint"):
        return number(n)
    if kind.is_float:
        return lit(f"{n * 0.5!r}D" if n >= 0 else f"({n * 0.5!r}D)", n * 0.5, "f64", f"({n * 0.5!r}::DOUBLE)")
    if kind.family == "dec":
        v = Decimal(n * 50) / 100
        return lit(f"{v:.2f}" if n >= 0 else f"({v:.2f})", v, "dec")
    if kind.family == "date":
        return lit(f"INTERVAL '{n}' DAY", n, "days", f"({n})")
    if kind.family in ("ts", "dur"):
        if n % 2:
            return lit(f"INTERVAL '{n * 500}' MILLISECOND", n * NANOS["s"] // 2, "dur", f"({n * NANOS['s'] // 2})")
        return lit(f"INTERVAL '{n // 2}' SECOND", n // 2 * NANOS["s"], "dur", f"({n // 2 * NANOS['s']})")
    raise AssertionError(f"{kind} has no distance")


def constant(kind: Kind, v: Any) -> Term:
    """A literal of a kind, from a physical value."""
    import datetime as dt

    if kind.family in ("int", "uint"):
        return number(int(v))
    if kind.is_float:
        # As a double: against a float32 column both are compared as doubles.
        text = "NaN" if v != v else {float("inf"): "Infinity", -float("inf"): "-Infinity"}.get(v)
        if text is not None:
            return lit(f"CAST('{text}' AS DOUBLE)", v, "f64", f"('{text}'::DOUBLE)")
        return lit(f"CAST({v!r} AS DOUBLE)", v, "f64", f"({v!r}::DOUBLE)")
    if kind.family == "dec":
        return lit(f"{v:.2f}", v, "dec")
    if kind.family == "date":
        days = v // (DAY * 1000) if kind.name == "date64" else v
        day = dt.date(1970, 1, 1) + dt.timedelta(days=days)
        return lit(f"DATE '{day}'", days, "date", f"({days})")
    if kind.family == "ts":
        nanos = v * NANOS[kind.type.unit]
        at = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=nanos // 1000)
        word = "TIMESTAMP" if kind.type.tz else "TIMESTAMP_NTZ"
        return lit(f"{word} '{at}'", nanos // 1000 * 1000, "ts", f"({nanos // 1000 * 1000})")
    if kind.family == "dur":
        return lit(
            f"INTERVAL '{v * NANOS[kind.type.unit] // NANOS['s']}' SECOND",
            v * NANOS[kind.type.unit] // NANOS["s"] * NANOS["s"],
            "dur",
            f"({v * NANOS[kind.type.unit] // NANOS['s'] * NANOS['s']})",
        )
    if kind.family == "str":
        return lit(f"'{v}'", v, "str")
    if kind.family == "bool":
        return lit(str(v).lower(), v, "bool")
    raise AssertionError(f"no literal of {kind}")


def _strict(f: Callable[..., Any], *terms: Term) -> Value:
    """A function that is NULL where an argument is."""

    def value(a: dict[str, Any], b: dict[str, Any]) -> Any:
        args = [t.value(a, b) for t in terms]
        return None if any(v is None for v in args) else f(*args)

    return value


_RESULT = {
    ("date", "days"): "date", ("date", "date"): "days", ("ts", "dur"): "ts", ("ts", "ts"): "dur",
    ("dur", "dur"): "dur", ("int", "int"): "int", ("dec", "dec"): "dec", ("int", "dec"): "dec", ("dec", "int"): "dec",
    ("f32", "f32"): "f32",
}


def arith(op: str, x: Term, y: Term) -> Term:
    """``+ - *`` of two terms, at the width the machine has."""
    family = _RESULT.get((x.family, y.family)) or "f64"
    f: Callable[[Any, Any], Any] = {"+": lambda p, q: p + q, "-": lambda p, q: p - q, "*": lambda p, q: p * q}[op]
    if family == "f32":
        exact = f

        def f(p: float, q: float) -> float:
            with np.errstate(all="ignore"):
                return float(exact(np.float32(p), np.float32(q)))

    return Term(f"({x.sql} {op} {y.sql})", f"({x.duck} {op} {y.duck})", _strict(f, x, y), family)


def ratio(x: Term, y: Term) -> Term:
    """``/``, a double; for divisors that are never zero."""
    return Term(
        f"({x.sql} / {y.sql})", f"({x.duck} / {y.duck})", _strict(lambda p, q: float(p) / float(q), x, y), "f64"
    )


def absolute(x: Term) -> Term:
    return Term(f"abs({x.sql})", f"abs({x.duck})", _strict(abs, x), x.family)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda p, q: rank(p) < rank(q), "<=": lambda p, q: rank(p) <= rank(q), ">": lambda p, q: rank(p) > rank(q),
    ">=": lambda p, q: rank(p) >= rank(q), "=": lambda p, q: rank(p) == rank(q), "<>": lambda p, q: rank(p) != rank(q),
}


def compare(x: Term, op: str, y: Term) -> Term:
    if op == "<=>":

        def null_safe(a: dict[str, Any], b: dict[str, Any]) -> bool:
            p, q = x.value(a, b), y.value(a, b)
            return (p is None and q is None) if p is None or q is None else rank(p) == rank(q)

        return Term(f"{x.sql} <=> {y.sql}", f"{x.duck} IS NOT DISTINCT FROM {y.duck}", null_safe, "bool")
    return Term(f"{x.sql} {op} {y.sql}", f"{x.duck} {op} {y.duck}", _strict(_COMPARE[op], x, y), "bool")


def between(x: Term, lo: Term, hi: Term) -> Term:
    both = all_of(compare(x, ">=", lo), compare(x, "<=", hi))
    return Term(
        f"{x.sql} BETWEEN {lo.sql} AND {hi.sql}", f"{x.duck} BETWEEN {lo.duck} AND {hi.duck}", both.value, "bool"
    )


def all_of(*terms: Term) -> Term:
    if len(terms) == 1:
        return terms[0]

    def value(a: dict[str, Any], b: dict[str, Any]) -> bool | None:
        seen = {t.value(a, b) for t in terms}
        return False if False in seen else None if None in seen else True

    return Term(" AND ".join(f"({t.sql})" for t in terms), " AND ".join(f"({t.duck})" for t in terms), value, "bool")


def any_of(*terms: Term) -> Term:
    def value(a: dict[str, Any], b: dict[str, Any]) -> bool | None:
        seen = {t.value(a, b) for t in terms}
        return True if True in seen else None if None in seen else False

    return Term(" OR ".join(f"({t.sql})" for t in terms), " OR ".join(f"({t.duck})" for t in terms), value, "bool")


def negation(t: Term) -> Term:
    return Term(f"NOT ({t.sql})", f"NOT ({t.duck})", _strict(lambda v: not v, t), "bool")


def is_null(t: Term) -> Term:
    return Term(f"{t.sql} IS NULL", f"{t.duck} IS NULL", lambda a, b: t.value(a, b) is None, "bool")


def choose(when: Term, then: Term, other: Term) -> Term:
    def value(a: dict[str, Any], b: dict[str, Any]) -> Any:
        return (then if when.value(a, b) is True else other).value(a, b)

    return Term(
        f"CASE WHEN {when.sql} THEN {then.sql} ELSE {other.sql} END",
        f"CASE WHEN {when.duck} THEN {then.duck} ELSE {other.duck} END",
        value,
        then.family,
    )


def first_value(*terms: Term) -> Term:
    def value(a: dict[str, Any], b: dict[str, Any]) -> Any:
        return next((v for v in (t.value(a, b) for t in terms) if v is not None), None)

    return Term(
        f"coalesce({', '.join(t.sql for t in terms)})", f"coalesce({', '.join(t.duck for t in terms)})", value,
        terms[0].family,
    )


def extreme(name: str, *terms: Term) -> Term:
    """``least`` or ``greatest``: nulls are skipped."""

    def value(a: dict[str, Any], b: dict[str, Any]) -> Any:
        values = [v for v in (t.value(a, b) for t in terms) if v is not None]
        if not values:
            return None
        return (min if name == "least" else max)(values, key=rank)

    return Term(
        f"{name}({', '.join(t.sql for t in terms)})", f"{name}({', '.join(t.duck for t in terms)})", value,
        terms[0].family,
    )


def within(x: Term, values: list[int]) -> Term:
    def value(a: dict[str, Any], b: dict[str, Any]) -> bool | None:
        v = x.value(a, b)
        return None if v is None else v in values

    text = ", ".join(map(str, values))
    return Term(f"{x.sql} IN ({text})", f"{x.duck} IN ({text})", value, "bool")


def like(x: Term, pattern: str) -> Term:
    form = re.compile("".join(".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern), re.DOTALL)
    return Term(
        f"{x.sql} LIKE '{pattern}'", f"{x.duck} LIKE '{pattern}'", _strict(lambda v: form.fullmatch(v) is not None, x),
        "bool",
    )


def remainder(x: Term, m: int) -> Term:
    """``%`` with the dividend's sign."""
    return Term(
        f"({x.sql} % {m})",
        f"({x.duck} % {m})",
        _strict(lambda v: v - m * (abs(v) // m) * (1 if v >= 0 else -1), x),
        "int",
    )


def about_one(x: Term) -> Term:
    return between(x, lit("0.5D", 0.5, "f64", "0.5::DOUBLE"), lit("1.5D", 1.5, "f64", "1.5::DOUBLE"))


def open_ends(band: Term, a: Term, high: Term) -> list[Term]:
    """A band that some rows pass whatever its value is: those whose end is NULL, or a few others."""
    x, y, true = col("l", "x", KINDS["int32"]), col("r", "x", KINDS["int32"]), lit("TRUE", True, "bool")
    some = (is_null(high), is_null(a), compare(y, ">", number(1)), is_null(x))
    return [
        *(any_of(passes, band) for passes in some),
        *(choose(passes, true, band) for passes in some),
        *(choose(negation(passes), band, true) for passes in some),
        any_of(band, is_null(high), compare(x, ">", number(2))),
        first_value(band, true),
        compare(a, "<=", choose(is_null(high), a, high)),
        compare(a, "<=", first_value(high, a)),
    ]
