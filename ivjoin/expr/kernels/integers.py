"""Exact integer arithmetic that marks the rows that overflow. The same kernels add times and durations.

Values are not widened. Overflow is detected from the wrapped result, or for a constant operand from the range of values
that do not overflow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ivjoin.expr.kernels.cells import (
    Consts,
    Kernel,
    Mask,
    Rule,
    checked,
    combined,
    count,
    dtype_of,
    unsupported,
)
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import Type

__all__ = [
    "SUMS", "add_ints", "add_wrapped", "affine", "arith", "dividing", "intdiv", "mul_wrapped", "narrowed", "sub_ints",
    "sub_wrapped", "whole_quotient",
]  # fmt: skip


def affine(t: Type, factor: int, constant: int) -> Kernel:
    """Return the kernel of ``factor * x + constant``. Results outside the range of the type are errors.

    ``factor`` is 1 or -1, or ``constant`` is 0. The kernel ignores its second argument, which is the constant.
    """
    dtype = dtype_of(t)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    low, high = least, most
    if factor > 0:
        low, high = -((constant - least) // factor), (most - constant) // factor
    elif factor < 0:
        low, high = -((most - constant) // -factor), (constant - least) // -factor
    if low > most or high < least:  # no value of x fits
        return checked(lambda v, *_: (v, np.ones(len(v), dtype=bool)))
    below = None if low <= least else np.array(low, dtype=dtype)
    above = None if high >= most else np.array(high, dtype=dtype)
    # The constants wrap around on purpose. For example, 2**63 - x is still correct modulo 2**64.
    c, k = _wrapped(constant, dtype), _wrapped(factor, dtype)

    def value(v: np.ndarray, *_: np.ndarray) -> tuple[np.ndarray, Mask]:
        bad = None if above is None else v > above
        if below is not None:
            bad = combined(bad, v < below)
        return v + c if factor == 1 else c - v if factor == -1 else v * k, bad

    return checked(value)


def _wrapped(value: int, dtype: np.dtype) -> np.ndarray:
    unsigned = np.array(value & ((1 << 8 * dtype.itemsize) - 1), dtype=f"u{dtype.itemsize}")
    return unsigned.view(dtype)


_ZERO = {np.dtype(f"i{w}"): np.array(0, dtype=f"i{w}") for w in (1, 2, 4, 8)}


def add_wrapped(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the wrapped sum of integers of one dtype, and a mask of the rows that overflow."""
    r = x + y
    if r.dtype.kind == "u":
        return r, r < x
    return r, ((x ^ r) & (y ^ r)) < _ZERO[r.dtype]


