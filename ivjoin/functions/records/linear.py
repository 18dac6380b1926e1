"""Linear forms of operators: over rationals for bands, and as polynomials of whole numbers for propagation.

Both are valid unless the operator raises an error, because machine integers are exact unless they overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from ivjoin.expr.form import Form, plain, size
from ivjoin.expr.kernels.zones import is_fixed
from ivjoin.expr.nodes import Node, is_met, make
from ivjoin.expr.polynomial import Polynomial, plus, scaled, times
from ivjoin.expr.types import INT32, TICKS_PER_SECOND, Type

__all__ = [
    "ADD", "CAST", "FLOOR", "INTDIV", "MONTHS_APART", "MUL", "NEG", "ONE_OF", "SAME", "SINCE_EPOCH", "Linear",
    "cast_factor",
]  # fmt: skip

# Offsets from UTC are at most 18 hours, in java.time and in zoneinfo. A difference of two local times is therefore
# within 36 hours of the difference of the instants.
_ZONE_SLACK_SECONDS = 36 * 3600


class Linear(NamedTuple):
    """Rules that compute the linear forms of a node from the forms of its arguments. None stands for a missing form.

    ``form`` returns a form over values, whose constant is a range if the value is rounded. ``total`` returns an exact
    polynomial over physical values.
    """

    form: Callable[[Node, list[Form]], Form | None] | None
    total: Callable[[Node, list[Polynomial]], Polynomial | None] | None


def _is_fixed_zone(n: Node) -> bool:
    return not n.params or is_fixed(n.params[0])


def _sign(n: Node) -> int:
    return 1 if n.op in ("add", "add_days") else -1


def _rounded(f: Form, t: Type) -> Form:
    """Widen a form by the rounding error of a decimal type."""
    half = Fraction(1, 2 * 10**t.scale)
    return f.widened(half, half)


def sum_form(n: Node, forms: list[Form]) -> Form | None:
    a, b = forms
    out = a.plus(b, _sign(n))
    t = n.type
    if t.kind == "decimal":
        if t.scale < max(x.type.scale for x in n.args):
            return _rounded(out, t)
        return out
    if t.kind in ("int", "months", "date"):
        return out
    kinds = [x.type.kind for x in n.args]
    if any(x.type.unit != n.args[0].type.unit for x in n.args) or t.kind not in ("timestamp", "duration"):
        return None
    zoned = any(x.type.tz for x in n.args) and not _is_fixed_zone(n)
    if "timestamp" not in kinds or not zoned:
        return out
    ticks = TICKS_PER_SECOND[n.args[0].type.unit]
    if kinds == ["timestamp", "timestamp"]:
        return out.widened(_ZONE_SLACK_SECONDS * ticks, _ZONE_SLACK_SECONDS * ticks)
    # Only whole days of an interval are calendar days of the zone. The rest is added to the instant.
    if n.args[1].op == "literal" and size(b.lo) < 86_400 * ticks:
        return out
    return None


def mul_form(n: Node, forms: list[Form]) -> Form | None:
    a, b = forms
    if a.terms or a.lo != a.hi or a.lost:
        a, b = b, a
    if a.terms or a.lo != a.hi or a.lost:
        return None
    out = b.scaled(a.lo)
    if n.type.kind == "decimal" and n.type.scale < sum(x.type.scale for x in n.args):
        return _rounded(out, n.type)
    return out


def intdiv_form(n: Node, forms: list[Form]) -> Form | None:
    a, b = forms
    if b.terms or b.lo != b.hi or not b.lo or n.type.kind != "int" or any(x.type.kind != "int" for x in n.args):
        return None
    off = 1 - 1 / Fraction(size(b.lo))
    return a.scaled(Fraction(1) / b.lo).widened(off, off)


def cast_form(n: Node, forms: list[Form]) -> Form | None:
    (f,) = forms
    source, target = n.args[0].type, n.type
    if source.kind in ("int", "decimal") and target.kind in ("int", "decimal"):
        if source.kind == "decimal" and target.kind == "int" and source.scale:
            return f.widened(1, 1)
        if source.kind == "decimal" and target.kind == "decimal" and target.scale < source.scale:
            return _rounded(f, target)
        return f
    if source.kind == target.kind == "duration" or (
        source.kind == target.kind == "timestamp" and bool(source.tz) == bool(target.tz)
    ):
        k = Fraction(TICKS_PER_SECOND[target.unit], TICKS_PER_SECOND[source.unit])
        if k == 1:
            return f
        out = f.scaled(plain(k))
        return out if k >= 1 else out.widened(1, 1)
    return None


def months_form(n: Node, forms: list[Form]) -> Form:
    """Return the form of ``months_apart``: the difference of month numbers, minus at most two or plus at most one.

    For example, it is two less from noon on January 31 to the morning of March 1.
    """
    start, end = (make("extract", (a,), ("month_number", "UTC"), INT32) for a in n.args)
    return Form({end: 1, start: -1}, -2, 1) if start is not end else Form({}, 0, 0, True)


def integral_form(n: Node, forms: list[Form]) -> Form | None:
    source = n.args[0].type
    if source.kind == "int" or (source.kind == "decimal" and source.scale == 0):
        return forms[0]
    if source.kind == "decimal":
        return forms[0].widened(1, 0) if n.op == "floor" else forms[0].widened(0, 1)
    return None


def _is_exact_product(n: Node) -> bool:
    """Return whether a product of whole numbers is the product of the unscaled integers."""
    if n.type.kind != "decimal":
        return True
    return n.type.scale == sum(a.type.scale for a in n.args) and sum(a.type.precision for a in n.args) <= 38


def _is_exact_sum(n: Node) -> bool:
    """Return whether a sum or difference is the sum or difference of the unscaled integers."""
    t = n.type
    if t.kind == "decimal":
        return all(a.type.scale == t.scale for a in n.args)
    if t.kind in ("int", "months"):
        return True
    if any(a.type.unit != t.unit for a in n.args):
        return False
    return not any(a.type.tz for a in n.args) or not n.params or n.params[0] in (None, "", "UTC")


def cast_factor(n: Node) -> int | None:
    """Return the factor of a cast between whole numbers, or None if the cast may drop digits."""
    s, t = n.args[0].type, n.type
    if is_met(n):
        return None
    if s.kind in ("int", "decimal") and t.kind in ("int", "decimal"):
        if s.kind == "decimal" and t.scale < s.scale:
            return None
        return int(10 ** (t.scale - s.scale))
    if s.kind == t.kind and s.kind in ("duration", "time", "timestamp"):
        if s.kind == "timestamp" and bool(s.tz) != bool(t.tz) and n.params[1] not in (None, "", "UTC"):
            return None
        have, want = TICKS_PER_SECOND[s.unit], TICKS_PER_SECOND[t.unit]
        return want // have if want >= have else None
    return None


def _add_total(n: Node, args: list[Polynomial]) -> Polynomial | None:
    return plus(args[0], args[1], _sign(n)) if _is_exact_sum(n) else None


def _mul_total(n: Node, args: list[Polynomial]) -> Polynomial | None:
    return times(args[0], args[1]) if _is_exact_product(n) else None


def _cast_total(n: Node, args: list[Polynomial]) -> Polynomial | None:
    factor = cast_factor(n)
    return None if factor is None else scaled(args[0], factor)


def _epoch_total(n: Node, args: list[Polynomial]) -> Polynomial | None:
    target = {"unix_seconds": 1, "unix_millis": 1_000, "unix_micros": 1_000_000}[n.op]
    unit = TICKS_PER_SECOND[n.args[0].type.unit]
    return scaled(args[0], target // unit) if target >= unit else None


ADD = Linear(sum_form, _add_total)
NEG = Linear(lambda n, forms: forms[0].scaled(-1), lambda n, args: scaled(args[0], -1))
MUL = Linear(mul_form, _mul_total)
INTDIV = Linear(intdiv_form, None)
CAST = Linear(cast_form, _cast_total)
SAME = Linear(lambda n, forms: forms[0], lambda n, args: args[0])
MONTHS_APART = Linear(months_form, None)
FLOOR = Linear(integral_form, lambda n, args: args[0] if n.args[0].type.kind == "int" else None)
ONE_OF = Linear(None, lambda n, args: args[0] if len(set(n.args)) == 1 else None)
SINCE_EPOCH = Linear(None, _epoch_total)
