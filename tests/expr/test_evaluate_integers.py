"""Integer operators against Python's unbounded integers: all pairs of 8 bits, and the corners of every width."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from evaluating import ERROR, answers, col

from bench.operators import positive_remainder, remainder, truncated
from ivjoin.expr import types as ty
from ivjoin.expr.nodes import make
from ivjoin.expr.types import Type, to_arrow


def rounded(a: int, digits: int, even: bool) -> int:
    unit = 10**-digits
    q, r = divmod(abs(a), unit)
    q += 2 * r > unit or (2 * r == unit and (not even or q % 2 == 1))
    return (q if a > 0 else -q) * unit


BINARY: dict[str, Callable[[int, int], int | None]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "intdiv": truncated, "mod": remainder, "pmod": positive_remainder,
    "least": min, "greatest": max,
}  # fmt: skip
UNARY: dict[str, Callable[[int], int]] = {"neg": lambda a: -a, "abs": abs}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "eq_null_safe": lambda a, b: a == b,
}  # fmt: skip
INTS = [ty.INT8, ty.INT16, ty.INT32, ty.INT64, ty.UINT8, ty.UINT16, ty.UINT32, ty.UINT64]


def corners(t: Type) -> list[int]:
    low, high = t.limits
    near = {low, low + 1, low + 2, high, high - 1, high // 2, high // 2 + 1, 0, 1, 2, 3, 7, 10, 100}
    root = int(high**0.5)
    near |= {root, root + 1, (high // 3) & ~1, high // 3}
    if t.signed:
        near |= {-1, -2, -3, -7, -10, -root, -root - 1, low // 2, low // 2 - 1}
    if t.bits == 64:
        near |= {(1 << 53) + 1, (1 << 62) - 1, 1 << 62, (1 << 32) + 1, 3037000499, 3037000500}
    return sorted(x for x in near if low <= x <= high)


def want(op: str, t: Type, f: Callable[..., int | None], *args: int) -> Any:
    low, high = (ty.INT64 if op == "intdiv" else t).limits
    v = f(*args)
    return v if v is not None and low <= v <= high else ERROR


def pairs(t: Type) -> list[tuple[int, int]]:
    if t.bits == 8:
        low, high = t.limits
        return list(itertools.product(range(low, high + 1), repeat=2))
    return list(itertools.product(corners(t), repeat=2))


@pytest.mark.one_in(7)
@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("op", BINARY)
def test_two_columns(op: str, t: Type) -> None:
    both = pairs(t)
    columns = {"a": pa.array([a for a, _ in both], to_arrow(t)), "b": pa.array([b for _, b in both], to_arrow(t))}
    node = make(op, (col("a", t), col("b", t)), (), ty.INT64 if op == "intdiv" else t)
    assert answers(node, columns) == [want(op, t, BINARY[op], a, b) for a, b in both]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("op", BINARY)
def test_a_column_and_a_constant(op: str, t: Type) -> None:
    values = corners(t)
    columns = {"a": pa.array(values, to_arrow(t))}
    result = ty.INT64 if op == "intdiv" else t
    for c in values:
        literal = make("literal", (), (c,), t)
        f = BINARY[op]
        right = answers(make(op, (col("a", t), literal), (), result), columns)
        left = answers(make(op, (literal, col("a", t)), (), result), columns)
        assert right == [want(op, t, f, a, c) for a in values], c
        assert left == [want(op, t, f, c, a) for a in values], c


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("op", UNARY)
def test_one_column(op: str, t: Type) -> None:
    values = corners(t)
    got = answers(make(op, (col("a", t),), (), t), {"a": pa.array(values, to_arrow(t))})
    assert got == [want(op, t, UNARY[op], a) for a in values]


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("digits", [0, 2, -1, -2, -3, -18, -19, -20, -40])
@pytest.mark.parametrize("op", ["round", "bround"])
def test_rounding(op: str, digits: int, t: Type) -> None:
    values = sorted({*corners(t), *(v for v in (5, 15, 25, 50, 150, 250, 500, 1500) if v <= t.limits[1])})
    got = answers(make(op, (col("a", t),), (digits,), t), {"a": pa.array(values, to_arrow(t))})
    even = op == "bround"
    assert got == [a if digits >= 0 else want(op, t, lambda x: rounded(x, digits, even), a) for a in values]


@pytest.mark.parametrize("u", INTS, ids=str)
@pytest.mark.parametrize("t", INTS, ids=str)
def test_casts_between_widths(t: Type, u: Type) -> None:
    low, high = u.limits
    values = sorted({*corners(t), *(v for v in (low, high, low - 1, high + 1) if t.limits[0] <= v <= t.limits[1])})
    got = answers(make("cast", (col("a", t),), (u, "UTC"), u), {"a": pa.array(values, to_arrow(t))})
    assert got == [v if low <= v <= high else ERROR for v in values]


@pytest.mark.parametrize("u", INTS, ids=str)
@pytest.mark.parametrize("t", INTS, ids=str)
def test_comparisons_across_widths_are_of_the_integers(t: Type, u: Type) -> None:
    both = list(itertools.product(corners(t), corners(u)))
    columns = {"a": pa.array([a for a, _ in both], to_arrow(t)), "b": pa.array([b for _, b in both], to_arrow(u))}
    for op, f in COMPARE.items():
        got = answers(make(op, (col("a", t), col("b", u)), (), ty.BOOL), columns)
        assert got == [f(a, b) for a, b in both], op


def test_int64_against_uint64_through_the_common_decimal() -> None:
    # As ivjoin.expr.build has them meet.
    wide = ty.decimal(20, 0)
    both = list(itertools.product(corners(ty.INT64), corners(ty.UINT64)))
    columns = {"a": pa.array([a for a, _ in both], pa.int64()), "b": pa.array([b for _, b in both], pa.uint64())}
    a, b = (make("cast", (c,), (wide, "UTC"), wide) for c in (col("a", ty.INT64), col("b", ty.UINT64)))
    for op, f in COMPARE.items():
        assert answers(make(op, (a, b), (), ty.BOOL), columns) == [f(x, y) for x, y in both], op
    total = make("add", (a, b), (), ty.decimal(21, 0))
    assert answers(total, columns) == [x + y for x, y in both]


@pytest.mark.parametrize("op", BINARY)
def test_nulls_win_over_overflow_beneath_them(op: str) -> None:
    # What lies beneath a null may overflow or divide by zero; it must not err.
    t = ty.INT64
    beneath = np.array([(1 << 63) - 1, -(1 << 63), 5, 5], dtype=np.int64)
    zero = np.array([(1 << 63) - 1, -1, 0, 2], dtype=np.int64)
    a = pa.Array.from_buffers(pa.int64(), 4, [pa.py_buffer(b"\x08"), pa.py_buffer(beneath)])
    b = pa.array(zero)
    node = make(op, (col("a", t), col("b", t)), (), t)
    got = answers(node, {"a": a, "b": b})
    if op in ("least", "greatest"):
        assert got[:3] == zero.tolist()[:3]
    else:
        assert got[:3] == [None, None, None] and got[3] is not None
    literal = make("literal", (), (2,), t)
    if op in ("add", "mul", "sub"):
        assert answers(make(op, (col("a", t), literal), (), t), {"a": a})[:3] == [None] * 3
