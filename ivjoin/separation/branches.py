"""Find bands for OR, CASE and COALESCE, which are TRUE if one of several alternatives is TRUE.

If all alternatives have a band over the same two nodes, the widest of these bands holds for the whole condition. An
alternative that reads only one side shows which rows the band does not limit. For example, if ``r.b IS NULL OR
l.t < r.b`` is TRUE for a pair, then ``l.t <= coalesce(r.b, greatest value)``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace

from ivjoin.expr import build, ops
from ivjoin.expr.conjuncts import flattened, is_literal
from ivjoin.expr.nodes import COMPARISONS, Node, make
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.terms import BandTerm
from ivjoin.expr.types import BOOL, FLOAT64, Type
from ivjoin.functions.table import passes_null
from ivjoin.separation.float_bounds import plus_constant, shift
from ivjoin.separation.linear import BOTH_SIDES, Forms
from ivjoin.separation.onesided import literal
from ivjoin.separation.parts import merged

__all__ = ["Branch", "alternatives_of", "compared_by_branch", "either", "hull", "present_in"]

_TRUE = make("literal", (), (True,), BOOL)
_MOST_BRANCHES = 16
_STRICT_COMPARISONS = COMPARISONS - {ops.EQ_NULL_SAFE}

@dataclass(frozen=True, slots=True)
class Branch:
    """The bands of one alternative, and its conjuncts that read only one side."""

    bands: list[BandTerm]
    left: list[Node]
    right: list[Node]


def alternatives_of(forms: Forms, c: Node) -> list[Node] | None:
    """Return alternatives of ``c``: if ``c`` is TRUE, at least one of them is TRUE. None for other operators."""
    if c.op == ops.OR:
        return flattened(ops.OR, c)
    if c.op == ops.CASE:
        return _by_case(forms, c, lambda v: v)
    if c.op == ops.COALESCE:
        return _by_coalesce(forms, c, lambda v: v)
    return None


def compared_by_branch(forms: Forms, op: str, choice: Node, other: Node) -> list[Node] | None:
    """Return the alternatives of ``choice op other``, where ``choice`` is a CASE or COALESCE. None if too many."""
    split = _by_case if choice.op == ops.CASE else _by_coalesce
    tests = split(forms, choice, lambda v: _compared(op, v, other))
    return tests if len(tests) <= _MOST_BRANCHES else None


def _by_case(forms: Forms, case: Node, test: Callable[[Node], Node]) -> list[Node]:
    """Return an alternative for each branch of a CASE: its WHEN and ``test`` of its value.

    The alternative of a branch also contains the negations of earlier one-sided WHEN conditions.
    """
    out: list[Node] = []
    before: list[Node] = []
    for when, then in zip(case.args[:-1:2], case.args[1::2], strict=True):
        out.append(_joined((*before, when, test(then))))
        if forms.sides(when) != BOTH_SIDES:
            before.append(_not_true(when))
    return [*out, _joined((*before, test(case.args[-1])))]


def _by_coalesce(forms: Forms, c: Node, test: Callable[[Node], Node]) -> list[Node]:
    """Return alternatives for each argument of a COALESCE: ``test`` of it, if the arguments before it are NULL."""
    out: list[Node] = []
    before: list[tuple[Node, ...]] = [()]
    for a in c.args:
        out += [_joined((*absent, test(a))) for absent in before]
        cases = _null_cases(forms, a)
        if cases is not None:
            before = [(*absent, n) for absent in before for n in cases]
        if len(before) > _MOST_BRANCHES:
            before = [()]
    return out


def _null_cases(forms: Forms, e: Node) -> list[Node] | None:
    """Return one-sided conditions: if ``e`` is NULL, at least one of them is TRUE. None if they are unknown."""
    if e.op == "literal":
        return [_TRUE] if e.params[0] is None else []
    if e.op in (ops.IS_NULL, ops.IS_NAN, ops.EQ_NULL_SAFE):
        return []
    if forms.sides(e) != BOTH_SIDES:
        return [build.is_null(e)]
    # AND and OR are NULL only if an argument is.
    if e.op not in (ops.AND, ops.OR) and not passes_null(e):
        return None
    out: list[Node] = []
    for a in e.args:
        found = _null_cases(forms, a)
        if found is None:
            return None
        out += found
    return list(dict.fromkeys(out))


def _not_true(n: Node) -> Node:
    """Return a condition that is TRUE if ``n`` is FALSE or NULL."""
    if n.op == ops.NOT and n.args[0].op == ops.IS_NULL:
        return n.args[0]
    return build.not_(n if n.op in (ops.IS_NULL, ops.IS_NAN) else build.coalesce(n, literal(False, BOOL)))


def _joined(parts: Iterable[Node]) -> Node:
    """Return the conjunction of conditions. Literals TRUE are dropped; a literal FALSE or NULL is the whole result."""
    kept = [p for p in dict.fromkeys(parts) if not is_literal(p, True)]
    for p in kept:
        if p.op == "literal":
            return p
    return build.and_(*kept)


def either(filters: Sequence[Node]) -> list[Node]:
    """Return the disjunction of conditions as a list of one node; an empty list if it is always TRUE."""
    distinct = dict.fromkeys(filters)
    if any(_not_true(f) in distinct for f in distinct):
        return []
    return [build.or_(*distinct)]


def _compared(op: str, a: Node, b: Node) -> Node:
    if a.op == b.op == "literal" and a.type.is_discrete:
        x, y = a.params[0], b.params[0]
        decided = None if x is None or y is None else getattr(operator, op)(x, y)
        return make("literal", (), (decided,), BOOL)
    return make(op, (a, b), (), BOOL)


# -- bands of all branches ---------------------------------------------------------------------------------------------


def present_in(conjuncts: Iterable[Node]) -> set[Node]:
    """Return the nodes that are not NULL if every conjunct is TRUE."""
    out: set[Node] = set()
    stack = [c.args[0].args[0] for c in conjuncts if c.op == ops.NOT and c.args[0].op == ops.IS_NULL]
    stack += [a for c in conjuncts if c.op in _STRICT_COMPARISONS for a in c.args]
    while stack:
        n = stack.pop()
        if n not in out:
            out.add(n)
            stack += n.args if passes_null(n) else ()
    return out


def hull(branches: Sequence[Branch], source: Node, present: Container[Node] = ()) -> list[BandTerm]:
    """Return relaxed band terms that are true if any branch is true.

    A branch without a band over the two nodes allows every pair of its rows. For these rows, an end of the type
    replaces the value of one node. ``present`` are nodes that are not NULL if the whole condition is TRUE.
    """
    tables = [{(t.left, t.right): t for t in merged(b.bands)} for b in branches]
    out: list[BandTerm] = []
    for pair in dict.fromkeys(p for table in tables for p in table):
        same = [table[pair] for table in tables if pair in table]
        lo = None if any(x.lo is None for x in same) else min(x.lo for x in same if x.lo is not None)
        hi = None if any(x.hi is None for x in same) else max(x.hi for x in same if x.hi is not None)
        rest = [b for b, table in zip(branches, tables, strict=True) if pair not in table]
        out += _passing(BandTerm(*pair, lo, hi, False, source), rest, present)
    banded = [b for b in branches if b.bands]
    if banded:
        rest = [b for b in branches if not b.bands]
        out += [t for term in _float_hull([b.bands for b in banded], source) for t in _passing(term, rest, present)]
    return merged(out)


def _passing(t: BandTerm, rest: Sequence[Branch], present: Container[Node]) -> list[BandTerm]:
    """Widen a term so that it is also true for all rows of the branches in ``rest``; empty if that is impossible."""
    if not rest:
        return [t]
    if not has_ordinal(t.left.type) or t.left.type == BOOL:
        return []
    on_left: list[Node] = []
    on_right: list[Node] = []
    for b in rest:
        if not b.left and not b.right:
            return []
        by_right = bool(b.right) and (not b.left or not _tells(b.left, t.left) or _tells(b.right, t.right))
        (on_right if by_right else on_left).append(_joined(b.right if by_right else b.left))
    # A row that passes by a branch of one side also matches rows of the other side whose node is NULL.
    for node, own, others in ((t.left, on_left, on_right), (t.right, on_right, on_left)):
        if others and node not in present and not any(_tells([c], node) for c in own):
            own.append(build.is_null(node))
    out = []
    for top in (False, True):
        end = t.hi if top else t.lo
        if end is not None:
            left, right = _ended(t.left, on_left, not top), _ended(t.right, on_right, top)
            lo, hi = (None, max(end, 0)) if top else (min(end, 0), None)
            out.append(replace(t, left=left, right=right, lo=lo, hi=hi))
    return out


def _tells(conjuncts: Sequence[Node], node: Node) -> bool:
    """Return whether a conjunct is ``node IS NULL``."""
    return any(c.op == ops.IS_NULL and c.args[0] is node for c in conjuncts)


def _ended(node: Node, conditions: Sequence[Node], top: bool) -> Node:
    """Return an expression: ``node``, or the greatest or least value of its type if one of the conditions is TRUE."""
    if not conditions:
        return node
    end = literal(_end(node.type, top), node.type)
    if len(conditions) == 1 and conditions[0].op == ops.IS_NULL and conditions[0].args[0] is node:
        return build.coalesce(node, end)
    return build.if_(build.or_(*dict.fromkeys(conditions)), end, node)


def _end(t: Type, top: bool) -> float | int:
    if t.kind == "float":
        return float("nan") if top else float("-inf")
    return t.limits[top]


def _float_hull(branches: list[list[BandTerm]], source: Node) -> list[BandTerm]:
    """Merge terms such as ``x <= y + 3`` and ``x <= y + 8`` of several branches.

    A greater constant never gives a smaller rounded sum.
    """
    tables = []
    for terms in branches:
        table: dict[tuple[Node, Node, bool, bool], float] = {}
        for t in terms:
            if t.left.type != FLOAT64:
                continue
            (x, i), (y, j) = shift(t.left), shift(t.right)
            for upper, bound in ((True, t.hi), (False, t.lo)):
                if bound is None:
                    continue
                # The constant may be on either side. Terms are comparable if their other sides are the same node.
                for on_left, key, k in ((False, (t.left, y, upper, False), j), (True, (x, t.right, upper, True), i)):
                    larger = upper != on_left
                    old = table.get(key, k)
                    table[key] = min(old, k) if larger else max(old, k)
        tables.append(table)
    out = []
    done: set[tuple[Node, Node, bool]] = set()
    for key in tables[0]:
        if not all(key in t for t in tables):
            continue
        a, b, upper, on_left = key
        constants = [t[key] for t in tables]
        k = max(constants) if upper != on_left else min(constants)
        left, right = (plus_constant(a, k), b) if on_left else (a, plus_constant(b, k))
        if (left, right, upper) not in done:
            done.add((left, right, upper))
            out.append(BandTerm(left, right, None if upper else 0, 0 if upper else None, False, source))
    return out
