"""Relaxed band terms from comparisons of two-sided float expressions.

A machine operation rounds to nearest: if ``fl(x - y) <= u`` then ``x - y <= next_up(u)`` over the reals, so ``x <= y +
next_up(u)``. Rounding preserves the order and ``x`` is a float, so ``x <= fl(y + next_up(u))``. This also covers
overflow and subnormals. Every step here has this form, and its result is again a comparison.

NaN is the greatest value, so a NaN on the greater side makes a comparison TRUE. A *bound* that is NaN must bound
nothing: this is automatic on the greater side, and on the smaller side -inf replaces it. ``hazy`` marks a comparison
that is also true if the bounded expression is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import BOOL, FLOAT64, INT32
from ivjoin.separation.linear import BOTH_SIDES, Form, Forms
from ivjoin.separation.mixed import Inequality
from ivjoin.separation.onesided import cast_to, literal

__all__ = ["FloatBand", "Isolator", "never_nan", "plus_constant", "shift", "shifted_image"]

_PASSES_NAN = frozenset({"add", "sub", "mul", "div", "neg", "abs", "sqrt", "cast"})


@dataclass(frozen=True, slots=True)
class FloatBand:
    """``smaller <= greater``, two float64 nodes reading one side each."""

    smaller: Node
    greater: Node


def never_nan(op: str, a: Node, b: Node, known: Collection[Node]) -> list[Node]:
    """Return the float nodes that are null or not NaN if ``a op b`` is TRUE, given the ``known`` ones."""
    if op in ("gt", "ge"):
        a, b, op = b, a, {"gt": "lt", "ge": "le"}[op]
    out: list[Node] = []
    if op == "lt":
        stack = [a]
    elif op == "le":
        stack = [a] if _is_number(b, known) else []
    elif op == "eq":
        stack = [x for x, y in ((a, b), (b, a)) if _is_number(y, known)]
    else:
        stack = []
    while stack:
        n = stack.pop()
        if n.type.kind != "float" or n.op == "literal":
            continue
        out.append(n)
        if n.op in _PASSES_NAN:
            stack.extend(n.args)
        elif n.op == "greatest":
            # A null argument is skipped, so its own arguments are not limited.
            out += [x for x in n.args if x.type.kind == "float" and x.op != "literal"]
        elif n.op == "pow" and (_value(n.args[1]) or 0.0) != 0.0:
            stack.append(n.args[0])
    return out


def _is_number(n: Node, known: Collection[Node]) -> bool:
    if n.op == "literal":
        return n.params[0] is not None and n.params[0] == n.params[0]
    return n in known or (n.op == "cast" and n.args[0].type.kind in ("int", "decimal"))


# Bounds: float64 nodes, folded if they are literals. Python's floats are the machine's doubles.


def _value(n: Node) -> float | None:
    return float(n.params[0]) if n.op == "literal" and n.params[0] is not None else None


def _number(x: float) -> Node:
    return literal(float(x), FLOAT64)


def _neg(u: Node) -> Node:
    x = _value(u)
    return _number(-x) if x is not None else make("neg", (u,), (), FLOAT64)


def _arith(op: str, u: Node, v: Node) -> Node:
    x, y = _value(u), _value(v)
    if x is not None and y is not None:
        with np.errstate(all="ignore"):
            a, b = np.float64(x), np.float64(y)
            return _number(float(a + b if op == "add" else a - b if op == "sub" else a * b if op == "mul" else a / b))
    if op == "sub" and y is not None:
        op, v = "add", _number(-y)
    if op in ("add", "mul") and x is not None:
        # One form for a shifted expression, so that equal ones are one node.
        u, v = v, u
    return make(op, (u, v), (), FLOAT64)


def _beyond(u: Node, up: bool, bits: int = 64) -> Node:
    """Return a double at or above the next float of ``bits`` above ``u`` (mirrored if not ``up``)."""
    x = _value(u)
    to = math.inf if up else -math.inf
    if x is not None:
        return _number(math.nextafter(x, to) if bits == 64 else _narrow_step(x, to))
    if bits == 64:
        return make("next_up" if up else "next_down", (u,), (), FLOAT64)
    if not up:
        return _neg(_beyond(_neg(u), True, bits))
    # Farther than one float32 step at any magnitude, also for subnormals; the step from -inf is the least finite one.
    step = _arith("add", _arith("mul", make("abs", (u,), (), FLOAT64), _number(2.0**-22)), _number(2.0**-148))
    raised = make("next_up", (_arith("add", u, step),), (), FLOAT64)
    return make("greatest", (raised, _number(-float(np.finfo(np.float32).max))), (), FLOAT64)


def _narrow_step(x: float, to: float) -> float:
    # Float32 values not above x are not above its nearest float32, in either rounding direction.
    with np.errstate(all="ignore"):
        return float(np.nextafter(np.float32(x), np.float32(to)))


def shift(n: Node) -> tuple[Node, float]:
    """Return (base, k) with ``n = base + k`` as the machine computes it."""
    if n.op in ("add", "sub") and n.type == FLOAT64:
        a, b = n.args
        if n.op == "add" and _value(a) is not None:
            a, b = b, a
        k = _value(b)
        if k is not None and math.isfinite(k):
            return a, k if n.op == "add" else -k
    return n, 0.0


def plus_constant(n: Node, k: float) -> Node:
    """Return a node for ``n + k``, without the addition if it does not change the order."""
    return _arith("add", n, _number(k)) if k else n


def shifted_image(image: Node, k: Fraction, up: bool) -> Node:
    """Return a double >= (``up``) or <= the image of x + k, from the rounded image of an exact x."""
    shift_by = _beyond(_number(float(k)), up)
    moved = _arith("add", _beyond(_beyond(image, up), up), shift_by)
    return _beyond(_beyond(moved, up), up)


@dataclass(slots=True)
class Isolator:
    """Collect the consequences of one comparison."""

    forms: Forms
    known: Collection[Node]
    bands: list[FloatBand] = field(default_factory=list)
    inequalities: list[Inequality] = field(default_factory=list)

    def compare(self, op: str, a: Node, b: Node) -> None:
        """Derive bounds from ``a op b``, floats; at least one reads both sides."""
        if self.forms.sides(a) != BOTH_SIDES:
            a, b, op = b, a, {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(op, op)
        if self.forms.sides(b) == BOTH_SIDES:
            return
        u = cast_to(b, FLOAT64) if b.op != "literal" else b
        if b.op == "literal":
            if b.params[0] is None:
                return
            u = _number(b.params[0])
        exact = _value(u) is not None
        if op in ("lt", "le", "eq"):
            self.below(a, _beyond(u, up=False) if op == "lt" and exact else u, False)
        if op in ("gt", "ge", "eq"):
            bound = _beyond(u, up=True) if op == "gt" and exact else u
            self.above(a, bound, op != "eq" and a not in self.known)

    def _emit(self, smaller: Node, greater: Node, wrap: bool) -> None:
        forms = self.forms
        if {forms.sides(smaller), forms.sides(greater)} != {1, 2}:
            return
        smaller, greater = cast_to(smaller, FLOAT64), cast_to(greater, FLOAT64)
        if wrap and not self._is_real(smaller):
            nan = make("is_nan", (smaller,), (), BOOL)
            smaller = make("case", (nan, _number(-math.inf), smaller), (), FLOAT64)
        self.bands.append(FloatBand(smaller, greater))

    def _is_real(self, n: Node) -> bool:
        base, k = shift(n)
        base = base.args[0] if base.op == "cast" and base.args[0].type.kind == "float" else base
        return _is_number(base, self.known) and abs(k) < 1e300

    def _free(self, n: Node, u: Node) -> bool:
        """Return whether ``n`` and the bound together read at most one side."""
        return self.forms.sides(n) | self.forms.sides(u) != BOTH_SIDES

    def below(self, e: Node, u: Node, hazy: bool) -> None:
        """Derive bands from ``e <= u``. With ``hazy``, ``e`` may also be NaN. A NaN ``u`` bounds nothing."""
        x = _value(u)
        if x is not None and (math.isnan(x) or x == math.inf):
            return
        if self.forms.sides(e) != BOTH_SIDES:
            self._emit(e, u, hazy)
            return
        if e.type.kind != "float":
            self._discrete(e, u, up=True)
            return
        more = _beyond(u, True, e.type.bits)
        if _value(more) == math.inf:
            return
        if e.op in ("add", "sub"):
            p, q = e.args
            if self._free(q, u):
                self.below(p, _arith("sub" if e.op == "add" else "add", more, _wide(q)), hazy)
            elif self._free(p, u):
                if e.op == "add":
                    self.below(q, _arith("sub", more, _wide(p)), hazy)
                else:
                    self.above(q, _arith("sub", _wide(p), more), hazy)
            elif e.op == "add" and not hazy:
                # p <= fl(p + q) <= u for a q that is not negative.
                for part, other in ((p, q), (q, p)):
                    if _is_positive(other):
                        self.below(part, u, False)
            elif not hazy:
                self._monotone(e, u)
        elif e.op == "abs":
            self.below(e.args[0], u, hazy)
            self.above(e.args[0], _neg(u), hazy)
        elif e.op == "greatest" and not hazy:
            self._each(e, u, up=True)
        elif e.op == "mul" and e.args[0] is e.args[1]:
            root = _root(more)
            self.below(e.args[0], root, hazy)
            self.above(e.args[0], _neg(root), hazy)
        elif e.op == "pow" and not hazy:
            self._power(e, u)
        elif e.op == "sqrt":
            if x is None or x >= 0:
                self.below(e.args[0], _arith("mul", more, more), hazy)
        elif e.op == "months_between":
            self._months(e, u, up=True)
        elif not self._scaled(e, more, hazy, up=True) and not hazy:
            self._ratio(e, more, up=True)

    def above(self, e: Node, u: Node, hazy: bool) -> None:
        """Derive bands from ``e >= u``. With ``hazy``, ``e`` may also be NaN. A NaN ``u`` bounds nothing."""
        x = _value(u)
        if x is not None and (math.isnan(x) or x == -math.inf):
            return
        if self.forms.sides(e) != BOTH_SIDES:
            self._emit(u, e, True)
            return
        if e.type.kind != "float":
            self._discrete(e, u, up=False)
            return
        less = _beyond(u, False, e.type.bits)
        if _value(less) == -math.inf:
            return
        if e.op in ("add", "sub"):
            p, q = e.args
            if self._free(q, u):
                self.above(p, _arith("sub" if e.op == "add" else "add", less, _wide(q)), hazy)
            elif self._free(p, u):
                if e.op == "add":
                    self.above(q, _arith("sub", less, _wide(p)), hazy)
                else:
                    self.below(q, _arith("sub", _wide(p), less), hazy)
        elif e.op == "least":
            self._each(e, u, up=False)
        elif e.op == "months_between":
            self._months(e, u, up=False)
        elif not self._scaled(e, less, hazy, up=False):
            self._ratio(e, less, up=False)

    def _scaled(self, e: Node, bound: Node, hazy: bool, up: bool) -> bool:
        """Handle negation, widening, and a constant factor or divisor."""
        if e.op == "neg":
            # Exact: the additional step of the bound is not needed, but still correct.
            (self.above if up else self.below)(e.args[0], _neg(bound), hazy)
            return True
        if e.op == "cast":
            inner = e.args[0]
            if inner.type.kind not in ("float", "int", "decimal"):
                return False
            (self.below if up else self.above)(inner, bound, hazy)
            return True
        if e.op not in ("mul", "div"):
            return False
        p, q = e.args
        if e.op == "mul" and _value(p) is not None:
            p, q = q, p
        k = _value(q)
        if k is None or not math.isfinite(k) or k == 0:
            return False
        new = _arith("div" if e.op == "mul" else "mul", bound, _number(k))
        (self.below if (k > 0) == up else self.above)(p, new, hazy)
        return True

    def _discrete(self, m: Node, u: Node, up: bool) -> None:
        """Derive a bound of an exact number that the condition rounds to a float."""
        u = _beyond(u, up)
        x = _value(u)
        if x is not None:
            form = self.forms.form(m)
            if form is None or not math.isfinite(x):
                return
            end = Fraction(x)
            d = form.plus(Form({}, end, end), -1)
            self.inequalities.append(Inequality(d if up else d.scaled(-1)))
        elif m.op in ("add", "sub") and m.type.kind in ("int", "decimal"):
            (p, q), sign = m.args, 1 if m.op == "add" else -1
            for n, s, other, t in ((p, 1, q, sign), (q, sign, p, 1)):
                if self._free(other, u) and self._free(n, n):
                    self._isolated_number(n, s, other, t, u, up)
                    return

    def _isolated_number(self, n: Node, s: int, other: Node, t: int, u: Node, up: bool) -> None:
        """Solve ``s * n + t * other <= u`` (>= unless ``up``) for ``n``; exact numbers and signs s, t."""
        above = up == (s > 0)
        # The rounded image of the other number is at most one step from it; two steps if a cast rounds twice.
        rises = above == (s * t < 0)
        image = _beyond(_beyond(cast_to(other, FLOAT64), rises), rises)
        bound = _arith("add" if s * t < 0 else "sub", u if s > 0 else _neg(u), image)
        if above:
            self._emit(cast_to(n, FLOAT64), _beyond(bound, True), False)
        else:
            self._emit(_beyond(bound, False), cast_to(n, FLOAT64), True)

    def _each(self, e: Node, u: Node, up: bool) -> None:
        """Bound each argument of ``greatest(..) <= u`` or ``least(..) >= u``; a null argument is skipped."""
        end = -math.inf if up else math.nan
        for a in e.args:
            if self.forms.sides(a) == BOTH_SIDES:
                continue
            (self.below if up else self.above)(self._there(a, end), u, False)

    def _there(self, a: Node, end: float) -> Node:
        """Return a double that is ``end`` if the node is NULL."""
        image = cast_to(a, FLOAT64)
        return make("coalesce", (image, _number(end)), (), FLOAT64) if self.forms.may_null(a) else image

    def _monotone(self, e: Node, u: Node) -> None:
        """Bound each pair of arguments of ``greatest(..) - least(..) <= u``, in both directions."""
        p, q = e.args
        if p.op != "greatest" or q.op != "least":
            return
        for a in p.args:
            for b in q.args:
                if {self.forms.sides(a), self.forms.sides(b)} == {1, 2}:
                    high = self._there(b, math.inf)
                    self.below(
                        self._there(a, -math.inf), _arith("add", _beyond(u, True, e.type.bits), high), False
                    )

    def _power(self, e: Node, u: Node) -> None:
        """Bound ``x`` in ``x ** n`` for a literal n, with a margin for the rounding of math libraries."""
        n, x = _value(e.args[1]), _value(u)
        if n is None or x is None or not 1 <= n <= 64 or n != int(n) or not math.isfinite(x):
            return
        size = (abs(x) * (1 + 1e-12) + 1e-322) ** (1 / n) * (1 + 1e-12) + 1e-300
        if n % 2 == 0:
            if x >= 0:
                self.below(e.args[0], _number(size), False)
                self.above(e.args[0], _number(-size), False)
        elif x >= 0:
            self.below(e.args[0], _number(size), False)
        else:
            least = max(0.0, abs(x) * (1 - 1e-12) - 1e-322) ** (1 / n) * (1 - 1e-12)
            self.below(e.args[0], _number(-least), False)

    def _ratio(self, e: Node, bound: Node, up: bool) -> None:
        """Bound ``x`` in ``x / y <= u`` and ``x * y <= u``, or >=, for rows with a positive ``y``."""
        if e.op not in ("div", "mul") or _value(bound) is None:
            return
        x, y = e.args
        if e.op == "mul" and self.forms.sides(y) == BOTH_SIDES:
            x, y = y, x
        if self.forms.sides(y) in (0, BOTH_SIDES):
            return
        y = _wide(y)
        end = make("mul" if e.op == "div" else "div", (bound, y), (), FLOAT64)
        positive = make("gt", (y, _number(0.0)), (), BOOL)
        if not up:  # a quotient of infinities is NaN, which is not below a bound
            positive = make("and", (positive, make("lt", (y, _number(math.inf)), (), BOOL)), (), BOOL)
        bounded = make("case", (positive, end, _number(math.nan)), (), FLOAT64)
        if up:
            self.below(x, bounded, False)
        else:
            self.above(x, bounded, True)

    def _months(self, e: Node, u: Node, up: bool) -> None:
        """Bound the difference of month numbers: it differs from ``months_between`` by less than one."""
        x = _value(u)
        if x is None or not math.isfinite(x):
            return
        a, b = (make("extract", (n,), ("month_number", e.params[0]), INT32) for n in e.args)
        end = Fraction(x) + (1 if up else -1)
        d = Form({a: 1, b: -1}, -end, -end)
        self.inequalities.append(Inequality(d if up else d.scaled(-1)))


def _wide(n: Node) -> Node:
    """Return the node as a double; NaN for a NULL, which bounds nothing."""
    if n.op != "literal":
        return cast_to(n, FLOAT64)
    return _number(math.nan if n.params[0] is None else n.params[0])


def _root(u: Node) -> Node:
    x = _value(u)
    if x is None:
        return make("sqrt", (u,), (), FLOAT64)
    return _number(math.sqrt(x)) if x >= 0 else _number(math.nan)


def _is_positive(n: Node) -> bool:
    """Return whether the expression is never negative (it may be NaN)."""
    if n.op in ("abs", "sqrt"):
        return True
    if n.op == "pow":
        k = _value(n.args[1])
        return k is not None and k > 0 and k % 2 == 0
    if n.op in ("add", "div"):
        return all(_is_positive(a) or (_value(a) or -1.0) > 0 for a in n.args)
    if n.op == "mul":
        return n.args[0] is n.args[1] or all(_is_positive(a) or (_value(a) or -1.0) > 0 for a in n.args)
    if n.op == "cast":
        return n.args[0].op == "abs" or _is_positive(n.args[0])
    return False


