"""Build the float64 nodes of bounds. Operations on literals are computed at once, with Python floats."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import numpy as np

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import FLOAT64
from ivjoin.separation.onesided import cast_to, literal

__all__ = [
    "arith", "beyond", "constant_of", "is_positive", "negated", "number", "plus_constant", "root", "shift",
    "shifted_image", "wide",
]  # fmt: skip


_COMPUTED = {ops.ADD: operator.add, ops.SUB: operator.sub, ops.MUL: operator.mul, ops.DIV: operator.truediv}


def constant_of(n: Node) -> float | None:
    """Return the value of a literal, or None for NULL and for other nodes."""
    return float(n.params[0]) if n.op == "literal" and n.params[0] is not None else None


def number(x: float) -> Node:
    return literal(float(x), FLOAT64)


def negated(u: Node) -> Node:
    x = constant_of(u)
    return number(-x) if x is not None else make(ops.NEG, (u,), (), FLOAT64)


def arith(op: str, u: Node, v: Node) -> Node:
    x, y = constant_of(u), constant_of(v)
    if x is not None and y is not None:
        with np.errstate(all="ignore"):
            a, b = np.float64(x), np.float64(y)
            return number(float(_COMPUTED[op](a, b)))
    if op == ops.SUB and y is not None:
        op, v = ops.ADD, number(-y)
    if op in (ops.ADD, ops.MUL) and x is not None:
        # Put the constant second, so that equal expressions are the same node.
        u, v = v, u
    return make(op, (u, v), (), FLOAT64)


def beyond(u: Node, up: bool, bits: int = 64) -> Node:
    """Return a double at or above the next float of ``bits`` above ``u`` (mirrored if not ``up``)."""
    x = constant_of(u)
    to = math.inf if up else -math.inf
    if x is not None:
        return number(math.nextafter(x, to) if bits == 64 else _narrow_step(x, to))
    if bits == 64:
        return make(ops.NEXT_UP if up else ops.NEXT_DOWN, (u,), (), FLOAT64)
    if not up:
        return negated(beyond(negated(u), True, bits))
    # This step is larger than a float32 step at any magnitude, also for subnormals. From -inf, the next float is the
    # least finite one.
    step = arith(ops.ADD, arith(ops.MUL, make(ops.ABS, (u,), (), FLOAT64), number(2.0**-22)), number(2.0**-148))
    raised = make(ops.NEXT_UP, (arith(ops.ADD, u, step),), (), FLOAT64)
    return make(ops.GREATEST, (raised, number(-float(np.finfo(np.float32).max))), (), FLOAT64)


def _narrow_step(x: float, to: float) -> float:
    # A float32 value that is at most x is also at most the float32 nearest to x, and the same holds from above.
    with np.errstate(all="ignore"):
        return float(np.nextafter(np.float32(x), np.float32(to)))


def shift(n: Node) -> tuple[Node, float]:
    """Return (base, k) such that ``n`` is the rounded sum ``base + k``."""
    if n.op in (ops.ADD, ops.SUB) and n.type == FLOAT64:
        a, b = n.args
        if n.op == ops.ADD and constant_of(a) is not None:
            a, b = b, a
        k = constant_of(b)
        if k is not None and math.isfinite(k):
            return a, k if n.op == ops.ADD else -k
    return n, 0.0


def plus_constant(n: Node, k: float) -> Node:
    """Return a node for ``n + k``, or ``n`` itself if k is 0."""
    return arith(ops.ADD, n, number(k)) if k else n


def shifted_image(image: Node, k: Fraction, up: bool) -> Node:
    """Return a double that is at least (``up``) or at most the exact x + k. ``image`` is x rounded to a double."""
    shift_by = beyond(number(float(k)), up)
    moved = arith(ops.ADD, beyond(beyond(image, up), up), shift_by)
    return beyond(beyond(moved, up), up)


def wide(n: Node) -> Node:
    """Return the node as a double. A literal NULL becomes NaN, which bounds nothing."""
    if n.op != "literal":
        return cast_to(n, FLOAT64)
    return number(math.nan if n.params[0] is None else n.params[0])


def root(u: Node) -> Node:
    x = constant_of(u)
    if x is None:
        return make(ops.SQRT, (u,), (), FLOAT64)
    return number(math.sqrt(x)) if x >= 0 else number(math.nan)


def is_positive(n: Node) -> bool:
    """Return whether the expression is never negative (it may be NaN)."""
    if n.op in (ops.ABS, ops.SQRT):
        return True
    if n.op == ops.POW:
        k = constant_of(n.args[1])
        return k is not None and k > 0 and k % 2 == 0
    if n.op in (ops.ADD, ops.DIV):
        return all(is_positive(a) or (constant_of(a) or -1.0) > 0 for a in n.args)
    if n.op == ops.MUL:
        return n.args[0] is n.args[1] or all(is_positive(a) or (constant_of(a) or -1.0) > 0 for a in n.args)
    if n.op == ops.CAST:
        return n.args[0].op == ops.ABS or is_positive(n.args[0])
    return False
