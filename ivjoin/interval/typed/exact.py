"""Arithmetic of typed intervals and its reverses: the operators of ``operators.py`` with NULL and NaN.

A NULL argument gives NULL, and a NaN gives NaN. ``min`` and ``max`` skip NULL and treat NaN as the greatest number,
like Spark. An error (overflow, division by zero) has no value. A reverse function returns the part of its last argument
that can give a result in ``c``. It contains NULL only if ``c`` does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import index
from typing import Any

from ivjoin.interval.errors import IntervalError
from ivjoin.interval.machine.casts import conversion
from ivjoin.interval.machine.domains import domain
from ivjoin.interval.machine.operation import Unary, argument, argument_of_two, result
from ivjoin.interval.machine.pairs import EMPTY, hull, is_empty, meet
from ivjoin.interval.machine.types import Type
from ivjoin.interval.typed.comparison import extreme
from ivjoin.interval.typed.intervals import (
    DomainInterval,
    beside,
    entire,
    given,
    like,
    of_one,
    of_two,
    of_values,
    operand,
)
from ivjoin.interval.typed.operators import binary, extremum_rev, unary

__all__ = [
    "abs", "abs_rev", "add", "add_rev", "apply", "apply_rev", "cast", "cast_rev", "ceil", "ceil_rev", "div",
    "div_rev1", "div_rev2", "floor", "floor_rev", "max", "max_rev", "min", "min_rev", "mul", "mul_rev", "neg",
    "neg_rev", "pmod", "pmod_rev1", "pmod_rev2", "pown", "pown_rev", "rem", "rem_rev1", "rem_rev2", "sign",
    "sign_rev", "sqr", "sqr_rev", "sub", "sub_rev1", "sub_rev2",
]  # fmt: skip

# One argument


def apply(op: Unary, x: DomainInterval) -> DomainInterval:
    """Return the results of an operator."""
    return of_values(op.domain, result(op, x.values))


def apply_rev(op: Unary, c: DomainInterval, x: DomainInterval) -> DomainInterval:
    """Return the members of ``x`` with a result in ``c``."""
    _same("the interval of results", c.domain, op.domain)
    return of_values(x.domain, argument(op, c.values, x.values))


def _same(what: str, got: Type, expected: Type) -> None:
    if got != expected:
        raise IntervalError(f"{what} has the domain {got}, expected {expected}; cast it to that domain")


def _unary_rev(name: str) -> Callable[..., DomainInterval]:
    def backward(c: Any, x: Any = None) -> DomainInterval:
        x = operand(given(x, c))
        op = unary(name, x.domain)
        return apply_rev(op, like(c, op.domain), x)

    return backward


neg, neg_rev = partial(of_one, "neg"), _unary_rev("neg")
abs, abs_rev = partial(of_one, "abs"), _unary_rev("abs")
sqr, sqr_rev = partial(of_one, "sqr"), _unary_rev("sqr")
sign, sign_rev = partial(of_one, "sign"), _unary_rev("sign")
floor, floor_rev = partial(of_one, "floor"), _unary_rev("floor")
ceil, ceil_rev = partial(of_one, "ceil"), _unary_rev("ceil")


def pown(x: Any, n: int) -> DomainInterval:
    """Return the powers by an int that is not negative."""
    return of_one("pown", x, index(n))


def pown_rev(c: Any, n: int, x: Any = None) -> DomainInterval:
    x = operand(given(x, c))
    op = unary("pown", x.domain, index(n))
    return apply_rev(op, like(c, op.domain), x)


def cast(x: Any, target: str | Type) -> DomainInterval:
    """Return the values of an interval cast to another domain."""
    x = operand(x)
    return apply(conversion(x.domain, domain(target)), x)


def cast_rev(c: DomainInterval, x: DomainInterval | str | Type) -> DomainInterval:
    """Return the members of ``x``, an interval or all of a domain, that a cast to the domain of ``c`` takes into it."""
    mine = x if isinstance(x, DomainInterval) else entire(x, null=True)
    return apply_rev(conversion(mine.domain, c.domain), c, mine)


# Two arguments


def _reverse(name: str, place: int) -> Callable[..., DomainInterval]:
    def backward(b: Any, c: Any, x: Any = None) -> DomainInterval:
        x = operand(given(x, b, c), b, c)
        b = beside(name, b, x)
        op = binary(name, *((x.domain, b.domain) if place == 1 else (b.domain, x.domain)))
        c = like(c, op.domain)
        _same("the interval of results", c.domain, op.domain)
        return of_values(x.domain, argument_of_two(op, place == 1, c.values, b.values, x.values))

    return backward


add, add_rev = partial(of_two, "add"), _reverse("add", 1)
sub, sub_rev1, sub_rev2 = partial(of_two, "sub"), _reverse("sub", 1), _reverse("sub", 2)
mul, mul_rev = partial(of_two, "mul"), _reverse("mul", 1)
div, div_rev1, div_rev2 = partial(of_two, "div"), _reverse("div", 1), _reverse("div", 2)
rem, rem_rev1, rem_rev2 = partial(of_two, "rem"), _reverse("rem", 1), _reverse("rem", 2)
pmod, pmod_rev1, pmod_rev2 = partial(of_two, "pmod"), _reverse("pmod", 1), _reverse("pmod", 2)


# The smaller and the greater: NULL is skipped, NaN is the greatest number


def _extremum(greater: bool) -> Callable[[Any, Any], DomainInterval]:
    def forward(x: Any, y: Any) -> DomainInterval:
        x, y = operand(x, y), operand(y, x)
        _same("the second interval", y.domain, x.domain)
        return of_values(x.domain, extreme(greater, x.values, y.values))

    return forward


def _extremum_rev(greater: bool) -> Callable[..., DomainInterval]:
    back = extremum_rev(greater)

    def backward(b: Any, c: Any, x: Any = None) -> DomainInterval:
        x = operand(given(x, b, c), b, c)
        b, c = operand(b, x), operand(c, x)
        _same("the interval of results", c.domain, x.domain)
        _same("the other interval", b.domain, x.domain)
        c_value = lambda a: not is_empty(meet(a.pair, c.pair))  # noqa: E731
        out = EMPTY if b.is_void or c.is_void or x.is_void else back(c.pair, b.pair, x.pair)
        if b.null or (b.nan and not greater):  # the result is x itself
            out = hull(out, meet(x.pair, c.pair))
        if b.nan and greater and c.nan:
            out = hull(out, x.pair)
        b_comes = not b.is_void and c_value(b)
        if greater:
            nan = c.nan and (not b.is_void or b.nan or b.null)
        else:
            nan = b_comes or (c.nan and (b.nan or b.null))
        null = (c.null and b.null) or b_comes or (c.nan and b.nan)
        return DomainInterval(x.domain, *out, x.nan and nan, x.null and null)

    return backward


min, min_rev = _extremum(False), _extremum_rev(False)
max, max_rev = _extremum(True), _extremum_rev(True)

