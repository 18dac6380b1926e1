"""Exact integer arithmetic that marks the rows that overflow; times and durations are added by the same kernels.

The wrapped result, or the largest value that still fits next to a constant, shows overflow. Nothing is widened.
"""

from __future__ import annotations

import numpy as np

from ivjoin.expr.kernels.cells import (
    Cell,
    Consts,
    Kernel,
    Mask,
    Rule,
    combined,
    count,
    dtype_of,
    flagged,
    met,
    unsupported,
)
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import Type

__all__ = [
    "SUMS", "add_ints", "add_wrapped", "affine", "arith", "floor", "intdiv", "mul_ints", "mul_wrapped", "narrowed",
    "sign", "sub_ints", "whole_quotient",
]  # fmt: skip


def affine(t: Type, factor: int, constant: int) -> Kernel:
    """Return the kernel of ``factor * x + constant``; rows outside the type's range are errors.

    ``factor`` is 1 or -1, or ``constant`` is 0. The kernel ignores a second argument, the cell of the constant.
    """
    dtype = dtype_of(t)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    low, high = least, most
    if factor > 0:
        low, high = -((constant - least) // factor), (most - constant) // factor
    elif factor < 0:
        low, high = -((most - constant) // -factor), (constant - least) // -factor
    if low > most or high < least:  # no value of x fits
        return _always_errs
    below = None if low <= least else np.array(low, dtype=dtype)
    above = None if high >= most else np.array(high, dtype=dtype)
    # Wrapped on purpose: with a constant such as 2**63 in 2**63 - x, the result is right modulo 2**64.
    c, k = _wrapped(constant, dtype), _wrapped(factor, dtype)

    def value(v: np.ndarray) -> np.ndarray:
        if factor == 1:
            return v + c
        if factor == -1:
            return c - v
        return v * k

    if below is None and above is not None and factor == 1:

        def kernel_up(a: Cell, _: Cell | None = None) -> Cell:
            v, ok, err = a
            bad = v > above
            if count(bad):
                err = flagged(err, bad, ok)
            return v + c, ok, err

        return kernel_up
    if above is None and below is not None and factor == 1:

        def kernel_down(a: Cell, _: Cell | None = None) -> Cell:
            v, ok, err = a
            bad = v < below
            if count(bad):
                err = flagged(err, bad, ok)
            return v + c, ok, err

        return kernel_down

    def kernel(a: Cell, _: Cell | None = None) -> Cell:
        v, ok, err = a
        if above is not None:
            err = flagged(err, v > above, ok)
        if below is not None:
            err = flagged(err, v < below, ok)
        return value(v), ok, err

    return kernel


def _wrapped(value: int, dtype: np.dtype) -> np.ndarray:
    unsigned = np.array(value & ((1 << 8 * dtype.itemsize) - 1), dtype=f"u{dtype.itemsize}")
    return unsigned.view(dtype)


def _always_errs(a: Cell, _: Cell | None = None) -> Cell:
    v, ok, err = a
    return v, ok, flagged(err, np.ones(len(v), dtype=bool), ok)


_ZERO = {np.dtype(f"i{w}"): np.array(0, dtype=f"i{w}") for w in (1, 2, 4, 8)}


def add_wrapped(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the wrapped sum of integers of one dtype, and the rows where it is wrong."""
    r = x + y
    if r.dtype.kind == "u":
        return r, r < x
    return r, ((x ^ r) & (y ^ r)) < _ZERO[r.dtype]


def add_ints(a: Cell, b: Cell) -> Cell:
    """Return the sum of two integers of one width; rows that overflow are errors."""
    x, ok, err = a
    y, ok2, err2 = b
    if ok2 is not None:
        ok = met(ok, ok2)
    if err2 is not None:
        err = combined(err, err2)
    r, bad = add_wrapped(x, y)
    if count(bad):
        err = flagged(err, bad, ok)
    return r, ok, err


def sub_ints(a: Cell, b: Cell) -> Cell:
    """Return the difference of two integers of one width; rows that overflow are errors."""
    x, ok, err = a
    y, ok2, err2 = b
    if ok2 is not None:
        ok = met(ok, ok2)
    if err2 is not None:
        err = combined(err, err2)
    r = x - y
    bad = x < y if r.dtype.kind == "u" else ((x ^ y) & (x ^ r)) < _ZERO[r.dtype]
    if count(bad):
        err = flagged(err, bad, ok)
    return r, ok, err


def mul_ints(a: Cell, b: Cell) -> Cell:
    """Return the product of two integers of one width; rows that overflow are errors."""
    (x, ok, err), (y, ok2, err2) = a, b
    ok, err = met(ok, ok2), combined(err, err2)
    r, bad = mul_wrapped(x, y)
    return r, ok, err if bad is None else flagged(err, bad, ok)


def mul_wrapped(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Mask]:
    """Return the wrapped product of integers of one dtype, and the rows where it is wrong (None: no row)."""
    dtype = x.dtype
    if dtype.itemsize < 8:
        wide = x.astype(np.int64) * y.astype(np.int64) if dtype.kind == "i" else x.astype(np.uint64) * y
        r = wide.astype(dtype)
        return r, r != wide
    r = x * y
    # A product of doubles is exact within a few ulp, so only rows near or past 2**62 need Python ints.
    doubtful = np.abs(x.astype(np.float64) * y) >= 2.0**62
    if not count(doubtful):
        return r, None
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    bad = np.zeros(len(r), dtype=bool)
    xs, ys = np.broadcast_to(x, r.shape), np.broadcast_to(y, r.shape)
    for i in np.flatnonzero(doubtful):
        bad[i] = not least <= int(xs[i]) * int(ys[i]) <= most
    return r, bad


def _add(node: Node, consts: Consts) -> Kernel:
    left, right = consts
    if right is not None:
        return affine(node.type, 1, int(right[0][0]))
    if left is not None:
        return _swapped(affine(node.type, 1, int(left[0][0])))
    return add_ints


def _sub(node: Node, consts: Consts) -> Kernel:
    left, right = consts
    if right is not None:
        return affine(node.type, 1, -int(right[0][0]))
    if left is not None:
        return _swapped(affine(node.type, -1, int(left[0][0])))
    return sub_ints


def _mul(node: Node, consts: Consts) -> Kernel:
    left, right = consts
    if right is not None:
        return affine(node.type, int(right[0][0]), 0)
    if left is not None:
        return _swapped(affine(node.type, int(left[0][0]), 0))
    return mul_ints


def _swapped(f: Kernel) -> Kernel:
    return lambda _, b: f(b)


def _neg(node: Node, _: Consts) -> Kernel:
    return affine(node.type, -1, 0)


def _abs(node: Node, _: Consts) -> Kernel:
    dtype = dtype_of(node.type)
    if dtype.kind == "u":
        return lambda a: a
    least = np.array(np.iinfo(dtype).min, dtype=dtype)

    def kernel(a: Cell) -> Cell:
        v, ok, err = a
        return np.abs(v), ok, flagged(err, v == least, ok)

    return kernel


def sign(node: Node, _: Consts) -> Kernel:
    dtype = dtype_of(node.type)
    return lambda a: (np.sign(a[0]).astype(dtype), a[1], a[2])


def _divisor(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the divisor y of x without zeros, and the rows where it was zero (None: no row)."""
    zero = y == 0
    if not count(zero):
        return y, None
    return np.where(zero, y.dtype.type(1), y), np.broadcast_to(zero, np.broadcast_shapes(x.shape, y.shape))


def whole_quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return x / y truncated toward zero, for y != 0; the least integer by -1 wraps to itself."""
    # numpy's // floors and its fmod truncates. Without the remainder the division is exact, and both agree.
    return (x - np.fmod(x, y)) // y


def intdiv(node: Node, _: Consts) -> Kernel:
    t = node.args[0].type

    def kernel(a: Cell, b: Cell) -> Cell:
        (x, ok, err), (y, ok2, err2) = a, b
        ok, err = met(ok, ok2), combined(err, err2)
        y, zero = _divisor(x, y)
        if zero is not None:
            err = flagged(err, zero, ok)
        if t.kind == "int" and t.bits < 64:
            return whole_quotient(x.astype(np.int64), y.astype(np.int64)), ok, err
        q = whole_quotient(x, y)
        if not t.signed:
            return q.view(np.int64), ok, flagged(err, q > np.uint64(np.iinfo(np.int64).max), ok)
        return q, ok, flagged(err, (y == -1) & (x == np.iinfo(np.int64).min), ok)

    return kernel


def _mod(node: Node, _: Consts) -> Kernel:
    def kernel(a: Cell, b: Cell) -> Cell:
        (x, ok, err), (y, ok2, err2) = a, b
        ok, err = met(ok, ok2), combined(err, err2)
        y, zero = _divisor(x, y)
        return np.fmod(x, y), ok, err if zero is None else flagged(err, zero, ok)

    return kernel


def _pmod(node: Node, _: Consts) -> Kernel:
    def kernel(a: Cell, b: Cell) -> Cell:
        (x, ok, err), (y, ok2, err2) = a, b
        ok, err = met(ok, ok2), combined(err, err2)
        y, zero = _divisor(x, y)
        r = np.fmod(x, y)
        if r.dtype.kind == "i":
            r = np.where((r < 0) & (y > 0), r + y, r)  # a negative divisor leaves the remainder unchanged
        return r, ok, err if zero is None else flagged(err, zero, ok)

    return kernel


def narrowed(a: Cell, t: Type) -> Cell:
    """Return an integer cell in another integer type; rows that do not fit are errors."""
    v, ok, err = a
    dtype = dtype_of(t)
    if v.dtype == dtype:
        return a
    if v.dtype == object:
        low, high = t.limits
        bad = (v < low) | (v > high)
        err = flagged(err, bad.astype(bool), ok)
        return np.where(bad, 0, v).astype(dtype), ok, err
    r = v.astype(dtype)
    if not np.can_cast(v.dtype, dtype):
        bad = r != v  # numpy compares signed with unsigned by value
        if count(bad):
            err = flagged(err, bad, ok)
    return r, ok, err


def arith(node: Node, consts: Consts) -> Kernel:
    want = dtype_of(node.type)
    if any(a.type.kind not in ("int", "months") or dtype_of(a.type) != want for a in node.args):
        raise unsupported(node, "the arguments of integer arithmetic have its type")
    return SUMS[node.op](node, consts)


def floor(node: Node, _: Consts) -> Kernel:
    return lambda a: narrowed(a, node.type)


# For every type that is an integer of some width inside; the caller checks the types.
SUMS: dict[str, Rule] = {
    "add": _add, "sub": _sub, "mul": _mul, "neg": _neg, "abs": _abs, "mod": _mod, "pmod": _pmod,
}
