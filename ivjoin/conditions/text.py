"""Write expressions as readable, SQL-like text."""

from __future__ import annotations

from ivjoin.expr import ops
from ivjoin.expr.nodes import LEFT, RIGHT, Node, walk
from ivjoin.expr.words import literal_text, quoted
from ivjoin.functions.records.writing import ATOM, MUL, UNARY
from ivjoin.functions.table import operator_of

__all__ = ["MUL", "to_text"]


def to_text(node: Node, level: int = 0) -> str:
    """Return SQL-like text of an expression. It has parentheses if its precedence is below ``level``."""
    done: dict[Node, tuple[str, int]] = {}
    for n in walk(node):
        done[n] = _text(n, done)
    text, own = done[node]
    return f"({text})" if own < level else text


def _text(n: Node, done: dict[Node, tuple[str, int]]) -> tuple[str, int]:
    def arg(i: int, level: int = 0) -> str:
        text, own = done[n.args[i]]
        return f"({text})" if own < level else text

    if n.op == "column":
        side, name = n.params
        return f"{side[0] if side in (LEFT, RIGHT) else quoted(side)}.{quoted(name)}", ATOM
    if n.op == "literal":
        text = literal_text(n.params[0], n.type)
        return text, UNARY if text.startswith("-") else ATOM
    if n.op == ops.CAST and n.type == n.args[0].type:
        return done[n.args[0]]  # a comparison added this cast, and will add it again when the text is read
    operator = operator_of(n)
    if operator is None:
        return f"{n.op}({', '.join(arg(i) for i in range(len(n.args)))})", ATOM
    return operator.text(n, arg)
