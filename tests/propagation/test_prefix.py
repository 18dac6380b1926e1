"""What going up alone refutes of an axis: nothing that matches, and as much as it can."""

from __future__ import annotations

import math
import random

import hulls
import numpy as np
import pyarrow as pa
import pytest
from evaluating import there

from ivjoin import conditions, expr
from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import ordinal_of, value_of
from ivjoin.expr.types import FLOAT64, INT64
from ivjoin.propagation import Dom, Propagator, confirmed, dead_until, refutes

A, B = (build.column("left", n, INT64) for n in "ab")
X, Y = (build.column("left", n, FLOAT64) for n in "xy")


def condition(text: str, names: str = "ab") -> Node:
    t = pa.int64() if names == "ab" else pa.float64()
    node = conditions.condition(text, expr.Scope(pa.schema([(n, t) for n in names]), pa.schema([])))
    assert node is not None
    return node


def true_at(node: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    columns = {"a": pa.array(a), "b": pa.array(b)}
    (v,) = evaluate([node], lambda _, name: columns[name], len(a))
    return np.asarray(v.values, dtype=bool) & there(v, len(a))


@pytest.mark.slow
@pytest.mark.parametrize("falling", [False, True])
def test_no_match_lies_in_a_dead_prefix(falling: bool) -> None:
    """Random conditions, rising along the axis or not, against every point; and the longest prefix is found."""
    rng = random.Random(int(falling))
    found = 0
    for _ in range(400):
        text, box = hulls.case(rng, 40)
        if set(box) != {"a", "b"}:
            continue
        node = condition(text)
        (alo, ahi), (blo, bhi) = box["a"], box["b"]
        p = Propagator([node], [A, B])
        known = {A: Dom.of(INT64, alo, ahi, null=False), B: Dom.of(INT64, blo, bhi, null=False)}
        near = rng.choice([None, rng.randint(alo - 50, ahi + 50)])
        dead = dead_until(p, known, A, falling, near)
        line = range(ahi, alo - 1, -1) if falling else range(alo, ahi + 1)
        refuted = [v for v in line if refutes(p, known, A, v, falling)]
        assert refuted == list(line)[: len(refuted)], "what refutes a prefix refutes every shorter one"
        assert dead == (refuted[-1] if refuted else None), (text, box)
        if dead is not None:
            found += 1
            a, b = (v.ravel() for v in np.meshgrid(np.array(refuted), np.arange(blo, bhi + 1)))
            assert not true_at(node, a, b).any(), (text, box, dead)
    assert found > 50


@pytest.mark.parametrize("text, low, want", [
    pytest.param("pow(2D, CAST(b - a AS DOUBLE)) <= 1024D", 1000, 989, id="an exponent"),
    pytest.param("pow(1.5D, abs(b - a)) < 1000", 1000, 982, id="the exponent of a distance"),
    pytest.param("b - a <= 10", 1000, 989, id="a difference"),
    pytest.param("(b - a) * (b - a) * (b - a) + b - a <= 1010", 1000, 989, id="repeated"),
    pytest.param("sin(b - a) > 0.5", 1000, 1000 - 2**63, id="periodic, but for what overflows"),
])  # fmt: skip
def test_functions_without_inverse_have_a_prefix(text: str, low: int, want: int) -> None:
    p = Propagator([condition(text)], [A, B])
    known = {B: Dom.of(INT64, low, None)}
    for near in (None, want, 0, -(2**63), 2**63 - 1, 985, 995):
        assert dead_until(p, known, A, near=near) == want


def test_from_above() -> None:
    p = Propagator([condition("pow(2D, CAST(a - b AS DOUBLE)) <= 1024D")], [A, B])
    known = {B: Dom.of(INT64, None, 1000, null=False)}
    assert dead_until(p, known, A, falling=True) == 1011
    assert dead_until(p, known, A) is None


def test_a_prefix_of_doubles_ends_at_the_very_double() -> None:
    """``x + 1.0 >= y`` where the sum rounds up: the least x that still matches is the first one not refuted."""
    p = Propagator([condition("x + 1.0D >= y", "xy")], [X, Y])
    for y in (1.1, 1e16, 0.3, -2.7, 1.0000000000000002):
        dead = dead_until(p, {Y: Dom.of(FLOAT64, y, None)}, X)
        assert dead is not None
        last, first = value_of(dead, FLOAT64), value_of(dead + 1, FLOAT64)
        assert last + 1.0 < y <= first + 1.0


def test_a_proposal_that_is_too_tight_is_moved_outward() -> None:
    p = Propagator([condition("x + 1.0D >= y", "xy")], [X, Y])
    known = {Y: Dom.of(FLOAT64, 1.1, None)}
    exact = ordinal_of(0.09999999999999987, FLOAT64)
    assert value_of(exact, FLOAT64) + 1.0 < 1.1 or math.isclose(value_of(exact, FLOAT64), 0.1)
    dead = dead_until(p, known, X)
    assert dead is not None
    # The inverse over the real numbers loses 0.1, which is rounded up to 1.1.
    real = ordinal_of(math.nextafter(1.1 - 1.0, 1), FLOAT64)
    assert real > dead + 1
    for proposed in (real, real + 5, dead + 2):
        got = confirmed(p, known, X, proposed)
        assert got <= dead + 1, "everything given up has been refuted"
    assert confirmed(p, known, X, dead + 1) == dead + 1
    assert confirmed(p, known, X, dead - 7) == dead - 7


def test_without_forward_knowledge_the_proposal_stays() -> None:
    p = Propagator([condition("sin(x) > y", "xy")], [X, Y])
    assert confirmed(p, {Y: Dom.of(FLOAT64, 0.0, 1.0)}, X, 12345) == 12345
