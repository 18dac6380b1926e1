"""Aggregates one by one: accepted arguments, refused ones, ends of types, and state."""

from __future__ import annotations

import math
import random
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ivjoin
from ivjoin.plan.spec import JoinSpec

ONE = pa.table({"i": [0], "t": [0]})


def over(values: Any, function: str, t: pa.DataType, how: str = "left") -> Any:
    right = pa.table({"v": pa.array(values, t), "t": pa.array(range(len(values)), pa.int64())})
    stream = ivjoin.window_join(ONE, right, condition="r.t >= l.t", how=how, aggregate={"a": ("v", function)})
    rows = stream.read_all().to_pylist()
    return [r["a"] for r in rows]


I64, U64 = 2**63 - 1, 2**64 - 1


@pytest.mark.parametrize("values, t, total", [
    ([I64, -I64, I64], pa.int64(), I64), ([-(2**63), I64], pa.int64(), -1), ([2**62, 2**62 - 1], pa.int64(), I64),
    ([-(2**62), -(2**62)], pa.int64(), -(2**63)), ([U64], pa.uint64(), U64), ([2**63, 2**63 - 1], pa.uint64(), U64),
    ([127] * 300, pa.int8(), 38100), ([None, None], pa.int64(), None), ([True, None, True], pa.bool_(), 2),
    ([Decimal("99999999999999999999.99")] * 3, pa.decimal128(22, 2), Decimal("299999999999999999999.97")),
    ([Decimal(10) ** 37 * 5, -(Decimal(10) ** 37) * 5, Decimal(1)], pa.decimal128(38, 0), Decimal(1)),
    ([0.1] * 10, pa.float64(), 1.0), ([math.inf, 1.0], pa.float64(), math.inf),
    ([1e308, 1e308], pa.float64(), math.inf), ([1e16, 1.0, -1e16], pa.float64(), 0.0),
])  # fmt: skip
def test_sums(values: list[Any], t: pa.DataType, total: Any) -> None:
    (got,) = over(values, "sum", t)
    assert got == total if not isinstance(total, float) else math.isclose(got, total, abs_tol=2.0)


