"""Read conditions from SymPy relations and boolean expressions.

A symbol is a column: ``l_a`` or ``l.a`` of the left input, ``r_a`` or ``r.a`` of the right, or a bare name that is
unique. SymPy computes with real numbers, and the node computes with Spark's types. The node uses the order of terms and
factors that SymPy stores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from typing import Any

from ivjoin.errors import ColumnError, ConditionError, UnsupportedError
from ivjoin.expr import build
from ivjoin.expr.literals import literal, zone_named
from ivjoin.expr.nodes import Node
from ivjoin.expr.scope import Scope
from ivjoin.expr.types import BOOL, INT64
from ivjoin.functions.records.record import Operator
from ivjoin.functions.table import OPERATORS

__all__ = ["from_sympy"]


def from_sympy(expr: Any, scope: Scope, timezone: str = "UTC") -> Node:
    """Return the node of a SymPy expression, relation or boolean. ``timezone`` is the zone of calendar days.

    Integers become int literals. Rationals and floats become float64, and ``p*x/q`` is a division by q. An unknown
    column raises a ColumnError. An expression without an equivalent operator raises an UnsupportedError.
    """
    zone_named(timezone)
    return _Reader(scope, timezone).read(expr)


class _Reader:
    def __init__(self, scope: Scope, zone: str) -> None:
        self.scope, self.zone = scope, zone
        self.done: dict[Any, Node] = {}

    def read(self, e: Any) -> Node:
        node = self.done.get(e)
        if node is None:
            node = self.done[e] = self._read(e)
        return node

    def _read(self, e: Any) -> Node:
        import sympy

        if isinstance(e, sympy.Symbol):
            return self.symbol(e.name)
        if isinstance(e, sympy.Number) or e in (sympy.pi, sympy.E, sympy.oo, -sympy.oo, sympy.nan, sympy.zoo):
            return _number(e)
        for kind, rule in _rules():
            if isinstance(e, kind):
                return rule(self, e)
        raise UnsupportedError(f"SymPy's {e.__class__.__name__} in {str(e)[:120]} cannot be used in a condition")

    def symbol(self, name: str) -> Node:
        if "." in name:
            qualifier, _, rest = name.partition(".")
            return self.scope.resolve(qualifier, rest)
        found: list[Node] = []
        errors: list[ColumnError] = []
        head, _, rest = name.partition("_")
        readings: list[tuple[str | None, str]] = [(None, name)]
        if rest and self.scope.side_of(head) is not None:
            readings.insert(0, (head, rest))
        for side, column in readings:
            try:
                found.append(self.scope.resolve(side, column))
            except ColumnError as error:
                errors.append(error)
        if len(set(found)) > 1:
            meant = " and ".join(map(str, found))
            raise ColumnError(f"the symbol {name} is ambiguous: {meant}; write it with a dot, as l.name")
        if not found:
            raise errors[0]
        return found[0]

    def sum(self, e: Any) -> Node:
        # Positive terms come first, so that the negative terms can be subtracted from them. Numbers come last.
        terms = sorted(e.args, key=lambda t: (bool(t.could_extract_minus_sign()), bool(t.is_number)))
        out = self.read(terms[0])
        for t in terms[1:]:
            if t.could_extract_minus_sign():
                out = build.sub(out, self.read(-t), self.zone)
            else:
                out = build.add(out, self.read(t), self.zone)
        return out

    def product(self, e: Any) -> Node:
        import sympy

        factors = list(e.args)
        above = [f for f in factors if not _is_inverse(f)]
        below = [1 / f for f in factors if _is_inverse(f)]
        sign = 1
        if above and isinstance(above[0], sympy.Rational):
            number = above.pop(0)
            sign = -1 if number < 0 else 1
            if abs(number.p) != 1 or not above:
                above.insert(0, sympy.Integer(abs(number.p)))
            if number.q != 1:
                below.insert(0, sympy.Integer(number.q))
        out = self._times(above)
        if below:
            out = build.div(out, self._times(below))
        return build.neg(out) if sign < 0 else out

    def _times(self, factors: list[Any]) -> Node:
        return reduce(build.mul, map(self.read, factors)) if factors else literal(1)

    def power(self, e: Any) -> Node:
        import sympy

        base, exponent = e.args
        if exponent == sympy.Rational(1, 2):
            return build.real("sqrt", self.read(base))
        if base == sympy.E:
            return build.real("exp", self.read(exponent))
        if isinstance(exponent, sympy.Integer) and exponent < 0:
            return build.div(literal(1), self.read(base**-exponent))
        x = self.read(base)
        if isinstance(exponent, sympy.Integer) and 2 <= exponent <= 4:
            # Compute with 64 bits, because the square of a narrower integer often does not fit its type.
            x = build.cast(x, INT64) if x.type.kind == "int" and x.type.bits < 64 else x
            return reduce(build.mul, [x] * int(exponent))
        return build.real("pow", x, self.read(exponent))

    def modulo(self, e: Any) -> Node:
        a, b = e.args
        if not (b.is_number and b.is_positive):
            raise UnsupportedError(
                f"Mod with a divisor that is not a positive number: {e}; write pmod(a, b) "
                "as SQL text"
            )
        return build.pmod(self.read(a), self.read(b))

    def logarithm(self, e: Any) -> Node:
        return build.real("ln", self.read(e.args[0]))

    def piecewise(self, e: Any) -> Node:
        whens, otherwise = [], None
        for value, test in e.args:
            if test == True:  # noqa: E712  (SymPy's own TRUE)
                otherwise = self.read(value)
                break
            whens.append((self.read(test), self.read(value)))
        if not whens:
            assert otherwise is not None
            return otherwise
        return build.case(whens, otherwise, self.zone)

    def choice(self, e: Any) -> Node:
        test, then, other = map(self.read, e.args)
        return build.if_(test, then, other, self.zone)

    def implies(self, e: Any) -> Node:
        a, b = map(self.read, e.args)
        return build.or_(build.not_(a), b)

    def equivalent(self, e: Any) -> Node:
        first, *rest = map(self.read, e.args)
        return build.and_(*(build.eq(first, x) for x in rest))

    def exclusive(self, e: Any) -> Node:
        return reduce(build.ne, map(self.read, e.args))

    def membership(self, e: Any) -> Node:
        import sympy

        x, collection = e.args
        if isinstance(collection, sympy.FiniteSet):
            return build.in_(self.read(x), [self.read(v) for v in collection.args], self.zone)
        if isinstance(collection, sympy.Interval):
            node, parts = self.read(x), []
            if collection.start != -sympy.oo:
                op = "gt" if collection.left_open else "ge"
                parts.append(build.compare(op, node, self.read(collection.start), self.zone))
            if collection.end != sympy.oo:
                op = "lt" if collection.right_open else "le"
                parts.append(build.compare(op, node, self.read(collection.end), self.zone))
            return build.and_(*parts)
        raise UnsupportedError(f"Contains with {collection.__class__.__name__}; FiniteSet and Interval are supported")


def _is_inverse(f: Any) -> bool:
    import sympy

    return isinstance(f, sympy.Pow) and isinstance(f.exp, sympy.Rational) and bool(f.exp.is_negative)


def _number(e: Any) -> Node:
    import sympy

    if isinstance(e, sympy.Integer):
        return literal(int(e))
    if e is sympy.zoo:
        raise ConditionError("the expression contains SymPy's complex infinity, from a division by zero")
    return literal(float(e))


def _built(operator: Operator) -> Callable[[_Reader, Any], Node]:
    make = operator.build
    assert make is not None
    return lambda r, e: make([r.read(a) for a in e.args], r.zone)


@cache
def _rules() -> list[tuple[Any, Callable[[_Reader, Any], Node]]]:
    import sympy as sp
    from sympy.logic import boolalg

    # SymPy classes with special forms. The records of the operators define all others.
    own: list[tuple[Any, Callable[[_Reader, Any], Node]]] = [
        (sp.Add, _Reader.sum),
        (sp.Mul, _Reader.product),
        (sp.Pow, _Reader.power),
        (sp.Implies, _Reader.implies),
        (sp.Equivalent, _Reader.equivalent),
        (sp.Xor, _Reader.exclusive),
        (sp.ITE, _Reader.choice),
        (boolalg.BooleanTrue, lambda r, e: literal(True, BOOL)),
        (boolalg.BooleanFalse, lambda r, e: literal(False, BOOL)),
        (sp.Contains, _Reader.membership),
        (sp.Piecewise, _Reader.piecewise),
        (sp.Mod, _Reader.modulo),
        (sp.log, _Reader.logarithm),
    ]
    kinds = {kind for kind, _ in own}
    said = [(getattr(sp, o.sympy), _built(o)) for o in OPERATORS.values() if isinstance(o.sympy, str)]
    # exp comes first, because SymPy treats it as a power.
    return sorted(((k, rule) for k, rule in said if k not in kinds), key=lambda x: x[0] is not sp.exp) + own
