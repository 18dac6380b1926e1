"""Directions of expressions: the table of rules, and random expressions over random ordered columns."""

from __future__ import annotations

import itertools
import random
import warnings
from typing import Any

import pyarrow as pa
import pytest
from evaluating import ERROR, answers
from hypothesis import given
from hypothesis import strategies as st
from weights import examples
from witnesses import Witness

from ivjoin import conditions, expr
from ivjoin.errors import IvjoinError
from ivjoin.expr.nodes import Node, columns_of
from ivjoin.expr.types import to_arrow
from ivjoin.propagation import Direction, Dom, ordering

UP, DOWN, SAME, NO = Direction.ASCENDING, Direction.DESCENDING, Direction.CONSTANT, Direction.NONE
SCHEMA = pa.schema(
    [("a", pa.int64()), ("b", pa.int64()), ("d", pa.int64()), ("x", pa.float64()), ("ts", pa.timestamp("us", "UTC")),
     ("day", pa.date32()), ("free", pa.int64())]
)  # fmt: skip
SCOPE = expr.Scope(SCHEMA, pa.schema([]))


def node(text: str, zone: str = "UTC") -> Node:
    return conditions.scalar(text, SCOPE, timezone=zone)


ORDERS = {node(n): UP for n in ("a", "b", "x", "ts", "day")} | {node("d"): DOWN}


@pytest.mark.parametrize("text, want", [
    ("a", UP), ("d", DOWN), ("free", NO), ("5", SAME), ("a + b", UP), ("a + d", NO), ("a - d", UP), ("d - a", DOWN),
    ("5 - d", UP), ("-a", DOWN), ("a + free", NO), ("a + free - free", UP), ("a - a", SAME), ("3 * a - a", UP),
    ("2 * a + 3 * b", UP), ("-2 * a", DOWN), ("a * b", NO), ("a * free", NO), ("a div 3", UP), ("a div -3", DOWN),
    ("a / 3", UP), ("3 / a", NO), ("a % 3", NO), ("abs(a)", NO), ("floor(a)", UP), ("floor(x)", NO), ("x + x", UP),
    ("round(x)", UP), ("sqrt(x)", UP), ("exp(x)", NO), ("least(a, b)", NO), ("coalesce(a, b)", NO),
    ("CAST(a AS DOUBLE)", UP), ("CAST(a AS STRING)", NO), ("CAST(ts AS DATE)", UP), ("date_trunc('day', ts)", UP),
    ("hour(ts)", NO), ("year(ts)", UP), ("unix_seconds(ts)", UP), ("ts + INTERVAL 1 DAY", UP),
    ("ts + INTERVAL 1 MONTH", NO), ("day + INTERVAL 1 MONTH", UP), ("datediff(day, DATE '2024-01-01')", UP),
    ("a > 5", UP), ("a < 5", DOWN), ("x > 5", NO), ("NOT (a > 5)", DOWN), ("a > 5 AND b > 5", NO), ("a = 5", NO),
    ("CASE WHEN a > 5 THEN a ELSE b END", NO),
])  # fmt: skip
def test_without_bounds(text: str, want: Direction) -> None:
    assert ordering(node(text), ORDERS) is want


@pytest.mark.parametrize("text, want", [
    ("a * b", UP), ("a * d", DOWN), ("b * -d", UP), ("abs(a)", UP), ("abs(d)", UP), ("a / b", NO), ("3 / b", DOWN),
    ("a / -d", NO), ("a div -d", NO), ("3 div -d", DOWN), ("a * a", UP),
    ("d * d", UP), ("least(a, b)", UP), ("greatest(a, 3)", UP), ("coalesce(a, free)", UP),
    ("a > 5 AND b > 5", UP), ("floor(x)", UP), ("x > 5", UP),
])  # fmt: skip
def test_with_bounds(text: str, want: Direction) -> None:
    known = {
        node("a"): Dom.of(node("a").type, 0, None, null=False), node("b"): Dom.of(node("b").type, 1, 9, null=False),
        node("d"): Dom.of(node("d").type, None, -1, null=False),
        node("x"): Dom.of(node("x").type, 0.0, 9.0, null=False, nan=False),
    }  # fmt: skip
    # b rises and -d rises: their product does, as both are positive.
    assert ordering(node(text), ORDERS, known) is want


def test_clocks_that_change() -> None:
    for text in ("CAST(ts AS DATE)", "date_trunc('hour', ts)", "ts + INTERVAL 1 DAY", "CAST(ts AS TIMESTAMP_NTZ)"):
        assert ordering(node(text), ORDERS) is UP
        assert ordering(node(text, "America/New_York"), ORDERS) is NO
    assert ordering(node("ts + INTERVAL 1 HOUR", "America/New_York"), ORDERS) is UP


def test_a_declared_order_of_an_expression_is_used() -> None:
    assert ordering(node("(free + 1) * 2"), {node("free + 1"): UP}) is UP
    assert ordering(node("(free + 2) * 2"), {node("free + 1"): UP}) is NO


def is_ordered(values: list[Any], direction: Direction) -> bool:
    pairs = list(itertools.pairwise(values))
    if direction is UP:
        return all(x <= y for x, y in pairs)
    if direction is DOWN:
        return all(x >= y for x, y in pairs)
    return len(set(values)) <= 1 if direction is SAME else True


@given(st.integers(0, 2**40))
@examples()
def test_random_expressions(seed: int) -> None:
    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        w = Witness(rng)
        try:
            e = w.anything(3)
        except IvjoinError:
            return
        used = columns_of(e)
        if e.op in ("literal", "column") or not e.type.is_ordered or any(not c.type.is_ordered for c in used):
            return
        orders: dict[Node, Direction] = {}
        known: dict[Node, Dom] = {}
        arrays: dict[str, pa.Array] = {}
        for c in used:
            with_gaps = rng.random() < 0.4
            values = [w.edge(c.type) for _ in range(12)]
            if c.type.kind == "float" and not with_gaps:
                values = [v for v in values if v == v] or [0.0]
            values = (values * 12)[:12]
            plain = sorted(v for v in values if v == v)
            direction = rng.choice([UP, UP, DOWN, NO])
            if direction is DOWN:
                plain.reverse()
            if direction is not NO:
                orders[c] = direction
                rest = iter(plain)
                values = [next(rest) if v == v else v for v in values]
            known[c] = Dom.of(c.type, min(plain, default=None), max(plain, default=None), null=with_gaps, nan=with_gaps)
            if with_gaps:
                values = [None if rng.random() < 0.2 else v for v in values]
            one = Witness.__new__(Witness)
            one.columns = {"v": c}
            rows = []
            for v in values:
                one.row = {"v": v}
                rows.append(one.arrays()["v"])
            arrays[c.params[1]] = pa.concat_arrays(rows).cast(to_arrow(c.type))
        found = answers(e, arrays, 12)
    there = [x for x in found if x is not None and x is not ERROR and x == x]
    direction = ordering(e, orders, known)
    assert is_ordered(there, direction), (str(e), direction, arrays, there)