@pytest.mark.parametrize("t", [
    pa.int64(), pa.uint64(), pa.int16(), pa.decimal128(10, 2), pa.decimal128(18, 0), pa.decimal128(38, 20),
    pa.decimal128(38, 0), pa.decimal128(20, 18),
], ids=str)  # fmt: skip
def test_a_mean_is_the_exact_sum_divided_once(t: pa.DataType) -> None:
    rng = random.Random(str(t))
    scale = t.scale if pa.types.is_decimal(t) else 0
    digits = t.precision if pa.types.is_decimal(t) else 0
    low, high = (-(10**digits) + 1, 10**digits - 1) if digits else (
        (0, U64) if t == pa.uint64() else (-(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1) - 1)
    )
    groups = [
        [rng.randrange(low, high + 1) >> rng.choice((0, 0, 1, t.bit_width // 2)) for _ in range(rng.randrange(1, 12))]
        for _ in range(60)
    ]
    groups += [[low], [high], [low, high], [high, high - 1, high], [low, low, low + 1], [0, 1, 1]]
    flat = [(g, v) for g, values in enumerate(groups) for v in values]
    values = [Decimal(v).scaleb(-scale, Context(prec=40)) if digits else v for _, v in flat]
    right = pa.table({"g": [g for g, _ in flat], "v": pa.array(values, t)})
    left = pa.table({"g": range(len(groups))})
    stream = ivjoin.window_join(left, right, on="g", how="left", aggregate={"m": ("v", "mean")})
    found = stream.read_all().sort_by("g")["m"].to_pylist()
    assert found == [sum(values) / (len(values) * 10**scale) for values in groups]


@pytest.mark.parametrize("values, t", [
    ([I64, 1], pa.int64()), ([-(2**63), -1], pa.int64()), ([U64, 1], pa.uint64()), ([2**62] * 5, pa.int64()),
    ([Decimal(10) ** 37 * 9] * 2, pa.decimal128(38, 0)), ([-(Decimal(10) ** 37) * 9] * 40, pa.decimal128(38, 0)),
])  # fmt: skip
def test_a_sum_that_its_type_cannot_hold_is_an_error(values: list[Any], t: pa.DataType) -> None:
    with pytest.raises(ivjoin.EvaluationError, match=r"sum\(v\): the sum of r.v is more than"):
        over(values, "sum", t)
    mean = sum(map(int, values)) / len(values)
    assert over(values, "mean", t) == [pytest.approx(mean)]


@pytest.mark.parametrize("t, low, high", [
    (pa.int64(), -(2**63), I64), (pa.uint64(), 0, U64), (pa.int8(), -128, 127), (pa.float64(), -math.inf, math.inf),
    (pa.decimal128(38, 0), -(10**38 - 1), 10**38 - 1), (pa.decimal256(60, 0), -(10**59), 10**59),
    (pa.string(), "", "é"), (pa.large_string(), "a", "b"), (pa.binary(), b"\x00", b"\xff"), (pa.bool_(), False, True),
    (pa.dictionary(pa.int8(), pa.string()), "a", "é"), (pa.binary(2), b"aa", b"ab"), (pa.string_view(), "a", "b"),
])  # fmt: skip
def test_least_and_greatest_at_the_ends_of_types(t: pa.DataType, low: Any, high: Any) -> None:
    if pa.types.is_decimal(t):
        low, high = Decimal(low), Decimal(high)
    for values in ([low, high], [high, None, low], [high, low, high]):
        assert over(values, "min", t) == [low]
        assert over(values, "max", t) == [high]
    for value in (low, high):  # the ends of int64 are no nulls
        assert over([None, value, None], "min", t) == over([None, value, None], "max", t) == [value]
    assert over([None], "max", t) == [None]


@pytest.mark.parametrize("name", ["date32", "date64", "timestamp[s]", "timestamp[ns]", "time32[ms]", "duration[us]"])
def test_times_keep_their_type(name: str) -> None:
    t = pa.type_for_alias(name)
    values = pa.array([86_400_000 * 2, None, 0, 86_400_000], pa.int64())
    values = (values.cast(pa.int32()) if t.bit_width == 32 else values).cast(t) if name != "time32[ms]" else pa.array(
        [2, None, 0, 1], pa.int32()).view(t)
    right = pa.table({"v": values, "t": [1, 2, 3, 4]})
    asked = {"lo": ("v", "min"), "hi": ("v", "max"), "f": ("v", "first"), "z": ("v", "last")}
    out = ivjoin.window_join(ONE, right, condition="r.t >= l.t", how="inner", aggregate=asked).read_all()
    assert {f.type for f in out.schema if f.name in asked} == {t}
    whole = pa.int64() if t.bit_width == 64 else pa.int32()
    ints = values.cast(whole).to_pylist()
    there = [v for v in ints if v is not None]
    got = [out[n].cast(whole)[0].as_py() for n in asked]
    assert got == [min(there), max(there), ints[0], ints[-1]]


def test_nan_is_the_greatest_and_stays_in_its_window() -> None:
    n = 2000
    x = np.arange(n, dtype=float)
    x[500], x[900], x[1300] = math.nan, math.inf, -math.inf
    right = pa.table({"t": np.arange(n), "x": x})
    left = pa.table({"t": np.arange(n)})
    asked = {"s": ("x", "sum"), "lo": ("x", "min"), "hi": ("x", "max")}
    for width in (3, 400):  # by ranges, by a tree
        out = ivjoin.window_join(
            left, right, condition=f"abs(l.t - r.t) <= {width}", left_order="t", right_order="t", how="inner",
            aggregate=asked,
        ).read_all().to_pylist()
        for row in out:
            window = x[max(0, row["t"] - width) : row["t"] + width + 1]
            numbers = window[~np.isnan(window)]
            if len(numbers) == len(window):
                assert row["hi"] == window.max()
            else:
                assert math.isnan(row["hi"])
            assert row["lo"] == numbers.min()
            with np.errstate(invalid="ignore"):
                total = float(window.sum())
            assert row["s"] == total or (math.isnan(total) and math.isnan(row["s"]))


def test_no_cancellation() -> None:
    n = 3000
    x = np.full(n, 1e-3)
    x[::1000] = 1e17
    table = pa.table({"t": np.arange(n), "x": x})
    out = ivjoin.window_join(
        table.select(["t"]), table, condition="abs(l.t - r.t) <= 2", left_order="t", right_order="t",
        how="inner", aggregate={"s": ("x", "sum")},
    ).read_all().to_pylist()  # fmt: skip
    for row in out:
        assert math.isclose(row["s"], math.fsum(x[max(0, row["t"] - 2) : row["t"] + 3]), rel_tol=1e-15)


def test_what_is_refused() -> None:
    right = pa.table({"t": [1], "s": ["x"], "l": pa.array([[1]]), "big": pa.array([None], pa.decimal256(60, 2))})
    for given, error, words in [
        ({"a": ("s", "sum")}, ivjoin.UnsupportedError, "sum"),
        ({"a": ("t", "mode")}, ivjoin.OptionError, "count, count_distinct, .*sum"),
        ({"a": ("mean", "t")}, ivjoin.OptionError, "the column comes first"),
        ({"a": ("*", "sum")}, ivjoin.OptionError, "only count"),
        ({"a": ("nope", "sum")}, ivjoin.ColumnError, "nope"),
        ({"i": ("t", "sum")}, ivjoin.SchemaError, "left column"),
        ({"a": 3}, ivjoin.OptionError, "a pair"), ({}, ivjoin.OptionError, "expected"),
        ([("a", "t", "sum")], ivjoin.OptionError, "expected"),
        ({"a": ("l", "max")}, ivjoin.UnsupportedError, "no order"),
        ({"a": ("big", "sum")}, ivjoin.UnsupportedError, "38 digits"),
        ({"a": ("l.i", "sum")}, ivjoin.IvjoinError, "l"),
    ]:
        with pytest.raises(error, match=words):
            ivjoin.window_join(ONE, right, condition="l.t = r.t", how="inner", aggregate=given)  # type: ignore[arg-type]
    for how in ("right", "full", "left_semi", "left_anti", "right_semi", "right_anti"):
        with pytest.raises(ivjoin.ConditionError, match="expected 'left', .*'inner'"):
            ivjoin.window_join(ONE, right, condition="l.t = r.t", how=how, aggregate={"n": ("*", "count")})


def test_an_error_in_an_aggregate_is_one_of_a_partner() -> None:
    right = pa.table({"t": [0, 50], "v": [1, 0]})
    asked = {"a": ("100 div r.v", "sum")}
    got = ivjoin.window_join(ONE, right, condition="l.t = r.t", how="inner", aggregate=asked).read_all()
    assert got["a"].to_pylist() == [100]
    with pytest.raises(ivjoin.EvaluationError, match="sum.*: .*division by zero"):
        ivjoin.window_join(ONE, right, condition="l.t <= r.t", how="inner", aggregate=asked).read_all()


def test_an_error_in_the_condition() -> None:
    left = pa.table({"t": [1, 2**63 - 1], "k": [1, 2]})
    right = pa.table({"t": [1, 2], "k": [1, 1]})
    asked = {"n": ("*", "count")}
    got = ivjoin.window_join(left, right, on="k", condition="l.t + 1 >= r.t", how="left", aggregate=asked).read_all()
    assert sorted(got["n"].to_pylist()) == [0, 2]
    with pytest.raises(ivjoin.EvaluationError):
        ivjoin.window_join(left, right, condition="l.t + 1 >= r.t", how="inner", aggregate=asked).read_all()


def test_a_right_row_whose_band_errs_waits_for_the_left_rows_that_are_there() -> None:
    s = pa.schema({"t": pa.int64()})
    op = ivjoin.SymmetricHashJoin(s, s, condition="-1 - r.t >= l.t", aggregate={"n": ("*", "count")})
    for _ in op.push("left", pa.record_batch({"t": [2**63 - 1]}, s)):
        pass
    # of -(-2**63) there is none, and no other row can match: nothing but the pair itself tells
    got = [*op.push("right", pa.record_batch({"t": [-(2**63), 0]}, s)), *op.finish()]
    assert [r for b in got for r in b.to_pylist()] == [{"t": 2**63 - 1, "n": 1}]


def test_a_key_that_has_erred_stays_out_of_a_restored_operator() -> None:
    s = pa.schema({"k": pa.int64(), "t": pa.int64()})
    op = ivjoin.SymmetricHashJoin(
        s, s, on="k", condition="CAST(l.t AS TINYINT) = r.t", how="left", aggregate={"n": ("*", "count")}
    )
    for _ in op.push("left", pa.record_batch({"k": [1, 2], "t": [300, 1]}, s)):
        pass
    op = ivjoin.SymmetricHashJoin.restore(op.snapshot())
    got = [*op.push("right", pa.record_batch({"k": [2, 2], "t": [5, 1]}, s)), *op.finish()]
    assert sorted(tuple(r.values()) for b in got for r in b.to_pylist()) == [(1, 300, 0), (2, 1, 1)]


S = pa.schema({"k": pa.int64(), "t": pa.int64()})
ASKED = {"n": ("*", "count"), "s": ("t", "sum")}


def batch(*rows: tuple[int, int]) -> pa.RecordBatch:
    return pa.record_batch({"k": [k for k, _ in rows], "t": [t for _, t in rows]}, S)


def operator(**options: Any) -> ivjoin.SymmetricHashJoin:
    return ivjoin.SymmetricHashJoin(
        S, S, **{"on": "k", "condition": "abs(l.t - r.t) <= 5", "left_order": "t", "right_order": "t", "how": "left",
                 "aggregate": ASKED} | options,
    )  # fmt: skip


def rows(out: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for b in out for r in b.to_pylist())


def test_row_is_emitted_when_no_later_row_can_match() -> None:
    op = operator()
    assert rows(op.push("left", batch((1, 10), (2, 12)))) == []
    assert rows(op.push("right", batch((1, 8), (1, 15)))) == []
    assert rows(op.push("right", batch((9, 16)))) == [(1, 10, 2, 23)]
    op = ivjoin.SymmetricHashJoin.restore(op.snapshot())
    assert rows(op.advance("right", {"t": 18})) == [(2, 12, 0, None)]
    assert rows(op.push("left", batch((1, 12)))) == [(1, 12, 2, 23)]
    assert rows(op.finish("right")) == []
    assert rows(op.push("left", batch((1, 30)))) == [(1, 30, 0, None)]
    assert rows(op.finish()) == []


def test_slack_and_late_rows() -> None:
    order = ivjoin.Order("t", slack=3)
    op = operator(right_order=order)
    op.push("left", batch((1, 10)))
    assert rows(op.push("right", batch((1, 18)))) == []
    assert rows(op.push("right", batch((1, 15), (1, 19)))) == [(1, 10, 1, 15)]
    with pytest.raises(ivjoin.LateRowError):
        op.push("right", batch((1, 15)))
    assert rows(op.push("right", batch((1, 16)))) == []  # a refused batch has changed nothing
    for on_late, seen in (("drop", (1, 22, 2, 45)), ("join", (1, 22, 3, 63))):
        op = operator(right_order=order, on_late=on_late)
        op.push("left", batch((1, 22)))
        out = rows(op.push("right", batch((1, 24)))) + rows(op.push("right", batch((1, 18), (1, 21))))
        op = ivjoin.SymmetricHashJoin.restore(op.snapshot())
        assert out + rows(op.finish()) == [seen]
        assert op.metrics.late_rows == 1


def test_the_state_is_the_window() -> None:
    op = operator(how="inner")
    n, window = 60_000, 11
    most = 0
    for start in range(0, n, 500):
        part = batch(*((t % 7, t) for t in range(start, start + 500)))
        for side in ("left", "right"):
            for _ in op.push(side, part):
                pass
            most = max(most, op.metrics.state_rows)
    assert most < 2 * 500 + 8 * window + 400
    assert op.metrics.state_bytes < 400_000


def test_unused_keys_are_released() -> None:
    text = pa.schema({"k": pa.string(), "t": pa.int64()})
    op = ivjoin.SymmetricHashJoin(
        text, text, on="k", condition="abs(l.t - r.t) <= 5", left_order="t", right_order="t", aggregate=ASKED
    )
    given = 0
    for start in range(0, 40_000, 1000):
        part = pa.record_batch({"k": [f"key {t}" for t in range(start, start + 1000)],
                                "t": list(range(start, start + 1000))}, text)  # fmt: skip
        for side in ("left", "right"):
            given += sum(b.num_rows for b in op.push(side, part))
    assert 39_900 < given <= 40_000
    assert op._engine.keys.used < 8000
    assert op.metrics.left_rows_retired > 38_000


def test_question_is_stored_and_read_again() -> None:
    op = operator(aggregate=ASKED | {"m": ("r.t * 2", "max")})
    spec = op.plan.spec
    again = JoinSpec.from_json(spec.as_json)
    assert again == spec
    assert [str(a) for a in again.aggregates] == ["n = count(*)", "s = sum(r.t)", "m = max(r.t * 2)"]
    assert "aggregates" not in JoinSpec((S, S)).as_json


def test_promises_that_come_later() -> None:
    s = pa.schema({"k": pa.int64(), "t": pa.int64(), "u": pa.int64()})
    op = ivjoin.SymmetricHashJoin(s, s, on="k", condition="l.t <= r.t AND l.u = r.u", how="left", aggregate=ASKED)
    one = pa.record_batch({"k": [1, 1], "t": [3, 4], "u": [1, 2]}, s)
    assert rows(op.push("left", one)) == []
    assert rows(op.push("right", one)) == []
    assert rows(op.advance("right", {"u": 2})) == [(1, 3, 1, 1, 3)]
    assert rows(op.finish()) == [(1, 4, 2, 1, 4)]


def test_the_greatest_view_of_left_rows_without_a_partner() -> None:
    left, right = pa.schema({"t": pa.int64()}), pa.schema({"t": pa.int64(), "w": pa.string_view()})
    op = ivjoin.SymmetricHashJoin(left, right, condition="l.t = r.t", aggregate={"m": ("w", "max")})
    list(op.push("left", pa.record_batch({"t": [1, 2]}, left)))
    assert rows(op.finish()) == []
