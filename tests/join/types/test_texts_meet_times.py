"""Text compares with times of any unit, and times past 2262 with nanoseconds: all as instants."""

from __future__ import annotations

import operator
import random
from datetime import UTC, datetime, time
from typing import Any

import oracle
import pyarrow as pa
import pytest

from ivjoin import EvaluationError, Order, band_join, multi_join
from ivjoin.stream.asof import asof_join

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
OPERATORS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
BASE = 1_704_067_200  # 2024-01-01


def texts(*values: str | None) -> pa.Table:
    return pa.table({"s": pa.array(values, pa.string())})


def times(unit: str, *seconds: int, zone: str | None = None) -> pa.Table:
    ticks = [s * 10**9 // NANOS[unit] for s in seconds]
    return pa.table({"t": pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, zone))})


def rows(left: Any, right: Any, condition: str | None = None, **options: Any) -> int:
    return band_join(left, right, condition=condition, **options).read_all().num_rows


def text_of(nanos: int) -> str:
    second, below = divmod(nanos, 10**9)
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%d %H:%M:%S}.{below:09}".rstrip("0").rstrip(".")


@pytest.mark.one_in(7)
@pytest.mark.parametrize("unit", NANOS)
@pytest.mark.parametrize("zone", [None, "UTC", "+02:00"])
def test_fraction_of_a_second_is_not_truncated_to_the_other_unit(unit: str, zone: str | None) -> None:
    base = BASE - (7200 if zone == "+02:00" else 0)
    options = {} if zone is None else {"timezone": zone}
    right = times(unit, base, zone=zone)
    for text in ("2024-01-01 00:00:00.9", "2024-01-01 00:00:00.0009", "2024-01-01T00:00:00.000001"):
        found = [rows(texts(text), right, f"l.s {op} r.t", **options) for op in OPERATORS]
        assert found == [0, 0, 0, 1, 1], text
        assert rows(texts(text), right, "r.t BETWEEN '2024-01-01' AND l.s", **options) == 1
        assert rows(texts(text), right, "coalesce(l.s, r.t) > r.t", **options) == 1
        assert rows(texts(text), right, "l.s IN (r.t, '2023-01-01')", **options) == 0
        assert rows(texts(text), right, "r.t IN (l.s, '2023-01-01')", **options) == 0
        assert rows(texts(text), right, f"r.t IN ('{text}', '2023-01-01')", **options) == 0
        assert rows(texts(text), right, f"r.t < '{text}'", **options) == 1
        assert rows(texts(text), right, "l.s - r.t > INTERVAL 0 SECONDS", **options) == 1
        assert rows(texts(text), right, on=[("s", "t")], **options) == 0
        assert rows(texts(text), right, "l.s = r.t", how="left_anti", **options) == 1
    assert rows(texts("2024-01-01 00:00:00.000"), right, on=[("s", "t")], **options) == 1
    assert rows(texts("2024-01-01"), right, "l.s = r.t AND r.t IN ('2024-01-01', '2024-01-02')", **options) == 1


def test_a_merged_key_keeps_the_fraction() -> None:
    left = texts("2024-01-01 00:00:00.25").rename_columns(["t"])
    out = band_join(left, times("s", BASE), on="t", how="full").read_all()
    assert out.schema.field("t").type == pa.timestamp("us")
    assert sorted(out["t"].to_pylist()) == [datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 250_000)]


@pytest.mark.parametrize(("unit", "make"), [("s", pa.time32), ("ms", pa.time32), ("us", pa.time64), ("ns", pa.time64)])
def test_times_of_day(unit: str, make: Any) -> None:
    right = pa.table({"t": pa.array([time(12)], make(unit))})
    for text in ("12:00:00.5", "12:00:00.0005", "12:00:00.0000005", "12:00:00.000000001"):
        assert [rows(texts(text), right, f"l.s {op} r.t") for op in OPERATORS] == [0, 0, 0, 1, 1], text
        assert rows(texts(text), right, f"r.t IN ('{text}', '11:00')") == 0
        assert rows(texts(text), right, on=[("s", "t")]) == 0
    assert rows(texts("12:00"), right, "l.s = r.t") == rows(texts("12:00"), right, "r.t IN ('12:00', '13:00')") == 1


