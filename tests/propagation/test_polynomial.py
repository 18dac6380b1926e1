"""Terms that read a column more than once: nothing is lost, whatever is rounded, and the bounds come close."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import conditions, expr
from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.polynomial import divided, plus, times
from ivjoin.propagation import Outcome, contract

TERMS = [
    "a * a + a", "a * a - 2 * a * b + b * b", "a * b + a * c", "a * b - a * c", "(a - b) + (b - c)",
    "(a + b) * (a - b)", "a * a * a - a", "a * b * a", "2 * (a + b) - 3 * (a - b)", "(a - b) * (a - b) - a * a",
    "a - a * b", "b * (a - c) - c * a", "a * a + b * b - a", "a * b * c - a", "(a + b) * (a + b)", "-a * a + b - a",
]  # fmt: skip
FLOATS = [*TERMS, "a - a / 2 - b", "a / 3 - a / 7", "a * 0.1D + a * 0.7D - b", "pow(a - b, 2) + a", "1.1D * a - a - b"]


def values(text: str, columns: dict[str, pa.Array]) -> Any:
    schema = pa.schema([(n, c.type) for n, c in columns.items()])
    node = conditions.scalar(text, expr.Scope(schema, pa.schema([])))
    (v,) = evaluate([node], lambda _, name: columns[name], len(next(iter(columns.values()))))
    return v


def true_at(text: str, columns: dict[str, pa.Array]) -> np.ndarray:
    v = values(text, columns)
    true = np.array(v.values, dtype=bool)
    if v.valid is not None:
        true &= v.valid
    if v.error is not None:
        true &= ~v.error
    return true


def number(rng: random.Random, t: str) -> Any:
    if t in ("double", "float"):
        x = rng.choice([
            rng.uniform(-10, 10), rng.uniform(-1e6, 1e6), rng.choice([0.1, 0.3, 1.1, -0.7, 1e-9, 5e-324, 1e16, 0.0]),
            float(rng.randint(-20, 20)), rng.gauss(0, 1) * 10.0 ** rng.randint(-12, 12),
        ])  # fmt: skip
        return float(np.float32(x)) if t == "float" else x
    if t.startswith("decimal"):
        return Decimal(rng.randint(-(10**5), 10**5)).scaleb(-2)
    return rng.randint(-(10**rng.randint(1, 9)), 10 ** rng.randint(1, 9))


def just_true(rng: random.Random, term: str, point: dict[str, Any], t: str) -> tuple[str, dict[str, Any]] | None:
    """A comparison of the term that its own value at a point satisfies by nothing to spare; with further columns."""
    at = {n: pa.array([v], pa.type_for_alias(t) if not t.startswith("decimal") else pa.decimal128(9, 2))
          for n, v in point.items()}  # fmt: skip
    got = values(term, at)
    if got.error is not None and got.error[0]:
        return None
    if t in ("double", "float"):
        v = float(got.values[0])
        if not np.isfinite(v):
            return None
        near = rng.choice([np.nextafter(v, -np.inf), v, v])
        return rng.choice([f"{term} >= {float(near)!r}D", f"{term} <= {v!r}D", f"{term} = {v!r}D"]), at
    v = int(got.values[0])
    if t.startswith("decimal"):
        node = conditions.scalar(term, expr.Scope(pa.schema([(n, c.type) for n, c in at.items()]), pa.schema([])))
        constant = str(Decimal(v).scaleb(-node.type.scale))
    else:
        constant = f"({v})"
    return f"{term} {rng.choice(['>=', '<=', '='])} {constant}", at


@pytest.mark.slow
@pytest.mark.parametrize("t", ["double", "float", "int64", "decimal(9,2)"])
def test_point_on_the_edge_is_retained(t: str) -> None:
    """Witness first: a box that touches the point on every side, or is the point."""
    rng = random.Random(t)
    tried = 0
    for turn in range(250):
        term = rng.choice(FLOATS if t in ("double", "float") else TERMS)
        point = {n: number(rng, t) for n in "abc"}
        made = just_true(rng, term, point, t)
        if made is None:
            continue
        condition, at = made
        if not true_at(condition, at)[0]:
            continue
        tried += 1
        box = {}
        for n, v in point.items():
            down, up = (rng.choice([0, 1, abs(v) * type(v)(2), 100]) for _ in range(2))
            box[n] = (t, v - down, v + up)
        c = contract(condition, box, effort=rng.choice([0, 0, 30]))
        assert c.outcome is not Outcome.INFEASIBLE, (turn, condition, point, box)
        for n, v in point.items():
            assert v in c.box[n], (turn, n, condition, point, box, c)
    assert tried > 155


@pytest.mark.slow
@pytest.mark.parametrize("t, width", [("int64", 10**6), ("int64", 10**9), ("double", 10**6), ("decimal(9,2)", 10**4)])
def test_wide_boxes_by_sampling(t: str, width: int) -> None:
    rng = random.Random(f"{t}{width}")
    draw = np.random.default_rng(width)
    hit = narrowed = 0
    for _ in range(80):
        term = rng.choice(FLOATS if t == "double" else TERMS)
        lo = {n: rng.randint(-width, width) for n in "abc"}
        box = {n: (v, v + rng.randint(0, width)) for n, v in lo.items()}
        point = {n: rng.randint(*b) for n, b in box.items()}
        made = just_true(rng, term, {n: type(number(rng, t))(v) for n, v in point.items()}, t)
        if made is None:
            continue
        condition, at = made
        c = contract(condition, {n: (t, *b) for n, b in box.items()}, effort=rng.choice([0, 100]))
        columns = {}
        for n, b in box.items():
            xs = np.concatenate([draw.integers(b[0], b[1] + 1, 2000), [b[0], b[1], point[n]]])
            wide = pa.array(xs).cast(pa.decimal128(38, 2)) if t.startswith("decimal") else pa.array(xs)
            columns[n] = wide.cast(at[n].type)
        true = true_at(condition, columns)
        narrowed += c.outcome is Outcome.CONTRACTED
        if true.any():
            assert c.outcome is not Outcome.INFEASIBLE, (condition, box)
            hit += 1
            for n, column in columns.items():
                inside = column.filter(pa.array(true)).to_pylist()
                assert c.box[n].inf <= min(inside), (condition, box, n, c)
                assert max(inside) <= c.box[n].sup, (condition, box, n, c)
    assert hit > 30
    assert narrowed > 15


# The rows for which going down operator by operator is loose, with the hull over the reals. (condition, box, hull of a)
LOOSE = {
    "a sum in parts": ("a - a / 2 - b = 0", {"a": (0, 100), "b": (10, 20)}, (20, 40)),
    "slow convergence": ("1.1D * a - a - b <= 0", {"a": (0, 100), "b": (1, 2)}, (0, 20)),
    "terms that cancel": ("(a - b) + (b - c) BETWEEN 0 AND 5", {"a": (0, 100), "b": (0, 100), "c": (40, 50)}, (40, 55)),
    "two linear terms": ("2 * (a + b) - 3 * (a - b) BETWEEN 0 AND 10", {"a": (0, 100), "b": (0, 10)}, (0, 50)),
    "a common factor": ("a * b + a * c BETWEEN 10 AND 20", {"a": (1, 100), "b": (-4, 10), "c": (5, 8)}, (1, 20)),
    "a common factor, less": (
        "a * b - a * c BETWEEN 10 AND 20", {"a": (0, 100), "b": (9, 10), "c": (5, 6)}, (2, Fraction(20, 3)),
    ),
    "a square in parts": ("a * a - 2 * a * b + b * b <= 25", {"a": (0, 100), "b": (40, 50)}, (35, 55)),
    "a square": ("a * a <= 9", {"a": (-10, 4)}, (-3, 3)),
    "a quotient of a sum": ("(a + b) / a BETWEEN 2 AND 3", {"a": (1, 100), "b": (10, 12)}, (5, 12)),
    "a part of a sum": ("a / (a + b) BETWEEN 0.5D AND 0.75D", {"a": (1, 100), "b": (10, 12)}, (10, 36)),
    "sum times difference": ("(a + b) * (a - b) BETWEEN 0 AND 10", {"a": (5, 8), "b": (5, 6)}, (5, 46**0.5)),
    "square and itself": ("a * a + a BETWEEN 0 AND 6", {"a": (-10, 10)}, (-3, 2)),
    "absolute difference": ("abs(a - b) <= 5", {"a": (0, 100), "b": (40, 50)}, (35, 55)),
    "distance": (
        "pow(a - c, 2) + pow(b - d, 2) <= 25", {"a": (0, 100), "b": (0, 100), "c": (40, 50), "d": (40, 50)}, (35, 55),
    ),
    "greatest less least": ("greatest(a, b) - least(a, b) <= 5", {"a": (0, 100), "b": (40, 50)}, (35, 55)),
    "equal minutes": ("floor(a / 60) = floor(b / 60)", {"a": (0, 1000), "b": (125, 185)}, (120, 240)),
    "a remainder": ("a + 60 * floor(b / 60) - b BETWEEN 0 AND 10", {"a": (0, 100), "b": (0, 1_000)}, (0, 70)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOSE)
def test_the_hull_over_the_reals(name: str) -> None:
    condition, box, hull = LOOSE[name]
    c = contract(condition, {n: ("double", *b) for n, b in box.items()})
    want = float(hull[0]), float(hull[1])
    assert (c.box["a"].inf, c.box["a"].sup) == pytest.approx(want, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", LOOSE)
def test_the_hull_over_the_integers(name: str) -> None:
    condition, box, hull = LOOSE[name]
    c = contract(condition, {n: ("int64", *b) for n, b in box.items()})
    lo, hi = -(-Fraction(hull[0]) // 1), Fraction(hull[1]) // 1
    if name == "equal minutes":
        hi = 239  # the minute that begins at 240 is another
    assert (c.box["a"].inf, c.box["a"].sup) == (lo, hi)


@pytest.mark.parametrize("name", sorted(set(LOOSE) - {"equal minutes", "a remainder"}))
def test_most_need_no_search(name: str) -> None:
    condition, box, hull = LOOSE[name]
    c = contract(condition, {n: ("int64", *b) for n, b in box.items()}, effort=0)
    assert (c.box["a"].inf, c.box["a"].sup) == (-(-Fraction(hull[0]) // 1), Fraction(hull[1]) // 1)


# Arithmetic of polynomials

A, B = {(0,): 1}, {(1,): 1}


def test_products_and_quotients_of_polynomials() -> None:
    total, difference = {(0,): 1, (1,): 1}, {(0,): 1, (1,): -1}
    product = times(total, difference)
    assert product == {(0, 0): 1, (1, 1): -1}
    assert plus(times(total, total), times(difference, difference), -1) == {(0, 1): 4}
    assert divided(product, total, True) == (difference, {})
    assert divided({(0, 1): 3, (1,): 6, (): 1}, {(1,): 3}, True) == ({(0,): 1, (): 2}, {(): 1})
    assert divided({(1,): 5}, {(1,): 3}, True) == ({}, {(1,): 5})
    assert divided({(1,): 5}, {(1,): 3}, False) == ({(): Fraction(5, 3)}, {})
