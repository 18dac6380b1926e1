"""Orders of a column that is moved, scaled or turned over: conditions over such expressions prune as those over it."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from join import duck
from join.fed import in_turn
from join.tables import Ids

import ivjoin
from ivjoin import LateRowError, Order, ProtocolError, SymmetricHashJoin
from ivjoin.expr.ordinal import ordinal_of
from ivjoin.expr.types import INT64
from ivjoin.plan.derived.implied import with_columns
from ivjoin.plan.question import join_spec

SECOND = 1_000_000
# Of an order: its expression, the greatest slack that the rows below may need in it, and whether t falls.
WRITTEN = [
    ("t", 4, False), ("t + 5", 4, False), ("2 * t", 8, False), ("3 * t - 7", 14, False), ("-t", 4, True),
    ("10 - 2 * t", 9, True), ("CAST(t AS BIGINT) * 5", 20, False),
]


def table(n: int, falling: bool, slack: int, draw: random.Random) -> pa.Table:
    t = [i // 2 + draw.randrange(slack // 2 + 1) for i in range(n)]
    values: list[int | None] = [None if draw.random() < 0.05 else -v if falling else v for v in t]
    return pa.table({
        "k": [draw.randrange(3) for _ in range(n)], "t": pa.array(values, pa.int32()), "id": list(range(n)),
    })  # fmt: skip


def run(left: pa.Table, right: pa.Table, how: str = "inner", **call: Any) -> tuple[Ids, int]:
    op = SymmetricHashJoin(left.schema, right.schema, on="k", how=how, **call)
    found, op = in_turn(op, (left, right), how, 20)
    return found, op.metrics.peak_state_rows


@pytest.mark.one_in(101)
@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize("right", WRITTEN)
@pytest.mark.parametrize("left", WRITTEN)
def test_rows_and_state(left: Any, right: Any, how: str) -> None:
    draw = random.Random(f"{left}{right}{how}")
    (a, slack_a, down_a), (b, slack_b, down_b) = left, right
    tables = table(600, down_a, 4, draw), table(500, down_b, 4, draw)
    sign = "-" if down_a != down_b else ""
    condition = f"2 * l.t BETWEEN 2 * ({sign}r.t) - 12 AND 2 * ({sign}r.t) + 6"
    found, peak = run(
        *tables, condition=condition, how=how, left_order=Order(a, slack=slack_a), right_order=Order(b, slack=slack_b)
    )
    assert found == Counter(duck.pairs(*tables, how, f"l.k = r.k AND {condition}"))
    # Rows without a value match nothing, and those of the last three seconds of 600 may.
    assert peak < 220, "nothing was pruned"


def test_times() -> None:
    ts = pa.array([i * SECOND for i in range(2000)], pa.timestamp("us"))
    t = pa.table({"k": [0] * 2000, "ts": ts, "id": list(range(2000))})
    orders = {
        "left_order": Order("ts + INTERVAL 5 MINUTES", slack=timedelta(seconds=3)),
        "right_order": Order("ts - INTERVAL 1 DAY", slack=timedelta(seconds=2)),
    }
    found, peak = run(t, t, condition="l.ts BETWEEN r.ts - INTERVAL 3 SECONDS AND r.ts", **orders)
    assert found == Counter((i, j) for i in range(2000) for j in range(i, min(i + 4, 2000)))
    assert peak < 100


def test_a_row_that_is_late_by_one_is_late_by_the_other() -> None:
    t = pa.table({"k": [0] * 4, "t": pa.array([10, 8, 9, 7], pa.int32()), "n": [0, 1, 2, 3]})
    op = SymmetricHashJoin(t.schema, t.schema, on="k", condition="l.t = r.t", left_order=Order("3 * t", slack=8))
    batch = t.to_batches()[0]
    assert list(op.push("left", batch.slice(0, 3))) == []
    with pytest.raises(ivjoin.LateRowError, match="3 \\* t|\\bt\\b"):
        list(op.push("left", batch.slice(3)))


@pytest.mark.parametrize(("order", "follows"), [
    (Order("t + 1"), [("t", False, None)]),
    (Order("-3 * t", slack=7), [("t", True, 3)]),
    (Order("3 * t", slack=2.5), []),  # no whole number of a third
    (Order("t + n"), []),
    (Order("t % 5"), []),
    (Order("coalesce(t, 3)"), []),
    (Order("d - 1", slack=Decimal("0.5")), [("d", False, Decimal("0.5"))]),
    (Order("x + 1"), []),  # doubles are rounded
    (Order("t"), []),
])  # fmt: skip
def test_what_follows(order: Order, follows: list[Any]) -> None:
    schema = pa.schema({"t": pa.int64(), "n": pa.int64(), "d": pa.decimal128(9, 2), "x": pa.float64()})
    condition = "l.t = r.t AND l.n = r.n AND l.d < r.d AND l.x < r.x"
    spec = join_spec(schema, schema, condition=condition, left_order=order)
    more = [(o.node.params[1], o.descending, o.slack) for o in spec.orders[0][1:]]
    assert more == [(name, down, slack) for name, down, slack in follows]
    assert with_columns(spec.orders[0], ()) == spec.orders[0]
    assert len(join_spec(schema, schema, condition="l.x < r.x", left_order=order).orders[0]) == 1


def test_what_is_given_is_declared() -> None:
    """Only the planner says that an order follows from another one."""
    schema = pa.schema({"t": pa.int64()})
    op = SymmetricHashJoin(schema, schema, condition="l.t = r.t", left_order=Order("t", follows=True))
    assert not op.plan.spec.orders[0][0].follows
    assert list(op.reach("left", [7])) == []


def test_an_order_that_is_declared_is_not_declared_again() -> None:
    schema = pa.schema({"t": pa.int64()})
    spec = join_spec(schema, schema, condition="l.t = r.t", left_order=["t + 1", Order("t", slack=5)])
    assert len(spec.orders[0]) == 2


def test_a_promise_of_the_column_is_what_its_own_order_makes_it() -> None:
    """``a`` has no order of its own, so its watermark is a least value, though ``-a`` rises and ``a`` falls."""
    schema = pa.schema({"a": pa.int64()})
    for orders in ("-a", Order("a + 1", descending=True)):
        op = SymmetricHashJoin(schema, schema, condition="abs(l.a - r.a) <= 2", left_order=orders, right_order=orders)
        rows = [pa.record_batch({"a": pa.array([v])}) for v in (9, 7, 5)]
        found = 0
        for row in rows:
            for side in ("left", "right"):
                found += sum(out.num_rows for out in op.push(side, row))
                assert list(op.advance(side, {"a": 5})) == [], "later rows are 5 and more"
        assert found + sum(out.num_rows for out in op.finish()) == 7
    declared = SymmetricHashJoin(schema, schema, condition="l.a >= r.a", left_order=Order("a", descending=True))
    list(declared.advance("left", {"a": 5}))
    with pytest.raises(LateRowError, match="up to 5"):
        declared.push("left", pa.record_batch({"a": pa.array([6])}))


def test_only_declared_orders_report_their_progress() -> None:
    schema = pa.schema({"a": pa.int64()})
    op = SymmetricHashJoin(schema, schema, condition="abs(l.a - r.a) <= 2", left_order="a + 1", right_order="a + 1")
    assert len(op._engine.frontiers[0].trackers) == 2
    assert list(op.reach("left", [ordinal_of(8, INT64)])) == []
    with pytest.raises(ProtocolError, match="got 2 edges; the side has 1 orders"):
        op.reach("left", [3, 3])


@pytest.mark.parametrize(("order", "reached", "name", "stays", "goes"), [
    (Order("a + 1"), 8, "a", 5, 4),  # the greatest a that was seen is 7
    (Order("-3 * a", slack=7), -21, "a", 12, 13),  # the least is 7, and 10 may come
    (Order("3 * a", slack=7), 22, "a", 2, 1),  # no row has 22; 4 may come
    (Order("10 - 3 * a", descending=True), ~-13, "a", 5, 4),  # nor has one -13; 7 may come
    (Order("d + 2.5"), 400, "d", Decimal("-0.50"), Decimal("-0.51")),
    (Order("a + 1"), None, "a", 5, None),
])  # fmt: skip
def test_what_an_order_has_reached_holds_for_those_that_follow(
    order: Order, reached: int | None, name: str, stays: Any, goes: Any
) -> None:
    schema = pa.schema({"a": pa.int64(), "d": pa.decimal128(9, 2)})
    op = SymmetricHashJoin(
        schema, schema, condition=f"abs(l.{name} - r.{name}) <= 2", left_order=order, how="right_anti"
    )
    values = [v for v in (stays, goes) if v is not None]
    assert list(op.push("right", pa.RecordBatch.from_pylist([{name: v} for v in values], schema))) == []
    assert [r[name] for b in op.reach("left", [reached]) for r in b.to_pylist()] == values[1:]
    assert [r[name] for b in op.finish() for r in b.to_pylist()] == [stays]


def test_explain_treats_the_column_like_a_declaration() -> None:
    schema = pa.schema({"a": pa.int64()})
    orders = {"left_order": "a + 5", "right_order": "-a"}
    given = {"left": {"a + 5": 25}, "right": {"-a": -30}}
    lines = str(ivjoin.explain(schema, schema, condition="l.a <= r.a + 5", frontier=given, **orders)).splitlines()
    start = lines.index("frontier (every future row)") + 1
    assert [line.split("    ")[0].strip() for line in lines[start : start + 4]] == [
        "left: l.a + 5 >= 25", "left: l.a >= 20", "right: -r.a >= -30", "right: r.a <= 30"
    ]  # fmt: skip
    told = str(ivjoin.explain(schema, schema, condition="l.a <= r.a + 5", frontier={"left": {"a": 7}}, **orders))
    assert "left: l.a >= 7 " in told


def test_snapshot_includes_orders_that_follow() -> None:
    schema = pa.schema({"a": pa.int64()})
    op = SymmetricHashJoin(schema, schema, condition="abs(l.a - r.a) <= 2", left_order="-a", right_order="-a")
    again = SymmetricHashJoin.restore(op.snapshot())
    list(again.advance("left", {"a": 5}))
    assert list(again.push("left", pa.record_batch({"a": pa.array([9])}))) == []
    with pytest.raises(LateRowError):
        again.push("left", pa.record_batch({"a": pa.array([4])}))
