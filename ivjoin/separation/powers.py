"""Decompose polynomials over discrete values by side, or into powers of a linear form.

This handles products of both sides that ``mixed`` cannot, such as ``l.a*l.a - 2*l.a*r.a + r.a*r.a < 400``. A machine
operation without an error gives the mathematical result, so consequences of the polynomial follow from the condition.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm

from ivjoin.expr import ops
from ivjoin.expr.form import Form, Number, plain
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.polynomial import Polynomial, plus, scaled, times
from ivjoin.expr.types import INT64
from ivjoin.separation.linear import BOTH_SIDES, Forms, Power
from ivjoin.separation.onesided import cast_to

__all__ = ["powers", "split_by_side"]

_MOST_TERMS = 64
_MOST_DEGREE = 8


class _TooLongError(Exception):
    """A product has too many terms."""


class _Expanded:
    """A form as a polynomial, with products multiplied out. Its factors are indexes of ``atoms``."""

    def __init__(self, forms: Forms, form: Form) -> None:
        self._forms = forms
        self.atoms: list[Node] = []
        self.terms = self._of_form(form)

    def _of_form(self, form: Form) -> Polynomial:
        total: Polynomial = {(): Fraction(form.lo)} if form.lo else {}
        for n, c in form.terms.items():
            total = plus(total, self._of_atom(n), Fraction(c))
        return total

    def _of_atom(self, n: Node) -> Polynomial:
        if n.op == ops.MUL and n.type.kind == "int":
            a, b = (self._forms.form(x) for x in n.args)
            if a is not None and b is not None and a.lo == a.hi and b.lo == b.hi:
                product = times(self._of_form(a), self._of_form(b))
                if len(product) > _MOST_TERMS:
                    raise _TooLongError
                return product
        if n not in self.atoms:
            self.atoms.append(n)
        return {(self.atoms.index(n),): Fraction(1)}

    def linear(self, p: Polynomial) -> Form:
        """Return a linear polynomial as a form."""
        constant = plain(p.get((), Fraction(0)))
        return Form({self.atoms[m[0]]: plain(c) for m, c in p.items() if m}, constant, constant, True)


def _expanded(forms: Forms, form: Form) -> _Expanded | None:
    try:
        found = _Expanded(forms, form)
    except _TooLongError:
        return None
    if not found.atoms or any(forms.sides(n) == BOTH_SIDES for n in found.atoms):
        return None
    return found if len(found.terms) <= _MOST_TERMS else None


def split_by_side(forms: Forms, form: Form) -> Form | None:
    """Return the expanded form if each of its products reads only one side, else None."""
    found = _expanded(forms, form)
    if found is None:
        return None
    terms: dict[Node, Number] = {}
    for m, c in found.terms.items():
        factors = [found.atoms[x] for x in m]
        if len({forms.sides(n) for n in factors}) > 1:
            return None
        if len(factors) > 1 and any(n.type.kind != "int" or (n.type.bits == 64 and not n.type.signed) for n in factors):
            return None
        if not factors:
            continue
        node = factors[0]
        for n in factors[1:]:
            node = make(ops.MUL, (cast_to(node, INT64), cast_to(n, INT64)), (), INT64)
        terms[node] = c
    constant = found.terms.get((), Fraction(0))
    return Form(terms, constant, constant, True)


def powers(forms: Forms, form: Form) -> tuple[Power, Form] | None:
    """Return ``form`` as ``c * a**n + rest`` with linear ``a`` and ``rest``, and n >= 2. None if that is impossible.

    In the expansion of ``c * (x + s * y + k)**n``, the coefficients of ``x**n``, ``x**(n - 1) * y`` and ``x**(n - 1)``
    give s and k.
    """
    found = _expanded(forms, form)
    if found is None or not found.terms:
        return None
    p = found.terms
    n = max(map(len, p))
    if not 2 <= n <= _MOST_DEGREE:
        return None
    x = min(y for m in p if len(m) == n for y in m)
    c = p.get((x,) * n)
    if c is None:
        return None
    near = (x,) * (n - 1)
    base: Polynomial = {(x,): Fraction(1)}
    for y in range(len(found.atoms)):
        if y != x and (k := p.get(tuple(sorted((*near, y))), 0) / c / n):
            base[y,] = k
    shift = p.get(near, 0) / c / n
    # With the shift, only a constant may remain, so the bounds are exact. Without it, a linear rest may remain.
    for k, most in ((shift, 0), (0, 1)):
        root = plus(base, {(): k})
        power = root
        for _ in range(n - 1):
            power = times(power, root)
        rest = plus(p, power, -c)
        if all(len(m) <= most for m in rest):
            whole = Fraction(lcm(*(k.denominator for k in base.values())), gcd(*(k.numerator for k in base.values())))
            return (c / whole**n, found.linear(scaled(root, whole)), n), found.linear(rest)
    return None
