"""Compile a condition to a short list of checks on ordinals, which the probe evaluates for each pair.

A check tests the distance of two ordinals, or the range of one. Its result (TRUE, FALSE or NULL) selects the next
check. AND, OR, NOT, CASE and COALESCE therefore need no check of their own, and they are evaluated lazily. A check
cannot raise an error while the guards are true. Conditions that have no checks end in ``ASK``: for such a pair, the
condition itself is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from ivjoin.conditions.evaluate import constant
from ivjoin.conditions.strictness import may_err
from ivjoin.expr import build, ops
from ivjoin.expr.nodes import COMPARISONS, FLIPPED, NEGATED, Node, make, walk
from ivjoin.expr.ordinal import has_ordinal, ordinal_of
from ivjoin.expr.terms import BandTerm
from ivjoin.expr.types import BOOL, INT64
from ivjoin.functions.table import never_errs
from ivjoin.separation.linear import BOTH_SIDES, LEFT_SIDE, Box, Forms, guard_box
from ivjoin.separation.parts import FAR, Found, cut

__all__ = ["ASK", "FALSE", "TRUE", "Check", "Checks", "checks_of"]

_LEAST, _GREATEST = INT64.limits
#: Results of a pair. Any other number is the index of the next check.
TRUE, FALSE, ASK = -1, -2, -3
_MOST = 48  # checks
_MOST_NODES = 8  # nodes of one side, because their ordinals are stored
_MOST_ITEMS = 16  # items of an IN list
_DEEPEST = 64  # levels of two-sided expressions

_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class Check:
    """A test ``lo <= ordinal(left) - ordinal(right) <= hi``, or a range test of one node. None is an open end.

    The result is NULL if a node is NULL. ``true``, ``false`` and ``null`` are the next checks for each result.
    """

    left: Node | None
    right: Node | None
    lo: int | None
    hi: int | None
    true: int
    false: int
    null: int


@dataclass(frozen=True, slots=True)
class Checks:
    """The list of checks for pairs; empty if the condition must be evaluated for each pair.

    The checks decide the conjuncts in ``decided`` for every pair that reaches them. They are valid while one-sided
    values are in ``box``.
    """

    checks: tuple[Check, ...] = ()
    decided: frozenset[Node] = frozenset()
    box: Box = field(default_factory=dict)


class _TooManyError(Exception):
    pass


def checks_of(forms: Forms, conjuncts: Sequence[Node], exact: Callable[[Node], Found]) -> Checks:
    """Return the checks of conjuncts that read both sides, in source order.

    ``exact`` returns the bands of a comparison if they are equivalent to it.
    """
    found = _Checker(forms, exact)
    try:
        decided = [c for c in conjuncts if not found.asks(found.next(c, TRUE, FALSE, FALSE))]
        # Undecided conjuncts that cannot raise an error may be evaluated last.
        late = [c for c in conjuncts if c not in decided and not may_err(c)]
        arranged = [*(c for c in conjuncts if c not in late), *late]
        clean, unknown = TRUE, FALSE
        for c in reversed(arranged):
            clean, unknown = found.next(c, clean, FALSE, unknown), found.next(c, unknown, FALSE, unknown)
        listed = found.listed(clean)
    except _TooManyError:
        return Checks()
    if not listed:
        return Checks()
    return Checks(listed, frozenset(takewhile(decided.__contains__, arranged)), found.box)


class _Checker:
    def __init__(self, forms: Forms, exact: Callable[[Node], Found]) -> None:
        self._forms = forms
        self._exact = exact
        self._list: list[Check] = []
        self._checks: dict[Check, int] = {}
        self._known: dict[tuple[Node, int, int, int], int] = {}
        self._bands: dict[Node, list[BandTerm] | None] = {}
        self._nodes: tuple[set[Node], set[Node]] = (set(), set())
        self._depth = 0
        self.box: Box = {}

    # -- the list ----------------------------------------------------------------------------------------------------

    def asks(self, start: int) -> bool:
        """Return whether a pair that begins at this check may reach ASK."""
        return start == ASK or any(ASK in (c.true, c.false, c.null) for c in self._reached(start).values())

    def listed(self, start: int) -> tuple[Check, ...]:
        """Return the reachable checks, beginning with ``start``. The result may be empty."""
        reached = self._reached(start)
        if len(reached) > _MOST:
            raise _TooManyError
        place = {i: k for k, i in enumerate(reached)} | {i: i for i in (TRUE, FALSE, ASK)}
        return tuple(
            replace(c, true=place[c.true], false=place[c.false], null=place[c.null]) for c in reached.values()
        )

    def _reached(self, start: int) -> dict[int, Check]:
        out: dict[int, Check] = {}
        stack = [start]
        while stack:
            i = stack.pop()
            if i >= 0 and i not in out:
                c = out[i] = self._list[i]
                stack += (c.null, c.false, c.true)
        return out

    def _add(self, left: Node | None, right: Node | None, lo: int | None, hi: int | None, to: tuple[int, ...]) -> int:
        if len(set(to)) == 1:
            return to[0]
        then = self._list[to[0]] if to[0] >= 0 else None
        if then is not None and (left, right, *to[1:]) == (then.left, then.right, then.false, then.null):
            # Both checks are ends of one band, so merge them.
            lo = then.lo if lo is None else lo if then.lo is None else max(lo, then.lo)
            hi = then.hi if hi is None else hi if then.hi is None else min(hi, then.hi)
            return self._add(left, right, lo, hi, (then.true, *to[1:]))
        for node, nodes in zip((left, right), self._nodes, strict=True):
            if node is not None and node not in nodes:
                if len(nodes) == _MOST_NODES:
                    return ASK
                nodes.add(node)
        if (lo is not None and lo > _GREATEST) or (hi is not None and hi < _LEAST):
            lo, hi = 1, 0
        check = Check(left, right, lo, hi, *to)
        if check not in self._checks:
            if len(self._list) > 8 * _MOST:
                raise _TooManyError
            self._checks[check] = len(self._list)
            self._list.append(check)
        return self._checks[check]

    # -- nodes -------------------------------------------------------------------------------------------------------

    def next(self, e: Node, true: int, false: int, null: int) -> int:
        """Return the first check for ``e``. The value of ``e`` selects one of three next checks."""
        key = e, true, false, null
        found = self._known.get(key)
        if found is None:
            self._depth += 1
            if self._depth > _DEEPEST:
                raise _TooManyError
            found = self._known[key] = self._next(e, true, false, null)
            self._depth -= 1
        return found

    def _next(self, e: Node, true: int, false: int, null: int) -> int:
        if not self._forms.sides(e):
            value = _constant(e)
            return ASK if value is _UNKNOWN else null if value is None else true if value else false
        if e.op == ops.NOT:
            return self.next(e.args[0], false, true, null)
        if e.op == ops.AND:
            clean, unknown = true, null
            for a in reversed(_flat(e)):
                clean, unknown = self.next(a, clean, false, unknown), self.next(a, unknown, false, unknown)
            return clean
        if e.op == ops.OR:
            clean, unknown = false, null
            for a in reversed(_flat(e)):
                clean, unknown = self.next(a, true, clean, unknown), self.next(a, true, unknown, unknown)
            return clean
        if e.op == ops.CASE:
            *branches, out = e.args
            at = self.next(out, true, false, null)
            for when, then in zip(branches[-2::-2], branches[-1::-2], strict=True):
                at = self.next(when, self.next(then, true, false, null), at, at)
            return at
        if e.op == ops.COALESCE:
            at = null
            for a in reversed(e.args):
                at = self.next(a, true, false, at)
            return at
        if e.op == ops.IS_NULL and e.args[0].type == BOOL and self._forms.sides(e) == BOTH_SIDES:
            return self.next(e.args[0], false, false, true)
        if e.op == ops.IN and len(e.params) <= _MOST_ITEMS and has_ordinal(e.args[0].type):
            (x,) = e.args
            literals = (make("literal", (), (v,), x.type) for v in e.params)
            tests = build.or_(*(make(ops.EQ, (x, i), (), BOOL) for i in literals))
            return self.next(tests, true, false, null)
        if self._forms.sides(e) == BOTH_SIDES:
            return self._both(e, true, false, null)
        return self._one_sided(e, true, false, null)

    def _one_sided(self, e: Node, true: int, false: int, null: int) -> int:
        if not self._is_safe(e):
            return ASK
        if e.op == ops.IS_NULL and has_ordinal(e.args[0].type):
            return self._alone(e.args[0], None, None, false, false, true)
        if e.op in COMPARISONS:
            x, literal, op = *e.args, e.op
            if x.op == "literal":
                x, literal, op = literal, x, FLIPPED[op]
            if literal.op == "literal" and x.type == literal.type and has_ordinal(x.type):
                return self._against(x, op, literal, true, false, null)
        return self._alone(e, 1, 1, true, false, null)

    def _against(self, x: Node, op: str, literal: Node, true: int, false: int, null: int) -> int:
        if literal.params[0] is None:
            return self._alone(x, None, None, false, false, true) if op == ops.EQ_NULL_SAFE else null
        if op == ops.NE:
            return self._against(x, ops.EQ, literal, false, true, null)
        at = ordinal_of(literal.params[0], x.type)
        if op == ops.EQ_NULL_SAFE:
            return self._alone(x, at, at, true, false, false)
        lo, hi = ops.difference(op, 1)
        return self._alone(x, None if lo is None else at + lo, None if hi is None else at + hi, true, false, null)

    def _alone(self, n: Node, lo: int | None, hi: int | None, *to: int) -> int:
        left, right = (n, None) if self._forms.sides(n) == LEFT_SIDE else (None, n)
        return self._add(left, right, lo, hi, to)

    def _both(self, e: Node, true: int, false: int, null: int) -> int:
        if e.op not in COMPARISONS:
            return self._unknown(e, true, false, null)
        if e.op == ops.NE:
            return self.next(make(ops.EQ, e.args, (), BOOL), false, true, null)
        if e.op == ops.EQ_NULL_SAFE:
            return self._null_safe(e, true, false, null)
        a, b = e.args
        if any(n.op == "literal" and n.params[0] is None for n in (a, b)):
            return null if self._is_safe(e) else ASK
        if e.op == ops.EQ and b.op == "literal" and b.type == BOOL:
            return self.next(a, *((true, false) if b.params[0] else (false, true)), null)
        for case, compared in ((a, lambda v: (v, b)), (b, lambda v: (a, v))):
            if case.op == ops.CASE and self._forms.sides(case) == BOTH_SIDES:
                # A comparison with a CASE is a CASE of comparisons.
                args = [make(e.op, compared(x), (), BOOL) if i % 2 else x for i, x in enumerate(case.args[:-1])]
                last = make(e.op, compared(case.args[-1]), (), BOOL)
                return self.next(make(ops.CASE, (*args, last), (), BOOL), true, false, null)
        bands = self._meant(e)
        if bands is None and e.op in (ops.GT, ops.GE, ops.LT, ops.LE):
            bands = self._meant(make(NEGATED[e.op], e.args, (), BOOL))
            true, false = false, true
        if bands is None:
            return self._unknown(e, true, false, null)
        if len(bands) > 1 and false != null:
            return ASK
        for t in reversed(bands):
            true = self._add(t.left, t.right, t.lo, t.hi, (true, false, null))
        return true

    def _null_safe(self, e: Node, true: int, false: int, null: int) -> int:
        a, b = e.args
        if BOTH_SIDES in (self._forms.sides(a), self._forms.sides(b)) or not has_ordinal(a.type):
            return self._unknown(e, true, false, null)
        if not self._is_safe(a) or not self._is_safe(b):
            return ASK
        left, right = (a, b) if self._forms.sides(a) == LEFT_SIDE else (b, a)
        same = self._add(left, right, 0, 0, (true, false, false))
        present = self._add(None, right, None, None, (same, same, false))
        absent = self._add(None, right, None, None, (false, false, true))
        return self._add(left, None, None, None, (present, present, absent))

    def _unknown(self, e: Node, true: int, false: int, null: int) -> int:
        return true if true == false == null and not may_err(e) else ASK

    def _meant(self, e: Node) -> list[BandTerm] | None:
        """Return the bands that are equivalent to a comparison, or None."""
        if e not in self._bands:
            self._bands[e] = self._bands_of(e)
        return self._bands[e]

    def _bands_of(self, e: Node) -> list[BandTerm] | None:
        found = self._exact(e)
        if not found.bands or found.filters or not all(t.exact for t in found.bands):
            return None
        for t in found.bands:
            if not all(x is None or -FAR < x < FAR for x in (t.lo, t.hi)):
                return None
            if not has_ordinal(t.left.type) or not self._is_safe(t.left) or not self._is_safe(t.right):
                return None
        cut(self.box, found.box)
        cut(self.box, found.exact_box)
        return found.bands

    # -- errors ------------------------------------------------------------------------------------------------------

    def _is_safe(self, e: Node) -> bool:
        """Return whether guards can ensure that ``e`` raises no error, and add these guards."""
        sums = [n for n in walk(e) if not never_errs(n)]
        for n in sums:
            form = self._forms.form(n) if n.type.is_discrete else None
            if form is None or n in form.terms:
                return False
        box = guard_box(self._forms.limits(sums, frozenset()))
        if box is None:
            return False
        cut(self.box, box)
        return True


def _constant(e: Node) -> object:
    """Return the value of a constant (None for NULL), or ``_UNKNOWN`` if it raises an error or has no ordinal."""
    if e.op == "literal":
        return e.params[0]
    errs, value = constant(e)
    return value if not errs and has_ordinal(e.type) else _UNKNOWN


def _flat(e: Node) -> list[Node]:
    """Return the arguments of an ``and`` or ``or``, with nested nodes of the same operator flattened."""
    out, stack = [], [e]
    while stack:
        n = stack.pop()
        if n.op == e.op:
            stack.extend(reversed(n.args))
        else:
            out.append(n)
        if len(out) > 4 * _MOST:
            raise _TooManyError
    return out
