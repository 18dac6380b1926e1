"""Comparisons of one sum whose bounds do not meet are empty at once, and only those."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

import ivjoin
from ivjoin.propagation import Outcome, contract

EMPTY = [
    ("a > b AND a < b + 1", "bigint"), ("a - 1 > b + 5 AND a + 3 < b + 10", "bigint"),
    ("a - b > 6 AND a - b < 7", "bigint"), ("2 * a - 2 * b >= 1 AND a - b < 1", "bigint"),
    ("b - a > 0 AND a >= b", "bigint"), ("a + b = 3 AND 3 * a + 3 * b > 9", "bigint"),
    ("NOT (a <= b) AND a < b + 1", "int"), ("a > b AND a < b + 1", "date"),
    ("a > b AND a < b + 0.01", "decimal(10, 2)"),
    ("a > b AND a < b + INTERVAL '0.000001' SECOND", "timestamp"),
    ("a > b AND (a < b + 1 AND a > 3)", "bigint"),
]


@pytest.mark.parametrize("condition, t", EMPTY, ids=[c for c, _ in EMPTY])
def test_empty_whatever_the_box(condition: str, t: str) -> None:
    assert contract(condition, {"a": (t, None, None), "b": (t, None, None)}).outcome is Outcome.INFEASIBLE


@pytest.mark.parametrize("condition, t", [
    ("a >= b AND a < b + 1", "bigint"), ("a > b AND a < b + 2", "bigint"), ("a > b AND a < b + 1", "double"),
    ("a > b AND a < b + 0.02", "decimal(10, 2)"), ("a > b OR a < b + 1", "bigint"), ("a > b AND b > a - 2", "bigint"),
    ("a <> b AND a <= b", "bigint"), ("a > b AND a < c + 1", "bigint"),
])  # fmt: skip
def test_rows_that_can_match_stay(condition: str, t: str) -> None:
    box = dict.fromkeys("abc", (t, None, None))
    assert contract(condition, box).outcome is not Outcome.INFEASIBLE


@pytest.mark.slow
def test_nothing_is_called_empty_that_is_not() -> None:
    rng = random.Random(5)
    empty = 0
    for _ in range(400):
        parts, tests = [], []
        for _ in range(rng.randrange(2, 4)):
            p, q, k = rng.choice([1, 1, -1, 2, 3]), rng.choice([1, -1, -1, 2]), rng.randrange(-4, 5)
            op = rng.choice(["<", "<=", ">", ">=", "="])
            parts.append(f"{p} * a {op} {q} * b + {k}")
            tests.append((p, op, q, k))
        points = itertools.product(range(-9, 10), repeat=2)
        there = any(all(_holds(p * a, op, q * b + k) for p, op, q, k in tests) for a, b in points)
        found = contract(" AND ".join(parts), {"a": ("tinyint", -9, 9), "b": ("tinyint", -9, 9)}).outcome
        assert not (there and found is Outcome.INFEASIBLE), parts
        empty += found is Outcome.INFEASIBLE
    assert empty > 50


def _holds(x: int, op: str, y: int) -> bool:
    return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "=": x == y}[op]


def test_a_join_on_an_empty_condition_gives_no_row() -> None:
    schema = pa.schema([("a", pa.int64())])
    text = "l.a > r.a AND l.a < r.a + 1"
    op = ivjoin.SymmetricHashJoin(schema, schema, condition=text, left_order="a", right_order="a")
    for i in range(0, 2000, 100):
        batch = pa.record_batch([pa.array(range(i, i + 100))], schema=schema)
        assert not [*op.push("left", batch), *op.push("right", batch)]
    assert op.metrics.state_rows <= 100
