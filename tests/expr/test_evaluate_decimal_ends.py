"""Decimals whose unscaled integers are the ends of an int64, the type of small ones, against exact numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from evaluating import ERROR, answers, col

from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import Type, decimal, to_arrow
from ivjoin.interval.machine.decimals import half_up

WIDE = Context(prec=80)
LEAST = -(2**63)
VALUES = [LEAST, LEAST + 1, -(10**18), -(2**31), -1, 0, 1, 5, 2**31, 10**18, 2**63 - 2, 2**63 - 1]
TYPES = [decimal(38, 18), decimal(38, 4), decimal(30, 2), decimal(20, 20), decimal(19, 0)]


def array(values: list[int], t: Type) -> pa.Array:
    return pa.array([Decimal(v).scaleb(-t.scale, WIDE) for v in values], to_arrow(t))


def unscaled(x: Fraction, t: Type) -> Any:
    x *= 10**t.scale
    n = half_up(x.numerator, x.denominator)
    return n if abs(n) < 10**t.precision else ERROR


UNARY: dict[str, tuple[Callable[[Node], Node], Callable[[Fraction], Fraction | int]]] = {
    "floor": (build.floor, math.floor), "ceil": (build.ceil, math.ceil), "neg": (build.neg, lambda x: -x),
    "abs": (build.abs_, abs),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("t", TYPES, ids=str)
def test_one_argument(name: str, t: Type) -> None:
    made, exact = UNARY[name]
    node = made(col("x", to_arrow(t)))
    for v in VALUES:  # one by one, lest a neighbour turn them to Python's integers
        assert answers(node, {"x": array([v], t)}) == [unscaled(Fraction(exact(Fraction(v, 10**t.scale))), node.type)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("u", TYPES, ids=str)
def test_quotients(t: Type, u: Type) -> None:
    node = build.div(col("x", to_arrow(t)), col("y", to_arrow(u)))
    for v, w in itertools.product(VALUES, VALUES):
        x, y = Fraction(v, 10**t.scale), Fraction(w, 10**u.scale)
        got = answers(node, {"x": array([v], t), "y": array([w], u)})
        if y:
            q = x / y * 10**38  # as Spark rounds: at 38 digits first
            want = unscaled(Fraction(half_up(q.numerator, q.denominator), 10**38), node.type)
        assert got == [want if y else ERROR], (v, w)