@pytest.mark.one_in(11)
@pytest.mark.parametrize("how", ["inner", "left", "full", "left_anti", "right_semi"])
@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_texts_and_times_against_nested_loops(unit: str, how: str) -> None:
    rng = random.Random(f"{unit}{how}")
    step = 10**6 if unit == "ns" else 10**9 // 4
    ours = [BASE * 10**9 + rng.randrange(24) * step for _ in range(24)]
    theirs = sorted((BASE + rng.randrange(8)) * 10**9 if unit != "ns" else rng.choice(ours) for _ in range(24))
    left = pa.table({"i": range(24), "s": [text_of(n) for n in ours]})
    ticks = pa.array([n // NANOS[unit] for n in theirs], pa.int64())
    right = pa.table({"j": range(24), "t": ticks.cast(pa.timestamp(unit))})
    conditions = [
        *((f"l.s {op} r.t", lambda a, b, f=f: f(a[1], b[1])) for op, f in OPERATORS.items()),
        ("l.s BETWEEN r.t AND r.t + INTERVAL 1 SECOND", lambda a, b: b[1] <= a[1] <= b[1] + 10**9),
        ("r.t >= l.s AND CAST(r.t AS DATE) = CAST(l.s AS DATE)", lambda a, b: b[1] >= a[1]),
    ]
    pairs = list(enumerate(ours)), list(enumerate(theirs))
    out = [(i,) for i in range(24)]
    for condition, holds in conditions:
        expected = oracle.join(*pairs, how, condition=holds, left_out=out, right_out=out, widths=(1, 1))
        for size in (1, 7, 24):
            names = [n for n in ("i", "j") if not (how.startswith("left_") and n == "j")]
            names = [n for n in names if not (how.startswith("right_") and n == "i")]
            found = band_join(
                left, iter(right.to_batches(size)), condition=condition, how=how, right_order=Order("t"), columns=names
            ).read_all()
            assert oracle.Counter(zip(*(found[n].to_pylist() for n in names), strict=True)) == expected, condition


def test_three_inputs() -> None:
    one, two = texts("2024-01-01 00:00:00.9"), times("s", BASE)
    found = multi_join({"a": one, "b": two, "c": two}, "a.s > b.t AND b.t = c.t").read_all()
    assert found.num_rows == 1
    assert multi_join({"a": one, "b": two, "c": two}, "a.s = b.t AND b.t = c.t").read_all().num_rows == 0


# -- past the range of nanoseconds

HIGH = 2**63 - 1
FACTS = pa.table({"t": pa.array([BASE * 10**9, 0, HIGH], pa.timestamp("ns"))})
SPANS = pa.table({
    "a": pa.array([0], pa.timestamp("ns")), "b": pa.array([None], pa.timestamp("ns")),
    "x": ["9999-12-31 23:59:59.999"], "c": pa.array([datetime(9999, 12, 31)], pa.timestamp("us")),
})  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("end", [
    "coalesce(r.b, DATE '9999-12-31')", "coalesce(r.b, TIMESTAMP_NTZ '9999-12-31')", "coalesce(r.b, '9999-12-31')",
    "coalesce(r.b, r.x)", "coalesce(r.b, r.c)", "r.x", "r.c", "'9999-12-31 23:59:59.999999999'",
    "CASE WHEN r.b IS NULL THEN DATE '9999-12-31' ELSE r.b END", "greatest(r.a, DATE '9999-12-31')",
    "ifnull(r.b, DATE '9999-12-31')", "coalesce(r.b, coalesce(r.b, DATE '9999-12-31'))",
])  # fmt: skip
def test_an_end_that_nanoseconds_do_not_reach(end: str) -> None:
    assert rows(FACTS, SPANS, f"l.t >= r.a AND l.t < {end}") == 3
    assert rows(FACTS, SPANS, f"l.t BETWEEN r.a AND {end}") == 3
    assert rows(FACTS, SPANS, f"NOT (l.t > {end})") == 3
    assert rows(FACTS, SPANS, f"l.t = {end}") == rows(FACTS, SPANS, f"l.t >= {end}") == 0


def test_a_beginning_that_nanoseconds_do_not_reach() -> None:
    assert rows(FACTS, SPANS, "l.t > coalesce(r.b, DATE '0001-01-01')") == 3
    assert rows(FACTS, SPANS, "l.t > least(r.a, '0001-01-01')") == 3
    assert rows(FACTS, SPANS, "l.t IN ('9999-12-31', '1970-01-01')") == 1
    assert rows(FACTS, SPANS, "l.t IN (r.x, r.a)") == 1


@pytest.mark.parametrize("unit", ["us", "ms", "s", "day"])
@pytest.mark.parametrize("end", [
    "coalesce(r.b, '9999-12-31')", "coalesce(r.b, r.b, DATE '9999-12-31')",
    "CASE WHEN r.b IS NULL THEN '9999-12-31' ELSE r.b END",
])  # fmt: skip
@pytest.mark.parametrize("op", [*OPERATORS, "<=>"])
def test_coarser_times_match_an_end_outside_nanoseconds(unit: str, end: str, op: str) -> None:
    moments = [datetime(2024, 1, 1), datetime(2024, 1, 2), datetime(9000, 1, 1), datetime(9999, 12, 31), None]
    last = datetime(9999, 12, 31)
    kind = pa.date32() if unit == "day" else pa.timestamp(unit)
    left = pa.table({"t": pa.array(moments, pa.timestamp("us")).cast(kind)})
    right = pa.table({"b": pa.array([moments[0], moments[1], None], pa.timestamp("ns"))})
    compare = OPERATORS.get(op, operator.eq)
    pairs = [(t, b or last) for t in moments for b in right["b"].to_pylist()]
    assert rows(left, right, f"l.t {op} {end}") == sum(t is not None and compare(t, b) for t, b in pairs)
    assert rows(left, right, f"{end} {op} l.t") == sum(t is not None and compare(b, t) for t, b in pairs)
    assert rows(left, right, f"l.t {op} {end} AND '2030-01-01' < {end}") == sum(
        t is not None and compare(t, b) and b == last for t, b in pairs
    )


def test_intervals_that_both_end_openly() -> None:
    spans = pa.table({"a": pa.array([0, 10], pa.timestamp("ns")), "b": pa.array([10, None], pa.timestamp("ns"))})
    end = "coalesce({}.b, DATE '9999-12-31')"
    overlap = f"l.a < {end.format('r')} AND r.a < {end.format('l')}"
    assert rows(spans, spans, overlap) == 2
    assert rows(spans, spans, f"{end.format('l')} = {end.format('r')}") == 2


def test_two_times_past_the_range_that_may_differ_are_not_compared() -> None:
    with pytest.raises(EvaluationError, match=r"ends in the year 2262 .*AS TIMESTAMP_NTZ"):
        rows(FACTS.slice(0, 1), SPANS, "coalesce(r.b, r.x) > coalesce(l.t, r.c)")
    micros = "coalesce(CAST(r.b AS TIMESTAMP_NTZ), DATE '9999-12-31')"
    with pytest.raises(EvaluationError, match="2262"):
        rows(FACTS, SPANS, "coalesce(r.b, DATE '9999-12-31') + INTERVAL 0 SECONDS > l.t")
    assert rows(FACTS, SPANS, f"l.t < {micros}") == 3


def test_as_of_by_a_condition_with_an_open_end() -> None:
    left = times("ns", BASE, BASE + 5)
    right = pa.table({"t": pa.array([BASE + 1], pa.timestamp("s"))})
    assert asof_join(left, right, on="t", how="inner").read_all().num_rows == 1
    open_ended = pa.table({"t": pa.array([datetime(9999, 12, 31)], pa.timestamp("us"))})
    assert asof_join(left, open_ended, on="t", how="inner", direction="forward").read_all().num_rows == 2
