"""Find how the operators of a condition handle NULLs and errors."""

from __future__ import annotations

from collections.abc import Iterable

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, walk
from ivjoin.functions.table import never_errs, passes_null, skips_null

__all__ = ["may_err", "skips_nulls", "strict"]


def skips_nulls(nodes: Iterable[Node]) -> bool:
    """Return whether an expression contains an operator that skips NULLs."""
    return any(map(skips_null, walk(*nodes)))


def may_err(root: Node) -> bool:
    """Return whether the expression raises an error for some values of its columns."""
    return not all(map(never_errs, walk(root)))


def strict(conjuncts: Iterable[Node]) -> frozenset[Node]:
    """Return nodes without which no match exists: if one of them raises an error, the conjuncts are not all TRUE."""
    found: set[Node] = set()
    stack = list(conjuncts)
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        if node.op == ops.EQ_NULL_SAFE:
            # Inside the arguments, a NULL can hide an error, and NULL <=> NULL is TRUE.
            found.update(node.args)
        elif passes_null(node):
            stack += node.args
    return frozenset(found)
