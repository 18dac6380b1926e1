"""Polynomials with exact coefficients: sums, products and quotients.

A polynomial maps monomials to nonzero coefficients. A monomial is the sorted tuple of the indexes of its factors, with
repetitions for powers. ``()`` is the monomial of the constant.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

__all__ = ["Monomial", "Polynomial", "divided", "plus", "scaled", "times"]

Monomial = tuple[int, ...]
Polynomial = dict[Monomial, Any]  # coefficients: int or Fraction


def plus(a: Polynomial, b: Polynomial, factor: Any = 1) -> Polynomial:
    """Return ``a + factor * b``."""
    out = dict(a)
    for m, c in b.items():
        c = out.pop(m, 0) + factor * c
        if c:
            out[m] = c
    return out


def scaled(p: Polynomial, factor: Any) -> Polynomial:
    return {m: c * factor for m, c in p.items()}


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for m, c in a.items():
        for k, d in b.items():
            key = tuple(sorted(m + k))
            e = out.pop(key, 0) + c * d
            if e:
                out[key] = e
    return out


def divided(a: Polynomial, b: Polynomial, whole: bool) -> tuple[Polynomial, Polynomial]:
    """Return ``(q, r)`` with ``a = q * b + r``, by polynomial long division.

    With ``whole``, the coefficients of the quotient must be integers. If the quotient simplifies nothing, it is zero.
    """
    lead = _leading(b)
    q: Polynomial = {}
    kept: Polynomial = {}
    rest = dict(a)
    while rest:
        m = _leading(rest)
        left = _without(m, lead)
        if left is None or (whole and rest[m] % b[lead]):
            kept[m] = rest.pop(m)
            continue
        step = {left: rest[m] // b[lead] if whole else Fraction(rest[m]) / b[lead]}
        q = plus(q, step)
        rest = plus(rest, times(step, b), -1)
    return (q, kept) if len(kept) < len(a) else ({}, a)


def _leading(p: Polynomial) -> Monomial:
    return max(p, key=lambda m: (len(m), m))


def _without(m: Monomial, factor: Monomial) -> Monomial | None:
    left = list(m)
    for x in factor:
        if x not in left:
            return None
        left.remove(x)
    return tuple(left)
