"""Operators on the bits of integers, as in Java and Spark. Shifts use only the low bits of the shift distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ivjoin.errors import ConditionError
from ivjoin.expr.build.casting import cast
from ivjoin.expr.build.coerce import as_int32
from ivjoin.expr.build.common import common_type
from ivjoin.expr.form import Form
from ivjoin.expr.kernels.cells import Consts, Kernel, dtype_of, of_values
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.polynomial import Polynomial, plus, scaled
from ivjoin.expr.types import INT32, Type
from ivjoin.functions.records import direction
from ivjoin.functions.records.direction import Direction
from ivjoin.functions.records.linear import Linear
from ivjoin.functions.records.record import BOTH_WAYS, NOT_LINEAR, Absent, Call, Meaning, Operator, call, one
from ivjoin.functions.records.writing import ATOM, BIT, UNARY, Arg, called, infix
from ivjoin.functions.rules.domain import Dom
from ivjoin.functions.rules.rule import Maker, Pair, Place, Rule, strict_binary, strict_unary
from ivjoin.interval.machine import bitwise

__all__ = ["OPERATORS", "SPELLINGS"]



def _whole(x: Node, what: str) -> Node:
    """Return ``x`` as a signed integer, because Spark has no unsigned integers."""
    if x.type.kind == "null":
        return cast(x, INT32)
    if x.type.kind != "int" or (not x.type.signed and x.type.bits == 64):
        raise ConditionError(f"{what} needs a whole number, not {x.type}: {x}; cast it to BIGINT")
    return x if x.type.signed else cast(x, Type("int", x.type.bits * 2))


def _pair(name: str, symbol: str) -> Callable[[list[Node], str], Node]:
    def build(args: list[Node], zone: str) -> Node:
        a, b = (_whole(x, symbol) for x in args)
        t = common_type(a.type, b.type)
        assert t is not None
        return make(name, (cast(a, t), cast(b, t)), (), t)

    return build


def _bounds(f: Callable[[Pair, Pair], Pair], back: Callable[[Pair, Pair, Pair], Pair]) -> Maker:
    return lambda p: strict_binary(p, f, back, back, p.node.type.limits)


def _below_and(z: Pair, b: Pair, a: Pair) -> Pair:
    """Narrow x by ``x & b = z``: x has the bits of z, and perhaps bits that b does not have."""
    low, high = bitwise.and_(a, _flipped(b))
    return z[0] + low, z[1] + high


def _below_or(z: Pair, b: Pair, a: Pair) -> Pair:
    """Narrow x by ``x | b = z``: x has the bits of z, except perhaps bits that b has."""
    low, high = bitwise.and_(_flipped(a), b)
    return z[0] - high, z[1] - low


def _below_xor(z: Pair, b: Pair, a: Pair) -> Pair:
    """Narrow x by ``x ^ b = z``."""
    return bitwise.xor(z, b)


def _flipped(x: Pair) -> Pair:
    return ~x[1], ~x[0]


def _combination(
    name: str, symbol: str, node: str, f: Callable[[Any, Any], Any], bounds: Callable[[Pair, Pair], Pair],
    back: Callable[[Pair, Pair, Pair], Pair],
) -> Operator:
    return Operator(
        name, {"int": Meaning(lambda node, _: of_values(f), _bounds(bounds, back))},
        (f"l.a {symbol} r.b", f"l.n {symbol} r.m", f"l.a {symbol} 255"),
        infix(symbol, BIT), BOTH_WAYS, NOT_LINEAR, _pair(name, symbol), node,
    )  # fmt: skip


def _not(p: Place) -> Rule:
    return strict_unary(p, _flipped, lambda z, x: _flipped(z), p.node.type.limits)


def _not_form(n: Node, forms: list[Form]) -> Form:
    return forms[0].scaled(-1).widened(1, -1)


def _not_total(n: Node, args: list[Polynomial]) -> Polynomial:
    return scaled(plus(args[0], {(): 1}), -1)


# Shifts


def _shift(name: str) -> Callable[[list[Node], str], Node]:
    def build(args: list[Node], zone: str) -> Node:
        x = _whole(args[0], name)
        x = x if x.type.bits == 64 else cast(x, INT32)
        return make(name, (x, as_int32(args[1], f"the count of {name}")), (), x.type)

    return build


def _shifted(f: Callable[[Any, Any], Any]) -> Callable[[Node, Consts], Kernel]:
    def rule(node: Node, consts: Consts) -> Kernel:
        dtype = dtype_of(node.type)
        mask = dtype.type(8 * dtype.itemsize - 1)

        return of_values(lambda x, n: f(x, n.astype(dtype) & mask).astype(dtype, copy=False))

    return rule


def _unsigned(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    dtype = np.dtype(f"u{x.dtype.itemsize}")
    return (x.view(dtype) >> n.astype(dtype)).view(x.dtype)


def _count(p: Place) -> int | None:
    """Return the distance of a shift if it is a constant, else None."""
    n = p.node.args[1]
    if n.op != "literal" or n.params[0] is None:
        return None
    return int(n.params[0]) & (p.node.type.bits - 1)


def _left(p: Place) -> Rule:
    n = _count(p)
    least, most = limits = p.node.type.limits

    def up(a: Pair, b: Pair) -> Pair:
        if n is None or a[0] << n < least or a[1] << n > most:
            return limits
        return a[0] << n, a[1] << n

    def back(z: Pair, b: Pair, a: Pair) -> Pair:
        if n is None or a[0] << n < least or a[1] << n > most:
            return a
        return -(-z[0] >> n), z[1] >> n

    return strict_binary(p, up, back, None, limits)


def _right(p: Place) -> Rule:
    n = _count(p)

    def up(a: Pair, b: Pair) -> Pair:
        if n is not None:
            return a[0] >> n, a[1] >> n
        return min(a[0], 0 if a[1] >= 0 else a[0] >> 63), max(a[1], 0 if a[1] >= 0 else -1)

    def back(z: Pair, b: Pair, a: Pair) -> Pair:
        return a if n is None else (z[0] << n, ((z[1] + 1) << n) - 1)

    return strict_binary(p, up, back, None, p.node.type.limits)


def _right_unsigned(p: Place) -> Rule:
    n, bits = _count(p), p.node.type.bits
    limits = p.node.type.limits

    def up(a: Pair, b: Pair) -> Pair:
        if n is None:
            return limits
        if a[0] >= 0 or n == 0:
            return a[0] >> n, a[1] >> n
        return 0, ((1 << bits) - 1) >> n

    return strict_binary(p, up, None, None, limits)


def _rises_by_a_constant(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return directions[0] if directions[1] is Direction.CONSTANT and not args[1].may_null else Direction.NONE


def _bit_count(node: Node, _: Consts) -> Kernel:
    # Java converts the number to a long before it counts the bits.
    return of_values(lambda v: np.bitwise_count(v.astype(np.int64).view(np.uint64)).astype(np.int32))


def _counted(p: Place) -> Rule:
    def up(x: Pair) -> Pair:
        if x[0] < 0:
            return (0 if x[1] >= 0 else 1), 64
        return int(x[0] > 0), max(x[1].bit_length() - 1, int(x[1] > 0)) if x[1] & (x[1] + 1) else x[1].bit_length()

    return strict_unary(p, up, None, (0, 64))


def _unary_text(n: Node, arg: Arg) -> tuple[str, int]:
    return f"~{arg(0, ATOM)}", UNARY


def _inverted(args: list[Node], zone: str) -> Node:
    x = _whole(args[0], "~")
    return make("bit_not", (x,), (), x.type)


OPERATORS = (
    _combination("bit_and", "&", "BitwiseAnd", np.bitwise_and, bitwise.and_, _below_and),
    _combination("bit_or", "|", "BitwiseOr", np.bitwise_or, bitwise.or_, _below_or),
    _combination("bit_xor", "^", "BitwiseXor", np.bitwise_xor, bitwise.xor, _below_xor),
    Operator(
        "bit_not", {"int": Meaning(lambda node, _: of_values(np.invert), _not)}, ("~l.a", "~l.n"),
        _unary_text, direction.falls, Linear(_not_form, _not_total), _inverted, "BitwiseNot",
    ),
    Operator(
        "shiftleft", {"int": Meaning(_shifted(np.left_shift), _left)},
        ("shiftleft(l.a, 3)", "shiftleft(l.n, r.m)", "shiftleft(l.n, 33)"),
        called("shiftleft"), Absent("the value wraps around at the end of its type"), NOT_LINEAR, _shift("shiftleft"),
        "BitwiseLeftShift",
        (call("shiftleft", 2, 2, _shift("shiftleft")),),
    ),
    Operator(
        "shiftright", {"int": Meaning(_shifted(np.right_shift), _right)},
        ("shiftright(l.a, 3)", "shiftright(l.n, r.m)", "shiftright(l.n, -1)"),
        called("shiftright"), _rises_by_a_constant, NOT_LINEAR, _shift("shiftright"), "BitwiseRightShift",
        (call("shiftright", 2, 2, _shift("shiftright")),),
    ),
    Operator(
        "shiftrightunsigned", {"int": Meaning(_shifted(_unsigned), _right_unsigned)},
        ("shiftrightunsigned(l.a, 3)", "shiftrightunsigned(l.n, r.m)"),
        called("shiftrightunsigned"), Absent("negative arguments give larger values than positive ones"), NOT_LINEAR,
        calls=(call("shiftrightunsigned", 2, 2, _shift("shiftrightunsigned")),),
    ),
    Operator(
        "bit_count", {"int": Meaning(_bit_count, _counted)}, ("bit_count(l.a)", "bit_count(l.n)"),
        called("bit_count"), BOTH_WAYS, NOT_LINEAR,
        calls=(one("bit_count", lambda a: make("bit_count", (_whole(a, "bit_count"),), (), INT32)),),
    ),
)  # fmt: skip
SPELLINGS: tuple[Call, ...] = ()
