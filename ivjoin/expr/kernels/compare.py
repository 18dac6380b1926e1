"""Compare values in Spark's order: NaN equals NaN and is the greatest number, -0.0 equals 0.0.

Strings and binaries are compared by their bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ivjoin.expr.kernels.cells import Cell, Consts, Kernel, absent, combined, of_values, rows, unsupported
from ivjoin.expr.kernels.columns import bits
from ivjoin.expr.nodes import FLIPPED, Node

__all__ = ["compare_rule", "comparer"]

Compare = Callable[[Any, Any], np.ndarray]


def _float_eq(x: Any, y: Any) -> np.ndarray:
    return (x == y) | ((x != x) & (y != y))


def _float_lt(x: Any, y: Any) -> np.ndarray:
    return ~(x >= y) & (x == x)  # x >= y is false if y is NaN, so NaN is the greatest


def _float_le(x: Any, y: Any) -> np.ndarray:
    return (x <= y) | (y != y)


_FLOAT: dict[str, Compare] = {
    "eq": _float_eq, "ne": lambda x, y: ~_float_eq(x, y),
    "lt": _float_lt, "gt": lambda x, y: _float_lt(y, x),
    "le": _float_le, "ge": lambda x, y: _float_le(y, x),
}
# Comparisons with a constant that is not NaN.
_FLOAT_CONST: dict[str, Compare] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": lambda x, c: ~(x <= c), "ge": lambda x, c: ~(x < c),
}
_PLAIN: dict[str, Compare] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}
_TEXT = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _text_comparer(op: str) -> Compare:
    def compare(x: Any, y: Any) -> np.ndarray:
        import pyarrow.compute as pc  # imported late, because it takes 0.05 s and many comparisons never run

        result = getattr(pc, _TEXT[op])(x, y)
        if result.null_count:
            result = pc.fill_null(result, False)
        return bits(result.buffers()[1], result.offset, len(result))  # to_numpy imports pandas

    return compare


def comparer(op: str, kind: str) -> Compare:
    """Return a function that compares values of a kind and returns bool[n]. The caller handles nulls."""
    if kind == "float":
        return _FLOAT[op]
    if kind in ("string", "binary"):
        return _text_comparer(op)
    return _PLAIN[op]


def compare_rule(node: Node, consts: Consts) -> Kernel:
    """Return the kernel of one of the six comparisons, or of null-safe equality."""
    t, u = node.args[0].type, node.args[1].type
    alike = t == u or t.kind == u.kind == "int" or (t.kind == u.kind != "decimal" and (t.unit, t.tz) == (u.unit, u.tz))
    if not (alike and t.is_ordered) and "null" not in (t.kind, u.kind):
        raise unsupported(node, "the sides of a comparison have one type")
    if "null" in (t.kind, u.kind):
        return _with_null if node.op != "eq_null_safe" else _both_null
    kind = t.kind
    if node.op == "eq_null_safe":
        return _null_safe(comparer("eq", kind))
    op, (left, right) = node.op, consts
    f = comparer(op, kind)
    if kind in ("string", "binary"):
        return _text_kernel(f, left, right)
    if kind == "float" and right is not None and right[0] == right[0]:
        f = _FLOAT_CONST[op]
    elif kind == "float" and left is not None and left[0] == left[0]:
        flipped = _FLOAT_CONST[FLIPPED[op]]
        f = lambda x, y: flipped(y, x)  # noqa: E731
    return of_values(f)


def _with_null(a: Cell, b: Cell) -> Cell:
    n = rows(a[0], b[0])
    return np.zeros(n, dtype=bool), np.zeros(n, dtype=bool), combined(a[2], b[2])


def _both_null(a: Cell, b: Cell) -> Cell:
    n = rows(a[0], b[0])
    return absent(a[1], n) & absent(b[1], n), None, combined(a[2], b[2])


def _text_kernel(f: Compare, left: Cell | None, right: Cell | None) -> Kernel:
    def compare(x: Any, y: Any) -> np.ndarray:
        # Arrow does not broadcast an array of one row, so take its scalar.
        if right is not None and left is None:
            y = y[0]
        elif left is not None and right is None:
            x = x[0]
        return f(x, y)

    return of_values(compare)


def _null_safe(eq: Compare) -> Kernel:
    def kernel(a: Cell, b: Cell) -> Cell:
        (x, ok, err), (y, ok2, err2) = a, b
        n = rows(x, y)
        if len(x) != len(y) and not isinstance(x, np.ndarray):
            x, y = (x[0] if len(x) == 1 else x), (y[0] if len(y) == 1 else y)
        same = eq(x, y)
        if ok is not None or ok2 is not None:
            null, null2 = absent(ok, n), absent(ok2, n)
            same = np.where(null | null2, null & null2, same)
        return same, None, combined(err, err2)

    return kernel
