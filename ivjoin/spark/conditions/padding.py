"""Pad CHAR columns in comparisons with spaces, as Spark does.

Spark passes a CHAR(n) column as text of n characters. In a comparison with another CHAR column or a literal, it pads
the shorter operand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ivjoin.errors import UnsupportedError
from ivjoin.expr import ops
from ivjoin.expr.build.strings import rpad
from ivjoin.expr.literals import is_literal, literal
from ivjoin.expr.nodes import COMPARISONS, Node, make, rewrite
from ivjoin.plan.spec import SIDES

__all__ = ["char_widths", "padded", "refuse_pairs"]

_KEY = "__CHAR_VARCHAR_TYPE_STRING"  # metadata of a column, such as "char(3)"
_CHAR = re.compile(r"char\((\d+)\)")

#: Characters of the CHAR columns, by side and name.
Widths = Mapping[tuple[str, str], int]


def char_widths(types: Sequence[Any], schemas: Sequence[pa.Schema]) -> dict[tuple[str, str], int]:
    """Return the widths of the CHAR columns of both inputs, under the names of their Arrow schemas."""
    return {
        (SIDES[s], name): int(found[1])
        for s, (spark, arrow) in enumerate(zip(types, schemas, strict=True))
        for field, name in zip(spark, arrow.names, strict=True)
        if (found := _CHAR.fullmatch((field.metadata or {}).get(_KEY, "")))
    }


def padded(condition: Node, widths: Widths) -> Node:
    """Return a condition in which the shorter operands of CHAR comparisons are padded."""
    return rewrite(condition, lambda node: _padded(node, widths)) if widths else condition


def _padded(node: Node, widths: Widths) -> Node | None:
    if node.op == ops.IN and len(node.args) == 1:
        return _padded_list(node, widths)
    if node.op not in COMPARISONS or not any(_width(a, widths) for a in node.args if a.op == "column"):
        return None
    found = [_width(a, widths) for a in node.args]
    if None in found:
        return None
    most = max(width or 0 for width in found)
    args = tuple(a if width == most else _to(a, most) for a, width in zip(node.args, found, strict=True))
    return make(node.op, args, node.params, node.type)


def _padded_list(node: Node, widths: Widths) -> Node | None:
    (x,) = node.args
    width = _width(x, widths) if x.op == "column" else None
    if width is None or not all(value is None or isinstance(value, str) for value in node.params):
        return None
    most = max(width, *(len(value or "") for value in node.params))
    values = tuple(value if value is None else value.ljust(most) for value in node.params)
    return make(ops.IN, (x if width == most else _to(x, most),), values, node.type)


def _width(node: Node, widths: Widths) -> int | None:
    """Return the characters of an operand; None if Spark does not pad next to it."""
    if node.op == "column":
        return widths.get((node.params[0], node.params[1]))
    if is_literal(node) and (node.params[0] is None or isinstance(node.params[0], str)):
        return len(node.params[0] or "")
    return None


def _to(node: Node, width: int) -> Node:
    if not is_literal(node):
        return rpad(node, width)
    return node if node.params[0] is None else literal(node.params[0].ljust(width), node.type)


def refuse_pairs(on: Sequence[tuple[str, str]], widths: Widths) -> None:
    """Refuse pairs of CHAR columns with different widths in ``on``, because the merged key would have one width."""
    for a, b in on:
        left, right = widths.get((SIDES[0], a)), widths.get((SIDES[1], b))
        if left and right and left != right:
            raise UnsupportedError(
                f"on pairs {a!r}, which is char({left}), with {b!r}, which is char({right}); expected columns of one "
                f"width. Write condition=\"l.{a} = r.{b}\", which pads them as Spark does"
            )
