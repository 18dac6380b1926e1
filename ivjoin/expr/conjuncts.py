"""Split a condition into conjuncts, with NOT pushed down to the leaves."""

from __future__ import annotations

from ivjoin.expr import ops
from ivjoin.expr.nodes import NEGATED, Node, make
from ivjoin.expr.types import BOOL

__all__ = ["conjuncts_of", "flattened", "is_literal"]


def is_literal(n: Node, value: object) -> bool:
    """Return whether ``n`` is the literal ``value``: True, False or None."""
    return n.op == "literal" and n.params[0] is value


def _negation(n: Node) -> Node:
    """Return NOT n with the negation moved toward the leaves. The three-valued result and errors are the same."""
    if n.op == ops.NOT:
        return n.args[0]
    if n.op in NEGATED:
        # This is also correct for floats, because Spark's order is total: NaN is the greatest value and equals itself.
        return make(NEGATED[n.op], n.args, (), BOOL)
    if n.op in (ops.AND, ops.OR):
        negated = tuple(make(ops.NOT, (a,), (), BOOL) for a in n.args)
        return make(ops.OR if n.op == ops.AND else ops.AND, negated, (), BOOL)
    if n.op == "literal" and n.type == BOOL and n.params[0] is not None:
        return make("literal", (), (not n.params[0],), BOOL)
    return make(ops.NOT, (n,), (), BOOL)


def _simpler(n: Node) -> Node:
    """Simplify ``n``. The result is TRUE and raises errors for the same pairs, but may exchange FALSE and NULL."""
    while True:
        if n.op == ops.NOT:
            new = _negation(n.args[0])
        elif n.op == ops.COALESCE and len(n.args) == 2 and is_literal(n.args[1], False):
            new = n.args[0]
        elif n.op in (ops.EQ, ops.EQ_NULL_SAFE):
            a, b = n.args
            if is_literal(a, True) or is_literal(a, False):
                a, b = b, a
            if is_literal(b, True):
                new = a
            elif is_literal(b, False):
                # NULL = FALSE is NULL, NULL <=> FALSE is FALSE, and NOT NULL is NULL. None of them is TRUE.
                new = make(ops.NOT, (a,), (), BOOL)
            else:
                return n
        else:
            return n
        if new is n:
            return n
        n = new


def flattened(op: str, root: Node) -> list[Node]:
    """Return the distinct, simplified arguments of a tree of ``and`` or ``or`` nodes, in order."""
    out: dict[Node, None] = {}
    stack = [root]
    while stack:
        n = _simpler(stack.pop())
        if n.op == op:
            stack.extend(reversed(n.args))
        else:
            out.setdefault(n)
    return list(out)


def conjuncts_of(condition: Node | None) -> list[Node]:
    """Return the conjuncts of a condition in source order, with NOT pushed down to the leaves."""
    return [] if condition is None else flattened(ops.AND, condition)
