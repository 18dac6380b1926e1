"""Explain an error in a row: find the innermost sub-expression that fails, and the values that it read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, columns_of

__all__ = ["describe"]

_FARTHER = (
    ", whose range ends in the year 2262 (compare in microseconds: CAST the times in nanoseconds AS TIMESTAMP{})"
)
# A probe returns whether a node has an error in the row, and its value there (None for NULL).
Probe = Callable[[Node], tuple[bool, Any]]


def describe(root: Node, probe: Probe, shown: Callable[[Node], str]) -> str:
    """Return the explanation for the row that ``probe`` reads. ``shown`` returns the value of a column as text."""
    node = root
    while True:
        guilty = _guilty(node, probe)
        if guilty is None:
            break
        node = guilty
    columns = columns_of(node)
    at = ", ".join(f"{c} = {shown(c)}" for c in columns)
    return f"{_what(node, probe)} in {node} ({node.type}){' at ' if at else ''}{at}"


def _guilty(node: Node, probe: Probe) -> Node | None:
    """Return the argument that causes the error of a node, or None."""
    if node.op != ops.CASE:
        return next((a for a in node.args if probe(a)[0]), None)
    for i in range(0, len(node.args) - 1, 2):
        errs, true = probe(node.args[i])
        if errs:
            return node.args[i]
        if true:
            return node.args[i + 1]
    return node.args[-1]


def _what(node: Node, probe: Probe) -> str:
    op, t = node.op, node.type
    if op == ops.CAST:
        short = t.kind == "timestamp" and t.unit == "ns" != node.args[0].type.unit
        return f"the value cannot be cast to {t}{_FARTHER.format('' if t.tz else '_NTZ') if short else ''}"
    if op in (ops.DIV, ops.INTDIV, ops.MOD, ops.PMOD) and probe(node.args[1])[1] == 0:
        return "division by zero"
    if op in (ops.LIKE_COLUMN, ops.RLIKE_COLUMN):
        return "a pattern that cannot be read"
    kind = {"int": "integer", "decimal": "decimal"}.get(t.kind, t.kind)
    return f"{kind} overflow"
