"""The operators of typed intervals by name and domain: ints, decimals, dates and times; ``float_operators`` has floats.

A result has the domain that Spark gives it under ANSI. Ints and floats keep their domain, decimals get at most 38
digits, a date plus days is a date, and the difference of two timestamps is a duration.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ivjoin.interval.errors import IntervalError
from ivjoin.interval.machine import calendar, decimals, float_operators
from ivjoin.interval.machine import integers as m
from ivjoin.interval.machine.domains import bounded_decimal, decimal_result
from ivjoin.interval.machine.operation import Binary, Unary, refined, sign_rev, within
from ivjoin.interval.machine.pairs import EMPTY, Pair, is_empty, meet, neg
from ivjoin.interval.machine.types import DAY, Type

__all__ = ["binary", "extremum_rev", "outer", "unary"]

DATE, DAYS, MONTHS = Type("date"), Type("int", 32), Type("months")


def _unknown(name: str, *domains: Type) -> IntervalError:
    kinds = {d.kind for d in domains}
    hint = "; cast one to the other's domain first" if len(kinds) == 1 and len(set(domains)) > 1 else ""
    return IntervalError(f"{name} is not defined for {' and '.join(map(str, domains))}{hint}")


@cache
def binary(name: str, x: Type, y: Type) -> Binary:
    """Return the operator ``name`` of two domains, tightened by trying a few values; see `outer`."""
    op = outer(name, x, y)
    if x.kind == "float":
        return float_operators.tightened(op)
    if name in ("add", "sub") and x.kind != "decimal":
        return op
    made = refined(op, wide=name in ("rem", "pmod"))
    return _by_narrower(made) if op.forward is m.mul else made


def _by_narrower(product: Binary) -> Binary:
    """Return a product that tries the values of the narrower argument."""

    def up(a: Pair, b: Pair) -> Pair:
        return product.forward(a, b) if b[1] - b[0] <= a[1] - a[0] else product.forward(b, a)

    return product._replace(forward=up)


@cache
def outer(name: str, x: Type, y: Type) -> Binary:
    """Return the operator ``name`` (add, sub, mul, div, rem, pmod) of two domains, or raise IntervalError.

    Its bounds enclose the results, and are the hull for sums and where the arguments are single values.
    """
    made: Binary | None
    if x.kind == y.kind == "decimal":
        made = _decimal(name, x, y)
    elif x == y and x.kind == "float":
        made = float_operators.outer(name, x)
    elif x == y and x.kind == "int":
        made = _integer(name, x)
    else:
        made = _temporal(name, x, y)
    if made is None:
        raise _unknown(name, x, y)
    return made._replace(divides=name in ("div", "rem", "pmod"))


# Ints


def _linear(result: Type, sign: int) -> Binary:
    limits = result.limits
    if sign > 0:
        return Binary(
            result, lambda a, b: meet((a[0] + b[0], a[1] + b[1]), limits),
            lambda z, b, x: meet((z[0] - b[1], z[1] - b[0]), x),
            lambda z, a, x: meet((z[0] - a[1], z[1] - a[0]), x),
        )  # fmt: skip
    return Binary(
        result, lambda a, b: meet((a[0] - b[1], a[1] - b[0]), limits),
        lambda z, b, x: meet((z[0] + b[0], z[1] + b[1]), x), lambda z, a, x: meet((a[0] - z[1], a[1] - z[0]), x),
    )  # fmt: skip


def _product(result: Type) -> Binary:
    return Binary(result, *_WHOLE["mul"])


# By name: the results of whole numbers, and the members of either argument that can give them.
_WHOLE = {
    "mul": (m.mul, m.mul_rev, m.mul_rev), "div": (m.div, m.div_rev_dividend, m.div_rev_divisor),
    "rem": (m.mod, m.mod_rev_dividend, m.mod_rev_divisor), "pmod": (m.pmod, m.pmod_rev_dividend, m.pmod_rev_divisor),
}  # fmt: skip


def _integer(name: str, d: Type) -> Binary | None:
    if name in ("add", "sub"):
        return _linear(d, 1 if name == "add" else -1)
    return Binary(d, *_WHOLE[name]) if name in _WHOLE else None


# Decimals


def _scaled_up(a: Pair, k: int) -> Pair:
    return a[0] * k, a[1] * k


def _scaled_down(a: Pair, k: int) -> Pair:
    """Return the ints whose k-fold is in a pair."""
    return -(-a[0] // k), a[1] // k


def _decimal(name: str, s: Type, u: Type) -> Binary | None:
    result, scale = decimal_result(name, s, u), max(s.scale, u.scale)
    j, k = 10 ** (scale - s.scale), 10 ** (scale - u.scale)
    if name in ("add", "sub"):
        if s.scale == u.scale == result.scale:
            return _linear(result, 1 if name == "add" else -1)
        return _decimal_sum(result, 1 if name == "add" else -1, j, k, 10 ** (scale - result.scale))
    if name == "mul":
        unit = 10 ** (s.scale + u.scale - result.scale)
        if unit == 1 and s.precision + u.precision <= 38:
            return _product(result)

        def back(z: Pair, b: Pair, x: Pair) -> Pair:
            return decimals.product_rev(z, b, x, unit)

        return Binary(result, lambda a, b: decimals.product(a, b, unit), back, back)
    if name == "div":
        at = (result.scale, u.scale - s.scale)
        return Binary(
            result, lambda a, b: decimals.quotient(a, b, *at), lambda z, b, x: decimals.quotient_rev1(z, b, x, *at),
            lambda z, a, x: decimals.quotient_rev2(z, a, x, *at),
        )  # fmt: skip
    if name in ("rem", "pmod"):
        if result.scale != scale:
            raise IntervalError(f"{name} of {s} and {u} needs more than 38 digits; cast both to a smaller domain first")
        f, back1, back2 = _WHOLE[name]
        return Binary(
            result, lambda a, b: f(_scaled_up(a, j), _scaled_up(b, k)),
            lambda z, b, x: _scaled_down(back1(z, _scaled_up(b, k), _scaled_up(x, j)), j),
            lambda z, a, x: _scaled_down(back2(z, _scaled_up(a, j), _scaled_up(x, k)), k),
        )  # fmt: skip
    return None


def _decimal_sum(result: Type, sign: int, j: int, k: int, unit: int) -> Binary:
    def turned(b: Pair, by: int) -> Pair:
        return (b[0] * by, b[1] * by) if sign > 0 else (-b[1] * by, -b[0] * by)

    def up(a: Pair, b: Pair) -> Pair:
        lo, hi = turned(b, k)
        return decimals.rounded((a[0] * j + lo, a[1] * j + hi), unit)

    def back1(z: Pair, b: Pair, x: Pair) -> Pair:
        (lo, hi), (below, above) = decimals.unrounded(z, unit), turned(b, k)
        return meet(_scaled_down((lo - above, hi - below), j), x)

    def back2(z: Pair, a: Pair, x: Pair) -> Pair:
        lo, hi = decimals.unrounded(z, unit)
        rest = (lo - a[1] * j, hi - a[0] * j)
        return meet(_scaled_down(rest if sign > 0 else (-rest[1], -rest[0]), k), x)

    return Binary(result, up, back1, back2)


# Dates and times


def _temporal(name: str, x: Type, y: Type) -> Binary | None:
    kinds = x.kind, y.kind
    if name in ("add", "sub"):
        sign = 1 if name == "add" else -1
        if kinds == ("date", "int"):
            return _linear(x, sign)
        if kinds in (("months", "months"), ("duration", "duration")) and x == y:
            return _linear(x, sign)
        if kinds == ("timestamp", "duration") and x.unit == y.unit:
            return _linear(x, sign)
        if y.kind == "months" and x.kind in ("date", "timestamp"):
            return _months(x, sign)
        if name == "sub" and kinds == ("date", "date"):
            return _linear(DAYS, -1)
        if name == "sub" and kinds == ("timestamp", "timestamp") and x.unit == y.unit:
            return _linear(Type("duration", unit=x.unit), -1)
        if name == "add" and x.kind in ("int", "months", "duration") and y.kind in ("date", "timestamp"):
            made = _temporal(name, y, x)
            return made and Binary(made.domain, lambda a, b: made.forward(b, a), made.back2, made.back1)
    if name == "mul" and {x.kind, y.kind} in ({"duration", "int"}, {"months", "int"}):
        return _product(y if x.kind == "int" else x)
    return None


def _months(d: Type, sign: int) -> Binary:
    day, limits = (DAY * d.ticks if d.unit else 1), d.limits

    def turned(b: Pair) -> Pair:
        return b if sign > 0 else (-b[1], -b[0])

    return Binary(
        d, lambda a, b: meet(calendar.shifted(a, turned(b), day), limits),
        lambda z, b, x: calendar.shifted_rev1(z, turned(b), x, day),
        lambda z, a, x: turned(calendar.shifted_rev2(z, a, turned(x), day)),
    )  # fmt: skip


# One argument


def _power(k: int) -> tuple[Callable[[Pair], Pair], Callable[[Pair, Pair], Pair]]:
    def up(x: Pair) -> Pair:
        if k % 2 == 0:
            x = m.abs_(x)
        return x[0] ** k, x[1] ** k

    def back(z: Pair, x: Pair) -> Pair:
        least, most = -m.root_down(-z[0], k), m.root_down(z[1], k)
        if k % 2:
            return meet((least, most), x)
        return m.abs_rev((max(least, 0), most), x) if most >= 0 else EMPTY

    return up, back


def _signs(x: Pair) -> Pair:
    return (x[0] > 0) - (x[0] < 0), (x[1] > 0) - (x[1] < 0)


_NUMBERS = ("int", "decimal", "duration", "months")


@cache
def unary(name: str, d: Type, n: int = 0) -> Unary:
    """Return an operator of a domain (neg, abs, sqr, sign, floor, ceil, pown with ``n``), or raise IntervalError."""
    if d.kind == "float":
        return float_operators.unary(name, d)
    limits = d.limits
    if name == "neg" and d.kind in _NUMBERS:
        return Unary(d, lambda x: meet(neg(x), limits), lambda z, x: meet(neg(z), x))
    if name == "abs" and d.kind in _NUMBERS:
        return Unary(d, within(m.abs_, m.abs_rev, limits), m.abs_rev)
    if name == "sign" and d.kind == "int":
        return Unary(d, _signs, sign_rev)
    if name in ("floor", "ceil") and d.kind == "int":
        return Unary(d, lambda x: x, meet)
    if name in ("floor", "ceil") and d.kind == "decimal":
        return _integral(d, name == "ceil")
    if name in ("sqr", "pown") and d.kind in ("int", "decimal"):
        return _raised(d, 2 if name == "sqr" else n)
    raise _unknown(name, d)


def _integral(d: Type, up: bool) -> Unary:
    unit = 10**d.scale
    result = Type("decimal", precision=min(38, d.precision - d.scale + 1), scale=0)
    if up:
        return Unary(
            result, lambda x: (-(-x[0] // unit), -(-x[1] // unit)),
            lambda z, x: meet(((z[0] - 1) * unit + 1, z[1] * unit), x),
        )  # fmt: skip
    return Unary(
        result, lambda x: (x[0] // unit, x[1] // unit), lambda z, x: meet((z[0] * unit, (z[1] + 1) * unit - 1), x)
    )


def _raised(d: Type, n: int) -> Unary:
    if n < 0:
        raise IntervalError(f"the exponent is {n}; expected 0 or more for a {d}. Cast to float64 first")
    result = d
    if d.kind == "decimal" and n > 1:
        result = bounded_decimal(n * d.precision + 1, n * d.scale)
        if result.scale != n * d.scale:
            raise IntervalError(f"the power {n} of a {d} needs more than 38 digits; cast it to a smaller domain first")
    if n == 0:
        one = 10**result.scale
        return Unary(result, lambda x: (one, one), lambda z, x: x if z[0] <= one <= z[1] else EMPTY)
    up, back = _power(n)
    return Unary(result, within(up, back, result.limits), back)


# The smaller and the greater of two


def extremum_rev(greater: bool) -> Callable[[Pair, Pair, Pair], Pair]:
    """Return the backward pair function of min or max in any ordered domain; it serves both arguments."""

    def back(z: Pair, b: Pair, x: Pair) -> Pair:
        # x can be beyond z only if the result is the other argument.
        beyond = not is_empty(meet(z, b))
        if greater:
            return meet((x[0] if beyond else z[0], z[1]), x) if b[0] <= z[1] else EMPTY
        return meet((z[0], x[1] if beyond else z[1]), x) if b[1] >= z[0] else EMPTY

    return back
