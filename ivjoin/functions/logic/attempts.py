"""Operators that return NULL instead of raising an error: ``try_add`` and similar functions, and ``TRY_CAST``.

The last argument of the node is the operation, and the arguments of the operation precede it. As in Spark, an error in
one of these arguments is still an error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ivjoin.expr.build import arith
from ivjoin.expr.kernels.cells import Cell, Consts, Kernel, combined
from ivjoin.expr.literals import is_literal
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.words import type_text
from ivjoin.functions.records.direction import Direction
from ivjoin.functions.records.record import NOT_LINEAR, Build, Call, Meaning, Operator, call, never
from ivjoin.functions.records.writing import Arg, written_call
from ivjoin.functions.rules.domain import Dom, may_null, with_null
from ivjoin.functions.rules.rule import Place, Rule
from ivjoin.functions.rules.state import State

__all__ = ["OPERATORS", "SPELLINGS", "tried"]

_NAMES = {"add": "try_add", "sub": "try_subtract", "mul": "try_multiply", "div": "try_divide", "mod": "try_mod"}
# Sums of times are written as the function that was read.
_SUMS = {"add_days": "add", "add_months": "add", "date_diff": "sub"}

def tried(inner: Node) -> Node:
    """Return ``inner``, or NULL if it has an error and its arguments do not."""
    if is_literal(inner) or not inner.args:
        return inner
    return make("attempt", (*inner.args, inner), (), inner.type)

def _exact(node: Node, consts: Consts) -> Kernel:
    def kernel(*cells: Cell) -> Cell:
        value, ok, err = cells[-1]
        if err is None:
            return value, ok, None
        before = None
        for cell in cells[:-1]:
            before = combined(before, cell[2])
        there = ~err if before is None else ~err | before
        there = np.broadcast_to(there, (len(value),))
        kept = None if before is None else err & before
        return value, there.copy() if ok is None else ok & there, kept

    return kernel

def _rule(p: Place) -> Rule:
    i, inner = p.i, p.at[-1]

    def down(s: State) -> None:
        if not may_null(s.D[i]):
            s.require(inner)
            s.narrow(inner, s.D[i])

    return Rule(lambda D: with_null(D[inner]), down, p.at[:-1])

def _direction(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return directions[-1]  # a NULL has no place in the order

def _text(n: Node, arg: Arg) -> tuple[str, int]:
    inner = n.args[-1]
    if inner.op == "cast":
        return written_call("try_cast", [f"{arg(0)} AS {type_text(n.type)}"])
    return written_call(_NAMES[_SUMS.get(inner.op, inner.op)], [arg(i) for i in range(len(n.args) - 1)])

def _tried(make_inner: Callable[..., Node], zoned: bool = False) -> Build:
    return lambda a, z: tried(make_inner(*a, z) if zoned else make_inner(*a))

OPERATORS = (
    Operator(
        "attempt", {"*": Meaning(_exact, _rule)},
        ("try_add(l.a, r.b)", "try_subtract(l.n, r.m)", "try_multiply(l.a, r.b)", "try_divide(l.x, r.y)",
         "try_mod(l.a, r.b)", "try_add(l.d, r.n)", "TRY_CAST(l.a AS INT)", "TRY_CAST(l.s AS INT)",
         "TRY_CAST(l.s AS BOOLEAN)"),
        _text, _direction, NOT_LINEAR,
        calls=(
            call("try_add", 2, 2, _tried(arith.add, True)),
            call("try_subtract", 2, 2, _tried(arith.sub, True)),
            call("try_multiply", 2, 2, _tried(arith.mul)),
            call("try_divide", 2, 2, _tried(arith.div)),
            call("try_mod", 2, 2, _tried(arith.mod)),
        ), warns=False, passes_null=never,
    ),
)  # fmt: skip
SPELLINGS: tuple[Call, ...] = ()
