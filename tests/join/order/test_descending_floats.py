"""Descending orders of floats: a NaN has no place in them, and bounds hold where none can match."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import oracle
import pyarrow as pa
import pytest
from join import duck
from join.tables import ids

import ivjoin
from ivjoin import Order

NAN = math.nan
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("k", pa.int64())])
Row = dict[str, Any]

# Each condition, and whether it shuts NaN out on both sides.
CASES = [
    ("l.x - r.x BETWEEN -3 AND 3", True), ("abs(l.x - r.x) <= 3", True),
    ("l.x <= r.x + 3 AND r.x <= l.x + 3 AND NOT isnan(l.x) AND NOT isnan(r.x)", True),
    ("l.x < r.x + 3 AND l.x > r.x - 3 AND r.x < 1e300", True), ("l.x <= r.x + 3 AND r.x <= l.x + 3", False),
    ("l.x = r.x", False), ("l.x > r.x - 3 AND l.x < r.x + 3", False),
    ("(l.x - r.x) * (l.x - r.x) <= 9 OR l.k = -r.k", False), ("NOT isnan(l.x) AND l.k = r.k AND l.x >= r.x", False),
]


def some_rows(n: int, seed: int) -> list[Row]:
    rng, x, out = random.Random(seed), 50.0, []
    for i in range(n):
        x -= rng.choice([0.0, 0.5, 1.0, 2.25])
        special = rng.random()
        v = NAN if special < 0.15 else None if special < 0.2 else 0.0 if abs(x) < 0.5 and special < 0.6 else x
        v = -0.0 if v == 0.0 and special < 0.4 else v
        out.append({"id": i, "x": v, "k": rng.randrange(4)})
    if n > 5:
        out[0]["x"] = math.inf
        out += [{"id": n, "x": -math.inf, "k": 1}, {"id": n + 1, "x": NAN, "k": 2}]
    return out


@pytest.mark.one_in(13)
@pytest.mark.parametrize("how", oracle.HOWS)
@pytest.mark.parametrize("text", [text for text, _ in CASES])
def test_rows_are_those_of_duckdb(text: str, how: str) -> None:
    order = Order("x", descending=True)
    for seed, size in ((1, 1), (2, 7), (3, 200)):
        tables = [pa.Table.from_pylist(some_rows(n, s), SCHEMA) for n, s in ((45, seed), (50, seed + 10))]
        stream = ivjoin.band_join(
            tables[0].to_reader(size), tables[1].to_reader(size + 2), condition=text, how=how, left_order=order,
            right_order=order,
        )
        assert ids(stream, how) == Counter(duck.pairs(*tables, how, text))


@pytest.mark.one_in(11)
@pytest.mark.parametrize("how", ["inner", "full", "left_anti"])
@pytest.mark.parametrize("text, shut", CASES[:5])
def test_the_state_is_the_window_where_no_nan_can_match(text: str, shut: bool, how: str) -> None:
    order = Order("x", descending=True)
    op = ivjoin.SymmetricHashJoin(SCHEMA, SCHEMA, condition=text, how=how, left_order=order, right_order=order)
    most = 0
    for i in range(0, 6000, 50):
        x = [NAN if j % 7 == 0 else -j / 2 for j in range(i, i + 50)]
        batch = pa.record_batch([pa.array(range(i, i + 50)), pa.array(x), pa.array([0] * 50)], schema=SCHEMA)
        for side in ("left", "right"):
            list(op.push(side, batch))
            op = ivjoin.SymmetricHashJoin.restore(op.snapshot()) if i % 1000 == 0 else op
        most = max(most, op.metrics.state_rows)
    assert (most < 150) == shut, most


def test_bounds_of_the_output_keep_the_nan_of_a_row_that_matches_nothing() -> None:
    order = Order("x", descending=True)
    op = ivjoin.SymmetricHashJoin(
        SCHEMA, SCHEMA, condition="l.x - r.x BETWEEN -1 AND 1", how="left", left_order=order, right_order=order
    )
    batch = pa.record_batch([pa.array([1]), pa.array([5.0]), pa.array([0])], schema=SCHEMA)
    list(op.push("left", batch))
    list(op.push("right", batch))
    assert op.output_bounds()["x"] == (-math.inf, None)
    op = ivjoin.SymmetricHashJoin(
        SCHEMA, SCHEMA, condition="l.x - r.x BETWEEN -1 AND 1", left_order=order, right_order=order
    )
    list(op.push("left", batch))
    list(op.push("right", batch))
    low, high = op.output_bounds()["x"]
    assert low == -math.inf and high is not None


@pytest.mark.parametrize("text", [CASES[0][0], CASES[2][0]])
@pytest.mark.parametrize("slack", [None, 25])
@pytest.mark.parametrize("t", [pa.float64(), pa.float32()])
def test_a_watermark_of_a_falling_order_holds_for_numbers(t: pa.DataType, slack: int | None, text: str) -> None:
    order = Order("x", descending=True, slack=slack)
    schema = pa.schema([("x", t)])

    def batch(*values: float) -> pa.RecordBatch:
        return pa.record_batch([pa.array(values, t)], schema=schema)

    def given_out(batches: Any) -> list[float]:
        return [row["x_right"] for b in batches for row in b.to_pylist()]

    op = ivjoin.SymmetricHashJoin(
        schema, schema, condition=text, how="right", left_order=order, right_order=order, on_late="drop"
    )
    list(op.push("right", batch(100.0, 90.0, 44.0, 43.0, 41.0, NAN)))
    assert [x for x in given_out(op.advance("left", {"x": 40.0})) if x == x] == [100.0, 90.0, 44.0]
    op = ivjoin.SymmetricHashJoin.restore(op.snapshot())
    assert given_out(op.push("left", batch(NAN, 43.0, 40.5))) == [] and op.metrics.late_rows == 2
    assert given_out(op.advance("left", {"x": 50.0})) == [], "behind the first one, it changes nothing"
    assert sorted(given_out(op.push("left", batch(NAN, 40.5, 40.0)))) == [41.0, 43.0] and op.metrics.late_rows == 3
    assert [x for x in given_out(op.finish()) if x == x] == []


@pytest.mark.parametrize("high, late", [(None, 1), (60.0, 2)])
def test_error_of_a_descending_watermark_names_the_end(high: float | None, late: int) -> None:
    order = Order("x", descending=True)
    options: dict[str, Any] = {"condition": "l.x <= r.x", "left_order": order, "left_bounds": {"x": (None, high)}}
    options |= {} if high is not None else {"left_bounds": None}
    schema = pa.schema([("x", pa.float64())])
    rows = pa.record_batch([pa.array([NAN, 43.0, 40.0])], schema=schema)
    op = ivjoin.SymmetricHashJoin(schema, schema, **options, on_late="drop")
    list(op.advance("left", {"x": 40.0}))
    list(op.push("left", rows))
    assert op.metrics.late_rows == late, "a NaN is above bounds, and a watermark says nothing of it"
    op = ivjoin.SymmetricHashJoin(schema, schema, **options)
    list(op.advance("left", {"x": 40.0}))
    with pytest.raises(ivjoin.LateRowError, match=r"but it was promised to be up to 40\.0\. Promise less"):
        op.push("left", rows)


def test_a_watermark_of_a_falling_order_in_a_join_of_many() -> None:
    falls = Order("x", descending=True)
    schema = pa.schema([("x", pa.float64())])
    op = ivjoin.MultiJoin(
        dict.fromkeys("abc", schema), "abs(a.x - b.x) <= 1 AND abs(b.x - c.x) <= 1",
        orders={"a": falls, "b": falls, "c": falls}, on_late="drop",
    )  # fmt: skip
    for a in "ab":
        list(op.push(a, pa.record_batch([pa.array([9.0, 5.0])], schema=schema)))
    held = op.metrics.state_rows
    list(op.advance("c", {"x": 6.0}))
    assert op.metrics.state_rows < held
    list(op.push("c", pa.record_batch([pa.array([NAN, 8.0, 6.0])], schema=schema)))
    assert op.metrics.late_rows == 1
    assert sum(b.num_rows for b in op.push("c", pa.record_batch([pa.array([5.0])], schema=schema))) == 1
