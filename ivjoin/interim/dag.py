"""The condition's DAG with a domain per node: bottom-up evaluation, top-down propagation, to a fixpoint with a cap."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from ivjoin.expr.nodes import Node, walk
from ivjoin.expr.types import BOOL
from ivjoin.interim import arith, convert, truth
from ivjoin.interim.domain import Dom

__all__ = ["Outcome", "contract_nodes", "forward"]

RULES = {**arith.RULES, **truth.RULES, **convert.RULES}
_MOST_PASSES = 8
TRUE = Dom(BOOL, 1, 1, False, False)


class Outcome(enum.Enum):
    """What a contraction found."""

    UNCHANGED = "unchanged"
    CONTRACTED = "contracted"
    INFEASIBLE = "infeasible"


def _literal(node: Node) -> Dom:
    value = node.params[0]
    if value is None:
        return Dom.empty(node.type, null=True)
    if node.type.kind == "bool":
        return Dom.of(node.type, int(value), int(value), False, False)
    if isinstance(value, float) and value != value:
        return Dom.empty(node.type, False, True)
    if isinstance(value, (int, float)):
        return Dom.of(node.type, value, value, False, False)
    return Dom(node.type, None, None, False, False)


def _up(node: Node, doms: Mapping[Node, Dom]) -> Dom:
    if node.op == "literal":
        return _literal(node)
    rule = RULES.get(node.op)
    if rule is None:
        return Dom.top(node.type)
    return rule[0](node, [doms[a] for a in node.args])


def forward(node: Node, known: Mapping[Node, Dom]) -> Dom:
    """The values a node can take when the nodes in ``known`` are within their domains.

    Known nodes are cut points: what stands below them is not looked at. A column that is not known is any value.
    """
    doms: dict[Node, Dom] = {}
    for n in walk(node):
        found = known.get(n)
        doms[n] = found if found is not None else _up(n, doms)
    return doms[node]


def contract_nodes(
    conjuncts: Sequence[Node], known: Mapping[Node, Dom], want: Sequence[Node]
) -> tuple[Outcome, dict[Node, Dom]]:
    """Propagate "every conjunct is TRUE" and return what is left of the wanted nodes' domains.

    Nodes in ``known`` are cut points: another occurrence of the columns below them stays independent, which is sound.
    """
    state = dict(known)
    order = _order(conjuncts, known, want)
    for n in want:
        if n not in order and n not in state:
            state[n] = Dom.top(n.type)
    if not _solve(list(conjuncts), order, state, set(known), depth=2):
        return Outcome.INFEASIBLE, {n: Dom.empty(n.type) for n in want}
    first = dict(known)
    _fill(order, first)
    changed = any(not state[n].same(first.get(n, Dom.top(n.type))) for n in want)
    return (Outcome.CONTRACTED if changed else Outcome.UNCHANGED), {n: state[n] for n in want}


def _order(conjuncts: Sequence[Node], known: Mapping[Node, Dom], want: Sequence[Node]) -> list[Node]:
    """Nodes in evaluation order, nothing below a cut point unless it is used elsewhere."""
    seen: dict[Node, None] = {}

    def visit(n: Node) -> None:
        if n in seen:
            return
        if n not in known:
            for a in n.args:
                visit(a)
        seen[n] = None

    for n in (*conjuncts, *want):
        visit(n)
    return list(seen)


def _fill(order: Sequence[Node], state: dict[Node, Dom]) -> None:
    for n in order:
        if n not in state:
            state[n] = _up(n, state)


def _solve(conjuncts: Sequence[Node], order: list[Node], state: dict[Node, Dom], cut: set[Node], depth: int) -> bool:
    """Contract in place; False when some conjunct cannot be TRUE."""
    _fill(order, state)
    for _ in range(_MOST_PASSES):
        for c in conjuncts:
            state[c] = state[c].meet(TRUE)
            if state[c].is_empty:
                return False
        moved = False
        for n in reversed(order):
            if n in cut or not n.args:
                continue
            out = state[n]
            rule = RULES.get(n.op)
            if rule is None:
                continue
            if n.op in ("or",) and depth > 0 and _must(out):
                ok, changed = _branches(n, order, state, cut, depth)
                if not ok:
                    return False
                moved |= changed
                continue
            args = [state[a] for a in n.args]
            for a, old, new in zip(n.args, args, rule[1](n, out, args), strict=True):
                met = state[a].meet(new)
                if not met.same(state[a]):
                    state[a] = met
                    moved = True
                    if met.is_nothing and _must_hold(n, conjuncts, state):
                        return False
        for n in order:
            if n in cut or n.op == "column":
                continue
            met = _up(n, state).meet(state[n])
            if not met.same(state[n]):
                state[n] = met
                moved = True
        for c in conjuncts:
            if not (not state[c].is_empty and state[c].hi == 1):
                return False
        if not moved:
            break
    return True


def _must(out: Dom) -> bool:
    return not out.is_empty and out.lo == 1 and not out.may_null


def _must_hold(n: Node, conjuncts: Sequence[Node], state: dict[Node, Dom]) -> bool:
    """Whether an empty argument of n refutes the conjunction: n lies in it only through strict operators."""
    return n in conjuncts and n.op not in ("or", "case", "coalesce", "in", "is_null", "eq_null_safe", "not")


def _branches(
    n: Node, order: list[Node], state: dict[Node, Dom], cut: set[Node], depth: int
) -> tuple[bool, bool]:
    """Constructive disjunction: the hull of what each branch, taken as TRUE, leaves."""
    hull: dict[Node, Dom] | None = None
    for branch in n.args:
        if state[branch].is_empty or state[branch].hi == 0:
            continue
        trial = dict(state)
        if not _solve([branch], order, trial, cut, depth - 1):
            continue
        leaves = {m: trial[m] for m in order if m.op == "column" or m in cut}
        if hull is None:
            hull = leaves
        else:
            hull = {m: d.join(leaves[m]) for m, d in hull.items()}
    if hull is None:
        return False, True
    moved = False
    for m, d in hull.items():
        met = state[m].meet(d)
        if not met.same(state[m]):
            state[m] = met
            moved = True
    return True, moved
