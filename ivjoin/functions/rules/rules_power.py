"""Rules of powers: an interval to a whole exponent, and the general power of two intervals."""

from __future__ import annotations

import math
from math import inf

from ivjoin.functions.rules.rule import Pair, Place, Rule, strict_binary, strict_unary, with_nan
from ivjoin.functions.rules.rules_float import ENTIRE
from ivjoin.functions.rules.rules_function import even, lower, upper
from ivjoin.interval.machine.bisection import float_preimage

__all__ = ["pow_"]


def _power(x: float, n: float) -> float:
    try:
        return math.pow(x, n)
    except OverflowError:
        return -inf if x < 0 and n % 2 == 1 else inf
    except ValueError:
        return inf


def pow_(p: Place) -> Rule:
    exponent = p.node.args[1]
    if exponent.op == "literal" and exponent.params[0] is not None:
        n = exponent.params[0]
        if n == n and abs(n) <= 64 and n == int(n) and n > 0:
            return _whole_power(Place(p.node, p.i, p.at[:1]), int(n))
    # NaN to the power of 0 is 1.
    return with_nan(strict_binary(p, _general, _base_from, None, ENTIRE, _general_nan), p.i, p.at[:1], 1.0)


def _whole_power(p: Place, n: int) -> Rule:
    def low(x: float) -> float:
        y = lower(_power(x, n))
        return max(y, 0.0) if x >= 0 else y

    def high(x: float) -> float:
        y = upper(_power(x, n))
        return min(y, 0.0) if x <= 0 and n % 2 else y

    if n % 2:
        def root(c: float) -> float:
            return math.copysign(abs(c) ** (1 / n), c)

        return strict_unary(
            p, lambda x: (low(x[0]), high(x[1])), lambda z, x: float_preimage(low, high, z, x, root), ENTIRE
        )
    return even(low, high, lambda c: c ** (1 / n))(p)


def _general(x: Pair, y: Pair) -> Pair:
    if x[0] <= 0:
        return ENTIRE
    # A power of a positive base is monotonic in each argument, so the extremes are at the corners.
    corners = [_power(a, b) for a in x for b in y]
    lo, hi = min(corners), max(corners)
    if x[0] <= 1 <= x[1] or y[0] <= 0 <= y[1]:
        lo, hi = min(lo, 1.0), max(hi, 1.0)
    return max(0.0, lower(lo)), upper(hi)


def _general_nan(x: Pair, y: Pair) -> bool:
    """Return whether a power of numbers may be NaN: for a negative base, or for 1 or -1 with an infinite exponent."""
    return bool(x[0] < 0 or (x[0] <= 1 <= x[1] and (y[0] == -inf or y[1] == inf)))


def _base_from(z: Pair, y: Pair, x: Pair) -> Pair:
    """Narrow a base that is not negative if the exponent is a positive constant."""
    if x[0] < 0 or y[0] != y[1] or not 0 < y[0] < inf:
        return x
    n = y[0]
    return float_preimage(
        lambda v: lower(_power(v, n)), lambda v: upper(_power(v, n)), z, x, lambda c: float(c ** (1 / n))
    )
