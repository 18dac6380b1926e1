"""Forward and backward rules of arithmetic, side by side, for the operation as the machine executes it.

Round-to-nearest is monotone, so the forward rule of a float operator is the operator itself at the corners. Backward,
a result in [c, d] came from a real number in [pred(c), succ(d)], which is inverted with outward rounding: inverting [c, d]
itself loses points (Michel 2002; Bagnara et al., Constraints 2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

from ivjoin.expr.nodes import Node
from ivjoin.interim.domain import Dom, nearest, next_above, next_below

__all__ = ["RULES"]

Forward = Callable[[Node, list[Dom]], Dom]
Backward = Callable[[Node, Dom, list[Dom]], list[Dom]]
_DAY_SLACK_SECONDS = 27 * 3600  # how far a calendar day may differ from 24 hours, with room
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def up(v: Fraction | float) -> float:
    """The least double not below a real."""
    if isinstance(v, float):
        return v
    try:
        f = float(v)
    except OverflowError:
        return math.inf if v > 0 else -1.7976931348623157e308
    return math.nextafter(f, math.inf) if Fraction(f) < v else f


def down(v: Fraction | float) -> float:
    """The greatest double not above a real."""
    return -up(-v)


def _real(v: float) -> Fraction | float:
    return Fraction(v) if math.isfinite(v) else v


def _plus(a: float, b: float) -> Fraction | float:
    if math.isfinite(a) and math.isfinite(b):
        return Fraction(a) + Fraction(b)
    return a + b  # inf - inf is nan; callers treat it as unknown


def _null(args: list[Dom]) -> bool:
    return any(a.may_null for a in args)


def _nothing(node: Node, args: list[Dom]) -> Dom | None:
    """The result when an argument has no number: NaN goes through, NULL stays."""
    if any(a.is_empty for a in args):
        return Dom.empty(node.type, _null(args), any(a.may_nan for a in args))
    return None


def _exact(node: Node, args: list[Dom]) -> bool:
    """Whether physical integers add like the values they stand for."""
    kinds = {node.type.kind, *(a.type.kind for a in args)}
    if not all(a.type.is_discrete for a in args) or not node.type.is_discrete:
        return False
    if "decimal" in kinds:
        return len({node.type.scale, *(a.type.scale for a in args)}) == 1
    units = {node.type.unit, *(a.type.unit for a in args)} - {""}
    return len(units) <= 1


def _calendar(node: Node) -> int:
    """Ticks by which an addition in a zone with daylight saving may miss the plain sum."""
    if node.type.kind == "timestamp" and node.params and node.params[0] not in ("UTC", None, "Etc/UTC", "GMT"):
        return _DAY_SLACK_SECONDS * _TICKS[node.type.unit]
    return 0


# -- add, sub ----------------------------------------------------------------------------------------------------


def _has_inf(d: Dom, sign: int) -> bool:
    return d.hi == math.inf if sign > 0 else d.lo == -math.inf


def add_forward(node: Node, args: list[Dom]) -> Dom:
    found = _nothing(node, args)
    if found is not None:
        return found
    a, b = args
    if _exact(node, args):
        slack = _calendar(node)
        return Dom.of(node.type, a.lo + b.lo - slack, a.hi + b.hi + slack, _null(args))
    if node.type.kind != "float":
        return Dom.of(node.type, null=_null(args))
    clash = (_has_inf(a, 1) and _has_inf(b, -1)) or (_has_inf(a, -1) and _has_inf(b, 1))
    lo, hi = a.lo + b.lo, a.hi + b.hi
    lo = -math.inf if math.isnan(lo) else nearest(lo, node.type.bits)
    hi = math.inf if math.isnan(hi) else nearest(hi, node.type.bits)
    return Dom(node.type, lo, hi, _null(args), clash or a.may_nan or b.may_nan)


def _invert_sum(node: Node, out: Dom, a: Dom, b: Dom) -> Dom:
    """a from a + b = out."""
    if _exact(node, [a, b]):
        slack = _calendar(node)
        return a.within(out.lo - b.hi - slack, out.hi - b.lo + slack)
    if node.type.kind != "float" or out.may_nan:
        return a.known()
    bits = node.type.bits
    lo, hi = _plus(next_below(out.lo, bits), -b.hi), _plus(next_above(out.hi, bits), -b.lo)
    low = -math.inf if lo != lo else down(lo)
    high = math.inf if hi != hi else up(hi)
    if not math.isfinite(out.hi) or not math.isfinite(b.lo):
        high = math.inf
    if not math.isfinite(out.lo) or not math.isfinite(b.hi):
        low = -math.inf
    return a.within(low, high).number()


def add_backward(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    a, b = args
    if out.is_empty or a.is_empty or b.is_empty or out.lo is None:
        return [a.known(), b.known()]
    return [_invert_sum(node, out, a, b), _invert_sum(node, out, b, a)]


def _negated(d: Dom) -> Dom:
    if d.is_empty or d.lo is None:
        return d
    return Dom(d.type, -d.hi, -d.lo, d.may_null, d.may_nan)


def sub_forward(node: Node, args: list[Dom]) -> Dom:
    if node.type.kind != "float" and not _exact(node, args):
        return Dom.of(node.type, null=_null(args))
    return add_forward(node, [args[0], _negated(args[1])])


def sub_backward(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    if node.type.kind != "float" and not _exact(node, args):
        return [a.known() for a in args]
    a, b = add_backward(node, out, [args[0], _negated(args[1])])
    return [a, _negated(b)]


# -- mul ---------------------------------------------------------------------------------------------------------


def mul_forward(node: Node, args: list[Dom]) -> Dom:
    found = _nothing(node, args)
    if found is not None:
        return found
    a, b = args
    if node.type.is_discrete:
        if node.type.kind == "decimal" and node.type.scale != a.type.scale + b.type.scale:
            return Dom.of(node.type, null=_null(args))
        if not (a.type.is_discrete and b.type.is_discrete):
            return Dom.of(node.type, null=_null(args))
        if node.args[0] is node.args[1]:
            least = 0 if a.lo <= 0 <= a.hi else min(a.lo * a.lo, a.hi * a.hi)
            return Dom.of(node.type, least, max(a.lo * a.lo, a.hi * a.hi), _null(args))
        corners = [x * y for x, y in product((a.lo, a.hi), (b.lo, b.hi))]
        return Dom.of(node.type, min(corners), max(corners), _null(args))
    if node.type.kind != "float":
        return Dom.of(node.type, null=_null(args))
    infinite = _has_inf(a, 1) or _has_inf(a, -1), _has_inf(b, 1) or _has_inf(b, -1)
    zero = a.lo <= 0 <= a.hi, b.lo <= 0 <= b.hi
    nan = a.may_nan or b.may_nan or (infinite[0] and zero[1]) or (infinite[1] and zero[0])
    corners = [0.0 if x == 0 or y == 0 else x * y for x, y in product((a.lo, a.hi), (b.lo, b.hi))]
    lo, hi = nearest(min(corners), node.type.bits), nearest(max(corners), node.type.bits)
    if node.args[0] is node.args[1]:
        lo = max(lo, 0.0)
        if zero[0]:
            lo = 0.0
        nan = a.may_nan
    return Dom(node.type, lo, hi, _null(args), nan)


def _quotient(c: tuple[Any, Any], b: Dom) -> tuple[Fraction, Fraction] | None:
    """Real hull of c / b for b without zero; None if unbounded."""
    if b.lo <= 0 <= b.hi:
        return None
    ends = (*c, b.lo, b.hi)
    if any(isinstance(e, float) and not math.isfinite(e) for e in ends):
        return None
    corners = [Fraction(x) / Fraction(y) for x, y in product(c, (b.lo, b.hi))]
    return min(corners), max(corners)


def mul_backward(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    a, b = args
    if out.is_empty or a.is_empty or b.is_empty or out.lo is None or a.lo is None or b.lo is None:
        return [a.known(), b.known()]
    if node.type.kind == "decimal" and node.type.scale != a.type.scale + b.type.scale:
        return [a.known(), b.known()]
    if node.args[0] is node.args[1] and node.type.is_discrete and out.hi >= 0:
        root = math.isqrt(out.hi)
        return [a.within(-root, root), b.within(-root, root)]
    done = []
    for x, y in ((a, b), (b, a)):
        if node.type.is_discrete:
            q = _quotient((out.lo, out.hi), y)
            done.append(x.known() if q is None else x.within(math.ceil(q[0]), math.floor(q[1])))
        elif node.type.kind == "float" and not out.may_nan:
            q = _quotient((next_below(out.lo, node.type.bits), next_above(out.hi, node.type.bits)), y)
            done.append(x.known().number() if q is None else x.within(down(q[0]), up(q[1])).number())
        else:
            done.append(x.known())
    return done


# -- division ----------------------------------------------------------------------------------------------------


def div_forward(node: Node, args: list[Dom]) -> Dom:
    found = _nothing(node, args)
    if found is not None:
        return found
    a, b = args
    if node.type.kind != "float":
        return Dom.of(node.type, null=_null(args))
    nan = a.may_nan or b.may_nan or (
        (_has_inf(a, 1) or _has_inf(a, -1)) and (_has_inf(b, 1) or _has_inf(b, -1))
    )
    if b.lo <= 0 <= b.hi:
        if b.lo == 0 == b.hi:
            return Dom.empty(node.type, _null(args), nan)
        return Dom(node.type, -math.inf, math.inf, _null(args), nan)
    corners = []
    for x, y in product((a.lo, a.hi), (b.lo, b.hi)):
        if math.isinf(x) and math.isinf(y):
            corners += [0.0, math.copysign(math.inf, x) * math.copysign(1.0, y)]
        else:
            corners.append(nearest(x / y, node.type.bits))
    return Dom(node.type, min(corners), max(corners), _null(args), nan)


def div_backward(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    a, b = args
    if node.type.kind != "float" or out.may_nan or out.is_empty or a.is_empty or b.is_empty:
        return [a.known(), b.known()]
    c = next_below(out.lo, node.type.bits), next_above(out.hi, node.type.bits)
    ends = (*c, b.lo, b.hi)
    new_a = a.known()
    if all(math.isfinite(e) for e in ends):
        corners = [Fraction(x) * Fraction(y) for x, y in product(c, (b.lo, b.hi))]
        new_a = a.within(down(min(corners)), up(max(corners)))
    new_b = b.known()
    if math.isfinite(a.lo) and math.isfinite(a.hi) and all(map(math.isfinite, c)) and not c[0] <= 0 <= c[1]:
        corners = [Fraction(x) / Fraction(y) for x, y in product((a.lo, a.hi), c)]
        new_b = b.within(down(min(corners)), up(max(corners)))
    elif a.lo > 0 and b.lo > 0 and math.isfinite(c[1]) and c[1] > 0:
        # a / b <= c with everything positive: b >= a / c, whatever lies above
        new_b = b.within(down(_real(a.lo) / Fraction(c[1])) if math.isfinite(a.lo) else b.lo, math.inf)
    if a.lo >= 0 and b.lo > 0 and math.isfinite(b.lo) and math.isfinite(c[0]) and c[0] > 0:
        new_a = new_a.within(down(Fraction(c[0]) * Fraction(b.lo)), math.inf)
    return [new_a, new_b]


def _truncated(x: int, y: int) -> int:
    q = abs(x) // abs(y)
    return q if (x >= 0) == (y >= 0) else -q


def _divisors(b: Dom) -> list[tuple[int, int]]:
    """The divisor without zero, by sign."""
    return [(lo, hi) for lo, hi in ((b.lo, min(b.hi, -1)), (max(b.lo, 1), b.hi)) if lo <= hi]


def intdiv_forward(node: Node, args: list[Dom]) -> Dom:
    found = _nothing(node, args)
    a, b = args
    if found is not None or not (a.type.kind == b.type.kind == "int"):
        return found or Dom.of(node.type, null=_null(args))
    pieces = _divisors(b)
    if not pieces:
        return Dom.empty(node.type, _null(args))
    corners = [_truncated(x, y) for piece in pieces for x, y in product((a.lo, a.hi), piece)]
    return Dom.of(node.type, min(corners), max(corners), _null(args))


def intdiv_backward(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    a, b = args
    if out.is_empty or a.is_empty or b.is_empty or not (a.type.kind == b.type.kind == "int"):
        return [a.known(), b.known()]
    ends = []
    for piece in _divisors(b):
        width = max(abs(piece[0]), abs(piece[1])) - 1
        corners = [q * y for q, y in product((out.lo, out.hi), piece)]
        ends.append((min(corners) - width, max(corners) + width))
    if not ends:
        return [Dom.empty(a.type), Dom.empty(b.type)]
    new_b = b.known()
    if b.lo == 0:
        new_b = b.within(1, b.hi)
    elif b.hi == 0:
        new_b = b.within(b.lo, -1)
    return [a.within(min(e[0] for e in ends), max(e[1] for e in ends)), new_b]


def mod_forward(node: Node, args: list[Dom]) -> Dom:
    found = _nothing(node, args)
    a, b = args
    if found is not None or not (a.type.kind == b.type.kind == node.type.kind == "int"):
        return found or Dom.of(node.type, null=_null(args))
    most = max(abs(b.lo), abs(b.hi)) - 1
    if most < 0:
        return Dom.empty(node.type, _null(args))
    if node.op == "pmod":
        if b.lo > 0:
            if a.lo >= 0 and a.hi < b.lo:
                return Dom.of(node.type, a.lo, a.hi, _null(args))
            return Dom.of(node.type, 0, min(most, a.hi) if a.lo >= 0 else most, _null(args))
        return Dom.of(node.type, -most, most, _null(args))
    lo = 0 if a.lo >= 0 else max(-most, a.lo)
    hi = 0 if a.hi <= 0 else min(most, a.hi)
    return Dom.of(node.type, lo, hi, _null(args))


def mod_backward(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    a, b = args
    if node.op == "mod" and not out.is_empty and a.type.kind == "int" and not a.is_empty:
        if out.lo > 0:
            a = a.within(out.lo, a.hi)
        elif out.hi < 0:
            a = a.within(a.lo, out.hi)
    return [a.known(), b.known()]


# -- one argument ------------------------------------------------------------------------------------------------


def neg_forward(node: Node, args: list[Dom]) -> Dom:
    found = _nothing(node, args)
    a = args[0]
    if found is not None or a.lo is None:
        return found or Dom.of(node.type, null=_null(args))
    return Dom.of(node.type, -a.hi, -a.lo, a.may_null, a.may_nan)


def neg_backward(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    a = args[0]
    if out.is_empty or out.lo is None:
        return [a.known() if out.may_nan else a.known().number()] if out.is_empty else [a.known()]
    met = a.within(-out.hi, -out.lo)
    return [met if out.may_nan else met.number()]


def abs_forward(node: Node, args: list[Dom]) -> Dom:
    found = _nothing(node, args)
    a = args[0]
    if found is not None or a.lo is None:
        return found or Dom.of(node.type, null=_null(args))
    least = a.lo if a.lo >= 0 else -a.hi if a.hi <= 0 else 0 * a.lo if a.type.kind != "float" else 0.0
    return Dom.of(node.type, least, max(abs(a.lo), abs(a.hi)), a.may_null, a.may_nan)


def abs_backward(node: Node, out: Dom, args: list[Dom]) -> list[Dom]:
    a = args[0]
    if out.is_empty or out.lo is None or a.is_empty:
        return [a.known()]
    right, left = a.within(max(out.lo, 0), out.hi), a.within(-out.hi, -max(out.lo, 0))
    met = right.join(left)
    return [met if out.may_nan else met.number()]


RULES: dict[str, tuple[Forward, Backward]] = {
    "add": (add_forward, add_backward),
    "sub": (sub_forward, sub_backward),
    "mul": (mul_forward, mul_backward),
    "div": (div_forward, div_backward),
    "intdiv": (intdiv_forward, intdiv_backward),
    "mod": (mod_forward, mod_backward),
    "pmod": (mod_forward, mod_backward),
    "neg": (neg_forward, neg_backward),
    "abs": (abs_forward, abs_backward),
}
