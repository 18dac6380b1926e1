"""What the operators of a condition do with NULL and with errors."""

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
    """Return whether some values of its columns give the expression an error."""
    return not all(map(never_errs, walk(root)))


def strict(conjuncts: Iterable[Node]) -> frozenset[Node]:
    """Return the nodes whose error implies that not all conjuncts are TRUE."""
    found: set[Node] = set()
    stack = list(conjuncts)
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        if node.op == ops.EQ_NULL_SAFE:
            # below these, a null argument can hide an error, and null <=> null is TRUE
            found.update(node.args)
        elif passes_null(node):
            stack += node.args
    return frozenset(found)
