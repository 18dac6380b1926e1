"""Linear forms with exact rational coefficients, for ``separation.linear`` and the rules of operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from ivjoin.expr.nodes import Node
from ivjoin.expr.types import Type
from ivjoin.interval.machine.integers import root_down

__all__ = ["Form", "Number", "plain", "root_bound", "scale_of", "size"]

Number = int | Fraction


@dataclass(frozen=True, slots=True)
class Form:
    """A linear form. ``lost`` means that an atom cancelled out, so the form no longer shows when the node is NULL."""

    terms: Mapping[Node, Number]
    lo: Number
    hi: Number
    lost: bool = False

    @property
    def exact(self) -> bool:
        return self.lo == self.hi and not self.lost

    def scaled(self, k: Number) -> Form:
        if k == 1:
            return self
        if k == 0:
            return Form({}, 0, 0, True)
        lo, hi = (self.lo * k, self.hi * k) if k > 0 else (self.hi * k, self.lo * k)
        return Form({n: c * k for n, c in self.terms.items()}, lo, hi, self.lost)

    def plus(self, other: Form, k: Number = 1) -> Form:
        """Return ``self + k * other``."""
        other = other.scaled(k)
        terms = dict(self.terms)
        lost = self.lost or other.lost
        for n, c in other.terms.items():
            total = terms.get(n, 0) + c
            if total:
                terms[n] = total
            else:
                del terms[n]
                lost = True
        return Form(terms, self.lo + other.lo, self.hi + other.hi, lost)

    def widened(self, below: Number, above: Number) -> Form:
        return Form(self.terms, self.lo - below, self.hi + above, self.lost)


def size(x: Number) -> Number:
    """Return the absolute value, typed for mypy."""
    return x if x >= 0 else -x


def scale_of(t: Type) -> int:
    """Return the number of physical units per unit of value."""
    return 10**t.scale if t.kind == "decimal" else 1


def plain(x: Number) -> Number:
    """Return a whole Fraction as int, because arithmetic of ints is several times faster."""
    return x.numerator if isinstance(x, Fraction) and x.denominator == 1 else x


def root_bound(u: Fraction, n: int, whole: bool) -> Number | None:
    """Return an upper bound of ``a`` (of ``|a|`` for even n) if ``a**n <= u``. None if there is no such ``a``."""
    if u < 0 and n % 2 == 0:
        return None
    if whole:
        return root_down(floor(u), n)
    scaled = abs(u.numerator) * u.denominator ** (n - 1)
    root = root_down(scaled, n)
    return Fraction(root + 1 if u >= 0 else -root, u.denominator)
