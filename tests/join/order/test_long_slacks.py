"""Orders whose slack is as long as their type or longer: which rows are late, exactly, in blocks and without."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from join.builders import by_arrow

from ivjoin import LateRowError, Order, SymmetricHashJoin

BOTTOM, TOP = -(2**63), 2**63 - 1
LENGTHS = [2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1, 10**30]
SIGNED = [BOTTOM, BOTTOM + 1, -1, 0, TOP - 1, TOP]
VALUES = {pa.int64(): SIGNED, pa.uint64(): [v - BOTTOM for v in SIGNED], pa.int8(): [-128, -1, 0, 127]}


@pytest.fixture(params=["blocks", "no blocks"], autouse=True)
def output(request: pytest.FixtureRequest) -> Iterator[None]:
    with by_arrow(request.param == "no blocks"):
        yield


def late(values: list[int], slack: int, descending: bool) -> list[bool]:
    """Which values lie further behind the greatest (least) before them than the slack, as Python's integers have it."""
    out, edge = [], values[0]
    for v in values:
        out.append((v - edge if descending else edge - v) > slack)
        edge = min(edge, v) if descending else max(edge, v)
    return out


def batch(values: list[Any], t: pa.DataType) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(values, t)})


def dropped(t: pa.DataType, order: Order, batches: list[list[Any]]) -> tuple[int, int]:
    """Late rows, and the output of a left join whose other side is empty."""
    schema = pa.schema({"a": t})
    op = SymmetricHashJoin(schema, schema, condition="l.a = r.a", how="left", left_order=order, on_late="drop")
    rows = 0
    for values in batches:
        rows += sum(b.num_rows for b in op.push("left", batch(values, t)))
    rows += sum(b.num_rows for b in op.finish())
    return op.metrics.late_rows, rows


@pytest.mark.one_in(17)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("slack", LENGTHS)
@pytest.mark.parametrize("t", VALUES, ids=str)
def test_a_row_is_late_by_whole_numbers(t: pa.DataType, slack: int, descending: bool, apart: bool) -> None:
    order = Order("a", descending=descending, slack=slack)
    for first in VALUES[t]:
        for second in VALUES[t]:
            for third in VALUES[t][:: len(VALUES[t]) - 1]:
                values = [first, second, third]
                want = sum(late(values, slack, descending))
                got = dropped(t, order, [[v] for v in values] if apart else [values])
                assert got == (want, 3 - want), values


@pytest.mark.parametrize("descending", [False, True])
def test_no_row_is_late_by_less_than_the_slack(descending: bool) -> None:
    """Both ends of a type in turn, joined with each other under a slack that spans it."""
    schema = pa.schema({"a": pa.int64()})
    order = Order("a", descending=descending, slack=10**30)
    op = SymmetricHashJoin(schema, schema, condition="l.a = r.a", left_order=order, right_order=order)
    pairs = 0
    for _ in range(2):
        for v in (TOP, BOTTOM, 0):
            for side in ("left", "right"):
                pairs += sum(b.num_rows for b in op.push(side, batch([v], pa.int64())))
    assert pairs == 12
    assert sum(b.num_rows for b in op.finish()) == 0


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_centuries_of_slack(unit: str) -> None:
    """400 years are more nanoseconds than an int64 has above 0, and less than it has in all."""
    t, per = pa.timestamp(unit), {"ns": 10**9, "us": 10**6, "ms": 1000, "s": 1}[unit]
    slack = timedelta(days=365 * 400)
    ticks, end = 365 * 400 * 86_400 * per, min(TOP, 365 * 290 * 86_400 * per)
    order = Order("a", slack=slack)
    assert dropped(t, order, [[end], [end - ticks], [end - ticks + 1]]) == (0, 3)
    assert dropped(t, order, [[end], [end - ticks - 1], [end]]) == (1, 2)


@pytest.mark.parametrize(("t", "slack", "near", "far"), [
    (pa.int64(), Decimal("9223372036854775807.9999999999"), -1, -2),
    (pa.decimal128(18, 2), Decimal("9999999999999999.9999999999999"), Decimal("0.00"), Decimal("-0.01")),
    (pa.decimal128(18, 2), 10**16, Decimal("-0.01"), Decimal("-0.02")),
    (pa.duration("ns"), timedelta(days=106751), timedelta(0), -timedelta(microseconds=1)),
], ids=str)  # fmt: skip
def test_a_part_of_a_step_is_no_step(t: pa.DataType, slack: Any, near: Any, far: Any) -> None:
    edge = {pa.int64(): 2**63 - 2, pa.duration("ns"): timedelta(days=106751)}.get(t, Decimal("9999999999999999.99"))
    assert dropped(t, Order("a", slack=slack), [[edge], [near]]) == (0, 2)
    assert dropped(t, Order("a", slack=slack), [[edge], [far]]) == (1, 1)


@pytest.mark.parametrize("slack", [10**400, Decimal(10) ** 400, 1e308], ids=["int", "decimal", "float"])
def test_a_slack_beyond_every_double(slack: Any) -> None:
    assert dropped(pa.float64(), Order("a", slack=slack), [[9e307], [-9e307 if slack != 1e308 else -1e306]]) == (0, 2)


def test_a_slack_as_long_as_its_type_is_reported_next_to_the_edge() -> None:
    schema = pa.schema({"a": pa.int64()})
    op = SymmetricHashJoin(schema, schema, condition="l.a = r.a", left_order=Order("a", slack=2**64 - 2))
    list(op.push("left", batch([TOP], pa.int64())))
    with pytest.raises(LateRowError, match=str(2**64 - 2)):
        list(op.push("left", batch([BOTTOM], pa.int64())))
