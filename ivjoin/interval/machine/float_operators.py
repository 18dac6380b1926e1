"""The operators of machine-float intervals, rounded to nearest in their format; infinities are members.

``floats`` computes the bounds. This module adds preimages of remainders, and casts to integers by floor and ceil. It
also moves backward bounds inward past the numbers that the rounded operation refutes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, floor, inf

from ivjoin.interval.errors import IntervalError
from ivjoin.interval.machine import float_remainders as r
from ivjoin.interval.machine import floats as m
from ivjoin.interval.machine.domains import nearest
from ivjoin.interval.machine.floats import Format
from ivjoin.interval.machine.operation import Binary, Unary, sign_rev, within
from ivjoin.interval.machine.pairs import EMPTY, Pair, hull, is_empty, meet, neg, shaved
from ivjoin.interval.machine.types import Type

__all__ = ["above", "below", "cut", "outer", "tightened", "unary"]

_PAST = 1 << 1100
_WALK = 8


def above(f: Format, n: int) -> float:
    """Return the least number of a format above an int."""
    x = nearest(n, f, True)
    return f.up(x) if x == n else x


def below(f: Format, n: int) -> float:
    """Return the greatest number of a format below an int."""
    return -above(f, -n)


def _meets(a: Pair, z: Pair) -> bool:
    return bool(a[0] <= a[1] and a[0] <= z[1] and z[0] <= a[1])


def tightened(made: Binary) -> Binary:
    """Return an operator whose backward bounds are tightened with the forward operation."""
    f, forward = made.domain.format, made.forward

    def back1(z: Pair, b: Pair, x: Pair) -> Pair:
        return _over(f, b, lambda part: made.back1(z, part, x), lambda v, part: _meets(forward((v, v), part), z), x)

    def back2(z: Pair, a: Pair, x: Pair) -> Pair:
        return _over(f, a, lambda part: made.back2(z, part, x), lambda v, part: _meets(forward(part, (v, v)), z), x)

    return made._replace(back1=back1, back2=back2)


def _over(
    f: Format, other: Pair, back: Callable[[Pair], Pair], reached: Callable[[float, Pair], bool], x: Pair
) -> Pair:
    out = EMPTY
    for part in _parts(f, other):

        def test(v: float, part: Pair = part) -> bool:
            return reached(v, part)

        out = hull(out, shaved(meet(back(part), x), test, _WALK, f.up, f.down))
    return out


def _parts(f: Format, b: Pair) -> list[Pair]:
    """Return an interval as its finite part and its infinities."""
    if b[0] != -inf and b[1] != inf:
        return [b]
    parts = [(-inf, -inf), meet(b, (-f.max, f.max)), (inf, inf)]
    return [p for p in parts if not is_empty(p) and b[0] <= p[0] and p[1] <= b[1]]


def _difference(f: Format, a: Pair, b: Pair) -> Pair:
    # a - b is a + (-b), rounding included.
    return m.add(f, a, neg(b))


def _minuends(f: Format, z: Pair, b: Pair, x: Pair) -> Pair:
    return m.add_rev(f, z, neg(b), x)


def _subtrahends(f: Format, z: Pair, a: Pair, x: Pair) -> Pair:
    return neg(m.add_rev(f, z, a, neg(x)))


# By name: the bounds and the inverses, which take the format first, and whether numbers can give NaN.
_BINARY: dict[str, tuple[Callable[..., Pair], Callable[..., Pair], Callable[..., Pair], Callable[..., bool]]] = {
    "add": (m.add, m.add_rev, m.add_rev, m.add_nan),
    "sub": (_difference, _minuends, _subtrahends, lambda a, b: m.add_nan(a, neg(b))),
    "mul": (m.mul, m.mul_rev, m.mul_rev, m.mul_nan),
    "div": (m.div, m.div_rev_dividend, m.div_rev_divisor, m.div_nan),
    "rem": (r.remainders, r.dividends, r.divisors, r.remainder_nan),
    "pmod": (r.positive_remainders, r.positive_dividends, lambda f, z, a, x: x, r.positive_remainder_nan),
}


def outer(name: str, d: Type) -> Binary:
    """Return the operator ``name`` (add, sub, mul, div, rem, pmod) of a float domain, with outer bounds backward."""
    if name not in _BINARY:
        raise IntervalError(f"{name} is not defined for {d}")
    f, (forward, back1, back2, nan) = d.format, _BINARY[name]
    makes_nan = partial(nan, f) if name == "pmod" else nan
    return Binary(d, partial(forward, f), partial(back1, f), partial(back2, f), makes_nan)


def _sign_of(x: float) -> float:
    return (x > 0) - (x < 0) + 0.0


def cut(step: Callable[[float], int], x: float) -> int:
    """Return floor, ceil or int of a number; for an infinity, a number beyond every limit."""
    return step(x) if x - x == 0 else _PAST if x > 0 else -_PAST


_INT64 = Type("int", 64)


def _stepped(step: Callable[[float], int], back: Callable[[Pair, Pair], Pair]) -> Unary:
    """Return floor or ceil; infinities and numbers beyond the limits are errors."""
    return Unary(_INT64, within(lambda x: (cut(step, x[0]), cut(step, x[1])), back, _INT64.limits), back, "zero")


def unary(name: str, d: Type) -> Unary:
    """Return the operator ``name`` (neg, abs, sqr, sign, floor, ceil) of a float domain; floor, ceil give int64."""
    f = d.format
    if name == "neg":
        return Unary(d, neg, lambda z, x: meet(neg(z), x))
    if name == "abs":
        return Unary(d, m.abs_, m.abs_rev)
    if name == "sqr":
        return Unary(d, lambda x: m.sqr(f, x), lambda z, x: m.sqr_rev(f, z, x))
    if name == "sign":
        return Unary(d, lambda x: (_sign_of(x[0]), _sign_of(x[1])), lambda z, x: sign_rev(z, x, f.tiny))
    # Under Spark, floor and ceil of NaN are 0.
    if name == "floor":
        return _stepped(floor, lambda z, x: meet((nearest(z[0], f, True), below(f, z[1] + 1)), x))
    if name == "ceil":
        return _stepped(ceil, lambda z, x: meet((above(f, z[0] - 1), nearest(z[1], f, False)), x))
    raise IntervalError(f"{name} is not defined for {d}; for a function of real numbers use Interval")
