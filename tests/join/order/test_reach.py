"""``reach``: an operator is given how far a side has come when several operators share its rows."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

from ivjoin import LateRowError, Order, ProtocolError, SymmetricHashJoin
from ivjoin.expr.ordinal import ordinal_of
from ivjoin.expr.types import from_arrow

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
BAND = "l.t BETWEEN r.t - 5 AND r.t + 5"


def operator(how: str = "left", **options: Any) -> SymmetricHashJoin:
    orders = {"left_order": "t", "right_order": "t"} | options
    return SymmetricHashJoin(SCHEMA, SCHEMA, on="k", condition=BAND, how=how, **orders)


def batch(*rows: tuple[int, int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(c, pa.int64()) for c in zip(*rows, strict=True)], schema=SCHEMA)


def edge(value: int) -> int:
    return ordinal_of(value, from_arrow(pa.int64()))


def taken(steps: Any) -> Counter[Any]:
    return Counter(tuple(row.values()) for b in steps for row in b.to_pylist())


def test_rows_of_an_idle_operator_are_decided() -> None:
    op = operator()
    assert taken(op.push("left", batch((1, 10), (1, 20)))) == Counter()
    assert taken(op.reach("right", [edge(16)])) == Counter({(1, 10, None): 1})
    assert op.metrics.state_rows == 1
    assert taken(op.reach("right", [edge(3)])) == Counter()  # behind: nothing moves
    assert taken(op.reach("right", [None])) == Counter()
    assert taken(op.push("right", batch((1, 16)))) == Counter({(1, 20, 16): 1})
    assert taken(op.finish()) == Counter()


def test_slack_still_holds_for_later_rows() -> None:
    op = operator(right_order=Order("t", slack=4))
    list(op.push("left", batch((1, 10))))
    assert taken(op.reach("right", [edge(19)])) == Counter()  # a right row of 15 may still come
    assert taken(op.push("right", batch((1, 15)))) == Counter({(1, 10, 15): 1})
    assert taken(op.reach("right", [edge(20)])) == Counter()
    assert op.metrics.left_rows_retired == 1


def test_a_descending_order_takes_the_turned_ordinal() -> None:
    op = operator(right_order=Order("t", descending=True), left_order=())
    list(op.push("left", batch((1, 10), (1, 30))))
    assert taken(op.reach("right", [~edge(24)])) == Counter({(1, 30, None): 1})


def test_rows_before_what_was_reached_are_late() -> None:
    op = operator(on_late="drop")
    list(op.reach("right", [edge(100)]))
    assert taken(op.push("right", batch((1, 99), (1, 100)))) == Counter()
    assert op.metrics.late_rows == 1


def test_a_snapshot_keeps_what_was_reached() -> None:
    op = operator()
    list(op.reach("right", [edge(100)]))
    again = SymmetricHashJoin.restore(op.snapshot())
    assert taken(again.push("left", batch((1, 94), (1, 95)))) == Counter({(1, 94, None): 1})


def test_shared_rows_give_what_one_operator_gives() -> None:
    left = [(k, t) for t in range(60) for k in range(3) if (t + k) % 4]
    right = [(k, t) for t in range(60) for k in range(2)]
    whole = operator("full")
    want: Counter[Any] = Counter()
    for side, rows in (("left", left), ("right", right)):
        want += taken(whole.push(side, batch(*rows)))
    want += taken(whole.finish())
    parts = [operator("full") for _ in range(3)]
    got: Counter[Any] = Counter()
    for begin in range(0, 60, 10):
        for side, rows in (("left", left), ("right", right)):
            now = [r for r in rows if begin <= r[1] < begin + 10]
            for k, part in enumerate(parts):
                mine = [r for r in now if r[0] == k]
                if mine:
                    got += taken(part.push(side, batch(*mine)))
            for part in parts:
                got += taken(part.reach(side, [edge(max(t for _, t in now))]))
        assert all(part.metrics.state_rows <= 14 for part in parts)
    for part in parts:
        got += taken(part.finish())
    assert got == want


def test_one_edge_for_each_order() -> None:
    with pytest.raises(ProtocolError, match=r"reach\('left', ...\) got 2 edges; the side has 1 orders"):
        operator().reach("left", [1, 2])
    with pytest.raises(ProtocolError, match="expected 'left' or 'right'"):
        operator().reach("middle", [1])


@pytest.mark.parametrize("unit", ["float", "int"])
@pytest.mark.parametrize("condition", [
    "l.t BETWEEN r.t - 5 AND r.t + 5", "abs(l.t - r.t) <= 5", "greatest(l.t, r.t) - least(l.t, r.t) <= 5",
    "l.t - r.t <= 5 AND (r.t - l.t <= 1 OR r.t - l.t <= 5)",
])  # fmt: skip
def test_every_decided_row_is_emitted_at_once(condition: str, unit: str) -> None:
    rng = np.random.default_rng(3)
    sides = []
    for _ in range(2):
        t = np.sort(rng.uniform(0, 1000, 400))
        times = pa.array(t if unit == "float" else t.astype(int))
        # Not null: greatest and least pass over nulls, so that every row could match one.
        schema = pa.schema([("k", pa.int64()), pa.field("t", times.type, nullable=False)])
        sides.append(pa.record_batch([np.zeros(400, dtype=np.int64), times], schema=schema))
    left, right = sides
    op = SymmetricHashJoin(
        left.schema, right.schema, on="k", condition=condition, left_order="t", right_order="t", how="full"
    )
    out = 0
    for begin in range(0, 400, 100):
        for side, rows in (("left", left), ("right", right)):
            out += sum(b.num_rows for b in op.push(side, rows.slice(begin, 100)))
        for side, rows in (("left", left), ("right", right)):
            last = ordinal_of(rows["t"][begin + 99].as_py(), from_arrow(rows["t"].type))
            out += sum(b.num_rows for b in op.reach(side, [last]))
        seen = [np.asarray(rows["t"])[: begin + 100] for rows in (left, right)]
        near = np.abs(seen[0][:, None] - seen[1][None, :]) <= 5
        waiting = [mine + 5 >= other[-1] for mine, other in ((seen[0], seen[1]), (seen[1], seen[0]))]
        alone = [~near.any(axis=1) & ~waiting[0], ~near.any(axis=0) & ~waiting[1]]
        assert op.metrics.state_rows == sum(int(w.sum()) for w in waiting)
        assert out == near.sum() + sum(int(a.sum()) for a in alone)


def test_the_first_batch_prunes_under_a_band_of_floats() -> None:
    rows = pa.record_batch({"k": np.zeros(100, dtype=np.int64), "x": np.arange(100.0)})
    op = SymmetricHashJoin(
        rows.schema, rows.schema, on="k", condition="l.x BETWEEN r.x - 5 AND r.x + 5", left_order="x", right_order="x"
    )
    list(op.push("left", rows))
    list(op.push("right", rows))
    assert op.metrics.state_rows == 12


@pytest.mark.parametrize("nulls, before, ends, after", [("first", [None, None], [3, None, 4], None),
                                                       ("last", [1, 2], [None, 3, None], 9)])
def test_nulls_are_late_only_against_earlier_batches(
    nulls: Literal["first", "last"], before: list[int | None], ends: list[int | None], after: int | None
) -> None:
    order = Order("t", nulls=nulls)
    plan = operator("inner", right_order=order).plan
    op = SymmetricHashJoin.from_plan(plan, late_within=False)
    within = SymmetricHashJoin.from_plan(plan)
    for times in (before, ends):
        rows = pa.record_batch([pa.array([1] * len(times)), pa.array(times, pa.int64())], schema=SCHEMA)
        list(op.push("right", rows))
    with pytest.raises(LateRowError):
        list(within.push("right", rows))
    with pytest.raises(LateRowError):
        list(op.push("right", pa.record_batch([pa.array([1]), pa.array([after], pa.int64())], schema=SCHEMA)))
    assert op.metrics.right_rows_in == 5
