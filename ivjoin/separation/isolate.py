"""Derive relaxed band terms from comparisons of two-sided float expressions.

A float operation (``fl``) rounds to the nearest float. If ``fl(x - y) <= u``, then ``x - y <= next_up(u)`` over the
reals, so ``x <= y + next_up(u)``. Rounding preserves the order and ``x`` is a float, so ``x <= fl(y + next_up(u))``.
This also covers overflow and subnormals. Each step here has this form, and its result is again a comparison.

NaN is the greatest value, so a NaN on the greater side makes a comparison TRUE. A *bound* that is NaN must bound
nothing. This is automatic on the greater side. On the smaller side, -inf replaces the NaN. ``hazy`` marks a comparison
that is also true if the bounded expression is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction

from ivjoin.expr import build, ops
from ivjoin.expr.nodes import FLIPPED, Node, make
from ivjoin.expr.types import BOOL, FLOAT64, INT32
from ivjoin.functions.table import passes_nan
from ivjoin.separation.float_bounds import arith, beyond, constant_of, is_positive, negated, number, root, shift, wide
from ivjoin.separation.linear import BOTH_SIDES, Form, Forms
from ivjoin.separation.mixed import Inequality
from ivjoin.separation.onesided import cast_to

__all__ = ["FloatBand", "Isolator", "never_nan"]


@dataclass(frozen=True, slots=True)
class FloatBand:
    """``smaller <= greater``. Both are float64 nodes, and each reads one side."""

    smaller: Node
    greater: Node


def never_nan(op: str, a: Node, b: Node, known: Collection[Node]) -> list[Node]:
    """Return the float nodes that cannot be NaN if ``a op b`` is TRUE. ``known`` are such nodes so far."""
    if op in (ops.GT, ops.GE):
        a, b, op = b, a, FLIPPED[op]
    out: list[Node] = []
    if op == ops.LT:
        stack = [a]
    elif op == ops.LE:
        stack = [a] if _is_number(b, known) else []
    elif op == ops.EQ:
        stack = [x for x, y in ((a, b), (b, a)) if _is_number(y, known)]
    else:
        stack = []
    while stack:
        n = stack.pop()
        if n.type.kind != "float" or n.op == "literal":
            continue
        out.append(n)
        if passes_nan(n):
            stack.extend(n.args)
        elif n.op == ops.GREATEST:
            # GREATEST skips a null argument, so the operands of that argument can be NaN.
            out += [x for x in n.args if x.type.kind == "float" and x.op != "literal"]
    return out


def _is_number(n: Node, known: Collection[Node]) -> bool:
    if n.op == "literal":
        return n.params[0] is not None and n.params[0] == n.params[0]
    return n in known or (n.op == ops.CAST and n.args[0].type.kind in ("int", "decimal"))


@dataclass(slots=True)
class Isolator:
    """Collect the consequences of one comparison."""

    forms: Forms
    known: Collection[Node]
    bands: list[FloatBand] = field(default_factory=list)
    inequalities: list[Inequality] = field(default_factory=list)

    def compare(self, op: str, a: Node, b: Node) -> None:
        """Derive bounds from the float comparison ``a op b``. At least one of ``a`` and ``b`` reads both sides."""
        if self.forms.sides(a) != BOTH_SIDES:
            a, b, op = b, a, FLIPPED[op]
        if self.forms.sides(b) == BOTH_SIDES:
            return
        u = cast_to(b, FLOAT64) if b.op != "literal" else b
        if b.op == "literal":
            if b.params[0] is None:
                return
            u = number(b.params[0])
        exact = constant_of(u) is not None
        if op in (ops.LT, ops.LE, ops.EQ):
            self.bound(a, beyond(u, up=False) if op == ops.LT and exact else u, True, False)
        if op in (ops.GT, ops.GE, ops.EQ):
            bound = beyond(u, up=True) if op == ops.GT and exact else u
            self.bound(a, bound, False, op != ops.EQ and a not in self.known)

    def _emit(self, smaller: Node, greater: Node, wrap: bool) -> None:
        forms = self.forms
        if {forms.sides(smaller), forms.sides(greater)} != {1, 2}:
            return
        smaller, greater = cast_to(smaller, FLOAT64), cast_to(greater, FLOAT64)
        if wrap and not self._is_real(smaller):
            smaller = build.if_(build.is_nan(smaller), number(-math.inf), smaller)
        self.bands.append(FloatBand(smaller, greater))

    def _is_real(self, n: Node) -> bool:
        base, k = shift(n)
        base = base.args[0] if base.op == ops.CAST and base.args[0].type.kind == "float" else base
        return _is_number(base, self.known) and abs(k) < 1e300

    def _free(self, n: Node, u: Node) -> bool:
        """Return whether ``n`` and the bound ``u`` together read at most one side."""
        return self.forms.sides(n) | self.forms.sides(u) != BOTH_SIDES

    def bound(self, e: Node, u: Node, up: bool, hazy: bool) -> None:
        """Derive bands from ``e <= u`` if ``up``, else from ``e >= u``. With ``hazy``, ``e`` may also be NaN.

        If ``u`` is NaN, it bounds nothing.
        """
        x, end = constant_of(u), math.inf if up else -math.inf
        if x is not None and (math.isnan(x) or x == end):
            return
        if self.forms.sides(e) != BOTH_SIDES:
            if up:
                self._emit(e, u, hazy)
            else:
                self._emit(u, e, True)
            return
        if e.type.kind != "float":
            self._discrete(e, u, up)
            return
        edge = beyond(u, up, e.type.bits)
        if constant_of(edge) == end:
            return
        if e.op in (ops.ADD, ops.SUB):
            p, q = e.args
            if self._free(q, u):
                self.bound(p, arith(ops.SUB if e.op == ops.ADD else ops.ADD, edge, wide(q)), up, hazy)
            elif self._free(p, u):
                if e.op == ops.ADD:
                    self.bound(q, arith(ops.SUB, edge, wide(p)), up, hazy)
                else:
                    self.bound(q, arith(ops.SUB, wide(p), edge), not up, hazy)
            elif up and not hazy:
                self._monotone(e, u)
        elif e.op == ops.MONTHS_BETWEEN:
            self._months(e, u, up)
        elif up and hazy and e.op in (ops.GREATEST, ops.POW):
            return
        elif e.op == (ops.GREATEST if up else ops.LEAST):
            self._each(e, u, up)
        elif up and e.op == ops.ABS:
            self._within(e.args[0], u, hazy)
        elif up and e.op == ops.MUL and e.args[0] is e.args[1]:
            self._within(e.args[0], root(edge), hazy)
        elif up and e.op == ops.POW:
            self._power(e, u)
        elif up and e.op == ops.SQRT:
            if x is None or x >= 0:
                self.bound(e.args[0], arith(ops.MUL, edge, edge), True, hazy)
        elif not self._scaled(e, edge, hazy, up) and not (up and hazy):
            self._ratio(e, edge, up)

    def _within(self, e: Node, u: Node, hazy: bool) -> None:
        """Derive bands from ``-u <= e <= u``."""
        self.bound(e, u, True, hazy)
        self.bound(e, negated(u), False, hazy)

    def _scaled(self, e: Node, bound: Node, hazy: bool, up: bool) -> bool:
        """Handle negation, widening, and a constant factor or divisor."""
        if e.op == ops.NEG:
            # Negation is exact. The bound is one step wider than necessary, which is still correct.
            self.bound(e.args[0], negated(bound), not up, hazy)
            return True
        if e.op == ops.CAST:
            inner = e.args[0]
            if inner.type.kind not in ("float", "int", "decimal"):
                return False
            self.bound(inner, bound, up, hazy)
            return True
        if e.op not in (ops.MUL, ops.DIV):
            return False
        p, q = e.args
        if e.op == ops.MUL and constant_of(p) is not None:
            p, q = q, p
        k = constant_of(q)
        if k is None or not math.isfinite(k) or k == 0:
            return False
        new = arith(ops.DIV if e.op == ops.MUL else ops.MUL, bound, number(k))
        self.bound(p, new, (k > 0) == up, hazy)
        return True

    def _discrete(self, m: Node, u: Node, up: bool) -> None:
        """Derive a bound of the exact number ``m`` from a bound of its float value."""
        u = beyond(u, up)
        x = constant_of(u)
        if x is not None:
            form = self.forms.form(m)
            if form is None or not math.isfinite(x):
                return
            end = Fraction(x)
            d = form.plus(Form({}, end, end), -1)
            self.inequalities.append(Inequality(d if up else d.scaled(-1)))
        elif m.op in (ops.ADD, ops.SUB) and m.type.kind in ("int", "decimal"):
            (p, q), sign = m.args, 1 if m.op == ops.ADD else -1
            for n, s, other, t in ((p, 1, q, sign), (q, sign, p, 1)):
                if self._free(other, u) and self._free(n, n):
                    self._isolated_number(n, s, other, t, u, up)
                    return

    def _isolated_number(self, n: Node, s: int, other: Node, t: int, u: Node, up: bool) -> None:
        """Solve ``s * n + t * other <= u`` (``>=`` unless ``up``) for ``n``, with signs s and t and exact nodes."""
        above = up == (s > 0)
        # The cast of the other number is at most one step from its exact value, or two steps if it rounds twice.
        rises = above == (s * t < 0)
        image = beyond(beyond(cast_to(other, FLOAT64), rises), rises)
        bound = arith(ops.ADD if s * t < 0 else ops.SUB, u if s > 0 else negated(u), image)
        if above:
            self._emit(cast_to(n, FLOAT64), beyond(bound, True), False)
        else:
            self._emit(beyond(bound, False), cast_to(n, FLOAT64), True)

    def _each(self, e: Node, u: Node, up: bool) -> None:
        """Bound each argument of ``greatest(..) <= u`` or ``least(..) >= u``. These functions skip null arguments."""
        end = -math.inf if up else math.nan
        for a in e.args:
            if self.forms.sides(a) == BOTH_SIDES:
                continue
            self.bound(self._there(a, end), u, up, False)

    def _there(self, a: Node, end: float) -> Node:
        """Return the node as a double, with NULL replaced by ``end``."""
        image = cast_to(a, FLOAT64)
        return build.coalesce(image, number(end)) if self.forms.may_null(a) else image

    def _monotone(self, e: Node, u: Node) -> None:
        """Bound two-sided expressions in ``p + q <= u`` and ``greatest(..) - least(..) <= u``.

        In a sum, p is bounded if q is never negative, and the reverse. For ``greatest - least``, the difference of each
        pair of arguments is bounded in both directions.
        """
        p, q = e.args
        if e.op == ops.ADD:
            for part, other in ((p, q), (q, p)):
                if is_positive(other):
                    self.bound(part, u, True, False)  # part <= fl(p + q)
            return
        if p.op != ops.GREATEST or q.op != ops.LEAST:
            return
        for a in p.args:
            for b in q.args:
                if {self.forms.sides(a), self.forms.sides(b)} == {1, 2}:
                    high = self._there(b, math.inf)
                    more = arith(ops.ADD, beyond(u, True, e.type.bits), high)
                    self.bound(self._there(a, -math.inf), more, True, False)

    def _power(self, e: Node, u: Node) -> None:
        """Bound ``x`` in ``x ** n`` for a literal n, with a margin for rounding errors of math libraries."""
        n, x = constant_of(e.args[1]), constant_of(u)
        if n is None or x is None or not 1 <= n <= 64 or n != int(n) or not math.isfinite(x):
            return
        size = (abs(x) * (1 + 1e-12) + 1e-322) ** (1 / n) * (1 + 1e-12) + 1e-300
        if n % 2 == 0:
            if x >= 0:
                self._within(e.args[0], number(size), False)
        elif x >= 0:
            self.bound(e.args[0], number(size), True, False)
        else:
            least = max(0.0, abs(x) * (1 - 1e-12) - 1e-322) ** (1 / n) * (1 - 1e-12)
            self.bound(e.args[0], number(-least), True, False)

    def _ratio(self, e: Node, bound: Node, up: bool) -> None:
        """Bound ``x`` in ``x / y <= u`` and ``x * y <= u`` (``>=`` unless ``up``), for rows with a positive ``y``."""
        if e.op not in (ops.DIV, ops.MUL) or constant_of(bound) is None:
            return
        x, y = e.args
        if e.op == ops.MUL and self.forms.sides(y) == BOTH_SIDES:
            x, y = y, x
        if self.forms.sides(y) in (0, BOTH_SIDES):
            return
        y = wide(y)
        end = make(ops.MUL if e.op == ops.DIV else ops.DIV, (bound, y), (), FLOAT64)
        positive = make(ops.GT, (y, number(0.0)), (), BOOL)
        if not up:  # a quotient of infinities is NaN, which is not below a bound
            positive = build.and_(positive, make(ops.LT, (y, number(math.inf)), (), BOOL))
        bounded = build.if_(positive, end, number(math.nan))
        self.bound(x, bounded, up, not up)

    def _months(self, e: Node, u: Node, up: bool) -> None:
        """Bound the difference of month numbers, which differs from ``months_between`` by less than one."""
        x = constant_of(u)
        if x is None or not math.isfinite(x):
            return
        a, b = (make(ops.EXTRACT, (n,), ("month_number", e.params[0]), INT32) for n in e.args)
        end = Fraction(x) + (1 if up else -1)
        d = Form({a: 1, b: -1}, -end, -end)
        self.inequalities.append(Inequality(d if up else d.scaled(-1)))
