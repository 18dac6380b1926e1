"""Decimal arithmetic, which is exact on unscaled integers, and rounds HALF_UP to the scale of the result as in Spark.

Unscaled integers of any precision are int64 if they fit, and Python ints otherwise. A result with too many digits for
its type is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ivjoin.expr.kernels.cells import Consts, Kernel, Mask, Rule, checked, count, of_values, unsupported
from ivjoin.expr.kernels.integers import add_wrapped, dividing, mul_wrapped, narrowed, whole_quotient
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import INT64, Type
from ivjoin.interval.machine.decimals import divided, half_even, half_up, shortened
from ivjoin.interval.machine.integers import truncated

__all__ = [
    "as_objects", "div", "division", "fitted", "magnitude", "minus", "mul", "plus", "positive",
    "rescaled", "round_quotient", "scaled_up", "sum_", "whole",
]  # fmt: skip

_I64_MAX = (1 << 63) - 1


def as_objects(v: np.ndarray) -> np.ndarray:
    """Return the integers as Python ints."""
    return v if v.dtype == object else v.astype(object)


def fitted(v: np.ndarray, t: Type) -> tuple[np.ndarray, Mask]:
    """Return unscaled integers, and a mask of the rows with too many digits for a decimal type (None: no row)."""
    if v.dtype != object and t.precision > 18:
        return v, None
    top = 10**t.precision
    return v, (v >= top) | (v <= -top)


def scaled_up(v: np.ndarray, digits: int) -> np.ndarray:
    """Return ``v * 10**digits``, as Python ints if needed."""
    if digits == 0:
        return v
    if v.dtype != object and digits <= 18:
        r, bad = mul_wrapped(v, np.array([10**digits], dtype=np.int64))
        if bad is None or not count(bad):
            return r
    return as_objects(v) * 10**digits


_UP = np.frompyfunc(half_up, 2, 1)
_EVEN = np.frompyfunc(half_even, 2, 1)


def round_quotient(v: np.ndarray, d: np.ndarray | int, even: bool = False) -> np.ndarray:
    """Return v / d rounded to integers, half up, or half even (only for d > 0). d is never 0."""
    if v.dtype == object or (d > _I64_MAX if isinstance(d, int) else d.dtype == object or _may_wrap(v, d)):
        return (_EVEN if even else _UP)(as_objects(v), d)
    y = np.asarray(d, dtype=np.int64) if isinstance(d, int) else d
    q = whole_quotient(v, y)
    rest = np.abs(v - q * y)
    # Compare with the rest of the divisor instead of doubling, which could overflow.
    short = np.abs(y) - rest
    away = rest > short
    tie = rest == short
    away = away | (tie & ((q & 1) == 1) if even else tie)
    return q + np.where(away, np.where((v < 0) == (y < 0), 1, -1), 0)


def _may_wrap(v: np.ndarray, d: np.ndarray) -> bool:
    """Return whether a division may wrap around.

    The least int64 has no absolute value as a divisor, and its quotient by -1 does not fit.
    """
    least = -_I64_MAX - 1
    return bool(count(d == least) or (count(v == least) and count(d == -1)))


def rescaled(v: np.ndarray, have: int, want: int) -> np.ndarray:
    """Convert unscaled integers to another scale, rounded HALF_UP."""
    if want >= have:
        return scaled_up(v, want - have)
    return round_quotient(v, 10 ** (have - want))


def _aligned(x: np.ndarray, s: int, y: np.ndarray, t: int) -> tuple[np.ndarray, np.ndarray, int]:
    scale = max(s, t)
    return scaled_up(x, scale - s), scaled_up(y, scale - t), scale


Integers = Callable[[np.ndarray, np.ndarray], np.ndarray]


def plus(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype != object and y.dtype != object:
        r, bad = add_wrapped(x, y)
        if not count(bad):
            return r
    return as_objects(x) + as_objects(y)


def minus(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # The negative of the least int64 wraps around. Only decimals with more than 18 digits can have this value.
    if y.dtype != object and not count(y == -_I64_MAX - 1):
        return plus(x, -y)
    return as_objects(x) - as_objects(y)


def _times(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype != object and y.dtype != object:
        r, bad = mul_wrapped(*np.broadcast_arrays(x, y))
        if bad is None or not count(bad):
            return r
    return as_objects(x) * as_objects(y)


def sum_(f: Integers) -> Rule:
    def rule(node: Node, _: Consts) -> Kernel:
        _need(node)
        (s, u), t = (a.type for a in node.args), node.type

        def total(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Mask]:
            x, y, scale = _aligned(x, s.scale, y, u.scale)
            return fitted(rescaled(f(x, y), scale, t.scale), t)

        return checked(total)

    return rule


def _need(node: Node) -> None:
    if any(a.type.kind != "decimal" for a in node.args) or node.type.kind != "decimal":
        raise unsupported(node, "the arguments of decimal arithmetic are decimals")


# Spark first multiplies and divides with 38 digits, and then rounds to the scale of the result.
_SHORTEN = np.frompyfunc(shortened, 1, 1)


def mul(node: Node, _: Consts) -> Kernel:
    _need(node)
    (s, u), t = (a.type for a in node.args), node.type

    def product(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Mask]:
        r = _times(x, y)
        return fitted(rescaled(_SHORTEN(r) if r.dtype == object else r, s.scale + u.scale, t.scale), t)

    return checked(product)


def div(node: Node, _: Consts) -> Kernel:
    _need(node)
    (s, u), t = (a.type for a in node.args), node.type
    lift = t.scale - s.scale + u.scale
    # Spark rounds the quotient to 38 fraction digits and then to the scale of the result. Rounding twice differs from
    # rounding once only within 10**-38 of a tie. A quotient so close to a tie needs a divisor of 19 digits.
    both = np.frompyfunc(lambda n, d: divided(n, d, t.scale, u.scale - s.scale), 2, 1)

    def quotient(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Mask]:
        if y.dtype == object or t.scale > 18 or lift < 0:
            return fitted(both(as_objects(x), as_objects(y)), t)
        dividend, divisor = np.broadcast_arrays(scaled_up(x, lift), y)
        return fitted(round_quotient(dividend, divisor), t)

    return dividing(quotient)


_TRUNCATED = np.frompyfunc(truncated, 2, 1)
_REMAINDER = np.frompyfunc(lambda n, d: n - d * truncated(n, d), 2, 1)


def _quotient_and_rest(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if x.dtype == object or y.dtype == object or count((y == -1) & (x == -_I64_MAX - 1)):
        x, y = as_objects(x), as_objects(y)
        return _TRUNCATED(x, y), _REMAINDER(x, y)
    return whole_quotient(x, y), np.fmod(x, y)


def division(pick: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray], whole: bool) -> Rule:
    def rule(node: Node, _: Consts) -> Kernel:
        (s, u), t = (a.type for a in node.args), node.type
        if s.kind != "decimal" or u.kind != "decimal" or t.kind != ("int" if whole else "decimal"):
            raise unsupported(node, "the arguments of decimal division are decimals")

        def divided(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Mask]:
            x, y, scale = _aligned(x, s.scale, y, u.scale)
            r = pick(*_quotient_and_rest(*np.broadcast_arrays(x, y)), y)
            return narrowed(r, INT64) if whole else fitted(rescaled(r, scale, t.scale), t)

        return dividing(divided)

    return rule


def positive(_: np.ndarray, rest: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where((rest < 0) & (y > 0), rest + y, rest)


def magnitude(f: Callable[[Any], Any]) -> Rule:
    def rule(node: Node, _: Consts) -> Kernel:
        t = node.type
        if node.args[0].type != t:
            raise unsupported(node)

        return of_values(lambda v: f(as_objects(v) if v.dtype != object and count(v == -_I64_MAX - 1) else v))

    return rule


def whole(up: bool) -> Rule:
    def rule(node: Node, _: Consts) -> Kernel:
        unit, t = 10 ** node.args[0].type.scale, node.type
        if t.kind != "decimal" or t.scale != 0:
            raise unsupported(node)

        def rounded(v: np.ndarray) -> tuple[np.ndarray, Mask]:
            v = as_objects(v) if unit > _I64_MAX else v
            return fitted(v // unit + (v % unit > 0) if up else v // unit, t)

        return checked(rounded)

    return rule
