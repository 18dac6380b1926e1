"""Bands whose rearranged sum comes to a value past the ends of its type, where the condition as written does not.

``tests/join/types/test_edge_values.py`` plays such sums of two columns in every order, watermark and bound.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from ivjoin import EvaluationError, Order, SymmetricHashJoin

TOP, HALF = 2**63 - 1, 2**62
INT = pa.schema({"a": pa.int64()})


def batch(value: Any, schema: pa.Schema = INT) -> pa.RecordBatch:
    values = value if isinstance(value, tuple) else (value,)
    return pa.record_batch([pa.array([v], f.type) for v, f in zip(values, schema)], schema=schema)


def play(op: SymmetricHashJoin, steps: list[tuple[str, Any]], schema: pa.Schema = INT) -> Counter[tuple[Any, ...]]:
    """The output of pushes of one row each, advances and an end. ``("right!", v)`` is an advance of column a."""
    out = []
    for side, value in steps:
        if side.endswith("!"):
            out += op.advance(side[:-1], {"a": value})
        else:
            out += op.push(side, batch(value, schema))
    out += op.finish()
    return Counter(tuple(row.values()) for b in out for row in b.to_pylist())


def test_rows_short_of_the_end_are_dropped_all_the_same() -> None:
    """What is waited for is what may come; the rest of the state stays as small as the window."""
    op = SymmetricHashJoin(
        INT, INT, condition="l.a + r.a <= 0", left_order="a", right_order=Order("a", descending=True)
    )
    for i in range(200):
        list(op.push("left", batch(i)))
        list(op.push("right", batch(100 - i)))
    assert op.metrics.state_rows == 200, "every left row waits for a later right one, and no right row for a left one"
    falling = Order("a", descending=True)
    op = SymmetricHashJoin(INT, INT, condition="l.a + r.a >= 0", left_order="a", right_order=falling)
    for i in range(200):
        list(op.push("left", batch(i)))
        list(op.push("right", batch(5 - i)))
    assert op.metrics.state_rows < 220, "a left row below -r.a meets no later right one"


def test_a_sum_of_two_columns_is_waited_for() -> None:
    """``r.a + r.b`` has no bounds in its own type once it may overflow; the condition subtracts each."""
    two = pa.schema({"a": pa.int64(), "b": pa.int64()})
    bounds = {"b": (HALF, TOP)}
    op = SymmetricHashJoin(two, two, condition="l.a - r.a - r.b <= l.b", right_order="a", right_bounds=bounds)
    got = play(op, [("right", (HALF, HALF)), ("left", (TOP, -1)), ("right", (HALF, HALF)), ("right", (TOP, TOP))], two)
    assert sum(got.values()) == 3


@pytest.mark.parametrize("declared", ["bounds", "watermark", "order"])
def test_row_outside_any_promise_is_refused(declared: str) -> None:
    """``a + b`` overflows, so its bounds decide nothing; ``50 - a - b`` does not overflow."""
    two = pa.schema({"a": pa.int64(), "b": pa.int64()})
    options = {"bounds": {"right_bounds": {"a + b": (0, 10)}}, "order": {"right_order": "a + b"}}.get(declared, {})
    op = SymmetricHashJoin(two, two, condition="l.a - r.a - r.b <= 0", **options)
    if declared == "watermark":
        list(op.advance("right", {"a + b": 10}))
    list(op.push("left", batch((50, 0), two)))
    with pytest.raises(EvaluationError, match=f"{declared} of the right side: integer overflow in r.a \\+ r.b"):
        list(op.push("right", batch((HALF, HALF), two)))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_plus_a_length_of_time_is_waited_for(unit: str) -> None:
    """``l.a - r.a >= r.d`` stays within its type where ``r.a + r.d``, which is never computed, does not."""
    schema = pa.schema({"a": pa.timestamp(unit), "d": pa.duration(unit)})

    def ticks(a: int, d: int) -> pa.RecordBatch:
        columns = [pa.array([x], pa.int64()).view(f.type) for x, f in zip((a, d), schema)]
        return pa.record_batch(columns, schema=schema)

    op = SymmetricHashJoin(schema, schema, condition="l.a - r.a <= r.d", right_order=["a", "d"])
    out = []
    for side, values in (("right", (HALF, HALF)), ("left", (TOP, 0)), ("right", (HALF, HALF + 5))):
        out += op.push(side, ticks(*values))
    out += op.finish()
    assert sum(b.num_rows for b in out) == 2


def test_days_after_a_date_are_waited_for() -> None:
    schema = pa.schema({"a": pa.date32(), "n": pa.int32()})

    def days(a: int, n: int) -> pa.RecordBatch:
        return pa.record_batch([pa.array([a], pa.int32()).view(pa.date32()), pa.array([n], pa.int32())], schema=schema)

    op = SymmetricHashJoin(schema, schema, condition="datediff(l.a, r.a) <= r.n", right_order=["a", "n"])
    out = []
    for side, values in (("right", (2**30, 2**30)), ("left", (2**30 + 5, 0)), ("right", (2**30, 2**30 + 1))):
        out += op.push(side, days(*values))
    out += op.finish()
    assert sum(b.num_rows for b in out) == 2


def test_ordinary_times_are_pruned_as_before() -> None:
    schema = pa.schema({"a": pa.timestamp("us"), "d": pa.duration("us")})
    op = SymmetricHashJoin(
        schema, schema, condition="l.a - r.a <= r.d AND l.a >= r.a", left_order="a", right_order="a",
        right_bounds={"d": (timedelta(0), timedelta(seconds=10))},
    )  # fmt: skip
    start = datetime(2024, 1, 1)
    for i in range(100):
        for side in ("left", "right"):
            list(op.push(side, batch((start + timedelta(seconds=i), timedelta(seconds=9)), schema)))
    assert op.metrics.state_rows < 30
