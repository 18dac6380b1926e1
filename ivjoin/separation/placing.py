"""Turn a linear inequality into a band term with one node for each side, or into a one-sided filter."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, gcd, lcm

from ivjoin.expr import build, ops
from ivjoin.expr.nodes import Node, columns_of, make
from ivjoin.expr.terms import BandTerm
from ivjoin.expr.types import BOOL, FLOAT64
from ivjoin.separation.float_bounds import shifted_image
from ivjoin.separation.linear import LEFT_SIDE, RIGHT_SIDE, Forms, guard_box, scale_of
from ivjoin.separation.mixed import Inequality
from ivjoin.separation.onesided import SidePool, cast_to, literal
from ivjoin.separation.parts import Found, cut

__all__ = ["place"]


def place(forms: Forms, pool: SidePool, found: Found, q: Inequality, source: Node) -> bool:
    """Add a band for ``q`` to ``found``, or a filter if ``q`` reads one side.

    Return whether the added part is equivalent to ``q``.
    """
    terms = q.form.terms
    if not terms:
        return False
    denominators = lcm(*(Fraction(k).denominator for k in terms.values()))
    f = Fraction(denominators, gcd(*(int(k * denominators) for k in terms.values())))
    left = {n: int(k * f) for n, k in terms.items() if forms.sides(n) == LEFT_SIDE}
    right = {n: int(-k * f) for n, k in terms.items() if forms.sides(n) == RIGHT_SIDE}
    if not left or not right:
        return _filter(found, q)
    left_minus, right_minus = ({n: -k for n, k in side.items()} for side in (left, right))
    # Either sign is possible. Prefer the sign whose nodes occur in the condition, else the same sign for all conjuncts.
    flip = (pool.rank(left_minus, right_minus), _leading(left_minus)) > (pool.rank(left, right), _leading(left))
    if flip:
        left, right = left_minus, right_minus
    nodes = pool.pair(left, right)
    if nodes is None:
        return _as_doubles(found, q, left, right, f * (-1 if flip else 1), source)
    a, ca, b, cb = nodes
    box = guard_box(forms.limits([n for n in (a, b) if not pool.knows(n)], pool.known))
    if box is None:
        return False
    cut(found.box, box)
    lo = hi = None
    if flip:
        bound = (ca - cb + f * q.form.lo) * scale_of(a.type)
        lo = ceil(bound)
    else:
        bound = (ca - cb - f * q.form.lo) * scale_of(a.type)
        hi = floor(bound)
    if q.nullable:
        # Replace a NULL by the end of the type for which the band is always true.
        low, high = a.type.limits
        ends = (high, low) if flip else (low, high)
        sides = {forms.sides(n) for n in q.nullable}
        a, b = (
            build.coalesce(n, literal(end, n.type)) if forms.sides(n) in sides else n
            for n, end in zip((a, b), ends)
        )
        lo, hi = (None if lo is None else min(lo, 0)), (None if hi is None else max(hi, 0))
    found.bands.append(BandTerm(a, b, lo, hi, False, source))
    return True


def _as_doubles(
    found: Found, q: Inequality, left: dict[Node, int], right: dict[Node, int], f: Fraction, source: Node
) -> bool:
    """Add a band over doubles for numbers without ordinals, such as long decimals. It is never equivalent."""
    (a, m), *more_left = left.items()
    (b, n), *more_right = right.items()
    if more_left or more_right or m != 1 or n != 1 or q.nullable:
        return False
    if not {a.type.kind, b.type.kind} <= {"int", "decimal"}:
        return False
    # left - right <= k, or >= k. Each double is at most one step from the exact value, and the sum adds at most one.
    up = f > 0
    k = Fraction(-f * q.form.lo)
    if abs(k) > 1 << 1000:
        return False
    moved = cast_to(b, FLOAT64)
    if abs(k) <= 1 and (k <= 0) == up:
        # For a small distance, the rounding error of a shift would be as large as the shift.
        k = Fraction(0)
    if k or a.type != b.type:
        moved = shifted_image(moved, k, up)
    lo, hi = (None, 0) if up else (0, None)
    found.bands.append(BandTerm(cast_to(a, FLOAT64), moved, lo, hi, False, source))
    return False


def _leading(terms: dict[Node, int]) -> bool:
    """Return whether the first atom has a positive factor. The order of atoms does not depend on the conjunct."""
    if len(terms) == 1:
        return next(iter(terms.values())) > 0
    first = min(terms, key=lambda n: ([c.params for c in columns_of(n)], n.op, repr(n.params)))
    return terms[first] > 0


def _filter(found: Found, q: Inequality) -> bool:
    if q.nullable or len(q.form.terms) != 1:
        return False
    ((n, k),) = q.form.terms.items()
    bound = Fraction(-q.form.lo) / k * scale_of(n.type)
    low, high = n.type.limits
    if k > 0:
        end, op = floor(bound), ops.LE
    else:
        end, op = ceil(bound), ops.GE
    if low <= end <= high:
        found.filters.append(make(op, (n, literal(end, n.type)), (), BOOL))
    return True
