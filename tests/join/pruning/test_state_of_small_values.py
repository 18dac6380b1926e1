"""State of values near the least one of their type, and of null-safe keys without nulls."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import Order, SymmetricHashJoin

ROWS, BATCH = 8000, 250


def batch(t: pa.DataType, falls: bool, nullable: bool) -> pa.RecordBatch:
    values = np.arange(ROWS) // 2
    column = pa.array(values[::-1] if falls else values)
    column = column.cast(pa.decimal128(21, 2)).cast(t) if pa.types.is_decimal(t) else column.cast(t)
    return pa.record_batch([column], pa.schema([pa.field("t", t, nullable)]))


def pushed(types: list[pa.DataType], condition: str, how: str, falls: bool, nullable: bool) -> tuple[int, int]:
    """The most rows stored, and the output."""
    sides = [batch(t, falls, nullable) for t in types]
    order = Order("t", descending=falls)
    op = SymmetricHashJoin(
        sides[0].schema, sides[1].schema, condition=condition, how=how, left_order=order, right_order=order
    )
    found = 0
    for start in range(0, ROWS, BATCH):
        for side, rows in zip(("left", "right"), sides, strict=True):
            found += sum(b.num_rows for b in op.push(side, rows.slice(start, BATCH)))
    peak = op.metrics.peak_state_rows
    return peak, found + sum(b.num_rows for b in op.finish())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("types, condition, found", [
    ([pa.uint32(), pa.uint32()], "l.t div 10 = r.t div 10", 20 * ROWS),
    ([pa.uint64(), pa.uint32()], "l.t = r.t", 2 * ROWS),
    ([pa.uint32(), pa.decimal128(10, 2)], "l.t BETWEEN r.t AND r.t + 1", 4 * ROWS - 4),
    ([pa.uint64(), pa.int16()], "CAST(l.t AS BIGINT) - CAST(r.t AS BIGINT) IN (0, 1)", 4 * ROWS - 4),
])  # fmt: skip
def test_small_unsigned_values_are_pruned_at_every_move(
    types: list[pa.DataType], condition: str, found: int, falls: bool
) -> None:
    peak, rows = pushed(types, condition, "inner", falls, True)
    assert rows == found
    assert peak < 4 * BATCH


@pytest.mark.parametrize("types, falls", [
    ([pa.int64(), pa.int64()], False), ([pa.int64(), pa.int64()], True), ([pa.uint32(), pa.uint64()], True),
    ([pa.float32(), pa.float64()], False),  # falling ones may yet be NaN
])  # fmt: skip
@pytest.mark.parametrize("how, found", [("inner", 2 * ROWS), ("full", 2 * ROWS), ("left_anti", 0)])
def test_a_null_safe_key_without_nulls_prunes(how: str, found: int, types: list[pa.DataType], falls: bool) -> None:
    peak, rows = pushed(types, "l.t <=> r.t", how, falls, False)
    assert rows == found
    assert peak < 4 * BATCH


@pytest.mark.parametrize("how", ["inner", "full", "left_anti", "right_semi"])
@pytest.mark.parametrize("may", [(True, True), (False, True), (True, False)])
def test_a_null_safe_key_that_may_be_null_on_one_side(may: tuple[bool, bool], how: str) -> None:
    given = [[1, 2, 3], [2, 3, 4]]
    columns = [
        pa.array([*values, *([None] if null else [])], pa.int64()) for values, null in zip(given, may, strict=True)
    ]
    rows = [pa.record_batch([c], pa.schema([pa.field("t", c.type, n)])) for c, n in zip(columns, may, strict=True)]
    op = SymmetricHashJoin(
        rows[0].schema, rows[1].schema, condition="l.t <=> r.t", how=how, left_order="t", right_order="t"
    )
    out = [*op.push("left", rows[0]), *op.push("right", rows[1]), *op.finish()]
    have = Counter(tuple(row.values()) for b in out for row in b.to_pylist())
    left, right = columns[0].to_pylist(), columns[1].to_pylist()
    met = Counter((a, b) for a in left for b in right if a == b)
    want = {
        "inner": met,
        "full": met
        + Counter((a, None) for a in left if a not in right)
        + Counter((None, b) for b in right if b not in left),
        "left_anti": Counter((a,) for a in left if a not in right),
        "right_semi": Counter((b,) for b in right if b in left),
    }[how]
    assert have == want