def sub_wrapped(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the wrapped difference of integers of one dtype, and a mask of the rows that overflow."""
    r = x - y
    return r, x < y if r.dtype.kind == "u" else ((x ^ y) & (x ^ r)) < _ZERO[r.dtype]


def mul_wrapped(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Mask]:
    """Return the wrapped product of integers of one dtype, and a mask of the rows that overflow (None: no row)."""
    dtype = x.dtype
    if dtype.itemsize < 8:
        wide = x.astype(np.int64) * y.astype(np.int64) if dtype.kind == "i" else x.astype(np.uint64) * y
        r = wide.astype(dtype)
        return r, r != wide
    r = x * y
    # A product of doubles is correct within a few ulps. Only rows with a product near or above 2**62 need Python ints.
    doubtful = np.abs(x.astype(np.float64) * y) >= 2.0**62
    if not count(doubtful):
        return r, None
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    bad = np.zeros(len(r), dtype=bool)
    xs, ys = np.broadcast_to(x, r.shape), np.broadcast_to(y, r.shape)
    for i in np.flatnonzero(doubtful):
        bad[i] = not least <= int(xs[i]) * int(ys[i]) <= most
    return r, bad


add_ints, sub_ints = checked(add_wrapped), checked(sub_wrapped)
_Affine = Callable[[int], tuple[int, int]]


def _linear(general: Kernel, by_right: _Affine, by_left: _Affine) -> Rule:
    """Return the rule of a sum or product.

    If an argument is a constant, ``by_right`` or ``by_left`` returns the factor and the constant for `affine`.
    """

    def rule(node: Node, consts: Consts) -> Kernel:
        left, right = consts
        if right is not None:
            return affine(node.type, *by_right(int(right[0][0])))
        if left is not None:
            kernel = affine(node.type, *by_left(int(left[0][0])))
            return lambda _, b: kernel(b)
        return general

    return rule


def _neg(node: Node, _: Consts) -> Kernel:
    return affine(node.type, -1, 0)


def _abs(node: Node, _: Consts) -> Kernel:
    dtype = dtype_of(node.type)
    if dtype.kind == "u":
        return lambda a: a
    least = np.array(np.iinfo(dtype).min, dtype=dtype)
    return checked(lambda v: (np.abs(v), v == least))


def dividing(f: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, Mask]]) -> Kernel:
    """Return the kernel of a division. ``f`` never gets a zero divisor, because a division by zero is an error."""

    def divided(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Mask]:
        zero = y == 0
        if not count(zero):
            return f(x, y)
        r, bad = f(x, np.where(zero, y.dtype.type(1), y))
        return r, combined(bad, zero)

    return checked(divided)


def whole_quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return x / y truncated toward zero, for y != 0. The least integer divided by -1 wraps around to itself."""
    # NumPy's // rounds down, and fmod truncates. After the remainder is subtracted, the division is exact.
    return (x - np.fmod(x, y)) // y


def intdiv(node: Node, _: Consts) -> Kernel:
    t = node.args[0].type

    def quotient(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Mask]:
        if t.kind == "int" and t.bits < 64:
            return whole_quotient(x.astype(np.int64), y.astype(np.int64)), None
        q = whole_quotient(x, y)
        if not t.signed:
            return q.view(np.int64), q > np.uint64(np.iinfo(np.int64).max)
        return q, (y == -1) & (x == np.iinfo(np.int64).min)

    return dividing(quotient)


def _remainder(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Mask]:
    return np.fmod(x, y), None


def _positive_remainder(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Mask]:
    r = np.fmod(x, y)
    if r.dtype.kind == "i":
        r = np.where((r < 0) & (y > 0), r + y, r)  # for a negative divisor, the remainder is not changed
    return r, None


def narrowed(v: np.ndarray, t: Type) -> tuple[np.ndarray, Mask]:
    """Convert integers to another integer type. Return them, and a mask of the rows that do not fit (None: no row)."""
    dtype = dtype_of(t)
    if v.dtype == dtype:
        return v, None
    if v.dtype == object:
        low, high = t.limits
        bad = (v < low) | (v > high)
        return np.where(bad, 0, v).astype(dtype), bad
    r = v.astype(dtype)
    return r, None if np.can_cast(v.dtype, dtype) else r != v  # NumPy compares signed and unsigned ints by value


def arith(node: Node, consts: Consts) -> Kernel:
    want = dtype_of(node.type)
    if any(a.type.kind not in ("int", "months") or dtype_of(a.type) != want for a in node.args):
        raise unsupported(node, "the arguments of integer arithmetic have its type")
    return SUMS[node.op](node, consts)


# The rules for all types that are stored as integers. The caller checks the types.
SUMS: dict[str, Rule] = {
    "add": _linear(add_ints, lambda c: (1, c), lambda c: (1, c)),
    "sub": _linear(sub_ints, lambda c: (1, -c), lambda c: (-1, c)),
    "mul": _linear(checked(mul_wrapped), lambda c: (c, 0), lambda c: (c, 0)),
    "neg": _neg, "abs": _abs, "mod": lambda node, _: dividing(_remainder),
    "pmod": lambda node, _: dividing(_positive_remainder),
}
