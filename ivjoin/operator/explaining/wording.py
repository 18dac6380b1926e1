"""Write expressions, bands and intervals as the user wrote them. Only explanations use this.

A rewrite adds parts that an explanation omits: the neighbouring double that rounding needs, and the cast to a common
type. It also adds a branch that retains a NaN or a row that passes the band.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from ivjoin.conditions.text import MUL, to_text
from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, make, walk
from ivjoin.expr.ordinal import has_ordinal, ordinal_of
from ivjoin.expr.terms import BandTerm
from ivjoin.expr.types import TICKS_PER_SECOND, Type
from ivjoin.frontier.order import ordinal_range, shown

__all__ = ["band_said", "domain_said", "label", "listed", "said"]

_SYMBOLS = {
    ops.ADD: "+", ops.SUB: "-", ops.MUL: "*", ops.DIV: "/", ops.INTDIV: "div", ops.MOD: "%", ops.NEG: "-",
    ops.DATE_DIFF: "-", ops.EQ: "=", ops.NE: "<>", ops.LT: "<", ops.LE: "<=", ops.GT: ">", ops.GE: ">=",
    ops.EQ_NULL_SAFE: "<=>", ops.AND: "AND", ops.OR: "OR", ops.NOT: "NOT",
}  # fmt: skip
_TYPED = re.compile(r"\bTIMESTAMP(?:_NTZ)? (?=')|\bDATE (?=')")
_DOUBLE = re.compile(r"(?<=\d)D\b")


def said(node: Node, level: int = 0) -> str:
    """Return an expression as text, in parentheses if it binds less tightly than ``level``."""
    done: dict[Node, Node] = {}
    for n in walk(node):
        done[n] = _plain(n, tuple(done[a] for a in n.args))
    return _TYPED.sub("", _DOUBLE.sub("", to_text(done[node], level)))


def _plain(n: Node, args: tuple[Node, ...]) -> Node:
    if n.op in (ops.NEXT_UP, ops.NEXT_DOWN):
        return args[0]
    if n.op == ops.ATTEMPT:  # the last argument is the expression to try, which identifies the attempt
        tried = n.args[-1]
        return make(n.op, (*args[:-1], make(tried.op, args[:-1], tried.params, tried.type)), n.params, n.type)
    if n.op == ops.CAST and n.type.is_numeric and args[0].type.is_numeric:
        return args[0]
    if n.op == ops.COALESCE and len(args) == 2 and _is_edge(args[1]):
        return args[0]
    if n.op == ops.CASE:
        values = [v for v in (*args[1:-1:2], args[-1]) if not _is_edge(v)]
        if len(set(values)) == 1:
            return values[0]
    if n.op == ops.ADD and len(args) == 2:
        a, b = args
        if a.op == ops.NEG and b.op != ops.NEG:
            return make(ops.SUB, (b, a.args[0]), n.params, n.type)
        if b.op == ops.NEG:
            return make(ops.SUB, (a, b.args[0]), n.params, n.type)
        if b.op == "literal" and b.type.is_numeric and _is_below(b.params[0]):
            return make(ops.SUB, (a, make("literal", (), (-b.params[0],), b.type)), n.params, n.type)
    return n if args == n.args else make(n.op, args, n.params, n.type)


def _is_below(value: Any) -> bool:
    return value is not None and value == value and value < 0


def _is_edge(n: Node) -> bool:
    """Return whether a node is a limit of its type, where a band is true for every value of the other side."""
    if n.op != "literal" or n.params[0] is None:
        return False
    value = n.params[0]
    return value in n.type.limits if n.type.is_discrete else isinstance(value, float) and not math.isfinite(value)


def band_said(t: BandTerm) -> str:
    """Return a band term as inequalities in the units of its type."""
    kind, left, right = t.left.type, said(t.left), said(t.right)
    if kind.kind == "float":
        pairs = {(0, 0): "=", (None, 0): "<=", (None, -1): "<", (0, None): ">=", (1, None): ">"}
        return f"{left} {pairs.get((t.lo, t.hi), '~')} {right}"
    if t.lo == t.hi == 0:
        return f"{left} = {right}"
    parts = []
    if t.lo is not None:
        parts.append(f"{_distance(t.lo, kind)} <=")
    parts.append(f"{left} - {said(t.right, MUL)}")
    if t.hi is not None:
        parts.append(f"<= {_distance(t.hi, kind)}")
    return " ".join(parts)


def _distance(v: int, t: Type) -> str:
    if t.kind in ("timestamp", "time", "duration"):
        ticks = TICKS_PER_SECOND[t.unit]
        return f"{v // ticks} s" if v % ticks == 0 else f"{v} {t.unit}"
    if t.kind == "date":
        return f"{v} days"
    if t.kind == "decimal":
        return str(v / 10**t.scale)
    return str(v)


def domain_said(dom: Any) -> str:
    t = dom.type
    if t.kind == "bool":
        return str(dom).strip("{}").lower()
    marks = [m for m, there in (("null", dom.may_null), ("NaN", dom.may_nan)) if there]
    return listed([*([] if dom.is_empty else [_span(dom, t)]), *marks], "or") or "nothing"


def _span(dom: Any, t: Type) -> str:
    if not has_ordinal(t):
        if dom.lo is None and dom.hi is None:
            return "anything"
        return str(dom).partition(" or ")[0]
    least, most = ordinal_range(t)
    low = least if dom.lo is None else ordinal_of(dom.lo, t)
    high = most if dom.hi is None else ordinal_of(dom.hi, t)
    if t.kind == "float":
        most = ordinal_of(float("inf"), t)
    # An end near the type's limit is that limit, shifted by the width of a band.
    near = (most - least) >> 12 if t.is_discrete else 0
    below, above = low - least > near, most - high > near
    if low == high:
        return shown(low, t)
    if below and above:
        return f"from {shown(low, t)} to {shown(high, t)}"
    return f">= {shown(low, t)}" if below else f"<= {shown(high, t)}" if above else "anything"


def listed(items: Iterable[str], word: str = "and") -> str:
    *rest, last = [*items] or [""]
    return f"{', '.join(rest)} {word} {last}" if rest else last


def label(node: Node) -> str:
    """Return the operator of an expression, for a box in a picture."""
    if node.op in ("column", "literal"):
        return said(node)
    return _SYMBOLS.get(node.op, node.op.replace("_", " "))
