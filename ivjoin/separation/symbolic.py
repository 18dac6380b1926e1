"""Decompose polynomial inequalities over discrete values with sympy: by side, and into powers of a linear form.

This is for products of both sides that ``mixed`` cannot handle, such as ``l.a*l.a - 2*l.a*r.a + r.a*r.a < 400``.
Machine operations without errors give the polynomial's values, so every consequence of it follows from the condition.
sympy is imported at the first such condition.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import INT64
from ivjoin.separation.linear import BOTH_SIDES, Form, Forms, Number, Power
from ivjoin.separation.onesided import cast_to

__all__ = ["powers", "split_by_side"]

_MOST_TERMS = 64


def _polynomial(forms: Forms, form: Form) -> tuple[Any, list[Node]] | None:
    """Return the form as a sympy polynomial over the rationals with products multiplied out, and its atoms."""
    import sympy

    symbols: dict[Node, Any] = {}

    def of_form(f: Form) -> Any:
        total: Any = _rational(f.lo)
        for n, c in f.terms.items():
            total = total + _rational(c) * of_atom(n)
        return total

    def of_atom(n: Node) -> Any:
        if n.op == "mul" and n.type.kind == "int":
            a, b = (forms.form(x) for x in n.args)
            if a is not None and b is not None and a.lo == a.hi and b.lo == b.hi:
                return of_form(a) * of_form(b)
        if n not in symbols:
            symbols[n] = sympy.Dummy(real=True)
        return symbols[n]

    def _rational(x: Number) -> Any:
        q = Fraction(x)
        return sympy.Rational(q.numerator, q.denominator)

    expression = of_form(form)
    if not symbols:
        return None
    poly = sympy.Poly(expression, *symbols.values(), domain="QQ")
    if len(poly.terms()) > _MOST_TERMS or any(forms.sides(n) == BOTH_SIDES for n in symbols):
        return None
    return poly, list(symbols)


def _fraction(x: Any) -> Fraction:
    return Fraction(int(x.p), int(x.q))


def split_by_side(forms: Forms, form: Form) -> Form | None:
    """Return the form over products that read one side each, if its expansion has only such products."""
    found = _polynomial(forms, form)
    if found is None:
        return None
    poly, atoms = found
    terms: dict[Node, Number] = {}
    constant: Number = 0
    for powers_of, c in poly.terms():
        factors = [n for n, e in zip(atoms, powers_of) for _ in range(e)]
        if not factors:
            constant = _fraction(c)
            continue
        if len({forms.sides(n) for n in factors}) > 1:
            return None
        node = factors[0]
        if len(factors) > 1:
            if any(n.type.kind != "int" or (n.type.bits == 64 and not n.type.signed) for n in factors):
                return None
            node = cast_to(node, INT64)
            for n in factors[1:]:
                node = make("mul", (node, cast_to(n, INT64)), (), INT64)
        terms[node] = _fraction(c)
    return Form(terms, constant, constant, True)


def powers(forms: Forms, form: Form) -> tuple[Power, Form] | None:
    """Return ``form = c * a**n + rest`` with ``a`` and ``rest`` linear, n >= 2; None if they do not exist."""
    import sympy

    found = _polynomial(forms, form)
    if found is None:
        return None
    poly, atoms = found
    degree = poly.total_degree()
    if degree < 2 or degree > 8:
        return None

    def linear(p: Any) -> Form | None:
        terms: dict[Node, Fraction] = {}
        constant = Fraction(0)
        for exponents, c in p.terms():
            if sum(exponents) > 1:
                return None
            if sum(exponents) == 0:
                constant = _fraction(c)
            else:
                terms[atoms[exponents.index(1)]] = _fraction(c)
        return Form({n: _whole(c) for n, c in terms.items()}, _whole(constant), _whole(constant), True)

    at_zero = poly.coeff_monomial(tuple([0] * len(atoms)))
    top = sympy.Poly({m: c for m, c in poly.terms() if sum(m) == degree}, *poly.gens, domain="QQ")
    # Omitting only the constant gives exact bounds; omitting the linear part is the last resort.
    return _powered(poly, poly - at_zero, linear) or _completed(poly, top, linear) or _powered(poly, top, linear)


def _powered(poly: Any, part: Any, linear: Callable[[Any], Form | None]) -> tuple[Power, Form] | None:
    """Return ``part`` as a power of a linear form, and the rest of ``poly``."""
    factor, bases = part.factor_list()
    if len(bases) != 1 or bases[0][1] != part.total_degree():
        return None
    base, rest = linear(bases[0][0]), linear(poly - part)
    return None if base is None or rest is None else ((_fraction(factor), base, bases[0][1]), rest)


def _completed(poly: Any, top: Any, linear: Callable[[Any], Form | None]) -> tuple[Power, Form] | None:
    """Complete the square where the linear part is a multiple of the base."""
    factor, bases = top.factor_list()
    if len(bases) != 1 or bases[0][1] != 2:
        return None
    base = bases[0][0]
    lower = poly - top
    shift, rest = lower.div(base)
    if shift.total_degree() > 0 or rest.total_degree() > 0:
        return None
    m, c = _fraction(shift.LC()) if not shift.is_zero else Fraction(0), _fraction(factor)
    form = linear(base)
    if form is None:
        return None
    k = m / (2 * c)
    constant = _fraction(rest.LC()) if not rest.is_zero else Fraction(0)
    constant -= c * k * k
    return (c, form.plus(Form({}, k, k)), 2), Form({}, constant, constant, True)


def _whole(x: Fraction) -> Number:
    return x.numerator if x.denominator == 1 else x

