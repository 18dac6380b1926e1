"""Joins that pick: the arguments, the time of emission, the stored rows, and errors."""

from __future__ import annotations

import pickle
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from taken import one_of

import ivjoin
from ivjoin import Order, SymmetricHashJoin
from ivjoin.errors import (
    ConditionError,
    EvaluationError,
    IvjoinError,
    LateRowError,
    MemoryLimitError,
    UnsupportedError,
)

LEFT = pa.schema([("k", pa.int64()), ("t", pa.int64())])
RIGHT = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("x", pa.int64())])
BACKWARD: dict[str, Any] = {
    "on": "k", "condition": "r.t <= l.t", "how": "left", "left_order": "t", "right_order": "t",
}  # fmt: skip


def op_of(which: str = "last", by: str | list[str] = "t", **change: Any) -> SymmetricHashJoin:
    return SymmetricHashJoin(LEFT, RIGHT, **({"pick": one_of(LEFT, RIGHT, which, by)} | BACKWARD | change))


def push(op: SymmetricHashJoin, side: str, *rows: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    """Push rows; (left time, right payload) of the output."""
    schema = LEFT if side == "left" else RIGHT
    columns = list(zip(*rows, strict=True))
    batch = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    return [(r["t"], r["x"]) for b in op.push(side, batch) for r in b.to_pylist()]


def rest(op: SymmetricHashJoin, side: str | None = None) -> list[tuple[Any, Any]]:
    return [(r["t"], r["x"]) for b in op.finish(side) for r in b.to_pylist()]


# -- when rows come out ----------------------------------------------------------------------------------------------


def test_last_waits_until_the_right_side_has_passed() -> None:
    op = op_of()
    assert push(op, "left", (1, 5), (2, 6)) == []
    assert push(op, "right", (1, 3, 30)) == []
    assert push(op, "right", (1, 5, 50)) == [(5, 50)]  # none can be later, and not too late
    assert push(op, "right", (1, 7, 70)) == [(6, None)]
    assert push(op, "left", (1, 7), (1, 9)) == [(7, 70)]
    assert rest(op, "right") == [(9, 70)]


def test_ties_delay_emission() -> None:
    op = op_of(by=["t", "x"])
    assert push(op, "left", (1, 5)) == []
    assert push(op, "right", (1, 5, 1)) == []
    assert push(op, "right", (1, 5, 2)) == []
    assert push(op, "right", (2, 6, 0)) == [(5, 2)]


def test_first_is_emitted_with_its_partner() -> None:
    op = op_of("first", condition="r.t >= l.t")
    assert push(op, "left", (1, 5), (2, 5)) == []
    assert push(op, "right", (1, 4, 40), (3, 6, 60)) == []
    assert push(op, "right", (1, 8, 80)) == [(5, 80)]
    assert push(op, "left", (1, 7), (2, 8), (1, 8)) == [(7, 80), (8, 80)]
    assert rest(op) == [(5, None), (8, None)]


def test_first_waits_for_a_row_as_early_as_the_slack_allows() -> None:
    op = op_of("first", condition="r.t >= l.t - 5", right_order=Order("t", slack=3))
    assert push(op, "left", (1, 5)) == []
    assert push(op, "right", (1, 6, 60)) == []  # the frontier is 3
    assert push(op, "right", (2, 8, 0)) == []  # 5: a partner at 5 would be earlier
    assert push(op, "right", (1, 5, 50)) == [(5, 50)]


def test_nearest_waits_for_what_could_be_nearer() -> None:
    op = op_of("nearest", condition=None)
    assert push(op, "left", (1, 10)) == []
    assert push(op, "right", (1, 7, 70)) == []
    assert push(op, "right", (2, 12, 0)) == []
    assert push(op, "right", (2, 13, 0)) == [(10, 70)]  # one at 13 would be as near, and later
    assert push(op, "left", (1, 20)) == []
    assert push(op, "right", (1, 20, 200)) == [(20, 200)]


def test_slack_and_promises() -> None:
    op = op_of(right_order=Order("t", slack=3))
    assert push(op, "left", (1, 5), (1, 9)) == []
    assert push(op, "right", (1, 7, 70)) == []
    assert push(op, "right", (1, 4, 40)) == []
    assert push(op, "right", (1, 9, 90)) == [(5, 40), (9, 90)]
    op = op_of(right_order=None)
    assert push(op, "left", (1, 5)) == [] and push(op, "right", (1, 4, 40)) == []
    assert [b.to_pylist() for b in op.advance("right", {"t": 5})] == []
    assert [r["x"] for b in op.advance("right", {"t": 6}) for r in b.to_pylist()] == [40]


def test_promise_decides_the_nearest() -> None:
    op = op_of("nearest", condition=None, right_order=None)
    assert push(op, "right", (1, 7, 70)) == [] and push(op, "left", (1, 10), (2, 10)) == []
    assert [r["x"] for b in op.advance("right", {"t": 12}) for r in b.to_pylist()] == []
    assert [r["x"] for b in op.advance("right", {"t": 13}) for r in b.to_pylist()] == [70]
    assert rest(op) == [(10, None)]


def test_late_rows() -> None:
    op = op_of()
    push(op, "right", (1, 8, 80))
    with pytest.raises(LateRowError):
        push(op, "right", (1, 7, 70))
    assert push(op, "left", (1, 8)) == [(8, 80)]
    op = op_of(on_late="drop")
    push(op, "left", (1, 9))
    push(op, "right", (1, 8, 80), (1, 7, 70))
    assert op.metrics.late_rows == 1 and rest(op) == [(9, 80)]
    op = op_of(on_late="join")
    push(op, "right", (1, 5, 50))
    assert push(op, "right", (1, 3, 30)) == []
    assert push(op, "left", (1, 4), (1, 5)) == [(4, 30), (5, 50)]


def test_descending_orders() -> None:
    op = op_of(left_order=Order("t", descending=True), right_order=Order("t", descending=True), condition="r.t <= l.t")
    assert push(op, "left", (1, 9), (1, 5)) == []
    assert push(op, "right", (1, 10, 100), (1, 7, 70)) == [(9, 70)]
    assert push(op, "right", (1, 3, 30)) == [(5, 30)]
    assert op.metrics.state_rows <= 3


# -- state -------------------------------------------------------------------------------------------------------------


def stream(which: str, condition: str | None, n: int = 40_000, keys: int = 50, batch: int = 500, **change: Any) -> Any:
    rng = np.random.default_rng(5)
    op = op_of(which, condition=condition, **change)
    for at in range(0, n, batch):
        t = np.sort(rng.integers(at, at + batch, batch))
        u = np.sort(rng.integers(at, at + batch, batch))
        left = pa.record_batch([rng.integers(0, keys, batch), t], schema=LEFT)
        right = pa.record_batch([rng.integers(0, keys, batch), u, u], schema=RIGHT)
        for b in op.push("left", left):
            assert b.num_rows
        for b in op.push("right", right):
            assert b.num_rows
    return op


@pytest.mark.one_in(7)
@pytest.mark.parametrize("which, condition, most", [
    ("last", "r.t <= l.t", 120), ("first", "r.t >= l.t", 160), ("nearest", None, 250), ("last", None, 40_100),
    ("first", None, 40_100), ("last", "r.t BETWEEN l.t - 20 AND l.t", 120), ("first", "r.t <= l.t", 120),
    ("nearest", "abs(l.t - r.t) <= 20", 120), ("last", "r.t <= l.t AND r.x <> 7", 120),
    ("last", "r.t BETWEEN l.t - 20 AND l.t AND l.k + r.x <> 7", 160),
])  # fmt: skip
def test_the_state_is_a_row_a_key(which: str, condition: str | None, most: int) -> None:
    m = stream(which, condition).metrics
    assert m.state_rows <= most
    if most < 1000:
        assert m.peak_state_rows <= 2 * 500 + 2 * most
        assert m.left_rows_in == m.right_rows_in == 40_000 and m.rows_out >= 39_000


def test_right_rows_before_any_left_row_are_stored_once() -> None:
    op = op_of(left_order="t")
    push(op, "left", (0, 0))
    for at in range(0, 20_000, 500):
        t = np.arange(at, at + 500)
        for _ in op.push("right", pa.record_batch([t % 3, t, t], schema=RIGHT)):
            pass
    assert op.metrics.state_rows >= 19_900  # a left row of any time may still come
    assert [b.num_rows for b in op.advance("left", {"t": 19_999})] == []
    assert op.metrics.state_rows == 3
    assert rest(op, "left") == [] and op.metrics.state_rows == 0


def test_evicted_keys_are_deleted() -> None:
    op = op_of(condition="r.t BETWEEN l.t - 5 AND l.t")
    for at in range(0, 60_000, 500):
        t = np.arange(at, at + 500)
        for side, schema in (("left", LEFT), ("right", RIGHT)):
            for _ in op.push(side, pa.record_batch([t, *[t] * (len(schema) - 1)], schema=schema)):
                pass
    assert op.metrics.peak_state_bytes < 1_000_000


def test_a_memory_limit() -> None:
    op = op_of(memory_limit=200_000, right_order=None)
    batch = pa.record_batch([np.zeros(500, np.int64), np.arange(500), np.arange(500)], schema=RIGHT)
    with pytest.raises(MemoryLimitError, match="right side stores"):
        _ = [list(op.push("right", batch)) for _ in range(50)]
    assert push(op, "left", (0, 3)) == [] and rest(op) == [(3, 3)]
    with pytest.raises(UnsupportedError, match="the join would emit another row.*Use when_full='spill'"):
        op_of(memory_limit="1MB", when_full="shed", how="inner")


# -- values ------------------------------------------------------------------------------------------------------------


def picked(t: pa.DataType, lefts: list[Any], rights: list[Any], which: str, condition: str | None = None) -> list[Any]:
    """For each left value the place of the right one that it takes."""
    left = pa.table({"id": range(len(lefts)), "t": pa.array(lefts, t)})
    right = pa.table({"t": pa.array(rights, t), "x": range(len(rights))})
    pick = one_of(left.schema, right.schema, which, "t")
    got = ivjoin.band_join(left, right, how="left", condition=condition, pick=pick).read_all().to_pylist()
    return [r["x"] for r in sorted(got, key=lambda r: r["id"])]


TOP = 2**63 - 1
NAN, INF = float("nan"), float("inf")
def test_floats() -> None:
    values = [NAN, INF, -INF, -0.0, 0.0, 1.5]
    assert picked(pa.float64(), [0.0], values, which="last") == [0]
    assert picked(pa.float64(), [0.0], values, which="first") == [2]
    backward = {"which": "last", "condition": "r.t <= l.t"}
    assert picked(pa.float64(), [NAN, INF, -0.0, 2.0], [NAN, 1.0, 0.0], **backward) == [0, 1, 2, 1]
    near = {"which": "nearest"}
    assert picked(pa.float64(), [NAN, 1e308], [NAN, 1e300], **near) == [0, 1]
    assert picked(pa.float64(), [1.5e308], [-1.5e308, INF], **near) == [0]
    assert picked(pa.float64(), [-1.0, -1.7e308], [1.7e308, -1.6e308], **near) == [1, 1]
    assert picked(pa.float64(), [INF, -INF, NAN], [5.0, 7.0], **near) == [0, 0, 0]  # all as far away
    assert picked(pa.float64(), [1e16], [1.0, 1.5], **near) == [1]  # which rounding would call a tie
    assert picked(pa.float64(), [2.0], [1.0, 3.0], **near) == [0]


def test_other_types() -> None:
    days = [date(2020, 1, 1), date(2020, 1, 5)]
    assert picked(pa.date32(), [date(2020, 1, 3)], days, which="nearest") == [0]
    moments = [datetime(2020, 1, 1), datetime(2020, 1, 5)]
    assert picked(pa.timestamp("ns"), [datetime(2020, 1, 4)], moments, which="nearest") == [1]
    money = [Decimal("1.50"), Decimal("-2.25")]
    assert picked(pa.decimal128(10, 2), [Decimal("0.00")], money, which="nearest") == [0]
    assert picked(pa.bool_(), [True], [False, True], which="last") == [1]
    left = pa.table({"id": [0], "t": pa.array([7], pa.timestamp("s"))})
    right = pa.table({"u": pa.array([6_999, 7_002, 9_000], pa.timestamp("ms")), "x": [0, 1, 2]})
    got = ivjoin.band_join(left, right, pick=one_of(left.schema, right.schema, "nearest", "u")).read_all()
    assert got["x"].to_pylist() == [0]
    assert picked(pa.decimal128(38, 2), money, money, which="last") == [0, 0]
    assert picked(pa.string(), ["a"], ["b", "c", "bb"], which="last") == [1]


def test_errors_of_the_condition() -> None:
    ask = {"which": "last", "condition": "10 div (l.t - r.t) >= 0"}
    with pytest.raises(EvaluationError, match="division by zero"):
        picked(pa.int64(), [3], [3], **ask)
    assert picked(pa.int64(), [3], [1, 2], **ask) == [1]
    band = {"condition": "l.t + 10 >= r.t", "which": "last"}
    with pytest.raises(EvaluationError, match="overflow"):
        picked(pa.int64(), [TOP], [3], **band)
    assert picked(pa.int64(), [TOP - 10, 3], [3, 20], **band) == [1, 0]
    left, right = pa.table({"id": [0]}), pa.table({"t": [0]})
    for pick in (ivjoin.Pick("10 div t", "last"), one_of(left.schema, right.schema, "last", "10 div t")):
        with pytest.raises(EvaluationError, match="division by zero"):
            ivjoin.band_join(left, right, pick=pick).read_all()


# -- the question ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["semi", "left_anti", "right_semi"])
def test_semi_and_anti_joins_are_refused(how: str) -> None:
    with pytest.raises(ConditionError, match="expected 'inner', 'left', 'right' or 'full'"):
        op_of(how=how, pick=ivjoin.Pick("t", "last"))


def test_mistakes() -> None:
    with pytest.raises(IvjoinError, match="pick by 'nothing': column 'nothing'"):
        op_of(pick=ivjoin.Pick("nothing"))
    with pytest.raises(ConditionError, match="give one"):
        op_of(aggregate={"n": ("*", "count")})


def test_snapshot_includes_the_pick() -> None:
    op = op_of("nearest", ["t", "x"], condition=None)
    push(op, "left", (1, 5), (1, 9))
    assert push(op, "right", (1, 3, 30), (1, 6, 60), (2, 8, 0)) == [(5, 60)]
    again = SymmetricHashJoin.restore(op.snapshot())
    assert again.plan.spec == op.plan.spec == pickle.loads(pickle.dumps(op.plan.spec))
    assert again.metrics.state_rows == op.metrics.state_rows
    assert sorted(rest(again)) == sorted(rest(op)) == [(9, 60)]


def test_its_description() -> None:
    text = ivjoin.explain(LEFT, RIGHT, condition="r.t <= l.t", on="k", pick=ivjoin.Pick(["t", "x"], "last"))
    assert "each left row takes one row of those that match: the last by r.t, ties by r.x" in text
    table = pa.table({"k": [1], "t": [1], "x": [1]})
    assert "read first" in ivjoin.explain(table, table, condition="r.t <= l.t", on="k", pick=ivjoin.Pick("t"))


def test_output_bounds() -> None:
    op = op_of()
    push(op, "left", (1, 5), (1, 9))
    push(op, "right", (1, 4, 40), (1, 7, 70))
    bounds = op.output_bounds()
    assert bounds["t"] == (9, TOP) and bounds["t_right"][0] is not None and bounds["t_right"][0] <= 7
    rest(op)
    assert op.output_bounds() == {}
